//! A client's connection that carries many requests at once (HTTP/2): the part of the session that looks after it.
//!
//! The session's task is that of the [connection](crate::connection::mux), and each request has a task of its own. The session
//! ends when the last of them did.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Poll;

use thalweg_config::model::{H2Tune, LogsErrors};
use thalweg_h2::connection::{Config, Excess, Role};
use thalweg_h2::error::ErrorCode;
use thalweg_runtime::net::Departure;
use thalweg_runtime::{Class, Kind as TaskKind, SpawnOptions, clock, pool, spawn_with, timer, waiting_tasks};

use super::parting::Parting;
use super::{ClientSession, Framed};
use crate::connection::line::Line;
use crate::connection::mux::{self, Carrier, Counted, IdlePing, MuxStream, Opened, Owner, Step};
use crate::connection::port::Port;
use crate::stopping::Stopping;
use crate::stream::ending::Cause;
use crate::stream::{After, StreamState};
use crate::stream::{finish, http, track};
use crate::worker::{Thread, Worker};

static STREAM: TaskKind = TaskKind::new("h2-stream");

/// How long a client that was told of the end may take to answer, before no more streams are taken.
const ANNOUNCE_MS: u64 = 1000;

/// Tasks that run before a thread looks for more, where `tune.runqueue-depth` does not say how many.
const RUN_QUEUE_DEPTH: u32 = 40;

/// No such moment.
const NEVER: u64 = u64::MAX;

/// What this side tells its clients, and how many streams each may have open.
fn config(worker: &Worker) -> (Config, u32) {
    let tune = &worker.instance.config.global.tune;
    let h2 = &tune.h2;
    let mut config = mux::config(tune, &h2.fe);
    config.settings.enable_connect_protocol = !h2.hides_websockets;
    let depth = if tune.runqueue_depth == 0 { RUN_QUEUE_DEPTH } else { tune.runqueue_depth };
    config.settings.max_concurrent_streams = streams_under(h2, waiting_tasks() as u64, depth);
    config.resets_at_once = h2.resets_at_once;
    config.streams_total_max = h2.total_streams;
    let streams = config.settings.max_concurrent_streams;
    (config, streams.unwrap_or(u32::MAX))
}

/// Streams that a new client may have open at once, with so many tasks `waiting` on its thread: where there are more than
/// `rq-load`, of which `auto` is `depth`, fewer by the square of how many more.
fn streams_under(h2: &H2Tune, waiting: u64, depth: u32) -> Option<u32> {
    let streams = h2.streams(&h2.fe);
    let usual = match h2.rq_load {
        None => return streams,
        Some(0) => u64::from(depth),
        Some(tasks) => u64::from(tasks),
    };
    if waiting <= usual {
        return streams;
    }
    let most = u64::from(streams.unwrap_or(u32::MAX));
    let share = most.saturating_mul(usual).saturating_mul(usual) / waiting.saturating_mul(waiting);
    Some(u32::try_from(share).unwrap_or(u32::MAX).max(h2.streams_min))
}

/// A client's connection on which HTTP/2 is spoken, from its preface on, which is in the port or still to come.
pub struct Sitting {
    carrier: Carrier,
    session: Rc<ClientSession>,
    /// When the session began, or its last request came: microseconds of the monotonic clock, and since 1970.
    began: (u64, i64),
    /// Since when there is no stream.
    idle_since_ms: u64,
    /// There was a request.
    served: bool,
    /// When the client was told of the end; 0: it was not.
    announced_ms: u64,
    /// When a soft stop is announced (`close-spread-time`), once it was noticed; 0: it was not. [`NEVER`]: it is not announced.
    announce_at_ms: u64,
    /// When the client was told that no more streams are taken, and there was none; 0: it was not.
    left_ms: u64,
    /// Nothing more comes; true: what was sent shall arrive.
    ending: Option<bool>,
    /// It sent too much of what costs nothing.
    is_unheard: bool,
    stopping: Stopping,
    counted: Counted,
    ping: Option<Box<IdlePing>>,
}

/// A request that came: its stream, and its head in the memory of one; or that there was none.
enum Arrived {
    Request(u32, Box<StreamState>),
    Bad(u32, Box<StreamState>),
    Malformed(bool, (u64, i64)),
}

thread_local! {
    /// Lent to each connection that receives: requests that came, until they have tasks.
    static ARRIVED: Cell<Vec<Arrived>> = const { Cell::new(Vec::new()) };
}

