//! The framing rules of HTTP/1, in one place (RFC 9112 sections 6 and 9, RFC 9110 sections 6 to 9).
//!
//! How long a body is, whether a connection may be used again, whether a message begins a tunnel: every
//! part of the proxy asks here. [`accept_request`] and [`accept_response`] judge a head as it was
//! received, take out of it what must not be forwarded (a `Content-Length` beside a
//! `Transfer-Encoding`, repeated equal lengths, the tokens of `Connection` that concern this hop), and
//! return the [`Framing`] that was decided. Where the RFC leaves a choice, the reference's is taken.

pub use crate::digits::decimal;
use std::fmt;

use crate::ascii::trim_ows;
use crate::head::Head;
use crate::header_id::HeaderId;
use crate::method::{Method, Version};
use crate::strict;
use crate::values::{list, list_with_empty};

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyLength {
    /// There is no body: the message ends with its head.
    #[default]
    None,
    /// Exactly this many bytes.
    Sized(u64),
    /// Chunks, then optional trailers (RFC 9112 section 7.1).
    Chunked,
    /// All that comes until the peer closes. Only responses.
    UntilClose,
    /// Not a body: from here on the connection carries another protocol in both directions.
    Tunnel,
}

/// What was decided about a received message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Framing {
    /// How the end of the body is found.
    pub body: BodyLength,
    /// Whether the connection the message came on may carry another message after this one.
    pub keep_alive: bool,
    /// Whether the message asks for, or agrees to, another protocol (`Connection: upgrade`).
    pub upgrade: bool,
    /// Whether the other protocol is WebSocket (RFC 6455).
    pub websocket: bool,
    /// Whether the sender waits for a `100 Continue` before it sends the body.
    pub expect_continue: bool,
    /// Whether the sender accepts trailers in the response (`TE: trailers`).
    pub trailers: bool,
    /// Whether the scheme `http` was named beside the target, as HTTP/2 does.
    pub clear_scheme: bool,
    /// Whether the message was framed in two ways at once or in a way its version does not have: it is
    /// sanitised, and the connection must not be used again (RFC 9112 section 6.1).
    pub insecure: bool,
}

/// How kindly a message is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// `option accept-unsafe-violations-in-http-request` for requests, `-response` for responses: what breaks the
    /// rules and does not change where a message ends is let through.
    Relaxed,
    /// As the reference does without options.
    #[default]
    Compatible,
    /// `option http-strict`: nothing that breaks a rule is let through.
    Strict,
}

/// What a proxy's configuration relaxes or forbids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramingPolicy {
    /// How kindly messages are read.
    pub strictness: Strictness,
    /// `h1-accept-payload-with-any-method`.
    pub payload_with_any_method: bool,
    /// `h1-do-not-close-on-insecure-transfer-encoding`.
    pub keep_insecure: bool,
}

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ViolationKind {
    /// A `Content-Length` that is not a number (RFC 9110 section 8.6).
    BadContentLength,
    /// Two different lengths (RFC 9112 section 6.3).
    ConflictingContentLength,
    /// A `Transfer-Encoding` that does not end with `chunked`, or names it twice, or has an empty
    /// element (RFC 9112 section 6.1).
    BadTransferEncoding,
    /// A coding besides `chunked`, which the proxy cannot remove (RFC 9112 section 6.1).
    UnsupportedTransferCoding,
    /// A body on an HTTP/1.0 `GET`, `HEAD` or `DELETE`, which some servers do not read.
    UnexpectedPayload,
    /// Several `Host` fields that differ (RFC 9112 section 3.2).
    ConflictingHost,
    /// A `Host` that is not a host and port (RFC 9110 section 7.2).
    BadHost,
    /// A `Host` that is not that of the target (RFC 9112 section 3.2.2).
    HostMismatch,
    /// A target whose form does not go with the method (RFC 9112 section 3.2).
    BadTarget,
    /// The beginning of a connection of HTTP/2 (RFC 9113 section 3.4), where only HTTP/1 is spoken.
    Preface,
    /// A WebSocket request without a proper key (RFC 6455 section 4.1).
    BadWebsocketKey,
    /// Strict: a `CONNECT` (RFC 9110 section 9.3.6).
    NoTunnel,
    /// Strict: an HTTP/1.1 request without `Host` (RFC 9112 section 3.2).
    MissingHost,
    /// Strict: several `Host` fields, even if they are equal (RFC 9112 section 3.2).
    RepeatedHost,
    /// Strict: a length given twice (RFC 9110 section 8.6).
    RepeatedContentLength,
    /// Strict: a `Content-Length` beside a `Transfer-Encoding` (RFC 9112 section 6.3).
    LengthAndCoding,
    /// Strict: a control character in a value or a reason (RFC 9110 section 5.5).
    ControlCharacter,
    /// A `101` that does not say `Connection: upgrade`, or does not prove that it read the WebSocket key.
    BadUpgrade,
}

