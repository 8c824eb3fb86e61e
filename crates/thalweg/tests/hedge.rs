//! `option hedge`: a second server is asked when the first one is late, and the first that answers does.

mod support;

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{Conn, Io, Proxy, Server, Setup, each_driver, eventually, ok};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// A backend with these lines, whose first request goes to `a`.
fn start(io: Io, lines: &str, servers: &[(&str, SocketAddrV4)]) -> Proxy {
    let list: String =
        servers.iter().map(|(name, addr)| format!("server {name} {addr} maxconn 1\n")).collect();
    let text = format!(
        "frontend fe\nbind <@fe>\nlog-format \"%s %[txn.hedged] %tsc %rc\"\ndefault_backend be\n\
         backend be\nbalance roundrobin\nretries 0\n{lines}\n{list}"
    );
    Setup::http(&text).threads(1).global("stats socket <@dir>/cli level admin").start(io)
}

/// The value of a column of a server, or of the whole backend.
fn column(proxy: &Proxy, server: &str, name: &str) -> String {
    proxy.stat(&format!("be,{server}"), name)
}

/// What a server is asked, and what it does about each request, one after the other; what it was not told of, it answers.
struct Scripted {
    server: Server,
    asked: Arc<AtomicUsize>,
    /// A connection ended on which a request was not answered.
    left: Receiver<()>,
}

enum Act {
    /// Says nothing more on this connection.
    Stall,
    /// Waits for a sign, and then answers.
    AnswerAfter(Receiver<()>),
    /// Waits for a sign, and then ends the connection.
    EndAfter(Receiver<()>),
    /// Ends the connection at once.
    End,
}

/// A server that tells `sign` of each request.
fn scripted(name: &'static str, acts: Vec<Act>, sign: Option<Sender<()>>) -> Scripted {
    let asked = Arc::new(AtomicUsize::new(0));
    let (leave, left) = channel();
    let (leave, acts, sign) = (Mutex::new(leave), Mutex::new(acts.into_iter()), Mutex::new(sign));
    let count = Arc::clone(&asked);
    let server = Server::start(move |mut conn, _| {
        while conn.next_request().is_some() {
            count.fetch_add(1, Ordering::SeqCst);
            if let Some(sign) = &*sign.lock().unwrap() {
                let _ = sign.send(());
            }
            let act = acts.lock().unwrap().next();
            match act {
                Some(Act::Stall) => {
                    assert!(
                        conn.next_request().is_none(),
                        "a request came on a connection that owes an answer"
                    );
                    let _ = leave.lock().unwrap().send(());
                    return;
                }
                Some(Act::End) => return,
                Some(Act::EndAfter(sign)) => return sign.recv().unwrap_or_default(),
                Some(Act::AnswerAfter(sign)) => sign.recv().unwrap_or_default(),
                None => {}
            }
            if conn.try_send(ok(name)).is_err() {
                let _ = leave.lock().unwrap().send(());
                return;
            }
        }
    });
    Scripted { server, asked, left }
}

impl Scripted {
    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn was_left(&self) {
        self.left.recv_timeout(Duration::from_secs(60)).expect("its connection ends");
    }
}

/// Asks a proxy on a connection, and says who answered.
fn answer(conn: &mut Conn, request: &str) -> String {
    conn.send(request);
    let response = conn.response();
    if response.status == 200 { response.text() } else { response.status.to_string() }
}

/// Slots and sessions are back, and what was hedged and won is counted.
fn counted(proxy: &Proxy, hedges: &str, won: &str) {
    for server in ["a", "b"] {
        eventually("its slot is back", || (column(proxy, server, "scur") == "0").then_some(()));
    }
    assert_eq!(
        (column(proxy, "BACKEND", "lb_hedges"), column(proxy, "BACKEND", "lb_hedges_won")),
        (hedges.into(), won.into())
    );
    assert_eq!(
        (column(proxy, "b", "lb_hedges"), column(proxy, "b", "lb_hedges_won")),
        (hedges.into(), won.into())
    );
}

#[test]
fn a_second_server_answers_for_one_that_is_late() {
    each_driver(|io| {
        let (a, b) = (scripted("a", vec![Act::Stall, Act::Stall], None), scripted("b", vec![], None));
        let proxy = start(io, "option hedge 50ms", &[("a", a.server.addr), ("b", b.server.addr)]);
        let mut conn = proxy.connect();
        assert_eq!(answer(&mut conn, GET), "b", "over {io}");
        a.was_left();
        assert_eq!(proxy.log(), "b 2 ---- 0", "over {io}");
        counted(&proxy, "1", "1");
        // Each has one slot, and the next turn is of the first again: it was given back.
        assert_eq!(answer(&mut conn, GET), "b", "over {io}");
        a.was_left();
        assert_eq!((a.asked(), b.asked()), (2, 2), "over {io}");
        counted(&proxy, "2", "2");
        assert_eq!(column(&proxy, "a", "stot"), "2");
        drop(conn);
        proxy.finish((a, b));
    });
}

