//! Bytes that a peer bends: flights changed, cut, repeated and split; certificates changed at random. Nothing may panic,
//! spin or be believed.

mod properties;
mod support;

use std::sync::Arc;

use proptest::prelude::*;
use support::*;
use thalweg_tls::bind::Profile;
use thalweg_tls::engine::{Accepting, Connected, Connecting, Step};
use thalweg_tls::options::Versions;
use thalweg_tls::select::Selection;
use thalweg_tls::server::{ServerContext, ServerProfile};
use thalweg_tls::verify::chain::{self, Purpose, Request};
use thalweg_tls::verify::{ClientPolicy, TrustStore, Verify, host};
use thalweg_tls::x509::make::NewKey;
use thalweg_tls::x509::oid::{extension, purpose};
use thalweg_tls::x509::{Certificate, Crl};
use thalweg_tls::{Failure, alert, facts, pem};

/// A handshake whose flights go through `bend`, which gets the flight's number: 0 is the ClientHello, 1 the server's answer
/// and so on. True when both ends are done, in any number of flights.
fn bent(
    selection: &Arc<Selection>,
    context: &Arc<ServerContext>,
    mut bend: impl FnMut(usize, Vec<u8>) -> Vec<u8>,
) -> bool {
    let mut client = Connecting::new(context.clone(), Some(b"a.example.com"), None).unwrap();
    let mut server = Accepting::new(selection.clone());
    let (mut client_done, mut server_done) = (false, false);
    for flight in 0..12 {
        let mut out = Vec::new();
        // Each end stops at its first error, as the proxy does.
        if flight % 2 == 0 {
            while !client_done && client.is_ready() {
                match client.step(&mut out) {
                    Ok(step) => client_done = step == Step::Done,
                    Err(_) => return false,
                }
            }
            let out = bend(flight, out);
            if !server_done && server.feed(&out, &mut Vec::new()).is_err() {
                return false;
            }
        } else {
            while !server_done && server.is_ready() {
                match server.step(&mut out) {
                    Ok(step) => server_done = step == Step::Done,
                    Err(_) => return false,
                }
            }
            let out = bend(flight, out);
            if client.feed(&out).is_err() {
                return false;
            }
        }
        if client_done && server_done {
            let (Ok(server), Ok(client)) = (server.finish(&mut Vec::new()), client.finish()) else {
                return false;
            };
            // What came after the handshake is the connections'.
            let opens = |mut end: Connected| {
                end.rest.is_empty() || receive(&mut end.connection, &mut end.rest).is_ok()
            };
            return opens(server) && opens(client);
        }
    }
    false
}

/// A line with client certificates in each version, and a server line that has one.
fn lines() -> Vec<(Arc<Selection>, Arc<ServerContext>)> {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let served = authority.server("a.example.com", NewKey::P256);
    let own = authority.server("client", NewKey::P256);
    let line = |tls13: bool| {
        let client =
            ClientPolicy { verify: Verify::Required, trust: authority.store(), ..Profile::default().client };
        let versions = Versions { tls12: !tls13, tls13 };
        let selection = bind(&Profile { versions, client, ..Profile::default() }, shared(&clock), &[&served]);
        let profile = ServerProfile { own: Some(own.clone()), reuse: false, ..trusting(&authority) };
        (selection, server(&profile, &clock))
    };
    vec![line(false), line(true)]
}

/// Whether the byte at this place is the version in a record's header.
fn is_version(flight: &[u8], at: usize) -> bool {
    let mut start = 0;
    while let Some(header) = flight.get(start..start + 5) {
        if (start + 1..start + 3).contains(&at) {
            return true;
        }
        start += 5 + usize::from(u16::from_be_bytes([header[3], header[4]]));
    }
    false
}

#[test]
fn a_changed_flight_is_never_believed() {
    for (selection, context) in lines() {
        assert!(bent(&selection, &context, |_, flight| flight));
        for number in 0..4 {
            let mut length = 0;
            bent(&selection, &context, |flight, bytes| {
                if flight == number {
                    length = bytes.len();
                }
                bytes
            });
            for at in (0..length).step_by(1 + length / 120) {
                // Signatures differ in length, so a place is looked at in the flight that is changed.
                let mut counts = false;
                let believed = bent(&selection, &context, |flight, mut bytes| {
                    if flight == number && at < bytes.len() {
                        // The version in the header of a record counts for nothing (RFC 8446 section 5.1).
                        counts = !is_version(&bytes, at);
                        bytes[at] ^= 0x41;
                    }
                    bytes
                });
                assert!(!believed || !counts, "flight {number}, byte {at}");
            }
        }
    }
}

