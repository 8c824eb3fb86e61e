//! Why a head was refused.

use std::fmt;

use thalweg_http::{Violation, ViolationKind};

/// The cause of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParseErrorKind {
    /// The method is empty or has a byte that is not allowed in a token (RFC 9110 section 9.1).
    BadMethod,
    /// The target is missing or has a byte that is not allowed in one (RFC 9112 section 3.2).
    BadTargetByte,
    /// The version is missing or is not `HTTP/` digit `.` digit (RFC 9112 section 2.3).
    BadVersion,
    /// The status is not three digits (RFC 9112 section 4).
    BadStatus,
    /// The reason has a NUL (RFC 9112 section 4).
    BadReason,
    /// A field name is empty, or has white space or another byte that is not allowed in a token
    /// (RFC 9112 section 5.1).
    BadFieldName,
    /// A field value has a NUL (RFC 9110 section 5.5).
    BadFieldValue,
    /// A CR that is not followed by a LF (RFC 9112 section 2.2).
    LoneCr,
    /// Strict: a LF without a CR before it (RFC 9112 section 2.2).
    BareLf,
    /// Strict: a value that goes on in the next line (RFC 9112 section 5.2).
    Folding,
    /// White space where the first field should begin (RFC 9112 section 2.2).
    LeadingWhitespace,
    /// The first line is larger than the buffer.
    StartLineTooLong,
    /// The head is larger than the buffer.
    HeadTooLarge,
    /// There are more fields than `tune.http.maxhdr` allows.
    TooManyFields,
    /// The head is well formed, and breaks a rule of framing.
    Framing(ViolationKind),
}

/// A refused head: why, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Why.
    pub kind: ParseErrorKind,
    /// Offset in bytes of the offending byte from the start of what was given to the parser.
    pub offset: usize,
}

impl ParseError {
    /// The status a client gets for a refused request. For a refused response it gets 502.
    pub fn status(&self) -> u16 {
        match self.kind {
            ParseErrorKind::Framing(violation) => violation.status(),
            ParseErrorKind::StartLineTooLong => 414,
            ParseErrorKind::HeadTooLarge => 431,
            _ => 400,
        }
    }
}

impl From<Violation> for ParseError {
    fn from(violation: Violation) -> Self {
        Self { kind: ParseErrorKind::Framing(violation.kind), offset: violation.offset as usize }
    }
}

impl fmt::Display for ParseErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadMethod => "the method is not a token",
            Self::BadTargetByte => "the target is missing or has a byte that is not allowed",
            Self::BadVersion => "the protocol version is missing or malformed",
            Self::BadStatus => "the status is not three digits",
            Self::BadReason => "the reason has a NUL byte",
            Self::BadFieldName => "a header name is not a token",
            Self::BadFieldValue => "a header value has a NUL byte",
            Self::LoneCr => "a carriage return is not followed by a line feed",
            Self::BareLf => "a line feed has no carriage return before it",
            Self::Folding => "a header value is folded over two lines",
            Self::LeadingWhitespace => "the first header begins with white space",
            Self::StartLineTooLong => "the first line is larger than the buffer",
            Self::HeadTooLarge => "the head is larger than the buffer",
            Self::TooManyFields => "there are too many headers",
            Self::Framing(violation) => return violation.fmt(f),
        })
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (byte {})", self.kind, self.offset)
    }
}

impl std::error::Error for ParseError {}
