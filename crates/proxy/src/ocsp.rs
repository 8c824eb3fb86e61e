//! Fetching OCSP responses (`ocsp-update`): one task of the process asks what is due and tells what came.
//!
//! Responders are asked one after the other, a few times a day each, and where they are is found through the system's
//! resolver, which blocks. So a request is made by a thread of its own, which lives as long as the request.

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::rc::Rc;
use std::sync::PoisonError;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use thalweg_config::model::{LogLevel, SharedLive};
use thalweg_runtime::{Class, Kind, Reason, SpawnOptions, TaskId, aside, spawn_with, timer};
use thalweg_shared::MutexGuard;
use thalweg_tls::live::{Due, Live, Outcome};
use thalweg_tls::ocsp::RESPONSE_MAX;

use crate::worker::{Thread, Worker};

static UPDATE: Kind = Kind::new("ocsp-update");

/// The longest sleep while a response will be due, in seconds: somebody may set the system's clock meanwhile.
const SLEEP_MAX_S: u64 = 3600;
/// A responder that did not answer by then does not.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest answer, head and body, in bytes.
const ANSWER_MAX: usize = RESPONSE_MAX + 64 * 1024;
/// The longest URI that is asked with GET, so that answers may come from a cache (RFC 5019 section 5).
const GET_MAX: usize = 255;

type Answer = Result<Vec<u8>, Outcome>;

/// Starts to keep responses up to date, on one thread for all, if there is anybody to have one; the task that does it already looks
/// at what is served now. It sleeps until a response is due: a process that has nothing to do is not to be woken for that.
pub fn start(worker: &Rc<Worker>) {
    let is_in_use = worker.instance.config.tls.as_ref().is_some_and(|live| lock(live).is_in_use());
    let running = worker.looks_after.responses.get();
    if running != TaskId::NONE {
        return running.wake(Reason::MESSAGE);
    }
    if !is_in_use {
        return;
    }
    let own = Rc::clone(worker.own());
    let options = SpawnOptions { class: Class::Bulk, ..SpawnOptions::default() };
    let task = spawn_with(&UPDATE, options, async move {
        while let Some(Request { live, due, proxy }) = poll_fn(|cx| next(&own, cx)).await {
            let answer = ask(&due, proxy).await;
            let came = answer.as_ref().map(Vec::as_slice).map_err(Outcome::clone);
            let line = lock(&live).updated(&due.key, came);
            if let (Some(line), Some(worker)) = (line, own.pin()) {
                worker.log_globally(LogLevel::Notice, line.as_bytes());
            }
        }
    });
    worker.looks_after.responses.set(task);
}

/// What is to be asked, for whom, and through which proxy.
struct Request {
    live: SharedLive,
    due: Due,
    proxy: Option<SocketAddr>,
}

/// The request that is due; none when the thread ends. The task is woken when one may be.
fn next(own: &Thread, cx: &mut Context<'_>) -> Poll<Option<Request>> {
    let Some(pin) = own.pin() else { return Poll::Ready(None) };
    let Some(live) = pin.instance.config.tls.clone() else { return Poll::Pending };
    let due = lock(&live).due_update(cx.waker());
    match due {
        Ok(due) => {
            let proxy = pin.instance.config.global.tls.update_proxy;
            Poll::Ready(Some(Request { live, due, proxy }))
        }
        Err(seconds) => {
            if let Some(seconds) = seconds {
                timer::want(timer::deadline_in(seconds.min(SLEEP_MAX_S) * 1000));
            }
            Poll::Pending
        }
    }
}

fn lock(live: &SharedLive) -> MutexGuard<'_, Live> {
    live.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks a responder, or the proxy in its place.
async fn ask(due: &Due, proxy: Option<SocketAddr>) -> Answer {
    let due = due.clone();
    aside("ocsp", move || fetch(&due, proxy)).await.unwrap_or(Err(Outcome::Http))
}

