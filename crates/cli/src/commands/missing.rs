//! Commands of the reference whose system is missing here. Each is refused by name, and says what is missing; one that
//! comes to work moves to the file of its family.

use thalweg_config::model::CliLevel::{Admin, Operator, User};

use crate::command::{Command, Mode, Run};

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("acme", Admin, Run::Missing("ACME is missing")),
    Command::new("debug counters", Operator, Run::Missing("events are not counted where they happen")),
    Command::new("show cache", Admin, Run::Missing("the cache is missing")),
    Command::new("show quic", Operator, Run::Missing("QUIC is missing")),
    Command::new("add ssl ech", Admin, Run::Missing("ECH is missing")),
    Command::new("del ssl ech", Admin, Run::Missing("ECH is missing")),
    Command::new("set ssl ech", Admin, Run::Missing("ECH is missing")),
    Command::new("show ssl ech", User, Run::Missing("ECH is missing")),
    Command::new("debug dev", Admin, Run::Missing("the commands of the reference's developers are missing"))
        .only(Mode::Expert),
    Command::new("httpclient", Admin, Run::Missing("the HTTP client is missing")).only(Mode::Expert),
];
