//! How a client's connection is closed.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use thalweg_runtime::buffer::Buf;
use thalweg_runtime::{clock, timer, yield_now};

use super::{ClientSession, client_timeout, of_frontend};
use crate::connection::port::Port;
use crate::worker::Thread;

/// How long a closing connection is read from so that the client gets what was sent to it.
const LINGER_MS: u64 = 1000;

/// Most bytes that are thrown away at once so that a connection can be closed in order.
pub const UNREAD_MAX: usize = 256 * 1024;

/// Bytes of those that one receive takes.
const UNWANTED_MAX: usize = 16 * 1024;

/// How long a client that sent too much has to take what it was sent, and then to read why it is left, in milliseconds.
const UNHEARD_MS: u64 = 100;

/// The longest pause between two looks at it while little of it comes, in milliseconds.
const UNWANTED_PAUSE_MS: u64 = 64;

/// How a connection is to be closed that nobody is served on any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// What was sent arrives, and what still comes is read for a while.
    InOrder,
    /// What was sent arrives, and nothing more is read: there was too much already.
    Unheard,
    /// As it is.
    AtOnce,
}

/// Closes without telling the client more than it must know.
pub fn at_once(own: &Thread, (session, client): (&ClientSession, &mut Port)) {
    if of_frontend(own, session, |fe| fe.opts.nolinger).unwrap_or(true) {
        client.line.set_linger_rst();
    } else {
        // Whoever only ended its direction still gets what was sent to it.
        client.line.discard_input(UNREAD_MAX);
    }
}

/// Closes so that the client gets everything that was sent. Closing with unread input would reset the connection,
/// and a reset may overtake the response (RFC 9112 section 9.6): what still comes is read and thrown away for a while. So it is where
/// the client has frames, which it answers what it was sent with. Servers' connections that the session kept are not held until then.
pub async fn in_order(own: &Thread, (session, client): (&ClientSession, &mut Port)) {
    session.leave_private();
    if !client.all_is_sent(client_timeout(own, session)).await || client.eof {
        return;
    }
    // The last bytes may have been held back to leave with the end (`Stream::end_with_next_send`): they go before it is looked
    // whether closing would reset the connection, and take them with it.
    if client.line.shutdown_write().is_err() {
        return;
    }
    let answers = session.facts().http_major == 2;
    if !answers && client.input.is_none() && !client.line.has_input_now() && client.body.is_ended() {
        return;
    }
    client.input = None;
    // What windows let out, and no flood of frames: each of those is a segment that costs something to be received.
    let most = if answers { UNREAD_MAX } else { usize::MAX };
    let ended = read_over(most, timer::deadline_in(LINGER_MS), || client.line.poll_recv(UNWANTED_MAX)).await;
    if !ended {
        timer::sleep(UNHEARD_MS).await;
    }
}

/// Closes so that a client that sent too much knows why, and has nothing more read.
pub async fn unheard(client: &mut Port) {
    if client.all_is_sent(Some(UNHEARD_MS)).await && client.line.shutdown_write().is_ok() {
        timer::sleep(UNHEARD_MS).await;
    }
}

/// Reads and throws away what comes, until nothing more does or `deadline` has passed; false: until it was `most` octets. Who always
/// has more to say neither outlasts that nor holds up the others of the thread: the receive is looked at before the timer is. What
/// comes in small pieces is waited for, until it is more.
async fn read_over(most: usize, deadline: u64, mut recv: impl FnMut() -> Poll<io::Result<Buf>>) -> bool {
    let (mut all, mut unread, mut pause_ms) = (0usize, 0, 1);
    while let Ok(Ok(buf)) = timer::timeout_at(Some(deadline), poll_fn(|_| recv())).await {
        if buf.is_empty() || clock::now_ms() >= deadline {
            return true;
        }
        all = all.saturating_add(buf.len());
        if all >= most {
            return false;
        }
        if buf.len() < UNWANTED_MAX / 4 {
            timer::sleep(pause_ms).await;
            pause_ms = (2 * pause_ms).min(UNWANTED_PAUSE_MS);
        }
        unread += buf.len();
        if unread >= UNREAD_MAX {
            unread = 0;
            yield_now().await;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use thalweg_runtime::driver::sim::{self, SimConfig};
    use thalweg_runtime::{Kind, SpawnOptions, spawn_with};

    use super::*;

    static OTHER: Kind = Kind::new("other");

    /// In a network of the simulator what was sent is read at some time; over a fast one a flood may always be ahead.
    #[test]
    fn a_flood_is_read_for_its_time_only_and_others_have_their_turns() {
        const TIME_MS: u64 = 2;
        const RECEIVES_MAX: u64 = 1_000_000;
        let turns = Rc::new(Cell::new(0u64));
        let seen = Rc::new(Cell::new(None));
        let (turn, saw, over) = (Rc::clone(&turns), Rc::clone(&seen), Rc::clone(&seen));
        // Nothing happens in the network meanwhile.
        let sim = SimConfig { idle_rounds_max: u64::MAX, ..SimConfig::faultless() };
        let report = sim::run(1, sim, move |_| async move {
            spawn_with(&OTHER, SpawnOptions::default(), async move {
                while over.get().is_none() {
                    turn.set(turn.get() + 1);
                    yield_now().await;
                }
            });
            let (mut receives, began) = (0, clock::now_ms());
            let flood = || {
                receives += 1;
                let over = receives > RECEIVES_MAX;
                Poll::Ready(Ok(if over { Buf::empty() } else { Buf::copy_of(&[b'x'; UNWANTED_MAX]) }))
            };
            assert!(read_over(usize::MAX, began + TIME_MS, flood).await);
            saw.set(Some((receives, clock::now_ms() - began)));
        });
        report.check().unwrap();
        let (receives, took_ms) = seen.get().unwrap();
        assert!(receives <= RECEIVES_MAX, "it is read until it ends");
        assert_eq!(took_ms, TIME_MS);
        let least = receives / (UNREAD_MAX / UNWANTED_MAX) as u64;
        assert!(turns.get() >= least, "{} turns of another task in {receives} receives", turns.get());
    }

    #[test]
    fn no_more_is_read_of_a_flood_than_was_said() {
        let seen = Rc::new(Cell::new(None));
        let saw = Rc::clone(&seen);
        let report = sim::run(1, SimConfig::faultless(), move |_| async move {
            let mut receives = 0;
            let flood = || {
                receives += 1;
                Poll::Ready(Ok(Buf::copy_of(&[b'x'; UNWANTED_MAX])))
            };
            let ended = read_over(UNREAD_MAX, clock::now_ms() + LINGER_MS, flood).await;
            saw.set(Some((receives, ended)));
        });
        report.check().unwrap();
        assert_eq!(seen.get(), Some((UNREAD_MAX / UNWANTED_MAX, false)));
    }
}
