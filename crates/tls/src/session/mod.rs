//! Resuming sessions: tickets that clients keep, and a cache for those that keep none.
//!
//! A session is good only where it was made: every ticket and every key of the cache is bound to the certificate that was
//! served and to how clients are verified (rule R9), so that a session from a host without client certificates opens no
//! host that wants them.

mod cache;
mod tickets;

pub use cache::SessionCache;
pub use tickets::{TicketKeyError, TicketKeys};

pub(crate) use cache::BoundCache;
pub(crate) use tickets::BoundTickets;

/// What a session is bound to.
pub(crate) type Binding = [u8; 32];
