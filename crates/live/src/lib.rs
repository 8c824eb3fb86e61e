//! What live state is made of, which outlives the configurations that it belongs to: numbers that are used again, and rows that
//! grow with them and never move.
//!
//! | | File |
//! |---|---|
//! | a row that is read without a lock while it grows | `growing` |
//! | the same, of which a thread makes what it uses | `chunks` |
//! | values that are freed when no snapshot has them any more | `rows` |
//! | when no snapshot is left that has a number | `lease` |
//! | when every thread has forgotten it, and who gets it next | `numbers` |
//!
//! Models: `RUSTFLAGS="--cfg loom" cargo test -p thalweg-live --release --lib loom`. Adding `--cfg planted` plants one bug in
//! each structure, which its model must find.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod chunks;
pub mod growing;
pub mod lease;
pub mod numbers;
pub mod rows;
mod sync;

pub use chunks::Chunks;
pub use growing::Growing;
pub use lease::{Gone, Lease, Returns};
pub use numbers::{FreeNumbers, Parting};
pub use rows::{Held, Rows};
