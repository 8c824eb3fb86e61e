//! Stick tables (management manual, section 9.3: `show table`, `set table`, `clear table`).
//!
//! Entries are looked at one by one, each held for that moment only, and others get their turn in between: traffic does not
//! wait for a dump, however large the table is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::io;

use thalweg_config::model::CliLevel::{Operator, User};
use thalweg_proxy::Instance;
use thalweg_runtime::clock;
use thalweg_sample::cast::{parse_ip4, parse_ip6, v6_to_v4};
use thalweg_sample::value::leading_int;
use thalweg_stick::data::Shape;
use thalweg_stick::{DataType, Entry, KeyType, KeyValue, Stored, Table, Values};
use thalweg_syntax::carry::restore;

use crate::command::{Call, Command, Run};
use crate::json;
use crate::output::{Reply, give_way};

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("clear table", Operator, Run::Waiting(|call| Box::pin(clear(call))))
        .help("<table> [<filter>]*", "remove entries of a stick table (filter: data/key/ptr)"),
    Command::new("set table", Operator, Run::Now(|call| set(call.instance(), call.args)))
        .help("<table> [<filter>] [data.<type> <v>]*", "change or add an entry of a stick table (key/ptr)"),
    Command::new("show table", User, Run::Waiting(|call| Box::pin(show(call))))
        .help(
            "<table> [<filter>]* [top <n> by [data.]<type>]",
            "list the stick tables, or the entries of one (filter: data/key/ptr)",
        )
        .json(|_| json::Shape::Records),
];

/// Entries that are looked at before others get their turn.
const AT_ONCE: u32 = 1000;
/// To take an entry away costs as much as to look at so many.
const REMOVAL_COSTS: u32 = 10;

/// Where the numbers of entries begin: scripts expect the shape of an address, and no entry may have the number of another
/// table's.
const POINTER_BASE: u64 = 0x2000_0000_0000;
/// Numbers between one table's entries and the next table's.
const POINTER_TABLE: u64 = 1 << 36;

/// The most entries that `top` shows: they are kept while the others are looked at.
const TOP_MAX: usize = 1000;

/// The most conditions of a filter.
const CONDITIONS_MAX: usize = 4;

const SET_USAGE: &str = "Required arguments: <table> key <key> [data.<store_data_type> <value>]* or <table> ptr <ptr> [data.<store_data_type> <value>]*";
const CLEAR_USAGE: &str = "Required arguments: <table> \"data.<store_data_type>\" <operator> <value> or <table> key <key> or <table> ptr <ptr>";
const SHOW_USAGE: &str =
    "Optional argument only supports \"data.<store_data_type>\" <operator> <value> or key <key> or ptr <ptr>";

/// A table and its number.
fn find<'i>(instance: &'i Instance, name: &str) -> Result<(usize, &'i Table), Reply> {
    let found = instance.named_tables().find(|(_, table)| &*table.spec().name == name);
    found.map(|(at, table)| (at, &**table)).ok_or_else(|| Reply::error("No such table"))
}

/// What a command does with keys, for the message that says which it cannot.
#[derive(Clone, Copy)]
enum Doing {
    Showing,
    Inserting,
    Removing,
}

/// The bytes of the key that a word is.
fn key(table: &Table, word: Option<&&str>, doing: Doing) -> Result<Vec<u8>, Reply> {
    let word = match word {
        Some(word) if !word.is_empty() => *word,
        _ => return Err(Reply::error("Key value expected")),
    };
    let invalid = || Reply::error("Invalid key");
    Ok(match table.spec().key {
        KeyType::Ip4 => {
            let v6 = || parse_ip6(word.as_bytes()).and_then(v6_to_v4);
            parse_ip4(word.as_bytes()).or_else(v6).ok_or_else(invalid)?.octets().to_vec()
        }
        KeyType::Ip6 => {
            let v4 = || parse_ip4(word.as_bytes()).map(|ip| ip.to_ipv6_mapped());
            parse_ip6(word.as_bytes()).or_else(v4).ok_or_else(invalid)?.octets().to_vec()
        }
        // What is no number is 0, and of larger ones the lower 32 bits count.
        KeyType::Integer => (leading_int(word.as_bytes()).0 as u32).to_be_bytes().to_vec(),
        KeyType::String(_) => restore(word.as_bytes()).to_vec(),
        KeyType::Binary(_) => {
            let what = match doing {
                Doing::Showing => "Showing keys from",
                Doing::Inserting => "Inserting keys into",
                Doing::Removing => "Removing keys from",
            };
            let types = "tables of type other than ip, ipv6, string and integer is not supported";
            return Err(Reply::error(format!("{what} {types}")));
        }
    })
}

