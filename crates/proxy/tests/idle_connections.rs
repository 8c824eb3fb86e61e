//! How many idle connections to a server are kept, and for how long, in virtual time. The numbers are those that the
//! reference showed in `show servers conn` for the same load.

#[path = "support/scene.rs"]
mod scene;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use scene::{FRONT, SCRIPT, accept, begin, to_front};
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::driver::sim::{self, Network, SimConfig};
use thalweg_runtime::net::Stream;
use thalweg_runtime::{spawn, timer};

const BACK: [&str; 2] = [scene::BACK, "10.0.0.3:80"];

/// Answers each request, 300 ms after its head.
async fn serve(mut stream: Stream) {
    let mut received = Vec::new();
    loop {
        match stream.recv(4096).await {
            Ok(buf) if !buf.is_empty() => received.extend_from_slice(&buf),
            _ => return,
        }
        while let Some(at) = received.windows(4).position(|w| w == b"\r\n\r\n") {
            received.drain(..at + 4);
            timer::sleep(300).await;
            stream.send_ready().await.unwrap();
            stream.start_send(Buf::copy_of(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
        }
    }
}

/// A client that keeps its connection after its requests.
async fn ask(mut stream: Stream, path: &'static str, times: u32) {
    for _ in 0..times {
        stream.send_ready().await.unwrap();
        stream.start_send(Buf::copy_of(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()));
        let mut received = Vec::new();
        while !received.ends_with(b"ok") {
            let buf = stream.recv(4096).await.unwrap();
            assert!(!buf.is_empty(), "the connection ended after {:?}", String::from_utf8_lossy(&received));
            received.extend_from_slice(&buf);
        }
    }
    timer::sleep(600_000).await;
}

/// Eight clients ask the first server at the same time, `times` each, one asks the second server. Returns, for both, how
/// many connections were idle and how many are needed, every second from half a second after the last answer on.
fn watch(options: [&str; 2], times: u32, seconds: usize) -> [Vec<(u64, u64)>; 2] {
    let text = format!(
        "defaults\n mode http\n timeout connect 9s\n timeout client 900s\n timeout server 900s\n\
         frontend fe\n bind {FRONT}\n use_backend b if {{ path /b }}\n default_backend a\n\
         backend a\n server s {} {}\nbackend b\n server s {} {}\n",
        BACK[0], options[0], BACK[1], options[1]
    );
    // What a worker holds lives as long as its thread.
    std::thread::spawn(move || {
        let seen: Rc<RefCell<[Vec<_>; 2]>> = Rc::default();
        let told = seen.clone();
        let report = sim::run(7, SimConfig::faultless(), move |network: Network| async move {
            for back in BACK {
                accept(back, serve);
            }
            let instance = begin(&network, "idle", &text, Vec::new());
            for i in 0..9 {
                spawn(&SCRIPT, ask(to_front().await, if i == 8 { "/b" } else { "/a" }, times));
            }
            timer::sleep(u64::from(times) * 305 + 500).await;
            for _ in 0..seconds {
                for (at, told) in told.borrow_mut().iter_mut().enumerate() {
                    let server = instance.servers.of(at, 0);
                    told.push((server.idle_connections.get(), server.needed_connections.get()));
                }
                timer::sleep(1000).await;
            }
        });
        assert_eq!((&report.verdict, &report.incidents), (&None, &Vec::new()));
        seen.take()
    })
    .join()
    .expect("the scenario does not panic")
}

#[test]
fn connections_in_excess_are_closed_by_halves() {
    let [a, _] = watch(["pool-purge-delay 1s", ""], 1, 7);
    assert_eq!(a, [(8, 8), (8, 8), (8, 4), (5, 2), (2, 1), (0, 0), (0, 0)]);
}

/// What one server's connections are allowed says nothing about another's.
#[test]
fn each_server_has_its_own_delay() {
    let [a, b] = watch(["pool-purge-delay 100ms", "pool-purge-delay 1h"], 1, 4);
    assert_eq!(a[3], (0, 0));
    assert_eq!(b, [(1, 1); 4]);
    let [a, b] = watch(["pool-purge-delay 1h", "pool-purge-delay 100ms"], 1, 4);
    assert_eq!(a, [(8, 8); 4]);
    assert_eq!(b[3], (0, 0));
}

/// Connections that are used all the time are needed, also when none is opened any more.
#[test]
fn what_is_used_again_is_needed() {
    // Forty rounds of 300 ms are twelve delays.
    let [a, _] = watch(["pool-purge-delay 1s", ""], 40, 1);
    assert_eq!(a, [(8, 8)]);
}

#[test]
fn without_a_delay_none_is_kept() {
    let [a, b] = watch(["pool-purge-delay 0", "pool-max-conn 0"], 2, 1);
    assert_eq!((a[0].0, b[0].0), (0, 0));
}

/// Of very many servers the connections are looked after in turns, with a rest between two looks: none is forgotten, whenever it came.
#[test]
fn connections_of_very_many_servers_are_closed() {
    const SERVERS: usize = 300;
    let servers: String =
        (0..SERVERS).map(|n| format!(" server s{n} {} pool-purge-delay 200ms\n", BACK[0])).collect();
    let text = format!(
        "global\n maxconn 5000\ndefaults\n mode http\n timeout connect 9s\n timeout client 900s\n timeout server 900s\n\
         frontend fe\n bind {FRONT}\n default_backend a\nbackend a\n{servers}"
    );
    std::thread::spawn(move || {
        let most = Rc::new(Cell::new(0));
        let told = most.clone();
        let report = sim::run(7, SimConfig::faultless(), move |network: Network| async move {
            accept(BACK[0], serve);
            let instance = begin(&network, "idle", &text, Vec::new());
            let idle = || (0..SERVERS).map(|n| instance.servers.of(n, 0).idle_connections.get()).sum::<u64>();
            for n in 0..SERVERS as u64 {
                spawn(&SCRIPT, ask(to_front().await, "/a", 1));
                timer::sleep(n % 3).await;
                told.set(idle().max(told.get()));
            }
            for _ in 0..200 {
                timer::sleep(20).await;
                told.set(idle().max(told.get()));
            }
            assert_eq!(idle(), 0);
        });
        assert_eq!((&report.verdict, &report.incidents), (&None, &Vec::new()));
        let most = most.get();
        assert!(most > 128, "{most} at once are few");
    })
    .join()
    .expect("the scenario does not panic");
}
