//! HTTP/2 in checks: one request on a connection of its own, and its response.

use thalweg_h2::connection::{Config, Connection, Event, Role};
use thalweg_http::{Head, RewriteError, Version};

use crate::http::{Rendered, Response, fields};
use crate::program::HttpRequest;

/// Time does not pass for what a connection may cost: it has one request.
const NOW_MS: u64 = 0;

/// The connection of a check.
pub(crate) struct Frames {
    h2: Connection,
    scheme: &'static [u8],
    stream: u32,
    /// The beginning of a frame.
    rest: Vec<u8>,
    /// What is left of the request's body.
    body: Vec<u8>,
    broken: bool,
}

impl Frames {
    /// A connection on which nothing was exchanged yet.
    pub fn new(encrypted: bool) -> Frames {
        let h2 = Connection::new(Role::Client, Config::default(), NOW_MS);
        let scheme: &[u8] = if encrypted { b"https" } else { b"http" };
        Frames { h2, scheme, stream: 0, rest: Vec::new(), body: Vec::new(), broken: false }
    }

    /// Frames to be sent, if there are any.
    pub fn output(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(self.h2.output())).filter(|output| !output.is_empty())
    }

    /// Makes the request. False when none can be made of its parts, or on this connection.
    pub fn request(&mut self, request: &HttpRequest, parts: Rendered<'_>) -> bool {
        let Ok(head) = head(request, &parts) else { return false };
        self.body = parts.body.unwrap_or_default();
        let Ok(stream) = self.h2.open(&head, self.scheme, self.body.is_empty()) else { return false };
        self.stream = stream;
        self.push();
        true
    }

    /// Sends of the body what the server has room for.
    fn push(&mut self) {
        while !self.body.is_empty() {
            let room = self.h2.room(self.stream).min(self.body.len());
            if room == 0 || !self.h2.send_data(self.stream, &self.body[..room], room == self.body.len()) {
                return;
            }
            self.body.drain(..room);
        }
    }

    /// Takes what was received. What is of the response goes there, and its payload to `payload`, of which at most `room` bytes are
    /// kept. Whether nothing more of it will come.
    pub fn received(
        &mut self,
        bytes: &[u8],
        response: &mut Response,
        payload: &mut Vec<u8>,
        room: usize,
    ) -> bool {
        self.rest.extend_from_slice(bytes);
        let (mut over, mut taken, wanted) = (false, 0, self.stream);
        let used = self.h2.receive(&self.rest, NOW_MS, &mut |event: Event<'_>| match event {
            Event::Head { stream, head, end, .. } if stream == wanted => {
                response.take_head(head);
                over |= end;
            }
            Event::Data { stream, data, end } if stream == wanted => {
                let room = room.saturating_sub(payload.len());
                payload.extend_from_slice(&data[..data.len().min(room)]);
                taken += data.len();
                over |= end;
            }
            Event::Trailers { stream, trailers } if stream == wanted => {
                std::mem::swap(&mut response.trailers, trailers);
                over = true;
            }
            Event::Reset { stream, .. } | Event::Refused { stream, .. } => over |= stream == wanted,
            Event::Goaway { last, .. } => over |= last < wanted,
            Event::Head { .. } | Event::Data { .. } | Event::Trailers { .. } => {}
            Event::Room { .. } | Event::Pong | Event::Ready => {}
        });
        let Ok(used) = used else {
            self.broken = true;
            return true;
        };
        self.rest.drain(..used);
        self.h2.consumed(wanted, taken);
        self.push();
        over
    }

    /// Whether the server broke the protocol.
    pub fn is_broken(&self) -> bool {
        self.broken
    }
}

/// The head of a request. What is of one connection has no place in it, and is left out as it is written.
pub(crate) fn head(request: &HttpRequest, parts: &Rendered<'_>) -> Result<Head, RewriteError> {
    let mut head = Head::new();
    let uri: &[u8] = if parts.uri.is_empty() { b"/" } else { &parts.uri };
    head.start_request(&request.method, uri, Version::HTTP_2)?;
    fields(parts, &mut |name, value| head.push(name, value).map(drop))?;
    Ok(head)
}