fn pointer(at: usize, entry: &Entry) -> u64 {
    POINTER_BASE + at as u64 * POINTER_TABLE + u64::from(entry.number()) * 16
}

/// The entry that a pointer names.
fn pointed<'t>(at: usize, table: &'t Table, word: Option<&&str>) -> Result<Entry<'t>, Reply> {
    let hex = word.and_then(|word| word.strip_prefix("0x"));
    let hex = hex.ok_or_else(|| Reply::error("Pointer expected (0xffff notation)"))?;
    if hex.is_empty() || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(Reply::error("Malformed ptr."));
    }
    // One that is too long is no entry's.
    let number = u64::from_str_radix(hex, 16).unwrap_or(0);
    let offset = number.checked_sub(POINTER_BASE + at as u64 * POINTER_TABLE).filter(|n| n % 16 == 0);
    let entry = offset.and_then(|offset| table.entry_at(u32::try_from(offset / 16).ok()?));
    entry.ok_or_else(|| Reply::error("No entry can be found matching ptr."))
}

/// What a filter or an order looks at: a value of an entry, or its sum over the peers of a fleet.
#[derive(Clone, Copy)]
struct Datum {
    kind: DataType,
    index: u16,
    is_sum: bool,
}

/// What follows the name of a sum.
const SUM: &str = "_all";

impl Datum {
    /// From `data.gpc[1]`, and in a fleet `data.gpc_all[1]`.
    fn read(table: &Table, word: &str) -> Result<Datum, &'static str> {
        let (name, index) = word.split_at(word.find('[').unwrap_or(word.len()));
        let summed = name.strip_suffix(SUM).filter(|_| table.spec().fleet);
        let (kind, index) = data(table, &format!("{}{index}", summed.unwrap_or(name)))?;
        Ok(Datum { kind, index, is_sum: summed.is_some() })
    }

    fn of(&self, seen: &Seen, now_ms: u64) -> Option<u64> {
        match self.is_sum {
            true => seen.values.sum_at_of(seen.table, self.kind, self.index, now_ms),
            false if seen.is_own() => seen.values.get_at(self.kind, self.index, now_ms),
            false => Some(0),
        }
    }
}

/// An entry of a table as it is shown: this process's, or one that only peers of a fleet have, of whose share its values are.
#[derive(Clone, Copy)]
struct Seen<'t> {
    table: &'t Table,
    values: Values<'t>,
}

impl Seen<'_> {
    fn is_own(&self) -> bool {
        std::ptr::eq(self.table, self.values.table())
    }
}

/// A table, and behind it the shares of its peers.
fn parts(table: &Table) -> impl Iterator<Item = &Table> {
    std::iter::once(table).chain(table.shares())
}

/// The entry with a number in a part of a table, if those before have none of its key.
fn entry_at<'t>(table: &'t Table, part: &'t Table, number: u32, now_ms: u64) -> Option<Entry<'t>> {
    let entry = part.entry_at(number)?;
    if !std::ptr::eq(table, part) {
        let values = entry.values();
        let (mut buf, mut long) = ([0; 64], Vec::new());
        let key = table.spec().key.key(values.key_bytes(&mut buf, &mut long))?;
        // What nobody used for so long counts no more, but may still be there.
        let is_due = table.spec().expire_ms > 0 && values.expires_in(now_ms) == 0;
        let mut before = parts(table).take_while(|before| !std::ptr::eq(*before, part));
        if is_due || before.any(|before| before.find(key, now_ms).is_some()) {
            return None;
        }
    }
    Some(entry)
}

