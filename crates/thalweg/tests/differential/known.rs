//! Differences from the reference that are known, each with its reason. Every entry is about something that the user's
//! documentation lists (docs/differences.md), says why it is not worth a line there, or says that it is open.

use super::known_http2;

/// A difference that may be seen.
pub struct Known {
    /// Names of cases; `*` stands for anything.
    pub cases: &'static [&'static str],
    /// What differs, in the same way.
    pub aspects: &'static [&'static str],
    pub reason: &'static str,
}

pub const KNOWN: &[Known] = &[
    // Ends.
    Known {
        cases: &["endings/rewrite-after-*"],
        aspects: &["stat * wrew"],
        reason: "http-after-response is not evaluated again for the 500 in place of what it could not change",
    },
    Known {
        cases: &["endings/backend-of-tcp"],
        aspects: &[
            "client 1 *",
            "log 1 %bc",
            "stat f FRONTEND *bout",
            "stat f FRONTEND h1_bytes_out",
            "stat t BACKEND *",
        ],
        reason: "the client gets the 500 that is logged, and the stream leaves the backend; in the reference it stays counted there",
    },
    Known {
        cases: &["endings/rewrite-after-response"],
        aspects: &["s1#1 end Open/Reset"],
        reason: "a server whose response could not be sent loses its connection",
    },
    Known {
        cases: &["client-leaves/deaf/*", "timeouts/deaf-client/*"],
        aspects: &["stat * h1_spliced_bytes_*"],
        reason: "long bodies of known length are spliced without being asked to",
    },
    // What is sent.
    Known {
        cases: &[
            "framing/*/until-close",
            "framing/*/1.0-until-close",
            "client-leaves/in-endless-response/*",
            "server-leaves/in-endless-body/*",
            "timeouts/*/stops-after/until-close*",
            "malformed-response/encoding-1.0/*",
        ],
        aspects: &["client 1 bytes", "client 1 end Closed/Open", "client 1 end * later"],
        reason: "a response without a length, or in chunks over HTTP/1.0, is sent in chunks, and the connection is kept",
    },
    Known {
        cases: &["server-leaves/in-endless-body/*", "malformed-response/encoding-1.0/*"],
        aspects: &[
            "s1 connections",
            "log lines",
            "stat * h1_total_connections",
            "stat * h1_total_streams",
            "stat * h1req",
            "stat * connect",
            "stat * hrsp_2xx",
            "stat * lbtot",
            "stat * req_tot",
            "stat * stot",
        ],
        reason: "the client's connection is kept (above), so its second request is served as well",
    },
    Known {
        cases: &[
            "framing/*/1.0",
            "framing/*/1.0-keep-alive",
            "framing/*/1.0-until-close",
            "malformed-response/version-0.9/*",
        ],
        aspects: &["client 1 bytes"],
        reason: "the status line says HTTP/1.1 whatever the server's said",
    },
    Known {
        cases: &[
            "framing/*-1.0*/chunked",
            "framing/*-1.0*/extensions",
            "framing/*-1.0*/trailers",
            "framing/*-1.0*/103-then-chunked",
        ],
        aspects: &[
            "client 1 bytes",
            "client 1 end Open/Closed",
            "log lines",
            "s1#1 bytes",
            "stat * h1_total_streams",
            "stat * h1req",
            "stat * hrsp_2xx",
            "stat * lbtot",
            "stat * req_tot",
            "stat * reuse",
            "stat * stot",
        ],
        reason: "HTTP/1.0 clients get no chunks: the body is decoded and the connection closed",
    },
    Known {
        cases: &["framing/*-1.0*/100-then-sized", "framing/*-1.0*/103-then-chunked", "expect/1.0"],
        aspects: &["client 1 bytes", "stat * resbout", "stat f FRONTEND h1_bytes_out", "stat b s1 hrsp_1xx"],
        reason: "HTTP/1.0 clients get no interim responses, and their second request is not served (above)",
    },
    Known {
        cases: &["malformed-response/status-short/*", "malformed-response/status-099/*"],
        aspects: &["*"],
        reason: "a status that is no number from 100 to 999 gets 502: nothing is the same",
    },
    Known {
        cases: &["malformed-request/trailer-framing*"],
        aspects: &["s1#1 bytes"],
        reason: "trailers that would frame the message are taken out",
    },
    Known {
        cases: &["malformed-request/chunk-*", "malformed-request/trailer-junk*"],
        aspects: &["*"],
        reason: "a chunk is looked at when it is forwarded, after the server was chosen; the reference decodes what came with \
                 the head first, and knows no request: nothing is the same",
    },
    Known {
        cases: &["malformed-request/h2-preface*"],
        aspects: &["*"],
        reason: "HTTP/2 is not there yet: nothing is the same",
    },
    Known {
        cases: &["malformed-request/version-junk/relaxed"],
        aspects: &["log 1 %HV", "log 1 %r"],
        reason: "an unknown protocol name is logged as HTTP, as it is forwarded",
    },
    Known {
        cases: &[
            "malformed-request/version-junk/relaxed",
            "malformed-request/version-0.9*",
            "malformed-request/version-2.0*",
        ],
        aspects: &["stat f FRONTEND h1req", "stat f FRONTEND h2req", "stat f FRONTEND req_other"],
        reason: "requests are counted by the protocol that they came by, not by the version that they claim",
    },
    Known {
        cases: &["malformed-request/encoding-gzip-chunked*"],
        aspects: &["client 1 bytes"],
        reason: "a 422 that ends the connection says so",
    },
    Known {
        cases: &["malformed-request/long-*"],
        aspects: &["client 1 bytes"],
        reason: "the limit of a head counts the bytes received",
    },
    Known {
        cases: &["upgrades/connect/length"],
        aspects: &["*"],
        reason: "a CONNECT with a length loses the length and is served; the reference answers 502: nothing is the same",
    },
    Known {
        cases: &["expect/denied", "timeouts/wait-for-body/*"],
        aspects: &["client 1 bytes", "client 1 end Open/Closed"],
        reason: "a client that was told no before it sent its body is closed",
    },
    Known {
        cases: &["expect/denied"],
        aspects: &[
            "log lines",
            "stat f FRONTEND dreq",
            "stat f FRONTEND h1_total_streams",
            "stat f FRONTEND h1req",
            "stat f FRONTEND hrsp_4xx",
            "stat f FRONTEND req_tot",
            "stat f FRONTEND resbout",
        ],
        reason: "its second request is not served (above)",
    },
    Known {
        cases: &["early/*/completed"],
        aspects: &["client 1 bytes", "s1 connections", "s1#1 bytes"],
        reason: "a connection whose response came before the end of its request is not used again",
    },
    Known {
        cases: &[
            "client-leaves/body-waited-for/half-close",
            "client-leaves/in-*-body/half-close/*",
            "timeouts/server/half-closed/partly-sent*",
            "timeouts/server/quiet/partly-sent-chunked/*",
            "mix/*-cut/*client-half-close*",
        ],
        aspects: &["client 1 bytes"],
        reason: "a client that half-closed in its body still gets its 400",
    },
    // When it ends.
    Known {
        cases: &[
            "server-leaves/uploading/*",
            "timeouts/*/uploading",
            "timeouts/server/quiet/partly-sent*",
            "timeouts/http-request/body-stops/*",
            "timeouts/client/body-stops/*",
            "timeouts/deaf-server/*",
            "timeouts/set-timeout/client",
        ],
        aspects: &["client 1 end earlier"],
        reason: "a client that will not get another answer is told of the end with its answer, and one that was silent for \
                 its time is not waited for a second time",
    },
    Known {
        cases: &["timeouts/tarpit/tarpit-client/post"],
        aspects: &["client 1 *", "log 1 %T*"],
        reason: "a tarpit lasts its time, and is not shortened by the silence of a client in its upload",
    },
    Known {
        cases: &["timeouts/inspect-delay/http", "rules/response-waits/http"],
        aspects: &["client 1 *", "log * %T*", "s1#1 *", "stat b * rtime_max *"],
        reason: "rules on raw bytes in HTTP proxies see the message, and decide when it is complete; in the reference they \
                 see nothing until inspect-delay is over",
    },
    Known {
        cases: &["client-leaves/tarpit/*"],
        aspects: &["client 1 byte earlier", "client 1 end earlier", "log 1 %T* earlier"],
        reason: "a client that leaves its tarpit is let go at once; the reference may or may not notice",
    },
    Known {
        cases: &["rules/*-silent-drop/tcp", "rules/connection-reject/*", "rules/session-reject/*"],
        aspects: &["client 1 end *"],
        reason: "what a client sends to a connection that has gone may be answered with a reset, or come before",
    },
    // Who ended it.
    Known {
        cases: &["client-leaves/deaf/half-close"],
        aspects: &["s1#* end later"],
        reason: "a server is not told of a client's end for whom its response waits: many would cut it",
    },
    Known {
        cases: &["client-leaves/deaf/half-close"],
        aspects: &["log 1 %tsc", "log 1 %T* later"],
        reason: "the client's end makes io_uring look at the send again, of which the kernel then takes some more",
    },
    Known {
        cases: &["client-leaves/*/reset/no-abortonclose", "mix/*/no-abortonclose/*"],
        aspects: &[
            "log * %ST",
            "log * %rc",
            "log * %tsc",
            "log * %T* earlier",
            "log lines",
            "s1#2 end earlier",
            "stat b * econ",
            "stat * resbout",
            "stat b * connect",
            "stat b * srv_abrt",
            "stat b * h1_total_connections",
            "stat b * h1_total_streams",
            "stat * hrsp_other",
            "stat b * stot",
            "stat b * wretr",
            "s1#1 end * earlier",
            "s1#1 end earlier",
            "stat b * eresp",
            "stat * hrsp_4xx",
            "stat * hrsp_5xx",
        ],
        reason: "a reset ends its exchange at once, whatever option abortonclose says",
    },
    Known {
        cases: &["mix/*-and-more/*client-half-close*"],
        aspects: &["client 1 bytes", "log lines", "s* connections", "stat * *"],
        reason: "requests that a client sent ahead before it ended its direction are served; in the reference it depends on whether \
                 the end came with them",
    },
    Known {
        cases: &["mix/*-mute/*no-abortonclose/*"],
        aspects: &[
            "log * %B",
            "log * %T*",
            "log * %rc",
            "s* connections",
            "s*#* end *",
            "stat * *bin",
            "stat * *bout",
            "stat * cli_abrt",
            "stat * h1_*",
            "stat * h1req",
            "stat * hrsp_*",
            "stat * lbtot",
            "stat * need_conn_est",
            "stat * req_tot",
            "stat * smax",
        ],
        reason: "the request that a client had sent ahead before it left is not sent, or given up before its answer is seen",
    },
    Known {
        cases: &["client-leaves/after-pipelined/close/no-abortonclose"],
        aspects: &["log lines", "log 2 *", "s1 connections", "stat * *"],
        reason: "the second request of a client that has left is not sent, nor logged, once its reset is seen",
    },
    Known {
        cases: &["timeouts/connect/short/post"],
        aspects: &[
            "client 1 *",
            "log 1 %ST",
            "log 1 %tsc",
            "log 1 %T*",
            "stat b * cli_abrt",
            "stat b * econ",
            "stat * hrsp_4xx",
            "stat * hrsp_5xx",
        ],
        reason: "a client's body is not read while its server is connected, and its timeout does not run",
    },
    Known {
        cases: &["timeouts/queue/client/tcp"],
        aspects: &["log 1 %ts", "stat b BACKEND cli_abrt"],
        reason: "what ends a wait in the queue is timeout queue; the reference blames a client that was silent meanwhile",
    },
    Known {
        cases: &["redispatch/refused/*/tcp"],
        aspects: &["log 1 %ts", "stat * srv_abrt", "stat * cli_abrt"],
        reason: "both timeouts are the same: either side may be blamed",
    },
    Known {
        cases: &["timeouts/queue/client", "queue/keep-alive-clients", "mix/*/two-clients/*"],
        aspects: &[
            "log * %fc",
            "log * %bc",
            "log * %sc",
            "stat b * smax",
            "stat b s* need_conn_est",
            "stat b * lbtot",
        ],
        reason: "either client may be the last, or both may be there at the same moment",
    },
    Known {
        cases: &["rules/content-*/http"],
        aspects: &["log 1 %H*", "log 1 %r", "stat f FRONTEND h1req", "stat f FRONTEND req_tot"],
        reason: "the request line is known when rules on its bytes end the stream",
    },
    Known {
        cases: &["mix/*-refuses*"],
        aspects: &["log * %sc", "stat b s* smax", "stat b s* need_conn_est"],
        reason: "a stream keeps its slot while it waits before its next attempt on the same server",
    },
    Known {
        cases: &["client-leaves/in-endless-response/close/server-goes-on"],
        aspects: &["log 1 %tsc", "stat b * cli_abrt"],
        reason: "the client's end, or that what was sent to it is refused, may be seen first",
    },
    // What was counted.
    Known {
        cases: &["*"],
        aspects: &["stat * ttime_max *"],
        reason: "the longest time of a stream is that of its request; the reference adds the time that its connection was idle before",
    },
    Known {
        cases: &[
            "server-leaves/*",
            "retries/*",
            "malformed-response/*",
            "mix/*-closes/*",
            "mix/*-resets/*",
            "mix/*-head-cut/*",
        ],
        aspects: &["stat b * eresp", "stat b * srv_abrt"],
        reason: "the reference counts a response that failed in its head twice, and no abort of the server",
    },
    Known {
        cases: &["retries/*", "mix/*/retry-*"],
        aspects: &["stat b * wretr"],
        reason: "a response that is tried again on the same server is one retry; the reference counts it twice",
    },
    Known {
        cases: &["client-leaves/*/reset/*", "mix/*client-reset*"],
        aspects: &["stat b * cli_abrt"],
        reason: "a client that resets its connection counts once",
    },
    Known {
        cases: &[
            "malformed-request/*",
            "client-leaves/nothing/*",
            "client-leaves/in-line/*",
            "client-leaves/in-head/*",
            "timeouts/*/head/*",
            "timeouts/idle/*",
            "timeouts/server/quiet/partly-sent/then-pipelined",
            "expect/refused*",
            "retries/*/partly/on",
            "rules/*/post-partly",
            "logs/*/nothing",
            "logs/*/bad",
            "logs/silent-client/*",
            "upgrades/websocket/no-key",
            "upgrades/connect/*",
            "mix/*-cut/*",
        ],
        aspects: &["log * %U", "stat f FRONTEND bin", "stat f FRONTEND reqbin", "stat * resbout"],
        reason: "what came of a request that could not be read counts as received, its answer as sent",
    },
    Known {
        cases: &["logs/logasap/*"],
        aspects: &["log 1 %U"],
        reason: "what was received of the request is known when its line is written early",
    },
    Known {
        cases: &["client-leaves/*", "timeouts/server/*/partly-sent*", "mix/*client-*"],
        aspects: &["stat f FRONTEND h1_bytes_out"],
        reason: "an answer of ours counts as sent although its client may have left",
    },
    Known {
        cases: &[
            "malformed-response/*",
            "server-leaves/in-*",
            "retries/incomplete/*",
            "retries/junk/*",
            "timeouts/*/stops-after/status-line*",
            "timeouts/server/head-trickled",
            "mix/*-head-cut/*",
            "mix/*-in-pieces/*",
        ],
        aspects: &["stat b BACKEND h1_bytes_in"],
        reason: "what came of a head that was not completed, or cannot be read, is not counted",
    },
    Known {
        cases: &["pipelining/then-half-close", "mix/*-and-more/*", "mix/*-refuses/*"],
        aspects: &["stat f FRONTEND h1_bytes_in"],
        reason: "requests that nobody will read are not counted",
    },
    Known {
        cases: &[
            "malformed-response/101-unasked/*",
            "malformed-response/chunk-*",
            "malformed-response/trailer-junk/*",
        ],
        aspects: &["log * %B", "stat * bout", "stat * resbin", "stat b s1 hrsp_*", "stat b s1 req_tot"],
        reason: "whether the good part of a response that is thrown away was received",
    },
    Known {
        cases: &["rules/response-*/http"],
        aspects: &["log * %B", "stat * bout", "stat * resbin", "stat b BACKEND h1_bytes_in"],
        reason: "in the reference tcp-response rules without a condition decide before the response was received",
    },
    Known {
        cases: &[
            "redispatch/*/tcp",
            "retries/refused/*/tcp",
            "tcp/refused*",
            "rules/*/tcp",
            "tcp/client-leaves/*/reset",
            "logs/tcp/*/refused",
        ],
        aspects: &["log 1 %U", "stat * bin", "stat * reqbin", "stat * reqbout"],
        reason: "what a client says at the moment of the end may have come or not",
    },
    Known {
        cases: &["rules/*/tcp"],
        aspects: &["s1#1 bytes", "s1#1 script"],
        reason: "what a client says at the moment of the end may have come or not",
    },
    Known {
        cases: &["mix/*/retry-*"],
        aspects: &["log * %B", "log * %Tc", "stat * bout", "stat * resbin", "stat * reqbout"],
        reason: "what goes to a server again, and what came of it before, counts each time",
    },
    Known {
        cases: &["mix/*/tcp/*-refuses*dontlognull*"],
        aspects: &["log lines", "stat * *bin"],
        reason: "what a client says at the moment of the end may have come or not",
    },
    Known {
        cases: &["mix/*/tcp/maxconn/*client-half-close*"],
        aspects: &["log * %Tw", "log * %ts"],
        reason: "a client that said nothing leaves the queue, or leaves when it is its turn",
    },
    Known {
        cases: &["mix/*/chunked-cut/*"],
        aspects: &["s*#* bytes"],
        reason: "a head goes to the server before its first chunk is complete",
    },
    Known {
        cases: &["mix/*/tcp/*-refuses*"],
        aspects: &["log * %rc", "stat b * wretr"],
        reason: "an attempt that was due when its client left may be counted or not",
    },
    Known {
        cases: &["mix/*-cut/client-half-close*"],
        aspects: &["client * bytes"],
        reason: "who ended its direction in the middle of a body is told so, which the reference does in most cases",
    },
    Known {
        cases: &["mix/*/tcp/*-closes*"],
        aspects: &["s*#* bytes", "log * %ts", "stat b * eresp", "stat b * srv_abrt"],
        reason: "what a client says at the moment of the end may have come or not",
    },
    Known {
        cases: &[
            "mix/*/tcp/*-goes-on*client-close*",
            "mix/*/tcp/*-goes-on*client-reset*",
            "mix/*/tcp/*-closes*client-reset*",
        ],
        aspects: &["stat * resbout"],
        reason: "what is sent to a client that has gone",
    },
    // Connections to servers.
    Known {
        cases: &[
            "malformed-response/*/open",
            "rules/response-*",
            "timeouts/server/*/partly-sent*",
            "timeouts/server/*/uploading",
            "timeouts/client/body-stops/*",
            "timeouts/set-timeout/client",
        ],
        aspects: &["s1#* end Closed/Reset"],
        reason: "a connection to a server that is given up is reset, whatever was on it",
    },
    Known {
        cases: &[
            "timeouts/deaf-client/*",
            "client-leaves/deaf/half-close",
            "rules/response-*/tcp",
            "mix/*/tcp/*",
        ],
        aspects: &["s*#* end Closed/Reset", "s*#* end Reset/Closed"],
        reason: "what the server still sent when its connection was closed may reset it",
    },
    Known {
        cases: &["retries/closed-unread/*"],
        aspects: &["s1#* bytes"],
        reason: "whether the request or its server's end comes first is up to chance",
    },
    Known {
        cases: &["reuse/server-option/max-reuse-*"],
        aspects: &[
            "s1 connections",
            "s1#1 bytes",
            "s1#1 end Open/Reset",
            "stat b * *connect*",
            "stat b * reuse",
        ],
        reason: "max-reuse is obeyed over HTTP/1",
    },
    Known {
        cases: &["mix/*/two-clients/*"],
        aspects: &["s*#* bytes", "s*#* end Open/Reset", "s*#* end Reset/Open"],
        reason: "which of several idle connections is taken depends on which became idle first",
    },
    Known {
        cases: &["balance/leastconn"],
        aspects: &["client 1 bytes", "log * %s", "s* bytes", "stat b s* *"],
        reason: "the reference chooses by chance among servers with the same load; here the one idle for longest is",
    },
    Known {
        cases: &["reuse/*/close"],
        aspects: &["client 2 end Closed/Reset", "client 2 end Reset/Closed"],
        reason: "a request that crosses the end of its connection may meet a reset, in either program",
    },
];

