//! Servers that come and go: `add server`, `del server`.

use thalweg_config::model::CliLevel::Admin;
use thalweg_config::model::Proxy;
use thalweg_config::{DYNAMIC_OPTIONS, LoadOptions, new_server};
use thalweg_proxy::Instance;
use thalweg_proxy::backend::algorithm::takes_new_servers;
use thalweg_proxy::change::{self, Refused};

use super::{find_proxy, find_server};
use crate::command::{Command, Run};
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("add server", Admin, Run::Now(|call| add(call.instance(), call.args)))
        .help("<bk>/<srv>", "add a server to a backend ('add server help' lists its options)"),
    Command::new("del server", Admin, Run::Now(|call| delete(call.instance(), call.args)))
        .help("<bk>/<srv>", "remove a server that is in maintenance and unused"),
];

/// `add server`.
fn add(instance: &Instance, args: &[&str]) -> Reply {
    if let Some(&"help") = args.first() {
        let mut text = String::from("List of keywords supported for dynamic server:\n");
        DYNAMIC_OPTIONS.iter().for_each(|option| text.extend([option, "\n"]));
        return Reply::Text(text);
    }
    let named = args.first().and_then(|name| name.split_once('/')).filter(|(_, server)| !server.is_empty());
    let Some((backend, name)) = named else { return Reply::error("Require 'backend/server'.") };
    let Some(proxy) = find_proxy(instance, backend, Proxy::is_be) else {
        return Reply::error("No such backend.");
    };
    if !takes_new_servers(proxy) {
        return Reply::error(format!(
            "Backend does not support dynamic servers : backend '{}' uses a non dynamic load balancing method.",
            proxy.name
        ));
    }
    let live = &instance.backends[proxy.id.0 as usize];
    if live.server_by_name(proxy, name).is_some() {
        return Reply::error("Already exists a server with the same name in backend.");
    }
    let options = LoadOptions { environment: instance.config.environment.clone(), ..LoadOptions::default() };
    let read = match new_server(&options, &instance.config, proxy, name, &args[1..]) {
        Ok(read) => read,
        Err(why) => return Reply::error(why),
    };
    let Some(worker) = crate::worker() else { return Reply::error("The process ends.") };
    match change::add_server(&worker, proxy.id, read.server, read.tls) {
        Ok(()) => Reply::notice("New server registered."),
        Err(Refused::NameTaken) => Reply::error("Already exists a server with the same name in backend."),
        Err(_) => Reply::error("No such backend."),
    }
}

/// What a refusal to remove a server is answered with.
pub(super) fn words(why: Refused) -> &'static str {
    match why {
        Refused::Referenced => {
            "This server cannot be removed at runtime due to other configuration elements pointing to it."
        }
        Refused::InService => "Only servers in maintenance mode can be deleted.",
        Refused::InUse => "Server still has connections attached to it, cannot remove it.",
        Refused::Gone | Refused::NameTaken => "No such server.",
        Refused::Ending => "The process ends.",
    }
}

/// `del server`.
fn delete(instance: &Instance, args: &[&str]) -> Reply {
    let (proxy, server) = match find_server(instance, args) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    let Some(worker) = crate::worker() else { return Reply::error("The process ends.") };
    match change::remove_server(&worker, proxy.id, server.id) {
        Ok(()) => Reply::notice("Server deleted."),
        Err(why) => Reply::error(words(why)),
    }
}
