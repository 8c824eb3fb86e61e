//! The exporter for Prometheus: its text format, version 0.0.4, with the metrics that HAProxy's exporter has.
//!
//! All samples of a metric stand together, so that a metric needs all rows. They are read once, to the few figures that
//! are wanted of each, and written metric by metric, both in steps: whoever sends them gives others their turn between.

mod metrics;
mod notation;
mod query;

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use thalweg_config::model::Proxy;
use thalweg_proxy::Instance;
use thalweg_proxy::latency::Phase;
use thalweg_stick::Table;

use crate::columns::{COLUMNS, EXTRA, at};
use crate::format::Value;
use crate::info::{self, Around};
use crate::latency;
use crate::report::{Filter, Walk};
use crate::resolvers::{self, Figure};
use crate::rows;
use crate::stat::{Row, RowKind};

pub use notation::Notation;
pub use query::Wanted;
pub(crate) use query::decoded;

use Nature::Counter;
use metrics::{CHECKS, Form, METRICS, Metric, Nature, PROCESS, states};
use notation::{Kind, Summary};

/// What an exposition is made of.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// Rows that are read in one step.
const READ_STEP: usize = 10;

/// Rows whose samples of a metric are written in one step.
const WRITE_STEP: usize = 200;

/// Places whose latencies are written in one step.
const LATENCY_STEP: usize = 5;

/// The figure of a metric in a row, as it will be written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sample {
    None,
    Nan,
    Number(u64),
    Negative(i64),
    Seconds(f64),
    /// A position among [`states`] or [`CHECKS`].
    At(u8),
}

/// How many servers of a backend are in each state, and have each result of checks.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    states: [u32; 5],
    checks: [u32; 16],
}

/// One row, reduced to what is wanted of it.
struct Line {
    /// `proxy="be",server="s1"`, and the description behind it.
    labels: Box<str>,
    samples: Box<[Sample]>,
    /// Of a backend.
    servers: Option<Box<Counted>>,
}

/// A figure of stick tables: its name, what it is, and where it comes from.
type TableFigure = (&'static str, &'static str, fn(&Instance, &Table) -> u32);

const TABLES: [TableFigure; 3] = [
    ("size", "Stick table size.", |_, table| table.spec().size),
    ("used", "Number of entries used in this stick table.", |_, table| table.used()),
    (
        "local_updates",
        "Updates of the table by this process that were numbered for its peers. Wraps after 4294967295.",
        |instance, table| instance.peers.local_updates(table),
    ),
];

/// Where an exposition is.
enum Stage {
    Process,
    /// Reads the rows of the proxy at this position.
    Reading {
        proxy: usize,
        from: From,
    },
    /// Writes the samples of a kind's metric, from this line on.
    Writing {
        kind: usize,
        metric: usize,
        line: usize,
    },
    /// Writes how long streams took at the places of this kind.
    Latency {
        kind: usize,
        walk: Walk,
        introduced: bool,
    },
    /// Writes what there is of stick tables.
    Tables,
    /// Writes what was counted about name servers.
    Resolvers,
    Done,
}

/// Where the rows of a proxy are to be read from.
#[derive(Clone, Copy)]
enum From {
    Frontend,
    Server(usize),
}

/// An exposition that is being written.
pub struct Exposition {
    instance: Arc<Instance>,
    wanted: Wanted,
    /// Figures of the process: name and value.
    process: Vec<info::Field>,
    /// By the number of their kind.
    lines: [Vec<Line>; 4],
    /// The servers read so far of the backend that is being read.
    counted: Counted,
    stage: Stage,
    notation: Notation,
}

impl Exposition {
    /// All that is wanted, as it is from now on.
    pub fn new(
        instance: Arc<Instance>,
        around: &Around<'_>,
        wanted: Wanted,
        notation: Notation,
    ) -> Exposition {
        let process = if wanted.process { info::fields(&instance, around) } else { Vec::new() };
        Exposition {
            instance,
            wanted,
            process,
            lines: Default::default(),
            counted: Counted::default(),
            stage: Stage::Process,
            notation,
        }
    }

    /// Makes what was written so far a whole, in a notation in which it has an end.
    pub fn cut(&mut self, out: &mut String) {
        self.notation.cut(out);
    }

