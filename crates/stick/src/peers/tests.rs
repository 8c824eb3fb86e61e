//! Sections that talk to each other over pipes in memory, and to whoever does not keep to the rules.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::wire::{self, Control};
use super::*;
use crate::data::{DataType, Stored};
use crate::key::KeyType;
use crate::sliding::Sliding;
use crate::table::{Spec, Table};

const NAMES: [&str; 3] = ["A", "B", "C"];

/// What a process is: which protocol it speaks, and what its files store. Peers of before know neither heartbeats nor deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Newest,
    /// As the newest, but its file stores less.
    StoresLess,
    /// Protocol 2.0.
    Older,
}

impl Version {
    fn minor(self) -> u32 {
        u32::from(self != Version::Older)
    }

    fn stores(self, kind: DataType) -> bool {
        self != Version::StoresLess || kind as u32 % 3 != 1
    }
}

/// All kinds of data and of keys, in two tables.
fn tables() -> [Arc<Table>; 2] {
    tables_of(Version::Newest)
}

fn tables_of(version: Version) -> [Arc<Table>; 2] {
    let all = |wanted: fn(DataType) -> bool| {
        let stored = |kind: DataType| Stored {
            kind,
            count: if kind.is_array() { 3 } else { 1 },
            period_ms: if kind.shape() == crate::data::Shape::Rate { 1000 } else { 0 },
        };
        DataType::all().filter(|kind| wanted(*kind) && version.stores(*kind)).map(stored).collect::<Vec<_>>()
    };
    let spec = |name: &str, key, data| Spec {
        expire_ms: 60_000,
        peers: Some(Arc::from("p")),
        data,
        ..Spec::new(name, key, 500)
    };
    [
        Arc::new(Table::new(spec("p/t", KeyType::Integer, all(|kind| kind.array().is_none())), 7)),
        Arc::new(Table::new(spec("u", KeyType::String(20), all(|kind| !kind.is_array())), 9)),
    ]
}

fn section(local: usize, tables: &[Arc<Table>; 2], now_ms: u64) -> Section {
    let peer = |name: &&str| PeerSpec { name: Arc::from(*name), address: String::new(), shard: 0 };
    let spec = SectionSpec {
        name: Arc::from("p"),
        peers: NAMES.iter().map(peer).collect(),
        local,
        tables: tables
            .iter()
            .zip(["/t", "u"])
            .map(|(table, name)| TableSpec {
                table: Arc::clone(table),
                name: Arc::from(name),
                write_to: None,
            })
            .collect(),
        shards: 0,
        updates_max: 20,
    };
    Section::new(spec, now_ms)
}

/// A connection: who is at its ends, and what is on its way from the first and from the second.
struct Wire {
    ends: [(usize, Link); 2],
    bytes: [Vec<u8>; 2],
}

/// What a peer of protocol 2.0 is sent: it would take anything else for a mistake.
fn assert_is_old(mut bytes: &[u8]) {
    while let wire::Parsed::Message(message, len) = wire::parse(bytes) {
        let newer = matches!(
            message,
            wire::Message::Control(Control::Heartbeat) | wire::Message::Update { timed: true, .. }
        );
        assert!(!newer, "{message:?}");
        bytes = &bytes[len..];
    }
    assert!(bytes.is_empty());
}

struct Net {
    now_ms: u64,
    tables: Vec<[Arc<Table>; 2]>,
    sections: Vec<Section>,
    wires: Vec<Wire>,
    /// Bytes that were sent.
    sent: usize,
    versions: Vec<Version>,
    /// Who is cut off without anybody being told: nothing of theirs arrives, and nothing arrives there.
    lost: Vec<bool>,
}

impl Net {
    fn new(count: usize) -> Net {
        let now_ms = 1000;
        let tables: Vec<_> = (0..count).map(|_| tables()).collect();
        let sections = (0..count).map(|local| section(local, &tables[local], now_ms)).collect();
        let (versions, lost) = (vec![Version::Newest; count], vec![false; count]);
        Net { now_ms, tables, sections, wires: Vec::new(), sent: 0, versions, lost }
    }

