//! Fetches of connections, addresses, names, timers and counters (manual section 7.3.3).

use super::internal::check_unit;
use super::{
    BACKEND, CLIENT, FRONTEND, FetchDef, REQUEST, REQUEST_COUNTERS, RESPONSE, RESPONSE_COUNTERS,
    RESPONSE_FACTS, SERVER, SERVER_CONNECTION, SESSION, SESSION_COUNTERS, TRANSACTION, TRANSACTION_COUNTERS,
};
use crate::args::{Arg, ArgKind, Args};
use crate::context::{Ctx, TcpInfo};
use crate::env::CompileEnv;
use crate::facts::{ConnError, Endpoint, StreamFacts};
use crate::point::Points;
use crate::value::{Sample, Text, Type, Value};

use ArgKind::Str;

/// What can go wrong with a connection: the name and the message of each number (manual, `fc_err_str`; numbers are the program's).
pub static CONNECTION_ERRORS: [(&str, &str); 58] = [
    ("", "Success"),
    ("CONF_FDLIM", "Reached configured maxconn value"),
    ("PROC_FDLIM", "Too many sockets on the process"),
    ("SYS_FDLIM", "Too many sockets on the system"),
    ("SYS_MEMLIM", "Out of system buffers"),
    ("NOPROTO", "Protocol or address family not supported"),
    ("SOCK_ERR", "General socket error"),
    ("PORT_RANGE", "Source port range exhausted"),
    ("CANT_BIND", "Can't bind to source address"),
    ("FREE_PORTS", "Out of local source ports on the system"),
    ("ADDR_INUSE", "Local source address already in use"),
    ("PRX_EMPTY", "Connection closed while waiting for PROXY protocol header"),
    ("PRX_ABORT", "Connection error while waiting for PROXY protocol header"),
    ("PRX_TIMEOUT", "Timeout while waiting for PROXY protocol header"),
    ("PRX_TRUNCATED", "Truncated PROXY protocol header received"),
    ("PRX_NOT_HDR", "Received something which does not look like a PROXY protocol header"),
    ("PRX_BAD_HDR", "Received an invalid PROXY protocol header"),
    ("PRX_BAD_PROTO", "Received an unhandled protocol in the PROXY protocol header"),
    ("CIP_EMPTY", "Connection closed while waiting for NetScaler Client IP header"),
    ("CIP_ABORT", "Connection error while waiting for NetScaler Client IP header"),
    ("CIP_TIMEOUT", "Timeout while waiting for a NetScaler Client IP header"),
    ("CIP_TRUNCATED", "Truncated NetScaler Client IP header received"),
    ("CIP_BAD_MAGIC", "Received an invalid NetScaler Client IP magic number"),
    ("CIP_BAD_PROTO", "Received an unhandled protocol in the NetScaler Client IP header"),
    ("SSL_EMPTY", "Connection closed during SSL handshake"),
    ("SSL_ABORT", "Connection error during SSL handshake"),
    ("SSL_TIMEOUT", "Timeout during SSL handshake"),
    ("SSL_TOO_MANY", "Too many SSL connections"),
    ("SSL_NO_MEM", "Out of memory when initializing an SSL connection"),
    ("SSL_RENEG", "Rejected a client-initiated SSL renegotiation attempt"),
    ("SSL_CA_FAIL", "SSL client CA chain cannot be verified"),
    ("SSL_CRT_FAIL", "SSL client certificate not trusted"),
    ("SSL_MISMATCH", "Server presented an SSL certificate different from the configured one"),
    ("SSL_MISMATCH_SNI", "Server presented an SSL certificate different from the expected one"),
    ("SSL_HANDSHAKE", "SSL handshake failure"),
    ("SSL_HANDSHAKE_HB", "SSL handshake failure after heartbeat"),
    ("SSL_KILLED_HB", "Stopped a TLSv1 heartbeat attack (CVE-2014-0160)"),
    ("SSL_NO_TARGET", "Attempt to use SSL on an unknown target (internal error)"),
    ("SSL_EARLY_FAILED", "Server refused early data"),
    ("SOCKS4_SEND", "SOCKS4 Proxy write error during handshake"),
    ("SOCKS4_RECV", "SOCKS4 Proxy read error during handshake"),
    ("SOCKS4_DENY", "SOCKS4 Proxy deny the request"),
    ("SOCKS4_ABORT", "SOCKS4 Proxy handshake aborted by server"),
    ("SSL_FATAL", "SSL fatal error"),
    ("REVERSE", "Reverse connect failure"),
    // 3.5-dev5 has a number here that its manual does not know.
    ("", "Unknown error"),
    ("POLLERR", "Poller reported POLLERR"),
    ("EREFUSED", "ECONNREFUSED returned by OS"),
    ("ERESET", "ECONNRESET returned by OS"),
    ("EUNREACH", "ENETUNREACH returned by OS"),
    ("ENOMEM", "ENOMEM returned by OS"),
    ("EBADF", "EBADF returned by OS"),
    ("EFAULT", "EFAULT returned by OS"),
    ("EINVAL", "EINVAL returned by OS"),
    ("ENCONN", "ENCONN returned by OS"),
    ("ENSOCK", "ENSOCK returned by OS"),
    ("ENOBUFS", "ENOBUFS returned by OS"),
    ("EPIPE", "EPIPE returned by OS"),
];

