#![forbid(unsafe_code)]
//! What the process counted, as operators read it: the rows of `show stat`, the fields of `show info` (management manual,
//! sections 9.1 and 9.3), and the forms they are written in. The CLI shows them; other exports show the same.

pub mod columns;
pub mod format;
pub mod info;
pub mod latency;
pub mod page;
pub mod prometheus;
pub mod report;
pub mod resolvers;
pub mod rows;
pub mod stat;
pub mod stats_file;

pub use format::Value;
pub use stat::{Row, RowKind};