/// A refused message: why, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Why.
    pub kind: ViolationKind,
    /// Offset in bytes from the start of the message.
    pub offset: u32,
}

impl ViolationKind {
    /// The status a client gets for it. A response with a violation is always answered with 502.
    pub fn status(self) -> u16 {
        match self {
            Self::Preface => 405,
            Self::UnexpectedPayload => 413,
            Self::UnsupportedTransferCoding => 422,
            _ => 400,
        }
    }
}

impl fmt::Display for ViolationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadContentLength => "the content-length is not a number",
            Self::ConflictingContentLength => "two content-lengths differ",
            Self::BadTransferEncoding => "the transfer-encoding does not end with one 'chunked'",
            Self::UnsupportedTransferCoding => "the transfer-encoding has a coding besides 'chunked'",
            Self::UnexpectedPayload => "an HTTP/1.0 GET, HEAD or DELETE has a payload",
            Self::ConflictingHost => "two host fields differ",
            Self::BadHost => "the host field is not a host name and port",
            Self::HostMismatch => "the host field is not that of the target",
            Self::Preface => "it is the preface of HTTP/2, which is not spoken here",
            Self::BadTarget => "the form of the target does not go with the method",
            Self::BadWebsocketKey => "the WebSocket key is missing or malformed",
            Self::NoTunnel => "a CONNECT where no tunnel is made",
            Self::MissingHost => "an HTTP/1.1 request has no host field",
            Self::RepeatedHost => "there are two host fields",
            Self::RepeatedContentLength => "there are two content-lengths",
            Self::LengthAndCoding => "there is a content-length beside a transfer-encoding",
            Self::ControlCharacter => "a header value has a control character",
            Self::BadUpgrade => "the answer to the upgrade is malformed",
        })
    }
}

/// Judges a received HTTP/1 request and takes out of it what is not to be forwarded.
///
/// # Errors
/// The first [`Violation`] found; the head is then only good for a log line.
pub fn accept_request(head: &mut Head, policy: FramingPolicy) -> Result<Framing, Violation> {
    if policy.strictness != Strictness::Strict {
        return judge_request(head, policy);
    }
    // Judged as it came; but what is refused anyway is refused for the same reason as without the option.
    let strict = strict::request(head);
    let framing = judge_request(head, policy)?;
    strict.map(|()| framing)
}

