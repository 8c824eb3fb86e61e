//! `redirect`, as an action and as a keyword of its own.

use super::{Action, Step, render};
use crate::compile;
use crate::effects::Effects;
use crate::keyword::{ActionDef, RuleEnv, Rulesets, Words};
use crate::ruleset::{Kind, Outcome};
use thalweg_http::{Head, HeaderId, RewriteError, Version, uri};
use thalweg_sample::Ctx;
use thalweg_sample::logformat::LogFormat;
use thalweg_syntax::carry::restore;

/// A redirection, compiled.
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    kind: Target,
    text: Template,
    cookie: Option<Template>,
    /// What follows the cookie's value.
    cookie_end: &'static [u8],
    drop_query: bool,
    keep_query: bool,
    append_slash: bool,
    ignore_empty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Location,
    Prefix,
    Scheme,
}

/// A text that is the same for all requests, or a format.
enum Template {
    Literal(Box<[u8]>),
    Format(LogFormat),
}

impl std::fmt::Debug for Redirect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redirect({}, {:?})", self.status, self.kind)
    }
}

pub(crate) static ACTIONS: &[ActionDef] = &[ActionDef::new(
    "redirect",
    Rulesets::HTTP_REQUEST.or(Rulesets::HTTP_RESPONSE),
    "{location | prefix | scheme} <fmt> [code <code>] [drop-query] [keep-query] [append-slash] [ignore-empty] \
     [set-cookie <name[=value]>] [set-cookie-fmt <fmt>] [clear-cookie <name[=]>]",
    "answers with a redirection",
    |words, env| parse(words, env, true),
)];

pub(crate) const EXPECTS: &str = "expects 'code', 'prefix', 'location', 'scheme', 'set-cookie', 'set-cookie-fmt', \
                                  'clear-cookie', 'drop-query', 'keep-query', 'ignore-empty' or 'append-slash'";

/// Parses the words of a `redirect` line.
pub(crate) fn parse_literal(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    parse(words, env, false)
}

fn parse(words: &mut Words, env: &mut RuleEnv, formats: bool) -> Result<Action, String> {
    let mut target: Option<(Target, &str)> = None;
    let mut cookie: Option<(&str, &str)> = None;
    let mut redirect = Redirect {
        status: 302,
        kind: Target::Location,
        text: Template::Literal(Box::default()),
        cookie: None,
        cookie_end: b"",
        drop_query: false,
        keep_query: false,
        append_slash: false,
        ignore_empty: false,
    };
    while let Some(word) = words.next() {
        let mut value = || words.value().ok_or_else(|| format!("missing argument for '{word}'"));
        match word {
            "location" => target = Some((Target::Location, value()?)),
            "prefix" => target = Some((Target::Prefix, value()?)),
            "scheme" => target = Some((Target::Scheme, value()?)),
            "set-cookie" | "set-cookie-fmt" | "clear-cookie" => cookie = Some((word, value()?)),
            "code" => {
                let code = compile::leading(value()?);
                redirect.status = match code {
                    301 | 302 | 303 | 307 | 308 => code as u16,
                    _ => {
                        return Err(format!(
                            "'code': unsupported HTTP code '{code}' (must be one of 301, 302, 303, 307 or 308)"
                        ));
                    }
                };
            }
            "drop-query" => redirect.drop_query = true,
            "keep-query" => redirect.keep_query = true,
            "append-slash" => redirect.append_slash = true,
            "ignore-empty" => redirect.ignore_empty = true,
            other => return Err(format!("{EXPECTS} (was '{other}')")),
        }
    }
    let Some((kind, text)) = target else {
        return Err("redirection type expected ('prefix', 'location', or 'scheme')".into());
    };
    if words.kind == Kind::HttpResponse && kind != Target::Location {
        return Err("response only supports redirect type 'location'".into());
    }
    redirect.kind = kind;
    let mut template = |text: &str, format: bool| -> Result<Template, String> {
        Ok(if format && text.contains('%') {
            Template::Format(compile::format(text, env.compile)?)
        } else {
            Template::Literal(restore(text.as_bytes()).into())
        })
    };
    redirect.text = template(text, formats)?;
    if let Some((how, text)) = cookie {
        redirect.cookie = Some(template(text, how == "set-cookie-fmt")?);
        redirect.cookie_end = if how == "clear-cookie" { b"; path=/; Max-Age=0;" } else { b"; path=/;" };
    }
    Ok(Action::Redirect(Box::new(redirect)))
}

impl Template {
    fn render(&self, cx: &mut Ctx, out: &mut Vec<u8>) {
        match self {
            Template::Literal(text) => {
                out.clear();
                out.extend_from_slice(text);
            }
            Template::Format(format) => render(format, cx, out),
        }
    }
}

impl Redirect {
    /// True when the rules after it can still run although it has no condition.
    pub(crate) fn may_be_skipped(&self) -> bool {
        self.ignore_empty
    }

    pub(crate) fn run(&self, cx: &mut Ctx, fx: &mut Effects) -> Step<'_> {
        self.text.render(cx, &mut fx.text);
        // In responses there is no request to take a query from.
        let request = cx.request.as_deref().filter(|_| !cx.response_side);
        let target = request.map_or(&b""[..], Head::target);
        let path_and_query = match uri::path_and_query(target) {
            b"" => b"/",
            path => path,
        };
        let question = path_and_query.iter().position(|&b| b == b'?');
        let out = &mut fx.location;
        out.clear();
        match self.kind {
            Target::Location => {
                out.extend_from_slice(&fx.text);
                if let Some(at) = question.filter(|_| self.keep_query) {
                    out.push(if out.contains(&b'?') { b'&' } else { b'?' });
                    out.extend_from_slice(&path_and_query[at + 1..]);
                }
                if self.ignore_empty && out.is_empty() {
                    return Step::Next;
                }
            }
            Target::Prefix | Target::Scheme => {
                if self.kind == Target::Scheme {
                    let host =
                        cx.request.as_deref().and_then(|head| head.value(HeaderId::Host)).unwrap_or(b"");
                    for part in [&fx.text[..], b"://", host] {
                        out.extend_from_slice(part);
                    }
                } else if fx.text != b"/" {
                    out.extend_from_slice(&fx.text);
                }
                match question.filter(|_| self.drop_query) {
                    Some(at) => out.extend_from_slice(&path_and_query[..at]),
                    None => out.extend_from_slice(path_and_query),
                }
                if self.append_slash && out.last() != Some(&b'/') {
                    out.push(b'/');
                }
            }
        }
        fx.cookie.clear();
        if let Some(cookie) = &self.cookie {
            cookie.render(cx, &mut fx.cookie);
            fx.cookie.extend_from_slice(self.cookie_end);
        }
        Step::Stop(Outcome::Redirect(self))
    }

    /// Writes the response into `head`, which is cleared first. It has no payload.
    ///
    /// # Errors
    /// When the location or the cookie does not fit or has forbidden bytes: answer 500 instead.
    pub fn write(&self, fx: &Effects, head: &mut Head) -> Result<(), RewriteError> {
        head.clear();
        head.start_response(Version::HTTP_11, self.status, None)?;
        head.push_id(HeaderId::ContentLength, b"0")?;
        head.push_id(HeaderId::Location, &fx.location)?;
        // These are temporary: nobody should remember them.
        if matches!(self.status, 302 | 303 | 307) {
            head.push(b"cache-control", b"no-cache")?;
        }
        if !fx.cookie.is_empty() {
            head.push(b"set-cookie", &fx.cookie)?;
        }
        Ok(())
    }
}
