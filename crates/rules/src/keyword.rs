//! The keyword entry of an action, the table of all actions, and the words an action is parsed from.

use crate::action::{self, Action};
use crate::ruleset::Kind;
use thalweg_sample::{CompileEnv, TableId};
use thalweg_stick::Spec;
use thalweg_syntax::did_you_mean;

/// A set of [`Kind`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rulesets(u8);

impl Rulesets {
    /// `tcp-request connection`.
    pub const TCP_CONNECTION: Rulesets = Rulesets(1);
    /// `tcp-request session`.
    pub const TCP_SESSION: Rulesets = Rulesets(2);
    /// `tcp-request content`.
    pub const TCP_REQUEST: Rulesets = Rulesets(4);
    /// `tcp-response content`.
    pub const TCP_RESPONSE: Rulesets = Rulesets(8);
    /// `http-request`.
    pub const HTTP_REQUEST: Rulesets = Rulesets(16);
    /// `http-response`.
    pub const HTTP_RESPONSE: Rulesets = Rulesets(32);
    /// `http-after-response`.
    pub const HTTP_AFTER: Rulesets = Rulesets(64);
    /// All `tcp-*` rulesets.
    pub const TCP: Rulesets = Rulesets(15);
    /// All `http-*` rulesets.
    pub const HTTP: Rulesets = Rulesets(112);
    /// All rulesets.
    pub const ALL: Rulesets = Rulesets(127);
    /// `tcp-request` connection, session and content, and `http-request`.
    pub const REQUESTS: Rulesets = Rulesets(1 | 2 | 4 | 16);
    /// `tcp-request content` and `http-request`.
    pub const REQUEST_CONTENT: Rulesets = Rulesets(4 | 16);

    /// Rulesets of either.
    pub const fn or(self, other: Rulesets) -> Rulesets {
        Rulesets(self.0 | other.0)
    }

    /// Rulesets of this set that are not in `other`.
    pub const fn without(self, other: Rulesets) -> Rulesets {
        Rulesets(self.0 & !other.0)
    }

    /// True when `kind` is in the set.
    pub const fn contains(self, kind: Kind) -> bool {
        self.0 >> kind as u8 & 1 == 1
    }
}

/// How the name of an action is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// The name alone.
    Plain,
    /// The name, immediately followed by arguments in parentheses.
    Parens,
    /// A name that only begins so (`track-sc0`, `lua.x`).
    Prefix,
}

/// What an action can do.
pub(crate) enum Support {
    /// It works: this is its parser.
    Yes(Parse),
    /// It is known, but needs a part that is not there yet: which.
    No(&'static str),
}

/// Reads the arguments of an action.
pub(crate) type Parse = fn(&mut Words, &mut RuleEnv) -> Result<Action, String>;

/// Everything about one action.
pub struct ActionDef {
    /// Its name.
    pub name: &'static str,
    /// How the name is written.
    pub spelling: Spelling,
    /// The rulesets it is valid in.
    pub rulesets: Rulesets,
    /// Its arguments, in the notation of the manual.
    pub args: &'static str,
    /// What it does, in a line.
    pub doc: &'static str,
    /// True when the configuration must allow it with `expose-experimental-directives`.
    pub experimental: bool,
    pub(crate) support: Support,
}

impl ActionDef {
    pub(crate) const fn new(
        name: &'static str,
        rulesets: Rulesets,
        args: &'static str,
        doc: &'static str,
        parse: Parse,
    ) -> ActionDef {
        ActionDef {
            name,
            spelling: Spelling::Plain,
            rulesets,
            args,
            doc,
            experimental: false,
            support: Support::Yes(parse),
        }
    }

    /// The configuration must allow it.
    pub(crate) const fn experimental(mut self) -> ActionDef {
        self.experimental = true;
        self
    }

    pub(crate) const fn parens(mut self) -> ActionDef {
        self.spelling = Spelling::Parens;
        self
    }

    pub(crate) const fn missing(
        name: &'static str,
        spelling: Spelling,
        rulesets: Rulesets,
        needs: &'static str,
    ) -> ActionDef {
        ActionDef {
            name,
            spelling,
            rulesets,
            args: "",
            doc: "not supported yet",
            experimental: false,
            support: Support::No(needs),
        }
    }

    /// True when the action works.
    pub fn is_supported(&self) -> bool {
        matches!(self.support, Support::Yes(_))
    }

    /// The name as the lists of the reference show it.
    pub fn shown(&self) -> String {
        match self.spelling {
            Spelling::Plain => self.name.to_string(),
            Spelling::Parens | Spelling::Prefix => format!("{}(*)", self.name),
        }
    }

