//! Pages straight from the system: zeros, of which only those that are touched take memory. The allocator's are the same only as
//! long as they are new; what it hands out again it fills with zeros, all of it.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

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
    resident_at(slice.as_ptr().cast(), size_of_val(slice))
}

/// The same of any memory that is mapped.
#[cfg(test)]
pub(crate) fn resident_at(start: *const u8, len: usize) -> usize {
    let (from, to) = (start as usize / page_len() * page_len(), start as usize + len);
    let mut pages = vec![0; (to - from).div_ceil(page_len())];
    // SAFETY: reads nothing of the memory, and writes a byte for each page.
    let result = unsafe { libc::mincore(from as *mut libc::c_void, to - from, pages.as_mut_ptr()) };
    assert_eq!(result, 0);
    pages.iter().filter(|flags| *flags & 1 != 0).count()
}

/// Returns the pages of some memory to the system, but for those that have something else, too. What was in them is lost.
///
/// # Safety
/// The memory is the caller's, of whatever allocator, and nobody else uses it.
pub(crate) unsafe fn forget(start: NonNull<u8>, len: usize) {
    let page = page_len();
    let before = start.as_ptr().align_offset(page);
    let len = len.saturating_sub(before) & !(page - 1);
    if len > 0 && !cfg!(miri) {
        // SAFETY: whole pages of that memory, which are zeros from now on. If it fails nothing happens.
        unsafe { libc::madvise(start.as_ptr().wrapping_add(before).cast(), len, libc::MADV_DONTNEED) };
    }
}

/// Bytes of a page of the system.
fn page_len() -> usize {
    static LEN: OnceLock<usize> = OnceLock::new();
    *LEN.get_or_init(|| {
        // SAFETY: asks for a number.
        let len = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(len).expect("the system has pages")
    })
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

    #[test]
    fn pages_of_what_is_forgotten_go_and_what_lies_beside_it_stays() {
        let page = page_len();
        let mut all = vec![7_u8; 8 * page];
        let begin = all.as_ptr().align_offset(page);
        for (from, to, gone) in
            [(begin + 1, begin + 2 * page - 1, 0), (begin + 2 * page - 1, begin + 5 * page + 1, 3)]
        {
            let start = NonNull::from(&mut all[from]);
            // SAFETY: of the vector, which nobody else uses.
            unsafe { forget(start, to - from) };
            assert_eq!(
                all[from..to].iter().filter(|byte| **byte == 0).count(),
                gone * page,
                "{from} to {to}"
            );
            assert!(all[..from].iter().chain(&all[to..]).all(|byte| *byte == 7));
            all.fill(7);
        }
    }
}