fn judge_request(head: &mut Head, policy: FramingPolicy) -> Result<Framing, Violation> {
    let relaxed = policy.strictness == Strictness::Relaxed;
    crate::target::accept(head, relaxed)?;
    let length = content_length(head)?;
    let chunked = transfer_encoding(head, relaxed, true)?;
    let version = head.version();
    let connection = connection(head);
    let mut framing = Framing {
        keep_alive: connection.keeps(version),
        trailers: te(head),
        expect_continue: version.is_11_or_later()
            && head.value(HeaderId::Expect).is_some_and(|v| v.eq_ignore_ascii_case(b"100-continue")),
        ..Framing::default()
    };
    framing.body = match (chunked, length) {
        (true, length) => {
            let mixed = length.is_some();
            if mixed {
                head.remove_id(HeaderId::ContentLength);
            }
            // An HTTP/1.0 agent does not know of chunks: whoever forwarded this may have seen another
            // message than the one we see.
            if (mixed && !policy.keep_insecure) || !version.is_11_or_later() {
                framing.insecure = true;
                framing.keep_alive = false;
            }
            BodyLength::Chunked
        }
        (false, Some(0)) | (false, None) => BodyLength::None,
        (false, Some(length)) => BodyLength::Sized(length),
    };
    if framing.body != BodyLength::None
        && !version.is_11_or_later()
        && !policy.payload_with_any_method
        && matches!(head.method(), Method::Get | Method::Head | Method::Delete)
    {
        return Err(violation(ViolationKind::UnexpectedPayload, head.method_span().off));
    }
    if head.method() == Method::Connect {
        // What follows is for the tunnel, if one is made. A length on the request has no meaning
        // (RFC 9110 section 9.3.6), and whoever gave it one does not agree with us on where the tunnel
        // begins.
        head.remove_id(HeaderId::ContentLength);
        head.remove_id(HeaderId::TransferEncoding);
        if framing.body != BodyLength::None {
            framing.insecure = true;
            framing.keep_alive = false;
        }
        framing.body = BodyLength::Tunnel;
    }
    settle_upgrade(head, connection, true, &mut framing);
    if framing.websocket && !relaxed {
        let key = head.get(HeaderId::SecWebsocketKey);
        if !key.is_some_and(|key| is_websocket_key(key.value)) {
            return Err(violation(ViolationKind::BadWebsocketKey, key.map_or(0, |key| key.value_span.off)));
        }
    }
    settle_connection(head, connection, framing.upgrade);
    head.set_framing(framing);
    Ok(framing)
}

/// Judges a received HTTP/1 response to a request with this method, and takes out of it what is not to
/// be forwarded. `upgrade` says whether the request asked for another protocol, `websocket` whether that
/// was WebSocket.
///
/// # Errors
/// The first [`Violation`] found; the client gets a 502.
pub fn accept_response(
    head: &mut Head,
    request: &RequestContext,
    policy: FramingPolicy,
) -> Result<Framing, Violation> {
    if policy.strictness != Strictness::Strict {
        return judge_response(head, request, policy);
    }
    let strict = strict::response(head);
    let framing = judge_response(head, request, policy)?;
    strict.map(|()| framing)
}

