//! Connections to servers that carry many requests at once (HTTP/2): the task that each has, and how streams get a place on
//! one.
//!
//! A connection belongs to the thread that opened it. It is in the [pool](super::pool::IdlePool) of its server from its
//! beginning on, where the next request looks for one with room, unless its session keeps it for itself. One without
//! requests goes to [another thread](super::hand_over) that asks for it. It ends when nobody can ask it for a stream any
//! more and the last one is over, when the server ends it, or when the server takes nothing of what is sent to it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use thalweg_config::model::{PoolConfig, Proxy, ProxyId, Server, ServerId};
use thalweg_h2::connection::{Config, Excess, Role};
use thalweg_h2::error::ErrorCode;
use thalweg_runtime::{Kind, clock, spawn, timer};
use thalweg_sample::facts::Endpoint;

use super::demand::Demand;
use super::descriptors::Shortage;
use super::hand_over::{Given, Reply};
use super::key::ConnectionKey;
use super::seats::Seat;
use super::shelf::{Shared, Ticket};
use crate::connection::mux::{self, Carrier, Counted, IdlePing, Moving, Mux, MuxStream, Owner, Step};
use crate::connection::port::Port;
use crate::frontend::admission::Admission;
use crate::stopping::Stopping;
use crate::worker::{self, Thread, Worker};

static CONNECTION: Kind = Kind::new("h2-server");

/// How long the last frames of a connection may take to leave, in milliseconds.
const FLUSH_MS: u64 = 1000;

/// What tells a connection from others, whatever thread it is on.
#[derive(Clone)]
struct Traits {
    /// What it is interchangeable with.
    key: Option<Arc<ConnectionKey>>,
    /// Its own address and the server's.
    ends: (Endpoint, Endpoint),
    /// How often the server's address had changed when it was made.
    moves: u32,
    /// The server made it (`attach-srv`), so that it cannot be replaced.
    attached: bool,
}

/// A connection that carries many requests at once, as the pool has it.
pub struct SharedConnection {
    mux: Rc<Mux>,
    traits: Traits,
    /// Requests it has carried.
    requests: u32,
    asked: Asked,
}

/// Where the task of a connection finds who asked for it, once it was taken out of the pool for that: with how many requests it
/// has carried.
type Asked = Rc<Cell<Option<(Reply, u32)>>>;

/// Room for a request on a connection.
pub struct Place {
    /// The place itself.
    pub stream: MuxStream,
    /// What the connection is interchangeable with.
    pub key: Option<Arc<ConnectionKey>>,
    /// Requests it has carried, with this one.
    pub requests: u32,
    /// Its own address and the server's.
    pub ends: (Endpoint, Endpoint),
}

impl Drop for SharedConnection {
    fn drop(&mut self) {
        // Its task looks whether this was the last one.
        self.mux.keeper().wake_local(thalweg_runtime::Reason::MESSAGE);
    }
}

impl Shared for SharedConnection {
    fn key(&self) -> Option<&Arc<ConnectionKey>> {
        self.traits.key.as_ref()
    }

    fn has_room(&self) -> bool {
        self.mux.has_room()
    }

    fn is_spent(&self) -> bool {
        self.mux.is_spent()
    }

    fn await_room(&self, ticket: Ticket) {
        self.mux.await_room(ticket);
    }
}

impl SharedConnection {
    /// Whether it may carry requests for which `key` was worked out.
    pub fn is_for(&self, key: Option<&ConnectionKey>) -> bool {
        self.traits.key.as_deref() == key
    }

    /// Whether no request is on it.
    pub fn is_idle(&self) -> bool {
        self.mux.is_quiet()
    }

    /// Whether it may go to another thread: no request is on it, and none is about to be.
    pub fn may_move(&self) -> bool {
        self.is_idle() && self.has_room() && Rc::strong_count(&self.mux) == IN_POOL
    }

    /// Whether it has carried more than one request.
    pub fn is_proven(&self) -> bool {
        self.requests > 1
    }

    /// Whether it was the server that connected.
    pub fn is_attached(&self) -> bool {
        self.traits.attached
    }

