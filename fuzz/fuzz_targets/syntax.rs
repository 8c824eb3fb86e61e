//! Configuration text: lines, words, conditions, arguments, addresses, durations and sizes.

#![no_main]

#[allow(dead_code)]
#[path = "../../crates/syntax/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::parse_all(data));
