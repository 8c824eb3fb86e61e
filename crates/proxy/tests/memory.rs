//! What a client's connection makes the proxy hold, in bytes that the proxy's thread has from the allocator: while it
//! waits for its next request, while half a head has come, and after it was closed. With the real drivers; what the kernel
//! holds is not counted.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use support::connect;
use thalweg_h2::frame::{HEADER_LEN, Header, Kind, PREFACE, flag};
use thalweg_proxy::worker;
use thalweg_runtime::driver::{Driver, DriverKind, DriverOptions};

struct Counting;

/// Bytes that the proxy's thread allocated less those that it freed.
static HELD: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    /// Set on the proxy's thread.
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}

fn count(bytes: isize) {
    if COUNTED.get() {
        HELD.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const REQUEST: &[u8] =
    b"GET /path/to/thing?q=1 HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: test\r\n\r\n";

/// What is counted is that of all proxies.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Connections that are held at a time.
const COUNT: isize = 400;

/// A proxy whose frontend answers by itself. What `f` does with its address is done with one thread of it running.
fn with_proxy<R>(kind: DriverKind, f: impl FnOnce(SocketAddr) -> R) -> R {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let text = "defaults\n mode http\n timeout client 60s\n timeout http-request 60s\n timeout http-keep-alive 60s\n\
                frontend fe\n bind 127.0.0.1:1\n http-request return status 200\n";
    let settings = thalweg_runtime::Config {
        driver: kind,
        on_trim: Some(Arc::new(|| worker::current().unwrap().trim())),
        ..thalweg_runtime::Config::default()
    };
    let proxy = support::start(text, settings, || COUNTED.set(true));
    let result = f(proxy.addr);
    proxy.stop();
    // Before the next proxy counts.
    assert!(HELD.swap(0, Ordering::SeqCst) < 1 << 20, "a proxy that is gone holds memory");
    result
}

/// Sends (the rest of) a request and receives the answer.
fn exchange(stream: &mut TcpStream, request: &[u8]) {
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    let mut part = [0u8; 4096];
    while !answer.windows(4).any(|w| w == b"\r\n\r\n") {
        let n = stream.read(&mut part).unwrap();
        assert!(n > 0, "the proxy closed");
        answer.extend_from_slice(&part[..n]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
}

fn held() -> isize {
    HELD.load(Ordering::SeqCst)
}

/// Waits until no more than this is held, and returns what is.
fn falls_to(bytes: isize) -> isize {
    let deadline = Instant::now() + Duration::from_secs(30);
    while held() > bytes && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
    }
    held()
}

/// Opens connections, each brought into its state by `open`, and returns bytes per connection while they are held and, in
/// percent, what of it is left some time after they were closed.
fn measure(addr: SocketAddr, open: impl Fn(&mut TcpStream, isize)) -> (isize, isize) {
    let one = |n| {
        let mut stream = connect(addr);
        open(&mut stream, n);
        stream
    };
    // What every thread allocates once is not to be counted.
    drop((0..20).map(one).collect::<Vec<_>>());
    thread::sleep(Duration::from_millis(1500));
    // Nor what one that was idle may have given back, and needs again for the first request.
    let mut first = connect(addr);
    exchange(&mut first, REQUEST);
    let before = held();
    let all: Vec<TcpStream> = (0..COUNT).map(one).collect();
    // The last one was served, or its bytes were taken.
    let mut last = connect(addr);
    exchange(&mut last, REQUEST);
    let grown = held() - before;
    drop((all, last));
    let left = falls_to(before + grown / 10) - before;
    drop(first);
    (grown / COUNT, 100 * left / grown)
}

#[test]
fn a_connection_that_waits_holds_little_and_gives_it_back() {
    support::each_driver(|name, kind| {
        with_proxy(kind(), |addr| {
            let (bytes, left) = measure(addr, |stream, _| exchange(stream, REQUEST));
            println!("{name}: idle {bytes} bytes, {left} % left after the end");
            assert!(bytes <= 700, "{name}: {bytes} bytes per idle connection");
            assert!(left <= 10, "{name}: {left} % of what idle connections took was kept");

            let (bytes, left) =
                measure(addr, |stream, _| stream.write_all(&REQUEST[..REQUEST.len() / 2]).unwrap());
            println!("{name}: half a head {bytes} bytes, {left} % left");
            assert!(bytes <= 3000, "{name}: {bytes} bytes per connection with half a head");
            assert!(left <= 10, "{name}: {left} % of what half heads took was kept");

            // A head that comes in small pieces is held once, however many pieces there were.
            let (bytes, left) = measure(addr, |stream, n| {
                stream.write_all(&REQUEST[..REQUEST.len() - 2]).unwrap();
                if n % 20 == 0 {
                    for byte in b"X-Long: ".iter().chain(&[b'x'; 1000]) {
                        stream.write_all(&[*byte]).unwrap();
                    }
                } else {
                    stream.write_all(b"X-Long: ").unwrap();
                    stream.write_all(&[b'x'; 1000]).unwrap();
                }
            });
            println!("{name}: a head of 1.1 kB less its end {bytes} bytes, {left} % left");
            assert!(bytes <= 6000, "{name}: {bytes} bytes per connection with most of a head");
            assert!(left <= 10, "{name}: {left} % of what long heads took was kept");

            // What is kept of a long one is its bytes, however many fields they are.
            let fields = format!("X-Long: {}\r\n", "x".repeat(138)).repeat(96);
            let (bytes, left) = measure(addr, |stream, _| {
                stream.write_all(&REQUEST[..REQUEST.len() - 2]).unwrap();
                stream.write_all(fields.as_bytes()).unwrap();
            });
            println!("{name}: a head of 14 kB less its end {bytes} bytes, {left} % left");
            assert!(bytes <= 17_500, "{name}: {bytes} bytes per connection with many fields of a head");
            assert!(left <= 10, "{name}: {left} % of what heads with many fields took was kept");
        });
    });
}

/// A literal field with a new name, which is not to be kept (RFC 7541 section 6.2.2) or is (section 6.2.1).
fn field(name: &str, value: &str, kept: bool) -> Vec<u8> {
    let len = |n: usize| match n {
        0..=126 => vec![n as u8],
        // A length of 127 and more goes on, seven bits at a time.
        _ => vec![127, (n - 127) as u8 & 127 | 128, ((n - 127) >> 7) as u8],
    };
    let kind = u8::from(kept) << 6;
    [&[kind][..], &len(name.len()), name.as_bytes(), &len(value.len()), value.as_bytes()].concat()
}

/// GET, http and `/`, of the static table.
const GET: &[u8] = b"\x82\x86\x84";

/// The fields that `curl` sends with each request.
const CURL: &[(&str, &str)] =
    &[(":authority", "www.example.com"), ("user-agent", "curl/8.5.0"), ("accept", "*/*")];

/// Those of a browser.
const BROWSER: &[(&str, &str)] = &[
    (":authority", "www.example.com"),
    ("sec-ch-ua", "\"Chromium\";v=\"130\", \"Google Chrome\";v=\"130\", \"Not?A_Brand\";v=\"99\""),
    ("sec-ch-ua-mobile", "?0"),
    ("sec-ch-ua-platform", "\"Linux\""),
    ("upgrade-insecure-requests", "1"),
    (
        "user-agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36",
    ),
    (
        "accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,\
         application/signed-exchange;v=b3;q=0.7",
    ),
    ("sec-fetch-site", "none"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-user", "?1"),
    ("sec-fetch-dest", "document"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("accept-language", "en-US,en;q=0.9,de;q=0.8"),
    ("priority", "u=0, i"),
    ("cookie", "session=0123456789abcdef0123456789abcdef"),
];

/// The blocks of four requests with the same fields, the first of which has both ends keep them.
fn repeated(fields: &[(&str, &str)]) -> Vec<Vec<u8>> {
    let first = fields.iter().flat_map(|(name, value)| field(name, value, true));
    let mut blocks = vec![GET.iter().copied().chain(first).collect::<Vec<_>>()];
    // The oldest first.
    let later = (0..fields.len()).rev().map(|age| 0x80 | (62 + age) as u8);
    blocks.resize(4, GET.iter().copied().chain(later).collect());
    blocks
}

/// A client of HTTP/2 that asks once with each of these blocks, in so many parts, and is answered each time.
fn exchange_framed(stream: &mut TcpStream, blocks: &[Vec<u8>], parts: usize) {
    let frame = |kind, flags, stream, payload: &[u8]| {
        [&Header { len: payload.len(), kind, flags, stream }.encode()[..], payload].concat()
    };
    stream.write_all(&[&PREFACE[..], &frame(Kind::Settings, 0, 0, &[])].concat()).unwrap();
    for (id, block) in (1u32..).step_by(2).zip(blocks) {
        let (part, last) = (block.len().div_ceil(parts), parts - 1);
        let mut bytes = Vec::new();
        for (n, part) in block.chunks(part).enumerate() {
            let kind = if n == 0 { Kind::Headers } else { Kind::Continuation };
            let ends = (u8::from(n == 0) * flag::END_STREAM) | (u8::from(n == last) * flag::END_HEADERS);
            bytes.extend(frame(kind, ends, id, part));
        }
        stream.write_all(&bytes).unwrap();
        loop {
            let mut header = [0; HEADER_LEN];
            stream.read_exact(&mut header).unwrap();
            let header = Header::parse(&header);
            stream.read_exact(&mut vec![0; header.len]).unwrap();
            assert!(!matches!(header.kind, Kind::Goaway | Kind::RstStream), "{header:?}");
            if header.kind == Kind::Settings && !header.has(flag::ACK) {
                stream.write_all(&frame(Kind::Settings, flag::ACK, 0, &[])).unwrap();
            }
            if header.stream == id && header.has(flag::END_STREAM) {
                break;
            }
        }
    }
}

/// What a request needed is not kept by its connection: neither what heads are read into, nor the room for long ones, for frames and for
/// streams. What is kept is what the next request may refer to.
#[test]
fn a_connection_with_frames_that_waits_holds_little() {
    for kind in [DriverKind::Epoll, DriverKind::Uring] {
        if Driver::new(kind.clone(), &DriverOptions::default()).is_err() {
            continue;
        }
        with_proxy(kind.clone(), |addr| {
            // The authority `a`, with a name of the static table.
            let short = [GET, b"\x41\x01a"].concat();
            let long = [&short[..], &field("x-long", &"x".repeat(12_000), false)].concat();
            let text =
                |fields: &[(&str, &str)]| fields.iter().map(|(_, value)| value.len() as isize).sum::<isize>();
            for (what, blocks, parts, most) in [
                ("short", vec![short], 1, 2_000),
                ("long", vec![long.clone()], 1, 2_000),
                ("long", vec![long], 3, 2_000),
                ("curl", repeated(CURL), 1, 2_000),
                ("a browser", repeated(BROWSER), 1, 2_200 + text(BROWSER)),
            ] {
                let (bytes, left) = measure(addr, |stream, _| exchange_framed(stream, &blocks, parts));
                println!("{kind:?}: {what} in {parts} parts: {bytes} bytes, {left} % left");
                assert!(bytes <= most, "{kind:?}: {bytes} bytes per idle connection of {what}");
                assert!(left <= 10, "{kind:?}: {left} % of what idle connections took was kept");
            }
        });
    }
}

/// However a head is cut, it is the same request.
#[test]
fn a_head_may_come_in_any_pieces() {
    for kind in [DriverKind::Epoll, DriverKind::Uring] {
        if Driver::new(kind.clone(), &DriverOptions::default()).is_err() {
            continue;
        }
        with_proxy(kind, |addr| {
            let mut stream = connect(addr);
            for cut in 1..REQUEST.len() {
                stream.write_all(&REQUEST[..cut]).unwrap();
                // Most of these come in two receives, and it does not matter which do not.
                thread::sleep(Duration::from_millis(1));
                exchange(&mut stream, &REQUEST[cut..]);
            }
        });
    }
}
