//! `option outlier-detection`: servers that are worse than the others get no requests for a while, which is counted and told.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use support::{Conn, Io, Proxy, Server, Setup, each_driver, eventually, free_port, ok, own_ip};

const BAD: &str = "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n";

/// A backend with this option and these servers, asked on one connection.
fn start(io: Io, option: &str, servers: &[(&str, std::net::SocketAddrV4)]) -> Proxy {
    let list: String = servers.iter().map(|(name, addr)| format!("server {name} {addr}\n")).collect();
    let text = format!(
        "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nbalance roundrobin\nretries 3\n{option}\n{list}"
    );
    Setup::http(&text).global("stats socket <@dir>/cli level admin").start(io)
}

fn ask(conn: &mut Conn) -> u16 {
    conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    conn.response().status
}

/// The value of a column of a server, or of the whole backend.
fn column(proxy: &Proxy, server: &str, name: &str) -> String {
    proxy.stat(&format!("be,{server}"), name)
}

fn said(proxy: &Proxy, what: &str) -> bool {
    proxy.output().contains(what)
}

/// A server that answers with an error as long as `bad` says so of the number of a request, from 0, and how often it was asked.
fn server(bad: impl Fn(usize) -> bool + Send + Sync + 'static) -> (Server, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = Server::http(move |_| match bad(count.fetch_add(1, Ordering::SeqCst)) {
        true => BAD.into(),
        false => ok("x"),
    });
    (server, asked)
}

#[test]
fn who_refuses_connections_is_the_last_choice_at_once() {
    each_driver(|io| {
        let (live, asked) = server(|_| false);
        let servers = [("dead", free_port(own_ip())), ("live", live.addr)];
        let attempts = |option: &str| {
            let proxy = start(io, option, &servers);
            let mut conn = proxy.connect();
            for _ in 0..40 {
                assert_eq!(ask(&mut conn), 200, "{option} over {io}");
            }
            (column(&proxy, "dead", "connect"), column(&proxy, "dead", "lb_ejected"), proxy)
        };
        // An attempt on the other one takes its turn, so that the next request begins with the dead one again.
        let (failed, ejected, _proxy) = attempts("option redispatch 1");
        assert_eq!((failed.as_str(), ejected.as_str()), ("40", ""), "over {io}");
        let (failed, ejected, proxy) = attempts("option outlier-detection hold 1h max-hold 1h");
        assert_eq!((failed.as_str(), ejected.as_str()), ("1", "1"), "over {io}");
        assert_eq!(column(&proxy, "BACKEND", "lb_ejections"), "1");
        assert_eq!(column(&proxy, "dead", "status"), "no check");
        let line =
            "Server be/dead is ejected for 3600000ms: it refused a connection. 1 of 2 servers are ejected.";
        assert!(said(&proxy, line), "{}", proxy.output());
        assert_eq!(asked.load(Ordering::SeqCst), 80);
    });
}

/// Without the option: who refuses has the fewest requests, and is not chosen for that again within a second.
#[test]
fn leastconn_goes_around_who_refuses() {
    each_driver(|io| {
        let (live, asked) = server(|_| false);
        let dead = free_port(own_ip());
        let proxy =
            start(io, "balance leastconn\noption redispatch 1", &[("dead", dead), ("live", live.addr)]);
        let (mut conn, began) = (proxy.connect(), Instant::now());
        for _ in 0..40 {
            assert_eq!(ask(&mut conn), 200, "over {io}");
        }
        let (attempts, most) = (column(&proxy, "dead", "connect"), 1 + began.elapsed().as_secs());
        assert!((1..=most).contains(&attempts.parse().unwrap()), "over {io}: {attempts} of {most}");
        assert_eq!(asked.load(Ordering::SeqCst), 40);
        // It works again, and is chosen again when the second is over.
        let listener = std::net::TcpListener::bind(dead).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let _server = Server::listen(listener, move |mut conn, _| {
            let _ = tell.send(());
            while conn.next_request().is_some() && conn.try_send(ok("x")).is_ok() {}
        });
        eventually("the server gets requests again", || {
            assert_eq!(ask(&mut conn), 200, "over {io}");
            told.try_recv().ok()
        });
    });
}

#[test]
fn the_last_choice_is_better_than_none() {
    each_driver(|io| {
        let addr = free_port(own_ip());
        let proxy = start(
            io,
            "option outlier-detection hold 1h max-hold 1h",
            &[("a", addr), ("b", free_port(own_ip()))],
        );
        let mut conn = proxy.connect();
        // All of them refuse, so that all of them are tried.
        conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(conn.response().status, 503);
        assert_eq!(column(&proxy, "BACKEND", "lb_ejected"), "2", "over {io}");
        // One of them works again.
        let listener = std::net::TcpListener::bind(addr).unwrap();
        let _server = Server::listen(listener, |mut conn, _| {
            while conn.next_request().is_some() && conn.try_send(ok("x")).is_ok() {}
        });
        let mut conn = proxy.connect();
        assert_eq!(ask(&mut conn), 200, "over {io}");
    });
}

