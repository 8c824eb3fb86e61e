//! Cores and priorities: which process runs where.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Where the proxy under test runs.
pub const PROXY_CORE: &str = "0";
/// Where load and origins run.
pub const LOAD_CORE: &str = "1";
/// Both.
pub const BOTH_CORES: &str = "0,1";

/// Real-time priority: above everything ordinary, below the kernel's own threads.
const PRIORITY: &str = "20";

/// Takes as many descriptors as there are: root may go beyond the limit it was given.
const DESCRIPTORS: &str = "ulimit -n 1000000 2>/dev/null || ulimit -n $(ulimit -H -n) 2>/dev/null";

/// Whether real-time priorities may be used here, and are not forbidden by `BENCH_ORDINARY` in the environment.
pub fn has_real_time() -> bool {
    static PERMITTED: OnceLock<bool> = OnceLock::new();
    *PERMITTED.get_or_init(|| {
        if std::env::var_os("BENCH_ORDINARY").is_some() {
            return false;
        }
        let tried = Command::new("chrt").args(["-r", PRIORITY, "true"]).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    })
}

/// `program` on `cores`, with as many descriptors as this user may have, at real-time priority where permitted.
/// Round-robin, so that processes that share a core share its time.
pub fn pinned(cores: &str, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{DESCRIPTORS}; exec \"$@\""), "sh"]);
    if has_real_time() {
        command.args(["chrt", "-r", PRIORITY]);
    }
    command.args(["taskset", "-c", cores]).arg(program);
    command
}

/// Descriptors a process started by [`pinned`] may have.
pub fn descriptors() -> u64 {
    let output = Command::new("sh").args(["-c", &format!("{DESCRIPTORS}; ulimit -n")]).output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string()).unwrap_or_default();
    text.parse().unwrap_or(1024)
}

/// A folder of this run's own; gone when dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> io::Result<Folder> {
        let path = std::env::temp_dir().join(format!("thalweg-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It holds only what this run put there; left behind it does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
