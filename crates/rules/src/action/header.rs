//! Header fields: `add-header`, `set-header`, `del-header`, `replace-header`, `replace-value`, their binary variants, and
//! `early-hint`.

use super::{Action, Step, render, uri};
use crate::compile;
use crate::effects::Effects;
use crate::keyword::{ActionDef, RuleEnv, Rulesets, Words};
use crate::ruleset::Kind;
use thalweg_http::{Head, HeaderId, RewriteError, ascii};
use thalweg_sample::logformat::LogFormat;
use thalweg_sample::pattern::{Regex, RegexScratch};
use thalweg_sample::{Ctx, Expr, Type};
use thalweg_syntax::carry::restore;

/// A change of header fields.
pub(crate) enum Edit {
    Add(Name, LogFormat),
    Set(Name, LogFormat),
    Delete(NameMatch),
    Replace { name: Name, regex: Regex, format: LogFormat, each_value: bool },
    AddBinary { expr: Expr, prefix: Box<[u8]>, replace: bool },
    DeleteBinary { expr: Expr, method: Method },
    EarlyHint(Name, LogFormat),
}

/// The name of a field, in lower case, resolved once. Empty when what the configuration gives cannot be one: no head can
/// hold it, so that an edit with it does nothing.
pub(crate) struct Name {
    text: Box<[u8]>,
    id: HeaderId,
}

/// How names are compared by `-m`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Exact,
    Begin,
    End,
    Substring,
}

/// Which fields `del-header` removes.
pub(crate) enum NameMatch {
    Exact(Name),
    By(Method, Box<[u8]>),
    Regex(Regex),
}

const TWO: &str = "expects exactly 2 arguments";

pub(crate) static ACTIONS: &[ActionDef] = &[
    ActionDef::new("add-header", Rulesets::HTTP, "<name> <fmt>", "appends a header field", |w, e| {
        named(w, e, TWO).map(|(n, f)| wrap(Edit::Add(n, f)))
    }),
    ActionDef::new(
        "add-headers-bin",
        Rulesets::HTTP,
        "<expr> [prefix <str>]",
        "appends the header fields of a binary list",
        |w, e| binary(w, e, false),
    ),
    ActionDef::new(
        "del-header",
        Rulesets::HTTP,
        "<name> [-m <meth>]",
        "removes all header fields with this name",
        delete,
    ),
    ActionDef::new(
        "del-headers-bin",
        Rulesets::HTTP,
        "<expr> [-m <meth>]",
        "removes the header fields named in a binary list",
        delete_binary,
    ),
    ActionDef::new(
        "early-hint",
        Rulesets::HTTP_REQUEST,
        "<name> <fmt>",
        "adds a field to a 103 response sent before the final one",
        |w, e| named(w, e, TWO).map(|(n, f)| wrap(Edit::EarlyHint(n, f))),
    ),
    ActionDef::new(
        "replace-header",
        Rulesets::HTTP,
        "<name> <match-regex> <replace-fmt>",
        "replaces the whole value of fields that match",
        |w, e| replace(w, e, false),
    ),
    ActionDef::new(
        "replace-value",
        Rulesets::HTTP,
        "<name> <match-regex> <replace-fmt>",
        "replaces each comma-separated value that matches",
        |w, e| replace(w, e, true),
    ),
    ActionDef::new(
        "set-header",
        Rulesets::HTTP,
        "<name> <fmt>",
        "sets a header field, replacing all those with its name",
        |w, e| named(w, e, TWO).map(|(n, f)| wrap(Edit::Set(n, f))),
    ),
    ActionDef::new(
        "set-headers-bin",
        Rulesets::HTTP,
        "<expr> [prefix <str>]",
        "sets the header fields of a binary list",
        |w, e| binary(w, e, true),
    ),
];

fn wrap(edit: Edit) -> Action {
    Action::Header(Box::new(edit))
}

impl Name {
    /// The name of a field to write. Characters that no name may have are warned about, as in the reference; a colon at
    /// the end, the most frequent of them, is taken off.
    fn new(word: &str, env: &mut RuleEnv) -> Name {
        let meant = word.strip_suffix(':').unwrap_or(word);
        let forbidden = |text: &str| text.chars().find(|c| !u8::try_from(*c).is_ok_and(ascii::is_tchar));
        if let Some(bad) = forbidden(word) {
            let instead = match forbidden(meant) {
                None => format!("the rule is about '{meant}'"),
                Some(_) => "the rule does nothing".to_string(),
            };
            env.compile
                .warnings
                .push(format!("header name '{word}' contains forbidden character '{bad}'; {instead}."));
        }
        Name::known(meant, env)
    }