    /// Does one step, which may write something. False when everything was written.
    pub fn step(&mut self, out: &mut String) -> bool {
        match self.stage {
            Stage::Process => {
                self.write_process(out);
                self.stage = Stage::Reading { proxy: 0, from: From::Frontend };
            }
            Stage::Reading { proxy, from } => self.read(proxy, from),
            Stage::Writing { kind, metric, line } => self.write(kind, metric, line, out),
            Stage::Latency { .. } => self.write_latency(out),
            Stage::Tables => {
                self.write_tables(out);
                self.stage = Stage::Resolvers;
            }
            Stage::Resolvers => {
                self.write_resolvers(out);
                self.stage = Stage::Done;
            }
            Stage::Done => return false,
        }
        true
    }

    fn write_process(&mut self, out: &mut String) {
        if !self.wanted.process {
            return;
        }
        let instance = Arc::clone(&self.instance);
        let description = instance.config.global.description.as_deref();
        let description = description.filter(|_| self.wanted.describe);
        for metric in PROCESS {
            let name = format!("haproxy_process_{}", metric.name);
            if !self.wanted.names(&name) {
                continue;
            }
            let field = self.process.iter().find(|field| field.name == metric.field);
            let (text, value) = match field {
                Some(field) => (field.text, Some(&field.value)),
                None if metric.form == Form::OrNan => ("Not measured here", None),
                None => continue,
            };
            self.notation.introduce(out, &name, text, metric.nature.into());
            let mut labels = String::new();
            if let (Form::Label(label), Some(value)) = (metric.form, value) {
                self.notation.label(&mut labels, label, &value.to_string());
            } else if let Some(description) = description {
                self.notation.label(&mut labels, "desc", description);
            }
            let sample = match (metric.form, value) {
                (Form::Label(_), _) => Sample::Number(1),
                (_, Some(value)) => plain(value),
                (_, None) => Sample::Nan,
            };
            self.notation.put(out, &name, &labels, &[], sample);
        }
    }

    /// Stick tables, the last one first, as the reference has it.
    fn write_tables(&mut self, out: &mut String) {
        if !self.wanted.tables || self.instance.tables.is_empty() {
            return;
        }
        for (name, text, of) in TABLES {
            let name = format!("haproxy_sticktable_{name}");
            if !self.wanted.names(&name) {
                continue;
            }
            self.notation.introduce(out, &name, text, Kind::Gauge);
            for (_, table) in self.instance.named_tables().rev() {
                let labels = [("name", &*table.spec().name), ("type", table.spec().key.name())];
                let sample = Sample::Number(u64::from(of(&self.instance, table)));
                self.notation.put(out, &name, "", &labels, sample);
            }
        }
    }

    /// Name servers of `resolvers` sections.
    fn write_resolvers(&mut self, out: &mut String) {
        if !self.wanted.resolvers || self.instance.config.resolvers.is_empty() {
            return;
        }
        for Figure { name, text, of } in &resolvers::FIGURES {
            let name = format!("haproxy_resolver_{name}");
            if !self.wanted.names(&name) {
                continue;
            }
            self.notation.introduce(out, &name, text, Kind::Gauge);
            for (section, server, tally) in resolvers::all(&self.instance) {
                let labels = [("resolver", &*section.name), ("nameserver", &*server.name)];
                self.notation.put(out, &name, "", &labels, Sample::Number(of(&tally)));
            }
        }
    }

    /// Reads rows into [`Line`]s.
    fn read(&mut self, mut proxy: usize, mut from: From) {
        let instance = Arc::clone(&self.instance);
        let mut budget = READ_STEP;
        while let Some(of) = instance.config.proxies.get(proxy) {
            if budget == 0 {
                self.stage = Stage::Reading { proxy, from };
                return;
            }
            from = match from {
                // What is disabled in the configuration has no figures.
                _ if of.disabled => From::Server(of.servers.len()),
                From::Frontend => {
                    self.read_frontend(&instance, of);
                    budget = budget.saturating_sub(1 + of.binds.len());
                    From::Server(0)
                }
                From::Server(first) => {
                    let last = of.servers.len().min(first + budget);
                    self.read_servers(&instance, of, first..last);
                    budget -= last - first;
                    From::Server(last)
                }
            };
            if matches!(from, From::Server(next) if next == of.servers.len()) {
                self.read_backend(&instance, of);
                (proxy, from) = (proxy + 1, From::Frontend);
            }
        }
        self.stage = Stage::Writing { kind: 0, metric: 0, line: 0 };
    }