    fn connect(&mut self, from: usize, to: usize) {
        self.cut(from, to);
        let minor = self.versions[from].minor();
        if minor > self.versions[to].minor() {
            // It knows no such version, and connects itself.
            return self.connect(to, from);
        }
        let hello = write_hello(NAMES[to], NAMES[from], 1).replace("2.1", &format!("2.{minor}"));
        let (hello, _) = read_hello(hello.as_bytes()).unwrap().unwrap();
        let accepted = self.sections[to].accept(&hello, self.now_ms).unwrap();
        let opened = self.sections[from].opened(to, self.now_ms);
        self.sections[from].peers[to].session.as_mut().unwrap().minor = minor;
        self.wires.push(Wire { ends: [(from, opened), (to, accepted)], bytes: [Vec::new(), Vec::new()] });
    }

    fn cut(&mut self, a: usize, b: usize) {
        let is_between = |wire: &Wire| {
            let ends = [wire.ends[0].0, wire.ends[1].0];
            ends == [a, b] || ends == [b, a]
        };
        for wire in self.wires.extract_if(.., |wire| is_between(wire)) {
            for (at, link) in wire.ends {
                self.sections[at].closed(link, None, self.now_ms);
            }
        }
    }

    fn restart(&mut self, at: usize, version: Version) {
        for other in 0..self.sections.len() {
            self.cut(at, other);
        }
        self.versions[at] = version;
        self.tables[at] = tables_of(version);
        self.sections[at] = section(at, &self.tables[at], self.now_ms);
    }

