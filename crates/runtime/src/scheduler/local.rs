//! What one thread owns: its tasks, run queues and deadlines.
//!
//! Invariants
//! - A [`Local`] is reached through a thread-local pointer that is set while the thread's loop runs (and while it
//!   starts and ends). Nothing in it is ever touched by another thread; what others may touch is in
//!   [`super::thread::Endpoint`].
//! - It is used through shared references only, because any poll may come back to it (spawn, wake). Fields are cells;
//!   a reference into an `UnsafeCell` is held only across code of this module tree that neither polls nor drops a
//!   future nor calls a hook.

use super::queue::{CLASSES, Class, RunQueue};
use super::runtime::Shared;
use super::successor::Successor;
use super::thread::Endpoint;
use super::wheel::{Due, Wheel};
use crate::clock;
use crate::mailbox::letter;
use crate::profile::{self, Kind};
use crate::task::slot::{ARMED, NEVER, Slot, Slots, State};
use crate::task::{Reason, TaskId};
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::collections::VecDeque;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, RawWaker, RawWakerVTable, Waker};

/// How to queue a new task.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpawnOptions {
    /// Its class.
    pub class: Class,
    /// Its nice value, -1024 (first) to 1024 (last), in rounds of the loop.
    pub nice: i16,
}

/// A deadline further away than this is filed closer and moved on when it is reached: the wheel compares halves.
const ARM_MAX_MS: u64 = 1 << 30;
/// Messages handled per round.
const MESSAGES_PER_ROUND: usize = 256;
/// In low-latency mode a class that has work gets a turn at least every this many rounds.
const STARVED_ROUNDS: u8 = 16;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Where a round stands; kept outside of the loop so that a panic of a task does not end the round.
#[derive(Clone, Copy, Default)]
struct Round {
    /// Entries left in the round.
    budget: u32,
    /// Entries left to each class.
    left: [u32; CLASSES],
    /// Shared tasks left.
    shared: u32,
}

/// See the module.
pub(crate) struct Local {
    pub(crate) slot: u32,
    pub(crate) index: usize,
    pub(crate) endpoint: &'static Endpoint,
    pub(crate) runtime: Arc<Shared>,
    /// More than one thread: others may be asleep, shared tasks exist.
    pub(crate) several: bool,
    depth: u32,
    low_latency: bool,
    pub(crate) slots: Slots,
    queues: [UnsafeCell<RunQueue>; CLASSES],
    /// Classes whose queue is not empty.
    ready: Cell<u8>,
    /// Tasks queued so far; wraps. Starts shortly before it wraps, so that wrapping is the usual case.
    arrivals: Cell<u32>,
    starved: Cell<[u8; CLASSES]>,
    round: Cell<Round>,
    wheel: UnsafeCell<Wheel>,
    armed: Cell<u32>,
    jobs: UnsafeCell<VecDeque<Job>>,
    // The run in progress.
    current: Cell<TaskId>,
    current_slot: Cell<*const Slot>,
    reasons: Cell<Reason>,
    want: Cell<u64>,
    /// What the task that runs goes on with.
    pub(crate) successor: Cell<Option<Successor>>,
    /// Runs so far: the watchdog tells by it whether the same run still goes on.
    pub(crate) runs: Cell<u64>,
    pub(crate) profiling: Cell<bool>,
    pub(crate) meter: profile::Meter,
    /// The watchdog's marks; see [`crate::watchdog`].
    pub(crate) watch: crate::watchdog::Marks,
}

thread_local! {
    static LOCAL: Cell<*const Local> = const { Cell::new(ptr::null()) };
}

/// This thread's scheduler, if it runs one.
#[inline]
pub(crate) fn local() -> Option<&'static Local> {
    // SAFETY: the pointer is set by `enter` to a `Local` that outlives the loop and is reset before it is dropped.
    // The reference does not leave this thread (`Local` is not `Sync`), nor a call made from within the loop.
    unsafe { LOCAL.get().as_ref() }
}

