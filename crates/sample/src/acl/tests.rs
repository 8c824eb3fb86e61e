use super::*;
use crate::testing::Rig;
use crate::{Point, Points};

fn rig() -> Rig {
    Rig::with_request("GET /p/a/t/h.html?q=1&b=2 HTTP/1.1\r\nHost: Www.Example.com:8080\r\nX: a,b, c\r\n\r\n")
}

/// What the reference answered to the same conditions.
#[test]
fn matching_methods() {
    let mut rig = rig();
    for line in "\
str(/a/b?c/d) -m dir b => true
str(/a/b?c/d) -m dir c => true
str(/a/b?c/d) -m dir b?c => true
str(a.b:c/d?e) -m dom b => true
str(a.b:c/d?e) -m dom b:c => true
str(a.b:c/d?e) -m dom e => true
str(a.b:c/d?e) -m dom .b. => true
str(a.b:c/d?e) -m dom / => false
str(/a/b) -m dir /a/ => true
str(/a/b) -m dir // => false
str(/a/b) -m dir a/b => true
str(abc) -m sub bc => true
int(5) -m len 1 => true
int(55) -m beg 5 => true
src -m beg 127 => true
src 127/8 => false
src 127.0.0.1/255.0.0.255 => true
src 127.1 => true
src 126.0.0.0/7 => true
src 10.0.0.1 127.0.0.1 => true
src ::ffff:127.0.0.1 => true
src ::ffff:127.0.0.0/104 => true
src ::127.0.0.1 => false
src 2002:7f00:1::/48 => false
ipv6(::ffff:1.2.3.4) 1.2.3.4 => true
ipv6(::1.2.3.4) 1.2.3.4 => true
ipv6(2002:0102:0304::) 1.2.3.4 => true
str(1.2.3.4) -m ip 1.2.3.0/24 => true
str(::ffff:1.2.3.4) -m ip 1.2.3.0/24 => true
bin(414243) -m str ABC => true
bin(414243) -m bin 414243 => true
bin(414243) -m bin 4142 => false
str(ABC) -m bin 414243 => true
str(ABC) -i -m str abc => true
str(ABC) -m beg -i ab => true
bool(0) -m found => true
bool(0) -m bool => false
int(3) -m bool => true
str(1) -m bool => true
str(a) -m bool => false
str(3) -m int 3 => true
str(3x) -m int 3 => true
int(5) 1:4 5:6 => true
int(5) gt 5 => false
int(5) ge 5 => true
int(5) le 4 => false
int(5) lt 4 6 => true
int(5) lt 6 gt 4 => true
int(5) :5 => true
int(5) 5: => true
ipv4(1.2.3.4) -m int 16909060 => true
ipv4(1.2.3.4) -m str 1.2.3.4 => true
bool(1) -m int 1 => true
bool(1) -m str 1 => true
method GET => true
method get => false
method -i get => false
method -m str -i get => true
req.hdr(nope) -m len 0 => false
req.hdr_cnt(nope) 0 => true
hdr(x) b => true
hdr(x) a,b => false
req.fhdr(x) b => false
hdr_val(x) 0 => true
url_dom p => true
hdr_dom(host) example => false
hdr_dom(host) Example.com => true
hdr_dom(host) -i example.com => true
hdr(host),lower -m dom example.com => true
path_len 5:10 => false
path_beg /p => true
path_end .html => true
path_sub a/t => true
path_dir t => true
path_reg ^/p/.*l$ => true
path -m reg -i ^/P => true
str(abc) -m end bc => true
str(abc) -m str abc abd => true
bool(1) x => true
bool(0) x => false
int(0) -m bool x => false
str(a.b) -m dom .. => false
str(x) -m bin 78 => true
hdr(x) -m len 1 => true
ipv4(10.0.0.12) 10.12 => true
ipv4(10.1.1.1) 10.12/8 => true
ipv4(1.2.3.5) 1.2.3.4/255.255.255.254 => true
ipv6(2001:db8::5) 2001:db8::/32 => true
req.ver 1.1 => true
req.ver -m int 1 => true
str(-i) -m str -- -i => true"
        .lines()
    {
        let (test, expected) = line.split_once(" => ").unwrap();
        let verdict = rig.verdict(&format!("if {{ {test} }}"));
        assert_eq!(verdict == Verdict::Pass, expected == "true", "{test}");
    }
}

