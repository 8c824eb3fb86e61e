//! What is being built while the files are read.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use thalweg_rules::Ruleset;
use thalweg_syntax::{Diagnostic, Diagnostics, Line, Reader, SourceMap, Span};

use crate::LoadOptions;
use crate::model::{
    Capture, Config, Proxy, ProxyHeader, ProxyHeaderV2, ProxyId, ProxyKind, Server, UnixOwner,
};

/// Everything shared by the sections of one load.
pub(crate) struct Cx<'a> {
    pub options: &'a LoadOptions<'a>,
    /// What a line joins that is read at run time; none while files are read.
    pub in_force: Option<&'a Config>,
    /// The proxy that is read gets its number when it joins.
    pub is_numberless: bool,
    pub sources: SourceMap,
    pub reader: Reader,
    pub diagnostics: Diagnostics,
    pub config: Config,
    /// Names seen so far, so that equal ones share their memory.
    pub names: HashSet<Arc<str>>,
    /// Name of each file, by its position in `sources`.
    pub file_names: Vec<Arc<str>>,
    /// All `defaults` sections, in order.
    pub defaults: Vec<Arc<DefaultsSection>>,
    /// Proxies so far.
    pub proxies: Vec<Building>,
    /// Where a proxy of that name is in `proxies`: first one with a frontend's side, first one with a backend's.
    pub by_name: HashMap<Arc<str>, ProxyId>,
    pub unix_bind: UnixBindDefaults,
    /// `server-state-file`, `server-state-base`
    pub state_file: Option<Arc<str>>,
    pub state_base: Option<Arc<str>>,
    /// Where the first section other than `global` began, for messages about order.
    pub non_global_seen: bool,
    pub guids: HashMap<Arc<str>, Span>,
    /// Of each proxy, filled when all are read.
    pub sides: Vec<Sides>,
    /// Where each proxy is declared.
    pub places: Vec<Span>,
    pub name_table: crate::sample_env::NameTable,
    pub registry: Arc<thalweg_sample::Registry>,
    /// Formats compiled so far.
    pub formats: HashMap<crate::finish::FormatKey, Arc<thalweg_sample::LogFormat>>,
    /// The error pages of the last proxy that has some: the next one often has the same.
    pub last_errors: Option<LastErrors>,
    /// `log-profile` sections so far.
    pub log_profiles: Vec<crate::log_profile::ProfileDraft>,
    /// `mailers` sections, and where they begin.
    pub mailers: Vec<(Arc<crate::model::Mailers>, String)>,
    /// Lines of `traces` sections, which may name what is declared later.
    pub traces: Vec<Line>,
    /// `healthcheck` sections.
    pub healthchecks: Vec<crate::check::section::HealthcheckDraft>,
    /// Bandwidth limitations so far.
    pub bandwidth_filters: u32,
    /// `peers` sections so far.
    pub peers: Vec<crate::peers::PeersDraft>,
    /// Stick tables so far, by their number.
    pub tables: Vec<crate::proxy::TableDraft>,
    /// How many of them rules of each proxy made.
    pub made_tables: HashMap<Arc<str>, usize>,
    /// Names that `log` lines use and that may be declared later.
    pub log_names: Vec<crate::log::LogName>,
    /// The `log-forward` sections and where they begin.
    pub log_forward_names: Vec<(Arc<str>, Span)>,
    /// `log-forward` sections, and their listeners.
    pub log_forwards: Vec<(crate::model::LogForward, Box<Building>)>,
    /// Where the first `stats socket` is.
    pub cli: Option<Span>,
    /// The servers of `ring` sections, with the rings' names.
    pub ring_servers: Vec<(Arc<str>, Box<Building>)>,
    /// The name servers that are asked over streams, with the positions of their `resolvers` sections.
    pub name_servers: Vec<(usize, Box<Building>)>,
    /// The servers of the `opentelemetry` section.
    pub collectors: Option<Box<Building>>,
    /// The `resolvers` sections and where they begin.
    pub resolvers_names: Vec<(Arc<str>, Span)>,
    pub experimental_used: bool,
    /// Where each `default-path` is, by file and line, and what it says: it holds for the lines that follow.
    pub default_paths: Vec<((usize, u32), DefaultPath)>,
    /// Keywords of `global` of which the first line counts, seen so far.
    pub given: HashSet<Arc<str>>,
    /// What the line that is being read says.
    pub said: crate::outline::Said,
    /// `crt-store` sections so far.
    pub stores: Vec<crate::tls::StoreDraft>,
    /// Lines of `global` that hold expressions.
    pub late_globals: Vec<Line>,
    /// Answers of the system's resolver: a name is asked once.
    pub host_cache: HashMap<Arc<str>, Option<std::net::IpAddr>>,
}

