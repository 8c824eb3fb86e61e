//! Choosing a server, and waiting for one.
//!
//! Pure data structures: no I/O, no clock, no entropy. A [`Balancer`] is shared by all threads of a process; each
//! thread keeps a [`View`] of it. What threads share on the path of a request is listed on [`Balancer`].
//!
//! An algorithm is a file in `algorithm` and its line there. What they are made of:
//!
//! | File | What it is | For |
//! |---|---|---|
//! | `seats` | the servers that take part, and their weights | all |
//! | `turns` | an order of turns written out in advance, one shared position | `roundrobin`, `static-rr`, map-based hashing |
//! | `tour` | the same turn by turn, while weights change | `roundrobin` |
//! | `tournament` | who has the least load, over padded per-server counters | `leastconn` |
//! | `ring` | points on a circle | consistent hashing |
//! | `urn` | servers that are drawn and compared | `random`, `ewma` |
//! | `estimates` | what each thread knows of how long servers take | `ewma` |

#![forbid(unsafe_code)]

pub mod adaptive;
pub mod algorithm;
pub mod answer_times;
pub mod balancer;
pub mod estimates;
pub mod hash;
pub mod load;
pub mod outlier;
pub mod queue;
pub mod retry_budget;
pub mod ring;
mod seats;
pub mod settings;
mod sums;
pub mod sync;
mod tour;
pub mod tournament;
pub mod turns;
mod urn;
pub mod zone;

pub use algorithm::{Algorithm, Traits, Written};
pub use answer_times::AnswerTimes;
pub use balancer::{Balancer, Held, Kept, NeverFull, PickContext, ServerIndex, ServerView, View};
pub use hash::{HashFunction, HashMethod, KeyHash, NodeKey, UriKey, domain_only};
pub use load::LoadNow;
pub use queue::{Limits, Place, Priority, Queue, Turn};
pub use retry_budget::RetryBudget;
pub use settings::{PreserveAffinity, ServerSpec, Settings, slowstart_weight};
