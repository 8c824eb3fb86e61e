//! `do-resolve`: the address of a host that a message names.

use super::{Action, Step};
use crate::compile;
use crate::keyword::{ActionDef, Rulesets, Words};
use crate::ruleset::{Outcome, References, Wanted};
use std::sync::OnceLock;
use thalweg_sample::{Ctx, Expr, Type, VarRef};

/// What is resolved, and by whom.
pub(crate) struct Resolution {
    variable: VarRef,
    section: Box<str>,
    /// The section's number, known once all lines were read.
    number: OnceLock<usize>,
    v6_first: bool,
    host: Expr,
}

pub(crate) static ACTIONS: &[ActionDef] = &[ActionDef::new(
    "do-resolve",
    Rulesets::REQUEST_CONTENT,
    "(<var>,<resolvers>[,ipv4|ipv6]) <expr>",
    "sets a variable to the address of a host",
    |words, env| {
        let (name, section, v6_first) =
            header(words).ok_or_else(|| format!("Can't parse '{}'. {FORMS}", words.name))?;
        let (section, variable) = (section.into(), VarRef::parse(name)?);
        let word = words.next();
        let host = compile::expression(word, env.compile)
            .map_err(|error| format!("Can't parse '{}': {error}. {FORMS}", word.unwrap_or_default()))?;
        Ok(Action::Resolve(Box::new(Resolution {
            variable,
            section,
            number: OnceLock::new(),
            v6_first,
            host,
        })))
    },
)
.parens()];

const FORMS: &str =
    "Expects 'do-resolve(<varname>,<resolvers>[,<options>]) <expr>'. Available options are 'ipv4' and 'ipv6'";

/// Variable, section, and whether IPv6 is preferred, which it is without a word.
fn header<'w>(words: &Words<'w>) -> Option<(&'w str, &'w str, bool)> {
    let mut parts = words.inner()?.split(',');
    let (name, section) = (parts.next()?, parts.next()?);
    let v6_first = match parts.next() {
        None | Some("ipv6") => true,
        Some("ipv4") => false,
        Some(_) => return None,
    };
    let is_whole = parts.next().is_none() && !name.is_empty() && !section.is_empty();
    is_whole.then_some((name, section, v6_first))
}

impl Resolution {
    pub fn resolve(&self, references: &References) -> Result<(), String> {
        match (references.resolvers)(&self.section) {
            Some(number) => {
                let _ = self.number.set(number);
                Ok(())
            }
            None => Err(format!("Can't find resolvers section '{}' for do-resolve action.", self.section)),
        }
    }

    pub fn run<'r>(&self, index: usize, cx: &mut Ctx) -> Step<'r> {
        let sample = match self.host.eval_as(Type::Str, cx) {
            Some(sample) if sample.flags.may_change && !cx.last => return Step::Wait,
            Some(sample) => sample,
            None if cx.may_change && !cx.last => return Step::Wait,
            None => return Step::Next,
        };
        let Some(&section) = self.number.get() else { return Step::Next };
        let name = cx.bytes(&sample.value).into();
        let wanted = Box::new(Wanted { name, section, v6_first: self.v6_first, variable: self.variable });
        Step::Stop(Outcome::Resolve { wanted, resume: index + 1 })
    }
}
