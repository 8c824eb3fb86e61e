//! Handshakes of our client with our server: versions, suites, curves, resumption, client certificates, and what goes wrong.

mod support;

use std::sync::Arc;

use support::*;
use thalweg_tls::bind::Profile;
use thalweg_tls::engine::{Accepting, Connecting, Event, Step};
use thalweg_tls::options::{Versions, ciphers, groups};
use thalweg_tls::server::ServerProfile;
use thalweg_tls::session::{SessionCache, TicketKeys};
use thalweg_tls::verify::{ClientPolicy, Code, Crls, Ignored, Verify};
use thalweg_tls::x509::Crl;
use thalweg_tls::x509::make::NewKey;
use thalweg_tls::{Failure, alert};

const TLS12: Versions = Versions { tls12: true, tls13: false };
const TLS13: Versions = Versions { tls12: false, tls13: true };

fn asking(verify: Verify, authority: &Authority) -> ClientPolicy {
    ClientPolicy {
        verify,
        trust: authority.store(),
        names: vec![authority.name.clone()],
        ..Profile::default().client
    }
}

#[test]
fn data_flows_both_ways_however_it_is_cut() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let served = authority.server("a.example.com", NewKey::P256);
    for versions in [TLS12, TLS13] {
        let profile = Profile { versions, alpn: vec![b"h2".to_vec()], ..Profile::default() };
        let selection = bind(&profile, shared(&clock), &[&served]);
        let client =
            ServerProfile { alpn: vec![b"http/1.1".to_vec(), b"h2".to_vec()], ..trusting(&authority) };
        let context = server(&client, &clock);
        for chunk in [1, 2, 3, 7, 100, 100_000] {
            let (mut client, mut server) = shake(&selection, &context, Some("a.example.com"), chunk).unwrap();
            for facts in [&client.facts, &server.facts] {
                assert_eq!(facts.version, if versions == TLS12 { 0x0303 } else { 0x0304 });
                assert_eq!(facts.alpn.as_deref(), Some(&b"h2"[..]));
                assert_eq!(facts.server_name.as_deref(), Some(&b"a.example.com"[..]));
                assert_eq!(facts.key_bits(), 256);
            }
            assert_eq!(client.facts.server_random, server.facts.server_random);
            assert_ne!(server.facts.server_random, [0; 32]);
            let (one, two) = (&mut client.connection, &mut server.connection);
            assert_eq!(
                send(one, two, &[b"GET / HTTP/1.1\r\n", b"", b"\r\n"], 16384),
                b"GET / HTTP/1.1\r\n\r\n"
            );
            let body: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
            assert_eq!(send(two, one, &[b"head", &body], 1000), [&b"head"[..], &body].concat());
            assert_eq!(send(two, one, &[&body], 16384), body);
        }
    }
}