/// Appends an extension to a ClientHello that fills one record.
fn with_extension(mut flight: Vec<u8>, kind: u16, body: &[u8]) -> Vec<u8> {
    let added = body.len() + 4;
    // Behind the record's header and the message's come version, random bytes, session, suites and compressions.
    let session = 5 + 4 + 2 + 32;
    let suites = session + 1 + usize::from(flight[session]);
    let compressions = suites + 2 + usize::from(u16::from_be_bytes([flight[suites], flight[suites + 1]]));
    let extensions = compressions + 1 + usize::from(flight[compressions]);
    // The message's length has three bytes, of which the first is 0 here.
    for at in [3, 7, extensions] {
        let length = usize::from(u16::from_be_bytes([flight[at], flight[at + 1]])) + added;
        flight[at..at + 2].copy_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
    }
    flight.extend_from_slice(&kind.to_be_bytes());
    flight.extend_from_slice(&u16::try_from(body.len()).unwrap().to_be_bytes());
    flight.extend_from_slice(body);
    flight
}

/// RFC 5746 section 3.6: the first hello of a connection goes on from nothing.
#[test]
fn a_renegotiation_of_nothing_is_refused() {
    const RENEGOTIATION_INFO: u16 = 0xff01;
    for (selection, context) in lines() {
        for (body, accepted) in [(&[0][..], true), (&[1, 7], false), (&[12; 13], false), (&[], false)] {
            let mut client = Connecting::new(context.clone(), Some(b"a.example.com"), None).unwrap();
            let mut flight = Vec::new();
            client.step(&mut flight).unwrap();
            // Clients of TLS 1.2 say the same by a suite, which counts as the empty one.
            let flight = with_extension(flight, RENEGOTIATION_INFO, body);
            let mut server = Accepting::new(selection.clone());
            let mut out = Vec::new();
            let answered = server.feed(&flight, &mut out).and_then(|()| server.step(&mut out));
            assert_eq!(answered.is_ok(), accepted, "{body:?}");
            if !accepted {
                assert_eq!(out, [21, 3, 3, 0, 2, 2, 40], "a fatal alert, handshake_failure");
            }
        }
    }
}

/// rustls has no alert for them.
#[test]
fn messages_of_tls12_that_cannot_be_read_have_an_alert() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let versions = Versions { tls12: true, tls13: false };
    let served = authority.server("a.example.com", NewKey::P256);
    let selection = bind(&Profile { versions, ..Profile::default() }, shared(&clock), &[&served]);
    let context = server(&trusting(&authority), &clock);
    for (what, exchange, expected) in [
        ("an empty share", &[22, 3, 3, 0, 4, 16, 0, 0, 0][..], alert::DECODE_ERROR),
        ("a share that is cut", &[22, 3, 3, 0, 7, 16, 0, 0, 3, 9, 4, 1], alert::DECODE_ERROR),
        ("a share in two parts with a change of keys between", &CUT_BY_A_CHANGE, alert::UNEXPECTED_MESSAGE),
    ] {
        let mut client = Connecting::new(context.clone(), Some(b"a.example.com"), None).unwrap();
        let mut server = Accepting::new(selection.clone());
        let mut hello = Vec::new();
        client.step(&mut hello).unwrap();
        let mut out = Vec::new();
        let mut failed = false;
        for flight in [&hello[..], exchange] {
            out.clear();
            server.feed(flight, &mut out).unwrap();
            while !failed && server.is_ready() {
                failed = server.step(&mut out).is_err();
            }
        }
        assert_eq!(out, [21, 3, 3, 0, 2, 2, expected], "{what}");
    }
}

/// The beginning of a ClientKeyExchange, and a ChangeCipherSpec.
const CUT_BY_A_CHANGE: [u8; 15] = [22, 3, 3, 0, 4, 16, 0, 0, 33, 20, 3, 3, 0, 1, 1];

#[test]
fn a_cut_or_repeated_flight_is_waited_for_or_refused() {
    for (selection, context) in lines() {
        for number in 0..3 {
            for share in 1..10 {
                let cut = bent(&selection, &context, |flight, bytes| match flight == number {
                    true => bytes[..bytes.len() * share / 10].to_vec(),
                    false => bytes,
                });
                assert!(!cut, "flight {number} cut to {share} tenths");
            }
            let mut has_any = false;
            let doubled = bent(&selection, &context, |flight, bytes| match flight == number {
                true => {
                    has_any = !bytes.is_empty();
                    bytes.repeat(2)
                }
                false => bytes,
            });
            assert!(!doubled || !has_any, "flight {number} twice");
        }
    }
}

