//! What TLS costs: handshakes and records of our client with our server, in one thread, without a socket.
//!
//!     cargo run --profile quick -p thalweg-tls --example connection_cost
//!
//! Both ends run here, so a handshake's figure is the sum of both sides. Memory is what the process grows by per pair of
//! connections.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use support::*;
use thalweg_tls::bind::Profile;
use thalweg_tls::engine::Connection;
use thalweg_tls::options::Versions;
use thalweg_tls::x509::make::NewKey;

/// How long this thread has run on a processor: a busy machine does not change it.
fn on_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(first.unwrap_or(0))
}

/// The median processor time of a call, over rounds of calls for a tenth of a second each.
fn time(mut call: impl FnMut()) -> Duration {
    let mut rounds = Vec::new();
    for _ in 0..7 {
        let (begin, started, mut calls) = (Instant::now(), on_processor(), 0);
        while begin.elapsed() < Duration::from_millis(100) {
            call();
            calls += 1;
        }
        rounds.push((on_processor() - started) / calls);
    }
    rounds.sort();
    rounds[3]
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// What the process grows by for connections that wait. It comes first, before there is freed memory to be used again.
fn memory(versions: Versions, version: &str, authority: &Authority) {
    let clock = clock();
    let served = authority.server("a.example.com", NewKey::P256);
    let selection = bind(&Profile { versions, ..Profile::default() }, shared(&clock), &[&served]);
    let context = server(&trusting(authority), &clock);
    shake(&selection, &context, Some("a.example.com"), 99_999).unwrap();
    let before = resident_kb();
    let kept: Vec<_> = (0..4000)
        .map(|_| {
            let (client, server) = shake(&selection, &context, Some("a.example.com"), 99_999).unwrap();
            (client.connection, server.connection)
        })
        .collect();
    let grown = resident_kb() - before;
    println!("{version}: {} bytes for both ends of a connection", grown * 1024 / kept.len() as u64);
}

/// Loading certificates as a start with a large directory does.
fn loading(authority: &Authority) {
    use thalweg_tls::certificate::{LoadOptions, Loader};
    let text = authority.issue(&template("a").hosts(&["a.example.com", "b.example.com"]), NewKey::Rsa2048);
    let options = LoadOptions { lazy_keys: true, ..LoadOptions::default() };
    let files = MemoryFiles::default();
    let loader = Loader { files: &files, options: &options };
    let cost = time(|| drop(loader.load_bytes("a.pem", text.as_bytes()).unwrap()));
    let before = resident_kb();
    let kept: Vec<_> = (0..10_000).map(|_| loader.load_bytes("a.pem", text.as_bytes()).unwrap()).collect();
    let grown = resident_kb() - before;
    println!("loading an RSA certificate: {cost:?}, {} bytes", grown * 1024 / kept.len() as u64);
}

fn main() {
    let (clock, authority) = (clock(), Authority::new("Root"));
    println!("a connection is {} bytes, and what rustls keeps for it", size_of::<Connection>());
    for (tls13, version) in [(false, "TLS 1.2"), (true, "TLS 1.3")] {
        let versions = Versions { tls12: !tls13, tls13 };
        memory(versions, version, &authority);
        for (kind, name) in [(NewKey::P256, "ECDSA P-256"), (NewKey::Rsa2048, "RSA 2048")] {
            let served = authority.server("a.example.com", kind);
            let selection = bind(&Profile { versions, ..Profile::default() }, shared(&clock), &[&served]);
            let mut full = trusting(&authority);
            full.reuse = false;
            full.policy.required = false;
            let once = server(&full, &clock);
            let cost = time(|| drop(shake(&selection, &once, Some("a.example.com"), 99_999).unwrap()));
            println!("{version} {name}, full: {cost:?}");
            full.reuse = true;
            let again = server(&full, &clock);
            let cost = time(|| drop(shake(&selection, &again, Some("a.example.com"), 99_999).unwrap()));
            println!("{version} {name}, resumed: {cost:?}");
        }
        let served = authority.server("a.example.com", NewKey::P256);
        let selection = bind(&Profile { versions, ..Profile::default() }, shared(&clock), &[&served]);
        let context = server(&trusting(&authority), &clock);
        let (mut client, mut server) = shake(&selection, &context, Some("a.example.com"), 99_999).unwrap();
        for size in [100, 1000, 16384] {
            let (head, body) = (vec![1; size / 4], vec![2; size - size / 4]);
            let mut wire = vec![0; size + 100];
            let sealing = |wire: &mut [u8], server: &mut Connection| {
                server.seal(&[&head, &body], 16384, wire).unwrap().written
            };
            let both = time(|| {
                let written = sealing(&mut wire, &mut server.connection);
                client.connection.open(&mut wire[..written]).unwrap();
            });
            let sealed = time(|| {
                sealing(&mut wire, &mut server.connection);
            });
            println!(
                "{version} record of {size} bytes: sealed {sealed:?}, opened {:?}",
                both.saturating_sub(sealed)
            );
            // The other end did not see the last records.
            (client, server) = shake(&selection, &context, Some("a.example.com"), 99_999).unwrap();
        }
    }
    loading(&authority);
}