    fn read_frontend(&mut self, instance: &Instance, proxy: &Proxy) {
        if !proxy.is_fe() {
            return;
        }
        if self.wanted.kinds[RowKind::Frontend as usize] {
            self.keep(proxy, &rows::frontend(instance, proxy), "", None);
        }
        if self.wanted.kinds[RowKind::Listener as usize] && proxy.opts.socket_stats {
            for bind in 0..proxy.binds.len() {
                self.keep(proxy, &rows::listener(instance, proxy, bind), "listener", None);
            }
        }
    }

    /// Reads servers, which their backend counts as well.
    fn read_servers(&mut self, instance: &Instance, proxy: &Proxy, servers: Range<usize>) {
        let [_, backend, wanted, _] = self.wanted.kinds;
        if !proxy.is_be() || !backend && !wanted {
            return;
        }
        for server in &proxy.servers[servers] {
            let row = rows::server(instance, proxy, server);
            if let Sample::At(at) = sample(&row, const { at("status") }, Form::State) {
                self.counted.states[usize::from(at)] += 1;
            }
            if let Sample::At(at) = sample(&row, const { at("check_status") }, Form::Check)
                && let Some(count) = self.counted.checks.get_mut(usize::from(at))
            {
                *count += 1;
            }
            if wanted && !(self.wanted.no_maintenance && state_of(&row) == Some("MAINT")) {
                self.keep(proxy, &row, "server", None);
            }
        }
    }

    /// Reads a backend, once its servers were read.
    fn read_backend(&mut self, instance: &Instance, proxy: &Proxy) {
        let counted = std::mem::take(&mut self.counted);
        if proxy.is_be() && !proxy.disabled && self.wanted.kinds[RowKind::Backend as usize] {
            self.keep(proxy, &rows::backend(instance, proxy), "", Some(counted));
        }
    }

    fn keep(&mut self, proxy: &Proxy, row: &Row, own_label: &str, servers: Option<Counted>) {
        let mut labels = String::new();
        self.notation.label(&mut labels, "proxy", &proxy.name);
        if !own_label.is_empty()
            && let Some(Value::Str(name)) = &row.values[const { at("svname") }]
        {
            self.notation.label(&mut labels, own_label, name);
        }
        if let Some(description) = proxy.description.as_deref().filter(|_| self.wanted.describe) {
            self.notation.label(&mut labels, "desc", description);
        }
        let is_http = crate::stat::is_http(proxy);
        let metrics = metrics_of(row.kind);
        let mut samples: Vec<Sample> = Vec::with_capacity(metrics.len() + extra_of(row.kind).len());
        for metric in metrics {
            let shown = is_http || !metric.name.starts_with("http_");
            samples.push(if shown { sample(row, metric.column, metric.form) } else { Sample::None });
        }
        if self.wanted.extra {
            samples.extend(extra_of(row.kind).map(|at| sample(row, COLUMNS.len() + at, Form::Plain)));
        }
        self.lines[row.kind as usize].push(Line {
            labels: labels.into(),
            samples: samples.into(),
            servers: servers.map(Box::new),
        });
    }

