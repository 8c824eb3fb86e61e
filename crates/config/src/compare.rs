//! What differs between a configuration and the one that is to follow it: what a reload in place would change, and what it cannot.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

use crate::follow::is_gone;
use crate::model::{Bind, Config, Mode, Proxy, Server, Shared};
use crate::outline::{OutlineLine, Said, Section};

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// What comes, goes and changes.
    pub changes: Vec<Change>,
    /// What cannot change while the process runs: with any of these nothing can be applied. Whole sentences, each with its place.
    pub obstacles: Vec<String>,
    /// What is lost that live state holds.
    pub losses: Vec<String>,
}

/// How something differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Added,
    Changed,
    Removed,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub how: How,
    /// What it is, with its name: `server app/s1`.
    pub what: String,
}

/// As one line: `+ server app/s1`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.how {
            How::Added => '+',
            How::Changed => '~',
            How::Removed => '-',
        };
        write!(f, "{sign} {}", self.what)
    }
}

/// Keywords of `global` that a running process follows at once: they matter while files are read, or are looked up for each stream,
/// connection or listener that begins. All others need a restart.
const LIVE_GLOBALS: &[&str] = &[
    "ca-base",
    "close-spread-time",
    "crt-base",
    "default-path",
    "description",
    "expose-deprecated-directives",
    "expose-experimental-directives",
    "issuers-chain-path",
    "key-base",
    "log",
    "max-spread-checks",
    "maxconn",
    "maxconnrate",
    "maxsessrate",
    "maxsslconn",
    "maxsslrate",
    "node",
    "nosplice",
    "presetenv",
    "quiet",
    "resetenv",
    "setenv",
    "spread-checks",
    "ssl-default-bind-ciphers",
    "ssl-default-bind-ciphersuites",
    "ssl-default-bind-client-sigalgs",
    "ssl-default-bind-curves",
    "ssl-default-bind-options",
    "ssl-default-bind-sigalgs",
    "ssl-default-server-ciphers",
    "ssl-default-server-ciphersuites",
    "ssl-default-server-client-sigalgs",
    "ssl-default-server-curves",
    "ssl-default-server-options",
    "ssl-default-server-sigalgs",
    "ssl-load-extra-del-ext",
    "ssl-load-extra-files",
    "ssl-server-verify",
    "stats",
    "tune.cli.max-payload-size",
    "tune.disable-fast-forward",
    "tune.disable-zero-copy-forwarding",
    "tune.h1.zero-copy-fwd-recv",
    "tune.h1.zero-copy-fwd-send",
    "tune.h2.be.glitches-threshold",
    "tune.h2.be.initial-window-size",
    "tune.h2.be.max-concurrent-streams",
    "tune.h2.be.max-frames-at-once",
    "tune.h2.be.rxbuf",
    "tune.h2.fe.glitches-threshold",
    "tune.h2.fe.initial-window-size",
    "tune.h2.fe.max-concurrent-streams",
    "tune.h2.fe.max-frames-at-once",
    "tune.h2.fe.max-rst-at-once",
    "tune.h2.fe.max-total-streams",
    "tune.h2.fe.rxbuf",
    "tune.h2.header-table-size",
    "tune.h2.initial-window-size",
    "tune.h2.log-errors",
    "tune.h2.max-concurrent-streams",
    "tune.h2.max-frame-size",
    "tune.h2.zero-copy-fwd-send",
    "tune.http.cookielen",
    "tune.http.logurilen",
    "tune.http.maxhdr",
    "tune.idle-pool.shared",
    "tune.max-checks-per-thread",
    "tune.maxrewrite",
    "tune.notsent-lowat.client",
    "tune.notsent-lowat.server",
    "tune.pt.zero-copy-forwarding",
    "tune.rcvbuf.client",
    "tune.rcvbuf.server",
    "tune.sndbuf.client",
    "tune.sndbuf.server",
    "tune.ssl.hard-maxrecord",
    "tune.ssl.maxrecord",
    "tune.vars.check-max-size",
    "tune.vars.global-max-size",
    "tune.vars.proc-max-size",
    "tune.vars.reqres-max-size",
    "tune.vars.sess-max-size",
    "tune.vars.txn-max-size",
    "unix-bind",
    "unsetenv",
    "zero-warning",
];

