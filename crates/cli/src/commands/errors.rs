//! `show errors`: the last message of each side of each proxy that was not understood.

use std::sync::Arc;

use thalweg_config::model::CliLevel::Operator;
use thalweg_config::model::{Proxy, ProxyId};
use thalweg_proxy::Instance;
use thalweg_proxy::refused::{Refused, Side};
use thalweg_runtime::clock;
use thalweg_sample::facts::Endpoint;

use super::{date, find_proxy};
use crate::command::{Call, Command, Run};
use crate::json::{Object, Shape};
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] =
    &[Command::new("show errors", Operator, Run::Waiting(|call| Box::pin(show(call))))
        .help("[<px>] [request|response]", "show the last message that was not understood, by proxy")
        .json(|_| Shape::Own)];

/// Characters of a message in a line.
const WIDTH: usize = 70;

/// `show errors`.
async fn show(call: Call<'_>) -> std::io::Result<Reply> {
    let instance = call.instance().clone();
    let wanted = match call.args.first().map(|name| chosen(&instance, name)) {
        None => None,
        Some(Ok(wanted)) => wanted,
        Some(Err(reply)) => return Ok(reply),
    };
    let sides: &[Side] = match call.args.get(1) {
        Some(&"request") => &[Side::Request],
        Some(&"response") => &[Side::Response],
        _ => &[Side::Request, Side::Response],
    };
    let count = instance.refused.count();
    let describe = if call.wants_json() { document } else { describe };
    if !call.wants_json() {
        let title = format!("Total events captured on [{}] : {count}\n", date(clock::wall_us()));
        call.output.text.push_str(&title);
    }
    for proxy in &instance.config.proxies {
        for side in sides {
            let Some(refused) = instance.refused.get(proxy.id, *side) else { continue };
            // Whoever took part in it.
            let is = |id: ProxyId, uid| instance.config.find_proxy(id).is_some_and(|proxy| proxy.uid == uid);
            if wanted.is_none_or(|w| is(refused.frontend, w) || refused.backend.is_some_and(|id| is(id, w))) {
                call.output.text.push_str(&describe(&instance, &refused, *side));
                call.output.end_row().await?;
            }
        }
    }
    Ok(Reply::Done)
}

/// The number of a proxy, `None` for all: a negative number. A number may be that of no proxy.
fn chosen(instance: &Instance, name: &str) -> Result<Option<u32>, Reply> {
    let any: fn(&Proxy) -> bool = |_| true;
    if let Some(proxy) = find_proxy(instance, name, any) {
        return Ok(Some(proxy.uid));
    }
    match name.parse::<i64>() {
        Ok(number) if number < 0 => Ok(None),
        Ok(number) if number > 0 => Ok(Some(u32::try_from(number).unwrap_or(u32::MAX))),
        _ => Err(Reply::error("No such proxy.")),
    }
}

/// Who took part in an exchange with a message that was not understood. Those that are gone since are as if there had been none.
struct Parties<'i> {
    frontend: Option<&'i Proxy>,
    backend: Option<&'i Proxy>,
    /// Name and number.
    server: Option<(Arc<str>, u32)>,
    client: String,
}

