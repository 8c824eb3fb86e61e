//! Everything a client may send in a handshake. The first byte says where the input is cut.

#![no_main]

#[path = "../../crates/tls/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let [first, input @ ..] = data {
        properties::accept(usize::from(*first), input);
    }
});
