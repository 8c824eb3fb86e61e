//! What makes two connections to a server interchangeable.

use thalweg_config::model::WebSocketProtocol;

/// Everything besides the server that makes two connections interchangeable; `None` in [`ServerConn`](super::connect::ServerConn) for the
/// usual case in which nothing does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ConnectionKey {
    /// Source address and port the connection was bound to.
    pub source: Option<std::net::SocketAddr>,
    /// Target address, when it depends on the request.
    pub target: Option<std::net::SocketAddr>,
    /// The PROXY header that was sent.
    pub proxy_header: Vec<u8>,
    /// Mark of its packets (`set-bc-mark`): they took another route.
    pub mark: Option<u32>,
    /// Type of service of its packets (`set-bc-tos`).
    pub tos: Option<u8>,
    /// The version of HTTP that a WebSocket needs, where another may be spoken to the server (`ws`).
    pub protocol: Option<WebSocketProtocol>,
    /// The name of the connection (`pool-conn-name`), or else what the server was asked for by TLS (`sni`).
    pub name: Option<Box<[u8]>>,
    /// Where TLS is spoken, the number of the server's context, by whose rules the server was believed: certificate,
    /// authorities and lists may be changed while it runs.
    pub tls: Option<u64>,
}
