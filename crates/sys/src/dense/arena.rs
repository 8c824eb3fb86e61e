//! Blocks in pages of 4 kB, and the pages. Whoever has an arena has all of it.

use std::alloc::Layout;
use std::ptr::{self, NonNull};

use super::system;

/// Bytes of a page: the least that the system takes back.
pub(super) const PAGE: usize = 4096;
/// Pages of a chunk, the first of which has the notes of all of them.
const CHUNK_PAGES: usize = 256;
/// Bytes of a chunk, a multiple of any system's pages.
pub(super) const CHUNK: usize = CHUNK_PAGES * PAGE;
/// Most chunks of an arena: 16 GB.
const CHUNKS: usize = if cfg!(any(test, miri)) { 1 << 6 } else { 1 << 14 };
/// Addresses of an arena.
pub(super) const ARENA: usize = CHUNKS * CHUNK;
/// Who needs more at once has mimalloc map it: it goes back to the system by itself.
pub(super) const MOST: usize = (CHUNK_PAGES - 1) * PAGE;
/// Former pages are filled up again, rather than left until they are empty, when what is free in pages is more than this.
const WASTE: usize = 1 << 20;

/// Bytes of blocks that share a page.
pub(super) const SIZES: [usize; 20] =
    [32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 816, 1024, 1360, 2048];
/// Largest of them.
pub(super) const SMALL: usize = SIZES[SIZES.len() - 1];
/// By bytes, in steps of 16: the least of [`SIZES`] that has room.
const CLASSES: [u8; SMALL / 16 + 1] = {
    let mut classes = [0; SMALL / 16 + 1];
    let (mut at, mut class) = (0, 0);
    while at < classes.len() {
        if at * 16 > SIZES[class] {
            class += 1;
        }
        classes[at] = class as u8;
        at += 1;
    }
    classes
};

/// A page, by its number in the arena.
type PageNumber = u32;

/// What a page is used for.
#[repr(C)]
struct Note {
    kind: Kind,
    /// Of blocks: the list that it is in.
    list: List,
    /// [`Arena::generation`] when one of its blocks was last allocated.
    generation: u8,
    /// Blocks that are in use; of one block, its pages.
    used: u8,
    /// The first block that was used and freed, counted from 1; 0 if there is none. It has the next one in its first byte.
    freed: u8,
    /// Blocks behind were never used.
    begun: u8,
    class: u8,
    next: PageNumber,
    before: PageNumber,
}

const _: () = assert!(size_of::<Note>() * CHUNK_PAGES == PAGE);

/// All zeros are a page that is free.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Free = 0,
    /// Blocks of one of [`SIZES`].
    Small,
    /// The first page of a larger block.
    Large,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum List {
    None = 0,
    /// Blocks are allocated here.
    Now,
    /// What is in it was there before somebody [began anew](Arena::begin_anew).
    Former,
}

/// Pages of a chunk, a bit for each.
type Bits = [u64; CHUNK_PAGES / 64];
const NO_PAGE: Bits = [0; CHUNK_PAGES / 64];
/// All but the one with the notes.
const EVERY_PAGE: Bits = [!1, !0, !0, !0];

fn is_set(bits: &Bits, at: usize) -> bool {
    bits[at / 64] & (1 << (at % 64)) != 0
}

fn set(bits: &mut Bits, range: std::ops::Range<usize>, value: bool) {
    for at in range {
        match value {
            true => bits[at / 64] |= 1 << (at % 64),
            false => bits[at / 64] &= !(1 << (at % 64)),
        }
    }
}

/// The first so many neighbours of those that are set.
fn find(bits: &Bits, count: usize) -> Option<usize> {
    if count == 1 {
        let word = bits.iter().position(|word| *word != 0)?;
        return Some(word * 64 + bits[word].trailing_zeros() as usize);
    }
    if (bits.iter().map(|word| word.count_ones()).sum::<u32>() as usize) < count {
        return None;
    }
    let mut len = 0;
    (0..CHUNK_PAGES).find_map(|at| {
        len = if is_set(bits, at) { len + 1 } else { 0 };
        (len == count).then(|| at + 1 - count)
    })
}

/// All blocks of one purpose.
pub(super) struct Arena {
    /// Null until it is first used.
    base: *mut u8,
    /// Chunks before have no free page.
    lowest: usize,
    /// Chunks behind are closed.
    end: usize,
    /// Those before that are closed.
    closed: usize,
    /// Counts how often somebody began anew.
    generation: u8,
    /// By class: the first page of [`List::Now`] and of [`List::Former`] that has room; 0 if there is none, as that has notes.
    lists: [[PageNumber; 2]; SIZES.len()],
    /// Bytes of pages of blocks that share them, and those of the blocks.
    shared: usize,
    used: usize,
    is_open: [bool; CHUNKS],
    free: [Bits; CHUNKS],
    /// Of those that are free: written since they came from the system.
    dirty: [Bits; CHUNKS],
}

// SAFETY: its pointer is to memory of its own, which whoever has the lock may use.
unsafe impl Send for Arena {}

