//! Tasks that any thread of a runtime may run.
//!
//! They wait in one queue for all threads. A thread takes one when it is about to run it, never more, so that none
//! is hoarded; every round takes its part of those that wait, at least one, so that none is starved by local work.
//! Their number is bounded ([`SHARED_MAX`]); beyond it they are pinned to the thread that spawns them.
//!
//! Invariants
//! - `future`, `vtable`, `kind` of a slot are touched only by whom the slot's state makes the owner: who spawned it
//!   until its push, and who took it until `rest` or `finish`.
//! - An index is in the ring at most once (state `Queued`), so the ring, which has a cell per slot, is never full.

use super::local::{Local, expect_local, local, raw_waker};
use super::thread::Endpoint;
use crate::clock;
use crate::mailbox::ring::Ring;
use crate::mailbox::state::{After, SharedState};
use crate::profile::{self, Kind};
use crate::task::slot::{self, NEVER, Storage, Vtable};
use crate::task::{GENERATION_MASK, Reason, TaskId};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::cell::{Cell, UnsafeCell};
use std::future::Future;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::{OnceLock, PoisonError};
use std::task::{Context, Waker};

use thalweg_shared::{AtomicPtr, AtomicU32, AtomicU64, Mutex, Ordering, fence};

/// Shared tasks of one runtime at one time; further ones are pinned to the thread that spawns them.
pub const SHARED_MAX: usize = 1 << 16;

/// One shared task. All-zero is a free slot. On cache lines of its own.
#[repr(C, align(128))]
struct SharedSlot {
    state: SharedState,
    from: AtomicPtr<Location<'static>>,
    future: UnsafeCell<MaybeUninit<Storage>>,
    /// None when the future has been dropped.
    vtable: Cell<Option<&'static Vtable>>,
    kind: Cell<Option<&'static Kind>>,
    /// The deadline it asked for at its last poll, plus one; 0 for none.
    wanted: AtomicU64,
    /// When a helper task will look at `wanted`, plus one; 0 for none. The owner writes `wanted` and then reads this, a
    /// helper that ends clears this and then reads `wanted`, so no deadline is left without a helper.
    helper: AtomicU64,
}

impl SharedSlot {
    fn storage(&self) -> NonNull<Storage> {
        NonNull::from(&self.future).cast()
    }

    /// Where the task was last woken.
    fn from(&self) -> &'static Location<'static> {
        // SAFETY: only references to `'static` locations are stored.
        unsafe { self.from.load(Ordering::Relaxed).as_ref() }.unwrap_or(profile::unknown_caller())
    }
}

/// See the module.
pub(crate) struct SharedTasks {
    /// Made with the first task: it takes 9 MB, and most processes have none.
    table: OnceLock<Table>,
    /// The threads to wake; set while a runtime runs.
    threads: Mutex<Vec<&'static Endpoint>>,
    /// Where the search for a sleeping thread starts; only a hint.
    turn: AtomicU32,
    number: AtomicU32,
}

/// Where tasks are, once there was one.
struct Table {
    slots: NonNull<SharedSlot>,
    ready: Ring,
    /// Free indices below `used`.
    free: Ring,
    used: AtomicU32,
}

// SAFETY: see the module: cells of a slot are touched by the owner its atomic state names.
unsafe impl Sync for Table {}
// SAFETY: as above.
unsafe impl Send for Table {}

static HELPER: Kind = Kind::new("shared-timer");

impl SharedTasks {
    pub(crate) fn new() -> SharedTasks {
        SharedTasks {
            table: OnceLock::new(),
            threads: Mutex::new(Vec::new()),
            turn: AtomicU32::new(0),
            number: AtomicU32::new(u32::MAX),
        }
    }

    /// A runtime starts: these are its threads, and this the number in its tasks' identifiers.
    pub(crate) fn open(&self, number: u32, threads: Vec<&'static Endpoint>) {
        self.number.store(number, Ordering::Relaxed);
        *self.threads.lock().unwrap_or_else(PoisonError::into_inner) = threads;
    }

    /// The runtime ended, its threads with it: drops every task.
    pub(crate) fn close(&self) {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let Some(table) = self.table.get() else { return };
        while table.ready.pop().is_some() {}
        for index in 0..table.used.load(Ordering::Acquire) {
            if table.slot(index).state.is_live() {
                // No thread runs any of them any more, so we own them all.
                _ = catch_unwind(AssertUnwindSafe(|| table.drop_future(index)));
                table.release(index);
            }
        }
        while table.ready.pop().is_some() {}
    }

    /// The table, for who knows of a task in it, or makes the first one.
    fn table(&self) -> &Table {
        self.table.get_or_init(Table::new)
    }

