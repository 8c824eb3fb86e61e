//! Servers that have the state of another one (`track`): they go up and down, into maintenance and into drain with it, each
//! with a line of its own.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use thalweg_shared::{AtomicBool, Mutex, MutexGuard};

use thalweg_config::model::{Config, LogLevel, ProxyId, Server, ServerId};

use super::health::{self, Before};
use super::standing::Standing;
use crate::instance::{Backends, Instance};
use crate::worker::Worker;

/// A server of a backend.
type Place = (ProxyId, ServerId);

/// Who tracks whom.
#[derive(Default)]
pub struct Trackers {
    of: Mutex<HashMap<Place, Vec<Place>>>,
    /// There are some, or were: most configurations have none, and need not look.
    any: AtomicBool,
}

impl Trackers {
    /// As configured. Trackers take the state of those that they track.
    pub(crate) fn new(config: &Config, backends: &Backends) -> Trackers {
        let trackers = Trackers::default();
        let mut starts = Vec::new();
        for proxy in &config.proxies {
            for server in &proxy.servers {
                match server.rare().track {
                    Some(tracked) => trackers.add(tracked, (proxy.id, server.id)),
                    None => starts.push((proxy.id, server.id)),
                }
            }
        }
        if !trackers.any.load(Ordering::Relaxed) {
            return trackers;
        }
        // From those that have checks to those that track them, to those that track these.
        let mut due = starts;
        while let Some(tracked) = due.pop() {
            let standing = backends[tracked.0.0 as usize].standing(tracked.1);
            for tracker in trackers.of(tracked) {
                backends[tracker.0.0 as usize].follow_at_start(tracker.1, &standing);
                due.push(tracker);
            }
        }
        trackers
    }

    /// As a configuration that follows another one has it.
    pub(crate) fn replace(&self, config: &Config) {
        let mut of: HashMap<Place, Vec<Place>> = HashMap::new();
        for proxy in &config.proxies {
            for server in &proxy.servers {
                if let Some(tracked) = server.rare().track {
                    of.entry(tracked).or_default().push((proxy.id, server.id));
                }
            }
        }
        if !of.is_empty() {
            self.any.store(true, Ordering::SeqCst);
        }
        *self.lock() = of;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Vec<Place>>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that track a server, newest first.
    fn of(&self, tracked: Place) -> Vec<Place> {
        self.lock().get(&tracked).map_or_else(Vec::new, |all| all.iter().rev().copied().collect())
    }

    /// Whether some server tracks this one.
    pub(crate) fn has_any(&self, tracked: Place) -> bool {
        self.lock().get(&tracked).is_some_and(|all| !all.is_empty())
    }

    fn add(&self, tracked: Place, tracker: Place) {
        self.any.store(true, Ordering::SeqCst);
        self.lock().entry(tracked).or_default().push(tracker);
    }

    /// A server tracks this one no more.
    pub(crate) fn forget(&self, tracked: Place, tracker: Place) {
        let mut all = self.lock();
        if let Some(of) = all.get_mut(&tracked) {
            of.retain(|other| *other != tracker);
            if of.is_empty() {
                all.remove(&tracked);
            }
        }
    }
}

/// A server that was added has the state of another one from now on.
pub(crate) fn begin(worker: &Worker, tracked: Place, tracker: Place) {
    worker.live.trackers.add(tracked, tracker);
    worker.backend(tracker.0).follow_tracked(tracker.1);
}

/// Where a server stood changed: those that track it follow, and those that track them.
pub(crate) fn follow(worker: &Worker, proxy: ProxyId, server: ServerId) {
    let trackers = &worker.instance.trackers;
    if !trackers.any.load(Ordering::Relaxed) {
        return;
    }
    let mut due: Vec<Place> = Vec::new();
    let mut tracked = (proxy, server);
    loop {
        // One after the other, each followed by those that track it.
        due.extend(trackers.of(tracked).into_iter().rev());
        let Some(tracker) = due.pop() else { return };
        let backend = worker.backend(tracker.0);
        let (before, was) = (Before::look(backend, tracker.1), backend.standing(tracker.1));
        backend.follow_tracked(tracker.1);
        before.tell_standing(worker, tracker.0, tracker.1, &was);
        tracked = tracker;
    }
}

/// ` via ` and the server that this one tracks; nothing if it tracks none.
fn via(worker: &Worker, (proxy, server): Place) -> String {
    let tracked = worker.proxy(proxy).server(server).and_then(|server| server.rare().track);
    let Some((proxy, tracked)) = tracked else { return String::new() };
    let proxy = worker.proxy(proxy);
    let Some(tracked) = proxy.server(tracked) else { return String::new() };
    format!(" via {}/{}", proxy.name, worker.backend(proxy.id).identity(tracked).name)
}

impl Before {
    /// Says what changed about a server since it stood as it `was`, by a word about it or by what became of the one that it
    /// tracks.
    pub(crate) fn tell_standing(&self, worker: &Worker, proxy: ProxyId, server: ServerId, was: &Standing) {
        let via = &*via(worker, (proxy, server));
        let now = worker.backend(proxy).standing(server);
        let tell = |what: &str| {
            let line = format!("{} {what}.", health::title(worker, proxy, server));
            health::tell(worker, proxy, LogLevel::Notice, &line);
        };
        let up = if now.is_up() { "UP" } else { "DOWN" };
        let remains_in_drain = || match now.drain {
            true => tell("remains in forced drain mode"),
            false => tell(&format!("remains in drain mode{via}")),
        };
        match (was.in_maintenance(), now.in_maintenance()) {
            (false, true) => {
                let via = if now.maintenance { "" } else { via };
                if was.is_up() {
                    let what = format!("is going DOWN for maintenance{via}");
                    self.tell_down(worker, proxy, server, &what);
                } else {
                    tell(&format!("was DOWN and now enters maintenance{via}"));
                }
            }
            (true, true) if was.maintenance && !now.maintenance => {
                tell(&format!("is leaving forced maintenance but remains in maintenance{via}"));
            }
            (true, true) if was.inherits_maintenance && !now.inherits_maintenance => {
                tell("remains in forced maintenance");
            }
            (true, true) => {}
            (true, false) => {
                let kind = if was.maintenance { "forced maintenance" } else { "maintenance" };
                let mode = if now.is_draining() { "DRAIN" } else { "READY" };
                tell(&format!("is {up}/{mode} (leaving {kind})"));
                if now.is_draining() {
                    remains_in_drain();
                }
            }
            (false, false) => match (was.is_draining(), now.is_draining()) {
                (false, true) => {
                    let what = format!("enters drain state{}", if now.drain { "" } else { via });
                    match now.is_up() {
                        true => self.tell_up(worker, proxy, server, &what),
                        false => self.tell_down(worker, proxy, server, &what),
                    }
                }
                (true, false) if was.drain => tell(&format!("is {up} (leaving forced drain)")),
                (true, false) => tell(&format!("is {up} (leaving drain){via}")),
                (true, true) if (was.drain, was.inherits_drain) != (now.drain, now.inherits_drain) => {
                    remains_in_drain();
                }
                _ => self.tell_change(worker, proxy, server, was.operation, via),
            },
        }
    }
}

impl Instance {
    /// The server with checks whose state a server has at the end, if it tracks one.
    pub fn tracked(&self, server: &Server) -> Option<(ProxyId, ServerId)> {
        let mut last = server.rare().track?;
        loop {
            match self.config.proxy(last.0).server(last.1)?.rare().track {
                Some(next) => last = next,
                None => return Some(last),
            }
        }
    }
}
