//! Whoever changes the configuration: reloads it, adds servers and removes them, and watches what is counted meanwhile.

use std::rc::Rc;
use std::sync::Arc;

use thalweg_config::{After, LoadOptions, compare, new_server};
use thalweg_proxy::backend::algorithm::takes_new_servers;
use thalweg_proxy::change::{add_server, is_removable, remove_server};
use thalweg_proxy::operator::Hand;
use thalweg_proxy::reload::{Next, Reserved, obstacles};
use thalweg_proxy::{Instance, Stopping, worker};
use thalweg_runtime::{handle, timer};

use crate::plan::{Guest, Plan};
use crate::record::Record;
use crate::stage::configuration;

/// How often what waits for something looks whether it is there.
const LOOK_MS: u64 = 1;

/// How often a server that is used is asked to go, in milliseconds.
const LEAVE_MS: u64 = 20;

/// How often what is counted is looked at, in milliseconds, while the configuration may change, and afterwards.
const WATCH_MS: u64 = 40;
const WATCH_LATER_MS: u64 = 400;

/// Puts one configuration after the other in force, each at its time.
pub async fn reload(plan: Arc<Plan>, record: Rc<Record>) {
    let Some(change) = &plan.change else { return };
    for (at_ms, number) in change.reloads_ms.iter().zip(1..) {
        timer::sleep_until(record.began_ms + at_ms).await;
        let Some(generation) = put_in_force(&change.text(number), number, &record) else { return };
        // Every thread follows by itself.
        while worker::current().is_some_and(|worker| worker.instance.generation < generation) {
            timer::sleep(LOOK_MS).await;
        }
        record.followed.set(number);
    }
}

fn put_in_force(text: &str, number: usize, record: &Record) -> Option<u64> {
    let worker = worker::current().filter(|worker| worker.live.stopping() == Stopping::No)?;
    let reserved = Reserved::new(&worker.live)?;
    let base = Arc::clone(reserved.base());
    let after = After { config: &base.config, numbers: &reserved, force: false };
    let config = match configuration(text, Some(after)) {
        Ok(config) => config,
        Err(complaint) => {
            record.complain(complaint);
            return None;
        }
    };
    let mut found = compare(&base.config, &config);
    obstacles(&base, &config, &mut found);
    if !found.obstacles.is_empty() {
        record.complain(format!("a reload is refused: {}", found.obstacles.join(" ")));
        return None;
    }
    record.network.note(|| {
        let changes: Vec<String> = found.changes.iter().map(ToString::to_string).collect();
        format!("actor reloads, {number} is in force: {}", changes.join(", "))
    });
    record.in_force.set(number);
    let handle = handle()?;
    let generation = Next::of(reserved, config).put_in_force(&handle, vec![Vec::new()]).ok();
    remember(&worker.live.current(), record);
    if generation.is_none() {
        record.complain("a reload is overtaken by nobody");
    }
    generation
}

/// A snapshot that must be gone in the end.
fn remember(current: &Option<Arc<Instance>>, record: &Record) {
    record.snapshots.borrow_mut().extend(current.as_ref().map(Arc::downgrade));
}

/// A server comes, and perhaps goes again.
pub async fn visit(plan: Arc<Plan>, record: Rc<Record>, n: usize, guest: Guest) {
    timer::sleep(guest.comes_ms).await;
    let name = name_of(n);
    if !arrive(&plan, &record, n, guest.beside) {
        return;
    }
    let Some(stays_ms) = guest.stays_ms else { return };
    timer::sleep(stays_ms).await;
    with_server(&plan, &name, guest.beside, |hand| hand.maintain());
    while with_server(&plan, &name, guest.beside, |hand| leave(hand, &record)) == Some(false) {
        timer::sleep(LEAVE_MS).await;
    }
}

fn name_of(guest: usize) -> String {
    format!("guest{guest}")
}

