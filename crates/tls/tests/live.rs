//! Changing certificates, authorities and lists while connections are served; loading them; choosing among them.

mod support;

use std::sync::Arc;

use support::*;
use thalweg_tls::certificate::{ChainFile, Extra, LoadOptions, Loader, Parts};
use thalweg_tls::crt_list;
use thalweg_tls::engine::Accepting;
use thalweg_tls::live::{BindLine, Live, Source};
use thalweg_tls::options::words::Words;
use thalweg_tls::pem;
use thalweg_tls::server::{ServerContext, ServerProfile};
use thalweg_tls::verify::{ServerPolicy, TrustStore, Verify};
use thalweg_tls::x509::Certificate;
use thalweg_tls::x509::make::{MadeKey, NewKey, Template};

fn loader<'a>(files: &'a MemoryFiles, options: &'a LoadOptions) -> Loader<'a> {
    Loader { files, options }
}

fn parts(text: &str) -> (String, String) {
    let at = text.find("-----BEGIN PRIVATE").unwrap();
    (text[..at].to_owned(), text[at..].to_owned())
}

#[test]
fn certificates_that_cannot_be_loaded_say_why() {
    let (authority, other) = (Authority::new("Root"), Authority::new("Other"));
    let (a, b) =
        (authority.issue(&template("a"), NewKey::Rsa2048), authority.issue(&template("b"), NewKey::Rsa2048));
    let ((certificate, key), (_, wrong)) = (parts(&a), parts(&b));
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let small = "-----BEGIN RSA PRIVATE KEY-----\nMAMCAQA=\n-----END RSA PRIVATE KEY-----\n";
    let files = MemoryFiles::with(&[
        ("good.pem", &a),
        ("keyfirst.pem", &format!("{key}{certificate}")),
        ("mismatch.pem", &format!("{certificate}{wrong}")),
        ("nokey.pem", &certificate),
        ("keyonly.pem", &key),
        ("garbage.pem", "garbage\n"),
        ("truncated.pem", &a[..200]),
        ("encrypted.pem", &format!("{certificate}{encrypted}")),
        ("small.pem", &format!("{certificate}{small}")),
        ("ecdsa.pem", &format!("{}{key}", other.pem())),
    ]);
    for lazy_keys in [false, true] {
        let options = LoadOptions { lazy_keys, ..LoadOptions::default() };
        let loader = loader(&files, &options);
        for good in ["good.pem", "keyfirst.pem"] {
            loader.load(good).unwrap();
        }
        for (path, error) in [
            ("mismatch.pem", "inconsistencies between private key and certificate loaded 'mismatch.pem'."),
            ("nokey.pem", "No Private Key found in 'nokey.pem.key'."),
            ("keyonly.pem", "unable to load certificate from file 'keyonly.pem': no start line."),
            ("garbage.pem", "unable to load certificate from file 'garbage.pem': no start line."),
            ("truncated.pem", "unable to load certificate from file 'truncated.pem': bad end line."),
            (
                "encrypted.pem",
                "No Private Key found in 'encrypted.pem': the private key is protected by a passphrase",
            ),
            ("small.pem", "unable to load private key from file 'small.pem': the private key cannot be used"),
            (
                "missing.pem",
                "unable to stat SSL certificate from file 'missing.pem' : No such file or directory.",
            ),
            ("ecdsa.pem", "inconsistencies between private key and certificate loaded 'ecdsa.pem'."),
        ] {
            let found = loader.load(path).unwrap_err().to_string();
            assert!(found.starts_with(error), "{found}");
        }
    }
}

