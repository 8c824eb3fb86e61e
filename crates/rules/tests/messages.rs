//! What users read when a rule is wrong. The first lines are those of the reference.

mod common;

use common::*;
use thalweg_rules::*;

const REQ: Kind = Kind::HttpRequest;
const RES: Kind = Kind::HttpResponse;

#[test]
fn errors_inside_http_rules() {
    for (line, want) in [
        ("set-header", "expects exactly 2 arguments"),
        ("set-header a", "expects exactly 2 arguments"),
        ("early-hint a", "expects exactly 2 arguments"),
        ("del-header", "expects at least 1 argument"),
        ("del-header a -m", "-m flag expects exactly 1 argument"),
        ("del-header a -m foo", "-m with unsupported matching method 'foo'"),
        ("replace-header a b", "expects exactly 3 arguments"),
        ("replace-value a b", "expects exactly 3 arguments"),
        ("replace-path a", "expects exactly 2 arguments <match-regex> and <replace-format>"),
        ("set-path", "expects exactly 1 argument <format>"),
        ("add-headers-bin", "expects exactly one argument or three arguments <headers> prefix <pfx>"),
        (
            "del-headers-bin bin(00) -m reg",
            "-m reg is unsupported with del-headers-bin due to performance reasons",
        ),
        (
            "set-var",
            "invalid or incomplete action 'set-var'. Expects 'set-var(<var-name>)', 'set-var-fmt(<var-name>)' or \
             'unset-var(<var-name>)'",
        ),
        ("redirect", "redirection type expected ('prefix', 'location', or 'scheme')"),
        ("redirect location", "missing argument for 'location'"),
        (
            "redirect location / code 200",
            "'code': unsupported HTTP code '200' (must be one of 301, 302, 303, 307 or 308)",
        ),
        ("redirect location / set-cookie", "missing argument for 'set-cookie'"),
        ("auth realm", "missing realm value.\n"),
        ("capture", "expects <expression> [ 'len' <length> | id <idx> ]"),
        ("capture int(1)", "expects <expression> [ 'len' <length> | id <idx> ]"),
        ("capture int(1) len", "expects <expression> [ 'len' <length> | id <idx> ]"),
        ("capture int(1) len 0", "length must be > 0"),
        ("capture int(1) foo 1", "expects 'len' or 'id', found 'foo'"),
        ("set-nice", "expects exactly 1 argument (integer value)"),
        ("set-log-level foo", "expects exactly 1 argument (log level name or 'silent')"),
        ("set-mark", "expects an argument"),
        ("set-timeout server", "expects exactly 2 arguments"),
        (
            "set-timeout foo 5s",
            "'set-timeout' rule supports 'client'/'connect'/'queue'/'server'/'tarpit'/'tunnel' (got 'foo')",
        ),
        ("set-timeout server abc", "unexpected character 'a' in rule 'set-timeout server'"),
        ("set-timeout server 0", "null value is not valid for a 'set-timeout server' rule"),
        ("set-timeout client 5x", "unexpected character 'x' in rule 'set-timeout client'"),
        ("set-src", "missing fetch method"),
        ("set-priority-class", "missing fetch method"),
        ("silent-drop rst-ttl", "missing rst-ttl value\n"),
        ("silent-drop rst-ttl 300", "valid rst-ttl values are [1-255]\n"),
        ("strict-mode", "expects exactly 1 arguments"),
        ("strict-mode foo", "Unexpected value 'foo'. Only 'on' and 'off' are supported"),
        ("wait-for-body", "expects time <time> [ at-least <bytes> ]"),
        ("wait-for-body time", "missing argument for 'time'"),
        ("wait-for-body time abc", "unexpected character 'a'"),
        ("wait-for-body time 1s at-least", "missing argument for 'at-least'"),
        ("wait-for-body time 1s at-least abc", "unexpected character 'a'"),
        ("pause abc", "unexpected character 'a' in rule 'pause'"),
        ("normalize-uri", "missing argument <normalizer>"),
        ("normalize-uri foo", "unknown normalizer 'foo'"),
        ("normalize-uri path-strip-dotdot foo", "unknown argument 'foo' for 'path-strip-dotdot' normalizer"),
        ("use-service", "'use-service' expects a service name."),
        ("use-service foo", "'foo' unknown service name."),
        ("set-retries", "expects exactly 1 argument (an expression or an integer between 1 and 100)"),
        ("set-retries 200", "expects an expression or an integer between 1 and 100"),
        ("set-map(m) a", "expects exactly 2 arguments"),
        ("add-acl(m)", "expects exactly 1 argument"),
        ("set-map a b", "invalid action 'set-map': expects a file name in parentheses"),
        ("do-log profile", "action 'do-log': 'profile' expects argument."),
        ("pause 0", "null value is not valid for a 'pause' rule"),
    ] {
        let name = line.split(' ').next().unwrap();
        let want = format!("error detected in proxy 'px' while parsing 'http-request {name}' rule : {want}.");
        assert_eq!(Bench::default().error(REQ, line), want, "{line}");
    }
    for (line, want) in [
        ("set-status", "expects 1 argument: <status>; or 3 arguments: <status> reason <fmt>"),
        ("set-status 50", "expects an integer status code between 100 and 999"),
        ("redirect prefix /", "response only supports redirect type 'location'"),
        ("capture int(1) len 5", "expects 'id', found 'len'"),
    ] {
        let name = line.split(' ').next().unwrap();
        let want =
            format!("error detected in proxy 'px' while parsing 'http-response {name}' rule : {want}.");
        assert_eq!(Bench::default().error(RES, line), want, "{line}");
    }
}

