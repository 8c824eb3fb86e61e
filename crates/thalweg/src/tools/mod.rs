//! The commands of the program that do not serve: `thalweg <command>`, for people who write configurations.
//!
//! A command is a [`Tool`]: its name, what follows it, what it does, and its function, in a file of its own. HAProxy has
//! none of them, so that they are there only under our own name.

mod commit;
mod explain;
mod fmt;
mod help;
mod lint;
mod plan;
mod top;
mod upgrade;

use std::io::Write as _;
use std::process::ExitCode;

use crate::program::Program;
use crate::report::{error_output, output};

pub use upgrade::hint;

/// See the module's documentation.
pub struct Tool {
    /// The word that selects it.
    pub name: &'static str,
    /// What may follow.
    pub arguments: &'static str,
    /// What it does, in one line.
    pub text: &'static str,
    /// The rest that `--help` shows.
    pub help: &'static str,
    /// What it does. An error is a command line that cannot be followed, or a file that cannot be read.
    pub run: fn(&Call<'_>) -> Result<ExitCode, String>,
}

/// A tool being run.
pub struct Call<'a> {
    /// Under which name the program was started.
    pub program: &'a Program,
    /// What follows its name.
    pub arguments: &'a [String],
}

/// Every tool, in the order in which `thalweg --help` lists them.
pub static TOOLS: &[Tool] = &[
    explain::EXPLAIN,
    explain::TEST,
    lint::TOOL,
    fmt::TOOL,
    upgrade::TOOL,
    plan::TOOL,
    commit::TOOL,
    top::TOOL,
    help::TOOL,
];

/// Runs the tool that the arguments begin with, if they begin with one.
pub fn run(program: &Program, arguments: &[String]) -> Option<ExitCode> {
    let (name, rest) = arguments.split_first().filter(|_| !program.as_haproxy)?;
    let tool = TOOLS.iter().find(|tool| tool.name == name)?;
    if rest.iter().any(|argument| matches!(argument.as_str(), "-h" | "--help")) {
        output(&format!("{}\n\n{}.\n{}", usage(program, tool), tool.text, tool.help));
        return Some(ExitCode::SUCCESS);
    }
    Some((tool.run)(&Call { program, arguments: rest }).unwrap_or_else(|error| {
        error_output(format!("{} {name}: {error}\n{}\n", program.name, usage(program, tool)).as_bytes());
        ExitCode::from(2)
    }))
}

fn usage(program: &Program, tool: &Tool) -> String {
    format!("Usage: {} {} {}", program.name, tool.name, tool.arguments)
}

impl Call<'_> {
    /// The arguments one by one.
    pub fn words(&self) -> Words<'_> {
        Words(self.arguments.iter())
    }
}

/// Arguments that are still to be read.
pub struct Words<'a>(std::slice::Iter<'a, String>);

impl<'a> Words<'a> {
    /// The next one.
    pub fn next(&mut self) -> Option<&'a str> {
        self.0.next().map(String::as_str)
    }

    /// What must follow an option.
    pub fn value(&mut self, option: &str, what: &str) -> Result<&'a str, String> {
        self.next().ok_or_else(|| format!("option '{option}' expects {what}"))
    }
}

/// A text as one word of a command of the CLI.
pub fn word(text: &str) -> String {
    let is_special = |c: char| matches!(c, ' ' | '\t' | '\n' | ';' | '\\' | '\'' | '"');
    text.chars().flat_map(|c| is_special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// The complaint about an argument that nobody knows.
pub fn unknown<T>(argument: &str) -> Result<T, String> {
    Err(crate::cli::unknown(argument))
}

/// The bytes of a file, or of the standard input for `-`.
pub fn read(path: &str) -> Result<Vec<u8>, String> {
    let bytes = if path == "-" {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    bytes.map_err(|error| format!("cannot read {path}: {}", thalweg_syntax::source::os_message(&error)))
}

/// The text of a configuration file; no such file has a NUL byte, and who names a program by mistake keeps it as it is.
pub fn read_text(path: &str) -> Result<Vec<u8>, String> {
    let text = read(path)?;
    match text.iter().position(|byte| *byte == 0) {
        Some(at) => {
            let line = 1 + text[..at].iter().filter(|byte| **byte == b'\n').count();
            Err(format!("{path} is no text file: line {line} has a NUL byte"))
        }
        None => Ok(text),
    }
}

/// Prints what was asked for. A reader that has seen enough (`| head`) is no error.
pub fn print(bytes: &[u8]) -> Result<(), String> {
    match std::io::stdout().write_all(bytes) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(format!("cannot write: {error}")),
        _ => Ok(()),
    }
}
