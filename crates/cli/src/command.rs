//! What a command is, and how one that was typed is found, permitted and run.
//!
//! A command is a [`Command`]: its words, its arguments, its help, its rights and its function, in the file of its family
//! below `commands/`. `help`, "did you mean" ([`crate::help`]), the check of rights, the dispatch and `-dKcli` all read
//! these entries, and nothing else lists commands.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use thalweg_config::model::CliLevel;
use thalweg_proxy::Instance;

use crate::json::{Converter, Shape};
use crate::output::{Level, Output, Reply};
use crate::session::{Input, Session};
use crate::transaction::is_change;
use crate::words::WORDS_MAX;
use crate::{Cli, Severity, commands, help};

/// See the module's documentation.
#[derive(Debug)]
pub struct Command {
    /// The words that select it.
    pub words: &'static str,
    /// What may follow them, as it is shown.
    pub arguments: &'static str,
    /// What it does, for people; `help` does not list a command without it.
    pub text: &'static str,
    /// The level it needs, as in the reference. Where its arguments decide, each of them is a command of its own.
    pub level: CliLevel,
    /// What must have been switched on before it, whatever the level.
    pub mode: Mode,
    /// It is a form of another command that needs another level, and no list has it.
    pub form: bool,
    /// Every list ends with it.
    pub always: bool,
    /// The reference's master process has it, too.
    pub master: bool,
    /// What its lines look like with these arguments, where `json` as the last one turns them into JSON; see [`crate::json`].
    pub shape: Option<fn(&[&str]) -> Shape>,
    /// What of it is refused or not known here, for docs/cli.md; empty for nothing.
    pub lacks: &'static str,
    /// It can be part of a transaction; see [`crate::transaction`].
    pub noted: bool,
    /// What it does.
    pub run: Run,
}

/// Whether a command works in every session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It does.
    Any,
    /// Only after `experimental-mode on`.
    Experimental,
    /// Only after `expert-mode on`.
    Expert,
}

/// What a command does.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// It answers at once.
    Now(fn(Call<'_>) -> Reply),
    /// It waits for something, or sends its answer piece by piece.
    Waiting(for<'a> fn(Call<'a>) -> Answer<'a>),
    /// Nothing: the reference has it, and what is named here is missing.
    Missing(&'static str),
}

/// What a command that waits will answer; an error when the client is gone.
pub type Answer<'a> = Pin<Box<dyn Future<Output = io::Result<Reply>> + 'a>>;

/// A command that is being run.
pub struct Call<'a> {
    /// The session that asks.
    pub session: &'a mut Session,
    /// Where an answer goes that is sent piece by piece.
    pub output: &'a mut Output,
    /// What the client sends meanwhile.
    pub input: &'a mut Input,
    /// What follows the words that select the command.
    pub args: &'a [&'a str],
    /// The lines that followed the command.
    pub payload: Option<&'a str>,
}

impl Call<'_> {
    /// What all sessions share.
    pub fn cli(&self) -> &Arc<Cli> {
        &self.session.cli
    }

    /// The answer is to be JSON: what matters to commands of the shape [`Shape::Own`], which write it themselves.
    pub fn wants_json(&self) -> bool {
        self.output.json.is_some()
    }

    /// The configuration that is in force, and its live state.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.session.instance
    }
}

impl Command {
    /// A command that `help` does not list.
    pub const fn new(words: &'static str, level: CliLevel, run: Run) -> Command {
        Command {
            words,
            arguments: "",
            text: "",
            level,
            mode: Mode::Any,
            form: false,
            always: false,
            master: false,
            shape: None,
            lacks: "",
            noted: false,
            run,
        }
    }

    /// The same, as `help` lists it.
    pub const fn help(self, arguments: &'static str, text: &'static str) -> Command {
        Command { arguments, text, ..self }
    }

    /// The same, in sessions that switched something on.
    pub const fn only(self, mode: Mode) -> Command {
        Command { mode, ..self }
    }

    /// A form of another command: see [`Command::form`].
    pub const fn form(self) -> Command {
        Command { form: true, ..self }
    }

    /// The same, at the end of every list.
    pub const fn always(self) -> Command {
        Command { always: true, ..self }
    }

    /// The same, known to the reference's master process, too.
    pub const fn master(self) -> Command {
        Command { master: true, ..self }
    }

    /// The same, with a JSON twin: see [`Command::shape`].
    pub const fn json(self, shape: fn(&[&str]) -> Shape) -> Command {
        Command { shape: Some(shape), ..self }
    }

    /// The same, without something that the reference's has: see [`Command::lacks`].
    pub const fn lacks(self, what: &'static str) -> Command {
        Command { lacks: what, ..self }
    }

    /// The same, as a part of transactions: see [`Command::noted`].
    pub const fn noted(self) -> Command {
        Command { noted: true, ..self }
    }

    /// Whether it does anything.
    pub fn works(&self) -> bool {
        !matches!(self.run, Run::Missing(_))
    }

    /// The number of words that select it.
    fn count(&self) -> usize {
        self.words.split(' ').count()
    }
}

