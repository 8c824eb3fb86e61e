//! The experiments on tokio.

use crate::PerOp;
use crate::work::*;
use std::future::poll_fn;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

pub fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn multi() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Runs the future as a task, not on the thread that blocks, where a multi-threaded runtime would be slow.
fn in_task<F: Future<Output: Send> + Send + 'static>(runtime: Runtime, future: F) -> F::Output {
    let task = runtime.spawn(future);
    runtime.block_on(task).expect("the task does not panic")
}

fn count_shared() {
    DONE.fetch_add(1, Ordering::Relaxed);
}

async fn spawn_run(count: fn()) -> PerOp {
    DONE.store(0, Ordering::Relaxed);
    let start = begin();
    for batch in 1..=BATCHES {
        for _ in 0..BATCH {
            tokio::spawn(async move { count() });
        }
        while DONE.load(Ordering::Relaxed) < batch * BATCH {
            yield_now().await;
        }
    }
    per_op(start, BATCHES * BATCH)
}

pub fn spawn_run_current() -> PerOp {
    in_task(current(), spawn_run(count_alone))
}

pub fn spawn_run_multi() -> PerOp {
    in_task(multi(), spawn_run(count_shared))
}

async fn wake_self() -> PerOp {
    let start = begin();
    WakeSelf(SELF_WAKES).await;
    per_op(start, SELF_WAKES)
}

pub fn wake_self_current() -> PerOp {
    in_task(current(), wake_self())
}

pub fn wake_self_multi() -> PerOp {
    in_task(multi(), wake_self())
}

/// Two runtimes of one thread each, so that every wake-up crosses threads.
pub fn wake_thread_latency_current() -> PerOp {
    let ball = Arc::new(Ball::new());
    let start = begin();
    let players: Vec<_> = (0..2)
        .map(|me| {
            let ball = ball.clone();
            std::thread::spawn(move || {
                in_task(current(), async move { poll_fn(|cx| ball.poll(me, cx)).await });
            })
        })
        .collect();
    players.into_iter().for_each(|p| p.join().expect("no player panics"));
    per_op(start, BALL_TURNS)
}

/// Two tasks of one runtime of two threads; the runtime may run them on one.
pub fn wake_thread_latency_multi() -> PerOp {
    let ball = Arc::new(Ball::new());
    in_task(multi(), async move {
        let start = begin();
        let players: Vec<_> = (0..2)
            .map(|me| {
                let ball = ball.clone();
                tokio::spawn(async move { poll_fn(|cx| ball.poll(me, cx)).await })
            })
            .collect();
        for player in players {
            player.await.expect("no player panics");
        }
        per_op(start, BALL_TURNS)
    })
}

fn wake_thread_throughput(runtime: Runtime) -> PerOp {
    let targets = Arc::new(Targets::new());
    let here = targets.clone();
    let driver = std::thread::spawn(move || here.drive());
    in_task(runtime, async move {
        let tasks: Vec<_> = (0..REMOTE_TASKS)
            .map(|_| {
                let targets = targets.clone();
                tokio::spawn(async move {
                    let mut first = true;
                    poll_fn(|cx| targets.poll(&mut first, cx)).await;
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no target panics");
        }
    });
    driver.join().expect("the driver does not panic")
}

pub fn wake_thread_throughput_current() -> PerOp {
    wake_thread_throughput(current())
}

pub fn wake_thread_throughput_multi() -> PerOp {
    wake_thread_throughput(multi())
}

fn socket_ping_pong(runtime: Runtime) -> PerOp {
    let (a, b) = StdStream::pair().expect("a socket pair");
    let open = |s: StdStream| {
        s.set_nonblocking(true).expect("a socket can be non-blocking");
        UnixStream::from_std(s).expect("the driver takes a socket")
    };
    in_task(runtime, async move {
        let (mut a, mut b) = (open(a), open(b));
        let other = tokio::spawn(async move {
            let mut message = [0; MESSAGE];
            while b.read_exact(&mut message).await.is_ok() {
                if b.write_all(&message).await.is_err() {
                    return;
                }
            }
        });
        let start = begin();
        let mut message = [7; MESSAGE];
        for _ in 0..PING_PONGS {
            a.write_all(&message).await.expect("the peer is there");
            a.read_exact(&mut message).await.expect("the peer is there");
        }
        let time = per_op(start, PING_PONGS);
        drop(a);
        _ = other.await;
        time
    })
}

pub fn socket_ping_pong_current() -> PerOp {
    socket_ping_pong(current())
}

pub fn socket_ping_pong_multi() -> PerOp {
    socket_ping_pong(multi())
}

async fn timers() -> (PerOp, PerOp) {
    let moves = Arc::new(AtomicU64::new(0));
    let runs = Arc::new(AtomicU64::new(0));
    let wakers: Arc<Vec<std::sync::OnceLock<Waker>>> =
        Arc::new((0..TIMERS).map(|_| Default::default()).collect());
    let settle = async |target: u64| {
        while runs.load(Ordering::Acquire) < target {
            yield_now().await;
        }
    };
    let start = begin();
    let mut tasks = Vec::with_capacity(TIMERS);
    for n in 0..TIMERS {
        let (moves, runs, wakers) = (moves.clone(), runs.clone(), wakers.clone());
        let task = tokio::spawn(async move {
            let sleep = tokio::time::sleep(Duration::from_millis(deadline(n, 0)));
            let mut sleep = std::pin::pin!(sleep);
            let mut seen = 0;
            poll_fn(|cx: &mut Context<'_>| {
                wakers[n].get_or_init(|| cx.waker().clone());
                let m = moves.load(Ordering::Relaxed);
                if m != seen {
                    seen = m;
                    sleep.as_mut().reset(tokio::time::Instant::now() + Duration::from_millis(deadline(n, m)));
                }
                _ = sleep.as_mut().poll(cx);
                runs.fetch_add(1, Ordering::AcqRel);
                Poll::<()>::Pending
            })
            .await;
        });
        tasks.push(task.abort_handle());
    }
    settle(TIMERS as u64).await;
    let arm = per_op(start, TIMERS as u64);
    let start = begin();
    for m in 1..=MOVES {
        moves.store(m, Ordering::Relaxed);
        wakers.iter().filter_map(std::sync::OnceLock::get).for_each(Waker::wake_by_ref);
        settle((m + 1) * TIMERS as u64).await;
    }
    let result = (arm, per_op(start, MOVES * TIMERS as u64));
    tasks.iter().for_each(tokio::task::AbortHandle::abort);
    result
}

pub fn timers_current() -> (PerOp, PerOp) {
    in_task(current(), timers())
}

pub fn timers_multi() -> (PerOp, PerOp) {
    in_task(multi(), timers())
}

async fn yield_tasks(count: fn()) -> PerOp {
    DONE.store(0, Ordering::Relaxed);
    let start = begin();
    for _ in 0..YIELDERS {
        tokio::spawn(async move {
            for _ in 0..YIELDS {
                yield_now().await;
            }
            count();
        });
    }
    while DONE.load(Ordering::Relaxed) < YIELDERS {
        yield_now().await;
    }
    per_op(start, YIELDERS * YIELDS)
}

pub fn yield_tasks_current() -> PerOp {
    in_task(current(), yield_tasks(count_alone))
}

pub fn yield_tasks_multi() -> PerOp {
    in_task(multi(), yield_tasks(count_shared))
}