    /// The name of a field to look for.
    fn known(word: &str, env: &mut RuleEnv) -> Name {
        let legal = !word.is_empty() && word.bytes().all(ascii::is_tchar);
        let text = if legal { word.to_ascii_lowercase().into_bytes() } else { Vec::new() };
        let id = HeaderId::from_lower(&text);
        if is_framing(id) {
            env.compile.warnings.push(format!(
                "a rule on header '{word}' has no effect: where a message ends is decided when it is received, and \
                 the header that says so always tells the truth."
            ));
        }
        Name { id, text: text.into() }
    }

    /// Whether no head can hold it.
    fn is_impossible(&self) -> bool {
        self.text.is_empty()
    }

    fn remove(&self, head: &mut Head) {
        match self.id {
            id if is_framing(id) => 0,
            HeaderId::Other => head.remove_all(&self.text),
            id => head.remove_id(id),
        };
    }
}

/// True for the fields that say where a message ends. No rule may touch them: the body that follows would be cut or read
/// as another message (RFC 9112 section 6.3).
const fn is_framing(id: HeaderId) -> bool {
    matches!(id, HeaderId::ContentLength | HeaderId::TransferEncoding)
}

fn named(words: &mut Words, env: &mut RuleEnv, expects: &str) -> Result<(Name, LogFormat), String> {
    let (Some(name), Some(format)) = (words.next(), words.value()) else { return Err(expects.into()) };
    let name = Name::new(name, env);
    Ok((name, compile::format(format, env.compile)?))
}

fn replace(words: &mut Words, env: &mut RuleEnv, each_value: bool) -> Result<Action, String> {
    let (Some(name), Some(regex), Some(format)) = (words.next(), words.value(), words.value()) else {
        return Err("expects exactly 3 arguments".into());
    };
    let name = Name::known(name, env);
    let regex = Regex::new(regex, true).map_err(|e| e.to_string())?;
    let format = compile::format(format, env.compile)?;
    Ok(wrap(Edit::Replace { name, regex, format, each_value }))
}

fn delete(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    let word = words.next().ok_or("expects at least 1 argument")?;
    let by = |method| NameMatch::By(method, restore(word.to_ascii_lowercase().as_bytes()).into());
    let matching = if words.take("-m") {
        match words.value().ok_or("-m flag expects exactly 1 argument")? {
            "str" => NameMatch::Exact(Name::known(word, env)),
            "beg" => by(Method::Begin),
            "end" => by(Method::End),
            "sub" => by(Method::Substring),
            // Names are stored in lower case, whatever the client wrote.
            "reg" => NameMatch::Regex(Regex::new(word, true).map_err(|e| e.to_string())?),
            other => return Err(format!("-m with unsupported matching method '{other}'")),
        }
    } else {
        NameMatch::Exact(Name::known(word, env))
    };
    Ok(wrap(Edit::Delete(matching)))
}

fn binary(words: &mut Words, env: &mut RuleEnv, replace: bool) -> Result<Action, String> {
    let expects = "expects exactly one argument or three arguments <headers> prefix <pfx>";
    if words.peek().is_none() {
        return Err(expects.into());
    }
    let expr = compile::expression(words.next(), env.compile)?;
    let prefix = if words.take("prefix") { words.value().ok_or(expects)? } else { "" };
    let prefix = restore(prefix.to_ascii_lowercase().as_bytes()).into();
    Ok(wrap(Edit::AddBinary { expr, prefix, replace }))
}

fn delete_binary(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    if words.peek().is_none() {
        return Err("expects at least 1 argument".into());
    }
    let expr = compile::expression(words.next(), env.compile)?;
    let method = if words.take("-m") {
        match words.value().ok_or("-m flag expects exactly 1 argument")? {
            "str" => Method::Exact,
            "beg" => Method::Begin,
            "end" => Method::End,
            "sub" => Method::Substring,
            "reg" => {
                return Err("-m reg is unsupported with del-headers-bin due to performance reasons".into());
            }
            other => return Err(format!("-m with unsupported matching method '{other}'")),
        }
    } else {
        Method::Exact
    };
    Ok(wrap(Edit::DeleteBinary { expr, method }))
}

impl Method {
    fn matches(self, name: &[u8], wanted: &[u8]) -> bool {
        match self {
            Method::Exact => name.eq_ignore_ascii_case(wanted),
            Method::Begin => name.len() >= wanted.len() && name[..wanted.len()].eq_ignore_ascii_case(wanted),
            Method::End => {
                name.len() >= wanted.len() && name[name.len() - wanted.len()..].eq_ignore_ascii_case(wanted)
            }
            Method::Substring => {
                wanted.is_empty() || name.windows(wanted.len()).any(|w| w.eq_ignore_ascii_case(wanted))
            }
        }
    }
}

