//! Memory that a thread reuses: blocks for futures, values and letters to other threads, and objects of any type.
//!
//! Pools belong to one thread and stand in front of the allocator; there is no process-wide pool. What a thread
//! frees last it takes first, while it is warm in its cache. When the thread goes idle it gives back to the allocator
//! what it did not need since it last did so. Every pool has counters ([`counters`]) that any thread may read.
//!
//! Invariants
//! - A block is plain allocator memory with the layout of its size class, so one that was allocated by a thread and
//!   freed by another (a shared task's) simply joins the other's list.
//! - Only the owning thread touches a pool's list; counters are written by the owner alone and read by all.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

/// Blocks are this aligned, and small classes this far apart: no two tasks share a cache line.
const LINE: usize = 64;
const SMALL_CLASSES: usize = 32;
const LARGE_CLASSES: usize = 5;
const CLASSES: usize = SMALL_CLASSES + LARGE_CLASSES;
/// The largest pooled block: 64 kB. Larger ones go to the allocator each time.
const BLOCK_MAX: usize = (LINE * SMALL_CLASSES) << LARGE_CLASSES;
/// A class keeps at most this many bytes free; what exceeds it returns to the allocator at once.
const CLASS_FREE_MAX: usize = 8 << 20;

/// The counters of one pool of one thread. Gauges are in objects.
#[derive(Debug)]
pub struct PoolCounters {
    name: &'static str,
    object_size: usize,
    used: AtomicU64,
    free: AtomicU64,
    peak: AtomicU64,
    taken: AtomicU64,
    failed: AtomicU64,
}

impl PoolCounters {
    /// Makes counters and lists them in [`counters`] for as long as they live.
    pub fn register(name: &'static str, object_size: usize) -> Arc<PoolCounters> {
        let counters = Arc::new(PoolCounters {
            name,
            object_size,
            used: AtomicU64::new(0),
            free: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        });
        let mut all = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|c| c.strong_count() > 0);
        all.push(Arc::downgrade(&counters));
        counters
    }

    /// Sets the gauges; only the owning thread may call this. Plain stores, no read-modify-write.
    #[inline]
    pub fn set(&self, used: u64, free: u64) {
        self.used.store(used, Ordering::Relaxed);
        self.free.store(free, Ordering::Relaxed);
        if used > self.peak.load(Ordering::Relaxed) {
            self.peak.store(used, Ordering::Relaxed);
        }
    }

    /// Counts objects handed out so far; only the owning thread may call this.
    #[inline]
    pub fn set_taken(&self, taken: u64) {
        self.taken.store(taken, Ordering::Relaxed);
    }

    /// Counts one refusal (a limit, or no memory); only the owning thread may call this.
    #[inline]
    pub fn count_failure(&self) {
        self.failed.store(self.failed.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

static REGISTRY: Mutex<Vec<Weak<PoolCounters>>> = Mutex::new(Vec::new());

/// A pool's counters summed over all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// The pool's name.
    pub name: &'static str,
    /// Bytes of one object.
    pub object_size: usize,
    /// Objects in use.
    pub used: u64,
    /// Objects waiting in free lists.
    pub free: u64,
    /// Sum of the threads' largest use.
    pub peak: u64,
    /// Objects handed out since start.
    pub taken: u64,
    /// Requests that were refused.
    pub failed: u64,
    /// Threads that have this pool.
    pub threads: usize,
}

/// All pools of the process, summed over threads, largest first.
pub fn counters() -> Vec<PoolUse> {
    let mut sums: Vec<PoolUse> = Vec::new();
    for c in REGISTRY.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade) {
        let at = sums.iter().position(|s| s.name == c.name && s.object_size == c.object_size).unwrap_or_else(
            || {
                sums.push(PoolUse { name: c.name, object_size: c.object_size, ..PoolUse::default() });
                sums.len() - 1
            },
        );
        let sum = &mut sums[at];
        sum.used += c.used.load(Ordering::Relaxed);
        sum.free += c.free.load(Ordering::Relaxed);
        sum.peak += c.peak.load(Ordering::Relaxed);
        sum.taken += c.taken.load(Ordering::Relaxed);
        sum.failed += c.failed.load(Ordering::Relaxed);
        sum.threads += 1;
    }
    sums.sort_by_key(|s| std::cmp::Reverse((s.used + s.free) * s.object_size as u64));
    sums
}