fn fetch(due: &Due, proxy: Option<SocketAddr>) -> Answer {
    let uri = Uri::parse(&due.uri).ok_or(Outcome::Http)?;
    let request = uri.request(&due.request, &due.encoded, proxy.is_some());
    let addresses = match proxy {
        Some(proxy) => vec![proxy],
        None => uri.authority().to_socket_addrs().map(Iterator::collect).unwrap_or_default(),
    };
    let deadline = Instant::now() + PATIENCE;
    for address in addresses {
        if let Ok(answer) = exchange(&address, &request, deadline) {
            return response(&answer);
        }
    }
    Err(Outcome::Http)
}

/// A `http` URI in parts.
struct Uri<'a> {
    host: &'a str,
    port: u16,
    path: &'a str,
}

impl<'a> Uri<'a> {
    /// Takes apart what a certificate says; nothing when it is no address of HTTP. Bytes that would end a line of a request
    /// are in none.
    fn parse(uri: &'a str) -> Option<Uri<'a>> {
        let rest = uri.strip_prefix("http://")?;
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, 80),
        };
        (!host.is_empty() && !host.contains('@')).then_some(Uri { host, port, path })
    }

    /// As the system's resolver and a Host field want it.
    fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    fn request(&self, body: &[u8], encoded: &str, absolute: bool) -> Vec<u8> {
        let host = if self.port == 80 { self.host.to_owned() } else { self.authority() };
        let base = if absolute { format!("http://{host}") } else { String::new() };
        let path = format!("{base}{}/{encoded}", self.path.trim_end_matches('/'));
        let common = format!("Host: {host}\r\nConnection: close\r\nAccept: application/ocsp-response\r\n");
        if path.len() <= GET_MAX {
            return format!("GET {path} HTTP/1.1\r\n{common}\r\n").into_bytes();
        }
        let path = if self.path.is_empty() { "/" } else { self.path };
        let head = format!(
            "POST {base}{path} HTTP/1.1\r\n{common}Content-Type: application/ocsp-request\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body].concat()
    }
}

