//! The load: saturation through wrk, or h2load for HTTP/2, and a fixed rate of our own making.
//!
//! The fixed rate gives each connection a thread and a timetable. A request that is late because an earlier one
//! took long still counts from the moment it was due, so that a stall is not hidden.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::machine::{LOAD_CORE, pinned};

/// What a run of load observed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observed {
    pub requests: u64,
    pub errors: u64,
    pub seconds: f64,
    pub p50_us: f64,
    pub p99_us: f64,
}

/// What the origin's answers at `/` have as body.
pub const SMALL_BODY: usize = 1024;

/// A request of a keep-alive connection.
pub const REQUEST: &[u8] =
    b"GET / HTTP/1.1\r\nHost: bench.example\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n";

/// Requests that wrk sends, or h2load.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    pub connections: usize,
    pub path: &'static str,
    /// A connection for each request.
    pub close: bool,
    /// Bytes of a body to send, with POST; 0 for GET.
    pub post: usize,
    /// Over TLS.
    pub tls: bool,
    /// Requests at once on each connection, over HTTP/2; 0 for HTTP/1.
    pub streams: usize,
}

/// The programs that saturate.
pub struct Loaders {
    pub wrk: PathBuf,
    /// Not installed everywhere.
    pub h2load: Option<PathBuf>,
}

