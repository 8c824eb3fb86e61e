//! `normalize-uri`: one normalisation of the request target at a time (RFC 3986 section 6.2.2).

use super::uri::Part;
use super::{Action, Step};
use crate::effects::Effects;
use crate::keyword::{ActionDef, RuleEnv, Rulesets, Words};
use crate::ruleset::Outcome;
use thalweg_http::uri;
use thalweg_sample::Ctx;

/// A normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Normalizer {
    FragmentEncode,
    FragmentStrip,
    MergeSlashes,
    StripDot,
    StripDotDot { full: bool },
    DecodeUnreserved { strict: bool },
    ToUppercase { strict: bool },
    SortQuery,
}

/// The target has a percent sign that is not followed by two hexadecimal digits, and `strict` was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Invalid;

pub(crate) static ACTIONS: &[ActionDef] = &[{
    let mut def = ActionDef::new(
        "normalize-uri",
        Rulesets::HTTP_REQUEST,
        "<normalizer> [full | strict]",
        "normalises the URI in one respect",
        parse,
    );
    def.experimental = true;
    def
}];

fn parse(words: &mut Words, _: &mut RuleEnv) -> Result<Action, String> {
    let name = words.next().ok_or("missing argument <normalizer>")?;
    let mut option = |allowed: &str| match words.next() {
        None => Ok(false),
        Some(word) if word == allowed => Ok(true),
        Some(other) => Err(format!("unknown argument '{other}' for '{name}' normalizer")),
    };
    let normalizer = match name {
        "fragment-encode" => Normalizer::FragmentEncode,
        "fragment-strip" => Normalizer::FragmentStrip,
        "path-merge-slashes" => Normalizer::MergeSlashes,
        "path-strip-dot" => Normalizer::StripDot,
        "path-strip-dotdot" => Normalizer::StripDotDot { full: option("full")? },
        "percent-decode-unreserved" => Normalizer::DecodeUnreserved { strict: option("strict")? },
        "percent-to-uppercase" => Normalizer::ToUppercase { strict: option("strict")? },
        "query-sort-by-name" => Normalizer::SortQuery,
        other => return Err(format!("unknown normalizer '{other}'")),
    };
    Ok(Action::Normalize(normalizer))
}

impl Normalizer {
    pub fn run<'r>(self, cx: &mut Ctx, fx: &mut Effects) -> Step<'r> {
        let Some(head) = cx.request.as_deref_mut() else { return Step::Next };
        let old = uri::path_and_query(head.target());
        if old.is_empty() {
            return Step::Next;
        }
        fx.text.clear();
        if self.apply(old, &mut fx.text).is_err() {
            return Step::Stop(Outcome::BadRequest);
        }
        if fx.text == old {
            return Step::Next;
        }
        Step::Rewrite(Part::PathAndQuery.replace(head, &fx.text, &mut fx.more))
    }

    /// Writes the normalised form of a path and query.
    pub fn apply(self, input: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
        let (path, rest) = input.split_at(input.iter().position(|&b| b == b'?').unwrap_or(input.len()));
        match self {
            Normalizer::FragmentEncode => {
                for &byte in input {
                    if byte == b'#' { out.extend_from_slice(b"%23") } else { out.push(byte) }
                }
            }
            Normalizer::FragmentStrip => {
                let end = input.iter().position(|&b| b == b'#').unwrap_or(input.len());
                out.extend_from_slice(&input[..end]);
            }
            Normalizer::MergeSlashes => {
                for (i, &byte) in path.iter().enumerate() {
                    if byte != b'/' || i == 0 || path[i - 1] != b'/' {
                        out.push(byte);
                    }
                }
                out.extend_from_slice(rest);
            }
            Normalizer::StripDot => {
                strip_dots(path, out);
                out.extend_from_slice(rest);
            }
            Normalizer::StripDotDot { full } => {
                strip_parents(path, full, out);
                out.extend_from_slice(rest);
            }
            Normalizer::DecodeUnreserved { strict } => {
                percent(input, strict, out, |byte, _, out| {
                    let unreserved =
                        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
                    if unreserved {
                        out.push(byte);
                    }
                    unreserved
                })?;
            }
            Normalizer::ToUppercase { strict } => {
                percent(input, strict, out, |_, digits, out| {
                    out.push(b'%');
                    out.extend(digits.iter().map(u8::to_ascii_uppercase));
                    true
                })?;
            }
            Normalizer::SortQuery => sort_query(path, rest, out),
        }
        Ok(())
    }
}