impl Edit {
    pub fn is_early_hint(&self) -> bool {
        matches!(self, Edit::EarlyHint(..))
    }

    pub fn run<'r>(&self, kind: Kind, cx: &mut Ctx, fx: &mut Effects) -> Step<'r> {
        match self {
            Edit::Add(name, format) => {
                render(format, cx, &mut fx.text);
                Step::Rewrite(with_head(kind, cx, |head| add(head, name, &fx.text)))
            }
            Edit::Set(name, format) => {
                render(format, cx, &mut fx.text);
                Step::Rewrite(with_head(kind, cx, |head| set(head, name, &fx.text)))
            }
            Edit::Delete(matching) => Step::Rewrite(with_head(kind, cx, |head| {
                match matching {
                    NameMatch::Exact(name) => name.remove(head),
                    NameMatch::By(method, text) => {
                        head.retain(|field| is_framing(field.id) || !method.matches(field.name, text));
                    }
                    NameMatch::Regex(regex) => {
                        head.retain(|field| is_framing(field.id) || !regex.is_match(field.name));
                    }
                }
                Ok(())
            })),
            Edit::Replace { name, regex, format, each_value } => {
                render(format, cx, &mut fx.text);
                Step::Rewrite(replace_values(kind, cx, fx, name, regex, *each_value))
            }
            Edit::AddBinary { expr, prefix, replace } => {
                let Some(sample) = expr.eval_as(Type::Bin, cx) else { return missed(cx) };
                fx.text.clear();
                fx.text.extend_from_slice(cx.bytes(&sample.value));
                Step::Rewrite(with_head(kind, cx, |head| add_binary(head, &fx.text, prefix, *replace)))
            }
            Edit::DeleteBinary { expr, method } => {
                let Some(sample) = expr.eval_as(Type::Bin, cx) else { return missed(cx) };
                fx.text.clear();
                fx.text.extend_from_slice(cx.bytes(&sample.value));
                Step::Rewrite(with_head(kind, cx, |head| delete_listed(head, &fx.text, *method)))
            }
            Edit::EarlyHint(name, format) => {
                render(format, cx, &mut fx.text);
                if name.is_impossible() {
                    return Step::Next;
                }
                let forbidden = |b: &u8| matches!(b, b'\r' | b'\n' | 0);
                if fx.early_hints.len() + name.text.len() + fx.text.len() + 4 > cx.value_max() {
                    return Step::Rewrite(Err(RewriteError::TooLarge));
                }
                if fx.text.iter().any(forbidden) {
                    return Step::Rewrite(Err(RewriteError::Invalid));
                }
                let text: &[u8] = &fx.text;
                for part in [&name.text[..], b": ", text, b"\r\n"] {
                    fx.early_hints.extend_from_slice(part);
                }
                Step::Next
            }
        }
    }
}

fn missed<'r>(cx: &Ctx) -> Step<'r> {
    if cx.may_change { Step::Wait } else { Step::Next }
}

fn with_head(
    kind: Kind,
    cx: &mut Ctx,
    edit: impl FnOnce(&mut Head) -> Result<(), RewriteError>,
) -> Result<(), RewriteError> {
    let head = if kind.is_response() { cx.response.as_deref_mut() } else { cx.request.as_deref_mut() };
    match head {
        Some(head) => edit(head),
        None => Ok(()),
    }
}

fn add(head: &mut Head, name: &Name, value: &[u8]) -> Result<(), RewriteError> {
    if is_framing(name.id) || name.is_impossible() {
        return Ok(());
    }
    head.push(&name.text, value).map(drop)
}

/// Appends the new field, then removes those that were there: nothing is lost when it does not fit.
fn set(head: &mut Head, name: &Name, value: &[u8]) -> Result<(), RewriteError> {
    if is_framing(name.id) || name.is_impossible() {
        return Ok(());
    }
    let added = head.push(&name.text, value)?;
    let mut next = 0;
    while let Some(index) = head.find_from(&name.text, next).map(|field| field.index).filter(|&i| i < added) {
        head.remove(index);
        next = index + 1;
    }
    if name.id == HeaderId::Host { uri::follow_host(head) } else { Ok(()) }
}