fn judge_response(
    head: &mut Head,
    request: &RequestContext,
    policy: FramingPolicy,
) -> Result<Framing, Violation> {
    let relaxed = policy.strictness == Strictness::Relaxed;
    let length = content_length(head)?;
    let chunked = transfer_encoding(head, relaxed, false)?;
    let version = head.version();
    let status = head.status();
    let connection = connection(head);
    let mut framing = Framing { keep_alive: connection.keeps(version), ..Framing::default() };
    if chunked {
        let mixed = length.is_some();
        if mixed {
            head.remove_id(HeaderId::ContentLength);
        }
        if (mixed && !policy.keep_insecure) || !version.is_11_or_later() {
            framing.insecure = true;
            framing.keep_alive = false;
        }
    }
    framing.body = match status {
        101 => {
            if !request.upgrade || !connection.upgrade {
                return Err(violation(ViolationKind::BadUpgrade, 0));
            }
            BodyLength::Tunnel
        }
        _ if request.method == Method::Connect && (200..300).contains(&status) => BodyLength::Tunnel,
        100..=199 | 204 => BodyLength::None,
        304 => BodyLength::None,
        _ if request.method == Method::Head => BodyLength::None,
        _ if chunked => BodyLength::Chunked,
        _ => match length {
            Some(0) => BodyLength::None,
            Some(length) => BodyLength::Sized(length),
            None => BodyLength::UntilClose,
        },
    };
    match framing.body {
        // These have no body by their status, so a length would be a lie to whoever believes it
        // (RFC 9110 sections 8.6 and 9.3.6, RFC 9112 section 6.1). HEAD and 304 keep theirs: it
        // describes the body a GET would have got.
        BodyLength::Tunnel => {
            head.remove_id(HeaderId::ContentLength);
            head.remove_id(HeaderId::TransferEncoding);
        }
        BodyLength::None if status < 200 || status == 204 => {
            head.remove_id(HeaderId::ContentLength);
            head.remove_id(HeaderId::TransferEncoding);
        }
        BodyLength::UntilClose => framing.keep_alive = false,
        _ => {}
    }
    te(head);
    settle_upgrade(head, connection, false, &mut framing);
    framing.upgrade &= connection.upgrade;
    // A response keeps its `Connection: upgrade` even when the protocol offered was taken out.
    framing.upgrade |= connection.upgrade;
    if status == 101
        && (request.websocket || framing.websocket)
        && !relaxed
        && !head.has(HeaderId::SecWebsocketAccept)
    {
        return Err(violation(ViolationKind::BadUpgrade, 0));
    }
    settle_connection(head, connection, framing.upgrade);
    head.set_framing(framing);
    Ok(framing)
}

/// Judges a received trailer section. Fields that say how to frame, route or keep the message or its
/// connection come too late to do so, and are taken out (RFC 9110 section 6.5.1): a next hop that merges
/// trailers into the head must not find them there. A malformed length or coding is refused.
///
/// # Errors
/// The first [`Violation`] found.
pub fn accept_trailers(head: &mut Head, policy: FramingPolicy) -> Result<(), Violation> {
    if policy.strictness == Strictness::Strict {
        strict::fields(head)?;
    }
    content_length(head)?;
    transfer_encoding(head, false, true)?;
    head.retain(|field| {
        !matches!(
            field.id,
            HeaderId::ContentLength
                | HeaderId::TransferEncoding
                | HeaderId::Host
                | HeaderId::Connection
                | HeaderId::KeepAlive
                | HeaderId::ProxyConnection
                | HeaderId::Upgrade
                | HeaderId::Te
                | HeaderId::Trailer
        )
    });
    Ok(())
}

/// What the framing of a response depends on in its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestContext {
    /// The method that was sent to the server.
    pub method: Method,
    /// Whether the request that was sent asked for another protocol.
    pub upgrade: bool,
    /// Whether that protocol was WebSocket.
    pub websocket: bool,
}

impl RequestContext {
    /// The context of a request that was accepted.
    pub fn of(head: &Head) -> Self {
        let framing = head.framing();
        Self { method: head.method(), upgrade: framing.upgrade, websocket: framing.websocket }
    }
}

/// What becomes of request fields whose names have other characters than letters, digits and hyphens
/// (`option http-restrict-req-hdr-names`). Some servers read `X_Forwarded_For` and `X-Forwarded-For` as
/// one, so that whoever filters only the latter is passed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamePolicy {
    /// They are forwarded.
    #[default]
    Preserve,
    /// They are removed.
    Delete,
    /// The request is answered with 403.
    Reject,
}

impl NamePolicy {
    /// Applies the policy to a request, after all rules were evaluated. `false` when the request is to be
    /// rejected.
    #[must_use]
    pub fn apply(self, head: &mut Head) -> bool {
        let is_plain = |name: &[u8]| name.iter().all(|&b| crate::ascii::is_plain_name_byte(b));
        match self {
            Self::Preserve => true,
            Self::Delete => {
                head.retain(|field| field.id != HeaderId::Other || is_plain(field.name));
                true
            }
            Self::Reject => head.fields().all(|field| field.id != HeaderId::Other || is_plain(field.name)),
        }
    }
}

