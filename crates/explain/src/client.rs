//! The client: sends the request, and reads what comes.

use std::pin::pin;

use thalweg_h2::connection::Role;
use thalweg_runtime::net::{ConnectOptions, SockAddr, Stream};
use thalweg_runtime::{clock, timer};

use crate::framed::Framed;
use crate::line::Line;
use crate::{Ask, Message, Protocol};

/// A silence after which nothing more is expected of an answer that has begun, in virtual milliseconds.
const SILENCE_MS: u64 = 2_000;

/// How long an answer is waited for: rules may hold requests back for long.
const PATIENCE_MS: u64 = 3_600_000;

/// Most bytes of an answer that are kept.
const ANSWER_MAX: usize = 4 << 20;

/// The bytes of a request.
pub fn request(ask: &Ask) -> Vec<u8> {
    let mut head = format!("{} {} HTTP/1.1\r\n", ask.method, ask.url.path);
    let has = |name: &str| ask.fields.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    if !has("host") {
        head.push_str(&format!("Host: {}\r\n", ask.url.authority));
    }
    for (name, value) in &ask.fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !ask.body.is_empty() && !has("content-length") && !has("transfer-encoding") {
        head.push_str(&format!("Content-Length: {}\r\n", ask.body.len()));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&ask.body);
    bytes
}

/// Sends a request from one address to another, and gives the answer; `None` if there is none.
///
/// # Errors
/// There is no connection, or no agreement on TLS or on the protocol.
pub async fn exchange(
    ask: &Ask,
    (from, to): (SockAddr, SockAddr),
    tls: bool,
    protocol: Protocol,
) -> Result<Option<Message>, String> {
    let options = ConnectOptions { source: Some(from), ..ConnectOptions::default() };
    let stream = Stream::connect(&to, &options).await.map_err(|error| format!("no connection: {error}"))?;
    let mut line = Line::new(stream);
    if tls {
        // Who wants HTTP/1 names no protocol.
        let wanted: &[&[u8]] = if protocol == Protocol::Http2 { &[b"h2"] } else { &[] };
        let agreed = line.shake_hands(ask.url.host(), wanted).await?;
        if !wanted.is_empty() && agreed.as_deref() != wanted.first().copied() {
            return Err("the bind does not speak HTTP/2: 'h2' is not in its 'alpn'".into());
        }
    }
    match protocol {
        Protocol::Http1 => Ok(by_lines(ask, line).await),
        Protocol::Http2 => by_frames(ask, line).await,
    }
}

/// Waits for more, longer while there was nothing.
async fn more(line: &mut Line, is_first: bool) -> Option<Vec<u8>> {
    let patience = if is_first { PATIENCE_MS } else { SILENCE_MS };
    timer::timeout_at(Some(clock::now_ms() + patience), pin!(line.receive())).await.ok()?
}

/// Over HTTP/2.
async fn by_frames(ask: &Ask, mut line: Line) -> Result<Option<Message>, String> {
    let mut framed = Framed::new(Role::Client);
    let stream = framed.request(ask)?;
    loop {
        line.send(&framed.output()).await;
        // Settings and windows are no answer: that may take as long as rules like.
        let Some(bytes) = more(&mut line, !framed.has_begun(stream)).await else { break };
        let goes_on = framed.take(&bytes);
        if !goes_on || framed.is_whole(stream) {
            break;
        }
    }
    Ok(framed.message(stream))
}

/// Over HTTP/1.
async fn by_lines(ask: &Ask, mut line: Line) -> Option<Message> {
    line.send(&request(ask)).await;
    let mut bytes = Vec::new();
    let mut message = None;
    while bytes.len() < ANSWER_MAX {
        let Some(more) = more(&mut line, bytes.is_empty()).await else { break };
        bytes.extend_from_slice(&more);
        // Interim responses come before the answer.
        while let Some((head, length)) = Message::parse(&bytes) {
            if head.status().is_some_and(|status| (100..200).contains(&status) && status != 101) {
                bytes.drain(..length);
                continue;
            }
            message = Some((head, length));
            break;
        }
        if message.as_ref().is_some_and(|(head, length)| is_complete(ask, head, &bytes[*length..])) {
            break;
        }
    }
    message.map(|(head, length)| {
        let body = decoded(&head, &bytes[length..]);
        Message { body, ..head }
    })
}

/// Whether no more of an answer is to come.
fn is_complete(ask: &Ask, head: &Message, body: &[u8]) -> bool {
    if ask.method == "HEAD" || matches!(head.status(), Some(204 | 304)) {
        return true;
    }
    match head.field("content-length").and_then(|length| length.parse::<usize>().ok()) {
        Some(length) => body.len() >= length,
        None => body.ends_with(b"0\r\n\r\n") && head.field("transfer-encoding").is_some(),
    }
}

/// A body without its chunks.
fn decoded(head: &Message, body: &[u8]) -> Vec<u8> {
    if head.field("transfer-encoding").is_none() {
        return body.to_vec();
    }
    let (mut out, mut rest) = (Vec::new(), body);
    while let Some(end) = rest.windows(2).position(|w| w == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).ok();
        let size = size.and_then(|s| usize::from_str_radix(s.split(';').next()?.trim(), 16).ok());
        let Some(data) = size.filter(|s| *s > 0).and_then(|s| rest.get(end + 2..end + 2 + s)) else { break };
        out.extend_from_slice(data);
        rest = rest.get(end + 4 + data.len()..).unwrap_or_default();
    }
    out
}
