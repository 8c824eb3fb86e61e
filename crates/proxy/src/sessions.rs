//! The sessions of a thread, as operators see them.

use std::net::IpAddr;

use thalweg_config::model::ProxyId;
use thalweg_runtime::pool::Stock;
use thalweg_runtime::{Reason, TaskId};

/// A client's session, as an operator sees it.
#[derive(Clone, Copy, Debug)]
pub struct SessionEntry {
    /// Its task; [`TaskId::NONE`] in a free slot.
    pub task: TaskId,
    pub frontend: ProxyId,
    /// The number of its listener.
    pub listener: u32,
    /// The number of its socket among those of its thread.
    pub socket: u32,
    /// Millisecond it began.
    pub since_ms: u64,
    /// The client's address and port; `None` for unix sockets.
    pub source: Option<(IpAddr, u16)>,
}

const NO_SESSION: SessionEntry = SessionEntry {
    task: TaskId::NONE,
    frontend: ProxyId(0),
    listener: 0,
    socket: 0,
    since_ms: 0,
    source: None,
};

/// Entries of sessions that are allocated together.
const SESSIONS: usize = 64;

/// Sessions that come and go, each at a slot that stays its own.
#[derive(Default)]
pub struct SessionList {
    // Boxed, so that a growing list leaves them where they are: there may be very many.
    #[allow(clippy::vec_box)]
    chunks: Vec<Box<[SessionEntry; SESSIONS]>>,
    free: Vec<u32>,
}

impl SessionList {
    /// Adds a session and returns its slot.
    pub fn insert(&mut self, entry: SessionEntry) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            let first = u32::try_from(self.chunks.len() * SESSIONS).unwrap_or(u32::MAX);
            self.chunks.push(Box::new([NO_SESSION; SESSIONS]));
            self.free.extend((first + 1..first + SESSIONS as u32).rev());
            first
        }) as usize;
        self.chunks[slot / SESSIONS][slot % SESSIONS] = entry;
        slot
    }

    /// Removes the session at a slot.
    pub fn remove(&mut self, slot: usize) -> SessionEntry {
        self.free.push(u32::try_from(slot).unwrap_or(u32::MAX));
        std::mem::replace(&mut self.chunks[slot / SESSIONS][slot % SESSIONS], NO_SESSION)
    }

    /// What the list holds.
    pub fn stock(&self) -> Stock {
        let free = self.free.len();
        let used = self.chunks.len() * SESSIONS - free;
        Stock { name: "session", object_size: size_of::<SessionEntry>(), used, free }
    }

    /// Gives the memory behind the last session back.
    pub fn trim(&mut self) {
        let last = self.chunks.iter().rposition(|chunk| chunk.iter().any(|s| s.task != TaskId::NONE));
        let chunks = last.map_or(0, |last| last + 1);
        self.chunks.truncate(chunks);
        self.chunks.shrink_to_fit();
        self.free.retain(|slot| (*slot as usize) < chunks * SESSIONS);
        self.free.shrink_to_fit();
    }

    /// All sessions.
    pub fn iter(&self) -> impl Iterator<Item = &SessionEntry> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).filter(|s| s.task != TaskId::NONE)
    }

    /// Wakes them all.
    pub fn wake_all(&self) {
        self.iter().for_each(|s| s.task.wake(Reason::OTHER));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_keep_their_slots_and_what_is_behind_the_last_goes_back() {
        let mut list = SessionList::default();
        let entry = |n: u64| SessionEntry { task: TaskId::from_user_bits(n), since_ms: n, ..NO_SESSION };
        let slots: Vec<usize> = (0..1000).map(|n| list.insert(entry(n))).collect();
        assert!(list.iter().map(|s| s.since_ms).eq(0..1000));
        for slot in slots.iter().filter(|slot| **slot != slots[70]) {
            list.remove(*slot);
        }
        list.trim();
        assert_eq!((list.chunks.len(), list.iter().count()), (2, 1));
        let again: Vec<usize> = (0..1000).map(|n| list.insert(entry(n))).collect();
        assert!(!again.contains(&slots[70]));
        assert_eq!(list.iter().count(), 1001);
        for slot in &again {
            list.remove(*slot);
        }
        list.remove(slots[70]);
        list.trim();
        assert!(list.chunks.is_empty() && list.free.is_empty());
    }
}
