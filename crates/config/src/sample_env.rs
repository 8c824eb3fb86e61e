//! The door to the expression compiler: environments, conditions, formats.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_sample::logformat::Usage;
use thalweg_sample::{
    AclSet, CompileEnv, Condition, Expr, LogFormat, Names, Point, Points, ProxyScope, VarRef,
};
use thalweg_syntax::{Diagnostic, Environment, Lead, Line, Loader, Severity, Span};

use crate::build::{Building, Cx, Sides};
use crate::keyword::{Outcome, fail, sentence};
use crate::model::{Mode, ProcessVariable, ProxyId, ProxyKind, Shared, Userlist};

/// Which statement an expression belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    UseBackend,
    UseServer,
    MonitorFail,
    ForcePersist,
    ForceSwitch,
    StatsAdmin,
}

impl Where {
    fn points(self) -> Points {
        match self {
            Where::UseBackend | Where::ForceSwitch => Point::UseBackend.set(),
            Where::UseServer => Point::UseServer.set(),
            Where::MonitorFail => Point::FeHttpRequest.set(),
            Where::ForcePersist | Where::StatsAdmin => {
                Point::FeHttpRequest.set().or(Point::BeHttpRequest.set())
            }
        }
    }

    /// How a message about its condition begins.
    fn complaint(self, name: &str) -> String {
        match self {
            Where::UseBackend | Where::UseServer => {
                "error detected while parsing switching rule : ".to_owned()
            }
            Where::MonitorFail => "error detected while parsing a 'monitor fail' condition : ".to_owned(),
            Where::ForcePersist | Where::StatsAdmin => {
                format!("error detected while parsing a '{name}' rule : ")
            }
            Where::ForceSwitch => "'force-be-switch' : ".to_owned(),
        }
    }
}

/// Every name that an expression may use, once all files are read.
#[derive(Default)]
pub(crate) struct NameTable {
    proxies: HashMap<Arc<str>, ProxyId>,
    sides: Vec<Sides>,
    servers: Vec<Vec<Arc<str>>>,
    /// The servers that expressions name.
    referenced: RefCell<HashSet<thalweg_sample::ServerId>>,
    /// The backends that expressions name.
    backends: RefCell<HashSet<ProxyId>>,
    userlists: Vec<Arc<str>>,
    rings: Vec<Arc<str>>,
    tables: HashMap<Arc<str>, (thalweg_sample::TableId, thalweg_stick::KeyType)>,
    /// The certificates that expressions name.
    pub certificates: RefCell<BTreeSet<String>>,
    /// The public keys, in DER, that expressions take from files, by the names of those.
    pub token_keys: RefCell<crate::model::TokenKeys>,
}

impl NameTable {
    /// Whether an expression named a server so far.
    pub fn is_referenced(&self, backend: ProxyId, server: crate::model::ServerId) -> bool {
        let server = thalweg_sample::ServerId { proxy: backend, index: server.0 };
        self.referenced.borrow().contains(&server)
    }

    /// Whether an expression named a backend so far.
    pub fn names_backend(&self, backend: ProxyId) -> bool {
        self.backends.borrow().contains(&backend)
    }

    /// The names of a finished configuration.
    pub fn of(config: &crate::model::Config) -> NameTable {
        let proxies = || config.proxies.iter().map(|proxy| &**proxy);
        let tables = config.tables.iter().map(|spec| &**spec);
        NameTable::new(proxies, &config.userlists, &config.rings, tables)
    }

    /// The names of these proxies, userlists, rings and tables.
    pub fn new<'p, P: Iterator<Item = &'p crate::model::Proxy>>(
        proxies: impl Fn() -> P,
        userlists: &[Shared<Userlist>],
        rings: &[crate::model::Ring],
        tables: impl Iterator<Item = &'p thalweg_stick::Spec>,
    ) -> NameTable {
        let sides = |p: &crate::model::Proxy| Sides { frontend: p.is_fe(), backend: p.is_be(), mode: p.mode };
        let count = proxies().map(|p| p.id.0 as usize + 1).max().unwrap_or(0);
        let none = Sides { frontend: false, backend: false, mode: crate::model::Mode::Tcp };
        let (mut all_sides, mut servers) = (vec![none; count], vec![Vec::new(); count]);
        for proxy in proxies() {
            let at = proxy.id.0 as usize;
            all_sides[at] = sides(proxy);
            // By number; one that no server has has no name.
            for server in &proxy.servers {
                let number = server.id.0 as usize;
                if servers[at].len() <= number {
                    servers[at].resize(number + 1, Arc::from(""));
                }
                servers[at][number] = Arc::clone(&server.name);
            }
        }
        NameTable {
            proxies: proxies().map(|p| (Arc::clone(&p.name), p.id)).collect(),
            sides: all_sides,
            servers,
            referenced: RefCell::default(),
            backends: RefCell::default(),
            certificates: RefCell::default(),
            token_keys: RefCell::default(),
            tables: tables
                .zip(0..)
                .map(|(spec, i)| (Arc::clone(&spec.name), (thalweg_sample::TableId(i), spec.key)))
                .collect(),
            userlists: userlists.iter().map(|u| Arc::clone(&u.name)).collect(),
            rings: rings.iter().map(|r| Arc::clone(&r.name)).collect(),
        }
    }
}

