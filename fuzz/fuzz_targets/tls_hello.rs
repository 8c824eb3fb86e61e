//! The first bytes of a client's stream, and the body of a ClientHello.

#![no_main]

#[path = "../../crates/tls/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    properties::hello(data);
    let _ = properties::hello_body(data);
});
