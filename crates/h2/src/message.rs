//! Header lists and heads: what a list of fields means as a message, and how a head is written as one (RFC 9113
//! sections 8.2 and 8.3, RFC 8441).
//!
//! A list is judged completely before anything else sees it: what gets through is a message that can be written in
//! HTTP/1 form without any byte of it being read as something else.

use thalweg_http::authority::Authority;
use thalweg_http::semantics::{BodyLength, Framing};
use thalweg_http::{Head, HeaderId, Method, RewriteError, Version, ViolationKind};

use crate::hpack::{Encoder, Name, Pseudo, Sink};

/// Why a header list is not a message. Each but the last two is a stream error of type PROTOCOL_ERROR (RFC 9113 section
/// 8.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A name with upper case, or with characters that a name may not have.
    Name,
    /// A value with characters that a value may not have.
    Value,
    /// A pseudo-header field that is unknown, or does not belong into this kind of message.
    UnknownPseudo,
    /// A pseudo-header field twice.
    RepeatedPseudo,
    /// A pseudo-header field behind a field, or in a trailer section.
    LatePseudo,
    /// A pseudo-header field that must be there is missing, or must not be there beside another.
    MissingPseudo,
    /// A field that HTTP/2 does not have (RFC 9113 section 8.2.2).
    ConnectionSpecific,
    /// A method, scheme, path or status that is none.
    Control,
    /// The authority is none, or is another than that of the `host` field.
    Authority,
    /// A length that is no number, or two that differ.
    ContentLength,
    /// A request with a method or a scheme that is none: well-formed as a list, and no request in any version of HTTP. It is
    /// answered with 400.
    Request,
    /// More fields or octets than are allowed. The message may be good; it is answered with 431 or 502.
    TooLarge,
}

/// What a list of fields is expected to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// A request. `connect_protocol`: extended CONNECT was offered (RFC 8441).
    #[allow(missing_docs)]
    Request { connect_protocol: bool },
    /// A response.
    Response,
    /// A trailer section.
    Trailers,
}

/// Reads one header list into a head.
pub struct Reader<'a> {
    head: &'a mut Head,
    scratch: &'a mut Scratch,
    expect: Expect,
    fields_max: usize,
    fields: usize,
    /// Octets that the list may still have, by the RFC's way of counting (RFC 9113 section 6.5.2).
    room: usize,
    /// Octets that came, whether they had room or not.
    decoded: usize,
    seen: u8,
    status: u16,
    error: Option<Malformed>,
}

/// Memory that is used again from list to list.
#[derive(Default)]
pub struct Scratch {
    /// Pseudo-header fields, one after the other.
    control: Vec<u8>,
    spans: [(u32, u32); 6],
    /// All cookies, joined (RFC 9113 section 8.2.3).
    cookies: Vec<u8>,
    target: Vec<u8>,
}

impl Scratch {
    /// A pseudo-header field, if it is among those `seen`.
    fn control(&self, seen: u8, pseudo: Pseudo) -> Option<&[u8]> {
        let (start, end) = self.spans[pseudo as usize];
        (seen & bit(pseudo) != 0).then(|| self.control.get(start as usize..end as usize)).flatten()
    }
}

const fn bit(pseudo: Pseudo) -> u8 {
    1 << pseudo as u8
}

const METHOD: u8 = bit(Pseudo::Method);
const SCHEME: u8 = bit(Pseudo::Scheme);
const PATH: u8 = bit(Pseudo::Path);
const AUTHORITY: u8 = bit(Pseudo::Authority);
const PROTOCOL: u8 = bit(Pseudo::Protocol);
const STATUS: u8 = bit(Pseudo::Status);

/// What RFC 7541 section 4.1 adds to each field.
const FIELD_OVERHEAD: usize = 32;

