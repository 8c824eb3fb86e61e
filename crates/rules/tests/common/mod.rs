//! Compiles and runs rules against messages written in the tests.

#![allow(dead_code)]

use thalweg_http::{Head, Version};
use thalweg_rules::*;
use thalweg_sample::pattern::Registry;
use thalweg_sample::testing::FakeWorld;
use thalweg_sample::*;

/// Everything a test needs around its rules.
pub struct Bench {
    pub world: FakeWorld,
    pub registry: Registry,
    pub proxy: ProxyScope<'static>,
    pub experimental: bool,
    pub captures: CaptureSlots,
    pub warnings: Vec<String>,
    pub line: u32,
}

/// A `listen` section named `px`.
pub const LISTEN: ProxyScope<'static> = ProxyScope {
    name: "px",
    id: Some(ProxyId(0)),
    frontend: true,
    backend: true,
    defaults: false,
    mode: env::Mode::Http,
};

impl Default for Bench {
    fn default() -> Bench {
        Bench {
            world: FakeWorld::default(),
            registry: Registry::default(),
            proxy: LISTEN,
            experimental: true,
            captures: CaptureSlots::default(),
            warnings: Vec::new(),
            line: 0,
        }
    }
}

/// Splits a line at spaces; single quotes keep them.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

impl Bench {
    /// Calls `with` with an environment for the next line.
    pub fn compile<R>(&mut self, with: impl FnOnce(&mut RuleEnv) -> R) -> R {
        self.line += 1;
        let mut compile =
            CompileEnv::new("test.cfg", self.line, self.proxy, Points::ALL, &self.world, &self.registry);
        let result = with(&mut RuleEnv {
            compile: &mut compile,
            experimental: self.experimental,
            captures: &mut self.captures,
            services: &["echo"],
            tables: &mut Vec::new(),
        });
        self.warnings.append(&mut compile.warnings);
        result
    }

    /// Compiles one line of a ruleset, without its keyword.
    pub fn push(&mut self, rules: &mut Ruleset, kind: Kind, line: &str) -> Result<(), String> {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.compile(|env| rules.push(kind, &words, env))
    }

    /// Compiles lines that have no error.
    pub fn rules(&mut self, kind: Kind, lines: &[&str]) -> Ruleset {
        let mut rules = Ruleset::new();
        for line in lines {
            self.push(&mut rules, kind, line).unwrap_or_else(|e| panic!("{line}: {e}"));
        }
        rules
    }

    /// The error of a line.
    pub fn error(&mut self, kind: Kind, line: &str) -> String {
        self.push(&mut Ruleset::new(), kind, line).expect_err(line)
    }
}

/// A request or response, from `GET /a|name: value|...` or `200|name: value|...`.
pub fn head(text: &str) -> Head {
    let mut lines = text.split('|');
    let start = lines.next().unwrap();
    let mut head = Head::new();
    match start.split_once(' ') {
        Some((method, target)) => {
            head.start_request(method.as_bytes(), target.as_bytes(), Version::HTTP_11).unwrap();
        }
        None => head.start_response(Version::HTTP_11, start.parse().unwrap(), None).unwrap(),
    }
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        head.push(name.as_bytes(), value.as_bytes()).unwrap();
    }
    head
}

/// The reverse of [`head`].
pub fn show(head: &Head) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut out = if head.is_request() {
        format!("{} {}", text(head.method_bytes()), text(head.target()))
    } else {
        head.status().to_string()
    };
    for field in head.fields() {
        out += &format!("|{}: {}", text(field.name), text(field.value));
    }
    out
}

/// What a run sees and changes.
pub struct Traffic {
    pub session: Session,
    pub stream: StreamFacts,
    pub request: Head,
    pub response: Head,
    pub body: Vec<u8>,
    pub complete: bool,
    pub last: bool,
    pub scratch: Scratch,
    pub fx: Effects,
}

impl Default for Traffic {
    fn default() -> Traffic {
        let mut session = Session::new(ProxyId(0), facts::ListenerId(0));
        session.fc_src = Endpoint::Inet("192.0.2.1:1234".parse().unwrap());
        session.fc_dst = Endpoint::Inet("192.0.2.9:80".parse().unwrap());
        let mut stream = StreamFacts::new(ProxyId(0), true);
        stream.req_captures.reset(3);
        stream.res_captures.reset(3);
        Traffic {
            session,
            stream,
            request: head("GET /a?q=1|host: h"),
            response: head("200|server: s"),
            body: Vec::new(),
            complete: false,
            last: true,
            scratch: Scratch::default(),
            fx: Effects::new(),
        }
    }
}

impl Traffic {
    pub fn request(text: &str) -> Traffic {
        Traffic { request: head(text), ..Traffic::default() }
    }

    pub fn response(text: &str) -> Traffic {
        Traffic { response: head(text), ..Traffic::default() }
    }

    /// Runs rules and gives the outcome as text, so that it can outlive the borrow.
    pub fn run(&mut self, bench: &Bench, rules: &Ruleset, kind: Kind, from: usize) -> String {
        self.with(bench, kind, |cx, fx| format!("{:?}", rules.run(kind, from, cx, fx)))
    }

    /// Calls `with` with a context over this traffic.
    pub fn with<R>(
        &mut self,
        bench: &Bench,
        kind: Kind,
        with: impl FnOnce(&mut Ctx, &mut Effects) -> R,
    ) -> R {
        let mut cx = Ctx::new(Clock::default(), &bench.world, &mut self.session, &mut self.scratch);
        if !matches!(kind, Kind::TcpConnection | Kind::TcpSession) {
            cx.stream = Some(&mut self.stream);
        }
        if kind.is_http() {
            cx.request = Some(&mut self.request);
            cx.response = kind.is_response().then_some(&mut self.response);
        }
        let body = Payload::new(&self.body, self.complete, None);
        if kind.is_response() {
            cx.res_body = body
        } else {
            cx.req_body = body
        }
        cx.last = self.last;
        with(&mut cx, &mut self.fx)
    }
}
