//! One message never ends in the middle of another (security rules R2 and R3): every way in which an exchange can end, by
//! a rule, by a failure, by an answer, with every kind of body, of which nothing, a part or all was sent. Then a second
//! request follows on the same connection. It must arrive at the server exactly as it was sent, or the connection must
//! be closed; and the server must never see anything that is not a request of a client.

mod endings;
mod payload;
#[path = "../support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use endings::{Act, Ending, OK, endings};
use support::{Conn, Io, Proxy, Server, Setup, each_driver, eventually, nobody};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    None,
    Sized,
    Chunked,
}

impl Body {
    fn field(self) -> &'static str {
        match self {
            Body::None => "",
            Body::Sized => "Content-Length: 10\r\n",
            Body::Chunked => "Transfer-Encoding: chunked\r\n",
        }
    }

    fn bytes(self) -> &'static str {
        match self {
            Body::None => "",
            Body::Sized => "0123456789",
            Body::Chunked => "4\r\n0123\r\n06;x=y\r\n456789\r\n0\r\n\r\n",
        }
    }
}

struct Case {
    id: usize,
    ending: usize,
    body: Body,
    /// Bytes of the body that are sent with the head.
    sent: usize,
    /// The second request goes out with the last bytes of the first.
    pipelined: bool,
}

impl Case {
    fn path(&self, endings: &[Ending]) -> String {
        let ending = &endings[self.ending];
        match ending.method {
            "CONNECT" => format!("{}.{}:80", ending.name, self.id),
            _ => format!("/{}/{}", ending.name, self.id),
        }
    }

    fn second(&self) -> String {
        format!(
            "POST /second/{} HTTP/1.1\r\nHost: h\r\nX-Second: {}\r\nContent-Length: 4\r\n\r\nmore",
            self.id, self.id
        )
    }
}

fn cases(endings: &[Ending]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (n, ending) in endings.iter().enumerate() {
        for body in [Body::None, Body::Sized, Body::Chunked] {
            // A CONNECT has no body.
            if body != Body::None && ending.method == "CONNECT" {
                continue;
            }
            let all = body.bytes().len();
            // Inside a chunk, and inside the line of a chunk's size.
            let mut parts = BTreeSet::from([0, all / 4, all / 2, all]);
            parts.insert(all.saturating_sub(1));
            for sent in parts {
                for pipelined in [false, true] {
                    cases.push(Case { id: cases.len(), ending: n, body, sent, pipelined });
                }
            }
        }
    }
    cases
}

/// What the server saw, by case.
#[derive(Default)]
struct Seen {
    heads: BTreeSet<usize>,
    seconds: BTreeSet<usize>,
    wrong: Vec<String>,
}

type Shared = Arc<Mutex<Seen>>;

