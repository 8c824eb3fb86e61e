//! Properties of the scheduler as its users see them.

use crate::driver::{Driver, DriverKind, DriverOptions};
use crate::task::{Reason, TaskId, current_task};
use crate::*;
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

static TEST: Kind = Kind::new("test");

fn run<F: Future<Output: 'static> + 'static>(future: F) -> F::Output {
    block_on(Config::default(), future)
}

/// A list that tasks append to, to see in which order they ran.
type Log = Rc<RefCell<Vec<u32>>>;

#[test]
fn tasks_run_in_order_of_arrival() {
    let order = run(async {
        let log = Log::default();
        for n in 0..100 {
            let log = log.clone();
            spawn(&TEST, async move { log.borrow_mut().push(n) });
        }
        while log.borrow().len() < 100 {
            yield_now().await;
        }
        log.take()
    });
    assert!(order.is_sorted());
}

#[test]
fn a_running_task_that_is_woken_runs_once_more_with_all_reasons() {
    let seen = run(async {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let log = seen.clone();
        spawn(
            &TEST,
            poll_fn(move |_| {
                log.borrow_mut().push(reasons());
                if log.borrow().len() == 1 {
                    current_task().wake(Reason::IO);
                    current_task().wake(Reason::MESSAGE);
                    current_task().wake(Reason::IO);
                }
                Poll::<()>::Pending
            }),
        );
        for _ in 0..10 {
            yield_now().await;
        }
        seen.take()
    });
    assert_eq!(seen, [Reason::SPAWN, Reason::IO | Reason::MESSAGE]);
}

#[test]
fn a_queued_task_is_not_queued_twice() {
    let runs = run(async {
        let runs = Rc::new(Cell::new(0));
        let count = runs.clone();
        let id = spawn(
            &TEST,
            poll_fn(move |_| {
                count.set(count.get() + 1);
                Poll::<()>::Pending
            }),
        );
        yield_now().await;
        yield_now().await;
        assert_eq!(runs.get(), 1);
        (0..5).for_each(|_| id.wake(Reason::MESSAGE));
        for _ in 0..5 {
            yield_now().await;
        }
        runs.get()
    });
    assert_eq!(runs, 2);
}

struct DropFlag(Rc<Cell<u32>>);
impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn tasks_kill_each_other_and_themselves() {
    run(async {
        let dropped = Rc::new(Cell::new(0));
        let sleeper = |dropped: &Rc<Cell<u32>>| {
            let flag = DropFlag(dropped.clone());
            spawn(&TEST, async move {
                let _flag = flag;
                pending::<()>().await;
            })
        };
        // Waiting.
        let waiting = sleeper(&dropped);
        yield_now().await;
        kill(waiting);
        yield_now().await;
        assert_eq!(dropped.get(), 1);
        // Queued, never run.
        kill(sleeper(&dropped));
        yield_now().await;
        assert_eq!(dropped.get(), 2);
        // Itself, running.
        let flag = DropFlag(dropped.clone());
        spawn(&TEST, async move {
            let _flag = flag;
            kill(current_task());
            pending::<()>().await;
        });
        yield_now().await;
        assert_eq!(dropped.get(), 3);
        // A stale name means nothing, even when the slot has a new task.
        let other = sleeper(&dropped);
        assert_eq!(other.index(), waiting.index());
        kill(waiting);
        waiting.wake(Reason::IO);
        yield_now().await;
        yield_now().await;
        assert_eq!(dropped.get(), 3);
        // One whose drop kills another and spawns.
        let killer = spawn(&TEST, async move {
            struct Chain(TaskId);
            impl Drop for Chain {
                fn drop(&mut self) {
                    kill(self.0);
                    spawn(&TEST, async {});
                }
            }
            let _chain = Chain(other);
            pending::<()>().await;
        });
        yield_now().await;
        kill(killer);
        for _ in 0..4 {
            yield_now().await;
        }
        assert_eq!(dropped.get(), 4);
    });
}

