//! `http-errors`: named groups of error pages.

use std::sync::Arc;

use thalweg_syntax::{Diagnostic, Line};

use crate::build::Cx;
use crate::keyword::{Outcome, at_most, fail};
use crate::model::HttpErrors;
use crate::replies;

pub(crate) fn open(cx: &mut Cx<'_>, line: &Line) -> Result<HttpErrors, Box<Diagnostic>> {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'http-errors' expects <name> as argument."));
    }
    at_most(line, 1, 1)?;
    let name = cx.name(line.text(1));
    if cx.config.http_errors.iter().any(|h| h.name == name) {
        return Err(fail(line, 1, format!("http-errors section '{name}' already exists (declared before).")));
    }
    Ok(HttpErrors { name, replies: Vec::new() })
}

pub(crate) fn line(cx: &mut Cx<'_>, section: &mut HttpErrors, line: &Line) -> Outcome {
    if line.text(0) != "errorfile" {
        let near = thalweg_syntax::did_you_mean(line.text(0), ["errorfile"]);
        return Err(crate::global::unknown(line, "http-errors", near));
    }
    let (status, reply): (u16, Arc<_>) = replies::errorfile(cx, line)?;
    match section.replies.binary_search_by_key(&status, |r| r.0) {
        Ok(i) => section.replies[i].1 = reply,
        Err(i) => section.replies.insert(i, (status, reply)),
    }
    Ok(())
}