#[test]
fn the_first_server_may_still_be_the_first_to_answer() {
    each_driver(|io| {
        let (sign, seen) = channel();
        let (a, b) =
            (scripted("a", vec![Act::AnswerAfter(seen)], None), scripted("b", vec![Act::Stall], Some(sign)));
        let proxy = start(io, "option hedge 20ms", &[("a", a.server.addr), ("b", b.server.addr)]);
        let mut conn = proxy.connect();
        assert_eq!(answer(&mut conn, GET), "a", "over {io}");
        b.was_left();
        assert_eq!(proxy.log(), "a 1 ---- 0", "over {io}");
        counted(&proxy, "1", "0");
        drop(conn);
        proxy.finish((a, b));
    });
}

#[test]
fn who_fails_while_the_other_is_asked_ends_nothing() {
    each_driver(|io| {
        // The first ends its connection once the second is asked, which answers after that.
        let (sign, seen) = channel();
        let (ended, end) = channel::<()>();
        let (a, b) = (
            scripted("a", vec![Act::EndAfter(seen)], None),
            scripted("b", vec![Act::AnswerAfter(end)], Some(sign)),
        );
        let proxy = start(io, "option hedge 20ms", &[("a", a.server.addr), ("b", b.server.addr)]);
        let mut conn = proxy.connect();
        conn.send(GET);
        eventually("both are asked", || (a.asked() + b.asked() == 2).then_some(()));
        eventually("the first is given up", || (column(&proxy, "b", "lb_hedges") == "1").then_some(()));
        drop(ended);
        assert_eq!(conn.response().text(), "b", "over {io}");
        assert_eq!(proxy.log(), "b 2 ---- 0", "over {io}");
        counted(&proxy, "1", "1");
        drop(conn);
        proxy.finish((a, b));

        // The second ends its connection, and the first answers after that.
        let (sign, seen) = channel();
        let (a, b) =
            (scripted("a", vec![Act::AnswerAfter(seen)], None), scripted("b", vec![Act::End], Some(sign)));
        let proxy = start(io, "option hedge 20ms", &[("a", a.server.addr), ("b", b.server.addr)]);
        let mut conn = proxy.connect();
        assert_eq!(answer(&mut conn, GET), "a", "over {io}");
        assert_eq!(proxy.log(), "a 1 ---- 0", "over {io}");
        counted(&proxy, "1", "0");
        drop(conn);
        proxy.finish((a, b));
    });
}

#[test]
fn both_fail_and_that_is_told_once() {
    each_driver(|io| {
        let (sign, seen) = channel();
        let (a, b) =
            (scripted("a", vec![Act::EndAfter(seen)], None), scripted("b", vec![Act::End], Some(sign)));
        let proxy = start(io, "option hedge 20ms", &[("a", a.server.addr), ("b", b.server.addr)]);
        assert_eq!(proxy.ask(GET).status, 502, "over {io}");
        assert_eq!(proxy.log(), "a 1 SH-- 0", "over {io}");
        counted(&proxy, "1", "0");
        proxy.finish((a, b));
    });
}

#[test]
fn what_is_repeated_is_not_hedged_once_more() {
    each_driver(|io| {
        let (sign, seen) = channel();
        let (go, gone) = channel::<()>();
        let acts = vec![Act::EndAfter(seen), Act::AnswerAfter(gone)];
        let (a, b) = (scripted("a", acts, None), scripted("b", vec![Act::End], Some(sign)));
        let lines = "option hedge 20ms\nretry-budget 100\nretries 1\nretry-on empty-response";
        let proxy = start(io, lines, &[("a", a.server.addr), ("b", b.server.addr)]);
        let mut conn = proxy.connect();
        conn.send(GET);
        eventually("the first is asked again", || (a.asked() == 2).then_some(()));
        // Ten times as long as a second server was waited for at first.
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(b.asked(), 1, "over {io}");
        drop(go);
        assert_eq!(conn.response().text(), "a", "over {io}");
        assert_eq!(proxy.log(), "a 1 ---- 1", "over {io}");
        counted(&proxy, "1", "0");
        drop(conn);
        proxy.finish((a, b));
    });
}

