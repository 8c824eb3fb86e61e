//! The latency experiment: light requests at a fixed rate beside a stream of heavy tasks that saturates the thread.
//!
//! A client thread sends 10,000 messages per second over 50 socket pairs, each with the time it was due. A task per
//! socket reads it and notes how late it is. On the same thread [`HEAVY`] heavy tasks are always under way, each
//! 700 microseconds of signatures (a handshake's work) without a yield; one that ends starts the next.
//!
//! Each lateness is counted twice: as it was, and without what the kernel kept the thread from running (see
//! [`crate::presence`]), which is what the scheduler answers for.

use crate::on_tokio;
use crate::presence::Presence;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_runtime::net::Stream;
use thalweg_runtime::{Class, Config, Kind, SpawnOptions, block_on, clock, spawn, spawn_with, timer};
use tokio::io::AsyncReadExt;

/// Heavy tasks under way at any time.
const HEAVY: usize = 16;
const HEAVY_US: u128 = 700;
const SOCKETS: usize = 50;
const LIGHT_PER_S: u64 = 10_000;

pub struct Outcome {
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
    /// Without the time in which the thread was kept from running.
    pub own_p99_us: f64,
    pub own_max_us: f64,
    pub light_per_s: f64,
    pub heavy_per_s: f64,
    pub heavy_us: f64,
}

/// Signs often enough to take 700 microseconds.
struct Crypto {
    key: EcdsaKeyPair,
    random: SystemRandom,
    signatures: u32,
}

impl Crypto {
    fn new() -> Crypto {
        let random = SystemRandom::new();
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        let key =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref()).expect("a key");
        let mut crypto = Crypto { key, random, signatures: 200 };
        let fastest = (0..10)
            .map(|_| {
                let start = Instant::now();
                crypto.work();
                start.elapsed().as_nanos()
            })
            .min()
            .unwrap_or(1);
        crypto.signatures = (HEAVY_US * 1000 * 200 / fastest) as u32;
        crypto
    }

    fn work(&self) {
        for n in 0..self.signatures {
            std::hint::black_box(self.key.sign(&self.random, &n.to_be_bytes()).expect("signing works"));
        }
    }
}

/// Sends messages, each with the time it is due in nanoseconds, until told to stop.
fn client(sockets: Vec<UnixStream>, over: Arc<AtomicBool>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let period = 1_000_000_000 / LIGHT_PER_S;
        let mut due = clock::precise_ns() + 10 * period;
        let mut n = 0;
        while !over.load(Ordering::Relaxed) {
            let now = clock::precise_ns();
            if now < due {
                if due - now > 60_000 {
                    std::thread::sleep(Duration::from_nanos(due - now - 50_000));
                }
                continue;
            }
            // A full socket drops the message rather than the schedule: the server is hopelessly late then.
            _ = (&sockets[n % SOCKETS]).write_all(&due.to_le_bytes());
            n += 1;
            due += period;
        }
    })
}

fn sockets() -> (Vec<UnixStream>, Vec<UnixStream>) {
    (0..SOCKETS)
        .map(|_| {
            let (a, b) = UnixStream::pair().expect("a socket pair");
            a.set_nonblocking(true).expect("a socket can be non-blocking");
            b.set_nonblocking(true).expect("a socket can be non-blocking");
            (a, b)
        })
        .unzip()
}

#[derive(Default)]
struct Seen {
    late_ns: Mutex<Vec<u64>>,
    own_late_ns: Mutex<Vec<u64>>,
    presence: Mutex<Presence>,
    heavy: AtomicU64,
    heavy_ns: AtomicU64,
    over: AtomicBool,
}

impl Seen {
    /// A whole message's due time; partial ones do not occur with eight bytes.
    fn light(&self, message: &[u8]) {
        let mut presence = self.presence.lock().expect("nobody panics");
        let now = presence.mark();
        let mut late_ns = self.late_ns.lock().expect("nobody panics");
        let mut own_late_ns = self.own_late_ns.lock().expect("nobody panics");
        for due in message.as_chunks::<8>().0 {
            let due = u64::from_le_bytes(*due);
            let late = now.wall_ns.saturating_sub(due);
            late_ns.push(late);
            own_late_ns.push(late.saturating_sub(presence.away_since(due, now)));
        }
    }

    fn heavy(&self, crypto: &Crypto) {
        let mark = || self.presence.lock().expect("nobody panics").mark().wall_ns;
        let start = mark();
        crypto.work();
        self.heavy_ns.fetch_add(mark() - start, Ordering::Relaxed);
        self.heavy.fetch_add(1, Ordering::Relaxed);
    }

    fn start_counting(&self) {
        self.late_ns.lock().expect("nobody panics").clear();
        self.own_late_ns.lock().expect("nobody panics").clear();
        self.presence.lock().expect("nobody panics").restart();
        self.heavy.store(0, Ordering::Relaxed);
        self.heavy_ns.store(0, Ordering::Relaxed);
    }

