//! What the commands of a transaction come to: everything that can fail is found here, and nothing is changed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use thalweg_config::model::{Config, Proxy, ProxyId, Server, ServerId, Shared};
use thalweg_config::{LoadOptions, new_backend, new_server};
use thalweg_proxy::Instance;
use thalweg_proxy::change_set::{self, ChangeSet, Failed, OldBackend, OldServer};
use thalweg_proxy::worker::Worker;

use super::Change;
use super::certificates::{self, Certificates};
use super::files::Files;
use super::settings::Setting;
use crate::commands::change::{NewBackendWords, refusal_of_new_servers, words as why_not};
use crate::commands::{NAME_A_SERVER, server_name};

/// Everything that is to be done.
pub struct Plan {
    set: ChangeSet,
    settings: Vec<(Target, Setting)>,
    published: Vec<(Arc<str>, bool)>,
    files: Files,
    certificates: Option<Certificates>,
}

/// Why nothing was changed.
pub enum NotMade {
    /// Somebody else changed something since.
    Overtaken,
    /// What is wrong.
    Refused(String),
}

/// A server that something is set of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Old(ProxyId, ServerId),
    /// The names of its backend and its own.
    New(Arc<str>, Arc<str>),
}

/// The configuration as it will be, as far as the commands were read.
struct Planner<'i> {
    instance: &'i Instance,
    config: Config,
    options: LoadOptions<'static>,
    plan: Plan,
}

impl Plan {
    /// Plans all changes, in order.
    ///
    /// # Errors
    /// The position of the first one that cannot be made, and why.
    pub fn of(instance: &Instance, changes: &[Change]) -> Result<Plan, (usize, String)> {
        let environment = instance.config.environment.clone();
        let set = ChangeSet { generation: Some(instance.generation), ..ChangeSet::default() };
        let mut planner = Planner {
            instance,
            config: instance.config.clone(),
            options: LoadOptions { environment, ..LoadOptions::default() },
            plan: Plan {
                set,
                settings: Vec::new(),
                published: Vec::new(),
                files: Files::default(),
                certificates: None,
            },
        };
        let (of_tls, others): (Vec<_>, Vec<_>) =
            changes.iter().enumerate().partition(|(_, change)| certificates::concern(change));
        for (at, change) in others {
            let words: Vec<&str> = change.words.iter().map(String::as_str).collect();
            planner.change(&words, change.payload.as_deref()).map_err(|why| (at, why))?;
        }
        // What new servers use is there by now.
        if let [(first, _), ..] = of_tls[..] {
            let tls = planner.config.tls.clone().ok_or((first, "TLS cannot be used.".to_owned()))?;
            planner.plan.certificates = Some(Certificates::plan(tls, &of_tls)?);
        }
        Ok(planner.plan)
    }

    /// Makes them all.
    ///
    /// # Errors
    /// None was made.
    pub fn carry_out(self, worker: &Worker) -> Result<(), NotMade> {
        let apply = || {
            change_set::apply(worker, self.set).map_err(|failed| match failed {
                Failed::Overtaken => NotMade::Overtaken,
                Failed::Refused(name, why) => NotMade::Refused(format!("{name}: {}", why_not(why))),
            })
        };
        match self.certificates {
            Some(certificates) => certificates.carry_out_with(apply)?,
            None => apply()?,
        }
        let Some(now) = worker.live.current() else { return Ok(()) };
        let Some(worker) = crate::worker() else { return Ok(()) };
        for (target, setting) in self.settings {
            if let Some((proxy, server)) = target.find(&now.config) {
                setting.make(&now, &worker, proxy, server);
            }
        }
        for (name, on) in self.published {
            let found = now.config.proxies.iter().find(|proxy| proxy.is_be() && proxy.name == name);
            if let Some(proxy) = found {
                now.unpublished[proxy.id.0 as usize].store(!on, Ordering::SeqCst);
            }
        }
        self.files.carry_out();
        Ok(())
    }
}

impl Target {
    fn find<'c>(&self, config: &'c Config) -> Option<(&'c Proxy, &'c Server)> {
        match self {
            Target::Old(proxy, server) => {
                let proxy = config.find_proxy(*proxy)?;
                Some((proxy, proxy.server(*server)?))
            }
            Target::New(backend, server) => {
                let proxy = config.proxies.iter().find(|proxy| proxy.is_be() && proxy.name == *backend)?;
                Some((proxy, proxy.server_by_name(server)?))
            }
        }
    }
}

