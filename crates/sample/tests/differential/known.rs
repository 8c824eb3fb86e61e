//! Differences from the reference that are meant, each with its reason.

use super::Outcome;
use super::generate::{Case, Kind};
use super::oracle::{CRASHED, Reference};

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
    let refused = match ours {
        Outcome::Refused(message) => message.clone(),
        Outcome::Value(_) => String::new(),
    };
    if matches!(theirs, Outcome::Refused(message) if message.contains("reference to non-existent subpattern"))
    {
        return Some("groups of regular expressions in ACLs cannot be referred to in the reference");
    }
    if case.kind == Kind::Condition
        && text
            .split('\u{1}')
            .any(|word| word.starts_with('-') && word[1..].starts_with(|c: char| c.is_ascii_digit()))
    {
        return Some("in the reference a negative number in an ACL is a range up to it");
    }
    if text.contains("rfc7239_nn") {
        return Some("the reference writes a node over the number it was made from");
    }
    if case.kind == Kind::Header && matches!(ours, Outcome::Value(value) if value.len() > 16384) {
        return Some("the header is too long for the expression that shows it");
    }
    let is_format = matches!(case.kind, Kind::Format | Kind::Header | Kind::Log);
    if is_format && text.contains("+cbor") && text.contains("+Q") {
        return Some("quoted CBOR is no CBOR: in the reference quotes are put around the bytes of texts");
    }
    if is_format && text.contains("+cbor") && text.contains("+bin") {
        return Some("numbers above 255 in binary CBOR are in the wrong order of bytes in the reference");
    }
    if is_format && text.contains(":bool)") && text.contains("int(-9223372036854775808)") {
        return Some(
            "only the lower half of a number decides whether it is true in formats of the reference",
        );
    }
    let (ours, theirs) = (value(ours), value(theirs));
    if theirs == CRASHED {
        return Some("the reference crashes");
    }
    // Steps that follow each other, without their arguments.
    let steps: Vec<&str> = text.split(',').collect();
    let date = text.contains("http_date") || text.contains("ltime(") || text.contains("utime(");
    // The masked smallest integer is 0; a digest hides the year.
    let hidden = text.contains("-9223372036854775808)") && text.contains("digest");
    if date
        && (hidden
            || ["555443", "31393030", "53756E", "2D32323039303735323030"]
                .iter()
                .any(|trace| theirs.contains(trace)))
    {
        return Some("the reference shows the moment 0 as the day 0 of the year 1900, a Sunday");
    }
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
    if (text.contains("hdr_val(x-num") || text.contains("cook_val(")) && !ours.is_empty() {
        return Some("numbers in headers wrap at 32 bits in the reference and are cut to 64 bits here");
    }
    if reference.number < (3, 4) {
        return older(text, case.kind == Kind::Format, &refused, &ours, &theirs);
    }
    None
}

/// Why the outcome of an older version may differ from ours, which follows 3.5.
fn older(text: &str, case_is_format: bool, refused: &str, ours: &str, theirs: &str) -> Option<&'static str> {
    if refused.contains("expects a non-negative integer") || refused.contains("expects a positive integer") {
        return Some("older versions take negative arguments of bytes");
    }
    if refused.contains("cannot be applied") || refused.contains("matching method") {
        return Some("older versions take addresses for numbers");
    }
    if text.contains("sub(") && theirs.contains("7FFFFFFFFFFFFFFF") {
        return Some("older versions take some subtractions from negative numbers for overflows");
    }
    if text.contains("word(") {
        return Some("in older versions a word that does not exist is an empty string");
    }
    if text.contains("+Q") && case_is_format {
        return Some("older versions do not quote expressions outside of logs");
    }
    if text.contains("mqtt_is_valid") {
        return Some("older versions look at the type of an MQTT packet before its length");
    }
    if text.contains("hdr_val(") || text.contains("cook_val(") {
        return Some("in older versions every byte of a number in a header counts as a digit");
    }
    if text.contains("ipmask(") && theirs == "NONE" && ours != "NONE" {
        return Some("older versions see no IPv4 address in ::1");
    }
    None
}
