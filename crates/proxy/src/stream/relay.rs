//! Two pumps without framing: TCP mode, and tunnels (CONNECT, Upgrade, WebSocket).
//!
//! Each direction ends on its own: when one peer stops sending, or is silent for too long, the other one is told so and
//! may go on (half-close). A server that takes nothing more ends the client's direction only: what it said before is still delivered.

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
///
/// In one piece, because each wake-up decides about both directions, and either may end the other one.
pub async fn relay(
    client: &mut Port,
    server: &mut Port,
    [up, down]: [Pump; 2],
    limits: [Limits; 2],
    mut killed: impl FnMut() -> bool,
) -> Relayed {
    server.body.begin_until_close();
    let counted = client.body.received();
    let [on_client, on_server] = limits.map(Patience::new);
    let up = Way { pump: up, shut: false };
    let down = Way { pump: down, shut: false };
    let mut relay =
        Relay { client, server, up, down, on_client, on_server, fault: None, moved_up: 0, counted };
    let end = std::future::poll_fn(|_| match killed() {
        true => Poll::Ready(RelayEnd::Resource),
        false => relay.poll(),
    })
    .await;
    let up = relay.moved_up + relay.client.body.received() - relay.counted;
    Relayed { end, up, down: relay.server.body.received() }
}

/// One direction.
struct Way {
    pump: Pump,
    /// It ended, and its receiver was told.
    shut: bool,
}

impl Way {
    fn expects(&self) -> Expects {
        match self.shut || self.pump.blocked_on_send || self.pump.is_held_back() {
            true => Expects::Nothing,
            false => Expects::Bytes,
        }
    }

    /// Whether `to` does not take what is sent to it.
    fn is_stuck(&self, to: &Line) -> bool {
        if self.shut { to.in_flight() > 0 } else { self.pump.blocked_on_send }
    }
}

/// Both directions at work.
struct Relay<'r> {
    client: &'r mut Port,
    server: &'r mut Port,
    up: Way,
    down: Way,
    on_client: Patience,
    on_server: Patience,
    /// What is said of the relay once both directions ended: who was silent for too long, which ends its own direction only, as if it
    /// had ended it itself; or that the server took nothing more.
    fault: Option<RelayEnd>,
    /// Bytes of the message that the client's direction began with, once it ended.
    moved_up: u64,
    /// Bytes of the client's that were there before the relay.
    counted: u64,
}

impl Relay<'_> {
    fn poll(&mut self) -> Poll<RelayEnd> {
        match self.move_up() {
            Ok(()) => {}
            Err(PumpError::Send(_)) => {
                self.up.shut = true;
                self.fault = Some(RelayEnd::ServerAborted);
            }
            Err(error) => return Poll::Ready(broken(&error, true, self.server)),
        }
        if let Err(error) = self.move_down() {
            return Poll::Ready(broken(&error, false, self.server));
        }
        loop {
            if self.up.shut && self.down.shut && self.is_flushed() {
                // Both ends were told; what is still in flight goes on after the streams are dropped.
                return Poll::Ready(self.fault.unwrap_or(RelayEnd::Done));
            }
            match self.overdue() {
                Some(Late::Side(end)) => return Poll::Ready(self.fault.unwrap_or(end)),
                Some(Late::Again) => {}
                None => return Poll::Pending,
            }
        }
    }

    fn move_up(&mut self) -> Result<(), PumpError> {
        while !self.up.shut {
            match self.up.pump.poll(self.client, &mut self.server.line) {
                Poll::Pending => break,
                Poll::Ready(moved) => moved?,
            }
            if self.client.body.is_until_close() {
                self.end_up();
            } else {
                self.moved_up += self.client.body.received() - self.counted;
                self.counted = 0;
                self.client.body.begin_until_close();
                self.up.pump.go_on_plain();
            }
        }
        Ok(())
    }

    fn move_down(&mut self) -> Result<(), PumpError> {
        if !self.down.shut
            && let Poll::Ready(moved) = self.down.pump.poll(self.server, &mut self.client.line)
        {
            moved?;
            self.end_down();
        }
        Ok(())
    }

    fn end_up(&mut self) {
        self.up.shut = true;
        // The peer may be gone already; its own direction tells.
        let _ = self.server.line.shutdown_write();
        self.on_server.shut();
    }

    fn end_down(&mut self) {
        self.down.shut = true;
        let _ = self.client.line.shutdown_write();
        self.on_client.shut();
    }

    fn is_flushed(&mut self) -> bool {
        // Both are asked, so that either wakes the task.
        self.client.line.poll_send_ready().is_ready() & self.server.line.poll_send_ready().is_ready()
    }

    /// Who took too long, if somebody did. The end of one direction may be the end of all.
    fn overdue(&mut self) -> Option<Late> {
        let stuck = self.down.is_stuck(&self.client.line);
        match self.on_client.check(&self.client.line, self.up.expects(), stuck) {
            Some(Overdue::Silent) => {
                self.fault.get_or_insert(RelayEnd::ClientTimeout);
                self.end_up();
                return Some(Late::Again);
            }
            Some(Overdue::Stuck) => return Some(Late::Side(RelayEnd::ClientTimeout)),
            Some(Overdue::Finished) => return Some(Late::Side(RelayEnd::ClientAborted)),
            None => {}
        }
        let stuck = self.up.is_stuck(&self.server.line);
        Some(match self.on_server.check(&self.server.line, self.down.expects(), stuck)? {
            Overdue::Silent => {
                self.fault.get_or_insert(RelayEnd::ServerTimeout);
                self.end_down();
                Late::Again
            }
            Overdue::Stuck => Late::Side(RelayEnd::ServerTimeout),
            Overdue::Finished => Late::Side(RelayEnd::ServerAborted),
        })
    }
}

/// What comes of somebody who took too long.
enum Late {
    /// The relay ends.
    Side(RelayEnd),
    /// One direction ended; there is more to look at.
    Again,
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
        (PumpError::Cut(Cut::Broken(_)), false) => RelayEnd::ServerAborted,
        _ => RelayEnd::Resource,
    }
}
