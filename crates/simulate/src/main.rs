#![forbid(unsafe_code)]
//! `thalweg-simulate`: plays scenarios and says which went wrong. See `docs/simulator.md`.

use std::process::ExitCode;
use std::time::Instant;

use thalweg_simulate::{Outcome, play};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.trim().parse().ok()
}

fn main() -> ExitCode {
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
