//! `show resolvers`: no section can be declared yet, so there is none.

use thalweg_config::model::CliLevel::User;

use crate::command::{Command, Run};
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[Command::new(
    "show resolvers",
    User,
    Run::Now(|call| match call.args {
        [] => Reply::Done,
        _ => Reply::error("Can't find that resolvers section"),
    }),
)];
