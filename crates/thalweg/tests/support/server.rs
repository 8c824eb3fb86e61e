//! Servers that do what a test scripts, and addresses where nobody answers.

use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;

use super::conn::{Conn, Request, Socket};
use super::{free_port, own_ip};

enum Listening {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A server that does with each connection what its test says, in a thread of its own.
pub struct Server {
    pub addr: SocketAddrV4,
    shared: Arc<ServerShared>,
    accepting: Option<thread::JoinHandle<()>>,
}

struct ServerShared {
    stop: AtomicBool,
    failed: AtomicBool,
    accepted: AtomicUsize,
    open: Mutex<Vec<Weak<Socket>>>,
    path: Option<PathBuf>,
}

impl Server {
    /// Calls `serve` with each connection and its number, from 0.
    pub fn start(serve: impl Fn(Conn, usize) + Send + Sync + 'static) -> Server {
        Server::listen(TcpListener::bind((own_ip(), 0)).unwrap(), serve)
    }

    /// The same on a given listener.
    pub fn listen(listener: TcpListener, serve: impl Fn(Conn, usize) + Send + Sync + 'static) -> Server {
        let std::net::SocketAddr::V4(addr) = listener.local_addr().unwrap() else { panic!("not IPv4") };
        Server::run(Listening::Tcp(listener), addr, None, serve)
    }

    /// The same on a unix socket.
    pub fn unix(path: PathBuf, serve: impl Fn(Conn, usize) + Send + Sync + 'static) -> Server {
        let listener = UnixListener::bind(&path).unwrap();
        Server::run(Listening::Unix(listener), SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), Some(path), serve)
    }

    /// An HTTP server that answers each request, for as long as the connection lasts.
    pub fn http(answer: impl Fn(&Request) -> String + Send + Sync + 'static) -> Server {
        Server::start(move |mut conn, _| {
            while let Some(request) = conn.next_request() {
                if conn.try_send(answer(&request)).is_err() {
                    return;
                }
            }
        })
    }

    /// An HTTP server that answers with its name.
    pub fn named(name: &'static str) -> Server {
        Server::http(move |_| ok(name))
    }

    fn run(
        listener: Listening,
        addr: SocketAddrV4,
        path: Option<PathBuf>,
        serve: impl Fn(Conn, usize) + Send + Sync + 'static,
    ) -> Server {
        let shared = Arc::new(ServerShared {
            stop: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            accepted: AtomicUsize::new(0),
            open: Mutex::new(Vec::new()),
            path,
        });
        let ours = Arc::clone(&shared);
        let serve = Arc::new(serve);
        let accepting = thread::spawn(move || {
            loop {
                let conn = match &listener {
                    Listening::Tcp(l) => Conn::tcp(l.accept().unwrap().0),
                    Listening::Unix(l) => Conn::unix(l.accept().unwrap().0),
                };
                if ours.stop.load(Ordering::SeqCst) {
                    return;
                }
                let number = ours.accepted.fetch_add(1, Ordering::SeqCst);
                ours.open.lock().unwrap().push(Arc::downgrade(&conn.socket));
                let (serve, ours) = (Arc::clone(&serve), Arc::clone(&ours));
                thread::spawn(move || {
                    let run = std::panic::AssertUnwindSafe(|| serve(conn, number));
                    if std::panic::catch_unwind(run).is_err() && !ours.stop.load(Ordering::SeqCst) {
                        ours.failed.store(true, Ordering::SeqCst);
                    }
                });
            }
        });
        Server { addr, shared, accepting: Some(accepting) }
    }

    /// How many connections came.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let failed = self.shared.failed.load(Ordering::SeqCst);
        self.shared.stop.store(true, Ordering::SeqCst);
        match &self.shared.path {
            Some(path) => drop(UnixStream::connect(path)),
            None => drop(TcpStream::connect(self.addr)),
        }
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for socket in self.shared.open.lock().unwrap().iter().filter_map(Weak::upgrade) {
            let _ = socket.shutdown(Shutdown::Both);
        }
        assert!(!failed || thread::panicking(), "a server's script failed");
    }
}

/// A response with a body.
pub fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// An address where nothing listens.
pub fn nobody() -> SocketAddrV4 {
    free_port(own_ip())
}

/// A listener that accepts nothing and whose backlog is full: a connection to it takes for ever.
pub struct Silent {
    pub addr: SocketAddrV4,
    _listener: TcpListener,
    _waiting: TcpStream,
}

impl Silent {
    pub fn start() -> Silent {
        let listener = TcpListener::bind((own_ip(), 0)).unwrap();
        let full = thalweg_runtime::net::Listening { backlog: 0, no_quick_ack: false };
        thalweg_runtime::net::listener::listen(std::os::fd::AsFd::as_fd(&listener), full).unwrap();
        let std::net::SocketAddr::V4(addr) = listener.local_addr().unwrap() else { panic!("not IPv4") };
        let waiting = TcpStream::connect(addr).unwrap();
        Silent { addr, _listener: listener, _waiting: waiting }
    }
}
