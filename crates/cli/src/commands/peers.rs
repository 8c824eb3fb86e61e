//! Processes that share stick tables (management manual, section 9.3: `show peers`).

use std::io;

use thalweg_config::model::CliLevel::User;
use thalweg_runtime::clock;

use super::date;
use crate::command::{Call, Command, Run};
use crate::json::Shape;
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] =
    &[Command::new("show peers", User, Run::Waiting(|call| Box::pin(show(call))))
        .help(
            "[dict|-] [section]",
            "the peers of all sections or of one (dict: with the names they exchanged)",
        )
        .json(|_| Shape::Records)];

/// `show peers [dict|-] [<section>]`
async fn show(call: Call<'_>) -> io::Result<Reply> {
    let Call { session, output, args, .. } = call;
    let instance = &session.instance;
    let (dict, name) = match args {
        ["dict", rest @ ..] => (true, rest.first()),
        ["-", rest @ ..] => (false, rest.first()),
        rest => (false, rest.first()),
    };
    let since = date(instance.start_wall_us);
    // To the second.
    let since = since.split('.').next().unwrap_or_default();
    let mut found = false;
    for (number, live) in instance.peers.iter().enumerate() {
        {
            let section = live.section();
            if name.is_some_and(|name| **name != **section.name()) {
                continue;
            }
            section.show(&mut output.text, number, since, dict, clock::now_ms());
        }
        found = true;
        output.end_row().await?;
    }
    Ok(if found || name.is_none() { Reply::Done } else { Reply::error("No such peers") })
}
