//! Differences from the reference that are meant, each with its reason.

use super::Outcome;
use super::generate::Case;
use super::oracle::Reference;

/// Converters that do arithmetic on what may be a truth value.
const ARITHMETIC: [&str; 10] = ["add(", "sub(", "mul(", "div(", "mod(", "and(", "or(", "xor(", "neg", "cpl"];
/// What gives a truth value.
const TRUTHS: [&str; 13] = [
    "bool(",
    "always_true",
    "always_false",
    "req.proto_http",
    "odd",
    "even",
    "not",
    "bool",
    "fe_exists",
    "srv_is_up",
    "is_valid",
    "has_ctl",
    "secure_memcmp",
];

/// Why the outcomes of a case may differ, if they may.
pub fn reason(case: &Case, ours: &Outcome, theirs: &Outcome, reference: &Reference) -> Option<&'static str> {
    let text = case.text.as_str();
    let value = |outcome: &Outcome| match outcome {
        Outcome::Value(value) => value.clone(),
        Outcome::Refused(_) => String::new(),
    };
    let (ours, theirs) = (value(ours), value(theirs));
    // Steps that follow each other, without their arguments.
    let steps: Vec<&str> = text.split(',').collect();
    if steps.windows(2).any(|pair| {
        TRUTHS.iter().any(|name| pair[0].contains(name))
            && ARITHMETIC.iter().any(|name| pair[1].starts_with(name))
    }) {
        return Some(
            "in the reference the result of arithmetic on a truth value is a truth value other than 0 and 1",
        );
    }
    if text.matches("ipmask(").count() > 1 && ours != "NONE" && theirs != "NONE" {
        return Some(
            "in the reference a masked IPv4 address that came from IPv6 shows its old bits to a second mask",
        );
    }
    if (5..8).any(|size| text.contains(&format!(",{size},")) && text.contains("le2dec(")) {
        return Some("le2dec of more than four bytes is computed in 32 bits in the reference");
    }
    let _ = reference;
    None
}
