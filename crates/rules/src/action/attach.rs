//! `attach-srv`: a client's connection becomes one to a server, which it is asked for requests on from then on.

use super::{Action, Step};
use crate::compile;
use crate::effects::Effects;
use crate::keyword::{ActionDef, RuleEnv, Rulesets, Words};
use crate::ruleset::AttachedServer;
use thalweg_sample::facts::Attached;
use thalweg_sample::{Ctx, Expr, Type};

pub(crate) static ACTIONS: &[ActionDef] = &[ActionDef::new(
    "attach-srv",
    Rulesets::TCP_SESSION,
    "<backend>/<server> [name <expr>]",
    "gives the connection to a server with an 'rhttp@' address, to be asked for requests on",
    parse,
)
.experimental()];

/// To whom a connection is given, and by what name.
pub(crate) struct Attach {
    server: AttachedServer,
    name: Option<Expr>,
}

fn parse(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    let target = words.next().unwrap_or_default();
    let Some((backend, server)) = target.split_once('/') else {
        return Err(format!("attach-srv rule: invalid server name '{target}'."));
    };
    let names = env.compile.names;
    let Some(id) = names.backend(backend) else {
        return Err(format!("attach-srv rule: no such backend '{target}'."));
    };
    let Some(server) = names.server(id, server) else {
        return Err(format!("attach-srv rule: no such server '{target}'."));
    };
    let name = match words.take("name") {
        false => None,
        true => match words.next() {
            None => return Err("missing name value".into()),
            Some(word) => Some(compile::expression(Some(word), env.compile)?),
        },
    };
    let server = AttachedServer { server, named: name.is_some() };
    Ok(Action::Attach(Box::new(Attach { server, name })))
}

impl Attach {
    /// Whom it is about.
    pub fn server(&self) -> AttachedServer {
        self.server
    }

    /// Notes where the connection goes. One without the name that it should have goes nowhere.
    pub fn run<'r>(&'r self, cx: &mut Ctx, fx: &mut Effects) -> Step<'r> {
        let name = match &self.name {
            None => None,
            Some(expr) => match expr.eval_as(Type::Str, cx) {
                Some(sample) => Some(cx.bytes(&sample.value).into()),
                None => return Step::Next,
            },
        };
        fx.attached = Some(Attached { server: self.server.server, name });
        Step::Next
    }
}
