//! Maps and ACLs (management manual, section 9.3: `add map` and its siblings).

use std::io;
use std::sync::Arc;

use thalweg_config::model::CliLevel::Admin;
use thalweg_proxy::Instance;
use thalweg_sample::pattern::{Hit, Method, Needle, PatternSet, SnapshotCache};
use thalweg_syntax::carry::{carry, restore};

use crate::command::{Call, Command, Run};
use crate::json::Shape;
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("add acl", Admin, Run::Now(|call| add_acl(call.instance(), call.args)))
        .help("[@<ver>] <acl> <pattern>", "add a pattern to an ACL")
        .noted(),
    Command::new("add map", Admin, Run::Now(|call| add_map(call.instance(), call.args, call.payload)))
        .help("[@<ver>] <map> <key> <val>", "add an entry to a map (or a payload of entries)")
        .noted(),
    Command::new("clear acl", Admin, Run::Now(|call| clear(call.instance(), false, call.args)))
        .help("[@<ver>] <acl>", "remove all patterns of an ACL")
        .noted(),
    Command::new("clear map", Admin, Run::Now(|call| clear(call.instance(), true, call.args)))
        .help("[@<ver>] <map>", "remove all entries of a map")
        .noted(),
    Command::new("commit acl", Admin, Run::Now(|call| commit(call.instance(), false, call.args)))
        .help("@<ver> <acl>", "put a prepared ACL in place"),
    Command::new("commit map", Admin, Run::Now(|call| commit(call.instance(), true, call.args)))
        .help("@<ver> <map>", "put a prepared map in place"),
    Command::new("del acl", Admin, Run::Now(|call| delete(call.instance(), false, call.args)))
        .help("<acl> [<key>|#<ref>]", "remove patterns of an ACL")
        .noted(),
    Command::new("del map", Admin, Run::Now(|call| delete(call.instance(), true, call.args)))
        .help("<map> [<key>|#<ref>]", "remove entries of a map")
        .noted(),
    Command::new("get acl", Admin, Run::Now(|call| get(call.instance(), false, call.args)))
        .help("<acl> <value>", "show which pattern of an ACL matches a value"),
    Command::new("get map", Admin, Run::Now(|call| get(call.instance(), true, call.args)))
        .help("<map> <value>", "show which entry of a map matches a value"),
    Command::new("prepare acl", Admin, Run::Now(|call| prepare(call.instance(), false, call.args)))
        .help("<acl>", "begin a new version of an ACL"),
    Command::new("prepare map", Admin, Run::Now(|call| prepare(call.instance(), true, call.args)))
        .help("<map>", "begin a new version of a map"),
    Command::new("set map", Admin, Run::Now(|call| set_map(call.instance(), call.args)))
        .help("<map> [<key>|#<ref>] <value>", "change the value of entries of a map")
        .noted(),
    Command::new("show acl", Admin, Run::Waiting(|call| Box::pin(show(call, false))))
        .help("[@<ver>] <acl>", "list the ACLs, or the patterns of one")
        .json(listed),
    Command::new("show map", Admin, Run::Waiting(|call| Box::pin(show(call, true))))
        .help("[@<ver>] [map]", "list the maps, or the entries of one")
        .json(listed),
];

/// Entries read at once while dumping: the set is locked for no longer than that takes.
const PAGE: usize = 1000;

/// Where the numbers of entries begin: scripts expect the shape of an address, and no entry may have the number of
/// another set's.
const REFERENCE_BASE: u64 = 0x1000_0000_0000;
/// Numbers between one set's entries and the next set's.
const REFERENCE_SET: u64 = 1 << 32;

/// What a map or an ACL is called in messages.
fn kind(map: bool) -> &'static str {
    if map { "map" } else { "ACL" }
}

fn unknown(map: bool) -> Reply {
    Reply::error(format!("Unknown {} identifier. Please use #<id> or <file>.", kind(map)))
}