#[test]
fn errors_in_a_row_eject_no_more_than_a_share() {
    each_driver(|io| {
        let (good, _) = server(|_| false);
        let (first, first_asked) = server(|_| true);
        let (second, second_asked) = server(|_| true);
        let servers = [("good", good.addr), ("first", first.addr), ("second", second.addr)];
        let proxy =
            start(io, "option outlier-detection errors 4 success-rate 0 hold 1h max-hold 1h", &servers);
        let mut conn = proxy.connect();
        let failed = (0..100).filter(|_| ask(&mut conn) != 200).count();
        let asked = [&first_asked, &second_asked].map(|asked| asked.load(Ordering::SeqCst));
        // A third of three may be ejected; the other one goes on.
        assert_eq!(asked.iter().min(), Some(&4), "over {io}: {asked:?}");
        assert!(asked.iter().max() > Some(&40), "over {io}: {asked:?}");
        assert_eq!(failed, asked.iter().sum::<usize>());
        assert!(
            said(&proxy, "4 requests in a row failed. 1 of 3 servers are ejected."),
            "{}",
            proxy.output()
        );
    });
}

#[test]
fn a_success_in_between_is_no_row() {
    each_driver(|io| {
        let (odd, asked) = server(|n| n % 3 != 2);
        let (good, _) = server(|_| false);
        let proxy = start(
            io,
            "option outlier-detection errors 3 success-rate 0",
            &[("odd", odd.addr), ("good", good.addr)],
        );
        let mut conn = proxy.connect();
        for _ in 0..60 {
            ask(&mut conn);
        }
        assert_eq!(asked.load(Ordering::SeqCst), 30, "over {io}");
        assert_eq!(column(&proxy, "odd", "lb_ejections"), "0");
    });
}

#[test]
fn who_is_ejected_comes_back() {
    each_driver(|io| {
        let (ill, asked) = server(|n| n < 2);
        let (good, _) = server(|_| false);
        let option = "option outlier-detection errors 2 success-rate 0 hold 50ms";
        let proxy = start(io, option, &[("ill", ill.addr), ("good", good.addr)]);
        let mut conn = proxy.connect();
        for _ in 0..4 {
            ask(&mut conn);
        }
        assert_eq!(column(&proxy, "ill", "lb_ejections"), "1", "over {io}");
        eventually("it gets requests again", || {
            ask(&mut conn);
            (asked.load(Ordering::SeqCst) > 10).then_some(())
        });
        assert!(said(&proxy, "Server be/ill gets requests again."), "{}", proxy.output());
        assert_eq!(column(&proxy, "ill", "lb_ejected"), "0");
    });
}

/// Asks until the server `bad`, of four, is ejected for this reason.
fn ejects(io: Io, option: &str, bad: Server, reason: &str) {
    let goods: Vec<Server> = (0..3).map(|_| server(|_| false).0).collect();
    let servers = [("a", goods[0].addr), ("bad", bad.addr), ("b", goods[1].addr), ("c", goods[2].addr)];
    let proxy = start(io, option, &servers);
    let mut conn = proxy.connect();
    eventually("the bad one is ejected", || {
        ask(&mut conn);
        said(&proxy, "Server be/bad is ejected").then_some(())
    });
    assert!(said(&proxy, reason), "over {io}: {}", proxy.output());
    assert_ne!(column(&proxy, "bad", "lb_ejections"), "0");
}

#[test]
fn who_fails_more_often_than_the_others_is_ejected() {
    let option = "option outlier-detection errors 0 requests 10 interval 2s hold 1h max-hold 1h";
    let reason = "of its requests went well, 100% of those of the others";
    each_driver(|io| ejects(io, option, server(|n| n % 5 == 0).0, reason));
}

#[test]
fn who_is_much_slower_than_the_others_is_ejected() {
    // A busy machine may make another one slow for a while, which then comes back.
    let option = "option outlier-detection latency 3 success-rate 0 requests 5 interval 2s hold 100ms";
    each_driver(|io| {
        let slow = Server::http(|_| {
            std::thread::sleep(Duration::from_millis(100));
            ok("x")
        });
        ejects(io, option, slow, ": its answers took ");
    });
}

#[test]
fn connections_of_tcp_count_too() {
    each_driver(|io| {
        let live = Server::start(|mut conn, _| drop(conn.try_send("hello")));
        let text = format!(
            "listen fe\nbind <@fe>\nbalance roundrobin\nretries 3\noption outlier-detection hold 1h max-hold 1h\nserver dead {}\n\
             server live {}\n",
            free_port(own_ip()),
            live.addr
        );
        let proxy = Setup::tcp(&text).global("stats socket <@dir>/cli level admin").start(io);
        for _ in 0..10 {
            assert_eq!(proxy.connect().rest_text(), "hello", "over {io}");
        }
        assert!(said(&proxy, "Server fe/dead is ejected for"), "{}", proxy.output());
        assert_eq!(proxy.output().matches(" is ejected for").count(), 1);
    });
}
