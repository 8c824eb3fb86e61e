//! How each row is filled. What this program does not have yet is left empty, or zero where the reference always shows
//! a number.

use std::borrow::Cow;
use std::ops::Range;

use thalweg_config::model::{
    Algorithm, BalanceAlgo, Bind, BindAddr, Proxy, ProxyId, Server, ServerAddr, ServerId,
};
use thalweg_proxy::backend::connect::shares_connections;
use thalweg_proxy::backend::health::{CheckReport, What};
use thalweg_proxy::backend::standing::{Operation, Standing};
use thalweg_proxy::counters::{Counter, Counters, EXCESSES, Handshake, Peaks, Rate, peak};
use thalweg_proxy::gate::Gate;
use thalweg_proxy::{Instance, Stopping};
use thalweg_runtime::clock;
use thalweg_syntax::carry::carry;

use crate::columns::{COLUMNS, WIDTH, at};
use crate::format::Value::{self, S32, Str, U32, U64};
use crate::format::socket_address;
use crate::stat::{Row, RowKind, is_http};

impl Row {
    fn new(kind: RowKind, proxy: &Proxy, name: impl Into<Cow<'static, str>>, sid: u32) -> Row {
        let values = Box::new([const { None }; WIDTH]);
        let mut row = Row { kind, iid: proxy.uid, sid, values };
        row.set(const { at("pxname") }, Str(proxy.name.to_string().into()));
        row.set(const { at("svname") }, Str(name.into()));
        row.set(const { at("pid") }, U32(1));
        row.set(const { at("iid") }, U32(proxy.uid));
        row.set(const { at("sid") }, U32(sid));
        row.set(const { at("type") }, U32(kind as u32));
        row.set(const { at("mode") }, Str(proxy.mode.name().into()));
        row
    }

    /// Adds to the status of a backend how many of its servers are up: some of them are not listed.
    pub fn tell_servers(&mut self, instance: &Instance, proxy: &Proxy) {
        let backend = &instance.backends[proxy.id.0 as usize];
        let up = proxy.servers.iter().filter(|server| backend.is_up(server.id)).count();
        if let Some(Str(status)) = &mut self.values[const { at("status") }] {
            status.to_mut().push_str(&format!(" ({up}/{})", proxy.servers.len()));
        }
    }

    /// Takes out what a user of the lowest level may not see.
    pub fn withhold(&mut self) {
        for column in const { [at("addr"), at("cookie"), at("algo")] } {
            self.values[column] = None;
        }
    }

    #[inline(always)]
    fn set(&mut self, column: usize, value: Value) {
        self.values[column] = Some(value);
    }

    fn zeroes(&mut self, columns: &[usize]) {
        for column in columns {
            self.set(*column, U64(0));
        }
    }

    fn narrow_zeroes(&mut self, columns: &[usize]) {
        for column in columns {
            self.set(*column, U32(0));
        }
    }

    /// Sets module counters by their position in [`EXTRA`]: those of HTTP/2, TLS and HTTP/1; and why connections ended.
    fn extra(&mut self, sums: &Sums<'_>, h2: &H2, h1: [u64; H1_COUNTERS]) {
        for (i, value) in h2.counted.into_iter().enumerate() {
            self.set(COLUMNS.len() + i, U64(value));
        }
        self.handshakes(sums);
        for (i, value) in h1.into_iter().enumerate() {
            self.set(H1 + i, U64(value));
        }
        for excess in 0..EXCESSES {
            self.set(ENDED + excess, U64(sums.0.iter().map(|c| c.excess(excess)).sum()));
        }
    }

    /// Sets what is counted of handshakes of TLS.
    fn handshakes(&mut self, sums: &Sums<'_>) {
        for (i, value) in sums.handshakes().into_iter().enumerate() {
            self.set(COLUMNS.len() + TLS.start + i, U64(value));
        }
    }
}

fn narrow(n: u64) -> Value {
    U32(u32::try_from(n).unwrap_or(u32::MAX))
}

