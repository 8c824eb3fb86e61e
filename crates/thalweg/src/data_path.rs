//! The seam to the data path: what each thread does with its listeners, and how it is told to stop.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use thalweg_config::Config;
use thalweg_config::model::Proxy;
use thalweg_proxy::announce::{self, Line};
use thalweg_proxy::log_forward::LogSocket;
use thalweg_proxy::{Instance, Live, ThreadSocket};
use thalweg_runtime::net::Port;
use thalweg_runtime::{Handle, clock};
use thalweg_stick::Table;

/// What all threads share.
#[derive(Clone)]
pub struct DataPath(Arc<Live>);

impl DataPath {
    /// Prepares the live state for a configuration, whose stick tables are `tables`. `program` is the name that tags logs.
    pub fn new(config: Config, tables: Arc<[Arc<Table>]>, program: &str) -> (DataPath, Arc<Instance>) {
        let hostname = thalweg_sys::net::hostname();
        let counted = config.global.stats_file.clone();
        let instance = Instance::with_tables(config, tables, (program, &hostname), clock::wall_us());
        if let Some(text) = counted {
            thalweg_statistics::stats_file::load(&instance, &text);
        }
        (DataPath(Arc::clone(&instance.live)), instance)
    }

    /// Starts to serve on the calling thread.
    pub fn start_thread(&self, thread: usize, sockets: Vec<ThreadSocket>) {
        if let Some(instance) = self.instance() {
            thalweg_proxy::start_thread(&instance, thread, sockets);
        }
    }

    /// Keeps how long the start took.
    pub fn serves_after(&self, ms: u32) {
        self.0.boot_ms.store(ms, Ordering::Relaxed);
    }

    /// Serves sockets of `log-forward` sections on the calling thread.
    pub fn start_log_forwards(&self, sockets: Vec<(usize, LogSocket)>) {
        thalweg_proxy::start_log_forwards(sockets);
    }

    /// Serves sockets of `peers` sections on the calling thread.
    pub fn start_peers(&self, sockets: Vec<(usize, Arc<Port>)>) {
        thalweg_proxy::start_peers(sockets);
    }

    /// Tells rules and operators that a soft stop will begin.
    pub fn announce_stop(&self) {
        self.0.announce_stop();
    }

    /// Stops listening on every thread; the runtime stops when nothing is left to do.
    pub fn soft_stop(&self, handle: &Handle) {
        thalweg_proxy::soft_stop(&self.0, handle);
    }

    /// Ends every session.
    pub fn hard_stop(&self, handle: &Handle) {
        thalweg_proxy::hard_stop(&self.0, handle);
    }

    /// Stops listening for a while.
    pub fn pause(&self, handle: &Handle) {
        thalweg_proxy::set_paused(&self.0, handle, true);
    }

    /// Listens again.
    pub fn resume(&self, handle: &Handle) {
        thalweg_proxy::set_paused(&self.0, handle, false);
    }

    /// The configuration in force and its live state; `None` once nobody serves any more.
    pub fn instance(&self) -> Option<Arc<Instance>> {
        self.0.current()
    }

    /// A line for each proxy that listens, as `line` has it.
    pub fn of_listening(&self, line: fn(&Proxy) -> Line) -> Vec<Line> {
        let Some(instance) = self.instance() else { return Vec::new() };
        announce::listening(&instance).map(line).collect()
    }

    /// One line for each proxy that a soft stop stops.
    pub fn farewells(&self) -> Vec<Line> {
        self.instance().map_or_else(Vec::new, |instance| announce::all_stopped(&instance))
    }

    /// One line for each proxy that still has clients, for a soft stop that took too long.
    pub fn remaining(&self) -> Vec<String> {
        let Some(instance) = self.instance() else { return Vec::new() };
        let proxies = instance.config.proxies.iter().filter(|proxy| !proxy.disabled);
        proxies
            .map(|proxy| (&proxy.name, instance.frontend_connections(proxy.id)))
            .filter(|(_, connections)| *connections > 0)
            .map(|(name, n)| format!("Proxy {name} hard-stopped ({n} remaining conns will be closed)."))
            .collect()
    }
}
