//! What follows when a server goes down or comes back: its sessions end (`on-marked-down shutdown-sessions`), those of
//! the backup servers end (`on-marked-up shutdown-backup-sessions`), and it gets its share of the traffic back little
//! by little (`slowstart`).

use std::rc::Rc;
use std::sync::atomic::Ordering;

use thalweg_balance::{ServerIndex, slowstart_weight};
use thalweg_config::model::{ProxyId, Server, ServerId};
use thalweg_runtime::{Kind, clock, run_on, spawn, timer};
use thalweg_shared::{AtomicBool, AtomicU32, AtomicU64};

use super::Backend;
use crate::stopping::Stopping;
use crate::worker::{self, Thread, Worker};

static SLOWSTART: Kind = Kind::new("slowstart");

/// A slow start goes on in this many steps, but in none longer than a second.
const STEPS: u64 = 20;

/// What of a server's settings and state concerns its transitions.
#[derive(Default)]
pub(super) struct Transition {
    slowstart_ms: AtomicU64,
    shuts_on_down: AtomicBool,
    shuts_backups_on_up: AtomicBool,
    /// Grows when the streams that are on the server must end; odd when that is because an active server is back.
    shut_epoch: AtomicU32,
    /// When the slow start began, in milliseconds of the monotonic clock; 0 when there is none.
    since_ms: AtomicU64,
}

impl Transition {
    /// From now on it is that of this server.
    pub(super) fn begin(&self, server: &Server) {
        self.reconfigure(server);
        self.since_ms.store(0, Ordering::SeqCst);
    }

    /// What the line of its server says.
    pub(super) fn reconfigure(&self, server: &Server) {
        let rare = server.rare();
        self.slowstart_ms.store(u64::from(rare.slowstart_ms), Ordering::Relaxed);
        self.shuts_on_down.store(rare.shutdown_sessions_on_down, Ordering::Relaxed);
        self.shuts_backups_on_up.store(rare.shutdown_backup_on_up, Ordering::Relaxed);
    }

    fn slowstart_ms(&self) -> u64 {
        self.slowstart_ms.load(Ordering::Relaxed)
    }

    /// The streams on the server must end, whether it gives way to an active one or went down.
    fn shut(&self, gives_way: bool) {
        let next = |epoch: u32| Some(((epoch & !1) | u32::from(gives_way)).wrapping_add(2));
        let _ = self.shut_epoch.fetch_update(Ordering::SeqCst, Ordering::Relaxed, next);
    }

    /// The percentage of its limits that a server may use now: less than 100 during a slow start only.
    pub(super) fn ramp(&self) -> u32 {
        let since = self.since_ms.load(Ordering::Relaxed);
        if since == 0 {
            return 100;
        }
        let elapsed = clock::now_ms().saturating_sub(since).min(self.slowstart_ms());
        u32::try_from(elapsed * 100 / self.slowstart_ms().max(1)).unwrap_or(100).clamp(1, 100)
    }
}

impl Backend {
    /// A number that grows when the streams on a server must end: a stream keeps the number it began with.
    pub fn shut_epoch(&self, server: ServerId) -> u32 {
        self.servers.at(server.0 as usize).transition.shut_epoch.load(Ordering::Relaxed)
    }

    /// Whether the streams on a server were last ended because it is a backup and an active server is back, rather than
    /// because it went down.
    pub fn gave_way(&self, server: ServerId) -> bool {
        self.shut_epoch(server) & 1 == 1
    }

    /// The percentage of its weight that a server has during a slow start, for the statistics. Algorithms whose weights do
    /// not change give it all of it.
    pub fn throttle(&self, server: ServerId) -> Option<u32> {
        let transition = &self.servers.at(server.0 as usize).transition;
        let warms_up = transition.since_ms.load(Ordering::Relaxed) != 0;
        warms_up.then(|| if self.balancer.is_static() { 100 } else { transition.ramp() })
    }

    /// The weight that a server has now: less than its own during a slow start.
    pub fn weight_in_effect(&self, server: ServerId) -> u32 {
        let weight = self.weight(server);
        self.throttle(server).map_or(weight, |percent| (weight * percent).div_ceil(100))
    }

    /// Ends the streams on a server, wherever they are.
    pub fn shut_sessions(&self, server: ServerId) {
        self.servers.at(server.0 as usize).transition.shut(false);
        wake_all_sessions();
    }