    /// One turn: everybody sends, and receives about half of what is on its way. Who waits in vain closes the connection.
    fn turn(&mut self) -> bool {
        let mut any = false;
        for section in &mut self.sections {
            section.collect();
        }
        let mut silent = Vec::new();
        for wire in &mut self.wires {
            for side in 0..2 {
                let (at, link) = wire.ends[side];
                let (other, other_link) = wire.ends[1 - side];
                let before = wire.bytes[side].len();
                match self.sections[at].send(link, &mut wire.bytes[side], self.now_ms) {
                    Ok(more) => any |= more,
                    Err(why) => {
                        assert_eq!(why, Broken::Silent);
                        silent.push((at, other));
                        break;
                    }
                }
                if self.versions[other] == Version::Older {
                    assert_is_old(&wire.bytes[side][before..]);
                }
                self.sent += wire.bytes[side].len() - before;
                if self.lost[at] || self.lost[other] {
                    continue;
                }
                let bytes = &mut wire.bytes[side];
                any |= !bytes.is_empty();
                let some = bytes.len().div_ceil(2).max(40).min(bytes.len());
                let taken = self.sections[other].receive(other_link, &bytes[..some], self.now_ms).unwrap();
                // A message that is cut in the middle waits for its rest.
                let taken = match taken {
                    0 => self.sections[other].receive(other_link, bytes, self.now_ms).unwrap(),
                    taken => taken,
                };
                bytes.drain(..taken);
            }
        }
        silent.into_iter().for_each(|(a, b)| self.cut(a, b));
        any
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.turn() && !self.turn() {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    fn key_of(table: &Table, n: u32) -> Vec<u8> {
        match table.spec().key {
            KeyType::Integer => n.to_be_bytes().to_vec(),
            _ => format!("key{n}").into_bytes(),
        }
    }

    fn set(&mut self, at: usize, which: usize, n: u32, value: u32) {
        let table = &self.tables[at][which];
        let key = Self::key_of(table, n);
        let entry = table.find_or_insert(table.spec().key.key(&key).unwrap(), self.now_ms).unwrap();
        for stored in &table.spec().data {
            for index in 0..stored.count {
                let value = match stored.kind {
                    DataType::ServerKey => {
                        table.name_number(&format!("server{}", value % 300)).unwrap().into()
                    }
                    DataType::ConnCur => continue,
                    _ => u64::from(value).wrapping_mul(stored.kind as u64 + 1 + u64::from(index)),
                };
                entry.values().set_at(stored.kind, index, value, self.now_ms);
                if stored.kind.shape() == crate::data::Shape::Rate {
                    let began_ms = self.now_ms as u32 - value as u32 % 900;
                    let rate = Sliding { began_ms, current: value as u32 % 77, previous: value as u32 % 13 };
                    entry.values().set_sliding(stored.kind, index, rate);
                }
            }
        }
        entry.touch(self.now_ms);
    }

    /// All that a process knows, as text, of what all of them store.
    fn content(&self, at: usize) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for table in &self.tables[at] {
            for entry in (0..table.numbers()).filter_map(|number| table.entry_at(number)) {
                let (mut buf, mut long) = ([0; 64], Vec::new());
                let values = entry.values();
                let key = format!("{} {:?}", table.spec().name, values.key_bytes(&mut buf, &mut long));
                let mut text = String::new();
                let by_all = |kind| self.versions.iter().all(|version| version.stores(kind));
                for stored in table.spec().data.iter().filter(|stored| by_all(stored.kind)) {
                    for index in 0..stored.count {
                        let value = values.get_at(stored.kind, index, self.now_ms).unwrap();
                        let name = match stored.kind {
                            DataType::ServerKey => table.name(value).map(|name| name.to_string()),
                            _ => None,
                        };
                        let rate = values.sliding(stored.kind, index);
                        text += &match name {
                            Some(name) => format!(" {name}"),
                            None => format!(" {value} {rate:?}"),
                        };
                    }
                }
                all.insert(key, text);
            }
        }
        all
    }
}

#[derive(Clone, Debug)]
enum Step {
    Set(usize, usize, u32, u32),
    Cut(usize, usize),
    Connect(usize, usize),
    Turn(u32),
    Wait(u64),
    Restart(usize, Version),
    /// Cuts somebody off without a word, or ends that.
    Lose(usize, bool),
}

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::Newest), Just(Version::StoresLess), Just(Version::Older)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0usize..3, 0usize..2, 0u32..30, any::<u32>()).prop_map(|(a, t, n, v)| Step::Set(a, t, n, v)),
        1 => (0usize..3, 1usize..3).prop_map(|(a, b)| Step::Cut(a, (a + b) % 3)),
        2 => (0usize..3, 1usize..3).prop_map(|(a, b)| Step::Connect(a, (a + b) % 3)),
        4 => (1u32..20).prop_map(Step::Turn),
        1 => prop_oneof![1u64..100, 1000u64..6000].prop_map(Step::Wait),
        1 => (0usize..3, version()).prop_map(|(at, version)| Step::Restart(at, version)),
        1 => (0usize..3, any::<bool>()).prop_map(|(at, lost)| Step::Lose(at, lost)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Whatever happens to three processes of any versions and to the connections between them, which break, or say nothing any more
    /// to one of them: once they are there again, a last change of each entry is everywhere, and then nothing is sent any more.
    #[test]
    fn three_agree_in_the_end(steps in prop::collection::vec(step(), 1..200)) {
        let mut net = Net::new(3);
        for step in steps {
            match step {
                Step::Set(at, table, n, value) => net.set(at, table, n, value),
                Step::Cut(a, b) => net.cut(a, b),
                Step::Connect(a, b) => net.connect(a, b),
                Step::Turn(turns) => (0..turns).for_each(|_| _ = net.turn()),
                Step::Wait(ms) => net.now_ms += ms,
                Step::Restart(at, version) => net.restart(at, version),
                Step::Lose(at, lost) => net.lost[at] = lost,
            }
        }
        net.lost.fill(false);
        for (a, b) in [(0, 1), (1, 2), (2, 0)] {
            net.connect(a, b);
        }
        net.settle();
        for n in 0..30 {
            (0..2).for_each(|table| net.set(n as usize % 3, table, n, n));
        }
        net.settle();
        let first = net.content(0);
        for n in 0..30u32 {
            let key = format!("{:?}", n.to_be_bytes());
            prop_assert!(first.keys().any(|other| other.contains(&key)));
        }
        prop_assert_eq!(&first, &net.content(1));
        prop_assert_eq!(&first, &net.content(2));
        // What was learnt goes to nobody: a ring of three is silent.
        let sent = net.sent;
        (0..20).for_each(|_| _ = net.turn());
        prop_assert_eq!(net.sent, sent);
        net.tables.iter().flatten().for_each(|table| table.check_invariants());
    }

    /// No byte of a peer panics, and what is kept of it is bounded.
    #[test]
    fn anything_may_be_received(start in 0usize..4, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let tables = tables();
        let mut section = section(0, &tables, 0);
        let link = section.opened(1, 0);
        let mut valid = Vec::new();
        for i in 0..start {
            definition(&mut valid, 9 + i as u32 % 2, &tables[i % 2], ["/t", "u"][i % 2]);
        }
        if start > 0 {
            valid.extend([10, [128, 129, 133, 134][bytes.len() % 4], bytes.len().min(200) as u8]);
        }
        let all = [valid, bytes].concat();
        let mut at = 0;
        for end in (0..=all.len()).step_by(7).chain([all.len()]) {
            match section.receive(link, &all[at..end], 1) {
                Ok(taken) => at += taken,
                Err(_) => break,
            }
        }
        let mut out = Vec::new();
        let _ = section.send(link, &mut out, 2);
        tables.iter().for_each(|table| table.check_invariants());
    }
}

