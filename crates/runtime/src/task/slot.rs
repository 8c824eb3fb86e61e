//! A thread's table of tasks.
//!
//! A task is a [`Slot`] of one cache line, which never moves, and a block that holds its future, unless that is as small
//! as a pointer and fits into the slot. The slot is found from a [`crate::TaskId`] without any lookup structure; its
//! generation tells whether it still is the task meant.
//!
//! Slots come in chunks of a page. A chunk without a task can be given back ([`Slots::trim`]): its place then has the
//! void chunk, whose slots are free for ever, so that a stale identifier finds a slot and no task. When the chunk is
//! made again its generations go on where they were.
//!
//! Invariants
//! - Slots are touched by their thread only. `future` is valid in every state but `Free`, `vtable` fits it.
//! - A task has an entry in a run queue in state `Queued` and no other: so it is never queued twice.
//! - The future is polled in state `Running` or `RunningWoken` and dropped in state `Dying`; in all three the task
//!   is the thread's current one. Dropping it frees its block.

use super::{GENERATION_MASK, TASKS_MAX};
use crate::pool::{Stock, block_alloc, block_free, block_layout};
use crate::profile::{self, Kind};
use std::alloc::Layout;
use std::cell::{Cell, UnsafeCell};
use std::future::Future;
use std::mem::MaybeUninit;
use std::panic::Location;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll};

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    Free,
    /// Waits to be woken.
    Idle,
    /// In a run queue.
    Queued,
    /// Being polled.
    Running,
    /// Being polled, and woken meanwhile: runs once more.
    RunningWoken,
    /// Its future is being dropped.
    Dying,
}

/// Where a future lives: a small one right here, another in a block.
pub(crate) union Storage {
    block: NonNull<u8>,
    _here: MaybeUninit<u64>,
}

/// How to poll and drop a future of some type, given its storage.
pub(crate) struct Vtable {
    pub(crate) poll: unsafe fn(NonNull<Storage>, &mut Context<'_>) -> Poll<()>,
    /// Drops the future and frees its block, the latter also when the drop panics.
    pub(crate) drop: unsafe fn(NonNull<Storage>),
}

struct VtableOf<F>(std::marker::PhantomData<F>);

impl<F: Future<Output = ()>> VtableOf<F> {
    const HERE: bool = size_of::<F>() <= size_of::<Storage>() && align_of::<F>() <= align_of::<Storage>();
    const LAYOUT: Layout = block_layout::<F>();
    const VTABLE: Vtable = Vtable {
        // SAFETY: called with the storage `place` filled, which has not moved since.
        poll: |storage, cx| unsafe { Pin::new_unchecked(Self::future(storage).as_mut()).poll(cx) },
        drop: |storage| {
            struct Free(Option<NonNull<u8>>, Layout);
            impl Drop for Free {
                fn drop(&mut self) {
                    if let Some(block) = self.0 {
                        // SAFETY: `place` got the block for this layout; its future has been dropped.
                        unsafe { block_free(block, self.1) };
                    }
                }
            }
            // SAFETY: called once, with the storage `place` filled.
            unsafe {
                let future = Self::future(storage);
                let _free = Free((!Self::HERE).then_some(future.cast()), Self::LAYOUT);
                ptr::drop_in_place(future.as_ptr());
            }
        },
    };

    /// # Safety
    /// `storage` was filled by `place::<F>`.
    unsafe fn future(storage: NonNull<Storage>) -> NonNull<F> {
        if Self::HERE {
            storage.cast()
        } else {
            // SAFETY: the caller's contract; a future that is not here is in a block.
            unsafe { storage.as_ref().block.cast() }
        }
    }
}

/// Moves a future into a storage, which must not move from the first poll on until the future is dropped through the table
/// returned.
///
/// # Safety
/// `storage` is valid for writes and holds no future.
#[inline]
pub(crate) unsafe fn place<F: Future<Output = ()>>(storage: NonNull<Storage>, future: F) -> &'static Vtable {
    // SAFETY: the caller's contract; a new block fits an `F`.
    unsafe {
        if VtableOf::<F>::HERE {
            storage.cast::<F>().write(future);
        } else {
            let block = block_alloc(VtableOf::<F>::LAYOUT);
            block.cast::<F>().write(future);
            storage.write(Storage { block });
        }
    }
    &VtableOf::<F>::VTABLE
}

