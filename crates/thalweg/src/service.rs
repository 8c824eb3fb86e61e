//! The service: first prepared, then listening, then running. Here the configuration, the runtime and the data path
//! are put together.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use thalweg_config::Config;
use thalweg_config::model::IoDriver;
use thalweg_runtime::buffer::BufferConfig;
use thalweg_runtime::driver::{Driver, DriverKind, DriverOptions};
use thalweg_runtime::{CpuSet, Handle, Profiling, Runtime};
use thalweg_sys::handover::{HandedSocket, SocketToHand};

use crate::data_path::DataPath;
use crate::listen::{self, Backups, Handed, OpenListener, ThreadListener};
use crate::program::Program;
use crate::stats_socket::{self, CliListener, SharedSockets};

/// Names the I/O driver to use in place of the configured one (`auto`, `io_uring`, `epoll`): the test suites run on
/// both with the same files.
const DRIVER_VARIABLE: &str = "THALWEG_IO_DRIVER";

/// A configuration on its way to being served.
pub struct Service {
    config: Config,
    handed: Handed,
    opened: Vec<OpenListener>,
    cli: Option<Vec<CliListener>>,
    /// What was left out of the listening sockets because the kernel refused it.
    pub warnings: Vec<String>,
    /// Unix sockets of the previous process, until it is certain that this one replaces it.
    backups: Option<Backups>,
    program: Program,
}

impl Service {
    /// Prepares to serve a configuration: takes over inherited sockets. On failure, one message for each.
    pub fn new(config: Config, program: &Program) -> Result<Service, Vec<String>> {
        let mut opened = Vec::new();
        listen::inherit(&config, &mut opened)?;
        let backups = Some(Backups::make(&config));
        Ok(Service {
            config,
            handed: Handed::default(),
            opened,
            cli: None,
            warnings: Vec::new(),
            backups,
            program: program.clone(),
        })
    }

    /// Uses the sockets another process handed over where they fit.
    pub fn use_handed(&mut self, sockets: Vec<HandedSocket>) {
        self.handed = Handed::new(sockets);
    }

    /// Opens the sockets that are not open yet. On failure, one message for each; it can be called again.
    pub fn listen(&mut self) -> Result<(), Vec<String>> {
        listen::open(&self.config, &mut self.handed, &mut self.opened, &mut self.warnings)?;
        if self.cli.is_none() {
            self.cli = Some(listen::open_cli(&self.config, &mut self.handed)?);
        }
        Ok(())
    }

    /// The start failed: leaves the sockets of the previous process where they were.
    pub fn abandon(mut self) {
        if let Some(backups) = self.backups.take() {
            backups.restore();
        }
    }

    /// From here on the sockets are there to stay.
    pub fn commit(&mut self) {
        if let Some(backups) = self.backups.take() {
            backups.discard();
        }
        // Sockets that were handed over and that no bind wants are closed.
        self.handed = Handed::default();
    }

    /// What the `global` section asks of the process itself, done while there are privileges. One message for each
    /// thing that could not be done.
    pub fn prepare_process(&self) -> Vec<String> {
        let global = &self.config.global;
        let mut failures = Vec::new();
        if let Some(nice) = global.tune.renice_runtime
            && let Err(error) = thalweg_sys::process::set_nice(nice)
        {
            failures.push(format!("'tune.renice.runtime' : cannot set the nice value to {nice} : {error}."));
        }
        if global.prealloc_fd {
            let allocated = thalweg_sys::process::file_limit()
                .and_then(|limit| thalweg_sys::process::allocate_file_table(limit.soft));
            if let Err(error) = allocated {
                failures.push(format!("'prealloc-fd' : cannot allocate the table of files : {error}."));
            }
        }
        failures
    }

    /// How bytes will be moved.
    pub fn driver_name(&self) -> &'static str {
        let opened = Driver::new(driver_kind(&self.config), &DriverOptions::default());
        opened.map_or("no driver", |driver| driver.kind_name())
    }

    /// Starts the threads. The last one begins with [`Running::run`].
    pub fn start(self) -> io::Result<Running> {
        let threads = self.config.global.nbthread.max(1);
        let settings = runtime_settings(&self.config);
        let shared = Arc::new(Mutex::new(listen::share(&self.opened, &self.config)?));
        let cli_listeners = self.cli.unwrap_or_default();
        let mut sockets: Vec<Option<Vec<ThreadListener>>> =
            listen::distribute(self.opened, &self.config, threads)?.into_iter().map(Some).collect();
        sockets.resize_with(threads, || None);
        let sockets = Mutex::new(sockets);
        let data_path = DataPath::new(self.config, &self.program.name);
        let path = data_path.clone();
        let (cli, cli_sockets) =
            stats_socket::prepare(data_path.instance(), &self.program, cli_listeners, &shared);
        // One thread accepts for each CLI socket: there is little to share.
        let mut cli_sockets_of: Vec<Vec<(usize, OwnedFd)>> = Vec::new();
        cli_sockets_of.resize_with(threads, Vec::new);
        for (number, fd) in cli_sockets.into_iter().enumerate() {
            cli_sockets_of[number % threads].push((number, fd));
        }
        let cli_sockets_of = Mutex::new(cli_sockets_of);
        let variables = Once::new();
        let runtime = Runtime::start(settings, move |thread| {
            let taken = crate::locked(&sockets).get_mut(thread).and_then(Option::take);
            path.start_thread(thread, taken.unwrap_or_default());
            // Before this thread serves anything, whichever thread comes first.
            variables.call_once(thalweg_cli::variables::set_configured_here);
            let taken = crate::locked(&cli_sockets_of).get_mut(thread).map(std::mem::take);
            thalweg_cli::start_thread(&cli, taken.unwrap_or_default());
        })?;
        let control = Control(Arc::new(ControlInner { data_path, handle: runtime.handle(), shared }));
        Ok(Running { runtime, control })
    }
}