/// A kind of data with an index, from `data.gpc[1]`.
fn data(table: &Table, word: &str) -> Result<(DataType, u16), &'static str> {
    const UNKNOWN: &str = "Unknown data type";
    let (name, index) = match word.split_once('[') {
        None => (word, 0),
        Some((name, rest)) => {
            let digits = rest.strip_suffix(']').ok_or(UNKNOWN)?;
            let index: i64 = digits.parse().map_err(|_| UNKNOWN)?;
            (name, u16::try_from(index).unwrap_or(u16::MAX))
        }
    };
    let kind = DataType::from_name(name).ok_or(UNKNOWN)?;
    match table.stored(kind) {
        Some(_) => Ok((kind, index)),
        None => Err("Data type not stored in this table"),
    }
}

/// One condition on the data of entries.
struct Condition {
    datum: Datum,
    holds: fn(&i64, &i64) -> bool,
    value: i64,
}

impl Condition {
    fn is_met(&self, seen: &Seen, now_ms: u64) -> bool {
        let value = self.datum.of(seen, now_ms);
        value.is_some_and(|value| (self.holds)(&i64::try_from(value).unwrap_or(i64::MAX), &self.value))
    }
}

/// Whether an entry of a table or of a part of it meets all conditions.
fn is_wanted(table: &Table, entry: &Entry, conditions: &[Condition], now_ms: u64) -> bool {
    let seen = Seen { table, values: entry.values() };
    conditions.iter().all(|condition| condition.is_met(&seen, now_ms))
}

/// The conditions that words say; `at` is the position of the first word on the line.
fn conditions(table: &Table, words: &[&str], at: usize) -> Result<Vec<Condition>, Reply> {
    let mut conditions = Vec::new();
    let mut rest = words;
    while let [first, ..] = rest {
        if conditions.len() == CONDITIONS_MAX {
            let position = at + words.len() - rest.len();
            let before = words[words.len() - rest.len() - 1];
            return Err(Reply::error(format!(
                "Detected extra data in filter, {position}th word of input, after '{before}'"
            )));
        }
        let wrong = |what: &str| Reply::error(format!("Filter entry #{}: {what}", conditions.len() + 1));
        let Some(name) = first.strip_prefix("data.") else { return Err(wrong("Unknown data type")) };
        let datum = Datum::read(table, name).map_err(wrong)?;
        let holds: fn(&i64, &i64) -> bool = match rest.get(1).copied() {
            Some("eq") => i64::eq,
            Some("ne") => i64::ne,
            Some("le") => i64::le,
            Some("ge") => i64::ge,
            Some("lt") => i64::lt,
            Some("gt") => i64::gt,
            _ => {
                let operators = "\"eq\", \"ne\", \"le\", \"ge\", \"lt\", \"gt\"";
                return Err(wrong(&format!("Require and operator among {operators}")));
            }
        };
        let value = rest.get(2).and_then(|word| whole(word));
        let value = value.ok_or_else(|| wrong("Require a valid integer value to compare against"))?;
        conditions.push(Condition { datum, holds, value });
        rest = &rest[3..];
    }
    Ok(conditions)
}

fn head(table: &Table) -> String {
    let spec = table.spec();
    let (name, kind, size, used) = (&spec.name, spec.key.name(), spec.size, table.used());
    format!("# table: {name}, type: {kind}, size:{size}, used:{used}\n")
}

