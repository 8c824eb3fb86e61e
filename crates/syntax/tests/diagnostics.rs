//! What people read: the exact text of each message, and what the preprocessor lets through. First lines were
//! compared with HAProxy 3.5-dev5's; the one deliberate difference is that the location is always spelled
//! `[file:line] : `.

use thalweg_syntax::render::message_line;
use thalweg_syntax::{
    Diagnostic, Diagnostics, Environment, Facts, Lead, Reader, RenderOptions, Severity, SourceMap, Span,
};

struct Outcome {
    sources: SourceMap,
    diagnostics: Diagnostics,
    /// The lines that count, words separated by '|'.
    lines: Vec<String>,
}

fn read_bytes(text: &[u8]) -> Outcome {
    let mut sources = SourceMap::new();
    let file = sources.add("t.cfg", text.to_vec());
    let mut diagnostics = Diagnostics::new();
    let mut environment = Environment::empty();
    environment.set("SET", "yes");
    let mut reader = Reader::new(Facts { version: "3.5-dev5".into(), ..Facts::default() }, environment);
    reader.start_file(file);
    let mut lines = Vec::new();
    while let Some(line) = reader.next_line(&sources, &mut diagnostics) {
        // Enough of a grammar for the tests: `setenv` and section names.
        match line.keyword().text() {
            "setenv" => reader.environment.set(line.text(1), line.text(2)),
            "unsetenv" => reader.environment.unset(line.text(1)),
            "frontend" => reader.set_section(line.text(1)),
            "global" => reader.set_section("global"),
            _ => {}
        }
        lines.push(line.words.iter().map(|w| w.text()).collect::<Vec<_>>().join("|"));
    }
    assert!(reader.next_line(&sources, &mut diagnostics).is_none());
    Outcome { sources, diagnostics, lines }
}

fn read(text: &str) -> Outcome {
    read_bytes(text.as_bytes())
}

const OPTIONS: RenderOptions = RenderOptions { pid: 42, diagnostic_mode: false };

/// Checks the whole report of a text.
fn check(text: &str, expected: &str) {
    let outcome = read(text);
    let report = outcome.diagnostics.render(&outcome.sources, OPTIONS);
    assert_eq!(report.trim_end(), expected.trim(), "\n{text}\n{report}");
}

#[test]
fn the_shape_of_a_message() {
    let mut sources = SourceMap::new();
    let file = sources.add("/etc/lb.cfg", b"global\n    maxcnn 100\n\tmaxconn \x1b[31m 1\n".to_vec());
    let span = |line, start, end| Span { file, line, start, end };
    let unknown = Diagnostic::alert_at(
        span(2, 4, 10),
        "unknown keyword 'maxcnn' in 'global' section; did you mean 'maxconn' maybe ?",
    )
    .note("section 'global' starts at line 1");
    assert_eq!(
        unknown.render(&sources, 4242),
        "[ALERT]    (4242) : config : parsing [/etc/lb.cfg:2] : unknown keyword 'maxcnn' in 'global' section; did \
         you mean 'maxconn' maybe ?\n   |     maxcnn 100\n   |     ^^^^^^\n   | note: section 'global' starts at line 1\n"
    );
    // Control characters never reach the terminal; tabs keep the carets in line.
    assert_eq!(
        Diagnostic::warning_at(span(3, 9, 14), "odd \x1b value").render(&sources, 1),
        "[WARNING]  (1) : config : parsing [/etc/lb.cfg:3] : odd \u{fffd} value\n   | \tmaxconn \u{fffd}[31m 1\n   \
         | \t        ^^^^^\n"
    );
    // Further lines of a message, other leads, other places.
    let missing =
        Diagnostic::new(Severity::Warning, Lead::Bare, None, "missing timeouts for proxy 'f'.\nAdd them.")
            .help("timeout client 10s\ntimeout server 10s");
    assert_eq!(
        missing.render(&sources, 1),
        "[WARNING]  (1) : missing timeouts for proxy 'f'.\n   | Add them.\n   | help: timeout client 10s\n   |       \
         timeout server 10s\n"
    );
    let server = Diagnostic::alert_at(span(2, 4, 10), "'server f/s1' : port range not permitted here")
        .lead(Lead::Located)
        .related(span(1, 0, 6), "the section begins here");
    assert_eq!(
        server.render(&sources, 1),
        "[ALERT]    (1) : config : [/etc/lb.cfg:2] : 'server f/s1' : port range not permitted here\n   |     maxcnn \
         100\n   |     ^^^^^^\n   | [/etc/lb.cfg:1] the section begins here:\n   | global\n   | ^^^^^^\n"
    );
    let bare = Diagnostic::alert_at(span(2, 14, 14), "x").lead(Lead::BareLocated);
    assert_eq!(
        bare.render(&sources, 1),
        "[ALERT]    (1) : [/etc/lb.cfg:2] : x\n   |     maxcnn 100\n   |               ^\n"
    );
    let whole = Diagnostic::alert("no frontend").at(span(1, 0, 6));
    assert_eq!(
        whole.render(&sources, 1),
        "[ALERT]    (1) : config : no frontend\n   | [/etc/lb.cfg:1] here:\n   | global\n   | ^^^^^^\n"
    );
    assert_eq!(Diagnostic::warning("w").render(&sources, 1), "[WARNING]  (1) : config : w\n");
    assert_eq!(
        Diagnostic::notice_at(span(1, 0, 1), "n").unquoted().render(&sources, 1),
        "[NOTICE]   (1) : config : parsing [/etc/lb.cfg:1] : n\n"
    );
    assert_eq!(message_line(Severity::Diag, 7, "d"), "[DIAG]     (7) : d\n");
}

