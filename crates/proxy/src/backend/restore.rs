//! Servers go on as they were in a former process (configuration manual: `load-server-state-from-file`).
//!
//! [`apply`] runs before there are threads, so that no request meets a server that was down. What needs a thread follows in
//! [`announce`]: lines for the logs, slow starts that go on, names to resolve.

use std::net::SocketAddr;
use std::rc::Rc;

use thalweg_check::Status;
use thalweg_config::Config;
use thalweg_config::model::{PortMode, Proxy, SavedOperation, SavedState, Server, ServerAddr, ServerId};

use super::Backend;
use super::health::{Before, What};
use super::identity::Identity;
use super::standing::{Operation, Standing};
use crate::instance::{Backends, Instance};
use crate::resolvers;
use crate::worker::Worker;

/// Each server that has a saved state.
fn saved(config: &Config) -> impl Iterator<Item = (&SavedState, &Proxy, &Server)> {
    config.saved_states.iter().filter_map(|state| {
        let proxy = config.find_proxy(state.proxy)?;
        Some((state, proxy, proxy.server(state.server)?))
    })
}

/// Gives the servers of a configuration the states that they had.
pub(crate) fn apply(config: &Config, backends: &Backends) {
    for (state, proxy, server) in saved(config) {
        let backend = &backends[proxy.id.0 as usize];
        backend.change_identity(proxy, server, |now, _| restore_identity(now, state));
        if let Some(weight) = state.weight.filter(|weight| *weight != u32::from(server.weight))
            && (weight == 0 || !backend.balancer.is_static())
        {
            backend.set_weight(server.id, weight);
        }
        if let Some(status) = Status::numbered(state.check_status) {
            backend.change_report(server.id, What::Health, |report| report.verdict.status = status);
        }
        backend.restore(server.id, state);
    }
}

fn restore_identity(now: &mut Identity, state: &SavedState) {
    if let (ServerAddr::Tcp(addr), PortMode::Fixed, Some(port)) = (&mut now.addr, now.port_mode, state.port) {
        addr.set_port(port);
    }
    // The port of checks is another field.
    now.check_addr = state.check_address.map(|ip| SocketAddr::new(ip, 0)).or(now.check_addr);
    now.check_port = state.check_port.or(now.check_port);
    now.agent_addr = state.agent_address.or(now.agent_addr);
    now.agent_port = state.agent_port.or(now.agent_port);
}

impl Standing {
    /// It goes on as it was.
    fn restore(&mut self, state: &SavedState) {
        if self.starts_disabled() {
            // `disabled` may be new: only an operator's word against it counts.
            if state.enabled {
                self.make_ready();
            }
        } else if state.maintenance {
            self.maintain();
        } else {
            match state.operation {
                Some(SavedOperation::Stopped) => {
                    self.health.set_bottom();
                    self.operation = Operation::Stopped;
                }
                Some(_) if self.unresolved => {}
                Some(SavedOperation::Running) => {
                    self.health.set_top();
                    self.operation = Operation::Running;
                }
                Some(SavedOperation::Stopping) => {
                    self.health.set_top();
                    self.operation = Operation::Stopping;
                }
                None => {}
            }
        }
        self.drain = state.drain && !self.maintenance;
        if state.checks_disabled {
            self.enable_checks(false);
        }
        if state.agent_disabled {
            self.enable_agent(false);
        }
    }
}

/// What the servers of a running process are, as [`apply`] gives it to those of another one.
pub fn saved_states(instance: &Instance) -> Vec<SavedState> {
    let servers = instance
        .config
        .proxies
        .iter()
        .flat_map(|proxy| proxy.servers.iter().map(move |server| (proxy, server)));
    servers.map(|(proxy, server)| look(&instance.backends[proxy.id.0 as usize], server)).collect()
}

fn look(backend: &Backend, server: &Server) -> SavedState {
    let (now, standing) = (backend.identity(server), backend.standing(server.id));
    let address = if let ServerAddr::Tcp(addr) = now.addr { Some(addr) } else { None };
    let report = backend.check_report(server.id, What::Health);
    SavedState {
        proxy: backend.id,
        server: server.id,
        address: address.map(|addr| addr.ip()),
        operation: match standing.operation {
            _ if standing.in_maintenance() => None,
            Operation::Stopped => Some(SavedOperation::Stopped),
            Operation::Running => Some(SavedOperation::Running),
            Operation::Stopping => Some(SavedOperation::Stopping),
        },
        maintenance: standing.maintenance && !standing.starts_disabled(),
        enabled: standing.starts_disabled() && !standing.maintenance,
        drain: standing.drain,
        weight: Some(backend.weight(server.id)),
        since_s: backend.history(server.id).since_s(),
        check_status: report.map_or(0, |report| report.verdict.status.number()),
        checks_disabled: server.check.is_some() && !standing.checked,
        agent_disabled: server.rare().agent.is_some() && !standing.agent_asked,
        fqdn: now.fqdn.filter(|_| now.fqdn_changed),
        port: address.map(|addr| addr.port()).filter(|port| *port != 0),
        check_port: now.check_port,
        check_address: now.check_addr.map(|addr| addr.ip()),
        agent_port: now.agent_port,
        agent_address: now.agent_addr,
    }
}

impl Backend {
    fn restore(&self, server: ServerId, state: &SavedState) {
        self.restore_standing(server, |standing| standing.restore(state));
        let age_ms = state.since_s.saturating_mul(1000);
        self.service(server).up_time.restore(age_ms);
        if state.operation == Some(SavedOperation::Running) {
            self.go_on_warming(server, age_ms);
        }
    }
}

/// Tells what became of servers, and does what needs a thread. For the first thread, before it accepts.
pub(crate) fn announce(worker: &Rc<Worker>) {
    for (state, proxy, server) in saved(&worker.instance.config) {
        let backend = worker.backend(proxy.id);
        let before = Before::look(backend, server.id);
        let operation = backend.standing(server.id).operation;
        const WHY: &str = "changed from server-state after a reload";
        match state.operation {
            Some(SavedOperation::Stopped) if operation == Operation::Stopped => {
                before.tell_down(worker, proxy.id, server.id, &format!("is DOWN, {WHY}"));
            }
            Some(SavedOperation::Stopping) if operation == Operation::Stopping => {
                before.tell_up(worker, proxy.id, server.id, &format!("is stopping, {WHY}"));
            }
            _ => {}
        }
        if let Some(name) = &state.fqdn {
            // A server whose line says otherwise now keeps the name of its line.
            let _ = resolvers::set_name(worker, proxy.id, server, name);
        }
        backend.watch_warming(worker, server.id);
    }
}
