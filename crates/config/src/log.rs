//! `log`: where lines go.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use thalweg_syntax::address::{PortSpec, Transport};
use thalweg_syntax::{Address, AddressOptions, Diagnostic, Lead, Line, Severity, Span};

use crate::build::{Building, Cx};
use crate::keyword::{NoteBoxed, Outcome, fail, not_supported};
use crate::model::{Facility, LogDest, LogFormatKind, LogLevel, LogSample, LogTarget, Mode};

use crate::numbers::lenient;
use crate::resolve::address;

/// A name that a `log` line uses, checked once everything was read.
pub(crate) struct LogName {
    pub name: Arc<str>,
    pub what: LogNameKind,
    pub span: Span,
    /// The section of the line, as messages call it; `None` for `global`.
    pub section: Option<Arc<str>>,
}

/// What is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogNameKind {
    Profile,
    Ring,
    Backend,
}

/// Refuses the names that nothing was declared under.
pub(crate) fn check_names(cx: &mut Cx<'_>) {
    for used in std::mem::take(&mut cx.log_names) {
        let (known, what) = match used.what {
            LogNameKind::Backend => {
                let found = cx.proxies.iter().find(|b| b.p.name == used.name && b.p.is_be());
                match found {
                    Some(b) if b.p.mode != Mode::Log => (false, "uses incompatible log backend"),
                    found => (found.is_some(), "uses unknown log backend"),
                }
            }
            LogNameKind::Ring => {
                (cx.config.rings.iter().any(|r| r.name == used.name), "uses unknown ring named")
            }
            LogNameKind::Profile => {
                (cx.config.log_profiles.iter().any(|p| p.name == used.name), "unknown log-profile")
            }
        };
        if !known {
            let message = format!(
                "log directive declared in {} in file '{}' at line {} {what} '{}'.",
                used.section.as_deref().unwrap_or("global section"),
                cx.sources.name(used.span.file),
                used.span.line,
                used.name
            );
            cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, Some(used.span), message));
        }
    }
}

/// `log` in `global`.
pub(crate) fn global_log(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    if line.text(1) == "global" {
        return Err(fail(line, 1, "log : 'global' is not supported for a global syslog server"));
    }
    let target = target(cx, line, "log : expects <address> and <facility>  as arguments")?;
    let mut all = cx.config.global.log_targets.to_vec();
    all.push(LogTarget { global: Some(all.len()), ..target });
    cx.config.global.log_targets = all.into();
    Ok(())
}

/// `log` in a proxy.
pub(crate) fn proxy_log(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let mut all = b.p.log_targets.to_vec();
    add_line(cx, line, &format!("proxy section '{}'", b.p.name), &mut all)?;
    b.p.log_targets = all.into();
    Ok(())
}

/// One line of a section other than `global`, which messages call `section`: its targets join `targets`, the section's. `log global`
/// means all the global ones there are so far; those that the section has already are not sent to twice.
pub(crate) fn add_line(cx: &mut Cx<'_>, line: &Line, section: &str, targets: &mut Vec<LogTarget>) -> Outcome {
    if line.words.len() == 2 && line.text(1) == "global" {
        let globals = &cx.config.global.log_targets;
        let known: Vec<_> = targets.iter().map(|target| target.global).collect();
        targets.extend(globals.iter().filter(|target| !known.contains(&target.global)).cloned());
        return Ok(());
    }
    let before = cx.log_names.len();
    targets.push(target(cx, line, "log : expects <address> and <facility> or global as arguments")?);
    for used in &mut cx.log_names[before..] {
        used.section = Some(section.into());
    }
    Ok(())
}

/// One target: `<address> [options] <facility> [<level> [<minlevel>]]`.
pub(crate) fn target(cx: &mut Cx<'_>, line: &Line, usage: &str) -> Result<LogTarget, Box<Diagnostic>> {
    if line.words.len() < 3 {
        return Err(fail(line, line.words.len(), usage));
    }
    let dest = destination(cx, line, 1)?;
    let mut target = LogTarget {
        dest,
        len: 1024,
        format: LogFormatKind::Unspecified,
        facility: Facility(0),
        level: LogLevel::Debug,
        minlevel: LogLevel::Emerg,
        sample: None,
        profile: None,
        global: None,
    };
    // The options come in this order, each once at most.
    const ORDER: [&str; 4] = ["len", "format", "sample", "profile"];
    let (mut at, mut next) = (2, 0);
    while let Some(rank) = ORDER.iter().position(|o| *o == line.text(at)).filter(|r| *r >= next) {
        next = rank + 1;
        option(cx, line, at, &mut target)?;
        at += 2;
    }
    let name = line.text(at);
    let Some(facility) = Facility::NAMES.iter().position(|n| *n == name) else {
        return Err(if name.is_empty() {
            fail(line, at, usage)
        } else {
            fail(line, at, format!("log : unknown log facility '{name}'"))
        });
    };
    target.facility = Facility(facility as u8);
    if !line.text(at + 1).is_empty() {
        let name = line.text(at + 1);
        target.level = LogLevel::from_name(name)
            .ok_or_else(|| fail(line, at + 1, format!("log : unknown optional log level '{name}'")))?;
    }
    if !line.text(at + 2).is_empty() {
        let name = line.text(at + 2);
        target.minlevel = LogLevel::from_name(name).ok_or_else(|| {
            fail(line, at + 2, format!("log : unknown optional minimum log level '{name}'"))
        })?;
    }
    if let Some(extra) = line.word(at + 3) {
        return Err(fail(line, at + 3, format!("log : cannot handle unexpected argument '{extra}'")));
    }
    Ok(target)
}

