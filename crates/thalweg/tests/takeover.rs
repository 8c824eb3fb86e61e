//! One process takes over from another while traffic flows, and a process stops, pauses and resumes under traffic.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use support::{Conn, Server, Setup, Signal, each_driver, eventually, ok, program};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

fn text(server: &Server) -> String {
    format!("frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s {}\n", server.addr)
}

#[test]
fn a_new_process_takes_over_without_losing_a_request() {
    each_driver(|io| {
        let server = Server::named("fine");
        let socket = "stats socket <@dir>/cli level admin expose-fd listeners";
        let setup = Setup::http(&text(&server)).global(socket).threads(2);
        let mut old = setup.start(io);
        let addr = old.addr("fe");
        let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let clients: Vec<_> = (0..3)
            .map(|_| {
                let (stop, served) = (Arc::clone(&stop), Arc::clone(&served));
                thread::spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        let mut conn = Conn::connect(addr);
                        conn.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
                        assert_eq!(conn.response().text(), "fine");
                        served.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let served_more = || {
            let goal = served.load(Ordering::SeqCst) + 20;
            eventually("requests are served", || (served.load(Ordering::SeqCst) >= goal).then_some(()));
        };
        served_more();
        // Twice, so that what was taken over is handed on.
        for _ in 0..2 {
            let cli = old.path("cli").display().to_string();
            let arguments = vec!["-x".into(), cli, "-sf".into(), old.id().to_string()];
            let new = setup.start_beside(io, &old, arguments);
            assert_eq!(old.end(), (Some(0), None), "{}", old.output());
            served_more();
            old = new;
        }
        stop.store(true, Ordering::SeqCst);
        for client in clients {
            client.join().expect("no request was lost");
        }
        old.finish(server);
    });
}

#[test]
fn a_soft_stop_lets_requests_finish() {
    each_driver(|io| {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let slow = Server::start(move |mut conn, _| {
            conn.head();
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234");
            wait.lock().unwrap().recv().unwrap();
            conn.send("56789");
            conn.ended();
        });
        let mut proxy = Setup::http(&text(&slow)).threads(2).start(io);
        let mut busy = proxy.connect();
        busy.send(GET);
        busy.until(b"01234");
        let mut idle = proxy.connect();
        proxy.signal(Signal::User1);
        // The port is closed, the idle connection ends, the busy one is served to its end.
        eventually("the port is closed", || std::net::TcpStream::connect(proxy.addr("fe")).err());
        idle.half_close();
        idle.ended();
        assert!(proxy.child.try_wait().unwrap().is_none());
        go.send(()).unwrap();
        assert_eq!(busy.exactly(5), b"56789");
        drop(busy);
        assert_eq!(proxy.end(), (Some(0), None));
    });
}

#[test]
fn a_pause_and_its_end() {
    each_driver(|io| {
        let server = Server::named("fine");
        let proxy = Setup::http(&text(&server)).start(io);
        let mut kept = proxy.connect();
        kept.send(GET);
        assert_eq!(kept.response().text(), "fine");
        proxy.signal(Signal::TerminalOutput);
        eventually("the listener pauses", || proxy.output().contains("Paused").then_some(()));
        // What is connected goes on.
        kept.send(GET);
        assert_eq!(kept.response().text(), "fine");
        proxy.signal(Signal::TerminalInput);
        eventually("the listener resumes", || proxy.output().contains("Resumed").then_some(()));
        assert_eq!(proxy.ask(GET).text(), "fine");
        drop(kept);
        proxy.finish(server);
    });
}

#[test]
fn a_hard_stop_cuts_everything() {
    each_driver(|io| {
        let server = Server::start(|mut conn, _| drop(conn.ended()));
        let mut proxy = Setup::http(&text(&server)).threads(2).start(io);
        let mut conn = proxy.connect();
        conn.send(GET);
        proxy.signal(Signal::Terminate);
        assert_eq!(proxy.end(), (None, Some(Signal::Terminate.number())));
        conn.ended();
    });
}

#[test]
fn listeners_inherited_from_the_parent() {
    use std::process::{Command, Stdio};
    each_driver(|io| {
        let server = Server::start(|mut conn, _| {
            conn.head();
            conn.send(ok("inherited"));
            conn.ended();
        });
        let listener = std::net::TcpListener::bind((support::own_ip(), 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let directory = support::Directory::new();
        let config = format!(
            "defaults\nmode http\ntimeout connect 5s\ntimeout client 5s\ntimeout server 5s\nlisten l\nbind fd@0\nserver s {}\n",
            server.addr
        );
        std::fs::write(directory.0.join("cfg"), config).unwrap();
        let program = program();
        let mut child = Command::new(program.get_program())
            .args(["-db", "-f", "cfg"])
            .current_dir(&directory.0)
            .env("THALWEG_IO_DRIVER", io)
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let std::net::SocketAddr::V4(addr) = addr else { panic!("not IPv4") };
        let mut conn = Conn::connect(addr);
        conn.send(GET);
        let text = conn.response().text();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(text, "inherited");
    });
}