impl<'a> Reader<'a> {
    /// Reads into `head`, which is cleared first. At most `fields_max` fields and `list_max` octets, by the RFC's way of
    /// counting, are taken.
    pub fn new(
        head: &'a mut Head,
        scratch: &'a mut Scratch,
        expect: Expect,
        fields_max: usize,
        list_max: usize,
    ) -> Reader<'a> {
        head.clear();
        scratch.control.clear();
        scratch.cookies.clear();
        Reader {
            head,
            scratch,
            expect,
            fields_max,
            fields: 0,
            room: list_max,
            decoded: 0,
            seen: 0,
            status: 0,
            error: None,
        }
    }

    /// Octets of the list so far, by the RFC's way of counting.
    pub fn decoded(&self) -> usize {
        self.decoded
    }

    fn fail(&mut self, error: Malformed) {
        self.error.get_or_insert(error);
    }

    fn pseudo(&mut self, pseudo: Pseudo, value: &[u8]) {
        let belongs = match self.expect {
            Expect::Request { connect_protocol } => match pseudo {
                Pseudo::Status => false,
                Pseudo::Protocol => connect_protocol,
                _ => true,
            },
            Expect::Response => pseudo == Pseudo::Status,
            Expect::Trailers => false,
        };
        if !belongs {
            return self.fail(match self.expect {
                Expect::Trailers => Malformed::LatePseudo,
                _ => Malformed::UnknownPseudo,
            });
        }
        if self.seen & bit(pseudo) != 0 {
            return self.fail(Malformed::RepeatedPseudo);
        }
        if self.fields > 0 {
            return self.fail(Malformed::LatePseudo);
        }
        self.seen |= bit(pseudo);
        if pseudo == Pseudo::Status {
            return match value {
                [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
                    let digit = |d: &u8| u16::from(*d - b'0');
                    self.status = digit(a) * 100 + digit(b) * 10 + digit(c);
                }
                _ => self.fail(Malformed::Control),
            };
        }
        let control = &mut self.scratch.control;
        let start = control.len() as u32;
        control.extend_from_slice(value);
        self.scratch.spans[pseudo as usize] = (start, control.len() as u32);
    }

    fn ordinary(&mut self, id: HeaderId, name: &[u8], value: &[u8]) {
        if self.fields == 0
            && let Err(error) = self.host()
        {
            return self.fail(error);
        }
        self.fields += 1;
        if self.fields > self.fields_max {
            return self.fail(Malformed::TooLarge);
        }
        match id {
            HeaderId::Connection
            | HeaderId::ProxyConnection
            | HeaderId::KeepAlive
            | HeaderId::TransferEncoding
            | HeaderId::Upgrade => return self.fail(Malformed::ConnectionSpecific),
            HeaderId::Te if !value.eq_ignore_ascii_case(b"trailers") => {
                return self.fail(Malformed::ConnectionSpecific);
            }
            // Where the message ends, and for whom it is, was decided long ago.
            // It says what `:authority` says, whatever it said itself (RFC 9113 section 8.3.1).
            HeaderId::Host if self.seen & AUTHORITY != 0 => return,
            HeaderId::ContentLength | HeaderId::Host if self.expect == Expect::Trailers => {
                return self.fail(Malformed::ConnectionSpecific);
            }
            HeaderId::Trailer | HeaderId::Te if self.expect == Expect::Trailers => return,
            HeaderId::Cookie if matches!(self.expect, Expect::Request { .. }) => {
                let cookies = &mut self.scratch.cookies;
                if !cookies.is_empty() {
                    cookies.extend_from_slice(b"; ");
                }
                cookies.extend_from_slice(value);
                return;
            }
            _ => {}
        }
        let value = thalweg_http::ascii::trim_ows(value);
        let pushed = match id {
            HeaderId::Other => self.head.push(name, value).map(drop),
            // Its name is known, and needs no look.
            id => self.head.push_id(id, value),
        };
        match pushed {
            Ok(()) => {}
            Err(RewriteError::TooLarge) => self.fail(Malformed::TooLarge),
            Err(RewriteError::Invalid) => self.fail(Malformed::Value),
        }
    }

    /// Judges the list. `ends` says that the message has no body. On success the head is complete, with its framing.
    ///
    /// # Errors
    /// The first [`Malformed`] found; the head is then only good for a log line.
    pub fn finish(mut self, ends: bool) -> Result<Message, Malformed> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let extended = match self.expect {
            Expect::Trailers => return Ok(Message::default()),
            Expect::Response => self.response()?,
            Expect::Request { .. } => self.request()?,
        };
        let length = content_length(self.head)?;
        let tunnel = extended || (self.head.is_request() && self.head.method() == Method::Connect);
        let body = match (ends, length) {
            (_, _) if tunnel => BodyLength::Tunnel,
            // What was announced is whole, whenever its stream ends.
            (true, _) | (false, Some(0)) => BodyLength::None,
            (false, Some(length)) => BodyLength::Sized(length),
            // The stream's end is the body's end, as that of the last chunk is.
            (false, None) => BodyLength::Chunked,
        };
        if tunnel {
            // It has no meaning where no message follows (RFC 9110 section 9.3.6), and a server of HTTP/1 would take what comes
            // next on its connection for a body.
            self.head.remove_id(HeaderId::ContentLength);
        }
        if !self.head.is_request() && (self.head.status() < 200 || self.head.status() == 204) {
            // These have no body by their status, so a length would be a lie to whoever believes it (RFC 9110 section 8.6).
            self.head.remove_id(HeaderId::ContentLength);
        }
        let expects = |id, value: &[u8]| self.head.value(id).is_some_and(|v| v.eq_ignore_ascii_case(value));
        let framing = Framing {
            body,
            keep_alive: true,
            upgrade: extended,
            websocket: extended && self.control(Pseudo::Protocol) == Some(b"websocket"),
            expect_continue: self.head.is_request() && !ends && expects(HeaderId::Expect, b"100-continue"),
            trailers: expects(HeaderId::Te, b"trailers"),
            clear_scheme: self.control(Pseudo::Scheme) == Some(b"http"),
            insecure: false,
        };
        self.head.set_framing(framing);
        Ok(Message { length: length.filter(|_| !tunnel), extended_connect: extended })
    }

    fn control(&self, pseudo: Pseudo) -> Option<&[u8]> {
        self.scratch.control(self.seen, pseudo)
    }

    fn response(&mut self) -> Result<bool, Malformed> {
        if self.seen != STATUS {
            return Err(Malformed::MissingPseudo);
        }
        if self.status == 101 {
            // RFC 9113 section 8.6.
            return Err(Malformed::Control);
        }
        self.head.start_response(Version::HTTP_2, self.status, None).map_err(rewrite)?;
        Ok(false)
    }

    /// Returns whether it is an extended CONNECT, which then reads as the HTTP/1 request that asks for the same.
    fn request(&mut self) -> Result<bool, Malformed> {
        let method = self.control(Pseudo::Method).ok_or(Malformed::MissingPseudo)?;
        let is_connect = method == b"CONNECT";
        let extended = self.seen & PROTOCOL != 0;
        let needed = match (is_connect, extended) {
            (true, false) => METHOD | AUTHORITY,
            (true, true) => METHOD | AUTHORITY | SCHEME | PATH | PROTOCOL,
            (false, true) => return Err(Malformed::MissingPseudo),
            (false, false) => METHOD | SCHEME | PATH | (self.seen & AUTHORITY),
        };
        if self.seen != needed {
            return Err(Malformed::MissingPseudo);
        }
        let authority = self.control(Pseudo::Authority).unwrap_or(b"");
        let parts = thalweg_http::authority::split(authority);
        if self.seen & AUTHORITY != 0 && !is_authority(authority, &parts) {
            return Err(Malformed::Authority);
        }
        // Nobody's name, a host, no port that a scheme may imply, and a path: target and host are made of these, so that there is
        // nothing to be judged or normalised.
        let is_plain = self.seen & AUTHORITY != 0
            && !is_connect
            && parts.userinfo.is_none()
            && parts.port.is_none_or(|port| !matches!(port, b"" | b"80" | b"443"))
            && self.control(Pseudo::Path).is_some_and(|path| path.first() == Some(&b'/'));
        let mut target = std::mem::take(&mut self.scratch.target);
        target.clear();
        let built = self.target(is_connect && !extended, &mut target);
        let done = built.and_then(|()| {
            let method = self.scratch.control(self.seen, Pseudo::Method).filter(|_| !extended);
            let method = method.unwrap_or(b"GET");
            if !thalweg_http::ascii::is_token(method) || method == b"PRI" {
                return Err(Malformed::Request);
            }
            self.head.start_request(method, &target, Version::HTTP_2).map_err(rewrite)
        });
        self.scratch.target = target;
        done?;
        if self.fields == 0 {
            self.host()?;
        }
        if !self.scratch.cookies.is_empty() {
            self.head.push(b"cookie", &self.scratch.cookies).map_err(rewrite)?;
        }
        if extended {
            let protocol = self.scratch.control(self.seen, Pseudo::Protocol).unwrap_or(b"");
            // Clear-text HTTP/2 is not what one may change to here (RFC 9113 section 3.1).
            if !thalweg_http::ascii::is_token(protocol) || matches!(protocol, b"h2c" | b"h2") {
                return Err(Malformed::Control);
            }
            self.head.push(b"connection", b"upgrade").map_err(rewrite)?;
            self.head.push(b"upgrade", protocol).map_err(rewrite)?;
        }
        if !is_plain {
            // Agreement of target and host, ports that the scheme implies: the same judge as for HTTP/1.
            thalweg_http::target::accept(self.head, false).map_err(|violation| match violation.kind {
                ViolationKind::HostMismatch | ViolationKind::BadHost | ViolationKind::ConflictingHost => {
                    Malformed::Authority
                }
                _ => Malformed::Control,
            })?;
        }
        if is_connect && !extended {
            // The default port of a scheme says nothing where there is no scheme.
            let authority = self.scratch.control(self.seen, Pseudo::Authority).unwrap_or(b"");
            self.head.set(b"host", authority).map_err(rewrite)?;
        }
        Ok(extended)
    }

    /// The target in absolute form, as a proxy receives it in HTTP/1; in origin form without an authority.
    fn target(&self, bare_authority: bool, target: &mut Vec<u8>) -> Result<(), Malformed> {
        let authority = self.control(Pseudo::Authority).unwrap_or(b"");
        if bare_authority {
            target.extend_from_slice(authority);
            return Ok(());
        }
        let scheme = self.control(Pseudo::Scheme).unwrap_or(b"");
        let path = self.control(Pseudo::Path).unwrap_or(b"");
        let [first, rest @ ..] = scheme else { return Err(Malformed::Request) };
        let is_scheme = first.is_ascii_alphabetic()
            && rest.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
        if !is_scheme {
            return Err(Malformed::Request);
        }
        let method = self.control(Pseudo::Method);
        if path == b"*" && method == Some(b"PRI") {
            // Judged with the method.
            target.extend_from_slice(path);
            return Ok(());
        }
        let asterisk = path == b"*" && method == Some(b"OPTIONS");
        // A fragment is for the user agent alone; one that gets here would hide what follows it from a rule or a server
        // (RFC 9113 section 8.3.1).
        if (path.first() != Some(&b'/') && !asterisk) || path.contains(&b'#') {
            return Err(Malformed::Control);
        }
        if !authority.is_empty() {
            target.extend_from_slice(scheme);
            target.extend_from_slice(b"://");
            target.extend_from_slice(authority);
            if asterisk {
                // The server as a whole has no path in this form (RFC 9110 section 7.1).
                return Ok(());
            }
        }
        target.extend_from_slice(path);
        Ok(())
    }

    /// Puts the `host` field in front of all others, once the pseudo-header fields are known.
    fn host(&mut self) -> Result<(), Malformed> {
        match self.scratch.control(self.seen, Pseudo::Authority) {
            Some(authority) => self.head.push_id(HeaderId::Host, authority).map_err(rewrite),
            None => Ok(()),
        }
    }
}

