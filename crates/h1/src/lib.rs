//! HTTP/1 on the wire: heads and chunks to values, and values to bytes. No I/O.
//!
//! - [`HeadParser`] reads the head of a request or response into a [`thalweg_http::Head`]. It can be cut
//!   at any byte and never reads a byte twice.
//! - [`ChunkDecoder`] follows a chunked body and says which bytes are payload.
//! - [`encode`] writes heads, chunk headers and trailers.
//!
//! What the bytes mean (how long a body is, who closes) is decided in `thalweg_http::semantics`; the
//! parser calls it before it says that a head is complete, so no head gets past it unjudged.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod case;
pub mod chunk;
pub mod encode;
pub mod error;
pub mod parse;

pub use case::CaseMap;
pub use chunk::{ChunkDecoder, ChunkError, ChunkEvent, ChunkStep};
pub use encode::{EncodeOptions, chunk_of, encode_into, encode_vec};
pub use error::{ParseError, ParseErrorKind};
pub use parse::{HeadParser, ParseOptions, Parsed};
