//! Entries as messages, and back.
//!
//! An entry is its key and the values of the table, in the order of the numbers of their kinds: plain numbers; of a rate
//! how long ago its period began, and the counts of this period and of the one before; of a name its number in a
//! dictionary that each side keeps of what the other one said, with the name itself when it is new.

use std::collections::HashMap;
use std::sync::Arc;

use super::wire::{Input, put_number};
use crate::data::{DataType, ELEMENTS_MAX, Shape, Stored};
use crate::entry::Values;
use crate::key::KeyType;
use crate::sliding::Sliding;
use crate::table::Table;

/// The most names that are remembered of what a peer said, as in the reference.
pub(crate) const NAMES_MAX: usize = 128;
/// The longest name of a server that is learnt from a peer.
const NAME_LEN_MAX: usize = 255;

/// The number of a kind of keys.
const fn key_number(kind: KeyType) -> u64 {
    match kind {
        KeyType::Integer => 2,
        KeyType::Ip4 => 4,
        KeyType::Ip6 => 5,
        KeyType::String(_) => 6,
        KeyType::Binary(_) => 7,
    }
}

/// How long keys are said to be: text with the zero byte that ends it elsewhere.
const fn key_len(kind: KeyType) -> u64 {
    match kind {
        KeyType::String(len) => len as u64 + 1,
        _ => kind.len_max() as u64,
    }
}

/// What a table is, as peers are told.
pub(crate) fn put_definition(out: &mut Vec<u8>, number: u32, name: &str, table: &Table) {
    let spec = table.spec();
    put_number(out, u64::from(number));
    put_number(out, name.len() as u64);
    out.extend(name.as_bytes());
    put_number(out, key_number(spec.key));
    put_number(out, key_len(spec.key));
    put_number(out, spec.data.iter().fold(0, |bits, stored| bits | 1 << stored.kind as u32));
    put_number(out, u64::from(spec.expire_ms));
    for stored in &spec.data {
        let is_rate = stored.kind.shape() == Shape::Rate;
        if stored.kind.is_array() {
            put_number(out, stored.kind as u64);
            put_number(out, u64::from(stored.count));
        } else if is_rate {
            put_number(out, stored.kind as u64);
        }
        if is_rate {
            put_number(out, u64::from(stored.period_ms));
        }
    }
}

/// What a peer says a table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    /// Its number there.
    pub number: u64,
    pub name: Box<[u8]>,
    key_number: u64,
    key_len: u64,
    /// The kinds of data, as bits, those not known here among them.
    pub bits: u64,
    /// What each entry holds, up to the first kind that is not known here.
    data: Vec<Stored>,
}

impl Definition {
    /// Reads one. `None` when it is none.
    pub fn read(body: &[u8]) -> Option<Definition> {
        let mut input = Input(body);
        let number = input.number()?;
        let name = input.counted()?.into();
        let (key_number, key_len, bits) = (input.number()?, input.number()?, input.number()?);
        // Versions before 1.6 end here, and have nothing that needs more.
        let _expire_ms = input.number();
        let kinds = DataType::all().filter(|kind| bits & 1 << *kind as u32 != 0);
        let mut data: Vec<Stored> = kinds.map(Stored::one).collect();
        for stored in &mut data {
            let is_rate = stored.kind.shape() == Shape::Rate;
            if !is_rate && !stored.kind.is_array() {
                continue;
            }
            if input.number()? != stored.kind as u64 {
                return None;
            }
            if stored.kind.is_array() {
                let count = u16::try_from(input.number()?).ok();
                stored.count = count.filter(|count| (1..=ELEMENTS_MAX).contains(count))?;
            }
            if is_rate {
                stored.period_ms = u32::try_from(input.number()?).ok()?;
            }
        }
        Some(Definition { number, name, key_number, key_len, bits, data })
    }

    /// Whether its keys are those of a table.
    pub fn fits(&self, table: &Table) -> bool {
        let kind = table.spec().key;
        self.key_number == key_number(kind) && self.key_len == key_len(kind)
    }
}

