//! Values by number that shrink again: what no snapshot has any more is freed with the last one that had it.
//!
//! ```text
//! snapshot 7 -> Rows --\                    /-- chunk 0 (numbers 0 and 1)
//!                       >-- what is known --<--- chunk 1
//! snapshot 8 -> Rows --/                    \-- chunk 2, left: only as long as snapshot 7 is there
//! ```
//!
//! Values are made together, a chunk of neighbours at a time, when one of them is first used. Each snapshot has its own way to
//! them, without a lock once it was gone: what it lends lives as long as the snapshot. All of them know of each other's chunks, so that
//! one number is one value, whoever asks.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use thalweg_sys::dense::densely;

use crate::growing::Growing;
use crate::sync::{AtomicU64, Mutex, MutexGuard, OnceLock, Ordering, locked};

/// Values that are made together. Few, as all of them stay, with what they have, while one of them is used.
const CHUNK: usize = if cfg!(loom) { 1 } else { 2 };

type Chunk<T> = [T; CHUNK];

/// See the module's documentation.
pub struct Rows<T> {
    near: Growing<Part<T>>,
    room: usize,
    /// Which one of all ways this is: the last one keeps what is made by it.
    way: u64,
    known: Arc<All<T>>,
}

/// Neighbours in [`Rows::near`], which are made together: numbers may be far apart.
const PART: usize = if cfg!(loom) { 1 } else { 32 };

type Part<T> = OnceLock<Box<[Near<T>; PART]>>;

/// A chunk, as one snapshot knows it.
struct Near<T> {
    chunk: OnceLock<Arc<Chunk<T>>>,
    /// It was looked for in vain when that many had been [made](All::made), plus one. 0: it was not looked for.
    missed: AtomicU64,
}

impl<T> Near<T> {
    fn new() -> Near<T> {
        Near { chunk: OnceLock::new(), missed: AtomicU64::new(0) }
    }
}

/// What all snapshots share.
struct All<T> {
    book: Mutex<Book<T>>,
    /// Chunks that were made so far. Written with the lock, and read without it by who looks for what may not be there.
    made: AtomicU64,
}

/// What all snapshots know of.
struct Book<T> {
    ways: u64,
    /// Chunks with numbers that the last snapshot uses, a bit each.
    used: Vec<u64>,
    /// Where something was made: numbers may be far apart.
    pages: Vec<Option<Box<Page<T>>>>,
    /// Memory of some that were left may still be taken.
    has_left: bool,
}

type Page<T> = [Known<T>; PART];

/// A chunk, as all snapshots know it.
enum Known<T> {
    /// It is not made.
    New,
    /// It is in use, or was when it was last looked at.
    Kept(Arc<Chunk<T>>),
    /// No snapshot that comes has it: it goes with the last who still has it, if there is one.
    Left(Weak<Chunk<T>>),
}

impl<T> Book<T> {
    fn new() -> Book<T> {
        Book { ways: 0, used: Vec::new(), pages: Vec::new(), has_left: false }
    }

    fn use_chunk(&mut self, at: usize) {
        let bits = at / 64;
        self.used.resize(self.used.len().max(bits + 1), 0);
        self.used[bits] |= 1 << (at % 64);
    }

    fn chunk(&self, at: usize) -> Option<Arc<Chunk<T>>> {
        self.pages.get(at / PART)?.as_ref()?[at % PART].chunk()
    }

    /// A place, to have something made there.
    fn place(&mut self, at: usize) -> &mut Known<T> {
        let page = at / PART;
        self.pages.resize_with(self.pages.len().max(page + 1), || None);
        let page = &mut self.pages[page];
        &mut page.get_or_insert_with(|| densely(|| Box::new([const { Known::New }; PART])))[at % PART]
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &Known<T>)> {
        let pages = self.pages.iter().enumerate().filter_map(|(number, page)| Some((number, page.as_ref()?)));
        pages.flat_map(|(number, page)| (number * PART..).zip(page.iter()))
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Known<T>)> {
        let pages =
            self.pages.iter_mut().enumerate().filter_map(|(number, page)| Some((number, page.as_mut()?)));
        pages.flat_map(|(number, page)| (number * PART..).zip(page.iter_mut()))
    }

