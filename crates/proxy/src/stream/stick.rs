//! Persistence by stick tables: `stick match`, `stick on`, `stick store-request`, `stick store-response` (manual section 4.2).
//!
//! Keys of requests are taken when a server is to be chosen, and kept with the one that was connected to.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_balance::ServerIndex;
use thalweg_config::model::{Proxy, Server, ServerAddr, ServerId, StickRule, StickStore};
use thalweg_runtime::clock;
use thalweg_sample::acl::Verdict;
use thalweg_sample::context::{Ctx, Payload};
use thalweg_sample::facts::TableId;
use thalweg_sample::track::with_key;
use thalweg_stick::{DataType, KeyType, ServerKey, Table, Values};

use super::watch::{announce, is_watched};
use super::{Bodies, Stream};
use crate::backend::Backend;
use crate::connection::port::Port;

/// The most keys that are kept of a request, and of a response.
const STORES_MAX: usize = 8;

type KeyBytes = SmallVec<[u8; 32]>;

/// Keys to be kept with the server of a stream, each in a table of its own.
#[derive(Default)]
pub struct Pending(Vec<(TableId, KeyBytes)>);

impl Pending {
    /// Forgets them.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn has(&self, table: TableId) -> bool {
        self.0.len() >= STORES_MAX || self.0.iter().any(|(known, _)| *known == table)
    }
}

/// The server that a table names for the request, and the keys to be kept. With `chosen` only the latter: another kind of
/// persistence has named a server.
pub fn request(stream: &mut Stream<'_>, be: &Proxy, chosen: bool) -> Option<ServerIndex> {
    let mut wanted = None;
    let mut pending = std::mem::take(&mut stream.state.stick);
    pending.clear();
    for rule in be.stick_rules.iter().filter(|rule| rule.store != Some(StickStore::Response)) {
        let looks = rule.matches && wanted.is_none() && !chosen;
        let stores = rule.store.is_some() && !pending.has(rule.table);
        if !looks && !stores {
            continue;
        }
        let http = stream.state.facts.is_http;
        let key = match http {
            true => stream.evaluate(true, |cx, _| key_of(rule, cx)),
            false => {
                let Stream { worker, session, client, state, .. } = stream;
                let request = Payload::new(client.received(), true, None);
                let bodies = Bodies { request, ..Bodies::default() };
                state
                    .evaluate(worker, &mut session.facts_mut(), bodies, false, true, |cx, _| key_of(rule, cx))
            }
        };
        let Some(key) = key else { continue };
        if looks {
            let table = &stream.worker.tables[rule.table.0 as usize];
            wanted = server_of(stream, be, table, &key);
            if is_watched(stream) {
                tell(stream, be, table, &key, wanted);
            }
        }
        if stores {
            pending.0.push((rule.table, key));
        }
    }
    stream.state.stick = pending;
    wanted
}

/// Tells whoever watches what a table says of a key.
#[cold]
fn tell(stream: &Stream<'_>, be: &Proxy, table: &Table, key: &[u8], wanted: Option<ServerIndex>) {
    let key = match (table.spec().key, <[u8; 4]>::try_from(key), <[u8; 16]>::try_from(key)) {
        (KeyType::Ip4, Ok(address), _) => Ipv4Addr::from(address).to_string(),
        (KeyType::Integer, Ok(number), _) => u32::from_be_bytes(number).to_string(),
        (KeyType::Ip6, _, Ok(address)) => Ipv6Addr::from(address).to_string(),
        _ => key.escape_ascii().to_string(),
    };
    let server = wanted.and_then(|wanted| be.server(ServerId(wanted.0)));
    let says = server.map_or("names no server".to_owned(), |server| format!("names {}", server.name));
    announce(stream, "stick", &format!("{key} in table {} {says}", table.spec().name), &be.file, be.line);
}

/// The stream is connected to a server: the keys of its request are kept with it.
pub fn connected(stream: &mut Stream<'_>, be: &Proxy, server: &Server) {
    let pending = std::mem::take(&mut stream.state.stick);
    store(stream, be, server, &pending);
    stream.state.stick = pending;
    // What is sent again to another server is kept with that one.
}

