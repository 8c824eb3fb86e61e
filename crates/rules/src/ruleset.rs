//! Rulesets: compiled rules in order, and their evaluation.

use crate::action::trace::{Beginning, Tracing};
use crate::action::{Action, Step};
use crate::compile;
use crate::effects::Effects;
use crate::errors::HttpErrors;
use crate::keyword::{self, CaptureSlots, RuleEnv, Support, Words, section};
use crate::reply::Reply;
use crate::{Realm, Redirect};
use std::collections::HashSet;
use std::sync::{Arc, LazyLock, PoisonError};
use thalweg_sample::acl::{Condition, Verdict};
use thalweg_sample::pattern::Registry;
use thalweg_sample::watch::{Unwatched, Watch};
use thalweg_sample::{Ctx, Point, Points, ProxyScope, ServerId, VarRef};
use thalweg_sample::{Expr, TableId};
use thalweg_shared::Mutex;

/// Where rules are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `tcp-request connection`: before any byte is read.
    TcpConnection = 0,
    /// `tcp-request session`: after handshakes.
    TcpSession,
    /// `tcp-request content`: on the first bytes of a stream.
    TcpRequest,
    /// `tcp-response content`.
    TcpResponse,
    /// `http-request`.
    HttpRequest,
    /// `http-response`.
    HttpResponse,
    /// `http-after-response`: on every response, ours included.
    HttpAfter,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] = [
        Kind::TcpConnection,
        Kind::TcpSession,
        Kind::TcpRequest,
        Kind::TcpResponse,
        Kind::HttpRequest,
        Kind::HttpResponse,
        Kind::HttpAfter,
    ];

    /// The keyword as users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::TcpConnection => "tcp-request connection",
            Kind::TcpSession => "tcp-request session",
            Kind::TcpRequest => "tcp-request content",
            Kind::TcpResponse => "tcp-response content",
            Kind::HttpRequest => "http-request",
            Kind::HttpResponse => "http-response",
            Kind::HttpAfter => "http-after-response",
        }
    }

    /// True for the rulesets that need `mode http`.
    pub const fn is_http(self) -> bool {
        matches!(self, Kind::HttpRequest | Kind::HttpResponse | Kind::HttpAfter)
    }

    /// True for the rulesets of responses.
    pub const fn is_response(self) -> bool {
        matches!(self, Kind::TcpResponse | Kind::HttpResponse | Kind::HttpAfter)
    }

    /// True where a stream exists: a condition may wait for data.
    const fn waits(self) -> bool {
        matches!(self, Kind::TcpRequest | Kind::TcpResponse)
    }

    /// The evaluation points of this ruleset in a proxy.
    pub fn points(self, proxy: &ProxyScope) -> Points {
        let (front, back) = match self {
            Kind::TcpConnection => (Point::FeConnection, Point::FeConnection),
            Kind::TcpSession => (Point::FeSession, Point::FeSession),
            Kind::TcpRequest => (Point::FeRequestContent, Point::BeRequestContent),
            Kind::TcpResponse => (Point::FeResponseContent, Point::BeResponseContent),
            Kind::HttpRequest => (Point::FeHttpRequest, Point::BeHttpRequest),
            Kind::HttpResponse | Kind::HttpAfter => (Point::FeHttpResponse, Point::BeHttpResponse),
        };
        match (proxy.frontend, proxy.backend) {
            (true, false) => front.set(),
            (false, true) => back.set(),
            _ => front.set().or(back.set()),
        }
    }
}

/// One rule: an action, and when it applies.
pub struct Rule {
    /// What it does.
    pub(crate) action: Action,
    /// When; always without.
    condition: Option<Condition>,
    /// The name of the action as written.
    pub name: Box<str>,
    /// The configuration file.
    pub file: &'static str,
    /// The line in it.
    pub line: u32,
}

impl Rule {
    /// Whether it has a condition.
    pub fn is_conditional(&self) -> bool {
        self.condition.is_some()
    }
}

/// Rules in the order they were written.
#[derive(Default)]
pub struct Ruleset {
    rules: Vec<Arc<Rule>>,
    /// What the first rules are, as far as they track the client's address and nothing else.
    leading: Vec<TrackSource>,
}

/// A rule that tracks the client's address in a table of IPv4 addresses, whatever a request says: `track-sc0 src`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackSource {
    /// The number of the counter.
    pub slot: usize,
    /// The table.
    pub table: TableId,
}