#[test]
fn parts_of_a_certificate_stand_beside_it() {
    let root = Authority::new("Root");
    let middle = Authority::with(template("Middle").ca(None), Some(&root));
    let (certificate, key) = parts(&middle.issue(&template("a").hosts(&["a"]), NewKey::P256));
    let files = MemoryFiles::with(&[
        ("dir/a.crt", &certificate),
        ("dir/a.crt.key", &key),
        ("short/a.crt", &certificate),
        ("short/a.key", &key),
        ("dir/a.crt.issuer", &middle.pem()),
        ("dir/.hidden", "x"),
        ("dir/chain.pem", &format!("{certificate}{}{}{key}", middle.pem(), root.pem())),
        ("bundle.pem.rsa", &root.issue(&template("a"), NewKey::Rsa2048)),
        ("bundle.pem.ecdsa", &root.issue(&template("a"), NewKey::P256)),
    ]);
    let options = LoadOptions::default();
    let all = loader(&files, &options);
    assert_eq!(all.paths("dir/").unwrap(), ["dir/a.crt", "dir/chain.pem"]);
    assert_eq!(all.paths("bundle.pem").unwrap(), ["bundle.pem.rsa", "bundle.pem.ecdsa"]);
    let loaded = all.load("dir/a.crt").unwrap();
    assert_eq!(loaded.issuer.unwrap().der(), middle.certificate.der());
    assert_eq!(all.load("dir/chain.pem").unwrap().chain.len(), 3);
    assert!(!all.load("dir/chain.pem").unwrap().has_timestamps);
    files.put("dir/chain.pem.sctl", b"x");
    assert!(all.load("dir/chain.pem").unwrap().has_timestamps);
    let skipping = LoadOptions { skip_self_issued: true, ..LoadOptions::default() };
    assert_eq!(
        loader(&files, &skipping).load("dir/chain.pem").unwrap().chain.len(),
        2,
        "the root is not sent"
    );
    let none = LoadOptions { extra: Extra::NONE, ..LoadOptions::default() };
    assert!(loader(&files, &none).load("dir/a.crt").is_err());
    assert!(loader(&files, &none).paths("bundle.pem").is_err());
    let shorter = LoadOptions { delete_extension: true, ..LoadOptions::default() };
    assert!(loader(&files, &shorter).load("short/a.crt").is_ok() && all.load("short/a.crt").is_err());
    let chains = LoadOptions {
        issuers: vec![ChainFile {
            path: "issuers/a".into(),
            chain: vec![middle.certificate.clone(), root.certificate.clone()],
        }],
        ..LoadOptions::default()
    };
    let alone = loader(&files, &chains).load("dir/a.crt").unwrap();
    assert_eq!(alone.chain.len(), 3, "issuers-chain-path");
    assert_eq!(alone.chain_file.as_deref(), Some("issuers/a"));
    assert_eq!(alone.files.key.as_deref(), Some("dir/a.crt.key"), "the key is in a file of its own");
    assert_eq!(all.load("dir/chain.pem").unwrap().files.key.as_deref(), Some("dir/chain.pem"));
    let named =
        Parts { certificate: "dir/a.crt".into(), key: Some("dir/a.crt.key".into()), ..Parts::default() };
    assert_eq!(&*all.load_parts("@web/a", &named).unwrap().name, "@web/a");
    let sctl = Parts { sctl: Some("x".into()), ..named };
    assert!(all.load_parts("@web/a", &sctl).unwrap_err().to_string().contains("not supported"));
    // An issuer that is named has to be there, even if nobody needs it.
    let issuer = Some("missing.pem".to_owned());
    let parts = Parts { certificate: "dir/chain.pem".to_owned(), issuer, ..Parts::default() };
    let error = all.load_parts("@web/a", &parts).unwrap_err().to_string();
    assert!(error.starts_with("unable to load certificate from file 'missing.pem'"), "{error}");
    assert_eq!(Extra::parse(["key", "ocsp"]).unwrap(), Extra { key: true, ocsp: true, ..Extra::NONE });
    assert_eq!(Extra::parse(["foo"]), Err("foo".to_owned()));
}

/// A proxy with one `bind` line that serves a list of certificates.
struct Proxy {
    live: Live,
    line: Arc<BindLine>,
    authority: Authority,
    context: Arc<ServerContext>,
}

