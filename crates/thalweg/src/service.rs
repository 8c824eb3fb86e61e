//! The service: first prepared, then listening, then running. Here the configuration, the runtime and the data path
//! are put together.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use thalweg_cli::doors::Door;
use thalweg_cli::{Cli, Reload};
use thalweg_config::Config;
use thalweg_config::model::{Bind, IoDriver, LogLevel};
use thalweg_proxy::announce::{self, Line};
use thalweg_proxy::log_forward::LogSocket;
use thalweg_proxy::{Instance, ThreadSocket};
use thalweg_runtime::buffer::BufferConfig;
use thalweg_runtime::driver::{Driver, DriverKind, DriverOptions};
use thalweg_runtime::net::Port;
use thalweg_runtime::{CpuSet, Handle, Profiling, Runtime};
use thalweg_stick::Table;
use thalweg_syntax::source::os_message;
use thalweg_sys::directory::Directory;
use thalweg_sys::handover::HandedSocket;

use crate::cli::Options;
use crate::data_path::DataPath;
use crate::listen::{self, Backups, Handed, OpenListener, OpenLogs, OpenPeers};
use crate::program::Program;
use crate::reload::Reloader;
use crate::state_dir;
use crate::stats_socket::{self, SharedSockets};

/// Names the I/O driver to use in place of the configured one (`auto`, `io_uring`, `epoll`): the test suites run on
/// both with the same files.
const DRIVER_VARIABLE: &str = "THALWEG_IO_DRIVER";

/// A configuration on its way to being served.
pub struct Service {
    config: Config,
    handed: Handed,
    opened: Vec<OpenListener>,
    cli: Option<Vec<Arc<Door>>>,
    logs: Option<OpenLogs>,
    peers: Option<OpenPeers>,
    has_predecessor: bool,
    /// Stick tables that do not begin empty.
    tables: Option<Arc<[Arc<Table>]>>,
    /// What was left out of the listening sockets because the kernel refused it.
    pub warnings: Vec<String>,
    /// Unix sockets of the previous process, until it is certain that this one replaces it.
    backups: Option<Backups>,
    program: Program,
}

