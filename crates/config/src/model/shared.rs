//! Snapshots of a configuration share what did not change between them.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A part of a configuration that snapshots share until one of them changes it: who changes it gets a copy, if others have it,
/// too.
#[derive(Default)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// Whether both are one and the same, not merely alike.
    pub fn is(&self, other: &Shared<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(Arc::clone(&self.0))
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Shared<T> {
        Shared(Arc::new(value))
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where in a list those are that have numbers of their own. In the list of a file the numbers are the positions, and
/// nothing is kept here; once something was taken out of it, or put in, they are not.
#[derive(Clone, Default, Debug)]
pub struct Places(Option<Arc<[u32]>>);

/// No place.
const NONE: u32 = u32::MAX;

impl Places {
    /// The places of those numbers, in the order of the list.
    pub fn of(numbers: impl Iterator<Item = u32> + Clone) -> Places {
        if numbers.clone().zip(0..).all(|(number, at)| number == at) {
            return Places(None);
        }
        let end = numbers.clone().max().map_or(0, |most| most as usize + 1);
        let mut places = vec![NONE; end];
        for (number, at) in numbers.zip(0..) {
            places[number as usize] = at;
        }
        Places(Some(places.into()))
    }

    /// The place of a number, if it is in the list.
    #[cold]
    pub fn find(&self, number: u32) -> Option<usize> {
        let place = *self.0.as_ref()?.get(number as usize)?;
        (place != NONE).then_some(place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_changes_it_gets_a_copy() {
        let mut one = Shared::from(String::from("a"));
        let other = one.clone();
        assert!(one.is(&other));
        one.push('b');
        assert!(!one.is(&other));
        assert_eq!((&**one, &**other), ("ab", "a"));
    }

    #[test]
    fn numbers_are_found_wherever_they_are() {
        let list = [4, 0, 2];
        let places = Places::of(list.into_iter());
        assert_eq!(
            (0..6).map(|n| places.find(n)).collect::<Vec<_>>(),
            [Some(1), None, Some(2), None, Some(0), None]
        );
        // As they are in a file: nobody asks.
        assert!(Places::of(0..3).0.is_none());
    }
}
