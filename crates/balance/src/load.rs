//! What each server is doing right now: the one piece of state that requests write and other requests read.

use crate::sync::{AtomicU64, Ordering};
use crossbeam_utils::CachePadded;

/// The counters of one server, on a cache line of their own: every request writes them twice, and a neighbour
/// on the same line would pay for it.
///
/// The three numbers share a word so that a reader always sees a consistent set: 20 bits of requests being
/// served, 20 bits of requests queued, 24 bits of the moment of the last change (a ticket, see
/// [`crate::tournament`]).
#[derive(Debug)]
pub struct Load(CachePadded<Words>);

#[derive(Debug)]
struct Words {
    now: AtomicU64,
    /// What [`crate::tournament`] compares of it.
    rank: AtomicU64,
    /// For `leastconn` only: in 16ths, 0 when the server is not usable.
    weight: AtomicU64,
}

/// What a [`Load`] held at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadNow(u64);

const COUNT_BITS: u32 = 20;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const SERVED: u64 = 1 << 44;
const TICKET_BITS: u32 = 24;
const QUEUED: u64 = 1 << TICKET_BITS;
const TICKET_MASK: u64 = QUEUED - 1;

impl LoadNow {
    /// Requests the server is working on.
    pub fn served(self) -> u32 {
        (self.0 >> 44) as u32
    }

    /// Requests waiting for this server.
    pub fn queued(self) -> u32 {
        ((self.0 >> 24) & COUNT_MAX) as u32
    }

    /// Both: what least-connections compares.
    pub fn total(self) -> u32 {
        self.served() + self.queued()
    }

    /// When the load last changed, in tickets; wraps.
    pub(crate) fn ticket(self) -> u32 {
        (self.0 & TICKET_MASK) as u32
    }

    /// True when `self` changed before `other`, across wrap.
    pub(crate) fn older_than(self, other: LoadNow) -> bool {
        is_older(self.0, other.0)
    }
}

/// Where a server stands among others: its load for its weight, then how long it has been so. Of two, comparing these words is
/// all that a match takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank(u64);

impl Rank {
    /// That of a server which cannot be used, behind all others.
    pub const OUT: Rank = Rank(u64::MAX);

    /// Added to the weight of a server that is behind all others which can be used: see [`crate::Balancer::put_last`].
    pub const LAST: u64 = 1 << 32;

    /// Bits behind the point of a load for its weight: weights are at most 2^12.
    const FRACTION_BITS: u32 = 20;
    /// The heaviest load for a weight that is told apart.
    const HEAVIEST: u64 = (1 << (64 - TICKET_BITS)) - 2;

    fn of(now: LoadNow, weight: u64) -> Rank {
        let load = match weight {
            0 => return Rank::OUT,
            Rank::LAST.. => Rank::HEAVIEST,
            _ => (u64::from(now.total()) << Rank::FRACTION_BITS) / weight,
        };
        Rank(load.min(Rank::HEAVIEST) << TICKET_BITS | u64::from(now.ticket()))
    }

    /// Less load for its weight, or as much and the earlier change.
    pub fn beats(self, other: Rank) -> bool {
        let (own, others) = (self.0 >> TICKET_BITS, other.0 >> TICKET_BITS);
        own < others || (own == others && is_older(self.0, other.0))
    }
}

/// True when the ticket at the end of `word` is before that of `other`, across wrap.
#[inline]
fn is_older(word: u64, other: u64) -> bool {
    (other.wrapping_sub(word) << (64 - TICKET_BITS)).cast_signed() > 0
}

impl Load {
    pub fn new() -> Load {
        Load::with_ticket(0)
    }

    /// A server that starts with a ticket, so that idle servers have an order.
    pub(crate) fn with_ticket(ticket: u64) -> Load {
        let now = AtomicU64::new(ticket & TICKET_MASK);
        Load(CachePadded::new(Words { now, rank: AtomicU64::new(Rank::OUT.0), weight: AtomicU64::new(0) }))
    }

    /// The same of one that is there: its server begins, and does nothing yet.
    pub(crate) fn begin(&self, ticket: u64) {
        self.0.now.store(ticket & TICKET_MASK, Ordering::Release);
    }

    /// See [`Words::weight`]. Who changes it [settles](Load::settle) where the server stands.
    pub(crate) fn weight(&self) -> &AtomicU64 {
        &self.0.weight
    }

