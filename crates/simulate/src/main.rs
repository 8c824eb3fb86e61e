#![forbid(unsafe_code)]
//! `thalweg-simulate`: plays scenarios and says which went wrong. See `docs/simulator.md`.

use std::process::ExitCode;
use std::time::Instant;

use thalweg_runtime::plant;
use thalweg_simulate::{Outcome, play};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.trim().parse().ok()
}

fn main() -> ExitCode {
    if let Ok(name) = std::env::var("PLANTED") {
        return planted(&name);
    }
    if let Some(seed) = number("SEED") {
        return replay(seed);
    }
    let seeds = number("SEEDS").unwrap_or(2_000);
    let first = number("FIRST").unwrap_or(1);
    let began = Instant::now();
    let mut failed = Vec::new();
    let mut counts = [0; 3];
    let mut virtual_ms = 0;
    for seed in first..first + seeds {
        let outcome = play(seed, false);
        virtual_ms += outcome.report.virtual_ms;
        counts.iter_mut().zip(outcome.counts).for_each(|(sum, n)| *sum += n);
        if !outcome.complaints.is_empty() {
            println!("seed {seed}:\n  {}", outcome.complaints.join("\n  "));
            failed.push(seed);
        }
    }
    let [requests, responses, attempts] = counts;
    println!(
        "{seeds} scenarios in {:.1} s ({} virtual hours): {requests} requests, {responses} answers, servers saw {attempts}; {} failed",
        began.elapsed().as_secs_f64(),
        virtual_ms / 3_600_000,
        failed.len()
    );
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("replay with: make simulate SEED={}", failed[0]);
    ExitCode::FAILURE
}

/// Plays one scenario twice, and tells all of it.
fn replay(seed: u64) -> ExitCode {
    let outcome = play(seed, true);
    println!("{}", outcome.plan.proxy.text);
    println!("{:#?}", outcome.plan.clients);
    println!("{:#?}", outcome.plan.servers);
    println!("{:#?}", outcome.plan.network);
    for (at_ns, text) in &outcome.report.journal {
        println!("{:>14.3} ms  {text}", *at_ns as f64 / 1e6);
    }
    let Outcome { complaints, report, .. } = outcome;
    let again = play(seed, false);
    if again.report.trace != report.trace {
        println!("NOT THE SAME TWICE: {:x} and {:x}", report.trace, again.report.trace);
    }
    if complaints.is_empty() {
        println!("seed {seed}: nothing is wrong");
        return ExitCode::SUCCESS;
    }
    println!("seed {seed}:\n  {}", complaints.join("\n  "));
    ExitCode::FAILURE
}

/// Plants each bug, or the one of this name, and looks for a seed that finds it.
fn planted(name: &str) -> ExitCode {
    if !plant::choose(None) {
        println!("no bugs can be planted in this build: make simulate-planted");
        return ExitCode::FAILURE;
    }
    let bugs: Vec<_> = plant::BUGS.iter().filter(|(bug, _)| name.is_empty() || *bug == name).collect();
    if bugs.is_empty() {
        println!("no bug is called {name}");
        return ExitCode::FAILURE;
    }
    if let (Some(seed), [(bug, _)]) = (number("SEED"), &bugs[..]) {
        plant::choose(Some(bug));
        return replay(seed);
    }
    let seeds = number("SEEDS").unwrap_or(2_000);
    let first = number("FIRST").unwrap_or(1);
    let mut missed = 0;
    for (bug, what) in bugs {
        plant::choose(Some(bug));
        let found = (first..first + seeds).map(|seed| play(seed, false)).find(|o| !o.complaints.is_empty());
        match found {
            Some(outcome) => {
                let complaint = outcome.complaints[0].lines().next().unwrap_or_default();
                println!("{bug}: {what}\n    seed {} finds it: {complaint}", outcome.plan.seed);
            }
            None => {
                println!("{bug}: {what}\n    NOT FOUND by {seeds} seeds");
                missed += 1;
            }
        }
    }
    plant::choose(None);
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
