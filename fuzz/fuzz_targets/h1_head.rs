//! Heads of requests and responses. The first byte says which and how strictly, the next two where the
//! input is cut.

#![no_main]

#[allow(dead_code)]
#[path = "../../crates/h1/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let [mode, low, high, input @ ..] = data {
        let cut = usize::from(u16::from_le_bytes([*low, *high]));
        properties::head(properties::Mode::from_byte(*mode), cut, input);
    }
});
