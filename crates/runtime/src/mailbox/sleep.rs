//! Whether a thread sleeps in its poll, so that who hands it work wakes it exactly once.
//!
//! The two sides each write, fence, then read the other's word: the owner announces its sleep and then looks at its
//! mailbox, a producer pushes and then looks at the announcement. With both fences at least one of them sees the
//! other, so no wake-up is lost; the exchange picks one producer among several.

use crate::sync::{AtomicU32, Ordering, fence, fence_after_rmw};

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// See the module.
pub(crate) struct Sleep(AtomicU32);

impl Sleep {
    pub(crate) fn new() -> Sleep {
        Sleep(AtomicU32::new(AWAKE))
    }

    /// The owner is about to sleep. It must look at every place work may come from after this, and either call
    /// [`Sleep::awake`] or sleep in a way that the producer's wake-up ends, then call it.
    pub(crate) fn announce(&self) {
        self.0.store(ASLEEP, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The owner is awake again.
    pub(crate) fn awake(&self) {
        self.0.store(AWAKE, Ordering::Relaxed);
    }

    /// After work was handed over by a read-modify-write: whether the caller must wake the owner. True for one
    /// caller per sleep.
    #[must_use]
    pub(crate) fn must_wake(&self) -> bool {
        fence_after_rmw();
        self.claim()
    }

    /// As [`Sleep::must_wake`] without the fence, to pick some sleeping thread: the caller has fenced already.
    #[must_use]
    pub(crate) fn claim(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ASLEEP && self.0.swap(AWAKE, Ordering::AcqRel) == ASLEEP
    }
}

/// The same for a thread that is alone in its runtime and never announces its sleep, so that its own path has no fence:
/// who hands it work wakes it even when it is busy, but only once until it has looked.
pub(crate) struct Bell(AtomicU32);

#[cfg(not(planted))]
const RING: Ordering = Ordering::AcqRel;
/// The planted bug: the owner may see the bell and not the work it was rung for.
#[cfg(planted)]
const RING: Ordering = Ordering::Relaxed;

impl Bell {
    pub(crate) fn new() -> Bell {
        Bell(AtomicU32::new(0))
    }

    /// After work was handed over: whether the caller must wake the owner.
    #[must_use]
    pub(crate) fn ring(&self) -> bool {
        self.0.swap(1, RING) == 0
    }

    /// The owner is about to look for work. Without a ring this is one plain load.
    #[inline]
    pub(crate) fn answer(&self) {
        if self.0.load(Ordering::Relaxed) != 0 {
            self.0.swap(0, RING);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::mailbox::queue::{Node, Pop, Queue};
    use crate::sync::AtomicUsize;
    use loom::sync::Arc;
    use std::ptr::NonNull;

    struct Shared {
        queue: Queue,
        sleep: Sleep,
        /// Stands for the eventfd: how often it was written and not yet read.
        event: AtomicUsize,
        wakes: AtomicUsize,
    }

    /// Two producers push while the owner goes to sleep. The owner never sleeps forever beside a full mailbox, and
    /// each sleep is ended by at most one wake-up. Seen to fail with `--cfg planted`, which drops the producer's
    /// fence: "the owner sleeps and nobody wakes it".
    #[test]
    fn loom_sleep_loses_no_wake_up() {
        loom::model(|| {
            let shared = Arc::new(Shared {
                queue: Queue::new(),
                sleep: Sleep::new(),
                event: AtomicUsize::new(0),
                wakes: AtomicUsize::new(0),
            });
            let producer = |shared: Arc<Shared>| {
                loom::thread::spawn(move || {
                    // SAFETY: a fresh node, never freed before its pop.
                    unsafe { shared.queue.push(NonNull::from(Box::leak(Box::new(Node::new())))) };
                    if shared.sleep.must_wake() {
                        shared.wakes.fetch_add(1, Ordering::Relaxed);
                        shared.event.fetch_add(1, Ordering::Release);
                    }
                })
            };
            let producers = [producer(shared.clone()), producer(shared.clone())];

            // One attempt to sleep by the owner.
            shared.sleep.announce();
            // SAFETY: this thread is the consumer.
            let would_sleep = unsafe { shared.queue.is_empty() };
            producers.into_iter().for_each(|p| p.join().unwrap());
            if would_sleep {
                // Everything was pushed after the look at the mailbox: the wake-up must have come, once.
                assert_eq!(shared.event.load(Ordering::Acquire), 1, "the owner sleeps and nobody wakes it");
            }
            shared.sleep.awake();
            assert!(shared.wakes.load(Ordering::Relaxed) <= 1, "one wake-up per sleep");
            let mut count = 0;
            // SAFETY: the consumer; both producers have finished, so Busy cannot last.
            while let Pop::Node(node) = unsafe { shared.queue.pop() } {
                // SAFETY: popped, from a box.
                drop(unsafe { Box::from_raw(node.as_ptr()) });
                count += 1;
            }
            assert_eq!(count, 2);
        });
    }

    /// Two producers ring while the owner answers once and looks. What it then does not see rings again, so it never
    /// sleeps beside work. Seen to fail with `--cfg planted`, which relaxes the bell's exchange: "work without a ring".
    #[test]
    fn loom_bell_loses_no_wake_up() {
        loom::model(|| {
            let work = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            let bell = Arc::new(Bell::new());
            let event = Arc::new(AtomicUsize::new(0));
            let producers: Vec<_> = (0..2)
                .map(|n| {
                    let (work, bell, event) = (work.clone(), bell.clone(), event.clone());
                    loom::thread::spawn(move || {
                        work[n].store(1, Ordering::Relaxed);
                        if bell.ring() {
                            event.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            bell.answer();
            let seen: usize = work.iter().map(|w| w.load(Ordering::Relaxed)).sum();
            producers.into_iter().for_each(|p| p.join().unwrap());
            if seen < 2 {
                assert!(
                    bell.0.load(Ordering::Relaxed) == 1 && event.load(Ordering::Relaxed) > 0,
                    "work without a ring"
                );
            }
        });
    }
}
