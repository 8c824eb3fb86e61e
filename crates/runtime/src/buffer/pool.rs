//! The thread's pool of buffers of one size, with a limit and an ordered queue of tasks that wait for one.
//!
//! Free blocks are reused last in first out. `tune.buffers.limit` bounds the blocks in use, per thread; the last
//! `tune.buffers.reserve` of them are only handed to [`Priority::Reserve`], so that work that gives buffers back
//! can always go on. Waiters keep their place in the queue until they got a buffer, and each round as many of
//! them are woken, from the front, as buffers are free: nobody overtakes. A waiter that ended is dropped, and so is
//! one that did not use [`WAKES_MAX`] wake-ups.
//!
//! Bulk blocks are beside that: at most [`BULK_MAX`] of a thread are in use at a time, so that slow receivers of large bodies
//! cannot hold more memory with them than that, and whoever finds none left takes a block of the usual size. Where
//! `tune.buffers.limit` is set there are none.

use super::{BULK_MARGIN, BULK_SIZE, Buf, DEFAULT_SIZE, Origin, part};
use crate::memory;
use crate::pages;
use crate::plant::bug;
use crate::pool::{Stock, TakeStock};
use crate::task::{Reason, TaskId, current_task};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::task::Poll;

/// Blocks start at a cache line.
const ALIGN: usize = 64;
/// A waiter that was woken so often without taking its buffer does something else.
const WAKES_MAX: u8 = 64;
/// Free blocks kept per thread; more go back to the allocator at once. Of those, the ones that nobody needs go back soon:
/// see [`trim_unused`].
const FREE_MAX: usize = 1024;
/// Most bulk blocks in use at a time, per thread: 8 MB.
pub(crate) const BULK_MAX: usize = 32;
/// Free bulk blocks kept per thread. Bodies that flow need one, which is used again and again.
const BULK_FREE_MAX: usize = 4;
/// Bytes of a bulk block.
const BULK_BLOCK: usize = BULK_SIZE + 2 * BULK_MARGIN;

/// Limits of a thread's pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferConfig {
    /// Bytes per buffer (`tune.bufsize`), 1 kB to 1 GiB.
    pub size: usize,
    /// Most buffers in use at a time on this thread (`tune.buffers.limit`, divided by the number of threads);
    /// 0 means no limit.
    pub limit: usize,
    /// How many of them only work that frees buffers may take (`tune.buffers.reserve`).
    pub reserve: usize,
}

impl Default for BufferConfig {
    fn default() -> Self {
        BufferConfig { size: DEFAULT_SIZE, limit: 0, reserve: 4 }
    }
}

/// What the pool of this thread holds at the moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BufferStats {
    /// Pooled buffers in use.
    pub used: usize,
    /// Most that were in use at a time.
    pub peak: usize,
    /// Free blocks kept for reuse.
    pub free: usize,
    /// Bytes per pooled buffer.
    pub size: usize,
    /// Bulk buffers in use.
    pub bulk_used: usize,
    /// Bulk buffers kept for reuse.
    pub bulk_free: usize,
    /// Tasks waiting for a buffer.
    pub waiting: usize,
    /// Blocks of the receive ring that are in use (io_uring).
    pub ring_used: usize,
    /// Blocks that exist in the receive ring (io_uring).
    pub ring_total: usize,
    /// Heap buffers alive, and their bytes.
    pub heap_count: usize,
    /// Bytes of the heap buffers alive.
    pub heap_bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    Normal,
    Reserve,
}

struct Waiter {
    task: TaskId,
    wakes: u8,
}

pub(crate) struct Pool {
    config: BufferConfig,
    used: usize,
    peak: usize,
    free: Vec<NonNull<u8>>,
    /// The fewest that were free since the last trim: nobody needed those.
    unused: usize,
    waiters: VecDeque<Waiter>,
    bulk_used: usize,
    bulk_free: Vec<NonNull<u8>>,
    heap_count: usize,
    heap_bytes: usize,
}

