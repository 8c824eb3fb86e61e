//! Properties of the scheduler as its users see them.

use crate::task::{Reason, TaskId, current_task};
use crate::*;
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Poll;

mod questions;
mod reports;
mod successors;
mod threads;
mod timers;
mod turns;

static TEST: Kind = Kind::new("test");

fn run<F: Future<Output: 'static> + 'static>(future: F) -> F::Output {
    block_on(Config::default(), future)
}

/// A list that tasks append to, to see in which order they ran.
type Log = Rc<RefCell<Vec<u32>>>;

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
