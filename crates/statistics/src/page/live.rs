//! What the page's script asks for, again and again: `;live`. An object with the texts at the top (`tiles`) and an array
//! for each row (`rows`), in the order of [`ROW`]. Where the script begins (`;live=past`) each array ends with one more element: of the
//! steps before ([`super::past`]), how many requests or sessions each of them had, and how many microseconds those took.

use std::sync::Arc;

use super::Context;
use super::figures::Figures;
use super::options::write_row_id;
use super::past::{Past, Point};
use crate::format::{json_string, whole_number};
use crate::report::Walk;

/// Rows in one step.
const STEP: usize = 10;

/// What each row's array holds, for readers of this file and of page.js.
pub const ROW: [&str; 23] = [
    "id",
    "class",
    "status",
    "since",
    "weight",
    "queue",
    "queueMax",
    "sessions",
    "sessionsMax",
    "limit",
    "rate",
    "rateMax",
    "total",
    "streams",
    "time",
    "p50",
    "p99",
    "in",
    "out",
    "denied",
    "errors",
    "retries",
    "check",
];

/// The figures, while they are written.
pub struct Live {
    context: Context,
    past: Option<Arc<Past>>,
    walk: Walk,
    begun: bool,
}

impl Live {
    /// The rows of this context, with what is kept of the time before where that is asked for.
    pub fn new(context: Context, past: &Arc<Past>) -> Live {
        let walk = Walk::new(context.filter.clone());
        let past = context.options.past.then(|| Arc::clone(past));
        Live { context, past, walk, begun: false }
    }

    /// Writes some of it. False when that was the end.
    pub fn step(&mut self, out: &mut String) -> bool {
        let mut first = false;
        if !std::mem::replace(&mut self.begun, true) {
            first = true;
            out.push_str("{\"tiles\":{");
            for (n, (id, _, text)) in self.context.tiles().into_iter().enumerate() {
                out.push_str(if n == 0 { "\"" } else { ",\"" });
                out.push_str(id);
                out.push_str("\":");
                json_string(out, &text);
            }
            out.push_str("},\"rows\":[\n");
        }
        for _ in 0..STEP {
            let Some(place) = self.walk.next(&self.context.instance) else {
                out.push_str("]}\n");
                return false;
            };
            if !std::mem::take(&mut first) {
                out.push_str(",\n");
            }
            let figures = Figures::of(&self.context.instance, place);
            row(out, &figures);
            if let Some(past) = &self.past {
                curves(out, &past.of(figures.id));
            }
            out.push(']');
        }
        true
    }
}

fn row(out: &mut String, figures: &Figures) {
    out.push_str("[\"");
    write_row_id(out, figures.id);
    out.push_str("\",\"");
    out.push_str(figures.class.name());
    out.push_str("\",");
    json_string(out, &figures.status);
    let time = figures.time;
    for n in [
        figures.since_s,
        figures.weight,
        figures.queue,
        Some(figures.queue_max),
        Some(figures.sessions),
        Some(figures.sessions_max),
        figures.sessions_limit,
        figures.rate,
        Some(figures.rate_max),
        Some(figures.total),
        time.map(|time| time.streams),
        time.map(|time| time.sum),
        time.map(|time| time.p50),
        time.map(|time| time.p99),
        Some(figures.bytes_in),
        Some(figures.bytes_out),
        Some(figures.denied),
        Some(figures.errors),
        Some(figures.retries),
    ] {
        out.push(',');
        match n {
            Some(n) => whole_number(out, n),
            None => out.push_str("null"),
        }
    }
    out.push(',');
    json_string(out, &figures.check);
}

/// The last element where the script begins: two arrays, from the oldest point to the latest.
fn curves(out: &mut String, points: &[Point]) {
    let begun: Vec<String> = points.iter().map(|point| point.begun.to_string()).collect();
    let time = |point: &Point| point.time_us().map_or_else(|| "null".to_owned(), |us| us.to_string());
    let times: Vec<String> = points.iter().map(time).collect();
    out.push_str(&format!(",[[{}],[{}]]", begun.join(","), times.join(",")));
}
