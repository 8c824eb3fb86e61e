//! Servers of GnuTLS, NSS and Java, whose certificates are verified.

use thalweg_tls::facts::Facts;
use thalweg_tls::options::Versions;

use super::*;

const TLS12: Versions = Versions { tls12: true, tls13: false };
const TLS13: Versions = Versions { tls12: false, tls13: true };

/// The host of the certificates.
const HOST: &str = "a.example.com";

/// What the servers know: an authority, and certificates of a host that it issued.
struct Files {
    authority: Authority,
    directory: Directory,
    ca: String,
    /// One for each kind of key.
    served: [String; 2],
}

impl Files {
    fn new(name: &str) -> Files {
        let (authority, directory) = (Authority::with(template("Root").ca(None), None), Directory::new(name));
        let ca = directory.write("ca.pem", &authority.pem());
        // NSS knows certificates by their subjects.
        let issue = |name, kind| authority.issue(&template(name).hosts(&[HOST]), kind);
        let served = [("ec", NewKey::P256), ("rsa", NewKey::Rsa2048)]
            .map(|(name, kind)| directory.write(&format!("{name}.pem"), &issue(name, kind)));
        Files { authority, directory, ca, served }
    }

    /// One that believes the authority, and has a certificate of it to show.
    fn client(&self, versions: Versions) -> ServerProfile {
        let own = credential("own", &self.authority.issue(&template("client"), NewKey::P256));
        ServerProfile { versions, own: Some(own), ..trusting(&self.authority) }
    }
}

