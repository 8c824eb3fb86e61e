//! What operators are told of tasks: budgets that were exceeded, profiles, the state of all threads.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use super::TEST;
use crate::task::Reason;
use crate::*;

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
    assert!(file.ends_with(file!()), "{file}");
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
        let off = profile::task_costs(Default::default());
        profile::set_profiling(Profiling::On);
        assert_eq!(profile::profiling(), Profiling::On);
        timer::sleep(1).await;
        work().await;
        profile::set_profiling(Profiling::Off);
        timer::sleep(1).await;
        work().await;
        (off, profile::task_costs(Default::default()).expect("it was on"))
    });
    assert_eq!(off, None, "off means off");
    let workers: Vec<_> = on.rows.iter().filter(|row| row.name == "worker").collect();
    let woken = workers.iter().find(|row| row.calls == 10).expect("it was woken ten times");
    assert!(woken.from.is_some_and(|from| from.file() == file!()), "{woken:?}");
    assert!(woken.cpu_ns >= 10 * 20_000, "twenty microseconds each: {woken:?}");
    assert_eq!(workers.len(), 3, "spawn, wake, kill: {on:?}");
}

#[test]
fn the_state_of_all_threads_can_be_shown() {
    let told = Arc::new(Mutex::new(None));
    let log = told.clone();
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
                let tasks = profile::queued_tasks().await;
                let threads = profile::thread_states().await;
                let seven = |t: usize| 7 + t as u64;
                let extra: [profile::ExtraCounter<'_>; 1] = [("accepted", &seven)];
                let all = profile::show_activity(None, &extra);
                let one = profile::show_activity(Some(2), &extra);
                *log.lock().unwrap() = Some((tasks, threads, all, one));
                stop();
            });
        }
    })
    .unwrap();
    runtime.run().unwrap();
    let (tasks, threads, all, one) = told.lock().unwrap().take().expect("it was told");
    assert!(tasks.iter().any(|kind| kind.name == "spinner" && kind.places > 1), "{tasks:?}");
    let asked = threads.iter().map(|thread| thread.answer.as_ref().map(|answer| answer.is_here));
    assert_eq!(asked.collect::<Vec<_>>(), [Some(false), Some(true)]);
    assert!(all.contains("\nthread_id: 2 (1..2)\n") || all.starts_with("thread_id: 2 (1..2)\n"), "{all}");
    assert!(all.contains("accepted: 15 [ 7 8 ]\n"), "{all}");
    assert!(one.contains("accepted: 8\n") && !one.contains('['), "{one}");
}

#[test]
fn a_task_knows_what_it_cost() {
    static WORKER: Kind = Kind::new("worker");
    /// What each run of the task takes at least.
    const RUN_NS: u64 = 20_000;
    let config = Config { profiling: Profiling::Off, ..Config::default() };
    block_on(config, async {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let spawned = || {
            let log = seen.clone();
            spawn(
                &WORKER,
                poll_fn(move |_| {
                    if reasons() == Reason::TIMER {
                        profile::begin_figures();
                    }
                    let end = clock::precise_ns() + RUN_NS;
                    while clock::precise_ns() < end {}
                    log.borrow_mut().push(profile::figures());
                    Poll::<()>::Pending
                }),
            )
        };
        // Runs it so often, the last time as a new piece of work, and says what it told.
        let work = async |id: TaskId, runs: u32| {
            for _ in 1..runs {
                id.wake(Reason::MESSAGE);
                yield_now().await;
            }
            id.wake(Reason::TIMER);
            yield_now().await;
            std::mem::take(&mut *seen.borrow_mut())
        };
        let calls = |told: &[profile::Figures]| told.iter().map(|figures| figures.calls).collect::<Vec<_>>();
        let id = spawned();
        yield_now().await;
        let told = work(id, 3).await;
        assert_eq!(calls(&told), [1, 2, 3, 1]);
        assert!(told.iter().all(|figures| (figures.ran_ns, figures.waited_ns) == (0, 0)), "{told:?}");

        profile::set_profiling(Profiling::On);
        timer::sleep(1).await;
        let began_ns = clock::precise_ns();
        let told = work(id, 3).await;
        assert_eq!(calls(&told), [2, 3, 1]);
        // The runs before were not profiled.
        assert!(told[0].ran_ns >= RUN_NS && told[1].ran_ns >= told[0].ran_ns + RUN_NS, "{told:?}");
        assert!(told[1].waited_ns >= told[0].waited_ns, "{told:?}");
        let took_ns = clock::precise_ns() - began_ns;
        assert!(told[2].ran_ns >= RUN_NS && told[1].ran_ns + told[2].ran_ns <= took_ns, "{told:?}");
        // Another task in the same place knows nothing of the former one.
        kill(id);
        yield_now().await;
        let other = spawned();
        assert_eq!(other.index(), id.index());
        yield_now().await;
        let told = std::mem::take(&mut *seen.borrow_mut());
        assert_eq!(calls(&told), [1]);
        profile::set_profiling(Profiling::Off);
        timer::sleep(1).await;
        let told = work(other, 1).await;
        assert_eq!((calls(&told), told[0].ran_ns, told[0].waited_ns), (vec![1], 0, 0));
        kill(other);
        yield_now().await;
    });
    assert_eq!(profile::figures(), profile::Figures::default(), "outside of any task");
}
