use super::*;
use crate::testing::Rig;

fn rig() -> Rig {
    let mut rig = Rig::with_request("GET /p/a?q=1&b=2 HTTP/1.1\r\nHost: h.com\r\n\r\n");
    rig.stream.status = 200;
    rig.stream.id = 2;
    rig.stream.termination.cause = b'L';
    rig.stream.termination.phase = b'R';
    rig
}

fn check_with(rig: &mut Rig, usage: Usage, format: &str, expected: &str) {
    assert_eq!(rig.format(format, usage), expected, "{format}");
}

fn check(format: &str, expected: &str) {
    check_with(&mut rig(), Usage::Log, format, expected);
}

/// The reference's own lines for the same facts, dates and ports apart.
#[test]
fn every_alias_prints_its_fact() {
    check("%ci:%cp", "127.0.0.1:1234");
    check("%fi:%fp", "127.0.0.1:80");
    check("%si|%sp|%bi|%bp", "-|-|-|-");
    check("%T|%Tl", "14/Nov/2023:22:13:20 +0000|14/Nov/2023:22:13:20 +0000");
    check("%Ts|%t|%ms", "1700000000|14/Nov/2023:22:13:20.123|123");
    check("%tr", "14/Nov/2023:22:13:20.128");
    check("%trg|%trl", "14/Nov/2023:22:13:20 +0000|14/Nov/2023:22:13:20 +0000");
    check("%Ta|%Tc|%Td|%Th|%Ti|%Tq|%TR|%Tr|%Tt|%Tu|%Tw", "0|-1|-1|0|-1|-1|-1|-1|0|0|-1");
    check("%B|%U|%ST|%CC|%CS|%H|%ID|%OG", "0|0|200|-|-|host|-|unspec");
    check("%HM|%HP|%HPO|%HQ|%HU|%HV", "GET|/p/a|/p/a|?q=1&b=2|/p/a?q=1&b=2|HTTP/1.1");
    check("%ac|%fc|%bc|%sc|%rc|%sq|%bq|%lc|%rt|%pid", "0|0|0|0|0|0|0|0|2|1234");
    check("%f|%ft|%b|%s", "fe|fe|fe|<NOSRV>");
    check("%hr|%hrl|%hs|%hsl|", "||||");
    check("%r|%ts|%tsc|%sslc|%sslv|%%|%o|", "GET /p/a?q=1&b=2 HTTP/1.1|LR|LR--|-|-|%||");
}

#[test]
fn the_presets_print_what_the_reference_prints() {
    check(
        HTTP_LOG_FMT,
        "127.0.0.1:1234 [14/Nov/2023:22:13:20.128] fe fe/<NOSRV> -1/-1/-1/-1/0 200 0 - - LR-- 0/0/0/0/0 0/0 \"GET /p/a?q=1&b=2 HTTP/1.1\"",
    );
    check(TCP_LOG_FMT, "127.0.0.1:1234 [14/Nov/2023:22:13:20.123] fe fe/<NOSRV> -1/-1/0 0 LR 0/0/0/0/0 0/0");
    check(
        HTTP_CLF_LOG_FMT,
        "127.0.0.1 - - [14/Nov/2023:22:13:20 +0000] \"GET /p/a?q=1&b=2 HTTP/1.1\" 200 0 \"\" \"\" 1234 123 \"fe\" \"fe\" \
         \"<NOSRV>\" -1 -1 -1 -1 0 LR-- 0 0 0 0 0 0 0 \"\" \"\" ",
    );
    let mut rig = rig();
    assert!(
        rig.format(HTTP_JSON_LOG_FMT, Usage::Log).contains("\"request\": \"GET /p/a?q=1&b=2 HTTP/1.1\"}")
    );
}