/// Calls `replace` for each percent-encoded byte; what it does not replace stays. A percent sign that encodes nothing
/// stays too, or is an error.
fn percent(
    input: &[u8],
    strict: bool,
    out: &mut Vec<u8>,
    replace: impl Fn(u8, &[u8], &mut Vec<u8>) -> bool,
) -> Result<(), Invalid> {
    let hex = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    let mut at = 0;
    while let Some(&byte) = input.get(at) {
        if byte == b'%' {
            let digits = input.get(at + 1..at + 3);
            let value = digits.and_then(|d| Some(hex(d[0])? << 4 | hex(d[1])?));
            match (value, digits) {
                (Some(value), Some(digits)) => {
                    if !replace(value, digits, out) {
                        out.extend_from_slice(&input[at..at + 3]);
                    }
                    at += 3;
                    continue;
                }
                _ if strict => return Err(Invalid),
                _ => {}
            }
        }
        out.push(byte);
        at += 1;
    }
    Ok(())
}

/// Removes the segments that are a single dot.
fn strip_dots(path: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while at < path.len() {
        if path[at] == b'/'
            && path.get(at + 1) == Some(&b'.')
            && matches!(path.get(at + 2), None | Some(b'/'))
        {
            // `/.` at the end keeps its slash.
            if at + 2 >= path.len() {
                out.push(b'/');
            }
            at += 2;
            continue;
        }
        out.push(path[at]);
        at += 1;
    }
}

/// Removes each `..` segment with the one before it. Those at the start stay, unless `full`.
fn strip_parents(path: &[u8], full: bool, out: &mut Vec<u8>) {
    let start = out.len();
    // Where the part begins that later `..` may not remove: after a `..` that was kept.
    let mut floor = start;
    let mut at = 0;
    while at < path.len() {
        let end = path[at + 1..].iter().position(|&b| b == b'/').map_or(path.len(), |i| at + 1 + i);
        let segment = &path[at..end];
        if segment == b"/.." {
            if out.len() > floor {
                let slash = out[floor..].iter().rposition(|&b| b == b'/').map_or(floor, |i| floor + i);
                out.truncate(slash);
            } else if !full {
                out.extend_from_slice(segment);
                floor = out.len();
            }
            // A `..` at the end names a directory.
            if end == path.len() {
                out.push(b'/');
            }
        } else {
            out.extend_from_slice(segment);
        }
        at = end;
    }
}