impl Sink for Reader<'_> {
    fn field(&mut self, kind: Name, name: &[u8], value: &[u8], clean: bool) {
        let octets = name.len() + value.len() + FIELD_OVERHEAD;
        self.decoded = self.decoded.saturating_add(octets);
        if self.error.is_some() {
            return;
        }
        match self.room.checked_sub(octets) {
            Some(room) => self.room = room,
            None => return self.fail(Malformed::TooLarge),
        }
        match kind {
            Name::Malformed => self.fail(Malformed::Name),
            Name::UnknownPseudo => self.fail(Malformed::UnknownPseudo),
            _ if !clean => self.fail(Malformed::Value),
            Name::Pseudo(pseudo) => self.pseudo(pseudo, value),
            Name::Field(id) => self.ordinary(id, name, value),
        }
    }
}

fn rewrite(error: RewriteError) -> Malformed {
    match error {
        RewriteError::TooLarge => Malformed::TooLarge,
        RewriteError::Invalid => Malformed::Control,
    }
}

/// Whether this is one host and perhaps a port. Stricter than for HTTP/1, where old clients send odd ones.
fn is_authority(authority: &[u8], parts: &Authority<'_>) -> bool {
    let one_host = parts.host.first() == Some(&b'[') || !parts.host.contains(&b':');
    !authority.is_empty()
        && one_host
        && parts.port.is_none_or(|port| port.iter().all(u8::is_ascii_digit))
        && thalweg_http::authority::is_host(authority)
}

