//! `show info`: figures of the process.

use thalweg_proxy::Instance;
use thalweg_proxy::counters::{Counters, ThreadCounters, peak, sum};
use thalweg_runtime::{clock, memory, pool, profile};

use crate::format::Value::{self, Str, U32, U64};

/// What the figures need from the program around the data path.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// `HAProxy` or `Thalweg`.
    pub product: &'a str,
    /// The version, as `show version` shows it.
    pub version: &'a str,
    /// The date of that version, as `yyyy/mm/dd`.
    pub release_date: &'a str,
    /// Warnings that were given while starting.
    pub warnings: u64,
    /// Listening sockets, those of the CLI included.
    pub listeners: u64,
    /// What the CLI did so far.
    pub cli: CliFigures,
}

/// What the CLI adds to the figures of the traffic.
#[derive(Clone, Copy, Debug, Default)]
pub struct CliFigures {
    /// Connections accepted.
    pub connections: u64,
    /// Those that asked something.
    pub requests: u64,
    /// Bytes of answers.
    pub bytes_out: u64,
    /// Sessions now.
    pub current: u64,
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its position in the reference's list, which typed output shows.
    pub position: usize,
    /// Its name.
    pub name: &'static str,
    /// Origin, nature, scope and persistence (management manual, section 9.2).
    pub tags: &'static str,
    /// What it is, for people.
    pub text: &'static str,
    /// Its value.
    pub value: Value,
}

/// All figures, in order.
pub fn fields(instance: &Instance, around: &Around<'_>) -> Vec<Field> {
    let rows = [
        program(instance, around),
        connections(instance, around),
        tls(instance),
        work(instance, around),
        traffic(instance, around),
    ];
    rows.into_iter()
        .flatten()
        .filter(|(position, ..)| *position != DESCRIPTION || instance.config.global.description.is_some())
        .map(|(position, name, tags, text, value)| Field { position, name, tags, text, value })
        .collect()
}