    /// Frees the memory of pages where nothing is known any more.
    fn shrink(&mut self) {
        for page in &mut self.pages {
            page.take_if(|page| page.iter().all(|known| matches!(known, Known::New)));
        }
        while self.pages.pop_if(|last| last.is_none()).is_some() {}
        self.pages.shrink_to_fit();
    }
}

impl<T> Known<T> {
    fn chunk(&self) -> Option<Arc<Chunk<T>>> {
        match self {
            Known::New => None,
            Known::Kept(chunk) => Some(Arc::clone(chunk)),
            Known::Left(chunk) => chunk.upgrade(),
        }
    }

    /// The next snapshot has it.
    fn stay(&mut self) -> Option<Arc<Chunk<T>>> {
        let chunk = self.chunk();
        *self = chunk.clone().map_or(Known::New, Known::Kept);
        chunk
    }

    /// No snapshot is to keep it any more.
    fn leave(&mut self) {
        match self {
            Known::Kept(chunk) if cfg!(not(planted)) => *self = Known::Left(Arc::downgrade(chunk)),
            Known::Kept(_) => *self = Known::New,
            Known::New | Known::Left(_) => {}
        }
    }
}

/// One value, for who keeps it longer than a snapshot: it stays, with its neighbours.
pub struct Held<T> {
    chunk: Arc<Chunk<T>>,
    at: usize,
}

impl<T> Deref for Held<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.chunk[self.at]
    }
}

/// Whether a chunk's bit is set.
fn is_in(used: &[u64], at: usize) -> bool {
    used.get(at / 64).is_some_and(|bits| bits >> (at % 64) & 1 == 1)
}

/// Of so many values, none of which is known yet.
fn parts<T>(len: usize) -> Growing<Part<T>> {
    (0..len.div_ceil(CHUNK).div_ceil(PART)).map(|_| OnceLock::new()).collect()
}

/// A chunk's place, made if it was not.
fn near_in<T>(near: &Growing<Part<T>>, at: usize) -> &Near<T> {
    &near[at / PART].get_or_init(|| densely(|| Box::new(std::array::from_fn(|_| Near::new()))))[at % PART]
}

impl<T> Rows<T> {
    /// A row of `len` values at first, none of which is made yet.
    pub fn new(len: usize) -> Rows<T> {
        let known = Arc::new(All { book: Mutex::new(Book::new()), made: AtomicU64::new(0) });
        Rows { near: parts(len), room: len, way: 0, known }
    }

    /// The way of the next snapshot, which uses these numbers and no others. What lies at others goes with the snapshots before it.
    pub fn next(&self, used: impl Iterator<Item = usize>) -> Rows<T> {
        let mut book = self.known();
        let book = &mut *book;
        book.used.clear();
        let mut room = 0;
        for number in used {
            room = room.max(number + 1);
            book.use_chunk(number / CHUNK);
        }
        book.used.shrink_to_fit();
        let near = parts(room);
        let used = std::mem::take(&mut book.used);
        for (at, known) in book.iter_mut() {
            if !is_in(&used, at) {
                known.leave();
            } else if let Some(chunk) = known.stay() {
                near_in(&near, at).chunk.get_or_init(|| chunk);
            }
        }
        book.used = used;
        book.shrink();
        book.ways += 1;
        book.has_left = true;
        Rows { near, room, way: book.ways, known: Arc::clone(&self.known) }
    }

    /// No snapshot that comes has any of it, but another thing may have the numbers. Each of those that are there keeps what it has
    /// looked for so far.
    pub fn part(&self) {
        let mut book = self.known();
        book.used.clear();
        let pages = std::mem::take(&mut book.pages);
        drop(book);
        // Goes behind the lock.
        drop(pages);
    }

