//! Files as they are given to this crate: it opens none itself.

use std::io;
use std::os::unix::fs::MetadataExt;

/// Where certificates come from. The caller resolves `crt-base` and `ca-base` before.
pub trait Files {
    /// The whole content of a file.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;

    /// The names in a directory, without `.` and `..`, in any order. An error of kind `NotADirectory` says that it is
    /// none.
    fn list(&self, path: &str) -> io::Result<Vec<String>>;

    /// Whether there is something at this path. Anything but [`io::ErrorKind::NotFound`] counts as "yes", so that a file
    /// that may not be read is reported and not passed over.
    fn exists(&self, path: &str) -> bool {
        !matches!(self.read(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// What a file is like now; `None` if it is not there, or nobody may look. Links are followed.
    fn stamp(&self, path: &str) -> Option<Stamp>;
}

/// What a file is like from outside: one with the same stamp has the same content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When it was changed last, its name and its place included, in seconds and nanoseconds since 1970.
    pub changed: (i64, i64),
    pub length: u64,
    /// Which file it is: one that was moved here is another one.
    pub inode: u64,
}

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        std::fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn exists(&self, path: &str) -> bool {
        !matches!(std::fs::metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    fn stamp(&self, path: &str) -> Option<Stamp> {
        let metadata = std::fs::metadata(path).ok()?;
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Some(Stamp { changed, length: metadata.len(), inode: metadata.ino() })
    }
}

/// What the C library says of an error, without Rust's "(os error 2)".
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