// ---------------------------------------------------------------------------------------------------------------
// Blocks

struct FreeBlock {
    next: *mut FreeBlock,
}

struct BlockClass {
    first: Cell<*mut FreeBlock>,
    free: Cell<u32>,
    /// The fewest that were free since the last trim: nobody needed those.
    idle: Cell<u32>,
    used: Cell<i64>,
    taken: Cell<u64>,
}

struct Blocks {
    /// Off on threads without a loop: nobody would give the memory back when they end.
    pooling: Cell<bool>,
    classes: [BlockClass; CLASSES],
}

/// What something keeps of one kind of object, beside the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    /// Its name in `show pools`.
    pub name: &'static str,
    /// Bytes of one object.
    pub object_size: usize,
    /// Objects in use.
    pub used: usize,
    /// Objects kept for reuse.
    pub free: usize,
}

/// Receives [`Stock`]s.
pub type TakeStock<'t> = dyn FnMut(Stock) + 't;

/// The counters of the thread's blocks and stocks. Apart from the blocks, whose accesses need no check because nothing
/// of theirs has to be dropped.
struct Published {
    classes: RefCell<Vec<Option<Arc<PoolCounters>>>>,
    stocks: RefCell<Vec<Arc<PoolCounters>>>,
}

thread_local! {
    static BLOCKS: Blocks = const {
        Blocks {
            pooling: Cell::new(false),
            classes: [const {
                BlockClass {
                    first: Cell::new(ptr::null_mut()),
                    free: Cell::new(0),
                    idle: Cell::new(0),
                    used: Cell::new(0),
                    taken: Cell::new(0),
                }
            }; CLASSES],
        }
    };
    static PUBLISHED: Published =
        const { Published { classes: RefCell::new(Vec::new()), stocks: RefCell::new(Vec::new()) } };
}

#[inline]
const fn class_of(size: usize) -> usize {
    if size <= LINE * SMALL_CLASSES {
        (size.saturating_sub(1)) / LINE
    } else {
        // 2049..=4096 is the first large class.
        SMALL_CLASSES + ((size - 1) / (LINE * SMALL_CLASSES)).ilog2() as usize
    }
}

const fn class_size(class: usize) -> usize {
    if class < SMALL_CLASSES {
        (class + 1) * LINE
    } else {
        (LINE * SMALL_CLASSES) << (class - SMALL_CLASSES + 1)
    }
}

const fn class_name(class: usize) -> &'static str {
    if class < SMALL_CLASSES { "future" } else { "future-large" }
}

const fn is_pooled(layout: Layout) -> bool {
    layout.size() <= BLOCK_MAX && layout.align() <= LINE
}

const fn class_layout(class: usize) -> Layout {
    match Layout::from_size_align(class_size(class), LINE) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    }
}

