//! Entries of stick tables: those that sessions and streams track, and the keys that values are.

use crate::context::Ctx;
use crate::value::{Sample, Type, Value};
use thalweg_stick::data::DataType;
use thalweg_stick::{Event, Key, KeyType, Local, Refused, Table, Tracked};

/// What a session or a stream tracks, by the number of the counter (`track-sc0` is 0). Its memory is used again from
/// stream to stream.
#[derive(Default)]
pub struct Tracking {
    slots: Vec<Option<Tracked>>,
    /// What is tracked for a limit on how many are there at once, and has no number.
    kept: Vec<Tracked>,
}

impl std::fmt::Debug for Tracking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.slots.iter().map(Option::is_some)).finish()
    }
}

impl Tracking {
    /// By number; those that were never used may be missing.
    #[inline]
    pub fn slots(&self) -> &[Option<Tracked>] {
        &self.slots
    }

    /// Tracks an entry as counter `slot`.
    #[inline]
    pub fn set(&mut self, slot: usize, tracked: Tracked) {
        // Counters are mostly used in their order.
        match slot == self.slots.len() {
            true => self.slots.push(Some(tracked)),
            false => self.set_out_of_order(slot, tracked),
        }
    }

    #[inline(never)]
    fn set_out_of_order(&mut self, slot: usize, tracked: Tracked) {
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(tracked);
    }

    /// Tracks an entry until everything is let go, without a number.
    pub fn keep(&mut self, tracked: Tracked) {
        self.kept.push(tracked);
    }

    /// Counts the last events on all that have a number, as [`Tracked::end`] does, and lets everything go.
    #[inline(always)]
    pub fn end<const N: usize>(&mut self, events: [(Event, u64); N], now_ms: u64) {
        while let Some(slot) = self.slots.pop() {
            if let Some(tracked) = slot {
                tracked.end(events, now_ms);
            }
        }
        if !self.kept.is_empty() {
            self.kept.clear();
        }
    }

    /// Lets everything go.
    #[inline]
    pub fn clear(&mut self) {
        self.slots.clear();
        self.kept.clear();
    }
}

/// Counts events and their amounts on all entries of `slots`: see [`Tracked::count`].
pub fn count<const N: usize>(slots: &[Option<Tracked>], events: [(Event, u64); N], now_ms: u64) {
    for tracked in slots.iter().flatten() {
        tracked.count(events, now_ms);
    }
}

/// The type that values are cast to before they are keys of a kind.
pub const fn key_type(kind: KeyType) -> Type {
    match kind {
        KeyType::Ip4 => Type::Ip4,
        KeyType::Ip6 => Type::Ip6,
        KeyType::Integer => Type::Int,
        KeyType::String(_) => Type::Str,
        KeyType::Binary(_) => Type::Bin,
    }
}

/// Calls `with` with the key of `table` that a sample is. `None` when it is none.
pub fn with_key<R>(
    sample: &mut Sample,
    table: &Table,
    cx: &mut Ctx,
    with: impl FnOnce(Key) -> R,
) -> Option<R> {
    let kind = table.spec().key;
    if !sample.cast(key_type(kind), cx) {
        return None;
    }
    match sample.value {
        Value::Ip4(ip) => kind.key(&ip.octets()).map(with),
        Value::Ip6(ip) => kind.key(&ip.octets()).map(with),
        // The lower 32 bits, as the reference keeps them.
        Value::Int(n) => kind.key(&(n as u32).to_be_bytes()).map(with),
        Value::Str(text) | Value::Bin(text) | Value::Method(text) => kind.key(cx.text(text)).map(with),
        Value::Bool(_) => None,
    }
}

impl Ctx<'_> {
    /// The entry that is tracked as counter `slot`, by the stream or else by the session.
    pub fn tracked(&self, slot: usize) -> Option<&Tracked> {
        let of_stream = self.stream.as_ref().and_then(|stream| stream.tracking.slots().get(slot)?.as_ref());
        of_stream.or_else(|| self.session.tracking().get(slot)?.as_ref())
    }

    /// Milliseconds on the clock that tables use.
    pub fn now_ms(&self) -> u64 {
        self.clock.mono_us / 1000
    }

    /// Tracks the entry of `table` that a sample is the key of, as counter `slot` of the stream, or of the session where
    /// there is no stream yet. The entry is made if there is none; when the table has no room nothing is tracked.
    pub fn track(&mut self, slot: usize, table: &Local, mut sample: Sample, of_session: bool) {
        let (now_ms, event) = (self.now_ms(), self.event_of_tracking(of_session));
        let tracked = with_key(&mut sample, table, self, |key| table.track(key, event, now_ms));
        self.set_tracked(slot, tracked, of_session);
    }

    fn event_of_tracking(&self, of_session: bool) -> Event {
        match &self.stream {
            Some(stream) if stream.is_http && !of_session => Event::TrackedByRequest,
            _ => Event::Tracked,
        }
    }

    fn set_tracked(&mut self, slot: usize, tracked: Option<Result<Tracked, Refused>>, of_session: bool) {
        let Some(Ok(tracked)) = tracked else { return };
        match self.stream.as_deref_mut().filter(|_| !of_session) {
            Some(stream) => stream.tracking.set(slot, tracked),
            None => self.session.tracking_mut().set(slot, tracked),
        }
    }
}