fn proxy(list: &str, certificates: &[(&str, Template, NewKey)], words: Words) -> Proxy {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let files = MemoryFiles::default();
    let mut live = Live::new(shared(&clock), LoadOptions::default());
    for (path, template, kind) in certificates {
        files.put(path, authority.issue(template, *kind).as_bytes());
        live.load(&files, path).unwrap();
    }
    live.add_trust("ca.pem", TrustStore::new([authority.certificate.clone()]));
    live.add_list("list.txt", crt_list::parse("list.txt", list).unwrap());
    let (line, _) =
        live.add_bind("f/c.cfg:9", words, vec![Source::List("list.txt".into())], None, None).unwrap();
    let mut profile = trusting(&authority);
    profile.policy.required = false;
    let context = server(&profile, &clock);
    Proxy { live, line, authority, context }
}

impl Proxy {
    /// The common name of the certificate that a client gets; the alert it gets otherwise.
    fn served(&self, name: Option<&str>) -> String {
        match shake(&self.line.selection(), &self.context, name, 9999).client {
            Ok(connected) => {
                String::from_utf8(connected.facts.peer[0].subject_oneline()).unwrap()[4..].to_owned()
            }
            Err(failure) => failure.to_string(),
        }
    }
}

#[test]
fn a_client_gets_the_certificate_of_its_name() {
    // The reference gave the same for the same list (2026-11-22, both kinds of keys offered).
    let certificate = |name: &str| template(name).hosts(&[name]);
    let list = "d.pem\ns1.pem\ns2.pem *.w.com !sec.w.com\ns3.pem *.w.com\ns4.pem both.com\ns5.pem both.com\n\
                s6.pem *.n.com !sec.n.com\ns7.pem\ns3.pem *.x.com\ns2.pem Exact.X.com\n";
    let (rsa, ecdsa) = (NewKey::Rsa2048, NewKey::P256);
    let proxy = proxy(
        list,
        &[
            ("d.pem", certificate("d.default"), rsa),
            ("s1.pem", template("s1cn.example.net").hosts(&["s1.example.com"]), rsa),
            ("s2.pem", certificate("s2"), rsa),
            ("s3.pem", certificate("s3"), ecdsa),
            ("s4.pem", certificate("s4"), rsa),
            ("s5.pem", certificate("s5"), ecdsa),
            ("s6.pem", certificate("s6"), rsa),
            ("s7.pem", template("s7").hosts(&["*.san.example.com"]), rsa),
        ],
        Words::default(),
    );
    for (name, expected) in [
        ("s1.example.com", "s1cn.example.net"),
        ("s1cn.example.net", "s1cn.example.net"),
        ("a.w.com", "s3"),
        ("sec.w.com", "s3"),
        ("w.com", "d.default"),
        ("a.b.w.com", "d.default"),
        ("both.com", "s5"),
        ("BOTH.com", "s5"),
        ("sec.n.com", "d.default"),
        ("a.n.com", "s6"),
        ("x.san.example.com", "s7"),
        ("exact.x.com", "s3"),
        ("a.x.com", "s3"),
        ("nope.org", "d.default"),
    ] {
        assert_eq!(proxy.served(Some(name)), expected, "{name}");
    }
    assert_eq!(proxy.served(None), "d.default");
    let shown = proxy.live.show_sni(None, None);
    let row =
        |filter: &str| shown.lines().find(|row| row.split('\t').nth(1) == Some(filter)).unwrap().to_owned();
    assert!(row("*.n.com").contains("\t!sec.n.com \trsa\ts6.pem\t"), "{shown}");
    assert!(row("both.com").contains("f/c.cfg:9\tboth.com\t-\trsa\ts4.pem\t"), "{shown}");
    assert!(row("*").contains("\td.pem\t"), "{shown}");
    assert_eq!(proxy.live.show_sni(Some("x"), None).lines().count(), 1, "nothing but the title");
    let expired = |offset: i64| proxy.live.show_sni(Some("f"), Some(offset)).lines().count();
    assert_eq!((expired(0), expired(364 * DAY)), (1, 1), "none is expired");
    assert!(expired(366 * DAY) > 1, "all are by then");
}

