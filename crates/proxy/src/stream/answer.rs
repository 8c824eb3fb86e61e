//! What this process answers by itself: [`reply`](super::reply) makes and sends it.

use thalweg_rules::{Realm, Redirect, Reply};

/// What to answer.
pub enum Answer<'a> {
    /// The configured or built-in reply for a status.
    Error(u16),
    /// A reply from a rule.
    Reply(&'a Reply),
    /// A redirection; its variable parts are in the stream's effects.
    Redirect(&'a Redirect),
    /// A challenge for a user name and password.
    Auth(&'a Realm),
    /// `redir`: the same path on another host.
    ServerRedirect(&'a str),
}
