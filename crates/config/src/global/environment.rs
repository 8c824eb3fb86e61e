//! Environment and process variables. What these lines change is seen by the lines that follow.

use thalweg_syntax::Line;

use crate::build::Cx;
use crate::keyword::{Outcome, at_most, fail};

/// `setenv` and `presetenv`.
pub(crate) fn setenv(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 2)?;
    let keyword = line.text(0);
    let Some(name) = line.word(1) else {
        return Err(fail(line, 1, format!("'{keyword}' expects environment variable name.\n.")));
    };
    let Some(value) = line.word(2) else {
        return Err(fail(
            line,
            2,
            format!("'{keyword}' expects environment variable value for '{name}'.\n."),
        ));
    };
    legal_variable(line, 1)?;
    if keyword == "setenv" {
        cx.reader.environment.set(name.bytes(), value.bytes());
    } else {
        cx.reader.environment.preset(name.bytes(), value.bytes());
    }
    Ok(())
}

/// The name of a variable can neither be empty nor hold what ends it.
fn legal_variable(line: &Line, index: usize) -> Outcome {
    let name = line.text(index);
    if name.is_empty() || name.contains('=') {
        let keyword = line.text(0);
        let message = format!("'{keyword}' failed on variable '{name}' : Invalid argument.");
        return Err(fail(line, index, message));
    }
    Ok(())
}

pub(crate) fn unsetenv(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'unsetenv' expects at least one variable name."));
    }
    for (index, word) in line.arguments().iter().enumerate() {
        legal_variable(line, index + 1)?;
        cx.reader.environment.unset(word.bytes());
    }
    Ok(())
}

/// `resetenv`: keeps only the variables it names.
pub(crate) fn resetenv(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    cx.reader.environment.retain(|name| line.arguments().iter().any(|w| w.bytes() == name));
    Ok(())
}

/// `set-var` and `set-var-fmt`.
pub(crate) fn process_variable(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    crate::sample_env::process_variable(cx, line)
}
