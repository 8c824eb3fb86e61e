//! A server that could not be connected to, under `balance leastconn`: it has the fewest requests as it has none, and would get each
//! one first until a check finds that it is down. So it stands behind all others for a moment.

use std::rc::Rc;

use thalweg_balance::ServerIndex;
use thalweg_config::model::{ProxyId, ServerId};
use thalweg_runtime::{Kind, spawn, timer};

use crate::worker::{Thread, Worker};

static STAND_BACK: Kind = Kind::new("refused");

/// How long it stands behind, in milliseconds: as long as an attempt on the same server waits.
const STAND_BACK_MS: u64 = 1000;

/// No connection came about to a server.
#[cold]
pub fn stand_back(worker: &Worker, proxy: ProxyId, server: ServerId) {
    let index = ServerIndex(server.0);
    // Whoever says so first sees to it that it ends.
    if worker.backend(proxy).balancer.put_last(index) {
        spawn(&STAND_BACK, come_back(Rc::clone(worker.own()), proxy, index));
    }
}

async fn come_back(own: Rc<Thread>, proxy: ProxyId, server: ServerIndex) {
    timer::sleep(STAND_BACK_MS).await;
    let Some(worker) = own.pin() else { return };
    if let Some(backend) = worker.instance.backends.get(proxy.0 as usize) {
        backend.balancer.put_back(server);
    }
}
