//! One section on its thread.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

use thalweg_config::model::{ProxyId, ServerId};
use thalweg_dns::{
    By, Event, Families, Follow, Key, Loss, Name, Resolved, Resolver, Status, Ticket, Transmit,
};
use thalweg_runtime::{Kind, Reason, TaskId, clock, current_task, spawn, timer};

use super::line::Line;
use super::{Reply, accepted};
use crate::backend::resolved;
use crate::worker::{self, Worker};

static TIMER: Kind = Kind::new("resolver");

/// The sections of a thread, by number; those of other threads are not there.
#[derive(Default)]
pub(crate) struct Sections(RefCell<HashMap<usize, Rc<Section>>>);

impl Sections {
    /// The section, which begins when somebody wants something of it.
    pub(super) fn get(&self, worker: &Worker, number: usize) -> Option<Rc<Section>> {
        let known = self.0.borrow().get(&number).cloned();
        known.or_else(|| {
            let section = Section::start(worker, number)?;
            self.0.borrow_mut().insert(number, Rc::clone(&section));
            Some(section)
        })
    }
}

/// See the module's documentation.
pub(super) struct Section {
    number: usize,
    pub(super) resolver: RefCell<Resolver>,
    lines: Box<[Line]>,
    /// Whether IPv4 and IPv6 are wanted.
    accepted: (bool, bool),
    /// The task that does what the time asks for, and when it wakes up by itself.
    timer: Cell<TaskId>,
    timer_due: Cell<Option<u64>>,
    /// Streams that wait.
    replies: RefCell<HashMap<Ticket, Reply>>,
    /// It is being pumped, so that whoever comes back here leaves it to that.
    is_pumping: Cell<bool>,
}

/// Numbers that nobody can guess, as far as the keys of the standard library's hash tables cannot be guessed.
fn unpredictable() -> Box<dyn FnMut() -> u16> {
    let (keys, mut next) = (RandomState::new(), 0u64);
    Box::new(move || {
        next += 1;
        #[allow(clippy::cast_possible_truncation)]
        let id = keys.hash_one(next) as u16;
        id
    })
}

impl Section {
    fn start(worker: &Worker, number: usize) -> Option<Rc<Section>> {
        let config = &worker.instance.config;
        let declared = config.resolvers.get(number)?;
        let settings = declared.settings();
        let large = usize::from(settings.payload_max) > config.global.tune.bufsize;
        let retry_ms = settings.retry_ms;
        let lines = declared.name_servers.iter().map(|server| Line::new(server, large, retry_ms)).collect();
        let section = Rc::new(Section {
            number,
            resolver: RefCell::new(Resolver::new(settings, unpredictable())),
            lines,
            accepted: accepted(&config.global),
            timer: Cell::new(TaskId::NONE),
            timer_due: Cell::new(None),
            replies: RefCell::default(),
            is_pumping: Cell::new(false),
        });
        Timer(Rc::clone(&section)).start(0);
        Some(section)
    }

    /// In which order addresses are asked for.
    pub(super) fn families(&self, v6_first: bool) -> Families {
        Families::new(v6_first, self.accepted.0, self.accepted.1)
    }

    pub(super) fn follow(&self, key: Key, follow: Follow) {
        self.resolver.borrow_mut().follow(key, follow, clock::now_ms());
    }

    pub(super) fn resolve(&self, name: &Name, families: Families, reply: Reply) {
        let resolved = self.resolver.borrow_mut().resolve(name, families, clock::now_ms());
        match resolved {
            Resolved::Now(result) => reply.send(result.ok()),
            Resolved::Later(ticket) => {
                self.replies.borrow_mut().insert(ticket, reply);
            }
        }
    }

    /// A message of a name server.
    pub(super) fn received(self: &Rc<Self>, server: usize, over_stream: bool, bytes: &[u8]) {
        self.resolver.borrow_mut().handle(server, over_stream, bytes, clock::now_ms());
        self.pump();
    }

    /// A message that was longer than what there was room for.
    pub(super) fn received_cut(&self, server: usize) {
        self.resolver.borrow_mut().received_cut(server);
    }

    /// A query could not be sent.
    pub(super) fn send_failed(&self, server: usize) {
        self.resolver.borrow_mut().send_failed(server);
    }