/// A key as dumps show it.
fn show_key(out: &mut String, values: &Values, kind: KeyType) {
    let _ = match values.key_value() {
        KeyValue::Ip4(ip) => write!(out, "{ip}"),
        KeyValue::Ip6(ip) => write!(out, "{ip}"),
        KeyValue::Integer(n) => write!(out, "{n}"),
        KeyValue::Bytes => {
            let (mut buf, mut long) = ([0; 64], Vec::new());
            for byte in values.key_bytes(&mut buf, &mut long) {
                let _ = match (kind, byte) {
                    (KeyType::Binary(_), byte) => write!(out, "{byte:02X}"),
                    (_, b' ' | b'=' | b'\\') => write!(out, "\\{}", *byte as char),
                    (_, b'\t') => write!(out, "\\t"),
                    (_, b'\n') => write!(out, "\\n"),
                    (_, b'\r') => write!(out, "\\r"),
                    (_, 0x1b) => write!(out, "\\e"),
                    (_, 0x21..=0x7e) => write!(out, "{}", *byte as char),
                    (_, byte) => write!(out, "\\x{byte:02X}"),
                };
            }
            Ok(())
        }
    };
}

fn show_data(out: &mut String, seen: &Seen, stored: Stored, now_ms: u64) {
    let table = seen.table;
    for (index, is_sum) in (0..stored.count).flat_map(|index| [(index, false), (index, true)]) {
        // What names a server or a tag is nothing that is summed.
        let is_count =
            !matches!(stored.kind, DataType::ServerId | DataType::Gpt0 | DataType::Gpt | DataType::ServerKey);
        if is_sum && !(is_count && table.spec().fleet) {
            continue;
        }
        let name = stored.kind.name();
        let value = Datum { kind: stored.kind, index, is_sum }.of(seen, now_ms).unwrap_or(0);
        let _ = match stored.kind {
            DataType::Gpt | DataType::Gpc => write!(out, " {name}{index}"),
            DataType::GpcRate => write!(out, " gpc{index}_rate"),
            _ => write!(out, " {name}"),
        };
        if is_sum {
            out.push_str(SUM);
        }
        let _ = match stored.kind.shape() {
            Shape::Rate => write!(out, "({})={value}", stored.period_ms),
            Shape::Name => write!(out, "={}", table.name(value).as_deref().unwrap_or("-")),
            Shape::Counter | Shape::Long => write!(out, "={value}"),
        };
    }
}

fn show_entry(out: &mut String, instance: &Instance, at: usize, table: &Table, entry: &Entry, now_ms: u64) {
    let values = entry.values();
    let seen = Seen { table, values };
    // What this process does not have itself has no number here.
    let pointer = if seen.is_own() { pointer(at, entry) } else { 0 };
    let _ = write!(out, "{pointer:#x}: key=");
    show_key(out, &values, table.spec().key);
    let (mut buf, mut long) = ([0; 64], Vec::new());
    let shard = instance.peers.shard_of(table, values.key_bytes(&mut buf, &mut long));
    let _ = write!(out, " use={} exp={} shard={shard}", values.trackers(), values.expires_in(now_ms));
    for stored in &table.spec().data {
        show_data(out, &seen, *stored, now_ms);
    }
    out.push('\n');
}

/// The entries with the largest values of a kind.
struct Top {
    count: usize,
    datum: Datum,
}

/// `top <n> by data.<type>` at the end of what follows `show table`, and what is before it.
fn top<'w, 'a>(table: &Table, args: &'w [&'a str]) -> Result<(&'w [&'a str], Option<Top>), Reply> {
    let usage = || Reply::error(format!("'top' expects a number from 1 to {TOP_MAX}, 'by' and data.<type>"));
    let Some(at) = args.iter().position(|word| *word == "top").filter(|at| *at % 3 == 1) else {
        return Ok((args, None));
    };
    let [_, count, "by", data_word] = &args[at..] else { return Err(usage()) };
    let count = count.parse().ok().filter(|count| (1..=TOP_MAX).contains(count)).ok_or_else(usage)?;
    let name = data_word.strip_prefix("data.").unwrap_or(data_word);
    let datum = Datum::read(table, name).map_err(Reply::error)?;
    Ok((&args[..at], Some(Top { count, datum })))
}

/// The part of a table that an entry is in, and its number there.
type Found = (usize, u32);

/// What the heap of the largest has on top: the least value, and of those the last entry.
type Least = Reverse<(u64, Reverse<Found>)>;

