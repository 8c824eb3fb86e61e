//! Variables: values kept for the life of the process, a session, a transaction, or one side of it.
//!
//! Names are interned once, when an expression is compiled, so that looking a variable up compares
//! small integers. A scope holds few variables: a linear search beats a hash table there.

use crate::value::{Sample, Value};
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{LazyLock, PoisonError};

use thalweg_shared::{AtomicU64, Mutex, Ordering};

/// How long a variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The process.
    Proc,
    /// The client's session.
    Sess,
    /// One transaction (request and response).
    Txn,
    /// The processing of a request.
    Req,
    /// The processing of a response.
    Res,
    /// One run of a health check.
    Check,
    /// The session of the parent stream (read-only).
    ParentSess,
    /// The transaction of the parent stream (read-only).
    ParentTxn,
    /// The request side of the parent stream (read-only).
    ParentReq,
    /// The response side of the parent stream (read-only).
    ParentRes,
}

impl Scope {
    /// All scopes with the prefix that selects them.
    pub const ALL: [(&'static str, Scope); 10] = [
        ("proc", Scope::Proc),
        ("sess", Scope::Sess),
        ("txn", Scope::Txn),
        ("req", Scope::Req),
        ("res", Scope::Res),
        ("check", Scope::Check),
        ("psess", Scope::ParentSess),
        ("ptxn", Scope::ParentTxn),
        ("preq", Scope::ParentReq),
        ("pres", Scope::ParentRes),
    ];

    /// The prefix that selects this scope.
    pub fn name(self) -> &'static str {
        Scope::ALL.iter().find(|(_, scope)| *scope == self).map_or("", |(name, _)| name)
    }

    /// True for the scopes of a parent stream, which cannot be written.
    pub fn is_parent(self) -> bool {
        matches!(self, Scope::ParentSess | Scope::ParentTxn | Scope::ParentReq | Scope::ParentRes)
    }
}

/// A variable, by scope and interned name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VarRef {
    /// How long it lives.
    pub scope: Scope,
    /// Its name, interned by [`VarRef::parse`].
    pub name: u32,
}

static NAMES: LazyLock<Mutex<Interner>> = LazyLock::new(|| Mutex::new(Interner::default()));

#[derive(Default)]
struct Interner {
    ids: HashMap<Box<str>, u32>,
    names: Vec<Box<str>>,
}

impl VarRef {
    /// Reads `scope.name`. The name is made of letters, digits, `_` and `.`.
    ///
    /// # Errors
    /// The text of the problem, worded as in the reference.
    pub fn parse(text: &str) -> Result<VarRef, String> {
        let found = Scope::ALL.iter().find_map(|(prefix, scope)| {
            let rest = text.strip_prefix(prefix)?.strip_prefix('.')?;
            Some((*scope, rest))
        });
        let Some((scope, name)) = found else {
            if text.is_empty() {
                return Err("Empty variable name cannot be accepted".into());
            }
            return Err(format!(
                "invalid variable name '{text}'. A variable name must start with its scope. The scope can be 'proc', \
                 '(p)sess', '(p)txn', '(p)req', '(p)res' or 'check'"
            ));
        };
        let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        if let Some((at, _)) = name.char_indices().find(|(_, c)| !valid(*c)) {
            return Err(format!("invalid syntax at char '{}'", &name[at..]));
        }
        if name.is_empty() {
            return Err(format!("empty variable name '{text}'"));
        }
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&id) = names.ids.get(name) {
            return Ok(VarRef { scope, name: id });
        }
        let id = u32::try_from(names.names.len()).map_err(|_| "too many variable names".to_string())?;
        names.names.push(name.into());
        names.ids.insert(name.into(), id);
        Ok(VarRef { scope, name: id })
    }

    /// The name without its scope.
    pub fn short_name(&self) -> String {
        let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        names.names.get(self.name as usize).map_or_else(String::new, |name| name.to_string())
    }
}

/// Memory accounting of the variables of one kind of scope, shared by the process
/// (`tune.vars.*-max-size`). A limit of 0 means none.
#[derive(Debug, Default)]
pub struct VarBudget {
    /// Most bytes the variables may take together; 0: no limit.
    pub max: AtomicU64,
    /// Bytes taken now.
    pub used: AtomicU64,
}