#[test]
fn a_client_gets_a_key_that_it_can_verify() {
    use thalweg_tls::hello::ClientHello;
    let certificate = |name: &str| template(name).hosts(&["both.com"]);
    let list = "rsa.pem both.com\necdsa.pem both.com\n";
    let certificates =
        [("rsa.pem", certificate("rsa"), NewKey::Rsa2048), ("ecdsa.pem", certificate("ecdsa"), NewKey::P256)];
    let proxy = proxy(list, &certificates, Words::default());
    let hello =
        |versions: &'static [u8], schemes: Option<&'static [u8]>, ciphers: &'static [u8]| ClientHello {
            legacy_version: 0x0303,
            server_name: Some(b"both.com"),
            versions: Some(versions).filter(|versions| !versions.is_empty()),
            signature_schemes: schemes,
            ciphers,
            ..ClientHello::default()
        };
    const TLS13: &[u8] = &[3, 4];
    let both: &[u8] = &[0xc0, 0x2b, 0xc0, 0x2f];
    for (hello, expected) in [
        (hello(TLS13, Some(&[4, 3, 8, 4]), &[0x13, 1]), "ecdsa"),
        (hello(TLS13, Some(&[8, 4]), &[0x13, 1]), "rsa"),
        (hello(TLS13, Some(&[4, 1]), &[0x13, 1]), "rsa"),
        (hello(TLS13, Some(&[8, 7]), &[0x13, 1]), "ecdsa"),
        (hello(&[], Some(&[4, 3, 4, 1]), both), "ecdsa"),
        (hello(&[], Some(&[4, 3, 4, 1]), &[0xc0, 0x2f]), "rsa"),
        (hello(&[], Some(&[4, 1]), both), "rsa"),
        (hello(&[], None, both), "ecdsa"),
        (hello(&[], None, &[0xc0, 0x2f]), "rsa"),
    ] {
        let selection = proxy.line.selection();
        let served = selection.choose(&hello).unwrap();
        assert_eq!(
            served.credential.leaf().subject_oneline(),
            format!("/CN={expected}").as_bytes(),
            "{hello:?}"
        );
    }
}

#[test]
fn strangers_are_sent_away_by_strict_sni() {
    let words = Words { strict_sni: Some(true), ..Words::default() };
    let proxy = proxy("a.pem a.com\n", &[("a.pem", template("a"), NewKey::P256)], words);
    assert_eq!(proxy.served(Some("a.com")), "a");
    let refused = "the peer refused with the alert 'tlsv1 alert unrecognized name'";
    assert_eq!(proxy.served(Some("b.com")), refused);
    assert_eq!(proxy.served(None), refused);
}