/// A server answers: the keys of its response are kept with it. Those of TCP are taken from what came of it so far.
pub fn response(stream: &mut Stream<'_>, be: &Proxy, server: &Server, port: &Port) {
    let mut pending = Pending::default();
    for rule in be.stick_rules.iter().filter(|rule| rule.store == Some(StickStore::Response)) {
        if pending.has(rule.table) {
            continue;
        }
        let Stream { worker, session, state, .. } = stream;
        let response = match state.facts.is_http {
            true => Payload::default(),
            false => Payload::new(port.received(), true, None),
        };
        let bodies = Bodies { response, ..Bodies::default() };
        let key =
            state.evaluate(worker, &mut session.facts_mut(), bodies, true, true, |cx, _| key_of(rule, cx));
        if let Some(key) = key {
            pending.0.push((rule.table, key));
        }
    }
    store(stream, be, server, &pending);
}

/// The key that a rule takes, if its condition holds.
fn key_of(rule: &StickRule, cx: &mut Ctx) -> Option<KeyBytes> {
    if rule.cond.as_ref().is_some_and(|cond| cond.eval(cx) != Verdict::Pass) {
        return None;
    }
    cx.reset();
    let mut sample = rule.expr.eval(cx)?;
    let world = cx.world;
    let table: &Table = world.table(rule.table)?;
    with_key(&mut sample, table, cx, |key| KeyBytes::from_slice(key.bytes()))
}

/// The server that the entry of a key names, unless it cannot be used.
fn server_of(stream: &Stream<'_>, be: &Proxy, table: &Table, key: &[u8]) -> Option<ServerIndex> {
    let now_ms = clock::now_ms();
    let entry = table.find(table.spec().key.key(key)?, now_ms)?;
    // To be matched is to be used.
    entry.touch(now_ms);
    let backend = stream.worker.backend(be.id);
    let server = named(table, entry.values(), be, backend, now_ms)?;
    // A server that is down is not insisted on, unless that is asked for.
    let insist = be.opts.persist || stream.state.cookie.forced;
    (insist || backend.is_up(server.id)).then_some(ServerIndex(server.id.0))
}

/// The server of a backend that an entry names: by its name or address, or else by its number.
fn named<'b>(
    table: &Table,
    values: Values,
    be: &'b Proxy,
    backend: &Backend,
    now_ms: u64,
) -> Option<&'b Server> {
    let name = values.get(DataType::ServerKey, now_ms).and_then(|number| table.name(number));
    let servers = || be.servers.iter().map(|server| &**server);
    let by_name = name.and_then(|name| match table.spec().server_key {
        ServerKey::Name => backend.server_by_name(be, &name),
        ServerKey::Address => servers().find(|server| address(backend, server) == *name),
    });
    by_name.or_else(|| {
        let number = values.get(DataType::ServerId, now_ms).filter(|number| *number != 0)?;
        servers().find(|server| u64::from(server.uid) == number)
    })
}

/// What `srvkey addr` calls a server.
fn address(backend: &Backend, server: &Server) -> String {
    match backend.identity(server).addr {
        ServerAddr::Tcp(addr) => addr.to_string(),
        _ => String::new(),
    }
}

fn store(stream: &Stream<'_>, be: &Proxy, server: &Server, pending: &Pending) {
    if pending.0.is_empty() || server.rare().non_stick {
        return;
    }
    let now_ms = clock::now_ms();
    let backend = stream.worker.backend(be.id);
    for (id, key) in &pending.0 {
        let table: &Table = &stream.worker.tables[id.0 as usize];
        let Some(key) = table.spec().key.key(key) else { continue };
        // Without room the stream goes on, unlearnt.
        let Ok(entry) = table.find_or_insert(key, now_ms) else { continue };
        let values = entry.values();
        values.set(DataType::ServerId, u64::from(server.uid), now_ms);
        if table.has(DataType::ServerKey) {
            let name: Arc<str> = match table.spec().server_key {
                ServerKey::Name => backend.identity(server).name,
                ServerKey::Address => address(backend, server).into(),
            };
            values.set(DataType::ServerKey, table.name_number(&name).map_or(0, u64::from), now_ms);
        }
        entry.touch(now_ms);
    }
}