impl ConnError {
    /// The one-word name, empty for success.
    pub fn name(self) -> &'static str {
        CONNECTION_ERRORS.get(usize::from(self.0)).map_or("", |(name, _)| name)
    }

    /// The message.
    pub fn message(self) -> &'static str {
        CONNECTION_ERRORS.get(usize::from(self.0)).map_or("Unknown error", |(_, message)| message)
    }
}

type Unit = &'static [ArgKind];
const UNIT: Unit = &[Str];

/// The fetches of this file.
pub static TABLE: &[FetchDef] = &[
    FetchDef::new("accept_date", Type::Int, CLIENT, "when the stream began", |args, cx, _| {
        let wall = cx.stream.as_ref().map_or(cx.session.accept_wall_us, |s| s.timers.accept_wall_us);
        Some(Sample::int(wall.div_euclid(args.int(0)?)))
    })
    .takes(0, UNIT)
    .checked(|args, _| check_unit(args, 0)),
    FetchDef::new(
        "bc.timer.connect",
        Type::Int,
        SERVER_CONNECTION,
        "milliseconds to connect to the server",
        |_, cx, _| int(stream(cx)?.timers.tc()),
    ),
    FetchDef::new(
        "bc_be_queue",
        Type::Int,
        SERVER_CONNECTION,
        "requests that were before in the backend's queue",
        |_, cx, _| int(stream(cx)?.be_queue_pos),
    ),
    FetchDef::new("bc_dst", Type::Addr, SERVER_CONNECTION, "the address connected to", |_, cx, _| {
        ip(stream(cx)?.bc_dst)
    }),
    FetchDef::new("bc_dst_port", Type::Int, SERVER_CONNECTION, "the port connected to", |_, cx, _| {
        port(stream(cx)?.bc_dst)
    }),
    FetchDef::new(
        "bc_err",
        Type::Int,
        SERVER_CONNECTION,
        "the server connection's error, as a number",
        |_, cx, _| int(stream(cx)?.bc_error.0),
    ),
    FetchDef::new(
        "bc_err_name",
        Type::Str,
        SERVER_CONNECTION,
        "the server connection's error, in a word",
        |_, cx, _| error_name(stream(cx)?.bc_error),
    ),
    FetchDef::new(
        "bc_err_str",
        Type::Str,
        SERVER_CONNECTION,
        "the server connection's error, in words",
        |_, cx, _| text(stream(cx)?.bc_error.message()),
    ),
    FetchDef::new(
        "bc_glitches",
        Type::Int,
        SERVER_CONNECTION,
        "suspicious events on the server connection",
        |_, cx, _| int(stream(cx)?.bc_glitches),
    ),
    FetchDef::new(
        "bc_http_major",
        Type::Int,
        SERVER_CONNECTION,
        "the HTTP version of the server connection",
        |_, cx, _| int(stream(cx)?.bc_http_major),
    ),
    FetchDef::new(
        "bc_nb_streams",
        Type::Int,
        SERVER_CONNECTION,
        "streams on the server connection",
        |_, cx, _| int(stream(cx)?.bc_streams),
    ),
    FetchDef::new(
        "bc_reused",
        Type::Bool,
        SERVER_CONNECTION,
        "true when the server connection was reused",
        |_, cx, _| Some(Sample::bool(stream(cx)?.bc_reused)),
    ),
    FetchDef::new("bc_rtt", Type::Int, CLIENT, "round trip time to the server", |args, cx, _| {
        timed(args, info(cx, stream(cx)?.bc_socket)?.rtt_us)
    })
    .takes(0, UNIT)
    .checked(check_rtt_unit),
    FetchDef::new(
        "bc_rttvar",
        Type::Int,
        CLIENT,
        "variation of the round trip time to the server",
        |args, cx, _| timed(args, info(cx, stream(cx)?.bc_socket)?.rttvar_us),
    )
    .takes(0, UNIT)
    .checked(check_rtt_unit),
    FetchDef::new(
        "bc_settings_streams_limit",
        Type::Int,
        SERVER_CONNECTION,
        "most streams of the server connection",
        |_, cx, _| int(stream(cx)?.bc_streams_limit),
    ),
    FetchDef::new("bc_src", Type::Addr, SERVER_CONNECTION, "the address connected from", |_, cx, _| {
        ip(stream(cx)?.bc_src)
    }),
    FetchDef::new("bc_src_port", Type::Int, SERVER_CONNECTION, "the port connected from", |_, cx, _| {
        port(stream(cx)?.bc_src)
    }),
    FetchDef::new(
        "bc_srv_queue",
        Type::Int,
        SERVER_CONNECTION,
        "requests that were before in the server's queue",
        |_, cx, _| int(stream(cx)?.srv_queue_pos),
    ),
    FetchDef::new(
        "be_connect_timeout",
        Type::Int,
        BACKEND,
        "the backend's connect timeout, ms",
        |_, cx, _| backend_timeout(cx, |t| t.connect),
    ),
    FetchDef::new("be_id", Type::Int, BACKEND, "the backend's number", |_, cx, _| {
        int(cx.world.proxy_number(stream(cx)?.backend))
    }),
    FetchDef::new("be_max_retries", Type::Int, BACKEND, "the backend's retries", |_, cx, _| {
        int(cx.world.proxy_retries(stream(cx)?.backend))
    }),
    FetchDef::new("be_name", Type::Str, BACKEND, "the backend's name", |_, cx, _| {
        let world = cx.world;
        let name = world.proxy_name(stream(cx)?.backend);
        Some(Sample::str(cx.store(name.as_bytes())?))
    }),
    FetchDef::new("be_queue_timeout", Type::Int, BACKEND, "the backend's queue timeout, ms", |_, cx, _| {
        backend_timeout(cx, |t| t.queue)
    }),
    FetchDef::new("be_server_timeout", Type::Int, BACKEND, "the backend's server timeout, ms", |_, cx, _| {
        backend_timeout(cx, |t| t.server)
    }),
    FetchDef::new("be_tarpit_timeout", Type::Int, BACKEND, "the backend's tarpit timeout, ms", |_, cx, _| {
        backend_timeout(cx, |t| t.tarpit)
    }),
    FetchDef::new("be_tunnel_timeout", Type::Int, BACKEND, "the backend's tunnel timeout, ms", |_, cx, _| {
        backend_timeout(cx, |t| t.tunnel)
    }),
    FetchDef::new("bytes_in", Type::Int, REQUEST_COUNTERS, "bytes received from the client", |_, cx, _| {
        long(stream(cx)?.req_bytes_in)
    }),
    FetchDef::new("bytes_out", Type::Int, RESPONSE_COUNTERS, "bytes received from the server", |_, cx, _| {
        long(stream(cx)?.res_bytes_in)
    }),
    FetchDef::new(
        "cur_client_timeout",
        Type::Int,
        FRONTEND,
        "the client timeout in effect, ms",
        |_, cx, _| match &cx.stream {
            Some(s) => long(s.timeouts.client),
            None => long(cx.world.proxy_timeouts(cx.session.frontend).client),
        },
    ),
    FetchDef::new(
        "cur_connect_timeout",
        Type::Int,
        BACKEND,
        "the connect timeout in effect, ms",
        |_, cx, _| long(stream(cx)?.timeouts.connect),
    ),
    FetchDef::new("cur_max_retries", Type::Int, BACKEND, "the retries in effect", |_, cx, _| {
        int(stream(cx)?.max_retries)
    }),
    FetchDef::new("cur_queue_timeout", Type::Int, BACKEND, "the queue timeout in effect, ms", |_, cx, _| {
        long(stream(cx)?.timeouts.queue)
    }),
    FetchDef::new(
        "cur_server_timeout",
        Type::Int,
        BACKEND,
        "the server timeout in effect, ms",
        |_, cx, _| long(stream(cx)?.timeouts.server),
    ),
    FetchDef::new(
        "cur_tarpit_timeout",
        Type::Int,
        (Points::L4_CLIENT, "frontend,backend"),
        "the tarpit timeout in effect, ms",
        |_, cx, _| match &cx.stream {
            Some(s) => long(s.timeouts.tarpit),
            None => long(cx.world.proxy_timeouts(cx.session.frontend).tarpit),
        },
    ),
    FetchDef::new(
        "cur_tunnel_timeout",
        Type::Int,
        BACKEND,
        "the tunnel timeout in effect, ms",
        |_, cx, _| long(stream(cx)?.timeouts.tunnel),
    ),
    FetchDef::new("dst", Type::Addr, CLIENT, "the address the client connected to", |_, cx, _| {
        ip(destination(cx))
    }),
    FetchDef::new("dst_conn", Type::Int, FRONTEND, "connections on the listener", |_, cx, _| {
        int(cx.world.listener_connections(cx.session.listener))
    }),
    FetchDef::new(
        "dst_is_local",
        Type::Bool,
        CLIENT,
        "true when that address is one of this host",
        |_, cx, _| is_local(cx, destination(cx)),
    ),
    FetchDef::new("dst_port", Type::Int, CLIENT, "the port the client connected to", |_, cx, _| {
        port(destination(cx))
    }),
    FetchDef::new(
        "fc.timer.handshake",
        Type::Int,
        CLIENT,
        "milliseconds of handshakes",
        |_, cx, _| match &cx.stream {
            Some(s) => int(s.timers.th()),
            None => int(i64::from((cx.session.handshake_us / 1000).max(-1))),
        },
    ),
    FetchDef::new(
        "fc.timer.total",
        Type::Int,
        SESSION_COUNTERS,
        "milliseconds since the stream began",
        |_, cx, _| match &cx.stream {
            Some(s) => int(s.timers.tt(cx.clock.mono_us)),
            None => long(cx.clock.mono_us.saturating_sub(cx.session.accept_mono_us) / 1000),
        },
    ),
    FetchDef::new("fc_dst", Type::Addr, CLIENT, "the local address of the connection", |_, cx, _| {
        ip(cx.session.fc_dst)
    }),
    FetchDef::new(
        "fc_dst_is_local",
        Type::Bool,
        CLIENT,
        "true when that address is one of this host",
        |_, cx, _| is_local(cx, cx.session.fc_dst),
    ),
    FetchDef::new("fc_dst_port", Type::Int, CLIENT, "the local port of the connection", |_, cx, _| {
        port(cx.session.fc_dst)
    }),
    FetchDef::new("fc_err", Type::Int, CLIENT, "the client connection's error, as a number", |_, cx, _| {
        int(cx.session.error.0)
    }),
    FetchDef::new(
        "fc_err_name",
        Type::Str,
        CLIENT,
        "the client connection's error, in a word",
        |_, cx, _| error_name(cx.session.error),
    ),
    FetchDef::new("fc_err_str", Type::Str, CLIENT, "the client connection's error, in words", |_, cx, _| {
        text(cx.session.error.message())
    }),
    FetchDef::new("fc_fackets", Type::Int, CLIENT, "the kernel's fack counter", |_, cx, _| {
        int(client_info(cx)?.fackets)
    })
    .takes(0, UNIT)
    .checked(check_no_unit),
    FetchDef::new(
        "fc_glitches",
        Type::Int,
        CLIENT,
        "suspicious events on the client connection",
        |_, cx, _| int(cx.session.rare().glitches),
    ),
    FetchDef::new(
        "fc_http_major",
        Type::Int,
        CLIENT,
        "the HTTP version of the client connection",
        |_, cx, _| int(cx.session.http_major),
    ),
    FetchDef::new("fc_lost", Type::Int, CLIENT, "the kernel's lost counter", |_, cx, _| {
        int(client_info(cx)?.lost)
    })
    .takes(0, UNIT)
    .checked(check_no_unit),
    FetchDef::new("fc_nb_streams", Type::Int, CLIENT, "streams on the client connection", |_, cx, _| {
        int(cx.session.rare().streams)
    }),
    FetchDef::new("fc_pp_authority", Type::Str, CLIENT, "the authority of the PROXY header", |_, cx, _| {
        tlv(cx, 0x02)
    }),
    FetchDef::new("fc_pp_tlv", Type::Str, SESSION, "a TLV of the PROXY header", |args, cx, _| {
        tlv(cx, args.int(0)? as u8)
    })
    .takes(1, UNIT)
    .checked(check_tlv),
    FetchDef::new(
        "fc_pp_unique_id",
        Type::Str,
        CLIENT,
        "the unique identifier of the PROXY header",
        |_, cx, _| tlv(cx, 0x05),
    ),
    FetchDef::new(
        "fc_rcvd_proxy",
        Type::Bool,
        CLIENT,
        "true when a PROXY header was received",
        |_, cx, _| Some(Sample::bool(cx.session.rcvd_proxy)),
    ),
    FetchDef::new("fc_reordering", Type::Int, CLIENT, "the kernel's reordering counter", |_, cx, _| {
        int(client_info(cx)?.reordering)
    })
    .takes(0, UNIT)
    .checked(check_no_unit),
    FetchDef::new("fc_retrans", Type::Int, CLIENT, "the kernel's retransmit counter", |_, cx, _| {
        int(client_info(cx)?.retrans)
    })
    .takes(0, UNIT)
    .checked(check_no_unit),
    FetchDef::new("fc_rtt", Type::Int, CLIENT, "round trip time to the client", |args, cx, _| {
        timed(args, client_info(cx)?.rtt_us)
    })
    .takes(0, UNIT)
    .checked(check_rtt_unit),
    FetchDef::new(
        "fc_rttvar",
        Type::Int,
        CLIENT,
        "variation of the round trip time to the client",
        |args, cx, _| timed(args, client_info(cx)?.rttvar_us),
    )
    .takes(0, UNIT)
    .checked(check_rtt_unit),
    FetchDef::new("fc_sacked", Type::Int, CLIENT, "the kernel's sacked counter", |_, cx, _| {
        int(client_info(cx)?.sacked)
    })
    .takes(0, UNIT)
    .checked(check_no_unit),
    FetchDef::new("fc_saved_syn", Type::Bin, CLIENT, "the SYN packet, when saved", |_, cx, _| {
        if cx.session.rare().saved_syn.is_empty() {
            return None;
        }
        let syn = std::mem::take(&mut cx.session.rare_mut().saved_syn);
        let stored = cx.store(&syn);
        cx.session.rare_mut().saved_syn = syn;
        Some(Sample::bin(stored?))
    }),
    FetchDef::new(
        "fc_settings_streams_limit",
        Type::Int,
        SESSION,
        "most streams of the client connection",
        |_, cx, _| int(cx.session.rare().streams_limit),
    ),
    FetchDef::new("fc_src", Type::Addr, CLIENT, "the client's address by its connection", |_, cx, _| {
        ip(cx.session.fc_src)
    }),
    FetchDef::new(
        "fc_src_is_local",
        Type::Bool,
        CLIENT,
        "true when that address is one of this host",
        |_, cx, _| is_local(cx, cx.session.fc_src),
    ),
    FetchDef::new("fc_src_port", Type::Int, CLIENT, "the client's port by its connection", |_, cx, _| {
        port(cx.session.fc_src)
    }),
    FetchDef::new("fc_unacked", Type::Int, CLIENT, "the kernel's unacked counter", |_, cx, _| {
        int(client_info(cx)?.unacked)
    })
    .takes(0, UNIT)
    .checked(check_no_unit),
    FetchDef::new(
        "fe_client_timeout",
        Type::Int,
        FRONTEND,
        "the frontend's client timeout, ms",
        |_, cx, _| long(cx.world.proxy_timeouts(cx.session.frontend).client),
    ),
    FetchDef::new("fe_defbe", Type::Str, FRONTEND, "the frontend's default backend", |_, cx, _| {
        let world = cx.world;
        let name = world.default_backend_name(cx.session.frontend)?;
        Some(Sample::str(cx.store(name.as_bytes())?))
    }),
    FetchDef::new("fe_id", Type::Int, FRONTEND, "the frontend's number", |_, cx, _| {
        int(cx.world.proxy_number(cx.session.frontend))
    }),
    FetchDef::new("fe_name", Type::Str, FRONTEND, "the frontend's name", |_, cx, _| {
        let world = cx.world;
        let name = world.proxy_name(cx.session.frontend);
        Some(Sample::str(cx.store(name.as_bytes())?))
    }),
    FetchDef::new(
        "fe_tarpit_timeout",
        Type::Int,
        FRONTEND,
        "the frontend's tarpit timeout, ms",
        |_, cx, _| long(cx.world.proxy_timeouts(cx.session.frontend).tarpit),
    ),
    FetchDef::new(
        "req.bytes_in",
        Type::Int,
        REQUEST_COUNTERS,
        "bytes received from the client",
        |_, cx, _| long(stream(cx)?.req_bytes_in),
    ),
    FetchDef::new("req.bytes_out", Type::Int, REQUEST_COUNTERS, "bytes sent to the server", |_, cx, _| {
        long(stream(cx)?.req_bytes_out)
    }),
    FetchDef::new(
        "req.timer.hdr",
        Type::Int,
        REQUEST,
        "milliseconds to receive the request's head",
        |_, cx, _| int(stream(cx)?.timers.t_r_request()),
    ),
    FetchDef::new("req.timer.idle", Type::Int, REQUEST, "milliseconds before the request", |_, cx, _| {
        int(stream(cx)?.timers.ti())
    }),
    FetchDef::new("req.timer.queue", Type::Int, SERVER_CONNECTION, "milliseconds in queues", |_, cx, _| {
        int(stream(cx)?.timers.tw())
    }),
    FetchDef::new(
        "req.timer.tq",
        Type::Int,
        REQUEST,
        "milliseconds to have the request's head since the stream began",
        |_, cx, _| int(stream(cx)?.timers.tq()),
    ),
    FetchDef::new(
        "request_date",
        Type::Int,
        TRANSACTION,
        "when the request's first byte came",
        |args, cx, _| Some(Sample::int(stream(cx)?.timers.request_wall_us.div_euclid(args.int(0)?))),
    )
    .takes(0, UNIT)
    .checked(|args, _| check_unit(args, 0)),
    FetchDef::new(
        "res.bytes_in",
        Type::Int,
        RESPONSE_COUNTERS,
        "bytes received from the server",
        |_, cx, _| long(stream(cx)?.res_bytes_in),
    ),
    FetchDef::new("res.bytes_out", Type::Int, RESPONSE_COUNTERS, "bytes sent to the client", |_, cx, _| {
        long(stream(cx)?.res_bytes_out)
    }),
    FetchDef::new(
        "res.timer.data",
        Type::Int,
        RESPONSE_COUNTERS,
        "milliseconds of the response's data",
        |_, cx, _| {
            let stream = stream(cx)?;
            int(stream.timers.td(cx.clock.mono_us, stream.is_http))
        },
    ),
    FetchDef::new(
        "res.timer.hdr",
        Type::Int,
        RESPONSE,
        "milliseconds until the response's head",
        |_, cx, _| int(stream(cx)?.timers.tr()),
    ),
    FetchDef::new("server_status", Type::Int, RESPONSE_FACTS, "the status the server sent", |_, cx, _| {
        known(stream(cx)?.server_status)
    }),
    FetchDef::new("so_id", Type::Int, FRONTEND, "the listener's number", |_, cx, _| {
        int(cx.world.listener_number(cx.session.listener))
    }),
    FetchDef::new("so_name", Type::Str, FRONTEND, "the listener's name", |_, cx, _| {
        let world = cx.world;
        let name = world.listener_name(cx.session.listener)?;
        Some(Sample::str(cx.store(name.as_bytes())?))
    }),
    FetchDef::new("src", Type::Addr, CLIENT, "the client's address", |_, cx, _| ip(cx.source())),
    FetchDef::new(
        "src_is_local",
        Type::Bool,
        CLIENT,
        "true when the client's address is one of this host",
        |_, cx, _| is_local(cx, cx.source()),
    ),
    FetchDef::new("src_port", Type::Int, CLIENT, "the client's port", |_, cx, _| port(cx.source())),
    FetchDef::new("srv_id", Type::Int, SERVER, "the server's number", |_, cx, _| {
        int(cx.world.server_number(stream(cx)?.server?))
    }),
    FetchDef::new("srv_name", Type::Str, SERVER, "the server's name", |_, cx, _| {
        let world = cx.world;
        let mut stored = None;
        world.with_server_name(stream(cx)?.server?, &mut |name| stored = cx.store(name.as_bytes()));
        Some(Sample::str(stored?))
    }),
    FetchDef::new(
        "txn.conn_retries",
        Type::Int,
        SERVER_CONNECTION,
        "connection attempts after the first",
        |_, cx, _| {
            let sample = Sample::int(stream(cx)?.retries.into());
            Some(if cx.last { sample } else { sample.volatile() })
        },
    ),
    FetchDef::new(
        "txn.hedged",
        Type::Int,
        SERVER_CONNECTION,
        "1 when a second server was asked, 2 when it answered",
        |_, cx, _| {
            let sample = Sample::int(stream(cx)?.hedged.into());
            Some(if cx.last { sample } else { sample.volatile() })
        },
    ),
    FetchDef::new(
        "txn.redispatched",
        Type::Bool,
        SERVER_CONNECTION,
        "true when another server was taken",
        |_, cx, _| {
            let sample = Sample::bool(stream(cx)?.redispatched);
            Some(if cx.last { sample } else { sample.volatile() })
        },
    ),
    FetchDef::new("txn.status", Type::Int, RESPONSE_FACTS, "the status sent to the client", |_, cx, _| {
        known(stream(cx)?.status)
    }),
    FetchDef::new(
        "txn.timer.total",
        Type::Int,
        TRANSACTION_COUNTERS,
        "milliseconds since the request's first byte",
        |_, cx, _| int(stream(cx)?.timers.ta(cx.clock.mono_us)),
    ),
    FetchDef::new(
        "txn.timer.user",
        Type::Int,
        TRANSACTION_COUNTERS,
        "milliseconds as the client sees them",
        |_, cx, _| int(stream(cx)?.timers.tu(cx.clock.mono_us)),
    ),
];

