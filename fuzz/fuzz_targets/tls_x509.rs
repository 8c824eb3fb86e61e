//! A certificate, a revocation list, an OCSP response, a PEM file.

#![no_main]

#[path = "../../crates/tls/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    properties::x509(data);
});
