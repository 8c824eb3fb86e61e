//! What an expression is evaluated against.

use crate::facts::{Endpoint, ListenerId, ProxyId, ServerId, Session, StreamFacts, TableId};
use crate::value::{Place, Sample, Text, Value, decimal};
use crate::vars::{Scope, VarRef, VarSet, VarValue};
use std::sync::Arc;
use thalweg_http::Head;
use thalweg_shared::RwLock;

/// The current time, read once per event by whoever owns the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Microseconds on the monotonic clock.
    pub mono_us: u64,
    /// Microseconds since 1970.
    pub wall_us: i64,
}

/// What the kernel says about a TCP connection. Times in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TcpInfo {
    pub rtt_us: u32,
    pub rttvar_us: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub fackets: u32,
    pub reordering: u32,
}

/// What a task has cost; times only of what was profiled (manual, `profiling.tasks`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskFigures {
    /// How often it was called.
    pub calls: u64,
    /// Nanoseconds that it ran.
    pub ran_ns: u64,
    /// Nanoseconds that it waited to be called.
    pub waited_ns: u64,
}

/// Load figures of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerFigures {
    /// Connections in use.
    pub conn: u32,
    /// `maxconn` in effect now; 0: none.
    pub maxconn: u32,
    /// Requests waiting in its queue.
    pub queue: u32,
    /// New sessions in the last second.
    pub sess_rate: u32,
    /// True when it can be used.
    pub up: bool,
    /// The weight from the configuration.
    pub initial_weight: u32,
    /// The weight set by the user.
    pub user_weight: u32,
    /// The weight in effect.
    pub weight: u32,
}

/// Load figures of a frontend or backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyFigures {
    /// Connections (frontend) or sessions (backend) in use.
    pub conn: u32,
    /// Requests waiting in the backend's own queue.
    pub queue: u32,
    /// Requests waiting in the backend's and its servers' queues.
    pub total_queue: u32,
    /// Servers that can be used.
    pub servers_up: u32,
    /// New sessions in the last second.
    pub sess_rate: u32,
    /// Requests in the last second.
    pub req_rate: u32,
    /// Connections the backend's servers can still take; -1: no limit.
    pub conn_free: i64,
    /// Connections and queue slots the backend's servers can still take; -1: no limit.
    pub conn_slots: i64,
}

/// Timeouts of a proxy as configured, in milliseconds; 0: none.
pub type ProxyTimeouts = crate::facts::Timeouts;

