//! What can be traced: sources, their events, what a trace may keep to, and how much it tells.
//!
//! Names are those of the reference where it has the same thing; an event that nothing here tells of is not in the tables.

/// Something that a source tells of: a bit of a set, by its position in the source's table.
pub type Events = u64;

/// A part of the program that tells what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Source {
    /// HTTP/2 messages, of clients and servers.
    H2,
    /// HTTP/1 messages, of clients and servers.
    H1,
    /// Handshakes of TLS with clients.
    Ssl,
    /// Requests and TCP connections, from their start to their end.
    Stream,
    /// Health checks.
    Check,
    /// Connections of clients.
    Session,
}

/// How many sources there are.
pub const SOURCES: usize = 6;

impl Source {
    /// Every source, in the order of their numbers.
    pub const ALL: [Source; SOURCES] =
        [Source::H2, Source::H1, Source::Ssl, Source::Stream, Source::Check, Source::Session];

    /// Its names.
    pub fn info(self) -> &'static Info {
        &INFOS[self as usize]
    }

    /// The source of a name.
    pub fn named(name: &str) -> Option<Source> {
        Source::ALL.into_iter().find(|source| source.info().name == name)
    }
}

/// What people read of something that commands can name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// How commands name it.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
}

const fn named(name: &'static str, about: &'static str) -> Named {
    Named { name, about }
}

/// What a source is called and has.
#[derive(Debug)]
pub struct Info {
    pub name: &'static str,
    pub about: &'static str,
    pub events: &'static [Named],
    /// What it may be locked on, besides nothing.
    pub criteria: &'static [Criterion],
    /// How far its lines may go into details, the first one apart.
    pub verbosities: &'static [Named],
}

/// What a trace may keep to, once an event began it: whatever else happens is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Criterion {
    Backend,
    Check,
    Frontend,
    Listener,
    Server,
    Session,
    Stream,
    Thread,
}

/// How many criteria there are.
pub const CRITERIA: usize = 8;

impl Criterion {
    /// How commands name it.
    pub fn name(self) -> &'static str {
        match self {
            Criterion::Backend => "backend",
            Criterion::Check => "check",
            Criterion::Frontend => "frontend",
            Criterion::Listener => "listener",
            Criterion::Server => "server",
            Criterion::Session => "session",
            Criterion::Stream => "stream",
            Criterion::Thread => "thread",
        }
    }
}

/// How important a line is: a trace tells those up to its own level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    Error,
    User,
    Proto,
    State,
    Data,
    Developer,
}

impl Level {
    /// Every level, in their order.
    pub const ALL: [Level; 6] =
        [Level::Error, Level::User, Level::Proto, Level::State, Level::Data, Level::Developer];

    /// What people read of it.
    pub fn info(self) -> Named {
        match self {
            Level::Error => named("error", "report errors"),
            Level::User => named("user", "also information useful to the end user"),
            Level::Proto => named("proto", "also protocol-level updates"),
            Level::State => named("state", "also report internal state changes"),
            Level::Data => named("data", "also report data transfers"),
            Level::Developer => named("developer", "also report information useful only to the developer"),
        }
    }
}

/// How far a line goes into details, as a position in a source's list.
pub mod verbosity {
    /// The message alone.
    pub const QUIET: usize = 0;
    /// Whose it is, too. What a source has by default.
    pub const CLEAN: usize = 1;
    /// The first line of messages, too.
    pub const SIMPLE: usize = 3;
    /// Their fields, too.
    pub const ADVANCED: usize = 4;
}

const QUIET: Named = named("quiet", "only report basic information with no decoding");

/// Of sources whose lines say either what there is to say or not.
static ONE_VERBOSITY: &[Named] = &[QUIET, named("default", "report extra information when available")];

/// Of sources that see messages, in the order of [`verbosity`].
static VERBOSITIES: &[Named] = &[
    QUIET,
    named("clean", "also whose it is"),
    named("minimal", "the same"),
    named("simple", "also request and response lines"),
    named("advanced", "also header fields"),
    named("complete", "the same"),
];

