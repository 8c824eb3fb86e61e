//! Generates expressions: every fetch and converter that is deterministic, with odd arguments, in chains.

use super::converters::converter;
use super::oracle::Reference;
use super::request::NAMES;
use super::values::{HEXES, INTS, Random, STRINGS, argument};
use thalweg_sample::{CompileEnv, Ctx, LogFormat, Usage};

/// What a case is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An expression whose value is looked at.
    Expression,
    /// A condition, its words separated by byte 1.
    Condition,
    /// A log format that makes a payload.
    Format,
    /// A log format that makes a header's value.
    Header,
    /// A log format that makes a line of a log.
    Log,
}

pub struct Case {
    pub number: usize,
    pub kind: Kind,
    pub text: String,
    pub request: usize,
}

fn source(random: &mut Random, reference: &Reference) -> String {
    const PLAIN: [&str; 30] = [
        "path",
        "pathq",
        "query",
        "url",
        "base",
        "baseq",
        "base32",
        "url32",
        "method",
        "req.ver",
        "req.body",
        "req.body_len",
        "req.body_size",
        "req.hdrs",
        "req.hdr_names",
        "src",
        "dst",
        "src_port",
        "dst_port",
        "fe_name",
        "fe_name",
        "req.cook",
        "http_auth_type",
        "http_auth_user",
        "http_auth_pass",
        "http_auth_bearer",
        "query",
        "always_true",
        "always_false",
        "req.proto_http",
    ];
    const NAMED: [&str; 12] = [
        "req.hdr",
        "req.fhdr",
        "hdr",
        "req.hdr_cnt",
        "req.fhdr_cnt",
        "req.hdr_val",
        "req.hdr_ip",
        "req.cook",
        "req.cook_cnt",
        "req.cook_val",
        "urlp",
        "req.body_param",
    ];
    loop {
        let text = match random.below(14) {
            12 => random
                .pick(&[
                    "capture.req.hdr(0)",
                    "capture.req.hdr(1)",
                    "capture.req.hdr(9)",
                    "capture.res.hdr(0)",
                    "capture.req.method",
                    "capture.req.uri",
                    "capture.req.ver",
                ])
                .to_string(),
            13 => match random.below(3) {
                0 => format!("var({})", random.variable()),
                1 => format!("var({},{})", random.variable(), argument(random.pick(&STRINGS))),
                _ => format!("bin({})", random.pick(&HEXES)),
            },
            0..=2 => format!("str({})", argument(random.pick(&STRINGS))),
            3 => format!("bin({})", random.pick(&HEXES)),
            4 | 5 => format!("int({})", random.pick(&INTS)),
            6 => random
                .pick(&[
                    "ipv4(1.2.3.4)",
                    "ipv6(2001:db8::1)",
                    "ipv6(::ffff:9.8.7.6)",
                    "bool(true)",
                    "bool(false)",
                ])
                .to_string(),
            7 | 8 => format!("req.fhdr({})", random.pick(&NAMES)),
            9 => random.pick(&PLAIN).to_string(),
            _ => {
                let fetch = *random.pick(&[&NAMED[..]]).get(random.below(NAMED.len())).unwrap_or(&"req.hdr");
                let name = match fetch {
                    "urlp" | "req.body_param" => {
                        random.pick(&["a", "b", "q", "empty", "x[]", "y", "none"]).to_string()
                    }
                    "req.cook" | "req.cook_cnt" | "req.cook_val" => {
                        random.pick(&["a", "b", "SRV", "c", "d", "none"]).to_string()
                    }
                    _ => {
                        let name = random.pick(&NAMES);
                        match random.below(4) {
                            0 if fetch != "req.hdr_cnt" && fetch != "req.fhdr_cnt" => {
                                format!("{name},{}", random.pick(&["1", "2", "-1", "-2", "9", "0"]))
                            }
                            _ => name.to_string(),
                        }
                    }
                };
                format!("{fetch}({name})")
            }
        };
        let name = text.split('(').next().unwrap_or_default();
        if reference.has_fetch(name) {
            return text;
        }
    }
}

fn expression(random: &mut Random, reference: &Reference) -> String {
    let mut text = source(random, reference);
    let steps = [1, 1, 1, 2, 2, 3, 4, 0][random.below(8)];
    for _ in 0..steps {
        text.push(',');
        text.push_str(&converter(random, reference));
    }
    text
}

