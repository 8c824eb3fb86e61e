//! A backend whose lines became others while it is in use: what the lines say applies, and what was found out or said at run time
//! stays, unless the lines changed just that.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use thalweg_balance::{ServerIndex, ServerSpec};
use thalweg_config::model::{Proxy, Server};

use super::identity::{DynamicCookies, Identity};
use super::state::ServerState;
use super::{Backend, goes_by_load, settings, spec};

impl Backend {
    /// The lines of the section are others. Of its servers, see [`Backend::reconfigure_server`].
    pub(crate) fn reconfigure(&self, now: &Proxy) {
        self.fullconn.store(now.fullconn, Ordering::Relaxed);
        self.balancer.follow(settings(now));
        if goes_by_load(now) && now.servers.len() > 1 {
            self.start_counting();
        }
        if now.rare().zone.is_some() {
            now.servers.iter().for_each(|server| self.renumber(now, server));
        }
        *self.dynamic_cookies.lock().unwrap_or_else(PoisonError::into_inner) = DynamicCookies::of(now);
    }

    /// The servers are listed in this order.
    pub(crate) fn arrange(&self, now: &Proxy) {
        self.balancer.arrange(now.servers.iter().map(|server| ServerIndex(server.id.0)));
    }

    /// A server has another number for users, or is placed elsewhere.
    pub(crate) fn renumber(&self, proxy: &Proxy, server: &Server) {
        self.balancer.reconfigure(ServerIndex(server.id.0), &self.spec_now(proxy, server));
    }

    /// As its line has it, but for where it is.
    fn spec_now(&self, proxy: &Proxy, server: &Server) -> ServerSpec {
        ServerSpec { node_key: self.identity(server).node_key(server), ..spec(proxy, server) }
    }

    /// The line of a server is another one.
    pub(crate) fn reconfigure_server(&self, proxy: &Proxy, before: &Server, now: &Server) {
        let state = self.state(now.id);
        state.reconfigure(before, now);
        if now.follows_load() {
            self.has_minconn.store(true, Ordering::SeqCst);
        }
        if now.maxconn != 0 {
            self.start_counting();
        }
        if before.weight != now.weight {
            self.set_weight(now.id, u32::from(now.weight));
        }
        self.change_standing(now.id, |standing| standing.reconfigure(now));
        self.reconfigure_identity(proxy, before, now);
        self.renumber(proxy, now);
        self.limit_changed(now.id);
    }

    /// What an operator or a name server said of where it is stays, but for what the line says anew.
    fn reconfigure_identity(&self, proxy: &Proxy, before: &Server, now: &Server) {
        if !self.is_changed(now.id) {
            return;
        }
        let (before, new) = (Identity::of(before), Identity::of(now));
        self.change_identity(proxy, now, |identity, _| {
            macro_rules! follow {
                ($($field:ident)*) => {$(
                    if before.$field != new.$field {
                        identity.$field = new.$field.clone();
                    }
                )*};
            }
            follow!(name fqdn addr port_mode check_addr check_port agent_addr agent_port agent_send cookie);
        });
    }
}

impl ServerState {
    fn reconfigure(&self, before: &Server, now: &Server) {
        self.set_limits(now);
        if before.maxconn != now.maxconn {
            self.service.maxconn.store(now.maxconn, Ordering::SeqCst);
        }
        self.set_tracked(now.rare().track);
        self.reports.reconfigure(now);
        self.transition.reconfigure(now);
    }
}
