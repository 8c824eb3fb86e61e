//! `set-bandwidth-limit`: turns a bandwidth limitation filter of the proxy on for this stream.

use super::connection::{Number, missed};
use super::stream::duration;
use super::{Action, Step};
use crate::compile;
use crate::effects::{BandwidthLimit, Effects};
use crate::keyword::{ActionDef, RuleEnv, Rulesets, Words};
use crate::ruleset::{BandwidthFilter, References};
use std::rc::Rc;
use std::sync::OnceLock;
use thalweg_sample::track::with_key;
use thalweg_sample::{Ctx, Expr, TableId};
use thalweg_stick::Held;

/// The filter, and what replaces its own limits.
pub(crate) struct Limit {
    name: Box<str>,
    /// The filter, known once all lines were read.
    filter: OnceLock<BandwidthFilter>,
    limit: Option<Number>,
    period: Option<Number>,
}

const CONTENTS: Rulesets =
    Rulesets::TCP_REQUEST.or(Rulesets::TCP_RESPONSE).or(Rulesets::HTTP_REQUEST).or(Rulesets::HTTP_RESPONSE);

pub(crate) static ACTIONS: &[ActionDef] = &[ActionDef::new(
    "set-bandwidth-limit",
    CONTENTS,
    "<name> [limit {<expr> | <size>}] [period {<expr> | <time>}]",
    "turns a bandwidth limitation filter on",
    limit,
)];

fn limit(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    let name = words.next().ok_or("missing bwlim filter name")?;
    if env.compile.proxy.defaults {
        // A rule of a defaults section is one rule for all who inherit it, and each would mean another filter.
        return Err(format!("unable to find bwlim filter '{name}': there are none in a 'defaults' section"));
    }
    let mut rule = Limit { name: name.into(), filter: OnceLock::new(), limit: None, period: None };
    loop {
        if words.take("limit") {
            rule.limit = Some(size(words.next().unwrap_or(""), env)?);
        } else if words.take("period") {
            let word = words.next().unwrap_or("");
            rule.period = Some(
                duration(word, "period", env)
                    .map_err(|_| format!("'period': invalid time value or unknown fetch method '{word}'"))?,
            );
        } else {
            return Ok(Action::Bandwidth(Box::new(rule)));
        }
    }
}

/// Reads a size, or else an expression of bytes.
fn size(word: &str, env: &mut RuleEnv) -> Result<Number, String> {
    if !word.is_empty()
        && let Ok(bytes) = compile::size(word)
    {
        return Ok(Number::Known(bytes as i64));
    }
    match compile::expression(Some(word), env.compile) {
        Ok(expr) => Ok(Number::Expr(Box::new(expr))),
        Err(_) => Err(format!("'limit': invalid size value or unknown fetch method '{word}'")),
    }
}

impl Limit {
    pub fn resolve(&self, references: &References) -> Result<(), String> {
        match (references.bandwidth_filter)(&self.name) {
            Some(filter) => {
                if filter.shared.is_some() && (self.limit.is_some() || self.period.is_some()) {
                    let what = if self.limit.is_some() { "limit" } else { "period" };
                    return Err(format!(
                        "set-bandwidth-limit rule cannot define a {what} for a shared bwlim filter."
                    ));
                }
                let _ = self.filter.set(filter);
                Ok(())
            }
            None => Err(format!(
                "unable to find bwlim filter '{}' referenced by set-bandwidth-limit rule.",
                self.name
            )),
        }
    }

    /// The last of several rules on a filter counts, as a whole: what it does not say is the filter's own.
    pub fn run<'r>(&'r self, cx: &mut Ctx, fx: &mut Effects) -> Step<'r> {
        let Some(BandwidthFilter { id: filter, shared }) = self.filter.get() else { return Step::Next };
        let filter = *filter;
        let mut known = |number: &Option<Number>| match number {
            None => Some(None),
            Some(number) => match number.eval(cx) {
                Some(value) => Some(u32::try_from(value.max(0)).ok()),
                None if cx.may_change => None,
                // What gives no number changes nothing.
                None => Some(None),
            },
        };
        let (Some(limit), Some(period_ms)) = (known(&self.limit), known(&self.period)) else {
            return missed(cx);
        };
        fx.bandwidth.retain(|set| set.filter != filter);
        let shared = match shared {
            None => None,
            Some((key, table)) => match entry(key, *table, cx) {
                Some(entry) => Some(Rc::new(entry)),
                None if cx.may_change && !cx.last => return missed(cx),
                // What has no key is not limited.
                None => return Step::Next,
            },
        };
        fx.bandwidth.push(BandwidthLimit { filter, limit, period_ms, shared });
        Step::Next
    }
}

/// The entry that the streams with this key share.
fn entry(key: &Expr, table: TableId, cx: &mut Ctx) -> Option<Held> {
    cx.may_change = false;
    let mut sample = key.eval(cx)?;
    if sample.flags.may_change && !cx.last {
        cx.may_change = true;
        return None;
    }
    let now_ms = cx.now_ms();
    let world = cx.world;
    let table = world.table(table)?;
    let found = with_key(&mut sample, table, cx, |key| table.find_or_insert(key, now_ms).ok());
    let entry = found??;
    entry.touch(now_ms);
    Some(entry.keep(table))
}
