//! What is the same for every subject.

use crate::PerOp;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Tasks spawned in one batch, and batches.
pub const BATCH: u64 = 1000;
pub const BATCHES: u64 = 2000;
pub const SELF_WAKES: u64 = 3_000_000;
pub const BALL_TURNS: u64 = 20_000;
pub const REMOTE_TASKS: usize = 1000;
pub const REMOTE_ROUNDS: u64 = 300;
pub const PING_PONGS: u64 = 50_000;
pub const MESSAGE: usize = 64;
pub const TIMERS: usize = 1_000_000;
/// Times each timer is moved; one in ten moves is to an earlier time.
pub const MOVES: u64 = 3;
pub const YIELDERS: u64 = 10_000;
pub const YIELDS: u64 = 50;

/// Counts finished operations; the same counter for all subjects.
pub static DONE: AtomicU64 = AtomicU64::new(0);

/// Counts on a runtime of one thread: a load and a store.
pub fn count_alone() {
    DONE.store(DONE.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// When a measurement began.
pub struct Start {
    wall: Instant,
    cpu_ns: u64,
}

/// Begins a measurement.
pub fn begin() -> Start {
    Start { wall: Instant::now(), cpu_ns: thalweg_runtime::clock::process_cpu_ns() }
}

/// Nanoseconds per operation since then, elapsed and of the process's CPU time.
pub fn per_op(start: Start, operations: u64) -> PerOp {
    let cpu_ns = thalweg_runtime::clock::process_cpu_ns() - start.cpu_ns;
    (start.wall.elapsed().as_nanos() as f64 / operations as f64, cpu_ns as f64 / operations as f64)
}

/// Wakes itself through its waker a number of times.
pub struct WakeSelf(pub u64);

impl Future for WakeSelf {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Two tasks on two threads that pass a ball: whose turn it is, and how to wake the other.
pub struct Ball {
    turn: AtomicU64,
    wakers: [Mutex<Option<Waker>>; 2],
}

impl Ball {
    pub fn new() -> Ball {
        Ball { turn: AtomicU64::new(0), wakers: [Mutex::new(None), Mutex::new(None)] }
    }

    /// Player `me` (0 or 1); ready when the game is over.
    pub fn poll(&self, me: usize, cx: &mut Context<'_>) -> Poll<()> {
        let register = || {
            let mut waker = self.wakers[me].lock().expect("no player panics");
            if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
        };
        register();
        let turn = self.turn.load(Ordering::Acquire);
        if turn >= BALL_TURNS {
            self.wake(1 - me);
            return Poll::Ready(());
        }
        if turn % 2 == me as u64 && self.wakers[1 - me].lock().expect("no player panics").is_some() {
            self.turn.store(turn + 1, Ordering::Release);
            self.wake(1 - me);
        } else if turn == 0 {
            self.wake(1 - me);
        }
        Poll::Pending
    }

    fn wake(&self, player: usize) {
        if let Some(waker) = &*self.wakers[player].lock().expect("no player panics") {
            waker.wake_by_ref();
        }
    }
}

/// Tasks on one thread that another thread wakes: each registers its waker and counts its runs.
pub struct Targets {
    pub wakers: Mutex<Vec<Waker>>,
    pub runs: AtomicU64,
    pub over: AtomicU64,
}

impl Targets {
    pub fn new() -> Targets {
        Targets { wakers: Mutex::new(Vec::new()), runs: AtomicU64::new(0), over: AtomicU64::new(0) }
    }

    /// A target's future; `first` is its own.
    pub fn poll(&self, first: &mut bool, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(first, false) {
            self.wakers.lock().expect("no target panics").push(cx.waker().clone());
            return Poll::Pending;
        }
        // Looked at before the run is counted: the driver may start its last round the moment it is.
        let over = self.over.load(Ordering::Acquire) != 0;
        self.runs.fetch_add(1, Ordering::AcqRel);
        if over { Poll::Ready(()) } else { Poll::Pending }
    }

    /// What the waking thread does: wakes all targets, waits until all have run, again and again. Per wake-up.
    pub fn drive(&self) -> PerOp {
        while self.wakers.lock().expect("no target panics").len() < REMOTE_TASKS {
            std::thread::yield_now();
        }
        let wakers = self.wakers.lock().expect("no target panics").clone();
        let start = begin();
        for round in 1..=REMOTE_ROUNDS {
            if round == REMOTE_ROUNDS {
                self.over.store(1, Ordering::Release);
            }
            wakers.iter().for_each(Waker::wake_by_ref);
            while self.runs.load(Ordering::Acquire) < round * REMOTE_TASKS as u64 {
                std::thread::yield_now();
            }
        }
        per_op(start, REMOTE_ROUNDS * REMOTE_TASKS as u64)
    }
}

/// Where timer `n` goes at its move `m`, in milliseconds from now: mostly later than before.
pub fn deadline(n: usize, m: u64) -> u64 {
    let base = 30_000 + (n as u64 * 7919) % 30_000 + m * 5_000;
    if (n as u64 + m) % 10 == 9 { base - 20_000 } else { base }
}
