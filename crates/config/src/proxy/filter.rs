//! `filter`: what looks at, holds back or changes the payload of streams.

use std::sync::Arc;

use thalweg_sample::cast::possible;
use thalweg_sample::track::key_type;
use thalweg_sample::{Points, TableId};
use thalweg_stick::DataType;
use thalweg_syntax::units::parse_size;
use thalweg_syntax::{Diagnostic, Lead, Line, Severity, TimeError, TimeUnit, did_you_mean};

use crate::build::{Building, Cx};
use crate::keyword::{NoteBoxed, Outcome, fail, not_supported};
use crate::model::{BandwidthFilter, Filter, TraceFilter};
use crate::numbers::{duration, strict};
use crate::sample_env::expression_at;
use crate::table::why;

/// The filters of the reference: name, family, and why one is refused.
pub(crate) const FILTERS: &[(&str, &str, Option<&str>)] = &[
    ("bwlim-in", "BWLIM", None),
    ("bwlim-out", "BWLIM", None),
    ("cache", "CACHE", Some(why::CACHE)),
    ("comp-req", "COMP", Some(why::COMPRESSION)),
    ("comp-res", "COMP", Some(why::COMPRESSION)),
    ("compression", "COMP", Some(why::COMPRESSION)),
    ("fcgi-app", "FCGI", Some(why::FCGI)),
    ("spoe", "SPOE", Some(why::SPOE)),
    ("trace", "TRACE", None),
];

/// `filter <kind> ...`, read late so that filters keep the order of their lines.
pub(crate) fn filter(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    if b.p.kind == crate::model::ProxyKind::Defaults {
        return Err(fail(line, 0, "filter is not allowed in a 'default' section."));
    }
    let kind = line.text(1);
    if kind.is_empty() {
        return Err(fail(line, 1, format!("missing argument for 'filter' in {}.", b.title())));
    }
    let filter = match FILTERS.iter().find(|(name, ..)| *name == kind) {
        Some((.., Some(why))) => return Err(not_supported(line, 1, &format!("filter {kind}"), why)),
        Some((.., None)) if kind == "trace" => Filter::Trace(trace(cx, line)?),
        Some((.., None)) => Filter::Bandwidth(bandwidth(cx, b, line, kind)?),
        None => {
            let known = FILTERS.iter().map(|(name, ..)| *name);
            let mut refusal = fail(line, 1, format!("'filter' : unknown keyword '{kind}'."));
            refusal = match did_you_mean(kind, known.clone()) {
                Some(near) => refusal.help_boxed(format!("did you mean '{near}'?")),
                None => refusal,
            };
            return Err(refusal.note_boxed(format!("filters are {}", known.collect::<Vec<_>>().join(", "))));
        }
    };
    Arc::make_mut(b.p.filters.get_or_insert_default()).declared.push(filter);
    Ok(())
}

/// `filter-sequence request|response <filter>[,<filter>...]`; several lines go on with the list.
pub(crate) fn filter_sequence(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let name = line.text(0);
    if b.p.kind == crate::model::ProxyKind::Defaults {
        return Err(fail(line, 0, format!("{name} is not allowed in a 'default' section.")));
    }
    let requests = match line.text(1) {
        "request" => true,
        "response" => false,
        "" => return Err(fail(line, 1, format!("missing argument for '{name}' in {}.", b.title()))),
        _ => {
            let message = format!("expected either 'request' or 'response' for '{name}' in {}.", b.title());
            return Err(fail(line, 1, message));
        }
    };
    if line.text(2).is_empty() {
        return Err(fail(line, 2, format!("missing filter list for '{name}' in {}.", b.title())));
    }
    // A comma may end the list.
    let list = line.text(2).strip_suffix(',').unwrap_or(line.text(2));
    let names = list.split(',').map(|name| (requests, Arc::from(name), line.span_at(2)));
    b.filter_names.extend(names);
    if line.words.len() > 3 {
        let message =
            format!("'{name}' ignores '{}': names of filters are separated by commas.", line.text(3));
        cx.warn(line, 3, message);
    }
    Ok(())
}

