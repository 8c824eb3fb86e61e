//! Counters. Each thread writes its own, without locked instructions; whoever reads adds them up.
//!
//! **Invariant:** a counter is written by the one thread that owns it. It is an atomic only so that other threads
//! may read it at any time; reads are sums of moments that differ by nanoseconds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number written by one thread and read by any. Gauges wrap below zero on a thread that ends what another one
/// began; the wrapping sum over all threads is right.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning thread may call this.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Subtracts `n`. Only the owning thread may call this.
    #[inline]
    pub fn sub(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(n), Relaxed);
    }

    /// Keeps the larger of the old value and `n`. Only the owning thread may call this.
    #[inline]
    pub fn raise_to(&self, n: u64) {
        if n > self.0.load(Relaxed) {
            self.0.store(n, Relaxed);
        }
    }

    /// Replaces the value. Only the owning thread may call this.
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// This thread's share.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Events per second, over a sliding second: what is left of the last one plus what this one has.
#[derive(Default)]
pub struct Rate {
    second: AtomicU64,
    current: AtomicU64,
    previous: AtomicU64,
}

impl Rate {
    /// Counts `n` events at `now_ms`. Only the owning thread may call this.
    #[inline]
    pub fn add(&self, n: u64, now_ms: u64) {
        let second = now_ms / 1000;
        let last = self.second.load(Relaxed);
        if second != last {
            let previous = if second == last + 1 { self.current.load(Relaxed) } else { 0 };
            self.previous.store(previous, Relaxed);
            self.current.store(0, Relaxed);
            self.second.store(second, Relaxed);
        }
        self.current.store(self.current.load(Relaxed) + n, Relaxed);
    }

    /// Events in the second that ends at `now_ms`.
    pub fn per_second(&self, now_ms: u64) -> u64 {
        let second = now_ms / 1000;
        let (current, previous) = match second.wrapping_sub(self.second.load(Relaxed)) {
            0 => (self.current.load(Relaxed), self.previous.load(Relaxed)),
            1 => (0, self.current.load(Relaxed)),
            _ => return 0,
        };
        current + (previous * (1000 - now_ms % 1000)).div_ceil(1000)
    }
}

macro_rules! counters {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: Counter,)+
            /// New sessions, or for servers new streams, per second.
            pub session_rate: Rate,
            /// Requests per second.
            pub request_rate: Rate,
        }

        impl $name {
            /// Every counter with its name.
            pub fn each(&self, mut visit: impl FnMut(&'static str, &Counter)) {
                $(visit(stringify!($field), &self.$field);)+
            }
        }
    };
}

counters! {
    /// One thread's counters of one frontend, backend or server. Names follow the statistics page (manual section
    /// 9.1 of the management guide) where it has one.
    Counters {
        /// Sessions (frontend) or streams (backend, server) now.
        current,
        /// Largest `current` seen.
        current_max,
        /// Sessions or streams so far.
        total,
        /// Connections accepted, before any rule.
        connections,
        bytes_in,
        bytes_out,
        denied_requests,
        denied_responses,
        denied_connections,
        denied_sessions,
        failed_requests,
        failed_connections,
        failed_responses,
        retries,
        redispatches,
        failed_rewrites,
        internal_errors,
        client_aborts,
        server_aborts,
        requests,
        intercepted,
        responses_1xx,
        responses_2xx,
        responses_3xx,
        responses_4xx,
        responses_5xx,
        responses_other,
        /// Times the load balancer chose this one.
        chosen,
        connection_attempts,
        connection_reuses,
        idle_connections,
        /// Milliseconds summed over `timed` streams.
        queue_ms,
        connect_ms,
        response_ms,
        total_ms,
        timed,
        /// Millisecond of the last stream.
        last_session_ms,
        /// Bytes that passed through a pipe: received from this side, and sent to it.
        spliced_in,
        spliced_out,
    }
}

impl Counters {
    /// Starts anew, but for what exists now. Only the owning thread may call this.
    pub fn reset(&self) {
        self.each(|name, counter| {
            if !matches!(name, "current" | "idle_connections") {
                counter.set(0);
            }
        });
        self.reset_max();
    }

    /// Starts the maxima anew. Only the owning thread may call this.
    pub fn reset_max(&self) {
        self.current_max.set(self.current.get());
    }

    /// Counts a response by its class.
    #[inline]
    pub fn response(&self, status: u16) {
        match status / 100 {
            1 => &self.responses_1xx,
            2 => &self.responses_2xx,
            3 => &self.responses_3xx,
            4 => &self.responses_4xx,
            5 => &self.responses_5xx,
            _ => &self.responses_other,
        }
        .add(1);
    }

    /// A session or stream begins; it ends when what this returns is dropped.
    #[inline]
    pub fn enter(&self, now_ms: u64) -> Present<'_> {
        self.current.add(1);
        self.current_max.raise_to(self.current.get());
        self.total.add(1);
        self.session_rate.add(1, now_ms);
        Present(self)
    }
}

/// A session or stream that exists now, on the thread that owns the counters. However its task ends, the count goes
/// down.
#[must_use]
pub struct Present<'a>(&'a Counters);

impl Drop for Present<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.current.sub(1);
    }
}

/// All counters of one thread.
pub struct ThreadCounters {
    /// By proxy, as a frontend.
    pub frontends: Box<[Counters]>,
    /// By proxy, as a backend.
    pub backends: Box<[Counters]>,
    /// By flat server number.
    pub servers: Box<[Counters]>,
    /// By listener; kept up for those with `option socket-stats`.
    pub listeners: Box<[Counters]>,
    /// Of the process.
    pub process: Counters,
}

impl ThreadCounters {
    /// Zeroed counters for that many proxies, servers and listeners.
    pub fn new(proxies: usize, servers: usize, listeners: usize) -> ThreadCounters {
        let make = |n: usize| (0..n).map(|_| Counters::default()).collect::<Box<[_]>>();
        ThreadCounters {
            frontends: make(proxies),
            backends: make(proxies),
            servers: make(servers),
            listeners: make(listeners),
            process: Counters::default(),
        }
    }
}

/// The sum of one counter over all threads.
pub fn sum<'a>(
    threads: impl IntoIterator<Item = &'a ThreadCounters>,
    pick: impl Fn(&ThreadCounters) -> &Counter,
) -> u64 {
    threads.into_iter().fold(0, |total, t| total.wrapping_add(pick(t).get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_slides_over_two_seconds() {
        let rate = Rate::default();
        rate.add(10, 1_000);
        rate.add(10, 1_999);
        assert_eq!(rate.per_second(1_999), 20);
        assert_eq!(rate.per_second(2_000), 20, "the whole last second still counts at its end");
        assert_eq!(rate.per_second(2_500), 10, "half of it is left half a second later");
        assert_eq!(rate.per_second(3_000), 0);
        rate.add(4, 2_500);
        assert_eq!(rate.per_second(2_500), 14);
        assert_eq!(rate.per_second(3_250), 3);
    }

    #[test]
    fn gauges_add_up_over_threads() {
        let threads = [ThreadCounters::new(1, 1, 1), ThreadCounters::new(1, 1, 1)];
        threads[0].frontends[0].current.add(1);
        threads[1].frontends[0].current.sub(1);
        assert_eq!(sum(&threads, |t| &t.frontends[0].current), 0);
    }
}