#[test]
fn a_panic_ends_its_task_and_no_other() {
    let incidents = Arc::new(Mutex::new(Vec::new()));
    let log = incidents.clone();
    let config = Config {
        // Printing a backtrace can take longer than any budget.
        budget: None,
        on_incident: Some(Arc::new(move |i: &Incident<'_>| {
            log.lock().unwrap().push((i.cause, i.kind, i.message.to_string()));
        })),
        ..Config::default()
    };
    static FRAGILE: Kind = Kind::new("fragile");
    let (done, dropped) = block_on(config, async {
        let dropped = Rc::new(Cell::new(0));
        let done = Rc::new(Cell::new(0));
        for n in 0..100 {
            let (flag, done) = (DropFlag(dropped.clone()), done.clone());
            spawn(&FRAGILE, async move {
                let _flag = flag;
                yield_now().await;
                assert!(n % 10 != 3, "task {n}");
                done.set(done.get() + 1);
            });
        }
        // One that panics again while it is dropped after a kill.
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("in drop");
            }
        }
        let bomb = spawn(&FRAGILE, async {
            let _bomb = Bomb;
            pending::<()>().await;
        });
        yield_now().await;
        kill(bomb);
        for _ in 0..50 {
            yield_now().await;
        }
        (done.get(), dropped.get())
    });
    assert_eq!((done, dropped), (90, 100));
    let incidents = incidents.lock().unwrap();
    assert_eq!(incidents.len(), 11);
    assert!(incidents.iter().all(|(cause, kind, _)| *cause == Cause::Panic && *kind == "fragile"));
    assert!(incidents.iter().any(|i| i.2 == "task 3") && incidents.iter().any(|i| i.2 == "in drop"));
}

#[test]
fn a_nice_task_overtakes_a_full_queue() {
    // Forty tasks that always have work, and one that wakes now and then: the stats page under full load.
    let rounds_waited = run(async {
        let turns = Rc::new(Cell::new(0u64));
        for _ in 0..2000 {
            let turns = turns.clone();
            spawn(&TEST, async move {
                loop {
                    turns.set(turns.get() + 1);
                    yield_now().await;
                }
            });
        }
        let worst = Rc::new(Cell::new(0));
        let finished = Rc::new(Cell::new(false));
        let (w, f, t) = (worst.clone(), finished.clone(), turns.clone());
        spawn_with(&TEST, SpawnOptions { nice: NICE_MIN, ..Default::default() }, async move {
            for _ in 0..50 {
                let before = t.get();
                yield_now().await;
                w.set(w.get().max(t.get() - before));
            }
            f.set(true);
        });
        while !finished.get() {
            yield_now().await;
        }
        worst.get()
    });
    assert!(rounds_waited <= 1, "{rounds_waited} others ran first");
}

#[test]
fn every_class_has_its_share_of_a_saturated_thread() {
    let turns = run(async {
        let turns = Rc::new(RefCell::new([0u32; 4]));
        for class in [Class::Urgent, Class::Normal, Class::Bulk, Class::Heavy] {
            for _ in 0..100 {
                let turns = turns.clone();
                spawn_with(&TEST, SpawnOptions { class, nice: 0 }, async move {
                    loop {
                        turns.borrow_mut()[class as usize] += 1;
                        yield_now().await;
                    }
                });
            }
        }
        while turns.borrow().iter().sum::<u32>() < 40_000 {
            yield_now().await;
        }
        turns.take()
    });
    let share = |c: Class| turns[c as usize] as f64 / turns.iter().sum::<u32>() as f64;
    let rounds = 40_000.0 / 40.0;
    assert!((share(Class::Urgent) - 0.5).abs() < 0.06, "{turns:?}");
    assert!((share(Class::Normal) - 0.37).abs() < 0.06, "{turns:?}");
    assert!((share(Class::Bulk) - 0.11).abs() < 0.04, "{turns:?}");
    assert!(
        turns[3] as f64 <= rounds * 1.1 && turns[3] as f64 > rounds * 0.8,
        "one heavy per round: {turns:?}"
    );
}