/// The names that a peer was told, so that each is sent once as long as it is remembered there: the oldest one makes
/// room.
#[derive(Debug, Default)]
pub(crate) struct Told {
    numbers: HashMap<Arc<str>, u8>,
    names: Vec<Arc<str>>,
    next: usize,
}

impl Told {
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// The number of a name, from 1, and whether it is new.
    fn number(&mut self, name: &Arc<str>) -> (u64, bool) {
        if let Some(number) = self.numbers.get(name) {
            return (u64::from(*number), false);
        }
        let at = self.next;
        match self.names.get_mut(at) {
            None => self.names.push(Arc::clone(name)),
            Some(old) => {
                self.numbers.remove(old);
                *old = Arc::clone(name);
            }
        }
        self.numbers.insert(Arc::clone(name), at as u8 + 1);
        self.next = (at + 1) % NAMES_MAX;
        (at as u64 + 1, true)
    }

    fn put(&mut self, out: &mut Vec<u8>, name: Option<Arc<str>>) {
        let Some(name) = name else { return put_number(out, 0) };
        let (number, is_new) = self.number(&name);
        let mut item = Vec::with_capacity(name.len() + 6);
        put_number(&mut item, number);
        if is_new {
            put_number(&mut item, name.len() as u64);
            item.extend(name.as_bytes());
        }
        put_number(out, item.len() as u64);
        out.extend(item);
    }
}

/// The names that a peer told.
#[derive(Debug, Default)]
pub(crate) struct Heard(Vec<Option<Arc<str>>>);

impl Heard {
    /// By number, from 0.
    pub fn name(&self, at: usize) -> Option<&Arc<str>> {
        self.0.get(at)?.as_ref()
    }

    /// Reads a name. The outer `None` when it is none; the inner one for no name, and for one that was not heard of.
    fn read(&mut self, input: &mut Input) -> Option<Option<Arc<str>>> {
        let mut item = Input(input.counted()?);
        if item.0.is_empty() {
            return Some(None);
        }
        let at = usize::try_from(item.number()?).ok()?.checked_sub(1).filter(|at| *at < NAMES_MAX)?;
        if item.0.is_empty() {
            return Some(self.name(at).cloned());
        }
        let text = std::str::from_utf8(item.counted()?).ok().filter(|text| text.len() <= NAME_LEN_MAX);
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        self.0[at] = text.map(Arc::from);
        Some(self.0[at].clone())
    }
}

/// Writes what follows the number and the deadline of an entry.
pub(crate) fn put_entry(out: &mut Vec<u8>, table: &Table, values: Values, told: &mut Told, now_ms: u64) {
    let (mut buf, mut long) = ([0; 64], Vec::new());
    let key = values.key_bytes(&mut buf, &mut long);
    if matches!(table.spec().key, KeyType::String(_)) {
        put_number(out, key.len() as u64);
    }
    out.extend(key);
    for stored in &table.spec().data {
        for index in 0..stored.count {
            match stored.kind.shape() {
                Shape::Counter | Shape::Long => {
                    put_number(out, values.get_at(stored.kind, index, now_ms).unwrap_or(0));
                }
                Shape::Rate => {
                    let rate = values.sliding(stored.kind, index).unwrap_or_default();
                    // What seems to have begun a moment later began now.
                    let age = (now_ms as u32).wrapping_sub(rate.began_ms);
                    let age = if age as i32 > -60_000 && (age as i32) < 0 { 0 } else { age };
                    put_number(out, u64::from(age));
                    put_number(out, u64::from(rate.current));
                    put_number(out, u64::from(rate.previous));
                }
                Shape::Name => {
                    let number = values.get_at(stored.kind, index, now_ms).unwrap_or(0);
                    told.put(out, table.name(number));
                }
            }
        }
    }
}

/// A value as a message has it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Number(u64),
    /// Its first field is how long ago the period began.
    Rate(Sliding),
    Name(Option<Arc<str>>),
}

