//! Where a server stands: what its checks, the configuration and an operator made of it, and every way to change that
//! (management manual, section 9.3: `set server`, `enable server`, `disable health`; `show servers state`).
//!
//! ```text
//!                  ready, drain                  verdicts, health up
//!   maintenance ----------------> running  <----------------------------  stopped
//!        ^                           |  |   ---------------------------->
//!        |           maintenance     |  |  health stopping, 404 of a check (disable-on-404)
//!        +---------------------------+  +---> stopping
//! ```
//!
//! Drain is independent of that: a drained server is up and gets no new sessions.

use std::sync::PoisonError;

use thalweg_balance::ServerIndex;
use thalweg_check::{Health, Initial, Passed};
use thalweg_config::model::{Server, ServerId};
use thalweg_runtime::clock;

use super::{Backend, health};
use crate::worker;

/// `srv_op_state` of `show servers state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It gets nothing.
    Stopped = 0,
    /// It gets what it should.
    Running = 2,
    /// It serves what it has (`NOLB`).
    Stopping = 3,
}

/// What an operator says about the health of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// `health up`.
    Up,
    /// `health stopping`.
    Stopping,
    /// `health down`.
    Down,
}

/// What a verdict did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The health is not what it was.
    pub moved: bool,
    /// What the server did before.
    pub before: Operation,
    /// What it does now.
    pub after: Operation,
}

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether it is up.
    pub operation: Operation,
    /// An operator or `disabled` took it out of service.
    pub maintenance: bool,
    /// An operator lets it finish what it has.
    pub drain: bool,
    /// The server that it tracks is out of service.
    pub inherits_maintenance: bool,
    /// The server that it tracks finishes what it has.
    pub inherits_drain: bool,
    /// What its checks say, or an operator in their place.
    pub health: Health,
    /// It has checks, and they were not disabled.
    pub checked: bool,
    /// The checks stand still because of maintenance.
    pub paused: bool,
    /// It has an agent, which was not disabled.
    pub agent_asked: bool,
    /// The last word of the agent about it was not that it is down.
    pub agent_up: bool,
    /// It has an agent, asked or not.
    has_agent: bool,
    /// The configuration says `disabled`.
    disabled: bool,
    /// It has checks, enabled or not.
    has_checks: bool,
    /// It has no address to connect to: its name is not resolved.
    pub unresolved: bool,
    /// The health of a server that comes out of maintenance.
    initial: Health,
}

/// Changes of a server's standing that are remembered.
pub const PAST_MAX: usize = 16;

/// Where a server stood, and until when.
#[derive(Clone, Copy, Debug)]
pub struct Past {
    /// Millisecond of the clock at which that ended.
    pub until_ms: u64,
    /// How it stood just before.
    pub standing: Standing,
}

impl Standing {
    /// Of no server: it is down, and stays so.
    pub(super) fn none() -> Standing {
        let health = Health::new(1, 1, Initial::FullyDown);
        Standing {
            operation: Operation::Stopped,
            maintenance: true,
            drain: false,
            inherits_maintenance: false,
            inherits_drain: false,
            health,
            checked: false,
            paused: true,
            disabled: true,
            has_checks: false,
            unresolved: false,
            agent_asked: false,
            agent_up: true,
            has_agent: false,
            initial: health,
        }
    }

    /// At the start.
    pub(super) fn new(server: &Server) -> Standing {
        let initial = match &server.check {
            Some(check) => health::initial_health(server, check),
            None => Health::new(server.rise, server.fall, Initial::Up),
        };
        let has_checks = server.check.is_some();
        let has_agent = server.rare().agent.as_ref().is_some_and(|agent| agent.asked);
        let mut standing = Standing {
            operation: Operation::Stopped,
            maintenance: server.disabled,
            drain: false,
            inherits_maintenance: false,
            inherits_drain: false,
            health: initial,
            // One that was added is asked once an operator says so.
            checked: has_checks && !server.is_dynamic,
            paused: server.disabled && !server.is_dynamic,
            agent_asked: has_agent && !server.is_dynamic,
            agent_up: true,
            has_agent,
            disabled: server.disabled && !server.is_dynamic,
            has_checks,
            unresolved: matches!(server.addr, thalweg_config::model::ServerAddr::Unresolved(..)),
            initial,
        };
        if server.disabled {
            standing.health.set_bottom();
        } else {
            standing.serve();
        }
        standing
    }