fn condition(random: &mut Random, reference: &Reference) -> String {
    let r = random;
    let keyword = match r.below(6) {
        0 => format!(
            "{}({})",
            r.pick(&["hdr_beg", "hdr_end", "hdr_sub", "hdr_dom", "hdr_dir", "hdr_reg", "hdr_len", "hdr"]),
            r.pick(&NAMES)
        ),
        1 => r
            .pick(&[
                "path_beg", "path_end", "path_dir", "path_sub", "path_reg", "path_len", "path", "url_beg",
                "url_sub", "method",
            ])
            .to_string(),
        2 => r.pick(&["src", "dst", "src_port"]).to_string(),
        3 => format!("req.hdr_cnt({})", r.pick(&NAMES)),
        _ => expression(r, reference),
    };
    let mut words = vec![keyword];
    if r.below(12) == 0 {
        words.push(r.pick(&["-n", "-i", "-M", "-x", "-m", "-f", "-u\u{1}x", "--"]).to_string());
    }
    let method = r.pick(&[
        "", "", "str", "beg", "end", "sub", "dir", "dom", "reg", "len", "int", "ip", "found", "bool", "bin",
        "ver", "bad",
    ]);
    if r.below(4) == 0 {
        words.push("-i".into());
    }
    if !method.is_empty() {
        words.extend(["-m".into(), method.to_string()]);
    }
    let patterns: &[&str] = match method {
        "int" | "len" => &[
            "0",
            "1:9",
            "-5:5",
            "42",
            "5000",
            ":3",
            "7:",
            "gt\u{1}5",
            "lt\u{1}5",
            "ge\u{1}5\u{1}le\u{1}-1",
            "eq",
            "gt\u{1}9223372036854775807",
            "lt\u{1}-9223372036854775808",
            "9223372036854775808",
            "-9223372036854775808:",
            ":9223372036854775807",
            "5:1",
            "1:2:3",
            "0x10",
            "1.5",
            "+5",
            "-0",
            ":",
            "gt\u{1}1:9",
        ],
        "ver" => &["1.1", "1.0:2.0", "1", ":1.1", "1.1:", "gt\u{1}1.0", "le\u{1}1.1", "x", "1.x", "70000.1"],
        "ip" => &[
            "10.0.0.0/8",
            "1.2.3.4",
            "::1",
            "2001:db8::/32",
            "192.168.0.0/255.255.0.0",
            "10.20/16",
            "0/0",
            "::/0",
            "10.1.2.3/31",
            "10.1.2.3/33",
            "1.2.3.4/",
            "::1/129",
            "10.0.0.0/255.0.255.0",
            "::ffff:10.1.2.3",
            "1.2.3.4.5",
        ],
        "bin" => &["00", "ff41", "616263", "6", "zz"],
        "bool" => &["1", "0", "true"],
        "reg" => &[
            "^a",
            "[0-9]+",
            "b.c",
            "(x|y)$",
            "(",
            ".*e.*",
            "(?i)ALPHA",
            "^$",
            "\\bfile\\b",
            "[[:digit:]]{2,}",
            "a{2}",
            "\\.html$",
            "^(?!/)",
            "(a)\\1",
            "\\x2f",
            "[^\\x00-\\x7f]",
            "*",
            "a++",
            "(?P<n>a)",
            "[z-a]",
        ],
        "found" => &[],
        _ => &[
            "a",
            "abc",
            "A",
            "/path",
            "html",
            "example.com",
            "www",
            "10.0.0.0/8",
            "1",
            "0",
            "GET",
            "POST",
            "file",
            "x",
            "7",
            "one",
        ],
    };
    if !patterns.is_empty() && r.below(4) == 0 {
        // Files of their own: a file is either a map or a list.
        match r.below(3) {
            0 => words.extend(["-M".into(), "-f".into()]),
            _ => words.push("-f".into()),
        }
        let kind = if words.iter().any(|w| w == "-M") { "MAP" } else { "ACL" };
        let number = match method {
            "int" | "len" => 2,
            "ip" => 3,
            "reg" => 4,
            _ => r.below(2),
        };
        words.push(format!("@{kind}{number}@"));
    } else if !patterns.is_empty() {
        for _ in 0..=r.below(3) {
            words.push(r.pick(patterns).to_string());
        }
    }
    words.join("\u{1}")
}