/// As [`local`], for callers that need one.
#[inline]
#[track_caller]
pub(crate) fn expect_local() -> &'static Local {
    local()
        .expect("this thread runs no scheduler: call this from a task or from the runtime's start function")
}

/// The address the watchdog's signal handler reads the thread's state from.
pub(crate) fn local_ptr() -> *const Local {
    LOCAL.get()
}

static WAKER: RawWakerVTable =
    RawWakerVTable::new(|data| RawWaker::new(data, &WAKER), wake_from_waker, wake_from_waker, |_| {});

#[inline]
fn wake_from_waker(data: *const ()) {
    super::wake(TaskId::from_user_bits(data.addr() as u64), Reason::OTHER, profile::unknown_caller());
}

/// A waker for a task: the identifier in the place of the pointer, so that cloning and dropping are free.
#[inline]
pub(crate) fn raw_waker(id: TaskId) -> RawWaker {
    RawWaker::new(ptr::without_provenance(id.to_bits() as usize), &WAKER)
}

impl Local {
    pub(crate) fn new(
        slot: u32,
        index: usize,
        endpoint: &'static Endpoint,
        runtime: Arc<Shared>,
    ) -> Box<Local> {
        let config = &runtime.config;
        Box::new(Local {
            slot,
            index,
            endpoint,
            several: runtime.threads.len() > 1,
            depth: config.runqueue_depth.clamp(1, 1 << 16),
            low_latency: config.low_latency,
            slots: Slots::new(endpoint.next_generation()),
            queues: Default::default(),
            ready: Cell::new(0),
            arrivals: Cell::new(u32::MAX - 10_000),
            starved: Cell::new([0; CLASSES]),
            round: Cell::new(Round::default()),
            wheel: UnsafeCell::new(Wheel::new(clock::now_ms())),
            armed: Cell::new(0),
            jobs: UnsafeCell::new(VecDeque::new()),
            current: Cell::new(TaskId::NONE),
            current_slot: Cell::new(ptr::null()),
            reasons: Cell::new(Reason::empty()),
            want: Cell::new(NEVER),
            successor: Cell::new(None),
            runs: Cell::new(0),
            profiling: Cell::new(false),
            meter: Default::default(),
            watch: Default::default(),
            runtime,
        })
    }

    /// Makes this the thread's scheduler until [`Local::leave`].
    pub(crate) fn enter(&self) {
        assert!(LOCAL.get().is_null(), "this thread already runs a scheduler");
        LOCAL.set(self);
    }

    /// Undoes [`Local::enter`].
    pub(crate) fn leave(&self) {
        LOCAL.set(ptr::null());
    }

    // -----------------------------------------------------------------------------------------------------------
    // Spawning and waking

    #[inline]
    pub(crate) fn spawn(
        &self,
        kind: &'static Kind,
        options: SpawnOptions,
        future: impl Future<Output = ()> + 'static,
        from: &'static Location<'static>,
    ) -> TaskId {
        let index = self.slots.add(future, kind, from);
        let slot = self.slots.at(index);
        slot.flags.set(options.class as u8);
        slot.nice.set(options.nice.clamp(super::NICE_MIN, super::NICE_MAX));
        self.wake_slot(slot, index, Reason::SPAWN, from);
        TaskId::new(self.slot, index, slot.generation.get())
    }

    /// The tasks alive, with the name of their kind.
    pub(crate) fn living(&self) -> Vec<(TaskId, &'static str)> {
        (0..self.slots.used())
            .map(|index| (index, self.slots.at(index)))
            .filter(|(_, slot)| !matches!(slot.state.get(), State::Free))
            .map(|(index, slot)| {
                (TaskId::new(self.slot, index, slot.generation.get()), slot.kind.get().name())
            })
            .collect()
    }

    /// Wakes a task of this thread.
    #[inline]
    pub(crate) fn wake(&self, id: TaskId, reason: Reason, from: &'static Location<'static>) {
        debug_assert_eq!(id.slot(), self.slot);
        if let Some(slot) = self.slots.find(id.index(), id.generation()) {
            self.wake_slot(slot, id.index(), reason, from);
        }
    }

