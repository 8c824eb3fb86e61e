//! What of a server was changed at run time.

use std::collections::HashSet;
use std::net::SocketAddr;

use thalweg_config::model::{HashKey, HashMethod, PortMode, Proxy, ProxyHeader, Server, ServerAddr};
use thalweg_config::written::{ServerWords, Words};
use thalweg_proxy::backend::Backend;
use thalweg_proxy::backend::identity::Identity;
use thalweg_syntax::carry::carry;

use super::Detail;

/// Its name, as the files have it.
pub(super) fn name(proxy: &Proxy, server: &Server) -> String {
    format!("{}/{}", proxy.name, server.name)
}

/// The names of the servers that a `server-template` line makes, as far as it can be read.
pub(super) fn names_of_template(line: &Words) -> Vec<String> {
    let [_, prefix, range, ..] = &line[..] else { return Vec::new() };
    let (low, high) = range.split_once('-').unwrap_or(("1", range));
    let (Ok(low), Ok(high)) = (low.parse::<u32>(), high.parse::<u32>()) else { return Vec::new() };
    (low..=high).map(|number| format!("{prefix}{number}")).collect()
}

/// The line of a file that would make a server that was added at run time: it takes nothing from its section, and its checks
/// are what its own words say.
pub(super) fn words_of_added(proxy: &Proxy, server: &Server) -> Option<ServerWords> {
    let mut words = ServerWords::new(server.rare().added.as_deref()?.clone());
    if proxy.server_presets().is_some_and(|(is_set, _)| is_set) {
        words.take_no_presets();
    }
    let speaks_tls = server.tls.as_ref().is_some_and(|tls| tls.ssl);
    if speaks_tls && server.check.is_some() && !words.has("check-ssl") {
        words.switch("no-check-ssl", "check-ssl");
    }
    let is_named = matches!(server.addr, ServerAddr::Unresolved(..));
    if is_named && !words.has("init-addr") {
        words.set("init-addr", "none");
    }
    Some(words)
}

/// The servers of a backend.
pub(super) struct Looking<'a> {
    backend: &'a Backend,
    ids: HashSet<u32>,
}

impl<'a> Looking<'a> {
    pub fn new(backend: &'a Backend, proxy: &Proxy) -> Looking<'a> {
        Looking { backend, ids: ids(proxy) }
    }

    /// What is different about one of them, and the words that its line is to have; none where it has no line of its own.
    pub fn at(&self, server: &Server, words: Option<ServerWords>) -> (Vec<Detail>, Option<Words>) {
        let mut look = Look { backend: self.backend, server, words, found: Vec::new() };
        look.at_everything();
        if self.ids.contains(&server.uid) {
            look.give_id();
        }
        (look.found, look.words.map(ServerWords::into_words))
    }
}

/// The numbers that servers would not get from their places in the files, and that the choice of servers depends on.
fn ids(proxy: &Proxy) -> HashSet<u32> {
    let matters = proxy.balance.hash.method == HashMethod::Consistent
        && proxy.servers.iter().any(|server| matches!(server.hash_key, HashKey::Id | HashKey::Id32));
    let mut given = HashSet::new();
    if !matters {
        return given;
    }
    let mut taken: HashSet<u32> = proxy.servers.iter().filter(|s| s.uid_given).map(|s| s.uid).collect();
    let mut next = 1;
    for server in &proxy.servers {
        if !server.uid_given {
            while taken.contains(&next) {
                next += 1;
            }
            taken.insert(server.uid);
            if server.uid != next {
                given.insert(server.uid);
            }
        }
        next += 1;
    }
    given
}

/// A server, and the words of its line.
struct Look<'a> {
    backend: &'a Backend,
    server: &'a Server,
    /// `None` where it has no line of its own.
    words: Option<ServerWords>,
    found: Vec<Detail>,
}

/// Why one of many servers that a line makes cannot be another one.
const SHARED: &str = "its 'server-template' line makes servers that share what its name leads to";

