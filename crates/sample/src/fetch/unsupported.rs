//! Fetches of the reference that this program knows by name and cannot evaluate yet, each with the reason.

/// Why a fetch is not there yet: what it belongs to. `None` for names that are not fetches at all.
pub fn reason(name: &str) -> Option<&'static str> {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if SSL.contains(&name) {
        return Some("the TLS library does not tell it");
    }
    if let Some((prefix @ ("sc" | "sc0" | "sc1" | "sc2"), rest)) = name.split_once('_')
        && COUNTERS.contains(&rest)
        && has_counter(prefix, rest)
    {
        return Some("it needs stick tables");
    }
    if name.strip_prefix("src_").is_some_and(|rest| SOURCE_COUNTERS.contains(&rest))
        || starts(&["table_"]) && matches!(name, "table_avl" | "table_cnt")
    {
        return Some("it needs stick tables");
    }
    OTHERS.iter().find(|(known, _)| *known == name).map(|(_, why)| *why)
}

/// The counters that take an index exist for the numbered prefixes in one odd case only, `sc1_clr_gpc`.
fn has_counter(prefix: &str, counter: &str) -> bool {
    let indexed = matches!(counter, "clr_gpc" | "get_gpc" | "get_gpt" | "gpc_rate" | "inc_gpc");
    prefix == "sc" || !indexed || (prefix, counter) == ("sc1", "clr_gpc")
}

/// All the names, for the tables that list keywords.
pub fn names() -> impl Iterator<Item = String> {
    let counters = ["sc", "sc0", "sc1", "sc2"]
        .into_iter()
        .flat_map(|p| COUNTERS.iter().filter(move |c| has_counter(p, c)).map(move |c| format!("{p}_{c}")));
    SSL.iter()
        .map(ToString::to_string)
        .chain(counters)
        .chain(SOURCE_COUNTERS.iter().map(|c| format!("src_{c}")))
        .chain(["table_avl".to_string(), "table_cnt".to_string()])
        .chain(OTHERS.iter().map(|(name, _)| name.to_string()))
}

const COUNTERS: &[&str] = &[
    "bytes_in_rate",
    "bytes_out_rate",
    "clr_gpc",
    "clr_gpc0",
    "clr_gpc1",
    "conn_cnt",
    "conn_cur",
    "conn_rate",
    "get_gpc",
    "get_gpc0",
    "get_gpc1",
    "get_gpt",
    "get_gpt0",
    "glitch_cnt",
    "glitch_rate",
    "gpc0_rate",
    "gpc1_rate",
    "gpc_rate",
    "http_err_cnt",
    "http_err_rate",
    "http_fail_cnt",
    "http_fail_rate",
    "http_req_cnt",
    "http_req_rate",
    "inc_gpc",
    "inc_gpc0",
    "inc_gpc1",
    "kbytes_in",
    "kbytes_out",
    "key",
    "sess_cnt",
    "sess_rate",
    "tracked",
    "trackers",
];

const SOURCE_COUNTERS: &[&str] = &[
    "bytes_in_rate",
    "bytes_out_rate",
    "clr_gpc",
    "clr_gpc0",
    "clr_gpc1",
    "conn_cnt",
    "conn_cur",
    "conn_rate",
    "get_gpc",
    "get_gpc0",
    "get_gpc1",
    "get_gpt",
    "get_gpt0",
    "glitch_cnt",
    "glitch_rate",
    "gpc0_rate",
    "gpc1_rate",
    "gpc_rate",
    "http_err_cnt",
    "http_err_rate",
    "http_fail_cnt",
    "http_fail_rate",
    "http_req_cnt",
    "http_req_rate",
    "inc_gpc",
    "inc_gpc0",
    "inc_gpc1",
    "kbytes_in",
    "kbytes_out",
    "sess_cnt",
    "sess_rate",
    "updt_conn_cnt",
];

/// What TLS 1.3 does not have, and the library does not tell of TLS 1.2.
const SSL: &[&str] = &["ssl_bc_unique_id", "ssl_fc_unique_id"];

const OTHERS: &[(&str, &str)] = &[
    ("bs.aborted", "it needs the multiplexed streams of HTTP/2"),
    ("bs.debug_str", "it needs the multiplexed streams of HTTP/2"),
    ("bs.id", "it needs the multiplexed streams of HTTP/2"),
    ("bs.rst_code", "it needs the multiplexed streams of HTTP/2"),
    ("fs.aborted", "it needs the multiplexed streams of HTTP/2"),
    ("fs.debug_str", "it needs the multiplexed streams of HTTP/2"),
    ("fs.id", "it needs the multiplexed streams of HTTP/2"),
    ("fs.rst_code", "it needs the multiplexed streams of HTTP/2"),
    ("res.cache_hit", "it needs the cache"),
    ("res.cache_name", "it needs the cache"),
    ("res.comp", "it needs compression"),
    ("res.comp_algo", "it needs compression"),
    ("fcgi.docroot", "it needs FastCGI"),
    ("fcgi.index", "it needs FastCGI"),
    ("spoe.engine-id", "it needs SPOE"),
    ("internal.htx.data", "it describes the reference's own memory"),
    ("internal.htx.free", "it describes the reference's own memory"),
    ("internal.htx.free_data", "it describes the reference's own memory"),
    ("internal.htx.has_eom", "it describes the reference's own memory"),
    ("internal.htx.nbblks", "it describes the reference's own memory"),
    ("internal.htx.size", "it describes the reference's own memory"),
    ("internal.htx.used", "it describes the reference's own memory"),
    ("internal.htx_blk.data", "it describes the reference's own memory"),
    ("internal.htx_blk.hdrname", "it describes the reference's own memory"),
    ("internal.htx_blk.hdrval", "it describes the reference's own memory"),
    ("internal.htx_blk.size", "it describes the reference's own memory"),
    ("internal.htx_blk.start_line", "it describes the reference's own memory"),
    ("internal.htx_blk.type", "it describes the reference's own memory"),
    ("internal.strm.is_htx", "it describes the reference's own memory"),
];
