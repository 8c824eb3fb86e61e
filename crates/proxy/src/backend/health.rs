//! Health checks: one task per checked server, spread over the threads. The conversation itself and the counting are
//! in `thalweg_check`; here are the sockets, the clock, the log lines, and what others may see of it.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use thalweg_balance::sync::Mutex;
use thalweg_check::{
    Assignment, Connect, Conversation, Evaluate, Health, Heard, Initial, Next, Passed, Program, Source,
    Status, Verdict,
};
use thalweg_config::model::{
    CheckConfig, InitState, LogLevel, Proxy, ProxyHeader, ProxyId, Server, ServerAddr, ServerId,
};
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::{ConnectOptions, SockAddr, Stream};
use thalweg_runtime::timer::{self, timeout_at};
use thalweg_runtime::{Kind, clock, pool, spawn};
use thalweg_sample::context::{Ctx, Payload};
use thalweg_sample::facts::{self, ListenerId, Session, StreamFacts};
use thalweg_sample::logformat::LogFormat;
use thalweg_sample::vars::{Scope, VarSet};
use thalweg_sample::{Expr, Sample, Type, Value};
use thalweg_sys::fd::complain;

use super::Backend;
use super::identity::Identity;
use super::standing::Operation;
use super::track;
use crate::connection::handshake::{self, HandshakeError};
use crate::connection::proxy_header;
use crate::connection::transport::Transport;
use crate::instance::Stopping;
use crate::worker::Worker;

static CHECK: Kind = Kind::new("health-check");

/// Pause before looking again whether a check may start (`tune.max-checks-per-thread`), in milliseconds.
const CROWDED_PAUSE_MS: u64 = 10;

thread_local! {
    /// Checks in progress on this thread.
    static RUNNING: Cell<u32> = const { Cell::new(0) };
}

/// What is known of a server's health, as the statistics show it.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// What the last check found out.
    pub verdict: Verdict,
    /// How long it took, in milliseconds; `None` before the first.
    pub duration_ms: Option<u64>,
    /// One is in progress.
    pub running: bool,
    /// Checks that failed while the server was up (`chkfail`).
    pub failures: u64,
}

/// The reports of a backend's servers. The lock is taken by checks and by those who look, never by traffic.
pub struct Reports(Box<[Option<Mutex<CheckReport>>]>);

impl Reports {
    pub(super) fn new(proxy: &Proxy) -> Reports {
        let report = |server: &Server| {
            server.check.as_ref()?;
            Some(Mutex::new(CheckReport {
                verdict: Verdict::default(),
                duration_ms: None,
                running: false,
                failures: 0,
            }))
        };
        Reports(proxy.servers.iter().map(|server| report(server)).collect())
    }

