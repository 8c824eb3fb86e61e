//! Both programs on one file, and what their answers have in common.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::cases::Case;

/// What a program said about a file.
pub struct Seen {
    pub accepted: bool,
    /// It ended by a signal.
    crashed: bool,
    /// Lines of the messages of each rank; 0 for a message that names none.
    alerts: BTreeSet<usize>,
    warnings: BTreeSet<usize>,
    text: String,
}

/// How two answers compare.
pub enum Verdict {
    Same,
    Differs(&'static str),
}

/// An installed HAProxy.
pub struct Reference {
    program: PathBuf,
    pub version: String,
}

impl Reference {
    pub fn find() -> Option<Reference> {
        let program = match std::env::var_os("HAPROXY_ORACLE") {
            Some(path) => PathBuf::from(path),
            None => std::env::split_paths(&std::env::var_os("PATH")?)
                .map(|dir| dir.join("haproxy"))
                .find(|path| path.is_file())?,
        };
        let output = Command::new(&program).arg("-v").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.lines().next()?.to_string();
        // Our own program may be installed under this name, and an older reference knows other lines.
        (!text.to_lowercase().contains("thalweg") && version.contains(" 3.5"))
            .then_some(Reference { program, version })
    }

    pub fn check(&self, file: &Path) -> Seen {
        check(&self.program, file)
    }
}

/// This program's answer.
pub fn ours(file: &Path) -> Seen {
    check(Path::new(env!("CARGO_BIN_EXE_thalweg")), file)
}

fn check(program: &Path, file: &Path) -> Seen {
    let output = Command::new(program)
        .args(["-c", "-f"])
        .arg(file)
        .env("SET", "yes")
        .env("EMPTY", "")
        .env("WORDS", "one two three")
        .env_remove("UNSET")
        // The reference reads the system's certificates at each start, which takes most of its time.
        .env("SSL_CERT_DIR", "/nonexistent")
        .env("SSL_CERT_FILE", "/nonexistent")
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    seen(&output, file)
}

fn seen(output: &Output, file: &Path) -> Seen {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let marker = format!("{}:", file.display());
    let (mut alerts, mut warnings) = (BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        let rank = if line.starts_with("[ALERT]") {
            &mut alerts
        } else if line.starts_with("[WARNING]") {
            &mut warnings
        } else {
            continue;
        };
        let digits = line.split_once(&marker).map_or("", |(_, rest)| rest);
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        rank.insert(digits[..end].parse().unwrap_or(0));
    }
    Seen {
        accepted: output.status.success(),
        crashed: output.status.code().is_none(),
        alerts,
        warnings,
        text,
    }
}

impl Seen {
    /// What a refusal says is missing, if that is its reason.
    pub fn not_supported(&self) -> Option<String> {
        let line = self.text.lines().find(|l| {
            l.starts_with("[ALERT]")
                && (l.contains("not supported yet") || l.contains(" is not supported by this"))
        })?;
        Some(line.split_once("] : ").map_or(line, |(_, message)| message).to_string())
    }
}

/// The same verdict, and the lines that the reference names are among those we name.
pub fn compare(_case: &Case, ours: &Seen, theirs: &Seen) -> Verdict {
    let located = |lines: &BTreeSet<usize>| lines.iter().copied().filter(|l| *l > 0).collect::<BTreeSet<_>>();
    if ours.crashed {
        return Verdict::Differs("we crash");
    }
    if theirs.crashed {
        return Verdict::Differs("it crashes");
    }
    match (ours.accepted, theirs.accepted) {
        (true, false) => return Verdict::Differs("we start"),
        (false, true) => return Verdict::Differs("we refuse"),
        (false, false) => {
            if !located(&theirs.alerts).is_subset(&ours.alerts) {
                return Verdict::Differs("another line");
            }
        }
        (true, true) => {
            // It calls some of its warnings alerts.
            let said: BTreeSet<usize> = theirs.warnings.union(&theirs.alerts).copied().collect();
            if ours.warnings.is_empty() && !said.is_empty() {
                return Verdict::Differs("we are silent");
            }
            if !ours.warnings.is_empty() && said.is_empty() {
                return Verdict::Differs("we warn");
            }
            if !located(&said).is_subset(&ours.warnings) {
                return Verdict::Differs("warning elsewhere");
            }
        }
    }
    Verdict::Same
}

/// What both said, without what is always there.
pub fn describe(ours: &Seen, theirs: &Seen) -> String {
    let said = |who: &str, seen: &Seen| {
        let lines: Vec<&str> = seen
            .text
            .lines()
            .filter(|l| l.starts_with("[ALERT]") || l.starts_with("[WARNING]"))
            .filter(|l| !l.contains("Error(s) found") && !l.contains("Fatal errors found"))
            .map(|l| l.split_once(") : ").map_or(l, |(_, message)| message))
            .collect();
        let verdict = if seen.crashed {
            "crashes"
        } else if seen.accepted {
            "starts"
        } else {
            "refuses"
        };
        format!("    {who} {verdict}: {}", lines.join(" // "))
    };
    format!("{}\n{}", said("ours", ours), said("theirs", theirs))
}

/// Where the files are; removed at the end.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Directory {
        let path = std::env::temp_dir().join(format!("thalweg-lines-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Directory(path)
    }

    pub fn write(&self, worker: usize, text: &str) -> PathBuf {
        let file = self.0.join(format!("{worker}.cfg"));
        std::fs::write(&file, text).expect("a file");
        file
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
