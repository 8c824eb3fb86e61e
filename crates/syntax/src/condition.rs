//! The expressions of `.if` and `-cc` (configuration manual, section 2.4).
//!
//! ```text
//! expression = all { "||" all }
//! all        = term { "&&" term }
//! term       = { "!" } ( "(" expression ")" | integer | predicate [ "(" arguments ")" ] )
//! ```
//!
//! The whole text is parsed before anything is evaluated; evaluation stops as soon as the result is known, so
//! that `feature(X) && enabled(Y)` never asks about Y without X.

use std::collections::BTreeSet;

use crate::arguments::{Argument, ArgumentError, split_arguments};
use crate::environment::Environment;
use crate::version::{OpensslVersion, Version};

/// What the program knows about itself, as the predicates ask for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The version compared by `version_atleast()` and `version_before()`, as `-v` shows it.
    pub version: String,
    /// The features shown with a `+` by `-vv`, for `feature()`.
    pub features: BTreeSet<String>,
    /// The options that are on, for `enabled()`. Reading a configuration may change them (`noepoll`, `nosplice`).
    pub enabled: BTreeSet<String>,
    /// The name and version of the TLS library, such as `OpenSSL 3.5.0 8 Apr 2025`.
    pub tls_library: Option<String>,
    /// The version of OpenSSL, or the one the TLS library says it is compatible with, such as `3.5.0`.
    pub openssl_version: Option<String>,
    /// The API number of AWS-LC, when it is the TLS library.
    pub awslc_api: Option<u32>,
    /// Whether the TLS library is in FIPS mode.
    pub fips_mode: bool,
}

/// Why a condition has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError {
    /// The cause, in the words of the reference.
    pub message: String,
    /// Where in the text of the condition, as a byte offset.
    pub at: usize,
}

/// The words `enabled()` knows, for messages.
pub const ENABLED_WORDS: [&str; 9] = [
    "POLL",
    "EPOLL",
    "KQUEUE",
    "EVPORTS",
    "SPLICE",
    "GETADDRINFO",
    "REUSEPORT",
    "FAST-FORWARD",
    "SERVER-SSL-VERIFY-NONE",
];

/// Parentheses may be nested this deep; the parser calls itself once per level.
const NESTING_MAX: usize = 256;

/// Evaluates a condition. An empty one is false.
pub fn evaluate_condition(
    text: &[u8],
    facts: &Facts,
    environment: &Environment,
) -> Result<bool, ConditionError> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    parser.skip_blanks();
    if parser.at == text.len() {
        return Ok(false);
    }
    let expression = parser.any()?;
    parser.skip_blanks();
    if parser.at < text.len() {
        let message = format!(
            "unexpected character '{}' at the end of conditional expression '{}'",
            text[parser.at..].utf8_chunks().next().map_or("?".into(), first_character),
            String::from_utf8_lossy(text)
        );
        return Err(ConditionError { message, at: parser.at });
    }
    expression.evaluate(facts, environment)
}

fn first_character(chunk: std::str::Utf8Chunk<'_>) -> String {
    chunk.valid().chars().next().unwrap_or('\u{fffd}').to_string()
}

enum Expression {
    Any(Vec<Expression>),
    All(Vec<Expression>),
    Not(Box<Expression>),
    Constant(bool),
    Predicate { predicate: Predicate, arguments: Vec<Argument>, at: usize },
}

#[derive(Clone, Copy)]
enum Predicate {
    Defined,
    Feature,
    Streq,
    Strneq,
    Strstr,
    VersionAtleast,
    VersionBefore,
    OpensslVersionAtleast,
    OpensslVersionBefore,
    SsllibNameStartswith,
    AwslcApiAtleast,
    AwslcApiBefore,
    Enabled,
    FipsMode,
}

/// Name, number of arguments.
const PREDICATES: [(&str, usize, Predicate); 14] = [
    ("awslc_api_atleast", 1, Predicate::AwslcApiAtleast),
    ("awslc_api_before", 1, Predicate::AwslcApiBefore),
    ("defined", 1, Predicate::Defined),
    ("enabled", 1, Predicate::Enabled),
    ("feature", 1, Predicate::Feature),
    ("fips_mode", 0, Predicate::FipsMode),
    ("openssl_version_atleast", 1, Predicate::OpensslVersionAtleast),
    ("openssl_version_before", 1, Predicate::OpensslVersionBefore),
    ("ssllib_name_startswith", 1, Predicate::SsllibNameStartswith),
    ("streq", 2, Predicate::Streq),
    ("strneq", 2, Predicate::Strneq),
    ("strstr", 2, Predicate::Strstr),
    ("version_atleast", 1, Predicate::VersionAtleast),
    ("version_before", 1, Predicate::VersionBefore),
];

