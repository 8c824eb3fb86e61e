//! Regular expressions that were matched against whole lines of a message, taken apart.
//!
//! Up to 2.0 `reqrep` and its kin saw `Name: value` and `GET /path HTTP/1.1` as lines of text. Today's rules have the
//! name, the value, the method and the path each for itself, so an expression is only as good as the part of it that
//! can be told which of these it is about. What cannot be told is not guessed.

/// What an expression is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// A header field.
    Field(Field),
    /// The request line.
    Request(Request),
}

/// An expression on a header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The names that match; several, if they were alternatives.
    pub names: Vec<String>,
    /// The expression on the value, from its first byte; empty if any value does.
    pub value: String,
    /// What groups there were around the name.
    pub group: NameGroup,
    /// There was no colon: every name that begins so matches.
    pub is_prefix: bool,
    /// It began without `^`, and could have matched within a line as well.
    pub anywhere: bool,
}

/// A group that has to do with the name of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameGroup {
    /// None.
    None,
    /// The first group is the name: `^(Host):`.
    Name,
    /// The first group begins before the name, and goes on: `^(Host:.*)`. It is kept, without the name.
    Line,
}

/// An expression on the request line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The methods it names; empty for all.
    pub methods: Vec<String>,
    /// The number of groups around the method, which the others are counted after.
    pub groups_before: usize,
    /// The first group begins with the method and goes on into the path. It is kept, without the method.
    pub shares_group: bool,
    /// The expression on path and query, from the first byte; empty if all do.
    pub uri: String,
    /// The groups in what was matched after the path, if that was told from it.
    pub version_groups: Option<usize>,
}

/// Takes an expression apart; an error says what cannot be told.
pub fn parse(regex: &str) -> Result<About, String> {
    if has_back_reference(regex) {
        return Err("it refers back to its own groups".into());
    }
    if let Some(field) = field(regex) {
        return Ok(About::Field(field));
    }
    request(regex).map(About::Request)
}

fn has_back_reference(regex: &str) -> bool {
    let bytes = regex.as_bytes();
    let mut at = 0;
    while at + 1 < bytes.len() {
        if bytes[at] == b'\\' {
            if bytes[at + 1].is_ascii_digit() && bytes[at + 1] != b'0' {
                return true;
            }
            at += 1;
        }
        at += 1;
    }
    false
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// The name at the start of a text, where dashes may be escaped, and what follows.
fn name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let plain = rest.strip_prefix("\\-").map(|after| ('-', after));
        let next = plain.or_else(|| {
            let c = rest.chars().next().filter(|c| is_name(*c))?;
            Some((c, &rest[c.len_utf8()..]))
        });
        let Some((c, after)) = next else { break };
        name.push(c);
        rest = after;
    }
    // A quantifier would be about the last letter.
    if rest.starts_with(['*', '+', '?', '{']) { (String::new(), text) } else { (name, rest) }
}

fn field(regex: &str) -> Option<Field> {
    let (anywhere, rest) = match regex.strip_prefix('^') {
        Some(rest) => (false, rest),
        None => (true, regex),
    };
    if let Some(inner) =
        rest.strip_prefix("(?:").map(|i| (i, 3)).or_else(|| rest.strip_prefix('(').map(|i| (i, 1)))
    {
        let captures = inner.1 == 1;
        let close = group_end(rest)?;
        let content = &rest[inner.1..close];
        let after = &rest[close + 1..];
        let names: Vec<String> =
            content.split('|').map(name).filter(|(_, rest)| rest.is_empty()).map(|(n, _)| n).collect();
        if names.len() == content.split('|').count() && names.iter().all(|n| !n.is_empty()) {
            let after = after.strip_prefix(':')?;
            let group = if captures { NameGroup::Name } else { NameGroup::None };
            return Some(Field { names, value: value(after), group, is_prefix: false, anywhere });
        }
        if captures {
            let (first, tail) = name(content);
            let tail = tail.strip_prefix(':').filter(|_| !first.is_empty())?;
            // The group goes on with the value.
            let value = format!("^({}){after}", without_blanks(tail));
            return Some(Field {
                names: vec![first],
                value,
                group: NameGroup::Line,
                is_prefix: false,
                anywhere,
            });
        }
        return None;
    }
    let (first, tail) = name(rest);
    if first.is_empty() {
        return None;
    }
    let names = vec![first];
    let group = NameGroup::None;
    if let Some(tail) = tail.strip_prefix(':') {
        return Some(Field { names, value: value(tail), group, is_prefix: false, anywhere });
    }
    // `^X-Foo` and `^X-Foo.*`; but `^GET /` is no field.
    let is_prefix = matches!(tail, "" | ".*" | ".*$" | ".*:" | ".*:.*");
    (is_prefix && !anywhere && names[0].bytes().any(|b| b.is_ascii_lowercase() || b == b'-')).then(|| Field {
        names,
        value: String::new(),
        group,
        is_prefix,
        anywhere,
    })
}

