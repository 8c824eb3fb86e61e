//! `show resolvers`: what was counted about name servers.

use std::fmt::Write as _;

use thalweg_config::model::CliLevel::User;
use thalweg_statistics::resolvers::{FIGURES, Figure};

use crate::command::{Call, Command, Run};
use crate::json::{Object, Shape};
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[Command::new("show resolvers", User, Run::Now(show))
    .help("[id]", "show what was counted about the name servers of 'resolvers' sections")
    .json(|_| Shape::Own)];

fn show(call: Call<'_>) -> Reply {
    let (instance, id) = (call.instance(), call.args.first());
    let sections = instance.config.resolvers.iter().zip(&instance.resolvers);
    let mut text = String::new();
    for (section, counts) in sections.filter(|(section, _)| id.is_none_or(|id| **id == *section.name)) {
        let tallies = counts.tallies();
        let servers = section.name_servers.iter().zip(&tallies);
        if call.wants_json() {
            for (server, tally) in servers {
                document(&section.name, &server.name, |figure| (figure.of)(tally), &mut text);
            }
            continue;
        }
        let _ = writeln!(text, "Resolvers section {}", section.name);
        for (server, tally) in servers {
            let _ = writeln!(text, " nameserver {}:", server.name);
            for figure in &FIGURES {
                let label = format!("{}:", name_of(figure));
                let _ = writeln!(text, "  {label:<12} {}", (figure.of)(tally));
            }
        }
    }
    match id {
        Some(_) if text.is_empty() => Reply::error("Can't find that resolvers section"),
        _ => Reply::Text(text),
    }
}

/// How a figure is called here: one of them has another name than elsewhere.
fn name_of(figure: &Figure) -> &'static str {
    if figure.name == "send_error" { "snd_error" } else { figure.name }
}

/// A name server's figures, as an object.
fn document(section: &str, server: &str, value: impl Fn(&Figure) -> u64, out: &mut String) {
    let mut object = Object::default();
    object.text("resolvers", section).text("nameserver", server);
    for figure in &FIGURES {
        object.number(name_of(figure), Some(value(figure)));
    }
    object.end(out);
}
