//! The commands of the CLI that the reference does not have: whatever compares the two leaves them out.

/// Their words.
pub const OWN_COMMANDS: &[&str] = &[
    "abort config",
    "begin config",
    "check config",
    "commit config",
    "commit config to",
    "explain",
    "reload",
    "show config",
    "show config diff",
    "show config text",
    "show latency",
    "show opentelemetry",
    "show reload",
    "show snapshots",
];