    /// Whether its line says `disabled`.
    pub(super) fn starts_disabled(&self) -> bool {
        self.disabled
    }

    /// The line of the server is another one. What checks and operators said stays as far as it is still asked for.
    pub(super) fn reconfigure(&mut self, server: &Server) {
        let fresh = Standing::new(server);
        let (had_checks, had_agent, was_disabled) = (self.has_checks, self.has_agent, self.disabled);
        self.initial = fresh.initial;
        (self.has_checks, self.has_agent) = (fresh.has_checks, fresh.has_agent);
        // One that operators added is in no file, and its line does not change.
        self.disabled = server.disabled && !server.is_dynamic;
        if had_checks != fresh.has_checks {
            (self.checked, self.paused) = (fresh.has_checks, self.in_maintenance() && fresh.has_checks);
            self.health = fresh.initial;
        } else if (self.health.rise(), self.health.fall()) != (fresh.initial.rise(), fresh.initial.fall()) {
            let value = if self.health.is_up() { Initial::FullyUp } else { Initial::FullyDown };
            self.health = Health::new(fresh.initial.rise(), fresh.initial.fall(), value);
        }
        if had_agent != fresh.has_agent {
            (self.agent_asked, self.agent_up) = (fresh.has_agent, true);
        }
        match (was_disabled, self.disabled) {
            (false, true) => {
                self.maintain();
            }
            (true, false) => self.make_ready(),
            _ if had_checks != fresh.has_checks && !self.in_maintenance() => self.serve(),
            _ => {}
        }
    }

    /// Whether requests may go to it at all.
    pub fn is_up(&self) -> bool {
        self.operation != Operation::Stopped
    }

    /// Whether it is out of service: by a word about it or about the server that it tracks, or for lack of an address.
    pub fn in_maintenance(&self) -> bool {
        self.maintenance || self.inherits_maintenance || self.unresolved
    }

    /// Whether it finishes what it has, by a word about it or about the server that it tracks.
    pub fn is_draining(&self) -> bool {
        self.drain || self.inherits_drain
    }

    /// Whether it gets no new sessions though it is up.
    pub fn is_closing(&self) -> bool {
        self.is_draining() || self.operation == Operation::Stopping
    }

    /// Whether a check may start, and its verdict counts.
    pub fn takes_verdicts(&self) -> bool {
        self.checked && !self.paused && !self.in_maintenance()
    }

    /// `srv_admin_state`: forced maintenance 1, inherited 2, `disabled` in the configuration 4, drain 8, inherited 16, no
    /// address 32.
    pub fn admin_bits(&self) -> u32 {
        u32::from(self.maintenance)
            | u32::from(self.inherits_maintenance) << 1
            | u32::from(self.disabled) << 2
            | u32::from(self.drain) << 3
            | u32::from(self.inherits_drain) << 4
            | u32::from(self.unresolved) << 5
    }

    /// `srv_check_state`, but for 1, a check in progress: it has checks 2, they are enabled 4, they are paused 8.
    pub fn check_bits(&self) -> u32 {
        u32::from(self.has_checks) << 1 | u32::from(self.checked) << 2 | u32::from(self.paused) << 3
    }

    /// `srv_agent_state`, but for 1, a question in progress: it has an agent 2, that is asked 4; 16 says that this is an agent.
    pub fn agent_bits(&self) -> u32 {
        if self.has_agent { 18 | u32::from(self.agent_asked) << 2 } else { 0 }
    }

    /// Whether its agent keeps it down.
    pub fn is_down_by_agent(&self) -> bool {
        self.agent_asked && !self.agent_up
    }

    /// As it is when nothing keeps it from its work.
    fn serve(&mut self) {
        if self.checked {
            self.paused = false;
            self.health = self.initial;
        }
        let up = !self.unresolved && (!self.checked || self.health.is_up()) && !self.is_down_by_agent();
        self.operation = if up { Operation::Running } else { Operation::Stopped };
    }

