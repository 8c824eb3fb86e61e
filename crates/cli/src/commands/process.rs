//! The process: its version, its environment, and what the kernel knows about it.

use thalweg_config::model::CliLevel::{Operator, User};

use crate::command::{Call, Command, Run};
use crate::json::Shape;
use crate::machine;
use crate::output::Reply;
use crate::shown;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("show env", Operator, Run::Now(environment))
        .help("[var]", "list the environment of the process")
        .json(|_| Shape::Pairs)
        .master(),
    Command::new("show libs", Operator, Run::Now(|_| libraries()))
        .help("", "list the program and the libraries in memory")
        .json(|_| Shape::Lines),
    Command::new(
        "show startup-logs",
        Operator,
        Run::Now(|call| Reply::Text(call.cli().process.startup_log())),
    )
    .help("", "show what was said while starting")
    .json(|_| Shape::Lines)
    .master(),
    Command::new("show version", User, Run::Now(|call| Reply::info(call.cli().version.clone())))
        .help("", "show the version of this process")
        .json(|_| Shape::Value)
        .master(),
];

/// `show libs`: the first and last address of each file that is executed from, its size, and its name.
fn libraries() -> Reply {
    let maps = machine::read("/proc/self/maps");
    if maps.is_empty() {
        return Reply::error("The kernel does not say which files are in memory.");
    }
    let mut files: Vec<(&str, u64, u64, bool)> = Vec::new();
    for line in maps.lines() {
        let mut fields = line.split_whitespace();
        let (Some(range), Some(rights)) = (fields.next(), fields.next()) else { continue };
        let Some(name) = fields.nth(3).filter(|name| name.starts_with('/')) else { continue };
        let bounds = range.split_once('-').and_then(|(from, to)| {
            Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
        });
        let Some((from, to)) = bounds else { continue };
        let runs = rights.contains('x');
        match files.iter_mut().find(|file| file.0 == name) {
            Some(file) => *file = (name, file.1.min(from), file.2.max(to), file.3 | runs),
            None => files.push((name, from, to, runs)),
        }
    }
    let mut text = String::new();
    for (name, from, to, _) in files.iter().filter(|file| file.3) {
        text.push_str(&format!("{from:#014x}-{:#014x} ({:#09x}) {name}\n", to - 1, to - from));
    }
    Reply::Text(text)
}

/// `show env`.
fn environment(call: Call<'_>) -> Reply {
    let environment = &call.instance().config.environment;
    let shown = shown::environment(environment, call.args.first().copied());
    shown.map_or_else(|| Reply::error("Variable not found"), Reply::Text)
}
