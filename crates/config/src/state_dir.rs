//! What a process knew of its servers and had counted, kept in a directory so that a crash forgets at most a second (`state-dir`,
//! which is ours).
//!
//! There are two files: [`SERVERS`], in the format of `show servers state`, and [`COUNTERS`], in that of `dump stats-file`. Each ends
//! with a seal, a line that readers of both formats pass over:
//!
//! ```text
//! # state-dir 1 <seconds since 1970> <check>
//! ```
//!
//! A file whose check is not that of what is before it was torn, changed or written by another program: it is told, and not used.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use thalweg_syntax::{Diagnostic, Lead, Line, Severity};
use xxhash_rust::xxh64::xxh64;

use crate::build::Cx;
use crate::keyword::{Outcome, at_most, fail};

/// The file of the states of servers.
pub const SERVERS: &str = "servers";
/// The file of the counters of whatever has a `guid`.
pub const COUNTERS: &str = "counters";

/// What a seal begins with: its version is part of it.
const SEAL: &str = "# state-dir 1 ";

/// A file as it is written: `text`, whose last line ends, and its seal. `now_s` is the time in seconds since 1970.
pub fn seal(text: &str, now_s: u64) -> String {
    format!("{text}{SEAL}{now_s} {:016x}\n", xxh64(text.as_bytes(), now_s))
}

/// What was sealed, and when; `None` if that is not what this file is.
pub fn unseal(file: &str) -> Option<(&str, u64)> {
    let (text, seal) = file.split_at(file.rfind(SEAL)?);
    let (when, check) = seal.strip_prefix(SEAL)?.strip_suffix('\n')?.split_once(' ')?;
    let when = when.parse().ok()?;
    let is_whole = u64::from_str_radix(check, 16) == Ok(xxh64(text.as_bytes(), when));
    is_whole.then_some((text, when))
}

/// The time in seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// What the directory holds of a former process.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The file, for messages.
    pub path: String,
    pub text: String,
    /// How long ago it was written, in seconds.
    pub age_s: u64,
}

/// `state-dir <directory>`
pub(crate) fn directory(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'state-dir' expects one argument: a directory."));
    }
    at_most(line, 1, 1)?;
    if cx.config.global.state_dir.is_some() {
        return Err(fail(line, 0, "'state-dir' already specified. Continuing."));
    }
    cx.config.global.state_dir = Some(cx.name(line.text(1)));
    Ok(())
}

/// The counters go on from those of the directory, unless there is a `stats-file`. Returns what is known of servers.
pub(crate) fn load(cx: &mut Cx<'_>) -> Option<Kept> {
    let directory = cx.config.global.state_dir.clone()?;
    // A process that goes on has no former one.
    if cx.options.after.is_some() {
        return None;
    }
    if cx.config.global.stats_file.is_none() {
        cx.config.global.stats_file = read(cx, &directory, COUNTERS).map(|kept| Arc::from(kept.text));
    }
    read(cx, &directory, SERVERS)
}

/// What a file holds; `None` when it is not there, as before the first start, or not to be used, which is told.
fn read(cx: &mut Cx<'_>, directory: &str, name: &str) -> Option<Kept> {
    let path = format!("{}/{name}", directory.trim_end_matches('/'));
    let file = cx.options.loader.read(&path).ok()?;
    let Some((text, when)) = std::str::from_utf8(&file).ok().and_then(unseal) else {
        let message =
            format!("state-dir: '{path}' is not whole, or was not written by this program; it is not used.");
        cx.diagnostics.push(Diagnostic::new(Severity::Notice, Lead::Bare, None, message));
        return None;
    };
    let age_s = now_s().saturating_sub(when);
    Some(Kept { path, text: text.to_owned(), age_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_is_found_whole_or_not_at_all() {
        let file = seal("1\n# be_id\n3 app\n", 1_700_000_000);
        assert_eq!(unseal(&file), Some(("1\n# be_id\n3 app\n", 1_700_000_000)));
        for end in 0..file.len() {
            assert_eq!(unseal(&file[..end]), None, "the first {end} bytes");
        }
        for at in 0..file.len() {
            let mut other = file.clone().into_bytes();
            other[at] ^= 1;
            assert_eq!(std::str::from_utf8(&other).ok().and_then(unseal), None, "byte {at}");
        }
        assert_eq!(unseal(""), None);
        assert_eq!(unseal(&seal("", 0)), Some(("", 0)));
    }
}
