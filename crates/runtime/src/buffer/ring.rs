//! The thread's receive ring: blocks lent to the kernel, which fills one whenever data arrives (io_uring provided
//! buffers, one group per thread).
//!
//! Every block is in exactly one of three places:
//!
//! - **posted**: in the ring, the kernel's to fill;
//! - **in use**: inside a [`Buf`](super::Buf), from the completion that delivered it until that is dropped;
//! - **spare**: ours and unused, reused last in first out.
//!
//! The kernel takes posted blocks in the order in which they were posted, so all of them become resident and pass
//! through the cache in turn. That is why only `target` of them are posted at a time; the target doubles when
//! the kernel ran out, and halves when it did not for a while ([`look`]). Slabs of blocks are added when there is no spare, up to
//! [`BLOCKS_MAX`]. When its thread goes idle the ring is cut back ([`trim`]): no more blocks than at first are posted from then on, and the pages of the slabs that
//! no buffer uses go back to the kernel, whether their blocks are spare or posted. The kernel fills blocks only while the
//! thread is inside `io_uring_enter`, and gets fresh pages then.

use super::{Buf, Origin};
use crate::memory;
use crate::pages;
use io_uring::types::BufRingEntry;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::{Cell, RefCell};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// Blocks a ring may grow to; also the number of its entries (a power of two, at most 32,768). 16 MB at 4 kB each.
pub(crate) const BLOCKS_MAX: u32 = 4096;
/// Blocks allocated at a time.
const SLAB: u32 = 128;
/// Looks between which the kernel did not run out, until fewer are posted: 2.5 seconds. Should they be missed, that costs one of
/// the sockets another submission.
const CALM: u32 = 10;
/// Beyond this share of [`BLOCKS_MAX`] in use, received data is copied out at once so that the ring cannot starve.
const PRESSURE: u32 = BLOCKS_MAX / 4 * 3;

pub(crate) struct RingBuffers {
    entries: *mut BufRingEntry,
    tail: u16,
    block_size: u32,
    slabs: Vec<Slab>,
    spare: Vec<u16>,
    posted: u32,
    target: u32,
    /// The target as configured.
    target_min: u32,
    used: u32,
    /// Blocks that the kernel filled so far, and had filled when the target was last raised; both wrap.
    filled: u32,
    filled_then: u32,
    /// Looks since the kernel ran out or the target was lowered.
    calm: u32,
    /// The target was lowered: what is spare once no more are posted than that has pages that nobody needs.
    ebbs: bool,
}

struct Slab {
    memory: NonNull<u8>,
    /// Blocks of it that are in use.
    used: u32,
}

fn slab_layout(block_size: u32) -> Layout {
    Layout::from_size_align((SLAB * block_size) as usize, 4096).expect("block sizes are bounded")
}

const fn table_bytes() -> usize {
    BLOCKS_MAX as usize * size_of::<BufRingEntry>()
}