/// The lists' order counts, but for what a client tells of itself by its own.
#[test]
fn a_client_has_a_say_in_the_order_of_suites() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let served = authority.server("a.example.com", NewKey::P256);
    let [aes256, chacha, aes128] = ciphers::TLS13;
    let [old_aes256, _, old_chacha, _, old_aes128, _] = ciphers::TLS12;
    let lists = |ciphersuites: &[_]| Profile {
        ciphersuites: ciphersuites.to_vec(),
        any_aes: false,
        ..Profile::default()
    };
    let prefers = Profile { prefer_client: true, ..Profile::default() };
    let chosen = |profile: &Profile, versions: Versions, offered: &[_]| {
        let offers = ServerProfile {
            versions,
            ciphersuites: offered.to_vec(),
            ciphers: offered.to_vec(),
            ..trusting(&authority)
        };
        let selection = bind(profile, shared(&clock), &[&served]);
        let (_, accepted) = shake(&selection, &server(&offers, &clock), Some("a.example.com"), 9999).unwrap();
        accepted.facts.cipher
    };
    let code = |suite: rustls::SupportedCipherSuite| u16::from(suite.suite());
    let usual = Profile::default();
    for (profile, offered, expected) in [
        (&usual, [aes256, chacha, aes128], aes256),
        // Where no list says otherwise.
        (&usual, [aes128, aes256, chacha], aes128),
        (&usual, [aes128, chacha, aes256], aes128),
        (&usual, [aes256, aes128, chacha], aes256),
        (&lists(&[aes256, aes128]), [aes128, aes256, chacha], aes256),
        (&lists(&[aes128, aes256]), [aes256, aes128, chacha], aes128),
        // Whoever prefers ChaCha20 computes without help, whatever the list says.
        (&usual, [chacha, aes256, aes128], chacha),
        (&lists(&[aes128, aes256, chacha]), [chacha, aes256, aes128], chacha),
        (&lists(&[aes128, aes256]), [chacha, aes256, aes128], aes128),
        (&lists(&[aes128, chacha]), [aes256, chacha, aes128], aes128),
        (&prefers, [aes128, chacha, aes256], aes128),
    ] {
        assert_eq!(
            chosen(profile, TLS13, &offered),
            code(expected),
            "{:?}, {offered:?}",
            profile.ciphersuites
        );
    }
    for (offered, expected) in [
        ([old_aes128, old_aes256, old_chacha], old_aes256),
        ([old_chacha, old_aes128, old_aes256], old_chacha),
    ] {
        assert_eq!(chosen(&usual, TLS12, &offered), code(expected), "{offered:?}");
    }
}

#[test]
fn every_suite_and_curve_is_spoken() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let ecdsa = authority.server("a.example.com", NewKey::P256);
    let rsa = authority.server("a.example.com", NewKey::Rsa2048);
    let context = server(&trusting(&authority), &clock);
    for suite in ciphers::TLS12 {
        let profile = Profile { versions: TLS12, ciphers: vec![suite], ..Profile::default() };
        let name = ciphers::name(suite.suite().into());
        let served = if name.contains("ECDSA") { &ecdsa } else { &rsa };
        let selection = bind(&profile, shared(&clock), &[served]);
        let (mut client, mut server) = shake(&selection, &context, Some("a.example.com"), 9999).unwrap();
        assert_eq!(server.facts.cipher_name(), name);
        assert_eq!(send(&mut client.connection, &mut server.connection, &[b"x", b"xx"], 2), b"xxx");
    }
    for suite in ciphers::TLS13 {
        let profile = Profile { versions: TLS13, ciphersuites: vec![suite], ..Profile::default() };
        let selection = bind(&profile, shared(&clock), &[&ecdsa, &rsa]);
        let (mut client, mut server) = shake(&selection, &context, Some("a.example.com"), 9999).unwrap();
        assert_eq!(server.facts.cipher_name(), ciphers::name(suite.suite().into()));
        assert_eq!(send(&mut server.connection, &mut client.connection, &[b"x", b"xx"], 2), b"xxx");
    }
    for versions in [TLS12, TLS13] {
        for group in groups::parse("X25519:P-256:P-384:P-521:X25519MLKEM768:SecP256r1MLKEM768").unwrap().used
        {
            let name = groups::name(group.name());
            if versions == TLS12 && name.contains("MLKEM") {
                continue;
            }
            let profile = Profile { versions, groups: vec![group], ..Profile::default() };
            let selection = bind(&profile, shared(&clock), &[&ecdsa]);
            let client = ServerProfile { groups: vec![group], ..trusting(&authority) };
            let (_, done) = shake(&selection, &server(&client, &clock), Some("a.example.com"), 9999).unwrap();
            assert_eq!(done.facts.curve(), name);
        }
    }
}