    /// The server that it tracks stands so.
    pub(super) fn follow(&mut self, tracked: &Standing) {
        self.inherits_maintenance = tracked.in_maintenance();
        self.inherits_drain = tracked.is_draining();
        if self.in_maintenance() {
            self.lose_health();
            self.operation = Operation::Stopped;
        } else if !self.unresolved {
            self.operation = tracked.operation;
        }
    }

    /// It enters maintenance. One that was down with the server that it tracks keeps the health that it never used.
    fn lose_health(&mut self) {
        if self.is_up() || self.checked {
            self.health.set_bottom();
        }
    }

    /// `state maint`, `disable server`. False when it was so already.
    pub(super) fn maintain(&mut self) -> bool {
        if self.maintenance {
            return false;
        }
        self.maintenance = true;
        self.drain = false;
        self.lose_health();
        self.operation = Operation::Stopped;
        self.paused |= self.checked;
        true
    }

    /// Its name has no address any more. False when it had none.
    fn lose_address(&mut self) -> bool {
        if std::mem::replace(&mut self.unresolved, true) {
            return false;
        }
        self.lose_health();
        self.operation = Operation::Stopped;
        self.paused |= self.checked;
        true
    }

    /// Its name has an address again. False when it had one.
    fn find_address(&mut self) -> bool {
        let is_new = std::mem::take(&mut self.unresolved);
        if is_new && !self.in_maintenance() {
            self.serve();
        }
        is_new
    }

    /// `state drain`.
    fn start_drain(&mut self) {
        self.drain = true;
        if std::mem::take(&mut self.maintenance) {
            self.serve();
        }
    }

    /// `state ready`, `enable server`.
    pub(super) fn make_ready(&mut self) {
        self.drain = false;
        if std::mem::take(&mut self.maintenance) {
            self.serve();
        }
    }

    /// `disable` and `enable` of the page: maintenance begins or ends, and a drain goes on. False when it was so already.
    fn set_maintenance(&mut self, on: bool) -> bool {
        if self.maintenance == on {
            return false;
        }
        let drain = self.drain;
        if on {
            self.maintain();
        } else {
            self.maintenance = false;
            self.serve();
        }
        self.drain = drain;
        true
    }

    /// `stop` and `start` of the page: a drain begins or ends, and maintenance goes on. False when it was so already.
    fn set_drain(&mut self, on: bool) -> bool {
        std::mem::replace(&mut self.drain, on) != on
    }

    /// `health up|stopping|down`. In maintenance only the health is noted.
    fn say_health(&mut self, said: Said) {
        match said {
            Said::Down => self.health.set_bottom(),
            Said::Up | Said::Stopping => self.health.set_top(),
        }
        if !self.maintenance && !self.unresolved {
            self.operation = match said {
                Said::Down => Operation::Stopped,
                Said::Up => Operation::Running,
                Said::Stopping => Operation::Stopping,
            };
        }
    }

    /// `enable health`, `disable health`. False when it has none to enable.
    pub(super) fn enable_checks(&mut self, on: bool) -> bool {
        self.checked = on && self.has_checks;
        if self.checked && !self.maintenance {
            self.paused = false;
        }
        self.has_checks || !on
    }

    /// Its agent, or somebody in its place, says that it is up or down. In maintenance that is only noted.
    fn say_agent(&mut self, up: bool) {
        self.agent_up = up;
        if self.in_maintenance() || self.unresolved {
            return;
        }
        match up {
            false => self.operation = Operation::Stopped,
            true if self.operation == Operation::Stopped && (!self.checked || self.health.is_up()) => {
                self.operation = Operation::Running;
            }
            true => {}
        }
    }

    /// `enable agent`, `disable agent`. False when it has none to enable.
    pub(super) fn enable_agent(&mut self, on: bool) -> bool {
        self.agent_asked = on && self.has_agent;
        self.has_agent || !on
    }

