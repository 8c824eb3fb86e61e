#![forbid(unsafe_code)]
//! The whole proxy in the simulator: scenarios from seeds, played in virtual time, and judged.
//!
//! A seed decides a [`plan::Plan`]: a configuration, what clients send and when they leave, what servers answer and how
//! they fail, and what the network does. [`play`] plays it with the real [`thalweg_proxy::Instance`] on the simulated
//! network, where everybody [records](record) what they saw; then the [checks](check) compare the records with each
//! other. `docs/simulator.md` in the repository says how to read a failure.

mod actor;
pub mod body;
pub mod check;
pub mod message;
pub mod plan;
pub mod random;
pub mod record;
mod stage;

pub use stage::{Outcome, play};
