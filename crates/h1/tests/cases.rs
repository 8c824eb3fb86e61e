//! The hand-written cases in `tests/data`, whole and cut at every byte.
//!
//! A file is a list of cases. What begins with `@` says what the following cases are: `request`,
//! `response <what was asked>`, or `chunks`, or one of these with `relaxed-` or `strict-` in front. A case is
//!
//! ```text
//! ## What it shows
//! RFC 9112 6.3                      the clause that the verdict follows from
//! > POST / HTTP/1.1                 what is received, one line each
//! >
//! < POST / HTTP/1.1                 the head as it is forwarded; as received if there is no such line
//! <
//! ~ the reference does otherwise    where the verdict differs from HAProxy's, and how
//! = 3 keep insecure                 accepted: the body's length, the connection's fate, and flags
//! ! 400 BadMethod @3                or refused: status, cause, and offset of the byte at fault
//! s ! 400 MissingHost               the verdict with `option http-strict`, where it is another one
//! ```
//!
//! Every case is judged in the three ways a proxy may be told to read: `d` by default, `r` relaxed (the
//! `accept-unsafe-violations` options) and `s` strict. The verdict without a letter is for the way of its
//! heading, and for the others unless they have a line of their own. A default verdict is never kinder than a
//! relaxed one, nor a strict one than a default one: a test holds the three against each other.
//!
//! Every line ends with CR LF unless its last character is a backslash. Escapes are those of C, and
//! `\{3:ab}` is `ababab`. For chunks, `<` is the payload, `t` a trailer, and the verdict is `= done`,
//! `= more` or `! Cause`.

use thalweg_h1::{
    ChunkDecoder, ChunkError, ChunkEvent, EncodeOptions, HeadParser, ParseError, ParseErrorKind,
    ParseOptions, Parsed, encode_vec,
};
use thalweg_http::semantics::RequestContext;
use thalweg_http::{BodyLength, Framing, FramingPolicy, Head, Method, Strictness};

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Request,
    Response(RequestContext),
    Chunks,
}

#[derive(Clone, Debug)]
struct Case {
    place: String,
    name: String,
    rfc: bool,
    kind: Kind,
    strictness: Strictness,
    input: Vec<u8>,
    output: Option<Vec<u8>>,
    trailers: Vec<u8>,
    verdict: String,
    /// The verdicts of other ways to read that differ from that one.
    others: Vec<(Strictness, String)>,
}

const ALL: [Strictness; 3] = [Strictness::Relaxed, Strictness::Compatible, Strictness::Strict];

impl Case {
    fn expected(&self, strictness: Strictness) -> &str {
        self.others.iter().find(|(of, _)| *of == strictness).map_or(&self.verdict, |(_, verdict)| verdict)
    }
}

fn unescape(text: &str) -> Vec<u8> {
    let (text, end) = match text.strip_suffix('\\') {
        Some(text) => (text, &b""[..]),
        None => (text, &b"\r\n"[..]),
    };
    let mut out = escapes(text);
    out.extend_from_slice(end);
    out
}

fn escapes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let escape = rest[0];
        rest = &rest[1..];
        match escape {
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'0' => out.push(0),
            b'\\' => out.push(b'\\'),
            b'x' => {
                let digits = std::str::from_utf8(&rest[..2]).unwrap();
                out.push(u8::from_str_radix(digits, 16).unwrap());
                rest = &rest[2..];
            }
            b'{' => {
                let end = rest.iter().position(|&b| b == b'}').expect("a closing brace");
                let inside = std::str::from_utf8(&rest[..end]).unwrap();
                let (count, unit) = inside.split_once(':').unwrap();
                out.extend(escapes(unit).repeat(count.parse().unwrap()));
                rest = &rest[end + 1..];
            }
            other => panic!("unknown escape \\{}", other as char),
        }
    }
    out
}

