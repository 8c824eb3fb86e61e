//! `-dK`: the keywords that work, class by class, one per line, as the reference prints them (management manual,
//! chapter 3).
//!
//! Editors and scripts read these lists, so every line is the reference's, in the reference's order, and no line is
//! there for something that does not work. Two things follow. Keywords that the reference does not list although it
//! has them, since it reads them outside of its tables, are not listed here either ([`UNLISTED`]). And what the
//! reference says about a keyword beyond its name is kept here, next to what prints it.

use std::fmt::Write as _;

use thalweg_cli::command;
use thalweg_config::{Entry, catalog};
use thalweg_rules::{Kind, Spelling, all_actions};
use thalweg_sample::listing;

use crate::features;

/// A class: its name, what it holds, and what prints it.
type Class = (&'static str, &'static str, fn(&mut String));

/// The classes, in the order of `-dKall`.
const CLASSES: [Class; 7] = [
    ("acl", "ACL keywords", |out| out.push_str(&listing::acl_keywords())),
    ("cfg", "configuration keywords", configuration),
    ("cli", "CLI keywords", cli),
    ("cnv", "sample converter keywords", |out| out.push_str(&listing::converters())),
    ("flt", "filter names", filters),
    ("smp", "sample fetch functions", |out| out.push_str(&listing::fetches())),
    ("svc", "service names", services),
];

/// The keywords of some classes, in the order they were asked for. A class that does not exist has none.
pub fn list(classes: &[String]) -> String {
    let mut out = String::new();
    for wanted in classes {
        if wanted == "help" {
            out.push_str("# List of supported keyword classes:\nall: list all keywords\n");
            for (name, meaning, _) in CLASSES {
                let _ = writeln!(out, "{name}: {meaning}");
            }
        }
        for (_, _, print) in CLASSES.iter().filter(|(name, ..)| wanted == name || wanted == "all") {
            print(&mut out);
        }
    }
    out
}

fn services(out: &mut String) {
    out.push_str("# List of registered service names:\n");
    for name in features::SERVICES {
        let _ = writeln!(out, "{name}");
    }
}

fn filters(out: &mut String) {
    out.push_str("# List of registered filter names:\n");
    for (name, family) in thalweg_config::filters() {
        let _ = writeln!(out, "{name} [{family}]");
    }
}

/// Keywords of `global` and of proxies that the reference reads outside of its tables.
const UNLISTED: &[&str] = &[
    "acl",
    "anonkey",
    "backlog",
    "balance",
    "bind",
    "busy-polling",
    "capture",
    "cookie",
    "cpu-map",
    "default-server",
    "default_backend",
    "description",
    "disabled",
    "dynamic-cookie-key",
    "email-alert",
    "enabled",
    "error-log-format",
    "fd-hard-limit",
    "force-persist",
    "fullconn",
    "gid",
    "group",
    "h2-workaround-bogus-websocket-clients",
    "hash-balance-factor",
    "hash-type",
    "http-after-response",
    "http-request",
    "http-response",
    "http-reuse",
    "http-send-name-header",
    "id",
    "ignore-persist",
    "insecure-fork-wanted",
    "insecure-setuid-wanted",
    "load-server-state-from-file",
    "log",
    "log-format",
    "log-format-sd",
    "log-send-hostname",
    "log-tag",
    "max-session-srv-conns",
    "max-spread-checks",
    "maxconn",
    "maxconnrate",
    "maxpipes",
    "maxsessrate",
    "maxsslrate",
    "mode",
    "monitor",
    "monitor-net",
    "monitor-uri",
    "node",
    "noreuseport",
    "nosplice",
    "numa-cpu-mapping",
    "persist",
    "redirect",
    "retries",
    "server",
    "server-state-base",
    "server-state-file",
    "server-state-file-name",
    "server-template",
    "set-dumpable",
    "source",
    "spread-checks",
    "ssl-server-verify",
    "stats-file",
    "stick",
    "stick-table",
    "strict-limits",
    "uid",
    "ulimit-n",
    "unique-id-format",
    "unique-id-header",
    "unix-bind",
    "use-server",
    "use_backend",
    "user",
];

/// Words of `bind` that take nothing; the others take one value.
const BARE_BIND: &[&str] = &["accept-proxy", "defer-accept", "tfo", "transparent", "v4v6", "v6only"];

