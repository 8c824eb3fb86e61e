//! Counters that outlive the process (`stats-file`, management manual: `dump stats-file`): a table of frontends and their
//! listeners, one of backends and servers, each row under the `guid` of what it counts.

use std::collections::HashMap;

use thalweg_config::model::{ProxyId, ServerId};
use thalweg_proxy::Instance;
use thalweg_proxy::counters::{Counter, Counters};

use crate::Value;
use crate::columns::{COLUMNS, ONLY_BACKEND, ONLY_FRONTEND};
use crate::rows;
use crate::stat::Row;

/// What an identifier names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Frontend(ProxyId),
    /// By its position in the instance.
    Listener(ProxyId, usize),
    Backend(ProxyId),
    Server(ProxyId, ServerId),
}

/// The counter behind a column. Rates, times and the history of health begin anew.
fn counter<'c>(column: &str, counters: &'c Counters) -> Option<&'c Counter> {
    Some(match column {
        "stot" => &counters.total,
        "bin" | "reqbin" => &counters.request_bytes_in,
        "bout" | "resbin" => &counters.response_bytes_in,
        "reqbout" => &counters.request_bytes_out,
        "resbout" => &counters.response_bytes_out,
        "dreq" => &counters.denied_requests,
        "dresp" => &counters.denied_responses,
        "dcon" => &counters.denied_connections,
        "dses" => &counters.denied_sessions,
        "ereq" => &counters.failed_requests,
        "econ" => &counters.failed_connections,
        "eresp" => &counters.failed_responses,
        "eint" => &counters.internal_errors,
        "wretr" => &counters.retries,
        "wredis" => &counters.redispatches,
        "wrew" => &counters.failed_rewrites,
        "lbtot" => &counters.chosen,
        "cli_abrt" => &counters.client_aborts,
        "srv_abrt" => &counters.server_aborts,
        "connect" => &counters.connection_attempts,
        "reuse" => &counters.connection_reuses,
        "conn_tot" => &counters.connections,
        "req_tot" => &counters.requests,
        "intercepted" => &counters.intercepted,
        "hrsp_1xx" => &counters.responses_1xx,
        "hrsp_2xx" => &counters.responses_2xx,
        "hrsp_3xx" => &counters.responses_3xx,
        "hrsp_4xx" => &counters.responses_4xx,
        "hrsp_5xx" => &counters.responses_5xx,
        "hrsp_other" => &counters.responses_other,
        _ => return None,
    })
}

/// Whatever has an identifier, by it.
fn names(instance: &Instance) -> HashMap<&str, Named> {
    let mut names = HashMap::new();
    for proxy in &instance.config.proxies {
        if let Some(guid) = proxy.guid.as_deref() {
            let named = if proxy.is_fe() { Named::Frontend(proxy.id) } else { Named::Backend(proxy.id) };
            names.insert(guid, named);
        }
        for bind in proxy.binds.iter().filter(|_| proxy.opts.socket_stats) {
            if let Some(guid) = bind.guid.as_deref() {
                names.insert(guid, Named::Listener(proxy.id, bind.number as usize));
            }
        }
        for server in &proxy.servers {
            if let Some(guid) = server.rare().guid.as_deref() {
                names.insert(guid, Named::Server(proxy.id, server.id));
            }
        }
    }
    names
}

