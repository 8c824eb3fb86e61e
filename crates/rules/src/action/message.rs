//! The start line of responses: `set-status`; and `strict-mode`, which says what happens when an edit fails.

use super::{Action, Step};
use crate::compile;
use crate::effects::Effects;
use crate::keyword::{ActionDef, RuleEnv, Rulesets, Words};
use thalweg_sample::Ctx;
use thalweg_syntax::carry::restore;

/// A change of a message, or of how messages are changed.
pub(crate) enum Edit {
    Status { status: u16, reason: Option<Box<[u8]>> },
    Strict(bool),
}

pub(crate) static ACTIONS: &[ActionDef] = &[
    ActionDef::new(
        "set-status",
        Rulesets::HTTP_RESPONSE.or(Rulesets::HTTP_AFTER),
        "<status> [reason <str>]",
        "replaces the status of the response",
        set_status,
    ),
    ActionDef::new(
        "strict-mode",
        Rulesets::HTTP,
        "{ on | off }",
        "makes failed rewrites errors, or not, for the rules that follow",
        strict_mode,
    ),
];

fn set_status(words: &mut Words, _: &mut RuleEnv) -> Result<Action, String> {
    let word = words.next().ok_or("expects 1 argument: <status>; or 3 arguments: <status> reason <fmt>")?;
    let status = compile::leading(word);
    if !(100..=999).contains(&status) {
        return Err("expects an integer status code between 100 and 999".into());
    }
    let mut reason = None;
    if let ["reason", text, ..] = words.rest() {
        reason = Some(restore(text.as_bytes()).into());
        words.value();
        words.value();
    }
    Ok(Action::Message(Box::new(Edit::Status { status: status as u16, reason })))
}

fn strict_mode(words: &mut Words, _: &mut RuleEnv) -> Result<Action, String> {
    let on = match words.next().ok_or("expects exactly 1 arguments")? {
        word if word.eq_ignore_ascii_case("on") => true,
        word if word.eq_ignore_ascii_case("off") => false,
        other => return Err(format!("Unexpected value '{other}'. Only 'on' and 'off' are supported")),
    };
    Ok(Action::Message(Box::new(Edit::Strict(on))))
}

impl Edit {
    pub fn run<'r>(&self, cx: &mut Ctx, fx: &mut Effects) -> Step<'r> {
        match self {
            Edit::Status { status, reason } => {
                let Some(head) = cx.response.as_deref_mut() else { return Step::Next };
                Step::Rewrite(head.set_status(*status, reason.as_deref()))
            }
            Edit::Strict(on) => {
                fx.strict = *on;
                Step::Next
            }
        }
    }
}
