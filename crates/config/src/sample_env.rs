//! The door to the expression compiler: environments, conditions, formats.

use std::sync::Arc;

use thalweg_syntax::{Diagnostic, Line};

use crate::build::{Building, Cx};
use crate::compiled::{Condition, LogFormat};
use crate::keyword::fail;

/// Which statement an expression belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    UseBackend,
    UseServer,
    MonitorFail,
    ForcePersist,
}

/// A condition that must be there: `if ...` or `unless ...`.
pub(crate) fn required_condition(
    cx: &mut Cx<'_>,
    b: &mut Building,
    line: &Line,
    index: usize,
    name: &str,
    at: Where,
) -> Result<Arc<Condition>, Box<Diagnostic>> {
    if !matches!(line.text(index), "if" | "unless") {
        let message = format!("'{name}' requires either 'if' or 'unless' followed by a condition.");
        return Err(fail(line, index, message));
    }
    condition(cx, b, line, index, at, name)
}

/// The condition that starts at `index`.
pub(crate) fn condition(
    _: &mut Cx<'_>,
    _: &mut Building,
    _: &Line,
    _: usize,
    _: Where,
    _: &str,
) -> Result<Arc<Condition>, Box<Diagnostic>> {
    Ok(Arc::new(Condition))
}

/// The format in the word at `index`.
pub(crate) fn log_format(
    _: &mut Cx<'_>,
    _: &mut Building,
    _: &Line,
    _: usize,
    _: Where,
    _: &str,
) -> Result<Arc<LogFormat>, Box<Diagnostic>> {
    Ok(Arc::new(LogFormat))
}

/// `set-var` and `set-var-fmt` of `global`.
pub(crate) fn process_variable(_: &mut Cx<'_>, _: &Line) -> crate::keyword::Outcome {
    Ok(())
}
