//! What the counters must add up to, and what must be back at nothing.

use std::sync::Arc;

use thalweg_balance::ServerIndex;
use thalweg_config::model::{Mode, Proxy, Server};
use thalweg_proxy::Instance;
use thalweg_proxy::counters::{Counters, sum};

use crate::plan::Plan;
use crate::record::{LogLine, Record};

/// Frontends, backends and servers counted what the log says.
pub fn check(plan: &Plan, record: &Record, instance: &Arc<Instance>) {
    let lines = record.lines.borrow();
    for proxy in instance.config.proxies.iter().filter(|proxy| !plan.tls.owns(&proxy.name)) {
        if proxy.is_fe() {
            let counters: Vec<&Counters> = instance.frontend_counters(proxy.id).collect();
            let of: Vec<&LogLine> = lines.iter().filter(|l| l.frontend == *proxy.name).collect();
            compare(record, &format!("frontend {}", proxy.name), &counters, &of);
            if proxy.mode == Mode::Tcp {
                continue;
            }
            let requests: u64 = counters.iter().map(|c| c.requests.get()).sum();
            equal(record, &format!("requests of frontend {}", proxy.name), requests, of.len() as u64);
        }
        if proxy.is_be() {
            let counters: Vec<&Counters> =
                instance.threads.iter().map(|t| &t.backends[proxy.id.0 as usize]).collect();
            let of: Vec<&LogLine> =
                lines.iter().filter(|l| l.backend == *proxy.name && l.frontend != l.backend).collect();
            compare(record, &format!("backend {}", proxy.name), &counters, &of);
            equal(
                record,
                &format!("streams of backend {}", proxy.name),
                total(&counters, |c| c.total.get()),
                of.len() as u64,
            );
            // A response that is tried again elsewhere counts as both.
            let (retries, moves) =
                (total(&counters, |c| c.retries.get()), total(&counters, |c| c.redispatches.get()));
            let logged: u64 = of.iter().map(|l| l.retries).sum();
            // Whoever found no server for another attempt did not make it, nor did who left in the delay before it.
            let given_up = of.iter().filter(|l| {
                l.retries > 0 && (matches!(l.state.as_bytes().get(1), Some(b'C' | b'Q')) || !l.has_connected)
            });
            if logged < retries.max(moves) || logged > retries + moves + given_up.count() as u64 {
                record.complain(format!(
                    "backend {}: {retries} retries and {moves} redispatches, the log says {logged}",
                    proxy.name
                ));
            }
            servers(plan, record, instance, proxy, &of);
        }
    }
}

fn total(counters: &[&Counters], pick: impl Fn(&Counters) -> u64) -> u64 {
    counters.iter().map(|c| pick(c)).sum()
}

fn equal(record: &Record, what: &str, counted: u64, expected: u64) {
    if counted != expected {
        record.complain(format!("{what}: {counted} counted, {expected} in the log"));
    }
}

/// Bytes and classes of responses.
fn compare(record: &Record, what: &str, counters: &[&Counters], lines: &[&LogLine]) {
    bytes(record, what, counters, lines);
    let class = |n: i32| lines.iter().filter(|l| l.status / 100 == n).count() as u64;
    for (name, counted, expected) in [
        ("2xx", total(counters, |c| c.responses_2xx.get()), class(2)),
        ("3xx", total(counters, |c| c.responses_3xx.get()), class(3)),
        ("4xx", total(counters, |c| c.responses_4xx.get()), class(4)),
        ("5xx", total(counters, |c| c.responses_5xx.get()), class(5)),
    ] {
        equal(record, &format!("{name} of {what}"), counted, expected);
    }
}

fn bytes(record: &Record, what: &str, counters: &[&Counters], lines: &[&LogLine]) {
    let counted = [
        total(counters, |c| c.request_bytes_in.get()),
        total(counters, |c| c.request_bytes_out.get()),
        total(counters, |c| c.response_bytes_in.get()),
        total(counters, |c| c.response_bytes_out.get()),
    ];
    let logged = [0, 1, 2, 3].map(|i| lines.iter().map(|l| l.bytes[i]).sum::<u64>());
    if counted != logged {
        record.complain(format!("bytes of {what}: {counted:?} counted, {logged:?} in the log"));
    }
}

