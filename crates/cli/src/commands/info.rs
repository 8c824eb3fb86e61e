//! `show info`: figures of the process. What they are is in [`thalweg_statistics::info`].

use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_config::model::CliLevel::User;
use thalweg_proxy::Instance;
use thalweg_runtime::clock;
use thalweg_statistics::format::{self, Value};
use thalweg_statistics::info::{self, Around, CliFigures};

use crate::Cli;
use crate::command::{Command, Run};
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] =
    &[Command::new("show info", User, Run::Now(|call| show(call.cli(), call.instance(), call.args)))
        .help("[desc|json|typed|float]*", "show figures of the process")];

impl Cli {
    /// What the figures of the process need beside those of the traffic.
    pub fn around(&self) -> Around<'_> {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Around {
            product: &self.product,
            version: &self.version,
            release_date: &self.release_date,
            warnings: self.process.startup_log().matches("[WARNING]").count() as u64,
            listeners: self.process.listeners() as u64 + self.doors.all().len() as u64,
            cli: CliFigures {
                connections: count(&self.counts.connections),
                requests: count(&self.counts.requests),
                bytes_out: count(&self.counts.bytes_out),
                current: u64::from(self.gate.current()),
            },
        }
    }
}

/// `show info [typed|json|desc|float]`.
fn show(cli: &Cli, instance: &Instance, args: &[&str]) -> Reply {
    let mut text = String::new();
    let has = |word: &str| args.contains(&word);
    let mut fields = info::fields(instance, &cli.around());
    if has("float") {
        let now_us = clock::wall_us();
        let started_us = cli.live.start_wall_us;
        for field in &mut fields {
            match field.name {
                "Uptime_sec" => {
                    field.value = Value::Float(now_us.saturating_sub(started_us) as f64 / 1e6);
                }
                "Start_time_sec" => field.value = Value::Float(started_us as f64 / 1e6),
                _ => {}
            }
        }
    }
    if has("json") {
        text.push('[');
        for (i, field) in fields.iter().enumerate() {
            if i > 0 {
                text.push(',');
            }
            text.push_str(&format!(
                "{{\"field\":{{\"pos\":{},\"name\":\"{}\"}},",
                field.position, field.name
            ));
            format::json_tail(&mut text, field.tags, &field.value);
        }
        text.push_str("]\n");
        return Reply::Text(text);
    }
    for field in &fields {
        if has("typed") {
            text.push_str(&format!("{}.{}.1:{}:", field.position, field.name, field.tags));
            format::typed(&mut text, &field.value);
        } else {
            text.push_str(&format!("{}: {}", field.name, field.value));
        }
        if has("desc") {
            text.push_str(&format!(":\"{}\"", field.text));
        }
        text.push('\n');
    }
    Reply::Text(text)
}
