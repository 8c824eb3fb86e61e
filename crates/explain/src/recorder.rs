//! Who watches, and what it wrote down.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use thalweg_sample::Ctx;
use thalweg_sample::acl::Verdict;
use thalweg_sample::vars::VarValue;
use thalweg_sample::watch::Watch;

/// Something that was evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// `http-request`, `use_backend` and the like.
    pub ruleset: String,
    /// The action, or what a routing rule names.
    pub action: String,
    pub file: String,
    pub line: u32,
    /// The terms of its condition, as far as they were evaluated.
    pub terms: Vec<Term>,
    /// What its condition gave; `None` without one.
    pub applies: Option<bool>,
    /// What became of the message; empty if evaluation went on.
    pub outcome: String,
    /// Fields and variables that it changed, one line each.
    pub changes: Vec<String>,
}

/// One ACL of a condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Term {
    /// Its name; none between braces.
    pub name: Option<String>,
    /// `!` is before it.
    pub negated: bool,
    /// What the ACL itself gave; `None` when more data was needed.
    pub holds: Option<bool>,
    /// What was compared.
    pub values: Vec<Value>,
}

/// A value of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub expression: String,
    /// `None` if there was none.
    pub value: Option<String>,
    pub matched: bool,
}

/// Shown values are cut after this many bytes.
const VALUE_MAX: usize = 200;

/// What is written down, shared with whoever reads it.
pub type Events = Rc<RefCell<Vec<Event>>>;

/// Writes down what is evaluated.
#[derive(Debug, Default)]
pub struct Recorder {
    events: Events,
    /// Values that belong to the next term.
    values: Vec<Value>,
    /// What rules may change, as it was after the last one.
    before: BTreeMap<String, String>,
}

impl Recorder {
    pub fn new(events: &Events) -> Recorder {
        Recorder { events: Rc::clone(events), ..Recorder::default() }
    }

    fn last(&self, change: impl FnOnce(&mut Event)) {
        if let Some(event) = self.events.borrow_mut().last_mut() {
            change(event);
        }
    }
}

impl Watch for Recorder {
    fn rule(&mut self, ruleset: &'static str, action: &str, file: &str, line: u32) {
        let (ruleset, action, file) = (ruleset.to_owned(), action.to_owned(), file.to_owned());
        self.events.borrow_mut().push(Event { ruleset, action, file, line, ..Event::default() });
    }

    fn value(&mut self, expression: &str, value: Option<&[u8]>, matched: bool) {
        let value = value.map(|bytes| {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(VALUE_MAX)]).into_owned();
            if bytes.len() > VALUE_MAX { text + "..." } else { text }
        });
        self.values.push(Value { expression: expression.to_owned(), value, matched });
    }

    fn acl(&mut self, name: Option<&str>, negated: bool, verdict: Verdict) {
        let holds = match verdict {
            Verdict::Pass => Some(true),
            Verdict::Fail => Some(false),
            Verdict::Miss => None,
        };
        let values = std::mem::take(&mut self.values);
        let term = Term { name: name.map(str::to_owned), negated, holds, values };
        self.last(|event| event.terms.push(term));
    }

    fn condition(&mut self, verdict: Verdict) {
        self.last(|event| event.applies = Some(verdict == Verdict::Pass));
    }

    fn started(&mut self, cx: &mut Ctx) {
        self.before = state(cx);
    }

    fn done(&mut self, outcome: &str, cx: &mut Ctx) {
        let now = state(cx);
        let mut changes = Vec::new();
        for (name, value) in &now {
            match self.before.get(name) {
                Some(old) if old == value => {}
                Some(old) => changes.push(format!("{name}: {old} -> {value}")),
                None => changes.push(format!("{name}: {value}")),
            }
        }
        changes.extend(self.before.keys().filter(|n| !now.contains_key(*n)).map(|n| format!("{n} is gone")));
        self.before = now;
        changes.extend(cx.scratch.withheld.iter_mut().flat_map(|withheld| withheld.drain(..)));
        self.last(|event| {
            event.outcome = outcome.to_owned();
            event.changes = changes;
        });
    }
}

/// What rules may change, by name.
fn state(cx: &Ctx) -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let heads = [(cx.request.as_deref(), "request"), (cx.response.as_deref(), "response")];
    for (head, which) in heads.into_iter().filter_map(|(head, which)| Some((head?, which))) {
        if head.is_request() {
            state.insert("request method".to_owned(), show(head.method_bytes()));
            state.insert("request target".to_owned(), show(head.target()));
        } else {
            state.insert("response status".to_owned(), head.status().to_string());
        }
        for field in head.fields() {
            let entry: &mut String = state.entry(format!("{which} field {}", show(field.name))).or_default();
            if !entry.is_empty() {
                entry.push_str(", ");
            }
            entry.push_str(&show(field.value));
        }
    }
    let stream = cx.stream.as_deref().map(|stream| &stream.vars);
    let sets =
        [Some(&cx.session.vars), stream.map(|v| &v.txn), stream.map(|v| &v.req), stream.map(|v| &v.res)];
    for (name, value) in sets.into_iter().flatten().flat_map(|set| set.iter()) {
        let value = match value {
            VarValue::Bool(value) => u8::from(*value).to_string(),
            VarValue::Int(value) => value.to_string(),
            VarValue::Ip4(value) => value.to_string(),
            VarValue::Ip6(value) => value.to_string(),
            VarValue::Str(bytes) | VarValue::Bin(bytes) | VarValue::Method(bytes) => show(bytes),
        };
        state.insert(format!("variable {}.{}", name.scope.name(), name.short_name()), value);
    }
    state
}
