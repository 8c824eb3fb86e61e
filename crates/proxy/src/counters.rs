//! Counters. Each thread writes its own, without locked instructions; whoever reads adds them up.
//!
//! **Invariant:** a counter is written by the one thread that owns it. It is an atomic only so that other threads
//! may read it at any time; reads are sums of moments that differ by nanoseconds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, OnceLock};

use thalweg_h2::connection::{Excess, Tally};
use thalweg_live::{Chunks, Held, Rows};
use thalweg_sys::dense::densely;

use crate::latency::{Latency, Times};
use crate::spans::SpanCounters;

pub(crate) mod counter;
mod peaks;
mod rare;
mod tls;

pub use counter::Counter;
pub use peaks::{Peaks, peak};
use rare::Rare;
pub use tls::{Handshake, TlsCounters, TlsPeaks};

/// A second that is over on one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastSecond {
    /// Seconds since the start.
    pub second: u64,
    /// Events that the thread itself had in it, where it does not keep them ([`Rate::in_second`]): the next one came later.
    pub forgotten: u64,
}

/// Events per second, over a sliding second: what is left of the last one plus what this one has.
#[derive(Default)]
pub struct Rate {
    second: AtomicU64,
    current: AtomicU64,
    previous: AtomicU64,
}

impl Rate {
    /// Counts an event at `now_ms`. Only the owning thread may call this. When the event is the first of its second,
    /// returns the last second in which there were any.
    #[inline]
    pub fn add(&self, now_ms: u64) -> Option<PastSecond> {
        let second = now_ms / 1000;
        let last = self.second.load(Relaxed);
        if second == last {
            self.current.store(self.current.load(Relaxed) + 1, Relaxed);
            return None;
        }
        let events = self.current.load(Relaxed);
        let is_kept = second == last + 1;
        self.previous.store(if is_kept { events } else { 0 }, Relaxed);
        self.current.store(1, Relaxed);
        self.second.store(second, Relaxed);
        Some(PastSecond { second: last, forgotten: if is_kept { 0 } else { events } })
    }

    /// As if so many had happened just now. Only the owning thread may call this.
    pub(crate) fn begin_with(&self, now_ms: u64, events: u64) {
        self.second.store(now_ms / 1000, Relaxed);
        self.current.store(events, Relaxed);
    }

    /// Starts anew. Only the owning thread may call this.
    pub fn reset(&self) {
        self.current.store(0, Relaxed);
        self.previous.store(0, Relaxed);
    }

    /// Events in a second since the start: known for the last one that had any, and for the one before it.
    pub fn in_second(&self, second: u64) -> u64 {
        match self.second.load(Relaxed).wrapping_sub(second) {
            0 => self.current.load(Relaxed),
            1 => self.previous.load(Relaxed),
            _ => 0,
        }
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
            /// Connections per second, before any rule.
            pub connection_rate: Rate,
            /// How long streams took, once there were any.
            pub latency: OnceLock<Box<Latency>>,
            /// Connections of HTTP/2 by the [`Excess`] that ended them.
            h2_excesses: Rare<EXCESSES>,
            /// Of TLS, by [`Handshake`].
            handshakes: Rare<{ Handshake::COUNT }>,
            /// When this thread last looked at all threads: see [`Peaks`].
            looked_ms: Counter,
        }

        impl $name {
            /// Every counter with its name.
            pub fn each(&self, mut visit: impl FnMut(&'static str, &Counter)) {
                $(visit(stringify!($field), &self.$field);)+
            }
        }
    };
}