impl Pool {
    fn available(&self, priority: Priority) -> usize {
        // Without memory for new blocks, those that are free are all there are.
        if self.free.is_empty() && priority == Priority::Normal && memory::is_short() {
            return 0;
        }
        if self.config.limit == 0 {
            return usize::MAX;
        }
        let limit = match priority {
            Priority::Reserve => self.config.limit,
            Priority::Normal => self.config.limit.saturating_sub(self.config.reserve).max(1),
        };
        let over = if bug("buffer-limit") { 1 } else { 0 };
        (limit + over).saturating_sub(self.used)
    }

    /// Returns the `count` blocks used longest ago to the allocator.
    fn give_back(&mut self, count: usize) {
        let size = self.config.size;
        for ptr in self.free.drain(..count) {
            // The allocator would keep them for as long as a neighbour is in use.
            // SAFETY: nobody uses the block.
            unsafe { pages::forget(ptr, size) };
            block_free(ptr, size);
        }
        if self.free.capacity() > 4 * self.free.len() {
            self.free.shrink_to_fit();
        }
        self.unused = self.free.len();
    }

    fn take(&mut self) -> Buf {
        self.used += 1;
        self.peak = self.peak.max(self.used);
        let size = self.config.size;
        let ptr = self.free.pop().unwrap_or_else(|| block_alloc(size));
        self.unused = self.unused.min(self.free.len());
        // SAFETY: the block was allocated zeroed with `size` bytes and is owned by the free list or is new.
        unsafe { Buf::from_raw(ptr, 0, size as u32, Origin::Pool) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        POOL.set(std::ptr::null_mut());
        for ptr in self.free.drain(..) {
            block_free(ptr, self.config.size);
        }
        for ptr in self.bulk_free.drain(..) {
            block_free(ptr, BULK_BLOCK);
        }
    }
}

// The pool is reached through a plain pointer so that taking a buffer costs no check for a destructor; the owner
// beside it frees the pool when the thread ends, after which the pointer is null and blocks go to the allocator.
thread_local! {
    static POOL: Cell<*mut Pool> = const { Cell::new(std::ptr::null_mut()) };
    static OWNER: RefCell<Option<Box<Pool>>> = const { RefCell::new(None) };
}

#[cold]
fn create() -> Option<*mut Pool> {
    OWNER
        .try_with(|owner| {
            let mut owner = owner.borrow_mut();
            let pool = owner.get_or_insert_with(|| {
                Box::new(Pool {
                    config: BufferConfig::default(),
                    used: 0,
                    peak: 0,
                    free: Vec::new(),
                    unused: 0,
                    waiters: VecDeque::new(),
                    bulk_used: 0,
                    bulk_free: Vec::new(),
                    heap_count: 0,
                    heap_bytes: 0,
                })
            });
            let ptr: *mut Pool = &mut **pool;
            POOL.set(ptr);
            ptr
        })
        .ok()
}

/// Runs `f` on this thread's pool; `None` while the thread ends. `f` must not call back into this module.
#[inline]
fn with<R>(f: impl FnOnce(&mut Pool) -> R) -> Option<R> {
    let mut ptr = POOL.get();
    if ptr.is_null() {
        ptr = create()?;
    }
    // SAFETY: the pointer is this thread's and valid until the owner's destructor nulls it; no reference
    // outlives a call, and the closures in this module do not call `with` again.
    Some(f(unsafe { &mut *ptr }))
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, ALIGN).expect("buffer sizes are bounded")
}