/// Module counters of HTTP/2.
const H2_COUNTERS: usize = 13;

/// Those of TLS by their place in [`EXTRA`].
pub(crate) const TLS: Range<usize> = H2_COUNTERS..H2_COUNTERS + Handshake::COUNT;

/// Where those of HTTP/1 begin.
const H1: usize = COLUMNS.len() + TLS.end;

/// Module counters of HTTP/1.
const H1_COUNTERS: usize = 8;

/// Where those of the choice of servers begin.
const CHOICE: usize = H1 + H1_COUNTERS;

/// Whether a server is ejected, or how many are.
pub(crate) const EJECTED: usize = CHOICE;
const EJECTIONS: usize = CHOICE + 1;
const REFUSED_RETRIES: usize = CHOICE + 2;
const HEDGES: usize = CHOICE + 3;
const HEDGES_WON: usize = CHOICE + 4;
const ADAPTED_LIMIT: usize = CHOICE + 5;

/// Where the reasons for which connections of HTTP/2 ended begin.
const ENDED: usize = CHOICE + 6;

/// What was counted of HTTP/2.
struct H2 {
    open_connections: u64,
    connections: u64,
    streams: u64,
    /// In the order of [`EXTRA`].
    counted: [u64; H2_COUNTERS],
}

impl H2 {
    fn of(sums: &Sums<'_>) -> H2 {
        let counted = [
            sums.of(|c| &c.h2_headers),
            sums.of(|c| &c.h2_data),
            sums.of(|c| &c.h2_settings),
            sums.of(|c| &c.h2_resets),
            sums.of(|c| &c.h2_goaways),
            sums.of(|c| &c.h2_connection_errors),
            sums.of(|c| &c.h2_stream_errors),
            sums.of(|c| &c.h2_resets_sent),
            sums.of(|c| &c.h2_goaways_sent),
            sums.of(|c| &c.h2_open_connections),
            sums.of(|c| &c.h2_open_streams),
            sums.of(|c| &c.h2_connections),
            sums.of(|c| &c.h2_streams),
        ];
        let [.., open_connections, _, connections, streams] = counted;
        H2 { open_connections, connections, streams, counted }
    }
}

/// The counters of one thing, on all threads and of all its parts.
struct Sums<'a>(Vec<&'a Counters>);

impl<'a> Sums<'a> {
    fn of(&self, field: impl Fn(&Counters) -> &Counter) -> u64 {
        self.0.iter().fold(0, |total, c| total.wrapping_add(field(c).get()))
    }

    /// Handshakes of TLS, by [`Handshake`].
    fn handshakes(&self) -> [u64; Handshake::COUNT] {
        let each = self.0.iter().map(|counters| counters.handshakes());
        each.fold([0; Handshake::COUNT], |sum, one| std::array::from_fn(|i| sum[i].wrapping_add(one[i])))
    }

    fn wide(&self, field: impl Fn(&Counters) -> &Counter) -> Value {
        U64(self.of(field))
    }

    fn largest(&self, field: impl Fn(&Counters) -> &Counter) -> Value {
        narrow(self.0.iter().map(|c| field(c).get()).max().unwrap_or(0))
    }

    fn rate(&self, rate: impl Fn(&Counters) -> &Rate) -> Value {
        let now_ms = clock::now_ms();
        narrow(self.0.iter().map(|c| rate(c).per_second(now_ms)).sum())
    }

    fn average(&self, field: impl Fn(&Counters) -> &Counter) -> Value {
        let timed = self.of(|c| &c.timed).max(1);
        narrow(self.of(field) / timed)
    }

    /// Seconds since the last stream, -1 for none.
    fn last(&self) -> Value {
        let last = self.0.iter().map(|c| c.last_session_ms.get()).max().unwrap_or(0);
        if last == 0 {
            return S32(-1);
        }
        S32(i32::try_from(clock::now_ms().saturating_sub(last) / 1000).unwrap_or(i32::MAX))
    }

