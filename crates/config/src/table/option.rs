//! `option` keywords.

use crate::check;
use crate::keyword::{Keyword, not_yet, removed, works};
use crate::proxy::{self, OptionKind, Side};
use crate::table::why;

/// Every `option`, in alphabetical order.
pub(crate) static OPTION: &[Keyword<OptionKind>] = &[
    works(
        "abortonclose",
        "Give up requests whose client is gone.",
        OptionKind::Flag(Side::Both, |o| &mut o.abortonclose),
    ),
    works(
        "accept-invalid-http-request",
        "Older name of accept-unsafe-violations-in-http-request.",
        OptionKind::Other(proxy::accept_invalid),
    ),
    works(
        "accept-invalid-http-response",
        "Older name of accept-unsafe-violations-in-http-response.",
        OptionKind::Other(proxy::accept_invalid),
    ),
    works(
        "accept-unsafe-violations-in-http-request",
        "Forward requests that break the protocol harmlessly enough.",
        OptionKind::Flag(Side::Frontend, |o| &mut o.accept_unsafe_req),
    ),
    works(
        "accept-unsafe-violations-in-http-response",
        "Forward responses that break the protocol harmlessly enough.",
        OptionKind::Flag(Side::Backend, |o| &mut o.accept_unsafe_res),
    ),
    works(
        "allbackups",
        "Use all backup servers together.",
        OptionKind::Flag(Side::Backend, |o| &mut o.allbackups),
    ),
    works(
        "checkcache",
        "Refuse cacheable responses that set cookies.",
        OptionKind::Flag(Side::Backend, |o| &mut o.checkcache),
    ),
    works(
        "clitcpka",
        "Keep-alive probes to clients.",
        OptionKind::Flag(Side::Frontend, |o| &mut o.tcpka_cli),
    ),
    not_yet("contstats", "Count bytes continuously.", why::CONTSTATS),
    works(
        "disable-h2-upgrade",
        "Do not become HTTP/2 on its preface.",
        OptionKind::Flag(Side::Frontend, |o| &mut o.disable_h2_upgrade),
    ),
    works(
        "dontlog-normal",
        "Log what fails only.",
        OptionKind::Flag(Side::Frontend, |o| &mut o.dontlog_normal),
    ),
    works(
        "dontlognull",
        "Do not log connections without a request.",
        OptionKind::Flag(Side::Frontend, |o| &mut o.dontlognull),
    ),
    works("external-check", "Health checks by a program.", OptionKind::Other(check::option)),
    removed(
        "forceclose",
        "option 'forceclose' is not supported any more since HAProxy 2.0, please just remove it, or use 'option httpclose' if absolutely needed.",
    ),
    works("forwarded", "Add Forwarded (RFC 7239).", OptionKind::Other(proxy::forwarded)),
    works("forwardfor", "Add X-Forwarded-For.", OptionKind::Other(proxy::forward)),
    works(
        "grpc-check",
        "Ours: health checks by the health service of gRPC ([service <name>] [authority <name>]).",
        OptionKind::Other(check::option),
    ),
    works(
        "h1-case-adjust-bogus-client",
        "Adjust the case of headers for old clients.",
        OptionKind::Flag(Side::Frontend, |o| &mut o.h1_case_adjust_bogus_client),
    ),
    works(
        "h1-case-adjust-bogus-server",
        "Adjust the case of headers for old servers.",
        OptionKind::Flag(Side::Backend, |o| &mut o.h1_case_adjust_bogus_server),
    ),
    works("hedge", "Ask a second server when the first is late.", OptionKind::Other(proxy::hedge)),
    works(
        "http-buffer-request",
        "Wait for the body before the rules.",
        OptionKind::Flag(Side::Both, |o| &mut o.http_buffer_request),
    ),
    works(
        "http-drop-request-trailers",
        "Do not forward trailers of requests.",
        OptionKind::Flag(Side::Backend, |o| &mut o.http_drop_request_trailers),
    ),
    works(
        "http-drop-response-trailers",
        "Do not forward trailers of responses.",
        OptionKind::Flag(Side::Frontend, |o| &mut o.http_drop_response_trailers),
    ),
    works(
        "http-ignore-probes",
        "Answer nothing to connections without a request.",
        OptionKind::Flag(Side::Frontend, |o| &mut o.http_ignore_probes),
    ),
    works("http-keep-alive", "Keep both connections.", OptionKind::Other(proxy::connection_mode)),
    works(
        "http-no-delay",
        "Send small pieces at once.",
        OptionKind::Flag(Side::Both, |o| &mut o.http_no_delay),
    ),
    works(
        "http-pretend-keepalive",
        "Tell the server that the connection will stay.",
        OptionKind::Flag(Side::Backend, |o| &mut o.http_pretend_keepalive),
    ),
    works(
        "http-restrict-req-hdr-names",
        "What becomes of unusual header names.",
        OptionKind::Other(proxy::restrict_names),
    ),
    works(
        "http-server-close",
        "Keep the client's connection only.",
        OptionKind::Other(proxy::connection_mode),
    ),
    removed(
        "http-tunnel",
        "option 'http-tunnel' is not supported any more since HAProxy 2.1, please just remove it, it shouldn't be needed.",
    ),
    works(
        "http-strict",
        "Ours: refuse what RFC 9110 and 9112 forbid, requests with 400, responses with 502.",
        OptionKind::Flag(Side::Both, |o| &mut o.http_strict),
    ),
    works(
        "http-use-proxy-header",
        "Use Proxy-Connection.",
        OptionKind::Flag(Side::Frontend, |o| &mut o.http_use_proxy_header),
    ),
    removed(
        "http_proxy",
        "option 'http_proxy' is not supported any more since HAProxy 2.5. This option stopped working in HAProxy 1.9 and usually had nasty side effects. It can be more reliably implemented with combinations of 'http-request set-dst' and 'http-request set-uri', and even 'http-request do-resolve' if DNS resolution is desired.",
    ),
    works("httpchk", "HTTP health checks.", OptionKind::Other(check::option)),
    works("httpclose", "Close both connections.", OptionKind::Other(proxy::connection_mode)),
    works("httplog", "Log HTTP requests.", OptionKind::Other(proxy::log_format)),
    works("httpslog", "Log HTTP requests with their TLS.", OptionKind::Other(proxy::log_format)),
    works(
        "idle-close-on-response",
        "Close idle connections after a response when stopping.",
        OptionKind::Flag(Side::Frontend, |o| &mut o.idle_close_on_response),
    ),
    works(
        "independent-streams",
        "Writes do not refresh the read timeout.",
        OptionKind::Flag(Side::Both, |o| &mut o.independent_streams),
    ),
    works("ldap-check", "Health checks by an anonymous LDAP bind.", OptionKind::Other(check::option)),
    works(
        "log-health-checks",
        "Log changes of health checks.",
        OptionKind::Flag(Side::Backend, |o| &mut o.log_health_checks),
    ),
    works(
        "log-separate-errors",
        "Log errors at level err.",
        OptionKind::Flag(Side::Frontend, |o| &mut o.log_separate_errors),
    ),
    works(
        "logasap",
        "Log before the end of the transfer.",
        OptionKind::Flag(Side::Frontend, |o| &mut o.logasap),
    ),
    works("mysql-check", "MySQL health checks.", OptionKind::Other(check::option)),
    works("nolinger", "Close with a reset.", OptionKind::Flag(Side::Both, |o| &mut o.nolinger)),
    works("originalto", "Add X-Original-To.", OptionKind::Other(proxy::forward)),
    works(
        "outlier-detection",
        "Leave servers alone for a while that are worse than the others.",
        OptionKind::Other(proxy::outlier_detection),
    ),
    works("persist", "Stay with servers that are down.", OptionKind::Flag(Side::Backend, |o| &mut o.persist)),
    works("pgsql-check", "PostgreSQL health checks.", OptionKind::Other(check::option)),
    works(
        "prefer-last-server",
        "Stay with the server of the last request.",
        OptionKind::Flag(Side::Backend, |o| &mut o.prefer_last_server),
    ),
    works("redis-check", "Redis health checks.", OptionKind::Other(check::option)),
    works("redispatch", "Try another server after failures.", OptionKind::Other(proxy::redispatch)),
    works("smtpchk", "SMTP health checks.", OptionKind::Other(check::option)),
    works(
        "socket-stats",
        "Statistics per listener.",
        OptionKind::Flag(Side::Frontend, |o| &mut o.socket_stats),
    ),
    works(
        "splice-auto",
        "Splice when it seems worth it.",
        OptionKind::Flag(Side::Both, |o| &mut o.splice_auto),
    ),
    works("splice-request", "Splice requests.", OptionKind::Flag(Side::Both, |o| &mut o.splice_request)),
    works("splice-response", "Splice responses.", OptionKind::Flag(Side::Both, |o| &mut o.splice_response)),
    works("spop-check", "Health checks of agents that process streams.", OptionKind::Other(check::option)),
    works("srvtcpka", "Keep-alive probes to servers.", OptionKind::Flag(Side::Backend, |o| &mut o.tcpka_srv)),
    works("ssl-hello-chk", "Health checks by the first message of TLS.", OptionKind::Other(check::option)),
    works("tcp-check", "Health checks by tcp-check rules.", OptionKind::Other(check::option)),
    works(
        "tcp-smart-accept",
        "Save the ACK of accepted connections.",
        OptionKind::Flag(Side::Frontend, |o| &mut o.tcp_smart_accept),
    ),
    works(
        "tcp-smart-connect",
        "Save the ACK of connections to servers.",
        OptionKind::Flag(Side::Backend, |o| &mut o.tcp_smart_connect),
    ),
    works("tcpka", "Keep-alive probes on both sides.", OptionKind::Other(proxy::tcpka)),
    works("tcplog", "Log TCP sessions.", OptionKind::Other(proxy::log_format)),
    removed("transparent", "support for option 'transparent' was removed in version 3.5."),
    not_yet("use-small-buffers", "Use small buffers for waiting requests.", why::BUFFERS),
];