/// An option of a target, and its value behind it.
fn option(cx: &mut Cx<'_>, line: &Line, at: usize, target: &mut LogTarget) -> Result<(), Box<Diagnostic>> {
    match line.text(at) {
        "len" => {
            let len = lenient(cx, line, at + 1);
            match u32::try_from(len) {
                Ok(len @ 80..=65535) => target.len = len,
                _ => {
                    return Err(fail(
                        line,
                        at + 1,
                        format!(
                            "log : invalid log length '{}', must be between 80 and 65535",
                            line.text(at + 1)
                        ),
                    ));
                }
            }
        }
        "format" => {
            let text = line.text(at + 1);
            target.format = format_kind(text).ok_or_else(|| {
                fail(line, at + 1, format!("log : unknown log format '{text}'"))
                    .note_boxed("formats are local, rfc3164, rfc5424, priority, short, timed, iso and raw")
            })?;
        }
        "sample" => target.sample = Some(Arc::new(sample(line, at + 1)?)),
        "profile" => {
            if line.text(at + 1).is_empty() {
                return Err(fail(line, at + 1, "log : expected profile name"));
            }
            let name = cx.name(line.text(at + 1));
            cx.log_names.push(LogName {
                name: Arc::clone(&name),
                what: LogNameKind::Profile,
                span: line.span_at(at + 1),
                section: None,
            });
            target.profile = Some(name);
        }
        other => return Err(fail(line, at, format!("log : unknown option '{other}'"))),
    }
    Ok(())
}

/// A format by its name.
pub(crate) fn format_kind(text: &str) -> Option<LogFormatKind> {
    Some(match text {
        "local" => LogFormatKind::Local,
        "rfc3164" => LogFormatKind::Rfc3164,
        "rfc5424" => LogFormatKind::Rfc5424,
        "priority" => LogFormatKind::Priority,
        "short" => LogFormatKind::Short,
        "timed" => LogFormatKind::Timed,
        "iso" => LogFormatKind::Iso,
        "raw" => LogFormatKind::Raw,
        _ => return None,
    })
}

fn destination(cx: &mut Cx<'_>, line: &Line, index: usize) -> Result<LogDest, Box<Diagnostic>> {
    let address = address(cx, line, index, &AddressOptions::LOG, "log : ")?;
    let family = address.family_name();
    Ok(match address {
        Address::Ip { transport: Transport::Datagram, ip, port } => {
            let port = match port {
                PortSpec::Fixed(port) if port != 0 => port,
                _ => 514,
            };
            LogDest::Udp(SocketAddr::new(ip, port))
        }
        Address::Unix { path, .. } => LogDest::Unix(PathBuf::from(path)),
        Address::Descriptor { fd, .. } => LogDest::Fd(fd),
        Address::Stdout => LogDest::Stdout,
        Address::Stderr => LogDest::Stderr,
        Address::Ring { name } if name == "stdout" => LogDest::Stdout,
        Address::Ring { name } if name == "stderr" => LogDest::Stderr,
        Address::Ring { name } => {
            let name = cx.name(&name);
            let span = line.span_at(index);
            let used = LogName { name: Arc::clone(&name), what: LogNameKind::Ring, span, section: None };
            cx.log_names.push(used);
            LogDest::Ring(name)
        }
        Address::Backend { name } => {
            let name = cx.name(&name);
            let span = line.span_at(index);
            let used = LogName { name: Arc::clone(&name), what: LogNameKind::Backend, span, section: None };
            cx.log_names.push(used);
            LogDest::Backend(name)
        }
        Address::Ip { .. } | Address::Name { .. } => {
            return Err(not_supported(
                line,
                index,
                "a stream log target",
                "TCP log servers need a ring section, use ring@",
            ));
        }
        _ => return Err(not_supported(line, index, family, "logs cannot be sent to this kind of address")),
    })
}

/// `<low>[-<high>][,...]:<size>`
fn sample(line: &Line, index: usize) -> Result<LogSample, Box<Diagnostic>> {
    let text = line.text(index);
    let wrong = |message: String| fail(line, index, format!("log : {message}"));
    let Some((list, size)) = text.split_once(':') else {
        return Err(wrong("Missing sample size".to_owned()));
    };
    let number = |t: &str| crate::numbers::strict(t).and_then(|v| u32::try_from(v).ok()).filter(|v| *v > 0);
    let size = number(size).ok_or_else(|| wrong(format!("invalid sample size '{size}'")))?;
    let mut ranges = Vec::new();
    for part in list.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        match (number(low), number(high)) {
            // A range of one has to be written as one number.
            (Some(low), Some(high)) if low < high || low == high && !part.contains('-') => {
                ranges.push((low, high));
            }
            _ => return Err(wrong(format!("invalid sample range '{part}'"))),
        }
    }
    ranges.sort_unstable();
    if ranges.windows(2).any(|w| w[1].0 <= w[0].1) {
        return Err(wrong("sample ranges are overlapping".to_owned()));
    }
    if let Some((_, highest)) = ranges.last().filter(|r| r.1 > size) {
        return Err(wrong(format!(
            "sample size {size} should be greater or equal to {highest} the maximum of the high ranges limits"
        )));
    }
    Ok(LogSample { ranges, size })
}
