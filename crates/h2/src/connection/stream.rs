//! The streams of a connection (RFC 9113 section 5.1).
//!
//! Only streams that are open in some direction have a record. Ids only grow, so the records are in order, and what an id
//! without a record means follows from whether it was used.

use std::collections::VecDeque;

use crate::flow::{ReceiveWindow, SendWindow};

/// One direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The header list of the (final) message is expected.
    Head,
    /// Data may come, and trailers.
    Body,
    /// It was ended.
    Ended,
}

/// The record of a stream.
#[derive(Debug)]
pub struct Stream {
    pub id: u32,
    /// What the peer sends.
    pub incoming: Direction,
    /// What we send.
    pub outgoing: Direction,
    pub send: SendWindow,
    pub receive: ReceiveWindow,
    /// Octets of data that its message announced and that have not come yet.
    pub expected: Option<u64>,
    /// The answer to a HEAD request announces a length and has no data.
    pub bodiless: bool,
    /// Octets that were given to the application and not consumed by it.
    pub unconsumed: usize,
    /// The application waits for its window.
    pub blocked: bool,
}

/// More data than a message announced, or its end before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnnounced;

impl Stream {
    /// What is still expected behind so many octets, if anything was announced.
    ///
    /// # Errors
    /// [`NotAnnounced`].
    #[inline]
    pub fn expected_behind(&self, octets: usize, end: bool) -> Result<Option<u64>, NotAnnounced> {
        let Some(expected) = self.expected else { return Ok(None) };
        match expected.checked_sub(octets as u64) {
            Some(left) if !end || left == 0 => Ok(Some(left)),
            _ => Err(NotAnnounced),
        }
    }

    /// Both directions ended.
    pub fn is_over(&self) -> bool {
        self.incoming == Direction::Ended && self.outgoing == Direction::Ended
    }
}

/// All records, by id.
#[derive(Default)]
pub struct Streams {
    // The oldest are mostly the first to go.
    sorted: VecDeque<Stream>,
}

impl Streams {
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// How many fit into the memory there is.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.sorted.capacity()
    }

    /// Adds a stream with an id larger than all before.
    pub fn insert(&mut self, stream: Stream) {
        debug_assert!(self.sorted.back().is_none_or(|last| last.id < stream.id));
        self.sorted.push_back(stream);
    }

    #[inline]
    fn at(&self, id: u32) -> Option<usize> {
        // Where it is if all of those before it are there.
        let guess = (id.checked_sub(self.sorted.front()?.id)? / 2) as usize;
        if self.sorted.get(guess).is_some_and(|stream| stream.id == id) {
            return Some(guess);
        }
        self.sorted.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    #[inline]
    pub fn get(&self, id: u32) -> Option<&Stream> {
        self.at(id).map(|at| &self.sorted[at])
    }

    #[inline]
    pub fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.at(id).map(|at| &mut self.sorted[at])
    }

    pub fn remove(&mut self, id: u32) -> Option<Stream> {
        self.sorted.remove(self.at(id)?)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.sorted.iter_mut()
    }

    pub fn ids(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.sorted.iter().map(|stream| stream.id)
    }
}

/// Ids of streams that we reset and whose last frames may still be on their way.
pub struct Reset {
    ids: [u32; Reset::KEPT],
    next: usize,
}

impl Reset {
    /// Frames of streams that were reset longer ago are no longer excused.
    const KEPT: usize = 64;

    pub fn new() -> Reset {
        Reset { ids: [0; Reset::KEPT], next: 0 }
    }

    pub fn add(&mut self, id: u32) {
        self.ids[self.next] = id;
        self.next = (self.next + 1) % Reset::KEPT;
    }

    pub fn contains(&self, id: u32) -> bool {
        self.ids.contains(&id)
    }
}
