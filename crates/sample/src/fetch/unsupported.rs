//! Fetches of the reference that this program knows by name and cannot evaluate yet, each with the reason.

/// Why a fetch is not there yet: what it belongs to. `None` for names that are not fetches at all.
pub fn reason(name: &str) -> Option<&'static str> {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if starts(&["ssl_fc", "ssl_bc", "ssl_c_", "ssl_f_", "ssl_s_"]) && SSL.contains(&name) {
        return Some("it needs TLS");
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

const SSL: &[&str] = &[
    "ssl_bc",
    "ssl_bc_alg_keysize",
    "ssl_bc_alpn",
    "ssl_bc_cipher",
    "ssl_bc_client_early_traffic_secret",
    "ssl_bc_client_handshake_traffic_secret",
    "ssl_bc_client_random",
    "ssl_bc_client_traffic_secret_0",
    "ssl_bc_curve",
    "ssl_bc_early_exporter_secret",
    "ssl_bc_err",
    "ssl_bc_err_str",
    "ssl_bc_exporter_secret",
    "ssl_bc_is_resumed",
    "ssl_bc_npn",
    "ssl_bc_protocol",
    "ssl_bc_server_handshake_traffic_secret",
    "ssl_bc_server_random",
    "ssl_bc_server_traffic_secret_0",
    "ssl_bc_session_id",
    "ssl_bc_session_key",
    "ssl_bc_sni",
    "ssl_bc_unique_id",
    "ssl_bc_use_keysize",
    "ssl_c_ca_err",
    "ssl_c_ca_err_depth",
    "ssl_c_chain_der",
    "ssl_c_der",
    "ssl_c_err",
    "ssl_c_i_dn",
    "ssl_c_key_alg",
    "ssl_c_notafter",
    "ssl_c_notbefore",
    "ssl_c_policies",
    "ssl_c_r_dn",
    "ssl_c_s_dn",
    "ssl_c_san",
    "ssl_c_serial",
    "ssl_c_sha1",
    "ssl_c_sig_alg",
    "ssl_c_used",
    "ssl_c_verify",
    "ssl_c_version",
    "ssl_f_der",
    "ssl_f_i_dn",
    "ssl_f_key_alg",
    "ssl_f_notafter",
    "ssl_f_notbefore",
    "ssl_f_s_dn",
    "ssl_f_serial",
    "ssl_f_sha1",
    "ssl_f_sig_alg",
    "ssl_f_version",
    "ssl_fc",
    "ssl_fc_alg_keysize",
    "ssl_fc_alpn",
    "ssl_fc_cipher",
    "ssl_fc_cipherlist_bin",
    "ssl_fc_cipherlist_hex",
    "ssl_fc_cipherlist_str",
    "ssl_fc_cipherlist_xxh",
    "ssl_fc_client_early_traffic_secret",
    "ssl_fc_client_handshake_traffic_secret",
    "ssl_fc_client_random",
    "ssl_fc_client_traffic_secret_0",
    "ssl_fc_crtname",
    "ssl_fc_curve",
    "ssl_fc_early_exporter_secret",
    "ssl_fc_early_rcvd",
    "ssl_fc_ecformats_bin",
    "ssl_fc_eclist_bin",
    "ssl_fc_err",
    "ssl_fc_err_str",
    "ssl_fc_exporter_secret",
    "ssl_fc_extlist_bin",
    "ssl_fc_has_crt",
    "ssl_fc_has_early",
    "ssl_fc_has_sni",
    "ssl_fc_is_resumed",
    "ssl_fc_npn",
    "ssl_fc_protocol",
    "ssl_fc_protocol_hello_id",
    "ssl_fc_server_handshake_traffic_secret",
    "ssl_fc_server_random",
    "ssl_fc_server_traffic_secret_0",
    "ssl_fc_session_id",
    "ssl_fc_session_key",
    "ssl_fc_sigalgs_bin",
    "ssl_fc_sni",
    "ssl_fc_supported_versions_bin",
    "ssl_fc_unique_id",
    "ssl_fc_use_keysize",
    "ssl_s_chain_der",
    "ssl_s_der",
    "ssl_s_i_dn",
    "ssl_s_key_alg",
    "ssl_s_notafter",
    "ssl_s_notbefore",
    "ssl_s_s_dn",
    "ssl_s_serial",
    "ssl_s_sha1",
    "ssl_s_sig_alg",
    "ssl_s_version",
];

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