/// One number, which all `content-length` fields and all of their elements agree on; it is left in one field.
fn content_length(head: &mut Head) -> Result<Option<u64>, Malformed> {
    let mut length = None;
    for field in head.get_all(HeaderId::ContentLength) {
        for element in field.value.split(|b| *b == b',') {
            let digits = element.trim_ascii();
            if digits.is_empty() || digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) {
                return Err(Malformed::ContentLength);
            }
            let number = digits.iter().fold(0u64, |n, d| n * 10 + u64::from(d - b'0'));
            if length.replace(number).is_some_and(|other| other != number) {
                return Err(Malformed::ContentLength);
            }
        }
    }
    let Some(length) = length else { return Ok(None) };
    let single = {
        let mut all = head.get_all(HeaderId::ContentLength);
        all.next().is_some_and(|f| !f.value.contains(&b',')) && all.next().is_none()
    };
    if !single {
        head.set(b"content-length", length.to_string().as_bytes()).map_err(rewrite)?;
    }
    Ok(Some(length))
}

/// What a header list said besides the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The length that the sender announced for the body.
    pub length: Option<u64>,
    /// It was an extended CONNECT, and the head is that of the HTTP/1 upgrade that asks for the same.
    pub extended_connect: bool,
}

/// Fields that are of one connection, or stand in pseudo-header fields.
fn is_forwarded(id: HeaderId, request: bool) -> bool {
    match id {
        HeaderId::Connection
        | HeaderId::ProxyConnection
        | HeaderId::KeepAlive
        | HeaderId::TransferEncoding
        | HeaderId::Upgrade
        | HeaderId::Http2Settings => false,
        HeaderId::Host => !request,
        _ => true,
    }
}

