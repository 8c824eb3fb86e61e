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

/// The tables that a configuration declares, all empty.
pub fn of(config: &Config) -> Arc<[Arc<Table>]> {
    following(&Arc::default(), config)
}

/// The tables that a configuration declares: those of `before`, which are the first of them, and the others empty.
pub fn following(before: &Arc<[Arc<Table>]>, config: &Config) -> Arc<[Arc<Table>]> {
    if before.len() == config.tables.len() {
        return Arc::clone(before);
    }
    // Clients must not be able to choose keys that share a bucket.
    let random = || std::collections::hash_map::RandomState::new().build_hasher().finish();
    let fresh = config.tables.iter().skip(before.len());
    let fresh = fresh.map(|spec| Arc::new(Table::new(Spec::clone(spec), random())));
    before.iter().cloned().chain(fresh).collect()
}

/// Starts to take entries away that are due, on one thread for all, if that thread does not do it already and there is a table
/// whose entries are ever due.
pub fn start_expiry(worker: &Rc<Worker>) {
    let expires = worker.instance.tables.iter().any(|table| table.spec().expire_ms > 0);
    if !expires || worker.looks_after.tables.replace(true) {
        return;
    }
    let own = Rc::clone(worker.own());
    let options = SpawnOptions { class: Class::Bulk, ..SpawnOptions::default() };
    spawn_with(&EXPIRY, options, async move {
        loop {
            timer::sleep(EXPIRY_MS).await;
            let Some(tables) = own.pin().map(|pin| Arc::clone(&pin.instance.tables)) else { return };
            for table in tables.iter().filter(|table| table.spec().expire_ms > 0) {
                while table.expire(clock::now_ms(), EXPIRE_AT_ONCE) {
                    yield_now().await;
                }
            }
        }
    });
}
