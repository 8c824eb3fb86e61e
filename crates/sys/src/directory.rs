//! A directory that was opened while that was still possible, and in which files are replaced as a whole: after a change of the
//! root directory, too, and where nothing else may be written to ([`crate::sandbox`]).

use std::ffi::{CStr, CString};
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
        let mut draft = self.draft(name)?;
        draft.file.write_all(content)?;
        draft.finish().map(drop)
    }

    /// Begins to write a file in the place of the one with this name, which is there until [`Draft::finish`].
    ///
    /// # Errors
    /// `name` is none of a file, or there is no right to write here.
    pub fn draft(&self, name: &str) -> io::Result<Draft<'_>> {
        let draft = CString::new(format!("{name}.new"))?;
        let name = CString::new(name)?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let file = self.open_file(&draft, flags)?;
        Ok(Draft { directory: self, draft, name, file })
    }

    /// Opens a file to be read.
    ///
    /// # Errors
    /// As for opening any file.
    pub fn read(&self, name: &str) -> io::Result<File> {
        self.open_file(&CString::new(name)?, libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW)
    }

    /// The same directory once more.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn again(&self) -> io::Result<Directory> {
        self.0.try_clone().map(Directory)
    }

    fn open_file(&self, name: &CStr, flags: i32) -> io::Result<File> {
        // SAFETY: both are valid for the call: the descriptor is owned by this, and the name ends with a zero.
        let fd = unsafe { libc::openat(self.0.as_raw_fd(), name.as_ptr(), flags, 0o600) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made, and nobody else has it.
        Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

/// A file that is written and has its name not yet.
#[derive(Debug)]
pub struct Draft<'d> {
    directory: &'d Directory,
    draft: CString,
    name: CString,
    /// What it gets.
    pub file: File,
}

impl Draft<'_> {
    /// Gives the file its name once all of it is on the disk. It can be written to after that.
    ///
    /// # Errors
    /// The former file is as it was.
    pub fn finish(self) -> io::Result<File> {
        self.file.sync_data()?;
        let at = self.directory.0.as_raw_fd();
        // SAFETY: the descriptor is that of the directory, and both names end with a zero.
        let renamed = unsafe { libc::renameat(at, self.draft.as_ptr(), at, self.name.as_ptr()) };
        if renamed == 0 { Ok(self.file) } else { Err(io::Error::last_os_error()) }
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
    use std::io::Read as _;

    #[test]
    fn files_are_replaced_as_a_whole() {
        let path = std::env::temp_dir().join(format!("thalweg-directory-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let directory = Directory::open(&path).unwrap();
        for content in ["one", "another one", ""] {
            directory.replace("file", content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(path.join("file")).unwrap(), content);
        }
        // A draft takes the place of the file when it is finished, and goes on as that.
        let mut draft = directory.draft("file").unwrap();
        draft.file.write_all(b"first").unwrap();
        assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "");
        draft.finish().unwrap().write_all(b", second").unwrap();
        let mut text = String::new();
        directory.again().unwrap().read("file").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "first, second");
        directory.replace("file", b"").unwrap();
        // What cannot be written leaves the former one.
        fs::create_dir(path.join("file.new")).unwrap();
        assert!(directory.replace("file", b"more").is_err());
        assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "");
        assert!(Directory::open(&path.join("file")).is_err(), "it is no directory");
        fs::remove_dir_all(&path).unwrap();
    }
}
