#![forbid(unsafe_code)]
//! The program: reads its command line and does what it says. See [`start`] for the way to a serving process and
//! [`service`] for how the pieces are put together.

mod aside;
mod cli;
mod condition;
mod data_path;
mod exporter;
mod features;
mod keywords;
mod limits;
mod listen;
mod load;
mod master;
mod old_process;
mod process;
mod program;
mod reload;
mod report;
mod service;
mod signals;
mod start;
mod state_dir;
mod stats_page;
mod stats_socket;
#[cfg(feature = "opentelemetry")]
mod telemetry;
mod tools;
mod version;
mod worker;

use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cli::{Command, CommandError, MasterMode, Shown};
use program::Program;
use thalweg_runtime::memory::WithReserve;
use thalweg_sys::dense::Dense;

use report::{Reporter, Verbosity, error_output, output};

#[global_allocator]
static ALLOCATOR: WithReserve<Dense<mimalloc::MiMalloc>> = WithReserve(Dense(mimalloc::MiMalloc));

/// Locks a mutex whatever happened to another thread that held it: what these mutexes guard is valid at any time.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let program = Program::from_arg0(arguments.next());
    let arguments: Vec<String> = arguments.collect();
    if let Some(code) = tools::run(&program, &arguments) {
        return code;
    }
    let command = match cli::parse(arguments) {
        Ok(command) => command,
        Err(error) => return refuse(&program, &error),
    };
    match command {
        // HAProxy has no such option, and scripts may rely on what it answers then.
        Command::Show(Shown::Help) if program.as_haproxy => {
            let asked = std::env::args().find(|a| matches!(a.as_str(), "-h" | "--help")).unwrap_or_default();
            refuse(&program, &CommandError::Usage(Some(cli::unknown(&asked))))
        }
        Command::Show(what) => {
            output(&match what {
                Shown::Version => version::version(&program),
                Shown::Build => version::build(&program),
                Shown::VersionOnly => version::version_only(&program),
                Shown::ShortVersion => version::short_version(&program),
                Shown::Branch => version::branch(&program),
                Shown::MemoryOptions => cli::MEMORY_HELP.to_string(),
                Shown::Help => cli::help(&program.name),
            });
            ExitCode::SUCCESS
        }
        Command::Condition(text) => {
            let mut reporter = Reporter::new(&program, Verbosity::default());
            condition::run(&text, &mut reporter)
        }
        Command::Start(options) => {
            let mut reporter = Reporter::new(&program, options.verbosity);
            if options.master == MasterMode::None || options.check {
                return start::run(&program, &options, None, &mut reporter);
            }
            match worker::Worker::from_environment() {
                Some(worker) => start::run(&program, &options, Some(worker), &mut reporter),
                None => master::run(&program, &options, &mut reporter),
            }
        }
    }
}

/// A command line that cannot be followed.
fn refuse(program: &Program, error: &CommandError) -> ExitCode {
    let mut reporter = Reporter::new(program, Verbosity::default());
    match error {
        CommandError::Usage(message) => {
            if message.is_some() {
                reporter.alert(&error.to_string());
            }
            error_output(format!("{}{}", version::version(program), cli::usage(&program.name)).as_bytes());
        }
        CommandError::Refused(message) => reporter.alert(message),
    }
    ExitCode::FAILURE
}
