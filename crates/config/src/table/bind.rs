//! Options of `bind` and `stats socket`.

use crate::accounts;
use crate::bind;
use crate::keyword::{Keyword, not_yet, works};
use crate::model::{Bind, CliLevel};
use crate::numbers::count;
use crate::setter::Setter::{self, Flag, Number, Reads, Text, Word};
use crate::table::why;

/// Every option of a listener, in alphabetical order.
pub(crate) static BIND: &[Keyword<Setter<Bind>>] = &[
    not_yet("accept-netscaler-cip", "NetScaler client address header.", why::NETSCALER),
    works("accept-proxy", "A PROXY header begins every connection.", Flag(|b| b.accept_proxy = true)),
    not_yet("allow-0rtt", "TLS setting.", why::TLS),
    not_yet("alpn", "TLS setting.", why::TLS),
    works(
        "backlog",
        "Connections waiting to be accepted.",
        Number {
            missing: Some("'backlog' : missing value"),
            set: |b, value| {
                count(value)
                    .map(|n| b.backlog = n)
                    .ok_or_else(|| format!("'backlog' : invalid value {value}, must be > 0"))
            },
        },
    ),
    not_yet("ca-file", "TLS setting.", why::TLS),
    not_yet("ca-ignore-err", "TLS setting.", why::TLS),
    not_yet("ca-sign-file", "TLS setting.", why::TLS),
    not_yet("ca-sign-pass", "TLS setting.", why::TLS),
    not_yet("ca-verify-file", "TLS setting.", why::TLS),
    works(
        "cc",
        "Congestion control.",
        Text { missing: "'cc' : missing TCP congestion control algorithm", set: |b, text| b.cc = Some(text) },
    ),
    not_yet("ciphers", "TLS setting.", why::TLS),
    not_yet("ciphersuites", "TLS setting.", why::TLS),
    not_yet("client-sigalgs", "TLS setting.", why::TLS),
    not_yet("crl-file", "TLS setting.", why::TLS),
    not_yet("crt", "TLS setting.", why::TLS),
    not_yet("crt-ignore-err", "TLS setting.", why::TLS),
    not_yet("crt-list", "TLS setting.", why::TLS),
    not_yet("curves", "TLS setting.", why::TLS),
    not_yet("default-crt", "TLS setting.", why::TLS),
    works("defer-accept", "Accept when data arrives.", Flag(|b| b.defer_accept = true)),
    not_yet("ecdhe", "TLS setting.", why::TLS),
    not_yet("ech", "TLS setting.", why::TLS),
    works(
        "expose-fd",
        "Give listening sockets to a new process.",
        Word {
            words: &[("listeners", |b| b.expose_fd_listeners = true)],
            wrong: |text| format!("'expose-fd' only supports 'listeners' (got '{text}')"),
        },
    ),
    not_yet("force-sslv3", "TLS setting.", why::TLS),
    not_yet("force-tlsv10", "TLS setting.", why::TLS),
    not_yet("force-tlsv11", "TLS setting.", why::TLS),
    not_yet("force-tlsv12", "TLS setting.", why::TLS),
    not_yet("force-tlsv13", "TLS setting.", why::TLS),
    not_yet("generate-certificates", "TLS setting.", why::TLS),
    works(
        "gid",
        "Group of a unix socket, by number.",
        Reads(|_, line, at, b| {
            b.owner.gid = Some(bind::account_number(line, at)?);
            Ok(2)
        }),
    ),
    works(
        "group",
        "Group of a unix socket.",
        Reads(|_, line, at, b| {
            b.owner.gid = Some(bind::account(line, at, accounts::group_id)?);
            Ok(2)
        }),
    ),
    not_yet("guid-prefix", "Prefix of identifiers over reloads.", why::STATS_FILE),
    works("id", "Number in statistics.", Reads(bind::id)),
    not_yet("idle-ping", "Time between pings of idle connections.", why::H2),
    works(
        "interface",
        "Network interface.",
        Text { missing: "'interface' : missing interface name", set: |b, text| b.interface = Some(text) },
    ),
    not_yet("ktls", "TLS setting.", why::TLS),
    not_yet("label", "Name of a group of listeners.", why::LABEL),
    works(
        "level",
        "Rights on the CLI.",
        Word {
            words: &[
                ("user", |b| b.level = CliLevel::User),
                ("operator", |b| b.level = CliLevel::Operator),
                ("admin", |b| b.level = CliLevel::Admin),
            ],
            wrong: |text| format!("'level' only supports 'user', 'operator', and 'admin' (got '{text}')"),
        },
    ),
    works(
        "maxconn",
        "Most concurrent connections.",
        Number {
            missing: Some("'maxconn' : missing value"),
            set: |b, value| {
                count(value)
                    .map(|n| b.maxconn = n)
                    .ok_or_else(|| format!("'maxconn' : invalid value {value}, must be >= 0"))
            },
        },
    ),
    works("mode", "Permissions of a unix socket.", Reads(bind::mode)),
    works(
        "mss",
        "Largest TCP segment.",
        Number {
            missing: Some("'mss' : missing MSS value"),
            set: |b, value| {
                match value {
                    -65535..=65535 if value != 0 => b.mss = value as i32,
                    _ => {
                        return Err(
                            "'mss' : expects an MSS with and absolute value between 1 and 65535".to_owned()
                        );
                    }
                }
                Ok(())
            },
        },
    ),
    works(
        "name",
        "Name in statistics and logs.",
        Text { missing: "'name' : missing name", set: |b, text| b.name = Some(text) },
    ),
    not_yet("namespace", "Network namespace.", why::NAMESPACE),
    not_yet("nbconn", "Reverse connections.", why::REVERSE),
    works(
        "nice",
        "Priority, lower is served first.",
        Number {
            missing: Some("'nice' : missing value"),
            set: |b, value| {
                match value {
                    -1024..=1024 => b.nice = value as i16,
                    _ => return Err(format!("'nice' : invalid value {value}, allowed range is -1024..1024")),
                }
                Ok(())
            },
        },
    ),
    not_yet("no-alpn", "TLS setting.", why::TLS),
    not_yet("no-ca-names", "TLS setting.", why::TLS),
    not_yet("no-sslv3", "TLS setting.", why::TLS),
    not_yet("no-strict-sni", "TLS setting.", why::TLS),
    not_yet("no-tls-tickets", "TLS setting.", why::TLS),
    not_yet("no-tlsv10", "TLS setting.", why::TLS),
    not_yet("no-tlsv11", "TLS setting.", why::TLS),
    not_yet("no-tlsv12", "TLS setting.", why::TLS),
    not_yet("no-tlsv13", "TLS setting.", why::TLS),
    not_yet("npn", "TLS setting.", why::TLS),
    not_yet("prefer-client-ciphers", "TLS setting.", why::TLS),
    works("process", "Removed, see thread.", Reads(bind::process)),
    works("proto", "Protocol without negotiation.", Reads(bind::proto)),
    not_yet("quic-cc-algo", "QUIC setting.", why::QUIC),
    not_yet("quic-force-retry", "QUIC setting.", why::QUIC),
    not_yet("quic-socket", "QUIC setting.", why::QUIC),
    works(
        "severity-output",
        "Severity before the CLI's messages.",
        Word {
            words: &[
                ("none", |b| b.severity_number = None),
                ("number", |b| b.severity_number = Some(true)),
                ("string", |b| b.severity_number = Some(false)),
            ],
            wrong: |text| {
                format!("'severity-output' only supports 'none', 'number', and 'string' (got '{text}')")
            },
        },
    ),
    works("shards", "Number of sockets.", Reads(bind::shards)),
    not_yet("sigalgs", "TLS setting.", why::TLS),
    not_yet("ssl", "TLS setting.", why::TLS),
    not_yet("ssl-max-ver", "TLS setting.", why::TLS),
    not_yet("ssl-min-ver", "TLS setting.", why::TLS),
    not_yet("strict-sni", "TLS setting.", why::TLS),
    not_yet("tcp-md5sig", "TCP MD5 signatures.", why::TCP_MD5),
    not_yet("tcp-ss", "Keep the SYN of connections.", why::SAVED_SYN),
    works("tcp-ut", "TCP user timeout.", Reads(bind::tcp_ut)),
    works("tfo", "Accept TCP Fast Open.", Flag(|b| b.tfo = true)),
    works("thread", "Threads that accept.", Reads(bind::thread)),
    not_yet("tls-ticket-keys", "TLS setting.", why::TLS),
    not_yet("tls-tickets", "TLS setting.", why::TLS),
    works("transparent", "Accept connections to foreign addresses.", Flag(|b| b.transparent = true)),
    works(
        "uid",
        "Owner of a unix socket, by number.",
        Reads(|_, line, at, b| {
            b.owner.uid = Some(bind::account_number(line, at)?);
            Ok(2)
        }),
    ),
    works(
        "user",
        "Owner of a unix socket.",
        Reads(|_, line, at, b| {
            b.owner.uid = Some(bind::account(line, at, accounts::user_id)?);
            Ok(2)
        }),
    ),
    works("v4v6", "An IPv6 address accepts IPv4 too.", Flag(|b| b.v4v6 = Some(true))),
    works("v6only", "An IPv6 address accepts IPv6 only.", Flag(|b| b.v4v6 = Some(false))),
    not_yet("verify", "TLS setting.", why::TLS),
];
