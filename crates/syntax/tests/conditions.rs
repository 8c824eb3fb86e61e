//! `.if` expressions (configuration manual, section 2.4). The expected values were checked against HAProxy
//! 3.5-dev5's `-cc`.

use thalweg_syntax::{Environment, Facts, evaluate_condition};

fn facts() -> Facts {
    let set = |words: &[&str]| words.iter().map(|w| w.to_string()).collect();
    Facts {
        version: "3.5-dev5".into(),
        features: set(&["THREAD", "EPOLL"]),
        enabled: set(&["EPOLL", "SERVER-SSL-VERIFY-NONE"]),
        tls_library: None,
        openssl_version: None,
        awslc_api: None,
        fips_mode: false,
    }
}

fn evaluate(text: &str, facts: &Facts) -> Result<bool, (String, usize)> {
    let mut environment = Environment::empty();
    environment.set("HOME", "/root");
    environment.set("EMPTY", "");
    evaluate_condition(text.as_bytes(), facts, &environment).map_err(|error| (error.message, error.at))
}

#[test]
fn values() {
    let facts = facts();
    let check = |text: &str, expected: bool| assert_eq!(evaluate(text, &facts), Ok(expected), "{text}");
    for text in [
        "1",
        "-1",
        "+1",
        "10",
        "010",
        "0x10",
        "99999999999999999999",
        "1 ",
        " 1",
        "!!1",
        "(1)",
        "1||0",
        "1 && (0 || 1)",
        "!(0)",
        "!0 && 1",
        "! 0",
        "!!!0",
        "1 || 1 && 0",
        "1&&1",
        "( 1 )",
    ] {
        check(text, true);
    }
    for text in ["", " ", "0", "00", "-0", "0x0", "!1", "! 1", "((0))", "1&&0", "0 || 1 && 0", "!-1"] {
        check(text, false);
    }
    for (text, expected) in [
        ("defined(HOME)", true),
        ("defined(EMPTY)", true),
        ("defined( HOME)", false),
        ("defined(NOPE)", false),
        ("defined()", false),
        ("defined", false),
        ("!defined(X) || 0", true),
        ("feature(THREAD)", true),
        ("feature(thread)", false),
        ("feature(+THREAD)", false),
        ("feature()", false),
        ("enabled(EPOLL)", true),
        ("enabled(KQUEUE)", false),
        ("enabled(SERVER-SSL-VERIFY-NONE)", true),
        ("enabled(foo)", false),
        ("streq(a,a)", true),
        ("streq(a, a)", false),
        ("streq(,)", true),
        ("streq(a,)", false),
        (r#"streq("a,b","a,b")"#, true),
        (r#"streq("a)b",'a)b')"#, true),
        (r#"streq("a\"b",a\"b)"#, true),
        (r"streq(a\\b,'a\b')", true),
        (r"streq(a\nb,'a\nb')", false),
        (r#"streq(\x41,"\x41")"#, true),
        (r#"streq(\$x,'\$x')"#, true),
        ("streq(a b,a b)", true),
        (r#"streq(a"b"c,abc)"#, true),
        ("strneq(a,b)", true),
        ("strneq(a,a)", false),
        ("strstr(abc,b)", true),
        ("strstr(abc,)", true),
        ("strstr(b,abc)", false),
        ("version_atleast(2.4)", true),
        ("version_atleast(3.5-dev5)", true),
        ("version_atleast(3.5-dev6)", false),
        ("version_atleast(3.5-rc1)", false),
        ("version_atleast(3.5)", false),
        ("version_atleast(v3.9)", true),
        ("version_atleast()", true),
        ("version_atleast(3.5-foo)", false),
        ("version_atleast(3.4.1)", true),
        ("version_before(3.5)", true),
        ("version_before(3.5-dev5)", false),
        ("version_before(3.5-rc1)", true),
        ("openssl_version_atleast(1.1.1)", false),
        ("openssl_version_before(3.5.0)", false),
        ("ssllib_name_startswith(OpenSSL)", false),
        ("fips_mode()", false),
        ("fips_mode", false),
        ("0 && awslc_api_atleast(1)", false),
        ("1 || awslc_api_atleast(1)", true),
        ("streq(a,a)&&streq(b,b)", true),
    ] {
        check(text, expected);
    }
}

#[test]
fn a_tls_library_answers_when_there_is_one() {
    let facts = Facts {
        tls_library: Some("AWS-LC 1.60".into()),
        openssl_version: Some("1.1.1".into()),
        awslc_api: Some(35),
        fips_mode: true,
        ..facts()
    };
    for (text, expected) in [
        ("openssl_version_atleast(1.1.1)", true),
        ("openssl_version_atleast(1.1.1a)", false),
        ("openssl_version_before(3.0.0)", true),
        ("ssllib_name_startswith(AWS-LC)", true),
        ("ssllib_name_startswith(OpenSSL)", false),
        ("awslc_api_atleast(35)", true),
        ("awslc_api_before(35)", false),
        ("fips_mode()", true),
    ] {
        assert_eq!(evaluate(text, &facts), Ok(expected), "{text}");
    }
}

#[test]
fn errors() {
    let facts = facts();
    let check = |text: &str, at: usize, message: &str| {
        assert_eq!(evaluate(text, &facts), Err((message.to_string(), at)), "{text}");
    };
    check("foo", 0, "unparsable conditional expression 'foo'");
    check("foo()", 0, "unparsable conditional expression 'foo()'");
    check("Defined(HOME)", 0, "unparsable conditional expression 'Defined(HOME)'");
    check("!", 0, "unparsable conditional expression '!'");
    check("-", 0, "unparsable conditional expression '-'");
    check("--1", 0, "unparsable conditional expression '--1'");
    check("(", 0, "unparsable conditional expression '('");
    check(")", 0, "unparsable conditional expression ')'");
    check("()", 1, "unparsable conditional expression ')'");
    check("!()", 2, "unparsable conditional expression ')'");
    check("1 && (", 5, "unparsable conditional expression '('");
    check("1 &&", 2, "unparsable conditional expression '&&'");
    check("1 ||", 0, "unparsable conditional expression '1 ||'");
    check("&& 1", 0, "unparsable conditional expression '&& 1'");
    check("1 || )", 5, "unparsable conditional expression ')'");
    // What is not reached is parsed all the same.
    check("0 && foo", 5, "unparsable conditional expression 'foo'");
    check("1&&1||0&&foo()", 9, "unparsable conditional expression 'foo()'");
    check("1x", 1, "unexpected character 'x' at the end of conditional expression '1x'");
    check("08", 1, "unexpected character '8' at the end of conditional expression '08'");
    check("0xg", 1, "unexpected character 'x' at the end of conditional expression '0xg'");
    check("1 1", 2, "unexpected character '1' at the end of conditional expression '1 1'");
    check("1 |", 2, "unexpected character '|' at the end of conditional expression '1 |'");
    check("1 & 1", 2, "unexpected character '&' at the end of conditional expression '1 & 1'");
    check("1)", 1, "unexpected character ')' at the end of conditional expression '1)'");
    check("1 é", 2, "unexpected character 'é' at the end of conditional expression '1 é'");
    check(
        "defined (HOME)",
        8,
        "unexpected character '(' at the end of conditional expression 'defined (HOME)'",
    );
    check("(1", 0, "expected ')' after conditional expression '(1'");
    check("((1)", 0, "expected ')' after conditional expression '((1)'");
    check("(1 && 1", 0, "expected ')' after conditional expression '(1 && 1'");
    let context = |n: usize, name: &str| {
        format!("in argument {n} of predicate '{name}' used in conditional expression")
    };
    check("defined(", 8, &format!("expected ')' {}", context(1, "defined")));
    check("defined(a,b)", 9, &format!("expected ')' before ',b)' {}", context(1, "defined")));
    check("fips_mode(x)", 10, &format!("expected ')' before 'x)' {}", context(0, "fips_mode")));
    let missing = "missing arguments (got 1/2), type 'string' expected";
    for text in ["streq(a)", "streq()", "streq"] {
        check(text, text.len(), &format!("{missing} {}", context(1, "streq")));
    }
    check(r"streq(a\)b,a)", 9, &format!("{missing} {}", context(1, "streq")));
    check("defined('a)", 8, &format!("unmatched quote {}", context(1, "defined")));
    let invalid = |name: &str, text: &str| {
        format!("invalid argument to conditional expression predicate '{name}': '{text}'")
    };
    check("openssl_version_atleast(x)", 0, &invalid("openssl_version_atleast", "x"));
    check("1 && openssl_version_before(3)", 5, &invalid("openssl_version_before", "3"));
    check("awslc_api_atleast(1)", 0, &invalid("awslc_api_atleast", "1"));
}

#[test]
fn nesting_is_bounded() {
    let deep = |n: usize| format!("{}1{}", "(".repeat(n), ")".repeat(n));
    assert_eq!(evaluate(&deep(256), &facts()), Ok(true));
    assert!(evaluate(&deep(257), &facts()).is_err());
    assert!(evaluate(&"(".repeat(100_000), &facts()).is_err());
    assert_eq!(evaluate(&format!("{}1", "!".repeat(100_000)), &facts()), Ok(true));
}
