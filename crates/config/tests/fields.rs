//! Every setting of the model is read by somebody outside this crate: what is accepted has an effect. What is not read
//! stands below with its reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Fields that no other crate reads, and why that is right. Where another struct has a field of the same name, reading
/// that one hides it from the test below; the list was made with the compiler's help, which `tools/unread-settings` asks
/// again.
const UNREAD: &[(&str, &str)] = &[
    ("Global::numa_cpu_mapping", "it only allows cpu-policy to choose, and the policy is always 'none'"),
    ("Global::expose_experimental", "read while the file is read"),
    ("Global::expose_deprecated", "silences warnings that are never given"),
    ("Global::no_memory_trimming", "memory is never trimmed at reload"),
    ("Tune::takeover_other_tg", "there is one group of threads, so no other one to take from"),
    ("ProxyOptions::http_no_delay", "small pieces are always sent at once"),
    ("Global::localpeer", "read when the file was read: it says which peer this process is"),
    ("SlowSettings::shard", "read when the file was read: 'Peer::shard' has it"),
    ("OpenTelemetry::beginning", "read while rules are read: rulesets begin traces by it"),
    ("Tune::purge_defaults", "read when the file was read: they are not kept then"),
    ("Tune::purge_server_presets", "read when the file was read: they are not kept then"),
    ("Tune::http_cookielen", "read when the file was read: it limits 'capture cookie'"),
    ("Ring::backing_file", "refused; always none"),
    ("Tune::applet_zero_copy", "answers of the program itself are always copied"),
    ("Proxy::dynamic_cookie_key", "read when the file was read: the cookies of servers are made from it"),
    ("CookiePersistence::dynamic", "read when the file was read: the cookies of servers are made then"),
    ("Bind::proto", "only 'h1' and 'none' are accepted, which is what there is"),
    ("SlowSettings::proto", "only 'h1' and 'none' are accepted, which is what there is"),
    ("Global::user", "read when the file was read: its number is 'uid'"),
    ("Global::group", "read when the file was read: its number is 'gid'"),
    ("Ring::description", "shown by 'show events', which is refused"),
    ("LogProfile::steps", "read by 'LogProfile::step'"),
    ("Global::default_resolvers", "read when the file was read: the section is among the others"),
    ("Bind::shards", "read by 'Bind::sockets'"),
    ("Tune::listener_default_shards", "read by 'Bind::sockets'"),
    ("Config::http_errors", "read when the file was read: 'errorfiles' copies them"),
    ("Proxy::kind", "read by 'is_fe' and 'is_be'"),
    ("Proxy::file", "for messages while the file is read"),
    ("Proxy::line", "for messages while the file is read"),
    ("StatsPage::accounts", "read when the file was read: they become a user list and a rule"),
    ("StatsPage::realm", "read when the file was read: it is part of that rule"),
    ("UseBackend::line", "for messages while the file is read"),
    ("UseServer::line", "for messages while the file is read"),
    ("Net::addr", "read by 'Net::contains'"),
    ("Net::bits", "read by 'Net::contains'"),
    ("LogFormats::is_http", "read when the file was read: it says which formats may be used"),
    ("Server::file", "for messages while the file is read"),
    ("Server::line", "for messages while the file is read"),
    ("Server::extra", "read by 'Server::rare'"),
    ("Global::external_check", "'option external-check' is refused without it"),
    ("Global::nopoll", "there is no driver that uses poll"),
    ("Config::outline", "what two configurations are compared by, which is done in this crate"),
    (
        "Global::nogetaddrinfo",
        "the keyword is refused, -dG changes nothing: names are resolved with getaddrinfo at start",
    ),
];

fn sources(directory: &Path, text: &mut String) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|e| e == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap_or_default());
        }
    }
}

/// Whether `.name` occurs as a whole word that is not merely written to.
fn is_read(text: &str, name: &str) -> bool {
    let wanted = format!(".{name}");
    text.match_indices(&wanted).any(|(at, _)| {
        let after = &text[at + wanted.len()..];
        let written = ["|=", "+=", "= "].iter().any(|sign| after.trim_start().starts_with(sign))
            && !after.trim_start().starts_with("==");
        !written && !after.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

#[test]
fn each_setting_is_read_by_somebody() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates lie side by side");
    let mut readers = String::new();
    for entry in fs::read_dir(crates).expect("the crates").flatten().filter(|e| e.file_name() != "config") {
        sources(&entry.path().join("src"), &mut readers);
    }
    let mut model = String::new();
    sources(&crates.join("config/src/model"), &mut model);
    let mut owner = "";
    let mut fields: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in model.lines() {
        if let Some(rest) = line.strip_prefix("pub struct ") {
            owner = rest.split([' ', '<', '(', ';']).next().unwrap_or(rest);
        }
        let Some((name, _)) = line.strip_prefix("    pub ").and_then(|rest| rest.split_once(':')) else {
            continue;
        };
        if name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
            fields.entry(name).or_default().push(format!("{owner}::{name}"));
        }
    }
    let is_known = |field: &String| UNREAD.iter().any(|(known, _)| known == field);
    let unread = fields.iter().filter(|(name, _)| !is_read(&readers, name));
    let forgotten: Vec<&String> = unread.flat_map(|(_, all)| all).filter(|field| !is_known(field)).collect();
    assert_eq!(forgotten, [""; 0], "accepted, and nobody reads them");
    // A name that several structs have says nothing about one of them, nor does one that others have for themselves.
    let gone: Vec<&str> = UNREAD
        .iter()
        .map(|(field, _)| *field)
        .filter(|field| !fields.values().flatten().any(|there| there == field))
        .collect();
    assert_eq!(gone, [""; 0], "there are no such fields");
}
