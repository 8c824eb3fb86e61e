//! What is counted of TLS.

use std::sync::atomic::Ordering::Relaxed;

use thalweg_config::model::{ProxyId, ServerId};
use thalweg_runtime::clock;
use thalweg_sample::facts::TlsFacts;
use thalweg_shared as sync;
use thalweg_tls::facts::{Facts, Stapled};

use super::{Counter, Counters, Rate};
use crate::worker::{Thread, Worker, raise};

/// What is counted of the handshakes of a listener, a server or a backend, in the order of the columns `ssl_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// Done, with new keys.
    Full,
    /// Done, with the keys of a session before.
    Resumed,
    Failed,
    /// The client was given its certificate's OCSP response.
    Stapled,
    /// The client asked for it, and it was not in force.
    Unstapled,
}

impl Handshake {
    /// How many there are.
    pub const COUNT: usize = Handshake::Unstapled as usize + 1;
}

impl Counters {
    /// Counts a handshake. Only the owning thread may call this.
    pub fn count_handshake(&self, what: Handshake) {
        self.handshakes.add(what as usize, 1);
    }

    /// Counts one that is done. Only the owning thread may call this.
    pub fn count_agreed(&self, facts: &Facts) {
        self.count_handshake(if facts.resumed { Handshake::Resumed } else { Handshake::Full });
        match facts.stapled {
            Stapled::Unasked => {}
            Stapled::Sent => self.count_handshake(Handshake::Stapled),
            Stapled::Outdated => self.count_handshake(Handshake::Unstapled),
        }
    }

    /// How many there were, by [`Handshake`].
    pub fn handshakes(&self) -> [u64; Handshake::COUNT] {
        std::array::from_fn(|what| self.handshakes.get(what))
    }
}

/// Handshakes of TLS that were completed by one thread.
#[derive(Default)]
pub struct TlsCounters {
    /// With clients and servers.
    pub connections: Counter,
    /// With clients.
    pub rate: Rate,
    /// Those with clients that made new keys, rather than resume a session.
    pub client_keys: Rate,
    /// The same with servers.
    pub server_keys: Rate,
}

/// The largest rates of [`TlsCounters`], as [`super::Peaks`].
#[derive(Default)]
pub struct TlsPeaks {
    pub rate: sync::AtomicU64,
    pub client_keys: sync::AtomicU64,
    pub server_keys: sync::AtomicU64,
}

impl TlsPeaks {
    /// Starts anew.
    pub fn reset(&self) {
        for peak in [&self.rate, &self.client_keys, &self.server_keys] {
            peak.store(0, Relaxed);
        }
    }
}

impl Thread {
    /// A handshake with a client of a listener is over: what was agreed on, if anything was.
    pub fn count_client_handshake(&self, listener: usize, agreed: Option<&TlsFacts>) {
        let counters = self.fe_counters(listener);
        match agreed {
            None => counters.count_handshake(Handshake::Failed),
            Some(facts) => {
                counters.count_agreed(&facts.known);
                self.count_tls_client(facts.known.resumed);
            }
        }
    }

    /// TLS was agreed on with a client, of a listener with or without counters of its own.
    pub fn count_tls_client(&self, resumed: bool) {
        let (now_ms, instance, tls) = (clock::now_ms(), &*self.live, &self.counters().tls);
        tls.connections.add(1);
        if let Some(past) = tls.rate.add(now_ms) {
            raise(&instance.tls_peaks.rate, instance.threads.iter().map(|t| &t.tls.rate), past);
        }
        if !resumed && let Some(past) = tls.client_keys.add(now_ms) {
            let rates = instance.threads.iter().map(|t| &t.tls.client_keys);
            raise(&instance.tls_peaks.client_keys, rates, past);
        }
    }

    /// TLS was agreed on with a server, of a backend or not.
    pub fn count_tls_server(&self, resumed: bool) {
        let (now_ms, instance, tls) = (clock::now_ms(), &*self.live, &self.counters().tls);
        tls.connections.add(1);
        if !resumed && let Some(past) = tls.server_keys.add(now_ms) {
            let rates = instance.threads.iter().map(|t| &t.tls.server_keys);
            raise(&instance.tls_peaks.server_keys, rates, past);
        }
    }
}

impl Worker {
    /// A handshake with a server of a backend is over, a check's or one for traffic: what was agreed on, if anything was.
    pub fn count_server_handshake(&self, proxy: ProxyId, server: ServerId, agreed: Option<&TlsFacts>) {
        for counters in [self.srv_counters(proxy, server), self.be_counters(proxy)] {
            match agreed {
                None => counters.count_handshake(Handshake::Failed),
                Some(facts) => counters.count_agreed(&facts.known),
            }
        }
        if let Some(facts) = agreed {
            self.count_tls_server(facts.known.resumed);
        }
    }
}
