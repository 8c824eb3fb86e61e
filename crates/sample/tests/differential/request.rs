//! The requests that expressions are evaluated on: typical ones, and odd and hostile ones.

/// One request. Header names are in lower case, as the reference stores them.
pub struct Request {
    pub method: &'static str,
    pub target: &'static str,
    pub headers: Vec<(&'static str, Vec<u8>)>,
    pub body: Vec<u8>,
}

/// Address and port of the client and of the proxy, as a PROXY header announces them.
pub const CLIENT: (&str, u16) = ("10.1.2.3", 4567);
pub const PROXY: (&str, u16) = ("192.168.7.9", 8080);

/// The headers expressions may ask for.
pub const NAMES: [&str; 22] = [
    "host",
    "x-a",
    "x-csv",
    "x-json",
    "x-lang",
    "x-date",
    "x-b64",
    "x-hex",
    "x-url",
    "x-utf8",
    "x-long",
    "x-fwd",
    "x-num",
    "x-ip",
    "x-jwt",
    "x-odd",
    "x-empty",
    "x-path",
    "cookie",
    "authorization",
    "user-agent",
    "x-missing",
];

pub fn all() -> Vec<Request> {
    let text = |name: &'static str, value: &str| (name, value.as_bytes().to_vec());
    let mut plain = vec![
        text("host", "Www.Example.COM:8080"),
        text("x-a", "alpha"),
        text("x-csv", "one,two,,four"),
        text("x-csv", " five , \"six,seven\" "),
        text("x-json", r#"{"a":1,"b":{"c":[1,2,{"d":"x"}]},"s":"q\"\u0041","f":1.5,"t":true,"n":null}"#),
        text("x-lang", "fr;q=0.8,en;q=0.9,de"),
        text("x-date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        text("x-b64", "aGVsbG8gd29ybGQ="),
        text("x-hex", "00ff10aB"),
        text("x-url", "a%20b+c?d+e%41"),
        text("x-utf8", "caf\u{e9} \u{20ac}"),
        text("x-fwd", "for=\"[::1]:80\";proto=https;host=\"example.com:8\";by=_hid"),
        text("x-num", "-42"),
        text("x-ip", "10.20.30.40"),
        text("x-jwt", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMiLCJuIjo1fQ.YWJj"),
        text("x-odd", "a\tb"),
        text("x-empty", ""),
        text("x-path", "/a/b//c/?x=1&y=2;z=3&x=4"),
        text("cookie", "a=1; SRV=be/s1; b=\"two\"; a=3"),
        text("authorization", "Basic am9lOnNlY3JldA=="),
        text("user-agent", "Mozilla/5.0 (X11; Linux x86_64)"),
    ];
    plain.push(("x-long", (0..5000u32).map(|i| b'a' + (i % 26) as u8).collect()));
    let hostile = vec![
        text("host", "[2001:db8::1]:443"),
        text("x-a", "a\"b\\c/d'e`f$g#h%i&j;k,l=m|n<o>p(q)r[s]t{u}v"),
        text("x-csv", ",,,"),
        text("x-json", r#"[[[[1,2],[3]]],{"a":{"a":{"a":[]}}},"\u00e9\/",1e400,-0,01,true1]"#),
        text("x-lang", "en;q=0, *;q=1, fr-CA ;q=1.001, de;Q=0.5;x"),
        text("x-date", "Sunday, 31-Feb-61 24:60:60 GMT trailing"),
        text("x-b64", "a===YQ==Yg"),
        text("x-hex", "0g"),
        text("x-url", "%zz%4"),
        ("x-utf8", b"\xc3\x28 \xe2\x82 \xf0\x9f\x98\x80 \xff \xc0\xaf".to_vec()),
        text("x-fwd", "for=unknown;for=_x"),
        text("x-num", "99999999999999999999"),
        text("x-ip", "::ffff:1.2.3.4"),
        text("x-jwt", "..."),
        ("x-odd", (0x21..=0xff).filter(|b| *b != 0x7f).collect()),
        text("x-empty", "x"),
        text("x-path", "//..///%2e%2e/?&=&;==&x"),
        text("cookie", "=; ;a;b=;c==;  d = e ;"),
        text("authorization", "Bearer   abc.def.ghi"),
        text("user-agent", "-"),
    ];
    let short = vec![
        text("host", "h"),
        text("x-a", "0"),
        text("x-csv", "a"),
        text("x-json", "5"),
        text("x-lang", "en"),
        text("x-date", "Sun Nov  6 08:49:37 1994"),
        text("x-b64", "YQ"),
        text("x-num", "7"),
        text("x-ip", "2001:db8:1:2::3"),
        text("x-fwd", "by=1.2.3.4;for=_a"),
        text("x-url", "+"),
        text("x-path", "rel"),
        text("x-odd", " "),
        text("cookie", "a=1"),
    ];
    vec![
        Request {
            method: "GET",
            target: "/path/to/file.html?a=1&b=two&a=3&empty=&q",
            headers: plain,
            body: Vec::new(),
        },
        Request {
            method: "POST",
            target: "/..//%7euser/;p=1?x[]=%41+b&y=&&=z",
            headers: hostile,
            body: b"a=1&b=%20two&\x00\x01\xff&json={\"k\":5}".to_vec(),
        },
        Request { method: "OPTIONS", target: "*", headers: short, body: b"x".to_vec() },
    ]
}
