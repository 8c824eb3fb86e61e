//! A directory that was opened while that was still possible, and in which files are replaced as a whole: after a change of the
//! root directory, too, and where nothing else may be written to ([`crate::sandbox`]).

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// See the module's documentation.
#[derive(Debug)]
pub struct Directory(OwnedFd);

impl Directory {
    /// Opens it.
    ///
    /// # Errors
    /// As for opening a file. What is no directory is an error.
    pub fn open(path: &Path) -> io::Result<Directory> {
        let file = File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_CLOEXEC).open(path)?;
        Ok(Directory(file.into()))
    }

    /// Writes a file and gives it its name once all of it is on the disk: whoever reads it, whenever this process or the machine ends,
    /// finds all of the former one or all of this one. Only its owner may read it.
    ///
    /// # Errors
    /// The former file is as it was. `name` is none of a file, there is no room, or no right to write here.
    pub fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let draft = CString::new(format!("{name}.new"))?;
        let name = CString::new(name)?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        // SAFETY: both are valid for the call: the descriptor is owned by this, and the name ends with a zero.
        let fd = unsafe { libc::openat(self.0.as_raw_fd(), draft.as_ptr(), flags, 0o600) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made, and nobody else has it.
        let mut file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        file.write_all(content)?;
        file.sync_data()?;
        let at = self.0.as_raw_fd();
        // SAFETY: as above.
        let renamed = unsafe { libc::renameat(at, draft.as_ptr(), at, name.as_ptr()) };
        if renamed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_are_replaced_as_a_whole() {
        let path = std::env::temp_dir().join(format!("thalweg-directory-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let directory = Directory::open(&path).unwrap();
        for content in ["one", "another one", ""] {
            directory.replace("file", content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(path.join("file")).unwrap(), content);
        }
        // What cannot be written leaves the former one.
        fs::create_dir(path.join("file.new")).unwrap();
        assert!(directory.replace("file", b"more").is_err());
        assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "");
        assert!(Directory::open(&path.join("file")).is_err(), "it is no directory");
        fs::remove_dir_all(&path).unwrap();
    }
}
