//! Stick tables: values kept by key (manual section 11).
//!
//! Values in, values out: no I/O, no clock, no entropy. The time is an argument (milliseconds on a monotonic clock), and
//! so is the seed of the hashes.
//!
//! | Piece | File |
//! |---|---|
//! | what an entry may hold: names, arrays, periods | `data` |
//! | rates over a sliding period | `sliding` |
//! | token buckets | `bucket` |
//! | keys: kinds, texts, lengths | `key` |
//! | where the values of an entry lie | `layout` |
//! | entries in memory that is made piece by piece and never moves | `arena` |
//! | when entries are due, without scans | `queue` |
//! | which entries changed, for the peers | `changed` |
//! | what the peers of a fleet counted themselves | `shares` |
//! | the table that threads share | `table` |
//! | a held entry | `entry` |
//! | a table as one thread refers to it | `local` |
//! | tables that several processes share | `peers` |
//! | entries that outlive the process | `kept` |
//!
//! # What threads share
//!
//! A [`Table`] is divided into shards by the hash of the key. An entry is found without a lock: a reader walks the chain
//! of its bucket and then asks whether an entry of the shard was taken away meanwhile (a version, as in a sequence lock). To
//! insert or take away an entry, the lock of its shard is taken. Values are atomic words that are changed where they lie;
//! an entry that is held ([`Entry`]) is neither expired nor evicted. Touching an entry writes its deadline and
//! nothing else: the queue that expires entries learns of it when the old deadline is reached.
//!
//! # Memory
//!
//! An entry takes 24 bytes, 4 for its bucket, its key (4 bytes for `ip` and `integer`, 16 for `ipv6`, the declared length
//! rounded up to 4 for `binary`, 4 more for `string`), 4 per counter or tag, 8 per byte count or token bucket, 16 per rate, 4 where peers share the
//! table. Memory is made
//! 256 entries at a time, up to `size` entries, and used again; it is not given back before the table is dropped.

#![forbid(unsafe_code)]

mod arena;
pub mod bucket;
mod by_number;
mod changed;
pub mod data;
mod entry;
pub mod kept;
pub mod key;
mod layout;
mod local;
pub mod peers;
mod queue;
mod shares;
pub mod sliding;
mod sync;
mod table;
#[cfg(test)]
mod tests;

pub use data::{DataType, Event, Stored};
pub use entry::{Entry, Held, KeyValue, Tracked, Values};
pub use key::{Key, KeyType};
pub use local::Local;
pub use table::{Refused, ServerKey, Spec, Table};