/// Splits the records that carry handshake messages in clear into records of `size` bytes.
fn split(bytes: &[u8], size: usize) -> Vec<u8> {
    let (mut out, mut rest, mut in_clear) = (Vec::new(), bytes, true);
    while rest.len() >= 5 {
        let length = usize::from(u16::from_be_bytes([rest[3], rest[4]]));
        let (record, after) = rest.split_at(5 + length);
        in_clear &= record[0] == 22;
        if in_clear {
            for part in record[5..].chunks(size) {
                out.extend_from_slice(&record[..3]);
                out.extend((part.len() as u16).to_be_bytes());
                out.extend_from_slice(part);
            }
        } else {
            out.extend_from_slice(record);
        }
        rest = after;
    }
    out
}

#[test]
fn flights_in_records_of_every_size_are_understood() {
    for (selection, context) in lines() {
        for size in [1, 2, 3, 4, 5, 17, 100, 1000] {
            let understood = bent(&selection, &context, |_, bytes| split(&bytes, size));
            assert!(understood, "records of {size} bytes");
        }
    }
}

/// Certificates, a list and keys with everything in them that is read.
fn seeds() -> (Authority, Vec<Vec<u8>>) {
    let root = Authority::new("Root");
    let rich = template("rich")
        .hosts(&["a.example.com", "*.b.example.com"])
        .purposes(&[purpose::CLIENT_AUTH, purpose::SERVER_AUTH])
        .extension(extension::KEY_USAGE, true, &[3, 2, 5, 0xa0])
        .extension(extension::POLICIES, false, &[0x30, 0x07, 0x30, 0x05, 6, 3, 0x2a, 3, 4])
        .extension(extension::TLS_FEATURE, false, &[0x30, 3, 2, 1, 5]);
    let text = root.issue(&rich, NewKey::P256);
    let leaf = pem::blocks(text.as_bytes()).unwrap().remove(0).der;
    let crl = root.crl(&[b"\x01", b"\x02\x03", b"\x7f"]);
    let ca = root.certificate.der().to_vec();
    (root, vec![leaf, ca, crl])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changed_certificates(
        which in 0usize..3,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        use std::sync::OnceLock;
        static SEEDS: OnceLock<(Authority, Vec<Vec<u8>>)> = OnceLock::new();
        let (root, seeds) = SEEDS.get_or_init(seeds);
        let mut der = seeds[which].clone();
        for (at, byte) in &changes {
            let at = at.index(der.len());
            der[at] = *byte;
        }
        if cuts {
            der.truncate(cut.index(der.len()));
        }
        properties::x509(&der);
        let changed = der != seeds[which];
        if let Ok(certificate) = Certificate::parse(&der) {
            facts::alternative_names(&certificate);
            host::matches(&certificate, b"a.example.com");
            let trust = TrustStore::new([root.certificate.clone()]);
            let lists = thalweg_tls::verify::Crls::default();
            for (crls, purpose) in [(None, Purpose::Server), (Some(&lists), Purpose::Client)] {
                let host = Some(&b"a.example.com"[..]);
                let request = Request { trust: &trust, crls, purpose, now: NOW as i64, host, stapled: Some(&der) };
                let sent = [Arc::new(certificate.clone())];
                let believed = chain::verify(&sent, &request, &mut |_, _| false).is_ok();
                prop_assert!(!believed || !changed, "a changed certificate is believed");
                // With every error accepted the walk still ends.
                let _ = chain::verify(&sent, &request, &mut |_, _| true);
            }
        }
        let _ = Crl::parse(&der);
    }
}

#[test]
fn records_bent_after_the_handshake_are_refused() {
    for (selection, context) in lines() {
        let (mut client, mut server) = shake(&selection, &context, Some("a.example.com"), 9999).unwrap();
        let mut wire = [0; 400];
        let length = client.connection.seal(&[&[7; 300]], 16384, &mut wire).unwrap().written;
        // The header's version is part of what is authenticated in TLS 1.3 only.
        for at in (0..length).filter(|at| !(1..3).contains(at)) {
            let mut bent = wire;
            bent[at] ^= 0x80;
            match server.connection.open(&mut bent[..length]) {
                Ok(None) => assert!((3..5).contains(&at), "byte {at}"),
                Ok(Some(opened)) => panic!("byte {at}: {opened:?}"),
                Err(Failure::BadRecord | Failure::Unexpected | Failure::Overflow) => {}
                Err(failure) => panic!("byte {at}: {failure}"),
            }
        }
        assert!(server.connection.open(&mut wire[..length]).unwrap().is_some(), "and the right one is taken");
    }
}
