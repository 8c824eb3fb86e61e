//! Chains, beside what `openssl verify` says of them.

#[path = "verify/random.rs"]
mod random;
mod support;

use std::process::Command;
use std::sync::Arc;

use support::*;
use thalweg_tls::verify::chain::{self, Purpose, Request};
use thalweg_tls::verify::{Code, Crls, TrustStore};
use thalweg_tls::x509::make::{MadeKey, NewKey, Template};
use thalweg_tls::x509::oid::{extension, purpose};
use thalweg_tls::x509::{Certificate, Crl};
use thalweg_tls::{der, pem};

#[derive(Clone)]
struct Case {
    name: &'static str,
    /// The peer's own certificate first.
    sent: Vec<Arc<Certificate>>,
    trusted: Vec<Arc<Certificate>>,
    crls: Option<Vec<Vec<u8>>>,
    purpose: Purpose,
    host: Option<&'static str>,
    /// OpenSSL believes what we do not, for a reason that the case gives.
    stricter: bool,
    expected: Code,
    depth: usize,
}

impl Case {
    fn new(
        name: &'static str,
        sent: &[&Arc<Certificate>],
        trusted: &[&Authority],
        expected: Code,
        depth: usize,
    ) -> Case {
        Case {
            name,
            sent: sent.iter().map(|one| Arc::clone(one)).collect(),
            trusted: trusted.iter().map(|authority| authority.certificate.clone()).collect(),
            crls: None,
            purpose: Purpose::Server,
            host: None,
            stricter: false,
            expected,
            depth,
        }
    }

    /// What ours says: the first error and where.
    fn ours(&self) -> (Code, usize) {
        self.ours_by().0
    }

    /// The same, and the path that it is about.
    fn ours_by(&self) -> ((Code, usize), Vec<Arc<Certificate>>) {
        let trust = TrustStore::new(self.trusted.iter().cloned());
        let crls = self
            .crls
            .as_ref()
            .map(|lists| Crls::new(lists.iter().map(|der| Arc::new(Crl::parse(der).unwrap()))));
        let request = Request {
            trust: &trust,
            crls: crls.as_ref(),
            purpose: self.purpose,
            now: NOW as i64,
            host: self.host.map(str::as_bytes),
            stapled: None,
        };
        let mut found = (Code::OK, 0);
        let (result, path) = chain::verify_path(&self.sent, &request, &mut |depth, code| {
            found = (code, depth);
            false
        });
        assert_eq!(result.is_ok(), found.0 == Code::OK, "{}", self.name);
        (found, path)
    }

    /// What OpenSSL says.
    fn openssl(&self, directory: &std::path::Path) -> (Code, usize) {
        let write = |file: &str, text: String| {
            let path = directory.join(file);
            std::fs::write(&path, text).unwrap();
            path
        };
        let pem_of = |list: &[Arc<Certificate>]| {
            list.iter().map(|one| pem::encode("CERTIFICATE", one.der())).collect::<String>()
        };
        let mut command = Command::new("openssl");
        command.args([
            "verify",
            "-attime",
            &NOW.to_string(),
            "-auth_level",
            "2",
            "-no-CApath",
            "-no-CAstore",
        ]);
        command.arg("-CAfile").arg(write("trusted.pem", pem_of(&self.trusted)));
        command.args(["-purpose", if self.purpose == Purpose::Server { "sslserver" } else { "sslclient" }]);
        if self.sent.len() > 1 {
            command.arg("-untrusted").arg(write("sent.pem", pem_of(&self.sent[1..])));
        }
        if let Some(host) = self.host {
            command.args(["-verify_hostname", host]);
        }
        if let Some(crls) = &self.crls {
            let text: String = crls.iter().map(|der| pem::encode("X509 CRL", der)).collect();
            command.args(["-crl_check", "-crl_check_all"]).arg("-CRLfile").arg(write("crls.pem", text));
        }
        command.arg(write("leaf.pem", pem_of(&self.sent[..1])));
        let output = command.output().unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        // "error 10 at 0 depth lookup: certificate has expired"
        if output.status.success() {
            return (Code::OK, 0);
        }
        let at = text.find("error ").unwrap_or_else(|| panic!("{text}"));
        let mut words = text[at..].split_whitespace();
        let number = words.nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{text}"));
        let depth = words.nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{text}"));
        (Code(number), depth)
    }
}

