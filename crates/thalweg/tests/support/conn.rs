//! Connections as a test plays them, and the messages on them.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::*;

pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Socket::Tcp(s) => s.shutdown(how),
            Socket::Unix(s) => s.shutdown(how),
        }
    }
}

/// One side of a connection, as a test plays it.
pub struct Conn {
    pub(super) socket: Arc<Socket>,
    /// TLS on the socket.
    pub(super) tls: Option<Box<tls::Session>>,
    /// What was received beyond what was asked for.
    pub(super) pending: Vec<u8>,
}

impl Conn {
    pub fn connect(addr: SocketAddrV4) -> Conn {
        Conn::tcp(TcpStream::connect(addr).unwrap())
    }

    /// Connects to a unix socket; a program that was seen to listen elsewhere may still be about to open it.
    pub fn connect_unix(path: &Path) -> Conn {
        Conn::unix(eventually("the unix socket answers", || UnixStream::connect(path).ok()))
    }

    pub fn tcp(stream: TcpStream) -> Conn {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Conn { socket: Arc::new(Socket::Tcp(stream)), tls: None, pending: Vec::new() }
    }

    pub fn unix(stream: UnixStream) -> Conn {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Conn { socket: Arc::new(Socket::Unix(stream)), tls: None, pending: Vec::new() }
    }

    /// The same connection, to use its other direction from another thread. It is closed when both are dropped.
    pub fn twin(&self) -> Conn {
        assert!(self.tls.is_none(), "TLS has one user");
        Conn { socket: Arc::clone(&self.socket), tls: None, pending: Vec::new() }
    }

    pub fn peer(&self) -> std::net::SocketAddr {
        match &*self.socket {
            Socket::Tcp(s) => s.peer_addr().unwrap(),
            Socket::Unix(_) => panic!("a unix socket has no address"),
        }
    }

