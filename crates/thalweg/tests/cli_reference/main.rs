//! The runtime CLI beside an installed HAProxy: the same lines to both, the same configuration, field by field. What
//! must differ is masked by name, with its reason; every other difference is a defect of ours. Skipped where no HAProxy
//! is installed.

mod answers;
mod errors;
mod framing;
mod levels;
mod pair;
mod states;
#[path = "../support/mod.rs"]
mod support;
