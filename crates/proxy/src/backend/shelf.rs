//! The connections to one server that carry many requests at once, on one thread: one with room is found without looking at
//! those that have none, however many there are.
//!
//! Each has a number, and they are in order of age. Those that are interchangeable have an index of those with room, as far as
//! is known: one that turns out to have none leaves it, and comes back when it [tells](Ticket) that it has some again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use super::key::ConnectionKey;

/// What a shelf needs to know of a connection.
pub trait Shared {
    /// What it is interchangeable with.
    fn key(&self) -> Option<&Arc<ConnectionKey>>;
    /// Whether a request may be sent on it now.
    fn has_room(&self) -> bool;
    /// Whether no request will ever be sent on it again.
    fn is_spent(&self) -> bool;
    /// It is full: the ticket is to be [used](Ticket::use_up) when there is room again.
    fn await_room(&self, ticket: Ticket);
}

/// How a connection says that there is room on it again.
#[derive(Debug)]
pub struct Ticket {
    number: u64,
    freed: Freed,
}

/// Numbers of connections that have room again.
type Freed = Rc<RefCell<Vec<u64>>>;

impl Ticket {
    /// There is room again.
    pub fn use_up(self) {
        self.freed.borrow_mut().push(self.number);
    }
}

/// Those of one key.
#[derive(Default)]
struct Index {
    members: BTreeSet<u64>,
    /// They had room when they were last looked at.
    roomy: BTreeSet<u64>,
    /// No request is on them.
    resting: BTreeSet<u64>,
    freed: Freed,
}

/// See the module's documentation.
pub struct Shelf<C> {
    all: BTreeMap<u64, C>,
    /// The number of the next one.
    next: u64,
    indexes: Indexes,
}

/// Of those that nothing tells from others, and of the rest.
#[derive(Default)]
struct Indexes {
    plain: Index,
    keyed: HashMap<Arc<ConnectionKey>, Index>,
}

impl Indexes {
    fn of(&self, key: Option<&ConnectionKey>) -> Option<&Index> {
        match key {
            None => Some(&self.plain),
            Some(key) => self.keyed.get(key),
        }
    }

    fn of_mut(&mut self, key: Option<&ConnectionKey>) -> Option<&mut Index> {
        match key {
            None => Some(&mut self.plain),
            Some(key) => self.keyed.get_mut(key),
        }
    }
}

impl<C> Default for Shelf<C> {
    fn default() -> Shelf<C> {
        Shelf { all: BTreeMap::new(), next: 0, indexes: Indexes::default() }
    }
}

