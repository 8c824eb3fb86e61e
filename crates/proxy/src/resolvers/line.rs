//! The ways to one name server: a datagram socket, and a stream for what does not fit into datagrams.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::Poll;

use thalweg_config::model::{NameServer, Server, Shared};
use thalweg_dns::message::{framed, unframed};
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::{ConnectOptions, Datagram, DatagramOptions, Received, SockAddr, Stream};
use thalweg_runtime::timer::{self, Deadline};
use thalweg_runtime::{Kind, Reason, TaskId, clock, spawn};

use super::section::Section;
use crate::backend::reach::reach;
use crate::connection::transport::Transport;
use crate::worker;

static DATAGRAMS: Kind = Kind::new("resolver-datagrams");
static STREAM: Kind = Kind::new("resolver-stream");

/// Queries that leave from one port, at least. Who wants to lie has to guess the port beside the number (RFC 5452), so both
/// change; but a port is kept for as long as answers may come to it.
const QUERIES_PER_PORT: u32 = 128;

/// A port is used for as long as this at least, in milliseconds, so that the one of before is not awaited any more when the next
/// one comes.
const PORT_MIN_MS: u64 = 5000;

/// Queries that may wait for the kernel to have room. One that is dropped is asked again after `timeout retry` only.
const DATAGRAM_QUEUE_MAX: usize = 1 << 16;

/// Queries that may wait for a stream.
const STREAM_QUEUE_MAX: usize = 1024;

/// How long a stream may take to connect, and how long it is kept without a query, in milliseconds.
const STREAM_IDLE_MS: u64 = 5000;

/// Pause after a socket failed, in milliseconds.
const PAUSE_MS: u64 = 100;

/// Bytes asked for at a time on a stream.
const ROOM: usize = 16 * 1024;

/// See the module's documentation.
pub(super) struct Line {
    addr: SockAddr,
    /// How it is connected to, if it is asked over streams only.
    server: Option<Shared<Server>>,
    /// Datagrams may be longer than a usual buffer.
    large: bool,
    /// The socket that queries leave from, and the one of before, for the answers that are on their way.
    sockets: RefCell<[Option<Rc<Socket>>; 2]>,
    used: Cell<u32>,
    /// When the next port may come.
    next_port_ms: Cell<u64>,
    port_ms: u64,
    /// What is to be sent over the stream.
    queue: RefCell<VecDeque<Vec<u8>>>,
    /// The task that has the stream; [`TaskId::NONE`] while there is none.
    stream: Cell<TaskId>,
}

struct Socket {
    datagram: RefCell<Datagram>,
    task: Cell<TaskId>,
    is_closed: Cell<bool>,
}

impl Line {
    /// The way to a name server. `retry_ms` is how long an answer is awaited.
    pub fn new(server: &NameServer, large: bool, retry_ms: u64) -> Line {
        Line {
            addr: SockAddr::from(server.addr),
            server: server.stream.clone(),
            large,
            sockets: RefCell::default(),
            used: Cell::new(0),
            next_port_ms: Cell::new(0),
            port_ms: PORT_MIN_MS.max(2 * retry_ms),
            queue: RefCell::default(),
            stream: Cell::new(TaskId::NONE),
        }
    }

    /// Sends a query. Whether it leaves is counted, not waited for.
    pub fn send(&self, section: &Rc<Section>, server: usize, over_stream: bool, bytes: Vec<u8>) {
        let sent = if over_stream {
            self.send_over_stream(section, server, bytes)
        } else {
            self.socket(section, server).is_some_and(|socket| socket.datagram.borrow_mut().queue(&bytes))
        };
        if !sent {
            section.send_failed(server);
        }
    }

    /// The socket to send from: another one from time to time.
    fn socket(&self, section: &Rc<Section>, server: usize) -> Option<Rc<Socket>> {
        let mut sockets = self.sockets.borrow_mut();
        let used = self.used.get();
        self.used.set(used + 1);
        let now_ms = clock::now_ms();
        let stays = used < QUERIES_PER_PORT || now_ms < self.next_port_ms.get();
        if let Some(socket) = sockets[0].as_ref().filter(|socket| stays && !socket.is_closed.get()) {
            return Some(Rc::clone(socket));
        }
        let options = DatagramOptions {
            receive_offload: self.large,
            queue_max: DATAGRAM_QUEUE_MAX,
            queue_bytes_max: DATAGRAM_QUEUE_MAX * 64,
            ..DatagramOptions::default()
        };
        let datagram = Datagram::connect(&self.addr, &options).ok()?;
        let socket = Rc::new(Socket {
            datagram: RefCell::new(datagram),
            task: Cell::new(TaskId::NONE),
            is_closed: Cell::new(false),
        });
        socket.task.set(spawn(&DATAGRAMS, receive(Rc::clone(section), server, Rc::clone(&socket))));
        let [current, before] = &mut *sockets;
        if let Some(oldest) = before.take() {
            oldest.is_closed.set(true);
            oldest.task.get().wake(Reason::OTHER);
        }
        *before = current.replace(Rc::clone(&socket));
        self.used.set(1);
        self.next_port_ms.set(now_ms + self.port_ms);
        Some(socket)
    }

