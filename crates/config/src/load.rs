//! From files to a configuration.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use thalweg_syntax::{
    Diagnostic, Diagnostics, DiskLoader, Environment, Facts, Lead, Line, Loader, Reader, Severity, SourceMap,
    did_you_mean,
};

use crate::build::{Building, Cx, UnixBindDefaults};
use crate::check::section::HealthcheckDraft;
use crate::follow::After;
use crate::keyword::{NoteBoxed, Outcome, Status, fail, find, not_supported};
use crate::log_forward::ForwardDraft;
use crate::log_profile::ProfileDraft;
use crate::mailers::{self, MailersDraft};
use crate::model::Config;
use crate::namespaces::{self, NamespacesDraft};
use crate::opentelemetry::{self, OpenTelemetryDraft};
use crate::outline::{OutlineLine, Said, Section as OutlineSection};
use crate::peers::PeersDraft;
use crate::resolvers::ResolversDraft;
use crate::ring::RingDraft;
use crate::table::{SECTIONS, SectionKind};
use crate::tls::StoreDraft;
use crate::userlist::UserlistDraft;
use crate::written::Written;
use crate::{
    check, finish, global, http_errors, log_forward, log_profile, peers, proxy, resolvers, ring, tls, traces,
    userlist,
};
use thalweg_sample::logformat as formats;

/// A file to read.
#[derive(Clone, Debug)]
pub enum Input {
    /// A file or a directory of `.cfg` files.
    Path(String),
    /// A text, with the name that messages show.
    Memory {
        /// Its name.
        name: String,
        /// Its content.
        text: Vec<u8>,
    },
}

/// Finds the first address of a host name in a family.
pub type HostResolver = fn(&str, thalweg_syntax::address::Family) -> Option<std::net::IpAddr>;

/// Says what is wrong with a descriptor that the program was started with.
pub type DescriptorCheck = fn(i32) -> Result<(), &'static str>;

/// What the command line says about the configuration.
pub struct LoadOptions<'a> {
    /// The files, in order (`-f`, `--`).
    pub files: Vec<Input>,
    /// Where files come from; [`DiskLoader`] but in tests.
    pub loader: &'a dyn Loader,
    /// What `.if` is answered from.
    pub facts: Facts,
    /// The environment the files see.
    pub environment: Environment,
    /// `-L`: name of this instance.
    pub local_peer: Option<String>,
    /// `-n`: most concurrent connections of the process, in place of `maxconn`.
    pub maxconn: Option<usize>,
    /// `-N`: most concurrent connections of a proxy that does not say.
    pub proxy_maxconn: Option<u32>,
    /// `-m`: most memory, in megabytes.
    pub memory_max_mb: Option<u64>,
    /// Threads of a configuration that does not say: the usable CPUs.
    pub cpus: usize,
    /// Files this process may open, soft and hard, which bound a computed `maxconn`.
    pub file_limit: (u64, u64),
    /// Finds the first address of a host name; the system's resolver but in tests.
    pub resolver: HostResolver,
    /// What is wrong with a descriptor that `fd@` names, if anything; asks the system but in tests.
    pub inherited: DescriptorCheck,
    /// `-dr`: servers whose name cannot be resolved are accepted.
    pub ignore_resolution: bool,
    /// False with `-dV`: servers are not verified whose line does not say, unless `ssl-server-verify` does.
    pub verify_servers: bool,
    /// What `use-service` may name.
    pub services: &'a [&'a str],
    /// Whether an `opentelemetry` section is allowed: the program may have been built without it.
    pub opentelemetry: bool,
    /// The configuration in force that this one is to follow; `None` for the first one of a process.
    pub after: Option<After<'a>>,
}

impl Default for LoadOptions<'_> {
    fn default() -> Self {
        LoadOptions {
            files: Vec::new(),
            loader: &DiskLoader,
            facts: Facts::default(),
            environment: Environment::empty(),
            local_peer: None,
            maxconn: None,
            proxy_maxconn: None,
            memory_max_mb: None,
            cpus: 1,
            file_limit: (1024, 1024),
            resolver: crate::resolve::system_resolver,
            inherited: crate::resolve::inherited_socket,
            ignore_resolution: false,
            verify_servers: true,
            services: &[],
            opentelemetry: true,
            after: None,
        }
    }
}