impl<C: Shared> Shelf<C> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds one, which is the youngest; its number.
    pub fn add(&mut self, connection: C) -> u64 {
        let number = self.next;
        self.next += 1;
        let index = match connection.key() {
            None => &mut self.indexes.plain,
            Some(key) => self.indexes.keyed.entry(Arc::clone(key)).or_default(),
        };
        index.members.insert(number);
        index.roomy.insert(number);
        self.all.insert(number, connection);
        number
    }

    /// One of them.
    pub fn get(&self, number: u64) -> Option<&C> {
        self.all.get(&number)
    }

    /// Takes one out.
    pub fn remove(&mut self, number: u64) -> Option<C> {
        let connection = self.all.remove(&number)?;
        let key = connection.key().map(|key| &**key);
        if let Some(index) = self.indexes.of_mut(key) {
            index.members.remove(&number);
            index.roomy.remove(&number);
            index.resting.remove(&number);
            if let (true, Some(key)) = (index.members.is_empty(), key) {
                self.indexes.keyed.remove(key);
            }
        }
        Some(connection)
    }

    /// Takes out all that `keep` does not want, the oldest first.
    pub fn retain(&mut self, mut keep: impl FnMut(&C) -> bool) {
        let gone: Vec<u64> = self.all.iter().filter(|(_, c)| !keep(c)).map(|(number, _)| *number).collect();
        for number in gone {
            self.remove(number);
        }
    }

    /// Takes out all.
    pub fn clear(&mut self) {
        // Numbers are not used again.
        *self = Shelf { next: self.next, ..Shelf::default() };
    }

    /// Of those that are interchangeable with `key`, the oldest with room.
    pub fn roomy(&mut self, key: Option<&ConnectionKey>) -> Option<(u64, &mut C)> {
        let index = self.indexes.of_mut(key)?;
        for number in index.freed.borrow_mut().drain(..) {
            if self.all.contains_key(&number) {
                index.roomy.insert(number);
            }
        }
        let mut spent = Vec::new();
        let found = loop {
            let Some(number) = index.roomy.first().copied() else { break None };
            match self.all.get(&number) {
                Some(connection) if connection.is_spent() => spent.push(number),
                Some(connection) if connection.has_room() => break Some(number),
                Some(connection) => connection.await_room(Ticket { number, freed: Rc::clone(&index.freed) }),
                None => {}
            }
            index.roomy.remove(&number);
        };
        for number in spent {
            self.remove(number);
        }
        let number = found?;
        Some((number, self.all.get_mut(&number)?))
    }

    /// Whether there is one that is interchangeable with `key` and will carry requests.
    pub fn lasts(&self, key: Option<&ConnectionKey>) -> bool {
        let mut members = self.indexes.of(key).map(|index| index.members.iter()).into_iter().flatten();
        members.any(|number| self.all.get(number).is_some_and(|c| !c.is_spent()))
    }

    /// Notes whether no request is on one.
    pub fn rests(&mut self, number: u64, resting: bool) {
        let Some(connection) = self.all.get(&number) else { return };
        match self.indexes.of_mut(connection.key().map(|key| &**key)) {
            Some(index) if resting => _ = index.resting.insert(number),
            Some(index) => _ = index.resting.remove(&number),
            None => {}
        }
    }

    /// Those without requests that are interchangeable with `key`, as far as is known, the oldest first.
    pub fn resting(&self, key: Option<&ConnectionKey>) -> impl Iterator<Item = (u64, &C)> {
        let numbers = self.indexes.of(key).map(|index| index.resting.iter()).into_iter().flatten();
        numbers.filter_map(|number| Some((*number, self.all.get(number)?)))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A connection with room for so many requests.
    struct Fake {
        key: Option<Arc<ConnectionKey>>,
        state: Rc<State>,
    }

    #[derive(Default)]
    struct State {
        room: Cell<u32>,
        spent: Cell<bool>,
        looks: Cell<u32>,
        ticket: Cell<Option<Ticket>>,
    }

    impl State {
        fn make_room(&self) {
            self.room.set(self.room.get() + 1);
            self.ticket.take().into_iter().for_each(Ticket::use_up);
        }
    }

    impl Shared for Fake {
        fn key(&self) -> Option<&Arc<ConnectionKey>> {
            self.key.as_ref()
        }

        fn has_room(&self) -> bool {
            self.state.looks.set(self.state.looks.get() + 1);
            self.state.room.get() > 0
        }

        fn is_spent(&self) -> bool {
            self.state.spent.get()
        }

        fn await_room(&self, ticket: Ticket) {
            self.state.ticket.set(Some(ticket));
        }
    }

    fn key(name: &str) -> ConnectionKey {
        ConnectionKey { name: Some(name.as_bytes().into()), ..ConnectionKey::default() }
    }

    /// Adds a connection with room for one request.
    fn add(shelf: &mut Shelf<Fake>, name: Option<&str>) -> Rc<State> {
        let state = Rc::new(State::default());
        state.room.set(1);
        shelf.add(Fake { key: name.map(|name| Arc::new(key(name))), state: Rc::clone(&state) });
        state
    }

    fn take(shelf: &mut Shelf<Fake>, name: Option<&str>) -> Option<u64> {
        let wanted = name.map(key);
        let (number, taken) = shelf.roomy(wanted.as_ref())?;
        taken.state.room.set(taken.state.room.get() - 1);
        Some(number)
    }

    #[test]
    fn the_oldest_with_room_is_found_whatever_the_others_are() {
        const MANY: u64 = 2000;
        let mut shelf = Shelf::default();
        let states: Vec<_> = (0..MANY).map(|_| add(&mut shelf, None)).collect();
        let named: Vec<_> = (0..MANY).map(|n| add(&mut shelf, Some(&n.to_string()))).collect();
        let looks = || states.iter().chain(&named).map(|state| state.looks.get()).sum::<u32>();
        for wanted in 0..MANY {
            assert_eq!(take(&mut shelf, None), Some(wanted));
            assert_eq!(take(&mut shelf, Some(&wanted.to_string())), Some(MANY + wanted));
        }
        assert!(looks() <= 4 * MANY as u32, "{}", looks());
        assert_eq!(
            (take(&mut shelf, None), take(&mut shelf, Some("7")), take(&mut shelf, Some("no"))),
            (None, None, None)
        );
        let before = looks();
        for n in [1700, 3, 900] {
            states[n].make_room();
            named[n].make_room();
        }
        for n in [3, 900, 1700] {
            assert_eq!(take(&mut shelf, None), Some(n));
            assert_eq!(take(&mut shelf, Some(&n.to_string())), Some(MANY + n));
        }
        assert!(looks() - before <= 20, "{}", looks() - before);
    }

    #[test]
    fn those_that_end_are_forgotten() {
        let mut shelf = Shelf::default();
        let states = [Some("a"), None, Some("a"), None].map(|name| add(&mut shelf, name));
        assert_eq!(take(&mut shelf, Some("a")), Some(0));
        states[2].spent.set(true);
        // One full, one spent: neither is there for a request; the first may be waited for.
        assert_eq!(take(&mut shelf, Some("a")), None);
        assert_eq!(shelf.len(), 3);
        assert!(shelf.lasts(Some(&key("a"))) && !shelf.lasts(Some(&key("b"))));
        shelf.remove(0);
        assert!(shelf.indexes.keyed.is_empty(), "names that nobody has take no memory");
        states[0].make_room();
        assert_eq!(take(&mut shelf, Some("a")), None);
        shelf.rests(1, true);
        shelf.rests(3, true);
        shelf.rests(1, false);
        assert_eq!(shelf.resting(None).map(|(number, _)| number).collect::<Vec<_>>(), [3]);
        shelf.clear();
        assert_eq!((shelf.is_empty(), shelf.resting(None).count(), take(&mut shelf, None)), (true, 0, None));
        add(&mut shelf, None);
        assert_eq!(take(&mut shelf, None), Some(4), "numbers are not used again");
    }
}
