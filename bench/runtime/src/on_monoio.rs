//! The experiments on monoio, with io_uring.

use crate::PerOp;
use crate::work::*;
use monoio::io::{AsyncReadRentExt, AsyncWriteRentExt};
use monoio::net::UnixStream;
use monoio::{IoUringDriver, RuntimeBuilder};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Runs the future as a task.
fn in_task<F: Future<Output: 'static> + 'static>(future: F) -> F::Output {
    RuntimeBuilder::<IoUringDriver>::new()
        .with_entries(1024)
        .enable_timer()
        .build()
        .expect("a runtime")
        .block_on(async { monoio::spawn(future).await })
}

/// Counts, and wakes who waits for a number. (Waiting by yielding does not work: on monoio a task that wakes itself
/// runs again before all others.)
#[derive(Default)]
struct Count {
    count: Cell<u64>,
    target: Cell<u64>,
    waiter: RefCell<Option<Waker>>,
}

impl Count {
    fn add(&self) {
        self.count.set(self.count.get() + 1);
        if self.count.get() == self.target.get()
            && let Some(waiter) = self.waiter.take()
        {
            waiter.wake();
        }
    }

    async fn reach(&self, target: u64) {
        self.target.set(target);
        poll_fn(|cx| {
            if self.count.get() >= target {
                return Poll::Ready(());
            }
            *self.waiter.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

pub fn spawn_run() -> PerOp {
    in_task(async {
        DONE.store(0, Ordering::Relaxed);
        let start = begin();
        for _ in 0..BATCHES {
            for _ in 1..BATCH {
                monoio::spawn(async { count_alone() });
            }
            // They run in order, so the last one is the last.
            monoio::spawn(async { count_alone() }).await;
        }
        assert_eq!(DONE.load(Ordering::Relaxed), BATCHES * BATCH);
        per_op(start, BATCHES * BATCH)
    })
}

pub fn wake_self() -> PerOp {
    in_task(async {
        let start = begin();
        WakeSelf(SELF_WAKES).await;
        per_op(start, SELF_WAKES)
    })
}

pub fn socket_ping_pong() -> PerOp {
    in_task(async {
        let (mut a, mut b) = UnixStream::pair().expect("a socket pair");
        monoio::spawn(async move {
            let mut message = vec![0; MESSAGE];
            loop {
                let (result, buf) = b.read_exact(message).await;
                if result.is_err() {
                    return;
                }
                let (result, buf) = b.write_all(buf).await;
                if result.is_err() {
                    return;
                }
                message = buf;
            }
        });
        let start = begin();
        let mut message = vec![7; MESSAGE];
        for _ in 0..PING_PONGS {
            let (result, buf) = a.write_all(message).await;
            result.expect("the peer is there");
            let (result, buf) = a.read_exact(buf).await;
            result.expect("the peer is there");
            message = buf;
        }
        per_op(start, PING_PONGS)
    })
}

pub fn timers() -> (PerOp, PerOp) {
    in_task(async {
        let moves = Rc::new(Cell::new(0u64));
        let runs = Rc::new(Count::default());
        let wakers: Rc<Vec<std::cell::OnceCell<Waker>>> =
            Rc::new((0..TIMERS).map(|_| Default::default()).collect());
        let over = Rc::new(Cell::new(false));
        let start = begin();
        for n in 0..TIMERS {
            let (moves, runs, wakers, over) = (moves.clone(), runs.clone(), wakers.clone(), over.clone());
            monoio::spawn(async move {
                let sleep = monoio::time::sleep(Duration::from_millis(deadline(n, 0)));
                let mut sleep = std::pin::pin!(sleep);
                let mut seen = 0;
                poll_fn(|cx: &mut Context<'_>| {
                    wakers[n].get_or_init(|| cx.waker().clone());
                    if over.get() {
                        return Poll::Ready(());
                    }
                    let m = moves.get();
                    if m != seen {
                        seen = m;
                        sleep
                            .as_mut()
                            .reset(monoio::time::Instant::now() + Duration::from_millis(deadline(n, m)));
                    }
                    _ = sleep.as_mut().poll(cx);
                    runs.add();
                    Poll::Pending
                })
                .await;
                runs.add();
            });
        }
        runs.reach(TIMERS as u64).await;
        let arm = per_op(start, TIMERS as u64);
        let wake = || wakers.iter().filter_map(std::cell::OnceCell::get).for_each(Waker::wake_by_ref);
        let start = begin();
        for m in 1..=MOVES {
            moves.set(m);
            wake();
            runs.reach((m + 1) * TIMERS as u64).await;
        }
        let result = (arm, per_op(start, MOVES * TIMERS as u64));
        over.set(true);
        wake();
        runs.reach((MOVES + 2) * TIMERS as u64).await;
        result
    })
}

pub fn yield_tasks() -> PerOp {
    in_task(async {
        let done = Rc::new(Count::default());
        let start = begin();
        for _ in 0..YIELDERS {
            let done = done.clone();
            monoio::spawn(async move {
                for _ in 0..YIELDS {
                    WakeSelf(1).await;
                }
                done.add();
            });
        }
        done.reach(YIELDERS).await;
        per_op(start, YIELDERS * YIELDS)
    })
}
