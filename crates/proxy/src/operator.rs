//! What an operator changed at run time about servers, frontends and backends.

use std::sync::atomic::Ordering;

use thalweg_config::model::{ProxyId, ServerId};
use thalweg_runtime::clock;

use crate::backend::Backend;
use crate::backend::health::Before;
use crate::backend::standing::Said;
use crate::backend::track;
use crate::instance::{Instance, Live};
use crate::worker::Worker;

impl Backend {
    /// Changes the limit on a server's requests, 0 for none. When it is the first of the backend, requests are counted
    /// from now on, and those that are there already are not: until they end there may be that many more.
    pub fn set_maxconn(&self, server: ServerId, maxconn: u32) {
        self.start_counting();
        self.service(server).maxconn.store(maxconn, Ordering::SeqCst);
        self.limit_changed(server);
    }
}

/// An operator's hand on a server: what it does is told to the logs of its backend.
pub struct Hand<'a> {
    /// The thread that does it.
    pub worker: &'a Worker,
    /// The backend.
    pub proxy: ProxyId,
    /// The server.
    pub server: ServerId,
}

impl Hand<'_> {
    fn backend(&self) -> &Backend {
        self.worker.backend(self.proxy)
    }

    /// Changes where the server stands; the logs hear what came of it, and servers that track it follow.
    fn change(&self, f: impl FnOnce(&Backend)) {
        let before = Before::look(self.backend(), self.server);
        let was = self.backend().standing(self.server);
        f(self.backend());
        before.tell_standing(self.worker, self.proxy, self.server, &was);
        track::follow(self.worker, self.proxy, self.server);
    }

    /// Takes the server out of service.
    pub fn maintain(&self) {
        self.backend().set_drain_end(self.server, None);
        self.change(|backend| {
            backend.maintain(self.server);
        });
    }

    /// Lets the server finish what it has, and gives it nothing new. When that ends is left as it was.
    pub fn start_drain(&self) {
        self.change(|backend| backend.start_drain(self.server));
    }

    /// Ends the server's maintenance and its drain, and that it is ejected.
    pub fn make_ready(&self) {
        self.backend().set_drain_end(self.server, None);
        self.change(|backend| backend.make_ready(self.server));
        self.backend().take_back(self.server, None);
    }

    /// Begins or ends maintenance, and leaves a drain as it is. False when it was so already.
    pub fn set_maintenance(&self, on: bool) -> bool {
        let mut is_new = false;
        self.change(|backend| is_new = backend.set_maintenance(self.server, on));
        is_new
    }

    /// Begins or ends a drain, and leaves maintenance as it is. False when it was so already.
    pub fn set_drain(&self, on: bool) -> bool {
        if !on {
            self.backend().set_drain_end(self.server, None);
        }
        let mut is_new = false;
        self.change(|backend| is_new = backend.set_drain(self.server, on));
        is_new
    }

    /// Changes the server's weight, 0 to 256.
    pub fn set_weight(&self, weight: u32) {
        let before = Before::look(self.backend(), self.server);
        self.backend().set_weight(self.server, weight);
        before.tell_if_none_left(self.worker, self.proxy);
    }

    /// Changes the server's weight as a text says: a number up to 256, or a percentage of the configured one. The error says
    /// what is wrong with it.
    pub fn change_weight(&self, text: &str) -> Result<(), &'static str> {
        let (proxy, server) = (self.worker.proxy(self.proxy), self.server);
        let initial = proxy.server(server).map_or(0, |server| u32::from(server.weight));
        self.set_weight(weight_of(text, initial, self.backend().balancer.is_static())?);
        Ok(())
    }

    /// Changes the limit on the server's requests as a text says.
    pub fn change_maxconn(&self, text: &str) -> Result<(), &'static str> {
        self.backend().set_maxconn(self.server, maxconn_of(text)?);
        Ok(())
    }

    /// Says in the place of the server's agent that it is up or down; the logs hear where that was said. False when it has no
    /// agent that is asked.
    pub fn say_agent(&self, up: bool, place: &str) -> bool {
        let before = Before::look(self.backend(), self.server);
        let was = self.backend().standing(self.server);
        if !self.backend().say_agent(self.server, up) {
            return false;
        }
        let reason = format!(", changed from {place}");
        before.tell_change(self.worker, self.proxy, self.server, was.operation, &reason);
        track::follow(self.worker, self.proxy, self.server);
        true
    }

    /// Says how healthy the server is, until its next check; the logs hear where that was said (`CLI`).
    pub fn say_health(&self, said: Said, place: &str) {
        let before = Before::look(self.backend(), self.server);
        let was = self.backend().standing(self.server);
        self.backend().say_health(self.server, said);
        before.tell_change(
            self.worker,
            self.proxy,
            self.server,
            was.operation,
            &format!(", changed from {place}"),
        );
        track::follow(self.worker, self.proxy, self.server);
    }
}