#[test]
fn a_certificate_is_replaced_while_it_is_served() {
    let certificates = [("a.pem", template("a"), NewKey::P256), ("b.pem", template("b"), NewKey::P256)];
    let mut proxy = proxy("a.pem a.com\nb.pem b.com\n", &certificates, Words::default());
    let new = proxy.authority.issue(&template("new"), NewKey::P256);
    let (certificate, key) = parts(&new);
    let (_, wrong) = parts(&proxy.authority.issue(&template("x"), NewKey::P256));
    let live = &mut proxy.live;
    // The answers are the reference's, word for word (2026-11-22).
    let refused = |answer: Result<String, String>, expected: &str| assert_eq!(answer.unwrap_err(), expected);
    let done = |answer: Result<String, String>, expected: &str| assert_eq!(answer.unwrap(), expected);
    refused(
        live.set_certificate("nope.pem", new.as_bytes()),
        "Can't replace a certificate which is not referenced by the configuration!\nCan't update nope.pem!",
    );
    refused(
        live.set_certificate("a.pem", b"garbage\n"),
        "unable to load certificate from file 'a.pem': no start line.\nCan't load the payload\nCan't update a.pem!",
    );
    refused(live.commit_certificate("a.pem"), "No ongoing transaction! !\nCan't commit a.pem!");
    done(
        live.set_certificate("a.pem", format!("{certificate}{wrong}").as_bytes()),
        "Transaction created for certificate a.pem!",
    );
    refused(
        live.commit_certificate("a.pem"),
        "inconsistencies between private key and certificate loaded 'a.pem'.\nCan't commit a.pem!",
    );
    assert_eq!(proxy.served(Some("a.com")), "a", "what was served is served on");
    let live = &mut proxy.live;
    refused(
        live.set_certificate("b.pem", new.as_bytes()),
        "The ongoing transaction is about 'a.pem' but you are trying to set 'b.pem'\nCan't update b.pem!",
    );
    refused(
        live.abort_certificate("b.pem"),
        "The ongoing transaction is about 'a.pem' but you are trying to abort a transaction for 'b.pem'",
    );
    assert_eq!(live.show_certificates(), "# transaction\n*a.pem\n# filename\na.pem\nb.pem\n");
    assert!(live.show_certificate("*a.pem").unwrap().contains("Status: Uncommitted\n"));
    done(live.abort_certificate("a.pem"), "Transaction aborted for certificate 'a.pem'!");
    refused(live.abort_certificate("a.pem"), "No ongoing transaction!");
    done(live.set_certificate("a.pem", certificate.as_bytes()), "Transaction created for certificate a.pem!");
    done(live.set_certificate("a.pem.key", key.as_bytes()), "Transaction updated for certificate a.pem!");
    // A handshake that has begun ends with the certificate it began with.
    let before = proxy.line.selection();
    done(proxy.live.commit_certificate("a.pem"), "Committing a.pem.\nSuccess!");
    assert_eq!(proxy.served(Some("a.com")), "new");
    assert_eq!(proxy.served(Some("b.com")), "b");
    let after = proxy.line.selection();
    assert!(Arc::ptr_eq(&before.served()[1], &after.served()[1]), "what did not change keeps its sessions");
    assert!(!Accepting::new(before).is_ready());
    let shown = proxy.live.show_certificate("a.pem").unwrap();
    assert!(shown.starts_with("Filename: a.pem\nCrt filename: a.pem\nOption: ocsp-update off\n"), "{shown}");
    assert!(shown.contains("\nStatus: Used\n") && shown.contains("\nAlgorithm: EC256\n"), "{shown}");
    refused(
        proxy.live.delete_certificate("a.pem"),
        "Can't remove the certificate: certificate 'a.pem' in use, can't be deleted!",
    );
    let dumped = proxy.live.dump_certificate("a.pem").unwrap();
    assert_eq!(pem::blocks(dumped.as_bytes()).unwrap().len(), 2);
}