impl Arena {
    pub(super) const fn new() -> Arena {
        Arena {
            base: ptr::null_mut(),
            lowest: 0,
            end: 0,
            closed: 0,
            generation: 0,
            lists: [[0; 2]; SIZES.len()],
            shared: 0,
            used: 0,
            is_open: [false; CHUNKS],
            free: [NO_PAGE; CHUNKS],
            dirty: [NO_PAGE; CHUNKS],
        }
    }

    /// Whether it has addresses.
    pub(super) fn has_begun(&self) -> bool {
        !self.base.is_null()
    }

    /// Gives it its addresses: [`ARENA`] of a reserved region, from a multiple of [`CHUNK`] on, of which nobody else uses any.
    pub(super) fn begin(&mut self, base: *mut u8) {
        self.base = base;
    }

    /// A block, and whether it is all zeros. None where the system has no memory for it. It needs to have begun, and the layout is not
    /// empty, takes at most [`MOST`] bytes and is aligned to at most a page.
    pub(super) fn alloc(&mut self, layout: Layout) -> Option<(NonNull<u8>, bool)> {
        match class(layout) {
            Some(class) => self.alloc_small(class).map(|block| (block, false)),
            None => self.alloc_large(layout.size().div_ceil(PAGE)),
        }
    }

    fn alloc_small(&mut self, class: usize) -> Option<NonNull<u8>> {
        let size = SIZES[class];
        let page = match self.lists[class][0] {
            0 => {
                let (page, _) = self.take_pages(1)?;
                let generation = self.generation;
                *self.note(page) = Note {
                    kind: Kind::Small,
                    list: List::None,
                    generation,
                    used: 0,
                    freed: 0,
                    begun: 0,
                    class: class as u8,
                    next: 0,
                    before: 0,
                };
                self.shared += PAGE;
                self.link(page, List::Now);
                page
            }
            page => page,
        };
        let at = self.page(page);
        let generation = self.generation;
        let note = self.note(page);
        note.generation = generation;
        note.used += 1;
        let is_full = usize::from(note.used) == PAGE / size;
        let number = match note.freed {
            0 => {
                note.begun += 1;
                usize::from(note.begun) - 1
            }
            freed => usize::from(freed) - 1,
        };
        // A block of this page: as many of them have room.
        let block = at.wrapping_add(number * size);
        if note.freed != 0 {
            // SAFETY: it is free, and its first byte was written when it was freed.
            note.freed = unsafe { block.read() };
        }
        if is_full {
            self.unlink(page);
        }
        self.used += size;
        NonNull::new(block)
    }

    fn alloc_large(&mut self, pages: usize) -> Option<(NonNull<u8>, bool)> {
        let (page, is_zero) = self.take_pages(pages)?;
        let note = self.note(page);
        (note.kind, note.used) = (Kind::Large, pages as u8);
        NonNull::new(self.page(page)).map(|block| (block, is_zero))
    }

    /// Frees a block. It must be one of this arena, and nobody may use it any more.
    pub(super) unsafe fn free(&mut self, block: *mut u8) {
        let at = block.addr() - self.base.addr();
        let page = (at / PAGE) as PageNumber;
        let generation = self.generation;
        let note = self.note(page);
        if note.kind == Kind::Large {
            let pages = usize::from(note.used);
            return self.free_pages(page, pages);
        }
        let size = SIZES[usize::from(note.class)];
        // SAFETY: nobody uses it, and no block is smaller than a byte.
        unsafe { block.write(note.freed) };
        note.freed = (at % PAGE / size) as u8 + 1;
        note.used -= 1;
        let is_former = note.generation != generation;
        let (is_empty, is_linked) = (note.used == 0, note.list != List::None);
        self.used -= size;
        match (is_empty, is_linked) {
            (true, _) => {
                if is_linked {
                    self.unlink(page);
                }
                self.shared -= PAGE;
                self.free_pages(page, 1);
            }
            (false, false) => self.link(page, if is_former { List::Former } else { List::Now }),
            (false, true) => {}
        }
    }

    /// How many bytes of it may be used, which are at least as many as were asked for.
    pub(super) fn room(&mut self, block: *mut u8) -> usize {
        let page = ((block.addr() - self.base.addr()) / PAGE) as PageNumber;
        let note = self.note(page);
        match note.kind {
            Kind::Large => usize::from(note.used) * PAGE,
            _ => SIZES[usize::from(note.class)],
        }
    }

    /// So many neighbours, and whether they are all zeros.
    fn take_pages(&mut self, count: usize) -> Option<(PageNumber, bool)> {
        let found = |arena: &Arena, chunk: usize| find(&arena.free[chunk], count).map(|at| (chunk, at));
        let (chunk, at) = match (self.lowest..self.end).find_map(|chunk| found(self, chunk)) {
            Some(found) => found,
            None => {
                let chunk = self.open()?;
                found(self, chunk)?
            }
        };
        if count == 1 {
            self.lowest = chunk;
        }
        let is_zero = (at..at + count).all(|at| !is_set(&self.dirty[chunk], at));
        set(&mut self.free[chunk], at..at + count, false);
        set(&mut self.dirty[chunk], at..at + count, false);
        Some(((chunk * CHUNK_PAGES + at) as PageNumber, is_zero))
    }

