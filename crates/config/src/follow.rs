//! The numbers of what a configuration has. In the first one of a process they are places in the file; in one that follows another
//! ([`LoadOptions::after`](crate::LoadOptions::after)), what both have keeps its number, so that live state, which lies at the
//! numbers, stays its own.
//!
//! Two are the same that have the same `guid`, or else the same name: proxies of one name, servers of one name in the same
//! backend. Two listeners of the same frontend are the same at the same address, if both speak TLS or none does.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use thalweg_stick::Spec;
use thalweg_syntax::{Diagnostic, Span};

use crate::build::{Building, Cx};
use crate::dynamic;
use crate::model::{Bind, Config, Proxy, ProxyId, Server, ServerId, Shared};
use crate::proxy::TableDraft;

/// The configuration that another one follows, and where numbers come from for what that has besides.
#[derive(Clone, Copy)]
pub struct After<'a> {
    /// The one in force.
    pub config: &'a Config,
    pub numbers: &'a dyn Numbers,
    /// What was changed at run time is not kept.
    pub force: bool,
}

/// Numbers that nobody has. Each is given once.
pub trait Numbers {
    /// One for a proxy.
    fn proxy(&self) -> ProxyId;
    /// One for a server in a backend that is there already.
    fn server(&self, backend: ProxyId) -> ServerId;
    /// One for a listener.
    fn listener(&self) -> u32;
}

/// What a table is called that the configuration has no more: no name in a file can be that. Its number stays its own, since
/// entries may be tracked that are in it.
const GONE: char = '\0';

/// Numbers everything that was read. Names become numbers only after this.
pub(crate) fn assign(cx: &mut Cx<'_>) {
    let Some(after) = cx.options.after else {
        for (bind, number) in cx.proxies.iter_mut().flat_map(|b| &mut b.p.binds).zip(0..) {
            bind.number = number;
        }
        return;
    };
    let before = proxies_before(after.config, &cx.proxies);
    for (b, before) in cx.proxies.iter_mut().zip(before) {
        match before {
            Some(before) => {
                b.p.id = before.id;
                number_servers(&mut b.p.servers, &before.servers, || after.numbers.server(before.id));
            }
            None => b.p.id = after.numbers.proxy(),
        }
        number_binds(&mut b.p.binds, before.map_or(&[], |before| &before.binds), after.numbers);
        b.p.reindex();
    }
    for id in cx.by_name.values_mut() {
        *id = cx.proxies[id.0 as usize].p.id;
    }
    if let Some(span) = cx.proxies.first().map(|b| b.span) {
        let tables = std::mem::take(&mut cx.tables);
        cx.tables = order_tables(tables, &after.config.tables, span);
    }
}

/// What was added at run time is there as long as the process, in whatever configuration: the files know nothing of it. Not so
/// what has got the name of something in the files meanwhile, or whose backend is gone, and nothing where that is asked for.
pub(crate) fn keep_dynamic(cx: &mut Cx<'_>) {
    let Some(after) = cx.options.after.filter(|after| !after.force) else { return };
    let names: HashSet<Arc<str>> = cx.config.proxies.iter().map(|proxy| Arc::clone(&proxy.name)).collect();
    let is_kept = |before: &&Shared<Proxy>| before.is_dynamic && !names.contains(&before.name);
    for before in after.config.proxies.iter().filter(is_kept) {
        match dynamic::followed(&cx.reader.environment, &cx.config, after.config, before) {
            Ok(proxy) => cx.config.proxies.push(proxy),
            Err(why) => cx.diagnostics.push(Diagnostic::alert(format!(
                "backend '{}', which was added at run time, cannot stay : {why}",
                before.name
            ))),
        }
    }
    for proxy in &mut cx.config.proxies {
        let Some(before) = after.config.find_proxy(proxy.id) else { continue };
        let is_new = |server: &&Shared<Server>| {
            server.is_dynamic && proxy.is_be() && proxy.server_by_name(&server.name).is_none()
        };
        let kept: Vec<Shared<Server>> = before.servers.iter().filter(is_new).cloned().collect();
        if !kept.is_empty() {
            proxy.servers.extend(kept);
            proxy.reindex();
        }
    }
}