    #[inline]
    fn wake_slot(&self, slot: &Slot, index: u32, reason: Reason, from: &'static Location<'static>) {
        slot.reasons.set(slot.reasons.get() | reason.0);
        match slot.state.get() {
            State::Idle => {
                slot.state.set(State::Queued);
                slot.woken_from.set(from);
                self.enqueue(slot, index);
            }
            State::Running => {
                slot.state.set(State::RunningWoken);
                slot.woken_from.set(from);
            }
            State::Queued | State::RunningWoken | State::Dying | State::Free => {}
        }
    }

    #[inline]
    fn enqueue(&self, slot: &Slot, index: u32) {
        if self.profiling.get() {
            slot.queued_at.set(profile::queue_stamp());
        }
        let arrival = self.arrivals.get().wrapping_add(1);
        self.arrivals.set(arrival);
        let class = Class::from_bits(slot.flags.get());
        // SAFETY: see the module: no other reference into the queue is alive.
        let queue = unsafe { &mut *self.queues[class as usize].get() };
        match slot.nice.get() {
            0 => queue.push(arrival, index),
            nice => queue.push_niced(arrival, nice as i32 * self.depth as i32, index),
        }
        self.ready.set(self.ready.get() | class.bit());
    }

    /// Wakes what other threads sent, and runs their jobs. Returns whether a producer was caught half-way.
    pub(crate) fn take_mail(&self) -> bool {
        let mut busy = false;
        if !self.several {
            self.endpoint.bell.answer();
        }
        for _ in 0..MESSAGES_PER_ROUND {
            // SAFETY: this thread owns the endpoint.
            match unsafe { self.endpoint.take() } {
                super::thread::Mail::None => break,
                super::thread::Mail::Busy => {
                    busy = true;
                    break;
                }
                super::thread::Mail::Wake { index, reason, from } => {
                    profile::add(&self.endpoint.activity.remote_wakes, 1);
                    if index < self.slots.used() {
                        let slot = self.slots.at(index);
                        if slot.state.get() != State::Free {
                            self.wake_slot(slot, index, reason, from);
                        }
                    }
                }
                super::thread::Mail::Job(job) => self.run_job(job),
                // SAFETY: whoever took it out of the mailbox carries it.
                super::thread::Mail::Letter(letter) => self.run_job(|| unsafe { letter::open(letter) }),
            }
        }
        let mut jobs = {
            // SAFETY: see the module; the reference ends before any job runs.
            let jobs = unsafe { &mut *self.jobs.get() };
            if jobs.is_empty() {
                return busy;
            }
            std::mem::take(jobs)
        };
        jobs.drain(..).for_each(|job| self.run_job(job));
        busy
    }

    /// Queues a job for this very thread.
    pub(crate) fn push_job(&self, job: Job) {
        // SAFETY: see the module.
        unsafe { &mut *self.jobs.get() }.push_back(job);
    }

