//! Memory per connection: connections that are held open in one state, and what comes back when they close.
//!
//! A copy of this program holds them, with a descriptor table of its own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_tls::engine::{Connecting, Event, Step};
use thalweg_tls::server::{ServerContext, ServerProfile};
use thalweg_tls::{Failure, SystemClock};

use crate::load::{REQUEST, SMALL_BODY, connect, exchange};
use crate::machine::{LOAD_CORE, pinned};
use crate::measure::anonymous_bytes;
use crate::peer::{MEMORY_ADDRESSES, Running};

/// How a held connection waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// It has had a request and its response.
    Idle,
    /// Half of a request's head was sent.
    HalfHead,
    /// As the first, over TLS.
    Tls,
}

/// What holding and closing did to a process.
pub struct Grown {
    /// Bytes of anonymous memory per connection held.
    pub bytes_per_connection: f64,
    /// The share of it, in percent, that was given back within five seconds after all had closed.
    pub given_back_percent: f64,
}

/// Opens `count` connections to the proxy on `port`, looks at its memory, closes them, and looks again.
///
/// # Errors
/// When the copy that holds them fails.
pub fn measure(running: &Running, port: u16, held: Held, count: usize) -> io::Result<Grown> {
    let memory = || running.pids.iter().map(|pid| anonymous_bytes(*pid)).sum::<u64>();
    // What every process allocates once is not to be counted.
    Holder::open(port, held, 50)?.close()?;
    let before = memory();
    let holder = Holder::open(port, held, count)?;
    let grown = memory().saturating_sub(before);
    holder.close()?;
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut left = memory().saturating_sub(before);
    while left * 10 > grown && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(100));
        left = memory().saturating_sub(before);
    }
    Ok(Grown {
        bytes_per_connection: grown as f64 / count as f64,
        given_back_percent: 100.0 * (1.0 - left as f64 / grown.max(1) as f64),
    })
}

/// The process that holds connections.
struct Holder {
    child: std::process::Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Holder {
    fn open(port: u16, held: Held, count: usize) -> io::Result<Holder> {
        let mut child = pinned(LOAD_CORE, std::env::current_exe()?)
            .args(["hold", &port.to_string(), &count.to_string()])
            .arg(match held {
                Held::HalfHead => "half",
                Held::Idle => "idle",
                Held::Tls => "tls",
            })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (to, from) = pipes.ok_or_else(|| io::Error::other("no pipes to the holder"))?;
        let mut holder = Holder { child, to, from: BufReader::new(from) };
        holder.expect("open")?;
        Ok(holder)
    }

    fn close(mut self) -> io::Result<()> {
        self.to.write_all(b"close\n")?;
        self.expect("closed")?;
        self.child.wait().map(drop)
    }

    fn expect(&mut self, word: &str) -> io::Result<()> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        if line.trim() == word { Ok(()) } else { Err(io::Error::other(format!("holder: {}", line.trim()))) }
    }
}

fn client() -> Arc<ServerContext> {
    let profile = ServerProfile::default();
    Arc::new(ServerContext::new(&profile, Arc::new(SystemClock)).expect("the defaults can be used"))
}

/// Shakes hands, and has a request answered. What is known of the connection is forgotten: it is only to stay open.
fn exchange_over_tls(mut stream: TcpStream, context: &Arc<ServerContext>) -> io::Result<TcpStream> {
    let broken = |failure: Failure| io::Error::other(failure.to_string());
    let mut connecting = Connecting::new(context.clone(), Some(b"bench.example"), None).map_err(broken)?;
    let (mut out, mut bytes) = (Vec::new(), vec![0; 16_384]);
    let connected = 'shaken: loop {
        while connecting.is_ready() {
            let step = connecting.step(&mut out).map_err(broken)?;
            stream.write_all(&std::mem::take(&mut out))?;
            if step == Step::Done {
                break 'shaken connecting.finish().map_err(broken)?;
            }
        }
        let length = stream.read(&mut bytes)?;
        connecting.feed(&bytes[..length]).map_err(broken)?;
    };
    let mut connection = connected.connection;
    let mut sealed = vec![0; 1024];
    let written = connection.seal(&[REQUEST], 16_384, &mut sealed).map_err(broken)?.written;
    stream.write_all(&sealed[..written])?;
    let (mut raw, mut plain) = (connected.rest, 0);
    while plain < SMALL_BODY {
        while let Some(opened) = connection.open(&mut raw).map_err(broken)? {
            if let Event::Data(range) = opened.event {
                plain += range.len();
            }
            raw.drain(..opened.consumed);
        }
        let length = if plain < SMALL_BODY { stream.read(&mut bytes)? } else { 0 };
        raw.extend_from_slice(&bytes[..length]);
    }
    Ok(stream)
}

/// The copy: takes port, count and state; says `open`, waits for a line, says `closed`.
pub fn hold_main(args: &[String]) {
    let number = |i: usize| args.get(i).and_then(|a| a.parse::<usize>().ok()).unwrap_or(1);
    let half = args.get(2).is_some_and(|state| state == "half");
    let tls = args.get(2).is_some_and(|state| state == "tls").then(client);
    let open = |i: usize| -> io::Result<TcpStream> {
        // Each address has its own ports at this end.
        let address = format!("127.0.0.{}:{}", 1 + i % MEMORY_ADDRESSES, number(0));
        let mut stream = connect(&address)?;
        if half {
            stream.write_all(&REQUEST[..REQUEST.len() / 2])?;
            return Ok(stream);
        }
        match &tls {
            Some(context) => exchange_over_tls(stream, context),
            None => exchange(stream),
        }
    };
    let held: io::Result<Vec<TcpStream>> = (0..number(1)).map(open).collect();
    match held {
        Err(error) => println!("{error}"),
        Ok(held) => {
            if half {
                // The last halves have to be read too; nothing tells when they were.
                std::thread::sleep(Duration::from_millis(500));
            }
            println!("open");
            let mut line = String::new();
            // An end of input says the same.
            let _ = io::stdin().read_line(&mut line);
            drop(held);
            println!("closed");
        }
    }
}
