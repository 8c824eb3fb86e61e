//! Feeding the servers of rings and of log backends: a task for each, which sends what its [ring](thalweg_operate::log::ring)
//! gets, encrypted where the server's line says so. One that operators move is followed before the next lines are sent.

use std::rc::Rc;
use std::task::Poll;

use thalweg_operate::log::backend::socket_address;
use thalweg_operate::log::ring::Feed;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::SockAddr;
use thalweg_runtime::{Kind, Reason, current_task, spawn, timer};

use crate::backend::identity::Changed;
use crate::backend::reach::reach;
use crate::connection::transport::Transport;
use crate::worker::{self, Worker};

static FEEDER: Kind = Kind::new("log-ring");

/// Bytes sent to a server at once.
const BATCH_MAX: usize = 16 * 1024;

/// Pause after a failed attempt to reach a server.
const RETRY_MS: u64 = 1000;

/// The limit of an attempt to connect, handshake included, when the ring has none.
const CONNECT_MS: u64 = 5000;

/// Starts to feed a server on the calling thread, for as long as the process lives.
pub fn start(worker: &Worker, feed: Feed) {
    let own = Rc::clone(worker.own());
    let limits = worker.record_limits();
    spawn(&FEEDER, async move {
        let mut cursor = 0;
        loop {
            let deadline = Some(timer::deadline_in(feed.connect_ms.unwrap_or(CONNECT_MS)));
            let place = place(&feed);
            let reached = reach(&own, &feed.server, &place.address, limits, deadline).await;
            if let Ok(mut io) = reached {
                while send_lines(&feed, &place, &mut io, &mut cursor).await.is_some() {}
            }
            if !has_moved(&feed, &place) {
                timer::sleep(RETRY_MS).await;
            }
        }
    });
}

/// Where a server was when it was connected to.
struct Place {
    address: SockAddr,
    /// How often it had moved.
    moves: u32,
}

/// What operators made of a server, if they may and did.
fn changed(feed: &Feed) -> Option<Rc<Changed>> {
    let (backend, server) = feed.movable?;
    worker::current()?.changed(backend, server)
}

/// Where a server is now.
fn place(feed: &Feed) -> Place {
    let changed = changed(feed);
    let address = changed.as_ref().and_then(|changed| socket_address(&changed.identity.addr));
    Place {
        address: address.unwrap_or_else(|| feed.address.clone()),
        moves: changed.map_or(0, |changed| changed.moves),
    }
}

fn has_moved(feed: &Feed, place: &Place) -> bool {
    changed(feed).map_or(0, |changed| changed.moves) != place.moves
}

/// Waits for lines and sends them; `None` once the connection is over. Lines of a send that failed are lost, as the
/// protocol has no acknowledgements. Those for a server that moved wait for the next connection.
async fn send_lines(feed: &Feed, place: &Place, io: &mut Transport, cursor: &mut u64) -> Option<()> {
    let open = std::future::poll_fn(|_| {
        // Servers of logs have nothing to say; an end or an error is seen while there is nothing to send.
        match io.poll_recv(1024) {
            Poll::Ready(Ok(said)) if !said.is_empty() => {}
            Poll::Ready(_) => return Poll::Ready(false),
            Poll::Pending => return feed.ring.poll_lines(*cursor).map(|()| true),
        }
        current_task().wake(Reason::OTHER);
        Poll::Pending
    })
    .await;
    if !open || has_moved(feed, place) {
        return None;
    }
    // The last words of a handshake may still be on their way.
    sent(feed, io).await?;
    let mut batch = Vec::new();
    let missed = feed.ring.read(cursor, feed.framing, BATCH_MAX, &mut batch);
    feed.ring.count_lost(missed);
    io.start_send(Buf::copy_of(&batch));
    sent(feed, io).await
}

/// Waits until the server took what was sent; `None` if it does not.
async fn sent(feed: &Feed, io: &mut Transport) -> Option<()> {
    let deadline = feed.send_ms.map(timer::deadline_in);
    matches!(timer::timeout_at(deadline, io.send_ready()).await, Ok(Ok(()))).then_some(())
}
