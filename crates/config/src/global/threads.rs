//! Threads and where they run.

use thalweg_syntax::Line;

use crate::build::Cx;
use crate::keyword::{Outcome, at_most, fail, not_supported, pass_over};
use crate::numbers::strict;

/// Most threads a process may have.
pub(crate) const THREADS_MAX: usize = 1024;
/// The greatest CPU number.
const CPU_MAX: i64 = 1023;
/// Threads of one group.
pub(crate) const GROUP_THREADS_MAX: usize = 64;

pub(crate) fn nbthread(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    before_other_sections(cx, line)?;
    let text = line.text(1);
    let Some(value) = strict(text) else {
        return Err(fail(
            line,
            1,
            format!("'nbthread' passed a missing or unparsable integer value in '{text}'"),
        ));
    };
    match usize::try_from(value) {
        Ok(count @ 1..=THREADS_MAX) => cx.config.global.nbthread = count,
        _ => {
            return Err(fail(
                line,
                1,
                format!("'nbthread' value must be between 1 and {THREADS_MAX} (was {value})"),
            ));
        }
    }
    Ok(())
}

pub(crate) fn thread_groups(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    before_other_sections(cx, line)?;
    let text = line.text(1);
    let Some(value) = strict(text) else {
        return Err(fail(
            line,
            1,
            format!("'thread-groups' passed a missing or unparsable integer value in '{text}'"),
        ));
    };
    match usize::try_from(value) {
        Ok(1) => cx.config.global.thread_groups = 1,
        Ok(2..=32) => {
            return Err(not_supported(line, 1, "thread-groups", "all threads are in one group"));
        }
        _ => {
            return Err(fail(
                line,
                1,
                format!("'thread-groups' value must be between 1 and 32 (was {value})"),
            ));
        }
    }
    Ok(())
}

/// How many threads there are shapes what follows, so it cannot change later.
fn before_other_sections(cx: &Cx<'_>, line: &Line) -> Outcome {
    if cx.non_global_seen {
        let name = line.text(0);
        return Err(fail(
            line,
            0,
            format!(
                "'{name}' not allowed if a non-global section was previously defined. This parameter must be declared in the first global section"
            ),
        ));
    }
    Ok(())
}

pub(crate) fn numa_cpu_mapping(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    pass_over(cx, line, 1, 0);
    cx.config.global.numa_cpu_mapping = true;
    Ok(())
}

pub(crate) fn cpu_policy(_: &mut Cx<'_>, line: &Line) -> Outcome {
    match line.text(1) {
        "none" => Ok(()),
        _ => Err(not_supported(line, 1, "cpu-policy", "only the policy 'none' is implemented; use cpu-map")),
    }
}

/// `cpu-map [auto:]<group>[/<threads>] <cpus>...`
pub(crate) fn cpu_map(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    let usage = "cpu-map expects a thread group number  ('all', 'odd', 'even', a number from 1 to 64 or a range),  \
                 followed by a list of CPU ranges with numbers from 0 to 63.";
    if line.words.len() < 3 {
        return Err(fail(line, line.words.len(), usage));
    }
    let text = line.text(1);
    let (auto, set) = match text.strip_prefix("auto:") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    // A number alone is a group, with all its threads; distributed over CPUs it has always been a thread.
    let alone = if auto { ("1", set) } else { (set, "all") };
    let (groups, threads) = set.split_once('/').unwrap_or(alone);
    let groups = number_set(groups, 64).ok_or_else(|| fail(line, 1, usage))?;
    let threads = number_set(threads, GROUP_THREADS_MAX).ok_or_else(|| fail(line, 1, usage))?;
    let mut cpus = Vec::new();
    for index in 2..line.words.len() {
        for part in line.text(index).split(',') {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            // `3-` is every CPU from the third on.
            let high = if high.is_empty() && part.ends_with('-') { Some(CPU_MAX) } else { strict(high) };
            let (Some(low), Some(high)) = (strict(low), high) else {
                return Err(fail(line, index, format!("cpu-map : '{part}' is not a CPU range.")));
            };
            if !(0..=CPU_MAX).contains(&low) || !(0..=CPU_MAX).contains(&high) {
                return Err(fail(
                    line,
                    index,
                    format!("cpu-map : supports CPU numbers from 0 to {CPU_MAX}."),
                ));
            }
            cpus.extend(low.min(high) as usize..=low.max(high) as usize);
        }
    }
    // Whatever their order, CPUs are given out from the lowest to the highest.
    cpus.sort_unstable();
    cpus.dedup();
    let targets: Vec<usize> = groups
        .iter()
        .flat_map(|g| threads.iter().map(move |t| (g - 1) * GROUP_THREADS_MAX + t - 1))
        .collect();
    if auto && threads.len() != cpus.len() {
        return Err(fail(
            line,
            1,
            "cpu-map : TGROUP/THREAD range and CPU sets must have the same size to be automatically bound",
        ));
    }
    let map = &mut cx.config.global.cpu_map;
    for (position, target) in targets.into_iter().enumerate() {
        if target >= THREADS_MAX {
            continue;
        }
        if map.len() <= target {
            map.resize(target + 1, None);
        }
        map[target] = match (auto, cpus.get(position)) {
            (true, Some(cpu)) => Some(vec![*cpu]),
            (true, None) => None,
            (false, _) => Some(cpus.clone()),
        };
    }
    Ok(())
}

/// A set of numbers from 1 to `max`: `all`, `odd`, `even`, `n` or `a-b`.
pub(crate) fn number_set(text: &str, max: usize) -> Option<Vec<usize>> {
    match text {
        "all" => return Some((1..=max).collect()),
        "odd" => return Some((1..=max).step_by(2).collect()),
        "even" => return Some((2..=max).step_by(2).collect()),
        _ => {}
    }
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let low = usize::try_from(strict(low)?).ok()?;
    let high = if high.is_empty() { max } else { usize::try_from(strict(high)?).ok()? };
    let (low, high) = (low.min(high), low.max(high));
    (low >= 1 && low <= max).then(|| (low..=high.min(max)).collect())
}