    fn outcome(&self, time: Duration) -> Outcome {
        let mut late = self.late_ns.lock().expect("nobody panics");
        let mut own = self.own_late_ns.lock().expect("nobody panics");
        late.sort_unstable();
        own.sort_unstable();
        let heavy = self.heavy.load(Ordering::Relaxed);
        Outcome {
            p50_us: at(&late, 500),
            p99_us: at(&late, 990),
            max_us: at(&late, 1000),
            own_p99_us: at(&own, 990),
            own_max_us: at(&own, 1000),
            light_per_s: late.len() as f64 / time.as_secs_f64(),
            heavy_per_s: heavy as f64 / time.as_secs_f64(),
            heavy_us: self.heavy_ns.load(Ordering::Relaxed) as f64 / 1e3 / heavy.max(1) as f64,
        }
    }
}

/// The figure below which so many of a thousand are, in microseconds.
fn at(sorted_ns: &[u64], permille: usize) -> f64 {
    sorted_ns
        .get((sorted_ns.len() * permille / 1000).min(sorted_ns.len().saturating_sub(1)))
        .map_or(0.0, |n| *n as f64 / 1e3)
}

type Run = fn(Duration, &Arc<Crypto>) -> Outcome;

/// Of several turns of each subject, the one least disturbed by other programs: that in which a heavy task took the least
/// time.
pub fn all(turns: usize, time: Duration) -> Vec<(&'static str, Outcome)> {
    let crypto = Arc::new(Crypto::new());
    let subjects: [(&str, Run); 4] = [
        ("thalweg-one-class", |time, crypto| thalweg(time, crypto, Class::Normal, false)),
        ("thalweg-heavy-class", |time, crypto| thalweg(time, crypto, Class::Heavy, false)),
        ("thalweg-low-latency", |time, crypto| thalweg(time, crypto, Class::Heavy, true)),
        ("tokio-current", tokio_current),
    ];
    let mut best: Vec<Option<Outcome>> = subjects.iter().map(|_| None).collect();
    for _ in 0..turns {
        for ((_, run), best) in subjects.iter().zip(&mut best) {
            let outcome = run(time, &crypto);
            if best.as_ref().is_none_or(|b| outcome.heavy_us < b.heavy_us) {
                *best = Some(outcome);
            }
        }
    }
    subjects.iter().zip(best).filter_map(|((name, _), outcome)| Some((*name, outcome?))).collect()
}

static LIGHT: Kind = Kind::new("light");
static HEAVY_KIND: Kind = Kind::new("heavy");

fn thalweg(time: Duration, crypto: &Arc<Crypto>, class: Class, low_latency: bool) -> Outcome {
    let (theirs, ours) = sockets();
    let over = Arc::new(AtomicBool::new(false));
    let sender = client(theirs, over.clone());
    let crypto = crypto.clone();
    let outcome = block_on(Config { low_latency, ..Config::default() }, async move {
        let seen = Arc::new(Seen::default());
        for socket in ours {
            let seen = seen.clone();
            spawn(&LIGHT, async move {
                let mut stream = Stream::from_fd(OwnedFd::from(socket)).expect("the driver takes a socket");
                while let Ok(message) = stream.recv(4096).await {
                    if message.is_empty() {
                        return;
                    }
                    seen.light(&message);
                }
            });
        }
        fn next(seen: Arc<Seen>, crypto: Arc<Crypto>, class: Class) {
            if !seen.over.load(Ordering::Relaxed) {
                spawn_with(&HEAVY_KIND, SpawnOptions { class, nice: 0 }, async move {
                    seen.heavy(&crypto);
                    next(seen, crypto, class);
                });
            }
        }
        (0..HEAVY).for_each(|_| next(seen.clone(), crypto.clone(), class));
        timer::sleep(500).await;
        seen.start_counting();
        let start = Instant::now();
        timer::sleep(time.as_millis() as u64).await;
        let outcome = seen.outcome(start.elapsed());
        seen.over.store(true, Ordering::Relaxed);
        outcome
    });
    over.store(true, Ordering::Relaxed);
    sender.join().expect("the client does not panic");
    outcome
}

fn tokio_current(time: Duration, crypto: &Arc<Crypto>) -> Outcome {
    let (theirs, ours) = sockets();
    let over = Arc::new(AtomicBool::new(false));
    let sender = client(theirs, over.clone());
    let crypto = crypto.clone();
    let runtime = on_tokio::current();
    let task = runtime.spawn(async move {
        let seen = Arc::new(Seen::default());
        for socket in ours {
            let seen = seen.clone();
            tokio::task::spawn(async move {
                let mut stream = tokio::net::UnixStream::from_std(socket).expect("the driver takes a socket");
                let mut message = [0; 4096];
                while let Ok(n @ 1..) = stream.read(&mut message).await {
                    seen.light(&message[..n]);
                }
            });
        }
        fn next(seen: Arc<Seen>, crypto: Arc<Crypto>) {
            if !seen.over.load(Ordering::Relaxed) {
                tokio::task::spawn(async move {
                    seen.heavy(&crypto);
                    next(seen, crypto);
                });
            }
        }
        (0..HEAVY).for_each(|_| next(seen.clone(), crypto.clone()));
        tokio::time::sleep(Duration::from_millis(500)).await;
        seen.start_counting();
        let start = Instant::now();
        tokio::time::sleep(time).await;
        let outcome = seen.outcome(start.elapsed());
        seen.over.store(true, Ordering::Relaxed);
        outcome
    });
    let outcome = runtime.block_on(task).expect("the task does not panic");
    over.store(true, Ordering::Relaxed);
    sender.join().expect("the client does not panic");
    outcome
}
