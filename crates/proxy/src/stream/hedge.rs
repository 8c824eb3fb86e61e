//! `option hedge` (ours): a second attempt at another server while the first one has no answer.
//!
//! Only requests that may be sent twice are, which have no body, once each, and as often as the budget for repetitions pays for. The
//! first server of which something can be read answers. The other one's slot and connection are given back at once, and what it
//! may still say is not read. One that fails while the other is asked does not end the request.

use std::pin::Pin;
use std::task::{Context, Poll};

use thalweg_balance::ServerIndex;
use thalweg_config::model::{HedgeDelay, Proxy, Server, ServerAddr};
use thalweg_http::Method;
use thalweg_http::semantics::BodyLength;
use thalweg_runtime::pool::Block;
use thalweg_runtime::{clock, timer};

use super::attempt::{Engaged, Lease, note_connection, target};
use super::exchange::{self, HeadEnd, Wanted, is_idempotent};
use super::pump::Pump;
use super::{Stream, stick};
use crate::backend::assign::{self, Choice};
use crate::backend::connect::ServerConn;
use crate::backend::connect_error::ConnectError;
use crate::backend::health::observe::{Seen, observe_failure};

/// No such moment.
const NEVER: u64 = u64::MAX;

/// What `txn.hedged` says: a second server was asked, or has answered.
const ASKED: u8 = 1;
const ANSWERED: u8 = 2;

/// The second attempt of one exchange, while there may be one.
pub struct Hedge<'a> {
    /// When it is made, in milliseconds of the clock.
    due_ms: u64,
    /// The time to the answer is one of those that `p95` is found in.
    measures: bool,
    second: Option<Box<Second<'a>>>,
    /// How the first attempt ended, while the second one stands in for it.
    first_ended: Option<HeadEnd>,
    /// When the second one began, once it has won, in microseconds of the stream.
    won_from_us: Option<i64>,
}

/// A second server that is asked.
struct Second<'a> {
    server: &'a Server,
    lease: Lease<'a>,
    began_us: i64,
    connected_us: i64,
    phase: Phase<'a>,
}

type Opening<'a> = Pin<Box<dyn Future<Output = Result<ServerConn, ConnectError>> + 'a>>;

enum Phase<'a> {
    Connecting(Opening<'a>),
    /// It is sent the request, through a pump that may hold the head back for a moment.
    Asked(Block<ServerConn>, Pump),
}

impl<'a> Hedge<'a> {
    const NONE: Hedge<'a> =
        Hedge { due_ms: NEVER, measures: false, second: None, first_ended: None, won_from_us: None };