/// Words of `bind` that are about TLS and take nothing.
const TLS_BIND_BARE: &[&str] = &[
    "generate-certificates",
    "allow-0rtt",
    "force-sslv3",
    "force-tlsv10",
    "force-tlsv11",
    "force-tlsv12",
    "force-tlsv13",
    "no-alpn",
    "no-ca-names",
    "no-sslv3",
    "no-strict-sni",
    "no-tls-tickets",
    "no-tlsv10",
    "no-tlsv11",
    "no-tlsv12",
    "no-tlsv13",
    "prefer-client-ciphers",
    "strict-sni",
    "tls-tickets",
    "ssl",
];

/// Words of `bind` that are about TLS and take one value.
const TLS_BIND_VALUES: &[&str] = &[
    "alpn",
    "ca-file",
    "ca-ignore-err",
    "ca-sign-file",
    "ca-sign-pass",
    "ca-verify-file",
    "ciphers",
    "ciphersuites",
    "client-sigalgs",
    "crl-file",
    "crt",
    "crt-ignore-err",
    "crt-list",
    "curves",
    "default-crt",
    "ecdhe",
    "sigalgs",
    "ssl-max-ver",
    "ssl-min-ver",
    "tls-ticket-keys",
    "verify",
];

/// Words of `server` that take nothing, beside those that begin with `no-`; the others take one value.
const BARE_SERVER: &[&str] = &[
    "allow-0rtt",
    "agent-check",
    "backup",
    "check",
    "check-reuse-pool",
    "check-send-proxy",
    "check-sni-auto",
    "check-ssl",
    "check-via-socks4",
    "disabled",
    "enabled",
    "force-sslv3",
    "force-tlsv10",
    "force-tlsv11",
    "force-tlsv12",
    "force-tlsv13",
    "non-stick",
    "send-proxy",
    "send-proxy-v2",
    "send-proxy-v2-ssl",
    "send-proxy-v2-ssl-cn",
    "set-proxy-v2-tlv-fmt",
    "sni-auto",
    "ssl",
    "ssl-reuse",
    "stick",
    "strict-maxconn",
    "tfo",
    "tls-tickets",
    "usesrc",
];

/// Words of `server` that the reference knows by another name only, or reads in front of the others.
const UNLISTED_SERVER: &[&str] = &["from", "name", "no-verifyhost"];

/// What an `option` is for: the capability of the proxy and its mode. Options that are in no group are those that the
/// reference reads outside of its tables.
const OPTIONS: &[(&str, &[&str])] = &[
    (
        "FE BE",
        &[
            "abortonclose",
            "independent-streams",
            "nolinger",
            "splice-auto",
            "splice-request",
            "splice-response",
        ],
    ),
    ("FE BE HTTP", &["http-buffer-request", "http-no-delay", "http-strict"]),
    (
        "FE",
        &[
            "clitcpka",
            "contstats",
            "dontlog-normal",
            "dontlognull",
            "h1-case-adjust-bogus-client",
            "log-separate-errors",
            "logasap",
            "socket-stats",
            "tcp-smart-accept",
        ],
    ),
    (
        "FE HTTP",
        &[
            "accept-unsafe-violations-in-http-request",
            "disable-h2-upgrade",
            "http-drop-response-trailers",
            "http-ignore-probes",
            "http-use-proxy-header",
            "idle-close-on-response",
        ],
    ),
    (
        "BE",
        &[
            "allbackups",
            "h1-case-adjust-bogus-server",
            "log-health-checks",
            "persist",
            "srvtcpka",
            "tcp-smart-connect",
        ],
    ),
    (
        "BE HTTP",
        &[
            "accept-unsafe-violations-in-http-response",
            "checkcache",
            "http-drop-request-trailers",
            "http-pretend-keepalive",
            "prefer-last-server",
        ],
    ),
];

/// Actions of the `tcp-*` rulesets that the reference reads outside of its tables.
const UNLISTED_TCP_ACTIONS: &[&str] =
    &["accept", "capture", "close", "expect-netscaler-cip", "expect-proxy", "reject", "track-sc"];

/// Whether a word of `bind` is one of TLS.
fn is_about_tls(word: &str) -> bool {
    TLS_BIND_VALUES.contains(&word) || TLS_BIND_BARE.contains(&word)
}

