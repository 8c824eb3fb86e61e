//! Exchanges of HTTP/2, made by chance: clients of HTTP/2 before servers of HTTP/1 and HTTP/2, and clients of HTTP/1 before
//! servers of HTTP/2. `EXCHANGES_SEED` gives others, `EXCHANGES_HTTP2` more of them.
//!
//! A name tells what was drawn, so that a known difference can name its kind: `http2/<seed>/<number>/<pair>/<words>`; words of
//! servers begin with `s-`. Moments are spread as in the [mixtures](super::mixtures).

mod clients;
mod frames;
mod heads;
mod servers;

use super::draw::Draw;
use crate::case::{Bytes, Case, http};
use crate::script::{Script, script};

/// The step of all scripts, in milliseconds.
const STEP: u64 = 110;
/// When a client leaves after what it said last.
const LEAVE: u64 = STEP + STEP / 2;
/// How long a client that gave a stream up looks for what still comes.
const LOOK: u64 = 2 * STEP;

/// All that is received, but not the numbers of bytes: they depend on each program's own form of a head.
const WITHOUT_AMOUNTS: Bytes = Bytes::Start(usize::MAX);

/// A word, the section that its lines go to, and the lines.
type Setting = (&'static str, char, &'static str);

const SETTINGS: &[Setting] = &[
    ("abortonclose", 'b', "option abortonclose"),
    ("no-abortonclose", 'b', "no option abortonclose"),
    ("httpclose", 'd', "option httpclose"),
    ("server-close", 'd', "option http-server-close"),
    ("reuse-never", 'b', "http-reuse never"),
    ("reuse-always", 'b', "http-reuse always"),
    ("retry", 'b', "retry-on all-retryable-errors"),
    ("buffered", 'f', "option http-buffer-request"),
    ("forwardfor", 'd', "option forwardfor"),
    ("deny-post", 'f', "http-request deny if METH_POST"),
    ("return", 'f', "http-request return status 200 content-type text/plain string own if METH_GET"),
    ("redirect", 'f', "http-request redirect location /x if METH_GET"),
    ("silent-drop", 'f', "http-request silent-drop if METH_POST"),
    ("reject", 'f', "http-request reject if METH_POST"),
    ("set-header", 'f', "http-request set-header X-A %[path]\nhttp-response set-header X-B %[status]"),
    ("set-path", 'f', "http-request set-path /new"),
    ("set-method", 'f', "http-request set-method GET"),
    ("early-hint", 'f', "http-request early-hint Link </e>"),
    ("response-deny", 'b', "http-response deny if { status 404 }"),
    ("wait-for-body", 'f', "http-request wait-for-body time 260"),
    ("no-disable-h2", 'f', "option http-ignore-probes"),
    ("restrict", 'f', "option http-restrict-req-hdr-names reject"),
    ("relaxed", 'f', "option accept-unsafe-violations-in-http-request"),
    (
        "base",
        'f',
        "http-request set-header X-Base %[base]|%[url]|%[pathq]|%[req.ver]|%[req.hdrs_bin,bytes(0,1),hex]",
    ),
];

/// Requests of HTTP/1 for servers of HTTP/2.
const REQUESTS: &[(&str, &str)] = &[
    ("get", "GET /g HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("get-1.0", "GET /g HTTP/1.0\r\n\r\n"),
    ("get-absolute", "GET http://h.example:80/g?x HTTP/1.1\r\nHost: h.example\r\n\r\n"),
    ("get-https", "GET https://h.example/g HTTP/1.1\r\nHost: h.example\r\n\r\n"),
    ("head", "HEAD /g HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("options", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("cookies", "GET /g HTTP/1.1\r\nHost: h\r\nCookie: a=1; b=2\r\nCookie: c=3\r\n\r\n"),
    (
        "hop-by-hop",
        "GET /g HTTP/1.1\r\nHost: h\r\nConnection: x-hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\n\r\n",
    ),
    ("te", "GET /g HTTP/1.1\r\nHost: h\r\nTE: trailers, gzip\r\nConnection: te\r\n\r\n"),
    ("names", "GET /g HTTP/1.1\r\nHost: h\r\nX-UPPER: A\r\nx_under:  b \r\nEmpty:\r\n\r\n"),
    ("post", "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"),
    ("post-empty", "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"),
    ("expect", "POST /p HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"),
    (
        "chunked",
        "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
    ),
    (
        "trailers",
        "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\nHost: x\r\n\r\n",
    ),
    (
        "websocket",
        "GET /w HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    ),
    ("upgrade", "GET /w HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n"),
    (
        "h2c",
        "GET /g HTTP/1.1\r\nHost: h\r\nConnection: upgrade, http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
    ),
    ("connect", "CONNECT h.example:443 HTTP/1.1\r\nHost: h.example:443\r\n\r\n"),
    ("own-method", "PROPFIND /g HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok"),
];

fn http1_client(draw: &mut Draw, words: &mut Vec<String>) -> Script {
    let mut out = script();
    let count = *draw.one(&[1, 1, 1, 2, 2, 3]);
    for n in 0..count {
        let (word, bytes) = *draw.one(REQUESTS);
        words.push(word.into());
        let last = n + 1 == count;
        out = match draw.below(10) {
            0 => {
                let cut = 1 + draw.below(bytes.len() - 1);
                words.push("in-pieces".into());
                out.send(&bytes[..cut]).pause(STEP).send(&bytes[cut..])
            }
            _ => out.send(bytes),
        };
        let (word, next) = match draw.below(14) {
            0 if last => ("half-closes", out.half_close().look(2 * LOOK)),
            1 if last => ("closes", out.pause(LEAVE).close()),
            2 if last => ("breaks", out.pause(LEAVE).reset()),
            _ if word == "head" || word == "connect" => ("", out.head().pause(STEP)),
            _ => ("", out.look(2 * STEP)),
        };
        if !word.is_empty() {
            words.push(word.into());
        }
        out = next;
    }
    out
}

/// One case: a pair of versions, a client, a server and at most two settings.
fn case(seed: u64, number: usize) -> Case {
    let mut draw = Draw::new(seed, number);
    let mut words = Vec::new();
    let (pair, clients_2, servers_2) =
        *draw.one(&[("2-1", true, false), ("2-1", true, false), ("2-2", true, true), ("1-2", false, true)]);
    let client = match clients_2 {
        true => clients::client(&mut draw, &mut words),
        false => http1_client(&mut draw, &mut words),
    };
    let (options, server) = match servers_2 {
        true => ("proto h2", servers::http2(&mut draw, &mut words)),
        false => ("", servers::http1(&mut draw, &mut words)),
    };
    let mut case = http("")
        .client(client)
        .server_of(options, server)
        .defaults("timeout server 750")
        .compare(WITHOUT_AMOUNTS)
        .loosely();
    while draw.chance(25) && words.len() < 16 {
        let (word, section, lines) = *draw.one(SETTINGS);
        if words.iter().any(|before| before == word) {
            break;
        }
        words.push(word.into());
        case = match section {
            'd' => case.defaults(lines),
            'f' => case.front(lines),
            _ => case.back(lines),
        };
    }
    case.name = format!("http2/{seed}/{number}/{pair}/{}", words.join("/"));
    case
}

pub fn cases(seed: u64, number: usize) -> Vec<Case> {
    (0..number).map(|i| case(seed, i)).collect()
}