fn definition(out: &mut Vec<u8>, number: u32, table: &Table, name: &str) {
    let mut body = Vec::new();
    super::entry::put_definition(&mut body, number, name, table);
    wire::put_definition(out, &body);
}

/// A process that starts is taught by one of the others, also what these only learnt.
#[test]
fn who_starts_is_taught() {
    let mut net = Net::new(3);
    net.connect(0, 1);
    for n in 0..200 {
        net.set(0, 0, n, n);
    }
    net.settle();
    assert_eq!(net.content(0), net.content(1));
    net.cut(0, 1);
    net.connect(2, 1);
    net.settle();
    assert_eq!(net.content(1), net.content(2));
    assert_eq!(net.sections[2].learning(net.now_ms), Learning::Anyone { until_ms: net.now_ms + 5000 });
}

/// Entries that are taught keep the time that they have left.
#[test]
fn deadlines_are_taught() {
    let mut net = Net::new(2);
    net.set(0, 0, 5, 1);
    net.now_ms += 20_000;
    net.restart(1, Version::Newest);
    net.connect(1, 0);
    net.settle();
    let table = &net.tables[1][0];
    let left = table.read(table.spec().key.key(&5u32.to_be_bytes()).unwrap(), net.now_ms, |values| {
        values.expires_in(net.now_ms)
    });
    assert_eq!(left, Some(40_000));
}

/// The process that comes next learns all from the one before it, and says so.
#[test]
fn the_one_before_teaches() {
    let mut net = Net::new(1);
    for n in 0..300 {
        net.set(0, 0, n, n);
    }
    net.sections[0].collect();
    let new_tables = tables();
    let mut new = section(0, &new_tables, net.now_ms);
    new.learning = Learning::Predecessor { until_ms: net.now_ms + 5000 };
    let (hello, _) = read_hello(write_hello("A", "A", 1).as_bytes()).unwrap().unwrap();
    let theirs = new.accept(&hello, net.now_ms).unwrap();
    let ours = net.sections[0].opened(0, net.now_ms);
    let (mut to, mut back) = (Vec::new(), Vec::new());
    net.sections[0].learning = Learning::Done;
    for _ in 0..100 {
        net.sections[0].send(ours, &mut to, net.now_ms).unwrap();
        let taken = new.receive(theirs, &to, net.now_ms).unwrap();
        to.drain(..taken);
        new.send(theirs, &mut back, net.now_ms).unwrap();
        let taken = net.sections[0].receive(ours, &back, net.now_ms).unwrap();
        back.drain(..taken);
    }
    assert!(net.sections[0].has_taught(ours));
    assert_eq!(new.learning(net.now_ms), Learning::Done);
    assert_eq!(new_tables[0].used(), 300);
}

