//! Version-neutral HTTP messages, and the one home of the framing rules.
//!
//! Nothing here does I/O or keeps time: bytes and values come in, values go out. HTTP/1, HTTP/2 and
//! HTTP/3 all fill the same [`Head`], and everything that asks "how long is this body", "may this
//! connection be kept", "is this a tunnel" asks [`semantics`], so that no two parts of the proxy can
//! disagree about where a message ends.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod ascii;
pub mod authority;
pub mod cookie;
pub mod date;
mod digits;
pub mod head;
pub mod header_id;
pub mod method;
pub mod scan;
pub mod semantics;
pub mod status;
mod strict;
pub mod target;
pub mod uri;
pub mod values;

pub use head::{Field, FieldRef, Head, RewriteError, Span};
pub use header_id::HeaderId;
pub use method::{Method, Version};
pub use semantics::{BodyLength, Framing, FramingPolicy, Strictness, Violation, ViolationKind};
pub use status::reason;
