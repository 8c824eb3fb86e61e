//! Reading the first bytes of protocols that are passed through unopened: TLS hellos and RDP cookies.
//!
//! Every length comes from the network and is checked before use; all offsets are into the bytes given.

use std::ops::Range;

/// What the beginning of a stream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peek<T> {
    /// What was looked for.
    Found(T),
    /// More bytes are needed to tell.
    Incomplete,
    /// Something else.
    Other,
}

/// The parts of a TLS ClientHello, as positions in the bytes it was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// The highest version offered by the hello's own field: major, minor.
    pub version: (u8, u8),
    /// The cipher suites, two bytes each.
    pub ciphers: Range<usize>,
    /// The extensions, each a type, a length and data.
    pub extensions: Range<usize>,
}

/// Extension types (RFC 8446 section 4.2).
pub mod extension {
    #![allow(missing_docs)]
    pub const SERVER_NAME: u16 = 0;
    pub const SUPPORTED_GROUPS: u16 = 10;
    pub const SIGNATURE_ALGORITHMS: u16 = 13;
    pub const ALPN: u16 = 16;
    pub const SESSION_TICKET: u16 = 35;
    pub const KEY_SHARE: u16 = 51;
}

/// A position in bytes that never passes their end.
struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
    end: usize,
}

impl Cursor<'_> {
    fn number(&mut self, size: usize) -> Option<usize> {
        let range = self.take(size)?;
        Some(self.bytes[range].iter().fold(0, |n, b| n << 8 | usize::from(*b)))
    }

    fn take(&mut self, len: usize) -> Option<Range<usize>> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.end)?;
        let range = self.at..end;
        self.at = end;
        Some(range)
    }

    /// A block with its length before it.
    fn block(&mut self, length_size: usize) -> Option<Range<usize>> {
        let len = self.number(length_size)?;
        self.take(len)
    }
}

/// The longest record, with what encryption may add (RFC 8446 section 5.2).
const RECORD_MAX: usize = 16384 + 2048;

/// The type of the handshake message and the range of its body, once its record is complete.
fn handshake(data: &[u8]) -> Peek<(u8, Range<usize>)> {
    let matches = |at: usize, test: fn(u8) -> bool| data.get(at).is_none_or(|b| test(*b));
    // A handshake record of SSLv3 or later.
    if !matches(0, |b| b == 0x16) || !matches(1, |b| b >= 3) {
        return Peek::Other;
    }
    let &[_, _, _, high, low, kind, l2, l1, l0, ..] = data else { return Peek::Incomplete };
    let record = usize::from(u16::from_be_bytes([high, low]));
    let message = usize::from(l2) << 16 | usize::from(l1) << 8 | usize::from(l0);
    if !(4..=RECORD_MAX).contains(&record) || message + 4 > record {
        return Peek::Other;
    }
    if data.len() < 5 + record {
        return Peek::Incomplete;
    }
    Peek::Found((kind, 9..9 + message))
}

/// The type of the first handshake message: 1 for a ClientHello, 2 for a ServerHello.
pub fn hello_type(data: &[u8]) -> Peek<u8> {
    match handshake(data) {
        Peek::Found((kind, _)) => Peek::Found(kind),
        Peek::Incomplete => Peek::Incomplete,
        Peek::Other => Peek::Other,
    }
}

/// Reads a ClientHello that is complete.
pub fn client_hello(data: &[u8]) -> Peek<ClientHello> {
    let body = match handshake(data) {
        Peek::Found((1, body)) => body,
        Peek::Incomplete => return Peek::Incomplete,
        _ => return Peek::Other,
    };
    let mut cursor = Cursor { bytes: data, at: body.start, end: body.end };
    let mut read = || {
        let version = cursor.take(2)?;
        cursor.take(32)?;
        cursor.block(1)?;
        let ciphers = cursor.block(2)?;
        cursor.block(1)?;
        // A hello may end without extensions.
        let extensions = cursor.block(2).unwrap_or(0..0);
        Some(ClientHello { version: (data[version.start], data[version.start + 1]), ciphers, extensions })
    };
    read().map_or(Peek::Other, Peek::Found)
}

impl ClientHello {
    /// The data of the first extension of a type.
    pub fn extension(&self, data: &[u8], kind: u16) -> Option<Range<usize>> {
        let mut cursor = Cursor { bytes: data, at: self.extensions.start, end: self.extensions.end };
        loop {
            let found = cursor.number(2)?;
            let block = cursor.block(2)?;
            if found == usize::from(kind) {
                return Some(block);
            }
        }
    }

    /// A list inside an extension: its bytes after their length.
    pub fn list(&self, data: &[u8], kind: u16) -> Option<Range<usize>> {
        let block = self.extension(data, kind)?;
        Cursor { bytes: data, at: block.start, end: block.end }.block(2)
    }

