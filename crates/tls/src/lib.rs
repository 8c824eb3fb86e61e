//! TLS for both sides of the proxy, without a socket: bytes in, bytes out.
//!
//! - [`engine`]: handshakes as steps, connections as records. rustls shakes hands with AWS-LC's algorithms; records are
//!   ours.
//! - [`bind`], [`server`]: what a line of the configuration says, ready to be used. [`select`] finds the certificate for a
//!   client.
//! - [`generate`] makes certificates for names that nobody has.
//! - [`certificate`], [`crt_list`], [`ocsp`], [`x509`], [`pem`], [`der`]: loading and reading.
//! - [`verify`]: is the peer who it says?
//! - [`session`] is about resuming.
//! - [`hello`]: a ClientHello without terminating TLS.
//! - [`live`]: what can be changed while connections are served, and the commands that change it.
//! - [`options`]: the reference's words, and what they come to.
//! - [`facts`]: what sample fetches and logs tell of a connection.
//!
//! It sees no socket and no thread. The time comes through [`Clock`], files through [`files::Files`]; random numbers are
//! the library's own, in `provider`.
#![forbid(unsafe_code)]

pub mod bind;
pub mod certificate;
mod clock;
pub mod crt_list;
pub mod der;
pub mod engine;
pub mod facts;
mod failure;
pub mod files;
pub mod generate;
pub mod hello;
mod key_block;
mod key_schedule;
pub mod live;
mod notes;
pub mod ocsp;
pub mod options;
pub mod pem;
mod provider;
pub mod select;
pub mod server;
pub mod session;
pub mod verify;
pub mod x509;

pub use clock::{Clock, FixedClock, SystemClock};
pub use failure::{Failure, alert};
pub use provider::NoEntropy;
