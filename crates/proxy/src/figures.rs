//! How busy a process is, as another one that has just begun with its configuration takes it over: what `fe_conn`, `srv_sess_rate` and
//! their like tell there, what `leastconn` goes by, and the variables of the process. What was counted in all so far is not taken over.

use std::sync::PoisonError;

use thalweg_balance::ServerIndex;
use thalweg_config::model::Proxy;
use thalweg_runtime::clock;

use crate::counters::{Counters, Rate};
use crate::instance::Instance;

impl Instance {
    /// Takes over how busy `other` was at `then_ms` of its clock. Called on the first thread of this one, before it has traffic.
    ///
    /// Where there is a limit one place stays free: those who hold the others would let one go before long.
    pub fn take_over_figures(&self, other: &Instance, then_ms: u64) {
        self.process_gate.occupy(other.process_gate.current());
        for proxy in &self.config.proxies {
            if other.config.find_proxy(proxy.id).is_some() {
                self.take_over_frontend(other, proxy, then_ms);
                self.take_over_backend(other, proxy, then_ms);
            }
        }
        let theirs = other.process_vars.read().unwrap_or_else(PoisonError::into_inner);
        self.process_vars.write().unwrap_or_else(PoisonError::into_inner).copy(&theirs);
    }

    fn take_over_frontend(&self, other: &Instance, proxy: &Proxy, then_ms: u64) {
        let at = proxy.id.0 as usize;
        self.frontend_gates[at].occupy(other.frontend_gates[at].current());
        for bind in &proxy.binds {
            let number = bind.number as usize;
            self.listeners[number].gate.occupy(other.listeners[number].gate.current());
        }
        take_over_rates(self.threads[0].frontends.mine(at), other.frontend_counters(proxy.id), then_ms);
    }

    fn take_over_backend(&self, other: &Instance, proxy: &Proxy, then_ms: u64) {
        let at = proxy.id.0 as usize;
        let own = self.threads[0].backends.mine(at);
        own.current.add(other.backend_streams(proxy.id).into());
        take_over_rates(own, other.threads.iter().map(|thread| &thread.backends[at]), then_ms);
        let Some(theirs) = other.backends.get(at) else { return };
        let there = other.config.find_proxy(proxy.id).into_iter().flat_map(|proxy| &proxy.servers);
        for server in there {
            let number = ServerIndex(server.id.0);
            let counters = self.servers.mine(self.server_index(proxy.id, server.id), 0);
            let flat = other.server_index(proxy.id, server.id);
            counters.current.add(other.server_streams(proxy.id, server.id).into());
            take_over_rates(counters, other.servers.all(flat), then_ms);
            let limit = theirs.dynamic_maxconn(server).checked_sub(1).unwrap_or(u32::MAX);
            for _ in 0..theirs.balancer.load(number).served().min(limit) {
                self.backends[at].balancer.conn_started(number);
            }
        }
    }
}

/// As many began in the last second as in that of all of `theirs`.
fn take_over_rates<'a>(own: &Counters, theirs: impl Iterator<Item = &'a Counters> + Clone, then_ms: u64) {
    let sum = |pick: fn(&Counters) -> &Rate| theirs.clone().map(|c| pick(c).per_second(then_ms)).sum();
    let now_ms = clock::now_ms();
    own.session_rate.begin_with(now_ms, sum(|c| &c.session_rate));
    own.request_rate.begin_with(now_ms, sum(|c| &c.request_rate));
    own.connection_rate.begin_with(now_ms, sum(|c| &c.connection_rate));
}
