//! What a backend's `balance` line comes to here: a picker of [`thalweg_balance`], and for hashing ones a stream to look at. How
//! each is written, and what it hashes, is in `thalweg_config`.

use thalweg_balance::{Algorithm, KeyHash};
use thalweg_config::model::{Asked, BalanceAlgo, Proxy};
use thalweg_http::Head;
use thalweg_sample::facts::Endpoint;

use crate::connection::port::Port;

/// The stream that a server is chosen for.
pub struct Chooser<'s> {
    /// The client's address.
    pub source: Endpoint,
    /// The request; `None` in TCP.
    pub request: Option<&'s Head>,
    /// The client's connection: of a request, the body is there, as far as it was waited for.
    pub client: &'s mut Port,
}

impl Asked for Chooser<'_> {
    fn source(&self) -> Endpoint {
        self.source
    }

    fn request(&self) -> Option<&Head> {
        self.request
    }

    fn with_body(&mut self, look: &mut dyn FnMut(&[u8])) {
        let body = self.client.look();
        look(body.payload().data());
    }

    fn received(&self) -> &[u8] {
        self.client.received()
    }
}

/// How the servers of a backend are picked.
pub fn picker(proxy: &Proxy) -> Algorithm {
    match proxy.balance.algo {
        BalanceAlgo::Servers(algorithm) => algorithm,
        BalanceAlgo::Key(_) | BalanceAlgo::Hash(_) | BalanceAlgo::LogHash(_) => {
            Algorithm::hashing(proxy.balance.hash.method)
        }
    }
}

/// Whether servers may be added to a backend: not where the order of its servers is written out once.
pub fn takes_new_servers(proxy: &Proxy) -> bool {
    !picker(proxy).traits().has_fixed_weights
}

/// The hash function of a backend, as `hash-type` says.
pub fn hasher(proxy: &Proxy) -> KeyHash {
    let hash = proxy.balance.hash;
    KeyHash { function: hash.function, avalanche: hash.avalanche }
}

/// Whether the key may be in the body of a request, so that the body is waited for.
pub fn looks_into_bodies(proxy: &Proxy) -> bool {
    matches!(&proxy.balance.algo, BalanceAlgo::Key(key) if key.looks_into_bodies())
}
