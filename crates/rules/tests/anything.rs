//! Nothing a file or a client can write makes rules panic, and what is edited stays a valid message.

mod common;

use common::*;
use proptest::prelude::*;
use thalweg_rules::*;

/// Words that actions know, and words they do not.
fn word() -> impl Strategy<Value = String> {
    let names: Vec<String> = all_actions()
        .map(|def| def.name.to_string())
        .chain(
            [
                "if",
                "unless",
                "TRUE",
                "{",
                "}",
                "status",
                "200",
                "404",
                "hdr",
                "string",
                "lf-string",
                "content-type",
                "errorfile",
                "errorfiles",
                "file",
                "len",
                "id",
                "0",
                "5",
                "-1",
                "1s",
                "99999999999999999999",
                "time",
                "at-least",
                "location",
                "prefix",
                "scheme",
                "code",
                "301",
                "realm",
                "rst-ttl",
                "-m",
                "beg",
                "reg",
                "(",
                "set-var(txn.a)",
                "set-var(",
                "set-var()",
                "set-map(x)",
                "set-map()",
                "int(1)",
                "str(a)",
                "bin(0a)",
                "src",
                "client",
                "server",
                "http",
                "proto",
                "on",
                "off",
                "layer4",
                "%[int(1)]",
                "%[",
                "%",
                "é",
                "",
                "proc.x",
                "keep-query",
                "set-cookie",
                "full",
                "strict",
                "fragment-strip",
                "profile",
                "reason",
                "\\1",
            ]
            .map(String::from),
        )
        .collect();
    prop_oneof![4 => proptest::sample::select(names), 1 => "\\PC{0,8}"]
}

fn target() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("*".to_string()),
        "/[a-z./%?&=#;+]{0,30}",
        "http://h(:8)?[/?]?[a-z./%?&=]{0,20}",
        "[a-z.:]{1,10}"
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_words_compile_or_are_refused(kind in 0usize..7, words in prop::collection::vec(word(), 0..7)) {
        let mut bench = Bench::default();
        let kind = Kind::ALL[kind];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut rules = Ruleset::new();
        if bench.compile(|env| rules.push(kind, &words, env)).is_ok() {
            let mut traffic = Traffic::default();
            traffic.run(&bench, &rules, kind, 0);
            traffic.request.check_invariants();
            traffic.response.check_invariants();
        }
        let mut error_words = vec!["http-error"];
        error_words.extend(&words);
        let _ = bench.compile(|env| ErrorRule::parse(&error_words, env).is_ok());
        let _ = bench.compile(|env| Ruleset::new().push_redirect(&words, env).is_ok());
    }

    #[test]
    fn any_target_is_edited_or_refused(target in target(), host in "[a-z.:]{0,6}") {
        let mut bench = Bench::default();
        let lines = [
            "set-path /n", "set-pathq /m?x", "set-query q", "replace-path (.) \\1\\1", "replace-uri (.*) \\1",
            "normalize-uri fragment-encode", "normalize-uri fragment-strip", "normalize-uri path-merge-slashes",
            "normalize-uri path-strip-dot", "normalize-uri path-strip-dotdot", "normalize-uri path-strip-dotdot full",
            "normalize-uri percent-decode-unreserved", "normalize-uri percent-to-uppercase",
            "normalize-uri percent-to-uppercase strict", "normalize-uri query-sort-by-name",
            "redirect prefix /p append-slash drop-query", "redirect scheme https", "redirect location /x keep-query",
            "set-header host z",
        ];
        for line in lines {
            let rules = bench.rules(Kind::HttpRequest, &[line]);
            let mut traffic = Traffic::default();
            prop_assume!(traffic.request.set_target(target.as_bytes()).is_ok());
            let _ = traffic.request.replace_value(0, host.as_bytes());
            let first = traffic.run(&bench, &rules, Kind::HttpRequest, 0);
            traffic.request.check_invariants();
            if line.starts_with("normalize-uri") && first == "Done" && !line.contains("decode") && !target.contains("&&") && !target.ends_with("&") {
                // What is normal stays as it is, but for empty parameters: one at the end is dropped each time.
                let once = show(&traffic.request);
                traffic.run(&bench, &rules, Kind::HttpRequest, 0);
                prop_assert_eq!(show(&traffic.request), once, "{}", line);
            }
        }
    }

    #[test]
    fn any_file_is_an_error_page_or_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut text = b"HTTP/1.1 404 x\r\n".to_vec();
        text.extend(&bytes);
        for input in [&bytes, &text] {
            if let Ok(raw) = RawReply::parse(input, 16384) {
                prop_assert!(raw.is_silent() || raw.status() >= 200);
            }
        }
    }
}
