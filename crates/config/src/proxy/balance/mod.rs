//! `balance` and what shapes a hash.
//!
//! An algorithm that hashes something of the stream is one file here, with how it is written and what it hashes, and its line in
//! [`HASHING`]. One that goes by the servers alone is one file and one line in `thalweg_balance::algorithm`, and nothing here.

mod hdr;
pub(crate) mod key;
mod rdp_cookie;
mod source;
mod uri;
mod url_param;

use std::sync::Arc;

use thalweg_balance::{Algorithm, HashFunction, HashMethod, PreserveAffinity, Traits, Written};

use thalweg_syntax::{Diagnostic, Line, did_you_mean};

use crate::build::{Building, Cx};
use crate::keyword::{Outcome, fail};
use crate::model::{BalanceAlgo, HashType};
use crate::numbers::{count, leading, lenient};

/// How a load-balancing algorithm is written. What it makes is a [`BalanceAlgo`]; how a server is chosen by that is in
/// `thalweg_balance`.
struct Entry {
    name: &'static str,
    /// Whether something in parentheses follows the name, and what.
    argument: Argument,
    /// Whether it can send log lines to servers (`mode log`).
    for_logs: bool,
    read: Read,
}

/// How a line is read.
enum Read {
    /// It is for an algorithm that goes by the servers alone.
    Servers(&'static Written),
    /// By this. The text is what stands behind the opening parenthesis.
    Hashing(fn(&mut Building, &Line, Option<&str>) -> Made),
}

type Made = Result<BalanceAlgo, Box<Diagnostic>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Argument {
    None,
    /// It may be left out. Messages name it, or nothing.
    Optional(&'static str),
    /// It may not, and is called this.
    Required(&'static str),
}

/// The algorithms that hash something of the stream, in the order of the manual.
const HASHING: [Entry; 7] = [
    source::ENTRY,
    uri::ENTRY,
    url_param::ENTRY,
    entry("hash", expression),
    hdr::ENTRY,
    rdp_cookie::ENTRY,
    entry("log-hash", expression).for_logs(),
];

/// Every algorithm. Without a word the first is taken, as in the reference.
fn algorithms() -> impl Iterator<Item = Entry> {
    Algorithm::ALL.iter().filter_map(|traits| Entry::of_servers(traits)).chain(HASHING)
}

const fn entry(name: &'static str, read: fn(&mut Building, &Line, Option<&str>) -> Made) -> Entry {
    Entry { name, argument: Argument::None, for_logs: false, read: Read::Hashing(read) }
}

impl Entry {
    /// None for one that no line names by itself.
    fn of_servers(traits: &'static Traits) -> Option<Entry> {
        let argument = match traits.written {
            Written::Alone(_) => Argument::None,
            Written::WithNumber { .. } => Argument::Optional(""),
            Written::ByKey => return None,
        };
        let read = Read::Servers(&traits.written);
        Some(Entry { name: traits.name, argument, for_logs: traits.is_for_logs, read })
    }

    const fn with(self, argument: Argument) -> Entry {
        Entry { argument, ..self }
    }

    const fn for_logs(self) -> Entry {
        Entry { for_logs: true, ..self }
    }

    /// As it is written.
    fn usage(&self) -> String {
        match self.argument {
            Argument::None | Argument::Optional("") => self.name.to_owned(),
            Argument::Optional(what) | Argument::Required(what) => format!("{}({what})", self.name),
        }
    }

    fn read(&self, b: &mut Building, line: &Line, argument: Option<&str>) -> Made {
        match self.read {
            Read::Servers(written) => by_servers(self.name, written, line, argument),
            Read::Hashing(read) => read(b, line, argument),
        }
    }

    /// Whether it is written with something in parentheses, or without.
    fn takes(&self, argument: Option<&str>) -> bool {
        match self.argument {
            Argument::None => argument.is_none(),
            Argument::Optional(_) => true,
            Argument::Required(_) => argument.is_some(),
        }
    }
}

/// Words in quotes, the last one behind `and`.
fn listed(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.map(|word| format!("'{word}'")).collect();
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// The algorithms that can send log lines to servers, for a message.
pub(crate) fn listed_for_logs() -> String {
    listed(algorithms().filter(|entry| entry.for_logs).map(|entry| entry.usage()))
}

/// Whether an algorithm can send log lines to servers.
pub(crate) fn is_for_logs(algorithm: &BalanceAlgo) -> bool {
    let name = algorithm.name();
    algorithms().any(|entry| entry.name == name && entry.for_logs)
}

/// The complaint about a word that is no algorithm.
fn unknown(line: &Line, word: &str) -> Box<Diagnostic> {
    let near = did_you_mean(word.split('(').next().unwrap_or(word), algorithms().map(|entry| entry.name));
    let hint = near.map_or(String::from("."), |name| format!("; did you mean '{name}' maybe ?"));
    let names = listed(algorithms().map(|entry| entry.usage()));
    fail(line, 1, format!("balance only supports {names} options{hint}"))
}

pub(crate) fn balance(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_backend(cx, line, "balance", "");
    let word = line.text(1);
    let (name, argument) = match word.split_once('(') {
        Some((name, rest)) => (name, Some(rest)),
        None => (word, None),
    };
    b.balance_expr = None;
    let is_meant = |entry: &Entry| word.is_empty() || entry.name == name && entry.takes(argument);
    let Some(entry) = algorithms().find(is_meant) else {
        return Err(unknown(line, word));
    };
    b.p.balance.algo = entry.read(b, line, argument)?;
    Ok(())
}

/// An algorithm that goes by the servers alone.
fn by_servers(name: &str, written: &Written, line: &Line, argument: Option<&str>) -> Made {
    let algorithm = match (written, argument) {
        (Written::WithNumber { what, usual, with }, Some(rest)) => {
            let Some(text) = rest.strip_suffix(')') else {
                return Err(fail(line, 1, format!("balance {name} : missing closing parenthesis.")));
            };
            // Nothing between the parentheses leaves the usual number.
            let number = if text.is_empty() { Ok(*usual) } else { u32::try_from(leading(text).0) };
            match number {
                Ok(number) if number > 0 => with(number),
                _ => return Err(fail(line, 1, format!("balance {name} : {what} must be at least 1."))),
            }
        }
        _ => written.usual().unwrap_or_default(),
    };
    Ok(BalanceAlgo::Servers(algorithm))
}

/// `hash` and `log-hash`. The expression is compiled when all names are known; what is kept here says that there is one.
fn expression(b: &mut Building, line: &Line, _: Option<&str>) -> Made {
    let name = line.text(1);
    let for_logs = name == "log-hash";
    if line.text(2).is_empty() {
        let what = if for_logs { "a converter list" } else { "a sample expression" };
        return Err(fail(line, 2, format!("balance {name} requires {what}.")));
    }
    if !for_logs && let Some(extra) = line.word(3) {
        return Err(fail(line, 3, format!("balance hash takes no other argument (got '{extra}').")));
    }
    b.balance_expr = Some((Arc::from(line.text(2)), line.span_at(2), for_logs));
    Ok(BalanceAlgo::Servers(Algorithm::RoundRobin))
}

pub(crate) fn hash_type(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_backend(cx, line, "hash-type", "");
    let mut hash = HashType {
        method: match line.text(1) {
            "consistent" => HashMethod::Consistent,
            "map-based" => HashMethod::MapBased,
            "avalanche" => {
                let message = "experimental feature 'hash-type avalanche' is not supported anymore, please use 'hash-type \
                               map-based sdbm avalanche' instead.";
                return Err(fail(line, 1, message));
            }
            _ => return Err(fail(line, 1, "'hash-type' only supports 'consistent' and 'map-based'.")),
        },
        function: HashFunction::Sdbm,
        avalanche: false,
    };
    match line.text(2) {
        // A ring needs scattered points, a map does not.
        "" => {
            hash.avalanche = hash.method == HashMethod::Consistent;
            b.p.balance.hash = hash;
            return Ok(());
        }
        "sdbm" => {}
        "djb2" => hash.function = HashFunction::Djb2,
        "wt6" => hash.function = HashFunction::Wt6,
        "crc32" => hash.function = HashFunction::Crc32,
        "none" => hash.function = HashFunction::None,
        _ => {
            let message = "'hash-type' only supports 'sdbm', 'djb2', 'crc32', or 'wt6' hash functions.";
            return Err(fail(line, 2, message));
        }
    }
    match line.text(3) {
        "" => {}
        "avalanche" => hash.avalanche = true,
        _ => {
            let message = "'hash-type' only supports 'avalanche' as a modifier for hash functions.";
            return Err(fail(line, 3, message));
        }
    }
    b.p.balance.hash = hash;
    Ok(())
}

pub(crate) fn hash_balance_factor(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'hash-balance-factor' expects an integer argument."));
    }
    let value = lenient(cx, line, 1);
    match count(value) {
        Some(factor) if factor == 0 || factor > 100 => b.p.balance.hash_balance_factor = factor,
        _ => return Err(fail(line, 1, "'hash-balance-factor' must be 0 or greater than 100.")),
    }
    Ok(())
}

pub(crate) fn hash_preserve_affinity(_: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    if !b.may_be_backend() {
        return Err(fail(line, 0, "'hash-preserve-affinity' only available in backend or listen section"));
    }
    b.p.balance.preserve_affinity = match line.text(1) {
        "always" => PreserveAffinity::Always,
        "maxconn" => PreserveAffinity::MaxConn,
        "maxqueue" => PreserveAffinity::MaxQueue,
        "" => {
            return Err(fail(
                line,
                1,
                "'hash-preserve-affinity' needs a keyword to specify when to preserve hash affinity",
            ));
        }
        other => return Err(fail(line, 1, format!("'hash-preserve-affinity': unknown keyword '{other}'"))),
    };
    Ok(())
}
