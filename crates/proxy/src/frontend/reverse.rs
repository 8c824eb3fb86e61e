//! Reverse HTTP (manual: `bind rhttp@`, `attach-srv`): who asks for requests is not who connects.
//!
//! A listener with the address of a server keeps connections to it, and serves what is asked on them as any other. On the other
//! end a rule gives the connection of a client to a server, from whose [pool](crate::backend::pool::IdlePool) it is taken like
//! one that was made to it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use thalweg_config::model::{ProxyId, ServerId};
use thalweg_rules::Overrides;
use thalweg_runtime::{Class, Kind, Reason, SpawnOptions, TaskId, clock, current_task, spawn_with, timer};
use thalweg_sample::facts::{Attached, ListenerId, Session, StreamFacts};

use super::ClientSession;
use super::admission::Admission;
use super::session;
use crate::backend::connect::{LineValues, Target};
use crate::backend::key::ConnectionKey;
use crate::backend::{reach, shared};
use crate::connection::port::Port;
use crate::stopping::Stopping;
use crate::worker::{Thread, Worker};

static DIALER: Kind = Kind::new("rhttp");

/// Pause before another attempt to connect, and the time that a connection must have lasted to be made anew at once, in
/// milliseconds.
const PAUSE_MS: u64 = 1000;

/// Begins to keep the connections that this thread has of the listeners that connect by themselves.
pub fn start(worker: &Rc<Worker>) {
    let config = &worker.instance.config;
    let threads = worker.instance.threads.len();
    for bind in config.proxies.iter().filter(|proxy| !proxy.disabled).flat_map(|proxy| &proxy.binds) {
        if bind.dials.is_none() {
            continue;
        }
        let allowed = |thread: &usize| {
            bind.threads.0.is_empty() || bind.threads.0.iter().any(|t| usize::from(*t) == *thread)
        };
        let mut takers: Vec<usize> = (0..threads).filter(allowed).collect();
        if takers.is_empty() {
            takers = (0..threads).collect();
        }
        let mine = (0..bind.connections as usize).filter(|n| takers[n % takers.len()] == worker.thread);
        for _ in mine {
            begin(worker.own(), bind.number as usize, 0);
        }
    }
}

/// A task that keeps one connection. A bug that ends it must not be the end of that: another one takes its place.
struct Dialer {
    own: Rc<Thread>,
    listener: usize,
}

fn begin(own: &Rc<Thread>, listener: usize, delay_ms: u64) {
    let dialer = Dialer { own: Rc::clone(own), listener };
    let task = spawn_with(&DIALER, SpawnOptions::default(), dial(dialer, delay_ms));
    own.accepting.borrow_mut().push((listener, task));
}

impl Drop for Dialer {
    fn drop(&mut self) {
        let me = current_task();
        self.own.accepting.borrow_mut().retain(|(_, task)| *task != me);
        if std::thread::panicking() {
            begin(&self.own, self.listener, PAUSE_MS);
        }
        crate::thread_may_have_stopped(&self.own);
    }
}

async fn dial(dialer: Dialer, delay_ms: u64) {
    let mut pause_ms = delay_ms;
    while !dialer.is_over() {
        if pause_ms > 0 {
            dialer.sleep(pause_ms).await;
        }
        let since = clock::now_ms();
        if !dialer.is_over()
            && let Some(ended) = dialer.connect().await
        {
            dialer.wait_for(&ended).await;
        }
        pause_ms = PAUSE_MS.saturating_sub(clock::now_ms() - since);
    }
}

impl Dialer {
    /// Whether no more connections are to be made.
    fn is_over(&self) -> bool {
        let live = &self.own.live;
        live.stopping() != Stopping::No || live.is_shut(live.listeners[self.listener].frontend())
    }

    /// Sleeps, or until there is nothing to wait for.
    async fn sleep(&self, ms: u64) {
        let until = clock::now_ms() + ms;
        std::future::poll_fn(|_| {
            timer::want(until);
            if clock::now_ms() >= until || self.is_over() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Waits for the end of a session, or until there is nothing to wait for.
    async fn wait_for(&self, ended: &Ended) {
        let over = || ended.is.get() || self.is_over();
        std::future::poll_fn(|_| if over() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Connects, and begins a session. `None` when there is no connection.
    async fn connect(&self) -> Option<Rc<Ended>> {
        let own = &self.own;
        let worker = own.pin()?;
        let (proxy, server) = worker.instance.find_bind(self.listener)?.dials?;
        let admission = Admission::try_new(&own.live, self.listener)?;
        let (io, _) = {
            let backend = worker.instance.config.find_proxy(proxy)?;
            let server = backend.server(server)?;
            let frontend = own.live.listeners[self.listener].frontend();
            let id = ListenerId(u32::try_from(self.listener).unwrap_or(0));
            let session = Session::new(thalweg_sample::facts::ProxyId(frontend.0), id);
            let values = LineValues {
                header_fields: Vec::new(),
                sni: reach::asked_name(own, server),
                // What others would call it; it is asked on from its other end only.
                name: server.rare().pool_conn_name.as_ref().map(|_| None),
                websocket: false,
                source: None,
            };
            let (facts, overrides) = (StreamFacts::default(), Overrides::default());
            let target = Target::new(&worker, proxy, server, &session, &facts, &overrides, values);
            target.dial(backend.timeouts.connect, Box::default()).await.ok()?
        };
        let ended = Rc::new(Ended { is: Cell::new(false), task: current_task() });
        session::start_dialed(&worker, admission, Port::new(io), Ending(Rc::clone(&ended)));
        Some(ended)
    }
}

/// Whether the session of a connection has ended.
struct Ended {
    is: Cell<bool>,
    /// Who waits for it.
    task: TaskId,
}

/// What a session holds that is waited for: it is told however its task ends.
pub(super) struct Ending(Rc<Ended>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.is.set(true);
        self.0.task.wake_local(Reason::MESSAGE);
    }
}

/// How a session runs that was begun for a listener.
pub(super) fn options(worker: &Worker, listener: usize) -> SpawnOptions {
    SpawnOptions { class: Class::Normal, nice: worker.instance.bind(listener).nice }
}

/// Gives the connection of a client to a server. It still counts against the limits of its listener.
pub(super) async fn attach(
    own: &Rc<Thread>,
    session: &ClientSession,
    port: Port,
    attached: Attached,
    admission: Admission,
) {
    let Attached { server, name } = attached;
    let ends = {
        let facts = session.facts();
        (facts.fc_dst, facts.fc_src)
    };
    let frontend_timeouts = own.pin().and_then(|worker| {
        worker
            .instance
            .config
            .find_proxy(session.frontend)
            .map(|fe| fe.timeouts.client_hs.or(fe.timeouts.client))
    });
    let Some(limit) = frontend_timeouts else { return };
    let key = name.map(|name| Arc::new(ConnectionKey { name: Some(name), ..ConnectionKey::default() }));
    let to = (ProxyId(server.proxy.0), ServerId(server.index));
    shared::attach(own, to, port, (key, ends), limit.map(timer::deadline_in), admission).await;
}
