//! Replies we make ourselves: parsing, lookup, and the bytes that are sent.

mod common;

use common::*;
use std::sync::Arc;
use thalweg_http::Head;
use thalweg_rules::*;

const REQ: Kind = Kind::HttpRequest;

/// Files the tests refer to.
fn bench() -> Bench {
    let mut bench = Bench::default();
    for (name, content) in [
        (
            "ok.http",
            "HTTP/1.0 404 Not Found\r\nCache-Control: no-cache\r\nConnection: close\r\nX: y\r\n\r\nbody\n",
        ),
        ("length.http", "HTTP/1.1 404 NF\nContent-Length: 5\nX: y\n\nbody\n"),
        ("short.http", "HTTP/1.1 404 NF\nContent-Length: 3\nX: y\n\nbody\n"),
        ("garbage.http", "garbage\n\n"),
        ("cut.http", "HTTP/1.1 404 Not Found\r\nX: y"),
        ("chunked.http", "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("interim.http", "HTTP/1.1 100 C\r\n\r\n"),
        ("bare.http", "HTTP/1.1 404\r\n\r\nhello"),
        ("empty.http", ""),
        ("text", "text %[int(7)]"),
    ] {
        bench.world.files.insert(name.into(), content.as_bytes().to_vec());
    }
    bench.world.files.insert("big".into(), vec![b'x'; 17000]);
    let big = [b"HTTP/1.1 404 a\r\n\r\n".as_slice(), &[b'x'; 17000]].concat();
    bench.world.files.insert("big.http".into(), big);
    bench
}

/// The reply of the first rule, written: head and body.
fn reply(line: &str) -> (String, String) {
    let mut bench = bench();
    let rules = bench.rules(REQ, &[line]);
    Traffic::default().with(&bench, REQ, |cx, fx| {
        let (Outcome::Return(reply) | Outcome::Deny(reply) | Outcome::Tarpit(reply)) =
            rules.run(REQ, 0, cx, fx)
        else {
            panic!("{line}")
        };
        let (mut head, mut body) = (Head::new(), Vec::new());
        let sent = reply.resolved(None, None).write(cx, fx, &mut head, &mut body).unwrap();
        if !sent {
            return ("nothing".into(), String::new());
        }
        (show(&head), String::from_utf8(body).unwrap())
    })
}

#[test]
fn replies_are_written_as_the_reference_does() {
    for (line, head, body) in [
        ("return", "200|content-length: 0", ""),
        ("return status 299", "299|content-length: 0", ""),
        ("return status 204", "204|content-length: 0", ""),
        (
            "return content-type text/plain string hello hdr X-A '%[int(3)]'",
            "200|x-a: 3|content-length: 5|content-type: text/plain",
            "hello",
        ),
        ("return content-type a/b lf-string 'n=%[int(3)]'", "200|content-length: 3|content-type: a/b", "n=3"),
        ("return content-type a/b lf-string '%[str()]'", "200|content-length: 0", ""),
        ("return content-type a/b file text", "200|content-length: 14|content-type: a/b", "text %[int(7)]"),
        ("return content-type a/b lf-file text", "200|content-length: 6|content-type: a/b", "text 7"),
        ("return file empty.http", "200|content-length: 0", ""),
        ("return hdr a '%[str()]' hdr content-length 7 hdr content-type x", "200|content-length: 0", ""),
        (
            "return status 404 errorfile ok.http",
            "404|cache-control: no-cache|x: y|content-length: 5",
            "body\n",
        ),
        ("return errorfile length.http", "404|content-length: 5|x: y", "body\n"),
        ("return errorfile bare.http", "404|content-length: 5", "hello"),
        ("return errorfile empty.http", "nothing", ""),
        ("deny status 404", "404|content-length: 0", ""),
        (
            "deny",
            "403|content-length: 93|cache-control: no-cache|content-type: text/html",
            "<html><body><h1>403 Forbidden</h1>\nRequest forbidden by administrative rules.\n</body></html>\n",
        ),
        (
            "deny deny_status 400",
            "400|content-length: 90|cache-control: no-cache|content-type: text/html|connection: close",
            "<html><body><h1>400 Bad request</h1>\nYour browser sent an invalid request.\n</body></html>\n",
        ),
        (
            "tarpit",
            "500|content-length: 97|cache-control: no-cache|content-type: text/html",
            "<html><body><h1>500 Internal Server Error</h1>\nAn internal server error occurred.\n</body></html>\n",
        ),
    ] {
        assert_eq!(reply(line), (head.to_string(), body.to_string()), "{line}");
    }
}

/// Lengths of the default pages, as printed by the reference: a changed byte shows here.
#[test]
fn default_pages_have_the_reference_sizes() {
    let want = [
        (200, 58),
        (400, 90),
        (401, 112),
        (403, 93),
        (404, 83),
        (405, 147),
        (407, 112),
        (408, 110),
        (410, 114),
        (413, 106),
        (414, 110),
        (421, 104),
        (422, 116),
        (425, 80),
        (429, 117),
        (431, 105),
        (500, 97),
        (501, 135),
        (502, 107),
        (503, 107),
        (504, 92),
    ];
    assert_eq!(want.map(|w| w.0), GENERATED_CODES);
    for (status, length) in want {
        let (head, body) = reply(&format!("return status {status} default-errorfiles"));
        assert_eq!(body.len(), length, "{status}");
        assert_eq!(head.contains("|connection: close"), matches!(status, 400 | 408), "{status}");
    }
}

#[test]
fn errors_of_replies() {
    let place = "error detected in proxy 'px' while parsing 'http-request return' rule : ";
    for (line, want) in [
        ("return status", "'status' expects <status_code> as argument."),
        ("return status 100", "Unexpected status code '100'."),
        ("return status abc", "Unexpected status code '0'."),
        ("return string foo", "a content type must be defined when non-empty payload is configured."),
        ("return content-type", "'content-type' expects <ctype> as argument."),
        ("return string", "'string' expects <str> as argument."),
        ("return hdr a", "'hdr' expects <name> and <value> as arguments."),
        ("return file /no", "error opening file '/no'."),
        ("return errorfile /no", "error opening file '/no'.."),
        ("return string a string b", "unexpected 'string' argument, 'string' already defined."),
        ("return errorfile ok.http string b", "unexpected 'string' argument, 'errorfile' already defined."),
        ("return status 304 content-type t string b", "No body expected for 304 responses."),
        (
            "return status 299 default-errorfiles",
            "status code '299' not handled by default with 'default-errorfiles' argument..",
        ),
        (
            "return status 299 errorfiles x",
            "status code '299' not handled by default with 'errorfiles' argument..",
        ),
        ("return content-type t file big", "file 'big' exceeds the buffer size (17000 > 16384)."),
        ("return errorfile garbage.http", "'garbage.http': unable to parse headers (error offset: 0)."),
    ] {
        assert_eq!(bench().error(REQ, line), format!("{place}{want}"), "{line}");
    }
    assert_eq!(
        bench().error(REQ, "deny deny_status 499"),
        "error detected in proxy 'px' while parsing 'http-request deny' rule : status code '499' not handled by \
         default with 'default-errorfiles' argument.."
    );
    assert_eq!(bench().push(&mut Ruleset::new(), REQ, "deny status 499"), Ok(()));
}

#[test]
fn what_has_no_effect_is_said() {
    for (line, want) in [
        (
            "return content-type a/b",
            "content-type 'a/b' ignored by the http reply because neither errorfile nor payload defined.",
        ),
        (
            "return status 404 content-type a/b errorfile ok.http",
            "content-type 'a/b' ignored by the http reply when used with an errorfile.",
        ),
        (
            "return status 404 errorfile ok.http hdr a b",
            "hdr parameters ignored by the http reply when used with an errorfile.",
        ),
        (
            "return content-type a file empty.http",
            "content-type 'a' ignored by the http reply when used with an empty payload.",
        ),
    ] {
        let mut bench = bench();
        bench.rules(REQ, &[line]);
        assert_eq!(bench.warnings, [want], "{line}");
    }
}

fn error_rule(line: &str) -> Result<ErrorRule, String> {
    let words = words(line);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    bench().compile(|env| ErrorRule::parse(&words, env))
}

#[test]
fn error_lines_are_checked() {
    for (line, want) in [
        ("errorfile", "errorfile : expects <status_code> and <file> as arguments."),
        ("errorfile 299 /x", "errorfile : status code '299' not handled."),
        ("errorfile abc /x", "errorfile : status code '0' not handled."),
        ("errorfile 404 /no", "errorfile : error opening file '/no'."),
        (
            "errorfile 404 short.http",
            "errorfile : 'short.http': payload size does not match the announced content-length (5 != 3)",
        ),
        ("errorfile 404 cut.http", "errorfile : 'cut.http': unable to parse headers (error offset: -2)"),
        ("errorfile 404 chunked.http", "errorfile : 'chunked.http': chunk-encoded payload not supported"),
        (
            "errorfile 404 interim.http",
            "errorfile : 'interim.http': invalid http status code for an error message (100)",
        ),
        ("errorfile 404 big.http", "errorfile : 'big.http': unable to add payload into the HTX message"),
        ("errorloc 404", "errorloc : expects <status_code> and <url> as arguments."),
        ("errorloc303 299 /x", "errorloc303 : status code '299' not handled."),
        ("errorfiles", "errorfiles : expects <name> as argument."),
        ("errorfiles x 299", "errorfiles : status code '299' not handled."),
        ("http-error", "http-error : expects at least a <status> as arguments."),
        ("http-error status", "http-error : 'status' expects <status_code> as argument"),
        (
            "http-error status 404 string a",
            "http-error : a content type must be defined when non-empty payload is configured",
        ),
        ("http-error status 403 foo", "http-error : unknown keyword 'foo'."),
    ] {
        assert_eq!(error_rule(line).expect_err(line), want, "{line}");
    }
}

/// Backend first, then frontend, then ours; sections imported whole or in part; later lines win.
#[test]
fn lookup_follows_the_proxies() {
    let section = |lines: &[&str]| {
        let mut errors = HttpErrors { name: "s".into(), ..HttpErrors::default() };
        for line in lines {
            error_rule(line).unwrap().apply(&mut errors.replies, &|_| None).unwrap();
        }
        Arc::new(errors)
    };
    let site = section(&["errorloc 403 /s403", "errorloc303 404 /s404"]);
    let find = |name: &str| (name == "site").then(|| site.clone());
    let replies = |lines: &[&str]| {
        let mut replies = ErrorReplies::default();
        for line in lines {
            error_rule(line).unwrap().apply(&mut replies, &find).unwrap();
        }
        replies
    };
    let shown = |reply: &Reply| {
        Traffic::default().with(&bench(), REQ, |cx, fx| {
            let (mut head, mut body) = (Head::new(), Vec::new());
            reply.write(cx, fx, &mut head, &mut body).unwrap();
            show(&head)
        })
    };
    let frontend = replies(&["errorfiles site", "errorfile 500 bare.http"]);
    let backend = replies(&[
        "errorfiles site 404",
        "http-error status 404 content-type a/b lf-string 'x%[int(1)]' hdr q r",
        "errorloc 503 /b503",
        "http-error status 503 default-errorfiles",
    ]);
    let look = |status| shown(reply_for(status, Some(&backend), Some(&frontend)));
    assert_eq!(look(403), "302|cache-control: no-cache|content-length: 0|location: /s403");
    assert_eq!(look(404), "404|q: r|content-length: 2|content-type: a/b");
    assert_eq!(look(500), "404|content-length: 5");
    assert!(look(503).starts_with("503|content-length: 107"));
    assert_eq!(
        shown(reply_for(404, None, Some(&frontend))),
        "303|cache-control: no-cache|content-length: 0|location: /s404"
    );
    let missing = error_rule("errorfiles nope").unwrap().apply(&mut ErrorReplies::default(), &find);
    assert_eq!(missing, Err("unknown http-errors section 'nope'".into()));

    // A rule may name a section too: once resolved it is used, and what it lacks comes from the proxy.
    let mut bench = bench();
    let rules = bench.rules(REQ, &["return status 404 errorfiles site"]);
    let references = |find: &dyn Fn(&str) -> Option<Arc<HttpErrors>>| {
        rules.resolve(
            REQ,
            "px",
            &References {
                traces: true,
                http_errors: find,
                log_profile: &|_| true,
                patterns: &bench.registry,
                captures: None,
                resolvers: &|_| None,
                bandwidth_filter: &|_| None,
            },
        )
    };
    assert_eq!(
        references(&|_| None),
        ["Proxy 'px': unknown http-errors section 'site' referenced by an http reply ."]
    );
    assert_eq!(references(&find), Vec::<String>::new());
    let got = Traffic::default().with(&bench, REQ, |cx, fx| {
        let Outcome::Return(reply) = rules.run(REQ, 0, cx, fx) else { panic!() };
        let (mut head, mut body) = (Head::new(), Vec::new());
        reply.resolved(Some(&backend), Some(&frontend)).write(cx, fx, &mut head, &mut body).unwrap();
        show(&head)
    });
    assert_eq!(got, "303|cache-control: no-cache|content-length: 0|location: /s404");
}
