//! Request methods and protocol versions.

use std::fmt;

/// The methods the proxy has to know by name. Any other is kept by its bytes only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Method {
    Options,
    #[default]
    Get,
    Head,
    Post,
    Put,
    Delete,
    Trace,
    Connect,
    /// Any other token, `PATCH` included, as in the reference's method samples.
    Other,
}

impl Method {
    /// The method with exactly this name. Methods are case-sensitive (RFC 9110 section 9.1).
    #[inline]
    pub fn from_bytes(name: &[u8]) -> Self {
        match name {
            b"GET" => Self::Get,
            b"POST" => Self::Post,
            b"HEAD" => Self::Head,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"OPTIONS" => Self::Options,
            b"CONNECT" => Self::Connect,
            b"TRACE" => Self::Trace,
            _ => Self::Other,
        }
    }

    /// The name of a known method, empty for [`Method::Other`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Connect => "CONNECT",
            Self::Trace => "TRACE",
            Self::Other => "",
        }
    }

    /// Whether a repeated request has the same effect as one (RFC 9110 section 9.2.2), which is what
    /// a retry after the request was sent needs.
    pub fn is_idempotent(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Put | Self::Delete | Self::Options | Self::Trace)
    }

    /// Whether the method asks for nothing but to read (RFC 9110 section 9.2.1).
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Trace)
    }
}

/// A protocol version, as a major and a minor number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The digits before the dot.
    pub major: u8,
    /// The digits after the dot.
    pub minor: u8,
}

impl Version {
    /// A request without a version: the client expects a body and nothing else.
    pub const HTTP_09: Self = Self { major: 0, minor: 9 };
    /// HTTP/1.0.
    pub const HTTP_10: Self = Self { major: 1, minor: 0 };
    /// HTTP/1.1.
    pub const HTTP_11: Self = Self { major: 1, minor: 1 };
    /// HTTP/2, whose messages carry no version of their own.
    pub const HTTP_2: Self = Self { major: 2, minor: 0 };
    /// HTTP/3, whose messages carry no version of their own.
    pub const HTTP_3: Self = Self { major: 3, minor: 0 };

    /// Whether the peer has the features of HTTP/1.1: persistence by default, chunks, 1xx.
    #[inline]
    pub fn is_11_or_later(self) -> bool {
        self >= Self::HTTP_11
    }
}

impl Default for Version {
    fn default() -> Self {
        Self::HTTP_11
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP/{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_case_matters() {
        for method in [
            Method::Options,
            Method::Get,
            Method::Head,
            Method::Post,
            Method::Put,
            Method::Delete,
            Method::Trace,
            Method::Connect,
        ] {
            assert_eq!(Method::from_bytes(method.name().as_bytes()), method);
            assert_eq!(Method::from_bytes(method.name().to_lowercase().as_bytes()), Method::Other);
        }
        assert_eq!(Method::from_bytes(b"PATCH"), Method::Other);
    }

    #[test]
    fn versions_are_ordered() {
        assert!(Version::HTTP_09 < Version::HTTP_10);
        assert!(!Version::HTTP_10.is_11_or_later());
        assert!(Version::HTTP_11.is_11_or_later());
        assert!(Version::HTTP_2.is_11_or_later());
        assert_eq!(format!("{:?}", Version::HTTP_10), "HTTP/1.0");
    }
}
