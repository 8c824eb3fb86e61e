//! Every timeout of the manual, in virtual time: a real configuration, the real data path on one thread of the
//! simulator, and a client and a server that play a script. What is looked at is when the proxy ended what, and the
//! state in its log line. The times are those of the reference, which was given the same scripts in real time.

#[path = "support/scene.rs"]
mod scene;

use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

use thalweg_runtime::driver::sim::{self, Network, SimConfig};
use thalweg_runtime::net::{Datagram, DatagramOptions};
use thalweg_runtime::{clock, spawn, timer};

use scene::Do::{self, *};
use scene::{BACK, FRONT, LOG, SCRIPT, Seen, accept, address, begin, play, to_front};

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
    /// Another client, which comes 100 ms before.
    first: Option<Vec<Do>>,
    /// Whoever asks for a connection after the client gets no answer.
    unanswered: bool,
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
            first: None,
            unanswered: false,
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

    fn after(mut self, script: &[Do]) -> Case {
        self.first = Some(script.to_vec());
        self
    }

    fn unanswered(mut self) -> Case {
        self.unanswered = true;
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
    let (first_script, unanswered) = (case.first.clone(), case.unanswered);
    let name = case.name;
    // What a worker holds lives as long as its thread.
    std::thread::spawn(move || {
        let seen: Rc<RefCell<Vec<_>>> = Seen::default();
        let told = seen.clone();
        let report = sim::run(seed, sim, move |network: Network| async move {
            let mut log = Datagram::bind(&address(LOG), &DatagramOptions::default()).unwrap();
            let began = clock::now_ms() + if first_script.is_some() { 100 } else { 0 };
            let told_too = told.clone();
            accept(BACK, move |stream| {
                play(stream, server_script.clone(), "server", told_too.clone(), began)
            });
            begin(&network, name, &text, Vec::new());
            if let Some(script) = first_script {
                let stream = to_front().await;
                spawn(&SCRIPT, play(stream, script, "first", told.clone(), began));
                timer::sleep_until(began).await;
            }
            let client = to_front().await;
            if unanswered {
                network.configure(|c| c.unanswered_ppm = 1_000_000);
            }
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

const GET: Do = Say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
const TWO: Do = Say("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
const POST: Do = Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
const PART: Do = Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nx");
const PART_OF_MANY: Do = Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx");
const LARGE: Do = Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4194304\r\n\r\n");
const ANSWER: Do = Say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
const BEGIN: Do = Say("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nx");
const ENDLESS: Do = Say("HTTP/1.1 200 OK\r\n\r\nx");

#[test]
fn a_response_that_does_not_come() {
    check(
        "http",
        &[
            Case::new("quiet", "timeout server 1s", ("sH 504", 1000)).client(&[GET]).server(&[Head]),
            Case::new("a head that trickles", "timeout server 1s", ("sH 504", 1000))
                .client(&[GET])
                .server(&[Head, Say("HTTP/1.1 200 OK\r\n"), DripFields(400, 9)]),
            Case::new("an interim response begins it anew", "timeout server 1s", ("sH 504", 1600))
                .client(&[GET])
                .server(&[Head, Idle(600), Say("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n")]),
            Case::new("a client that sends more meanwhile", "timeout server 1s", ("sH 504", 1000))
                .client(&[GET, Drip(400, 9)])
                .server(&[Head]),
            Case::new("after a body that trickled", "timeout server 1s;timeout client 3s", ("sH 504", 3000))
                .client(&[PART, Drip(400, 5)])
                .server(&[Head]),
            Case::new("a request that is not taken", "timeout server 1s", ("SH 502", 1000))
                .client(&[LARGE, Flood(4_194_304)])
                .server(&[Head, Idle(30_000)]),
            Case::new(
                "while the client is not waited for",
                "timeout client 1s;timeout server 4s",
                ("SH 502", 4000),
            )
            .client(&[LARGE, Flood(4_194_304)])
            .server(&[Head, Idle(30_000)]),
        ],
    );
}

#[test]
fn a_body_that_does_not_come() {
    check(
        "http",
        &[
            Case::new("request", "timeout client 1s", ("cH 400", 1000)).client(&[PART]).server(&[Head]),
            Case::new("request, trickling", "timeout client 1s", ("cH 400", 1800))
                .client(&[PART, Drip(400, 2)])
                .server(&[Head]),
            Case::new(
                "request, while nothing is due from the server",
                "timeout server 1s;timeout client 3s",
                ("cH 400", 3000),
            )
            .client(&[PART])
            .server(&[Head]),
            Case::new("request, after an early response", "timeout client 1s", ("cL 200", 1000))
                .client(&[PART])
                .server(&[Head, ANSWER]),
            Case::new("request, after a later early response", "timeout client 1s", ("cL 200", 1600))
                .client(&[PART])
                .server(&[Head, Idle(600), ANSWER]),
            Case::new(
                "request, with a part of the response",
                "timeout client 1s;timeout server 500ms",
                ("cD 200", 1000),
            )
            .client(&[PART])
            .server(&[Head, BEGIN]),
            Case::new("response", "timeout server 1s", ("sD 200", 1500)).client(&[GET]).server(&[
                Head,
                Idle(500),
                BEGIN,
            ]),
            Case::new("response, trickling", "timeout server 1s;timeout client 1s", ("sD 200", 2800))
                .client(&[GET])
                .server(&[Head, BEGIN, Drip(600, 3)]),
            Case::new("response, after the request was complete", "timeout server 1s", ("sD 200", 3000))
                .client(&[PART, Drip(400, 5)])
                .server(&[Head, BEGIN]),
            Case::new("response that is not taken", "timeout client 1s", ("cD 200", 1000))
                .client(&[GET, Idle(30_000)])
                .server(&[Head, Say("HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n"), Flood(4_194_304)]),
            Case::new(
                "while the server is not waited for",
                "timeout client 4s;timeout server 1s",
                ("cD 200", 4000),
            )
            .client(&[GET, Idle(30_000)])
            .server(&[
                Head,
                Say("HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n"),
                Flood(4_194_304),
            ]),
        ],
    );
}

#[test]
fn before_a_server_is_asked() {
    check(
        "http",
        &[
            Case::new("http-request, quiet", "timeout http-request 1s", ("cR 408", 1000)),
            Case::new("http-request, trickling", "timeout http-request 1s", ("cR 408", 1000))
                .client(&[Say("GET / HTTP/1.1\r\n"), DripFields(300, 9)]),
            Case::new("client, quiet", "timeout client 1s", ("cR 408", 1000)),
            Case::new("client, trickling", "timeout client 1s", ("cR 408", 4000))
                .client(&[Say("GET / HTTP/1.1\r\n"), DripFields(600, 5)]),
            Case::new(
                "client before http-request",
                "timeout client 1s;timeout http-request 2s",
                ("cR 408", 1000),
            ),
            Case::new(
                "client before http-request, in a head",
                "timeout client 1s;timeout http-request 2s",
                ("cR 408", 1300),
            )
            .client(&[Say("GET / HTTP/1.1\r\n"), DripFields(300, 1)]),
            Case::new("tarpit, quiet", "timeout tarpit 1s", ("PT 500", 1000))
                .frontend("http-request tarpit")
                .client(&[GET]),
            Case::new("tarpit, a body on its way", "timeout tarpit 1s", ("PT 500", 1000))
                .frontend("http-request tarpit")
                .client(&[PART_OF_MANY, Drip(300, 9)]),
            Case::new("tarpit, trickling", "timeout tarpit 1s", ("PT 500", 1000))
                .frontend("http-request tarpit")
                .client(&[GET, Drip(300, 9)]),
            Case::new("inspect-delay", "", ("PR -1", 1000))
                .frontend("tcp-request inspect-delay 1s;tcp-request content reject if WAIT_END")
                .client(&[GET]),
            Case::new("a body to be buffered", "timeout http-request 1s", ("cR 408", 1000))
                .frontend("option http-buffer-request")
                .client(&[PART, Drip(300, 4)]),
            Case::new("wait-for-body", "", ("cR 408", 1000))
                .frontend("http-request wait-for-body time 1s")
                .client(&[PART, Drip(300, 4)]),
            Case::new("a client that ends its body while rules pause", "", ("CR 400", 300))
                .frontend("http-request pause 1s")
                .client(&[PART, Idle(300), Fin]),
            Case::new("a client that resets while rules pause", "", ("CR -1", 300))
                .frontend("http-request pause 1s")
                .client(&[GET, Idle(300), Reset]),
            // What is left of its body is waited for after the line, and not for ever.
            Case::new("a body that nobody wants", "timeout client 2s", ("PR 403", 0))
                .frontend("http-request deny")
                .client(&[PART_OF_MANY, Drip(500, 6)])
                // It looks once it has said this.
                .client_ends(3000),
            Case::new("inspect-delay of responses", "", ("PD -1", 1000))
                .backend("tcp-response inspect-delay 1s;tcp-response content reject if WAIT_END")
                .client(&[GET])
                .server(&[Head, BEGIN]),
            Case::new("inspect-delay of responses that are all there", "", ("PD -1", 0))
                .backend("tcp-response inspect-delay 1s;tcp-response content reject if { res.len gt 0 }")
                .client(&[GET])
                .server(&[Head, ANSWER]),
        ],
    );
    check(
        "tcp",
        &[
            Case::new("a client that resets while rules wait for more", "", ("CR", 300))
                .frontend("tcp-request inspect-delay 1s;tcp-request content accept if { req.len gt 10 }")
                .client(&[Say("x"), Idle(300), Reset]),
            Case::new("a client that said nothing leaves between two attempts", "retries 3", ("CC", 300))
                .backend("server s 10.0.0.9:80")
                .client(&[Idle(300), Fin]),
            Case::new("a client that said nothing leaves a queue", "", ("CQ", 300))
                .backend("server s 10.0.0.2:80 maxconn 1")
                .after(&[Say("x")])
                .client(&[Idle(300), Fin]),
            Case::new("a client that resets between two attempts", "retries 3", ("CD", 300))
                .backend("server s 10.0.0.9:80")
                .client(&[Say("x"), Idle(300), Reset]),
            Case::new("a client that resets while rules wait for the server", "", ("CD", 300))
                .backend("tcp-response inspect-delay 1s;tcp-response content accept if { res.len gt 10 }")
                .client(&[Say("x"), Idle(300), Reset]),
            Case::new("a server that resets while rules wait for more", "", ("SD", 300))
                .backend("tcp-response inspect-delay 1s;tcp-response content accept if { res.len gt 10 }")
                .server(&[Say("x"), Idle(300), Reset]),
            Case::new("a client that ends while rules wait for the server", "", ("--", 300))
                .backend("tcp-response inspect-delay 1s;tcp-response content accept if { res.len gt 10 }")
                .client(&[Say("x"), Idle(300), Fin])
                .server(&[UntilEnd, Close])
                .server_ends(300),
            Case::new("inspect-delay counts towards timeout tunnel", "timeout tunnel 1500ms", ("cD", 1500))
                .backend("tcp-response inspect-delay 1s;tcp-response content accept if { res.len gt 10 }"),
            Case::new("a client that resets in a queue", "", ("CD", 300))
                .backend("server s 10.0.0.2:80 maxconn 1")
                .after(&[Say("x")])
                .client(&[Say("x"), Idle(300), Reset]),
            Case::new("inspect-delay, quiet", "", ("PR", 1000))
                .frontend("tcp-request inspect-delay 1s;tcp-request content reject if WAIT_END"),
            Case::new("inspect-delay, trickling", "", ("PR", 1000))
                .frontend("tcp-request inspect-delay 1s;tcp-request content reject if WAIT_END")
                .client(&[Drip(300, 9)]),
            Case::new("inspect-delay of responses", "", ("PD", 1000))
                .backend("tcp-response inspect-delay 1s;tcp-response content reject if WAIT_END")
                .server(&[Drip(300, 9)]),
            Case::new("a variable that is set waits for nothing", "", ("PR", 0)).frontend(
                "tcp-request inspect-delay 1s;tcp-request content set-var(txn.n) req.len;\
                     tcp-request content reject if { var(txn.n) -m int eq 0 }",
            ),
            Case::new("a variable that is set takes what comes while others wait", "", ("PR", 300))
                .frontend(
                    "tcp-request inspect-delay 1s;tcp-request content set-var(txn.n) req.len;\
                     tcp-request content set-var(txn.m) int(1) if { req.len gt 2 };\
                     tcp-request content reject if { var(txn.n) -m int eq 3 }",
                )
                .client(&[Say("x"), Idle(300), Say("yz")]),
        ],
    );
}

#[test]
fn a_client_that_leaves() {
    let pauses = [Head, BEGIN];
    let mut cases = Vec::new();
    for (request, name) in [(GET, "GET"), (POST, "POST"), (TWO, "two requests")] {
        let mut case = |state, client: &[Do], server: &[Do]| {
            let case = Case::new(name, "", (state, 300)).client(client).server(server);
            cases.push(case.server_ends(300));
        };
        case("CH 400", &[request, Idle(300), Fin], &[Head]);
        case("CH 400", &[request, Idle(300), Close], &[Head]);
        case("CD 400", &[request, Idle(300), Reset], &[Head]);
        case("CD 200", &[request, Idle(300), Fin], &pauses);
        case("CD 200", &[request, Idle(300), Close], &pauses);
        case("CD 200", &[request, Idle(300), Reset], &pauses);
        // A response without an end of its own is like a tunnel: the client's end is passed on.
        case("CD 200", &[request, Idle(300), Reset], &[Head, ENDLESS]);
        cases.push(
            Case::new("endless", "timeout server 2s", ("sD 200", 2000))
                .client(&[request, Idle(300), Fin])
                .server(&[Head, ENDLESS])
                .server_ends(300),
        );
    }
    // Who ended its direction while a response waited for it may read late, and gets all of it, also when the server pauses.
    const LONG: Do = Say("HTTP/1.1 200 OK\r\nContent-Length: 4194305\r\n\r\n");
    cases.push(
        Case::new("never reads", "timeout client 1s", ("cD 200", 1000))
            .client(&[GET, Idle(300), Fin, Idle(30_000)])
            .server(&[Head, LONG, Flood(PIPES)]),
    );
    cases.push(
        Case::new("reads late", "timeout client 1s", ("-- 200", 1300))
            .client(&[GET, Idle(300), Fin, Idle(500)])
            .server(&[Head, LONG, Flood(PIPES), Idle(500), Say("x")]),
    );
    // While what a client says behind its last request is read over, nothing is kept for its next one.
    const LAST: Do = Say("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nmore");
    cases.push(
        Case::new("its last request", "", ("-- 200", 200))
            .backend("http-reuse never")
            .client(&[LAST, Idle(30_000)])
            .server(&[Head, Idle(200), ANSWER])
            .server_ends(200),
    );
    let stays = "no option abortonclose;timeout server 1s";
    cases.push(
        Case::new("without abortonclose", stays, ("sH 504", 1000))
            .client(&[POST, Idle(300), Fin])
            .server(&[Head]),
    );
    cases.push(
        Case::new("without abortonclose", stays, ("sD 200", 1000))
            .client(&[GET, Idle(300), Fin])
            .server(&pauses),
    );
    cases.push(
        Case::new("without abortonclose", stays, ("CD 400", 300))
            .client(&[GET, Idle(300), Reset])
            .server(&[Head]),
    );
    for ending in [Fin, Close, Reset] {
        let state = "CC -1";
        // Nobody listens there; the next attempt is due a second later.
        let dead = "server s 10.0.0.9:80";
        cases.push(Case::new("retry", "retries 3", (state, 300)).backend(dead).client(&[
            TWO,
            Idle(300),
            ending,
        ]));
        cases.push(Case::new("refused", "", ("CC -1", 0)).backend(dead).client(&[GET, ending]));
        let rest = Case::new("body to be buffered", "", ("CR 400", 300));
        cases.push(rest.frontend("option http-buffer-request").client(&[PART, Idle(300), ending]));
    }
    check("http", &cases);
}

#[test]
fn attempts_on_servers_that_are_not_there() {
    let dead = "server a 10.0.0.8:80";
    let two = "server a 10.0.0.8:80;server b 10.0.0.9:80";
    check(
        "http",
        &[
            Case::new("one server", "retries 2", ("SC 503", 2000)).backend(dead).client(&[GET]),
            Case::new("one server, redispatch", "retries 2;option redispatch", ("SC 503", 2000))
                .backend(dead)
                .client(&[GET]),
            Case::new("one server, redispatch each time", "retries 2;option redispatch 1", ("SC 503", 2000))
                .backend(dead)
                .client(&[GET]),
            Case::new(
                "the delay is at most timeout connect",
                "retries 2;timeout connect 300ms",
                ("SC 503", 600),
            )
            .backend(dead)
            .client(&[GET]),
            Case::new("two servers, redispatch", "retries 2;option redispatch", ("SC 503", 0))
                .backend(two)
                .client(&[GET]),
            Case::new("two servers", "retries 2", ("SC 503", 2000)).backend(two).client(&[GET]),
        ],
    );
    check(
        "tcp",
        &[
            Case::new("one server, redispatch", "retries 2;option redispatch", ("SC", 2000)).backend(dead),
            Case::new("two servers, redispatch", "retries 2;option redispatch", ("SC", 0)).backend(two),
        ],
    );
}

#[test]
fn between_requests_in_queues_and_while_connecting() {
    let answers = [Head, ANSWER];
    check(
        "http",
        &[
            Case::new("http-keep-alive", "timeout http-keep-alive 1s", ("-- 200", 0))
                .client(&[GET])
                .server(&answers)
                .client_ends(1000),
            Case::new(
                "http-keep-alive, not http-request",
                "timeout http-keep-alive 1s;timeout http-request 2s",
                ("-- 200", 0),
            )
            .client(&[GET])
            .server(&answers)
            .client_ends(1000),
            Case::new(
                "http-keep-alive, a head that begins",
                "timeout http-keep-alive 1s;timeout http-request 2s",
                ("-- 200", 0),
            )
            .client(&[GET, Idle(400), Say("GET / HTTP/1.1\r\n"), DripFields(300, 6)])
            .server(&answers)
            .client_ends(2400),
            Case::new("http-request instead", "timeout http-request 1s", ("-- 200", 0))
                .client(&[GET])
                .server(&answers)
                .client_ends(1000),
            Case::new("client instead", "timeout client 1s", ("-- 200", 0))
                .client(&[GET])
                .server(&answers)
                .client_ends(1000),
            Case::new(
                "empty lines do not count",
                "timeout http-keep-alive 1s;timeout http-request 2s",
                ("-- 200", 0),
            )
            .client(&[GET, Idle(400), Say("\r\n"), Idle(400), Say("\r\n"), Idle(400), Say("\r\n")])
            .server(&answers)
            .client_ends(2400),
            Case::new("queue", "timeout queue 1s", ("sQ 503", 1000))
                .backend("server s 10.0.0.2:80 maxconn 1")
                .after(&[GET])
                .client(&[GET, Drip(300, 9)])
                .server(&[Head]),
            Case::new("connect in place of queue", "timeout connect 1s", ("sQ 503", 1000))
                .backend("server s 10.0.0.2:80 maxconn 1")
                .after(&[GET])
                .client(&[GET])
                .server(&[Head]),
            Case::new("a client that leaves a queue", "", ("CQ -1", 300))
                .backend("server s 10.0.0.2:80 maxconn 1")
                .after(&[GET])
                .client(&[TWO, Idle(300), Fin])
                .server(&[Head]),
            Case::new("a client that gives its slot back", "", ("CH 400", 200))
                .backend("server s 10.0.0.2:80 maxconn 1")
                .after(&[POST, Idle(300), Fin])
                .client(&[GET])
                .server(&[Head]),
            Case::new("connect", "timeout connect 1s", ("sC 503", 1000)).client(&[GET]).unanswered(),
            Case::new("connect, trickling", "timeout connect 1s", ("sC 503", 1000))
                .client(&[PART_OF_MANY, Drip(300, 9)])
                .unanswered(),
            Case::new("connect, retried", "timeout connect 1s;retries 2", ("sC 503", 3000))
                .client(&[GET])
                .unanswered(),
            Case::new("a client that leaves while connecting", "", ("CC -1", 300))
                .client(&[TWO, Idle(300), Fin])
                .unanswered(),
        ],
    );
    let speaks_first = "tcp-request inspect-delay 5s;tcp-request content accept if { req.len gt 0 }";
    check(
        "tcp",
        &[
            Case::new("connect", "timeout connect 1s", ("sC", 1000))
                .frontend(speaks_first)
                .client(&[Say("x")])
                .unanswered(),
            Case::new("connect, trickling", "timeout connect 1s", ("sC", 1000))
                .frontend(speaks_first)
                .client(&[Say("x"), Drip(300, 9)])
                .unanswered(),
            Case::new("queue", "timeout queue 1s", ("sQ", 1000))
                .backend("server s 10.0.0.2:80 maxconn 1")
                .after(&[Say("x")])
                .client(&[Say("x")]),
            Case::new("queue, trickling", "timeout queue 1s", ("sQ", 1000))
                .backend("server s 10.0.0.2:80 maxconn 1")
                .after(&[Say("x")])
                .client(&[Say("x"), Drip(300, 9)]),
        ],
    );
}

/// The line of a health check says how long it took, whatever its server does but answer.
#[test]
fn health_checks() {
    let limits = [("timeout check 1s", 1000), ("timeout check 700ms;timeout connect 200ms", 700)];
    let servers: [&[Do]; 4] = [
        &[Idle(60_000)],
        &[Head],
        &[Head, Say("HTTP/1.1 200 OK\r\n")],
        &[Head, Say("HTTP/1.1 200 OK\r\n"), DripFields(300, 99)],
    ];
    for ((defaults, expected), server) in
        limits.iter().flat_map(|limit| servers.map(|server| (limit, server)))
    {
        let mut case = Case::new("check", "", ("", 0)).server(server);
        let defaults = format!("{defaults};option log-health-checks");
        case.backend = "option httpchk;server s 10.0.0.2:80 check inter 2s fall 1";
        let text = configuration("http", &case)
            .replace("retries 0\n", &format!("{}\n", defaults.replace(';', "\n ")));
        let seen = run(3, SimConfig::faultless(), text, &case);
        let line = &seen.iter().find(|(by, ..)| *by == "log").expect("a line").2;
        let took = line.split("check duration: ").nth(1).and_then(|rest| rest.split("ms").next());
        let took: u64 = took.and_then(|ms| ms.parse().ok()).unwrap_or_else(|| panic!("{line}"));
        assert!(line.contains("Layer7 timeout") && is_about(took, *expected), "{server:?}: {line}");
    }
}
