//! What an agent's words do (manual, `agent-check`).

use thalweg_check::agent::{self, Admin, Said};
use thalweg_check::{Passed, Status, Verdict, shortened};
use thalweg_config::model::LogLevel;

use super::super::track;
use super::What;
use super::checker::Checker;
use super::converse::Heard;
use super::tell::{Before, reason, status, tell};
use crate::operator::Hand;

impl Checker {
    /// Does what an agent said. One that cannot be asked changes nothing: whether the server works is for its checks to say.
    pub(super) fn follow_agent(&self, heard: Heard, duration_ms: u64) {
        // Who was told to ask no more does not listen, either.
        if !self.backend().standing(self.server).agent_asked {
            return;
        }
        let line = String::from_utf8_lossy(&heard.answer);
        let is_answer = heard.verdict.status.passed() == Passed::Yes && !crate::plant::bug("agent-unheard");
        let said = if is_answer { agent::parse(&line) } else { Said::default() };
        // Who is ready and up is up as soon as it is ready.
        if let (Some(Admin::Ready), Some((_, true))) = (said.admin, said.state)
            && self.backend().standing(self.server).in_maintenance()
        {
            self.backend().say_agent(self.server, true);
        }
        let complaint = self.obey(&said);
        let verdict = match said.state {
            Some((_, up)) => Verdict {
                status: if up { Status::L7Ok } else { Status::L7Status },
                code: 0,
                info: shortened(said.told(complaint)),
            },
            None if is_answer => Verdict { status: Status::Checked, code: 0, info: String::new() },
            None => heard.verdict,
        };
        self.judge_by_agent(verdict, said.state.map(|(_, up)| up), duration_ms);
    }

    /// The administrative state and the limits that an agent asks for. What is wrong with one of them is told.
    fn obey(&self, said: &Said<'_>) -> Option<&'static str> {
        let hand = Hand { worker: &self.worker, proxy: self.proxy, server: self.server };
        match said.admin {
            Some(Admin::Ready) => hand.make_ready(),
            Some(Admin::Drain) => hand.start_drain(),
            Some(Admin::Maint) => hand.maintain(),
            None => {}
        }
        let weight = said.weight.and_then(|text| hand.change_weight(text).err());
        weight.or(said.maxconn.and_then(|text| hand.change_maxconn(text).err()))
    }

    fn judge_by_agent(&self, verdict: Verdict, up: Option<bool>, duration_ms: u64) {
        let Some((proxy, server)) = self.config() else { return };
        let backend = self.backend();
        let (before, was) = (Before::look(backend, self.server), backend.standing(self.server));
        if up.is_some_and(|up| !backend.say_agent(self.server, up)) {
            return;
        }
        let is_up = up.unwrap_or(was.agent_up);
        let news = backend.change_report(self.server, What::Agent, |report| {
            let is_other = report.verdict.status != verdict.status;
            report.verdict = verdict.clone();
            report.duration_ms = Some(duration_ms);
            is_other || is_up != was.agent_up
        });
        let reason = reason(&verdict, Some(duration_ms));
        if proxy.opts.log_health_checks && news == Some(true) && verdict.status != Status::Checked {
            let line = format!(
                "Agent check for {}server {}/{} {}, {reason}, status: {}.",
                if server.backup { "backup " } else { "" },
                proxy.name,
                backend.identity(server).name,
                if verdict.status.passed() == Passed::Yes { "succeeded" } else { "failed" },
                status(if is_up { "1/1 UP" } else { "0/1 DOWN" }, backend.weight(self.server)),
            );
            tell(&self.worker, self.proxy, LogLevel::Notice, &line);
        }
        // Its own lines told the reason already.
        let reason = if proxy.opts.log_health_checks { String::new() } else { format!(", {reason}") };
        before.tell_change(&self.worker, self.proxy, self.server, was.operation, &reason);
        track::follow(&self.worker, self.proxy, self.server);
    }
}