/// Puts the filters in the order that `filter-sequence` says, once all are declared. A name stands for the first of its kind, and
/// a filter runs once, however often it is named.
pub(crate) fn settle_filters(cx: &mut Cx<'_>, b: &mut Building) {
    for (requests, name, span) in std::mem::take(&mut b.filter_names) {
        let filters = b.p.filters.as_mut().map(Arc::make_mut);
        let found = filters.and_then(|filters| {
            let at = filters.declared.iter().position(|filter| *filter.keyword() == *name)?;
            Some((filters, at))
        });
        let Some((filters, at)) = found else {
            let path = if requests { "request" } else { "response" };
            let message = format!(
                "{}: error while postparsing {path} filter-sequence '{name}' : invalid filter name: '{name}' is not defined on the proxy",
                b.p.name
            );
            cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, Some(span), message));
            continue;
        };
        let sequence = if requests { &mut filters.request } else { &mut filters.response };
        let sequence = sequence.get_or_insert_default();
        if !sequence.contains(&at) {
            sequence.push(at);
        }
    }
}

/// `filter bwlim-in|bwlim-out <name> default-limit <size> default-period <time> [min-size <size>]`, or `<name> limit <size> key
/// <expression> [table <table>] [min-size <size>]`
fn bandwidth(
    cx: &mut Cx<'_>,
    b: &Building,
    line: &Line,
    kind: &str,
) -> Result<BandwidthFilter, Box<thalweg_syntax::Diagnostic>> {
    let wrong = |at: usize, what: &str| fail(line, at, format!("'filter' : '{kind}' : {what}"));
    let name = line.text(2);
    if name.is_empty() {
        return Err(wrong(2, "a name is expected as first argument "));
    }
    if b.p.filters.as_ref().is_some_and(|filters| filters.bandwidth_of(name).is_some()) {
        let message = format!("'filter' : bwlim filter '{name}' already declared for proxy '{}'", b.p.name);
        return Err(fail(line, 2, message));
    }
    let mut filter = BandwidthFilter {
        id: cx.bandwidth_filters,
        name: cx.name(name),
        incoming: kind == "bwlim-in",
        limit: 0,
        period_ms: 0,
        min_size: 0,
        shared: None,
    };
    let (mut key, mut table) = (None, None);
    let (mut of_stream, mut of_key) = (false, false);
    let mut at = 3;
    while at < line.words.len() {
        let (option, text) = (line.text(at), line.text(at + 1));
        if !matches!(option, "default-limit" | "default-period" | "min-size" | "limit" | "key" | "table") {
            return Err(fail(line, at, format!("'filter {kind}' : unknown keyword '{option}'.")));
        }
        if text.is_empty() {
            return Err(wrong(at + 1, &format!("the value is missing for '{option}' option")));
        }
        match option {
            "default-limit" => filter.limit = size(line, at, kind)?,
            "min-size" => filter.min_size = size(line, at, kind)?,
            "default-period" => {
                let ms = duration(cx, line, at + 1, TimeUnit::Milliseconds, TimeUnit::Milliseconds);
                filter.period_ms =
                    ms.map(|ms| ms as u32).map_err(|error| bad_value(line, at, kind, error))?;
            }
            "limit" => filter.limit = size(line, at, kind)?,
            "key" => key = Some(at + 1),
            _ => table = Some(cx.name(text)),
        }
        of_stream |= option.starts_with("default-");
        of_key |= matches!(option, "limit" | "key" | "table");
        at += 2;
    }
    if of_stream && of_key {
        return Err(wrong(line.words.len(), "cannot mix per-stream and shared parameter"));
    }
    if of_key {
        if filter.limit == 0 {
            return Err(wrong(line.words.len(), "<limit> option is missing"));
        }
        let key = key.ok_or_else(|| wrong(line.words.len(), "<key> option is missing"))?;
        shared(cx, b, line, (key, table), &mut filter)?;
        cx.bandwidth_filters += 1;
        return Ok(filter);
    }
    for (value, option) in [(filter.period_ms, "default-period"), (filter.limit, "default-limit")] {
        if value == 0 {
            return Err(wrong(line.words.len(), &format!("<{option}> option is missing")));
        }
    }
    cx.bandwidth_filters += 1;
    Ok(filter)
}