impl Look<'_> {
    /// Notes something that words can say.
    fn note(&mut self, detail: Detail, change: impl FnOnce(&mut ServerWords)) {
        match &mut self.words {
            Some(words) => {
                change(words);
                self.found.push(detail);
            }
            None => self.found.push(detail.unwritten(SHARED)),
        }
    }

    fn note_value(&mut self, option: &'static str, file: impl ToString, now: impl ToString) {
        let value = now.to_string();
        self.note(Detail::new(option, file, &value), |words| words.set(option, &value));
    }

    fn at_everything(&mut self) {
        let now = self.backend.identity(self.server);
        self.at_name_and_address(&now);
        self.at_targets(&now);
        // What an agent says of a server is no change of its configuration.
        if !self.server.rare().agent.as_ref().is_some_and(|agent| agent.asked) {
            self.at_limits();
        }
        self.at_state();
        if let Some(line) =
            self.server.tls.as_ref().and_then(|tls| tls.line.as_ref()).filter(|l| l.was_switched())
        {
            let file = self.server.tls.as_ref().is_some_and(|tls| tls.ssl);
            if line.is_on() != file {
                let (now, other) = if line.is_on() { ("ssl", "no-ssl") } else { ("no-ssl", "ssl") };
                self.note(Detail::new("ssl", on(file), on(!file)), |words| words.switch(now, other));
            }
        }
        let is_checked = self.server.check.is_some() && self.server.is_dynamic;
        if is_checked && self.server.send_proxy != ProxyHeader::None && !self.says("check-send-proxy") {
            let why = "checks of servers in files begin as traffic does";
            self.found.push(Detail::new("check-send-proxy", "", "off").unwritten(why));
        }
    }

    fn says(&self, option: &str) -> bool {
        self.words.as_ref().is_some_and(|words| words.has(option))
    }

    /// Its number is said, for its place would give it another one.
    fn give_id(&mut self) {
        if let Some(words) = &mut self.words {
            words.set("id", &self.server.uid.to_string());
        }
    }

    fn at_name_and_address(&mut self, now: &Identity) {
        if now.name != self.server.name {
            let name = now.name.to_string();
            self.note(Detail::new("name", &self.server.name, &name), |words| words.rename(&name));
        }
        let server = self.server;
        // Others give an address to a name that they look up.
        let is_looked_up = server.rare().resolution.is_some();
        let is_moved = (&now.addr, now.port_mode) != (&server.addr, server.port_mode);
        if let (true, Some(fqdn)) = (now.fqdn_changed, &now.fqdn) {
            let file = server.rare().fqdn.as_deref().unwrap_or_default();
            let address = format!("{fqdn}{}", port_text(now));
            self.note(Detail::new("fqdn", file, fqdn), |words| words.set_address(&address));
        } else if is_moved
            && !is_looked_up
            && let ServerAddr::Tcp(to) = now.addr
        {
            let address = address_text(now, to);
            let file = match &server.addr {
                ServerAddr::Tcp(from) => address_text(&Identity::of(server), *from),
                _ => self.words.as_ref().map_or_else(String::new, |words| words.address().to_owned()),
            };
            self.note(Detail::new("addr", file, &address), |words| words.set_address(&address));
        }
    }

    /// Where its checks go, and where its agent is.
    fn at_targets(&mut self, now: &Identity) {
        let file = Identity::of(self.server);
        fn shown<T: ToString>(value: Option<T>) -> String {
            value.map_or_else(String::new, |value| value.to_string())
        }
        let targets = [
            ("addr", shown(file.check_addr.map(|at| at.ip())), shown(now.check_addr.map(|at| at.ip()))),
            ("port", shown(file.check_port), shown(now.check_port)),
            ("agent-addr", shown(file.agent_addr), shown(now.agent_addr)),
            ("agent-port", shown(file.agent_port), shown(now.agent_port)),
            (
                "agent-send",
                shown(file.agent_send.map(|text| carry(&text).into_owned())),
                shown(now.agent_send.as_deref().map(|text| carry(text).into_owned())),
            ),
        ];
        for (option, file, now) in targets {
            if file == now {
                continue;
            }
            // The address of traffic has that name in the list of differences.
            let field = if option == "addr" {
                "check-addr"
            } else if option == "port" {
                "check-port"
            } else {
                option
            };
            let detail = Detail::new(field, file, &now);
            if !now.is_empty() {
                self.note(detail, |words| words.set(option, &now));
            } else if self.says(option) {
                self.note(detail, |words| {
                    words.drop(option);
                });
            } else {
                self.found.push(detail.unwritten("presets say it, and no word takes it back"));
            }
        }
    }

    fn at_limits(&mut self) {
        let server = self.server;
        // A service says what weights its servers have.
        let is_of_service = server.rare().fqdn.as_deref().is_some_and(|name| name.starts_with('_'));
        let weight = self.backend.weight(server.id);
        if weight != u32::from(server.weight) && !is_of_service {
            self.note_value("weight", server.weight, weight);
        }
        let maxconn = self.backend.maxconn(server.id);
        if maxconn != server.maxconn {
            self.note_value("maxconn", server.maxconn, maxconn);
        }
    }

    fn at_state(&mut self) {
        let standing = self.backend.standing(self.server.id);
        let is_out = standing.maintenance;
        if self.server.is_dynamic {
            // It begins out of service, whatever its line says.
            let is_said = self.says("disabled") || self.says("enabled");
            match &mut self.words {
                Some(words) if is_out => words.switch("disabled", "enabled"),
                Some(words) if is_said => words.switch("enabled", "disabled"),
                _ => {}
            }
        } else if is_out != self.server.disabled {
            let (now, other) = if is_out { ("disabled", "enabled") } else { ("enabled", "disabled") };
            let word = |is_out: bool| if is_out { "maint" } else { "ready" };
            self.note(Detail::new("state", word(!is_out), word(is_out)), |words| words.switch(now, other));
        }
        if standing.drain {
            let why = "no word says 'drain'; 'weight 0' comes near it";
            self.found.push(Detail::new("state", "ready", "drain").unwritten(why));
        }
        if self.server.check.is_some() && !standing.checked {
            let why = "'no-check' would take the checks away";
            self.found.push(Detail::new("health", "on", "off").unwritten(why));
        }
        if standing.agent_bits() != 0 && !standing.agent_asked {
            let why = "without 'agent-check' there would be no agent";
            self.found.push(Detail::new("agent", "on", "off").unwritten(why));
        }
    }
}

fn on(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn address_text(now: &Identity, addr: SocketAddr) -> String {
    match (now.port_mode, addr) {
        (PortMode::Fixed, _) => addr.to_string(),
        (_, SocketAddr::V4(addr)) => format!("{}{}", addr.ip(), port_text(now)),
        (_, SocketAddr::V6(addr)) => format!("[{}]{}", addr.ip(), port_text(now)),
    }
}

/// A port as it follows an address.
fn port_text(now: &Identity) -> String {
    match (now.port_mode, &now.addr) {
        (PortMode::SameAsClient, _) => String::new(),
        (PortMode::Offset(offset), _) => format!(":{offset:+}"),
        (PortMode::Fixed, ServerAddr::Tcp(addr)) => format!(":{}", addr.port()),
        (PortMode::Fixed, ServerAddr::Unresolved(_, port)) => format!(":{port}"),
        (PortMode::Fixed, _) => String::new(),
    }
}
