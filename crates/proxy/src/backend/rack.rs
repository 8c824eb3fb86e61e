//! Idle connections to one server that carry one request at a time, on one thread: one that fits is found without looking at
//! those that do not, however many there are.
//!
//! Those that are interchangeable are lists, in order of age. Each connection has a number, by which the oldest of all lists are found
//! when some are closed; that is done rarely, and looks at all of them.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;

use super::key::ConnectionKey;

/// See the module's documentation.
pub struct Rack<C> {
    /// Those that nothing tells from others.
    plain: Lists<C>,
    /// Those of one key, which may be none: where there is only one key nothing is hashed.
    first: Option<(Arc<ConnectionKey>, Lists<C>)>,
    /// Those of the other keys. No list is kept that has none.
    keyed: HashMap<Arc<ConnectionKey>, Lists<C>>,
    /// How many there are in all lists.
    counts: Counts,
    /// The number of the next one.
    next: u64,
}

/// Those of one key: the oldest at the front.
struct Lists<C> {
    /// Those that have carried one request.
    fresh: VecDeque<(u64, C)>,
    /// Those that have carried more.
    proven: VecDeque<(u64, C)>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    fresh: usize,
    proven: usize,
}

/// Whether a connection has carried more than one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    Fresh,
    Proven,
}

impl Counts {
    fn of_mut(&mut self, age: Age) -> &mut usize {
        match age {
            Age::Fresh => &mut self.fresh,
            Age::Proven => &mut self.proven,
        }
    }
}

impl<C> Lists<C> {
    fn of_mut(&mut self, age: Age) -> &mut VecDeque<(u64, C)> {
        match age {
            Age::Fresh => &mut self.fresh,
            Age::Proven => &mut self.proven,
        }
    }

    fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.proven.is_empty()
    }

    /// The oldest of the first of `ages` that has one that is `fit`; those before it are dropped, and counted off.
    #[inline]
    fn take(&mut self, ages: &[Age], counts: &mut Counts, mut fit: impl FnMut(&mut C) -> bool) -> Option<C> {
        for &age in ages {
            let list = self.of_mut(age);
            while let Some((_, mut connection)) = list.pop_front() {
                *counts.of_mut(age) -= 1;
                if fit(&mut connection) {
                    return Some(connection);
                }
            }
        }
        None
    }
}

impl<C> Default for Lists<C> {
    fn default() -> Lists<C> {
        Lists { fresh: VecDeque::new(), proven: VecDeque::new() }
    }
}

impl<C> Default for Rack<C> {
    fn default() -> Rack<C> {
        let (plain, keyed) = (Lists::default(), HashMap::default());
        Rack { plain, first: None, keyed, counts: Counts::default(), next: 0 }
    }
}