fn servers(plan: &Plan, record: &Record, instance: &Arc<Instance>, proxy: &Proxy, lines: &[&LogLine]) {
    let backend = instance.threads.iter().map(|t| &t.backends[proxy.id.0 as usize]);
    let counters: Vec<&Counters> = backend.collect();
    let of = |server: &Server| -> Vec<&Counters> {
        let at = instance.server_index(proxy.id, server.id);
        instance.servers.all(at).collect()
    };
    for (name, pick) in [
        ("connection attempts", (|c: &Counters| c.connection_attempts.get()) as fn(&Counters) -> u64),
        ("reuses", |c| c.connection_reuses.get()),
        ("choices", |c| c.chosen.get()),
    ] {
        let all: u64 = proxy.servers.iter().map(|s| total(&of(s), pick)).sum();
        let sum = total(&counters, pick);
        // Those that are gone have taken theirs with them.
        if all > sum || all < sum && plan.change.is_none() {
            record.complain(format!("backend {}: {sum} {name}, its servers have {all}", proxy.name));
        }
    }
    for server in proxy.servers.iter().filter(|server| !began_anew(plan, proxy, server)) {
        let logged: Vec<&LogLine> = lines.iter().filter(|l| l.server == *server.name).copied().collect();
        bytes(record, &format!("server {}", server.name), &of(server), &logged);
    }
}

/// Whether a server was gone for a while, and may count from when it came again.
fn began_anew(plan: &Plan, proxy: &Proxy, server: &Server) -> bool {
    let position = plan.proxy.server_by_name(&proxy.name, &server.name);
    plan.change.as_ref().zip(position).is_some_and(|(change, server)| change.leaves(server))
}

/// Never more buffers were in use than there may be.
pub fn buffers(record: &Record, instance: &Arc<Instance>) {
    let (limit, peak) = (instance.config.global.tune.buffers_limit, thalweg_runtime::buffer::stats().peak);
    if limit > 0 && peak > limit {
        record.complain(format!("{peak} buffers were in use, of {limit}"));
    }
}

/// No session, stream, slot, place or connection is left.
pub fn nothing_left(record: &Record, instance: &Arc<Instance>) {
    let left = |what: String, n: u64| {
        if n != 0 {
            record.complain(format!("{n} left: {what}"));
        }
    };
    left("connections of the process".into(), instance.process_gate.current().into());
    for (_, gate) in instance.frontend_gates.iter() {
        left("connections of a frontend".into(), gate.current().into());
    }
    for gate in instance.listeners.iter().map(|(_, listening)| &listening.gate) {
        left("connections of a listener".into(), gate.current().into());
    }
    for proxy in &instance.config.proxies {
        let id = proxy.id.0 as usize;
        let backend = &instance.backends[id];
        left(
            format!("sessions of frontend {}", proxy.name),
            instance.frontend_counters(proxy.id).map(|c| c.current.get()).sum(),
        );
        left(
            format!("streams of HTTP/2 of frontend {}", proxy.name),
            instance
                .frontend_counters(proxy.id)
                .map(|c| c.h2_open_streams.get() + c.h2_open_connections.get())
                .sum(),
        );
        left(
            format!("streams of backend {}", proxy.name),
            sum(&*instance.threads, |t| &t.backends[id].current),
        );
        left(format!("places in the queue of backend {}", proxy.name), backend.queue_len().into());
        for server in &proxy.servers {
            let at = instance.server_index(proxy.id, server.id);
            let name = &server.name;
            left(format!("streams of server {name}"), instance.servers.sum(at, |c| &c.current));
            left(
                format!("idle connections of server {name}"),
                instance.servers.sum(at, |c| &c.idle_connections),
            );
            left(format!("places in the queue of server {name}"), backend.server_queue_len(server.id).into());
            left(
                format!("slots of server {name}"),
                backend.balancer.load(ServerIndex(server.id.0)).served().into(),
            );
        }
    }
}