#[cold]
#[inline(never)]
fn allocate(layout: Layout) -> NonNull<u8> {
    debug_assert!(layout.size() > 0);
    // SAFETY: class sizes are not zero, and larger layouts are not either.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Memory for `layout`, from this thread's list when it has some. Never zero-sized.
#[inline]
pub(crate) fn block_alloc(layout: Layout) -> NonNull<u8> {
    if !is_pooled(layout) {
        return allocate(layout);
    }
    let class = class_of(layout.size());
    BLOCKS.with(|b| {
        let c = &b.classes[class];
        c.used.set(c.used.get() + 1);
        c.taken.set(c.taken.get() + 1);
        match NonNull::new(c.first.get()) {
            Some(block) => {
                // SAFETY: blocks in the list are free memory of this thread, initialised as links.
                c.first.set(unsafe { block.as_ref() }.next);
                let free = c.free.get() - 1;
                c.free.set(free);
                c.idle.set(c.idle.get().min(free));
                block.cast()
            }
            None => allocate(class_layout(class)),
        }
    })
}

/// Gives back what [`block_alloc`] returned for the same layout.
///
/// # Safety
/// `block` came from [`block_alloc`] with `layout` (on any thread) and is not used afterwards.
#[inline]
pub(crate) unsafe fn block_free(block: NonNull<u8>, layout: Layout) {
    if !is_pooled(layout) {
        // SAFETY: such layouts bypass the pool, see `block_alloc`.
        return unsafe { dealloc(block.as_ptr(), layout) };
    }
    let class = class_of(layout.size());
    BLOCKS.with(|b| {
        let c = &b.classes[class];
        c.used.set(c.used.get() - 1);
        if !b.pooling.get() || c.free.get() as usize * class_size(class) >= CLASS_FREE_MAX {
            // SAFETY: pooled blocks have the layout of their class.
            return unsafe { dealloc(block.as_ptr(), class_layout(class)) };
        }
        let link = block.cast::<FreeBlock>().as_ptr();
        // SAFETY: the block is at least a line long, aligned, and no longer used.
        unsafe { link.write(FreeBlock { next: c.first.get() }) };
        c.first.set(link);
        c.free.set(c.free.get() + 1);
    });
}

/// This thread starts a loop and keeps blocks from now on.
pub(crate) fn enter() {
    BLOCKS.with(|b| b.pooling.set(true));
}

/// This thread's loop ended: everything free returns to the allocator.
pub(crate) fn leave() {
    BLOCKS.with(|b| {
        b.pooling.set(false);
    });
    PUBLISHED.with(|p| {
        p.classes.borrow_mut().clear();
        p.stocks.borrow_mut().clear();
    });
    release_blocks();
}

/// Gives all free blocks to the allocator.
pub(crate) fn release_blocks() {
    BLOCKS.with(|b| b.classes.iter().enumerate().for_each(|(class, c)| _ = release(c, class, u32::MAX)));
}

/// From time to time: gives back half of what no one needed since the last call. Returns the bytes released.
pub(crate) fn trim_blocks() -> usize {
    BLOCKS.with(|b| {
        let mut bytes = 0;
        for (class, c) in b.classes.iter().enumerate() {
            bytes += release(c, class, c.idle.get().div_ceil(2)) as usize * class_size(class);
            c.idle.set(c.free.get());
        }
        bytes
    })
}

fn release(c: &BlockClass, class: usize, count: u32) -> u32 {
    let mut released = 0;
    while released < count {
        let Some(block) = NonNull::new(c.first.get()) else { break };
        // SAFETY: blocks in the list are free memory of this thread, initialised as links.
        c.first.set(unsafe { block.as_ref() }.next);
        // SAFETY: pooled blocks have the layout of their class.
        unsafe { dealloc(block.as_ptr().cast(), class_layout(class)) };
        released += 1;
    }
    c.free.set(c.free.get() - released);
    c.idle.set(c.idle.get().min(c.free.get()));
    released
}

/// Publishes one stock of this thread in its [`PoolCounters`], unless there never was anything.
pub(crate) fn publish_stock(stock: Stock) {
    PUBLISHED.with(|p| {
        let mut stocks = p.stocks.borrow_mut();
        let is_this = |c: &Arc<PoolCounters>| c.name == stock.name && c.object_size == stock.object_size;
        let at = match stocks.iter().position(is_this) {
            None if stock.used + stock.free == 0 => return,
            None => {
                stocks.push(PoolCounters::register(stock.name, stock.object_size));
                stocks.len() - 1
            }
            Some(at) => at,
        };
        stocks[at].set(stock.used as u64, stock.free as u64);
    });
}

/// Publishes the block classes that were ever used in the thread's [`PoolCounters`].
pub(crate) fn publish_blocks() {
    PUBLISHED.with(|p| {
        let mut counters = p.classes.borrow_mut();
        if counters.is_empty() {
            counters.resize(CLASSES, None);
        }
        BLOCKS.with(|b| {
            for (class, c) in b.classes.iter().enumerate().filter(|(_, c)| c.taken.get() > 0) {
                let counters = counters[class]
                    .get_or_insert_with(|| PoolCounters::register(class_name(class), class_size(class)));
                counters.set(c.used.get().max(0) as u64, c.free.get() as u64);
                counters.set_taken(c.taken.get());
            }
        });
    });
}

/// Tells when much less is in use than was: the moment at which even a busy thread gives memory back.
#[derive(Default)]
pub(crate) struct Ebb {
    peak: usize,
}

impl Ebb {
    /// Below this many nothing is worth it.
    const MIN: usize = 1024;

    /// To be told from time to time how many there are. True once they have become a quarter of the most there were since
    /// it was last true.
    pub(crate) fn has_ebbed(&mut self, now: usize) -> bool {
        let ebbed = self.peak >= Ebb::MIN && now <= self.peak / 4;
        self.peak = if ebbed { now } else { self.peak.max(now) };
        ebbed
    }
}

// ---------------------------------------------------------------------------------------------------------------
// Boxed futures

/// A future behind one pointer whose memory comes from this thread's blocks: `Pin<Box<dyn Future>>` without the
/// allocator. It stays on its thread. `'a` bounds what the future borrows.
pub struct Boxed<'a, T> {
    future: NonNull<dyn Future<Output = T> + 'a>,
    /// Not `Send`: the future may hold thread-local objects.
    _local: PhantomData<*mut ()>,
}

