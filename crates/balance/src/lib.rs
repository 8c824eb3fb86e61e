//! Choosing a server, and waiting for one.
//!
//! Pure data structures: no I/O, no clock, no entropy. A [`Balancer`] is shared by all threads of a process; each
//! thread keeps a [`View`] of it. What threads share on the path of a request is listed on [`Balancer`].
//!
//! | Algorithm | Structure | File |
//! |---|---|---|
//! | `roundrobin`, `static-rr` | an order of turns written out in advance, one shared position | `round_robin` |
//! | `leastconn` | a tournament over padded per-server counters | `leastconn` |
//! | map-based hashing | the table of `static-rr` | `round_robin` |
//! | consistent hashing | points on a circle | `ring` |
//! | `random` | an urn and a comparison of loads | `random` |
//! | `ewma` | the urn, and what each thread knows of how long servers take | `ewma` |
//! | `first`, `sticky` | a list in order | `balancer` |

#![forbid(unsafe_code)]

pub mod balancer;
pub mod ewma;
pub mod hash;
pub mod leastconn;
pub mod load;
pub mod outlier;
pub mod queue;
pub mod random;
pub mod retry_budget;
pub mod ring;
pub mod round_robin;
pub mod settings;
pub mod sync;
pub mod zone;

pub use balancer::{Balancer, Held, NeverFull, PickContext, ServerIndex, ServerView, View, slowstart_weight};
pub use hash::{HashFunction, KeyHash, UriKey, domain_only};
pub use load::LoadNow;
pub use queue::{Limits, Place, Priority, Queue, Turn};
pub use retry_budget::RetryBudget;
pub use settings::{Algorithm, HashMethod, NodeKey, PreserveAffinity, ServerSpec, Settings};
