//! Where the fields with well-known names are.

use crate::header_id::{COUNT, HeaderId, IdSet};

/// The first field with each well-known name. A field that was removed is still in it, as its place is: it says where to
/// begin to look, and for which names there is no need to.
#[derive(Clone)]
pub(super) struct Index {
    /// Names that fields have.
    present: IdSet,
    /// Names that several fields have.
    repeated: IdSet,
    /// The first field with each name that is `present`.
    first: [u16; COUNT],
}

impl Index {
    pub fn new() -> Index {
        Index { present: IdSet::default(), repeated: IdSet::default(), first: [0; COUNT] }
    }

    pub fn clear(&mut self) {
        self.present = IdSet::default();
        self.repeated = IdSet::default();
    }

    /// The field at `place`, which is behind those noted before, has this name.
    #[inline]
    pub fn note(&mut self, id: HeaderId, place: usize) {
        if id == HeaderId::Other {
            return;
        }
        if self.present.insert(id) {
            self.first[id as usize] = place as u16;
        } else {
            self.repeated.insert(id);
        }
    }

    /// Whether some field has or had this name.
    #[inline]
    pub fn has(&self, id: HeaderId) -> bool {
        self.present.has(id)
    }

    /// The place of the one field that has or had this name.
    #[inline]
    pub fn only(&self, id: HeaderId) -> Option<usize> {
        (self.present.has(id) && !self.repeated.has(id)).then(|| usize::from(self.first[id as usize]))
    }

    /// Where to look for a field with this name whose place is at least `from`; `None` when there is none.
    #[inline]
    pub fn place(&self, id: HeaderId, from: usize) -> Option<usize> {
        if !self.present.has(id) {
            return None;
        }
        let first = usize::from(self.first[id as usize]);
        (from <= first || self.repeated.has(id)).then_some(first.max(from))
    }
}