    /// Behind the highest number that this was made for.
    pub fn room(&self) -> usize {
        self.room
    }

    fn known(&self) -> MutexGuard<'_, Book<T>> {
        locked(&self.known.book)
    }

    #[inline]
    fn near_at(&self, at: usize) -> Option<&Near<T>> {
        Some(&self.near.get(at / PART)?.get()?[at % PART])
    }

    #[inline]
    fn near(&self, number: usize) -> Option<&Arc<Chunk<T>>> {
        self.near_at(number / CHUNK)?.chunk.get()
    }

    /// A value, if it was made by whomever.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&T> {
        let chunk = match self.near(number) {
            Some(chunk) => chunk,
            None => self.look_for(number / CHUNK, self.near_at(number / CHUNK))?,
        };
        Some(&chunk[number % CHUNK])
    }

    /// The same, for who looks again and again for what may not be there: as long as nothing is made it takes no lock. Numbers are
    /// not far beyond those in use, as there is a note of each.
    #[inline]
    pub fn find(&self, number: usize) -> Option<&T> {
        let chunk = match self.near(number) {
            Some(chunk) => chunk,
            None => self.look_again(number / CHUNK)?,
        };
        Some(&chunk[number % CHUNK])
    }

    #[cold]
    fn look_again(&self, at: usize) -> Option<&Arc<Chunk<T>>> {
        self.look_for(at, Some(near_in(&self.near, at)))
    }

    #[cold]
    fn look_for(&self, at: usize, near: Option<&Near<T>>) -> Option<&Arc<Chunk<T>>> {
        if near.is_some_and(|near| near.missed.load(Ordering::Acquire) == self.made() + 1) {
            return None;
        }
        let book = self.known();
        match book.chunk(at) {
            // With the lock: one at a time goes here.
            Some(chunk) => Some(near_in(&self.near, at).chunk.get_or_init(|| chunk)),
            None => {
                near?.missed.store(self.made() + 1, Ordering::Release);
                None
            }
        }
    }

    fn made(&self) -> u64 {
        self.known.made.load(Ordering::Acquire)
    }

    /// Looks at a value, if it was made, without keeping it for this snapshot.
    pub fn peek<R>(&self, number: usize, look: impl FnOnce(&T) -> R) -> Option<R> {
        let chunk = self.known().chunk(number / CHUNK);
        chunk.map(|chunk| look(&chunk[number % CHUNK]))
    }

    /// Frees the memory of values that went with the last snapshot that had them. Until then it is only known that they are gone.
    pub fn free_left(&self) {
        // Goes behind the lock: it takes longer than to find them.
        let mut free = Vec::new();
        let mut book = self.known();
        let book = &mut *book;
        if std::mem::take(&mut book.has_left) {
            let mut has_left = false;
            for (_, known) in book.iter_mut() {
                match known {
                    Known::Left(chunk) if chunk.strong_count() == 0 => {
                        free.push(std::mem::replace(known, Known::New));
                    }
                    Known::Left(_) => has_left = true,
                    Known::New | Known::Kept(_) => {}
                }
            }
            book.has_left = has_left;
            book.shrink();
        }
    }

    /// Chunks whose memory is taken, be they in use or not.
    #[cfg(test)]
    fn taken(&self) -> usize {
        self.known().iter().filter(|(_, known)| !matches!(known, Known::New)).count()
    }

    /// Looks at all values that snapshots keep, with some of their neighbours.
    pub fn each(&self, mut look: impl FnMut(&T)) {
        self.each_with_number(|_, value| look(value));
    }

    /// The same, with their numbers.
    pub fn each_with_number(&self, mut look: impl FnMut(usize, &T)) {
        let book = self.known();
        let chunks: Vec<_> = book.iter().filter_map(|(at, known)| Some((at, known.chunk()?))).collect();
        drop(book);
        let values = chunks.iter().flat_map(|(at, chunk)| (at * CHUNK..).zip(chunk.iter()));
        values.for_each(|(number, value)| look(number, value));
    }

    /// All values that snapshots that come have, with their numbers and some of their neighbours. This snapshot keeps them, too.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let book = self.known();
        for (at, known) in book.iter() {
            if let Known::Kept(chunk) = known {
                near_in(&self.near, at).chunk.get_or_init(|| Arc::clone(chunk));
            }
        }
        drop(book);
        let parts = self.near.iter().filter_map(|(part, near)| Some((part, near.get()?)));
        let near = parts.flat_map(|(part, near)| (part * PART..).zip(near.iter()));
        let chunks = near.filter_map(|(at, near)| Some((at, near.chunk.get()?)));
        chunks.flat_map(|(at, chunk)| (at * CHUNK..).zip(chunk.iter()))
    }
}