#[test]
fn sessions_are_resumed_with_tickets_and_without() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let served = authority.server("a.example.com", NewKey::P256);
    for versions in [TLS12, TLS13] {
        for (tickets, of_client) in [(true, true), (false, true), (true, false)] {
            let mut shared = shared(&clock);
            if !tickets {
                shared.tickets = None;
            }
            let cache = shared.cache.clone();
            let profile = Profile { versions, ..Profile::default() };
            let selection = bind(&profile, shared, &[&served]);
            let client = ServerProfile { tickets: of_client, ..trusting(&authority) };
            let context = server(&client, &clock);
            let mut resumed = Vec::new();
            for _ in 0..3 {
                let (client, server) = shake(&selection, &context, Some("a.example.com"), 9999).unwrap();
                assert_eq!(client.facts.resumed, server.facts.resumed);
                assert_eq!(client.facts.peer[0].subject_oneline(), b"/CN=a.example.com");
                resumed.push(server.facts.resumed);
            }
            assert_eq!(resumed, [false, true, true], "{versions:?}, tickets {tickets} {of_client}");
            // TLS 1.2 keeps a session beside the ticket, for clients that lose it.
            assert!(tickets || !cache.is_empty());
        }
    }
}

#[test]
fn a_session_opens_no_host_but_its_own() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let served = authority.server("a.example.com", NewKey::P256);
    let other = authority.server("a.example.com", NewKey::P256);
    let keys = Arc::new(TicketKeys::generate(clock.clone()).unwrap());
    let guarded = Profile { client: asking(Verify::Optional, &authority), ..Profile::default() };
    for versions in [TLS12, TLS13] {
        let open = Profile { versions, ..Profile::default() };
        let guarded = Profile { versions, ..guarded.clone() };
        let common = shared(&clock);
        let line = |profile: &Profile, served: &Arc<_>| {
            let shared = thalweg_tls::bind::Shared { tickets: Some(keys.clone()), ..common.clone() };
            bind(profile, shared, &[served])
        };
        let (first, same) = (line(&open, &served), line(&open, &served));
        let (policy, certificate) = (line(&guarded, &served), line(&open, &other));
        for (second, expected) in [(&same, true), (&policy, false), (&certificate, false)] {
            let context = server(&trusting(&authority), &clock);
            shake(&first, &context, Some("a.example.com"), 9999).unwrap();
            let (_, server) = shake(second, &context, Some("a.example.com"), 9999).unwrap();
            assert_eq!(server.facts.resumed, expected, "{versions:?}");
        }
    }
}

#[test]
fn clients_are_verified() {
    let (clock, authority, stranger) = (clock(), Authority::new("Root"), Authority::new("Stranger"));
    let served = authority.server("a.example.com", NewKey::P256);
    let good = authority.server("client", NewKey::P256);
    let expired = {
        let mut template = template("expired");
        template.not_after = NOW as i64 - 1;
        credential("expired.pem", &authority.issue(&template, NewKey::Rsa2048))
    };
    let version1 = {
        let mut template = template("old");
        template.version = 1;
        credential("old.pem", &authority.issue(&template, NewKey::P256))
    };
    let revoked = authority.server("revoked", NewKey::P256);
    let unknown = stranger.server("unknown", NewKey::P256);
    let crl = Crl::parse(&authority.crl(&[revoked.leaf().serial()])).unwrap();
    let crls = Some(Arc::new(Crls::new([Arc::new(crl)])));
    let ok = Code::OK;
    let cases = [
        (Verify::Optional, None, "", ok, true),
        (Verify::Required, None, "", ok, false),
        (Verify::None, Some(&good), "", ok, true),
        (Verify::Required, Some(&good), "", ok, true),
        (Verify::Required, Some(&version1), "", ok, true),
        (Verify::Optional, Some(&expired), "", Code::EXPIRED, false),
        (Verify::Optional, Some(&expired), "10", Code::EXPIRED, true),
        (Verify::Required, Some(&revoked), "", Code::REVOKED, false),
        (Verify::Required, Some(&revoked), "X509_V_ERR_CERT_REVOKED", Code::REVOKED, true),
        (Verify::Required, Some(&unknown), "", Code::NO_LOCAL_ISSUER, false),
    ];
    for versions in [TLS12, TLS13] {
        for (verify, own, ignored, code, accepted) in cases {
            let mut policy = asking(verify, &authority);
            policy.crls = crls.clone();
            if !ignored.is_empty() {
                policy.ignored_leaf = Ignored::parse(ignored).unwrap();
            }
            let profile = Profile { versions, client: policy, ..Profile::default() };
            let selection = bind(&profile, shared(&clock), &[&served]);
            let client = ServerProfile { own: own.cloned(), ..trusting(&authority) };
            let context = server(&client, &clock);
            let what = format!("{versions:?} {verify:?} {own:?} {ignored}");
            // Twice: the second time a session is resumed where there is one, and the verdict is the same.
            for round in 0..2 {
                let outcome = shake(&selection, &context, Some("a.example.com"), 9999);
                match (outcome.server, accepted) {
                    (Ok(server), true) => {
                        let shown = own.filter(|_| verify != Verify::None);
                        assert_eq!(
                            server.facts.peer.first().map(|c| c.der()),
                            shown.map(|c| c.leaf().der()),
                            "{what}"
                        );
                        assert_eq!(
                            (server.facts.verdict.result, server.facts.verdict.leaf),
                            (code, code),
                            "{what}"
                        );
                        assert_eq!(server.facts.resumed, round == 1, "{what}");
                        if let Ok(mut client) = outcome.client {
                            receive(&mut client.connection, &mut client.rest).unwrap();
                        }
                    }
                    (Err(Failure::Certificate { code: found, leaf: true }), false) => {
                        assert_eq!(found, code, "{what}")
                    }
                    (Err(failure), false) if own.is_none() => assert_eq!(failure.reason(), 199, "{what}"),
                    (result, _) => panic!("{what}: {result:?}"),
                }
            }
        }
    }
}

