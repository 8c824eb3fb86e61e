//! In which order the entries of a table changed.
//!
//! Each change gets a number; an entry that changes again moves to the end. Who was told everything up to a number is told
//! what comes after it, each entry once.

use std::collections::VecDeque;

/// Places of entries that moved on are cleared away once there are so many more of them than entries.
const SPARE: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Log {
    last: u32,
    /// Numbers, and the entries that got them. Some entries moved on.
    order: VecDeque<(u32, u32)>,
    /// By entry, its newest number; 0 when it has none.
    newest: Vec<u32>,
    /// How many entries have a number.
    entries: usize,
}

impl Log {
    /// The newest number; 0 when nothing changed yet.
    pub fn last(&self) -> u32 {
        self.last
    }

    /// An entry changed.
    pub fn note(&mut self, entry: u32) {
        // 0 is no number.
        self.last = self.last.wrapping_add(1).max(1);
        let at = entry as usize;
        if self.newest.len() <= at {
            self.newest.resize(at + 1, 0);
        }
        self.entries += usize::from(self.newest[at] == 0);
        self.newest[at] = self.last;
        self.order.push_back((self.last, entry));
        if self.order.len() > 2 * self.entries + SPARE {
            let newest = &self.newest;
            self.order.retain(|(number, entry)| newest[*entry as usize] == *number);
        }
    }

    /// The changes after the one with this number, the oldest first: their numbers and entries. Of a number that is none of
    /// those that are kept, all of these.
    pub fn after(&self, number: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        // Numbers wrap: they are compared by how far they are from the first one that is kept.
        let before = self.order.front().map_or(self.last, |(first, _)| first.wrapping_sub(1));
        let distance = |number: u32| number.wrapping_sub(before);
        let known = Some(distance(number)).filter(|known| *known <= distance(self.last)).unwrap_or(0);
        let from = self.order.partition_point(|(other, _)| distance(*other) <= known);
        self.order.range(from..).copied().filter(|(number, entry)| self.newest[*entry as usize] == *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Beside a plain list of all changes.
        #[test]
        fn each_entry_is_at_its_newest_place(start: u32, changes in prop::collection::vec(0u32..40, 0..3000), ask in 0usize..3000) {
            let mut log = Log { last: start, ..Log::default() };
            let mut numbers = vec![start];
            for entry in &changes {
                log.note(*entry);
                numbers.push(log.last());
            }
            prop_assert!(log.order.len() <= 2 * 40 + SPARE);
            let ask = ask.min(changes.len());
            let told: Vec<_> = log.after(numbers[ask]).collect();
            let mut wanted: Vec<_> = numbers[1..].iter().copied().zip(changes.iter().copied()).collect();
            let all = wanted.clone();
            wanted.retain(|(_, entry)| !all[ask..].is_empty() && all[ask..].iter().any(|(_, e)| e == entry));
            let mut newest: Vec<(u32, u32)> = Vec::new();
            for (number, entry) in wanted {
                newest.retain(|(_, e)| *e != entry);
                newest.push((number, entry));
            }
            prop_assert_eq!(told, newest);
        }
    }
}
