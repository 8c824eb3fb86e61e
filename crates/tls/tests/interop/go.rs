//! Go's `crypto/tls`, as a client and as a server.

use thalweg_tls::options::groups;

use super::*;

/// Where Go is when it is not among the commands.
const USUAL_PLACE: &str = "/usr/local/go/bin/go";

const TLS12: u16 = 0x0303;
const TLS13: u16 = 0x0304;

/// What Go chooses.
const ANY: u16 = 0;

fn go() -> &'static str {
    if Path::new(USUAL_PLACE).exists() { USUAL_PLACE } else { "go" }
}

/// Makes the program of `peer.go` in a directory.
fn peer(directory: &Directory) -> Option<String> {
    if !has(go()) {
        return None;
    }
    directory.write("peer.go", include_str!("peer.go"));
    let built = Command::new(go())
        .args(["build", "-p", "1", "-o", "peer", "peer.go"])
        .current_dir(&directory.0)
        .env("GO111MODULE", "off")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
    Some(directory.0.join("peer").to_str().unwrap().to_owned())
}

/// Each suite and each curve, twice: the second time the session is resumed, the client's certificate with it.
#[test]
fn go_as_a_client() {
    let directory = Directory::new("go-client");
    let Some(program) = peer(&directory) else { return };
    let (clock, authority) = (real_clock(), Authority::with(template("Root").ca(None), None));
    let ca = directory.write("ca.pem", &authority.pem());
    let own = directory.write("own.pem", &authority.issue(&template("client"), NewKey::P256));
    let host = |kind| {
        let issued = authority.issue(&template("a").hosts(&["a.example.com"]), kind);
        credential(&format!("{kind:?}"), &issued)
    };
    let client = ClientPolicy {
        verify: Verify::Required,
        trust: authority.store(),
        names: vec![authority.name.clone()],
        ..Profile::default().client
    };
    let groups = groups::parse("X25519:P-256:P-384:P-521").unwrap().used;
    let served = [host(NewKey::P256), host(NewKey::Rsa2048)];
    let selection =
        bind(&Profile { client, groups, ..Profile::default() }, shared(&clock), &served.each_ref());
    let suites = [
        (0xC02B, "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (0xC02C, "ECDHE-ECDSA-AES256-GCM-SHA384"),
        (0xCCA9, "ECDHE-ECDSA-CHACHA20-POLY1305"),
        (0xC02F, "ECDHE-RSA-AES128-GCM-SHA256"),
        (0xC030, "ECDHE-RSA-AES256-GCM-SHA384"),
        (0xCCA8, "ECDHE-RSA-CHACHA20-POLY1305"),
    ];
    let curves = [("P-256", 23), ("P-384", 24), ("P-521", 25), ("X25519", 29)];
    let of_suites = suites.map(|(suite, name)| (TLS12, suite, ANY, name));
    let of_curves = [TLS12, TLS13].map(|version| curves.map(|(name, curve)| (version, ANY, curve, name)));
    let all = of_suites.into_iter().chain(of_curves.into_iter().flatten()).chain([(TLS13, ANY, ANY, "any")]);
    for (version, suite, curve, what) in all {
        let (listener, address) = listen();
        let child = Command::new(&program)
            .args(["client", &address, &ca, &own])
            .args([version, suite, curve].map(|number| number.to_string()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        for resumed in [false, true] {
            let (mut end, facts) =
                accept(&listener, &selection).unwrap_or_else(|failure| panic!("{what}: {failure}"));
            end.read_until(b"\r\n\r\n");
            end.write(&[b"hello"]);
            end.close();
            assert_eq!(facts.resumed, resumed, "{what}");
            assert_eq!(facts.protocol(), if version == TLS12 { "TLSv1.2" } else { "TLSv1.3" });
            assert!(suite == ANY || facts.cipher_name() == what, "{what}: {}", facts.cipher_name());
            assert!(!facts.peer.is_empty(), "{what}: the client's certificate");
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(text(&output), "hello false\nhello true\n", "{what}");
    }
}

#[test]
fn go_as_a_server() {
    let directory = Directory::new("go-server");
    let Some(program) = peer(&directory) else { return };
    let (clock, authority) = (real_clock(), Authority::with(template("Root").ca(None), None));
    let ca = directory.write("ca.pem", &authority.pem());
    let issued = |kind| authority.issue(&template("a").hosts(&["a.example.com"]), kind);
    let served = [
        directory.write("ec.pem", &issued(NewKey::P256)),
        directory.write("rsa.pem", &issued(NewKey::Rsa2048)),
    ];
    let own = credential("own", &authority.issue(&template("client"), NewKey::P256));
    let profile = ServerProfile { own: Some(own), ..trusting(&authority) };
    let versions = [TLS12, TLS13].map(|version| served.each_ref().map(|certificate| (version, certificate)));
    // `NoClientCert` and `RequireAndVerifyClientCert`.
    let all = versions.into_iter().flatten().flat_map(|(version, certificate)| {
        [("0", false), ("4", true)].map(|authentication| (version, certificate, authentication))
    });
    for (version, certificate, (authentication, wants_certificate)) in all {
        let version = version.to_string();
        let arguments = ["server", &ca, certificate, &version, authentication];
        let server = Server::spawned(Command::new(&program).args(arguments));
        let context = support::server(&profile, &clock);
        for resumed in [false, true] {
            let (mut end, facts) = connect(server.port, &context, "a.example.com").unwrap();
            end.write(&[b"GET / HTTP/1.0\r\n\r\n"]);
            let answer = end.read_until(b".");
            let expected = format!("resumed {resumed}, certificates {}.", u8::from(wants_certificate));
            assert_eq!(String::from_utf8_lossy(&answer), expected, "{arguments:?}");
            assert_eq!(facts.resumed, resumed);
        }
    }
}

/// Go has ML-KEM with X25519 from 1.24 on, with the other curves from 1.26 on.
fn speaks_ml_kem() -> bool {
    let said = text(&Command::new(go()).arg("version").output().unwrap());
    let minor = said.split("go1.").nth(1).and_then(|rest| rest.split(['.', ' ']).next()?.parse().ok());
    let speaks = minor.is_none_or(|minor: u32| minor >= 26);
    if !speaks {
        println!("skipped: this is older than Go 1.26: {said}");
    }
    speaks
}

/// What a program of Go that is no module would leave out.
const WITH_ML_KEM: (&str, &str) = ("GODEBUG", "tlsmlkem=1,tlssecpmlkem=1");

/// Both ends have the hybrid first where nobody said otherwise.
#[test]
fn go_agrees_on_keys_with_ml_kem() {
    let directory = Directory::new("go-ml-kem");
    let Some(program) = peer(&directory).filter(|_| speaks_ml_kem()) else { return };
    let (clock, authority) = (real_clock(), Authority::with(template("Root").ca(None), None));
    let ca = directory.write("ca.pem", &authority.pem());
    let own =
        directory.write("own.pem", &authority.issue(&template("a").hosts(&["a.example.com"]), NewKey::P256));
    let served = credential("a", &authority.issue(&template("a").hosts(&["a.example.com"]), NewKey::P256));
    let groups = |list: &str| groups::parse(list).unwrap().used;
    let hybrid = "X25519MLKEM768";
    for (curve, ours, agreed) in [
        (ANY, groups::defaults(), hybrid),
        (4588, groups::defaults(), hybrid),
        (4587, groups("X25519:SecP256r1MLKEM768"), "SecP256r1MLKEM768"),
        (ANY, groups("P-256:X25519"), "X25519"),
    ] {
        let selection = bind(&Profile { groups: ours, ..Profile::default() }, shared(&clock), &[&served]);
        let (listener, address) = listen();
        let child = Command::new(&program)
            .args(["client", &address, &ca, &own])
            .args([TLS13, ANY, curve].map(|number| number.to_string()))
            .env(WITH_ML_KEM.0, WITH_ML_KEM.1)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        for _ in 0..2 {
            let (mut end, facts) =
                accept(&listener, &selection).unwrap_or_else(|failure| panic!("{curve}: {failure}"));
            assert_eq!(facts.curve(), agreed, "{curve}");
            end.read_until(b"\r\n\r\n");
            end.write(&[b"hello"]);
            end.close();
        }
        assert_eq!(text(&child.wait_with_output().unwrap()), "hello false\nhello true\n", "{curve}");
    }
    let mut command = Command::new(&program);
    command.args(["server", &ca, &own, &TLS13.to_string(), "0"]).env(WITH_ML_KEM.0, WITH_ML_KEM.1);
    let server = Server::spawned(&mut command);
    for (ours, agreed) in [
        (groups::defaults(), hybrid),
        (groups("P-256:X25519MLKEM768"), hybrid),
        (groups("X25519:P-256"), "X25519"),
    ] {
        let context = support::server(&ServerProfile { groups: ours, ..trusting(&authority) }, &clock);
        for resumed in [false, true] {
            let (mut end, facts) = connect(server.port, &context, "a.example.com").unwrap();
            end.write(&[b"GET / HTTP/1.0\r\n\r\n"]);
            end.read_until(b".");
            assert_eq!((facts.curve(), facts.resumed), (agreed, resumed));
        }
    }
}
