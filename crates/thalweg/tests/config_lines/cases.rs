//! The lines: templates with sets of values, expanded in each section they name.
//!
//! A template is `SECTIONS: LINE`. The sections are letters of [`SECTIONS`], several at once make several cases. In the
//! line `<a|b|c>` stands for each of its alternatives, `<int>` and the other names of [`SETS`] for each value of the set,
//! ` ~~ ` begins a new line, and `¦‹›` are a bar and brackets. `#` begins a comment.

/// One file to check.
pub struct Case {
    /// The section and the line.
    pub name: String,
    pub text: String,
}

/// Values at the limits of what an argument of that kind may be.
const SETS: [(&str, &[&str]); 7] = [
    (
        "int",
        &[
            "",
            "0",
            "1",
            "-1",
            "+1",
            "2147483647",
            "2147483648",
            "4294967295",
            "4294967296",
            "99999999999999999999",
            "a",
            "1a",
            "0x10",
            "010",
            "1.5",
            "1 2",
            "\"\"",
            "1,2",
            "1k",
        ],
    ),
    (
        "time",
        &[
            "",
            "0",
            "1",
            "1s",
            "1us",
            "999us",
            "1ms",
            "1m",
            "1h",
            "1d",
            "24d",
            "25d",
            "2147483647",
            "2147483648",
            "4294967296",
            "2147483648000",
            "99999999999999999999",
            "1s2",
            "1sx",
            "1m30s",
            "-1",
            "a",
            "s",
            "1.5s",
            "1 s",
            "\"\"",
            "596h",
            "597h",
            "1y",
        ],
    ),
    (
        "size",
        &[
            "",
            "0",
            "1",
            "-1",
            "1024",
            "1k",
            "1K",
            "1m",
            "1g",
            "2g",
            "4g",
            "2147483647",
            "2147483648",
            "4294967296",
            "1t",
            "a",
            "1kb",
            "1kk",
            "1.5k",
            "\"\"",
            "1k 2",
        ],
    ),
    ("word", &["", "a", "\"\"", "a b", "\"a b\"", "a,b", "é", "a/b", "a:b", "-", "a(b)", "<long>"]),
    ("none", &["", "x", "\"\""]),
    ("onoff", &["", "on", "off", "On", "yes", "no", "auto", "1", "0", "\"\"", "on off", "enabled"]),
    (
        "cond",
        &[
            "if TRUE",
            "unless FALSE",
            "if",
            "unless",
            "if nosuch",
            "if { path",
            "if { always_true } extra",
            "x",
        ],
    ),
];

/// A section: its letter, and the file around the line `@`.
const SECTIONS: [(&str, &str); 21] = [
    ("G", "global\n@\n+http\n+fb\n"),
    ("D", "defaults\n mode http\n timeout connect 1s\n timeout client 1s\n timeout server 1s\n@\n+fb\n"),
    (
        "DN",
        "defaults dname\n mode http\n timeout connect 1s\n timeout client 1s\n timeout server 1s\n@\n+fb\n",
    ),
    ("DT", "defaults\n mode tcp\n timeout connect 1s\n timeout client 1s\n timeout server 1s\n@\n+fb\n"),
    ("F", "+http\nfrontend t\n bind 127.0.0.1:8000\n default_backend b\n@\n+b\n"),
    ("B", "+http\n+f\nbackend t\n server s1 127.0.0.1:8001\n@\nbackend b\n"),
    ("L", "+http\nlisten t\n bind 127.0.0.1:8000\n server s1 127.0.0.1:8001\n@\nbackend b\n"),
    ("FT", "+tcp\nfrontend t\n bind 127.0.0.1:8000\n default_backend b\n@\n+b\n"),
    ("BT", "+tcp\n+f\nbackend t\n server s1 127.0.0.1:8001\n@\nbackend b\n"),
    ("LT", "+tcp\nlisten t\n bind 127.0.0.1:8000\n server s1 127.0.0.1:8001\n@\nbackend b\n"),
    // Without anything but the line.
    ("F0", "+http\nfrontend t\n@\n+b\n"),
    ("B0", "+http\n+f\nbackend t\n@\nbackend b\n"),
    ("L0", "+http\nlisten t\n@\nbackend b\n"),
    ("BLOG", "+http\n+f\nbackend t\n mode log\n@\nbackend b\n"),
    ("U", "userlist t\n@\n+http\n+fb\n"),
    ("R", "ring t\n@\n+http\n+fb\n"),
    ("H", "http-errors t\n@\n+http\n+fb\n"),
    ("P", "log-profile t\n@\n+http\n+fb\n"),
    // A whole file.
    ("TOP", "@\n"),
    // Lines before, sections after.
    ("PRE", "@\n+http\n+fb\n"),
    ("POST", "+http\n+fb\n@\n"),
];