#[test]
fn conditions_combine() {
    let mut rig = rig();
    for (text, expected) in [
        ("if TRUE", true),
        ("unless TRUE", false),
        ("if !TRUE", false),
        ("if ! TRUE", false),
        ("if !!TRUE", true),
        ("if TRUE FALSE", false),
        ("if TRUE !FALSE", true),
        ("if FALSE or TRUE", true),
        ("if FALSE || TRUE", true),
        ("if TRUE FALSE or TRUE !FALSE", true),
        ("unless FALSE or FALSE", true),
        ("if { path /x } or { path_beg /p } TRUE", true),
        ("if METH_GET HTTP_1.1 !HTTP_1.0 HTTP LOCALHOST HTTP_URL_SLASH !HTTP_URL_ABS !HTTP_URL_STAR", true),
        (
            "if METH_POST or METH_HEAD or METH_PUT or METH_TRACE or METH_DELETE or METH_CONNECT or METH_OPTIONS",
            false,
        ),
        ("if HTTP_CONTENT or RDP_COOKIE or HTTP_2.0 or HTTP_3.0", false),
        ("if REQ_CONTENT WAIT_END", true),
    ] {
        assert_eq!(rig.verdict(text) == Verdict::Pass, expected, "{text}");
    }
}

fn add(rig: &mut Rig, words: &str) -> Result<(), String> {
    let words: Vec<&str> = words.split(' ').collect();
    let mut acls = std::mem::take(&mut rig.acls);
    let result = rig.compile(|env| acls.add(&words, env));
    rig.acls = acls;
    result
}

#[test]
fn named_acls_are_alternatives() {
    let mut rig = rig();
    add(&mut rig, "a path /x").unwrap();
    assert_eq!(rig.verdict("if a"), Verdict::Fail);
    add(&mut rig, "a path_beg /p").unwrap();
    assert_eq!(rig.verdict("if a"), Verdict::Pass);
    assert_eq!(rig.verdict("if !a"), Verdict::Fail);
    assert_eq!(rig.eval("acl(a)").as_deref(), Some("1"));
    // A name of ours hides a predefined one.
    add(&mut rig, "TRUE path /none").unwrap();
    assert_eq!(rig.verdict("if TRUE"), Verdict::Fail);
}

/// The reference reads on in the next word where a comma ends one (2026-11-22).
#[test]
fn converters_may_stand_in_the_next_word() {
    let mut rig = rig();
    add(&mut rig, "a req.hdr(host), lower -m beg www.").unwrap();
    add(&mut rig, "b req.hdr(host), lower, field(2,:) 8080").unwrap();
    assert_eq!(rig.verdict("if a b"), Verdict::Pass);
    assert_eq!(rig.verdict("if { req.hdr(host), upper -m beg WWW. }"), Verdict::Pass);
    // What is none is a pattern.
    add(&mut rig, "c path, /p/a/t/h.html").unwrap();
    assert_eq!(rig.verdict("if c"), Verdict::Pass);
}

#[test]
fn patterns_come_from_files() {
    let mut rig = rig();
    rig.world.files.insert("hosts".into(), b"# hosts\nexample.org\nwww.example.com:8080\n".to_vec());
    assert_eq!(rig.verdict("if { hdr(host) -i -f hosts }"), Verdict::Pass);
    assert_eq!(rig.verdict("if { hdr(host) -f hosts }"), Verdict::Fail);
    assert_eq!(rig.verdict("if { hdr(host) -i -f hosts other }"), Verdict::Pass);
    assert_eq!(rig.verdict("if { hdr(host) -f opt@absent -f virt@none }"), Verdict::Fail);
    rig.registry.find("virt@none").unwrap().add(b"Www.Example.com:8080", b"").unwrap();
    assert_eq!(rig.verdict("if { hdr(host) -f virt@none }"), Verdict::Pass);
}

#[test]
fn mistakes_are_explained() {
    for (words, expected) in [
        (
            "a foo bar",
            "error detected while parsing ACL 'a' : unknown fetch method 'foo' in ACL expression 'foo'",
        ),
        ("a", "error detected while parsing ACL 'a' : missing fetch method in ACL expression ''"),
        (
            "a hdr(host) -m foo x",
            "error detected while parsing ACL 'a' : unknown matching method 'foo' when parsing ACL expression",
        ),
        ("a src abc", "error detected while parsing ACL 'a' : 'abc' is not a valid IPv4 or IPv6 address"),
        ("a dst_port xx", "error detected while parsing ACL 'a' : 'xx' is not a number"),
        ("a dst_port 5:3", "error detected while parsing ACL 'a' : '5:3' is not a valid number range"),
        (
            "a bin(41) 41",
            "error detected while parsing ACL 'a' : matching method must be specified first (using '-m') when using a sample fetch of this type ('bin')",
        ),
        (
            "a req.body -m bin 4",
            "error detected while parsing ACL 'a' : an even number of hex digit is expected",
        ),
        (
            "a hdr(a) -f /nonexist",
            "error detected while parsing ACL 'a' : failed to open pattern file </nonexist>",
        ),
        (
            "a hdr(a) -z x",
            "error detected while parsing ACL 'a' : '-z' is not a valid ACL option. Please use '--' before any pattern beginning with a '-'",
        ),
        (
            "a path -m beg -m end x",
            "error detected while parsing ACL 'a' : only one explicit matching method can be defined with '-m' parameter. if migrating from an old version, just keep the last one",
        ),
        ("a path -u x y", "error detected while parsing ACL 'a' : the argument of -u must be an integer"),
        (
            "a hdr(a),foo x",
            "error detected while parsing ACL 'a' : ACL keyword 'hdr' : unknown converter 'foo'",
        ),
        (
            "a bin(01020304) -m ip 1.2.3.4",
            "error detected while parsing ACL 'a' : matching method 'ip' cannot be used with fetch keyword 'bin'",
        ),
        (
            "or path x",
            "acl name 'or' will never match. 'or' is used to express a logical disjunction within a condition",
        ),
        ("a+b path x", "character '+' is not permitted in acl name 'a+b'"),
    ] {
        assert_eq!(add(&mut rig(), words).unwrap_err(), expected, "{words}");
    }
    for (text, expected) in [
        ("if foo", "no such ACL : 'foo'"),
        ("if { path /a", "missing closing '}' in condition"),
        ("when x", "expects either 'if' or 'unless' followed by a condition but found 'when'"),
    ] {
        let words: Vec<&str> = text.split(' ').collect();
        let result = rig().compile(|env| Condition::compile(&words, env).map(|_| ()));
        assert_eq!(result.unwrap_err(), expected);
    }
}

