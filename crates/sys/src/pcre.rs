//! Regular expressions by PCRE2, with what the `pcre2` crate does not offer: a bound on the steps of a match, the
//! option that the subject does not begin a line, and memory for captures that is not allocated for each match.

use pcre2_sys as ffi;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// A compiled expression over bytes.
pub struct Pcre {
    code: NonNull<ffi::pcre2_code_8>,
}

// SAFETY: after `new` the code is only read; PCRE2 documents compiled code as shareable between threads.
unsafe impl Send for Pcre {}
// SAFETY: as above.
unsafe impl Sync for Pcre {}

/// Why an expression was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcreError {
    /// What PCRE2 said.
    pub message: String,
    /// Where in the expression, in bytes.
    pub offset: usize,
}

impl fmt::Display for PcreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.message, self.offset)
    }
}

impl std::error::Error for PcreError {}

/// A match was given up because it took too many steps or too much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaveUp;

/// Memory for the captures of one match at a time; one per thread.
pub struct PcreMemory {
    data: NonNull<ffi::pcre2_match_data_8>,
    context: NonNull<ffi::pcre2_match_context_8>,
    stack: *mut ffi::pcre2_jit_stack_8,
    groups: usize,
    // The memory is written by matches: it belongs to one thread at a time.
    not_sync: PhantomData<*mut ()>,
}

// SAFETY: the pointers are owned by this value alone, and PCRE2 ties nothing to the thread that created them.
unsafe impl Send for PcreMemory {}

impl Pcre {
    /// Compiles `pattern`, to machine code where the library can.
    ///
    /// # Errors
    /// What is wrong with the pattern, and where.
    pub fn new(pattern: &[u8], case_sensitive: bool) -> Result<Pcre, PcreError> {
        let options = if case_sensitive { 0 } else { ffi::PCRE2_CASELESS };
        let (mut error, mut offset) = (0, 0);
        // SAFETY: the pattern is valid for its length, both out-pointers are valid, a null context means defaults.
        let code = unsafe {
            ffi::pcre2_compile_8(
                pattern.as_ptr(),
                pattern.len(),
                options,
                &mut error,
                &mut offset,
                ptr::null_mut(),
            )
        };
        let Some(code) = NonNull::new(code) else {
            return Err(PcreError { message: error_text(error), offset });
        };
        // SAFETY: `code` was just compiled and is not shared yet. Failing only means a slower match.
        unsafe { ffi::pcre2_jit_compile_8(code.as_ptr(), ffi::PCRE2_JIT_COMPLETE) };
        Ok(Pcre { code })
    }

    /// Looks for the first match in `subject` and leaves the positions of its groups in `memory`. With `not_bol`,
    /// `^` does not match at the start of the subject.
    ///
    /// # Errors
    /// The match took more than the steps or memory that `memory` allows.
    pub fn find(&self, subject: &[u8], not_bol: bool, memory: &mut PcreMemory) -> Result<bool, GaveUp> {
        let options = if not_bol { ffi::PCRE2_NOTBOL } else { 0 };
        // SAFETY: the code lives as long as `self`; the subject is valid for its length; the match data and context are
        // owned by `memory`, which is borrowed mutably, so that no other match uses them.
        let found = unsafe {
            ffi::pcre2_match_8(
                self.code.as_ptr(),
                subject.as_ptr(),
                subject.len(),
                0,
                options,
                memory.data.as_ptr(),
                memory.context.as_ptr(),
            )
        };
        match found {
            // Zero: a match with more groups than there is room for.
            0 => {
                // SAFETY: the match data is owned by `memory`.
                memory.groups = unsafe { ffi::pcre2_get_ovector_count_8(memory.data.as_ptr()) } as usize;
                Ok(true)
            }
            n if n > 0 => {
                memory.groups = usize::try_from(n).unwrap_or(0);
                Ok(true)
            }
            ffi::PCRE2_ERROR_NOMATCH => {
                memory.groups = 0;
                Ok(false)
            }
            _ => {
                memory.groups = 0;
                Err(GaveUp)
            }
        }
    }
}

impl Drop for Pcre {
    fn drop(&mut self) {
        // SAFETY: the code is owned by this value and not used after it.
        unsafe { ffi::pcre2_code_free_8(self.code.as_ptr()) };
    }
}

impl fmt::Debug for Pcre {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pcre")
    }
}