/// The `Connection` option to put on a message of version `sent`, so that a peer of version `peer`
/// understands that the connection is kept or not (RFC 9112 section 9.3). Persistence is the default
/// from HTTP/1.1 on, so most messages need none.
pub fn connection_option(sent: Version, peer: Version, keep_alive: bool) -> Option<&'static [u8]> {
    match (keep_alive, sent.is_11_or_later()) {
        (true, true) if peer.is_11_or_later() => None,
        (true, _) => Some(b"keep-alive"),
        (false, true) => Some(b"close"),
        (false, false) => None,
    }
}

/// Takes `close` and `keep-alive` out of the `Connection` of a response that rules may have changed, and says whether `close`
/// was there: the sender says its own.
#[inline]
pub fn take_connection_options(head: &mut Head) -> bool {
    if !head.has(HeaderId::Connection) {
        return false;
    }
    let connection = connection(head);
    settle_connection(head, connection, true);
    connection.close
}

/// Whether a response with this status to a request with this method can have a body
/// (RFC 9110 section 6.4.1).
pub fn may_have_body(method: Method, status: u16) -> bool {
    method != Method::Head && status >= 200 && status != 204 && status != 304
}

/// Whether a response is followed by another one to the same request (RFC 9110 section 15.2).
/// `101` is final: what follows is another protocol.
pub fn is_interim(status: u16) -> bool {
    (100..200).contains(&status) && status != 101
}

fn violation(kind: ViolationKind, offset: u32) -> Violation {
    Violation { kind, offset }
}

/// Checks all lengths, keeps one field with one number, and returns the number.
#[inline]
fn content_length(head: &mut Head) -> Result<Option<u64>, Violation> {
    if !head.had(HeaderId::ContentLength) {
        return Ok(None);
    }
    // Nearly every message: one field, one number without a needless zero.
    let usual = head.only(HeaderId::ContentLength).map(|field| field.value);
    if let Some([b'1'..=b'9', ..] | b"0") = usual
        && let Some(length) = usual.and_then(parse_length)
    {
        return Ok(Some(length));
    }
    lengths(head)
}

fn lengths(head: &mut Head) -> Result<Option<u64>, Violation> {
    let Some(first) = head.get(HeaderId::ContentLength) else { return Ok(None) };
    let (index, span) = (first.index, first.value_span);
    let mut length = None;
    for field in head.get_all(HeaderId::ContentLength) {
        // A list has at least one element, and none of its elements is empty.
        for element in field.value.split(|&b| b == b',') {
            let Some(number) = parse_length(trim_ows(element)) else {
                return Err(violation(ViolationKind::BadContentLength, field.value_span.off));
            };
            if length.is_some_and(|length| length != number) {
                return Err(violation(ViolationKind::ConflictingContentLength, field.value_span.off));
            }
            length = Some(number);
        }
    }
    let Some(length) = length else {
        return Err(violation(ViolationKind::BadContentLength, span.off));
    };
    let mut next = index + 1;
    while let Some(again) = head.get_from(HeaderId::ContentLength, next).map(|field| field.index) {
        head.remove(again);
        next = again + 1;
    }
    let mut digits = [0u8; 20];
    let digits = decimal(length, &mut digits);
    if head.field(index).is_some_and(|field| field.value != digits) {
        // The number is never longer than what it replaces.
        head.shrink_value(index, digits);
    }
    Ok(Some(length))
}