/// What [`Field`] consists of, in its order.
type Row = (usize, &'static str, &'static str, &'static str, Value);

/// The position of the description, which is not shown where there is none.
const DESCRIPTION: usize = 51;

/// What does not fit is shown as the most.
fn narrow(n: u64) -> Value {
    U32(u32::try_from(n).unwrap_or(u32::MAX))
}

/// What does not fit begins again.
fn wrap(n: u64) -> Value {
    U32(n as u32)
}

/// A sum over what listeners count.
fn of_listeners(instance: &Instance, pick: impl Fn(&Counters) -> u64) -> u64 {
    instance.threads.iter().flat_map(|t| t.listeners.iter()).map(pick).fold(0, u64::wrapping_add)
}

/// A sum over threads.
fn of_threads(instance: &Instance, pick: impl Fn(&ThreadCounters) -> u64) -> u64 {
    instance.threads.iter().map(|thread| pick(thread)).fold(0, u64::wrapping_add)
}

/// Streams now: of a connection of HTTP/2 as many as it carries, of any other one, also of one that is idle. Whoever asks is one, too.
fn current_streams(instance: &Instance, around: &Around<'_>) -> u64 {
    let of_listener = |c: &Counters| {
        let single = c.current.get().wrapping_sub(c.h2_open_connections.get());
        single.wrapping_add(c.h2_open_streams.get())
    };
    of_listeners(instance, of_listener).wrapping_add(around.cli.current)
}

/// Bytes that pools hold and that are in use of them, and how often one got none.
struct Pools {
    allocated: u64,
    used: u64,
    failed: u64,
}

fn pools() -> Pools {
    let mut all = Pools { allocated: 0, used: 0, failed: 0 };
    for pool in &pool::counters() {
        let size = pool.object_size as u64;
        all.allocated += (pool.used + pool.free) * size;
        all.used += pool.used * size;
        all.failed += pool.failed;
    }
    all
}

/// Which program this is, its memory and its limits.
fn program(instance: &Instance, around: &Around<'_>) -> Vec<Row> {
    let global = &instance.config.global;
    let threads = &*instance.threads;
    let uptime = instance.uptime_s();
    let Pools { allocated, used, failed } = pools();
    let ConnectionLimits { limit, hard } = limits(instance);
    vec![
        (0, "Name", "POSV", "Name of the program", Str(around.product.to_owned().into())),
        (1, "Version", "POSV", "Its version", Str(around.version.to_owned().into())),
        (2, "Release_date", "POSV", "Date of that version", Str(around.release_date.to_owned().into())),
        (3, "Nbthread", "CGSV", "Threads (nbthread)", narrow(threads.len() as u64)),
        (4, "Nbproc", "CGSV", "Worker processes, always 1", U32(1)),
        (5, "Process_num", "KGPV", "Number of this worker, always 1", U32(1)),
        (6, "Pid", "SGPV", "Identifier of this process", U32(std::process::id())),
        (
            7,
            "Uptime",
            "MDPV",
            "Time since the start, in days, hours, minutes, seconds",
            Str(days(uptime).into()),
        ),
        (8, "Uptime_sec", "MDPV", "Seconds since the start", narrow(uptime)),
        (
            9,
            "Memmax_MB",
            "CLPV",
            "Limit on memory in MB (-m), 0 for none",
            narrow(memory::limited_to() >> 20),
        ),
        (10, "PoolAlloc_MB", "MGPV", "MB of memory held by pools", narrow(allocated >> 20)),
        (11, "PoolUsed_MB", "MGPV", "MB of memory in use from pools", narrow(used >> 20)),
        (12, "PoolFailed", "MCPV", "Times a pool could not get memory", wrap(failed + memory::failures())),
        (13, "Ulimit-n", "CLPV", "Open files that the limits need", narrow(global.ulimit_n)),
        (14, "Maxsock", "CLPV", "Limit on sockets", narrow(global.ulimit_n)),
        (15, "Maxconn", "CLPV", "Limit on connections", narrow(limit)),
        (16, "Hard_maxconn", "CLPV", "The highest value that limit may get", narrow(hard)),
    ]
}

/// Connections and sessions, with their limits and rates. The CLI counts, too: whoever asks is a connection and a stream.
fn connections(instance: &Instance, around: &Around<'_>) -> Vec<Row> {
    let global = &instance.config.global;
    let threads = &*instance.threads;
    let now_ms = clock::now_ms();
    let connections = sum(threads, |t| &t.process.connections) + around.cli.connections;
    let requests = sum(threads, |t| &t.process.requests) + around.cli.requests;
    let process = || threads.iter().map(|t| &t.process);
    let session_rate: u64 = process().map(|c| c.session_rate.per_second(now_ms)).sum();
    let connection_rate: u64 = process().map(|c| c.connection_rate.per_second(now_ms)).sum();
    let peaks = &instance.process_peaks;
    let sessions_max = peak(&peaks.sessions, process().map(|c| &c.session_rate));
    let connections_max = peak(&peaks.connections, process().map(|c| &c.connection_rate));
    let tls_connections = sum(threads, |t| &t.tls.connections);
    let current = instance.process_gate.current();
    vec![
        (17, "CurrConns", "MGPV", "Connections now", U32(current)),
        (18, "CumConns", "MCPV", "Connections since the start", wrap(connections)),
        (19, "CumReq", "MCPV", "Requests since the start", wrap(requests)),
        (20, "MaxSslConns", "MMPV", "Limit on TLS connections, 0 for none", U32(instance.tls_gate.limit())),
        (21, "CurrSslConns", "MGPV", "TLS connections now", U32(thalweg_proxy::connection::tls::open())),
        (22, "CumSslConns", "MCPV", "TLS connections since the start", wrap(tls_connections)),
        (23, "Maxpipes", "CLPV", "Limit on pipes for splicing, 0 for none", U32(global.maxpipes)),
        (24, "PipesUsed", "MGPV", "Pipes in use", U32(0)),
        (25, "PipesFree", "MGPV", "Pipes kept for reuse", U32(0)),
        (26, "ConnRate", "MRPV", "Connections in the last second", narrow(connection_rate)),
        (
            27,
            "ConnRateLimit",
            "CLPV",
            "Limit on ConnRate (maxconnrate)",
            U32(instance.connection_rate.limit()),
        ),
        (28, "MaxConnRate", "MMPV", "Highest ConnRate seen", narrow(connections_max)),
        (29, "SessRate", "MRPV", "Sessions in the last second", narrow(session_rate)),
        (30, "SessRateLimit", "CLPV", "Limit on SessRate (maxsessrate)", U32(instance.session_rate.limit())),
        (31, "MaxSessRate", "MRPV", "Highest SessRate seen", narrow(sessions_max)),
    ]
}

/// Handshakes, and sessions that are resumed.
fn tls(instance: &Instance) -> Vec<Row> {
    let now_ms = clock::now_ms();
    let tls = || instance.threads.iter().map(|t| &t.tls);
    let tls_rate: u64 = tls().map(|c| c.rate.per_second(now_ms)).sum();
    let tls_keys: u64 = tls().map(|c| c.client_keys.per_second(now_ms)).sum();
    let server_keys: u64 = tls().map(|c| c.server_keys.per_second(now_ms)).sum();
    let tls_reuse = (100 * tls_rate.saturating_sub(tls_keys)).checked_div(tls_rate).unwrap_or(0);
    let peaks = &instance.tls_peaks;
    let tls_max = peak(&peaks.rate, tls().map(|c| &c.rate));
    let tls_keys_max = peak(&peaks.client_keys, tls().map(|c| &c.client_keys));
    let server_keys_max = peak(&peaks.server_keys, tls().map(|c| &c.server_keys));
    let live = instance.config.tls.as_ref();
    let (cache_lookups, cache_misses) = live
        .map_or((0, 0), |live| live.lock().unwrap_or_else(std::sync::PoisonError::into_inner).cache_uses());
    vec![
        (32, "SslRate", "MRPV", "TLS connections in the last second", narrow(tls_rate)),
        (33, "SslRateLimit", "CLPV", "Limit on SslRate", U32(instance.tls_rate.limit())),
        (34, "MaxSslRate", "MMPV", "Highest SslRate seen", narrow(tls_max)),
        (35, "SslFrontendKeyRate", "MGPV", "TLS keys made for clients in the last second", narrow(tls_keys)),
        (36, "SslFrontendMaxKeyRate", "MMPV", "Highest SslFrontendKeyRate seen", narrow(tls_keys_max)),
        (
            37,
            "SslFrontendSessionReuse_pct",
            "MGPV",
            "Percent of TLS clients that needed no new key",
            narrow(tls_reuse),
        ),
        (
            38,
            "SslBackendKeyRate",
            "MRPV",
            "TLS keys made for servers in the last second",
            narrow(server_keys),
        ),
        (39, "SslBackendMaxKeyRate", "MMPV", "Highest SslBackendKeyRate seen", narrow(server_keys_max)),
        (40, "SslCacheLookups", "MCPV", "Look-ups of TLS sessions", wrap(cache_lookups)),
        (41, "SslCacheMisses", "MCPV", "Look-ups of TLS sessions that found none", wrap(cache_misses)),
    ]
}

/// Compression, tasks, and what the process has to do.
fn work(instance: &Instance, around: &Around<'_>) -> Vec<Row> {
    let global = &instance.config.global;
    let idle = 100 - profile::mean_busy_percent().min(100);
    let stopping = instance.says_it_stops();
    let listeners = around.listeners;
    let current = instance.process_gate.current();
    let current_streams = current_streams(instance, around);
    let (active_peers, connected_peers) = instance.peers.counts();
    let description = global.description.as_deref().unwrap_or("").to_owned();
    let failed_lookups: u64 = instance.resolvers.iter().map(|section| section.failures()).sum();
    vec![
        (42, "CompressBpsIn", "MRPV", "Bytes given to compression in the last second", U32(0)),
        (43, "CompressBpsOut", "MRPV", "Bytes that compression made in the last second", U32(0)),
        (44, "CompressBpsRateLim", "CLPV", "CompressBpsOut above which nothing is compressed", U32(0)),
        (47, "Tasks", "MGPV", "Tasks, waiting and running", wrap(current_streams + listeners)),
        (48, "Run_queue", "MGPV", "Tasks that could run now", U32(1)),
        (49, "Idle_pct", "MaPV", "Percent of the last second spent waiting", narrow(idle)),
        (50, "node", "COSV", "Name of this machine (node)", Str(node(instance).into())),
        (
            DESCRIPTION,
            "description",
            "COSV",
            "What this process is for (description)",
            Str(description.into()),
        ),
        (52, "Stopping", "MGPV", "1 while the process is stopping", U32(u32::from(stopping))),
        (53, "Jobs", "MGPV", "Connections and listeners", wrap(u64::from(current) + listeners)),
        (54, "Unstoppable Jobs", "MGPV", "Jobs that a stop does not wait for", U32(0)),
        (55, "Listeners", "MGPV", "Listening sockets", wrap(listeners)),
        (56, "ActivePeers", "MGPV", "Peers that are or are being connected", wrap(active_peers as u64)),
        (57, "ConnectedPeers", "MGPV", "Peers that are connected", wrap(connected_peers as u64)),
        (
            58,
            "DroppedLogs",
            "MGPV",
            "Log lines that could not be sent",
            wrap(instance.log.dropped.load(std::sync::atomic::Ordering::Relaxed)),
        ),
        (59, "BusyPolling", "MGPV", "1 with busy-polling", U32(u32::from(global.busy_polling))),
        (60, "FailedResolutions", "MGPV", "Lookups of names that failed", wrap(failed_lookups)),
    ]
}

/// Bytes, streams, and what came late to the list.
fn traffic(instance: &Instance, around: &Around<'_>) -> Vec<Row> {
    let global = &instance.config.global;
    let own = &around.cli;
    let bytes_out = of_listeners(instance, |c| c.response_bytes_out.get()) + own.bytes_out;
    // What a client sent through a pipe left for a server through it.
    let spliced = of_listeners(instance, |c| c.spliced_in.get().wrapping_add(c.spliced_out.get()));
    let bytes_out_rate = instance.bytes_out_rate.per_second(clock::wall_us() / 1000, bytes_out);
    let Pools { allocated, used, .. } = pools();
    let sets = instance.config.registry.sets();
    let (mut patterns_added, mut patterns_freed) = (0, 0);
    for (added, freed) in sets.iter().map(|set| set.added_and_freed()) {
        patterns_added += added;
        patterns_freed += freed;
    }
    let warnings = around.warnings + instance.warnings.load(std::sync::atomic::Ordering::Relaxed);
    vec![
        (61, "TotalBytesOut", "MGPV", "Bytes sent since the start", U64(bytes_out)),
        (62, "TotalSplicedBytesOut", "MGPV", "Bytes sent through pipes since the start", U64(spliced)),
        (63, "BytesOutRate", "MRPV", "Bytes sent per second, lately", U64(bytes_out_rate)),
        (64, "DebugCommandsIssued", "MGPV", "Debugging commands given; any is a risk", U32(0)),
        (
            65,
            "CumRecvLogs",
            "MCPV",
            "Log lines received by log-forward",
            wrap(of_threads(instance, |t| t.received_logs.get())),
        ),
        (66, "Build info", "POSV", "What was built", Str(around.version.to_owned().into())),
        (67, "Memmax_bytes", "CLPV", "Limit on memory in bytes (-m), 0 for none", U32(0)),
        (68, "PoolAlloc_bytes", "MGPV", "Bytes of memory held by pools", U64(allocated)),
        (69, "PoolUsed_bytes", "MGPV", "Bytes of memory in use from pools", U64(used)),
        (
            70,
            "Start_time_sec",
            "MDPV",
            "When the process started",
            narrow(instance.start_wall_us / 1_000_000),
        ),
        (71, "Tainted", "SGPV", "Experimental features in use", Str("0".into())),
        (72, "TotalWarnings", "MCPV", "Warnings given", wrap(warnings)),
        (
            73,
            "MaxconnReached",
            "MCPV",
            "Connections that were the last for which there was room",
            U32(instance.process_gate.filled()),
        ),
        (
            74,
            "BootTime_ms",
            "MDPV",
            "Milliseconds from the start to service",
            U32(instance.boot_ms.load(std::sync::atomic::Ordering::Relaxed)),
        ),
        (75, "Niced_tasks", "MGPV", "Tasks that could run now and have a nice value", U32(0)),
        (76, "CurrStreams", "MGPV", "Streams now", U64(current_streams(instance, around))),
        (
            77,
            "CumStreams",
            "MGPV",
            "Streams since the start",
            U64(of_threads(instance, |thread| thread.process.requests.get()) + own.requests),
        ),
        (78, "BlockedTrafficWarnings", "MGPV", "Warnings about tasks that ran for too long", U32(0)),
        (79, "PatternsAdded", "MGPV", "Patterns added to ACLs and maps", U64(patterns_added)),
        (80, "PatternsFreed", "MGPV", "Patterns removed", U64(patterns_freed)),
        (81, "NbThreadGroups", "CGSV", "Groups of threads", narrow(global.thread_groups.max(1) as u64)),
    ]
}

struct ConnectionLimits {
    limit: u64,
    hard: u64,
}

fn limits(instance: &Instance) -> ConnectionLimits {
    let global = &instance.config.global;
    ConnectionLimits {
        limit: u64::from(instance.process_gate.limit()),
        hard: global.hard_maxconn.max(global.maxconn) as u64,
    }
}

fn node(instance: &Instance) -> String {
    instance.config.global.node.as_deref().unwrap_or(&instance.hostname).to_owned()
}

/// `1d 2h03m04s`.
fn days(seconds: u64) -> String {
    format!("{}d {}h{:02}m{:02}s", seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uptimes_are_spelled_out() {
        for (seconds, expected) in [(0, "0d 0h00m00s"), (59, "0d 0h00m59s"), (93784, "1d 2h03m04s")] {
            assert_eq!(days(seconds), expected);
        }
    }
}
