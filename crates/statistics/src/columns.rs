//! The columns of `show stat`. Their order and spelling are fixed: programs read them by position and by name.

use crate::stat::RowKind;

/// A column.
#[derive(Debug)]
pub struct Column {
    /// Its name in the header and in typed output.
    pub name: &'static str,
    /// Origin, nature, scope and persistence (management manual, section 9.2).
    pub tags: &'static str,
    /// What it counts, for people.
    pub text: &'static str,
}

const fn c(name: &'static str, tags: &'static str, text: &'static str) -> Column {
    Column { name, tags, text }
}

/// The fixed columns, by position.
pub const COLUMNS: [Column; 119] = [
    c("pxname", "KNSV", "Name of the proxy"),
    c("svname", "KNSV", "Name of the server, or FRONTEND, BACKEND, or the name of a listener"),
    c("qcur", "MGPV", "Requests in the queue"),
    c("qmax", "MMPV", "Most requests in the queue"),
    c("scur", "MGPV", "Sessions now"),
    c("smax", "MMPV", "Most sessions at once"),
    c("slim", "CLPV", "Limit on sessions"),
    c("stot", "MCPP", "Sessions so far"),
    c("bin", "MCPP", "Bytes of requests"),
    c("bout", "MCPP", "Bytes of responses"),
    c("dreq", "MCPP", "Requests denied by rules"),
    c("dresp", "MCPP", "Responses denied by rules"),
    c("ereq", "MCPP", "Requests that failed"),
    c("econ", "MCPP", "Connections to servers that failed"),
    c("eresp", "MCPP", "Responses that failed"),
    c("wretr", "MCPP", "Connections tried again"),
    c("wredis", "MCPP", "Requests sent to another server"),
    c("status", "SGPV", "State"),
    c("weight", "MaPV", "Weight in effect"),
    c("act", "SGPV", "Active servers, or whether this one is"),
    c("bck", "SGPV", "Backup servers, or whether this one is"),
    c("chkfail", "MCPP", "Checks that failed while up"),
    c("chkdown", "MCPP", "Changes from up to down"),
    c("lastchg", "MAPP", "Seconds since the state changed"),
    c("downtime", "MCPV", "Seconds spent down"),
    c("qlimit", "CLPS", "Limit on the queue"),
    c("pid", "KGPV", "Number of the process, always 1"),
    c("iid", "KGSV", "Number of the proxy"),
    c("sid", "KGSV", "Number of the server or listener"),
    c("throttle", "MaPV", "Percent of the weight reached after a slow start"),
    c("lbtot", "MCPP", "Times chosen by the load balancer"),
    c("tracked", "CNSV", "Server whose state is followed"),
    c("type", "CGSV", "0 frontend, 1 backend, 2 server, 3 listener"),
    c("rate", "MRPP", "Sessions in the last second"),
    c("rate_lim", "CLPV", "Limit on rate"),
    c("rate_max", "MMPV", "Highest rate"),
    c("check_status", "MOPV", "Result of the last check"),
    c("check_code", "MOPV", "Code that the last check received"),
    c("check_duration", "MDPV", "Milliseconds that the last check took"),
    c("hrsp_1xx", "MCPP", "Responses with a status of 1xx"),
    c("hrsp_2xx", "MCPP", "Responses with a status of 2xx"),
    c("hrsp_3xx", "MCPP", "Responses with a status of 3xx"),
    c("hrsp_4xx", "MCPP", "Responses with a status of 4xx"),
    c("hrsp_5xx", "MCPP", "Responses with a status of 5xx"),
    c("hrsp_other", "MCPP", "Responses with another status"),
    c("hanafail", "MCPP", "Failures seen in traffic"),
    c("req_rate", "MRPP", "Requests in the last second"),
    c("req_rate_max", "MMPV", "Highest req_rate"),
    c("req_tot", "MCPP", "Requests so far"),
    c("cli_abrt", "MCPP", "Transfers that the client broke off"),
    c("srv_abrt", "MCPP", "Transfers that the server broke off"),
    c("comp_in", "MCPP", "Bytes given to compression"),
    c("comp_out", "MCPP", "Bytes that compression made"),
    c("comp_byp", "MCPP", "Bytes that passed uncompressed"),
    c("comp_rsp", "MCPP", "Responses that were compressed"),
    c("lastsess", "MAPP", "Seconds since the last session, -1 for none"),
    c("last_chk", "MOPV", "What the last check received"),
    c("last_agt", "MOPV", "What the last agent check received"),
    c("qtime", "MaPV", "Milliseconds in the queue, on average"),
    c("ctime", "MaPV", "Milliseconds to connect, on average"),
    c("rtime", "MaPV", "Milliseconds to respond, on average"),
    c("ttime", "MaPV", "Milliseconds in all, on average"),
    c("agent_status", "MOPV", "Result of the last agent check"),
    c("agent_code", "MOPV", "Code that the last agent check received"),
    c("agent_duration", "MDPV", "Milliseconds that the last agent check took"),
    c("check_desc", "MOPV", "check_status in words"),
    c("agent_desc", "MOPV", "agent_status in words"),
    c("check_rise", "CGSV", "Checks that must pass to be up"),
    c("check_fall", "CGSV", "Checks that must fail to be down"),
    c("check_health", "CGSV", "State between 0 and rise + fall - 1"),
    c("agent_rise", "CGSV", "Agent checks that must pass to be up"),
    c("agent_fall", "CGSV", "Agent checks that must fail to be down"),
    c("agent_health", "CGSV", "State of agent checks"),
    c("addr", "CGSV", "Address and port"),
    c("cookie", "CNSV", "Value of the cookie"),
    c("mode", "CGSV", "Mode of the proxy"),
    c("algo", "CGSV", "How servers are chosen"),
    c("conn_rate", "MRPP", "Connections in the last second"),
    c("conn_rate_max", "MMPV", "Highest conn_rate"),
    c("conn_tot", "MCPP", "Connections so far"),
    c("intercepted", "MCPP", "Requests answered here"),
    c("dcon", "MCPP", "Connections denied by rules"),
    c("dses", "MCPP", "Sessions denied by rules"),
    c("wrew", "MCPP", "Headers that could not be rewritten"),
    c("connect", "MCPP", "Connections made to servers"),
    c("reuse", "MCPP", "Connections to servers used again"),
    c("cache_lookups", "MCPP", "Look-ups in the cache"),
    c("cache_hits", "MCPP", "Look-ups in the cache that found something"),
    c("srv_icur", "MGPV", "Idle connections to the server"),
    c("src_ilim", "CLPV", "Limit on idle connections to the server"),
    c("qtime_max", "MMPV", "Most milliseconds in the queue"),
    c("ctime_max", "MMPV", "Most milliseconds to connect"),
    c("rtime_max", "MMPV", "Most milliseconds to respond"),
    c("ttime_max", "MMPV", "Most milliseconds in all"),
    c("eint", "MCPP", "Internal errors"),
    c("idle_conn_cur", "MGPV", "Idle connections that may not be used again"),
    c("safe_conn_cur", "MGPV", "Idle connections that may be used again"),
    c("used_conn_cur", "MGPV", "Connections in use"),
    c("need_conn_est", "MGPV", "Connections needed, as estimated"),
    c("uweight", "MaPV", "Weight as set by an operator"),
    c("agg_server_status", "MGPV", "Servers by their state"),
    c("agg_server_check_status", "MGPV", "Servers by the state of their checks"),
    c("agg_check_status", "MGPV", "Servers by the result of their checks"),
    c("srid", "MCPV", "Revision of the server's number"),
    c("sess_other", "MCPV", "Sessions that are not HTTP"),
    c("h1sess", "MCPP", "Sessions in HTTP/1"),
    c("h2sess", "MCPP", "Sessions in HTTP/2"),
    c("h3sess", "MCPP", "Sessions in HTTP/3"),
    c("req_other", "MCPP", "Requests that are not HTTP"),
    c("h1req", "MCPP", "Requests in HTTP/1"),
    c("h2req", "MCPP", "Requests in HTTP/2"),
    c("h3req", "MCPP", "Requests in HTTP/3"),
    c("proto", "SGPV", "Protocol of the listener"),
    c("priv_idle_cur", "MGPV", "Idle connections that belong to one session"),
    c("reqbin", "MCPP", "Bytes of requests received"),
    c("reqbout", "MCPP", "Bytes of requests sent"),
    c("resbin", "MCPP", "Bytes of responses received"),
    c("resbout", "MCPP", "Bytes of responses sent"),
    c("cache_hint_hits", "MCPP", "Look-ups in the cache that a hint answered"),
];

