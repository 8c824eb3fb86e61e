//! Traces of OpenTelemetry: which one a request belongs to, and whether it is recorded.

use super::{Action, Step};
use crate::keyword::{ActionDef, RuleEnv, Rulesets, Words};
use crate::ruleset::References;
use thalweg_http::Head;
use thalweg_otel::context::{TRACEPARENT, TRACESTATE, is_state};
use thalweg_otel::{Context, Parent, Share};
use thalweg_sample::Ctx;

/// What is done about a request's trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracing {
    /// It goes on with the client's, or begins.
    Begin(Beginning),
    /// It is decided anew whether it is recorded.
    Sample(Share),
}

/// How the traces of requests begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// How many are recorded of those that begin here.
    pub share: Share,
    /// Whether traces of clients go on.
    pub continues: bool,
}

pub(crate) static ACTIONS: &[ActionDef] = &[ActionDef::new(
    "set-trace-sampling",
    Rulesets::HTTP_REQUEST,
    "<share>",
    "sets the share of traces that is recorded, 0% to 100%",
    sampling,
)];

fn sampling(words: &mut Words, _: &mut RuleEnv) -> Result<Action, String> {
    let share = words.next().and_then(Share::parse);
    Ok(Action::Trace(Tracing::Sample(share.ok_or("expects a share from '0%' to '100%'")?)))
}

impl Tracing {
    pub fn resolve(self, references: &References) -> Result<(), String> {
        match self {
            Tracing::Sample(_) if !references.traces => {
                Err("set-trace-sampling action: nothing is traced without an 'opentelemetry' section.".into())
            }
            _ => Ok(()),
        }
    }

    pub fn run<'r>(self, cx: &mut Ctx) -> Step<'r> {
        match self {
            Tracing::Begin(how) => begin(how, cx),
            Tracing::Sample(share) => {
                if let Some(mut context) = cx.stream.as_deref().and_then(|stream| stream.trace().copied()) {
                    context.sample(share);
                    keep(context, cx);
                }
            }
        }
        Step::Next
    }
}

fn begin(how: Beginning, cx: &mut Ctx) {
    let Some(request) = cx.request.as_deref_mut() else { return };
    let parent = parent_of(request).filter(|_| how.continues);
    if parent.is_none() || !is_state(request.find_all(TRACESTATE).map(|field| field.value)) {
        request.remove_all(TRACESTATE);
    }
    let world = cx.world;
    keep(Context::new(parent, how.share, |out| world.random_bytes(out)), cx);
}

/// The parent that a request names. Two of them are none.
fn parent_of(request: &Head) -> Option<Parent> {
    let mut parents = request.find_all(TRACEPARENT);
    let parent = Parent::parse(parents.next()?.value);
    parent.filter(|_| parents.next().is_none())
}

/// From here on the request belongs to this trace, and says so to the server. A head without room for that goes on without.
fn keep(context: Context, cx: &mut Ctx) {
    if let Some(request) = cx.request.as_deref_mut() {
        let _ = request.set(TRACEPARENT, &context.traceparent());
    }
    if let Some(stream) = cx.stream.as_deref_mut() {
        stream.set_trace(context);
    }
}
