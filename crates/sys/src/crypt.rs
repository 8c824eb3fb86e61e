//! Password hashes of `crypt(3)`, as user lists hold them (`$5$salt$...`).

use std::ffi::{CStr, CString, c_char, c_void};

#[link(name = "crypt")]
unsafe extern "C" {
    fn crypt_r(key: *const c_char, setting: *const c_char, data: *mut c_void) -> *mut c_char;
}

/// More than `struct crypt_data` takes: 32,768 bytes in libxcrypt, 131,232 in older versions of glibc.
const DATA_BYTES: usize = 256 * 1024;

/// Working memory of one thread for [`Crypt::matches`].
pub struct Crypt {
    // Words, because the structure must be aligned.
    data: Box<[u64]>,
}

impl Default for Crypt {
    fn default() -> Crypt {
        Crypt { data: vec![0; DATA_BYTES / 8].into_boxed_slice() }
    }
}

impl Crypt {
    /// True when `password` is the one that `hash` was made from. False too when the hash is of no kind the system
    /// knows. Takes milliseconds, on purpose: that is what the method in the hash asks for.
    pub fn matches(&mut self, password: &[u8], hash: &[u8]) -> bool {
        // A password with a NUL byte cannot have been hashed by this interface.
        let (Ok(password), Ok(hash)) = (CString::new(password), CString::new(hash)) else { return false };
        // The structure starts with the output. Its `initialized` byte must be zero.
        self.data.fill(0);
        // SAFETY: both strings end with NUL; `data` is zeroed, aligned for any integer, larger than the structure of
        // every implementation, and used by nobody else, as it is borrowed mutably. The result is null or points
        // into `data`, to a string that ends with NUL.
        let found = unsafe {
            let result = crypt_r(password.as_ptr(), hash.as_ptr(), self.data.as_mut_ptr().cast());
            if result.is_null() {
                return false;
            }
            CStr::from_ptr(result)
        };
        // Failures of libxcrypt are strings that start with a star.
        found.to_bytes() == hash.to_bytes() && !found.to_bytes().starts_with(b"*")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hashes() {
        let mut crypt = Crypt::default();
        let mut check = |password: &str, hash: &str, expected: bool| {
            assert_eq!(crypt.matches(password.as_bytes(), hash.as_bytes()), expected, "{hash}");
        };
        // The test vectors of the SHA-crypt specification.
        let sha256 = "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5";
        check("Hello world!", sha256, true);
        check("hello world!", sha256, false);
        let sha512 = "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1";
        check("Hello world!", sha512, true);
        check("", sha512, false);
        check("x", "", false);
        check("x", "plain", false);
        check("*0", "*0", false);
        check("a\0b", sha256, false);
    }
}
