//! `timeout`.

use thalweg_syntax::{Line, TimeError};

use crate::build::{Building, Cx};
use crate::keyword::{Outcome, fail};
use crate::model::ProxyKind;
use crate::numbers::duration_ms;

/// Names, and which side they belong to: F frontend, B backend, both.
const TIMEOUTS: [(&str, bool, bool); 13] = [
    ("client", true, false),
    ("server", false, true),
    ("connect", false, true),
    ("check", false, true),
    ("queue", false, true),
    ("client-hs", true, false),
    ("handshake", true, false),
    ("http-keep-alive", true, true),
    ("http-request", true, true),
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
    let ms = duration_ms(cx, line, 2).map_err(|e: TimeError| {
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
    small(cx, line, 2, ms, &format!("'{title} {text}' in {} is", b.title()));
    let value = (ms != 0).then_some(ms);
    let t = &mut b.p.timeouts;
    let place = match name {
        "client" => &mut t.client,
        "server" => &mut t.server,
        "connect" => &mut t.connect,
        "check" => &mut t.check,
        "queue" => &mut t.queue,
        "http-keep-alive" => &mut t.http_keep_alive,
        "http-request" => &mut t.http_request,
        "tunnel" => &mut t.tunnel,
        "tarpit" => &mut t.tarpit,
        "client-fin" => &mut t.client_fin,
        "server-fin" => &mut t.server_fin,
        _ => &mut t.client_hs,
    };
    let changed = std::mem::replace(place, value) != value;
    let ignored = (frontend && !backend && !b.may_be_frontend())
        .then_some("frontend")
        .or((backend && !frontend && !b.may_be_backend()).then_some("backend"));
    if let Some(side) = ignored {
        cx.warn(line, 1, format!("'{title}' will be ignored because {} has no {side} capability", b.title()));
    } else if b.timeouts_here & (1 << index) != 0 && b.p.kind != ProxyKind::Defaults {
        cx.warn(line, 1, format!("overwriting '{title}' which was already specified"));
    }
    // Saying what is inherited anyway is nothing that could be overwritten.
    b.timeouts_here |= u16::from(changed) << index;
    Ok(())
}

/// Warns about a duration without a unit that is so short that it was probably meant in seconds.
pub(crate) fn small(cx: &mut Cx<'_>, line: &Line, index: usize, ms: u64, what: &str) {
    let text = line.text(index);
    if (1..100).contains(&ms) && text.bytes().all(|b| b.is_ascii_digit()) {
        let message = format!(
            "{what} suspiciously small for a value in milliseconds. Please use an explicit unit ('{text}ms') if that was \
             the intent."
        );
        cx.warn(line, index, message);
    }
}