/// The map or ACL of that name or number.
pub(crate) fn find(instance: &Instance, map: bool, name: &str) -> Option<Arc<PatternSet>> {
    instance.config.registry.find(name).filter(|set| if map { set.is_map() } else { set.is_acl() })
}

/// Takes `@<version>` off the front.
fn version<'a>(args: &[&'a str]) -> (Option<u32>, Vec<&'a str>) {
    match args.first().and_then(|a| a.strip_prefix('@')) {
        // What is no number is 0, as in the reference.
        Some(number) => (Some(number.parse().unwrap_or(0)), args[1..].to_vec()),
        None => (None, args.to_vec()),
    }
}

/// How an entry is named in dumps, and selected by `#0x...`.
fn reference(set: &PatternSet, id: u64) -> u64 {
    REFERENCE_BASE + u64::from(set.id()) * REFERENCE_SET + id * 16
}

/// The entry that a `#0x...` names.
fn entry_of(set: &PatternSet, text: &str) -> Option<u64> {
    let text = text.strip_prefix('#')?;
    let number = u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()?;
    let offset = number.checked_sub(REFERENCE_BASE + u64::from(set.id()) * REFERENCE_SET)?;
    (offset % 16 == 0).then_some(offset / 16)
}

/// `show map`, `show acl`: the list, or the content of one.
async fn show(call: Call<'_>, map: bool) -> io::Result<Reply> {
    let Call { session, output, args, .. } = call;
    let registry = &session.instance.config.registry;
    let (version, args) = version(args);
    let Some(name) = args.first() else {
        if version.is_some() {
            return Ok(unknown(map));
        }
        output.text.push_str("# id (file) description\n");
        for set in registry.sets().iter().filter(|s| if map { s.is_map() } else { s.is_acl() }) {
            let (current, next) = set.versions();
            let origin = match set.name() {
                Some(name) => format!("pattern loaded from file '{name}' used "),
                None => String::new(),
            };
            output.text.push_str(&format!(
                "{} ({}) {origin}{}. curr_ver={current} next_ver={next} entry_cnt={}\n",
                set.id(),
                set.name().unwrap_or(""),
                set.display(),
                set.len()
            ));
            output.end_row().await?;
        }
        return Ok(Reply::Done);
    };
    let Some(set) = find(&session.instance, map, name) else {
        return Ok(unknown(map));
    };
    let (current, _) = set.versions();
    let prepared = version.filter(|v| *v != current);
    if let Some(version) = prepared
        && !set.has_version(version)
    {
        return Ok(Reply::Done);
    }
    let mut from = 0;
    loop {
        let page = set.entries(prepared, from, PAGE);
        for entry in &page {
            output.text.push_str(&format!("{:#x} {}", reference(&set, entry.id), carry(&entry.key)));
            if set.is_map() {
                output.text.push(' ');
                output.text.push_str(&carry(&entry.value));
            }
            output.text.push('\n');
            output.end_row().await?;
        }
        match page.last() {
            Some(last) if page.len() == PAGE => from = last.id + 1,
            _ => return Ok(Reply::Done),
        }
    }
}

/// `get map`, `get acl`: one line for each way the set is used.
fn get(instance: &Instance, map: bool, args: &[&str]) -> Reply {
    let [name, value, ..] = args else {
        return Reply::error(format!("Missing {} identifier and/or key.", kind(map)));
    };
    let Some(set) = find(instance, map, name) else { return unknown(map) };
    let mut text = String::new();
    let mut cache = SnapshotCache::default();
    for (index, method, icase) in set.indexes() {
        let case = if icase { "insensitive" } else { "sensitive" };
        text.push_str(&format!("type={}, case={case}, ", method.name()));
        let found = needle(method, value, &restore(value.as_bytes())).and_then(|needle| {
            index.find(&mut cache, needle, false, |hit| describe(&hit, map, method, icase))
        });
        match found {
            Some(found) => text.push_str(&found),
            None if map => text.push_str("found=no"),
            None => text.push_str("match=no"),
        }
        text.push('\n');
    }
    Reply::Text(text)
}

