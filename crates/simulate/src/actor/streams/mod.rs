//! Both ends of connections through a proxy on at least one side of which HTTP/2 is spoken. Requests carry their number in `x-id`, and
//! both bodies follow from it.
//!
//! Frames are read and written by the crate that the proxy uses, too: h2spec and other implementations judge that. What is judged
//! here is what the proxy makes of streams.

mod client;
mod framed;
mod server;

pub use client::play;
pub use server::serve;

/// As long as nothing should take.
const PATIENCE_MS: u64 = 900_000;

/// Octets of a body that are handed over at a time.
const PART_MAX: usize = 8_192;

/// The number that a message says, as it is written.
fn number(head: &thalweg_http::Head) -> Option<&[u8]> {
    head.fields().find(|field| field.name == b"x-id").map(|field| field.value)
}
