//! The commands, one file per family. A new family adds its `mod` line and its place in [`FAMILIES`].

mod anon;
pub(crate) mod change;
mod config;
mod cookies;
mod counters;
mod defaults;
mod descriptors;
mod dev;
mod errors;
mod events;
mod explain;
mod frontend;
pub mod info;
mod missing;
mod opentelemetry;
pub(crate) mod patterns;
mod peers;
mod process;
mod profile;
mod reload;
mod resolvers;
pub(crate) mod server;
mod session;
mod sessions;
pub(crate) mod ssl;
mod statistics;
mod tables;
mod trace;
mod transaction;
mod variables;
mod wait;

pub use server::all_states;
use thalweg_config::model::{Proxy, Server};
use thalweg_proxy::Instance;
use thalweg_runtime::clock;

use crate::Cli;
use crate::command::Command;
use crate::output::Reply;

/// The entries of every family; their order means nothing.
pub(crate) static FAMILIES: &[&[Command]] = &[
    anon::COMMANDS,
    change::COMMANDS,
    config::COMMANDS,
    cookies::COMMANDS,
    counters::COMMANDS,
    defaults::COMMANDS,
    descriptors::COMMANDS,
    dev::COMMANDS,
    errors::COMMANDS,
    events::COMMANDS,
    explain::COMMANDS,
    frontend::COMMANDS,
    info::COMMANDS,
    missing::COMMANDS,
    opentelemetry::COMMANDS,
    patterns::COMMANDS,
    peers::COMMANDS,
    process::COMMANDS,
    profile::COMMANDS,
    reload::COMMANDS,
    resolvers::COMMANDS,
    server::COMMANDS,
    session::COMMANDS,
    sessions::COMMANDS,
    ssl::COMMANDS,
    statistics::COMMANDS,
    tables::COMMANDS,
    transaction::COMMANDS,
    trace::COMMANDS,
    variables::COMMANDS,
    wait::COMMANDS,
];

/// Seconds since the start.
pub fn uptime_s(cli: &Cli) -> u64 {
    clock::wall_us().saturating_sub(cli.live.start_wall_us) / 1_000_000
}

/// A moment in local time, as `22/Nov/2026:04:59:25.452`; it is counted in microseconds since 1970.
pub(crate) fn date(wall_us: u64) -> String {
    let at = thalweg_sys::time::local(i64::try_from(wall_us / 1_000_000).unwrap_or(0));
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.get(usize::from(at.month.saturating_sub(1))).unwrap_or(&"Jan");
    let (day, year, thousandths) = (at.day, at.year, wall_us / 1000 % 1000);
    format!("{day:02}/{month}/{year:04}:{:02}:{:02}:{:02}.{thousandths:03}", at.hour, at.minute, at.second)
}

/// The proxy that `#<number>` or a name selects among those that `wanted` accepts.
pub fn find_proxy<'i>(instance: &'i Instance, name: &str, wanted: fn(&Proxy) -> bool) -> Option<&'i Proxy> {
    let number = name.strip_prefix('#').and_then(|n| n.parse::<u32>().ok());
    let mut proxies = instance.config.proxies.iter().map(|proxy| &**proxy);
    proxies.find(|p| wanted(p) && (&*p.name == name || number == Some(p.uid)))
}

/// The answer to a name of a server that does not have both halves.
pub const NAME_A_SERVER: &str = "Require 'backend/server'.";

/// The two halves of `backend/server`.
pub fn server_name(name: &str) -> Option<(&str, &str)> {
    name.split_once('/').filter(|(_, server)| !server.is_empty())
}

/// The server that `backend/server` selects, each by name or `#<number>`; else what to answer.
pub fn find_server<'i>(instance: &'i Instance, args: &[&str]) -> Result<(&'i Proxy, &'i Server), Reply> {
    let (backend, server) =
        args.first().and_then(|name| server_name(name)).ok_or_else(|| Reply::error(NAME_A_SERVER))?;
    let Some(proxy) = find_proxy(instance, backend, Proxy::is_be) else {
        return Err(Reply::error("No such backend."));
    };
    let number = server.strip_prefix('#').and_then(|n| n.parse::<u32>().ok());
    let live = &instance.backends[proxy.id.0 as usize];
    let numbered = || proxy.servers.iter().map(|s| &**s).find(|s| number == Some(s.uid));
    let found = live.server_by_name(proxy, server).or_else(numbered);
    found.map(|server| (proxy, server)).ok_or_else(|| Reply::error("No such server."))
}
