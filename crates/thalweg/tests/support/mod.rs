//! What the black-box tests share: the program started with a configuration of its own, clients and servers that say
//! and expect exactly what a test scripts, and a collector of log lines.
//!
//! Nothing here waits for a fixed time. Everything is observed, with a limit that only a failure reaches.
//!
//! Every proxy and every server of a test gets a loopback address of its own, and its ports from the kernel: no other
//! connection of the machine can take one of them in between.
//!
//! `THALWEG_TEST_PROGRAM` names another program to run the same scenarios against.

#![allow(dead_code, unused_imports)] // Each test file uses some of it.

mod conn;
pub mod h2;
mod log;
pub mod own_commands;
mod server;
pub mod tls;

pub use conn::{Conn, Request, Response};
use log::Log;
pub use server::{Server, Silent, nobody, ok};

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_runtime::driver::{Driver, DriverKind, DriverOptions};
pub use thalweg_sys::signal::{Signal, send};

/// Longer than anything here takes, shorter than a person waits.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The same for a program that starts, of which a test may start many at once on a machine that has other things to do.
/// (What a program does then must not take longer than its own limits, which [`PATIENCE`] equals.)
const PATIENCE_WITH_STARTS: Duration = Duration::from_secs(120);

/// Looks until there is something to see.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        // Leaves the processor to the program under test; the result does not depend on how long.
        thread::sleep(Duration::from_millis(1));
    }
}

/// How the program moves bytes, as `THALWEG_IO_DRIVER` names it.
pub type Io = &'static str;

/// Runs a scenario with each I/O driver that the kernel allows.
pub fn each_driver(scenario: impl Fn(Io)) {
    scenario("epoll");
    if other_program().is_some() {
        return;
    }
    match Driver::new(DriverKind::Uring, &DriverOptions::default()) {
        Ok(_) => scenario("io_uring"),
        Err(error) => eprintln!("skipped with io_uring, which this kernel does not allow: {error}"),
    }
}

/// The program to test in place of this build's.
pub fn other_program() -> Option<std::ffi::OsString> {
    std::env::var_os("THALWEG_TEST_PROGRAM")
}

/// An installed HAProxy to compare with: `HAPROXY_ORACLE` or `haproxy` in the path. Without one the test has nothing to
/// compare with, which this says.
pub fn reference() -> Option<PathBuf> {
    let found = match std::env::var_os("HAPROXY_ORACLE") {
        Some(path) => Some(PathBuf::from(path)),
        None => std::env::var_os("PATH").and_then(|path| {
            std::env::split_paths(&path).map(|dir| dir.join("haproxy")).find(|file| file.is_file())
        }),
    };
    // Our own program may be installed under this name.
    let is_reference = |file: &PathBuf| {
        let output = Command::new(file).arg("-v").output();
        output.is_ok_and(|o| !String::from_utf8_lossy(&o.stdout).to_lowercase().contains("thalweg"))
    };
    let found = found.filter(is_reference);
    if found.is_none() {
        eprintln!("skipped: no HAProxy is installed to compare with");
    }
    found
}

/// The program under test.
pub fn program() -> Command {
    match other_program() {
        Some(other) => Command::new(other),
        None => Command::new(env!("CARGO_BIN_EXE_thalweg")),
    }
}

/// An address of the loopback network that nobody else uses.
pub fn own_ip() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let pid = std::process::id();
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    Ipv4Addr::new(127, 64 + (pid % 64) as u8, (pid / 64 % 256) as u8, 0).to_bits().wrapping_add(next).into()
}

/// Held while a program is started and while a port is tried out: until a child has become its program it holds a copy of
/// every descriptor of this one, and with it the port.
static FORKING: Mutex<()> = Mutex::new(());

fn forking() -> std::sync::MutexGuard<'static, ()> {
    // A test that failed meanwhile has left nothing half done.
    FORKING.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A free port of an address, and another one each time: the kernel may offer the same one twice while nobody listens