/// Of each proxy that was read, the one before that it is.
fn proxies_before<'c>(config: &'c Config, read: &[Building]) -> Vec<Option<&'c Proxy>> {
    let guids: HashMap<&str, &Proxy> =
        config.proxies.iter().filter_map(|p| Some((p.guid.as_deref()?, &**p))).collect();
    let names: HashMap<&str, &Proxy> = config.proxies.iter().map(|p| (&*p.name, &**p)).collect();
    let by_guid = |b: &Building| guids.get(b.p.guid.as_deref()?).copied();
    let taken: HashSet<ProxyId> = read.iter().filter_map(|b| Some(by_guid(b)?.id)).collect();
    let by_name = |b: &Building| names.get(&*b.p.name).copied().filter(|before| !taken.contains(&before.id));
    read.iter().map(|b| by_guid(b).or_else(|| by_name(b))).collect()
}

fn number_servers(servers: &mut [Shared<Server>], before: &[Shared<Server>], fresh: impl Fn() -> ServerId) {
    // As it mostly is: nothing came, nothing went.
    let same = |(server, before): (&Shared<Server>, &Shared<Server>)| {
        server.name == before.name && server.id == before.id && before.rare().guid.is_none()
    };
    if servers.len() == before.len() && servers.iter().zip(before).all(same) {
        return;
    }
    let guids: HashMap<&str, ServerId> =
        before.iter().filter_map(|s| Some((s.rare().guid.as_deref()?, s.id))).collect();
    let names: HashMap<&str, ServerId> = before.iter().map(|s| (&*s.name, s.id)).collect();
    let by_guid = |server: &Server| guids.get(server.rare().guid.as_deref()?).copied();
    let taken: HashSet<ServerId> = servers.iter().filter_map(|server| by_guid(server)).collect();
    let by_name = |server: &Server| names.get(&*server.name).copied().filter(|id| !taken.contains(id));
    for server in servers {
        server.id = by_guid(server).or_else(|| by_name(server)).unwrap_or_else(&fresh);
    }
}

fn number_binds(binds: &mut [Bind], before: &[Bind], numbers: &dyn Numbers) {
    let mut left: Vec<&Bind> = before.iter().collect();
    for bind in binds {
        let speaks_tls = |bind: &Bind| bind.tls.as_ref().is_some_and(|tls| tls.ssl);
        let found = left.iter().position(|old| {
            old.addr == bind.addr && old.interface == bind.interface && speaks_tls(old) == speaks_tls(bind)
        });
        bind.number = found.map_or_else(|| numbers.listener(), |at| left.remove(at).number);
    }
}

/// Tables in the order of their numbers: those of before where they were, under a name that nobody uses where they are gone or
/// became other ones, then those that are new.
fn order_tables(read: Vec<TableDraft>, before: &[Arc<Spec>], span: Span) -> Vec<TableDraft> {
    let gone = |spec: &Spec, name: &str| {
        let name = Arc::from(format!("{GONE}{name}"));
        let spec = Spec { name, peers: None, write_to: None, ..Spec::clone(spec) };
        TableDraft { spec, section: String::new(), span, write_to: None }
    };
    let mut read: Vec<Option<TableDraft>> = read.into_iter().map(Some).collect();
    let mut ordered = Vec::with_capacity(read.len().max(before.len()));
    for spec in before {
        let name = spec.name.trim_start_matches(GONE);
        let found =
            read.iter_mut().find(|draft| draft.as_ref().is_some_and(|d| is_table(&d.spec, spec, name)));
        ordered.push(found.and_then(Option::take).unwrap_or_else(|| gone(spec, name)));
    }
    ordered.extend(read.into_iter().flatten());
    ordered
}

/// Whether a table that was read is the one of before: it can hold the same entries. What persistence adds to what is kept, and
/// which table `write-to` names, is known later.
fn is_table(read: &Spec, before: &Spec, name: &str) -> bool {
    let kept = |stored: &thalweg_stick::Stored| before.data.contains(stored);
    *read.name == *name
        && (read.key, read.size, read.expire_ms, read.purge, read.server_key)
            == (before.key, before.size, before.expire_ms, before.purge, before.server_key)
        && (read.byte_rate_factor, read.bucket) == (before.byte_rate_factor, before.bucket)
        && read.data.iter().all(kept)
}

/// The number of a table that a rule makes, if the configuration before had it: until the rule is read it counts as gone.
pub(crate) fn table_before(tables: &[TableDraft], made: &Spec) -> Option<usize> {
    tables.iter().position(|draft| match draft.spec.name.strip_prefix(GONE) {
        Some(name) => is_table(made, &draft.spec, name),
        None => false,
    })
}

/// Whether it stands in for a table that the configuration has no more.
pub fn is_gone(table: &Spec) -> bool {
    table.name.starts_with(GONE)
}
