//! Who takes part in a scenario beside the proxy: clients, servers, and whoever reads the log.

pub mod change;
pub mod client;
pub mod health;
pub mod log;
pub mod operator;
pub mod server;
pub mod streams;
pub mod tcp;

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;

use thalweg_runtime::buffer::Buf;
use thalweg_runtime::driver::sim;
use thalweg_runtime::net::{Listener, SockAddr, Stream};
use thalweg_runtime::{Kind, spawn, timer};

/// The tasks of a scenario, as they appear among those that are left.
pub static ACTOR: Kind = Kind::new("actor");

/// Pauses between pieces are made this often; the rest of a message follows at once, so that no scenario takes hours.
const PAUSES_MAX: usize = 40;

/// A connection that is read and written independently, and can be given up by either.
pub struct Line(RefCell<Option<Stream>>);

/// What a receive gave.
pub enum Got {
    Bytes(Vec<u8>),
    Fin,
    Reset,
    /// This side closed it.
    Gone,
}

impl Line {
    /// A line over a connection.
    pub fn new(stream: Stream) -> Line {
        Line(RefCell::new(Some(stream)))
    }

    /// Receives at most `max` bytes.
    pub async fn recv(&self, max: usize) -> Got {
        std::future::poll_fn(|_| match &mut *self.0.borrow_mut() {
            None => Poll::Ready(Got::Gone),
            Some(stream) => sim::receive(stream, max).map(|result| match result {
                Ok(bytes) if bytes.is_empty() => Got::Fin,
                Ok(bytes) => Got::Bytes(bytes),
                Err(_) => Got::Reset,
            }),
        })
        .await
    }

    /// Sends, and waits until the network took all of it. False when it did not.
    pub async fn send(&self, bytes: &[u8]) -> bool {
        if self.ready().await.is_err() {
            return false;
        }
        if let Some(stream) = &mut *self.0.borrow_mut() {
            stream.start_send(Buf::copy_of(bytes));
        }
        self.ready().await.is_ok()
    }

    async fn ready(&self) -> io::Result<()> {
        std::future::poll_fn(|_| match &mut *self.0.borrow_mut() {
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            Some(stream) => stream.poll_send_ready(),
        })
        .await
    }

    /// Whether this side did not close it.
    pub fn is_open(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Closes it.
    pub fn close(&self) {
        let stream = self.0.borrow_mut().take();
        drop(stream);
    }

    /// Breaks it.
    pub fn reset(&self) {
        if let Some(mut stream) = self.0.borrow_mut().take() {
            stream.set_linger_rst();
        }
    }

    /// Sends nothing more.
    pub fn half_close(&self) {
        if let Some(stream) = &mut *self.0.borrow_mut() {
            // A connection that is broken already is noticed by its reader.
            let _ = stream.shutdown_write();
        }
    }
}

/// Accepts connections at an address for ever, each served in a task of its own. False at once if nobody can listen there.
pub async fn accept<F: Future<Output = ()> + 'static>(at: SocketAddr, serve: impl Fn(Line) -> F) -> bool {
    let Ok(mut listener) = Listener::bind(&SockAddr::from(at), &Default::default()) else { return false };
    loop {
        let Ok((fd, _)) = listener.accept().await else {
            timer::sleep(10).await;
            continue;
        };
        if let Ok(stream) = Stream::from_accepted(fd) {
            spawn(&ACTOR, serve(Line::new(stream)));
        }
    }
}

/// Adds to a count; returns what it was.
pub fn add(count: &mut u64, n: u64) -> u64 {
    *count += n;
    *count - n
}

/// Runs two futures of one task to their ends. Either may do what lets the other go on.
pub async fn both(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut a_done, mut b_done) = (false, false);
    std::future::poll_fn(|cx| {
        a_done = a_done || a.as_mut().poll(cx).is_ready();
        b_done = b_done || b.as_mut().poll(cx).is_ready();
        a_done = a_done || a.as_mut().poll(cx).is_ready();
        if a_done && b_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
