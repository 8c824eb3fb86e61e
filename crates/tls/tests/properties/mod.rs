//! What must hold for any bytes. The fuzz targets and the ordinary tests check the same.
#![allow(dead_code, reason = "each test uses a part of it")]

use thalweg_tls::hello::record::{Assembler, first_message};
use thalweg_tls::hello::{ClientHello, HelloError};

/// Any bytes as the beginning of a client's stream: no panic, the same answer however they are cut, and a message that
/// is found lies within the bytes.
pub fn hello(input: &[u8]) {
    let whole = first_message(input);
    if let Ok(Some(first)) = &whole {
        assert!(first.consumed <= input.len());
        assert!(first.body.len() + 4 <= first.consumed);
        if let Ok(hello) = ClientHello::of(first) {
            check(&hello);
        }
    }
    // A verdict once given stays: more bytes never change it, fewer bytes only ask for more.
    for cut in (0..input.len()).step_by(1 + input.len() / 64) {
        match first_message(&input[..cut]) {
            Ok(None) => {}
            early => assert_eq!(early, whole, "the answer to {cut} bytes is not the one to all"),
        }
    }
    // Looking at each byte once comes to the same.
    let mut assembler = Assembler::default();
    let (mut found, mut seen) = (Ok(false), 0);
    for end in (0..input.len()).step_by(1 + input.len() / 16).chain([input.len()]) {
        (found, seen) = (assembler.advance(&input[..end]), end);
        if found != Ok(false) {
            break;
        }
    }
    match whole {
        Err(error) => assert_eq!(found, Err(error)),
        Ok(None) => assert_eq!(found, Ok(false)),
        Ok(first) => assert_eq!((found, first_message(&input[..seen])), (Ok(true), Ok(first))),
    }
}

/// Any bytes as the body of a ClientHello.
pub fn hello_body(body: &[u8]) -> Result<(), HelloError> {
    ClientHello::parse(body).map(|hello| check(&hello))
}

fn check(hello: &ClientHello<'_>) {
    assert_eq!(hello.random.len(), 32);
    let kinds: Vec<u16> = hello.extension_types().collect();
    let mut unique = kinds.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(kinds.len(), unique.len());
    assert_eq!(
        hello.server_name.is_some() as usize,
        hello.server_name.iter().filter(|n| !n.is_empty()).count()
    );
    assert!(hello.protocols().all(|name| !name.is_empty()));
    assert!(hello.shares().count() <= 0xffff);
    let _ = (hello.highest_version(), hello.offers_version(0x0304), hello.has_curves());
}

/// Any bytes as what a client sends: an end, an alert or a wait, and never more memory than there is room for.
pub fn accept(cut: usize, input: &[u8]) {
    use std::sync::{Arc, OnceLock};
    use thalweg_tls::bind::{BindContext, Profile, Served, Shared};
    use thalweg_tls::certificate::{LoadOptions, Loader};
    use thalweg_tls::engine::{Accepting, Step};
    use thalweg_tls::select::Selection;
    use thalweg_tls::session::SessionCache;
    use thalweg_tls::x509::make::{MadeKey, NewKey, Template};

    static SELECTION: OnceLock<Arc<Selection>> = OnceLock::new();
    let selection = SELECTION.get_or_init(|| {
        let clock = Arc::new(thalweg_tls::FixedClock::at(1_800_000_000));
        let key = MadeKey::generate(NewKey::P256).unwrap();
        let template = Template::new("fuzz", 0, 4_000_000_000);
        let der = template.sign(&key, &template.subject, &key).unwrap();
        let text = thalweg_tls::pem::encode("CERTIFICATE", &der)
            + &thalweg_tls::pem::encode("PRIVATE KEY", key.pkcs8());
        let options = LoadOptions { extra: thalweg_tls::certificate::Extra::NONE, ..LoadOptions::default() };
        let loader = Loader { files: &thalweg_tls::files::Disk, options: &options };
        let credential = Arc::new(loader.load_bytes("fuzz", text.as_bytes()).unwrap());
        let shared = Shared {
            cache: Arc::new(SessionCache::new(100, 300, clock.clone())),
            clock,
            tickets: None,
            lifetime: 300,
            keep_secrets: false,
            keep_hello: 1000,
        };
        let context = Arc::new(BindContext::new(&Profile::default(), shared).unwrap());
        let mut selection = Selection::new(false);
        selection.add(Arc::new(Served::new(credential, context)), &[]);
        selection.last_is_default();
        Arc::new(selection)
    });
    let mut accepting = Accepting::new(selection.clone());
    let mut out = Vec::new();
    let first = cut.min(input.len());
    for part in [&input[..first], &input[first..]] {
        if accepting.feed(part, &mut out).is_err() {
            assert!(!accepting.is_ready());
            return;
        }
        // Each step takes a record or ends the handshake.
        let mut steps = 0;
        while accepting.is_ready() {
            steps += 1;
            assert!(steps <= input.len() + 2, "the handshake spins");
            if !matches!(accepting.step(&mut out), Ok(Step::More)) {
                return;
            }
        }
    }
}

/// Any bytes as a certificate, as a revocation list, as an OCSP response and as a PEM file.
pub fn x509(der: &[u8]) {
    if let Ok(response) = thalweg_tls::ocsp::OcspResponse::read(der) {
        response.is_in_force(0);
        response.text();
    }
    if let Ok(blocks) = thalweg_tls::pem::blocks(der) {
        assert!(blocks.iter().all(|block| block.der.len() <= der.len()));
    }
    use thalweg_tls::x509::{Certificate, Crl, name};
    if let Ok(certificate) = Certificate::parse(der) {
        assert_eq!(certificate.der(), der);
        assert!((1..=3).contains(&certificate.version));
        for field in [certificate.subject(), certificate.issuer()] {
            name::oneline(field);
            name::rfc2253(field);
            name::canonical(field);
            name::entry(field, b"CN", -1);
        }
        let _ = (certificate.policies(), certificate.general_names(), certificate.ocsp_uri());
        let _ = (certificate.key_size(), certificate.signature_algorithm_name(), certificate.serial_digits());
    }
    if let Ok(crl) = Crl::parse(der) {
        for (serial, entry) in crl.entries_by_serial() {
            assert!(crl.revoked(serial).is_some(), "{entry:?} is not found by its own serial");
        }
    }
}
