//! Plays cases through one of the programs: a process with the configurations of many cases, and for each case its
//! servers and clients, all at once.
//!
//! Every program gets the same addresses, one after the other, so that nothing in what they send differs for a reason of
//! its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::actor::{Actor, Board, End, Handle, Heard, LIMIT, Then};
use super::case::{Case, Kind, Mode};
use super::script::Script;
use super::support::{Directory, PATIENCE, eventually, own_ip, program};

/// Who stands between clients and servers.
#[derive(Clone, Debug)]
pub enum Player {
    Reference(PathBuf),
    /// Ours, with an I/O driver.
    Ours(&'static str),
}

impl Player {
    pub fn name(&self) -> &'static str {
        match self {
            Player::Reference(_) => "the reference",
            Player::Ours(io) => io,
        }
    }
}

/// What an exchange looked like from outside.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub clients: Vec<Heard>,
    /// For each server, its connections in their order.
    pub servers: Vec<Vec<Heard>>,
    pub log: Vec<String>,
    /// Proxy and server, column, value of `show stat`.
    pub stats: BTreeMap<(String, String), BTreeMap<String, String>>,
    /// What went wrong with the process itself.
    pub failure: Option<String>,
}

/// How long the start of one case waits for that of the one before it.
const STAGGER: Duration = Duration::from_millis(8);
/// How long servers are watched after the clients have gone.
const SETTLE: Duration = Duration::from_millis(250);

/// A case and its number, which the names of its proxies come from.
pub type Numbered<'a> = (usize, &'a Case);

/// The addresses of a batch of cases.
struct Layout {
    ip: Ipv4Addr,
}

/// The first port of a case: its frontend. The log's and the servers' follow. What is counted is its place in the batch.
const FIRST_PORT: usize = 10_000;
const PORTS: usize = 10;

impl Layout {
    fn port(&self, place: usize, offset: usize) -> SocketAddrV4 {
        assert!(offset < PORTS);
        let port = FIRST_PORT + place * PORTS + offset;
        SocketAddrV4::new(self.ip, u16::try_from(port).expect("fewer cases in a batch than ports"))
    }

    fn frontend(&self, place: usize) -> SocketAddrV4 {
        self.port(place, 0)
    }

    fn log(&self, place: usize) -> SocketAddrV4 {
        self.port(place, 1)
    }

    fn server(&self, place: usize, server: usize) -> SocketAddrV4 {
        self.port(place, 2 + server)
    }
}

/// The fields of the log lines, in the order of their formats.
pub const HTTP_FIELDS: [&str; 31] = [
    "ft", "b", "s", "Th", "Ti", "TR", "Tq", "Tw", "Tc", "Tr", "Td", "Ta", "Tt", "ST", "B", "U", "tsc", "rc",
    "sq", "bq", "fc", "bc", "sc", "CC", "CS", "hr", "hs", "HM", "HU", "HV", "r",
];
pub const TCP_FIELDS: [&str; 16] =
    ["ft", "b", "s", "Th", "Tw", "Tc", "Td", "Tt", "B", "U", "ts", "rc", "sq", "bq", "fc", "bc"];

fn log_format(mode: Mode) -> String {
    let fields: &[&str] = match mode {
        Mode::Http => &HTTP_FIELDS,
        Mode::Tcp => &TCP_FIELDS,
    };
    fields.iter().map(|field| format!("%{field}")).collect::<Vec<_>>().join("~")
}