impl Sitting {
    /// One that begins, of the current task.
    pub fn new(worker: &Rc<Worker>, session: Rc<ClientSession>, port: Port, began: (u64, i64)) -> Sitting {
        let (mut config, limit) = config(worker);
        config.reversed = session.framed.get() == Framed::Dialed;
        {
            let mut facts = session.facts_mut();
            facts.http_major = 2;
            let rare = facts.rare_mut();
            (rare.streams, rare.streams_limit) = (0, limit);
        }
        Sitting {
            carrier: Carrier::new(port, Role::Server, config),
            counted: Counted::begin(Rc::clone(worker.own()), Owner::Listener(session.listener)),
            ping: IdlePing::new(worker.instance.bind(session.listener).idle_ping_ms),
            session,
            began,
            idle_since_ms: clock::now_ms(),
            served: false,
            announced_ms: 0,
            announce_at_ms: 0,
            left_ms: 0,
            ending: None,
            is_unheard: false,
            stopping: Stopping::No,
        }
    }

    /// Ready when the connection is over, with whether it ended in order.
    pub fn poll(&mut self, own: &Rc<Thread>) -> Poll<bool> {
        // Requests that come are served by what is in force now; who waits keeps nothing of it.
        match own.pin_for(self.session.listener) {
            Some(worker) => self.turn(&worker),
            None => Poll::Ready(false),
        }
    }

    /// Everything was sent that could be: whose connection it was, its port, and how it is to be closed.
    pub fn part(mut self, own: &Rc<Thread>, orderly: bool) -> (Rc<ClientSession>, Port, Parting) {
        self.tell_frames(own);
        let parting = match (orderly, self.is_unheard) {
            (true, false) => Parting::InOrder,
            (true, true) => Parting::Unheard,
            (false, _) => Parting::AtOnce,
        };
        (self.session, self.carrier.port, parting)
    }

    fn turn(&mut self, worker: &Rc<Worker>) -> Poll<bool> {
        self.session.look_after_private();
        self.look_at_stop(worker);
        if self.ending.is_none() {
            let mut arrived = Vec::new();
            let polled = self.receive(worker, &mut arrived);
            if arrived.capacity() > 0 {
                self.start_streams(worker, &mut arrived);
                ARRIVED.set(arrived);
            }
            if let Poll::Ready(step) = polled {
                self.nothing_more(worker, &step);
            }
        }
        let streams = self.carrier.mux.streams();
        self.note_facts(worker, streams);
        if self.ending == Some(true) && self.is_broken() {
            // A client that ended its direction may still break the connection: its streams have nobody to answer.
            self.ending = Some(false);
            self.carrier.cut();
        }
        if let Some(orderly) = self.ending {
            // What is said to the client still leaves while its streams go.
            let flushed = !orderly || self.carrier.is_flushed();
            return match streams == 0 && (flushed || self.is_overdue(worker, streams)) {
                true => Poll::Ready(orderly),
                false => Poll::Pending,
            };
        }
        if self.left_ms == 0 && self.wants_to_leave(streams) {
            // The client knows already, and has all that it was to have.
            return match self.carrier.flush().is_err() || self.carrier.is_flushed() || self.is_stuck(worker) {
                true => Poll::Ready(true),
                false => Poll::Pending,
            };
        }
        if self.left_ms == 0 && self.is_overdue(worker, streams) {
            self.left_ms = clock::now_ms();
            self.carrier.mux.goaway(ErrorCode::NoError);
            if self.carrier.flush().is_err() {
                return Poll::Ready(false);
            }
        }
        if streams == 0 {
            self.carrier.mux.rest();
        }
        if self.stopping == Stopping::No
            && let Some(ping) = &mut self.ping
            && !ping.look(&self.carrier.mux, streams == 0)
        {
            self.carrier.mux.goaway(ErrorCode::NoError);
            return Poll::Ready(self.carrier.flush().is_ok());
        }
        match self.left_ms != 0 && streams == 0 && self.may_close(worker) {
            true => Poll::Ready(true),
            false => Poll::Pending,
        }
    }

    /// Sends what waits, once nothing more is received: whether the connection broke, which nobody else would notice then.
    fn is_broken(&mut self) -> bool {
        self.carrier.flush().is_err() || self.carrier.port.line.departure() == Departure::Reset
    }

    /// The client was told that the connection ends: whether it had the time to end it itself, which lets it know what was not
    /// served.
    fn may_close(&mut self, worker: &Rc<Worker>) -> bool {
        if self.is_stuck(worker) || self.stopping != Stopping::No || self.carrier.port.has_input() {
            return true;
        }
        let t = &worker.proxy(self.session.frontend).timeouts;
        t.client_fin.or(t.client).is_some_and(|limit| is_over(self.left_ms, limit))
    }

