//! `show resolvers`: what was counted about name servers.

use std::fmt::Write as _;

use thalweg_config::model::CliLevel::User;
use thalweg_proxy::Instance;
use thalweg_statistics::resolvers::FIGURES;

use crate::command::{Command, Run};
use crate::json::Shape;
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] =
    &[Command::new("show resolvers", User, Run::Now(|call| show(call.instance(), call.args)))
        .help("[id]", "show what was counted about the name servers of 'resolvers' sections")
        .json(|_| Shape::Lines)];

fn show(instance: &Instance, args: &[&str]) -> Reply {
    let sections = instance.config.resolvers.iter().zip(&instance.resolvers);
    let mut text = String::new();
    for (section, counts) in
        sections.filter(|(section, _)| args.first().is_none_or(|id| **id == *section.name))
    {
        let _ = writeln!(text, "Resolvers section {}", section.name);
        for (server, tally) in section.name_servers.iter().zip(&counts.tallies()) {
            let _ = writeln!(text, " nameserver {}:", server.name);
            for figure in &FIGURES {
                // Here one of them has another name.
                let name = if figure.name == "send_error" { "snd_error" } else { figure.name };
                let label = format!("{name}:");
                let _ = writeln!(text, "  {label:<12} {}", (figure.of)(tally));
            }
        }
    }
    match args.first() {
        Some(_) if text.is_empty() => Reply::error("Can't find that resolvers section"),
        _ => Reply::Text(text),
    }
}