/// Reads a body as the head announces it. None when the connection ends before.
fn read_body(conn: &mut Conn, head: &str) -> Option<Vec<u8>> {
    let lower = head.to_ascii_lowercase();
    if lower.contains("\r\ntransfer-encoding: chunked\r\n") {
        let mut body = Vec::new();
        loop {
            let line = conn.try_until(b"\r\n")?;
            let digits = String::from_utf8_lossy(&line).trim_end().to_string();
            let len = usize::from_str_radix(&digits, 16).ok();
            let Some(len) = len else { return Some(format!("bad chunk size {digits:?}").into_bytes()) };
            if len == 0 {
                return (conn.try_exactly(2)? == b"\r\n").then_some(body);
            }
            body.extend(conn.try_exactly(len)?);
            if conn.try_exactly(2)? != b"\r\n" {
                return Some(b"bad chunk end".to_vec());
            }
        }
    }
    let length = lower.split("\r\ncontent-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    conn.try_exactly(length.map_or(0, |l| l.parse().unwrap_or(0)))
}

/// What the server works by.
struct Script {
    endings: Arc<Vec<Ending>>,
    cases: Arc<Vec<Case>>,
    seen: Shared,
    /// Cases that failed once, as they must.
    failed: Mutex<BTreeSet<usize>>,
    /// Ends when the test does.
    hold: Mutex<mpsc::Receiver<()>>,
}

/// Serves one connection, and notes everything that is not a request that was sent.
fn serve(mut conn: Conn, script: &Script) {
    let Script { endings, cases, seen, failed, hold } = script;
    while let Some(head) = conn.try_until(b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&head).into_owned();
        let wrong = |what: &str| seen.lock().unwrap().wrong.push(format!("{what}: {head:?}"));
        let line = head.split("\r\n").next().unwrap_or("");
        if line == "GET /hold HTTP/1.1" {
            // Keeps its place until the test is over.
            let _ = hold.lock().unwrap().recv();
            return;
        }
        let digits = |text: &str| text.chars().rev().take_while(char::is_ascii_digit).collect::<String>();
        let target = line.split(' ').nth(1).unwrap_or("").trim_end_matches(":80");
        let id: String = digits(target).chars().rev().collect();
        let Some(case) = id.parse::<usize>().ok().and_then(|id| cases.get(id)) else {
            wrong("no request of a client");
            return;
        };
        let ending = &endings[case.ending];
        if line == format!("POST /second/{} HTTP/1.1", case.id) {
            match read_body(&mut conn, &head) {
                Some(body) if body == b"more" => {}
                Some(body) => wrong(&format!("a second request with the body {body:?}")),
                None => return,
            }
            seen.lock().unwrap().seconds.insert(case.id);
            let answer = format!("HTTP/1.1 200 OK\r\nX-Second: {}\r\nContent-Length: 2\r\n\r\nok", case.id);
            if conn.try_send(answer).is_err() {
                return;
            }
            continue;
        }
        if line != format!("{} {} HTTP/1.1", ending.method, case.path(endings)) {
            wrong("a changed request");
            return;
        }
        seen.lock().unwrap().heads.insert(case.id);
        let mut act = ending.act;
        if let Act::FailOnce(text) = act {
            act = if failed.lock().unwrap().insert(case.id) { Act::Close(text) } else { Act::Answer(OK) };
        }
        match act {
            Act::Early(text) | Act::EarlyClose(text) if conn.try_send(text).is_err() => return,
            Act::EarlyClose(_) => return,
            Act::ResetAtHead => return conn.reset(),
            _ => {}
        }
        if ending.fields.contains("Expect") && !matches!(act, Act::Early(_)) {
            let _ = conn.try_send("HTTP/1.1 100 Continue\r\n\r\n");
        }
        match read_body(&mut conn, &head) {
            Some(body) if body == if case.body == Body::None { &b""[..] } else { b"0123456789" } => {}
            Some(body) => wrong(&format!("the body {:?}", String::from_utf8_lossy(&body))),
            None => return,
        }
        match act {
            Act::Answer(text) if conn.try_send(text).is_err() => return,
            Act::Close(text) => {
                let _ = conn.try_send(text);
                return;
            }
            Act::Silent => {
                conn.ended();
                return;
            }
            _ => {}
        }
    }
}

/// The next final response. None when the connection ends before it is complete.
fn response(conn: &mut Conn, method: &str) -> Option<(u16, String)> {
    loop {
        let head = String::from_utf8_lossy(&conn.try_until(b"\r\n\r\n")?).into_owned();
        let status: u16 = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
        if status < 200 {
            continue;
        }
        if method != "HEAD" && !matches!(status, 204 | 304) {
            let lower = head.to_ascii_lowercase();
            if lower.contains("content-length: ") || lower.contains("transfer-encoding: chunked") {
                read_response_body(conn, &head)?;
            } else {
                conn.ended();
            }
        }
        return Some((status, head));
    }
}

fn read_response_body(conn: &mut Conn, head: &str) -> Option<()> {
    if !head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return read_body(conn, head).map(drop);
    }
    loop {
        let line = conn.try_until(b"\r\n")?;
        let len = usize::from_str_radix(String::from_utf8_lossy(&line).trim_end(), 16).ok()?;
        if len == 0 {
            while conn.try_until(b"\r\n")? != b"\r\n" {}
            return Some(());
        }
        conn.try_exactly(len + 2)?;
    }
}

/// Plays one case. The error says what went wrong; the value, whether the second request was answered.
fn play(proxy: &Proxy, endings: &[Ending], case: &Case, seen: &Shared) -> Result<bool, String> {
    let ending = &endings[case.ending];
    let mut conn = proxy.connect();
    let head = format!(
        "{} {} HTTP/1.1\r\nHost: {}\r\n{}{}\r\n",
        ending.method,
        case.path(endings),
        if ending.method == "CONNECT" { case.path(endings) } else { "h".into() },
        ending.fields,
        case.body.field()
    );
    let (now, later) = case.body.bytes().split_at(case.sent);
    let all_sent = later.is_empty();
    let mut first = format!("{head}{now}");
    if all_sent && case.pipelined {
        first.push_str(&case.second());
    }
    let mut sent_later = all_sent;
    conn.send(first);
    if ending.needs_body && !all_sent {
        if ending.rules.is_empty() {
            // The server has the first part before the rest goes out.
            eventually("the server sees the head", || {
                seen.lock().unwrap().heads.contains(&case.id).then_some(())
            });
        }
        let rest = if case.pipelined { format!("{later}{}", case.second()) } else { later.into() };
        let _ = conn.try_send(rest);
        sent_later = true;
    }
    if ending.name == "silent-drop" {
        // Only who goes on sending learns that nobody is there any more.
        eventually("the connection is gone", || conn.try_send("\r\n").is_err().then_some(()));
        return Ok(false);
    }
    let answer = response(&mut conn, ending.method);
    let status = answer.as_ref().map_or(0, |(status, _)| *status);
    if status != ending.status && (all_sent || status != ending.or) {
        return Err(format!("answered with {status} instead of {}", ending.status));
    }
    let mut rest = String::new();
    if !sent_later {
        rest.push_str(later);
    }
    let second_is_out = case.pipelined && (all_sent || ending.needs_body);
    if !second_is_out {
        if case.pipelined {
            rest.push_str(&case.second());
        } else if !rest.is_empty() {
            let _ = conn.try_send(std::mem::take(&mut rest));
        }
        if !case.pipelined {
            rest = case.second();
        }
    }
    if !rest.is_empty() && conn.try_send(rest).is_err() {
        return Ok(false);
    }
    match response(&mut conn, "POST") {
        None => Ok(false),
        Some((200, head)) if head.to_ascii_lowercase().contains(&format!("x-second: {}\r\n", case.id)) => {
            Ok(true)
        }
        Some((status, head)) => Err(format!("the second request got {status}: {head:?}")),
    }
}