impl<T: Default> Rows<T> {
    /// A value, made if it was not.
    #[inline]
    pub fn at(&self, number: usize) -> &T {
        &self.chunk_of(number)[number % CHUNK]
    }

    /// The same, for who keeps it longer than a snapshot.
    pub fn hold(&self, number: usize) -> Held<T> {
        Held { chunk: Arc::clone(self.chunk_of(number)), at: number % CHUNK }
    }

    #[inline]
    fn chunk_of(&self, number: usize) -> &Arc<Chunk<T>> {
        match self.near(number) {
            Some(chunk) => chunk,
            None => self.find_chunk(number / CHUNK),
        }
    }

    /// Looks at a value, made if it was not, without keeping it for this snapshot: the [next](Rows::next) one is to have it.
    pub fn make(&self, number: usize, look: impl FnOnce(&T)) {
        let chunk = match self.near(number) {
            Some(chunk) => Arc::clone(chunk),
            None => self.made_chunk(&mut self.known(), number / CHUNK),
        };
        look(&chunk[number % CHUNK]);
    }

    #[cold]
    fn find_chunk(&self, at: usize) -> &Arc<Chunk<T>> {
        let mut book = self.known();
        let chunk = self.made_chunk(&mut book, at);
        // With the lock: one at a time goes here.
        near_in(&self.near, at).chunk.get_or_init(|| chunk)
    }

    fn made_chunk(&self, book: &mut Book<T>, at: usize) -> Arc<Chunk<T>> {
        // What the last snapshot does not use goes with those that still do.
        let stays = self.way == book.ways || is_in(&book.used, at);
        let known = book.place(at);
        let chunk = known.chunk().unwrap_or_else(|| {
            let chunk = densely(|| Arc::new(std::array::from_fn(|_| T::default())));
            self.known.made.fetch_add(1, Ordering::AcqRel);
            chunk
        });
        if stays {
            *known = Known::Kept(Arc::clone(&chunk));
        } else {
            *known = Known::Left(Arc::downgrade(&chunk));
            book.has_left = true;
        }
        chunk
    }
}

