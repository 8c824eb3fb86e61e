//! Questions to other threads: each is answered once, whatever becomes of who asks and of the one that is asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::TEST;
use crate::*;

/// What the thread that is asked does.
#[derive(Clone, Copy, Debug)]
enum Does {
    Gives(usize),
    Drops,
    Panics,
    /// It gives what it is asked for once who asked is gone.
    Late,
}

/// Counts how often it is dropped.
struct Given(usize, Arc<Counts>);

#[derive(Default)]
struct Counts {
    made: AtomicUsize,
    dropped: AtomicUsize,
    unclaimed: AtomicUsize,
    /// The replies that wait until who asked is gone.
    gone: AtomicUsize,
}

impl Counts {
    fn give(self: &Arc<Self>, number: usize) -> Given {
        self.made.fetch_add(1, Ordering::SeqCst);
        Given(number, Arc::clone(self))
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        self.1.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

struct Asked(Does, Arc<Counts>);

impl Question for Asked {
    type Answer = Given;

    fn put(self, reply: Reply<Asked>) {
        let Asked(does, counts) = self;
        match does {
            Does::Gives(number) => reply.give(counts.give(number)),
            Does::Drops => drop(reply),
            Does::Panics => panic!("planned"),
            Does::Late => {
                spawn(&TEST, async move {
                    while counts.gone.load(Ordering::SeqCst) == 0 {
                        yield_now().await;
                    }
                    reply.give(counts.give(0));
                });
            }
        }
    }

    fn unclaimed(answer: Given) {
        answer.1.unclaimed.fetch_add(1, Ordering::SeqCst);
    }
}

/// Runs `first` on the first of two threads, and ends with it.
fn play<F: Future<Output = ()> + 'static>(
    first: impl FnOnce(Arc<Counts>) -> F + Send + 'static,
) -> Arc<Counts> {
    let counts = Arc::new(Counts::default());
    let (given, first) = (Arc::clone(&counts), Mutex::new(Some(first)));
    let runtime = Runtime::start(Config { threads: 2, ..Config::default() }, move |thread| {
        if thread == 0 {
            let first = first.lock().unwrap_or_else(PoisonError::into_inner).take().expect("once");
            let first = first(Arc::clone(&given));
            spawn(&TEST, async move {
                first.await;
                stop();
            });
        }
    });
    runtime.unwrap().run().unwrap();
    let count = |count: &AtomicUsize| count.load(Ordering::SeqCst);
    assert_eq!(count(&counts.made), count(&counts.dropped), "nothing that was given is left");
    counts
}

#[test]
fn who_asks_has_an_answer_once() {
    let counts = play(|counts| async move {
        for thread in [1, 0] {
            for n in 0..if cfg!(miri) { 10 } else { 300 } {
                let asked = |does| ask(thread, Asked(does, Arc::clone(&counts)));
                assert_eq!(asked(Does::Gives(n)).await.map(|given| given.0), Some(n));
                assert!(asked(Does::Drops).await.is_none());
            }
            let panics = ask(thread, Asked(Does::Panics, Arc::clone(&counts)));
            assert!(panics.await.is_none(), "a message that panics is an answer");
        }
    });
    assert_eq!(counts.unclaimed.load(Ordering::SeqCst), 0);
}

#[test]
fn what_nobody_waits_for_comes_home() {
    let counts = play(|counts| async move {
        for _ in 0..10 {
            let asked = ask(1, Asked(Does::Late, Arc::clone(&counts)));
            assert!(timer::timeout_at(Some(timer::deadline_in(1)), asked).await.is_err(), "it gave up");
        }
        counts.gone.store(1, Ordering::SeqCst);
        while counts.unclaimed.load(Ordering::SeqCst) < 10 {
            yield_now().await;
        }
    });
    assert_eq!(counts.made.load(Ordering::SeqCst), 10);
}

#[test]
fn an_end_leaves_no_question_and_no_answer() {
    for gone in [0, 1] {
        let counts = play(move |counts| async move {
            for _ in 0..10 {
                spawn(&TEST, {
                    let counts = Arc::clone(&counts);
                    async move { drop(ask(1, Asked(Does::Late, counts)).await) }
                });
            }
            // They are asked, and answered or not, when the threads end.
            yield_now().await;
            counts.gone.store(gone, Ordering::SeqCst);
        });
        assert_eq!(Arc::strong_count(&counts), 1, "no letter is left");
    }
}
