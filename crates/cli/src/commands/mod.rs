//! The commands, one file per family.

mod frontend;
pub mod info;
mod patterns;
mod process;
mod profile;
mod server;
mod session;
mod streams;
mod wait;

use std::io;

use thalweg_config::model::CliLevel;
use thalweg_config::model::{Proxy, Server};
use thalweg_proxy::Instance;
use thalweg_runtime::clock;

use crate::output::{Output, Reply};
use crate::session::Session;
use crate::table::{self, Command, Id, Mode};
use crate::words::WORDS_MAX;
use crate::{Cli, stat, variables};

/// How a session goes on after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// With the next command.
    Continue,
    /// Not at all.
    Quit,
    /// By handing the listening sockets over.
    HandListeners,
}

/// Runs one command and appends its answer to `output`.
pub async fn run(
    session: &mut Session,
    output: &mut Output,
    words: &[String],
    payload: Option<&str>,
) -> io::Result<After> {
    if words.is_empty() {
        return Ok(After::Continue);
    }
    let (command, count) = match permitted(session, words) {
        Ok(found) => found,
        Err(reply) => {
            output.text.push_str(&reply.render(session.severity));
            return Ok(After::Continue);
        }
    };
    let args: Vec<&str> = words[count..].iter().map(String::as_str).collect();
    let args = args.as_slice();
    let instance = session.cli.instance.clone();
    let reply = match command.id {
        Id::Quit => return Ok(After::Quit),
        Id::GetSocks => return Ok(After::HandListeners),
        Id::Help => {
            let title = "The following commands are valid at this level:";
            Reply::info(table::list(title, &words[1..], |mode| session.allows(mode)))
        }
        Id::Unsupported => {
            Reply::error(format!("'{}' is known, but not supported yet by this program.", command.words))
        }
        Id::Prompt => session::prompt(session, args),
        Id::User => session::lower(session, CliLevel::User),
        Id::Operator => session::lower(session, CliLevel::Operator),
        Id::Expert => session::switch(&mut session.expert, "expert-mode", args),
        Id::Experimental => session::switch(&mut session.experimental, "experimental-mode", args),
        Id::SetSeverity => session::set_severity(session, args),
        Id::SetTimeout => session::set_timeout(output, args),
        Id::ShowCliLevel => Reply::info(crate::level_name(session.level)),
        Id::ShowCliSockets => session::show_sockets(&session.cli),
        Id::Echo => Reply::info(args.join(" ")),
        Id::ShowVersion => Reply::info(session.cli.version.clone()),
        Id::ShowEnv => session::show_env(args),
        Id::ShowErrors => session::show_errors(&instance, args),
        Id::ShowStartupLogs => Reply::Text(session.cli.process.startup_log()),
        Id::ShowInfo => info::show(&session.cli, args),
        Id::ShowStat => return stat::show(session, output, args).await.map(|()| After::Continue),
        Id::ShowSchema => Reply::Text(stat::SCHEMA.into()),
        Id::ClearCounters => stat::clear_maxima(&instance).await,
        Id::ClearCountersAll => stat::clear_all(&instance).await,
        Id::ClearCountersServer => stat::clear_server(&instance, args).await,
        Id::ShowMap | Id::ShowAcl => {
            return patterns::show(session, output, command.id == Id::ShowMap, args)
                .await
                .map(|()| After::Continue);
        }
        Id::GetMap | Id::GetAcl => patterns::get(&instance, command.id == Id::GetMap, args),
        Id::AddMap => patterns::add_map(&instance, args, payload),
        Id::AddAcl => patterns::add_acl(&instance, args),
        Id::SetMap => patterns::set_map(&instance, args),
        Id::DelMap | Id::DelAcl => patterns::delete(&instance, command.id == Id::DelMap, args),
        Id::ClearMap | Id::ClearAcl => patterns::clear(&instance, command.id == Id::ClearMap, args),
        Id::PrepareMap | Id::PrepareAcl => patterns::prepare(&instance, command.id == Id::PrepareMap, args),
        Id::CommitMap | Id::CommitAcl => patterns::commit(&instance, command.id == Id::CommitMap, args),
        Id::ShowBackend => server::show_backend(&instance),
        Id::ShowServersState => server::show_state(&instance, args),
        Id::ShowServersConn => server::show_connections(&instance, args),
        Id::GetWeight => server::get_weight(&instance, args),
        Id::SetWeight => server::set_weight(&instance, args),
        Id::SetServer => server::set(&instance, args),
        Id::EnableServer => server::enable(&instance, args, true),
        Id::DisableServer => server::enable(&instance, args, false),
        Id::EnableHealth => server::enable_checks(&instance, args, true),
        Id::DisableHealth => server::enable_checks(&instance, args, false),
        Id::SetMaxconnServer => server::set_maxconn(&instance, args),
        Id::SetMaxconnFrontend => frontend::set_maxconn(&instance, args),
        Id::SetMaxconnGlobal => frontend::set_maxconn_global(&instance, args),
        Id::SetRateLimit => frontend::set_rate_limit(&instance, args),
        Id::EnableAgent => server::enable_agent(&instance, args, true),
        Id::DisableAgent => server::enable_agent(&instance, args, false),
        Id::ShutdownServerSessions => server::shutdown_sessions(&instance, args),
        Id::ShowLibs => process::libraries(),
        Id::ShowFd => process::descriptors(args),
        Id::DisableFrontend => frontend::pause(&instance, args, true).await,
        Id::EnableFrontend => frontend::pause(&instance, args, false).await,
        Id::ShutdownFrontend => frontend::shutdown(&instance, args).await,
        Id::PublishBackend => frontend::publish(&instance, args, true),
        Id::UnpublishBackend => frontend::publish(&instance, args, false),
        Id::ShowSess => streams::show(session, args).await,
        Id::ShowActivity => profile::activity(args),
        Id::ShowTasks => Reply::Text(thalweg_runtime::profile::show_tasks().await),
        Id::ShowThreads => Reply::Text(thalweg_runtime::profile::show_threads().await),
        Id::ShowProfiling => profile::show(args),
        Id::SetProfiling => profile::set(args),
        Id::ShowPools => profile::pools(args),
        Id::GetVar => variables::get(&instance, args),
        Id::SetVar => variables::set(&instance, args),
        Id::Wait => wait::wait(&instance, output, args).await?,
    };
    output.text.push_str(&reply.render(session.severity));
    Ok(After::Continue)
}

