//! One line of `tcp-check` or `http-check`.

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_check::{Assignment, Connect, Port, Protocol, Source, Step, StepKind, Text, parse_hex};
use thalweg_sample::vars::SetConditions;
use thalweg_sample::{LogFormat, Point, Usage, VarRef};
use thalweg_syntax::address::PortSpec;
use thalweg_syntax::{Address, AddressOptions, Line};

use super::expect::expect;
use super::{Read, plain_request};
use crate::build::{Building, Cx};
use crate::keyword::{at_most, fail, not_supported, pass_over};
use crate::numbers::strict;
use crate::sample_env::{expression_here, format_at};

/// The steps that lines make. What is wrong with any of them is told; the last complaint is the caller's to tell.
pub(super) fn rules(cx: &mut Cx<'_>, b: &Building, lines: &[Line]) -> Read<Vec<Step>> {
    let mut steps = Vec::new();
    let mut wrong = None;
    for (i, line) in lines.iter().enumerate() {
        let number = u32::try_from(i + 1).unwrap_or(u32::MAX);
        match step(cx, b, line, number) {
            Ok(step) => steps.push(step),
            Err(complaint) => {
                if let Some(earlier) = wrong.replace(complaint) {
                    cx.diagnostics.push(*earlier);
                }
            }
        }
    }
    wrong.map_or(Ok(steps), Err)
}

/// The step that a line makes.
fn step(cx: &mut Cx<'_>, b: &Building, line: &Line, number: u32) -> Read<Step> {
    let name = format!("'{} {}'", line.text(0), line.text(1));
    let mut comment = None;
    let verb = line.text(1);
    let kind = match verb.split('(').next().unwrap_or(verb) {
        "comment" => {
            let text = needed(line, 2, &format!("{name} : expects a string as argument."))?;
            comment = Some(Arc::from(text));
            StepKind::Comment
        }
        "connect" => StepKind::Connect(connect(cx, b, line, &name, &mut comment)?),
        "send" if line.text(0) == "http-check" => request(cx, b, line, &name, &mut comment)?,
        "expect" => expect(cx, b, line, &name, &mut comment)?,
        "set-var" | "set-var-fmt" | "unset-var" => assign(cx, b, line, &name)?,
        _ => send(cx, b, line, &name, &mut comment)?,
    };
    Ok(Step { number, comment, kind })
}

pub(super) fn needed<'l>(line: &'l Line, at: usize, message: &str) -> Read<&'l str> {
    match line.text(at) {
        "" => Err(fail(line, at, message)),
        text => Ok(text),
    }
}

/// `comment <text>` among the arguments.
pub(super) fn comment_at(line: &Line, at: usize, name: &str, comment: &mut Option<Arc<str>>) -> Read<usize> {
    let text = needed(line, at + 1, &format!("{name} : expects a string as argument."))?;
    *comment = Some(Arc::from(text));
    Ok(at + 2)
}

pub(super) fn bytes(line: &Line, at: usize) -> Arc<[u8]> {
    line.word(at).map_or(&b""[..], |w| w.bytes()).into()
}

/// A format at `at`; one without variables is a plain text.
pub(super) fn format(cx: &mut Cx<'_>, b: &Building, line: &Line, at: usize, name: &str) -> Read<Text> {
    let format = log_format(cx, b, line, at, name)?;
    Ok(match format.as_literal() {
        Some(bytes) => Text::Fixed(bytes.into()),
        None => Text::Format(format),
    })
}

pub(super) fn log_format(
    cx: &mut Cx<'_>,
    b: &Building,
    line: &Line,
    at: usize,
    name: &str,
) -> Read<Arc<LogFormat>> {
    let text = line.text(at);
    format_at(cx, b, text, line.span_at(at), Point::Check.set(), Usage::Raw, "")
        .map(Arc::new)
        .map_err(|e| fail(line, at, format!("{name} : '{text}' invalid log-format string ({e}).")))
}

pub(super) fn hex(line: &Line, at: usize, name: &str) -> Read<Text> {
    parse_hex(&bytes(line, at)).map(|b| Text::Fixed(b.into())).ok_or_else(|| {
        fail(line, at, format!("{name} : invalid binary string (an even number of hex digit is expected)."))
    })
}

