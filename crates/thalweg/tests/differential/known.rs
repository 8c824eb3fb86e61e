//! Differences from the reference that are known, each with its reason. Every entry is about something that the user's
//! documentation lists (docs/differences.md), says why it is not worth a line there, or says that it is open.

/// A difference that may be seen.
pub struct Known {
    /// Names of cases; `*` stands for anything.
    pub cases: &'static [&'static str],
    /// What differs, in the same way.
    pub aspects: &'static [&'static str],
    pub reason: &'static str,
}

pub const KNOWN: &[Known] = &[
    Known {
        cases: &[
            "framing/*/until-close",
            "framing/*/1.0-until-close",
            "client-leaves/in-endless-response/*",
            "server-leaves/in-endless-body/*",
            "timeouts/*/stops-after/until-close*",
        ],
        aspects: &[
            "client 1 bytes",
            "client 1 end Closed/Open",
            "client 1 end * later",
            "s1 connections",
            "log lines",
            "stat *",
        ],
        reason: "a response without a length is sent in chunks, so that the connection can be kept",
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
        aspects: &["client 1 bytes", "client 1 end Open/Closed", "log lines", "stat *", "s1#1 bytes"],
        reason: "HTTP/1.0 clients get no chunks: the body is decoded and the connection closed",
    },
    Known {
        cases: &["framing/*-1.0*/100-then-sized", "expect/1.0"],
        aspects: &["client 1 bytes", "stat *"],
        reason: "HTTP/1.0 clients get no interim responses",
    },
    Known {
        cases: &["malformed-response/status-short/*", "malformed-response/status-099/*"],
        aspects: &["*"],
        reason: "a status that is no number from 100 to 999 gets 502",
    },
    Known {
        cases: &["malformed-response/encoding-1.0/*"],
        aspects: &["client 1 bytes", "client 1 end Closed/Open", "log lines", "s1 connections", "stat *"],
        reason: "the body of a chunked HTTP/1.0 response is sent in chunks again, and the connection can be kept",
    },
    Known {
        cases: &["malformed-request/trailer-framing*"],
        aspects: &["s1#1 bytes"],
        reason: "trailers that would frame the message are taken out",
    },
    Known {
        cases: &["malformed-request/chunk-*", "malformed-request/trailer-junk*"],
        aspects: &["*"],
        reason: "a chunk is looked at when it is forwarded, after the server was chosen; the reference decodes what came with the head first",
    },
    Known { cases: &["malformed-request/h2-preface*"], aspects: &["*"], reason: "HTTP/2 is not there yet" },
    Known {
        cases: &["malformed-request/version-junk/relaxed"],
        aspects: &["log 1 %HV", "log 1 %r"],
        reason: "an unknown protocol name is logged as HTTP, as it is forwarded",
    },
    Known {
        cases: &["malformed-request/encoding-gzip-chunked*"],
        aspects: &["client 1 bytes", "log 1 %U", "stat *"],
        reason: "the status of what cannot be decoded",
    },
    Known {
        cases: &["malformed-request/encoding-1.0*"],
        aspects: &["s1#1 end Reset/Open"],
        reason: "the server's connection of an HTTP/1.0 request with chunks is kept",
    },
    Known {
        cases: &["malformed-request/long-*"],
        aspects: &["client 1 bytes", "log 1 %U", "stat *"],
        reason: "the limit of a head counts the bytes received",
    },
    Known {
        cases: &["upgrades/connect/length"],
        aspects: &["*"],
        reason: "a CONNECT with a length loses the length and is closed afterwards",
    },
    Known {
        cases: &["*"],
        aspects: &["stat b s* hrsp_1xx", "stat b s* req_tot"],
        reason: "the reference counts an interim response as one more request of its server",
    },
    Known {
        cases: &["*"],
        aspects: &["stat * eresp", "stat * srv_abrt"],
        reason: "the reference counts a response that failed in its head twice, and no abort of the server",
    },
    Known {
        cases: &["*"],
        aspects: &[
            "stat f FRONTEND bin",
            "stat f FRONTEND reqbin",
            "stat f FRONTEND reqbout",
            "stat f FRONTEND resbout",
            "log * %U",
        ],
        reason: "what came of a request that could not be read counts as received, its answer as sent",
    },
    Known {
        cases: &["*"],
        aspects: &["stat * h1_bytes_in", "stat * h1_bytes_out"],
        reason: "bytes for who had left, and of a response that is thrown away",
    },
    Known {
        cases: &[
            "malformed-response/*/open",
            "rules/response-reject*/http",
            "timeouts/server/*/partly-sent*",
            "timeouts/server/*/uploading",
            "timeouts/client/body-stops/*",
            "timeouts/set-timeout/client",
        ],
        aspects: &["s1#* end Closed/Reset"],
        reason: "a connection to a server that is given up is reset, whatever was on it",
    },
    Known {
        cases: &["timeouts/deaf-client/*/tcp", "client-leaves/deaf/half-close"],
        aspects: &["s1#1 end Closed/Reset"],
        reason: "what the server still sent when its connection was closed may reset it",
    },
    Known {
        cases: &["client-leaves/nothing/*", "timeouts/*/head/nothing", "logs/silent-client/*"],
        aspects: &["log 1 %Ti"],
        reason: "open: %Ti of a client that said nothing",
    },
    Known {
        cases: &[
            "malformed-response/101-unasked/*",
            "malformed-response/chunk-*",
            "malformed-response/trailer-junk/*",
        ],
        aspects: &["log * %B", "stat *"],
        reason: "the reference counts the part of a response that it throws away as sent",
    },
    Known {
        cases: &["malformed-response/*"],
        aspects: &["stat *"],
        reason: "counters of malformed responses, as above",
    },
    Known {
        cases: &["retries/closed-unread/*"],
        aspects: &["s1#* bytes"],
        reason: "whether the request or its server's end comes first is up to chance",
    },
    Known {
        cases: &["retries/*"],
        aspects: &["stat * wretr"],
        reason: "a response that is tried again counts once",
    },
    Known {
        cases: &[
            "retries/*/partly/on",
            "server-leaves/uploading/*",
            "timeouts/connect/*/post",
            "timeouts/tarpit/connect/post",
        ],
        aspects: &["log 1 %Ta later", "log 1 %Tt later", "client 1 end earlier", "stat *"],
        reason: "an answer of ours is logged when the rest of the upload has been dealt with",
    },
    Known {
        cases: &[
            "retries/*",
            "tcp/*",
            "redispatch/*",
            "client-leaves/*",
            "timeouts/*",
            "server-leaves/*",
            "early/*",
            "expect/*",
            "rules/*",
            "reuse/*",
            "upgrades/*",
            "bodies/*",
            "logs/*",
            "queue/*",
            "streams/*",
            "cookies/forced",
            "malformed-request/*",
        ],
        aspects: &["stat *"],
        reason: "open: counters of failures",
    },
    Known {
        cases: &["cookies/redirected"],
        aspects: &["stat f FRONTEND intercepted"],
        reason: "an answer of the backend's rules is intercepted as well",
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
        cases: &["reuse/server-option/pool-low-conn"],
        aspects: &["s1#* bytes"],
        reason: "of several idle connections the one used last is taken",
    },
    Known {
        cases: &["balance/leastconn"],
        aspects: &["client 1 bytes", "log * %s", "s* bytes", "stat b s* *"],
        reason: "the reference chooses by chance among servers with the same load; here the one idle for longest is",
    },
    Known {
        cases: &["client-leaves/body-waited-for/half-close", "client-leaves/in-*-body/half-close/*"],
        aspects: &["client 1 bytes"],
        reason: "a client that half-closed in its body still gets its 400",
    },
    Known {
        cases: &["client-leaves/after-post/reset/no-abortonclose", "client-leaves/deaf/half-close"],
        aspects: &["log 1 *"],
        reason: "open: who is blamed when both have gone",
    },
    Known {
        cases: &["tcp/client-leaves/inspected/reset", "tcp/client-leaves/queued/reset"],
        aspects: &["*"],
        reason: "open: a reset while rules wait for more, or in a queue",
    },
    Known {
        cases: &["rules/response-close/tcp", "rules/response-reject/tcp"],
        aspects: &["*"],
        reason: "open: over io_uring, the client's first bytes come after a rule that ends the stream at once",
    },
    Known {
        cases: &["rules/content-*/http"],
        aspects: &["log 1 %H*", "log 1 %r"],
        reason: "the request line is known when rules on its bytes end the stream",
    },
    Known {
        cases: &[
            "rules/session-reject/tcp",
            "timeouts/deaf-*/tcp",
            "tcp/refused*",
            "rules/connection-silent-drop/tcp",
            "rules/content-silent-drop/tcp",
        ],
        aspects: &["client 1 end *"],
        reason: "open: a connection that ends with unread bytes may be reset",
    },
    Known {
        cases: &["expect/denied", "timeouts/wait-for-body/*"],
        aspects: &["client 1 bytes", "client 1 end Open/Closed", "log lines"],
        reason: "a client that was told no before it sent its body is closed",
    },
    Known {
        cases: &[
            "timeouts/*/uploading",
            "timeouts/server/quiet/partly-sent*",
            "timeouts/http-request/body-stops/*",
            "timeouts/deaf-server/*",
        ],
        aspects: &["client 1 end earlier"],
        reason: "the wait for a client that may still send after our answer is shorter",
    },
    Known {
        cases: &["timeouts/connect/short/post"],
        aspects: &["client 1 byte*", "log 1 *"],
        reason: "open: whose timeout it was",
    },
    Known {
        cases: &["timeouts/queue/client*"],
        aspects: &["log 2 %fc", "log 1 %ts"],
        reason: "open: the end of a client that waits in a queue",
    },
    Known {
        cases: &["streams/talking-server/dontlognull"],
        aspects: &["log lines"],
        reason: "open: a client that said nothing, with a server that did",
    },
    Known {
        cases: &["malformed-request/encoding-1.0*"],
        aspects: &["s1#1 bytes"],
        reason: "open: keep-alive of an HTTP/1.0 request with chunks",
    },
    Known {
        cases: &["client-leaves/after-pipelined/close/no-abortonclose"],
        aspects: &["log 2 *", "s1#2 end earlier"],
        reason: "the second request of a client that has left is not sent, or given up at once",
    },
    Known {
        cases: &["timeouts/server/half-closed/partly-sent*", "timeouts/server/quiet/partly-sent-chunked/*"],
        aspects: &["client 1 bytes"],
        reason: "a client that half-closed in its body still gets its 400",
    },
    Known {
        cases: &["timeouts/client/body-stops/*", "timeouts/set-timeout/client"],
        aspects: &["client 1 end earlier"],
        reason: "the wait for a client that may still send after our answer is shorter",
    },
    Known {
        cases: &["timeouts/tarpit/*/post"],
        aspects: &["log 1 %Ta later", "log 1 %Tt later"],
        reason: "an answer of ours is logged when the rest of the upload has been dealt with",
    },
    Known {
        cases: &["redispatch/refused/*/tcp"],
        aspects: &["log 1 %ts"],
        reason: "both timeouts are the same: either side may be blamed",
    },
    Known {
        cases: &["rules/response-*/http"],
        aspects: &["log * %B"],
        reason: "the reference counts no bytes of a response that its rules refused",
    },
    Known {
        cases: &["reuse/*/close"],
        aspects: &["client 2 end Closed/Reset", "client 2 end Reset/Closed"],
        reason: "a request that crosses the end of its connection may meet a reset, in either program",
    },
    Known {
        cases: &["*"],
        aspects: &["stat * ttime_max *"],
        reason: "the longest time of a stream is that of its request; the reference adds the time that its connection was idle before",
    },
    Known {
        cases: &["client-leaves/tarpit/*"],
        aspects: &["client 1 *", "log 1 *"],
        reason: "open: a client that leaves its tarpit; the reference keeps it for its time",
    },
    Known {
        cases: &["timeouts/both/head/*", "timeouts/idle/all/*"],
        aspects: &["client 1 *", "log * %T*"],
        reason: "open: timeout client beside timeout http-request while a head is waited for",
    },
    Known {
        cases: &["timeouts/connect/short/post", "timeouts/tarpit/tarpit-client/post"],
        aspects: &["client 1 *", "log 1 %T*"],
        reason: "open: timeout client in the rest of an upload that nobody wants",
    },
    Known {
        cases: &["timeouts/inspect-delay/http"],
        aspects: &["client 1 *", "log 1 %T*", "s1#1 *"],
        reason: "open: inspect-delay in HTTP ends when the head is complete",
    },
    Known {
        cases: &["rules/*/post-partly"],
        aspects: &["log 1 %Ta later", "log 1 %Tt later"],
        reason: "an answer of ours is logged when the rest of the upload has been dealt with",
    },
    Known {
        cases: &["client-leaves/*/reset/no-abortonclose"],
        aspects: &["log 1 *", "s1#1 *"],
        reason: "a reset ends its exchange at once, whatever option abortonclose says",
    },
    Known {
        cases: &["queue/keep-alive-clients"],
        aspects: &["log 3 %fc"],
        reason: "either client may be the last",
    },
];

/// Why this may differ, if it may.
pub fn reason(case: &str, aspect: &str) -> Option<&'static str> {
    let any = |patterns: &[&str], name| patterns.iter().any(|pattern| matches(pattern, name));
    let known = KNOWN.iter().find(|known| any(known.cases, case) && any(known.aspects, aspect));
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