/// Sections that are looked up for each stream, or while files are read. Tasks and sockets of all others begin with the process and
/// end with it, but for those of proxies.
const LIVE_SECTIONS: &[&str] =
    &["crt-store", "healthcheck", "http-errors", "log-profile", "mailers", "traces", "userlist"];

/// Sections that are compared as what they become.
const COMPARED_OTHERWISE: &[&str] = &["backend", "defaults", "frontend", "global", "listen"];

/// Compares a configuration with one that was read to follow it ([`crate::LoadOptions::after`]).
pub fn compare(old: &Config, new: &Config) -> Comparison {
    let mut found = Comparison::default();
    globals(&mut found, old, new);
    sections(&mut found, old, new);
    for proxy in &old.proxies {
        if new.find_proxy(proxy.id).is_none() {
            found.note(How::Removed, title(proxy));
            found.fixed_if_log(proxy);
        }
    }
    for proxy in &new.proxies {
        match old.find_proxy(proxy.id) {
            Some(before) => proxies(&mut found, before, proxy),
            None => {
                found.note(How::Added, title(proxy));
                found.fixed_if_log(proxy);
            }
        }
    }
    tables(&mut found, old, new);
    found
}

impl Comparison {
    fn note(&mut self, how: How, what: String) {
        self.changes.push(Change { how, what });
    }

    fn needs_restart(&mut self, place: (&str, u32), what: &str) {
        self.obstacles.push(format!("[{}:{}] : {what} needs a restart.", place.0, place.1));
    }

    /// Lines are sent to the servers of a backend of logs by what was made of it at the start.
    fn fixed_if_log(&mut self, proxy: &Proxy) {
        if proxy.mode == Mode::Log {
            self.needs_restart(
                (&proxy.file, proxy.line),
                &format!("a change of '{}' in 'mode log'", title(proxy)),
            );
        }
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.obstacles.is_empty()
    }
}

fn title(proxy: &Proxy) -> String {
    format!("{} {}", proxy.kind.keyword(), proxy.name)
}

/// The lines of all `global` sections, whatever their order; of those that may be in one, what differs.
fn globals(found: &mut Comparison, old: &Config, new: &Config) {
    let all = |config: &'_ Config| -> Vec<(std::sync::Arc<str>, OutlineLine)> {
        let sections = config.outline.sections.iter().filter(|section| &*section.keyword == "global");
        sections.flat_map(|s| s.lines.iter().map(|line| (s.file.clone(), line.clone()))).collect()
    };
    let (old, new) = (all(old), all(new));
    let said = |lines: &[(std::sync::Arc<str>, OutlineLine)]| -> HashSet<Said> {
        lines.iter().map(|(_, line)| line.said).collect()
    };
    let (said_before, said_now) = (said(&old), said(&new));
    let came = new.iter().filter(|(_, line)| !said_before.contains(&line.said));
    let went = old.iter().filter(|(_, line)| !said_now.contains(&line.said));
    let mut keywords: Vec<&str> = Vec::new();
    for (file, line) in came.chain(went) {
        let keyword = &*line.keyword;
        if keywords.contains(&keyword) {
            continue;
        }
        keywords.push(keyword);
        match LIVE_GLOBALS.contains(&keyword) {
            true => found.note(How::Changed, format!("global {keyword}")),
            false => found.needs_restart((file, line.line), &format!("a change of '{keyword}' in 'global'")),
        }
    }
}

