//! `balance` and what shapes a hash.

use std::sync::Arc;

use thalweg_syntax::{Diagnostic, Line, did_you_mean};

use crate::build::{Building, Cx};
use crate::keyword::{Outcome, fail};
use crate::model::{BalanceAlgo, HashAffinity, HashFunction, HashMethod, HashType};
use crate::numbers::{count, leading, lenient, strict};

/// Every algorithm, as its argument is written.
const NAMES: [&str; 13] = [
    "roundrobin",
    "static-rr",
    "leastconn",
    "first",
    "random",
    "source",
    "uri",
    "url_param",
    "hash",
    "hdr(name)",
    "rdp-cookie(name)",
    "log-hash",
    "sticky",
];

/// The complaint about a word that is no algorithm.
fn unknown(line: &Line, word: &str) -> Box<Diagnostic> {
    let bare = |name: &'static str| name.split('(').next().unwrap_or(name);
    let (last, others) = NAMES.split_last().unwrap_or((&"", &[]));
    let names: Vec<String> = others.iter().map(|name| format!("'{name}'")).collect();
    let near = did_you_mean(word.split('(').next().unwrap_or(word), NAMES.map(bare));
    let hint = near.map_or(String::from("."), |name| format!("; did you mean '{name}' maybe ?"));
    fail(line, 1, format!("balance only supports {} and '{last}' options{hint}", names.join(", ")))
}

pub(crate) fn balance(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_backend(cx, line, "balance", "");
    let word = line.text(1);
    let (name, argument) = match word.split_once('(') {
        Some((name, rest)) => (name, Some(rest)),
        None => (word, None),
    };
    b.balance_expr = None;
    b.p.balance.algo = match (name, argument) {
        // Without an argument the reference takes round robin.
        ("" | "roundrobin", None) => BalanceAlgo::RoundRobin,
        ("static-rr", None) => BalanceAlgo::StaticRr,
        ("leastconn", None) => BalanceAlgo::LeastConn,
        ("first", None) => BalanceAlgo::First,
        ("source", None) => BalanceAlgo::Source,
        ("sticky", None) => BalanceAlgo::Sticky,
        ("random", None) => BalanceAlgo::Random { draws: 2 },
        ("random", Some(rest)) => {
            let Some(text) = rest.strip_suffix(')') else {
                return Err(fail(line, 1, "balance random : missing closing parenthesis."));
            };
            // Nothing between the parentheses leaves the usual number.
            match u32::try_from(if text.is_empty() { 2 } else { leading(text).0 }) {
                Ok(draws) if draws > 0 => BalanceAlgo::Random { draws },
                _ => return Err(fail(line, 1, "balance random : number of draws must be at least 1.")),
            }
        }
        ("uri", None) => uri(line)?,
        ("url_param", None) => {
            let Some(name) = line.word(2) else {
                return Err(fail(line, 2, "balance url_param requires an URL parameter name."));
            };
            match line.text(3) {
                // A parameter is looked for in the body of a POST in any case. What followed said for how long.
                "" | "check_post" => {}
                other => {
                    let message =
                        format!("balance url_param only accepts 'check_post' modifier (got '{other}').");
                    return Err(fail(line, 3, message));
                }
            }
            BalanceAlgo::UrlParam { name: name.bytes().into() }
        }
        ("hdr", Some(rest)) => {
            let Some(header) = rest.strip_suffix(')').filter(|h| !h.is_empty()) else {
                return Err(fail(line, 1, "balance hdr requires an http header field name."));
            };
            let use_domain_only = line.text(2) == "use_domain_only";
            if !use_domain_only && !line.text(2).is_empty() {
                let message = format!(
                    "balance {word} only accepts 'use_domain_only' modifier (got '{}').",
                    line.text(2)
                );
                return Err(fail(line, 2, message));
            }
            BalanceAlgo::Hdr { name: header.as_bytes().into(), use_domain_only }
        }
        ("rdp-cookie", None) => BalanceAlgo::RdpCookie { name: b"mstshash"[..].into() },
        ("rdp-cookie", Some(rest)) => {
            let Some(cookie) = rest.strip_suffix(')').or(Some(rest)).filter(|c| !c.is_empty()) else {
                return Err(fail(line, 1, "balance rdp-cookie : missing cookie name."));
            };
            if !rest.ends_with(')') {
                return Err(fail(line, 1, "balance rdp-cookie : missing cookie name."));
            }
            BalanceAlgo::RdpCookie { name: cookie.as_bytes().into() }
        }
        ("hash" | "log-hash", None) => {
            if line.text(2).is_empty() {
                let what = if name == "hash" { "a sample expression" } else { "a converter list" };
                return Err(fail(line, 2, format!("balance {name} requires {what}.")));
            }
            if name == "hash"
                && let Some(extra) = line.word(3)
            {
                return Err(fail(line, 3, format!("balance hash takes no other argument (got '{extra}').")));
            }
            // The expression is compiled when all names are known; what is kept here says that there is one.
            b.balance_expr = Some((Arc::from(line.text(2)), line.span_at(2), name == "log-hash"));
            BalanceAlgo::RoundRobin
        }
        _ => return Err(unknown(line, word)),
    };
    Ok(())
}

fn uri(line: &Line) -> Result<BalanceAlgo, Box<Diagnostic>> {
    let (mut len, mut depth, mut whole, mut path_only) = (0, 0, false, false);
    let mut at = 2;
    while at < line.words.len() {
        let name = line.text(at);
        match name {
            "len" | "depth" => {
                let text = line.text(at + 1);
                let Some(value) = strict(text).and_then(|v| u32::try_from(v).ok()).filter(|v| *v > 0) else {
                    let message =
                        format!("balance uri : '{name}' expects a positive integer (got '{text}').");
                    return Err(fail(line, at + 1, message));
                };
                if name == "len" {
                    len = value;
                } else {
                    depth = value;
                }
                at += 2;
            }
            "whole" => {
                whole = true;
                at += 1;
            }
            "path-only" => {
                path_only = true;
                at += 1;
            }
            _ => {
                let message = format!(
                    "balance uri only accepts parameters 'len', 'depth', 'path-only', and 'whole' (got '{name}')."
                );
                return Err(fail(line, at, message));
            }
        }
    }
    Ok(BalanceAlgo::Uri { len, depth, whole, path_only })
}

pub(crate) fn hash_type(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_backend(cx, line, "hash-type", "");
    let mut hash = HashType {
        method: match line.text(1) {
            "consistent" => HashMethod::Consistent,
            "map-based" => HashMethod::MapBased,
            "avalanche" => {
                let message = "experimental feature 'hash-type avalanche' is not supported anymore, please use 'hash-type \
                               map-based sdbm avalanche' instead.";
                return Err(fail(line, 1, message));
            }
            _ => return Err(fail(line, 1, "'hash-type' only supports 'consistent' and 'map-based'.")),
        },
        function: HashFunction::Sdbm,
        avalanche: false,
    };
    match line.text(2) {
        // A ring needs scattered points, a map does not.
        "" => {
            hash.avalanche = hash.method == HashMethod::Consistent;
            b.p.balance.hash = hash;
            return Ok(());
        }
        "sdbm" => {}
        "djb2" => hash.function = HashFunction::Djb2,
        "wt6" => hash.function = HashFunction::Wt6,
        "crc32" => hash.function = HashFunction::Crc32,
        "none" => hash.function = HashFunction::None,
        _ => {
            let message = "'hash-type' only supports 'sdbm', 'djb2', 'crc32', or 'wt6' hash functions.";
            return Err(fail(line, 2, message));
        }
    }
    match line.text(3) {
        "" => {}
        "avalanche" => hash.avalanche = true,
        _ => {
            let message = "'hash-type' only supports 'avalanche' as a modifier for hash functions.";
            return Err(fail(line, 3, message));
        }
    }
    b.p.balance.hash = hash;
    Ok(())
}

pub(crate) fn hash_balance_factor(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'hash-balance-factor' expects an integer argument."));
    }
    let value = lenient(cx, line, 1);
    match count(value) {
        Some(factor) if factor == 0 || factor > 100 => b.p.balance.hash_balance_factor = factor,
        _ => return Err(fail(line, 1, "'hash-balance-factor' must be 0 or greater than 100.")),
    }
    Ok(())
}

pub(crate) fn hash_preserve_affinity(_: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    if !b.may_be_backend() {
        return Err(fail(line, 0, "'hash-preserve-affinity' only available in backend or listen section"));
    }
    b.p.balance.preserve_affinity = match line.text(1) {
        "always" => HashAffinity::Always,
        "maxconn" => HashAffinity::Maxconn,
        "maxqueue" => HashAffinity::Maxqueue,
        "" => {
            return Err(fail(
                line,
                1,
                "'hash-preserve-affinity' needs a keyword to specify when to preserve hash affinity",
            ));
        }
        other => return Err(fail(line, 1, format!("'hash-preserve-affinity': unknown keyword '{other}'"))),
    };
    Ok(())
}
