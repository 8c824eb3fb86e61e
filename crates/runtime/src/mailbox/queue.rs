//! An intrusive queue with many producers and one consumer.
//!
//! A push is one exchange and one store, so a producer never retries, whatever the contention. Between the two the
//! chain is briefly cut: the consumer sees [`Pop::Busy`], does other work, and must not sleep. The algorithm is the
//! well-known one by Dmitry Vyukov.
//!
//! Invariants
//! - `last` is written by producers only (and by the consumer when it pushes the stub back); `first` is touched by
//!   the consumer only. They live on separate cache lines.
//! - A node is in the queue from the push to the moment `pop` returns it, and is valid for that long; its `next` is
//!   owned by the queue meanwhile.
//! - The stub is never returned.

use crate::sync::{AtomicPtr, Ordering};
use crossbeam_utils::CachePadded;
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};

/// A link; embedded at the start of what is queued.
#[repr(C)]
pub(crate) struct Node {
    next: AtomicPtr<Node>,
}

impl Node {
    pub(crate) fn new() -> Node {
        Node { next: AtomicPtr::new(ptr::null_mut()) }
    }
}

/// What the consumer found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pop {
    /// A node, which the queue no longer knows.
    Node(NonNull<Node>),
    /// Nothing, and nothing under way.
    Empty,
    /// A producer is between its two steps: come back soon, do not sleep.
    Busy,
}

/// See the module.
pub(crate) struct Queue {
    last: CachePadded<AtomicPtr<Node>>,
    first: CachePadded<UnsafeCell<NonNull<Node>>>,
    stub: NonNull<Node>,
}

// SAFETY: `first` is only touched by the consumer (contract of `pop` and `is_empty`), the rest is atomic or constant.
unsafe impl Sync for Queue {}
// SAFETY: as above; nothing depends on the thread that built it.
unsafe impl Send for Queue {}

#[cfg(not(planted))]
const LINK: Ordering = Ordering::Release;
/// The planted bug: the consumer may see the node before its contents.
#[cfg(planted)]
const LINK: Ordering = Ordering::Relaxed;

impl Queue {
    pub(crate) fn new() -> Queue {
        let stub = NonNull::from(Box::leak(Box::new(Node::new())));
        Queue {
            last: CachePadded::new(AtomicPtr::new(stub.as_ptr())),
            first: CachePadded::new(UnsafeCell::new(stub)),
            stub,
        }
    }

    /// Appends a node. Wait-free.
    ///
    /// # Safety
    /// `node` is in no queue, and stays valid until `pop` has returned it.
    pub(crate) unsafe fn push(&self, node: NonNull<Node>) {
        // SAFETY: the node is valid and, being in no queue, ours.
        unsafe { node.as_ref() }.next.store(ptr::null_mut(), Ordering::Relaxed);
        let before = self.last.swap(node.as_ptr(), Ordering::AcqRel);
        // SAFETY: `before` is the stub or a node that cannot be returned before its `next` is set, which we do here.
        unsafe { &*before }.next.store(node.as_ptr(), LINK);
    }

    /// Takes the oldest node.
    ///
    /// # Safety
    /// Only the consumer may call this.
    pub(crate) unsafe fn pop(&self) -> Pop {
        // SAFETY: `first` is the consumer's. All nodes reached from it are in the queue, hence valid.
        unsafe {
            let first = &mut *self.first.get();
            let mut node = *first;
            let mut next = node.as_ref().next.load(Ordering::Acquire);
            if node == self.stub {
                let Some(after) = NonNull::new(next) else {
                    return if self.last.load(Ordering::Acquire) == self.stub.as_ptr() {
                        Pop::Empty
                    } else {
                        Pop::Busy
                    };
                };
                *first = after;
                node = after;
                next = node.as_ref().next.load(Ordering::Acquire);
            }
            if let Some(after) = NonNull::new(next) {
                *first = after;
                return Pop::Node(node);
            }
            if self.last.load(Ordering::Acquire) != node.as_ptr() {
                return Pop::Busy;
            }
            // The node is the last one: it can only leave when something follows it, so the stub goes in behind.
            self.push(self.stub);
            match NonNull::new(node.as_ref().next.load(Ordering::Acquire)) {
                Some(after) => {
                    *first = after;
                    Pop::Node(node)
                }
                None => Pop::Busy,
            }
        }
    }

