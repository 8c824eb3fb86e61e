//! What this build can do: the one table behind `-vv`, `feature()` and `enabled()`.
//!
//! **Invariant**: a feature is marked present only when it works. The names are HAProxy's, because configurations,
//! test suites and packages ask for them.

use thalweg_runtime::driver::{Driver, DriverKind, DriverOptions};
use thalweg_runtime::net::Md5Key;
use thalweg_syntax::Facts;

use crate::cli::Options;
use crate::program::COMPATIBLE_VERSION;

/// Name as in the build options of HAProxy, and whether this program has it.
pub const FEATURES: [(&str, bool); 58] = [
    ("51DEGREES", false),
    ("ACCEPT4", true),
    ("ACME", false),
    ("BACKTRACE", false),
    ("CLOSEFROM", false),
    ("CPU_AFFINITY", true),
    ("CRYPT_H", true),
    ("DEVICEATLAS", false),
    ("DL", false),
    ("ECH", false),
    ("ENGINE", false),
    ("EPOLL", true),
    ("EVPORTS", false),
    ("FCGI", false),
    ("GETADDRINFO", true),
    ("H2", true),
    ("HAVE_TCP_MD5SIG", true),
    ("KQUEUE", false),
    ("KTLS", false),
    ("LIBATOMIC", false),
    ("LIBCRYPT", true),
    ("LINUX_CAP", true),
    ("LINUX_SPLICE", true),
    ("LINUX_TPROXY", true),
    ("LUA", false),
    ("MATH", false),
    ("MEMORY_PROFILING", false),
    ("NETFILTER", true),
    ("NS", false),
    ("OBSOLETE_LINKER", false),
    ("OPENSSL", true),
    ("OPENSSL_AWSLC", true),
    ("OPENSSL_WOLFSSL", false),
    ("PCRE", false),
    ("PCRE2", true),
    ("PCRE2_JIT", true),
    ("PCRE_JIT", false),
    ("POLL", false),
    ("PRCTL", true),
    ("PROCCTL", false),
    ("PROMEX", true),
    ("PTHREAD_EMULATION", false),
    ("QUIC", false),
    ("QUIC_OPENSSL_COMPAT", false),
    ("RT", false),
    ("SHM_OPEN", false),
    ("SLZ", false),
    ("SPOE", false),
    ("SSL", true),
    ("STATIC_PCRE", false),
    ("STATIC_PCRE2", false),
    ("TFO", true),
    ("THREAD", true),
    ("THREAD_DUMP", false),
    ("TPROXY", true),
    ("TRACE", true),
    ("WURFL", false),
    ("ZLIB", false),
];

/// What was looked for on this machine, and whether it is there.
pub fn detected() -> [(&'static str, bool); 1] {
    [("HAVE_WORKING_TCP_MD5SIG", Md5Key::works())]
}

/// What the command line switched off, for `enabled()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enabled {
    no_epoll: bool,
    no_splice: bool,
    no_getaddrinfo: bool,
    no_reuseport: bool,
    no_fast_forward: bool,
}

impl From<&Options> for Enabled {
    fn from(options: &Options) -> Enabled {
        Enabled {
            no_epoll: options.no_epoll,
            no_splice: options.no_splice,
            no_getaddrinfo: options.no_getaddrinfo,
            no_reuseport: options.no_reuseport,
            no_fast_forward: options.no_fast_forward,
        }
    }
}

impl Enabled {
    fn names(self) -> impl Iterator<Item = &'static str> {
        [
            ("EPOLL", self.no_epoll),
            ("SPLICE", self.no_splice),
            ("GETADDRINFO", self.no_getaddrinfo),
            ("REUSEPORT", self.no_reuseport),
            ("FAST-FORWARD", self.no_fast_forward),
        ]
        .into_iter()
        .filter(|(_, off)| !off)
        .map(|(name, _)| name)
    }
}

/// `MAX_TGROUPS` of `-vv`.
pub const THREAD_GROUPS_MAX: usize = 16;

/// `MAX_THREADS` of `-vv`: what the runtime can start.
pub const THREADS_MAX: usize = 1022;

/// Name, mode, sides and implementation of each protocol that can carry traffic.
pub const MULTIPLEXERS: [(&str, &str, &str, &str); 5] = [
    ("h2", "HTTP", "FE|BE", "H2"),
    ("<default>", "HTTP", "FE|BE", "H1"),
    ("h1", "HTTP", "FE|BE", "H1"),
    ("<default>", "TCP", "FE|BE", "PASS"),
    ("none", "TCP", "FE|BE", "PASS"),
];

/// Services for `use-service`.
pub const SERVICES: &[&str] = &["prometheus-exporter"];

/// Name, preference and result of a test of each way to move bytes.
pub fn drivers() -> [(&'static str, u32, bool); 2] {
    let options = DriverOptions::default();
    let works = |kind| Driver::new(kind, &options).is_ok();
    [("io_uring", 400, works(DriverKind::Uring)), ("epoll", 300, works(DriverKind::Epoll))]
}

/// What conditions are answered from. The version is the one this program follows: configurations compare it with
/// the versions of HAProxy that brought what they use.
pub fn facts(enabled: &Enabled) -> Facts {
    let features = FEATURES.into_iter().chain(detected()).filter(|(_, present)| *present);
    Facts {
        version: COMPATIBLE_VERSION.into(),
        features: features.map(|(name, _)| name.into()).collect(),
        enabled: enabled.names().map(str::to_string).collect(),
        // The protocol is rustls', the algorithms are AWS-LC's: with the numbers of the version that is linked.
        tls_library: Some("AWS-LC 5.12.0 (rustls 0.23)".into()),
        openssl_version: Some("1.1.1".into()),
        awslc_api: Some(37),
        fips_mode: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_in_order_and_named_once() {
        let names: Vec<&str> = FEATURES.into_iter().map(|(name, _)| name).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
    }

    #[test]
    fn conditions_see_the_features() {
        let facts = facts(&Enabled { no_splice: true, ..Enabled::default() });
        assert!(
            facts.features.contains("THREAD")
                && facts.features.contains("H2")
                && !facts.features.contains("QUIC")
        );
        assert!(facts.enabled.contains("EPOLL") && !facts.enabled.contains("POLL"));
        assert!(facts.enabled.contains("REUSEPORT") && !facts.enabled.contains("SPLICE"));
    }
}
