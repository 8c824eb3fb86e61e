//! Connections to servers that carry many requests at once (HTTP/2): the task that each has, and how streams get a place on
//! one.
//!
//! A connection belongs to the thread that opened it. It is in the [pool](super::pool::IdlePool) of its server from its
//! beginning on, where the next request looks for one with room, unless its session keeps it for itself. It ends when
//! nobody can ask it for a stream any more and the last one is over, when the server ends it, or when the server takes
//! nothing of what is sent to it.

use std::rc::Rc;
use std::task::Poll;

use thalweg_config::model::{Proxy, ProxyId, ServerId};
use thalweg_h2::connection::{Config, Role};
use thalweg_h2::error::ErrorCode;
use thalweg_runtime::{Kind, clock, spawn, timer};
use thalweg_sample::facts::Endpoint;

use super::pool::ConnectionKey;
use crate::connection::mux::{self, Carrier, Mux, MuxStream, Step};
use crate::connection::port::Port;
use crate::worker::{Thread, Worker};

static CONNECTION: Kind = Kind::new("h2-server");

/// How long the last frames of a connection may take to leave, in milliseconds.
const FLUSH_MS: u64 = 1000;

/// A connection that carries many requests at once, as those know it who may ask it for a stream.
#[derive(Clone)]
pub struct SharedConnection {
    mux: Rc<Mux>,
    /// What it is interchangeable with.
    pub key: Option<Rc<ConnectionKey>>,
    /// Requests it has carried.
    pub requests: u32,
    /// Its own address and the server's.
    pub ends: (Endpoint, Endpoint),
    /// The server made it (`attach-srv`), so that it cannot be replaced.
    attached: bool,
}

impl Drop for SharedConnection {
    fn drop(&mut self) {
        // Its task looks whether this was the last one.
        self.mux.keeper().wake_local(thalweg_runtime::Reason::MESSAGE);
    }
}

impl SharedConnection {
    /// Whether a request may be sent on it now.
    pub fn has_room(&self) -> bool {
        self.mux.has_room()
    }

    /// Whether no request will ever be sent on it again.
    pub fn is_spent(&self) -> bool {
        self.mux.is_spent()
    }

    /// Whether no request is on it.
    pub fn is_idle(&self) -> bool {
        self.mux.is_quiet()
    }

    /// Whether it was the server that connected.
    pub fn is_attached(&self) -> bool {
        self.attached
    }

    /// A place for a request.
    pub fn place(&self) -> MuxStream {
        self.mux.place()
    }

    /// Speaks HTTP/2 on a connection that was just made to a server of `proxy`. `ends`: its own address and the server's.
    pub fn begin(
        worker: &Worker,
        proxy: &Proxy,
        mut port: Port,
        key: Option<Rc<ConnectionKey>>,
        ends: (Endpoint, Endpoint),
    ) -> SharedConnection {
        // What is closed is closed in order: the last frames say why.
        port.line.set_reset_on_close(false);
        let tune = &worker.instance.config.global.tune;
        let carrier = Carrier::new(port, Role::Client, mux::config(tune, &tune.h2.be));
        let mux = Rc::clone(&carrier.mux);
        let limits = Limits::of(worker, proxy);
        spawn(&CONNECTION, carry(carrier, limits));
        SharedConnection { mux, key, requests: 0, ends, attached: false }
    }
}

/// Makes requests on a connection that a server of reverse HTTP made, from when both sides have told their settings until its end.
/// `named`: what it is interchangeable with, its own address and the server's; `deadline`: when the settings must have come.
pub async fn serve_attached(
    own: &Rc<Thread>,
    (backend, server): (ProxyId, ServerId),
    port: Port,
    named: (Option<Rc<ConnectionKey>>, (Endpoint, Endpoint)),
    deadline: Option<u64>,
) {
    let Some((mut carrier, limits, index)) = own.pin().and_then(|worker| {
        let proxy = worker.instance.config.find_proxy(backend)?;
        proxy.server(server)?;
        let tune = &worker.instance.config.global.tune;
        let config = Config { reversed: true, ..mux::config(tune, &tune.h2.be) };
        let limits = Limits::of(&worker, proxy);
        let index = worker.instance.server_index(backend, server);
        Some((Carrier::new(port, Role::Client, config), limits, index))
    }) else {
        return;
    };
    let settled = std::future::poll_fn(|_| match carrier.poll(&mut |_| {}) {
        Poll::Ready(_) => Poll::Ready(false),
        Poll::Pending if carrier.mux.is_settled() => Poll::Ready(true),
        Poll::Pending => Poll::Pending,
    });
    if !timer::timeout_at(deadline, settled).await.unwrap_or(false) {
        // What it is told of the reason leaves if it can.
        let _ = carrier.flush();
        return;
    }
    let (mux, (key, ends)) = (Rc::clone(&carrier.mux), named);
    // It has been used already, to be made: what was sent on it and not processed may be sent again.
    let shared = SharedConnection { mux, key, requests: 1, ends, attached: true };
    let due = own.pin().and_then(|worker| {
        let server = worker.instance.config.find_proxy(backend)?.server(server)?;
        let (delay, moves) = (u64::from(server.pool.purge_delay_ms), worker.moves(backend, server));
        worker.with_pool(index, |pool| pool.follow(moves).then(|| pool.share(shared, delay)))
    });
    due.into_iter().for_each(|due| own.wake_janitor(due));
    carry(carrier, limits).await;
}

/// What a server may do to a connection.
#[derive(Clone, Copy)]
struct Limits {
    /// How long it may take nothing of what is sent to it, in milliseconds.
    stuck_ms: Option<u64>,
    /// Glitches after which the connection ends; 0 for none.
    glitches: u32,
}

impl Limits {
    fn of(worker: &Worker, proxy: &Proxy) -> Limits {
        let glitches = worker.instance.config.global.tune.h2.be.glitches_threshold;
        Limits { stuck_ms: proxy.timeouts.server, glitches }
    }
}

/// Looks after a connection until its end.
async fn carry(mut carrier: Carrier, limits: Limits) {
    carrier.adopt();
    let step = std::future::poll_fn(|_| {
        if let Poll::Ready(step) = carrier.poll(&mut |_| {}) {
            return Poll::Ready(Some(step));
        }
        if limits.glitches > 0 && carrier.mux.glitches() >= limits.glitches && !carrier.mux.is_spent() {
            // Its last requests are served.
            carrier.mux.goaway(ErrorCode::EnhanceYourCalm);
        }
        let quiet = carrier.mux.is_quiet();
        if quiet {
            carrier.mux.rest();
        }
        if quiet && (carrier.is_forgotten() || carrier.mux.is_spent()) {
            return Poll::Ready(None);
        }
        if carrier.port.line.in_flight() > 0
            && let Some(limit) = limits.stuck_ms
        {
            let at = carrier.last_sent_ms().saturating_add(limit).saturating_add(1);
            if clock::now_ms() >= at {
                return Poll::Ready(Some(Step::Vanish));
            }
            timer::want(at);
        }
        Poll::Pending
    })
    .await;
    carrier.cut();
    if matches!(step, Some(Step::Broken(_) | Step::Vanish)) {
        return;
    }
    let soon = Some(timer::deadline_in(FLUSH_MS));
    let flushed = std::future::poll_fn(|_| match carrier.flush() {
        Err(_) => Poll::Ready(()),
        Ok(()) if carrier.is_flushed() => Poll::Ready(()),
        Ok(()) => Poll::Pending,
    });
    let _ = timer::timeout_at(soon, flushed).await;
    carrier.port.line.say_end();
}
