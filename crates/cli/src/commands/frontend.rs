//! Frontends, the limits of the process, and whether backends take part.

use std::sync::atomic::Ordering;

use thalweg_config::model::CliLevel::Admin;
use thalweg_config::model::Proxy;
use thalweg_proxy::announce::{self, Line};
use thalweg_proxy::{Instance, worker};

use super::find_proxy;
use crate::command::{self, Command, Run};
use crate::output::Reply;
use crate::threads::on_all;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new(
        "disable frontend",
        Admin,
        Run::Waiting(|call| Box::pin(async move { Ok(pause(call.instance(), call.args, true).await) })),
    )
    .help("<frontend>", "stop accepting connections for a while"),
    Command::new(
        "enable frontend",
        Admin,
        Run::Waiting(|call| Box::pin(async move { Ok(pause(call.instance(), call.args, false).await) })),
    )
    .help("<frontend>", "accept connections again"),
    Command::new(
        "shutdown frontend",
        Admin,
        Run::Waiting(|call| Box::pin(async move { Ok(shutdown(call.instance(), call.args).await) })),
    )
    .help("<frontend>", "close the listeners of a frontend for good"),
    Command::new("publish backend", Admin, Run::Now(|call| publish(call.instance(), call.args, true)))
        .help("<backend>", "let switching rules choose a backend")
        .noted(),
    Command::new("unpublish backend", Admin, Run::Now(|call| publish(call.instance(), call.args, false)))
        .help("<backend>", "keep switching rules from choosing a backend")
        .noted(),
    Command::new("set maxconn frontend", Admin, Run::Now(|call| set_maxconn(call.instance(), call.args)))
        .help("<frontend> <value>", "change the connection limit of a frontend"),
    Command::new(
        "set maxconn global",
        Admin,
        Run::Now(|call| set_maxconn_global(call.instance(), call.args)),
    )
    .help("<value>", "change the connection limit of the process"),
    Command::new("set rate-limit", Admin, Run::Now(|call| set_rate_limit(call.instance(), call.args)))
        .help("<setting> <value>", "change how many connections or sessions may begin per second")
        .lacks("http-compression, as compression is missing"),
];

/// What follows the command: the name of a frontend.
fn frontend<'i>(instance: &'i Instance, args: &[&str]) -> Result<&'i Proxy, Reply> {
    let Some(name) = args.first() else { return Err(Reply::error("A frontend name is expected.")) };
    find_proxy(instance, name, Proxy::is_fe).ok_or_else(|| Reply::error("No such frontend."))
}

/// `set maxconn frontend`.
fn set_maxconn(instance: &Instance, args: &[&str]) -> Reply {
    let proxy = match frontend(instance, args) {
        Ok(proxy) => proxy,
        Err(reply) => return reply,
    };
    let Some(text) = args.get(1) else { return Reply::error("Integer value expected.") };
    // A limit of nothing would be no limit: what is no number changes nothing.
    match text.parse::<u32>() {
        Ok(limit) if limit > 0 => instance.frontend_gates[proxy.id.0 as usize].set_limit(limit),
        _ => return Reply::error("Value out of range."),
    }
    Reply::Done
}

/// `set maxconn global`.
fn set_maxconn_global(instance: &Instance, args: &[&str]) -> Reply {
    let global = &instance.config.global;
    let ceiling = u32::try_from(global.hard_maxconn.max(global.maxconn)).unwrap_or(u32::MAX);
    match args.first().map(|text| text.parse::<u32>()) {
        None => Reply::error("Expects an integer value."),
        Some(Err(_)) => Reply::error("Expects an integer value."),
        Some(Ok(limit)) if limit > ceiling => Reply::error("Value out of range."),
        Some(Ok(0)) => {
            instance.process_gate.set_limit(ceiling);
            Reply::Done
        }
        Some(Ok(limit)) => {
            instance.process_gate.set_limit(limit);
            Reply::Done
        }
    }
}

/// `set rate-limit`.
fn set_rate_limit(instance: &Instance, args: &[&str]) -> Reply {
    let gate = match args {
        ["connections", "global", ..] => &instance.connection_rate,
        ["sessions", "global", ..] => &instance.session_rate,
        ["ssl-sessions", "global", ..] => &instance.tls_rate,
        ["http-compression", "global", ..] => {
            return command::missing("set rate-limit http-compression global", "compression is missing");
        }
        _ => {
            return Reply::error(
                "'set rate-limit' only supports :\n   - 'connections global' to set the per-process maximum connection \
                 rate\n   - 'sessions global' to set the per-process maximum session rate\n   - 'ssl-sessions global' to set the \
                 per-process maximum SSL session rate\n",
            );
        }
    };
    let Some(text) = args.get(2) else { return Reply::error("Expects an integer value.") };
    match text.parse() {
        Ok(limit) => {
            gate.set_limit(limit);
            Reply::Done
        }
        // A limit of nothing would be no limit: what is no number changes nothing.
        Err(_) => Reply::error("Value out of range."),
    }
}

/// `publish backend`, `unpublish backend`.
fn publish(instance: &Instance, args: &[&str], on: bool) -> Reply {
    let Some(proxy) = args.first().and_then(|name| find_proxy(instance, name, Proxy::is_be)) else {
        return Reply::error("No such backend.");
    };
    if proxy.disabled {
        return Reply::error("No effect on a disabled backend.");
    }
    instance.unpublished[proxy.id.0 as usize].store(!on, Ordering::Relaxed);
    Reply::info(if on { "Backend published." } else { "Backend unpublished." })
}

/// `disable frontend`, `enable frontend`.
async fn pause(instance: &Instance, args: &[&str], paused: bool) -> Reply {
    let proxy = match frontend(instance, args) {
        Ok(proxy) => proxy,
        Err(reply) => return reply,
    };
    if proxy.disabled || instance.is_shut(proxy.id) {
        return match paused {
            true => Reply::notice("Frontend was previously shut down, cannot disable."),
            false => Reply::error("Frontend was previously shut down, cannot enable."),
        };
    }
    if instance.frontend_paused[proxy.id.0 as usize].swap(paused, Ordering::SeqCst) == paused {
        let state = if paused { "disabled" } else { "enabled" };
        return Reply::notice(format!("All sockets are already {state}."));
    }
    tell(if paused { announce::paused(proxy) } else { announce::resumed(proxy) });
    wake_acceptors().await;
    Reply::Done
}

/// `shutdown frontend`.
async fn shutdown(instance: &Instance, args: &[&str]) -> Reply {
    let proxy = match frontend(instance, args) {
        Ok(proxy) => proxy,
        Err(reply) => return reply,
    };
    if proxy.disabled || !instance.shut_down(proxy.id) {
        return Reply::notice("Frontend was already shut down.");
    }
    tell(announce::stopped(instance, proxy));
    wake_acceptors().await;
    Reply::Done
}

/// Says what became of a proxy.
fn tell(line: Line) {
    if let Some(worker) = worker::current() {
        announce::tell(&worker, &line);
    }
}

/// Lets whatever accepts look at whether it should.
async fn wake_acceptors() {
    on_all(|worker| {
        worker.accepting.borrow().iter().for_each(|(_, task)| task.wake(thalweg_runtime::Reason::OTHER));
    })
    .await;
}