fn configuration(out: &mut String) {
    out.push_str("# List of registered configuration keywords:\n");
    let entries = catalog();
    let under = |section: &str, prefix: &str| -> Vec<&Entry> {
        let mut found: Vec<&Entry> = entries
            .iter()
            .filter(|e| e.section == section && e.prefix == prefix)
            .filter(|e| !(prefix.is_empty() && UNLISTED.contains(&e.name)))
            .filter(|e| !matches!((section, e.name), ("listen", "stats") | ("global", "external-check")))
            .collect();
        found.sort_unstable_by_key(|entry| entry.name);
        found
    };
    out.push_str("global\n");
    for entry in under("global", "") {
        let _ = writeln!(out, "\t{}", entry.name);
    }
    out.push_str("listen\n");
    for entry in under("listen", "") {
        let _ = writeln!(out, "\t{}", entry.name);
    }
    for entry in under("listen", "bind <addr>") {
        if is_about_tls(entry.name) {
            continue;
        }
        let value = if BARE_BIND.contains(&entry.name) { "" } else { " +1" };
        let _ = writeln!(out, "\tbind <addr> {}{value}", entry.name);
    }
    // The reference lists those of TLS behind a word of their own, and not the word itself.
    for entry in under("listen", "bind <addr>").iter().filter(|e| is_about_tls(e.name) && e.name != "ssl") {
        let value = if TLS_BIND_VALUES.contains(&entry.name) { " +1" } else { "" };
        let _ = writeln!(out, "\tbind <addr> ssl {}{value}", entry.name);
    }
    for entry in under("listen", "server <name> <addr>") {
        let value = match entry.name {
            name if UNLISTED_SERVER.contains(&name) => continue,
            name if name.starts_with("no-") || BARE_SERVER.contains(&name) => "",
            // An address, and perhaps more.
            "source" => " +-1",
            _ => " +1",
        };
        let _ = writeln!(out, "\tserver <name> <addr> {}{value}", entry.name);
    }
    for entry in under("listen", "option") {
        if let Some((place, _)) = OPTIONS.iter().find(|(_, names)| names.contains(&entry.name)) {
            let _ = writeln!(out, "\toption {} [ {place} ]", entry.name);
        }
    }
    for kind in Kind::ALL {
        actions(kind, out);
    }
    if entries.iter().any(|e| e.section.is_empty() && e.name == "userlist") {
        out.push_str("userlist\n\tgroup\n\tuser\n");
    }
}

fn actions(kind: Kind, out: &mut String) {
    let mut names: Vec<String> = all_actions()
        .filter(|def| def.rulesets.contains(kind) && def.is_supported())
        .filter(|def| kind.is_http() || !UNLISTED_TCP_ACTIONS.contains(&def.name))
        .map(|def| format!("{}{}", def.name, if def.spelling == Spelling::Plain { "" } else { "*" }))
        .collect();
    names.sort_unstable();
    for name in names {
        let _ = writeln!(out, "\t{} {name}", kind.name());
    }
}

fn cli(out: &mut String) {
    out.push_str("# List of registered CLI keywords:\n");
    for command in command::all().iter().filter(|command| command.works() && !command.form) {
        let master = if command.master { "[MASTER] " } else { "" };
        let mode = match command.mode {
            command::Mode::Any => "",
            command::Mode::Experimental => "[EXPERIM] ",
            command::Mode::Expert => "[EXPERT] ",
        };
        let _ = writeln!(out, "{} {master}[WORKER] {mode}", command.words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(class: &str) -> String {
        list(&[class.to_string()])
    }

    #[test]
    fn classes_have_their_keywords() {
        assert!(listed("help").contains("\ncfg: configuration keywords\n"));
        let keywords = listed("cfg");
        assert!(keywords.contains("\nglobal\n\t") && keywords.contains("\n\tbind <addr> accept-proxy\n"));
        assert!(listed("cnv").contains("\nlower: str => str\n"));
        assert!(listed("smp").contains("] src: addr\n"));
        assert!(listed("cli").contains("\nset var [WORKER] [EXPERIM] \n"));
        assert_eq!(listed("bogus"), "");
        let all: String = ["acl", "cfg", "cli", "cnv", "flt", "smp", "svc"].into_iter().map(listed).collect();
        assert_eq!(listed("all"), all);
        let twice = list(&["svc".to_string(), "flt".to_string(), "svc".to_string()]);
        assert_eq!(twice, format!("{}{}{}", listed("svc"), listed("flt"), listed("svc")));
    }
}
