//! Two pumps without framing: TCP mode, and tunnels (CONNECT, Upgrade, WebSocket).
//!
//! Each direction ends on its own: when one peer stops sending, the other one is told so and may go on (half-close).

use std::task::Poll;

use thalweg_runtime::clock;
use thalweg_runtime::net::TransferMode;
use thalweg_runtime::timer;

use super::pump::{Pump, PumpError};
use crate::connection::wire::Wire;

/// Inactivity limits in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct RelayTimeouts {
    pub client: Option<u64>,
    pub server: Option<u64>,
    /// Replaces both when set.
    pub tunnel: Option<u64>,
    /// For a client that has stopped sending, or is no longer sent anything.
    pub client_fin: Option<u64>,
    pub server_fin: Option<u64>,
    /// For client and server: what is sent to them is no sign of life (`option independent-streams`).
    pub independent: (bool, bool),
}

/// Who ended the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayEnd {
    /// Both directions ended in order.
    Done,
    /// The client reset the connection or went away while data was on its way to it.
    ClientAborted,
    ServerAborted,
    ClientTimeout,
    ServerTimeout,
    /// This process had no buffer left, or was told to stop the stream.
    Resource,
}

/// What was moved.
#[derive(Clone, Copy, Debug)]
pub struct Relayed {
    pub end: RelayEnd,
    /// Bytes from the client.
    pub up: u64,
    /// Bytes from the server.
    pub down: u64,
}

/// Relays until both directions ended or something went wrong. `killed` is asked at every wake-up.
///
/// `up` first moves what is left of a message of the client: a request that asked for another protocol may have a body
/// that is still on its way.
pub async fn relay(
    client: &mut Wire,
    server: &mut Wire,
    mut up: Pump,
    timeouts: RelayTimeouts,
    modes: [Option<TransferMode>; 2],
    mut killed: impl FnMut() -> bool,
) -> Relayed {
    server.body.begin_until_close();
    let (mut moved_up, mut counted) = (0, client.body.received());
    let mut down = Pump::plain(modes[1]);
    let (mut up_shut, mut down_shut) = (false, false);
    let mut client_active = clock::now_ms();
    let mut server_active = client_active;
    let mut marks = (client.io.sent_bytes(), server.io.sent_bytes());
    let end = std::future::poll_fn(|_| {
        if killed() {
            return Poll::Ready(RelayEnd::Resource);
        }
        let now = clock::now_ms();
        while !up_shut {
            match up.poll(client, &mut server.io) {
                Poll::Pending => break,
                Poll::Ready(Ok(())) if !client.body.is_until_close() => {
                    moved_up += client.body.received() - counted;
                    counted = 0;
                    client.body.begin_until_close();
                    up = Pump::plain(modes[0]);
                    continue;
                }
                Poll::Ready(Ok(())) => {
                    up_shut = true;
                    // The peer may be gone already; its own direction tells.
                    let _ = server.io.shutdown_write();
                }
                Poll::Ready(Err(error)) => return Poll::Ready(blame(&error, true)),
            }
        }
        if !down_shut {
            match down.poll(server, &mut client.io) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => {
                    down_shut = true;
                    let _ = client.io.shutdown_write();
                }
                Poll::Ready(Err(error)) => return Poll::Ready(blame(&error, false)),
            }
        }
        if up_shut && down_shut {
            // Both ends were told; what is still in flight goes on after the streams are dropped.
            let flushed = client.io.poll_send_ready().is_ready() & server.io.poll_send_ready().is_ready();
            if flushed {
                return Poll::Ready(RelayEnd::Done);
            }
        }
        // Activity of a side: something came from it, or it took something.
        let sent = (client.io.sent_bytes(), server.io.sent_bytes());
        if std::mem::take(&mut up.progressed) || (!timeouts.independent.0 && sent.0 != marks.0) {
            client_active = now;
        }
        if std::mem::take(&mut down.progressed) || (!timeouts.independent.1 && sent.1 != marks.1) {
            server_active = now;
        }
        marks = sent;
        let half_closed = up_shut || down_shut;
        let limit = |own: Option<u64>, fin: Option<u64>| match (half_closed, fin, timeouts.tunnel) {
            (true, Some(fin), _) => Some(fin),
            (_, _, Some(tunnel)) => Some(tunnel),
            _ => own,
        };
        // In a tunnel, either side keeps both alive.
        let (client_seen, server_seen) = if timeouts.tunnel.is_some() {
            let last = client_active.max(server_active);
            (last, last)
        } else {
            (client_active, server_active)
        };
        if let Some(ms) = limit(timeouts.client, timeouts.client_fin) {
            if now >= client_seen + ms {
                return Poll::Ready(RelayEnd::ClientTimeout);
            }
            timer::want(client_seen + ms);
        }
        if let Some(ms) = limit(timeouts.server, timeouts.server_fin) {
            if now >= server_seen + ms {
                return Poll::Ready(RelayEnd::ServerTimeout);
            }
            timer::want(server_seen + ms);
        }
        Poll::Pending
    })
    .await;
    Relayed { end, up: moved_up + client.body.received() - counted, down: server.body.received() }
}

fn blame(error: &PumpError, upwards: bool) -> RelayEnd {
    match (error, upwards) {
        (PumpError::Receive(_), true) | (PumpError::Send(_), false) => RelayEnd::ClientAborted,
        (PumpError::Receive(_), false) | (PumpError::Send(_), true) => RelayEnd::ServerAborted,
        _ => RelayEnd::Resource,
    }
}
