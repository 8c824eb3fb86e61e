//! `tcp-check expect`, `http-check expect`.

use std::sync::Arc;

use thalweg_check::{Expect, Match, MatchMethod, Matcher, Status, StepKind, Text};
use thalweg_sample::Point;
use thalweg_sample::pattern::Regex;
use thalweg_syntax::Line;

use super::Read;
use super::line::{bytes, comment_at, format, hex, log_format, needed};
use crate::build::{Building, Cx};
use crate::keyword::fail;
use crate::numbers::strict;
use crate::sample_env::expression_here;

fn regex(line: &Line, at: usize, name: &str) -> Read<Arc<Regex>> {
    Regex::new(line.text(at), true).map(Arc::new).map_err(|e| fail(line, at, format!("{name} : {e}.")))
}

/// In one piece, as it is the list of words.
pub(super) fn expect(
    cx: &mut Cx<'_>,
    b: &Building,
    line: &Line,
    name: &str,
    comment: &mut Option<Arc<str>>,
) -> Read<StepKind> {
    let http = line.text(0) == "http-check";
    let mut expect = Expect::new(Matcher::Status(Arc::new([])));
    let mut matcher = None;
    let mut at = 2;
    if line.words.len() < 3 {
        return Err(fail(line, 2, format!("{name} : expects at least a matching pattern as arguments.")));
    }
    while at < line.words.len() {
        let word = line.text(at);
        let status = |allowed: &[&str], shown: &str| -> Read<Option<Status>> {
            let got = line.text(at + 1);
            match Status::named(got).filter(|_| allowed.contains(&got)) {
                Some(status) => Ok(Some(status)),
                None => Err(fail(
                    line,
                    at + 1,
                    format!("{name} : '{word}' only supports {shown} status (got '{got}').."),
                )),
            }
        };
        match word {
            "comment" => {
                at = comment_at(line, at, name, comment)?;
                continue;
            }
            "min-recv" => {
                let value =
                    strict(line.text(at + 1)).and_then(|v| i32::try_from(v).ok()).filter(|v| *v >= -1);
                expect.min_recv = value.ok_or_else(|| {
                    fail(
                        line,
                        at + 1,
                        format!("{name} : 'min-recv' expects -1 or an integer in the range 0..2147483647."),
                    )
                })?;
            }
            "ok-status" => {
                let words = ["L4OK", "L6OK", "L7OK", "L7OKC"];
                expect.ok_status = status(&words, "'L4OK', 'L6OK', 'L7OK' or 'L7OKC'")?;
            }
            "error-status" => {
                let words = ["L4CON", "L6RSP", "L7RSP", "L7STS", "L7OKC"];
                expect.error_status = status(&words, "'L4CON', 'L6RSP', 'L7RSP', 'L7STS' or 'L7OKC'")?;
            }
            "tout-status" => {
                let words = ["L4TOUT", "L6TOUT", "L7TOUT"];
                expect.timeout_status = status(&words, "'L4TOUT', 'L6TOUT' or 'L7TOUT'")?;
            }
            "on-success" => expect.on_success = Some(log_format(cx, b, line, at + 1, name)?),
            "on-error" => expect.on_error = Some(log_format(cx, b, line, at + 1, name)?),
            "status-code" => {
                let text = needed(
                    line,
                    at + 1,
                    &format!("{name} : 'status-code' expects an expression as argument."),
                )?;
                let expr = expression_here(cx, b, text, line.span_at(at + 1), Point::Check.set(), "");
                expect.status_code =
                    Some(Arc::new(expr.map_err(|e| fail(line, at + 1, format!("{name} : {e}.")))?));
            }
            "!" => {
                expect.negate = !expect.negate;
                at += 1;
                continue;
            }
            _ => {
                if matcher.is_some() {
                    return Err(fail(line, at, format!("{name} : only one pattern expected.")));
                }
                let (negate, kind) = word.strip_prefix('!').map_or((false, word), |w| (true, w));
                expect.negate ^= negate;
                let (found, words) = matcher_at(cx, b, line, at, kind, http, name)?;
                matcher = Some(found);
                at += words;
                continue;
            }
        }
        at += 2;
    }
    expect.matcher = matcher.ok_or_else(|| {
        fail(line, 2, format!("{name} : expects at least a matching pattern as arguments."))
    })?;
    Ok(StepKind::Expect(Box::new(expect)))
}

