//! How many connections the open-file limit allows (management manual, chapter 5).
//!
//! A connection needs two descriptors, one on each side. Besides, each listener, each health check and each thread
//! needs some. `maxconn` follows from the limit unless it is given; then the limit follows from `maxconn`.

use thalweg_sys::process::Limit;

/// Below this the process is of no use.
const MAXCONN_MIN: u64 = 100;

/// Without `fd-hard-limit`, a limit above this is not used in full: tables grow with it.
const HARD_LIMIT_DEFAULT: u64 = 1_048_576;

/// Standard streams, logs, resolvers and what else the process opens once.
const DESCRIPTORS_BASE: u64 = 10;

/// Event queue, wake-up and timer of each thread.
const DESCRIPTORS_PER_THREAD: u64 = 3;

/// What the configuration says and needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// `maxconn`, or `-n`.
    pub maxconn: Option<u64>,
    /// `ulimit-n`.
    pub ulimit_n: Option<u64>,
    /// `fd-hard-limit`.
    pub fd_hard_limit: Option<u64>,
    /// Sockets to listen on.
    pub listeners: u64,
    /// Connections to the CLI (`stats maxconn`).
    pub cli_connections: u64,
    /// Servers with a health check or an agent check.
    pub checks: u64,
    /// Pipes for splicing; each has two ends.
    pub pipes: u64,
    /// Threads.
    pub threads: u64,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Connections of the process.
    pub maxconn: u64,
    /// Whether `maxconn` was computed, which is worth a notice.
    pub automatic: bool,
    /// Descriptors needed for them.
    pub descriptors: u64,
    /// The limit to set.
    pub limit: Limit,
}

/// Decides from the limit in force.
pub fn plan(demand: &Demand, current: Limit) -> Plan {
    let fixed = DESCRIPTORS_BASE
        + DESCRIPTORS_PER_THREAD * demand.threads
        + demand.listeners
        + demand.cli_connections
        + demand.checks
        + 2 * demand.pipes;
    let usable = demand
        .ulimit_n
        .unwrap_or(current.hard)
        .min(demand.fd_hard_limit.unwrap_or(HARD_LIMIT_DEFAULT.max(demand.ulimit_n.unwrap_or(0))));
    let (maxconn, automatic) = match demand.maxconn {
        Some(maxconn) if maxconn > 0 => (maxconn, false),
        _ => ((usable.saturating_sub(fixed) / 2).max(MAXCONN_MIN), true),
    };
    let descriptors = maxconn.saturating_mul(2).saturating_add(fixed);
    let soft = demand.ulimit_n.unwrap_or(descriptors).max(descriptors);
    // An automatic choice takes all it may, which leaves room for what the estimate forgot.
    let soft =
        if automatic { soft.max(usable.min(current.hard)) } else { soft.max(current.soft.min(current.hard)) };
    Plan { maxconn, automatic, descriptors, limit: Limit { soft, hard: current.hard.max(soft) } }
}

/// A `maxconn` that would fit a hard limit, for advice.
pub fn advisable_maxconn(hard: u64) -> u64 {
    // Half of it, minus a few percent, as checks and listeners vary.
    hard * 485 / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { soft: 1024, hard: 20000 };

    /// One listener and two threads, as measured with the reference.
    fn demand() -> Demand {
        Demand { listeners: 1, threads: 2, ..Demand::default() }
    }

    #[test]
    fn maxconn_follows_from_the_limit() {
        let check = |demand: Demand, current: Limit, maxconn, descriptors, soft| {
            let plan = plan(&demand, current);
            assert_eq!((plan.maxconn, plan.automatic), (maxconn, true), "{demand:?}");
            assert_eq!((plan.descriptors, plan.limit.soft), (descriptors, soft), "{demand:?}");
        };
        check(demand(), LIMIT, 9991, 19999, 20000);
        // Three listeners more, one of them the CLI with its ten connections.
        check(Demand { listeners: 4, cli_connections: 10, ..demand() }, LIMIT, 9985, 20000, 20000);
        check(Demand { checks: 100, ..demand() }, LIMIT, 9941, 19999, 20000);
        check(Demand { fd_hard_limit: Some(1017), ..demand() }, LIMIT, 500, 1017, 1017);
        check(Demand { ulimit_n: Some(2017), ..demand() }, LIMIT, 1000, 2017, 2017);
        check(Demand { maxconn: Some(0), ..demand() }, LIMIT, 9991, 19999, 20000);
        // Too low: the minimum, which then cannot be reached.
        check(demand(), Limit { soft: 100, hard: 100 }, 100, 217, 217);
        // An absurd limit is not used in full.
        check(demand(), Limit { soft: 1024, hard: u64::MAX }, 524_279, 1_048_575, 1_048_576);
    }

    #[test]
    fn the_limit_follows_from_maxconn() {
        let check = |demand: Demand, descriptors, soft, hard| {
            let plan = plan(&demand, LIMIT);
            assert!(!plan.automatic);
            assert_eq!((plan.descriptors, plan.limit), (descriptors, Limit { soft, hard }), "{demand:?}");
        };
        check(Demand { maxconn: Some(500), ..demand() }, 1017, 1024, 20000);
        check(Demand { maxconn: Some(5000), ..demand() }, 10017, 10017, 20000);
        check(Demand { maxconn: Some(1_000_000), ..demand() }, 2_000_017, 2_000_017, 2_000_017);
        check(Demand { maxconn: Some(500), pipes: 125, ..demand() }, 1267, 1267, 20000);
        check(Demand { maxconn: Some(500), ulimit_n: Some(5000), ..demand() }, 1017, 5000, 20000);
        check(Demand { maxconn: Some(u64::MAX), ..demand() }, u64::MAX, u64::MAX, u64::MAX);
    }

    #[test]
    fn advice_is_a_bit_less_than_half() {
        assert_eq!(advisable_maxconn(20000), 9700);
    }
}
