//! A thread-per-core executor that knows no protocol.
//!
//! Each thread has its scheduler, its I/O driver, its timers and its pools, and no thread looks into another's. What
//! crosses threads does so through a mailbox. Start with [`Runtime`] (or [`block_on`]), [`spawn`], [`timer`] and
//! [`net`].
//!
//! # One turn of the loop
//!
//! ```text
//!   mailbox (256 messages at most) -> deadlines -> one round of tasks (40 entries at most) -> poll the driver
//!        ^                                                                                         |
//!        +----------------- read the clock once <---- sleep only if nothing can run <--------------+
//! ```
//!
//! A round is divided among the classes that have work: urgent 8, normal 6, bulk 2 parts, and one heavy task. What a
//! class leaves goes to the others in that order. Within a class tasks run in order of arrival, shifted by their nice
//! value in rounds. Shared tasks take the place of normal ones, each thread its part of those that wait.
//!
//! # Who may touch what, when
//!
//! | What | Who | When |
//! |---|---|---|
//! | a task's slot and future (`task::slot`) | its thread | always; the future is polled in state *running* and dropped in state *dying*, in which it is the thread's current task |
//! | run queues, wheel, jobs (`scheduler::local`) | their thread | never across a poll, a drop of a future, or a hook: any of those may come back |
//! | a task's remote slot (`scheduler::thread`) | any thread adds reasons; who finds none pushes it into the mailbox | the owner takes it out first and reads the reasons then |
//! | a letter (`mailbox::letter`) | who carries it: who asks, a mailbox, the one that is asked, a mailbox; then who waits | its word says when the last one has it |
//! | a mailbox's tail | any thread | the head is its owner's |
//! | the announcement of sleep | its owner stores, others exchange | the owner looks at all sources of work after announcing, others look at it after handing work over |
//! | a shared task (`scheduler::shared`) | whom its state word names: who spawned it, then who took it from the ring | handed over by exchanges of that word |
//! | a buffer, a socket, a pooled object | its thread | until it is dropped there |
//! | counters | written by their thread with plain stores | read by all |
//! | the configuration, the list of threads | nobody writes | after the start |
//!
//! **Invariants.** A task is in a run queue at most once, and in its mailbox at most once. A future is never polled after
//! it was ready, killed, or panicked. A timer never fires before its millisecond. A thread never sleeps while it has a
//! runnable task, an unread message, or a shared task waits. With one thread, the path of a task has no locked
//! instruction, fence or lock. Slots and endpoints are never freed while an identifier may name them, so a stale
//! identifier finds a later generation: it is ignored on the same thread, and may cause one idle run of a later task when
//! it comes from another; it never kills one.
//!
//! # Bounds
//!
//! [`task::TASKS_MAX`] tasks per thread, [`task::THREADS_MAX`] threads per process, [`SHARED_MAX`] shared tasks per
//! runtime (further ones are pinned), 256 messages per turn, [`Config::runqueue_depth`] entries per round, dead timer
//! entries at most as many as live ones and 1024 more, 8 MB of free blocks per size and thread.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a task identifier is packed into a 64-bit pointer");

mod mailbox;
mod sync;

#[cfg(not(loom))]
mod aside;
#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
pub mod memory;
#[cfg(not(loom))]
mod pages;
pub mod plant;
#[cfg(not(loom))]
pub mod pool;
#[cfg(not(loom))]
pub mod profile;
#[cfg(not(loom))]
mod scheduler;
#[cfg(not(loom))]
pub mod task;
#[cfg(not(loom))]
pub mod timer;
#[cfg(not(loom))]
pub mod topology;
#[cfg(not(loom))]
mod watchdog;

#[cfg(not(loom))]
pub mod buffer;
#[cfg(not(loom))]
pub mod driver;
#[cfg(not(loom))]
pub mod net;

#[cfg(not(loom))]
pub use aside::aside;
#[cfg(not(loom))]
pub use profile::{Kind, Profiling};
#[cfg(not(loom))]
pub use scheduler::{
    Cause, Class, Config, Handle, Incident, NICE_MAX, NICE_MIN, Question, Reply, Runtime, SHARED_MAX,
    SpawnOptions, ask, block_on, go_on_with, handle, kill, run_on, spawn, spawn_shared, spawn_with, stop,
    stopping, thread_count, thread_index, waiting_tasks,
};
#[cfg(not(loom))]
pub use task::{
    Reason, TaskId, Turn, current_task, give_way, in_class, reasons, set_class, set_nice, yield_now,
};
#[cfg(not(loom))]
pub use topology::CpuSet;