/// Early data keeps tickets from clients of TLS 1.3, and from no others: without a cache those have nothing else.
#[test]
fn clients_without_early_data_have_tickets_all_the_same() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let served = authority.server("a.example.com", NewKey::P256);
    for (early_data, versions, expected) in [(1000, TLS12, true), (1000, TLS13, false), (0, TLS13, true)] {
        let mut shared = shared(&clock);
        shared.cache = Arc::new(SessionCache::new(0, 300, clock.clone()));
        let selection = bind(&Profile { early_data, ..Profile::default() }, shared, &[&served]);
        let context = server(&ServerProfile { versions, ..trusting(&authority) }, &clock);
        for round in 0..2 {
            let (client, _) = shake(&selection, &context, Some("a.example.com"), 99_999).unwrap();
            assert_eq!(client.facts.resumed, expected && round == 1, "{early_data} {versions:?}");
        }
    }
}

#[test]
fn a_resumed_client_is_verified_again() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let served = authority.server("a.example.com", NewKey::P256);
    let mut short = template("client");
    short.not_after = NOW as i64 + 60;
    let own = credential("client.pem", &authority.issue(&short, NewKey::P256));
    for versions in [TLS12, TLS13] {
        clock.set(NOW);
        let client = asking(Verify::Required, &authority);
        let selection = bind(&Profile { versions, client, ..Profile::default() }, shared(&clock), &[&served]);
        let context = server(&ServerProfile { own: Some(own.clone()), ..trusting(&authority) }, &clock);
        shake(&selection, &context, Some("a.example.com"), 9999).unwrap();
        clock.set(NOW + 61);
        let outcome = shake(&selection, &context, Some("a.example.com"), 9999);
        assert!(
            matches!(outcome.server, Err(Failure::Certificate { code: Code::EXPIRED, leaf: true })),
            "{:?}",
            outcome.server
        );
        let mut client = outcome.client.unwrap();
        assert!(client.facts.resumed);
        let error = receive(&mut client.connection, &mut client.rest).unwrap_err();
        assert!(matches!(error, Failure::Alert(45)), "{error:?}");
    }
}