fn int(value: impl Into<i64>) -> Option<Sample> {
    Some(Sample::int(value.into()))
}

fn long(value: u64) -> Option<Sample> {
    Some(Sample::int(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn known(status: i32) -> Option<Sample> {
    (status >= 0).then(|| Sample::int(status.into()))
}

fn text(value: &'static str) -> Option<Sample> {
    Some(Sample::str(Text::Static(value.as_bytes())))
}

fn error_name(error: ConnError) -> Option<Sample> {
    if error.0 == 0 { None } else { text(error.name()) }
}

fn stream<'c>(cx: &'c Ctx) -> Option<&'c StreamFacts> {
    cx.stream.as_deref()
}

/// The local address, with what rules have changed.
pub(crate) fn destination(cx: &Ctx) -> Endpoint {
    cx.stream.as_ref().and_then(|s| s.dst).unwrap_or_else(|| cx.session.destination())
}

fn ip(end: Endpoint) -> Option<Sample> {
    Some(Sample::new(Value::from(end.ip()?)))
}

fn port(end: Endpoint) -> Option<Sample> {
    int(end.port()?)
}

fn is_local(cx: &Ctx, end: Endpoint) -> Option<Sample> {
    Some(Sample::bool(cx.world.is_local(end.ip()?)))
}

fn info(cx: &Ctx, socket: u64) -> Option<TcpInfo> {
    if socket == 0 { None } else { cx.world.tcp_info(socket) }
}

fn client_info(cx: &Ctx) -> Option<TcpInfo> {
    info(cx, cx.session.socket)
}

/// A time in the unit of the first argument.
fn timed(args: &Args, us: u32) -> Option<Sample> {
    Some(Sample::int(i64::from(us) / args.int(0)?))
}

fn check_rtt_unit(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let unit = match args.str(0) {
        None | Some(b"ms") => 1000,
        Some(b"us") => 1,
        Some(other) => return Err(format!("expects 'us' or 'ms', got '{}'", String::from_utf8_lossy(other))),
    };
    args.put(0, Arg::Int(unit));
    Ok(())
}

/// Counts have no unit.
fn check_no_unit(args: &mut Args, env: &mut CompileEnv) -> Result<(), String> {
    if args.is_set(0) {
        let warning = "no argument supported for 'fc_*' sample expressions returning counters.";
        env.warnings.push(warning.to_owned());
    }
    Ok(())
}

fn backend_timeout(cx: &Ctx, which: fn(crate::context::ProxyTimeouts) -> u64) -> Option<Sample> {
    long(which(cx.world.proxy_timeouts(stream(cx)?.backend)))
}

/// The names of the TLVs of the PROXY protocol.
const TLVS: &[(&str, u8)] = &[
    ("ALPN", 0x01),
    ("AUTHORITY", 0x02),
    ("CRC32C", 0x03),
    ("NOOP", 0x04),
    ("UNIQUE_ID", 0x05),
    ("SSL", 0x20),
    ("SSL_VERSION", 0x21),
    ("SSL_CN", 0x22),
    ("SSL_CIPHER", 0x23),
    ("SSL_SIG_ALG", 0x24),
    ("SSL_KEY_ALG", 0x25),
    ("NETNS", 0x30),
];

fn check_tlv(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let name = String::from_utf8_lossy(args.str(0).unwrap_or(b"")).into_owned();
    let number = match TLVS.iter().find(|(known, _)| *known == name) {
        Some((_, number)) => i64::from(*number),
        None => {
            let (digits, radix) = match name.strip_prefix("0x").or_else(|| name.strip_prefix("0X")) {
                Some(digits) => (digits, 16),
                None => (&name[..], 10),
            };
            let number = if name.is_empty() { Some(0) } else { i64::from_str_radix(digits, radix).ok() };
            let number = number.ok_or_else(|| format!("Could not convert type '{name}'"))?;
            if !(0..=255).contains(&number) {
                return Err(format!("Invalid TLV Type '{name}'"));
            }
            number
        }
    };
    args.put(0, Arg::Int(number));
    Ok(())
}

/// The value of the first TLV of a kind; those of the TLS information are inside one of kind 0x20.
fn tlv(cx: &mut Ctx, kind: u8) -> Option<Sample> {
    if cx.session.rare().pp_tlvs.is_empty() {
        return None;
    }
    let all = std::mem::take(&mut cx.session.rare_mut().pp_tlvs);
    let found = find_tlv(&all, kind).or_else(|| {
        // The TLS information begins with a byte of flags and four of verification status.
        find_tlv(find_tlv(&all, 0x20)?.get(5..)?, kind)
    });
    let stored = found.filter(|value| value.len() <= 1024).map(|value| cx.store(value));
    cx.session.rare_mut().pp_tlvs = all;
    Some(Sample::str(stored??))
}

fn find_tlv(mut rest: &[u8], kind: u8) -> Option<&[u8]> {
    while let [found, high, low, tail @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let value = tail.get(..len)?;
        if *found == kind {
            return Some(value);
        }
        rest = &tail[len..];
    }
    None
}
