//! A client of HTTP/2 that falls silent at any octet of any frame, in virtual time: the proxy waits without doing anything,
//! ends the connection when its timeouts say so, and keeps nothing of it.

#[path = "support/scene.rs"]
mod scene;

use scene::{BACK, FRONT, accept, begin, to_front};
use thalweg_h2::frame::{Header, Kind, PREFACE, flag};
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::driver::sim::{self, Network, SimConfig};
use thalweg_runtime::{clock, timer};

/// All timeouts, in milliseconds.
const TIMEOUT_MS: u64 = 1_000;

/// The timeouts that may follow each other: for the request or the response, between requests, and to leave.
const TIMEOUTS: u64 = 3;

/// Rounds in which nothing happens that are too many: who waits is woken for nothing then.
const IDLE_ROUNDS_MAX: u64 = 200;

fn frame(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&Header { len: payload.len(), kind, flags, stream }.encode()[..], payload].concat()
}

/// Frames of each kind that a client may send, the preface in front.
fn session() -> Vec<Vec<u8>> {
    const BOTH: u8 = flag::END_HEADERS | flag::END_STREAM;
    // Of the static table: POST or GET, http, `/`, and the authority `a`.
    let (post, get) = (b"\x83\x86\x84\x41\x01a", b"\x82\x86\x84\x41\x01a");
    vec![
        PREFACE.to_vec(),
        frame(Kind::Settings, 0, 0, &[0, 4, 0, 1, 0, 0]),
        frame(Kind::Settings, flag::ACK, 0, &[]),
        frame(Kind::WindowUpdate, 0, 0, &[0, 1, 0, 0]),
        frame(Kind::Priority, 0, 1, &[0, 0, 0, 0, 1]),
        frame(Kind::Headers, 0, 1, &post[..2]),
        frame(Kind::Continuation, flag::END_HEADERS, 1, &post[2..]),
        frame(Kind::Data, flag::PADDED, 1, b"\x03body\0\0\0"),
        frame(Kind::Data, 0, 1, b"more"),
        frame(Kind::Ping, 0, 0, &[1; 8]),
        frame(Kind::Headers, BOTH, 3, get),
        frame(Kind::RstStream, 0, 3, &[0, 0, 0, 8]),
        frame(
            Kind::Headers,
            BOTH | flag::PADDED | flag::PRIORITY,
            5,
            &[&[2, 0, 0, 0, 0, 1], &get[..], &[0, 0]].concat(),
        ),
        frame(Kind::WindowUpdate, 0, 5, &[0, 0, 1, 0]),
        frame(Kind::Unknown(0xbe), 0xff, 0, b"whatever"),
        frame(Kind::Headers, BOTH, 1, b"\0\x01t\x01r"),
        frame(Kind::Goaway, 0, 0, &[0; 8]),
    ]
}

/// Sends the start of a session, and waits for the end of the connection. How long that took.
async fn silent_after(bytes: &[u8]) -> u64 {
    let mut stream = to_front().await;
    let began = clock::now_ms();
    if !bytes.is_empty() {
        stream.send_ready().await.unwrap();
        stream.start_send(Buf::copy_of(bytes));
    }
    while stream.recv(65_536).await.is_ok_and(|buf| !buf.is_empty()) {}
    clock::now_ms() - began
}

/// Cuts the session at each of its octets, one connection after the other.
fn cut_everywhere(way: &str, deferred_sends: bool) {
    let t = TIMEOUT_MS;
    let text = format!(
        "defaults\n mode http\n timeout connect {t}ms\n timeout client {t}ms\n timeout server {t}ms\n\
         frontend fe\n bind {FRONT}\n {way}\nbackend be\n server s {BACK}\n"
    );
    let bytes = session().concat();
    // What a worker holds lives as long as its thread.
    let report = std::thread::spawn(move || {
        let sim = SimConfig { deferred_sends, idle_rounds_max: IDLE_ROUNDS_MAX, ..SimConfig::faultless() };
        sim::run(11, sim, move |network: Network| async move {
            // A server that takes requests and answers none.
            accept(BACK, |mut stream| async move {
                while stream.recv(4096).await.is_ok_and(|buf| !buf.is_empty()) {}
            });
            let instance = begin(&network, "cuts", &text, Vec::new());
            timer::sleep(1).await;
            let mut tasks = None;
            for cut in 0..=bytes.len() {
                let took = silent_after(&bytes[..cut]).await;
                assert!(took <= TIMEOUTS * TIMEOUT_MS + 100, "{took} ms, cut at {cut}");
                // What is on its way of both ends.
                timer::sleep(TIMEOUT_MS).await;
                assert_eq!(instance.process_gate.current(), 0, "cut at {cut}");
                let left = network.tasks().len();
                assert_eq!(*tasks.get_or_insert(left), left, "cut at {cut}: {:?}", network.tasks());
            }
        })
    })
    .join()
    .expect("the scenario does not panic");
    assert_eq!((&report.verdict, &report.incidents), (&None, &Vec::new()));
}

#[test]
fn requests_that_are_answered_here() {
    for deferred_sends in [false, true] {
        cut_everywhere("http-request return status 200", deferred_sends);
    }
}

#[test]
fn requests_that_a_server_leaves_unanswered() {
    for deferred_sends in [false, true] {
        cut_everywhere("default_backend be", deferred_sends);
    }
}

/// Who is told of the end may be answering what came before: a connection that is closed at once would answer that with a reset, which
/// may overtake the reason.
#[test]
fn who_is_told_of_the_end_may_still_answer() {
    for deferred_sends in [false, true] {
        let text = format!(
            "defaults\n mode http\n timeout connect 1s\n timeout client 1s\n timeout server 1s\n\
             frontend fe\n bind {FRONT} proto h2\n http-request return status 200\n"
        );
        let report = std::thread::spawn(move || {
            let sim = SimConfig { deferred_sends, ..SimConfig::faultless() };
            sim::run(12, sim, move |network: Network| async move {
                let instance = begin(&network, "answers", &text, Vec::new());
                timer::sleep(1).await;
                let mut stream = to_front().await;
                stream.send_ready().await.unwrap();
                stream.start_send(Buf::copy_of(b"PRI * HTTP/3.0, which nobody speaks"));
                while stream.recv(65_536).await.is_ok_and(|buf| !buf.is_empty()) {}
                for _ in 0..3 {
                    stream.send_ready().await.expect("no reset");
                    stream.start_send(Buf::copy_of(&frame(Kind::Settings, flag::ACK, 0, &[])));
                    timer::sleep(10).await;
                }
                // Who does not leave is not waited for long.
                timer::sleep(2_000).await;
                assert_eq!(instance.process_gate.current(), 0);
            })
        })
        .join()
        .expect("the scenario does not panic");
        assert_eq!((&report.verdict, &report.incidents), (&None, &Vec::new()));
    }
}
