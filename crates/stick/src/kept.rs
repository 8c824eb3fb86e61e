//! Entries that outlive the process (`state-dir`): tables as bytes, and back.
//!
//! What is kept is a row of blocks, each about one table. Whoever writes looks at all entries from time to time and adds a block of
//! those that changed; the row begins anew when it got long. Nothing of this is known to who uses the table: that an entry changed is
//! seen by its stamp.
//!
//! ```text
//! block:       "thalwtb1"  length of the body (4 bytes)  when, in ms since 1970 (8 bytes)  check (8 bytes)  body
//! body:        what the table is, as peers are told: its length, and that; then records
//! entry:       1  number  ms until it expires  length  key and values, as peers are told
//!              2  number  ms until it expires  ns until its bucket is full  length  key and values
//! no entry:    0  number: the entry that had this number is gone
//! ```
//!
//! Lengths and numbers are those of the peers protocol, other words are little-endian. A block can be read without those before
//! it, but for the numbers of entries that are gone. What is read is checked as what peers say is.

use xxhash_rust::xxh64::xxh64;

use crate::by_number::ByNumber;
use crate::entry::GONE;
use crate::layout::header;
use crate::peers::entry::{Definition, Heard, Incoming, Told, put_definition, put_entry};
use crate::peers::wire::{Input, put_number};
use crate::sync::Ordering;
use crate::table::Table;

const MAGIC: &[u8; 8] = b"thalwtb1";
/// Bytes before the body of a block.
pub const HEAD_LEN: usize = 28;
/// A block ends with the first record behind so many bytes.
const BLOCK_LEN: usize = 256 * 1024;
/// Longer bodies are none of ours: a record has a key of 64 kB and some 500 values at most.
const BODY_MAX: usize = 1024 * 1024;
/// Entries that are looked at for a block at most, so that whoever writes has the time of a block in hand.
const LOOKS: u32 = 1 << 20;

/// Threads read the clock now and then: who changed an entry a moment ago may change it again without its stamp being another. One
/// that was used since this long before a look is looked at again.
const SETTLED_MS: u32 = 250;

/// The kinds of records.
mod record {
    pub const GONE: u64 = 0;
    pub const ENTRY: u64 = 1;
    pub const WITH_BUCKET: u64 = 2;
}

/// What time it is.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Microseconds on the monotonic clock that the tables use.
    pub mono_us: u64,
    /// Milliseconds since 1970.
    pub wall_ms: u64,
}

impl Now {
    const fn mono_ms(self) -> u64 {
        self.mono_us / 1000
    }
}

// ---- writing ------------------------------------------------------------------------------------

/// What of a table was written: 4 bytes for each of its entries.
#[derive(Debug, Default)]
pub struct Written {
    /// By number, a mark of the entry's stamp; [`NOTHING`] where no entry was written.
    marks: Vec<u32>,
    /// The entry to be looked at next.
    next: u32,
}

/// The mark of an entry that was not written, or whose end was.
const NOTHING: u32 = 0;

/// A mark that no entry of this one has for the next twelve days: it was written, and has to be looked at again.
const fn unsettled(mark: u32) -> u32 {
    let other = mark.wrapping_add(1 << 30);
    if other == NOTHING { 1 } else { other }
}

impl Written {
    /// Adds a block of what changed since the last round to `out`, or nothing where nothing changed. True when there is more to look
    /// at: a round is over when this says false.
    pub fn block(&mut self, out: &mut Vec<u8>, table: &Table, now: Now) -> bool {
        let start = out.len();
        out.resize(start + HEAD_LEN, 0);
        let mut definition = Vec::new();
        // Which table of the process it is does not matter: blocks name theirs.
        put_definition(&mut definition, 0, &table.spec().name, table);
        put_number(out, definition.len() as u64);
        out.extend(definition);
        let before = out.len();
        let end = table.numbers().min(self.next.saturating_add(LOOKS));
        let mut told = Told::default();
        self.marks.resize(self.marks.len().max(end as usize), NOTHING);
        while self.next < end && out.len() - start < BLOCK_LEN {
            self.look(out, table, &mut told, now);
            self.next += 1;
        }
        if out.len() == before {
            out.truncate(start);
        } else {
            seal(&mut out[start..], now.wall_ms);
        }
        let has_more = self.next < table.numbers();
        if !has_more {
            self.next = 0;
        }
        has_more
    }

    /// Looks at one entry, and writes it if it changed.
    fn look(&mut self, out: &mut Vec<u8>, table: &Table, told: &mut Told, now: Now) {
        let (at, now_ms) = (self.next, now.mono_ms());
        let known = &mut self.marks[at as usize];
        let words = table.values_at(at).words.narrow;
        let stamp = words[header::STAMP].load(Ordering::Acquire);
        let mark = stamp.max(1);
        if words[header::HOLDERS].load(Ordering::Acquire) & GONE != 0 {
            if *known != NOTHING {
                put_number(out, record::GONE);
                put_number(out, u64::from(at));
                *known = NOTHING;
            }
            return;
        }
        if *known == mark {
            return;
        }
        // Its values are read after its stamp: who changes one afterwards gives the entry another stamp, too.
        let Some(entry) = table.entry_at(at) else { return };
        let values = entry.values();
        if table.is_over(values, now_ms) {
            return;
        }
        let full_ns = values.bucket_full_ns();
        put_number(out, if full_ns.is_some() { record::WITH_BUCKET } else { record::ENTRY });
        put_number(out, u64::from(at));
        put_number(out, u64::from(values.expires_in(now_ms)));
        if let Some(full_ns) = full_ns {
            put_number(out, full_ns.saturating_sub(now.mono_us * 1000));
        }
        put_counted(out, |out| put_entry(out, table, values, told, now_ms));
        let is_settled = table.is_idle_for(stamp, SETTLED_MS, now_ms);
        *known = if is_settled { mark } else { unsettled(mark) };
    }
}