    /// A check ended. `None` when nobody asks its verdict any more.
    fn judge(&mut self, passed: Passed, failures_left: Option<u32>) -> Option<Judged> {
        if !self.takes_verdicts() {
            return None;
        }
        if let Some(left) = failures_left {
            self.health.weaken(left);
        }
        let before = self.operation;
        let moved = match passed {
            Passed::No => self.health.fail(),
            Passed::Yes | Passed::Conditionally => self.health.pass(),
        }
        .moved;
        // An operator may have said that it is up before its checks did: only a failure takes that back.
        let up = self.health.is_up() || (passed != Passed::No && self.is_up());
        self.operation = match passed {
            _ if !up => Operation::Stopped,
            // Two must agree before it comes back.
            _ if before == Operation::Stopped && self.is_down_by_agent() => Operation::Stopped,
            Passed::Conditionally if before != Operation::Stopped || self.health.is_up() => {
                Operation::Stopping
            }
            _ => Operation::Running,
        };
        Some(Judged { moved, before, after: self.operation })
    }
}

impl Backend {
    /// Where a server stands.
    pub fn standing(&self, server: ServerId) -> Standing {
        *self.servers.at(server.0 as usize).standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server that this one tracks may stand elsewhere than before.
    pub(super) fn follow_tracked(&self, server: ServerId) {
        let was = self.standing(server);
        self.change(server, |_| ());
        if !was.in_maintenance() && self.standing(server).in_maintenance() {
            self.drop_idle_connections(server);
        }
    }

    /// The same for one that may track another one or not.
    pub(crate) fn follow_if_tracking(&self, server: &Server) {
        if server.rare().track.is_some() {
            self.follow_tracked(server.id);
        }
    }

    /// The same before there are threads.
    pub(crate) fn follow_at_start(&self, server: ServerId, tracked: &Standing) {
        self.change(server, |standing| standing.follow(tracked));
    }

    /// The same for what its line says of it.
    pub(super) fn change_standing(&self, server: ServerId, f: impl FnOnce(&mut Standing)) {
        self.change(server, f);
    }

    /// Changes where a server stands, and makes traffic follow. The lock is held meanwhile, so that the last change is
    /// the one that traffic sees.
    fn change<R>(&self, server: ServerId, f: impl FnOnce(&mut Standing) -> R) -> R {
        let state = self.servers.at(server.0 as usize);
        let mut standing = state.standing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *standing;
        let result = f(&mut standing);
        // Looked at under the lock, so that the last one to look sees how things stand. Chains have an end.
        if let Some((proxy, tracked)) = state.tracked()
            && let Some(worker) = worker::current()
        {
            standing.follow(&worker.backend(proxy).standing(tracked));
        }
        // Who comes up drained gets nothing in between.
        if standing.is_closing() {
            self.set_closing(server, true);
            self.set_up(server, standing.is_up());
        } else {
            self.set_up(server, standing.is_up());
            self.set_closing(server, false);
        }
        let kind = |standing: &Standing| (standing.operation, standing.maintenance, standing.drain);
        if kind(&before) != kind(&standing) {
            let mut past = state.past.lock().unwrap_or_else(PoisonError::into_inner);
            if past.len() == PAST_MAX {
                past.pop_front();
            }
            past.push_back(Past { until_ms: clock::now_ms(), standing: before });
        }
        result
    }

    /// Where a server stood before, the oldest first, at most [`PAST_MAX`] changes of it.
    pub fn past(&self, server: ServerId) -> Vec<Past> {
        let past = self.servers.at(server.0 as usize).past.lock();
        past.unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    /// Gives a server a standing before there is traffic; what it was before is nobody's past.
    pub(super) fn restore_standing(&self, server: ServerId, f: impl FnOnce(&mut Standing)) {
        self.change(server, f);
        let state = self.servers.at(server.0 as usize);
        state.past.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Takes a server out of service, and closes the idle connections to it: whoever works on it finds it unused. False
    /// when it was out of service already.
    pub fn maintain(&self, server: ServerId) -> bool {
        let is_new = self.change(server, Standing::maintain);
        if is_new {
            self.drop_idle_connections(server);
        }
        is_new
    }

    /// Takes a server out of service because its name has no address. False when it had none before.
    pub(super) fn lose_address(&self, server: ServerId) -> bool {
        let is_new = self.change(server, Standing::lose_address);
        if is_new {
            self.drop_idle_connections(server);
        }
        is_new
    }

    /// Ends that. False when it had an address before.
    pub(super) fn find_address(&self, server: ServerId) -> bool {
        self.change(server, Standing::find_address)
    }

    /// Ends a server's maintenance, lets it finish what it has and gives it nothing new.
    pub fn start_drain(&self, server: ServerId) {
        self.change(server, Standing::start_drain);
    }

    /// Ends a server's maintenance and drain.
    pub fn make_ready(&self, server: ServerId) {
        self.change(server, Standing::make_ready);
    }

    /// Takes a server out of service, or back; whether it drains is left as it was. False when it was so already.
    pub fn set_maintenance(&self, server: ServerId, on: bool) -> bool {
        let is_new = self.change(server, |standing| standing.set_maintenance(on));
        if is_new && on {
            self.drop_idle_connections(server);
        }
        is_new
    }

    /// Lets a server finish what it has, or gives it new requests again; maintenance is left as it was. False when it was so
    /// already.
    pub fn set_drain(&self, server: ServerId, on: bool) -> bool {
        self.change(server, |standing| standing.set_drain(on))
    }

    /// Says how healthy a server is, until its next check.
    pub fn say_health(&self, server: ServerId, said: Said) {
        self.change(server, |standing| standing.say_health(said));
    }

    /// Lets the checks of a server go on, or stops them. False when it has none to enable.
    pub fn enable_checks(&self, server: ServerId, on: bool) -> bool {
        self.change(server, |standing| standing.enable_checks(on))
    }

    /// The agent of a server, or somebody in its place, says that it is up or down. False when nobody asks agents of it.
    pub fn say_agent(&self, server: ServerId, up: bool) -> bool {
        self.change(server, |standing| {
            if standing.agent_asked {
                standing.say_agent(up);
            }
            standing.agent_asked
        })
    }

    /// Lets the agent of a server be asked, or not. False when it has none to enable.
    pub fn enable_agent(&self, server: ServerId, on: bool) -> bool {
        self.change(server, |standing| standing.enable_agent(on))
    }

    /// A check of a server ended. `None` when its verdict does not count any more.
    /// With `failures_left` it counts as if only so many failed ones, this one included, were left to it.
    pub(super) fn judge(
        &self,
        server: ServerId,
        passed: Passed,
        failures_left: Option<u32>,
    ) -> Option<Judged> {
        self.change(server, |standing| standing.judge(passed, failures_left))
    }

    /// Lets a server finish what it has, or gives it new requests again.
    fn set_closing(&self, server: ServerId, closing: bool) {
        use std::sync::atomic::Ordering;
        let index = ServerIndex(server.0);
        if self.servers.at(server.0 as usize).closing.swap(closing, Ordering::SeqCst) == closing {
            return;
        }
        self.balancer.set_drain(index, closing);
        self.count_usable();
        if !closing {
            self.serve_queue(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with checks (`rise 2 fall 3`), up and healthy.
    fn checked() -> Standing {
        let mut standing = unchecked();
        standing.has_checks = true;
        standing.checked = true;
        standing.initial = Health::new(2, 3, Initial::Up);
        standing.health.set_top();
        standing
    }

    fn unchecked() -> Standing {
        let health = Health::new(2, 3, Initial::FullyDown);
        Standing {
            operation: Operation::Running,
            maintenance: false,
            drain: false,
            inherits_maintenance: false,
            inherits_drain: false,
            health,
            checked: false,
            paused: false,
            agent_asked: false,
            agent_up: true,
            has_agent: false,
            disabled: false,
            has_checks: false,
            unresolved: false,
            initial: health,
        }
    }

    /// Operation, bits of the administrative state, health and bits of the check after some steps.
    fn after(mut standing: Standing, steps: &str) -> (Operation, u32, u32, u32) {
        for step in steps.split(' ') {
            match step {
                "maint" => drop(standing.maintain()),
                "drain" => standing.start_drain(),
                "ready" => standing.make_ready(),
                "up" => standing.say_health(Said::Up),
                "down" => standing.say_health(Said::Down),
                "stopping" => standing.say_health(Said::Stopping),
                "nochecks" => drop(standing.enable_checks(false)),
                "checks" => drop(standing.enable_checks(true)),
                "+" => drop(standing.judge(Passed::Yes, None)),
                "~" => drop(standing.judge(Passed::Conditionally, None)),
                "-" => drop(standing.judge(Passed::No, None)),
                "agent-up" => standing.say_agent(true),
                "agent-down" => standing.say_agent(false),
                "noagent" => drop(standing.enable_agent(false)),
                "agent" => drop(standing.enable_agent(true)),
                _ => {}
            }
        }
        (standing.operation, standing.admin_bits(), standing.health.value(), standing.check_bits())
    }

    #[test]
    fn commands_move_a_server() {
        use Operation::{Running, Stopped, Stopping};
        for (steps, expected) in [
            ("", (Running, 0, 0, 0)),
            ("down", (Stopped, 0, 0, 0)),
            ("down maint ready", (Running, 0, 0, 0)),
            ("down drain", (Stopped, 8, 0, 0)),
            ("drain up", (Running, 8, 4, 0)),
            ("drain maint", (Stopped, 1, 0, 0)),
            ("maint drain", (Running, 8, 0, 0)),
            ("drain maint ready", (Running, 0, 0, 0)),
            ("stopping drain", (Stopping, 8, 4, 0)),
            ("stopping ready", (Stopping, 0, 4, 0)),
            ("maint up", (Stopped, 1, 4, 0)),
        ] {
            assert_eq!(after(unchecked(), steps), expected, "without checks: {steps}");
        }
        for (steps, expected) in [
            ("", (Running, 0, 4, 6)),
            ("-", (Running, 0, 3, 6)),
            ("- - -", (Stopped, 0, 0, 6)),
            ("down + +", (Running, 0, 4, 6)),
            ("~", (Stopping, 0, 4, 6)),
            ("~ +", (Running, 0, 4, 6)),
            ("stopping +", (Running, 0, 4, 6)),
            ("maint", (Stopped, 1, 0, 14)),
            ("maint + +", (Stopped, 1, 0, 14)),
            ("maint ready", (Running, 0, 2, 6)),
            ("maint ready -", (Stopped, 0, 0, 6)),
            ("maint nochecks ready", (Running, 0, 0, 10)),
            ("maint nochecks ready checks", (Running, 0, 0, 6)),
            ("maint nochecks ready checks +", (Running, 0, 1, 6)),
            ("nochecks - - -", (Running, 0, 4, 2)),
            ("nochecks down", (Stopped, 0, 0, 2)),
        ] {
            assert_eq!(after(checked(), steps), expected, "with checks: {steps}");
        }
    }

    #[test]
    fn agents_and_checks_must_agree() {
        use Operation::{Running, Stopped, Stopping};
        let with_agent = |standing| Standing { has_agent: true, agent_asked: true, ..standing };
        for (steps, expected) in [
            ("agent-down", (Stopped, 0, 4, 6)),
            ("agent-down + +", (Stopped, 0, 4, 6)),
            ("agent-down agent-up", (Running, 0, 4, 6)),
            ("- - - agent-down + +", (Stopped, 0, 4, 6)),
            ("- - - agent-up", (Stopped, 0, 0, 6)),
            ("- - - agent-down + + agent-up", (Running, 0, 4, 6)),
            ("agent-down noagent +", (Running, 0, 4, 6)),
            ("agent-down noagent + agent", (Running, 0, 4, 6)),
            ("maint agent-down ready", (Stopped, 0, 2, 6)),
            ("maint agent-down ready +", (Stopped, 0, 4, 6)),
            ("maint agent-up", (Stopped, 1, 0, 14)),
            ("~ agent-up", (Stopping, 0, 4, 6)),
        ] {
            assert_eq!(after(with_agent(checked()), steps), expected, "with checks: {steps}");
        }
        for (steps, expected) in [
            ("agent-down", (Stopped, 0, 0, 0)),
            ("agent-down agent-up", (Running, 0, 0, 0)),
            ("agent-down maint ready", (Stopped, 0, 0, 0)),
            ("agent-down drain agent-up", (Running, 8, 0, 0)),
        ] {
            assert_eq!(after(with_agent(unchecked()), steps), expected, "without checks: {steps}");
        }
    }

    #[test]
    fn who_has_no_address_does_not_come_up() {
        let unresolved = Standing { unresolved: true, operation: Operation::Stopped, ..unchecked() };
        assert_eq!(after(unresolved, "up ready maint ready up"), (Operation::Stopped, 32, 4, 0));
    }
}