#[test]
fn flags_change_how_items_are_written() {
    check(
        "%{+X}ci|%{+X}cp|%{+X}Ts|%{+X}rt|%{+X}pid|%{+X}ms|%{+X}B|%{+X}ST",
        "7F000001|04D2|6553F100|0002|04D2|7B|0|200",
    );
    check(
        "%{+Q}CC|%{+Q}H|%{+Q}HQ|%{+Q}ID|%{+Q}b|%{+Q}ts|%{+Q}ci|%{+Q}cp|%{+Q}si|%{+Q}rc",
        "\"\"|\"host\"|\"?q=1&b=2\"|\"\"|\"fe\"|LR|\"127.0.0.1\"|1234|\"\"|0",
    );
    check("%{+Q}o %ci %{-Q}ci %(x)[str(a)]", "\"127.0.0.1\" 127.0.0.1 \"a\"");
    check("%{+E}[bin(225d5c27)]|%[bin(225d5c27)]", "\\\"\\]\\\\'|\"]\\'");
    check("%{+E,+Q}[bin(225d5c)]", "\"\\\"\\]\\\\\"");
    check("%{+Q}[bin(225d5c27)]", "\"\"]\\'\"");
    check("%{+X}[src]|%{+X}[int(255)]", "127.0.0.1|255");
    check("%{+X}o %ci %cp %{-X}ci", "7F000001 04D2 127.0.0.1");
    // Between commas the last sign counts.
    check("%{+Q +E}[bin(225d)]|%{+E+Q}[bin(225d)]|%{Q+E}[bin(225d)]", "\\\"\\]|\"\"]\"|\\\"\\]");
    check("%{ +Q , +X }ci|%{Q}ci|%{+Z}ci", "127.0.0.1|127.0.0.1|127.0.0.1");
    check("%{+bin}[bin(000102)]|%[bin(4100ff42)]", "-|A");
    check("%{+bin}o%[bin(41004342)]", "A\0CB");
}

#[test]
fn blanks_merge_in_logs_only() {
    check("a  b   c", "a b c");
    check(" lead trail ", "lead trail ");
    check("x %hr y", "x y");
    check("x %hr %hs y|%hrl|%hsl", "x y||");
    check("%[str(a b)]  x", "a b x");
    check("a%[int(1)]b%[int(2)] %% %%%% c", "a1b2 % %% c");
    check_with(&mut rig(), Usage::Raw, " a  b   c ", " a  b   c ");
    check_with(&mut rig(), Usage::Raw, "%[str(a  b)] %CC|%[var(txn.n)]|%ID|%{+Q}CC", "a  b |||\"\"");
}

#[test]
fn what_is_missing_prints_a_dash_in_logs() {
    check("%{+Q}[var(txn.none)]|%[var(txn.none)]|%{+Q}[str()]|%[str()]", "\"\"|-|\"\"|-");
    check_with(&mut rig(), Usage::Raw, "%{+Q}[var(txn.n)]|%s|%ts|%hr|", "\"\"|<NOSRV>|LR||");
    check_with(&mut rig(), Usage::Header, "%{+Q}[var(txn.n)]|%s", "|<NOSRV>");
}

#[test]
fn headers_get_percent_escapes() {
    check_with(&mut rig(), Usage::Header, "%[bin(0d0a41e97f2201)]|", "%0D%0AA\\xe9%7F\"%01|");
    check_with(&mut rig(), Usage::Header, "%[bin(2223257b7c)]", "\"#%{|");
    check_with(&mut rig(), Usage::Header, "%{+json}o %(a)[str(x)]", " x");
    check_with(&mut rig(), Usage::Raw, "%[bin(0d0a41e97f2201)]|", "\r\nA\\xe9\x7f\"\x01|");
    check("%[bin(e97f01411f20)]", "\\xe9\x7f\x01A\x1f ");
}

#[test]
fn identifiers_are_made_for_headers() {
    let check = |format, expected| check_with(&mut rig(), Usage::Identifier, format, expected);
    check("x   y %[bin(0d0a7f)]|%[var(txn.none)]|%{+Q}[str(a)]|%ID", "x y %0D%0A%7F||a|");
    check("%{+json}o%(a)[str(x)]", "x");
}

