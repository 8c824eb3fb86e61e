//! Files of certificates that change (`crt-watch on`): one task of the process has them looked at, and logs what was found.
//!
//! Reading files and checking keys takes time, so each look is made by a thread of its own, which lives as long as the look.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_config::model::{LogLevel, SharedLive};
use thalweg_runtime::{Class, Kind, SpawnOptions, aside, spawn_with, timer};
use thalweg_tls::files::Disk;
use thalweg_tls::live::{Found, Watcher};

use crate::worker::Worker;

static WATCH: Kind = Kind::new("crt-watch");

/// Time between two looks, in milliseconds.
const LOOK_MS: u64 = 1000;
/// With many certificates a look takes long: it is made less often, so that looking takes this part of one CPU at most.
const SHARE: u32 = 100;

/// What is to be watched: the certificates of the configuration in force.
fn watched(worker: &Worker) -> Option<SharedLive> {
    let config = &worker.instance.config;
    config.tls.clone().filter(|_| config.global.tls.watch)
}

/// Starts to watch, if that is asked for and nobody does yet.
pub fn start(worker: &Rc<Worker>) {
    if watched(worker).is_none() || worker.looks_after.files.replace(true) {
        return;
    }
    let own = Rc::clone(worker.own());
    let options = SpawnOptions { class: Class::Bulk, ..SpawnOptions::default() };
    spawn_with(&WATCH, options, async move {
        let mut watcher = Watcher::default();
        let mut last: Option<SharedLive> = None;
        let mut pause_ms = 0;
        loop {
            timer::sleep(pause_ms).await;
            let Some(pin) = own.pin() else { return };
            let live = watched(&pin);
            drop(pin);
            let Some(live) = live else {
                pause_ms = LOOK_MS;
                continue;
            };
            // Another configuration read its files itself.
            if !last.replace(SharedLive::clone(&live)).is_some_and(|last| Arc::ptr_eq(&last, &live)) {
                watcher = Watcher::default();
            }
            let (next, found, took) = look(watcher, &live).await;
            watcher = next;
            let due = u64::try_from((took * SHARE).as_millis()).unwrap_or(u64::MAX);
            pause_ms = due.max(LOOK_MS);
            let Some(worker) = own.pin() else { return };
            for found in found {
                let level = if found.is_well() { LogLevel::Notice } else { LogLevel::Warning };
                worker.log_globally(level, found.to_string().as_bytes());
            }
        }
    });
}

/// One look; the watcher comes back, with what was found and how long it took. One that did not come back begins anew.
async fn look(mut watcher: Watcher, live: &SharedLive) -> (Watcher, Vec<Found>, Duration) {
    let live = SharedLive::clone(live);
    let looked = aside("crt-watch", move || {
        let begun = Instant::now();
        let found = watcher.look(&Disk, &live);
        (watcher, found, begun.elapsed())
    });
    looked.await.unwrap_or_default()
}