/// What reading gives.
pub struct Loaded {
    /// The configuration; absent when there were errors.
    pub config: Option<Config>,
    /// Everything there is to say.
    pub diagnostics: Diagnostics,
    /// The texts, for showing the diagnostics.
    pub sources: SourceMap,
}

/// The section whose lines are being read.
enum Section {
    /// Before the first one, or after one that could not be opened: its lines are passed over.
    None,
    Skipped,
    Global,
    Proxy(Box<Building>),
    Userlist(UserlistDraft),
    HttpErrors(Box<thalweg_rules::HttpErrors>),
    LogProfile(ProfileDraft),
    Ring(Box<RingDraft>),
    Resolvers(Box<ResolversDraft>),
    CrtStore(Box<StoreDraft>),
    LogForward(Box<ForwardDraft>),
    Peers(Box<PeersDraft>),
    Healthcheck(Box<HealthcheckDraft>),
    Mailers(Box<MailersDraft>),
    OpenTelemetry(Box<OpenTelemetryDraft>),
    Traces,
    Namespaces(NamespacesDraft),
}

/// What a master process must know of a configuration before a worker reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSettings {
    /// `daemon`.
    pub daemon: bool,
    /// `quiet`.
    pub quiet: bool,
    /// `pidfile`.
    pub pidfile: Option<std::path::PathBuf>,
}

/// Lines of `global` that [`process_settings`] follows: what it looks for, and what may change how other lines read.
const PROCESS_LINES: [&str; 7] =
    ["daemon", "quiet", "pidfile", "setenv", "presetenv", "unsetenv", "resetenv"];

/// Looks only for [`ProcessSettings`], and says nothing about what is wrong.
pub fn process_settings(options: &LoadOptions<'_>) -> ProcessSettings {
    let mut cx = Cx::new(options);
    let mut global = false;
    for_each_line(&mut cx, |cx, event| match event {
        Event::Line(line) if find(SECTIONS, line.text(0)).is_some() => global = line.text(0) == "global",
        Event::Line(line) if global && PROCESS_LINES.contains(&line.text(0)) => {
            // The worker reads the line, too, and says what is wrong with it.
            let _ = global::line(cx, line);
        }
        Event::Line(_) | Event::EndOfFile => {}
    });
    let global = cx.config.global;
    ProcessSettings { daemon: global.daemon, quiet: global.quiet, pidfile: global.pidfile.clone() }
}

/// Log formats that a configuration may refer to and redefine (configuration manual, sections 2.3 and 8.2).
const LOG_FORMATS: [(&str, &str); 7] = [
    ("HAPROXY_TCP_LOG_FMT", formats::TCP_LOG_FMT),
    ("HAPROXY_TCP_CLF_LOG_FMT", formats::TCP_CLF_LOG_FMT),
    ("HAPROXY_HTTP_LOG_FMT", formats::HTTP_LOG_FMT),
    ("HAPROXY_HTTP_CLF_LOG_FMT", formats::HTTP_CLF_LOG_FMT),
    ("HAPROXY_HTTPS_LOG_FMT", formats::HTTPS_LOG_FMT),
    ("HAPROXY_KEYLOG_FC_LOG_FMT", formats::KEYLOG_FC_LOG_FMT),
    ("HAPROXY_KEYLOG_BC_LOG_FMT", formats::KEYLOG_BC_LOG_FMT),
];

/// Keeps what backends and servers may start with that are added at run time, unless `tune.defaults.purge` says otherwise.
fn keep_presets(cx: &mut Cx<'_>) {
    let tune = &cx.config.global.tune;
    if tune.purge_server_presets {
        let kept = cx.proxies.iter_mut().filter(|building| building.p.rare().presets.is_some());
        kept.for_each(|building| building.p.rare_mut().presets = None);
    }
    if !tune.purge_defaults {
        let named = cx.defaults.iter().filter(|section| section.name.is_some());
        cx.config.presets = named.cloned().collect();
        cx.config.named_defaults = cx.defaults.iter().filter_map(|section| section.name.clone()).collect();
    }
}

