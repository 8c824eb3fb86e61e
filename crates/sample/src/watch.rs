//! Watching evaluations, for whoever explains them (`thalweg explain`).
//!
//! Rules and conditions are generic over who watches. Traffic is evaluated by [`Unwatched`], whose methods do nothing and
//! leave no trace in the code; a watcher is put into [`Scratch::watch`](crate::context::Scratch::watch), which is looked at
//! once per ruleset and once per condition of a `use_backend` line and its kin, never per rule or value.

use crate::acl::Verdict;
use crate::context::Ctx;

/// Is told what happens while rules are evaluated, in order.
pub trait Watch: std::fmt::Debug {
    /// Whether it wants to know. What it is told costs something to find out.
    fn is_on(&self) -> bool {
        true
    }

    /// A rule comes up: `http-request` and the like, its action, and its place.
    fn rule(&mut self, _ruleset: &'static str, _action: &str, _file: &str, _line: u32) {}

    /// An expression gave a value, or none; and whether it matched one of the patterns it is compared with.
    fn value(&mut self, _expression: &str, _value: Option<&[u8]>, _matched: bool) {}

    /// An ACL was decided: its name, unless it is anonymous, and whether a `!` was before it.
    fn acl(&mut self, _name: Option<&str>, _negated: bool, _verdict: Verdict) {}

    /// A whole condition was decided, `unless` already applied.
    fn condition(&mut self, _verdict: Verdict) {}

    /// The rule applies and is about to be carried out.
    fn started(&mut self, _cx: &mut Ctx) {}

    /// The rule was carried out; `outcome` is empty if evaluation goes on.
    fn done(&mut self, _outcome: &str, _cx: &mut Ctx) {}
}

/// Nobody watches.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Watch for Unwatched {
    #[inline(always)]
    fn is_on(&self) -> bool {
        false
    }
}
