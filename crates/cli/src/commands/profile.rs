//! What the threads do: the texts come from the runtime, the arguments are read here.

use thalweg_runtime::Profiling;
use thalweg_runtime::profile::{self, Order, ProfileOptions};

use crate::output::Reply;

/// `show activity`.
pub fn activity(args: &[&str]) -> Reply {
    let thread = match args.first() {
        None | Some(&"-1") => None,
        Some(text) => Some(text.parse::<usize>().unwrap_or(0).min(thalweg_runtime::thread_count())),
    };
    Reply::Text(profile::show_activity(thread, &[]))
}

/// `show profiling`.
pub fn show(args: &[&str]) -> Reply {
    let mut options = ProfileOptions::default();
    let (mut status, mut tasks) = (false, false);
    for arg in args {
        match *arg {
            "all" => (status, tasks) = (true, true),
            "status" => status = true,
            "tasks" => tasks = true,
            "byaddr" => options.order = Order::Address,
            "bytime" => options.order = Order::Time,
            "byctx" => options.order = Order::Context,
            "aggr" => options.aggregate = true,
            other => match other.parse() {
                Ok(lines) => options.lines_max = lines,
                Err(_) => {
                    return Reply::error(
                        "Expects either 'all', 'status', 'tasks', 'byaddr', 'bytime', 'byctx', 'aggr' or a max number of lines.",
                    );
                }
            },
        }
    }
    let all = !status && !tasks;
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
pub fn set(args: &[&str]) -> Reply {
    match args.first() {
        Some(&"tasks") => {}
        Some(&"memory") => {
            return Reply::error("'set profiling memory' is known, but not supported yet by this program.");
        }
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
pub fn pools(args: &[&str]) -> Reply {
    let prefix = args.iter().position(|arg| *arg == "match").and_then(|at| args.get(at + 1)).copied();
    Reply::Text(profile::show_pools(prefix.unwrap_or("")))
}
