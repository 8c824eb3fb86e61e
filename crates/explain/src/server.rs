//! The servers: each answers every request alike, and keeps the last one.

use std::cell::RefCell;
use std::rc::Rc;

use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::{Listener, SockAddr, Stream};
use thalweg_runtime::{Kind, spawn};

use crate::{Answer, Message};

/// The tasks of the stage.
pub static ACTOR: Kind = Kind::new("explain");

/// Most bytes of a request that are read.
const REQUEST_MAX: usize = 16 << 20;

/// What the last server got.
pub type Sent = Rc<RefCell<Option<Message>>>;

/// Serves an address.
pub async fn serve(address: SockAddr, answer: Rc<Answer>, sent: Sent) {
    // Several servers may have one address; the first of them serves it.
    let Ok(mut listener) = Listener::bind(&address, &Default::default()) else { return };
    while let Ok((fd, _)) = listener.accept().await {
        if let Ok(stream) = Stream::from_accepted(fd) {
            spawn(&ACTOR, respond(stream, Rc::clone(&answer), Rc::clone(&sent)));
        }
    }
}

async fn respond(mut stream: Stream, answer: Rc<Answer>, sent: Sent) {
    let mut bytes = Vec::new();
    loop {
        match stream.recv(1 << 16).await {
            Ok(buf) if !buf.is_empty() && bytes.len() < REQUEST_MAX => bytes.extend_from_slice(&buf),
            _ => return,
        }
        skip_proxy_header(&mut bytes);
        let Some((mut head, length)) = Message::parse(&bytes) else { continue };
        let expects = head.field("expect").is_some();
        let body = &bytes[length..];
        let complete = match head.field("content-length").and_then(|l| l.parse::<usize>().ok()) {
            Some(expected) => body.len() >= expected,
            None => head.field("transfer-encoding").is_none() || body.ends_with(b"0\r\n\r\n"),
        };
        if !complete {
            if expects && body.is_empty() && stream.send_ready().await.is_ok() {
                stream.start_send(Buf::copy_of(b"HTTP/1.1 100 Continue\r\n\r\n"));
            }
            continue;
        }
        head.body = body.to_vec();
        let is_head = head.line.starts_with("HEAD ");
        *sent.borrow_mut() = Some(head);
        bytes.clear();
        if stream.send_ready().await.is_ok() {
            stream.start_send(Buf::copy_of(&response(&answer, is_head)));
        }
    }
}

/// A PROXY header, of either version, comes before the request.
fn skip_proxy_header(bytes: &mut Vec<u8>) {
    if bytes.starts_with(b"PROXY ") {
        if let Some(end) = bytes.windows(2).position(|w| w == b"\r\n") {
            bytes.drain(..end + 2);
        }
    } else if bytes.starts_with(b"\r\n\r\n\0\r\nQUIT\n") && bytes.len() >= 16 {
        let length = 16 + usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
        if bytes.len() >= length {
            bytes.drain(..length);
        }
    }
}

fn response(answer: &Answer, is_head: bool) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} Answer\r\n", answer.status);
    for (name, value) in &answer.fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !matches!(answer.status, 204 | 304) {
        head.push_str(&format!("Content-Length: {}\r\n", answer.body.len()));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    if !is_head && !matches!(answer.status, 204 | 304) {
        bytes.extend_from_slice(&answer.body);
    }
    bytes
}
