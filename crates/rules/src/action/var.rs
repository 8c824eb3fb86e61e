//! Variables: `set-var`, `set-var-fmt`, `unset-var`.

use super::{Action, Step, render};
use crate::compile;
use crate::effects::Effects;
use crate::keyword::{ActionDef, Rulesets, Words};
use thalweg_sample::logformat::LogFormat;
use thalweg_sample::vars::SetConditions;
use thalweg_sample::{Ctx, Expr, Sample, Value, VarRef};

/// A change of a variable.
pub(crate) struct Assignment {
    variable: VarRef,
    conditions: Option<SetConditions>,
    source: Source,
}

enum Source {
    Expr(Box<Expr>),
    Format(LogFormat),
    Nothing,
}

pub(crate) static ACTIONS: &[ActionDef] = &[
    ActionDef::new(
        "set-var-fmt",
        Rulesets::ALL,
        "(<var-name>[,<cond>...]) <fmt>",
        "sets a variable to a text",
        |w, e| {
            let (variable, conditions) = variable(w)?;
            let source = Source::Format(compile::raw_format(w.value().unwrap_or(""), e.compile)?);
            Ok(Action::Var(Box::new(Assignment { variable, conditions, source })))
        },
    )
    .parens(),
    ActionDef::new(
        "set-var",
        Rulesets::ALL,
        "(<var-name>[,<cond>...]) <expr>",
        "sets a variable to a value",
        |w, e| {
            let (variable, conditions) = variable(w)?;
            let source = Source::Expr(Box::new(compile::expression(w.next(), e.compile)?));
            Ok(Action::Var(Box::new(Assignment { variable, conditions, source })))
        },
    )
    .parens(),
    ActionDef::new("unset-var", Rulesets::ALL, "(<var-name>)", "removes a variable", |w, _| {
        let (variable, conditions) = variable(w)?;
        Ok(Action::Var(Box::new(Assignment { variable, conditions, source: Source::Nothing })))
    })
    .parens(),
];

const FORMS: &str = "Expects 'set-var(<var-name>)', 'set-var-fmt(<var-name>)' or 'unset-var(<var-name>)'";

fn variable(words: &Words) -> Result<(VarRef, Option<SetConditions>), String> {
    if !words.name.contains('(') {
        return Err(format!("invalid or incomplete action '{}'. {FORMS}", words.name));
    }
    let inner =
        words.inner().ok_or_else(|| format!("incomplete argument after action '{}'. {FORMS}", words.name))?;
    let mut parts = inner.split(',');
    let name = parts.next().unwrap_or("");
    if name.is_empty() {
        return Err("Empty variable name cannot be accepted".into());
    }
    let variable = VarRef::parse(name)?;
    if variable.scope.is_parent() {
        return Err(format!("variable '{name}' of the parent stream cannot be changed"));
    }
    let mut conditions = None;
    // The reference takes a trailing comma.
    let last = inner.strip_suffix(',').unwrap_or(inner).len();
    for part in parts.take_while(|part| part.as_ptr() as usize - inner.as_ptr() as usize <= last) {
        conditions
            .get_or_insert_with(SetConditions::default)
            .add(part)
            .map_err(|_| format!("unknown condition \"{part}\""))?;
    }
    Ok((variable, conditions))
}

impl Assignment {
    pub fn run<'r>(&self, cx: &mut Ctx, fx: &mut Effects) -> Step<'r> {
        let sample = match &self.source {
            Source::Nothing => {
                cx.unset_var(self.variable);
                return Step::Next;
            }
            Source::Expr(expr) => match expr.eval(cx) {
                Some(sample) if sample.flags.may_change && !cx.last => return Step::Wait,
                Some(sample) => sample,
                None if cx.may_change && !cx.last => return Step::Wait,
                None => return Step::Next,
            },
            Source::Format(format) => {
                render(format, cx, &mut fx.text);
                match cx.store(&fx.text) {
                    Some(text) => Sample::new(Value::Str(text)),
                    None => return Step::Next,
                }
            }
        };
        if let Some(conditions) = self.conditions {
            let bytes = cx.bytes(&sample.value);
            let allowed = match cx
                .with_var(self.variable, |old| conditions.allow(self.variable, Some(old), &sample, bytes))
            {
                Some(allowed) => allowed,
                None => conditions.allow(self.variable, None, &sample, bytes),
            };
            if !allowed {
                return Step::Next;
            }
        }
        // A limit on the memory of variables is not an error of the request.
        cx.set_var(self.variable, sample.value);
        Step::Next
    }
}