    /// A place for another request, and how many it has carried with that.
    pub fn place(&mut self) -> Place {
        self.requests += 1;
        let (key, ends) = (self.traits.key.clone(), self.traits.ends);
        Place { stream: self.mux.place(), key, requests: self.requests, ends }
    }

    /// Has its task give it to the thread of who asks.
    pub fn hand_to(self, reply: Reply) {
        self.asked.set(Some((reply, self.requests)));
    }
}

/// References to a connection in a pool that nobody has a place on: the pool's and its task's.
const IN_POOL: usize = 2;

/// Speaks HTTP/2 on a connection that was just made to a server, for the request that it was made for; others find room on it
/// if it is `pooled`. `ends`: its own address and the server's; `moves`: how often that had changed.
pub fn begin(
    worker: &Worker,
    (proxy, server): (&Proxy, &Server),
    mut port: Port,
    key: Option<Arc<ConnectionKey>>,
    ends: (Endpoint, Endpoint),
    (moves, pooled): (u32, bool),
    seat: Option<Seat>,
) -> Place {
    // What is closed is closed in order: the last frames say why.
    port.line.set_reset_on_close(false);
    let tune = &worker.instance.config.global.tune;
    let carrier = Carrier::new(port, Role::Client, mux::config(tune, &tune.h2.be));
    let traits = Traits { key, ends, moves, attached: false };
    let mut shared = SharedConnection::new(&carrier, traits.clone(), 0);
    let place = shared.place();
    let counted = Counted::begin(Rc::clone(worker.own()), Owner::Backend(proxy.id));
    let mut kept = Kept::new(worker, (proxy, server), traits, Rc::clone(&shared.asked), counted);
    kept.seat = seat;
    // When the process stops, it ends with its request.
    if pooled && worker.live.stopping() == Stopping::No {
        kept.share(shared);
    }
    spawn(&CONNECTION, carry(kept, carrier));
    place
}

impl SharedConnection {
    fn new(carrier: &Carrier, traits: Traits, requests: u32) -> SharedConnection {
        SharedConnection { mux: Rc::clone(&carrier.mux), traits, requests, asked: Asked::default() }
    }
}

