//! The configuration of a scenario, and what of it the checks must know.

use std::fmt::Write;
use std::net::SocketAddr;

use thalweg_runtime::net::SockAddr;

use super::{Kind, Trouble};
use crate::random::Random;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct ProxyPlan {
    /// The configuration as a user would write it.
    pub text: String,
    /// Addresses of the frontends `fe0`, `fe1` and so on.
    pub fronts: Vec<SockAddr>,
    /// `be0`, `be1` and so on.
    pub backends: Vec<BackendPlan>,
    /// Rules that there are beside forwarding.
    pub kinds: Vec<Kind>,
    /// Connections may be refused or kept waiting by a limit.
    pub is_limited: bool,
    /// There may be no buffer when one is needed.
    pub is_short_of_buffers: bool,
    /// `timeout client`, in milliseconds.
    pub client_timeout_ms: u64,
    /// The longest timeout, in milliseconds.
    pub patience_ms: u64,
}

/// What the checks must know of a backend.
#[derive(Clone, Debug)]
pub struct BackendPlan {
    pub name: String,
    /// Positions of its servers among all, the first and one past the last.
    pub servers: (usize, usize),
    pub retries: u32,
    pub retry: Retry,
    /// Servers are checked.
    pub checks: bool,
    /// A second server may be asked (`option hedge`).
    pub hedges: bool,
}

/// What `retry-on` says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retry {
    pub conn_failure: bool,
    pub empty_response: bool,
    pub response_timeout: bool,
    pub junk_response: bool,
    /// 404, 500 and 503.
    pub statuses: bool,
}

impl Retry {
    fn words(&self) -> String {
        let mut words = Vec::new();
        for (set, word) in [
            (self.conn_failure, "conn-failure"),
            (self.empty_response, "empty-response"),
            (self.response_timeout, "response-timeout"),
            (self.junk_response, "junk-response"),
            (self.statuses, "404 500 503"),
        ] {
            if set {
                words.push(word);
            }
        }
        if words.is_empty() { "none".to_owned() } else { words.join(" ") }
    }
}

/// Where log lines go.
pub const LOG: &str = "10.0.9.1:514";

/// What the check of a server asks for.
pub const CHECK_PATH: &str = "/health";

const FORMAT: &str = "%ci:%cp %f %b %s %ST %U %[req.bytes_out] %B %[res.bytes_out] %tsc %rc \
    %TR/%Tw/%Tc/%Tr/%Ta %[capture.req.hdr(0)]";

/// What the servers of a backend have in common.
struct Extra {
    checks: bool,
    /// The position of the first of them.
    first: usize,
    marks: &'static str,
    sends_proxy: &'static str,
}

/// Adds each line with its probability in percent.
fn some_of(random: &mut Random, lines: &[(u64, &str)], text: &mut String) {
    for (percent, line) in lines {
        if random.chance(*percent) {
            _ = writeln!(text, " {line}");
        }
    }
}

impl ProxyPlan {
    /// How many servers there are in all.
    pub fn server_count(&self) -> usize {
        self.backends.last().map_or(0, |b| b.servers.1)
    }

    /// Lets backends ask second servers.
    pub fn hedge(&mut self, random: &mut Random) {
        for n in 0..self.backends.len() {
            self.backends[n].hedges = true;
            let delay = random.pick(&[1, 5, 20, 100, 400]);
            let lines = format!(" option hedge {delay}ms\n retry-budget {}\n", random.pick(&[20, 100]));
            self.add_to_backend(n, &lines);
        }
    }

    /// Adds lines at the beginning of the section of a backend.
    pub fn add_to_backend(&mut self, backend: usize, lines: &str) {
        // The line feed before it tells it from a line that names the backend.
        let section = format!("\nbackend {}\n", self.backends[backend].name);
        self.text = self.text.replacen(&section, &format!("{section}{lines}"), 1);
    }

    /// Gives the proxy few buffers. Where nothing may go wrong, as many as all that it does at a time may need.
    pub fn limit_buffers(&mut self, random: &mut Random, trouble: &Trouble) {
        let limit = if trouble.calm { 40 } else { *random.pick(&[3, 4, 6, 8, 12, 20]) };
        let reserve = *random.pick(&[1, 2, 4]);
        let lines = format!("global\n tune.buffers.limit {limit}\n tune.buffers.reserve {reserve}\n");
        self.text = self.text.replacen("global\n", &lines, 1);
        self.is_short_of_buffers = !trouble.calm;
        if self.is_short_of_buffers && random.chance(50) {
            self.look_ahead(random);
        }
    }

    /// Lets rules wait for bodies, which take more than a buffer.
    fn look_ahead(&mut self, random: &mut Random) {
        if !self.text.contains(" tune.bufsize ") {
            self.text =
                self.text.replacen("global\n", "global\n tune.bufsize 4096\n tune.maxrewrite 1024\n", 1);
        }
        for n in 0..self.backends.len() {
            let lines = random.pick(&[
                " option http-buffer-request\n",
                " http-request wait-for-body time 300ms\n",
                " http-response wait-for-body time 300ms\n",
            ]);
            self.add_to_backend(n, lines);
        }
    }