/// What became of an evaluation. `resume` is where to go on with [`Ruleset::run`] afterwards.
#[derive(Debug)]
pub enum Outcome<'r> {
    /// All rules were evaluated, none decided.
    Done,
    /// A rule stopped the evaluation and lets the traffic pass.
    Accept,
    /// Refuse with this reply (403 for requests, 502 for responses by default).
    Deny(&'r Reply),
    /// Wait for `timeout tarpit`, then answer with this reply (500 by default).
    Tarpit(&'r Reply),
    /// Answer with this reply.
    Return(&'r Reply),
    /// Answer with this redirection, whose variable parts are in the [`Effects`].
    Redirect(&'r Redirect),
    /// Ask for a user name and password.
    Auth(&'r Realm),
    /// Close the connection without a word.
    Reject,
    /// Make the client's connection disappear without telling the client.
    SilentDrop {
        /// Send a reset with this time to live rather than nothing.
        rst_ttl: Option<u8>,
    },
    /// Close the connection to the server (`tcp-response content close`).
    Close,
    /// More data is needed to decide.
    Wait {
        /// The rule to evaluate again.
        resume: usize,
    },
    /// Do nothing for some time.
    Pause {
        /// How long, in milliseconds.
        ms: u64,
        /// The rule to go on with.
        resume: usize,
    },
    /// Wait for the body.
    WaitBody {
        /// How long at most, in milliseconds; then answer 408.
        ms: u64,
        /// Stop waiting once this many bytes are there; 0: only when it is complete or the buffer is full.
        at_least: u64,
        /// The rule to go on with.
        resume: usize,
    },
    /// Wait until the client's handshake is done.
    WaitHandshake {
        /// The rule to go on with.
        resume: usize,
    },
    /// Resolve a name, and keep its address in a variable.
    Resolve {
        /// Which name, by whom, and in which variable.
        wanted: Box<Wanted>,
        /// The rule to go on with.
        resume: usize,
    },
    /// Send the 103 response whose fields are in [`Effects::early_hints`], and clear them.
    EarlyHints {
        /// The rule to go on with.
        resume: usize,
    },
    /// Emit a log line now.
    Log {
        /// The log profile to use rather than the logger's own.
        profile: Option<&'r str>,
        /// The rule to go on with.
        resume: usize,
    },
    /// Change the stream to HTTP.
    SwitchMode {
        /// The protocol asked for; detected when there is none.
        proto: Option<&'r str>,
    },
    /// Let this service answer.
    UseService(&'r str),
    /// The request is malformed in a way that a rule refuses: answer 400.
    BadRequest,
    /// A rewrite failed in strict mode: answer 500.
    RewriteFailed,
}

impl Outcome<'_> {
    /// What becomes of the message, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Done => "",
            Outcome::Accept => "accepted",
            Outcome::Deny(_) => "denied",
            Outcome::Tarpit(_) => "held back, then refused",
            Outcome::Return(_) => "answered",
            Outcome::Redirect(_) => "redirected",
            Outcome::Auth(_) => "asked for a password",
            Outcome::Reject => "closed",
            Outcome::SilentDrop { .. } => "dropped without a word",
            Outcome::Close => "the server's connection is closed",
            Outcome::Wait { .. } => "waits for more data",
            Outcome::Pause { .. } => "pauses",
            Outcome::WaitBody { .. } => "waits for the body",
            Outcome::WaitHandshake { .. } => "waits for the handshake",
            Outcome::EarlyHints { .. } => "sends early hints",
            Outcome::Resolve { .. } => "asks for the address of a name",
            Outcome::Log { .. } => "writes a log line",
            Outcome::SwitchMode { .. } => "goes on as HTTP",
            Outcome::UseService(_) => "answered by a service",
            Outcome::BadRequest => "refused as malformed",
            Outcome::RewriteFailed => "refused, because a rewrite failed",
        }
    }
}

/// A bandwidth limitation filter as rules turn it on.
#[derive(Clone, Debug)]
pub struct BandwidthFilter {
    /// Its number.
    pub id: u32,
    /// The key that streams share their limit by, and the table that counts for them.
    pub shared: Option<(Arc<Expr>, TableId)>,
}

/// Everything that rules may refer to before it exists, for [`Ruleset::resolve`].
pub struct References<'a> {
    /// Finds an `http-errors` section.
    pub http_errors: &'a dyn Fn(&str) -> Option<Arc<HttpErrors>>,
    /// True when a `log-profile` section has this name.
    pub log_profile: &'a dyn Fn(&str) -> bool,
    /// Maps and ACL files, all of them loaded.
    pub patterns: &'a Registry,
    /// The capture slots of the proxy, all rules read; `None` in a pure backend.
    pub captures: Option<&'a CaptureSlots>,
    /// A bandwidth limitation filter of the proxy.
    pub bandwidth_filter: &'a dyn Fn(&str) -> Option<BandwidthFilter>,
    /// The number of a `resolvers` section.
    pub resolvers: &'a dyn Fn(&str) -> Option<usize>,
    /// True when there is an `opentelemetry` section.
    pub traces: bool,
}

/// What a rule wants resolved.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The host.
    pub name: Box<[u8]>,
    /// The number of a `resolvers` section.
    pub section: usize,
    /// IPv6 is asked for first.
    pub v6_first: bool,
    /// Where the address goes.
    pub variable: VarRef,
}

