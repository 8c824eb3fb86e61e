//! Persistence by a cookie: which server the client's cookie names, and what the response says about it (manual:
//! `cookie`, `force-persist`, `ignore-persist`, `option persist`, `persist rdp-cookie`; sections 8.5 and 5.2).
//!
//! [`read_request`] and [`write_response`] are pure: they take heads, a policy and a time, and edit the heads. The rest
//! fits them into the life of a request.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;

use thalweg_balance::ServerIndex;
use thalweg_config::model::{CookieMode, CookiePersistence, Proxy, Server, ServerAddr};
use thalweg_http::ascii::is_ows;
use thalweg_http::cookie::request_cookies;
use thalweg_http::{Head, HeaderId, Method};
use thalweg_runtime::clock;
use thalweg_sample::facts::{self, Termination};
use thalweg_sample::fetch::hello::{Peek, rdp_cookie};

use super::{Stream, StreamState};
use crate::worker::Worker;

/// Between a server's value and the dates in a cookie that we made.
const DATES: u8 = b'|';
/// Between a server's value and the application's own in `prefix` mode.
const PREFIX: u8 = b'~';
/// A cookie from further in the future than this is not ours, or the clock was wrong: it has expired.
const FUTURE_MAX_S: i64 = 24 * 3600;

/// What a stream remembers of its request's cookie until the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The server that the cookie or a `use-server` rule named: the client needs no other cookie from it.
    pub server: Option<ServerIndex>,
    /// When the cookie was last sent, in seconds; 0 when it does not say.
    pub last_s: i64,
    /// When the client got its first cookie, in seconds; 0 when it does not say.
    pub first_s: i64,
    /// `ignore-persist`: cookies name nobody in this stream, and the response's are left alone.
    pub ignored: bool,
    /// `force-persist`: the server is used even while it is down, and no other one instead.
    pub forced: bool,
}

/// What is known about a server that a cookie may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// It does not matter: a rule has named a server.
    Unused,
    /// No server has this value.
    Nobody,
    /// Servers have it, and none of them may be used.
    Down,
    /// This one may be used although it is down.
    DownButWanted(ServerIndex),
    /// This one.
    Server(ServerIndex),
}

/// Whether the log shows what became of the cookie. The reference shows nothing where the cookie is only read.
fn is_shown(policy: &CookiePersistence) -> bool {
    policy.mode != CookieMode::Passive || policy.indirect
}

/// The letters a stream begins with once its backend is known.
pub fn begin(be: &Proxy, termination: &mut Termination) {
    if be.cookie.as_deref().is_some_and(is_shown) {
        termination.cookie_in = b'N';
        termination.cookie_out = b'N';
    }
}

/// Looks at the request's cookies before a server is chosen, and takes out of them what the server must not see.
/// Returns the server to use, if one was named: by a rule (`chosen`), or else by the cookies.
pub fn request(
    http: &mut Stream<'_>,
    be: &Proxy,
    policy: &CookiePersistence,
    chosen: Option<ServerIndex>,
) -> Option<ServerIndex> {
    http.state.cookie.server = chosen;
    let worker = http.worker;
    let backend = worker.backend(be.id);
    let insist = be.opts.persist || http.state.cookie.forced;
    let now_s = i64::try_from(clock::wall_us() / 1_000_000).unwrap_or(0);
    let mut text = http.worker.text.borrow_mut();
    let StreamState { request, cookie, facts, .. } = &mut *http.state;
    let letter = read_request(request, policy, cookie, now_s, &mut text, |value| {
        if chosen.is_some() {
            return Named::Unused;
        }
        let mut named = Named::Nobody;
        for server in be.servers.iter().filter(|s| worker.has_cookie(be.id, s, value)) {
            let index = ServerIndex(server.id.0);
            if backend.is_up(server.id) {
                return Named::Server(index);
            }
            if insist {
                return Named::DownButWanted(index);
            }
            named = Named::Down;
        }
        named
    });
    if is_shown(policy) {
        facts.termination.cookie_in = letter;
    }
    cookie.server
}

/// A rule refused the request: the log says all the same what its cookie was, and whose.
pub fn refused(http: &mut Stream<'_>, be: &Proxy) {
    if let (Some(policy), true) = (&be.cookie, http.state.facts.backend_assigned)
        && let Some(server) = request(http, be, policy, None)
    {
        http.state.facts.server = Some(facts::ServerId { proxy: facts::ProxyId(be.id.0), index: server.0 });
    }
}