/// The table and the kind of a slot that has not had a task yet.
struct Nothing;

static NOTHING: Kind = Kind::new("none");

impl Future for Nothing {
    type Output = ();
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// The bit of `flags` that says that the wheel has a live entry for the task, filed under `armed`.
pub(crate) const ARMED: u8 = 0x80;
/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;

/// See the module.
#[repr(C, align(64))]
pub(crate) struct Slot {
    future: UnsafeCell<Storage>,
    pub(crate) vtable: Cell<&'static Vtable>,
    pub(crate) kind: Cell<&'static Kind>,
    /// The earliest millisecond the task asked for at its last poll.
    pub(crate) deadline: Cell<u64>,
    /// Where it was last woken.
    pub(crate) woken_from: Cell<&'static Location<'static>>,
    pub(crate) generation: Cell<u32>,
    /// Low half of the millisecond its live entry is filed under; the next free slot in state `Free`.
    pub(crate) armed: Cell<u32>,
    /// Reasons of the wake-ups since it last ran.
    pub(crate) reasons: Cell<u32>,
    /// When it was queued (see `profile::queue_stamp`); only kept while profiling.
    pub(crate) queued_at: Cell<u32>,
    /// Runs, the present one included: see `profile::figures`.
    pub(crate) calls: Cell<u32>,
    pub(crate) nice: Cell<i16>,
    /// Class in the lowest two bits, and [`ARMED`].
    pub(crate) flags: Cell<u8>,
    pub(crate) state: Cell<State>,
}

const _: () = assert!(size_of::<Slot>() == 64);

impl Slot {
    /// Where its future is.
    #[inline]
    pub(crate) fn storage(&self) -> NonNull<Storage> {
        NonNull::from(&self.future).cast()
    }
}

/// Slots are allocated this many at a time: one page.
const CHUNK: usize = 64;
const NO_SLOT: u32 = u32::MAX;
const _: () = assert!(TASKS_MAX.is_multiple_of(CHUNK));

/// See the module.
pub(crate) struct Slots {
    /// Pointers to chunks of slots. A plain vector of pointers, so that a growing table leaves every slot where it is.
    chunks: UnsafeCell<Vec<NonNull<Slot>>>,
    /// Chunks that were given back, and where their generations go on.
    absent: UnsafeCell<Vec<(u32, u32)>>,
    /// What stands in the place of a chunk that was given back; made when first needed.
    void: Cell<Option<NonNull<Slot>>>,
    used: Cell<u32>,
    first_free: Cell<u32>,
    live: Cell<u32>,
    generation: u32,
}

const fn chunk_layout() -> Layout {
    match Layout::array::<Slot>(CHUNK) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    }
}

/// A chunk of free slots, not linked to each other.
fn make_chunk(generation: u32) -> NonNull<Slot> {
    // SAFETY: the layout is not zero-sized.
    let chunk = NonNull::new(unsafe { std::alloc::alloc(chunk_layout()) }.cast::<Slot>());
    let chunk = chunk.unwrap_or_else(|| std::alloc::handle_alloc_error(chunk_layout()));
    for n in 0..CHUNK {
        // SAFETY: the chunk has room for CHUNK slots.
        unsafe {
            chunk.add(n).write(Slot {
                future: UnsafeCell::new(Storage { _here: MaybeUninit::uninit() }),
                vtable: Cell::new(&VtableOf::<Nothing>::VTABLE),
                kind: Cell::new(&NOTHING),
                deadline: Cell::new(NEVER),
                woken_from: Cell::new(profile::unknown_caller()),
                generation: Cell::new(generation),
                armed: Cell::new(NO_SLOT),
                reasons: Cell::new(0),
                queued_at: Cell::new(0),
                calls: Cell::new(0),
                nice: Cell::new(0),
                flags: Cell::new(0),
                state: Cell::new(State::Free),
            });
        }
    }
    chunk
}

/// # Safety
/// `chunk` came from [`make_chunk`], has no task, and is not used afterwards.
unsafe fn free_chunk(chunk: NonNull<Slot>) {
    // SAFETY: the caller's contract; slots hold nothing that needs dropping.
    unsafe { std::alloc::dealloc(chunk.as_ptr().cast(), chunk_layout()) };
}