    /// Tasks that wait in the queue.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.table.get().map_or(0, |table| table.ready.len())
    }

    /// Whether the identifier is that of a shared task of this runtime.
    pub(crate) fn is_one(&self, id: TaskId) -> bool {
        id != TaskId::NONE && id.slot() == self.number.load(Ordering::Relaxed)
    }

    /// Adds a task, or gives the future back when there are too many.
    pub(crate) fn spawn<F>(
        &self,
        kind: &'static Kind,
        future: F,
        from: &'static Location<'static>,
    ) -> Result<TaskId, F>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let table = self.table();
        let Some(index) = table.free.pop().or_else(|| {
            table
                .used
                .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |n| {
                    ((n as usize) < SHARED_MAX).then_some(n + 1)
                })
                .ok()
        }) else {
            return Err(future);
        };
        let slot = table.slot(index);
        // SAFETY: the slot is free and ours, and slots do not move.
        slot.vtable.set(Some(unsafe { slot::place(slot.storage(), future) }));
        slot.kind.set(Some(kind));
        slot.from.store(ptr::from_ref(from).cast_mut(), Ordering::Relaxed);
        slot.wanted.store(0, Ordering::Relaxed);
        slot.helper.store(0, Ordering::Relaxed);
        let generation = slot.state.start(Reason::SPAWN.0);
        self.push(index);
        Ok(TaskId::new(self.number.load(Ordering::Relaxed), index, generation))
    }

    /// Wakes a task, from any thread.
    pub(crate) fn wake(&self, id: TaskId, reason: Reason, from: &'static Location<'static>) {
        if (id.index() as usize) < SHARED_MAX
            && let Some(table) = self.table.get()
        {
            let slot = table.slot(id.index());
            if slot.state.wake(id.generation(), reason.0) {
                slot.from.store(ptr::from_ref(from).cast_mut(), Ordering::Relaxed);
                self.push(id.index());
            }
        }
    }

    fn push(&self, index: u32) {
        let pushed = self.table().ready.push(index);
        debug_assert!(pushed, "the ring has a cell per slot");
        // Pairs with the fence of a thread that announces its sleep and then looks at the ring.
        fence(Ordering::SeqCst);
        self.wake_a_sleeper();
    }

    /// Wakes one sleeping thread, if any: whoever is awake looks at the ring in each round anyway.
    fn wake_a_sleeper(&self) {
        // This thread's runtime knows its threads without a lock; elsewhere the list is locked.
        if let Some(local) = local()
            && local.runtime.tasks.is_some_and(|t| ptr::eq(t, self))
        {
            return self.wake_one_of(&local.runtime.threads);
        }
        self.wake_one_of(&self.threads.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn wake_one_of(&self, threads: &[&'static Endpoint]) {
        let first = self.turn.load(Ordering::Relaxed) as usize;
        for n in 0..threads.len() {
            let at = (first + n) % threads.len();
            if threads[at].sleep.claim() {
                self.turn.store(at as u32 + 1, Ordering::Relaxed);
                return threads[at].wake_now();
            }
        }
    }

    /// Runs the task that waits longest. False when none waits.
    pub(crate) fn run_one(&'static self, local: &Local) -> bool {
        let Some(table) = self.table.get() else { return false };
        let Some(index) = table.ready.pop() else { return false };
        let slot = table.slot(index);
        let (generation, reasons) = slot.state.take();
        let reasons = Reason(reasons);
        let id = TaskId::new(self.number.load(Ordering::Relaxed), index, generation);
        profile::add(&local.endpoint.activity.shared_runs, 1);
        let Some(vtable) = slot.vtable.get() else { return true };
        let mut ready = false;
        if local.profiling.get() {
            profile::before_run(local, slot.from(), 0);
        }
        let want = local.run_foreign(id, reasons, || {
            if reasons.contains(Reason::KILL) {
                ready = true;
                return;
            }
            let waker = ManuallyDrop::new(
                // SAFETY: as for local tasks: any word is valid data.
                unsafe { Waker::from_raw(raw_waker(id)) },
            );
            // SAFETY: `take` made us the owner, and the future is alive until `finish`.
            ready = unsafe { (vtable.poll)(slot.storage(), &mut Context::from_waker(&waker)) }.is_ready();
        });
        if local.profiling.get() | local.watch.is_marked() {
            profile::count_run(local, slot.kind.get().unwrap_or(&HELPER), slot.from());
        }
        if !ready {
            if want == NEVER {
                slot.wanted.store(0, Ordering::Relaxed);
            } else {
                slot.wanted.store(want + 1, Ordering::SeqCst);
                let helper = slot.helper.load(Ordering::SeqCst);
                if helper == 0 || want + 1 < helper {
                    slot.helper.store(want + 1, Ordering::SeqCst);
                    local.spawn(
                        &HELPER,
                        super::SpawnOptions::default(),
                        help(self, id, want),
                        Location::caller(),
                    );
                }
            }
            match slot.state.rest(Reason::KILL.0) {
                After::Rest => return true,
                After::Push => {
                    self.push(index);
                    return true;
                }
                After::Drop => {}
            }
        }
        local.run_foreign(id, reasons, || table.drop_future(index));
        table.release(index);
        true
    }

    /// After a panic in the task `id`, which this thread owns: drops it. Returns its kind and where it was woken.
    pub(crate) fn contain(&self, id: TaskId) -> (&'static str, &'static Location<'static>) {
        let table = self.table();
        let slot = table.slot(id.index());
        let kind = slot.kind.get().map_or("shared task", Kind::name);
        let from = slot.from();
        _ = catch_unwind(AssertUnwindSafe(|| table.drop_future(id.index())));
        table.release(id.index());
        (kind, from)
    }
}

impl Table {
    fn new() -> Table {
        let layout = Layout::array::<SharedSlot>(SHARED_MAX).expect("a constant size");
        // SAFETY: the layout is not zero-sized.
        let slots = NonNull::new(unsafe { alloc_zeroed(layout) }.cast::<SharedSlot>());
        Table {
            slots: slots.unwrap_or_else(|| handle_alloc_error(layout)),
            ready: Ring::new(SHARED_MAX),
            free: Ring::new(SHARED_MAX),
            used: AtomicU32::new(0),
        }
    }

    fn slot(&self, index: u32) -> &SharedSlot {
        assert!((index as usize) < SHARED_MAX);
        // SAFETY: within the array, which is never freed; all-zero is valid.
        unsafe { self.slots.add(index as usize).as_ref() }
    }

    fn drop_future(&self, index: u32) {
        let slot = self.slot(index);
        // Taken, so that a panic of the drop is not followed by a second one.
        if let Some(vtable) = slot.vtable.take() {
            // SAFETY: we own the slot, and the future is never touched again.
            unsafe { (vtable.drop)(slot.storage()) };
        }
    }

    fn release(&self, index: u32) {
        let slot = self.slot(index);
        slot.wanted.store(0, Ordering::Relaxed);
        slot.state.finish(GENERATION_MASK);
        let pushed = self.free.push(index);
        debug_assert!(pushed);
    }
}

/// Wakes a shared task when its deadline has come. A deadline that moved later is followed; one that went away, or
/// a task that is over, or an earlier helper, ends this one.
async fn help(tasks: &'static SharedTasks, id: TaskId, mut deadline: u64) {
    let slot = tasks.table().slot(id.index());
    let replace =
        |old, new| slot.helper.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok();
    loop {
        crate::timer::sleep_until(deadline).await;
        if slot.state.generation() != id.generation() {
            return;
        }
        let wanted = slot.wanted.load(Ordering::SeqCst);
        if wanted == 0 || wanted - 1 <= clock::now_ms() {
            // Gone before the wake-up: if the task's thread is behind in time, it asks for a new helper.
            replace(deadline + 1, 0);
            let wanted = slot.wanted.load(Ordering::SeqCst);
            if wanted == 0 {
                return;
            }
            if wanted - 1 <= clock::now_ms() {
                return tasks.wake(id, Reason::TIMER, Location::caller());
            }
            if !replace(0, wanted) {
                return;
            }
            deadline = wanted - 1;
        } else {
            if !replace(deadline + 1, wanted) {
                return;
            }
            deadline = wanted - 1;
        }
    }
}

/// Spawns a task that any thread of this runtime may run; see [`crate::spawn_shared`].
pub(crate) fn spawn_shared<F>(kind: &'static Kind, future: F, from: &'static Location<'static>) -> TaskId
where
    F: Future<Output = ()> + Send + 'static,
{
    let local = expect_local();
    match &local.runtime.tasks {
        Some(tasks) => match tasks.spawn(kind, future, from) {
            Ok(id) => id,
            Err(future) => local.spawn(kind, super::SpawnOptions::default(), future, from),
        },
        None => local.spawn(kind, super::SpawnOptions::default(), future, from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_shared_tasks_there_is_no_memory_for_any() {
        let tasks = SharedTasks::new();
        tasks.open(7, Vec::new());
        tasks.wake(TaskId::new(7, 0, 1), Reason::MESSAGE, Location::caller());
        assert_eq!((tasks.waiting(), tasks.is_one(TaskId::new(7, 0, 1))), (0, true));
        assert!(tasks.table.get().is_none());
        let id =
            tasks.spawn(&HELPER, async {}, Location::caller()).unwrap_or_else(|_| panic!("there is room"));
        assert_eq!((id.index(), tasks.waiting(), tasks.table.get().is_some()), (0, 1, true));
        tasks.close();
        assert_eq!(tasks.waiting(), 0);
    }
}
