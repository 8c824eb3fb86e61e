//! `-cc`: a condition on the command line.

use std::process::ExitCode;

use thalweg_syntax::tokenizer::{Variables, tokenize};
use thalweg_syntax::{Environment, SourceMap, evaluate_condition};

use crate::features::{Enabled, facts};
use crate::report::Reporter;

/// Evaluates a condition as `.if` would: 0 when true, 1 when false, 2 when it cannot be evaluated.
pub fn run(text: &str, reporter: &mut Reporter) -> ExitCode {
    match evaluate(text) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            reporter.alert(&message);
            ExitCode::from(2)
        }
    }
}

fn evaluate(text: &str) -> Result<bool, String> {
    let environment = Environment::from_process();
    let mut sources = SourceMap::new();
    let file = sources.add("-cc", Vec::new());
    let variables = Variables { environment: &environment, file: "", line: 0, section: "" };
    // A comment means nothing here: the hash is part of the text, as in the reference.
    let escaped = text.replace('#', "\\#");
    let words = tokenize(escaped.as_bytes(), file, 1, &variables)
        .map_err(|error| format!("Syntax Error in condition: {}.", error.short()))?;
    let mut joined = Vec::new();
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            joined.push(b' ');
        }
        joined.extend_from_slice(word.bytes());
    }
    evaluate_condition(&joined, &facts(&Enabled::default()), &environment)
        .map_err(|error| format!("Failed to evaluate condition: {}", error.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_have_three_outcomes() {
        for (text, expected) in [
            ("1", Ok(true)),
            ("", Ok(false)),
            ("version_atleast(3.5-dev4)", Ok(true)),
            ("version_atleast(3.6)", Ok(false)),
            ("feature(THREAD) && !feature(QUIC)", Ok(true)),
            ("streq(\"a  b\",a  b)", Ok(false)),
            ("streq(\"a b\",a  b)", Ok(true)),
            (
                "1#",
                Err(
                    "Failed to evaluate condition: unexpected character '#' at the end of conditional expression '1#'",
                ),
            ),
            ("streq(\"a", Err("Syntax Error in condition: Unmatched quote.")),
            ("nonsense", Err("Failed to evaluate condition: unparsable conditional expression 'nonsense'")),
        ] {
            assert_eq!(evaluate(text), expected.map_err(str::to_string), "{text}");
        }
    }
}
