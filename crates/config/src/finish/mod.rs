//! Once all files are read: names are resolved, late lines are read, consistency is checked, limits are computed.

pub(crate) mod checks;
mod formats;
mod limits;
pub(crate) mod names;
mod resolvers;
mod reverse;
mod track;

pub(crate) use formats::{FormatKey, proxy_fields};

use std::sync::Arc;

use thalweg_syntax::Span;

use crate::build::{Building, Cx, DefaultsSection, Inherited, Sides};
use crate::keyword::{Status, find};
use crate::model::Mode;
use crate::sample_env::{NameTable, process_variables};
use crate::table::PROXY;
use crate::{proxy, replies, rules};

/// Completes the configuration.
/// In one piece, as it is the order of steps.
pub(crate) fn finish(cx: &mut Cx<'_>) {
    crate::follow::assign(cx);
    place_proxies(cx);
    crate::resolvers::add_default(cx);
    assign_ids(cx);
    crate::server_state::load(cx);
    proxy::stats_accounts(cx);
    cx.name_table = names(cx);
    process_variables(cx);
    crate::log_profile::compile(cx);
    crate::log::check_names(cx);
    for section in std::mem::take(&mut cx.defaults) {
        compile_preset(cx, &section);
    }
    // What follows from a line that could not be read would only repeat it in other words.
    let readable = !cx.diagnostics.has_errors();
    crate::check::section::compile(cx);
    let mut proxies = std::mem::take(&mut cx.proxies);
    for b in &mut proxies {
        let from = b.from.take();
        let preset = from.as_ref().and_then(|section| section.compiled.get());
        // Inherited rules run first and count their slots first.
        if let Some(preset) = preset.filter(|_| b.p.is_fe()) {
            b.p.request_captures = Arc::clone(&preset.captures.0);
            b.p.response_captures = Arc::clone(&preset.captures.1);
        }
        late_lines(cx, b);
        resolve(cx, b);
        proxy::settle_filters(cx, b);
        proxy::dynamic_cookies(cx, b);
        proxy::settle_stats(cx, b);
        rules::settle(cx, b, preset.map(|p| &p.rules));
        replies::settle(cx, b);
        formats::compile(cx, b);
        names::compile(cx, b);
        crate::mailers::resolve(cx, b);
        crate::check::compile(cx, b);
        if readable {
            checks::proxy(cx, b);
        }
    }
    load_tls(cx, &mut proxies, readable);
    cx.proxies = proxies;
    crate::peers::finish(cx);
    crate::traces::apply(cx);
    track::resolve(cx);
    resolvers::resolve(cx);
    reverse::resolve(cx);
    cx.config.tables = cx.tables.drain(..).map(|draft| Arc::new(draft.spec)).collect();
    if readable {
        checks::process(cx);
    }
    limits::compute(cx);
    cx.config.registry = Arc::clone(&cx.registry);
    let mut named: std::collections::HashSet<thalweg_sample::ProxyId> = std::collections::HashSet::new();
    for b in &cx.proxies {
        named.extend(b.p.default_backend);
        named.extend(b.p.use_backend.iter().filter_map(|rule| match rule.target {
            crate::model::DynamicTarget::Static(id) => Some(id),
            crate::model::DynamicTarget::Dynamic(_) => None,
        }));
        named.extend(b.p.servers.iter().filter_map(|server| server.rare().track).map(|(proxy, _)| proxy));
    }
    cx.config.proxies.reserve_exact(cx.proxies.len());
    for mut b in cx.proxies.drain(..) {
        let id = b.p.id;
        for server in &mut b.p.servers {
            server.is_referenced |= cx.name_table.is_referenced(id, server.id);
        }
        b.p.is_referenced = named.contains(&id)
            || cx.name_table.names_backend(id)
            || cx.config.tables.iter().any(|table| table.name == b.p.name);
        cx.config.proxies.push(b.p.into());
    }
    crate::follow::keep_dynamic(cx);
    cx.config.reindex();
}

/// Every name that expressions may use. What joins a configuration in force may use those of that.
fn names(cx: &Cx<'_>) -> NameTable {
    if let Some(config) = cx.in_force {
        return NameTable::of(config);
    }
    let proxies = || cx.proxies.iter().map(|b| &b.p);
    let tables = cx.tables.iter().map(|table| &table.spec);
    NameTable::new(proxies, &cx.config.userlists, &cx.config.rings, tables)
}

/// Compiles the late lines of a `defaults` section, once for all that inherit them.
fn compile_preset(cx: &mut Cx<'_>, section: &Arc<DefaultsSection>) {
    if section.building.late.is_empty() || section.compiled.get().is_some() {
        return;
    }
    let mut b = section.building.heir();
    b.late.clone_from(&section.building.late);
    late_lines(cx, &mut b);
    let is_heir = |b: &Building| b.from.as_ref().is_some_and(|from| Arc::ptr_eq(from, section));
    let by_frontends = cx.proxies.iter().any(|b| b.p.is_fe() && is_heir(b));
    let captures = (Arc::clone(&b.p.request_captures), Arc::clone(&b.p.response_captures));
    if let Some(drafts) = b.drafts {
        let inherited = Inherited { rules: drafts.sets, captures, by_frontends };
        section.compiled.get_or_init(|| inherited);
    }
}