/// The budgets of every kind of scope, filled from the configuration at start.
#[derive(Debug, Default)]
pub struct VarBudgets {
    /// `tune.vars.global-max-size`.
    pub global: VarBudget,
    /// `tune.vars.proc-max-size`.
    pub process: VarBudget,
    /// `tune.vars.sess-max-size`.
    pub session: VarBudget,
    /// `tune.vars.txn-max-size`.
    pub transaction: VarBudget,
    /// `tune.vars.reqres-max-size`.
    pub reqres: VarBudget,
    /// `tune.vars.check-max-size`.
    pub check: VarBudget,
}

/// The budgets of this process. Touched by requests only when a limit is set.
pub static BUDGETS: VarBudgets = VarBudgets {
    global: VarBudget { max: AtomicU64::new(0), used: AtomicU64::new(0) },
    process: VarBudget { max: AtomicU64::new(0), used: AtomicU64::new(0) },
    session: VarBudget { max: AtomicU64::new(0), used: AtomicU64::new(0) },
    transaction: VarBudget { max: AtomicU64::new(0), used: AtomicU64::new(0) },
    reqres: VarBudget { max: AtomicU64::new(0), used: AtomicU64::new(0) },
    check: VarBudget { max: AtomicU64::new(0), used: AtomicU64::new(0) },
};

/// What a variable's slot counts for in the budgets, besides its bytes.
const SLOT_BYTES: u64 = 48;

impl VarBudgets {
    /// The budgets a scope is charged to, innermost first: a transaction's variables also count for the session
    /// and the process.
    fn chain(&self, scope: Scope) -> &[fn(&VarBudgets) -> &VarBudget] {
        match scope {
            Scope::Proc => &[|b| &b.process, |b| &b.global],
            Scope::Sess => &[|b| &b.session, |b| &b.global],
            Scope::Check => &[|b| &b.check, |b| &b.global],
            Scope::Txn => &[|b| &b.transaction, |b| &b.session, |b| &b.global],
            _ => &[|b| &b.reqres, |b| &b.transaction, |b| &b.session, |b| &b.global],
        }
    }

    /// Takes `bytes` for `scope`; false, and nothing taken, when a limit would be passed.
    fn take(&self, scope: Scope, bytes: u64) -> bool {
        let chain = self.chain(scope);
        for (i, of) in chain.iter().enumerate() {
            let budget = of(self);
            let max = budget.max.load(Ordering::Relaxed);
            if max == 0 {
                continue;
            }
            if budget.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > max {
                for of in &chain[..=i] {
                    of(self).give(bytes);
                }
                return false;
            }
        }
        true
    }

    fn give(&self, scope: Scope, bytes: u64) {
        for of in self.chain(scope) {
            of(self).give(bytes);
        }
    }
}

