//! How a master starts: the terminal left, signals, the master CLI and the first worker; or, where it was another program before,
//! with what that one had.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};

use thalweg_sys::process::{self as sys, Forked};
use thalweg_sys::signal::{self, SignalSet};

use super::notify::Notify;
use super::processes::{Inherited, Processes};
use super::{Event, HANDLED, Master, Shared, file_id, session, wait_in_thread};
use crate::cli::{MasterMode, Options, RunMode};
use crate::load;
use crate::process::PidFile;
use crate::program::Program;
use crate::report::Reporter;

/// What became of a start.
pub(super) enum Begun<'a> {
    /// The master watches over a worker that starts or serves.
    Serving(Box<Master<'a>>),
    /// This process only started the daemon.
    Launched(bool),
}

/// In one piece, as the order of steps is what matters.
pub(super) fn begin<'a>(
    program: &'a Program,
    options: &Options,
    reporter: &mut Reporter,
    inherited: Option<Inherited>,
) -> Result<Begun<'a>, ()> {
    let settings = load::process_settings(options);
    reporter.verbosity.quiet |= settings.quiet && !options.verbosity.verbose;
    let place = |path: &Path| options.directory.as_deref().unwrap_or(Path::new("")).join(path);
    let foreground = matches!(options.mode, RunMode::Foreground | RunMode::Debug);
    let mut daemon = !foreground && (options.mode == RunMode::Daemon || settings.daemon);
    let (mut launcher, mut processes, fresh) = (None, Processes::new(), inherited.is_none());
    let listeners = session::listen(options, inherited.as_ref().map(|had| &had.sockets[..]))
        .map_err(|message| reporter.alert(&message))?;
    match inherited {
        Some(had) => (processes, daemon) = (had.processes, had.daemon),
        None => {
            let path = options.pid_file.as_ref().or(settings.pidfile.as_ref());
            let pid_file = path.map(|path| PidFile::create(&place(path))).transpose();
            let pid_file = pid_file
                .map_err(|message| reporter.alert(&format!("[{}.main()] {message}", program.name)))?;
            if daemon {
                let forked = sys::nowhere().and_then(|null| Ok((null, sys::fork_daemon()?)));
                match forked {
                    Ok((_, Forked::Parent(child))) => return Ok(Begun::Launched(child.wait())),
                    Ok((null, Forked::Child(ready))) => launcher = Some((null, ready)),
                    Err(error) => {
                        cannot(reporter, "fork", &error);
                        return Err(());
                    }
                }
            }
            if let Some(Err(error)) = pid_file.map(PidFile::write) {
                reporter.warning(&format!("Cannot write the pid file : {error}."));
            }
        }
    }
    // Before any thread exists, and for all of them. From here on signals are instructions.
    let signals = SignalSet::block(&HANDLED).map_err(|error| cannot(reporter, "block signals", &error))?;
    signal::ignore_broken_pipes();
    let file = program_file(&program.path);
    let (events, received) = mpsc::channel();
    let shared = Arc::new(Shared {
        processes: Mutex::new(processes),
        version: program.version(),
        events: events.clone(),
        sockets: listeners.iter().map(|listener| (listener.name.clone(), listener.level)).collect(),
        environment: load::master_environment(options, listeners.iter().map(|listener| &*listener.name)),
        accepting: Mutex::new(()),
    });
    wait_in_thread("signals", move || {
        while let Ok(signal) = signals.wait() {
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    })
    .map_err(|error| cannot(reporter, "start a thread", &error))?;
    let mut listening = Vec::new();
    for listener in listeners {
        listening.push(Arc::clone(&listener.socket));
        session::serve(listener, &shared).map_err(|error| cannot(reporter, "start a thread", &error))?;
    }
    let mut master = Box::new(Master {
        program,
        reporter: reporter.heedless(),
        events: received,
        notify: match options.master {
            MasterMode::Notifying => Notify::from_environment(),
            _ => Notify::default(),
        },
        running: file_id(&file),
        file,
        listening,
        no_hand_over: options.refuses_listeners,
        daemon,
        launcher,
        starting: None,
        following: None,
        wanted: None,
        max_reloads: u32::MAX,
        stays: false,
        crashes: VecDeque::new(),
        revive_at: None,
        stopping: None,
        shared,
    });
    if fresh {
        master.start_worker(false, Vec::new(), String::new());
    } else {
        let workers: Vec<_> = master.known().workers.iter().map(|w| (w.pid, Arc::clone(&w.link))).collect();
        for (pid, link) in workers {
            master.listen_to(pid, link);
        }
        master.finish_reload();
    }
    Ok(Begun::Serving(master))
}

fn cannot(reporter: &mut Reporter, what: &str, error: &std::io::Error) {
    reporter.alert(&format!("Cannot {what} : {error}."));
}

/// Where the program is, whatever the current directory and the PATH become.
fn program_file(path: &str) -> PathBuf {
    let found = match path.contains('/') {
        true => Some(PathBuf::from(path)),
        false => std::env::var_os("PATH").and_then(|dirs| {
            std::env::split_paths(&dirs).map(|dir| dir.join(path)).find(|file| file.is_file())
        }),
    };
    let found = found.and_then(|path| std::path::absolute(path).ok());
    found.or_else(|| std::env::current_exe().ok()).unwrap_or_else(|| path.into())
}
