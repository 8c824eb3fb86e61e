//! `log-profile`: what the lines of a target look like at each step.

use std::sync::Arc;

use thalweg_sample::logformat::Usage;
use thalweg_sample::{LogFormat, Point};
use thalweg_syntax::{Diagnostic, Lead, Line, Severity, Span};

use crate::build::Cx;
use crate::keyword::{Outcome, at_most, fail, legal_name};
use crate::model::{LogProfile, LogStep, Mode, ProfileStep};
use crate::proxy::STEPS;
use crate::sample_env::format_at;

/// A profile whose formats wait for all names to be known.
pub(crate) struct ProfileDraft {
    name: Arc<str>,
    log_tag: Option<Arc<str>>,
    steps: Vec<(LogStep, StepDraft)>,
    span: Span,
}

/// What was said about one step so far.
#[derive(Default)]
struct StepDraft {
    drop: bool,
    format: Option<(Arc<str>, Span)>,
    sd: Option<(Arc<str>, Span)>,
}

pub(crate) fn open(cx: &mut Cx<'_>, line: &Line) -> Result<ProfileDraft, Box<Diagnostic>> {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "missing name for log-profile section."));
    }
    at_most(line, 1, 1)?;
    legal_name(line)?;
    let name = cx.name(line.text(1));
    if let Some(other) = cx.log_profiles.iter().find(|p| p.name == name) {
        let message = format!(
            "log-profile section '{name}' has the same name as another log-profile section declared at {}:{}.",
            cx.sources.name(other.span.file),
            other.span.line
        );
        return Err(fail(line, 1, message));
    }
    Ok(ProfileDraft { name, log_tag: None, steps: Vec::new(), span: line.span() })
}

pub(crate) fn line(cx: &mut Cx<'_>, draft: &mut ProfileDraft, line: &Line) -> Outcome {
    match line.text(0) {
        "log-tag" => {
            if line.text(1).is_empty() {
                return Err(fail(line, 1, "'log-tag' expects a tag for use in syslog."));
            }
            draft.log_tag = Some(cx.name(line.text(1)));
            Ok(())
        }
        "on" => on(draft, line),
        other => Err(fail(line, 0, format!("unknown keyword '{other}' in log-profile section."))),
    }
}

/// `on <step> [drop] [format <fmt>] [sd <fmt>]`
fn on(draft: &mut ProfileDraft, line: &Line) -> Outcome {
    let name = line.text(1);
    let step = match name {
        "error" => Some(LogStep::Error),
        "any" => Some(LogStep::Any),
        _ => STEPS.iter().find(|s| s.0 == name).map(|s| s.1),
    };
    let Some(step) = step else {
        let extra: Vec<String> = STEPS[5..].iter().map(|s| format!("'{}'", s.0)).collect();
        return Err(fail(
            line,
            1,
            format!(
                "'on' expects a log step.\nexpected values are: 'accept', 'request', 'connect', 'response', 'close', \
                 'error' or 'any'.\nOr one of the additional log steps: {}.",
                extra.join(", ")
            ),
        ));
    };
    let mut said = StepDraft::default();
    let mut at = 2;
    loop {
        match line.text(at) {
            "drop" => {
                said.drop = true;
                at += 1;
            }
            word @ ("format" | "sd") => {
                if line.text(at + 1).is_empty() {
                    return Err(fail(
                        line,
                        at + 1,
                        format!("'on {name} {word}' expects a logformat string."),
                    ));
                }
                let given = Some((Arc::from(line.text(at + 1)), line.span_at(at + 1)));
                if word == "sd" {
                    said.sd = given;
                } else {
                    said.format = given;
                }
                at += 2;
            }
            "" if at > 2 => break,
            _ => return Err(fail(line, at, format!("'on {name}' expects 'drop', 'format' or 'sd'."))),
        }
    }
    match draft.steps.iter_mut().find(|s| s.0 == step) {
        Some((_, known)) => *known = said,
        None => draft.steps.push((step, said)),
    }
    Ok(())
}

/// Compiles the profiles, once all names are known.
pub(crate) fn compile(cx: &mut Cx<'_>) {
    for draft in std::mem::take(&mut cx.log_profiles) {
        let mut steps = Vec::with_capacity(draft.steps.len());
        for (step, said) in draft.steps {
            let done = if said.drop {
                ProfileStep::Drop
            } else {
                ProfileStep::Log { format: format(cx, said.format), sd: format(cx, said.sd) }
            };
            steps.push((step, done));
        }
        cx.config.log_profiles.push(LogProfile { name: draft.name, log_tag: draft.log_tag, steps });
    }
}

fn format(cx: &mut Cx<'_>, given: Option<(Arc<str>, Span)>) -> Option<Arc<LogFormat>> {
    let (text, span) = given?;
    // Which proxies use the profile is not known: what needs HTTP prints a dash where there is none.
    let mut holder = crate::proxy::fresh(span);
    holder.p.mode = Mode::Http;
    match format_at(cx, &holder, &text, span, Point::Log.set(), Usage::Log, "log-profile") {
        Ok(format) => Some(Arc::new(format)),
        Err(e) => {
            let place = format!("{}:{}", cx.sources.name(span.file), span.line);
            let message = format!("Parsing [{place}]: failed to parse logformat: {e}.");
            cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, Some(span), message));
            None
        }
    }
}