/// Everything outside the stream that fetches and logs ask for: names and live figures. Implemented by
/// the proxy; every answer must be cheap, no lock taken.
pub trait World {
    /// The name of a frontend or backend.
    fn proxy_name(&self, id: ProxyId) -> &str;
    /// The number of a frontend or backend, as in `id` and the statistics.
    fn proxy_number(&self, id: ProxyId) -> u32;
    /// The name of the default backend of a frontend.
    fn default_backend_name(&self, id: ProxyId) -> Option<&str>;
    /// The load of a frontend or backend.
    fn proxy_figures(&self, id: ProxyId) -> ProxyFigures;
    /// The configured timeouts of a frontend or backend.
    fn proxy_timeouts(&self, id: ProxyId) -> ProxyTimeouts;
    /// The configured `retries` of a backend.
    fn proxy_retries(&self, id: ProxyId) -> u32;
    /// Whether a frontend is a proxy to clients that name a whole URI (`option http-use-proxy-header`).
    fn is_proxy_to_clients(&self, frontend: ProxyId) -> bool;
    /// A frontend by name, for converters whose input is a name.
    fn frontend_by_name(&self, name: &[u8]) -> Option<ProxyId>;
    /// A backend by name.
    fn backend_by_name(&self, name: &[u8]) -> Option<ProxyId>;
    /// A server of a backend by name.
    fn server_by_name(&self, backend: ProxyId, name: &[u8]) -> Option<ServerId>;
    /// Gives the name of a server, which may change while the process runs, to `f`.
    fn with_server_name(&self, id: ServerId, f: &mut dyn FnMut(&str));
    /// The number of a server, as in the statistics.
    fn server_number(&self, id: ServerId) -> u32;
    /// The load of a server.
    fn server_figures(&self, id: ServerId) -> ServerFigures;
    /// The name of a listener, if it has one.
    fn listener_name(&self, id: ListenerId) -> Option<&str>;
    /// The number of a listener.
    fn listener_number(&self, id: ListenerId) -> u32;
    /// True when the listener does TLS.
    fn listener_is_tls(&self, id: ListenerId) -> bool;
    /// Connections on a listener.
    fn listener_connections(&self, id: ListenerId) -> u32;
    /// Connections on the whole process.
    fn active_connections(&self) -> u32;
    /// The name of this host.
    fn hostname(&self) -> &str;
    /// The process's identifier.
    fn pid(&self) -> u32;
    /// The thread that runs, from 0, within its group.
    fn thread(&self) -> u32;
    /// The group of the thread that runs, from 0.
    fn thread_group(&self) -> u32 {
        0
    }
    /// What the stream's task has cost since the stream began.
    fn task_figures(&self) -> TaskFigures;
    /// The share of the time that this thread was busy lately, in percent.
    fn thread_busy_percent(&self) -> u32;
    /// The same of all threads, on average.
    fn process_busy_percent(&self) -> u32;
    /// Seconds since the process started.
    fn uptime(&self) -> u64;
    /// True when the process is stopping.
    fn stopping(&self) -> bool;
    /// True when `addr` is an address of this host.
    fn is_local(&self, addr: std::net::IpAddr) -> bool;
    /// What the kernel says about the connection of a socket; `None` also when it is gone. The number is this
    /// environment's own, never 0.
    fn tcp_info(&self, socket: u64) -> Option<TcpInfo>;
    /// 64 random bits.
    fn random(&self) -> u64;
    /// Fills `out` with random bytes good enough for identifiers.
    fn random_bytes(&self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.random().to_ne_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
    /// Checks a user's password against a user list (by its index in the configuration).
    fn check_auth(&self, userlist: u32, user: &[u8], password: &[u8]) -> bool;
    /// True when `user` of the user list is in `group`.
    fn user_in_group(&self, userlist: u32, user: &[u8], group: &[u8]) -> bool;
    /// The unique identifier format of a frontend, if it has one.
    fn unique_id_format(&self, frontend: ProxyId) -> Option<&crate::logformat::LogFormat>;
    /// Seconds that local time is ahead of UTC at `unix_seconds`, and the zone's abbreviation. For dates.
    fn local_offset(&self, unix_seconds: i64) -> i32;
    /// `proc` variables.
    fn process_vars(&self) -> &RwLock<VarSet>;
    /// Adds one to the log counter of a proxy and returns its former value (`%lc`).
    fn next_log_counter(&self, proxy: ProxyId) -> u64;
    /// The length declared for a capture slot of a frontend; `None` when there is no such slot.
    fn capture_len(&self, frontend: ProxyId, response: bool, slot: usize) -> Option<usize>;
    /// Writes a line of `debug()` to `stdout`, `stderr` or a ring.
    fn debug_line(&self, sink: &[u8], line: &[u8]);
    /// A stick table.
    fn table(&self, id: TableId) -> Option<&thalweg_stick::Local>;
    /// A certificate for converters of tokens.
    fn token_certificate(&self, name: &[u8]) -> thalweg_tls::live::TokenCertificate {
        let _ = name;
        thalweg_tls::live::TokenCertificate::Unknown
    }
    /// The public key, in DER, that some expression took from the file of this name at the start.
    fn token_key(&self, path: &[u8]) -> Option<Arc<[u8]>>;
}

/// Bytes that take some work to be read, such as those of a chunked body: the work is done when they are first asked
/// for.
pub trait Unread {
    /// The payload, as [`Payload::new`] makes it.
    fn read(&self) -> Payload<'_>;
}

/// The bytes of one direction that are buffered so far: in HTTP the payload of this message, without its head and
/// framing and without what follows it; in TCP the raw bytes.
#[derive(Clone, Copy, Default)]
pub struct Payload<'a> {
    bytes: &'a [u8],
    unread: Option<&'a dyn Unread>,
    complete: bool,
    /// The message is there to its end, which chunks have behind the last of their payload.
    whole: bool,
    total: Option<u64>,
}

