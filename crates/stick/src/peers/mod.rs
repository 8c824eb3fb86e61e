//! The peers protocol, version 2.1: entries of tables that several processes share (manual section 11.2).
//!
//! Bytes and the time in, bytes out: no sockets, no clock, no entropy. Whoever has a connection to a peer gives what it
//! received to [`Section::receive`], and sends what [`Section::send`] writes.
//!
//! | Piece | File |
//! |---|---|
//! | messages and numbers as bytes | `wire` |
//! | how peers introduce themselves | `hello` |
//! | in which order entries changed | `log` |
//! | entries as messages, and back | `entry` |
//! | one connection to a peer: what each side knows of the other | `session` |
//! | a `peers` section: its tables, its peers, who learns from whom | `section` |
//! | `show peers` | `show` |
//!
//! # Who sends what
//!
//! Entries that this process uses get a number, and go to every peer in the order of these numbers; what a peer acknowledges
//! is where sending goes on after a connection broke. What is learnt from peers is sent to nobody, so that nothing goes
//! round in circles. A process that starts asks its predecessor, or else one of the peers, to *teach* it: to send all entries,
//! wherever they came from.
//!
//! # What a peer may do
//!
//! Peers are believed, but not trusted: each length, number and name is checked before it is used, names are limited in
//! length and number, a message in its size, and what waits to be sent in what one buffer holds. A peer that breaks the rules is
//! told so and loses its connection.

pub(crate) mod entry;
mod hello;
mod log;
mod section;
mod session;
mod show;
#[cfg(all(test, not(loom)))]
mod tests;
pub mod wire;

pub use hello::{Hello, LINES_MAX, Status, read_hello, read_status, write_hello};
pub use section::{Learning, Link, Peer, PeerSpec, Section, SectionSpec, TableSpec};
pub use session::Broken;
