//! Formats of logs and of request identifiers.

use std::sync::Arc;

use thalweg_syntax::Line;

use crate::build::{Building, Cx, FormatSource, LogStyle};
use crate::keyword::{Outcome, fail, pass_over};
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
    if name == "log-format" {
        choose_format(cx, b, line, source);
        return Ok(());
    }
    let place = match name {
        "unique-id-format" => &mut b.unique_id,
        "error-log-format" => &mut b.error_log_format,
        _ => &mut b.log_format_sd,
    };
    *place = Some(source);
    Ok(())
}

pub(crate) fn unique_id_header(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let Some(name) = line.word(1) else {
        return Err(fail(line, 1, "unique-id-header expects an argument."));
    };
    b.p.unique_id_header = Some(name.bytes().into());
    pass_over(cx, line, 1, 1);
    Ok(())
}

/// Keeps the format of a section's lines. In presets, one that takes the place of another kind is worth a word: whoever
/// reads the file further up would not expect it.
pub(crate) fn choose_format(cx: &mut Cx<'_>, b: &mut Building, line: &Line, format: FormatSource) {
    let kind = |format: &FormatSource| match format {
        FormatSource::TcpLog { .. } => "option tcplog",
        FormatSource::HttpLog { style: LogStyle::Tls, .. } => "option httpslog",
        FormatSource::HttpLog { .. } => "option httplog",
        FormatSource::Text { .. } => "log-format",
    };
    if b.p.kind == ProxyKind::Defaults
        && let Some(before) = b.log_format.as_ref().map(kind).filter(|before| *before != kind(&format))
    {
        let message = format!("'{}' overrides previous '{before}' in 'defaults' section.", kind(&format));
        cx.warn(line, 0, message);
    }
    b.log_format = Some(format);
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
    pass_over(cx, line, 1, 1);
    let mut steps = Vec::new();
    let text = line.text(1);
    if text == "all" {
        b.p.log_steps = Arc::new([LogStep::Any]);
        return Ok(());
    }
    for name in text.split(',').filter(|_| !text.is_empty()) {
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
    Ok(())
}