    fn receive(&mut self, worker: &Rc<Worker>, arrived: &mut Vec<Arrived>) -> Poll<Step> {
        let Sitting { carrier, session, began, served, .. } = self;
        carrier.frames.wanted = worker.own().traces_frames();
        let polled = carrier.poll(&mut |opened| {
            let first = !std::mem::replace(served, true);
            let since = *began;
            *began = (clock::now_us(), worker.clock().wall_us);
            if arrived.capacity() == 0 {
                *arrived = ARRIVED.take();
            }
            arrived.push(match opened {
                Opened::Malformed(_) => Arrived::Malformed(first, since),
                Opened::Bad(id) => {
                    let mut state = worker.take_stream();
                    http::begin(&mut state, session, first, since);
                    Arrived::Bad(id, state)
                }
                Opened::Request { id, head, .. } => {
                    let mut state = worker.take_stream();
                    http::begin(&mut state, session, first, since);
                    std::mem::swap(&mut state.request, head);
                    Arrived::Request(id, state)
                }
            });
        });
        self.tell_frames(worker.own());
        polled
    }

    /// Tells of the frames since it was last asked.
    fn tell_frames(&mut self, own: &Thread) {
        if !self.carrier.frames.is_empty() {
            own.trace_client_frames(&self.session, &mut self.carrier.frames);
        }
    }

    /// Gives each request that came a task.
    fn start_streams(&mut self, worker: &Rc<Worker>, arrived: &mut Vec<Arrived>) {
        for arrived in arrived.drain(..) {
            let (id, state, is_request) = match arrived {
                Arrived::Request(id, state) => (id, state, true),
                Arrived::Bad(id, state) => (id, state, false),
                Arrived::Malformed(first, since) => {
                    let logged = worker.instance.config.global.tune.h2.logs == LogsErrors::Stream;
                    http::refuse_framed(worker, &self.session, first, since, logged, Cause::BadRequest);
                    continue;
                }
            };
            let stream = self.carrier.mux.stream(id);
            let nice = worker.instance.bind(self.session.listener).nice;
            let options = SpawnOptions { class: Class::Normal, nice };
            let (worker, session) = (Rc::clone(worker), Rc::clone(&self.session));
            spawn_with(&STREAM, options, serve_stream(worker, session, stream, state, is_request));
        }
        self.session.first.set(!self.served);
    }

    fn nothing_more(&mut self, worker: &Rc<Worker>, step: &Step) {
        self.ending = Some(!matches!(step, Step::Broken(_) | Step::Vanish));
        if let Some(failure) = self.carrier.port.line.tls_failure() {
            self.session.tls_failed(failure);
        }
        if matches!(step, Step::Failed(_)) {
            let logged = worker.instance.config.global.tune.h2.logs >= LogsErrors::Connection;
            let first = !std::mem::replace(&mut self.served, true);
            let cause = if self.carrier.mux.is_in_head() { Cause::BadRequest } else { Cause::BadFrames };
            http::refuse_framed(worker, &self.session, first, self.began, logged, cause);
        }
        if let Step::Failed(failure) = step
            && let Some(excess) = failure.excess()
        {
            self.is_unheard = true;
            self.counted.ended_for(excess);
            self.say_why(worker, &failure.to_string());
        }
        match step {
            // Those that need no more of it may still be answered.
            Step::Closed => return self.carrier.end_input(),
            Step::Vanish | Step::Broken(_) | Step::Failed(_) | Step::Kicked => {}
        }
        self.carrier.cut();
    }

    /// The log tells for what a connection ended that kept to the protocol.
    fn say_why(&self, worker: &Rc<Worker>, why: &str) {
        if worker.instance.config.global.tune.h2.logs >= LogsErrors::Connection {
            let why = format!("HTTP/2 connection closed: {why}");
            finish::log_session(worker, &self.session, Cause::BadRequest, &why);
        }
    }

    /// What rules and logs see of the connection.
    fn note_facts(&mut self, worker: &Rc<Worker>, streams: usize) {
        if streams > 0 {
            self.idle_since_ms = NEVER;
        } else if self.idle_since_ms == NEVER {
            self.idle_since_ms = clock::now_ms();
            // The next request is idle from here on (`%Ti`).
            self.began = (clock::now_us(), worker.clock().wall_us);
        }
        self.counted.note(&self.carrier.mux);
        let glitches = self.carrier.mux.glitches();
        let before = {
            let mut facts = self.session.facts_mut();
            let rare = facts.rare_mut();
            rare.streams = u32::try_from(streams).unwrap_or(u32::MAX);
            std::mem::replace(&mut rare.glitches, glitches)
        };
        if glitches > before {
            track::glitches(&self.session, glitches - before);
            self.look_at_glitches(worker, glitches);
        }
    }