fn setup(server: &Server, endings: &[Ending]) -> Setup {
    let mut lines = vec!["http-request set-var(txn.path) path".to_string()];
    for ending in endings {
        let path =
            if ending.method == "CONNECT" { ending.name.to_string() } else { format!("/{}/", ending.name) };
        let rules = ending
            .rules
            .replace("{if}", &format!("if {{ path_beg {path} }}"))
            .replace("{and}", &format!("{{ path_beg {path} }}"))
            .replace("{seen}", &format!("if {{ var(txn.path) -m beg {path} }}"));
        lines.extend(rules.lines().map(String::from));
    }
    // In the order in which they are evaluated, as the program wants them.
    let order = ["tcp-request", "http-request", "redirect", "use_backend", "http-response"];
    lines.sort_by_key(|line| order.iter().position(|kind| line.starts_with(kind)));
    let mut text = format!("frontend fe\nbind <@fe>\n{}\n", lines.join("\n"));
    let addr = server.addr;
    let _ = write!(
        text,
        "default_backend be
backend be
retries 0
server s {addr}
backend closing
# A connection that the server is about to close must not meet the second request of another case.
http-reuse never
server s {addr}
backend empty
backend refused
retries 0
server s {nobody}
backend redispatched
retries 3
option redispatch 1
server a {nobody}
server b {addr}
backend impatient
timeout server 100ms
server s {addr}
backend full
timeout queue 50ms
timeout server 1h
server s {addr} maxconn 1
backend redirecting
server s {addr} redir http://elsewhere
backend retrying
retries 2
retry-on all-retryable-errors
server s {addr}
frontend hold
bind <@hold>
timeout client 1h
default_backend full
",
        nobody = nobody(),
    );
    Setup::http(&text).defaults("timeout tarpit 20ms")
}

fn run(io: Io) {
    let endings = Arc::new(endings());
    let cases = Arc::new(cases(&endings));
    let seen = Shared::default();
    let (release, hold) = mpsc::channel();
    let script = Script {
        endings: Arc::clone(&endings),
        cases: Arc::clone(&cases),
        seen: Arc::clone(&seen),
        failed: Mutex::default(),
        hold: Mutex::new(hold),
    };
    let server = Server::start(move |conn, _| serve(conn, &script));
    let proxy = setup(&server, &endings).start(io);
    // Takes the only place on the server of a backend.
    let mut hold = Conn::connect(proxy.addr("hold"));
    hold.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
    eventually("the place is taken", || (server.accepted() > 0).then_some(()));
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = play(&proxy, &endings, case, &seen);
                    results.lock().unwrap().insert(case.id, result);
                }
            });
        }
    });
    let results = results.into_inner().unwrap();
    let seen = seen.lock().unwrap();
    let mut failures = seen.wrong.clone();
    for case in &*cases {
        let ending = &endings[case.ending];
        let all_sent = case.sent == case.body.bytes().len();
        let what = format!(
            "{} {:?} {} of {} bytes{}",
            ending.name,
            case.body,
            case.sent,
            case.body.bytes().len(),
            if case.pipelined { ", pipelined" } else { "" }
        );
        match &results[&case.id] {
            Err(error) => failures.push(format!("{what}: {error}")),
            Ok(true) if !seen.seconds.contains(&case.id) => {
                failures.push(format!("{what}: answered by nobody"))
            }
            Ok(false) if all_sent && ending.keeps => failures.push(format!("{what}: not kept")),
            Ok(_) => {}
        }
    }
    let kept = results.values().filter(|r| matches!(r, Ok(true))).count();
    println!("{io}: {} exchanges, {kept} connections kept", cases.len());
    assert!(failures.is_empty(), "{} failures with {io}:\n{}", failures.len(), failures.join("\n"));
    drop(seen);
    drop((hold, release));
    proxy.finish(server);
}

#[test]
fn no_message_ends_inside_another() {
    each_driver(run);
}