/// For how many reasons connections of HTTP/2 are ended that broke no rule: see [`Excess::index`].
pub const EXCESSES: usize = Excess::COUNT;

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
        /// Bytes received from the client, and sent to the server.
        request_bytes_in,
        request_bytes_out,
        /// Bytes received from the server, and sent to the client, answers of our own included.
        response_bytes_in,
        response_bytes_out,
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
        /// Requests that ended before their first byte.
        silent,
        /// Times the load balancer chose this one (server), or a server of this one (backend).
        chosen,
        connection_attempts,
        connection_reuses,
        idle_connections,
        /// Those of them that have carried more than one request.
        proven_connections,
        /// Connections that carry many requests at once, with and without any.
        shared_connections,
        /// Idle connections that belong to a session each.
        private_idle_connections,
        /// Connections in use at once that other sessions could have used, at most since connections in excess were
        /// last closed.
        used_connections_max,
        /// How many such connections are needed, as estimated from that.
        needed_connections,
        /// Milliseconds summed over the last `timed` streams, [`TIMED_MAX`] at most.
        queue_ms,
        connect_ms,
        response_ms,
        total_ms,
        timed,
        /// The largest of each.
        queue_ms_max,
        connect_ms_max,
        response_ms_max,
        total_ms_max,
        /// Millisecond of the last stream.
        last_session_ms,
        /// Bytes that passed through a pipe: received from this side, and sent to it.
        spliced_in,
        spliced_out,
        /// Connections of HTTP/2: those there are, and all so far. The same of their streams.
        h2_open_connections,
        h2_connections,
        h2_open_streams,
        h2_streams,
        /// Their frames, and what ended connections and streams: see [`thalweg_h2::connection::Tally`].
        h2_headers,
        h2_data,
        h2_settings,
        h2_resets,
        h2_goaways,
        h2_connection_errors,
        h2_stream_errors,
        h2_resets_sent,
        h2_goaways_sent,
        /// For `option outlier-detection` and `adaptive-maxconn`: requests whose outcome is known, those of them that failed, and the microseconds
        /// that the answers of the others took.
        outcomes,
        failed_outcomes,
        answer_us,
        /// Times a server was ejected as it was worse than the others.
        ejections,
        /// Repetitions that `retry-budget` did not pay for.
        refused_retries,
        /// Requests of which a second server was asked (`option hedge`), and those that it answered.
        hedges,
        hedges_won,
    }
}

impl Counters {
    /// Starts anew, but for what exists now. Only the owning thread may call this.
    pub fn reset(&self) {
        self.each(|name, counter| {
            let is_now = matches!(
                name,
                "current"
                    | "idle_connections"
                    | "proven_connections"
                    | "shared_connections"
                    | "private_idle_connections"
                    | "used_connections_max"
                    | "needed_connections"
                    | "h2_open_connections"
                    | "h2_open_streams"
            );
            if !is_now {
                counter.set(0);
            }
        });
        for rate in [&self.session_rate, &self.request_rate, &self.connection_rate] {
            rate.reset();
        }
        if let Some(latency) = self.latency.get() {
            latency.reset();
        }
        self.h2_excesses.reset();
        self.handshakes.reset();
        self.reset_max();
    }

    /// As if nothing had been counted. Only the owning thread may call this.
    fn forget(&self) {
        self.each(|_, counter| counter.set(0));
        self.reset();
    }

    /// Counts what others counted, too. Only the owning thread may call this.
    fn take_over(&self, other: &Counters) {
        let mut theirs = Vec::new();
        other.each(|_, counter| theirs.push(counter.get()));
        let mut theirs = theirs.into_iter();
        self.each(|name, counter| match theirs.next() {
            Some(n) if name.ends_with("_max") => counter.raise_to(n),
            Some(n) => counter.add(n),
            None => {}
        });
        if let Some(latency) = other.latency.get() {
            self.latency.get_or_init(|| densely(Box::default)).take_over(latency);
        }
        self.h2_excesses.take_over(&other.h2_excesses);
        self.handshakes.take_over(&other.handshakes);
    }

    /// Counts a connection of HTTP/2 that ended for too much of something. Only the owning thread may call this.
    pub fn count_excess(&self, excess: Excess) {
        self.h2_excesses.add(excess.index(), 1);
    }

    /// How many ended for what has this [`Excess::index`].
    pub fn excess(&self, index: usize) -> u64 {
        self.h2_excesses.get(index)
    }

    /// Counts what a connection of HTTP/2 counted.
    pub fn count_frames(&self, more: &Tally) {
        self.h2_headers.add(more.headers.into());
        self.h2_data.add(more.data.into());
        self.h2_settings.add(more.settings.into());
        self.h2_resets.add(more.resets.into());
        self.h2_goaways.add(more.goaways.into());
        self.h2_connection_errors.add(more.connection_errors.into());
        self.h2_stream_errors.add(more.stream_errors.into());
        self.h2_resets_sent.add(more.resets_sent.into());
        self.h2_goaways_sent.add(more.goaways_sent.into());
    }

    /// Starts the maxima anew. Only the owning thread may call this.
    pub fn reset_max(&self) {
        self.current_max.set(self.current.get());
        for max in [&self.queue_ms_max, &self.connect_ms_max, &self.response_ms_max, &self.total_ms_max] {
            max.set(0);
        }
    }

