//! Sending log lines: the envelope, the sampling, the destinations. A slow or dead destination never delays
//! traffic: a line that cannot be sent at once is dropped and counted.
//!
//! Each thread has its own [`Logger`] and its own sockets. What threads share is the position of `sample` and the
//! number of dropped lines.

pub mod backend;
pub mod forward;
pub mod ring;
pub mod syslog;

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;

use thalweg_config::model::{
    Config, Facility, Global, LogDest, LogFormatKind, LogLevel, LogTarget, Mode, ProxyId,
};
use thalweg_runtime::net::{Datagram, DatagramOptions, SockAddr};
use thalweg_shared::{AtomicU32, AtomicU64, Mutex, Ordering};

use backend::{Backends, LogBackend, Outlets};
use forward::{Message, Rewrite};
use ring::{Feed, Ring};
use syslog::{DateCache, Envelope, write_envelope};

/// The number of the standard output.
const STDOUT: RawFd = 1;
/// The number of the standard error.
const STDERR: RawFd = 2;

/// What the loggers of all threads share.
pub struct LogShared {
    rings: Vec<(Arc<str>, LogFormatKind, Arc<Ring>)>,
    backends: Vec<(ProxyId, Arc<LogBackend>)>,
    /// Lines that could not be sent.
    pub dropped: AtomicU64,
    /// Position in the sampling period of each target, by the address of the list it is in and its index there.
    samples: Mutex<HashMap<(usize, usize), Arc<AtomicU32>>>,
}

impl LogShared {
    /// The rings of a configuration, empty.
    pub fn new(config: &Config) -> LogShared {
        let made = |ring: &thalweg_config::model::Ring| {
            let memory = Arc::new(Ring::new(ring.size, ring.maxlen as usize));
            (Arc::clone(&ring.name), ring.format, memory)
        };
        LogShared {
            rings: config.rings.iter().map(made).collect(),
            backends: config
                .proxies
                .iter()
                .filter(|proxy| proxy.mode == Mode::Log && !proxy.disabled)
                .map(|proxy| (proxy.id, Arc::new(LogBackend::new(proxy, config.global.tune.bufsize))))
                .collect(),
            dropped: AtomicU64::new(0),
            samples: Mutex::default(),
        }
    }

    /// A ring by its name, with the format of its lines.
    pub fn ring(&self, name: &str) -> Option<(LogFormatKind, &Arc<Ring>)> {
        self.rings.iter().find(|r| &*r.0 == name).map(|r| (r.1, &r.2))
    }

    /// Lines that were lost: those that could not be sent, and those that rings pushed out before a server had them.
    pub fn lost(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed) + self.rings.iter().map(|r| r.2.lost()).sum::<u64>()
    }

    /// What feeds the servers of all rings.
    pub fn feeds(&self, config: &Config) -> Vec<Feed> {
        let mut feeds = Vec::new();
        for (id, backend) in &self.backends {
            feeds.extend(backend.feeds(config.proxy(*id)));
        }
        for section in &config.rings {
            let Some((_, ring)) = self.ring(&section.name) else { continue };
            let timeouts = (section.timeout_connect_ms, section.timeout_server_ms);
            feeds
                .extend(section.servers.iter().filter_map(|server| Feed::of(ring, &server.server, timeouts)));
        }
        feeds
    }

    fn sample_position(&self, key: (usize, usize)) -> Arc<AtomicU32> {
        let mut samples = self.samples.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Arc::clone(samples.entry(key).or_default())
    }
}

/// Where the lines of one proxy go, resolved to this thread's sinks.
pub struct Route {
    hops: Vec<Hop>,
    has_profiles: bool,
}

impl Route {
    /// The targets of the route, in the order of their lines.
    pub fn targets(&self) -> impl ExactSizeIterator<Item = &LogTarget> {
        self.hops.iter().map(Hop::target)
    }

    /// Whether some target has a `log-profile`, so that not all get the same line.
    pub fn has_profiles(&self) -> bool {
        self.has_profiles
    }
}

struct Hop {
    sink: usize,
    targets: Arc<[LogTarget]>,
    index: usize,
    sample_position: Option<Arc<AtomicU32>>,
}

impl Hop {
    fn target(&self) -> &LogTarget {
        &self.targets[self.index]
    }
}