/// Encodes a request. `scheme` is that of the client's request; an upgrade becomes an extended CONNECT, whose messages have no
/// body (RFC 8441 section 4): see [`Head::framing`].
pub fn encode_request(head: &Head, scheme: &[u8], encoder: &mut Encoder, block: &mut Vec<u8>) {
    encoder.begin(block);
    let framing = head.framing();
    let connect = head.method() == Method::Connect;
    // One protocol is asked for: the first, which the sender likes best.
    let protocol = head.value(HeaderId::Upgrade).filter(|_| framing.upgrade && !connect);
    let protocol = protocol.and_then(|list| thalweg_http::values::list(list).next());
    let extended = protocol.is_some();
    let uri = thalweg_http::uri::split(head.target());
    let authority = match (head.value(HeaderId::Host), connect) {
        (_, true) => head.target(),
        (Some(host), _) => host,
        (None, _) => uri.authority,
    };
    let method: &[u8] = if extended { b"CONNECT" } else { head.method_bytes() };
    encoder.pseudo(Pseudo::Method, method, block);
    if !connect {
        encoder.pseudo(Pseudo::Scheme, scheme, block);
    }
    if !authority.is_empty() {
        encoder.pseudo(Pseudo::Authority, authority, block);
    }
    if !connect {
        encoder.pseudo(Pseudo::Path, thalweg_http::uri::origin_form(head.target(), head.method()), block);
    }
    if let Some(protocol) = protocol {
        encoder.pseudo(Pseudo::Protocol, protocol, block);
    }
    for field in head.fields().filter(|f| is_forwarded(f.id, true)) {
        let websocket_key = matches!(field.id, HeaderId::SecWebsocketKey | HeaderId::SecWebsocketAccept);
        let other_te = field.id == HeaderId::Te && !field.value.eq_ignore_ascii_case(b"trailers");
        if (extended && websocket_key) || other_te {
            continue;
        }
        encoder.field(field.id, field.name, field.value, block);
    }
}

/// Encodes a response. A `101` becomes the 200 that answers an extended CONNECT.
pub fn encode_response(head: &Head, encoder: &mut Encoder, block: &mut Vec<u8>) {
    encoder.begin(block);
    let switched = head.status() == 101;
    encoder.status(if switched { 200 } else { head.status() }, block);
    for field in head.fields().filter(|f| is_forwarded(f.id, false)) {
        if !(switched && field.id == HeaderId::SecWebsocketAccept) {
            encoder.field(field.id, field.name, field.value, block);
        }
    }
}

/// Encodes a trailer section.
pub fn encode_trailers(head: &Head, encoder: &mut Encoder, block: &mut Vec<u8>) {
    encoder.begin(block);
    for field in head.fields().filter(|f| is_forwarded(f.id, true)) {
        encoder.field(field.id, field.name, field.value, block);
    }
}

#[cfg(test)]
mod tests;
