//! The doors to the expression compiler, and small parsers that actions share.

use thalweg_sample::acl::Condition;
use thalweg_sample::logformat::{LogFormat, Usage};
use thalweg_sample::value::leading_int;
use thalweg_sample::{CompileEnv, Expr};
use thalweg_syntax::{TimeError, parse_size, parse_time_ms};

/// Compiles the words after an action: `if` or `unless` and a condition.
pub(crate) fn condition(words: &[&str], env: &mut CompileEnv) -> Result<Condition, String> {
    Condition::compile(words, env)
}

/// Compiles a log format whose text goes into the head of a message.
pub(crate) fn format(text: &str, env: &mut CompileEnv) -> Result<LogFormat, String> {
    LogFormat::compile(text, Usage::Header, env)
}

/// Compiles a log format whose text is a payload, a key or the value of a variable.
pub(crate) fn raw_format(text: &str, env: &mut CompileEnv) -> Result<LogFormat, String> {
    LogFormat::compile(text, Usage::Raw, env)
}

/// Compiles an expression and checks that it can be evaluated where the rule is.
pub(crate) fn expression(word: Option<&str>, env: &mut CompileEnv) -> Result<Expr, String> {
    let word = word.ok_or("missing fetch method")?;
    let expr = Expr::compile(word, env)?;
    if !expr.fetch.points.meets(env.points) {
        return Err(format!(
            "fetch method '{word}' extracts information from '{}', none of which is available here",
            expr.fetch.needs
        ));
    }
    Ok(expr)
}

/// A whole word that is a number, decimal or `0x` hexadecimal.
pub(crate) fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

/// The decimal number a word starts with; 0 when there is none.
pub(crate) fn leading(word: &str) -> i64 {
    leading_int(word.as_bytes()).0
}

/// A word that is not a duration.
pub(crate) struct BadTime<'w> {
    word: &'w str,
    error: TimeError,
}

impl BadTime<'_> {
    /// The message for a rule.
    pub fn text(&self, rule: &str) -> String {
        match self.error {
            TimeError::Unexpected(at) | TimeError::Trailing(at) => {
                format!("unexpected character '{}' in rule '{rule}'", self.character(at))
            }
            TimeError::Overflow => {
                format!("timer overflow in rule '{rule}' (maximum value is 2147483647 ms or ~24.8 days)")
            }
            TimeError::Underflow => {
                format!("timer underflow in rule '{rule}' (minimum non-null value is 1 ms)")
            }
            TimeError::Empty => format!("a duration is missing in rule '{rule}'"),
        }
    }

    /// The message where the rule is already named.
    pub fn plain(&self) -> String {
        match self.error {
            TimeError::Unexpected(at) | TimeError::Trailing(at) => {
                format!("unexpected character '{}'", self.character(at))
            }
            TimeError::Overflow => "timer overflow (maximum value is 2147483647 ms or ~24.8 days)".into(),
            TimeError::Underflow => "timer underflow (minimum non-null value is 1 ms)".into(),
            TimeError::Empty => "a duration is missing".into(),
        }
    }

    fn character(&self, at: usize) -> char {
        self.word[at.min(self.word.len())..].chars().next().unwrap_or(' ')
    }
}

/// A duration in milliseconds. What follows the unit is passed over with a warning, as the reference does.
pub(crate) fn time_ms<'w>(word: &'w str, env: &mut CompileEnv) -> Result<u64, BadTime<'w>> {
    let parsed = match parse_time_ms(word) {
        Err(TimeError::Trailing(at)) => {
            env.warnings.push(TimeError::trailing_message(word, at));
            parse_time_ms(&word[..at])
        }
        other => other,
    };
    parsed.map(u64::from).map_err(|error| BadTime { word, error })
}

/// A size in bytes.
pub(crate) fn size(word: &str) -> Result<u64, String> {
    parse_size(word, u64::from(u32::MAX)).map_err(|_| {
        let bad = word.trim_start_matches(|c: char| c.is_ascii_digit()).chars().next().unwrap_or(' ');
        format!("unexpected character '{bad}'")
    })
}
