//! `show errors`.

use thalweg_config::model::CliLevel::Operator;
use thalweg_config::model::Proxy;
use thalweg_proxy::Instance;
use thalweg_runtime::clock;

use super::{date, find_proxy};
use crate::command::{Command, Run};
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] =
    &[Command::new("show errors", Operator, Run::Now(|call| show(call.instance(), call.args)))
        .help("[<px>] [request|response]", "show the last message that was not understood, by proxy")
        .lacks("messages that were refused are not kept, so there are none")];

/// `show errors`: messages that were not understood are not kept yet, so there are none.
fn show(instance: &Instance, args: &[&str]) -> Reply {
    let any: fn(&Proxy) -> bool = |_| true;
    if let Some(name) = args.first().filter(|name| !matches!(**name, "request" | "response" | "-1"))
        && find_proxy(instance, name, any).is_none()
        && name.parse::<u32>().is_err()
    {
        return Reply::error("No such proxy.");
    }
    let now_us = clock::wall_us();
    Reply::Text(format!("Total events captured on [{}] : 0\n", date(now_us)))
}
