//! Tables against a model, and what threads may do to each other.

#[cfg(not(loom))]
use std::sync::Arc;

use crate::data::{DataType, Stored};
use crate::key::KeyType;
use crate::table::{Spec, Table};

fn spec(size: u32, expire_ms: u32, purge: bool) -> Spec {
    Spec {
        expire_ms,
        purge,
        data: vec![
            Stored::one(DataType::Gpc0),
            Stored::one(DataType::ConnCur),
            Stored { kind: DataType::HttpReqRate, count: 1, period_ms: 1000 },
        ],
        ..Spec::new("t", KeyType::Integer, size)
    }
}

fn key(table: &Table, n: u32, buf: &mut [u8; 4]) -> Option<u64> {
    *buf = n.to_be_bytes();
    let key = table.spec().key.key(buf)?;
    table.read(key, 0, |values| values.get(DataType::Gpc0, 0).unwrap_or(0))
}

#[cfg(not(loom))]
mod model {
    use super::*;
    use crate::data::{Event, Shape};
    use crate::entry::Tracked;
    use crate::local::Local;
    use crate::table::Refused;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    #[derive(Clone, Debug)]
    enum Step {
        Count(u32),
        Look(u32),
        Track(u32),
        Release(usize),
        Remove(u32),
        Wait(u64),
        Expire,
        ExpireExactly,
    }

