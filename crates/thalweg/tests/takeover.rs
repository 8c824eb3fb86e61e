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
        // Whoever wants the port can have it meanwhile.
        eventually("the port is free", || std::net::TcpListener::bind(proxy.addr("fe")).ok());
        eventually("the listener pauses", || proxy.output().contains("Paused frontend fe.").then_some(()));
        assert!(std::net::TcpStream::connect(proxy.addr("fe")).is_err());
        // What is connected goes on.
        kept.send(GET);
        assert_eq!(kept.response().text(), "fine");
        proxy.signal(Signal::TerminalInput);
        eventually("the listener resumes", || proxy.output().contains("Resumed").then_some(()));
        assert_eq!(proxy.ask(GET).text(), "fine");
        // Both at once end in a process that listens.
        for turn in 2..12 {
            proxy.signal(Signal::TerminalOutput);
            proxy.signal(Signal::TerminalInput);
            let output = eventually("the listener paused and went on", || {
                let output = proxy.output();
                let said = |what: &str| output.matches(what).count() == turn;
                (said("Paused frontend fe.") && said("Resumed frontend fe.")).then_some(output)
            });
            assert!(output.rfind("Paused frontend fe.") < output.rfind("Resumed frontend fe."), "{output}");
            assert_eq!(proxy.ask(GET).text(), "fine");
        }
        drop(kept);
        proxy.finish(server);
    });
}

/// As `text`, on a TCP port and an abstract name that no two processes can have at once.
fn exclusive(server: &Server, test: &str) -> String {
    let name = format!("thalweg-{test}-{}", std::process::id());
    format!(
        "frontend fe\nbind <@fe>\nbind abns@{name}\ndefault_backend be\nbackend be\nserver s {}\n",
        server.addr
    )
}

#[test]
fn a_process_lets_go_of_its_ports_for_another() {
    each_driver(|io| {
        let server = Server::named("fine");
        let setup =
            Setup::http(&exclusive(&server, &format!("let-go-{io}"))).global("noreuseport").threads(2);
        let mut old = setup.start(io);
        for _ in 0..3 {
            assert_eq!(old.ask(GET).text(), "fine");
            let mut kept = old.connect();
            kept.send(GET);
            assert_eq!(kept.response().text(), "fine");
            let new = setup.start_beside(io, &old, vec!["-sf".into(), old.id().to_string()]);
            assert_eq!(old.end(), (Some(0), None), "{}", old.output());
            assert!(old.output().contains("Paused frontend fe."));
            // In order, not by a reset.
            assert_eq!(kept.rest(), b"");
            assert_eq!(new.ask(GET).text(), "fine");
            old = new;
        }
        old.finish(server);
    });
}

#[test]
fn a_process_takes_its_ports_back_when_the_new_one_fails() {
    each_driver(|io| {
        let server = Server::named("fine");
        let old = Setup::http(&exclusive(&server, &format!("back-{io}")))
            .global("noreuseport")
            .threads(2)
            .start(io);
        let busy = std::net::TcpListener::bind((support::own_ip(), 0)).unwrap();
        let config = std::fs::read_to_string(old.directory.0.join("cfg")).unwrap();
        let config =
            config.replace("bind abns@", &format!("bind {}\nbind abns@", busy.local_addr().unwrap()));
        std::fs::write(old.directory.0.join("new"), config).unwrap();
        let new = std::process::Command::new(program().get_program())
            .args(["-db", "-f", "new", "-sf", &old.id().to_string()])
            .current_dir(&old.directory.0)
            .env("THALWEG_IO_DRIVER", io)
            .output()
            .unwrap();
        assert_eq!(new.status.code(), Some(1), "{}", String::from_utf8_lossy(&new.stderr));
        eventually("the old process listens again", || {
            old.output().contains("Resumed frontend fe.").then_some(())
        });
        assert!(!old.output().contains("Resuming listener"), "{}", old.output());
        assert_eq!(old.ask(GET).text(), "fine");
        old.finish(server);
    });
}

#[test]
fn a_request_that_comes_with_the_soft_stop_is_answered() {
    each_driver(|io| {
        let server = Server::named("fine");
        let mut proxy = Setup::http(&text(&server)).threads(2).start(io);
        let mut conns: Vec<Conn> = (0..20).map(|_| proxy.connect()).collect();
        for conn in &mut conns {
            conn.send(GET);
            assert_eq!(conn.response().text(), "fine");
        }
        // While the process stands still, requests and the signal arrive; it finds all of them at once.
        proxy.stand_still();
        conns.iter_mut().for_each(|conn| conn.send(GET));
        proxy.signal(Signal::User1);
        proxy.go_on();
        for conn in &mut conns {
            assert_eq!(conn.response().text(), "fine");
            assert_eq!(conn.rest(), b"");
        }
        assert_eq!(proxy.end(), (Some(0), None));
    });
}

const ONCE: &str = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// Clients that the kernel let in and that no thread accepted yet, when the process stops.
#[test]
fn clients_that_wait_to_be_accepted_are_served_before_the_end() {
    each_driver(|io| {
        for limit in ["", "maxconn 1 backlog 100"] {
            let server = Server::named("fine");
            let text = text(&server).replace("<@fe>\n", &format!("<@fe> {limit}\n"));
            let mut proxy = Setup::http(&text).threads(2).start(io);
            assert_eq!(proxy.ask(GET).text(), "fine");
            // While the process stands still, they and the signal arrive; it finds all of them at once.
            proxy.stand_still();
            let mut conns: Vec<Conn> = (0..10).map(|_| proxy.connect()).collect();
            conns.iter_mut().for_each(|conn| conn.send(ONCE));
            proxy.signal(Signal::User1);
            proxy.go_on();
            for conn in &mut conns {
                assert_eq!(conn.response().text(), "fine", "{limit}");
                assert_eq!(conn.rest(), b"");
            }
            assert_eq!(proxy.end(), (Some(0), None));
        }
    });
}

/// Likewise when it lets go of its port.
#[test]
fn clients_that_wait_to_be_accepted_are_served_in_a_pause() {
    each_driver(|io| {
        let server = Server::named("fine");
        let text = text(&server).replace("<@fe>\n", "<@fe> maxconn 1 backlog 100\n");
        let proxy = Setup::http(&text).threads(2).start(io);
        let mut first = proxy.connect();
        first.send(GET);
        assert_eq!(first.response().text(), "fine");
        let mut conns: Vec<Conn> = (0..10).map(|_| proxy.connect()).collect();
        conns.iter_mut().for_each(|conn| conn.send(ONCE));
        proxy.signal(Signal::TerminalOutput);
        eventually("the port is let go", || std::net::TcpStream::connect(proxy.addr("fe")).err());
        drop(first);
        for conn in &mut conns {
            assert_eq!(conn.response().text(), "fine");
            assert_eq!(conn.rest(), b"");
        }
        proxy.finish(server);
    });
}

#[test]
fn a_killed_process_leaves_nothing_that_listens() {
    each_driver(|io| {
        let server = Server::named("fine");
        for _ in 0..5 {
            let mut proxy = Setup::http(&text(&server)).threads(2).start(io);
            assert_eq!(proxy.ask(GET).text(), "fine");
            let addr = proxy.addr("fe");
            proxy.child.kill().unwrap();
            proxy.child.wait().unwrap();
            assert!(std::net::TcpStream::connect(addr).is_err(), "the kernel accepts for nobody");
        }
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
