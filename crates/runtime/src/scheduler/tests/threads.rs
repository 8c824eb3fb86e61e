//! Several threads: wake-ups, messages, shared tasks, stopping, sleep.

use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use super::{TEST, run};
use crate::task::{Reason, TaskId, current_task};
use crate::*;

#[test]
fn threads_wake_each_other() {
    // Two tasks on two threads pass a ball; each sleeps until the other wakes it.
    const TURNS: usize = 2000;
    let ball = Arc::new(AtomicUsize::new(0));
    let players = Arc::new(Mutex::new([None::<TaskId>; 2]));
    let done = ball.clone();
    let runtime = Runtime::start(Config { threads: 2, ..Config::default() }, move |thread| {
        let (ball, players) = (ball.clone(), players.clone());
        spawn(&TEST, async move {
            players.lock().unwrap()[thread] = Some(current_task());
            poll_fn(|_| {
                let turn = ball.load(Ordering::Acquire);
                if turn >= TURNS {
                    return Poll::Ready(());
                }
                let other = players.lock().unwrap()[1 - thread];
                if let Some(other) = other {
                    if turn % 2 == thread {
                        ball.store(turn + 1, Ordering::Release);
                    }
                    if turn % 2 == thread || turn == 0 {
                        other.wake(Reason::MESSAGE);
                    }
                }
                Poll::Pending
            })
            .await;
            stop();
        });
    })
    .unwrap();
    runtime.run().unwrap();
    assert!(done.load(Ordering::Relaxed) >= TURNS);
}

#[test]
fn standard_wakers_work_from_any_thread() {
    run(async {
        let flag = Arc::new(AtomicBool::new(false));
        let mut helper = None;
        poll_fn(|cx| {
            if flag.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            if helper.is_none() {
                let (waker, flag) = (cx.waker().clone(), flag.clone());
                helper = Some(std::thread::spawn(move || {
                    flag.store(true, Ordering::Release);
                    waker.wake_by_ref();
                    waker
                }));
            }
            Poll::Pending
        })
        .await;
        // A waker that outlives everything is harmless.
        helper.unwrap().join().unwrap()
    })
    .wake();
}

#[test]
fn messages_run_on_the_thread_they_were_sent_to() {
    const THREADS: usize = 3;
    const EACH: u64 = 3000;
    let sum = Arc::new(AtomicU64::new(0));
    let total = sum.clone();
    let runtime = Runtime::start(Config { threads: THREADS, ..Config::default() }, move |thread| {
        let sum = sum.clone();
        spawn(&TEST, async move {
            for n in 0..EACH {
                let sum = sum.clone();
                let target = (thread + n as usize) % THREADS;
                run_on(target, move || {
                    assert_eq!(thread_index(), target);
                    let sum = sum.clone();
                    spawn(&TEST, async move {
                        if sum.fetch_add(1, Ordering::Relaxed) + 1 == THREADS as u64 * EACH {
                            stop();
                        }
                    });
                });
                if n % 50 == 0 {
                    yield_now().await;
                }
            }
        });
    })
    .unwrap();
    assert_eq!(runtime.handle().thread_count(), THREADS);
    runtime.run().unwrap();
    assert_eq!(total.load(Ordering::Relaxed), THREADS as u64 * EACH);
}