impl Service {
    /// Prepares to serve a configuration: takes over inherited sockets. On failure, one message for each.
    pub fn new(config: Config, program: &Program) -> Result<Service, Vec<String>> {
        let (mut opened, mut warnings) = (Vec::new(), Vec::new());
        listen::inherit(&config, &mut opened, &mut warnings)?;
        let backups = Some(Backups::make(&config));
        Ok(Service {
            config,
            handed: Handed::default(),
            opened,
            cli: None,
            logs: None,
            peers: None,
            has_predecessor: false,
            tables: None,
            warnings,
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
        if self.logs.is_none() {
            self.logs = Some(listen::open_log_forwards(&self.config, &mut self.handed)?);
        }
        if self.peers.is_none() {
            self.peers = Some(listen::open_peers(&self.config, &mut self.handed)?);
        }
        Ok(())
    }

    /// A process that served before will teach this one what its tables hold.
    pub fn expect_predecessor(&mut self) {
        self.has_predecessor = true;
    }

    /// Stick tables begin with what a former process kept. One message for each part that could not be used.
    pub fn restore_tables(&mut self, kept: &Directory) -> Vec<String> {
        let tables = thalweg_proxy::tables::of(&self.config);
        let messages = state_dir::restore_tables(kept, &tables);
        self.tables = Some(tables);
        messages
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

    /// What a master is told of reloads.
    pub fn reload_settings(&self) -> ReloadSettings {
        let global = &self.config.global;
        ReloadSettings {
            most: global.max_reloads,
            master_stays: global.master_stays,
            in_place: global.chroot.as_deref().is_none_or(|root| root == Path::new("/")),
        }
    }

    /// Starts the threads. The last one begins with [`Running::run`]. `has_master` says that a master makes connections to
    /// the CLI.
    pub fn start(self, has_master: bool, options: &Options) -> io::Result<Running> {
        let threads = self.config.global.nbthread.max(1);
        let settings = runtime_settings(&self.config);
        let (sockets, mut shared) = listen::distribute(self.opened, &self.config, threads);
        let OpenLogs { sockets: logs, shared: shared_logs } = self.logs.unwrap_or_default();
        shared.extend(shared_logs);
        let OpenPeers { sockets: peers, shared: shared_peers } = self.peers.unwrap_or_default();
        shared.extend(shared_peers);
        let peers = Mutex::new(peers);
        // Threads take turns: one serves each socket.
        let mut logs_of: Vec<Vec<(usize, LogSocket)>> = Vec::new();
        logs_of.resize_with(threads, Vec::new);
        for (number, log) in logs.into_iter().enumerate() {
            logs_of[number % threads].push(log);
        }
        let logs_of = Mutex::new(logs_of);
        let shared = Arc::new(Mutex::new(shared));
        let mut doors = self.cli.unwrap_or_default();
        let masters = has_master.then(stats_socket::masters_door);
        doors.extend(masters.clone());
        let mut sockets: Vec<Option<Vec<ThreadSocket>>> = sockets.into_iter().map(Some).collect();
        sockets.resize_with(threads, || None);
        let sockets = Mutex::new(sockets);
        let tables = self.tables.unwrap_or_else(|| thalweg_proxy::tables::of(&self.config));
        let (data_path, instance) = DataPath::new(self.config, tables, &self.program.name);
        if self.has_predecessor {
            instance.peers.expect_predecessor();
        }
        let path = data_path.clone();
        let reloader = Reloader::new(options, &instance.live, &shared);
        let cli = stats_socket::prepare(&instance, &self.program, doors.clone(), (&shared, &reloader));
        // Threads have it from here on, for as long as it is in force.
        drop(instance);
        let master_cli = masters.map(|door| (Arc::clone(&cli), door));
        // One thread accepts for each CLI socket: there is little to share.
        let mut doors_of: Vec<Vec<Arc<Door>>> = Vec::new();
        doors_of.resize_with(threads, Vec::new);
        for (number, door) in doors.into_iter().enumerate() {
            doors_of[number % threads].push(door);
        }
        let doors_of = Mutex::new(doors_of);
        let control_cli = Arc::clone(&cli);
        let variables = Once::new();
        let runtime = Runtime::start(settings, move |thread| {
            let taken = crate::locked(&sockets).get_mut(thread).and_then(Option::take);
            path.start_thread(thread, taken.unwrap_or_default());
            let logs = crate::locked(&logs_of).get_mut(thread).map(std::mem::take);
            path.start_log_forwards(logs.unwrap_or_default());
            // Threads take turns, the last one first: the first has other things to do besides.
            let own =
                crate::locked(&peers).extract_if(.., |(n, _)| threads - 1 - *n % threads == thread).collect();
            path.start_peers(own);
            // Before this thread serves anything, whichever thread comes first.
            variables.call_once(thalweg_cli::variables::set_configured_here);
            let taken = crate::locked(&doors_of).get_mut(thread).map(std::mem::take);
            thalweg_cli::start_thread(&cli, taken.unwrap_or_default());
            #[cfg(feature = "opentelemetry")]
            crate::telemetry::start(&cli);
        })?;
        reloader.set_handle(runtime.handle());
        let handle = runtime.handle();
        let control =
            Control(Arc::new(ControlInner { data_path, handle, shared, cli: control_cli, reloader }));
        Ok(Running { runtime, control, master_cli })
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
        on_trim: Some(Arc::new(|| {
            if let Some(worker) = thalweg_proxy::worker::current() {
                worker.trim();
            }
            thalweg_sys::memory::give_back_pages();
        })),
        on_publish: Some(Arc::new(|take| {
            if let Some(worker) = thalweg_proxy::worker::current() {
                worker.take_stock(take);
            }
        })),
        on_incident: Some(Arc::new(|incident| {
            thalweg_sys::fd::complain(format!("{incident}\n").as_bytes());
        })),
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

/// What a configuration says of reloads by a master.
#[derive(Clone, Copy, Debug)]
pub struct ReloadSettings {
    /// `mworker-max-reloads`.
    pub most: u32,
    /// The master stays without workers.
    pub master_stays: bool,
    /// This process may reload in place: it sees the files that the master sees.
    pub in_place: bool,
}

/// A service whose threads run.
pub struct Running {
    runtime: Runtime,
    control: Control,
    master_cli: Option<(Arc<Cli>, Arc<Door>)>,
}

impl Running {
    /// The handle for signals.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// The CLI, and where the connections of the master come in, if there is one.
    pub fn master_cli(&self) -> Option<(Arc<Cli>, Arc<Door>)> {
        self.master_cli.clone()
    }

    /// The handle for other threads.
    pub fn handle(&self) -> Handle {
        self.runtime.handle()
    }

    /// Serves until stopped. The calling thread serves nobody: it looks after the memory of the process. With a limit of memory
    /// (`-m`) it serves: another thread, with its stack and its heap, takes some of what is there.
    pub fn run(self) -> io::Result<()> {
        let Running { runtime, .. } = self;
        if thalweg_runtime::memory::limited_to() > 0 {
            return runtime.run();
        }
        thalweg_sys::memory::keep_while(&runtime.thread_name(0), || runtime.run())?
    }
}

/// A listening socket that may be handed to another process.
#[derive(Debug)]
pub struct SharedSocket {
    /// The number of the listener of a proxy that it is of.
    pub listener: Option<u32>,
    /// The socket.
    pub port: Arc<Port>,
    /// Where it is.
    pub network: Network,
    /// The address as the configuration has it.
    pub shown: String,
}

/// What a listening socket is bound to besides its address: names, empty for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Of the network namespace.
    pub namespace: String,
    /// Of the interface.
    pub interface: String,
}

impl Network {
    /// What a line says of it.
    pub fn of(bind: &Bind) -> Network {
        Network {
            namespace: bind.namespace.as_ref().map_or_else(String::new, |namespace| namespace.name().into()),
            interface: bind.interface.as_deref().unwrap_or("").into(),
        }
    }
}

impl SharedSocket {
    /// That of a line, of the listener of a proxy if it has a number.
    pub fn of(listener: Option<u32>, port: &Arc<Port>, bind: &Bind) -> SharedSocket {
        let shown = bind.shown.to_string();
        SharedSocket { listener, port: Arc::clone(port), network: Network::of(bind), shown }
    }

    /// The socket to hand it to another process, and where it is, if this process holds the port now.
    pub fn hand_out(&self) -> Option<(Arc<OwnedFd>, Network)> {
        let socket = self.port.socket()?;
        self.port.share();
        Some((socket, self.network.clone()))
    }
}

struct ControlInner {
    data_path: DataPath,
    handle: Handle,
    shared: SharedSockets,
    cli: Arc<Cli>,
    reloader: Arc<Reloader>,
}

/// What signals may ask for, from any thread.
#[derive(Clone)]
pub struct Control(Arc<ControlInner>);

impl Control {
    /// Tells how long the start took (`BootTime_ms`).
    pub fn serves_after(&self, ms: u32) {
        self.0.data_path.serves_after(ms);
    }

    /// Say that a soft stop will begin, to those who ask.
    pub fn announce_stop(&self) {
        self.0.data_path.announce_stop();
    }

    /// Stop listening, finish what is in progress; then [`Running::run`] returns. One line for each proxy.
    pub fn soft_stop(&self) -> Vec<String> {
        crate::locked(&self.0.shared).drain(..).for_each(|socket| socket.port.retire());
        self.0.cli.doors.stop();
        let said = self.announce(LogLevel::Warning, self.0.data_path.farewells());
        self.0.data_path.soft_stop(&self.0.handle);
        said.collect()
    }

    /// One line for each proxy whose clients a hard stop would send away.
    pub fn remaining(&self) -> Vec<String> {
        self.0.data_path.remaining()
    }

    /// Read the files again and serve what they say, on a thread of its own; `tell` hears what came of it.
    pub fn reload(&self, tell: impl FnOnce(String) + Send + 'static) {
        self.0.reloader.start(Reload::Apply { force: false }, Box::new(tell));
    }

    /// Let go of everything; [`Running::run`] returns soon.
    pub fn hard_stop(&self) {
        self.0.data_path.hard_stop(&self.0.handle);
        self.0.handle.stop();
    }

    /// Stop listening for a while, and let go of the ports. One line for each proxy.
    pub fn pause(&self) -> Vec<String> {
        self.0.data_path.pause(&self.0.handle);
        let mut lines = Vec::new();
        self.each_port(|name, port| {
            if let Err(error) = port.let_go() {
                let error = os_message(&error);
                lines.push(format!("Pausing listener: cannot let go of [{name}] ({error}): it listens on."));
            }
        });
        lines.extend(self.announce(LogLevel::Warning, self.0.data_path.of_listening(announce::paused)));
        lines.extend(self.has_cli().then(|| "Paused frontend GLOBAL.".into()));
        lines
    }

    /// Listen again, on the ports that nobody else took meanwhile. One line for each proxy.
    pub fn resume(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.each_port(|name, port| {
            if let Err(error) = port.take_back() {
                let error = os_message(&error);
                lines.push(format!("Resuming listener: cannot listen on [{name}] again ({error})."));
            }
        });
        if !lines.is_empty() {
            lines.push(
                "Some listeners did not resume, probably because another program has their port now. Send SIGTTIN \
                 again once it is gone; the others listen."
                    .into(),
            );
        }
        self.0.data_path.resume(&self.0.handle);
        lines.extend(self.announce(LogLevel::Warning, self.0.data_path.of_listening(announce::resumed)));
        lines.extend(self.has_cli().then(|| "Resumed frontend GLOBAL.".into()));
        lines
    }

    fn each_port(&self, mut act: impl FnMut(&str, &Port)) {
        crate::locked(&self.0.shared).iter().for_each(|socket| act(&socket.shown, &socket.port));
        self.0.cli.doors.ports().iter().for_each(|(name, port)| act(name, port));
    }

    fn has_cli(&self) -> bool {
        !self.0.cli.doors.ports().is_empty()
    }

    /// Sends lines about proxies to their logs; what is left is to say them to whoever runs the process.
    fn announce(&self, level: LogLevel, lines: Vec<Line>) -> impl Iterator<Item = String> + use<> {
        announce::log(&self.0.handle, level, lines.clone());
        lines.into_iter().map(|(_, line)| line)
    }

    /// The configuration in force and its live state; `None` once nobody serves any more.
    pub fn instance(&self) -> Option<Arc<Instance>> {
        self.0.data_path.instance()
    }

    /// Sends a line to the targets of the `global` section.
    pub fn log(&self, level: LogLevel, line: String) {
        self.0.handle.run_on(0, move || {
            if let Some(worker) = thalweg_proxy::worker::current() {
                worker.log_globally(level, line.as_bytes());
            }
        });
    }

    /// How each server and each proxy is, in a line each.
    pub fn states(&self) -> Vec<String> {
        let Some(instance) = self.instance() else { return Vec::new() };
        let lines = announce::states(&instance);
        announce::log(&self.0.handle, LogLevel::Notice, announce::under_titles(&instance, &lines));
        lines.into_iter().map(|(_, line)| line).collect()
    }
}
