//! Which entries of a table were used since somebody last asked: what the peers have to be told.
//!
//! A stack of entries that any thread may push to, and that one takes as a whole. Each entry is in it at most once: its link
//! says so, and who finds it there has nothing to do. An entry that is used over and over costs one read of a word that nobody
//! changes meanwhile, until the stack is taken.

use std::sync::OnceLock;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU32, Ordering, fence};

/// The link of an entry that is not on the stack.
const OUT: u32 = 0;
/// The link of the one at the bottom. Links above say which one is below: its number plus two.
const BOTTOM: u32 = 1;

#[derive(Default)]
pub(crate) struct Changed {
    /// The top: its number plus one; 0 when the stack is empty.
    top: CachePadded<AtomicU32>,
    note: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Changed {
    pub fn on_change(&self, note: Box<dyn Fn() + Send + Sync>) {
        let _ = self.note.set(note);
    }

    /// Puts an entry on the stack, if it is not there.
    #[inline]
    pub fn push(&self, link: &AtomicU32, at: u32) {
        // Either whoever takes the entry off sees what was just changed, or this sees that it was taken off.
        fence(Ordering::SeqCst);
        if link.load(Ordering::Relaxed) == OUT {
            self.push_new(link, at);
        }
    }

    #[cold]
    fn push_new(&self, link: &AtomicU32, at: u32) {
        if link.compare_exchange(OUT, BOTTOM, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            // Only whoever took the stack follows links, and it is not on the stack yet.
            link.store(top + BOTTOM, Ordering::Relaxed);
            match self.top.compare_exchange_weak(top, at + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => top = now,
            }
        }
        if top == 0
            && let Some(note) = self.note.get()
        {
            note();
        }
    }

    /// Takes the stack and gives each entry that was on it. `link_of` is the link of an entry.
    pub fn take<'l>(&self, link_of: impl Fn(u32) -> &'l AtomicU32, each: &mut dyn FnMut(u32)) {
        let mut next = self.top.swap(0, Ordering::AcqRel);
        while let Some(at) = next.checked_sub(1) {
            // From here on it may be pushed again; what is read of it afterwards is newer than what was pushed.
            next = link_of(at).swap(OUT, Ordering::SeqCst).saturating_sub(BOTTOM);
            fence(Ordering::SeqCst);
            each(at);
        }
    }
}
