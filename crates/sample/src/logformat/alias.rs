//! The aliases of log formats: short names for facts of a stream.

use super::emit::Emitter;
use crate::context::{CachedDate, Ctx};
use crate::facts::{Endpoint, Responder, StreamFacts, Timers};
use crate::fetch::connection::destination;
use crate::fetch::http::split_request_line;
use std::io::Write as _;
use thalweg_http::date::civil;
use thalweg_http::uri;

macro_rules! aliases {
    ($($variant:ident $name:literal $doc:literal;)*) => {
        /// One alias.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Alias { $($variant,)* }

        /// Every alias: its name and what it prints.
        pub static ALIASES: &[(&str, Alias, &str)] = &[$(($name, Alias::$variant, $doc),)*];
    };
}

aliases! {
    ServerBytes "B" "bytes from the server to the client";
    RequestCookie "CC" "the captured request cookie";
    ResponseCookie "CS" "the captured response cookie";
    Hostname "H" "the name of this host";
    Method "HM" "the request's method";
    UriNoQuery "HP" "the request's target without its query";
    Path "HPO" "the request's path";
    Query "HQ" "the request's query with its question mark";
    Uri "HU" "the request's target";
    Version "HV" "the request's version";
    UniqueId "ID" "the unique identifier";
    Origin "OG" "where the log line comes from";
    Status "ST" "the status";
    DateUtc "T" "the accept date, UTC";
    ActiveTime "Ta" "Ta, ms";
    ConnectTime "Tc" "Tc, ms";
    DataTime "Td" "Td, ms";
    HandshakeTime "Th" "Th, ms";
    IdleTime "Ti" "Ti, ms";
    DateLocal "Tl" "the accept date, local";
    RequestTime "Tq" "Tq, ms";
    HeaderTime "TR" "TR, ms";
    ResponseTime "Tr" "Tr, ms";
    DateUnix "Ts" "the accept date, in seconds since 1970";
    TotalTime "Tt" "Tt, ms";
    UserTime "Tu" "Tu, ms";
    QueueTime "Tw" "Tw, ms";
    ClientBytes "U" "bytes from the client to the server";
    ActiveConnections "ac" "connections on the process";
    Backend "b" "the backend's name";
    BackendConnections "bc" "connections on the backend";
    BackendIp "bi" "the address connected from";
    BackendPort "bp" "the port connected from";
    BackendQueue "bq" "requests that were before in the backend's queue";
    ClientIp "ci" "the client's address";
    ClientPort "cp" "the client's port";
    Frontend "f" "the frontend's name";
    FrontendConnections "fc" "connections on the frontend";
    FrontendIp "fi" "the address the client connected to";
    FrontendPort "fp" "the port the client connected to";
    FrontendTransport "ft" "the frontend's name, with a tilde if it does TLS";
    RequestHeaders "hr" "captured request headers";
    RequestHeaderList "hrl" "captured request headers, one by one";
    ResponseHeaders "hs" "captured response headers";
    ResponseHeaderList "hsl" "captured response headers, one by one";
    LogCounter "lc" "the frontend's log counter";
    Milliseconds "ms" "the milliseconds of the accept date";
    Pid "pid" "the process's identifier";
    RequestLine "r" "the request line";
    Retries "rc" "connection retries";
    RequestCounter "rt" "the stream's number";
    Server "s" "the server's name";
    ServerConnections "sc" "connections on the server";
    ServerIp "si" "the address connected to";
    ServerPort "sp" "the port connected to";
    ServerQueue "sq" "requests that were before in the server's queue";
    TlsCipher "sslc" "the TLS cipher";
    TlsVersion "sslv" "the TLS version";
    DateMs "t" "the accept date, local, with milliseconds";
    RequestDateMs "tr" "the request's date, local, with milliseconds";
    RequestDateUtc "trg" "the request's date, UTC";
    RequestDateLocal "trl" "the request's date, local";
    State "ts" "the termination state";
    StateCookies "tsc" "the termination state with cookies";
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const BAD_REQUEST: &[u8] = b"<BADREQ>";

/// A line of text short enough for the stack: dates and addresses.
struct Line {
    bytes: [u8; 64],
    len: usize,
}

impl Line {
    fn new(text: std::fmt::Arguments) -> Line {
        let mut line = Line { bytes: [0; 64], len: 0 };
        let mut room = &mut line.bytes[..];
        let _ = room.write_fmt(text);
        let left = room.len();
        line.len = 64 - left;
        line
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A date: with milliseconds, or with the offset from UTC (`offset_s`, which the date is moved by).
fn date(cx: &Ctx, wall_us: i64, offset_s: i32, ms: bool) -> ([u8; 32], usize) {
    let seconds = wall_us.div_euclid(1_000_000) + i64::from(offset_s);
    let mut text = [0u8; 32];
    text[..20].copy_from_slice(&date_to_seconds(cx, seconds));
    let two = |n: u32| [b'0' + (n / 10 % 10) as u8, b'0' + (n % 10) as u8];
    if ms {
        let ms = (wall_us.rem_euclid(1_000_000) / 1000) as u32;
        text[20] = b'.';
        text[21] = b'0' + (ms / 100) as u8;
        text[22..24].copy_from_slice(&two(ms % 100));
        (text, 24)
    } else {
        let minutes = offset_s.unsigned_abs() / 60;
        text[20] = b' ';
        text[21] = if offset_s < 0 { b'-' } else { b'+' };
        text[22..24].copy_from_slice(&two(minutes / 60));
        text[24..26].copy_from_slice(&two(minutes % 60));
        (text, 26)
    }
}

/// `14/Nov/2023:22:13:20`, from the cache when this second was formatted before.
fn date_to_seconds(cx: &Ctx, seconds: i64) -> [u8; 20] {
    let cached = cx.scratch.dates.get();
    if let Some(known) = cached.iter().find(|d| d.seconds == seconds && d.text[0] != 0) {
        return known.text;
    }
    let d = civil(seconds);
    let month = MONTHS[usize::from(d.month.wrapping_sub(1)) % 12];
    let year = d.year.clamp(0, 9999);
    let line = Line::new(format_args!(
        "{:02}/{month}/{year:04}:{:02}:{:02}:{:02}",
        d.day, d.hour, d.minute, d.second
    ));
    let mut text = [b' '; 20];
    let len = line.bytes().len().min(20);
    text[..len].copy_from_slice(&line.bytes()[..len]);
    cx.scratch.dates.set([CachedDate { seconds, text }, cached[0]]);
    text
}

fn endpoint_ip(emitter: &mut Emitter, end: Endpoint) {
    match end {
        Endpoint::Unknown => emitter.missing(),
        Endpoint::Unix => emitter.text(b"unix"),
        Endpoint::Inet(addr) => match addr.ip() {
            // As other numbers in hexadecimal, it gets no quotes.
            std::net::IpAddr::V4(ip) if emitter.hex() => emitter.int_or_hex(ip.to_bits().into(), 8),
            std::net::IpAddr::V6(ip) if emitter.hex() => {
                emitter.text(Line::new(format_args!("{:032X}", ip.to_bits())).bytes());
            }
            std::net::IpAddr::V4(ip) => {
                // Four small numbers: written by hand, as this is in every line.
                let mut text = [0u8; 15];
                let mut len = 0;
                for (i, octet) in ip.octets().into_iter().enumerate() {
                    if i > 0 {
                        text[len] = b'.';
                        len += 1;
                    }
                    for (limit, div) in [(100, 100), (10, 10), (0, 1)] {
                        if octet >= limit {
                            text[len] = b'0' + octet / div % 10;
                            len += 1;
                        }
                    }
                }
                emitter.text(&text[..len]);
            }
            std::net::IpAddr::V6(ip) => {
                let mut buf = [0u8; 64];
                let mut out = crate::context::Out::new(&mut buf);
                crate::cast::write_ip6(&mut out, ip);
                emitter.text(out.as_slice());
            }
        },
    }
}

fn endpoint_port(emitter: &mut Emitter, end: Endpoint, cx: &Ctx) {
    match end {
        Endpoint::Unknown => emitter.missing(),
        Endpoint::Unix => emitter.int_or_hex(cx.world.listener_number(cx.session.listener).into(), 4),
        Endpoint::Inet(addr) => emitter.int_or_hex(addr.port().into(), 4),
    }
}

impl Alias {
    /// The alias named `name`.
    pub fn by_name(name: &str) -> Option<Alias> {
        ALIASES.iter().find(|(known, ..)| *known == name).map(|(_, alias, _)| *alias)
    }

    /// Writes the fact. Without a stream, what only a stream has is missing.
    /// In one piece, as it is the list of facts.
    pub(super) fn emit(self, cx: &mut Ctx, out: &mut Emitter) {
        if self == Alias::UniqueId {
            let mark = cx.mark();
            match super::unique_id(cx) {
                Some(text) => out.text(cx.text(text)),
                None => out.missing(),
            }
            cx.release(mark);
            return;
        }
        let cx = &*cx;
        let world = cx.world;
        let Some(stream) = cx.stream.as_deref() else { return self.emit_session(cx, out) };
        let now = cx.clock.mono_us;
        let early = stream.log_early;
        let timers = &stream.timers;
        match self {
            Alias::ActiveTime => out.int(timers.ta(now), early),
            Alias::ConnectTime => out.int(timers.tc(), false),
            Alias::DataTime => out.int(timers.td(now, stream.is_http), false),
            Alias::HandshakeTime => out.int(timers.th(), false),
            Alias::IdleTime => out.int(timers.ti(), false),
            Alias::RequestTime => out.int(timers.tq(), false),
            Alias::HeaderTime => out.int(timers.t_r_request(), false),
            Alias::ResponseTime => out.int(timers.tr(), false),
            Alias::TotalTime => out.int(timers.tt(now), early),
            Alias::UserTime => out.int(timers.tu(now), early),
            Alias::QueueTime => out.int(timers.tw(), false),
            Alias::ServerBytes => out.int(stream.res_bytes_in as i64, early),
            Alias::ClientBytes => out.int(stream.req_bytes_in as i64, false),
            // A stream that is none of HTTP has 0 there, one of HTTP without an answer -1.
            Alias::Status => out.int(if stream.is_http { stream.status.into() } else { 0 }, false),
            Alias::ActiveConnections => out.int(stream.counts.process.into(), false),
            Alias::FrontendConnections => out.int(stream.counts.frontend.into(), false),
            Alias::BackendConnections => out.int(stream.counts.backend.into(), false),
            Alias::ServerConnections => out.int(stream.counts.server.into(), false),
            Alias::Retries => out.int(stream.retries.into(), stream.redispatched),
            Alias::ServerQueue => out.int(stream.srv_queue_pos.into(), false),
            Alias::BackendQueue => out.int(stream.be_queue_pos.into(), false),
            Alias::RequestCounter => out.int_or_hex(stream.id.into(), 4),
            Alias::LogCounter => out.int(stream.log_counter as i64, false),
            Alias::Backend => out.text(world.proxy_name(stream.backend).as_bytes()),
            Alias::Server => match (stream.server, stream.responder) {
                (Some(server), _) => world.with_server_name(server, &mut |name| out.text(name.as_bytes())),
                (None, Responder::Server) => out.text(b"<NOSRV>"),
                (None, Responder::Stats) => out.text(b"<STATS>"),
                (None, Responder::Cache) => out.text(b"<CACHE>"),
                (None, Responder::Service(name)) => out.text(name.as_bytes()),
            },
            Alias::BackendIp => endpoint_ip(out, stream.bc_src),
            Alias::BackendPort => endpoint_port(out, stream.bc_src, cx),
            Alias::ServerIp => endpoint_ip(out, stream.bc_dst),
            Alias::ServerPort => endpoint_port(out, stream.bc_dst, cx),
            Alias::RequestCookie => out.text(stream.captured_cookie.as_deref().unwrap_or(b"")),
            Alias::ResponseCookie => out.text(stream.captured_set_cookie.as_deref().unwrap_or(b"")),
            Alias::RequestHeaders
            | Alias::ResponseHeaders
            | Alias::RequestHeaderList
            | Alias::ResponseHeaderList => {
                let request = matches!(self, Alias::RequestHeaders | Alias::RequestHeaderList);
                let captures = if request { &stream.req_captures } else { &stream.res_captures };
                let values = (0..captures.len()).map(|i| captures.at(i));
                match self {
                    _ if captures.is_empty() => out.absent(),
                    Alias::RequestHeaders | Alias::ResponseHeaders => out.captures(values),
                    _ => out.capture_list(values),
                }
            }
            Alias::State | Alias::StateCookies => {
                let t = stream.termination;
                let state = [t.cause, t.phase, t.cookie_in, t.cookie_out];
                out.word(if self == Alias::State { &state[..2] } else { &state });
            }
            Alias::Origin => out.text(stream.log_origin.name().as_bytes()),
            Alias::RequestLine
            | Alias::Method
            | Alias::Uri
            | Alias::UriNoQuery
            | Alias::Path
            | Alias::Query
            | Alias::Version => self.emit_request(stream, out),
            Alias::RequestDateMs | Alias::RequestDateUtc | Alias::RequestDateLocal => {
                let wall = match timers.request_wall_us {
                    0 => timers.accept_wall_us,
                    wall => wall,
                };
                self.emit_date(cx, out, wall);
            }
            _ => self.emit_session(cx, out),
        }
    }

    /// Facts that need no stream.
    /// In one piece, as it is the list of facts.
    fn emit_session(self, cx: &Ctx, out: &mut Emitter) {
        let world = cx.world;
        let none = Timers::default();
        let timers = cx.stream.as_deref().map(|s| &s.timers);
        let wall = timers.map_or(cx.session.accept_wall_us, |t| t.accept_wall_us);
        match self {
            Alias::Hostname => out.text(world.hostname().as_bytes()),
            Alias::Pid => out.int_or_hex(world.pid().into(), 4),
            Alias::ClientIp => endpoint_ip(out, cx.source()),
            Alias::ClientPort => endpoint_port(out, cx.source(), cx),
            Alias::FrontendIp => endpoint_ip(out, destination(cx)),
            Alias::FrontendPort => endpoint_port(out, destination(cx), cx),
            Alias::Frontend | Alias::Backend => out.text(world.proxy_name(cx.session.frontend).as_bytes()),
            Alias::FrontendTransport => {
                let name = world.proxy_name(cx.session.frontend).as_bytes();
                if world.listener_is_tls(cx.session.listener) {
                    let mut marked = name.to_vec();
                    marked.push(b'~');
                    out.pieces(&marked);
                } else {
                    out.pieces(name);
                }
            }
            Alias::Server => out.text(b"<NOSRV>"),
            Alias::TlsCipher | Alias::TlsVersion => match &cx.session.rare().tls {
                None => out.missing(),
                Some(tls) if self == Alias::TlsCipher => out.text(tls.known.cipher_name().as_bytes()),
                Some(tls) if tls.known.version == 0 => out.missing(),
                Some(tls) => out.text(tls.known.protocol().as_bytes()),
            },
            Alias::RequestCookie | Alias::ResponseCookie => out.missing(),
            Alias::BackendIp | Alias::BackendPort | Alias::ServerIp | Alias::ServerPort => out.missing(),
            Alias::DateUnix => out.int_or_hex(wall.div_euclid(1_000_000), 4),
            Alias::Milliseconds => {
                let ms = wall.rem_euclid(1_000_000) / 1000;
                if out.hex() {
                    out.int_or_hex(ms, 2)
                } else {
                    out.word(Line::new(format_args!("{ms:03}")).bytes())
                }
            }
            Alias::DateUtc
            | Alias::DateLocal
            | Alias::DateMs
            | Alias::RequestDateMs
            | Alias::RequestDateUtc
            | Alias::RequestDateLocal => self.emit_date(cx, out, wall),
            Alias::State => out.word(b"--"),
            Alias::StateCookies => out.word(b"----"),
            Alias::Origin => out.text(b"unspec"),
            Alias::RequestLine
            | Alias::Method
            | Alias::Uri
            | Alias::UriNoQuery
            | Alias::Path
            | Alias::Query
            | Alias::Version => out.uri(BAD_REQUEST),
            Alias::HandshakeTime => out.int(i64::from(cx.session.handshake_us / 1000), false),
            Alias::TotalTime | Alias::ActiveTime | Alias::UserTime => {
                out.int((cx.clock.mono_us.saturating_sub(cx.session.accept_mono_us) / 1000) as i64, false);
            }
            Alias::ActiveConnections => out.int(world.active_connections().into(), false),
            Alias::FrontendConnections => {
                out.int(world.proxy_figures(cx.session.frontend).conn.into(), false)
            }
            Alias::Status => out.int(0, false),
            Alias::ServerBytes
            | Alias::ClientBytes
            | Alias::Retries
            | Alias::ServerQueue
            | Alias::BackendQueue
            | Alias::BackendConnections
            | Alias::ServerConnections
            | Alias::RequestCounter
            | Alias::LogCounter => out.int(0, false),
            Alias::RequestHeaders
            | Alias::RequestHeaderList
            | Alias::ResponseHeaders
            | Alias::ResponseHeaderList => {
                out.absent();
            }
            Alias::ConnectTime
            | Alias::DataTime
            | Alias::IdleTime
            | Alias::RequestTime
            | Alias::HeaderTime
            | Alias::ResponseTime
            | Alias::QueueTime => out.int(none.tc(), false),
            Alias::UniqueId => out.missing(),
        }
    }

    fn emit_date(self, cx: &Ctx, out: &mut Emitter, wall_us: i64) {
        let utc = matches!(self, Alias::DateUtc | Alias::RequestDateUtc);
        let ms = matches!(self, Alias::DateMs | Alias::RequestDateMs);
        let offset = if utc { 0 } else { cx.world.local_offset(wall_us.div_euclid(1_000_000)) };
        let (text, len) = date(cx, wall_us, offset, ms);
        out.word(&text[..len]);
    }

    /// Parts of the request line as it was received.
    fn emit_request(self, stream: &StreamFacts, out: &mut Emitter) {
        let line = &stream.request_line[..];
        if self == Alias::RequestLine {
            return out.uri(if line.is_empty() { BAD_REQUEST } else { line });
        }
        let Some(parts) = split_request_line(line) else { return out.uri(BAD_REQUEST) };
        match self {
            Alias::Method => out.uri(parts.method),
            Alias::Version => out.uri(parts.version),
            Alias::Path => out.uri(uri::path(parts.target)),
            Alias::Uri => out.uri(parts.target),
            _ => {
                let mark = memchr::memchr(b'?', parts.target).unwrap_or(parts.target.len());
                let (before, query) = parts.target.split_at(mark);
                out.uri(if self == Alias::Query { query } else { before });
            }
        }
    }
}