impl Slots {
    /// An empty table. Generations start at `generation`.
    pub(crate) fn new(generation: u32) -> Slots {
        Slots {
            chunks: UnsafeCell::new(Vec::new()),
            absent: UnsafeCell::new(Vec::new()),
            void: Cell::new(None),
            used: Cell::new(0),
            first_free: Cell::new(NO_SLOT),
            live: Cell::new(0),
            generation: generation & GENERATION_MASK,
        }
    }

    /// Tasks alive.
    pub(crate) fn live(&self) -> u32 {
        self.live.get()
    }

    /// What the table holds.
    pub(crate) fn stock(&self) -> Stock {
        // SAFETY: as in `grow`.
        let (chunks, absent) = unsafe { (&*self.chunks.get(), &*self.absent.get()) };
        let used = self.live.get() as usize;
        let slots = (chunks.len() - absent.len()) * CHUNK;
        Stock { name: "task", object_size: size_of::<Slot>(), used, free: slots - used }
    }

    /// One above the largest index so far.
    pub(crate) fn used(&self) -> u32 {
        self.used.get()
    }

    /// The slot at an index below [`Slots::used`].
    #[inline]
    pub(crate) fn at(&self, index: u32) -> &Slot {
        debug_assert!(index < self.used.get());
        // SAFETY: `index` is below `used`, so its place has a chunk, if only the void one, and all slots of a chunk are
        // initialised. The reference to the vector ends here; slots never move.
        unsafe {
            (&*self.chunks.get()).get_unchecked(index as usize / CHUNK).add(index as usize % CHUNK).as_ref()
        }
    }

    /// The slot of a task, if it is still the same.
    #[inline]
    pub(crate) fn find(&self, index: u32, generation: u32) -> Option<&Slot> {
        if index >= self.used.get() {
            return None;
        }
        let slot = self.at(index);
        (slot.generation.get() == generation && slot.state.get() != State::Free).then_some(slot)
    }

    /// Makes a task in state `Idle`. Returns its index.
    #[inline]
    pub(crate) fn add<F: Future<Output = ()>>(
        &self,
        future: F,
        kind: &'static Kind,
        woken_from: &'static Location<'static>,
    ) -> u32 {
        let mut index = self.first_free.get();
        if index == NO_SLOT {
            index = self.grow();
        }
        self.live.set(self.live.get() + 1);
        let slot = self.at(index);
        self.first_free.set(slot.armed.get());
        // SAFETY: a free slot holds no future, and slots do not move.
        slot.vtable.set(unsafe { place(slot.storage(), future) });
        slot.kind.set(kind);
        slot.woken_from.set(woken_from);
        slot.deadline.set(NEVER);
        slot.reasons.set(0);
        slot.calls.set(0);
        slot.state.set(State::Idle);
        index
    }

    /// Adds a chunk of free slots. Returns the first.
    #[cold]
    fn grow(&self) -> u32 {
        // SAFETY: no other reference into the vectors is alive: `at` returns references to slots, not into them.
        let (chunks, absent) = unsafe { (&mut *self.chunks.get(), &mut *self.absent.get()) };
        let (at, generation) = absent.pop().unwrap_or((chunks.len() as u32, self.generation));
        let first = at * CHUNK as u32;
        assert!((first as usize) < TASKS_MAX, "too many tasks on one thread");
        let chunk = make_chunk(generation);
        match chunks.get_mut(at as usize) {
            Some(place) => *place = chunk,
            None => chunks.push(chunk),
        }
        self.used.set(self.used.get().max(first + CHUNK as u32));
        for index in (first..first + CHUNK as u32).rev() {
            self.at(index).armed.set(self.first_free.get());
            self.first_free.set(index);
        }
        first
    }

