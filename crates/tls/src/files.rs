//! Files as they are given to this crate: it opens none itself.

use std::io;

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
}

/// What the C library says of an error, without Rust's "(os error 2)".
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
