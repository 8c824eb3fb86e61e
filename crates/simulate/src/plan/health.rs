//! Checks of other protocols than HTTP, and agents: what the proxy asks at ports of their own, and what is answered when.

use std::fmt::Write;
use std::net::SocketAddr;

use super::{Drop, Life, ProxyPlan, ServerPlan, Trouble};
use crate::random::Random;

/// How long nothing is known of a server before its first check and after a reload, in milliseconds.
pub const BEGIN_MS: u64 = 1_500;

/// What the checks of the servers of a backend are like, and what their agents say. A server has both, one of them, or neither.
#[derive(Clone, Debug, Default)]
pub struct HealthPlan {
    /// By the position of the server.
    checks: Vec<Option<CheckPlan>>,
    agents: Vec<Option<AgentPlan>>,
}

/// The checks of a server.
#[derive(Clone, Copy, Debug)]
pub struct CheckPlan {
    pub at: SocketAddr,
    pub speaks: Speaks,
    /// Verdicts that it takes to be up or down, and the milliseconds between two checks.
    pub rise: u64,
    pub fall: u64,
    pub inter_ms: u64,
}

/// What a check speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// The lines of [`SCRIPT`].
    Script,
    Redis,
    Smtp,
    SslHello,
    Pgsql,
    Ldap,
}

/// The agent of a server.
#[derive(Clone, Debug)]
pub struct AgentPlan {
    pub at: SocketAddr,
    pub inter_ms: u64,
    /// From when on it says what, in milliseconds, in order. Before, all is well, and it says so.
    pub words: Vec<(u64, &'static str)>,
}

/// Two questions and answers over one connection, and another connection.
const SCRIPT: [&str; 8] = [
    "option tcp-check",
    "tcp-check connect",
    "tcp-check send first\\r\\n",
    "tcp-check expect rstring ^[a-z]+-first",
    "tcp-check send-binary 7365636f6e640d0a",
    "tcp-check expect binary 6f6b2d7365636f6e64",
    "tcp-check connect",
    "tcp-check send third\\r\\n",
];

/// What an agent asks for whose server is as it should be.
const FINE: &str = "ready up 100%";

impl Speaks {
    fn lines(self) -> Vec<&'static str> {
        match self {
            Speaks::Script => [&SCRIPT[..], &["tcp-check expect string ok-third"]].concat(),
            Speaks::Redis => vec!["option redis-check"],
            Speaks::Smtp => vec!["option smtpchk EHLO proxy.example"],
            Speaks::SslHello => vec!["option ssl-hello-chk"],
            Speaks::Pgsql => vec!["option pgsql-check user check"],
            Speaks::Ldap => vec!["option ldap-check"],
        }
    }
}

impl HealthPlan {
    /// Adds them to a configuration.
    pub fn draw(random: &mut Random, trouble: &Trouble, proxy: &mut ProxyPlan) -> HealthPlan {
        let servers = proxy.server_count();
        let mut plan = HealthPlan { checks: vec![None; servers], agents: vec![None; servers] };
        let kinds =
            [Speaks::Script, Speaks::Redis, Speaks::Smtp, Speaks::SslHello, Speaks::Pgsql, Speaks::Ldap];
        for backend in 0..proxy.backends.len() {
            if !proxy.backends[backend].checks && random.chance(70) {
                proxy.backends[backend].checks = true;
                let speaks = *random.pick(&kinds);
                let lines: String = speaks.lines().iter().map(|line| format!(" {line}\n")).collect();
                proxy.add_to_backend(backend, &lines);
                plan.add_checks(random, speaks, proxy, backend);
            }
            if random.chance(40) {
                plan.add_agents(random, trouble, proxy, backend);
            }
        }
        plan
    }

