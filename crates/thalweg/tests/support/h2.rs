//! A client of HTTP/2 for the black-box tests: one that keeps to the protocol, and frames for those that do not.

use std::collections::BTreeMap;

use thalweg_h2::connection::{Config, Connection, Event, Role};
use thalweg_h2::error::ErrorCode;
use thalweg_h2::frame::{self, HEADER_LEN, Header, Kind, PREFACE};
use thalweg_h2::settings::Settings;
use thalweg_http::{Head, Version};

use super::{Conn, Proxy};

/// What came of one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    pub interim: Vec<u16>,
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    /// All of it came.
    pub whole: bool,
    pub reset: Option<ErrorCode>,
}

impl Answer {
    pub fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn fields(head: &Head) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    head.fields().map(|field| (text(field.name), text(field.value))).collect()
}

/// A client of a proxy.
pub struct Client {
    pub conn: Conn,
    pub h2: Connection,
    answers: BTreeMap<u32, Answer>,
    /// What the proxy said of the connection's end: the last stream, and why.
    pub goaways: Vec<(u32, ErrorCode)>,
    /// The connection ended.
    pub ended: bool,
    /// Payload gives the windows back at once.
    pub gives_back: bool,
    scheme: &'static str,
}

impl Client {
    pub fn new(conn: Conn) -> Client {
        Client::with(conn, 1 << 20)
    }

    /// One whose streams have such a window.
    pub fn with(conn: Conn, window: u32) -> Client {
        let config = Config {
            settings: Settings { enable_push: false, initial_window: window, ..Settings::default() },
            window: 1 << 30,
            ..Config::default()
        };
        let scheme = if conn.tls.is_some() { "https" } else { "http" };
        Client {
            conn,
            h2: Connection::new(Role::Client, config, 0),
            answers: BTreeMap::new(),
            goaways: Vec::new(),
            ended: false,
            gives_back: true,
            scheme,
        }
    }

    /// Begins a request.
    pub fn open(&mut self, method: &str, path: &str, more: &[(&str, &str)], ends: bool) -> u32 {
        let id = self.begin(method, path, more, ends);
        self.flush();
        id
    }

    /// The same, which leaves with what follows it.
    pub fn begin(&mut self, method: &str, path: &str, more: &[(&str, &str)], ends: bool) -> u32 {
        let mut head = Head::new();
        head.start_request(method.as_bytes(), path.as_bytes(), Version::HTTP_2).unwrap();
        head.push(b"host", b"h.example").unwrap();
        for (name, value) in more {
            head.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        let id = self.h2.open(&head, self.scheme.as_bytes(), ends).unwrap();
        self.answers.insert(id, Answer::default());
        id
    }

    pub fn data(&mut self, id: u32, bytes: &[u8], ends: bool) {
        let mut rest = bytes;
        loop {
            let n = self.h2.room(id).min(rest.len());
            let (part, left) = rest.split_at(n);
            if n > 0 || rest.is_empty() {
                self.h2.send_data(id, part, ends && left.is_empty());
                self.flush();
            }
            rest = left;
            if rest.is_empty() {
                return;
            }
            assert!(n > 0 || self.more(), "the connection ended");
        }
    }

    pub fn trailers(&mut self, id: u32, more: &[(&str, &str)]) {
        let mut head = Head::new();
        for (name, value) in more {
            head.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        self.h2.send_trailers(id, &head);
        self.flush();
    }

    pub fn reset(&mut self, id: u32, code: ErrorCode) {
        self.h2.reset(id, code);
        self.flush();
    }

    pub fn flush(&mut self) {
        let output = std::mem::take(self.h2.output());
        if !output.is_empty() && self.conn.try_send(&output).is_err() {
            self.ended = true;
        }
    }

    /// Receives once. False at the connection's end.
    pub fn more(&mut self) -> bool {
        if self.ended {
            return false;
        }
        self.ended = !self.conn.more().unwrap_or(false);
        let Client { conn, h2, answers, goaways, gives_back, .. } = self;
        let mut consumed = Vec::new();
        let used = h2.receive(&conn.pending, 0, &mut |event: Event<'_>| match event {
            Event::Head { stream, head, end, .. } => {
                let answer = answers.entry(stream).or_default();
                if head.status() < 200 {
                    answer.interim.push(head.status());
                    return;
                }
                answer.status = head.status();
                answer.fields = fields(head);
                answer.whole = end;
            }
            Event::Data { stream, data, end } => {
                let answer = answers.entry(stream).or_default();
                answer.body.extend_from_slice(data);
                answer.whole = end;
                consumed.push((stream, data.len()));
            }
            Event::Trailers { stream, trailers } => {
                let answer = answers.entry(stream).or_default();
                answer.trailers = fields(trailers);
                answer.whole = true;
            }
            Event::Reset { stream, code, .. } => answers.entry(stream).or_default().reset = Some(code),
            Event::Goaway { last, code } => goaways.push((last, code)),
            Event::Refused { stream, why } => panic!("stream {stream}: {why:?}"),
            Event::Room { .. } | Event::Pong | Event::Ready => {}
        });
        let used = used.unwrap_or_else(|failure| panic!("the proxy broke the protocol: {failure:?}"));
        conn.pending.drain(..used);
        if *gives_back {
            for (id, octets) in consumed {
                h2.consumed(id, octets);
            }
        }
        self.flush();
        !self.ended
    }

    /// What came so far.
    pub fn so_far(&self, id: u32) -> &Answer {
        &self.answers[&id]
    }

    /// Receives until something is the case.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&Client) -> bool) {
        while !done(self) {
            assert!(self.more(), "the connection ended before {what}");
        }
    }

