//! The servers that requests are balanced to, with weights that may change while servers are chosen.

use crate::sums::Sums;
use crate::sync::{AtomicU64, Ordering};
use crate::turns::Entry;

/// No place.
const NONE: u32 = u32::MAX;

/// Servers, each at its place in the order of the configuration. Who they are stays; only one thread at a time changes weights.
#[derive(Debug)]
pub(crate) struct Seats {
    /// A server and its weight, in one word.
    seats: Box<[AtomicU64]>,
    /// Where each server is, by its number.
    places: Box<[u32]>,
    total_weight: AtomicU64,
    /// Where somebody wants to know what is before a place.
    sums: Option<Sums>,
}

fn word(entry: Entry) -> u64 {
    u64::from(entry.server) << 32 | u64::from(entry.weight)
}

impl Seats {
    pub fn new(entries: &[Entry]) -> Seats {
        let numbers = entries.iter().map(|entry| entry.server as usize + 1).max().unwrap_or(0);
        let mut places = vec![NONE; numbers];
        entries.iter().zip(0..).for_each(|(entry, place)| places[entry.server as usize] = place);
        Seats {
            seats: entries.iter().map(|&entry| AtomicU64::new(word(entry))).collect(),
            places: places.into(),
            total_weight: AtomicU64::new(entries.iter().map(|entry| u64::from(entry.weight)).sum()),
            sums: None,
        }
    }

    /// The same, with [`Seats::weight_before`].
    pub fn with_sums(entries: &[Entry]) -> Seats {
        Seats { sums: Some(Sums::new(entries.iter().map(|entry| entry.weight))), ..Seats::new(entries) }
    }

    pub fn len(&self) -> usize {
        self.seats.len()
    }

    /// Who is at a place, and with which weight.
    #[inline]
    pub fn at(&self, place: usize) -> Entry {
        let word = self.seats[place].load(Ordering::Relaxed);
        Entry { server: (word >> 32) as u32, weight: word as u32 }
    }

    /// All of them, in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Entry> {
        (0..self.len()).map(|place| self.at(place))
    }

    /// Where a server is, if it takes part.
    #[inline]
    pub fn place(&self, server: u32) -> Option<usize> {
        self.places.get(server as usize).filter(|&&place| place != NONE).map(|&place| place as usize)
    }

    /// Sum of the weights.
    pub fn total_weight(&self) -> u64 {
        self.total_weight.load(Ordering::Relaxed)
    }

    /// Sum of the weights before a place; 0 without [`Seats::with_sums`].
    pub fn weight_before(&self, place: usize) -> u64 {
        self.sums.as_ref().map_or(0, |sums| sums.before(place))
    }

    /// Changes the weight of the server at a place.
    pub fn reweigh(&self, place: usize, weight: u32) {
        let before = self.at(place);
        if let Some(sums) = &self.sums {
            sums.change(place, before.weight, weight);
        }
        self.seats[place].store(word(Entry { weight, ..before }), Ordering::Relaxed);
        let total = self.total_weight() - u64::from(before.weight) + u64::from(weight);
        self.total_weight.store(total, Ordering::Relaxed);
    }
}
