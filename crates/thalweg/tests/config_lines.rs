//! Configuration lines beside the reference: thousands of small files, each with one line (or a few) under test, are
//! checked with `-c` by an installed HAProxy and by this program. Both must accept, accept with a warning or refuse, and
//! name the same lines.
//!
//! `HAPROXY_ORACLE` names the program to compare with; otherwise it is the `haproxy` found in `PATH`. Without one the
//! test says so and passes. The lines are in `config_lines/*.txt`; what differs on purpose is in `config_lines/known.txt`,
//! by name and with its reason. All lines, more than 30,000, take many minutes, so that one of four is played each time, always the same ones;
//! `CONFIG_LINES_EVERY=1` plays all of them, which is for whoever changes the reading of configurations. `CONFIG_LINES`
//! limits a run to the cases that contain a text, `CONFIG_LINES_SHOW=1` prints what both programs said.

#[path = "config_lines/cases.rs"]
mod cases;
#[path = "config_lines/play.rs"]
mod play;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cases::{Case, Known};
use play::{Reference, Seen, Verdict};

/// Cases in a full run.
const CASES_MIN: usize = 4000;

#[test]
fn the_reference_agrees_about_lines() {
    let Some(reference) = Reference::find() else {
        eprintln!("skipped: no HAProxy found to compare with (set HAPROXY_ORACLE)");
        return;
    };
    let filter = std::env::var("CONFIG_LINES").unwrap_or_default();
    let show = std::env::var_os("CONFIG_LINES_SHOW").is_some();
    let all = cases::all();
    assert!(all.len() >= CASES_MIN, "only {} cases", all.len());
    let known = cases::known();
    let every: usize = match std::env::var("CONFIG_LINES_EVERY") {
        Ok(text) => text.parse().expect("a number"),
        Err(_) if filter.is_empty() => 4,
        Err(_) => 1,
    };
    let cases: Vec<&Case> = all.iter().filter(|case| case.name.contains(&filter)).step_by(every).collect();
    let directory = play::Directory::new();
    let next = AtomicUsize::new(0);
    let results: Mutex<BTreeMap<usize, (Seen, Seen)>> = Mutex::default();
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (cases, directory, next, results, reference) =
                (&cases, &directory, &next, &results, &reference);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(index) else { return };
                    let file = directory.write(worker, &case.text);
                    let theirs = reference.check(&file);
                    let ours = play::ours(&file);
                    results.lock().unwrap().insert(index, (ours, theirs));
                }
            });
        }
    });
    let mut differences = Vec::new();
    let mut missing: BTreeMap<String, usize> = BTreeMap::new();
    let mut explained = vec![0; known.len()];
    let results = results.into_inner().unwrap();
    for (index, (ours, theirs)) in &results {
        let case = cases[*index];
        if show {
            println!("{}\n{}", case.name, play::describe(ours, theirs));
        }
        if let Some(what) = ours.not_supported() {
            *missing.entry(what).or_default() += 1;
            continue;
        }
        match play::compare(case, ours, theirs) {
            Verdict::Same => {}
            Verdict::Differs(how) => match known.iter().position(|k| k.matches(case, how)) {
                Some(entry) => explained[entry] += 1,
                None => differences.push(format!("{how}: {}\n{}", case.name, play::describe(ours, theirs))),
            },
        }
    }
    let refused = results.values().filter(|(_, theirs)| !theirs.accepted).count();
    eprintln!(
        "{} lines beside {}: {refused} refused, {} need a system that is missing, {} known differences, {} differences",
        results.len(),
        reference.version,
        missing.values().sum::<usize>(),
        explained.iter().sum::<usize>(),
        differences.len()
    );
    if show || std::env::var_os("CONFIG_LINES_MISSING").is_some() {
        for (what, count) in missing {
            eprintln!("missing: {count:4} {what}");
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    if filter.is_empty() && every == 1 {
        let stale: Vec<&Known> =
            known.iter().zip(&explained).filter(|(_, n)| **n == 0).map(|(k, _)| k).collect();
        assert!(stale.is_empty(), "no longer different, take them off the list: {stale:#?}");
    }
}
