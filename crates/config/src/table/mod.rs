//! All keywords of the language, section by section.

mod bind;
mod global;
mod option;
mod proxy;
mod section;
mod server;

pub(crate) use bind::BIND;
pub use global::GLOBAL;
pub(crate) use option::OPTION;
pub use proxy::PROXY;
pub(crate) use section::{SECTIONS, SectionKind};
pub(crate) use server::SERVER;

/// Why something does not work yet, as the end of "... is not supported yet: ".
pub(crate) mod why {
    pub(crate) const TLS: &str = "TLS is not built";
    pub(crate) const QUIC: &str = "QUIC is not built";
    pub(crate) const H2: &str = "HTTP/2 is not built";
    pub(crate) const LUA: &str = "Lua is not built";
    pub(crate) const HTTPCLIENT: &str = "there is no HTTP client inside yet";
    pub(crate) const COMPRESSION: &str = "compression is not built";
    pub(crate) const DEVICES: &str = "device detection is not built";
    pub(crate) const TOPOLOGY: &str = "threads are laid out with cpu-map only";
    pub(crate) const STATS_FILE: &str = "counters are not kept over a reload yet";
    pub(crate) const DEBUG: &str = "it serves the reference's developers";
    pub(crate) const CAPABILITIES: &str = "capabilities cannot be kept yet";
    pub(crate) const DEFAULTS_PURGE: &str = "defaults sections are dropped after the start anyway";
    pub(crate) const STATS_PAGE: &str = "the statistics page is not built";
    pub(crate) const STICK: &str = "stick tables are not built";
    pub(crate) const FILTERS: &str = "filters are not built";
    pub(crate) const CHECKS: &str = "health checks are not built";
    pub(crate) const EMAIL: &str = "alerts by e-mail are not built";
    pub(crate) const FCGI: &str = "FastCGI is not built";
    pub(crate) const SERVER_STATE: &str = "server states are not kept over a restart yet";
    pub(crate) const SESSION_CONNS: &str = "its limit is not built";
    pub(crate) const NETSCALER: &str = "the NetScaler header is not built";
    pub(crate) const NAMESPACE: &str = "network namespaces are not built";
    pub(crate) const REVERSE: &str = "reverse connections are not built";
    pub(crate) const TCP_MD5: &str = "TCP MD5 signatures are not built";
    pub(crate) const DNS: &str = "resolution at run time is not built";
    pub(crate) const SOCKS: &str = "SOCKS4 is not built";
    pub(crate) const POOL_NAME: &str = "it concerns connections that are not built";
    pub(crate) const TLV: &str = "custom fields of the PROXY header are not built";
    pub(crate) const HEALTHCHECK: &str = "named presets of servers are not built";
    pub(crate) const LOG_SECTIONS: &str = "logs go to UDP, unix sockets and descriptors only";
    pub(crate) const PEERS: &str = "peers are not built";
    pub(crate) const CACHE: &str = "the cache is not built";
    pub(crate) const SPOE: &str = "SPOE is not built";
    pub(crate) const TRACES: &str = "traces are not built";
}