impl VarBudget {
    fn give(&self, bytes: u64) {
        if self.max.load(Ordering::Relaxed) != 0 {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// The value of a variable, with its own copy of textual bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VarValue {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An IPv4 address.
    Ip4(Ipv4Addr),
    /// An IPv6 address.
    Ip6(Ipv6Addr),
    /// Text.
    Str(Vec<u8>),
    /// Raw bytes.
    Bin(Vec<u8>),
    /// An HTTP method.
    Method(Vec<u8>),
}

impl VarValue {
    /// Copies a value whose textual bytes are `text`.
    #[inline]
    pub fn from_value(value: Value, text: &[u8]) -> VarValue {
        match value {
            Value::Bool(b) => VarValue::Bool(b),
            Value::Int(i) => VarValue::Int(i),
            Value::Ip4(ip) => VarValue::Ip4(ip),
            Value::Ip6(ip) => VarValue::Ip6(ip),
            Value::Str(_) => VarValue::Str(text.to_vec()),
            Value::Bin(_) => VarValue::Bin(text.to_vec()),
            Value::Method(_) => VarValue::Method(text.to_vec()),
        }
    }

    /// The bytes of a textual value, empty otherwise.
    pub fn bytes(&self) -> &[u8] {
        match self {
            VarValue::Str(b) | VarValue::Bin(b) | VarValue::Method(b) => b,
            _ => &[],
        }
    }

    fn cost(&self) -> u64 {
        SLOT_BYTES + self.bytes().len() as u64
    }
}

/// The variables of one scope.
#[derive(Debug)]
pub struct VarSet {
    scope: Scope,
    // Empty for most; the memory stays when the set is cleared for the next request.
    entries: Vec<(u32, VarValue)>,
}

impl VarSet {
    /// An empty set for `scope`.
    pub fn new(scope: Scope) -> VarSet {
        VarSet { scope, entries: Vec::new() }
    }

    /// The value of a variable by its interned name.
    pub fn find(&self, name: u32) -> Option<&VarValue> {
        self.entries.iter().find(|(id, _)| *id == name).map(|(_, value)| value)
    }

    /// Takes over what another set of the same scope has, as far as the memory limits allow it.
    pub fn copy(&mut self, other: &VarSet) {
        let has_room = |(_, value): &&(u32, VarValue)| BUDGETS.take(self.scope, value.cost());
        self.entries.extend(other.entries.iter().filter(has_room).cloned());
    }

    /// Stores `value`; `bytes` is its text. The memory of an older textual value is reused.
    /// Returns false when a memory limit forbids it; the older value is then left as it was.
    pub fn set(&mut self, name: u32, value: Value, bytes: &[u8]) -> bool {
        let cost = SLOT_BYTES + if value.text().is_some() { bytes.len() as u64 } else { 0 };
        let old = self.entries.iter().position(|(id, _)| *id == name);
        let old_cost = old.map_or(0, |at| self.entries[at].1.cost());
        if cost > old_cost && !BUDGETS.take(self.scope, cost - old_cost) {
            return false;
        }
        if cost < old_cost {
            BUDGETS.give(self.scope, old_cost - cost);
        }
        match old {
            Some(at) => {
                let slot = &mut self.entries[at].1;
                let mut memory = match std::mem::replace(slot, VarValue::Bool(false)) {
                    VarValue::Str(b) | VarValue::Bin(b) | VarValue::Method(b) => b,
                    _ => Vec::new(),
                };
                *slot = match value {
                    Value::Str(_) | Value::Bin(_) | Value::Method(_) => {
                        memory.clear();
                        memory.extend_from_slice(bytes);
                        match value {
                            Value::Str(_) => VarValue::Str(memory),
                            Value::Bin(_) => VarValue::Bin(memory),
                            _ => VarValue::Method(memory),
                        }
                    }
                    other => VarValue::from_value(other, &[]),
                };
            }
            None => self.entries.push((name, VarValue::from_value(value, bytes))),
        }
        true
    }

    /// Removes a variable; true when it was there.
    pub fn unset(&mut self, name: u32) -> bool {
        let Some(at) = self.entries.iter().position(|(id, _)| *id == name) else { return false };
        let (_, value) = self.entries.remove(at);
        BUDGETS.give(self.scope, value.cost());
        true
    }

    /// Removes every variable.
    #[inline]
    pub fn clear(&mut self) {
        for (_, value) in &self.entries {
            BUDGETS.give(self.scope, value.cost());
        }
        self.entries.clear();
    }

    /// Every variable with its full name, in order of creation.
    pub fn iter(&self) -> impl Iterator<Item = (VarRef, &VarValue)> {
        self.entries.iter().map(|(id, value)| (VarRef { scope: self.scope, name: *id }, value))
    }

    /// True when there is no variable.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Drop for VarSet {
    fn drop(&mut self) {
        self.clear();
    }
}

/// When a variable may be written (`set-var(name,cond...)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetConditions {
    /// Only when it exists.
    pub if_exists: bool,
    /// Only when it does not exist.
    pub if_not_exists: bool,
    /// Only when the new value is an empty text.
    pub if_empty: bool,
    /// Only when the new value is not an empty text.
    pub if_not_empty: bool,
    /// Only when it has a value.
    pub if_set: bool,
    /// Only when it has no value.
    pub if_not_set: bool,
    /// Only when it is greater than the new value.
    pub if_gt: bool,
    /// Only when it is less than the new value.
    pub if_lt: bool,
}

impl SetConditions {
    /// Adds one condition by name.
    ///
    /// # Errors
    /// The text of the problem for an unknown name.
    pub fn add(&mut self, name: &str) -> Result<(), String> {
        match name {
            "ifexists" => self.if_exists = true,
            "ifnotexists" => self.if_not_exists = true,
            "ifempty" => self.if_empty = true,
            "ifnotempty" => self.if_not_empty = true,
            "ifset" => self.if_set = true,
            "ifnotset" => self.if_not_set = true,
            "ifgt" => self.if_gt = true,
            "iflt" => self.if_lt = true,
            _ => return Err(format!("unknown condition '{name}'")),
        }
        Ok(())
    }

