//! Sequences of edits of a head, four bytes each.

#![no_main]

#[allow(dead_code)]
#[path = "../../crates/http/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::edits(data));
