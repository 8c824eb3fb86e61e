//! Buffers: owned blocks of bytes that belong to one thread.
//!
//! A [`Buf`] is what a receive hands out and what a send takes. It is one pointer, never shared, and its bytes are
//! never copied by moving it around. Where its memory comes from is decided by who made it:
//!
//! - the thread's **pool**: blocks of `tune.bufsize` bytes (16 kB unless configured), reused last in first
//!   out so that the ones in use stay in the processor's cache; see `pool.rs`;
//! - the same pool's few **bulk** blocks ([`BULK_SIZE`]), for bodies that keep coming: where none is left, the ones above
//!   do; see `pool.rs`;
//! - the thread's **receive ring** under io_uring: smaller blocks the kernel filled by itself; see `ring.rs`;
//! - the **heap**, for [`Buf::large`] and for the rare copies.
//!
//! Dropping a buffer gives its memory back to where it came from. A connection that waits for data holds none.

mod part;
pub(crate) mod pool;
pub(crate) mod ring;

use part::Part;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

pub(crate) use pool::leave_queue;
pub use pool::{BufferConfig, BufferStats, configure, default_size, poll_alloc, stats};

/// Size of a pooled buffer when nothing else is configured, in bytes (`tune.bufsize`).
pub const DEFAULT_SIZE: usize = 16_384;

/// Room of a bulk buffer in bytes: many small receives are what a large body costs. Half as much took 30 to 45 % more of
/// the processor for 1 MB bodies.
pub const BULK_SIZE: usize = 256 * 1024;

/// Room in front of and behind what is received into a bulk buffer, so that it can be made a chunk in its place.
pub(crate) const BULK_MARGIN: usize = 64;

/// Sizes of the blocks, below that of a pooled one, for bytes that wait; see [`Buf::for_keeping`].
const KEPT_SIZES: [usize; 2] = [1024, 4096];

/// There was not enough room left in a buffer; nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the buffer has not enough room left")
    }
}

impl std::error::Error for Full {}

/// Where a buffer's memory returns to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The thread's pool of blocks of one size.
    Pool,
    /// The thread's pool of bulk blocks.
    Bulk,
    /// Block `bid` of the thread's receive ring.
    Ring(u16),
    /// The allocator.
    Heap,
}

/// An owned block of bytes: `start..end` is the readable part (what it dereferences to), `end..capacity` is
/// room to append, `0..start` is room to prepend.
///
/// It is neither `Send` nor `Sync`: its memory goes back to the pool of the thread that made it.
pub struct Buf {
    part: ManuallyDrop<Box<Part>>,
    _thread_local: PhantomData<*mut u8>,
}

// It is moved a lot, and what is one word travels in a register.
const _: () = assert!(size_of::<Option<Buf>>() == size_of::<usize>());

impl Buf {
    /// Takes ownership of a block.
    ///
    /// # Safety
    /// `ptr` points to `cap` bytes, all of them initialised, that nobody else reads or writes until the buffer is
    /// dropped, and that `origin` names correctly.
    #[inline]
    pub(crate) unsafe fn from_raw(ptr: NonNull<u8>, len: u32, cap: u32, origin: Origin) -> Buf {
        debug_assert!(len <= cap);
        let part = part::take(Part { ptr, start: 0, end: len, cap, origin });
        Buf { part: ManuallyDrop::new(part), _thread_local: PhantomData }
    }

    /// An empty buffer of `tune.bufsize` bytes from this thread's pool, or `None` when `tune.buffers.limit` is
    /// reached. A task that wants to wait for one instead uses [`poll_alloc`].
    #[inline]
    pub fn with_capacity_default() -> Option<Buf> {
        pool::alloc(pool::Priority::Normal)
    }

    /// As [`with_capacity_default`](Self::with_capacity_default), but may use the last `tune.buffers.reserve`
    /// buffers: for work that frees other buffers when it can go on (sending a response, for instance).
    #[inline]
    pub fn from_reserve() -> Option<Buf> {
        pool::alloc(pool::Priority::Reserve)
    }

    /// An empty buffer with room for [`BULK_SIZE`] bytes and a little in front and behind, or `None` when as many as
    /// there may be are in use on this thread.
    #[inline]
    pub fn bulk() -> Option<Buf> {
        pool::alloc_bulk()
    }