/// A [`Boxed`] future that borrows nothing.
pub type PooledFuture<T> = Boxed<'static, T>;

/// Moves a future into pooled memory, to erase its type or to keep an enclosing future small.
pub fn boxed<'a, T, F: Future<Output = T> + 'a>(future: F) -> Boxed<'a, T> {
    boxed_with(|| future)
}

/// Makes a future in pooled memory. What it does not hold before it is polled, which of large ones is nearly all, is not
/// copied then: with the memory there first, nothing can happen between making and placing it.
#[inline]
pub fn boxed_with<'a, T, F: Future<Output = T> + 'a>(make: impl FnOnce() -> F) -> Boxed<'a, T> {
    let layout = block_layout::<F>();
    let block = block_alloc(layout).cast::<F>();
    // SAFETY: the block is large and aligned enough and unused.
    unsafe { block.write(make()) };
    Boxed { future: block as NonNull<dyn Future<Output = T> + 'a>, _local: PhantomData }
}

/// The layout to ask for a future of type `F`: never zero-sized.
pub(crate) const fn block_layout<F>() -> Layout {
    never_empty(Layout::new::<F>())
}

const fn never_empty(layout: Layout) -> Layout {
    match Layout::from_size_align(if layout.size() == 0 { 1 } else { layout.size() }, layout.align()) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    }
}

impl<T> Future for Boxed<'_, T> {
    type Output = T;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // SAFETY: the block holds a live future until drop, is ours alone and never moves.
        unsafe { Pin::new_unchecked(self.future.as_mut()) }.poll(cx)
    }
}

impl<T> Drop for Boxed<'_, T> {
    fn drop(&mut self) {
        // Freed even when the future's own drop panics.
        // SAFETY: the future is live.
        let layout = never_empty(Layout::for_value(unsafe { self.future.as_ref() }));
        let _free = Free(self.future.cast(), layout);
        // SAFETY: the future is live and is not used again.
        unsafe { ptr::drop_in_place(self.future.as_ptr()) };
    }
}

// ---------------------------------------------------------------------------------------------------------------
// Boxed values

/// A value behind one pointer whose memory comes from this thread's blocks: `Box` without the allocator, for what comes and goes as
/// often as requests do. It stays on its thread.
pub struct Block<T> {
    value: NonNull<T>,
    /// Not `Send`, and it owns a value.
    _owns: PhantomData<(T, *mut ())>,
}

impl<T> Block<T> {
    const LAYOUT: Layout = never_empty(Layout::new::<T>());

    /// Moves a value into a block.
    #[inline]
    pub fn new(value: T) -> Block<T> {
        let block = block_alloc(Block::<T>::LAYOUT).cast::<T>();
        // SAFETY: the block is large and aligned enough and unused.
        unsafe { block.write(value) };
        Block { value: block, _owns: PhantomData }
    }