fn section(text: &mut String, layout: &Layout, place: usize, (number, case): Numbered<'_>) {
    let mode = match case.mode {
        Mode::Http => "http",
        Mode::Tcp => "tcp",
    };
    let mut own = String::new();
    let _ = writeln!(own, "defaults d<n>\nmode {mode}\nlog {} format raw local0", layout.log(place));
    if !case.own_log {
        let _ = writeln!(own, "log-format \"{}\"", log_format(case.mode));
    }
    for (timeout, value) in [("connect", "2s"), ("client", "2500ms"), ("server", "2500ms")] {
        if !case.defaults.lines().any(|line| line.trim().starts_with(&format!("timeout {timeout} "))) {
            let _ = writeln!(own, "timeout {timeout} {value}");
        }
    }
    if case.mode == Mode::Http {
        // The reference holds the last incomplete segment back for 200 ms otherwise.
        own.push_str("option http-no-delay\n");
    }
    // The default picks servers by chance.
    own.push_str("balance roundrobin\n");
    own.push_str(&case.defaults);
    let _ = writeln!(own, "\nfrontend f<n> from d<n>\nbind {}\n{}", layout.frontend(place), case.front);
    if !case.servers.is_empty() && !case.front.contains("default_backend") {
        own.push_str("default_backend b<n>\n");
    }
    if !case.servers.is_empty() || !case.back.is_empty() {
        let _ = writeln!(own, "backend b<n> from d<n>\n{}", case.back);
    }
    if !case.back.lines().any(|line| line.starts_with("server ")) {
        for (i, server) in case.servers.iter().enumerate() {
            let _ = writeln!(own, "server s{} {} {}", i + 1, layout.server(place, i), server.options);
        }
    }
    own.push_str(&case.more);
    for i in 0..case.servers.len() {
        own = own.replace(&format!("<s{}>", i + 1), &layout.server(place, i).to_string());
    }
    text.push_str(&own.replace("<n>", &number.to_string()));
    text.push('\n');
}

/// The configuration of a batch.
fn config(layout: &Layout, batch: &[Numbered<'_>]) -> String {
    let mut text = String::from("global\nnbthread 1\nstats socket unix@sock level admin\n");
    text.push_str(&batch[0].1.global);
    for (place, case) in batch.iter().enumerate() {
        section(&mut text, layout, place, *case);
    }
    text
}

/// The configuration of one case, to look at.
pub fn shown_config(case: Numbered<'_>) -> String {
    config(&Layout { ip: Ipv4Addr::LOCALHOST }, &[case])
}

struct Process {
    child: Child,
    directory: Directory,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start(player: &Player, config: &str) -> Result<Process, String> {
        let directory = Directory::new();
        std::fs::write(directory.0.join("cfg"), config).unwrap();
        let output = std::fs::File::create(directory.0.join("out")).unwrap();
        let mut command = match player {
            Player::Reference(path) => Command::new(path),
            Player::Ours(io) => {
                let mut command = program();
                command.env("THALWEG_IO_DRIVER", io);
                command
            }
        };
        command.args(["-f", "cfg", "-db"]).current_dir(&directory.0).stdin(Stdio::null());
        let child = command.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
        let mut process = Process { child, directory };
        let started = eventually("the program answers on its socket", || {
            if let Ok(Some(status)) = process.child.try_wait() {
                return Some(Err(format!("ended at start: {status}\n{}", process.output())));
            }
            process.ask("show version").ok().map(|_| Ok(()))
        });
        started.map(|()| process)
    }

    fn output(&self) -> String {
        std::fs::read_to_string(self.directory.0.join("out")).unwrap_or_default()
    }

    fn ask(&self, command: &str) -> io::Result<String> {
        ask(&self.directory.0.join("sock"), command)
    }
}

fn ask(path: &Path, command: &str) -> io::Result<String> {
    let mut socket = UnixStream::connect(path)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(format!("{command}\n").as_bytes())?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    Ok(answer)
}

/// `show stat`: proxy and server, column, value.
fn statistics(process: &Process) -> BTreeMap<(String, String), BTreeMap<String, String>> {
    let text = process.ask("show stat").unwrap_or_default();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or("").trim_start_matches("# ").split(',').collect();
    let mut rows = BTreeMap::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let values: Vec<&str> = line.split(',').collect();
        let row: BTreeMap<String, String> = names
            .iter()
            .zip(&values)
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, value)| ((*name).to_string(), (*value).to_string()))
            .collect();
        let of = |name: &str| row.get(name).cloned().unwrap_or_default();
        rows.insert((of("pxname"), of("svname")), row);
    }
    rows
}

