//! A connection of the stage, with or without TLS, from either end.

use std::sync::Arc;

use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::Stream;
use thalweg_tls::engine::{Accepting, Connected, Connecting, Event, Step};
use thalweg_tls::select::Selection;
use thalweg_tls::server::{ServerContext, ServerProfile};
use thalweg_tls::{Failure, SystemClock};

/// A connection of the stage.
pub struct Line {
    stream: Stream,
    tls: Option<Box<Connected>>,
    /// Received and not decrypted.
    raw: Vec<u8>,
}

impl Line {
    /// One on which no TLS is spoken so far.
    pub fn new(stream: Stream) -> Line {
        Line { stream, tls: None, raw: Vec::new() }
    }

    async fn send_raw(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() && self.stream.send_ready().await.is_ok() {
            self.stream.start_send(Buf::copy_of(bytes));
            let _ = self.stream.send_ready().await;
        }
    }

    async fn receive_raw(&mut self) -> Option<Vec<u8>> {
        match self.stream.recv(1 << 16).await {
            Ok(buf) if !buf.is_empty() => Some(buf.to_vec()),
            _ => None,
        }
    }

    /// Agrees on TLS as a client, with whoever it is: what is explained is not whether the certificate is good. Gives the protocol
    /// that was chosen of those that are offered.
    pub async fn shake_hands(&mut self, host: &str, offered: &[&[u8]]) -> Result<Option<Vec<u8>>, String> {
        let failed = |what: String| format!("no agreement on TLS: {what}");
        let alpn = offered.iter().map(|name| name.to_vec()).collect();
        let profile = ServerProfile { alpn, ..ServerProfile::default() };
        let context =
            ServerContext::new(&profile, Arc::new(SystemClock)).map_err(|error| failed(error.to_string()))?;
        let is_name = host.parse::<std::net::IpAddr>().is_err() && !host.starts_with('[');
        let name = is_name.then_some(host.as_bytes());
        let mut connecting =
            Connecting::new(Arc::new(context), name, None).map_err(|e| failed(e.to_string()))?;
        let mut out = Vec::new();
        loop {
            while connecting.is_ready() {
                let step = connecting.step(&mut out);
                self.send_raw(&std::mem::take(&mut out)).await;
                if step.map_err(|error| failed(error.to_string()))? == Step::Done {
                    let connected = connecting.finish().map_err(|error| failed(error.to_string()))?;
                    let chosen = connected.facts.alpn.clone();
                    self.agreed(connected);
                    return Ok(chosen);
                }
            }
            let bytes = self.receive_raw().await.ok_or_else(|| failed("the connection was closed".into()))?;
            connecting.feed(&bytes).map_err(|error| failed(error.to_string()))?;
        }
    }

    /// Agrees on TLS as a server. `begun` is what the client said so far.
    pub async fn accept(&mut self, selection: &Arc<Selection>, begun: &[u8]) -> Result<(), Failure> {
        let (mut accepting, mut out) = (Accepting::new(Arc::clone(selection)), Vec::new());
        accepting.feed(begun, &mut out)?;
        loop {
            while accepting.is_ready() {
                let step = accepting.step(&mut out);
                self.send_raw(&std::mem::take(&mut out)).await;
                if step? == Step::Done {
                    let connected = accepting.finish(&mut out)?;
                    self.send_raw(&out).await;
                    self.agreed(connected);
                    return Ok(());
                }
            }
            let Some(bytes) = self.receive_raw().await else { return Ok(()) };
            accepting.feed(&bytes, &mut out)?;
        }
    }

    fn agreed(&mut self, mut connected: Connected) {
        self.raw = std::mem::take(&mut connected.rest);
        self.tls = Some(Box::new(connected));
    }

    /// Sends bytes; what cannot be sent will not be answered.
    pub async fn send(&mut self, plain: &[u8]) {
        const FRAGMENT: usize = 16_384;
        let Some(tls) = &mut self.tls else { return self.send_raw(plain).await };
        let mut out = vec![0; tls.connection.sealed_length(plain.len(), FRAGMENT) + 256];
        let Ok(sealed) = tls.connection.seal(&[plain], FRAGMENT, &mut out) else { return };
        out.truncate(sealed.written);
        self.send_raw(&out).await;
    }

    /// What comes next; `None` when nothing more does.
    pub async fn receive(&mut self) -> Option<Vec<u8>> {
        loop {
            if self.tls.is_none() {
                return self.receive_raw().await;
            }
            let plain = self.decrypt()?;
            if !plain.is_empty() {
                return Some(plain);
            }
            let more = self.receive_raw().await?;
            self.raw.extend_from_slice(&more);
        }
    }

    fn decrypt(&mut self) -> Option<Vec<u8>> {
        let tls = self.tls.as_mut()?;
        let (mut plain, mut at) = (std::mem::take(&mut tls.early), 0);
        while at < self.raw.len() && !tls.connection.is_closed() {
            let Some(opened) = tls.connection.open(&mut self.raw[at..]).ok()? else { break };
            if let Event::Data(range) = opened.event {
                plain.extend_from_slice(&self.raw[at..][range]);
            }
            at += opened.consumed;
        }
        self.raw.drain(..at);
        if plain.is_empty() && tls.connection.is_closed() { None } else { Some(plain) }
    }
}
