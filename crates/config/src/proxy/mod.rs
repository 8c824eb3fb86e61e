//! `frontend`, `backend`, `listen` and `defaults` sections.

pub(crate) mod balance;
mod basics;
mod capture;
mod filter;
mod formats;
mod hedge;
mod options;
mod order;
mod outliers;
mod persistence;
mod routing;
mod section;
mod stats;
mod stick;
mod timeouts;

use thalweg_syntax::Line;

use crate::build::{Building, Cx};
use crate::global::{Prefix, take_prefix, unknown};
use crate::keyword::{Outcome, Status, fail, find, near, not_supported};
use crate::table::PROXY;

pub(crate) use balance::*;
pub(crate) use basics::*;
pub(crate) use capture::*;
pub(crate) use filter::*;
pub(crate) use formats::*;
pub(crate) use hedge::*;
pub(crate) use options::*;
pub(crate) use order::*;
pub(crate) use outliers::*;
pub use persistence::dynamic_cookie_value;
pub(crate) use persistence::*;
pub(crate) use routing::*;
pub(crate) use section::*;
pub(crate) use stats::*;
pub(crate) use stick::*;
pub(crate) use timeouts::*;

/// One line of a proxy or of a `defaults` section.
pub(crate) fn line(cx: &mut Cx<'_>, b: &mut Building, mut line: Line) -> Outcome {
    let prefix = take_prefix(&mut line)?;
    let name = line.text(0);
    match prefix {
        Prefix::None => {}
        Prefix::No | Prefix::Default if name == "option" => {
            let how = if matches!(prefix, Prefix::No) { OptionHow::Off } else { OptionHow::Default };
            return option_line(cx, b, &line, how);
        }
        Prefix::No if name == "log" => {
            if line.words.len() > 1 {
                return Err(fail(&line, 1, "log : 'no log' does not expect arguments"));
            }
            b.p.log_targets = std::sync::Arc::from([]);
            return Ok(());
        }
        Prefix::Default if name == "log" => {}
        _ => return Err(unknown(&line, b.p.kind.keyword(), None)),
    }
    if name == "option" {
        return option_line(cx, b, &line, OptionHow::On);
    }
    if late_only(name) && b.p.kind == crate::model::ProxyKind::Defaults {
        allowed_in_defaults(b, &line)?;
    }
    match find(PROXY, name) {
        Some(keyword) => match keyword.status {
            // What waits for data is a plain value, and is inherited.
            Status::Works(_) if line.text(1) == "inspect-delay" => crate::rules::inspect_delay(cx, b, &line),
            // A page is a value, too, but for its rules; there are none in `defaults`.
            Status::Works(parse)
                if name == "stats"
                    && (!stats_is_rule(&line) || b.p.kind == crate::model::ProxyKind::Defaults) =>
            {
                parse(cx, b, &line)
            }
            Status::Works(_) if keyword.late => {
                check_order(cx, b, &line);
                b.has_rules |= b.p.kind == crate::model::ProxyKind::Defaults && name != "acl";
                b.late.push(line);
                Ok(())
            }
            Status::Works(parse) => parse(cx, b, &line),
            Status::NotYet(why) => Err(not_supported(&line, 0, name, why)),
            Status::Removed(sentence) => Err(fail(&line, 0, sentence)),
        },
        None => Err(unknown(&line, b.p.kind.keyword(), near(PROXY, name))),
    }
}

/// Keywords that a `defaults` section may not hold, or only a named one.
fn late_only(name: &str) -> bool {
    matches!(
        name,
        "acl"
            | "http-request"
            | "http-response"
            | "http-after-response"
            | "redirect"
            | "use_backend"
            | "use-server"
            | "monitor"
            | "force-persist"
            | "ignore-persist"
            | "force-be-switch"
            | "capture"
            | "declare"
            | "stick"
            | "tcp-request"
            | "tcp-response"
    )
}

/// Refuses in `defaults` what is not allowed there, and in an anonymous one what needs a name.
fn allowed_in_defaults(b: &Building, line: &Line) -> Outcome {
    let name = line.text(0);
    let anonymous = b.p.name.is_empty();
    let wrong = |text: String| Err(fail(line, 0, text));
    match name {
        "acl" | "http-request" | "http-response" | "http-after-response" if anonymous => {
            wrong(format!("'{name}' not allowed in anonymous 'defaults' section."))
        }
        "tcp-request" | "tcp-response" if anonymous => {
            wrong(format!("{name} {} is not allowed in anonymous 'defaults' sections", line.text(1)))
        }
        "acl" | "http-request" | "http-response" | "http-after-response" | "tcp-request" | "tcp-response" => {
            Ok(())
        }
        "declare" => wrong("'declare' not available in default section".to_owned()),
        "capture" => wrong(format!("'capture {}' not allowed in 'defaults' section.", line.text(1))),
        _ => wrong(format!("'{name}' not allowed in 'defaults' section.")),
    }
}
