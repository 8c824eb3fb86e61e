//! The rules.

use std::collections::{HashMap, HashSet};

use thalweg_syntax::layout::WrittenLine;
use thalweg_syntax::parse_time_ms;

use crate::conditions::Names;
use crate::lines::{begins, condition, text};
use crate::{Finding, Level, Lines, Rule, Section};

const PROXIES: [&str; 3] = ["frontend", "backend", "listen"];

/// Timeouts below this are found when they have no unit: they are milliseconds, and were probably meant as seconds.
const ODD_SHORT_MS: u32 = 300;

/// A client or a server that may be silent for longer than this is hardly waited for.
const ODD_LONG_MS: u32 = 24 * 3600 * 1000;

const fn warning(
    name: &'static str,
    why: &'static str,
    run: fn(&Rule, &Lines<'_>, &mut Vec<Finding>),
) -> Rule {
    Rule { name, level: Level::Warning, why, run }
}

const fn note(name: &'static str, why: &'static str, run: fn(&Rule, &Lines<'_>, &mut Vec<Finding>)) -> Rule {
    Rule { name, level: Level::Note, why, run }
}

pub const ALL: &[Rule] = &[
    warning(
        "certificate-ends",
        "When its validity has ended, every client refuses the certificate.",
        certificate_ends,
    ),
    note(
        "clear-password",
        "Whoever can read the file knows the password; 'password' takes a hash (mkpasswd -m sha-512).",
        clear_password,
    ),
    warning("config-warning", "The program says so at every start.", config_warning),
    warning(
        "contradiction",
        "What must hold together never does, so that the line always or never applies.",
        contradiction,
    ),
    note(
        "missing-check",
        "Without checks a server that is down is found out by requests that fail.",
        missing_check,
    ),
    note(
        "missing-http-request-timeout",
        "Without 'timeout http-request' a client may take the whole 'timeout client' for each few bytes of its request.",
        missing_http_request_timeout,
    ),
    warning("odd-timeout", "A number without a unit is milliseconds.", odd_timeout),
    warning(
        "open-socket",
        "Everybody on this machine may change the process through this socket.",
        open_socket,
    ),
    warning(
        "open-statistics",
        "The page shows every address and state to whoever asks for it.",
        open_statistics,
    ),
    warning(
        "unreachable-rule",
        "A rule above it decides in all the cases that this one is for.",
        unreachable_rule,
    ),
    warning(
        "unused-acl",
        "A condition that nothing names does nothing: the rule it was written for may be missing.",
        unused_acl,
    ),
    warning(
        "unused-backend",
        "No rule sends anything there: its name may be misspelled in one.",
        unused_backend,
    ),
    warning(
        "verify-none",
        "Whoever gets between this machine and the server can read and change everything: use 'verify required' with 'ca-file'.",
        verify_none,
    ),
    warning("weak-tls", "Versions before TLS 1.2 were retired by RFC 8996.", weak_tls),
];

impl Rule {
    fn found(
        &self,
        findings: &mut Vec<Finding>,
        (file, line): &(usize, WrittenLine<'_>),
        word: usize,
        message: impl Into<String>,
    ) {
        let column = line.words.get(word).map_or(0, |word| word.start) + 1;
        let (rule, level, message) = (self.name, self.level, message.into());
        findings.push(Finding { rule, level, file: *file, line: line.number, column, message });
    }
}

fn config_warning(rule: &Rule, lines: &Lines<'_>, findings: &mut Vec<Finding>) {
    for (file, line, column, message) in &lines.known.warnings {
        let (file, line, column, message) = (*file, *line, *column, message.clone());
        findings.push(Finding { rule: rule.name, level: rule.level, file, line, column, message });
    }
}

/// Every word of a section behind its keywords, without `!` and braces, and the names in arguments of fetches.
fn mentions(section: &Section<'_>) -> HashSet<String> {
    let mut all = HashSet::new();
    for (_, line) in section.lines.iter().skip(1) {
        // The name that a line defines is no mention of it.
        let skip = if line.word(0) == "acl" { 2 } else { 1 };
        for word in line.words.iter().skip(skip) {
            let word = word.text();
            let plain = word.trim_start_matches('!');
            all.insert(plain.to_owned());
            all.extend(plain.split(['(', ')', ',', '/', '[', ']']).map(str::to_owned));
        }
    }
    all
}

fn unused_acl(rule: &Rule, lines: &Lines<'_>, findings: &mut Vec<Finding>) {
    let all: Vec<HashSet<String>> = lines.sections.iter().map(mentions).collect();
    for (number, section) in lines.sections.iter().enumerate() {
        let mut seen = HashSet::new();
        for found in section.with(&["acl"]) {
            let name = found.1.word(1).into_owned();
            // Proxies that inherit it may use it.
            let used = all[number].contains(&name)
                || section.kind == "defaults"
                    && lines
                        .sections
                        .iter()
                        .zip(&all)
                        .any(|(s, m)| s.defaults == Some(number) && m.contains(&name));
            if !used && seen.insert(name.clone()) {
                rule.found(findings, found, 1, format!("nothing uses the condition '{name}'"));
            }
        }
    }
}

fn unused_backend(rule: &Rule, lines: &Lines<'_>, findings: &mut Vec<Finding>) {
    let named_at_run_time = lines.sections.iter().any(|section| {
        section
            .with(&["use_backend"])
            .any(|(_, line)| line.word(1).contains('%') || line.word(1).contains('$'))
    });
    if named_at_run_time {
        return;
    }
    let all: Vec<HashSet<String>> = lines.sections.iter().map(mentions).collect();
    for (number, section) in lines.sections.iter().enumerate().filter(|(_, s)| s.kind == "backend") {
        let of_others = all.iter().enumerate().any(|(n, m)| n != number && m.contains(&section.name));
        if !of_others && !section.name.is_empty() {
            let first = &section.lines[0];
            rule.found(findings, first, 1, format!("nothing uses the backend '{}'", section.name));
        }
    }
}

/// Rules that end the evaluation of their ruleset.
fn ruleset_of(line: &WrittenLine<'_>) -> Option<&'static str> {
    let second = line.word(1);
    match &*line.word(0) {
        "use_backend" => Some("use_backend"),
        "redirect" => Some("redirect"),
        "http-request"
            if matches!(
                &*second,
                "deny" | "reject" | "return" | "redirect" | "allow" | "tarpit" | "silent-drop"
            ) =>
        {
            Some("http-request")
        }
        "http-response" if matches!(&*second, "deny" | "return" | "redirect" | "allow") => {
            Some("http-response")
        }
        "tcp-request" if matches!(&*line.word(2), "accept" | "reject") => Some(match &*second {
            "connection" => "tcp-request connection",
            "session" => "tcp-request session",
            _ => "tcp-request content",
        }),
        _ => None,
    }
}

fn contradiction(rule: &Rule, lines: &Lines<'_>, findings: &mut Vec<Finding>) {
    for section in lines.sections.iter().filter(|section| section.is(&PROXIES)) {
        let names = Names::of(section);
        for found in section.lines.iter().skip(1).filter(|(_, line)| names.contradict(line)) {
            let Some(at) = condition(&found.1) else { continue };
            let outcome = if found.1.word(at) == "if" { "never" } else { "always" };
            let message = format!("it {outcome} applies: parts of its condition exclude each other");
            rule.found(findings, found, at, message);
        }
    }
}

fn unreachable_rule(rule: &Rule, lines: &Lines<'_>, findings: &mut Vec<Finding>) {
    for section in lines.sections.iter().filter(|s| s.is(&PROXIES)) {
        // Lines under `.if` exclude each other.
        if section.lines.iter().any(|(_, line)| line.word(0).starts_with('.')) {
            continue;
        }
        let mut decided: HashMap<(&str, String), u32> = HashMap::new();
        for found in section.lines.iter().skip(1) {
            let Some(ruleset) = ruleset_of(&found.1) else {
                // What another rule changes may change a condition.
                let changes = found.1.word(0);
                decided.retain(|(ruleset, wanted), _| wanted.is_empty() || !ruleset.starts_with(&*changes));
                continue;
            };
            let wanted = condition(&found.1).map_or(String::new(), |at| text(&found.1, at));
            let always = decided.get(&(ruleset, String::new())).copied();
            // The loader says it of rules that always decide, but not of these.
            if let Some(above) = always.filter(|_| ruleset == "use_backend") {
                rule.found(findings, found, 0, format!("it is never reached: line {above} always decides"));
            } else if let Some(above) = decided.get(&(ruleset, wanted.clone())).filter(|_| !wanted.is_empty())
            {
                let message = format!("it is never reached: line {above} decides under the same condition");
                rule.found(findings, found, 0, message);
            }
            // What depends on the moment may differ from line to line.
            let varies = ["rand", "gpc", "_rate", "sc_inc", "sc0_inc", "sc1_inc", "sc2_inc"];
            if !varies.iter().any(|word| wanted.contains(word)) {
                decided.entry((ruleset, wanted)).or_insert(found.1.number);
            }
        }
    }
}

fn verify_none(rule: &Rule, lines: &Lines<'_>, findings: &mut Vec<Finding>) {
    for section in &lines.sections {
        for found in section.lines.iter().skip(1) {
            let line = &found.1;
            let of_server = matches!(&*line.word(0), "server" | "default-server" | "server-template");
            let at =
                (1..line.words.len()).find(|at| line.word(*at) == "verify" && line.word(at + 1) == "none");
            if let Some(at) = at.filter(|_| of_server) {
                rule.found(findings, found, at, "the certificate of the server is not verified");
            }
            if begins(line, &["ssl-server-verify", "none"]) {
                rule.found(
                    findings,
                    found,
                    0,
                    "certificates of servers are not verified unless a line says so",
                );
            }
        }
    }
}

fn weak_tls(rule: &Rule, lines: &Lines<'_>, findings: &mut Vec<Finding>) {
    const WEAK: [&str; 3] = ["SSLv3", "TLSv1.0", "TLSv1.1"];
    const FORCED: [&str; 3] = ["force-sslv3", "force-tlsv10", "force-tlsv11"];
    for section in &lines.sections {
        for found in section.lines.iter().skip(1) {
            for at in 1..found.1.words.len() {
                let word = found.1.word(at);
                let minimum = word == "ssl-min-ver" && WEAK.contains(&&*found.1.word(at + 1));
                if minimum || FORCED.contains(&&*word) {
                    rule.found(findings, found, at, "a version of TLS is allowed that is no longer safe");
                }
            }
        }
    }
}

fn odd_timeout(rule: &Rule, lines: &Lines<'_>, findings: &mut Vec<Finding>) {
    for section in &lines.sections {
        for found in section.with(&["timeout"]) {
            let (name, value) = (found.1.word(1), found.1.word(2));
            let Ok(ms) = parse_time_ms(&value) else { continue };
            let plain = value.bytes().all(|b| b.is_ascii_digit());
            if plain && (1..ODD_SHORT_MS).contains(&ms) {
                rule.found(
                    findings,
                    found,
                    2,
                    format!("'timeout {name} {value}' is {ms} milliseconds; '{value}s' was meant?"),
                );
            } else if ms == 0 && !matches!(&*name, "queue" | "tunnel") {
                rule.found(
                    findings,
                    found,
                    2,
                    format!("'timeout {name} {value}' means that there is no timeout"),
                );
            } else if ms > ODD_LONG_MS && name != "tunnel" {
                rule.found(findings, found, 2, format!("'timeout {name} {value}' is more than a day"));
            }
        }
    }
}

fn missing_http_request_timeout(rule: &Rule, lines: &Lines<'_>, findings: &mut Vec<Finding>) {
    for section in lines.sections.iter().filter(|s| s.is(&["frontend", "listen"])) {
        let listens = section.with(&["bind"]).next().is_some();
        if listens
            && lines.is_http(section)
            && lines.inherited(section, &["timeout", "http-request"]).is_empty()
        {
            let message = format!("{} '{}' has no 'timeout http-request'", section.kind, section.name);
            rule.found(findings, &section.lines[0], 0, message);
        }
    }
}

fn missing_check(rule: &Rule, lines: &Lines<'_>, findings: &mut Vec<Finding>) {
    for section in lines.sections.iter().filter(|s| s.is(&["backend", "listen"])) {
        let servers: Vec<_> = section.with(&["server"]).collect();
        let says = |line: &WrittenLine<'_>| {
            (1..line.words.len()).any(|at| matches!(&*line.word(at), "check" | "track" | "agent-check"))
        };
        let by_default = lines.inherited(section, &["default-server"]).iter().any(|(_, line)| says(line));
        if servers.len() > 1 && !by_default && !servers.iter().any(|(_, line)| says(line)) {
            let message = format!("none of the {} servers of '{}' is checked", servers.len(), section.name);
            rule.found(findings, servers[0], 0, message);
        }
    }
}

fn open_socket(rule: &Rule, lines: &Lines<'_>, findings: &mut Vec<Finding>) {
    for section in lines.sections.iter().filter(|s| s.kind == "global") {
        for found in section.with(&["stats", "socket"]) {
            let line = &found.1;
            let after = |word: &str| {
                (3..line.words.len())
                    .find(|at| line.word(*at) == word)
                    .map(|at| line.word(at + 1).into_owned())
            };
            let address = line.word(2);
            let is_path = address.starts_with('/') || address.starts_with("unix@");
            let local =
                address.starts_with("127.") || address.starts_with("ipv4@127.") || address.starts_with("fd@");
            let for_all = after("mode").is_some_and(|mode| mode.ends_with(['2', '3', '6', '7']));
            if after("level").as_deref() == Some("user") {
                continue;
            }
            if is_path && for_all {
                rule.found(findings, found, 2, format!("everybody may write to the socket '{address}'"));
            } else if !is_path && !local && !address.starts_with("abns") {
                rule.found(findings, found, 2, format!("the CLI listens on the network at '{address}'"));
            }
        }
    }
}

fn open_statistics(rule: &Rule, lines: &Lines<'_>, findings: &mut Vec<Finding>) {
    for section in lines.sections.iter().filter(|s| s.is(&PROXIES)) {
        let words: [&[&str]; 2] = [&["stats", "enable"], &["stats", "uri"]];
        let Some(found) = words.iter().find_map(|words| section.with(words).next()) else { continue };
        let guards: [&[&str]; 3] = [&["stats", "auth"], &["stats", "http-request"], &["http-request"]];
        let guarded = guards.iter().any(|words| !lines.inherited(section, words).is_empty());
        let local = section.with(&["bind"]).all(|(_, line)| {
            let address = line.word(1);
            ["127.", "localhost", "::1", "[::1]", "/", "unix@", "abns"].iter().any(|a| address.starts_with(a))
        });
        if !guarded && !local {
            rule.found(findings, found, 1, "the statistics page is open to every client");
        }
    }
}

fn clear_password(rule: &Rule, lines: &Lines<'_>, findings: &mut Vec<Finding>) {
    for section in &lines.sections {
        for found in section.with(&["user"]) {
            if let Some(at) = (1..found.1.words.len()).find(|at| found.1.word(*at) == "insecure-password") {
                rule.found(
                    findings,
                    found,
                    at,
                    format!("the password of '{}' is written in clear", found.1.word(1)),
                );
            }
        }
    }
}

fn certificate_ends(rule: &Rule, lines: &Lines<'_>, findings: &mut Vec<Finding>) {
    let known = lines.known;
    for (name, end) in &known.certificates {
        let left = end - known.now;
        if left > known.soon_s {
            continue;
        }
        let message = match left {
            ..0 => format!("the certificate '{name}' ended {} days ago", -left / 86_400),
            _ => format!("the certificate '{name}' ends in {} days", left / 86_400),
        };
        // The word that names it, or a directory, list or store it came from.
        let mut best: Option<(usize, &(usize, WrittenLine<'_>), usize)> = None;
        for found in lines.sections.iter().flat_map(|section| section.lines.iter()) {
            for at in 1..found.1.words.len() {
                let word = found.1.word(at);
                let fits = word.len() > 2
                    && (name.ends_with(&*word) || name.starts_with(&*word) && word.contains('/'));
                if fits && best.as_ref().is_none_or(|(length, ..)| word.len() > *length) {
                    best = Some((word.len(), found, at));
                }
            }
        }
        let first = lines.sections.iter().flat_map(|s| s.lines.first()).next();
        if let Some((found, at)) = best.map(|(_, found, at)| (found, at)).or(first.map(|f| (f, 0))) {
            rule.found(findings, found, at, message);
        }
    }
}
