//! The load: saturation through wrk, and a fixed rate or idle connections of our own making.
//!
//! The fixed rate gives each connection a thread and a timetable. A request that is late because an earlier one
//! took long still counts from the moment it was due, so that a stall is not hidden.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::peer::PROXY_PORT;

/// What a run of load observed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observed {
    pub requests: u64,
    pub errors: u64,
    pub seconds: f64,
    pub p50_us: f64,
    pub p99_us: f64,
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: bench.example\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n";

/// Saturates the proxy through wrk on `cores`.
pub fn saturate(
    wrk: &Path,
    cores: &str,
    connections: usize,
    seconds: u64,
    path: &str,
    close: bool,
) -> io::Result<Observed> {
    let mut command = Command::new("taskset");
    command.args(["-c", cores]).arg(wrk);
    command.args(["-t", "1", "-c", &connections.to_string(), "-d", &format!("{seconds}s"), "--latency"]);
    command.args(["-H", "Host: bench.example"]);
    if close {
        command.args(["-H", "Connection: close"]);
    }
    command.arg(format!("http://127.0.0.1:{PROXY_PORT}{path}"));
    let output = command.stderr(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    parse_wrk(&text).ok_or_else(|| io::Error::other(format!("wrk printed no figures: {text}")))
}

fn parse_wrk(text: &str) -> Option<Observed> {
    let mut observed = Observed::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["50%", value] => observed.p50_us = microseconds(value)?,
            ["99%", value] => observed.p99_us = microseconds(value)?,
            [count, "requests", "in", time, ..] => {
                observed.requests = count.parse().ok()?;
                observed.seconds = microseconds(time.trim_end_matches(','))? / 1e6;
            }
            ["Socket", "errors:", rest @ ..] => {
                let numbers = rest.iter().filter_map(|w| w.trim_end_matches(',').parse::<u64>().ok());
                observed.errors += numbers.sum::<u64>();
            }
            ["Non-2xx", .., count] => observed.errors += count.parse::<u64>().ok()?,
            _ => {}
        }
    }
    (observed.requests > 0).then_some(observed)
}

fn microseconds(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let scale = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => return None,
    };
    digits.parse::<f64>().ok().map(|n| n * scale)
}

/// Offers `rate` requests per second over `connections` from a copy of this program pinned to `cores`.
pub fn offer(cores: &str, connections: usize, rate: u64, seconds: u64) -> io::Result<Observed> {
    let output = Command::new("taskset")
        .args(["-c", cores])
        .arg(std::env::current_exe()?)
        .args(["load", &connections.to_string(), &rate.to_string(), &seconds.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().filter_map(|w| w.parse::<f64>().ok());
    let mut next = || numbers.next().ok_or_else(|| io::Error::other("the load printed no figures"));
    Ok(Observed {
        requests: next()? as u64,
        errors: next()? as u64,
        seconds: next()?,
        p50_us: next()?,
        p99_us: next()?,
    })
}

/// The pinned copy: prints requests, errors, seconds, p50 and p99.
pub fn main(args: Vec<String>) {
    let number = |i: usize| args.get(i).and_then(|a| a.parse::<u64>().ok()).unwrap_or(1);
    let (connections, rate, seconds) = (number(0), number(1), number(2));
    let start = Instant::now() + Duration::from_millis(200);
    let end = start + Duration::from_secs(seconds);
    let gap = Duration::from_secs_f64(connections as f64 / rate as f64);
    let threads: Vec<_> = (0..connections)
        .map(|i| {
            let first = start + gap.mul_f64(i as f64 / connections as f64);
            std::thread::Builder::new().stack_size(64 * 1024).spawn(move || one_connection(first, gap, end))
        })
        .collect();
    let mut latencies = Vec::new();
    let mut errors = 0;
    for thread in threads {
        match thread.map(std::thread::JoinHandle::join) {
            Ok(Ok((mut some, failed))) => {
                latencies.append(&mut some);
                errors += failed;
            }
            _ => errors += 1,
        }
    }
    latencies.sort_unstable();
    let at = |share: f64| latencies.get((latencies.len() as f64 * share) as usize).copied().unwrap_or(0);
    println!("{} {errors} {} {} {}", latencies.len(), seconds, at(0.5), at(0.99));
}

fn one_connection(first: Instant, gap: Duration, end: Instant) -> (Vec<u64>, u64) {
    let mut latencies = Vec::new();
    let mut errors = 0;
    let mut due = first;
    let mut stream = None;
    while due < end {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        match exchange(&mut stream) {
            Ok(()) => latencies.push(u64::try_from(due.elapsed().as_micros()).unwrap_or(u64::MAX)),
            Err(_) => {
                errors += 1;
                stream = None;
            }
        }
        due += gap;
    }
    (latencies, errors)
}

fn exchange(stream: &mut Option<TcpStream>) -> io::Result<()> {
    if stream.is_none() {
        let fresh = TcpStream::connect(("127.0.0.1", PROXY_PORT))?;
        fresh.set_nodelay(true)?;
        fresh.set_read_timeout(Some(Duration::from_secs(5)))?;
        *stream = Some(fresh);
    }
    let Some(stream) = stream else { return Err(io::ErrorKind::NotConnected.into()) };
    stream.write_all(REQUEST)?;
    let mut buffer = [0; 4096];
    let mut have = 0;
    loop {
        let n = stream.read(&mut buffer[have..])?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        have += n;
        if let Some(head) = buffer[..have].windows(4).position(|w| w == b"\r\n\r\n") {
            // The origin's body is always 1024 bytes.
            if have >= head + 4 + 1024 {
                return Ok(());
            }
        }
        if have == buffer.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Opens `count` connections that each carry one request and then stay idle.
pub fn idle(count: usize) -> io::Result<Vec<TcpStream>> {
    (0..count)
        .map(|_| {
            let mut stream = None;
            exchange(&mut stream)?;
            stream.ok_or_else(|| io::ErrorKind::NotConnected.into())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrk_output_is_read() {
        let text = "Running 2s test @ http://127.0.0.1:1/\n  Latency Distribution\n     50%    1.50ms\n     75%    2.00ms\n     \
                    99%  800.00us\n  21420 requests in 2.10s, 25.00MB read\n  Socket errors: connect 0, read 1, write 0, timeout 2\n  \
                    Non-2xx or 3xx responses: 4\nRequests/sec:  10710.00\n";
        let got = parse_wrk(text).expect("figures");
        assert_eq!((got.requests, got.errors), (21420, 7));
        assert_eq!((got.p50_us, got.p99_us, got.seconds), (1500.0, 800.0, 2.1));
        assert!(parse_wrk("nothing").is_none());
    }
}