fn connect(
    cx: &mut Cx<'_>,
    b: &Building,
    line: &Line,
    name: &str,
    comment: &mut Option<Arc<str>>,
) -> Read<Connect> {
    let mut connect = Connect::default();
    let mut at = 2;
    while at < line.words.len() {
        match line.text(at) {
            "comment" => {
                at = comment_at(line, at, name, comment)?;
                continue;
            }
            "default" => connect.as_server = true,
            "ssl" => connect.ssl = true,
            "sni" => {
                let text = needed(line, at + 1, &format!("{name} : 'sni' expects a string as argument."))?;
                connect.sni = Some(cx.name(text));
                at += 1;
            }
            "linger" => connect.linger = true,
            "send-proxy" => connect.send_proxy = true,
            "port" => {
                connect.port = Some(port(cx, b, line, at + 1, name)?);
                at += 1;
            }
            "addr" => {
                needed(line, at + 1, &format!("{name} : 'addr' expects an address as argument."))?;
                let options = AddressOptions { port: true, ..AddressOptions::HOST };
                match crate::resolve::address(cx, line, at + 1, &options, &format!("{name} : "))? {
                    Address::Ip { ip, port, .. } => {
                        let port = if let PortSpec::Fixed(port) = port { port } else { 0 };
                        connect.addr = Some(SocketAddr::new(ip, port));
                    }
                    other => {
                        return Err(not_supported(
                            line,
                            at + 1,
                            other.family_name(),
                            "checks go to IP addresses",
                        ));
                    }
                }
                at += 1;
            }
            "alpn" => {
                let text = needed(
                    line,
                    at + 1,
                    &format!("{name} : 'alpn' expects a comma-separated list of protocols as argument."),
                )?;
                let protocols = crate::tls::check_protocols(text);
                connect.protocols =
                    Some(protocols.map_err(|why| fail(line, at + 1, format!("{name} : {why}")))?);
                at += 1;
            }
            "via-socks4" => connect.via_socks4 = true,
            "proto" => {
                connect.protocol = Some(protocol(line, at + 1, name)?);
                at += 1;
            }
            other => {
                let message = format!(
                    "{name} : expects 'comment', 'port', 'addr', 'send-proxy', 'ssl', 'sni', 'alpn' or 'via-socks4', \
                     'linger', 'default' but got '{other}' as argument.."
                );
                return Err(fail(line, at, message));
            }
        }
        at += 1;
    }
    Ok(connect)
}

/// The port of a connection.
fn port(cx: &mut Cx<'_>, b: &Building, line: &Line, at: usize, name: &str) -> Read<Port> {
    let missing = format!("{name} : 'port' expects a port number or a sample expression as argument.");
    let text = needed(line, at, &missing)?;
    let wrong = || {
        let message = format!(
            "{name} : expects a valid TCP port (from range 1 to 65535) or a sample expression, got {text}.."
        );
        fail(line, at, message)
    };
    Ok(match strict(text) {
        Some(port) => Port::Fixed(u16::try_from(port).ok().filter(|p| *p > 0).ok_or_else(wrong)?),
        None => {
            let expr = expression_here(cx, b, text, line.span_at(at), Point::Check.set(), "");
            Port::Expr(Arc::new(expr.map_err(|_| wrong())?))
        }
    })
}

/// `proto <name>` of a connection, which must be one that the rules of its kind can speak.
fn protocol(line: &Line, at: usize, name: &str) -> Read<Protocol> {
    let text = needed(line, at, &format!("{name} : 'proto' expects a MUX protocol as argument."))?;
    let http = line.text(0) == "http-check";
    match crate::server_options::protocol(text) {
        Some(protocol) if (protocol == Protocol::Raw) != http => Ok(protocol),
        Some(_) => {
            let message = format!("{name} : 'proto' : invalid MUX protocol '{text}' for {}.", line.text(0));
            Err(fail(line, at, message))
        }
        None if crate::server_options::UNBUILT_PROTOCOLS.contains(&text) => {
            Err(not_supported(line, at, &format!("proto {text}"), "only HTTP/1 and HTTP/2 are built"))
        }
        None => Err(fail(line, at, format!("{name} : 'proto' : unknown MUX protocol '{text}'."))),
    }
}

fn send(
    cx: &mut Cx<'_>,
    b: &Building,
    line: &Line,
    name: &str,
    comment: &mut Option<Arc<str>>,
) -> Read<StepKind> {
    let verb = line.text(1);
    let what = if verb.contains("binary") { "binary string" } else { "string" };
    needed(line, 2, &format!("{name} : '{what}' expects a {verb} as argument."))?;
    let text = match verb {
        "send" => Text::Fixed(bytes(line, 2)),
        "send-lf" => format(cx, b, line, 2, name)?,
        "send-binary" => hex(line, 2, name)?,
        _ => Text::HexFormat(log_format(cx, b, line, 2, name)?),
    };
    match line.text(3) {
        "" => {}
        "comment" => {
            comment_at(line, 3, name, comment)?;
            at_most(line, 2, 3)?;
        }
        other => {
            return Err(fail(
                line,
                3,
                format!("{name} : expects 'comment', but got '{other}' as argument.."),
            ));
        }
    }
    Ok(StepKind::Send(text))
}