#[test]
fn low_latency_lets_urgent_work_take_over_and_starves_none() {
    let config = Config { low_latency: true, ..Config::default() };
    let (order, bulk) = block_on(config, async {
        let log = Log::default();
        let bulk = Rc::new(Cell::new(0));
        let count = bulk.clone();
        for class in [Class::Bulk, Class::Heavy] {
            let count = count.clone();
            spawn_with(&TEST, SpawnOptions { class, nice: 0 }, async move {
                loop {
                    count.set(count.get() + 1);
                    yield_now().await;
                }
            });
        }
        set_class(Class::Bulk);
        yield_now().await;
        for n in 0..3 {
            let log = log.clone();
            spawn_with(&TEST, SpawnOptions { class: Class::Normal, nice: 0 }, async move {
                log.borrow_mut().push(10 + n);
                let inner = log.clone();
                spawn_with(&TEST, SpawnOptions { class: Class::Urgent, nice: 0 }, async move {
                    inner.borrow_mut().push(n);
                });
            });
        }
        set_class(Class::Normal);
        // Saturate the normal class: the others still get turns.
        let before = bulk.get();
        for _ in 0..40 * 16 * 5 {
            yield_now().await;
        }
        (log.take(), bulk.get() - before)
    });
    assert_eq!(order, [10, 0, 11, 1, 12, 2], "the urgent one runs before the next normal one");
    assert!(bulk >= 5, "{bulk}");
}

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
fn a_task_over_its_budget_is_named() {
    let incidents = Arc::new(Mutex::new(Vec::new()));
    let log = incidents.clone();
    let config = Config {
        budget: Some(std::time::Duration::from_millis(8)),
        profiling: Profiling::Off,
        on_incident: Some(Arc::new(move |i: &Incident<'_>| {
            log.lock().unwrap().push((i.cause, i.kind, i.woken_from.file(), i.duration.unwrap()));
        })),
        ..Config::default()
    };
    static GREEDY: Kind = Kind::new("greedy");
    block_on(config, async {
        let id = spawn(
            &GREEDY,
            poll_fn(|_| {
                if reasons() == Reason::SPAWN {
                    return Poll::Pending;
                }
                // Many scheduler ticks of the kernel, at which it looks at CPU timers.
                let end = clock::thread_cpu_ns() + 100_000_000;
                while clock::thread_cpu_ns() < end {}
                Poll::Ready(())
            }),
        );
        yield_now().await;
        id.wake(Reason::MESSAGE);
        yield_now().await;
        yield_now().await;
    });
    let incidents = incidents.lock().unwrap();
    assert_eq!(incidents.len(), 1, "{incidents:?}");
    let (cause, kind, file, duration) = &incidents[0];
    assert_eq!((*cause, *kind), (Cause::OverBudget, "greedy"));
    assert!(file.ends_with("tests.rs"), "{file}");
    assert!(duration.as_millis() >= 8, "{duration:?}");
}

#[test]
fn profiling_counts_kinds_and_callers() {
    static WORKER: Kind = Kind::new("worker");
    let config = Config { profiling: Profiling::Off, ..Config::default() };
    let (off, on) = block_on(config, async {
        let work = || async {
            let id = spawn(
                &WORKER,
                poll_fn(|_| {
                    let end = clock::precise_ns() + 20_000;
                    while clock::precise_ns() < end {}
                    Poll::<()>::Pending
                }),
            );
            yield_now().await;
            for _ in 0..10 {
                id.wake(Reason::MESSAGE);
                yield_now().await;
            }
            kill(id);
            yield_now().await;
        };
        work().await;
        let off = profile::show_profiling_tasks(Default::default());
        profile::set_profiling(Profiling::On);
        assert_eq!(profile::profiling(), Profiling::On);
        timer::sleep(1).await;
        work().await;
        profile::set_profiling(Profiling::Off);
        timer::sleep(1).await;
        work().await;
        (off, profile::show_profiling_tasks(Default::default()))
    });
    assert_eq!(off, "", "off means off");
    let lines: Vec<&str> = on.lines().collect();
    assert!(lines[0].starts_with("Tasks activity over ") && lines[0].ends_with(" sec ago:"), "{on}");
    let woken =
        lines.iter().find(|l| l.trim_start().starts_with("worker ") && l.contains(" 10 ")).expect(&on);
    assert!(woken.contains(" <- ") && woken.contains("tests.rs:"), "{woken}");
    assert!(woken.contains("us"), "twenty microseconds each: {woken}");
    assert_eq!(
        lines.iter().filter(|l| l.trim_start().starts_with("worker ")).count(),
        3,
        "spawn, wake, kill: {on}"
    );
}