#[test]
fn servers_are_verified() {
    let (clock, authority, stranger) = (clock(), Authority::new("Root"), Authority::new("Stranger"));
    let served = authority.server("a.example.com", NewKey::P256);
    let selection = bind(&Profile::default(), shared(&clock), &[&served]);
    let verified = |profile: &ServerProfile, name: Option<&str>| {
        shake(&selection, &server(profile, &clock), name, 9999).client.map(|_| ()).map_err(|failure| {
            match failure {
                Failure::Certificate { code, .. } => code,
                other => panic!("{other:?}"),
            }
        })
    };
    let good = trusting(&authority);
    let mut other_host = trusting(&authority);
    other_host.policy.host = Some(b"b.example.com".to_vec());
    let mut right_host = trusting(&authority);
    right_host.policy.host = Some(b"A.example.com".to_vec());
    assert_eq!(verified(&good, Some("a.example.com")), Ok(()));
    assert_eq!(verified(&good, None), Ok(()), "nothing to compare with");
    assert_eq!(verified(&good, Some("b.example.com")), Err(Code::WRONG_HOST));
    assert_eq!(verified(&other_host, Some("a.example.com")), Err(Code::WRONG_HOST));
    assert_eq!(
        verified(&right_host, Some("x.example.com")),
        Ok(()),
        "verifyhost comes before the name of SNI"
    );
    assert_eq!(verified(&trusting(&stranger), Some("a.example.com")), Err(Code::NO_LOCAL_ISSUER));
    let mut unverified = trusting(&stranger);
    unverified.policy.required = false;
    assert_eq!(verified(&unverified, Some("b.example.com")), Ok(()));
}

#[test]
fn nothing_in_common_is_told_with_the_right_alert() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let served = authority.server("a.example.com", NewKey::P256);
    let fail = |profile: &Profile, client: &ServerProfile| {
        let selection = bind(profile, shared(&clock), &[&served]);
        let outcome = shake(&selection, &server(client, &clock), Some("a.example.com"), 9999);
        let Err(Failure::Alert(alert)) = outcome.client else { panic!("{:?}", outcome.client) };
        (alert, outcome.server.unwrap_err())
    };
    let profile = |versions| Profile { versions, ..Profile::default() };
    let client = |versions| ServerProfile { versions, ..trusting(&authority) };
    let (alert, failure) = fail(&profile(TLS12), &client(TLS13));
    assert_eq!((alert, failure.reason()), (alert::PROTOCOL_VERSION, 258));
    let chacha = Profile { ciphersuites: vec![ciphers::TLS13[1]], ..profile(TLS13) };
    let aes = ServerProfile { ciphersuites: vec![ciphers::TLS13[0]], ..client(TLS13) };
    let (alert, failure) = fail(&chacha, &aes);
    assert_eq!((alert, failure.reason()), (alert::HANDSHAKE_FAILURE, 193));
    assert_eq!(failure.text(), "error:0A0000C1:SSL routines::no shared cipher");
    let p256 = Profile { groups: groups::parse("P-256").unwrap().used, ..profile(TLS13) };
    let x25519 = ServerProfile { groups: groups::parse("X25519").unwrap().used, ..client(TLS13) };
    assert_eq!(fail(&p256, &x25519).0, alert::HANDSHAKE_FAILURE);
}

#[test]
fn without_a_protocol_in_common_a_connection_goes_on_without_one() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let served = authority.server("a.example.com", NewKey::P256);
    for versions in [TLS12, TLS13] {
        let profile = Profile { versions, alpn: vec![b"h2".to_vec()], ..Profile::default() };
        let selection = bind(&profile, shared(&clock), &[&served]);
        let client = ServerProfile { versions, alpn: vec![b"http/1.1".to_vec()], ..trusting(&authority) };
        // What a handshake offers in place of its line's protocols.
        for (protocols, agreed) in [(None, None), (Some([b"x".to_vec(), b"h2".to_vec()]), Some(&b"h2"[..]))] {
            let protocols = protocols.as_ref().map(|protocols| &protocols[..]);
            let context = server(&client, &clock);
            let outcome = shake_offering(&selection, &context, Some("a.example.com"), protocols, 9999);
            let (client, server) = outcome.unwrap();
            assert_eq!((client.facts.alpn.as_deref(), server.facts.alpn.as_deref()), (agreed, agreed));
        }
    }
}

