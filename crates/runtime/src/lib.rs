//! A thread-per-core executor that knows no protocol.
//!
//! The front page with the invariants is written with the scheduler; see the module list below.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a task identifier is packed into a 64-bit pointer");

pub mod clock;
mod scheduler;
pub mod task;

pub mod buffer;
pub mod driver;
pub mod net;

pub use task::{Reason, TaskId, current_task};