/// The predicate a mistyped condition probably meant.
pub(crate) fn near_predicate(text: &str) -> Option<&'static str> {
    let name: String = text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    crate::suggest::did_you_mean(&name, PREDICATES.iter().map(|(name, _, _)| *name))
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn skip_blanks(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    fn rest(&self) -> &[u8] {
        &self.text[self.at..]
    }

    fn unparsable(&self, from: usize) -> ConditionError {
        let message =
            format!("unparsable conditional expression '{}'", String::from_utf8_lossy(&self.text[from..]));
        ConditionError { message, at: from }
    }

    fn any(&mut self) -> Result<Expression, ConditionError> {
        let start = self.at;
        let mut terms = vec![self.all()?];
        loop {
            self.skip_blanks();
            if !self.rest().starts_with(b"||") {
                break;
            }
            self.at += 2;
            self.skip_blanks();
            if self.at == self.text.len() {
                return Err(self.unparsable(start));
            }
            terms.push(self.all()?);
        }
        Ok(if terms.len() == 1 { terms.remove(0) } else { Expression::Any(terms) })
    }

    fn all(&mut self) -> Result<Expression, ConditionError> {
        let mut terms = vec![self.term()?];
        loop {
            self.skip_blanks();
            let operator = self.at;
            if !self.rest().starts_with(b"&&") {
                break;
            }
            self.at += 2;
            self.skip_blanks();
            if self.at == self.text.len() {
                return Err(self.unparsable(operator));
            }
            terms.push(self.term()?);
        }
        Ok(if terms.len() == 1 { terms.remove(0) } else { Expression::All(terms) })
    }

    fn term(&mut self) -> Result<Expression, ConditionError> {
        let start = self.at;
        let mut negated = false;
        loop {
            self.skip_blanks();
            if self.text.get(self.at) != Some(&b'!') {
                break;
            }
            negated = !negated;
            self.at += 1;
        }
        if self.at == self.text.len() {
            return Err(self.unparsable(start));
        }
        let term = self.unsigned_term()?;
        Ok(if negated { Expression::Not(Box::new(term)) } else { term })
    }

    fn unsigned_term(&mut self) -> Result<Expression, ConditionError> {
        let start = self.at;
        if self.text.get(self.at) == Some(&b'(') {
            if self.depth == NESTING_MAX {
                let message = format!("too many nested parentheses (limit is {NESTING_MAX})");
                return Err(ConditionError { message, at: start });
            }
            self.at += 1;
            self.skip_blanks();
            if self.at == self.text.len() {
                return Err(self.unparsable(start));
            }
            self.depth += 1;
            let inner = self.any()?;
            self.depth -= 1;
            self.skip_blanks();
            if self.text.get(self.at) != Some(&b')') {
                let text = String::from_utf8_lossy(&self.text[start..]);
                let message = format!("expected ')' after conditional expression '{text}'");
                return Err(ConditionError { message, at: start });
            }
            self.at += 1;
            return Ok(inner);
        }
        if let Some(value) = self.integer() {
            return Ok(Expression::Constant(value));
        }
        let length = self
            .rest()
            .iter()
            .position(|b| !(b.is_ascii_alphanumeric() || *b == b'_'))
            .unwrap_or(self.text.len() - self.at);
        let name = &self.text[start..start + length];
        let Some(&(name, count, predicate)) = PREDICATES.iter().find(|(n, _, _)| n.as_bytes() == name) else {
            return Err(self.unparsable(start));
        };
        self.at += length;
        let arguments = self.arguments(name, count)?;
        Ok(Expression::Predicate { predicate, arguments, at: start })
    }

    /// Whether an integer that stands here is not zero. Written as in C: decimal, octal after `0`, hexadecimal
    /// after `0x`.
    fn integer(&mut self) -> Option<bool> {
        let rest = self.rest();
        let sign = usize::from(matches!(rest.first(), Some(b'+' | b'-')));
        let digits = &rest[sign..];
        let (skip, radix) = match digits {
            [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (2, 16),
            [b'0', ..] => (0, 8),
            _ => (0, 10),
        };
        let is_digit = |b: &&u8| char::from(**b).is_digit(radix);
        let length = digits[skip..].iter().take_while(is_digit).count();
        if length == 0 {
            return None;
        }
        let value = digits[skip..skip + length].iter().any(|b| *b != b'0');
        self.at += sign + skip + length;
        Some(value)
    }

    fn arguments(&mut self, name: &str, count: usize) -> Result<Vec<Argument>, ConditionError> {
        let context = |number: usize| {
            format!("in argument {number} of predicate '{name}' used in conditional expression")
        };
        let mut arguments = Vec::new();
        if self.text.get(self.at) == Some(&b'(') {
            let open = self.at;
            let list = split_arguments(&self.text[open + 1..]).map_err(|error| match error {
                ArgumentError::UnmatchedQuote { at, argument } => ConditionError {
                    message: format!("unmatched quote {}", context(argument)),
                    at: open + 1 + at,
                },
                ArgumentError::MissingParenthesis { argument, .. } => ConditionError {
                    message: format!("expected ')' {}", context(argument.min(count))),
                    at: self.text.len(),
                },
            })?;
            if list.arguments.len() > count {
                // The comma before the first argument too many, or that argument itself when none is wanted.
                let extra = open + 1 + list.arguments[count].range.start;
                let at = if count == 0 { extra } else { extra - 1 };
                let text = String::from_utf8_lossy(&self.text[at..]);
                let message = format!("expected ')' before '{text}' {}", context(count));
                return Err(ConditionError { message, at });
            }
            self.at = open + 1 + list.end;
            arguments = list.arguments;
        }
        if count == 2 && arguments.len() < 2 {
            let message = format!("missing arguments (got 1/2), type 'string' expected {}", context(1));
            return Err(ConditionError { message, at: self.at });
        }
        arguments.resize(count, Argument::default());
        Ok(arguments)
    }
}

impl Expression {
    fn evaluate(&self, facts: &Facts, environment: &Environment) -> Result<bool, ConditionError> {
        match self {
            Expression::Constant(value) => Ok(*value),
            Expression::Not(inner) => Ok(!inner.evaluate(facts, environment)?),
            Expression::Any(terms) => {
                for term in terms {
                    if term.evaluate(facts, environment)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Expression::All(terms) => {
                for term in terms {
                    if !term.evaluate(facts, environment)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Expression::Predicate { predicate, arguments, at } => {
                let argument = |i: usize| arguments.get(i).map_or(&[][..], |a| &a.text);
                predicate.evaluate(argument(0), argument(1), facts, environment).ok_or_else(|| {
                    let name = PREDICATES.iter().find(|p| p.2 as u8 == *predicate as u8).map_or("", |p| p.0);
                    let text = String::from_utf8_lossy(argument(0));
                    let message =
                        format!("invalid argument to conditional expression predicate '{name}': '{text}'");
                    ConditionError { message, at: *at }
                })
            }
        }
    }
}

impl Predicate {
    /// `None` when the argument makes no sense.
    fn evaluate(self, a: &[u8], b: &[u8], facts: &Facts, environment: &Environment) -> Option<bool> {
        let text = String::from_utf8_lossy(a);
        let version = || Version::parse(&facts.version).cmp(&Version::parse(&text));
        // Without a TLS library there is no version to compare: neither "at least" nor "before" holds, but a
        // malformed argument is still reported.
        let openssl = || {
            let wanted = OpensslVersion::parse(&text)?;
            let known = facts.openssl_version.as_deref().and_then(OpensslVersion::parse);
            Some(known.map(|known| known.cmp(&wanted)))
        };
        let awslc = || Some(facts.awslc_api?.cmp(&text.parse().ok()?));
        Some(match self {
            Predicate::Defined => environment.get(a).is_some(),
            Predicate::Feature => facts.features.contains(text.as_ref()),
            Predicate::Enabled => facts.enabled.contains(text.as_ref()),
            Predicate::Streq => a == b,
            Predicate::Strneq => a != b,
            Predicate::Strstr => memchr::memmem::find(a, b).is_some(),
            Predicate::VersionAtleast => version().is_ge(),
            Predicate::VersionBefore => version().is_lt(),
            Predicate::OpensslVersionAtleast => openssl()?.is_some_and(|o| o.is_ge()),
            Predicate::OpensslVersionBefore => openssl()?.is_some_and(|o| o.is_lt()),
            Predicate::SsllibNameStartswith => {
                facts.tls_library.as_deref().is_some_and(|name| name.as_bytes().starts_with(a))
            }
            Predicate::AwslcApiAtleast => awslc()?.is_ge(),
            Predicate::AwslcApiBefore => awslc()?.is_lt(),
            Predicate::FipsMode => facts.fips_mode,
        })
    }
}
