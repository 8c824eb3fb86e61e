//! What is kept of messages that were not understood (`show errors`). Beside the reference: `cli_reference/errors.rs`.

mod support;

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::{Conn, Proxy, Server, Setup, each_driver, eventually};

fn errors(proxy: &Proxy, arguments: &str) -> String {
    let path = proxy.path("cli");
    let mut cli = Conn::unix(eventually("the CLI listens", || UnixStream::connect(&path).ok()));
    cli.send(format!("show errors {arguments}\n"));
    cli.rest_text()
}

const POST: &str = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";

/// Of a body, what had come together is kept, whether the fault is in the first bytes or in later ones; what is refused
/// next on the same side takes its place, and the other side's stays.
#[test]
fn faults_in_bodies_are_kept() {
    each_driver(|io| {
        let heads = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&heads);
        let server = Server::start(move |mut conn, _| {
            // What the request was is of no interest: it may never end.
            let Some(head) = conn.next_head() else { return };
            seen.fetch_add(1, Ordering::SeqCst);
            if head.line.contains("early") {
                conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n");
            } else if head.line.contains("late") {
                conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
                conn.until(b"go on");
                conn.send("zz\r\n");
            }
            conn.ended();
        });
        let proxy = Setup::http(&format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver a {}\n",
            server.addr
        ))
        .global("stats socket <@dir>/cli level admin\ntune.bufsize 4096\n")
        .start(io);
        assert!(errors(&proxy, "").ends_with("] : 0\n\n"), "{io}");

        // A request, at once and later.
        for (number, later) in [false, true].into_iter().enumerate() {
            let mut client = Conn::connect(proxy.addr("fe"));
            if later {
                client.send(POST);
                eventually("the server has it", || (heads.load(Ordering::SeqCst) > 0).then_some(()));
                client.send("xyz\r\n");
            } else {
                client.send(format!("{POST}xyz\r\n"));
            }
            assert!(String::from_utf8_lossy(&client.ended()).starts_with("HTTP/1.1 400 "), "{io}");
            let text = errors(&proxy, "fe request");
            assert!(text.contains(&format!("] : {}\n", number + 1)), "{text}");
            assert!(
                text.contains("frontend fe (#2): invalid request\n  backend be (#3), server a (#1)"),
                "{text}"
            );
            assert!(text.contains("  a chunk size is not a hexadecimal number :\n"), "{text}");
            assert!(text.contains("  xyz\\r\\n\n"), "{text}");
        }
        // A response, at once and later.
        let mut client = Conn::connect(proxy.addr("fe"));
        client.send("GET /early HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(client.response().status, 502, "{io}");
        let text = errors(&proxy, "be response");
        assert!(
            text.contains("backend be (#3): invalid response\n  frontend fe (#2), server a (#1)"),
            "{text}"
        );
        assert!(text.contains("error at position 10\n"), "{text}");
        assert!(text.contains("  00000  5\\r\\n\n  00003  hello\\r\\n\n  00010  zz\\r\\n\n"), "{text}");
        let mut client = Conn::connect(proxy.addr("fe"));
        client.send("POST /late HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
        client.until(b"hello");
        client.send("go on");
        client.ended();
        let text = errors(&proxy, "");
        assert!(text.contains("] : 4\n"), "{text}");
        assert!(text.contains("event #1, ") && text.contains("event #3, "), "{text}");
        assert!(text.contains("error at position 0\n"), "{text}");
        assert!(!text.contains("hello"), "{text}");
    });
}

/// No more of a message than a buffer holds is kept.
#[test]
fn what_is_kept_is_bounded() {
    each_driver(|io| {
        let proxy = Setup::http("frontend fe\nbind <@fe>\nhttp-request return status 200\n")
            .global("stats socket <@dir>/cli level admin\ntune.bufsize 4096\n")
            .start(io);
        let mut client = Conn::connect(proxy.addr("fe"));
        let _ = client.try_send(format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(20000)));
        assert!(String::from_utf8_lossy(&client.ended()).starts_with("HTTP/1.1 431 "), "{io}");
        let text = errors(&proxy, "");
        assert!(text.contains("the head is larger than the buffer"), "{text}");
        let kept = text.matches('y').count();
        assert!(kept > 2000 && kept <= 4096, "{kept} {io}");
    });
}
