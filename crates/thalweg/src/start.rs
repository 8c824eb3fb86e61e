//! From a command line to a serving process: the order of the steps, and what each failure says.
//!
//! | Step | Why here |
//! |---|---|
//! | read and check the configuration | nothing has happened yet: a wrong file leaves no trace |
//! | raise limits, take over or open the listening sockets | needs privileges, and must fail where it is seen |
//! | create the pid file | before the root directory changes |
//! | become a daemon | only a process without threads may fork |
//! | tell the old processes | the new one now holds the sockets |
//! | enter the root directory, become the user | last thing done with privileges |
//! | start threads | the parent of a daemon exits now, with success |
//! | wait | signals decide |

use std::process::ExitCode;
use std::time::{Duration, Instant};

use thalweg_config::Config;
use thalweg_runtime::memory;
use thalweg_sys::dense::allocate_densely;
use thalweg_sys::process::{self as sys, Child, Forked};
use thalweg_sys::signal::{self, Signal, SignalSet};

use crate::cli::{Options, RunMode};
use crate::load::{self, Settings};
use crate::old_process;
use crate::process::{self, PidFile};
use crate::program::Program;
use crate::report::{Reporter, output, tell_of_panics};
use crate::service::Service;
use crate::worker::Worker;
use crate::{keywords, limits, signals, state_dir, tools};

/// Old processes get this long to let go of a port.
const BIND_PATIENCE: Duration = Duration::from_secs(1);
/// The ports are tried again after this time, then after twice of it, and so on up to the longest: clients are refused
/// from the moment that the old process lets go, which takes it less than a millisecond unless it is busy.
const BIND_DELAY_FIRST: Duration = Duration::from_micros(250);
const BIND_DELAY_LONGEST: Duration = Duration::from_millis(10);

/// Failed, and said why.
struct Failed;

/// Runs the command line to its end; as a worker, if a master started this process.
pub fn run(
    program: &Program,
    options: &Options,
    mut worker: Option<Worker>,
    reporter: &mut Reporter,
) -> ExitCode {
    let begun = Instant::now();
    // The first configuration goes one day, as those after it. With a limit of memory this thread serves.
    if options.memory_limit_mb.is_none_or(|mb| mb == 0) {
        allocate_densely();
    }
    let done = match prepare(program, options, worker.as_mut(), reporter) {
        Ok(Prepared::Done) => Ok(()),
        Ok(Prepared::Listening(service, settings, signals)) => {
            serve((program, begun), options, &mut worker, reporter, *service, &settings, signals)
        }
        Err(failed) => Err(failed),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed) => {
            if let Some(worker) = worker {
                worker.failed();
            }
            ExitCode::FAILURE
        }
    }
}

enum Prepared {
    Done,
    Listening(Box<Service>, Box<Settings>, SignalSet),
}

fn prepare(
    program: &Program,
    options: &Options,
    worker: Option<&mut Worker>,
    reporter: &mut Reporter,
) -> Result<Prepared, Failed> {
    // Only what serves is limited.
    if options.memory_limit_mb.is_some_and(|mb| mb > 0) && !options.check {
        limits::prepare_memory_limit(&program.path);
    }
    if let Some(directory) = &options.directory
        && let Err(error) = std::env::set_current_dir(directory)
    {
        let error = thalweg_syntax::source::os_message(&error);
        reporter.alert(&format!("Could not change to directory {} : {error}", directory.display()));
        return Err(Failed);
    }
    let Some((config, settings)) = load(options, reporter)? else {
        return Ok(Prepared::Done);
    };
    if settings.listeners == 0 {
        reporter.alert(&format!(
            "[{}.main()] No enabled listener found (check for 'bind' directives) ! Exiting.",
            program.path
        ));
        return Err(Failed);
    }
    apply_limits(&settings, program, options, reporter)?;
    if let Some(nice) = config.global.tune.renice_startup
        && let Err(error) = sys::set_nice(nice)
    {
        reporter.warning(&format!("'tune.renice.startup' : cannot set the nice value to {nice} : {error}."));
    }
    // From the moment clients can connect, a signal is an instruction and not the end of the process.
    let signals = SignalSet::block(&signals::HANDLED).map_err(|error| {
        reporter.alert(&format!("[{}.main()] Cannot block signals : {error}.", program.name));
        Failed
    })?;
    signal::ignore_broken_pipes();
    let service = listen(config, program, options, worker, reporter)?;
    Ok(Prepared::Listening(Box::new(service), Box::new(settings), signals))
}

