//! What rules do, one file per family.

pub mod attach;
pub mod bandwidth;
pub mod connection;
pub mod header;
pub mod limit;
pub mod map;
pub mod message;
pub mod normalize;
pub mod redirect;
pub mod resolve;
pub mod stream;
pub mod trace;
pub mod track;
pub mod unsupported;
pub mod uri;
pub mod var;
pub mod verdict;
pub mod wait;

use crate::effects::Effects;
use crate::keyword::ActionDef;
use crate::ruleset::{Kind, Outcome, References};
use thalweg_http::RewriteError;
use thalweg_sample::Ctx;
use thalweg_sample::logformat::LogFormat;

/// Every family's table.
pub(crate) static TABLES: &[&[ActionDef]] = &[
    verdict::ACTIONS,
    redirect::ACTIONS,
    header::ACTIONS,
    message::ACTIONS,
    uri::ACTIONS,
    normalize::ACTIONS,
    var::ACTIONS,
    map::ACTIONS,
    connection::ACTIONS,
    stream::ACTIONS,
    wait::ACTIONS,
    resolve::ACTIONS,
    bandwidth::ACTIONS,
    limit::ACTIONS,
    attach::ACTIONS,
    track::ACTIONS,
    trace::ACTIONS,
    unsupported::ACTIONS,
];

/// A compiled action.
pub(crate) enum Action {
    Verdict(verdict::Verdict),
    Redirect(Box<redirect::Redirect>),
    Header(Box<header::Edit>),
    Message(Box<message::Edit>),
    Uri(Box<uri::Edit>),
    Normalize(normalize::Normalizer),
    Var(Box<var::Assignment>),
    Map(Box<map::Update>),
    Connection(Box<connection::Setting>),
    Stream(Box<stream::Setting>),
    Wait(Box<wait::Delay>),
    Resolve(Box<resolve::Resolution>),
    Bandwidth(Box<bandwidth::Limit>),
    Counting(Box<track::Counting>),
    Limit(Box<limit::Limit>),
    Attach(Box<attach::Attach>),
    Trace(trace::Tracing),
}

/// What one action did.
pub(crate) enum Step<'r> {
    /// Go on.
    Next,
    /// It needs more data.
    Wait,
    /// It changed a message, or failed to.
    Rewrite(Result<(), RewriteError>),
    /// Evaluation stops or pauses.
    Stop(Outcome<'r>),
}

impl Step<'_> {
    /// What it means for the evaluation, for people; empty if that goes on.
    pub fn name(&self) -> &'static str {
        match self {
            Step::Next | Step::Rewrite(Ok(())) => "",
            Step::Wait => "waits for more data",
            Step::Rewrite(Err(_)) => "failed",
            Step::Stop(outcome) => outcome.name(),
        }
    }
}

impl Action {
    /// Carries the action out. `index` is the rule's number.
    pub fn run<'r>(&'r self, kind: Kind, index: usize, cx: &mut Ctx, fx: &mut Effects) -> Step<'r> {
        match self {
            Action::Verdict(a) => a.run(),
            Action::Redirect(a) => a.run(cx, fx),
            Action::Header(a) => a.run(kind, cx, fx),
            Action::Message(a) => a.run(cx, fx),
            Action::Uri(a) => a.run(cx, fx),
            Action::Normalize(a) => a.run(cx, fx),
            Action::Var(a) => a.run(cx, fx),
            Action::Map(a) => a.run(cx, fx),
            Action::Connection(a) => a.run(kind, cx, fx),
            Action::Stream(a) => a.run(kind, index, cx, fx),
            Action::Wait(a) => a.run(index, cx),
            Action::Resolve(a) => a.run(index, cx),
            Action::Bandwidth(a) => a.run(cx, fx),
            Action::Counting(a) => a.run(kind, cx),
            Action::Limit(a) => a.run(cx, fx),
            Action::Attach(a) => a.run(cx, fx),
            Action::Trace(a) => a.run(cx),
        }
    }

    /// True when no rule after this one can run.
    pub fn is_final(&self) -> bool {
        match self {
            Action::Verdict(_) => true,
            Action::Redirect(redirect) => !redirect.may_be_skipped(),
            Action::Stream(setting) => setting.is_final(),
            _ => false,
        }
    }

    /// True for what only sets something, so that the last of several times counts. Such an action needs not wait for more
    /// data: it takes what there is, and is carried out again when more comes.
    pub fn is_repeatable(&self) -> bool {
        match self {
            Action::Var(_) | Action::Connection(_) | Action::Bandwidth(_) => true,
            Action::Stream(setting) => !setting.is_final(),
            _ => false,
        }
    }

    pub fn is_early_hint(&self) -> bool {
        matches!(self, Action::Header(edit) if edit.is_early_hint())
    }

    pub fn resolve(&self, kind: Kind, references: &References) -> Result<(), String> {
        match self {
            Action::Verdict(a) => a.resolve(references),
            Action::Stream(a) => a.resolve(kind, references),
            Action::Bandwidth(a) => a.resolve(references),
            Action::Counting(a) => a.resolve(),
            Action::Limit(a) => a.resolve(references),
            Action::Resolve(a) => a.resolve(references),
            Action::Trace(a) => a.resolve(references),
            Action::Map(a) => {
                a.resolve(references);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Renders `format` into `out`, replacing what was there.
pub(crate) fn render(format: &LogFormat, cx: &mut Ctx, out: &mut Vec<u8>) {
    out.clear();
    format.render(cx, out);
}
