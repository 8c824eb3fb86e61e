//! Checks on connections of traffic (manual: `check-reuse-pool`): those that it left idle, and, where one carries many requests at once,
//! those that it may use afterwards.

use std::future::poll_fn;
use std::io;

use thalweg_check::{Connect, Conversation, Protocol};
use thalweg_config::model::{CheckConfig, ProxyHeader};
use thalweg_http::Head;
use thalweg_rules::Overrides;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::pool::Block;
use thalweg_sample::facts::{self, ListenerId, Session, StreamFacts};

use super::super::connect::{LineValues, Target};
use super::super::seats::Seat;
use super::What;
use super::checker::Checker;
use crate::connection::line::Line;
use crate::connection::transport::Transport;

impl Checker {
    /// Whether a check may use connections of traffic: the server's line asks for that, and does not say that checks need others.
    pub(super) fn shares(&self, conversation: &Conversation, connect: &Connect) -> bool {
        let is_http = conversation.speaks_http() && !conversation.needs_frames();
        let Some((_, server)) = self.config().filter(|_| is_http && self.what == What::Health) else {
            return false;
        };
        let as_traffic = |check: &CheckConfig| {
            let is_framed = server.rare().proto.as_deref() == Some("h2");
            let speaks = |protocol| (protocol == Protocol::Http2) == is_framed;
            check.reuse_pool && !check.send_proxy && !check.via_socks4 && check.protocol.is_none_or(speaks)
        };
        let (now, tls) = (self.backend().identity(server), server.tls.as_deref());
        connect.is_default()
            && server.check.as_deref().is_some_and(as_traffic)
            && now.check_addr.is_none()
            && now.check_port.is_none()
            && server.send_proxy == ProxyHeader::None
            && tls.is_none_or(|tls| tls.check_ssl == tls.ssl && tls.check_protocols.is_none())
    }

    /// What the connection of a check would be to a request.
    fn target(&self) -> Option<Target<'_>> {
        let (proxy, server) = self.config()?;
        let check = server.check.as_deref()?;
        let of_tls = || server.tls.as_deref()?.check_sni.as_deref();
        let name = check.pool_conn_name.as_deref().or_else(of_tls);
        let values = LineValues {
            header_fields: Vec::new(),
            sni: None,
            name: name.map(|name| Some(name.as_bytes().into())),
            websocket: false,
            source: None,
        };
        // A request that nobody sent.
        let id = facts::ProxyId(proxy.id.0);
        let (session, facts) = (Session::new(id, ListenerId(0)), StreamFacts::new(id, true));
        let overrides = Overrides::default();
        Some(Target::new(&self.worker, proxy.id, server, &session, &facts, &overrides, values))
    }

    /// A connection that traffic left idle, with its seat, as a first request would get one.
    pub(super) async fn idle_connection(&self) -> Option<(Line, Option<Seat>)> {
        let target = self.target()?;
        let idle = match target.take_idle(true) {
            Some(idle) => Block::into_inner(idle),
            None => target.take_siblings_idle(true).await?,
        };
        Some((idle.port.line, idle.seat))
    }

    /// The connection that a check made is for traffic, too, if it carries many requests at once. Those of a server that counts its
    /// connections have seats, which checks do not need.
    pub(super) fn share(&self, conversation: &mut Conversation, io: Transport) -> Line {
        let may_share = |target: &Target<'_>| conversation.is_framed() && !target.is_strict();
        let Some(target) = self.target().filter(may_share) else { return Line::from(io) };
        conversation.on_shared();
        target.share_unseated(io).port.line
    }
}

/// A check begins on an idle connection.
pub(super) fn begin(conversation: &mut Conversation, line: &Line) {
    conversation.connected();
    if line.tls_facts().is_some() {
        conversation.encrypted();
    }
    if line.is_framed() {
        conversation.on_shared();
    }
}

/// Makes the request of a check on a connection that carries many at once.
pub(super) fn request(line: &mut Line, head: &Head, body: &[u8]) {
    let scheme: &[u8] = if line.tls_facts().is_some() { b"https" } else { b"http" };
    let Line::Mux(stream) = line else { return };
    // A stream has one request; a check may make several.
    let mut place = stream.mux().place();
    place.open(head, scheme, body.is_empty());
    if !body.is_empty() {
        place.end_with_next_send();
        place.start_send(Buf::copy_of(body));
    }
    **stream = place;
}

/// Waits for what comes next of an answer, and tells the check of it. False when nothing more comes.
pub(super) async fn hear(line: &mut Line, conversation: &mut Conversation) -> io::Result<bool> {
    if let Line::Mux(stream) = line
        && conversation.awaits_head()
    {
        let mut head = Box::new(Head::new());
        let came = poll_fn(|_| stream.poll_head(&mut head)).await;
        came.map_err(|_| io::ErrorKind::ConnectionReset)?;
        conversation.answered(&mut head);
        return Ok(true);
    }
    let room = conversation.room();
    let received = poll_fn(|_| line.poll_recv(room)).await?;
    conversation.received(&received);
    if received.is_empty()
        && let Line::Mux(stream) = line
        && let Some(trailers) = stream.trailers()
    {
        conversation.trailed(*trailers);
    }
    Ok(!received.is_empty())
}
