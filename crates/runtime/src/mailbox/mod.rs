//! What crosses threads: small lock-free structures, each with its loom models.
//!
//! | Structure | Writers | Readers | Used for |
//! |---|---|---|---|
//! | [`queue::Queue`] | any thread, wait-free | its owner | wake-ups, closures and letters for one thread |
//! | [`letter`] | who carries it | who carries it, then who waits | a question to another thread, and its answer |
//! | [`sleep::Sleep`] | owner stores, others swap | any | whether a push must also wake the owner |
//! | [`sleep::Bell`] | others swap, owner swaps | both | the same for a thread that is alone |
//! | [`ring::Ring`] | any thread | any thread | indices of runnable shared tasks |
//!
//! Models: `RUSTFLAGS="--cfg loom" cargo test -p thalweg-runtime --release --lib loom`. Adding `--cfg planted`
//! weakens one ordering in each structure; every model must then fail (see the comment of each).

pub(crate) mod letter;
pub(crate) mod queue;
pub(crate) mod ring;
pub(crate) mod sleep;
pub(crate) mod state;

/// What a node of a mailbox is the start of.
pub(crate) const WAKE: u32 = 0;
pub(crate) const JOB: u32 = 1;
pub(crate) const LETTER: u32 = 2;

/// The start of a message.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) node: queue::Node,
    pub(crate) what: u32,
}
