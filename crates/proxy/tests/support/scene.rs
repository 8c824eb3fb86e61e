//! A proxy on one thread of the simulator, and clients and servers that play scripts.

#![allow(dead_code)] // Each test file uses some of it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_config::{Input, LoadOptions};
use thalweg_proxy::stream::service::Service;
use thalweg_proxy::{Instance, ThreadSocket};
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::driver::sim::Network;
use thalweg_runtime::net::{ConnectOptions, LetGo, Listener, Port, SockAddr, Stream};
use thalweg_runtime::{Kind, clock, spawn, timer};

pub static SCRIPT: Kind = Kind::new("script");
pub const FRONT: &str = "10.0.0.1:80";
pub const BACK: &str = "10.0.0.2:80";
pub const LOG: &str = "10.0.0.3:514";

/// What a client or a server does.
#[derive(Clone, Copy, Debug)]
pub enum Do {
    /// Sends bytes.
    Say(&'static str),
    /// Sends so many bytes, more than fit anywhere.
    Flood(usize),
    /// Reads a head.
    Head,
    /// Does nothing, and reads nothing.
    Idle(u64),
    /// Sends a byte each so many milliseconds, so many times.
    Drip(u64, u32),
    /// Reads until the other side ends its direction, or breaks the connection.
    UntilEnd,
    /// Sends a field of a head each so many milliseconds, so many times.
    DripFields(u64, u32),
    /// Stops sending.
    Fin,
    Close,
    Reset,
}
use Do::*;

/// What happened: by whom it was seen, when, and what.
pub type Seen = Rc<RefCell<Vec<(&'static str, u64, String)>>>;

pub async fn play(mut stream: Stream, script: Vec<Do>, who: &'static str, seen: Seen, began: u64) {
    let mut received: Vec<u8> = Vec::new();
    for step in script {
        match step {
            Say(text) => say(&mut stream, text.as_bytes()).await,
            Flood(len) => {
                let mut left = len;
                while left > 0 && stream.send_ready().await.is_ok() {
                    let n = left.min(16_384);
                    stream.start_send(Buf::copy_of(&vec![b'z'; n]));
                    left -= n;
                }
            }
            Head => {
                while !received.windows(4).any(|w| w == b"\r\n\r\n") {
                    match stream.recv(4096).await {
                        Ok(buf) if !buf.is_empty() => received.extend_from_slice(&buf),
                        _ => break,
                    }
                }
                received.clear();
            }
            Idle(ms) => timer::sleep(ms).await,
            Drip(ms, times) => {
                for _ in 0..times {
                    timer::sleep(ms).await;
                    say(&mut stream, b"x").await;
                }
            }
            DripFields(ms, times) => {
                for i in 0..times {
                    timer::sleep(ms).await;
                    say(&mut stream, format!("a{i}: b\r\n").as_bytes()).await;
                }
            }
            UntilEnd => until_end(&mut stream, who, &seen, began).await,
            Fin => _ = stream.shutdown_write(),
            Close => return,
            Reset => {
                stream.set_linger_rst();
                return;
            }
        }
    }
    until_end(&mut stream, who, &seen, began).await;
    // The end of one direction is not that of the other.
    timer::sleep(60_000).await;
}

async fn until_end(stream: &mut Stream, who: &'static str, seen: &Seen, began: u64) {
    loop {
        match stream.recv(65_536).await {
            Ok(buf) if !buf.is_empty() => {}
            end => {
                let how = if end.is_ok() { "end" } else { "reset" };
                return seen.borrow_mut().push((who, clock::now_ms().saturating_sub(began), how.to_owned()));
            }
        }
    }
}

async fn say(stream: &mut Stream, bytes: &[u8]) {
    if stream.send_ready().await.is_ok() {
        stream.start_send(Buf::copy_of(bytes));
    }
}

pub fn address(text: &str) -> SockAddr {
    text.parse::<SocketAddr>().unwrap().into()
}

/// Starts a proxy on this thread. Its frontend `fe` listens on [`FRONT`], and its services are `nothing` at most.
pub fn begin(network: &Network, name: &str, text: &str, services: Vec<Box<dyn Service>>) -> Arc<Instance> {
    let input = Input::Memory { name: name.into(), text: text.as_bytes().to_vec() };
    let options =
        LoadOptions { files: vec![input], cpus: 1, services: &["nothing"], ..LoadOptions::default() };
    let loaded = thalweg_config::load(&options);
    let problems: Vec<String> = loaded.diagnostics.iter().map(|d| format!("{d:?}")).collect();
    let mut config = loaded.config.unwrap_or_else(|| panic!("{name}: {problems:?}"));
    config.global.nbthread = 1;
    let fe = config.proxies.iter().find(|p| &*p.name == "fe").unwrap();
    let listener = fe.binds[0].number as usize;
    let front = network.listen(&address(FRONT), &Default::default()).unwrap();
    let port = Arc::new(Port::new(front, LetGo::Keep));
    let instance = Instance::new(config, "thalweg", "host", clock::wall_us());
    instance.offer(services);
    thalweg_proxy::start_thread(&instance, 0, vec![ThreadSocket { listener, port }]);
    instance
}

/// Accepts connections at an address for ever; each is served in a task of its own.
pub fn accept<F: Future<Output = ()> + 'static>(at: &str, mut serve: impl FnMut(Stream) -> F + 'static) {
    let mut listener = Listener::bind(&address(at), &Default::default()).unwrap();
    spawn(&SCRIPT, async move {
        while let Ok((fd, _)) = listener.accept().await {
            let Ok(stream) = Stream::from_accepted(fd) else { return };
            spawn(&SCRIPT, serve(stream));
        }
    });
}

/// A client's connection to the proxy.
pub async fn to_front() -> Stream {
    Stream::connect(&address(FRONT), &ConnectOptions::default()).await.unwrap()
}
