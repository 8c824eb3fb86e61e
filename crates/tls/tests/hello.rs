//! Reading a ClientHello: what browsers and libraries send, and what they do not.

mod properties;

use proptest::prelude::*;
use thalweg_tls::hello::record::{First, first_message, hello_type};
use thalweg_tls::hello::{ClientHello, HelloError, MESSAGE_MAX, is_grease, list16};

/// A ClientHello's body with these extensions.
fn body(extensions: &[(u16, &[u8])]) -> Vec<u8> {
    let mut out = vec![3, 3];
    out.extend([7; 32]);
    out.push(4);
    out.extend(b"sess");
    out.extend([0, 6, 0x1a, 0x1a, 0x13, 0x01, 0xc0, 0x2f]);
    out.extend([1, 0]);
    let mut list = Vec::new();
    for (kind, content) in extensions {
        list.extend(kind.to_be_bytes());
        list.extend((content.len() as u16).to_be_bytes());
        list.extend_from_slice(content);
    }
    out.extend((list.len() as u16).to_be_bytes());
    out.extend(list);
    out
}

fn usual() -> Vec<u8> {
    body(&[
        (0x2a2a, &[]),
        (0, b"\x00\x0e\x00\x00\x0bexample.com"),
        (10, b"\x00\x06\x3a\x3a\x00\x1d\x00\x17"),
        (11, b"\x01\x00"),
        (13, b"\x00\x04\x04\x03\x08\x04"),
        (16, b"\x00\x0c\x02h2\x08http/1.1"),
        (43, b"\x06\x4a\x4a\x03\x04\x03\x03"),
        (51, b"\x00\x07\x3a\x3a\x00\x00\x00\x1d\x00"),
        (35, b""),
        (5, b"\x01\0\0\0\0"),
    ])
}

/// The stream that carries a message in records of at most `size` bytes.
fn stream(kind: u8, body: &[u8], size: usize) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend_from_slice(&(body.len() as u32).to_be_bytes()[1..]);
    message.extend_from_slice(body);
    let mut out = Vec::new();
    for part in message.chunks(size) {
        out.extend([22, 3, 1]);
        out.extend((part.len() as u16).to_be_bytes());
        out.extend_from_slice(part);
    }
    out
}

#[test]
fn a_usual_hello_is_read() {
    let body = usual();
    let hello = ClientHello::parse(&body).unwrap();
    assert_eq!(hello.server_name, Some(&b"example.com"[..]));
    assert_eq!(hello.protocols().collect::<Vec<_>>(), [&b"h2"[..], b"http/1.1"]);
    assert_eq!(hello.highest_version(), 0x0304);
    assert!(hello.offers_version(0x0303) && !hello.offers_version(0x0302));
    assert_eq!(list16(hello.ciphers).filter(|c| !is_grease(*c)).collect::<Vec<_>>(), [0x1301, 0xc02f]);
    assert_eq!(hello.extension_types().collect::<Vec<_>>(), [0x2a2a, 0, 10, 11, 13, 16, 43, 51, 35, 5]);
    assert_eq!(hello.session_id, b"sess");
    assert_eq!(hello.point_formats, Some(&[0u8][..]));
    assert!(hello.has_session_ticket && hello.wants_ocsp && !hello.has_psk && !hello.has_early_data);
}

#[test]
fn records_may_be_split_at_every_byte_and_bytes_may_come_one_by_one() {
    let body = usual();
    for size in 1..=body.len() + 4 {
        let bytes = stream(1, &body, size);
        for cut in 0..bytes.len() {
            assert_eq!(first_message(&bytes[..cut]), Ok(None), "records of {size}, {cut} bytes");
        }
        let first = first_message(&bytes).unwrap().unwrap();
        assert_eq!((first.kind, &*first.body, first.consumed), (1, &body[..], bytes.len()));
        assert_eq!(ClientHello::of(&first).unwrap().record_version, 0x0301);
    }
}