/// The expression on a value: without the blanks that stand before it on its line.
fn value(after_colon: &str) -> String {
    let rest = without_blanks(after_colon);
    if matches!(rest, "" | ".*" | ".*$" | "$") {
        return String::new();
    }
    format!("^{rest}")
}

/// Ways to say "blanks".
const BLANKS: [&str; 8] = ["[[:space:]]", "[[:blank:]]", "[ \\t]", "[ \t]", "[ ]", "\\s", "\\t", " "];

fn without_blanks(mut text: &str) -> &str {
    while let Some(rest) = BLANKS.iter().find_map(|blank| text.strip_prefix(blank)) {
        text = rest.strip_prefix(['*', '+', '?']).unwrap_or(rest);
    }
    text
}

/// The parentheses of an expression that are none of its letters, with where they are.
fn parentheses(text: &str) -> impl Iterator<Item = (usize, u8)> + '_ {
    let bytes = text.as_bytes();
    let (mut next, mut class) = (0usize, false);
    std::iter::from_fn(move || {
        while let Some(&byte) = bytes.get(next) {
            let at = next;
            match byte {
                b'\\' => next += 1,
                b'[' if !class => {
                    class = true;
                    // A bracket that comes first is one of the letters.
                    next += usize::from(bytes.get(next + 1) == Some(&b'^'));
                    next += usize::from(bytes.get(next + 1) == Some(&b']'));
                }
                b']' if class => class = false,
                _ => {}
            }
            next += 1;
            if !class && matches!(byte, b'(' | b')') {
                return Some((at, byte));
            }
        }
        None
    })
}

