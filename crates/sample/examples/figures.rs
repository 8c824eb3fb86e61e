//! Prints what the expression engine costs on this machine: maps of a million entries, typical expressions, log lines and
//! ten thousand rules. `cargo run --release -p thalweg-sample --example figures`

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;
use thalweg_sample::pattern::{Method, Needle, SnapshotCache};
use thalweg_sample::testing::Rig;
use thalweg_sample::{Condition, Dispatch, Expr, LogFormat, Registry, Usage};

const ENTRIES: u32 = 1_000_000;

/// Resident memory in MiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or("");
    let kib: f64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0.0);
    kib / 1024.0
}

fn scramble(i: u32) -> u32 {
    i.wrapping_mul(2_654_435_761).rotate_left(7)
}

/// Nanoseconds per call of `work`, the best of five runs.
fn time(calls: u32, mut work: impl FnMut(u32)) -> f64 {
    (0..5)
        .map(|_| {
            let start = Instant::now();
            (0..calls).for_each(&mut work);
            start.elapsed().as_nanos() as f64 / f64::from(calls)
        })
        .fold(f64::MAX, f64::min)
}

fn map(method: Method, key: impl Fn(u32) -> String, probe: impl Fn(u32) -> Probe) {
    let mut text = String::new();
    for i in 0..ENTRIES {
        let _ = writeln!(text, "{} backend-{}", key(i), i % 1000);
    }
    let bytes = text.into_bytes();
    let before = resident();
    let registry = Registry::default();
    let start = Instant::now();
    let size = bytes.len();
    let set = registry.open("figures", true, "", |_| Ok(bytes)).expect("the file loads");
    let index = set.index(method, false).expect("every pattern is good");
    let load = start.elapsed();
    let grown = resident() - before + size as f64 / 1048576.0;
    let mut cache = SnapshotCache::default();
    let probes: Vec<Probe> = (0..1 << 16).map(|i| probe(scramble(i) % ENTRIES)).collect();
    let mut hits = 0u32;
    let lookup = time(1 << 16, |i| {
        let needle = match &probes[i as usize] {
            Probe::Text(text) => Needle::Bytes(text.as_bytes()),
            Probe::Ip(ip) => Needle::Ip(*ip),
            Probe::Int(i) => Needle::Int(*i),
        };
        hits +=
            u32::from(index.find(&mut cache, needle, false, |hit| black_box(hit.value().len())).is_some());
    });
    println!(
        "map_{:<4} {ENTRIES} entries: load {:>4} ms, memory {grown:>4.0} MiB, lookup {lookup:>4.0} ns ({} of {} found)",
        method.name(),
        load.as_millis(),
        hits / 5,
        1 << 16,
    );
    let start = Instant::now();
    for i in 0..1000 {
        set.add(key(ENTRIES + i).as_bytes(), b"new").expect("a good pattern");
    }
    println!(
        "         1000 entries added one by one: {:.1} us each",
        start.elapsed().as_micros() as f64 / 1000.0
    );
}

enum Probe {
    Text(String),
    Ip(std::net::IpAddr),
    Int(i64),
}

/// Nanoseconds of one read of a random place of 64 MiB: what a lookup that misses every cache pays for each line.
fn memory_latency() -> f64 {
    let n: u32 = 1 << 24;
    let next: Vec<u32> = (0..n).map(|i| i.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % n).collect();
    let mut at = 0;
    time(1 << 18, |_| at = black_box(next[at as usize]))
}