/// The stream goes to another server than the one its cookie named.
pub fn redispatched(state: &mut StreamState) {
    if state.cookie.server.take().is_some() && state.facts.termination.cookie_in == b'V' {
        state.facts.termination.cookie_in = b'D';
    }
}

/// Edits the cookies of the response of `server`, after `http-response` rules.
pub fn response(http: &mut Stream<'_>, be: &Proxy, policy: &CookiePersistence, server: &Server) {
    let now_s = i64::try_from(clock::wall_us() / 1_000_000).unwrap_or(0);
    let mut text = http.worker.text.borrow_mut();
    let StreamState { response, cookie, facts, client_method, .. } = &mut *http.state;
    let changed = http.worker.changed(be.id, server.id);
    let own = changed.as_ref().map_or(&server.cookie, |changed| &changed.identity.cookie);
    let value = own.as_deref().map(str::as_bytes);
    let same = cookie.server == Some(ServerIndex(server.id.0));
    let answer = Answer { value, same, method: *client_method };
    match write_response(response, policy, cookie, &answer, now_s, &mut text) {
        Ok(letter) if is_shown(policy) => facts.termination.cookie_out = letter,
        Ok(_) => {}
        Err(_) => http.worker.be_counters(be.id).failed_rewrites.add(1),
    }
}

/// Finds the persistence cookie among the request's cookies, and edits them as the mode asks. Fills `seen` and returns
/// the letter for the log (manual section 8.5).
pub fn read_request(
    head: &mut Head,
    policy: &CookiePersistence,
    seen: &mut Seen,
    now_s: i64,
    text: &mut Vec<u8>,
    mut named: impl FnMut(&[u8]) -> Named,
) -> u8 {
    let mut letter = b'N';
    let mut from = 0;
    while let Some(field) = head.get_from(HeaderId::Cookie, from) {
        let index = field.index;
        from = index + 1;
        let value = field.value;
        text.clear();
        let mut edit = Edit { from: value, copied: 0, to: text, begun: false, removed: false };
        for cookie in request_cookies(value) {
            let end = cookie.value_offset + cookie.value.len();
            let equals = cookie.name_offset + cookie.name.len();
            if cookie.name != &*policy.name {
                // White space around the equals sign goes, as with the reference.
                edit.replace(equals, cookie.value_offset, b"=");
                continue;
            }
            let parts = Parts::of(cookie.value, policy);
            judge(&parts, policy, seen, now_s, &mut letter, &mut named);
            if policy.mode == CookieMode::Insert && policy.indirect {
                edit.remove(cookie.name_offset, end);
            } else {
                edit.replace(equals, cookie.value_offset, b"=");
                if let Some(own) = parts.own {
                    edit.replace(cookie.value_offset, end - own.len(), b"");
                }
            }
        }
        match edit.finish() {
            Edited::Unchanged => {}
            Edited::Empty => head.remove(index),
            // It only ever gets shorter.
            Edited::Changed => {
                let _ = head.replace_value(index, text);
            }
        }
    }
    letter
}

/// What a persistence cookie consists of.
struct Parts<'a> {
    server: &'a [u8],
    last_s: i64,
    first_s: i64,
    /// In `prefix` mode, the application's own value.
    own: Option<&'a [u8]>,
}