impl NameTable {
    /// Makes a table known that was not there when the others were named.
    pub fn add_table(&mut self, spec: &thalweg_stick::Spec, id: thalweg_sample::TableId) {
        self.tables.insert(Arc::clone(&spec.name), (id, spec.key));
    }
}

/// The names with what else a compilation asks for.
pub(crate) struct Scope<'a> {
    pub table: &'a NameTable,
    pub environment: &'a Environment,
    pub loader: &'a dyn Loader,
    /// Where relative names of files start, unless in the directory the program runs in.
    pub base: Option<PathBuf>,
    pub resolver: crate::load::HostResolver,
    pub tokens: thalweg_sample::TokenAlgorithms,
}

impl Names for Scope<'_> {
    fn frontend(&self, name: &str) -> Option<ProxyId> {
        self.table.proxies.get(name).copied().filter(|id| self.table.sides[id.0 as usize].frontend)
    }

    fn backend(&self, name: &str) -> Option<ProxyId> {
        let found =
            self.table.proxies.get(name).copied().filter(|id| self.table.sides[id.0 as usize].backend)?;
        self.table.backends.borrow_mut().insert(found);
        Some(found)
    }

    fn server(&self, backend: ProxyId, name: &str) -> Option<thalweg_sample::ServerId> {
        let servers = self.table.servers.get(backend.0 as usize)?;
        let index = servers.iter().position(|s| &**s == name)?;
        let found = thalweg_sample::ServerId { proxy: backend, index: index as _ };
        self.table.referenced.borrow_mut().insert(found);
        Some(found)
    }

    fn table(&self, name: &str) -> Option<(thalweg_sample::TableId, thalweg_stick::KeyType)> {
        self.table.tables.get(name).copied()
    }

    fn userlist(&self, name: &str) -> Option<u32> {
        self.table.userlists.iter().position(|u| &**u == name).map(|i| i as u32)
    }

    fn ring(&self, name: &str) -> bool {
        self.table.rings.iter().any(|ring| &**ring == name)
    }

    fn environment(&self, name: &str) -> Option<Vec<u8>> {
        self.environment.get(name).map(|v| v.to_vec())
    }

    fn read_file(&self, path: &str) -> std::io::Result<Vec<u8>> {
        self.loader.read(&under(self.base.as_deref(), path))
    }

    fn certificate(&self, name: &str) -> bool {
        // What a store calls by a name is looked for once all of them were read.
        let is_there = name.starts_with('@') || matches!(self.loader.is_dir(name), Ok(false));
        if is_there {
            self.table.certificates.borrow_mut().insert(name.to_owned());
        }
        is_there
    }

    fn keep_token_key(&self, path: &str, key: &Arc<[u8]>) {
        self.table.token_keys.borrow_mut().insert(path.as_bytes().into(), Arc::clone(key));
    }

    fn token_algorithms(&self) -> thalweg_sample::TokenAlgorithms {
        self.tokens
    }

    fn resolve(&self, host: &str) -> Vec<IpAddr> {
        (self.resolver)(host, thalweg_syntax::address::Family::Any).into_iter().collect()
    }
}

/// A name of a file, under the directory that relative ones start from.
pub(crate) fn under<'p>(base: Option<&Path>, path: &'p str) -> Cow<'p, str> {
    match base {
        Some(base) if !path.starts_with('/') => Cow::Owned(base.join(path).to_string_lossy().into_owned()),
        _ => Cow::Borrowed(path),
    }
}

/// The words of a line from `index` on, as the compilers take them.
pub(crate) fn words(line: &Line, index: usize) -> Vec<&str> {
    line.words[index.min(line.words.len())..].iter().map(|w| w.text()).collect()
}

