//! How long a peer may be silent, or slow to take what is sent to it.
//!
//! One rule for HTTP exchanges and relays (manual: `timeout client`, `timeout server`, `timeout tunnel`,
//! `timeout client-fin`, `timeout server-fin`, `option independent-streams`). A side is waited for when something is
//! expected of it, or when it does not take what is sent to it; while the other side is what holds things up, its time
//! stands still. Time counts from what the side last did, not from when that was noticed: the runtime keeps the moments
//! ([`Line::last_received_ms`], [`Line::last_sent_ms`]).

use thalweg_config::model::Proxy;
use thalweg_runtime::{clock, timer};
use thalweg_sample::facts::StreamFacts;

use crate::connection::line::Line;

/// The limits of one side, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// `timeout client` or `timeout server`, or `timeout tunnel` in their place.
    pub idle: Option<u64>,
    /// `timeout client-fin` or `timeout server-fin`: once this side was told that nothing more will be sent to it.
    pub fin: Option<u64>,
    /// The connection was upgraded. There, as in the reference, `fin` waits for a sign of life after the end.
    pub upgraded: bool,
    /// What is sent to this side is no sign of its life (`option independent-streams`).
    pub independent: bool,
    /// Since when the relay waits, if that was before it began to relay: rules looked at the first bytes. 0 if not.
    pub since_ms: u64,
}

impl Limits {
    /// Those of client and server while messages go to and fro.
    #[inline]
    pub fn of_exchange(fe: &Proxy, be: &Proxy, facts: &StreamFacts) -> [Limits; 2] {
        let set = &facts.timeouts;
        let side = |set, configured, independent| Limits {
            idle: pick(set, configured),
            independent,
            ..Limits::default()
        };
        [
            side(set.client, fe.timeouts.client, fe.opts.independent_streams),
            side(set.server, be.timeouts.server, be.opts.independent_streams),
        ]
    }

    /// Those of client and server when bytes are relayed.
    pub fn of_relay(fe: &Proxy, be: &Proxy, facts: &StreamFacts, upgraded: bool) -> [Limits; 2] {
        let tunnel = pick(facts.timeouts.tunnel, be.timeouts.tunnel.or(fe.timeouts.tunnel));
        let [client, server] = Limits::of_exchange(fe, be, facts);
        let side = |limits: Limits, fin| Limits { idle: tunnel.or(limits.idle), fin, upgraded, ..limits };
        [side(client, fe.timeouts.client_fin), side(server, be.timeouts.server_fin)]
    }
}

/// A limit that a rule may have set (0: none has).
fn pick(set: u64, configured: Option<u64>) -> Option<u64> {
    if set != 0 { Some(set) } else { configured }
}

/// What is expected to come from a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expects {
    Nothing,
    /// Bytes: each of them is progress.
    Bytes,
    /// The whole head of a response: a part of it is no progress.
    Head,
}

/// What a side did not do in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// Send what is expected.
    Silent,
    /// Take what is sent to it.
    Stuck,
    /// Anything, after the end of an upgraded connection's other direction.
    Finished,
}

/// No such moment.
const NEVER: u64 = u64::MAX;

/// See the module's documentation.
#[derive(Debug)]
pub struct Patience {
    /// The limits, [`NEVER`] for none.
    idle: u64,
    fin: u64,
    /// Since when something is expected.
    expected_ms: u64,
    /// Since when it does not take what is sent.
    stuck_ms: u64,
    /// When it was told that nothing more will be sent to it.
    shut_ms: u64,
    upgraded: bool,
    independent: bool,
}

impl Patience {
    /// Patience with a side of which nothing is expected yet.
    #[inline]
    pub fn new(limits: Limits) -> Patience {
        Patience {
            idle: limits.idle.unwrap_or(NEVER),
            fin: limits.fin.unwrap_or(NEVER),
            expected_ms: if limits.since_ms == 0 { NEVER } else { limits.since_ms },
            stuck_ms: NEVER,
            shut_ms: NEVER,
            upgraded: limits.upgraded,
            independent: limits.independent,
        }
    }

    /// The side was told that nothing more will be sent to it.
    pub fn shut(&mut self) {
        self.shut_ms = self.shut_ms.min(clock::now_ms());
    }

    /// The side did something that counts as what is expected, or is expected to do it anew.
    pub fn renew(&mut self) {
        self.expected_ms = NEVER;
    }

    /// Whether the side is overdue; asks for another look when it would be. `stuck`: something is on its way to it that it
    /// does not take.
    #[inline]
    pub fn check(&mut self, line: &Line, expects: Expects, stuck: bool) -> Option<Overdue> {
        if expects == Expects::Nothing && !stuck {
            self.expected_ms = NEVER;
            self.stuck_ms = NEVER;
            return None;
        }
        let now = clock::now_ms();
        let sent = line.last_sent_ms();
        let limit =
            if self.shut_ms != NEVER && self.fin != NEVER && !self.upgraded { self.fin } else { self.idle };
        if begun(&mut self.stuck_ms, stuck, now) && is_over(now, self.stuck_ms.max(sent), limit) {
            return Some(Overdue::Stuck);
        }
        if !begun(&mut self.expected_ms, expects != Expects::Nothing, now) {
            return None;
        }
        let last = match expects {
            Expects::Head => sent,
            _ if self.independent => line.last_received_ms(),
            _ => sent.max(line.last_received_ms()),
        };
        let since = self.expected_ms.max(last);
        if is_over(now, since, limit) {
            return Some(Overdue::Silent);
        }
        // The end itself is no sign of life.
        if self.upgraded && self.shut_ms < since && is_over(now, since, self.fin) {
            return Some(Overdue::Finished);
        }
        None
    }
}

/// Patience with both sides of an exchange.
#[derive(Debug)]
pub struct Waits {
    pub client: Patience,
    pub server: Patience,
}

impl Waits {
    /// While messages go to and fro.
    #[inline]
    pub fn of_exchange(fe: &Proxy, be: &Proxy, facts: &StreamFacts) -> Waits {
        let [client, server] = Limits::of_exchange(fe, be, facts);
        Waits { client: Patience::new(client), server: Patience::new(server) }
    }

    /// While an answer of this process goes to the client: nobody else can be late.
    pub fn of_answer(fe: &Proxy, be: &Proxy, facts: &StreamFacts) -> Waits {
        let [client, _] = Limits::of_exchange(fe, be, facts);
        Waits { client: Patience::new(client), server: Patience::new(Limits::default()) }
    }
}

/// Keeps the moment since which a condition holds; whether it does.
#[inline]
fn begun(since: &mut u64, holds: bool, now: u64) -> bool {
    *since = if holds { (*since).min(now) } else { NEVER };
    holds
}

#[inline]
fn is_over(now: u64, since: u64, limit: u64) -> bool {
    if limit == NEVER {
        return false;
    }
    // The moment was somewhere in its millisecond: only the next one is certain to be late enough.
    let at = since.saturating_add(limit).saturating_add(1);
    if now < at {
        timer::want(at);
    }
    now >= at
}