/// Plays a batch of cases, all at once, and returns what was seen, in their order.
pub struct Stage {
    layout: Layout,
}

impl Stage {
    pub fn new() -> Stage {
        Stage { layout: Layout { ip: own_ip() } }
    }

    pub fn play(&self, player: &Player, batch: &[Numbered<'_>]) -> Vec<Seen> {
        let layout = &self.layout;
        let logs: Vec<UdpSocket> =
            (0..batch.len()).map(|place| bound(|| UdpSocket::bind(layout.log(place)))).collect();
        let mut process = match Process::start(player, &config(layout, batch)) {
            Ok(process) => process,
            Err(failure) => {
                let seen = Seen { failure: Some(failure), ..Seen::default() };
                return vec![seen; batch.len()];
            }
        };
        let mut seen: Vec<Seen> = thread::scope(|scope| {
            let cases: Vec<_> = batch
                .iter()
                .enumerate()
                .map(|(place, (_, case))| {
                    scope.spawn(move || {
                        thread::sleep(STAGGER * place as u32);
                        exchange(layout, place, case)
                    })
                })
                .collect();
            cases.into_iter().map(|case| case.join().expect("a case does not panic")).collect()
        });
        // The lines of the last streams are sent when these have gone.
        let mut stats = BTreeMap::new();
        let idle = |row: &BTreeMap<String, String>| row.get("scur").is_none_or(|n| n.is_empty() || n == "0");
        for _ in 0..100 {
            stats = statistics(&process);
            if stats.values().all(idle) {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let ended = process.child.try_wait().unwrap();
        let output = process.output();
        for ((seen, (number, _)), log) in seen.iter_mut().zip(batch).zip(&logs) {
            seen.log = lines(log);
            let own = |name: &str| {
                name.chars().rev().take_while(char::is_ascii_digit).collect::<String>()
                    == number.to_string().chars().rev().collect::<String>()
            };
            let strip = |name: &str| name.strip_suffix(&number.to_string()).unwrap_or(name).to_string();
            let rows = stats.iter().filter(|((proxy, _), _)| own(proxy));
            seen.stats = rows.map(|((p, s), row)| ((strip(p), s.clone()), row.clone())).collect();
            if let Some(status) = ended {
                seen.failure = Some(format!("the program ended: {status}\n{output}"));
            } else if output.contains("panicked") {
                seen.failure = Some(output.clone());
            }
        }
        seen
    }
}

/// Binds an address that was used a moment ago: a process that is just being started may hold a copy of the old socket
/// until it runs its own program.
fn bound<T>(bind: impl Fn() -> io::Result<T>) -> T {
    eventually("the address is free", || bind().ok())
}

/// The lines that were sent to a log socket.
fn lines(log: &UdpSocket) -> Vec<String> {
    log.set_nonblocking(true).unwrap();
    let mut lines = Vec::new();
    let mut buffer = vec![0; 65536];
    while let Ok(len) = log.recv(&mut buffer) {
        lines.push(String::from_utf8_lossy(&buffer[..len]).trim_end().to_string());
    }
    lines
}

/// A server's connections, in the order they came.
#[derive(Default)]
struct Connections {
    playing: Mutex<Vec<thread::JoinHandle<Heard>>>,
    handles: Mutex<Vec<Handle>>,
}

fn small(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.into()).stack_size(256 << 10)
}

/// Plays one case.
fn exchange(layout: &Layout, place: usize, case: &Case) -> Seen {
    let board = Board::new();
    let servers: Vec<RunningServer> = case
        .servers
        .iter()
        .enumerate()
        .map(|(i, server)| RunningServer::start(layout.server(place, i), &server.kind, &board))
        .collect();
    let clients: Vec<_> = case
        .clients
        .iter()
        .map(|script| {
            let (script, board) = (script.clone(), Arc::clone(&board));
            let frontend = SocketAddr::V4(layout.frontend(place));
            let play = move || {
                if let Some(what) = script.after {
                    board.hear(what);
                }
                let stream = TcpStream::connect(frontend).expect("the frontend listens");
                Actor::new(stream, &board).play(&script, Then::Close)
            };
            small("client").spawn(play).unwrap()
        })
        .collect();
    let clients = clients
        .into_iter()
        .map(|client| {
            client.join().unwrap_or_else(|_| Heard {
                opened: Duration::ZERO,
                bytes: Vec::new(),
                at: Vec::new(),
                end: Some((End::Reset, Duration::ZERO)),
                stopped: Some("the client could not connect".into()),
            })
        })
        .collect();
    if servers.iter().any(RunningServer::listens) {
        loop {
            board.quiet();
            board.pause(SETTLE);
            if board.is_quiet() || board.start.elapsed() > LIMIT * 3 {
                break;
            }
        }
    }
    board.finish();
    let servers = servers.into_iter().map(RunningServer::finish).collect();
    Seen { clients, servers, ..Seen::default() }
}

enum RunningServer {
    Playing { addr: SocketAddrV4, accepting: thread::JoinHandle<()>, connections: Arc<Connections> },
    Refusing,
    Silent { _listener: TcpListener, _waiting: TcpStream },
}

impl RunningServer {
    fn start(addr: SocketAddrV4, kind: &Kind, board: &Arc<Board>) -> RunningServer {
        match kind {
            Kind::Refuses => RunningServer::Refusing,
            Kind::Silent => {
                let listener = bound(|| TcpListener::bind(addr));
                let full = thalweg_runtime::net::Listening { backlog: 0, no_quick_ack: false };
                thalweg_runtime::net::listener::listen(std::os::fd::AsFd::as_fd(&listener), full).unwrap();
                RunningServer::Silent { _waiting: TcpStream::connect(addr).unwrap(), _listener: listener }
            }
            Kind::Plays(scripts) => {
                let listener = bound(|| TcpListener::bind(addr));
                let connections = Arc::new(Connections::default());
                let (scripts, board, into) = (scripts.clone(), Arc::clone(board), Arc::clone(&connections));
                let accepting = small("server").spawn(move || accept(&listener, &scripts, &board, &into));
                RunningServer::Playing { addr, accepting: accepting.unwrap(), connections }
            }
        }
    }

    fn listens(&self) -> bool {
        matches!(self, RunningServer::Playing { .. })
    }

    /// Ends all connections, when the exchange is over.
    fn finish(self) -> Vec<Heard> {
        let RunningServer::Playing { addr, accepting, connections } = self else { return Vec::new() };
        let _ = TcpStream::connect(addr);
        let _ = accepting.join();
        for handle in std::mem::take(&mut *connections.handles.lock().unwrap()) {
            handle.finish();
        }
        let playing = std::mem::take(&mut *connections.playing.lock().unwrap());
        playing.into_iter().map(|conn| conn.join().expect("a script does not panic")).collect()
    }
}

fn accept(listener: &TcpListener, scripts: &[Script], board: &Arc<Board>, into: &Connections) {
    for number in 0.. {
        let Ok((stream, _)) = listener.accept() else { return };
        if board.is_over() {
            return;
        }
        let actor = Actor::new(stream, board);
        into.handles.lock().unwrap().push(actor.handle());
        let script = scripts.get(number).or(scripts.last()).cloned().unwrap_or_default();
        let conn = small("connection").spawn(move || actor.play(&script, Then::Stay)).unwrap();
        into.playing.lock().unwrap().push(conn);
    }
}
