//! Two pumps without framing: TCP mode, and tunnels (CONNECT, Upgrade, WebSocket).
//!
//! Each direction ends on its own: when one peer stops sending, or is silent for too long, the other one is told so and
//! may go on (half-close).

use std::task::Poll;

use super::deadline::{Expects, Limits, Overdue, Patience};
use super::ending::Cause;
use super::pump::{Pump, PumpError};
use crate::connection::line::Line;
use crate::connection::port::{Cut, Port};

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

impl RelayEnd {
    /// Why the stream ended; `None` when nothing went wrong.
    pub fn cause(self) -> Option<Cause> {
        Some(match self {
            RelayEnd::Done => return None,
            RelayEnd::ClientAborted => Cause::ClientResetInRelay,
            RelayEnd::ServerAborted => Cause::ServerResetInRelay,
            RelayEnd::ClientTimeout => Cause::ClientTimeoutInRelay,
            RelayEnd::ServerTimeout => Cause::ServerTimeoutInRelay,
            RelayEnd::Resource => Cause::RelayStopped,
        })
    }
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
/// The first pump, from the client, begins with what is left of a message: a request that asked for another protocol may
/// have a body that is still on its way. `limits` are those of client and server.
pub async fn relay(
    client: &mut Port,
    server: &mut Port,
    [mut up, mut down]: [Pump; 2],
    limits: [Limits; 2],
    mut killed: impl FnMut() -> bool,
) -> Relayed {
    server.body.begin_until_close();
    let (mut moved_up, mut counted) = (0, client.body.received());
    let (mut up_shut, mut down_shut) = (false, false);
    let [client_limits, server_limits] = limits;
    let (mut on_client, mut on_server) = (Patience::new(client_limits), Patience::new(server_limits));
    // Who was silent for too long. That ends its own direction only, as if it had ended it itself.
    let mut silent = None;
    let end = std::future::poll_fn(|_| {
        if killed() {
            return Poll::Ready(RelayEnd::Resource);
        }
        while !up_shut {
            match up.poll(client, &mut server.line) {
                Poll::Pending => break,
                Poll::Ready(Ok(())) if !client.body.is_until_close() => {
                    moved_up += client.body.received() - counted;
                    counted = 0;
                    client.body.begin_until_close();
                    up.go_on_plain();
                    continue;
                }
                Poll::Ready(Ok(())) => {
                    up_shut = true;
                    // The peer may be gone already; its own direction tells.
                    let _ = server.line.shutdown_write();
                    on_server.shut();
                }
                Poll::Ready(Err(error)) => return Poll::Ready(broken(&error, true, server)),
            }
        }
        if !down_shut {
            match down.poll(server, &mut client.line) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => {
                    down_shut = true;
                    let _ = client.line.shutdown_write();
                    on_client.shut();
                }
                Poll::Ready(Err(error)) => return Poll::Ready(broken(&error, false, server)),
            }
        }
        loop {
            if up_shut && down_shut {
                // Both ends were told; what is still in flight goes on after the streams are dropped.
                let flushed =
                    client.line.poll_send_ready().is_ready() & server.line.poll_send_ready().is_ready();
                if flushed {
                    return Poll::Ready(silent.unwrap_or(RelayEnd::Done));
                }
            }
            let stuck = |pump: &Pump, shut: bool, to: &Line| match shut {
                true => to.in_flight() > 0,
                false => pump.blocked_on_send,
            };
            let expects = |pump: &Pump, shut: bool| match shut || pump.blocked_on_send || pump.is_held_back()
            {
                true => Expects::Nothing,
                false => Expects::Bytes,
            };
            let client_stuck = stuck(&down, down_shut, &client.line);
            let server_stuck = stuck(&up, up_shut, &server.line);
            match on_client.check(&client.line, expects(&up, up_shut), client_stuck) {
                Some(Overdue::Silent) => {
                    silent.get_or_insert(RelayEnd::ClientTimeout);
                    up_shut = true;
                    let _ = server.line.shutdown_write();
                    on_server.shut();
                    continue;
                }
                Some(Overdue::Stuck) => return Poll::Ready(silent.unwrap_or(RelayEnd::ClientTimeout)),
                Some(Overdue::Finished) => return Poll::Ready(silent.unwrap_or(RelayEnd::ClientAborted)),
                None => {}
            }
            match on_server.check(&server.line, expects(&down, down_shut), server_stuck) {
                Some(Overdue::Silent) => {
                    silent.get_or_insert(RelayEnd::ServerTimeout);
                    down_shut = true;
                    let _ = client.line.shutdown_write();
                    on_client.shut();
                }
                Some(Overdue::Stuck) => return Poll::Ready(silent.unwrap_or(RelayEnd::ServerTimeout)),
                Some(Overdue::Finished) => return Poll::Ready(silent.unwrap_or(RelayEnd::ServerAborted)),
                None => return Poll::Pending,
            }
        }
    })
    .await;
    Relayed { end, up: moved_up + client.body.received() - counted, down: server.body.received() }
}

/// A connection broke. When it is the client's, the server must not take that for an end in order.
fn broken(error: &PumpError, upwards: bool, server: &mut Port) -> RelayEnd {
    let end = blame(error, upwards);
    if end == RelayEnd::ClientAborted {
        server.line.set_linger_rst();
    }
    end
}

fn blame(error: &PumpError, upwards: bool) -> RelayEnd {
    match (error, upwards) {
        (PumpError::Cut(Cut::Broken(_)), true) | (PumpError::Send(_), false) => RelayEnd::ClientAborted,
        (PumpError::Cut(Cut::Broken(_)), false) | (PumpError::Send(_), true) => RelayEnd::ServerAborted,
        _ => RelayEnd::Resource,
    }
}