/// Reads, checks and completes a configuration. All errors of all files are found in one run.
pub fn load(options: &LoadOptions<'_>) -> Loaded {
    let mut cx = Cx::new(options);
    read_files(&mut cx);
    keep_presets(&mut cx);
    cx.config.mailers = cx.mailers.iter().map(|(mailers, _)| Arc::clone(mailers)).collect();
    let readable = !cx.diagnostics.aborted();
    if readable {
        finish::finish(&mut cx);
    }
    // These are for the files only: the reference does not list them afterwards either.
    for (name, _) in LOG_FORMATS {
        cx.reader.environment.unset(name);
    }
    cx.config.environment = cx.reader.environment;
    cx.config.written = Arc::new(Written::of(options, &cx.sources));
    let failed = cx.diagnostics.has_errors() || cx.diagnostics.aborted();
    let diagnostics = in_file_order(&cx.diagnostics, &cx.sources);
    Loaded { config: (!failed).then_some(cx.config), diagnostics, sources: cx.sources }
}

impl<'a> Cx<'a> {
    /// Nothing read yet.
    pub(crate) fn new(options: &'a LoadOptions<'a>) -> Cx<'a> {
        let mut cx = Cx {
            options,
            in_force: None,
            is_numberless: false,
            mailers: Vec::new(),
            traces: Vec::new(),
            sources: SourceMap::new(),
            reader: Reader::new(options.facts.clone(), options.environment.clone()),
            diagnostics: Diagnostics::new(),
            config: Config { rings: vec![crate::ring::buf0()], ..Config::default() },
            names: HashSet::new(),
            file_names: Vec::new(),
            defaults: Vec::new(),
            proxies: Vec::new(),
            by_name: HashMap::new(),
            unix_bind: UnixBindDefaults::default(),
            state_file: None,
            state_base: None,
            non_global_seen: false,
            guids: HashMap::new(),
            sides: Vec::new(),
            places: Vec::new(),
            name_table: crate::sample_env::NameTable::default(),
            registry: options.after.map_or_else(Arc::default, |after| {
                Arc::new(thalweg_sample::Registry::following(
                    (!after.force).then_some(&after.config.registry),
                ))
            }),
            formats: HashMap::new(),
            last_errors: None,
            log_profiles: Vec::new(),
            healthchecks: Vec::new(),
            bandwidth_filters: 0,
            peers: Vec::new(),
            tables: Vec::new(),
            made_tables: HashMap::new(),
            log_names: Vec::new(),
            log_forward_names: Vec::new(),
            log_forwards: Vec::new(),
            cli: None,
            ring_servers: Vec::new(),
            name_servers: Vec::new(),
            collectors: None,
            resolvers_names: Vec::new(),
            experimental_used: false,
            default_paths: Vec::new(),
            given: HashSet::new(),
            host_cache: HashMap::new(),
            late_globals: Vec::new(),
            said: Said::default(),
            stores: Vec::new(),
        };
        cx.config.global.tls.verify_servers = options.verify_servers;
        if let Some(peer) = &options.local_peer {
            cx.config.global.localpeer = Some(Arc::from(peer.as_str()));
            cx.reader.environment.set("HAPROXY_LOCALPEER", peer.as_bytes());
        }
        for (name, text) in LOG_FORMATS {
            cx.reader.environment.set(name, text.as_bytes());
        }
        cx
    }
}

/// What [`for_each_line`] comes to.
pub(crate) enum Event {
    Line(Line),
    EndOfFile,
}

fn read_files(cx: &mut Cx<'_>) {
    let mut section = Section::None;
    for_each_line(cx, |cx, event| match event {
        Event::Line(line) => take_line(cx, &mut section, line),
        Event::EndOfFile => close(cx, &mut section),
    });
}

/// Reads all files, and their lines as far as `.if` and its kin let them through.
pub(crate) fn for_each_line(cx: &mut Cx<'_>, mut take: impl FnMut(&mut Cx<'_>, Event)) {
    let mut ids = Vec::new();
    for input in &cx.options.files {
        match input {
            Input::Memory { name, text } => ids.push(cx.sources.add(name.clone(), text.clone())),
            Input::Path(path) => {
                let paths =
                    match thalweg_syntax::source::expand_paths(cx.options.loader, std::slice::from_ref(path))
                    {
                        Ok(paths) => paths,
                        Err(e) => {
                            cx.diagnostics.push(e);
                            cx.diagnostics.abort();
                            return;
                        }
                    };
                for path in paths {
                    match cx.sources.load(cx.options.loader, &path) {
                        Ok(id) => ids.push(id),
                        Err(e) => {
                            cx.diagnostics.push(e);
                            cx.diagnostics.abort();
                            return;
                        }
                    }
                }
            }
        }
    }
    for id in ids {
        cx.reader.start_file(id);
        while let Some(line) = cx.reader.next_line(&cx.sources, &mut cx.diagnostics) {
            take(cx, Event::Line(line));
        }
        take(cx, Event::EndOfFile);
        if cx.diagnostics.aborted() {
            return;
        }
    }
}

