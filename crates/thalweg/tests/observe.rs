//! Traffic that tells of health (`observe`, `error-limit`, `on-error`): what counts, what it does, and what is told of it. The
//! lines are those of HAProxy 3.5-dev5.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use support::{Conn, Io, Proxy, Server, Setup, each_driver, eventually, nobody};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// A server that answers requests as it is told to, and checks always well, and counts these.
struct Patient {
    server: Server,
    answer: Arc<Mutex<&'static str>>,
    checks: Arc<AtomicUsize>,
}

impl Patient {
    fn new() -> Patient {
        let answer = Arc::new(Mutex::new("HTTP/1.0 200 OK\r\n\r\n"));
        let checks: Arc<AtomicUsize> = Arc::default();
        let (said, seen) = (Arc::clone(&answer), Arc::clone(&checks));
        let server = Server::start(move |mut conn, _| {
            let Some(head) = conn.try_until(b"\r\n\r\n") else { return };
            if head.starts_with(b"OPTIONS") {
                seen.fetch_add(1, Ordering::SeqCst);
                conn.send("HTTP/1.0 200 OK\r\n\r\n");
            } else {
                conn.send(*said.lock().unwrap());
            }
        });
        Patient { server, answer, checks }
    }

    fn says(&self, answer: &'static str) {
        *self.answer.lock().unwrap() = answer;
    }
}

fn setup(io: Io, lines: &str) -> Proxy {
    let text = format!("frontend fe\nbind <@fe>\nno log\ndefault_backend be\nbackend be\nretries 0\n{lines}");
    Setup::http(&text).defaults("option log-health-checks\ntimeout check 20s").start(io)
}

/// The next line about a check that failed.
fn said(proxy: &Proxy) -> String {
    loop {
        let line = proxy.log();
        if let Some((_, told)) = line.split_once("Health check for server be/a failed, reason: ") {
            return told.to_owned();
        }
    }
}

fn start(io: Io, patient: &Patient, words: &str) -> Proxy {
    let lines = format!(
        "option httpchk\nserver a {} check inter 1h fastinter 10ms fall 4 {words}",
        patient.server.addr
    );
    let proxy = setup(io, &lines);
    eventually("it is certainly up", || (patient.checks.load(Ordering::SeqCst) >= 1).then_some(()));
    while !proxy.log().contains("4/4 UP") {}
    proxy
}

#[test]
fn errors_in_a_row_count_like_failed_checks() {
    each_driver(|io| {
        for (mode, health) in
            [("fail-check", "3/4 UP"), ("sudden-death", "1/4 UP"), ("mark-down", "0/2 DOWN")]
        {
            let patient = Patient::new();
            let proxy = start(io, &patient, &format!("observe layer7 error-limit 2 on-error {mode}"));
            // One that is well forgets those before it.
            for answer in ["HTTP/1.0 500 No\r\n\r\n", "HTTP/1.0 404 No\r\n\r\n", "HTTP/1.0 500 No\r\n\r\n"] {
                patient.says(answer);
                proxy.ask(GET);
            }
            let before = patient.checks.load(Ordering::SeqCst);
            patient.says("nonsense\r\n\r\n");
            assert_eq!(proxy.ask(GET).status, 502);
            assert_eq!(
                said(&proxy),
                format!(
                    "Health analyze, info: \"Detected 2 consecutive errors, last one was: Invalid http response (headers)\", \
                     status: {health}."
                )
            );
            // The next check comes soon, not in an hour.
            eventually("it is checked again", || {
                (patient.checks.load(Ordering::SeqCst) > before).then_some(())
            });
        }
    });
}

#[test]
fn errors_may_only_bring_the_next_check_forward() {
    each_driver(|io| {
        let patient = Patient::new();
        let proxy = start(io, &patient, "observe layer7 error-limit 1 on-error fastinter");
        let before = patient.checks.load(Ordering::SeqCst);
        patient.says("HTTP/1.0 503 No\r\n\r\n");
        assert_eq!(proxy.ask(GET).status, 503);
        eventually("it is checked again", || (patient.checks.load(Ordering::SeqCst) > before).then_some(()));
        patient.says("HTTP/1.0 200 OK\r\n\r\n");
        assert_eq!(proxy.ask(GET).status, 200);
    });
}

#[test]
fn connections_that_cannot_be_made_are_errors_on_both_layers() {
    each_driver(|io| {
        for layer in ["layer4", "layer7"] {
            let checked = Server::start(|conn, _| drop(conn));
            let at = format!("addr {} port {}", checked.addr.ip(), checked.addr.port());
            let proxy = setup(
                io,
                &format!(
                    "server a {} check inter 1h {at} observe {layer} error-limit 1 on-error mark-down",
                    nobody()
                ),
            );
            while !proxy.log().contains("3/3 UP") {}
            assert_eq!(proxy.ask(GET).status, 503);
            assert_eq!(
                said(&proxy),
                "Health analyze, info: \"Detected 1 consecutive errors, last one was: L4 unsuccessful connection\", status: 0/2 \
                 DOWN."
            );
        }
        // Nobody looks at what is said where only connections are observed.
        let patient = Patient::new();
        let proxy = start(io, &patient, "observe layer4 error-limit 1 on-error mark-down");
        patient.says("HTTP/1.0 500 No\r\n\r\n");
        for _ in 0..3 {
            assert_eq!(proxy.ask(GET).status, 500);
        }
        // A connection that worked says so.
        let mut conn = Conn::connect(proxy.addr("fe"));
        conn.send(GET);
        assert_eq!(conn.response().status, 500);
    });
}
