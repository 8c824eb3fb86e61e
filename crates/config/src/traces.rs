//! `traces` sections: what the process tells of itself from its start on (configuration manual, section 12.1).

use thalweg_syntax::{Diagnostic, Line};

use crate::build::Cx;
use crate::keyword::{Outcome, fail};

pub(crate) fn line(cx: &mut Cx<'_>, line: Line) -> Outcome {
    match line.text(0) {
        "trace" => {
            cx.traces.push(line);
            Ok(())
        }
        other => Err(fail(&line, 0, format!("unknown keyword '{other}' in 'traces' section"))),
    }
}

/// Sources of the reference that nothing here tells of. Files that start every trace name them.
const UNTOLD: [&str; 10] = ["acme", "applet", "fcgi", "h3", "haterm", "peers", "pt", "qcm", "quic", "spop"];

/// Does what the lines say, now that all sinks are known. What they only list is a mistake that is warned of.
pub(crate) fn apply(cx: &mut Cx<'_>) {
    let mut traces = std::mem::take(&mut cx.config.traces);
    for line in std::mem::take(&mut cx.traces) {
        let words: Vec<&str> = (1..line.words.len()).map(|at| line.text(at)).collect();
        if let Some(source) = words.first().filter(|source| UNTOLD.contains(source)) {
            let message =
                format!("'trace {source}' : nothing here tells of '{source}', the line changes nothing.");
            cx.diagnostics.push(Diagnostic::warning_at(line.span_at(1), message));
            continue;
        }
        let said = traces.command(&words, &cx.config.sinks());
        let at = line.span_at(usize::from(!words.is_empty()));
        match said {
            Ok(said) if said.is_empty() || words.first() == Some(&thalweg_trace::STOP_ALL) => {}
            Ok(listed) => cx.diagnostics.push(Diagnostic::warning_at(at, format!("'trace': {listed}"))),
            Err(refused) => cx.diagnostics.push(Diagnostic::alert_at(at, refused)),
        }
    }
    cx.config.traces = traces;
}
