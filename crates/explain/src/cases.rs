//! Tests of a configuration: requests, and what is expected of them.
//!
//! The file is TOML, of which this reads what such files need: `[[test]]`, and below it keys with a string, a number, or
//! an array of strings, each on one line.

use crate::{Answer, Ask, Explanation, Protocol, Url};

/// One test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The line it begins on.
    pub line: usize,
    /// What messages call it.
    pub name: String,
    /// The request.
    pub ask: Ask,
    /// What is expected.
    pub expected: Vec<Expected>,
}

/// One thing that is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    Status(u16),
    Frontend(String),
    /// `none` for no backend.
    Backend(String),
    /// `backend/server` or `server`; `none` for no server.
    Server(String),
    /// A field of the answer: `name: value`; `!name` for none of that name.
    Answer(String),
    /// A field of the request that the server got, in the same form.
    Sent(String),
    /// The target of that request.
    Target(String),
    /// Text that is in the answer's body.
    Body(String),
    /// No answer at all.
    Closed,
}

/// How a test went: what was not as expected.
pub type Outcome = Vec<String>;

enum Setting {
    Text(String),
    Number(i64),
    Flag(bool),
    List(Vec<String>),
}

/// Reads a file of tests.
///
/// # Errors
/// What is wrong, with its line.
pub fn parse(text: &str) -> Result<Vec<Case>, String> {
    let mut cases: Vec<Draft> = Vec::new();
    for (number, line) in text.lines().enumerate().map(|(n, line)| (n + 1, line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line == "[[test]]" {
            cases.push(Draft::new(number));
            continue;
        }
        let at = |what: String| format!("line {number}: {what}");
        let (key, value) = line
            .split_once('=')
            .ok_or_else(|| at(format!("'{line}' is neither '[[test]]' nor 'key = value'")))?;
        let case = cases.last_mut().ok_or_else(|| at("'[[test]]' must come first".into()))?;
        let value = setting(value.trim()).map_err(at)?;
        case.set(key.trim(), value).map_err(at)?;
    }
    cases.into_iter().map(Draft::finish).collect()
}

fn setting(text: &str) -> Result<Setting, String> {
    let (value, rest) = match text.chars().next() {
        Some('"' | '\'') => {
            let (value, rest) = quoted(text)?;
            (Setting::Text(value), rest)
        }
        Some('[') => {
            let mut rest = text[1..].trim_start();
            let mut list = Vec::new();
            while !rest.starts_with(']') {
                let (value, after) = quoted(rest)?;
                list.push(value);
                rest = after.trim_start();
                rest = match rest.strip_prefix(',') {
                    Some(after) => after.trim_start(),
                    None if rest.starts_with(']') => rest,
                    None => return Err("an array on one line ends with ']'".into()),
                };
            }
            (Setting::List(list), &rest[1..])
        }
        _ => {
            let end = text.find([' ', '\t', '#']).unwrap_or(text.len());
            let value = match &text[..end] {
                "true" => Setting::Flag(true),
                "false" => Setting::Flag(false),
                word => Setting::Number(word.parse().map_err(|_| format!("'{word}' is no value"))?),
            };
            (value, &text[end..])
        }
    };
    match rest.trim_start() {
        "" => Ok(value),
        comment if comment.starts_with('#') => Ok(value),
        other => Err(format!("'{other}' follows the value")),
    }
}

/// A string of TOML, and what follows it.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut chars = text.char_indices();
    let quote = match chars.next() {
        Some((_, quote @ ('"' | '\''))) => quote,
        _ => return Err("a string stands between quotes".into()),
    };
    let mut value = String::new();
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Ok((value, &text[at + 1..])),
            '\\' if quote == '"' => match chars.next().map(|(_, c)| c) {
                Some('n') => value.push('\n'),
                Some('r') => value.push('\r'),
                Some('t') => value.push('\t'),
                Some(c @ ('"' | '\\')) => value.push(c),
                other => return Err(format!("'\\{}' is not known in a string", other.unwrap_or(' '))),
            },
            c => value.push(c),
        }
    }
    Err("a string has no closing quote".into())
}

struct Draft {
    line: usize,
    name: Option<String>,
    method: String,
    url: Option<String>,
    fields: Vec<(String, String)>,
    body: String,
    from: String,
    to: Option<String>,
    protocol: Option<Protocol>,
    answer: Answer,
    expected: Vec<Expected>,
}