fn read(file: &str, text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut kind = (Kind::Request, Strictness::Compatible);
    for (number, line) in text.lines().enumerate() {
        let place = format!("{file}:{}", number + 1);
        let rest = line.get(2..).unwrap_or("");
        match line.as_bytes() {
            [] | [b'#', b' ', ..] => {}
            [b'@', ..] => kind = read_kind(rest),
            [b'#', b'#', ..] => cases.push(Case {
                place,
                name: rest.trim().into(),
                rfc: false,
                kind: kind.0.clone(),
                strictness: kind.1,
                input: Vec::new(),
                output: None,
                trailers: Vec::new(),
                verdict: String::new(),
                others: Vec::new(),
            }),
            [b'R', b'F', b'C', ..] => cases.last_mut().unwrap().rfc = true,
            [b'>', ..] => cases.last_mut().unwrap().input.extend(unescape(rest)),
            [b'<', ..] => {
                cases.last_mut().unwrap().output.get_or_insert_default().extend(unescape(rest));
            }
            [b't', ..] => cases.last_mut().unwrap().trailers.extend(unescape(rest)),
            [b'=' | b'!', ..] => cases.last_mut().unwrap().verdict = line.into(),
            [b'~', ..] => {}
            [letter @ (b'd' | b'r' | b's'), b' ', ..] => {
                let strictness = match letter {
                    b'd' => Strictness::Compatible,
                    b'r' => Strictness::Relaxed,
                    _ => Strictness::Strict,
                };
                cases.last_mut().unwrap().others.push((strictness, rest.into()));
            }
            _ => panic!("{place}: what is this line?"),
        }
    }
    for case in &cases {
        for (strictness, verdict) in &case.others {
            assert!(
                *verdict != case.verdict && *strictness != case.strictness,
                "{}: says nothing",
                case.place
            );
        }
        assert!(case.rfc && !case.verdict.is_empty(), "{} {}: incomplete", case.place, case.name);
    }
    cases
}

fn read_kind(text: &str) -> (Kind, Strictness) {
    use Strictness::{Compatible, Relaxed, Strict};
    let context = |method, upgrade, websocket| RequestContext { method, upgrade, websocket };
    let get = context(Method::Get, false, false);
    match text {
        "request" => (Kind::Request, Compatible),
        "relaxed-request" => (Kind::Request, Relaxed),
        "strict-request" => (Kind::Request, Strict),
        "strict-response" => (Kind::Response(get), Strict),
        "strict-chunks" => (Kind::Chunks, Strict),
        "relaxed-response" => (Kind::Response(get), Relaxed),
        "response GET" => (Kind::Response(get), Compatible),
        "response HEAD" => (Kind::Response(context(Method::Head, false, false)), Compatible),
        "response CONNECT" => (Kind::Response(context(Method::Connect, false, false)), Compatible),
        "response upgrade" => (Kind::Response(context(Method::Get, true, false)), Compatible),
        "response websocket" => (Kind::Response(context(Method::Get, true, true)), Compatible),
        "chunks" => (Kind::Chunks, Compatible),
        _ => panic!("unknown kind {text}"),
    }
}

fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for (file, text) in [
        ("requests.txt", include_str!("data/requests.txt")),
        ("framing.txt", include_str!("data/framing.txt")),
        ("relaxed.txt", include_str!("data/relaxed.txt")),
        ("strict.txt", include_str!("data/strict.txt")),
        ("responses.txt", include_str!("data/responses.txt")),
        ("chunks.txt", include_str!("data/chunks.txt")),
    ] {
        cases.extend(read(file, text));
    }
    cases
}

fn options(strictness: Strictness) -> ParseOptions {
    ParseOptions {
        framing: FramingPolicy { strictness, ..FramingPolicy::default() },
        ..ParseOptions::default()
    }
}

/// Parses the pieces of `input` that end at `cuts`, and then all of it.
fn parse(
    case: &Case,
    strictness: Strictness,
    input: &[u8],
    cuts: &[usize],
) -> (Result<Parsed, ParseError>, Head) {
    parse_after(case, strictness, input, cuts, |_, _, _| ())
}

