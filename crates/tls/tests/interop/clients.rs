//! Clients other than OpenSSL's own: curl, GnuTLS, NSS, Java.

use super::*;

#[test]
fn curl_as_a_client() {
    if !has("curl") {
        return;
    }
    let (clock, authority) = (real_clock(), Authority::with(template("Root").ca(None), None));
    let directory = Directory::new("curl");
    let ca = directory.write("ca.pem", &authority.pem());
    let served = credential("a", &authority.issue(&template("a").hosts(&["a.example.com"]), NewKey::Rsa2048));
    let selection = bind(&Profile::default(), shared(&clock), &[&served]);
    let curl = |arguments: &str| {
        let mut command = Command::new("curl");
        command
            .args(["-sS", "--http1.1", "--cacert", &ca, "--resolve", "a.example.com:PORT:127.0.0.1"])
            .args(arguments.split(' '))
            .arg("https://a.example.com:PORT/");
        command
    };
    let commands = vec![curl("--tls-max 1.2"), curl("--tlsv1.3")];
    for ((output, facts), version) in clients(&selection, commands).into_iter().zip(["TLSv1.2", "TLSv1.3"]) {
        assert_eq!(
            facts.unwrap_or_else(|failure| panic!("{failure}: {}", text(&output))).protocol(),
            version
        );
        assert_eq!(output.stdout, b"hello", "{}", text(&output));
    }
}

#[test]
fn gnutls_as_a_client() {
    if !has("gnutls-cli") {
        return;
    }
    let (clock, authority) = (real_clock(), Authority::with(template("Root").ca(None), None));
    let directory = Directory::new("gnutls");
    let ca = directory.write("ca.pem", &authority.pem());
    let served = credential("a", &authority.issue(&template("a").hosts(&["a.example.com"]), NewKey::P256));
    let selection = bind(&Profile::default(), shared(&clock), &[&served]);
    let gnutls = |priority: &str| {
        let mut command = Command::new("gnutls-cli");
        command.args(["--x509cafile", &ca, "--port", "PORT", "--sni-hostname", "a.example.com"]);
        command.args(["--verify-hostname", "a.example.com", "--priority", priority, "127.0.0.1"]);
        command
    };
    let cases = [
        ("VERS-TLS1.2", "TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("VERS-TLS1.3", "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
        ("VERS-TLS1.2:-CIPHER-ALL:+CHACHA20-POLY1305", "TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("VERS-TLS1.3:-CIPHER-ALL:+CHACHA20-POLY1305", "TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256"),
        ("VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM", "TLSv1.3", "TLS_AES_128_GCM_SHA256"),
        ("VERS-TLS1.3:-GROUP-ALL:+GROUP-SECP384R1", "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
        ("VERS-TLS1.3:-GROUP-ALL:+GROUP-SECP521R1", "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
    ];
    let commands = cases.iter().map(|(with, ..)| gnutls(&format!("NORMAL:-VERS-ALL:+{with}"))).collect();
    for ((output, facts), (with, version, cipher)) in clients(&selection, commands).into_iter().zip(cases) {
        let facts = facts.unwrap_or_else(|failure| panic!("{with}: {failure}: {}", text(&output)));
        assert_eq!((facts.protocol(), facts.cipher_name()), (version, cipher), "{with}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("hello"), "{with}: {}", text(&output));
    }
}

#[test]
fn nss_as_a_client() {
    if !has("tstclnt") || !has("certutil") {
        return;
    }
    let (clock, authority) = (real_clock(), Authority::with(template("Root").ca(None), None));
    let directory = Directory::new("nss");
    let ca = directory.write("ca.pem", &authority.pem());
    // From its standard input it would read on for ever.
    let request = directory.write("request", "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let database = format!("sql:{}", directory.0.display());
    for arguments in [&["-N", "--empty-password"][..], &["-A", "-n", "ca", "-t", "C,C,C", "-i", &ca]] {
        let made = Command::new("certutil").args(arguments).args(["-d", &database]).output().unwrap();
        assert!(made.status.success(), "{}", text(&made));
    }
    let served = credential("a", &authority.issue(&template("a").hosts(&["a.example.com"]), NewKey::P256));
    let selection = bind(&Profile::default(), shared(&clock), &[&served]);
    let cases = [
        (&["-V", "tls1.2:tls1.2"][..], "TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        (&["-V", "tls1.3:tls1.3"], "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
        (&["-V", "tls1.2:tls1.2", "-c", ":cca9"], "TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        (&["-V", "tls1.3:tls1.3", "-I", "P521"], "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
    ];
    let tstclnt = |arguments: &[&str]| {
        let mut command = Command::new("tstclnt");
        command.args([
            "-4",
            "-h",
            "127.0.0.1",
            "-p",
            "PORT",
            "-a",
            "a.example.com",
            "-d",
            &database,
            "-A",
            &request,
        ]);
        command.args(arguments);
        command
    };
    let commands = cases.iter().map(|(with, ..)| tstclnt(with)).collect();
    for ((output, facts), (with, version, cipher)) in clients(&selection, commands).into_iter().zip(cases) {
        let facts = facts.unwrap_or_else(|failure| panic!("{with:?}: {failure}: {}", text(&output)));
        assert_eq!((facts.protocol(), facts.cipher_name()), (version, cipher), "{with:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("hello"), "{with:?}: {}", text(&output));
    }
}

/// Connects with `javax.net.ssl` and prints what is answered. Arguments: port, authority, version.
const JAVA: &str = r#"
import java.io.*; import java.net.*; import java.security.*; import java.security.cert.*; import javax.net.ssl.*;
public class Client {
  public static void main(String[] arguments) throws Exception {
    KeyStore store = KeyStore.getInstance("PKCS12");
    store.load(null, null);
    store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509")
        .generateCertificate(new FileInputStream(arguments[1])));
    TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
    trust.init(store);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, trust.getTrustManagers(), null);
    Socket plain = new Socket("127.0.0.1", Integer.parseInt(arguments[0]));
    SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket(plain, "a.example.com", 443, true);
    SSLParameters parameters = socket.getSSLParameters();
    parameters.setEndpointIdentificationAlgorithm("HTTPS");
    parameters.setProtocols(new String[] {arguments[2]});
    socket.setSSLParameters(parameters);
    socket.getOutputStream().write("GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n".getBytes());
    System.out.write(socket.getInputStream().readAllBytes());
    System.out.flush();
  }
}
"#;

#[test]
fn java_as_a_client() {
    if !has("java") || !has("javac") {
        return;
    }
    let (clock, authority) = (real_clock(), Authority::with(template("Root").ca(None), None));
    let directory = Directory::new("java");
    let ca = directory.write("ca.pem", &authority.pem());
    let program = directory.write("Client.java", JAVA);
    let served = credential("a", &authority.issue(&template("a").hosts(&["a.example.com"]), NewKey::P256));
    let selection = bind(&Profile::default(), shared(&clock), &[&served]);
    let java = |version: &str| {
        let mut command = Command::new("java");
        command.args([&program, "PORT", &ca, version]);
        command
    };
    let commands = vec![java("TLSv1.2"), java("TLSv1.3")];
    for ((output, facts), version) in clients(&selection, commands).into_iter().zip(["TLSv1.2", "TLSv1.3"]) {
        let facts = facts.unwrap_or_else(|failure| panic!("{failure}: {}", text(&output)));
        assert_eq!(facts.protocol(), version);
        assert!(String::from_utf8_lossy(&output.stdout).ends_with("hello"), "{}", text(&output));
    }
}