/// `default-path`: what relative names of files that are read are relative to.
#[derive(Clone, Debug)]
pub(crate) enum DefaultPath {
    /// The directory the program runs in.
    Current,
    /// The directory of the file that has the name.
    Config,
    /// The parent of that directory.
    Parent,
    /// This one.
    Origin(PathBuf),
}

/// `unix-bind`.
#[derive(Clone, Default)]
pub(crate) struct UnixBindDefaults {
    pub prefix: Option<Arc<str>>,
    pub owner: UnixOwner,
}

/// A finished `defaults` section.
pub(crate) struct DefaultsSection {
    pub name: Option<Arc<str>>,
    pub building: Building,
    pub span: Span,
    /// What its late lines became, if it has some.
    pub compiled: OnceLock<Inherited>,
    /// Set when a proxy names it.
    pub named: OnceLock<()>,
    /// Set when a proxy has it because it is the last one.
    pub implied: OnceLock<()>,
}

/// What proxies inherit of the late lines of a `defaults` section: compiled once, and shared by all that inherit it.
pub(crate) struct Inherited {
    pub rules: [Ruleset; 7],
    /// Slots of requests and of responses.
    pub captures: (Arc<[Capture]>, Arc<[Capture]>),
    /// Frontends inherit it, so that no backend can.
    pub by_frontends: bool,
}

impl DefaultsSection {
    /// Where it is, for messages.
    pub fn place(&self) -> String {
        format!("{}:{}", self.building.p.file, self.building.p.line)
    }

    /// Whether it has rules whose first word is `name` and whose second is one of these.
    pub fn has_rules_of(&self, name: &str, of: &[&str]) -> bool {
        self.building.late.iter().any(|line| line.text(0) == name && of.contains(&line.text(1)))
    }
}

/// Where a log format comes from: compiled when the section's mode and the file are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FormatSource {
    TcpLog { clf: bool },
    HttpLog { style: LogStyle, span: Span },
    Text { text: Arc<str>, span: Span },
}

/// The word after `option httplog`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogStyle {
    Usual,
    Clf,
    /// One JSON object per line; ours.
    Json,
    /// `httpslog`: with what is known of TLS.
    Tls,
}

/// Options that the file decided, and not the default of the mode.
#[derive(Clone, Copy, Default)]
pub(crate) struct Decided {
    pub abortonclose: bool,
    pub tcp_smart_accept: bool,
}

