//! `show defaults`.

use thalweg_config::model::CliLevel::User;

use crate::command::{Call, Command, Run};
use crate::json::Shape;
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[Command::new("show defaults", User, Run::Now(show))
    .help("", "list the defaults sections that have a name")
    .json(|_| Shape::Lines)];

fn show(call: Call<'_>) -> Reply {
    let names = &call.instance().config.named_defaults;
    Reply::Text(names.iter().map(|name| format!("{name}\n")).collect())
}
