//! X.509 (RFC 5280) as far as a proxy needs it: reading certificates and revocation lists, and writing their fields as
//! the reference writes them.
//!
//! It is ours, in safe Rust, for three reasons. The certificates of clients are parsed before anybody is
//! authenticated, so no memory of a C library shall be within their reach. Users depend on what OpenSSL accepts and
//! `rustls-webpki` does not: version 1 certificates (what `openssl x509 -req` makes without extensions), a
//! self-signed certificate that is a CA and the leaf at once, names in the common name. And `ca-ignore-err` needs each
//! error by number and depth, where webpki gives one.

mod certificate;
mod crl;
pub mod make;
pub mod name;
pub mod oid;
pub mod time;

pub use certificate::{CERTIFICATE_MAX, Certificate, ExtendedUsage, Span, usage};
pub use crl::{CRL_MAX, Crl, Revocation};
