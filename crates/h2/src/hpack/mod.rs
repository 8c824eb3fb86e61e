//! HPACK: header compression (RFC 7541).
//!
//! A block is decoded whole, field by field, into a [`Sink`]. Errors here end the connection, since the tables of both
//! ends differ from then on; whether the fields make a message is the sink's concern, and a sink that has seen enough
//! keeps quiet while the rest of the block is decoded.

mod decoder;
mod encoder;
pub mod huffman;
mod integer;
pub mod table;

pub use decoder::{Decoder, Sink, Strings};
pub use encoder::Encoder;
pub use table::{Name, Pseudo};

use std::fmt;

/// Why a block cannot be decoded: a connection error of type COMPRESSION_ERROR (RFC 9113 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// It ends within a field.
    Truncated,
    /// An integer is too large, or written too long.
    Integer,
    /// An index that neither table has.
    Index,
    /// A string's Huffman code is not one.
    Huffman,
    /// A change of the table's size that exceeds what was allowed, or that comes after a field.
    TableSize,
    /// A string is longer than what was allowed.
    StringLength,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecodeError::Truncated => "the header block ends within a field",
            DecodeError::Integer => "an integer in the header block is too large",
            DecodeError::Index => "an index in the header block names no entry",
            DecodeError::Huffman => "a string in the header block is not Huffman code",
            DecodeError::TableSize => "a change of the header table's size is out of place",
            DecodeError::StringLength => "a string in the header block is too long",
        })
    }
}

impl std::error::Error for DecodeError {}