/// A proxy, or a `defaults` section, being read.
pub(crate) struct Building {
    pub p: Proxy,
    pub span: Span,
    pub presets: crate::presets::Presets,
    /// `email-alert`
    pub email: crate::mailers::EmailDraft,
    pub log_format: Option<FormatSource>,
    pub error_log_format: Option<FormatSource>,
    pub log_format_sd: Option<FormatSource>,
    pub unique_id: Option<FormatSource>,
    /// Expression of `balance hash` or (true) `balance log-hash`.
    pub balance_expr: Option<(Arc<str>, Span, bool)>,
    pub forwarded: Option<Arc<ForwardedDraft>>,
    /// Health checks.
    pub check: Arc<crate::check::CheckDraft>,
    pub default_backend: Option<(Arc<str>, Span)>,
    /// Lines about error pages, inherited ones first.
    pub error_rules: Vec<(Arc<thalweg_rules::ErrorRule>, Span)>,
    /// Rules and ACLs while the late lines are read; never inherited as such.
    pub drafts: Option<Box<crate::rules::Drafts>>,
    /// The last statements seen in the order in which they run, to warn about misplaced ones.
    pub order: crate::proxy::Order,
    pub decided: Decided,
    /// The section it inherits rules from.
    pub from: Option<Arc<DefaultsSection>>,
    /// A `defaults` section that holds rules.
    pub has_rules: bool,
    pub bind_seen: bool,
    /// This section itself has a `stats` line.
    pub stats_here: bool,
    /// Which `timeout`s this section itself gave.
    pub timeouts_here: u16,
    /// `mode` was said here, or in what this inherits from.
    pub mode_here: bool,
    /// Lines read once all names are known, in order.
    pub late: Vec<Line>,
    /// Words of `filter-sequence` lines: whether of requests, the name of a filter, and where it is.
    pub filter_names: Vec<(bool, Arc<str>, Span)>,
    /// Whose its servers are.
    pub whose: crate::meaning::Servers,
    /// Lines of servers by name, to refuse a second one.
    pub server_names: HashMap<Arc<str>, u32>,
    /// Some server has an address of datagrams.
    pub datagram_servers: bool,
    /// Servers that have the state of another one, by position: which, and where that is said.
    pub tracks: Vec<(usize, Arc<str>, Span)>,
    /// Servers whose names are resolved while the program runs.
    pub resolutions: Vec<ResolutionDraft>,
    /// Servers whose names are resolved at the start.
    pub named: Vec<NamedDraft>,
    /// `load-server-state-from-file`
    pub state_source: StateSource,
    /// `server-state-file-name`, unless it is the name of the backend.
    pub state_file: Option<Arc<str>>,
    /// Servers that name a `healthcheck` section.
    pub healthchecks: Vec<(usize, Arc<str>, Span)>,
    /// Servers with fields of their own in the PROXY header, by position.
    pub proxy_fields: Vec<(usize, Arc<Vec<ProxyFieldDraft>>)>,
    /// Servers whose connections have names (`pool-conn-name`), by position: the expression, and where it is.
    pub pool_names: Vec<(usize, Arc<str>, Span)>,
    /// `ssl-f-use`
    pub certificates: Vec<crate::tls::FrontendCertificate>,
}

/// `option forwarded` before its expressions are compiled.
#[derive(Clone, Debug)]
pub(crate) struct ForwardedDraft {
    pub span: Span,
    pub proto: bool,
    /// Absent, from the connection, or from an expression.
    pub host: Option<Option<Arc<str>>>,
    pub by: Option<Option<Arc<str>>>,
    pub by_port: Option<Option<Arc<str>>>,
    pub for_: Option<Option<Arc<str>>>,
    pub for_port: Option<Option<Arc<str>>>,
}

impl ForwardedDraft {
    pub fn default_at(span: Span) -> ForwardedDraft {
        ForwardedDraft { span, proto: false, host: None, by: None, by_port: None, for_: None, for_port: None }
    }
}

/// Lines about error pages and what they gave.
pub(crate) type LastErrors = (Vec<(Arc<thalweg_rules::ErrorRule>, Span)>, Arc<thalweg_rules::ErrorReplies>);

/// What other proxies need to know of one: kept apart, because the proxy itself is being changed meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides {
    pub frontend: bool,
    pub backend: bool,
    pub mode: crate::model::Mode,
}