fn driver_kind(config: &Config) -> DriverKind {
    match std::env::var(DRIVER_VARIABLE).as_deref() {
        Ok("epoll") => DriverKind::Epoll,
        Ok("io_uring") => DriverKind::Uring,
        Ok("auto") => DriverKind::Auto,
        _ => match config.global.io_driver {
            IoDriver::Uring => DriverKind::Uring,
            IoDriver::Epoll => DriverKind::Epoll,
            IoDriver::Auto if config.global.noepoll => DriverKind::Uring,
            IoDriver::Auto => DriverKind::Auto,
        },
    }
}

fn runtime_settings(config: &Config) -> thalweg_runtime::Config {
    let global = &config.global;
    let tune = &global.tune;
    let threads = global.nbthread.max(1);
    let mut settings = thalweg_runtime::Config {
        threads,
        cpus: global
            .cpu_map
            .iter()
            .map(|cpus| cpus.as_ref().map(|cpus| cpus.iter().copied().collect::<CpuSet>()))
            .collect(),
        driver: driver_kind(config),
        buffers: BufferConfig {
            size: tune.bufsize,
            // A limit for the process is divided among its threads; 0 is no limit and must stay 0.
            limit: tune.buffers_limit.div_ceil(threads),
            reserve: tune.buffers_reserve,
        },
        low_latency: tune.sched_low_latency,
        busy_polling: global.busy_polling,
        profiling: match global.profiling_tasks {
            None => Profiling::Auto,
            Some(true) => Profiling::On,
            Some(false) => Profiling::Off,
        },
        ..thalweg_runtime::Config::default()
    };
    settings.budget = Some(Duration::from_millis(u64::from(global.warn_blocked_ms.max(1))));
    thalweg_runtime::net::transfer::set_pipe_limits(tune.pipesize, global.maxpipes);
    if tune.runqueue_depth > 0 {
        settings.runqueue_depth = tune.runqueue_depth;
    }
    if tune.maxpollevents > 0 {
        settings.driver_options.events_max = tune.maxpollevents as usize;
    }
    settings
}

/// A service whose threads run.
pub struct Running {
    runtime: Runtime,
    control: Control,
}

impl Running {
    /// The handle for signals.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Serves on this thread, too, until stopped.
    pub fn run(self) -> io::Result<()> {
        self.runtime.run()
    }
}

/// A listening socket that may be handed to another process.
#[derive(Clone, Debug)]
pub struct SharedSocket {
    /// The socket.
    pub fd: Arc<OwnedFd>,
    /// The interface it is bound to, empty for none.
    pub interface: String,
}

impl SharedSocket {
    /// As the other process wants it.
    pub fn to_hand(&self) -> SocketToHand<'_> {
        SocketToHand { fd: self.fd.as_fd(), namespace: "", interface: &self.interface }
    }
}

struct ControlInner {
    data_path: DataPath,
    handle: Handle,
    shared: SharedSockets,
}

/// What signals may ask for, from any thread.
#[derive(Clone)]
pub struct Control(Arc<ControlInner>);

impl Control {
    /// Stop listening, finish what is in progress; then [`Running::run`] returns. One line for each proxy.
    pub fn soft_stop(&self) -> Vec<String> {
        crate::locked(&self.0.shared).clear();
        self.0.data_path.soft_stop(&self.0.handle);
        self.0.data_path.farewells()
    }

    /// One line for each proxy whose clients a hard stop would send away.
    pub fn remaining(&self) -> Vec<String> {
        self.0.data_path.remaining()
    }

    /// Let go of everything; [`Running::run`] returns soon.
    pub fn hard_stop(&self) {
        self.0.data_path.hard_stop(&self.0.handle);
        self.0.handle.stop();
    }

    /// Stop listening for a while. One line for each proxy.
    pub fn pause(&self) -> Vec<String> {
        self.0.data_path.pause(&self.0.handle);
        self.0.data_path.listening().iter().map(|name| format!("Paused proxy {name}.")).collect()
    }

    /// Listen again. One line for each proxy.
    pub fn resume(&self) -> Vec<String> {
        self.0.data_path.resume(&self.0.handle);
        self.0.data_path.listening().iter().map(|name| format!("Resumed proxy {name}.")).collect()
    }

    /// One line for each server and proxy.
    pub fn server_states(&self) -> Vec<String> {
        self.0.data_path.server_states()
    }
}