/// What proxies must know of one another, by number.
fn place_proxies(cx: &mut Cx<'_>) {
    let end = cx.proxies.iter().map(|b| b.p.id.0 as usize + 1).max().unwrap_or(0);
    let nobody = Sides { frontend: false, backend: false, mode: Mode::Tcp };
    cx.sides = vec![nobody; end];
    cx.places = cx.proxies.first().map_or_else(Vec::new, |b| vec![b.span; end]);
    for b in &cx.proxies {
        let at = b.p.id.0 as usize;
        cx.sides[at] = Sides { frontend: b.p.is_fe(), backend: b.p.is_be(), mode: b.p.mode };
        cx.places[at] = b.span;
    }
}

/// Loads what TLS needs. Peers, rings, name servers, `log-forward` sections and the CLI speak it as servers and listeners of proxies do.
fn load_tls(cx: &mut Cx<'_>, proxies: &mut Vec<Building>, readable: bool) {
    let own = proxies.len();
    let collectors = cx.collectors.take();
    let has_collectors = collectors.is_some();
    proxies.extend(collectors.map(|building| *building));
    for draft in &mut cx.peers {
        let span = draft.building.span;
        proxies.push(std::mem::replace(&mut *draft.building, proxy::fresh(span)));
    }
    let (rings, servers): (Vec<_>, Vec<_>) = std::mem::take(&mut cx.ring_servers).into_iter().unzip();
    proxies.extend(servers.into_iter().map(|building| *building));
    let (sections, servers): (Vec<_>, Vec<_>) = std::mem::take(&mut cx.name_servers).into_iter().unzip();
    proxies.extend(servers.into_iter().map(|building| *building));
    let (forwards, listens): (Vec<_>, Vec<_>) = std::mem::take(&mut cx.log_forwards).into_iter().unzip();
    proxies.extend(listens.into_iter().map(|building| *building));
    if let Some(span) = cx.cli {
        let mut cli = proxy::fresh(span);
        cli.p.name = cx.name("GLOBAL");
        cli.p.kind = crate::model::ProxyKind::Frontend;
        cli.p.binds = std::mem::take(&mut cx.config.global.stats_sockets);
        proxies.push(cli);
    }
    crate::tls::load(cx, proxies, readable);
    let mut guests = proxies.drain(own..);
    if let Some(servers) = guests.by_ref().take(usize::from(has_collectors)).next() {
        crate::opentelemetry::settle(cx, servers);
    }
    for (draft, building) in cx.peers.iter_mut().zip(&mut guests) {
        *draft.building = building;
    }
    for (name, servers) in rings.iter().zip(&mut guests) {
        crate::ring::settle(cx, name, servers);
    }
    for (position, servers) in sections.into_iter().zip(&mut guests) {
        crate::resolvers::settle(cx, position, servers);
    }
    for (forward, listens) in forwards.into_iter().zip(&mut guests) {
        crate::log_forward::settle(cx, forward, listens);
    }
    cx.config.global.stats_sockets = guests.next().map_or_else(Vec::new, |cli| cli.p.binds);
}

/// Numbers proxies from 2, listeners and servers from 1, in order, around the numbers given explicitly.
fn assign_ids(cx: &mut Cx<'_>) {
    let mut taken: std::collections::HashSet<u32> =
        cx.proxies.iter().map(|b| b.p.uid).filter(|u| *u != 0).collect();
    let mut next = 2;
    for b in &mut cx.proxies {
        b.p.uid_given = b.p.uid != 0;
        for server in &mut b.p.servers {
            server.uid_given = server.uid != 0;
        }
        if b.p.uid == 0 {
            while !taken.insert(next) {
                next += 1;
            }
            b.p.uid = next;
        }
        number(b.p.binds.iter_mut().map(|x| &mut x.uid), |_, given| given.saturating_add(1));
        // As in the reference, one that was given takes the place of the one it would have got.
        number(b.p.servers.iter_mut().map(|x| &mut x.uid), |next, _| next + 1);
    }
}

/// Gives each 0 a free number. The search goes on from the number that `following` says follows one that was given: what
/// was searched from, and the number given.
fn number<'a>(ids: impl Iterator<Item = &'a mut u32>, following: fn(u32, u32) -> u32) {
    let ids: Vec<&mut u32> = ids.collect();
    let mut taken: std::collections::HashSet<u32> = ids.iter().map(|u| **u).filter(|u| *u != 0).collect();
    let mut next = 1;
    for id in ids {
        if *id == 0 {
            while !taken.insert(next) {
                next += 1;
            }
            *id = next;
            next += 1;
        } else {
            next = following(next, *id);
        }
    }
}

/// Reads the lines that had to wait for all names.
fn late_lines(cx: &mut Cx<'_>, b: &mut Building) {
    for line in std::mem::take(&mut b.late) {
        let Some(keyword) = find(PROXY, line.text(0)) else { continue };
        if let Status::Works(parse) = keyword.status
            && let Err(e) = parse(cx, b, &line)
        {
            cx.diagnostics.push(*e);
        }
    }
}

/// Turns names into positions.
fn resolve(cx: &mut Cx<'_>, b: &mut Building) {
    // A backend inherits one that is not meant for it.
    let own = |span: Span| span.file == b.span.file && span.line > b.span.line;
    if let Some((name, span)) = b.default_backend.take().filter(|(_, span)| b.p.is_fe() || own(*span)) {
        match proxy::backend_named(cx, b, span, &name, "default_backend") {
            Ok(id) => b.p.default_backend = Some(id),
            Err(e) => cx.diagnostics.push(*e),
        }
    }
    let is_http = b.p.mode == Mode::Http;
    if !b.decided.abortonclose {
        b.p.opts.abortonclose |= is_http;
    }
    if !b.decided.tcp_smart_accept {
        b.p.opts.tcp_smart_accept |= is_http;
    }
}
