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
    pub(crate) const TLS: &str = "it concerns a part of TLS that is not built";
    pub(crate) const NPN: &str = "nobody speaks it any more; use 'alpn'";
    pub(crate) const RENEGOTIATE: &str = "the TLS library never renegotiates";
    pub(crate) const ECH: &str = "the TLS library has no encrypted ClientHello on the server's side";
    pub(crate) const ACME: &str = "there is no ACME client";
    pub(crate) const TLS_LIBRARY: &str = "the TLS library has no such thing";
    pub(crate) const QUIC: &str = "QUIC is not built";
    pub(crate) const LUA: &str = "Lua is not built";
    pub(crate) const HTTPCLIENT: &str = "there is no HTTP client inside yet";
    pub(crate) const COMPRESSION: &str = "compression is not built";
    pub(crate) const DEVICES: &str = "device detection is not built";
    pub(crate) const TOPOLOGY: &str = "threads are laid out with cpu-map only";
    pub(crate) const STATS_FILE: &str = "counters are not kept over a reload yet";
    pub(crate) const DEBUG: &str = "it serves the reference's developers";
    pub(crate) const FCGI: &str = "FastCGI is not built";
    pub(crate) const CACHE: &str = "the cache is not built";
    pub(crate) const SPOE: &str = "SPOE is not built";
    pub(crate) const BUFFERS: &str = "all buffers have the same size, tune.bufsize";
    pub(crate) const MACHINERY: &str = "it tunes something this program does not have";
    pub(crate) const GLITCHES: &str = "protocol errors that are not fatal are not counted";
    pub(crate) const DATAGRAMS: &str =
        "it concerns datagrams; for TCP use tune.rcvbuf.client, tune.rcvbuf.server and the like";
    pub(crate) const CONTSTATS: &str = "bytes are counted at the end of each stream";
    pub(crate) const GETADDRINFO: &str = "names are resolved with getaddrinfo only";
}
