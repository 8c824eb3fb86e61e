//! Fetches of the reference that this program knows by name and cannot evaluate yet, each with the reason.

/// Why a fetch is not there yet: what it belongs to. `None` for names that are not fetches at all.
pub fn reason(name: &str) -> Option<&'static str> {
    if SSL.contains(&name) {
        return Some("the TLS library does not tell it");
    }
    OTHERS.iter().find(|(known, _)| *known == name).map(|(_, why)| *why)
}

/// All the names, for the tables that list keywords.
pub fn names() -> impl Iterator<Item = String> {
    SSL.iter().map(ToString::to_string).chain(OTHERS.iter().map(|(name, _)| name.to_string()))
}

const SSL: &[&str] = &["ssl_bc_unique_id", "ssl_fc_unique_id"];

const OTHERS: &[(&str, &str)] = &[
    ("bs.debug_str", "it describes the reference's own memory"),
    ("fs.debug_str", "it describes the reference's own memory"),
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
];
