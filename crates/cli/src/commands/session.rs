//! Commands about the session itself, and small ones about the process.

use thalweg_config::model::{CliLevel, Proxy};
use thalweg_proxy::Instance;
use thalweg_runtime::clock;
use thalweg_syntax::{TimeUnit, parse_time};

use super::find_proxy;
use crate::output::{Output, Reply};
use crate::session::{Mode, Session};
use crate::{Cli, Severity};

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
pub fn prompt(session: &mut Session, args: &[&str]) -> Reply {
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
pub fn lower(session: &mut Session, level: CliLevel) -> Reply {
    session.level = session.level.min(level);
    if session.level < CliLevel::Admin {
        session.expert = false;
        session.experimental = false;
    }
    Reply::Done
}

/// `expert-mode`, `experimental-mode`.
pub fn switch(on: &mut bool, name: &str, args: &[&str]) -> Reply {
    match args.first() {
        None => return Reply::info(format!("{name} is {}", if *on { "ON" } else { "OFF" })),
        Some(&word) => *on = word == "on",
    }
    Reply::Done
}

/// `set severity-output`.
pub fn set_severity(session: &mut Session, args: &[&str]) -> Reply {
    session.severity = match args.first() {
        Some(&"none") => Severity::None,
        Some(&"number") => Severity::Number,
        Some(&"string") => Severity::Word,
        _ => return Reply::error("one of 'none', 'number', 'string' is a required argument"),
    };
    Reply::Done
}

/// `set timeout cli`.
pub fn set_timeout(output: &mut Output, args: &[&str]) -> Reply {
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
pub fn show_sockets(cli: &Cli) -> Reply {
    let mut text = String::from("# socket lvl processes\n");
    for socket in &cli.sockets {
        text.push_str(&format!("{} {} all\n", socket.name, crate::level_name(socket.level)));
    }
    Reply::Text(text)
}

/// `show env`.
pub fn show_env(args: &[&str]) -> Reply {
    match args.first() {
        Some(name) => match std::env::var_os(name) {
            Some(value) => Reply::Text(format!("{name}={}\n", value.to_string_lossy())),
            None => Reply::error("Variable not found"),
        },
        None => Reply::Text(
            std::env::vars_os()
                .map(|(name, value)| format!("{}={}\n", name.to_string_lossy(), value.to_string_lossy()))
                .collect(),
        ),
    }
}

/// `show errors`: messages that were not understood are not kept yet, so there are none.
pub fn show_errors(instance: &Instance, args: &[&str]) -> Reply {
    let any: fn(&Proxy) -> bool = |_| true;
    if let Some(name) = args.first().filter(|name| !matches!(**name, "request" | "response" | "-1"))
        && find_proxy(instance, name, any).is_none()
        && name.parse::<u32>().is_err()
    {
        return Reply::error("No such proxy.");
    }
    let now_us = clock::wall_us();
    let at = thalweg_sys::time::local(i64::try_from(now_us / 1_000_000).unwrap_or(0));
    let month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        .get(usize::from(at.month.saturating_sub(1)))
        .copied()
        .unwrap_or("Jan");
    Reply::Text(format!(
        "Total events captured on [{:02}/{month}/{:04}:{:02}:{:02}:{:02}.{:03}] : 0\n",
        at.day,
        at.year,
        at.hour,
        at.minute,
        at.second,
        now_us / 1000 % 1000
    ))
}
