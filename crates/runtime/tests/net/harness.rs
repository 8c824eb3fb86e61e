//! Runs a test's future on a driver, and checks afterwards that nothing is left.

use std::future::Future;
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use thalweg_runtime::buffer;
use thalweg_runtime::driver::sim::{Network, SimConfig};
use thalweg_runtime::driver::{self, Driver, DriverKind, DriverOptions};
use thalweg_runtime::net::{ConnectOptions, Listener, SockAddr, Stream};
use thalweg_runtime::{Config, Kind, TaskId, block_on};

/// Defines a test that runs on each real driver.
macro_rules! each_driver {
    ($name:ident, $body:expr) => {
        mod $name {
            use super::*;
            #[test]
            fn uring() {
                if crate::harness::has_uring() {
                    crate::harness::run("io_uring", $body);
                }
            }
            #[test]
            fn epoll() {
                crate::harness::run("epoll", $body);
            }
        }
    };
}
pub(crate) use each_driver;

/// Defines a test that runs on each real driver and in the simulator.
macro_rules! every_driver {
    ($name:ident, $body:expr) => {
        mod $name {
            use super::*;
            #[test]
            fn uring() {
                if crate::harness::has_uring() {
                    crate::harness::run("io_uring", $body);
                }
            }
            #[test]
            fn epoll() {
                crate::harness::run("epoll", $body);
            }
            #[test]
            fn sim() {
                crate::harness::run("sim", $body);
            }
        }
    };
}
pub(crate) use every_driver;

/// Whether this machine allows io_uring at all (containers often do not). A driver that fails for any other reason fails
/// the tests.
pub fn has_uring() -> bool {
    match Driver::new(DriverKind::Uring, &DriverOptions::default()) {
        Err(e) if matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => {
            eprintln!("not run: {e}");
            false
        }
        _ => true,
    }
}

pub fn run<T: 'static, F: Future<Output = T> + 'static>(kind: &str, test: impl FnOnce() -> F) -> T {
    run_with(kind, &DriverOptions::default(), test)
}

pub fn run_with<T: 'static, F: Future<Output = T> + 'static>(
    kind: &str,
    opts: &DriverOptions,
    test: impl FnOnce() -> F,
) -> T {
    let config = Config {
        driver: match kind {
            "epoll" => DriverKind::Epoll,
            "sim" => DriverKind::Sim(Network::new(1, SimConfig::faultless())),
            _ => DriverKind::Uring,
        },
        driver_options: opts.clone(),
        ..Config::default()
    };
    let name = kind.to_owned();
    let test = test();
    block_on(config, async move {
        assert_eq!(driver::with(|d| d.kind_name()), name);
        let result = test.await;
        nothing_is_left().await;
        result
    })
}

thread_local! {
    /// Sockets a test leaves to the end of the runtime on purpose.
    pub static HELD: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Waits until the last completions came; what is still there after that leaked.
async fn nothing_is_left() {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let sockets = driver::with(|d| d.stats().sockets);
        let buffers = buffer::stats();
        let held = HELD.with(std::cell::Cell::get);
        if sockets == held && buffers.used == 0 && buffers.ring_used == 0 && buffers.heap_count == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "left over: {sockets} sockets, {buffers:?}");
        settle().await;
    }
}

static TEST: Kind = Kind::new("test");

pub fn spawn(future: impl Future<Output = ()> + 'static) -> TaskId {
    thalweg_runtime::spawn(&TEST, future)
}

/// Waits until the driver was polled, so that what was queued has happened.
pub async fn go_round() {
    thalweg_runtime::timer::sleep(1).await;
}

/// Lets other tasks run.
pub async fn settle() {
    thalweg_runtime::yield_now().await;
}

/// Goes round until a condition that I/O brings about holds.
pub async fn wait_until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "the condition never came true");
        settle().await;
    }
}

pub fn any_tcp() -> SockAddr {
    "127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()
}

/// Two ends of one TCP connection: the connecting one and the accepted one.
pub async fn tcp_pair() -> (Stream, Stream) {
    let mut listener = Listener::bind(&any_tcp(), &Default::default()).unwrap();
    let address = listener.local_addr().unwrap();
    let a = Stream::connect(&address, &ConnectOptions::default()).await.unwrap();
    let (fd, peer) = listener.accept().await.unwrap();
    assert_eq!(peer, a.local_addr().unwrap());
    (a, Stream::from_accepted(fd).unwrap())
}

pub async fn read_exactly(stream: &mut Stream, n: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < n {
        let part = stream.recv(n - all.len()).await.unwrap();
        assert!(!part.is_empty(), "ended after {} of {n} bytes", all.len());
        all.extend_from_slice(&part);
    }
    all
}

pub async fn read_to_end(stream: &mut Stream) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let part = stream.recv(1 << 20).await.unwrap();
        if part.is_empty() {
            return all;
        }
        all.extend_from_slice(&part);
    }
}

fn pattern(position: usize) -> u8 {
    (position % 251) as u8 ^ (position >> 16) as u8
}

pub fn fill_pattern(bytes: &mut [u8], position: usize) {
    for (i, b) in bytes.iter_mut().enumerate() {
        *b = pattern(position + i);
    }
}

pub fn is_pattern(bytes: &[u8], position: usize) -> bool {
    bytes.iter().enumerate().all(|(i, b)| *b == pattern(position + i))
}

pub fn int_option(fd: i32, level: i32, name: i32) -> i32 {
    let mut value = 0i32;
    let mut len = 4u32;
    // SAFETY: the pointers describe an integer and its size.
    let r = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &mut len) };
    assert_eq!(r, 0, "{}", std::io::Error::last_os_error());
    value
}
