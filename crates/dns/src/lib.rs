#![forbid(unsafe_code)]
#![warn(missing_docs)]
//! Finding servers by DNS, without I/O (configuration manual, section 5.3): what is asked, what answers mean, and which
//! server gets which address.
//!
//! - [`message`] writes queries and reads answers, which are untrusted: `domain` does the reading of names and records, and
//!   here is decided what belongs to a question. RFC 1035, RFC 2782 (SRV), RFC 6891 (EDNS), RFC 7766 (TCP).
//! - [`Resolver`] is one `resolvers` section: its lookups, their retries, the holds, the servers that follow names and services,
//!   and those who wait for an answer. It is fed with messages and the time, and is asked what to send, what happened and
//!   when it wants to be called again.

mod families;
mod lookup;
pub mod message;
mod name;
mod offer;
mod resolver;

pub use families::Families;
pub use lookup::{Key, Status, Ticket};
pub use name::{Name, NameError};
pub use offer::{Network, Preference};
pub use resolver::{
    By, Event, Follow, Followed, LOOKUPS_MAX, Loss, Resolved, Resolver, Settings, Tally, Transmit,
};