    /// Whether nothing is queued or under way. Exact only with respect to pushes ordered before by a fence.
    ///
    /// # Safety
    /// Only the consumer may call this.
    pub(crate) unsafe fn is_empty(&self) -> bool {
        // SAFETY: `first` is the consumer's.
        let first = unsafe { *self.first.get() };
        first == self.stub && self.last.load(Ordering::Relaxed) == self.stub.as_ptr()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: exclusive access; the stub came from a box and is not returned by pop. Nodes still queued belong
        // to their owners.
        drop(unsafe { Box::from_raw(self.stub.as_ptr()) });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[repr(C)]
    struct Item {
        node: Node,
        producer: usize,
        sequence: usize,
    }

    #[test]
    fn many_producers_keep_their_order_and_lose_nothing() {
        const PRODUCERS: usize = 4;
        const EACH: usize = if cfg!(miri) { 50 } else { 20_000 };
        let queue = Arc::new(Queue::new());
        let threads: Vec<_> = (0..PRODUCERS)
            .map(|producer| {
                let queue = queue.clone();
                std::thread::spawn(move || {
                    for sequence in 0..EACH {
                        let item = Box::leak(Box::new(Item { node: Node::new(), producer, sequence }));
                        // SAFETY: a fresh node, freed by the consumer after its pop.
                        unsafe { queue.push(NonNull::from(item).cast()) };
                    }
                })
            })
            .collect();
        let mut seen = [0; PRODUCERS];
        while seen.iter().sum::<usize>() < PRODUCERS * EACH {
            // SAFETY: this thread is the only consumer.
            match unsafe { queue.pop() } {
                Pop::Node(node) => {
                    // SAFETY: every node is the first field of a leaked `Item`.
                    let item = unsafe { Box::from_raw(node.as_ptr().cast::<Item>()) };
                    assert_eq!(item.sequence, seen[item.producer]);
                    seen[item.producer] += 1;
                }
                Pop::Empty | Pop::Busy => std::thread::yield_now(),
            }
        }
        threads.into_iter().for_each(|t| t.join().unwrap());
        // SAFETY: the only consumer.
        assert!(unsafe { queue.is_empty() });
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::cell::UnsafeCell as Checked;
    use loom::sync::Arc;

    #[repr(C)]
    struct Item {
        node: Node,
        value: Checked<u32>,
    }

    fn item(value: u32) -> NonNull<Node> {
        NonNull::from(Box::leak(Box::new(Item { node: Node::new(), value: Checked::new(value) }))).cast()
    }

    /// Two producers, one consumer: each value arrives once, its contents visible (loom's checked cell reports a
    /// race otherwise). Seen to fail with `--cfg planted`, which links nodes with a relaxed store: "Causality
    /// violation: Concurrent load and mut accesses".
    #[test]
    fn loom_queue_delivers_each_node_once() {
        loom::model(|| {
            let queue = Arc::new(Queue::new());
            let producers: Vec<_> = (1..=2u32)
                .map(|n| {
                    let queue = queue.clone();
                    loom::thread::spawn(move || {
                        let node = item(0);
                        // SAFETY: not queued yet, so ours.
                        unsafe { (*node.as_ptr().cast::<Item>()).value.with_mut(|v| *v = n) };
                        // SAFETY: a fresh node.
                        unsafe { queue.push(node) };
                    })
                })
                .collect();
            let mut sum = 0;
            let mut count = 0;
            while count < 2 {
                // SAFETY: the only consumer.
                match unsafe { queue.pop() } {
                    Pop::Node(node) => {
                        // SAFETY: popped, so ours; it came from a box.
                        let item = unsafe { Box::from_raw(node.as_ptr().cast::<Item>()) };
                        // SAFETY: as above.
                        sum += item.value.with(|v| unsafe { *v });
                        count += 1;
                    }
                    Pop::Empty | Pop::Busy => loom::thread::yield_now(),
                }
            }
            assert_eq!(sum, 3);
            producers.into_iter().for_each(|p| p.join().unwrap());
            // SAFETY: the only consumer.
            assert_eq!(unsafe { queue.pop() }, Pop::Empty);
        });
    }
}
