//! `peers` sections: the connections between processes that share stick tables. What is said on them is in
//! [`thalweg_stick::peers`]; here are the sockets, the clock, TLS, and when to connect.
//!
//! A section lives on one thread: its listener, a task per connection, a task per peer that connects to it, and one that
//! notes which entries changed. Other threads only push entries that they changed on a list of the table, and wake that last
//! task when the list was empty. The lock of [`Live`] is for the CLI; traffic never takes it.

mod connect;
mod session;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::Poll;

use thalweg_config::model::{Config, LogLevel, PeersSection};
use thalweg_operate::log::Route;
use thalweg_runtime::net::{Listener, Port as ListeningPort, SockAddr};
use thalweg_runtime::{Kind, Reason, TaskId, clock, current_task, kill, spawn, timer};
use thalweg_shared::{AtomicBool, AtomicU32, Mutex, MutexGuard};
use thalweg_stick::Table;
use thalweg_stick::peers::{PeerSpec, Section, SectionSpec, TableSpec};

use crate::connection::tls::RecordLimits;
use crate::instance;
use crate::worker::{Thread, Worker};

static ACCEPT: Kind = Kind::new("peers-accept");
static COLLECT: Kind = Kind::new("peers-collect");
static CONNECT: Kind = Kind::new("peers-connect");
static SESSION: Kind = Kind::new("peers-session");
static TEACH: Kind = Kind::new("peers-teach");

/// Entries that change again within so many milliseconds are sent once.
const COLLECT_MS: u64 = 10;
/// Pause after a failure to accept, in milliseconds.
const ACCEPT_PAUSE_MS: u64 = 100;
/// Connections of whom nobody knows yet who they are, at most; others wait in the backlog.
const STRANGERS_MAX: u32 = 64;
/// Attempts to reach the process that comes next, and to tell it all.
const TEACH_ATTEMPTS: u32 = 5;
/// Pause before each: the port of this process is only just given up, and a connection may still have come to it.
const TEACH_PAUSE_MS: u64 = 50;

/// What threads share of a section.
pub struct Live {
    /// Its tables and peers. Taken by the thread that it lives on, and by the CLI.
    section: Mutex<Section>,
    /// Entries changed that were not noted yet.
    changed: AtomicBool,
}

impl Live {
    /// The section. Not to be kept across anything that waits.
    pub fn section(&self) -> MutexGuard<'_, Section> {
        self.section.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sections of the process.
#[derive(Default)]
pub struct Sections {
    live: Box<[Arc<Live>]>,
    /// Those that did not teach the process that comes next yet: a soft stop waits for them.
    untaught: AtomicU32,
}

impl Sections {
    /// Those of a configuration.
    pub fn new(config: &Config, tables: &[Arc<Table>]) -> Sections {
        let live = config.peers.iter().map(|section| {
            Arc::new(Live {
                section: Mutex::new(section_of(config, section, tables)),
                changed: AtomicBool::new(false),
            })
        });
        Sections { live: live.collect(), untaught: AtomicU32::new(0) }
    }

    /// By number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Live>> {
        self.live.iter()
    }

    /// Whether the process that comes next, if there is one, is still to be taught.
    pub fn have_to_teach(&self) -> bool {
        self.untaught.load(Ordering::SeqCst) > 0
    }

    /// The process that was here before is about to teach this one.
    pub fn expect_predecessor(&self) {
        self.live.iter().for_each(|live| live.section().expect_predecessor(clock::now_ms()));
    }

    /// How many changes of a table by this process were numbered for its peers.
    pub fn local_updates(&self, table: &Table) -> u32 {
        self.live.iter().find_map(|live| live.section().local_updates(table)).unwrap_or(0)
    }

    /// The share that a key of a table is in; 0 where there are none.
    pub fn shard_of(&self, table: &Table, key: &[u8]) -> u32 {
        if table.spec().peers.is_none() {
            return 0;
        }
        let of = |live: &Arc<Live>| live.section().shard_of(table, key);
        self.live.iter().map(of).find(|shard| *shard > 0).unwrap_or(0)
    }

    /// Peers that are connected to or are being connected to, and those that are.
    pub fn counts(&self) -> (usize, usize) {
        self.live.iter().fold((0, 0), |(active, connected), live| {
            let counts = live.section().counts();
            (active + counts.0, connected + counts.1)
        })
    }
}

fn section_of(config: &Config, section: &PeersSection, tables: &[Arc<Table>]) -> Section {
    // Peers know the tables of the section itself by what follows the section's name.
    let name = |table: &Arc<Table>| -> Arc<str> {
        let full = &table.spec().name;
        let own = full.strip_prefix(&*section.name).filter(|rest| rest.starts_with('/'));
        own.map_or_else(|| Arc::clone(full), Arc::from)
    };
    let table = |at: &usize| {
        let table = &tables[*at];
        let write_to = table.spec().write_to.and_then(|to| tables.get(to as usize)).cloned();
        TableSpec { table: Arc::clone(table), name: name(table), write_to }
    };
    let spec = SectionSpec {
        name: Arc::clone(&section.name),
        peers: section
            .peers
            .iter()
            .enumerate()
            .map(|(at, peer)| PeerSpec {
                name: Arc::clone(&peer.server.name),
                address: connect::shown(section, at),
                shard: peer.shard,
            })
            .collect(),
        local: section.local,
        tables: section.tables.iter().map(table).collect(),
        shards: section.shards,
        updates_max: config.global.tune.peers_updates,
    };
    Section::new(spec, clock::now_ms())
}

