//! When things happened in the life of a stream, and how long they took.

/// The moments of a stream's life, in microseconds since `accept_mono_us`; -1: not reached.
///
/// The timers of the manual's section 8.4 are differences between them:
///
/// ```text
/// accept   handshake   idle     request    queue     connect    response     close
///   |---Th----|---Ti----|---TR----|---Tw-----|---Tc-----|---Tr-----|---Td------|
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// The stream's beginning, microseconds on the monotonic clock: the accept for the first request of a
    /// connection, the end of the previous request for the following ones.
    pub accept_mono_us: u64,
    /// The same moment in microseconds since 1970.
    pub accept_wall_us: i64,
    /// The arrival of the first byte of the request, in microseconds since 1970 (`%tr`).
    pub request_wall_us: i64,
    /// How long the handshakes took (a duration); 0 after the first request.
    pub handshake_us: i64,
    /// How long nothing came after the handshakes (a duration).
    pub idle_us: i64,
    /// All request headers were received.
    pub request_us: i64,
    /// The request left the queue.
    pub queue_us: i64,
    /// The connection to the server was established.
    pub connect_us: i64,
    /// All response headers were received (in TCP: the first data).
    pub response_us: i64,
    /// The last byte was sent.
    pub close_us: i64,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            accept_mono_us: 0,
            accept_wall_us: 0,
            request_wall_us: 0,
            handshake_us: 0,
            idle_us: -1,
            request_us: -1,
            queue_us: -1,
            connect_us: -1,
            response_us: -1,
            close_us: -1,
        }
    }
}

/// Microseconds to whole milliseconds; a negative value stays -1.
const fn ms(us: i64) -> i64 {
    if us < 0 { -1 } else { us / 1000 }
}

/// The milliseconds between two moments, -1 when one was not reached.
const fn between(from: i64, to: i64) -> i64 {
    if from < 0 || to < 0 { -1 } else { ms(to) - ms(from) }
}

/// What a stream spent its time on, in microseconds (see `%Tw`, `%Tc`, `%Tr`, `%Ta`). Below zero is nothing that can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durations {
    /// Waiting for a server.
    pub queue: i64,
    /// Connecting to it.
    pub connect: i64,
    /// Until its response; -1 without one.
    pub response: i64,
    /// All of it, from the request on.
    pub total: i64,
}

impl Timers {
    /// Moment `now` (microseconds, monotonic) as an offset from the beginning.
    pub fn since(&self, now_mono_us: u64) -> i64 {
        i64::try_from(now_mono_us.saturating_sub(self.accept_mono_us)).unwrap_or(i64::MAX)
    }

    /// `%Th`, milliseconds.
    pub fn th(&self) -> i64 {
        ms(self.handshake_us)
    }

    /// `%Ti`, milliseconds.
    pub fn ti(&self) -> i64 {
        ms(self.idle_us)
    }

    /// `%TR`, milliseconds.
    pub fn t_r_request(&self) -> i64 {
        if self.request_us < 0 || self.idle_us < 0 {
            return -1;
        }
        ms(self.request_us) - ms(self.idle_us) - ms(self.handshake_us).max(0)
    }

    /// `%Tq`, milliseconds.
    pub fn tq(&self) -> i64 {
        ms(self.request_us)
    }

    /// `%Tw`, milliseconds. In TCP no request moment exists: the beginning is used.
    pub fn tw(&self) -> i64 {
        if self.queue_us < 0 { -1 } else { ms(self.queue_us) - ms(self.request_us).max(0) }
    }

    /// `%Tc`, milliseconds.
    pub fn tc(&self) -> i64 {
        between(self.queue_us, self.connect_us)
    }

    /// `%Tr`, milliseconds.
    pub fn tr(&self) -> i64 {
        between(self.connect_us, self.response_us)
    }

    /// The end: `close_us` or, while the stream lives, `now`.
    fn end(&self, now_mono_us: u64) -> i64 {
        ms(if self.close_us >= 0 { self.close_us } else { self.since(now_mono_us) })
    }

    /// `%Td`, milliseconds: since the response's head or, in TCP, since the server was connected.
    pub fn td(&self, now_mono_us: u64, is_http: bool) -> i64 {
        let since = if is_http { self.response_us } else { self.response_us.max(self.connect_us) };
        if since >= 0 { self.end(now_mono_us) - ms(since) } else { -1 }
    }

    /// `%Ta`, milliseconds.
    pub fn ta(&self, now_mono_us: u64) -> i64 {
        let skip = if self.idle_us >= 0 { ms(self.idle_us) + ms(self.handshake_us).max(0) } else { 0 };
        (self.end(now_mono_us) - skip).max(0)
    }

    /// What the stream spent its time on, in microseconds.
    pub fn durations(&self, now_mono_us: u64) -> Durations {
        let end = if self.close_us >= 0 { self.close_us } else { self.since(now_mono_us) };
        let skipped = if self.idle_us >= 0 { self.idle_us + self.handshake_us.max(0) } else { 0 };
        Durations {
            queue: self.queue_us - self.request_us.max(0),
            connect: self.connect_us - self.queue_us,
            response: if self.response_us < 0 { -1 } else { self.response_us - self.connect_us },
            total: end - skipped,
        }
    }

    /// `%Tt`, milliseconds.
    pub fn tt(&self, now_mono_us: u64) -> i64 {
        self.end(now_mono_us)
    }

    /// `%Tu`, milliseconds.
    pub fn tu(&self, now_mono_us: u64) -> i64 {
        let skip = ms(self.idle_us).max(0);
        (self.end(now_mono_us) - skip).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_differences_between_moments() {
        let t = Timers {
            handshake_us: 2_000,
            idle_us: 10_000,
            request_us: 15_000,
            queue_us: 16_000,
            connect_us: 20_000,
            response_us: 50_500,
            close_us: 60_000,
            ..Timers::default()
        };
        assert_eq!(
            [t.th(), t.ti(), t.t_r_request(), t.tq(), t.tw(), t.tc(), t.tr()],
            [2, 10, 3, 15, 1, 4, 30]
        );
        assert_eq!([t.td(0, true), t.ta(0), t.tt(0), t.tu(0)], [10, 48, 60, 50]);
    }

    #[test]
    fn phases_that_were_not_reached_read_minus_one() {
        let t = Timers { close_us: 7_000, ..Timers::default() };
        assert_eq!([t.ti(), t.t_r_request(), t.tq(), t.tw(), t.tc(), t.tr(), t.td(0, false)], [-1; 7]);
        assert_eq!([t.ta(0), t.tt(0)], [7, 7]);
    }
}
