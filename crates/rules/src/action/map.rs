//! Maps and ACL files changed by traffic: `set-map`, `del-map`, `add-acl`, `del-acl`.
//!
//! A change takes the lock of the set, never stops readers, and is seen by the evaluations that begin after it.

use super::{Action, Step, render};
use crate::compile;
use crate::effects::Effects;
use crate::keyword::{ActionDef, RuleEnv, Rulesets, Words};
use crate::ruleset::References;
use std::sync::{Arc, OnceLock};
use thalweg_sample::Ctx;
use thalweg_sample::logformat::LogFormat;
use thalweg_sample::pattern::PatternSet;

/// A change of a map or of an ACL file.
pub(crate) struct Update {
    name: Box<str>,
    /// The set, once everything that uses sets is loaded. Without any user, there is nothing to change.
    set: OnceLock<Arc<PatternSet>>,
    key: LogFormat,
    change: Change,
}

enum Change {
    Set(LogFormat),
    Add,
    Delete,
}

const BOTH: Rulesets = Rulesets::HTTP_REQUEST.or(Rulesets::HTTP_RESPONSE);

pub(crate) static ACTIONS: &[ActionDef] = &[
    ActionDef::new("add-acl", BOTH, "(<file-name>) <key fmt>", "adds an entry to an ACL file", |w, e| {
        parse(w, e, Some(Change::Add))
    })
    .parens(),
    ActionDef::new(
        "del-acl",
        Rulesets::HTTP,
        "(<file-name>) <key fmt>",
        "removes an entry from an ACL file",
        |w, e| parse(w, e, Some(Change::Delete)),
    )
    .parens(),
    ActionDef::new(
        "del-map",
        Rulesets::HTTP,
        "(<map-name>) <key fmt>",
        "removes an entry from a map",
        |w, e| parse(w, e, Some(Change::Delete)),
    )
    .parens(),
    ActionDef::new(
        "set-map",
        Rulesets::HTTP,
        "(<map-name>) <key fmt> <value fmt>",
        "sets an entry of a map",
        |w, e| parse(w, e, None),
    )
    .parens(),
];

fn parse(words: &mut Words, env: &mut RuleEnv, change: Option<Change>) -> Result<Action, String> {
    let arguments = if change.is_some() { 1 } else { 2 };
    let expects = || format!("expects exactly {arguments} argument{}", if arguments == 1 { "" } else { "s" });
    let key = words.next().ok_or_else(expects)?;
    let value = if change.is_none() { Some(words.value().ok_or_else(expects)?) } else { None };
    let name = words.inner().filter(|name| !name.is_empty());
    let name =
        name.ok_or_else(|| format!("invalid action '{}': expects a file name in parentheses", words.name))?;
    let key = compile::raw_format(key, env.compile)?;
    let change = match (change, value) {
        (Some(change), _) => change,
        (None, value) => Change::Set(compile::raw_format(value.unwrap_or(""), env.compile)?),
    };
    Ok(Action::Map(Box::new(Update { name: name.into(), set: OnceLock::new(), key, change })))
}

impl Update {
    pub fn resolve(&self, references: &References) {
        if let Some(set) = references.patterns.find(&self.name) {
            let _ = self.set.set(set);
        }
    }

    pub fn run<'r>(&self, cx: &mut Ctx, fx: &mut Effects) -> Step<'r> {
        let Some(set) = self.set.get() else { return Step::Next };
        render(&self.key, cx, &mut fx.text);
        if cx.scratch.withheld.is_some() {
            self.tell(cx, fx);
            return Step::Next;
        }
        // A key or value that the set cannot read changes nothing, as from the CLI; traffic goes on.
        match &self.change {
            Change::Set(value) => {
                render(value, cx, &mut fx.more);
                let _ = set.set_or_add(&fx.text, &fx.more);
            }
            Change::Add => {
                if set.entry(&fx.text).is_none() {
                    let _ = set.add(&fx.text, b"");
                }
            }
            Change::Delete => {
                set.delete(&fx.text);
            }
        }
        Step::Next
    }

    /// Tells what it would do.
    #[cold]
    fn tell(&self, cx: &mut Ctx, fx: &mut Effects) {
        let key = String::from_utf8_lossy(&fx.text);
        let what = match &self.change {
            Change::Set(value) => {
                render(value, cx, &mut fx.more);
                format!("'{key}' would be set to '{}'", String::from_utf8_lossy(&fx.more))
            }
            Change::Add => format!("'{key}' would be added"),
            Change::Delete => format!("'{key}' would be deleted"),
        };
        if let Some(withheld) = &mut cx.scratch.withheld {
            withheld.push(format!("{}: {what}", self.name));
        }
    }
}
