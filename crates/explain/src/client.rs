//! The client: sends the request, and reads what comes.

use std::pin::pin;

use thalweg_runtime::net::{ConnectOptions, SockAddr, Stream};
use thalweg_runtime::{clock, timer};

use crate::line::Line;
use crate::{Ask, Message};

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
/// There is no connection, or no agreement on TLS.
pub async fn exchange(ask: &Ask, from: SockAddr, to: SockAddr, tls: bool) -> Result<Option<Message>, String> {
    let options = ConnectOptions { source: Some(from), ..ConnectOptions::default() };
    let stream = Stream::connect(&to, &options).await.map_err(|error| format!("no connection: {error}"))?;
    let mut line = Line::new(stream);
    if tls {
        line.shake_hands(ask.url.host()).await?;
    }
    line.send(&request(ask)).await;
    let mut bytes = Vec::new();
    let mut message = None;
    while bytes.len() < ANSWER_MAX {
        let patience = if bytes.is_empty() { PATIENCE_MS } else { SILENCE_MS };
        let deadline = Some(clock::now_ms() + patience);
        let Ok(Some(more)) = timer::timeout_at(deadline, pin!(line.receive())).await else { break };
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
    Ok(message.map(|(head, length)| {
        let body = decoded(&head, &bytes[length..]);
        Message { body, ..head }
    }))
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
