//! What a file of the state directory holds that stick tables are read from.

#![no_main]

#[path = "../../crates/stick/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    properties::kept_says(data);
});
