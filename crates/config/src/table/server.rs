//! Options of `server`, `default-server` and `server-template`.

use thalweg_dns::Families;

use crate::build::ServerDraft;
use crate::keyword::{Keyword, not_yet, works};
use crate::model::{HashKey, InitState, OnError};
use crate::namespaces;
use crate::numbers::leading;
use crate::server_checks as s;
use crate::server_options::{self as o, check, rare};
use crate::setter::Setter::{self, Flag, Number, Reads, Text, Word};
use crate::table::why;
use crate::tls;

/// Every option of a server, in alphabetical order.
pub(crate) static SERVER: &[Keyword<Setter<ServerDraft>>] = &[
    works(
        "adaptive-maxconn",
        "The limit on concurrent requests follows how long answers take.",
        Flag(|d| rare(d).adaptive_maxconn = true),
    ),
    works("addr", "Address of health checks.", Reads(o::check_addr)),
    works("agent-addr", "Address of the agent.", Reads(s::agent_addr)),
    works("agent-check", "An agent is asked about the server.", Flag(|d| s::agent(d).asked = true)),
    works("agent-inter", "Time between agent checks.", Reads(s::agent_inter)),
    works("agent-port", "Port of the agent.", Reads(s::agent_port)),
    works("agent-send", "What is sent to the agent.", Reads(s::agent_send)),
    works("allow-0rtt", "Send early data (0-RTT).", Reads(tls::server_word)),
    works("alpn", "Protocols offered to the server.", Reads(tls::server_word)),
    works("backup", "Used when the others are down.", Flag(|d| d.server.backup = true)),
    works("ca-file", "Authorities that the server's certificate is verified with.", Reads(tls::server_word)),
    works(
        "cc",
        "Congestion control.",
        Text {
            missing: "'cc' : missing TCP congestion control algorithm",
            set: |d, text| rare(d).cc = Some(text),
        },
    ),
    works("check", "Health checks.", Flag(o::checked)),
    works("check-alpn", "Protocols that health checks offer.", Reads(tls::server_word)),
    works(
        "check-pool-conn-name",
        "Name of the idle connections that health checks use.",
        Text {
            missing: "'check-pool-conn-name' : missing value",
            set: |d, text| check(d).pool_conn_name = Some(text),
        },
    ),
    works("check-proto", "Protocol of health checks without negotiation.", Reads(o::check_proto)),
    works(
        "check-reuse-pool",
        "Health checks use connections that traffic left idle.",
        Flag(|d| check(d).reuse_pool = true),
    ),
    works("check-send-proxy", "Health checks send a PROXY header.", Flag(|d| check(d).send_proxy = true)),
    works("check-sni", "Name that health checks ask for.", Reads(tls::server_word)),
    works("check-sni-auto", "The same, from the Host field of their request.", Reads(tls::server_word)),
    works("check-ssl", "Health checks are encrypted.", Reads(tls::server_word)),
    works(
        "check-via-socks4",
        "Health checks go through the SOCKS4 proxy.",
        Flag(|d| check(d).via_socks4 = true),
    ),
    works("ciphers", "Ciphers up to TLS 1.2.", Reads(tls::server_word)),
    works("ciphersuites", "Ciphers of TLS 1.3.", Reads(tls::server_word)),
    works("client-sigalgs", "Signatures made for the server.", Reads(tls::server_word)),
    works(
        "cookie",
        "Value of the persistence cookie.",
        Text {
            missing: "'cookie' expects <value> as argument.",
            set: |d, text| d.server.cookie = Some(text),
        },
    ),
    works("crl-file", "Revoked certificates.", Reads(tls::server_word)),
    works("crt", "Certificate that is shown to the server.", Reads(tls::server_word)),
    works("curves", "Curves that keys are agreed on with.", Reads(tls::server_word)),
    works("disabled", "Starts in maintenance.", Flag(|d| d.server.disabled = true)),
    works(
        "downinter",
        "Time between health checks while down.",
        Reads(|cx, line, at, d| {
            let ms = o::between_checks(cx, line, at, d)?;
            check(d).downinter_ms = Some(ms);
            Ok(2)
        }),
    ),
    works("enabled", "Does not start in maintenance.", Flag(|d| d.server.disabled = false)),
    works("error-limit", "Errors before 'on-error' applies.", Reads(s::error_limit)),
    works(
        "fall",
        "Failed checks before a server is down.",
        Number {
            missing: Some("'fall' expects an integer argument."),
            set: |d, value| {
                check(d).fall = o::times("fall", value)?;
                Ok(())
            },
        },
    ),
    works(
        "fastinter",
        "Time between health checks while the state changes.",
        Reads(|cx, line, at, d| {
            let ms = o::between_checks(cx, line, at, d)?;
            check(d).fastinter_ms = Some(ms);
            Ok(2)
        }),
    ),
    works("force-sslv3", "No other version.", Reads(tls::server_word)),
    works("force-tlsv10", "No other version.", Reads(tls::server_word)),
    works("force-tlsv11", "No other version.", Reads(tls::server_word)),
    works("force-tlsv12", "TLS 1.2 only.", Reads(tls::server_word)),
    works("force-tlsv13", "TLS 1.3 only.", Reads(tls::server_word)),
    works("from", "What the server starts with: another one or a preset.", Reads(o::in_front)),
    works("guid", "Identifier of this server over reloads.", Reads(o::guid)),
    works(
        "hash-key",
        "What a consistent hash places a server by.",
        Word {
            words: &[
                ("id", |d| d.server.hash_key = HashKey::Id),
                ("id32", |d| d.server.hash_key = HashKey::Id32),
                ("guid", |d| d.server.hash_key = HashKey::Guid),
                ("addr", |d| d.server.hash_key = HashKey::Addr),
                ("addr-port", |d| d.server.hash_key = HashKey::AddrPort),
            ],
            wrong: |_| "'hash-key' has to be 'id', 'id32', 'guid', 'addr', or 'addr-port'".to_owned(),
        },
    ),
    works("healthcheck", "Section that says how it is checked.", Reads(s::healthcheck)),
    works("id", "Number in statistics.", Reads(o::id)),
    works("idle-ping", "Time between pings of idle connections.", Reads(o::idle_ping)),
    works("init-addr", "How the address is found at start.", Reads(o::init_addr)),
    works(
        "init-state",
        "State before the first health check.",
        Word {
            words: &[
                ("none", |d| rare(d).init_state = InitState::None),
                ("fully-up", |d| rare(d).init_state = InitState::FullyUp),
                ("up", |d| rare(d).init_state = InitState::Up),
                ("down", |d| rare(d).init_state = InitState::Down),
                ("fully-down", |d| rare(d).init_state = InitState::FullyDown),
            ],
            wrong: |text| {
                format!(
                    "'init-state' expects one of 'none', 'fully-up', 'up', 'down', or 'fully-down' but got '{text}'"
                )
            },
        },
    ),
    works("inter", "Time between health checks.", Reads(o::inter)),
    works("ktls", "TLS of the kernel, of no effect.", Reads(tls::ktls)),
    works(
        "log-bufsize",
        "Bytes of lines that wait for a log server.",
        Number {
            missing: Some("'log-bufsize' expects an integer argument."),
            set: |d, value| {
                let bytes = o::count_or_none(value);
                rare(d).log_bufsize = Some(bytes);
                let fits = (1..=i32::MAX as u32).contains(&bytes);
                if fits { Ok(()) } else { Err("log-bufsize has to be > 0.".to_owned()) }
            },
        },
    ),
    works(
        "log-proto",
        "How lines are told apart.",
        Word {
            words: &[
                ("legacy", |d| rare(d).octet_count = false),
                ("octet-count", |d| rare(d).octet_count = true),
            ],
            wrong: |text| format!("'log-proto' expects one of 'legacy' or 'octet-count' but got '{text}'"),
        },
    ),
    works(
        "max-reuse",
        "Most requests per connection.",
        Number {
            missing: Some("'max-reuse' expects <value> as argument."),
            set: |d, value| {
                d.server.pool.max_reuse = o::limit(value);
                Ok(())
            },
        },
    ),
    works(
        "maxconn",
        "Most concurrent connections.",
        Number {
            missing: None,
            set: |d, value| {
                d.server.maxconn = o::count_or_none(value);
                Ok(())
            },
        },
    ),
    works(
        "maxqueue",
        "Longest queue.",
        Number {
            missing: None,
            set: |d, value| {
                d.server.maxqueue = o::count_or_none(value);
                Ok(())
            },
        },
    ),
    works(
        "minconn",
        "Least value of a maxconn that follows the load.",
        Number {
            missing: None,
            set: |d, value| {
                d.server.minconn = o::count_or_none(value);
                Ok(())
            },
        },
    ),
    works("name", "Name of a preset; of `default-server` only.", Reads(o::in_front)),
    works("namespace", "Network namespace that the server is in.", Reads(namespaces::of_server)),
    works(
        "no-adaptive-maxconn",
        "The limit on concurrent requests does not follow answers.",
        Flag(|d| {
            if d.server.extra.is_some() {
                rare(d).adaptive_maxconn = false;
            }
        }),
    ),
    works(
        "no-agent-check",
        "No agent is asked.",
        Flag(|d| {
            if d.server.rare().agent.is_some() {
                s::agent(d).asked = false;
            }
        }),
    ),
    works("no-backup", "Not a backup.", Flag(|d| d.server.backup = false)),
    works("no-check", "No health check.", Flag(|d| d.check = false)),
    works(
        "no-check-reuse-pool",
        "Health checks on connections of their own.",
        Flag(|d| check(d).reuse_pool = false),
    ),
    works(
        "no-check-send-proxy",
        "Health checks send no PROXY header.",
        Flag(|d| check(d).send_proxy = false),
    ),
    works("no-check-sni-auto", "Health checks without automatic SNI.", Reads(tls::server_word)),
    works("no-check-ssl", "Health checks without TLS.", Reads(tls::server_word)),
    works("no-renegotiate", "No TLS renegotiation.", Reads(tls::server_word)),
    works(
        "no-send-proxy",
        "Do not send a PROXY header.",
        Flag(|d| o::proxy_header(d, |header| header.v1 = false)),
    ),
    works(
        "no-send-proxy-v2",
        "Do not send a PROXY header of version 2.",
        Flag(|d| o::proxy_header(d, |header| header.v2 = false)),
    ),
    works(
        "no-send-proxy-v2-ssl",
        "Do not send a PROXY header with TLS facts.",
        Flag(|d| o::proxy_header(d, |header| (header.v2, header.options.ssl) = (false, false))),
    ),
    works(
        "no-send-proxy-v2-ssl-cn",
        "Do not send a PROXY header with the certificate's name.",
        Flag(|d| {
            o::proxy_header(d, |header| {
                (header.v2, header.options.ssl, header.options.cert_cn) = (false, false, false);
            });
        }),
    ),
    works("no-sni-auto", "No automatic SNI.", Reads(tls::server_word)),
    works("no-ssl", "No TLS.", Reads(tls::server_word)),
    works("no-ssl-reuse", "No reuse of TLS sessions.", Reads(tls::server_word)),
    works("no-sslv3", "No SSL version 3.", Reads(tls::server_word)),
    works(
        "no-tfo",
        "Do not use TCP Fast Open.",
        Flag(|d| {
            if d.server.extra.is_some() {
                rare(d).tfo = false;
            }
        }),
    ),
    works("no-tls-tickets", "No TLS tickets.", Reads(tls::server_word)),
    works("no-tlsv10", "No TLS 1.0.", Reads(tls::server_word)),
    works("no-tlsv11", "No TLS 1.1.", Reads(tls::server_word)),
    works("no-tlsv12", "No TLS 1.2.", Reads(tls::server_word)),
    works("no-tlsv13", "No TLS 1.3.", Reads(tls::server_word)),
    works("no-verifyhost", "The certificate's name is not checked.", Reads(tls::server_word)),
    works("non-stick", "Not learnt by stick tables.", Flag(|d| rare(d).non_stick = true)),
    not_yet("npn", "What was there before ALPN.", why::NPN),
    works("observe", "Whether traffic tells health.", Reads(s::observe)),
    works(
        "on-error",
        "What errors of traffic do.",
        Word {
            words: &[
                ("fastinter", |d| rare(d).on_error = OnError::FastInter),
                ("fail-check", |d| rare(d).on_error = OnError::FailCheck),
                ("sudden-death", |d| rare(d).on_error = OnError::SuddenDeath),
                ("mark-down", |d| rare(d).on_error = OnError::MarkDown),
            ],
            wrong: |text| {
                format!(
                    "'on-error' expects one of 'fastinter', 'fail-check', 'sudden-death' or 'mark-down' but got '{text}'"
                )
            },
        },
    ),
    works(
        "on-marked-down",
        "What happens when the server goes down.",
        Word {
            words: &[("shutdown-sessions", |d| rare(d).shutdown_sessions_on_down = true)],
            wrong: |text| format!("'on-marked-down' expects 'shutdown-sessions' but got '{text}'"),
        },
    ),
    works(
        "on-marked-up",
        "What happens when the server comes back.",
        Word {
            words: &[("shutdown-backup-sessions", |d| rare(d).shutdown_backup_on_up = true)],
            wrong: |text| format!("'on-marked-up' expects 'shutdown-backup-sessions' but got '{text}'"),
        },
    ),
    works("pool-conn-name", "Name by which connections are told apart.", Reads(o::pool_conn_name)),
    works(
        "pool-low-conn",
        "Idle connections below which none is taken from another thread.",
        Number {
            missing: Some("'pool-low-conn' expects <value> as argument."),
            set: |d, value| {
                d.server.pool.low_conn = o::count_or_none(value);
                Ok(())
            },
        },
    ),
    works(
        "pool-max-conn",
        "Most idle connections.",
        Number {
            missing: Some("'pool-max-conn' expects <value> as argument."),
            set: |d, value| {
                if value < -1 || value > i64::from(i32::MAX) {
                    return Err("'pool-max-conn' must be >= -1".to_owned());
                }
                d.server.pool.max_conn = o::limit(value);
                Ok(())
            },
        },
    ),
    works("pool-purge-delay", "Time between purges of idle connections.", Reads(o::pool_purge_delay)),
    works(
        "port",
        "Port of health checks.",
        Text {
            missing: "'port' expects a port number as argument.",
            set: |d, text| {
                check(d).port = u16::try_from(leading(&text).0).ok().filter(|p| *p > 0);
            },
        },
    ),
    works("proto", "Protocol without negotiation.", Reads(o::proto)),
    works("proxy-v2-options", "What a PROXY header of version 2 carries.", Reads(o::proxy_v2_options)),
    not_yet("quic-cc-algo", "QUIC setting.", why::QUIC),
    works(
        "redir",
        "Prefix clients are redirected to.",
        Text { missing: "'redir' expects <prefix> as argument.", set: |d, text| rare(d).redir = Some(text) },
    ),
    not_yet("renegotiate", "Renegotiation.", why::RENEGOTIATE),
    works("resolve-net", "Networks preferred among answers.", Reads(o::resolve_net)),
    works("resolve-opts", "What is done with answers.", Reads(o::resolve_opts)),
    works(
        "resolve-prefer",
        "Family preferred among answers.",
        Word {
            words: &[
                ("ipv4", |d| d.preference.families = Families::V4First),
                ("ipv6", |d| d.preference.families = Families::V6First),
            ],
            wrong: |text| format!("'resolve-prefer' : unknown value '{text}'"),
        },
    ),
    works("resolvers", "The section by which its name is resolved at run time.", Reads(o::resolvers)),
    works(
        "rise",
        "Successful checks before a server is up.",
        Number {
            missing: Some("'rise' expects an integer argument."),
            set: |d, value| {
                check(d).rise = o::times("rise", value)?;
                Ok(())
            },
        },
    ),
    works(
        "send-proxy",
        "Send a PROXY header, version 1.",
        Flag(|d| o::proxy_header(d, |header| header.v1 = true)),
    ),
    works(
        "send-proxy-v2",
        "Send a PROXY header, version 2.",
        Flag(|d| o::proxy_header(d, |header| header.v2 = true)),
    ),
    works(
        "send-proxy-v2-ssl",
        "A PROXY header of version 2 that tells of the client's TLS.",
        Flag(|d| o::proxy_header(d, |header| (header.v2, header.options.ssl) = (true, true))),
    ),
    works(
        "send-proxy-v2-ssl-cn",
        "A PROXY header of version 2 that tells of the client's TLS and the name in its certificate.",
        Flag(|d| {
            o::proxy_header(d, |header| {
                (header.v2, header.options.ssl, header.options.cert_cn) = (true, true, true);
            });
        }),
    ),
    works("set-proxy-v2-tlv-fmt", "Field of a PROXY header of version 2.", Reads(o::proxy_field)),
    works(
        "shard",
        "Share of the keys of tables that a peer gets.",
        Number {
            missing: None,
            set: |d, value| {
                rare(d).shard = u32::try_from(value).unwrap_or(0);
                Ok(())
            },
        },
    ),
    works("sigalgs", "Signatures taken from the server.", Reads(tls::server_word)),
    works("slowstart", "Time over which a server gets its full weight back.", Reads(o::slowstart)),
    works("sni", "Name that the server is asked for.", Reads(tls::server_word)),
    works("sni-auto", "The same, from the Host field.", Reads(tls::server_word)),
    works("socks4", "SOCKS4 proxy that connections go through.", Reads(o::socks4)),
    works("source", "Address that connections leave from.", Reads(o::source)),
    works("ssl", "Connections are encrypted.", Reads(tls::server_word)),
    works("ssl-max-ver", "Highest version of TLS.", Reads(tls::server_word)),
    works("ssl-min-ver", "Lowest version of TLS.", Reads(tls::server_word)),
    works("ssl-reuse", "TLS sessions are used again.", Reads(tls::server_word)),
    works("stick", "Learnt by stick tables.", Flag(|d| rare(d).non_stick = false)),
    works(
        "strict-maxconn",
        "'maxconn' holds for connections, idle ones included, as well as for requests.",
        Flag(|d| rare(d).strict_maxconn = true),
    ),
    works("tcp-md5sig", "Segments are signed with this password (RFC 2385).", Reads(o::tcp_md5sig)),
    works("tcp-ut", "TCP user timeout.", Reads(o::tcp_ut)),
    works("tfo", "Use TCP Fast Open.", Flag(|d| rare(d).tfo = true)),
    works("tls-tickets", "TLS tickets.", Reads(tls::server_word)),
    works("track", "Server whose state is copied.", Reads(o::track)),
    works("usesrc", "Only after 'source'.", Reads(o::usesrc)),
    works("verify", "Whether the server's certificate is verified.", Reads(tls::server_word)),
    works("verifyhost", "Name that the certificate must have.", Reads(tls::server_word)),
    works("weight", "Share of the traffic, 0 to 256.", Reads(o::weight)),
    works("ws", "Protocol of WebSocket.", Reads(o::ws)),
    works(
        "zone",
        "Where it is: requests stay with servers of the zone of their backend.",
        Text { missing: "'zone' expects a name.", set: |d, text| rare(d).zone = Some(text) },
    ),
];
