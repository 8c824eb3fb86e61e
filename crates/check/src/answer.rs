//! What an answer of a protocol comes to that checks speak by themselves.

use crate::Status;

/// What an answer means so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Not complete.
    Wait,
    /// As it should be. How many bytes it took, its code, what to say about it.
    Good { len: usize, code: i64, info: String },
    /// Not so.
    Bad { status: Status, code: Option<i64>, info: String },
}