#[test]
fn a_list_grows_and_shrinks() {
    let certificates = [("a.pem", template("a"), NewKey::P256), ("b.pem", template("b"), NewKey::P256)];
    let mut proxy = proxy("a.pem a.com\nb.pem b.com\nb.pem c.com\n", &certificates, Words::default());
    let new = proxy.authority.issue(&template("new"), NewKey::P256);
    let live = &mut proxy.live;
    let refused = |answer: Result<String, String>, expected: &str| assert_eq!(answer.unwrap_err(), expected);
    let done = |answer: Result<String, String>, expected: &str| assert_eq!(answer.unwrap(), expected);
    done(live.new_certificate("new.pem"), "New empty certificate store 'new.pem'!");
    refused(live.new_certificate("new.pem"), "Certificate 'new.pem' already exists!");
    assert!(live.show_certificate("new.pem").unwrap().contains("Status: Empty\n"));
    refused(
        live.add_to_list("list.txt", "new.pem"),
        "Can't edit the crt-list: certificate 'new.pem' is empty!",
    );
    refused(live.add_to_list("x", "new.pem"), "Can't edit the crt-list: crt-list 'x' does not exist!");
    refused(
        live.add_to_list("list.txt", "x.pem"),
        "Can't edit the crt-list: certificate 'x.pem' does not exist!",
    );
    live.set_certificate("new.pem", new.as_bytes()).unwrap();
    done(live.commit_certificate("new.pem"), "Committing new.pem\nSuccess!");
    refused(
        live.add_to_list("list.txt", "new.pem [foo] x"),
        "Can't edit the crt-list: parsing [CLI:1]: unknown ssl keyword foo",
    );
    let answer = live.add_to_list("list.txt", "new.pem [verify required] x").unwrap_err();
    assert!(answer.contains("verify is enabled but no CA file specified") && answer.ends_with("\nFailed!"));
    done(
        live.add_to_list("list.txt", "new.pem [alpn h2] new.com !bad.com"),
        "Inserting certificate 'new.pem' in crt-list 'list.txt'.\nSuccess!",
    );
    assert_eq!(proxy.served(Some("new.com")), "new");
    assert_eq!(
        proxy.live.show_lists(Some("list.txt"), true).unwrap(),
        "# list.txt\na.pem:1 a.com\nb.pem:2 b.com\nb.pem:3 c.com\nnew.pem:4 [alpn h2 ] new.com !bad.com\n"
    );
    let live = &mut proxy.live;
    refused(
        live.delete_from_list("list.txt", "new.pem:99"),
        "Can't delete the entry: found a certificate 'new.pem' but the line number is incorrect, please specify a correct \
         line number preceded by colons (4)!",
    );
    refused(
        live.delete_from_list("list.txt", "b.pem"),
        "Can't delete the entry: found the certificate 'b.pem' in several entries, please specify a line number preceded by \
         colons (2, 3)!",
    );
    done(live.delete_from_list("list.txt", "new.pem"), "Entry 'new.pem' deleted in crtlist 'list.txt'!");
    assert_eq!(proxy.served(Some("new.com")), "a");
    done(proxy.live.delete_certificate("new.pem"), "Certificate 'new.pem' deleted!");
    refused(
        proxy.live.delete_certificate("new.pem"),
        "Can't remove the certificate: certificate 'new.pem' doesn't exist!",
    );
    assert_eq!(proxy.live.show_lists(None, false).unwrap(), "list.txt\n");
}

#[test]
fn authorities_are_replaced_while_they_are_used() {
    let words = Words { verify: Some(Verify::Required), ca_file: Some("ca.pem".into()), ..Words::default() };
    let mut proxy = proxy("a.pem a.com\n", &[("a.pem", template("a"), NewKey::P256)], words);
    let other = Authority::new("Other");
    let clock = clock();
    let client = |authority: &Authority| {
        let own = credential("own", &authority.issue(&template("own"), NewKey::P256));
        let mut profile = trusting(authority);
        profile.policy.required = false;
        profile.own = Some(own);
        server(&profile, &clock)
    };
    let (ours, theirs) = (client(&proxy.authority), client(&other));
    let accepted = |proxy: &Proxy, context: &Arc<ServerContext>| {
        shake(&proxy.line.selection(), context, Some("a.com"), 9999).server.is_ok()
    };
    assert!(accepted(&proxy, &ours) && !accepted(&proxy, &theirs));
    let live = &mut proxy.live;
    assert_eq!(
        live.set_ca_file("x", other.pem().as_bytes()).unwrap_err(),
        "Can't replace a CA file which is not referenced by the configuration!\nCan't update x!"
    );
    assert_eq!(live.set_ca_file("ca.pem", b"x").unwrap_err(), "Invalid payload\nCan't update ca.pem!");
    assert_eq!(
        live.add_ca_file("ca.pem", other.pem().as_bytes()).unwrap(),
        "transaction created for CA ca.pem!"
    );
    assert_eq!(
        live.show_ca_files(),
        "# transaction\n*ca.pem - 2 certificate(s)\n# filename\nca.pem - 1 certificate(s)\n"
    );
    assert_eq!(live.commit_ca_file("ca.pem").unwrap(), "Committing ca.pem.\nSuccess!");
    assert!(accepted(&proxy, &ours) && accepted(&proxy, &theirs));
    proxy.live.set_ca_file("ca.pem", other.pem().as_bytes()).unwrap();
    assert!(accepted(&proxy, &ours), "not before it is committed");
    proxy.live.commit_ca_file("ca.pem").unwrap();
    // A session of before opens nothing any more.
    assert!(!accepted(&proxy, &ours) && accepted(&proxy, &theirs));
    assert_eq!(
        proxy.live.delete_ca_file("ca.pem").unwrap_err(),
        "Can't remove the CA file: CA file 'ca.pem' in use, can't be deleted!"
    );
    let shown = proxy.live.show_ca_file("ca.pem:1").unwrap();
    assert!(shown.starts_with("Filename: ca.pem\nStatus: Used\n \nCertificate #1:\nSerial: "), "{shown}");
    assert_eq!(proxy.live.show_ca_file("ca.pem:2").unwrap(), "");
    // Revocation lists.
    let revoked = Certificate::parse(other.certificate.der()).unwrap();
    let list = pem::encode("X509 CRL", &other.crl(&[revoked.serial()]));
    let live = &mut proxy.live;
    assert_eq!(live.new_crl_file("n.crl").unwrap(), "New CRL file created 'n.crl'!");
    assert_eq!(live.set_crl_file("n.crl", list.as_bytes()).unwrap(), "transaction created for CRL n.crl!");
    assert_eq!(live.show_crl_files(), "# transaction\n*n.crl\n# filename\nn.crl\n");
    assert_eq!(live.commit_crl_file("n.crl").unwrap(), "Committing n.crl\nSuccess!");
    let shown = live.show_crl_file("n.crl").unwrap();
    assert!(
        shown.contains("Version 2\nSignature Algorithm: ecdsa-with-SHA256\nIssuer: /CN=Other\n"),
        "{shown}"
    );
    assert_eq!(live.delete_crl_file("n.crl").unwrap(), "CRL file 'n.crl' deleted!");
}

