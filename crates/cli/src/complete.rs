//! What may come next (ours): the answer to a line that ends with a TAB in a session that goes on (`prompt`). A terminal sends
//! the line as it is typed, so that the words are listed and the line is typed on.

use std::collections::BTreeSet;

use thalweg_config::model::Proxy;

use crate::command::{all, find};
use crate::session::Session;
use crate::words;

/// The most words that are listed.
const LISTED_MAX: usize = 100;

/// The words that may follow `line`, or complete its last one: one line, empty for none.
pub fn complete(session: &Session, line: &str) -> String {
    let typed = words::words(line);
    let mut typed: Vec<&str> = typed.iter().map(String::as_str).collect();
    let partial = if line.ends_with([' ', '\t']) { "" } else { typed.pop().unwrap_or("") };
    let mut found = next_words(session, &typed, partial);
    if let Some((command, _)) = find(&typed).filter(|(_, count)| *count == typed.len()) {
        let argument = command.arguments.split_whitespace().next().unwrap_or("");
        found.extend(names(session, argument.trim_matches(['[', ']']), partial));
    }
    let mut listed: Vec<String> = found.into_iter().take(LISTED_MAX + 1).collect();
    if listed.len() > LISTED_MAX {
        listed[LISTED_MAX] = "...".to_owned();
    }
    match listed.is_empty() {
        true => String::new(),
        false => listed.join(" ") + "\n",
    }
}

/// The words of commands that this session may give.
fn next_words(session: &Session, typed: &[&str], partial: &str) -> BTreeSet<String> {
    let allowed = all().iter().filter(|command| {
        command.works()
            && !command.text.is_empty()
            && session.allows(command.mode)
            && session.level >= command.level
    });
    let next = allowed.filter_map(|command| {
        let mut words = command.words.split(' ');
        let begins = typed.iter().all(|typed| words.next() == Some(typed));
        words.next().filter(|word| begins && word.starts_with(partial))
    });
    next.map(str::to_owned).collect()
}

/// What stands for an argument, as far as it is a name of the configuration.
fn names(session: &Session, argument: &str, partial: &str) -> Vec<String> {
    let proxies = || session.instance.config.proxies.iter().map(|proxy| &**proxy);
    let named = |wanted: fn(&Proxy) -> bool| {
        let names = proxies().filter(|proxy| wanted(proxy)).map(|proxy| proxy.name.to_string());
        names.filter(|name| name.starts_with(partial)).take(LISTED_MAX + 1).collect()
    };
    match argument {
        "<frontend>" => named(Proxy::is_fe),
        "<backend>" => named(Proxy::is_be),
        "<bk>/<srv>" => {
            let servers = proxies().filter(|proxy| proxy.is_be()).flat_map(|proxy| {
                let backend = &session.instance.backends[proxy.id.0 as usize];
                proxy
                    .servers
                    .iter()
                    .map(move |server| format!("{}/{}", proxy.name, backend.identity(server).name))
            });
            servers.filter(|name| name.starts_with(partial)).take(LISTED_MAX + 1).collect()
        }
        _ => Vec::new(),
    }
}