#[test]
fn every_shared_task_runs_with_fewer_threads_than_tasks() {
    const TASKS: usize = 500;
    let turns: Arc<Vec<AtomicU64>> = Arc::new((0..TASKS).map(|_| AtomicU64::new(0)).collect());
    let result = turns.clone();
    let left = Arc::new(AtomicUsize::new(TASKS));
    let runtime = Runtime::start(Config { threads: 2, ..Config::default() }, move |thread| {
        // Local work without end on both threads: shared tasks must be reached all the same.
        for _ in 0..200 {
            spawn(&TEST, async {
                loop {
                    yield_now().await;
                }
            });
        }
        if thread == 0 {
            for n in 0..TASKS {
                let (turns, left) = (turns.clone(), left.clone());
                spawn_shared(&TEST, async move {
                    for _ in 0..20 {
                        turns[n].fetch_add(1, Ordering::Relaxed);
                        yield_now().await;
                    }
                    timer::sleep(1 + n as u64 % 5).await;
                    if n % 7 == 0 {
                        panic!("a shared task may panic too");
                    }
                    turns[n].fetch_add(100, Ordering::Relaxed);
                    drop(Last(left));
                });
            }
        }
        struct Last(Arc<AtomicUsize>);
        impl Drop for Last {
            fn drop(&mut self) {
                if self.0.fetch_sub(1, Ordering::AcqRel) == 1 + TASKS.div_ceil(7) {
                    stop();
                }
            }
        }
    })
    .unwrap();
    runtime.run().unwrap();
    for (n, turns) in result.iter().enumerate() {
        assert_eq!(turns.load(Ordering::Relaxed), if n % 7 == 0 { 20 } else { 120 }, "task {n}");
    }
}

#[test]
fn shared_tasks_are_woken_and_killed_from_anywhere() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let seen = dropped.clone();
    struct Count(Arc<AtomicUsize>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let runtime = Runtime::start(Config { threads: 2, ..Config::default() }, move |thread| {
        if thread == 1 {
            return;
        }
        let dropped = dropped.clone();
        spawn(&TEST, async move {
            let ids: Vec<TaskId> = (0..10)
                .map(|_| {
                    let count = Count(dropped.clone());
                    spawn_shared(&TEST, async move {
                        let _count = count;
                        pending::<()>().await;
                    })
                })
                .collect();
            for id in &ids {
                id.wake(Reason::MESSAGE);
                kill(*id);
                id.wake(Reason::MESSAGE);
            }
            while dropped.load(Ordering::SeqCst) < 10 {
                yield_now().await;
            }
            // The rest is dropped when the runtime ends.
            let count = Count(dropped.clone());
            spawn_shared(&TEST, async move {
                let _count = count;
                pending::<()>().await;
            });
            stop();
        });
    })
    .unwrap();
    runtime.run().unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 11);
}

#[test]
fn stopping_drops_every_task_on_its_thread() {
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let log = dropped.clone();
    struct Here(Arc<Mutex<Vec<(usize, usize)>>>, usize);
    impl Drop for Here {
        fn drop(&mut self) {
            self.0.lock().unwrap().push((self.1, thread_index()));
        }
    }
    let runtime = Runtime::start(Config { threads: 3, ..Config::default() }, move |thread| {
        for _ in 0..10 {
            let here = Here(log.clone(), thread);
            spawn(&TEST, async move {
                let _here = here;
                pending::<()>().await;
            });
        }
    })
    .unwrap();
    let handle = runtime.handle();
    let stopper = std::thread::spawn(move || handle.stop());
    runtime.run().unwrap();
    stopper.join().unwrap();
    let dropped = dropped.lock().unwrap();
    assert_eq!(dropped.len(), 30);
    assert!(dropped.iter().all(|(spawned, here)| spawned == here));
}

#[test]
fn an_idle_thread_sleeps() {
    run(async {
        timer::sleep(20).await;
        let activity = &crate::scheduler::local().unwrap().endpoint.activity;
        let before = activity.loops.load(Ordering::Relaxed);
        timer::sleep(200).await;
        let loops = activity.loops.load(Ordering::Relaxed) - before;
        assert!(loops <= 4, "{loops} rounds while nothing was due");
    });
}

