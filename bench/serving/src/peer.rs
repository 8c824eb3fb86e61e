//! The programs that are compared, their configurations, and the origins behind them.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::machine::{BOTH_CORES, LOAD_CORE, PROXY_CORE, pinned};

/// Ports of the origins.
pub const ORIGIN_PORTS: [u16; 2] = [18090, 18089];
/// Port on which the first origin speaks HTTP/2.
pub const ORIGIN_H2_PORT: u16 = 18088;
/// Port of the first subject; the others follow.
pub const PROXY_PORT: u16 = 18092;
/// Port that swallows log datagrams.
pub const LOG_PORT: u16 = 18091;
/// Loopback addresses that a subject listens on when many connections are held: each has its own 28,000 ports at the
/// other end.
pub const MEMORY_ADDRESSES: usize = 8;

/// The program of that name, if it is installed.
pub fn in_path(name: &str) -> Option<PathBuf> {
    std::env::var_os("PATH")
        .map(|paths| std::env::split_paths(&paths).collect::<Vec<_>>())
        .unwrap_or_default()
        .into_iter()
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")])
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
}

/// A program under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Ours, with one of its I/O drivers.
    Thalweg { program: PathBuf, driver: &'static str, label: &'static str },
    /// The reference.
    Haproxy(PathBuf),
    /// nginx as a proxy.
    Nginx(PathBuf),
}

impl Subject {
    /// As written in the results.
    pub fn name(&self) -> String {
        match self {
            Subject::Thalweg { driver, label, .. } => format!("{label}-{driver}"),
            Subject::Haproxy(_) => "haproxy".into(),
            Subject::Nginx(_) => "nginx".into(),
        }
    }

    /// Whether its figures are the ones the ratios are about.
    pub fn is_ours(&self) -> bool {
        matches!(self, Subject::Thalweg { .. })
    }
}

/// What a proxy is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Threads.
    pub threads: usize,
    /// httplog to a UDP socket, and twenty rules.
    pub log_and_rules: bool,
    /// `option splice-auto`.
    pub splice: bool,
    /// It listens on [`MEMORY_ADDRESSES`] and allows that many connections.
    pub connections: usize,
    /// Two checked servers with redispatching rather than one.
    pub failover: bool,
    /// Each request is tracked in a stick table with four counters (not by nginx).
    pub tracked: Option<Tracked>,
    /// TLS with clients, and the key of the certificate.
    pub tls: Option<Key>,
    /// Clients speak HTTP/2.
    pub h2_clients: bool,
    /// So does the server.
    pub h2_servers: bool,
    /// More lines of the `global` section.
    pub global: &'static str,
}

/// By what requests are tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracked {
    /// The client's address: all have one.
    Source,
    /// One of a million numbers.
    Million,
}

impl Tracked {
    /// The rule, and the section of the table.
    fn lines(self) -> (String, String) {
        let (key, kind) = match self {
            Tracked::Source => ("src", "ip"),
            Tracked::Million => ("rand(1000000)", "integer"),
        };
        let table = format!(
            "\nbackend counted\n    stick-table type {kind} size 1m expire 1m store \
             conn_cur,http_req_cnt,http_req_rate(10s),bytes_out_rate(10s)\n"
        );
        (format!("    http-request track-sc0 {key} table counted\n"), table)
    }
}

/// The key of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// ECDSA on P-256.
    Ecdsa,
    /// RSA with 2048 bits.
    Rsa,
}

impl Key {
    /// The file with certificate and key, in PEM.
    fn file(self, dir: &Path) -> PathBuf {
        dir.join(if self == Key::Ecdsa { "ecdsa.pem" } else { "rsa.pem" })
    }
}

/// Makes certificate and key of each kind, with OpenSSL's command.
///
/// # Errors
/// When there is no such command.
pub fn make_certificates(dir: &Path) -> io::Result<()> {
    for (key, options) in [(Key::Ecdsa, "ec -pkeyopt ec_paramgen_curve:P-256"), (Key::Rsa, "rsa:2048")] {
        let file = key.file(dir);
        let output = Command::new("openssl")
            .args("req -x509 -nodes -days 30 -subj /CN=bench.example -newkey".split(' '))
            .args(options.split(' '))
            .args(["-keyout", "/dev/stdout", "-out", "/dev/stdout"])
            .output()?;
        fs::write(file, output.stdout)?;
    }
    Ok(())
}

impl Setup {
    /// One thread, one server, nothing else.
    pub const PLAIN: Setup = Setup {
        threads: 1,
        log_and_rules: false,
        splice: false,
        connections: 6000,
        failover: false,
        tracked: None,
        tls: None,
        h2_clients: false,
        h2_servers: false,
        global: "",
    };
}

