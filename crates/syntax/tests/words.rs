//! Lines into words: quotes, escapes, variables (configuration manual, sections 2.2 and 2.3). The expected
//! values were checked against HAProxy 3.5-dev5.

use thalweg_syntax::tokenizer::{TokenErrorKind, Variables, WORDS_MAX, tokenize};
use thalweg_syntax::{Environment, SourceMap, Word};

fn environment() -> Environment {
    let mut environment = Environment::empty();
    for (name, value) in [
        ("HOME", "/root"),
        ("A", "x y  z"),
        ("B", ""),
        ("C", " p q "),
        ("D", "a\"b#c $HOME \\x41"),
        ("T", "a\tb\nc"),
        ("A_", "under"),
    ] {
        environment.set(name, value);
    }
    environment
}

fn cut(line: &[u8]) -> Result<Vec<Word>, (TokenErrorKind, u32)> {
    let mut sources = SourceMap::new();
    let file = sources.add("t.cfg", line.to_vec());
    let environment = environment();
    let variables = Variables { environment: &environment, file: "t.cfg", line: 3, section: "global" };
    tokenize(line, file, 3, &variables).map_err(|error| (error.kind, error.column))
}

#[test]
fn words() {
    let check = |line: &str, expected: &[&str]| {
        let words = cut(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error:?}"));
        let texts: Vec<&str> = words.iter().map(Word::text).collect();
        assert_eq!(texts, expected, "{line}");
    };
    // Blanks and comments.
    check("", &[]);
    check("   \t ", &[]);
    check("# nothing", &[]);
    check("a", &["a"]);
    check("\ta  b\tc ", &["a", "b", "c"]);
    check("a#b", &["a"]);
    check("a #b c", &["a"]);
    check(r"a\#b", &["a#b"]);
    check("'a#b' \"c#d\"", &["a#b", "c#d"]);
    check("a b\r", &["a", "b"]);
    check("a\rb", &["a"]);
    // Escapes outside quotes.
    check(r"a\tb\x41\nc\ d\#e\q\$f\\g", &["a\tbA\nc d#e\\q\\$f\\g"]);
    check("a\\", &["a\\"]);
    check("a\\\tb", &["a\\", "b"]);
    check(r"\a\b\0", &[r"\a\b\0"]);
    check(r#"a\"b \'c"#, &["a\"b", "'c"]);
    check(r"\r\x0a\X41", &["\r\n\\X41"]);
    // Weak quotes.
    check(r#""a b" c"#, &["a b", "c"]);
    check(r#""a\tb\x41\nc\"d""#, &["a\tbA\nc\"d"]);
    check(r#""a\ b\#c\qd\$e\\f\'g""#, &[r"a b#c\qd$e\f'g"]);
    check(r#""it's""#, &["it's"]);
    // Strong quotes.
    check(r#"'a\tb "c" $X'"#, &[r#"a\tb "c" $X"#]);
    check(r"'a\'", &[r"a\"]);
    // Pieces make one word; empty quotes make an empty word.
    check(r##"a"b c"d'e f'g"h"#c"##, &["ab cde fgh"]);
    check("'a''b'", &["ab"]);
    check("\"\"a a'' '' \"\"", &["a", "a", "", ""]);
    // Variables live in weak quotes only.
    check("$HOME ${HOME} '$HOME'", &["$HOME", "${HOME}", "$HOME"]);
    check(r#""$HOME" "${HOME}" "\$HOME""#, &["/root", "/root", "$HOME"]);
    check(r#""${HOME-x}y$HOME/z$HOME""#, &["/rooty/root/z/root"]);
    check(r#""$A-b" "$A_" "$UNSET""#, &["x y  z-b", "under", ""]);
    check(r#"x"${A}"y"#, &["xx y  zy"]);
    check(r#""$D""#, &["a\"b#c $HOME \\x41"]);
    // Defaults replace what does not exist, not what is empty, and are taken as they are.
    check(r#""${UNSET-def ault}""#, &["def ault"]);
    check(r#""${UNSET-}|""#, &["|"]);
    check(r#""${UNSET-a-b}|$UNSET|""#, &["a-b||"]);
    check(r#""${UNSET-$HOME}|""#, &["$HOME|"]);
    check(r#""${B-x}|""#, &["|"]);
    check(r#""${UNSET-a\}b}""#, &["a\\b}"]);
    check(r#""${UNSET-a"b}""#, &["a\"b"]);
    check(r#""${UNSET-x y[*]}" "${A-x[*]}""#, &["x y[*]", "x y  z"]);
    // Lists.
    check(r#""${A[*]}""#, &["x", "y", "z"]);
    check(r#"pre"${A[*]}"post"#, &["prex", "y", "zpost"]);
    check(r#"pre"${C[*]}"post"#, &["pre", "p", "q", "post"]);
    check(r#""${C[*]}""#, &["p", "q"]);
    check(r#""q ${C[*]} r ${C[*]}""#, &["q ", "p", "q", " r ", "p", "q"]);
    check(r#""${T[*]}""#, &["a", "b", "c"]);
    check(r#""${B[*]}" "${UNSET[*]}" x"#, &["x"]);
    check(r#"a"${B[*]}"b"#, &["ab"]);
    check(r#""${UNSET[*]-a b}"x"#, &["a", "bx"]);
    check(r#""${A}[*]" "$A[*]""#, &["x y  z[*]", "x y  z[*]"]);
    // Pseudo-variables.
    check(r#""${.FILE}:${.LINE}:${.SECTION}" "$.LINE""#, &["t.cfg:3:global", "3"]);
    check(r#""${.LINE-x}""#, &["3"]);
}

#[test]
fn errors() {
    use TokenErrorKind::*;
    let check = |line: &str, kind: TokenErrorKind, column: u32| {
        assert_eq!(cut(line.as_bytes()).map(|_| ()), Err((kind, column)), "{line}");
    };
    check("  maxconn \"abc", UnmatchedQuote, 10);
    check("  maxconn 'abc", UnmatchedQuote, 10);
    check("a'b", UnmatchedQuote, 1);
    check("\"a\\", UnmatchedQuote, 0);
    check("'a\\", UnmatchedQuote, 0);
    check("\"a\rb\"", UnmatchedQuote, 0);
    check(r"a \xZZ", BadHex, 2);
    check(r"a \x4", BadHex, 2);
    check(r"\x", BadHex, 0);
    check(r#""\x41\x4""#, BadHex, 5);
    check(r"a \x00 b", Nul, 2);
    check("a\0b", Nul, 1);
    check("'a\0b'", Nul, 2);
    check("\"a\0b\"", Nul, 2);
    check(r#"m "${A""#, UnmatchedBrace, 4);
    check(r#"m "${A-""#, UnmatchedBrace, 4);
    check(r#"m "${A b}""#, UnmatchedBrace, 4);
    check(r#""a${A"#, UnmatchedBrace, 3);
    check(r#"m "$1""#, BadVariableName, 4);
    check(r#"m "${}""#, BadVariableName, 5);
    check(r#"m "$""#, BadVariableName, 4);
    check(r#"m "$-""#, BadVariableName, 4);
    check("m \"$", BadVariableName, 4);
    check("m \"${", BadVariableName, 5);
    check(r#"m "${.FOO}""#, BadVariableName, 5);
    check(r#"m "$.LINEx""#, BadVariableName, 4);
    check(r#"m "${A[*""#, BadExpansion, 6);
    check(r#"m "${A[x]}""#, BadExpansion, 6);
}

#[test]
fn the_number_of_words_is_bounded() {
    let line = |n: usize| (0..n).map(|i| format!("w{i}")).collect::<Vec<_>>().join(" ");
    assert_eq!(cut(line(WORDS_MAX).as_bytes()).map(|words| words.len()), Ok(WORDS_MAX));
    let error = cut(line(WORDS_MAX + 1).as_bytes()).unwrap_err();
    assert_eq!(error.0, TokenErrorKind::TooManyWords("w64".into()));
}

#[test]
fn the_growth_of_a_line_is_bounded() {
    let mut environment = Environment::empty();
    environment.set("BIG", vec![b'x'; 1 << 20]);
    let mut sources = SourceMap::new();
    let file = sources.add("t.cfg", Vec::new());
    let variables = Variables { environment: &environment, file: "", line: 1, section: "" };
    let line = format!("\"{}\"", "$BIG".repeat(17));
    let error = tokenize(line.as_bytes(), file, 1, &variables).unwrap_err();
    assert_eq!(error.kind, TokenErrorKind::TooLong);
}

/// A part of a word is found again in its line, whatever the quotes and escapes around it.
#[test]
fn parts_of_words_have_places() {
    let check = |line: &str, word: usize, part: &str, expected: &str| {
        let words = cut(line.as_bytes()).unwrap();
        let text = words[word].text();
        let start = text.find(part).unwrap_or_else(|| panic!("{part} in {text}"));
        let span = words[word].span_of(start..start + part.len());
        assert_eq!(&line[span.start as usize..span.end as usize], expected, "{line}");
    };
    check("  set foo(bar,baz)", 1, "bar", "bar");
    check(r#"set "foo bar""#, 1, "bar", "bar");
    check(r"set foo\ bar,qux", 1, "qux", "qux");
    check(r#"set foo"b a"r,'q x'y"#, 1, "q xy", "q x'y");
    check(r#"set "a${HOME}b""#, 1, "b", "b");
    check(r#"set "a${HOME}b""#, 1, "/root", "$");
    let words = cut(b"ab 'cd'").unwrap();
    assert_eq!((words[1].span.start, words[1].span.end), (3, 7));
    let end = words[1].span_of(2..2);
    assert_eq!((end.start, end.end), (7, 7));
    // Out of range is clamped, never a panic.
    let far = words[0].span_of(10..20);
    assert_eq!((far.start, far.end), (2, 2));
}

#[test]
fn bytes_that_are_not_utf8_are_kept() {
    let words = cut(br"a\xffb \xc3\xa9").unwrap();
    assert_eq!(words[0].bytes(), b"a\xffb");
    assert_eq!((words[0].text(), words[0].utf8()), ("a\u{10ffff}b", None));
    assert_eq!(words[1].text(), "é");
}