fn block_alloc(size: usize) -> NonNull<u8> {
    let layout = layout(size);
    // SAFETY: sizes are never zero here. Zeroing makes every byte of a block initialised, once per block.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

fn block_free(ptr: NonNull<u8>, size: usize) {
    // SAFETY: only called with a pointer and the size it was allocated with.
    unsafe { dealloc(ptr.as_ptr(), layout(size)) }
}

pub(crate) fn heap_alloc(size: usize) -> NonNull<u8> {
    with(|p| {
        p.heap_count += 1;
        p.heap_bytes += size;
    });
    block_alloc(size)
}

pub(crate) fn heap_free(ptr: NonNull<u8>, size: usize) {
    with(|p| {
        p.heap_count = p.heap_count.saturating_sub(1);
        p.heap_bytes = p.heap_bytes.saturating_sub(size);
    });
    block_free(ptr, size);
}

#[inline]
pub(crate) fn alloc(priority: Priority) -> Option<Buf> {
    with(|p| {
        let available = p.available(priority);
        // Whoever waits goes first, except before work that will give buffers back.
        let ahead = if priority == Priority::Reserve { 0 } else { p.waiters.len() };
        (available > ahead).then(|| p.take())
    })?
}

/// A buffer, if that takes nothing from others.
#[inline]
pub(crate) fn alloc_unlimited() -> Option<Buf> {
    with(|p| (p.available(Priority::Normal) == usize::MAX).then(|| p.take()))?
}

#[inline]
pub(crate) fn alloc_bulk() -> Option<Buf> {
    with(|p| {
        let has_none = p.bulk_free.is_empty() && memory::is_short();
        if p.bulk_used >= BULK_MAX || p.config.limit != 0 || has_none {
            return None;
        }
        p.bulk_used += 1;
        let ptr = p.bulk_free.pop().unwrap_or_else(|| block_alloc(BULK_BLOCK));
        // SAFETY: the block was allocated zeroed with that size and is owned by the free list or is new.
        let mut buf = unsafe { Buf::from_raw(ptr, 0, BULK_BLOCK as u32, Origin::Bulk) };
        buf.leave_headroom(BULK_MARGIN);
        Some(buf)
    })?
}

#[inline]
pub(crate) fn release_bulk(ptr: NonNull<u8>) {
    let keep = with(|p| {
        p.bulk_used = p.bulk_used.saturating_sub(1);
        let keep = p.bulk_free.len() < BULK_FREE_MAX;
        if keep {
            p.bulk_free.push(ptr);
        }
        keep
    });
    if keep != Some(true) {
        block_free(ptr, BULK_BLOCK);
    }
}

/// Bytes of this thread's pooled buffers (`tune.bufsize`).
#[inline]
pub fn default_size() -> usize {
    with(|p| p.config.size).unwrap_or(DEFAULT_SIZE)
}

/// An empty pooled buffer; while `tune.buffers.limit` is reached the current task waits in order, and is woken
/// when it is its turn.
pub fn poll_alloc() -> Poll<Buf> {
    let Some(result) = with(|p| {
        let available = p.available(Priority::Normal);
        if p.waiters.is_empty() && available > 0 {
            return Poll::Ready(p.take());
        }
        let task = current_task();
        let place = p.waiters.iter().position(|w| w.task == task);
        match place {
            Some(i) if i < available => {
                p.waiters.remove(i);
                Poll::Ready(p.take())
            }
            Some(_) => Poll::Pending,
            None if p.waiters.len() < available => Poll::Ready(p.take()),
            None => {
                p.waiters.push_back(Waiter { task, wakes: 0 });
                Poll::Pending
            }
        }
    }) else {
        return Poll::Pending;
    };
    result
}

/// The current task waits for a buffer no longer: what it wanted takes none.
pub(crate) fn leave_queue() {
    let task = current_task();
    with(|p| p.waiters.retain(|w| w.task != task));
}

#[inline]
pub(crate) fn release(ptr: NonNull<u8>, cap: u32) {
    let keep = with(|p| {
        p.used = p.used.saturating_sub(1);
        if cap as usize == p.config.size && p.free.len() < FREE_MAX {
            p.free.push(ptr);
            true
        } else {
            false
        }
    });
    if keep != Some(true) {
        block_free(ptr, cap as usize);
    }
}

/// Once per round of the loop: wakes as many waiters, in order, as buffers are free.
#[inline]
pub(crate) fn wake_waiters() {
    let ptr = POOL.get();
    if ptr.is_null() {
        return;
    }
    // SAFETY: as in `with`; waking a task only queues it.
    let p = unsafe { &mut *ptr };
    if p.waiters.is_empty() || bug("buffer-unwoken") {
        return;
    }
    let available = p.available(Priority::Normal);
    let mut i = 0;
    while i < p.waiters.len().min(available) {
        let w = &mut p.waiters[i];
        w.wakes += 1;
        if w.wakes > WAKES_MAX || !crate::scheduler::may_live(w.task) {
            p.waiters.remove(i);
        } else {
            w.task.wake_local(Reason::RESOURCE);
            i += 1;
        }
    }
}

/// Whether a task waits for a buffer and one is free: the loop must not sleep then.
pub(crate) fn must_not_sleep() -> bool {
    let ptr = POOL.get();
    // SAFETY: as in `with`.
    !ptr.is_null() && unsafe { !(*ptr).waiters.is_empty() && (*ptr).available(Priority::Normal) > 0 }
}

/// Sets size and limits of this thread's pool. Buffers in use keep the size they have; the free ones of another
/// size are returned to the allocator.
pub fn configure(config: BufferConfig) {
    let size = config.size.clamp(1024, 1 << 30);
    with(|p| {
        if size != p.config.size {
            p.give_back(p.free.len());
        }
        p.config = BufferConfig { size, ..config };
    });
}

/// What this thread's buffers are doing.
pub fn stats() -> BufferStats {
    let (ring_used, ring_total) = super::ring::usage();
    with(|p| BufferStats {
        used: p.used,
        peak: p.peak,
        free: p.free.len(),
        size: p.config.size,
        bulk_used: p.bulk_used,
        bulk_free: p.bulk_free.len(),
        waiting: p.waiters.len(),
        ring_used,
        ring_total,
        heap_count: p.heap_count,
        heap_bytes: p.heap_bytes,
    })
    .unwrap_or_default()
}

/// Tells what this thread's buffers hold.
pub(crate) fn take_stock(take: &mut TakeStock<'_>) {
    let stats = stats();
    take(Stock { name: "buffer", object_size: stats.size, used: stats.used, free: stats.free });
    let (used, free) = (stats.bulk_used, stats.bulk_free);
    take(Stock { name: "buffer-bulk", object_size: BULK_BLOCK, used, free });
    let (used, free) = (stats.ring_used, stats.ring_total - stats.ring_used);
    take(Stock { name: "buffer-ring", object_size: super::ring::block_size(), used, free });
}

/// Returns the free blocks to the allocator, for a thread that became idle.
pub(crate) fn trim() {
    with(|p| {
        p.give_back(p.free.len());
        for ptr in p.bulk_free.drain(..) {
            block_free(ptr, BULK_BLOCK);
        }
    });
    part::trim();
}

/// From time to time: returns half of the blocks that nobody needed since the last call, those used longest ago. Returns
/// how many.
pub(crate) fn trim_unused() -> usize {
    with(|p| {
        let count = p.unused.div_ceil(2);
        p.give_back(count);
        count
    })
    .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_reused_last_in_first_out() {
        let a = Buf::with_capacity_default().unwrap();
        let b = Buf::with_capacity_default().unwrap();
        let (pa, pb) = (a.read_ptr(), b.read_ptr());
        drop(a);
        drop(b);
        let c = Buf::with_capacity_default().unwrap();
        let d = Buf::with_capacity_default().unwrap();
        assert_eq!((c.read_ptr(), d.read_ptr()), (pb, pa));
        assert_eq!((stats().used, stats().peak), (2, 2));
    }

    #[test]
    fn the_limit_holds_and_the_reserve_is_kept_for_those_who_free() {
        configure(BufferConfig { size: 2048, limit: 3, reserve: 1 });
        let a = Buf::with_capacity_default().unwrap();
        let _b = Buf::with_capacity_default().unwrap();
        assert_eq!(a.capacity(), 2048);
        assert!(Buf::with_capacity_default().is_none());
        let c = Buf::from_reserve().unwrap();
        assert!(Buf::from_reserve().is_none());
        drop(c);
        assert!(Buf::with_capacity_default().is_none());
        drop(a);
        assert!(Buf::with_capacity_default().is_some());
    }

    #[test]
    fn bulk_blocks_are_few_and_the_last_used_is_the_next() {
        let a = Buf::bulk().unwrap();
        assert_eq!((a.headroom(), a.spare()), (BULK_MARGIN, BULK_SIZE + BULK_MARGIN));
        let at = a.read_ptr();
        drop(a);
        let all: Vec<Buf> = std::iter::from_fn(Buf::bulk).collect();
        assert_eq!((all.len(), stats().bulk_used), (BULK_MAX, BULK_MAX));
        assert_eq!(all[0].read_ptr(), at);
        drop(all);
        assert_eq!(stats().bulk_used, 0);
        with(|p| assert_eq!(p.bulk_free.len(), BULK_FREE_MAX));
        configure(BufferConfig { limit: 100, ..BufferConfig::default() });
        assert!(Buf::bulk().is_none());
        trim();
        with(|p| assert!(p.bulk_free.is_empty()));
    }

    #[test]
    fn what_is_left_in_a_bulk_block_moves_out_when_it_fits() {
        let mut buf = Buf::bulk().unwrap();
        buf.commit(BULK_SIZE);
        buf.leave_bulk();
        assert_eq!(stats().bulk_used, 1);
        buf.advance(BULK_SIZE - DEFAULT_SIZE);
        buf.leave_bulk();
        assert_eq!((stats().bulk_used, buf.len(), buf.capacity()), (0, DEFAULT_SIZE, DEFAULT_SIZE));
    }

    #[test]
    fn a_buffer_of_an_older_size_goes_to_the_allocator() {
        configure(BufferConfig { size: 4096, limit: 0, reserve: 0 });
        let old = Buf::with_capacity_default().unwrap();
        configure(BufferConfig { size: 8192, limit: 0, reserve: 0 });
        drop(old);
        assert_eq!(stats().free, 0);
        assert_eq!(Buf::with_capacity_default().unwrap().capacity(), 8192);
        trim();
        assert_eq!(stats().free, 0);
    }

    #[test]
    fn blocks_that_nobody_needs_are_returned_by_and_by() {
        configure(BufferConfig { size: 4096, limit: 0, reserve: 0 });
        let burst: Vec<Buf> = (0..100).map(|_| Buf::with_capacity_default().unwrap()).collect();
        drop(burst);
        // The burst itself was no time of rest.
        assert_eq!((trim_unused(), stats().free), (0, 100));
        let mut kept = 100;
        for _ in 0..10 {
            // Ten are in use all the time, in turn.
            drop((0..10).map(|_| Buf::with_capacity_default().unwrap()).collect::<Vec<_>>());
            trim_unused();
            assert!(stats().free < kept || kept <= 11, "{kept}");
            kept = stats().free;
        }
        assert!((10..=11).contains(&kept), "{kept}");
    }

    /// Not only the allocator's: it keeps them as long as a neighbour is in use.
    #[cfg(not(miri))]
    #[test]
    fn pages_of_a_block_that_goes_back_are_the_systems() {
        configure(BufferConfig::default());
        let mut burst: Vec<Buf> = (0..64).map(|_| Buf::with_capacity_default().unwrap()).collect();
        for buf in &mut burst {
            buf.extend_from_slice(&[7; DEFAULT_SIZE]).unwrap();
        }
        let starts: Vec<*const u8> = burst.iter().skip(1).step_by(2).map(Buf::read_ptr).collect();
        // Their neighbours stay.
        let burst: Vec<Buf> = burst.into_iter().step_by(2).collect();
        let resident = || starts.iter().map(|start| pages::resident_at(*start, DEFAULT_SIZE)).sum::<usize>();
        let before = resident();
        trim();
        assert!(resident() < before / 2, "{before} pages, {} since, beside {}", resident(), burst.len());
    }
}
