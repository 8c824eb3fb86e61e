//! Answers that are made in this process, as something to receive from.

use std::io;
use std::task::Poll;

use thalweg_runtime::buffer::{self, Buf};
use thalweg_runtime::{Reason, Turn, current_task};

/// Bytes of a body that are handed on at a time, if they are not the last of it or of a turn.
const PIECE: usize = 64 * 1024;

/// The body of an answer that is being made.
pub trait Body {
    /// Appends some of it, perhaps nothing, in a small part of the time that a task may take. False when that was the end.
    fn step(&mut self, out: &mut String) -> bool;
}

/// What an answer's body comes from, besides what is in its port already.
pub struct Local {
    body: Option<Box<dyn Body>>,
    made: String,
    /// Bytes of it that were handed on.
    handed_on: usize,
    turn: Turn,
}

impl Local {
    /// A body that is made step by step, if there is one.
    pub fn new(body: Option<Box<dyn Body>>) -> Local {
        Local { body, made: String::new(), handed_on: 0, turn: Turn::default() }
    }

    /// The next piece, at most `max` bytes; an empty buffer is the end. Others get their turn after some time.
    pub fn poll_recv(&mut self, max: usize) -> Poll<io::Result<Buf>> {
        while let Some(body) = &mut self.body
            && self.handed_on == 0
            && self.made.len() < PIECE.min(max)
        {
            if self.turn.is_over() {
                if self.made.is_empty() {
                    current_task().wake(Reason::YIELD);
                    return Poll::Pending;
                }
                break;
            }
            if !body.step(&mut self.made) {
                self.body = None;
            }
        }
        Poll::Ready(Ok(self.hand_on(max)))
    }

    fn hand_on(&mut self, max: usize) -> Buf {
        let left = &self.made.as_bytes()[self.handed_on..];
        let piece = &left[..left.len().min(max)];
        let buf = copy_for_sending(piece);
        self.handed_on += piece.len();
        if self.handed_on == self.made.len() {
            self.made.clear();
            self.handed_on = 0;
        }
        buf
    }
}

/// What is large goes into a bulk buffer, which has room around it for what makes a chunk of it.
fn copy_for_sending(piece: &[u8]) -> Buf {
    if piece.len() > buffer::default_size()
        && let Some(mut bulk) = Buf::bulk()
        && bulk.extend_from_slice(piece).is_ok()
    {
        return bulk;
    }
    Buf::copy_of(piece)
}

impl std::fmt::Debug for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Local({} bytes made)", self.made.len() - self.handed_on)
    }
}
