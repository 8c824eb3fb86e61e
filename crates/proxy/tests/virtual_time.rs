//! Every timeout of the manual, in virtual time: a real configuration, the real data path on one thread of the
//! simulator, and a client and a server that play a script. What is looked at is when the proxy ended what, and the
//! state in its log line. The times are those of the reference, which was given the same scripts in real time.

use std::cell::RefCell;
use std::fmt::Write;
use std::net::SocketAddr;
use std::rc::Rc;

use thalweg_config::{Input, LoadOptions};
use thalweg_proxy::{Instance, ThreadSocket};
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::driver::sim::{self, Network, SimConfig};
use thalweg_runtime::net::{ConnectOptions, Datagram, DatagramOptions, Listener, SockAddr, Stream};
use thalweg_runtime::{Kind, clock, spawn, timer};

static SCRIPT: Kind = Kind::new("script");
const FRONT: &str = "10.0.0.1:80";
const BACK: &str = "10.0.0.2:80";
const LOG: &str = "10.0.0.3:514";

/// What a client or a server does.
#[derive(Clone, Copy, Debug)]
enum Do {
    /// Sends bytes.
    Say(&'static str),
    /// Sends so many bytes, more than fit anywhere.
    Flood(usize),
    /// Reads a head.
    Head,
    /// Does nothing, and reads nothing.
    Idle(u64),
    /// Sends a byte each so many milliseconds, so many times.
    Drip(u64, u32),
    /// Reads until the other side ends its direction, or breaks the connection.
    UntilEnd,
    /// Stops sending.
    Fin,
    Close,
}
use Do::*;

struct Case {
    name: &'static str,
    /// Lines of the sections; the others are the same in all cases.
    defaults: &'static str,
    frontend: &'static str,
    backend: &'static str,
    client: Vec<Do>,
    server: Vec<Do>,
    /// State and millisecond of the log line.
    log: (&'static str, u64),
    /// When client and server saw the end of what is sent to them, where that matters.
    ends: (Option<u64>, Option<u64>),
}

impl Case {
    fn new(name: &'static str, defaults: &'static str, log: (&'static str, u64)) -> Case {
        Case {
            name,
            defaults,
            frontend: "",
            backend: "",
            client: Vec::new(),
            server: Vec::new(),
            log,
            ends: (None, None),
        }
    }

    fn frontend(mut self, lines: &'static str) -> Case {
        self.frontend = lines;
        self
    }

    fn backend(mut self, lines: &'static str) -> Case {
        self.backend = lines;
        self
    }

    fn client(mut self, script: &[Do]) -> Case {
        self.client = script.to_vec();
        self
    }

    fn server(mut self, script: &[Do]) -> Case {
        self.server = script.to_vec();
        self
    }

    fn client_ends(mut self, at: u64) -> Case {
        self.ends.0 = Some(at);
        self
    }

    fn server_ends(mut self, at: u64) -> Case {
        self.ends.1 = Some(at);
        self
    }
}

/// What happened: by whom it was seen, when, and what.
type Seen = Rc<RefCell<Vec<(&'static str, u64, String)>>>;

async fn play(mut stream: Stream, script: Vec<Do>, who: &'static str, seen: Seen, began: u64) {
    let mut received: Vec<u8> = Vec::new();
    for step in script {
        match step {
            Say(text) => say(&mut stream, text.as_bytes()).await,
            Flood(len) => {
                let mut left = len;
                while left > 0 && stream.send_ready().await.is_ok() {
                    let n = left.min(16_384);
                    stream.start_send(Buf::copy_of(&vec![b'z'; n]));
                    left -= n;
                }
            }
            Head => {
                while !received.windows(4).any(|w| w == b"\r\n\r\n") {
                    match stream.recv(4096).await {
                        Ok(buf) if !buf.is_empty() => received.extend_from_slice(&buf),
                        _ => break,
                    }
                }
                received.clear();
            }
            Idle(ms) => timer::sleep(ms).await,
            Drip(ms, times) => {
                for _ in 0..times {
                    timer::sleep(ms).await;
                    say(&mut stream, b"x").await;
                }
            }
            UntilEnd => until_end(&mut stream, who, &seen, began).await,
            Fin => _ = stream.shutdown_write(),
            Close => return,
        }
    }
    until_end(&mut stream, who, &seen, began).await;
    // The end of one direction is not that of the other.
    timer::sleep(60_000).await;
}

async fn until_end(stream: &mut Stream, who: &'static str, seen: &Seen, began: u64) {
    loop {
        match stream.recv(65_536).await {
            Ok(buf) if !buf.is_empty() => {}
            end => {
                let how = if end.is_ok() { "end" } else { "reset" };
                return seen.borrow_mut().push((who, clock::now_ms() - began, how.to_owned()));
            }
        }
    }
}

async fn say(stream: &mut Stream, bytes: &[u8]) {
    if stream.send_ready().await.is_ok() {
        stream.start_send(Buf::copy_of(bytes));
    }
}

fn address(text: &str) -> SockAddr {
    text.parse::<SocketAddr>().unwrap().into()
}

fn configuration(mode: &str, case: &Case) -> String {
    let format = if mode == "http" { "%ts %ST" } else { "%ts" };
    format!(
        "global\n log {LOG} format raw local0\ndefaults\n mode {mode}\n log global\n log-format \"{format}\"\n \
         timeout connect 9s\n timeout client 9s\n timeout server 9s\n retries 0\n {}\nfrontend fe\n bind {FRONT}\n {}\n \
         default_backend be\nbackend be\n {}\n{}",
        case.defaults.replace(';', "\n "),
        case.frontend.replace(';', "\n "),
        case.backend.replace(';', "\n "),
        if case.backend.contains("server ") { String::new() } else { format!(" server s {BACK}\n") }
    )
}

/// Plays one case and returns what was seen.
fn run(seed: u64, sim: SimConfig, text: String, case: &Case) -> Vec<(&'static str, u64, String)> {
    let (client_script, server_script) = (case.client.clone(), case.server.clone());
    let name = case.name;
    // What a worker holds lives as long as its thread.
    std::thread::spawn(move || {
        let seen: Rc<RefCell<Vec<_>>> = Seen::default();
        let told = seen.clone();
        let report = sim::run(seed, sim, move |network: Network| async move {
            let input = Input::Memory { name: name.into(), text: text.into_bytes() };
            let loaded =
                thalweg_config::load(&LoadOptions { files: vec![input], cpus: 1, ..LoadOptions::default() });
            let mut config =
                loaded.config.unwrap_or_else(|| panic!("{name}: the configuration is not valid"));
            config.global.nbthread = 1;
            let proxy = config.proxies.iter().find(|p| &*p.name == "fe").unwrap().id;
            let mut log = Datagram::bind(&address(LOG), &DatagramOptions::default()).unwrap();
            let fd = network.listen(&address(FRONT), &Default::default()).unwrap();
            let mut server = Listener::bind(&address(BACK), &Default::default()).unwrap();
            let instance = Instance::new(config, "thalweg", "host", clock::wall_us());
            thalweg_proxy::start_thread(&instance, 0, vec![ThreadSocket { proxy, bind: 0, fd }]);
            let began = clock::now_ms();
            let told_too = told.clone();
            spawn(&SCRIPT, async move {
                while let Ok((fd, _)) = server.accept().await {
                    let Ok(stream) = Stream::from_accepted(fd) else { return };
                    spawn(&SCRIPT, play(stream, server_script.clone(), "server", told_too.clone(), began));
                }
            });
            let client = Stream::connect(&address(FRONT), &ConnectOptions::default()).await.unwrap();
            spawn(&SCRIPT, play(client, client_script, "client", told.clone(), began));
            let logged = async {
                let received = log.recv_from().await.unwrap();
                String::from_utf8_lossy(&received.bytes).trim().to_owned()
            };
            match timer::timeout_at(Some(began + 30_000), logged).await {
                Ok(line) => told.borrow_mut().push(("log", clock::now_ms() - began, line)),
                Err(_) => told.borrow_mut().push(("log", 30_000, "none".to_owned())),
            }
            // What the proxy still holds after its line, such as a connection that is closed in order.
            timer::sleep(20_000).await;
        });
        assert_eq!((&report.verdict, &report.incidents), (&None, &Vec::new()), "{name}");
        seen.take()
    })
    .join()
    .unwrap_or_else(|_| panic!("{}: the scenario panicked", case.name))
}

/// Not before its time, and at most a twentieth later.
fn is_about(at: u64, expected: u64) -> bool {
    // A round of the simulator takes up to 3 ms, a packet a fraction of one.
    at + 4 >= expected && at <= expected + expected / 20 + 4
}

fn check(mode: &str, cases: &[Case]) {
    let mut wrong = String::new();
    for case in cases {
        for deferred_sends in [false, true] {
            let sim = SimConfig { deferred_sends, ..SimConfig::faultless() };
            let seen = run(7, sim, configuration(mode, case), case);
            let find = |who: &str| seen.iter().find(|(by, ..)| *by == who);
            let logged =
                find("log").is_some_and(|(_, at, line)| is_about(*at, case.log.1) && *line == case.log.0);
            let ended = |who, at: Option<u64>| {
                at.is_none_or(|expected| find(who).is_some_and(|(_, at, _)| is_about(*at, expected)))
            };
            if !logged || !ended("client", case.ends.0) || !ended("server", case.ends.1) {
                let _ = writeln!(
                    wrong,
                    "{mode} {} (deferred sends: {deferred_sends}): expected {:?}, ends {:?}, saw {seen:?}",
                    case.name, case.log, case.ends
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A relay in TCP mode and after an upgrade. Both begin with the client's or server's script at 0 ms.
fn relays(cases: Vec<Case>) {
    check("tcp", &cases);
    let upgraded: Vec<Case> = cases
        .into_iter()
        .filter(|case| !case.name.ends_with("(tcp)"))
        .map(|mut case| {
            let hello =
                [Say("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n"), Head];
            let answer = [
                Head,
                Say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n"),
            ];
            case.client.splice(0..0, hello);
            case.server.splice(0..0, answer);
            case.log.0 = match case.log.0 {
                "cD" => "cD 101",
                "sD" => "sD 101",
                "CD" => "CD 101",
                "SD" => "SD 101",
                other => other,
            };
            case
        })
        .collect();
    check("http", &upgraded);
}

const PIPES: usize = 4 << 20;

#[test]
fn a_silent_side_ends_its_own_direction() {
    relays(vec![
        Case::new("client", "timeout client 1s;timeout server 3s", ("cD", 3000))
            .server_ends(1000)
            .client_ends(3000),
        Case::new("server", "timeout client 3s;timeout server 1s", ("sD", 3000))
            .client_ends(1000)
            .server_ends(3000),
        Case::new("both", "timeout client 1s;timeout server 1s", ("cD", 1000)),
        Case::new("a server that leaves when told", "timeout client 1s", ("cD", 1000))
            .server(&[UntilEnd, Close]),
        Case::new("a client that leaves when told", "timeout server 1s", ("sD", 1000))
            .client(&[UntilEnd, Close]),
    ]);
}

#[test]
fn traffic_in_one_direction_is_a_sign_of_life_of_both_sides() {
    relays(vec![
        Case::new("up", "timeout client 1s;timeout server 1s", ("cD", 3000)).client(&[Drip(400, 5)]),
        Case::new("down", "timeout client 1s;timeout server 1s", ("cD", 3000)).server(&[Drip(400, 5)]),
        Case::new("up, independent", "timeout client 3s;timeout server 1s", ("sD", 5000))
            .backend("option independent-streams")
            .client(&[Drip(400, 5)]),
        Case::new("down, independent", "timeout client 1s;timeout server 3s", ("cD", 5000))
            .frontend("option independent-streams")
            .server(&[Drip(400, 5)]),
    ]);
}

#[test]
fn a_tunnel_has_one_limit_for_both_sides() {
    let limits = "timeout client 3s;timeout server 3s;timeout tunnel 1s";
    relays(vec![
        Case::new("quiet", limits, ("cD", 1000)),
        Case::new("up", limits, ("cD", 3000)).client(&[Drip(400, 5)]),
        Case::new("down", limits, ("cD", 3000)).server(&[Drip(400, 5)]),
        Case::new(
            "longer than the others",
            "timeout client 1s;timeout server 1s;timeout tunnel 3s",
            ("cD", 3000),
        ),
        Case::new("full", limits, ("cD", 1000)).server(&[Flood(PIPES), Idle(30_000)]).client(&[Idle(30_000)]),
    ]);
}

#[test]
fn whoever_takes_nothing_has_its_own_limit() {
    relays(vec![
        Case::new("client", "timeout client 1s;timeout server 4s", ("cD", 1000))
            .server(&[Flood(PIPES)])
            .client(&[Idle(30_000)]),
        Case::new(
            "client, while the server is not waited for",
            "timeout client 4s;timeout server 1s",
            ("cD", 4000),
        )
        .server(&[Flood(PIPES)])
        .client(&[Idle(30_000)]),
        Case::new("server", "timeout client 4s;timeout server 1s", ("sD", 1000))
            .client(&[Flood(PIPES)])
            .server(&[Idle(30_000)]),
        Case::new(
            "server, while the client is not waited for",
            "timeout client 1s;timeout server 4s",
            ("sD", 4000),
        )
        .client(&[Flood(PIPES)])
        .server(&[Idle(30_000)]),
    ]);
}

#[test]
fn after_one_direction_ended() {
    relays(vec![
        // Without limits of their own for that, the side that still may send is waited for as before.
        Case::new("client ended", "timeout client 1s;timeout server 3s", ("sD", 3000))
            .client(&[Idle(300), Fin]),
        Case::new("server ended", "timeout client 3s;timeout server 1s", ("cD", 3000))
            .server(&[Idle(300), Fin]),
        // The limit for a client is not for a server.
        Case::new("client ended, client-fin", "timeout server 4s;timeout client-fin 1s", ("sD", 4000))
            .client(&[Idle(300), Fin]),
        Case::new("server ended, server-fin", "timeout client 4s;timeout server-fin 1s", ("cD", 4000))
            .server(&[Idle(300), Fin]),
        // In TCP mode they replace the other limits, the one for tunnels too, and count from the last byte.
        Case::new("server-fin (tcp)", "timeout server-fin 1s;timeout tunnel 2s", ("sD", 1000))
            .client(&[Idle(300), Fin]),
        Case::new("client-fin (tcp)", "timeout client-fin 1s;timeout tunnel 2s", ("cD", 1000))
            .server(&[Idle(300), Fin]),
        Case::new("server-fin, long after the last byte (tcp)", "timeout server-fin 1s", ("sD", 1500))
            .client(&[Idle(1500), Fin]),
        Case::new("server-fin, trickling (tcp)", "timeout server-fin 1s", ("sD", 3000))
            .client(&[Idle(300), Fin])
            .server(&[Drip(400, 5)]),
        Case::new("client-fin, trickling (tcp)", "timeout client-fin 1s", ("cD", 3000))
            .server(&[Idle(300), Fin])
            .client(&[Drip(400, 5)]),
    ]);
    // After an upgrade they begin with the first sign of life after the end: the end itself ends nothing.
    let upgrade = Say("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n");
    let upgraded = Say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n");
    let client = |script: &[Do]| [&[upgrade, Head], script].concat();
    let server = |script: &[Do]| [&[Head, upgraded], script].concat();
    check(
        "http",
        &[
            Case::new("server-fin", "timeout server 4s;timeout server-fin 1s", ("sD 101", 4000))
                .client(&client(&[Idle(1500), Fin]))
                .server(&server(&[])),
            Case::new("client-fin", "timeout client 4s;timeout client-fin 1s", ("cD 101", 4000))
                .client(&client(&[]))
                .server(&server(&[Idle(1500), Fin])),
            Case::new("server-fin, trickling", "timeout server-fin 1s", ("SD 101", 3000))
                .client(&client(&[Idle(300), Fin]))
                .server(&server(&[Drip(400, 5)])),
            Case::new("client-fin, trickling", "timeout client-fin 1s", ("CD 101", 3000))
                .client(&client(&[Drip(400, 5)]))
                .server(&server(&[Idle(300), Fin])),
        ],
    );
}