impl<C> Rack<C> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.counts.fresh + self.counts.proven
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are that have carried one request, or more.
    pub fn count(&self, age: Age) -> usize {
        match age {
            Age::Fresh => self.counts.fresh,
            Age::Proven => self.counts.proven,
        }
    }

    /// Adds one, which is the youngest.
    #[inline]
    pub fn put(&mut self, key: Option<&Arc<ConnectionKey>>, age: Age, connection: C) {
        let number = self.next;
        self.next += 1;
        *self.counts.of_mut(age) += 1;
        let lists = match key {
            None => &mut self.plain,
            Some(key) => self.lists_of(key),
        };
        lists.of_mut(age).push_back((number, connection));
    }

    /// Where one of that key goes.
    fn lists_of(&mut self, key: &Arc<ConnectionKey>) -> &mut Lists<C> {
        let is_in_use = |(first, lists): &(Arc<ConnectionKey>, Lists<C>)| first == key || !lists.is_empty();
        if !self.first.as_ref().is_some_and(is_in_use) {
            // Nobody else has the place: it is this one's, with what it has already.
            let lists = if self.keyed.is_empty() { None } else { self.keyed.remove(key) };
            self.first = Some((Arc::clone(key), lists.unwrap_or_default()));
        }
        match &mut self.first {
            Some((first, lists)) if first == key => lists,
            _ => self.keyed.entry(Arc::clone(key)).or_default(),
        }
    }

    /// Takes the oldest that is interchangeable with `key`, has carried as many requests as one of `ages` says, of which the first
    /// comes first, and is `fit`. Those that are not are dropped on the way.
    #[inline]
    pub fn take(
        &mut self,
        key: Option<&ConnectionKey>,
        ages: &[Age],
        fit: impl FnMut(&mut C) -> bool,
    ) -> Option<C> {
        let lists = match (key, &mut self.first) {
            (None, _) => &mut self.plain,
            (Some(key), Some((first, lists))) if **first == *key => lists,
            (Some(key), _) => return self.take_keyed(key, ages, fit),
        };
        lists.take(ages, &mut self.counts, fit)
    }

    /// The same, of a key that does not have the first place.
    #[inline(never)]
    fn take_keyed(
        &mut self,
        key: &ConnectionKey,
        ages: &[Age],
        fit: impl FnMut(&mut C) -> bool,
    ) -> Option<C> {
        let EntryRef::Occupied(mut entry) = self.keyed.entry_ref(key) else { return None };
        let taken = entry.get_mut().take(ages, &mut self.counts, fit);
        if entry.get().is_empty() {
            entry.remove();
        }
        taken
    }

    /// Drops so many of the oldest.
    pub fn drop_oldest(&mut self, age: Age, n: usize) {
        let n = n.min(self.count(age));
        *self.counts.of_mut(age) -= n;
        if self.first.is_none() {
            self.plain.of_mut(age).drain(..n);
            return;
        }
        let numbers = self.lists(age).flat_map(|list| list.iter().map(|&(number, _)| number));
        let mut numbers: Vec<u64> = numbers.collect();
        let kept_from = match numbers.len() {
            all if n < all => *numbers.select_nth_unstable(n).1,
            _ => u64::MAX,
        };
        for list in self.lists(age) {
            let dropped = list.partition_point(|&(number, _)| number < kept_from);
            list.drain(..dropped);
        }
        self.keyed.retain(|_, lists| !lists.is_empty());
    }

    /// The lists of all keys.
    fn lists(&mut self, age: Age) -> impl Iterator<Item = &mut VecDeque<(u64, C)>> {
        let first = self.first.as_mut().map(|(_, lists)| lists);
        self.keyed.values_mut().chain(first).chain([&mut self.plain]).map(move |lists| lists.of_mut(age))
    }

    /// Drops all that `keep` does not want.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut C) -> bool) {
        let mut counts = Counts::default();
        let mut sort_out = |lists: &mut Lists<C>| {
            lists.fresh.retain_mut(|(_, connection)| keep(connection));
            lists.proven.retain_mut(|(_, connection)| keep(connection));
            counts.fresh += lists.fresh.len();
            counts.proven += lists.proven.len();
        };
        sort_out(&mut self.plain);
        self.first.iter_mut().for_each(|(_, lists)| sort_out(lists));
        self.keyed.retain(|_, lists| {
            sort_out(lists);
            !lists.is_empty()
        });
        self.counts = counts;
    }

    /// Takes all.
    pub fn take_all(&mut self) -> impl Iterator<Item = C> + use<C> {
        let Rack { plain, first, keyed, .. } = std::mem::take(self);
        let lists = keyed.into_values().chain(first.map(|(_, lists)| lists)).chain([plain]);
        lists.flat_map(|lists| lists.fresh.into_iter().chain(lists.proven)).map(|(_, connection)| connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &[Age] = &[Age::Fresh, Age::Proven];

    fn key(name: &str) -> Arc<ConnectionKey> {
        Arc::new(ConnectionKey { name: Some(name.as_bytes().into()), ..ConnectionKey::default() })
    }

    #[test]
    fn one_that_fits_is_found_without_looking_at_others() {
        const MANY: usize = 1000;
        let (mut rack, mut looks) = (Rack::default(), 0);
        let keys: Vec<_> = (0..MANY).map(|n| key(&n.to_string())).collect();
        for n in 0..10 * MANY {
            rack.put(Some(&keys[n % MANY]), Age::Fresh, n);
        }
        for (n, key) in keys.iter().enumerate().rev() {
            let taken = rack.take(Some(key), BOTH, |_| {
                looks += 1;
                true
            });
            assert_eq!(taken, Some(n), "the oldest of its key");
        }
        assert_eq!((looks, rack.len()), (MANY, 9 * MANY));
        assert_eq!(rack.take(None, BOTH, |_| true), None);
        assert_eq!(rack.take(Some(&key("none")), BOTH, |_| true), None);
    }

    #[test]
    fn fresh_ones_go_first_and_unfit_ones_go_on_the_way() {
        let (a, mut rack) = (key("a"), Rack::default());
        for key in [None, Some(&a)] {
            rack.put(key, Age::Proven, 1);
            rack.put(key, Age::Fresh, 2);
            rack.put(key, Age::Fresh, 3);
            let key = key.map(|key| &**key);
            assert_eq!(rack.take(key, &[Age::Proven], |_| false), None);
            assert_eq!((rack.count(Age::Fresh), rack.count(Age::Proven)), (2, 0));
            assert_eq!(rack.take(key, BOTH, |&mut n| n == 3), Some(3));
            assert!(rack.is_empty() && rack.keyed.is_empty(), "names that nobody has take no memory");
        }
    }

    #[test]
    fn the_oldest_of_all_keys_are_dropped() {
        let (keys, mut rack) = ([None, Some(key("a")), Some(key("b"))], Rack::default());
        for n in 0..30 {
            let age = if n % 2 == 0 { Age::Fresh } else { Age::Proven };
            rack.put(keys[n % 3].as_ref(), age, n);
        }
        rack.drop_oldest(Age::Fresh, 5);
        rack.drop_oldest(Age::Proven, 14);
        assert_eq!((rack.count(Age::Fresh), rack.count(Age::Proven)), (10, 1));
        let mut left = Vec::new();
        rack.retain(|&mut n| {
            left.push(n);
            n != 12
        });
        left.sort_unstable();
        assert_eq!(left, [10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 29]);
        assert_eq!(rack.len(), 10);
        rack.drop_oldest(Age::Fresh, 100);
        rack.drop_oldest(Age::Proven, 100);
        assert!(rack.is_empty() && rack.keyed.is_empty());
    }
}