/// A server that a rule gives connections to (`attach-srv`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachedServer {
    /// The server.
    pub server: ServerId,
    /// The connections have names.
    pub named: bool,
}

impl Ruleset {
    /// The servers that its rules give connections to.
    pub fn attached_servers(&self) -> impl Iterator<Item = AttachedServer> + '_ {
        self.rules.iter().filter_map(|rule| match &rule.action {
            Action::Attach(attach) => Some(attach.server()),
            _ => None,
        })
    }

    /// Whether a rule makes connections go on as HTTP (`switch-mode`).
    pub fn switches_mode(&self) -> bool {
        self.rules
            .iter()
            .any(|rule| matches!(&rule.action, Action::Stream(setting) if setting.switches_mode()))
    }

    /// No rule at all.
    pub const fn new() -> Ruleset {
        Ruleset { rules: Vec::new(), leading: Vec::new() }
    }

    /// True when there is no rule.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// The rules.
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// Compiles a rule from the words after the ruleset's keyword, and appends it.
    ///
    /// Warnings are added to the environment: a rule after one that always decides, a condition that never matches.
    ///
    /// # Errors
    /// The text of the problem, worded as in the reference, to be shown after `parsing [file:line] : `.
    pub fn push(&mut self, kind: Kind, words: &[&str], env: &mut RuleEnv) -> Result<(), String> {
        let rule = compile_rule(kind, words, env)?;
        self.append(kind.name(), rule, env);
        Ok(())
    }

    /// Compiles a `redirect` line (not `http-request redirect`): its texts are literal, and it goes after the
    /// `http-request` rules.
    ///
    /// # Errors
    /// As for [`Ruleset::push`].
    pub fn push_redirect(&mut self, words: &[&str], env: &mut RuleEnv) -> Result<(), String> {
        env.compile.points = Kind::HttpRequest.points(&env.compile.proxy);
        let mut words = Words::new(Kind::HttpRequest, "redirect", words);
        let place = section(env.compile);
        let action = crate::action::redirect::parse_literal(&mut words, env)
            .map_err(|e| format!("error detected in {place} while parsing redirect rule : {e}."))?;
        let condition = match words.rest() {
            [] => None,
            rest @ ["if" | "unless", ..] => Some(compile::condition(rest, env.compile).map_err(|e| {
                format!("error detected in {place} while parsing redirect rule : error in condition: {e}.")
            })?),
            [other, ..] => {
                return Err(format!(
                    "error detected in {place} while parsing redirect rule : {} (was '{other}').",
                    crate::action::redirect::EXPECTS
                ));
            }
        };
        let rule = Rule {
            action,
            condition,
            name: "redirect".into(),
            file: interned(env.compile.file),
            line: env.compile.line,
        };
        self.append("redirect", rule, env);
        Ok(())
    }

    fn append(&mut self, keyword: &str, rule: Rule, env: &mut RuleEnv) {
        if let Some(last) = self.rules.last()
            && last.condition.is_none()
            && last.action.is_final()
        {
            env.compile.warnings.push(format!(
                "previous '{keyword}' action is final and has no condition attached, further entries are NOOP."
            ));
        }
        self.rules.push(Arc::new(rule));
        self.find_leading();
    }

    fn find_leading(&mut self) {
        let track = |rule: &Arc<Rule>| match &rule.action {
            Action::Counting(counting) if rule.condition.is_none() => counting.source(),
            _ => None,
        };
        self.leading = self.rules.iter().map_while(track).collect();
    }

    /// What the first rules are, as far as they track the client's address and nothing else: who did that may [`Ruleset::run`]
    /// those behind them.
    #[inline]
    pub fn leading(&self) -> &[TrackSource] {
        &self.leading
    }

    /// Every request begins its trace, before any rule but those that only track the client's address. `place` is where that is
    /// asked for.
    pub fn begin_traces(&mut self, how: Beginning, (file, line): (&str, u32)) {
        let begin = Rule {
            action: Action::Trace(Tracing::Begin(how)),
            condition: None,
            name: "opentelemetry".into(),
            file: interned(file),
            line,
        };
        self.rules.insert(self.leading.len(), Arc::new(begin));
    }

    /// Puts the rules of a `defaults` section before those of this proxy.
    pub fn inherit(&mut self, parent: &Ruleset) {
        self.rules.splice(0..0, parent.rules.iter().cloned());
        self.find_leading();
    }

    /// Resolves what rules refer to by name, once the whole configuration is read.
    ///
    /// Gives the texts of the problems, worded as in the reference, to be shown as alerts.
    pub fn resolve(&self, kind: Kind, proxy: &str, references: &References) -> Vec<String> {
        self.rules
            .iter()
            .filter_map(|rule| rule.action.resolve(kind, references).err())
            .map(|e| format!("Proxy '{proxy}': {e}"))
            .collect()
    }

    /// Evaluates the rules from number `from` on, against `cx`.
    ///
    /// Edits of the messages and facts of the stream are done at once; other results are in `fx`. In the rulesets of
    /// TCP contents, a condition or an action that needs more data gives [`Outcome::Wait`], unless `cx.last` says that
    /// no more will come. An action that only sets something takes what there is, and does so again when the evaluation goes on
    /// with more.
    pub fn run<'r>(&'r self, kind: Kind, from: usize, cx: &mut Ctx, fx: &mut Effects) -> Outcome<'r> {
        if cx.scratch.watch.is_some() {
            return self.run_watched(kind, from, cx, fx);
        }
        self.run_with(kind, from, cx, fx, &mut Unwatched)
    }

    #[cold]
    fn run_watched<'r>(&'r self, kind: Kind, from: usize, cx: &mut Ctx, fx: &mut Effects) -> Outcome<'r> {
        // It is not there while it is told, so that what rules evaluate for themselves is not taken for a part of them.
        let Some(mut watch) = cx.scratch.watch.take() else { return Outcome::Done };
        let outcome = self.run_with(kind, from, cx, fx, &mut *watch);
        cx.scratch.watch = Some(watch);
        outcome
    }

    #[inline]
    fn run_with<'r, W: Watch + ?Sized>(
        &'r self,
        kind: Kind,
        from: usize,
        cx: &mut Ctx,
        fx: &mut Effects,
        watch: &mut W,
    ) -> Outcome<'r> {
        // None of the leading rules changes it.
        if from <= self.leading.len() {
            fx.strict = true;
            fx.unsettled.clear();
        }
        cx.response_side = kind.is_response();
        if kind.is_response()
            && let Some(stream) = cx.stream.as_deref_mut()
        {
            stream.in_response = true;
        }
        if !fx.unsettled.is_empty() {
            self.settle(kind, cx, fx);
        }
        for (i, rule) in self.rules.iter().enumerate().skip(from) {
            // Hints of rules in a row share a response; anything else in between sends it.
            let hinting = !fx.early_hints.is_empty();
            if hinting && !rule.action.is_early_hint() {
                return Outcome::EarlyHints { resume: i };
            }
            cx.reset();
            cx.may_change = false;
            if watch.is_on() {
                watch.rule(kind.name(), &rule.name, rule.file, rule.line);
            }
            if let Some(condition) = &rule.condition {
                match condition.eval_with(cx, watch) {
                    Verdict::Pass => {}
                    Verdict::Miss if kind.waits() && !cx.last => return Outcome::Wait { resume: i },
                    Verdict::Fail | Verdict::Miss if hinting => return Outcome::EarlyHints { resume: i },
                    Verdict::Fail | Verdict::Miss => continue,
                }
                cx.reset();
            }
            if watch.is_on() {
                watch.started(cx);
            }
            let step = rule.action.run(kind, i, cx, fx);
            if watch.is_on() {
                watch.done(step.name(), cx);
            }
            match step {
                Step::Next => {}
                Step::Wait if kind.waits() && !cx.last => {
                    if !rule.action.is_repeatable() {
                        return Outcome::Wait { resume: i };
                    }
                    self.take_what_is_there(kind, i, cx, fx);
                }
                Step::Wait => {}
                Step::Rewrite(Ok(())) => {}
                Step::Rewrite(Err(_)) => {
                    fx.failed_rewrites += 1;
                    if fx.strict {
                        note_last(cx, rule);
                        return Outcome::RewriteFailed;
                    }
                }
                Step::Stop(outcome) => {
                    if rule.action.is_final() {
                        note_last(cx, rule);
                    }
                    return outcome;
                }
            }
        }
        if fx.early_hints.is_empty() {
            Outcome::Done
        } else {
            Outcome::EarlyHints { resume: self.rules.len() }
        }
    }

    /// Carries out an action that could wait with what there is, and notes that.
    fn take_what_is_there(&self, kind: Kind, rule: usize, cx: &mut Ctx, fx: &mut Effects) {
        cx.reset();
        cx.last = true;
        self.rules[rule].action.run(kind, rule, cx, fx);
        cx.last = false;
        fx.unsettled.push(rule);
    }

    /// Carries out again, with more data, what was carried out with less.
    #[cold]
    fn settle(&self, kind: Kind, cx: &mut Ctx, fx: &mut Effects) {
        for rule in std::mem::take(&mut fx.unsettled) {
            cx.reset();
            cx.may_change = false;
            if let Step::Wait = self.rules[rule].action.run(kind, rule, cx, fx)
                && !cx.last
            {
                self.take_what_is_there(kind, rule, cx, fx);
            }
        }
    }
}