/// Why this may differ, if it may.
pub fn reason(case: &str, aspect: &str) -> Option<&'static str> {
    let any = |patterns: &[&str], name| patterns.iter().any(|pattern| matches(pattern, name));
    let known = KNOWN
        .iter()
        .chain(known_http2::KNOWN)
        .find(|known| any(known.cases, case) && any(known.aspects, aspect));
    known.map(|known| known.reason)
}

/// The reference's answers to heads that it cannot read have their fields in an order of their own: `connection` before
/// `content-type`. All its other answers, and all of ours, have it last.
pub fn reordered(bytes: &[u8]) -> Vec<u8> {
    const THEIRS: &[u8] = b"cache-control: no-cache\r\nconnection: close\r\ncontent-type: text/html\r\n\r\n";
    const OURS: &[u8] = b"cache-control: no-cache\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n";
    let mut bytes = bytes.to_vec();
    while let Some(at) = bytes.windows(THEIRS.len()).position(|window| window == THEIRS) {
        bytes[at..at + THEIRS.len()].copy_from_slice(OURS);
    }
    bytes
}

/// Whether a name is meant by a pattern with `*`.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    loop {
        if matches(rest, name) {
            return true;
        }
        let mut chars = name.chars();
        if chars.next().is_none() {
            return false;
        }
        name = chars.as_str();
    }
}
