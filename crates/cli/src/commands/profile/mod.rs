//! What the threads do: values come from the runtime; arguments are read here, and lines and JSON are made of the values.

mod costs;
mod pools;
mod tasks;
mod threads;

use thalweg_config::model::CliLevel::{Admin, Operator, User};
use thalweg_runtime::Profiling;
use thalweg_runtime::profile;

use crate::command::{Command, Run};
use crate::json::Shape;
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("set profiling", Admin, Run::Now(|call| set(call.args)))
        .help("<what> {auto|on|off}", "switch the measurement of tasks")
        .lacks("memory"),
    Command::new("show activity", Operator, Run::Now(|call| activity(call.args)))
        .help("[-1|0|thread_num]", "show what each thread did (for developers)")
        .json(|_| Shape::Pairs),
    Command::new("show pools", User, Run::Now(|call| pools::show(&call)))
        .help("[by*] [match <pfx>] [nb]", "show what the memory pools hold")
        .json(|_| Shape::Own),
    Command::new("show profiling", Admin, Run::Now(|call| costs::show(&call)))
        .help("[<what>|<#lines>|<opts>]*", "show what each kind of task costs")
        .json(|_| Shape::Own),
    Command::new("show tasks", User, Run::Waiting(|call| Box::pin(tasks::show(call))))
        .help("", "show the tasks that wait for a thread")
        .json(|_| Shape::Own),
    Command::new("show threads", User, Run::Waiting(|call| Box::pin(threads::show(call))))
        .help("", "show what each thread does now")
        .json(|_| Shape::Own),
];

/// `show activity`.
fn activity(args: &[&str]) -> Reply {
    let thread = match args.first() {
        None | Some(&"-1") => None,
        Some(text) => Some(text.parse::<usize>().unwrap_or(0).min(thalweg_runtime::thread_count())),
    };
    Reply::Text(profile::show_activity(thread, &[]))
}

/// `set profiling`.
fn set(args: &[&str]) -> Reply {
    match args.first() {
        Some(&"tasks") => {}
        Some(&"memory") => return Reply::error("Memory profiling not compiled in."),
        _ => return Reply::error("Expects either 'tasks' or 'memory'."),
    }
    let mut mode = None;
    for arg in &args[1..] {
        mode = match *arg {
            "on" => Some(Profiling::On),
            "auto" => Some(Profiling::Auto),
            "off" => Some(Profiling::Off),
            // What these would measure does not exist here: there are no locks to wait for.
            "lock" | "no-lock" | "memory" | "no-memory" => mode,
            _ => None,
        };
        if mode.is_none() {
            break;
        }
    }
    let Some(mode) = mode else {
        return Reply::error(
            "Expects a combination of either 'on', 'auto', 'off', 'lock', 'no-lock', 'memory' or 'no-memory'.",
        );
    };
    profile::set_profiling(mode);
    Reply::Done
}

/// A time as the reference shows it; nothing for none.
fn time_or_none(ns: u64) -> String {
    if ns == 0 { "   -   ".into() } else { format!("{:<7}", short_time(ns)) }
}

/// Four digits and a unit.
fn short_time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => (ns as f64, "ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        1_000_000_000..60_000_000_000 => (ns as f64 / 1e9, "s"),
        60_000_000_000..3_600_000_000_000 => (ns as f64 / 60e9, "m"),
        _ => (ns as f64 / 3600e9, "h"),
    };
    let places = match value {
        v if ns < 1000 && v >= 100.0 => 1,
        v if v < 10.0 => 3,
        v if v < 100.0 => 2,
        v if v < 1000.0 => 1,
        _ => 0,
    };
    format!("{value:.places$}{unit}")
}

/// A time that is known, in nanoseconds.
fn known(ns: u64) -> Option<u64> {
    (ns > 0).then_some(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_four_digits() {
        for (ns, text) in [
            (7, "7.000ns"),
            (467, "467.0ns"),
            (1_432, "1.432us"),
            (24_910, "24.91us"),
            (178_300, "178.3us"),
            (8_570_000, "8.570ms"),
            (644_400_000, "644.4ms"),
            (1_590_000_000, "1.590s"),
            (34_360_000_000, "34.36s"),
            (90_000_000_000, "1.500m"),
            (7_200_000_000_000, "2.000h"),
        ] {
            assert_eq!(short_time(ns), text);
        }
    }
}