/// Texts that the files have in common.
const PARTS: [(&str, &str); 5] = [
    ("+http", "defaults\n mode http\n timeout connect 1s\n timeout client 1s\n timeout server 1s"),
    ("+tcp", "defaults\n mode tcp\n timeout connect 1s\n timeout client 1s\n timeout server 1s"),
    ("+fb", "frontend f\n bind 127.0.0.1:8080\n default_backend b\nbackend b\n server s 127.0.0.1:8081"),
    ("+f", "frontend f\n bind 127.0.0.1:8080\n default_backend b"),
    ("+b", "backend b\n server s 127.0.0.1:8081"),
];

const TEMPLATES: &[&str] = &[
    include_str!("global.txt"),
    include_str!("proxy.txt"),
    include_str!("options.txt"),
    include_str!("bind_server.txt"),
    include_str!("rules.txt"),
    include_str!("stats.txt"),
    include_str!("logs.txt"),
    include_str!("real.txt"),
    include_str!("resolvers.txt"),
    include_str!("tables.txt"),
    include_str!("expressions.txt"),
];

/// Every case.
pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for template in TEMPLATES.iter().flat_map(|t| t.lines()) {
        if template.trim().is_empty() || template.starts_with('#') {
            continue;
        }
        let (sections, line) = template
            .split_once(": ")
            .or(template.split_once(':'))
            .unwrap_or_else(|| panic!("no section: {template}"));
        for section in sections.split(' ') {
            let around =
                SECTIONS.iter().find(|s| s.0 == section).unwrap_or_else(|| panic!("section {section}")).1;
            for text in expand(line) {
                let lines = text
                    .replace('¦', "|")
                    .split(" ~~ ")
                    .map(|l| format!(" {l}"))
                    .collect::<Vec<_>>()
                    .join("\n");
                let mut file = around.to_owned();
                for (name, part) in PARTS {
                    file = file.replace(&format!("{name}\n"), &format!("{part}\n"));
                }
                cases.push(Case { name: format!("{section}: {text}"), text: file.replacen('@', &lines, 1) });
            }
        }
    }
    cases
}

/// All lines of a template.
fn expand(line: &str) -> Vec<String> {
    let Some(open) = line.find('<') else { return vec![line.to_owned()] };
    // The end of the set and the bars between its alternatives; sets may hold sets.
    let (mut depth, mut starts, mut close) = (0, vec![open + 1], None);
    for (at, c) in line.char_indices().skip_while(|(at, _)| *at < open) {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            '|' if depth == 1 => starts.push(at + 1),
            _ => {}
        }
        if depth == 0 {
            close = Some(at);
            break;
        }
    }
    let close = close.unwrap_or_else(|| panic!("no end of the set: {line}"));
    let (head, inner, rest) = (&line[..open], &line[open + 1..close], &line[close + 1..]);
    if inner == "long" {
        return expand(rest).into_iter().map(|rest| format!("{head}{}{rest}", "x".repeat(300))).collect();
    }
    let values: Vec<&str> = match SETS.iter().find(|s| s.0 == inner) {
        Some((_, values)) => values.to_vec(),
        None => starts
            .iter()
            .zip(starts[1..].iter().map(|next| next - 1).chain([close]))
            .map(|(from, to)| &line[*from..to])
            .collect(),
    };
    let mut all = Vec::new();
    for value in values {
        all.extend(expand(&format!("{value}{rest}")).into_iter().map(|rest| format!("{head}{rest}")));
    }
    all
}

/// A difference that is meant.
#[derive(Debug)]
pub struct Known {
    how: String,
    pattern: String,
    #[allow(dead_code, reason = "shown when the entry is stale")]
    reason: String,
}

impl Known {
    /// Whether the entry speaks of this difference: its pattern is the name of the case, `*` standing for anything.
    pub fn matches(&self, case: &Case, how: &str) -> bool {
        // A pattern does not end with the blank behind which a line has nothing more.
        let names = [&*case.name, case.name.trim_end()];
        (self.how == how || self.how == "any") && names.iter().any(|name| glob(&self.pattern, name))
    }
}

fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            rest.is_empty()
                || (0..=text.len()).filter(|at| text.is_char_boundary(*at)).any(|at| glob(rest, &text[at..]))
        }),
    }
}

/// The list of known differences: a line with the reason after `# `, then the patterns, each after how it differs.
pub fn known() -> Vec<Known> {
    let mut reason = String::new();
    let mut known = Vec::new();
    for line in include_str!("known.txt").lines() {
        if let Some(text) = line.strip_prefix("# ") {
            reason = text.to_owned();
        } else if let Some((how, pattern)) = line.split_once(" | ") {
            known.push(Known { how: how.to_owned(), pattern: pattern.to_owned(), reason: reason.clone() });
        }
    }
    known
}