impl<'a> Payload<'a> {
    /// `complete` says that no more will come, `total` is the announced length of the whole, when it is known.
    pub fn new(bytes: &'a [u8], complete: bool, total: Option<u64>) -> Payload<'a> {
        Payload { bytes, unread: None, complete, whole: complete, total }
    }

    /// The same of a message that is, or is not, there to its end.
    pub fn of_whole(self, whole: bool) -> Payload<'a> {
        Payload { whole, ..self }
    }

    /// Bytes that are read when they are first asked for.
    pub fn unread(unread: &'a dyn Unread) -> Payload<'a> {
        Payload { unread: Some(unread), ..Payload::default() }
    }

    /// The bytes.
    pub fn data(&self) -> &'a [u8] {
        self.unread.map_or(self.bytes, |unread| unread.read().bytes)
    }

    /// True when no more will come.
    pub fn is_complete(&self) -> bool {
        self.unread.map_or(self.complete, |unread| unread.read().complete)
    }

    /// True when all of the message is there, and not only its payload.
    pub fn is_whole(&self) -> bool {
        self.unread.map_or(self.whole, |unread| unread.read().whole)
    }

    /// The announced length of the whole, when known (`req.body_size`).
    pub fn total(&self) -> Option<u64> {
        self.unread.map_or(self.total, |unread| unread.read().total)
    }
}

/// A date formatted up to its seconds: `14/Nov/2023:22:13:20`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CachedDate {
    /// Seconds since 1970 plus the offset from UTC.
    pub seconds: i64,
    /// The text; all zero bytes when there is none.
    pub text: [u8; 20],
}

/// Memory for the values made during evaluations: one per thread, reused for ever.
#[derive(Debug)]
pub struct Scratch {
    buf: Box<[u8]>,
    used: usize,
    value_max: usize,
    depth: u32,
    /// Snapshots of pattern sets this thread has seen, by the set's number.
    pub(crate) snapshots: crate::pattern::SnapshotCache,
    /// The last dates formatted, by second and offset from UTC: log lines of one second share them.
    pub(crate) dates: std::cell::Cell<[CachedDate; 2]>,
    /// Where formats are written before they are kept.
    pub(crate) format: Vec<u8>,
    /// Who is told what rules do; nobody, but when they are explained.
    pub watch: Option<Box<dyn crate::watch::Watch>>,
    /// Where rules tell what they would change of maps and lists, where they may not do it: in a rehearsal beside the process that
    /// those belong to.
    pub withheld: Option<Vec<String>>,
}

/// A bump position in the scratch memory, to give back what came after it.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

impl Scratch {
    /// Memory for values of at most `value_max` bytes (`tune.bufsize`), eight of them at a time.
    pub fn new(value_max: usize) -> Scratch {
        let value_max = value_max.clamp(1024, 1 << 24);
        Scratch {
            buf: vec![0; value_max * 8].into_boxed_slice(),
            used: 0,
            value_max,
            depth: 0,
            snapshots: Default::default(),
            dates: Default::default(),
            format: Vec::new(),
            watch: None,
            withheld: None,
        }
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new(16384)
    }
}

/// A writer over bounded memory. What does not fit is refused, and remembered as an overflow.
pub struct Out<'b> {
    buf: &'b mut [u8],
    len: usize,
    overflow: bool,
}

impl<'b> Out<'b> {
    /// A writer over `buf`.
    pub fn new(buf: &'b mut [u8]) -> Out<'b> {
        Out { buf, len: 0, overflow: false }
    }

    /// Appends one byte; false when it does not fit.
    #[inline]
    pub fn push(&mut self, byte: u8) -> bool {
        match self.buf.get_mut(self.len) {
            Some(slot) => {
                *slot = byte;
                self.len += 1;
                true
            }
            None => {
                self.overflow = true;
                false
            }
        }
    }

    /// Appends bytes; false, and nothing written, when they do not fit.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) -> bool {
        match self.buf.get_mut(self.len..self.len + bytes.len()) {
            Some(slot) => {
                slot.copy_from_slice(bytes);
                self.len += bytes.len();
                true
            }
            None => {
                self.overflow = true;
                false
            }
        }
    }

