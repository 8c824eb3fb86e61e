//! What the threads do: the texts come from the runtime, the arguments are read here.

use thalweg_config::model::CliLevel::{Admin, Operator, User};
use thalweg_runtime::Profiling;
use thalweg_runtime::profile::{self, Order, ProfileOptions};

use crate::command::{Command, Run};
use crate::json::Shape;
use crate::output::Reply;
use crate::twins;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("set profiling", Admin, Run::Now(|call| set(call.args)))
        .help("<what> {auto|on|off}", "switch the measurement of tasks")
        .lacks("memory"),
    Command::new("show activity", Operator, Run::Now(|call| activity(call.args)))
        .help("[-1|0|thread_num]", "show what each thread did (for developers)")
        .json(|_| Shape::Pairs),
    Command::new("show pools", User, Run::Now(|call| twins::of(&call, pools(call.args), twins::pools)))
        .help("[by*] [match <pfx>] [nb]", "show what the memory pools hold")
        .json(|_| Shape::Own),
    Command::new(
        "show profiling",
        Admin,
        Run::Now(|call| twins::of(&call, show(call.args), twins::profiling)),
    )
    .help("[<what>|<#lines>|<opts>]*", "show what each kind of task costs")
    .json(|_| Shape::Own),
    Command::new(
        "show tasks",
        User,
        Run::Waiting(|call| {
            Box::pin(async move {
                let text = Reply::Text(profile::show_tasks().await);
                Ok(twins::of(&call, text, twins::tasks))
            })
        }),
    )
    .help("", "show the tasks that wait for a thread")
    .json(|_| Shape::Own),
    Command::new(
        "show threads",
        User,
        Run::Waiting(|call| {
            Box::pin(async move {
                let text = Reply::Text(profile::show_threads().await);
                Ok(twins::of(&call, text, twins::threads))
            })
        }),
    )
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

/// `show profiling`.
fn show(args: &[&str]) -> Reply {
    let mut options = ProfileOptions::default();
    let (mut status, mut tasks, mut memory) = (false, false, false);
    for arg in args {
        match *arg {
            "all" => (status, tasks) = (true, true),
            "status" => status = true,
            "tasks" => tasks = true,
            // There is nothing to show of it, as in a reference without it.
            "memory" => memory = true,
            "byaddr" => options.order = Order::Address,
            "bytime" => options.order = Order::Time,
            "byctx" => options.order = Order::Context,
            "aggr" => options.aggregate = true,
            other => match other.parse() {
                Ok(lines) => options.lines_max = lines,
                Err(_) => {
                    return Reply::error(
                        "Expects either 'all', 'status', 'tasks', 'memory', 'byaddr', 'bytime', 'byctx', 'aggr' or a max number of \
                         output lines.",
                    );
                }
            },
        }
    }
    let all = !status && !tasks && !memory;
    let mut text = String::new();
    if status || all {
        text.push_str(&profile::show_profiling_status());
    }
    if tasks || all {
        text.push_str(&profile::show_profiling_tasks(options));
    }
    Reply::Text(text)
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

/// `show pools`.
fn pools(args: &[&str]) -> Reply {
    let (mut prefix, mut order, mut lines_max) = ("", None, usize::MAX);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            // Every line is detailed.
            "detailed" => {}
            "byname" | "bysize" | "byusage" => order = Some(*arg),
            "match" if args.len() > 0 => prefix = args.next().copied().unwrap_or(""),
            number if number.parse::<usize>().is_ok() => lines_max = number.parse().unwrap_or(lines_max),
            _ => {
                return Reply::error(
                    "Expects either 'byname', 'bysize', 'byusage', 'match <pfx>', 'detailed', or a max number of output \
                     lines.",
                );
            }
        }
    }
    let text = profile::show_pools(prefix);
    let (mut lines, others): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("  - "));
    // The sizes in a line: of an object, and of all that are allocated.
    let size = |line: &str, nth: usize| -> u64 {
        let sizes = line.split('(').skip(1).filter_map(|part| part.split_once(" bytes)"));
        sizes.filter_map(|(size, _)| size.parse().ok()).nth(nth).unwrap_or(0)
    };
    match order {
        Some("byname") => lines.sort_unstable(),
        Some("bysize") => lines.sort_by_key(|line| std::cmp::Reverse(size(line, 0))),
        Some(_) => lines.sort_by_key(|line| std::cmp::Reverse(size(line, 1))),
        None => {}
    }
    lines.truncate(lines_max);
    // A title, the pools, their sum.
    let (title, sum) = others.split_at(others.len().min(1));
    let all = title.iter().chain(&lines).chain(sum);
    Reply::Text(all.map(|line| format!("{line}\n")).collect())
}