fn request(
    cx: &mut Cx<'_>,
    b: &Building,
    line: &Line,
    name: &str,
    comment: &mut Option<Arc<str>>,
) -> Read<StepKind> {
    let mut request = plain_request();
    let mut at = 2;
    while at < line.words.len() {
        let word = line.text(at);
        let value = |missing: &str| {
            needed(line, at + 1, &format!("{name} : '{word}' expects {missing} as argument."))
        };
        match word {
            "comment" => {
                at = comment_at(line, at, name, comment)?;
                continue;
            }
            "meth" => {
                value("a string")?;
                request.method = bytes(line, at + 1);
            }
            "ver" => {
                value("a string")?;
                request.version = bytes(line, at + 1);
            }
            "uri" => {
                value("a string")?;
                request.uri = Text::Fixed(bytes(line, at + 1));
            }
            "uri-lf" => {
                value("a string")?;
                request.uri = format(cx, b, line, at + 1, name)?;
            }
            "body" => {
                value("a string")?;
                request.body = Some(Text::Fixed(bytes(line, at + 1)));
            }
            "body-lf" => {
                value("a string")?;
                request.body = Some(format(cx, b, line, at + 1, name)?);
            }
            "hdr" => {
                if line.words.len() < at + 3 {
                    return Err(fail(
                        line,
                        at,
                        format!("{name} : 'hdr' expects <name> and <value> as arguments."),
                    ));
                }
                let name_bytes = bytes(line, at + 1);
                // The length comes from the body.
                if !name_bytes.eq_ignore_ascii_case(b"content-length")
                    && !name_bytes.eq_ignore_ascii_case(b"transfer-encoding")
                {
                    if name_bytes.eq_ignore_ascii_case(b"host") && request.headers.iter().any(is_host) {
                        return Err(fail(line, at + 1, format!("{name} : 'host' header already defined.")));
                    }
                    let value = format(cx, b, line, at + 2, name)?;
                    request.headers.push((name_bytes, value));
                }
                at += 1;
            }
            other => {
                let message = format!(
                    "{name} : expects 'comment', 'meth', 'uri', 'uri-lf', 'ver', 'hdr', 'body' or 'body-lf' but got \
                     '{other}' as argument.."
                );
                return Err(fail(line, at, message));
            }
        }
        at += 2;
    }
    Ok(StepKind::Request(Box::new(request)))
}

fn is_host(header: &(Arc<[u8]>, Text)) -> bool {
    header.0.eq_ignore_ascii_case(b"host")
}

fn assign(cx: &mut Cx<'_>, b: &Building, line: &Line, name: &str) -> Read<StepKind> {
    let word = line.text(1);
    let (verb, inner) = word.split_once('(').unwrap_or((word, ""));
    let Some(inner) = inner.strip_suffix(')').filter(|i| !i.is_empty()) else {
        return Err(fail(line, 1, format!("{name} : expects the name of a variable between parentheses.")));
    };
    let mut parts = inner.split(',');
    let variable =
        VarRef::parse(parts.next().unwrap_or("")).map_err(|e| fail(line, 1, format!("{name} : {e}.")))?;
    let mut conditions: Option<SetConditions> = None;
    for part in parts {
        let known = conditions.get_or_insert_default().add(part);
        known.map_err(|_| fail(line, 1, format!("{name} : unknown condition \"{part}\".")))?;
    }
    let source = match verb {
        "unset-var" => {
            pass_over(cx, line, 2, 0);
            Source::Nothing
        }
        "set-var" => {
            let text = needed(line, 2, &format!("{name} : expects an expression."))?;
            let expr = expression_here(cx, b, text, line.span_at(2), Point::Check.set(), "");
            Source::Expr(Arc::new(expr.map_err(|e| fail(line, 2, format!("{name} : {e}.")))?))
        }
        _ => {
            needed(line, 2, &format!("{name} : expects a format."))?;
            Source::Format(log_format(cx, b, line, 2, name)?)
        }
    };
    if verb == "set-var" {
        pass_over(cx, line, 2, 1);
    } else if verb != "unset-var" {
        at_most(line, 2, 1)?;
    }
    Ok(StepKind::Assign(Box::new(Assignment { variable, conditions, source })))
}
