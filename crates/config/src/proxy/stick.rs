//! Stick tables and what is kept in them: `stick-table`, `stick`.

use std::sync::Arc;

use thalweg_sample::cast::possible;
use thalweg_sample::track::key_type;
use thalweg_sample::{Condition, Expr, Point, TableId};
use thalweg_stick::data::{DataType, ELEMENTS_MAX, Shape};
use thalweg_stick::{KeyType, Stored};
use thalweg_stick::{ServerKey, Spec};
use thalweg_syntax::{Diagnostic, Lead, Line, Severity, Span, TimeError, parse_time_ms, units::parse_size};

use crate::build::{Building, Cx};
use crate::keyword::{NoteBoxed, Outcome, fail};
use crate::model::{ProxyKind, StickRule, StickStore};
use crate::numbers::{duration_ms, leading};
use crate::sample_env::{expression_at, with_env, words};

/// A table while the files are read.
pub(crate) struct TableDraft {
    pub spec: Spec,
    /// The section it is in, as messages name it.
    pub section: String,
    pub span: Span,
    /// The table that `write-to` names.
    pub write_to: Option<Arc<str>>,
}

/// Keys without `len`: one less than the reference's documentation says, as the program has it.
const STRING_LEN: u16 = 31;
const BINARY_LEN: u16 = 32;
/// The longest key: it has to fit into a buffer in any case.
const LEN_MAX: i64 = 16_384;

/// `stick-table type <type> size <size> [expire <time>] ...`
pub(crate) fn stick_table(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    if b.p.kind == ProxyKind::Defaults {
        return Err(fail(line, 0, "'stick-table' is not supported in 'defaults' section."));
    }
    let name = Arc::clone(&b.p.name);
    if let Some(other) = cx.tables.iter().find(|other| other.spec.name == name) {
        let (file, number) = (cx.sources.name(other.span.file), other.span.line);
        let message = format!(
            "stick-table name '{name}' conflicts with table declared in {} at {file}:{number}.",
            other.section
        );
        return Err(fail(line, 0, message));
    }
    let (spec, write_to) = table(cx, line, 1, name, false)?;
    cx.tables.push(TableDraft { spec, section: b.title(), span: line.span(), write_to });
    Ok(())
}

/// What a line says of a table, from the word at `at` on, and which table it writes to. `is_shared` says that it is a
/// `table` of a `peers` section.
pub(crate) fn table(
    cx: &mut Cx<'_>,
    line: &Line,
    at: usize,
    name: Arc<str>,
    is_shared: bool,
) -> Result<(Spec, Option<Arc<str>>), Box<Diagnostic>> {
    words_of_table(cx, line, at, name, is_shared).map_err(|mut e| {
        if is_shared && let Some(rest) = e.message.strip_prefix("stick-table") {
            e.message = format!("table{rest}");
        }
        e
    })
}

