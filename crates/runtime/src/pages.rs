//! Pages straight from the system: zeros, of which only those that are touched take memory. The allocator's are the same only as
//! long as they are new; what it hands out again it fills with zeros, all of it.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::{self, NonNull};

/// Zeroed pages, which go back when this is dropped.
pub(crate) struct Pages {
    start: NonNull<u8>,
    layout: Layout,
}

impl Pages {
    /// Room for so many values, which may be all zeros.
    pub(crate) fn of<T>(count: usize) -> Pages {
        let layout = Layout::array::<T>(count).expect("a constant size");
        // No page of any system is smaller, and no mapping is empty.
        assert!(layout.align() <= 4096 && layout.size() > 0);
        // SAFETY: a fresh private anonymous mapping; the result is checked.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                layout.size(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Pages { start, layout },
            _ => handle_alloc_error(layout),
        }
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// They stay for as long as the process.
    pub(crate) fn leak(self) -> NonNull<u8> {
        let start = self.start;
        std::mem::forget(self);
        start
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped in `of`, and nobody refers to them any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.layout.size()) };
    }
}

/// How many pages of a slice are in memory, those at its ends included.
#[cfg(test)]
pub(crate) fn resident<T>(slice: &[T]) -> usize {
    // SAFETY: asks for a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap();
    let range = slice.as_ptr_range();
    let start = range.start as usize / page * page;
    let mut pages = vec![0; (range.end as usize - start).div_ceil(page)];
    // SAFETY: reads nothing of the memory, and writes a byte for each page.
    let result =
        unsafe { libc::mincore(start as *mut libc::c_void, range.end as usize - start, pages.as_mut_ptr()) };
    assert_eq!(result, 0);
    pages.iter().filter(|flags| *flags & 1 != 0).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_zeros_and_those_that_are_written_take_memory() {
        // SAFETY: of this process only: a huge page would be there as a whole.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
        let pages = Pages::of::<u64>(100_000);
        // SAFETY: as many as were asked for, which may be zeros.
        let values = unsafe { std::slice::from_raw_parts_mut(pages.start().cast::<u64>().as_ptr(), 100_000) };
        assert_eq!(resident(values), 0);
        values[99_999] = 7;
        assert_eq!((values[0], values[99_999]), (0, 7));
        assert!(resident(values) <= 2);
    }
}
