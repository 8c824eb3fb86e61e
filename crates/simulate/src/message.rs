//! HTTP/1 messages as clients and servers of a scenario read them. It shares no code with the proxy's own reader, so that
//! the two do not err together, and takes nothing but the plainest form.

/// What a message begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The first line, in its three parts.
    pub line: [String; 3],
    /// Names in lower case.
    pub fields: Vec<(String, String)>,
    /// Bytes on the wire.
    pub len: u64,
}

impl Head {
    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, value)| &**value)
    }

    /// A field that holds a number.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.field(name)?.parse().ok()
    }

    /// The status of a response.
    pub fn status(&self) -> u16 {
        self.line[1].parse().unwrap_or(0)
    }

    /// Whether the connection ends after this message, as far as its head says.
    pub fn closes(&self) -> bool {
        let version = if self.line[0].starts_with("HTTP/") { &self.line[0] } else { &self.line[2] };
        match self.field("connection").map(str::to_ascii_lowercase) {
            Some(options) if options.split(',').any(|o| o.trim() == "close") => true,
            Some(options) if options.split(',').any(|o| o.trim() == "keep-alive") => false,
            _ => version == "HTTP/1.0",
        }
    }
}

/// What a reader finds.
#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    Head(Head),
    /// A part of the body, and the bytes it took on the wire since the last item.
    Data(Vec<u8>),
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Sized(u64),
    ChunkLine,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    UntilClose,
    End,
}

/// Reads messages of one direction of a connection.
#[derive(Debug)]
pub struct Reader {
    buffer: Vec<u8>,
    state: State,
    /// Bytes of finished items.
    pub consumed: u64,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader { buffer: Vec::new(), state: State::Head, consumed: 0 }
    }
}

impl Reader {
    /// Adds what was received.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes a PROXY header, of either version, off the beginning. False while it is not there wholly.
    pub fn skip_proxy_header(&mut self) -> bool {
        const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
        let begins = |with: &[u8]| self.buffer.iter().zip(with).all(|(a, b)| a == b);
        let len = if begins(V2) && !self.buffer.is_empty() {
            self.buffer.get(14..16).map(|len| 16 + usize::from(len[0]) * 256 + usize::from(len[1]))
        } else if begins(b"PROXY ") && !self.buffer.is_empty() {
            find(&self.buffer, b"\r\n").map(|n| n + 2)
        } else {
            return !self.buffer.is_empty();
        };
        match len {
            Some(len) if len <= self.buffer.len() => {
                self.take(len);
                true
            }
            _ => false,
        }
    }

    /// What follows are bytes, to the end of the connection.
    pub fn becomes_tunnel(&mut self) {
        self.state = State::UntilClose;
    }

    /// Whether a message has begun and not ended.
    pub fn is_inside(&self) -> bool {
        self.state != State::Head || !self.buffer.is_empty()
    }

    /// Whether the message has no end but that of its connection.
    pub fn is_until_close(&self) -> bool {
        self.state == State::UntilClose
    }

    /// Bytes received and not understood yet.
    pub fn rest(&self) -> &[u8] {
        &self.buffer
    }