/// The same, with something done after each of these pieces.
fn parse_after(
    case: &Case,
    strictness: Strictness,
    input: &[u8],
    cuts: &[usize],
    after: impl Fn(&mut HeadParser, &[u8], &mut Head),
) -> (Result<Parsed, ParseError>, Head) {
    let options = options(strictness);
    let mut parser = HeadParser::new();
    let mut head = Head::new();
    let step = |parser: &mut HeadParser, input: &[u8], head: &mut Head| match &case.kind {
        Kind::Request => parser.parse_request(&options, input, head),
        Kind::Response(request) => parser.parse_response(&options, request, input, head),
        Kind::Chunks => unreachable!(),
    };
    for &cut in cuts {
        match step(&mut parser, &input[..cut], &mut head) {
            Ok(Parsed::Partial) => after(&mut parser, &input[..cut], &mut head),
            done => return (done, head),
        }
    }
    (step(&mut parser, input, &mut head), head)
}

fn encoded(head: &Head) -> Vec<u8> {
    let mut out = Vec::new();
    encode_vec(head, &EncodeOptions::default(), &mut out);
    assert_eq!(out.len(), head.encoded_len(), "the computed length is exact");
    out
}

fn describe(framing: &Framing) -> String {
    let mut text = match framing.body {
        BodyLength::None => "none".to_string(),
        BodyLength::Sized(length) => length.to_string(),
        BodyLength::Chunked => "chunked".into(),
        BodyLength::UntilClose => "eof".into(),
        BodyLength::Tunnel => "tunnel".into(),
    };
    text += if framing.keep_alive { " keep" } else { " close" };
    for (flag, name) in [
        (framing.upgrade, " upgrade"),
        (framing.websocket, " websocket"),
        (framing.expect_continue, " expect"),
        (framing.trailers, " trailers"),
        (framing.insecure, " insecure"),
    ] {
        if flag {
            text += name;
        }
    }
    text
}

fn cause(kind: ParseErrorKind) -> String {
    match kind {
        ParseErrorKind::Framing(violation) => format!("{violation:?}"),
        kind => format!("{kind:?}"),
    }
}

/// The verdict on a head, written as in the file, and the head as it is forwarded.
fn verdict(
    case: &Case,
    expected: &str,
    result: &Result<Parsed, ParseError>,
    head: &Head,
) -> (String, Vec<u8>) {
    match result {
        Ok(Parsed::Complete(_)) => (format!("= {}", describe(&head.framing())), encoded(head)),
        Ok(Parsed::Partial) => ("= partial".into(), Vec::new()),
        Err(error) => {
            let status = if case.kind == Kind::Request { error.status() } else { 502 };
            let mut text = format!("! {status} {}", cause(error.kind));
            if expected.contains('@') {
                text += &format!(" @{}", error.offset);
            }
            (text, Vec::new())
        }
    }
}