/// A decimal number without sign, white space or overflow.
pub fn parse_length(bytes: &[u8]) -> Option<u64> {
    /// So many digits are below 2^64 in any case.
    const SAFE: usize = 19;
    let (safe, rest) = bytes.split_at_checked(SAFE).unwrap_or((bytes, b""));
    let digit = |byte: u8| Some(byte.wrapping_sub(b'0')).filter(|digit| *digit <= 9).map(u64::from);
    let mut number = digit(*safe.first()?)?;
    for &byte in &safe[1..] {
        number = number * 10 + digit(byte)?;
    }
    for &byte in rest {
        number = number.checked_mul(10)?.checked_add(digit(byte)?)?;
    }
    Some(number)
}

/// Whether the body is chunked. `Err` for everything but one final `chunked`.
#[inline]
fn transfer_encoding(head: &mut Head, accept_unsafe: bool, request: bool) -> Result<bool, Violation> {
    if head.had(HeaderId::TransferEncoding) { codings(head, accept_unsafe, request) } else { Ok(false) }
}

fn codings(head: &mut Head, accept_unsafe: bool, request: bool) -> Result<bool, Violation> {
    let Some(first) = head.get(HeaderId::TransferEncoding) else { return Ok(false) };
    let (index, offset) = (first.index, first.value_span.off);
    // Nearly every message that has one.
    if first.value == b"chunked" && head.get_from(HeaderId::TransferEncoding, index + 1).is_none() {
        return Ok(true);
    }
    let relaxed = accept_unsafe && !request;
    let (mut chunked, mut other) = (false, false);
    for field in head.get_all(HeaderId::TransferEncoding) {
        for coding in list_with_empty(field.value) {
            let bad = Err(violation(ViolationKind::BadTransferEncoding, field.value_span.off));
            if coding.is_empty() {
                if !relaxed {
                    return bad;
                }
            } else if coding.eq_ignore_ascii_case(b"chunked") {
                if chunked && !relaxed {
                    return bad;
                }
                chunked = true;
            } else if chunked {
                return bad;
            } else {
                other = true;
            }
        }
    }
    match (chunked, other) {
        (true, true) => Err(violation(ViolationKind::UnsupportedTransferCoding, offset)),
        (true, false) => {
            // Spelled as everyone spells it, once, so that the next hop reads the same.
            let place = head
                .get_all(HeaderId::TransferEncoding)
                .find(|field| field.value.len() >= b"chunked".len())
                .map(|field| field.index);
            let mut next = 0;
            while let Some(at) = head.get_from(HeaderId::TransferEncoding, next).map(|field| field.index) {
                next = at + 1;
                if Some(at) == place {
                    head.shrink_value(at, b"chunked");
                } else {
                    head.remove(at);
                }
            }
            Ok(true)
        }
        (false, false) if relaxed => {
            head.remove_id(HeaderId::TransferEncoding);
            Ok(false)
        }
        (false, _) => Err(violation(ViolationKind::BadTransferEncoding, offset)),
    }
}

/// The options of all `Connection` fields that concern this hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Connection {
    present: bool,
    close: bool,
    keep_alive: bool,
    upgrade: bool,
    /// Whether there is any option that does not concern this hop.
    other: bool,
}

impl Connection {
    fn keeps(self, version: Version) -> bool {
        !self.close && (version.is_11_or_later() || self.keep_alive)
    }
}

#[inline]
fn connection(head: &Head) -> Connection {
    let absent = Connection::default();
    if !head.had(HeaderId::Connection) {
        return absent;
    }
    // How nearly everyone writes it.
    match head.only(HeaderId::Connection).map(|field| field.value) {
        Some(b"keep-alive") => Connection { present: true, keep_alive: true, ..absent },
        Some(b"close") => Connection { present: true, close: true, ..absent },
        _ => connection_options(head),
    }
}

fn connection_options(head: &Head) -> Connection {
    let mut found = Connection::default();
    for field in head.get_all(HeaderId::Connection) {
        found.present = true;
        for option in list(field.value) {
            match option.len() {
                5 if option.eq_ignore_ascii_case(b"close") => found.close = true,
                10 if option.eq_ignore_ascii_case(b"keep-alive") => found.keep_alive = true,
                7 if option.eq_ignore_ascii_case(b"upgrade") => found.upgrade = true,
                _ => found.other = true,
            }
        }
    }
    found
}