/// A log format: literals, aliases and expressions with names and flags, perhaps encoded as a whole.
fn log_format(kind: Kind, random: &mut Random, reference: &Reference) -> String {
    const ALIASES: [&str; 37] = [
        "HM", "HU", "HP", "HQ", "HV", "HPO", "ci", "cp", "f", "ft", "b", "s", "r", "hr", "hrl", "hs", "hsl",
        "fi", "fp", "bi", "bp", "si", "sp", "B", "ST", "CC", "CS", "ts", "tsc", "rc", "sq", "bq", "sslc",
        "sslv", "Tc", "%", "zz",
    ];
    const SIMPLE: [&str; 22] = [
        "path",
        "src",
        "url",
        "method",
        "int(-5)",
        "int(300)",
        "int(9223372036854775807)",
        "int(-9223372036854775808)",
        "bool(true)",
        "bin(4100ff)",
        "str(a)",
        "str()",
        "req.fhdr(x-a)",
        "req.fhdr(x-odd)",
        "req.fhdr(x-utf8)",
        "req.fhdr(x-missing)",
        "req.fhdr(x-empty)",
        "req.fhdr(x-long)",
        "ipv6(::1)",
        "req.fhdr(x-json)",
        "req.body",
        "capture.req.hdr(1)",
    ];
    // What there is when a line is logged.
    const LOGGED: [&str; 14] = [
        "src",
        "dst",
        "int(-5)",
        "int(300)",
        "bool(false)",
        "bin(4100ff)",
        "str(a)",
        "str()",
        "str(a\tb\"c)",
        "capture.req.hdr(0)",
        "capture.req.uri",
        "var(txn.none)",
        "fe_name",
        "path",
    ];
    const STEPS: [&str; 10] =
        ["", "", "", ",lower", ",hex", ",length", ",json", ",base64", ",capture-req(0)", ",bool"];
    const LITERALS: [&str; 12] = ["", "a", " ", "x=", "\"q\"", "(", "{}", "é", "  ", "\t", " - ", "]"];
    let r = random;
    let modern = reference.number >= (3, 0);
    let mut text = String::new();
    if modern && r.below(3) == 0 {
        text.push_str(r.pick(&[
            "%{+json}o",
            "%{+cbor}o",
            "%{+json,+bin}o",
            "%{+cbor,+bin}o",
            "%{+Q}o",
            "%{+E}o",
            "%{+Q,+E}o",
            "%{+X}o",
            "%{+bin}o",
            "%{+json,+cbor}o",
            "%{+json,+Q}o",
        ]));
    }
    for _ in 0..=r.below(4) {
        text.push_str(r.pick(&LITERALS));
        let flags: &[&str] = match modern {
            true => &[
                "", "", "", "{+Q}", "{+X}", "{+E}", "{+Q,+E}", "{+E,+Q}", "{-Q}", "{+Q,+X}", "{-Q,-E}",
                "{+json}", "{+cbor}", "{+bin}", "{-json}", "{+z}", "{Q}", "{}",
            ],
            false => &["", "", "{+Q}", "{+X}", "{+E}"],
        };
        let flags = r.pick(flags);
        let name = match modern {
            true => r.pick(&[
                "",
                "",
                "",
                "(a)",
                "(b.c-d_e)",
                "(n:str)",
                "(n:sint)",
                "(n:bool)",
                "(n:raw)",
                "(:sint)",
                "(x y)",
                "(n:z)",
                "()",
            ]),
            false => "",
        };
        match r.below(3) {
            0 => text.push_str(&format!("%{name}{flags}{}", r.pick(&ALIASES))),
            _ => {
                let fetch = if kind == Kind::Log { r.pick(&LOGGED) } else { r.pick(&SIMPLE) };
                text.push_str(&format!("%{name}{flags}[{fetch}{}]", r.pick(&STEPS)));
            }
        }
    }
    if r.below(8) == 0 {
        text.push_str(r.pick(&["%", "%{+Q}", "%[path", "%(a", "%a b", " ", "%{+Q"]));
    }
    text
}

/// Compiles a log format.
pub fn format(kind: Kind, text: &str, env: &mut CompileEnv) -> Result<LogFormat, String> {
    let usage = match kind {
        Kind::Log => Usage::Log,
        Kind::Header => Usage::Header,
        Kind::Format | Kind::Expression | Kind::Condition => Usage::Raw,
    };
    LogFormat::compile(text, usage, env)
}

/// Renders a log format, one character for each byte.
pub fn render(format: &LogFormat, cx: &mut Ctx) -> String {
    let mut out = Vec::new();
    format.render(cx, &mut out);
    out.into_iter().map(char::from).collect()
}

/// `count` different cases that the reference knows the words of.
pub fn cases(seed: u64, count: usize, reference: &Reference) -> Vec<Case> {
    let mut random = Random { state: seed | 1, own: 0 };
    let mut seen = std::collections::HashSet::new();
    let mut cases = Vec::with_capacity(count);
    while cases.len() < count {
        random.own += 1;
        let (kind, text) = match random.below(12) {
            0 | 1 => (Kind::Condition, condition(&mut random, reference)),
            2 => (Kind::Format, log_format(Kind::Format, &mut random, reference)),
            3 => (Kind::Header, log_format(Kind::Header, &mut random, reference)),
            4 if reference.number >= (3, 2) => (Kind::Log, log_format(Kind::Log, &mut random, reference)),
            _ => (Kind::Expression, expression(&mut random, reference)),
        };
        let request = random.below(3);
        if seen.insert((text.clone(), request)) {
            cases.push(Case { number: cases.len(), kind, text, request });
        }
    }
    cases
}