fn error_text(error: i32) -> String {
    let mut text = [0u8; 256];
    // SAFETY: `text` is writable for its length.
    let len = unsafe { ffi::pcre2_get_error_message_8(error, text.as_mut_ptr(), text.len()) };
    String::from_utf8_lossy(&text[..usize::try_from(len).unwrap_or(0).min(text.len())]).into_owned()
}

impl PcreMemory {
    /// Memory for up to `groups` groups, the whole match included. A match is given up after `steps` steps (PCRE2's match
    /// limit).
    ///
    /// # Panics
    /// When there is no memory.
    pub fn new(groups: u32, steps: u32) -> PcreMemory {
        // SAFETY: null contexts mean the default allocator. The results are checked before use, the context is not
        // shared yet, and the stack given to it lives until `drop`, which frees it after the context.
        unsafe {
            let data = NonNull::new(ffi::pcre2_match_data_create_8(groups, ptr::null_mut()));
            let context = NonNull::new(ffi::pcre2_match_context_create_8(ptr::null_mut()));
            let (Some(data), Some(context)) = (data, context) else {
                panic!("no memory for regular expressions");
            };
            ffi::pcre2_set_match_limit_8(context.as_ptr(), steps);
            // Null when the library has no JIT; assigning it then changes nothing.
            let stack = ffi::pcre2_jit_stack_create_8(32 * 1024, 512 * 1024, ptr::null_mut());
            ffi::pcre2_jit_stack_assign_8(context.as_ptr(), None, stack.cast());
            PcreMemory { data, context, stack, groups: 0, not_sync: PhantomData }
        }
    }

    /// Start and end of group `i` of the last match, when it took part in it.
    pub fn group(&self, i: usize) -> Option<(usize, usize)> {
        if i >= self.groups {
            return None;
        }
        // SAFETY: the vector has two entries for each of at least `groups` groups, and the last match filled them.
        let (start, end) = unsafe {
            let vector = ffi::pcre2_get_ovector_pointer_8(self.data.as_ptr());
            (*vector.add(2 * i), *vector.add(2 * i + 1))
        };
        // A group that did not take part has both set to the largest number. A lookaround with \K may make the start
        // larger than the end.
        (start != usize::MAX && start <= end).then_some((start, end))
    }
}

impl Drop for PcreMemory {
    fn drop(&mut self) {
        // SAFETY: all three are owned by this value and not used after it; freeing a null stack is allowed.
        unsafe {
            ffi::pcre2_match_data_free_8(self.data.as_ptr());
            ffi::pcre2_match_context_free_8(self.context.as_ptr());
            ffi::pcre2_jit_stack_free_8(self.stack);
        }
    }
}

impl fmt::Debug for PcreMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PcreMemory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_line_starts() {
        let mut memory = PcreMemory::new(10, 1_000_000);
        let re = Pcre::new(b"^(a)|(b)", true).unwrap();
        assert_eq!(re.find(b"ab", false, &mut memory), Ok(true));
        assert_eq!((memory.group(0), memory.group(1), memory.group(2)), (Some((0, 1)), Some((0, 1)), None));
        assert_eq!(re.find(b"ab", true, &mut memory), Ok(true));
        assert_eq!((memory.group(0), memory.group(1), memory.group(2)), (Some((1, 2)), None, Some((1, 2))));
        assert_eq!(memory.group(3), None);
        assert_eq!(re.find(b"A", false, &mut memory), Ok(false));
        assert_eq!(Pcre::new(b"^a$", false).unwrap().find(b"A", false, &mut memory), Ok(true));
    }

    #[test]
    fn more_groups_than_room() {
        let mut memory = PcreMemory::new(2, 1_000_000);
        let re = Pcre::new(b"(a)(b)(c)", true).unwrap();
        assert_eq!(re.find(b"xabc", false, &mut memory), Ok(true));
        assert_eq!((memory.group(0), memory.group(1), memory.group(2)), (Some((1, 4)), Some((1, 2)), None));
    }

    #[test]
    fn errors_say_where() {
        let error = Pcre::new(b"(", true).unwrap_err();
        assert_eq!((error.message.as_str(), error.offset), ("missing closing parenthesis", 1));
    }

    #[test]
    fn steps_are_bounded() {
        let mut memory = PcreMemory::new(1, 10_000);
        let re = Pcre::new(b"^(a+)+$", true).unwrap();
        let mut subject = vec![b'a'; 60];
        subject.push(b'b');
        assert_eq!(re.find(&subject, false, &mut memory), Err(GaveUp));
        assert_eq!(re.find(b"aaa", false, &mut memory), Ok(true), "the memory is still good");
    }
}
