//! Tasks that go on with another future.

use super::*;

/// Notes its end.
struct Ends(Log, u32);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.borrow_mut().push(self.1);
    }
}

async fn rounds(count: usize) {
    for _ in 0..count {
        yield_now().await;
    }
}

#[test]
fn a_task_that_goes_on_is_the_same_task_in_other_memory() {
    let (log, ids) = run(async {
        let (log, ids) = (Log::default(), Rc::new(RefCell::new(Vec::new())));
        let (first, then, seen) = (log.clone(), log.clone(), ids.clone());
        let id = spawn(&TEST, async move {
            let large = [7u8; 4096];
            let _ends = Ends(first, 1);
            seen.borrow_mut().push(current_task());
            yield_now().await;
            assert_eq!(large[4095], 7);
            go_on_with(async move {
                let _ends = Ends(then.clone(), 3);
                then.borrow_mut().push(2);
                seen.borrow_mut().push(current_task());
                // It is woken as before.
                poll_fn(
                    |_| if reasons().contains(Reason::MESSAGE) { Poll::Ready(()) } else { Poll::Pending },
                )
                .await;
            });
        });
        rounds(5).await;
        assert_eq!(*log.borrow(), [1, 2]);
        id.wake(Reason::MESSAGE);
        rounds(3).await;
        ids.borrow_mut().push(id);
        (log.take(), ids.take())
    });
    assert_eq!(log, [1, 2, 3]);
    assert!(ids.len() == 3 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn what_a_task_does_not_go_on_with_is_dropped() {
    let log = run(async {
        let log = Log::default();
        let ends = |n| Ends(log.clone(), n);
        // Killed in its last run, or panicked.
        let (first, second, third) = (ends(1), ends(2), ends(3));
        spawn(&TEST, async move {
            go_on_with(async move { drop(first) });
            kill(current_task());
        });
        rounds(3).await;
        let (quiet, before) = (std::panic::take_hook(), log.borrow().len());
        std::panic::set_hook(Box::new(|_| {}));
        spawn(&TEST, async move {
            go_on_with(async move { drop(second) });
            panic!("planned");
        });
        rounds(3).await;
        std::panic::set_hook(quiet);
        // It waits, against the rule.
        let waits = spawn(&TEST, async move {
            go_on_with(async move { drop(third) });
            pending::<()>().await;
        });
        rounds(3).await;
        assert_eq!(*log.borrow(), [1, 2, 3]);
        kill(waits);
        rounds(3).await;
        // Another one is there instead.
        let (fourth, fifth) = (ends(4), ends(5));
        spawn(&TEST, async move {
            go_on_with(async move { drop(fourth) });
            go_on_with(async move { drop(fifth) });
        });
        rounds(3).await;
        assert_eq!(before, 1);
        log.take()
    });
    assert_eq!(log, [1, 2, 3, 4, 5]);
}

/// What was killed stays dead, and its memory is freed once.
#[test]
fn a_task_that_ends_cannot_go_on() {
    struct Clings(Log);
    impl Drop for Clings {
        fn drop(&mut self) {
            let log = self.0.clone();
            let next = Ends(log.clone(), 2);
            log.borrow_mut().push(1);
            go_on_with(async move { drop(next) });
        }
    }
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let log = run(async {
        let log = Log::default();
        let clings = Clings(log.clone());
        let id = spawn(&TEST, async move {
            let _clings = clings;
            pending::<()>().await;
        });
        rounds(2).await;
        kill(id);
        rounds(3).await;
        log.take()
    });
    std::panic::set_hook(quiet);
    assert_eq!(log, [1, 2]);
}

/// Futures in the slot itself and in blocks of their own.
#[test]
fn futures_of_all_sizes_follow_each_other() {
    fn next(log: Log, n: u32) {
        // As small as a pointer, and not.
        let small = log.clone();
        match n % 2 {
            _ if n == 6 => {}
            0 => go_on_with(poll_fn(move |_| {
                let n = small.borrow().len() as u32;
                small.borrow_mut().push(n);
                next(small.clone(), n + 1);
                Poll::Ready(())
            })),
            _ => go_on_with(async move {
                let room = [n; 100];
                yield_now().await;
                log.borrow_mut().push(room[99]);
                next(log, n + 1);
            }),
        }
    }
    let log = run(async {
        let log = Log::default();
        let first = log.clone();
        spawn(&TEST, async move { next(first, 0) });
        rounds(30).await;
        log.take()
    });
    assert_eq!(log, [0, 1, 2, 3, 4, 5]);
}
