//! HTTP/2 on the wire (RFC 9113), without I/O: octets and events in, octets and events out.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod budget;
pub mod connection;
pub mod error;
pub mod flow;
pub mod frame;
pub mod hpack;
pub mod message;
pub mod settings;
