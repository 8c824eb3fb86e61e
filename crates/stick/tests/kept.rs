//! Entries that outlive the process.

#![cfg(not(loom))]

mod properties;

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use thalweg_stick::bucket::Bucket;
use thalweg_stick::data::DataType::{self, *};
use thalweg_stick::kept::{HEAD_LEN, Head, Now, Outcome, Reader, Written};
use thalweg_stick::{KeyType, Spec, Stored, Table};

/// The times of one process: they begin anywhere.
fn at(mono_ms: u64, wall_ms: u64) -> Now {
    Now { mono_us: mono_ms * 1000, wall_ms }
}

const KINDS: [DataType; 6] = [Gpc0, ConnCnt, HttpReqRate, BytesInCnt, ServerKey, Gpt];
const PERIOD_MS: u32 = 2000;

fn table(size: u32, expire_ms: u32) -> Arc<Table> {
    let stored = |kind: DataType| Stored {
        kind,
        count: if kind.is_array() { 3 } else { 1 },
        period_ms: if kind == HttpReqRate { PERIOD_MS } else { 0 },
    };
    let data = KINDS.into_iter().map(stored).collect();
    Arc::new(Table::new(Spec { expire_ms, data, ..Spec::new("t", KeyType::String(20), size) }, 5))
}

/// A row of blocks, as a file has them.
#[derive(Default)]
struct File {
    written: Written,
    bytes: Vec<u8>,
}

impl File {
    fn look(&mut self, table: &Table, now: Now) {
        while self.written.block(&mut self.bytes, table, now) {}
    }

    fn restore(&self, tables: &[Arc<Table>], now: Now) -> Vec<Outcome> {
        let (mut reader, mut rest, mut outcomes) = (Reader::default(), &self.bytes[..], Vec::new());
        while let Some((head, behind)) = rest.split_first_chunk::<HEAD_LEN>() {
            let head = Head::read(head).expect("the head of a block");
            let (body, next) = behind.split_at(head.len);
            outcomes.push(reader.take(head, body, tables, now));
            rest = next;
        }
        assert!(rest.is_empty());
        outcomes
    }
}

fn set(table: &Table, key: &str, n: u64, now_ms: u64) {
    let Some(key) = table.spec().key.key(key.as_bytes()) else { return };
    let Ok(entry) = table.find_or_insert(key, now_ms) else { return };
    let values = entry.values();
    for (kind, value) in [(Gpc0, n), (BytesInCnt, n << 32), (ConnCnt, n + 1)] {
        values.set(kind, value, now_ms);
    }
    values.set_at(Gpt, 2, n, now_ms);
    values.set(ServerKey, u64::from(table.name_number(&format!("s{n}")).expect("a number")), now_ms);
    values.add(HttpReqRate, n, now_ms);
    entry.touch(now_ms);
}

/// All that can be asked of a table, by key.
fn content(table: &Table, now_ms: u64) -> BTreeMap<Vec<u8>, Vec<String>> {
    let mut found = BTreeMap::new();
    for entry in (0..table.numbers()).filter_map(|number| table.entry_at(number)) {
        let values = entry.values();
        let (mut buf, mut long) = ([0; 64], Vec::new());
        let key = values.key_bytes(&mut buf, &mut long).to_vec();
        let left = values.expires_in(now_ms);
        if table.spec().expire_ms > 0 && left == 0 {
            continue;
        }
        let mut all: Vec<String> = vec![format!("{left} ms")];
        for kind in KINDS {
            let value = values.get(kind, now_ms).unwrap_or(0);
            all.push(match kind {
                ServerKey => format!("{:?}", table.name(value)),
                Gpt => format!("{:?}", values.get_at(Gpt, 2, now_ms)),
                _ => format!("{kind}={value}"),
            });
        }
        found.insert(key, all);
    }
    found
}