    /// An empty buffer of at least `capacity` bytes from the heap, outside of every limit.
    ///
    /// # Panics
    /// When `capacity` exceeds 2 GiB; sizes that come from the network are bounded by the caller.
    pub fn large(capacity: usize) -> Buf {
        let capacity = capacity.max(1);
        assert!(capacity <= i32::MAX as usize, "a buffer holds at most 2 GiB");
        let ptr = pool::heap_alloc(capacity);
        // SAFETY: freshly allocated, zeroed and owned by nobody else.
        unsafe { Buf::from_raw(ptr, 0, capacity as u32, Origin::Heap) }
    }

    /// A heap buffer holding a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Buf {
        let mut buf = Buf::large(bytes.len());
        let _ = buf.extend_from_slice(bytes);
        buf
    }

    /// The same for bytes that are about to be sent: in a buffer from the pool when they fit, which costs no allocation. Not
    /// where buffers are limited: those are for who can do without less.
    pub fn copy_for_sending(bytes: &[u8]) -> Buf {
        let pooled = if bytes.len() <= default_size() { pool::alloc_unlimited() } else { None };
        let mut buf = pooled.unwrap_or_else(|| Buf::large(bytes.len()));
        let _ = buf.extend_from_slice(bytes);
        buf
    }

    /// An empty buffer for `len` bytes that may have to be kept for long, with room for more that is not more than they are
    /// worth: 1 kB, 4 kB, a pooled one, and beyond that twice as large each time. `None` as in
    /// [`with_capacity_default`](Self::with_capacity_default).
    pub fn for_keeping(len: usize) -> Option<Buf> {
        if KEPT_SIZES.into_iter().any(|size| size >= len) {
            return Some(Buf::large(Buf::kept_size(len)));
        }
        // Nothing larger than a pooled one where not even those are left.
        let pooled = Buf::with_capacity_default()?;
        Some(if pooled.capacity() >= len { pooled } else { Buf::large(Buf::kept_size(len)) })
    }

    /// The capacity of a buffer [for keeping](Buf::for_keeping) so much.
    fn kept_size(len: usize) -> usize {
        match KEPT_SIZES.into_iter().find(|size| *size >= len) {
            Some(size) => size,
            None if len <= default_size() => default_size(),
            None => len.next_power_of_two(),
        }
    }

    /// The same bytes in memory that may be kept for long: copied to a smaller block ([`Buf::for_keeping`]) when that saves
    /// much, and out of the receive ring in any case. Returned as it is when there is no buffer to copy it to.
    pub fn fitted(self) -> Buf {
        if !self.is_from_ring() && self.capacity() <= Buf::kept_size(self.len()) {
            return self;
        }
        match Buf::for_keeping(self.len()) {
            Some(mut kept) => {
                let _ = kept.extend_from_slice(&self);
                kept
            }
            None => self,
        }
    }

    /// An empty buffer without any memory behind it; means "end of stream" where a receive returns it.
    pub fn empty() -> Buf {
        // SAFETY: there is no byte that anybody could read or write.
        unsafe { Buf::from_raw(NonNull::dangling(), 0, 0, Origin::Heap) }
    }

    /// Number of readable bytes.
    #[inline]
    pub fn len(&self) -> usize {
        (self.part.end - self.part.start) as usize
    }

    /// Whether no byte is readable.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.part.end == self.part.start
    }

    /// Size of the whole block in bytes.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.part.cap as usize
    }

    /// Number of bytes that can still be appended without moving anything.
    #[inline]
    pub fn spare(&self) -> usize {
        (self.part.cap - self.part.end) as usize
    }

    /// Number of bytes free in front of the readable part.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.part.start as usize
    }

    /// Drops the first `n` readable bytes (at most all of them).
    #[inline]
    pub fn advance(&mut self, n: usize) {
        self.part.start += n.min(self.len()) as u32;
    }

    /// Keeps the first `n` readable bytes only (no effect when there are fewer).
    #[inline]
    pub fn truncate(&mut self, n: usize) {
        if n < self.len() {
            self.part.end = self.part.start + n as u32;
        }
    }

    /// Forgets all bytes and makes the whole block writable again.
    #[inline]
    pub fn clear(&mut self) {
        self.part.start = 0;
        self.part.end = 0;
    }

    /// Moves the readable bytes to the front of the block, so that all free room is behind them.
    pub fn compact(&mut self) {
        if self.part.start > 0 {
            let len = self.len();
            // SAFETY: both ranges lie in the block; `copy` allows them to overlap.
            unsafe {
                std::ptr::copy(
                    self.part.ptr.as_ptr().add(self.part.start as usize),
                    self.part.ptr.as_ptr(),
                    len,
                )
            };
            self.part.start = 0;
            self.part.end = len as u32;
        }
    }

    /// On an empty buffer, leaves `n` bytes free in front of what will be appended (see [`prepend`](Self::prepend)).
    /// Does nothing when the buffer is not empty or `n` exceeds its capacity.
    pub fn leave_headroom(&mut self, n: usize) {
        if self.is_empty() && n <= self.part.cap as usize {
            self.part.start = n as u32;
            self.part.end = n as u32;
        }
    }

    /// Puts `bytes` in front of the readable part.
    pub fn prepend(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if bytes.len() > self.part.start as usize {
            return Err(Full);
        }
        self.part.start -= bytes.len() as u32;
        self[..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// Appends `bytes`, all or nothing.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if bytes.len() > self.spare() {
            return Err(Full);
        }
        // SAFETY: the room was checked, and a `&[u8]` cannot overlap a block this buffer owns exclusively.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.part.ptr.as_ptr().add(self.part.end as usize),
                bytes.len(),
            );
        }
        self.part.end += bytes.len() as u32;
        Ok(())
    }

    /// Appends one byte.
    #[inline]
    pub fn push(&mut self, byte: u8) -> Result<(), Full> {
        self.extend_from_slice(&[byte])
    }

    /// The free room behind the readable part. What is written there counts after [`commit`](Self::commit).
    #[inline]
    pub fn unused_mut(&mut self) -> &mut [u8] {
        // SAFETY: `end..cap` lies in the block, is initialised (see `from_raw`) and borrowed mutably through `self`.
        unsafe {
            std::slice::from_raw_parts_mut(self.part.ptr.as_ptr().add(self.part.end as usize), self.spare())
        }
    }

    /// Makes the first `n` bytes of [`unused_mut`](Self::unused_mut) readable (at most all of them).
    #[inline]
    pub fn commit(&mut self, n: usize) {
        self.part.end += n.min(self.spare()) as u32;
    }

    /// Takes the first `n` readable bytes out as a buffer of their own. The smaller part is copied, except that the rest
    /// of a bulk buffer, which may have to wait, is copied only when it fits into a buffer of the usual size: whatever is
    /// larger stays counted among the bulk buffers. `n` is limited to what is readable.
    pub fn split_to(&mut self, n: usize) -> Buf {
        let n = n.min(self.len());
        if n == self.len() {
            return std::mem::replace(self, Buf::empty());
        }
        let rest = self.len() - n;
        if n <= rest || (self.part.origin == Origin::Bulk && rest > pool::default_size()) {
            let head = Buf::copy_of(&self[..n]);
            self.advance(n);
            self.leave_bulk();
            head
        } else {
            let tail = Buf::copy_of(&self[n..]);
            let mut head = std::mem::replace(self, tail);
            head.truncate(n);
            head
        }
    }

    /// Whether the block is one of the kernel's receive ring, which is scarce: what is kept for long had better be
    /// copied out of it (see [`into_owned`](Self::into_owned)).
    #[inline]
    pub fn is_from_ring(&self) -> bool {
        matches!(self.part.origin, Origin::Ring(_))
    }

    /// Leaves a bulk buffer for one of the usual size, if it holds no more than that one can.
    pub(crate) fn leave_bulk(&mut self) {
        if self.part.origin == Origin::Bulk
            && let Some(mut usual) = Buf::with_capacity_default()
            && usual.extend_from_slice(self).is_ok()
        {
            *self = usual;
        }
    }

    /// The same bytes in memory that may be kept for long: a block of the receive ring is copied, any other is
    /// returned as it is.
    pub fn into_owned(self) -> Buf {
        if self.is_from_ring() { Buf::copy_of(&self) } else { self }
    }

    /// Address of the first readable byte, for the drivers.
    #[inline]
    pub(crate) fn read_ptr(&self) -> *const u8 {
        // SAFETY: `start` never exceeds the capacity.
        unsafe { self.part.ptr.as_ptr().add(self.part.start as usize) }
    }
}