#[test]
fn the_state_of_all_threads_can_be_shown() {
    let texts = Arc::new(Mutex::new(Vec::new()));
    let log = texts.clone();
    let runtime = Runtime::start(Config { threads: 2, ..Config::default() }, move |thread| {
        static SPINNER: Kind = Kind::new("spinner");
        for _ in 0..3 {
            spawn(&SPINNER, async {
                loop {
                    yield_now().await;
                }
            });
        }
        if thread == 1 {
            let log = log.clone();
            spawn(&TEST, async move {
                let tasks = profile::show_tasks().await;
                let threads = profile::show_threads().await;
                let seven = |t: usize| 7 + t as u64;
                let extra: [profile::ExtraCounter<'_>; 1] = [("accepted", &seven)];
                let all = profile::show_activity(None, &extra);
                let one = profile::show_activity(Some(2), &extra);
                *log.lock().unwrap() = vec![tasks, threads, all, one, profile::show_pools("")];
                stop();
            });
        }
    })
    .unwrap();
    runtime.run().unwrap();
    let texts = texts.lock().unwrap();
    let [tasks, threads, all, one, pools] = &texts[..] else { panic!("{texts:?}") };
    assert!(tasks.contains(" (2 threads)\n") && tasks.contains("\n  spinner "), "{tasks}");
    assert!(threads.contains("* Thread 2 ") && threads.contains("  Thread 1 "), "{threads}");
    assert!(all.contains("\nthread_id: 2 (1..2)\n") || all.starts_with("thread_id: 2 (1..2)\n"), "{all}");
    assert!(all.contains("accepted: 15 [ 7 8 ]\n"), "{all}");
    assert!(one.contains("accepted: 8\n") && !one.contains('['), "{one}");
    assert!(pools.starts_with("Dumping pools usage.") && pools.contains("\nTotal: "), "{pools}");
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
fn random_wakes_kills_and_spawns_keep_the_books() {
    // A seeded storm on one thread: at the end every task that was ever spawned has been dropped exactly once.
    for seed in 1..=if cfg!(debug_assertions) { 20 } else { 200 } {
        run(async move {
            let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed) | 1;
            let mut below = move |n: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % n
            };
            let dropped = Rc::new(Cell::new(0));
            let mut ids = Vec::new();
            let mut spawned = 0;
            for _ in 0..400 {
                match below(6) {
                    0 | 1 => {
                        let flag = DropFlag(dropped.clone());
                        let (polls, class, nice) = (below(5), below(4), below(40) as i16 - 20);
                        spawned += 1;
                        let options = SpawnOptions {
                            class: [Class::Urgent, Class::Normal, Class::Bulk, Class::Heavy][class as usize],
                            nice,
                        };
                        ids.push(spawn_with(&TEST, options, async move {
                            let _flag = flag;
                            for n in 0..polls {
                                match n % 3 {
                                    0 => yield_now().await,
                                    1 => timer::sleep_until(clock::now_ms() + 1).await,
                                    _ => set_nice(3),
                                }
                            }
                            if polls == 4 {
                                pending::<()>().await;
                            }
                        }));
                    }
                    2 => ids.iter().for_each(|id| id.wake(Reason::OTHER)),
                    3 if !ids.is_empty() => kill(ids[below(ids.len() as u64) as usize]),
                    4 => yield_now().await,
                    _ if !ids.is_empty() => ids[below(ids.len() as u64) as usize].wake(Reason::IO),
                    _ => {}
                }
            }
            ids.iter().for_each(|id| kill(*id));
            while dropped.get() < spawned {
                yield_now().await;
            }
            yield_now().await;
            assert_eq!(dropped.get(), spawned, "seed {seed}");
            let local = crate::scheduler::local().unwrap();
            assert_eq!((local.slots.live(), local.timers().0), (1, 0), "seed {seed}: only this task is left");
        });
    }
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

#[test]
fn the_steady_state_allocates_nothing_for_tasks() {
    run(async {
        let used = || {
            let local = crate::scheduler::local().unwrap();
            local.slots.used()
        };
        for _ in 0..100 {
            spawn(&TEST, async { yield_now().await });
        }
        yield_now().await;
        yield_now().await;
        yield_now().await;
        let before = used();
        for _ in 0..50 {
            for _ in 0..50 {
                spawn(&TEST, async { yield_now().await });
            }
            for _ in 0..5 {
                yield_now().await;
            }
        }
        assert_eq!(used(), before, "slots are reused");
    });
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

/// At worst, how many tasks of `class` begin between an event on a socket and the task that waits for it, when twenty of
/// them saturate the thread. The event comes while one of them runs.
fn begun_before_the_light_task(driver: DriverKind, low_latency: bool, class: Class) -> u32 {
    use std::io::Write;
    let config = Config { driver, low_latency, ..Config::default() };
    block_on(config, async move {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut stream = crate::net::Stream::from_accepted(ours.into()).unwrap();
        let theirs = Rc::new(theirs);
        let begun = Rc::new(Cell::new(0));
        // How many had begun when the event came.
        let told_at = Rc::new(Cell::new(None));
        for _ in 0..20 {
            let (begun, told_at, theirs) = (begun.clone(), told_at.clone(), theirs.clone());
            spawn_with(&TEST, SpawnOptions { class, nice: 0 }, async move {
                loop {
                    begun.set(begun.get() + 1);
                    // Not in step with rounds of any length.
                    if told_at.get().is_none() && begun.get() % 7 == 0 {
                        told_at.set(Some(begun.get()));
                        // At the end nobody listens.
                        let _ = (&*theirs).write_all(b"x");
                    }
                    yield_now().await;
                }
            });
        }
        let mut worst = 0;
        for _ in 0..300 {
            assert_eq!(stream.recv(16).await.unwrap().len(), 1);
            worst = worst.max(begun.get() - told_at.take().unwrap());
        }
        worst
    })
}

/// The heavy class keeps what waits for an event from waiting for more than the heavy task that runs when it comes; counted,
/// as times on a busy machine say how it was preempted.
#[test]
fn one_heavy_task_at_most_is_between_an_event_and_who_waits_for_it() {
    for driver in [DriverKind::Epoll, DriverKind::Uring] {
        if let Err(error) = Driver::new(driver.clone(), &DriverOptions::default()) {
            eprintln!("skipped with {driver:?}, which this kernel does not allow: {error}");
            continue;
        }
        let [one_class, heavy, low_latency] = [
            begun_before_the_light_task(driver.clone(), false, Class::Normal),
            begun_before_the_light_task(driver.clone(), false, Class::Heavy),
            begun_before_the_light_task(driver.clone(), true, Class::Heavy),
        ];
        eprintln!(
            "{driver:?}: {one_class} in one class, {heavy} in the heavy class, {low_latency} with low latency"
        );
        assert!(one_class >= 10, "{driver:?}: the thread is not saturated: {one_class}");
        assert_eq!((heavy, low_latency), (0, 0), "{driver:?}");
    }
}
