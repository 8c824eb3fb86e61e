//! What collectors of OpenTelemetry are told of requests: each thread keeps the spans of its streams until its sender takes them
//! (`opentelemetry` section). Without that section nothing here is reached.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;

use thalweg_config::model::{Proxy, ServerId};
use thalweg_http::{HeaderId, Method, uri};
use thalweg_otel::context::TRACESTATE;
use thalweg_otel::{Batch, Context, Span, Value};
use thalweg_runtime::{Reason, TaskId, current_task};
use thalweg_sample::context::World;
use thalweg_sample::facts::{Termination, Timers};
use thalweg_shared::{AtomicU32, Ordering};

use crate::counters::counter::Counter;
use crate::stopping::Stopping;
use crate::stream::Stream;
use crate::stream::ending::Cause;
use crate::worker::Thread;

/// Bytes of spans that are worth a message of their own.
const MESSAGE_SIZE: usize = 64 * 1024;

/// Nanoseconds of a microsecond.
const NS_PER_US: u64 = 1000;

/// A thread's spans that wait to be sent.
#[derive(Debug)]
pub struct Spans {
    batch: RefCell<Batch>,
    /// The process does not end before its collector had them.
    hold_the_end: Cell<bool>,
    /// Who sends them.
    sender: Cell<TaskId>,
}

impl Default for Spans {
    fn default() -> Spans {
        Spans { batch: RefCell::default(), hold_the_end: Cell::new(false), sender: Cell::new(TaskId::NONE) }
    }
}

/// What one thread counted about its spans, and about metrics.
#[derive(Default)]
pub struct SpanCounters {
    /// Spans that were kept to be sent.
    pub recorded: Counter,
    /// Spans that were lost because too many waited.
    pub dropped: Counter,
    /// Spans that a collector took.
    pub sent: Counter,
    /// Spans that no collector took.
    pub failed: Counter,
    /// Messages with metrics that a collector took.
    pub metrics_sent: Counter,
    /// Messages with metrics that no collector took.
    pub metrics_failed: Counter,
}

/// How many threads have spans that a collector is to have before the process ends.
#[derive(Debug, Default)]
pub struct Unsent(AtomicU32);

impl Unsent {
    /// Whether no thread has.
    pub fn is_none(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }
}

/// Spans that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// There are none.
    None,
    /// They may wait for others.
    Some,
    /// They are to be sent now.
    Enough,
}

impl Thread {
    /// The calling task sends this thread's spans from now on.
    pub fn send_spans(&self) {
        self.spans.sender.set(current_task());
    }

    /// Whether spans wait.
    pub fn waiting_spans(&self) -> Waiting {
        match self.spans.batch.borrow().len() {
            0 => Waiting::None,
            size if size >= MESSAGE_SIZE || self.live.stopping() != Stopping::No => Waiting::Enough,
            _ => Waiting::Some,
        }
    }

    /// Takes the spans that wait, and how many they are.
    pub fn take_spans(&self) -> (Vec<u8>, u64) {
        self.spans.batch.borrow_mut().take()
    }

    /// Spans that were taken were sent, and this many of them `rejected`. If no others wait, the process may end as far as this thread's are concerned.
    pub fn spans_done(&self, count: u64, rejected: u64) {
        let (counters, rejected) = (&self.counters().spans, rejected.min(count));
        counters.sent.add(count - rejected);
        counters.failed.add(rejected);
        if self.waiting_spans() == Waiting::None && self.spans.hold_the_end.replace(false) {
            self.live.unsent_spans.0.fetch_sub(1, Ordering::SeqCst);
            crate::stop_when_idle(&self.live);
        }
    }

    /// Has whoever sends spans look at what there is.
    pub fn wake_span_sender(&self) {
        self.spans.sender.get().wake(Reason::OTHER);
    }

    /// Keeps a span, if there is `room` for it beside those that wait.
    fn keep_span<'a, A, E>(&self, span: Span<'a, A, E>, room: usize)
    where
        A: Iterator<Item = (&'a str, Value<'a>)>,
        E: Iterator<Item = (&'a str, u64)>,
    {
        let before = self.waiting_spans();
        let kept = self.spans.batch.borrow_mut().push(span, room);
        let counters = &self.counters().spans;
        if kept { &counters.recorded } else { &counters.dropped }.add(1);
        let now = self.waiting_spans();
        if before != now {
            if now != Waiting::None && !self.spans.hold_the_end.replace(true) {
                self.live.unsent_spans.0.fetch_add(1, Ordering::SeqCst);
            }
            self.wake_span_sender();
        }
    }
}

