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
            "pipelining/*",
            "expect/*",
            "early/*",
            "malformed-*",
            "client-leaves/*",
            "server-leaves/*",
            "tcp/*",
            "timeouts/*",
        ],
        aspects: &["*"],
        reason: "being fixed: not looked at one by one",
    },
    Known {
        cases: &["framing/*/until-close", "framing/*/1.0-until-close"],
        aspects: &["client 1 bytes", "client 1 end"],
        reason: "a response without a length is sent in chunks, so that the connection can be kept",
    },
    Known {
        cases: &["framing/*/1.0", "framing/*/1.0-keep-alive", "framing/*/1.0-until-close"],
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
        aspects: &["client 1 bytes", "client 1 end", "log lines", "stat *", "s1#1 bytes"],
        reason: "HTTP/1.0 clients get no chunks: the body is decoded and the connection closed",
    },
    Known {
        cases: &["framing/*-1.0*/100-then-sized"],
        aspects: &["client 1 bytes"],
        reason: "HTTP/1.0 clients get no interim responses",
    },
    Known { cases: &["*-1.0*"], aspects: &["s* bytes"], reason: "being fixed: item 22" },
    Known {
        cases: &["*"],
        aspects: &[
            "stat * lbtot",
            "stat b* s* req_tot",
            "stat * need_conn_est",
            "stat * ttime_max*",
            "stat * hrsp_1xx",
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
