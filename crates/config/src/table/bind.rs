//! Options of `bind` and `stats socket`.

use crate::accounts;
use crate::bind;
use crate::keyword::{Keyword, not_yet, works};
use crate::model::{Bind, CliLevel};
use crate::namespaces;
use crate::numbers::count;
use crate::setter::Setter::{self, Flag, Number, Reads, Text, Word};
use crate::table::why;
use crate::tls;

/// Connections that one listener of reverse HTTP keeps at most.
const CONNECTIONS_MAX: u32 = 1000;

/// Every option of a listener, in alphabetical order.
pub(crate) static BIND: &[Keyword<Setter<Bind>>] = &[
    works(
        "accept-netscaler-cip",
        "A NetScaler's header begins every connection.",
        Number {
            missing: Some("'accept-netscaler-cip' : missing value"),
            set: |b, value| {
                // Its low 32 bits count, so that a negative number is one of them.
                b.netscaler_magic = value as u32;
                let why = "'accept-netscaler-cip' : invalid value 0, must be a number other than 0";
                if b.netscaler_magic == 0 { Err(why.to_owned()) } else { Ok(()) }
            },
        },
    ),
    works("accept-proxy", "A PROXY header begins every connection.", Flag(|b| b.accept_proxy = true)),
    works("allow-0rtt", "Take early data of clients (0-RTT).", Reads(tls::bind_word)),
    works("alpn", "Protocols offered to clients.", Reads(tls::bind_word)),
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
    works("ca-file", "Authorities that clients' certificates are verified with.", Reads(tls::bind_word)),
    works(
        "ca-ignore-err",
        "Errors of authorities' certificates that are passed over.",
        Reads(tls::bind_word),
    ),
    works("ca-sign-file", "Authority that signs the certificates that are made.", Reads(tls::generate)),
    works("ca-sign-pass", "Passphrase of that authority's key, which must have none.", Reads(tls::generate)),
    works("ca-verify-file", "More of them, whose names clients are not told.", Reads(tls::bind_word)),
    works(
        "cc",
        "Congestion control.",
        Text { missing: "'cc' : missing TCP congestion control algorithm", set: |b, text| b.cc = Some(text) },
    ),
    works("ciphers", "Ciphers up to TLS 1.2.", Reads(tls::bind_word)),
    works("ciphersuites", "Ciphers of TLS 1.3.", Reads(tls::bind_word)),
    works("client-sigalgs", "Signatures taken from clients.", Reads(tls::bind_word)),
    works("crl-file", "Revoked certificates.", Reads(tls::bind_word)),
    works("crt", "Certificates and keys: a file, a bundle, a directory.", Reads(tls::bind_source)),
    works("crt-ignore-err", "Errors of clients' certificates that are passed over.", Reads(tls::bind_word)),
    works("crt-list", "A file that lists certificates.", Reads(tls::bind_source)),
    works("curves", "Curves that keys are agreed on with.", Reads(tls::bind_word)),
    works("default-crt", "Certificate for clients whose name nobody has.", Reads(tls::bind_source)),
    works("defer-accept", "Accept when data arrives.", Flag(|b| b.defer_accept = true)),
    works("ecdhe", "The same, one curve.", Reads(tls::bind_word)),
    not_yet("ech", "TLS setting.", why::ECH),
    works(
        "expose-fd",
        "Give listening sockets to a new process.",
        Word {
            words: &[("listeners", |b| b.expose_fd_listeners = true)],
            wrong: |text| format!("'expose-fd' only supports 'listeners' (got '{text}')"),
        },
    ),
    works("force-sslv3", "No other version.", Reads(tls::bind_word)),
    works("force-tlsv10", "No other version.", Reads(tls::bind_word)),
    works("force-tlsv11", "No other version.", Reads(tls::bind_word)),
    works("force-tlsv12", "TLS 1.2 only.", Reads(tls::bind_word)),
    works("force-tlsv13", "TLS 1.3 only.", Reads(tls::bind_word)),
    works("generate-certificates", "Make certificates for names that nobody has.", Reads(tls::generate)),
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
    works(
        "guid-prefix",
        "Prefix of identifiers over reloads.",
        Text { missing: "'guid-prefix' : expects an argument", set: |b, text| b.guid = Some(text) },
    ),
    works("id", "Number in statistics.", Reads(bind::id)),
    works("idle-ping", "Time between pings of idle connections.", Reads(bind::idle_ping)),
    works(
        "interface",
        "Network interface.",
        Text { missing: "'interface' : missing interface name", set: |b, text| b.interface = Some(text) },
    ),
    works("ktls", "TLS of the kernel, of no effect.", Reads(tls::ktls)),
    works(
        "label",
        "A name that listeners may have in common.",
        Text { missing: "'label' : missing label", set: |b, text| b.label = Some(text) },
    ),
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
    works("namespace", "Network namespace that is listened in.", Reads(namespaces::of_bind)),
    works(
        "nbconn",
        "Connections that are kept to who asks on them (reverse HTTP).",
        Number {
            missing: Some("'nbconn' : missing value"),
            set: |b, value| match u32::try_from(value) {
                Ok(connections @ 1..=CONNECTIONS_MAX) => {
                    b.connections = connections;
                    Ok(())
                }
                Ok(0) | Err(_) => Err(format!("'nbconn' : invalid value {value}, must be > 0")),
                Ok(_) => Err(format!("'nbconn' : invalid value {value}, {CONNECTIONS_MAX} is the most")),
            },
        },
    ),
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
    works("no-alpn", "No protocol is offered.", Reads(tls::bind_word)),
    works("no-ca-names", "Clients are not told the names of authorities.", Reads(tls::bind_word)),
    works("no-sslv3", "No SSL version 3.", Reads(tls::bind_word)),
    works("no-strict-sni", "Clients whose name nobody has get a default.", Reads(tls::bind_word)),
    works("no-tls-tickets", "No TLS tickets.", Reads(tls::bind_word)),
    works("no-tlsv10", "No TLS 1.0.", Reads(tls::bind_word)),
    works("no-tlsv11", "No TLS 1.1.", Reads(tls::bind_word)),
    works("no-tlsv12", "No TLS 1.2.", Reads(tls::bind_word)),
    works("no-tlsv13", "No TLS 1.3.", Reads(tls::bind_word)),
    not_yet("npn", "What was there before ALPN.", why::NPN),
    works("prefer-client-ciphers", "The client's order of ciphers counts.", Reads(tls::bind_word)),
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
    works("sigalgs", "Signatures made for clients.", Reads(tls::bind_word)),
    works("ssl", "Connections are encrypted.", Reads(tls::bind_ssl)),
    works("ssl-max-ver", "Highest version of TLS.", Reads(tls::bind_word)),
    works("ssl-min-ver", "Lowest version of TLS.", Reads(tls::bind_word)),
    works("strict-sni", "Clients whose name nobody has are refused.", Reads(tls::bind_word)),
    works("tcp-md5sig", "Segments are signed with this password (RFC 2385).", Reads(bind::tcp_md5sig)),
    works("tcp-ss", "Keep the SYN of connections, for `fc_saved_syn`.", Reads(bind::tcp_ss)),
    works("tcp-ut", "TCP user timeout.", Reads(bind::tcp_ut)),
    works("tfo", "Accept TCP Fast Open.", Flag(|b| b.tfo = true)),
    works("thread", "Threads that accept.", Reads(bind::thread)),
    works("tls-ticket-keys", "File of keys for TLS tickets.", Reads(tls::ticket_keys)),
    works("tls-tickets", "TLS tickets.", Reads(tls::bind_word)),
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
    works("verify", "Whether clients must show a certificate.", Reads(tls::bind_word)),
];