    pub(super) fn line(&self, server: usize) -> &Line {
        &self.lines[server]
    }

    /// Does what the resolver wants to be done.
    pub(super) fn pump(self: &Rc<Self>) {
        if self.is_pumping.replace(true) {
            return;
        }
        let pumping = Pumping(&self.is_pumping);
        let Some(worker) = worker::current() else { return };
        loop {
            let sent = self.resolver.borrow_mut().poll_transmit();
            if let Some(Transmit { server, stream, bytes }) = sent {
                self.lines[server].send(self, server, stream, bytes);
                continue;
            }
            let event = self.resolver.borrow_mut().poll_event();
            match event {
                Some(event) => self.apply(&worker, event),
                None => break,
            }
        }
        let resolver = self.resolver.borrow();
        worker.instance.resolvers[self.number].set(resolver.tallies(), resolver.failures());
        let due = resolver.deadline();
        drop(resolver);
        if due != self.timer_due.get() && current_task() != self.timer.get() {
            self.timer.get().wake(Reason::OTHER);
        }
        drop(pumping);
    }

    fn apply(&self, worker: &Worker, event: Event) {
        let of = |key: Key| resolved::Resolved::new(worker, ProxyId(key.group), ServerId(key.server));
        match event {
            Event::Address { key, address, port, by } => {
                let Some(server) = of(key) else { return };
                let section = &worker.instance.config.resolvers[self.number];
                match by {
                    By::NameServer(i) => {
                        let by = format!("{}/{}", section.name, section.name_servers[i].name);
                        server.is_at(address, port, &by, false);
                    }
                    By::Cache => server.is_at(address, port, "DNS cache", false),
                    By::Additional => server.is_at(address, port, "DNS additional record", true),
                }
            }
            Event::Lost { key, loss } => {
                let Some(server) = of(key) else { return };
                server.is_lost(match loss {
                    Loss::Failed(Status::NoSuchName) => "DNS NX status",
                    Loss::Failed(Status::Refused) => "DNS refused status",
                    Loss::Failed(Status::Timeout) => "DNS timeout status",
                    Loss::Failed(Status::Other) => "unspecified DNS error",
                    Loss::NoAddress => "No IP for server ",
                    Loss::Removed => "entry removed from SRV record",
                });
            }
            Event::Host { key, host } => {
                if let Some(server) = of(key) {
                    server.has_host(host.as_ref().map(Name::text));
                }
            }
            Event::Weight { key, weight } => {
                if let Some(server) = of(key) {
                    server.has_weight(weight);
                }
            }
            Event::Resolved { ticket, result } => {
                let reply = self.replies.borrow_mut().remove(&ticket);
                if let Some(reply) = reply {
                    reply.send(result.ok());
                }
            }
        }
    }
}

/// While it lives, a section is being pumped.
struct Pumping<'s>(&'s Cell<bool>);

impl Drop for Pumping<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The task that does what the time asks for. There is always one.
struct Timer(Rc<Section>);

/// Pause between two parts of what is due at once, in milliseconds.
const BURST_PAUSE_MS: u64 = 1;

/// Pause before another one begins, in milliseconds.
const TIMER_PAUSE_MS: u64 = 100;

impl Timer {
    fn start(self, delay_ms: u64) {
        let section = Rc::clone(&self.0);
        section.timer.set(spawn(&TIMER, async move {
            timer::sleep(delay_ms).await;
            keep_time(&self.0).await;
        }));
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            Timer(Rc::clone(&self.0)).start(TIMER_PAUSE_MS);
        }
    }
}

/// Does what the time asks for, for ever.
async fn keep_time(section: &Rc<Section>) {
    loop {
        std::future::poll_fn(|_| {
            let due = section.resolver.borrow().deadline();
            section.timer_due.set(due);
            timer::Deadline(due).poll()
        })
        .await;
        section.resolver.borrow_mut().handle_deadline(clock::now_ms());
        section.pump();
        if section.resolver.borrow().deadline().is_some_and(|due| due <= clock::now_ms()) {
            // There is more, which would not fit into the buffers of a usual name server together with this.
            timer::sleep(BURST_PAUSE_MS).await;
        }
    }
}