    /// The columns every kind of row has.
    fn common(&self, row: &mut Row) {
        row.set(const { at("scur") }, narrow(self.of(|c| &c.current)));
        row.set(const { at("stot") }, self.wide(|c| &c.total));
        // Received: from the client in, from the server out.
        row.set(const { at("bin") }, self.wide(|c| &c.request_bytes_in));
        row.set(const { at("bout") }, self.wide(|c| &c.response_bytes_in));
        row.set(const { at("dresp") }, self.wide(|c| &c.denied_responses));
        row.set(const { at("wrew") }, self.wide(|c| &c.failed_rewrites));
        row.set(const { at("eint") }, self.wide(|c| &c.internal_errors));
        row.set(const { at("reqbin") }, self.wide(|c| &c.request_bytes_in));
        row.set(const { at("reqbout") }, self.wide(|c| &c.request_bytes_out));
        row.set(const { at("resbin") }, self.wide(|c| &c.response_bytes_in));
        row.set(const { at("resbout") }, self.wide(|c| &c.response_bytes_out));
    }

    /// The responses by their class.
    fn responses(&self, row: &mut Row) {
        row.set(const { at("hrsp_1xx") }, self.wide(|c| &c.responses_1xx));
        row.set(const { at("hrsp_2xx") }, self.wide(|c| &c.responses_2xx));
        row.set(const { at("hrsp_3xx") }, self.wide(|c| &c.responses_3xx));
        row.set(const { at("hrsp_4xx") }, self.wide(|c| &c.responses_4xx));
        row.set(const { at("hrsp_5xx") }, self.wide(|c| &c.responses_5xx));
        row.set(const { at("hrsp_other") }, self.wide(|c| &c.responses_other));
    }

    /// What backends and servers have in common.
    fn behind(&self, row: &mut Row, peaks: &Peaks) {
        row.set(const { at("smax") }, narrow(peaks.streams(self.0.iter().copied())));
        row.set(const { at("econ") }, self.wide(|c| &c.failed_connections));
        row.set(const { at("eresp") }, self.wide(|c| &c.failed_responses));
        row.set(const { at("wretr") }, self.wide(|c| &c.retries));
        row.set(const { at("wredis") }, self.wide(|c| &c.redispatches));
        row.set(const { at("lbtot") }, self.wide(|c| &c.chosen));
        row.set(const { at("rate") }, self.rate(|c| &c.session_rate));
        let rates = self.0.iter().map(|c| &c.session_rate);
        row.set(const { at("rate_max") }, narrow(peak(&peaks.sessions, rates)));
        row.set(const { at("cli_abrt") }, self.wide(|c| &c.client_aborts));
        row.set(const { at("srv_abrt") }, self.wide(|c| &c.server_aborts));
        row.set(const { at("lastsess") }, self.last());
        row.set(const { at("qtime") }, self.average(|c| &c.queue_ms));
        row.set(const { at("ctime") }, self.average(|c| &c.connect_ms));
        row.set(const { at("rtime") }, self.average(|c| &c.response_ms));
        row.set(const { at("ttime") }, self.average(|c| &c.total_ms));
        row.set(const { at("connect") }, self.wide(|c| &c.connection_attempts));
        row.set(const { at("reuse") }, self.wide(|c| &c.connection_reuses));
        row.set(const { at("qtime_max") }, self.largest(|c| &c.queue_ms_max));
        row.set(const { at("ctime_max") }, self.largest(|c| &c.connect_ms_max));
        row.set(const { at("rtime_max") }, self.largest(|c| &c.response_ms_max));
        row.set(const { at("ttime_max") }, self.largest(|c| &c.total_ms_max));
    }
}

/// The columns about compression and the cache, neither of which exists here.
const COMPRESSION: &[usize] = &[at("comp_in"), at("comp_out"), at("comp_byp"), at("comp_rsp")];
const CACHE: &[usize] = &[at("cache_lookups"), at("cache_hits"), at("cache_hint_hits")];