impl Top {
    /// The parts and numbers of the entries, the largest value first. Those without a value, or with none, are not among them.
    async fn find(&self, table: &Table, conditions: &[Condition]) -> Vec<Found> {
        let mut best = BinaryHeap::<Least>::new();
        for (at, part) in parts(table).enumerate() {
            for number in 0..part.numbers() {
                let now_ms = clock::now_ms();
                if let Some(entry) = entry_at(table, part, number, now_ms)
                    && is_wanted(table, &entry, conditions, now_ms)
                {
                    let seen = Seen { table, values: entry.values() };
                    let value = self.datum.of(&seen, now_ms).unwrap_or(0);
                    let new = Reverse((value, Reverse((at, number))));
                    if value > 0 && (best.len() < self.count || best.peek().is_some_and(|least| new < *least))
                    {
                        best.push(new);
                        if best.len() > self.count {
                            best.pop();
                        }
                    }
                }
                if number % AT_ONCE == AT_ONCE - 1 {
                    give_way().await;
                }
            }
        }
        best.into_sorted_vec().into_iter().map(|Reverse((_, Reverse(place)))| place).collect()
    }
}

/// Takes away every entry that is due, before all are looked at.
async fn expire(table: &Table) {
    let now_ms = clock::now_ms();
    while table.expire(now_ms, AT_ONCE as usize) {
        give_way().await;
    }
    for shard in 0..table.shards() {
        if table.expire_exactly(shard, now_ms) >= AT_ONCE {
            give_way().await;
        }
    }
}

/// `show table [<name> [<filter>] [top <n> by data.<type>]]`
async fn show(call: Call<'_>) -> io::Result<Reply> {
    let Call { session, output, args, .. } = call;
    let instance = &session.instance;
    let Some(name) = args.first() else {
        // The last one first, as in the reference.
        for (_, table) in instance.named_tables().rev() {
            expire(table).await;
            output.text.push_str(&head(table));
            output.end_row().await?;
        }
        return Ok(Reply::Done);
    };
    let (at, table) = match find(instance, name) {
        Ok(found) => found,
        Err(reply) => return Ok(reply),
    };
    let now_ms = clock::now_ms();
    let (args, top) = match top(table, args) {
        Ok(found) => found,
        Err(reply) => return Ok(reply),
    };
    let entry = match args.get(1).copied() {
        Some("key") => key(table, args.get(2), Doing::Showing)
            .map(|bytes| Some(table.spec().key.key(&bytes).and_then(|key| table.find(key, now_ms)))),
        Some("ptr") => pointed(at, table, args.get(2)).map(|entry| Some(Some(entry))),
        Some(word) if !word.starts_with("data.") => Err(Reply::error(SHOW_USAGE)),
        _ => Ok(None),
    };
    let conditions = match entry {
        Err(reply) => return Ok(reply),
        Ok(Some(None)) => return Ok(Reply::Done),
        Ok(Some(Some(entry))) => {
            let mut text = head(table);
            show_entry(&mut text, instance, at, table, &entry, now_ms);
            return Ok(Reply::Text(text));
        }
        Ok(None) => match conditions(table, &args[1..], 4) {
            Ok(conditions) => conditions,
            Err(reply) => return Ok(reply),
        },
    };
    expire(table).await;
    output.text.push_str(&head(table));
    if let Some(top) = top {
        for (part, number) in top.find(table, &conditions).await {
            if let Some(entry) = parts(table).nth(part).and_then(|part| part.entry_at(number)) {
                show_entry(&mut output.text, instance, at, table, &entry, clock::now_ms());
            }
        }
        return Ok(Reply::Done);
    }
    for part in parts(table) {
        for number in 0..part.numbers() {
            let now_ms = clock::now_ms();
            if let Some(entry) = entry_at(table, part, number, now_ms)
                && is_wanted(table, &entry, &conditions, now_ms)
            {
                show_entry(&mut output.text, instance, at, table, &entry, now_ms);
            }
            output.end_row().await?;
        }
    }
    Ok(Reply::Done)
}