/// A section on its thread.
pub struct Service {
    own: Rc<Thread>,
    config: PeersSection,
    tables: Vec<Arc<Table>>,
    limits: RecordLimits,
    live: Arc<Live>,
    /// Where this process is found, for the one that comes next.
    here: Option<SockAddr>,
    route: Option<Rc<Route>>,
    /// Tasks that end with the soft stop.
    tasks: RefCell<Vec<TaskId>>,
    /// Tasks of connections.
    sessions: RefCell<Vec<TaskId>>,
    /// Connections that did not say who they are yet.
    strangers: Cell<u32>,
    duty: Cell<Option<Duty>>,
}

impl Service {
    fn config(&self) -> &PeersSection {
        &self.config
    }

    fn wake_sessions(&self) {
        self.sessions.borrow().iter().for_each(|task| task.wake(Reason::OTHER));
    }

    /// Says something to those whom the section's `log` lines name.
    fn log(&self, level: LogLevel, what: &str) {
        if let Some(route) = &self.route {
            let line = format!("Peers section {}: {what}", self.config().name);
            self.own.log_line(route, level, line.as_bytes());
        }
    }
}

/// Begins to serve a section on the calling thread, one of the runtime's, until a soft stop.
pub fn start(worker: &Rc<Worker>, number: usize, port: Arc<ListeningPort>) {
    let Some(live) = worker.instance.peers.live.get(number).cloned() else { return };
    let Some(config) = worker.instance.config.peers.get(number) else { return };
    let service = Rc::new(Service {
        own: Rc::clone(worker.own()),
        config: config.clone(),
        tables: config.tables.iter().filter_map(|at| worker.instance.tables.get(*at)).cloned().collect(),
        limits: worker.record_limits(),
        live,
        here: port.local_addr().ok(),
        route: worker.log_route(&config.log_targets),
        tasks: RefCell::default(),
        sessions: RefCell::default(),
        strangers: Cell::new(0),
        duty: Cell::new(Some(Duty::begin(&worker.live))),
    });
    let mut tasks = vec![
        spawn(&ACCEPT, accept(Rc::clone(&service), Listener::on(port))),
        spawn(&COLLECT, collect(Rc::clone(&service))),
    ];
    for peer in (0..config.peers.len()).filter(|peer| *peer != config.local) {
        tasks.push(spawn(&CONNECT, connect::keep_connected(Rc::clone(&service), peer)));
    }
    service.tasks.replace(tasks);
    worker.peers.borrow_mut().push(service);
}

/// The soft stop begins: connections end, and the process that comes next is told everything.
pub fn stop(worker: &Worker) {
    for service in worker.peers.take() {
        service.tasks.take().into_iter().for_each(kill);
        service.sessions.take().into_iter().for_each(kill);
        spawn(&TEACH, teach(service));
    }
}

/// A section that is served, and has the process that comes next to teach before this one may end. Others may be done with
/// the stop before this thread hears of it.
struct Duty(Arc<instance::Live>);

impl Duty {
    fn begin(live: &Arc<instance::Live>) -> Duty {
        live.peers.untaught.fetch_add(1, Ordering::SeqCst);
        Duty(Arc::clone(live))
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        self.0.peers.untaught.fetch_sub(1, Ordering::SeqCst);
        crate::stop_when_idle(&self.0);
    }
}

async fn teach(service: Rc<Service>) {
    let _done = service.duty.take();
    service.live.section().collect();
    for _ in 0..TEACH_ATTEMPTS {
        timer::sleep(TEACH_PAUSE_MS).await;
        match connect::teach_successor(&service).await {
            connect::Taught::Yes => return service.log(LogLevel::Notice, "the next process was taught."),
            // Mostly there is none.
            connect::Taught::Nobody => {}
            connect::Taught::Broken => {
                service.log(LogLevel::Warning, "the next process was not taught everything.")
            }
        }
    }
}

/// Notes which entries changed, and has them sent.
async fn collect(service: Rc<Service>) {
    let task = current_task();
    for table in &service.tables {
        let live = Arc::clone(&service.live);
        table.on_change(move || {
            live.changed.store(true, Ordering::Release);
            task.wake(Reason::OTHER);
        });
    }
    // What changed before somebody listened.
    service.live.changed.store(true, Ordering::Release);
    loop {
        std::future::poll_fn(|_| match service.live.changed.swap(false, Ordering::AcqRel) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        let any = service.live.section().collect();
        if any {
            service.wake_sessions();
        }
        timer::sleep(COLLECT_MS).await;
    }
}

async fn accept(service: Rc<Service>, mut listener: Listener) {
    loop {
        match listener.accept().await {
            Ok((fd, _)) => {
                let stranger = Stranger::enter(&service);
                let task = spawn(&SESSION, session::incoming(stranger, fd));
                service.sessions.borrow_mut().push(task);
                while service.strangers.get() >= STRANGERS_MAX {
                    listener.rest(ACCEPT_PAUSE_MS).await;
                }
            }
            Err(_) => listener.rest(ACCEPT_PAUSE_MS).await,
        }
    }
}

/// A connection that did not say who it is yet.
struct Stranger(Rc<Service>);

impl Stranger {
    fn enter(service: &Rc<Service>) -> Stranger {
        service.strangers.set(service.strangers.get() + 1);
        Stranger(Rc::clone(service))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.strangers.set(self.0.strangers.get() - 1);
    }
}

/// The task of a connection, among those that are woken when there is something to send.
struct Listed(Rc<Service>, TaskId);

impl Listed {
    fn enter(service: &Rc<Service>) -> Listed {
        let me = current_task();
        let mut sessions = service.sessions.borrow_mut();
        if !sessions.contains(&me) {
            sessions.push(me);
        }
        Listed(Rc::clone(service), me)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.sessions.borrow_mut().retain(|task| *task != self.1);
    }
}