#[test]
fn json_encodes_named_items() {
    check(
        "%{+json}o %(a)[int(1)] %(c:str)[int(5)] %(d:bool)[int(1)] %(e)[bool(1)] %[int(9)] %(f)r %(g)Tc %(h)[var(txn.none)] \
         %(i)ci lit %(j)B",
        "{\"a\": 1, \"c\": \"5\", \"d\": true, \"e\": true, \"f\": \"GET /p/a?q=1&b=2 HTTP/1.1\", \"g\": -1, \"h\": \"\", \
         \"i\": \"127.0.0.1\", \"j\": 0}",
    );
    check(
        "%{+json}o %(k)[bin(22415c0a01)] %(m)[src] %(n:sint)[str(12)] %(p)cp %(q)CC",
        "{\"k\": \"\\\"A\\\\\\n\x01\", \"m\": \"127.0.0.1\", \"n\": 12, \"p\": 1234, \"q\": \"\"}",
    );
    check(
        "%{+json}o %(r:bool)[str(true)] %(s:sint)[str(x)] %(u:raw)[str(x)] %(v)hr %(w)hrl %(x)ts",
        "{\"r\": false, \"s\": 0, \"u\": x, \"v\": null, \"w\": null, \"x\": \"LR\"}",
    );
    check("%{+json}o lit", "{}");
    check("%{+json}o %(a){+X}ci", "{\"a\": \"7F000001\"}");
    check("%(k){+json}[str(a)]|%(k){+json}ci|%(k){+json}cp", "\"a\"|\"127.0.0.1\"|1234");
    check("%{+Q,+json}o %(a)[int(1)] %(b)[str(x)]", "{\"a\": 1, \"b\": \"x\"}");
    check("%{+E,+json}o %(b)[bin(225d5c)]", "{\"b\": \"\\\"]\\\\\"}");
}

#[test]
fn cbor_encodes_named_items() {
    check(
        "%{+cbor}o %(a)[int(1)] %(b)[str(xy)] %(c:str)[int(5)] %(d:bool)[int(1)] %(e)[bool(1)] %(f)[int(-300)]",
        "BF6161016162627879616361356164F56165F5616639012BFF",
    );
    check(
        "%{+cbor}o %(a)[src] %(g)[int(70000)] %(h)[var(txn.none)] %(i)[bin(0102)] %(k)[int(-9223372036854775808)]",
        "BF6161693132372E302E302E3161671A000111706168F661695F420102FF616B3B7FFFFFFFFFFFFFFFFF",
    );
    check("%{+cbor}o %(n)Tc %(o)hr %(p)ST", "BF616E20616FF6617018C8FF");
    check("%{+cbor,+bin}o%(a)[int(1)]%(b)[str(xy)]", "\\xbfaa\x01abbxy\\xff");
    check("%(k){+cbor}[str(a)]|", "6161|");
}

#[test]
fn captures_are_escaped() {
    let mut rig = rig();
    rig.stream.req_captures.reset(3);
    rig.stream.res_captures.reset(1);
    rig.stream.req_captures.set(0, b"zz", 10);
    rig.stream.req_captures.set(1, b"a\"b\xe9{|}]\\c", 10);
    check_with(
        &mut rig,
        Usage::Log,
        "x %hr %hs y|%hrl|%hsl|%{+Q}hr|%{+Q}hrl|%{+Q}hs",
        "x {zz|a#22b#E9#7B#7C#7D]\\c|} {} y|zz a#22b#E9#7B#7C#7D]\\c -|-|\"{zz|a#22b#E9#7B#7C#7D]\\c|}\"|\"zz\" \
         \"a#22b#E9#7B#7C#7D]\\c\" \"\"|\"{}\"",
    );
    check_with(
        &mut rig,
        Usage::Log,
        "%{+json}o %(v)hr %(w)hrl",
        "{\"v\": \"{zz|a#22b#E9#7B#7C#7D]\\\\c|}\", \"w\": [\"zz\", \"a#22b#E9#7B#7C#7D]\\\\c\", \"-\"]}",
    );
    check_with(
        &mut rig,
        Usage::Log,
        "%[capture.req.hdr(0)]|%[capture.req.hdr(2)]|%[capture.req.method]|%[capture.req.uri]|%[capture.req.ver]",
        "zz|-|GET|/p/a?q=1&b=2|HTTP/1.1",
    );
}

