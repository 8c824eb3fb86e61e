//! A thread-per-core executor that knows no protocol.
//!
//! The front page with the invariants is written with the scheduler; see the module list below.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a task identifier is packed into a 64-bit pointer");

mod mailbox;
mod sync;

pub mod clock;
pub mod pool;
pub mod profile;
mod scheduler;
pub mod task;
pub mod timer;
pub mod topology;
mod watchdog;

pub mod buffer;
pub mod driver;
pub mod net;

pub use profile::{Kind, Profiling};
pub use scheduler::{
    Cause, Class, Config, Handle, Incident, NICE_MAX, NICE_MIN, Runtime, SHARED_MAX, SpawnOptions, block_on,
    handle, kill, run_on, spawn, spawn_shared, spawn_with, stop, stopping, thread_count, thread_index,
};
pub use task::{Reason, TaskId, current_task, in_class, reasons, set_class, set_nice, yield_now};
pub use topology::CpuSet;