#[test]
fn what_must_not_be_sent_twice_is_not() {
    each_driver(|io| {
        let cases = [
            ("a method with effects", "", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"),
            ("a body", "", "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx"),
            ("a rule that names a server", "use-server a if TRUE", GET),
            ("a cookie", "cookie C insert", "GET / HTTP/1.1\r\nHost: h\r\nCookie: C=one\r\n\r\n"),
            (
                "another protocol",
                "",
                "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
            ),
        ];
        for (what, line, request) in cases {
            let a = Server::http(|_| {
                std::thread::sleep(Duration::from_millis(100));
                ok("a")
            });
            let b = scripted("b", vec![], None);
            let text = format!(
                "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nbalance roundrobin\noption hedge 5ms\n{line}\n\
                 server a {} cookie one\nserver b {} cookie two\n",
                a.addr, b.server.addr
            );
            let proxy = Setup::http(&text).threads(1).start(io);
            let mut conn = proxy.connect();
            assert_eq!(answer(&mut conn, request), "a", "{what} over {io}");
            assert_eq!(b.asked(), 0, "{what} over {io}");
        }
    });
}

#[test]
fn the_budget_pays_for_second_servers() {
    each_driver(|io| {
        let a = Server::http(|_| {
            std::thread::sleep(Duration::from_millis(40));
            ok("a")
        });
        let b = scripted("b", vec![], None);
        let servers = [("a", a.addr), ("b", b.server.addr)];
        let proxy = start(io, "option hedge 1ms\nretry-budget 0\nhttp-reuse never", &servers);
        // Each turn of the first one would be hedged.
        for _ in 0..60 {
            assert_eq!(proxy.ask(GET).status, 200, "over {io}");
        }
        let hedged: usize = column(&proxy, "BACKEND", "lb_hedges").parse().unwrap();
        let refused: usize = column(&proxy, "BACKEND", "lb_refused_retries").parse().unwrap();
        // Ten at first, and one for each second that this takes.
        assert!(hedged >= 10, "over {io}: {hedged}");
        assert!(refused > 0, "over {io}: {hedged} hedged and none refused");
        assert!(b.asked() + a.accepted() <= 60 + hedged, "over {io}: no server is asked that is not counted");
    });
}

#[test]
fn a_percentile_is_learnt_first() {
    each_driver(|io| {
        let b = scripted("b", vec![], None);
        let stalls = Arc::new(AtomicBool::new(false));
        let (leave, left) = channel();
        let (leave, says_nothing) = (Mutex::new(leave), Arc::clone(&stalls));
        let a = Server::start(move |mut conn, _| {
            while conn.next_request().is_some() {
                if says_nothing.load(Ordering::SeqCst) {
                    let _ = conn.next_request();
                    let _ = leave.lock().unwrap().send(());
                    return;
                }
                if conn.try_send(ok("a")).is_err() {
                    return;
                }
            }
        });
        let servers = [("a", a.addr), ("b", b.server.addr)];
        let proxy = start(io, "option hedge p95\nretry-budget 100", &servers);
        let mut conn = proxy.connect();
        for _ in 0..150 {
            conn.send(GET);
            assert_eq!(conn.response().status, 200, "over {io}");
        }
        stalls.store(true, Ordering::SeqCst);
        eventually("it is given up", || {
            assert_eq!(answer(&mut conn, GET), "b", "over {io}");
            left.try_recv().ok()
        });
    });
}

#[test]
fn servers_of_http2_are_asked_in_the_same_way() {
    each_driver(|io| {
        let text = "frontend fe\nbind <@fe>\nlog-format \"%s %[txn.hedged] %tsc\"\ndefault_backend be\n\
             backend be\nbalance roundrobin\noption hedge 50ms\nserver a <@a> proto h2\nserver b <@b> proto h2\n\
             frontend a\nbind <@a> proto h2\nno log\nhttp-request pause 1h\nhttp-request return status 200 string a content-type text/plain\n\
             frontend b\nbind <@b> proto h2\nno log\nhttp-request return status 200 string b content-type text/plain\n";
        let proxy = Setup::http(text).threads(1).global("stats socket <@dir>/cli level admin").start(io);
        let mut conn = proxy.connect();
        assert_eq!(answer(&mut conn, GET), "b", "over {io}");
        assert_eq!(proxy.log(), "b 2 ----", "over {io}");
        counted(&proxy, "1", "1");
        // Its stream was reset, and its connection is as good as before.
        assert_eq!(column(&proxy, "a", "scur"), "0");
    });
}
