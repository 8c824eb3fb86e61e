//! What an entry of a table may hold (manual section 11.1, `store`).

use std::fmt;

/// A kind of data. The numbers are those of the peers protocol, and `show table` prints in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are the manual's")]
pub enum DataType {
    ServerId = 0,
    Gpt0,
    Gpc0,
    Gpc0Rate,
    ConnCnt,
    ConnRate,
    ConnCur,
    SessCnt,
    SessRate,
    HttpReqCnt,
    HttpReqRate,
    HttpErrCnt,
    HttpErrRate,
    BytesInCnt,
    BytesInRate,
    BytesOutCnt,
    BytesOutRate,
    Gpc1,
    Gpc1Rate,
    ServerKey,
    HttpFailCnt,
    HttpFailRate,
    Gpt,
    Gpc,
    GpcRate,
    GlitchCnt,
    GlitchRate,
}

/// Number of kinds.
pub const KINDS: usize = 27;

/// The most elements of an array.
pub const ELEMENTS_MAX: u16 = 100;

/// How a kind of data is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number of 32 bits.
    Counter,
    /// A number of 64 bits.
    Long,
    /// Events over a sliding period.
    Rate,
    /// A name in the table's dictionary.
    Name,
}

use DataType::*;
use Shape::*;

/// Kind, name, shape; whether it is an array.
const TABLE: [(DataType, &str, Shape, bool); KINDS] = [
    (ServerId, "server_id", Counter, false),
    (Gpt0, "gpt0", Counter, false),
    (Gpc0, "gpc0", Counter, false),
    (Gpc0Rate, "gpc0_rate", Rate, false),
    (ConnCnt, "conn_cnt", Counter, false),
    (ConnRate, "conn_rate", Rate, false),
    (ConnCur, "conn_cur", Counter, false),
    (SessCnt, "sess_cnt", Counter, false),
    (SessRate, "sess_rate", Rate, false),
    (HttpReqCnt, "http_req_cnt", Counter, false),
    (HttpReqRate, "http_req_rate", Rate, false),
    (HttpErrCnt, "http_err_cnt", Counter, false),
    (HttpErrRate, "http_err_rate", Rate, false),
    (BytesInCnt, "bytes_in_cnt", Long, false),
    (BytesInRate, "bytes_in_rate", Rate, false),
    (BytesOutCnt, "bytes_out_cnt", Long, false),
    (BytesOutRate, "bytes_out_rate", Rate, false),
    (Gpc1, "gpc1", Counter, false),
    (Gpc1Rate, "gpc1_rate", Rate, false),
    (ServerKey, "server_key", Name, false),
    (HttpFailCnt, "http_fail_cnt", Counter, false),
    (HttpFailRate, "http_fail_rate", Rate, false),
    (Gpt, "gpt", Counter, true),
    (Gpc, "gpc", Counter, true),
    (GpcRate, "gpc_rate", Rate, true),
    (GlitchCnt, "glitch_cnt", Counter, false),
    (GlitchRate, "glitch_rate", Rate, false),
];