    /// The address of a server, which it has unless it is on a unix socket.
    pub fn address_of(&self, server: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, 1, server as u8 + 1], 80))
    }

    /// The backend of a server by its position.
    ///
    /// # Panics
    /// When there is no such server.
    pub fn backend_of(&self, server: usize) -> &BackendPlan {
        let of = |b: &&BackendPlan| (b.servers.0..b.servers.1).contains(&server);
        self.backends.iter().find(of).expect("each server has a backend")
    }

    /// The position of a server by the names of its backend and its own.
    pub fn server_by_name(&self, backend: &str, server: &str) -> Option<usize> {
        let backend = self.backends.iter().find(|b| b.name == backend)?;
        let n: usize = server.strip_prefix('s')?.parse().ok()?;
        (backend.servers.0..backend.servers.1).contains(&n).then_some(n)
    }

    /// A configuration.
    pub fn draw(random: &mut Random, trouble: &Trouble) -> ProxyPlan {
        let mut plan = ProxyPlan {
            text: String::new(),
            fronts: Vec::new(),
            backends: Vec::new(),
            kinds: Vec::new(),
            is_limited: false,
            is_short_of_buffers: false,
            client_timeout_ms: 0,
            patience_ms: 0,
        };
        let mut text = format!("global\n log {LOG} len 4096 format raw local0\n");
        if random.chance(15) {
            text.push_str(" tune.bufsize 4096\n tune.maxrewrite 1024\n");
        }
        if trouble.crowded && random.chance(30) {
            plan.is_limited = true;
            _ = writeln!(text, " maxconn {}", random.within(1, 6));
        }
        plan.defaults(random, trouble, &mut text);
        let backends = random.within(1, 2);
        for n in 0..random.within(1, 2) {
            plan.frontend(random, trouble, n, backends, &mut text);
        }
        for n in 0..backends {
            plan.backend(random, trouble, n as usize, &mut text);
        }
        plan.text = text;
        plan
    }

    fn defaults(&mut self, random: &mut Random, trouble: &Trouble, text: &mut String) {
        _ = write!(text, "defaults\n mode http\n log global\n log-format \"{FORMAT}\"\n");
        let mut timeout = |name: &str, always: bool| {
            if !always && random.chance(50) {
                return;
            }
            let ms =
                if trouble.short_timeouts { random.within(50, 3_000) } else { random.within(20_000, 40_000) };
            self.patience_ms = self.patience_ms.max(ms);
            if name == "client" {
                self.client_timeout_ms = ms;
            }
            _ = writeln!(text, " timeout {name} {ms}ms");
        };
        for name in ["connect", "client", "server"] {
            timeout(name, true);
        }
        for name in ["http-request", "http-keep-alive", "queue", "client-fin", "server-fin"] {
            timeout(name, false);
        }
        _ = writeln!(text, " timeout tarpit {}ms", random.within(20, 2_000));
        let usual = ["http-keep-alive", "http-server-close", "httpclose"];
        if random.chance(40) {
            _ = writeln!(text, " option {}", random.pick(&usual));
        }
        for option in ["http-buffer-request", "splice-auto", "http-pretend-keepalive", "prefer-last-server"] {
            if random.chance(8) {
                _ = writeln!(text, " option {option}");
            }
        }
        if random.chance(20) {
            text.push_str(" no option abortonclose\n");
        }
        if random.chance(60) {
            let reuse = random.pick(&["never", "safe", "aggressive", "always"]);
            _ = writeln!(text, " http-reuse {reuse}");
        }
    }

    fn frontend(&mut self, random: &mut Random, trouble: &Trouble, n: u64, backends: u64, text: &mut String) {
        let address = SocketAddr::from(([10, 0, 0, n as u8 + 1], 80));
        self.fronts.push(address.into());
        _ = writeln!(text, "frontend fe{n}\n bind {address}\n capture request header x-id len 20");
        if trouble.crowded && random.chance(30) {
            self.is_limited = true;
            _ = writeln!(text, " maxconn {}", random.within(1, 4));
        }
        let rules = [
            (Kind::Deny, "deny", ""),
            (Kind::Return, "return", " status 200 content-type text/plain string own"),
            (Kind::Redirect, "redirect", " location /elsewhere"),
            (Kind::Tarpit, "tarpit", ""),
            (Kind::WaitForBody, "wait-for-body", if trouble.calm { " time 20s" } else { " time 500ms" }),
        ];
        for (kind, rule, arguments) in rules {
            _ = writeln!(text, " http-request {rule}{arguments} if {{ path_sub /{}/ }}", kind.path());
            if n == 0 {
                self.kinds.push(kind);
            }
        }
        if n == 0 {
            self.kinds.push(Kind::Upgrade);
        }
        if random.chance(30) {
            text.push_str(" http-request set-header x-added %[src]\n http-response set-header x-front %f\n");
        }
        let lines = [
            (20, "option forwardfor"),
            (10, "tcp-request inspect-delay 100ms\n tcp-request content accept if { req.len gt 0 }"),
            (10, "unique-id-format %rt\n unique-id-header x-unique"),
            (10, "http-request early-hint link </y>"),
            (10, "http-request pause 30ms if { path_end 3 }"),
            (10, "http-request set-priority-class int(-5) if { path_end 1 }"),
            (10, "http-after-response set-header x-after 1"),
            (8, "option http-drop-response-trailers"),
            (8, "http-response set-header x-length %[res.hdr(content-length)]"),
        ];
        some_of(random, &lines, text);
        if !trouble.calm {
            let lines = [
                (
                    8,
                    "filter bwlim-out slow default-limit 50k default-period 100ms\n http-request set-bandwidth-limit slow",
                ),
                (
                    8,
                    "filter bwlim-in slower default-limit 50k default-period 100ms\n http-request set-bandwidth-limit slower",
                ),
                (8, "http-response deny if { status 404 }"),
                (8, "http-response wait-for-body time 300ms"),
                (8, "tcp-request content reject if { path_end 77 }"),
            ];
            some_of(random, &lines, text);
        }
        for n in 1..backends {
            _ = writeln!(text, " use_backend be{n} if {{ path_beg /b{n}/ }}");
        }
        text.push_str(" default_backend be0\n");
    }

    fn backend(&mut self, random: &mut Random, trouble: &Trouble, n: usize, text: &mut String) {
        let first = self.server_count();
        let count = random.within(1, 3) as usize;
        let retries = random.below(4) as u32;
        let retry = Retry {
            conn_failure: random.chance(80),
            empty_response: random.chance(30),
            response_timeout: random.chance(30),
            junk_response: random.chance(30),
            statuses: random.chance(20),
        };
        let balance = [
            "roundrobin",
            "static-rr",
            "leastconn",
            "first",
            "random",
            "source",
            "uri",
            "hdr(x-id)",
            "hash hdr(x-id)",
        ];
        _ = writeln!(text, "backend be{n}\n balance {}\n retries {retries}", random.pick(&balance));
        _ = writeln!(text, " retry-on {}", retry.words());
        if random.chance(50) {
            _ = writeln!(text, " option redispatch{}", random.pick(&["", " 1", " -1"]));
        }
        let checks = random.chance(30);
        if checks && random.chance(70) {
            _ = writeln!(text, " option httpchk GET {CHECK_PATH}");
        }
        if random.chance(15) {
            let cookies = [" cookie SRV insert\n", " cookie SRV insert indirect\n", " cookie SRV prefix\n"];
            text.push_str(random.pick::<&str>(&cookies));
        }
        let set_timeout = if trouble.calm {
            "option tcpka"
        } else {
            "http-request set-timeout server 300ms if { path_end 5 }"
        };
        let use_server = format!("use-server s{first} if {{ path_end 2 }}");
        let lines = [
            (10, "http-send-name-header x-name"),
            (10, "option allbackups"),
            (10, "http-response set-header x-back 1"),
            (8, "http-response pause 20ms if { status 200 }"),
            (10, "option http-drop-request-trailers"),
            (8, "option persist"),
            (8, &*use_server),
            (8, set_timeout),
        ];
        some_of(random, &lines, text);
        let marks = ["", "", "", " on-marked-down shutdown-sessions", " slowstart 1s", ""];
        let marks = if checks && !trouble.calm { *random.pick(&marks) } else { "" };
        let sends_proxy = *random.pick(&["", "", "", "", "", " send-proxy", " send-proxy-v2"]);
        let extra = Extra { checks, first, marks, sends_proxy };
        for s in first..first + count {
            self.server(random, trouble, s, &extra, text);
        }
        self.backends.push(BackendPlan {
            name: format!("be{n}"),
            servers: (first, first + count),
            retries,
            retry,
            checks,
            hedges: false,
        });
    }

    fn server(&self, random: &mut Random, trouble: &Trouble, s: usize, extra: &Extra, text: &mut String) {
        _ = write!(text, " server s{s} {}", self.address_of(s));
        if trouble.crowded && random.chance(60) {
            _ = write!(text, " maxconn {}", random.within(1, 3));
            if !trouble.calm && random.chance(30) {
                _ = write!(text, " maxqueue {}", random.within(1, 3));
            }
        }
        if extra.checks {
            // A packet may need 20 ms.
            let shortest = if trouble.calm { 500 } else { 50 };
            let (inter, fall, rise) =
                (random.within(shortest, 2_000), random.within(1, 3), random.within(1, 2));
            _ = write!(text, " check inter {inter}ms fall {fall} rise {rise}");
        }
        for (percent, words) in
            [(10, " pool-max-conn 1"), (10, " pool-purge-delay 100ms"), (5, " max-reuse 2"), (8, " weight 3")]
        {
            if random.chance(percent) {
                text.push_str(words);
            }
        }
        text.push_str(extra.marks);
        text.push_str(extra.sends_proxy);
        if s > extra.first && random.chance(10) {
            text.push_str(" backup");
        }
        text.push('\n');
    }
}