/// Removes an `Upgrade` that nothing refers to, and the upgrade to clear-text HTTP/2, which RFC 9113
/// withdrew and which would let a client speak past the proxy.
///
/// A response may name protocols without offering to change to one, so there it stays.
#[inline]
fn settle_upgrade(head: &mut Head, connection: Connection, request: bool, framing: &mut Framing) {
    if head.had(HeaderId::Upgrade) {
        settle_protocols(head, connection, request, framing);
    }
}

fn settle_protocols(head: &mut Head, connection: Connection, request: bool, framing: &mut Framing) {
    if request && !connection.upgrade {
        head.remove_id(HeaderId::Upgrade);
        return;
    }
    let is_h2 =
        |protocol: &[u8]| protocol.eq_ignore_ascii_case(b"h2c") || protocol.eq_ignore_ascii_case(b"h2");
    let mut next = 0;
    while let Some(field) = head.get_from(HeaderId::Upgrade, next) {
        let index = field.index;
        next = index + 1;
        let (mut h2, mut named) = (false, false);
        for protocol in list(field.value) {
            if is_h2(protocol) {
                h2 = true;
            } else {
                named = true;
                framing.websocket |= protocol.eq_ignore_ascii_case(b"websocket");
            }
        }
        framing.upgrade |= named;
        if !named {
            head.remove(index);
        } else if h2 {
            head.retain_elements(index, |protocol| !is_h2(protocol));
        }
    }
}

/// Takes `close`, `keep-alive` and an idle `upgrade` out of `Connection`: the sender of each side says
/// its own.
#[inline]
fn settle_connection(head: &mut Head, connection: Connection, upgrade: bool) {
    if !connection.present {
        return;
    }
    let kept = connection.other || (connection.upgrade && upgrade);
    if !kept {
        head.remove_id(HeaderId::Connection);
        return;
    }
    settle_connection_options(head, upgrade);
}

fn settle_connection_options(head: &mut Head, upgrade: bool) {
    let mut next = 0;
    while let Some(field) = head.get_from(HeaderId::Connection, next) {
        let index = field.index;
        next = index + 1;
        let ours = |option: &[u8]| {
            option.eq_ignore_ascii_case(b"close")
                || option.eq_ignore_ascii_case(b"keep-alive")
                || (option.eq_ignore_ascii_case(b"upgrade") && !upgrade)
        };
        let mut kept = false;
        let mut dropped = false;
        for option in list(field.value) {
            if ours(option) {
                dropped = true;
            } else {
                kept = true;
            }
        }
        if !kept {
            head.remove(index);
        } else if dropped {
            head.retain_elements(index, |option| !ours(option));
        }
    }
}

/// Reduces `TE` to `trailers`, the only thing in it that a proxy can promise, and says whether it is
/// there.
#[inline]
fn te(head: &mut Head) -> bool {
    head.had(HeaderId::Te) && settle_te(head)
}

fn settle_te(head: &mut Head) -> bool {
    let mut keep = None;
    for field in head.get_all(HeaderId::Te) {
        if keep.is_none() && list(field.value).any(|coding| coding.eq_ignore_ascii_case(b"trailers")) {
            keep = Some(field.index);
        }
    }
    let mut next = 0;
    while let Some(index) = head.get_from(HeaderId::Te, next).map(|field| field.index) {
        next = index + 1;
        if Some(index) == keep {
            head.shrink_value(index, b"trailers");
        } else {
            head.remove(index);
        }
    }
    keep.is_some()
}

/// Whether a key has the length of 16 bytes in base64 (RFC 6455 section 4.1). The server looks at the rest.
fn is_websocket_key(key: &[u8]) -> bool {
    key.len() == 24
}