/// `clear table <name> [<filter>]`
async fn clear(call: Call<'_>) -> io::Result<Reply> {
    let instance = &call.session.instance;
    let args = call.args;
    let Some(name) = args.first() else { return Ok(Reply::error(CLEAR_USAGE)) };
    let (at, table) = match find(instance, name) {
        Ok(found) => found,
        Err(reply) => return Ok(reply),
    };
    let now_ms = clock::now_ms();
    let remove = |entry: Entry| match table.remove(entry) {
        true => Reply::Done,
        false => Reply::error("Entry currently in use, cannot remove"),
    };
    match args.get(1).copied() {
        Some("key") => {
            return Ok(match key(table, args.get(2), Doing::Removing) {
                Err(reply) => reply,
                Ok(bytes) => {
                    let found = table.spec().key.key(&bytes).and_then(|key| table.find(key, now_ms));
                    found.map_or(Reply::Done, remove)
                }
            });
        }
        Some("ptr") => return Ok(pointed(at, table, args.get(2)).map_or_else(|reply| reply, remove)),
        Some(word) if !word.starts_with("data.") => return Ok(Reply::error(CLEAR_USAGE)),
        _ => {}
    }
    let conditions = match conditions(table, &args[1..], 4) {
        Ok(conditions) => conditions,
        Err(reply) => return Ok(reply),
    };
    let mut cost = 0;
    for number in 0..table.numbers() {
        cost += 1;
        if let Some(entry) = table.entry_at(number)
            && is_wanted(table, &entry, &conditions, now_ms)
            // Who is tracked stays.
            && table.remove(entry)
        {
            cost += REMOVAL_COSTS;
        }
        if cost >= AT_ONCE {
            cost = 0;
            give_way().await;
        }
    }
    Ok(Reply::Done)
}

/// `set table <name> key|ptr <key> [data.<type> <value>]*`
fn set(instance: &Instance, args: &[&str]) -> Reply {
    changed(instance, args).map_or_else(|reply| reply, |()| Reply::Done)
}

fn changed(instance: &Instance, args: &[&str]) -> Result<(), Reply> {
    let usage = || Reply::error(SET_USAGE);
    let (at, table) = find(instance, args.first().ok_or_else(usage)?)?;
    let now_ms = clock::now_ms();
    let Some(selector) = args.get(1) else { return Ok(()) };
    let bytes = match *selector {
        "key" => Some(key(table, args.get(2), Doing::Inserting)?),
        "ptr" => None,
        word if word.starts_with("data.") => {
            let only = "content-based lookup is only supported with the \"show\" and \"clear\" actions";
            return Err(Reply::error(only));
        }
        _ => return Err(usage()),
    };
    // All is checked before anything changes.
    let mut changes = Vec::new();
    for pair in args.get(3..).unwrap_or_default().chunks(2) {
        let Some(name) = pair[0].strip_prefix("data.") else {
            return Err(Reply::error("\"data.<type>\" followed by a value expected"));
        };
        let (kind, index) = data(table, name).map_err(Reply::error)?;
        let count = table.stored(kind).map_or(0, |stored| stored.count);
        if index >= count {
            return Err(Reply::error("index out of range in this data array"));
        }
        let value = pair.get(1).and_then(|word| whole(word)).filter(|_| kind.shape() != Shape::Name);
        let value = value.ok_or_else(|| Reply::error("Require a valid integer value to store"))?;
        changes.push((kind, index, value as u64));
    }
    let entry = match bytes {
        Some(bytes) => {
            let key = table.spec().key.key(&bytes).ok_or_else(|| Reply::error("Invalid key"))?;
            let made = table.find_or_insert(key, now_ms);
            made.map_err(|_| Reply::error("Unable to allocate a new entry"))?
        }
        None => pointed(at, table, args.get(2))?,
    };
    for (kind, index, value) in changes {
        entry.values().set_at(kind, index, value, now_ms);
    }
    entry.touch(now_ms);
    Ok(())
}

/// A number of 64 bits. A sign is only taken where it says something.
fn whole(word: &str) -> Option<i64> {
    word.parse().ok().filter(|_| !word.starts_with('+'))
}
