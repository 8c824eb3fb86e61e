//! A thread-per-core executor that knows no protocol.
//!
//! The front page with the invariants is written with the scheduler; see the module list below.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a task identifier is packed into a 64-bit pointer");

mod mailbox;
mod sync;

#[cfg(not(loom))]
pub mod clock;
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
pub use profile::{Kind, Profiling};
#[cfg(not(loom))]
pub use scheduler::{
    Cause, Class, Config, Handle, Incident, NICE_MAX, NICE_MIN, Runtime, SHARED_MAX, SpawnOptions, block_on,
    handle, kill, run_on, spawn, spawn_shared, spawn_with, stop, stopping, thread_count, thread_index,
};
#[cfg(not(loom))]
pub use task::{Reason, TaskId, current_task, in_class, reasons, set_class, set_nice, yield_now};
#[cfg(not(loom))]
pub use topology::CpuSet;