    /// Counts a stream's times towards the averages: in the queue, until connected, until the response, and all of it,
    /// in milliseconds; `None` when it did not get that far. The averages are those of about the last [`TIMED_MAX`].
    #[inline]
    pub fn time(&self, times: Option<[u64; 4]>) {
        let full = self.timed.get() >= TIMED_MAX;
        if !full {
            self.timed.add(1);
        }
        let Some([queue, connect, response, total]) = times else { return };
        let count = |sum: &Counter, max: &Counter, ms: u64| {
            let before = sum.get();
            // Most are zero, and change nothing while the sum is small.
            if ms == 0 && before < TIMED_MAX {
                return;
            }
            sum.set(before - if full { before / TIMED_MAX } else { 0 } + ms);
            max.raise_to(ms);
        };
        count(&self.queue_ms, &self.queue_ms_max, queue);
        count(&self.connect_ms, &self.connect_ms_max, connect);
        count(&self.response_ms, &self.response_ms_max, response);
        count(&self.total_ms, &self.total_ms_max, total);
    }

    /// Counts how long a stream took. Only the owning thread may call this.
    #[inline]
    pub fn count_times(&self, times: &Times) {
        self.latency.get_or_init(|| densely(Box::default)).add(times);
    }

    /// Counts a response by its class; 0 when there was none.
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

    /// A session or stream is here; it leaves when what this returns is dropped.
    #[inline]
    pub fn enter(&self) -> Present<'_> {
        self.come();
        Present(self)
    }

    /// The same of what [leaves](Counters::leave) by itself.
    #[inline]
    pub fn come(&self) {
        self.current.add(1);
        self.current_max.raise_to(self.current.get());
    }

    /// What [came](Counters::come) is gone.
    #[inline]
    pub fn leave(&self) {
        self.current.sub(1);
    }
}

/// Streams that averages of times are over.
pub const TIMED_MAX: u64 = 1024;

/// A session or stream that exists now, on the thread that owns the counters. However its task ends, the count goes
/// down.
#[must_use]
pub struct Present<'a>(&'a Counters);

impl<'a> Present<'a> {
    /// Where it counts.
    #[inline]
    pub fn counters(&self) -> &'a Counters {
        self.0
    }
}

impl Drop for Present<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// What a thread has of one server, looked up once for all that a stream does there.
#[derive(Clone, Copy)]
pub struct OfServer<'a> {
    /// The server's flat number.
    pub index: usize,
    pub counters: &'a Counters,
}

/// All counters of one thread, made when it first counts something.
pub struct ThreadCounters {
    /// By listener; a frontend's are the sums of its listeners' (see [`crate::Live::frontend_counters`]).
    pub listeners: Row,
    /// By proxy, as a frontend: what those of its listeners had counted that are gone.
    pub frontends: Row,
    /// By proxy, as a backend.
    pub backends: Row,
    /// Of the process.
    pub process: Counters,
    pub tls: TlsCounters,
    /// Messages that arrived for `log-forward` sections.
    pub received_logs: Counter,
    pub spans: SpanCounters,
}

/// One thread's counters of all listeners, backends or servers. Whoever looks at those that count nothing yet (by index)
/// sees zeros, which nobody may write.
pub struct Row(Chunks<Counters>);

impl Row {
    /// To count with. Only the owning thread may call this.
    #[inline]
    pub fn mine(&self, at: usize) -> &Counters {
        self.0.mine(at)
    }

    /// Nobody uses these any more: as if nothing had been counted. Only the owning thread may call this.
    pub fn forget(&self, at: usize) {
        if let Some(counters) = self.0.get(at) {
            counters.forget();
        }
    }

    /// What was counted at one place counts at another place of another row from now on. Only the owning thread may call this.
    pub fn move_to(&self, at: usize, other: &Row, to: usize) {
        if let Some(counters) = self.0.get(at) {
            other.mine(to).take_over(counters);
            self.forget(at);
        }
    }

    /// All that may have counted something.
    pub fn iter(&self) -> impl Iterator<Item = &Counters> {
        self.0.made().map(|(_, counters)| counters)
    }
}

impl std::ops::Index<usize> for Row {
    type Output = Counters;

    fn index(&self, at: usize) -> &Counters {
        self.0.get(at).unwrap_or(&NOTHING)
    }
}

