//! Runs cases through an installed HAProxy.

use super::Outcome;
use super::generate::{Case, Kind};
use super::request::{CLIENT, PROXY, Request};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A HAProxy to compare with.
pub struct Reference {
    program: PathBuf,
    /// What `-v` says first.
    pub version: String,
    /// Major and minor version.
    pub number: (u32, u32),
    converters: HashSet<String>,
    fetches: HashSet<String>,
}

impl Reference {
    pub fn find() -> Option<Reference> {
        let program = match std::env::var_os("HAPROXY_ORACLE") {
            Some(path) => PathBuf::from(path),
            None => std::env::split_paths(&std::env::var_os("PATH")?)
                .chain([PathBuf::from("/usr/sbin")])
                .map(|dir| dir.join("haproxy"))
                .find(|path| path.is_file())?,
        };
        let output = Command::new(&program).arg("-v").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.lines().next()?.to_string();
        // Our own program may be installed under this name.
        if text.to_lowercase().contains("thalweg") {
            return None;
        }
        let mut digits = version.split_whitespace().nth(2)?.split('.');
        let number = (digits.next()?.parse().ok()?, digits.next()?.split('-').next()?.parse().ok()?);
        let list = |class: &str| -> HashSet<String> {
            let output =
                Command::new(&program).args([&format!("-dK{class}"), "-c", "-f", "/dev/null"]).output();
            let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
            let name = |line: &str| {
                let name =
                    line.split_once("] ").filter(|_| line.starts_with('[')).map_or(line, |(_, name)| name);
                name.split(['(', ':', ' ', '[']).next().unwrap_or_default().to_string()
            };
            text.lines().filter(|line| !line.starts_with('#')).map(name).collect()
        };
        let (converters, fetches) = (list("cnv"), list("smp"));
        Some(Reference { program, version, number, converters, fetches })
    }

    pub fn has_converter(&self, name: &str) -> bool {
        self.converters.is_empty() || self.converters.contains(name)
    }

    pub fn has_fetch(&self, name: &str) -> bool {
        self.fetches.is_empty() || self.fetches.contains(name)
    }
}

/// Kills the process when the test ends, however it ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Protects a word from the line-level tokenizer.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            ' ' | '\\' | '"' | '\'' | '#' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ => out.push(c),
        }
    }
    out
}

const HEAD: &str = "global\n    nbthread 1\n    tune.http.maxhdr 500\n    tune.maxrewrite 1024\n\
defaults\n    mode http\n    timeout client 10s\n    timeout server 10s\n    timeout connect 10s\n    option http-buffer-request\n\
backend be\n    server s1 127.0.0.1:1\n    server s2 127.0.0.1:2 disabled\n\
frontend fe\n    declare capture request len 5\n    declare capture request len 64\n    declare capture response len 8\n";

/// Where the reference finds and puts what the cases need.
struct Places {
    file: PathBuf,
    socket: PathBuf,
    log: PathBuf,
    folder: PathBuf,
}

/// The configuration, and for each of its lines the case it is about.
fn config(cases: &[(usize, &Case)], places: &Places) -> (String, Vec<Option<usize>>) {
    let mut text = format!("{HEAD}    bind unix@{} accept-proxy\n", places.socket.display());
    if cases.iter().any(|(_, case)| case.kind == Kind::Log) {
        let _ = writeln!(
            text,
            "    log {} len 16384 format raw local0\n    option httplog\n    option dontlog-normal",
            places.log.display()
        );
    }
    let mut about = vec![None; text.lines().count()];
    for (i, case) in cases {
        let gate = format!("{{ req.hdr(x-n) -m str {i} }}");
        let mut text_of = case.text.clone();
        for (kind, number) in
            ["MAP", "ACL"].into_iter().flat_map(|kind| (0..super::ours::FILES.len()).map(move |n| (kind, n)))
        {
            let path = places.folder.join(format!("{kind}{number}"));
            text_of = text_of.replace(&format!("@{kind}{number}@"), &path.display().to_string());
        }
        let _ = match case.kind {
            Kind::Expression => {
                writeln!(text, "    http-request set-var(txn.r) {} if {gate}", quoted(&text_of))
            }
            Kind::Condition => {
                let words: Vec<String> = text_of.split('\u{1}').map(quoted).collect();
                writeln!(text, "    http-request set-var(txn.r) str(yes) if {gate} {{ {} }}", words.join(" "))
            }
            Kind::Format => writeln!(
                text,
                "    http-request return status 201 content-type text/plain lf-string {} if {gate}",
                quoted(&text_of)
            ),
            Kind::Header => writeln!(text, "    http-request set-header x-r {} if {gate}", quoted(&text_of)),
            Kind::Log => writeln!(text, "    http-request do-log profile lp{i} if {gate}"),
        };
        about.push(Some(*i));
    }
    text.push_str(
        "    http-request return status 200 content-type text/plain lf-string \
         \"%[var(txn.r),length] %[var(txn.r),sha1,hex] %[var(txn.r),bytes(0,60),hex] %[var(txn.r),concat(),bytes(0,60),hex]\" \
         if { var(txn.r) -m found }\n    http-request return status 200 content-type text/plain lf-string \
         \"%[req.fhdr(x-r),hex]\" if { req.fhdr(x-r) -m found }\n    http-request return status 200 content-type text/plain string NONE\n",
    );
    about.resize(text.lines().count(), None);
    for (i, case) in cases.iter().filter(|(_, case)| case.kind == Kind::Log) {
        let _ = writeln!(text, "log-profile lp{i}\n    on http-req format {}", quoted(&case.text));
        about.extend([None, Some(*i)]);
    }
    (text, about)
}

