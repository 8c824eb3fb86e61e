//! `set-bandwidth-limit`: turns a bandwidth limitation filter of the proxy on for this stream.

use super::connection::{Number, missed};
use super::stream::duration;
use super::{Action, Step};
use crate::compile;
use crate::effects::{BandwidthLimit, Effects};
use crate::keyword::{ActionDef, RuleEnv, Rulesets, Words};
use crate::ruleset::References;
use std::sync::OnceLock;
use thalweg_sample::Ctx;

/// The filter, and what replaces its own limits.
pub(crate) struct Limit {
    name: Box<str>,
    /// The filter's number, known once all lines were read.
    filter: OnceLock<u32>,
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
            Some(id) => {
                let _ = self.filter.set(id);
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
        let Some(&filter) = self.filter.get() else { return Step::Next };
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
        fx.bandwidth.push(BandwidthLimit { filter, limit, period_ms });
        Step::Next
    }
}