/// Saturates the proxy on `port`.
///
/// # Errors
/// When the program that does it is not there, cannot be started or prints no figures.
pub fn saturate(
    loaders: &Loaders,
    dir: &Path,
    port: u16,
    requests: Requests,
    seconds: u64,
) -> io::Result<Observed> {
    if requests.streams > 0 {
        let missing = || io::Error::other("h2load is not installed");
        return saturate_framed(loaders.h2load.as_deref().ok_or_else(missing)?, port, requests, seconds);
    }
    let mut command = pinned(LOAD_CORE, &loaders.wrk);
    let connections = requests.connections.to_string();
    command.args(["-t", "1", "-c", &connections, "-d", &format!("{seconds}s"), "--latency"]);
    command.args(["-H", "Host: bench.example"]);
    if requests.close {
        command.args(["-H", "Connection: close"]);
    }
    if requests.post > 0 {
        let script = dir.join(format!("post-{}.lua", requests.post));
        let text = format!("wrk.method = \"POST\"\nwrk.body = string.rep(\"x\", {})\n", requests.post);
        std::fs::write(&script, text)?;
        command.arg("-s").arg(script);
    }
    let scheme = if requests.tls { "https" } else { "http" };
    command.arg(format!("{scheme}://127.0.0.1:{port}{}", requests.path));
    let output = command.stderr(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    parse_wrk(&text).ok_or_else(|| io::Error::other(format!("wrk printed no figures: {text}")))
}

/// Connections that each have one request, when there is one for each: so many at once.
const SINGLES: usize = 200;

/// The same over HTTP/2. It opens connections at its beginning only, so that one for each request means running it again and again.
fn saturate_framed(h2load: &Path, port: u16, requests: Requests, seconds: u64) -> io::Result<Observed> {
    let (began, limit) = (Instant::now(), Duration::from_secs(seconds));
    let mut observed = Observed::default();
    while observed.requests == 0 || (requests.close && began.elapsed() < limit) {
        let mut command = pinned(LOAD_CORE, h2load);
        command.args(["-t", "1"]);
        if requests.close {
            command.args(["-m", "1", "-c", &SINGLES.to_string(), "-n", &SINGLES.to_string()]);
        } else {
            command.args(["-m", &requests.streams.to_string(), "-c", &requests.connections.to_string()]);
            command.args(["-D", &seconds.to_string()]);
        }
        let scheme = if requests.tls { "https" } else { "http" };
        command.arg(format!("{scheme}://127.0.0.1:{port}{}", requests.path));
        let output = command.stderr(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let run = parse_h2load(&text)
            .ok_or_else(|| io::Error::other(format!("h2load printed no figures: {text}")))?;
        observed.requests += run.requests;
        observed.errors += run.errors;
    }
    observed.seconds = began.elapsed().as_secs_f64();
    Ok(observed)
}

/// How many requests were answered well, and how many were not.
fn parse_h2load(text: &str) -> Option<Observed> {
    let counts = text.lines().find_map(|line| line.strip_prefix("requests: "))?;
    let count = |name: &str| -> Option<u64> {
        let of = counts.split(", ").find_map(|part| part.strip_suffix(name))?;
        of.trim().parse().ok()
    };
    let statuses = text.lines().find_map(|line| line.strip_prefix("status codes: "))?;
    let well: u64 = statuses.split_whitespace().next()?.parse().ok()?;
    let done = count("done")?;
    let errors = count("errored")? + count("timeout")? + done.saturating_sub(well);
    (well > 0).then_some(Observed { requests: well, errors, ..Observed::default() })
}

/// Connections with a full handshake and a request each, through `openssl s_time`: one after the other. wrk resumes.
///
/// # Errors
/// When there is no such command, or it prints no figures.
pub fn shake(port: u16, seconds: u64) -> io::Result<Observed> {
    let mut command = pinned(LOAD_CORE, "openssl");
    command.args(["s_time", "-new", "-www", "/", "-time", &seconds.to_string()]);
    let output = command.args(["-connect", &format!("127.0.0.1:{port}")]).stderr(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    // "12345 connections in 2 real seconds, 1024 bytes read per connection"
    let line = text.lines().find(|line| line.contains(" real seconds"));
    let mut words = line.unwrap_or_default().split_whitespace();
    let figures = words
        .next()
        .and_then(|count| count.parse().ok())
        .zip(words.nth(2).and_then(|time| time.parse().ok()));
    let (requests, seconds) =
        figures.ok_or_else(|| io::Error::other(format!("openssl printed no figures: {text}")))?;
    Ok(Observed { requests, seconds, ..Observed::default() })
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

/// Offers `rate` requests per second over `connections` from a copy of this program.
///
/// # Errors
/// When the copy cannot be started or prints no figures.
pub fn offer(port: u16, connections: usize, rate: u64, seconds: u64) -> io::Result<Observed> {
    let output = pinned(LOAD_CORE, std::env::current_exe()?)
        .arg("offer")
        .args([u64::from(port), connections as u64, rate, seconds].map(|n| n.to_string()))
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

/// The copy: takes port, connections, rate, seconds, and prints requests, errors, seconds, p50 and p99.
pub fn offer_main(args: &[String]) {
    let number = |i: usize| args.get(i).and_then(|a| a.parse::<u64>().ok()).unwrap_or(1);
    let (port, connections, rate, seconds) = (number(0) as u16, number(1), number(2), number(3));
    let start = Instant::now() + Duration::from_millis(200);
    let end = start + Duration::from_secs(seconds);
    let gap = Duration::from_secs_f64(connections as f64 / rate as f64);
    let threads: Vec<_> = (0..connections)
        .map(|i| {
            let first = start + gap.mul_f64(i as f64 / connections as f64);
            let run = move || one_connection(port, first, gap, end);
            std::thread::Builder::new().stack_size(64 * 1024).spawn(run)
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

fn one_connection(port: u16, first: Instant, gap: Duration, end: Instant) -> (Vec<u64>, u64) {
    let mut latencies = Vec::new();
    let mut errors = 0;
    let mut due = first;
    let mut stream = None;
    while due < end {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let done = match stream.take() {
            Some(open) => Ok(open),
            None => connect(&format!("127.0.0.1:{port}")),
        }
        .and_then(exchange);
        match done {
            Ok(open) => {
                latencies.push(u64::try_from(due.elapsed().as_micros()).unwrap_or(u64::MAX));
                stream = Some(open);
            }
            Err(_) => errors += 1,
        }
        due += gap;
    }
    (latencies, errors)
}

/// A connection for [`exchange`].
///
/// # Errors
/// Those of the socket.
pub fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    Ok(stream)
}

/// One small request and its response; the connection lives on.
///
/// # Errors
/// Those of the socket, and when the answer is not the origin's.
pub fn exchange(mut stream: TcpStream) -> io::Result<TcpStream> {
    stream.write_all(REQUEST)?;
    let mut buffer = [0; 4096];
    let mut have = 0;
    loop {
        let n = stream.read(&mut buffer[have..])?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        have += n;
        if let Some(head) = buffer[..have].windows(4).position(|w| w == b"\r\n\r\n")
            && have >= head + 4 + SMALL_BODY
        {
            return Ok(stream);
        }
        if have == buffer.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h2load_output_is_read() {
        let text = "starting benchmark...\n\nfinished in 1.02s, 19607.84 req/s, 20.60MB/s\n\
                    requests: 20010 total, 20010 started, 20002 done, 20000 succeeded, 2 failed, 1 errored, 0 timeout\n\
                    status codes: 20000 2xx, 0 3xx, 2 4xx, 0 5xx\n";
        let got = parse_h2load(text).expect("figures");
        assert_eq!((got.requests, got.errors), (20_000, 3));
        assert!(parse_h2load("nothing").is_none());
    }

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
