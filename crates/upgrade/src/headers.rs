//! `req*` and `rsp*`: rules on lines of a message, as they were up to 2.0.

use thalweg_syntax::layout::WrittenLine;

use crate::quote::{literal_format, quoted};
use crate::regex::{self, About, Field, NameGroup, Request};
use crate::{Decision, Kind, conditions};

/// The side of a rule.
struct Side {
    ruleset: &'static str,
    /// Fetches of whole fields.
    whole: &'static str,
    is_response: bool,
}

const REQUEST: Side = Side { ruleset: "http-request", whole: "req.fhdr", is_response: false };
const RESPONSE: Side = Side { ruleset: "http-response", whole: "res.fhdr", is_response: true };

/// Translates a line whose keyword begins with `req` or `rsp`; `None` if it is another one.
pub fn line(line: &WrittenLine<'_>) -> Option<Decision> {
    let keyword = line.word(0);
    let (side, verb) = match keyword.split_at_checked(3)? {
        ("req", verb) => (REQUEST, verb),
        ("rsp", verb) => (RESPONSE, verb),
        _ => return None,
    };
    if verb == "add" {
        return Some(finish(&keyword, add(line, &side)));
    }
    let (verb, insensitive) = match verb.strip_prefix('i') {
        Some(verb) => (verb, true),
        None => (verb, false),
    };
    let expression = line.word(1);
    let rule = Rule { side, insensitive, expression: &expression, line };
    let result = match verb {
        "del" => rule.delete(),
        "rep" => rule.replace(),
        "deny" | "tarpit" | "allow" => rule.verdict(verb),
        "setbe" => rule.set_backend(),
        "pass" => Err("no rule of today leaves single lines of a message out of what follows".into()),
        _ => return None,
    };
    Some(finish(&keyword, result))
}

/// New lines, and where they differ from the old one; or why there are none.
type Result = std::result::Result<(Vec<String>, Vec<String>), String>;

fn finish(keyword: &str, result: Result) -> Decision {
    match result {
        Err(why) => Decision::Leave(format!(
            "'{keyword}' was removed in 2.1, and this one cannot be translated: {why}"
        )),
        Ok((lines, near)) => {
            let mut text = format!("'{keyword}' was removed in 2.1");
            let kind = if near.is_empty() { Kind::Same } else { Kind::Near };
            for part in near {
                text.push_str("; ");
                text.push_str(&part);
            }
            Decision::Become(lines, kind, text)
        }
    }
}

/// `reqadd` and `rspadd`.
fn add(line: &WrittenLine<'_>, side: &Side) -> Result {
    let field = line.word(1);
    let (name, value) = field.split_once(':').ok_or("its text is not a header field")?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || value.is_empty() {
        return Err("a field needs a name and a value".into());
    }
    let condition = conditions::of_line(line, 2)?;
    let new = format!("{} add-header {} {}", side.ruleset, quoted(name), quoted(&literal_format(value)));
    Ok((vec![append(new, &condition.join(" "))], Vec::new()))
}

fn append(rule: String, condition: &str) -> String {
    if condition.is_empty() { rule } else { format!("{rule} {condition}") }
}

struct Rule<'a> {
    side: Side,
    insensitive: bool,
    expression: &'a str,
    line: &'a WrittenLine<'a>,
}

const NOT_SIMPLE: &str = "its condition cannot be joined with that of the expression; split the rule";