/// A moment of a stream's life, in nanoseconds since 1970; `None` if it was not reached.
fn moment_ns(timers: &Timers, at_us: i64) -> Option<u64> {
    let us = u64::try_from(timers.accept_wall_us.checked_add(at_us).filter(|_| at_us >= 0)?).ok()?;
    Some(us * NS_PER_US)
}

/// What was asked for, without a query, which often has what nobody else is to know.
fn path_of(line: &[u8]) -> &[u8] {
    let mut words = line.split(|byte| *byte == b' ');
    uri::path(words.nth(1).unwrap_or_default())
}

impl Stream<'_> {
    /// The stream begins a trace where no rule is there to do it (see `thalweg_rules::TraceBeginning`): one of TCP does at its start, a
    /// request that came to no rule at its end.
    #[cold]
    pub fn begin_trace(&mut self) {
        let Some(telemetry) = &self.worker.instance.config.opentelemetry else { return };
        let random = |out: &mut [u8]| self.worker.random_bytes(out);
        self.state.facts.set_trace(Context::new(None, telemetry.beginning.share, random));
    }

    /// Whether it is to have a trace although it came to no rule: a client that said nothing, or a monitor, is nothing to tell of.
    pub fn lacks_trace(&self) -> bool {
        let facts = &self.state.facts;
        facts.trace().is_none() && facts.req_bytes_in > 0 && self.state.ended != Cause::Monitored
    }

    /// The stream is over: its span is kept if its trace is recorded.
    #[cold]
    pub fn record_span(&self) {
        let (worker, state) = (self.worker, &*self.state);
        let facts = &state.facts;
        let (Some(telemetry), Some(context)) = (&worker.instance.config.opentelemetry, facts.trace()) else {
            return;
        };
        if !context.sampled {
            return;
        }
        let told = Told::of(self);
        let timers = &facts.timers;
        // When each phase was over, as far as it came to its end; see `show latency`.
        let phases =
            [("queue", timers.queue_us), ("connect", timers.connect_us), ("response", timers.response_us)];
        let begin_us = timers.idle_us.max(0) + timers.handshake_us.max(0);
        let span = Span {
            context,
            state: told.state(self),
            name: match facts.is_http {
                true if told.is_known() => told.method,
                true => b"HTTP",
                false => b"TCP",
            },
            start_ns: moment_ns(timers, begin_us).unwrap_or(0),
            end_ns: moment_ns(timers, timers.close_us).unwrap_or(0),
            attributes: told.attributes(self).into_iter(),
            events: phases.into_iter().filter_map(|(name, at_us)| Some((name, moment_ns(timers, at_us)?))),
            failed: told.failed,
        };
        worker.keep_span(span, telemetry.queue_size / worker.live.threads.len());
    }
}

/// What a span tells that the stream has in no such form.
struct Told<'s> {
    method: &'s [u8],
    client: Option<String>,
    port: Option<u16>,
    tls: bool,
    version: &'static [u8],
    backend: Option<&'s Proxy>,
    server: Option<String>,
    termination: [u8; 4],
    /// The request did not come to what it was for.
    failed: bool,
    /// What went wrong then: a status, or two letters.
    why: Vec<u8>,
    /// There is a request: none in TCP, and none where what came could not be read as one.
    is_request: bool,
}

