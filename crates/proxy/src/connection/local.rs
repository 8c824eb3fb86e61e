//! Answers that are made in this process, as something to receive from.

use std::io;
use std::task::Poll;

use thalweg_runtime::buffer::Buf;
use thalweg_runtime::{Reason, current_task};

/// Bytes of a body that are handed on at a time, if they are not the last.
const PIECE: usize = 16 * 1024;

/// The body of an answer that is being made.
pub trait Body {
    /// Appends some of it, perhaps nothing, in no more time than a task may take. False when that was the end.
    fn step(&mut self, out: &mut Vec<u8>) -> bool;
}

/// What an answer's body comes from, besides what is in its port already.
pub struct Local {
    body: Option<Box<dyn Body>>,
    /// What was made and not handed on.
    made: Vec<u8>,
}

impl Local {
    /// A body that is made step by step, if there is one.
    pub fn new(body: Option<Box<dyn Body>>) -> Local {
        Local { body, made: Vec::new() }
    }

    /// The next piece, at most `max` bytes; an empty buffer is the end. One step is made at a time: others get their turn
    /// before the next, which may take as long.
    pub fn poll_recv(&mut self, max: usize) -> Poll<io::Result<Buf>> {
        let Some(body) = &mut self.body else { return Poll::Ready(Ok(self.hand_on(max))) };
        if self.made.len() < PIECE {
            if !body.step(&mut self.made) {
                self.body = None;
            } else if self.made.len() < PIECE {
                current_task().wake(Reason::YIELD);
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(self.hand_on(max)))
    }

    fn hand_on(&mut self, max: usize) -> Buf {
        let n = self.made.len().min(max);
        let piece = Buf::copy_of(&self.made[..n]);
        self.made.drain(..n);
        piece
    }
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Local({} bytes made)", self.made.len())
    }
}
