//! Sections.

use super::why;
use crate::keyword::{Keyword, not_yet, removed, works};
use crate::model::ProxyKind;

/// What a section is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionKind {
    Global,
    Proxy(ProxyKind),
    Userlist,
    HttpErrors,
    LogProfile,
    Resolvers,
    Ring,
    CrtStore,
    LogForward,
    Peers,
    Healthcheck,
    Mailers,
    OpenTelemetry,
    Traces,
    Namespaces,
}

/// Every section, in alphabetical order.
pub(crate) static SECTIONS: &[Keyword<SectionKind>] = &[
    not_yet("acme", "An ACME client.", why::TLS),
    works("backend", "Servers and how one is chosen.", SectionKind::Proxy(ProxyKind::Backend)),
    not_yet("cache", "A cache of small objects.", why::CACHE),
    works("crt-store", "A store of certificates.", SectionKind::CrtStore),
    works("defaults", "Presets of the proxies that follow.", SectionKind::Proxy(ProxyKind::Defaults)),
    not_yet("fcgi-app", "Parameters of a FastCGI application.", why::FCGI),
    works("frontend", "Addresses to listen on and rules.", SectionKind::Proxy(ProxyKind::Frontend)),
    works("global", "The whole process.", SectionKind::Global),
    works("healthcheck", "A health check that servers share.", SectionKind::Healthcheck),
    works("http-errors", "A group of error pages.", SectionKind::HttpErrors),
    works("listen", "A frontend and a backend in one.", SectionKind::Proxy(ProxyKind::Listen)),
    works("log-forward", "A relay of logs.", SectionKind::LogForward),
    works("log-profile", "What is logged at each step.", SectionKind::LogProfile),
    works("mailers", "Servers that take e-mail alerts.", SectionKind::Mailers),
    works("namespace_list", "Network namespaces that must be there.", SectionKind::Namespaces),
    works("opentelemetry", "Traces and metrics for a collector.", SectionKind::OpenTelemetry),
    works("peers", "Peers that share stick tables.", SectionKind::Peers),
    removed("program", "'program' section is not supported anymore since HAProxy 3.3."),
    works("resolvers", "Name servers, and how they are asked.", SectionKind::Resolvers),
    works("ring", "A buffer of logs and the servers it feeds.", SectionKind::Ring),
    not_yet("spoe-agent", "An SPOE agent.", why::SPOE),
    not_yet("spoe-group", "A group of SPOE messages.", why::SPOE),
    not_yet("spoe-message", "An SPOE message.", why::SPOE),
    works("traces", "What the process tells of itself from its start on.", SectionKind::Traces),
    works("userlist", "Users and their passwords.", SectionKind::Userlist),
];
