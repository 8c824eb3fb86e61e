//! Putting a text in the place of a file such that nobody ever finds half of one: it is written beside the file, brought to the
//! disk, and takes the file's name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use thalweg_syntax::source::os_message;
use xxhash_rust::xxh64::xxh64;

/// Who may read a file that was not there before: configurations have secrets.
const NEW_MODE: u32 = 0o600;

/// What tells one text from another, in answers of the CLI: not a secret, and no proof against those who want to deceive.
pub fn digest(text: &[u8]) -> u64 {
    xxh64(text, 0)
}

/// Why nothing was written: a sentence that says what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct Unsaved(pub String);

/// What may fail on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    Write,
    Own,
    Sync,
    Rename,
    SyncDirectory,
}

/// Puts `text` in the place of the file at `path`, which keeps its mode and its owner, or makes one. A file that is there must hold a
/// text that `is_known` accepts: what somebody else wrote meanwhile is not lost. Gives a warning if the text is in its place, and
/// may be lost if the machine fails now.
///
/// # Errors
/// Nothing was changed.
pub fn replace(
    path: &Path,
    text: &[u8],
    is_known: impl Fn(&[u8]) -> bool,
) -> Result<Option<String>, Unsaved> {
    replace_watched(path, text, is_known, &mut |_| Ok(()))
}

fn replace_watched(
    path: &Path,
    text: &[u8],
    is_known: impl Fn(&[u8]) -> bool,
    before: &mut dyn FnMut(Step) -> io::Result<()>,
) -> Result<Option<String>, Unsaved> {
    let found = find(path)?;
    if let Some(found) = &found
        && !is_known(&found.text)
    {
        return Err(Unsaved(format!(
            "{} is no file of this configuration, or was changed since it was read. Reload what it says, or write to another file.",
            path.display()
        )));
    }
    // A link stays, and what it leads to is replaced.
    let target = found.as_ref().map_or(path, |found| &found.path);
    let directory = match target.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    let beside = Beside::new(directory, target);
    let failed = |what: &str, error: &io::Error| {
        Unsaved(format!("Cannot {what} {}: {}. Nothing was changed.", path.display(), os_message(error)))
    };
    beside.fill(text, found.as_ref(), before).map_err(|error| failed("write", &error))?;
    before(Step::Rename)
        .and_then(|()| fs::rename(&beside.path, target))
        .map_err(|error| failed("replace", &error))?;
    let synced = before(Step::SyncDirectory).and_then(|()| File::open(directory)?.sync_all());
    Ok(synced.err().map(|error| {
        format!("{} is written, but may not be on the disk yet: {}.", path.display(), os_message(&error))
    }))
}

/// A file that is there.
struct Found {
    path: PathBuf,
    text: Vec<u8>,
    metadata: fs::Metadata,
}

/// The file at a path, if there is one; what is there and is no file is an error.
fn find(path: &Path) -> Result<Option<Found>, Unsaved> {
    let failed = |error: &io::Error| {
        Unsaved(format!("Cannot read {}: {}. Nothing was changed.", path.display(), os_message(error)))
    };
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            return Ok(None);
        }
        Err(error) => return Err(failed(&error)),
    };
    let metadata = fs::metadata(&real).map_err(|error| failed(&error))?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "a directory" } else { "no regular file" };
        return Err(Unsaved(format!("{} is {what}: name a file. Nothing was changed.", path.display())));
    }
    let mut text = Vec::new();
    File::open(&real).and_then(|mut file| file.read_to_end(&mut text)).map_err(|error| failed(&error))?;
    Ok(Some(Found { path: real, text, metadata }))
}

/// A new file in the directory of another one, which goes with its owner unless it was given that one's name.
struct Beside {
    path: PathBuf,
}

