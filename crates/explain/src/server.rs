//! The servers: each answers every request alike, and keeps the last one.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_h2::connection::Role;
use thalweg_runtime::net::{Listener, SockAddr, Stream};
use thalweg_runtime::{Kind, spawn};
use thalweg_tls::bind::{BindContext, Profile, Served, Shared};
use thalweg_tls::certificate::{LoadOptions, Loader};
use thalweg_tls::files::Disk;
use thalweg_tls::select::Selection;
use thalweg_tls::session::SessionCache;
use thalweg_tls::x509::make::{MadeKey, NewKey, Template};
use thalweg_tls::{Clock, SystemClock};

use crate::framed::{Framed, PREFACE};
use crate::line::Line;
use crate::{Answer, Message};

/// The tasks of the stage.
pub static ACTOR: Kind = Kind::new("explain");

/// The first byte of a record with handshake messages (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 22;

/// Most bytes of a request that are read.
const REQUEST_MAX: usize = 16 << 20;

/// What the last server got.
pub type Sent = Rc<RefCell<Option<Message>>>;

/// What servers have in common.
#[derive(Clone)]
pub struct Script {
    /// What they answer.
    pub answer: Rc<Answer>,
    pub sent: Sent,
    /// Their side of TLS, for clients that begin with it.
    pub tls: Option<Arc<Selection>>,
}

/// How long the certificate of the stage is in force, in seconds.
const YEAR_S: i64 = 365 * 86_400;

/// A server's side of TLS, with a certificate that was made for the stage.
pub fn encryption() -> Option<Arc<Selection>> {
    let key = MadeKey::generate(NewKey::P256).ok()?;
    let now = SystemClock.now() as i64;
    let template = Template::new("explained", now - YEAR_S, now + YEAR_S);
    let text = template.self_signed(&key).ok()?;
    let loader = Loader { files: &Disk, options: &LoadOptions::default() };
    let credential = loader.load_bytes("explained", text.as_bytes()).ok()?;
    let clock: Arc<SystemClock> = Arc::new(SystemClock);
    let shared = Shared {
        clock: clock.clone(),
        tickets: None,
        cache: Arc::new(SessionCache::new(1, 1, clock)),
        lifetime: 1,
        keep_secrets: false,
        keep_hello: 0,
    };
    let profile = Profile { alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()], ..Profile::default() };
    let context = BindContext::new(&profile, shared).ok()?;
    let mut selection = Selection::new(false);
    selection.add(Arc::new(Served::new(Arc::new(credential), Arc::new(context))), &[]);
    selection.last_is_default();
    Some(Arc::new(selection))
}

/// Serves an address.
pub async fn serve(address: SockAddr, script: Script) {
    // Several servers may have one address; the first of them serves it.
    let Ok(mut listener) = Listener::bind(&address, &Default::default()) else { return };
    while let Ok((fd, _)) = listener.accept().await {
        if let Ok(stream) = Stream::from_accepted(fd) {
            spawn(&ACTOR, respond(Line::new(stream), script.clone()));
        }
    }
}

async fn respond(mut line: Line, script: Script) {
    let (mut bytes, mut tls) = (Vec::new(), script.tls.clone());
    loop {
        match line.receive().await {
            Some(more) if bytes.len() < REQUEST_MAX => bytes.extend_from_slice(&more),
            _ => return,
        }
        skip_proxy_header(&mut bytes);
        if let Some(tls) = tls.take_if(|_| bytes.first() == Some(&TLS_HANDSHAKE)) {
            if line.accept(&tls, &std::mem::take(&mut bytes)).await.is_err() {
                return;
            }
            continue;
        }
        if bytes.starts_with(PREFACE) {
            return respond_framed(line, bytes, &script).await;
        }
        let Some((mut head, length)) = Message::parse(&bytes) else { continue };
        let expects = head.field("expect").is_some();
        let body = &bytes[length..];
        let complete = match head.field("content-length").and_then(|l| l.parse::<usize>().ok()) {
            Some(expected) => body.len() >= expected,
            None => head.field("transfer-encoding").is_none() || body.ends_with(b"0\r\n\r\n"),
        };
        if !complete {
            if expects && body.is_empty() {
                line.send(b"HTTP/1.1 100 Continue\r\n\r\n").await;
            }
            continue;
        }
        head.body = body.to_vec();
        let is_head = head.line.starts_with("HEAD ");
        *script.sent.borrow_mut() = Some(head);
        bytes.clear();
        line.send(&response(&script.answer, is_head)).await;
    }
}

/// The same over HTTP/2.
async fn respond_framed(mut line: Line, begun: Vec<u8>, script: &Script) {
    let (mut framed, mut bytes) = (Framed::new(Role::Server), begun);
    loop {
        let goes_on = framed.take(&bytes);
        while let Some(stream) = framed.next_whole() {
            if let Some(request) = framed.message(stream) {
                framed.respond(stream, &script.answer, request.line.starts_with("HEAD "));
                *script.sent.borrow_mut() = Some(request);
            }
        }
        line.send(&framed.output()).await;
        if !goes_on {
            return;
        }
        match line.receive().await {
            Some(more) => bytes = more,
            None => return,
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
