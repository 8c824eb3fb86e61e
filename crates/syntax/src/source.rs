//! Files, their lines, and places in them.

use std::io::{self, Read as _};
use std::path::Path;

use crate::diagnostic::Diagnostic;

/// A file of a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u32);

impl FileId {
    /// The position of the file in loading order, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A range of bytes within one line of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The file the line belongs to.
    pub file: FileId,
    /// Line number, from 1.
    pub line: u32,
    /// Byte offset in the line of the first byte, from 0.
    pub start: u32,
    /// Byte offset just after the last byte; equal to `start` for a place between two bytes.
    pub end: u32,
}

impl Span {
    /// The smallest span that holds both, which must be on the same line.
    pub fn to(self, last: Span) -> Span {
        debug_assert!(self.file == last.file && self.line == last.line);
        Span { start: self.start.min(last.start), end: self.end.max(last.end), ..self }
    }
}

struct SourceFile {
    name: String,
    text: Vec<u8>,
    /// Offset of the first byte of each line.
    line_starts: Vec<u32>,
}

/// All the files of one configuration, kept while it is being read so that messages can quote them.
#[derive(Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

/// A configuration file may not be larger than this: offsets are 32 bits wide.
pub const FILE_SIZE_MAX: usize = u32::MAX as usize - 1;

impl SourceMap {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file under the name that messages show. Text beyond [`FILE_SIZE_MAX`] is cut off; [`Loader`]
    /// refuses such files before they come here.
    pub fn add(&mut self, name: impl Into<String>, mut text: Vec<u8>) -> FileId {
        text.truncate(FILE_SIZE_MAX);
        let mut line_starts = vec![0];
        line_starts.extend(memchr::memchr_iter(b'\n', &text).map(|at| at as u32 + 1));
        // A final line feed ends the last line, it does not begin another one.
        if line_starts.last() == Some(&(text.len() as u32)) {
            line_starts.pop();
        }
        let id = FileId(self.files.len() as u32);
        self.files.push(SourceFile { name: name.into(), text, line_starts });
        id
    }

    /// Reads a file through `loader` and adds it.
    pub fn load(&mut self, loader: &dyn Loader, path: &str) -> Result<FileId, Diagnostic> {
        match loader.read(path) {
            Ok(text) if text.len() > FILE_SIZE_MAX => {
                Err(Diagnostic::alert(format!("Cannot load configuration file {path} : larger than 4 GB")))
            }
            Ok(text) => Ok(self.add(path, text)),
            Err(error) => Err(Diagnostic::alert(format!(
                "Cannot open configuration file/directory {path} : {}",
                os_message(&error)
            ))),
        }
    }

    /// The name a file was added under.
    pub fn name(&self, file: FileId) -> &str {
        self.files.get(file.index()).map_or("", |f| &f.name)
    }

    /// All of a file.
    pub fn text(&self, file: FileId) -> &[u8] {
        self.files.get(file.index()).map_or(&[], |f| &f.text)
    }

    /// The files, in loading order.
    pub fn files(&self) -> impl Iterator<Item = FileId> + use<> {
        (0..self.files.len() as u32).map(FileId)
    }

    /// How many lines the file has.
    pub fn line_count(&self, file: FileId) -> u32 {
        self.files.get(file.index()).map_or(0, |f| f.line_starts.len() as u32)
    }

    /// The line, numbered from 1, without its line feed; `None` past the end.
    pub fn line(&self, file: FileId, number: u32) -> Option<&[u8]> {
        self.line_with_terminator(file, number).map(|(line, _)| line)
    }

    /// The line and whether a line feed ended it.
    pub(crate) fn line_with_terminator(&self, file: FileId, number: u32) -> Option<(&[u8], bool)> {
        let f = self.files.get(file.index())?;
        let index = (number as usize).checked_sub(1)?;
        let start = *f.line_starts.get(index)? as usize;
        let end = f.line_starts.get(index + 1).map_or(f.text.len(), |&next| next as usize);
        let line = &f.text[start..end];
        Some(match line.split_last() {
            Some((b'\n', rest)) => (rest, true),
            _ => (line, false),
        })
    }
}

/// Where files come from: the disk in the program, a table in tests.
pub trait Loader {
    /// The whole content of a file.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
    /// Whether the path names a directory.
    fn is_dir(&self, path: &str) -> io::Result<bool>;
    /// The names (not paths) of the files in a directory, in any order; sub-directories are left out.
    fn list(&self, directory: &str) -> io::Result<Vec<String>>;
}

/// The largest file that is read, in bytes: a device named by mistake must not fill the memory. The reference reads 10 MB.
const FILE_MAX: u64 = 64 << 20;

/// The [`Loader`] that reads the file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskLoader;

impl Loader for DiskLoader {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        std::fs::File::open(path)?.take(FILE_MAX + 1).read_to_end(&mut text)?;
        if text.len() as u64 > FILE_MAX {
            return Err(io::Error::other(format!("larger than {} MB", FILE_MAX >> 20)));
        }
        Ok(text)
    }

    fn is_dir(&self, path: &str) -> io::Result<bool> {
        std::fs::metadata(path).map(|m| m.is_dir())
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            // Follows symbolic links, as the arguments of `-f` often are links to shared fragments.
            if std::fs::metadata(entry.path()).is_ok_and(|m| m.is_file())
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        Ok(names)
    }
}

/// Replaces each directory among `paths` by the `.cfg` files it holds, in byte order, hidden ones left out
/// (management manual, option `-f`).
pub fn expand_paths(loader: &dyn Loader, paths: &[String]) -> Result<Vec<String>, Diagnostic> {
    let mut expanded = Vec::new();
    for path in paths {
        let failure = |error: io::Error| {
            Diagnostic::alert(format!(
                "Cannot open configuration file/directory {path} : {}",
                os_message(&error)
            ))
        };
        if !loader.is_dir(path).map_err(failure)? {
            expanded.push(path.clone());
            continue;
        }
        let mut names = loader.list(path).map_err(failure)?;
        names.retain(|name| !name.starts_with('.') && name.ends_with(".cfg"));
        names.sort_unstable();
        expanded
            .extend(names.into_iter().map(|name| Path::new(path).join(name).to_string_lossy().into_owned()));
    }
    Ok(expanded)
}

/// The system's own words for an error, without Rust's "(os error N)".
pub fn os_message(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(at) => text[..at].to_string(),
        None => text,
    }
}
