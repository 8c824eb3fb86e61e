//! How long streams took, as operators read it: what `show latency` shows, and the exporter and the page take from it.

use std::sync::Arc;

use thalweg_proxy::Instance;
use thalweg_proxy::counters::Counters;
use thalweg_proxy::latency::{Phase, Sum};

use crate::report::{Filter, Part, Place, Step, Walk};

/// The shares that are shown, in thousandths of the streams, with their names.
pub const SHARES: [(u64, &str); 5] = [(500, "p50"), (900, "p90"), (950, "p95"), (990, "p99"), (999, "p99.9")];

/// Times of a phase, of the frontend, listener, server or backend at this place.
pub fn of(instance: &Instance, place: Place, phase: Phase) -> Sum {
    let mut latencies = Vec::new();
    each_counters(instance, place, |counters| latencies.extend(counters.latency.get()));
    Sum::of(phase, latencies.into_iter().map(|latency| &**latency))
}

/// Visits what each thread counted at this place.
pub fn each_counters<'a>(instance: &'a Instance, place: Place, visit: impl FnMut(&'a Counters)) {
    let proxy = &instance.config.proxies[place.proxy];
    let threads = instance.threads.iter();
    match place.part {
        Part::Frontend => instance.frontend_counters(proxy.id).for_each(visit),
        Part::Listener(at) => {
            let index = proxy.binds[at].number as usize;
            threads.map(|thread| &thread.listeners[index]).for_each(visit);
        }
        Part::Server(at) => {
            let index = instance.server_index(proxy.id, proxy.servers[at].id);
            instance.servers.all(index).for_each(visit);
        }
        Part::Backend => threads.map(|thread| &thread.backends[proxy.id.0 as usize]).for_each(visit),
    }
}

/// `show latency`: a line for each phase of everything that served something, in CSV; times are in microseconds.
pub struct Table {
    instance: Arc<Instance>,
    walk: Walk,
    begun: bool,
}

impl Table {
    /// Of the proxies that the filter wants.
    pub fn new(instance: Arc<Instance>, filter: Filter) -> Table {
        Table { instance, walk: Walk::new(filter), begun: false }
    }

    /// Writes what comes next. False when that was the end.
    pub fn step(&mut self, out: &mut String) -> bool {
        if !std::mem::replace(&mut self.begun, true) {
            out.push_str("# pxname,svname,phase,streams,average");
            SHARES.iter().for_each(|(_, name)| out.push_str(&format!(",{name}")));
            out.push('\n');
        }
        let place = match self.walk.step(&self.instance) {
            Step::Shown(place) => place,
            Step::Hidden => return true,
            Step::End => return false,
        };
        let proxy = &self.instance.config.proxies[place.proxy];
        let name = place.name(&self.instance);
        for phase in Phase::ALL {
            let sum = of(&self.instance, place, phase);
            if sum.count == 0 {
                continue;
            }
            let (phase, count, average) = (phase.name(), sum.count, sum.average_us());
            out.push_str(&format!("{},{name},{phase},{count},{average}", proxy.name));
            for (share, _) in SHARES {
                out.push_str(&format!(",{}", sum.per_mille(share).unwrap_or(0)));
            }
            out.push('\n');
        }
        true
    }
}