    /// The answer to a request, whole or cut.
    pub fn answer(&mut self, id: u32) -> Answer {
        let over = |client: &Client| client.answers[&id].whole || client.answers[&id].reset.is_some();
        self.until("the answer", over);
        self.answers[&id].clone()
    }

    /// Asks one after the other until the proxy ends the connection; what it says of that.
    pub fn get_all(mut self, paths: &[&str]) -> (u32, ErrorCode) {
        for path in paths {
            assert_eq!(self.get(path).status, 200, "{path}");
        }
        self.rest();
        *self.goaways.last().unwrap()
    }

    pub fn get(&mut self, path: &str) -> Answer {
        let id = self.open("GET", path, &[], true);
        self.answer(id)
    }

    /// Receives until the connection ends.
    pub fn rest(&mut self) {
        while self.more() {}
    }
}

/// What a client asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// Method and target.
    pub line: String,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    pub whole: bool,
    pub reset: Option<ErrorCode>,
}

impl Asked {
    pub fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }
}

/// The server's end of a connection.
pub struct Served {
    pub conn: Conn,
    pub h2: Connection,
    asked: BTreeMap<u32, Asked>,
    /// Requests that were not given out yet, in order.
    new: Vec<u32>,
    /// Pings of this side that were answered.
    pub pongs: usize,
    pub ended: bool,
}

impl Served {
    pub fn new(conn: Conn, settings: Settings) -> Served {
        let settings = Settings { enable_push: false, ..settings };
        let config = Config { settings, window: 1 << 30, ..Config::default() };
        Served::over(conn, config)
    }

    /// One that connected to who asks.
    pub fn dialed(conn: Conn) -> Served {
        let settings = Settings { enable_push: false, ..Settings::default() };
        Served::over(conn, Config { settings, window: 1 << 30, reversed: true, ..Config::default() })
    }

    fn over(conn: Conn, config: Config) -> Served {
        let h2 = Connection::new(Role::Server, config, 0);
        let mut served = Served { conn, h2, asked: BTreeMap::new(), new: Vec::new(), pongs: 0, ended: false };
        served.flush();
        served
    }

    pub fn flush(&mut self) {
        let output = std::mem::take(self.h2.output());
        if !output.is_empty() && self.conn.try_send(&output).is_err() {
            self.ended = true;
        }
    }