#[test]
fn ten_thousand_names_are_found_at_once() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    let served = authority.server("a.example.com", NewKey::P256);
    let context =
        bind(&thalweg_tls::bind::Profile::default(), shared(&clock), &[&served]).served()[0].context.clone();
    let mut selection = thalweg_tls::select::Selection::new(true);
    for number in 0..10_000 {
        let filters = filters(&format!("h{number}.example.com *.w{number}.example.com"));
        selection.add(Arc::new(thalweg_tls::bind::Served::new(served.clone(), context.clone())), &filters);
    }
    let hello = |name: &'static [u8]| thalweg_tls::hello::ClientHello {
        server_name: Some(name),
        ..thalweg_tls::hello::ClientHello::default()
    };
    assert!(selection.choose(&hello(b"h9999.example.com")).is_some());
    assert!(selection.choose(&hello(b"x.w777.example.com")).is_some());
    assert!(selection.choose(&hello(b"h10000.example.com")).is_none());
    assert!(selection.choose(&hello(&[b'a'; 300])).is_none());
}

#[test]
fn certificates_are_for_tokens_when_that_is_said() {
    use thalweg_tls::live::{Keywords, TokenCertificate};
    let authority = Authority::new("Root");
    let (first, second) =
        (authority.issue(&template("a"), NewKey::P256), authority.issue(&template("b"), NewKey::P256));
    let (alone, _) = parts(&first);
    let files = MemoryFiles::with(&[("a.crt", &alone), ("b.pem", &second)]);
    let options = LoadOptions::default();
    let mut live = Live::new(shared(&clock()), options.clone());
    let of = |path: &str| Parts { certificate: path.to_owned(), ..Parts::default() };
    let load =
        |name: &str, path: &str| Arc::new(loader(&files, &options).load_parts(name, &of(path)).unwrap());
    live.add_credential(load("@/a", "a.crt"));
    live.declare("@/a", Keywords { jwt: Some(true), ..Keywords::default() }, true);
    live.add_credential(load("b.pem", "b.pem"));
    let found = live.token_certificates();
    let subject = |name: &str| match found.find(name) {
        TokenCertificate::Usable(credential) => {
            String::from_utf8(credential.leaf().subject_oneline()).unwrap()
        }
        other => format!("{other:?}"),
    };
    assert_eq!([subject("@/a"), subject("b.pem"), subject("c")], ["/CN=a", "Unavailable", "Unknown"]);
    assert_eq!(live.show_token_certificates(), "# filename\n@/a\n");
    // One without a key is served to nobody.
    let refused =
        live.add_bind("f/c:1", Words::default(), vec![Source::Certificate("@/a".into(), false)], None, None);
    assert_eq!(refused.unwrap_err(), "No Private Key found in '@/a'.");
    // What the CLI changes is found at once.
    live.use_for_tokens("b.pem", true).unwrap();
    assert_eq!(subject("b.pem"), "/CN=b");
    assert_eq!(
        live.delete_certificate("b.pem").unwrap_err(),
        "Can't remove the certificate: certificate 'b.pem' in use for JWT validation, can't be deleted!"
    );
    live.set_certificate("@/a", second.as_bytes()).unwrap();
    assert_eq!(subject("@/a"), "/CN=a");
    live.commit_certificate("@/a").unwrap();
    assert_eq!(subject("@/a"), "/CN=b");
    live.use_for_tokens("b.pem", false).unwrap();
    live.delete_certificate("b.pem").unwrap();
    assert_eq!(subject("b.pem"), "Unknown");
    assert!(live.use_for_tokens("b.pem", true).is_err());
}

