//! Is the peer who it says? Chains, host names, revocation, and what a configuration ignores of it.

pub mod chain;
mod constraints;
pub mod errors;
pub mod host;
mod peer;
pub(crate) mod signature;
mod trust;

pub use chain::{Purpose, Request};
pub use errors::{Code, Ignored, UnknownError};
pub use peer::{ClientPolicy, ClientVerifier, ServerPolicy, ServerVerifier, Verdict, Verify};
pub(crate) use signature::{Checked, check as check_signature};
pub use trust::{Crls, TrustStore};