fn arrive(plan: &Plan, record: &Record, n: usize, beside: usize) -> bool {
    let Some(worker) = worker::current().filter(|worker| worker.live.stopping() == Stopping::No) else {
        return false;
    };
    let Some(proxy) = worker.instance.backend_by_name(plan.proxy.backend_of(beside).name.as_bytes()) else {
        return false;
    };
    if !takes_new_servers(proxy) {
        return false;
    }
    let name = &*name_of(n);
    let address = plan.servers[plan.proxy.server_count() + n].address.to_string();
    let read = match new_server(&LoadOptions::default(), &worker.instance.config, proxy, name, &[&address]) {
        Ok(read) => read,
        Err(why) => {
            record.complain(why);
            return false;
        }
    };
    if let Err(why) = add_server(&worker, &proxy.name, read.server, read.tls) {
        record.complain(format!("server {name} cannot come: {why:?}"));
        return false;
    }
    remember(&worker.live.current(), record);
    record.network.note(|| format!("actor server {name} comes to {}", proxy.name));
    with_server(plan, name, beside, |hand| hand.make_ready()).is_some()
}

/// Whether it is gone.
fn leave(hand: Hand<'_>, record: &Record) -> bool {
    let instance = &hand.worker.instance;
    let Some(proxy) = instance.config.find_proxy(hand.proxy) else { return true };
    let Some(server) = proxy.server(hand.server) else { return true };
    if is_removable(instance, proxy, server).is_err() {
        return false;
    }
    if let Err(why) = remove_server(hand.worker, hand.proxy, hand.server) {
        record.complain(format!("server {} cannot go: {why:?}", server.name));
    }
    remember(&hand.worker.live.current(), record);
    record.network.note(|| format!("actor server {} goes", server.name));
    true
}

/// What a hand does to a server of the backend of another one; `None` when it is not there.
fn with_server<R>(plan: &Plan, name: &str, beside: usize, f: impl FnOnce(Hand<'_>) -> R) -> Option<R> {
    let worker = worker::current()?;
    let proxy = worker.instance.backend_by_name(plan.proxy.backend_of(beside).name.as_bytes())?;
    let server = proxy.server_by_name(name)?.id;
    Some(f(Hand { worker: &worker, proxy: proxy.id, server }))
}

/// Looks at what is counted, time and again: nothing becomes less.
pub async fn watch(plan: Arc<Plan>, record: Rc<Record>) {
    let mut before: Vec<Counted> = Vec::new();
    while let Some(worker) = worker::current() {
        let now = counted(&worker.instance);
        for was in &before {
            if let Some(less) = now.iter().find(|is| is.of == was.of && is.value < was.value) {
                record.complain(format!("{:?} were {} and became {}", was.of, was.value, less.value));
            }
        }
        before = now;
        drop(worker);
        let may_change = plan.change.as_ref().is_some_and(|change| record.now_ms() < change.end_ms());
        timer::sleep(if may_change { WATCH_MS } else { WATCH_LATER_MS }).await;
    }
}

/// Something that only grows.
struct Counted {
    of: Of,
    value: u64,
}

/// What is counted, and of whom.
#[derive(Debug, PartialEq, Eq)]
enum Of {
    Sessions(Arc<str>),
    Requests(Arc<str>),
    Streams(Arc<str>),
    Bytes(Arc<str>),
    /// Streams of a server of a backend, with the first snapshot that has it: one that goes and comes again begins anew.
    Server(Arc<str>, u64, Arc<str>),
}

/// What there is of frontends, backends and servers.
fn counted(instance: &Instance) -> Vec<Counted> {
    let mut all = Vec::new();
    for proxy in &instance.config.proxies {
        let (name, at) = (|| Arc::clone(&proxy.name), proxy.id.0 as usize);
        let fronts = instance.frontend_counters(proxy.id);
        let backs = instance.threads.iter().map(|thread| &thread.backends[at]);
        all.extend([
            Counted { of: Of::Sessions(name()), value: fronts.clone().map(|c| c.total.get()).sum() },
            Counted { of: Of::Requests(name()), value: fronts.map(|c| c.requests.get()).sum() },
            Counted { of: Of::Streams(name()), value: backs.clone().map(|c| c.total.get()).sum() },
            Counted { of: Of::Bytes(name()), value: backs.map(|c| c.response_bytes_in.get()).sum() },
        ]);
        all.extend(proxy.servers.iter().map(|server| {
            let counters = instance.servers.all(instance.server_index(proxy.id, server.id));
            let since = instance.backends[at].since(server.id);
            let of = Of::Server(name(), since, Arc::clone(&server.name));
            Counted { of, value: counters.map(|c| c.total.get()).sum() }
        }));
    }
    all
}