/// The command that a session asks for, and how many words select it; else what to answer.
fn permitted(session: &Session, words: &[String]) -> Result<(&'static Command, usize), Reply> {
    if words.len() > WORDS_MAX {
        return Err(Reply::error(format!(
            "Too many arguments. Commands must have at most {WORDS_MAX} arguments."
        )));
    }
    let Some((command, count)) = table::find(words) else {
        let title = format!(
            "Unknown command: '{}', but maybe one of the following ones is a better match:",
            words[0]
        );
        return Err(Reply::info(table::list(&title, words, |mode| session.allows(mode))));
    };
    // In the reference's order: a mode that is off is what is said first, at any level.
    if !session.allows(command.mode) {
        let mode = if command.mode == Mode::Expert { "expert" } else { "experimental" };
        return Err(Reply::error(format!("This command is restricted to {mode} mode only.")));
    }
    if session.level < command.level {
        return Err(Reply::error("Permission denied"));
    }
    Ok((command, count))
}

/// Seconds since the start.
pub fn uptime_s(cli: &Cli) -> u64 {
    clock::wall_us().saturating_sub(cli.instance.start_wall_us) / 1_000_000
}

/// The proxy that `#<number>` or a name selects among those that `wanted` accepts.
pub fn find_proxy<'i>(instance: &'i Instance, name: &str, wanted: fn(&Proxy) -> bool) -> Option<&'i Proxy> {
    let number = name.strip_prefix('#').and_then(|n| n.parse::<u32>().ok());
    instance.config.proxies.iter().find(|p| wanted(p) && (&*p.name == name || number == Some(p.uid)))
}

/// The server that `backend/server` selects, each by name or `#<number>`; else what to answer.
pub fn find_server<'i>(instance: &'i Instance, args: &[&str]) -> Result<(&'i Proxy, &'i Server), Reply> {
    let Some((backend, server)) = args.first().and_then(|name| name.split_once('/')) else {
        return Err(Reply::error("Require 'backend/server'."));
    };
    let Some(proxy) = find_proxy(instance, backend, Proxy::is_be) else {
        return Err(Reply::error("No such backend."));
    };
    let number = server.strip_prefix('#').and_then(|n| n.parse::<u32>().ok());
    let found = proxy.servers.iter().find(|s| &*s.name == server || number == Some(s.uid));
    found.map(|server| (proxy, server)).ok_or_else(|| Reply::error("No such server."))
}
