//! `clear counters`.

use thalweg_config::model::CliLevel::{Admin, Operator};
use thalweg_proxy::Instance;
use thalweg_proxy::counters::Counters;

use super::find_server;
use crate::command::{Command, Run};
use crate::output::Reply;
use crate::threads::on_all;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new(
        "clear counters",
        Operator,
        Run::Waiting(|call| Box::pin(async move { Ok(clear(call.instance(), Counters::reset_max).await) })),
    )
    .help("[all|server <bk>/<srv> [force]]", "reset the maxima, or all counters, or those of a server"),
    Command::new(
        "clear counters all",
        Admin,
        Run::Waiting(|call| Box::pin(async move { Ok(clear_all(call.instance()).await) })),
    )
    .form(),
    Command::new(
        "clear counters server",
        Admin,
        Run::Waiting(|call| Box::pin(async move { Ok(clear_server(call.instance(), call.args).await) })),
    )
    .form(),
];

/// `clear counters server`.
async fn clear_server(instance: &Instance, args: &[&str]) -> Reply {
    let (proxy, server) = match find_server(instance, args) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    let backend = &instance.backends[proxy.id.0 as usize];
    backend.clear_downs(server.id);
    backend.clear_failures(server.id);
    let index = instance.server_index(proxy.id, server.id);
    on_all(move |worker| worker.instance.servers.mine(index, worker.thread).reset()).await;
    Reply::notice("Server counters cleared.")
}

/// `clear counters all`.
async fn clear_all(instance: &Instance) -> Reply {
    for proxy in &instance.config.proxies {
        let backend = &instance.backends[proxy.id.0 as usize];
        backend.clear_own_downs();
        for server in &proxy.servers {
            backend.clear_downs(server.id);
            backend.clear_failures(server.id);
        }
    }
    clear(instance, Counters::reset).await
}

/// Clears something of every counter, and the maxima that are kept beside them.
async fn clear(instance: &Instance, how: fn(&Counters)) -> Reply {
    on_all(move |worker| {
        let thread = worker.counters();
        let every = thread.listeners.iter().chain(thread.frontends.iter()).chain(thread.backends.iter());
        every.chain([&thread.process]).for_each(how);
        worker.instance.servers.each_of(worker.thread, how);
    })
    .await;
    for gate in instance
        .frontend_gates
        .iter()
        .map(|(_, gate)| gate)
        .chain(instance.listeners.iter().map(|(_, listening)| &listening.gate))
        .chain([&instance.process_gate])
    {
        gate.reset_peak();
    }
    instance.reset_peaks();
    instance.backends.iter().for_each(|backend| backend.reset_queue_max());
    Reply::Done
}
