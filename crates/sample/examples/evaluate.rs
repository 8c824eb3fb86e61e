//! Evaluates one condition, expression or log format a number of times, to be counted from outside:
//! `evaluate if '{ path_beg /api/ }' 1000`, `evaluate expr src 1000`, `evaluate log httplog 1000`. The difference
//! between two counts under a simulator, divided by the difference of the numbers, is the cost of one evaluation.

use std::hint::black_box;
use thalweg_sample::testing::Rig;
use thalweg_sample::{Condition, Expr, LogFormat, Usage, logformat};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, kind, text, count] = &args[..] else {
        eprintln!("usage: evaluate if|expr|log <text> <count>");
        std::process::exit(1);
    };
    let count: u32 = count.parse().unwrap_or(1);
    let mut rig = Rig::with_request(
        "GET /api/v1/users?id=42&sort=asc HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: Mozilla/5.0 (X11)\r\n\
         Accept: text/html,application/xhtml+xml\r\nAccept-Encoding: gzip, deflate\r\nCookie: a=b; SERVERID=s1; c=d\r\n\
         X-Forwarded-For: 10.0.0.1, 192.168.0.1\r\n\r\n",
    );
    match &kind[..] {
        "if" => {
            let words: Vec<&str> = std::iter::once("if").chain(text.split(' ')).collect();
            let condition = rig.compile(|env| Condition::compile(&words, env)).expect("it compiles");
            rig.run(|cx| {
                for _ in 0..count {
                    black_box(condition.eval(cx));
                }
            });
        }
        "log" => {
            let text = if text == "httplog" { logformat::HTTP_LOG_FMT } else { text };
            let format = rig.compile(|env| LogFormat::compile(text, Usage::Log, env)).expect("it compiles");
            let mut out = Vec::new();
            rig.run(|cx| {
                for _ in 0..count {
                    out.clear();
                    format.render(cx, &mut out);
                }
            });
        }
        _ => {
            let expr = rig.compile(|env| Expr::compile(text, env)).expect("it compiles");
            rig.run(|cx| {
                for _ in 0..count {
                    let mark = cx.mark();
                    black_box(expr.eval(cx));
                    cx.release(mark);
                }
            });
        }
    }
}