    /// The second attempt of a request that is now with its first server, if it may have one. `was_early` says that part of it went
    /// there as early data.
    #[inline]
    pub fn prepare(http: &Stream<'a>, be: &Proxy, with: &Engaged<'_, 'a>, was_early: bool) -> Hedge<'a> {
        match be.rare().hedge {
            Some(delay) if !was_early && may_be_hedged(http, with) => Hedge::after(http, be, delay),
            _ => Hedge::NONE,
        }
    }

    #[cold]
    fn after(http: &Stream<'a>, be: &Proxy, delay: HedgeDelay) -> Hedge<'a> {
        let (measures, after_ms) = match delay {
            HedgeDelay::After(ms) => (false, Some(ms)),
            HedgeDelay::Percentile(percent) => (true, assign::answer_percentile_ms(http.worker, be, percent)),
        };
        let due_ms = after_ms.map_or(NEVER, timer::deadline_in);
        Hedge { due_ms, measures, ..Hedge::NONE }
    }

    /// Whether there is none, and none will be.
    #[inline]
    pub fn is_off(&self) -> bool {
        self.due_ms == NEVER && self.second.is_none()
    }

    /// There is no second attempt from here on: its slot and its connection are given back.
    pub fn call_off(&mut self) {
        self.due_ms = NEVER;
        self.second = None;
    }

    /// The exchange has its response's head: since when the server had the request that it came from, in microseconds of
    /// the stream.
    pub fn settle(self, http: &Stream<'_>, be: &Proxy) -> i64 {
        let turn_us = http.state.facts.timers.queue_us;
        if self.measures {
            assign::note_answer_time(http.worker, be, http.elapsed_us() - turn_us);
        }
        self.won_from_us.unwrap_or(turn_us)
    }

    /// Waits for the head of a response on both connections. The one that brings something is that of `with` afterwards.
    #[cold]
    pub fn poll_head(
        &mut self,
        http: &mut Stream<'a>,
        be: &'a Proxy,
        with: &mut Engaged<'_, 'a>,
        wanted: &Wanted,
        cx: &mut Context<'_>,
    ) -> Poll<HeadEnd> {
        if self.first_ended.is_none() {
            match exchange::poll_head(http, with.conn, wanted) {
                Poll::Ready(end) if self.second.is_some() && says_nothing(&end, with.conn) => {
                    self.first_ended = Some(end);
                }
                Poll::Ready(end) => return Poll::Ready(end),
                Poll::Pending if with.conn.port.has_input() => {
                    self.call_off();
                    return Poll::Pending;
                }
                Poll::Pending => {}
            }
        }
        if self.second.is_none() {
            if clock::now_ms() < self.due_ms {
                timer::want(self.due_ms);
                return Poll::Pending;
            }
            self.due_ms = NEVER;
            self.second = Second::begin(http, be, with).map(Box::new);
        }
        let Some(second) = &mut self.second else { return Poll::Pending };
        match second.poll_head(http, be, wanted, cx) {
            Poll::Pending if second.has_input() => {
                self.overtake(http, be, with);
                Poll::Ready(HeadEnd::Overtaken)
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(HeadEnd::Received)) => {
                self.overtake(http, be, with);
                Poll::Ready(HeadEnd::Received)
            }
            Poll::Ready(failed) => {
                second.note_failure(http, be, failed);
                self.second = None;
                // What of its head was read is no part of the first one's.
                http.state.parser.reset();
                http.state.response.clear();
                self.first_ended.take().map_or(Poll::Pending, Poll::Ready)
            }
        }
    }

    /// The second server answers: it takes the place of the first, whose slot and connection are given back.
    fn overtake(&mut self, http: &mut Stream<'a>, be: &'a Proxy, with: &mut Engaged<'_, 'a>) {
        let Some(mut second) = self.second.take() else { return };
        let Phase::Asked(conn, _) = &mut second.phase else { return };
        match self.first_ended.take() {
            Some(_) => observe_failure(http.worker, be, with.server, Seen::Ended),
            // It takes at least that long.
            None if be.learns() => {
                let had_it_us = http.elapsed_us() - http.state.facts.timers.queue_us;
                assign::answered(http.worker, be, with.server.id, had_it_us);
            }
            None => {}
        }
        std::mem::swap(with.conn, conn);
        std::mem::swap(with.lease, &mut second.lease);
        with.server = second.server;
        self.won_from_us = Some(second.began_us);
        http.worker.be_counters(be.id).hedges_won.add(1);
        with.lease.counters().hedges_won.add(1);
        http.state.assign_server(http.worker, second.server.id);
        http.state.facts.hedged = ANSWERED;
        http.state.facts.timers.connect_us = second.connected_us;
        note_connection(http, with.conn);
        if !be.stick_rules.is_empty() {
            stick::connected(http, be, second.server);
        }
    }
}

impl<'a> Second<'a> {
    /// Takes a slot on another server, if the budget pays for that and one has room, and a connection to it.
    fn begin(http: &mut Stream<'a>, be: &'a Proxy, with: &Engaged<'_, 'a>) -> Option<Second<'a>> {
        let worker = http.worker;
        if worker.backend(be.id).usable_count() < 2 || !assign::pays_hedge(worker, be) {
            return None;
        }
        // A key leads to the server that has it already.
        let choice = Choice { avoid: Some(ServerIndex(with.server.id.0)), ..Choice::default() };
        let lease = Lease::new(worker, be.id, assign::at_once(worker, be, choice).ok()?);
        let server = worker.server(be, lease.server())?;
        if server.id == with.server.id || server.addr == ServerAddr::Reverse || server.rare().redir.is_some()
        {
            return None;
        }
        lease.count_attempt();
        worker.be_counters(be.id).hedges.add(1);
        lease.counters().hedges.add(1);
        http.state.facts.hedged = ASKED;
        let began_us = http.elapsed_us();
        let target = target(http, be, server);
        let timeout = match http.state.facts.timeouts.connect {
            0 => be.timeouts.connect,
            ms => Some(ms),
        };
        let idle = target.take_idle(http.needs_fresh_connection());
        let opening: Opening<'a> = match idle {
            Some(conn) => Box::pin(async move { Ok(Block::into_inner(conn)) }),
            None => Box::pin(async move { target.open(timeout, Box::default()).await }),
        };
        Some(Second { server, lease, began_us, connected_us: began_us, phase: Phase::Connecting(opening) })
    }

