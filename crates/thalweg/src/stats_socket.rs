//! The runtime CLI's place in the program: its sockets, and what it may ask of the process.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use thalweg_cli::doors::{Door, Doors};
use thalweg_cli::{Cli, Process, Reload, Severity, Socket};
use thalweg_config::model::{Bind, CliLevel};
use thalweg_proxy::Instance;
use thalweg_proxy::gate::Gate;
use thalweg_sys::handover::{SocketToHand, hand_over};

use crate::exporter::Exporter;
use crate::program::{COMPATIBLE_DATE, Program};
use crate::reload::Reloader;
use crate::report;
use crate::service::{Network, SharedSocket};
use crate::stats_page::StatsPage;

/// Another process that asks for the listening sockets takes them within this time, or goes without.
const HAND_OVER_LIMIT: Duration = Duration::from_secs(10);

/// Copies of the listening sockets, dropped by a stop so that their ports are closed.
pub type SharedSockets = Arc<Mutex<Vec<SharedSocket>>>;

/// What a `stats socket` line says to who comes there.
pub fn line(bind: &Bind, unix: bool) -> Socket {
    Socket {
        name: bind.addr.to_string(),
        level: bind.level,
        gives_listeners: bind.expose_fd_listeners,
        severity: match bind.severity_number {
            None => Severity::None,
            Some(true) => Severity::Number,
            Some(false) => Severity::Word,
        },
        unix,
        tls: bind.tls.as_ref().and_then(|tls| tls.line.clone()),
    }
}

/// Where the connections of a master come in.
pub fn masters_door() -> Arc<Door> {
    let line = Socket {
        name: "sockpair@master".into(),
        level: CliLevel::Admin,
        gives_listeners: true,
        severity: Severity::None,
        unix: true,
        tls: None,
    };
    Door::new(line, None)
}

/// What the CLI of this process answers with.
pub fn prepare(
    instance: &Arc<Instance>,
    program: &Program,
    doors: Vec<Arc<Door>>,
    (shared, reloader): (&SharedSockets, &Arc<Reloader>),
) -> Arc<Cli> {
    let cli = Cli {
        live: Arc::clone(&instance.live),
        process: Box::new(Surroundings { shared: Arc::clone(shared), reloader: Arc::clone(reloader) }),
        product: if program.as_haproxy { "HAProxy".into() } else { "Thalweg".into() },
        version: program.version().into(),
        release_date: COMPATIBLE_DATE.into(),
        doors: Doors::new(doors),
        gate: Gate::new(instance.config.global.stats_maxconn.max(1)),
        anon_key: AtomicU32::new(instance.config.global.anonkey),
        changes: AtomicU64::new(0),
        counts: Arc::default(),
        committed: thalweg_cli::running::commit::Committed::default(),
    };
    let cli = Arc::new(cli);
    instance.offer(vec![Box::new(Exporter(Arc::clone(&cli))), Box::new(StatsPage::new(&cli))]);
    reloader.set_cli(&cli);
    cli
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
                .map(|(fd, Network { namespace, interface })| SocketToHand {
                    fd: fd.as_fd(),
                    namespace,
                    interface,
                })
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
