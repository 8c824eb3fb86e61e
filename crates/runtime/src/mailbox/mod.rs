//! What crosses threads: small lock-free structures, each with its loom models.
//!
//! | Structure | Writers | Readers | Used for |
//! |---|---|---|---|
//! | [`queue::Queue`] | any thread, wait-free | its owner | wake-ups and closures for one thread |
//! | [`sleep::Sleep`] | owner stores, others swap | any | whether a push must also wake the owner |
//! | [`sleep::Bell`] | others swap, owner swaps | both | the same for a thread that is alone |
//! | [`ring::Ring`] | any thread | any thread | indices of runnable shared tasks |
//!
//! Models: `RUSTFLAGS="--cfg loom" cargo test -p thalweg-runtime --release --lib loom`. Adding `--cfg planted`
//! weakens one ordering in each structure; every model must then fail (see the comment of each).

pub(crate) mod queue;
pub(crate) mod ring;
pub(crate) mod sleep;
pub(crate) mod state;