    /// Appends as many of `bytes` as fit and returns how many.
    pub fn extend_cut(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.remaining());
        self.buf[self.len..self.len + n].copy_from_slice(&bytes[..n]);
        self.len += n;
        n
    }

    /// Appends a decimal number; false when it does not fit.
    pub fn int(&mut self, value: i64) -> bool {
        let mut digits = [0; 20];
        let text = decimal(value, &mut digits);
        self.extend(text)
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that still fit.
    pub fn remaining(&self) -> usize {
        self.buf.len() - self.len
    }

    /// True when something did not fit.
    pub fn overflowed(&self) -> bool {
        self.overflow
    }

    /// What was written.
    pub fn as_slice(&self) -> &[u8] {
        &self.buf[..self.len]
    }

    /// What was written, to change in place.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.buf[..self.len]
    }

    /// Forgets what was written after the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The unwritten rest of the memory, to fill directly; then call [`Out::advance`].
    pub fn spare(&mut self) -> &mut [u8] {
        &mut self.buf[self.len..]
    }

    /// Counts `n` bytes of [`Out::spare`] as written.
    pub fn advance(&mut self, n: usize) {
        self.len = (self.len + n).min(self.buf.len());
    }
}

impl std::fmt::Write for Out<'_> {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        if self.extend(s.as_bytes()) { Ok(()) } else { Err(std::fmt::Error) }
    }
}

/// What an expression is evaluated against: the time, the world, the session, the stream and
/// its messages, and memory for the values made on the way.
pub struct Ctx<'a> {
    /// The time of this evaluation.
    pub clock: Clock,
    /// Names and live figures.
    pub world: &'a dyn World,
    /// The client's session.
    pub session: &'a mut Session,
    /// The stream, once there is one.
    pub stream: Option<&'a mut StreamFacts>,
    /// The request's head, once received, while it is there.
    pub request: Option<&'a mut Head>,
    /// The response's head, once received.
    pub response: Option<&'a mut Head>,
    /// The request's body, or the client's bytes in TCP rules.
    pub req_body: Payload<'a>,
    /// The response's body, or the server's bytes in TCP rules.
    pub res_body: Payload<'a>,
    /// True when the response is what is being processed: decides what `hdr`, `payload` and the like read.
    pub response_side: bool,
    /// True when no more data will come before the decision: fetches must not ask to wait.
    pub last: bool,
    /// There is no request, but what was received may become the head of one: in rules on the bytes of a client.
    pub request_may_come: bool,
    /// Set by a fetch that found nothing, or a value that may still change, because more data is needed.
    pub may_change: bool,
    /// The variables of a health check, while one runs.
    pub check_vars: Option<&'a mut VarSet>,
    /// Memory for values.
    pub scratch: &'a mut Scratch,
}

