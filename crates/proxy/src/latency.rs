//! How long streams take: histograms of the time in the queue, until connected, until the response, and of all of it.
//!
//! Each thread has its own, of each listener, backend and server that it served something of, and writes it without locked
//! instructions; readers add them up. Buckets are four to a doubling, from 32 microseconds to two minutes: what is read from
//! them is at most an eighth off.

use std::sync::OnceLock;

use thalweg_sample::facts::Durations;
use thalweg_sys::dense::densely;

use crate::counters::counter::Counter;

/// Buckets of a histogram.
pub const BUCKETS: usize = 88;

/// The first bucket ends in the doubling that begins with this power of two, in microseconds.
const FIRST: u32 = 5;

/// A part of a stream's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for a server (`%Tw`).
    Queue,
    /// Connecting to it (`%Tc`).
    Connect,
    /// Until the head of its response (`%Tr`).
    Response,
    /// From the request to the end (`%Ta`).
    Total,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Phase; 4] = [Phase::Queue, Phase::Connect, Phase::Response, Phase::Total];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Queue => "queue",
            Phase::Connect => "connect",
            Phase::Response => "response",
            Phase::Total => "total",
        }
    }
}

/// The bucket of a time in microseconds.
#[inline]
fn bucket(us: u64) -> usize {
    let us = us.max(1 << FIRST);
    let doubling = us.ilog2();
    let quarter = (us >> (doubling - 2)) & 3;
    (((doubling - FIRST) as usize) * 4 + quarter as usize).min(BUCKETS - 1)
}

/// Where a bucket ends, in microseconds; the last one has no end.
fn end_us(bucket: usize) -> u64 {
    let doubling = FIRST + (bucket / 4) as u32;
    (5 + (bucket % 4) as u64) << (doubling - 2)
}

/// One thread's times of one phase.
struct Histogram {
    counts: [Counter; BUCKETS],
    sum_us: Counter,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: std::array::from_fn(|_| Counter::default()), sum_us: Counter::default() }
    }
}

impl Histogram {
    #[inline]
    fn add(&self, at: usize, us: u64) {
        self.counts[at].add(1);
        self.sum_us.add(us);
    }

    fn take_over(&self, other: &Histogram) {
        let own = self.counts.iter().chain([&self.sum_us]);
        own.zip(other.counts.iter().chain([&other.sum_us])).for_each(|(own, theirs)| own.add(theirs.get()));
    }

    fn reset(&self) {
        self.counts.iter().chain([&self.sum_us]).for_each(|counter| counter.set(0));
    }
}

/// One thread's times of one listener, backend or server.
#[derive(Default)]
pub struct Latency {
    total: Histogram,
    response: Histogram,
    /// In the queue, and connecting. Most streams do neither, which is not written down: who did not wait is who is in `total`
    /// only.
    waits: OnceLock<Box<[Histogram; 2]>>,
}

/// A stream's times, with their buckets.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    us: [u64; 4],
    response_at: Option<usize>,
    total_at: usize,
}

impl Times {
    /// Of a stream that ended.
    #[inline]
    pub fn new(durations: &Durations) -> Times {
        let us = |us: i64| u64::try_from(us).unwrap_or(0);
        let Durations { queue, connect, response, total } = *durations;
        Times {
            us: [us(queue), us(connect), us(response), us(total)],
            response_at: (response >= 0).then(|| bucket(us(response))),
            total_at: bucket(us(total)),
        }
    }
}

impl Latency {
    /// Counts a stream. Only the owning thread may call this.
    #[inline]
    pub fn add(&self, times: &Times) {
        let [queue, connect, response, total] = times.us;
        self.total.add(times.total_at, total);
        if let Some(at) = times.response_at {
            self.response.add(at, response);
        }
        if queue | connect != 0 {
            self.add_waits(queue, connect);
        }
    }

    #[cold]
    fn add_waits(&self, queue: u64, connect: u64) {
        let [in_queue, connecting] = &**self.waits.get_or_init(|| densely(Box::default));
        for (histogram, us) in [(in_queue, queue), (connecting, connect)] {
            if us != 0 {
                histogram.add(bucket(us), us);
            }
        }
    }

    /// Streams that ended.
    pub fn streams(&self) -> u64 {
        self.total.counts.iter().map(Counter::get).sum()
    }

    /// How long all of them took, in microseconds.
    pub fn total_us(&self) -> u64 {
        self.total.sum_us.get()
    }

    /// Counts what others counted, too. Only the owning thread may call this.
    pub fn take_over(&self, other: &Latency) {
        self.total.take_over(&other.total);
        self.response.take_over(&other.response);
        if let Some(theirs) = other.waits.get() {
            let own = self.waits.get_or_init(|| densely(Box::default));
            own.iter().zip(theirs.iter()).for_each(|(own, theirs)| own.take_over(theirs));
        }
    }