/// In one piece, as it is the list of words.
fn words_of_table(
    cx: &mut Cx<'_>,
    line: &Line,
    mut at: usize,
    name: Arc<str>,
    is_shared: bool,
) -> Result<(Spec, Option<Arc<str>>), Box<Diagnostic>> {
    let mut key = None;
    let mut write_to = None;
    let mut spec = Spec::new(name, KeyType::Ip4, 0);
    while at < line.words.len() {
        let (word, value) = (line.text(at), line.text(at + 1));
        let missing = || fail(line, at + 1, format!("stick-table: missing argument after '{word}'."));
        let mut taken = 2;
        match word {
            "size" => {
                if value.is_empty() {
                    return Err(missing());
                }
                spec.size = parse_size(value, u64::from(i32::MAX as u32))
                    .map(|size| size as u32)
                    .map_err(|_| wrong_character(line, at, value))?;
            }
            "expire" => {
                if value.is_empty() {
                    return Err(missing());
                }
                spec.expire_ms = lifetime(cx, line, at, value)?;
            }
            "nopurge" => {
                spec.purge = false;
                taken = 1;
            }
            "recv-only" => {
                spec.recv_only = true;
                taken = 1;
            }
            "type" => {
                let (kind, words) = kind_of_keys(line, at + 1)?;
                key = Some(kind);
                taken = 1 + words;
            }
            "brates-factor" => {
                if value.is_empty() {
                    return Err(missing());
                }
                spec.byte_rate_factor = byte_rate_factor(line, at, value)?;
            }
            "srvkey" => {
                spec.server_key = server_key(line, at, value)?;
            }
            "fleet" => {
                spec.fleet = true;
                taken = 1;
            }
            "write-to" => {
                if value.is_empty() {
                    return Err(fail(line, at + 1, "stick-table : write-to requires table name."));
                }
                write_to = Some(cx.name(value));
            }
            "store" => store(cx, line, at + 1, &mut spec.data)?,
            "peers" if !is_shared && value.is_empty() => return Err(missing()),
            "peers" if !is_shared => spec.peers = Some(cx.name(value)),
            other => return Err(fail(line, at, format!("stick-table: unknown argument '{other}'."))),
        }
        at += taken;
    }
    let Some(key) = key else {
        return Err(fail(
            line,
            0,
            if spec.size == 0 { "stick-table: missing size." } else { "stick-table: missing type." },
        ));
    };
    if spec.size == 0 {
        return Err(fail(line, 0, "stick-table: missing size."));
    }
    if spec.fleet && !is_shared && spec.peers.is_none() {
        return Err(fail(line, 0, "stick-table: 'fleet' sums over peers: it needs 'peers <section>'."));
    }
    spec.key = key;
    // `show table` prints in this order.
    spec.data.sort_by_key(|stored| stored.kind);
    Ok((spec, write_to))
}

/// The value of `expire` at `at`, in milliseconds.
fn lifetime(cx: &mut Cx<'_>, line: &Line, at: usize, value: &str) -> Result<u32, Box<Diagnostic>> {
    duration_ms(cx, line, at + 1).map(|ms| ms as u32).map_err(|error| match error {
        TimeError::Overflow => fail(line, at + 1, format!(
            "stick-table: timer overflow in argument <{value}> to <expire>, maximum value is 2147483647 ms (~24.8 days)."
        )),
        TimeError::Underflow => fail(line, at + 1, format!(
            "stick-table: timer underflow in argument <{value}> to <expire>, minimum non-null value is 1 ms."
        )),
        _ => wrong_character(line, at, value),
    })
}

/// The value of `brates-factor` at `at`.
fn byte_rate_factor(line: &Line, at: usize, value: &str) -> Result<u32, Box<Diagnostic>> {
    let factor = value.parse().ok().filter(|factor| (1..=1024).contains(factor));
    factor.ok_or_else(|| {
        let what = "must be greater than 0 and lower or equal than 1024.";
        fail(line, at + 1, format!("stick-table: argument 'brates-factor' {what}"))
    })
}

/// The value of `srvkey` at `at`.
fn server_key(line: &Line, at: usize, value: &str) -> Result<ServerKey, Box<Diagnostic>> {
    match value {
        "name" => Ok(ServerKey::Name),
        "addr" => Ok(ServerKey::Address),
        _ => {
            let message = format!("stick-table : unknown server key type '{value}'.");
            Err(fail(line, at + 1, message).note_boxed("the keys are 'name' and 'addr'"))
        }
    }
}

fn wrong_character(line: &Line, at: usize, value: &str) -> Box<Diagnostic> {
    let rest = value.trim_start_matches(|c: char| c.is_ascii_digit());
    // A unit is one letter, which may be a good one with something after it.
    let found = match rest.char_indices().nth(1) {
        Some((i, _)) if matches!(rest.as_bytes()[0], b'k' | b'm' | b'K' | b'M') => rest[i..].chars().next(),
        _ => rest.chars().next(),
    };
    let message = format!(
        "stick-table: unexpected character '{}' in argument of '{}'.",
        found.unwrap_or('?'),
        line.text(at)
    );
    fail(line, at + 1, message)
}

