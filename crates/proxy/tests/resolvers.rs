//! Servers found by DNS over hours of virtual time: a real configuration, the real sockets of a section and the real servers on
//! one thread of the simulator, and a name server beside them. What is looked at is what the log says, and when.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use thalweg_config::{Input, LoadOptions};
use thalweg_proxy::Instance;
use thalweg_runtime::driver::sim::{self, Network, SimConfig};
use thalweg_runtime::net::{Datagram, DatagramOptions, SockAddr};
use thalweg_runtime::{clock, kill, spawn, timer};

#[path = "../../dns/tests/support/wire.rs"]
mod wire;

use thalweg_dns::message::{Kind, Question};
use wire::{Record, Reply};

const LOG: &str = "10.0.9.1:514";
const DNS: &str = "10.0.3.1:53";

static ACTOR: thalweg_runtime::Kind = thalweg_runtime::Kind::new("test");

/// What the name server says at a second to a question: nothing at all, or a reply.
type Zone = fn(u64, &Question) -> Option<Reply>;

fn address(text: &str) -> SockAddr {
    text.parse::<std::net::SocketAddr>().expect("an address").into()
}

fn is_v4(question: &Question) -> bool {
    question.kind == Kind::V4
}

/// One address for each name.
fn well(question: &Question) -> Option<Reply> {
    let name = question.name.as_str();
    Some(match is_v4(question) {
        true => Reply::of(vec![Record::address(name, "10.0.1.1")]),
        false => Reply::default(),
    })
}

/// Lets `seconds` pass, and returns the lines of the log with the second of each.
fn play(seed: u64, network: SimConfig, backend: &str, seconds: u64, zone: Zone) -> Vec<(u64, String)> {
    let backend = backend.to_owned();
    // What a worker holds lives as long as its thread.
    let played = std::thread::spawn(move || play_here(seed, network, &backend, seconds, zone));
    played.join().expect("the scenario panicked")
}

fn play_here(seed: u64, sim: SimConfig, backend: &str, seconds: u64, zone: Zone) -> Vec<(u64, String)> {
    let text = format!(
        "global\n log {LOG} format raw local0\n dns-accept-family ipv4\n quiet\ndefaults\n mode http\n log global\n timeout connect \
         1s\n timeout client 1s\n timeout server 1s\nresolvers dns\n nameserver ns {DNS}\nbackend be\n {backend}\n"
    );
    let lines: Rc<RefCell<Vec<(u64, String)>>> = Rc::default();
    let told = Rc::clone(&lines);
    let report = sim::run(seed, sim, move |network: Network| async move {
        let input = Input::Memory { name: "t.cfg".into(), text: text.into_bytes() };
        let loaded =
            thalweg_config::load(&LoadOptions { files: vec![input], cpus: 1, ..LoadOptions::default() });
        let mut config = loaded.config.expect("a valid configuration");
        config.global.nbthread = 1;
        let begun = clock::now_ms();
        let mut log = Datagram::bind(&address(LOG), &DatagramOptions::default()).expect("a socket");
        spawn(&ACTOR, async move {
            while let Ok(received) = log.recv_from().await {
                let second = (clock::now_ms() - begun) / 1000;
                told.borrow_mut().push((second, String::from_utf8_lossy(&received.bytes).into_owned()));
            }
        });
        let mut dns = Datagram::bind(&address(DNS), &DatagramOptions::default()).expect("a socket");
        spawn(&ACTOR, async move {
            while let Ok(received) = dns.recv_from().await {
                let (id, question) = wire::asked(&received.bytes);
                if let Some(reply) = zone((clock::now_ms() - begun) / 1000, &question) {
                    dns.queue_to(&reply.write(id, &question), &received.from);
                }
            }
        });
        let instance = Instance::new(config, "thalweg", "host", clock::wall_us());
        thalweg_proxy::start_thread(&instance, 0, Vec::new());
        timer::sleep(seconds * 1000).await;
        // What a proxy has as long as it runs.
        let me = thalweg_runtime::current_task();
        network.tasks().into_iter().filter(|(task, _)| *task != me).for_each(|(task, _)| kill(task));
    });
    assert_eq!((&report.verdict, &report.incidents), (&None, &Vec::new()));
    lines.take()
}

/// The seconds of the lines that contain a text.
fn seconds(lines: &[(u64, String)], text: &str) -> Vec<u64> {
    lines.iter().filter(|(_, line)| line.contains(text)).map(|(second, _)| *second).collect()
}

const SERVER: &str = "server s a.test:80 resolvers dns init-addr none";
const DOWN: &str = "going DOWN for maintenance";
const UP: &str = "is UP/READY (resolves again)";