impl<'a> Ctx<'a> {
    /// A context with a session and nothing else.
    pub fn new(
        clock: Clock,
        world: &'a dyn World,
        session: &'a mut Session,
        scratch: &'a mut Scratch,
    ) -> Ctx<'a> {
        Ctx {
            clock,
            world,
            session,
            stream: None,
            request: None,
            response: None,
            req_body: Payload::default(),
            res_body: Payload::default(),
            response_side: false,
            last: true,
            request_may_come: false,
            may_change: false,
            check_vars: None,
            scratch,
        }
    }

    /// The client's address, with what rules have changed.
    #[inline]
    pub fn source(&self) -> Endpoint {
        self.stream.as_ref().and_then(|stream| stream.src).unwrap_or_else(|| self.session.source())
    }

    /// The bytes of a text. Positions outside their place read as nothing.
    #[inline]
    pub fn text(&self, text: Text) -> &[u8] {
        match text {
            Text::Static(bytes) => bytes,
            Text::At { place, off, len } => {
                let base: &[u8] = match place {
                    Place::Scratch => &self.scratch.buf[..self.scratch.used],
                    Place::Request => self.request.as_ref().map_or(&[], |head| head.store()),
                    Place::Response => self.response.as_ref().map_or(&[], |head| head.store()),
                    Place::RequestBody => self.req_body.data(),
                    Place::ResponseBody => self.res_body.data(),
                };
                let off = off as usize;
                base.get(off..off + len as usize).unwrap_or(&[])
            }
        }
    }

    /// The bytes of a textual value; nothing for other types.
    #[inline]
    pub fn bytes(&self, value: &Value) -> &[u8] {
        value.text().map_or(&[], |text| self.text(text))
    }

    /// The position to give back with [`Ctx::release`] once the values made from now on are done with.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark(self.scratch.used)
    }

    /// Gives back the memory of every value made since `mark`.
    #[inline]
    pub fn release(&mut self, mark: Mark) {
        self.scratch.used = self.scratch.used.min(mark.0);
    }

    /// Gives back all scratch memory. For whoever starts an evaluation and holds no value.
    #[inline]
    pub fn reset(&mut self) {
        self.scratch.used = 0;
    }

    /// Whether the stream is one of TCP. What its client says is bytes, even if they can be read as a request, too.
    pub fn is_tcp(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| !stream.is_http)
    }

    /// The most bytes one value may have (`tune.bufsize`).
    pub fn value_max(&self) -> usize {
        self.scratch.value_max
    }

    /// Makes a text by writing it. `None` when the writer returns false or overflowed.
    pub fn write(&mut self, write: impl FnOnce(&mut Out) -> bool) -> Option<Text> {
        let start = self.scratch.used;
        let end = self.scratch.buf.len().min(start + self.scratch.value_max);
        let mut out = Out::new(&mut self.scratch.buf[start..end]);
        if !write(&mut out) || out.overflowed() {
            return None;
        }
        let len = out.len();
        self.scratch.used += len;
        Some(Text::At { place: Place::Scratch, off: start as u32, len: len as u32 })
    }

    /// Copies bytes that live outside the context.
    pub fn store(&mut self, bytes: &[u8]) -> Option<Text> {
        self.write(|out| out.extend(bytes))
    }

    /// Makes a text from the bytes of another, wherever they are, without copying the input.
    /// `None` when `map` returns false or its output does not fit.
    pub fn map_bytes(&mut self, text: Text, map: impl FnOnce(&[u8], &mut Out) -> bool) -> Option<Text> {
        let Scratch { buf, used, value_max, .. } = &mut *self.scratch;
        let start = *used;
        let end = buf.len().min(start + *value_max);
        let (old, fresh) = buf.split_at_mut(start);
        let input: &[u8] = match text {
            Text::Static(bytes) => bytes,
            Text::At { place, off, len } => {
                let base: &[u8] = match place {
                    Place::Scratch => old,
                    Place::Request => self.request.as_ref().map_or(&[], |head| head.store()),
                    Place::Response => self.response.as_ref().map_or(&[], |head| head.store()),
                    Place::RequestBody => self.req_body.data(),
                    Place::ResponseBody => self.res_body.data(),
                };
                base.get(off as usize..off as usize + len as usize).unwrap_or(&[])
            }
        };
        let mut out = Out::new(&mut fresh[..end - start]);
        if !map(input, &mut out) || out.overflowed() {
            return None;
        }
        let len = out.len();
        *used += len;
        Some(Text::At { place: Place::Scratch, off: start as u32, len: len as u32 })
    }

    /// Like [`Ctx::map_bytes`] with two inputs (`first`, `second`).
    pub fn map_two(
        &mut self,
        first: Text,
        second: Text,
        map: impl FnOnce(&[u8], &[u8], &mut Out) -> bool,
    ) -> Option<Text> {
        let Scratch { buf, used, value_max, .. } = &mut *self.scratch;
        let start = *used;
        let end = buf.len().min(start + *value_max);
        let (old, fresh) = buf.split_at_mut(start);
        let old: &[u8] = old;
        let input = |text: Text| -> &[u8] {
            match text {
                Text::Static(bytes) => bytes,
                Text::At { place, off, len } => {
                    let base: &[u8] = match place {
                        Place::Scratch => old,
                        Place::Request => self.request.as_ref().map_or(&[], |head| head.store()),
                        Place::Response => self.response.as_ref().map_or(&[], |head| head.store()),
                        Place::RequestBody => self.req_body.data(),
                        Place::ResponseBody => self.res_body.data(),
                    };
                    base.get(off as usize..off as usize + len as usize).unwrap_or(&[])
                }
            }
        };
        let mut out = Out::new(&mut fresh[..end - start]);
        if !map(input(first), input(second), &mut out) || out.overflowed() {
            return None;
        }
        let len = out.len();
        *used += len;
        Some(Text::At { place: Place::Scratch, off: start as u32, len: len as u32 })
    }

    /// Like [`Ctx::map_bytes`] with three inputs.
    pub fn map_three(
        &mut self,
        first: Text,
        second: Text,
        third: Text,
        map: impl FnOnce(&[u8], &[u8], &[u8], &mut Out) -> bool,
    ) -> Option<Text> {
        let start = self.scratch.used;
        let end = self.scratch.buf.len().min(start + self.scratch.value_max);
        // The output is taken out for the time of the call, so that the inputs can be borrowed from the context.
        let mut buf = std::mem::take(&mut self.scratch.buf);
        let (old, fresh) = buf.split_at_mut(start);
        let old: &[u8] = old;
        let input = |text: Text| match text {
            Text::At { place: Place::Scratch, off, len } => {
                old.get(off as usize..off as usize + len as usize).unwrap_or(&[])
            }
            _ => self.text(text),
        };
        let mut out = Out::new(&mut fresh[..end - start]);
        let done = map(input(first), input(second), input(third), &mut out) && !out.overflowed();
        let len = out.len();
        self.scratch.buf = buf;
        if !done {
            return None;
        }
        self.scratch.used += len;
        Some(Text::At { place: Place::Scratch, off: start as u32, len: len as u32 })
    }

    /// Copies a text into the scratch memory if it is elsewhere, so that its bytes stay the same when the
    /// message changes.
    pub fn keep(&mut self, text: Text) -> Option<Text> {
        match text {
            Text::Static(_) | Text::At { place: Place::Scratch, .. } => Some(text),
            Text::At { .. } => self.map_bytes(text, |input, out| out.extend(input)),
        }
    }

    /// When the scratch memory is more than half full, moves the text of the only live value made since `mark` down
    /// to it. Lets a long chain of converters run in bounded memory.
    pub(crate) fn compact(&mut self, mark: Mark, sample: &mut Sample) {
        if self.scratch.used * 2 < self.scratch.buf.len() {
            return;
        }
        let (Value::Str(text) | Value::Bin(text) | Value::Method(text)) = &mut sample.value else {
            self.release(mark);
            return;
        };
        if let Text::At { place: Place::Scratch, off, len } = *text {
            let (from, n) = (off as usize, len as usize);
            if from >= mark.0 {
                self.scratch.buf.copy_within(from..from + n, mark.0);
                self.scratch.used = mark.0 + n;
                *text = Text::At { place: Place::Scratch, off: mark.0 as u32, len };
            }
        } else {
            self.release(mark);
        }
    }

    /// Counts one more level of nested evaluation (conditions inside `acl()`, unique identifiers inside logs);
    /// false when there are too many.
    pub(crate) fn enter(&mut self) -> bool {
        self.scratch.depth += 1;
        if self.scratch.depth > 32 {
            self.scratch.depth -= 1;
            return false;
        }
        true
    }

    pub(crate) fn leave(&mut self) {
        self.scratch.depth = self.scratch.depth.saturating_sub(1);
    }

    /// The variables of a scope, when that scope exists now. Not for `proc`, which is shared:
    /// see [`World::process_vars`].
    pub fn vars(&self, scope: Scope) -> Option<&VarSet> {
        match scope {
            Scope::Sess => Some(&self.session.vars),
            Scope::Txn => self.stream.as_ref().map(|s| &s.vars.txn),
            Scope::Req => self.stream.as_ref().filter(|s| !s.in_response).map(|s| &s.vars.req),
            Scope::Res => self.stream.as_ref().filter(|s| s.in_response).map(|s| &s.vars.res),
            Scope::Check => self.check_vars.as_deref(),
            // No stream of ours has a parent stream.
            Scope::Proc | Scope::ParentSess | Scope::ParentTxn | Scope::ParentReq | Scope::ParentRes => None,
        }
    }

    fn vars_mut(&mut self, scope: Scope) -> Option<&mut VarSet> {
        match scope {
            Scope::Sess => Some(&mut self.session.vars),
            Scope::Txn => self.stream.as_mut().map(|s| &mut s.vars.txn),
            Scope::Req => self.stream.as_mut().filter(|s| !s.in_response).map(|s| &mut s.vars.req),
            Scope::Res => self.stream.as_mut().filter(|s| s.in_response).map(|s| &mut s.vars.res),
            Scope::Check => self.check_vars.as_deref_mut(),
            _ => None,
        }
    }

    /// Calls `with` on the value of a variable, if it is set.
    pub fn with_var<R>(&self, var: VarRef, with: impl FnOnce(&VarValue) -> R) -> Option<R> {
        if var.scope == Scope::Proc {
            let vars = self.world.process_vars().read().ok()?;
            return vars.find(var.name).map(with);
        }
        self.vars(var.scope)?.find(var.name).map(with)
    }

    /// The value of a variable as a sample; its text is copied to the scratch memory.
    pub fn var(&mut self, var: VarRef) -> Option<Sample> {
        // The scratch memory is taken out for the time of the copy: the variable may live in the
        // session, which is borrowed through `self`.
        let start = self.scratch.used;
        let end = self.scratch.buf.len().min(start + self.scratch.value_max);
        let mut buf = std::mem::take(&mut self.scratch.buf);
        let value = self
            .with_var(var, |value| {
                let bytes = value.bytes();
                if bytes.len() > end - start {
                    return None;
                }
                buf[start..start + bytes.len()].copy_from_slice(bytes);
                let text = Text::At { place: Place::Scratch, off: start as u32, len: bytes.len() as u32 };
                Some(match value {
                    VarValue::Bool(b) => Value::Bool(*b),
                    VarValue::Int(i) => Value::Int(*i),
                    VarValue::Ip4(ip) => Value::Ip4(*ip),
                    VarValue::Ip6(ip) => Value::Ip6(*ip),
                    VarValue::Str(_) => Value::Str(text),
                    VarValue::Bin(_) => Value::Bin(text),
                    VarValue::Method(_) => Value::Method(text),
                })
            })
            .flatten();
        self.scratch.buf = buf;
        let value = value?;
        self.scratch.used += value.text().map_or(0, |text| text.len());
        Some(Sample::new(value))
    }

    /// Sets a variable. False when its scope does not exist now, cannot be written, or a memory limit is reached.
    pub fn set_var(&mut self, var: VarRef, value: Value) -> bool {
        // As in `var`: the bytes may be in the scratch memory, which is taken out meanwhile.
        let buf = std::mem::take(&mut self.scratch.buf);
        let (request, response) = (self.request.take(), self.response.take());
        let bytes: &[u8] = match value.text() {
            None => &[],
            Some(Text::Static(bytes)) => bytes,
            Some(Text::At { place, off, len }) => {
                let base: &[u8] = match place {
                    Place::Scratch => &buf,
                    Place::Request => request.as_ref().map_or(&[], |head| head.store()),
                    Place::Response => response.as_ref().map_or(&[], |head| head.store()),
                    Place::RequestBody => self.req_body.data(),
                    Place::ResponseBody => self.res_body.data(),
                };
                base.get(off as usize..off as usize + len as usize).unwrap_or(&[])
            }
        };
        let done = if var.scope == Scope::Proc {
            self.world.process_vars().write().is_ok_and(|mut vars| vars.set(var.name, value, bytes))
        } else {
            self.vars_mut(var.scope).is_some_and(|vars| vars.set(var.name, value, bytes))
        };
        self.scratch.buf = buf;
        self.request = request;
        self.response = response;
        done
    }

    /// Removes a variable; true when it was set.
    pub fn unset_var(&mut self, var: VarRef) -> bool {
        if var.scope == Scope::Proc {
            return self.world.process_vars().write().is_ok_and(|mut vars| vars.unset(var.name));
        }
        self.vars_mut(var.scope).is_some_and(|vars| vars.unset(var.name))
    }
}
