//! The pattern files and maps of the process, shared by name.

/// All sets of patterns that have a name. One per process.
#[derive(Debug, Default)]
pub struct Registry {}

/// The snapshots a thread has seen.
#[derive(Debug, Default)]
pub struct SnapshotCache {}