#[test]
fn a_flood_from_many_threads_loses_nothing() {
    // Threads that are no part of the runtime wake tasks and send jobs while the owner sleeps and works in turn.
    const SENDERS: usize = 4;
    const EACH: usize = 3000;
    let jobs = Arc::new(AtomicUsize::new(0));
    let runtime = Runtime::start(Config { threads: 2, ..Config::default() }, |_| {}).unwrap();
    let handle = runtime.handle();
    let ids: Arc<Mutex<Vec<TaskId>>> = Arc::default();
    let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..64).map(|_| AtomicUsize::new(0)).collect());
    let wanted: Arc<Vec<AtomicUsize>> = Arc::new((0..64).map(|_| AtomicUsize::new(0)).collect());
    for n in 0..64 {
        let (ids, seen, wanted) = (ids.clone(), seen.clone(), wanted.clone());
        handle.run_on(n % 2, move || {
            let id = spawn(
                &TEST,
                poll_fn(move |_| {
                    // What was asked for before this run is seen by it.
                    seen[n].store(wanted[n].load(Ordering::Acquire), Ordering::Release);
                    Poll::<()>::Pending
                }),
            );
            ids.lock().unwrap().push(id);
        });
    }
    let main = {
        let (handle, jobs, ids, seen, wanted) =
            (handle.clone(), jobs.clone(), ids.clone(), seen.clone(), wanted.clone());
        std::thread::spawn(move || {
            while ids.lock().unwrap().len() < 64 {
                std::thread::yield_now();
            }
            // Which task is which: each notes its number when it is woken first.
            let senders: Vec<_> = (0..SENDERS)
                .map(|s| {
                    let (handle, jobs, ids, wanted) =
                        (handle.clone(), jobs.clone(), ids.clone(), wanted.clone());
                    std::thread::spawn(move || {
                        let ids = ids.lock().unwrap().clone();
                        for n in 0..EACH {
                            wanted
                                .iter()
                                .for_each(|w| _ = w.fetch_add((n % 64 == s) as usize, Ordering::AcqRel));
                            ids[(n * 7 + s) % 64].wake(Reason::MESSAGE);
                            let jobs = jobs.clone();
                            handle.run_on(n % 2, move || _ = jobs.fetch_add(1, Ordering::Relaxed));
                        }
                        ids.iter().for_each(|id| id.wake(Reason::MESSAGE));
                    })
                })
                .collect();
            senders.into_iter().for_each(|s| s.join().unwrap());
            let all_seen = || {
                seen.iter()
                    .zip(wanted.iter())
                    .all(|(s, w)| s.load(Ordering::Acquire) == w.load(Ordering::Acquire))
            };
            while !all_seen() || jobs.load(Ordering::Relaxed) < SENDERS * EACH {
                std::thread::yield_now();
            }
            handle.stop();
        })
    };
    runtime.run().unwrap();
    main.join().unwrap();
    assert_eq!(jobs.load(Ordering::Relaxed), SENDERS * EACH);
}

#[test]
fn what_was_sent_before_the_stop_runs() {
    for threads in [1, 2] {
        let jobs = Arc::new(AtomicUsize::new(0));
        let config = Config { threads, ..Config::default() };
        let runtime = Runtime::start(config, |_| {}).unwrap();
        let handle = runtime.handle();
        let counted = Arc::clone(&jobs);
        // The thread is in the middle of a round when the jobs come, and ends with that round.
        handle.clone().run_on(0, move || {
            spawn(&TEST, async move {
                let sender = std::thread::spawn(move || {
                    for n in 0..1000 {
                        let counted = Arc::clone(&counted);
                        handle.run_on(n % threads, move || _ = counted.fetch_add(1, Ordering::Relaxed));
                    }
                    handle.stop();
                });
                sender.join().unwrap();
            });
        });
        runtime.run().unwrap();
        assert_eq!(jobs.load(Ordering::Relaxed), 1000, "{threads} threads");
    }
}

#[test]
fn busy_polling_never_sleeps() {
    let config = Config { busy_polling: true, ..Config::default() };
    let (sleeps, loops) = block_on(config, async {
        timer::sleep(30).await;
        let activity = &crate::scheduler::local().unwrap().endpoint.activity;
        (activity.sleeps.load(Ordering::Relaxed), activity.loops.load(Ordering::Relaxed))
    });
    assert_eq!(sleeps, 0);
    assert!(loops > 10, "{loops}");
}