    /// The host name asked for.
    pub fn server_name(&self, data: &[u8]) -> Option<Range<usize>> {
        let list = self.list(data, extension::SERVER_NAME)?;
        let mut cursor = Cursor { bytes: data, at: list.start, end: list.end };
        loop {
            let kind = cursor.number(1)?;
            let name = cursor.block(2)?;
            if kind == 0 {
                return Some(name);
            }
        }
    }

    /// The first protocol asked for.
    pub fn alpn(&self, data: &[u8]) -> Option<Range<usize>> {
        let list = self.list(data, extension::ALPN)?;
        Cursor { bytes: data, at: list.start, end: list.end }.block(1)
    }

    /// Calls `visit` with the two bytes of each group that has a key share, until it returns false.
    pub fn key_share_groups(&self, data: &[u8], mut visit: impl FnMut(&[u8]) -> bool) -> Option<()> {
        let list = self.list(data, extension::KEY_SHARE)?;
        let mut cursor = Cursor { bytes: data, at: list.start, end: list.end };
        while cursor.at < cursor.end {
            let group = cursor.take(2)?;
            cursor.block(2)?;
            if !visit(&data[group]) {
                return None;
            }
        }
        Some(())
    }
}

/// The version of a hello: SSLv2 hellos carry theirs where older clients put it.
pub fn version(data: &[u8]) -> Peek<(u8, u8)> {
    if data.first() == Some(&0x16) {
        let [_, major, _, high, low, rest @ ..] = data else { return Peek::Incomplete };
        let record = usize::from(u16::from_be_bytes([*high, *low]));
        if *major < 3 || !(6..=RECORD_MAX).contains(&record) {
            return Peek::Other;
        }
        let &[kind, _, _, _, hello_major, hello_minor, ..] = rest else { return Peek::Incomplete };
        if kind != 1 || hello_major < 3 {
            return Peek::Other;
        }
        if data.len() < 5 + record {
            return Peek::Incomplete;
        }
        return Peek::Found((hello_major, hello_minor));
    }
    // SSLv2: a length with its top bit set, type 1, then the version.
    match data {
        [first, ..] if first & 0x80 == 0 => Peek::Other,
        [_, _, kind, ..] if *kind != 1 => Peek::Other,
        [_, _, _, major, minor, ..] if *major <= 3 => Peek::Found((*major, *minor)),
        [_, _, _, _, _, ..] => Peek::Other,
        _ => Peek::Incomplete,
    }
}

/// Reads the cookie of an RDP connection request: where its name and its value stand.
pub fn rdp_cookie(data: &[u8]) -> Peek<(Range<usize>, Range<usize>)> {
    // TPKT version 3, then an X.224 connection request.
    for (at, expected) in [(0, 3), (1, 0), (5, 0xe0)] {
        match data.get(at) {
            Some(b) if *b == expected => {}
            Some(_) => return Peek::Other,
            None => return Peek::Incomplete,
        }
    }
    let end = usize::from(u16::from_be_bytes([data[2], data[3]]));
    if end < 11 {
        return Peek::Other;
    }
    if data.len() < end {
        return Peek::Incomplete;
    }
    let text = &data[11..end];
    const LEAD: &[u8] = b"cookie:";
    if text.len() < LEAD.len() || !text[..LEAD.len()].eq_ignore_ascii_case(LEAD) {
        return Peek::Other;
    }
    let start = 11 + LEAD.len() + text[LEAD.len()..].iter().take_while(|b| **b == b' ').count();
    let Some(stop) = memchr::memchr(b'\r', &data[start..end]).map(|n| start + n) else { return Peek::Other };
    let Some(equals) = memchr::memchr(b'=', &data[start..stop]).map(|n| start + n) else {
        return Peek::Other;
    };
    Peek::Found((start..equals, equals + 1..stop))
}