#[test]
fn long_lines_are_cut_around_the_carets() {
    let mut sources = SourceMap::new();
    let line = format!("{}BAD{}\n", "a".repeat(500), "b".repeat(500));
    let file = sources.add("t.cfg", line.into_bytes());
    let quoted = |start, end| {
        let text = Diagnostic::alert_at(Span { file, line: 1, start, end }, "x").render(&sources, 1);
        let mut lines = text.lines().skip(1).map(|l| l.strip_prefix("   | ").unwrap().to_string());
        (lines.next().unwrap(), lines.next().unwrap())
    };
    let (text, carets) = quoted(500, 503);
    assert!(text.starts_with("...aaa") && text.ends_with("bbb..."), "{text}");
    assert!(text.len() <= 166);
    assert_eq!(text.find("BAD"), carets.find("^^^"));
    let (text, carets) = quoted(0, 1003);
    assert!(text.len() <= 166 && carets.len() <= 166, "{text}");
    let (text, carets) = quoted(1003, 1003);
    assert_eq!((carets.trim(), carets.len()), ("^", text.len() + 1));
    let (text, carets) = quoted(0, 1);
    assert!(text.starts_with('a') && carets.starts_with('^'));
    // A span past the end of the line, or of the file, is clamped.
    quoted(5000, 6000);
    Diagnostic::alert_at(Span { file, line: 9, start: 0, end: 1 }, "x").render(&sources, 1);
}