const RULES: &str = "    acl is_api path_beg /api/
    acl is_static path_end .css .js .png
    acl is_post method POST
    acl from_inside src 10.0.0.0/8 192.168.0.0/16
    acl is_bot hdr_sub(user-agent) -i crawler spider
    http-request deny if { path_sub ../ }
    http-request deny if is_bot
    http-request set-header X-Forwarded-Proto http
    http-request set-header X-Request-Start t=%[date]
    http-request del-header Proxy
    http-request add-header X-Inside yes if from_inside
    http-request set-var(txn.host) req.hdr(host),lower
    http-request deny if is_post { req.hdr_cnt(content-length) gt 1 }
    http-request redirect code 301 prefix https://www.example.com if { var(txn.host) -m str old.example.com }
    http-response set-header X-Frame-Options DENY
    http-response set-header X-Content-Type-Options nosniff
    http-response set-header X-Host %[var(txn.host)]
    http-response del-header Server
    use_backend origin if is_api or is_static
";

fn haproxy_config(dir: &Path, setup: Setup, port: u16, driver: &str) -> String {
    let protocol = if setup.h2_clients { "h2" } else { "http/1.1" };
    let tls = setup
        .tls
        .map_or(String::new(), |key| format!(" ssl crt {} alpn {protocol}", key.file(dir).display()));
    let (log, httplog, rules) = match setup.log_and_rules {
        true => {
            (format!("    log 127.0.0.1:{LOG_PORT} local0\n"), "    log global\n    option httplog\n", RULES)
        }
        false => (String::new(), "", ""),
    };
    let splice = if setup.splice { "    option splice-auto\n" } else { "" };
    let binds = match setup.connections > Setup::PLAIN.connections {
        true => (1..=MEMORY_ADDRESSES).map(|i| format!("127.0.0.{i}:{port}")).collect::<Vec<_>>().join(","),
        false => format!("127.0.0.1:{port}"),
    };
    let servers = match setup.failover {
        true => ORIGIN_PORTS
            .iter()
            .enumerate()
            .map(|(i, port)| format!("    server o{i} 127.0.0.1:{port} check inter 200ms fall 2 rise 1\n"))
            .collect::<String>(),
        false if setup.h2_servers => format!("    server o1 127.0.0.1:{ORIGIN_H2_PORT} proto h2\n"),
        false => format!("    server o1 127.0.0.1:{}\n", ORIGIN_PORTS[0]),
    };
    let (track, table) = setup.tracked.map(Tracked::lines).unwrap_or_default();
    let redispatch = if setup.failover { "    option redispatch 1\n    retries 3\n" } else { "" };
    format!(
        "global\n    maxconn {}\n    nbthread {}\n{driver}{}{log}\ndefaults\n    mode http\n    timeout connect 5s\n    \
         timeout client 60s\n    timeout server 60s\n{httplog}{splice}{redispatch}\nfrontend www\n    bind {binds}{tls}\n{track}{rules}    \
         default_backend origin\n\nbackend origin\n    balance roundrobin\n{servers}{table}",
        setup.connections, setup.threads, setup.global,
    )
}

fn nginx_config(dir: &Path, setup: Setup, port: u16) -> String {
    let log = if setup.log_and_rules {
        format!("access_log syslog:server=127.0.0.1:{LOG_PORT} combined;")
    } else {
        "access_log off;".into()
    };
    let ssl = if setup.tls.is_some() { "ssl " } else { "" };
    let http2 = if setup.h2_clients { "http2 " } else { "" };
    let mut listen = match setup.connections > Setup::PLAIN.connections {
        true => (1..=MEMORY_ADDRESSES)
            .map(|i| format!("listen 127.0.0.{i}:{port} {ssl}{http2}backlog=4096; "))
            .collect(),
        false => format!("listen 127.0.0.1:{port} {ssl}{http2}backlog=4096; "),
    };
    if let Some(key) = setup.tls {
        let file = key.file(dir);
        let file = file.display();
        listen.push_str(&format!(
            "ssl_certificate {file}; ssl_certificate_key {file}; ssl_protocols TLSv1.2 TLSv1.3; "
        ));
    }
    let second =
        if setup.failover { format!("server 127.0.0.1:{}; ", ORIGIN_PORTS[1]) } else { String::new() };
    format!(
        "daemon off; worker_processes {}; worker_rlimit_nofile {files}; pid {dir}/nginx-proxy.pid; error_log /dev/null crit;\n\
         events {{ worker_connections {files}; }}\n\
         http {{ {log} keepalive_requests 1000000000; client_max_body_size 0;\n\
         client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;\n\
         upstream o {{ server 127.0.0.1:{}; {second}keepalive 2000; keepalive_requests 1000000000; }}\n\
         server {{ {listen}location / {{ proxy_pass http://o; proxy_http_version 1.1; proxy_request_buffering off; proxy_set_header Connection \"\"; }} }} }}\n",
        setup.threads,
        ORIGIN_PORTS[0],
        files = setup.connections * 2 + 1000,
        dir = dir.display(),
    )
}

