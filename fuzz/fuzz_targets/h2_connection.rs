//! An HTTP/2 connection. The first byte says which end it is and where the input is cut.

#![no_main]

#[path = "../../crates/h2/tests/properties/mod.rs"]
mod properties;

use thalweg_h2::connection::Role;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let [first, input @ ..] = data {
        let role = if first & 0x80 == 0 { Role::Server } else { Role::Client };
        properties::hostile(role, usize::from(first & 0x7f), input);
    }
});