    /// Writes some samples of one metric of one kind of row, or goes on to the next.
    fn write(&mut self, kind: usize, metric: usize, line: usize, out: &mut String) {
        let Some(&of) = ORDER.get(kind) else {
            self.lines = Default::default();
            self.stage = if self.wanted.latency { self.latency_of(0) } else { Stage::Tables };
            return;
        };
        let metrics = metrics_of(of);
        let next_kind = Stage::Writing { kind: kind + 1, metric: 0, line: 0 };
        let of_module = metric.checked_sub(metrics.len()).filter(|_| self.wanted.extra);
        let of_module = of_module.and_then(|nth| extra_of(of).nth(nth)).map(|at| &EXTRA[at]);
        let Some((name, text, nature, form)) = (match metrics.get(metric) {
            Some(metric) => Some((metric.name, COLUMNS[metric.column].text, metric.nature, metric.form)),
            None => of_module.map(|column| (column.name, column.text, Counter, Form::Plain)),
        }) else {
            self.stage = next_kind;
            return;
        };
        let prefix = prefix(of);
        // The classes of responses are samples of one metric.
        let continued = metric > 0 && metrics.get(metric - 1).is_some_and(|before| before.name == name);
        let name = format!("haproxy_{prefix}_{name}");
        let next_metric = Stage::Writing { kind, metric: metric + 1, line: 0 };
        let lines = &self.lines[of as usize];
        if !self.wanted.names(&name) || lines.is_empty() {
            self.stage = next_metric;
            return;
        }
        if line == 0 && !continued {
            self.notation.introduce(out, &name, text, nature.into());
        }
        let module = of_module.and_then(|column| column.name.split('_').next());
        let end = (line + WRITE_STEP).min(lines.len());
        for line in &lines[line..end] {
            line.write((&mut self.notation, out), &name, of, (metric, form), module);
        }
        self.stage = if end < lines.len() { Stage::Writing { kind, metric, line: end } } else { next_metric };
    }
}

/// Kinds of rows in the order they are written in.
const ORDER: [RowKind; 4] = [RowKind::Frontend, RowKind::Listener, RowKind::Backend, RowKind::Server];

/// The counters of modules that rows of this kind have, by their place in [`EXTRA`].
fn extra_of(kind: RowKind) -> Range<usize> {
    match kind {
        RowKind::Frontend | RowKind::Backend => 0..EXTRA.len(),
        RowKind::Listener | RowKind::Server => rows::TLS,
    }
}

fn prefix(kind: RowKind) -> &'static str {
    match kind {
        RowKind::Frontend => "frontend",
        RowKind::Listener => "listener",
        RowKind::Backend => "backend",
        RowKind::Server => "server",
    }
}

impl Exposition {
    /// The stage that writes how long streams of this kind took, by its place in [`ORDER`].
    fn latency_of(&self, kind: usize) -> Stage {
        let Some(of) = ORDER.get(kind) else { return Stage::Tables };
        let kinds = if self.wanted.kinds[*of as usize] { 1 << *of as u32 } else { 0 };
        let filter = Filter { kinds, no_maint: self.wanted.no_maintenance, ..Filter::default() };
        Stage::Latency { kind, walk: Walk::new(filter), introduced: false }
    }

    /// Writes some summaries: of each phase its quantiles, sum and count.
    fn write_latency(&mut self, out: &mut String) {
        let instance = Arc::clone(&self.instance);
        let Stage::Latency { kind, walk, introduced } = &mut self.stage else { return };
        let of = ORDER[*kind];
        let name = format!("thalweg_{}_latency_seconds", prefix(of));
        for _ in 0..LATENCY_STEP {
            let Some(place) = walk.next(&instance).filter(|_| self.wanted.names(&name)) else {
                let next = *kind + 1;
                self.stage = self.latency_of(next);
                return;
            };
            if !std::mem::replace(introduced, true) {
                self.notation.introduce(out, &name, "Time of streams, by phase", Kind::Summary);
            }
            let proxy = &instance.config.proxies[place.proxy];
            let mut labels = String::new();
            self.notation.label(&mut labels, "proxy", &proxy.name);
            if matches!(of, RowKind::Listener | RowKind::Server) {
                self.notation.label(&mut labels, prefix(of), &place.name(&instance));
            }
            for phase in Phase::ALL {
                let sum = latency::of(&instance, place, phase);
                let mut labels = labels.clone();
                self.notation.label(&mut labels, "phase", phase.name());
                let seconds = |us: u64| us as f64 / 1e6;
                let shares = latency::SHARES.iter();
                let quantiles = shares
                    .filter_map(|(share, _)| Some((*share as f64 / 1000.0, seconds(sum.per_mille(*share)?))))
                    .collect();
                let summary = Summary { quantiles, seconds: seconds(sum.sum_us), count: sum.count };
                self.notation.put_summary(out, &name, &labels, &summary);
            }
        }
    }
}

