//! What a buffer is besides its bytes: which block it has, and what of that is readable.
//!
//! It lies apart, so that a buffer is one pointer. Buffers go from the driver to a connection, to a pump and back many times per
//! request, mostly right after something of them changed, and what was written a moment ago in pieces is slow to read as a whole.

use super::Origin;
use std::cell::RefCell;
use std::ptr::NonNull;

/// See the module's documentation: `start..end` of a block of `cap` bytes is readable.
pub(super) struct Part {
    pub ptr: NonNull<u8>,
    pub start: u32,
    pub end: u32,
    pub cap: u32,
    pub origin: Origin,
}

/// So many are kept for reuse, per thread. A request has some four at once, and a round of the loop some forty requests.
const SPARE_MAX: usize = 256;

thread_local! {
    // Boxed, as they are where buffers point to.
    #[allow(clippy::vec_box)]
    static SPARE: RefCell<Vec<Box<Part>>> = const { RefCell::new(Vec::new()) };
}

/// Memory that was used before, or new.
#[inline]
pub(super) fn take(part: Part) -> Box<Part> {
    match SPARE.try_with(|spare| spare.borrow_mut().pop()) {
        Ok(Some(mut used)) => {
            *used = part;
            used
        }
        _ => Box::new(part),
    }
}

/// Keeps the memory for the next one.
#[inline]
pub(super) fn give(part: Box<Part>) {
    // Without a place for it (the thread ends) it is freed.
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < SPARE_MAX {
            spare.push(part);
        }
    });
}

/// Gives all that is kept to the allocator.
pub(super) fn trim() {
    let _ = SPARE.try_with(|spare| drop(std::mem::take(&mut *spare.borrow_mut())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buf;

    fn kept() -> usize {
        SPARE.with(|spare| spare.borrow().len())
    }

    #[test]
    fn what_a_buffer_leaves_is_taken_by_the_next_one_and_bounded() {
        trim();
        let first = Buf::copy_of(b"first");
        assert_eq!(kept(), 0);
        drop(first);
        assert_eq!(kept(), 1);
        let second = Buf::copy_of(b"another");
        assert_eq!((&second[..], kept()), (&b"another"[..], 0));
        drop((0..2 * SPARE_MAX).map(|_| Buf::empty()).collect::<Vec<_>>());
        assert_eq!(kept(), SPARE_MAX);
        trim();
        assert_eq!((kept(), &second[..]), (0, &b"another"[..]));
    }
}