/// on it yet.
pub fn free_port(ip: Ipv4Addr) -> SocketAddrV4 {
    static GIVEN: Mutex<BTreeSet<SocketAddrV4>> = Mutex::new(BTreeSet::new());
    let _forking = forking();
    loop {
        let taken = TcpListener::bind((ip, 0)).unwrap();
        let addr = SocketAddrV4::new(ip, taken.local_addr().unwrap().port());
        if GIVEN.lock().unwrap().insert(addr) {
            return addr;
        }
    }
}

/// A directory that goes away with its owner.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("thalweg-bb-{}-{next}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A configuration to start the program with. In its text `<@name>` stands for an address, the same for the same name,
/// `<@dir>` for a directory, `<@ip>` for the address without a port.
pub struct Setup {
    text: String,
    global: String,
    defaults: String,
    threads: usize,
    files: Option<u32>,
    whole: bool,
    arguments: Vec<String>,
    /// Another program than the one under test.
    program: Option<PathBuf>,
    /// Files of its directory, by name and content.
    beside: Vec<(&'static str, String)>,
    environment: Vec<(String, String)>,
}

impl Setup {
    /// HTTP sections, with httplog.
    pub fn http(text: &str) -> Setup {
        Setup::with(text, "mode http\noption httplog\n")
    }

    /// TCP sections, with tcplog.
    pub fn tcp(text: &str) -> Setup {
        Setup::with(text, "mode tcp\noption tcplog\n")
    }

    /// A whole file, to which nothing is added.
    pub fn file(text: &str) -> Setup {
        Setup { whole: true, ..Setup::with(text, "") }
    }

