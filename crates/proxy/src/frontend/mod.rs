//! The client's side: listeners and sessions.

pub mod admission;
mod dismissal;
mod listed;
pub mod listener;
pub mod parting;
mod private;
pub mod reverse;
pub mod session;
pub mod streams;

use std::cell::{Cell, Ref, RefCell, RefMut};

use thalweg_config::model::{Proxy, ProxyId};
use thalweg_sample::facts::{ConnError, Session};
use thalweg_tls::Failure;

use private::PrivateConnection;

use crate::worker::Thread;

/// A client's stay: its connection's facts, and where it came in. What the streams of a session share is in cells, because
/// there may be several at once; they are never borrowed across an `await`.
pub struct ClientSession {
    facts: RefCell<Session>,
    pub frontend: ProxyId,
    /// No request was served yet.
    pub first: Cell<bool>,
    /// Whether HTTP/2 is spoken, where that is known before anything is received.
    pub framed: Cell<Framed>,
    /// Position of the listener in the instance.
    pub listener: usize,
    /// Server connections that no other session may use (`http-reuse never`, or a client that authenticated its
    /// connection).
    // Boxed because few have one.
    #[allow(clippy::box_collection)]
    private: Cell<Option<Box<Vec<PrivateConnection>>>>,
}

/// Whether HTTP/2 is spoken on a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framed {
    /// The listener says so, or TLS, or what comes.
    Unknown,
    /// A rule said that it is not (`switch-mode http proto`).
    No,
    /// A rule said that it is.
    Yes,
    /// It is, and this process connected to the client (`bind rhttp@`).
    Dialed,
}

impl ClientSession {
    /// What is known of the connection.
    #[inline]
    pub fn facts(&self) -> Ref<'_, Session> {
        self.facts.borrow()
    }

    /// The same, to be changed.
    #[inline]
    pub fn facts_mut(&self) -> RefMut<'_, Session> {
        self.facts.borrow_mut()
    }

    /// TLS failed on the connection after its handshake: what `fc_err` and `ssl_fc_err` tell from here on.
    #[cold]
    pub fn tls_failed(&self, failure: &Failure) {
        let mut facts = self.facts_mut();
        facts.error = ConnError::SSL_FATAL;
        if let Some(tls) = &mut facts.rare_mut().tls {
            tls.failure = Some(failure.clone());
        }
    }
}

/// `timeout client`, as it is in force now.
fn client_timeout(own: &Thread, session: &ClientSession) -> Option<u64> {
    of_frontend(own, session, |fe| fe.timeouts.client).flatten()
}

/// What the frontend of a session says now; `None` when it is gone.
fn of_frontend<R>(own: &Thread, session: &ClientSession, f: impl FnOnce(&Proxy) -> R) -> Option<R> {
    own.pin_for(session.listener)?.instance.config.find_proxy(session.frontend).map(f)
}