/// `name: value`
pub(crate) fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or_else(|| format!("'{text}' is not 'name: value'"))?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || text.contains(['\r', '\n']) {
        return Err(format!("'{text}' is not 'name: value'"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

impl Draft {
    fn new(line: usize) -> Draft {
        Draft {
            line,
            name: None,
            method: "GET".into(),
            url: None,
            fields: Vec::new(),
            body: String::new(),
            from: "127.0.0.1".into(),
            to: None,
            protocol: None,
            answer: Answer::default(),
            expected: Vec::new(),
        }
    }

    fn set(&mut self, key: &str, value: Setting) -> Result<(), String> {
        let fields = |list: Vec<String>| list.iter().map(|text| field(text)).collect::<Result<Vec<_>, _>>();
        match (key, value) {
            ("name", Setting::Text(text)) => self.name = Some(text),
            ("request", Setting::Text(text)) => {
                let (method, url) = text.split_once(' ').ok_or("a request is a method and a URL")?;
                self.method = method.to_owned();
                self.url = Some(url.trim().to_owned());
            }
            ("headers", Setting::List(list)) => self.fields = fields(list)?,
            ("body", Setting::Text(text)) => self.body = text,
            ("from", Setting::Text(text)) => self.from = text,
            ("to", Setting::Text(text)) => self.to = Some(text),
            ("http", Setting::Number(version)) => self.protocol = Some(Protocol::of_version(version)?),
            ("answer_status", Setting::Number(status)) => {
                let status = u16::try_from(status).ok().filter(|status| (200..600).contains(status));
                self.answer.status = status.ok_or("a server's status is from 200 to 599")?;
            }
            ("answer_headers", Setting::List(list)) => self.answer.fields = fields(list)?,
            ("answer_body", Setting::Text(text)) => self.answer.body = text.into_bytes(),
            ("expect_status", Setting::Number(status)) => {
                let status = u16::try_from(status).map_err(|_| format!("{status} is not a status"))?;
                self.expected.push(Expected::Status(status));
            }
            ("expect_frontend", Setting::Text(name)) => self.expected.push(Expected::Frontend(name)),
            ("expect_backend", Setting::Text(name)) => self.expected.push(Expected::Backend(name)),
            ("expect_server", Setting::Text(name)) => self.expected.push(Expected::Server(name)),
            ("expect_headers", Setting::List(list)) => {
                self.expected.extend(list.into_iter().map(Expected::Answer));
            }
            ("expect_sent_headers", Setting::List(list)) => {
                self.expected.extend(list.into_iter().map(Expected::Sent));
            }
            ("expect_sent_target", Setting::Text(target)) => self.expected.push(Expected::Target(target)),
            ("expect_body", Setting::Text(text)) => self.expected.push(Expected::Body(text)),
            ("expect_closed", Setting::Flag(true)) => self.expected.push(Expected::Closed),
            (key, _) => {
                let known = "name, request, headers, body, from, to, http, answer_status, answer_headers, answer_body, \
                             expect_status, expect_frontend, expect_backend, expect_server, expect_headers, \
                             expect_sent_headers, expect_sent_target, expect_body, expect_closed";
                return Err(format!(
                    "'{key}' is not known, or has a value of another kind; there are {known}"
                ));
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Case, String> {
        let at = |what: String| format!("line {}: {what}", self.line);
        let url = self.url.ok_or_else(|| at("the test has no 'request'".into()))?;
        if self.expected.is_empty() {
            return Err(at("the test expects nothing".into()));
        }
        Ok(Case {
            line: self.line,
            name: self.name.unwrap_or_else(|| format!("{} {url}", self.method)),
            expected: self.expected,
            ask: Ask {
                method: self.method,
                url: Url::parse(&url).map_err(&at)?,
                fields: self.fields,
                body: self.body.into_bytes(),
                from: self.from.parse().map_err(|_| at(format!("'{}' is not an address", self.from)))?,
                to: self.to,
                protocol: self.protocol,
                answer: self.answer,
            },
        })
    }
}

impl Case {
    /// What is not as expected.
    pub fn check(&self, explanation: &Explanation) -> Outcome {
        self.expected.iter().filter_map(|expected| expected.check(explanation)).collect()
    }
}

impl Expected {
    fn check(&self, explanation: &Explanation) -> Option<String> {
        let received = explanation.received.as_ref();
        let differs = |what: &str, wanted: &str, found: &str| {
            (wanted != found).then(|| format!("{what} is '{found}', not '{wanted}'"))
        };
        let or_none = |text: Option<&str>| text.unwrap_or("none").to_owned();
        match self {
            Expected::Status(status) => {
                let found = received.and_then(|message| message.status());
                let found = found.map_or_else(|| "none".to_owned(), |status| status.to_string());
                differs("the status", &status.to_string(), &found)
            }
            Expected::Frontend(name) => differs("the frontend", name, &explanation.frontend),
            Expected::Backend(name) => {
                let found = explanation.backends.join(", ");
                differs("the backend", name, if found.is_empty() { "none" } else { &found })
            }
            Expected::Server(name) => {
                let found = or_none(explanation.servers.last().map(|(name, _)| name.as_str()));
                let short = found.rsplit_once('/').map_or(&*found, |(_, server)| server);
                differs("the server", name, if name.contains('/') { &found } else { short })
            }
            Expected::Answer(text) => field_differs("the answer", text, received),
            Expected::Sent(text) => {
                field_differs("the request to the server", text, explanation.sent.as_ref())
            }
            Expected::Target(target) => {
                let found = explanation.sent.as_ref().and_then(|sent| sent.line.split(' ').nth(1));
                differs("the target that was sent", target, &or_none(found))
            }
            Expected::Body(text) => {
                let found =
                    received.map_or_else(String::new, |m| String::from_utf8_lossy(&m.body).into_owned());
                (!found.contains(text)).then(|| format!("the body '{found}' does not have '{text}'"))
            }
            Expected::Closed => received.map(|message| format!("there is an answer, '{}'", message.line)),
        }
    }
}

fn field_differs(what: &str, text: &str, message: Option<&crate::Message>) -> Option<String> {
    let Some(message) = message else { return Some(format!("{what} is missing")) };
    if let Some(name) = text.strip_prefix('!') {
        return message.field(name.trim()).map(|value| format!("{what} has '{name}: {value}'"));
    }
    let (name, wanted) = match field(text) {
        Ok(field) => field,
        Err(error) => return Some(error),
    };
    match message.field(&name) {
        None => Some(format!("{what} has no '{name}'")),
        Some(found) if found != wanted => {
            Some(format!("{what} has '{name}: {found}', not '{name}: {wanted}'"))
        }
        Some(_) => None,
    }
}