/// One request and all that is answered to it.
fn exchange(address: &SocketAddr, request: &[u8], deadline: Instant) -> io::Result<Vec<u8>> {
    let left = || deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
    let left = || left().ok_or(io::Error::from(io::ErrorKind::TimedOut));
    let mut stream = TcpStream::connect_timeout(address, left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    loop {
        if is_complete(&answer) {
            return Ok(answer);
        }
        stream.set_read_timeout(Some(left()?))?;
        let mut bytes = [0; 4096];
        let length = stream.read(&mut bytes)?;
        if length == 0 {
            return Ok(answer);
        }
        answer.extend_from_slice(&bytes[..length]);
        if answer.len() > ANSWER_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Whether all that an answer announces is there; one without a length ends with its connection.
fn is_complete(answer: &[u8]) -> bool {
    let Some((head, body)) = split(answer) else { return false };
    match field(head, "content-length").map(|length| length.parse::<usize>()) {
        Some(Ok(length)) => body.len() >= length,
        _ => is_chunked(head) && unchunked(body).is_some(),
    }
}

fn split(answer: &[u8]) -> Option<(&str, &[u8])> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((std::str::from_utf8(&answer[..end]).ok()?, &answer[end + 4..]))
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    fields.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

fn is_chunked(head: &str) -> bool {
    field(head, "transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
}

/// A body without its chunks' framing; nothing while it is not whole.
fn unchunked(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n")?;
        let digits = body[..end].split(|byte| matches!(byte, b';' | b' ')).next()?;
        let length = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        body = &body[end + 2..];
        if length == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(body.get(..length)?);
        body = body.get(length.checked_add(2)?..)?;
    }
}

/// The OCSP response in an answer.
fn response(answer: &[u8]) -> Answer {
    let (head, body) = split(answer).ok_or(Outcome::Http)?;
    let mut words = head.split_ascii_whitespace();
    let is_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    if !is_http || words.next() != Some("200") {
        return Err(Outcome::Http);
    }
    let kind = field(head, "content-type").map(|kind| kind.split(';').next().unwrap_or_default().trim());
    if kind.is_none_or(|kind| !kind.eq_ignore_ascii_case("application/ocsp-response")) {
        return Err(Outcome::NoResponse);
    }
    if is_chunked(head) {
        return unchunked(body).ok_or(Outcome::Http);
    }
    match field(head, "content-length").map(|length| length.parse::<usize>()) {
        None => Ok(body.to_vec()),
        Some(length) => Ok(length.ok().and_then(|length| body.get(..length)).ok_or(Outcome::Http)?.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_responders() {
        let parts = |uri| Uri::parse(uri).map(|uri| (uri.host.to_owned(), uri.port, uri.path.to_owned()));
        let expected = |host: &str, port, path: &str| Some((host.to_owned(), port, path.to_owned()));
        assert_eq!(parts("http://a.com"), expected("a.com", 80, ""));
        assert_eq!(parts("http://a.com:81/x/"), expected("a.com", 81, "/x/"));
        assert_eq!(parts("http://[::1]:81/"), expected("[::1]", 81, "/"));
        assert_eq!(parts("http://[::1]/"), expected("[::1]", 80, "/"));
        for wrong in [
            "https://a.com/",
            "http:///x",
            "http://a:b/",
            "http://u@a/",
            "http://a/ b",
            "http://a/\r\nx: y",
            "",
        ] {
            assert_eq!(parts(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn small_requests_can_be_cached() {
        let text = |uri: &str, body: &[u8], encoded: &str, absolute| {
            String::from_utf8_lossy(&Uri::parse(uri).unwrap().request(body, encoded, absolute)).into_owned()
        };
        let common = "Connection: close\r\nAccept: application/ocsp-response\r\n";
        assert_eq!(
            text("http://a.com/ocsp/", b"x", "%2B%2F%2F%2BAA%3D%3D", false),
            format!("GET /ocsp/%2B%2F%2F%2BAA%3D%3D HTTP/1.1\r\nHost: a.com\r\n{common}\r\n")
        );
        let head = text("http://a.com:8080", &[b'x'; 300], &"a".repeat(400), true);
        assert!(
            head.starts_with(&format!("POST http://a.com:8080/ HTTP/1.1\r\nHost: a.com:8080\r\n{common}"))
        );
        assert!(head.contains("\r\nContent-Length: 300\r\n\r\nxxx"), "{head}");
    }

    #[test]
    fn answers() {
        let good = "HTTP/1.1 200 OK\r\nContent-Type: application/ocsp-response\r\n";
        for (answer, expected) in [
            (format!("{good}\r\nabc"), Ok(&b"abc"[..])),
            (format!("{good}Content-Length: 2\r\n\r\nabc"), Ok(b"ab")),
            (format!("{good}Content-Length: 4\r\n\r\nabc"), Err(Outcome::Http)),
            (format!("{good}Content-Length: x\r\n\r\nabc"), Err(Outcome::Http)),
            (format!("{good}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n"), Ok(b"abc")),
            (format!("{good}Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nab"), Err(Outcome::Http)),
            ("HTTP/1.1 404 No\r\n\r\n".to_owned(), Err(Outcome::Http)),
            ("HTTP/1.1 200 OK\r\n\r\n".to_owned(), Err(Outcome::NoResponse)),
            ("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n".to_owned(), Err(Outcome::NoResponse)),
            ("nonsense".to_owned(), Err(Outcome::Http)),
        ] {
            assert_eq!(response(answer.as_bytes()), expected.map(<[u8]>::to_vec), "{answer}");
        }
        assert!(is_complete(format!("{good}Content-Length: 3\r\n\r\nabc").as_bytes()));
        assert!(!is_complete(format!("{good}\r\nabc").as_bytes()));
    }
}
