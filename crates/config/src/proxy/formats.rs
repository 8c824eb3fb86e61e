//! Formats of logs and of request identifiers.

use std::sync::Arc;

use thalweg_syntax::Line;

use crate::build::{Building, Cx, FormatSource};
use crate::keyword::{Outcome, at_most, fail};
use crate::model::{LogStep, ProxyKind};

/// `log-format`, `error-log-format`, `log-format-sd`, `unique-id-format`: compiled when the section is finished.
pub(crate) fn format_line(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let name = line.text(0);
    if line.words.len() < 2 {
        return Err(fail(line, 1, format!("{name} expects an argument.")));
    }
    if line.words.len() > 2 {
        return Err(fail(
            line,
            2,
            format!("{name} expects only one argument, don't forget to escape spaces!"),
        ));
    }
    let source = FormatSource::Text { text: Arc::from(line.text(1)), span: line.span_at(1) };
    if name != "unique-id-format" && b.p.kind == ProxyKind::Backend {
        cx.warn(line, 0, format!("{} : '{name}' directive is ignored in backends.", b.title()));
        return Ok(());
    }
    let place = match name {
        "unique-id-format" => &mut b.unique_id,
        "error-log-format" => &mut b.error_log_format,
        "log-format-sd" => &mut b.log_format_sd,
        _ => &mut b.log_format,
    };
    *place = Some(source);
    Ok(())
}

pub(crate) fn unique_id_header(_: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let Some(name) = line.word(1) else {
        return Err(fail(line, 1, "unique-id-header expects an argument."));
    };
    at_most(line, 1, 1)?;
    b.p.unique_id_header = Some(name.bytes().into());
    Ok(())
}

/// Names of the steps.
pub(crate) const STEPS: [(&str, LogStep); 12] = [
    ("accept", LogStep::Accept),
    ("request", LogStep::Request),
    ("connect", LogStep::Connect),
    ("response", LogStep::Response),
    ("close", LogStep::Close),
    ("http-req", LogStep::HttpReq),
    ("http-res", LogStep::HttpRes),
    ("http-after-res", LogStep::HttpAfterRes),
    ("tcp-req-conn", LogStep::TcpReqConn),
    ("tcp-req-sess", LogStep::TcpReqSess),
    ("tcp-req-cont", LogStep::TcpReqCont),
    ("tcp-res-cont", LogStep::TcpResCont),
];

/// `log-steps all|<step>[,...]`
pub(crate) fn log_steps(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    if !b.may_be_frontend() {
        cx.warn(
            line,
            0,
            format!("log-steps will be ignored because {} has no frontend capability", b.title()),
        );
        return Ok(());
    }
    let mut steps = Vec::new();
    for name in line.text(1).split(',').filter(|n| !n.is_empty()) {
        if name == "all" {
            steps.push(LogStep::Any);
            continue;
        }
        match STEPS.iter().find(|s| s.0 == name) {
            Some((_, step)) => steps.push(*step),
            None => {
                let all = STEPS.map(|s| s.0).join(", ");
                return Err(fail(
                    line,
                    1,
                    format!("invalid log step name ({name}). Expected values are: {all}"),
                ));
            }
        }
    }
    b.p.log_steps = steps.into();
    at_most(line, 1, 1)
}