#[derive(Clone, Debug)]
enum Step {
    Set(u8, u16),
    Clear(u8),
    Wait(u16),
    Look,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..30, 1u16..9).prop_map(|(key, n)| Step::Set(key, n)),
        1 => (0u8..30).prop_map(Step::Clear),
        3 => (0u16..3000).prop_map(Step::Wait),
        2 => Just(Step::Look),
    ]
}

proptest! {
    /// Whatever happened between the looks, and however long nobody was there: what is read back is what the table would hold by
    /// now. The table is too small for all keys, so that entries give way to others.
    #[test]
    fn what_was_kept_comes_back(
        steps in prop::collection::vec(step(), 1..120),
        expires: bool,
        away_ms in 0u64..9000,
    ) {
        let table = table(20, if expires { 5000 } else { 0 });
        let (mut file, mut mono_ms) = (File::default(), 1_000_000u64);
        const WALL_MS: u64 = 1_700_000_000_000;
        for step in steps {
            match step {
                Step::Set(key, n) => set(&table, &format!("key {key}"), n.into(), mono_ms),
                Step::Clear(key) => {
                    let key = format!("key {key}");
                    let key = table.spec().key.key(key.as_bytes()).expect("a key");
                    table.find(key, mono_ms).map(|entry| table.remove(entry));
                }
                Step::Wait(ms) => {
                    mono_ms += u64::from(ms);
                    table.expire(mono_ms, usize::MAX);
                }
                Step::Look => file.look(&table, at(mono_ms, WALL_MS + mono_ms)),
            }
        }
        file.look(&table, at(mono_ms, WALL_MS + mono_ms));
        let other = self::table(20, if expires { 5000 } else { 0 });
        const OTHER_MS: u64 = 77_000;
        let outcomes = file.restore(&[Arc::clone(&other)], at(OTHER_MS, WALL_MS + mono_ms + away_ms));
        prop_assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Taken));
        prop_assert_eq!(content(&other, OTHER_MS), content(&table, mono_ms + away_ms));
        other.check_invariants();
    }

    #[test]
    fn anything_may_be_read(body in prop::collection::vec(any::<u8>(), 0..300)) {
        properties::kept_says(&body);
    }

    /// What was written, with a byte changed, under a check that fits.
    #[test]
    fn what_is_nearly_right_may_be_read(place: prop::sample::Index, byte: u8) {
        let (table, mut file) = (properties::kept_table(), File::default());
        for n in 0..20 {
            set(&table, &format!("key {n}"), n, 1000);
        }
        file.look(&table, at(1000, 1000));
        let mut body = file.bytes.split_off(HEAD_LEN);
        let place = place.index(body.len());
        body[place] = byte;
        properties::kept_says(&body);
    }
}

/// Nothing that did not change is written, but for what was used just now, which is written once more.
#[test]
fn what_is_unchanged_is_not_written_again() {
    let (table, mut file) = (table(1000, 60_000), File::default());
    for n in 0..100 {
        set(&table, &format!("key {n}"), n, 1000);
    }
    let mut looked = |now_ms: u64| {
        let before = file.bytes.len();
        file.look(&table, at(now_ms, now_ms));
        file.bytes.len() - before
    };
    let first = looked(1000);
    assert!(first > 100 * 20, "{first} bytes");
    assert!(looked(1750) >= first);
    assert_eq!([looked(2500), looked(3250)], [0, 0]);
    set(&table, "key 7", 1, 3300);
    assert!((1..first / 20).contains(&looked(4000)));
    assert_eq!(looked(4750), 0);
}

/// What was changed behind a look within the same millisecond is seen by the next one.
#[test]
fn a_change_behind_a_look_is_not_missed() {
    let (table, mut file) = (table(10, 60_000), File::default());
    set(&table, "a", 1, 1000);
    file.look(&table, at(1000, 1000));
    set(&table, "a", 2, 1000);
    file.look(&table, at(1750, 1750));
    let other = self::table(10, 60_000);
    file.restore(&[Arc::clone(&other)], at(1750, 1750));
    assert_eq!(content(&other, 1750), content(&table, 1750));
}