/// A value as a method looks for it; `None` when it is not of the method's type, and so matches nothing.
fn needle<'v>(method: Method, value: &'v str, bytes: &'v [u8]) -> Option<Needle<'v>> {
    match method {
        Method::Int | Method::Version => value.parse().ok().map(Needle::Int),
        Method::Len => i64::try_from(bytes.len()).ok().map(Needle::Int),
        Method::Ip => value.parse().ok().map(Needle::Ip),
        Method::Found | Method::Bool => None,
        _ => Some(Needle::Bytes(bytes)),
    }
}

fn describe(hit: &Hit<'_>, map: bool, method: Method, icase: bool) -> String {
    let tree = matches!(method, Method::Ip) || (matches!(method, Method::Str | Method::Beg) && !icase);
    let index = if tree { "tree" } else { "list" };
    let key = carry(hit.key());
    if !map {
        return format!("match=yes, idx={index}, pattern=\"{key}\"");
    }
    let value = carry(hit.value());
    format!("found=yes, idx={index}, key=\"{key}\", value=\"{value}\", type=\"str\"")
}

fn added(result: Result<(), String>) -> Reply {
    match result {
        Ok(()) => Reply::Done,
        Err(problem) => Reply::error(problem),
    }
}

/// Adds one entry to the version in use, or to one that is being prepared.
fn add(set: &PatternSet, version: Option<u32>, key: &str, value: &str) -> Result<(), String> {
    let (current, _) = set.versions();
    let (key, value) = (restore(key.as_bytes()), restore(value.as_bytes()));
    match version.filter(|v| *v != current) {
        None => set.add(&key, &value),
        Some(version) if set.has_version(version) => set.add_prepared(version, &key, &value),
        Some(_) => Err("Version number out of range.".into()),
    }
}

/// Whether nobody has prepared a version yet.
fn in_the_future(set: &PatternSet, version: Option<u32>, map: bool) -> Option<Reply> {
    let word = if map { "map" } else { "acl" };
    version
        .filter(|version| *version > set.versions().1)
        .map(|_| Reply::error(format!("Version number in the future, please use 'prepare {word}' before.")))
}

/// `add map`.
fn add_map(instance: &Instance, args: &[&str], payload: Option<&str>) -> Reply {
    let (version, args) = version(args);
    let wrong = "'add map' expects three parameters (map identifier, key and value) or one parameter (map identifier) \
                 and a payload";
    let Some(name) = args.first() else { return Reply::error(wrong) };
    if payload.is_none_or(str::is_empty) && args.len() < 3 {
        return Reply::error(wrong);
    }
    let Some(set) = find(instance, true, name) else { return unknown(true) };
    if let Some(reply) = in_the_future(&set, version, true) {
        return reply;
    }
    let Some(payload) = payload else { return added(add(&set, version, args[1], args[2])) };
    let (entries, problem) = lines(payload);
    // What came before a problem stays, as in the reference.
    match (add_lines(&set, version, &entries), problem) {
        (Ok(()), Some(problem)) => Reply::error(problem),
        (result, _) => added(result),
    }
}

/// The entries of a payload, up to the first line that is none, and what is wrong with that.
fn lines(payload: &str) -> (Vec<(&str, &str)>, Option<String>) {
    let mut entries = Vec::new();
    for line in payload.split('\n') {
        let line = line.trim_start_matches([' ', '\t']);
        if line.is_empty() {
            continue;
        }
        let (key, value) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let value = value.trim_start_matches([' ', '\t']);
        if value.is_empty() {
            return (entries, Some(format!("Missing value for key '{key}'.")));
        }
        entries.push((key, value));
    }
    (entries, None)
}

/// The entries of a payload all of whose lines are some.
pub(crate) fn entries(payload: &str) -> Result<Vec<(&str, &str)>, String> {
    let (entries, problem) = lines(payload);
    problem.map_or(Ok(entries), Err)
}

