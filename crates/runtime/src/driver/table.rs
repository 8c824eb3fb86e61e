//! Where the records of a thread's sockets lie.

use super::socket::{Bits, Socket, SocketRef, moment};
use crate::pool::Stock;
use std::os::fd::RawFd;
use std::ptr::NonNull;

const CHUNK: usize = 64;

type Chunk = NonNull<[Socket; CHUNK]>;

/// The records of one thread, in chunks. One without a socket can be given back.
pub(crate) struct SocketTable {
    /// By number; `None` for one that was given back.
    chunks: Vec<Option<Chunk>>,
    /// Those that were given back.
    absent: Vec<u32>,
    free: Vec<SocketRef>,
    in_use: usize,
    /// That of the record which was taken last.
    turn: u32,
}

/// # Safety
/// The table made the chunk, and nobody holds an address into it.
unsafe fn free_chunk(chunk: Chunk) {
    // SAFETY: made by `Box::leak` in `add_chunk`; the caller's contract.
    drop(unsafe { Box::from_raw(chunk.as_ptr()) });
}

impl SocketTable {
    pub fn new() -> SocketTable {
        SocketTable { chunks: Vec::new(), absent: Vec::new(), free: Vec::new(), in_use: 0, turn: 0 }
    }

    pub fn in_use(&self) -> usize {
        self.in_use
    }

    /// The record of that number, whether it is in use or not; `None` when there is none.
    #[inline]
    pub fn at(&self, number: usize) -> Option<SocketRef> {
        let chunk = (*self.chunks.get(number / CHUNK)?)?;
        // SAFETY: the offset stays inside the chunk.
        Some(unsafe { chunk.cast::<Socket>().add(number % CHUNK) })
    }

    #[cold]
    fn add_chunk(&mut self) {
        let at = self.absent.pop().unwrap_or(self.chunks.len() as u32);
        let first = at * CHUNK as u32;
        let chunk: Box<[Socket; CHUNK]> = Box::new(std::array::from_fn(|i| Socket::blank(first + i as u32)));
        let chunk = NonNull::from(Box::leak(chunk));
        chunk.as_ptr().cast::<Socket>().expose_provenance();
        match self.chunks.get_mut(at as usize) {
            Some(place) => *place = Some(chunk),
            None => self.chunks.push(Some(chunk)),
        }
        // SAFETY: the offsets stay inside the chunk.
        self.free.extend((0..CHUNK).rev().map(|i| unsafe { chunk.cast::<Socket>().add(i) }));
    }

    /// A fresh record for `fd`.
    pub fn insert(&mut self, fd: RawFd, bits: Bits) -> SocketRef {
        if self.free.is_empty() {
            self.add_chunk();
        }
        let socket = self.free.pop().expect("a chunk was just added");
        self.in_use += 1;
        // SAFETY: a free record has no holder.
        let s = unsafe { &mut *socket.as_ptr() };
        self.turn = self.turn.wrapping_add(1).max(1);
        s.turn = self.turn;
        s.fd = fd;
        s.bits = bits;
        s.rx_ms = moment();
        s.tx_ms = s.rx_ms;
        socket
    }

    /// Takes a record back that has neither owner nor operations.
    pub fn remove(&mut self, socket: SocketRef) {
        // SAFETY: the caller gives up the last holder.
        let s = unsafe { &mut *socket.as_ptr() };
        debug_assert_eq!(s.ops, 0);
        *s = Socket::blank(s.number);
        self.in_use -= 1;
        self.free.push(socket);
    }

    /// What the table holds.
    pub fn stock(&self) -> Stock {
        let records = (self.chunks.len() - self.absent.len()) * CHUNK;
        Stock {
            name: "socket",
            object_size: size_of::<Socket>(),
            used: self.in_use,
            free: records - self.in_use,
        }
    }

    /// Gives the chunks back that have no socket. Takes time in proportion to the free records.
    ///
    /// Nobody holds an address into them: a record is free when its owner let go and nothing is in flight. An event that
    /// is told late, because another process shares the open file, names its record by number ([`SocketTable::at`]).
    pub fn trim(&mut self) {
        // SAFETY: the records are this table's, and nobody else refers to a free one.
        let chunk_of = |socket: &SocketRef| unsafe { socket.as_ref() }.number as usize / CHUNK;
        let mut free = vec![0; self.chunks.len()];
        self.free.iter().for_each(|socket| free[chunk_of(socket)] += 1);
        self.free.retain(|socket| free[chunk_of(socket)] < CHUNK);
        self.free.shrink_to_fit();
        for (at, chunk) in self.chunks.iter_mut().enumerate().filter(|(at, _)| free[*at] == CHUNK) {
            self.absent.push(at as u32);
            if let Some(chunk) = chunk.take() {
                // SAFETY: all its records are free, and none of them is in the list of free ones any more.
                unsafe { free_chunk(chunk) };
            }
        }
    }

    /// Bytes of heap memory.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        (self.chunks.len() - self.absent.len()) * size_of::<[Socket; CHUNK]>()
            + (self.chunks.capacity() + self.free.capacity()) * size_of::<usize>()
            + self.absent.capacity() * size_of::<u32>()
    }
}

impl Drop for SocketTable {
    fn drop(&mut self) {
        // An owner that outlives the driver still holds an address: its chunk is leaked then.
        if self.in_use == 0 {
            for chunk in self.chunks.drain(..).flatten() {
                // SAFETY: no record is in use.
                unsafe { free_chunk(chunk) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_reused_blank() {
        let mut t = SocketTable::new();
        let a = t.insert(5, Bits::ENDED);
        t.remove(a);
        let b = t.insert(6, Bits(0));
        assert_eq!(a, b);
        // SAFETY: the test owns it.
        let s = unsafe { b.as_ref() };
        assert_eq!((s.fd, s.bits.has(Bits::ENDED)), (6, false));
        t.remove(b);
    }

    #[test]
    fn chunks_without_sockets_are_given_back() {
        let mut t = SocketTable::new();
        let all: Vec<_> = (0..5000).map(|fd| t.insert(fd, Bits(0))).collect();
        let full = t.memory();
        // SAFETY: the test owns them.
        let numbers: Vec<_> = all.iter().map(|s| unsafe { s.as_ref() }.number as usize).collect();
        let kept = [all[70], all[4000]];
        all.iter().filter(|s| !kept.contains(s)).for_each(|s| t.remove(*s));
        t.trim();
        t.trim();
        assert!(t.memory() < full / 10, "{} of {full}", t.memory());
        for (socket, number) in all.iter().zip(&numbers) {
            let found = t.at(*number);
            assert!(found.is_none() || found == Some(*socket));
            assert!(found.is_some() || !kept.contains(socket));
        }
        assert_eq!(t.at(1 << 20), None);
        // All numbers come again.
        let mut again: Vec<_> = (0..4998).map(|fd| t.insert(fd, Bits(0))).chain(kept).collect();
        // SAFETY: as above.
        let number = |s: &SocketRef| unsafe { s.as_ref() }.number;
        again.sort_by_key(number);
        again.dedup_by_key(|s| number(s));
        assert_eq!((again.len(), t.in_use(), t.chunks.len()), (5000, 5000, 5000_usize.div_ceil(CHUNK)));
        assert!(again.iter().all(|s| t.at(number(s) as usize) == Some(*s)));
        again.into_iter().for_each(|s| t.remove(s));
    }
}