impl Planner<'_> {
    fn change(&mut self, words: &[&str], payload: Option<&str>) -> Result<(), String> {
        match words {
            [verb @ ("add" | "set" | "del" | "clear"), what @ ("map" | "acl"), args @ ..] => {
                return self.plan.files.plan(self.instance, verb, *what == "map", args, payload);
            }
            _ if payload.is_some() => return Err("It takes no payload.".into()),
            _ => {}
        }
        match words {
            ["add", "server", name, words @ ..] => self.add_server(name, words),
            ["del", "server", name] => self.remove_server(name),
            ["add", "backend", args @ ..] => self.add_backend(args),
            ["del", "backend", name] => self.remove_backend(name),
            ["publish", "backend", name] => self.publish(name, true),
            ["unpublish", "backend", name] => self.publish(name, false),
            ["enable", "server", name] => self.set(name, |_, _| Ok(Setting::Ready)),
            ["disable", "server", name] => self.set(name, |_, _| Ok(Setting::Maintenance)),
            ["set", "weight", name, text] => self.set(name, |proxy, server| Setting::weight(proxy, server, text)),
            ["set", "maxconn", "server", name, text] => self.set(name, |_, _| Setting::maxconn(text)),
            ["set", "server", name, words @ ..] => {
                let (instance, is_new) = (self.instance, matches!(self.server(name)?.0, Target::New(..)));
                self.set(name, |proxy, server| Setting::read(instance, proxy, server, is_new, words))
            }
            _ => Err("Transactions take 'add', 'del', 'enable' and 'disable server', 'set server', 'set weight', 'set maxconn server', \
                      'add', 'del', 'publish' and 'unpublish backend', maps and ACLs, and what 'set ssl' and its siblings change \
                      of certificates, lists of them, CA files and CRL files."
                .into()),
        }
    }

    fn backend(&self, name: &str) -> Result<&Shared<Proxy>, String> {
        let number = name.strip_prefix('#').and_then(|number| number.parse::<u32>().ok());
        let mut backends = self.config.proxies.iter().filter(|proxy| proxy.is_be());
        backends
            .find(|proxy| &*proxy.name == name || number == Some(proxy.uid))
            .ok_or("No such backend.".into())
    }

    /// The server that `backend/server` names, with its backend.
    fn server(&self, name: &str) -> Result<(Target, &Proxy, &Server), String> {
        let (backend, name) = server_name(name).ok_or(NAME_A_SERVER)?;
        let proxy = self.backend(backend)?;
        let new =
            self.plan.set.new_servers.iter().find(|(of, server)| *of == proxy.name && &*server.name == name);
        if let Some((of, server)) = new {
            return Ok((Target::New(Arc::clone(of), Arc::clone(&server.name)), proxy, server));
        }
        let number = name.strip_prefix('#').and_then(|number| number.parse::<u32>().ok());
        let before = self.instance.config.find_proxy(proxy.id).filter(|before| before.name == proxy.name);
        let found = before.and_then(|before| {
            let live = self.instance.backends.get(before.id.0 as usize)?;
            let numbered = || before.servers.iter().map(|s| &**s).find(|server| number == Some(server.uid));
            live.server_by_name(before, name).or_else(numbered)
        });
        let is_left = |server: &&Server| proxy.servers.iter().any(|other| other.id == server.id);
        let server = found.filter(is_left).ok_or("No such server.")?;
        Ok((Target::Old(proxy.id, server.id), proxy, server))
    }

    fn set(
        &mut self,
        name: &str,
        setting: impl FnOnce(&Proxy, &Server) -> Result<Setting, String>,
    ) -> Result<(), String> {
        let (target, proxy, server) = self.server(name)?;
        let setting = setting(proxy, server)?;
        self.plan.settings.push((target, setting));
        Ok(())
    }

    fn add_server(&mut self, name: &str, words: &[&str]) -> Result<(), String> {
        let (backend, server) = server_name(name).ok_or(NAME_A_SERVER)?;
        let proxy = self.backend(backend)?;
        if let Some(why) = refusal_of_new_servers(proxy) {
            return Err(why);
        }
        if self.server(name).is_ok() {
            return Err("Already exists a server with the same name in backend.".into());
        }
        let read = new_server(&self.options, &self.config, proxy, server, words)?;
        let backend = Arc::clone(&proxy.name);
        let new = &self.plan.set.new_servers;
        let guid = read.server.rare().guid.as_ref();
        let is_same = |other: &Server| {
            other.uid != 0 && other.uid == read.server.uid
                || guid.is_some() && other.rare().guid.as_ref() == guid
        };
        if new.iter().any(|(of, other)| *of == backend && is_same(other)) {
            return Err("Another server of this transaction has the same 'id' or 'guid'.".into());
        }
        if let Some(tls) = read.tls {
            self.config.tls = Some(Arc::clone(&tls));
            self.plan.set.tls = Some(tls);
        }
        self.plan.set.new_servers.push((backend, read.server));
        Ok(())
    }

    fn remove_server(&mut self, name: &str) -> Result<(), String> {
        let (target, proxy, server) = self.server(name)?;
        let (proxy, server) = (proxy.id, server.id);
        let is_said = |setting: &Setting| matches!(setting, Setting::Maintenance);
        let settings = self.plan.settings.iter().rev().filter(|(of, _)| *of == target);
        let said = settings
            .map(|(_, setting)| setting)
            .find(|s| matches!(s, Setting::Maintenance | Setting::Ready | Setting::Drain));
        let maintain = said.is_some_and(is_said);
        let stays_out = said.is_none_or(is_said);
        match &target {
            Target::New(backend, name) => {
                if !stays_out {
                    return Err("Only servers in maintenance mode can be deleted.".into());
                }
                self.plan.set.new_servers.retain(|(of, server)| of != backend || server.name != *name);
            }
            Target::Old(..) => {
                let live = self.instance.backends.get(proxy.0 as usize);
                let is_out = live.is_some_and(|live| live.standing(server).in_maintenance());
                if !stays_out || !(is_out || maintain) {
                    return Err("Only servers in maintenance mode can be deleted.".into());
                }
                self.plan.set.old_servers.push(OldServer { proxy, server, maintain });
                if let Some(proxy) = self.config.proxies.iter_mut().find(|other| other.id == proxy) {
                    proxy.servers.retain(|other| other.id != server);
                    proxy.reindex();
                }
            }
        }
        self.plan.settings.retain(|(of, _)| *of != target);
        Ok(())
    }

    fn add_backend(&mut self, args: &[&str]) -> Result<(), String> {
        let NewBackendWords { name, preset, mode, guid } = NewBackendWords::read(args)?;
        let mut proxy = new_backend(&self.options, &self.config, name, preset, mode, guid)?;
        // It has no number of its own yet: one that no other proxy has.
        proxy.id = ProxyId(self.config.proxies.iter().map(|other| other.id.0 + 1).max().unwrap_or(0));
        self.plan.set.new_backends.push(proxy.clone());
        self.config.proxies.push(proxy.into());
        self.config.reindex();
        Ok(())
    }

    fn remove_backend(&mut self, name: &str) -> Result<(), String> {
        let (id, name) = self.backend(name).map(|proxy| (proxy.id, Arc::clone(&proxy.name)))?;
        let gets_one = self.plan.set.new_servers.iter().any(|(of, _)| *of == name);
        let has_some = self.config.find_proxy(id).is_some_and(|proxy| !proxy.servers.is_empty());
        if gets_one || has_some {
            return Err("Only a backend without server can be deleted.".into());
        }
        let said = self.plan.published.iter().rev().find(|(of, _)| *of == name).map(|(_, on)| *on);
        let new = self.plan.set.new_backends.iter().position(|proxy| proxy.name == name);
        let live = self.instance.unpublished.get(id.0 as usize);
        let is_out = new.is_some() || live.is_some_and(|live| live.load(Ordering::SeqCst));
        if said.unwrap_or(!is_out) {
            return Err("Backend must be unpublished prior to its deletion.".into());
        }
        match new {
            Some(at) => drop(self.plan.set.new_backends.remove(at)),
            None => self.plan.set.old_backends.push(OldBackend { proxy: id, unpublish: said == Some(false) }),
        }
        self.plan.published.retain(|(of, _)| *of != name);
        self.config.proxies.retain(|proxy| proxy.id != id);
        self.config.reindex();
        Ok(())
    }

    fn publish(&mut self, name: &str, on: bool) -> Result<(), String> {
        let proxy = self.backend(name)?;
        if proxy.disabled {
            return Err("No effect on a disabled backend.".into());
        }
        let name = Arc::clone(&proxy.name);
        self.plan.published.push((name, on));
        Ok(())
    }
}
