//! Stick tables: `track-sc*` follows an entry, `sc-*` changes what is followed.

use super::connection::{Number, missed};
use super::{Action, Step};
use crate::compile;
use crate::keyword::{ActionDef, RuleEnv, Rulesets, Spelling, Words};
use crate::ruleset::{Kind, TrackSource};
use thalweg_sample::cast::possible;
use thalweg_sample::track::key_type;
use thalweg_sample::{Ctx, Expr, TableId};
use thalweg_stick::KeyType;
use thalweg_stick::data::DataType;

/// What to do with a counter.
pub(crate) enum Counting {
    /// Tracks the entry of a key.
    Track { slot: usize, expr: Box<Expr>, table: Result<TableId, String>, source: Option<TrackSource> },
    /// Adds to a counter of general purpose and its rate: `gpc0` and its like, or an element of the array.
    Add { slot: usize, counter: DataType, rate: DataType, index: u16, by: Number },
    /// Sets a tag.
    Tag { slot: usize, tag: DataType, index: u16, value: Number },
}

const TRACK: Rulesets = Rulesets::REQUESTS.or(Rulesets::HTTP_RESPONSE);

pub(crate) static ACTIONS: &[ActionDef] = &[
    ActionDef::new(
        "sc-add-gpc",
        Rulesets::ALL,
        "(<idx>,<sc-id>) { <int> | <expr> }",
        "adds to a counter of general purpose",
        |w, e| {
            let (index, slot) = element(w, e, "gpc")?;
            let by = value(w, e)?;
            Ok(wrap(Counting::Add { slot, counter: DataType::Gpc, rate: DataType::GpcRate, index, by }))
        },
    )
    .parens(),
    ActionDef::new(
        "sc-inc-gpc",
        Rulesets::ALL,
        "(<idx>,<sc-id>)",
        "adds one to a counter of general purpose",
        |w, e| {
            let (index, slot) = element(w, e, "gpc")?;
            let by = Number::Known(1);
            Ok(wrap(Counting::Add { slot, counter: DataType::Gpc, rate: DataType::GpcRate, index, by }))
        },
    )
    .parens(),
    ActionDef::new(
        "sc-inc-gpc0",
        Rulesets::ALL,
        "(<sc-id>)",
        "adds one to the first counter of general purpose",
        |w, e| one(w, e, DataType::Gpc0, DataType::Gpc0Rate),
    )
    .parens(),
    ActionDef::new(
        "sc-inc-gpc1",
        Rulesets::ALL,
        "(<sc-id>)",
        "adds one to the second counter of general purpose",
        |w, e| one(w, e, DataType::Gpc1, DataType::Gpc1Rate),
    )
    .parens(),
    ActionDef::new(
        "sc-set-gpt",
        Rulesets::ALL,
        "(<idx>,<sc-id>) { <int> | <expr> }",
        "sets a tag of general purpose",
        |w, e| {
            let (index, slot) = element(w, e, "gpt")?;
            let value = value(w, e)?;
            Ok(wrap(Counting::Tag { slot, tag: DataType::Gpt, index, value }))
        },
    )
    .parens(),
    ActionDef::new(
        "sc-set-gpt0",
        Rulesets::ALL,
        "(<sc-id>) { <int> | <expr> }",
        "sets the first tag of general purpose",
        |w, e| {
            let slot = counter(w, e)?;
            let value = value(w, e)?;
            Ok(wrap(Counting::Tag { slot, tag: DataType::Gpt0, index: 0, value }))
        },
    )
    .parens(),
    ActionDef {
        spelling: Spelling::Prefix,
        ..ActionDef::new("track-sc", TRACK, "<key> [table <table>]", "tracks the entry of a key", track)
    },
];

fn wrap(counting: Counting) -> Action {
    Action::Counting(Box::new(counting))
}

fn one(
    words: &mut Words,
    env: &mut RuleEnv,
    counter_type: DataType,
    rate: DataType,
) -> Result<Action, String> {
    let slot = counter(words, env)?;
    Ok(wrap(Counting::Add { slot, counter: counter_type, rate, index: 0, by: Number::Known(1) }))
}

/// The number of the counter in the parentheses. Without any it is the first one.
fn counter(words: &Words, env: &RuleEnv) -> Result<usize, String> {
    let inner = match words.name.split_once('(') {
        None | Some((_, ")")) => "0",
        Some((_, inner)) => inner.strip_suffix(')').unwrap_or("?"),
    };
    let name = words.name;
    let expects = || format!("invalid stick table track ID. Expects {name}(<Track ID>)");
    in_range(inner.parse().map_err(|_| expects())?, env, "")
}

fn in_range(slot: usize, env: &RuleEnv, shown: &str) -> Result<usize, String> {
    let counters = env.compile.stick_counters;
    if slot < counters {
        return Ok(slot);
    }
    let most = counters.saturating_sub(1);
    Err(format!("invalid stick table track ID{shown}. The max allowed ID is {most} (tune.stick-counters)"))
}

/// The index of the element, and the number of the counter.
fn element(words: &Words, env: &RuleEnv, what: &str) -> Result<(u16, usize), String> {
    let name = words.name;
    let base = name.split('(').next().unwrap_or(name);
    let expects = format!("Expects {base}(<{} ID>,<Track ID>)", what.to_uppercase());
    let invalid = || format!("invalid {what} ID '{name}'. {expects}");
    let inner = words.inner().ok_or_else(invalid)?;
    let Some((index, slot)) = inner.split_once(',') else {
        return Err(format!("Missing {what} ID '{name}'. {expects}"));
    };
    let index: u16 = index.parse().map_err(|_| invalid())?;
    let slot = slot.parse().map_err(|_| format!("invalid stick table track ID '{name}'. {expects}"))?;
    Ok((index, in_range(slot, env, &format!(" '{name}'"))?))
}

