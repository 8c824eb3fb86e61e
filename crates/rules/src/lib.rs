//! Rules: what `tcp-request`, `tcp-response`, `http-request`, `http-response` and `http-after-response` do to traffic.
//!
//! A [`Ruleset`] is compiled once, when the configuration is read, and run for each connection, request or
//! response. Running decides and edits; it does no I/O and keeps no time. What needs more than an edit of the
//! messages is handed to the caller: as an [`Outcome`] when evaluation stops or pauses, in [`Effects`] otherwise.
//!
//! Each family of actions is one file under `action`, with one keyword entry per action ([`ActionDef`]): name, rulesets
//! where it is valid, arguments, description and parser.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod action;
mod compile;
pub mod default_replies;
pub mod effects;
pub mod errors;
pub mod keyword;
pub mod reply;
pub mod ruleset;

pub use action::redirect::Redirect;
pub use action::trace::Beginning as TraceBeginning;
pub use action::verdict::Realm;
pub use effects::{BandwidthLimit, Effects, Overrides};
pub use errors::{ErrorReplies, ErrorRule, GENERATED_CODES, HttpErrors, RawReply};
pub use keyword::{ActionDef, CaptureSlots, NewTables, RuleEnv, Rulesets, Spelling, all_actions};
pub use reply::{Body, Reply, reply_for};
pub use ruleset::{AttachedServer, BandwidthFilter};
pub use ruleset::{Kind, Outcome, References, Rule, Ruleset, TrackSource, Wanted};