impl Deref for Buf {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start..end` lies in the block and is initialised; for a block without memory the length is zero.
        unsafe { std::slice::from_raw_parts(self.read_ptr(), self.len()) }
    }
}

impl DerefMut for Buf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as `deref`, and `&mut self` makes the borrow exclusive.
        unsafe {
            std::slice::from_raw_parts_mut(self.part.ptr.as_ptr().add(self.part.start as usize), self.len())
        }
    }
}

impl Drop for Buf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: nobody looks at it again.
        let part = unsafe { ManuallyDrop::take(&mut self.part) };
        match part.origin {
            Origin::Pool => pool::release(part.ptr, part.cap),
            Origin::Bulk => pool::release_bulk(part.ptr),
            Origin::Ring(bid) => ring::release(bid),
            Origin::Heap => {
                if part.cap != 0 {
                    pool::heap_free(part.ptr, part.cap as usize);
                }
            }
        }
        part::give(part);
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({:?}, {}..{} of {})", self.part.origin, self.part.start, self.part.end, self.part.cap)
    }
}

impl AsRef<[u8]> for Buf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::io::Write for Buf {
    /// Appends as much as fits; an error means that nothing did.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let n = bytes.len().min(self.spare());
        if n == 0 && !bytes.is_empty() {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        let _ = self.extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_appended_consumed_and_prepended() {
        let mut b = Buf::large(16);
        b.leave_headroom(4);
        b.extend_from_slice(b"world").unwrap();
        b.prepend(b"hi, ").unwrap();
        assert_eq!(&b[..], b"hi, world");
        assert_eq!(b.prepend(b"x"), Err(Full));
        b.advance(4);
        assert_eq!(&b[..], b"world");
        b.compact();
        assert_eq!(b.spare(), 11);
        assert_eq!(b.extend_from_slice(b"123456789012"), Err(Full));
        b.truncate(2);
        b.push(b'!').unwrap();
        assert_eq!(&b[..], b"wo!");
        b.advance(100);
        assert!(b.is_empty());
    }

    #[test]
    fn splitting_copies_the_smaller_part_and_keeps_all_bytes() {
        for n in 0..=10 {
            let mut b = Buf::copy_of(b"0123456789");
            let head = b.split_to(n);
            assert_eq!(&head[..], &b"0123456789"[..n]);
            assert_eq!(&b[..], &b"0123456789"[n..]);
        }
    }

    #[test]
    fn what_stays_of_a_bulk_buffer_stays_counted_or_is_small() {
        let split = |n| {
            let mut b = Buf::bulk().unwrap();
            b.commit(BULK_SIZE);
            let head = b.split_to(n);
            assert_eq!((head.len(), b.len()), (n, BULK_SIZE - n));
            (head.part.origin, b.part.origin)
        };
        assert_eq!(split(100), (Origin::Heap, Origin::Bulk));
        assert_eq!(split(BULK_SIZE - DEFAULT_SIZE - 1), (Origin::Heap, Origin::Bulk));
        assert_eq!(split(BULK_SIZE - DEFAULT_SIZE), (Origin::Bulk, Origin::Heap));
        let mut b = Buf::bulk().unwrap();
        b.commit(1000);
        assert_eq!((b.split_to(10).part.origin, b.part.origin), (Origin::Heap, Origin::Pool));
    }

    #[test]
    fn what_waits_is_kept_in_a_block_of_its_size() {
        let pooled = |len: usize| {
            let mut buf = Buf::with_capacity_default().unwrap();
            buf.extend_from_slice(&vec![b'x'; len]).unwrap();
            buf
        };
        for (len, capacity) in [(1, 1024), (1024, 1024), (1025, 4096), (4096, 4096), (4097, 16_384)] {
            let kept = pooled(len).fitted();
            assert_eq!((kept.len(), kept.capacity()), (len, capacity));
            assert!(kept.iter().all(|b| *b == b'x'));
            let address = kept.read_ptr();
            assert_eq!(kept.fitted().read_ptr(), address, "copied once");
        }
        assert_eq!(Buf::for_keeping(20_000).unwrap().capacity(), 32_768);
        assert_eq!(stats().used, 0);
        assert_eq!(Buf::empty().fitted().capacity(), 0);
    }

    #[test]
    fn unused_room_counts_once_committed() {
        let mut b = Buf::large(4);
        b.unused_mut()[..2].copy_from_slice(b"ab");
        assert!(b.is_empty());
        b.commit(2);
        assert_eq!(&b[..], b"ab");
        b.commit(100);
        assert_eq!(b.len(), 4);
    }
}
