//! A drain that ends by itself (`set server ... state drain timeout <time>`, ours): when its time is over, the server goes into
//! maintenance, and the streams that are still on it end as `shutdown sessions server` ends them.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use thalweg_config::model::{ProxyId, ServerId};
use thalweg_runtime::{Kind, clock, spawn, timer};

use super::Backend;
use crate::operator::Hand;
use crate::worker::Thread;

static DRAIN: Kind = Kind::new("drain");

impl Backend {
    /// When a server's drain ends by itself, in milliseconds of the clock; `None` when it does not.
    fn drain_end(&self, server: ServerId) -> Option<u64> {
        let end = self.state(server).drain_end_ms.load(Ordering::SeqCst);
        (end != 0).then_some(end)
    }

    /// From now on a server's drain ends then, or not by itself.
    pub(crate) fn set_drain_end(&self, server: ServerId, end_ms: Option<u64>) {
        self.state(server).drain_end_ms.store(end_ms.unwrap_or(0), Ordering::SeqCst);
    }
}

impl Hand<'_> {
    /// Lets the server finish what it has, and gives it nothing new, for so long at most if that is said.
    pub fn drain_for(&self, timeout_ms: Option<u64>) {
        self.start_drain();
        let end = timeout_ms.map(|ms| clock::now_ms().saturating_add(ms).max(1));
        self.worker.backend(self.proxy).set_drain_end(self.server, end);
        if let Some(end) = end {
            spawn(&DRAIN, end_drain(Rc::clone(self.worker.own()), self.proxy, self.server, end));
        }
    }
}

/// Ends a drain at `end_ms`, unless another word about the server came meanwhile.
async fn end_drain(own: Rc<Thread>, proxy: ProxyId, server: ServerId, end_ms: u64) {
    timer::sleep_until(end_ms).await;
    let Some(worker) = own.pin() else { return };
    let Some(backend) = worker.instance.backends.get(proxy.0 as usize) else { return };
    if backend.drain_end(server) == Some(end_ms) {
        Hand { worker: &worker, proxy, server }.maintain();
        backend.shut_sessions(server);
    }
}