/// What each case gives on its request.
pub fn run(reference: &Reference, cases: &[Case], requests: &[Request]) -> Vec<Outcome> {
    let folder = Folder(std::env::temp_dir().join(format!("differential-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).expect("temporary folder");
    let places = Places {
        file: folder.0.join("cfg"),
        socket: folder.0.join("sock"),
        log: folder.0.join("log"),
        folder: folder.0.clone(),
    };
    for (number, content) in super::ours::FILES.iter().enumerate() {
        for kind in ["MAP", "ACL"] {
            std::fs::write(folder.0.join(format!("{kind}{number}")), content).expect("map");
        }
    }
    let log = UnixDatagram::bind(&places.log).expect("log");
    log.set_read_timeout(Some(Duration::from_secs(10))).expect("timeout");
    let mut outcomes = vec![Outcome::Value(String::new()); cases.len()];
    let mut left: Vec<(usize, &Case)> = cases.iter().enumerate().collect();
    // The reference stops at some number of errors: refused cases are taken out until none is left.
    loop {
        let (text, about) = config(&left, &places);
        std::fs::write(&places.file, text).expect("configuration");
        let output = Command::new(&reference.program)
            .arg("-c")
            .arg("-f")
            .arg(&places.file)
            .output()
            .expect("reference");
        if output.status.success() {
            break;
        }
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let before = left.len();
        let mut refused = HashSet::new();
        for line in errors.lines().filter(|line| line.contains("[ALERT]") || line.starts_with(' ')) {
            let Some((_, rest)) = line.split_once("arsing [") else { continue };
            let Some((place, message)) = rest.split_once(']') else { continue };
            let number: usize = place.rsplit(':').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            if let Some(i) = number.checked_sub(1).and_then(|at| *about.get(at)?) {
                outcomes[i] = Outcome::Refused(message.trim_start_matches([':', ' ']).to_string());
                refused.insert(i);
            }
        }
        left.retain(|(i, _)| !refused.contains(i));
        assert!(left.len() < before, "the reference refuses the configuration:\n{errors}");
    }
    let start = || {
        let _ = std::fs::remove_file(&places.socket);
        let mut command = Command::new(&reference.program);
        command.arg("-db").arg("-f").arg(&places.file).stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().expect("reference"))
    };
    let mut running = start();
    for (i, case) in left {
        let mut answer = ask(&places.socket, i, &requests[case.request], &mut running.0);
        if case.kind == Kind::Log && answer.is_some() {
            let mut line = vec![0; 65536];
            answer = log.recv(&mut line).ok().map(|len| {
                let line = &line[..len];
                line.strip_suffix(b"\n").unwrap_or(line).iter().map(|b| char::from(*b)).collect()
            });
        }
        outcomes[i] = Outcome::Value(answer.unwrap_or_else(|| {
            running = start();
            CRASHED.into()
        }));
    }
    outcomes
}

/// The outcome of a case that ends the reference's process.
pub const CRASHED: &str = "the reference crashed";

/// Connects once the process listens; `None` when it has ended.
fn connect(socket: &Path, process: &mut Child) -> Option<UnixStream> {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Some(stream),
            Err(e) => {
                if !matches!(process.try_wait(), Ok(None)) {
                    return None;
                }
                assert!(Instant::now() < deadline, "the reference does not listen: {e}");
                std::thread::yield_now();
            }
        }
    }
}

/// What the process answers, `None` when it ended instead.
fn ask(socket: &Path, case: usize, request: &Request, process: &mut Child) -> Option<String> {
    let mut stream = connect(socket, process)?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("timeout");
    let mut bytes = format!(
        "PROXY TCP4 {} {} {} {}\r\n{} {} HTTP/1.1\r\nx-n: {case}\r\ncontent-length: {}\r\n",
        CLIENT.0,
        PROXY.0,
        CLIENT.1,
        PROXY.1,
        request.method,
        request.target,
        request.body.len()
    )
    .into_bytes();
    for (name, value) in &request.headers {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"connection: close\r\n\r\n");
    bytes.extend_from_slice(&request.body);
    let sent = stream.write_all(&bytes);
    let mut answer = Vec::new();
    if let Err(e) = sent.and_then(|()| stream.read_to_end(&mut answer)) {
        // A connection is reset a moment before the process is gone.
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if !matches!(process.try_wait(), Ok(None)) {
                return None;
            }
            std::thread::yield_now();
        }
        return Some(format!("no answer: {e}"));
    }
    let body = answer.windows(4).position(|w| w == b"\r\n\r\n").map_or(&[][..], |at| &answer[at + 4..]);
    Some(match answer.get(9..12) {
        Some(b"200") => String::from_utf8_lossy(body).into_owned(),
        Some(b"201") => body.iter().map(|b| char::from(*b)).collect(),
        _ => format!("unexpected answer {:?}", String::from_utf8_lossy(&answer)),
    })
}
