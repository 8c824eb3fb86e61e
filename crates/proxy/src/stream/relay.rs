//! Two pumps without framing: TCP mode, and tunnels (CONNECT, Upgrade, WebSocket).
//!
//! Each direction ends on its own: when one peer stops sending, the other one is told so and may go on (half-close).

use std::task::Poll;

use thalweg_h1::parse::ParseOptions;
use thalweg_http::Head;
use thalweg_http::semantics::BodyLength;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::clock;
use thalweg_runtime::net::{Stream, TransferMode};
use thalweg_runtime::timer;

use super::pump::{Delimiter, Pump, PumpError};

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
pub async fn relay(
    client: &mut Stream,
    client_input: &mut Option<Buf>,
    server: &mut Stream,
    server_input: &mut Option<Buf>,
    timeouts: RelayTimeouts,
    modes: [Option<TransferMode>; 2],
    mut killed: impl FnMut() -> bool,
) -> Relayed {
    let mut up = Pump::new(BodyLength::UntilClose, Delimiter::Plain, modes[0], false);
    let mut down = Pump::new(BodyLength::UntilClose, Delimiter::Plain, modes[1], false);
    let options = ParseOptions::default();
    let mut no_trailers = Head::new();
    let (mut up_shut, mut down_shut) = (false, false);
    let mut client_active = clock::now_ms();
    let mut server_active = client_active;
    let mut marks = (client.sent_bytes(), server.sent_bytes());
    let end = std::future::poll_fn(|_| {
        if killed() {
            return Poll::Ready(RelayEnd::Resource);
        }
        let now = clock::now_ms();
        if !up_shut {
            match up.poll(client_input, client, server, &options, &mut no_trailers) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => {
                    up_shut = true;
                    // The peer may be gone already; its own direction tells.
                    let _ = server.shutdown_write();
                }
                Poll::Ready(Err(error)) => return Poll::Ready(blame(&error, true)),
            }
        }
        if !down_shut {
            match down.poll(server_input, server, client, &options, &mut no_trailers) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => {
                    down_shut = true;
                    let _ = client.shutdown_write();
                }
                Poll::Ready(Err(error)) => return Poll::Ready(blame(&error, false)),
            }
        }
        if up_shut && down_shut {
            // Both ends were told; what is still in flight goes on after the streams are dropped.
            let flushed = client.poll_send_ready().is_ready() & server.poll_send_ready().is_ready();
            if flushed {
                return Poll::Ready(RelayEnd::Done);
            }
        }
        // Activity of a side: something came from it, or it took something.
        let sent = (client.sent_bytes(), server.sent_bytes());
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
    Relayed { end, up: up.received, down: down.received }
}

fn blame(error: &PumpError, upwards: bool) -> RelayEnd {
    match (error, upwards) {
        (PumpError::Receive(_), true) | (PumpError::Send(_), false) => RelayEnd::ClientAborted,
        (PumpError::Receive(_), false) | (PumpError::Send(_), true) => RelayEnd::ServerAborted,
        _ => RelayEnd::Resource,
    }
}
