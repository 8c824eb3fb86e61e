//! The expression language beside the reference's: thousands of generated expressions are evaluated by the installed
//! HAProxy, over its socket, and in this process, on the same requests, and must give the same bytes.
//!
//! `HAPROXY_ORACLE` names the program to compare with; otherwise it is the `haproxy` found in `PATH`. Without one the
//! test says so and passes. What an older reference does not know is left out; what it does otherwise on purpose is listed
//! in `known.rs` with the reason.

#[path = "differential/converters.rs"]
mod converters;
#[path = "differential/generate.rs"]
mod generate;
#[path = "differential/known.rs"]
mod known;
#[path = "differential/oracle.rs"]
mod oracle;
#[path = "differential/ours.rs"]
mod ours;
#[path = "differential/request.rs"]
mod request;
#[path = "differential/values.rs"]
mod values;

use generate::Case;

/// What evaluating a case gave: nothing when the configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The expression is not accepted.
    Refused(String),
    /// The rendering of the value, or that there is none.
    Value(String),
}

/// Cases in one run. The issue asks for at least 2,000.
const CASES: usize = 3000;
/// A fixed seed: the same expressions each time. `DIFFERENTIAL_SEED` and `DIFFERENTIAL_CASES` explore others.
const SEED: u64 = 0x7468_616c_7765_6721;

fn from_env<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn the_reference_agrees() {
    let Some(reference) = oracle::Reference::find() else {
        eprintln!("skipped: no HAProxy found to compare with (set HAPROXY_ORACLE)");
        return;
    };
    let cases = generate::cases(
        from_env("DIFFERENTIAL_SEED", SEED),
        from_env("DIFFERENTIAL_CASES", CASES),
        &reference,
    );
    assert!(
        cases.len() >= 2000 || std::env::var_os("DIFFERENTIAL_CASES").is_some(),
        "only {} cases",
        cases.len()
    );
    let requests = request::all();
    let ours: Vec<Outcome> = cases.iter().map(|case| ours::run(case, &requests)).collect();
    let theirs = oracle::run(&reference, &cases, &requests);
    let mut differences = Vec::new();
    let mut explained = 0;
    for ((case, ours), theirs) in cases.iter().zip(&ours).zip(&theirs) {
        let same = match (ours, theirs) {
            (Outcome::Refused(_), Outcome::Refused(_)) => true,
            (ours, theirs) => ours == theirs,
        };
        if same {
            continue;
        }
        if let Some(reason) = known::reason(case, ours, theirs, &reference) {
            if reason == "the reference crashes" {
                eprintln!("{reason} on request {}: {}", case.request, case.text);
            }
            explained += 1;
            continue;
        }
        differences.push(describe(case, ours, theirs));
    }
    let values = theirs.iter().filter(|t| matches!(t, Outcome::Value(v) if v != "NONE")).count();
    let refused = theirs.iter().filter(|t| matches!(t, Outcome::Refused(_))).count();
    eprintln!(
        "{} cases beside {}: {values} with a value, {refused} refused, {explained} explained differences, {} differences",
        cases.len(),
        reference.version,
        differences.len()
    );
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

fn describe(case: &Case, ours: &Outcome, theirs: &Outcome) -> String {
    format!("request {}: {}\n    ours:   {ours:?}\n    theirs: {theirs:?}", case.request, case.text)
}