    fn add_checks(&mut self, random: &mut Random, speaks: Speaks, proxy: &mut ProxyPlan, backend: usize) {
        let (from, to) = proxy.backends[backend].servers;
        for n in from..to {
            let at = SocketAddr::new(proxy.address_of(n).ip(), 82);
            // Some of them need four packets each way, of 20 ms each.
            let (inter_ms, fall, rise) = (random.within(300, 700), random.within(1, 3), random.within(1, 2));
            let words = format!(" check addr {} port 82 inter {inter_ms}ms fall {fall} rise {rise}", at.ip());
            add_to_server(&mut proxy.text, n, &words);
            self.checks[n] = Some(CheckPlan { at, speaks, rise, fall, inter_ms });
        }
    }

    fn add_agents(&mut self, random: &mut Random, trouble: &Trouble, proxy: &mut ProxyPlan, backend: usize) {
        let (from, to) = proxy.backends[backend].servers;
        for n in from..to {
            let at = SocketAddr::new(proxy.address_of(n).ip(), 81);
            let inter_ms = random.within(200, 1_000);
            let mut words = Vec::new();
            let mut at_ms = random.below(500);
            for _ in 0..random.below(4) {
                // What takes a server out of service is no calm; of a weight of 1, half is nothing.
                let word = match trouble.calm {
                    true => *random.pick(&["200%", "up", "300% ready", "up 150% #why"]),
                    false => *random.pick(&[
                        "down",
                        "stopped #for a while",
                        "fail 50%",
                        "drain",
                        "maint",
                        "down maint",
                        "0%",
                        "maxconn:1",
                        "no word that is known",
                        "",
                    ]),
                };
                words.push((at_ms, word));
                at_ms += random.within(300, 3_000);
            }
            words.push((at_ms, FINE));
            let words_of_line =
                format!(" agent-check agent-addr {} agent-port 81 agent-inter {inter_ms}ms", at.ip());
            add_to_server(&mut proxy.text, n, &words_of_line);
            self.agents[n] = Some(AgentPlan { at, inter_ms, words });
        }
    }
}

/// Adds words to a server's line.
fn add_to_server(text: &mut String, n: usize, words: &str) {
    let begins = format!(" server s{n} ");
    let mut lines = String::new();
    for line in text.lines() {
        let added = if line.starts_with(&begins) { words } else { "" };
        _ = writeln!(lines, "{line}{added}");
    }
    *text = lines;
}

impl HealthPlan {
    /// Makes servers fail their checks for long enough that the proxy must find out.
    pub fn fall_ill(&self, random: &mut Random, servers: &mut [ServerPlan]) {
        for (server, check) in servers.iter_mut().zip(&self.checks) {
            if let Some(check) = check.filter(|_| random.chance(50)) {
                let at_ms = random.within(BEGIN_MS, 3_000);
                let ill = *random.pick(&[Life::Sick, Life::Deaf, Life::Down(Drop::Close)]);
                server.lives =
                    vec![(at_ms, ill), (at_ms + check.delay_ms() + random.within(10, 500), Life::Up)];
            }
        }
    }

    /// The checks of a server that have a port of their own.
    pub fn check(&self, server: usize) -> Option<CheckPlan> {
        *self.checks.get(server)?
    }

    /// The agent of a server.
    pub fn agent(&self, server: usize) -> Option<&AgentPlan> {
        self.agents.get(server)?.as_ref()
    }
}

impl CheckPlan {
    /// How long it takes at most until what a server has become is known, in milliseconds: the check in progress, one interval or
    /// timeout for each verdict, and a little for packets.
    pub fn delay_ms(&self) -> u64 {
        (self.rise.max(self.fall) + 2) * self.inter_ms + 500
    }
}

impl AgentPlan {
    /// What it says at a time.
    pub fn word(&self, at_ms: u64) -> &'static str {
        let said = self.words.iter().rev().find(|(from_ms, _)| *from_ms <= at_ms);
        said.map_or(FINE, |(_, word)| word)
    }

    /// How long it takes at most until what it says is heard, in milliseconds.
    pub fn delay_ms(&self) -> u64 {
        2 * self.inter_ms + 500
    }
}
