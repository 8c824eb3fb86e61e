//! Patterns: sets of strings, numbers, addresses and regular expressions that values are matched against.

mod regex;
mod registry;

pub use regex::{Regex, RegexError, RegexScratch};
pub use registry::{Registry, SnapshotCache};