    fn free_pages(&mut self, page: PageNumber, count: usize) {
        self.note(page).kind = Kind::Free;
        let (chunk, at) = (page as usize / CHUNK_PAGES, page as usize % CHUNK_PAGES);
        set(&mut self.free[chunk], at..at + count, true);
        set(&mut self.dirty[chunk], at..at + count, true);
        self.lowest = self.lowest.min(chunk);
    }

    /// Opens another chunk, the first of those that are closed.
    fn open(&mut self) -> Option<usize> {
        let chunk = match self.closed {
            0 => self.end,
            _ => (0..self.end).find(|chunk| !self.is_open[*chunk])?,
        };
        if chunk == CHUNKS || !system::open(self.chunk(chunk), CHUNK) {
            return None;
        }
        if chunk == self.end {
            self.end += 1;
        } else {
            self.closed -= 1;
        }
        self.is_open[chunk] = true;
        self.free[chunk] = EVERY_PAGE;
        self.dirty[chunk] = NO_PAGE;
        self.lowest = self.lowest.min(chunk);
        Some(chunk)
    }

    /// Returns pages that are free to the system.
    pub(super) fn give_back(&mut self) {
        for chunk in 0..self.end {
            if self.free[chunk] == EVERY_PAGE {
                if system::close(self.chunk(chunk), CHUNK) {
                    self.is_open[chunk] = false;
                    self.free[chunk] = NO_PAGE;
                    self.dirty[chunk] = NO_PAGE;
                    self.closed += 1;
                }
                continue;
            }
            // Where pages of the system are larger, those go back that are free as a whole.
            let step = system::page_len().max(PAGE) / PAGE;
            let mut begin = 0;
            while begin < CHUNK_PAGES {
                let is_left = |at: &usize| (*at..at + step).all(|at| is_set(&self.dirty[chunk], at));
                let len = (begin..CHUNK_PAGES).step_by(step).take_while(is_left).count() * step;
                let start = self.chunk(chunk).wrapping_add(begin * PAGE);
                if len > 0 && system::give_back(start, len * PAGE) {
                    set(&mut self.dirty[chunk], begin..begin + len, false);
                }
                begin += len + step;
            }
        }
        while self.end > 0 && !self.is_open[self.end - 1] {
            self.end -= 1;
            self.closed -= 1;
        }
        self.lowest = 0;
    }

    /// See [`super::begin_anew`].
    pub(super) fn begin_anew(&mut self) {
        let (from, to) = match self.shared - self.used > WASTE.max(self.used / 2) {
            true => (List::Former, List::Now),
            false => {
                self.generation = self.generation.wrapping_add(1);
                (List::Now, List::Former)
            }
        };
        for class in 0..SIZES.len() {
            loop {
                let page = self.lists[class][from as usize - 1];
                if page == 0 {
                    break;
                }
                self.unlink(page);
                self.link(page, to);
            }
        }
    }

    fn link(&mut self, page: PageNumber, list: List) {
        let class = usize::from(self.note(page).class);
        let first = std::mem::replace(&mut self.lists[class][list as usize - 1], page);
        let note = self.note(page);
        (note.list, note.before, note.next) = (list, 0, first);
        if first != 0 {
            self.note(first).before = page;
        }
    }

    fn unlink(&mut self, page: PageNumber) {
        let note = self.note(page);
        let (class, before, next) = (usize::from(note.class), note.before, note.next);
        let list = std::mem::replace(&mut note.list, List::None);
        match before {
            0 => self.lists[class][list as usize - 1] = next,
            before => self.note(before).next = next,
        }
        if next != 0 {
            self.note(next).before = before;
        }
    }

    fn chunk(&self, chunk: usize) -> *mut u8 {
        self.base.wrapping_add(chunk * CHUNK)
    }

    fn page(&self, page: PageNumber) -> *mut u8 {
        self.base.wrapping_add(page as usize * PAGE)
    }

    /// Of a page in a chunk that is open.
    fn note(&mut self, page: PageNumber) -> &mut Note {
        let (chunk, at) = (page as usize / CHUNK_PAGES, page as usize % CHUNK_PAGES);
        debug_assert!(self.is_open[chunk]);
        // SAFETY: the first page of an open chunk has room for a note of each page, is aligned for them, and began as zeros, which
        // are a note. Only who has the arena looks at them.
        unsafe { &mut *self.chunk(chunk).cast::<Note>().add(at) }
    }
}

/// The least of [`SIZES`] for it. None if it has pages of its own.
pub(super) fn class(layout: Layout) -> Option<usize> {
    let (size, align) = (layout.size(), layout.align());
    // Blocks of a power of two begin at multiples of it.
    let size = if align > 16 { size.max(align).next_power_of_two() } else { size };
    (size <= SMALL).then(|| usize::from(CLASSES[size.div_ceil(16)]))
}

#[cfg(test)]
pub(super) mod tests;