impl<'s> Told<'s> {
    fn of(stream: &'s Stream<'_>) -> Told<'s> {
        let facts = &stream.state.facts;
        let session = stream.session.facts();
        let source = facts.src.unwrap_or_else(|| session.source());
        let backend = facts.backend_assigned.then(|| stream.backend());
        let server = backend.zip(facts.server).and_then(|(backend, server)| {
            let server = stream.worker.server(backend, ServerId(server.index))?;
            Some(stream.worker.with_name(backend.id, server, str::to_owned))
        });
        let Termination { cause, phase, cookie_in, cookie_out } = facts.termination;
        let status = u16::try_from(facts.status).ok();
        let failed = match facts.is_http {
            true => status.is_none_or(|status| status >= 500),
            false => cause != b'-',
        };
        Told {
            method: facts.request_line.split(|byte| *byte == b' ').next().unwrap_or_default(),
            client: source.ip().as_ref().map(IpAddr::to_string),
            port: source.port(),
            tls: session.rare().tls.is_some(),
            version: match (session.http_major, stream.state.request.version().minor) {
                (2, _) => b"2",
                (_, 0) => b"1.0",
                _ => b"1.1",
            },
            backend,
            server,
            termination: [cause, phase, cookie_in, cookie_out],
            failed,
            is_request: facts.is_http && stream.state.has_request,
            why: status.map_or_else(|| vec![cause, phase], |status| status.to_string().into_bytes()),
        }
    }

    /// Whether the method is one of RFC 9110 or RFC 5789. Others are not told as they are: there could be any number of them.
    fn is_known(&self) -> bool {
        Method::from_bytes(self.method) != Method::Other || self.method == b"PATCH"
    }

    /// What others keep in the trace.
    fn state<'a>(&self, stream: &'a Stream<'_>) -> &'a [u8] {
        let request = self.is_request.then_some(&stream.state.request);
        request.and_then(|request| request.find_all(TRACESTATE).next()).map_or(b"", |field| field.value)
    }

    fn attributes<'a>(&'a self, stream: &'a Stream<'_>) -> Vec<(&'static str, Value<'a>)> {
        let facts = &stream.state.facts;
        let text = |text: &'a str| Value::Text(text.as_bytes());
        let number = |number: u32| (number > 0).then(|| Value::Int(number.into()));
        let mut all = if self.is_request { self.of_request(stream) } else { Vec::new() };
        all.extend([
            ("network.transport", Some(text("tcp"))),
            ("client.address", self.client.as_deref().map(text)),
            ("client.port", self.port.map(|port| Value::Int(port.into()))),
            ("http.response.status_code", u32::try_from(facts.status).ok().and_then(number)),
            ("error.type", self.failed.then_some(Value::Text(&self.why))),
            ("thalweg.frontend", Some(text(&stream.frontend().name))),
            ("thalweg.backend", self.backend.map(|backend| text(&backend.name))),
            ("thalweg.server", self.server.as_deref().map(text)),
            ("thalweg.termination_state", Some(Value::Text(&self.termination))),
        ]);
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// What is told of a request.
    fn of_request<'a>(&'a self, stream: &'a Stream<'_>) -> Vec<(&'static str, Option<Value<'a>>)> {
        let (facts, request) = (&stream.state.facts, &stream.state.request);
        let field = |id: HeaderId| request.value(id).map(Value::Text);
        let known = self.is_known();
        let (host, port) = request.value(HeaderId::Host).map_or((None, None), host_and_port);
        vec![
            ("http.request.method", Some(Value::Text(if known { self.method } else { b"_OTHER" }))),
            ("http.request.method_original", (!known).then_some(Value::Text(self.method))),
            ("url.path", Some(Value::Text(path_of(&facts.request_line)))),
            ("url.scheme", Some(Value::Text(if self.tls { b"https" } else { b"http" }))),
            ("network.protocol.version", Some(Value::Text(self.version))),
            ("server.address", host.map(Value::Text)),
            ("server.port", port.map(|port| Value::Int(port.into()))),
            ("user_agent.original", field(HeaderId::UserAgent)),
            ("http.request.resend_count", (facts.retries > 0).then(|| Value::Int(facts.retries.into()))),
        ]
    }
}

/// What is in front of the port of a `Host` field, and the port if there is one; what looks otherwise is all host.
fn host_and_port(field: &[u8]) -> (Option<&[u8]>, Option<u16>) {
    let split = || {
        let at = field.iter().rposition(|byte| *byte == b':')?;
        let (host, port) = (&field[..at], std::str::from_utf8(&field[at + 1..]).ok()?);
        // An address of IPv6 has colons of its own, and stands in brackets.
        let is_whole = !host.contains(&b':') || host.ends_with(b"]");
        Some((host, port.parse().ok().filter(|_| is_whole && !port.starts_with('+'))?))
    };
    match split() {
        Some((host, port)) => (Some(host), Some(port)),
        None => (Some(field), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_no_part_of_hosts() {
        for (field, host, port) in [
            ("h", "h", None),
            ("h:80", "h", Some(80)),
            ("[::1]:8080", "[::1]", Some(8080)),
            ("[::1]", "[::1]", None),
            ("::1", "::1", None),
            ("h:", "h:", None),
            ("h:65536", "h:65536", None),
            ("h:+80", "h:+80", None),
            ("", "", None),
        ] {
            assert_eq!(host_and_port(field.as_bytes()), (Some(host.as_bytes()), port), "{field}");
        }
    }
}
