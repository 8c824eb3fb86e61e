//! Maps and ACL files changed by traffic: `set-map`, `del-map`, `add-acl`, `del-acl`.

use super::Step;
use crate::effects::Effects;
use crate::keyword::{ActionDef, Rulesets, Spelling};
use thalweg_sample::Ctx;

/// A change of a map or of an ACL file.
pub(crate) enum Update {}

const BOTH: Rulesets = Rulesets::HTTP_REQUEST.or(Rulesets::HTTP_RESPONSE);

pub(crate) static ACTIONS: &[ActionDef] = &[
    ActionDef::missing("add-acl", Spelling::Parens, BOTH, "pattern sets changed at run time"),
    ActionDef::missing("del-acl", Spelling::Parens, Rulesets::HTTP, "pattern sets changed at run time"),
    ActionDef::missing("del-map", Spelling::Parens, Rulesets::HTTP, "pattern sets changed at run time"),
    ActionDef::missing("set-map", Spelling::Parens, Rulesets::HTTP, "pattern sets changed at run time"),
];

impl Update {
    pub fn run<'r>(&self, _: &mut Ctx, _: &mut Effects) -> Step<'r> {
        match *self {}
    }
}