/// Writes what `put` writes behind its length.
fn put_counted(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    put(out);
    let mut len = Vec::with_capacity(4);
    put_number(&mut len, (out.len() - start) as u64);
    out.splice(start..start, len);
}

/// Fills in what is before the body of a block.
fn seal(block: &mut [u8], wall_ms: u64) {
    let (head, body) = block.split_at_mut(HEAD_LEN);
    head.copy_from_slice(&Head::of(body, wall_ms).bytes());
}

// ---- reading ------------------------------------------------------------------------------------

/// What is before the body of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the body.
    pub len: usize,
    wall_ms: u64,
    check: u64,
}

impl Head {
    /// That of a body which is written at this time.
    pub fn of(body: &[u8], wall_ms: u64) -> Head {
        Head { len: body.len(), wall_ms, check: xxh64(body, wall_ms) }
    }

    /// As it is written.
    pub fn bytes(&self) -> [u8; HEAD_LEN] {
        let mut bytes = [0; HEAD_LEN];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&(self.len as u32).to_le_bytes());
        bytes[12..20].copy_from_slice(&self.wall_ms.to_le_bytes());
        bytes[20..].copy_from_slice(&self.check.to_le_bytes());
        bytes
    }

    /// Reads it. `None` when it is none.
    pub fn read(bytes: &[u8; HEAD_LEN]) -> Option<Head> {
        let (magic, rest) = bytes.split_at(MAGIC.len());
        let (len, rest) = rest.split_at(4);
        let (wall_ms, check) = rest.split_at(8);
        let len = usize::try_from(u32::from_le_bytes(len.try_into().ok()?)).ok()?;
        let word = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
        (magic == MAGIC && len <= BODY_MAX).then_some(Head {
            len,
            wall_ms: word(wall_ms)?,
            check: word(check)?,
        })
    }
}

/// What became of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its entries are in their table.
    Taken,
    /// There is no table of this name.
    NoTable(String),
    /// The table has other keys now.
    OtherKeys(String),
    /// It is not what was written.
    Broken,
}

/// Puts blocks into tables, in the order in which they were written.
#[derive(Default)]
pub struct Reader {
    /// By table and number there, the entry here.
    entries: ByNumber,
    /// By table and entry here, the number there that was the last to say something of it. A key may have moved to another number: what
    /// becomes of its former one is nothing to the entry then.
    owners: ByNumber,
    incoming: Incoming,
}

impl Reader {
    /// Takes the body of a block.
    pub fn take(&mut self, head: Head, body: &[u8], tables: &[impl AsRef<Table>], now: Now) -> Outcome {
        if Head::of(body, head.wall_ms) != head {
            return Outcome::Broken;
        }
        let mut input = Input(body);
        let Some(definition) = input.counted().and_then(Definition::read) else { return Outcome::Broken };
        let name = || String::from_utf8_lossy(&definition.name).into_owned();
        let named = |table: &Table| *table.spec().name.as_bytes() == *definition.name;
        let Some(number) = tables.iter().position(|table| named(table.as_ref())) else {
            return Outcome::NoTable(name());
        };
        let table = tables[number].as_ref();
        if !definition.fits(table) {
            return Outcome::OtherKeys(name());
        }
        let age_ms = now.wall_ms.saturating_sub(head.wall_ms);
        let mut heard = Heard::default();
        while !input.0.is_empty() {
            if self.record(&mut input, (number, table), &definition, &mut heard, (age_ms, now)).is_none() {
                return Outcome::Broken;
            }
        }
        Outcome::Taken
    }

    /// Takes one record, of `age_ms` ago. `None` when it is none.
    fn record(
        &mut self,
        input: &mut Input,
        (number, table): (usize, &Table),
        definition: &Definition,
        heard: &mut Heard,
        (age_ms, now): (u64, Now),
    ) -> Option<()> {
        let kind = input.number()?;
        let place = (number, u32::try_from(input.number()?).ok()?);
        if kind == record::GONE {
            self.forget(place, table);
            return Some(());
        }
        let left_ms = input.number()?;
        let full_in_ns = match kind {
            record::ENTRY => None,
            record::WITH_BUCKET => Some(input.number()?),
            _ => return None,
        };
        self.incoming.read(input.counted()?, definition, heard)?;
        let key = table.spec().key.key(self.incoming.key())?;
        if self.entries.get(place).is_some_and(|at| !table.is_key(at, key)) {
            self.forget(place, table);
        }
        let left_ms = u32::try_from(left_ms.saturating_sub(age_ms)).unwrap_or(u32::MAX);
        if table.spec().expire_ms > 0 && left_ms == 0 {
            return Some(());
        }
        self.incoming.grow_older(age_ms);
        // Where there is no room, there is none.
        if let Some(at) = self.incoming.store(table, None, Some(left_ms), now.mono_ms()) {
            self.entries.insert(place, at);
            self.owners.insert((number, at), place.1);
            if let Some(full_in_ns) = full_in_ns {
                let left_ns = full_in_ns.saturating_sub(age_ms.saturating_mul(1_000_000));
                table.values_at(at).set_bucket_full_ns((now.mono_us * 1000).saturating_add(left_ns));
            }
        }
        Some(())
    }

    /// The entry that was written with a number is none any more.
    fn forget(&mut self, place: (usize, u32), table: &Table) {
        let Some(at) = self.entries.remove(place) else { return };
        let (table_number, number) = place;
        if self.owners.get((table_number, at)) == Some(number)
            && let Some(entry) = table.entry_at(at)
        {
            self.owners.remove((table_number, at));
            table.remove(entry);
        }
    }
}