/// Whether a frontend, or a listener of it, accepts: `gate` is its own.
fn accepting(instance: &Instance, proxy: &Proxy, gate: &Gate) -> &'static str {
    if proxy.disabled || instance.is_shut(proxy.id) || instance.stopping() != Stopping::No {
        "STOP"
    } else if instance.is_paused(proxy.id) {
        "PAUSED"
    } else if !gate.has_room() {
        "FULL"
    } else {
        "OPEN"
    }
}

/// The row of a frontend.
pub fn frontend(instance: &Instance, proxy: &Proxy) -> Row {
    let id = proxy.id.0 as usize;
    let sums = Sums(instance.frontend_counters(proxy.id).collect());
    let [sessions_max, requests_max, connections_max] = instance.frontend_peak_rates(proxy.id);
    let gate = &instance.frontend_gates[id];
    let mut row = Row::new(RowKind::Frontend, proxy, "FRONTEND", 0);
    sums.common(&mut row);
    row.set(const { at("smax") }, U32(gate.peak()));
    row.set(const { at("slim") }, U32(gate.limit()));
    row.set(const { at("dreq") }, sums.wide(|c| &c.denied_requests));
    row.set(const { at("ereq") }, sums.wide(|c| &c.failed_requests));
    row.set(const { at("status") }, Str(accepting(instance, proxy, gate).into()));
    row.set(const { at("rate") }, sums.rate(|c| &c.session_rate));
    row.set(const { at("rate_lim") }, U32(proxy.fe_sps_limit));
    row.set(const { at("rate_max") }, narrow(sessions_max));
    let requests = sums.of(|c| &c.requests);
    let sessions = sums.of(|c| &c.total);
    row.zeroes(COMPRESSION);
    if is_http(proxy) {
        sums.responses(&mut row);
        row.set(const { at("intercepted") }, sums.wide(|c| &c.intercepted));
        row.zeroes(CACHE);
    }
    row.set(const { at("req_rate") }, sums.rate(|c| &c.request_rate));
    row.set(const { at("req_rate_max") }, narrow(requests_max));
    row.set(const { at("req_tot") }, U64(requests));
    row.set(const { at("conn_rate") }, sums.rate(|c| &c.connection_rate));
    row.set(const { at("conn_rate_max") }, narrow(connections_max));
    row.set(const { at("conn_tot") }, sums.wide(|c| &c.connections));
    row.set(const { at("dcon") }, sums.wide(|c| &c.denied_connections));
    row.set(const { at("dses") }, sums.wide(|c| &c.denied_sessions));
    let http = u64::from(is_http(proxy));
    row.set(const { at("sess_other") }, U64(sessions * (1 - http)));
    let h2 = H2::of(&sums);
    row.set(const { at("h1sess") }, U64(sessions.saturating_sub(h2.connections) * http));
    row.set(const { at("h2sess") }, U64(h2.connections));
    row.set(const { at("req_other") }, U64(0));
    row.set(const { at("h1req") }, U64(requests.saturating_sub(h2.streams) * http));
    row.set(const { at("h2req") }, U64(h2.streams));
    row.zeroes(const { &[at("h3sess"), at("h3req")] });
    let current = sums.of(|c| &c.current).saturating_sub(h2.open_connections) * http;
    let h1_streams = requests.saturating_sub(sums.of(|c| &c.silent)).saturating_sub(h2.streams);
    row.extra(
        &sums,
        &h2,
        [
            current,
            current,
            sessions.saturating_sub(h2.connections) * http,
            h1_streams * http,
            sums.of(|c| &c.request_bytes_in) * http,
            sums.of(|c| &c.response_bytes_out) * http,
            sums.of(|c| &c.spliced_in),
            sums.of(|c| &c.spliced_out),
        ],
    );
    row
}