/// Makes requests on a connection that a server of reverse HTTP made, once both sides have told their settings.
/// `named`: what it is interchangeable with, its own address and the server's; `deadline`: when the settings must have come.
/// It keeps its place among the connections of its listener.
pub async fn attach(
    own: &Rc<Thread>,
    (backend, server): (ProxyId, ServerId),
    port: Port,
    (key, ends): (Option<Arc<ConnectionKey>>, (Endpoint, Endpoint)),
    deadline: Option<u64>,
    admission: Admission,
) {
    let Some(mut carrier) = own.pin().map(|worker| {
        let tune = &worker.instance.config.global.tune;
        Carrier::new(port, Role::Client, Config { reversed: true, ..mux::config(tune, &tune.h2.be) })
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
    let Some(worker) = own.pin() else { return };
    let found = worker.instance.config.find_proxy(backend);
    let Some(moves) = found.and_then(|proxy| Some(worker.moves(backend, proxy.server(server)?))) else {
        return;
    };
    let traits = Traits { key, ends, moves, attached: true };
    // It has been used already, to be made: what was sent on it and not processed may be sent again.
    let counted = Counted::begin(Rc::clone(own), Owner::Backend(backend));
    go_on(&worker, (backend, server), carrier, traits, (1, Some(admission), None), counted);
}

/// Puts a connection into the pool of its server on the calling thread, and looks after it from there on. False, and it is
/// closed, when nobody needs it any more.
fn go_on(
    worker: &Worker,
    (backend, server): (ProxyId, ServerId),
    carrier: Carrier,
    traits: Traits,
    (requests, admission, seat): (u32, Option<Admission>, Option<Seat>),
    counted: Counted,
) -> bool {
    // What was declared last goes first: the connection, and then its seat.
    let mut carrier = carrier;
    if seat.is_some()
        && let Some(wire) = carrier.port.line.wire_mut()
    {
        wire.set_prompt_close();
    }
    let found = worker.instance.config.find_proxy(backend);
    let Some((proxy, server)) = found.and_then(|proxy| Some((proxy, proxy.server(server)?))) else {
        return false;
    };
    if worker.live.stopping() != Stopping::No {
        return false;
    }
    let shared = SharedConnection::new(&carrier, traits.clone(), requests);
    let mut kept = Kept::new(worker, (proxy, server), traits, Rc::clone(&shared.asked), counted);
    (kept.admission, kept.seat) = (admission, seat);
    if !kept.share(shared) {
        drop(carrier);
        return false;
    }
    spawn(&CONNECTION, carry(kept, carrier));
    true
}

/// A connection on its way between threads.
pub struct Arriving {
    moving: Moving,
    of: (ProxyId, ServerId),
    traits: Traits,
    requests: u32,
    admission: Option<Admission>,
    seat: Option<Seat>,
}

impl Arriving {
    /// It is the calling thread's from here on, in the pool of its server. False: it was closed.
    pub fn arrive(self) -> bool {
        let Arriving { moving, of, traits, requests, admission, seat } = self;
        let (Some(worker), Ok(carrier)) = (worker::current(), Carrier::resume(moving)) else { return false };
        let counted = Counted::go_on(Rc::clone(worker.own()), Owner::Backend(of.0));
        go_on(&worker, of, carrier, traits, (requests, admission, seat), counted)
    }
}

/// What a server may do to a connection.
#[derive(Clone, Copy)]
struct Limits {
    /// How long it may take nothing of what is sent to it, in milliseconds.
    stuck_ms: Option<u64>,
    /// Glitches after which the connection ends; 0 for none.
    glitches: u32,
}

/// What the task of a connection knows of it.
struct Kept {
    own: Rc<Thread>,
    of: (ProxyId, ServerId),
    /// The server's flat number.
    index: usize,
    pool: PoolConfig,
    limits: Limits,
    ping: Option<Box<IdlePing>>,
    counted: Counted,
    traits: Traits,
    asked: Asked,
    /// Its place among the connections of a listener, if the server made it.
    admission: Option<Admission>,
    /// Its seat among those of the server (`strict-maxconn`).
    seat: Option<Seat>,
    pooled: Option<Pooled>,
}

/// A connection in a pool.
struct Pooled {
    /// Its number there.
    number: u64,
    /// How many there have no request, and whether it is one of them.
    quiet: Rc<Cell<usize>>,
    is_quiet: bool,
}

impl Kept {
    fn new(
        worker: &Worker,
        (proxy, server): (&Proxy, &Server),
        traits: Traits,
        asked: Asked,
        counted: Counted,
    ) -> Kept {
        Kept {
            own: Rc::clone(worker.own()),
            of: (proxy.id, server.id),
            index: worker.instance.server_index(proxy.id, server.id),
            pool: server.pool,
            limits: Limits {
                stuck_ms: proxy.timeouts.server,
                glitches: worker.instance.config.global.tune.h2.be.glitches_threshold,
            },
            ping: IdlePing::new(server.rare().idle_ping_ms),
            counted,
            traits,
            asked,
            admission: None,
            seat: None,
            pooled: None,
        }
    }

    /// Lets other requests find the connection; false when its server is elsewhere now.
    fn share(&mut self, shared: SharedConnection) -> bool {
        let (delay, moves) = (u64::from(self.pool.purge_delay_ms), self.traits.moves);
        let shared = self.own.with_pool(self.index, |pool| {
            let quiet = Rc::clone(pool.quiet());
            pool.follow(moves).then(|| (pool.share(shared, delay), quiet))
        });
        let Some(((number, due), quiet)) = shared.flatten() else { return false };
        self.pooled = Some(Pooled { number, quiet, is_quiet: false });
        self.own.wake_janitor(due);
        true
    }

    /// Counts it among the idle ones, or no longer. One that is not needed is closed.
    fn note_idle(&mut self, idle: bool) {
        let Some(Pooled { number, quiet, is_quiet }) = &mut self.pooled else { return };
        if std::mem::replace(is_quiet, idle) == idle {
            return;
        }
        quiet.set(if idle { quiet.get() + 1 } else { quiet.get() - 1 });
        let low = self.pool.low_conn as usize;
        let is_wanted = self.seat.as_ref().is_some_and(Seat::is_wanted);
        let shortage = self.own.pin().map_or(Shortage::None, |worker| worker.shortage());
        self.own.with_known_pool(self.index, |pool, counters| {
            let demand = Demand {
                others: usize::try_from(counters.current.get()).unwrap_or(0),
                needed: usize::try_from(counters.needed_connections.get()).unwrap_or(0),
                low,
                shortage,
            };
            match Rc::ptr_eq(pool.quiet(), quiet) {
                true if idle && is_wanted => pool.forget(*number),
                true if idle => pool.rests(*number, demand),
                true => pool.works(*number),
                // Another one is there in place of the one that it was in.
                false => {}
            }
        });
    }

    /// Tells of the frames since it was last asked.
    fn tell_frames(&self, carrier: &mut Carrier) {
        if !carrier.frames.is_empty() {
            self.own.trace_server_frames(self.of, &mut carrier.frames);
        }
    }

    /// Gives a connection without requests to who asked for it.
    async fn hand_over(mut self, mut carrier: Carrier, (reply, requests): (Reply, u32)) {
        if !std::future::poll_fn(|_| carrier.poll_detach()).await {
            return;
        }
        let Some(moving) = carrier.into_moving() else { return };
        let traits = self.traits.clone();
        let (admission, seat) = (self.admission.take(), self.seat.take());
        let arriving = Arriving { moving, of: self.of, traits, requests, admission, seat };
        reply.give(Given::Many(Box::new(arriving)));
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let Some(Pooled { number, quiet, is_quiet }) = self.pooled.take() else { return };
        quiet.set(quiet.get() - usize::from(is_quiet));
        self.own.with_known_pool(self.index, |pool, _| {
            if Rc::ptr_eq(pool.quiet(), &quiet) {
                pool.forget(number);
            }
        });
    }
}

/// Why a connection is looked after no longer.
enum Leave {
    Ended(Option<Step>),
    Asked((Reply, u32)),
}

/// Looks after a connection until its end, or until it goes to another thread. What is known of it goes after it: its seat is
/// free once it is closed.
async fn carry(mut kept: Kept, mut carrier: Carrier) {
    carrier.adopt();
    let leave = std::future::poll_fn(|_| {
        carrier.frames.wanted = kept.own.traces_frames();
        let polled = carrier.poll(&mut |_| {});
        kept.tell_frames(&mut carrier);
        kept.counted.note(&carrier.mux);
        if let Poll::Ready(step) = polled {
            if let Step::Failed(failure) = step
                && let Some(excess) = failure.excess()
            {
                kept.counted.ended_for(excess);
            }
            return Poll::Ready(Leave::Ended(Some(step)));
        }
        let limits = kept.limits;
        if limits.glitches > 0
            && carrier.mux.glitches() >= limits.glitches
            && !carrier.mux.is_spent()
            && kept.own.pin().is_some_and(|worker| mux::may_end_for_glitches(&worker))
        {
            kept.counted.ended_for(Excess::Glitches);
            // Its last requests are served.
            carrier.mux.goaway(ErrorCode::EnhanceYourCalm);
        }
        let (quiet, spent) = (carrier.mux.is_quiet(), carrier.mux.is_spent());
        if quiet {
            carrier.mux.rest();
        }
        kept.note_idle(quiet && !spent && !carrier.is_forgotten());
        if quiet && (carrier.is_forgotten() || spent) {
            return Poll::Ready(match kept.asked.take() {
                Some(asked) if !spent => Leave::Asked(asked),
                _ => Leave::Ended(None),
            });
        }
        if let Some(ping) = &mut kept.ping
            && !ping.look(&carrier.mux, quiet)
        {
            carrier.mux.goaway(ErrorCode::NoError);
            return Poll::Ready(Leave::Ended(None));
        }
        if carrier.port.line.in_flight() > 0
            && let Some(limit) = limits.stuck_ms
        {
            let at = carrier.last_sent_ms().saturating_add(limit).saturating_add(1);
            if clock::now_ms() >= at {
                return Poll::Ready(Leave::Ended(Some(Step::Vanish)));
            }
            timer::want(at);
        }
        Poll::Pending
    })
    .await;
    let step = match leave {
        Leave::Asked(asked) => return kept.hand_over(carrier, asked).await,
        Leave::Ended(step) => step,
    };
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
    kept.tell_frames(&mut carrier);
    carrier.port.line.say_end();
}