impl Server {
    /// A program that cannot choose its port, which is told one that was free just now.
    fn on_a_port(command: impl Fn(u16) -> Command) -> Server {
        for _ in 0..10 {
            let port = listen().0.local_addr().unwrap().port();
            let silent = || Stdio::null();
            let child =
                command(port).stdin(Stdio::piped()).stdout(silent()).stderr(silent()).spawn().unwrap();
            let mut server = Server { child, port };
            while server.child.try_wait().unwrap().is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return server;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        panic!("no port was free");
    }
}

/// A response, up to the connection's end, however that is said.
fn get(server: &Server, context: &Arc<ServerContext>, name: &str) -> Result<(Facts, String), Failure> {
    let (mut end, facts) = connect(server.port, context, name)?;
    end.write(&[b"GET / HTTP/1.0\r\n", b"\r\n"]);
    let mut answer = Vec::new();
    let ended = loop {
        match end.read() {
            Ok(more) if more.is_empty() => break Ok(()),
            Ok(more) => answer.extend(more),
            Err(failure) => break Err(failure),
        }
    };
    match answer.is_empty() {
        true => Err(ended.err().unwrap_or(Failure::Closed)),
        false => Ok((facts, String::from_utf8_lossy(&answer).into_owned())),
    }
}

/// Asks twice: the second time the session is resumed. Nobody is asked who has another name or an unknown authority, and who shows
/// no certificate has no answer where one is `required`.
fn is_asked(server: &Server, files: &Files, versions: Versions, required: bool, what: &str) {
    let clock = real_clock();
    let profile = files.client(versions);
    let context = support::server(&profile, &clock);
    for resumed in [false, true] {
        let (facts, answer) =
            get(server, &context, HOST).unwrap_or_else(|failure| panic!("{what}: {failure}"));
        assert!(answer.starts_with("HTTP/1.") && answer.contains(" 200 OK\r\n"), "{what}: {answer}");
        assert_eq!(facts.protocol(), if versions == TLS12 { "TLSv1.2" } else { "TLSv1.3" }, "{what}");
        assert_eq!(facts.resumed, resumed, "{what}");
    }
    let nameless = support::server(&ServerProfile { own: None, ..profile.clone() }, &clock);
    assert_eq!(get(server, &nameless, HOST).is_err(), required, "{what}: no certificate");
    let Err(Failure::Certificate { code, .. }) = get(server, &context, "b.example.com") else {
        panic!("{what}")
    };
    assert_eq!(code, Code::WRONG_HOST, "{what}");
    let stranger = Authority::with(template("Stranger").ca(None), None);
    let unknown = support::server(&trusting(&stranger), &clock);
    let Err(Failure::Certificate { code, .. }) = get(server, &unknown, HOST) else { panic!("{what}") };
    assert!([Code::SELF_SIGNED_IN_CHAIN, Code::NO_LOCAL_ISSUER].contains(&code), "{what}: {code:?}");
}

/// Plays a server in both versions, with each certificate, which asks for one or requires one.
fn is_asked_in_all_ways(files: &Files, start: impl Fn(&str, Versions, bool) -> Server) {
    for (versions, version) in [(TLS12, "TLS 1.2"), (TLS13, "TLS 1.3")] {
        for served in &files.served {
            for required in [false, true] {
                let server = start(served, versions, required);
                let what = format!("{version}, {served}, a certificate is required: {required}");
                is_asked(&server, files, versions, required, &what);
            }
        }
    }
}

#[test]
fn gnutls_as_a_server() {
    if !has("gnutls-serv") {
        return;
    }
    let files = Files::new("gnutls-serv");
    is_asked_in_all_ways(&files, |served, versions, required| {
        Server::on_a_port(|port| {
            let version = if versions == TLS12 { "1.2" } else { "1.3" };
            let mut command = Command::new("gnutls-serv");
            command.args(["--http", "--x509keyfile", served, "--x509certfile", served]);
            command.args(["--x509cafile", &files.ca, "--verify-client-cert", "--port", &port.to_string()]);
            command.args(["--priority", &format!("NORMAL:-VERS-ALL:+VERS-TLS{version}")]);
            command.args(required.then_some("--require-client-cert"));
            command
        })
    });
}

#[test]
fn nss_as_a_server() {
    if !has("selfserv") || !has("certutil") || !has("pk12util") || !has("openssl") {
        return;
    }
    let files = Files::new("selfserv");
    let database = format!("sql:{}", files.directory.0.display());
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output));
    };
    run("certutil", &["-N", "--empty-password", "-d", &database]);
    run("certutil", &["-A", "-n", "ca", "-t", "CT,C,C", "-i", &files.ca, "-d", &database]);
    for served in &files.served {
        let packed = format!("{served}.p12");
        run(
            "openssl",
            &["pkcs12", "-export", "-in", served, "-name", served, "-passout", "pass:", "-out", &packed],
        );
        run("pk12util", &["-i", &packed, "-W", "", "-d", &database]);
    }
    is_asked_in_all_ways(&files, |served, versions, required| {
        Server::on_a_port(|port| {
            let version = if versions == TLS12 { "tls1.2:tls1.2" } else { "tls1.3:tls1.3" };
            let mut command = Command::new("selfserv");
            // With tickets, and asking for a certificate on the first handshake.
            command.args(["-d", &database, "-n", served, "-p", &port.to_string(), "-V", version, "-u", "-r"]);
            command.args(required.then_some("-r"));
            command
        })
    });
}

/// It speaks both versions, asks for a certificate, and answers with the name in that.
#[test]
fn java_as_a_server() {
    if !has("java") || !has("javac") {
        return;
    }
    let files = Files::new("java-server");
    let program = files.directory.write("Serve.java", include_str!("Serve.java"));
    for served in &files.served {
        let server = Server::spawned(Command::new("java").args([&program, &files.ca, served]));
        for (versions, version) in [(TLS12, "TLS 1.2"), (TLS13, "TLS 1.3")] {
            is_asked(&server, &files, versions, false, &format!("{version}, {served}"));
            let context = support::server(&files.client(versions), &real_clock());
            let (_, answer) = get(&server, &context, HOST).unwrap();
            assert!(answer.ends_with(" from CN=client."), "{version}, {served}: {answer}");
        }
    }
}