enum Sink {
    Socket(Datagram),
    Descriptor(BorrowedFd<'static>),
    Ring(LogFormatKind, Arc<Ring>),
    Backend(Outlets),
    /// The destination could not be opened; every line is a dropped one.
    Dead,
}

impl Sink {
    /// A descriptor that the parent process left open.
    fn lent(number: RawFd) -> Sink {
        thalweg_sys::inherited::lend(number).map_or(Sink::Dead, Sink::Descriptor)
    }
}

/// Sends the log lines of one thread.
pub struct Logger {
    shared: Arc<LogShared>,
    log_backends: Arc<dyn Backends>,
    sinks: Vec<(LogDest, Sink)>,
    routes: HashMap<usize, Rc<Route>>,
    dates: DateCache,
    line: Vec<u8>,
    hostname: Vec<u8>,
    default_tag: Vec<u8>,
    pid: u32,
    /// `log-send-hostname` was given: lines without a format of their own carry the host's name.
    send_hostname: bool,
}

impl Logger {
    /// A logger for this thread. `program` is the name lines carry unless `log-tag` says otherwise.
    pub fn new(
        global: &Global,
        program: &str,
        hostname: &str,
        shared: Arc<LogShared>,
        log_backends: Arc<dyn Backends>,
    ) -> Logger {
        let hostname = match global.log_send_hostname.as_deref() {
            Some("") => hostname.as_bytes().to_vec(),
            Some(name) => name.as_bytes().to_vec(),
            None => Vec::new(),
        };
        Logger {
            shared,
            log_backends,
            sinks: Vec::new(),
            routes: HashMap::new(),
            dates: DateCache::default(),
            line: Vec::with_capacity(2048),
            send_hostname: global.log_send_hostname.is_some(),
            hostname,
            default_tag: global.log_tag.as_deref().unwrap_or(program).as_bytes().to_vec(),
            pid: std::process::id(),
        }
    }

    /// The route for a list of targets; `None` when the list is empty. Lists that several proxies share are
    /// resolved once.
    pub fn route(&mut self, targets: &Arc<[LogTarget]>) -> Option<Rc<Route>> {
        if targets.is_empty() {
            return None;
        }
        let key = targets.as_ptr() as usize;
        if let Some(route) = self.routes.get(&key) {
            return Some(Rc::clone(route));
        }
        let hops = targets
            .iter()
            .enumerate()
            .map(|(index, target)| Hop {
                sink: self.sink(&target.dest),
                targets: Arc::clone(targets),
                index,
                sample_position: target.sample.is_some().then(|| self.shared.sample_position((key, index))),
            })
            .collect();
        let has_profiles = targets.iter().any(|target| target.profile.is_some());
        let route = Rc::new(Route { hops, has_profiles });
        self.routes.insert(key, Rc::clone(&route));
        Some(route)
    }

    /// Forgets the routes that nobody holds: their lists may be those of a configuration that is gone.
    pub fn forget_unused(&mut self) {
        self.routes.retain(|_, route| Rc::strong_count(route) > 1);
    }

    fn sink(&mut self, dest: &LogDest) -> usize {
        if let Some(found) = self.sinks.iter().position(|(d, _)| d == dest) {
            return found;
        }
        let sink = match dest {
            LogDest::Udp(addr) => open(&SockAddr::from(*addr)),
            LogDest::Unix(path) => open(&SockAddr::Unix(path.as_path().into())),
            LogDest::Stdout => Sink::lent(STDOUT),
            LogDest::Stderr => Sink::lent(STDERR),
            LogDest::Fd(fd) => Sink::lent(*fd),
            LogDest::Ring(name) => match self.shared.ring(name) {
                Some((format, ring)) => Sink::Ring(format, Arc::clone(ring)),
                None => Sink::Dead,
            },
            LogDest::Backend(name) => match self.shared.backends.iter().find(|b| b.1.name == *name) {
                Some((_, backend)) => Sink::Backend(Outlets::new(backend)),
                None => Sink::Dead,
            },
        };
        self.sinks.push((dest.clone(), sink));
        self.sinks.len() - 1
    }

    /// Sends one message to every target of the route that wants its level.
    ///
    /// `tag` is the proxy's `log-tag`; `structured_data` is empty or an RFC 5424 element list with its brackets.
    pub fn send(
        &mut self,
        route: &Route,
        level: LogLevel,
        tag: Option<&[u8]>,
        structured_data: &[u8],
        message: &[u8],
        wall_us: u64,
    ) {
        for hop in &route.hops {
            self.send_to(hop, level, tag, structured_data, message, wall_us);
        }
    }

    /// Sends one message to one target of a route (see [`Route::targets`]), which may not want its level.
    #[allow(clippy::too_many_arguments)]
    pub fn send_one(
        &mut self,
        route: &Route,
        index: usize,
        level: LogLevel,
        tag: Option<&[u8]>,
        structured_data: &[u8],
        message: &[u8],
        wall_us: u64,
    ) {
        if let Some(hop) = route.hops.get(index) {
            self.send_to(hop, level, tag, structured_data, message, wall_us);
        }
    }

