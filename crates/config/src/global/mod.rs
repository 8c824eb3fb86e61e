//! The `global` section.

mod codes;
mod environment;
pub(crate) mod h2;
mod limits;
mod process;
mod stats;
mod threads;
mod tune;

use thalweg_syntax::Line;

use crate::build::Cx;
use crate::keyword::{Outcome, Status, fail, find, near, not_supported};
use crate::table::GLOBAL;

pub(crate) use codes::*;
pub(crate) use environment::*;
pub(crate) use limits::*;
pub(crate) use process::*;
pub(crate) use stats::*;
pub(crate) use threads::*;
pub(crate) use tune::*;

/// Keywords that accept `no` and `default` before them.
const NEGATABLE: [&str; 7] = [
    "option",
    "log",
    "busy-polling",
    "set-dumpable",
    "strict-limits",
    "insecure-fork-wanted",
    "numa-cpu-mapping",
];

/// Whether the line begins with `no` or `default`; the line without that word, and which one it was.
pub(crate) enum Prefix {
    None,
    No,
    Default,
}

/// Takes a `no` or `default` off the line. Refused where it is not allowed.
pub(crate) fn take_prefix(line: &mut Line) -> Result<Prefix, Box<thalweg_syntax::Diagnostic>> {
    let prefix = match line.text(0) {
        "no" => Prefix::No,
        "default" => Prefix::Default,
        _ => return Ok(Prefix::None),
    };
    if line.words.len() < 2 || !NEGATABLE.contains(&line.text(1)) {
        return Err(fail(
            line,
            0,
            "negation/default currently supported only for options, log, busy-polling, set-dumpable, strict-limits, \
             insecure-fork-wanted and numa-cpu-mapping.",
        ));
    }
    line.words.remove(0);
    Ok(prefix)
}

/// One line of a `global` section.
pub(crate) fn line(cx: &mut Cx<'_>, mut line: Line) -> Outcome {
    match take_prefix(&mut line)? {
        Prefix::None => {}
        Prefix::No => return negated(cx, &line, true),
        Prefix::Default => return negated(cx, &line, false),
    }
    let name = line.text(0);
    match find(GLOBAL, name) {
        Some(keyword) => match keyword.status {
            Status::Works(parse) => parse(cx, &line),
            Status::NotYet(why) => Err(not_supported(&line, 0, name, why)),
            Status::Removed(sentence) => Err(fail(&line, 0, sentence)),
        },
        None => Err(unknown(&line, "global", near(GLOBAL, name))),
    }
}

/// The complaint about a keyword that no table has.
pub(crate) fn unknown(
    line: &Line,
    section: &str,
    near: Option<&'static str>,
) -> Box<thalweg_syntax::Diagnostic> {
    let name = line.text(0);
    let hint = near.map_or(String::new(), |n| format!("; did you mean '{n}' maybe ?"));
    fail(line, 0, format!("unknown keyword '{name}' in '{section}' section{hint}"))
}

/// `no <keyword>` and `default <keyword>`, `off` telling the first from the second.
fn negated(cx: &mut Cx<'_>, line: &Line, off: bool) -> Outcome {
    if !matches!(line.text(0), "log" | "option" | "set-dumpable") {
        crate::keyword::at_most(line, 1, 0)?;
    }
    let global = &mut cx.config.global;
    match line.text(0) {
        "busy-polling" => global.busy_polling = false,
        "set-dumpable" => global.set_dumpable = false,
        "insecure-fork-wanted" => global.insecure_fork_wanted = false,
        "strict-limits" => global.strict_limits = !off,
        "numa-cpu-mapping" => global.numa_cpu_mapping = !off,
        "log" if off && line.words.len() > 1 => {
            return Err(fail(line, 1, "log : 'no log' does not expect arguments"));
        }
        "log" if off => global.log_targets = std::sync::Arc::from([]),
        "log" => return crate::log::global_log(cx, line),
        _ => return Err(unknown(line, "global", None)),
    }
    Ok(())
}