#[test]
fn certificates_are_made_for_names_that_nobody_has() {
    use thalweg_tls::generate::Generator;
    for kind in [NewKey::P256, NewKey::P384, NewKey::Rsa2048] {
        let key = MadeKey::generate(kind).unwrap();
        let authority = template("Signer").ca(None);
        let certificate = authority.sign(&key, &authority.subject, &key).unwrap();
        let authority = pem::encode("CERTIFICATE", &certificate);
        let text = authority.clone() + &pem::encode("PRIVATE KEY", key.pkcs8());
        assert_eq!(
            Generator::new(authority.as_bytes(), None, 2).unwrap_err(),
            "there is no private key in it"
        );
        let generator = Arc::new(Generator::new(text.as_bytes(), None, 2).unwrap());
        let usual = Authority::new("Root").issue(&template("usual").hosts(&["a.com"]), NewKey::P256);
        let files = MemoryFiles::with(&[("usual.pem", &usual)]);
        let clock = clock();
        let mut live = Live::new(shared(&clock), LoadOptions::default());
        live.load(&files, "usual.pem").unwrap();
        let source = vec![Source::Certificate("usual.pem".into(), false)];
        let (line, _) = live.add_bind("f/c:1", Words::default(), source, None, Some(generator)).unwrap();
        let trust = Arc::new(TrustStore::new([Arc::new(Certificate::parse(&certificate).unwrap())]));
        let policy = ServerPolicy { required: true, trust, ..trusting(&Authority::new("x")).policy };
        let context = server(&ServerProfile { policy, reuse: false, ..ServerProfile::default() }, &clock);
        let shown = |name: &str| {
            let outcome = shake(&line.selection(), &context, Some(name), 9999);
            outcome.client.map(|connected| connected.facts.peer[0].clone())
        };
        // It is the host's, signed by the authority, and the next client gets the same.
        let first = shown("New.example.com").unwrap();
        assert_eq!(first.subject_oneline(), b"/CN=Signer/CN=new.example.com");
        assert_eq!(shown("new.example.com").unwrap().der(), first.der());
        assert!(shown("a.com").is_err(), "a name that somebody has is not taken from him");
        let long = format!("{}.example.com", "a".repeat(60));
        assert_eq!(
            shown(&long).unwrap().subject_oneline(),
            b"/CN=Signer/CN=a long name",
            "the name is in the alternative names"
        );
        // Two are kept: the one that was used longest ago made room.
        shown("new.example.com").unwrap();
        shown("third.example.com").unwrap();
        assert_eq!(shown("new.example.com").unwrap().der(), first.der());
        shown("fourth.example.com").unwrap();
        shown("fifth.example.com").unwrap();
        assert_ne!(shown("new.example.com").unwrap().der(), first.der());
    }
}
