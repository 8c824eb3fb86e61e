//! Differences from the reference that are known, each with its reason. Every entry is about something that the user's
//! documentation lists (docs/differences.md), or says why it is not worth a line there.

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
        cases: &["pipelining/then-half-close", "pipelining/slow-server", "client-leaves/*", "early/*/left"],
        aspects: &["*"],
        reason: "being fixed: items 8 and 10 to 14, a client that leaves",
    },
    Known {
        cases: &["early/*", "expect/*"],
        aspects: &["*"],
        reason: "being fixed: item 13, early responses",
    },
    Known {
        cases: &["*"],
        aspects: &["s* end Reset/Closed", "s* end Closed/Reset", "s* end Open/Closed", "s* end Reset/Open"],
        reason: "being fixed: issue 8, how a connection to a server is ended",
    },
    Known { cases: &["*"], aspects: &["log * %Td"], reason: "being fixed: item 39, %Td without a response" },
    Known {
        cases: &["*"],
        aspects: &["log * %U", "client * end Closed/Reset"],
        reason: "being fixed: items 17 and 39, what a connection that failed had received",
    },
    Known {
        cases: &["*"],
        aspects: &["log * %Tw*", "log * %Tc*", "log * %TR", "log * %Tq"],
        reason: "being fixed: item 8, timers",
    },
    Known {
        cases: &["retries/*", "redispatch/*", "tcp/*", "queue/*", "reuse/*", "balance/leastconn"],
        aspects: &["*"],
        reason: "being fixed: items 3, 24 and 38, retries, queues and pools",
    },
    Known { cases: &["timeouts/*"], aspects: &["*"], reason: "being fixed: items 3 to 9, timeouts" },
    Known {
        cases: &[
            "rules/*",
            "upgrades/*",
            "streams/*",
            "logs/*",
            "bodies/*",
            "server-leaves/*",
            "malformed-*",
        ],
        aspects: &["*"],
        reason: "being fixed: items 17, 24 and 39",
    },
    Known { cases: &["cookies/forced"], aspects: &["stat *"], reason: "being fixed: item 24" },
    Known {
        cases: &["*"],
        aspects: &[
            "stat b s* need_conn_est",
            "stat b s* hrsp_1xx",
            "stat b s* req_tot",
            "stat f FRONTEND intercepted",
        ],
        reason: "being fixed: item 24",
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
