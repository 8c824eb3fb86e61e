//! The request line: `set-method`, `set-path`, `set-pathq`, `set-query`, `set-uri`, and `replace-path`, `replace-pathq`,
//! `replace-uri`.

use super::header::expand;
use super::{Action, Step, render};
use crate::compile;
use crate::effects::Effects;
use crate::keyword::{ActionDef, RuleEnv, Rulesets, Words};
use thalweg_http::uri::{self, Form};
use thalweg_http::{Head, HeaderId, RewriteError};
use thalweg_sample::Ctx;
use thalweg_sample::logformat::LogFormat;
use thalweg_sample::pattern::Regex;

/// A part of the request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Method,
    Path,
    PathAndQuery,
    Query,
    Uri,
}

/// A change of a part.
pub(crate) struct Edit {
    part: Part,
    /// Only when this matches the part; the format then refers to its groups.
    regex: Option<Regex>,
    format: LogFormat,
}

const R: Rulesets = Rulesets::HTTP_REQUEST;

pub(crate) static ACTIONS: &[ActionDef] = &[
    ActionDef::new(
        "replace-path",
        R,
        "<match-regex> <replace-fmt>",
        "replaces the path when it matches",
        |w, e| replace(w, e, Part::Path),
    ),
    ActionDef::new(
        "replace-pathq",
        R,
        "<match-regex> <replace-fmt>",
        "replaces the path and query when they match",
        |w, e| replace(w, e, Part::PathAndQuery),
    ),
    ActionDef::new(
        "replace-uri",
        R,
        "<match-regex> <replace-fmt>",
        "replaces the URI when it matches",
        |w, e| replace(w, e, Part::Uri),
    ),
    ActionDef::new("set-method", R, "<fmt>", "sets the method", |w, e| set(w, e, Part::Method)),
    ActionDef::new("set-path", R, "<fmt>", "sets the path, without the query", |w, e| set(w, e, Part::Path)),
    ActionDef::new("set-pathq", R, "<fmt>", "sets the path and the query", |w, e| {
        set(w, e, Part::PathAndQuery)
    }),
    ActionDef::new("set-query", R, "<fmt>", "sets the query", |w, e| set(w, e, Part::Query)),
    ActionDef::new("set-uri", R, "<fmt>", "sets the whole URI", |w, e| set(w, e, Part::Uri)),
];

fn set(words: &mut Words, env: &mut RuleEnv, part: Part) -> Result<Action, String> {
    let format = words.next().ok_or("expects exactly 1 argument <format>")?;
    let format = compile::format(format, env.compile)?;
    Ok(Action::Uri(Box::new(Edit { part, regex: None, format })))
}

fn replace(words: &mut Words, env: &mut RuleEnv, part: Part) -> Result<Action, String> {
    let (Some(regex), Some(format)) = (words.next(), words.value()) else {
        return Err("expects exactly 2 arguments <match-regex> and <replace-format>".into());
    };
    let regex = Some(Regex::new(regex, true).map_err(|e| e.to_string())?);
    let format = compile::format(format, env.compile)?;
    Ok(Action::Uri(Box::new(Edit { part, regex, format })))
}

impl Edit {
    pub fn run<'r>(&self, cx: &mut Ctx, fx: &mut Effects) -> Step<'r> {
        render(&self.format, cx, &mut fx.text);
        let Some(head) = cx.request.as_deref_mut() else { return Step::Next };
        if let Some(regex) = &self.regex {
            let subject = self.part.of(head);
            let groups = &mut fx.groups;
            if !regex.find_groups(subject, 0, groups) {
                return Step::Next;
            }
            fx.more.clear();
            expand(&fx.text, subject, groups, &mut fx.more);
            std::mem::swap(&mut fx.text, &mut fx.more);
        }
        Step::Rewrite(self.part.replace(head, &fx.text, &mut fx.more))
    }
}

impl Part {
    /// The part of a request that a pattern is matched against.
    fn of(self, head: &Head) -> &[u8] {
        match self {
            Part::Method => head.method_bytes(),
            Part::Path => uri::path(head.target()),
            Part::PathAndQuery => uri::path_and_query(head.target()),
            Part::Query => uri::query(head.target()).unwrap_or(b""),
            Part::Uri => head.target(),
        }
    }

    /// Replaces the part by `value`; `target` is memory to build in.
    pub fn replace(self, head: &mut Head, value: &[u8], target: &mut Vec<u8>) -> Result<(), RewriteError> {
        let old = head.target();
        // A request without a path (`*`, an authority) gets the value instead of its target.
        let (path_at, has_path) = match uri::split(old).form {
            Form::Origin => (0, true),
            Form::Absolute => (old.len() - uri::path_and_query(old).len(), true),
            Form::Asterisk | Form::Authority => (0, false),
        };
        let question = old[path_at..].iter().position(|&b| b == b'?').map(|at| path_at + at);
        target.clear();
        match self {
            Part::Method => return head.set_method(value),
            Part::Uri => {
                target.extend_from_slice(place(old));
                head.set_target(if value.is_empty() { &b"/"[..] } else { value })?;
                if place(head.target()) != &target[..] {
                    head.note_elsewhere();
                }
                return follow_authority(head, target);
            }
            Part::Path | Part::PathAndQuery if !has_path => target.extend_from_slice(value),
            Part::Path => {
                target.extend_from_slice(&old[..path_at]);
                extend_rooted(target, value);
                target.extend_from_slice(&old[question.unwrap_or(old.len())..]);
            }
            Part::PathAndQuery => {
                target.extend_from_slice(&old[..path_at]);
                extend_rooted(target, value);
            }
            Part::Query => {
                match question {
                    Some(at) => target.extend_from_slice(&old[..=at]),
                    None => {
                        target.extend_from_slice(old);
                        if !value.is_empty() {
                            target.push(b'?');
                        }
                    }
                }
                target.extend_from_slice(value);
            }
        }
        head.set_target(target)
    }
}

/// Adds a path, with or without a query. One that an edit left nothing of is `/` (RFC 9112 section 3.2.1): that is what who takes
/// a prefix away means, and a request line without a target is none.
fn extend_rooted(target: &mut Vec<u8>, path: &[u8]) {
    if matches!(path.first(), None | Some(b'?')) {
        target.push(b'/');
    }
    target.extend_from_slice(path);
}

/// Scheme and authority of a target, as far as it has them.
fn place(target: &[u8]) -> &[u8] {
    &target[..target.len() - uri::path_and_query(target).len()]
}

/// A target with an authority names the host: the `host` field must say the same (RFC 9112 section 3.2.2).
fn follow_authority(head: &mut Head, memory: &mut Vec<u8>) -> Result<(), RewriteError> {
    let target = uri::split(head.target());
    if target.authority.is_empty() {
        return Ok(());
    }
    memory.clear();
    memory.extend_from_slice(target.authority);
    match head.get(HeaderId::Host).map(|field| field.index) {
        Some(index) => head.replace_value(index, memory),
        None => Ok(()),
    }
}

/// The reverse: the authority of an absolute target follows the `host` field when a rule sets that.
pub(crate) fn follow_host(head: &mut Head) -> Result<(), RewriteError> {
    if !head.is_request() {
        return Ok(());
    }
    let target = uri::split(head.target());
    let Some(host) = head.value(HeaderId::Host).filter(|_| target.form == Form::Absolute) else {
        return Ok(());
    };
    let parts = [target.scheme, b"://", host, target.path_and_query];
    // Absolute targets are rare, and so are rules on the host: no memory is kept for this.
    let target = parts.concat();
    head.set_target(&target)
}
