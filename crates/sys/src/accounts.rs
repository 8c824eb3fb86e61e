//! Names of users and groups of the system.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::ptr;

/// A record longer than this is treated as absent.
const RECORD_MAX: usize = 1 << 20;

/// The number of the user of that name, `None` when there is none.
pub fn user_id(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    with_buffer(|buffer| {
        let mut record = MaybeUninit::<libc::passwd>::uninit();
        let mut found = ptr::null_mut();
        // SAFETY: `name` is a NUL-terminated string, `record` and `found` are writable, and `buffer` is writable
        // for the length given; all of them outlive the call.
        let rc = unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                record.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &mut found,
            )
        };
        if rc != 0 || found.is_null() {
            return Err(rc);
        }
        // SAFETY: a non-null `found` means that `record` was filled in.
        Ok(unsafe { record.assume_init() }.pw_uid)
    })
}

/// The number of the group of that name, `None` when there is none.
pub fn group_id(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    with_buffer(|buffer| {
        let mut record = MaybeUninit::<libc::group>::uninit();
        let mut found = ptr::null_mut();
        // SAFETY: as in `user_id`.
        let rc = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                record.as_mut_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &mut found,
            )
        };
        if rc != 0 || found.is_null() {
            return Err(rc);
        }
        // SAFETY: a non-null `found` means that `record` was filled in.
        Ok(unsafe { record.assume_init() }.gr_gid)
    })
}

/// Calls `look` with a larger and larger buffer until the record fits.
fn with_buffer(mut look: impl FnMut(&mut [u8]) -> Result<u32, i32>) -> Option<u32> {
    let mut buffer = vec![0_u8; 4096];
    loop {
        match look(&mut buffer) {
            Ok(id) => return Some(id),
            Err(libc::ERANGE) if buffer.len() < RECORD_MAX => buffer.resize(buffer.len() * 4, 0),
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_and_nonsense_is_not() {
        assert_eq!(user_id("root"), Some(0));
        assert_eq!(group_id("root"), Some(0));
        assert_eq!(user_id("no-such-user-here"), None);
        assert_eq!(group_id("no-such-group-here"), None);
        assert_eq!(user_id("a\0b"), None);
    }
}