    /// Decides from the present value of `var` and the new one (with its text).
    pub fn allow(&self, var: VarRef, present: Option<&VarValue>, new: &Sample, bytes: &[u8]) -> bool {
        // Variables of the process exist from the start, even when nothing was ever stored in them.
        let exists = present.is_some() || var.scope == Scope::Proc;
        if self.if_exists && !exists || self.if_not_exists && exists {
            return false;
        }
        // Only text can be empty.
        let empty = new.value.text().is_some() && bytes.is_empty();
        if self.if_empty && !empty || self.if_not_empty && empty {
            return false;
        }
        if self.if_set && present.is_none() || self.if_not_set && present.is_some() {
            return false;
        }
        if let (Some(VarValue::Int(old)), Value::Int(new)) = (present, new.value)
            && (self.if_gt && *old <= new || self.if_lt && *old >= new)
        {
            return false;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Text;

    #[test]
    fn names_need_a_scope_and_plain_characters() {
        assert_eq!(
            VarRef::parse("txn.a_b1").map(|v| (v.scope, v.short_name())),
            Ok((Scope::Txn, "a_b1".into()))
        );
        assert_eq!(VarRef::parse("ptxn.x").map(|v| v.scope), Ok(Scope::ParentTxn));
        for bad in ["a", "foo.a", "txn.", "txn.a b", "txn.a%"] {
            assert!(VarRef::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn same_name_same_id() {
        let a = VarRef::parse("sess.same_name").unwrap();
        let b = VarRef::parse("txn.same_name").unwrap();
        assert_eq!(a.name, b.name);
        assert_ne!(a.scope, b.scope);
    }

    #[test]
    fn values_are_replaced_and_removed() {
        let mut set = VarSet::new(Scope::Txn);
        let v = VarRef::parse("txn.replaced").unwrap();
        assert!(set.set(v.name, Value::Str(Text::EMPTY), b"abc"));
        assert_eq!(set.find(v.name), Some(&VarValue::Str(b"abc".to_vec())));
        assert!(set.set(v.name, Value::Int(3), b""));
        assert_eq!(set.find(v.name), Some(&VarValue::Int(3)));
        assert!(set.unset(v.name));
        assert!(!set.unset(v.name));
    }

    #[test]
    fn conditions_follow_the_present_value() {
        let with = |names: &[&str]| {
            let mut c = SetConditions::default();
            names.iter().for_each(|n| c.add(n).unwrap());
            c
        };
        let new = Sample::int(5);
        let var = VarRef::parse("txn.conditions").unwrap();
        assert!(with(&["ifnotexists"]).allow(var, None, &new, b""));
        assert!(!with(&["ifexists"]).allow(var, None, &new, b""));
        assert!(with(&["ifexists"]).allow(VarRef { scope: Scope::Proc, ..var }, None, &new, b""));
        assert!(with(&["ifgt"]).allow(var, Some(&VarValue::Int(6)), &new, b""));
        assert!(!with(&["ifgt"]).allow(var, Some(&VarValue::Int(5)), &new, b""));
        assert!(with(&["iflt"]).allow(var, Some(&VarValue::Int(4)), &new, b""));
        assert!(!with(&["ifset"]).allow(var, None, &new, b""));
        assert!(with(&["ifempty"]).allow(var, None, &Sample::str(Text::EMPTY), b""));
        assert!(!with(&["ifempty"]).allow(var, None, &new, b""));
        assert!(SetConditions::default().add("bogus").is_err());
    }
}
