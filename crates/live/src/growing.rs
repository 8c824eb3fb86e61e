//! A row that grows while others read it, without a lock: what is in it never moves.

use std::ops::Index;

use crate::sync::OnceLock;

/// Values that are reached by number. The first of them, as many as there are at the start, are reached as in a slice. Those
/// behind come in rows of which each is twice as long as the one before, and which are made when one of their values is
/// first asked for. Nothing is ever taken away: what uses a number gives it back, and the next one sets the value anew.
#[derive(Debug)]
pub struct Growing<T> {
    first: Box<[T]>,
    // Boxed: most never grow.
    more: OnceLock<Box<Rows<T>>>,
}

type Rows<T> = [OnceLock<Box<[T]>>; ROWS];

/// Values of the first row behind the start.
const SHORTEST: usize = if cfg!(loom) { 1 } else { 16 };
/// Enough for all numbers of 32 bits.
const ROWS: usize = 29;

/// The row of a value, counted from the end of the start, and its place there.
fn place(beyond: usize) -> (usize, usize) {
    let row = (beyond / SHORTEST + 1).ilog2() as usize;
    (row, beyond - SHORTEST * ((1 << row) - 1))
}

impl<T> Growing<T> {
    /// The value of that number, if there is one yet.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&T> {
        match self.first.get(number) {
            Some(value) => Some(value),
            None => self.made_beyond(number - self.first.len()),
        }
    }

    #[cold]
    fn made_beyond(&self, beyond: usize) -> Option<&T> {
        let (row, at) = place(beyond);
        self.more.get()?.get(row)?.get()?.get(at)
    }

    /// All values that there are, with their numbers: those that were asked for, and some of their neighbours.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let rows = self.more.get().into_iter().flat_map(|rows| rows.iter()).enumerate();
        let behind = rows.filter_map(|(row, values)| Some((row, values.get()?)));
        let start = self.first.len();
        self.first.iter().enumerate().chain(
            behind.flat_map(move |(row, values)| (start + SHORTEST * ((1 << row) - 1)..).zip(values.iter())),
        )
    }
}

impl<T: Default> Growing<T> {
    #[cold]
    fn beyond(&self, beyond: usize) -> &T {
        let (row, at) = place(beyond);
        let rows = self.more.get_or_init(|| Box::new(std::array::from_fn(|_| OnceLock::new())));
        let values =
            rows[row].get_or_init(|| (0..SHORTEST << row).map(|_| T::default()).collect::<Vec<T>>().into());
        &values[at]
    }
}

/// The value of that number, which is made if there is none.
impl<T: Default> Index<usize> for Growing<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: usize) -> &T {
        match self.first.get(number) {
            Some(value) => value,
            None => self.beyond(number - self.first.len()),
        }
    }
}

impl<T> FromIterator<T> for Growing<T> {
    /// What there is at the start.
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Growing<T> {
        Growing { first: values.into_iter().collect(), more: OnceLock::new() }
    }
}

impl<T> Default for Growing<T> {
    fn default() -> Growing<T> {
        Growing { first: Box::default(), more: OnceLock::new() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn values_are_made_when_they_are_asked_for_and_stay_where_they_are() {
        let row: Growing<Cell<usize>> = (0..3).map(Cell::new).collect();
        assert!(row.get(3).is_none());
        for number in [3, 18, 19, 50, 51, 5000] {
            row[number].set(number);
            assert_eq!(row[number].get(), number);
        }
        let at: *const Cell<usize> = &row[18];
        row[1 << 20].set(7);
        assert!(std::ptr::eq(at, &row[18]));
        assert_eq!(row.get(5000).map(Cell::get), Some(5000));
        assert!(row.get(1 << 30).is_none());
        let there: Vec<usize> = row.iter().filter(|(_, v)| v.get() != 0).map(|(at, _)| at).collect();
        assert_eq!(there, [1, 2, 3, 18, 19, 50, 51, 5000, 1 << 20]);
        assert!(row.iter().filter(|(_, v)| v.get() > 2 && v.get() != 7).all(|(at, v)| at == v.get()));
    }

    #[test]
    fn each_number_has_a_place_of_its_own() {
        let mut before = (0, 0);
        for beyond in 1..100_000 {
            let now = place(beyond);
            let next_row = (before.0 + 1, 0);
            assert!(now == (before.0, before.1 + 1) && now.1 < SHORTEST << now.0 || now == next_row);
            before = now;
        }
        assert!(place(u32::MAX as usize).0 < ROWS);
    }
}