/// Adds entries up to the first that cannot be added.
fn add_lines(set: &PatternSet, version: Option<u32>, entries: &[(&str, &str)]) -> Result<(), String> {
    // All at once where that can be: what uses the set is made anew once, not for each line.
    if version.is_none_or(|version| version == set.versions().0) {
        let bytes: Vec<_> =
            entries.iter().map(|(key, value)| (restore(key.as_bytes()), restore(value.as_bytes()))).collect();
        let bytes: Vec<(&[u8], &[u8])> = bytes.iter().map(|(key, value)| (&**key, &**value)).collect();
        if set.add_all(&bytes).is_ok() {
            return Ok(());
        }
    }
    entries.iter().try_for_each(|(key, value)| add(set, version, key, value))
}

/// `add acl`.
fn add_acl(instance: &Instance, args: &[&str]) -> Reply {
    let (version, args) = version(args);
    let [name, pattern, ..] = args[..] else {
        return Reply::error("'add acl' expects two parameters: ACL identifier and pattern.");
    };
    // The reference says so about a map that no ACL uses, too.
    let set = instance.config.registry.find(name);
    let Some(set) = set else { return unknown(false) };
    if let Some(reply) = in_the_future(&set, version, false) {
        return reply;
    }
    if set.is_map() {
        return Reply::error(
            "This ACL is shared with a map containing samples. You must use the command 'add map' to add values.",
        );
    }
    added(add(&set, version, pattern, ""))
}

/// `set map`.
fn set_map(instance: &Instance, args: &[&str]) -> Reply {
    let [name, key, value, ..] = args else {
        return Reply::error("'set map' expects three parameters: map identifier, key and value.");
    };
    let Some(set) = find(instance, true, name) else { return unknown(true) };
    let value = restore(value.as_bytes());
    if key.starts_with('#') {
        let changed = entry_of(&set, key).map_or(0, |id| set.set_id(id, &value));
        return if changed > 0 { Reply::Done } else { Reply::error("key or pattern not found.") };
    }
    if set.set(&restore(key.as_bytes()), &value) > 0 { Reply::Done } else { Reply::error("entry not found.") }
}

/// `del map`, `del acl`.
fn delete(instance: &Instance, map: bool, args: &[&str]) -> Reply {
    let [name, key, ..] = args else {
        return Reply::error(format!(
            "This command expects two parameters: {} identifier and key.",
            kind(map)
        ));
    };
    let Some(set) = find(instance, map, name) else { return unknown(map) };
    let removed = if key.starts_with('#') {
        entry_of(&set, key).map_or(0, |id| set.delete_id(id))
    } else {
        set.delete(&restore(key.as_bytes()))
    };
    if removed > 0 { Reply::Done } else { Reply::error("Key not found.") }
}

/// `clear map`, `clear acl`.
fn clear(instance: &Instance, map: bool, args: &[&str]) -> Reply {
    let (version, args) = version(args);
    let Some(name) = args.first() else { return Reply::error(format!("Missing {} identifier.", kind(map))) };
    let Some(set) = find(instance, map, name) else { return unknown(map) };
    set.clear(version);
    Reply::Done
}

/// `prepare map`, `prepare acl`.
fn prepare(instance: &Instance, map: bool, args: &[&str]) -> Reply {
    let Some(set) = args.first().and_then(|name| find(instance, map, name)) else { return unknown(map) };
    Reply::info(format!("New version created: {}", set.prepare()))
}

/// `commit map`, `commit acl`.
fn commit(instance: &Instance, map: bool, args: &[&str]) -> Reply {
    let (version, args) = version(args);
    let Some(version) = version else { return Reply::error("Missing version number.") };
    let Some(name) = args.first() else { return Reply::error(format!("Missing {} identifier.", kind(map))) };
    let Some(set) = find(instance, map, name) else { return unknown(map) };
    if version == set.versions().0 {
        return Reply::error("Version number out of range.");
    }
    added(set.commit(version))
}

/// What `show acl` and `show map` write: the lists, or the patterns of one.
fn listed(args: &[&str]) -> Shape {
    if args.is_empty() { Shape::Table } else { Shape::Entries }
}