    fn send_over_stream(&self, section: &Rc<Section>, server: usize, bytes: Vec<u8>) -> bool {
        let mut queue = self.queue.borrow_mut();
        if queue.len() >= STREAM_QUEUE_MAX {
            return false;
        }
        queue.push_back(bytes);
        drop(queue);
        if self.stream.get() == TaskId::NONE {
            self.stream.set(spawn(&STREAM, stream(Rc::clone(section), server)));
        } else {
            self.stream.get().wake(Reason::OTHER);
        }
        true
    }
}

/// Takes what comes on a datagram socket until it is closed. The socket is connected, so that the kernel passes on only what
/// comes from the name server.
async fn receive(section: Rc<Section>, server: usize, socket: Rc<Socket>) {
    // However this ends, the next query leaves from a socket that somebody listens on.
    let listening = Listening(&socket);
    loop {
        let next = std::future::poll_fn(|_| match socket.is_closed.get() {
            true => Poll::Ready(None),
            false => socket.datagram.borrow_mut().poll_recv_from().map(Some),
        });
        match next.await {
            None => return drop(listening),
            Some(Ok(received)) => take(&section, server, &received),
            Some(Err(_)) => {
                // Nobody is there, or the way is gone.
                timer::sleep(PAUSE_MS).await;
            }
        }
    }
}

/// While it lives, somebody takes what comes on a socket.
struct Listening<'s>(&'s Rc<Socket>);

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.is_closed.set(true);
    }
}

fn take(section: &Rc<Section>, server: usize, received: &Received) {
    if received.truncated {
        return section.received_cut(server);
    }
    let size = received.segment.map_or(received.bytes.len(), usize::from).max(1);
    for message in received.bytes.chunks(size) {
        section.received(server, false, message);
    }
}

/// While it lives, its line has a stream.
struct Guard<'s>(&'s Line);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.stream.set(TaskId::NONE);
    }
}

/// Has the stream to a name server, as long as there are queries for it.
async fn stream(section: Rc<Section>, server: usize) {
    let guard = Guard(section.line(server));
    let _ = converse(&section, server).await;
    // What it leaves was not sent; their lookups try again.
    let left = std::mem::take(&mut *section.line(server).queue.borrow_mut());
    left.iter().for_each(|_| section.send_failed(server));
    drop(guard);
}

/// What happened on a stream.
enum Event {
    MaySend,
    Came(Buf),
    Idle,
}

/// Connects to a name server: as its line says, or over plain TCP for what does not fit into datagrams.
async fn connect(line: &Line) -> io::Result<Transport> {
    let deadline = Some(timer::deadline_in(STREAM_IDLE_MS));
    if let Some(server) = &line.server {
        let worker = worker::current().ok_or(io::ErrorKind::NotConnected)?;
        let (own, limits) = (Rc::clone(worker.own()), worker.record_limits());
        drop(worker);
        return reach(&own, server, &line.addr, limits, deadline).await;
    }
    let options = ConnectOptions::default();
    let connecting = timer::timeout_at(deadline, Stream::connect(&line.addr, &options)).await;
    Ok(Transport::from(connecting.map_err(|_| io::ErrorKind::TimedOut)??))
}

async fn converse(section: &Rc<Section>, server: usize) -> io::Result<()> {
    let line = section.line(server);
    let mut stream = connect(line).await?;
    let mut bytes = Vec::new();
    let mut idle = Deadline(Some(timer::deadline_in(STREAM_IDLE_MS)));
    loop {
        let event = std::future::poll_fn(|_| {
            if !line.queue.borrow().is_empty()
                && let Poll::Ready(ready) = stream.poll_send_ready()
            {
                return Poll::Ready(ready.map(|()| Event::MaySend));
            }
            match stream.poll_recv(ROOM) {
                Poll::Ready(received) => Poll::Ready(received.map(Event::Came)),
                Poll::Pending => idle.poll().map(|()| Ok(Event::Idle)),
            }
        });
        match event.await? {
            Event::MaySend => {
                let next = line.queue.borrow_mut().pop_front();
                if let Some(message) = next {
                    stream.start_send(Buf::copy_of(&framed(&message)));
                }
            }
            Event::Came(buf) if buf.is_empty() => return Ok(()),
            Event::Came(buf) => {
                bytes.extend_from_slice(&buf);
                drop(buf);
                // A message that is not complete yet has at most 64 kB.
                while let Some((message, taken)) = unframed(&bytes) {
                    section.received(server, true, message);
                    bytes.drain(..taken);
                }
            }
            Event::Idle => return Ok(()),
        }
        idle = Deadline(Some(timer::deadline_in(STREAM_IDLE_MS)));
    }
}