fn parsed(der: &[u8]) -> Arc<Certificate> {
    Arc::new(Certificate::parse(der).unwrap())
}

fn leaf(issuer: &Authority, template: &Template) -> Arc<Certificate> {
    parsed(&template.sign(&MadeKey::generate(NewKey::P256).unwrap(), &issuer.name, &issuer.key).unwrap())
}

fn host(name: &str) -> Template {
    template(name).hosts(&[name])
}

/// A name constraint: permitted or excluded subtrees of one kind.
fn constraint(permitted: bool, kind: u8, base: &[u8]) -> Vec<u8> {
    let wrap = |tag: u8, content: &[u8]| {
        let mut out = Vec::new();
        der::write(&mut out, tag, content);
        out
    };
    let subtree = wrap(der::tag::SEQUENCE, &wrap(kind, base));
    wrap(der::tag::SEQUENCE, &wrap(der::tag::explicit(if permitted { 0 } else { 1 }), &subtree))
}

fn chains() -> Vec<Case> {
    let root = Authority::new("Root");
    let stranger = Authority::new("Stranger");
    let impostor = Authority::new("Root");
    let middle = Authority::with(template("Middle").ca(Some(0)), Some(&root));
    let low = Authority::with(template("Low").ca(None), Some(&middle));
    let no_ca = Authority::with(template("NoCA").hosts(&["x"]), Some(&root));
    let good = leaf(&middle, &host("a.example.com"));
    let direct = leaf(&root, &host("a.example.com"));
    let own = Authority::with(host("self.example.com"), None);
    let mut old = host("old.example.com");
    old.not_after = NOW as i64 - 1;
    let mut young = host("young.example.com");
    young.not_before = NOW as i64 + 1;
    let mut v1 = template("v1.example.com");
    v1.version = 1;
    let unknown = host("u.example.com").extension(b"\x2a\x03\x04", true, &[5, 0]);
    let uncritical = host("u.example.com").extension(b"\x2a\x03\x04", false, &[5, 0]);
    let case = Case::new;
    let ok = Code::OK;
    let mut cases = vec![
        case("a leaf below the root", &[&direct], &[&root], ok, 0),
        case("a leaf below an intermediate", &[&good, &middle.certificate], &[&root], ok, 0),
        case("and the root sent, too", &[&good, &middle.certificate, &root.certificate], &[&root], ok, 0),
        case("in any order", &[&good, &root.certificate, &middle.certificate], &[&root], ok, 0),
        case("the intermediate trusted beside the root", &[&good], &[&root, &middle], ok, 0),
        case("the intermediate missing", &[&good], &[&root], Code::NO_LOCAL_ISSUER, 0),
        case("only the intermediate trusted", &[&good], &[&middle], Code::NO_ISSUER, 1),
        case("an unknown root", &[&direct], &[&stranger], Code::NO_LOCAL_ISSUER, 0),
        case(
            "an unknown root that is sent",
            &[&direct, &root.certificate],
            &[&stranger],
            Code::SELF_SIGNED_IN_CHAIN,
            1,
        ),
        case("a root of the same name", &[&direct], &[&impostor], Code::BAD_SIGNATURE, 0),
        case("signed by itself", &[&own.certificate], &[&root], Code::SELF_SIGNED_LEAF, 0),
        case("signed by itself, and trusted", &[&own.certificate], &[&own], ok, 0),
        case("a root as a leaf", &[&root.certificate], &[&root], Code::WRONG_PURPOSE, 0),
        case("nobody is trusted", &[&direct], &[], Code::NO_LOCAL_ISSUER, 0),
        case("expired", &[&leaf(&root, &old)], &[&root], Code::EXPIRED, 0),
        case("not yet in force", &[&leaf(&root, &young)], &[&root], Code::NOT_YET_VALID, 0),
        case("version 1", &[&leaf(&root, &v1)], &[&root], ok, 0),
        case("an unknown critical extension", &[&leaf(&root, &unknown)], &[&root], Code::UNKNOWN_CRITICAL, 0),
        case("an unknown extension", &[&leaf(&root, &uncritical)], &[&root], ok, 0),
        case(
            "issued by no CA",
            &[&leaf(&no_ca, &host("a")), &no_ca.certificate],
            &[&root],
            Code::INVALID_CA,
            1,
        ),
        case(
            "a path that is too long",
            &[&leaf(&low, &host("a")), &low.certificate, &middle.certificate],
            &[&root],
            Code::PATH_TOO_LONG,
            2,
        ),
    ];
    // An intermediate whose time is over.
    let mut late = template("Late").ca(None);
    late.not_after = NOW as i64 - 1;
    let late = Authority::with(late, Some(&root));
    cases.push(case(
        "an expired intermediate",
        &[&leaf(&late, &host("a")), &late.certificate],
        &[&root],
        Code::EXPIRED,
        1,
    ));
    let mut dead_root = template("Dead").ca(None);
    dead_root.not_after = NOW as i64 - 1;
    let dead = Authority::with(dead_root, None);
    cases.push(case("an expired root", &[&leaf(&dead, &host("a"))], &[&dead], Code::EXPIRED, 1));
    // A signature that is not.
    let mut broken = direct.der().to_vec();
    let end = broken.len() - 1;
    broken[end] ^= 1;
    cases.push(case("a changed signature", &[&parsed(&broken)], &[&root], Code::BAD_SIGNATURE, 0));
    // Two that signed each other.
    let one = Authority::with(template("One").ca(None), Some(&stranger));
    let two = Authority::with(template("Two").ca(None), Some(&one));
    let back = parsed(&template("One").ca(None).sign(&one.key, &two.name, &two.key).unwrap());
    cases.push(case(
        "a loop",
        &[&leaf(&two, &host("a")), &two.certificate, &back],
        &[&root],
        Code::NO_LOCAL_ISSUER,
        2,
    ));
    cases
}

