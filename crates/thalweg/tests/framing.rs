//! One message never ends in the middle of another (security rules R2 and R3): every way in which an exchange can end, by
//! a rule, by a failure, by an answer, with every kind of body, of which nothing, a part or all was sent. Then a second
//! request follows on the same connection. It must arrive at the server exactly as it was sent, or the connection must
//! be closed; and the server must never see anything that is not a request of a client.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use support::{Conn, Io, Proxy, Server, Setup, each_driver, eventually, nobody};

/// A way to end an exchange.
struct Ending {
    name: &'static str,
    /// Lines of the frontend that only concern its requests: `{if}` becomes the condition.
    rules: &'static str,
    /// What the server does with the request.
    act: Act,
    /// Nothing comes back before all of the body is there.
    needs_body: bool,
    /// Status of the answer; 0: the connection is closed without one.
    status: u16,
    /// Another status that is right when the body came in pieces.
    or: u16,
    /// After a body that was sent whole, the connection is kept.
    keeps: bool,
    method: &'static str,
    /// More header fields.
    fields: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Reads the body, then sends this.
    Answer(&'static str),
    /// Sends this when it has the head, then reads the body.
    Early(&'static str),
    /// Sends this when it has the head, then closes.
    EarlyClose(&'static str),
    /// Reads the body, sends this, and closes.
    Close(&'static str),
    /// Resets the connection when it has the head.
    ResetAtHead,
    /// Reads the body and never answers.
    Silent,
    /// Fails the first time, as above; answers the second time.
    FailOnce(&'static str),
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const NO: &str = "HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno";
const NO_CLOSE: &str = "HTTP/1.1 413 No\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno";

impl Ending {
    /// A rule that ends the exchange.
    const fn rule(name: &'static str, rules: &'static str, status: u16, keeps: bool) -> Ending {
        Ending {
            name,
            rules,
            act: Act::Answer(OK),
            needs_body: false,
            status,
            or: status,
            keeps,
            method: "POST",
            fields: "",
        }
    }

    /// Something the server does.
    const fn server(name: &'static str, act: Act, status: u16, keeps: bool) -> Ending {
        let needs_body = matches!(act, Act::Answer(_) | Act::Close(_) | Act::Silent);
        Ending { name, rules: "", act, needs_body, status, or: status, keeps, method: "POST", fields: "" }
    }

    const fn under(self, rules: &'static str) -> Ending {
        Ending { rules, ..self }
    }

    /// What is right, too, when the body came in pieces: it is not there to be sent again.
    const fn or(self, or: u16) -> Ending {
        Ending { or, ..self }
    }

    const fn needs_body(self) -> Ending {
        Ending { needs_body: true, ..self }
    }

    const fn acts(self, act: Act) -> Ending {
        Ending { act, ..self }
    }

    const fn asks(self, method: &'static str, fields: &'static str) -> Ending {
        Ending { method, fields, ..self }
    }
}

fn endings() -> Vec<Ending> {
    const EXPECT: &str = "Expect: 100-continue\r\n";
    let rule = Ending::rule;
    let server = Ending::server;
    vec![
        rule("deny", "http-request deny {if}", 403, true),
        rule("deny-status", "http-request deny deny_status 429 {if}", 429, true),
        rule("return", "http-request return status 200 content-type text/plain string x {if}", 200, true),
        rule("return-expect", "http-request return status 200 {if}", 200, true).asks("POST", EXPECT),
        rule("redirect", "http-request redirect location /elsewhere {if}", 302, true),
        rule("redirect-line", "redirect location /elsewhere {if}", 302, true),
        rule("auth", "http-request auth {if}", 401, true),
        rule("reject", "http-request reject {if}", 0, false),
        rule("content-reject", "tcp-request content reject {if}", 0, false),
        rule("silent-drop", "http-request silent-drop {if}", 0, false),
        rule("tarpit", "http-request tarpit {if}", 500, false),
        rule("wait-deny", "http-request wait-for-body time 10s {if}\nhttp-request deny {if}", 403, true)
            .needs_body(),
        rule(
            "wait-some-deny",
            "http-request wait-for-body time 10s at-least 1 {if}\nhttp-request deny {if}",
            403,
            true,
        )
        .needs_body(),
        rule(
            "wait-return-expect",
            "http-request wait-for-body time 10s {if}\nhttp-request return status 200 {if}",
            200,
            true,
        )
        .needs_body()
        .asks("POST", EXPECT),
        rule("look-deny", "http-request deny if { req.body_len ge 0 } {and}", 403, true),
        rule("no-server", "use_backend empty {if}", 503, true),
        rule("refused", "use_backend refused {if}", 503, true),
        rule("redispatched", "use_backend redispatched {if}", 200, true).needs_body(),
        rule("queue", "use_backend full {if}", 503, true),
        rule("server-redirect", "use_backend redirecting {if}", 302, true).asks("GET", ""),
        server("ok", Act::Answer(OK), 200, true),
        server("ok-expect", Act::Answer(OK), 200, true).asks("POST", EXPECT),
        server("put", Act::Answer(OK), 200, true).asks("PUT", ""),
        server("head", Act::Answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"), 200, true)
            .asks("HEAD", ""),
        server("204", Act::Answer("HTTP/1.1 204 No\r\n\r\n"), 204, true),
        server("204-length", Act::Answer("HTTP/1.1 204 No\r\nContent-Length: 7\r\n\r\n"), 204, true),
        server("304", Act::Answer("HTTP/1.1 304 No\r\nContent-Length: 7\r\n\r\n"), 304, true),
        server(
            "chunked",
            Act::Answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n"),
            200,
            true,
        ),
        server("until-close", Act::Close("HTTP/1.1 200 OK\r\n\r\nok"), 200, true),
        server("close-after", Act::Close(OK), 200, true).under("use_backend closing {if}"),
        server(
            "both-framings",
            Act::Close(
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            ),
            200,
            true,
        ),
        server(
            "more-than-length",
            Act::Close("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n"),
            200,
            true,
        ),
        server(
            "interim",
            Act::Answer("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
            200,
            true,
        ),
        server("interim-close", Act::Close("HTTP/1.1 103 Early\r\n\r\n"), 502, true),
        server("upgrade-refused", Act::Answer(OK), 200, true)
            .asks("POST", "Connection: Upgrade\r\nUpgrade: x\r\n"),
        server("connect-refused", Act::Answer(NO), 413, true).asks("CONNECT", ""),
        server("early", Act::Early(NO), 413, true),
        server("early-200", Act::Early(OK), 200, true),
        server("early-expect", Act::Early(NO), 413, true).asks("POST", EXPECT),
        server("early-close", Act::EarlyClose(NO), 413, true).under("use_backend closing {if}"),
        server("early-says-close", Act::EarlyClose(NO_CLOSE), 413, true),
        server("early-until-close", Act::EarlyClose("HTTP/1.1 200 OK\r\n\r\nok"), 200, true),
        server("close-at-head", Act::EarlyClose(""), 502, true),
        server("close", Act::Close(""), 502, true),
        server("close-expect", Act::EarlyClose(""), 502, true).asks("POST", EXPECT),
        server("reset", Act::ResetAtHead, 502, true),
        server("junk-at-head", Act::EarlyClose("junk\r\n\r\n"), 502, true),
        server("junk", Act::Close("junk\r\n\r\n"), 502, true),
        server("half-head", Act::Close("HTTP/1.1 200 OK\r\nContent-"), 502, true),
        server("bad-length", Act::Answer("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), 502, true),
        server("silent", Act::Silent, 504, true).under("use_backend impatient {if}"),
        server("truncated", Act::Close("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok"), 0, false),
        server(
            "bad-chunk",
            Act::Answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"),
            502,
            true,
        ),
        server(
            "cut-chunk",
            Act::Close("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok"),
            0,
            false,
        ),
        server("retry", Act::FailOnce(""), 200, true).under("use_backend retrying {if}").needs_body().or(502),
        server("retry-junk", Act::FailOnce("junk\r\n\r\n"), 200, true)
            .under("use_backend retrying {if}")
            .needs_body()
            .or(502),
        server("retry-503", Act::FailOnce("HTTP/1.1 503 No\r\nContent-Length: 3\r\n\r\nnot"), 200, true)
            .under("use_backend retrying {if}")
            .needs_body()
            .or(503),
        server("res-deny", Act::Answer(OK), 502, true).under("http-response deny {seen}"),
        server("res-deny-early", Act::Early(OK), 502, true).under("http-response deny {seen}"),
        server("res-return", Act::Answer(OK), 200, true).under("http-response return status 200 {seen}"),
        server("res-return-early", Act::Early(OK), 200, true).under("http-response return status 200 {seen}"),
        server("res-return-close", Act::EarlyClose(NO_CLOSE), 200, true)
            .under("http-response return status 200 {seen}"),
        server("res-redirect", Act::Answer(OK), 302, true)
            .under("http-response redirect location /elsewhere {seen}"),
        server("res-wait-deny", Act::Answer(OK), 502, true)
            .under("http-response wait-for-body time 10s {seen}\nhttp-response deny {seen}"),
        server(
            "res-wait-chunks-return",
            Act::Answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
            200,
            true,
        )
        .under("http-response wait-for-body time 10s {seen}\nhttp-response return status 200 {seen}"),
        server("res-status-204", Act::Answer(OK), 204, true).under("http-response set-status 204 {seen}"),
        rule("deny-early", "http-request deny {if}", 403, true).acts(Act::Early(OK)),
    ]
}

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

/// Bodies as they may come, cut into pieces, each with its payload. What follows them belongs to another message.
const BODIES: [(&[&str], &str); 7] = [
    (&["Content-Length: 7\r\n\r\na=1&b=2"], "a=1&b=2"),
    (&["Content-Length: 7\r\n\r\na=1", "&b=2"], "a=1&b=2"),
    (&["Content-Length: 3\r\n\r\na=1&evil=1"], "a=1"),
    (&["Content-Length: 0\r\n\r\nevil=1"], ""),
    (&["Transfer-Encoding: chunked\r\n\r\n3\r\na=1\r\n4;x=y\r\n&b=2\r\n0\r\nT: u\r\n\r\nevil=1"], "a=1&b=2"),
    (&["Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\n=1\r\n4", "\r\n&b", "=2\r\n0\r\n\r\n"], "a=1&b=2"),
    (&["Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n3\r\na=1\r\n0\r\n\r\n"], ""),
];

/// Rules see the payload of this message: no framing, and nothing of what follows it, wherever they are evaluated.
#[test]
fn rules_see_the_payload_of_a_request() {
    each_driver(|io| {
        let (one, two) = (Server::named("one"), Server::named("two"));
        let proxy = Setup::http(&format!(
            "frontend fe
bind <@fe>
http-request wait-for-body time 10s
http-request deny deny_status 403 if {{ req.body -m sub evil }}
http-request return status 200 hdr x-body <%[req.body]> hdr x-len %[req.body_len] hdr x-size %[req.body_size] \
                          hdr x-a <%[req.body_param(a)]> if {{ path /return }}
http-request return status 200 content-type text/plain lf-string %[req.body,length] if {{ path /string }}
http-request redirect location /%[req.body_len] if {{ path /redirect }}
use_backend two if {{ req.body -m str a=1 }}
default_backend be
backend be
use-server two if {{ req.body_param(a) -m str 1 }}
server one {one}
server two {two} weight 0
backend two
server two {two}
",
            one = one.addr,
            two = two.addr
        ))
        .start(io);
        for (pieces, payload) in BODIES {
            let ask = |path: &str| {
                let mut conn = proxy.connect();
                let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\n");
                let form = "Content-Type: application/x-www-form-urlencoded\r\n";
                conn.send(format!("{head}{form}{}", pieces[0]));
                for piece in &pieces[1..] {
                    thread::yield_now();
                    conn.send(piece);
                }
                conn.response()
            };
            let answer = ask("/return");
            let size = payload.len().to_string();
            let seen = ["x-body", "x-len", "x-size", "x-a"].map(|name| answer.field(name));
            let a = if payload.is_empty() { "" } else { "1" };
            assert_eq!(
                seen,
                [format!("<{payload}>"), size.clone(), size.clone(), format!("<{a}>")],
                "{pieces:?}"
            );
            assert_eq!(ask("/string").text(), size, "{pieces:?}");
            assert_eq!(ask("/redirect").field("location"), format!("/{size}"), "{pieces:?}");
            assert_eq!(ask("/").text(), if payload.is_empty() { "one" } else { "two" }, "{pieces:?}");
        }
        // Cut in two chunks it is the same word; behind the message it is another message.
        let denied = proxy.ask(
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nev\r\n2\r\nil\r\n0\r\n\r\n",
        );
        assert_eq!(denied.status, 403);
        let mut conn = proxy.connect();
        conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /evil HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!((conn.response().status, conn.response().status), (200, 200));
        drop(conn);
        proxy.finish((one, two));
    });
}

/// The same for responses, those that end with their connection too.
#[test]
fn rules_see_the_payload_of_a_response() {
    each_driver(|io| {
        let bodies = || BODIES.into_iter().chain([(&["X: y\r\n\r\na=1&", "b=2"][..], "a=1&b=2")]);
        let server = Server::start(move |mut conn, _| {
            let Some(head) = conn.next_head() else { return };
            let which: usize = head.line.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
            let (pieces, _) = bodies().nth(which).unwrap();
            conn.send(format!("HTTP/1.1 200 OK\r\n{}", pieces[0]));
            for piece in &pieces[1..] {
                thread::yield_now();
                let _ = conn.try_send(piece);
            }
        });
        let proxy = Setup::http(&format!(
            "frontend fe
bind <@fe>
default_backend be
backend be
http-response wait-for-body time 10s
http-response deny if {{ res.body -m sub evil }}
http-response set-header x-body <%[res.body]>
http-response set-header x-len %[res.body_len]
http-response set-header x-size %[res.body_size]
server s {}
",
            server.addr
        ))
        .start(io);
        for (which, (pieces, payload)) in bodies().enumerate() {
            let answer = proxy.ask(&format!("GET /{which} HTTP/1.1\r\nHost: h\r\n\r\n"));
            let seen = ["x-body", "x-len", "x-size"].map(|name| answer.field(name));
            let size = payload.len().to_string();
            assert_eq!(seen, [format!("<{payload}>"), size.clone(), size], "{pieces:?}");
            assert_eq!(answer.text(), payload, "{pieces:?}");
        }
        proxy.finish(server);
    });
}

/// A body of 700 kB, framed in one of several ways.
fn large(framing: &str) -> (String, Vec<u8>, Vec<u8>) {
    let payload: Vec<u8> = (0..700_000u32).map(|n| (n % 251) as u8).collect();
    let sizes: &[usize] = match framing {
        "sized" => return (format!("Content-Length: {}\r\n", payload.len()), payload.clone(), payload),
        "one chunk" => &[700_000],
        _ => &[1, 300_000, 70_000, 65_536, 3, 65_535, 16_384, 150_000],
    };
    let mut body = Vec::new();
    let mut rest = &payload[..];
    for size in sizes.iter().cycle() {
        let (chunk, more) = rest.split_at((*size).min(rest.len()));
        body.extend(format!("{:x}\r\n", chunk.len()).bytes());
        body.extend(chunk);
        body.extend(b"\r\n");
        if chunk.is_empty() {
            break;
        }
        rest = more;
    }
    ("Transfer-Encoding: chunked\r\n".into(), body, payload)
}

const FRAMINGS: [&str; 3] = ["sized", "one chunk", "many chunks"];
const SPLICE: [&str; 2] = ["", "option splice-auto"];

/// Long stretches are moved by the kernel's means, and end where their message ends.
#[test]
fn large_bodies_both_ways() {
    each_driver(|io| {
        for (framing, splice) in FRAMINGS.into_iter().flat_map(|f| SPLICE.map(|s| (f, s))) {
            let server = Server::start(move |mut conn, _| {
                while let Some(request) = conn.next_request() {
                    let (field, body, payload) = large(framing);
                    assert!(request.body.is_empty() || request.body == payload, "{framing}");
                    conn.send(format!("HTTP/1.1 200 OK\r\n{field}\r\n"));
                    conn.send(body);
                }
            });
            let text = "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s";
            let proxy = Setup::http(&format!("{text} {}\n", server.addr)).defaults(splice).start(io);
            let mut conn = proxy.connect();
            let (field, body, payload) = large(framing);
            for _ in 0..3 {
                let mut sender = conn.twin();
                thread::scope(|scope| {
                    scope.spawn(|| {
                        sender.send(format!("POST / HTTP/1.1\r\nHost: h\r\n{field}\r\n"));
                        sender.send(&body);
                        sender.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
                    });
                    for _ in 0..2 {
                        assert!(conn.response().body == payload, "{framing} {splice}");
                    }
                });
            }
            drop(conn);
            proxy.finish(server);
        }
    });
}

/// What was taken from the client and never reached the server, in a buffer or in a pipe, was part of the body all the
/// same.
#[test]
fn a_server_that_leaves_in_a_large_body() {
    each_driver(|io| {
        for (framing, splice) in FRAMINGS.into_iter().flat_map(|f| SPLICE.map(|s| (f, s))) {
            let (sender, seen) = mpsc::channel();
            let sender = Mutex::new(sender);
            let server = Server::start(move |mut conn, _| {
                while let Some(head) = conn.next_head() {
                    sender.lock().unwrap().send(head.line.clone()).unwrap();
                    if head.line.starts_with("POST") {
                        // Its buffers fill before it leaves.
                        let _ = conn.try_exactly(100_000);
                        return;
                    }
                    let _ = conn.try_send(OK);
                }
            });
            let text = "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nretries 0\nserver s";
            let proxy = Setup::http(&format!("{text} {}\n", server.addr)).defaults(splice).start(io);
            let (field, body, _) = large(framing);
            for _ in 0..10 {
                let mut conn = proxy.connect();
                let mut other = conn.twin();
                let kept = thread::scope(|scope| {
                    scope.spawn(|| {
                        let _ = other.try_send(format!("POST /first HTTP/1.1\r\nHost: h\r\n{field}\r\n"));
                        let _ = other.try_send(&body);
                        let _ = other.try_send("GET /second HTTP/1.1\r\nHost: h\r\n\r\n");
                    });
                    let first = response(&mut conn, "POST");
                    assert!(first.is_none_or(|(status, _)| status == 502), "{framing} {splice}");
                    response(&mut conn, "GET").inspect(|(status, head)| assert_eq!(*status, 200, "{head}"))
                });
                assert_eq!(seen.recv().unwrap(), "POST /first HTTP/1.1");
                if kept.is_some() {
                    assert_eq!(seen.recv().unwrap(), "GET /second HTTP/1.1");
                }
            }
            assert!(seen.try_recv().is_err(), "{framing} {splice}: the server saw more than was sent");
            proxy.finish(server);
        }
    });
}