/// Tells whether the bytes begin with an HTTP/1 request line.
pub fn http_request(data: &[u8]) -> Peek<()> {
    let line_end = memchr::memchr(b'\n', data);
    let line = &data[..line_end.unwrap_or(data.len())];
    let token = line.iter().take_while(|b| thalweg_http::ascii::is_tchar(**b)).count();
    let undecided = if line_end.is_some() { Peek::Other } else { Peek::Incomplete };
    if token == line.len() {
        return undecided;
    }
    if token == 0 || line[token] != b' ' {
        return Peek::Other;
    }
    let target = line[token + 1..].iter().take_while(|b| **b > b' ' && **b != 0x7f).count();
    let rest = &line[token + 1 + target..];
    if rest.is_empty() {
        return undecided;
    }
    if target == 0 {
        return Peek::Other;
    }
    let version = rest.strip_suffix(b"\r").unwrap_or(rest);
    match version {
        [b' ', b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            if line_end.is_some() {
                Peek::Found(())
            } else {
                Peek::Incomplete
            }
        }
        _ if line_end.is_none() && b" HTTP/".starts_with(&version[..version.len().min(6)]) => {
            Peek::Incomplete
        }
        _ => Peek::Other,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A ClientHello for `name` with ALPN `h2`, groups 0x001d and 0x0017, and an empty session ticket.
    pub(crate) fn sample_hello(name: &str) -> Vec<u8> {
        fn block(size: usize, body: &[u8]) -> Vec<u8> {
            let mut out = body.len().to_be_bytes()[8 - size..].to_vec();
            out.extend_from_slice(body);
            out
        }
        fn ext(kind: u16, body: &[u8]) -> Vec<u8> {
            let mut out = kind.to_be_bytes().to_vec();
            out.extend(block(2, body));
            out
        }
        let mut sni = vec![0];
        sni.extend(block(2, name.as_bytes()));
        let mut exts = ext(extension::SERVER_NAME, &block(2, &sni));
        exts.extend(ext(extension::ALPN, &block(2, b"\x02h2\x08http/1.1")));
        exts.extend(ext(extension::SUPPORTED_GROUPS, &block(2, &[0, 0x1d, 0, 0x17])));
        exts.extend(ext(extension::SIGNATURE_ALGORITHMS, &block(2, &[4, 3])));
        exts.extend(ext(extension::SESSION_TICKET, b""));
        exts.extend(ext(extension::KEY_SHARE, &block(2, &[0, 0x1d, 0, 1, 9, 0, 0x17, 0, 0])));
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend(block(1, b""));
        body.extend(block(2, &[0x13, 1, 0x13, 2]));
        body.extend(block(1, &[0]));
        body.extend(block(2, &exts));
        let mut message = vec![1];
        message.extend(block(3, &body));
        let mut out = vec![0x16, 3, 1];
        out.extend(block(2, &message));
        out
    }

    #[test]
    fn hellos_are_read_and_every_prefix_waits() {
        let data = sample_hello("www.example.com");
        for n in 0..data.len() {
            assert_eq!(client_hello(&data[..n]), Peek::Incomplete, "{n}");
        }
        let Peek::Found(hello) = client_hello(&data) else { panic!() };
        assert_eq!(hello.version, (3, 3));
        assert_eq!(&data[hello.server_name(&data).unwrap()], b"www.example.com");
        assert_eq!(&data[hello.alpn(&data).unwrap()], b"h2");
        assert_eq!(&data[hello.ciphers.clone()], &[0x13, 1, 0x13, 2]);
        assert_eq!(&data[hello.list(&data, extension::SUPPORTED_GROUPS).unwrap()], &[0, 0x1d, 0, 0x17]);
        assert_eq!(hello.extension(&data, extension::SESSION_TICKET).unwrap().len(), 0);
        let mut groups = Vec::new();
        hello.key_share_groups(&data, |g| {
            groups.extend_from_slice(g);
            true
        });
        assert_eq!(groups, [0, 0x1d, 0, 0x17]);
        assert_eq!(hello_type(&data), Peek::Found(1));
        assert_eq!(client_hello(b"GET / HTTP/1.1\r\n"), Peek::Other);
        assert_eq!(client_hello(&[0x16, 2]), Peek::Other);
    }

    #[test]
    fn damaged_hellos_never_panic() {
        let data = sample_hello("www.example.com");
        for at in 0..data.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bad = data.clone();
                bad[at] = value;
                if let Peek::Found(hello) = client_hello(&bad) {
                    let _ =
                        (hello.server_name(&bad), hello.alpn(&bad), hello.key_share_groups(&bad, |_| true));
                }
            }
        }
    }

    #[test]
    fn rdp_cookies() {
        let mut data = vec![3, 0, 0, 0, 0, 0xe0, 0, 0, 0, 0, 0];
        data.extend(b"Cookie: mstshash=joe\r\n");
        data[3] = data.len() as u8;
        for n in 0..data.len() {
            assert_eq!(rdp_cookie(&data[..n]), Peek::Incomplete, "{n}");
        }
        let Peek::Found((name, value)) = rdp_cookie(&data) else { panic!() };
        assert_eq!((&data[name], &data[value]), (&b"mstshash"[..], &b"joe"[..]));
        assert_eq!(rdp_cookie(b"GET"), Peek::Other);
    }

    #[test]
    fn request_lines_are_recognised() {
        let check =
            |data: &str, expected: Peek<()>| assert_eq!(http_request(data.as_bytes()), expected, "{data:?}");
        check("", Peek::Incomplete);
        check("GE", Peek::Incomplete);
        check("GET /", Peek::Incomplete);
        check("GET / HT", Peek::Incomplete);
        check("GET / HTTP/1.1", Peek::Incomplete);
        check("GET / HTTP/1.1\r\n", Peek::Found(()));
        check("GET / HTTP/1.1\n", Peek::Found(()));
        check("GET /\r\n", Peek::Other);
        check("\x16\x03\x01", Peek::Other);
        check("SSH-2.0-OpenSSH\r\n", Peek::Other);
    }
}