fn purposes_and_hosts() -> Vec<Case> {
    let root = Authority::new("Root");
    let mut cases = Vec::new();
    let both: [&[u8]; 2] = [purpose::SERVER_AUTH, purpose::CLIENT_AUTH];
    for (name, purposes, server, client) in [
        ("no purpose", None, true, true),
        ("a server's", Some(&both[..1]), true, false),
        ("a client's", Some(&both[1..]), false, true),
        ("both", Some(&both[..]), true, true),
        ("any", Some(&[purpose::ANY][..]), false, false),
    ] {
        for (purpose, fits) in [(Purpose::Server, server), (Purpose::Client, client)] {
            let template = purposes.iter().fold(host("a"), |template, purposes| template.purposes(purposes));
            let expected = if fits { Code::OK } else { Code::WRONG_PURPOSE };
            let mut case = Case::new(name, &[&leaf(&root, &template)], &[&root], expected, 0);
            case.purpose = purpose;
            cases.push(case);
        }
    }
    // A key that may encipher only: fit for a server, not for a client.
    let enciphering = host("a").extension(extension::KEY_USAGE, true, &[3, 2, 5, 0x20]);
    for (purpose, expected) in [(Purpose::Server, Code::OK), (Purpose::Client, Code::WRONG_PURPOSE)] {
        let mut case = Case::new("key usage", &[&leaf(&root, &enciphering)], &[&root], expected, 0);
        case.purpose = purpose;
        cases.push(case);
    }
    // Netscape's extension: bit 0 is a client, bit 1 a server.
    for (bits, server, client) in [(0x80, false, true), (0x40, true, false), (0xc0, true, true)] {
        let old = host("a").extension(extension::NETSCAPE_CERT_TYPE, false, &[3, 2, 6, bits]);
        for (purpose, fits) in [(Purpose::Server, server), (Purpose::Client, client)] {
            let expected = if fits { Code::OK } else { Code::WRONG_PURPOSE };
            let case = Case::new("a certificate type", &[&leaf(&root, &old)], &[&root], expected, 0);
            cases.push(Case { purpose, ..case });
        }
    }
    for (certificate, asked, fits) in [
        (host("a.example.com"), "A.Example.com", true),
        (host("a.example.com"), "b.example.com", false),
        (host("*.example.com"), "a.example.com", true),
        (host("*.example.com"), "a.b.example.com", false),
        (template("cn.example.com"), "cn.example.com", true),
        (template("cn.example.com").hosts(&["a.example.com"]), "cn.example.com", false),
    ] {
        let expected = if fits { Code::OK } else { Code::WRONG_HOST };
        let mut case = Case::new("a host", &[&leaf(&root, &certificate)], &[&root], expected, 0);
        case.host = Some(asked);
        cases.push(case);
    }
    cases
}