/// How a listener is called.
pub(crate) fn listener_name(bind: &Bind) -> String {
    bind.name.as_deref().map_or_else(|| format!("sock-{}", bind.uid), str::to_owned)
}

/// The row of a listener: `position` in the proxy's binds.
pub fn listener(instance: &Instance, proxy: &Proxy, position: usize) -> Row {
    let bind = &proxy.binds[position];
    let name = listener_name(bind);
    let mut row = Row::new(RowKind::Listener, proxy, name, bind.uid);
    let index = bind.number as usize;
    let gate = &instance.listeners[index].gate;
    row.set(const { at("scur") }, U32(gate.current()));
    row.set(const { at("smax") }, U32(gate.peak()));
    row.set(const { at("status") }, Str(accepting(instance, proxy, gate).into()));
    row.set(const { at("slim") }, U32(gate.limit()));
    let sums = Sums(instance.threads.iter().map(|t| &t.listeners[index]).collect());
    sums.common(&mut row);
    row.set(const { at("scur") }, U32(gate.current()));
    row.set(const { at("dreq") }, sums.wide(|c| &c.denied_requests));
    row.set(const { at("ereq") }, sums.wide(|c| &c.failed_requests));
    row.set(const { at("conn_tot") }, sums.wide(|c| &c.connections));
    row.set(const { at("dcon") }, sums.wide(|c| &c.denied_connections));
    row.set(const { at("dses") }, sums.wide(|c| &c.denied_sessions));
    let (address, protocol) = match &bind.addr {
        BindAddr::Tcp(addr) => (addr.to_string().into(), bind.tcp_name()),
        BindAddr::Unix(_) => ("unix".into(), "unix_stream"),
        BindAddr::Abstract(_) | BindAddr::AbstractZ(_) => ("abns".into(), "abns_stream"),
        BindAddr::Fd(fd) => (format!("fd@{fd}").into(), "tcpv4"),
        BindAddr::SockPair(fd) => (format!("sockpair@{fd}").into(), "sockpair"),
        BindAddr::Reverse(server) => (format!("rhttp@{server}").into(), "rev"),
    };
    row.set(const { at("addr") }, Str(address));
    row.set(const { at("proto") }, Str(protocol.into()));
    row.handshakes(&sums);
    row
}

