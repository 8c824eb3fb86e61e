//! Error pages: `errorfile`, `errorfiles`, `errorloc*`, `http-error`, and the `http-errors` sections.

use std::sync::Arc;

use thalweg_rules::{CaptureSlots, ErrorReplies, ErrorRule, RuleEnv};
use thalweg_sample::Points;
use thalweg_syntax::{Diagnostic, Lead, Line, Severity};

use crate::build::{Building, Cx};
use crate::keyword::{Outcome, at_most, fail};
use crate::sample_env::{with_env, words};

/// Any of these lines, kept until the sections it may name are known.
pub(crate) fn error_line(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let rule = parse(cx, b, line)?;
    b.error_rules.push((Arc::new(rule), line.span()));
    Ok(())
}

/// Reads one line.
pub(crate) fn parse(cx: &mut Cx<'_>, b: &Building, line: &Line) -> Result<ErrorRule, Box<Diagnostic>> {
    if line.text(0) == "errorfile" || line.text(0).starts_with("errorloc") {
        at_most(line, 1, 2)?;
    }
    let all = words(line, 0);
    let experimental = cx.config.global.expose_experimental;
    let result = with_env(cx, b, line.span(), Points::ALL, "", |env| {
        let mut captures = CaptureSlots::default();
        let mut env = RuleEnv {
            compile: env,
            experimental,
            captures: &mut captures,
            services: &[],
            tables: &mut Vec::new(),
        };
        ErrorRule::parse(&all, &mut env)
    });
    result.map_err(|e| {
        let mut complaint = fail(line, 0, e);
        complaint.span = Some(line.span());
        complaint
    })
}

/// The pages of a proxy, all its lines applied in order. Proxies with the same lines share them.
pub(crate) fn settle(cx: &mut Cx<'_>, b: &mut Building) {
    if b.error_rules.is_empty() {
        return;
    }
    let same = |rules: &[(Arc<ErrorRule>, thalweg_syntax::Span)]| {
        rules.len() == b.error_rules.len()
            && rules.iter().zip(&b.error_rules).all(|(x, y)| Arc::ptr_eq(&x.0, &y.0))
    };
    if let Some((rules, replies)) = &cx.last_errors
        && same(rules)
    {
        b.p.errors = Some(Arc::clone(replies));
        return;
    }
    let mut replies = ErrorReplies::default();
    for (rule, span) in &b.error_rules {
        let groups = &cx.config.http_errors;
        let find = |name: &str| groups.iter().find(|g| &*g.name == name).cloned();
        let (severity, why) = match rule.apply(&mut replies, &find) {
            Ok(None) => continue,
            Ok(Some(why)) => (Severity::Warning, why),
            Err(why) => (Severity::Alert, why),
        };
        let place = format!("{}:{}", cx.sources.name(span.file), span.line);
        let message = format!("proxy '{}': {why} (at {place}).", b.p.name);
        cx.diagnostics.push(Diagnostic::new(severity, Lead::Bare, Some(*span), message));
    }
    let replies = Arc::new(replies);
    cx.last_errors = Some((b.error_rules.clone(), Arc::clone(&replies)));
    b.p.errors = Some(replies);
}
