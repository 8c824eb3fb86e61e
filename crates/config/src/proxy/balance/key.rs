//! What hashing algorithms look at.

use std::fmt::Debug;

use thalweg_balance::KeyHash;
use thalweg_http::Head;
use thalweg_sample::facts::Endpoint;

/// The stream that a server is chosen for.
pub trait Asked {
    /// The client's address.
    fn source(&self) -> Endpoint;
    /// The request; `None` in TCP.
    fn request(&self) -> Option<&Head>;
    /// Hands `look` what is there of the request's body, without its framing.
    fn with_body(&mut self, look: &mut dyn FnMut(&[u8]));
    /// What a TCP client sent first, as far as it was received.
    fn received(&self) -> &[u8];
}

/// What a hashing algorithm makes its number of.
pub trait BalanceKey: Debug + Send + Sync {
    /// The name of the algorithm.
    fn name(&self) -> &'static str;

    /// The number; `None` where there is nothing to make it of.
    fn hash(&self, asked: &mut dyn Asked, hash: KeyHash) -> Option<u32>;

    /// Whether it is of a request: it needs `mode http`.
    fn needs_request(&self) -> bool {
        true
    }

    /// Whether it may be in the body of a request, so that the body is waited for.
    fn looks_into_bodies(&self) -> bool {
        false
    }
}
