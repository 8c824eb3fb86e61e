//! Which metrics there are, and how each comes from a figure.

use crate::columns::at;
use crate::stat::RowKind;

/// A counter only grows; a gauge goes up and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nature {
    Counter,
    Gauge,
}

use Nature::{Counter, Gauge};

/// How a metric's samples come from its figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The figure.
    Plain,
    /// Milliseconds, shown as seconds.
    Seconds,
    /// The figure; a server without it has one that is no number.
    OrNan,
    /// The figure of this class of responses.
    Code(&'static str),
    /// One sample per state, 1 for the one it is in.
    State,
    /// One sample per state, with the number of servers in it.
    ServerStates,
    /// One sample per result of checks, 1 for the last one.
    Check,
    /// The number that came with the result in the column before, 0 where none did.
    Received,
    /// One sample per result of checks, with the number of servers.
    ServerChecks,
    /// 1, with the figure as the label of this name.
    Label(&'static str),
}

/// One metric of proxies, listeners or servers.
pub(super) struct Metric {
    /// The column of `show stat` that it is made of, found by its name when this is compiled.
    pub(super) column: usize,
    pub(super) name: &'static str,
    pub(super) nature: Nature,
    pub(super) form: Form,
    /// Letters of the scopes: F, L, B, S.
    pub(super) scopes: &'static str,
}

const fn m(
    scopes: &'static str,
    figure: &'static str,
    name: &'static str,
    nature: Nature,
    form: Form,
) -> Metric {
    Metric { column: at(figure), name, nature, form, scopes }
}

/// One metric of the process.
pub(super) struct ProcessMetric {
    /// The field of `show info` that it is made of.
    pub(super) field: &'static str,
    pub(super) name: &'static str,
    pub(super) nature: Nature,
    pub(super) form: Form,
}

const fn p(field: &'static str, name: &'static str, nature: Nature, form: Form) -> ProcessMetric {
    ProcessMetric { field, name, nature, form }
}

/// Metrics of proxies, listeners and servers, in the order of the columns.
pub(super) const METRICS: &[Metric] = &[
    m("BS", "qcur", "current_queue", Gauge, Form::Plain),
    m("BS", "qmax", "max_queue", Gauge, Form::Plain),
    m("FLBS", "scur", "current_sessions", Gauge, Form::Plain),
    m("FLBS", "smax", "max_sessions", Gauge, Form::Plain),
    m("FLBS", "slim", "limit_sessions", Gauge, Form::OrNan),
    m("FLBS", "stot", "sessions_total", Counter, Form::Plain),
    m("FLBS", "bin", "bytes_in_total", Counter, Form::Plain),
    m("FLBS", "bout", "bytes_out_total", Counter, Form::Plain),
    m("FLB", "dreq", "requests_denied_total", Counter, Form::Plain),
    m("FLBS", "dresp", "responses_denied_total", Counter, Form::Plain),
    m("FL", "ereq", "request_errors_total", Counter, Form::Plain),
    m("BS", "econ", "connection_errors_total", Counter, Form::Plain),
    m("BS", "eresp", "response_errors_total", Counter, Form::Plain),
    m("BS", "wretr", "retry_warnings_total", Counter, Form::Plain),
    m("BS", "wredis", "redispatch_warnings_total", Counter, Form::Plain),
    m("FLBS", "status", "status", Gauge, Form::State),
    m("BS", "weight", "weight", Gauge, Form::Plain),
    m("B", "act", "active_servers", Gauge, Form::Plain),
    m("S", "act", "active", Gauge, Form::Plain),
    m("B", "bck", "backup_servers", Gauge, Form::Plain),
    m("S", "bck", "backup", Gauge, Form::Plain),
    m("S", "chkfail", "check_failures_total", Counter, Form::OrNan),
    m("BS", "chkdown", "check_up_down_total", Counter, Form::OrNan),
    m("BS", "lastchg", "check_last_change_seconds", Gauge, Form::Plain),
    m("BS", "downtime", "downtime_seconds_total", Counter, Form::OrNan),
    m("S", "qlimit", "queue_limit", Gauge, Form::OrNan),
    m("S", "throttle", "current_throttle", Gauge, Form::OrNan),
    m("BS", "lbtot", "loadbalanced_total", Counter, Form::Plain),
    m("FBS", "rate", "current_session_rate", Gauge, Form::Plain),
    m("F", "rate_lim", "limit_session_rate", Gauge, Form::Plain),
    m("FBS", "rate_max", "max_session_rate", Gauge, Form::Plain),
    m("S", "check_status", "check_status", Gauge, Form::Check),
    m("S", "check_code", "check_code", Gauge, Form::Received),
    m("S", "check_duration", "check_duration_seconds", Gauge, Form::Seconds),
    m("FBS", "hrsp_1xx", "http_responses_total", Counter, Form::Code("1xx")),
    m("FBS", "hrsp_2xx", "http_responses_total", Counter, Form::Code("2xx")),
    m("FBS", "hrsp_3xx", "http_responses_total", Counter, Form::Code("3xx")),
    m("FBS", "hrsp_4xx", "http_responses_total", Counter, Form::Code("4xx")),
    m("FBS", "hrsp_5xx", "http_responses_total", Counter, Form::Code("5xx")),
    m("FBS", "hrsp_other", "http_responses_total", Counter, Form::Code("other")),
    m("F", "req_rate_max", "http_requests_rate_max", Gauge, Form::Plain),
    m("FBS", "req_tot", "http_requests_total", Counter, Form::Plain),
    m("BS", "cli_abrt", "client_aborts_total", Counter, Form::Plain),
    m("BS", "srv_abrt", "server_aborts_total", Counter, Form::Plain),
    m("FB", "comp_in", "http_comp_bytes_in_total", Counter, Form::Plain),
    m("FB", "comp_out", "http_comp_bytes_out_total", Counter, Form::Plain),
    m("FB", "comp_byp", "http_comp_bytes_bypassed_total", Counter, Form::Plain),
    m("FB", "comp_rsp", "http_comp_responses_total", Counter, Form::Plain),
    m("BS", "lastsess", "last_session_seconds", Gauge, Form::Plain),
    m("BS", "qtime", "queue_time_average_seconds", Gauge, Form::Seconds),
    m("BS", "ctime", "connect_time_average_seconds", Gauge, Form::Seconds),
    m("BS", "rtime", "response_time_average_seconds", Gauge, Form::Seconds),
    m("BS", "ttime", "total_time_average_seconds", Gauge, Form::Seconds),
    m("F", "conn_rate_max", "connections_rate_max", Gauge, Form::Plain),
    m("FL", "conn_tot", "connections_total", Counter, Form::Plain),
    m("F", "intercepted", "intercepted_requests_total", Counter, Form::Plain),
    m("FL", "dcon", "denied_connections_total", Counter, Form::Plain),
    m("FL", "dses", "denied_sessions_total", Counter, Form::Plain),
    m("S", "agent_status", "agent_status", Gauge, Form::Check),
    m("S", "agent_code", "agent_code", Gauge, Form::Received),
    m("S", "agent_duration", "agent_duration_seconds", Gauge, Form::Seconds),
    m("FLBS", "wrew", "failed_header_rewriting_total", Counter, Form::Plain),
    m("BS", "connect", "connection_attempts_total", Counter, Form::Plain),
    m("BS", "reuse", "connection_reuses_total", Counter, Form::Plain),
    m("FB", "cache_lookups", "http_cache_lookups_total", Counter, Form::Plain),
    m("FB", "cache_hits", "http_cache_hits_total", Counter, Form::Plain),
    m("S", "srv_icur", "idle_connections_current", Gauge, Form::Plain),
    m("S", "src_ilim", "idle_connections_limit", Gauge, Form::OrNan),
    m("BS", "qtime_max", "max_queue_time_seconds", Gauge, Form::Seconds),
    m("BS", "ctime_max", "max_connect_time_seconds", Gauge, Form::Seconds),
    m("BS", "rtime_max", "max_response_time_seconds", Gauge, Form::Seconds),
    m("BS", "ttime_max", "max_total_time_seconds", Gauge, Form::Seconds),
    m("FLBS", "eint", "internal_errors_total", Counter, Form::Plain),
    m("S", "idle_conn_cur", "unsafe_idle_connections_current", Gauge, Form::Plain),
    m("S", "safe_conn_cur", "safe_idle_connections_current", Gauge, Form::Plain),
    m("S", "used_conn_cur", "used_connections_current", Gauge, Form::Plain),
    m("S", "need_conn_est", "need_connections_current", Gauge, Form::Plain),
    m("BS", "uweight", "uweight", Gauge, Form::Plain),
    m("B", "agg_server_status", "agg_server_status", Gauge, Form::ServerStates),
    m("B", "agg_server_check_status", "agg_server_check_status", Gauge, Form::ServerStates),
    m("B", "agg_check_status", "agg_check_status", Gauge, Form::ServerChecks),
    m("S", "priv_idle_cur", "private_idle_connections_current", Gauge, Form::Plain),
    m("FLBS", "reqbin", "req_bytes_in_total", Counter, Form::Plain),
    m("FLBS", "reqbout", "req_bytes_out_total", Counter, Form::Plain),
    m("FLBS", "resbin", "res_bytes_in_total", Counter, Form::Plain),
    m("FLBS", "resbout", "res_bytes_out_total", Counter, Form::Plain),
    m("FB", "cache_hint_hits", "http_cache_hint_hits_total", Counter, Form::Plain),
];

/// Metrics of the process, in the order of the fields.
pub(super) const PROCESS: &[ProcessMetric] = &[
    p("Nbthread", "nbthread", Gauge, Form::Plain),
    p("Nbproc", "nbproc", Gauge, Form::Plain),
    p("Process_num", "relative_process_id", Gauge, Form::Plain),
    p("Uptime_sec", "uptime_seconds", Gauge, Form::Plain),
    p("PoolFailed", "pool_failures_total", Counter, Form::Plain),
    p("Ulimit-n", "max_fds", Gauge, Form::Plain),
    p("Maxsock", "max_sockets", Gauge, Form::Plain),
    p("Maxconn", "max_connections", Gauge, Form::Plain),
    p("Hard_maxconn", "hard_max_connections", Gauge, Form::Plain),
    p("CurrConns", "current_connections", Gauge, Form::Plain),
    p("CumConns", "connections_total", Counter, Form::Plain),
    p("CumReq", "requests_total", Counter, Form::Plain),
    p("MaxSslConns", "max_ssl_connections", Gauge, Form::Plain),
    p("CurrSslConns", "current_ssl_connections", Gauge, Form::Plain),
    p("CumSslConns", "ssl_connections_total", Counter, Form::Plain),
    p("Maxpipes", "max_pipes", Gauge, Form::Plain),
    p("PipesUsed", "pipes_used_total", Counter, Form::Plain),
    p("PipesFree", "pipes_free_total", Counter, Form::Plain),
    p("ConnRate", "current_connection_rate", Gauge, Form::Plain),
    p("ConnRateLimit", "limit_connection_rate", Gauge, Form::Plain),
    p("MaxConnRate", "max_connection_rate", Gauge, Form::Plain),
    p("SessRate", "current_session_rate", Gauge, Form::Plain),
    p("SessRateLimit", "limit_session_rate", Gauge, Form::Plain),
    p("MaxSessRate", "max_session_rate", Gauge, Form::Plain),
    p("SslRate", "current_ssl_rate", Gauge, Form::Plain),
    p("SslRateLimit", "limit_ssl_rate", Gauge, Form::Plain),
    p("MaxSslRate", "max_ssl_rate", Gauge, Form::Plain),
    p("SslFrontendKeyRate", "current_frontend_ssl_key_rate", Gauge, Form::Plain),
    p("SslFrontendMaxKeyRate", "max_frontend_ssl_key_rate", Gauge, Form::Plain),
    p("SslFrontendSessionReuse_pct", "frontend_ssl_reuse", Gauge, Form::Plain),
    p("SslBackendKeyRate", "current_backend_ssl_key_rate", Gauge, Form::Plain),
    p("SslBackendMaxKeyRate", "max_backend_ssl_key_rate", Gauge, Form::Plain),
    p("SslCacheLookups", "ssl_cache_lookups_total", Counter, Form::Plain),
    p("SslCacheMisses", "ssl_cache_misses_total", Counter, Form::Plain),
    p("CompressBpsIn", "http_comp_bytes_in_total", Counter, Form::Plain),
    p("CompressBpsOut", "http_comp_bytes_out_total", Counter, Form::Plain),
    p("CompressBpsRateLim", "limit_http_comp", Gauge, Form::Plain),
    p("ZlibMemUsage", "current_zlib_memory", Gauge, Form::OrNan),
    p("MaxZlibMemUsage", "max_zlib_memory", Gauge, Form::OrNan),
    p("Tasks", "current_tasks", Gauge, Form::Plain),
    p("Run_queue", "current_run_queue", Gauge, Form::Plain),
    p("Idle_pct", "idle_time_percent", Gauge, Form::Plain),
    p("node", "node", Gauge, Form::Label("node")),
    p("description", "description", Gauge, Form::Label("desc")),
    p("Stopping", "stopping", Gauge, Form::Plain),
    p("Jobs", "jobs", Gauge, Form::Plain),
    p("Unstoppable Jobs", "unstoppable_jobs", Gauge, Form::Plain),
    p("Listeners", "listeners", Gauge, Form::Plain),
    p("ActivePeers", "active_peers", Gauge, Form::Plain),
    p("ConnectedPeers", "connected_peers", Gauge, Form::Plain),
    p("DroppedLogs", "dropped_logs_total", Counter, Form::Plain),
    p("BusyPolling", "busy_polling_enabled", Gauge, Form::Plain),
    p("FailedResolutions", "failed_resolutions", Counter, Form::Plain),
    p("TotalBytesOut", "bytes_out_total", Counter, Form::Plain),
    p("TotalSplicedBytesOut", "spliced_bytes_out_total", Counter, Form::Plain),
    p("BytesOutRate", "bytes_out_rate", Gauge, Form::Plain),
    p("CumRecvLogs", "recv_logs_total", Counter, Form::Plain),
    p("Build info", "build_info", Gauge, Form::Label("version")),
    p("Memmax_bytes", "max_memory_bytes", Gauge, Form::Plain),
    p("PoolAlloc_bytes", "pool_allocated_bytes", Gauge, Form::Plain),
    p("PoolUsed_bytes", "pool_used_bytes", Gauge, Form::Plain),
    p("Start_time_sec", "start_time_seconds", Gauge, Form::Plain),
    p("TotalWarnings", "total_warnings", Counter, Form::Plain),
    p("PatternsAdded", "patterns_added_total", Gauge, Form::Plain),
    p("PatternsFreed", "patterns_freed_total", Gauge, Form::Plain),
    p("NbThreadGroups", "nb_thread_groups", Gauge, Form::Plain),
];

/// States of each kind of row.
pub(super) const fn states(kind: RowKind) -> &'static [&'static str] {
    match kind {
        RowKind::Frontend | RowKind::Backend => &["DOWN", "UP"],
        RowKind::Listener => &["WAITING", "OPEN", "FULL"],
        RowKind::Server => &["DOWN", "UP", "MAINT", "DRAIN", "NOLB"],
    }
}

/// Results of checks.
pub(super) const CHECKS: &[&str] = &[
    "HANA", "SOCKERR", "L4OK", "L4TOUT", "L4CON", "L6OK", "L6TOUT", "L6RSP", "L7TOUT", "L7RSP", "L7OK",
    "L7OKC", "L7STS", "PROCERR", "PROCTOUT", "PROCOK",
];