/// Events of [`Source::H2`].
pub mod h2 {
    use super::{Events, Named, named};

    pub const RX_HEADERS: Events = 1;
    pub const TX_HEADERS: Events = 1 << 1;

    /// Any frame.
    pub const RX_FRAME: Events = 1 << 20;
    /// The same, to the peer.
    pub const TX_FRAME: Events = 1 << 21;

    /// The events of a frame by its number (RFC 9113 section 6).
    pub fn of_frame(number: u8, sent: bool) -> Events {
        let own = match number {
            0 => 1 << 2,
            1 => RX_HEADERS,
            2..=9 => 1 << (2 * number),
            _ => 0,
        };
        if sent { own << 1 | TX_FRAME } else { own | RX_FRAME }
    }

    pub(super) static EVENTS: &[Named] = &[
        named("rx_hdr", "receipt of H2 HEADERS frame"),
        named("tx_hdr", "transmission of H2 HEADERS frame"),
        named("rx_data", "receipt of H2 DATA frame"),
        named("tx_data", "transmission of H2 DATA frame"),
        named("rx_prio", "receipt of H2 PRIORITY frame"),
        named("tx_prio", "transmission of H2 PRIORITY frame"),
        named("rx_rst", "receipt of H2 RST_STREAM frame"),
        named("tx_rst", "transmission of H2 RST_STREAM frame"),
        named("rx_settings", "receipt of H2 SETTINGS frame"),
        named("tx_settings", "transmission of H2 SETTINGS frame"),
        named("rx_push", "receipt of H2 PUSH_PROMISE frame"),
        named("tx_push", "transmission of H2 PUSH_PROMISE frame"),
        named("rx_ping", "receipt of H2 PING frame"),
        named("tx_ping", "transmission of H2 PING frame"),
        named("rx_goaway", "receipt of H2 GOAWAY frame"),
        named("tx_goaway", "transmission of H2 GOAWAY frame"),
        named("rx_wu", "receipt of H2 WINDOW_UPDATE frame"),
        named("tx_wu", "transmission of H2 WINDOW_UPDATE frame"),
        named("rx_cont", "receipt of H2 CONTINUATION frame"),
        named("tx_cont", "transmission of H2 CONTINUATION frame"),
        named("rx_frame", "receipt of any H2 frame"),
        named("tx_frame", "transmission of any H2 frame"),
    ];
}

/// Events of [`Source::H1`].
pub mod h1 {
    use super::{Events, Named, named};

    pub const ERROR: Events = 1;
    pub const RX_HEADERS: Events = 1 << 1;
    pub const TX_HEADERS: Events = 1 << 2;

    pub(super) static EVENTS: &[Named] = &[
        named("h1c_err", "error on H1 connection"),
        named("rx_headers", "receipt of H1 headers"),
        named("tx_headers", "transmission of all headers"),
    ];
}

/// Events of [`Source::Ssl`].
pub mod ssl {
    use super::{Events, Named, named};

    pub const NEW: Events = 1;
    pub const ERROR: Events = 1 << 1;
    pub const HANDSHAKE: Events = 1 << 2;

    pub(super) static EVENTS: &[Named] = &[
        named("sslc_new", "new SSL connection"),
        named("sslc_err", "SSL error"),
        named("sslc_hndshk", "SSL handshake"),
    ];
}

/// Events of [`Source::Stream`].
pub mod stream {
    use super::{Events, Named, named};

    pub const NEW: Events = 1;
    pub const FREE: Events = 1 << 1;
    pub const ERROR: Events = 1 << 2;
    pub const ANALYSIS: Events = 1 << 3;
    pub const CONNECTOR: Events = 1 << 4;

    pub(super) static EVENTS: &[Named] = &[
        named("strm_new", "new stream"),
        named("strm_free", "release stream"),
        named("strm_err", "error during stream processing"),
        named("strm_ana", "stream analyzers"),
        named("sc_state", "processing connector states"),
    ];
}

/// Events of [`Source::Check`].
pub mod check {
    use super::{Events, Named, named};