fn sections(found: &mut Comparison, old: &Config, new: &Config) {
    let of = |config: &'_ Config, keyword: &str| -> Vec<Section> {
        let sections = config.outline.sections.iter().filter(|section| &*section.keyword == keyword);
        sections.cloned().collect()
    };
    let all = old.outline.sections.iter().chain(&new.outline.sections);
    let fixed: BTreeSet<&str> = all
        .map(|section| &*section.keyword)
        .filter(|keyword| !LIVE_SECTIONS.contains(keyword) && !COMPARED_OTHERWISE.contains(keyword))
        .collect();
    for keyword in fixed {
        let (old, new) = (of(old, keyword), of(new, keyword));
        let same = |(a, b): (&Section, &Section)| a.name == b.name && a.said() == b.said();
        if old.len() == new.len() && old.iter().zip(&new).all(same) {
            continue;
        }
        let differs = new.iter().find(|s| !old.iter().any(|o| same((o, s)))).or(new.last()).or(old.last());
        if let Some(section) = differs {
            found.needs_restart((&section.file, section.line), &format!("a change of '{keyword}' sections"));
        }
    }
}

fn proxies(found: &mut Comparison, old: &Proxy, new: &Proxy) {
    let is_renamed = old.name != new.name;
    let is_other = old.said != new.said || old.kind != new.kind;
    if is_renamed {
        found.note(How::Changed, format!("{} is {} from now on", title(old), title(new)));
    } else if is_other {
        found.note(How::Changed, title(new));
    }
    if is_other || is_renamed || servers_differ(old, new) {
        found.fixed_if_log(if new.mode == Mode::Log { new } else { old });
    }
    let address = |bind: &Bind| format!("listener {} {}", new.name, bind.addr);
    for bind in &old.binds {
        if !new.binds.iter().any(|other| other.number == bind.number) {
            found.note(How::Removed, address(bind));
        }
    }
    for bind in &new.binds {
        if !old.binds.iter().any(|other| other.number == bind.number) {
            found.note(How::Added, address(bind));
        }
    }
    let server = |server: &Server| format!("server {}/{}", new.name, server.name);
    let before: HashMap<_, &Shared<Server>> = old.servers.iter().map(|s| (s.id, s)).collect();
    let now: HashSet<_> = new.servers.iter().map(|server| server.id).collect();
    for gone in old.servers.iter().filter(|server| !now.contains(&server.id)) {
        found.note(How::Removed, server(gone));
    }
    for one in &new.servers {
        match before.get(&one.id) {
            None => found.note(How::Added, server(one)),
            Some(before) if before.said != one.said => found.note(How::Changed, server(one)),
            Some(_) => {}
        }
    }
}

fn servers_differ(old: &Proxy, new: &Proxy) -> bool {
    let same = |(a, b): (&Shared<Server>, &Shared<Server>)| a.id == b.id && a.said == b.said;
    old.servers.len() != new.servers.len() || !old.servers.iter().zip(&new.servers).all(same)
}

fn tables(found: &mut Comparison, old: &Config, new: &Config) {
    for (at, table) in new.tables.iter().enumerate().filter(|(_, table)| !is_gone(table)) {
        let Some(before) = old.tables.get(at) else {
            let is_other = old.tables.iter().any(|other| other.name == table.name);
            match is_other {
                true => found
                    .losses
                    .push(format!("stick-table {} is another one now, and begins empty", table.name)),
                false => found.note(How::Added, format!("stick-table {}", table.name)),
            }
            continue;
        };
        let is_shared = before.peers.is_some() || table.peers.is_some();
        let as_before = (&before.peers, before.recv_only, before.write_to)
            == (&table.peers, table.recv_only, table.write_to);
        let missing = table.data.iter().any(|stored| !before.data.contains(stored));
        if is_shared && !as_before || missing {
            found.obstacles.push(format!(
                "stick-table '{}' : a change of what it keeps or shares needs a restart.",
                table.name
            ));
        }
    }
    for (before, table) in old.tables.iter().zip(&new.tables) {
        let is_lost = is_gone(table) && !is_gone(before);
        if is_lost && before.peers.is_some() {
            found.obstacles.push(format!(
                "stick-table '{}' : peers share it, so that it goes with a restart only.",
                before.name
            ));
        } else if is_lost {
            found.note(How::Removed, format!("stick-table {}", before.name));
        }
    }
}