    fn step(keys: u32) -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..keys).prop_map(Step::Count),
            4 => (0..keys).prop_map(Step::Look),
            2 => (0..keys).prop_map(Step::Track),
            2 => (0usize..8).prop_map(Step::Release),
            1 => (0..keys).prop_map(Step::Remove),
            3 => (0u64..400).prop_map(Step::Wait),
            1 => (0u64..40_000).prop_map(Step::Wait),
            1 => Just(Step::Expire),
            1 => Just(Step::ExpireExactly),
        ]
    }

    /// What a table should be: entries with deadlines, and who holds them.
    #[derive(Default)]
    struct Model {
        entries: HashMap<u32, (u64, u64, u32)>,
        /// Keys that were let go past their deadline: not found any more, but their memory may be used for a while.
        late: HashSet<u32>,
    }

    fn track(local: &Local, n: u32, now: u64) -> Tracked {
        let buf = n.to_be_bytes();
        local.track(local.spec().key.key(&buf).unwrap(), Event::Tracked, now).unwrap()
    }

    /// The first event begins a period, not the entry: what the reference says of an entry that was tracked, or of which something else was
    /// set, 1.5 s before 100 events, for periods of 3 s.
    #[test]
    fn the_first_event_begins_the_period() {
        let rate = Stored { kind: DataType::HttpReqRate, count: 1, period_ms: 3000 };
        let table = Arc::new(Table::new(Spec { data: vec![rate], ..spec(8, 60_000, true) }, 42));
        let local = Local::new(table);
        for began in [1000, 10_000_000, u64::from(u32::MAX) - 1000] {
            let tracked = track(&local, began as u32, began);
            let read = |after: u64| tracked.values().get(DataType::HttpReqRate, began + 1500 + after);
            assert_eq!(read(0), Some(0));
            tracked.values().add(DataType::HttpReqRate, 100, began + 1500);
            let times = [0, 1500, 2500, 3000, 3040, 4500, 5999, 6000];
            assert_eq!(times.map(read), [100, 100, 100, 100, 98, 50, 0, 0].map(Some), "{began}");
        }
    }

    /// What a thread remembers of an entry is no way to one that is over, or that is another key's by now.
    #[test]
    fn what_is_remembered_is_looked_at_again() {
        let table = Arc::new(Table::new(spec(1, 1000, true), 42));
        let local = Local::new(Arc::clone(&table));
        let requests = |tracked: &Tracked, now: u64| {
            tracked.values().add(DataType::Gpc0, 1, now);
            tracked.values().get(DataType::Gpc0, now)
        };
        assert_eq!(requests(&track(&local, 1, 5000), 5000), Some(1));
        assert_eq!(requests(&track(&local, 1, 5999), 5999), Some(2));
        assert_eq!(requests(&track(&local, 1, 6999), 6999), Some(1), "it was over");
        assert_eq!(requests(&track(&local, 2, 7000), 7000), Some(1), "the only entry is another key's now");
        assert_eq!(requests(&track(&local, 1, 7000), 7000), Some(1));
        assert_eq!(table.used(), 1);
        // The same for who only looks at it for a moment.
        let counted = |n: u32, now: u64| {
            let buf = n.to_be_bytes();
            let entry = local.entry(local.spec().key.key(&buf).unwrap(), now).unwrap();
            entry.touch(now);
            entry.values().add_at(DataType::Gpc0, 0, 1, now)
        };
        assert_eq!([counted(1, 7999), counted(1, 7999), counted(1, 8998)], [2, 3, 4].map(Some));
        assert_eq!([counted(1, 9998), counted(2, 9999), counted(1, 9999)], [1, 1, 1].map(Some));
        assert_eq!(table.entry_at(0).map(|entry| entry.values().trackers()), Some(0));
        table.check_invariants();
    }

    /// An entry that is let go with the last events has them, is used until then and by one connection less, and peers are told once.
    #[test]
    fn the_last_events_count() {
        let shared = Spec { peers: Some("p".into()), ..spec(8, 1000, true) };
        let table = Arc::new(Table::new(shared, 42));
        let local = Local::new(Arc::clone(&table));
        let changed = || {
            let mut numbers = Vec::new();
            table.take_changed(|number| numbers.push(number));
            numbers.len()
        };
        let [first, second] = [track(&local, 1, 5000), track(&local, 1, 5000)];
        changed();
        first.end([(Event::Request, 3), (Event::BytesIn, 7)], 5900);
        assert_eq!(changed(), 1);
        let values = second.values();
        let stored = [DataType::HttpReqRate, DataType::ConnCur].map(|kind| values.get(kind, 5900));
        assert_eq!((stored, values.trackers()), ([Some(3), Some(1)], 1));
        assert_eq!(values.expires_in(5900), 1000);
        // Nothing that the table stores happened: its deadline stays.
        second.end([(Event::Request, 0), (Event::BytesIn, 7)], 6000);
        assert_eq!(changed(), 1);
        let entry = table.entry_at(0).expect("it is there");
        assert_eq!((entry.values().trackers(), entry.values().expires_in(6000)), (0, 900));
        assert_eq!(entry.values().get(DataType::ConnCur, 6000), Some(0));
    }

    fn play(size: u32, expire_ms: u32, purge: bool, steps: Vec<Step>) {
        let table = Arc::new(Table::new(spec(size, expire_ms, purge), 42));
        let local = Local::new(Arc::clone(&table));
        let mut tracked: Vec<(u32, Tracked)> = Vec::new();
        let mut model = Model::default();
        let mut now = 10_000u64;
        // What is past its deadline and not tracked is not there.
        let over = |(touched, _, trackers): &(u64, u64, u32), now: u64| {
            expire_ms != 0 && *trackers == 0 && now >= touched + u64::from(expire_ms)
        };
        for step in steps {
            model.entries.retain(|_, entry| !over(entry, now));
            let insert = |n: u32, model: &mut Model| {
                let buf = n.to_be_bytes();
                let key = table.spec().key.key(&buf).unwrap();
                let found = table.find_or_insert(key, now);
                let known = model.entries.contains_key(&n);
                match found {
                    Ok(entry) => {
                        if !known {
                            model.late.remove(&n);
                            if model.entries.len() as u32 == size {
                                assert!(purge, "nopurge means no purge");
                                let late = !model.late.is_empty();
                                // The oldest that nobody holds went; small tables know it exactly.
                                let oldest =
                                    model.entries.values().filter(|e| e.2 == 0).map(|e| e.0).min().unwrap();
                                let gone: Vec<u32> = model
                                    .entries
                                    .iter()
                                    .filter(|(n, e)| {
                                        // Without deadlines moments of 64 ms are one.
                                        let unit = if expire_ms == 0 { 64 } else { 1 };
                                        e.2 == 0 && e.0 / unit == oldest / unit && {
                                            let buf = n.to_be_bytes();
                                            table.find(table.spec().key.key(&buf).unwrap(), now).is_none()
                                        }
                                    })
                                    .map(|(n, _)| *n)
                                    .collect();
                                assert!(
                                    gone.len() == 1 || late && gone.is_empty(),
                                    "one of the oldest went: {gone:?}"
                                );
                                gone.first().map(|n| model.entries.remove(n));
                            }
                            model.entries.insert(n, (now, 0, 0));
                        }
                        entry.touch(now);
                        if let Some(e) = model.entries.get_mut(&n) {
                            e.0 = now;
                        }
                        Some(entry)
                    }
                    Err(Refused::Full) => {
                        assert!(!known, "a known key is found");
                        let free = model.entries.values().any(|e| e.2 == 0);
                        let used = model.entries.len() + model.late.len();
                        assert!(used >= size as usize && !(purge && free), "refused for no reason");
                        None
                    }
                }
            };
            match step {
                Step::Count(n) => {
                    if let Some(entry) = insert(n, &mut model) {
                        let value = entry.values().add_at(DataType::Gpc0, 0, 1, now).unwrap();
                        let known = model.entries.get_mut(&n).unwrap();
                        known.1 += 1;
                        assert_eq!(value, known.1);
                    }
                }
                Step::Look(n) => {
                    let buf = n.to_be_bytes();
                    let key = table.spec().key.key(&buf).unwrap();
                    let read = table.read(key, now, |v| v.get(DataType::Gpc0, now).unwrap());
                    assert_eq!(read, model.entries.get(&n).map(|e| e.1));
                    let found = table
                        .find(key, now)
                        .map(|e| (e.values().trackers(), e.values().get(DataType::ConnCur, now)));
                    assert_eq!(found, model.entries.get(&n).map(|e| (e.2, Some(u64::from(e.2)))));
                }
                Step::Track(n) => {
                    if tracked.len() < 8 && insert(n, &mut model).is_some() {
                        tracked.push((n, track(&local, n, now)));
                        model.entries.get_mut(&n).unwrap().2 += 1;
                    }
                }
                Step::Release(i) => {
                    if i < tracked.len() {
                        let (n, entry) = tracked.remove(i);
                        drop(entry);
                        let known = model.entries.get_mut(&n).unwrap();
                        known.2 -= 1;
                        if over(known, now) {
                            model.late.insert(n);
                        }
                    }
                }
                Step::Remove(n) => {
                    let buf = n.to_be_bytes();
                    if let Some(entry) = table.find(table.spec().key.key(&buf).unwrap(), now) {
                        let free = model.entries[&n].2 == 0;
                        assert_eq!(table.remove(entry), free);
                        if free {
                            model.entries.remove(&n);
                        }
                    }
                }
                Step::Wait(ms) => now += ms,
                Step::Expire => while table.expire(now, 7) {},
                Step::ExpireExactly => {
                    table.expire(now, usize::MAX);
                    (0..table.shards()).for_each(|shard| _ = table.expire_exactly(shard, now));
                    model.entries.retain(|_, entry| !over(entry, now));
                    let (used, known) = (table.used() as usize, model.entries.len());
                    assert!((known..=known + model.late.len()).contains(&used), "{used} of {known}");
                }
            }
            table.check_invariants();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn a_table_is_its_model(
            size in 1u32..12,
            expire in prop_oneof![Just(0u32), 1u32..50, 500u32..30_000],
            purge: bool,
            steps in prop::collection::vec(step(16), 1..200),
        ) {
            play(size, expire, purge, steps);
        }
    }

    /// Entries in a slot that is due, whose deadlines lie in the same slot a turn later: the slot is done once, not for
    /// ever. (It was done again and again when there were more than one call looks at.)
    #[test]
    fn work_that_lags_behind_ends() {
        let mut steps = Vec::new();
        for wait in [29, 29, 6, 0] {
            steps.extend((0..12).map(Step::Count));
            steps.push(Step::Wait(wait));
        }
        steps.push(Step::Expire);
        play(12, 30, true, steps);
    }

    /// Every entry of a large table is found, goes when it is due, and its memory is used again.
    #[test]
    fn many_entries_come_and_go() {
        let table = Table::new(spec(100_000, 60_000, true), 1);
        let insert = |n: u32, now: u64| {
            let buf = n.to_be_bytes();
            table.find_or_insert(table.spec().key.key(&buf).unwrap(), now).map(|e| e.touch(now)).is_ok()
        };
        for n in 0..150_000 {
            assert!(insert(n, 1000 + u64::from(n) / 100));
        }
        assert_eq!(table.used(), 100_000);
        table.check_invariants();
        // Shards fill unevenly, so that the very oldest may stay; of the newest half, all are there.
        let there = (100_000..150_000u32).filter(|n| super::key(&table, *n, &mut [0; 4]).is_some()).count();
        assert_eq!(there, 50_000);
        let mut calls = 0;
        while table.expire(200_000, 1000) {
            calls += 1;
        }
        assert_eq!((table.used(), calls), (0, 100));
        table.check_invariants();
        assert!(insert(7, 200_001));
        assert_eq!(table.numbers(), 100_000);
    }

    /// A flood of keys takes the place of its own older ones: who comes again before a table is filled anew stays, be it half of
    /// the table.
    #[test]
    fn who_comes_again_outlives_a_flood() {
        const SIZE: u32 = 4096;
        for (expire_ms, regulars, turns) in
            [(600_000, SIZE / 2, 8), (0, SIZE / 2, 8), (600_000, SIZE / 8, 4), (0, SIZE / 8, 4)]
        {
            let table = Table::new(spec(SIZE, expire_ms, true), 1);
            let mut now = 1_000_000;
            let mut missed = Vec::new();
            let come = |n: u32, now: u64| {
                let was_there = super::key(&table, n, &mut [0; 4]).is_some();
                let buf = n.to_be_bytes();
                table.find_or_insert(table.spec().key.key(&buf).unwrap(), now).unwrap().touch(now);
                was_there
            };
            (0..regulars).for_each(|n| _ = come(n, now));
            // A stranger each millisecond, and each regular when three quarters of the other entries are strangers since.
            let others = SIZE - regulars;
            for n in 0..others * turns {
                now += 1;
                come(1_000_000 + n, now);
                let (round, of) = (others * 3 / 4, |n: u32| n * regulars / (others * 3 / 4));
                for regular in of(n % round)..of(n % round + 1) {
                    if !come(regular, now) {
                        missed.push(regular);
                    }
                }
            }
            table.check_invariants();
            assert_eq!((table.used(), missed.len()), (SIZE, 0), "{expire_ms} {regulars}");
        }
    }

    /// Whatever happens is counted in all values that it changes: within a period, in the next ones, a moment before it began (another
    /// thread's clock), and up to the end of what a counter holds.
    #[test]
    fn events_change_all_their_values() {
        use crate::sliding::Sliding;
        const PERIOD_MS: u32 = 1000;
        let data = DataType::all().filter(|kind| !kind.is_array());
        let data = data.map(|kind| Stored { period_ms: PERIOD_MS, ..Stored::one(kind) }).collect();
        let table = Table::new(Spec { data, ..spec(100, 0, true) }, 1);
        for event in Event::ALL {
            let buf = (event as u32).to_be_bytes();
            let entry = table.find_or_insert(table.spec().key.key(&buf).unwrap(), 10_000).unwrap();
            let values = entry.values();
            let (mut sum, mut rate) = (0, Sliding { began_ms: 10_000, ..Sliding::default() });
            for (n, now_ms) in [
                (3, 10_000u32),
                (2, 10_500),
                (1, 11_200),
                (4, 11_199),
                (70_000, 11_900),
                (1, 13_800),
                (u64::from(u32::MAX) - 9, 14_000),
                (1 << 20, 14_100),
            ] {
                assert!(values.count(event, n, now_ms.into()));
                (sum, rate) = (sum + n, rate.add(n as u32, now_ms, PERIOD_MS));
                for kind in event.kinds() {
                    let expected = match kind.shape() {
                        Shape::Rate => u64::from(rate.value(now_ms, PERIOD_MS)),
                        Shape::Counter => sum & u64::from(u32::MAX),
                        Shape::Long | Shape::Name => sum,
                    };
                    if let Some(value) = values.get(*kind, now_ms.into()) {
                        assert_eq!(value, expected, "{event:?} {kind:?} at {now_ms}");
                    }
                }
            }
        }
    }

    #[test]
    fn names_have_numbers() {
        let table = Table::new(spec(1, 0, true), 1);
        assert_eq!(
            (table.name_number("a"), table.name_number("b"), table.name_number("a")),
            (Some(1), Some(2), Some(1))
        );
        assert_eq!(table.name(2).as_deref(), Some("b"));
        assert_eq!((table.name(0), table.name(3)), (None, None));
    }

    /// Threads on few keys: nothing is lost, nothing is found that is not there.
    #[test]
    fn threads_share_a_table() {
        let table = Arc::new(Table::new(spec(64, 0, true), 3));
        let threads: Vec<_> = (0..4u32)
            .map(|t| {
                let table = Arc::clone(&table);
                std::thread::spawn(move || {
                    let local = Local::new(Arc::clone(&table));
                    for i in 0..40_000u32 {
                        let n = i.wrapping_mul(2_654_435_761).wrapping_add(t) % 100;
                        let buf = n.to_be_bytes();
                        let key = table.spec().key.key(&buf).unwrap();
                        if let Ok(tracked) = local.track(key, Event::Tracked, u64::from(i)) {
                            let mut held = [0; 64];
                            assert_eq!(tracked.values().key_bytes(&mut held, &mut Vec::new()), buf);
                            tracked.values().add(DataType::HttpReqRate, 1, u64::from(i));
                            assert!(tracked.values().get(DataType::ConnCur, 0) >= Some(1));
                        }
                        // The value that stands for the key: written before anybody can read it.
                        table.read(key, u64::from(i), |v| v.get(DataType::HttpReqRate, u64::from(i)));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        table.check_invariants();
        assert!(table.used() <= 64);
        for at in 0..table.numbers() {
            if let Some(entry) = table.entry_at(at) {
                assert_eq!(
                    (entry.values().trackers(), entry.values().get(DataType::ConnCur, 0)),
                    (0, Some(0))
                );
            }
        }
    }
}

#[cfg(loom)]
mod loom_models {
    use super::*;
    use loom::sync::Arc;

    fn put(table: &Table, n: u32, value: u32) {
        let buf = n.to_be_bytes();
        let key = table.spec().key.key(&buf).expect("a number");
        if let Ok(entry) = table.find_or_insert(key, 0) {
            entry.values().swap_at(DataType::Gpc0, 0, value);
        }
    }

    fn take(table: &Table, n: u32) {
        let buf = n.to_be_bytes();
        let key = table.spec().key.key(&buf).expect("a number");
        if let Some(entry) = table.find(key, 0) {
            table.remove(entry);
        }
    }

    fn small() -> Spec {
        Spec { data: vec![Stored::one(DataType::Gpc0)], ..spec(2, 0, true) }
    }

    /// A reader of one key while another one is taken away and its memory used for a third, all in one shard: it finds its
    /// key, with its value. (`--cfg planted` leaves out what tells it that the chain changed.)
    #[test]
    fn loom_a_reader_finds_what_is_there() {
        loom::model(|| {
            let table = Arc::new(Table::new(small(), 1));
            // Keys of one bucket: 16 buckets, so a few tries find them.
            let keys = same_bucket(&table);
            put(&table, keys[0], 10);
            put(&table, keys[1], 11);
            let reader = {
                let table = Arc::clone(&table);
                // The chain is keys[1] -> keys[0]: the reader passes the entry that goes.
                loom::thread::spawn(move || assert_eq!(key(&table, keys[0], &mut [0; 4]), Some(10)))
            };
            take(&table, keys[1]);
            put(&table, keys[2], 12);
            reader.join().expect("the reader ends");
        });
    }

    /// A reader of a key whose entry is taken away and used for another key: it sees its value, or nothing.
    #[test]
    fn loom_a_reader_never_sees_another_keys_value() {
        loom::model(|| {
            let table = Arc::new(Table::new(small(), 1));
            put(&table, 1, 10);
            let reader = {
                let table = Arc::clone(&table);
                loom::thread::spawn(move || {
                    let seen = key(&table, 1, &mut [0; 4]);
                    assert!(matches!(seen, None | Some(10)), "{seen:?}");
                })
            };
            take(&table, 1);
            put(&table, 2, 20);
            reader.join().expect("the reader ends");
        });
    }

    /// Two threads make the same key: there is one entry, and both count on it.
    #[test]
    fn loom_a_key_has_one_entry() {
        loom::model(|| {
            let table = Arc::new(Table::new(small(), 1));
            let add = |table: &Table| {
                let buf = 5u32.to_be_bytes();
                let key = table.spec().key.key(&buf).expect("a number");
                table.find_or_insert(key, 0).expect("there is room").values().add(DataType::Gpc0, 1, 0);
            };
            let other = {
                let table = Arc::clone(&table);
                loom::thread::spawn(move || add(&table))
            };
            add(&table);
            other.join().expect("the other ends");
            assert_eq!((key(&table, 5, &mut [0; 4]), table.used()), (Some(2), 1));
        });
    }

    /// A thread that tracked an entry tracks it again, by the number that it remembers, while another takes it away and uses
    /// its memory for another key: what it holds is its key's.
    #[test]
    fn loom_what_is_remembered_is_held_or_left() {
        loom::model(|| {
            let table = std::sync::Arc::new(Table::new(Spec { size: 1, ..small() }, 1));
            let local = crate::local::Local::new(std::sync::Arc::clone(&table));
            let buf = 1u32.to_be_bytes();
            let key = table.spec().key.key(&buf).expect("a number");
            drop(local.track(key, crate::data::Event::Tracked, 0));
            let other = {
                let table = std::sync::Arc::clone(&table);
                loom::thread::spawn(move || {
                    take(&table, 1);
                    put(&table, 2, 20);
                })
            };
            if let Ok(tracked) = local.track(key, crate::data::Event::Tracked, 0) {
                assert_eq!(tracked.values().key_bytes(&mut [0; 64], &mut Vec::new()), buf);
            }
            other.join().expect("the other ends");
            table.check_invariants();
            assert!(
                (0..table.numbers()).filter_map(|n| table.entry_at(n)).all(|e| e.values().trackers() == 0)
            );
        });
    }

    fn same_bucket(table: &Table) -> [u32; 3] {
        let bucket = |n: u32| table.spec().key.key(&n.to_be_bytes()).map(|k| k.hash(1) as u32 >> 6 & 15);
        let mut found = (0..1000).filter(|n| bucket(*n) == bucket(0));
        std::array::from_fn(|_| found.next().expect("there are enough"))
    }
}