impl<'i> Parties<'i> {
    fn of(instance: &'i Instance, refused: &Refused) -> Parties<'i> {
        let config = &instance.config;
        let backend = refused.backend.and_then(|id| config.find_proxy(id));
        let server = backend.zip(refused.server).and_then(|(backend, server)| {
            let server = backend.server(server)?;
            Some((instance.backends[backend.id.0 as usize].identity(server).name, server.uid))
        });
        let client = match refused.source {
            Endpoint::Inet(address) => address.to_string(),
            _ => "unix:0".into(),
        };
        Parties { frontend: config.find_proxy(refused.frontend), backend, server, client }
    }
}

fn describe(instance: &Instance, refused: &Refused, side: Side) -> String {
    let parties = Parties::of(instance, refused);
    let server = parties.server.map_or("<NONE> (#-1)".into(), |(name, uid)| format!("{name} (#{uid})"));
    let shown =
        |proxy: Option<&Proxy>| proxy.map_or("<NONE> (#-1)".into(), |p| format!("{} (#{})", p.name, p.uid));
    let (of_frontend, of_backend) = (shown(parties.frontend), shown(parties.backend));
    let (title, other) = match side {
        Side::Request => (
            format!("frontend {of_frontend}: invalid request"),
            format!("backend {of_backend}, server {server}"),
        ),
        Side::Response => (
            format!("backend {of_backend}: invalid response"),
            format!("frontend {of_frontend}, server {server}"),
        ),
    };
    let (len, size) = (refused.bytes.len(), instance.config.global.tune.bufsize);
    let mut text = format!(
        " \n[{}] {title}\n  {other}, event #{}, src {}\n  buffer starts at 0 (including 0 out), {} free,\n  len \
         {len}, wraps at {size}, error at position {}\n  {} :\n  \n",
        date(refused.wall_us),
        refused.number,
        parties.client,
        size.saturating_sub(len),
        refused.position,
        refused.why,
    );
    write_bytes(&mut text, &refused.bytes);
    text
}

/// The same as an object. Bytes are written as in the lines for people.
fn document(instance: &Instance, refused: &Refused, side: Side) -> String {
    let parties = Parties::of(instance, refused);
    let name = |proxy: Option<&Proxy>| proxy.map_or("-".into(), |proxy| proxy.name.to_string());
    let (mut text, mut object) = (String::new(), Object::default());
    object
        .text("side", if side == Side::Request { "request" } else { "response" })
        .text("date", &date(refused.wall_us))
        .text("frontend", &name(parties.frontend))
        .text("backend", &name(parties.backend))
        .text("server", parties.server.as_ref().map_or("-", |(name, _)| name))
        .text("src", &parties.client)
        .number("event", Some(refused.number))
        .text("error", &refused.why)
        .number("position", u64::try_from(refused.position).ok())
        .number("length", u64::try_from(refused.bytes.len()).ok())
        .text("bytes", &refused.bytes.iter().map(|byte| shown(*byte)).collect::<String>())
        .end(&mut text);
    text
}

/// The bytes, a line of them per line, with where each begins; `+` marks those that go on.
fn write_bytes(out: &mut String, bytes: &[u8]) {
    let mut goes_on = false;
    let mut at = 0;
    while at < bytes.len() {
        out.push_str(&format!("  {at:05}{} ", if goes_on { '+' } else { ' ' }));
        let mut width = 0;
        goes_on = true;
        while let Some(byte) = bytes.get(at) {
            let shown = shown(*byte);
            if width + shown.len() > WIDTH {
                break;
            }
            out.push_str(&shown);
            width += shown.len();
            at += 1;
            if *byte == b'\n' {
                goes_on = false;
                break;
            }
        }
        out.push('\n');
    }
}

/// A byte of a message.
fn shown(byte: u8) -> String {
    match byte {
        b'\t' => "\\t".into(),
        b'\n' => "\\n".into(),
        b'\r' => "\\r".into(),
        0x1b => "\\e".into(),
        b'\\' => "\\\\".into(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02X}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines and their ends, as the reference breaks them.
    #[test]
    fn lines_are_broken_where_they_do_not_fit() {
        let y = |n: usize| "y".repeat(n);
        for (line, expected) in [
            (format!("{}\r\n", y(66)), format!("  00000  {}\\r\\n\n", y(66))),
            (format!("{}\r\n", y(67)), format!("  00000  {}\\r\n  00068+ \\n\n", y(67))),
            (format!("{}\u{ff}", y(67)), format!("  00000  {}\n  00067+ \\xC3\\xBF\n", y(67))),
            (
                "a\tb\\\x1b\x0b\n\n.".into(),
                "  00000  a\\tb\\\\\\e\\x0B\\n\n  00007  \\n\n  00008  .\n".into(),
            ),
        ] {
            let mut out = String::new();
            write_bytes(&mut out, line.as_bytes());
            assert_eq!(out, expected);
        }
    }
}
