#![forbid(unsafe_code)]
//! Sections become a typed, validated configuration: see [`model`] for what comes out and [`load`] for how.

pub mod compiled;
pub mod model;

pub use model::*;
