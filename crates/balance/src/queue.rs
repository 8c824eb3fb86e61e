//! Requests that wait for a slot on a server.
//!
//! A backend has one queue, each of its servers another for the requests that must go to it. A request that
//! waits is an opaque token that the caller knows how to wake. Order is by priority class (lower first), then by the
//! time of arrival shifted by the priority offset (manual section 4.3, `set-priority-class`, `set-priority-offset`).
//!
//! The usual case is an empty queue: whoever frees a slot reads one counter and takes no lock.

use crate::sync::{AtomicUsize, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Where a request stands in a queue. Earlier compares as less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    class: i16,
    /// Arrival in milliseconds, plus the offset.
    at_ms: i64,
    sequence: u64,
}

/// The priority a request asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priority {
    /// -2047 to 2047; lower is served first.
    pub class: i16,
    /// -524287 to 524287 milliseconds added to the time of arrival.
    pub offset_ms: i32,
}

impl Priority {
    /// Class bounds of `set-priority-class`.
    pub const CLASS_MAX: i64 = 2047;
    /// Offset bounds of `set-priority-offset`.
    pub const OFFSET_MAX: i64 = 524_287;

    /// A priority with both parts brought into range.
    pub fn clamped(class: i64, offset_ms: i64) -> Priority {
        Priority {
            class: class.clamp(-Self::CLASS_MAX, Self::CLASS_MAX) as i16,
            offset_ms: offset_ms.clamp(-Self::OFFSET_MAX, Self::OFFSET_MAX) as i32,
        }
    }
}

/// Proof of a place in a queue, needed to leave it.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct Place {
    rank: Rank,
    /// Requests that had been served when it was taken.
    served: u64,
}

impl Place {
    /// How many requests were served while this one waited, itself included, when its turn was the `turn`th.
    pub fn waited_for(self, turn: u64) -> u64 {
        turn.saturating_sub(self.served)
    }
}

/// A request that is served.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct Turn {
    pub token: u64,
    /// How many requests the queue has served, this one included.
    pub turn: u64,
}

/// One queue, shared by all threads.
#[derive(Debug, Default)]
pub struct Queue {
    len: AtomicUsize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    tokens: BTreeMap<Rank, u64>,
    next_sequence: u64,
    /// Requests taken out to be served.
    served: u64,
}

impl Queue {
    pub fn new() -> Queue {
        Queue::default()
    }

    /// Number of requests waiting.
    ///
    /// Sequentially consistent with [`Queue::push`]: a thread that frees a slot and then reads 0 here is ordered
    /// before a thread that pushes and then looks for a free slot, so that one of the two sees the other. Whoever
    /// pushes must therefore look once more for a slot after pushing.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::SeqCst)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Enters the queue at its end of the same priority, unless `max` requests already wait (0: no limit).
    pub fn push(&self, token: u64, priority: Priority, now_ms: u64, max: usize) -> Option<Place> {
        let mut waiting = self.lock();
        if max != 0 && waiting.tokens.len() >= max {
            return None;
        }
        let rank = Rank {
            class: priority.class,
            at_ms: (now_ms as i64).saturating_add(priority.offset_ms.into()),
            sequence: waiting.next_sequence,
        };
        waiting.next_sequence += 1;
        waiting.tokens.insert(rank, token);
        self.len.store(waiting.tokens.len(), Ordering::SeqCst);
        Some(Place { rank, served: waiting.served })
    }

    /// Takes the first request out.
    pub fn pop(&self) -> Option<Turn> {
        if self.is_empty() {
            return None;
        }
        let mut waiting = self.lock();
        let (_, token) = waiting.tokens.pop_first()?;
        waiting.served += 1;
        self.len.store(waiting.tokens.len(), Ordering::SeqCst);
        Some(Turn { token, turn: waiting.served })
    }

    /// The turn of whoever would be served next.
    pub fn next_turn(&self) -> u64 {
        self.lock().served + 1
    }

    /// Leaves the queue (timeout, client gone). False when the request had already been taken out: it has been, or
    /// is being, woken, and owns the slot that was freed.
    pub fn remove(&self, place: Place) -> bool {
        let mut waiting = self.lock();
        let removed = waiting.tokens.remove(&place.rank).is_some();
        self.len.store(waiting.tokens.len(), Ordering::SeqCst);
        removed
    }

    /// Takes everybody out, first to last: the server went down and they must be redistributed.
    pub fn drain(&self) -> Vec<u64> {
        let mut waiting = self.lock();
        self.len.store(0, Ordering::SeqCst);
        std::mem::take(&mut waiting.tokens).into_values().collect()
    }