/// Bytes that were read from the reference, with what it had been told to store.
#[test]
fn entries_of_the_reference_are_read() {
    let tables = tables();
    let mut section = section(0, &tables, 0);
    let link = section.opened(1, 0);
    let hex = |text: &str| -> Vec<u8> {
        (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
    };
    // A table with other kinds of data than ours: conn_cnt, server_key.
    let bytes = [
        hex("0a820b03022f740204f0f2fe0000"),
        hex("0a800b0000000100000102fc0300"),
        hex("0a850f000000020000000000000103fc0300"),
        hex("0a801000000005000009090706010473727658"),
        hex("0a810700000910070101"),
    ];
    let now_ms = 5000;
    for (i, message) in bytes.iter().enumerate() {
        let message = message.as_slice();
        assert_eq!(section.receive(link, message, now_ms), Ok(message.len()), "{i}");
    }
    let table = &tables[0];
    let value = |key: u32, kind| {
        table
            .read(table.spec().key.key(&key.to_be_bytes()).unwrap(), now_ms, |v| v.get(kind, now_ms).unwrap())
    };
    assert_eq!(value(0x102, DataType::ConnCnt), Some(300));
    assert_eq!(value(0x103, DataType::ConnCnt), None, "its deadline is over");
    assert_eq!(value(0x909, DataType::ConnCnt), Some(7));
    let name = value(0x910, DataType::ServerKey).and_then(|number| table.name(number));
    assert_eq!(name.as_deref(), Some("srvX"));
}

/// What is no entry, what is too long, and names without end.
#[test]
fn who_breaks_the_rules_is_left() {
    let tables = tables();
    let check = |messages: &[u8], outcome: Result<usize, Broken>| {
        let mut section = section(0, &tables, 0);
        let link = section.opened(1, 0);
        assert_eq!(section.receive(link, messages, 0), outcome, "{messages:?}");
    };
    check(&[10, 128, 4, 0, 0, 0, 1], Err(Broken::Protocol));
    check(&[1, 0], Err(Broken::Complained));
    check(&[10, 130, 1, 0xff], Err(Broken::Protocol));
    check(&[10, 128, 0xf0, 0xff, 0xff, 0x7f], Err(Broken::TooLong));
    let mut messages = Vec::new();
    definition(&mut messages, 1, &tables[1], "u");
    let defined = messages.len();
    messages.extend([10, 128, 3, 0, 0, 0]);
    check(&messages, Err(Broken::Protocol));
    // A key that is longer than its message.
    messages.truncate(defined);
    messages.extend([10, 128, 6, 0, 0, 0, 1, 200, b'k']);
    check(&messages, Err(Broken::Protocol));
    // An acknowledgement of what was not sent is not believed, one of no table passed over.
    check(&[10, 132, 5, 1, 0, 0, 0, 9, 10, 132, 5, 77, 0, 0, 0, 9], Ok(16));
    let mut section = section(0, &tables, 0);
    let link = section.opened(1, 0);
    section.receive(link, &[10, 132, 5, 1, 0, 0, 0, 9], 0).unwrap();
    assert_eq!(section.peers[1].acknowledged, [0, 0]);
}

#[test]
fn who_is_silent_is_left_and_who_has_nothing_to_say_says_so() {
    let tables = tables();
    let mut section = section(0, &tables, 0);
    section.learning = Learning::Done;
    let link = section.opened(1, 0);
    let mut out = Vec::new();
    section.send(link, &mut out, 2999).unwrap();
    assert!(out.is_empty());
    assert_eq!(section.deadline_ms(link), 3000);
    section.send(link, &mut out, 3000).unwrap();
    assert_eq!(out, [0, 4]);
    assert_eq!(section.deadline_ms(link), 5000);
    section.receive(link, &[0, 4], 4000).unwrap();
    assert!(section.send(link, &mut out, 8999).is_ok());
    assert_eq!(section.send(link, &mut out, 9000), Err(Broken::Silent));
    // A newer connection takes the place of this one.
    section.opened(1, 9000);
    assert_eq!(section.receive(link, &[0, 4], 9000), Err(Broken::Replaced));
}

/// Each key goes to the peer of its share, and to those without one.
#[test]
fn shares_are_apart() {
    let tables = tables();
    let mut net = Net::new(1);
    net.sections[0] = {
        let mut spec_of = section(0, &tables, net.now_ms);
        spec_of.peers[1].spec.shard = 1;
        spec_of.peers[2].spec.shard = 2;
        spec_of
    };
    let mut section = net.sections.remove(0);
    section.set_shards(2);
    section.learning = Learning::Done;
    net.tables[0] = tables;
    (0..100).for_each(|n| net.set(0, 0, n, n));
    section.collect();
    let mut sent = [HashSet::new(), HashSet::new()];
    for (i, keys) in sent.iter_mut().enumerate() {
        let link = section.opened(1 + i, net.now_ms);
        let mut out = Vec::new();
        while section.send(link, &mut out, net.now_ms).unwrap() {}
        let mut rest = &out[..];
        while let wire::Parsed::Message(message, len) = wire::parse(rest) {
            if let wire::Message::Update { body, .. } = message {
                keys.insert(body[4..8].to_vec());
            }
            rest = &rest[len..];
        }
    }
    assert_eq!(sent[0].len() + sent[1].len(), 100);
    assert!(sent[0].is_disjoint(&sent[1]) && sent[0].len() > 20 && sent[1].len() > 20);
}

/// A process of a fleet that comes back without memory asks one of the others to teach it. What each of them counted it hears from
/// each, who thought that it knew.
#[test]
fn who_comes_back_learns_the_share_of_each() {
    let mut net = Net::new(3);
    let begin = |net: &mut Net, at: usize| {
        net.tables[at] = tables().map(|t| Arc::new(Table::new(Spec { fleet: true, ..t.spec().clone() }, 7)));
        net.sections[at] = section(at, &net.tables[at], net.now_ms);
    };
    for at in 0..3 {
        begin(&mut net, at);
        net.sections[at].learning = Learning::Done;
        net.set(at, 0, 7, 1 + at as u32);
    }
    let sum = |net: &Net, at: usize| {
        let (table, key) = (&net.tables[at][0], Net::key_of(&net.tables[at][0], 7));
        table.sum(table.spec().key.key(&key).unwrap(), DataType::Gpt0, 0, net.now_ms)
    };
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        net.connect(from, to);
    }
    net.settle();
    // What is set is the value times the number of the kind.
    let times = DataType::Gpt as u64 + 1;
    assert_eq!([0, 1, 2].map(|at| sum(&net, at)), [Some((1 + 2 + 3) * times); 3]);
    net.cut(0, 1);
    net.cut(1, 2);
    begin(&mut net, 1);
    net.connect(0, 1);
    net.connect(1, 2);
    net.settle();
    assert_eq!(sum(&net, 1), Some((1 + 3) * times));
}

