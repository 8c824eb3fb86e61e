//! Chunked bodies. The first two bytes say where the input is cut.

#![no_main]

#[allow(dead_code)]
#[path = "../../crates/h1/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let [low, high, input @ ..] = data {
        properties::chunks(usize::from(u16::from_le_bytes([*low, *high])), input);
    }
});