#[test]
fn other_bytes_are_told_apart() {
    let check = |input: &[u8], expected| assert_eq!(first_message(input).err(), Some(expected), "{input:x?}");
    check(b"GET / HTTP/1.1\r\n", HelloError::NotTls);
    check(b"\x15\x03\x01\x00\x02", HelloError::NotTls);
    check(b"\x16\x02", HelloError::BadRecord);
    check(b"\x16\x03\x01\x00\x00", HelloError::EmptyRecord);
    check(b"\x16\x03\x01\x40\x01", HelloError::LongRecord);
    check(b"\x16\x03\x01\x40\x00\x01\x01\x00\x00", HelloError::TooLarge);
    check(b"\x16\x03\x01\x00\x01\x01\x17\x03\x03\x00\x00", HelloError::NotClientHello);
    let server: First<'_> = first_message(b"\x16\x03\x03\x00\x05\x02\x00\x00\x01\x00").unwrap().unwrap();
    assert_eq!(ClientHello::of(&server).err(), Some(HelloError::NotClientHello));
    assert_eq!(hello_type(b"\x16\x03\x03\x00\x05\x02"), Ok(Some(2)));
    assert_eq!(hello_type(b"\x16\x03\x03"), Ok(None));
}

#[test]
fn broken_lists_are_refused() {
    let check = |extensions: &[(u16, &[u8])], expected| {
        assert_eq!(ClientHello::parse(&body(extensions)).err(), Some(expected), "{extensions:x?}");
    };
    check(&[(16, b"\x00\x03\x02h2"), (16, b"\x00\x03\x02h2")], HelloError::DuplicateExtension);
    check(&[(0x7777, b""), (0x7777, b"")], HelloError::DuplicateExtension);
    check(&[(0, b"\x00\x03\x00\x00\x00")], HelloError::Malformed);
    check(&[(0, b"\x00\x08\x00\x00\x01a\x00\x00\x01b")], HelloError::Malformed);
    check(&[(16, b"\x00\x01\x00")], HelloError::Malformed);
    check(&[(16, b"\x00\x03\x03h2")], HelloError::Malformed);
    check(&[(43, b"\x01\x03")], HelloError::Malformed);
    check(&[(10, b"\x00\x02\x00\x1d\x00")], HelloError::Malformed);
    let mut long = usual();
    long.push(0);
    assert_eq!(ClientHello::parse(&long).err(), Some(HelloError::Malformed));
    let whole = usual();
    let end = whole.len();
    // Without extensions at all it is a hello of old.
    let without = 2 + 32 + 5 + 8 + 2;
    for cut in (0..end).filter(|cut| *cut != without) {
        assert!(ClientHello::parse(&whole[..cut]).is_err(), "{cut} of {end} bytes");
    }
    assert!(!ClientHello::parse(&whole[..without]).unwrap().has_curves());
}

#[test]
fn eight_thousand_extensions_cost_a_step_each() {
    let many: Vec<(u16, &[u8])> = (100..100 + 8_000).map(|kind| (kind, &b""[..])).collect();
    let body = body(&many);
    assert!(body.len() <= MESSAGE_MAX);
    assert_eq!(ClientHello::parse(&body).unwrap().extension_types().count(), 8_000);
}

proptest! {
    #[test]
    fn any_bytes(input in proptest::collection::vec(any::<u8>(), 0..600)) {
        properties::hello(&input);
        let _ = properties::hello_body(&input);
        properties::x509(&input);
        properties::accept(3, &input);
    }

    #[test]
    fn changed_hellos(size in 1usize..300, changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)) {
        let mut body = usual();
        for (at, byte) in &changes {
            let at = at.index(body.len());
            body[at] = *byte;
        }
        let _ = properties::hello_body(&body);
        let mut bytes = stream(1, &body, size);
        for (at, byte) in changes.iter().take(2) {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        properties::hello(&bytes);
        properties::accept(size, &bytes);
    }
}

#[test]
fn suites_have_the_names_of_the_reference() {
    let list = [0x0a, 0x0a, 0x13, 0x01, 0x56, 0x00, 0x00, 0xff, 0xc0, 0x2b];
    let names = "UNKNOWN(0a0a),TLS_AES_128_GCM_SHA256,TLS_FALLBACK_SCSV,TLS_EMPTY_RENEGOTIATION_INFO_SCSV,\
                 ECDHE-ECDSA-AES128-GCM-SHA256";
    assert_eq!(thalweg_tls::facts::cipher_names(&list), names);
}
