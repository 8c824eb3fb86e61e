//! Beside programs that other people wrote: `openssl s_client`, `openssl s_server`, `curl`, `gnutls-cli`, `gnutls-serv`, NSS's
//! `tstclnt` and `selfserv`, Java, Go.
//! Both sides, TLS 1.2 and 1.3.
//!
//! The engine has no socket; here a thread gives it one on the loopback address.

#[path = "interop/clients.rs"]
mod clients;
#[path = "interop/early.rs"]
mod early;
#[path = "interop/go.rs"]
mod go;
#[path = "interop/servers.rs"]
mod servers;
mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use support::*;
use thalweg_tls::bind::{Profile, Shared};
use thalweg_tls::engine::{Accepting, Connected, Connecting, Connection, Event, Step};
use thalweg_tls::select::Selection;
use thalweg_tls::server::{ServerContext, ServerProfile};
use thalweg_tls::verify::{ClientPolicy, Code, Verify};
use thalweg_tls::x509::make::{MadeKey, NewKey};
use thalweg_tls::{Failure, pem};

/// How long a program that hangs is waited for. Far more than any of this takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: there is no {program} command");
    }
    found
}

/// The clock of the tests stands where the other program's is: they compare certificates with the real time.
fn real_clock() -> Arc<thalweg_tls::FixedClock> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Arc::new(thalweg_tls::FixedClock::at(now.as_secs()))
}

fn template(name: &str) -> thalweg_tls::x509::make::Template {
    let mut template = support::template(name);
    template.not_before = 1_700_000_000;
    template.not_after = 4_000_000_000;
    template
}

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("thalweg-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A blocking end of a connection.
struct End {
    stream: TcpStream,
    connection: Connection,
    input: Vec<u8>,
}

impl End {
    fn new(stream: TcpStream, connected: Connected) -> (End, thalweg_tls::facts::Facts) {
        (End { stream, connection: connected.connection, input: connected.rest }, connected.facts)
    }

    /// The next plaintext; empty at the end that the peer told.
    fn read(&mut self) -> Result<Vec<u8>, Failure> {
        loop {
            if let Some(plain) = self.read_record()? {
                return Ok(plain);
            }
        }
    }

    /// What the next record carries; None when it is nothing for us.
    fn read_record(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            if let Some(opened) = self.connection.open(&mut self.input)? {
                let plain = match &opened.event {
                    Event::Data(range) => Some(self.input[range.clone()].to_vec()),
                    Event::Closed => Some(Vec::new()),
                    Event::Nothing | Event::KeyUpdate => None,
                };
                self.input.drain(..opened.consumed);
                let mut reply = [0; 128];
                let length = self.connection.reply(&mut reply);
                self.stream.write_all(&reply[..length]).unwrap();
                return Ok(plain);
            }
            let mut bytes = [0; 20_000];
            match self.stream.read(&mut bytes) {
                Ok(0) | Err(_) => return Err(Failure::Closed),
                Ok(count) => self.input.extend_from_slice(&bytes[..count]),
            }
        }
    }

    fn read_until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        while !all.windows(end.len()).any(|window| window == end) {
            let more = self.read().unwrap();
            assert!(!more.is_empty(), "the end came before {:?}", String::from_utf8_lossy(end));
            all.extend(more);
        }
        all
    }

    fn write(&mut self, pieces: &[&[u8]]) {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut out = vec![0; self.connection.sealed_length(total, 16384) + 256];
        let sealed = self.connection.seal(pieces, 16384, &mut out).unwrap();
        assert_eq!(sealed.taken, total);
        self.stream.write_all(&out[..sealed.written]).unwrap();
    }

    fn close(&mut self) {
        let mut out = [0; 128];
        let length = self.connection.close(&mut out).unwrap();
        let _ = self.stream.write_all(&out[..length]);
    }
}

