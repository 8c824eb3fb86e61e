//! The experiments on this project's runtime.

use crate::PerOp;
use crate::work::*;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::driver::DriverKind;
use thalweg_runtime::net::Stream;
use thalweg_runtime::{
    Config, Kind, Reason, Runtime, TaskId, block_on, clock, current_task, kill, spawn, stop, timer, yield_now,
};

static BENCH: Kind = Kind::new("bench");

pub fn spawn_run() -> PerOp {
    block_on(Config::default(), async {
        DONE.store(0, Ordering::Relaxed);
        let start = begin();
        for batch in 1..=BATCHES {
            for _ in 0..BATCH {
                spawn(&BENCH, async { count_alone() });
            }
            while DONE.load(Ordering::Relaxed) < batch * BATCH {
                yield_now().await;
            }
        }
        per_op(start, BATCHES * BATCH)
    })
}

pub fn wake_self() -> PerOp {
    block_on(Config::default(), async {
        let start = begin();
        WakeSelf(SELF_WAKES).await;
        per_op(start, SELF_WAKES)
    })
}

/// Runs one future per thread on a runtime of two; the runtime stops when both are over.
fn on_two_threads<F: Future<Output = ()> + 'static>(make: impl Fn(usize) -> F + Send + Sync + 'static) {
    let left = Arc::new(std::sync::atomic::AtomicUsize::new(2));
    Runtime::start(Config { threads: 2, ..Config::default() }, move |thread| {
        let (future, left) = (make(thread), left.clone());
        spawn(&BENCH, async move {
            future.await;
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                stop();
            }
        });
    })
    .and_then(Runtime::run)
    .expect("two threads can be started");
}

pub fn wake_thread_latency() -> PerOp {
    let ball = Arc::new(Ball::new());
    let start = begin();
    on_two_threads(move |thread| {
        let ball = ball.clone();
        async move { poll_fn(|cx| ball.poll(thread, cx)).await }
    });
    per_op(start, BALL_TURNS)
}

pub fn wake_thread_throughput() -> PerOp {
    let targets = Arc::new(Targets::new());
    let here = targets.clone();
    let driver = std::thread::spawn(move || here.drive());
    let left = Rc::new(Cell::new(REMOTE_TASKS));
    block_on(Config::default(), async move {
        let waiter = current_task();
        for _ in 0..REMOTE_TASKS {
            let (targets, left) = (targets.clone(), left.clone());
            spawn(&BENCH, async move {
                let mut first = true;
                poll_fn(|cx| targets.poll(&mut first, cx)).await;
                left.set(left.get() - 1);
                if left.get() == 0 {
                    waiter.wake(Reason::MESSAGE);
                }
            });
        }
        poll_fn(|_| if left.get() == 0 { Poll::Ready(()) } else { Poll::Pending }).await;
    });
    driver.join().expect("the driver does not panic")
}

pub fn socket_ping_pong() -> PerOp {
    ping_pong(DriverKind::Auto)
}

pub fn socket_ping_pong_epoll() -> PerOp {
    ping_pong(DriverKind::Epoll)
}

fn ping_pong(driver: DriverKind) -> PerOp {
    let (a, b) = UnixStream::pair().expect("a socket pair");
    block_on(Config { driver, ..Config::default() }, async move {
        async fn echo(stream: &mut Stream, first: bool, count: u64) {
            if first {
                let mut message = Buf::with_capacity_default().expect("a buffer");
                message.extend_from_slice(&[7; MESSAGE]).expect("room");
                stream.start_send(message);
            }
            let mut left = count;
            let mut missing = MESSAGE;
            while left > 0 {
                // What arrived is what is sent back: no byte is copied.
                let Ok(message) = stream.recv(MESSAGE).await else { return };
                if message.is_empty() {
                    return;
                }
                missing -= message.len();
                if missing == 0 {
                    missing = MESSAGE;
                    left -= 1;
                }
                _ = stream.send_ready().await;
                stream.start_send(message);
            }
            _ = stream.send_ready().await;
        }
        let open = |s: UnixStream| {
            s.set_nonblocking(true).expect("a socket can be non-blocking");
            Stream::from_fd(OwnedFd::from(s)).expect("the driver takes a socket")
        };
        let (mut a, mut b) = (open(a), open(b));
        let other = spawn(&BENCH, async move { echo(&mut b, false, PING_PONGS + 1).await });
        let start = begin();
        echo(&mut a, true, PING_PONGS).await;
        let time = per_op(start, PING_PONGS);
        kill(other);
        time
    })
}

/// Arms a million timers, one task each, then moves them; nanoseconds per arming and per move, each with the run of
/// the task that does it.
pub fn timers() -> (PerOp, PerOp) {
    block_on(Config::default(), async {
        let moves = Rc::new(Cell::new(0u64));
        let ids: Rc<RefCell<Vec<TaskId>>> = Rc::new(RefCell::new(Vec::with_capacity(TIMERS)));
        let runs = Rc::new(Cell::new(0u64));
        let settle = async |target: u64| {
            while runs.get() < target {
                yield_now().await;
            }
        };
        let start = begin();
        for n in 0..TIMERS {
            let (moves, runs) = (moves.clone(), runs.clone());
            ids.borrow_mut().push(spawn(
                &BENCH,
                poll_fn(move |_| {
                    runs.set(runs.get() + 1);
                    timer::want(clock::now_ms() + deadline(n, moves.get()));
                    Poll::<()>::Pending
                }),
            ));
        }
        settle(TIMERS as u64).await;
        let arm = per_op(start, TIMERS as u64);
        let start = begin();
        for m in 1..=MOVES {
            moves.set(m);
            ids.borrow().iter().for_each(|id| id.wake(Reason::IO));
            settle((m + 1) * TIMERS as u64).await;
        }
        (arm, per_op(start, MOVES * TIMERS as u64))
    })
}

pub fn yield_tasks() -> PerOp {
    block_on(Config::default(), async {
        DONE.store(0, Ordering::Relaxed);
        let start = begin();
        for _ in 0..YIELDERS {
            spawn(&BENCH, async {
                for _ in 0..YIELDS {
                    yield_now().await;
                }
                count_alone();
            });
        }
        while DONE.load(Ordering::Relaxed) < YIELDERS {
            yield_now().await;
        }
        per_op(start, YIELDERS * YIELDS)
    })
}
