//! Commands about the session itself.

use thalweg_config::model::CliLevel::{self, Admin, Operator, User};
use thalweg_syntax::{TimeUnit, parse_time};

use crate::command::{Call, Command, Run};
use crate::json::Shape;
use crate::output::{Output, Reply};
use crate::session::{End, Mode, Session};
use crate::{Cli, Severity, help, shown};

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("help", User, Run::Now(list))
        .help("[<command>]", "list all commands, or those that look like one")
        .always()
        .master(),
    Command::new("prompt", User, Run::Now(|call| prompt(call.session, call.args)))
        .help("[help | n | i | p | timed ]*", "go on after each line, with or without a prompt")
        .always()
        .master(),
    Command::new(
        "quit",
        User,
        Run::Now(|call| {
            call.session.end = Some(End::Closed);
            Reply::Done
        }),
    )
    .help("", "end the session")
    .always()
    .master(),
    Command::new(
        "_getsocks",
        User,
        Run::Now(|call| {
            call.session.end = Some(End::HandListeners);
            Reply::Done
        }),
    ),
    Command::new("user", User, Run::Now(|call| lower(call.session, User)))
        .help("", "go on with the rights of a user")
        .master(),
    Command::new("operator", Operator, Run::Now(|call| lower(call.session, Operator)))
        .help("", "go on with the rights of an operator")
        .master(),
    Command::new(
        "expert-mode",
        Admin,
        Run::Now(|call| switch(&mut call.session.expert, "expert-mode", call.args)),
    )
    .master(),
    Command::new(
        "experimental-mode",
        Admin,
        Run::Now(|call| switch(&mut call.session.experimental, "experimental-mode", call.args)),
    )
    .master(),
    Command::new("set severity-output", User, Run::Now(|call| set_severity(call.session, call.args)))
        .help("[none|number|string]", "show how serious a message is"),
    Command::new("set timeout", User, Run::Now(|call| set_timeout(call.output, call.args)))
        .help("[cli] <delay>", "change the timeout of this session"),
    Command::new("show cli level", User, Run::Now(|call| Reply::info(crate::level_name(call.session.level))))
        .help("", "show the rights of this session")
        .json(|_| Shape::Value)
        .master(),
    Command::new("show cli sockets", User, Run::Now(|call| show_sockets(call.cli())))
        .help("", "list the sockets of the CLI")
        .json(|_| Shape::Table)
        .master(),
    Command::new("echo", User, Run::Now(|call| Reply::info(call.args.join(" "))))
        .help("<text>", "answer with a text")
        .master(),
];

/// `help`.
fn list(call: Call<'_>) -> Reply {
    let title = "The following commands are valid at this level:";
    Reply::info(help::list(title, call.args, |mode| call.session.allows(mode)))
}

const PROMPT_HELP: &str = "Usage: prompt [help | n | i | p | timed]*
Decides how the session goes on after a line:
  help    show this
  n       end after one line
  i       go on, without a prompt
  p       go on, with a prompt
  timed   show the uptime in the prompt, or stop showing it
Without an argument, n and i become p, and p becomes n.
";

/// `prompt`.
fn prompt(session: &mut Session, args: &[&str]) -> Reply {
    if args.is_empty() {
        session.mode = if session.mode == Mode::Prompt { Mode::Single } else { Mode::Prompt };
    }
    // Who wants to see the time in the prompt wants a prompt.
    if args.contains(&"timed") && !args.iter().any(|arg| matches!(*arg, "n" | "i" | "p")) {
        session.mode = Mode::Prompt;
    }
    for arg in args {
        match *arg {
            "n" => session.mode = Mode::Single,
            "i" => session.mode = Mode::Interactive,
            "p" => session.mode = Mode::Prompt,
            "timed" => session.timed = !session.timed,
            _ => return Reply::error(PROMPT_HELP),
        }
    }
    Reply::Done
}

/// `user`, `operator`: rights are only ever given up.
fn lower(session: &mut Session, level: CliLevel) -> Reply {
    session.level = session.level.min(level);
    if session.level < CliLevel::Admin {
        session.expert = false;
        session.experimental = false;
    }
    Reply::Done
}

/// `expert-mode`, `experimental-mode`.
fn switch(on: &mut bool, name: &str, args: &[&str]) -> Reply {
    match args.first() {
        None => return Reply::info(format!("{name} is {}", if *on { "ON" } else { "OFF" })),
        Some(&word) => *on = word == "on",
    }
    Reply::Done
}

/// `set severity-output`.
fn set_severity(session: &mut Session, args: &[&str]) -> Reply {
    session.severity = match args.first() {
        Some(&"none") => Severity::None,
        Some(&"number") => Severity::Number,
        Some(&"string") => Severity::Word,
        _ => return Reply::error("one of 'none', 'number', 'string' is a required argument"),
    };
    Reply::Done
}

/// `set timeout cli`.
fn set_timeout(output: &mut Output, args: &[&str]) -> Reply {
    if args.first() != Some(&"cli") {
        return Reply::error("'set timeout' only supports 'cli'.");
    }
    let Some(text) = args.get(1) else { return Reply::error("Expects an integer value.") };
    match parse_time(text, TimeUnit::Seconds, TimeUnit::Milliseconds) {
        Ok(ms) if ms > 0 => {
            output.timeout_ms = Some(ms);
            Reply::Done
        }
        _ => Reply::error("Invalid timeout value."),
    }
}

/// `show cli sockets`.
fn show_sockets(cli: &Cli) -> Reply {
    let lines: Vec<_> = cli.doors.all().iter().map(|door| door.line()).collect();
    Reply::Text(shown::sockets(lines.iter().map(|line| (&*line.name, line.level))))
}