    fn send_to(
        &mut self,
        hop: &Hop,
        level: LogLevel,
        tag: Option<&[u8]>,
        structured_data: &[u8],
        message: &[u8],
        wall_us: u64,
    ) {
        let target = hop.target();
        if level > target.level || !sampled(target, hop.sample_position.as_deref()) {
            return;
        }
        let format = match (target.format, &target.dest) {
            (LogFormatKind::Unspecified, LogDest::Stdout | LogDest::Stderr | LogDest::Fd(_)) => {
                LogFormatKind::Raw
            }
            (LogFormatKind::Unspecified, LogDest::Ring(_)) => match &self.sinks[hop.sink].1 {
                Sink::Ring(format, _) => *format,
                _ => LogFormatKind::Raw,
            },
            (LogFormatKind::Unspecified, _) if self.send_hostname => LogFormatKind::Rfc3164,
            (LogFormatKind::Unspecified, _) => LogFormatKind::Local,
            (format, _) => format,
        };
        let no_name: &[u8] = if format == LogFormatKind::Rfc3164 { b"localhost" } else { b"" };
        let envelope = Envelope {
            format,
            facility: target.facility,
            level: level.max(target.minlevel),
            wall_us,
            hostname: if self.send_hostname { &self.hostname } else { no_name },
            tag: tag.unwrap_or(&self.default_tag),
            pid: self.pid,
            structured_data,
        };
        self.line.clear();
        write_envelope(&mut self.line, &mut self.dates, &envelope);
        self.line.extend_from_slice(message);
        self.line.truncate((target.len as usize).saturating_sub(1));
        self.line.push(b'\n');
        self.deliver(hop.sink);
    }

    /// Sends a message of no level to one destination: as it is, or in the form of the lines of its ring.
    pub fn note(&mut self, dest: &LogDest, message: &[u8], wall_us: u64) {
        let sink = self.sink(dest);
        let format = match &self.sinks[sink].1 {
            Sink::Ring(format, _) => *format,
            _ => LogFormatKind::Raw,
        };
        let envelope = Envelope {
            format,
            facility: Facility(0),
            level: LogLevel::Emerg,
            wall_us,
            hostname: &self.hostname,
            tag: &self.default_tag,
            pid: self.pid,
            structured_data: b"",
        };
        self.line.clear();
        write_envelope(&mut self.line, &mut self.dates, &envelope);
        self.line.extend_from_slice(message);
        self.line.push(b'\n');
        self.deliver(sink);
    }

    /// Sends a message of another program to every target of the route that wants its level. `facility` of a target is
    /// for those that have none.
    pub fn relay(&mut self, route: &Route, message: &Message<'_>, rewrite: &Rewrite) {
        for hop in &route.hops {
            let target = hop.target();
            let priority = message.priority.unwrap_or(u16::from(target.facility.0) * 8);
            let level = (priority % 8) as usize;
            if level > target.level as usize || !sampled(target, hop.sample_position.as_deref()) {
                continue;
            }
            let format = match (target.format, &self.sinks[hop.sink].1) {
                (LogFormatKind::Unspecified, Sink::Descriptor(_)) => LogFormatKind::Raw,
                (LogFormatKind::Unspecified, Sink::Ring(format, _)) => *format,
                (LogFormatKind::Unspecified, _) => rewrite.format,
                (format, _) => format,
            };
            let priority = priority - level as u16 + level.max(target.minlevel as usize) as u16;
            self.line.clear();
            Rewrite { format, priority, ..*rewrite }.write(&mut self.line, &mut self.dates, message);
            self.line.truncate((target.len as usize).saturating_sub(1));
            self.line.push(b'\n');
            self.deliver(hop.sink);
        }
    }

    /// Sends the line that was made to a sink.
    fn deliver(&mut self, sink: usize) {
        let sent = match &mut self.sinks[sink].1 {
            Sink::Socket(socket) => socket.queue(&self.line),
            Sink::Descriptor(fd) => thalweg_sys::fd::write_if_ready(*fd, &self.line).is_ok(),
            Sink::Ring(_, ring) => ring.push(&self.line),
            Sink::Backend(outlets) => outlets.send(&*self.log_backends, &self.line),
            Sink::Dead => false,
        };
        if !sent {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Whether this line is one of those that `sample` lets through; moves the position.
fn sampled(target: &LogTarget, position: Option<&AtomicU32>) -> bool {
    let (Some(sample), Some(position)) = (&target.sample, position) else { return true };
    let size = sample.size.max(1);
    // `fetch_update` keeps the position below the size, so that it never wraps at another value.
    let before = position
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |p| Some((p + 1) % size))
        .unwrap_or_default();
    let turn = before + 1;
    sample.ranges.iter().any(|(first, last)| (*first..=*last).contains(&turn))
}

fn open(addr: &SockAddr) -> Sink {
    match Datagram::connect(addr, &DatagramOptions::default()) {
        Ok(socket) => Sink::Socket(socket),
        Err(_) => Sink::Dead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_config::model::LogSample;

    #[test]
    fn samples_let_the_listed_turns_through() {
        let target = LogTarget {
            dest: LogDest::Stdout,
            len: 1024,
            format: LogFormatKind::Raw,
            facility: Facility(16),
            level: LogLevel::Debug,
            minlevel: LogLevel::Emerg,
            sample: Some(Arc::new(LogSample { ranges: vec![(1, 1), (3, 4)], size: 5 })),
            profile: None,
            global: None,
        };
        let position = AtomicU32::new(0);
        let turns: Vec<bool> = (0..10).map(|_| sampled(&target, Some(&position))).collect();
        let period = [true, false, true, true, false];
        assert_eq!(turns, [period, period].concat());
    }
}