fn constraints() -> Vec<Case> {
    const DNS: u8 = der::tag::context(2);
    const ADDRESS: u8 = der::tag::context(7);
    let mut cases = Vec::new();
    for (permitted, kind, base, template, expected) in [
        (true, DNS, &b"example.com"[..], host("a.example.com"), Code::OK),
        (true, DNS, b"example.com", host("a.example.org"), Code::NOT_PERMITTED),
        (true, DNS, b"example.com", template("a.example.org"), Code::NOT_PERMITTED),
        (false, DNS, b"example.com", host("a.example.com"), Code::EXCLUDED),
        (false, DNS, b"example.com", host("b.example.org"), Code::OK),
        (false, DNS, b"", host("b.example.org"), Code::EXCLUDED),
        (true, ADDRESS, &[10, 0, 0, 0, 255, 0, 0, 0], host("a.example.com"), Code::OK),
    ] {
        let value = constraint(permitted, kind, base);
        let ca = support::template("Root").ca(None).extension(extension::NAME_CONSTRAINTS, true, &value);
        let root = Authority::with(ca, None);
        cases.push(Case::new("a name constraint", &[&leaf(&root, &template)], &[&root], expected, 0));
    }
    // OpenSSL compares a star with the excluded name as if it were a letter, and takes a common name with a star, or
    // without a dot, for a text; and then believes both for the host.
    for (permitted, base, template, asked, expected) in [
        (false, "b.example.com", host("*.example.com"), "b.example.com", Code::EXCLUDED),
        (false, "b.example.com", host("b*.example.com"), "bb.example.com", Code::EXCLUDED),
        (true, "example.org", template("*.example.com"), "a.example.com", Code::NOT_PERMITTED),
        (true, "example.org", template("intranet"), "intranet", Code::NOT_PERMITTED),
        (true, "example.org", template("a_b.example.com"), "a_b.example.com", Code::NOT_PERMITTED),
    ] {
        let value = constraint(permitted, DNS, base.as_bytes());
        let ca = support::template("Root").ca(None).extension(extension::NAME_CONSTRAINTS, true, &value);
        let root = Authority::with(ca, None);
        let case = Case::new("a constraint and a host", &[&leaf(&root, &template)], &[&root], expected, 0);
        cases.push(Case { host: Some(asked), stricter: true, ..case });
    }
    cases
}

