//! The words of `bind` and `server` lines about TLS, and what they come to with this library.

pub mod alpn;
mod cipher_table;
pub mod ciphers;
pub mod groups;
#[cfg(test)]
mod line;
pub mod schemes;
pub mod server_words;
mod versions;
pub mod words;

pub use versions::{NoVersion, Version, VersionNote, VersionOptions, Versions};