/// The row of a server.
/// In one piece, as it is the list of fields.
pub fn server(instance: &Instance, proxy: &Proxy, server: &Server) -> Row {
    let index = instance.server_index(proxy.id, server.id);
    let backend = &instance.backends[proxy.id.0 as usize];
    let identity = backend.identity(server);
    let sums = Sums(instance.servers.all(index).collect());
    let mut row = Row::new(RowKind::Server, proxy, identity.name.to_string(), server.uid);
    sums.common(&mut row);
    sums.behind(&mut row, instance.servers.peaks(index));
    row.set(const { at("qcur") }, U32(backend.server_queue_len(server.id)));
    row.set(const { at("qmax") }, U32(backend.queue_max(Some(server.id))));
    let limit = backend.maxconn(server.id);
    if limit != 0 {
        row.set(const { at("slim") }, U32(limit));
    }
    if server.maxqueue != 0 {
        row.set(const { at("qlimit") }, U32(server.maxqueue));
    }
    let standing = backend.standing(server.id);
    let history = backend.history(server.id);
    row.set(const { at("status") }, Str(followed_status(instance, server, &standing)));
    if let Some((proxy, tracked)) = server.rare().track {
        row.set(const { at("tracked") }, Str(server_title(instance, proxy, tracked).into()));
    }
    row.set(const { at("weight") }, U32(backend.weight_in_effect(server.id)));
    row.set(const { at("uweight") }, U32(backend.weight(server.id)));
    if let Some(percent) = backend.throttle(server.id) {
        row.set(const { at("throttle") }, U32(percent));
    }
    row.set(const { at("act") }, U32(u32::from(!server.backup)));
    row.set(const { at("bck") }, U32(u32::from(server.backup)));
    row.set(const { at("lastchg") }, narrow(history.since_s()));
    if let Some(report) = backend.check_report(server.id, What::Health).filter(|_| standing.checked) {
        row.set(const { at("chkfail") }, U64(report.failures));
        row.set(const { at("chkdown") }, U64(history.downs));
        row.set(const { at("downtime") }, narrow(history.down_s));
        if !standing.paused {
            check(&mut row, &report, &standing);
        }
    }
    if server.rare().observe.is_some() {
        row.set(const { at("hanafail") }, U64(backend.alarms(server.id)));
    }
    if let Some(report) = backend.check_report(server.id, What::Agent).filter(|_| standing.agent_asked) {
        agent(&mut row, &report, &standing);
    }
    if is_http(proxy) {
        sums.responses(&mut row);
        row.set(const { at("req_tot") }, sums.wide(|c| &c.requests));
    }
    let address = match &identity.addr {
        ServerAddr::Tcp(addr) => {
            let mut text = String::with_capacity(24);
            socket_address(&mut text, addr);
            text.into()
        }
        ServerAddr::Unresolved(..) => "".into(),
        ServerAddr::Unix(_) => "unix".into(),
        ServerAddr::Abstract(_) | ServerAddr::AbstractZ(_) => "abns".into(),
        ServerAddr::SockPair(_) => "sockpair".into(),
        ServerAddr::Reverse => "rhttp".into(),
    };
    row.set(const { at("addr") }, Str(address));
    if let Some(cookie) = &identity.cookie {
        row.set(const { at("cookie") }, Str(cookie.to_string().into()));
    }
    let idle = sums.of(|c| &c.idle_connections);
    row.set(const { at("srv_icur") }, narrow(idle));
    if let Ok(limit) = u32::try_from(server.pool.max_conn) {
        row.set(const { at("src_ilim") }, U32(limit));
    }
    let safe = sums.of(|c| &c.proven_connections);
    row.set(const { at("idle_conn_cur") }, narrow(idle.wrapping_sub(safe)));
    row.set(const { at("safe_conn_cur") }, narrow(safe));
    // Those of a session of its own are not counted among the used ones.
    let used = if shares_connections(proxy) { sums.of(|c| &c.current) } else { 0 };
    row.set(const { at("used_conn_cur") }, narrow(used));
    row.set(const { at("need_conn_est") }, narrow(sums.of(|c| &c.needed_connections)));
    row.set(const { at("priv_idle_cur") }, narrow(sums.of(|c| &c.private_idle_connections)));
    row.narrow_zeroes(const { &[at("srid")] });
    if proxy.rare().outliers.is_some() {
        row.set(EJECTED, U64(backend.is_ejected(server.id).into()));
        row.set(EJECTIONS, sums.wide(|c| &c.ejections));
    }
    if let Some(limit) = backend.adaptive_limit(server.id) {
        row.set(ADAPTED_LIMIT, U32(limit));
    }
    hedges(&mut row, proxy, &sums);
    row.handshakes(&sums);
    row
}

/// The columns of `option hedge`.
fn hedges(row: &mut Row, proxy: &Proxy, sums: &Sums<'_>) {
    if proxy.rare().hedge.is_some() {
        row.set(HEDGES, sums.wide(|c| &c.hedges));
        row.set(HEDGES_WON, sums.wide(|c| &c.hedges_won));
    }
}

/// The columns of a check that runs.
fn check(row: &mut Row, report: &CheckReport, standing: &Standing) {
    row.set(const { at("check_status") }, Str(report.status_word().into()));
    if report.verdict.status.has_code() {
        row.set(
            const { at("check_code") },
            U32(i32::try_from(report.verdict.code).unwrap_or(i32::MAX).cast_unsigned()),
        );
    }
    if let Some(duration_ms) = report.duration_ms {
        row.set(const { at("check_duration") }, U64(duration_ms));
    }
    row.set(const { at("last_chk") }, Str(report.verdict.info.clone().into()));
    row.set(const { at("check_desc") }, Str(report.verdict.status.description().into()));
    row.set(const { at("check_rise") }, U32(standing.health.rise()));
    row.set(const { at("check_fall") }, U32(standing.health.fall()));
    row.set(const { at("check_health") }, U32(standing.health.value()));
}