    fn with(text: &str, defaults: &str) -> Setup {
        Setup {
            text: text.into(),
            global: String::new(),
            defaults: format!(
                "{defaults}log global\ntimeout connect 20s\ntimeout client 20s\ntimeout server 20s\n"
            ),
            threads: 1,
            files: None,
            whole: false,
            arguments: Vec::new(),
            program: None,
            beside: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Starts this program in place of the one under test, such as the [`reference`].
    pub fn program(mut self, program: &Path) -> Setup {
        self.program = Some(program.into());
        self
    }

    /// A variable of the program's environment.
    pub fn env(mut self, name: &str, value: &str) -> Setup {
        self.environment.push((name.into(), value.into()));
        self
    }

    pub fn global(mut self, lines: &str) -> Setup {
        self.global.push_str(lines);
        self.global.push('\n');
        self
    }

    pub fn defaults(mut self, lines: &str) -> Setup {
        self.defaults.push_str(lines);
        self.defaults.push('\n');
        self
    }

    pub fn threads(mut self, threads: usize) -> Setup {
        self.threads = threads;
        self
    }

    /// A file that lies beside the configuration.
    pub fn file_beside(mut self, name: &'static str, content: impl Into<String>) -> Setup {
        self.beside.push((name, content.into()));
        self
    }

    /// The most files the program may open.
    pub fn files(mut self, files: u32) -> Setup {
        self.files = Some(files);
        self
    }

    pub fn argument(mut self, argument: &str) -> Setup {
        self.arguments.push(argument.into());
        self
    }

    /// Starts the program and waits until it listens.
    pub fn start(&self, io: Io) -> Proxy {
        self.start_at(io, own_ip(), BTreeMap::new(), Vec::new())
    }

    /// Starts the program where another one listens, with more arguments.
    pub fn start_beside(&self, io: Io, other: &Proxy, arguments: Vec<String>) -> Proxy {
        self.start_at(io, other.ip, other.names.clone(), arguments)
    }

    fn start_at(
        &self,
        io: Io,
        ip: Ipv4Addr,
        mut names: BTreeMap<String, SocketAddrV4>,
        arguments: Vec<String>,
    ) -> Proxy {
        let directory = Directory::new();
        let log = Log::start();
        let text = if self.whole {
            self.text.clone()
        } else {
            format!(
                "global\nnbthread {}\nlog {} format raw local0\n{}defaults\n{}\n{}\n",
                self.threads,
                log.address(),
                self.global,
                self.defaults,
                self.text
            )
        };
        let mut listening = Vec::new();
        let text = fill_in(&text, ip, &directory.0, &mut names, &mut listening);
        fs::write(directory.0.join("cfg"), &text).unwrap();
        for (name, content) in &self.beside {
            fs::write(directory.0.join(name), content).unwrap();
        }
        let output = fs::File::create(directory.0.join("out")).unwrap();
        let program = || self.program.as_ref().map_or_else(program, Command::new);
        let mut command = match self.files {
            None => program(),
            Some(files) => {
                let mut shell = Command::new("sh");
                let program = program();
                shell
                    .args(["-c", &format!("ulimit -n {files}; exec \"$@\""), "sh"])
                    .arg(program.get_program());
                shell
            }
        };
        command
            .args(["-f", "cfg", "-db"])
            .args(&self.arguments)
            .args(&arguments)
            .current_dir(&directory.0)
            .env("THALWEG_IO_DRIVER", io)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        let child = {
            let _forking = forking();
            command.spawn().unwrap()
        };
        let mut proxy = Proxy { child, ip, names, listening, log, directory, text };
        proxy.wait_until_listening();
        proxy.wait_until_polling();
        proxy
    }
}

/// Replaces the names of a configuration's text. What follows `bind` is listened on.
fn fill_in(
    text: &str,
    ip: Ipv4Addr,
    directory: &Path,
    names: &mut BTreeMap<String, SocketAddrV4>,
    listening: &mut Vec<SocketAddrV4>,
) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("<@") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let end = from.find('>').expect("a name ends with >");
        let name = &from[2..end];
        rest = &from[end + 1..];
        match name {
            "dir" => out.push_str(directory.to_str().unwrap()),
            "ip" => out.push_str(&ip.to_string()),
            _ => {
                let addr = *names.entry(name.to_string()).or_insert_with(|| free_port(ip));
                if out.trim_end().ends_with("bind") {
                    listening.push(addr);
                }
                out.push_str(&addr.to_string());
            }
        }
    }
    out.push_str(rest);
    out
}

/// The program, running; it does not outlive its test.
pub struct Proxy {
    pub child: Child,
    ip: Ipv4Addr,
    names: BTreeMap<String, SocketAddrV4>,
    listening: Vec<SocketAddrV4>,
    log: Log,
    pub directory: Directory,
    text: String,
}

impl Proxy {
    fn wait_until_listening(&mut self) {
        let start = Instant::now();
        loop {
            let table = tcp_table();
            let inodes = self.socket_inodes();
            let ready = |addr: &SocketAddrV4| {
                table.iter().any(|c| c.local == *addr && c.state == LISTEN && inodes.contains(&c.inode))
            };
            if !self.listening.is_empty() && self.listening.iter().all(ready) {
                return;
            }
            if self.listening.is_empty() && !inodes.is_empty() {
                return;
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the program ended: {status}\n{}\n{}", self.output(), self.text);
            }
            assert!(
                start.elapsed() < PATIENCE_WITH_STARTS,
                "the program does not listen\n{}\n{}",
                self.output(),
                self.text
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The address a name of the configuration stands for.
    pub fn addr(&self, name: &str) -> SocketAddrV4 {
        self.names[name]
    }

    /// Replaces something in the file of the configuration, which the program reads when it is told to.
    pub fn edit(&mut self, from: &str, to: &str) {
        let mut listening = Vec::new();
        let [from, to] =
            [from, to].map(|text| fill_in(text, self.ip, &self.directory.0, &mut self.names, &mut listening));
        assert!(self.text.contains(&from), "'{from}' is not in\n{}", self.text);
        self.text = self.text.replace(&from, &to);
        fs::write(self.directory.0.join("cfg"), &self.text).unwrap();
    }

    /// A text with the addresses and the directory of this program in place of their names.
    pub fn filled(&mut self, text: &str) -> String {
        fill_in(text, self.ip, &self.directory.0, &mut self.names, &mut Vec::new())
    }

    /// A file of the program's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.0.join(name)
    }

    /// What is answered to a line on the CLI's socket of that name in the program's directory, up to the end of the connection.
    pub fn tell(&self, socket: &str, line: &str) -> String {
        let mut cli = Conn::connect_unix(&self.path(socket));
        cli.send(format!("{line}\n"));
        cli.rest_text()
    }

    /// What the program printed.
    pub fn output(&self) -> String {
        fs::read_to_string(self.path("out")).unwrap_or_default()
    }

    /// A new connection to the frontend that listens on `<@fe>`.
    pub fn connect(&self) -> Conn {
        Conn::connect(self.addr("fe"))
    }

    /// Sends one request on a connection of its own and returns the response.
    pub fn ask(&self, request: &str) -> Response {
        let mut conn = self.connect();
        conn.send(request);
        let method = request.split(' ').next().unwrap_or("").to_string();
        conn.response_to(&method)
    }

    /// The next log line.
    pub fn log(&self) -> String {
        self.log.line().unwrap_or_else(|e| panic!("no log line came: {e}\n{}", self.output()))
    }

    /// The next log line about traffic: what becomes of servers is told in between.
    fn traffic_log(&self) -> String {
        let about_servers = ["Server ", "Backup Server ", "backend ", "Proxy ", "Health check for "];
        loop {
            let line = self.log();
            if !about_servers.iter().any(|start| line.starts_with(start)) {
                return line;
            }
        }
    }

    /// The next line of `option httplog` without addresses, dates, sizes and counts: backend and server, the times
    /// (`n` for those that are known), status, termination state, retries, request.
    pub fn http_log(&self) -> String {
        let line = self.traffic_log();
        let fields: Vec<&str> = line.splitn(13, ' ').collect();
        assert_eq!(fields.len(), 13, "{line}");
        let retries = fields[10].rsplit('/').next().unwrap_or("");
        format!("{} {} {} {} {retries} {}", fields[3], known(fields[4]), fields[5], fields[9], fields[12])
    }

    /// The next line of `option tcplog`, in the same way.
    pub fn tcp_log(&self) -> String {
        let line = self.traffic_log();
        let fields: Vec<&str> = line.split(' ').collect();
        assert_eq!(fields.len(), 9, "{line}");
        let retries = fields[7].rsplit('/').next().unwrap_or("");
        format!("{} {} {} {retries}", fields[3], known(fields[4]), fields[6])
    }

    pub fn signal(&self, signal: Signal) {
        send(self.id(), signal).unwrap();
    }

    /// Stops the process as a debugger would, until [`go_on`](Self::go_on).
    pub fn stand_still(&self) {
        self.by_shell("STOP");
        let status = format!("/proc/{}/status", self.id());
        let stands = || std::fs::read_to_string(&status).unwrap().contains("State:\tT").then_some(());
        eventually("the process stands still", stands);
    }

    pub fn go_on(&self) {
        self.by_shell("CONT");
    }

    fn by_shell(&self, signal: &str) {
        let command = format!("kill -{signal} {}", self.id());
        assert!(std::process::Command::new("sh").args(["-c", &command]).status().unwrap().success());
    }

    /// Waits for the end. Exit code and signal.
    pub fn end(&mut self) -> (Option<i32>, Option<i32>) {
        let status = eventually("the process ends", || self.child.try_wait().unwrap());
        (status.code(), status.signal())
    }

    /// Its sockets; those of a master's workers are among them.
    fn socket_inodes(&self) -> Vec<u64> {
        with_children(self.id()).into_iter().flat_map(socket_inodes).collect()
    }

    /// How many descriptors are open once no connection is left, but for the pipe that each thread keeps for long bodies.
    pub fn descriptors(&self) -> usize {
        self.has_no_connections();
        let open = self.open_files();
        let pipes = open.iter().filter(|file| file.to_string_lossy().starts_with("pipe:")).count();
        open.len() - pipes.min(2 * self.threads().unwrap_or(1))
    }

    /// But for the pipes that it was born with: those of whoever runs the tests.
    fn open_files(&self) -> Vec<PathBuf> {
        let files = |process: &str| -> Vec<PathBuf> {
            let open = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
            open.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok()).collect()
        };
        let own = files("self");
        let is_inherited = |file: &PathBuf| own.contains(file) && file.to_string_lossy().starts_with("pipe:");
        files(&self.id().to_string()).into_iter().filter(|file| !is_inherited(file)).collect()
    }

    /// A column of a row of `show stat`, which is named by its proxy and itself: `be,s1`. The CLI listens on `cli`.
    pub fn stat(&self, row: &str, column: &str) -> String {
        let mut cli = Conn::connect_unix(&self.path("cli"));
        cli.send("show stat\n");
        let text = cli.rest_text();
        let title = text.lines().next().unwrap().trim_start_matches("# ");
        let at = title.split(',').position(|name| name == column);
        let at = at.unwrap_or_else(|| panic!("no column {column} in {text}"));
        let found = text.lines().find(|line| line.starts_with(&format!("{row},")));
        found.unwrap_or_else(|| panic!("no row {row} in {text}")).split(',').nth(at).unwrap().to_owned()
    }

    /// The memory that it has, in kB.
    pub fn resident_kb(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line about memory");
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Waits until no more descriptors are open than there were.
    pub fn descriptors_back_to(&self, before: usize) {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if self.descriptors() <= before {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        let open = self.open_files();
        panic!("{} descriptors are open, {before} were: {open:?}\n{}", open.len(), self.output());
    }

    /// Waits until the program holds no connection, to clients or to servers.
    pub fn has_no_connections(&self) {
        let mut left = Vec::new();
        // What a test holds itself is not the program's.
        let own = socket_inodes(std::process::id());
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            left = tcp_table();
            // An entry without an inode is the kernel's alone.
            left.retain(|c| c.inode != 0 && !own.contains(&c.inode) && c.state != LISTEN);
            left.retain(|c| {
                self.listening.contains(&c.local)
                    || (!self.listening.contains(&c.remote) && self.text.contains(&format!(" {}", c.remote)))
            });
            if left.is_empty() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("connections are left: {left:?}\n{}", self.output());
    }

    /// What its configuration says.
    fn threads(&self) -> Option<usize> {
        self.text.lines().find_map(|line| line.strip_prefix("nbthread ")?.trim().parse().ok())
    }

    /// Waits until each thread of the program has waited for events: its ports listen before that, and on a busy machine not
    /// all of its threads have opened what they need then.
    fn wait_until_polling(&self) {
        let Some(threads) = self.threads() else { return };
        let mut polling = BTreeSet::new();
        eventually("all threads wait for events", || {
            let ended =
                fs::read_to_string(format!("/proc/{}/stat", self.id())).is_ok_and(|s| s.contains(") Z "));
            assert!(!ended, "the program ended\n{}", self.output());
            let tasks = with_children(self.id())
                .into_iter()
                .filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
            for task in tasks.flatten().flatten() {
                let waits_in = fs::read_to_string(task.path().join("wchan")).unwrap_or_default();
                if ["io_cqring_wait", "epoll_wait", "ep_poll"].iter().any(|name| waits_in.contains(name)) {
                    polling.insert(task.file_name());
                }
            }
            (polling.len() >= threads || !tells_waits()).then_some(())
        });
    }

    fn cpu_ns(&self) -> u64 {
        let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", self.id())) else { return 0 };
        tasks
            .filter_map(|task| fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
            .filter_map(|stat| stat.split(' ').next()?.parse::<u64>().ok())
            .sum()
    }

    /// Waits until the program does nothing: it uses less than a twentieth of a processor.
    pub fn is_idle(&self) {
        eventually("the program is idle", || {
            let (before, start) = (self.cpu_ns(), Instant::now());
            thread::sleep(Duration::from_millis(60));
            // A thread that ended meanwhile is not counted any more.
            let used = Duration::from_nanos(self.cpu_ns().checked_sub(before)?);
            (used < start.elapsed() / 20).then_some(())
        });
    }

    /// The end of a test: once the servers are gone, no connection is left, the program lives and is idle.
    pub fn finish<T>(mut self, servers: T) {
        drop(servers);
        self.has_no_connections();
        self.is_idle();
        assert_eq!(self.child.try_wait().unwrap(), None, "the program ended\n{}", self.output());
        let output = self.output();
        assert!(!output.contains("panicked"), "{output}");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- the program said:\n{}\n--- its configuration:\n{}", self.output(), self.text);
        }
    }
}

/// A process and those that it started, such as the worker of a master.
pub fn with_children(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_ascii_whitespace().filter_map(|child| child.parse().ok()).chain([pid]).collect()
}

fn socket_inodes(pid: u32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let target = fs::read_link(entry.ok()?.path()).ok()?;
            target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
        })
        .collect()
}

/// Whether the kernel says what threads wait for: a thread that was stopped for it sleeps in something with a name.
fn tells_waits() -> bool {
    static TELLS: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        let (parked, waits) = std::sync::mpsc::channel::<()>();
        let (told, id) = std::sync::mpsc::channel();
        let sleeper = thread::spawn(move || {
            told.send(fs::read_link("/proc/thread-self").unwrap()).unwrap();
            let _ = waits.recv();
        });
        let task = Path::new("/proc").join(id.recv().unwrap());
        let sleeps = || fs::read_to_string(task.join("stat")).ok()?.contains(") S ").then_some(());
        eventually("a thread sleeps", sleeps);
        let told = fs::read_to_string(task.join("wchan")).unwrap_or_default();
        drop(parked);
        sleeper.join().unwrap();
        !matches!(told.trim(), "" | "0")
    });
    *TELLS
}