#[test]
fn errors_around_rules() {
    for (kind, line, want) in [
        (
            REQ,
            "deny blah",
            "'http-request deny' expects either 'if' or 'unless' followed by a condition but found 'blah'.",
        ),
        (
            REQ,
            "deny if foo",
            "error detected while parsing an 'http-request deny' condition : no such ACL : 'foo'.",
        ),
        (
            Kind::TcpRequest,
            "accept foo",
            "'tcp-request content accept' only accepts 'if' or 'unless', in proxy 'px' (got 'foo')",
        ),
        (
            Kind::TcpRequest,
            "accept if foo",
            "'tcp-request content accept' : error detected in proxy 'px' while parsing 'if' condition : no such ACL \
             : 'foo'",
        ),
        (Kind::TcpRequest, "set-nice", "expects exactly 1 argument (integer value)"),
        (Kind::TcpRequest, "switch-mode", "'tcp-request switch-mode' expects a mode as argument."),
        (Kind::TcpRequest, "switch-mode tcp", "'tcp-request switch-mode' expects a valid mode (got 'tcp')."),
        (
            Kind::TcpRequest,
            "switch-mode http proto foo",
            "'tcp-request switch-mode': 'proto' expects a valid MUX protocol, if specified (got 'foo')",
        ),
        (Kind::TcpRequest, "capture int(1) len 0", "'tcp-request content capture' : length must be > 0"),
        (
            Kind::TcpConnection,
            "expect-proxy",
            "'tcp-request connection expect-proxy' only supports 'layer4' in proxy 'px' (got '')",
        ),
        (
            REQ,
            "lua.x",
            "'http-request lua.x' is known but not supported yet: it needs Lua. Remove the line, or keep \
             the reference for this file until then.",
        ),
    ] {
        assert_eq!(Bench::default().error(kind, line), want, "{line}");
    }
    let error = Bench::default().error(REQ, "set-heade a b");
    assert!(error.starts_with("'http-request' expects 'allow', "), "{error}");
    assert!(error.contains("but got 'set-heade'."), "{error}");
    assert!(error.ends_with("; did you mean 'set-header' maybe ?"), "{error}");
    let error = Bench::default().error(Kind::TcpRequest, "");
    assert!(error.starts_with("'tcp-request content' expects 'accept', "), "{error}");
    let error = Bench::default().error(REQ, "set-status 200");
    assert!(error.ends_with("Action 'set-status' is for: http-response, http-after-response."), "{error}");
    let mut strict = Bench { experimental: false, ..Bench::default() };
    assert_eq!(
        strict.error(REQ, "normalize-uri path-merge-slashes"),
        "'normalize-uri' action is experimental, must be allowed via a global 'expose-experimental-directives'"
    );
}

#[test]
fn capabilities_of_the_section_count() {
    let front = thalweg_sample::ProxyScope { name: "f", backend: false, ..LISTEN };
    let back = thalweg_sample::ProxyScope { name: "b", frontend: false, ..LISTEN };
    let defaults = thalweg_sample::ProxyScope { name: "d", defaults: true, ..LISTEN };
    for (proxy, kind, line, want) in [
        (
            front,
            REQ,
            "set-timeout server 5s",
            "error detected in frontend 'f' while parsing 'http-request set-timeout' rule : 'f' has no backend \
             capability.",
        ),
        (
            back,
            REQ,
            "set-timeout client 5s",
            "error detected in backend 'b' while parsing 'http-request set-timeout' rule : 'b' has no frontend \
             capability.",
        ),
        (
            front,
            REQ,
            "set-retries 3",
            "error detected in frontend 'f' while parsing 'http-request set-retries' rule : 'set-retries' only \
             available in backend or listen section.",
        ),
        (
            defaults,
            REQ,
            "set-retries 3",
            "error detected in defaults 'd' while parsing 'http-request set-retries' rule : 'set-retries' is not \
             allowed in 'defaults' sections.",
        ),
        (
            back,
            REQ,
            "capture int(1) len 5",
            "error detected in backend 'b' while parsing 'http-request capture' rule : proxy 'b' has no frontend \
             capability.",
        ),
        (
            back,
            Kind::TcpRequest,
            "switch-mode http",
            "'tcp-request switch-mode' not allowed because backend 'b' has no frontend capability",
        ),
    ] {
        let mut bench = Bench { proxy, ..Bench::default() };
        assert_eq!(bench.error(kind, line), want, "{line}");
    }
}

#[test]
fn rules_that_can_never_run_are_said() {
    let never =
        "previous 'http-request' action is final and has no condition attached, further entries are NOOP.";
    for (lines, want) in [
        (&["deny", "allow"][..], 1),
        (&["deny if TRUE", "allow"], 0),
        (&["set-header a b", "allow"], 0),
        (&["redirect location /", "allow"], 1),
        (&["redirect location / ignore-empty", "allow"], 0),
        (&["use-service echo", "allow"], 1),
        (&["allow"], 0),
    ] {
        let mut bench = Bench::default();
        bench.rules(REQ, lines);
        assert_eq!(bench.warnings, vec![never; want], "{lines:?}");
    }
}

#[test]
fn inherited_rules_come_first() {
    let mut bench = Bench::default();
    let parent = bench.rules(REQ, &["set-header a parent"]);
    let mut child = bench.rules(REQ, &["add-header a child"]);
    child.inherit(&parent);
    let mut traffic = Traffic::request("GET /");
    assert_eq!(traffic.run(&bench, &child, REQ, 0), "Done");
    assert_eq!(show(&traffic.request), "GET /|a: parent|a: child");
}
