//! Rules run in an order that does not depend on the order of the file: lines that suggest otherwise are warned about.

use thalweg_syntax::Line;

use crate::build::{Building, Cx};

/// Statements in the order in which they run.
const REQUEST: [&str; 8] = [
    "tcp-request connection",
    "tcp-request session",
    "tcp-request content",
    "monitor fail",
    "http-request",
    "redirect",
    "use_backend",
    "use-server",
];

/// The same on the way back.
const RESPONSE: [&str; 2] = ["tcp-response content", "http-response"];

/// Which statements a section holds so far, one bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Order {
    request: u8,
    response: u8,
}

/// Notes the statement of a line and warns when one that runs later was before it.
pub(crate) fn check_order(cx: &mut Cx<'_>, b: &mut Building, line: &Line) {
    let name = match line.text(0) {
        word @ ("tcp-request" | "tcp-response" | "monitor") => format!("{word} {}", line.text(1)),
        word => word.to_owned(),
    };
    let position = |list: &[&str]| list.iter().position(|n| *n == name);
    let (seen, rank, list): (&mut u8, usize, &[&str]) = match (position(&REQUEST), position(&RESPONSE)) {
        (Some(rank), _) => (&mut b.order.request, rank, &REQUEST),
        (None, Some(rank)) => (&mut b.order.response, rank, &RESPONSE),
        _ => return,
    };
    // The two ways of routing are independent of each other.
    let independent = if name == "use_backend" { 1 << 7 } else { 0 };
    let later = *seen & !independent & !((2_u16 << rank) - 1) as u8;
    *seen |= 1 << rank;
    if later != 0 {
        let other = list[later.trailing_zeros() as usize];
        let article = if other.starts_with('h') { "an" } else { "a" };
        cx.warn(
            line,
            0,
            format!("a '{name}' rule placed after {article} '{other}' rule will still be processed before."),
        );
    }
}
