//! Actions that are known but need a part that is not there yet. They are refused by name, never ignored.

use crate::keyword::{ActionDef, Rulesets, Spelling};

const BOTH: Rulesets = Rulesets::HTTP_REQUEST.or(Rulesets::HTTP_RESPONSE);
const CONTENTS: Rulesets = Rulesets::TCP_REQUEST.or(Rulesets::TCP_RESPONSE).or(BOTH);

pub(crate) static ACTIONS: &[ActionDef] = &[
    ActionDef::missing("cache-store", Spelling::Plain, Rulesets::HTTP_RESPONSE, "the cache"),
    ActionDef::missing("cache-use", Spelling::Plain, Rulesets::HTTP_REQUEST, "the cache"),
    ActionDef::missing("lua.", Spelling::Prefix, Rulesets::ALL, "Lua"),
    ActionDef::missing("send-spoe-group", Spelling::Plain, CONTENTS, "SPOE"),
];