/// What is read where nothing was counted, and nobody may write.
static NOTHING: LazyLock<Counters> = LazyLock::new(Counters::default);

/// The same of the largest rates.
static NEVER: LazyLock<Peaks> = LazyLock::new(Peaks::default);

/// What is counted of one server.
#[derive(Default)]
pub struct ServerCounts {
    /// Its largest rates.
    pub peaks: Peaks,
    /// By thread, each made when it first counts something.
    threads: OnceLock<Box<[OnceLock<Box<Counters>>]>>,
}

impl ServerCounts {
    /// Of one of so many threads, which calls this.
    #[inline]
    fn mine(&self, thread: usize, threads: usize) -> &Counters {
        let all = self.threads.get_or_init(|| densely(|| (0..threads).map(|_| OnceLock::new()).collect()));
        all[thread].get_or_init(|| densely(Box::default))
    }

    /// Of a thread that has counted something.
    fn made_by(&self, thread: usize) -> Option<&Counters> {
        self.threads.get()?.get(thread)?.get().map(|counters| &**counters)
    }

    fn of(&self, thread: usize) -> &Counters {
        self.made_by(thread).unwrap_or(&NOTHING)
    }
}

/// What is counted of the servers of a snapshot, by flat number. It goes with the last snapshot that has the server.
pub struct ServerRows {
    rows: Rows<ServerCounts>,
    threads: usize,
}

impl ServerRows {
    /// Of so many servers at the start, for so many threads.
    pub fn new(servers: usize, threads: usize) -> ServerRows {
        ServerRows { rows: Rows::new(servers), threads }
    }

    /// Those of the next snapshot, which has servers at these numbers and at no others.
    pub(crate) fn next(&self, used: impl Iterator<Item = usize>) -> ServerRows {
        ServerRows { rows: self.rows.next(used), threads: self.threads }
    }

    /// Frees the memory of servers that no snapshot has any more.
    pub(crate) fn free_left(&self) {
        self.rows.free_left();
    }

    /// To count with on this thread, which is the one that calls this.
    #[inline]
    pub fn mine(&self, at: usize, thread: usize) -> &Counters {
        self.rows.at(at).mine(thread, self.threads)
    }

    /// What a thread counted: zeros, which nobody may write, where that is nothing yet.
    pub fn of(&self, at: usize, thread: usize) -> &Counters {
        self.rows.get(at).map_or(&NOTHING, |counts| counts.of(thread))
    }

    /// The same of each thread.
    pub fn all(&self, at: usize) -> impl Iterator<Item = &Counters> + Clone {
        let counts = self.rows.get(at);
        (0..self.threads).map(move |thread| counts.map_or(&*NOTHING, |counts| counts.of(thread)))
    }

    /// The sum of one counter over all threads.
    pub fn sum(&self, at: usize, pick: impl Fn(&Counters) -> &Counter) -> u64 {
        self.all(at).fold(0, |total, counters| total.wrapping_add(pick(counters).get()))
    }

    /// Looks at what a thread counted of each server.
    pub fn each_of(&self, thread: usize, mut look: impl FnMut(&Counters)) {
        self.rows.each(|counts| {
            if let Some(counters) = counts.made_by(thread) {
                look(counters);
            }
        });
    }

    /// Behind the highest number that these were made for. Higher ones are reached, too, with a call more.
    pub(crate) fn room(&self) -> usize {
        self.rows.room()
    }

    /// Servers for which memory is taken, their neighbours included.
    pub fn made(&self) -> usize {
        let mut made = 0;
        self.rows.each(|_| made += 1);
        made
    }

    /// The largest rates of a server, to read.
    pub fn peaks(&self, at: usize) -> &Peaks {
        self.rows.get(at).map_or(&NEVER, |counts| &counts.peaks)
    }

    /// The same, to be raised by who counts.
    pub(crate) fn own_peaks(&self, at: usize) -> &Peaks {
        &self.rows.at(at).peaks
    }

    /// Starts the largest rates of all servers anew.
    pub(crate) fn reset_peaks(&self) {
        self.rows.each(|counts| counts.peaks.reset());
    }

    /// To count with on one thread, for who stays longer than the snapshot.
    pub(crate) fn hold(&self, at: usize, thread: usize) -> Kept {
        Kept { counts: self.rows.hold(at), thread, threads: self.threads }
    }

