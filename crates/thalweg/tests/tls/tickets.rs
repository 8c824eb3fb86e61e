//! When clients of TLS 1.3 are sent their tickets: with the first answer, or soon if they ask for nothing.

use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use super::support::tls::{Authority, client};
use super::support::{Server, each_driver, eventually, ok};
use super::{TLS12, TLS13, front, get};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn tickets_go_with_the_first_answer() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let (asked, is_asked) = mpsc::channel();
        let (answer, may_answer) = mpsc::channel::<()>();
        let (asked, may_answer) = (Mutex::new(asked), Mutex::new(may_answer));
        let back = Server::http(move |_| {
            asked.lock().unwrap().send(()).unwrap();
            may_answer.lock().unwrap().recv().unwrap();
            ok("at last")
        });
        let proxy =
            front(&authority, &format!("default_backend be\nbackend be\nserver s {}\n", back.addr)).start(io);
        let context = client(|profile| profile.versions = TLS13);
        let mut conn = proxy.connect().encrypt_early(&context, b"").finish_with(GET);
        is_asked.recv().unwrap();
        // The request went on to the server, so that all that could be sent before it was.
        assert!(conn.raw_twin().is_silent(), "something was sent by itself");
        answer.send(()).unwrap();
        assert_eq!(conn.response().text(), "at last");
        // They were there.
        answer.send(()).unwrap();
        let mut again = proxy.connect().encrypt(&context, None);
        assert!(again.tls().facts.resumed);
        assert_eq!(get(&mut again, "/").text(), "at last");
        drop((conn, again));
        proxy.finish(back);
    });
}

#[test]
fn who_says_nothing_has_its_tickets_soon() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let proxy = front(&authority, "http-request return status 204\n").start(io);
        for versions in [TLS12, TLS13] {
            let context = client(|profile| profile.versions = versions);
            let begun = proxy.connect().encrypt_early(&context, b"");
            let done = Instant::now();
            let mut conn = begun.finish();
            if versions == TLS13 {
                // Otherwise it is a request timeout that comes, much later.
                eventually("tickets", || (!conn.raw_twin().is_silent()).then_some(()));
                // Not at once: its request may be right behind.
                assert!(done.elapsed() >= Duration::from_millis(4), "{:?}", done.elapsed());
            }
            assert_eq!(get(&mut conn, "/").status, 204);
            let mut again = proxy.connect().encrypt(&context, None);
            assert!(again.tls().facts.resumed, "{versions:?}");
            assert_eq!(get(&mut again, "/").status, 204);
        }
        proxy.finish(());
    });
}

#[test]
fn an_end_is_announced_although_tickets_wait() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let back = Server::start(|conn, _| drop(conn));
        let proxy = front(
            &authority,
            &format!("mode tcp\ndefault_backend be\nbackend be\nmode tcp\nserver s {}\n", back.addr),
        )
        .start(io);
        let context = client(|profile| profile.versions = TLS13);
        let mut conn = proxy.connect().encrypt(&context, None);
        // An end that is not announced is an error.
        assert_eq!(conn.try_rest().unwrap(), b"");
        drop(conn);
        proxy.finish(back);
    });
}