    /// Moves the value out of it.
    #[inline]
    pub fn into_inner(block: Block<T>) -> T {
        let at = ManuallyDrop::new(block).value;
        // SAFETY: the value is live and, as its owner is never dropped, is not used again.
        let value = unsafe { at.read() };
        // SAFETY: the block came from `block_alloc` with this layout; nothing is left in it.
        unsafe { block_free(at.cast(), Block::<T>::LAYOUT) };
        value
    }
}

impl<T> Deref for Block<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value is live until drop.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for Block<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the value is live until drop, and ours alone.
        unsafe { self.value.as_mut() }
    }
}

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        // Freed even when the value's own drop panics.
        let _free = Free(self.value.cast(), Block::<T>::LAYOUT);
        // SAFETY: the value is live and is not used again.
        unsafe { ptr::drop_in_place(self.value.as_ptr()) };
    }
}

/// A block that is freed when this goes.
struct Free(NonNull<u8>, Layout);

impl Drop for Free {
    fn drop(&mut self) {
        // SAFETY: who makes this has dropped, or drops before, what is in the block, which came from `block_alloc` with this layout.
        unsafe { block_free(self.0, self.1) };
    }
}

// ---------------------------------------------------------------------------------------------------------------
// Objects

struct PoolInner<T> {
    free: RefCell<Vec<T>>,
    make: fn() -> T,
    reset: fn(&mut T),
    keep_max: usize,
    used: Cell<u64>,
    taken: Cell<u64>,
    counters: Arc<PoolCounters>,
}

/// A thread's list of reusable objects of one type. An object taken from it returns to it when dropped.
pub struct Pool<T>(Rc<PoolInner<T>>);

impl<T> Pool<T> {
    /// A pool listed as `name` that keeps at most `keep_max` free objects. `make` builds one when none is free,
    /// `reset` prepares a used one for the next user (and should give back memory that grew unusually).
    pub fn new(name: &'static str, keep_max: usize, make: fn() -> T, reset: fn(&mut T)) -> Pool<T> {
        Pool(Rc::new(PoolInner {
            free: RefCell::new(Vec::new()),
            make,
            reset,
            keep_max,
            used: Cell::new(0),
            taken: Cell::new(0),
            counters: PoolCounters::register(name, size_of::<T>()),
        }))
    }

    /// Takes an object, the one used last if any is free.
    #[inline]
    pub fn take(&self) -> Pooled<T> {
        let pool = &self.0;
        let object = pool.free.borrow_mut().pop().unwrap_or_else(pool.make);
        pool.used.set(pool.used.get() + 1);
        pool.taken.set(pool.taken.get() + 1);
        pool.counters.set(pool.used.get(), pool.free.borrow().len() as u64);
        pool.counters.set_taken(pool.taken.get());
        Pooled { object: Some(object), pool: pool.clone() }
    }

    /// Drops half of the free objects; for a thread that goes idle.
    pub fn trim(&self) {
        let mut free = self.0.free.borrow_mut();
        let keep = free.len() / 2;
        let dropped = free.split_off(keep);
        drop(free);
        drop(dropped);
        self.0.counters.set(self.0.used.get(), keep as u64);
    }
}

/// An object on loan from a [`Pool`].
pub struct Pooled<T> {
    object: Option<T>,
    pool: Rc<PoolInner<T>>,
}

impl<T> Deref for Pooled<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.object.as_ref().expect("present until drop")
    }
}

impl<T> DerefMut for Pooled<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.object.as_mut().expect("present until drop")
    }
}