/// The columns of an agent that is asked.
fn agent(row: &mut Row, report: &CheckReport, standing: &Standing) {
    row.set(const { at("agent_status") }, Str(report.status_word().into()));
    if report.verdict.status.has_code() {
        row.set(const { at("agent_code") }, narrow(report.verdict.code.unsigned_abs()));
    }
    if let Some(duration_ms) = report.duration_ms {
        row.set(const { at("agent_duration") }, U64(duration_ms));
    }
    row.set(const { at("last_agt") }, Str(report.verdict.info.clone().into()));
    row.set(const { at("agent_desc") }, Str(report.verdict.status.description().into()));
    row.set(const { at("agent_rise") }, U32(1));
    row.set(const { at("agent_fall") }, U32(1));
    row.set(const { at("agent_health") }, U32(u32::from(standing.agent_up)));
}

/// Backend and name of a server.
fn server_title(instance: &Instance, proxy: ProxyId, server: ServerId) -> String {
    let proxy = instance.config.proxy(proxy);
    let server = proxy.server(server).map(|server| instance.backends[proxy.id.0 as usize].identity(server));
    format!("{}/{}", proxy.name, server.map_or("?".into(), |server| server.name))
}

/// The same for a server that may track another one: it is as far from up or down as the one that has checks.
fn followed_status(instance: &Instance, server: &Server, standing: &Standing) -> Cow<'static, str> {
    let (Some((proxy, direct)), Some(root)) = (server.rare().track, instance.tracked(server)) else {
        return status(standing);
    };
    if standing.inherits_maintenance {
        return format!("MAINT (via {})", server_title(instance, proxy, direct)).into();
    }
    let checked = instance.backends[root.0.0 as usize].standing(root.1);
    let mut shown = *standing;
    (shown.health, shown.checked) = (checked.health, checked.checked);
    (shown.agent_asked, shown.agent_up) = (checked.agent_asked, checked.agent_up);
    status(&shown)
}

/// How the statistics call where a server stands. Between up and down, how far it is from one or the other follows.
pub(crate) fn status(standing: &Standing) -> Cow<'static, str> {
    let health = &standing.health;
    if standing.unresolved {
        return "MAINT (resolution)".into();
    }
    if standing.in_maintenance() {
        return "MAINT".into();
    }
    let word = match standing.operation {
        Operation::Stopped if standing.is_down_by_agent() => return "DOWN (agent)".into(),
        Operation::Stopped if health.is_changing() && standing.checked => {
            return format!("DOWN {}/{}", health.value(), health.rise()).into();
        }
        Operation::Stopped => return "DOWN".into(),
        Operation::Stopping => "NOLB",
        Operation::Running if standing.is_draining() && standing.agent_asked => {
            return "DRAIN (agent)".into();
        }
        Operation::Running if standing.is_draining() => "DRAIN",
        Operation::Running if !standing.checked => return "no check".into(),
        Operation::Running => "UP",
    };
    if !standing.checked || health.is_top() {
        return word.into();
    }
    // Below zero when it is up although its checks have not said so yet.
    let more_failures = i64::from(health.value()) - i64::from(health.rise()) + 1;
    format!("{word} {more_failures}/{}", health.fall()).into()
}

