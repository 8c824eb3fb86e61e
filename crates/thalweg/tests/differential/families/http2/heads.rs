//! Heads of requests: good ones, and what makes them borderline or bad.

use crate::families::draw::Draw;

/// A header list to be sent.
#[derive(Clone, Debug, Default)]
pub struct List(pub Vec<(Vec<u8>, Vec<u8>)>);

impl List {
    pub fn of(fields: &[(&str, &str)]) -> List {
        let mut list = List::default();
        for (name, value) in fields {
            list.add(name, value);
        }
        list
    }

    pub fn add(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.0.push((name.as_ref().to_vec(), value.as_ref().to_vec()));
    }

    pub fn first(&mut self, name: &str, value: impl AsRef<[u8]>) {
        self.0.insert(0, (name.as_bytes().to_vec(), value.as_ref().to_vec()));
    }

    pub fn set(&mut self, name: &str, value: impl AsRef<[u8]>) {
        match self.0.iter_mut().find(|(n, _)| n == name.as_bytes()) {
            Some((_, v)) => *v = value.as_ref().to_vec(),
            None => self.first(name, value),
        }
    }

    pub fn drop(&mut self, name: &str) {
        self.0.retain(|(n, _)| n != name.as_bytes());
    }
}

/// A word, and what it does to a list.
pub type Change = (&'static str, fn(&mut List));

/// The lists that all others are made from.
pub const REQUESTS: &[(&str, &[(&str, &str)])] = &[
    ("get", &[(":method", "GET"), (":scheme", "http"), (":authority", "h.example"), (":path", "/g")]),
    ("get", &[(":method", "GET"), (":scheme", "http"), (":authority", "h.example"), (":path", "/g?a=b&c")]),
    ("head", &[(":method", "HEAD"), (":scheme", "http"), (":authority", "h.example"), (":path", "/h")]),
    ("post", &[(":method", "POST"), (":scheme", "http"), (":authority", "h.example"), (":path", "/p")]),
    ("post", &[(":method", "POST"), (":scheme", "https"), (":authority", "h.example:8443"), (":path", "/p")]),
    ("put", &[(":method", "PUT"), (":scheme", "http"), (":authority", "h.example"), (":path", "/u")]),
    ("delete", &[(":method", "DELETE"), (":scheme", "http"), (":authority", "h.example"), (":path", "/d")]),
    ("options", &[(":method", "OPTIONS"), (":scheme", "http"), (":authority", "h.example"), (":path", "*")]),
    ("connect", &[(":method", "CONNECT"), (":authority", "h.example:443")]),
    (
        "extended",
        &[
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "http"),
            (":authority", "h.example"),
            (":path", "/ws"),
            ("sec-websocket-version", "13"),
        ],
    ),
];

/// What clients do.
pub const FINE: &[Change] = &[
    ("cookie", |l| l.add("cookie", "a=1; b=2")),
    ("cookies", |l| {
        l.add("cookie", "a=1");
        l.add("x-between", "1");
        l.add("cookie", "b=2");
        l.add("cookie", "c=3");
    }),
    ("cookie-empty", |l| {
        l.add("cookie", "a=1");
        l.add("cookie", "");
        l.add("cookie", "b=2");
    }),
    ("te-trailers", |l| l.add("te", "trailers")),
    ("te-upper", |l| l.add("te", "Trailers")),
    ("expect", |l| l.add("expect", "100-continue")),
    ("expect-other", |l| l.add("expect", "something")),
    ("accept", |l| {
        l.add("accept", "text/html");
        l.add("accept", "*/*");
        l.add("user-agent", "test/1");
        l.add("accept-encoding", "gzip, br");
    }),
    ("host-same", |l| l.add("host", "h.example")),
    ("host-only", |l| {
        l.drop(":authority");
        l.add("host", "h.example");
    }),
    ("host-only-port", |l| {
        l.drop(":authority");
        l.add("host", "h.example:8080");
    }),
    ("no-host", |l| l.drop(":authority")),
    ("https", |l| l.set(":scheme", "https")),
    ("port-80", |l| l.set(":authority", "h.example:80")),
    ("port-443", |l| {
        l.set(":scheme", "https");
        l.set(":authority", "h.example:443");
    }),
    ("authority-upper", |l| l.set(":authority", "H.Example")),
    ("authority-v6", |l| l.set(":authority", "[::1]:8080")),
    ("authority-dot", |l| l.set(":authority", "h.example.")),
    ("path-slashes", |l| l.set(":path", "//a///b")),
    ("path-dots", |l| l.set(":path", "/a/../b/./c")),
    ("path-percent", |l| l.set(":path", "/a%2fb%zz%")),
    ("path-query", |l| l.set(":path", "/?a=/b?c&%20")),
    ("path-odd", |l| l.set(":path", "/a|b\"c<d>{e}`^\\")),
    ("path-long", |l| l.set(":path", format!("/{}", "p".repeat(4000)))),
    ("value-empty", |l| l.add("x-empty", "")),
    ("value-blanks", |l| l.add("x-blanks", "a  b\tc")),
    ("value-high", |l| l.add("x-high", b"caf\xc3\xa9 \xff")),
    ("value-commas", |l| {
        l.add("x-list", "a, b");
        l.add("x-list", "c");
    }),
    ("name-odd", |l| l.add("x-!#$%&'*+.^_`|~1", "1")),
    ("fields-60", |l| (0..60).for_each(|i| l.add(format!("x-{i}"), "v"))),
    ("value-8k", |l| l.add("x-long", "v".repeat(8000))),
    ("method-own", |l| l.set(":method", "PROPFIND")),
    ("method-lower", |l| l.set(":method", "get")),
    ("authorization", |l| l.add("authorization", "Basic dTpw")),
    ("range", |l| l.add("range", "bytes=0-1")),
    ("forwarded", |l| l.add("x-forwarded-for", "192.0.2.1")),
    ("via", |l| l.add("via", "2 other")),
    ("max-forwards", |l| l.add("max-forwards", "0")),
    ("priority", |l| l.add("priority", "u=1, i")),
    ("trailer", |l| l.add("trailer", "x-sum")),
    ("scheme-last", |l| {
        let scheme = l.0.iter().position(|(n, _)| n == b":scheme");
        if let Some(at) = scheme {
            let field = l.0.remove(at);
            let last = l.0.iter().take_while(|(n, _)| n.starts_with(b":")).count();
            l.0.insert(last, field);
        }
    }),
];