/// Buckets fill while nobody is there.
#[test]
fn tokens_come_back_meanwhile() {
    let table = || {
        let spec = Spec { bucket: true, expire_ms: 60_000, ..Spec::new("t", KeyType::Integer, 10) };
        Arc::new(Table::new(spec, 5))
    };
    let bucket = Bucket { tokens: 1, period_ms: 1000, burst: 5 };
    let taken = |table: &Table, now_ms: u64| {
        let key = table.spec().key.key(&[0; 4]).expect("a key");
        let entry = table.find_or_insert(key, now_ms).expect("room");
        entry.touch(now_ms);
        (0..9).filter(|_| entry.values().take(bucket, now_ms * 1000).expect("a bucket").is_allowed).count()
    };
    let (before, mut file) = (table(), File::default());
    assert_eq!(taken(&before, 5000), 5);
    file.look(&before, at(5000, 100_000));
    let after = table();
    file.restore(&[Arc::clone(&after)], at(900_000, 102_000));
    assert_eq!(taken(&after, 900_000), 2, "two seconds, two tokens");
}

/// A table that is another one now, or none, keeps nothing, and the others go on.
#[test]
fn what_does_not_fit_is_said() {
    let named = |name: &str, key: KeyType| {
        let data = vec![Stored::one(Gpc0), Stored { kind: HttpReqRate, count: 1, period_ms: 1000 }];
        Arc::new(Table::new(Spec { data, ..Spec::new(name, key, 10) }, 5))
    };
    let before = [("a", KeyType::Ip4), ("b", KeyType::Ip4), ("c", KeyType::Ip4)].map(|(n, k)| named(n, k));
    let mut file = File::default();
    for table in &before {
        let entry = table.find_or_insert(table.spec().key.key(&[1; 4]).expect("a key"), 1000).expect("room");
        entry.values().set(Gpc0, 7, 1000);
        entry.values().add(HttpReqRate, 7, 1000);
        drop(entry);
        file.written = Written::default();
        file.look(table, at(1000, 1000));
    }
    // The rate of the third is over another period now: it begins anew, and the counter goes on.
    let data = vec![Stored::one(Gpc0), Stored { kind: HttpReqRate, count: 1, period_ms: 2000 }];
    let third = Arc::new(Table::new(Spec { data, ..Spec::new("c", KeyType::Ip4, 10) }, 5));
    let after = [named("b", KeyType::Integer), Arc::clone(&third)];
    assert_eq!(
        file.restore(&after, at(1000, 1000)),
        [Outcome::NoTable("a".into()), Outcome::OtherKeys("b".into()), Outcome::Taken]
    );
    assert_eq!(after[0].used(), 0);
    let key = third.spec().key.key(&[1; 4]).expect("a key");
    let value = |kind| third.read(key, 1000, |values| values.get(kind, 1000)).flatten();
    assert_eq!((value(Gpc0), value(HttpReqRate)), (Some(7), Some(0)));
}

/// No bit of a block may change.
#[test]
fn a_block_is_whole_or_none() {
    let (table, mut file) = (table(10, 60_000), File::default());
    set(&table, "a", 1, 1000);
    file.look(&table, at(1000, 1000));
    for place in 0..file.bytes.len() {
        let mut bytes = file.bytes.clone();
        bytes[place] ^= 1;
        let (head, body) = bytes.split_first_chunk::<HEAD_LEN>().expect("a head");
        let other = self::table(10, 60_000);
        let outcome =
            Head::read(head).map(|head| Reader::default().take(head, body, &[Arc::clone(&other)], at(1, 1)));
        assert!(outcome.is_none_or(|outcome| outcome == Outcome::Broken), "byte {place}");
        assert_eq!(other.used(), 0, "byte {place}");
    }
}
