//! What becomes of the configuration while a scenario runs: reloads, and servers that come and go.
//!
//! Each configuration says its number wherever a request and its answer pass, so that two of them in one are seen.

use std::fmt::Write;

use super::ProxyPlan;
use crate::random::Random;

/// The field of the frontend's number in requests and answers, and that of the backend.
pub const OF_FRONTEND: &str = "x-generation";
/// See [`OF_FRONTEND`].
pub const OF_BACKEND: &str = "x-backend-generation";

/// A server in a configuration: which of its lines it has, or none when it is not there.
type Version = Option<u32>;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct ChangePlan {
    /// The first configuration, without numbers.
    base: String,
    /// When each configuration but the first comes, in milliseconds.
    pub reloads_ms: Vec<u64>,
    /// By configuration and position of the server.
    servers: Vec<Vec<Version>>,
    /// Servers that are added at run time.
    pub guests: Vec<Guest>,
}

/// A server that is added at run time. Its position is behind those of the file.
#[derive(Clone, Copy, Debug)]
pub struct Guest {
    /// The position of a server of its backend.
    pub beside: usize,
    pub comes_ms: u64,
    /// How long it stays, if it does not stay for good, in milliseconds.
    pub stays_ms: Option<u64>,
}

impl ChangePlan {
    /// Changes of a configuration, which is numbered from here on.
    pub fn draw(random: &mut Random, proxy: &mut ProxyPlan) -> ChangePlan {
        let reloads = random.within(1, 8) as usize;
        let mut servers: Vec<Vec<Version>> = vec![vec![Some(0); proxy.server_count()]];
        for _ in 0..reloads {
            let next = servers[servers.len() - 1].iter().enumerate();
            // Of each backend, the first one is always there: rules may name it.
            let is_first = |n| proxy.backends.iter().any(|backend| backend.servers.0 == n);
            let next = next.map(|(n, version)| match version {
                Some(version) if random.chance(30) => Some(version + 1),
                Some(_) if !is_first(n) && random.chance(30) => None,
                None if random.chance(50) => Some(0),
                version => *version,
            });
            servers.push(next.collect());
        }
        let mut reloads_ms: Vec<u64> = (0..reloads).map(|_| random.below(2_500)).collect();
        reloads_ms.sort_unstable();
        let guests = (0..random.below(4)).map(|_| Guest {
            beside: random.below(proxy.server_count() as u64) as usize,
            comes_ms: random.below(2_000),
            stays_ms: random.chance(70).then(|| random.below(1_000)),
        });
        let plan = ChangePlan { base: proxy.text.clone(), reloads_ms, servers, guests: guests.collect() };
        proxy.text = plan.text(0);
        plan
    }

    /// When the last of them is over, in milliseconds, if nothing holds it up.
    pub fn end_ms(&self) -> u64 {
        let guests = self.guests.iter().map(|guest| guest.comes_ms + guest.stays_ms.unwrap_or(0));
        guests.chain(self.reloads_ms.iter().copied()).max().unwrap_or(0)
    }

    /// A configuration by its number, from 0.
    pub fn text(&self, generation: usize) -> String {
        let mut text = String::new();
        for line in self.base.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words[..] {
                ["server", name, ..] => match self.version(generation, name) {
                    Some(0) => _ = writeln!(text, "{line}"),
                    Some(version) => _ = writeln!(text, "{line} pool-low-conn {version}"),
                    None => {}
                },
                ["log-format", ..] => {
                    _ = writeln!(text, "{} {generation}\"", line.trim_end_matches('"'));
                }
                // These are in each frontend and backend of HTTP, and in no other.
                ["capture", ..] => {
                    _ = writeln!(text, "{line}");
                    for rules in ["http-request", "http-after-response"] {
                        _ = writeln!(text, " {rules} set-header {OF_FRONTEND} {generation}");
                    }
                }
                ["retry-on", ..] => {
                    _ = writeln!(text, "{line}");
                    for rules in ["http-request", "http-response"] {
                        _ = writeln!(text, " {rules} set-header {OF_BACKEND} {generation}");
                    }
                }
                _ => _ = writeln!(text, "{line}"),
            }
        }
        text
    }

    /// Those of other parts of the scenario have a new line each time.
    fn version(&self, generation: usize, name: &str) -> Version {
        let position = name.strip_prefix('s').and_then(|n| n.parse::<usize>().ok());
        match position.and_then(|n| self.servers[generation].get(n)) {
            Some(version) => *version,
            None => u32::try_from(generation).ok(),
        }
    }

    /// Whether a server has the same line in all configurations between two.
    pub fn is_unchanged(&self, server: usize, from: usize, to: usize) -> bool {
        self.servers[from..=to].windows(2).all(|pair| pair[0].get(server) == pair[1].get(server))
    }

    /// Whether a server of the file is not there for a while.
    pub fn leaves(&self, server: usize) -> bool {
        self.servers.iter().any(|servers| servers[server].is_none())
    }
}
