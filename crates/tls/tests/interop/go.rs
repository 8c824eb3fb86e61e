//! Go's `crypto/tls`, as a client and as a server.

use thalweg_tls::options::groups;

use super::*;

/// Where Go is when it is not among the commands.
const USUAL_PLACE: &str = "/usr/local/go/bin/go";

const TLS12: u16 = 0x0303;
const TLS13: u16 = 0x0304;

/// What Go chooses.
const ANY: u16 = 0;

/// Makes the program of `peer.go` in a directory.
fn peer(directory: &Directory) -> Option<String> {
    let go = if Path::new(USUAL_PLACE).exists() { USUAL_PLACE } else { "go" };
    if !has(go) {
        return None;
    }
    directory.write("peer.go", include_str!("peer.go"));
    let built = Command::new(go)
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
