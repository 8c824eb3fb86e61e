//! Error pages.

use std::sync::Arc;

use thalweg_syntax::{Diagnostic, Line};

use crate::build::{Building, Cx};
use crate::compiled::Reply;
use crate::keyword::{Outcome, fail};

/// Statuses the program answers by itself, for which a page may be given.
pub(crate) const GENERATED: [u16; 21] =
    [200, 400, 401, 403, 404, 405, 407, 408, 410, 413, 414, 421, 422, 425, 429, 431, 500, 501, 502, 503, 504];

/// A status for which there is an error page.
pub(crate) fn status_of(line: &Line, index: usize, name: &str) -> Result<u16, Box<Diagnostic>> {
    let text = line.text(index);
    let status = u16::try_from(crate::numbers::leading(text).0).unwrap_or(0);
    if GENERATED.contains(&status) {
        return Ok(status);
    }
    Err(fail(line, index, format!("{name} : status code '{text}' not handled.")))
}

/// `errorfile <code> <file>`, in proxies and in `http-errors`.
pub(crate) fn errorfile(cx: &mut Cx<'_>, line: &Line) -> Result<(u16, Arc<Reply>), Box<Diagnostic>> {
    if line.words.len() < 3 {
        return Err(fail(
            line,
            line.words.len(),
            "errorfile : expects <status_code> and <file> as arguments.",
        ));
    }
    crate::keyword::at_most(line, 1, 2)?;
    let status = status_of(line, 1, "errorfile")?;
    Ok((status, from_file(cx, line, 2)?))
}

/// Reads a file that holds a whole response.
pub(crate) fn from_file(cx: &mut Cx<'_>, line: &Line, index: usize) -> Result<Arc<Reply>, Box<Diagnostic>> {
    let path = line.text(index);
    if cx.options.loader.read(path).is_err() {
        return Err(fail(line, index, format!("errorfile : error opening file '{path}'.")));
    }
    Ok(Arc::new(Reply))
}

/// A redirection.
pub(crate) fn redirect(_: u16, _: &[u8]) -> Reply {
    Reply
}

/// Gives a proxy a page for a status, replacing the previous one.
pub(crate) fn put(b: &mut Building, status: u16, reply: Arc<Reply>) {
    let mut errors = b.p.errors.take().map_or_else(Default::default, |e| (*e).clone());
    match errors.replies.binary_search_by_key(&status, |r| r.0) {
        Ok(i) => errors.replies[i].1 = reply,
        Err(i) => errors.replies.insert(i, (status, reply)),
    }
    b.p.errors = Some(Arc::new(errors));
}

pub(crate) fn http_error(_: &mut Cx<'_>, _: &mut Building, line: &Line) -> Outcome {
    if line.text(1) != "status" || line.text(2).is_empty() {
        return Err(fail(line, 1, "http-error : expects at least a <status> as arguments."));
    }
    Ok(())
}