    /// Receives once. False at the connection's end.
    pub fn more(&mut self) -> bool {
        if self.ended {
            return false;
        }
        self.ended = !self.conn.more().unwrap_or(false);
        let Served { conn, h2, asked, new, pongs, .. } = self;
        let mut consumed = Vec::new();
        let used = h2.receive(&conn.pending, 0, &mut |event: Event<'_>| match event {
            Event::Head { stream, head, end, .. } => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let line = format!("{} {}", text(head.method_bytes()), text(head.target()));
                asked.insert(stream, Asked { line, fields: fields(head), whole: end, ..Asked::default() });
                new.push(stream);
            }
            Event::Data { stream, data, end } => {
                let asked = asked.get_mut(&stream).unwrap();
                asked.body.extend_from_slice(data);
                asked.whole = end;
                consumed.push((stream, data.len()));
            }
            Event::Trailers { stream, trailers } => {
                let asked = asked.get_mut(&stream).unwrap();
                asked.trailers = fields(trailers);
                asked.whole = true;
            }
            Event::Reset { stream, code, .. } => asked.get_mut(&stream).unwrap().reset = Some(code),
            Event::Refused { stream, why } => panic!("stream {stream}: {why:?}"),
            Event::Pong => *pongs += 1,
            Event::Goaway { .. } | Event::Room { .. } | Event::Ready => {}
        });
        let used = used.unwrap_or_else(|failure| panic!("the proxy broke the protocol: {failure:?}"));
        conn.pending.drain(..used);
        for (id, octets) in consumed {
            h2.consumed(id, octets);
        }
        self.flush();
        !self.ended
    }

    /// The next request, once its head is there; `None` at the connection's end.
    pub fn next_head(&mut self) -> Option<u32> {
        while self.new.is_empty() {
            if !self.more() && self.new.is_empty() {
                return None;
            }
        }
        Some(self.new.remove(0))
    }

    /// The next request, whole.
    pub fn next_request(&mut self) -> Option<(u32, Asked)> {
        let id = self.next_head()?;
        while !self.asked[&id].whole && self.asked[&id].reset.is_none() {
            if !self.more() {
                return None;
            }
        }
        Some((id, self.asked[&id].clone()))
    }

    /// What came so far.
    pub fn so_far(&self, id: u32) -> &Asked {
        &self.asked[&id]
    }

    pub fn head(&mut self, id: u32, status: u16, more: &[(&str, &str)], ends: bool) {
        let mut head = Head::new();
        head.start_response(Version::HTTP_2, status, None).unwrap();
        for (name, value) in more {
            head.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        self.h2.respond(id, &head, ends);
        self.flush();
    }

    pub fn data(&mut self, id: u32, bytes: &[u8], ends: bool) {
        assert!(self.h2.room(id) >= bytes.len(), "more than the window");
        self.h2.send_data(id, bytes, ends);
        self.flush();
    }

    pub fn trailers(&mut self, id: u32, more: &[(&str, &str)]) {
        let mut head = Head::new();
        for (name, value) in more {
            head.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        self.h2.send_trailers(id, &head);
        self.flush();
    }

    pub fn answer(&mut self, id: u32, body: &str) {
        let length = body.len().to_string();
        self.head(id, 200, &[("content-length", &length)], body.is_empty());
        if !body.is_empty() {
            self.data(id, body.as_bytes(), true);
        }
    }

    pub fn reset(&mut self, id: u32, code: ErrorCode) {
        self.h2.reset(id, code);
        self.flush();
    }

    /// Receives until the connection ends.
    pub fn rest(&mut self) {
        while self.more() {}
    }
}

/// A frame, however odd.
pub fn frame(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Header { len: payload.len(), kind, flags, stream }.encode().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// DATA.
pub fn data_frame(stream: u32, octets: &[u8], end: bool) -> Vec<u8> {
    frame(Kind::Data, u8::from(end), stream, octets)
}

/// A header list without any compression.
pub fn block<N: AsRef<[u8]>, V: AsRef<[u8]>>(list: &[(N, V)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in list {
        out.push(0);
        put_string(&mut out, name.as_ref());
        put_string(&mut out, value.as_ref());
    }
    out
}

/// A string of HPACK as it is (RFC 7541 section 5.2).
fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    put_length(out, text.len(), 0);
    out.extend_from_slice(text);
}

/// The length of a string of HPACK (RFC 7541 section 5.1): seven bits in the first octet, and in all that follow.
fn put_length(out: &mut Vec<u8>, len: usize, first: u8) {
    if len < 127 {
        return out.push(first | len as u8);
    }
    out.push(first | 127);
    let mut rest = len - 127;
    while rest >= 128 {
        out.push(128 | (rest % 128) as u8);
        rest /= 128;
    }
    out.push(rest as u8);
}

/// The list of a plain request.
pub const GET: &[(&str, &str)] =
    &[(":method", "GET"), (":scheme", "http"), (":authority", "h.example"), (":path", "/")];

/// The beginning of a connection.
pub fn beginning() -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    frame::put_settings(&mut bytes, []);
    bytes
}

/// The next frame that is sent, but for those of settings and windows; nothing when the connection ends.
pub fn next_frame(conn: &mut Conn) -> Option<(Header, Vec<u8>)> {
    loop {
        let bytes = conn.try_exactly(HEADER_LEN)?;
        let header = Header::parse(bytes.as_slice().try_into().unwrap());
        let payload = conn.try_exactly(header.len)?;
        if !matches!(header.kind, Kind::Settings | Kind::WindowUpdate) {
            return Some((header, payload));
        }
    }
}

/// What `show stat` on the socket `cli` says in a column of the first row of a proxy of this kind: 1 for the frontend, 2 for the
/// backend, 4 for a server.
pub fn stat(proxy: &Proxy, name: &str, kind: u8, column: &str) -> String {
    let mut cli = Conn::connect_unix(&proxy.path("cli"));
    cli.send(format!("show stat {name} {kind} -1\n"));
    let text = cli.rest_text();
    let mut lines = text.trim_start_matches("# ").lines().map(|line| line.split(','));
    let at = lines.next().unwrap().position(|name| name == column).expect(column);
    lines.next().unwrap().nth(at).unwrap().to_owned()
}