/// A number, or an expression of one. Numbers are of 32 bits: of larger ones the lower bits count.
fn value(words: &mut Words, env: &mut RuleEnv) -> Result<Number, String> {
    let word = words.next().ok_or("missing value: expects a number or an expression")?;
    match word.strip_prefix('-').unwrap_or(word).parse::<u64>() {
        Ok(_) => Ok(Number::Known(word.parse().unwrap_or(i64::MAX))),
        Err(_) => Ok(Number::Expr(Box::new(compile::expression(Some(word), env.compile)?))),
    }
}

/// `track-sc<n> <key> [table <table>]`
fn track(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    let http = words.kind.is_http();
    let name = words.name;
    let said = |text: String| match http {
        true => text,
        false => format!("'{} {name}' : {text}", words.kind.name()),
    };
    let digits = &name["track-sc".len()..];
    let slot: usize = match digits {
        // As the reference has it.
        "" => 0,
        _ => digits.parse().map_err(|_| said(format!("Wrong track-sc number '{digits}'")))?,
    };
    match env.compile.stick_counters {
        0 => {
            let why = "stick-counters are disabled by tune.stick-counters";
            return Err(said(format!("{slot} track-sc number not usable, {why}")));
        }
        n if slot >= n => {
            let most = n - 1;
            return Err(said(format!(
                "{slot} track-sc number exceeding {most} (tune.stick-counters-1) value"
            )));
        }
        _ => {}
    }
    let expr = match compile::expression(words.next(), env.compile) {
        Ok(expr) => expr,
        Err(e) => {
            return Err(match http {
                true => e,
                false => format!("'{} {name}' : {e}", words.kind.name()),
            });
        }
    };
    let given = match words.take("table") {
        true => Some(words.next().ok_or("missing table name")?),
        false => None,
    };
    if given.is_none() && env.compile.proxy.defaults {
        // One rule of a defaults section serves all who inherit it, and each would mean another table.
        return Err("the table must be named in a 'defaults' section".into());
    }
    let wanted = given.unwrap_or(env.compile.proxy.name);
    let found = env.compile.names.table(wanted);
    let table = match found {
        None => Err(format!("unable to find table '{wanted}' referenced by track-sc{slot}.")),
        Some((_, key)) if !possible(expr.output(), key_type(key)) => {
            Err(format!("stick-table '{wanted}' uses a type incompatible with the 'track-sc{slot}' rule."))
        }
        Some((id, _)) => Ok(id),
    };
    let is_source = expr.text() == "src" && found.is_some_and(|(_, key)| key == KeyType::Ip4);
    let source = table.as_ref().ok().filter(|_| is_source).map(|table| TrackSource { slot, table: *table });
    Ok(wrap(Counting::Track { slot, expr: Box::new(expr), table, source }))
}

impl Counting {
    /// Complains about a table that does not exist.
    pub fn resolve(&self) -> Result<(), String> {
        match self {
            Counting::Track { table: Err(problem), .. } => Err(problem.clone()),
            _ => Ok(()),
        }
    }

    /// What it is in the form of those that need nothing but the client's address.
    pub fn source(&self) -> Option<TrackSource> {
        match self {
            Counting::Track { source, .. } => *source,
            _ => None,
        }
    }

    pub fn run<'r>(&self, kind: Kind, cx: &mut Ctx) -> Step<'r> {
        match self {
            Counting::Track { slot, expr, table, .. } => {
                // The first rule that is executed decides.
                if cx.tracked(*slot).is_some() {
                    return Step::Next;
                }
                let sample = match expr.eval(cx) {
                    Some(sample) if sample.flags.may_change && !cx.last => return Step::Wait,
                    Some(sample) => sample,
                    None => return missed(cx),
                };
                let world = cx.world;
                if let Some(table) = table.as_ref().ok().and_then(|id| world.table(*id)) {
                    cx.track(*slot, table, sample, matches!(kind, Kind::TcpConnection | Kind::TcpSession));
                }
                Step::Next
            }
            Counting::Add { slot, counter, rate, index, by } => {
                if cx.tracked(*slot).is_none() {
                    return Step::Next;
                }
                let Some(by) = by.eval(cx) else { return missed(cx) };
                let now_ms = cx.now_ms();
                if let Some(tracked) = cx.tracked(*slot) {
                    let by = u64::from(by as u32);
                    let values = tracked.values();
                    values.add_at(*rate, *index, by, now_ms);
                    values.add_at(*counter, *index, by, now_ms);
                    tracked.touch(now_ms);
                }
                Step::Next
            }
            Counting::Tag { slot, tag, index, value } => {
                if cx.tracked(*slot).is_none() {
                    return Step::Next;
                }
                let Some(value) = value.eval(cx) else { return missed(cx) };
                let now_ms = cx.now_ms();
                if let Some(tracked) = cx.tracked(*slot) {
                    tracked.values().set_at(*tag, *index, u64::from(value as u32), now_ms);
                    tracked.touch(now_ms);
                }
                Step::Next
            }
        }
    }
}
