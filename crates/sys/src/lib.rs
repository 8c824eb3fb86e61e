//! The C library calls that have no safe wrapper elsewhere, as small safe functions, one file per topic; and [`dense`], an allocator for
//! what stays when much around it goes.
//!
//! Besides the runtime this is the only crate that contains unsafe code; every other one forbids it.

#![warn(missing_docs)]

pub mod accounts;
pub mod calendar;
pub mod calls;
pub mod capabilities;
pub mod child;
pub mod crypt;
pub mod dense;
pub mod directory;
pub mod fd;
pub mod handover;
pub mod inherited;
pub mod memory;
pub mod namespace;
pub mod net;
pub mod pcre;
pub mod process;
pub mod resolve;
pub mod sandbox;
pub mod signal;
pub mod terminal;
pub mod time;