    /// A client that breaks the rules too often is told to leave in time, and is left in the end
    /// (`tune.h2.fe.glitches-threshold`).
    fn look_at_glitches(&mut self, worker: &Rc<Worker>, glitches: u32) {
        let limit = worker.instance.config.global.tune.h2.fe.glitches_threshold;
        if limit == 0 || self.ending.is_some() || !mux::may_end_for_glitches(worker) {
            return;
        }
        if glitches >= limit {
            self.counted.ended_for(Excess::Glitches);
            self.say_why(worker, "too many breaches of the protocol (tune.h2.fe.glitches-threshold)");
            self.carrier.mux.goaway(ErrorCode::EnhanceYourCalm);
            self.nothing_more(worker, &Step::Kicked);
        } else if u64::from(glitches) * 4 >= u64::from(limit) * 3 {
            self.carrier.mux.announce_end();
        }
    }

    /// A process that stops tells its clients, and wakes its streams, which may end with it.
    fn look_at_stop(&mut self, worker: &Rc<Worker>) {
        let stopping = match worker.instance.stopping() {
            Stopping::No if worker.leaves(self.session.listener) => Stopping::Soft,
            stopping => stopping,
        };
        if thalweg_runtime::reasons().intersects(thalweg_runtime::Reason::OTHER) {
            self.carrier.wake_all();
        }
        if stopping == Stopping::No || self.ending.is_some() {
            return;
        }
        self.stopping = stopping;
        let now = clock::now_ms();
        if stopping == Stopping::Soft && self.announced_ms == 0 {
            if self.announce_at_ms == 0 {
                self.announce_at_ms = worker.leaves_at(now).unwrap_or(NEVER);
            }
            if now < self.announce_at_ms {
                timer::want(self.announce_at_ms);
                return;
            }
        }
        if self.announced_ms == 0 {
            self.announced_ms = now;
            self.carrier.mux.announce_end();
        } else if self.carrier.mux.take_pong() || now >= self.announced_ms + ANNOUNCE_MS {
            self.carrier.mux.goaway(ErrorCode::NoError);
        } else {
            timer::want(self.announced_ms + ANNOUNCE_MS);
        }
    }

    /// Nothing is open, and nothing more shall be.
    fn wants_to_leave(&self, streams: usize) -> bool {
        streams == 0 && self.carrier.mux.is_closing()
    }

    /// Whether the client takes too long: for its first or its next request, or for taking what it is sent.
    fn is_overdue(&mut self, worker: &Rc<Worker>, streams: usize) -> bool {
        if self.is_stuck(worker) {
            return true;
        }
        if streams > 0 {
            return false;
        }
        let t = &worker.proxy(self.session.frontend).timeouts;
        let (request, client) = match self.served {
            true => match t.http_keep_alive.or(t.http_request) {
                None => (None, t.client),
                request => (request, None),
            },
            false => (t.http_request, t.client),
        };
        let since = self.idle_since_ms.min(clock::now_ms());
        // Who answers is there, but asks for nothing.
        let heard = since.max(self.ping.as_ref().map_or(0, |ping| ping.answered_ms()));
        request.is_some_and(|limit| is_over(since, limit)) | client.is_some_and(|limit| is_over(heard, limit))
    }

    /// Whether the client does not take what is sent to it.
    fn is_stuck(&mut self, worker: &Rc<Worker>) -> bool {
        if self.carrier.port.line.in_flight() == 0 {
            return false;
        }
        let Some(limit) = worker.proxy(self.session.frontend).timeouts.client else { return false };
        is_over(self.carrier.last_sent_ms(), limit)
    }
}

/// Whether a limit is over; asks for another look when it would be.
fn is_over(since_ms: u64, limit: u64) -> bool {
    let at = since_ms.saturating_add(limit).saturating_add(1);
    if clock::now_ms() >= at {
        return true;
    }
    timer::want(at);
    false
}

/// One request.
async fn serve_stream(
    worker: Rc<Worker>,
    session: Rc<ClientSession>,
    stream: MuxStream,
    mut state: Box<StreamState>,
    is_request: bool,
) {
    let mut client = Port::new(Line::Mux(Box::new(stream)));
    let after = {
        let (worker, session, client, state) = (&worker, &session, &mut client, &mut state);
        pool::boxed_with(move || http::serve_framed(worker, session, client, state, is_request)).await
    };
    worker.give_stream(state);
    if let (After::Drop, Line::Mux(stream)) = (after, &mut client.line) {
        stream.leave_with(ErrorCode::Cancel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_allows_fewer_streams() {
        let h2 = H2Tune { rq_load: Some(50), streams_min: 5, ..H2Tune::default() };
        let allowed = |waiting| streams_under(&h2, waiting, 40).unwrap();
        assert_eq!([0, 50, 51, 100, 200, 100_000].map(allowed), [100, 100, 96, 25, 6, 5]);
        let auto = H2Tune { rq_load: Some(0), ..H2Tune::default() };
        assert_eq!(streams_under(&auto, 80, 40), Some(25));
        assert_eq!(streams_under(&H2Tune::default(), 100_000, 40), Some(100));
    }
}