#[test]
fn impossible_tests_are_warned_about() {
    let mut rig = rig();
    rig.points = Points(Point::FeHttpRequest.set().0);
    rig.verdict("if { status 200 }");
    assert_eq!(
        rig.warnings,
        [
            "'anonymous acl will never match because it uses keyword 'status' which is incompatible with 'frontend \
          http-request header rule'"
        ]
    );
    add(&mut rig, "a status 200").unwrap();
    rig.verdict("if a");
    assert_eq!(
        rig.warnings,
        [
            "'acl 'a' will never match because it only involves keywords that are incompatible with 'frontend http-request \
          header rule'"
        ]
    );
    add(&mut rig, "a path /").unwrap();
    rig.verdict("if a");
    assert_eq!(
        rig.warnings,
        [
            "'acl 'a' involves keywords 'status' which is incompatible with 'frontend http-request header rule'"
        ]
    );
    add(&mut rig, "b hdr(host)").unwrap();
    assert!(
        rig.warnings[0]
            .starts_with("parsing acl keyword 'hdr(host)' :\n  no pattern to match against were provided")
    );
    add(&mut rig, "c hdr_beg(a),lower x").unwrap();
    assert_eq!(
        rig.warnings,
        ["original matching method 'hdr_beg' was overwritten and will not be applied as expected"]
    );
    // Its own method may be named again.
    for (line, warned) in [
        ("hdr_end(a) -m end x", false),
        ("hdr_end(a),lower -m end x", false),
        ("hdr_reg(a) -i -m reg x", false),
        ("hdr_end(a) -m beg x", true),
        ("hdr_end(a) -m found", true),
        ("path_len -m int 3", true),
    ] {
        add(&mut rig, &format!("d {line}")).unwrap();
        assert_eq!(!rig.warnings.is_empty(), warned, "{line}");
    }
}

/// What the reference makes of integers: a dash separates, too, and an operator says nothing about a range.
#[test]
fn integers_ranges_and_operators() {
    let mut rig = rig();
    for (line, expected) in [
        ("int(3) 1-5", true),
        ("int(6) 1-5", false),
        ("int(-7) :-5", true),
        ("int(-4) :-5", false),
        ("int(-3) -- -3", true),
        ("int(-4) -- -3", false),
        ("int(1) gt 1.5", false),
        ("int(2) gt 1.5", true),
        ("int(5) gt 1:9", true),
        ("int(10) gt 1:9", false),
        ("int(-60) ge -60", true),
        ("int(-61) ge -60", false),
        ("int(1000) ge -60", true),
        ("int(-60) gt -60", false),
        ("int(-59) gt -60", true),
        ("int(-60) le -60", true),
        ("int(-59) le -60", false),
        ("int(-60) lt -60", false),
        ("int(-5) lt -1 gt -8", true),
    ] {
        assert_eq!(rig.verdict(&format!("if {{ {line} }}")) == Verdict::Pass, expected, "{line}");
    }
    for line in [
        "-5",
        "+5",
        "9223372036854775808",
        "gt 9223372036854775807",
        "5:1",
        "-- -5:9",
        "-- -5:",
        "1.5",
        "le -1.5",
        ":",
        "2-:5",
    ] {
        let words: Vec<&str> =
            ["if", "{", "src_port"].into_iter().chain(line.split(' ')).chain(["}"]).collect();
        assert!(rig.compile(|env| Condition::compile(&words, env)).is_err(), "{line}");
    }
}