impl<T> fmt::Debug for Rows<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("pages", &self.known().pages.len()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local!(static THERE: Cell<usize> = const { Cell::new(0) });

    struct Value(Cell<usize>);

    impl Default for Value {
        fn default() -> Value {
            THERE.set(THERE.get() + 1);
            Value(Cell::new(0))
        }
    }

    impl Drop for Value {
        fn drop(&mut self) {
            THERE.set(THERE.get() - 1);
        }
    }

    #[test]
    fn memory_goes_when_those_are_looked_for_that_are_gone() {
        let first: Rows<Value> = Rows::new(10 * CHUNK);
        (0..10 * CHUNK).for_each(|number| _ = first.at(number));
        let second = first.next([3].into_iter());
        second.free_left();
        assert_eq!(second.taken(), 10, "the first one has them");
        drop(first);
        assert_eq!((THERE.get(), second.taken()), (CHUNK, 10));
        second.free_left();
        second.free_left();
        assert_eq!((THERE.get(), second.taken()), (CHUNK, 1));
        second.at(5 * CHUNK).0.set(7);
        assert_eq!((second.taken(), second.at(5 * CHUNK).0.get()), (2, 7), "its numbers can be used again");
    }

    #[test]
    fn what_is_looked_for_in_vain_is_found_once_it_is_made() {
        let first: Rows<Value> = Rows::new(3);
        assert!(first.find(40).is_none() && first.find(40).is_none() && first.get(1 << 40).is_none());
        let second = first.next([40].into_iter());
        assert!(second.find(40).is_none());
        second.at(40).0.set(7);
        assert_eq!(first.find(40).map(|value| value.0.get()), Some(7), "whoever made it");
        let third = second.next([1].into_iter());
        assert!(third.find(1).is_none());
        drop((first, second));
        let mut numbers = Vec::new();
        third.each_with_number(|number, _| numbers.push(number));
        assert_eq!((third.find(40).is_none(), numbers.len()), (true, 0));
        third.at(1);
        third.each_with_number(|number, _| numbers.push(number));
        assert_eq!(numbers, (0..CHUNK).collect::<Vec<_>>());
    }

    /// Looking for what is not there takes the lock once, and again when something was made.
    #[cfg(debug_assertions)]
    #[test]
    fn what_is_not_there_is_looked_for_without_a_lock() {
        let rows: Rows<Value> = Rows::new(3);
        let locks = |number: usize| {
            let before = thalweg_shared::writes();
            assert!(rows.find(number).is_none());
            thalweg_shared::writes() - before
        };
        assert!(locks(100) > 0);
        assert_eq!((0..10).map(|_| locks(100)).sum::<u64>(), 0);
        rows.at(0);
        assert!(locks(100) > 0);
        assert_eq!(locks(100), 0);
    }

    #[test]
    fn values_are_made_when_they_are_used() {
        let rows: Rows<Value> = Rows::new(100_001);
        assert_eq!(
            (THERE.get(), rows.get(100_000).is_none(), rows.peek(3, |_| ()).is_none()),
            (0, true, true)
        );
        rows.at(100_000).0.set(7);
        assert_eq!((THERE.get(), rows.at(100_000).0.get()), (CHUNK, 7));
        // It grows.
        rows.at(200_000).0.set(9);
        assert_eq!(rows.get(200_000).map(|value| value.0.get()), Some(9));
        let mut sum = 0;
        rows.each(|value| sum += value.0.get());
        assert_eq!(sum, 16);
    }

    #[test]
    fn what_no_snapshot_has_is_freed_with_the_last_that_had_it() {
        let before: Rows<Value> = Rows::new(1000);
        (0..1000).for_each(|number| before.at(number).0.set(number));
        let now = before.next(std::iter::once(500));
        assert_eq!(
            THERE.get(),
            1000usize.next_multiple_of(CHUNK),
            "who is served by the one before has them all"
        );
        assert_eq!((now.at(500).0.get(), before.at(999).0.get()), (500, 999));
        // Whoever looks for one that is left finds the same value as long as it is there.
        assert_eq!(now.peek(10, |value| value.0.get()), Some(10));
        drop(before);
        assert_eq!((THERE.get(), now.at(500).0.get()), (CHUNK, 500));
        assert!(now.peek(10, |_| ()).is_none());
        assert_eq!(now.at(10).0.get(), 0, "a number that is used again begins anew");
        drop(now.next(std::iter::empty()));
        drop(now);
        assert_eq!(THERE.get(), 0);
    }

    /// Numbers may be far apart: what is between them takes nothing, nor does what was there.
    #[test]
    fn pages_are_where_something_is() {
        let pages = |rows: &Rows<Value>| {
            let book = rows.known();
            (book.pages.iter().flatten().count(), book.pages.len())
        };
        let first: Rows<Value> = Rows::new(100_000);
        for number in (0..100_000).step_by(10 * PART * CHUNK) {
            first.at(number);
        }
        assert_eq!(pages(&first).0, 100_000usize.div_ceil(10 * PART * CHUNK));
        let second = first.next([0, 50_000].into_iter());
        second.at(50_000);
        drop(first);
        second.free_left();
        assert_eq!(pages(&second), (2, 50_000 / PART / CHUNK + 1));
        let third = second.next(std::iter::once(0));
        drop(second);
        third.free_left();
        assert_eq!((pages(&third), THERE.get()), ((1, 1), CHUNK));
    }

    #[test]
    fn what_is_made_for_the_next_does_not_stay_with_the_one_before() {
        let before: Rows<Value> = Rows::new(1);
        before.at(0).0.set(1);
        before.make(100, |value| value.0.set(7));
        before.make(100, |value| assert_eq!(value.0.get(), 7));
        before.make(0, |value| assert_eq!(value.0.get(), 1));
        let now = before.next([0, 100].into_iter());
        assert_eq!((now.at(100).0.get(), THERE.get()), (7, 2 * CHUNK));
        let last = now.next(std::iter::once(0));
        drop(now);
        assert_eq!((last.at(0).0.get(), THERE.get()), (1, CHUNK), "the first one is still there");
        drop(before);
    }

    #[test]
    fn what_parted_goes_with_who_looked_for_it() {
        let before: Rows<Value> = Rows::new(1);
        before.at(0).0.set(1);
        let now = before.next([0, 100].into_iter());
        now.at(100).0.set(7);
        now.part();
        assert_eq!((now.at(100).0.get(), now.at(0).0.get(), before.at(0).0.get()), (7, 1, 1));
        drop(now);
        assert_eq!((before.at(0).0.get(), THERE.get()), (1, CHUNK));
        drop(before);
        assert_eq!(THERE.get(), 0);
    }

    #[test]
    fn one_number_is_one_value_whoever_asks() {
        let before: Rows<Value> = Rows::new(0);
        let now = before.next([3, 40].into_iter());
        // A stream of the snapshot before is the first to use it.
        before.at(40).0.set(4);
        drop(before);
        assert_eq!(now.at(40).0.get(), 4);
        // What was left and is used again before it went.
        let held = now.hold(3);
        held.0.set(8);
        let later = now.next([40].into_iter());
        drop(now);
        assert_eq!(later.at(3).0.get(), 8);
        drop(held);
        assert_eq!(later.at(3).0.get(), 8, "it is kept again");
        let last = later.next([40].into_iter());
        later.at(500).0.set(5);
        assert!(last.iter().all(|(at, _)| at < 500), "it goes with those that use it");
        drop(last.next([40].into_iter()));
        // Who still has what was left does not make it stay.
        assert_eq!((later.at(500).0.get(), later.at(3).0.get()), (5, 8));
        let numbers: Vec<usize> =
            last.iter().filter(|(_, value)| value.0.get() != 0).map(|(at, _)| at).collect();
        assert_eq!(numbers, [40]);
        drop(later);
        assert_eq!(THERE.get(), CHUNK);
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Count {
        fn add(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A stream of a snapshot counts at a number, while a change leaves that number out and the next one has it again: all that was
    /// counted is at one value. Seen to fail with `--cfg planted`, by which what is left is not found again.
    #[test]
    fn loom_a_number_is_one_value_for_all_snapshots() {
        loom::model(|| {
            let first: std::sync::Arc<Rows<Count>> = std::sync::Arc::new(Rows::new(1));
            let stream = {
                let first = std::sync::Arc::clone(&first);
                loom::thread::spawn(move || {
                    first.at(0).add();
                    first
                })
            };
            let second = first.next(std::iter::empty());
            let third = second.next(std::iter::once(0));
            third.at(0).add();
            let first = stream.join().expect("the stream ends");
            assert_eq!(third.at(0).0.load(Ordering::Relaxed), 2);
            assert!(std::ptr::eq(first.at(0), third.at(0)));
        });
    }
}
