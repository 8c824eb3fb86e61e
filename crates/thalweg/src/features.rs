//! What this build can do: the one table behind `-vv`, `feature()` and `enabled()`.
//!
//! **Invariant**: a feature is marked present only when it works. The names are HAProxy's, because configurations,
//! test suites and packages ask for them.

use thalweg_syntax::Facts;

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
    ("H2", false),
    ("HAVE_TCP_MD5SIG", false),
    ("KQUEUE", false),
    ("KTLS", false),
    ("LIBATOMIC", false),
    ("LIBCRYPT", true),
    ("LINUX_CAP", false),
    ("LINUX_SPLICE", true),
    ("LINUX_TPROXY", true),
    ("LUA", false),
    ("MATH", false),
    ("MEMORY_PROFILING", false),
    ("NETFILTER", true),
    ("NS", false),
    ("OBSOLETE_LINKER", false),
    ("OPENSSL", false),
    ("OPENSSL_AWSLC", false),
    ("OPENSSL_WOLFSSL", false),
    ("PCRE", false),
    ("PCRE2", true),
    ("PCRE2_JIT", true),
    ("PCRE_JIT", false),
    ("POLL", false),
    ("PRCTL", true),
    ("PROCCTL", false),
    ("PROMEX", false),
    ("PTHREAD_EMULATION", false),
    ("QUIC", false),
    ("QUIC_OPENSSL_COMPAT", false),
    ("RT", false),
    ("SHM_OPEN", false),
    ("SLZ", false),
    ("SPOE", false),
    ("SSL", false),
    ("STATIC_PCRE", false),
    ("STATIC_PCRE2", false),
    ("TFO", true),
    ("THREAD", true),
    ("THREAD_DUMP", false),
    ("TPROXY", true),
    ("TRACE", false),
    ("WURFL", false),
    ("ZLIB", false),
];

/// What is on when nothing says otherwise, for `enabled()`.
const ENABLED: [&str; 5] = ["EPOLL", "SPLICE", "GETADDRINFO", "REUSEPORT", "FAST-FORWARD"];

/// What conditions are answered from. The version is the one this program follows: configurations compare it with
/// the versions of HAProxy that brought what they use.
pub fn facts() -> Facts {
    Facts {
        version: COMPATIBLE_VERSION.into(),
        features: FEATURES.into_iter().filter(|(_, present)| *present).map(|(name, _)| name.into()).collect(),
        enabled: ENABLED.iter().map(|name| name.to_string()).collect(),
        tls_library: None,
        openssl_version: None,
        awslc_api: None,
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
        let facts = facts();
        assert!(facts.features.contains("THREAD") && !facts.features.contains("OPENSSL"));
        assert!(facts.enabled.contains("EPOLL") && !facts.enabled.contains("POLL"));
    }
}
