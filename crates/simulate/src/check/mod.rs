//! What must be true of every scenario.

mod answers;
mod attempts;
mod change;
mod counters;
mod lines;
mod streams;
mod tcp;

use std::sync::Arc;

use thalweg_proxy::Instance;

use crate::plan::Plan;
use crate::record::Record;

/// Looks at everything that was seen; complaints go to the record.
pub fn all(plan: &Plan, record: &Record, instance: &Arc<Instance>) {
    answers::check(plan, record);
    attempts::check(plan, record);
    lines::check(plan, record);
    tcp::check(plan, record);
    streams::check(plan, record);
    change::check(plan, record);
    counters::check(plan, record, instance);
    counters::buffers(record, instance);
    counters::nothing_left(record, instance);
}

/// Whether the network or the process failed in a way that breaks or prevents connections.
fn stormed(record: &Record) -> bool {
    let counts = record.network.counts();
    counts.resets + counts.unconnected + counts.pauses > 0
}