/// What may be asked of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A counter, a tag, a rate.
    Value(DataType),
    /// Bytes, in kilobytes.
    Kilobytes(DataType),
    /// A counter or rate, summed over all peers of a fleet.
    Sum(DataType),
    /// Bytes, in kilobytes, summed over them.
    SumOfKilobytes(DataType),
    /// An element of an array, summed over them.
    SumOfElement(DataType),
    /// An element of an array.
    Element(DataType),
    /// Adds one to a counter of general purpose, and its rate.
    Count(DataType, DataType),
    /// The same of an element.
    CountElement,
    /// Sets a counter of general purpose to zero; what it was.
    Clear(DataType),
    /// The same of an element.
    ClearElement,
    /// Adds one to the number of connections.
    CountConnection,
    /// Who tracks it.
    Trackers,
}

impl Ask {
    /// True when it says which element.
    pub const fn has_index(self) -> bool {
        matches!(self, Ask::Element(_) | Ask::SumOfElement(_) | Ask::CountElement | Ask::ClearElement)
    }

    /// What is summed over the peers of a fleet.
    const fn sum(self) -> Option<DataType> {
        match self {
            Ask::Sum(kind) | Ask::SumOfKilobytes(kind) | Ask::SumOfElement(kind) => Some(kind),
            _ => None,
        }
    }

    /// A value as it is answered.
    const fn scaled(self, value: u64) -> u64 {
        match self {
            Ask::Kilobytes(_) | Ask::SumOfKilobytes(_) => value >> 10,
            _ => value,
        }
    }

    /// True when it changes the entry, which is made for it if there is none.
    pub const fn changes(self) -> bool {
        matches!(
            self,
            Ask::Count(..) | Ask::CountElement | Ask::Clear(_) | Ask::ClearElement | Ask::CountConnection
        )
    }

    /// The answer of an entry. `None` when the table does not store what is asked for; of no entry, that is not known, and it is 0 but
    /// for who would count a connection there.
    pub fn answer(self, index: u16, values: Option<thalweg_stick::Values>, now_ms: u64) -> Option<i64> {
        let Some(values) = values else { return (self != Ask::CountConnection).then_some(0) };
        let count = |counter: DataType, rate: DataType| {
            let rate = values.add_at(rate, index, 1, now_ms).and_then(|_| values.get_at(rate, index, now_ms));
            // Where there is no counter, its rate says how often it was asked.
            values.add_at(counter, index, 1, now_ms).or(rate).unwrap_or(0)
        };
        let answer = match self {
            Ask::Value(kind) => values.get(kind, now_ms)?,
            Ask::Kilobytes(kind) => self.scaled(values.get(kind, now_ms)?),
            Ask::Sum(kind) | Ask::SumOfKilobytes(kind) | Ask::SumOfElement(kind) => {
                self.scaled(values.sum_at(kind, index, now_ms)?)
            }
            Ask::Element(kind) => values.get_at(kind, index, now_ms)?,
            Ask::Count(counter, rate) => count(counter, rate),
            Ask::CountElement => count(DataType::Gpc, DataType::GpcRate),
            Ask::Clear(counter) => u64::from(values.swap_at(counter, 0, 0)?),
            Ask::ClearElement => u64::from(values.swap_at(DataType::Gpc, index, 0)?),
            Ask::CountConnection => values.add_at(DataType::ConnCnt, 0, 1, now_ms)?,
            Ask::Trackers => u64::from(values.trackers()),
        };
        Some(i64::try_from(answer).unwrap_or(i64::MAX))
    }

    /// The answer of the entry that a sample is the key of. What cannot be a key of the table has no entry, nor has a key without room.
    pub fn of_key(self, index: u16, mut sample: Sample, table: &Table, cx: &mut Ctx) -> Option<i64> {
        let now_ms = cx.now_ms();
        let answer = with_key(&mut sample, table, cx, |key| {
            if self.changes() {
                let Ok(entry) = table.find_or_insert(key, now_ms) else {
                    return self.answer(index, None, now_ms);
                };
                entry.touch(now_ms);
                self.answer(index, Some(entry.values()), now_ms)
            } else if let Some(kind) = self.sum() {
                // Others may have seen a key that this process has not.
                i64::try_from(self.scaled(table.sum(key, kind, index, now_ms)?)).ok()
            } else {
                let found = table.read(key, now_ms, |values| self.answer(index, Some(values), now_ms));
                found.unwrap_or_else(|| self.answer(index, None, now_ms))
            }
        });
        answer.unwrap_or_else(|| self.answer(index, None, now_ms))
    }
}