#[test]
fn bytes_that_are_no_tls_get_an_alert_and_an_end() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let selection = bind(&Profile::default(), shared(&clock), &[&authority.server("a", NewKey::P256)]);
    for (input, description) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], alert::PROTOCOL_VERSION),
        (b"\x16\x02\x01\x00\x05", alert::PROTOCOL_VERSION),
        (b"\x15\x03\x01\x00\x02\x02\x28", alert::UNEXPECTED_MESSAGE),
        (b"\x63\x03\x01\x00\x01x", alert::UNEXPECTED_MESSAGE),
        (b"\x16\x03\x01\x00\x00", alert::UNEXPECTED_MESSAGE),
        (b"\x16\x03\x01\x40\x01", alert::RECORD_OVERFLOW),
        (b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00", alert::UNEXPECTED_MESSAGE),
        (b"\x16\x03\x01\x00\x04\x01\xff\xff\xff", alert::DECODE_ERROR),
        (b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", alert::DECODE_ERROR),
    ] {
        let mut accepting = Accepting::new(selection.clone());
        let mut out = Vec::new();
        let mut result = accepting.feed(input, &mut out);
        if result.is_ok() {
            assert!(accepting.is_ready());
            result = accepting.step(&mut out).map(|_| ());
        }
        assert!(result.is_err(), "{input:x?}");
        assert_eq!(out, [21, 3, 3, 0, 2, 2, description], "{input:x?}");
        assert!(!accepting.is_ready(), "nothing follows");
    }
}

/// RFC 7507: a client that tries TLS 1.2 after TLS 1.3 failed says so, and learns that it should not have failed.
#[test]
fn a_fallback_that_is_not_needed_is_refused() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let served = authority.server("a", NewKey::P256);
    let context = server(&ServerProfile { versions: TLS12, ..trusting(&authority) }, &clock);
    let mut hello = Vec::new();
    Connecting::new(context, None, None).unwrap().step(&mut hello).unwrap();
    // Headers, version, random and an empty session identifier come before the suites, and their length.
    let suites = 5 + 4 + 2 + 32 + 1;
    let last = suites + usize::from(u16::from_be_bytes([hello[suites], hello[suites + 1]]));
    let signal = 0x5600_u16.to_be_bytes();
    for (versions, falls_back, refused) in [
        (Profile::default().versions, true, true),
        (Profile::default().versions, false, false),
        (TLS12, true, false),
    ] {
        let selection = bind(&Profile { versions, ..Profile::default() }, shared(&clock), &[&served]);
        let mut hello = hello.clone();
        if falls_back {
            hello[last..last + 2].copy_from_slice(&signal);
        }
        let (mut accepting, mut out) = (Accepting::new(selection), Vec::new());
        accepting.feed(&hello, &mut out).unwrap();
        let failure = accepting.step(&mut out).err();
        assert_eq!(matches!(failure, Some(Failure::Fallback)), refused, "{versions:?}: {failure:?}");
        assert_eq!(out[..] == [21, 3, 3, 0, 2, 2, alert::INAPPROPRIATE_FALLBACK], refused, "{out:?}");
    }
}

#[test]
fn a_handshake_that_never_ends_is_cut() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let selection = bind(&Profile::default(), shared(&clock), &[&authority.server("a", NewKey::P256)]);
    // Records of few bytes and of many, of a message as large as it may be, and no end.
    for size in [1, 100, 16_384] {
        let mut accepting = Accepting::new(selection.clone());
        let mut out = Vec::new();
        accepting.feed(&[22, 3, 1, 0, 4, 1, 0, 0x80, 0], &mut out).unwrap();
        let mut record = vec![22, 3, 1, (size >> 8) as u8, size as u8];
        record.resize(5 + size, 0);
        let mut fed = 0;
        // Whole hellos begin a handshake, and this one is none.
        while !accepting.is_ready() && accepting.feed(&record, &mut out).is_ok() {
            fed += record.len();
            assert!(fed <= thalweg_tls::engine::HELLO_INPUT_MAX, "{size}");
        }
        assert!(accepting.step(&mut out).is_err());
        assert!(!out.is_empty());
    }
    let mut accepting = Accepting::new(selection);
    let mut out = Vec::new();
    assert!(accepting.feed(&[22, 3, 1, 0, 4, 1, 0, 0x80, 1], &mut out).is_err(), "larger than any");
}

