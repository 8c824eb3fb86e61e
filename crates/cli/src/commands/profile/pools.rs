//! `show pools`: the memory pools of all threads, summed.

use std::cmp::Reverse;

use thalweg_runtime::pool::{PoolUse, counters};

use crate::command::Call;
use crate::json::Object;
use crate::output::Reply;

/// What is wanted.
struct Wanted<'a> {
    /// Pools whose names begin with it.
    prefix: &'a str,
    order: Option<&'a str>,
    rows_max: usize,
}

impl<'a> Wanted<'a> {
    fn read(args: &[&'a str]) -> Option<Wanted<'a>> {
        let mut wanted = Wanted { prefix: "", order: None, rows_max: usize::MAX };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                // Every line is detailed.
                "detailed" => {}
                "byname" | "bysize" | "byusage" => wanted.order = Some(*arg),
                "match" if args.len() > 0 => wanted.prefix = args.next().copied().unwrap_or(""),
                number => wanted.rows_max = number.parse().ok()?,
            }
        }
        Some(wanted)
    }
}

/// Objects that there are, in use or not.
fn objects(pool: &PoolUse) -> u64 {
    pool.used + pool.free
}

/// Bytes of that many objects.
fn bytes(pool: &PoolUse, objects: u64) -> u64 {
    objects * pool.object_size as u64
}

pub fn show(call: &Call<'_>) -> Reply {
    let Some(wanted) = Wanted::read(call.args) else {
        return Reply::error(
            "Expects either 'byname', 'bysize', 'byusage', 'match <pfx>', 'detailed', or a max number of output lines.",
        );
    };
    let mut pools = counters();
    pools.retain(|pool| pool.name.starts_with(wanted.prefix));
    match wanted.order {
        Some("byname") => pools.sort_by_key(|pool| (pool.name, pool.object_size)),
        Some("bysize") => pools.sort_by_key(|pool| Reverse(pool.object_size)),
        Some(_) => pools.sort_by_key(|pool| Reverse(bytes(pool, objects(pool)))),
        None => {}
    }
    let shown = &pools[..pools.len().min(wanted.rows_max)];
    Reply::Text(if call.wants_json() { json(shown) } else { text(shown, &pools) })
}

/// Lines in the layout of the reference, with the sum of `all`.
fn text(shown: &[PoolUse], all: &[PoolUse]) -> String {
    let mut out = String::from("Dumping pools usage. Use SIGQUIT to flush them.\n");
    for pool in shown {
        let PoolUse { name, object_size, used, free, peak, failed, threads, .. } = pool;
        let count = objects(pool);
        out.push_str(&format!(
            "  - Pool {name} ({object_size} bytes) : {count} allocated ({} bytes), {used} used (~{free} by thread caches), \
             peak {peak}, {failed} failures, {threads} users\n",
            bytes(pool, count)
        ));
    }
    let allocated: u64 = all.iter().map(|pool| bytes(pool, objects(pool))).sum();
    let used: u64 = all.iter().map(|pool| bytes(pool, pool.used)).sum();
    out.push_str(&format!(
        "Total: {} pools, {allocated} bytes allocated, {used} used (~{} by thread caches).\n",
        all.len(),
        allocated - used
    ));
    out
}

/// An object for each pool.
fn json(pools: &[PoolUse]) -> String {
    let mut out = String::new();
    for pool in pools {
        let count = objects(pool);
        Object::default()
            .text("name", pool.name)
            .numbers([
                ("size", pool.object_size as u64),
                ("allocated", count),
                ("allocated_bytes", bytes(pool, count)),
                ("used", pool.used),
                ("cached", pool.free),
                ("peak", pool.peak),
                ("failures", pool.failed),
                ("users", pool.threads as u64),
            ])
            .end(&mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_objects_say_the_same() {
        let pool = PoolUse {
            name: "task",
            object_size: 64,
            used: 5,
            free: 123,
            peak: 6,
            taken: 7,
            failed: 0,
            threads: 2,
        };
        assert_eq!(
            text(std::slice::from_ref(&pool), &[pool.clone(), PoolUse { name: "other", ..pool.clone() }]),
            "Dumping pools usage. Use SIGQUIT to flush them.\n  - Pool task (64 bytes) : 128 allocated (8192 bytes), 5 used \
             (~123 by thread caches), peak 6, 0 failures, 2 users\nTotal: 2 pools, 16384 bytes allocated, 640 used (~15744 \
             by thread caches).\n"
        );
        assert_eq!(
            json(&[pool]),
            "{\"name\":\"task\",\"size\":64,\"allocated\":128,\"allocated_bytes\":8192,\"used\":5,\"cached\":123,\
             \"peak\":6,\"failures\":0,\"users\":2}\n"
        );
    }
}