/// Every command, by its words.
pub fn all() -> &'static [&'static Command] {
    static ALL: LazyLock<Vec<&Command>> = LazyLock::new(|| {
        let mut all: Vec<&Command> = commands::FAMILIES.iter().flat_map(|family| family.iter()).collect();
        all.sort_unstable_by_key(|command| command.words);
        all
    });
    &ALL
}

/// The command whose words are the first ones of `words`, and how many they are; the one with most words wins.
pub fn find(words: &[&str]) -> Option<(&'static Command, usize)> {
    let selects =
        |command: &Command| words.iter().copied().take(command.count()).eq(command.words.split(' '));
    let chosen = all().iter().filter(|command| selects(command)).max_by_key(|command| command.count())?;
    Some((chosen, chosen.count()))
}

/// Runs one command and appends its answer to `output`.
///
/// # Errors
/// The client is gone.
pub async fn run(
    session: &mut Session,
    output: &mut Output,
    input: &mut Input,
    words: &[&str],
    payload: Option<&str>,
) -> io::Result<()> {
    if words.is_empty() {
        return Ok(());
    }
    let reply = match permitted(session, words) {
        Err(reply) => reply,
        Ok((command, _)) if session.transaction.is_some() && is_change(command) => {
            note(session, command, words, payload)
        }
        Ok((command, count)) => {
            let mut args = &words[count..];
            if let (Some(shape), Some((&"json", before))) = (command.shape, args.split_last()) {
                // What commands before it on the line answered is no part of the document.
                output.flush().await?;
                args = before;
                output.json = Some(Converter::new(shape(args)));
            }
            let revision = session.cli.revision();
            let call = Call { session: &mut *session, output: &mut *output, input, args, payload };
            let reply = match command.run {
                Run::Now(run) => run(call),
                Run::Waiting(run) => {
                    let reply = run(call).await;
                    thalweg_runtime::set_nice(crate::NICE);
                    reply?
                }
                Run::Missing(what) => missing(command.words, what),
            };
            if is_change(command) && !matches!(reply, Reply::Message(Level::Error, _)) {
                session.cli.count_change(revision);
            }
            reply
        }
    };
    let severity = match (&reply, &output.json) {
        (Reply::Message(Level::Error | Level::Warning, _), _) => {
            // What failed is said as ever.
            output.json = None;
            session.severity
        }
        (_, Some(_)) => Severity::None,
        (_, None) => session.severity,
    };
    output.text.push_str(&reply.render(severity));
    output.end_json().await
}

/// Notes a command for later, if it can be.
fn note(session: &mut Session, command: &Command, words: &[&str], payload: Option<&str>) -> Reply {
    let Some(transaction) = session.transaction.as_mut() else { return Reply::Done };
    if !command.noted {
        let words = command.words;
        return Reply::error(format!("'{words}' cannot be part of a transaction: commit or abort it first."));
    }
    match transaction.note(words, payload) {
        Ok(count) => Reply::info(format!("Noted as change {count}.")),
        Err(why) => Reply::error(why),
    }
}

/// The answer to a command, or a part of one, that the reference has, and that needs what this program has not yet.
pub fn missing(words: &str, what: &str) -> Reply {
    Reply::error(format!("'{words}' is known, but not supported yet by this program: {what}."))
}

/// The command that a session asks for, and how many words select it; else what to answer.
fn permitted(session: &Session, words: &[&str]) -> Result<(&'static Command, usize), Reply> {
    if words.len() > WORDS_MAX {
        return Err(Reply::error(format!(
            "Too many arguments. Commands must have at most {WORDS_MAX} arguments."
        )));
    }
    let Some((command, count)) = find(words) else {
        let title = format!(
            "Unknown command: '{}', but maybe one of the following ones is a better match:",
            words[0]
        );
        return Err(Reply::info(help::list(&title, words, |mode| session.allows(mode))));
    };
    // In the reference's order: a mode that is off is what is said first, at any level.
    if !session.allows(command.mode) {
        let mode = if command.mode == Mode::Expert { "expert" } else { "experimental" };
        return Err(Reply::error(format!("This command is restricted to {mode} mode only.")));
    }
    if session.level < command.level {
        return Err(Reply::error("Permission denied"));
    }
    Ok((command, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_command_is_found() {
        for (text, expected) in [
            ("show info typed", Some(("show info", 2))),
            ("show servers state be", Some(("show servers state", 3))),
            ("clear counters all x", Some(("clear counters all", 3))),
            ("clear counters x", Some(("clear counters", 2))),
            ("show servers", None),
            ("quit", Some(("quit", 1))),
            ("show table", Some(("show table", 2))),
            ("", None),
        ] {
            let words: Vec<&str> = text.split(' ').filter(|w| !w.is_empty()).collect();
            assert_eq!(find(&words).map(|(c, n)| (c.words, n)), expected, "{text}");
        }
    }

    #[test]
    fn no_two_commands_have_the_same_words() {
        assert!(all().windows(2).all(|pair| pair[0].words < pair[1].words));
    }
}
