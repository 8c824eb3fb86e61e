//! A running process as something to explain from.

use std::sync::Arc;

use thalweg_config::Config;
use thalweg_config::model::{Proxy, ProxyId, SavedOperation, Server, ServerAddr, ServerId, Shared};
use thalweg_proxy::Instance;
use thalweg_runtime::clock;
use thalweg_stick::kept::{HEAD_LEN, Head, Now, Reader, Written};

/// Most bytes of entries of stick tables that come onto the stage.
const ENTRIES_MAX: usize = 64 << 20;

/// What a request is explained by: a configuration, and where it is that of a process, how that stands.
pub struct Scene {
    pub(crate) config: Config,
    pub(crate) live: Option<Live>,
}

/// A process at a moment.
pub(crate) struct Live {
    instance: Arc<Instance>,
    now: Now,
    /// Blocks of [`thalweg_stick::kept`].
    entries: Vec<u8>,
    /// What did not come along, for people.
    pub(crate) notes: Vec<String>,
}

impl From<Config> for Scene {
    fn from(config: Config) -> Scene {
        Scene { config, live: None }
    }
}

impl Scene {
    /// What a process has now: the configuration in force, servers as they stand, weigh and lie, those that were added included,
    /// maps, lists and certificates, entries of stick tables, variables of the process, and how busy everything is.
    pub fn of(instance: &Arc<Instance>) -> Scene {
        let now = Now { mono_us: clock::now_us(), wall_ms: clock::wall_us() / 1000 };
        let (entries, notes) = entries(instance, now);
        let live = Live { instance: Arc::clone(instance), now, entries, notes };
        Scene { config: configuration(instance), live: Some(live) }
    }
}

impl Live {
    /// Puts it onto the stage, before there is traffic.
    pub(crate) fn set_up(&self, stage: &Instance) {
        stage.take_over_figures(&self.instance, self.now.mono_us / 1000);
        // By the clock of the stage they were written just now.
        let now = Now { mono_us: clock::now_us(), ..self.now };
        let (mut reader, mut rest) = (Reader::default(), &self.entries[..]);
        while let Some((head, after)) = rest.split_first_chunk::<HEAD_LEN>() {
            let Some((head, (body, after))) =
                Head::read(head).and_then(|h| Some((h, after.split_at_checked(h.len)?)))
            else {
                return;
            };
            reader.take(head, body, &stage.tables, now);
            rest = after;
        }
    }
}

/// The entries of all tables as far as there is room for them, and what there was no room for.
fn entries(instance: &Instance, now: Now) -> (Vec<u8>, Vec<String>) {
    let (mut entries, mut notes) = (Vec::new(), Vec::new());
    for (_, table) in instance.named_tables() {
        let mut written = Written::default();
        while entries.len() < ENTRIES_MAX && written.block(&mut entries, table, now) {}
        if entries.len() >= ENTRIES_MAX {
            let name = &table.spec().name;
            notes.push(format!("table '{name}' is too large: not all of its entries are there"));
        }
    }
    (entries, notes)
}

/// The configuration in force with what became of it.
fn configuration(instance: &Instance) -> Config {
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