    pub fn now(&self) -> LoadNow {
        LoadNow(self.0.now.load(Ordering::Acquire))
    }

    /// Where the server stands, as of the last [`Load::settle`].
    pub(crate) fn rank(&self) -> Rank {
        Rank(self.0.rank.load(Ordering::Acquire))
    }

    /// Works out where the server stands after its load or its weight changed. Who is overtaken by another change meanwhile looks
    /// again, so that the last one to write saw what is there.
    pub(crate) fn settle(&self) {
        let weight = self.weight();
        loop {
            let seen = (self.now(), weight.load(Ordering::Acquire));
            // An exchange, so that who comes after another one has seen what that one had seen to change.
            self.0.rank.swap(Rank::of(seen.0, seen.1).0, Ordering::AcqRel);
            if seen == (self.now(), weight.load(Ordering::Acquire)) {
                return;
            }
        }
    }

    /// One more request served. Counts saturate at 2^20 - 1, far above the descriptors of a process.
    pub(crate) fn start(&self, ticket: u64) -> LoadNow {
        self.change(ticket, |w| if w >> 44 == COUNT_MAX { w } else { w + SERVED })
    }

    /// One more, unless `limit` are already being served. Gives false when there was no room.
    pub(crate) fn start_below(&self, limit: u32, ticket: u64) -> bool {
        self.0
            .now
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |w| {
                let served = w >> 44;
                let fits = served < u64::from(limit) && served < COUNT_MAX;
                fits.then(|| stamped(w + SERVED, ticket))
            })
            .is_ok()
    }

    pub(crate) fn end(&self, ticket: u64) -> LoadNow {
        self.change(ticket, |w| {
            debug_assert!(w >> 44 != 0, "a request ended on a server that had none");
            if w >> 44 == 0 { w } else { w - SERVED }
        })
    }

    pub(crate) fn enqueue(&self, ticket: u64) -> LoadNow {
        self.change(ticket, |w| if (w >> 24) & COUNT_MAX == COUNT_MAX { w } else { w + QUEUED })
    }

    pub(crate) fn dequeue(&self, ticket: u64) -> LoadNow {
        self.change(ticket, |w| {
            debug_assert!((w >> 24) & COUNT_MAX != 0, "a request left a queue that was empty");
            if (w >> 24) & COUNT_MAX == 0 { w } else { w - QUEUED }
        })
    }

    fn change(&self, ticket: u64, step: impl Fn(u64) -> u64) -> LoadNow {
        let mut word = self.0.now.load(Ordering::Relaxed);
        loop {
            let next = stamped(step(word), ticket);
            match self.0.now.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return LoadNow(next),
                Err(seen) => word = seen,
            }
        }
    }
}

impl Default for Load {
    fn default() -> Load {
        Load::new()
    }
}

fn stamped(word: u64, ticket: u64) -> u64 {
    (word & !TICKET_MASK) | (ticket & TICKET_MASK)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_apart() {
        let load = Load::new();
        load.start(1);
        load.start(2);
        load.enqueue(3);
        let now = load.now();
        assert_eq!((now.served(), now.queued(), now.total(), now.ticket()), (2, 1, 3, 3));
        load.end(4);
        load.dequeue(5);
        assert_eq!((load.now().served(), load.now().queued()), (1, 0));
    }

    #[test]
    fn a_limit_is_kept() {
        let load = Load::new();
        assert!(load.start_below(2, 0));
        assert!(load.start_below(2, 0));
        assert!(!load.start_below(2, 0));
        assert!(!Load::new().start_below(0, 0));
    }

    #[test]
    fn tickets_wrap() {
        let before = Load::with_ticket(TICKET_MASK).now();
        let after = Load::with_ticket(2).now();
        assert!(before.older_than(after));
        assert!(!after.older_than(before));
        assert!(!after.older_than(after));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// The load of a server changes on two threads while its weight does: whatever the interleaving, where it stands in the end is
    /// what follows from both.
    #[test]
    fn loom_the_last_to_settle_saw_all_changes() {
        loom::model(|| {
            let server = Arc::new(Load::new());
            server.weight().store(16, Ordering::SeqCst);
            let other = {
                let server = server.clone();
                loom::thread::spawn(move || {
                    server.start(7);
                    server.settle();
                })
            };
            server.weight().store(32, Ordering::SeqCst);
            server.settle();
            other.join().unwrap();
            assert_eq!(server.rank(), Rank::of(server.now(), 32));
        });
    }
}
