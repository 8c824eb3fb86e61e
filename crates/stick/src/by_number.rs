//! Numbers by the number of an entry.

use std::collections::HashMap;

/// Numbers that are kept together.
const PAGE: usize = 1024;
/// What stands for nothing: no entry has this number.
const NOTHING: u32 = u32::MAX;

/// A number of a table, and a part of its entries' numbers.
type Page = (usize, u32);

/// A number for each number of a table and of an entry there. Those are given out from 0 on, and come mostly in their order: pages of
/// them never move when there are more, and of a row on one page only the first one is looked up. What numbers there are is nothing to
/// rely on: a high one costs no more than a page.
#[derive(Default)]
pub(crate) struct ByNumber {
    pages: Vec<Box<[u32; PAGE]>>,
    index: HashMap<Page, usize>,
    /// The page that was looked up last.
    last: Option<(Page, usize)>,
}

/// The page of a place, and where it is there.
const fn split((table, number): (usize, u32)) -> (Page, usize) {
    ((table, number / PAGE as u32), number as usize % PAGE)
}

impl ByNumber {
    fn page(&mut self, page: Page) -> Option<usize> {
        if let Some((last, at)) = self.last
            && last == page
        {
            return Some(at);
        }
        let at = *self.index.get(&page)?;
        self.last = Some((page, at));
        Some(at)
    }

    /// What is kept for an entry.
    pub fn get(&mut self, place: (usize, u32)) -> Option<u32> {
        let (page, at) = split(place);
        let number = self.page(page)?;
        let value = self.pages[number][at];
        (value != NOTHING).then_some(value)
    }

    /// Keeps the number of an entry for another one, in the place of what was kept for it.
    pub fn insert(&mut self, place: (usize, u32), value: u32) {
        let (page, at) = split(place);
        let number = self.page(page).unwrap_or_else(|| {
            self.pages.push(Box::new([NOTHING; PAGE]));
            let number = self.pages.len() - 1;
            self.index.insert(page, number);
            self.last = Some((page, number));
            number
        });
        self.pages[number][at] = value;
    }

    /// Takes what is kept for an entry.
    pub fn remove(&mut self, place: (usize, u32)) -> Option<u32> {
        let value = self.get(place)?;
        self.insert(place, NOTHING);
        Some(value)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// It is a map, wherever numbers lie.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0usize..2, 0u32..2500, any::<bool>(), prop::option::of(0u32..9)), 1..200)) {
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