/// A server with what is known of it only while reading.
#[derive(Clone, Debug)]
pub(crate) struct ServerDraft {
    pub server: Server,
    /// `check` was given.
    pub check: bool,
    /// The address is one of datagrams: for log backends only.
    pub datagram: bool,
    pub init_addr: Arc<[InitAddr]>,
    /// The section it is in, for messages.
    pub backend: Arc<str>,
    /// `send-proxy` and its kin.
    pub proxy_header: ProxyHeaderDraft,
    /// `track`, with its place.
    pub track: Option<(Arc<str>, Span)>,
    /// `healthcheck`, with its place.
    pub healthcheck: Option<(Arc<str>, Span)>,
    /// `set-proxy-v2-tlv-fmt`: compiled when all names are known. Shared by the servers of a template.
    pub proxy_fields: Arc<Vec<ProxyFieldDraft>>,
    /// `pool-conn-name`, with its place.
    pub pool_name: Option<(Arc<str>, Span)>,
    /// `resolvers`, with its place.
    pub resolvers: Option<(Arc<str>, Span)>,
    /// `resolve-prefer`, `resolve-net`, `resolve-opts`.
    pub preference: thalweg_dns::Preference,
}

/// What the words about the PROXY header said so far: each changes its own part, so that their order does not count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProxyHeaderDraft {
    pub v1: bool,
    /// Counts before version 1.
    pub v2: bool,
    pub options: ProxyHeaderV2,
}

impl ProxyHeaderDraft {
    /// What comes to this.
    pub fn of(header: &ProxyHeader) -> ProxyHeaderDraft {
        match header {
            ProxyHeader::None => ProxyHeaderDraft::default(),
            ProxyHeader::V1 => ProxyHeaderDraft { v1: true, ..ProxyHeaderDraft::default() },
            ProxyHeader::V2(options) => ProxyHeaderDraft { v1: false, v2: true, options: *options },
        }
    }

    /// What comes of it.
    pub fn outcome(&self) -> ProxyHeader {
        match (self.v1, self.v2) {
            (_, true) => ProxyHeader::V2(self.options),
            (true, false) => ProxyHeader::V1,
            (false, false) => ProxyHeader::None,
        }
    }
}

/// A server that asks a `resolvers` section, which may be declared later.
#[derive(Clone, Debug)]
pub(crate) struct ResolutionDraft {
    /// Its position.
    pub server: usize,
    pub section: Arc<str>,
    pub span: Span,
    pub preference: thalweg_dns::Preference,
}

/// Which file has the states that the servers of a backend had in a former process (`load-server-state-from-file`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StateSource {
    /// It is not said: `state-dir`, if there is one.
    #[default]
    Kept,
    /// None: they begin anew.
    None,
    /// `server-state-file` of `global`.
    Global,
    /// One of its own.
    Local,
}

/// A server whose address is found by a name once all of the file is read, for the last address that it had may be in another one.
#[derive(Clone, Debug)]
pub(crate) struct NamedDraft {
    /// Its position.
    pub server: usize,
    /// `init-addr`
    pub methods: Arc<[InitAddr]>,
    /// The name is resolved while the program runs, too.
    pub later: bool,
    /// Where the name is.
    pub span: Span,
}

/// One `set-proxy-v2-tlv-fmt`.
#[derive(Clone, Debug)]
pub(crate) struct ProxyFieldDraft {
    pub kind: u8,
    /// The format; `None` for an empty value.
    pub text: Option<Arc<str>>,
    pub span: Span,
}

/// One step of `init-addr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitAddr {
    Last,
    Libc,
    None,
    Ip(std::net::IpAddr),
}

