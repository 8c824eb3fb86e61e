//! `set anon`: whether dumps of this session show names and addresses, or hashes of them.

use std::sync::atomic::Ordering;

use thalweg_config::model::CliLevel::{Admin, Operator, User};

use thalweg_sample::World;

use crate::anonymous;
use crate::command::{Call, Command, Run};
use crate::json::Shape;
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("set anon global-key", Admin, Run::Now(set_global_key))
        .help("<value>", "change the key that sessions use which name none"),
    Command::new(
        "set anon off",
        User,
        Run::Now(|call| {
            call.session.anon_key = 0;
            Reply::Done
        }),
    )
    .help("", "show names and addresses as they are"),
    Command::new("set anon on", User, Run::Now(switch_on))
        .help("[value]", "show hashes in place of names and addresses"),
    Command::new("show anon", User, Run::Now(show))
        .help("", "show whether dumps are anonymous, and the key")
        .json(|_| Shape::Value),
    Command::new("debug dev hash", User, Run::Now(hash)).help("  [msg]", "show a text as anonymous dumps do"),
];

fn switch_on(call: Call<'_>) -> Reply {
    let key = match call.args.first() {
        Some(text) => match text.parse() {
            Ok(key) if key > 0 => key,
            _ => return Reply::error("Value out of range (1 to 4294967295 expected)."),
        },
        None => match call.cli().anon_key.load(Ordering::Relaxed) {
            // Nobody named one: it is this session's alone.
            0 => crate::worker().map_or(1, |worker| (worker.random() as u32).max(1)),
            global => global,
        },
    };
    call.session.anon_key = key;
    Reply::Done
}

fn set_global_key(call: Call<'_>) -> Reply {
    match call.args.first().map(|text| text.parse()) {
        Some(Ok(key)) => {
            call.cli().anon_key.store(key, Ordering::Relaxed);
            Reply::Done
        }
        _ => Reply::error("Value out of range (0 to 4294967295 expected)."),
    }
}

fn show(call: Call<'_>) -> Reply {
    match call.session.anon_key {
        0 => Reply::info("Anonymized mode disabled"),
        // Who knows the key can try out what a hash may stand for.
        key if call.session.level >= Operator => Reply::info(format!("Anonymized mode enabled\nKey : {key}")),
        _ => Reply::info("Anonymized mode enabled"),
    }
}

fn hash(call: Call<'_>) -> Reply {
    let text = call.args.first().copied().unwrap_or("");
    Reply::info(anonymous::text(call.session.anon_key, text))
}