/// The weight that a text says: a number up to 256, or a percentage of the configured one. Where weights are fixed it may
/// only be that or 0.
///
/// # Errors
/// What is wrong with it.
pub fn weight_of(text: &str, initial: u32, is_static: bool) -> Result<u32, &'static str> {
    let Some((number, rest)) = leading_number(text) else {
        return Err("Empty weight string empty or preceded by garbage");
    };
    let initial = i64::from(initial);
    let weight = match rest {
        "%" if number < 0 => return Err("Relative weight must be positive."),
        "%" => (number.saturating_mul(initial) / 100).min(WEIGHT_MAX),
        "" if !(0..=WEIGHT_MAX).contains(&number) => {
            return Err("Absolute weight can only be between 0 and 256 inclusive.");
        }
        "" => number,
        _ => return Err("Trailing garbage in weight string"),
    };
    if is_static && weight != 0 && weight != initial {
        return Err("Backend is using a static LB algorithm and only accepts weights '0%' and '100%'.");
    }
    Ok(u32::try_from(weight).unwrap_or(0))
}

/// The limit on requests that a text says.
///
/// # Errors
/// What is wrong with it.
pub fn maxconn_of(text: &str) -> Result<u32, &'static str> {
    match leading_number(text) {
        Some((number, "")) => u32::try_from(number).map_err(|_| "Value out of range."),
        Some(_) => Err("Trailing garbage in maxconn string"),
        None => Err("maxconn string empty or preceded by garbage"),
    }
}

/// The highest weight.
const WEIGHT_MAX: i64 = 256;

/// The number at the front of a text, the nearest that fits, and what follows it.
fn leading_number(text: &str) -> Option<(i64, &str)> {
    let sign = usize::from(text.starts_with(['-', '+']));
    let digits = text.bytes().skip(sign).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(sign + digits);
    let most = if number.starts_with('-') { i64::MIN } else { i64::MAX };
    (digits > 0).then(|| (number.parse().unwrap_or(most), rest))
}

impl Instance {
    /// Whether switching rules may choose a backend.
    #[inline]
    pub fn is_eligible(&self, id: ProxyId) -> bool {
        !self.config.proxy(id).disabled && !self.unpublished[id.0 as usize].load(Ordering::Relaxed)
    }
}

impl Live {
    /// Whether an operator stopped a frontend for a while.
    pub fn is_paused(&self, id: ProxyId) -> bool {
        self.frontend_paused[id.0 as usize].load(Ordering::Relaxed)
    }

    /// Whether an operator shut a frontend down.
    pub fn is_shut(&self, id: ProxyId) -> bool {
        self.frontend_shut[id.0 as usize].load(Ordering::Relaxed)
    }

    /// Shuts a frontend down, once those who accept for it are woken; false when it was already.
    pub fn shut_down(&self, id: ProxyId) -> bool {
        !self.frontend_shut[id.0 as usize].swap(true, Ordering::SeqCst)
    }

    /// Seconds since the start.
    pub fn uptime_s(&self) -> u64 {
        clock::wall_us().saturating_sub(self.start_wall_us) / 1_000_000
    }
}
