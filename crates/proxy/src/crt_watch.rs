//! Files of certificates that change (`crt-watch on`): one task of the process has them looked at, and logs what was found.
//!
//! Reading files and checking keys takes time, so each look is made by a thread of its own, which lives as long as the look.

use std::rc::Rc;
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

/// Starts to watch, if that is asked for.
pub fn start(worker: &Rc<Worker>) {
    let config = &worker.instance.config;
    let (Some(live), true) = (config.tls.clone(), config.global.tls.watch) else { return };
    let own = Rc::clone(worker.own());
    let options = SpawnOptions { class: Class::Bulk, ..SpawnOptions::default() };
    spawn_with(&WATCH, options, async move {
        let mut watcher = Watcher::default();
        let mut pause_ms = 0;
        loop {
            timer::sleep(pause_ms).await;
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