#[test]
fn heads_get_their_verdict() {
    let mut failures = Vec::new();
    let cases = all();
    let judged = ALL.into_iter().flat_map(|how| cases.iter().map(move |case| (case, how)));
    for (case, how) in judged.filter(|(case, _)| case.kind != Kind::Chunks) {
        let (result, head) = parse(case, how, &case.input, &[]);
        let expected = case.expected(how);
        let (found, forwarded) = verdict(case, expected, &result, &head);
        if found != expected {
            failures.push(format!(
                "{} {}: {how:?}: expected {expected:?}, found {found:?}",
                case.place, case.name
            ));
            continue;
        }
        let accepted = matches!(result, Ok(Parsed::Complete(_)));
        // What is forwarded is written for the first verdict; another way to accept a message may write another one.
        if accepted && (how == case.strictness || found == case.verdict) {
            head.check_invariants();
            let expected = case.output.as_ref().unwrap_or(&case.input);
            if forwarded != *expected {
                failures.push(format!(
                    "{} {}: forwarded {:?}, expected {:?}",
                    case.place,
                    case.name,
                    String::from_utf8_lossy(&forwarded),
                    String::from_utf8_lossy(expected)
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{} cases:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn what_is_forwarded_reads_the_same_again() {
    let cases = all();
    let judged = ALL.into_iter().flat_map(|how| cases.iter().map(move |case| (case, how)));
    for (case, how) in judged.filter(|(case, _)| case.kind != Kind::Chunks) {
        let (result, head) = parse(case, how, &case.input, &[]);
        if !matches!(result, Ok(Parsed::Complete(_))) {
            continue;
        }
        let first = encoded(&head);
        let (again, head_again) = parse(case, how, &first, &[]);
        assert_eq!(again, Ok(Parsed::Complete(first.len())), "{} {}", case.place, case.name);
        assert_eq!(encoded(&head_again), first, "{} {}", case.place, case.name);
        let (one, two) = (head.framing().body, head_again.framing().body);
        assert_eq!(one, two, "{} {}: another body", case.place, case.name);
    }
}

#[test]
fn heads_may_be_cut_anywhere() {
    let cases = all();
    let judged = ALL.into_iter().flat_map(|how| cases.iter().map(move |case| (case, how)));
    for (case, how) in judged.filter(|(case, _)| case.kind != Kind::Chunks) {
        let whole = parse(case, how, &case.input, &[]);
        let expected = (whole.0, format!("{:?} {}", whole.1, describe(&whole.1.framing())));
        let check = |cuts: &[usize]| {
            let found = parse(case, how, &case.input, cuts);
            let found = (found.0, format!("{:?} {}", found.1, describe(&found.1.framing())));
            assert_eq!(found, expected, "{} {}: cut at {cuts:?}", case.place, case.name);
            // The same when nobody kept the fields meanwhile; of one that is refused, those may be missing.
            let (found, head) = parse_after(case, how, &case.input, cuts, HeadParser::forget_fields);
            assert_eq!(found, expected.0, "{} {}: forgotten at {cuts:?}", case.place, case.name);
            if matches!(found, Ok(Parsed::Complete(_))) {
                let head = format!("{head:?} {}", describe(&head.framing()));
                assert_eq!(head, expected.1, "{} {}: forgotten at {cuts:?}", case.place, case.name);
            }
        };
        let all_cuts: Vec<usize> = (0..case.input.len()).collect();
        check(&all_cuts);
        for &cut in &all_cuts {
            // The long ones are all alike in the middle.
            if case.input.len() < 1000 || cut < 100 || cut % 997 == 0 || case.input.len() - cut < 100 {
                check(&[cut]);
            }
        }
    }
}

/// What came of a chunked body.
#[derive(Debug, PartialEq)]
struct Body {
    verdict: String,
    payload: Vec<u8>,
    trailers: Vec<u8>,
    /// Bytes of the input that belong to a good body.
    used: usize,
}

fn decode(strictness: Strictness, input: &[u8], cuts: &[usize]) -> Body {
    let mut body = decode_steps(strictness, input, cuts);
    if body.verdict.starts_with('!') {
        body.used = 0;
    }
    body
}

fn decode_steps(strictness: Strictness, input: &[u8], cuts: &[usize]) -> Body {
    let options = options(strictness);
    let mut decoder = ChunkDecoder::new();
    let mut trailers = Head::new();
    let mut body = Body { verdict: String::new(), payload: Vec::new(), trailers: Vec::new(), used: 0 };
    for &cut in cuts.iter().chain([&input.len()]) {
        // What a step does not consume is given again; a cut before it adds nothing.
        loop {
            let here = &input[body.used.min(cut)..cut];
            let step = match decoder.step(&options, here, &mut trailers) {
                Ok(step) => step,
                Err(ChunkError::Trailers(kind)) => {
                    body.verdict = format!("! {}", cause(kind));
                    return body;
                }
                Err(error) => {
                    body.verdict = format!("! {error:?}");
                    return body;
                }
            };
            assert!(step.consumed <= here.len());
            body.used += step.consumed;
            match step.event {
                ChunkEvent::NeedMore => break,
                ChunkEvent::Data(range) => {
                    assert!(!range.is_empty(), "a step without progress");
                    body.payload.extend_from_slice(&here[range]);
                }
                ChunkEvent::Chunk { size, plain } => {
                    assert!(size > 0 && step.consumed > 0);
                    if plain {
                        let text = std::str::from_utf8(&here[..step.consumed - 2]).unwrap();
                        assert_eq!(u64::from_str_radix(text, 16).unwrap(), size);
                    }
                }
                ChunkEvent::ChunkEnd => assert!(step.consumed > 0),
                ChunkEvent::End => {
                    body.verdict = "= done".into();
                    for field in trailers.fields() {
                        body.trailers.extend([field.name, b": ", field.value, b"\r\n"].concat());
                    }
                    return body;
                }
            }
        }
    }
    body.verdict = "= more".into();
    body
}

#[test]
fn chunked_bodies_get_their_verdict_wherever_they_are_cut() {
    let mut failures = Vec::new();
    let cases = all();
    let judged = ALL.into_iter().flat_map(|how| cases.iter().map(move |case| (case, how)));
    for (case, how) in judged.filter(|(case, _)| case.kind == Kind::Chunks) {
        let whole = decode(how, &case.input, &[]);
        let (payload, expected) = (case.output.clone().unwrap_or_default(), case.expected(how));
        // The payload is written for the first verdict.
        let other = expected != case.verdict;
        if whole.verdict != expected
            || !other && (whole.payload != payload || whole.trailers != case.trailers)
        {
            failures.push(format!(
                "{} {}: {how:?}: expected {expected:?}, found {whole:?}",
                case.place, case.name
            ));
            continue;
        }
        let all_cuts: Vec<usize> = (0..case.input.len()).collect();
        assert_eq!(decode(how, &case.input, &all_cuts), whole, "{} {}: byte by byte", case.place, case.name);
        for &cut in &all_cuts {
            if case.input.len() < 1000 || cut < 50 || cut % 997 == 0 || case.input.len() - cut < 50 {
                let found = decode(how, &case.input, &[cut]);
                assert_eq!(found, whole, "{} {}: cut at {cut}", case.place, case.name);
            }
        }
    }
    assert!(failures.is_empty(), "{} cases:\n{}", failures.len(), failures.join("\n"));
}

/// Strict accepts a part of what is accepted by default, and reads it in the same way.
#[test]
fn strict_only_refuses() {
    for case in all().iter() {
        if case.kind == Kind::Chunks {
            let strict = decode(Strictness::Strict, &case.input, &[]);
            if !strict.verdict.starts_with('!') {
                assert_eq!(
                    strict,
                    decode(Strictness::Compatible, &case.input, &[]),
                    "{} {}",
                    case.place,
                    case.name
                );
            }
            continue;
        }
        let (result, head) = parse(case, Strictness::Strict, &case.input, &[]);
        if matches!(result, Ok(Parsed::Complete(_))) {
            let (compatible, other) = parse(case, Strictness::Compatible, &case.input, &[]);
            assert_eq!(result, compatible, "{} {}", case.place, case.name);
            assert_eq!(
                (encoded(&head), head.framing()),
                (encoded(&other), other.framing()),
                "{} {}",
                case.place,
                case.name
            );
        }
    }
}

#[test]
fn there_are_enough_cases_and_no_two_have_the_same_name() {
    let cases = all();
    assert!(cases.len() >= 300, "{}", cases.len());
    let mut inputs = std::collections::HashSet::new();
    for case in &cases {
        let key = (format!("{:?}{:?}", case.kind, case.strictness), case.input.clone());
        assert!(inputs.insert(key), "{} {}: the same as another case", case.place, case.name);
    }
}