/// Where the group that begins here ends.
fn group_end(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in parentheses(text) {
        match byte {
            b'(' => depth += 1,
            _ => depth -= 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The number of groups that capture.
pub fn groups(regex: &str) -> usize {
    let opens = parentheses(regex).filter(|(_, byte)| *byte == b'(');
    opens.filter(|(at, _)| regex.as_bytes().get(at + 1) != Some(&b'?')).count()
}

/// Ways to say "any method".
const ANY_METHOD: [&str; 24] = [
    "[^ :]*",
    "[^ :]+",
    "[^ ]*",
    "[^ ]+",
    "[^: ]*",
    "[^: ]+",
    "[A-Z]*",
    "[A-Z]+",
    "[a-zA-Z]*",
    "[a-zA-Z]+",
    "[A-Za-z]*",
    "[A-Za-z]+",
    "[^\\s]*",
    "[^\\s]+",
    "\\w*",
    "\\w+",
    "\\S*",
    "\\S+",
    ".*?",
    ".+?",
    ".*",
    ".+",
    "[a-z]*",
    "[a-z]+",
];

fn methods(text: &str) -> Option<Vec<String>> {
    let all: Vec<String> = text.split('|').map(str::to_owned).collect();
    all.iter().all(|m| !m.is_empty() && m.bytes().all(|b| b.is_ascii_uppercase())).then_some(all)
}

/// What says which method, and what follows it.
fn method(text: &str) -> Option<(Vec<String>, &str)> {
    if let Some(rest) = ANY_METHOD.iter().find_map(|any| text.strip_prefix(any)) {
        return Some((Vec::new(), rest));
    }
    let length = text.find(|c: char| !c.is_ascii_uppercase() && c != '|').unwrap_or(text.len());
    Some((methods(&text[..length])?, &text[length..]))
}

/// What follows the blank between method and path.
fn after_blank(text: &str) -> Option<&str> {
    let rest = without_blanks(text);
    (rest.len() < text.len()).then_some(rest)
}

fn request(regex: &str) -> Result<Request, String> {
    const UNKNOWN: &str = "it cannot be told which part of the message it is about";
    let rest = regex.strip_prefix('^').ok_or(UNKNOWN)?;
    let (methods, groups_before, shares_group, rest) = if rest.starts_with('(') {
        let close = group_end(rest).ok_or("a group in it has no end")?;
        let (skip, captures) = if rest.starts_with("(?:") { (3, 0) } else { (1, 1) };
        let content = &rest[skip..close];
        let after = &rest[close + 1..];
        match content.split('|').all(|m| !m.is_empty() && m.bytes().all(|b| b.is_ascii_uppercase())) {
            true => (
                methods(content).ok_or(UNKNOWN)?,
                captures,
                false,
                after_blank(after).ok_or(UNKNOWN)?.to_owned(),
            ),
            false => {
                let (methods, inner) = method(content).ok_or(UNKNOWN)?;
                match (inner, after_blank(inner)) {
                    ("", _) => (methods, captures, false, after_blank(after).ok_or(UNKNOWN)?.to_owned()),
                    (_, Some("")) => (methods, captures, false, after.to_owned()),
                    // The group goes on with the path.
                    (_, Some(path)) if captures == 1 => (methods, 0, true, format!("({path}){after}")),
                    _ => return Err(UNKNOWN.into()),
                }
            }
        }
    } else {
        let (methods, rest) = method(rest).ok_or(UNKNOWN)?;
        (methods, 0, false, after_blank(rest).ok_or(UNKNOWN)?.to_owned())
    };
    let (uri, version_groups) = without_version(&rest);
    let uri = if matches!(uri, "" | ".*" | ".*$") { String::new() } else { format!("^{uri}") };
    Ok(Request { methods, groups_before, shares_group, uri, version_groups })
}

/// Parts the path from the version.
fn without_version(rest: &str) -> (&str, Option<usize>) {
    let Some(blank) = rest.rfind(' ') else { return (rest, None) };
    let version = &rest[blank + 1..];
    let is_version = version.starts_with("HTTP")
        || version.starts_with("(HTTP")
        || matches!(version, "(.*)" | ".*" | "(.*)$" | ".*$" | "([^ ]*)" | "(.+)");
    // Not within a class such as `[^ ]`.
    let open = rest[..blank].rfind('[').is_some_and(|at| !rest[at..blank].contains(']'));
    if !is_version || open {
        return (rest, None);
    }
    (&rest[..blank], Some(groups(version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_of(regex: &str) -> (String, String, NameGroup, bool) {
        match parse(regex) {
            Ok(About::Field(f)) => (f.names.join("|"), f.value, f.group, f.is_prefix),
            other => panic!("{regex}: {other:?}"),
        }
    }

    #[test]
    fn fields_are_told_from_their_values() {
        let check = |regex: &str, names: &str, value: &str, group: NameGroup| {
            assert_eq!(field_of(regex), (names.into(), value.into(), group, false), "{regex}");
        };
        check("^Host: (.*)\\.old", "Host", "^(.*)\\.old", NameGroup::None);
        check("^X\\-A:\\s*b", "X-A", "^b", NameGroup::None);
        check("^Server:.*", "Server", "", NameGroup::None);
        check("^Server:", "Server", "", NameGroup::None);
        check("^(Server|X-Powered-By):.*", "Server|X-Powered-By", "", NameGroup::Name);
        check("^(Set-Cookie:.*)", "Set-Cookie", "^(.*)", NameGroup::Line);
        check("^(Location: )http(.*)", "Location", "^()http(.*)", NameGroup::Line);
        check("^Cookie:.*(a|b)", "Cookie", "^.*(a|b)", NameGroup::None);
        assert!(field_of("^X-Foo.*").3);
    }

    #[test]
    fn requests_are_told_from_fields() {
        let check =
            |regex: &str, methods: &str, before: usize, uri: &str, version: Option<usize>| match parse(regex)
            {
                Ok(About::Request(r)) => assert_eq!(
                    (r.methods.join("|").as_str(), r.groups_before, r.uri.as_str(), r.version_groups),
                    (methods, before, uri, version),
                    "{regex}"
                ),
                other => panic!("{regex}: {other:?}"),
            };
        check("^([^ :]*) /static/(.*)", "", 1, "^/static/(.*)", None);
        check("^(GET|POST) /a (.*)", "GET|POST", 1, "^/a", Some(1));
        check("^GET /a HTTP/1.[01]", "GET", 0, "^/a", Some(0));
        check("^([^ ]* )/x(.*)", "", 1, "^/x(.*)", None);
        check("^([^ ]* /)x/(.*)", "", 0, "^(/)x/(.*)", None);
        check("^[^: ]* .*(\\.|%2e)x", "", 0, "^.*(\\.|%2e)x", None);
        assert!(parse("foo.*bar").is_err());
        assert!(parse("^.*foo").is_err());
        assert!(parse("^(a)\\1").is_err());
    }
}