/// The kind of keys that the words from `at` on say, and how many these are.
fn kind_of_keys(line: &Line, at: usize) -> Result<(KeyType, usize), Box<Diagnostic>> {
    let name = line.text(at);
    let with_len: Option<fn(u16) -> KeyType> = match name {
        "string" => Some(KeyType::String),
        "binary" => Some(KeyType::Binary),
        _ => None,
    };
    if let Some(make) = with_len {
        if line.text(at + 1) != "len" {
            return Ok((make(if name == "string" { STRING_LEN } else { BINARY_LEN }), 1));
        }
        let (len, rest) = leading(line.text(at + 2));
        if len <= 0 || !rest.is_empty() {
            return Err(fail(line, at + 2, "'len' expects a positive integer argument."));
        }
        if len > LEN_MAX {
            let message = format!("stick-table: a key has at most {LEN_MAX} bytes here.");
            return Err(fail(line, at + 2, message));
        }
        return Ok((make(u16::try_from(len).unwrap_or(u16::MAX)), 3));
    }
    let kind = match name {
        "ip" | "ipv4" => KeyType::Ip4,
        "ipv6" => KeyType::Ip6,
        "integer" => KeyType::Integer,
        _ => {
            let message = format!("stick-table: unknown type '{name}'.");
            return Err(
                fail(line, at, message).note_boxed("types are ip, ipv4, ipv6, integer, string and binary")
            );
        }
    };
    Ok((kind, 1))
}

/// The list after `store`.
fn store(cx: &mut Cx<'_>, line: &Line, at: usize, data: &mut Vec<Stored>) -> Outcome {
    let list = line.text(at);
    let mut rest = list;
    while !rest.is_empty() {
        let end = rest.find([',', '(']).unwrap_or(rest.len());
        let name = &rest[..end];
        let mut argument = None;
        rest = &rest[end..];
        if let Some(inner) = rest.strip_prefix('(') {
            let Some(close) = inner.find(')') else {
                let message =
                    format!("stick-table: missing closing parenthesis after store option '{name}'.");
                return Err(fail(line, at, message));
            };
            argument = Some(&inner[..close]);
            rest = &inner[close + 1..];
            // As in the reference, what stands between the parenthesis and the comma is passed over, but not in silence.
            let extra = &rest[..rest.find(',').unwrap_or(rest.len())];
            if !extra.is_empty() {
                cx.warn(line, at, format!("stick-table: '{extra}' after store option '{name}' is ignored."));
            }
            rest = &rest[extra.len()..];
        }
        rest = rest.strip_prefix(',').unwrap_or(rest);
        let stored = stored(line, at, name, argument)?;
        if data.iter().any(|known| known.kind == stored.kind) {
            cx.warn(line, at, format!("stick-table: store option '{name}' already enabled, ignored."));
        } else if let Some(other) = data.iter().find(|known| known.kind.excludes(stored.kind)) {
            let array = if other.kind.is_array() { other.kind } else { stored.kind };
            let old = match array {
                DataType::Gpt => "gpt0",
                DataType::Gpc => "gpc[0/1]",
                _ => "gpc[0/1]_rate",
            };
            let message = format!(
                "stick-table: simultaneous usage of '{array}' and '{old}' in a same table is not permitted as '{array}' overrides '{old}'."
            );
            return Err(fail(line, at, message));
        } else {
            data.push(stored);
        }
    }
    Ok(())
}

fn stored(line: &Line, at: usize, name: &str, argument: Option<&str>) -> Result<Stored, Box<Diagnostic>> {
    let wrong = |message: String| fail(line, at, format!("stick-table: {message}"));
    let kind = DataType::from_name(name).ok_or_else(|| wrong(format!("unknown store option '{name}'.")))?;
    let is_rate = kind.shape() == Shape::Rate;
    let Some(argument) = argument else {
        if kind.is_array() || is_rate {
            return Err(wrong(format!("missing argument to store option '{name}'.")));
        }
        return Ok(Stored::one(kind));
    };
    if !kind.is_array() && !is_rate {
        return Err(wrong(format!("unexpected argument to store option '{name}'.")));
    }
    let (count, period) = match (kind.is_array(), argument.split_once(',')) {
        (false, _) => ("1", argument),
        (true, Some((count, period))) if is_rate => (count, period),
        (true, None) if is_rate => {
            return Err(wrong(format!("missing argument to store option '{name}'.")));
        }
        (true, _) => (argument, ""),
    };
    let count = count.trim().parse().ok().filter(|n| (1..=ELEMENTS_MAX).contains(n)).ok_or_else(|| {
        let range = "array size is out of allowed range (1-100)";
        wrong(format!("{range} for store option '{name}'."))
    })?;
    let period_ms = match is_rate {
        true => parse_time_ms(period.trim())
            .map_err(|_| wrong(format!("error when processing store option '{name}'.")))?,
        false => 0,
    };
    Ok(Stored { kind, count, period_ms })
}

