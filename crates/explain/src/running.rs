//! A running process as something to explain from.

use std::sync::Arc;

use thalweg_config::Config;
use thalweg_config::model::{Proxy, ProxyId, SavedOperation, Server, ServerAddr, ServerId, Shared};
use thalweg_proxy::Instance;

/// The configuration in force with what became of it: servers stand, weigh and lie where they do now, those that were added
/// are there. Maps, lists and certificates are the running ones. What streams and sessions hold, tables and counters begin
/// empty.
pub fn running(instance: &Instance) -> Config {
    let mut config = instance.config.clone();
    config.saved_states = thalweg_proxy::saved_states(instance);
    for state in &mut config.saved_states {
        // Names that lead nowhere now are given addresses on the stage: those servers are down all the same.
        if instance.backends[state.proxy.0 as usize].standing(state.server).unresolved {
            state.operation = Some(SavedOperation::Stopped);
        }
    }
    for proxy in &mut config.proxies {
        let backend = &instance.backends[proxy.id.0 as usize];
        for at in 0..proxy.servers.len() {
            let now = backend.identity(&proxy.servers[at]).addr;
            if proxy.servers[at].addr != now && !matches!(now, ServerAddr::Unresolved(..)) {
                proxy.servers[at].addr = now;
            }
        }
        fill_servers(proxy);
    }
    fill_proxies(&mut config);
    config
}

/// The stage numbers servers by their places. A number that nobody has, because its server was removed, gets one that is out
/// of service.
fn fill_servers(proxy: &mut Proxy) {
    let Some(model) = proxy.servers.first().cloned() else { return };
    proxy.servers.sort_unstable_by_key(|server| server.id.0);
    let count = proxy.servers.last().map_or(0, |server| server.id.0 + 1);
    if count as usize == proxy.servers.len() {
        return proxy.reindex();
    }
    let mut there = std::mem::take(&mut proxy.servers).into_iter().peekable();
    proxy.servers = (0..count)
        .map(|number| match there.next_if(|server| server.id.0 == number) {
            Some(server) => server,
            None => removed_server(&model, number),
        })
        .collect();
    proxy.reindex();
}

fn removed_server(model: &Server, number: u32) -> Shared<Server> {
    let name = format!("(removed {number})").into();
    Server { id: ServerId(number), name, disabled: true, check: None, extra: None, ..model.clone() }.into()
}

/// The same for backends.
fn fill_proxies(config: &mut Config) {
    let Some(model) = config.proxies.first().cloned() else { return };
    config.proxies.sort_unstable_by_key(|proxy| proxy.id.0);
    let count = config.proxies.last().map_or(0, |proxy| proxy.id.0 + 1);
    if count as usize != config.proxies.len() {
        let mut there = std::mem::take(&mut config.proxies).into_iter().peekable();
        config.proxies = (0..count)
            .map(|number| match there.next_if(|proxy| proxy.id.0 == number) {
                Some(proxy) => proxy,
                None => removed_proxy(&model, number),
            })
            .collect();
    }
    config.reindex();
}

fn removed_proxy(model: &Proxy, number: u32) -> Shared<Proxy> {
    let mut proxy = model.clone();
    proxy.id = ProxyId(number);
    proxy.name = Arc::from(format!("(removed {number})"));
    proxy.disabled = true;
    proxy.binds.clear();
    proxy.servers.clear();
    proxy.reindex();
    proxy.into()
}