/// Reads the configuration. `None` when it was only to be checked.
fn load(options: &Options, reporter: &mut Reporter) -> Result<Option<(Config, Settings)>, Failed> {
    let loaded = load::load(options);
    let settings = loaded.config.as_ref().map(load::settings);
    if settings.as_ref().is_some_and(|s| s.quiet) && !options.verbosity.verbose {
        reporter.verbosity.quiet = true;
    }
    let hint = if loaded.config.is_none() { tools::hint(&loaded.sources) } else { None };
    reporter.diagnostics(&loaded.diagnostics, &loaded.sources, options.diagnostic_mode, hint.as_deref());
    if !options.keyword_classes.is_empty() {
        output(&keywords::list(&options.keyword_classes));
    }
    let (Some(config), Some(settings)) = (loaded.config, settings) else { return Err(Failed) };
    if loaded.diagnostics.has_errors() {
        return Err(Failed);
    }
    if reporter.warned() && (options.zero_warning || settings.zero_warning) {
        reporter.alert("Some warnings were found and 'zero-warning' is set. Aborting.");
        return Err(Failed);
    }
    if !options.check {
        return Ok(Some((config, settings)));
    }
    if reporter.warned() && !reporter.verbosity.quiet {
        output("Warnings were found.\n");
    }
    if options.verbosity.verbose {
        output("Configuration file is valid\n");
    }
    Ok(None)
}

fn apply_limits(
    settings: &Settings,
    program: &Program,
    options: &Options,
    reporter: &mut Reporter,
) -> Result<(), Failed> {
    let demand = &settings.demand;
    if demand.automatic {
        reporter.notice(&format!("Automatically setting global.maxconn to {}.", demand.maxconn));
    }
    process::raise_file_limit(demand, settings.strict_limits, program, reporter).map_err(|()| Failed)?;
    if let Some(megabytes) = options.memory_limit_mb.filter(|mb| *mb > 0) {
        let bytes = megabytes.saturating_mul(1 << 20);
        match sys::set_memory_limit(bytes) {
            Ok(()) => memory::limit(bytes),
            Err(error) => reporter.warning(&format!(
                "[{}.main()] Cannot fix MEM limit to {megabytes} megs : {error}.",
                program.name
            )),
        }
    }
    Ok(())
}

/// Opens the listening sockets, asking old processes to let go of theirs if that is what prevents it.
fn listen(
    config: Config,
    program: &Program,
    options: &Options,
    worker: Option<&mut Worker>,
    reporter: &mut Reporter,
) -> Result<Service, Failed> {
    let mut service =
        Service::new(config, program).map_err(|messages| refuse_listeners(program, reporter, messages))?;
    let mut old: Vec<u32> = options.old_processes.iter().flat_map(|(_, pids)| pids).copied().collect();
    let mut predecessor = None;
    if let Some(worker) = worker {
        old.extend(&worker.old);
        predecessor = worker.predecessor.take();
    }
    let handed = match (predecessor, &options.listeners_from) {
        (Some(predecessor), _) => {
            // One that is about to end has none to give; then its ports are free, or it is asked to let go of them.
            Some(thalweg_sys::handover::fetch_over(predecessor).unwrap_or_default())
        }
        (None, Some(path)) => match old_process::take_listeners(path, reporter) {
            Ok(sockets) => Some(sockets),
            Err(()) => {
                service.abandon();
                return Err(Failed);
            }
        },
        (None, None) => None,
    };
    if let Some(sockets) = handed {
        service.use_handed(sockets);
    }
    let old = old.as_slice();
    if !old.is_empty() {
        service.expect_predecessor();
    }
    let mut failure = service.listen();
    let asked = failure.is_err() && !old.is_empty();
    if asked {
        // The port is probably theirs: "pause" first, "resume" if it did not help (management manual, chapter 4).
        old_process::tell(old, Signal::TerminalOutput);
        let (start, mut delay) = (Instant::now(), BIND_DELAY_FIRST);
        while failure.is_err() && start.elapsed() < BIND_PATIENCE {
            std::thread::sleep(delay);
            delay = (delay * 2).min(BIND_DELAY_LONGEST);
            failure = service.listen();
        }
    }
    match failure {
        Ok(()) => {
            service.warnings.drain(..).for_each(|message| reporter.warning(&message));
            Ok(service)
        }
        Err(messages) => {
            service.abandon();
            // Now that nothing of this process holds a port.
            if asked {
                old_process::tell(old, Signal::TerminalInput);
            }
            Err(refuse_listeners(program, reporter, messages))
        }
    }
}

fn refuse_listeners(program: &Program, reporter: &mut Reporter, messages: Vec<String>) -> Failed {
    for message in messages {
        reporter.alert(&message);
    }
    reporter.alert(&format!(
        "[{}.main()] Some protocols failed to start their listeners! Exiting.",
        program.name
    ));
    Failed
}

