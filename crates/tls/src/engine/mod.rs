//! A TLS connection as bytes in, bytes out: handshakes as steps, then records.
//!
//! [`Accepting`] and [`Connecting`] hold rustls while it shakes hands. When it is done they take the keys out of it and
//! give a [`Connection`], which is our own record layer over AWS-LC's ciphers: rustls 0.23 copies and allocates for each
//! record in both directions, ours decrypts where the bytes lie and encrypts where they are sent from, allocates nothing,
//! and keeps a fraction of the memory. It is also what the kernel's TLS needs.

mod accept;
mod connect;
mod connection;
mod handshake;
mod record;

pub use accept::Accepting;
pub use connect::Connecting;
pub use connection::{Connection, Event, Opened, Sealed, WARNINGS_MAX};
pub use handshake::{Connected, EARLY_DATA_MAX, HANDSHAKE_INPUT_MAX, HELLO_INPUT_MAX, SentEarly, Step};
pub use record::{FRAGMENT_MAX, OVERHEAD_MAX, RECORD_MAX};