/// What no client should do.
pub const BAD: &[Change] = &[
    ("no-method", |l| l.drop(":method")),
    ("no-scheme", |l| l.drop(":scheme")),
    ("no-path", |l| l.drop(":path")),
    ("method-twice", |l| l.first(":method", "GET")),
    ("path-twice", |l| l.first(":path", "/other")),
    ("scheme-twice", |l| l.first(":scheme", "http")),
    ("authority-twice", |l| l.first(":authority", "h.example")),
    ("method-empty", |l| l.set(":method", "")),
    ("path-empty", |l| l.set(":path", "")),
    ("scheme-empty", |l| l.set(":scheme", "")),
    ("authority-empty", |l| l.set(":authority", "")),
    ("method-blank", |l| l.set(":method", "G ET")),
    ("method-crlf", |l| l.set(":method", "GET / HTTP/1.1\r\nx: ")),
    ("method-bad", |l| l.set(":method", "G(T")),
    ("method-pri", |l| l.set(":method", "PRI")),
    ("method-high", |l| l.set(":method", b"G\xc3T")),
    ("scheme-ftp", |l| l.set(":scheme", "ftp")),
    ("scheme-upper", |l| l.set(":scheme", "HTTP")),
    ("scheme-colon", |l| l.set(":scheme", "http://x")),
    ("scheme-digit", |l| l.set(":scheme", "1http")),
    ("path-relative", |l| l.set(":path", "g")),
    ("path-absolute", |l| l.set(":path", "http://other.example/g")),
    ("path-star", |l| l.set(":path", "*")),
    ("path-blank", |l| l.set(":path", "/a b")),
    ("path-fragment", |l| l.set(":path", "/a#b")),
    ("path-nul", |l| l.set(":path", "/a\0b")),
    ("path-crlf", |l| l.set(":path", "/ HTTP/1.1\r\nx: y")),
    ("path-tab", |l| l.set(":path", "/a\tb")),
    ("path-high", |l| l.set(":path", b"/caf\xc3\xa9")),
    ("path-delete", |l| l.set(":path", "/a\x7fb")),
    ("authority-user", |l| l.set(":authority", "u:p@h.example")),
    ("authority-slash", |l| l.set(":authority", "h.example/x")),
    ("authority-blank", |l| l.set(":authority", "h example")),
    ("authority-query", |l| l.set(":authority", "h.example?x")),
    ("authority-crlf", |l| l.set(":authority", "h.example\r\nx: y")),
    ("authority-high", |l| l.set(":authority", b"h\xff.example")),
    ("authority-port", |l| l.set(":authority", "h.example:port")),
    ("authority-port-large", |l| l.set(":authority", "h.example:99999")),
    ("authority-port-empty", |l| l.set(":authority", "h.example:")),
    ("pseudo-unknown", |l| l.first(":other", "1")),
    ("pseudo-status", |l| l.first(":status", "200")),
    ("pseudo-protocol", |l| l.first(":protocol", "websocket")),
    ("pseudo-late", |l| {
        let path = l.0.iter().position(|(n, _)| n == b":path");
        if let Some(at) = path {
            let field = l.0.remove(at);
            l.add("x-first", "1");
            l.0.push(field);
        }
    }),
    ("pseudo-upper", |l| l.first(":Method", "GET")),
    ("pseudo-colon", |l| l.first(":", "x")),
    ("name-upper", |l| l.add("X-Upper", "1")),
    ("name-blank", |l| l.add("x blank", "1")),
    ("name-end-blank", |l| l.add("x-end ", "1")),
    ("name-colon", |l| l.add("x:colon", "1")),
    ("name-empty", |l| l.add("", "1")),
    ("name-nul", |l| l.add("x\0", "1")),
    ("name-crlf", |l| l.add("x\r\ny", "1")),
    ("name-high", |l| l.add(b"x-\xc3\xa9", "1")),
    ("name-delete", |l| l.add("x\x7f", "1")),
    ("value-crlf", |l| l.add("x-value", "a\r\nx-other: 1")),
    ("value-lf", |l| l.add("x-value", "a\nb")),
    ("value-cr", |l| l.add("x-value", "a\rb")),
    ("value-nul", |l| l.add("x-value", "a\0b")),
    ("value-leading", |l| l.add("x-value", " a")),
    ("value-trailing", |l| l.add("x-value", "a \t")),
    ("value-control", |l| l.add("x-value", "a\x01b")),
    ("value-delete", |l| l.add("x-value", "a\x7fb")),
    ("connection", |l| l.add("connection", "close")),
    ("connection-x", |l| {
        l.add("connection", "x-hop");
        l.add("x-hop", "1");
    }),
    ("keep-alive", |l| l.add("keep-alive", "timeout=5")),
    ("proxy-connection", |l| l.add("proxy-connection", "keep-alive")),
    ("transfer-encoding", |l| l.add("transfer-encoding", "chunked")),
    ("upgrade", |l| l.add("upgrade", "websocket")),
    ("te-gzip", |l| l.add("te", "gzip")),
    ("te-both", |l| l.add("te", "trailers, gzip")),
    ("te-twice", |l| {
        l.add("te", "trailers");
        l.add("te", "gzip");
    }),
    ("http2-settings", |l| l.add("http2-settings", "AAMAAABk")),
    ("host-other", |l| l.add("host", "other.example")),
    ("host-twice", |l| {
        l.drop(":authority");
        l.add("host", "h.example");
        l.add("host", "other.example");
    }),
    ("host-twice-same", |l| {
        l.drop(":authority");
        l.add("host", "h.example");
        l.add("host", "h.example");
    }),
    ("host-empty", |l| {
        l.drop(":authority");
        l.add("host", "");
    }),
    ("host-bad", |l| {
        l.drop(":authority");
        l.add("host", "h example");
    }),
    ("host-port-differs", |l| l.add("host", "h.example:81")),
    ("length-word", |l| l.add("content-length", "five")),
    ("length-plus", |l| l.add("content-length", "+5")),
    ("length-minus", |l| l.add("content-length", "-5")),
    ("length-empty", |l| l.add("content-length", "")),
    ("length-huge", |l| l.add("content-length", "99999999999999999999")),
    ("length-list", |l| l.add("content-length", "5, 5")),
    ("length-list-differs", |l| l.add("content-length", "5, 6")),
    ("length-twice", |l| {
        l.add("content-length", "5");
        l.add("content-length", "5");
    }),
    ("length-twice-differs", |l| {
        l.add("content-length", "5");
        l.add("content-length", "6");
    }),
    ("length-hex", |l| l.add("content-length", "0x5")),
    ("length-dot", |l| l.add("content-length", "5.0")),
    ("length-zeros", |l| l.add("content-length", "0005")),
    ("fields-110", |l| (0..110).for_each(|i| l.add(format!("x-{i}"), "v"))),
    ("value-17k", |l| l.add("x-long", "v".repeat(17_000))),
    ("values-20k", |l| (0..20).for_each(|i| l.add(format!("x-{i}"), "v".repeat(1000)))),
    ("path-17k", |l| l.set(":path", format!("/{}", "p".repeat(17_000)))),
    ("connect-with-path", |l| l.set(":method", "CONNECT")),
    ("protocol-h2c", |l| {
        l.set(":method", "CONNECT");
        l.first(":protocol", "h2c");
    }),
    ("protocol-bad", |l| {
        l.set(":method", "CONNECT");
        l.first(":protocol", "web socket");
    }),
    ("protocol-other", |l| {
        l.set(":method", "CONNECT");
        l.first(":protocol", "connect-udp");
    }),
];

/// Draws the head of a request, and says in words what was drawn.
pub fn request(draw: &mut Draw, words: &mut Vec<String>) -> List {
    let (word, fields) = *draw.one(REQUESTS);
    words.push(word.into());
    let mut list = List::of(fields);
    let mut change = |changes: &[Change], draw: &mut Draw| {
        let (word, change) = *draw.one(changes);
        words.push(word.into());
        change(&mut list);
    };
    match draw.below(10) {
        0..3 => {}
        3..6 => change(FINE, draw),
        6 => {
            change(FINE, draw);
            change(FINE, draw);
        }
        _ => change(BAD, draw),
    }
    list
}