/// Counts on from what a file says. To be called before any thread counts. Rows of what is not there any more, columns
/// that are not known and values that are no numbers are passed over.
pub fn load(instance: &Instance, text: &str) {
    let names = names(instance);
    // What listeners have is part of what their frontend has.
    let mut of_frontends = Vec::new();
    let mut columns: Vec<&str> = Vec::new();
    let mut is_front = None;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("//")) {
        let mut words = line.split(',');
        let first = words.next().unwrap_or("");
        if let Some(title) = first.strip_prefix('#') {
            is_front = match title {
                "fe guid" => Some(true),
                "be guid" => Some(false),
                _ => None,
            };
            columns = words.collect();
            continue;
        }
        let Some(front) = is_front else { continue };
        let values = || columns.iter().copied().zip(line.split(',').skip(1));
        let mine = &instance.threads[0];
        let target = match (names.get(first), front) {
            (Some(Named::Frontend(proxy)), true) => {
                of_frontends.push((*proxy, values().collect::<Vec<_>>()));
                continue;
            }
            (Some(Named::Listener(_, index)), true) => mine.listeners.mine(*index),
            // A `listen` section has one identifier for both its sides.
            (Some(Named::Backend(proxy) | Named::Frontend(proxy)), false) => {
                mine.backends.mine(proxy.0 as usize)
            }
            (Some(Named::Server(proxy, server)), false) => {
                instance.servers.mine(instance.server_index(*proxy, *server), 0)
            }
            _ => continue,
        };
        set(target, values());
    }
    for (proxy, values) in of_frontends {
        let listeners = || instance.config.proxy(proxy).binds.iter().map(|bind| bind.number as usize);
        let Some(first) = listeners().next() else { continue };
        let mine = instance.threads[0].listeners.mine(first);
        for (column, value) in values {
            let (Some(own), Ok(value)) = (counter(column, mine), value.parse::<u64>()) else { continue };
            let others: u64 = listeners()
                .filter(|at| *at != first)
                .filter_map(|at| Some(counter(column, instance.threads[0].listeners.mine(at))?.get()))
                .sum();
            own.set(own.get().max(value.saturating_sub(others)));
        }
    }
}

fn set<'a>(counters: &Counters, values: impl Iterator<Item = (&'a str, &'a str)>) {
    for (column, value) in values {
        if let (Some(counter), Ok(value)) = (counter(column, counters), value.parse()) {
            counter.set(value);
        }
    }
}

/// The counters of what has a `guid`, first of frontends and listeners, then of backends and servers.
pub fn dump(instance: &Instance) -> String {
    lines(instance).collect()
}

/// The same line by line, each with its end: as they are when they are asked for.
pub fn lines(instance: &Instance) -> impl Iterator<Item = String> {
    let proxies = move || instance.config.proxies.iter().filter(|proxy| !proxy.disabled);
    let before = proxies().filter(|proxy| proxy.is_fe()).flat_map(move |proxy| {
        let own = proxy.guid.as_deref().map(|guid| (guid, rows::frontend(instance, proxy)));
        let binds = proxy.binds.iter().enumerate().filter(|_| proxy.opts.socket_stats);
        let listeners =
            binds.filter_map(|(at, bind)| Some((bind.guid.as_deref()?, rows::listener(instance, proxy, at))));
        own.into_iter().chain(listeners)
    });
    let behind = proxies().filter(|proxy| proxy.is_be()).flat_map(move |proxy| {
        let servers = proxy.servers.iter().filter_map(move |server| {
            Some((server.rare().guid.as_deref()?, rows::server(instance, proxy, server)))
        });
        servers.chain(proxy.guid.as_deref().map(|guid| (guid, rows::backend(instance, proxy))))
    });
    let between = std::iter::once("\n".to_owned());
    side("fe", ONLY_BACKEND, before).chain(between).chain(side("be", ONLY_FRONTEND, behind))
}

/// One half of a stats file: its columns but for those of the other side, and its rows.
fn side<'g>(
    side: &str,
    others: &[&str],
    rows: impl Iterator<Item = (&'g str, Row)>,
) -> impl Iterator<Item = String> {
    let kept: Vec<usize> = (0..COLUMNS.len())
        .filter(|at| COLUMNS[*at].tags.ends_with('P') && !others.contains(&COLUMNS[*at].name))
        .collect();
    let names: String = kept.iter().map(|at| format!("{},", COLUMNS[*at].name)).collect();
    let title = std::iter::once(format!("#{side} guid,{names}\n"));
    title.chain(rows.map(move |(guid, row)| {
        let mut line = format!("{guid},");
        for at in &kept {
            match &row.values[*at] {
                // Never is no number of seconds.
                None | Some(Value::S32(..0)) => line.push_str("0,"),
                Some(value) => line.push_str(&format!("{value},")),
            }
        }
        line.push('\n');
        line
    }))
}