#[test]
fn bad_requests_say_so() {
    let mut rig = rig();
    rig.stream.request_line.clear();
    rig.request = None;
    check_with(
        &mut rig,
        Usage::Log,
        "%r|%HM|%HP|%HQ|%HU|%HV|%HPO|%{+Q}r",
        "<BADREQ>|<BADREQ>|<BADREQ>|<BADREQ>|<BADREQ>|<BADREQ>|<BADREQ>|\"<BADREQ>\"",
    );
    rig.stream.request_line = b"GET /a\"b\xe9{|}#c?d=#\" HTTP/1.0".to_vec();
    check_with(
        &mut rig,
        Usage::Log,
        "%HQ|%HP|%HPO|%HU|%r|%HM|%HV",
        "?d=#23#22|/a#22b#E9{|}#23c|/a#22b#E9{|}#23c|/a#22b#E9{|}#23c?d=#23#22|GET /a#22b#E9{|}#23c?d=#23#22 HTTP/1.0|GET|HTTP/1.0",
    );
    // What became `#XX` has nothing left to escape.
    rig.stream.request_line = b"GET /\"]\\ HTTP/1.0".to_vec();
    check_with(&mut rig, Usage::Log, "%{+E}HP|%{+Q,+E}HU", "/#22\\]\\\\|\"/#22\\]\\\\\"");
    rig.stream.request_line = b"OPTIONS * HTTP/1.0".to_vec();
    check_with(&mut rig, Usage::Log, "%HQ|%HP|%HPO|%HU", "|*||*");
}

#[test]
fn early_lines_and_redispatches_get_a_plus() {
    let mut rig = rig();
    rig.stream.log_early = true;
    rig.stream.redispatched = true;
    rig.stream.retries = 2;
    check_with(&mut rig, Usage::Log, "%Ta|%Tt|%B|%rc|%Tu|%Td", "+0|+0|+0|+2|+0|-1");
    check_with(&mut rig, Usage::Log, "%{+json}o %(a)Ta %(b)rc", "{\"a\": 0, \"b\": 2}");
}

#[test]
fn mistakes_are_explained() {
    let check = |format: &str, expected: &str| {
        let result = Rig::default().compile(|env| LogFormat::compile(format, Usage::Log, env));
        assert_eq!(result.map(|_| ()).unwrap_err(), expected, "{format}");
    };
    check(
        "%zz",
        "no such format alias 'zz'. If you wanted to emit the '%' character verbatim, you need to use '%%'",
    );
    check("%[foo]", "failed to parse sample expression <foo]> : unknown fetch method 'foo'");
    check("%[int(1)", "missing ']' after 'int(1)'");
    check("%", "truncated line after '%'");
    check("%{+Q", "truncated line after '+Q'");
    check("%{+Q}", "parse argument modifier without alias name near '%{+Q}'");
    check(
        "%(a:int)[int(1)]",
        "unexpected output type 'int' at position 4 line : '%(a:int)[int(1)]'. Supported types are: str, sint, bool, raw",
    );
    check("%[str(a),lower ]", "expected ']' after 'str(a),lower', but found ' '");
    check("%[ str(a)]", "failed to parse sample expression < str(a)]> : missing fetch method");
    check("%(a b)ci", "invalid character in custom name near ' ' at position 3 line : '%(a b)ci'");
}

/// `\xNN` in a configuration makes words that are not UTF-8: every byte arrives.
#[test]
fn bytes_that_are_not_text_arrive() {
    let check = |format: &[u8], expected: &str| {
        let format = thalweg_syntax::carry::carry(format);
        assert_eq!(rig().format(&format, Usage::Raw), expected, "{format}");
    };
    check(b"caf\xe9 %[str(\xe0\xff),hex]", "caf\\xe9 E0FF");
    check(b"%[str(\xe0),json(utf8)]|%[str(-\xe0-),json(utf8s)]", "|--");
    check(b"%[str(\"\xf4\x8f\xbc\x80\"),hex]", "F48FBC80");
    let mut rig = rig();
    let mut holds = |method: &'static str, pattern: &[u8]| {
        let pattern = thalweg_syntax::carry::carry(pattern);
        let words = ["if", "{", "bin(e961)", "-m", method, &*pattern, "}"];
        let condition = rig.compile(|env| crate::acl::Condition::compile(&words, env)).unwrap();
        rig.run(|cx| condition.holds(cx))
    };
    assert!(holds("str", b"\xe9a") && holds("beg", b"\xe9") && holds("sub", b"\xe9"));
    assert!(holds("reg", b"^[\xe8-\xea]a$") && !holds("reg", b"\xe8") && !holds("str", b"\xe8a"));
}

