//! What is said of whole proxies: that they pause, go on and stop, and how they are when somebody asks (SIGHUP). It goes to the
//! logs of each proxy, and to the standard error.

use thalweg_config::model::{LogLevel, Proxy, ProxyId};
use thalweg_runtime::Handle;

use crate::backend::health::say;
use crate::counters::sum;
use crate::instance::Instance;
use crate::worker::{self, Worker};

/// A line about a proxy.
pub type Line = (ProxyId, String);

/// The proxies that listen, unless an operator closed them for good.
pub fn listening(instance: &Instance) -> impl Iterator<Item = &Proxy> {
    let listens = |proxy: &&Proxy| !proxy.disabled && !proxy.binds.is_empty() && !instance.is_shut(proxy.id);
    instance.config.proxies.iter().map(|proxy| &**proxy).filter(listens)
}

/// What messages call a proxy that listens.
pub fn title(proxy: &Proxy) -> String {
    let kind = if proxy.is_be() { "proxy" } else { "frontend" };
    format!("{kind} {}", proxy.name)
}

/// That a proxy accepts nothing for a while.
pub fn paused(proxy: &Proxy) -> Line {
    (proxy.id, format!("Paused {}.", title(proxy)))
}

/// That a proxy accepts again.
pub fn resumed(proxy: &Proxy) -> Line {
    (proxy.id, format!("Resumed {}.", title(proxy)))
}

/// That a proxy accepts nothing any more.
pub fn stopped(instance: &Instance, proxy: &Proxy) -> Line {
    let at = proxy.id.0 as usize;
    let frontend: u64 = instance.frontend_counters(proxy.id).map(|c| c.total.get()).sum();
    let backend = sum(&*instance.threads, |thread| &thread.backends[at].total);
    (proxy.id, format!("Proxy {} stopped (cumulated conns: FE: {frontend}, BE: {backend}).", proxy.name))
}

/// That all proxies stop, but for those that an operator stopped before.
pub fn all_stopped(instance: &Instance) -> Vec<Line> {
    let proxies = instance.config.proxies.iter();
    let run = proxies.filter(|proxy| !proxy.disabled && !instance.is_shut(proxy.id));
    run.map(|proxy| stopped(instance, proxy)).collect()
}

/// How each server and each proxy is.
pub fn states(instance: &Instance) -> Vec<Line> {
    let mut lines = Vec::new();
    for proxy in &instance.config.proxies {
        let backend = &instance.backends[proxy.id.0 as usize];
        for server in &proxy.servers {
            let state = if backend.is_up(server.id) { "UP" } else { "DOWN" };
            let index = instance.server_index(proxy.id, server.id);
            let total = instance.servers.sum(index, |c| &c.total);
            let line = format!(
                "SIGHUP: Server {}/{} is {state}. Conn: {} act, {} pend, {total} tot.",
                proxy.name,
                backend.identity(server).name,
                instance.server_streams(proxy.id, server.id),
                backend.server_queue_len(server.id),
            );
            lines.push((proxy.id, line));
        }
        let (active, backup) = backend.active_and_backup();
        let total: u64 = instance.frontend_counters(proxy.id).map(|c| c.total.get()).sum();
        let streams = instance.backend_streams(proxy.id).max(instance.frontend_connections(proxy.id));
        let what = if proxy.servers.is_empty() {
            "has no servers".to_owned()
        } else if active + backup == 0 {
            "has no server available!".to_owned()
        } else {
            format!("has {active} active servers and {backup} backup servers available")
        };
        let line = format!(
            "SIGHUP: Proxy {} {what}. Conn: act(FE+BE): {streams}+{streams}, {} pend (0 unass), tot(FE+BE): {total}+{total}.",
            proxy.name,
            backend.queue_len(),
        );
        lines.push((proxy.id, line));
    }
    lines
}

/// Lines with those of each proxy behind one that says so, as logs have them.
pub fn under_titles(instance: &Instance, lines: &[Line]) -> Vec<Line> {
    let mut titled = Vec::new();
    for of_proxy in lines.chunk_by(|one, next| one.0 == next.0) {
        let proxy = instance.config.proxy(of_proxy[0].0);
        titled.push((proxy.id, format!("SIGHUP received, dumping servers states for proxy {}.", proxy.name)));
        titled.extend_from_slice(of_proxy);
    }
    titled
}

/// Sends lines to the logs of their proxies, from the first thread: before whatever it is asked for from now on.
pub fn log(handle: &Handle, level: LogLevel, lines: Vec<Line>) {
    handle.run_on(0, move || {
        let Some(worker) = worker::current() else { return };
        // A reload may have brought other proxies meanwhile.
        let known = |id: ProxyId| worker.instance.config.proxies.iter().any(|proxy| proxy.id == id);
        let lines = lines.iter().filter(|(proxy, _)| known(*proxy));
        lines.for_each(|(proxy, line)| worker.log(*proxy, level, b"", line.as_bytes()));
    });
}

/// Sends a line to the logs of its proxy, and to the standard error.
pub fn tell(worker: &Worker, (proxy, line): &Line) {
    worker.log(*proxy, LogLevel::Warning, b"", line.as_bytes());
    say(worker, "WARNING", line);
}