impl<'a> Parts<'a> {
    fn of(value: &'a [u8], policy: &CookiePersistence) -> Parts<'a> {
        let whole = Parts { server: value, last_s: 0, first_s: 0, own: None };
        if policy.mode == CookieMode::Prefix {
            return match value.iter().position(|b| *b == PREFIX) {
                Some(at) => Parts { server: &value[..at], own: Some(&value[at + 1..]), ..whole },
                None => whole,
            };
        }
        let mut fields = value.split(|b| *b == DATES);
        let server = fields.next().unwrap_or_default();
        let mut date = || fields.next().and_then(decode_date).unwrap_or(0);
        Parts { server, last_s: date(), first_s: date(), ..whole }
    }
}

/// What one more persistence cookie is worth, after those before it.
fn judge(
    parts: &Parts<'_>,
    policy: &CookiePersistence,
    seen: &mut Seen,
    now_s: i64,
    letter: &mut u8,
    named: &mut impl FnMut(&[u8]) -> Named,
) {
    for (seen, date) in [(&mut seen.last_s, parts.last_s), (&mut seen.first_s, parts.first_s)] {
        if date != 0 {
            *seen = date;
        }
    }
    let outlived = |date: i64, limit: u32| {
        limit != 0 && date != 0 && (date > now_s + FUTURE_MAX_S || now_s - date > i64::from(limit))
    };
    let too_old = outlived(parts.first_s, policy.maxlife_s);
    if too_old || outlived(parts.last_s, policy.maxidle_s) {
        (seen.last_s, seen.first_s) = (0, 0);
        *letter = if too_old { b'O' } else { b'E' };
        return;
    }
    if seen.ignored {
        *letter = b'U';
        return;
    }
    if matches!(*letter, b'V') {
        return;
    }
    match named(parts.server) {
        Named::Unused => *letter = b'U',
        // What earlier cookies were found to be says more.
        Named::Nobody if *letter != b'N' => {}
        Named::Nobody => *letter = b'I',
        Named::Down => *letter = b'D',
        Named::DownButWanted(server) => {
            seen.server.get_or_insert(server);
            *letter = b'D';
        }
        Named::Server(server) => {
            if seen.server.is_none() {
                seen.server = Some(server);
                *letter = b'V';
            }
        }
    }
}

/// What [`write_response`] must know about the exchange.
pub struct Answer<'a> {
    /// The value of the server that answered.
    pub value: Option<&'a [u8]>,
    /// It is the server that the client's cookie named.
    pub same: bool,
    /// The method the client used.
    pub method: Method,
}

/// Edits the response's cookies and adds ours where the client needs it. Returns the letter for the log.
///
/// # Errors
/// The head has no room for an edit; what was edited until then stays.
pub fn write_response(
    head: &mut Head,
    policy: &CookiePersistence,
    seen: &Seen,
    answer: &Answer<'_>,
    now_s: i64,
    text: &mut Vec<u8>,
) -> Result<u8, thalweg_http::RewriteError> {
    let mut letter = b'N';
    let mut found = false;
    let mut from = 0;
    while let Some(field) = head.get_from(HeaderId::SetCookie, from) {
        let index = field.index;
        from = index + 1;
        let value = field.value;
        let Some(place) = Place::of(value) else { continue };
        let ours = value[place.name.clone()] == *policy.name && !seen.ignored;
        found |= ours;
        let removed = ours
            && !policy.preserve
            && (policy.mode == CookieMode::Insert || (policy.indirect && answer.same));
        if removed {
            letter = b'D';
            head.remove(index);
            continue;
        }
        text.clear();
        let mut edit = Edit { from: value, copied: 0, to: text, begun: false, removed: false };
        edit.replace(place.name.end, place.value.start, b"=");
        if ours {
            letter = b'P';
            match (policy.mode, answer.value) {
                (CookieMode::Rewrite, Some(server)) => {
                    edit.replace(place.value.start, place.value.end, server);
                    letter = b'R';
                }
                (CookieMode::Prefix, Some(server)) => {
                    edit.replace(place.value.start, place.value.start, server);
                    edit.replace(place.value.start, place.value.start, &[PREFIX]);
                    letter = b'R';
                }
                _ => {}
            }
        }
        if matches!(edit.finish(), Edited::Changed | Edited::Empty) {
            head.replace_value(index, text)?;
        }
    }
    let wanted = policy.mode == CookieMode::Insert
        && !seen.ignored
        && (!policy.postonly || answer.method == Method::Post)
        && !(found && policy.preserve)
        && (!answer.same || is_stale(policy, seen, now_s));
    if !wanted {
        return Ok(letter);
    }
    text.clear();
    set_cookie(policy, seen, answer.value, now_s, text);
    head.push(b"set-cookie", text)?;
    letter = if answer.same { b'U' } else { b'I' };
    if policy.nocache && is_cacheable(answer.method, head) {
        head.push(b"cache-control", b"private")?;
    }
    Ok(letter)
}

/// Where name and value of the cookie of a `Set-Cookie` field are. Here a comma may be part of a name, but ends a value.
struct Place {
    name: Range<usize>,
    value: Range<usize>,
}

impl Place {
    fn of(text: &[u8]) -> Option<Place> {
        let equals = text.iter().position(|b| matches!(b, b'=' | b';')).filter(|at| text[*at] == b'=')?;
        let skip = |at: usize| at + text[at..].iter().take_while(|b| is_ows(**b)).count();
        let name_start = skip(0);
        let name = name_start..name_start + trim_end(&text[name_start..equals]).len();
        let start = skip(equals + 1);
        let end = start + value_len(&text[start..]);
        Some(Place { name, value: start..end })
    }
}

