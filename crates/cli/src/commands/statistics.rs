//! The statistics: `show stat`, `show schema json`. What the rows hold is in [`thalweg_statistics::stat`].

use std::io;
use std::sync::Arc;

use thalweg_config::model::CliLevel::{self, User};
use thalweg_proxy::Instance;
use thalweg_statistics::latency::Table;
use thalweg_statistics::report::{Filter, Form, Report};
use thalweg_statistics::{resolvers, stat, stats_file};

use crate::command::{Call, Command, Run};
use crate::json::Shape;
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("show stat", User, Run::Waiting(|call| Box::pin(show(call))))
        .help("[desc|json|no-maint|typed|up]*", "show the counters of proxies and servers"),
    Command::new("show latency", User, Run::Waiting(|call| Box::pin(show_latency(call))))
        .help("[<proxy>]", "show how long streams took, in microseconds")
        .json(|_| Shape::Table),
    Command::new("dump stats-file", User, Run::Waiting(|call| Box::pin(dump(call))))
        .help("", "dump the counters that a stats file holds"),
    Command::new("show schema json", User, Run::Now(|_| Reply::Text(stat::SCHEMA.into())))
        .help("", "show the JSON schema of the statistics"),
];

/// `show stat`.
async fn show(call: Call<'_>) -> io::Result<Reply> {
    let Call { session, output, args, .. } = call;
    let instance = &session.instance;
    let mut filter = Filter::default();
    let (mut form, mut described) = (Form::Csv, false);
    let (mut args, mut of_resolvers) = (args, false);
    if args.first() == Some(&"domain") {
        match args.get(1) {
            Some(&"proxy") => {}
            Some(&"resolvers") => of_resolvers = true,
            _ => return Ok(Reply::error("Invalid statistics domain.")),
        }
        args = &args[2..];
    }
    if let [proxy, kinds, sid, rest @ ..] = args
        && !of_resolvers
    {
        match proxy_number(instance, proxy) {
            Some(number) => filter.iid = number,
            None => return Ok(Reply::error("No such proxy.")),
        }
        // What is no number is 0, and selects nothing.
        filter.kinds = kinds.parse().unwrap_or(0);
        filter.sid = sid.parse().unwrap_or(0);
        args = rest;
    }
    for arg in args {
        match *arg {
            "typed" => form = Form::Typed,
            "json" => form = Form::Json,
            "desc" => described = true,
            "up" => filter.up = true,
            "no-maint" => filter.no_maint = true,
            _ => {}
        }
    }
    if of_resolvers {
        return Ok(Reply::Text(resolvers::report(instance, form, described)));
    }
    let discloses = session.level >= CliLevel::Operator;
    let mut report = Report::new(Arc::clone(instance), filter, form, discloses);
    if described {
        report = report.describe();
    }
    while report.step(&mut output.text) {
        output.end_row().await?;
    }
    Ok(Reply::Done)
}

/// `show latency`.
async fn show_latency(call: Call<'_>) -> io::Result<Reply> {
    let instance = &call.session.instance;
    let mut filter = Filter::default();
    if let Some(name) = call.args.first() {
        match proxy_number(instance, name) {
            Some(number) => filter.iid = number,
            None => return Ok(Reply::error("No such proxy.")),
        }
    }
    let mut table = Table::new(Arc::clone(instance), filter);
    while table.step(&mut call.output.text) {
        call.output.end_row().await?;
    }
    Ok(Reply::Done)
}

/// `dump stats-file`.
async fn dump(call: Call<'_>) -> io::Result<Reply> {
    for line in stats_file::lines(&call.session.instance) {
        call.output.text.push_str(&line);
        call.output.end_row().await?;
    }
    Ok(Reply::Done)
}

/// The number of the proxy that a number, `-1` or a name selects.
fn proxy_number(instance: &Instance, text: &str) -> Option<i64> {
    // A number selects nothing when no proxy has it; 0 is a name, which nothing has.
    if let Ok(number) = text.parse::<i64>()
        && number != 0
    {
        return Some(number);
    }
    let proxy = instance.config.proxies.iter().find(|proxy| &*proxy.name == text)?;
    Some(i64::from(proxy.uid))
}