    /// Waits for the head of the response; `None` when there will be no connection.
    fn poll_head(
        &mut self,
        http: &mut Stream<'a>,
        be: &Proxy,
        wanted: &Wanted,
        cx: &mut Context<'_>,
    ) -> Poll<Option<HeadEnd>> {
        if let Phase::Connecting(opening) = &mut self.phase {
            let mut conn = match opening.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(None),
                Poll::Ready(Ok(conn)) => conn,
            };
            conn.keep = false;
            self.connected_us = http.elapsed_us();
            let Some(up) = exchange::ask_again(http, be, self.server, &mut conn) else {
                return Poll::Ready(None);
            };
            self.phase = Phase::Asked(Block::new(conn), up);
        }
        let Phase::Asked(conn, up) = &mut self.phase else { return Poll::Pending };
        // How that ends shows again when the response is waited for.
        let _ = up.poll(http.client, &mut conn.port.line);
        exchange::poll_head(http, conn, wanted).map(Some)
    }

    fn has_input(&self) -> bool {
        matches!(&self.phase, Phase::Asked(conn, _) if conn.port.has_input())
    }

    /// It gave no answer: what that says of its server, as far as it is not known already.
    fn note_failure(&self, http: &Stream<'_>, be: &Proxy, end: Option<HeadEnd>) {
        let was_idle = matches!(&self.phase, Phase::Asked(conn, _) if conn.reused);
        match end {
            Some(HeadEnd::Malformed) => observe_failure(http.worker, be, self.server, Seen::Malformed),
            Some(HeadEnd::ServerClosed | HeadEnd::ServerReset) if !was_idle => {
                observe_failure(http.worker, be, self.server, Seen::Ended);
            }
            _ => {}
        }
    }
}

/// Whether nothing came of an attempt, so that who is asked besides may answer for it.
fn says_nothing(end: &HeadEnd, conn: &ServerConn) -> bool {
    let ended = matches!(
        end,
        HeadEnd::ServerClosed
            | HeadEnd::ServerReset
            | HeadEnd::Refused
            | HeadEnd::GaveUp
            | HeadEnd::Cancelled
    );
    ended && conn.port.input.is_none()
}

/// Whether a request may be sent to another server as well: nothing ties it to this one, to process it twice does what to do it once
/// does (RFC 9110 section 9.2.2), all of it is in its head, and no other was asked before, by an attempt that failed: each repetition
/// would bring two more otherwise.
fn may_be_hedged(http: &Stream<'_>, with: &Engaged<'_, '_>) -> bool {
    let framing = http.state.request_framing;
    http.state.facts.hedged == 0
        && with.is_free
        && is_idempotent(http)
        && matches!(framing.body, BodyLength::None | BodyLength::Sized(0))
        && !framing.upgrade
        && http.state.request.method() != Method::Connect
        && !http.is_early()
        && !with.conn.authenticated
}
