//! The limits of open files and of memory (management manual, chapters 3 and 5).
//!
//! A connection needs two descriptors, one on each side; listeners, checks and threads need some more. The
//! configuration knows how many: it computes `maxconn` from the hard limit when it is not given, and the descriptors
//! needed from `maxconn`. Here the limit of the process is raised to that.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use thalweg_sys::process::Limit;

/// Without `fd-hard-limit`, a limit above this is not used in full: tables of the kernel grow with it.
const LIMIT_DEFAULT_MAX: u64 = 1_048_576;

/// What the configuration needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Connections of the process.
    pub maxconn: u64,
    /// Whether that was computed from the limit, which is worth a notice.
    pub automatic: bool,
    /// Descriptors needed, or `ulimit-n`.
    pub descriptors: u64,
    /// `fd-hard-limit`.
    pub ceiling: Option<u64>,
}

/// The limit to set, given the one in force.
pub fn wanted(demand: &Demand, current: Limit) -> Limit {
    let usable = current.hard.min(demand.ceiling.unwrap_or(LIMIT_DEFAULT_MAX));
    // An automatic choice takes all it may, which leaves room for what the estimate forgot; a given one only what it
    // needs, but never less than is granted already.
    let floor = if demand.automatic { usable } else { current.soft.min(usable) };
    let soft = demand.descriptors.max(floor);
    Limit { soft, hard: current.hard.max(soft) }
}

/// The hard limit that may be used to compute `maxconn`.
pub fn usable_hard(current: Limit) -> u64 {
    current.hard.min(LIMIT_DEFAULT_MAX)
}

/// A `maxconn` that would fit a hard limit, for advice: half of it minus a few percent, as checks and listeners vary.
pub fn advisable_maxconn(hard: u64) -> u64 {
    hard.saturating_mul(485) / 1000
}

/// Makes the allocator take memory as it is needed, and no gigabyte in advance.
const ALLOCATOR_VARIABLE: &str = "MIMALLOC_ARENA_EAGER_COMMIT";

/// Prepares for a limit of memory (`-m`). The allocator has taken a gigabyte of it before `main`, which costs nothing until it
/// is used, but counts: there would be no room for a thread's stack. It can be told not to by the environment only, so this
/// program begins again with that. Returns when there is nothing to do, or when that fails.
pub fn prepare_memory_limit(program: &str) {
    if std::env::var_os(ALLOCATOR_VARIABLE).is_some() {
        return;
    }
    let Ok(path) = std::env::current_exe() else { return };
    // The same process goes on: its id, its files and what waits for it stay.
    let _ = Command::new(path)
        .arg0(program)
        .args(std::env::args_os().skip(1))
        .env(ALLOCATOR_VARIABLE, "0")
        .exec();
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { soft: 1024, hard: 20000 };

    #[test]
    fn the_limit_follows_from_what_is_needed() {
        let check = |demand: Demand, soft, hard| {
            assert_eq!(wanted(&demand, LIMIT), Limit { soft, hard }, "{demand:?}");
        };
        let automatic = Demand { maxconn: 9991, automatic: true, descriptors: 19999, ceiling: None };
        check(automatic, 20000, 20000);
        check(Demand { descriptors: 1017, ceiling: Some(1017), ..automatic }, 1017, 20000);
        let given = Demand { maxconn: 500, automatic: false, descriptors: 1017, ceiling: None };
        check(given, 1024, 20000);
        check(Demand { descriptors: 10017, ..given }, 10017, 20000);
        check(Demand { descriptors: 2_000_017, ..given }, 2_000_017, 2_000_017);
        assert_eq!(wanted(&automatic, Limit { soft: 1024, hard: u64::MAX }).soft, 1_048_576);
        assert_eq!(usable_hard(Limit { soft: 1024, hard: u64::MAX }), 1_048_576);
        assert_eq!(usable_hard(LIMIT), 20000);
    }

    #[test]
    fn advice_is_a_bit_less_than_half() {
        assert_eq!(advisable_maxconn(20000), 9700);
    }
}
