//! `errorfile`, `errorfiles`, `errorloc*`, `http-error`.

use std::sync::Arc;

use thalweg_syntax::Line;

use crate::build::{Building, Cx};
use crate::keyword::{Outcome, at_most, fail};
use crate::replies;

/// `errorfile <code> <file>`
pub(crate) fn errorfile(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let (status, reply) = replies::errorfile(cx, line)?;
    replies::put(b, status, reply);
    Ok(())
}

/// `errorfiles <section> [<code> ...]`
pub(crate) fn errorfiles(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "errorfiles : expects <name> as argument."));
    }
    let mut statuses = Vec::new();
    for index in 2..line.words.len() {
        statuses.push(replies::status_of(line, index, "errorfiles")?);
    }
    b.errorfiles.push((cx.name(line.text(1)), statuses, line.span()));
    Ok(())
}

/// `errorloc`, `errorloc302`, `errorloc303`
pub(crate) fn errorloc(_: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let name = line.text(0);
    if line.words.len() < 3 {
        return Err(fail(
            line,
            line.words.len(),
            format!("{name} : expects <status_code> and <url> as arguments."),
        ));
    }
    at_most(line, 1, 2)?;
    let status = replies::status_of(line, 1, name)?;
    let code = if name == "errorloc303" { 303 } else { 302 };
    replies::put(b, status, Arc::new(replies::redirect(code, line.words[2].bytes())));
    Ok(())
}

/// `http-error status <code> [...]`, read late.
pub(crate) fn http_error(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    replies::http_error(cx, b, line)
}
