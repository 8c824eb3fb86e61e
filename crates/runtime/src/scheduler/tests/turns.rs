//! Which task runs next: order, niceness, classes, and how long an event waits.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::{Log, TEST, run};
use crate::driver::{Driver, DriverKind, DriverOptions};
use crate::*;

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
