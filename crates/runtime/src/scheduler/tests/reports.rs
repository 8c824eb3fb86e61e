//! What operators are told of tasks: budgets that were exceeded, profiles, the state of all threads.

use std::future::poll_fn;
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
    assert!(woken.contains(" <- ") && woken.contains(&format!("{}:", file!())), "{woken}");
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