impl<T> Drop for Pooled<T> {
    fn drop(&mut self) {
        let pool = &self.pool;
        pool.used.set(pool.used.get() - 1);
        if let Some(mut object) = self.object.take()
            && pool.free.borrow().len() < pool.keep_max
        {
            (pool.reset)(&mut object);
            pool.free.borrow_mut().push(object);
        }
        pool.counters.set(pool.used.get(), pool.free.borrow().len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Waker;

    #[test]
    fn size_classes_fit_and_are_tight() {
        for size in 1..=BLOCK_MAX {
            let class = class_of(size);
            assert!(class_size(class) >= size, "{size}");
            assert!(class == 0 || class_size(class - 1) < size, "{size}");
        }
        assert_eq!(class_of(BLOCK_MAX), CLASSES - 1);
    }

    #[test]
    fn blocks_are_reused_last_in_first_out_and_returned_when_idle() {
        std::thread::spawn(|| {
            enter();
            let layout = Layout::from_size_align(300, 8).unwrap();
            let blocks: Vec<_> = (0..10).map(|_| block_alloc(layout)).collect();
            // SAFETY: each came from block_alloc with this layout.
            blocks.iter().for_each(|b| unsafe { block_free(*b, layout) });
            assert_eq!(block_alloc(layout), blocks[9]);
            // SAFETY: as above.
            unsafe { block_free(blocks[9], layout) };
            trim_blocks();
            assert_eq!(trim_blocks(), 5 * 320, "half of the ten that nobody used");
            leave();
            BLOCKS.with(|b| assert_eq!(b.classes[class_of(300)].free.get(), 0));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn boxed_values_are_dropped_once_and_release_their_memory() {
        std::thread::spawn(|| {
            enter();
            let free =
                || BLOCKS.with(|b| b.classes[class_of(Layout::new::<[Rc<()>; 9]>().size())].free.get());
            let counted = Rc::new(());
            let many = || std::array::from_fn::<_, 9, _>(|_| counted.clone());
            let mut block = Block::new(many());
            block[0] = Rc::new(());
            assert_eq!((Rc::strong_count(&counted), free()), (9, 0));
            let moved = Block::into_inner(block);
            assert_eq!((Rc::strong_count(&counted), free()), (9, 1));
            drop(moved);
            drop(Block::new(many()));
            assert_eq!((Rc::strong_count(&counted), free()), (1, 1));
            drop((Block::new(()), counted));
            leave();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn boxed_futures_run_and_release_their_memory() {
        std::thread::spawn(|| {
            enter();
            let text = String::from("borrowed");
            let mut cx = Context::from_waker(Waker::noop());
            let mut future = pin!(boxed(async { text.len() }));
            assert_eq!(future.as_mut().poll(&mut cx), Poll::Ready(8));
            drop(boxed(async {
                let big = [1u8; 5000];
                std::future::pending::<()>().await;
                std::hint::black_box(&big);
            }));
            BLOCKS.with(|b| assert_eq!(b.classes[class_of(5100)].free.get(), 1));
            struct Bomb;
            impl Drop for Bomb {
                fn drop(&mut self) {
                    panic!("drop");
                }
            }
            let bomb = Bomb;
            let future = boxed(async move {
                let _bomb = bomb;
                std::future::pending::<()>().await;
            });
            let before = BLOCKS.with(|b| b.classes[0].used.get());
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(future))).is_err());
            assert_eq!(BLOCKS.with(|b| b.classes[0].used.get()), before - 1);
            leave();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_ebb_is_told_once() {
        let mut ebb = Ebb::default();
        let told: Vec<usize> = [10, 1000, 0, 4000, 1001, 1000, 900, 0, 500, 2000, 501, 500]
            .into_iter()
            .filter(|n| ebb.has_ebbed(*n))
            .collect();
        assert_eq!(told, [1000, 500]);
    }

    #[test]
    fn objects_return_to_their_pool_and_are_counted() {
        let pool = Pool::new("test-objects", 2, Vec::<u8>::new, Vec::clear);
        let (mut a, b, c) = (pool.take(), pool.take(), pool.take());
        a.extend_from_slice(b"hello");
        let address = a.as_ptr();
        drop((b, c));
        drop(a);
        let of = |name| counters().into_iter().find(|p| p.name == name).unwrap();
        let seen = of("test-objects");
        assert_eq!((seen.used, seen.free, seen.peak, seen.taken), (0, 2, 3, 3));
        let again = pool.take();
        assert!(again.is_empty(), "reset");
        drop(again);
        let again = [pool.take(), pool.take()];
        assert!(again.iter().all(|v| v.as_ptr() != address), "the third one was not kept");
        drop(again);
        pool.trim();
        assert_eq!(of("test-objects").free, 1);
        drop(pool);
        assert!(counters().iter().all(|p| p.name != "test-objects"));
    }
}
