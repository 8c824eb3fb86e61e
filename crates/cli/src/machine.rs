//! What the kernel and the system say of the process and the machine in files, which a process that entered another root
//! (`chroot`) does not see any more.

use std::fs;
use std::sync::OnceLock;

use thalweg_syntax::carry::carry;

/// What commands read. What changes when privileges are given up is not among it.
const FILES: [&str; 8] = [
    "/etc/os-release",
    "/proc/cpuinfo",
    "/proc/self/cmdline",
    "/proc/self/limits",
    "/proc/self/maps",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/ostype",
    "/proc/sys/kernel/version",
];

static REMEMBERED: OnceLock<[String; FILES.len()]> = OnceLock::new();

/// Remembers them: the process is about to enter another root.
pub fn remember() {
    let _ = REMEMBERED.set(FILES.map(from_disk));
}

/// The content of a file: what it says now, or what it said before the process entered its root; empty if that is not known.
pub(crate) fn read(path: &str) -> String {
    let now = from_disk(path);
    let remembered = || FILES.iter().zip(REMEMBERED.get()?).find(|(name, _)| **name == path);
    match remembered().filter(|_| now.is_empty()) {
        Some((_, text)) => text.clone(),
        None => now,
    }
}

fn from_disk(path: &str) -> String {
    fs::read(path).map_or_else(|_| String::new(), |bytes| carry(&bytes).into_owned())
}
