//! Whether the peer of a connection without streams is still there (manual: `idle-ping`).

use thalweg_runtime::{clock, timer};

use super::Mux;

/// What was asked of a peer, and when it is asked again.
pub struct IdlePing {
    every_ms: u64,
    /// When it is asked, or must have answered; nothing while there are streams.
    due_ms: Option<u64>,
    /// It was asked and did not answer yet.
    asked: bool,
    answered_ms: u64,
}

impl IdlePing {
    /// One that asks every so many milliseconds; none for 0. Boxed, since few connections have one.
    pub fn new(every_ms: u32) -> Option<Box<IdlePing>> {
        let every_ms = u64::from(every_ms);
        (every_ms > 0).then(|| Box::new(IdlePing { every_ms, due_ms: None, asked: false, answered_ms: 0 }))
    }

    /// When the peer last answered, in milliseconds of the runtime's clock; 0 if it never did.
    pub fn answered_ms(&self) -> u64 {
        self.answered_ms
    }

    /// Asks when it is time, and asks for another look when it will be. False when the peer did not answer in time.
    pub fn look(&mut self, mux: &Mux, is_quiet: bool) -> bool {
        let now = clock::now_ms();
        if self.asked && mux.take_pong() {
            (self.asked, self.answered_ms) = (false, now);
        }
        if !is_quiet {
            (self.due_ms, self.asked) = (None, false);
            return true;
        }
        let mut due = *self.due_ms.get_or_insert(now + self.every_ms);
        if now >= due {
            if self.asked {
                return false;
            }
            // An answer to what others asked is none.
            let _ = mux.take_pong();
            mux.ping();
            self.asked = true;
            due = now + self.every_ms;
            self.due_ms = Some(due);
        }
        timer::want(due);
        true
    }
}