/// One line: opens a section or belongs to the current one.
fn take_line(cx: &mut Cx<'_>, section: &mut Section, line: Line) {
    let result = match find(SECTIONS, line.text(0)) {
        // `global` has neither of these keywords, and `ring` has a `server`, so the words cannot be confused.
        Some(keyword) => {
            close(cx, section);
            *section = Section::Skipped;
            cx.said = Said::by(&line);
            let name = if line.words.len() > 1 { line.text(1) } else { line.text(0) };
            cx.reader.set_section(name);
            match keyword.status {
                Status::Works(kind) => {
                    outline(cx, &line);
                    open(cx, &line, kind).map(|opened| *section = opened)
                }
                Status::NotYet(why) => {
                    Err(not_supported(&line, 0, &format!("section '{}'", line.text(0)), why))
                }
                Status::Removed(sentence) => Err(fail(&line, 0, sentence).help_boxed(
                    "let the service manager start such programs: under systemd, each in a unit of its own",
                )),
            }
        }
        None => section_line(cx, section, line),
    };
    if let Err(diagnostic) = result {
        cx.diagnostics.push(*diagnostic);
    }
}

/// Notes that a section begins.
fn outline(cx: &mut Cx<'_>, line: &Line) {
    let (keyword, name, file) = (cx.name(line.text(0)), cx.name(line.text(1)), cx.file_of(line));
    let section = OutlineSection { keyword, name, file, line: line.number, lines: Vec::new() };
    cx.config.outline.sections.push(section);
}

/// Notes what a line of a section says.
fn note(cx: &mut Cx<'_>, section: &mut Section, line: &Line) {
    cx.said = Said::by(line);
    match section {
        Section::None | Section::Skipped => {}
        Section::Proxy(b) => match line.text(0) {
            // Part of what the servers say that they are for.
            "server" | "server-template" | "default-server" => {}
            _ => b.p.said = b.p.said.and(cx.said),
        },
        _ => {
            let at = usize::from(matches!(line.text(0), "no" | "default"));
            let keyword = cx.name(line.text(at));
            let line = OutlineLine { keyword, line: line.number, said: cx.said };
            cx.config
                .outline
                .sections
                .last_mut()
                .into_iter()
                .for_each(|section| section.lines.push(line.clone()));
        }
    }
}

fn section_line(cx: &mut Cx<'_>, section: &mut Section, line: Line) -> Outcome {
    note(cx, section, &line);
    match section {
        Section::None => {
            let name = line.text(0);
            let near = did_you_mean(name, SECTIONS.iter().map(|s| s.name));
            let hint = near.map_or(String::new(), |n| format!(" Did you mean section '{n}' maybe ?"));
            let complaint = fail(&line, 0, format!("unknown keyword '{name}' out of section.{hint}"));
            Err(match name.starts_with('\u{feff}') {
                true => complaint.help_boxed(
                    "a byte order mark (BOM) stands before the word, which editors do not show: save the file without one",
                ),
                false => complaint,
            })
        }
        Section::Skipped => Ok(()),
        Section::Global => global::line(cx, line),
        Section::Proxy(b) => proxy::line(cx, b, line),
        Section::Userlist(draft) => userlist::line(cx, draft, &line),
        Section::HttpErrors(draft) => http_errors::line(cx, draft, &line),
        Section::LogProfile(draft) => log_profile::line(cx, draft, &line),
        Section::Ring(draft) => ring::line(cx, draft, &line),
        Section::Resolvers(draft) => resolvers::line(cx, draft, &line),
        Section::CrtStore(draft) => tls::line(cx, draft, &line),
        Section::LogForward(draft) => log_forward::line(cx, draft, &line),
        Section::Peers(draft) => peers::line(cx, draft, &line),
        Section::Healthcheck(draft) => check::section::line(draft, &line),
        Section::Mailers(draft) => mailers::line(cx, draft, &line),
        Section::OpenTelemetry(draft) => opentelemetry::line(cx, draft, &line),
        Section::Traces => traces::line(cx, line),
        Section::Namespaces(draft) => namespaces::line(draft, &line),
    }
}