#[test]
fn messages_about_words() {
    check(
        "global\n  maxconn \"abc\n",
        "[ALERT]    (42) : config : parsing [t.cfg:2] : unmatched quote at position 11:
   |   maxconn \"abc
   |           ^
   | help: close the quote, or write \\\" or \\' for a quote that is part of the text",
    );
    check(
        "maxconn \\xZZ\n",
        "[ALERT]    (42) : config : parsing [t.cfg:1] : truncated or invalid hexadecimal sequence at position 9:
   | maxconn \\xZZ
   |         ^^
   | help: write two hexadecimal digits after \\x, or \\\\x for a backslash followed by 'x'",
    );
    check(
        "a b\0c\n",
        "[ALERT]    (42) : config : parsing [t.cfg:1] : Stray NUL character at position 4.
   | a b\u{fffd}c
   |    ^
   | help: a configuration is text: remove the NUL byte",
    );
    check(
        "a # b\0c\n",
        "[ALERT]    (42) : config : parsing [t.cfg:1] : Stray NUL character at position 6.
   | a # b\u{fffd}c
   |      ^
   | help: a configuration is text: remove the NUL byte",
    );
    check(
        "  maxconn \"${A b}\"\n",
        "[ALERT]    (42) : config : parsing [t.cfg:1] : unmatched brace in environment variable name at position 13:
   |   maxconn \"${A b}\"
   |             ^^
   | note: a variable ends at the first '}' of its line
   | help: write ${NAME}, ${NAME-default} or ${NAME[*]} between double quotes",
    );
    check(
        "  maxconn \"$1\"\n",
        "[ALERT]    (42) : config : parsing [t.cfg:1] : forbidden first char in environment variable name at position 13:
   |   maxconn \"$1\"
   |             ^
   | help: a '$' between double quotes begins a variable: write \\$ or use single quotes for a plain '$'",
    );
    check(
        "  maxconn \"${A[x]}\"\n",
        "[ALERT]    (42) : config : parsing [t.cfg:1] : truncated or invalid word expansion sequence at position 15:
   |   maxconn \"${A[x]}\"
   |               ^
   | help: only '[*]' may follow the name of a variable: ${NAME[*]}",
    );
    let words: String = (0..65).map(|i| format!("w{i} ")).collect();
    let outcome = read(&format!("{words}\n"));
    let report = outcome.diagnostics.render(&outcome.sources, OPTIONS);
    let first = "[ALERT]    (42) : config : parsing [t.cfg:1] : too many words, truncating after word 64, position 246: <w64>.";
    assert_eq!(report.lines().next(), Some(first));
    assert!(report.contains("| help: cut the line, or quote words that belong together"));
    check(
        "a \"\" c\n",
        "[ALERT]    (42) : config : parsing [t.cfg:1] : argument number 1 at position 3 is empty and marks the end of the argument list:
   | a \"\" c
   |   ^^
   | note: what follows an empty word would be ignored
   | help: if a variable is empty, give it a default (\"${NAME-value}\") or let it vanish (\"${NAME[*]}\"): see section 2.3 of the configuration manual",
    );
    check(
        "a b",
        "[ALERT]    (42) : config : parsing [t.cfg:1] : Missing LF on last line, file might have been truncated at position 4.
   | a b
   |    ^
   | help: end the last line with a line feed",
    );
}

#[test]
fn a_line_that_grows_too_much_is_refused() {
    let mut sources = SourceMap::new();
    let file = sources.add("t.cfg", format!("a \"{}\"\nb\n", "$BIG".repeat(17)).into_bytes());
    let mut environment = Environment::empty();
    environment.set("BIG", vec![b'x'; 1 << 20]);
    let mut reader = Reader::new(Facts::default(), environment);
    let mut diagnostics = Diagnostics::new();
    reader.start_file(file);
    assert_eq!(reader.next_line(&sources, &mut diagnostics).unwrap().text(0), "b");
    let report = diagnostics.render(&sources, OPTIONS);
    let first = "[ALERT]    (42) : config : parsing [t.cfg:1] : line too long once its variables are expanded (limit is 16777216 bytes).";
    assert_eq!(report.lines().next(), Some(first));
}

#[test]
fn messages_about_blocks() {
    check(
        ".if 1\nglobal\n",
        "[ALERT]    (42) : config : parsing [t.cfg:2] : non-terminated '.if' block.
   | global
   |       ^
   | [t.cfg:1] the '.if' without an '.endif' is here:
   | .if 1
   | ^^^
   | help: close the block with '.endif'",
    );
    for name in [".endif", ".else", ".elif 1"] {
        let word = name.split(' ').next().unwrap();
        check(
            &format!("{name}\n"),
            &format!(
                "[ALERT]    (42) : config : parsing [t.cfg:1] : lone '{word}' with no matching '.if'.\n   | {name}\n   | {}",
                "^".repeat(word.len())
            ),
        );
    }
    check(
        ".if 1\n.else\n.else\n.endif\n",
        "[ALERT]    (42) : config : parsing [t.cfg:3] : '.else' after '.else' is not permitted.
   | .else
   | ^^^^^
   | [t.cfg:1] the block begins here:
   | .if 1
   | ^^^",
    );
    check(
        ".if 0\n.else\n.elif 1\n.endif\n",
        "[ALERT]    (42) : config : parsing [t.cfg:3] : '.elif' after '.else' is not permitted.
   | .elif 1
   | ^^^^^
   | [t.cfg:1] the block begins here:
   | .if 0
   | ^^^",
    );
    check(
        ".if 1\n.endif x\n",
        "[ALERT]    (42) : config : parsing [t.cfg:2] : Unexpected argument 'x' for '.endif'.\n   | .endif x\n   |        ^",
    );
    check(
        ".if  1 1\n.endif\n",
        "[ALERT]    (42) : config : parsing [t.cfg:1] : unexpected character '1' at the end of conditional expression '1 1' in '.if' at position 3:
   | .if  1 1
   |        ^",
    );
    check(
        ".if defned(X)\nx\n.elif 1\ny\n.else\nz\n.endif\n",
        "[ALERT]    (42) : config : parsing [t.cfg:1] : unparsable conditional expression 'defned(X)' in '.if' at position 1:
   | .if defned(X)
   |     ^
   | help: did you mean the predicate 'defined' maybe ?",
    );
    check(
        ".if defined(a,b)\n.endif\n",
        "[ALERT]    (42) : config : parsing [t.cfg:1] : expected ')' before ',b)' in argument 1 of predicate 'defined' used in conditional expression in '.if' at position 10:
   | .if defined(a,b)
   |              ^",
    );
    check(
        ".if 1 &&\n.endif\n",
        "[ALERT]    (42) : config : parsing [t.cfg:1] : unparsable conditional expression '&&' in '.if' at position 3:
   | .if 1 &&
   |       ^",
    );
    check(
        ".if streq(a\n.endif\n",
        "[ALERT]    (42) : config : parsing [t.cfg:1] : expected ')' in argument 1 of predicate 'streq' used in conditional expression in '.if' at position 8:
   | .if streq(a
   |            ^",
    );
    check(
        ".fi\n.foobar x\n",
        "[ALERT]    (42) : config : parsing [t.cfg:1] : unknown directive '.fi'; did you mean '.if' maybe ?
   | .fi
   | ^^^
   | note: directives are .if, .elif, .else, .endif, .diag, .notice, .warning, .alert
[ALERT]    (42) : config : parsing [t.cfg:2] : unknown directive '.foobar'.
   | .foobar x
   | ^^^^^^^
   | note: directives are .if, .elif, .else, .endif, .diag, .notice, .warning, .alert",
    );
    let nested = format!("{}x\n{}", ".if 1\n".repeat(120), ".endif\n".repeat(120));
    check(
        &nested,
        "[ALERT]    (42) : config : parsing [t.cfg:100] : too many nested '.if', max is 100.\n   | .if 1\n   | ^^^",
    );
    let nested = format!("{}x\n{}", ".if 1\n".repeat(99), ".endif\n".repeat(99));
    assert_eq!(read(&nested).lines, ["x"]);
}

#[test]
fn messages_of_the_author() {
    let text = ".diag d\n.notice \"a b\\n\\x1bc\"\n.warning w\n.alert\n.notice x y z\n";
    let outcome = read(text);
    let expected = "[NOTICE]   (42) : config : parsing [t.cfg:2] : 'a b
   | \u{fffd}c'.
[WARNING]  (42) : config : parsing [t.cfg:3] : 'w'.
[ALERT]    (42) : config : parsing [t.cfg:4] : ''.
[ALERT]    (42) : config : parsing [t.cfg:5] : Unexpected argument 'y' for '.notice'. Use quotes if the message should contain spaces.
   | .notice x y z
   |           ^^^
";
    assert_eq!(outcome.diagnostics.render(&outcome.sources, OPTIONS), expected);
    let options = RenderOptions { diagnostic_mode: true, ..OPTIONS };
    let diag = "[DIAG]     (42) : config : parsing [t.cfg:1] : 'd'.\n";
    assert_eq!(outcome.diagnostics.render(&outcome.sources, options), format!("{diag}{expected}"));
    assert_eq!((outcome.diagnostics.error_count(), outcome.diagnostics.warning_count()), (2, 1));
    assert!(outcome.diagnostics.has_warnings() && outcome.diagnostics.aborted());
}

#[test]
fn lines_that_count() {
    let lines = |text: &str| {
        let outcome = read(text);
        assert!(!outcome.diagnostics.has_errors(), "{text}");
        outcome.lines
    };
    assert_eq!(lines("global # x\n\n\tmaxconn 10\n"), ["global", "maxconn|10"]);
    assert_eq!(lines("global\r\n maxconn 10\r\n"), ["global", "maxconn|10"]);
    assert_eq!(lines("\"\" b\nx\n"), ["x"]);
    assert_eq!(lines(""), [""; 0]);
    let branches = |condition: &str| {
        lines(&format!(
            ".if {condition}\na\n.elif defined(SET)\nb\n.elif garbage(((\nc\n.else\nd\n.endif\ne\n"
        ))
    };
    assert_eq!(branches("1"), ["a", "e"]);
    assert_eq!(branches("0"), ["b", "e"]);
    assert_eq!(branches(""), ["b", "e"]);
    assert_eq!(
        branches("defined(NOPE) && garbage_is_parsed || 1".replace("garbage_is_parsed", "0").as_str()),
        ["a", "e"]
    );
    // Inside a branch that is not taken, nothing is evaluated and nothing is complained about.
    assert_eq!(
        lines(".if 0\n.if garbage\n.else\nx\n.endif\n.foo\n.alert x\ny \"\"\n.else\nz\n.endif\n"),
        ["z"]
    );
    assert_eq!(lines(".if 1\n.if 0\na\n.else\nb\n.endif\nc\n.endif\n"), ["b", "c"]);
    // Words are joined by one blank before evaluation.
    assert_eq!(lines(".if \"1\"   &&\t1\na\n.endif\n"), ["a"]);
    assert_eq!(lines(".if streq(\"$SET\",  yes)\na\n.endif\n"), [""; 0]);
    // The caller's changes are seen by the lines that follow.
    assert_eq!(
        lines(
            "global\nsetenv X 1\n.if \"$X\"\na \"$.SECTION\"\n.endif\nunsetenv X\n.if defined(X)\nb\n.endif\nfrontend f\nc \"${.SECTION}\"\n"
        ),
        ["global", "setenv|X|1", "a|global", "unsetenv|X", "frontend|f", "c|f"]
    );
}

#[test]
fn all_errors_of_a_file_are_found() {
    let outcome = read("a \"\n.if nonsense\nb \\xQ\n.endif\nc \"\" d\n.foo\ne\n");
    assert_eq!(outcome.diagnostics.error_count(), 5);
    assert_eq!(outcome.lines, ["e"]);
}

#[test]
fn the_report_is_concluded_as_the_reference_does() {
    let verdict = |text: &str| read(text).diagnostics.verdict(42);
    assert_eq!(verdict("a\n"), "");
    assert_eq!(verdict(".warning x\n"), "");
    assert_eq!(verdict("a \"\n"), "[ALERT]    (42) : config : Fatal errors found in configuration.\n");
    // The reference leaves at once where a block is wrong.
    assert_eq!(verdict(".endif\n"), "");
}

#[test]
fn the_number_of_messages_is_bounded() {
    let outcome = read(&"a \"\n".repeat(1500));
    assert_eq!(outcome.diagnostics.error_count(), 1500);
    assert_eq!(outcome.diagnostics.iter().count(), 1000);
    let report = outcome.diagnostics.render(&outcome.sources, OPTIONS);
    assert!(report.ends_with("[ALERT]    (42) : config : 500 further messages are not shown.\n"));
    let mut both = Diagnostics::new();
    both.append(outcome.diagnostics.clone());
    both.append(outcome.diagnostics);
    assert_eq!((both.error_count() + both.dropped(), both.iter().count()), (2000 + 2000, 1000));
}

#[test]
fn lines_of_a_file() {
    let mut sources = SourceMap::new();
    for (text, expected) in
        [("", 0), ("\n", 1), ("a", 1), ("a\n", 1), ("a\nb", 2), ("a\n\n", 2), ("a\n\nb\n", 3)]
    {
        let file = sources.add("x", text.as_bytes().to_vec());
        assert_eq!(sources.line_count(file), expected, "{text:?}");
        assert_eq!(sources.line(file, 0), None);
        assert_eq!(sources.line(file, expected + 1), None);
    }
    let file = sources.add("y", b"a\n\nb".to_vec());
    let lines: Vec<_> = (1..=3).map(|n| sources.line(file, n).unwrap().to_vec()).collect();
    assert_eq!(lines, [b"a".to_vec(), b"".to_vec(), b"b".to_vec()]);
    assert_eq!(sources.name(file), "y");
    assert_eq!(sources.files().count(), 8);
}