/// The key, whose expression is the word at `key`, and the table of a filter that streams share.
fn shared(
    cx: &mut Cx<'_>,
    b: &Building,
    line: &Line,
    (key, table): (usize, Option<Arc<str>>),
    filter: &mut BandwidthFilter,
) -> Outcome {
    let text = line.text(key).to_owned();
    let expr = expression_at(cx, b, &text, line.span_at(key), Points::TRANSACTION, "filter")
        .map_err(|error| fail(line, key, format!("'filter' : {error}")))?;
    let refuse = |what: String| {
        let message = format!("Proxy {} : {what}", b.p.name);
        Box::new(Diagnostic::new(Severity::Alert, Lead::Bare, Some(line.span()), message))
    };
    let name = table.unwrap_or_else(|| Arc::clone(&b.p.name));
    let found = cx.tables.iter().position(|draft| draft.spec.name == name);
    let Some(at) = found else {
        return Err(refuse(format!(
            "unable to find table '{name}' referenced by bwlim filter '{}'",
            filter.name
        )));
    };
    let spec = &cx.tables[at].spec;
    let rate = if filter.incoming { DataType::BytesInRate } else { DataType::BytesOutRate };
    if !possible(expr.output(), key_type(spec.key)) {
        return Err(refuse(format!(
            "stick-table '{name}' uses a type incompatible with bwlim filter '{}'",
            filter.name
        )));
    }
    let Some(stored) = spec.data.iter().find(|stored| stored.kind == rate) else {
        return Err(refuse(format!(
            "stick-table '{name}' uses a data type incompatible with bwlim filter '{}'. It must be '{rate}'",
            filter.name
        )));
    };
    filter.period_ms = stored.period_ms;
    filter.shared = Some((Arc::new(expr), TableId(u32::try_from(at).unwrap_or(u32::MAX))));
    Ok(())
}

/// The size after the option at `at`.
fn size(line: &Line, at: usize, kind: &str) -> Result<u32, Box<thalweg_syntax::Diagnostic>> {
    let text = line.text(at + 1);
    parse_size(text, u64::from(u32::MAX)).map(|size| size as u32).map_err(|error| {
        let at_char = match error {
            thalweg_syntax::SizeError::Unexpected(i) => text[i..].chars().next(),
            _ => text.chars().last(),
        };
        invalid(line, at, kind, at_char)
    })
}

fn bad_value(line: &Line, at: usize, kind: &str, error: TimeError) -> Box<thalweg_syntax::Diagnostic> {
    let text = line.text(at + 1);
    let at_char = match error {
        TimeError::Unexpected(i) | TimeError::Trailing(i) => text[i..].chars().next(),
        _ => text.chars().last(),
    };
    invalid(line, at, kind, at_char)
}

fn invalid(line: &Line, at: usize, kind: &str, found: Option<char>) -> Box<thalweg_syntax::Diagnostic> {
    let (option, found) = (line.text(at), found.unwrap_or('?'));
    let message =
        format!("'filter' : '{kind}' : invalid value for option '{option}' (unexpected character '{found}')");
    fail(line, at + 1, message)
}

/// `filter trace [name <name>] [quiet] [random-forwarding] [max-fwd <max>] [hexdump]`
fn trace(cx: &mut Cx<'_>, line: &Line) -> Result<TraceFilter, Box<thalweg_syntax::Diagnostic>> {
    let mut filter = TraceFilter {
        name: Arc::from("TRACE"),
        quiet: false,
        random_forwarding: false,
        max_forward: 0,
        hexdump: false,
    };
    let value = |at: usize| match line.text(at + 1) {
        "" => {
            Err(fail(line, at + 1, format!("'filter' : 'trace' : '{}' option without value", line.text(at))))
        }
        text => Ok(text),
    };
    let mut at = 2;
    while at < line.words.len() {
        match line.text(at) {
            "name" => {
                filter.name = cx.name(value(at)?);
                at += 1;
            }
            "max-fwd" => {
                let text = value(at)?;
                filter.max_forward = strict(text).and_then(|n| u32::try_from(n).ok()).ok_or_else(|| {
                    let expects = "'max-fwd' expect unsigned integer (0 to 4294967295 expected)";
                    fail(line, at + 1, format!("'filter' : 'trace' : {expects}"))
                })?;
                at += 1;
            }
            "quiet" => filter.quiet = true,
            "random-forwarding" => filter.random_forwarding = true,
            // Parsing is not the filter's since HAProxy 2.0; the word is still taken.
            "random-parsing" => {}
            "hexdump" => filter.hexdump = true,
            other => return Err(fail(line, at, format!("'filter trace' : unknown keyword '{other}'."))),
        }
        at += 1;
    }
    Ok(filter)
}