/// A running program; killed when dropped.
pub struct Running {
    child: Child,
    /// The processes that do the work.
    pub pids: Vec<u32>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Either call fails only when the process is gone already.
        let _ = Command::new("kill").arg(self.child.id().to_string()).stderr(Stdio::null()).status();
        let deadline = Instant::now() + Duration::from_millis(500);
        while Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a proxy on `port` and waits until it accepts. With one thread it has a core to itself.
///
/// # Errors
/// When it cannot be started or ends at once.
pub fn start(subject: &Subject, setup: Setup, port: u16, dir: &Path) -> io::Result<Running> {
    let cores = if setup.threads == 1 { PROXY_CORE } else { BOTH_CORES };
    let config = dir.join(format!("proxy-{port}.cfg"));
    let mut command;
    match subject {
        Subject::Thalweg { program, driver, .. } => {
            fs::write(&config, haproxy_config(dir, setup, port, &format!("    tune.io.driver {driver}\n")))?;
            command = pinned(cores, program);
            command.arg("-f").arg(&config);
        }
        Subject::Haproxy(program) => {
            fs::write(&config, haproxy_config(dir, setup, port, ""))?;
            command = pinned(cores, program);
            command.args(["-db", "-f"]).arg(&config);
        }
        Subject::Nginx(program) => {
            fs::write(&config, nginx_config(dir, setup, port))?;
            command = pinned(cores, program);
            command.arg("-c").arg(&config);
        }
    }
    spawn(command, port, &subject.name())
}

/// Starts an origin: 1 kB at `/`; 16 kB, 64 kB and 1 MB at `/16k`, `/64k` and `/1m`, chunked under `/chunked/`; and
/// `/post`, which reads a body before it answers.
///
/// # Errors
/// When it cannot be started or ends at once.
pub fn start_origin(nginx: &Path, dir: &Path, port: u16) -> io::Result<Running> {
    for (name, len) in [("16k", 16 << 10), ("64k", 64 << 10), ("1m", 1 << 20)] {
        fs::write(dir.join(name), vec![b'x'; len])?;
    }
    // One of them is enough for HTTP/2. An nginx of before 1.25.1 speaks nothing else on such a port.
    let framed = match port == ORIGIN_PORTS[0] {
        true => format!("listen 127.0.0.1:{ORIGIN_H2_PORT} http2 backlog=4096;"),
        false => String::new(),
    };
    let path = dir.join(format!("origin-{port}.conf"));
    fs::write(
        &path,
        format!(
            "daemon off; worker_processes 1; pid {dir}/origin-{port}.pid; error_log /dev/null crit;\n\
             events {{ worker_connections 15000; }}\n\
             http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; sendfile on; root {dir}; default_type text/plain;\n\
             client_max_body_size 0; client_body_buffer_size 1100k; proxy_buffering off;\n\
             client_body_temp_path {dir}/ob; proxy_temp_path {dir}/op; fastcgi_temp_path {dir}/of; uwsgi_temp_path {dir}/ou; scgi_temp_path {dir}/os;\n\
             upstream self {{ server 127.0.0.1:{port}; keepalive 1000; keepalive_requests 1000000000; }}\n\
             server {{ listen 127.0.0.1:{port} backlog=4096; {framed} location / {{ return 200 \"{body}\"; }}\n\
             location = /16k {{ }} location = /64k {{ }} location = /1m {{ }}\n\
             location /chunked/ {{ alias {dir}/; ssi on; ssi_types *; }}\n\
             location = /post {{ proxy_pass http://self/; proxy_method GET; proxy_pass_request_body off; proxy_http_version 1.1;\n\
             proxy_set_header Content-Length \"\"; proxy_set_header Connection \"\"; }} }} }}\n",
            dir = dir.display(),
            body = "x".repeat(crate::load::SMALL_BODY),
        ),
    )?;
    let mut command = pinned(LOAD_CORE, nginx);
    command.arg("-c").arg(path);
    spawn(command, port, "origin")
}

fn spawn(mut command: Command, port: u16, what: &str) -> io::Result<Running> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            break;
        }
        if let Some(status) = child.try_wait()? {
            return Err(io::Error::other(format!("{what} ended at start: {status}")));
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            return Err(io::Error::other(format!("{what} does not accept on port {port}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = child.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let pids = children.split_whitespace().filter_map(|p| p.parse().ok()).chain([pid]).collect();
    Ok(Running { child, pids })
}