fn note_last(cx: &mut Ctx, rule: &Rule) {
    if let Some(stream) = cx.stream.as_deref_mut() {
        stream.last_rule = Some((rule.file, rule.line));
    }
}

fn compile_rule(kind: Kind, words: &[&str], env: &mut RuleEnv) -> Result<Rule, String> {
    let (name, rest) = match words.split_first() {
        Some((name, rest)) => (*name, rest),
        None => ("", words),
    };
    env.compile.points = kind.points(&env.compile.proxy);
    let Some(def) = keyword::find(name, kind).filter(|_| !name.is_empty()) else {
        return Err(keyword::unknown(name, kind, env.compile));
    };
    let place = section(env.compile);
    let parse = match def.support {
        Support::Yes(parse) => parse,
        Support::No(needs) => {
            return Err(format!(
                "'{} {name}' is known but not supported yet: it needs {needs}. Remove the line, or keep the \
                 reference for this file until then.",
                kind.name()
            ));
        }
    };
    if def.experimental && !env.experimental {
        return Err(format!(
            "'{}' action is experimental, must be allowed via a global 'expose-experimental-directives'",
            def.name
        ));
    }
    let mut words = Words::new(kind, name, rest);
    let action = parse(&mut words, env).map_err(|e| {
        if kind.is_http() {
            format!("error detected in {place} while parsing '{} {name}' rule : {e}.", kind.name())
        } else {
            e
        }
    })?;
    let condition = match words.rest() {
        [] => None,
        rest @ ["if" | "unless", ..] => {
            let context = format!("{} {name}", kind.name());
            Some(compile::condition(rest, env.compile).map_err(|e| {
                if kind.is_http() {
                    let stop = if e.ends_with('?') { "" } else { "." };
                    format!("error detected while parsing an '{context}' condition : {e}{stop}")
                } else {
                    format!(
                        "'{context}' : error detected in {place} while parsing '{}' condition : {e}",
                        rest[0]
                    )
                }
            })?)
        }
        [other, ..] if kind.is_http() => {
            return Err(format!(
                "'{} {name}' expects either 'if' or 'unless' followed by a condition but found '{other}'.",
                kind.name()
            ));
        }
        [other, ..] => {
            return Err(format!(
                "'{} {name}' only accepts 'if' or 'unless', in {place} (got '{other}')",
                kind.name()
            ));
        }
    };
    Ok(Rule {
        action,
        condition,
        name: name.into(),
        file: interned(env.compile.file),
        line: env.compile.line,
    })
}

/// A file name that lives as long as the process. There are few, and rules outlive the parser.
fn interned(file: &str) -> &'static str {
    static FILES: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Default::default);
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = files.get(file) {
        return known;
    }
    let leaked: &'static str = Box::leak(file.to_string().into_boxed_str());
    files.insert(leaked);
    leaked
}