/// In one piece, as the order of steps is what matters.
fn serve(
    (program, begun): (&Program, Instant),
    options: &Options,
    worker: &mut Option<Worker>,
    reporter: &mut Reporter,
    mut service: Service,
    settings: &Settings,
    blocked: SignalSet,
) -> Result<(), Failed> {
    let fail = |reporter: &mut Reporter, message: String| {
        reporter.alert(&message);
        Failed
    };
    // The process that others know, and that leaves the terminal, is the master.
    let foreground = matches!(options.mode, RunMode::Foreground | RunMode::Debug) || worker.is_some();
    let daemon = !foreground && (options.mode == RunMode::Daemon || settings.daemon);
    // Whoever tries a configuration in the foreground must not overwrite the file of the process that serves it.
    let path = options.pid_file.as_ref().or(settings.pid_file.as_ref()).filter(|_| daemon);
    let pid_file = match path.map(|path| PidFile::create(path)).transpose() {
        Ok(pid_file) => pid_file,
        Err(message) => {
            service.abandon();
            return Err(fail(reporter, format!("[{}.main()] {message}", program.name)));
        }
    };
    if let Err(message) = process::check_root(&settings.privileges, program) {
        service.abandon();
        return Err(fail(reporter, message));
    }
    let state_dir = match settings.state_dir.as_deref().map(state_dir::open).transpose() {
        Ok(directory) => directory,
        Err(message) => {
            service.abandon();
            return Err(fail(reporter, format!("[{}.main()] {message}", program.name)));
        }
    };
    if let Some(directory) = &state_dir {
        service.restore_tables(directory).iter().for_each(|message| reporter.notice(message));
    }
    process::advise(&settings.privileges, program, reporter);
    let cannot_fork = |error| format!("[{}.main()] Cannot fork : {error}.", program.name);
    let (mut null, mut parent) = (None, None);
    if daemon || worker.as_ref().is_some_and(|worker| worker.daemon) {
        null = Some(sys::nowhere().map_err(|error| fail(reporter, cannot_fork(error)))?);
    }
    if daemon {
        match sys::fork_daemon() {
            Ok(Forked::Parent(child)) => return see_off(child, &blocked, reporter),
            Ok(Forked::Child(ready)) => parent = Some(ready),
            Err(error) => return Err(fail(reporter, cannot_fork(error))),
        }
    }
    if let Some(Err(error)) = pid_file.map(PidFile::write) {
        reporter.warning(&format!("[{}.main()] Cannot write the pid file : {error}.", program.name));
    }
    if let Some((how, pids)) = &options.old_processes {
        old_process::replace(*how, pids);
    }
    service.commit();
    let reloads = service.reload_settings();
    service.prepare_process().iter().for_each(|message| reporter.warning(message));
    if settings.privileges.root.is_some() {
        thalweg_cli::machine::remember();
    }
    let dropped = process::drop_privileges(&settings.privileges, program, state_dir.as_ref());
    if let Some(warning) = dropped.map_err(|message| fail(reporter, message))? {
        reporter.warning(&warning);
    }
    if options.verbosity.verbose || options.mode == RunMode::Debug {
        output(&format!("Using {} as the polling mechanism.\n", service.driver_name()));
    }
    let cannot =
        |what: &str, error: std::io::Error| format!("[{}.main()] Cannot {what} : {error}.", program.name);
    tell_of_panics();
    let running = service
        .start(worker.is_some(), options)
        .map_err(|error| fail(reporter, cannot("start threads", error)))?;
    if let Some(directory) = state_dir {
        state_dir::keep(directory, running.control())
            .map_err(|error| fail(reporter, cannot("keep what is in state-dir", error)))?;
    }
    let mut heedless = reporter.heedless();
    heedless.verbosity.quiet |= null.is_some();
    signals::start(blocked, running.control(), heedless, settings.stop_delays, worker.is_none())
        .map_err(|error| fail(reporter, cannot("wait for signals", error)))?;
    if let (Some(worker), Some(cli)) = (worker.take(), running.master_cli()) {
        worker
            .ready(program.version(), reloads, cli, running.handle())
            .map_err(|error| fail(reporter, cannot("reach the master process", error)))?;
    }
    if let Some(null) = null {
        // Whatever is said from here on goes to the logs.
        let _ = sys::close_terminal(null);
        reporter.verbosity.quiet = true;
    }
    if let Some(ready) = parent {
        ready.tell();
    }
    let started_ms = begun.elapsed().as_micros().div_ceil(1000);
    running.control().serves_after(u32::try_from(started_ms).unwrap_or(u32::MAX));
    let result = running.run();
    if let Some(signal) = signals::ended_by() {
        signal::die_by(signal);
    }
    result.map_err(|error| fail(reporter, cannot("run", error)))
}

/// Waits for the daemon's start, so that the exit status of this process says what became of it, and whoever waits for this
/// process finds its pid file written and its sockets served.
fn see_off(child: Child, blocked: &SignalSet, reporter: &mut Reporter) -> Result<(), Failed> {
    let pid = child.pid;
    // The child has its own copies: a signal to this process ends this process.
    blocked.unblock();
    if child.wait() {
        return Ok(());
    }
    reporter.alert(&format!("Process {pid} ended before it served: see its messages above."));
    Err(Failed)
}