/// The length of a cookie's value at the start of `text`.
fn value_len(text: &[u8]) -> usize {
    let mut quoted = false;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            b';' | b',' if !quoted => break,
            _ => {}
        }
        at += 1;
    }
    trim_end(&text[..at.min(text.len())]).len()
}

/// Whether a cookie that still holds must be sent again because of its dates.
fn is_stale(policy: &CookiePersistence, seen: &Seen, now_s: i64) -> bool {
    (seen.last_s != 0 && seen.last_s < now_s)
        || (policy.maxidle_s != 0 && seen.last_s == 0)
        || (policy.maxlife_s != 0) != (seen.first_s != 0)
}

/// The value of our `Set-Cookie`.
fn set_cookie(policy: &CookiePersistence, seen: &Seen, value: Option<&[u8]>, now_s: i64, text: &mut Vec<u8>) {
    text.extend_from_slice(&policy.name);
    text.push(b'=');
    match value {
        Some(value) => {
            text.extend_from_slice(value);
            if policy.maxidle_s != 0 || policy.maxlife_s != 0 {
                text.push(DATES);
                text.extend_from_slice(&encode_date(now_s));
            }
            if policy.maxlife_s != 0 {
                text.push(DATES);
                text.extend_from_slice(&encode_date(if seen.first_s != 0 { seen.first_s } else { now_s }));
            }
        }
        // A server without a value: the client must forget the cookie it has.
        None => text.extend_from_slice(b"; Expires=Thu, 01-Jan-1970 00:00:01 GMT"),
    }
    text.extend_from_slice(b"; path=/");
    for domain in &policy.domains {
        text.extend_from_slice(b"; domain=");
        text.extend_from_slice(domain.as_bytes());
    }
    if policy.httponly {
        text.extend_from_slice(b"; HttpOnly");
    }
    if policy.secure {
        text.extend_from_slice(b"; Secure");
    }
    for attribute in &policy.attrs {
        text.extend_from_slice(b"; ");
        text.extend_from_slice(attribute.as_bytes());
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A date in a cookie: units of four seconds, rounded up, as 30 bits in five digits.
fn encode_date(seconds: i64) -> [u8; 5] {
    let units = (seconds + 3) >> 2;
    std::array::from_fn(|i| DIGITS[(units >> (6 * (4 - i))) as usize & 63])
}

/// The seconds of a date; `None` when it is not five digits.
fn decode_date(text: &[u8]) -> Option<i64> {
    let digits: &[u8; 5] = text.try_into().ok()?;
    let mut units = 0;
    for digit in digits {
        let value = DIGITS.iter().position(|d| d == digit)?;
        units = units << 6 | i64::try_from(value).ok()?;
    }
    Some(units << 2)
}

/// A field's value on its way to an edited one. Edits come in order; where there are none nothing is copied.
struct Edit<'a> {
    from: &'a [u8],
    /// What of `from` has been dealt with.
    copied: usize,
    to: &'a mut Vec<u8>,
    begun: bool,
    /// A cookie was taken out.
    removed: bool,
}

enum Edited {
    Unchanged,
    Changed,
    Empty,
}

impl Edit<'_> {
    /// Puts `by` where `begin..end` was.
    fn replace(&mut self, begin: usize, end: usize, by: &[u8]) {
        if &self.from[begin..end] == by {
            return;
        }
        self.begun = true;
        self.to.extend_from_slice(&self.from[self.copied..begin]);
        self.to.extend_from_slice(by);
        self.copied = end;
    }

    /// Takes a cookie of a `Cookie` field out, with its attributes (RFC 2965), and joins what is around it.
    fn remove(&mut self, begin: usize, end: usize) {
        (self.begun, self.removed) = (true, true);
        self.to.extend_from_slice(&self.from[self.copied..begin]);
        let kept = trim_end(self.to);
        let separated = matches!(kept.last(), Some(b';' | b','));
        let kept = trim_end(&kept[..kept.len() - usize::from(separated)]);
        let len = kept.len();
        self.to.truncate(len);
        // On to the next part that is no attribute of this cookie. What separates it from the one before is what ended
        // this cookie.
        let skip = |at: usize| at + self.from[at..].iter().take_while(|b| is_ows(**b)).count();
        let mut next = skip(end);
        let Some(&separator) = self.from.get(next) else {
            self.copied = self.from.len();
            return;
        };
        while next < self.from.len() {
            next = skip(next + 1);
            if self.from.get(next) != Some(&b'$') {
                break;
            }
            next = skip(next + value_len(&self.from[next..]));
        }
        if len > 0 {
            self.to.push(separator);
            if next < self.from.len() {
                self.to.push(b' ');
            }
        }
        self.copied = next.min(self.from.len());
    }

    fn finish(self) -> Edited {
        if !self.begun {
            return Edited::Unchanged;
        }
        self.to.extend_from_slice(&self.from[self.copied..]);
        let attribute = |part: &[u8]| part.trim_ascii_start().first() == Some(&b'$');
        // Attributes without a cookie say nothing.
        let empty = self.to.is_empty()
            || (self.removed && self.to.split(|b| matches!(b, b';' | b',')).all(attribute));
        if empty { Edited::Empty } else { Edited::Changed }
    }
}