    /// Starts anew. Only the owning thread may call this.
    pub fn reset(&self) {
        self.total.reset();
        self.response.reset();
        if let Some(waits) = self.waits.get() {
            waits.iter().for_each(Histogram::reset);
        }
    }
}

/// Times of one phase, added up over threads.
#[derive(Clone, Debug)]
pub struct Sum {
    counts: [u64; BUCKETS],
    /// Those that took no time at all.
    none: u64,
    /// Streams.
    pub count: u64,
    /// Microseconds of all of them.
    pub sum_us: u64,
}

impl Sum {
    /// Of what these threads counted.
    pub fn of<'a>(phase: Phase, threads: impl Iterator<Item = &'a Latency>) -> Sum {
        let mut sum = Sum { counts: [0; BUCKETS], none: 0, count: 0, sum_us: 0 };
        for latency in threads {
            let total = latency.streams();
            let histogram = match phase {
                Phase::Total => Some(&latency.total),
                Phase::Response => Some(&latency.response),
                Phase::Queue => latency.waits.get().map(|waits| &waits[0]),
                Phase::Connect => latency.waits.get().map(|waits| &waits[1]),
            };
            let before: u64 = sum.counts.iter().sum();
            if let Some(histogram) = histogram {
                sum.sum_us = sum.sum_us.wrapping_add(histogram.sum_us.get());
                for (to, from) in sum.counts.iter_mut().zip(&histogram.counts) {
                    *to += from.get();
                }
            }
            if matches!(phase, Phase::Queue | Phase::Connect) {
                let waited = sum.counts.iter().sum::<u64>() - before;
                sum.none += total.saturating_sub(waited);
            }
        }
        sum.count = sum.none + sum.counts.iter().sum::<u64>();
        sum
    }

    /// The time that this many in a thousand streams did not exceed, in microseconds; `None` without any.
    pub fn per_mille(&self, of: u64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        // The stream that it is about, in the order of their times.
        let wanted = (self.count.saturating_mul(of)).div_ceil(1000).max(1);
        let mut seen = self.none;
        if wanted <= seen {
            return Some(0);
        }
        for (at, count) in self.counts.iter().enumerate() {
            if seen + count >= wanted {
                let from = if at == 0 { 0 } else { end_us(at - 1) };
                let width = end_us(at) - from;
                // As if those of a bucket were spread over it evenly.
                return Some(from + width.saturating_mul(wanted - seen) / count);
            }
            seen += count;
        }
        None
    }

    /// The average in microseconds, 0 without any.
    pub fn average_us(&self) -> u64 {
        self.sum_us / self.count.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(queue: i64, connect: i64, response: i64, total: i64) -> Durations {
        Durations { queue, connect, response, total }
    }

    #[test]
    fn every_time_is_in_its_bucket() {
        assert_eq!((bucket(0), bucket(39), bucket(40), bucket(63), bucket(64)), (0, 0, 1, 3, 4));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        for us in (0..2_000_000).step_by(7) {
            let at = bucket(us);
            assert!(us < end_us(at) && (at == 0 || us >= end_us(at - 1)), "{us} in {at}");
        }
        assert!((100_000_000..140_000_000).contains(&end_us(BUCKETS - 1)));
    }

    #[test]
    fn percentiles_are_an_eighth_off_at_most() {
        let latency = Latency::default();
        for us in 1..=10_000 {
            latency.add(&Times::new(&durations(0, 0, us * 10, us * 100)));
        }
        let sum = Sum::of(Phase::Total, [&latency].into_iter());
        assert_eq!((sum.count, sum.average_us()), (10_000, 500_050));
        for per_mille in [500, 900, 990, 999] {
            let (exact, read) = (per_mille * 1000, sum.per_mille(per_mille).unwrap_or(0));
            assert!(read.abs_diff(exact) <= exact / 8, "{per_mille}: {read}");
        }
        let response = Sum::of(Phase::Response, [&latency].into_iter());
        assert!(response.per_mille(500).is_some_and(|us| us.abs_diff(50_000) <= 6000));
    }

    #[test]
    fn who_does_not_wait_counts_as_no_time() {
        let (one, other) = (Latency::default(), Latency::default());
        for wait in [0, 0, 0, 1000] {
            one.add(&Times::new(&durations(wait, 0, 10, 10)));
            other.add(&Times::new(&durations(0, 0, -1, 10)));
        }
        let queue = Sum::of(Phase::Queue, [&one, &other].into_iter());
        assert_eq!((queue.count, queue.per_mille(500), queue.sum_us), (8, Some(0), 1000));
        assert!(queue.per_mille(1000).is_some_and(|us| (900..1200).contains(&us)));
        assert_eq!(Sum::of(Phase::Connect, [&one].into_iter()).per_mille(999), Some(0));
        assert_eq!(Sum::of(Phase::Response, [&one, &other].into_iter()).count, 4);
        one.reset();
        other.reset();
        assert_eq!(Sum::of(Phase::Total, [&one, &other].into_iter()).per_mille(500), None);
    }
}
