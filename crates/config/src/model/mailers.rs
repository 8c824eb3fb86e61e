//! Alerts by e-mail.

use std::net::SocketAddr;
use std::sync::Arc;

use super::LogLevel;

/// What a proxy tells by e-mail, to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmailAlert {
    /// All of these get each mail.
    pub mailers: Arc<Mailers>,
    /// Its sender.
    pub from: Arc<str>,
    /// Whom it is for.
    pub to: Arc<str>,
    /// The least severe level that is told.
    pub level: LogLevel,
    /// What this host calls itself; its own name if no line says.
    pub hostname: Option<Arc<str>>,
}

/// A `mailers` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailers {
    pub name: Arc<str>,
    pub servers: Vec<Mailer>,
    /// How long a mail may take, in milliseconds.
    pub timeout_ms: u64,
}

/// A server that takes mails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailer {
    pub name: Arc<str>,
    pub addr: SocketAddr,
}