    pub fn local(&self) -> std::net::SocketAddr {
        match &*self.socket {
            Socket::Tcp(s) => s.local_addr().unwrap(),
            Socket::Unix(_) => panic!("a unix socket has no address"),
        }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap();
    }

    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => {
                let sealed = tls.seal(bytes.as_ref());
                self.try_send_raw(&sealed)
            }
            None => self.try_send_raw(bytes.as_ref()),
        }
    }

    /// Sends bytes as they are, TLS or not.
    pub fn try_send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &*self.socket {
            Socket::Tcp(s) => (&*s).write_all(bytes),
            Socket::Unix(s) => (&*s).write_all(bytes),
        }
    }

    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.tls.is_some() {
            return self.read_tls(into);
        }
        self.read_raw(into)
    }

    pub(super) fn read_raw(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &*self.socket {
            Socket::Tcp(s) => (&*s).read(into),
            Socket::Unix(s) => (&*s).read(into),
        }
    }

    /// Receives more. False at the end.
    pub(super) fn more(&mut self) -> io::Result<bool> {
        let mut chunk = [0u8; 65536];
        let len = loop {
            match self.read(&mut chunk) {
                // A machine that was frozen interrupts calls that have a timeout.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        self.pending.extend_from_slice(&chunk[..len]);
        Ok(len > 0)
    }

    pub(super) fn must_get_more(&mut self) {
        let more = self.more();
        let so_far = || String::from_utf8_lossy(&self.pending);
        match more {
            Ok(true) => {}
            Ok(false) => panic!("the connection ended after {:?}", so_far()),
            Err(error) => panic!("the connection failed after {:?}: {error}", so_far()),
        }
    }

    /// Everything up to and including `end`.
    pub fn until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.pending.windows(end.len()).position(|w| w == end) {
                return self.pending.drain(..at + end.len()).collect();
            }
            self.must_get_more();
        }
    }

    /// The same, or nothing when the connection ends or fails before.
    pub fn try_until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.pending.windows(end.len()).position(|w| w == end) {
                return Some(self.pending.drain(..at + end.len()).collect());
            }
            if !self.more().ok()? {
                return None;
            }
        }
    }

    /// The next `len` bytes, or nothing when the connection ends or fails before.
    pub fn try_exactly(&mut self, len: usize) -> Option<Vec<u8>> {
        while self.pending.len() < len {
            if !self.more().ok()? {
                return None;
            }
        }
        Some(self.pending.drain(..len).collect())
    }

    /// The next `len` bytes.
    pub fn exactly(&mut self, len: usize) -> Vec<u8> {
        while self.pending.len() < len {
            self.must_get_more();
        }
        self.pending.drain(..len).collect()
    }

    /// Everything until the other side closes, which it must do in order.
    pub fn rest(&mut self) -> Vec<u8> {
        while self
            .more()
            .unwrap_or_else(|e| panic!("after {:?}: {e}", String::from_utf8_lossy(&self.pending)))
        {}
        std::mem::take(&mut self.pending)
    }

    pub fn rest_text(&mut self) -> String {
        String::from_utf8_lossy(&self.rest()).into_owned()
    }

    /// Waits for the end, whether in order or by a reset, and returns what came before it.
    pub fn ended(&mut self) -> Vec<u8> {
        loop {
            match self.more() {
                Ok(true) => {}
                Ok(false) => return std::mem::take(&mut self.pending),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => panic!("the connection stays open"),
                Err(_) => return std::mem::take(&mut self.pending),
            }
        }
    }

    /// No more will be sent.
    pub fn half_close(&mut self) {
        if let Some(tls) = &mut self.tls {
            let end = tls.close();
            let _ = self.try_send_raw(&end);
        }
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Closes with a reset.
    pub fn reset(self) {
        self.reset_when_dropped();
    }

    /// Closing will reset the connection.
    pub fn reset_when_dropped(&self) {
        if let Socket::Tcp(s) = &*self.socket {
            thalweg_runtime::net::options::linger_reset(s.as_fd()).unwrap();
        }
    }

    /// A message's head: its first line and its fields.
    pub fn head(&mut self) -> Head {
        let text = self.until(b"\r\n\r\n");
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut lines = text.trim_end().split("\r\n");
        let line = lines.next().unwrap().to_string();
        let fields = lines
            .map(|l| {
                let (name, value) =
                    l.split_once(':').unwrap_or_else(|| panic!("no field: {l:?} in {text:?}"));
                (name.to_string(), value.trim().to_string())
            })
            .collect();
        Head { line, fields }
    }

    /// A request with its body.
    pub fn request(&mut self) -> Request {
        let head = self.head();
        let (body, trailers) = if head.is_chunked() {
            self.chunks()
        } else {
            (self.exactly(head.length().unwrap_or(0)), String::new())
        };
        Request { head, body, trailers }
    }

    /// The next head, or nothing when the connection ends before it.
    pub fn next_head(&mut self) -> Option<Head> {
        while self.pending.is_empty() {
            if !matches!(self.more(), Ok(true)) {
                return None;
            }
        }
        Some(self.head())
    }

    /// Whether nothing has come so far.
    pub fn is_silent(&mut self) -> bool {
        let Socket::Tcp(stream) = &*self.socket else { panic!("only TCP can be looked at") };
        stream.set_nonblocking(true).unwrap();
        let nothing = matches!(stream.peek(&mut [0]), Err(e) if e.kind() == io::ErrorKind::WouldBlock);
        stream.set_nonblocking(false).unwrap();
        nothing && self.pending.is_empty()
    }

    /// The next request, or nothing when the connection ends before it.
    pub fn next_request(&mut self) -> Option<Request> {
        while self.pending.is_empty() {
            if !matches!(self.more(), Ok(true)) {
                return None;
            }
        }
        Some(self.request())
    }

    /// A response to GET, with its body. Interim responses come one by one.
    pub fn response(&mut self) -> Response {
        self.response_to("GET")
    }

    pub fn response_to(&mut self, method: &str) -> Response {
        let head = self.head();
        let status: u16 = head.line.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
        let tunnel = method == "CONNECT" && (200..300).contains(&status);
        let (body, trailers) = if method == "HEAD" || status < 200 || status == 204 || status == 304 || tunnel
        {
            (Vec::new(), String::new())
        } else if head.is_chunked() {
            self.chunks()
        } else if let Some(len) = head.length() {
            (self.exactly(len), String::new())
        } else {
            (self.rest(), String::new())
        };
        Response { head, status, body, trailers }
    }

    /// A chunked body: its data and its trailer fields as received.
    pub(super) fn chunks(&mut self) -> (Vec<u8>, String) {
        let mut data = Vec::new();
        loop {
            let line = self.until(b"\r\n");
            let digits = String::from_utf8_lossy(&line);
            let digits = digits.trim_end().split(';').next().unwrap();
            let len = usize::from_str_radix(digits, 16).unwrap_or_else(|e| panic!("{digits:?}: {e}"));
            if len == 0 {
                break;
            }
            data.extend(self.exactly(len));
            assert_eq!(self.exactly(2), b"\r\n");
        }
        let mut trailers = String::new();
        loop {
            let line = self.until(b"\r\n");
            if line == b"\r\n" {
                return (data, trailers);
            }
            trailers.push_str(&String::from_utf8_lossy(&line));
        }
    }
}

#[derive(Clone, Debug)]
pub struct Head {
    pub line: String,
    pub fields: Vec<(String, String)>,
}

impl Head {
    /// The value of a field; those of repeated ones joined by a comma; empty when there is none.
    pub fn field(&self, name: &str) -> String {
        let of = self.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        of.map(|(_, v)| v.as_str()).collect::<Vec<_>>().join(",")
    }

    pub fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
    }

    pub(super) fn is_chunked(&self) -> bool {
        self.field("transfer-encoding").eq_ignore_ascii_case("chunked")
    }

    pub(super) fn length(&self) -> Option<usize> {
        self.field("content-length").parse().ok()
    }
}

#[derive(Clone, Debug)]
pub struct Request {
    pub head: Head,
    pub body: Vec<u8>,
    pub trailers: String,
}

#[derive(Clone, Debug)]
pub struct Response {
    pub head: Head,
    pub status: u16,
    pub body: Vec<u8>,
    pub trailers: String,
}

impl Response {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn field(&self, name: &str) -> String {
        self.head.field(name)
    }
}