    /// Closes the idle connections to a server, on every thread.
    pub(crate) fn drop_idle_connections(&self, server: ServerId) {
        let Some(worker) = worker::current() else { return };
        let index = worker.instance.server_index(self.id, server);
        for thread in 0..worker.instance.threads.len() {
            run_on(thread, move || {
                if let Some(worker) = worker::current() {
                    worker.clear_pools(&[index]);
                }
            });
        }
    }

    /// A server just went down (`up` false) or came back.
    pub(super) fn follow_up(&self, server: ServerId, up: bool) {
        let transition = &self.servers.at(server.0 as usize).transition;
        if !up {
            transition.since_ms.store(0, Ordering::SeqCst);
            if transition.shuts_on_down.load(Ordering::Relaxed) {
                self.shut_sessions(server);
            }
            return;
        }
        if transition.shuts_backups_on_up.load(Ordering::Relaxed) {
            for backup in self.states().filter(|server| server.is_backup()) {
                backup.transition.shut(true);
            }
            wake_all_sessions();
        }
        if transition.slowstart_ms() > 0 {
            let since = clock::now_ms().max(1);
            transition.since_ms.store(since, Ordering::SeqCst);
            self.warm_up(server, since, since);
            if let Some(worker) = worker::current() {
                self.watch_warming(&worker, server);
            }
        }
    }

    /// A server that came up `age_ms` ago, in a former process, goes on with its slow start. To be called before there are threads.
    pub(super) fn go_on_warming(&self, server: ServerId, age_ms: u64) {
        let transition = &self.servers.at(server.0 as usize).transition;
        let now = clock::now_ms();
        let since = now.saturating_sub(age_ms);
        if since > 0 && age_ms < transition.slowstart_ms() {
            transition.since_ms.store(since, Ordering::SeqCst);
            self.warm_up(server, since, now);
        }
    }

    /// Has the calling thread carry a server's slow start on, if it is in one.
    pub(crate) fn watch_warming(&self, worker: &Worker, server: ServerId) {
        let since = self.servers.at(server.0 as usize).transition.since_ms.load(Ordering::SeqCst);
        if since != 0 {
            spawn(&SLOWSTART, keep_warming(Rc::clone(worker.own()), self.id, server, since));
        }
    }

    /// A server leaves the others while streams may be on it: those go on.
    pub(crate) fn retire_server(&self, server: ServerId) {
        self.state(server).transition.shuts_on_down.store(false, Ordering::Relaxed);
        self.dismiss(server);
    }

    /// One step of the slow start that began at `since`. False when it is over.
    fn warm_up(&self, server: ServerId, since: u64, now: u64) -> bool {
        let transition = &self.servers.at(server.0 as usize).transition;
        if transition.since_ms.load(Ordering::SeqCst) != since {
            return false;
        }
        let elapsed = now.saturating_sub(since);
        let weight = slowstart_weight(self.weight(server), elapsed, transition.slowstart_ms());
        self.balancer.set_effective_weight(ServerIndex(server.0), weight);
        let over = elapsed >= transition.slowstart_ms();
        if over {
            transition.since_ms.store(0, Ordering::SeqCst);
        }
        // Its limit grew with its weight.
        self.serve_queue(ServerIndex(server.0));
        !over
    }
}

async fn keep_warming(own: Rc<Thread>, proxy: ProxyId, server: ServerId, since: u64) {
    let backend = || own.pin().and_then(|worker| worker.instance.backends.get(proxy.0 as usize).cloned());
    let Some(first) = backend() else { return };
    let step = (first.state(server).transition.slowstart_ms() / STEPS).clamp(1, 1000);
    drop(first);
    loop {
        timer::sleep(step).await;
        // Another slow start began later than this one, be it that of another server.
        let goes_on = backend().is_some_and(|backend| backend.warm_up(server, since, clock::now_ms()));
        if own.live.stopping() != Stopping::No || !goes_on {
            return;
        }
    }
}

/// Lets every session of every thread look at whether it must end.
fn wake_all_sessions() {
    let Some(worker) = worker::current() else { return };
    for thread in 0..worker.instance.threads.len() {
        run_on(thread, || {
            if let Some(worker) = worker::current() {
                worker.wake_sessions();
            }
        });
    }
}
