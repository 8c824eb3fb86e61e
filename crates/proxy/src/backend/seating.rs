//! How a new connection to a server that has [`Seats`](super::seats) comes to its own.

use std::task::Poll;

use thalweg_runtime::{Question, Reply, ask, timer};

use super::connect::Target;
use super::connect_error::ConnectError;
use super::seats::{Seat, Waiting};
use crate::worker;

impl Target<'_> {
    /// The seat of a new connection, for which it waits up to `timeout_ms`.
    pub(super) async fn seat(&self, timeout_ms: Option<u64>) -> Result<Option<Seat>, ConnectError> {
        let (worker, backend) = (self.worker, self.worker.backend(self.proxy.id));
        let seats = backend.seats(self.server.id);
        let take = || seats.take(backend.maxconn(self.server.id));
        if let Some(seat) = take() {
            return Ok(Some(seat));
        }
        let waiting = Waiting::begin(&seats);
        let index = worker.instance.server_index(self.proxy.id, self.server.id);
        worker.with_known_pool(index, |pool, _| pool.close_one());
        let deadline = timeout_ms.map(timer::deadline_in);
        let mut others = (0..worker.instance.threads.len()).filter(|thread| *thread != worker.thread);
        let found = async {
            loop {
                if let Some(seat) = take() {
                    return seat;
                }
                match others.next() {
                    Some(other) if worker.instance.servers.of(index, other).idle_connections.get() > 0 => {
                        ask(other, CloseOne { server: index }).await;
                    }
                    Some(_) => {}
                    None => return std::future::poll_fn(|_| take().map_or(Poll::Pending, Poll::Ready)).await,
                }
            }
        };
        let found = timer::timeout_at(deadline, found).await;
        drop(waiting);
        found.map(Some).map_err(|_elapsed| ConnectError::NoSeat)
    }
}

/// Has a thread close an idle connection to the server of that flat number. Who asks waits until it looked.
struct CloseOne {
    server: usize,
}

impl Question for CloseOne {
    type Answer = ();

    fn put(self, reply: Reply<CloseOne>) {
        if let Some(worker) = worker::current() {
            worker.with_known_pool(self.server, |pool, _| pool.close_one());
        }
        reply.give(());
    }
}
