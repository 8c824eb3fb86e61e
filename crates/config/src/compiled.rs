//! The compiled pieces that other crates provide, for those who read a configuration.

pub use thalweg_rules::{ErrorReplies, HttpErrors, Reply, Ruleset};
pub use thalweg_sample::{Condition, Expr, LogFormat, Registry};