impl Beside {
    fn new(directory: &Path, target: &Path) -> Beside {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let (pid, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // Whoever reads the whole directory passes over names that begin with a dot.
        Beside { path: directory.join(format!(".{name}.{pid}-{number}.tmp")) }
    }

    /// Writes the text to the disk, with the rights of the file that it is to replace.
    fn fill(
        &self,
        text: &[u8],
        found: Option<&Found>,
        before: &mut dyn FnMut(Step) -> io::Result<()>,
    ) -> io::Result<()> {
        before(Step::Create)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(NEW_MODE).open(&self.path)?;
        before(Step::Write)?;
        file.write_all(text)?;
        before(Step::Own)?;
        if let Some(Found { metadata: old, .. }) = found {
            let new = file.metadata()?;
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
            file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
        }
        before(Step::Sync)?;
        file.sync_all()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Once it has the other one's name there is nothing left of it.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            let path = std::env::temp_dir().join(format!("thalweg-save-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).expect("a directory");
            Directory(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).expect("a directory");
            let mut names: Vec<String> = entries
                .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
                .collect();
            names.sort_unstable();
            names
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const STEPS: [Step; 6] =
        [Step::Create, Step::Write, Step::Own, Step::Sync, Step::Rename, Step::SyncDirectory];

    #[test]
    fn whatever_fails_the_file_is_whole() {
        let directory = Directory::new("fails");
        let path = directory.0.join("cfg");
        for failing in STEPS {
            fs::write(&path, "old").expect("a file");
            let full = &mut |step| if step == failing { Err(ErrorKind::StorageFull.into()) } else { Ok(()) };
            let result = replace_watched(&path, b"new", |_| true, full);
            let is_new = failing == Step::SyncDirectory;
            let text = fs::read_to_string(&path).expect("a file");
            assert_eq!(
                (&*text, result.is_ok()),
                if is_new { ("new", true) } else { ("old", false) },
                "{failing:?}"
            );
            let said = result.map_or_else(|why| why.0, Option::unwrap_or_default);
            assert!(said.contains("no storage space"), "{failing:?}: {said}");
            assert_eq!(directory.names(), ["cfg"], "{failing:?}");
        }
    }

    /// At no moment is there anything but one whole text or the other: whoever is killed leaves that.
    #[test]
    fn at_every_step_the_file_is_whole() {
        let directory = Directory::new("steps");
        let path = directory.0.join("cfg");
        fs::write(&path, "old").expect("a file");
        let mut seen = Vec::new();
        let look = &mut |step| {
            seen.push((step, fs::read_to_string(&path).expect("a file")));
            Ok(())
        };
        replace_watched(&path, b"new", |old| old == b"old", look).expect("it works");
        let expected =
            STEPS.map(|step| (step, if step == Step::SyncDirectory { "new" } else { "old" }.to_owned()));
        assert_eq!(seen, expected);
    }

    #[test]
    fn mode_and_links_stay_and_new_files_are_secret() {
        let directory = Directory::new("modes");
        let (path, link) = (directory.0.join("cfg"), directory.0.join("link"));
        fs::write(&path, "old").expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
        std::os::unix::fs::symlink("cfg", &link).expect("a link");
        assert_eq!(replace(&link, b"new", |_| true), Ok(None));
        assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
        assert_eq!(fs::read_to_string(&path).expect("a file"), "new");
        assert_eq!(fs::metadata(&path).expect("a file").mode() & 0o7777, 0o640);
        let fresh = directory.0.join("fresh");
        assert_eq!(replace(&fresh, b"new", |_| false), Ok(None));
        assert_eq!(fs::metadata(&fresh).expect("a file").mode() & 0o7777, NEW_MODE);
    }

    #[test]
    fn what_cannot_be_replaced_stays() {
        let directory = Directory::new("stays");
        let path = directory.0.join("cfg");
        fs::write(&path, "others").expect("a file");
        std::os::unix::fs::symlink("nowhere", directory.0.join("broken")).expect("a link");
        let check = |path: &Path, reason: &str| {
            let Err(Unsaved(why)) = replace(path, b"new", |_| false) else {
                panic!("{} was written", path.display())
            };
            assert!(why.contains(reason), "{why}");
        };
        check(&path, "was changed since");
        check(&directory.0, "is a directory");
        check(&directory.0.join("none/cfg"), "No such file");
        check(&directory.0.join("cfg/x"), "Not a directory");
        check(&directory.0.join("broken"), "No such file");
        check(Path::new("/dev/null"), "no regular file");
        check(Path::new(""), "Cannot");
        assert_eq!(fs::read_to_string(&path).expect("a file"), "others");
    }
}
