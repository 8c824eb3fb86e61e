//! The order in which a thread's tasks run: arrival, corrected by nice, per class.

use std::collections::VecDeque;

/// How urgent a task's work is. Each class has its share of a round, so none starves another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// Completions that unblock others.
    Urgent = 0,
    /// Streams, ordered by nice.
    #[default]
    Normal = 1,
    /// Long transfers and housekeeping.
    Bulk = 2,
    /// Work that cannot yield for 0.5 to 2 ms, such as a handshake's cryptography: one per round.
    Heavy = 3,
}

pub(crate) const CLASSES: usize = 4;

impl Class {
    pub(crate) const ALL: [Class; CLASSES] = [Class::Urgent, Class::Normal, Class::Bulk, Class::Heavy];

    pub(crate) fn from_bits(bits: u8) -> Class {
        Class::ALL[(bits & 3) as usize]
    }

    /// The class as its bit in a set of classes.
    pub(crate) const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Its weight when a round is divided among the classes that have work.
    pub(crate) const fn weight(self) -> u32 {
        match self {
            Class::Urgent => 8,
            Class::Normal => 6,
            Class::Bulk => 2,
            Class::Heavy => 0,
        }
    }
}

/// The least nice value: run first.
pub const NICE_MIN: i16 = -1024;
/// The greatest nice value: run last.
pub const NICE_MAX: i16 = 1024;

/// A position in the order of arrival. Compared by difference, so the counter may wrap: all keys in a queue lie
/// within `2 * 1024 * depth` plus the number of tasks of each other, far below half the range.
type Key = u32;

#[inline]
fn before(a: Key, b: Key) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// The runnable tasks of one class. Tasks of nice 0 wait in plain order of arrival; the others in a heap by their
/// corrected arrival. Taking compares the two heads.
#[derive(Default)]
pub(crate) struct RunQueue {
    plain: VecDeque<(Key, u32)>,
    niced: Vec<(Key, u32)>,
}

impl RunQueue {
    pub(crate) fn len(&self) -> usize {
        self.plain.len() + self.niced.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.niced.is_empty()
    }

    /// Queues task `index`, which arrived as number `arrival`.
    #[inline]
    pub(crate) fn push(&mut self, arrival: Key, index: u32) {
        self.plain.push_back((arrival, index));
    }

    /// Queues a task as if it had arrived `shift` later (earlier when negative).
    pub(crate) fn push_niced(&mut self, arrival: Key, shift: i32, index: u32) {
        self.niced.push((arrival.wrapping_add_signed(shift), index));
        let mut at = self.niced.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            if !before(self.niced[at].0, self.niced[parent].0) {
                break;
            }
            self.niced.swap(at, parent);
            at = parent;
        }
    }

    /// Takes the task whose turn it is.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        match (self.niced.first(), self.plain.front()) {
            (None, _) => self.plain.pop_front().map(|(_, index)| index),
            (Some(niced), Some(plain)) if !before(niced.0, plain.0) => {
                self.plain.pop_front().map(|(_, index)| index)
            }
            (Some(_), _) => Some(self.pop_niced()),
        }
    }

    #[cold]
    fn pop_niced(&mut self) -> u32 {
        let (_, index) = self.niced.swap_remove(0);
        let mut at = 0;
        loop {
            let mut child = 2 * at + 1;
            if child >= self.niced.len() {
                return index;
            }
            if child + 1 < self.niced.len() && before(self.niced[child + 1].0, self.niced[child].0) {
                child += 1;
            }
            if !before(self.niced[child].0, self.niced[at].0) {
                return index;
            }
            self.niced.swap(child, at);
            at = child;
        }
    }

    /// The queued tasks, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.plain.iter().chain(&self.niced).map(|&(_, index)| index)
    }

    /// Gives memory back when nothing is queued and much was.
    pub(crate) fn trim(&mut self) {
        if self.plain.is_empty() && self.plain.capacity() > 4096 {
            self.plain = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(q: &mut RunQueue) -> Vec<u32> {
        std::iter::from_fn(|| q.pop()).collect()
    }

    /// Runs the same scenario at several counter values, among them ones that wrap in its middle.
    fn check(scenario: impl Fn(u32, &mut RunQueue) -> Vec<u32>) {
        let expected = scenario(0x1000_0000, &mut RunQueue::default());
        for start in [0, 3, u32::MAX - 1, u32::MAX - 50_000, i32::MAX as u32 - 2] {
            assert_eq!(scenario(start, &mut RunQueue::default()), expected, "counter at {start}");
        }
    }

    #[test]
    fn arrival_order() {
        check(|start, q| {
            (0..6).for_each(|n| q.push(start.wrapping_add(n), n));
            let order = drain(q);
            assert_eq!(order, [0, 1, 2, 3, 4, 5]);
            order
        });
    }

    #[test]
    fn nice_shifts_the_arrival() {
        check(|start, q| {
            (0..100).for_each(|n| q.push(start.wrapping_add(n), n));
            q.push_niced(start.wrapping_add(100), -60, 1000);
            q.push_niced(start.wrapping_add(101), -1024 * 40, 1001);
            q.push_niced(start.wrapping_add(102), 10, 1002);
            (103..130).for_each(|n| q.push(start.wrapping_add(n), n));
            let order = drain(q);
            let at = |index| order.iter().position(|&i| i == index).unwrap();
            assert_eq!(at(1001), 0, "the nicest comes first, whatever waits");
            assert_eq!(order[at(1000) - 1], 40, "sixty places earlier");
            assert_eq!(order[at(1002) + 1], 113, "ten places later, behind its equal");
            assert!(order.windows(2).all(|w| w[0] >= 1000 || w[1] >= 1000 || w[0] < w[1]));
            order
        });
    }

    #[test]
    fn a_niced_task_is_not_starved() {
        // It waits for at most its shift in arrivals, however many come after it.
        let mut q = RunQueue::default();
        let mut arrival = u32::MAX - 500;
        q.push_niced(arrival, 1000, 7);
        for n in 0..2000 {
            arrival = arrival.wrapping_add(1);
            q.push(arrival, 100);
            if q.pop() == Some(7) {
                assert!((998..=1001).contains(&n), "{n}");
                return;
            }
        }
        panic!("never reached");
    }
}
