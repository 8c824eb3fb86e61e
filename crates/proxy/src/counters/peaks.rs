//! The largest rates, and the most streams at once, over all threads.

use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;
use thalweg_shared::AtomicU64;

use super::{Counters, Rate};

/// Time between two looks of a thread at all threads, in milliseconds.
const LOOK_MS: u64 = 4;

/// The largest figures so far of one frontend, backend or server, over all threads.
///
/// A rate is that of a second of the clock, and is written when a new second begins, at most once per second and thread.
///
/// Streams come and go on each thread without the others, so that nobody counts all of them. Before one goes, its thread
/// *looks*: it adds up what all threads have, at most once in 4 milliseconds. Whatever there was for longer than that, and
/// than the thread's loop takes for a round, was seen: it ended when some stream went, and the thread of that stream had
/// looked meanwhile, or looked then. Nothing has to be looked at when a stream comes: it stays until it goes. What is kept
/// is written when it is more than before, and never more than there was. What one thread had at most it knows itself.
#[derive(Default)]
pub struct Peaks {
    pub sessions: AtomicU64,
    pub requests: AtomicU64,
    pub connections: AtomicU64,
    /// Streams at once, where threads looked.
    streams: AtomicU64,
}

impl Peaks {
    /// Starts anew.
    pub fn reset(&self) {
        for peak in [&self.sessions, &self.requests, &self.connections, &self.streams] {
            peak.store(0, Relaxed);
        }
    }

    /// Looks at what all threads have, `mine` being what this one counts.
    #[cold]
    pub fn look<'a>(&self, mine: &Counters, all: impl Iterator<Item = &'a Counters>) {
        let now = present(all);
        if now > self.streams.load(Relaxed).max(mine.current_max.get()) {
            self.streams.fetch_max(now, Relaxed);
        }
    }

    /// The most streams that there were at once, of a backend or server.
    pub fn streams<'a>(&self, all: impl Iterator<Item = &'a Counters> + Clone) -> u64 {
        let each = all.clone().map(|counters| counters.current_max.get());
        each.fold(self.streams.load(Relaxed).max(present(all)), u64::max)
    }
}

fn present<'a>(all: impl Iterator<Item = &'a Counters>) -> u64 {
    all.map(|counters| counters.current.get()).sum()
}

impl Counters {
    /// Whether it is time for a look, which is taken then. Only the owning thread may call this.
    #[inline]
    pub fn is_time_to_look(&self, now_ms: u64) -> bool {
        let is_time = now_ms.wrapping_sub(self.looked_ms.get()) >= LOOK_MS;
        if is_time {
            self.looked_ms.set(now_ms);
        }
        is_time
    }
}

/// The largest rate of what these count, one per thread or part: what was seen so far, or what they have in a second that nobody has
/// looked at, as nothing came after it.
pub fn peak<'a>(seen: &AtomicU64, rates: impl Iterator<Item = &'a Rate>) -> u64 {
    let mut seconds: SmallVec<[(u64, u64); 16]> = SmallVec::new();
    for rate in rates {
        let second = rate.second.load(Relaxed);
        seconds.push((second, rate.current.load(Relaxed)));
        seconds.push((second.wrapping_sub(1), rate.previous.load(Relaxed)));
    }
    seconds.sort_unstable();
    let of_all = seconds.chunk_by(|a, b| a.0 == b.0).map(|same| same.iter().map(|(_, events)| events).sum());
    of_all.fold(seen.load(Relaxed), u64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::PastSecond;

    /// Two threads have 3 and 4 events in a second, and none for long after it: whoever looks, and whoever has the next event, knows
    /// of all of them.
    #[test]
    fn peaks_are_not_forgotten() {
        let (threads, seen) = ([Rate::default(), Rate::default()], AtomicU64::new(0));
        (0..3).for_each(|_| _ = threads[0].add(5_100));
        (0..4).for_each(|_| _ = threads[1].add(5_900));
        assert_eq!(peak(&seen, threads.iter()), 7);
        let past = threads[0].add(60_000).expect("the first of its second");
        assert_eq!(past, PastSecond { second: 5, forgotten: 3 });
        seen.fetch_max(past.forgotten + threads[1].in_second(5), Relaxed);
        threads[1].add(61_000);
        assert_eq!(peak(&seen, threads.iter()), 7);
        assert_eq!(peak(&AtomicU64::new(0), threads.iter()), 1);
    }

    /// Threads that have many streams in turn have as many as one of them, not as many as all.
    #[test]
    fn streams_in_turn_are_not_streams_at_once() {
        let (threads, peaks) = ([Counters::default(), Counters::default()], Peaks::default());
        for (mine, now_ms) in threads.iter().zip([100, 200]) {
            let streams: Vec<_> = (0..10).map(|_| mine.enter()).collect();
            assert!(mine.is_time_to_look(now_ms) && !mine.is_time_to_look(now_ms + LOOK_MS - 1));
            peaks.look(mine, threads.iter());
            drop(streams);
        }
        assert_eq!(peaks.streams(threads.iter()), 10);
        let _six = [(); 6].map(|()| threads[0].enter());
        let seven = [(); 7].map(|()| threads[1].enter());
        assert_eq!(peaks.streams(threads.iter()), 13, "what there is now");
        peaks.look(&threads[1], threads.iter());
        drop(seven);
        assert_eq!(peaks.streams(threads.iter()), 13, "what was seen");
        peaks.reset();
        threads.iter().for_each(Counters::reset_max);
        assert_eq!(peaks.streams(threads.iter()), 6);
    }
}