fn replace_values(
    kind: Kind,
    cx: &mut Ctx,
    fx: &mut Effects,
    name: &Name,
    regex: &Regex,
    each_value: bool,
) -> Result<(), RewriteError> {
    let head = if kind.is_response() { cx.response.as_deref_mut() } else { cx.request.as_deref_mut() };
    let Some(head) = head.filter(|_| !is_framing(name.id)) else { return Ok(()) };
    let groups = &mut fx.groups;
    let mut next = 0;
    while let Some(field) = head.find_from(&name.text, next) {
        let index = field.index;
        next = index + 1;
        fx.more.clear();
        let mut changed = false;
        if each_value {
            // A value is replaced with the spaces around it; what does not match stays as it is.
            let mut rest = field.value;
            loop {
                let (part, comma) = first_element(rest);
                let value = ascii::trim_ows(part);
                if !value.is_empty() && regex.find_groups(value, 0, groups) {
                    expand(&fx.text, value, groups, &mut fx.more);
                    changed = true;
                } else {
                    fx.more.extend_from_slice(part);
                }
                let Some(after) = comma else { break };
                fx.more.push(b',');
                rest = after;
            }
        } else if regex.find_groups(field.value, 0, groups) {
            expand(&fx.text, field.value, groups, &mut fx.more);
            changed = true;
        }
        if changed {
            head.replace_value(index, &fx.more)?;
        }
    }
    Ok(())
}

/// Splits a list before its first comma that is not in a quoted string: the element with the spaces around it, and what
/// follows the comma.
fn first_element(list: &[u8]) -> (&[u8], Option<&[u8]>) {
    let (mut quoted, mut escaped) = (false, false);
    for (at, &byte) in list.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => return (&list[..at], Some(&list[at + 1..])),
            _ => {}
        }
    }
    (list, None)
}

/// Writes `template` with its `\0` to `\9` replaced by what the groups of the last match over `subject` hold; `\xHH` is a
/// byte, and a backslash before anything else gives that.
pub(crate) fn expand(template: &[u8], subject: &[u8], groups: &RegexScratch, out: &mut Vec<u8>) {
    let mut rest = template;
    while let Some(slash) = rest.iter().position(|&b| b == b'\\') {
        out.extend_from_slice(&rest[..slash]);
        rest = &rest[slash + 1..];
        let hex = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
        match rest {
            [digit @ b'0'..=b'9', tail @ ..] => {
                out.extend_from_slice(groups.group(usize::from(digit - b'0'), subject));
                rest = tail;
            }
            [b'x', a, b, tail @ ..] => match (hex(*a), hex(*b)) {
                (Some(a), Some(b)) => {
                    out.push(a << 4 | b);
                    rest = tail;
                }
                _ => {
                    out.push(b'x');
                    rest = &rest[1..];
                }
            },
            [other, tail @ ..] => {
                out.push(*other);
                rest = tail;
            }
            [] => {}
        }
    }
    out.extend_from_slice(rest);
}

/// Reads the next length-prefixed text of a list of the form of `req.hdrs_bin`. The length is a variable-length integer:
/// below 240 one byte, else more.
fn next_text<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (&first, mut rest) = bytes.split_first()?;
    let mut length = u64::from(first);
    if first >= 240 {
        let mut shift = 4;
        loop {
            let (&byte, tail) = rest.split_first()?;
            rest = tail;
            length = length.checked_add(u64::from(byte).checked_shl(shift)?)?;
            shift += 7;
            if byte < 128 {
                break;
            }
            if shift > 60 {
                return None;
            }
        }
    }
    let length = usize::try_from(length).ok()?;
    let text = rest.get(..length)?;
    *bytes = &rest[length..];
    Some(text)
}

fn add_binary(head: &mut Head, mut list: &[u8], prefix: &[u8], replace: bool) -> Result<(), RewriteError> {
    let full = list;
    if replace {
        while let (Some(name), Some(_)) = (next_text(&mut list), next_text(&mut list)) {
            if name.is_empty() {
                break;
            }
            if Method::Begin.matches(name, prefix) && !is_framing(HeaderId::from_name(name)) {
                head.remove_all(name);
            }
        }
        list = full;
    }
    loop {
        let (Some(name), Some(value)) = (next_text(&mut list), next_text(&mut list)) else {
            return Err(RewriteError::Invalid);
        };
        if name.is_empty() {
            return Ok(());
        }
        if Method::Begin.matches(name, prefix) && !is_framing(HeaderId::from_name(name)) {
            head.push(name, value)?;
        }
    }
}

fn delete_listed(head: &mut Head, mut list: &[u8], method: Method) -> Result<(), RewriteError> {
    while let Some(name) = next_text(&mut list) {
        if name.is_empty() {
            break;
        }
        head.retain(|field| is_framing(field.id) || !method.matches(field.name, name));
    }
    Ok(())
}
