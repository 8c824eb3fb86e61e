//! Reading a ClientHello without terminating TLS: for `req.ssl_*`, for fingerprints, and for choosing the certificate and
//! the options of a connection before the handshake begins.
//!
//! The reader is strict and copies nothing but a message that came in several records. Every length is checked, an
//! extension that comes twice is an error, and no more than [`MESSAGE_MAX`] bytes are ever asked for.

mod message;
pub mod record;

pub use message::{ClientHello, KeyShares, is_grease, list16};

/// The largest ClientHello that is read, in bytes of its handshake message. The largest honest ones, with post-quantum key
/// shares, have about 2 kB, and a ticket with the certificates of a client some more; whoever has not shaken hands shall not
/// hold much.
pub const MESSAGE_MAX: usize = 32 * 1024;

/// What stands among a client's cipher suites when it tries an old version after a newer one failed (RFC 7507).
pub const FALLBACK_SCSV: u16 = 0x5600;

/// What stands there when the client knows how to renegotiate safely (RFC 5746 section 3.3).
pub const RENEGOTIATION_SCSV: u16 = 0x00ff;

/// Why bytes are no ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloError {
    /// The first byte is no TLS handshake record's: HTTP in clear, or something else.
    NotTls,
    /// A record's header has a version that no TLS has.
    BadRecord,
    /// A record with nothing in it, which a handshake must not have.
    EmptyRecord,
    /// A record that is larger than records are.
    LongRecord,
    /// The first handshake message is not a ClientHello.
    NotClientHello,
    /// The message is larger than [`MESSAGE_MAX`].
    TooLarge,
    /// A length inside of the message does not fit, or something is left over.
    Malformed,
    /// An extension comes twice (RFC 8446 section 4.2 forbids it).
    DuplicateExtension,
}

impl std::fmt::Display for HelloError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            HelloError::NotTls => "the client does not speak TLS",
            HelloError::BadRecord => "the client sent a record with an impossible header",
            HelloError::EmptyRecord => "the client sent an empty handshake record",
            HelloError::LongRecord => "the client sent a record of more than 16 kB",
            HelloError::NotClientHello => "the client's first message is no ClientHello",
            HelloError::TooLarge => "the client's ClientHello is larger than 32 kB",
            HelloError::Malformed => "the client's ClientHello is malformed",
            HelloError::DuplicateExtension => "the client's ClientHello has an extension twice",
        })
    }
}

impl std::error::Error for HelloError {}
