//! Checks on connections that traffic left idle (manual: `check-reuse-pool`).

use thalweg_check::{Connect, Conversation};
use thalweg_config::model::{Proxy, ProxyHeader, Server};
use thalweg_rules::Overrides;
use thalweg_sample::facts::{self, ListenerId, Session, StreamFacts};

use super::super::connect::{LineValues, Target};
use super::super::seats::Seat;
use super::What;
use super::checker::Checker;
use crate::connection::transport::Transport;

impl Checker {
    /// An idle connection on which a check may be sent, with its seat: as a first request would get one. None where the server's line
    /// does not ask for that, or says that checks need other connections than traffic.
    pub(super) async fn idle_connection(
        &self,
        conversation: &Conversation,
        connect: &Connect,
    ) -> Option<(Transport, Option<Seat>)> {
        let (proxy, server) = self.config()?;
        let is_http = conversation.speaks_http() && !conversation.needs_frames();
        if !is_http || self.what != What::Health || !self.connects_as_traffic(server, connect) {
            return None;
        }
        let check = server.check.as_deref()?;
        let of_tls = || server.tls.as_deref()?.check_sni.as_deref();
        let name = check.pool_conn_name.as_deref().or_else(of_tls);
        let values = LineValues {
            header_fields: Vec::new(),
            sni: None,
            name: name.map(|name| Some(name.as_bytes().into())),
            websocket: false,
        };
        let (session, facts) = nobody(proxy);
        let overrides = Overrides::default();
        let target = Target::new(&self.worker, proxy.id, server, &session, &facts, &overrides, values);
        let idle = match target.take_idle(true) {
            Some(idle) => *idle,
            None => target.take_siblings_idle(true).await?,
        };
        // One that carries many requests at once is left to traffic.
        Some((idle.port.line.into_wire()?, idle.seat))
    }

    fn connects_as_traffic(&self, server: &Server, connect: &Connect) -> bool {
        let now = self.backend().identity(server);
        let as_traffic = |check: &thalweg_config::model::CheckConfig| {
            check.reuse_pool && !check.send_proxy && !check.via_socks4 && check.protocol.is_none()
        };
        let tls = server.tls.as_deref();
        connect.is_default()
            && server.check.as_deref().is_some_and(as_traffic)
            && now.check_addr.is_none()
            && now.check_port.is_none()
            && server.send_proxy == ProxyHeader::None
            && tls.is_none_or(|tls| tls.check_ssl == tls.ssl && tls.check_protocols.is_none())
    }
}

/// A request that nobody sent.
fn nobody(proxy: &Proxy) -> (Session, StreamFacts) {
    let id = facts::ProxyId(proxy.id.0);
    (Session::new(id, ListenerId(0)), StreamFacts::new(id, true))
}