impl Rule<'_> {
    fn about(&self) -> std::result::Result<About, String> {
        regex::parse(self.expression)
    }

    /// Where a translation of an expression on a field differs.
    fn doubts(&self, field: &Field) -> Vec<String> {
        let mut near = Vec::new();
        if field.anywhere {
            near.push("the expression had no '^' and could match within any line; it is taken for the field it names".into());
        }
        if !self.insensitive && !field.names.is_empty() && !field.value.is_empty() {
            near.push("names of fields are compared without regard to case now".into());
        }
        near
    }

    /// An expression that ignores case where the old one did, for actions that have no option for it.
    fn cased(&self, expression: &str) -> String {
        let has_letters = expression.bytes().any(|b| b.is_ascii_alphabetic());
        if self.insensitive && has_letters { format!("(?i){expression}") } else { expression.to_owned() }
    }

    /// A term that is true for messages the expression matched.
    fn term(&self, fetch: &str, expression: &str) -> String {
        let insensitive = if self.insensitive { " -i" } else { "" };
        format!("{{ {fetch} -m reg{insensitive} {} }}", quoted(expression))
    }

    /// Alternatives of terms that hold where the expression matched, and where that differs.
    fn terms(&self) -> std::result::Result<(Vec<Vec<String>>, Vec<String>), String> {
        match self.about()? {
            About::Field(field) if field.is_prefix => {
                Err("fields cannot be selected by the start of their name in a condition".into())
            }
            About::Field(field) => {
                let each = field.names.iter().map(|name| {
                    let fetch = format!("{}({name})", self.side.whole);
                    vec![match field.value.as_str() {
                        "" => format!("{{ {fetch} -m found }}"),
                        value => self.term(&fetch, value),
                    }]
                });
                Ok((each.collect(), self.doubts(&field)))
            }
            About::Request(_) if self.side.is_response => Err("it is about the status line".into()),
            About::Request(request) => {
                let mut terms = Vec::new();
                if !request.methods.is_empty() {
                    terms.push(format!("{{ method {} }}", request.methods.join(" ")));
                }
                if !request.uri.is_empty() {
                    terms.push(self.term("url", &request.uri));
                }
                if terms.is_empty() {
                    terms.push("TRUE".into());
                }
                let mut near = Vec::new();
                if request.version_groups.is_none() && !request.uri.is_empty() {
                    near.push("the expression sees the URI only, not the version behind it".into());
                }
                Ok((vec![terms], near))
            }
        }
    }

    fn with_condition(&self, terms: &[String], from: usize) -> std::result::Result<String, String> {
        let condition = conditions::of_line(self.line, from)?;
        conditions::with_terms(terms, &condition).ok_or_else(|| NOT_SIMPLE.to_owned())
    }

    /// `reqdeny`, `reqtarpit`, `reqallow` and their kin.
    fn verdict(&self, verb: &str) -> Result {
        if self.side.is_response && verb == "tarpit" {
            return Err("responses cannot be held back".into());
        }
        let (alternatives, near) = self.terms()?;
        let rules = alternatives.iter().map(|terms| {
            let condition = self.with_condition(terms, 2)?;
            Ok(format!("{} {verb} {condition}", self.side.ruleset))
        });
        Ok((rules.collect::<std::result::Result<_, String>>()?, near))
    }

    /// `reqsetbe`.
    fn set_backend(&self) -> Result {
        let backend = self.line.words.get(2).ok_or("it names no backend")?.raw;
        let (alternatives, mut near) = self.terms()?;
        near.push("all use_backend rules are evaluated in the order in which they stand".into());
        let rules = alternatives.iter().map(|terms| {
            let condition = self.with_condition(terms, 3)?;
            Ok(format!("use_backend {backend} {condition}"))
        });
        Ok((rules.collect::<std::result::Result<_, String>>()?, near))
    }

    /// `reqdel` and its kin.
    fn delete(&self) -> Result {
        let About::Field(field) = self.about()? else {
            return Err("it deletes no header field".into());
        };
        let mut near = self.doubts(&field);
        let condition = conditions::of_line(self.line, 2)?;
        if field.is_prefix {
            let rule = format!("{} del-header {} -m beg", self.side.ruleset, field.names[0]);
            return Ok((vec![append(rule, &condition.join(" "))], near));
        }
        let mut rules = Vec::new();
        for name in &field.names {
            let rule = format!("{} del-header {name}", self.side.ruleset);
            if field.value.is_empty() {
                rules.push(append(rule, &condition.join(" ")));
                continue;
            }
            let term = self.term(&format!("{}({name})", self.side.whole), &field.value);
            rules.push(append(rule, &self.with_condition(&[term], 2)?));
        }
        if !field.value.is_empty() {
            near.push("if one field of that name matches, all of them are deleted".into());
        }
        Ok((rules, near))
    }

    /// `reqrep` and its kin.
    fn replace(&self) -> Result {
        if self.line.words.len() < 3 {
            return Err("it says not what to replace the line by".into());
        }
        let new = self.line.word(2);
        match self.about()? {
            About::Field(field) => self.replace_field(&field, &new),
            About::Request(_) if self.side.is_response => Err("it rewrites the status line".into()),
            About::Request(request) => self.replace_request(&request, &new),
        }
    }

    fn replace_field(&self, field: &Field, new: &str) -> Result {
        if field.is_prefix {
            return Err("the names it is about are not known".into());
        }
        let mut near = self.doubts(field);
        let condition = conditions::of_line(self.line, 3)?.join(" ");
        let ruleset = self.side.ruleset;
        // What the new line says of the value, when it keeps the name.
        let (name, value) = match field.group {
            NameGroup::Line if new.starts_with("\\1") || new.starts_with("\\0") => (None, new.to_owned()),
            NameGroup::Name if new.starts_with("\\1:") => {
                (None, shift(new[3..].trim_start(), 1).ok_or("it uses the group of the name twice")?)
            }
            _ if new.starts_with("\\0") => (None, new.to_owned()),
            group => {
                let (name, value) =
                    new.split_once(':').ok_or("what it makes of the line is not a header field")?;
                if name.is_empty()
                    || !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
                {
                    return Err("the name of the new field comes from the old line".into());
                }
                let before = usize::from(group == NameGroup::Name);
                let value =
                    shift(value.trim_start(), before).ok_or("it uses the group of the name in the value")?;
                (Some(name), value)
            }
        };
        let expression = self.cased(if field.value.is_empty() { ".*" } else { &field.value });
        let keeps_name = name.is_none_or(|new| field.names.iter().all(|old| old.eq_ignore_ascii_case(new)));
        let mut rules = Vec::new();
        for old in &field.names {
            if keeps_name {
                let value = literal_format(&value);
                if value.is_empty() {
                    return Err("it leaves a field without a value".into());
                }
                let rule =
                    format!("{ruleset} replace-header {old} {} {}", quoted(&expression), quoted(&value));
                rules.push(append(rule, &condition));
                continue;
            }
            // Another name: it is a new field with the old value, if that is all there is to it.
            let whole = matches!(field.value.as_str(), "^(.*)" | "^(.*)$" | "^(.+)" | "^(.+)$");
            let new_name = name.unwrap_or_default();
            if !(whole && value == "\\1") {
                return Err("it renames a field and changes its value at once".into());
            }
            let found = self.with_condition(&[format!("{{ {}({old}) -m found }}", self.side.whole)], 3)?;
            rules.push(format!("{ruleset} set-header {new_name} %[{}({old})] {found}", self.side.whole));
            rules.push(append(format!("{ruleset} del-header {old}"), &condition));
            near.push("of several fields of that name, one is renamed".into());
        }
        Ok((rules, near))
    }

    fn replace_request(&self, request: &Request, new: &str) -> Result {
        const STRANGE: &str = "the new request line cannot be told from the old one";
        let rest = if request.shares_group {
            // The first group is the method and the start of the path.
            new.starts_with("\\1").then_some(new).ok_or(STRANGE)?.to_owned()
        } else if request.groups_before == 1 {
            let rest = new.strip_prefix("\\1").ok_or("the method is changed")?;
            shift(rest.trim_start_matches(' '), 1).ok_or(STRANGE)?
        } else {
            let (method, rest) = new.split_once(' ').ok_or(STRANGE)?;
            if request.methods != [method] {
                return Err("the method is changed".into());
            }
            rest.to_owned()
        };
        let (path, version) = match rest.split_once(' ') {
            Some((path, version)) => (path, Some(version)),
            None => (&*rest, None),
        };
        let in_path = regex::groups(&request.uri);
        let refers_to_version =
            |text: &str| (in_path + 1..10).any(|group| text.contains(&format!("\\{group}")));
        let version_stays = match (version, request.version_groups) {
            (None, _) => true,
            (Some(version), _) if version.starts_with("HTTP/1.") => true,
            (Some(version), Some(_)) => version.len() == 2 && refers_to_version(version),
            (Some(_), None) => false,
        };
        if refers_to_version(path) || !version_stays {
            return Err(STRANGE.into());
        }
        if !path.starts_with(['/', '\\']) {
            return Err("the new request line does not begin with a path".into());
        }
        let mut terms = Vec::new();
        if !request.methods.is_empty() {
            terms.push(format!("{{ method {} }}", request.methods.join(" ")));
        }
        let condition = self.with_condition(&terms, 3)?;
        let expression = self.cased(if request.uri.is_empty() { "^.*" } else { &request.uri });
        let rule =
            format!("http-request replace-pathq {} {}", quoted(&expression), quoted(&literal_format(path)));
        Ok((
            vec![append(rule, &condition)],
            vec!["path and query are rewritten, whatever form the request's target has".into()],
        ))
    }
}

/// A replacement whose groups have numbers that are smaller by `by`; `None` if it uses one of those that are gone.
fn shift(text: &str, by: usize) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        out.push(c);
        if c != '\\' {
            continue;
        }
        match rest.next() {
            Some(digit @ '1'..='9') => {
                let group = digit.to_digit(10)? as usize;
                out.push_str(&group.checked_sub(by).filter(|group| *group > 0)?.to_string());
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    Some(out)
}
