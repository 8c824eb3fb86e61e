//! Timers, and timeouts around futures.

use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use super::{TEST, run};
use crate::task::Reason;
use crate::*;

#[test]
fn timers_fire_in_order_and_never_early() {
    run(async {
        let log = Rc::new(RefCell::new(Vec::new()));
        for ms in [30u64, 5, 20, 1, 0, 12] {
            let log = log.clone();
            spawn(&TEST, async move {
                let start = clock::precise_ns();
                timer::sleep(ms).await;
                let took = clock::precise_ns() - start;
                assert!(took >= ms * 1_000_000, "{ms} ms took {took} ns");
                log.borrow_mut().push(ms);
            });
        }
        while log.borrow().len() < 6 {
            timer::sleep(1).await;
        }
        assert!(log.borrow().is_sorted());
    });
}

#[test]
fn a_deadline_that_moves_later_costs_no_entry() {
    run(async {
        let id = spawn(
            &TEST,
            poll_fn(|_| {
                timer::want(clock::now_ms() + 1000);
                Poll::<()>::Pending
            }),
        );
        yield_now().await;
        let local = crate::scheduler::local().unwrap();
        let before = local.timers();
        for _ in 0..1000 {
            id.wake(Reason::OTHER);
            yield_now().await;
        }
        assert_eq!((before.0, before.1), (1, 1));
        assert_eq!(local.timers(), before);
        kill(id);
        yield_now().await;
        assert_eq!(local.timers().0, 0, "a dead task has no timer");
    });
}

#[test]
fn a_timeout_ends_a_future_and_a_ready_one_wins() {
    run(async {
        let late = timer::timeout_at(Some(clock::now_ms() + 2), pending::<()>()).await;
        assert_eq!(late, Err(timer::Elapsed));
        assert_eq!(timer::timeout_at(Some(0), async { 7 }).await, Ok(7));
        assert_eq!(timer::timeout_at(None, async { 8 }).await, Ok(8));
        // Two deadlines in one task: the earliest counts.
        let start = clock::now_ms();
        let nested =
            timer::timeout_at(Some(start + 5), timer::timeout_at(Some(start + 60_000), pending::<()>()))
                .await;
        assert_eq!(nested, Err(timer::Elapsed));
    });
}

#[test]
fn a_million_armed_timers_cost_under_100_bytes_each() {
    const TIMERS: usize = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let per_timer = run(async {
        for n in 0..TIMERS {
            spawn(
                &TEST,
                poll_fn(move |_| {
                    timer::want(clock::now_ms() + 10_000 + n as u64 % 50_000);
                    Poll::<()>::Pending
                }),
            );
        }
        yield_now().await;
        let local = crate::scheduler::local().unwrap();
        while local.timers().0 < TIMERS {
            yield_now().await;
        }
        // The timer's state in the task's slot and its entry in the wheel.
        local.timers().2 / TIMERS + 64
    });
    assert!(per_timer < 100, "{per_timer}");
}
