//! `capture` and `declare capture`: what is kept of messages for the log.

use thalweg_syntax::Line;

use crate::build::{Building, Cx};
use crate::keyword::{Outcome, at_most, fail, pass_over};
use crate::model::{Capture, CookieCapture};
use crate::numbers::lenient;

/// `capture cookie|request header|response header ... len <n>`, read late so that slots keep their order.
pub(crate) fn capture(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_frontend(cx, line, "capture", "");
    match (line.text(1), line.text(2)) {
        ("cookie", _) => {
            if line.words.len() < 5 {
                return Err(fail(line, 2, "'capture' expects 'cookie' <cookie_name> 'len' <len>."));
            }
            if line.text(3) != "len" {
                cx.warn(line, 3, format!("'len' is read in place of '{}'.", line.text(3)));
            }
            pass_over(cx, line, 4, 1);
            let name = line.words[2].bytes();
            let (name, prefix) = match name.strip_suffix(b"*") {
                Some(prefix) => (prefix, true),
                None => (name, false),
            };
            let len = u32::try_from(lenient(cx, line, 4)).unwrap_or(0);
            b.p.cookie_capture = Some(std::sync::Arc::new(CookieCapture { name: name.into(), prefix, len }));
            Ok(())
        }
        (side @ ("request" | "response"), "header") => {
            if line.words.len() < 6 || line.text(4) != "len" {
                return Err(fail(
                    line,
                    3,
                    format!("'capture {side}' expects 'header' <header_name> 'len' <len>."),
                ));
            }
            at_most(line, 5, 1)?;
            let len = u32::try_from(lenient(cx, line, 5)).unwrap_or(0);
            add(b, side, Capture { name: line.words[3].bytes().into(), len });
            Ok(())
        }
        (side @ ("request" | "response"), _) => {
            Err(fail(line, 2, format!("'capture {side}' expects 'header' <header_name> 'len' <len>.")))
        }
        _ => Err(fail(line, 1, "'capture' expects 'cookie' or 'request header' or 'response header'.")),
    }
}

/// `declare capture request|response len <n>`, read late.
pub(crate) fn declare(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    if line.text(1) != "capture" {
        return Err(fail(
            line,
            1,
            format!("unknown declaration type '{}' (supports 'capture')", line.text(1)),
        ));
    }
    if !b.p.is_fe() {
        return Err(fail(line, 0, "'declare' requires a frontend section"));
    }
    let side = line.text(2);
    if !matches!(side, "request" | "response") {
        return Err(fail(line, 2, "'declare capture' requires a direction ('request' or 'response')"));
    }
    if line.text(3) != "len" || line.text(4).is_empty() {
        return Err(fail(line, 3, "'declare capture' requires a capture length ('len')"));
    }
    let len = u32::try_from(lenient(cx, line, 4)).unwrap_or(0);
    if len == 0 {
        return Err(fail(line, 4, "'declare capture' requires a positive length"));
    }
    add_slot(b, side, len as usize);
    Ok(())
}

/// Adds a slot without a header.
pub(crate) fn add_slot(b: &mut Building, side: &str, len: usize) {
    add(b, side, Capture { name: b""[..].into(), len: u32::try_from(len).unwrap_or(u32::MAX) });
}

/// Adds a slot.
fn add(b: &mut Building, side: &str, capture: Capture) {
    let list = if side == "request" { &mut b.p.request_captures } else { &mut b.p.response_captures };
    let mut all = list.to_vec();
    all.push(capture);
    *list = all.into();
}
