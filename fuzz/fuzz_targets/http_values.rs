//! Targets, authorities, lists, cookies and dates.

#![no_main]

#[allow(dead_code)]
#[path = "../../crates/http/tests/properties/mod.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::values(data));
