//! Filters: what looks at payload on its way, and may hold it back (manual chapter 9).
//!
//! One direction of a stream has one [`Filtered`], made when its pump is, if its proxies declare filters for it; a pump
//! without one pays one test. The pump takes payload without its framing, asks the filters in the order of their lines, or of `filter-sequence`, how
//! much of it may go on now, and frames what they let pass for its receiver.
//!
//! A new filter is a file beside these, a variant of [`Filter`], and its line in [`Filtered::of`].

mod bandwidth;
mod pump;
mod trace;

use thalweg_config::model::{self, Proxy};
use thalweg_rules::BandwidthLimit;
use thalweg_runtime::buffer::Buf;

use crate::worker::Worker;
use bandwidth::Bandwidth;
use trace::Trace;

/// One direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Request,
    /// From the server to the client.
    Response,
}

/// What a filter lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// So many of the bytes, at least one.
    Bytes(usize),
    /// None before this millisecond of the runtime's clock.
    NotBefore(u64),
}

/// A filter at work on one direction.
enum Filter {
    Bandwidth {
        /// The filter's number in the configuration.
        id: u32,
        /// From the client to the server.
        incoming: bool,
        /// Its own limits.
        limits: (u32, u32, u32),
        /// What is set by now.
        set: Option<BandwidthLimit>,
        limit: Option<Bandwidth>,
    },
    Trace(Trace),
}

/// The filters of one direction, and what they hold back.
pub struct Filtered {
    filters: Vec<Filter>,
    /// Payload that was taken from its sender and may not go on yet.
    held: Option<Buf>,
    /// The end was passed on.
    ended: bool,
    /// A filter is what the last poll stopped at.
    pub holds_back: bool,
}

impl Filtered {
    /// The filters of a frontend and a backend for one direction; none when they have none for it.
    #[inline]
    pub fn of(direction: Direction, worker: &Worker, fe: &Proxy, be: &Proxy) -> Option<Box<Filtered>> {
        if fe.filters.is_none() && be.filters.is_none() {
            return None;
        }
        Filtered::declared(direction, worker, fe, be)
    }

    #[cold]
    fn declared(direction: Direction, worker: &Worker, fe: &Proxy, be: &Proxy) -> Option<Box<Filtered>> {
        let sides = if fe.id == be.id { &[fe][..] } else { &[fe, be] };
        let in_order = sides.iter().flat_map(|proxy| {
            let filters =
                proxy.filters.iter().flat_map(|filters| filters.of(direction == Direction::Request));
            filters.map(|filter| (*proxy, filter))
        });
        let filters: Vec<Filter> = in_order
            .filter_map(|(proxy, filter)| match filter {
                model::Filter::Bandwidth(f) if f.incoming == (direction == Direction::Request) => {
                    let limits = (f.limit, f.period_ms, f.min_size);
                    let incoming = f.incoming;
                    Some(Filter::Bandwidth { id: f.id, incoming, limits, set: None, limit: None })
                }
                model::Filter::Bandwidth(_) => None,
                model::Filter::Trace(f) => {
                    Some(Filter::Trace(Trace::new(f, proxy, direction, worker.next_random())))
                }
            })
            .collect();
        (!filters.is_empty())
            .then(|| Box::new(Filtered { filters, held: None, ended: false, holds_back: false }))
    }

    /// Turns on what rules asked for, or changes it.
    pub fn apply(&mut self, wanted: &[BandwidthLimit], now_ms: u64) {
        for filter in &mut self.filters {
            let Filter::Bandwidth { id, incoming, limits, set, limit } = filter else { continue };
            let found = wanted.iter().find(|wanted| wanted.filter == *id);
            if found.is_none() || found == set.as_ref() {
                continue;
            }
            *set = found.cloned();
            let given = |value: Option<u32>, own: u32| value.filter(|n| *n > 0).unwrap_or(own);
            let bytes = given(found.and_then(|wanted| wanted.limit), limits.0);
            let period_ms = given(found.and_then(|wanted| wanted.period_ms), limits.1);
            let shared = found.and_then(|wanted| wanted.shared.clone());
            *limit = Some(match shared {
                Some(entry) => Bandwidth::shared(entry, *incoming, (bytes, period_ms, limits.2), now_ms),
                None => Bandwidth::new(bytes, period_ms, limits.2, now_ms),
            });
        }
    }

    /// How many of `data`, the next payload, may go on. `last`: no payload comes after it.
    fn pass(&mut self, data: &[u8], last: bool, now_ms: u64) -> Pass {
        let mut len = data.len();
        for filter in &mut self.filters {
            let passed = match filter {
                Filter::Bandwidth { limit: Some(limit), .. } => limit.room(len, last, now_ms),
                Filter::Bandwidth { .. } => Pass::Bytes(len),
                Filter::Trace(trace) => Pass::Bytes(trace.room(len)),
            };
            match passed {
                Pass::Bytes(n) => len = len.min(n),
                wait => return wait,
            }
        }
        // What a later filter holds back has not passed an earlier one either.
        for filter in &mut self.filters {
            match filter {
                Filter::Bandwidth { limit: Some(limit), .. } => limit.passed(len, now_ms),
                Filter::Bandwidth { .. } => {}
                Filter::Trace(trace) => trace.passed(&data[..len], data.len()),
            }
        }
        Pass::Bytes(len)
    }

    /// All payload was passed on, and that it is over.
    pub fn is_done(&self) -> bool {
        self.ended && self.held.is_none()
    }

    /// What comes next belongs to the same direction of the same stream: bytes behind a message that became a tunnel.
    pub fn begin_again(&mut self) {
        self.ended = false;
    }

    /// Tells the filters that the payload is over.
    fn end(&mut self) {
        self.ended = true;
        for filter in &mut self.filters {
            if let Filter::Trace(trace) = filter {
                trace.end();
            }
        }
    }
}