    /// The next item, if it is there. `has_body` says whether a response with this head may have a body.
    ///
    /// # Errors
    /// What is wrong with the message.
    pub fn next(&mut self, has_body: impl Fn(&Head) -> bool) -> Result<Option<Item>, String> {
        loop {
            match self.state {
                State::Head => {
                    let Some(len) = find(&self.buffer, b"\r\n\r\n") else { return Ok(None) };
                    let head = parse(&self.take(len + 4))?;
                    self.state = after(&head, has_body(&head))?;
                    return Ok(Some(Item::Head(head)));
                }
                State::Sized(0) => self.state = State::End,
                State::Sized(left) | State::Chunk(left) => {
                    if self.buffer.is_empty() {
                        return Ok(None);
                    }
                    let n = left.min(self.buffer.len() as u64);
                    let data = self.take(n as usize);
                    self.state = match self.state {
                        State::Chunk(_) if left == n => State::ChunkEnd,
                        State::Chunk(_) => State::Chunk(left - n),
                        _ => State::Sized(left - n),
                    };
                    return Ok(Some(Item::Data(data)));
                }
                State::ChunkEnd => match self.buffer.get(..2) {
                    None => return Ok(None),
                    Some(b"\r\n") => {
                        self.take(2);
                        self.state = State::ChunkLine;
                    }
                    Some(other) => return Err(format!("a chunk ends with {other:?}")),
                },
                State::ChunkLine => {
                    let Some(len) = find(&self.buffer, b"\r\n") else { return Ok(None) };
                    let line = self.take(len + 2);
                    let text = String::from_utf8_lossy(&line[..len]).into_owned();
                    let size = u64::from_str_radix(&text, 16);
                    self.state = match size {
                        Ok(0) => State::Trailers,
                        Ok(size) => State::Chunk(size),
                        Err(_) => return Err(format!("{text:?} is no chunk size")),
                    };
                }
                State::Trailers => {
                    let Some(len) = find(&self.buffer, b"\r\n") else { return Ok(None) };
                    self.take(len + 2);
                    if len == 0 {
                        self.state = State::End;
                    }
                }
                State::UntilClose => {
                    let data = self.take(self.buffer.len());
                    return Ok((!data.is_empty()).then_some(Item::Data(data)));
                }
                State::End => {
                    self.state = State::Head;
                    return Ok(Some(Item::End));
                }
            }
        }
    }

    fn take(&mut self, n: usize) -> Vec<u8> {
        self.consumed += n as u64;
        let rest = self.buffer.split_off(n);
        std::mem::replace(&mut self.buffer, rest)
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|w| w == what)
}

fn parse(bytes: &[u8]) -> Result<Head, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| format!("a head that is no text: {bytes:?}"))?;
    let mut lines = text.trim_end_matches("\r\n").split("\r\n");
    let first = lines.next().unwrap_or_default();
    let mut parts = first.splitn(3, ' ').map(str::to_owned);
    let mut next = || parts.next().unwrap_or_default();
    let line = [next(), next(), next()];
    let is_response = line[0].starts_with("HTTP/1.") && line[1].len() == 3;
    if !is_response && !line[2].starts_with("HTTP/1.") {
        return Err(format!("{first:?} begins no message"));
    }
    let mut fields = Vec::new();
    for field in lines {
        let (name, value) = field.split_once(':').ok_or_else(|| format!("{field:?} is no field"))?;
        fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok(Head { line, fields, len: bytes.len() as u64 })
}

/// How the body behind a head is delimited.
fn after(head: &Head, has_body: bool) -> Result<State, String> {
    let is_response = head.line[0].starts_with("HTTP/");
    if !has_body {
        return Ok(State::End);
    }
    match (head.field("transfer-encoding"), head.field("content-length")) {
        (Some("chunked"), None) => Ok(State::ChunkLine),
        (None, Some(len)) => Ok(State::Sized(len.parse().map_err(|_| format!("{len:?} is no length"))?)),
        (None, None) if is_response => Ok(State::UntilClose),
        (None, None) => Ok(State::End),
        (coding, length) => Err(format!("a body of coding {coding:?} and length {length:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_messages_byte_by_byte() {
        let wire = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx: y\r\n\r\n\
                    HTTP/1.1 204 No Content\r\nX-Id: 7\r\n\r\nHTTP/1.0 200 OK\r\n\r\nrest";
        let mut reader = Reader::default();
        let mut seen = Vec::new();
        for b in wire.bytes() {
            reader.feed(&[b]);
            while let Some(item) = reader.next(|head| head.status() != 204).unwrap() {
                match item {
                    Item::Head(head) => seen.push(format!("{} {:?}", head.status(), head.number("x-id"))),
                    Item::Data(data) => seen.push(String::from_utf8(data).unwrap()),
                    Item::End => seen.push("end".to_owned()),
                }
            }
        }
        assert_eq!(
            seen,
            ["200 None", "a", "b", "c", "end", "204 Some(7)", "end", "200 None", "r", "e", "s", "t"]
        );
        assert!(reader.is_until_close());
        assert_eq!(reader.consumed, wire.len() as u64);
    }

    #[test]
    fn it_refuses_what_is_no_message() {
        for wire in
            ["hello\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "GET / HTTP/1.1\r\na\r\n\r\n"]
        {
            let mut reader = Reader::default();
            reader.feed(wire.as_bytes());
            assert!(reader.next(|_| true).is_err(), "{wire:?}");
        }
    }
}