impl Line {
    fn write(
        &self,
        (notation, out): (&mut Notation, &mut String),
        name: &str,
        kind: RowKind,
        (at, form): (usize, Form),
        module: Option<&str>,
    ) {
        let sample = self.samples[at];
        let labels = &*self.labels;
        let mut put = |label: Option<(&str, &str)>, sample: Sample| {
            notation.put(out, name, labels, label.as_slice(), sample);
        };
        let mut each = |states: &[&str], value: &dyn Fn(usize) -> u64| {
            for (at, state) in states.iter().enumerate() {
                put(Some(("state", state)), Sample::Number(value(at)));
            }
        };
        match (form, sample, &self.servers) {
            (Form::State, Sample::At(is), _) => each(states(kind), &|at| u64::from(at == usize::from(is))),
            (Form::Check, Sample::At(is), _) => each(CHECKS, &|at| u64::from(at == usize::from(is))),
            (Form::ServerStates, _, Some(servers)) => {
                each(states(RowKind::Server), &|at| u64::from(servers.states[at]));
            }
            (Form::ServerChecks, _, Some(servers)) => each(CHECKS, &|at| u64::from(servers.checks[at])),
            (Form::State | Form::Check | Form::ServerStates | Form::ServerChecks, ..) => {}
            (Form::Code(code), ..) => put(Some(("code", code)), sample),
            _ => put(module.map(|module| ("mod", module)), sample),
        }
    }
}

/// The metrics that rows of this kind have.
fn metrics_of(kind: RowKind) -> &'static [&'static Metric] {
    /// By the number of the kind.
    static OF_KINDS: LazyLock<[Vec<&Metric>; 4]> = LazyLock::new(|| {
        ['F', 'B', 'S', 'L'].map(|letter| METRICS.iter().filter(|m| m.scopes.contains(letter)).collect())
    });
    &OF_KINDS[kind as usize]
}

/// The state that a row's status stands for.
fn state_of(row: &Row) -> Option<&'static str> {
    let Some(Value::Str(status)) = &row.values[const { at("status") }] else { return None };
    Some(match (row.kind, &**status) {
        (RowKind::Frontend, "STOP") => "DOWN",
        (RowKind::Frontend, _) => "UP",
        (RowKind::Listener, status) => {
            states(RowKind::Listener).iter().find(|state| status.starts_with(**state)).copied()?
        }
        (RowKind::Backend, status) => {
            if status.starts_with("UP") {
                "UP"
            } else {
                "DOWN"
            }
        }
        (RowKind::Server, status) => {
            let known = ["DOWN", "MAINT", "DRAIN", "NOLB"];
            known.into_iter().find(|state| status.starts_with(state)).unwrap_or("UP")
        }
    })
}

fn sample(row: &Row, column: usize, form: Form) -> Sample {
    let value = row.values[column].as_ref();
    let among = |states: &[&str], name: &str| {
        let at = states.iter().position(|state| *state == name);
        at.and_then(|at| u8::try_from(at).ok()).map_or(Sample::None, Sample::At)
    };
    match (form, value) {
        (Form::State, _) => state_of(row).map_or(Sample::None, |state| among(states(row.kind), state)),
        // A server that was not checked yet (`INI`) has none of the results.
        (Form::Check, Some(Value::Str(result))) => match among(CHECKS, result.trim_start_matches("* ")) {
            Sample::None => Sample::At(u8::MAX),
            known => known,
        },
        (Form::Received, None) if row.values[column - 1].is_some() => Sample::Number(0),
        (Form::OrNan, None) => Sample::Nan,
        (_, None) => Sample::None,
        (Form::Seconds, Some(Value::U32(ms))) => Sample::Seconds(f64::from(*ms) / 1000.0),
        (Form::Seconds, Some(Value::U64(ms))) => Sample::Seconds(*ms as f64 / 1000.0),
        (_, Some(value)) => plain(value),
    }
}

fn plain(value: &Value) -> Sample {
    match value {
        Value::U32(n) => Sample::Number(u64::from(*n)),
        Value::U64(n) => Sample::Number(*n),
        Value::S32(n) => Sample::Negative(i64::from(*n)),
        Value::Float(n) => Sample::Seconds(*n),
        Value::Str(_) => Sample::None,
    }
}
