//! Mixtures made by chance: what a client does, what its servers do and what the configuration says, drawn from what the
//! other families have. `EXCHANGES_SEED` gives others, `EXCHANGES_MIXTURES` more of them.
//!
//! A name tells what was drawn, so that a known difference can name its kind: `mix/<seed>/<number>/<mode>/<words>`.
//!
//! Whatever scripts do happens at multiples of 55 ms, and what a timeout, or a delay and a timeout behind it, end at is at least 10
//! ms off those (`moments_are_apart`): two things never happen at the same moment by design, which would only show who is
//! faster. For the same reason a connection is not ended, closed or reset right behind what was sent on it.

use super::draw::Draw;
use crate::case::{Case, Kind, http, tcp};
use crate::script::{Script, get, script};

/// The step of all scripts, in milliseconds.
const STEP: u64 = 110;
/// When a client leaves after what it said last.
const LEAVE: u64 = STEP + STEP / 2;
/// How long a client looks for what still comes.
const LOOK: u64 = 4 * STEP;

/// What was drawn so far.
struct Mix {
    case: Case,
    words: Vec<String>,
    /// There may be two clients. Whether they meet depends on the machine, so that only who looks can judge what differs.
    crowded: bool,
}

pub fn cases(seed: u64, number: usize, crowded: bool) -> Vec<Case> {
    (0..number)
        .map(|i| {
            let mut draw = Draw::new(seed, i);
            let http = draw.chance(75);
            let mut mix =
                Mix { case: if http { self::http("") } else { tcp("") }, words: Vec::new(), crowded };
            if http {
                http_parts(&mut draw, &mut mix);
            } else {
                tcp_parts(&mut draw, &mut mix);
            }
            let mode = if http { "http" } else { "tcp" };
            mix.case.name = format!("mix/{seed}/{i}/{mode}/{}", mix.words.join("/"));
            mix.case
        })
        .collect()
}

impl Mix {
    fn word(&mut self, word: &str) {
        self.words.push(word.to_string());
    }

    fn change(&mut self, change: impl FnOnce(Case) -> Case) {
        let case = std::mem::replace(&mut self.case, http(""));
        self.case = change(case);
    }
}

