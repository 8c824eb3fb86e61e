//! `option outlier-detection` (ours).

use thalweg_syntax::{Line, TimeUnit};

use super::OptionHow;
use crate::build::{Building, Cx};
use crate::keyword::{Outcome, fail};
use crate::model::OutlierDetection;
use crate::numbers::{count, strict, time};

/// What the words of the line set, for messages.
const WORDS: &str =
    "'errors', 'success-rate', 'latency', 'requests', 'interval', 'hold', 'max-hold' and 'max-ejected'";

/// `outlier-detection [<word> <value>]...`
pub(crate) fn outlier_detection(cx: &mut Cx<'_>, b: &mut Building, line: &Line, how: OptionHow) -> Outcome {
    b.needs_backend(cx, line, "option outlier-detection", "");
    if how != OptionHow::On {
        if b.p.rare().outliers.is_some() {
            b.p.rare_mut().outliers = None;
        }
        return Ok(());
    }
    let mut outliers = OutlierDetection::default();
    let mut at = 2;
    while at < line.words.len() {
        let word = line.text(at);
        match word {
            "errors" => outliers.errors = number(line, at, 1_000_000)?,
            "success-rate" => outliers.success_rate = number(line, at, 100)?,
            "latency" => outliers.latency = number(line, at, 1000)?,
            "requests" => outliers.requests = number(line, at, 1_000_000)?.max(1),
            "max-ejected" => outliers.max_ejected = number(line, at, 100)?,
            "interval" => outliers.interval_ms = period(cx, line, at)?,
            "hold" => outliers.hold_ms = period(cx, line, at)?,
            "max-hold" => outliers.max_hold_ms = period(cx, line, at)?,
            _ => {
                let message = format!("'option outlier-detection' expects {WORDS}, but got '{word}'.");
                return Err(fail(line, at, message));
            }
        }
        at += 2;
    }
    b.p.rare_mut().outliers = Some(outliers);
    Ok(())
}

/// The number behind the word at `at`. A percent sign may follow it where it is a percentage.
fn number(line: &Line, at: usize, max: u32) -> Result<u32, Box<thalweg_syntax::Diagnostic>> {
    let (name, text) = (line.text(at), line.text(at + 1));
    let digits = if max == 100 { text.strip_suffix('%').unwrap_or(text) } else { text };
    let value = strict(digits).and_then(count).filter(|value| *value <= max);
    value.ok_or_else(|| {
        fail(line, at + 1, format!("'option outlier-detection {name}' expects a number from 0 to {max}."))
    })
}

/// The time behind the word at `at`, in milliseconds.
fn period(cx: &mut Cx<'_>, line: &Line, at: usize) -> Result<u64, Box<thalweg_syntax::Diagnostic>> {
    let name = line.text(at);
    match time(cx, line, at + 1, TimeUnit::Milliseconds, name)? {
        0 => Err(fail(line, at + 1, format!("'option outlier-detection {name}' expects a time above 0."))),
        ms => Ok(ms),
    }
}
