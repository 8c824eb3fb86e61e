//! Stick tables of the process: those of the configuration, and the task that takes away what is due.

use std::hash::{BuildHasher, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use thalweg_config::model::Config;
use thalweg_runtime::{Class, Kind, SpawnOptions, clock, spawn_with, timer, yield_now};
use thalweg_stick::{Spec, Table};

use crate::worker::Worker;

static EXPIRY: Kind = Kind::new("table-expiry");

/// How often entries that are due are looked for, in milliseconds. They are not found any more from the moment they are due;
/// this is about their memory, and about `table_cnt`.
const EXPIRY_MS: u64 = 100;
/// Entries that are looked at before others get their turn.
const EXPIRE_AT_ONCE: usize = 1000;

/// The tables that a configuration declares, empty.
pub fn of(config: &Config) -> Box<[Arc<Table>]> {
    // Clients must not be able to choose keys that share a bucket.
    let random = || std::collections::hash_map::RandomState::new().build_hasher().finish();
    config.tables.iter().map(|spec| Arc::new(Table::new(Spec::clone(spec), random()))).collect()
}

/// Starts to take entries away that are due, on one thread for all.
pub fn start_expiry(worker: &Rc<Worker>) {
    let tables: Vec<Arc<Table>> =
        worker.instance.tables.iter().filter(|table| table.spec().expire_ms > 0).cloned().collect();
    if tables.is_empty() {
        return;
    }
    let options = SpawnOptions { class: Class::Bulk, ..SpawnOptions::default() };
    spawn_with(&EXPIRY, options, async move {
        loop {
            timer::sleep(EXPIRY_MS).await;
            for table in &tables {
                while table.expire(clock::now_ms(), EXPIRE_AT_ONCE) {
                    yield_now().await;
                }
            }
        }
    });
}
