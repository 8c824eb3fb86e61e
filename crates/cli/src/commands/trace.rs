//! `trace` and `show trace`: what the process tells of what happens, and where.

use thalweg_config::model::CliLevel::{Operator, User};

use super::events::sinks;
use crate::command::{Call, Command, Run};
use crate::json::Shape;
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("show trace", User, Run::Now(show))
        .help("[<source>]", "show the state of traces, or of one source's events")
        .json(|_| Shape::Lines),
    Command::new("trace", Operator, Run::Now(trace))
        .help("[<source>|0|all] [<args...>]", "say what is told of what happens, and where")
        .lacks("sources of what is not built; events that nothing tells of"),
];

fn trace(call: Call<'_>) -> Reply {
    let instance = call.instance();
    reply(instance.live.tracing.command(call.args, &sinks(instance)))
}

fn show(call: Call<'_>) -> Reply {
    let instance = call.instance();
    reply(instance.live.tracing.show(call.args, &sinks(instance)))
}

fn reply(said: Result<String, String>) -> Reply {
    match said {
        Ok(text) if text.is_empty() => Reply::Done,
        Ok(text) => Reply::Text(text),
        Err(refused) => Reply::error(refused),
    }
}
