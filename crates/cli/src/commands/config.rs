//! What is in force, as a configuration: `show config`, `show config diff`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thalweg_config::model::CliLevel::Admin;
use thalweg_runtime::aside;

use crate::anonymous;
use crate::command::{Call, Command, Run};
use crate::json::Shape;
use crate::output::Reply;
use crate::running::Running;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("show config", Admin, Run::Waiting(|call| Box::pin(show(call))))
        .help("", "show the configuration in force, with what was changed at run time")
        .json(|_| Shape::Lines),
    Command::new("show config diff", Admin, Run::Waiting(|call| Box::pin(show_differences(call))))
        .help("", "show what was changed at run time and is not in the files")
        .json(|_| Shape::Differences),
];

/// What is in force, found by a thread that serves nobody.
async fn running(call: &Call<'_>) -> Result<Running, Reply> {
    let instance = Arc::clone(call.instance());
    let anon_key = call.cli().anon_key.load(Ordering::Relaxed);
    let found = aside("show-config", move || Running::now(&instance, anon_key)).await;
    found.map_err(|error| Reply::error(format!("Cannot look at the configuration: {error}.")))
}

fn unexpected(args: &[&str]) -> Option<Reply> {
    let first = args.first()?;
    Some(Reply::error(format!("'show config' takes nothing, 'diff' or 'text', not '{first}'.")))
}

/// `show config`.
async fn show(call: Call<'_>) -> io::Result<Reply> {
    if let Some(reply) = unexpected(call.args) {
        return Ok(reply);
    }
    let running = match running(&call).await {
        Ok(running) => running,
        Err(reply) => return Ok(reply),
    };
    let key = call.session.anon_key;
    let Call { session, output, .. } = call;
    let changes = running.differences.len();
    output
        .text
        .push_str(&format!("# generation {}, {changes} changes at run time\n", session.instance.generation));
    for line in running.lines_now() {
        output.text.push_str(&anonymous::line(key, &line));
        output.text.push('\n');
        output.flush_much().await?;
    }
    for (difference, detail) in running.unwritten() {
        output.text.push_str(&format!("# {}\n", difference.line(key, Some(detail))));
        output.flush_much().await?;
    }
    Ok(Reply::Done)
}

/// `show config diff`.
async fn show_differences(call: Call<'_>) -> io::Result<Reply> {
    if let Some(reply) = unexpected(call.args) {
        return Ok(reply);
    }
    let running = match running(&call).await {
        Ok(running) => running,
        Err(reply) => return Ok(reply),
    };
    let key = call.session.anon_key;
    for difference in &running.differences {
        for line in difference.lines(key) {
            call.output.text.push_str(&line);
            call.output.text.push('\n');
            call.output.flush_much().await?;
        }
    }
    Ok(Reply::Done)
}