/// A peer that is asked and does not teach is not waited for without end.
#[test]
fn a_teacher_that_says_nothing_is_given_up() {
    let tables = tables();
    let mut section = section(0, &tables, 0);
    let link = section.opened(1, 0);
    let mut out = Vec::new();
    section.send(link, &mut out, 0).unwrap();
    assert_eq!(out[..2], [0, 0]);
    for now in [3000, 4000, 5000] {
        section.receive(link, &[0, 4], now).unwrap();
        section.send(link, &mut out, now).unwrap();
    }
    assert!(matches!(section.learning(5000), Learning::Anyone { .. }));
    out.clear();
    section.send(link, &mut out, 5001).unwrap();
    assert!(out.is_empty(), "it is not asked again");
    let other = section.opened(2, 5002);
    section.send(other, &mut out, 5002).unwrap();
    assert_eq!(out[..2], [0, 0]);
    let mut end = Vec::new();
    wire::put_control(&mut end, Control::Finished);
    section.receive(other, &end, 5003).unwrap();
    assert_eq!(section.learning(5003), Learning::Done);
    out.clear();
    section.send(other, &mut out, 5003).unwrap();
    assert_eq!(out, [0, 3], "the end of the lesson is confirmed");
}

/// Read from the reference: which of three shares it says that keys are in.
#[test]
fn shares_are_those_of_the_reference() {
    use xxhash_rust::xxh64::xxh64;
    let shares = |name: &str, keys: [&[u8]; 3]| {
        keys.map(|key| super::section::shard(xxh64(name.as_bytes(), 0), 3, key))
    };
    assert_eq!(shares("p0/s", [b"abc", b"world", b"hello"]), [3, 1, 1]);
    assert_eq!(shares("p0/i", [&[1, 2, 3, 4], &[1, 2, 3, 5], &[1, 2, 3, 6]]), [3, 1, 1]);
}
