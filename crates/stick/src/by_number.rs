//! Values by the number of an entry.

use std::collections::HashMap;

/// Values that are kept together.
const PAGE: usize = 256;

/// Values by the number of a table, and of an entry there. Numbers of entries are given out from 0 on, and come mostly in their order:
/// pages of them cost one look-up in a map that stays in the processor's caches, and never move when there are more. What numbers there
/// are is nothing to rely on: a high one costs no more than a page.
pub(crate) struct ByNumber<T> {
    pages: HashMap<(usize, u32), Box<[Option<T>; PAGE]>>,
}

impl<T> Default for ByNumber<T> {
    fn default() -> ByNumber<T> {
        ByNumber { pages: HashMap::new() }
    }
}

/// The page of a place, and where it is there.
const fn split((table, number): (usize, u32)) -> ((usize, u32), usize) {
    ((table, number / PAGE as u32), number as usize % PAGE)
}

impl<T: Copy> ByNumber<T> {
    /// What is kept for an entry.
    pub fn get(&self, place: (usize, u32)) -> Option<T> {
        let (page, at) = split(place);
        self.pages.get(&page)?[at]
    }

    /// Keeps a value for an entry, in the place of what was kept for it.
    pub fn insert(&mut self, place: (usize, u32), value: T) {
        let (page, at) = split(place);
        self.pages.entry(page).or_insert_with(|| Box::new([None; PAGE]))[at] = Some(value);
    }

    /// Takes what is kept for an entry.
    pub fn remove(&mut self, place: (usize, u32)) -> Option<T> {
        let (page, at) = split(place);
        self.pages.get_mut(&page)?[at].take()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// It is a map, wherever numbers lie.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0usize..2, 0u32..600, any::<bool>(), prop::option::of(0u8..9)), 1..200)) {
            let (mut pages, mut map) = (ByNumber::default(), HashMap::new());
            for (table, number, is_high, value) in steps {
                let place = (table, if is_high { u32::MAX - number } else { number });
                match value {
                    Some(value) => {
                        pages.insert(place, value);
                        map.insert(place, value);
                    }
                    None => prop_assert_eq!(pages.remove(place), map.remove(&place)),
                }
                prop_assert_eq!(pages.get(place), map.get(&place).copied());
            }
        }
    }
}