    fn run_job(&self, job: impl FnOnce()) {
        profile::add(&self.endpoint.activity.jobs, 1);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
            self.report_panic("message from another thread", profile::unknown_caller(), &*panic);
        }
    }

    // -----------------------------------------------------------------------------------------------------------
    // The current task

    #[inline]
    pub(crate) fn current(&self) -> TaskId {
        self.current.get()
    }

    pub(crate) fn current_slot(&self) -> Option<&Slot> {
        // SAFETY: null, or a slot of this thread's table: slots do not move and outlive the loop.
        unsafe { self.current_slot.get().as_ref() }
    }

    /// Whether a poll is under way.
    #[inline]
    pub(crate) fn in_task(&self) -> bool {
        self.current.get() != TaskId::NONE
    }

    /// Kind, and file and line of the last wake-up, of the task being polled; for a signal handler.
    pub(crate) fn current_for_signal(&self) -> (&'static str, &'static str, u32) {
        match self.current_slot() {
            Some(slot) => {
                let from = slot.woken_from.get();
                (slot.kind.get().name(), from.file(), from.line())
            }
            None => ("shared task", "?", 0),
        }
    }

    pub(crate) fn reasons(&self) -> Reason {
        self.reasons.get()
    }

    pub(crate) fn set_class(&self, class: Class) {
        if let Some(slot) = self.current_slot() {
            slot.flags.set(slot.flags.get() & !3 | class as u8);
        }
    }

    pub(crate) fn set_nice(&self, nice: i16) {
        if let Some(slot) = self.current_slot() {
            slot.nice.set(nice);
        }
    }

    /// The current task asks to run again at `deadline` at the latest.
    #[inline]
    pub(crate) fn want(&self, deadline_ms: u64) {
        if deadline_ms < self.want.get() {
            self.want.set(deadline_ms);
        }
    }

    /// Brackets the poll of a task that is not in this thread's table. Returns the deadline it asked for.
    pub(crate) fn run_foreign(&self, id: TaskId, reasons: Reason, poll: impl FnOnce()) -> u64 {
        self.current.set(id);
        self.reasons.set(reasons);
        self.want.set(NEVER);
        self.runs.set(self.runs.get() + 1);
        poll();
        self.current.set(TaskId::NONE);
        self.want.get()
    }

    // -----------------------------------------------------------------------------------------------------------
    // Rounds

    /// Whether any task of this thread can run, or a job waits.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        // SAFETY: see the module.
        self.ready.get() != 0 || !unsafe { &*self.jobs.get() }.is_empty()
    }

    /// Tasks queued, per class.
    pub(crate) fn queued(&self) -> [usize; CLASSES] {
        // SAFETY: see the module.
        std::array::from_fn(|c| unsafe { &*self.queues[c].get() }.len())
    }

    /// Calls `f` with each queued task's slot.
    pub(crate) fn each_queued(&self, mut f: impl FnMut(&Slot)) {
        for queue in &self.queues {
            // SAFETY: see the module; `f` is code of this crate that touches no queue.
            unsafe { &*queue.get() }.iter().for_each(|index| f(self.slots.at(index)));
        }
    }

    /// Runs at most `runqueue_depth` entries. Returns how many ran.
    pub(crate) fn run_round(&self) -> u32 {
        let shared = self.shared_quota();
        if self.ready.get() == 0 && shared == 0 {
            return 0;
        }
        self.begin_round(shared);
        let budget = self.round.get().budget;
        if self.profiling.get() {
            profile::before_round(self);
        }
        // A panic of a task ends up here: the task is dropped and the round goes on.
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.run_entries())) {
            self.contain(&*panic);
        }
        budget - self.round.get().budget
    }

    /// How many shared tasks this round may take: this thread's part of them, at least one.
    fn shared_quota(&self) -> u32 {
        match &self.runtime.tasks {
            Some(tasks) if self.several => {
                let waiting = tasks.waiting();
                if waiting == 0 {
                    0
                } else {
                    (waiting.div_ceil(self.runtime.threads.len()) as u32).min(self.depth.div_ceil(2))
                }
            }
            _ => 0,
        }
    }

    /// Divides the round among the classes that have work. The heavy class gets one entry, whatever the others have.
    fn begin_round(&self, shared: u32) {
        let ready = self.ready.get();
        let mut round = Round { budget: self.depth, left: [0; CLASSES], shared };
        let total: u32 = Class::ALL.iter().filter(|c| ready & c.bit() != 0).map(|c| c.weight()).sum();
        let heavy = ready & Class::Heavy.bit() != 0;
        // A shared task stands for a normal one.
        let divisible = self.depth.saturating_sub(heavy as u32 + shared);
        for class in Class::ALL {
            if ready & class.bit() != 0 {
                round.left[class as usize] = match class {
                    Class::Heavy => 1,
                    _ => (divisible * class.weight() / total).max(1),
                };
            }
        }
        if self.low_latency {
            self.count_starved(ready);
        }
        self.round.set(round);
    }

    #[cold]
    fn count_starved(&self, ready: u8) {
        let mut starved = self.starved.get();
        for class in Class::ALL {
            let rounds = &mut starved[class as usize];
            *rounds = if ready & class.bit() != 0 { rounds.saturating_add(1) } else { 0 };
        }
        self.starved.set(starved);
    }

    fn run_entries(&self) {
        if self.low_latency {
            return self.run_most_urgent();
        }
        // First each class within its share, then what is left of the round in order of urgency.
        for spare in [false, true] {
            for class in [Class::Urgent, Class::Normal, Class::Bulk] {
                loop {
                    let mut round = self.round.get();
                    if self.ready.get() & class.bit() == 0 || round.budget == 0 {
                        break;
                    }
                    if !spare {
                        if round.left[class as usize] == 0 {
                            break;
                        }
                        round.left[class as usize] -= 1;
                    }
                    round.budget -= 1;
                    self.round.set(round);
                    self.run_next(class);
                }
                if class == Class::Normal && !spare {
                    self.run_shared();
                }
            }
            if !spare {
                self.run_heavy();
            }
        }
    }

    /// Low latency: before each entry, the most urgent class that has work. Heavy work runs when nothing else can,
    /// and then ends the round; a class that was passed over for many rounds comes first once.
    fn run_most_urgent(&self) {
        self.run_shared();
        loop {
            let mut round = self.round.get();
            let ready = self.ready.get();
            if ready == 0 || round.budget == 0 {
                return;
            }
            let starved = self.starved.get();
            let late = Class::ALL
                .into_iter()
                .find(|c| ready & c.bit() != 0 && starved[*c as usize] >= STARVED_ROUNDS);
            let class = late.unwrap_or(Class::from_bits(ready.trailing_zeros() as u8));
            let mut starved = starved;
            starved[class as usize] = 0;
            self.starved.set(starved);
            round.budget = if class == Class::Heavy { 0 } else { round.budget - 1 };
            self.round.set(round);
            self.run_next(class);
        }
    }

    fn run_heavy(&self) {
        let mut round = self.round.get();
        if round.left[Class::Heavy as usize] > 0
            && round.budget > 0
            && self.ready.get() & Class::Heavy.bit() != 0
        {
            // Then back to polling.
            round.left[Class::Heavy as usize] = 0;
            round.budget = 0;
            self.round.set(round);
            self.run_next(Class::Heavy);
        }
    }

    fn run_shared(&self) {
        let Some(tasks) = &self.runtime.tasks else { return };
        loop {
            let mut round = self.round.get();
            if round.shared == 0 || round.budget == 0 {
                return;
            }
            round.shared -= 1;
            round.budget -= 1;
            self.round.set(round);
            if !tasks.run_one(self) {
                return;
            }
        }
    }

    #[inline]
    fn run_next(&self, class: Class) {
        let index = {
            // SAFETY: see the module; the reference ends before the task runs.
            let queue = unsafe { &mut *self.queues[class as usize].get() };
            let index = queue.pop();
            if queue.is_empty() {
                self.ready.set(self.ready.get() & !class.bit());
            }
            index
        };
        if let Some(index) = index {
            self.run_task(index);
        }
    }

    #[inline]
    fn run_task(&self, index: u32) {
        let slot = self.slots.at(index);
        debug_assert_eq!(slot.state.get(), State::Queued);
        let reasons = Reason(slot.reasons.replace(0));
        let id = TaskId::new(self.slot, index, slot.generation.get());
        slot.state.set(State::Running);
        self.current.set(id);
        self.current_slot.set(slot);
        slot.calls.set(slot.calls.get().wrapping_add(1));
        self.reasons.set(reasons);
        self.want.set(NEVER);
        self.runs.set(self.runs.get() + 1);
        if self.profiling.get() {
            profile::before_run(self, slot.woken_from.get(), slot.queued_at.replace(0));
        }
        if reasons.contains(Reason::KILL) {
            self.finish(slot, index);
        } else {
            let waker = ManuallyDrop::new(
                // SAFETY: the vtable's functions accept any word as data and are thread-safe.
                unsafe { Waker::from_raw(raw_waker(id)) },
            );
            let mut cx = Context::from_waker(&waker);
            // SAFETY: the slot is in state Running, so its future is alive; only this thread polls it.
            let poll = unsafe { (slot.vtable.get().poll)(slot.storage(), &mut cx) };
            if poll.is_ready() || slot.reasons.get() & Reason::KILL.0 != 0 {
                self.finish(slot, index);
            } else {
                let want = self.want.get();
                slot.deadline.set(want);
                if want != NEVER {
                    self.arm(slot, index, want);
                }
                if slot.state.get() == State::RunningWoken {
                    // It may have wanted to go on with another one.
                    drop(self.successor.take());
                    slot.state.set(State::Queued);
                    self.enqueue(slot, index);
                } else {
                    slot.state.set(State::Idle);
                }
            }
        }
        self.current.set(TaskId::NONE);
        self.current_slot.set(ptr::null());
        if self.profiling.get() | self.watch.is_marked() {
            profile::after_run(self, slot, id);
        }
    }

    /// Drops the task's future and frees the slot, unless the task goes on with another one.
    #[inline]
    fn finish(&self, slot: &Slot, index: u32) {
        slot.state.set(State::Dying);
        // SAFETY: the future is alive and is never touched again.
        unsafe { (slot.vtable.get().drop)(slot.storage()) };
        if let Some(next) = self.successor.take()
            && next.take_over(slot)
        {
            return self.enqueue(slot, index);
        }
        self.release(slot, index);
    }

    #[inline]
    fn release(&self, slot: &Slot, index: u32) {
        if slot.flags.get() & ARMED != 0 {
            self.armed.set(self.armed.get() - 1);
        }
        self.slots.free(index);
    }

    /// The current task panicked: it is dropped, counted and reported; the others go on.
    #[cold]
    fn contain(&self, panic: &(dyn Any + Send)) {
        let id = self.current.get();
        if let Some(slot) = self.current_slot() {
            let (name, from) = (slot.kind.get().name(), slot.woken_from.get());
            if slot.state.replace(State::Dying) != State::Dying {
                let (drop, future) = (slot.vtable.get().drop, slot.storage());
                // SAFETY: the future is alive (it was not Dying) and is never touched again.
                _ = catch_unwind(AssertUnwindSafe(|| unsafe { drop(future) }));
            }
            _ = catch_unwind(AssertUnwindSafe(|| self.successor.set(None)));
            self.release(slot, id.index());
            self.current_slot.set(ptr::null());
            self.report_panic(name, from, panic);
        } else if let Some(tasks) = &self.runtime.tasks
            && tasks.is_one(id)
        {
            let (name, from) = tasks.contain(id);
            self.report_panic(name, from, panic);
        }
        self.current.set(TaskId::NONE);
    }

    fn report_panic(&self, kind: &'static str, from: &'static Location<'static>, panic: &(dyn Any + Send)) {
        profile::add(&self.endpoint.activity.panics, 1);
        let message = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
            (Some(text), _) => text,
            (_, Some(text)) => text.as_str(),
            _ => "not a text",
        };
        self.runtime.report(&super::Incident {
            cause: super::Cause::Panic,
            thread: self.index,
            kind,
            woken_from: from,
            message,
            duration: None,
        });
    }

    // -----------------------------------------------------------------------------------------------------------
    // Deadlines

    /// Files the task under `want`, unless it is filed under an earlier time already: then nothing happens until
    /// that one comes.
    #[inline]
    fn arm(&self, slot: &Slot, index: u32, want: u64) {
        let flags = slot.flags.get();
        let now = clock::now_ms();
        let file = want.min(now + ARM_MAX_MS);
        if flags & ARMED != 0 {
            if (file as u32).wrapping_sub(slot.armed.get()) as i32 >= 0 {
                return;
            }
        } else {
            slot.flags.set(flags | ARMED);
            self.armed.set(self.armed.get() + 1);
        }
        // SAFETY: see the module.
        let filed = unsafe { &mut *self.wheel.get() }.insert(file, index);
        slot.armed.set(filed as u32);
    }

    /// Wakes the tasks whose deadline has come.
    pub(crate) fn expire(&self) {
        let now = clock::now_ms();
        // SAFETY: see the module: waking touches run queues, not the wheel.
        let wheel = unsafe { &mut *self.wheel.get() };
        wheel.advance(now, |index, filed| {
            let slot = self.slots.at(index);
            if slot.flags.get() & ARMED == 0 || slot.armed.get() != filed || slot.state.get() == State::Free {
                return Due::Done;
            }
            let deadline = slot.deadline.get();
            if deadline != NEVER && deadline > now {
                let file = deadline.min(now + ARM_MAX_MS);
                slot.armed.set(file as u32);
                return Due::Later(file);
            }
            slot.flags.set(slot.flags.get() & !ARMED);
            self.armed.set(self.armed.get() - 1);
            if deadline != NEVER {
                slot.deadline.set(NEVER);
                self.wake_slot(slot, index, Reason::TIMER, Location::caller());
            }
            Due::Done
        });
        wheel.sweep(self.armed.get() as usize, |index, filed| self.is_filed(index, filed));
    }

    /// The millisecond of the earliest deadline filed.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        // SAFETY: see the module.
        unsafe { &*self.wheel.get() }.next()
    }

    /// Tasks with a deadline, entries of the wheel, and its memory in bytes.
    pub(crate) fn timers(&self) -> (usize, usize, usize) {
        // SAFETY: see the module.
        let wheel = unsafe { &*self.wheel.get() };
        (self.armed.get() as usize, wheel.len(), wheel.memory())
    }

    // -----------------------------------------------------------------------------------------------------------
    // The end

    /// Gives memory back that is not needed now.
    pub(crate) fn trim(&self) {
        for queue in &self.queues {
            // SAFETY: see the module.
            unsafe { &mut *queue.get() }.trim();
        }
        // SAFETY: see the module; nothing here polls or calls back.
        unsafe { &mut *self.wheel.get() }
            .trim(self.armed.get() as usize, |index, filed| self.is_filed(index, filed));
        self.slots.trim();
    }

    /// Whether an entry of the wheel is the live one of its task.
    fn is_filed(&self, index: u32, filed: u32) -> bool {
        let slot = self.slots.at(index);
        slot.flags.get() & ARMED != 0 && slot.armed.get() == filed
    }

    /// Drops every task, in the order of their slots. Tasks that a drop spawns are dropped too.
    pub(crate) fn drop_tasks(&self) {
        // A task whose drop spawns another forever must not keep us here.
        for _ in 0..64 {
            let mut index = 0;
            while index < self.slots.used() {
                let slot = self.slots.at(index);
                if !matches!(slot.state.get(), State::Free | State::Dying) {
                    self.current.set(TaskId::new(self.slot, index, slot.generation.get()));
                    self.current_slot.set(slot);
                    slot.state.set(State::Dying);
                    let (drop, future) = (slot.vtable.get().drop, slot.storage());
                    // SAFETY: the future is alive and is never touched again: its slot is freed below.
                    let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { drop(future) }));
                    let (name, from) = (slot.kind.get().name(), slot.woken_from.get());
                    self.release(slot, index);
                    self.current.set(TaskId::NONE);
                    self.current_slot.set(ptr::null());
                    if let Err(panic) = dropped {
                        self.report_panic(name, from, &*panic);
                    }
                }
                index += 1;
            }
            if self.slots.live() == 0 {
                break;
            }
        }
    }
}

/// Whether the runtime asked its threads to stop.
#[inline]
pub(crate) fn stopping(runtime: &Shared) -> bool {
    runtime.stop.load(Ordering::Relaxed)
}