/// What the reference wrote for the same formats.
#[test]
fn encodings_names_and_flags_of_odd_formats() {
    let mut rig = rig();
    rig.stream.req_captures.reset(2);
    rig.stream.res_captures.reset(1);
    rig.stream.req_captures.set(0, b"a\"b|\xc3\xa9", 10);
    let mut check = |usage, format: &str, expected: &str| check_with(&mut rig, usage, format, expected);
    // Nothing is not zero, whatever type was asked for.
    check(
        Usage::Raw,
        "%{+json}o%(a:sint)[str()]%(b:bool)[req.hdr(none)]%(c:raw)[req.hdr(none)]",
        r#"{"a": "", "b": "", "c": }"#,
    );
    check(Usage::Raw, "%{+cbor}o%(a:sint)[str()]%(b:bool)[req.hdr(none)]", "BF6161F66162F6FF");
    // Aliases that are text stay text, numbers become what JSON can say; CBOR has numbers.
    check(
        Usage::Raw,
        "%{+json}o%(a:sint)f%(b:bool)sq%(c:str)sq%(d:raw)f",
        r#"{"a": "fe", "b": false, "c": "0", "d": "fe"}"#,
    );
    check(
        Usage::Raw,
        "%{+cbor}o%(a:sint)f%(b:bool)sq%(c:str)sq",
        "BF616162666561 62F4616300FF".replace(' ', "").as_str(),
    );
    // An address is neither true nor false.
    check(Usage::Raw, "%(a:bool){+json}[src]|%(a:sint){+json}[src]", "\"\"|2130706433");
    // Texts that are escaped come in pieces.
    check(Usage::Raw, "%{+cbor}HM|%{+cbor}f|%{+cbor}ft", "7F63474554FF|626665|7F626665FF");
    check(
        Usage::Raw,
        "%{+cbor}hr|%{+cbor}hrl",
        "7F617B616163233232616263233743606323433360632341396 17C617DFF|9F7F6161632332326162632337436063234333606323413 9FF7F612DFFFF"
            .replace(' ', "")
            .as_str(),
    );
    // The first encoding stays.
    check(Usage::Raw, "%{+json,+cbor}f|%{+cbor,+json}f", "\"fe\"|626665");
    check(Usage::Raw, "%hrl|%{+Q}hrl|%{+E}hrl", "a#22b#7C#C3#A9 -|\"a#22b#7C#C3#A9\" \"\"|a#22b#7C#C3#A9 -");
    // In headers aliases are quoted and expressions are not, both are escaped.
    check(
        Usage::Header,
        "%{+Q}f|%{+Q}[path]|%{+Q}CC|%{+Q}[req.hdr(none)]|%CC|%hrl",
        "\"fe\"|/p/a|\"\"|||a#22b#7C#C3#A9 -",
    );
    check(Usage::Header, "%{+E}[bin(5c5d22410908)]", "\\\\\\]\\\"A\t%08");
    // Only spaces merge; a name alone does not make an alias of the percent sign.
    check(Usage::Log, "a  b\t\t  c%(n)%|%(x:sint)%", "a b\t\t c%|%");
}

#[test]
fn names_have_letters_digits_dashes_and_underscores() {
    let error = |format: &str| rig().compile(|env| LogFormat::compile(format, Usage::Raw, env).unwrap_err());
    assert!(error("%(a.b)[src]").starts_with("invalid character in custom name near '.' at position 3"));
    assert!(error("%{+Q}%").starts_with("parse argument modifier without alias name"));
}