    /// Nobody has the number any more: as if this thread, which calls this, had counted nothing there.
    pub(crate) fn forget(&self, at: usize, thread: usize) {
        self.rows.peek(at, |counts| {
            if let Some(counters) = counts.made_by(thread) {
                counters.forget();
            }
        });
    }

    /// Nobody has the number any more, and all threads have forgotten it.
    pub(crate) fn forget_peaks(&self, at: usize) {
        self.rows.peek(at, |counts| counts.peaks.reset());
    }
}

/// What one thread counts of one server, whatever snapshots come and go.
pub(crate) struct Kept {
    counts: Held<ServerCounts>,
    thread: usize,
    threads: usize,
}

impl std::ops::Deref for Kept {
    type Target = Counters;

    #[inline]
    fn deref(&self) -> &Counters {
        self.counts.mine(self.thread, self.threads)
    }
}

impl ThreadCounters {
    /// Counters for that many proxies and listeners.
    pub fn new(proxies: usize, listeners: usize) -> ThreadCounters {
        let row = |n: usize| Row(Chunks::new(n));
        ThreadCounters {
            listeners: row(listeners),
            frontends: row(proxies),
            backends: row(proxies),
            process: Counters::default(),
            tls: TlsCounters::default(),
            received_logs: Counter::default(),
            spans: SpanCounters::default(),
        }
    }
}

/// The sum of one counter over all threads.
pub fn sum<'a>(
    threads: impl IntoIterator<Item = &'a Arc<ThreadCounters>>,
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
        for _ in 0..10 {
            rate.add(1_000);
            rate.add(1_999);
        }
        assert_eq!(rate.per_second(1_999), 20);
        assert_eq!(rate.per_second(2_000), 20, "the whole last second still counts at its end");
        assert_eq!(rate.per_second(2_500), 10, "half of it is left half a second later");
        assert_eq!(rate.per_second(3_000), 0);
        assert_eq!(rate.add(2_500), Some(PastSecond { second: 1, forgotten: 0 }), "the first of its second");
        assert_eq!((0..3).filter_map(|_| rate.add(2_500)).count(), 0);
        assert_eq!(rate.per_second(2_500), 14);
        assert_eq!(rate.per_second(3_250), 3);
        assert_eq!(
            (rate.in_second(0), rate.in_second(1), rate.in_second(2), rate.in_second(3)),
            (0, 20, 4, 0)
        );
    }

    #[test]
    fn gauges_add_up_over_threads() {
        let threads = [(); 2].map(|()| Arc::new(ThreadCounters::new(1, 1)));
        threads[0].listeners.mine(0).current.add(1);
        threads[1].listeners.mine(0).current.sub(1);
        assert_eq!(sum(&threads, |t| &t.listeners[0].current), 0);
    }

    #[test]
    fn what_counts_nothing_takes_no_memory() {
        let thread = ThreadCounters::new(1000, 1000);
        assert_eq!(thread.backends.iter().count() + thread.listeners.iter().count(), 0);
        let (servers, made) = (ServerRows::new(100_000, 4), |servers: &ServerRows| {
            let mut made = 0;
            servers.rows.each(|counts| {
                made += counts.threads.get().map_or(0, |all| all.iter().flat_map(OnceLock::get).count())
            });
            made
        });
        assert_eq!((made(&servers), servers.of(99_999, 0).total.get()), (0, 0));
        let seen = servers.peaks(7).streams(servers.all(7)) + servers.sum(7, |c| &c.total);
        assert_eq!((seen, servers.made()), (0, 0), "to read takes none, either");
        servers.mine(99_999, 3).total.add(1);
        assert_eq!((servers.of(99_999, 3).total.get(), servers.of(99_999, 0).total.get()), (1, 0));
        assert_eq!(
            (servers.sum(99_999, |c| &c.total), servers.sum(5, |c| &c.total), made(&servers)),
            (1, 0, 1)
        );
    }

    #[test]
    fn averages_forget_what_was_long_ago() {
        let counters = Counters::default();
        counters.time(None);
        counters.time(Some([0, 1, 2, 3000]));
        assert_eq!(
            (counters.timed.get(), counters.total_ms.get(), counters.total_ms_max.get()),
            (2, 3000, 3000)
        );
        for _ in 0..20_000 {
            counters.time(Some([0, 0, 0, 10]));
        }
        let average = counters.total_ms.get() / counters.timed.get();
        assert!((9..=11).contains(&average), "{average}");
    }
}
