//! How long a peer may be silent, or slow to take what is sent to it.
//!
//! One rule for HTTP exchanges and relays (manual: `timeout client`, `timeout server`, `timeout tunnel`,
//! `timeout client-fin`, `timeout server-fin`, `option independent-streams`). A side is waited for when something is
//! expected of it, or when it does not take what is sent to it; while the other side is what holds things up, its time
//! stands still. Time counts from what the side last did, not from when that was noticed: the runtime keeps the moments
//! ([`Stream::last_received_ms`], [`Stream::last_sent_ms`]).

use thalweg_config::model::Proxy;
use thalweg_runtime::net::Stream;
use thalweg_runtime::{clock, timer};
use thalweg_sample::facts::StreamFacts;

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
}

impl Limits {
    /// Those of client and server while messages go to and fro.
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

/// See the module's documentation.
#[derive(Debug)]
pub struct Patience {
    limits: Limits,
    /// Since when something is expected.
    expected_ms: Option<u64>,
    /// Since when it does not take what is sent.
    stuck_ms: Option<u64>,
    /// When it was told that nothing more will be sent to it.
    shut_ms: Option<u64>,
}

impl Patience {
    /// Patience with a side of which nothing is expected yet.
    pub fn new(limits: Limits) -> Patience {
        Patience { limits, expected_ms: None, stuck_ms: None, shut_ms: None }
    }

    /// The side was told that nothing more will be sent to it.
    pub fn shut(&mut self) {
        self.shut_ms.get_or_insert_with(clock::now_ms);
    }

    /// The side did something that counts as what is expected, or is expected to do it anew.
    pub fn renew(&mut self) {
        self.expected_ms = None;
    }

    /// Whether the side is overdue; asks for another look when it would be. `stuck`: something is on its way to it that it
    /// does not take.
    pub fn check(&mut self, io: &Stream, expects: Expects, stuck: bool) -> Option<Overdue> {
        let now = clock::now_ms();
        let expected = since(&mut self.expected_ms, expects != Expects::Nothing, now);
        let stuck = since(&mut self.stuck_ms, stuck, now);
        let sent = io.last_sent_ms();
        let silent = expected.map(|since| match expects {
            Expects::Head => since.max(sent),
            _ if self.limits.independent => since.max(io.last_received_ms()),
            _ => since.max(sent).max(io.last_received_ms()),
        });
        let stuck = stuck.map(|since| since.max(sent));
        let limit = match (self.shut_ms, self.limits.fin) {
            (Some(_), Some(fin)) if !self.limits.upgraded => Some(fin),
            _ => self.limits.idle,
        };
        let last = match self.shut_ms {
            // The end itself is no sign of life.
            Some(at) if self.limits.upgraded => silent.filter(|since| *since > at),
            _ => None,
        };
        is_over(now, stuck, limit, Overdue::Stuck)
            .or_else(|| is_over(now, silent, limit, Overdue::Silent))
            .or_else(|| is_over(now, last, self.limits.fin, Overdue::Finished))
    }
}

/// Keeps the moment since which a condition holds.
fn since(begun: &mut Option<u64>, holds: bool, now: u64) -> Option<u64> {
    *begun = holds.then(|| begun.unwrap_or(now));
    *begun
}

fn is_over(now: u64, since: Option<u64>, limit: Option<u64>, what: Overdue) -> Option<Overdue> {
    // The moment was somewhere in its millisecond: only the next one is certain to be late enough.
    let at = since?.saturating_add(limit?).saturating_add(1);
    if now >= at {
        return Some(what);
    }
    timer::want(at);
    None
}
