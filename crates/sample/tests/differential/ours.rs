//! Runs cases in this process.

use super::Outcome;
use super::generate::{Case, Kind};
use super::request::{CLIENT, PROXY, Request};
use std::net::SocketAddr;
use thalweg_http::{Head, Version};
use thalweg_sample::testing::FakeWorld;
use thalweg_sample::{
    Clock, CompileEnv, Condition, Ctx, Endpoint, Expr, ListenerId, Mode, Payload, Point, ProxyId, ProxyScope,
    Registry, Scratch, Session, StreamFacts, Type, VarRef,
};

/// The map that the map converters are tried on.
pub const FILES: [&[u8]; 5] = [
    b"a 1\nalpha 2\nb 3\n/path 4\nwww 5\nexample.com 6\n10.0.0.0/8 7\n10.20.0.0/16 8\n7 9\n-42 10\n.html 11\nto 12\n^/(p)a 13\n",
    // Comments, blanks around keys and values, values with blanks, none at all, twice the same key, other line ends.
    b"# comment\n\n   \n  abc lead\nalpha   trail  \t \nGET\nPOST \na\ttab\ntwo words here  \n/path\t\tv v\t\r\nb cr\r\n\
\"a b\" quoted\nabc again\n#a not\n a#b mid # not\nx \xff\xfe\nhtml \n1.2.3.4 10.0.0.1 \ntrue  1\nlast 5",
    b"1 one\n 42  9 \n5:9 range\n7 seven\n300: many\n:3 low  \n0\n# c\n255 1.2.3.4\n",
    b"10.0.0.0/8 7\n10.20.0.0/16 8 \n 1.2.3.4  1.1.1.1\n::1 six\n2001:db8::/32\tdoc\n192.168.0.0/255.255.0.0 9\n# c\n1.2.3.0/24 net\n",
    b"^/(p)a 13\n[0-9]+ digits\n  ^a  first \n(x|y)$ \\1-\\0\n# c\n^(.)(.) [\\2\\1]\n",
];

fn address((ip, port): (&str, u16)) -> Endpoint {
    Endpoint::Inet(SocketAddr::new(ip.parse().expect("address"), port))
}

pub fn run(case: &Case, requests: &[Request]) -> Outcome {
    let request = &requests[case.request];
    let mut world = FakeWorld::default();
    for (number, file) in FILES.iter().enumerate() {
        world.files.insert(format!("@MAP{number}@"), file.to_vec());
        world.files.insert(format!("@ACL{number}@"), file.to_vec());
    }
    world.captures = [vec![5, 64], vec![8]];
    let registry = Registry::default();
    let proxy = ProxyScope {
        name: "fe",
        id: Some(ProxyId(0)),
        frontend: true,
        backend: false,
        defaults: false,
        mode: Mode::Http,
    };
    let point = if case.kind == Kind::Log { Point::Log } else { Point::FeHttpRequest };
    let mut env = CompileEnv::new("cfg", 1, proxy, point.set(), &world, &registry);
    let compile = |text: &str, env: &mut CompileEnv| Expr::compile(text, env);
    enum Compiled {
        Expression(Box<Expr>),
        Condition(Condition),
        Format(thalweg_sample::LogFormat),
    }
    let compiled = match case.kind {
        Kind::Expression => compile(&case.text, &mut env)
            .and_then(|expr| expr.check_points(&env).map(|()| expr))
            .map(|expr| Compiled::Expression(Box::new(expr))),
        Kind::Condition => {
            let words: Vec<&str> =
                ["if", "{"].into_iter().chain(case.text.split('\u{1}')).chain(["}"]).collect();
            Condition::compile(&words, &mut env).map(Compiled::Condition)
        }
        Kind::Format | Kind::Header | Kind::Log => {
            super::generate::format(case.kind, &case.text, &mut env).map(Compiled::Format)
        }
    };
    let compiled = match compiled {
        Ok(compiled) => compiled,
        Err(e) => return Outcome::Refused(e),
    };
    if let Some(e) = env.late.first() {
        return Outcome::Refused(e.clone());
    }
    let show: Vec<Expr> = [
        "var(txn.r),length",
        "var(txn.r),sha1,hex",
        "var(txn.r),bytes(0,60),hex",
        "var(txn.r),concat(),bytes(0,60),hex",
    ]
    .iter()
    .map(|text| compile(text, &mut env).expect("rendering"))
    .collect();

    let mut head = Head::new();
    head.start_request(request.method.as_bytes(), request.target.as_bytes(), Version::HTTP_11)
        .expect("request line");
    head.push(b"x-n", case.number.to_string().as_bytes()).expect("header");
    head.push(b"content-length", request.body.len().to_string().as_bytes()).expect("header");
    for (name, value) in &request.headers {
        // Blanks around a value are not part of it.
        head.push(name.as_bytes(), value.trim_ascii()).expect("header");
    }
    // The Connection header is gone when rules run.
    let mut session = Session::new(ProxyId(0), ListenerId(1));
    session.fc_src = address(CLIENT);
    session.fc_dst = address(PROXY);
    session.rcvd_proxy = true;
    let mut stream = StreamFacts::new(ProxyId(0), true);
    stream.request_line = format!("{} {} HTTP/1.1", request.method, request.target).into_bytes();
    stream.req_captures.reset(2);
    stream.res_captures.reset(1);
    if case.kind == Kind::Format {
        // The payload of an answer is made when it is known which answer it is.
        stream.status = 201;
        stream.termination.cause = b'L';
        stream.termination.phase = b'R';
    }
    // Not shared between cases: it remembers the pattern sets of one registry.
    let mut scratch = Scratch::default();
    {
        let mut cx = Ctx::new(Clock::default(), &world, &mut session, &mut scratch);
        cx.reset();
        cx.stream = Some(&mut stream);
        cx.request = Some(&mut head);
        cx.req_body = Payload::new(&request.body, true, Some(request.body.len() as u64));
        let var = VarRef::parse("txn.r").expect("variable");
        match &compiled {
            Compiled::Expression(expr) => {
                if let Some(sample) = expr.eval(&mut cx) {
                    cx.set_var(var, sample.value);
                }
            }
            Compiled::Condition(condition) => {
                if condition.holds(&mut cx) {
                    cx.set_var(var, thalweg_sample::Value::Str(thalweg_sample::Text::Static(b"yes")));
                }
            }
            Compiled::Format(format) => {
                let text = super::generate::render(format, &mut cx);
                return Outcome::Value(match case.kind {
                    // The oracle shows a header in hexadecimal, without the blanks around it.
                    Kind::Header => {
                        text.trim_matches([' ', '\t']).chars().map(|c| format!("{:02X}", c as u32)).collect()
                    }
                    _ => text,
                });
            }
        }
        if cx.var(var).is_none() {
            return Outcome::Value("NONE".into());
        }
        let shown: Vec<String> = show
            .iter()
            .map(|expr| {
                let sample = expr.eval_as(Type::Str, &mut cx);
                // A log format shows a dash for a value that is not there.
                sample
                    .map_or_else(|| "-".into(), |s| String::from_utf8_lossy(cx.bytes(&s.value)).into_owned())
            })
            .collect();
        Outcome::Value(shown.join(" "))
    }
}
