//! Requests and answers over HTTP/2, from either end.

use std::collections::BTreeMap;

use thalweg_h2::connection::{Config, Connection, Event, Role};
use thalweg_http::semantics::is_interim;
use thalweg_http::uri::origin_form;
use thalweg_http::{Head, RewriteError, Version};
use thalweg_runtime::clock;

use crate::{Answer, Ask, Message};

/// What a connection of HTTP/2 begins with (RFC 9113, section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// One end of a connection. Bytes come and go through [`Framed::take`] and [`Framed::output`].
pub struct Framed {
    connection: Connection,
    input: Vec<u8>,
    /// What came on each stream, and whether it is all.
    came: BTreeMap<u32, (Message, bool)>,
    /// What has to be sent on each, and had no room so far.
    waiting: BTreeMap<u32, Vec<u8>>,
}

impl Framed {
    pub fn new(role: Role) -> Framed {
        let connection = Connection::new(role, Config::default(), clock::now_ms());
        Framed { connection, input: Vec::new(), came: BTreeMap::new(), waiting: BTreeMap::new() }
    }

    /// Takes received bytes. False when the connection is over.
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        self.input.extend_from_slice(bytes);
        let (came, mut consumed) = (&mut self.came, Vec::new());
        let mut on = |event: Event<'_>| match event {
            Event::Head { stream, head, end, .. } if head.is_request() || !is_interim(head.status()) => {
                came.insert(stream, (message(head), end));
            }
            Event::Data { stream, data, end } => {
                consumed.push((stream, data.len()));
                if let Some((message, all)) = came.get_mut(&stream) {
                    message.body.extend_from_slice(data);
                    *all |= end;
                }
            }
            Event::Trailers { stream, .. } | Event::Reset { stream, .. } | Event::Refused { stream, .. } => {
                came.entry(stream).or_default().1 = true;
            }
            _ => {}
        };
        let used = self.connection.receive(&self.input, clock::now_ms(), &mut on);
        for (stream, octets) in consumed {
            self.connection.consumed(stream, octets);
        }
        self.input.drain(..used.unwrap_or(self.input.len()));
        used.is_ok()
    }

    /// What is to be sent now.
    pub fn output(&mut self) -> Vec<u8> {
        for (stream, rest) in &mut self.waiting {
            while !rest.is_empty() {
                let len = self.connection.room(*stream).min(rest.len());
                if len == 0 || !self.connection.send_data(*stream, &rest[..len], len == rest.len()) {
                    break;
                }
                rest.drain(..len);
            }
        }
        self.waiting.retain(|_, rest| !rest.is_empty());
        std::mem::take(self.connection.output())
    }

    /// Whether a message has begun to come on a stream.
    pub fn has_begun(&self, stream: u32) -> bool {
        self.came.contains_key(&stream)
    }

    /// Whether no more comes on it.
    pub fn is_whole(&self, stream: u32) -> bool {
        self.came.get(&stream).is_some_and(|(_, all)| *all)
    }

    /// What came on it, if there was a message.
    pub fn message(&mut self, stream: u32) -> Option<Message> {
        self.came.remove(&stream).map(|(message, _)| message).filter(|message| !message.line.is_empty())
    }

    /// The first stream on which all has come.
    pub fn next_whole(&self) -> Option<u32> {
        self.came.iter().find(|(_, (_, all))| *all).map(|(stream, _)| *stream)
    }

    /// Sends a request; the stream that it is on.
    ///
    /// # Errors
    /// The request cannot be written.
    pub fn request(&mut self, ask: &Ask) -> Result<u32, String> {
        let scheme: &[u8] = if ask.url.https { b"https" } else { b"http" };
        let head = request_head(ask).map_err(|_| "the request cannot be written")?;
        let opened = self.connection.open(&head, scheme, ask.body.is_empty());
        let stream = opened.map_err(|_| "no stream can be opened")?;
        self.waiting.insert(stream, ask.body.clone());
        Ok(stream)
    }

    /// Answers on a stream.
    pub fn respond(&mut self, stream: u32, answer: &Answer, is_head: bool) {
        let body = if is_head || matches!(answer.status, 204 | 304) { &[][..] } else { &answer.body };
        if let Ok(head) = response_head(answer) {
            self.connection.respond(stream, &head, body.is_empty());
            self.waiting.insert(stream, body.to_vec());
        }
    }
}

fn request_head(ask: &Ask) -> Result<Head, RewriteError> {
    let mut head = Head::new();
    head.start_request(ask.method.as_bytes(), ask.url.path.as_bytes(), Version::HTTP_2)?;
    let has = |name: &str| ask.fields.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    if !has("host") {
        head.push(b"host", ask.url.authority.as_bytes())?;
    }
    push_all(&mut head, &ask.fields)?;
    if !ask.body.is_empty() && !has("content-length") {
        head.push(b"content-length", ask.body.len().to_string().as_bytes())?;
    }
    Ok(head)
}

fn response_head(answer: &Answer) -> Result<Head, RewriteError> {
    let mut head = Head::new();
    head.start_response(Version::HTTP_2, answer.status, None)?;
    push_all(&mut head, &answer.fields)?;
    if !matches!(answer.status, 204 | 304) {
        head.push(b"content-length", answer.body.len().to_string().as_bytes())?;
    }
    Ok(head)
}

fn push_all(head: &mut Head, fields: &[(String, String)]) -> Result<(), RewriteError> {
    fields.iter().try_for_each(|(name, value)| {
        head.push(name.to_ascii_lowercase().as_bytes(), value.as_bytes()).map(|_| ())
    })
}

/// A head as it is shown.
fn message(head: &Head) -> Message {
    let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let line = match head.is_request() {
        true => format!(
            "{} {} HTTP/2.0",
            show(head.method_bytes()),
            show(origin_form(head.target(), head.method()))
        ),
        false => format!("HTTP/2.0 {}", head.status()),
    };
    let fields = head.fields().map(|field| (show(field.name), show(field.value))).collect();
    Message { line, fields, body: Vec::new() }
}
