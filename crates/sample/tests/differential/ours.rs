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
pub const MAP: &str = "a 1\nalpha 2\nb 3\n/path 4\nwww 5\nexample.com 6\n10.0.0.0/8 7\n10.20.0.0/16 8\n7 9\n-42 10\n.html 11\nto 12\n^/(p)a 13\n";

fn address((ip, port): (&str, u16)) -> Endpoint {
    Endpoint::Inet(SocketAddr::new(ip.parse().expect("address"), port))
}

pub fn run(case: &Case, requests: &[Request]) -> Outcome {
    let request = &requests[case.request];
    let mut world = FakeWorld::default();
    world.files.insert("@MAP@".into(), MAP.as_bytes().to_vec());
    let registry = Registry::default();
    let proxy = ProxyScope {
        name: "fe",
        id: Some(ProxyId(0)),
        frontend: true,
        backend: false,
        defaults: false,
        mode: Mode::Http,
    };
    let mut env = CompileEnv::new("cfg", 1, proxy, Point::FeHttpRequest.set(), &world, &registry);
    let compile = |text: &str, env: &mut CompileEnv| Expr::compile(text, env);
    enum Compiled {
        Expression(Box<Expr>),
        Condition(Condition),
        Format(thalweg_sample::LogFormat),
    }
    let compiled = match case.kind {
        Kind::Expression => compile(&case.text, &mut env).map(|expr| Compiled::Expression(Box::new(expr))),
        Kind::Condition => {
            let words: Vec<&str> =
                ["if", "{"].into_iter().chain(case.text.split('\u{1}')).chain(["}"]).collect();
            Condition::compile(&words, &mut env).map(Compiled::Condition)
        }
        Kind::Format => super::generate::format(&case.text, &mut env).map(Compiled::Format),
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
                return Outcome::Value(super::generate::render(format, &mut cx));
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
