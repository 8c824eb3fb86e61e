//! Peers that send anything.

#![cfg(not(loom))]

mod properties;

use proptest::prelude::*;

/// Messages that look right, with numbers that may not.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let body = prop::collection::vec(prop_oneof![3 => 0u8..8, 1 => any::<u8>()], 0..40);
    let tables = (128u8..136, body.clone()).prop_map(|(kind, body)| {
        let mut message = vec![10, kind, body.len() as u8];
        message.extend(body);
        message
    });
    // A definition of one of the tables there is, with kinds of data of its own.
    let definition =
        (1u8..4, prop::bool::ANY, 0u8..64, body.clone()).prop_map(|(number, first, bits, more)| {
            let mut body = vec![number];
            body.extend(if first { &b"\x02/t\x06\x15"[..] } else { b"\x01u\x04\x04" });
            body.extend([bits, 0]);
            body.extend(more);
            let mut message = vec![10, 130, body.len() as u8];
            message.extend(body);
            message
        });
    prop_oneof![
        3 => tables,
        2 => definition,
        1 => (0u8..6).prop_map(|kind| vec![0, kind]),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ]
}

proptest! {
    #[test]
    fn whatever_a_peer_says(messages in prop::collection::vec(message(), 0..30)) {
        properties::peer_says(&messages.concat());
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        properties::peer_says(&bytes);
    }
}