/// A pattern from its keyword at `at` on, and how many words it took.
fn matcher_at(
    cx: &mut Cx<'_>,
    b: &Building,
    line: &Line,
    at: usize,
    kind: &str,
    http: bool,
    name: &str,
) -> Read<(Matcher, usize)> {
    let known = match kind {
        "string" | "rstring" | "string-lf" => true,
        "binary" | "rbinary" | "binary-lf" => !http,
        "status" | "rstatus" | "hdr" | "fhdr" => http,
        _ => false,
    };
    if !known {
        let kinds = if http {
            "'[!]string', '[!]rstring', '[!]string-lf', '[!]status', '[!]rstatus', [!]hdr, [!]fhdr or comment"
        } else {
            "'[!]binary', '[!]string', '[!]rstring', '[!]string-lf''[!]rbinary', '[!]binary-lf' or comment"
        };
        return Err(fail(
            line,
            at,
            format!("{name} : 'only supports min-recv, {kinds} but got '{kind}' as argument.."),
        ));
    }
    if !matches!(kind, "hdr" | "fhdr") {
        needed(line, at + 1, &format!("{name} : '{kind}' expects a <pattern> as argument."))?;
    }
    let matcher = match kind {
        "string" => Matcher::String(Text::Fixed(bytes(line, at + 1))),
        "string-lf" => Matcher::String(Text::Format(log_format(cx, b, line, at + 1, name)?)),
        "rstring" => Matcher::Regex(regex(line, at + 1, name)?),
        "binary" => Matcher::Binary(hex(line, at + 1, name)?),
        "binary-lf" => Matcher::Binary(Text::HexFormat(log_format(cx, b, line, at + 1, name)?)),
        "rbinary" => Matcher::HexRegex(regex(line, at + 1, name)?),
        "rstatus" => Matcher::StatusRegex(regex(line, at + 1, name)?),
        "status" => Matcher::Status(statuses(line, at + 1, name)?),
        _ => {
            let mut next = at + 1;
            let usage = format!(
                "{name} : '{kind}' expects at the name keyword as first argument followed by a pattern."
            );
            let lf = match line.text(next) {
                "name" => false,
                "name-lf" => true,
                _ => return Err(fail(line, next, usage)),
            };
            next += 1;
            let header = pattern(cx, b, line, &mut next, lf, true, name)?;
            let lf = match line.text(next) {
                "value" => Some(false),
                "value-lf" => Some(true),
                _ => None,
            };
            let value = match lf {
                Some(lf) => {
                    next += 1;
                    Some(pattern(cx, b, line, &mut next, lf, false, name)?)
                }
                None => None,
            };
            return Ok((Matcher::Header { name: header, value, full: kind == "fhdr" }, next - at));
        }
    };
    Ok((matcher, 2))
}

/// `[-m <method>] <pattern>`; `next` moves behind it.
fn pattern(
    cx: &mut Cx<'_>,
    b: &Building,
    line: &Line,
    next: &mut usize,
    lf: bool,
    header_name: bool,
    name: &str,
) -> Read<Match> {
    let mut method = MatchMethod::Exact;
    let mut is_regex = false;
    if line.text(*next) == "-m" {
        method = match line.text(*next + 1) {
            "str" => MatchMethod::Exact,
            "beg" => MatchMethod::Prefix,
            "end" => MatchMethod::Suffix,
            "sub" => MatchMethod::Substring,
            "reg" if !lf => {
                is_regex = true;
                MatchMethod::Exact
            }
            "reg" => {
                return Err(fail(
                    line,
                    *next + 1,
                    format!("{name} : log-format string is not supported with a regex matching method."),
                ));
            }
            other => {
                return Err(fail(
                    line,
                    *next + 1,
                    format!(
                        "{name} : '-m' only supports 'str', 'beg', 'end', 'sub' or 'reg' (got '{other}')."
                    ),
                ));
            }
        };
        *next += 2;
    }
    needed(line, *next, &format!("{name} : expects a pattern."))?;
    let at = *next;
    *next += 1;
    if is_regex {
        // Names of header fields have no case.
        let compiled = Regex::new(line.text(at), !header_name);
        let compiled = compiled.map_err(|e| fail(line, at, format!("{name} : {e}.")))?;
        return Ok(Match { method: MatchMethod::Regex(Arc::new(compiled)), text: Text::Fixed(Arc::new([])) });
    }
    let text = if lf { format(cx, b, line, at, name)? } else { Text::Fixed(bytes(line, at)) };
    Ok(Match { method, text })
}

/// `200,201,300-310`
fn statuses(line: &Line, at: usize, name: &str) -> Read<Arc<[(u16, u16)]>> {
    let text = line.text(at);
    if let Some(wrong) = text.chars().find(|c| !c.is_ascii_digit() && !matches!(c, ',' | '-')) {
        return Err(fail(
            line,
            at,
            format!("{name} : invalid character '{wrong}' in the list of status codes."),
        ));
    }
    // Statuses that no server sends are of no use, and of no harm.
    let code = |part: &str| part.parse::<u32>().ok().map(|c| u16::try_from(c).unwrap_or(u16::MAX));
    text.strip_suffix(',')
        .unwrap_or(text)
        .split(',')
        .map(|part| {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let low = if low.is_empty() && part.starts_with('-') { "0" } else { low };
            match (code(low), code(high)) {
                (Some(low), Some(high)) if low <= high => Ok((low, high)),
                _ => Err(fail(line, at, format!("{name} : invalid status code or range '{part}'."))),
            }
        })
        .collect()
}
