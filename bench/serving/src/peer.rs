//! The programs that are compared, their configurations, and the origin behind them.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Port of the origin.
pub const ORIGIN_PORT: u16 = 18090;
/// Port every proxy listens on; one runs at a time.
pub const PROXY_PORT: u16 = 18091;
/// Port that swallows log datagrams.
pub const LOG_PORT: u16 = 18092;

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
    Thalweg { program: PathBuf, driver: &'static str },
    /// The reference.
    Haproxy(PathBuf),
    /// nginx as a proxy.
    Nginx(PathBuf),
}

impl Subject {
    /// As written in the results.
    pub fn name(&self) -> String {
        match self {
            Subject::Thalweg { driver, .. } => format!("thalweg-{driver}"),
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
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup {
    /// Threads.
    pub threads: usize,
    /// httplog to a UDP socket, and ten rules.
    pub log_and_rules: bool,
    /// Close each server connection after its response too.
    pub splice: bool,
}

const RULES: &str = "    acl is_api path_beg /api/
    acl is_static path_end .css .js .png
    acl is_post method POST
    acl from_inside src 10.0.0.0/8 192.168.0.0/16
    http-request deny if { path_sub ../ }
    http-request set-header X-Forwarded-Proto http
    http-request set-header X-Request-Start t=%[date]
    http-request del-header Proxy
    http-request add-header X-Inside yes if from_inside
    http-request set-var(txn.host) req.hdr(host),lower
    http-request deny if is_post { req.hdr_cnt(content-length) gt 1 }
    http-response set-header X-Frame-Options DENY
    http-response del-header Server
    use_backend origin if is_api or is_static
";

fn haproxy_config(setup: Setup, extra_global: &str) -> String {
    let log =
        if setup.log_and_rules { format!("    log 127.0.0.1:{LOG_PORT} local0\n") } else { String::new() };
    let (httplog, rules) =
        if setup.log_and_rules { ("    log global\n    option httplog\n", RULES) } else { ("", "") };
    let splice = if setup.splice { "    option splice-auto\n" } else { "" };
    format!(
        "global\n    maxconn 8000\n    nbthread {}\n{extra_global}{log}\ndefaults\n    mode http\n    timeout connect 5s\n    \
         timeout client 60s\n    timeout server 60s\n{httplog}{splice}\nfrontend www\n    bind 127.0.0.1:{PROXY_PORT}\n{rules}    \
         default_backend origin\n\nbackend origin\n    balance roundrobin\n    server o1 127.0.0.1:{ORIGIN_PORT}\n",
        setup.threads
    )
}

fn nginx_config(dir: &Path, setup: Setup) -> String {
    let log = if setup.log_and_rules {
        format!("access_log syslog:server=127.0.0.1:{LOG_PORT} combined;")
    } else {
        "access_log off;".into()
    };
    format!(
        "daemon off; worker_processes {}; pid {dir}/nginx-proxy.pid; error_log /dev/null crit;\n\
         events {{ worker_connections 15000; }}\n\
         http {{ {log} keepalive_requests 1000000000;\n\
         client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;\n\
         upstream o {{ server 127.0.0.1:{ORIGIN_PORT}; keepalive 2000; keepalive_requests 1000000000; }}\n\
         server {{ listen 127.0.0.1:{PROXY_PORT} backlog=4096; location / {{ proxy_pass http://o; proxy_http_version 1.1; proxy_set_header Connection \"\"; }} }} }}\n",
        setup.threads,
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
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a proxy on `cores` and waits until it accepts.
pub fn start(subject: &Subject, setup: Setup, dir: &Path, cores: &str) -> io::Result<Running> {
    let mut command = Command::new("taskset");
    command.args(["-c", cores]);
    match subject {
        Subject::Thalweg { program, driver } => {
            let path = dir.join("thalweg.cfg");
            fs::write(&path, haproxy_config(setup, &format!("    tune.io.driver {driver}\n")))?;
            command.arg(program).arg("-f").arg(path);
        }
        Subject::Haproxy(program) => {
            let path = dir.join("haproxy.cfg");
            fs::write(&path, haproxy_config(setup, ""))?;
            command.arg(program).args(["-db", "-f"]).arg(path);
        }
        Subject::Nginx(program) => {
            let path = dir.join("nginx-proxy.conf");
            fs::write(&path, nginx_config(dir, setup))?;
            command.arg(program).arg("-c").arg(path);
        }
    }
    spawn(command, PROXY_PORT, &subject.name())
}

/// Starts the origin on `cores`: 1 kB at `/`, 1 MB at `/1m`.
pub fn start_origin(nginx: &Path, dir: &Path, cores: &str) -> io::Result<Running> {
    fs::write(dir.join("1m"), vec![b'x'; 1 << 20])?;
    let path = dir.join("origin.conf");
    fs::write(
        &path,
        format!(
            "daemon off; worker_processes 1; pid {dir}/origin.pid; error_log /dev/null crit;\n\
             events {{ worker_connections 15000; }}\n\
             http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; sendfile on; root {dir}; default_type text/plain;\n\
             client_body_temp_path {dir}/ob; proxy_temp_path {dir}/op; fastcgi_temp_path {dir}/of; uwsgi_temp_path {dir}/ou; scgi_temp_path {dir}/os;\n\
             server {{ listen 127.0.0.1:{ORIGIN_PORT} backlog=4096; location / {{ return 200 \"{body}\"; }} location = /1m {{ }} }} }}\n",
            dir = dir.display(),
            body = "x".repeat(1024),
        ),
    )?;
    let mut command = Command::new("taskset");
    command.args(["-c", cores]).arg(nginx).arg("-c").arg(path);
    spawn(command, ORIGIN_PORT, "origin")
}

fn spawn(mut command: Command, port: u16, what: &str) -> io::Result<Running> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
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