fn trim_end(mut text: &[u8]) -> &[u8] {
    while let Some((_, rest)) = text.split_last().filter(|(last, _)| is_ows(**last)) {
        text = rest;
    }
    text
}

/// Whether a cache may keep a response (RFC 9111 section 3): method and status are of those that are kept and it says how long it is fresh or how to
/// validate it, or it is `public` and says how long it is fresh, whatever it answers; and nothing forbids it. Values are compared as the reference
/// compares them.
fn is_cacheable(method: Method, response: &Head) -> bool {
    if response.get_all(HeaderId::Pragma).any(|f| f.value.eq_ignore_ascii_case(b"no-cache")) {
        return false;
    }
    let mut public = false;
    let mut storable =
        [HeaderId::Etag, HeaderId::LastModified, HeaderId::Expires].into_iter().any(|id| response.has(id));
    let (mut max_age, mut shared_max_age) = (None, None);
    for directive in
        response.get_all(HeaderId::CacheControl).flat_map(|f| thalweg_http::values::list(f.value))
    {
        let equals = directive.iter().position(|b| *b == b'=');
        let (name, value) = directive.split_at(equals.unwrap_or(directive.len()));
        if directive.eq_ignore_ascii_case(b"public") {
            public = true;
        } else if name.eq_ignore_ascii_case(b"private") || name.eq_ignore_ascii_case(b"no-store") {
            return false;
        } else if name.eq_ignore_ascii_case(b"no-cache") {
            // What must not be kept are cookies only, and the rest may be.
            if !value.eq_ignore_ascii_case(b"=\"set-cookie\"") {
                return false;
            }
        } else if name.eq_ignore_ascii_case(b"max-age") {
            max_age = Some(value != b"=0");
        } else if name.eq_ignore_ascii_case(b"s-maxage") {
            shared_max_age = Some(value != b"=0");
        }
    }
    let fresh = shared_max_age.or(max_age);
    storable |= fresh == Some(true);
    let usual = method.is_safe() && is_cacheable_status(response.status());
    (if usual { storable } else { public && fresh == Some(true) }) && fresh != Some(false)
}

/// The server a TCP client's RDP cookie names, if it may be used (`persist rdp-cookie`): when it is up, or when it is
/// insisted on. Its value is the address as a
/// number in the order of the wire, the port likewise, and a third number: `msts=3640205228.15629.0000`.
pub fn rdp_server(worker: &Worker, be: &Proxy, name: &str, data: &[u8], insist: bool) -> Option<ServerIndex> {
    let Peek::Found((found, value)) = rdp_cookie(data) else { return None };
    let wanted = rdp_address(&data[value]).filter(|_| data[found].eq_ignore_ascii_case(name.as_bytes()))?;
    let backend = worker.backend(be.id);
    let is_at = |addr: &ServerAddr| matches!(addr, ServerAddr::Tcp(addr) if *addr == wanted);
    let server = be.servers.iter().find(|server| match worker.changed(be.id, server.id) {
        None => is_at(&server.addr),
        Some(changed) => is_at(&changed.identity.addr),
    })?;
    (insist || backend.is_up(server.id)).then_some(ServerIndex(server.id.0))
}

fn rdp_address(value: &[u8]) -> Option<SocketAddr> {
    let mut parts = value.split(|b| *b == b'.');
    let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<u32>().ok();
    let (address, port) = (number()?, u16::try_from(number()?).ok()?);
    Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(address.swap_bytes())), port.swap_bytes()))
}

/// Whether caches keep responses with this status without being asked to (RFC 9110 section 15.1).
fn is_cacheable_status(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 404 | 405 | 410 | 414 | 501)
}