impl RingBuffers {
    /// A ring of blocks of `block_size` bytes with `target` of them posted (rounded up to a whole slab).
    pub(crate) fn new(block_size: usize, target: usize) -> io::Result<RingBuffers> {
        // SAFETY: a fresh private anonymous mapping; the result is checked.
        let table = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                table_bytes(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if table == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut ring = RingBuffers {
            entries: table.cast(),
            tail: 0,
            block_size: block_size.clamp(256, 65_536) as u32,
            slabs: Vec::new(),
            spare: Vec::new(),
            posted: 0,
            target: (target as u32).clamp(16, BLOCKS_MAX),
            target_min: (target as u32).clamp(16, BLOCKS_MAX),
            used: 0,
            filled: 0,
            filled_then: 0,
            calm: 0,
            ebbs: false,
        };
        ring.refill();
        Ok(ring)
    }

    /// Address of the table of entries, for registering it.
    pub(crate) fn table(&self) -> u64 {
        self.entries as u64
    }

    fn block(&self, bid: u16) -> NonNull<u8> {
        let slab = &self.slabs[usize::from(bid) / SLAB as usize];
        // SAFETY: the offset is below the size of a slab.
        unsafe { slab.memory.add((u32::from(bid) % SLAB * self.block_size) as usize) }
    }

    fn add_slab(&mut self) -> bool {
        let first = self.slabs.len() as u32 * SLAB;
        if first + SLAB > BLOCKS_MAX || (first > 0 && memory::is_short()) {
            return false;
        }
        // SAFETY: the size is not zero. Zeroing makes every byte initialised.
        let Some(slab) = NonNull::new(unsafe { alloc_zeroed(slab_layout(self.block_size)) }) else {
            return false;
        };
        self.slabs.push(Slab { memory: slab, used: 0 });
        self.spare.extend((first..first + SLAB).rev().map(|bid| bid as u16));
        true
    }

    #[inline]
    fn post(&mut self, bid: u16) {
        let block = self.block(bid);
        let index = usize::from(self.tail) & (BLOCKS_MAX as usize - 1);
        // SAFETY: the index is below the number of entries, and the kernel reads an entry only after the tail passed
        // it. The first entry's `resv` field doubles as the tail, which the setters below do not touch.
        unsafe {
            let entry = &mut *self.entries.add(index);
            entry.set_addr(block.as_ptr() as u64);
            entry.set_len(self.block_size);
            entry.set_bid(bid);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the table is page-aligned and its first entry valid; the kernel reads the tail concurrently, hence
        // the atomic store. Release orders the entry before it.
        unsafe {
            let tail = BufRingEntry::tail(self.entries).cast_mut().cast::<u16>();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
        self.posted += 1;
    }

    fn refill(&mut self) {
        while self.posted < self.target {
            if self.spare.is_empty() && !self.add_slab() {
                return;
            }
            if let Some(bid) = self.spare.pop() {
                self.post(bid);
            }
        }
    }

    /// The kernel filled `len` bytes of block `bid`.
    #[inline]
    pub(crate) fn take(&mut self, bid: u16, len: usize) -> Buf {
        self.posted -= 1;
        self.used += 1;
        self.filled = self.filled.wrapping_add(1);
        self.slabs[usize::from(bid) / SLAB as usize].used += 1;
        if self.posted < self.target
            && let Some(spare) = self.spare.pop()
        {
            self.post(spare);
        }
        // SAFETY: the kernel handed the block over with this completion; it is initialised and ours until `release`.
        unsafe { Buf::from_raw(self.block(bid), len as u32, self.block_size, Origin::Ring(bid)) }
    }

    #[inline]
    fn give_back(&mut self, bid: u16) {
        self.used -= 1;
        self.slabs[usize::from(bid) / SLAB as usize].used -= 1;
        if self.posted < self.target {
            self.post(bid);
        } else {
            self.spare.push(bid);
        }
    }

    /// The kernel found no block: post more of them from now on. Of several sockets that find none at the same time only
    /// the first makes a difference: before the target is raised again, as many as it asks for were filled.
    #[cold]
    pub(crate) fn exhausted(&mut self) {
        (self.calm, self.ebbs) = (0, false);
        if self.filled.wrapping_sub(self.filled_then) >= self.target {
            self.target = (self.target * 2).min(BLOCKS_MAX);
            self.filled_then = self.filled;
        }
        self.refill();
    }

    /// See [`look`].
    fn look(&mut self) {
        if self.ebbs && self.posted <= self.target {
            self.ebbs = false;
            self.forget_spare();
        }
        if self.target > self.target_min {
            self.calm += 1;
            if self.calm >= CALM {
                self.target = (self.target / 2).max(self.target_min);
                (self.calm, self.ebbs) = (0, true);
            }
        }
    }

    /// Returns the pages of spare blocks to the kernel, neighbours at once. The next to be used are those in front.
    fn forget_spare(&mut self) {
        self.spare.sort_unstable_by(|a, b| b.cmp(a));
        let is_same_run = |a: &u16, b: &u16| *a == *b + 1 && u32::from(*a) % SLAB != 0;
        for run in self.spare.chunk_by(is_same_run) {
            let Some(first) = run.last() else { continue };
            // SAFETY: blocks of one slab that are neither posted nor in a buffer.
            unsafe { pages::forget(self.block(*first), run.len() * self.block_size as usize) };
        }
    }

    /// See [`trim`].
    fn trim(&mut self) {
        self.target = self.target.min(self.target_min);
        let bytes = slab_layout(self.block_size).size();
        for slab in self.slabs.iter().filter(|slab| slab.used == 0) {
            // SAFETY: the slab is ours, page-aligned and of this size, and nobody reads its blocks before the kernel
            // filled them again. What is read of it otherwise is zero, so it stays initialised.
            unsafe { libc::madvise(slab.memory.as_ptr().cast(), bytes, libc::MADV_DONTNEED) };
        }
    }

    /// Whether a receive can be armed with a chance to find a block.
    pub(crate) fn has_posted(&self) -> bool {
        self.posted > 0
    }

    /// Whether so much is in use that received data had better be copied out of the ring.
    #[inline]
    pub(crate) fn under_pressure(&self) -> bool {
        self.used > PRESSURE
    }

    fn unmap(&mut self) {
        if !self.entries.is_null() {
            // SAFETY: mapped in `new` with this size, and the ring that knew it is closed.
            unsafe { libc::munmap(self.entries.cast(), table_bytes()) };
            self.entries = std::ptr::null_mut();
        }
    }
}

impl Drop for RingBuffers {
    fn drop(&mut self) {
        // One that was refused is not the thread's.
        if std::ptr::eq(RING.get(), self) {
            RING.set(std::ptr::null_mut());
        }
        self.unmap();
        // A buffer that is still in use keeps its slab: leaking it is the only safe thing left at a thread's end.
        if self.used == 0 {
            for slab in self.slabs.drain(..) {
                // SAFETY: allocated in `add_slab` with this layout; no block of it is in use or posted.
                unsafe { dealloc(slab.memory.as_ptr(), slab_layout(self.block_size)) };
            }
        }
    }
}

// Reached through a plain pointer, owned beside it; see `pool`.
thread_local! {
    static RING: Cell<*mut RingBuffers> = const { Cell::new(std::ptr::null_mut()) };
    static OWNER: RefCell<Option<Box<RingBuffers>>> = const { RefCell::new(None) };
}

/// Makes `ring` this thread's ring. `false`, and nothing done, when the thread has one already, or buffers of one that was
/// taken away are in use: they would be given back to the wrong ring.
pub(crate) fn install(ring: RingBuffers) -> bool {
    if with(|old| !old.entries.is_null() || old.used > 0) == Some(true) {
        return false;
    }
    OWNER.with_borrow_mut(|owner| {
        // Before the pointer is set, which its end nulls.
        *owner = None;
        RING.set(&mut **owner.insert(Box::new(ring)));
    });
    true
}

/// Takes this thread's ring away, after the kernel forgot it. While buffers of it are in use its blocks stay.
pub(crate) fn uninstall() {
    let _ = OWNER.try_with(|owner| {
        // Through the pointer, which keeps its rights for the buffers in use: they still find the ring through it. Only
        // posting must stop.
        let retired = with(|ring| {
            ring.target = 0;
            ring.posted = 0;
            ring.unmap();
            ring.used > 0
        });
        if retired == Some(false) {
            *owner.borrow_mut() = None;
        }
    });
}

/// Runs `f` on this thread's ring. `f` must not drop a buffer.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&mut RingBuffers) -> R) -> Option<R> {
    let ptr = RING.get();
    if ptr.is_null() {
        return None;
    }
    // SAFETY: this thread's, valid while the pointer is set; no closure calls back into this module.
    Some(f(unsafe { &mut *ptr }))
}

#[inline]
pub(crate) fn release(bid: u16) {
    with(|ring| ring.give_back(bid));
}

/// Gives back the ring's memory as far as no buffer uses it, and what it took beyond its configured size for good.
pub(crate) fn trim() {
    with(RingBuffers::trim);
}

/// Four times a second: where the kernel finds blocks for long, fewer are posted by and by, and the memory of others goes back.
pub(crate) fn look() {
    with(RingBuffers::look);
}

/// Bytes of a block; 0 without a ring.
pub(crate) fn block_size() -> usize {
    with(|r| r.block_size as usize).unwrap_or(0)
}

/// Blocks in use and in existence.
pub(crate) fn usage() -> (usize, usize) {
    with(|r| (r.used as usize, r.slabs.len() * SLAB as usize)).unwrap_or((0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_posted_used_or_spare() {
        let ring = RingBuffers::new(4096, 200).unwrap();
        assert_eq!((ring.posted, ring.spare.len(), ring.slabs.len()), (200, 56, 2));
        assert!(install(ring));
        let bufs: Vec<Buf> = (0..200u16).map(|bid| with(|r| r.take(bid, 10)).unwrap()).collect();
        // Spares were posted while they lasted.
        assert_eq!(with(|r| (r.posted, r.used, r.spare.len())).unwrap(), (56, 200, 0));
        assert_eq!(bufs[3].len(), 10);
        drop(bufs);
        assert_eq!(with(|r| (r.posted, r.used, r.spare.len())).unwrap(), (200, 0, 56));
        with(|r| r.exhausted());
        with(|r| r.exhausted());
        assert_eq!(with(|r| r.posted).unwrap(), 400, "raised once");
        uninstall();
        assert_eq!(usage(), (0, 0));
    }

    #[test]
    fn it_grows_to_its_bound_and_no_further() {
        let mut ring = RingBuffers::new(256, 16).unwrap();
        for _ in 0..20 {
            ring.filled += ring.target;
            ring.exhausted();
        }
        assert_eq!(ring.posted, BLOCKS_MAX);
        assert_eq!(ring.slabs.len() as u32 * SLAB, BLOCKS_MAX);
    }

    /// Under traffic that never ends, too.
    #[test]
    #[cfg_attr(miri, ignore = "pages cannot be given back there")]
    fn a_ring_that_grew_ebbs_while_the_kernel_finds_blocks() {
        let mut ring = RingBuffers::new(4096, 64).unwrap();
        for _ in 0..3 {
            ring.filled += ring.target;
            ring.exhausted();
        }
        assert_eq!((ring.target, ring.posted), (512, 512));
        assert!(install(ring));
        // In the order in which they were posted, as the kernel does.
        let mut order: std::collections::VecDeque<u16> = (0..512).collect();
        let mut fill = |count: usize| {
            for _ in 0..count {
                let bid = order.pop_front().expect("some are posted");
                let tail = with(|r| r.tail).unwrap();
                let mut buf = with(|r| r.take(bid, 10)).unwrap();
                buf[0] = 1;
                drop(buf);
                // What that posted, if it did.
                for at in tail..with(|r| r.tail).unwrap() {
                    let entry = usize::from(at) & (BLOCKS_MAX as usize - 1);
                    // SAFETY: an entry that was written just now.
                    order.push_back(with(|r| unsafe { (*r.entries.add(entry)).bid() }).unwrap());
                }
            }
        };
        let resident = || {
            let len = slab_layout(4096).size();
            with(|r| r.slabs.iter().map(|s| pages::resident_at(s.memory.as_ptr(), len)).sum::<usize>())
                .unwrap()
        };
        fill(1000);
        assert!(resident() >= 512, "{}", resident());
        // The kernel runs out now and then.
        for _ in 0..10 {
            (0..CALM - 1).for_each(|_| look());
            fill(1000);
            // Of several sockets, the second.
            with(|r| r.filled_then = r.filled);
            with(RingBuffers::exhausted);
        }
        assert_eq!(with(|r| (r.target, r.posted)), Some((512, 512)));
        for _ in 0..3 * CALM + 1 {
            look();
            fill(1000);
        }
        assert_eq!(with(|r| (r.target, r.posted)), Some((64, 64)));
        assert!(resident() <= 64 + 2, "{}", resident());
        uninstall();
    }

    #[test]
    #[cfg_attr(miri, ignore = "pages cannot be given back there")]
    fn a_ring_that_grew_is_cut_back() {
        let resident = |ring: &RingBuffers| -> usize {
            let page = 4096;
            let bytes = slab_layout(ring.block_size).size();
            let count = |slab: &Slab| {
                let mut pages = vec![0u8; bytes / page];
                // SAFETY: the slab is mapped and page-aligned, the vector has a byte for each of its pages.
                let r =
                    unsafe { libc::mincore(slab.memory.as_ptr().cast(), bytes, pages.as_mut_ptr().cast()) };
                assert_eq!(r, 0);
                pages.iter().filter(|p| **p & 1 != 0).count()
            };
            ring.slabs.iter().map(count).sum()
        };
        let mut ring = RingBuffers::new(4096, 128).unwrap();
        for _ in 0..3 {
            ring.filled += ring.target;
            ring.exhausted();
        }
        assert_eq!((ring.posted, ring.slabs.len()), (1024, 8));
        assert!(install(ring));
        let mut bufs: Vec<Buf> = (0..1024u16).map(|bid| with(|r| r.take(bid, 10)).unwrap()).collect();
        bufs.iter_mut().for_each(|b| b[0] = 1);
        let kept = bufs.swap_remove(300);
        drop(bufs);
        assert_eq!(with(|r| resident(r)), Some(1024));
        trim();
        let (target, left) = with(|r| (r.target, resident(r))).unwrap();
        assert_eq!(target, 128);
        assert!(left <= SLAB as usize, "only the slab of the buffer that is kept: {left}");
        assert_eq!(kept[0], 1);
        drop(kept);
        uninstall();
    }

    #[test]
    fn a_buffer_outlives_the_ring_it_came_from() {
        assert!(install(RingBuffers::new(256, 16).unwrap()));
        let buf = with(|r| r.take(2, 5)).unwrap();
        uninstall();
        assert_eq!(&buf[..], &[0; 5]);
        assert!(!install(RingBuffers::new(256, 16).unwrap()), "the buffer would go back to another ring");
        drop(buf);
        assert!(install(RingBuffers::new(256, 16).unwrap()));
        assert!(!install(RingBuffers::new(256, 16).unwrap()));
        drop(with(|r| r.take(2, 5)).unwrap());
        uninstall();
        assert_eq!(usage(), (0, 0));
    }
}