fn known(timers: &str) -> String {
    let each = timers.split('/').map(|t| if t == "-1" { "-1" } else { "n" });
    each.collect::<Vec<_>>().join("/")
}

const LISTEN: u8 = 0x0a;

#[derive(Debug)]
struct TcpEntry {
    local: SocketAddrV4,
    remote: SocketAddrV4,
    state: u8,
    inode: u64,
}

/// The kernel's table of TCP sockets over IPv4, without those in TIME_WAIT.
fn tcp_table() -> Vec<TcpEntry> {
    let addr = |text: &str| {
        let (ip, port) = text.split_once(':')?;
        let ip = Ipv4Addr::from(u32::from_str_radix(ip, 16).ok()?.to_ne_bytes());
        Some(SocketAddrV4::new(ip, u16::from_str_radix(port, 16).ok()?))
    };
    let text = fs::read_to_string("/proc/net/tcp").unwrap();
    // After the number: two addresses of 13 characters, each with a space behind it, and the state. A busy machine has
    // tens of thousands of connections whose end is only waited out; they are not worth reading.
    let ended = |line: &&str| line.find(": ").and_then(|at| line.get(at + 30..at + 32)) == Some("06");
    let entries = text.lines().skip(1).filter(|line| !ended(line)).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        Some(TcpEntry {
            local: addr(fields.get(1)?)?,
            remote: addr(fields.get(2)?)?,
            state: u8::from_str_radix(fields.get(3)?, 16).ok()?,
            inode: fields.get(9)?.parse().ok()?,
        })
    });
    entries.collect()
}
