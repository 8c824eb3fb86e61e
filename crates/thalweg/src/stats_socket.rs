//! The runtime CLI's place in the program: its sockets, and what it may ask of the process.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use thalweg_cli::{BindLine, Cli, Process, Reload, Severity, Socket};
use thalweg_config::model::CliLevel;
use thalweg_proxy::Instance;
use thalweg_proxy::gate::Gate;
use thalweg_runtime::net::Port;
use thalweg_sys::handover::{SocketToHand, hand_over};

use crate::exporter::Exporter;
use crate::program::{COMPATIBLE_DATE, Program};
use crate::reload::Reloader;
use crate::report;
use crate::service::SharedSocket;
use crate::stats_page::StatsPage;

/// Another process that asks for the listening sockets takes them within this time, or goes without.
const HAND_OVER_LIMIT: Duration = Duration::from_secs(10);

/// A CLI socket that listens.
pub struct CliListener {
    /// The socket.
    pub port: Arc<Port>,
    /// How `show cli sockets` calls it.
    pub name: String,
    /// What its users may do.
    pub level: CliLevel,
    /// `expose-fd listeners`.
    pub gives_listeners: bool,
    /// `severity-output`: a number (true), a word (false), or nothing.
    pub severity_number: Option<bool>,
    /// Whether it is a unix socket.
    pub unix: bool,
    /// What is shown to clients where TLS is spoken.
    pub tls: Option<Arc<BindLine>>,
}

/// Copies of the listening sockets, dropped by a stop so that their ports are closed.
pub type SharedSockets = Arc<Mutex<Vec<SharedSocket>>>;

/// What the CLI of this process answers with, and its sockets in the same order. Behind them come the connections that a
/// master makes, if there is one.
pub fn prepare(
    instance: &Arc<Instance>,
    program: &Program,
    listeners: Vec<CliListener>,
    (shared, reloader): (&SharedSockets, &Arc<Reloader>),
    has_master: bool,
) -> (Arc<Cli>, Vec<Arc<Port>>) {
    let (mut sockets, mut ports) = (Vec::new(), Vec::new());
    for listener in listeners {
        sockets.push(Socket {
            name: listener.name,
            level: listener.level,
            gives_listeners: listener.gives_listeners,
            severity: match listener.severity_number {
                None => Severity::None,
                Some(true) => Severity::Number,
                Some(false) => Severity::Word,
            },
            unix: listener.unix,
            tls: listener.tls,
        });
        ports.push(listener.port);
    }
    if has_master {
        sockets.push(Socket {
            name: "sockpair@master".into(),
            level: CliLevel::Admin,
            gives_listeners: true,
            severity: Severity::None,
            unix: true,
            tls: None,
        });
    }
    let cli = Cli {
        live: Arc::clone(&instance.live),
        process: Box::new(Surroundings { shared: Arc::clone(shared), reloader: Arc::clone(reloader) }),
        product: if program.as_haproxy { "HAProxy".into() } else { "Thalweg".into() },
        version: program.version().into(),
        release_date: COMPATIBLE_DATE.into(),
        sockets,
        gate: Gate::new(instance.config.global.stats_maxconn.max(1)),
        anon_key: AtomicU32::new(instance.config.global.anonkey),
        changes: AtomicU64::new(0),
        counts: thalweg_cli::Counts::default(),
        committed: thalweg_cli::running::commit::Committed::default(),
    };
    let cli = Arc::new(cli);
    instance.offer(vec![Box::new(Exporter(Arc::clone(&cli))), Box::new(StatsPage(Arc::clone(&cli)))]);
    (cli, ports)
}

/// The program as the CLI sees it.
struct Surroundings {
    shared: SharedSockets,
    reloader: Arc<Reloader>,
}

impl Process for Surroundings {
    fn startup_log(&self) -> String {
        report::startup_log()
    }

    fn hand_listeners(&self, client: OwnedFd) {
        let sockets: Vec<_> = crate::locked(&self.shared).iter().filter_map(SharedSocket::hand_out).collect();
        let hand = move || {
            let mut stream = UnixStream::from(client);
            let sockets: Vec<SocketToHand<'_>> = sockets
                .iter()
                .map(|(fd, interface)| SocketToHand { fd: fd.as_fd(), namespace: "", interface })
                .collect();
            // The other process is told by the end of the connection that it got nothing.
            let _ = stream
                .set_nonblocking(false)
                .and_then(|()| stream.set_read_timeout(Some(HAND_OVER_LIMIT)))
                .and_then(|()| stream.set_write_timeout(Some(HAND_OVER_LIMIT)))
                .and_then(|()| hand_over(&mut stream, &sockets));
        };
        // On a thread of its own, as it waits for the other process; without one, the connection ends.
        let _ = thread::Builder::new().name("hand-over".into()).stack_size(256 * 1024).spawn(hand);
    }

    fn listeners(&self) -> usize {
        crate::locked(&self.shared).len()
    }

    fn reload(&self, what: Reload, answer: Box<dyn FnOnce(String) + Send>) {
        self.reloader.start(what, answer);
    }
}