/// The first one is of an HTTP/1.0 client.
const REQUESTS: &[(&str, &str)] = &[
    ("get-1.0", "GET /g HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n"),
    ("get", "GET /g HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("get-close", "GET /g HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
    ("get-cookie", "GET /g HTTP/1.1\r\nHost: h\r\nCookie: S=a; other=1\r\n\r\n"),
    ("post", "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"),
    ("post-empty", "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"),
    (
        "chunked",
        "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    ),
    ("put", "PUT /u HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\nhello, world"),
    ("delete", "DELETE /d HTTP/1.1\r\nHost: h\r\n\r\n"),
];

const RESPONSES: &[(&str, &str)] = &[
    ("sized", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    ("empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ("chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"),
    ("204", "HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n"),
    ("304", "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n"),
    ("404", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"),
    ("500", "HTTP/1.1 500 Broken\r\nContent-Length: 2\r\n\r\nno"),
    ("103", "HTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    ("cookie", "HTTP/1.1 200 OK\r\nSet-Cookie: S=x; path=/\r\nContent-Length: 5\r\n\r\nhello"),
];

/// A response that announces the end of its connection.
const CLOSE: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";

/// A word, the section that its lines go to, and the lines.
type Setting = (&'static str, char, &'static str);

/// Of each group one at most.
const SETTINGS: &[&[Setting]] = &[
    &[("abortonclose", 'b', "option abortonclose"), ("no-abortonclose", 'b', "no option abortonclose")],
    &[("server-close", 'd', "option http-server-close"), ("httpclose", 'd', "option httpclose")],
    &[("reuse-never", 'b', "http-reuse never"), ("reuse-always", 'b', "http-reuse always")],
    &[("no-retries", 'b', "retries 0")],
    &[("redispatch", 'b', "option redispatch 1")],
    &[
        ("retry-empty", 'b', "retry-on empty-response conn-failure"),
        ("retry-500", 'b', "retry-on 500 404 response-timeout"),
    ],
    &[("buffered", 'f', "option http-buffer-request")],
    &[("forwardfor", 'd', "option forwardfor")],
    &[("deny-post", 'f', "http-request deny if METH_POST")],
    &[(
        "return-delete",
        'b',
        "http-request return status 200 content-type text/plain string gone if { method DELETE }",
    )],
    &[("redirect-get", 'f', "http-request redirect location /x if { path /g } { req.hdr(cookie) -m found }")],
    &[("set-header", 'f', "http-request set-header X-A %[path]\nhttp-response set-header X-B %[status]")],
    &[("after-header", 'f', "http-after-response set-header X-C 1")],
    &[("response-deny", 'b', "http-response deny if { status 404 }")],
    &[("wait-for-body", 'f', "http-request wait-for-body time 233")],
    &[("insert", 'b', "cookie S insert indirect nocache"), ("rewrite", 'b', "cookie S rewrite")],
    &[("capture", 'f', "capture request header Host len 5\ncapture response header X-A len 5")],
    &[("content-accept", 'f', "tcp-request inspect-delay 178\ntcp-request content accept if HTTP")],
    &[("pause", 'f', "http-request pause 68")],
    &[("pretend", 'b', "option http-pretend-keepalive")],
    &[("ignore-probes", 'f', "option http-ignore-probes")],
    &[("dontlognull", 'f', "option dontlognull")],
    &[("source", 'b', "balance source"), ("uri", 'b', "balance uri")],
    &[("client-short", 'd', "timeout client 250"), ("client-long", 'd', "timeout client 800")],
    &[("server-short", 'd', "timeout server 300"), ("server-long", 'd', "timeout server 905")],
    &[("request-timeout", 'f', "timeout http-request 300")],
    &[("keep-alive-timeout", 'f', "timeout http-keep-alive 360")],
    &[("queue-timeout", 'b', "timeout queue 355")],
    &[("errorfile", 'd', "http-error status 503 content-type text/plain string sorry")],
];

fn settings(draw: &mut Draw, mix: &mut Mix, of: &[&[Setting]], percent: usize) {
    for group in of {
        if !draw.chance(percent) {
            continue;
        }
        let (word, section, lines) = draw.one(group);
        mix.word(word);
        mix.change(|case| match section {
            'd' => case.defaults(lines),
            'f' => case.front(lines),
            _ => case.back(lines),
        });
    }
}

fn http_parts(draw: &mut Draw, mix: &mut Mix) {
    let servers = if draw.chance(30) { 2 } else { 1 };
    for i in 0..servers {
        let mut options = String::new();
        if draw.chance(10) {
            options.push_str("maxconn 1 ");
            mix.word("maxconn");
        }
        if i == 1 && draw.chance(30) {
            options.push_str("backup ");
            mix.word("backup");
        }
        options.push_str(if i == 0 { "cookie a" } else { "cookie b" });
        let (word, kind) = http_server(draw);
        mix.word(&format!("s{}-{word}", i + 1));
        mix.change(|case| case.server_of(&options, kind));
    }
    settings(draw, mix, SETTINGS, 7);
    // What HTTP/1.0 clients get of these is known to differ.
    let modern = mix.words.iter().any(|word| word.contains("-chunks") || word.contains("-103"));
    let clients = clients(draw, mix);
    for i in 0..clients {
        let mut client = if i == 0 { script() } else { script().pause(STEP / 2) };
        let count = 1 + draw.below(3);
        for n in 0..count {
            let requests = if modern { &REQUESTS[1..] } else { REQUESTS };
            let (word, bytes) = *draw.one(requests);
            let last = n + 1 == count;
            let (word, next) = match draw.below(10) {
                0..5 => (word.to_string(), script().send(bytes)),
                5..7 => {
                    let cut = 1 + draw.below(bytes.len() - 1);
                    (
                        format!("{word}-in-pieces"),
                        script().send(&bytes[..cut]).pause(STEP).send(&bytes[cut..]),
                    )
                }
                7 => (format!("{word}-and-more"), script().send(format!("{bytes}{}", get("/more")))),
                8 if last => {
                    let cut = 1 + draw.below(bytes.len() - 1);
                    (format!("{word}-cut"), script().send(&bytes[..cut]))
                }
                _ => (word.to_string(), script().send(bytes)),
            };
            mix.word(&word);
            client = client.chain(next);
            if !last {
                client = client.look(2 * STEP);
            }
        }
        let (word, client) = end_of_client(draw, client);
        mix.word(word);
        mix.change(|case| case.client(client));
    }
}

/// How many clients there are.
fn clients(draw: &mut Draw, mix: &mut Mix) -> usize {
    if !draw.chance(25) || !mix.crowded {
        return 1;
    }
    mix.word("two-clients");
    2
}

fn end_of_client(draw: &mut Draw, client: Script) -> (&'static str, Script) {
    match draw.below(10) {
        0..5 => ("client-stays", client.look(LOOK + STEP)),
        5 => ("client-half-close", client.pause(STEP / 2).half_close().look(LOOK)),
        6 => ("client-half-close-later", client.pause(LEAVE).half_close().look(LOOK)),
        7 | 8 => ("client-close", client.pause(LEAVE).close()),
        _ => ("client-reset", client.pause(LEAVE).reset()),
    }
}

fn http_server(draw: &mut Draw) -> (String, Kind) {
    let (word, bytes) = *draw.one(RESPONSES);
    let head = bytes.find("\r\n\r\n").map_or(bytes.len(), |at| at + 4);
    let plays = |script: Script| Kind::Plays(vec![script]);
    let again = |steps: Script| plays(script().forever(steps));
    match draw.below(20) {
        0..8 => (word.into(), again(script().message().send(bytes))),
        8 | 9 => (format!("{word}-late"), again(script().message().pause(2 * STEP).send(bytes))),
        10 | 11 => {
            let cut = 1 + draw.below(bytes.len() - 1);
            let pieces = script().message().send(&bytes[..cut]).pause(STEP).send(&bytes[cut..]);
            (format!("{word}-in-pieces"), again(pieces))
        }
        12 => ("close".into(), plays(script().message().send(CLOSE).pause(STEP / 2).close())),
        13 => ("mute".into(), plays(script().message().end())),
        14 => {
            let cut = 1 + draw.below(head - 1);
            ("head-cut".into(), plays(script().message().send(&bytes[..cut]).pause(STEP).close()))
        }
        15 => ("closes".into(), plays(script().message().pause(STEP).close())),
        16 => ("resets".into(), plays(script().message().pause(STEP).reset())),
        17 => {
            let start = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n12345";
            ("body-cut".into(), plays(script().message().send(start).pause(STEP).close()))
        }
        18 => ("refuses".into(), Kind::Refuses),
        _ => {
            let start = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n12345";
            ("body-stops".into(), plays(script().message().send(start).end()))
        }
    }
}

const TCP_SETTINGS: &[&[Setting]] = &[
    &[("abortonclose", 'b', "option abortonclose")],
    &[("no-retries", 'b', "retries 0")],
    &[("redispatch", 'b', "option redispatch 1")],
    &[("client-short", 'd', "timeout client 250")],
    &[("server-short", 'd', "timeout server 300")],
    &[("tunnel", 'd', "timeout tunnel 360")],
    &[("client-fin", 'd', "timeout client-fin 300")],
    &[("server-fin", 'd', "timeout server-fin 355")],
    &[("queue-timeout", 'b', "timeout queue 355")],
    &[("inspect", 'f', "tcp-request inspect-delay 178\ntcp-request content accept if { req.len gt 3 }")],
    &[(
        "inspect-reject",
        'f',
        "tcp-request inspect-delay 178\ntcp-request content reject if { req.payload(0,2) -m str no }",
    )],
    &[(
        "response-inspect",
        'b',
        "tcp-response inspect-delay 178\ntcp-response content accept if { res.len gt 2 }",
    )],
    &[(
        "response-reject",
        'b',
        "tcp-response inspect-delay 178\ntcp-response content reject if { res.payload(0,2) -m str no }",
    )],
    &[("dontlognull", 'f', "option dontlognull")],
    &[("logasap", 'f', "option logasap")],
    &[("source", 'b', "balance source")],
    &[("clitcpka", 'd', "option tcpka")],
];

fn tcp_parts(draw: &mut Draw, mix: &mut Mix) {
    let servers = if draw.chance(25) { 2 } else { 1 };
    for i in 0..servers {
        let options = if draw.chance(15) { "maxconn 1" } else { "" };
        if !options.is_empty() {
            mix.word("maxconn");
        }
        let greeting = *draw.one(&["", "", "welcome", "no"]);
        let start = if greeting.is_empty() { script() } else { script().send(greeting).pause(STEP) };
        let plays = |script: Script| Kind::Plays(vec![script]);
        let (word, kind) = match draw.below(12) {
            0..3 => ("listens", plays(start.end())),
            3 | 4 => ("answers", plays(start.exactly(2).send("answer").end())),
            5 => ("answers-late", plays(start.exactly(2).pause(2 * STEP).send("answer").end())),
            6 => ("half-closes", plays(start.exactly(2).send("bye").half_close().end())),
            7 => ("closes", plays(start.exactly(2).send("bye").pause(STEP).close())),
            8 => ("resets", plays(start.exactly(2).pause(STEP).reset())),
            9 => ("goes-on", plays(start.trickle(&["a"; 5], STEP).end())),
            10 => ("refuses", Kind::Refuses),
            _ => ("closes-at-once", plays(start.pause(STEP).close())),
        };
        mix.word(&format!("s{}-{word}{}", i + 1, if greeting.is_empty() { "" } else { "-greets" }));
        mix.change(|case| case.server_of(options, kind));
    }
    settings(draw, mix, TCP_SETTINGS, 10);
    let clients = clients(draw, mix);
    for i in 0..clients {
        let mut client = if i == 0 { script() } else { script().pause(STEP / 2) };
        for _ in 0..draw.below(4) {
            let (word, bytes) = *draw.one(&[("h", "hello"), ("n", "nothing"), ("a", "a"), ("q", "quit\r\n")]);
            mix.word(word);
            client = client.send(bytes);
            if draw.chance(60) {
                client = client.pause(STEP);
            }
        }
        let (word, client) = end_of_client(draw, client);
        mix.word(word);
        mix.change(|case| case.client(client));
    }
}