/// Sorts the parameters by name, those of one name in their order. The parameters are compared where they are, without a
/// table of them: queries are short, and the sort is by insertion.
fn sort_query(path: &[u8], rest: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(path);
    let Some(query) = rest.strip_prefix(b"?") else { return };
    let name = |p: &'_ [u8]| p.iter().position(|&b| b == b'=').unwrap_or(p.len());
    // Nothing follows an ampersand at the end.
    let query = query.strip_suffix(b"&").unwrap_or(query);
    let mut parameters: smallvec::SmallVec<[&[u8]; 32]> = query.split(|&b| b == b'&').collect();
    parameters.sort_by(|a, b| a[..name(a)].cmp(&b[..name(b)]));
    out.push(b'?');
    for (i, parameter) in parameters.iter().enumerate() {
        if i > 0 {
            out.push(b'&');
        }
        out.extend_from_slice(parameter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_forms() {
        use Normalizer::*;
        let dotdot = StripDotDot { full: false };
        let full = StripDotDot { full: true };
        let decode = DecodeUnreserved { strict: false };
        let upper = ToUppercase { strict: false };
        for (normalizer, input, want) in [
            (FragmentEncode, "/#foo", "/%23foo"),
            (FragmentEncode, "/a?b#c#d", "/a?b%23c%23d"),
            (FragmentStrip, "/#foo", "/"),
            (FragmentStrip, "/a?b#c", "/a?b"),
            (MergeSlashes, "//", "/"),
            (MergeSlashes, "/foo//bar?a//b", "/foo/bar?a//b"),
            (StripDot, "/.", "/"),
            (StripDot, "/./bar/", "/bar/"),
            (StripDot, "/a/./a", "/a/a"),
            (StripDot, "/a/././.", "/a/"),
            (StripDot, "/.well-known/", "/.well-known/"),
            (StripDot, "/a/..?/./", "/a/..?/./"),
            (dotdot, "/foo/../", "/"),
            (dotdot, "/foo/..", "/"),
            (dotdot, "/foo/../bar/", "/bar/"),
            (dotdot, "/foo/bar/../", "/foo/"),
            (dotdot, "/foo/bar/..", "/foo/"),
            (dotdot, "/../bar/", "/../bar/"),
            (dotdot, "/bar/../../", "/../"),
            (dotdot, "/bar/../..", "/../"),
            (dotdot, "/a/../../b/..", "/../"),
            (dotdot, "//..", "/"),
            (dotdot, "/a//..", "/a/"),
            (dotdot, "/..", "/../"),
            (dotdot, "/../..", "/../../"),
            (dotdot, "/../a/../b", "/../b"),
            (dotdot, "/foo//../", "/foo/"),
            (dotdot, "/foo/%2E%2E/", "/foo/%2E%2E/"),
            (dotdot, "/foo/..bar/?/../", "/foo/..bar/?/../"),
            (full, "/../bar/", "/bar/"),
            (full, "/bar/../../", "/"),
            (full, "/..", "/"),
            (decode, "/%61dmin", "/admin"),
            (decode, "/foo%3Fbar=baz", "/foo%3Fbar=baz"),
            (decode, "/%%36%36", "/%66"),
            (decode, "/%ZZ", "/%ZZ"),
            (decode, "/%", "/%"),
            (upper, "/%6f%6F%zz%", "/%6F%6F%zz%"),
            (SortQuery, "/?c=3&a=1&b=2", "/?a=1&b=2&c=3"),
            (SortQuery, "/?aaa=3&a=1&aa=2", "/?a=1&aa=2&aaa=3"),
            (SortQuery, "/?a=3&b=4&a=1&b=5&a=2", "/?a=3&a=1&a=2&b=4&b=5"),
            (SortQuery, "/x", "/x"),
            (SortQuery, "/a?&", "/a?"),
            (SortQuery, "/a?=1&", "/a?=1"),
            (SortQuery, "/a?ab=1&a=2&a-b=3&aB=4", "/a?a=2&a-b=3&aB=4&ab=1"),
        ] {
            let mut out = Vec::new();
            assert_eq!(normalizer.apply(input.as_bytes(), &mut out), Ok(()));
            assert_eq!(String::from_utf8_lossy(&out), want, "{normalizer:?} {input}");
        }
    }

    #[test]
    fn strict_refuses_what_encodes_nothing() {
        for input in ["/%%36%36", "/%ZZ", "/%", "/%4"] {
            for normalizer in
                [Normalizer::DecodeUnreserved { strict: true }, Normalizer::ToUppercase { strict: true }]
            {
                assert_eq!(normalizer.apply(input.as_bytes(), &mut Vec::new()), Err(Invalid), "{input}");
            }
        }
    }
}