impl DataType {
    /// All kinds, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = DataType> {
        TABLE.iter().map(|row| row.0)
    }

    /// The kind with this number in the peers protocol.
    pub fn from_number(number: u64) -> Option<DataType> {
        TABLE.get(usize::try_from(number).ok()?).map(|row| row.0)
    }

    /// The kind that `store` and the CLI call so.
    pub fn from_name(name: &str) -> Option<DataType> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// What `store` and the CLI call it.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// How it is kept.
    pub const fn shape(self) -> Shape {
        TABLE[self as usize].2
    }

    /// True for `gpt()`, `gpc()` and `gpc_rate()`.
    pub const fn is_array(self) -> bool {
        TABLE[self as usize].3
    }

    /// The array whose first element stands for this kind where it is stored in its place: `gpc` for `gpc0`.
    pub const fn array(self) -> Option<(DataType, u16)> {
        match self {
            Gpt0 => Some((Gpt, 0)),
            Gpc0 => Some((Gpc, 0)),
            Gpc1 => Some((Gpc, 1)),
            Gpc0Rate => Some((GpcRate, 0)),
            Gpc1Rate => Some((GpcRate, 1)),
            _ => None,
        }
    }

    /// True when a table cannot store both.
    pub fn excludes(self, other: DataType) -> bool {
        self.array().is_some_and(|(array, _)| array == other)
            || other.array().is_some_and(|(array, _)| array == self)
    }

    /// True for bytes per period, which `brates-factor` scales.
    pub const fn is_byte_rate(self) -> bool {
        matches!(self, BytesInRate | BytesOutRate)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What happens to whoever tracks an entry, and is counted there. No kind of these is an element of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    /// A connection or a stream begins to track it.
    Tracked = 0,
    /// A stream of HTTP does: that is a request, too.
    TrackedByRequest,
    /// A session that tracks it began.
    Session,
    /// A request came on a connection that tracks it.
    Request,
    /// A request was the client's fault.
    ClientFault,
    /// A server failed.
    ServerFault,
    /// A client broke the rules of its protocol: so often.
    Glitches,
    /// A stream is over: the bytes that the client sent.
    BytesIn,
    /// The same: the bytes that came from a server.
    BytesOut,
}

/// Number of events.
pub const EVENTS: usize = 9;

impl Event {
    pub(crate) const ALL: [Event; EVENTS] = [
        Event::Tracked,
        Event::TrackedByRequest,
        Event::Session,
        Event::Request,
        Event::ClientFault,
        Event::ServerFault,
        Event::Glitches,
        Event::BytesIn,
        Event::BytesOut,
    ];

    /// The kinds it adds to.
    pub(crate) const fn kinds(self) -> &'static [DataType] {
        match self {
            Event::Tracked => &[ConnCnt, ConnRate, ConnCur],
            Event::TrackedByRequest => &[ConnCnt, ConnRate, ConnCur, HttpReqCnt, HttpReqRate],
            Event::Session => &[SessCnt, SessRate],
            Event::Request => &[HttpReqCnt, HttpReqRate],
            Event::ClientFault => &[HttpErrCnt, HttpErrRate],
            Event::ServerFault => &[HttpFailCnt, HttpFailRate],
            Event::Glitches => &[GlitchCnt, GlitchRate],
            Event::BytesIn => &[BytesInCnt, BytesInRate],
            Event::BytesOut => &[BytesOutCnt, BytesOutRate],
        }
    }
}

/// One kind of data as a table stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Which.
    pub kind: DataType,
    /// Elements: 1 but for arrays, at most [`ELEMENTS_MAX`].
    pub count: u16,
    /// The period of a rate in milliseconds; 0 for what is no rate.
    pub period_ms: u32,
}

impl Stored {
    /// A counter, tag or name.
    pub const fn one(kind: DataType) -> Stored {
        Stored { kind, count: 1, period_ms: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_positions() {
        for (i, kind) in DataType::all().enumerate() {
            assert_eq!(kind as usize, i);
            assert_eq!(DataType::from_number(i as u64), Some(kind));
            assert_eq!(DataType::from_name(kind.name()), Some(kind));
        }
        assert_eq!(DataType::from_number(27), None);
        assert_eq!(DataType::from_name("gpc2"), None);
    }

    #[test]
    fn events_are_in_their_order_and_count_no_arrays() {
        for (i, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, i);
            assert!(event.kinds().iter().all(|kind| kind.array().is_none()));
        }
    }

    #[test]
    fn arrays_take_the_place_of_their_old_names() {
        assert!(Gpc.excludes(Gpc1) && Gpc1.excludes(Gpc) && !Gpc.excludes(Gpc0Rate) && !Gpc0.excludes(Gpc1));
    }
}