/// An entry as a message has it. Its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    key: Vec<u8>,
    values: Vec<(Stored, u16, Value)>,
}

impl Incoming {
    /// Reads what follows the number and the deadline of an entry. `None` when it is none.
    pub fn read(&mut self, body: &[u8], definition: &Definition, heard: &mut Heard) -> Option<()> {
        let mut input = Input(body);
        let key = match definition.key_number {
            6 => input.counted()?,
            2 => input.bytes(4)?,
            _ => input.bytes(usize::try_from(definition.key_len).ok()?)?,
        };
        self.key.clear();
        self.key.extend(key);
        self.values.clear();
        for stored in &definition.data {
            for index in 0..stored.count {
                let value = match stored.kind.shape() {
                    Shape::Counter | Shape::Long => Value::Number(input.number()?),
                    Shape::Rate => {
                        // Only the lower half of each is kept, as in the reference.
                        let mut part = || Some(input.number()? as u32);
                        Value::Rate(Sliding { began_ms: part()?, current: part()?, previous: part()? })
                    }
                    Shape::Name => Value::Name(heard.read(&mut input)?),
                };
                self.values.push((*stored, index, value));
            }
        }
        Some(())
    }

    /// The bytes of its key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// It was written so long ago: its periods began earlier by that, and what is over counts nothing.
    pub fn grow_older(&mut self, by_ms: u64) {
        for (stored, _, value) in &mut self.values {
            let Value::Rate(rate) = value else { continue };
            let age_ms = u64::from(rate.began_ms) + by_ms;
            *rate = match age_ms < 2 * u64::from(stored.period_ms) {
                true => Sliding { began_ms: age_ms as u32, ..*rate },
                false => Sliding::default(),
            };
        }
    }

    /// Puts it into a table, and what it says of servers and tags into another one. The number of its entry; `None` when there was
    /// no room.
    pub fn store(
        &self,
        table: &Table,
        also: Option<&Table>,
        expires_in_ms: Option<u32>,
        now_ms: u64,
    ) -> Option<u32> {
        let kept = self.store_in(table, |_| true, expires_in_ms, now_ms);
        if let Some(also) = also {
            let tags = |kind| {
                use DataType::{Gpt, Gpt0, ServerId, ServerKey};
                matches!(kind, Gpt | Gpt0 | ServerId | ServerKey)
            };
            self.store_in(also, tags, None, now_ms);
        }
        kept
    }

    fn store_in(
        &self,
        table: &Table,
        wanted: impl Fn(DataType) -> bool,
        expires_in_ms: Option<u32>,
        now_ms: u64,
    ) -> Option<u32> {
        let key = table.spec().key.key(&self.key)?;
        let entry = table.find_or_insert(key, now_ms).ok()?;
        let values = entry.values();
        for (stored, index, value) in &self.values {
            let kind = stored.kind;
            // How many are connected is what this process knows of itself, unless it only listens.
            if !wanted(kind) || kind == DataType::ConnCur && !table.spec().recv_only {
                continue;
            }
            match value {
                Value::Number(number) => {
                    values.set_at(kind, *index, *number, now_ms);
                }
                Value::Rate(rate) => {
                    // A period of another length would make it another rate.
                    let own = table.stored(kind).or_else(|| table.stored(kind.array()?.0));
                    if own.is_some_and(|own| own.period_ms == stored.period_ms) {
                        let began_ms = (now_ms as u32).wrapping_sub(rate.began_ms);
                        values.set_sliding(kind, *index, Sliding { began_ms, ..*rate });
                    }
                }
                Value::Name(name) => {
                    let number = name.as_ref().map_or(Some(0), |name| table.name_number(name));
                    if let Some(number) = number {
                        values.set_at(kind, *index, u64::from(number), now_ms);
                    }
                }
            }
        }
        values.learnt(expires_in_ms, now_ms);
        Some(entry.number())
    }
}
