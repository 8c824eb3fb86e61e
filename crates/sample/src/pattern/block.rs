//! The entries of a set of patterns, packed: one allocation for all texts, whatever their number.

use thalweg_shared::{AtomicU64, AtomicUsize, Ordering};

/// Bytes before the texts of a record: the length of the key and of the value, `u32` each.
const HEADER: usize = 8;

/// Entries that never change, but for being marked as removed.
#[derive(Debug, Default)]
pub struct Block {
    data: Box<[u8]>,
    offsets: Box<[u32]>,
    /// The rank of each entry among all of its set, which is also its stable identifier. Empty: `first`, `first + 1`...
    orders: Box<[u64]>,
    first: u64,
    removed: Box<[AtomicU64]>,
    removed_count: AtomicUsize,
}

/// Collects entries for a [`Block`].
#[derive(Debug, Default)]
pub struct BlockBuilder {
    data: Vec<u8>,
    offsets: Vec<u32>,
    orders: Vec<u64>,
    sequential: bool,
    first: u64,
}

impl BlockBuilder {
    /// A builder whose entries get consecutive ranks from `first`.
    pub fn sequential(first: u64) -> BlockBuilder {
        BlockBuilder { sequential: true, first, ..BlockBuilder::default() }
    }

    /// A builder whose entries are given with their ranks.
    pub fn ranked() -> BlockBuilder {
        BlockBuilder::default()
    }

    /// Makes room for `entries` entries of `bytes` bytes of text in all.
    pub fn reserve(&mut self, entries: usize, bytes: usize) {
        self.offsets.reserve_exact(entries);
        self.data.reserve_exact(bytes + entries * HEADER);
    }

    /// Adds an entry; false when the block is full (4 GiB).
    pub fn push(&mut self, key: &[u8], value: &[u8], order: u64) -> bool {
        let (Ok(offset), Ok(key_len), Ok(value_len)) =
            (u32::try_from(self.data.len()), u32::try_from(key.len()), u32::try_from(value.len()))
        else {
            return false;
        };
        self.offsets.push(offset);
        if !self.sequential {
            self.orders.push(order);
        }
        self.data.extend_from_slice(&key_len.to_le_bytes());
        self.data.extend_from_slice(&value_len.to_le_bytes());
        self.data.extend_from_slice(key);
        self.data.extend_from_slice(value);
        true
    }

    /// Number of entries so far.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// The block.
    pub fn build(self) -> Block {
        let words = self.offsets.len().div_ceil(64);
        Block {
            data: self.data.into_boxed_slice(),
            removed: (0..words).map(|_| AtomicU64::new(0)).collect(),
            offsets: self.offsets.into_boxed_slice(),
            orders: self.orders.into_boxed_slice(),
            first: self.first,
            removed_count: AtomicUsize::new(0),
        }
    }
}

impl Block {
    /// Number of entries, removed ones included.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    fn word(&self, at: usize) -> usize {
        self.data
            .get(at..at + 4)
            .and_then(|b| b.try_into().ok())
            .map_or(0, |b| u32::from_le_bytes(b) as usize)
    }

    /// The key of the record at `offset`.
    #[inline]
    pub fn key_at(&self, offset: u32) -> &[u8] {
        let at = offset as usize;
        let start = at + HEADER;
        self.data.get(start..start + self.word(at)).unwrap_or(&[])
    }

    /// The value of the record at `offset`.
    pub fn value_at(&self, offset: u32) -> &[u8] {
        let at = offset as usize;
        let start = at + HEADER + self.word(at);
        self.data.get(start..start + self.word(at + 4)).unwrap_or(&[])
    }

    /// The position of the record at `offset` among the entries.
    fn index_of(&self, offset: u32) -> usize {
        self.offsets.binary_search(&offset).unwrap_or(0)
    }

    /// The rank of the record at `offset`.
    pub fn order_at(&self, offset: u32) -> u64 {
        let i = self.index_of(offset);
        if self.orders.is_empty() { self.first + i as u64 } else { self.orders[i] }
    }

    /// Marks a record as removed. Readers see it at their next look.
    pub fn remove_at(&self, offset: u32) {
        let i = self.index_of(offset);
        let bit = 1 << (i % 64);
        if self.removed[i / 64].fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            self.removed_count.fetch_add(1, Ordering::Release);
        }
    }

    /// True unless the record was removed.
    #[inline]
    pub fn is_live(&self, offset: u32) -> bool {
        if self.removed_count.load(Ordering::Relaxed) == 0 {
            return true;
        }
        let i = self.index_of(offset);
        self.removed[i / 64].load(Ordering::Relaxed) >> (i % 64) & 1 == 0
    }

    /// Number of records that were not removed.
    pub fn live(&self) -> usize {
        self.len() - self.removed_count.load(Ordering::Relaxed)
    }

    /// All records, in order, removed ones included.
    pub fn records(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.offsets.iter().copied()
    }

    /// The records that were not removed, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.records().filter(|offset| self.is_live(*offset))
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.data.len() + self.offsets.len() * 4 + self.orders.len() * 8 + self.removed.len() * 8
    }
}
