//! `show opentelemetry` (ours): what became of spans and metrics.

use std::fmt::Write as _;

use thalweg_config::model::CliLevel::User;
use thalweg_proxy::Instance;
use thalweg_proxy::counters::{Counter, sum};
use thalweg_proxy::spans::SpanCounters;

use crate::command::{Command, Run};
use crate::json::Shape;
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] =
    &[Command::new("show opentelemetry", User, Run::Now(|call| show(call.instance())))
        .help("", "show what became of the spans and metrics of the 'opentelemetry' section")
        .json(|_| Shape::Pairs)];

/// A figure: its name, and where it is.
type Figure = (&'static str, fn(&SpanCounters) -> &Counter);

const FIGURES: [Figure; 6] = [
    ("spans_recorded", |counters| &counters.recorded),
    ("spans_dropped", |counters| &counters.dropped),
    ("spans_sent", |counters| &counters.sent),
    ("spans_failed", |counters| &counters.failed),
    ("metrics_sent", |counters| &counters.metrics_sent),
    ("metrics_failed", |counters| &counters.metrics_failed),
];

fn show(instance: &Instance) -> Reply {
    if instance.config.opentelemetry.is_none() {
        return Reply::error("There is no 'opentelemetry' section.");
    }
    let mut text = String::new();
    for (name, of) in FIGURES {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}: {}", sum(&*instance.threads, |thread| of(&thread.spans)));
    }
    Reply::Text(text)
}