/// The row of a backend.
/// In one piece, as it is the list of fields.
pub fn backend(instance: &Instance, proxy: &Proxy) -> Row {
    let id = proxy.id.0 as usize;
    let backend = &instance.backends[id];
    let sums = Sums(instance.threads.iter().map(|t| &t.backends[id]).collect());
    let mut row = Row::new(RowKind::Backend, proxy, "BACKEND", 0);
    sums.common(&mut row);
    sums.behind(&mut row, &instance.backend_peaks[id]);
    row.set(const { at("qcur") }, U32(backend.queue_len()));
    row.set(const { at("qmax") }, U32(backend.queue_max(None)));
    let fullconn = match proxy.fullconn {
        0 => instance.config.global.maxconn.div_ceil(10) as u64,
        given => u64::from(given),
    };
    row.set(const { at("slim") }, narrow(fullconn));
    row.set(const { at("dreq") }, sums.wide(|c| &c.denied_requests));
    let (active, backup) = backend.active_and_backup();
    let usable = proxy.servers.is_empty() || active + backup > 0;
    let status = match usable {
        _ if proxy.disabled => "STOP",
        true => "UP",
        false => "DOWN",
    };
    row.set(const { at("status") }, Str(status.into()));
    let weight = |pick: fn(&thalweg_proxy::backend::Backend, &Server) -> u32| {
        let servers = proxy.servers.iter().filter(|s| s.backup == (active == 0));
        servers.filter(|s| backend.is_usable(s.id)).map(|s| pick(backend, s)).sum::<u32>()
    };
    row.set(const { at("weight") }, U32(weight(|b, s| b.weight_in_effect(s.id))));
    row.set(const { at("uweight") }, U32(weight(|b, s| b.weight(s.id))));
    row.set(const { at("act") }, U32(active));
    row.set(const { at("bck") }, U32(backup));
    let history = backend.own_history();
    row.set(const { at("chkdown") }, U64(history.downs));
    row.set(const { at("lastchg") }, narrow(history.since_s()));
    if !proxy.servers.is_empty() {
        row.set(const { at("downtime") }, narrow(history.down_s));
    }
    if is_http(proxy) {
        sums.responses(&mut row);
        row.set(const { at("req_tot") }, sums.wide(|c| &c.requests));
        row.zeroes(CACHE);
    }
    row.zeroes(COMPRESSION);
    // The reference has no name for the default algorithm here.
    let algorithm = match proxy.balance.algo {
        BalanceAlgo::Servers(Algorithm::Random { .. }) => "unknown",
        ref other => other.name(),
    };
    row.set(const { at("algo") }, Str(algorithm.into()));
    row.narrow_zeroes(
        const { &[at("agg_server_status"), at("agg_server_check_status"), at("agg_check_status")] },
    );
    if let Some(cookie) = proxy.cookie.as_ref() {
        row.set(const { at("cookie") }, Str(carry(&cookie.name).into_owned().into()));
    }
    // Connections that wait for a request are open, too.
    let servers = proxy.servers.iter().map(|server| instance.server_index(proxy.id, server.id));
    let idle: u64 = servers.map(|at| instance.servers.sum(at, |c| &c.idle_connections)).sum();
    let http = u64::from(is_http(proxy));
    row.extra(
        &sums,
        &H2::of(&sums),
        [
            (sums.of(|c| &c.current) + idle) * http,
            sums.of(|c| &c.current) * http,
            sums.of(|c| &c.connection_attempts) * http,
            (sums.of(|c| &c.connection_attempts) + sums.of(|c| &c.connection_reuses)) * http,
            sums.of(|c| &c.response_bytes_in) * http,
            sums.of(|c| &c.request_bytes_out) * http,
            sums.of(|c| &c.spliced_in),
            sums.of(|c| &c.spliced_out),
        ],
    );
    if proxy.rare().outliers.is_some() {
        let ejected = proxy.servers.iter().filter(|server| backend.is_ejected(server.id)).count();
        row.set(EJECTED, U64(ejected as u64));
        row.set(EJECTIONS, sums.wide(|c| &c.ejections));
    }
    hedges(&mut row, proxy, &sums);
    if proxy.rare().retry_budget.is_some() || proxy.rare().hedge.is_some() {
        row.set(REFUSED_RETRIES, sums.wide(|c| &c.refused_retries));
    }
    row
}