    /// Takes out whoever is first among those who wait for this server (`own`) and those who wait for any
    /// (`common`).
    pub fn pop_first_of(own: &Queue, common: &Queue) -> Option<Turn> {
        match (own.is_empty(), common.is_empty()) {
            (true, true) => None,
            (false, true) => own.pop(),
            (true, false) => common.pop(),
            (false, false) => {
                // The two locks are never held at the same time, so the order can be off by a request that arrives
                // in between; it cannot be lost.
                let first = |queue: &Queue| queue.lock().tokens.keys().next().copied();
                let own_first = match (first(own), first(common)) {
                    (Some(a), Some(b)) => (a.class, a.at_ms) <= (b.class, b.at_ms),
                    (own, _) => own.is_some(),
                };
                if own_first {
                    own.pop().or_else(|| common.pop())
                } else {
                    common.pop().or_else(|| own.pop())
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limits on concurrent requests of a server (manual section 5.2, `maxconn`, `minconn`; 4.2, `fullconn`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// 0: no limit.
    pub maxconn: u32,
    /// 0: `maxconn` is the limit whatever the load of the backend.
    pub minconn: u32,
    /// Requests waiting for this server; 0: no limit.
    pub maxqueue: u32,
}

impl Limits {
    /// How many requests the server may serve now; 0 means no limit.
    ///
    /// With `minconn`, the limit follows the requests on the backend: `minconn` when idle, `maxconn` when it has
    /// `fullconn` of them, in proportion in between. During a slow start it is reduced to `ramp` percent of that,
    /// at least 1.
    pub fn now(&self, backend_requests: u32, fullconn: u32, ramp: u32) -> u32 {
        if self.maxconn == 0 {
            return 0;
        }
        let limit = if self.minconn == 0
            || self.minconn >= self.maxconn
            || fullconn == 0
            || backend_requests >= fullconn
        {
            self.maxconn
        } else {
            let share = u64::from(self.maxconn) * u64::from(backend_requests) / u64::from(fullconn);
            (share as u32).max(self.minconn)
        };
        if ramp >= 100 { limit } else { (u64::from(limit) * u64::from(ramp) / 100).max(1) as u32 }
    }

    /// True when a new request must wait: all slots are taken, or others already wait.
    pub fn is_full(
        &self,
        served: u32,
        queued: usize,
        backend_requests: u32,
        fullconn: u32,
        ramp: u32,
    ) -> bool {
        let limit = self.now(backend_requests, fullconn, ramp);
        limit != 0 && (queued != 0 || served >= limit)
    }

    /// True when no more requests may wait for this server.
    pub fn queue_is_full(&self, queued: usize) -> bool {
        self.maxqueue != 0 && queued >= self.maxqueue as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain() -> Priority {
        Priority::default()
    }

    #[test]
    fn first_come_first_served_within_a_class() {
        let queue = Queue::new();
        for (token, class, offset, now) in
            [(1, 0, 0, 100), (2, 0, 0, 101), (3, -1, 0, 200), (4, 0, -50, 120), (5, 1, -9999, 0)]
        {
            queue.push(token, Priority::clamped(class, offset), now, 0).unwrap();
        }
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|t| t.token).collect();
        assert_eq!(order, [3, 4, 1, 2, 5]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_request_leaves_once() {
        let queue = Queue::new();
        let place = queue.push(1, plain(), 0, 0).unwrap();
        let other = queue.push(2, plain(), 0, 0).unwrap();
        assert!(queue.remove(place));
        assert!(!queue.remove(place));
        // Who left was not served: the other one waited for nobody but itself.
        let turn = queue.pop().unwrap();
        assert_eq!((turn.token, other.waited_for(turn.turn)), (2, 1));
        assert!(!queue.remove(other));
        let last = queue.push(3, plain(), 0, 0).unwrap();
        assert_eq!((other.waited_for(queue.next_turn()), last.waited_for(queue.next_turn())), (2, 1));
    }

    #[test]
    fn the_length_is_limited() {
        let queue = Queue::new();
        assert!(queue.push(1, plain(), 0, 1).is_some());
        assert!(queue.push(2, plain(), 0, 1).is_none());
        assert_eq!(queue.drain(), [1]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn the_older_of_two_queues_goes_first() {
        let (own, common) = (Queue::new(), Queue::new());
        own.push(1, plain(), 20, 0);
        common.push(2, plain(), 10, 0);
        common.push(3, Priority::clamped(5, 0), 0, 0);
        let next = || Queue::pop_first_of(&own, &common).map(|t| t.token);
        assert_eq!([next(), next(), next(), next()], [Some(2), Some(1), Some(3), None]);
    }

    #[test]
    fn dynamic_limits() {
        let limits = Limits { maxconn: 100, minconn: 10, maxqueue: 0 };
        for (requests, ramp, want) in [
            (0, 100, 10),
            (50, 100, 10),
            (500, 100, 50),
            (1000, 100, 100),
            (5000, 100, 100),
            (1000, 25, 25),
            (0, 1, 1),
        ] {
            assert_eq!(limits.now(requests, 1000, ramp), want, "{requests} {ramp}");
        }
        assert_eq!(Limits::default().now(9, 1, 1), 0, "no maxconn, no limit");
        assert!(!Limits::default().is_full(1_000_000, 5, 0, 0, 100));
        assert!(limits.is_full(10, 0, 0, 1000, 100));
        assert!(limits.is_full(0, 1, 0, 1000, 100), "others already wait");
        assert!(!limits.is_full(9, 0, 0, 1000, 100));
    }

    proptest! {
        #[test]
        fn pops_are_sorted(items in prop::collection::vec((-3i64..3, -50i64..50, 0u64..100), 0..60)) {
            let queue = Queue::new();
            let mut model = Vec::new();
            for (token, &(class, offset, now)) in items.iter().enumerate() {
                queue.push(token as u64, Priority::clamped(class, offset), now, 0);
                model.push((class, now as i64 + offset, token as u64));
            }
            model.sort_unstable();
            let got: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|t| t.token).collect();
            prop_assert_eq!(got, model.into_iter().map(|m| m.2).collect::<Vec<_>>());
        }
    }
}
