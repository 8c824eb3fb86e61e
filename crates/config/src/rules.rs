//! Rules of proxies: `acl`, `http-request` and its siblings, `tcp-request`, `redirect`.

use thalweg_syntax::Line;

use crate::build::{Building, Cx};
use crate::keyword::Outcome;

pub(crate) fn acl(_: &mut Cx<'_>, _: &mut Building, _: &Line) -> Outcome {
    Ok(())
}

pub(crate) fn http_rule(_: &mut Cx<'_>, _: &mut Building, _: &Line) -> Outcome {
    Ok(())
}

pub(crate) fn tcp_rule(_: &mut Cx<'_>, _: &mut Building, _: &Line) -> Outcome {
    Ok(())
}

pub(crate) fn redirect(_: &mut Cx<'_>, _: &mut Building, _: &Line) -> Outcome {
    Ok(())
}
