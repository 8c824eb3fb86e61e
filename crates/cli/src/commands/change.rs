//! Servers and backends that come and go: `add server`, `del server`, `add backend`, `del backend`.

use thalweg_config::model::CliLevel::Admin;
use thalweg_config::model::{Mode, Proxy};
use thalweg_config::{DYNAMIC_OPTIONS, LoadOptions, new_backend, new_server};
use thalweg_proxy::Instance;
use thalweg_proxy::backend::algorithm::takes_new_servers;
use thalweg_proxy::change::{self, Refused};

use super::{NAME_A_SERVER, find_proxy, find_server, server_name};
use crate::command::{Command, Run};
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("add backend", Admin, Run::Now(|call| add_backend(call.instance(), call.args)))
        .help("<backend>", "add a backend with the presets of a 'defaults' section")
        .noted(),
    Command::new("del backend", Admin, Run::Now(|call| delete_backend(call.instance(), call.args)))
        .help("<backend>", "remove a backend that is unpublished, unused and has no server")
        .noted(),
    Command::new("add server", Admin, Run::Now(|call| add(call.instance(), call.args)))
        .help("<bk>/<srv>", "add a server to a backend ('add server help' lists its options)")
        .noted(),
    Command::new("del server", Admin, Run::Now(|call| delete(call.instance(), call.args)))
        .help("<bk>/<srv>", "remove a server that is in maintenance and unused")
        .noted(),
];

/// Why no server can be added to a backend, if none can.
pub(crate) fn refusal_of_new_servers(proxy: &Proxy) -> Option<String> {
    let why = match proxy.mode {
        Mode::Log => "uses mode log",
        _ if takes_new_servers(proxy) => return None,
        _ => "uses a non dynamic load balancing method",
    };
    Some(format!("Backend does not support dynamic servers : backend '{}' {why}.", proxy.name))
}

/// `add server`.
fn add(instance: &Instance, args: &[&str]) -> Reply {
    if let Some(&"help") = args.first() {
        let mut text = String::from("List of keywords supported for dynamic server:\n");
        DYNAMIC_OPTIONS.iter().for_each(|option| text.extend([option, "\n"]));
        return Reply::Text(text);
    }
    let named = args.first().and_then(|name| server_name(name));
    let Some((backend, name)) = named else { return Reply::error(NAME_A_SERVER) };
    let Some(proxy) = find_proxy(instance, backend, Proxy::is_be) else {
        return Reply::error("No such backend.");
    };
    if let Some(why) = refusal_of_new_servers(proxy) {
        return Reply::error(why);
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
    match change::add_server(&worker, &proxy.name, read.server, read.tls) {
        Ok(()) => Reply::notice("New server registered."),
        Err(Refused::NameTaken) => Reply::error("Already exists a server with the same name in backend."),
        Err(_) => Reply::error("No such backend."),
    }
}

/// What a refusal to remove a server is answered with.
pub(crate) fn words(why: Refused) -> &'static str {
    match why {
        Refused::Referenced => {
            "This server cannot be removed at runtime due to other configuration elements pointing to it."
        }
        Refused::InService => "Only servers in maintenance mode can be deleted.",
        Refused::InUse => "Server still has connections attached to it, cannot remove it.",
        Refused::Gone => "No such server.",
        Refused::NameTaken => "Already exists a server with the same name in backend.",
        Refused::Published | Refused::HasServers | Refused::Listens => backend_words(why),
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

const USAGE: &str = "Usage: add backend <name> from <defproxy> [mode <px_mode>] [guid <val>].";

/// What follows `add backend`.
pub(crate) struct NewBackendWords<'a> {
    pub name: &'a str,
    pub preset: &'a str,
    pub mode: Option<&'a str>,
    pub guid: Option<&'a str>,
}

impl<'a> NewBackendWords<'a> {
    /// Reads it; the error says what is expected.
    pub fn read(args: &[&'a str]) -> Result<NewBackendWords<'a>, &'static str> {
        let Some(&name) = args.first() else { return Err("Require backend name.") };
        let Some((&"from", [preset, rest @ ..])) = args.get(1..).and_then(<[&str]>::split_first) else {
            return Err("Usage: add backend <name> from <defproxy>.");
        };
        let mut words = NewBackendWords { name, preset, mode: None, guid: None };
        for option in rest.chunks(2) {
            match option {
                ["mode", value] => words.mode = Some(*value),
                ["guid", value] => words.guid = Some(*value),
                _ => return Err(USAGE),
            }
        }
        Ok(words)
    }
}

/// `add backend`.
fn add_backend(instance: &Instance, args: &[&str]) -> Reply {
    let NewBackendWords { name, preset, mode, guid } = match NewBackendWords::read(args) {
        Ok(words) => words,
        Err(why) => return Reply::error(why),
    };
    let options = LoadOptions { environment: instance.config.environment.clone(), ..LoadOptions::default() };
    let proxy = match new_backend(&options, &instance.config, name, preset, mode, guid) {
        Ok(proxy) => proxy,
        Err(why) => return Reply::error(why),
    };
    let Some(worker) = crate::worker() else { return Reply::error("The process ends.") };
    match change::add_backend(&worker, proxy) {
        Ok(()) => Reply::notice("New backend registered."),
        Err(Refused::NameTaken) => {
            Reply::error(format!("Error during backend creation : name '{name}' is already used."))
        }
        Err(why) => Reply::error(backend_words(why)),
    }
}

/// What a refusal to remove a backend is answered with.
pub(super) fn backend_words(why: Refused) -> &'static str {
    match why {
        Refused::Listens => "Cannot delete a listen section.",
        Refused::Referenced => {
            "This proxy cannot be removed at runtime due to other configuration elements pointing to it."
        }
        Refused::Published => "Backend must be unpublished prior to its deletion.",
        Refused::HasServers => "Only a backend without server can be deleted.",
        Refused::InUse | Refused::InService => "Backend still has attached streams.",
        Refused::Gone | Refused::NameTaken => "No such backend.",
        Refused::Ending => "The process ends.",
    }
}

/// `del backend`.
fn delete_backend(instance: &Instance, args: &[&str]) -> Reply {
    let Some(proxy) = args.first().and_then(|name| find_proxy(instance, name, Proxy::is_be)) else {
        return Reply::error("No such backend.");
    };
    let Some(worker) = crate::worker() else { return Reply::error("The process ends.") };
    match change::remove_backend(&worker, proxy.id) {
        Ok(()) => Reply::notice("Backend deleted."),
        Err(why) => Reply::error(backend_words(why)),
    }
}
