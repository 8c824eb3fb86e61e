//! What a peer sends that shares stick tables.

#![no_main]

#[path = "../../crates/stick/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    properties::peer_says(data);
});
