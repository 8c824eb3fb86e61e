//! `timeout`.

use thalweg_syntax::{Line, TimeError, TimeUnit, parse_time};

use crate::build::{Building, Cx};
use crate::keyword::{Outcome, fail};

/// Names, and which side they belong to: F frontend, B backend, both.
const TIMEOUTS: [(&str, bool, bool); 13] = [
    ("client", true, false),
    ("server", false, true),
    ("connect", false, true),
    ("check", false, true),
    ("queue", false, true),
    ("client-hs", true, false),
    ("handshake", true, false),
    ("http-keep-alive", true, false),
    ("http-request", true, false),
    ("tunnel", false, true),
    ("tarpit", true, true),
    ("client-fin", true, false),
    ("server-fin", false, true),
];

pub(crate) fn timeout(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let name = line.text(1);
    let Some(index) = TIMEOUTS.iter().position(|t| t.0 == name) else {
        return Err(fail(
            line,
            1,
            format!(
                "'timeout' supports 'client', 'server', 'connect', 'check', 'queue', 'handshake', 'http-keep-alive', \
                 'http-request', 'tunnel', 'tarpit', 'client-fin' and 'server-fin' (got '{name}')"
            ),
        ));
    };
    let (_, frontend, backend) = TIMEOUTS[index];
    let title = format!("timeout {name}");
    if line.words.len() < 3 {
        return Err(fail(line, 2, format!("'{title}' expects an integer value (in milliseconds)")));
    }
    let text = line.text(2);
    let ms = parse_time(text, TimeUnit::Milliseconds, TimeUnit::Milliseconds).map_err(|e: TimeError| {
        let span = line.words[2].span_of(e.range(text));
        Box::new(thalweg_syntax::Diagnostic::alert_at(span, e.message(text, &title)))
    })?;
    if line.words.len() > 3 {
        return Err(fail(
            line,
            3,
            format!("'{title}' : unexpected extra argument '{}' after value '{text}'.", line.text(3)),
        ));
    }
    small(cx, line, 2, ms, &format!("'{title} {text}' in {}", b.title()));
    let value = (ms != 0).then_some(ms);
    let t = &mut b.p.timeouts;
    match name {
        "client" => t.client = value,
        "server" => t.server = value,
        "connect" => t.connect = value,
        "check" => t.check = value,
        "queue" => t.queue = value,
        "http-keep-alive" => t.http_keep_alive = value,
        "http-request" => t.http_request = value,
        "tunnel" => t.tunnel = value,
        "tarpit" => t.tarpit = value,
        "client-fin" => t.client_fin = value,
        "server-fin" => t.server_fin = value,
        _ => t.client_hs = value,
    }
    let ignored = (frontend && !backend && !b.may_be_frontend())
        .then_some("frontend")
        .or((backend && !frontend && !b.may_be_backend()).then_some("backend"));
    if let Some(side) = ignored {
        cx.warn(line, 1, format!("'{title}' will be ignored because {} has no {side} capability", b.title()));
    } else if b.timeouts_here & (1 << index) != 0 {
        cx.warn(line, 1, format!("overwriting '{title}' which was already specified"));
    }
    b.timeouts_here |= 1 << index;
    Ok(())
}

/// Warns about a duration without a unit that is so short that it was probably meant in seconds.
pub(crate) fn small(cx: &mut Cx<'_>, line: &Line, index: usize, ms: u64, what: &str) {
    let text = line.text(index);
    if (1..100).contains(&ms) && text.bytes().all(|b| b.is_ascii_digit()) {
        let message = format!(
            "{what} is suspiciously small for a value in milliseconds. Please use an explicit unit ('{text}ms') if that was \
             the intent."
        );
        cx.warn(line, index, message);
    }
}