#[test]
fn any_change_of_a_flight_ends_the_handshake() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let selection =
        bind(&Profile::default(), shared(&clock), &[&authority.server("a.example.com", NewKey::P256)]);
    let context = server(&trusting(&authority), &clock);
    let mut hello = Vec::new();
    Connecting::new(context.clone(), Some(b"a.example.com"), None).unwrap().step(&mut hello).unwrap();
    // The client's hello, changed at each byte: an answer or an alert, never a panic; the record's own version aside the
    // client refuses the answer to a hello that it did not send.
    for at in 0..hello.len() {
        let mut changed = hello.clone();
        changed[at] ^= 0x21;
        let (mut accepting, mut out) = (Accepting::new(selection.clone()), Vec::new());
        if accepting.feed(&changed, &mut out).is_ok() {
            while accepting.is_ready() && accepting.step(&mut out).is_ok_and(|step| step == Step::More) {}
        }
        assert!(!out.is_empty() || !accepting.is_ready(), "byte {at}");
    }
}

#[test]
fn the_end_is_told_and_counted() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let selection =
        bind(&Profile::default(), shared(&clock), &[&authority.server("a.example.com", NewKey::P256)]);
    let context = server(&trusting(&authority), &clock);
    let (mut client, mut server) = shake(&selection, &context, Some("a.example.com"), 9999).unwrap();
    let mut wire = [0; 200];
    let first = client.connection.seal(&[b"last words"], 16384, &mut wire).unwrap().written;
    let second = client.connection.close(&mut wire[first..]).unwrap();
    let opened = server.connection.open(&mut wire[..first + second]).unwrap().unwrap();
    assert!(matches!(opened.event, Event::Data(_)));
    assert!(!server.connection.is_closed());
    let opened = server.connection.open(&mut wire[first..first + second]).unwrap().unwrap();
    assert_eq!((opened.consumed, opened.event), (second, Event::Closed));
    assert!(server.connection.is_closed());
    // The other direction goes on.
    assert_eq!(send(&mut server.connection, &mut client.connection, &[b"answer"], 16384), b"answer");
}

#[test]
fn keys_are_renewed_and_a_flood_of_that_is_cut() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let served = authority.server("a.example.com", NewKey::P256);
    for versions in [TLS12, TLS13] {
        let selection = bind(&Profile { versions, ..Profile::default() }, shared(&clock), &[&served]);
        let context = server(&trusting(&authority), &clock);
        let (client, server) = shake(&selection, &context, Some("a.example.com"), 9999).unwrap();
        let (mut one, mut two) = (client.connection, server.connection);
        if versions == TLS12 {
            assert!(matches!(one.refresh(), Err(Failure::Exhausted)));
            continue;
        }
        for round in 0..100u8 {
            one.refresh().unwrap();
            assert_eq!(send(&mut one, &mut two, &[&[round]], 100), [round]);
            two.refresh().unwrap();
            assert_eq!(send(&mut two, &mut one, &[&[round]], 100), [round]);
        }
        let mut cut = None;
        for round in 0..100u8 {
            one.refresh().unwrap();
            let mut wire = [0; 128];
            let length = one.reply(&mut wire);
            if let Err(failure) = receive(&mut two, &mut wire[..length]) {
                cut = Some((round, failure));
                break;
            }
        }
        assert!(matches!(cut, Some((32, Failure::Flood))), "{cut:?}");
    }
}