impl Cx<'_> {
    /// The shared copy of a name.
    pub fn name(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.names.get(text) {
            return Arc::clone(known);
        }
        let name: Arc<str> = Arc::from(text);
        self.names.insert(Arc::clone(&name));
        name
    }

    /// The shared name of the file a line is in.
    pub fn file_of(&mut self, line: &Line) -> Arc<str> {
        let index = line.file.index();
        while self.file_names.len() <= index {
            let id = self.sources.files().nth(self.file_names.len());
            let name = id.map_or("", |id| self.sources.name(id));
            self.file_names.push(Arc::from(name));
        }
        Arc::clone(&self.file_names[index])
    }

    /// Whether this is the first line of its keyword; a later one is told that it does not count.
    pub fn is_first(&mut self, line: &Line) -> bool {
        let name = self.name(line.text(0));
        let first = self.given.insert(Arc::clone(&name));
        if !first {
            self.warn(line, 0, format!("'{name}' already specified. Continuing."));
        }
        first
    }

    /// The directory that relative names in a line start from, unless it is the one the program runs in.
    pub fn base_directory(&self, place: Span) -> Option<PathBuf> {
        let at = (place.file.index(), place.line);
        let (_, policy) = self.default_paths.iter().rev().find(|(since, _)| *since <= at)?;
        let own =
            || self.sources.name(place.file).rsplit_once('/').map(|(directory, _)| format!("{directory}/"));
        match policy {
            DefaultPath::Current => None,
            DefaultPath::Config => own().map(PathBuf::from),
            DefaultPath::Parent => Some(PathBuf::from(own().unwrap_or_default() + "..")),
            DefaultPath::Origin(path) => Some(path.clone()),
        }
    }

    /// A warning about the word at `index`.
    pub fn warn(&mut self, line: &Line, index: usize, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::warning_at(line.span_at(index), message));
    }
}

impl Building {
    /// How messages name the proxy: `frontend 'f'`.
    pub fn title(&self) -> String {
        format!("{} '{}'", self.kind_shown(), self.p.name)
    }

    /// How messages name the kind of section: a `listen` is a proxy.
    pub fn kind_shown(&self) -> &'static str {
        match self.p.kind {
            ProxyKind::Listen => "proxy",
            kind => kind.keyword(),
        }
    }

    /// A section that starts with the presets of this one. Rules are not among them: they are shared otherwise.
    pub fn heir(&self) -> Building {
        Building {
            p: self.p.clone(),
            span: self.span,
            presets: self.presets.heir(),
            email: self.email.clone(),
            log_format: self.log_format.clone(),
            error_log_format: self.error_log_format.clone(),
            log_format_sd: self.log_format_sd.clone(),
            unique_id: self.unique_id.clone(),
            balance_expr: self.balance_expr.clone(),
            forwarded: self.forwarded.clone(),
            check: Arc::new(self.check.heir()),
            default_backend: self.default_backend.clone(),
            error_rules: self.error_rules.clone(),
            decided: self.decided,
            drafts: None,
            order: crate::proxy::Order::default(),
            from: None,
            has_rules: false,
            bind_seen: false,
            stats_here: false,
            timeouts_here: 0,
            mode_here: self.mode_here,
            late: Vec::new(),
            filter_names: Vec::new(),
            whose: Default::default(),
            server_names: HashMap::new(),
            datagram_servers: false,
            resolutions: Vec::new(),
            tracks: Vec::new(),
            named: Vec::new(),
            state_source: self.state_source,
            state_file: self.state_file.clone(),
            healthchecks: Vec::new(),
            proxy_fields: Vec::new(),
            pool_names: Vec::new(),
            certificates: Vec::new(),
        }
    }

    /// Whether the section may hold what concerns a frontend. A `defaults` section may.
    pub fn may_be_frontend(&self) -> bool {
        self.p.is_fe() || self.p.kind == ProxyKind::Defaults
    }

    /// Whether the section may hold what concerns a backend. A `defaults` section may.
    pub fn may_be_backend(&self) -> bool {
        self.p.is_be() || self.p.kind == ProxyKind::Defaults
    }

    /// Warns that a keyword is ignored here, when it is: it needs a frontend.
    pub fn needs_frontend(&self, cx: &mut Cx<'_>, line: &Line, name: &str, hint: &str) {
        if !self.may_be_frontend() {
            cx.warn(
                line,
                0,
                format!("'{name}' ignored because {} has no frontend capability.{hint}", self.title()),
            );
        }
    }

    /// Warns that a keyword is ignored here, when it is: it needs a backend.
    pub fn needs_backend(&self, cx: &mut Cx<'_>, line: &Line, name: &str, hint: &str) {
        if !self.may_be_backend() {
            cx.warn(
                line,
                0,
                format!("'{name}' ignored because {} has no backend capability.{hint}", self.title()),
            );
        }
    }
}