    /// Gives the chunks back that have no task. Takes time in proportion to the slots there are.
    pub(crate) fn trim(&self) {
        // SAFETY: as in `grow`; nothing here calls back.
        let (chunks, absent) = unsafe { (&mut *self.chunks.get(), &mut *self.absent.get()) };
        let void = self.void.get().unwrap_or_else(|| make_chunk(0));
        self.void.set(Some(void));
        self.first_free.set(NO_SLOT);
        for (at, chunk) in chunks.iter_mut().enumerate().rev() {
            if *chunk == void {
                continue;
            }
            // SAFETY: a chunk has CHUNK initialised slots.
            let slots = unsafe { std::slice::from_raw_parts(chunk.as_ptr(), CHUNK) };
            if slots.iter().all(|slot| slot.state.get() == State::Free) {
                let generation = slots.iter().map(|slot| slot.generation.get()).reduce(later);
                absent.push((at as u32, generation.unwrap_or(0)));
                // SAFETY: it has no task, and is found nowhere any more.
                unsafe { free_chunk(std::mem::replace(chunk, void)) };
                continue;
            }
            for (n, slot) in slots.iter().enumerate().rev().filter(|(_, s)| s.state.get() == State::Free) {
                slot.armed.set(self.first_free.get());
                self.first_free.set((at * CHUNK + n) as u32);
            }
        }
    }

    /// Bytes of heap memory.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        // SAFETY: as in `grow`.
        let (chunks, absent) = unsafe { (&*self.chunks.get(), &*self.absent.get()) };
        (chunks.len() - absent.len()) * size_of::<Slot>() * CHUNK + chunks.capacity() * size_of::<usize>()
    }

    /// Frees a task whose future was dropped.
    #[inline]
    pub(crate) fn free(&self, index: u32) {
        let slot = self.at(index);
        debug_assert_eq!(slot.state.get(), State::Dying);
        slot.generation.set((slot.generation.get() + 1) & GENERATION_MASK);
        slot.state.set(State::Free);
        slot.flags.set(0);
        slot.armed.set(self.first_free.get());
        self.first_free.set(index);
        self.live.set(self.live.get() - 1);
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        debug_assert_eq!(self.live.get(), 0, "tasks are dropped before their table");
        let void = self.void.take();
        let chunks = self.chunks.get_mut().drain(..).filter(|chunk| Some(*chunk) != void);
        for chunk in chunks.chain(void) {
            // SAFETY: no task is left, and nobody looks for one any more.
            unsafe { free_chunk(chunk) };
        }
    }
}

/// The later of two generations, which wrap.
fn later(a: u32, b: u32) -> u32 {
    if a.wrapping_sub(b) & GENERATION_MASK <= GENERATION_MASK / 2 { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(slots: &Slots) -> (u32, u32) {
        let index = slots.add(std::future::pending(), &NOTHING, profile::unknown_caller());
        (index, slots.at(index).generation.get())
    }

    fn end(slots: &Slots, index: u32) {
        let slot = slots.at(index);
        slot.state.set(State::Dying);
        // SAFETY: the task's future is dropped once.
        unsafe { (slot.vtable.get().drop)(slot.storage()) };
        slots.free(index);
    }

    #[test]
    fn chunks_without_tasks_are_given_back_and_stale_identifiers_find_nothing() {
        let slots = Slots::new(GENERATION_MASK);
        let tasks: Vec<_> = (0..5000).map(|_| add(&slots)).collect();
        let full = slots.memory();
        // One task in each of two chunks stays.
        let kept = [tasks[70], tasks[4000]];
        tasks.iter().filter(|task| !kept.contains(task)).for_each(|task| end(&slots, task.0));
        slots.trim();
        assert!(slots.memory() < full / 10, "{} of {full}", slots.memory());
        for task in &tasks {
            assert_eq!(slots.find(task.0, task.1).is_some(), kept.contains(task));
        }
        slots.trim();
        // All indices come again, each with a generation that no earlier task had.
        let again: Vec<_> = (0..4998).map(|_| add(&slots)).collect();
        assert!(again.iter().all(|task| !tasks.contains(task)));
        assert_eq!(slots.used() as usize, 5000_usize.next_multiple_of(CHUNK));
        assert!(tasks.iter().all(|task| slots.find(task.0, task.1).is_some() == kept.contains(task)));
        assert!(again.iter().all(|task| slots.find(task.0, task.1).is_some()));
        again.iter().chain(&kept).for_each(|task| end(&slots, task.0));
        assert_eq!(slots.live(), 0);
    }
}