#[test]
fn a_failure_is_noticed_when_its_hold_is_over() {
    // The usual hold of 30 s begins with the last answer, in second 59; lookups take two seconds of tries and one of rest. Silence
    // takes the last try, too.
    for (zone, reason, at) in [
        ((|at, q| if at < 60 { well(q) } else { Some(Reply::code(3)) }) as Zone, "DNS NX status", 89..=93),
        (|at, q| if at < 60 { well(q) } else { Some(Reply::code(5)) }, "DNS refused status", 89..=93),
        (|at, q| if at < 60 { well(q) } else { Some(Reply::code(2)) }, "unspecified DNS error", 89..=93),
        (|at, q| if at < 60 { well(q) } else { None }, "DNS timeout status", 89..=94),
    ] {
        let lines = play(1, SimConfig::faultless(), SERVER, 200, zone);
        let down = seconds(&lines, DOWN);
        assert_eq!(down.len(), 1, "{lines:?}");
        assert!(at.contains(&down[0]), "{reason} after {} s", down[0]);
        assert_eq!(seconds(&lines, reason), down);
        assert_eq!(seconds(&lines, UP), [0]);
    }
}

#[test]
fn an_hour_of_failures_is_one_line_and_its_end_another() {
    let zone: Zone = |at, question| match at {
        100..3700 => Some(Reply::code(2)),
        _ => well(question),
    };
    let lines = play(2, SimConfig::faultless(), SERVER, 5000, zone);
    let (down, up) = (seconds(&lines, DOWN), seconds(&lines, UP));
    assert!(matches!(down[..], [129..=134]), "{down:?}");
    assert!(matches!(up[..], [0, 3700..=3703]), "{up:?}");
    assert_eq!(seconds(&lines, "has no server available"), down);
}

#[test]
fn outages_shorter_than_the_hold_are_not_seen() {
    // Each minute 25 s of something else.
    let zone: Zone = |at, question| match (at % 60, at / 60 % 4) {
        (25..50, 0) => None,
        (25..50, 1) => Some(Reply::code(2)),
        (25..50, 2) => Some(Reply::code(3)),
        (25..50, _) => Some(Reply::default()),
        _ => well(question),
    };
    let lines = play(3, SimConfig::faultless(), SERVER, 2 * 3600, zone);
    assert_eq!(seconds(&lines, DOWN), [] as [u64; 0]);
    assert_eq!(lines.len(), 3, "only the beginning: {lines:?}");
}

#[test]
fn a_network_that_loses_doubles_and_mixes_datagrams_is_not_seen() {
    for seed in 0..5 {
        let network = SimConfig {
            datagram_loss_ppm: 200_000,
            datagram_twice_ppm: 100_000,
            datagram_reorder: true,
            latency_us: (1_000, 400_000),
            ..SimConfig::faultless()
        };
        let lines = play(seed, network, SERVER, 3600, |_, question| well(question));
        // The log itself loses lines, too.
        assert_eq!(seconds(&lines, DOWN), [] as [u64; 0], "{lines:?}");
        assert!(seconds(&lines, "IP changed").len() <= 2);
    }
}

thread_local! {
    static TURN: Cell<u64> = const { Cell::new(0) };
}

#[test]
fn a_name_server_that_shows_some_of_many_addresses_moves_nobody() {
    // Ten addresses, of which each answer has four, in another order each time; `hold obsolete` covers that.
    let zone: Zone = |_, question| {
        let turn = TURN.with(|turn| turn.replace(turn.get() + 1));
        let name = question.name.as_str();
        let some = (0..4).map(|i| Record::address(name, &format!("10.0.1.{}", (turn * 3 + i) % 10 + 1)));
        Some(if is_v4(question) { Reply::of(some.collect()) } else { Reply::default() })
    };
    let template = "server-template s 10 a.test:80 resolvers dns init-addr none";
    let held = format!("{template}\nresolvers held\n nameserver ns {DNS}\n hold obsolete 30s");
    let held = held.replacen("resolvers dns", "resolvers held", 1);
    let lines = play(4, SimConfig::faultless(), &held, 3600, zone);
    assert_eq!(seconds(&lines, "IP changed").len(), 10, "{lines:?}");
    assert_eq!(seconds(&lines, DOWN), [] as [u64; 0]);
}

#[test]
fn services_come_and_go_with_their_records() {
    // A host leaves its service for a minute of each ten, and another one comes for it.
    let zone: Zone = |at, question| {
        let name = question.name.as_str();
        Some(match question.kind {
            Kind::Service => {
                let second = if at % 600 < 540 { "x2.test" } else { "x3.test" };
                let of = |host, port| Record::service(name, (0, 256, port), host);
                Reply::of(vec![of("x1.test", 81), of(second, 82)])
            }
            Kind::V4 => {
                let host = name.as_bytes().get(1).copied().unwrap_or(b'0') - b'0';
                Reply::of(vec![Record::address(name, &format!("10.0.1.{host}"))])
            }
            Kind::V6 => Reply::default(),
        })
    };
    let lines = play(
        5,
        SimConfig::faultless(),
        "server-template s 2 _s._tcp.test resolvers dns init-addr none",
        3600,
        zone,
    );
    let removed = seconds(&lines, "(entry removed from SRV record)");
    // Twice in each of six turns, but for the last return.
    assert_eq!(removed.len(), 11, "{lines:?}");
    assert_eq!(seconds(&lines, UP).len(), 2 + 11);
    assert!(!lines.iter().any(|(_, line)| line.contains("s1 is going DOWN")), "the first one stays");
}