fn main() {
    println!("one read of memory outside the caches: {:.0} ns", memory_latency());
    map(Method::Str, |i| format!("host-{i}.example.com"), |i| Probe::Text(format!("host-{i}.example.com")));
    map(Method::Beg, |i| format!("/path/{i}/"), |i| Probe::Text(format!("/path/{i}/index.html")));
    map(Method::End, |i| format!(".host-{i}.com"), |i| Probe::Text(format!("www.host-{i}.com")));
    map(Method::Dom, |i| format!("host-{i}.com"), |i| Probe::Text(format!("www.host-{i}.com")));
    let ip = |i: u32| std::net::Ipv4Addr::from_bits(scramble(i));
    map(Method::Ip, |i| format!("{}/{}", ip(i), 20 + i % 13), |i| Probe::Ip(ip(i).into()));
    let ip6 =
        |i: u32| std::net::Ipv6Addr::from_bits((0x2001_0db8u128 << 96) | (u128::from(scramble(i)) << 64));
    map(Method::Ip, |i| format!("{}/{}", ip6(i), 48 + i % 16), |i| Probe::Ip(ip6(i).into()));
    map(Method::Int, |i| format!("{}:{}", i * 4, i * 4 + 2), |i| Probe::Int(i64::from(i) * 4 + 1));

    println!("\nexpressions, per evaluation:");
    let mut rig = Rig::with_request(
        "GET /api/v1/users?id=42&sort=asc HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: Mozilla/5.0 (X11)\r\n\
         Accept: text/html,application/xhtml+xml\r\nAccept-Encoding: gzip, deflate\r\nCookie: a=b; SERVERID=s1; c=d\r\n\
         X-Forwarded-For: 10.0.0.1, 192.168.0.1\r\n\r\n",
    );
    for text in [
        "src",
        "path",
        "req.hdr(host)",
        "req.hdr(host),lower,field(1,:)",
        "req.hdr(x-forwarded-for,-1)",
        "url_param(id)",
        "req.cook(SERVERID)",
        "base,crc32(1)",
        "src,ipmask(24)",
        "method",
        "path,regsub(^/api/v[0-9]+,/v)",
        "str(a),concat(-,txn.none,-)",
    ] {
        let expr = rig.compile(|env| Expr::compile(text, env)).expect("it compiles");
        let ns = rig.run(|cx| {
            time(100_000, |_| {
                let mark = cx.mark();
                black_box(expr.eval(cx));
                cx.release(mark);
            })
        });
        println!("  {ns:>6.1} ns  {text}");
    }
    println!("\nconditions, per evaluation:");
    for text in [
        "if { path_beg /api/ }",
        "if { hdr(host) -i www.example.com }",
        "if METH_GET { path_end .png .jpg .gif .css .js }",
        "if { src 10.0.0.0/8 192.168.0.0/16 127.0.0.0/8 }",
        "if { path_reg ^/api/v[0-9]+/users }",
        "if { hdr_sub(user-agent) -i bot crawler spider }",
    ] {
        let words: Vec<&str> = text.split(' ').collect();
        let condition = rig.compile(|env| Condition::compile(&words, env)).expect("it compiles");
        let ns = rig.run(|cx| {
            time(100_000, |_| {
                black_box(condition.eval(cx));
            })
        });
        println!("  {ns:>6.1} ns  {text}");
    }
    println!("\nlog lines:");
    for (name, text) in [
        ("httplog", thalweg_sample::logformat::HTTP_LOG_FMT),
        ("httplog clf", thalweg_sample::logformat::HTTP_CLF_LOG_FMT),
        ("httplog json", thalweg_sample::logformat::HTTP_JSON_LOG_FMT),
    ] {
        let format = rig.compile(|env| LogFormat::compile(text, Usage::Log, env)).expect("it compiles");
        let mut out = Vec::new();
        let ns = rig.run(|cx| {
            time(50_000, |_| {
                out.clear();
                format.render(cx, &mut out);
            })
        });
        println!("  {ns:>6.1} ns  {name} ({} bytes)", out.len());
    }
    println!("\nuse_backend rules, per choice of the last one:");
    for rules in [10u32, 100, 10_000] {
        for (shape, last) in [("{ hdr(host) -i NAME }", "www.example.com"), ("{ path_beg NAME }", "/api/v1/")]
        {
            let conditions = (1..=rules)
                .map(|i| {
                    let name = if i == rules { last.to_string() } else { format!("/other-{i}.example.com/") };
                    let text = format!("if {}", shape.replace("NAME", &name));
                    let words: Vec<&str> = text.split(' ').collect();
                    Some(rig.compile(|env| Condition::compile(&words, env)).expect("it compiles"))
                })
                .collect();
            let dispatch = Dispatch::new(conditions, &rig.registry);
            let fast = rig.run(|cx| {
                time(20_000, |_| {
                    black_box(dispatch.first(cx, 0));
                })
            });
            let slow = rig.run(|cx| {
                time(200, |_| {
                    black_box(dispatch.scan(cx, 0));
                })
            });
            println!("  {fast:>8.1} ns indexed, {slow:>10.1} ns one by one: {rules:>5} rules {shape}");
        }
    }
}