/// How the expression compiler sees a section.
fn scope_of<'b>(cx: &Cx<'_>, b: &'b Building, sides: (bool, bool)) -> ProxyScope<'b> {
    let defaults = b.p.kind == ProxyKind::Defaults;
    ProxyScope {
        name: &b.p.name,
        id: (!defaults && !cx.is_numberless).then_some(b.p.id),
        frontend: sides.0,
        backend: sides.1,
        defaults,
        mode: match b.p.mode {
            Mode::Tcp => thalweg_sample::Mode::Tcp,
            Mode::Http => thalweg_sample::Mode::Http,
            Mode::Log => thalweg_sample::Mode::Log,
        },
    }
}

/// What a compilation had to say besides its result.
#[derive(Default)]
pub(crate) struct Said {
    warnings: Vec<String>,
    late: Vec<String>,
    raw_bytes: bool,
}

/// Runs `compile` in the environment of a section, where its named ACLs are visible, then shows what it had to say at
/// `span`.
pub(crate) fn with_env<T>(
    cx: &mut Cx<'_>,
    b: &Building,
    span: Span,
    points: Points,
    context: &str,
    compile: impl FnOnce(&mut CompileEnv<'_>) -> T,
) -> T {
    with_acls(cx, b, b.drafts.as_ref().map(|d| &d.acls), span, points, context, compile)
}

/// The same with other named ACLs.
pub(crate) fn with_acls<T>(
    cx: &mut Cx<'_>,
    b: &Building,
    acls: Option<&AclSet>,
    span: Span,
    points: Points,
    context: &str,
    compile: impl FnOnce(&mut CompileEnv<'_>) -> T,
) -> T {
    let (result, said) = {
        let scope = Scope {
            table: &cx.name_table,
            environment: &cx.reader.environment,
            loader: cx.options.loader,
            base: cx.base_directory(span),
            resolver: cx.options.resolver,
            tokens: cx.config.global.tokens,
        };
        let sides = match b.p.kind {
            ProxyKind::Defaults => (true, true),
            _ => (b.p.is_fe(), b.p.is_be()),
        };
        let file = cx.sources.name(span.file);
        let mut env = CompileEnv::new(file, span.line, scope_of(cx, b, sides), points, &scope, &cx.registry);
        env.context = context;
        env.acls = acls;
        env.bufsize = cx.config.global.tune.bufsize;
        env.stick_counters = cx.config.global.tune.stick_counters;
        let result = compile(&mut env);
        let said = Said { warnings: env.warnings, late: env.late, raw_bytes: env.raw_bytes };
        (result, said)
    };
    if said.raw_bytes && b.p.mode == Mode::Http && b.p.kind != ProxyKind::Defaults {
        let message = format!(
            "Proxy '{}': L6 sample fetches are unreliable on HTTP proxies (declared at {}:{}).",
            b.p.name,
            cx.sources.name(span.file),
            span.line
        );
        cx.diagnostics.push(Diagnostic::new(Severity::Warning, Lead::Bare, Some(span), message));
    }
    say(cx, span, said);
    result
}

/// Shows warnings and late errors of a compilation.
pub(crate) fn say(cx: &mut Cx<'_>, span: Span, said: Said) {
    for warning in said.warnings {
        let lead = if warning.starts_with("parsing ") { Lead::Config } else { Lead::Parsing };
        cx.diagnostics.push(Diagnostic::new(Severity::Warning, lead, Some(span), warning));
    }
    for error in said.late {
        let message = format!("parsing [{}:{}]: {error}.", cx.sources.name(span.file), span.line);
        cx.diagnostics.push(Diagnostic::new(
            Severity::Alert,
            Lead::Bare,
            Some(span),
            message.replace("..", "."),
        ));
    }
}

/// A condition that must be there: `if ...` or `unless ...`.
pub(crate) fn required_condition(
    cx: &mut Cx<'_>,
    b: &mut Building,
    line: &Line,
    index: usize,
    name: &str,
    at: Where,
) -> Result<Arc<Condition>, Box<Diagnostic>> {
    if !matches!(line.text(index), "if" | "unless") {
        let message = format!("'{name}' requires either 'if' or 'unless' followed by a condition.");
        return Err(fail(line, index, message));
    }
    condition(cx, b, line, index, at, name)
}

/// The condition that starts at `index`.
pub(crate) fn condition(
    cx: &mut Cx<'_>,
    b: &mut Building,
    line: &Line,
    index: usize,
    at: Where,
    name: &str,
) -> Result<Arc<Condition>, Box<Diagnostic>> {
    let words = words(line, index);
    let result =
        with_env(cx, b, line.span_from(index), at.points(), "", |env| Condition::compile(&words, env));
    result.map(Arc::new).map_err(|e| {
        let mut complaint = fail(line, index, format!("{}{}", at.complaint(name), sentence(&e)));
        if let (Some(span), Some(last)) = (line.word(index).map(|w| w.span), line.words.last()) {
            complaint.span = Some(span.to(last.span));
        }
        complaint
    })
}

/// The format in the word at `index` of a line of routing.
pub(crate) fn log_format(
    cx: &mut Cx<'_>,
    b: &mut Building,
    line: &Line,
    index: usize,
    at: Where,
    name: &str,
) -> Result<Arc<LogFormat>, Box<Diagnostic>> {
    let text = line.text(index).to_owned();
    let span = line.span_at(index);
    format_at(cx, b, &text, span, at.points(), Usage::Raw, name).map(Arc::new).map_err(|e| {
        let place = format!("{}:{}", cx.sources.name(span.file), span.line);
        let message = match at {
            Where::UseServer => {
                format!("Parsing [{place}]; use-server rule failed to parse log-format '{text}' : {e}.")
            }
            _ => format!("Parsing [{place}]: failed to parse use_backend rule '{text}' : {e}."),
        };
        Box::new(Diagnostic::new(Severity::Alert, Lead::Bare, Some(span), message))
    })
}

/// Compiles a format.
pub(crate) fn format_at(
    cx: &mut Cx<'_>,
    b: &Building,
    text: &str,
    span: Span,
    points: Points,
    usage: Usage,
    context: &str,
) -> Result<LogFormat, String> {
    with_env(cx, b, span, points, context, |env| LogFormat::compile(text, usage, env))
}

/// Compiles an expression and checks that it can be evaluated at these points.
pub(crate) fn expression_here(
    cx: &mut Cx<'_>,
    b: &Building,
    text: &str,
    span: Span,
    points: Points,
    context: &str,
) -> Result<Expr, String> {
    let expr = expression_at(cx, b, text, span, points, context)?;
    if !expr.fetch.points.meets(points) {
        return Err(format!(
            "fetch method '{text}' extracts information from '{}', none of which is available here",
            expr.fetch.needs
        ));
    }
    Ok(expr)
}

/// Compiles an expression, wherever it can be evaluated.
pub(crate) fn expression_at(
    cx: &mut Cx<'_>,
    b: &Building,
    text: &str,
    span: Span,
    points: Points,
    context: &str,
) -> Result<Expr, String> {
    with_env(cx, b, span, points, context, |env| Expr::compile(text, env))
}

/// `set-var` and `set-var-fmt` of `global`, once all names are known.
pub(crate) fn process_variable(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    let keyword = line.text(0);
    let what = if keyword == "set-var" { "a sample expression" } else { "a format string" };
    if !line.text(1).starts_with("proc.") && line.text(1).contains('.') || line.words.len() < 3 {
        let message =
            format!("'{keyword}' requires a process-wide variable name ('proc.<name>') and {what}.");
        return Err(fail(line, 1, message));
    }
    cx.late_globals.push(line.clone());
    Ok(())
}

/// Compiles the process variables.
pub(crate) fn process_variables(cx: &mut Cx<'_>) {
    for line in std::mem::take(&mut cx.late_globals) {
        let holder = crate::proxy::fresh(line.span());
        let span = line.span_at(2);
        let name = line.text(1);
        if let Err(message) = VarRef::parse(name) {
            cx.diagnostics.push(*fail(&line, 1, message));
            continue;
        }
        let points = Point::Config.set();
        let value = if line.text(0) == "set-var" {
            expression_here(cx, &holder, line.text(2), span, points, "")
                .map(|e| crate::model::ProcessValue::Expr(Box::new(e)))
        } else {
            format_at(cx, &holder, line.text(2), span, points, Usage::Raw, "")
                .map(crate::model::ProcessValue::Format)
        };
        match value {
            Ok(value) => {
                let name = cx.name(name);
                cx.config.global.set_var.push(ProcessVariable { name, value: Arc::new(value) });
            }
            Err(e) => cx.diagnostics.push(*fail(&line, 2, e)),
        }
    }
}