    fn change<R>(&self, server: ServerId, f: impl FnOnce(&mut CheckReport) -> R) -> Option<R> {
        let report = self.0.get(server.0 as usize)?.as_ref()?;
        Some(f(&mut report.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Backend {
    /// What checks found out about a server; `None` when it has no checks.
    pub fn check_report(&self, server: ServerId) -> Option<CheckReport> {
        self.reports.change(server, |r| r.clone())
    }

    /// Forgets how many checks of a server failed.
    pub fn clear_failures(&self, server: ServerId) {
        self.reports.change(server, |report| report.failures = 0);
    }
}

pub(super) fn initial_health(server: &Server, check: &CheckConfig) -> Health {
    let initial = match server.rare().init_state {
        InitState::FullyUp => Initial::FullyUp,
        InitState::Up | InitState::None => Initial::Up,
        InitState::Down => Initial::Down,
        InitState::FullyDown => Initial::FullyDown,
    };
    Health::new(check.rise, check.fall, initial)
}

/// Starts the checks that belong to this thread.
pub fn start(worker: &Rc<Worker>) {
    let config = &worker.instance.config;
    let proxies = config.proxies.iter().filter(|p| !p.disabled);
    let servers = proxies.flat_map(|p| p.servers.iter().map(move |s| (p, s)));
    // There may be very many: gone through twice rather than written down.
    let checked = servers.filter_map(|(p, s)| Some((p, s, s.check.as_ref()?)));
    // The first checks of all servers are spread over the smallest interval.
    let (count, smallest) = checked.clone().fold((0, u64::MAX), |(count, smallest), (_, _, check)| {
        (count + 1, smallest.min(u64::from(check.inter_ms)))
    });
    let spread = config.global.max_spread_checks_ms.map_or(smallest, |max| max.min(smallest));
    let threads = worker.instance.threads.len();
    for (i, (proxy, server, _)) in checked.enumerate().filter(|(i, _)| i % threads == worker.thread) {
        let delay = spread * i as u64 / count;
        let checker = Checker { worker: Rc::clone(worker), proxy: proxy.id, server: server.id };
        spawn(&CHECK, checker.run(delay));
    }
}

struct Checker {
    worker: Rc<Worker>,
    proxy: ProxyId,
    server: ServerId,
}

impl Drop for Checker {
    /// A server that nobody checks would stay what it was for ever: when a bug ends its checker, another one goes on an
    /// interval later.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let next = Checker { worker: Rc::clone(&self.worker), proxy: self.proxy, server: self.server };
        let delay = self.config().1.check.as_ref().map_or(1000, |c| u64::from(c.inter_ms).max(1));
        spawn(&CHECK, next.run(delay));
    }
}

/// A check in progress.
struct Running<'a> {
    backend: &'a Backend,
    server: ServerId,
}

impl<'a> Running<'a> {
    fn begin(backend: &'a Backend, server: ServerId) -> Running<'a> {
        RUNNING.set(RUNNING.get() + 1);
        backend.reports.change(server, |r| r.running = true);
        Running { backend, server }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        RUNNING.set(RUNNING.get() - 1);
        self.backend.reports.change(self.server, |r| r.running = false);
    }
}

/// Sends what a check says, and waits until it left.
async fn send(stream: &mut Transport, bytes: &[u8]) -> std::io::Result<()> {
    stream.send_ready().await?;
    stream.start_send(Buf::copy_of(bytes));
    stream.send_ready().await
}

impl Checker {
    fn config(&self) -> (&Proxy, &Server) {
        let proxy = self.worker.proxy(self.proxy);
        (proxy, &proxy.servers[self.server.0 as usize])
    }

    fn backend(&self) -> &Backend {
        self.worker.backend(self.proxy)
    }

    /// Checks for as long as the process serves, from `delay_ms` on.
    async fn run(self, delay_ms: u64) {
        let worker = &*self.worker;
        let (_, server) = self.config();
        let Some(check) = server.check.as_ref() else { return };
        let global = &worker.instance.config.global;
        let mut start_ms = timer::deadline_in(delay_ms);
        loop {
            timer::sleep_until(start_ms).await;
            while global.tune.max_checks_per_thread != 0 && RUNNING.get() >= global.tune.max_checks_per_thread
            {
                timer::sleep(CROWDED_PAUSE_MS).await;
            }
            if worker.instance.stopping() != Stopping::No {
                return;
            }
            let begun_ms = clock::now_ms();
            if self.backend().standing(self.server).takes_verdicts() {
                let running = Running::begin(self.backend(), self.server);
                // Boxed: there may be very many servers, most of which are not being checked now.
                let verdict = pool::boxed(self.converse(check, begun_ms)).await;
                drop(running);
                self.conclude(verdict, clock::now_ms().saturating_sub(begun_ms));
            }
            let interval = self.interval(check);
            // From start to start; a check that took longer is followed by the next at once.
            start_ms = (start_ms + interval).max(clock::now_ms());
        }
    }

    /// Milliseconds to the next check.
    fn interval(&self, check: &CheckConfig) -> u64 {
        let health = self.backend().standing(self.server).health;
        let ms = match (health.is_changing(), health.is_up()) {
            (true, _) => check.fastinter_ms,
            (false, false) => check.downinter_ms,
            (false, true) => None,
        };
        let ms = u64::from(ms.unwrap_or(check.inter_ms)).max(1);
        let percent = u64::from(self.worker.instance.config.global.spread_checks);
        let range = ms * percent / 100;
        if range == 0 {
            return ms;
        }
        // Anywhere from that much earlier to that much later.
        ms - range + self.worker.next_random() % (2 * range + 1)
    }

    async fn converse(&self, check: &CheckConfig, begun_ms: u64) -> Verdict {
        let (proxy, server) = self.config();
        let input_max = self.worker.instance.config.global.tune.bufsize;
        let program = proxy.check.clone().unwrap_or_else(|| Arc::new(Program::plain()));
        let mut conversation = Conversation::new(program, input_max);
        let mut evaluator = Evaluator::new(&self.worker, proxy, server);
        crate::plant::here("check");
        let inter = u64::from(check.inter_ms);
        let mut deadline = begun_ms + inter;
        let mut io: Option<Transport> = None;
        let mut graceful = false;
        loop {
            match conversation.next(&mut evaluator) {
                Next::Done(verdict) => {
                    if let Some(mut io) = io.filter(|_| !graceful) {
                        io.set_linger_rst();
                    }
                    return verdict;
                }
                Next::Connect { connect, port } => {
                    graceful = connect.linger;
                    drop(io.take());
                    let Some(address) = address(&self.backend().identity(server), &connect, port) else {
                        return conversation.failed("no address to connect to");
                    };
                    if let Some(limit) = proxy.timeouts.check.and(proxy.timeouts.connect) {
                        deadline = clock::now_ms() + limit.min(inter);
                    }
                    // Made apart, so that the options are gone while it is waited for.
                    let attempt = Stream::connect(&address, &options(proxy, server));
                    drop(address);
                    match timeout_at(Some(deadline), attempt).await {
                        Err(_elapsed) => return conversation.timed_out(),
                        Ok(Err(error)) => return conversation.failed(&system_words(&error)),
                        Ok(Ok(mut stream)) => {
                            let header =
                                proxy_header(server, &self.backend().identity(server), check, &connect);
                            if !header.is_empty() {
                                stream.start_send(Buf::copy_of(&header));
                            }
                            conversation.connected();
                            io = match self.encrypt(server, &connect, stream, deadline).await {
                                Ok(transport) => {
                                    if transport.is_encrypted() {
                                        conversation.encrypted();
                                    }
                                    Some(transport)
                                }
                                Err(in_time) => return conversation.not_encrypted(in_time),
                            };
                        }
                    }
                    if let Some(limit) = proxy.timeouts.check {
                        deadline = clock::now_ms() + limit;
                    }
                }
                Next::Send(bytes) => {
                    let Some(stream) = &mut io else { return conversation.failed("") };
                    match timeout_at(Some(deadline), send(stream, &bytes)).await {
                        Err(_elapsed) => return conversation.timed_out(),
                        Ok(Err(error)) => return conversation.failed(&system_words(&error)),
                        Ok(Ok(())) => {}
                    }
                }
                Next::Receive => {
                    let Some(stream) = &mut io else { return conversation.failed("") };
                    match timeout_at(Some(deadline), stream.recv(conversation.room())).await {
                        Err(_elapsed) => return conversation.timed_out(),
                        Ok(Err(error)) => return conversation.failed(&system_words(&error)),
                        Ok(Ok(buf)) if buf.is_empty() => conversation.ended(),
                        Ok(Ok(buf)) => conversation.received(&buf),
                    }
                }
            }
        }
    }

    /// Speaks TLS on the connection of a check, if that is asked for. The error says whether its time was over.
    async fn encrypt(
        &self,
        server: &Server,
        connect: &Connect,
        stream: Stream,
        deadline: u64,
    ) -> Result<Transport, bool> {
        let tls = server.tls.as_deref().filter(|tls| connect.is_encrypted(tls.check_ssl));
        let Some((tls, line)) = tls.and_then(|tls| Some((tls, tls.line.as_ref()?))) else {
            return Ok(Transport::from(stream));
        };
        let of_server = tls.check_sni.as_deref().filter(|_| !connect.ssl);
        let name = connect.sni.as_deref().or(of_server).map(str::as_bytes);
        let sizes = self.worker.record_sizes();
        let of_server = tls.check_protocols.as_deref().filter(|_| !connect.ssl);
        let asked = (name, connect.protocols.as_deref().or(of_server));
        let shaking = handshake::connect(stream, line.context(), asked, sizes, Some(deadline));
        let transport =
            pool::boxed(shaking).await.map_err(|error| matches!(error, HandshakeError::Timeout))?;
        self.worker.count_tls_server(transport.tls_facts().is_some_and(|tls| tls.known.resumed));
        Ok(transport)
    }

    /// Counts a verdict, marks the server, tells the logs.
    fn conclude(&self, verdict: Verdict, duration_ms: u64) {
        let (proxy, server) = self.config();
        let backend = self.backend();
        let passed = verdict.status.passed();
        let before = Before::look(backend, self.server);
        // Who was taken out of service meanwhile is not judged any more.
        let judged = backend.judge(self.server, passed);
        let changed = backend.reports.change(self.server, |report| {
            let judged = judged?;
            if passed == Passed::No && judged.before != Operation::Stopped {
                report.failures += 1;
            }
            let news = judged.moved || report.verdict.status != verdict.status;
            report.verdict = verdict.clone();
            report.duration_ms = Some(duration_ms);
            Some((judged, news))
        });
        let Some((judged, news)) = changed.flatten() else { return };
        let reason = reason(&verdict, duration_ms);
        if proxy.opts.log_health_checks && news {
            let backup = if server.backup { "backup " } else { "" };
            let how = match passed {
                Passed::Yes => "succeeded",
                Passed::Conditionally => "conditionally succeeded",
                Passed::No => "failed",
            };
            let line = format!(
                "Health check for {backup}server {}/{} {how}, {reason}, status: {}.",
                proxy.name,
                backend.identity(server).name,
                backend.standing(self.server).health
            );
            tell(&self.worker, self.proxy, LogLevel::Notice, &line);
        }
        // Its own lines told the reason already.
        let reason = if proxy.opts.log_health_checks { String::new() } else { format!(", {reason}") };
        before.tell_change(&self.worker, self.proxy, self.server, judged.before, &reason);
        track::follow(&self.worker, self.proxy, self.server);
    }
}

/// What a change is compared with.
pub(crate) struct Before {
    usable: u32,
    requeued: u32,
    /// Whether new requests went to the server: losing it is an alert.
    took_part: bool,
}

impl Before {
    pub(crate) fn look(backend: &Backend, server: ServerId) -> Before {
        Before {
            usable: backend.usable_count(),
            requeued: backend.server_queue_len(server),
            took_part: backend.is_usable(server),
        }
    }

    /// Says that a server went down, came up, or began to stop, if it did, and why.
    pub(crate) fn tell_change(
        &self,
        worker: &Worker,
        proxy: ProxyId,
        server: ServerId,
        before: Operation,
        reason: &str,
    ) {
        let after = worker.backend(proxy).standing(server).operation;
        if before == after {
            return;
        }
        match after {
            Operation::Stopped => {
                self.tell_down(worker, proxy, server, &format!("is DOWN{reason}"));
            }
            Operation::Running => self.tell_up(worker, proxy, server, &format!("is UP{reason}")),
            // What its check said is told when it comes back.
            Operation::Stopping if reason.starts_with(", reason") => {
                self.tell_up(worker, proxy, server, "is stopping");
            }
            Operation::Stopping => self.tell_up(worker, proxy, server, &format!("is stopping{reason}")),
        }
    }

    /// Says that a server lost its traffic, and what is left.
    pub(crate) fn tell_down(&self, worker: &Worker, proxy: ProxyId, server: ServerId, what: &str) {
        let backend = worker.backend(proxy);
        let (active, backups) = backend.active_and_backup();
        let on_backup = if active == 0 && backups > 0 { " Running on backup." } else { "" };
        let line = format!(
            "{} {what}. {active} active and {backups} backup servers left.{on_backup} {} sessions active, {} requeued, {} \
             remaining in queue.",
            title(worker, proxy, server),
            worker.instance.server_streams(proxy, server),
            self.requeued,
            backend.queue_len(),
        );
        let level = if self.took_part { LogLevel::Alert } else { LogLevel::Notice };
        tell(worker, proxy, level, &line);
        self.tell_if_none_left(worker, proxy);
    }

    /// Says that a server is up, if only to serve what it has.
    pub(crate) fn tell_up(&self, worker: &Worker, proxy: ProxyId, server: ServerId, what: &str) {
        let backend = worker.backend(proxy);
        let (active, backups) = backend.active_and_backup();
        let on_backup = if active == 0 && backups > 0 { " Running on backup." } else { "" };
        let line = format!(
            "{} {what}. {active} active and {backups} backup servers online.{on_backup} {} sessions requeued, {} total in queue.",
            title(worker, proxy, server),
            self.requeued,
            backend.queue_len(),
        );
        tell(worker, proxy, LogLevel::Notice, &line);
        self.tell_if_none_left(worker, proxy);
    }

    /// Says that the backend lost its last server, if it did.
    pub(crate) fn tell_if_none_left(&self, worker: &Worker, proxy: ProxyId) {
        if self.usable > 0 && worker.backend(proxy).usable_count() == 0 {
            let what = if worker.proxy(proxy).is_fe() { "proxy" } else { "backend" };
            let name = &worker.proxy(proxy).name;
            worker.log(
                proxy,
                LogLevel::Emerg,
                b"",
                format!("{what} {name} has no server available!").as_bytes(),
            );
            say(worker, "ALERT", &format!("{what} '{name}' has no server available!"));
        }
    }
}

/// How lines call a server.
pub(crate) fn title(worker: &Worker, proxy: ProxyId, server: ServerId) -> String {
    let proxy = worker.proxy(proxy);
    let Some(server) = proxy.server(server) else { return format!("Server {}/?", proxy.name) };
    let backup = if server.backup { "Backup " } else { "" };
    format!("{backup}Server {}/{}", proxy.name, worker.backend(proxy.id).identity(server).name)
}

/// A line about a server, to the logs of its backend and to the standard error.
pub(crate) fn tell(worker: &Worker, proxy: ProxyId, level: LogLevel, line: &str) {
    worker.log(proxy, level, b"", line.as_bytes());
    say(worker, "WARNING", line);
}

/// Writes a line to the standard error, as the reference does until it is put in the background; it counts as a warning if
/// it is one.
pub fn say(worker: &Worker, severity: &str, line: &str) {
    if severity == "WARNING" {
        worker.instance.warnings.fetch_add(1, Ordering::Relaxed);
    }
    if !worker.instance.config.global.quiet {
        let lead = format!("[{severity}]");
        complain(format!("{lead:<10} ({}) : {line}\n", std::process::id()).as_bytes());
    }
}

fn reason(verdict: &Verdict, duration_ms: u64) -> String {
    let mut out = format!("reason: {}", verdict.status.description());
    if verdict.status.has_code() {
        out.push_str(&format!(", code: {}", verdict.code));
    }
    if !verdict.info.is_empty() {
        // What a server says must not break the line.
        let info: String = verdict.info.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        out.push_str(&format!(", info: \"{info}\""));
    }
    out.push_str(&format!(", check duration: {duration_ms}ms"));
    out
}

/// Where a check connects to: `connect` before `port` and `addr` of the server before its own address.
fn address(server: &Identity, connect: &Connect, port: Option<u16>) -> Option<SockAddr> {
    let not_zero = |p: u16| (p != 0).then_some(p);
    let own = match &server.addr {
        ServerAddr::Tcp(addr) => Some(*addr),
        _ => None,
    };
    let Some(mut addr) = connect.addr.or(server.check_addr).or(own) else {
        return super::connect::local_address(&server.addr);
    };
    let port = port
        .or(connect.addr.and_then(|a| not_zero(a.port())))
        .or(server.check_port)
        .or(server.check_addr.and_then(|a| not_zero(a.port())))
        .or(own.and_then(|a| not_zero(a.port())))?;
    addr.set_port(port);
    Some(SockAddr::from(addr))
}

fn proxy_header(server: &Server, now: &Identity, check: &CheckConfig, connect: &Connect) -> Vec<u8> {
    let mut out = Vec::new();
    // A check that goes elsewhere than traffic does not speak as traffic does unless told so.
    let elsewhere = now.check_port.is_some()
        || now.check_addr.is_some()
        || connect.port.is_some()
        || connect.addr.is_some();
    if !(connect.send_proxy || check.send_proxy || server.send_proxy != ProxyHeader::None && !elsewhere) {
        return out;
    }
    match &server.send_proxy {
        ProxyHeader::V2(options) => proxy_header::write_v2(&mut out, None, true, &[], options.crc32c),
        _ => proxy_header::write_v1(&mut out, None),
    }
    out
}

fn options(proxy: &Proxy, server: &Server) -> ConnectOptions {
    let source = server.rare().source.as_ref().or(proxy.source.as_deref());
    ConnectOptions {
        source: source.and_then(|s| s.addr).map(SockAddr::from),
        source_ports: source.and_then(|s| s.ports),
        interface: source.and_then(|s| s.interface.as_deref()).map(Box::from),
        reset_on_close: true,
        ..ConnectOptions::default()
    }
}

/// The system's error as the reference words it: `ECONNREFUSED returned by OS (Connection refused)`.
fn system_words(error: &io::Error) -> String {
    let Some(code) = error.raw_os_error() else { return error.to_string() };
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let name = match code {
        11 => "EAGAIN",
        13 => "EACCES",
        2 => "ENOENT",
        1 => "EPERM",
        22 => "EINVAL",
        24 => "EMFILE",
        23 => "ENFILE",
        32 => "EPIPE",
        98 => "EADDRINUSE",
        99 => "EADDRNOTAVAIL",
        100 => "ENETDOWN",
        // No connection was begun: the reference has one word for all such causes.
        101 => return format!("General socket error ({text})"),
        103 => "ECONNABORTED",
        104 => "ECONNRESET",
        105 => "ENOBUFS",
        107 => "ENOTCONN",
        110 => "ETIMEDOUT",
        111 => "ECONNREFUSED",
        113 => "EHOSTUNREACH",
        _ => return format!("errno={code} returned by OS ({text})"),
    };
    format!("{name} returned by OS ({text})")
}

/// Computes the texts of one check.
struct Evaluator<'a> {
    worker: &'a Worker,
    proxy: &'a Proxy,
    server: &'a Server,
    /// Made when something has to be computed, which few checks need.
    subject: Option<Box<Subject>>,
}

/// What expressions are evaluated against.
struct Subject {
    session: Session,
    facts: StreamFacts,
    vars: VarSet,
}

impl<'a> Evaluator<'a> {
    fn new(worker: &'a Worker, proxy: &'a Proxy, server: &'a Server) -> Evaluator<'a> {
        Evaluator { worker, proxy, server, subject: None }
    }

    fn subject(proxy: &Proxy, server: &Server) -> Subject {
        let id = facts::ProxyId(proxy.id.0);
        let mut facts = StreamFacts::new(id, proxy.mode == thalweg_config::model::Mode::Http);
        facts.backend_assigned = true;
        facts.server = Some(facts::ServerId { proxy: id, index: server.id.0 });
        Subject { session: Session::new(id, ListenerId(0)), facts, vars: VarSet::new(Scope::Check) }
    }

    fn with<R>(&mut self, heard: Heard<'_>, f: impl FnOnce(&mut Ctx<'_>) -> R) -> R {
        let (proxy, server) = (self.proxy, self.server);
        let subject = self.subject.get_or_insert_with(|| Box::new(Evaluator::subject(proxy, server)));
        let mut scratch = self.worker.scratch.borrow_mut();
        let mut cx = Ctx::new(self.worker.clock(), self.worker, &mut subject.session, &mut scratch);
        cx.stream = Some(&mut subject.facts);
        cx.response = heard.response;
        cx.res_body = Payload::new(heard.bytes, true, None);
        cx.response_side = true;
        cx.check_vars = Some(&mut subject.vars);
        cx.reset();
        f(&mut cx)
    }
}

impl Evaluate for Evaluator<'_> {
    fn format(&mut self, format: &LogFormat, heard: Heard<'_>, out: &mut Vec<u8>) {
        self.with(heard, |cx| format.render(cx, out));
    }

    fn integer(&mut self, expr: &Expr, heard: Heard<'_>) -> Option<i64> {
        self.with(heard, |cx| match expr.eval_as(Type::Int, cx)?.value {
            Value::Int(value) => Some(value),
            _ => None,
        })
    }

    fn assign(&mut self, assignment: &Assignment, heard: Heard<'_>) {
        self.with(heard, |cx| {
            let sample = match &assignment.source {
                Source::Nothing => {
                    cx.unset_var(assignment.variable);
                    return;
                }
                Source::Expr(expr) => expr.eval(cx),
                Source::Format(format) => {
                    let mut text = Vec::new();
                    format.render(cx, &mut text);
                    cx.store(&text).map(|text| Sample::new(Value::Str(text)))
                }
            };
            let Some(sample) = sample else { return };
            if let Some(conditions) = assignment.conditions {
                let bytes = cx.bytes(&sample.value);
                let variable = assignment.variable;
                let allowed = cx
                    .with_var(variable, |old| conditions.allow(variable, Some(old), &sample, bytes))
                    .unwrap_or_else(|| conditions.allow(variable, None, &sample, bytes));
                if !allowed {
                    return;
                }
            }
            // A limit on the memory of variables is not a fault of the server.
            cx.set_var(assignment.variable, sample.value);
        });
    }

    fn server_state(&mut self) -> Vec<u8> {
        let instance = &self.worker.instance;
        let backend = self.worker.backend(self.proxy.id);
        let standing = backend.standing(self.server.id);
        let health = standing.health;
        let state = match standing.is_draining() {
            true if health.is_up() => "NOLB".to_owned(),
            _ if health.is_changing() => {
                let shown = health.to_string();
                let (count, word) = shown.split_once(' ').unwrap_or((&shown, ""));
                format!("{word} {count}")
            }
            _ if !health.is_up() => "DOWN".to_owned(),
            _ => "UP".to_owned(),
        };
        let now = backend.identity(self.server);
        let (address, port) = match &now.addr {
            ServerAddr::Tcp(addr) => (addr.ip().to_string(), addr.port().to_string()),
            _ => ("unix".to_owned(), "unix".to_owned()),
        };
        let total: u32 = self
            .proxy
            .servers
            .iter()
            .filter(|s| !s.backup && backend.is_usable(s.id))
            .map(|s| backend.weight(s.id))
            .sum();
        format!(
            "{state}; address={address}; port={port}; name={}/{}; node={}; weight={}/{total}; scur={}/{}; qcur={}",
            self.proxy.name,
            now.name,
            instance.config.global.node.as_deref().unwrap_or(&instance.hostname),
            backend.weight(self.server.id),
            instance.server_streams(self.proxy.id, self.server.id),
            instance.backend_streams(self.proxy.id),
            backend.server_queue_len(self.server.id),
        )
        .into_bytes()
    }
}

/// The word of the statistics for a report: `* ` before it while a check runs.
impl CheckReport {
    /// `srv_check_result` of `show servers state`: 0 unknown, 2 failed, 3 passed, 4 conditionally.
    pub fn result_number(&self) -> u8 {
        match self.verdict.status.passed() {
            _ if self.duration_ms.is_none() => 0,
            Passed::No => 2,
            Passed::Yes => 3,
            Passed::Conditionally => 4,
        }
    }

    /// `check_status`: `L7OK`, `* L4CON`, `INI`.
    pub fn status_word(&self) -> String {
        let mark = if self.running && self.verdict.status != Status::Initializing { "* " } else { "" };
        format!("{mark}{}", self.verdict.status.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F: Future>(_: fn(Checker, u64) -> F) -> usize {
        size_of::<F>()
    }

    /// What a server's checker takes between two checks, besides the runtime's own record of it.
    #[test]
    fn a_waiting_check_is_small() {
        let size = size_of_future(Checker::run);
        assert!(size <= 128, "{size} bytes");
    }

    #[test]
    fn a_check_in_progress_is_small() {
        fn size_of_future<'a, F: Future>(_: fn(&'a Checker, &'a CheckConfig, u64) -> F) -> usize {
            size_of::<F>()
        }
        let size = size_of_future(Checker::converse);
        assert!(size <= 1024, "{size} bytes");
    }
}