#[test]
fn what_is_sealed_fits_into_the_room_there_is() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let selection =
        bind(&Profile::default(), shared(&clock), &[&authority.server("a.example.com", NewKey::P256)]);
    let context = server(&trusting(&authority), &clock);
    let (client, server) = shake(&selection, &context, Some("a.example.com"), 9999).unwrap();
    let (mut one, mut two) = (client.connection, server.connection);
    let plain: Vec<u8> = (0..50_000u32).map(|i| (i / 3) as u8).collect();
    let mut got = Vec::new();
    let mut room = 0;
    while got.len() < plain.len() {
        // Any room at all, too little included, and a key update that waits.
        room = (room + 7919) % 33_000;
        if room % 5 == 0 && !one.has_reply() {
            one.refresh().unwrap();
        }
        let mut wire = vec![0; room];
        let rest = &plain[got.len()..];
        let sealed = one.seal(&[&rest[..rest.len() / 2], &rest[rest.len() / 2..]], 4096, &mut wire).unwrap();
        assert!(sealed.written <= room);
        if sealed.written > 0 {
            let opened = receive(&mut two, &mut wire[..sealed.written]).unwrap();
            assert_eq!(opened.len(), sealed.taken);
            got.extend(opened);
        }
    }
    assert_eq!(got, plain);
}

#[test]
fn the_lists_of_a_hello_and_the_secrets_are_kept_when_asked_for() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let served = authority.server("a.example.com", NewKey::P256);
    let mut keeping = shared(&clock);
    keeping.keep_hello = 1000;
    keeping.keep_secrets = true;
    let context = server(&trusting(&authority), &clock);
    let (_, kept) =
        shake(&bind(&Profile::default(), keeping, &[&served]), &context, Some("a.example.com"), 99).unwrap();
    let hello = kept.facts.hello.as_ref().unwrap();
    assert!(hello.ciphers.chunks(2).any(|code| code == [0x13, 0x02]));
    assert!(hello.extensions.chunks(2).any(|kind| kind == [0, 0]) && hello.versions.contains(&4));
    assert_eq!(kept.facts.secret("EXPORTER_SECRET").map(<[u8]>::len), Some(48));
    assert!(kept.facts.secret("CLIENT_TRAFFIC_SECRET_0").is_some());
    let (_, not) =
        shake(&bind(&Profile::default(), shared(&clock), &[&served]), &context, Some("a.example.com"), 99)
            .unwrap();
    assert!(not.facts.hello.is_none() && not.facts.secrets.is_empty());
}

#[test]
fn a_chain_of_many_certificates_goes_through_records_of_any_size() {
    let (clock, root) = (clock(), Authority::new("Root"));
    let mut above = Authority::with(template("CA 0").ca(None), Some(&root));
    let mut chain = above.pem();
    for number in 1..25 {
        above = Authority::with(template(&format!("CA {number}")).ca(None), Some(&above));
        chain.insert_str(0, &above.pem());
    }
    let issued = above.issue(&template("a").hosts(&["a.example.com"]), NewKey::P256);
    // Certificates that belong to nothing make it larger than a record.
    let stranger = Authority::new(&"Stranger ".repeat(10)).pem();
    let served = credential("a.pem", &(issued + &chain + &stranger.repeat(30)));
    assert!(served.chain.iter().map(|one| one.der().len()).sum::<usize>() > 20_000);
    for versions in [TLS12, TLS13] {
        let client = asking(Verify::Required, &root);
        let selection = bind(&Profile { versions, client, ..Profile::default() }, shared(&clock), &[&served]);
        let profile = ServerProfile { own: Some(served.clone()), ..trusting(&root) };
        let context = server(&profile, &clock);
        for chunk in [1000, 99_999] {
            let (client, server) = shake(&selection, &context, Some("a.example.com"), chunk).unwrap();
            assert_eq!(client.facts.peer[0].der(), served.leaf().der());
            assert!(client.facts.peer.len() > 50 && server.facts.peer.len() > 50);
        }
    }
}