/// `stick match|on|store-request|store-response <expr> [table <table>] [if|unless <condition>]`
pub(crate) fn stick(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_backend(cx, line, "stick", "");
    let (matches, store, points) = match line.text(1) {
        "match" => (true, None, Point::UseServer.set()),
        "on" => (true, Some(StickStore::Request), Point::UseServer.set()),
        "store-request" => (false, Some(StickStore::Request), Point::UseServer.set()),
        "store-response" => (false, Some(StickStore::Response), Point::StickStore.set()),
        _ => return Err(fail(line, 1, "'stick' expects 'on', 'match', or 'store'.")),
    };
    let text = line.text(2).to_owned();
    if text.is_empty() {
        return Err(fail(line, 2, "'stick' expects a fetch method."));
    }
    let expr = expression_at(cx, b, &text, line.span_at(2), points, "'stick' expression")
        .map_err(|e| fail(line, 2, format!("'stick': {e}.")))?;
    if !expr.fetch.points.meets(points) {
        let when = if store == Some(StickStore::Response) { "response" } else { "request" };
        let message = format!(
            "'stick': fetch method '{}' extracts information from '{}', none of which is available during {when}.",
            expr.fetch.name, expr.fetch.needs
        );
        return Err(fail(line, 2, message));
    }
    let mut at = 3;
    let mut name = Arc::clone(&b.p.name);
    if line.text(at) == "table" {
        name = cx.name(line.text(at + 1));
        at += 2;
    }
    let cond = match line.text(at) {
        "" => None,
        "if" | "unless" => {
            let condition = words(line, at);
            let compiled =
                with_env(cx, b, line.span_from(at), points, "", |env| Condition::compile(&condition, env));
            Some(Arc::new(compiled.map_err(|e| {
                fail(line, at, format!("'stick': error detected while parsing stick rule : {e}."))
            })?))
        }
        other => return Err(fail(line, at, format!("'stick': unknown keyword '{other}'."))),
    };
    if !b.p.is_be() {
        return Ok(());
    }
    let table = wanted(cx, b, line, &name, &expr)?;
    // Persistence is what is kept, whether the line of the table says so or not.
    for kind in [DataType::ServerId, DataType::ServerKey] {
        let data = &mut cx.tables[table.0 as usize].spec.data;
        if let Err(at) = data.binary_search_by_key(&kind, |stored| stored.kind) {
            data.insert(at, Stored::one(kind));
        }
    }
    b.p.stick_rules.push(StickRule { matches, store, expr: Arc::new(expr), cond, table });
    Ok(())
}

/// The table of that name, if its keys can be what the expression gives.
fn wanted(
    cx: &Cx<'_>,
    b: &Building,
    line: &Line,
    name: &str,
    expr: &Expr,
) -> Result<TableId, Box<Diagnostic>> {
    let complain = |what: String| {
        let message = format!("Proxy '{}': {what}", b.p.name);
        Box::new(Diagnostic::new(Severity::Alert, Lead::Bare, Some(line.span()), message))
    };
    let Some(at) = cx.tables.iter().position(|draft| &*draft.spec.name == name) else {
        return Err(complain(format!("unable to find stick-table '{name}'.")));
    };
    if !possible(expr.output(), key_type(cx.tables[at].spec.key)) {
        return Err(complain(format!("type of fetch not usable with type of stick-table '{name}'.")));
    }
    Ok(TableId(u32::try_from(at).unwrap_or(u32::MAX)))
}