    fn is(&self, word: &str) -> bool {
        match (self.spelling, word.strip_prefix(self.name)) {
            (Spelling::Plain, Some(rest)) => rest.is_empty(),
            (Spelling::Parens, Some(rest)) => rest.is_empty() || rest.starts_with('('),
            (Spelling::Prefix, Some(_)) => true,
            (_, None) => false,
        }
    }
}

/// Every action, family by family.
pub fn all_actions() -> impl Iterator<Item = &'static ActionDef> {
    action::TABLES.iter().copied().flatten()
}

/// The action that `word` names in `kind`.
pub(crate) fn find(word: &str, kind: Kind) -> Option<&'static ActionDef> {
    all_actions().find(|def| def.rulesets.contains(kind) && def.is(word))
}

/// The message for a word that names no action of `kind`.
pub(crate) fn unknown(word: &str, kind: Kind, env: &CompileEnv) -> String {
    let names: Vec<String> = all_actions()
        .filter(|def| def.rulesets.contains(kind))
        .map(|def| format!("'{}'", def.shown()))
        .collect();
    let got = if word.is_empty() { "'' (missing argument)".to_string() } else { format!("'{word}'") };
    let mut message = if kind.is_http() {
        format!("'{}' expects {}, but got {got}.", kind.name(), names.join(", "))
    } else {
        format!("'{}' expects {} in {} (got {got}).", kind.name(), names.join(", "), section(env))
    };
    let base = word.split('(').next().unwrap_or(word);
    let here = did_you_mean(base, all_actions().filter(|d| d.rulesets.contains(kind)).map(|d| d.name));
    if let Some(hint) = here.filter(|_| !word.is_empty()) {
        message.push_str(&format!("; did you mean '{hint}' maybe ?"));
    } else if all_actions().any(|def| def.is(word)) {
        let valid: Vec<&str> = Kind::ALL
            .into_iter()
            .filter(|k| all_actions().any(|def| def.is(word) && def.rulesets.contains(*k)))
            .map(Kind::name)
            .collect();
        message.push_str(&format!(" Action '{base}' is for: {}.", valid.join(", ")));
    }
    message
}

/// What messages call the section: `frontend 'f'`.
pub(crate) fn section(env: &CompileEnv) -> String {
    let proxy = &env.proxy;
    let what = match (proxy.defaults, proxy.frontend, proxy.backend) {
        (true, _, _) => "defaults",
        (_, true, true) => "proxy",
        (_, true, false) => "frontend",
        _ => "backend",
    };
    format!("{what} '{}'", proxy.name)
}

/// The words after the name of an action.
pub(crate) struct Words<'w> {
    pub kind: Kind,
    /// The name as written, with its parentheses.
    pub name: &'w str,
    words: &'w [&'w str],
}

impl<'w> Words<'w> {
    pub fn new(kind: Kind, name: &'w str, words: &'w [&'w str]) -> Words<'w> {
        Words { kind, name, words }
    }

    /// The next word, if there is one that is not the start of the condition.
    pub fn peek(&self) -> Option<&'w str> {
        self.words.first().copied().filter(|w| !w.is_empty() && !matches!(*w, "if" | "unless"))
    }

    /// Takes that word.
    pub fn next(&mut self) -> Option<&'w str> {
        let word = self.peek()?;
        self.words = &self.words[1..];
        Some(word)
    }

    /// Takes the next word whatever it is: for values, which may be `if`.
    pub fn value(&mut self) -> Option<&'w str> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        Some(word)
    }

    /// Takes the next word if it is `word`.
    pub fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    /// What was not taken.
    pub fn rest(&self) -> &'w [&'w str] {
        self.words
    }

    /// The text between the parentheses of the name.
    pub fn inner(&self) -> Option<&'w str> {
        let open = self.name.find('(')?;
        self.name[open + 1..].strip_suffix(')')
    }
}

/// Where a rule is compiled.
pub struct RuleEnv<'r, 'e> {
    /// For expressions, conditions and formats.
    pub compile: &'r mut CompileEnv<'e>,
    /// True when `expose-experimental-directives` is set.
    pub experimental: bool,
    /// The capture slots of this proxy, which `capture ... len` adds to: the lengths in bytes.
    pub captures: &'r mut CaptureSlots,
    /// The services that `use-service` may name.
    pub services: &'r [&'r str],
    /// The tables that rules make for themselves.
    pub tables: &'r mut dyn NewTables,
}

/// Stick tables that no line declares: those of rules that need one of their own.
pub trait NewTables {
    /// Adds a table, which `spec` describes: given how many of these the proxy has already. Its number.
    fn add(&mut self, spec: &dyn Fn(usize) -> Spec) -> TableId;
}

/// The tables of one proxy that has no others.
impl NewTables for Vec<Spec> {
    fn add(&mut self, spec: &dyn Fn(usize) -> Spec) -> TableId {
        let at = self.len();
        self.push(spec(at));
        TableId(at as u32)
    }
}

/// The lengths of the capture slots of a frontend, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureSlots {
    /// Of requests.
    pub request: Vec<usize>,
    /// Of responses.
    pub response: Vec<usize>,
}
