//! Actions that take time: `wait-for-body`, `pause`.

use super::connection::Number;
use super::stream::duration;
use super::{Action, Step};
use crate::compile;
use crate::keyword::{ActionDef, RuleEnv, Rulesets, Words};
use crate::ruleset::Outcome;
use thalweg_sample::Ctx;

/// A delay.
pub(crate) enum Delay {
    Body { ms: u64, at_least: u64 },
    Pause(Number),
}

const BOTH: Rulesets = Rulesets::HTTP_REQUEST.or(Rulesets::HTTP_RESPONSE);

pub(crate) static ACTIONS: &[ActionDef] = &[
    ActionDef::new("pause", BOTH, "{ <timeout> | <expr> }", "does nothing for some time", pause),
    ActionDef::new(
        "wait-for-body",
        BOTH,
        "time <time> [at-least <bytes>]",
        "waits for the body of the message",
        wait_for_body,
    ),
];

fn pause(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    let value = duration(words.next().unwrap_or(""), "pause", env)?;
    if let Number::Known(0) = value {
        return Err("null value is not valid for a 'pause' rule".into());
    }
    Ok(Action::Wait(Box::new(Delay::Pause(value))))
}

fn wait_for_body(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    let (mut ms, mut at_least) = (None, 0);
    while let Some(word) = words.peek() {
        match word {
            "time" => {
                words.next();
                let value = words.next().ok_or("missing argument for 'time'")?;
                ms = Some(compile::time_ms(value, env.compile).map_err(|e| e.plain())?);
            }
            "at-least" => {
                words.next();
                let value = words.next().ok_or("missing argument for 'at-least'")?;
                at_least = compile::size(value)?;
            }
            "use-large-buffer" => {
                return Err(
                    "'use-large-buffer' is known but not supported yet: it needs 'tune.bufsize.large'".into(),
                );
            }
            _ => break,
        }
    }
    let ms = ms.ok_or("expects time <time> [ at-least <bytes> ]")?;
    Ok(Action::Wait(Box::new(Delay::Body { ms, at_least })))
}

impl Delay {
    pub fn run<'r>(&self, index: usize, cx: &mut Ctx) -> Step<'r> {
        let resume = index + 1;
        match self {
            Delay::Body { ms, at_least } => {
                let body = if cx.response_side { &cx.res_body } else { &cx.req_body };
                if body.is_whole() || (*at_least != 0 && body.data().len() as u64 >= *at_least) {
                    return Step::Next;
                }
                Step::Stop(Outcome::WaitBody { ms: *ms, at_least: *at_least, resume })
            }
            Delay::Pause(value) => match value.eval(cx).and_then(|ms| u64::try_from(ms).ok()) {
                Some(ms) if ms != 0 => Step::Stop(Outcome::Pause { ms, resume }),
                _ => Step::Next,
            },
        }
    }
}
