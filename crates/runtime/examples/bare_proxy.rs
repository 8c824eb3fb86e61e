//! The least an HTTP/1.1 relay can do on this runtime: read a head, take an idle connection to the server or make one,
//! send the head on, relay an answer with a Content-Length, keep both connections. No rules, logs or timeouts.
//! It measures what the runtime itself costs:
//!
//! ```text
//! bare_proxy 127.0.0.1:8000 127.0.0.1:8001 [io_uring|epoll]
//! ```

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::driver::DriverKind;
use thalweg_runtime::net::{
    ConnectOptions, ListenOptions, Listener, SockAddr, Stream, Transfer, TransferMode,
};
use thalweg_runtime::{Config, Kind, Runtime, spawn};

static ACCEPT: Kind = Kind::new("accept");
static SESSION: Kind = Kind::new("session");

/// More than this to come is moved by a [`Transfer`].
const LARGE: usize = 65_536;

struct Server {
    address: SockAddr,
    idle: RefCell<Vec<Stream>>,
}

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, listen, server, rest @ ..] = &args[..] else {
        eprintln!("usage: bare_proxy LISTEN SERVER [io_uring|epoll]");
        std::process::exit(1);
    };
    let parse = |text: &String| text.parse::<std::net::SocketAddr>().expect("an address with a port").into();
    let (listen, server): (SockAddr, SockAddr) = (parse(listen), parse(server));
    let driver = match rest.first().map(String::as_str) {
        Some("epoll") => DriverKind::Epoll,
        Some("io_uring") => DriverKind::Uring,
        _ => DriverKind::Auto,
    };
    Runtime::start(Config { driver, ..Config::default() }, move |_| {
        let (listen, server) = (listen.clone(), server.clone());
        spawn(&ACCEPT, async move {
            let server = Rc::new(Server { address: server, idle: RefCell::default() });
            let mut listener =
                Listener::bind(&listen, &ListenOptions::default()).expect("the address is free");
            loop {
                let Ok((fd, _)) = listener.accept().await else { continue };
                let Ok(client) = Stream::from_accepted(fd) else { continue };
                let server = server.clone();
                spawn(&SESSION, async move { _ = session(client, &server).await });
            }
        });
    })?
    .run()
}

async fn session(mut client: Stream, server: &Server) -> std::io::Result<()> {
    loop {
        let Some((head, _)) = read_head(&mut client).await? else { return Ok(()) };
        let last = head.ends_with(b"Connection: close\r\n\r\n");
        let mut upstream = take_idle(server);
        if upstream.is_none() {
            upstream = Some(Stream::connect(&server.address, &ConnectOptions::default()).await?);
        }
        let Some(mut upstream) = upstream else { continue };
        upstream.send_ready().await?;
        upstream.start_send(head);
        let Some((mut part, head_len)) = read_head(&mut upstream).await? else { return Ok(()) };
        let mut left = head_len + content_length(&part[..head_len]);
        loop {
            left = left.saturating_sub(part.len());
            client.send_ready().await?;
            client.start_send(part);
            if left == 0 {
                break;
            }
            if left > LARGE {
                let mut transfer = Transfer::new(TransferMode::Auto);
                while left > 0 {
                    let moved = poll_fn(|_| transfer.poll(&mut upstream, &mut client, left as u64)).await;
                    match moved {
                        Ok(n) if n > 0 => left -= n as usize,
                        _ => return Ok(()),
                    }
                }
                break;
            }
            part = upstream.recv(left).await?;
            if part.is_empty() {
                return Ok(());
            }
        }
        server.idle.borrow_mut().push(upstream);
        if last {
            return Ok(());
        }
    }
}

fn take_idle(server: &Server) -> Option<Stream> {
    let mut idle = server.idle.borrow_mut();
    loop {
        let mut stream = idle.pop()?;
        if !stream.has_input_now() {
            return Some(stream);
        }
    }
}

/// A buffer that starts with a whole head, and the head's length.
async fn read_head(stream: &mut Stream) -> std::io::Result<Option<(Buf, usize)>> {
    let mut all = stream.recv(16_384).await?;
    loop {
        if all.is_empty() {
            return Ok(None);
        }
        if let Some(end) = all.windows(4).position(|w| w == b"\r\n\r\n") {
            return Ok(Some((all, end + 4)));
        }
        let more = stream.recv(16_384).await?;
        if more.is_empty() {
            return Ok(None);
        }
        let mut joined = Buf::large(all.len() + more.len());
        _ = joined.extend_from_slice(&all);
        _ = joined.extend_from_slice(&more);
        all = joined;
    }
}

fn content_length(head: &[u8]) -> usize {
    let text = std::str::from_utf8(head).unwrap_or_default();
    let line = text.lines().find(|l| l.get(..15).is_some_and(|n| n.eq_ignore_ascii_case("content-length:")));
    line.and_then(|l| l[15..].trim().parse().ok()).unwrap_or(0)
}