/// Columns that frontends have no figures for, and that a stats file has no place for there.
pub const ONLY_BACKEND: &[&str] = &[
    "econ", "eresp", "wretr", "wredis", "chkfail", "chkdown", "lastchg", "lbtot", "hanafail", "cli_abrt",
    "srv_abrt", "lastsess", "connect", "reuse",
];

/// The same of backends and servers.
pub const ONLY_FRONTEND: &[&str] = &[
    "ereq",
    "req_rate",
    "conn_rate",
    "conn_tot",
    "intercepted",
    "dcon",
    "dses",
    "h1sess",
    "h2sess",
    "h3sess",
    "req_other",
    "h1req",
    "h2req",
    "h3req",
];

/// The counters of modules, after the fixed columns: `<module>_<name>`. Frontends and backends have them, and those of TLS
/// listeners and servers, too.
pub static EXTRA: [Column; 46] = [
    c("h2_headers_rcvd", "MCPV", "HEADERS frames received"),
    c("h2_data_rcvd", "MCPV", "DATA frames received"),
    c("h2_settings_rcvd", "MCPV", "SETTINGS frames received"),
    c("h2_rst_stream_rcvd", "MCPV", "RST_STREAM frames received"),
    c("h2_goaway_rcvd", "MCPV", "GOAWAY frames received"),
    c("h2_detected_conn_protocol_errors", "MCPV", "Breaches of the protocol that ended HTTP/2 connections"),
    c("h2_detected_strm_protocol_errors", "MCPV", "Breaches of the protocol that ended HTTP/2 streams"),
    c("h2_rst_stream_resp", "MCPV", "RST_STREAM frames sent"),
    c("h2_goaway_resp", "MCPV", "GOAWAY frames sent"),
    c("h2_open_connections", "MGPV", "HTTP/2 connections now"),
    // Named so by the reference, for both sides.
    c("h2_backend_open_streams", "MGPV", "HTTP/2 streams now"),
    c("h2_total_connections", "MCPV", "HTTP/2 connections so far"),
    c("h2_backend_total_streams", "MCPV", "HTTP/2 streams so far"),
    c("ssl_sess", "MCPV", "Handshakes of TLS that made new keys"),
    c("ssl_reused_sess", "MCPV", "Handshakes of TLS that resumed a session"),
    c("ssl_failed_handshake", "MCPV", "Handshakes of TLS that failed"),
    c("ssl_ocsp_staple", "MCPV", "OCSP responses that clients were shown"),
    c("ssl_failed_ocsp_staple", "MCPV", "OCSP responses that were asked for and not in force"),
    c("h1_open_connections", "MGPV", "HTTP/1 connections now"),
    c("h1_open_streams", "MGPV", "HTTP/1 streams now"),
    c("h1_total_connections", "MCPV", "HTTP/1 connections so far"),
    c("h1_total_streams", "MCPV", "HTTP/1 streams so far"),
    c("h1_bytes_in", "MCPV", "Bytes received on HTTP/1 connections"),
    c("h1_bytes_out", "MCPV", "Bytes sent on HTTP/1 connections"),
    c("h1_spliced_bytes_in", "MCPV", "Bytes received through pipes on HTTP/1 connections"),
    c("h1_spliced_bytes_out", "MCPV", "Bytes sent through pipes on HTTP/1 connections"),
    // Ours, of backends and servers where the configuration asks for what they count.
    c("lb_ejected", "MGPV", "Servers ejected now, or whether this one is"),
    c("lb_ejections", "MCPV", "Times a server was ejected"),
    c("lb_refused_retries", "MCPV", "Repetitions that the budget did not pay for"),
    c("lb_hedges", "MCPV", "Requests of which a second server was asked"),
    c("lb_hedges_won", "MCPV", "Requests that the second server answered"),
    c("lb_maxconn", "MLPV", "Limit that follows how long answers take"),
    // Ours: connections that ended for too much of something, in the order of `Excess::index`.
    c("h2_ended_rapid_reset", "MCPV", "HTTP/2 connections ended for requests that were taken back"),
    c("h2_ended_forced_reset", "MCPV", "HTTP/2 connections ended for breaches that end streams"),
    c("h2_ended_ping", "MCPV", "HTTP/2 connections ended for PING frames"),
    c("h2_ended_settings", "MCPV", "HTTP/2 connections ended for SETTINGS frames"),
    c("h2_ended_noise", "MCPV", "HTTP/2 connections ended for frames that do nothing"),
    c("h2_ended_empty_data", "MCPV", "HTTP/2 connections ended for empty DATA frames"),
    c("h2_ended_tiny_window", "MCPV", "HTTP/2 connections ended for tiny WINDOW_UPDATE frames"),
    c("h2_ended_window", "MCPV", "HTTP/2 connections ended for WINDOW_UPDATE frames"),
    c("h2_ended_interim", "MCPV", "HTTP/2 connections ended for interim responses"),
    c("h2_ended_continuation", "MCPV", "HTTP/2 connections ended for CONTINUATION frames"),
    c("h2_ended_breach", "MCPV", "HTTP/2 connections ended for breaches of the protocol"),
    c("h2_ended_block", "MCPV", "HTTP/2 connections ended for a header block that is too long"),
    c("h2_ended_unread", "MCPV", "HTTP/2 connections ended for answers that nobody reads"),
    c("h2_ended_glitches", "MCPV", "HTTP/2 connections ended for reaching the limit of glitches"),
];

/// How many columns there are, fixed ones and modules' counters.
pub const WIDTH: usize = COLUMNS.len() + EXTRA.len();

/// The tags of a column in a row of this kind: three columns differ for backends.
pub fn tags(column: &Column, kind: RowKind) -> &'static str {
    match (column.name, kind) {
        ("act" | "bck" | "rate_max", RowKind::Backend) => "MGPV",
        _ => column.tags,
    }
}

/// The position of a column. Evaluated while compiling: a name that does not exist does not compile.
pub const fn at(name: &str) -> usize {
    let mut position = 0;
    while position < COLUMNS.len() {
        let (a, b) = (COLUMNS[position].name.as_bytes(), name.as_bytes());
        let mut same = 0;
        while same < a.len() && same < b.len() && a[same] == b[same] {
            same += 1;
        }
        if same == a.len() && same == b.len() {
            return position;
        }
        position += 1;
    }
    panic!("no such column")
}