fn accept(
    listener: &TcpListener,
    selection: &Arc<Selection>,
) -> Result<(End, thalweg_tls::facts::Facts), Failure> {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut accepting = Accepting::new(selection.clone());
    let mut out = Vec::new();
    let result = loop {
        let mut bytes = [0; 4096];
        let count = match stream.read(&mut bytes) {
            Ok(0) | Err(_) => break Err(Failure::Closed),
            Ok(count) => count,
        };
        let mut step = accepting.feed(&bytes[..count], &mut out).map(|()| Step::More);
        while matches!(step, Ok(Step::More)) && accepting.is_ready() {
            step = accepting.step(&mut out);
        }
        let _ = stream.write_all(&out);
        out.clear();
        match step {
            Ok(Step::More) => {}
            Ok(Step::Done) => break accepting.finish(&mut out),
            Err(failure) => break Err(failure),
        }
    };
    result.map(|connected| End::new(stream, connected))
}

fn connect(
    port: u16,
    context: &Arc<ServerContext>,
    name: &str,
) -> Result<(End, thalweg_tls::facts::Facts), Failure> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut connecting = Connecting::new(context.clone(), Some(name.as_bytes()), None)?;
    let mut out = Vec::new();
    loop {
        let mut step = Ok(Step::More);
        while matches!(step, Ok(Step::More)) && connecting.is_ready() {
            step = connecting.step(&mut out);
        }
        let _ = stream.write_all(&out);
        out.clear();
        match step {
            Ok(Step::More) => {}
            Ok(Step::Done) => return connecting.finish().map(|connected| End::new(stream, connected)),
            Err(failure) => return Err(failure),
        }
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => return Err(Failure::Closed),
            Ok(count) => connecting.feed(&bytes[..count])?,
        }
    }
}

fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Runs a client program against our server, which answers each connection with one response, and gives what the program
/// said and what we saw.
fn clients(
    selection: &Arc<Selection>,
    commands: Vec<Command>,
) -> Vec<(Output, Result<thalweg_tls::facts::Facts, Failure>)> {
    let mut results = Vec::new();
    for mut command in commands {
        let (listener, address) = listen();
        let selection = selection.clone();
        let server = std::thread::spawn(move || {
            let (mut end, facts) = accept(&listener, &selection)?;
            let request = end.read_until(b"\r\n\r\n");
            assert!(request.starts_with(b"GET "));
            end.write(&[b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n", b"hello"]);
            end.close();
            Ok(facts)
        });
        let port = address.rsplit(':').next().unwrap().to_owned();
        let replaced: Vec<String> = command
            .get_args()
            .map(|argument| argument.to_str().unwrap().replace("ADDRESS", &address).replace("PORT", &port))
            .collect();
        command = {
            let mut fresh = Command::new(command.get_program());
            fresh.args(replaced);
            fresh
        };
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let _ = stdin.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        let facts = server.join().unwrap();
        drop(stdin);
        results.push((child.wait_with_output().unwrap(), facts));
    }
    results
}

fn s_client(arguments: &str) -> Command {
    let mut command = Command::new("openssl");
    command.args("s_client -connect ADDRESS -ign_eof".split(' ')).args(arguments.split_whitespace());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn openssl_as_a_client() {
    if !has("openssl") {
        return;
    }
    let (clock, authority) = (real_clock(), Authority::with(template("Root").ca(None), None));
    let directory = Directory::new("s_client");
    let ca = directory.write("ca.pem", &authority.pem());
    let issue = |name: &str, kind| credential(name, &authority.issue(&template(name).hosts(&[name]), kind));
    let served = [issue("rsa.example.com", NewKey::Rsa2048), issue("ec.example.com", NewKey::P384)];
    let profile = Profile { alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()], ..Profile::default() };
    let selection = bind(&profile, shared(&clock), &[&served[0], &served[1]]);
    let session = directory.0.join("session").to_str().unwrap().to_owned();
    let trusting = format!("-CAfile {ca} -verify_return_error");
    let cases = [
        format!("{trusting} -servername rsa.example.com -tls1_2"),
        format!("{trusting} -servername ec.example.com -tls1_3 -alpn http/1.1"),
        format!("{trusting} -servername ec.example.com -tls1_2 -cipher ECDHE-ECDSA-CHACHA20-POLY1305"),
        format!(
            "{trusting} -servername rsa.example.com -tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256 -curves P-384"
        ),
        format!(
            "{trusting} -servername rsa.example.com -tls1_3 -ciphersuites TLS_AES_128_GCM_SHA256 -curves P-521"
        ),
        format!("{trusting} -servername nobody.example.com -tls1_3"),
        // A hello in records of 32 bytes.
        format!("{trusting} -servername rsa.example.com -max_send_frag 512 -tls1_2"),
        format!("-servername rsa.example.com -tls1_2 -sess_out {session}"),
        format!("-servername rsa.example.com -tls1_2 -sess_in {session}"),
        format!("-servername rsa.example.com -tls1_3 -sess_out {session}"),
        format!("-servername rsa.example.com -tls1_3 -sess_in {session}"),
    ];
    let expected = [
        ("TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384", "X25519", false),
        ("TLSv1.3", "TLS_AES_256_GCM_SHA384", "X25519", false),
        ("TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305", "X25519", false),
        ("TLSv1.2", "ECDHE-RSA-AES128-GCM-SHA256", "secp384r1", false),
        ("TLSv1.3", "TLS_AES_128_GCM_SHA256", "secp521r1", false),
        ("TLSv1.3", "TLS_AES_256_GCM_SHA384", "X25519", false),
        ("TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384", "X25519", false),
        ("TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384", "X25519", false),
        ("TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384", "X25519", true),
        ("TLSv1.3", "TLS_AES_256_GCM_SHA384", "X25519", false),
        ("TLSv1.3", "TLS_AES_256_GCM_SHA384", "X25519", true),
    ];
    for ((case, expected), (output, facts)) in
        cases.iter().zip(expected).zip(clients(&selection, cases.iter().map(|case| s_client(case)).collect()))
    {
        let facts = facts.unwrap_or_else(|failure| panic!("{case}: {failure}\n{}", text(&output)));
        let said = text(&output);
        assert!(said.contains("hello"), "{case}: {said}");
        let (protocol, cipher, curve, resumed) = expected;
        assert_eq!(
            (facts.protocol(), facts.cipher_name(), facts.resumed),
            (protocol, cipher, resumed),
            "{case}"
        );
        if !resumed || protocol == "TLSv1.3" {
            assert_eq!(facts.curve(), curve, "{case}");
        }
        assert_eq!(facts.alpn.is_some(), case.contains("-alpn"), "{case}");
        let name = if case.contains("ec.") { "/CN=ec.example.com" } else { "/CN=rsa.example.com" };
        assert_eq!(facts.own.unwrap().subject_oneline(), name.as_bytes(), "{case}");
    }
}

#[test]
fn openssl_as_a_client_that_is_refused() {
    if !has("openssl") {
        return;
    }
    let clock = real_clock();
    let authority = Authority::with(template("Root").ca(None), None);
    let stranger = Authority::with(template("Stranger").ca(None), None);
    let directory = Directory::new("refused");
    let own = |authority: &Authority| authority.issue(&template("client"), NewKey::P256);
    let good = directory.write("good.pem", &own(&authority));
    let unknown = directory.write("unknown.pem", &own(&stranger));
    let served =
        credential("a", &authority.issue(&template("a.example.com").hosts(&["a.example.com"]), NewKey::P256));
    let client = ClientPolicy {
        verify: Verify::Required,
        trust: authority.store(),
        names: vec![authority.name.clone()],
        ..Profile::default().client
    };
    let selection = bind(&Profile { client, ..Profile::default() }, shared(&clock), &[&served]);
    for version in ["-tls1_2", "-tls1_3"] {
        let cases = [
            s_client(&format!("{version} -cert {good} -key {good}")),
            s_client(&format!("{version} -cert {unknown} -key {unknown}")),
            s_client(version),
        ];
        let results = clients(&selection, cases.into());
        let facts = results[0].1.as_ref().unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(facts.peer[0].subject_oneline(), b"/CN=client");
        assert!(text(&results[0].0).contains("hello"));
        let Err(Failure::Certificate { code: Code::NO_LOCAL_ISSUER, leaf: true }) = results[1].1 else {
            panic!("{version}: {:?}", results[1].1)
        };
        assert!(text(&results[1].0).contains("alert unknown ca"), "{}", text(&results[1].0));
        assert_eq!(results[2].1.as_ref().unwrap_err().reason(), 199);
        assert!(text(&results[2].0).contains("alert"), "{}", text(&results[2].0));
    }
    // Nothing in common: old versions and ciphers.
    let selection = bind(&Profile::default(), shared(&clock), &[&served]);
    let old = ["-tls1_1 -cipher ALL@SECLEVEL=0", "-tls1_2 -cipher AES128-SHA@SECLEVEL=0"].map(s_client);
    for (output, facts) in clients(&selection, old.into()) {
        assert!(facts.is_err());
        assert!(
            text(&output).contains("alert") || text(&output).contains("no protocols"),
            "{}",
            text(&output)
        );
    }
}

#[test]
fn a_client_renegotiates_and_updates_its_keys() {
    if !has("openssl") {
        return;
    }
    let (clock, authority) = (real_clock(), Authority::with(template("Root").ca(None), None));
    let served = credential("a", &authority.issue(&template("a"), NewKey::P256));
    let selection = bind(&Profile::default(), shared(&clock), &[&served]);
    // "R" asks for a renegotiation, "K" updates the keys and asks for ours.
    for (version, commands) in [("-tls1_3", &["K\n", "k\n", "K\n"][..]), ("-tls1_2", &["R\n"][..])] {
        let (listener, address) = listen();
        let mut child = Command::new("openssl")
            .args(["s_client", "-connect", &address, version])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let (mut end, _) = accept(&listener, &selection).unwrap();
        for (number, command) in commands.iter().enumerate() {
            // s_client takes a command only when it stands alone in what it reads, so wait for what came before.
            stdin.write_all(format!("line {number}\n").as_bytes()).unwrap();
            assert_eq!(end.read_until(b"\n"), format!("line {number}\n").into_bytes());
            end.write(&[b"ok\n"]);
            stdin.write_all(command.as_bytes()).unwrap();
            stdin.flush().unwrap();
            if version == "-tls1_2" {
                // The refusal is a warning: OpenSSL ends the connection for it, with an alert or without.
                while end.read().is_ok_and(|plain| !plain.is_empty()) {}
                continue;
            }
            assert_eq!(end.read_record().unwrap(), None, "a key update");
        }
        if version == "-tls1_3" {
            stdin.write_all(b"last\n").unwrap();
            assert_eq!(end.read_until(b"\n"), b"last\n");
            end.write(&[b"bye\n"]);
        }
        end.close();
        drop(end);
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let said = text(&output);
        match version {
            "-tls1_3" => assert!(said.contains("bye"), "{said}"),
            _ => assert!(said.contains("no renegotiation") || said.contains("RENEGOTIATING"), "{said}"),
        }
    }
}

/// `openssl s_server`, or a program that speaks like it, on a port of the kernel's choice.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// One that answers as an HTTP server would.
    fn start(directory: &Path, arguments: &str) -> Server {
        Server::start_as(directory, &format!("-www {arguments}"))
    }

    fn start_as(directory: &Path, arguments: &str) -> Server {
        let mut command = Command::new("openssl");
        command.args(["s_server", "-accept", "127.0.0.1:0"]).args(arguments.split_whitespace());
        Server::spawned(command.current_dir(directory))
    }

    fn spawned(command: &mut Command) -> Server {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        // It says "ACCEPT 127.0.0.1:40123" once it listens.
        let mut said = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        let port = loop {
            let mut bytes = [0; 256];
            let count = stdout.read(&mut bytes).unwrap();
            assert!(count > 0, "the server ended: {said}");
            said.push_str(&String::from_utf8_lossy(&bytes[..count]));
            let line = said.lines().find_map(|line| line.strip_prefix("ACCEPT "));
            if let (Some(line), true) = (line, said.ends_with('\n')) {
                break line.rsplit(':').next().unwrap().trim().parse().unwrap();
            }
        };
        Server { child, port }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn openssl_as_a_server() {
    if !has("openssl") {
        return;
    }
    let (clock, authority) = (real_clock(), Authority::with(template("Root").ca(None), None));
    let stranger = Authority::with(template("Stranger").ca(None), None);
    let directory = Directory::new("s_server");
    directory.write("ca.pem", &authority.pem());
    directory.write("rsa.pem", &authority.issue(&template("rsa").hosts(&["a.example.com"]), NewKey::Rsa2048));
    directory.write("ec.pem", &authority.issue(&template("ec").hosts(&["a.example.com"]), NewKey::P256));
    let own = credential("own", &authority.issue(&template("client"), NewKey::P256));
    let profile = ServerProfile { own: Some(own), ..trusting(&authority) };
    let get = |server: &Server, context: &Arc<ServerContext>| {
        let (mut end, facts) = connect(server.port, context, "a.example.com")?;
        end.write(&[b"GET / HTTP/1.0\r\n", b"\r\n"]);
        let answer = end.read_until(b"</BODY>");
        assert!(answer.starts_with(b"HTTP/1.0 200 ok"));
        Ok::<_, Failure>(facts)
    };
    for (arguments, protocol, cipher) in [
        ("-cert rsa.pem -tls1_2", "TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("-cert ec.pem -tls1_3", "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
        (
            "-cert ec.pem -tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256",
            "TLSv1.2",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ),
        ("-cert ec.pem -tls1_2 -no_ticket", "TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        (
            "-cert rsa.pem -tls1_3 -ciphersuites TLS_CHACHA20_POLY1305_SHA256",
            "TLSv1.3",
            "TLS_CHACHA20_POLY1305_SHA256",
        ),
        ("-cert rsa.pem -tls1_3 -curves P-521", "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
        (
            "-cert rsa.pem -Verify 3 -CAfile ca.pem -verify_return_error -tls1_2",
            "TLSv1.2",
            "ECDHE-RSA-AES256-GCM-SHA384",
        ),
        (
            "-cert rsa.pem -Verify 3 -CAfile ca.pem -verify_return_error -tls1_3",
            "TLSv1.3",
            "TLS_AES_256_GCM_SHA384",
        ),
    ] {
        let server = Server::start(&directory.0, arguments);
        let context = support::server(&profile, &clock);
        let facts = get(&server, &context).unwrap_or_else(|failure| panic!("{arguments}: {failure}"));
        assert_eq!((facts.protocol(), facts.cipher_name()), (protocol, cipher), "{arguments}");
        assert!(!facts.resumed);
        assert!(get(&server, &context).unwrap().resumed, "{arguments}: the second time");
        let unknown = support::server(&trusting(&stranger), &clock);
        let Err(Failure::Certificate { code, .. }) = get(&server, &unknown) else { panic!("{arguments}") };
        // With `-CAfile` it sends the root, too.
        let sends_root = arguments.contains("-CAfile");
        assert_eq!(code, if sends_root { Code::SELF_SIGNED_IN_CHAIN } else { Code::NO_LOCAL_ISSUER });
    }
}

/// The digest is not the one that goes with the curve, and fills only a part of what is signed.
#[test]
fn openssl_verifies_what_authorities_on_p384_sign() {
    if !has("openssl") {
        return;
    }
    let directory = Directory::new("p384");
    let key = MadeKey::generate(NewKey::P384).unwrap();
    let authority = template("Root").ca(None);
    let pem = |der: Vec<u8>| pem::encode("CERTIFICATE", &der);
    directory.write("ca.pem", &pem(authority.sign(&key, &authority.subject, &key).unwrap()));
    for round in 0..8 {
        let name = format!("{round}.example.com");
        directory.write("leaf.pem", &pem(template(&name).sign(&key, &authority.subject, &key).unwrap()));
        let verify = "verify -CAfile ca.pem leaf.pem".split(' ');
        let output = Command::new("openssl").args(verify).current_dir(&directory.0).output().unwrap();
        assert!(text(&output).starts_with("leaf.pem: OK"), "{}", text(&output));
        let show = "x509 -noout -text -in leaf.pem".split(' ');
        let output = Command::new("openssl").args(show).current_dir(&directory.0).output().unwrap();
        assert!(text(&output).contains("Signature Algorithm: ecdsa-with-SHA256"), "{}", text(&output));
    }
}

#[test]
fn an_ocsp_response_is_stapled() {
    if !has("openssl") {
        return;
    }
    let (clock, authority) = (real_clock(), Authority::with(template("Root").ca(None), None));
    let other = Authority::with(template("Root").ca(None), None);
    let directory = Directory::new("ocsp");
    let issued = authority.issue(&template("a").hosts(&["a"]), NewKey::P256);
    let credential = credential("a.pem", &issued);
    let serial: String = credential.leaf().serial_digits().iter().map(|byte| format!("{byte:02X}")).collect();
    directory.write("leaf.pem", &issued);
    let sign = |by: &Authority, status: &str| {
        directory.write("ca.pem", &by.pem());
        directory.write("ca.key", &pem::encode("PRIVATE KEY", by.key.pkcs8()));
        let (revoked, letter) = if status == "revoked" { ("250101000000Z", "R") } else { ("", "V") };
        directory.write("index", &format!("{letter}\t960101000000Z\t{revoked}\t{serial}\tunknown\t/CN=a\n"));
        let output = Command::new("openssl")
            .args(
                "ocsp -index index -rsigner ca.pem -rkey ca.key -CA ca.pem -issuer ca.pem -cert leaf.pem"
                    .split(' '),
            )
            .args("-respout response -ndays 7 -no_nonce".split(' '))
            .current_dir(&directory.0)
            .output()
            .unwrap();
        std::fs::read(directory.0.join("response")).unwrap_or_else(|_| panic!("{}", text(&output)))
    };
    use thalweg_tls::ocsp::{OcspError, OcspResponse, Status};
    let response = OcspResponse::read(&sign(&authority, "good")).unwrap();
    let issuer = Some(&*authority.certificate);
    assert_eq!((response.status, response.check(credential.leaf(), issuer)), (Status::Good, Ok(())));
    assert_eq!(response.check(credential.leaf(), None), Err(OcspError::NoIssuer));
    assert_eq!(response.check(&authority.certificate, issuer), Err(OcspError::OtherCertificate));
    let now = thalweg_tls::Clock::now(&*clock) as i64;
    assert!(response.is_in_force(now) && !response.is_in_force(now + 8 * 86_400));
    let revoked = OcspResponse::read(&sign(&authority, "revoked")).unwrap();
    assert_eq!((revoked.status, revoked.check(credential.leaf(), issuer)), (Status::Revoked, Ok(())));
    let printed = |response: &OcspResponse| {
        std::fs::write(directory.0.join("printed"), response.der()).unwrap();
        let output = Command::new("openssl")
            .args("ocsp -respin printed -resp_text -noverify".split(' '))
            .current_dir(&directory.0)
            .output()
            .unwrap();
        text(&output)
    };
    for response in [&response, &revoked] {
        let printed = printed(response);
        assert!(printed.starts_with(&response.text()), "{printed}\n{}", response.text());
    }
    // Somebody else with the same name.
    let forged = OcspResponse::read(&sign(&other, "good")).unwrap();
    assert_ne!(forged.check(credential.leaf(), issuer), Ok(()));
    for at in 0..150 {
        let mut changed = response.der().to_vec();
        changed[at] ^= 1;
        let read = OcspResponse::read(&changed);
        assert!(read.map_or(true, |one| one.check(credential.leaf(), issuer).is_err()), "byte {at}");
    }

    // What a responder is asked is what openssl asks.
    let id = thalweg_tls::ocsp::CertificateId::of(credential.leaf(), &authority.certificate);
    sign(&authority, "good");
    let output = Command::new("openssl")
        .args("ocsp -issuer ca.pem -cert leaf.pem -no_nonce -reqout request".split(' '))
        .current_dir(&directory.0)
        .output()
        .unwrap();
    let request = std::fs::read(directory.0.join("request")).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert_eq!(id.request(), request);

    credential.set_ocsp(Some(Arc::new(response)));
    let selection = bind(&Profile::default(), shared(&clock), &[&credential]);
    for version in ["-tls1_2", "-tls1_3"] {
        let results = clients(&selection, vec![s_client(&format!("{version} -status"))]);
        assert!(text(&results[0].0).contains("Cert Status: good"), "{}", text(&results[0].0));
    }
    // Not when its time is over, without anybody doing anything.
    clock.set(now as u64 + 8 * 86_400);
    let results = clients(&selection, vec![s_client("-tls1_3 -status")]);
    assert!(text(&results[0].0).contains("OCSP response: no response sent"), "{}", text(&results[0].0));
}

#[test]
fn fields_of_a_certificate_are_what_openssl_prints() {
    if !has("openssl") {
        return;
    }
    use thalweg_tls::x509::make::name;
    use thalweg_tls::x509::{Certificate, oid};
    let authority = Authority::with(template("Root").ca(None), None);
    let directory = Directory::new("fields");
    let attributes: [(&[u8], &str); 9] = [
        (b"\x55\x04\x06", "FR"),
        (b"\x55\x04\x08", "Île/de+France, \"x\""),
        (b"\x55\x04\x0a", "A=B;<C>#\\"),
        (b"\x55\x04\x0b", "one"),
        (b"\x55\x04\x0b", "two"),
        (oid::COMMON_NAME, " lead trail "),
        (oid::EMAIL_ADDRESS, "me@x.org"),
        (b"\x53\x04\x05", "foo"),
        (b"\x55\x04\x05", "#1"),
    ];
    let mut odd = template("x").hosts(&["a.example.com", "b"]);
    odd.subject = name(&attributes);
    odd.serial = vec![0x80, 0xff, 0x01, 0x23];
    odd.not_after = 5_000_000_000;
    let text_of = authority.issue(&odd, NewKey::Rsa2048);
    let block = pem::blocks(text_of.as_bytes()).unwrap().remove(0);
    let certificate = Certificate::parse(&block.der).unwrap();
    directory.write("odd.pem", &text_of);
    let openssl = |arguments: &str| {
        let output = Command::new("openssl")
            .args("x509 -noout -in odd.pem".split(' '))
            .args(arguments.split(' '))
            .current_dir(&directory.0)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    let rfc2253 = thalweg_tls::x509::name::rfc2253(certificate.subject());
    assert_eq!(format!("subject={rfc2253}"), openssl("-subject -nameopt RFC2253"));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    assert_eq!(format!("serial={}", hex(certificate.serial_digits())), openssl("-serial"));
    assert_eq!(
        hex(&certificate.sha1()),
        openssl("-fingerprint -sha1").split('=').next_back().unwrap().replace(':', "")
    );
    let ends = thalweg_tls::x509::time::openssl(certificate.not_after);
    assert_eq!(format!("notAfter={ends}"), openssl("-enddate"));
    assert!(openssl("-ext subjectAltName").ends_with(&thalweg_tls::facts::alternative_names(&certificate)));
    assert_eq!(certificate.key_size(), 2048);
    // What the reference's fetches printed for such a name.
    let oneline = certificate.subject_oneline();
    assert_eq!(
        String::from_utf8(oneline).unwrap(),
        "/C=FR/ST=Île/de+France, \"x\"/O=A=B;<C>#\\/OU=one/OU=two/CN= lead trail /emailAddress=me@x.org/2.3.4.5=foo\
         /serialNumber=#1"
    );
    assert_eq!(certificate.not_after_short(), b"280611085320Z", "{:?}", ends);
}

#[test]
fn a_truncated_end_is_no_end() {
    let clock = real_clock();
    let authority = Authority::with(template("Root").ca(None), None);
    let served = credential("a", &authority.issue(&template("a").hosts(&["a.example.com"]), NewKey::P256));
    let shared: Shared = shared(&clock);
    let selection = bind(&Profile::default(), shared, &[&served]);
    let (listener, address) = listen();
    let port = address.rsplit(':').next().unwrap().parse().unwrap();
    let context = support::server(&trusting(&authority), &clock);
    let client = std::thread::spawn(move || {
        let (mut end, _) = connect(port, &context, "a.example.com").unwrap();
        end.write(&[b"half of it"]);
        // Gone without a word.
    });
    let (mut end, _) = accept(&listener, &selection).unwrap();
    assert_eq!(end.read().unwrap(), b"half of it");
    assert!(matches!(end.read(), Err(Failure::Closed)));
    client.join().unwrap();
    assert!(pem::blocks(authority.pem().as_bytes()).is_ok());
}
