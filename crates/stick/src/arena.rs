//! The memory of entries: made piece by piece, never moved, never given back, numbered from 0.

use crate::entry::GONE;
use crate::layout::{Layout, header};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

/// Entries that are made together.
const TOGETHER: usize = if cfg!(loom) { 4 } else { 256 };

/// The words of one entry, and behind them those of others: where they end the [`Layout`] says, so that who looks at some of them
/// does not pay for finding their end.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    pub narrow: &'a [AtomicU32],
    pub wide: &'a [AtomicU64],
}

struct Piece {
    narrow: Box<[AtomicU32]>,
    wide: Box<[AtomicU64]>,
}

pub(crate) struct Arena {
    pieces: Box<[OnceLock<Piece>]>,
    narrow: usize,
    wide: usize,
    capacity: u32,
    /// How many entries were ever used.
    fresh: AtomicU32,
    /// The free entries as a stack: the number of the last plus one, and in the upper half a count of what
    /// happened to it, so that a thread that fell asleep in between does not take it for the stack that it knew.
    free: AtomicU64,
}

impl Arena {
    pub fn new(layout: &Layout, capacity: u32) -> Arena {
        Arena {
            pieces: (0..(capacity as usize).div_ceil(TOGETHER)).map(|_| OnceLock::new()).collect(),
            narrow: layout.narrow,
            wide: layout.wide,
            capacity,
            fresh: AtomicU32::new(0),
            free: AtomicU64::new(0),
        }
    }

    /// How many entries were ever used: those with smaller numbers can be asked for.
    pub fn fresh(&self) -> u32 {
        self.fresh.load(Ordering::Acquire).min(self.capacity)
    }

    /// The words of an entry that was given out before.
    #[inline]
    pub fn entry(&self, at: u32) -> Words<'_> {
        self.words(self.pieces[at as usize / TOGETHER].get_or_init(|| self.make()), at)
    }

    /// The same of any number: `None` when no entry can have it, or none was made there yet.
    #[inline(always)]
    pub fn known(&self, at: u32) -> Option<Words<'_>> {
        Some(self.words(self.pieces.get(at as usize / TOGETHER)?.get()?, at))
    }

    #[inline(always)]
    fn words<'p>(&self, piece: &'p Piece, at: u32) -> Words<'p> {
        let number = at as usize % TOGETHER;
        Words {
            narrow: &piece.narrow[number * self.narrow..],
            // Who does not look at these does not pay for finding them.
            wide: piece.wide.get(number * self.wide..).unwrap_or_default(),
        }
    }

    #[cold]
    fn make(&self) -> Piece {
        let entries = TOGETHER.min(self.capacity as usize);
        // What was never used is no entry.
        let narrow = |i: usize| AtomicU32::new(if i % self.narrow == header::HOLDERS { GONE } else { 0 });
        Piece {
            narrow: (0..entries * self.narrow).map(narrow).collect(),
            wide: (0..entries * self.wide).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// An entry that nobody uses.
    pub fn take(&self) -> Option<u32> {
        let mut seen = self.free.load(Ordering::Acquire);
        while let Some(at) = (seen as u32).checked_sub(1) {
            let next = self.entry(at).narrow[header::NEXT].load(Ordering::Acquire);
            let new = (seen >> 32).wrapping_add(1) << 32 | u64::from(next);
            match self.free.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(at),
                Err(now) => seen = now,
            }
        }
        let at = self.fresh.load(Ordering::Acquire);
        if at >= self.capacity {
            return None;
        }
        // Two threads may come here at once: the counter goes on, and `capacity` is looked at again.
        let at = self.fresh.fetch_add(1, Ordering::AcqRel);
        if at < self.capacity {
            return Some(at);
        }
        self.fresh.fetch_sub(1, Ordering::AcqRel);
        None
    }

    /// Gives back an entry that nobody can find any more.
    pub fn give(&self, at: u32) {
        let next = &self.entry(at).narrow[header::NEXT];
        let mut seen = self.free.load(Ordering::Acquire);
        loop {
            next.store(seen as u32, Ordering::Release);
            let new = (seen >> 32).wrapping_add(1) << 32 | u64::from(at + 1);
            match self.free.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}