fn revocation() -> Vec<Case> {
    let root = Authority::new("Root");
    let middle = Authority::with(template("Middle").ca(None), Some(&root));
    let impostor = Authority::new("Root");
    let good = leaf(&middle, &host("a"));
    let sent = [&good, &middle.certificate];
    let mut cases = Vec::new();
    let mut add = |name, crls: Vec<Vec<u8>>, expected, depth| {
        let mut case = Case::new(name, &sent, &[&root], expected, depth);
        case.crls = Some(crls);
        cases.push(case);
    };
    let (all_good, none) = (root.crl(&[]), middle.crl(&[]));
    add("nobody is revoked", vec![all_good.clone(), none.clone()], Code::OK, 0);
    add("no list of the leaf's issuer", vec![all_good.clone()], Code::NO_CRL, 0);
    add("no list of the root", vec![none.clone()], Code::NO_CRL, 1);
    add("the leaf is revoked", vec![all_good.clone(), middle.crl(&[good.serial()])], Code::REVOKED, 0);
    add("another one is revoked", vec![all_good.clone(), middle.crl(&[b"\x01", b"\x7f\x01"])], Code::OK, 0);
    let revoked = root.crl(&[middle.certificate.serial()]);
    add("the intermediate is revoked", vec![revoked, none.clone()], Code::REVOKED, 1);
    add(
        "a list that somebody else signed",
        vec![impostor.crl(&[]), none.clone()],
        Code::BAD_CRL_SIGNATURE,
        1,
    );
    let list = |from: i64, to: i64| {
        let times = (NOW as i64 + from, NOW as i64 + to);
        thalweg_tls::x509::make::revocations(&root.name, &root.key, times, &[]).unwrap()
    };
    add("an old list", vec![list(-10, -5), none.clone()], Code::CRL_EXPIRED, 1);
    add("a list of tomorrow", vec![list(5, 10), none], Code::CRL_NOT_YET_VALID, 1);
    cases
}

#[test]
fn chains_are_judged_as_openssl_judges_them() {
    let has_openssl = Command::new("openssl").arg("version").output().is_ok();
    if !has_openssl {
        println!("skipped beside openssl: there is no such command");
    }
    let directory = std::env::temp_dir().join(format!("thalweg-tls-verify-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let mut wrong = Vec::new();
    for case in [chains(), purposes_and_hosts(), constraints(), revocation()].into_iter().flatten() {
        let what = format!("{} ({:?}, {:?})", case.name, case.purpose, case.host);
        let expected = (case.expected, case.depth);
        if case.ours() != expected {
            wrong.push(format!("ours: {what}: {:?}, not {expected:?}", case.ours()));
        }
        if has_openssl && !case.trusted.is_empty() && !case.stricter && case.openssl(&directory) != expected {
            wrong.push(format!("openssl: {what}: {:?}, not {expected:?}", case.openssl(&directory)));
        }
    }
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_chain_of_hundreds_costs_no_more_than_one_of_dozens() {
    let root = Authority::new("Root");
    let mut above = Authority::with(template("CA 0").ca(None), Some(&root));
    let mut sent = vec![above.certificate.clone()];
    for number in 1..100 {
        above = Authority::with(template(&format!("CA {number}")).ca(None), Some(&above));
        sent.insert(0, above.certificate.clone());
    }
    sent.insert(0, leaf(&above, &host("a")));
    let trust = TrustStore::new([root.certificate.clone()]);
    let request = Request {
        trust: &trust,
        crls: None,
        purpose: Purpose::Server,
        now: NOW as i64,
        host: None,
        stapled: None,
    };
    let result = chain::verify(&sent, &request, &mut |_, _| false);
    assert_eq!(result, Err(Code::CHAIN_TOO_LONG));
}

/// Lists of revoked certificates may be signed with SHA-1, certificates may not.
#[test]
fn lists_with_old_signatures_count() {
    let blocks = pem::blocks(include_bytes!("data/sha1-lists.pem")).unwrap();
    let [root, leaf, good, revoking] = &blocks[..] else { panic!("{} blocks", blocks.len()) };
    let [root, leaf] = [root, leaf].map(|block| Arc::new(Certificate::parse(&block.der).unwrap()));
    let trust = TrustStore::new([root]);
    let mut other = good.der.clone();
    *other.last_mut().unwrap() ^= 1;
    for (list, expected) in
        [(&good.der, Code::OK), (&revoking.der, Code::REVOKED), (&other, Code::BAD_CRL_SIGNATURE)]
    {
        let crls = Crls::new([Arc::new(Crl::parse(list).unwrap())]);
        let now = 1_800_000_000;
        let request = Request {
            trust: &trust,
            crls: Some(&crls),
            purpose: Purpose::Server,
            now,
            host: None,
            stapled: None,
        };
        let mut found = Code::OK;
        let result = chain::verify(std::slice::from_ref(&leaf), &request, &mut |_, code| {
            found = code;
            false
        });
        assert_eq!((result.is_ok(), found), (expected == Code::OK, expected));
    }
}
