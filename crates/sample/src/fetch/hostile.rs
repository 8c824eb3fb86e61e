//! Hostile input: no fetch, matching method or format costs more than linear time in the size of what it reads. Work is
//! counted in time here, but only compared with itself: doubling the input may not triple the least time of many runs.

use crate::acl::Condition;
use crate::testing::Rig;
use crate::{Expr, LogFormat, Usage};
use std::time::Instant;

/// The least time of several runs of `work`, after one to warm up.
fn least(mut work: impl FnMut()) -> u128 {
    work();
    (0..15)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_nanos().max(1)
        })
        .min()
        .unwrap_or(1)
}

/// Compares the work on inputs of one and of eight times a size: linear work grows eight times, quadratic sixty-four.
fn linear(name: &str, mut work: impl FnMut(usize)) {
    let mut ratio = f64::MAX;
    // A slow moment of the machine must not fail this: the best of several tries counts, and the bound is far from both.
    for _ in 0..5 {
        let small = least(|| work(1600)) as f64;
        ratio = ratio.min(least(|| work(12_800)) as f64 / small);
        if ratio < 16.0 {
            break;
        }
    }
    assert!(ratio < 32.0, "{name}: eight times the input took {ratio:.0} times the time");
}

fn request(target: &str, value: &str) -> Rig {
    let mut rig = Rig::with_request(&format!(
        "GET {target} HTTP/1.1\r\nHost: h\r\nX: {value}\r\nCookie: {value}\r\n\r\n"
    ));
    rig.scratch = crate::Scratch::new(65536);
    rig
}

#[test]
fn fetches_are_linear() {
    for (unit, expressions) in [
        (
            ",",
            &["hdr(x)", "hdr_cnt(x)", "hdr(x,-5)", "hdr_ip(x,3)", "hdr_val(x)", "req.hdrs", "req.hdrs_bin"][..],
        ),
        ("a=b;", &["cook(zz)", "cook_cnt", "req.cook_names", "cook(a)"]),
        ("a=\"", &["cook(zz)", "cook_cnt", "hdr_cnt(x)"]),
        ("\\\",", &["hdr_cnt(x)", "hdr(x,-1)"]),
    ] {
        for text in expressions {
            linear(&format!("{text} on {unit:?}"), |n| {
                let mut rig = request("/", &unit.repeat(n / unit.len()));
                let expr = rig.compile(|env| Expr::compile(text, env)).unwrap();
                rig.run(|cx| expr.eval(cx));
            });
        }
    }
    for (unit, expressions) in [
        ("&", &["urlp(zz)", "url_param(zz)", "query"][..]),
        ("a=&", &["urlp(zz)", "urlp(zz,,i)"]),
        ("?", &["urlp(zz)", "path", "pathq", "urlp(zz,?)"]),
        ("/", &["path", "base", "base32", "url", "url_ip", "url_port"]),
    ] {
        for text in expressions {
            linear(&format!("{text} on {unit:?}"), |n| {
                let mut rig = request(&format!("/?{}", unit.repeat(n / unit.len())), "");
                let expr = rig.compile(|env| Expr::compile(text, env)).unwrap();
                rig.run(|cx| expr.eval(cx));
            });
        }
    }
}

#[test]
fn conditions_are_linear() {
    for (target, value, condition) in [
        ("/a", ",", "if { hdr(x) zz }"),
        ("/a", "a=b;", "if { cook zz }"),
        ("/a", "a=b;", "if { cook(a) zz }"),
        ("?a=b", "", "if { urlp zz }"),
        ("/a", "", "if { path_dir zz/zz/zz b c d e }"),
        (".a", "", "if { url_dom zz.zz.zz b c d e }"),
        ("a", "", "if { path_sub aaaaaaab aab ab zz }"),
        ("a", "", "if { path_end zz aaaaab aab ab b }"),
        ("a", "", "if { path_beg zz aaaaab aab ab b }"),
        ("a", "", "if { path_reg ^/(a+)+$ }"),
    ] {
        linear(condition, |n| {
            let mut rig = request(
                &format!("/?{}", target.repeat(n / target.len())),
                &value.repeat(n / value.len().max(1)),
            );
            let words: Vec<&str> = condition.split(' ').collect();
            let condition = rig.compile(|env| Condition::compile(&words, env)).unwrap();
            rig.run(|cx| condition.eval(cx));
        });
    }
}

#[test]
fn formats_are_linear() {
    for format in ["%r %HU %HQ %hr", "%{+json}o %(a)r %(b)[req.fhdr(x)]", "%{+E,+Q}[req.fhdr(x)]"] {
        linear(format, |n| {
            let mut rig = request("/", &"\"".repeat(n));
            rig.stream.request_line = format!("GET /{} HTTP/1.1", "\"".repeat(n)).into_bytes();
            let format = rig.compile(|env| LogFormat::compile(format, Usage::Log, env)).unwrap();
            let mut out = Vec::new();
            rig.run(|cx| format.render(cx, &mut out));
        });
    }
}
