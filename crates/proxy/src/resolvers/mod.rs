//! `resolvers` sections at work: sockets, time, and whom the answers reach. What is asked and what follows from an answer is decided
//! by [`thalweg_dns::Resolver`].
//!
//! Each section belongs to one thread, which alone asks its name servers and changes the servers that follow its names. Other
//! threads send it what they want: a stream whose rule resolves a name ([`resolve`]), an operator who gives a server another
//! one ([`set_name`]).

pub mod counts;
mod line;
mod section;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::task::Poll;

use thalweg_config::model::{Global, ProxyId, Resolution, Server, ServerAddr};
use thalweg_dns::{Families, Follow, Key, Name, Preference};
use thalweg_rules::Wanted;
use thalweg_runtime::net::{Datagram, DatagramOptions, SockAddr};
use thalweg_runtime::{Reason, TaskId, current_task, run_on};
use thalweg_shared::Mutex;

use crate::instance::Instance;
use crate::worker::{self, Worker};

use section::Section;
pub(crate) use section::Sections;

/// The thread that a section belongs to.
fn owner(section: usize, threads: usize) -> usize {
    section % threads.max(1)
}

/// Lets the servers of the configuration follow their names: those whose sections belong to the calling thread.
pub fn start(worker: &Worker) {
    let instance = &worker.instance;
    for proxy in instance.config.proxies.iter().filter(|proxy| !proxy.disabled) {
        for server in &proxy.servers {
            let section = server.rare().resolution.as_ref().map(|resolution| resolution.section);
            if section.is_some_and(|number| owner(number, instance.threads.len()) == worker.thread) {
                follow(instance, proxy.id, server);
            }
        }
    }
}

/// Whether IPv4 and IPv6 addresses are wanted (`dns-accept-family`).
fn accepted(global: &Global) -> (bool, bool) {
    let v6 = global.dns_accept_ipv6 && (!global.dns_accept_auto || reaches_v6());
    (global.dns_accept_ipv4 || !v6, v6)
}

/// Whether this host has a way to IPv6 addresses of the world. Nothing is sent: the kernel looks for a route.
fn reaches_v6() -> bool {
    let somewhere = SocketAddr::from((Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 53));
    Datagram::connect(&SockAddr::from(somewhere), &DatagramOptions::default()).is_ok()
}

/// Lets a server follow its name, if its line names a section. To be called on any thread, once the server is there.
pub fn follow(instance: &Instance, proxy: ProxyId, server: &Server) {
    let rare = server.rare();
    if let (Some(resolution), Some(name)) = (&rare.resolution, &rare.fqdn) {
        let address = match &server.addr {
            ServerAddr::Tcp(addr) => Some(addr.ip()),
            _ => None,
        };
        tell_follow(instance, proxy, server, resolution.section, name, address);
    }
}

/// A server is not to follow its name any more. To be called on any thread, before the server goes.
pub fn forget(instance: &Instance, proxy: ProxyId, server: &Server) {
    let Some(resolution) = &server.rare().resolution else { return };
    let (number, key) = (resolution.section, Key { group: proxy.0, server: server.id.0 });
    run_on(owner(number, instance.threads.len()), move || {
        with_section(number, |section| section.resolver.borrow_mut().forget(key));
    });
}

/// Gives a server another name to follow, from the address where it is now.
///
/// # Errors
/// It has no section to ask, its name is that of a service, or the new one is no name.
pub fn set_name(worker: &Worker, proxy: ProxyId, server: &Server, name: &str) -> Result<(), NameChange> {
    let (resolution, name) = new_name(server, name)?;
    let backend = worker.backend(proxy);
    let now = backend.identity(server);
    if now.fqdn.as_deref() == Some(name.as_str()) {
        return Err(NameChange::Same);
    }
    let address = if let ServerAddr::Tcp(addr) = &now.addr { Some(addr.ip()) } else { None };
    let proxy_of = worker.proxy(proxy);
    backend.change_identity(proxy_of, server, |now, _| {
        now.fqdn = Some(Arc::clone(name.text()));
        now.fqdn_changed = true;
    });
    tell_follow(&worker.instance, proxy, server, resolution.section, name.text(), address);
    Ok(())
}

/// The name that a server is to be looked up by in place of its own, with how it is looked up.
///
/// # Errors
/// As those of [`set_name`]; that it has that name already is none.
pub fn new_name<'s>(server: &'s Server, name: &str) -> Result<(&'s Resolution, Name), NameChange> {
    let rare = server.rare();
    let Some(resolution) = &rare.resolution else { return Err(NameChange::NoResolution) };
    if rare.fqdn.as_ref().is_some_and(|name| name.starts_with('_')) {
        return Err(NameChange::Service);
    }
    let name = Name::new(name).map_err(|_| NameChange::NoName)?;
    Ok((resolution, name))
}

/// Why a server does not get another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameChange {
    /// Its line names no `resolvers` section.
    NoResolution,
    /// Its names come from a service.
    Service,
    /// It has that name already.
    Same,
    /// That is no name.
    NoName,
}

fn tell_follow(
    instance: &Instance,
    proxy: ProxyId,
    server: &Server,
    number: usize,
    name: &str,
    address: Option<IpAddr>,
) {
    // The configuration refuses what is no name.
    let (Ok(name), Some(resolution)) = (Name::new(name), &server.rare().resolution) else { return };
    let (key, preference) = (Key { group: proxy.0, server: server.id.0 }, resolution.preference.clone());
    run_on(owner(number, instance.threads.len()), move || {
        with_section(number, |section| {
            let families = section.families(preference.families.prefers_v6());
            let preference = Preference { families, ..preference };
            section.follow(key, Follow { name, preference, address });
        });
    });
}

/// Runs `f` with a section of this thread.
fn with_section(number: usize, f: impl FnOnce(&Rc<Section>)) {
    if let Some(section) = worker::current().and_then(|worker| worker.sections.get(&worker, number)) {
        f(&section);
        section.pump();
    }
}

/// The answer on its way: whoever asked hears of it however the owner's task ends.
struct Reply {
    answer: Answer,
    asking: TaskId,
    address: Option<IpAddr>,
}

/// `None` while it is awaited, `Some(None)` when there is no address.
type Answer = Arc<Mutex<Option<Option<IpAddr>>>>;

impl Reply {
    fn send(mut self, address: Option<IpAddr>) {
        self.address = address;
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.address);
        self.asking.wake(Reason::MESSAGE);
    }
}

/// The address of a host that a stream wants; `None` when it has none, or is none. It takes as long as the tries of the section.
pub async fn resolve(instance: &Instance, wanted: &Wanted) -> Option<IpAddr> {
    let name = std::str::from_utf8(&wanted.name).ok()?;
    // A number is not the name of a host. Who wants to go where the client says can look at it without DNS.
    if name.parse::<IpAddr>().is_ok() {
        return None;
    }
    let (name, number, v6_first) = (Name::new(name).ok()?, wanted.section, wanted.v6_first);
    let answer: Answer = Arc::default();
    let reply = Reply { answer: Arc::clone(&answer), asking: current_task(), address: None };
    run_on(owner(number, instance.threads.len()), move || {
        with_section(number, |section| {
            let families: Families = section.families(v6_first);
            section.resolve(&name, families, reply);
        });
    });
    std::future::poll_fn(|_| match answer.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(address) => Poll::Ready(address),
        None => Poll::Pending,
    })
    .await
}