/// Whether a cache on the way may keep the response although it sets a cookie (`option checkcache`).
pub fn is_shared(http: &Stream<'_>) -> bool {
    let response = &http.state.response;
    if response.get(HeaderId::SetCookie).is_none() && response.find(b"set-cookie2").is_none() {
        return false;
    }
    let method = http.state.client_method;
    let usual = matches!(method, Method::Get | Method::Head | Method::Options | Method::Trace)
        && is_cacheable_status(response.status());
    let mut cacheable = usual;
    if response.find_all(b"pragma").any(|field| field.value.trim_ascii().eq_ignore_ascii_case(b"no-cache")) {
        cacheable = false;
    }
    let mut forbidden = false;
    for directive in response.find_all(b"cache-control").flat_map(|field| field.value.split(|b| *b == b',')) {
        let directive = directive.trim_ascii().to_ascii_lowercase();
        match &*directive {
            b"public" => cacheable = true,
            b"private" | b"no-store" | b"no-cache" | b"max-age=0" | b"s-maxage=0" => forbidden = true,
            // `no-cache="set-cookie"`, perhaps followed by other names.
            other => forbidden |= other.starts_with(b"no-cache=\"set-cookie"),
        }
    }
    cacheable && !forbidden
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(mode: CookieMode, indirect: bool) -> CookiePersistence {
        CookiePersistence {
            name: b"S"[..].into(),
            mode,
            indirect,
            nocache: false,
            postonly: false,
            preserve: false,
            httponly: false,
            secure: false,
            domains: Vec::new(),
            maxidle_s: 0,
            maxlife_s: 0,
            dynamic: false,
            attrs: Vec::new(),
        }
    }

    #[test]
    fn request_cookies_are_judged_and_edited() {
        let check = |mode, indirect, given: &str, letter: char, expected: Option<&str>| {
            let mut head = Head::new();
            head.start_request(b"GET", b"/", thalweg_http::Version::HTTP_11).unwrap();
            head.push(b"cookie", given.as_bytes()).unwrap();
            let mut seen = Seen::default();
            let mut text = Vec::new();
            let got =
                read_request(&mut head, &policy(mode, indirect), &mut seen, 1000, &mut text, |v| match v {
                    b"up" => Named::Server(ServerIndex(1)),
                    b"down" => Named::Down,
                    _ => Named::Nobody,
                });
            assert_eq!(char::from(got), letter, "{given:?}");
            let left = head.value(HeaderId::Cookie).map(|v| String::from_utf8_lossy(v).into_owned());
            assert_eq!(left.as_deref(), expected, "{given:?}");
        };
        let (insert, prefix) = (CookieMode::Insert, CookieMode::Prefix);
        check(insert, true, "S=up", 'V', None);
        check(insert, true, "a=1;S=up;b=2", 'V', Some("a=1; b=2"));
        check(insert, true, "a=1,S=up;b=2", 'V', Some("a=1; b=2"));
        check(insert, true, "a=1; S=up;", 'V', Some("a=1;"));
        check(insert, true, "S=up; $Path=/; b=2", 'V', Some("b=2"));
        check(insert, true, "$Path=/; S=up", 'V', None);
        check(insert, true, "S=down; S=no", 'D', None);
        check(insert, true, "S=no; S=up", 'V', None);
        check(insert, true, "T=up", 'N', Some("T=up"));
        check(insert, false, "a = 1; S = up", 'V', Some("a=1; S=up"));
        check(prefix, false, "S=up~own", 'V', Some("S=own"));
        check(prefix, false, "S=no~own", 'I', Some("S=own"));
        check(prefix, false, "S=up|AAAAA", 'I', Some("S=up|AAAAA"));
    }

    #[test]
    fn dates_survive_a_round_trip() {
        for seconds in [0i64, 4, 1_000_000, 4_294_967_292] {
            assert_eq!(decode_date(&encode_date(seconds)), Some(seconds));
        }
        assert_eq!(decode_date(&encode_date(1)), Some(4));
        for text in ["", "AAAA", "AAAAAA", "AA@AA"] {
            assert_eq!(decode_date(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn rdp_addresses_are_in_the_order_of_the_wire() {
        assert_eq!(rdp_address(b"3640205228.15629.0000"), Some("172.31.249.216:3389".parse().unwrap()));
        for text in ["", "1", "x.1", "1.70000.0"] {
            assert_eq!(rdp_address(text.as_bytes()), None, "{text:?}");
        }
    }
}