fn open(cx: &mut Cx<'_>, line: &Line, kind: SectionKind) -> Result<Section, Box<Diagnostic>> {
    if kind != SectionKind::Global {
        cx.non_global_seen = true;
    }
    Ok(match kind {
        SectionKind::Global => {
            crate::keyword::at_most(line, 1, 0)?;
            Section::Global
        }
        SectionKind::Proxy(kind) => Section::Proxy(Box::new(proxy::open(cx, line, kind)?)),
        SectionKind::Userlist => Section::Userlist(userlist::open(cx, line)?),
        SectionKind::HttpErrors => Section::HttpErrors(Box::new(http_errors::open(cx, line)?)),
        SectionKind::LogProfile => Section::LogProfile(log_profile::open(cx, line)?),
        SectionKind::Resolvers => Section::Resolvers(Box::new(resolvers::open(cx, line)?)),
        SectionKind::Ring => Section::Ring(Box::new(ring::open(cx, line)?)),
        SectionKind::CrtStore => Section::CrtStore(Box::new(tls::open(cx, line)?)),
        SectionKind::LogForward => Section::LogForward(Box::new(log_forward::open(cx, line)?)),
        SectionKind::Peers => Section::Peers(Box::new(peers::open(cx, line)?)),
        SectionKind::Healthcheck => Section::Healthcheck(Box::new(check::section::open(cx, line)?)),
        SectionKind::Mailers => Section::Mailers(Box::new(mailers::open(cx, line)?)),
        SectionKind::OpenTelemetry => Section::OpenTelemetry(Box::new(opentelemetry::open(cx, line)?)),
        SectionKind::Traces => {
            crate::keyword::at_most(line, 1, 0)?;
            Section::Traces
        }
        SectionKind::Namespaces => Section::Namespaces(NamespacesDraft::default()),
    })
}

fn close(cx: &mut Cx<'_>, section: &mut Section) {
    match std::mem::replace(section, Section::None) {
        Section::None | Section::Skipped | Section::Global | Section::Traces | Section::Namespaces(_) => {}
        Section::Proxy(b) => proxy::close(cx, *b),
        Section::Userlist(draft) => userlist::close(cx, draft),
        Section::HttpErrors(draft) => cx.config.http_errors.push(Arc::new(*draft)),
        Section::LogProfile(draft) => cx.log_profiles.push(draft),
        Section::Ring(draft) => ring::close(cx, *draft),
        Section::Resolvers(draft) => resolvers::close(cx, *draft),
        Section::CrtStore(draft) => tls::close(cx, *draft),
        Section::LogForward(draft) => log_forward::close(cx, *draft),
        Section::Peers(draft) => peers::close(cx, *draft),
        Section::Healthcheck(draft) => cx.healthchecks.push(*draft),
        Section::Mailers(draft) => mailers::close(cx, *draft),
        Section::OpenTelemetry(draft) => opentelemetry::close(cx, *draft),
    }
}

/// The messages about lines in the order of the lines, although some lines are read late, then the others. After the
/// messages of a file that has errors comes the reference's summary.
fn in_file_order(found: &Diagnostics, sources: &SourceMap) -> Diagnostics {
    let about_a_line = |d: &Diagnostic| matches!(d.lead, Lead::Parsing | Lead::Located) && d.span.is_some();
    let mut lines: Vec<&Diagnostic> = found.iter().filter(|d| about_a_line(d)).collect();
    lines.sort_by_key(|d| d.span.map(|s| (s.file, s.line)));
    // A line of presets is read for each proxy that inherits it: what is wrong with it is said once.
    lines.dedup_by(|next, before| next == before);
    let mut sorted = Diagnostics::new();
    for file in sources.files() {
        let mut failed = false;
        for diagnostic in lines.iter().filter(|d| d.span.is_some_and(|s| s.file == file)) {
            failed |= diagnostic.severity == Severity::Alert;
            sorted.push((*diagnostic).clone());
        }
        if failed && !found.aborted() {
            sorted.push(Diagnostic::alert(format!(
                "Error(s) found in configuration file : {}",
                sources.name(file)
            )));
        }
    }
    for diagnostic in found.iter().filter(|d| !about_a_line(d)) {
        sorted.push(diagnostic.clone());
    }
    if found.aborted() {
        sorted.abort();
    }
    sorted
}