    pub const START: Events = 1;
    pub const END: Events = 1 << 1;
    pub const SUCCESS: Events = 1 << 2;
    pub const FAILURE: Events = 1 << 3;

    pub(super) static EVENTS: &[Named] = &[
        named("hchck_start", "Health-check started"),
        named("hchck_end", "Health-check terminated"),
        named("hchck_succ", "Health-check success"),
        named("hchck_err", "Health-check failure"),
    ];
}

/// Events of [`Source::Session`].
pub mod session {
    use super::{Events, Named, named};

    pub const NEW: Events = 1;
    pub const END: Events = 1 << 1;

    pub(super) static EVENTS: &[Named] =
        &[named("sess_new", "new session creation"), named("sess_end", "session termination")];
}

use Criterion as C;

static INFOS: [Info; SOURCES] = [
    Info {
        name: "h2",
        about: "HTTP/2 multiplexer",
        events: h2::EVENTS,
        criteria: &[C::Backend, C::Frontend, C::Listener, C::Server, C::Session, C::Stream, C::Thread],
        verbosities: VERBOSITIES,
    },
    Info {
        name: "h1",
        about: "HTTP/1 multiplexer",
        events: h1::EVENTS,
        criteria: &[C::Backend, C::Frontend, C::Listener, C::Server, C::Session, C::Stream, C::Thread],
        verbosities: VERBOSITIES,
    },
    Info {
        name: "ssl",
        about: "SSL xprt",
        events: ssl::EVENTS,
        criteria: &[C::Frontend, C::Listener, C::Session, C::Thread],
        verbosities: VERBOSITIES,
    },
    Info {
        name: "stream",
        about: "Applicative stream",
        events: stream::EVENTS,
        criteria: &[C::Backend, C::Frontend, C::Listener, C::Server, C::Session, C::Stream, C::Thread],
        verbosities: VERBOSITIES,
    },
    Info {
        name: "check",
        about: "Health-check",
        events: check::EVENTS,
        criteria: &[C::Backend, C::Check, C::Server, C::Thread],
        verbosities: VERBOSITIES,
    },
    Info {
        name: "session",
        about: "client session management",
        events: session::EVENTS,
        criteria: &[C::Frontend, C::Listener, C::Session, C::Thread],
        verbosities: ONE_VERBOSITY,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_where_its_number_says() {
        for (position, source) in Source::ALL.into_iter().enumerate() {
            assert_eq!(source as usize, position);
            assert_eq!(Source::named(source.info().name), Some(source));
            assert!(source.info().events.len() < Events::BITS as usize);
        }
        assert_eq!(Criterion::Thread as usize + 1, CRITERIA);
    }

    #[test]
    fn every_frame_has_the_event_of_its_name() {
        let kinds = ["data", "hdr", "prio", "rst", "settings", "push", "ping", "goaway", "wu", "cont"];
        for (number, kind) in (0..).zip(kinds) {
            for (sent, way) in [(false, "rx"), (true, "tx")] {
                let name = h2::EVENTS[h2::of_frame(number, sent).trailing_zeros() as usize].name;
                assert_eq!(name, format!("{way}_{kind}"));
            }
        }
        assert_eq!([h2::of_frame(10, false), h2::of_frame(255, true)], [h2::RX_FRAME, h2::TX_FRAME]);
    }

    #[test]
    fn every_event_has_the_name_of_its_bit() {
        let bits = [
            (Source::H2, h2::TX_FRAME, "tx_frame"),
            (Source::H1, h1::TX_HEADERS, "tx_headers"),
            (Source::Ssl, ssl::HANDSHAKE, "sslc_hndshk"),
            (Source::Stream, stream::CONNECTOR, "sc_state"),
            (Source::Check, check::FAILURE, "hchck_err"),
            (Source::Session, session::END, "sess_end"),
        ];
        for (source, bit, name) in bits {
            let last = source.info().events.len() - 1;
            assert_eq!((bit, source.info().events[last].name), (1 << last, name));
        }
    }
}
