//! `http-errors`: named groups of error pages.

use thalweg_rules::HttpErrors;
use thalweg_syntax::{Diagnostic, Line};

use crate::build::Cx;
use crate::keyword::{Outcome, fail, legal_name, pass_over};
use crate::replies;

pub(crate) fn open(cx: &mut Cx<'_>, line: &Line) -> Result<HttpErrors, Box<Diagnostic>> {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "missing name for http-errors section."));
    }
    pass_over(cx, line, 1, 1);
    legal_name(line)?;
    let name = line.text(1);
    if cx.config.http_errors.iter().any(|h| &*h.name == name) {
        return Err(fail(line, 1, format!("http-errors section '{name}' already exists (declared before).")));
    }
    Ok(HttpErrors { name: name.into(), ..HttpErrors::default() })
}

pub(crate) fn line(cx: &mut Cx<'_>, section: &mut HttpErrors, line: &Line) -> Outcome {
    if line.text(0) != "errorfile" {
        let near = thalweg_syntax::did_you_mean(line.text(0), ["errorfile"]);
        return Err(crate::global::unknown(line, "http-errors", near));
    }
    let holder = crate::proxy::fresh(line.span());
    let rule = replies::parse(cx, &holder, line)?;
    // A group holds files only, which name no other group.
    rule.apply(&mut section.replies, &|_| None).map(drop).map_err(|e| fail(line, 0, e))
}
