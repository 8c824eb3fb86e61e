//! Actions that decide: `accept`, `allow`, `deny`, `tarpit`, `return`, `auth`, `reject`, `close`, `silent-drop`.

use super::{Action, Step};
use crate::keyword::{ActionDef, RuleEnv, Rulesets, Words};
use crate::reply::{Reply, ReplyUse};
use crate::ruleset::{Outcome, References};
use thalweg_http::{Head, HeaderId, RewriteError};
use thalweg_syntax::carry::restore;

/// A decision.
pub(crate) enum Verdict {
    Accept,
    Deny(Box<Reply>),
    Tarpit(Box<Reply>),
    Return(Box<Reply>),
    Auth(Realm),
    Reject,
    Close,
    SilentDrop { rst_ttl: Option<u8> },
}

/// The name of what a password protects, as sent in the challenge.
#[derive(Debug)]
pub struct Realm {
    challenge: Box<[u8]>,
}

impl Realm {
    fn new(name: &str) -> Realm {
        Realm { challenge: restore(format!("Basic realm=\"{name}\"").as_bytes()).into() }
    }

    /// The status to answer `request` with: 407 when it is made to a proxy (its target has an authority), else 401.
    pub fn status(request: &Head) -> u16 {
        if request.target().first().is_some_and(|&b| b != b'/' && b != b'*') { 407 } else { 401 }
    }

    /// Replaces the challenge in the response that says 401 or 407.
    ///
    /// # Errors
    /// When the response has no room.
    pub fn write(&self, status: u16, response: &mut Head) -> Result<(), RewriteError> {
        let name: &[u8] = if status == 407 { b"proxy-authenticate" } else { b"www-authenticate" };
        response.remove_all(name);
        response.push(name, &self.challenge)?;
        Ok(())
    }
}

pub(crate) static ACTIONS: &[ActionDef] = &[
    ActionDef::new("accept", Rulesets::TCP, "", "stops the evaluation and lets the traffic pass", accept),
    ActionDef::new("allow", Rulesets::HTTP, "", "stops the evaluation and lets the message pass", accept),
    ActionDef::new(
        "auth",
        Rulesets::HTTP_REQUEST,
        "[realm <realm>]",
        "asks for a user name and password",
        auth,
    ),
    ActionDef::new("close", Rulesets::TCP_RESPONSE, "", "closes the connection to the server", |_, _| {
        Ok(Action::Verdict(Verdict::Close))
    }),
    ActionDef::new(
        "deny",
        Rulesets::HTTP_REQUEST.or(Rulesets::HTTP_RESPONSE),
        REPLY_ARGS,
        "refuses the message: 403 for a request, 502 for a response, or the reply described",
        deny,
    ),
    ActionDef::new(
        "reject",
        Rulesets::TCP.or(Rulesets::HTTP_REQUEST),
        "",
        "closes the connection without a response",
        |_, _| Ok(Action::Verdict(Verdict::Reject)),
    ),
    ActionDef::new(
        "return",
        Rulesets::HTTP_REQUEST.or(Rulesets::HTTP_RESPONSE),
        REPLY_ARGS,
        "answers with the reply described",
        answer,
    ),
    ActionDef::new(
        "silent-drop",
        Rulesets::ALL.without(Rulesets::HTTP_AFTER),
        "[rst-ttl <ttl>]",
        "makes the client's connection disappear without telling the client",
        silent_drop,
    ),
    ActionDef::new(
        "tarpit",
        Rulesets::HTTP_REQUEST,
        REPLY_ARGS,
        "keeps the client waiting for 'timeout tarpit', then refuses",
        tarpit,
    ),
];

const REPLY_ARGS: &str = "[status <code>] [content-type <type>] [default-errorfiles | errorfile <file> | \
                          errorfiles <name> | file <file> | lf-file <file> | string <str> | lf-string <fmt>] \
                          [hdr <name> <fmt>]*";

fn accept(_: &mut Words, _: &mut RuleEnv) -> Result<Action, String> {
    Ok(Action::Verdict(Verdict::Accept))
}

fn deny(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    let status = if words.kind.is_response() { 502 } else { 403 };
    Reply::parse(words, env, ReplyUse::Deny(status)).map(|r| Action::Verdict(Verdict::Deny(Box::new(r))))
}

fn tarpit(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    Reply::parse(words, env, ReplyUse::Deny(500)).map(|r| Action::Verdict(Verdict::Tarpit(Box::new(r))))
}

fn answer(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    Reply::parse(words, env, ReplyUse::Return).map(|r| Action::Verdict(Verdict::Return(Box::new(r))))
}

fn auth(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    let realm = if words.take("realm") {
        Realm::new(words.value().ok_or("missing realm value.\n")?)
    } else {
        Realm::new(env.compile.proxy.name)
    };
    Ok(Action::Verdict(Verdict::Auth(realm)))
}

fn silent_drop(words: &mut Words, _: &mut RuleEnv) -> Result<Action, String> {
    let mut rst_ttl = None;
    if words.take("rst-ttl") {
        let word = words.value().ok_or("missing rst-ttl value\n")?;
        let ttl = word.parse::<u8>().ok().filter(|&t| t != 0);
        rst_ttl = Some(ttl.ok_or("valid rst-ttl values are [1-255]\n")?);
    }
    Ok(Action::Verdict(Verdict::SilentDrop { rst_ttl }))
}

impl Verdict {
    pub fn run(&self) -> Step<'_> {
        Step::Stop(match self {
            Verdict::Accept => Outcome::Accept,
            Verdict::Deny(reply) => Outcome::Deny(reply),
            Verdict::Tarpit(reply) => Outcome::Tarpit(reply),
            Verdict::Return(reply) => Outcome::Return(reply),
            Verdict::Auth(realm) => Outcome::Auth(realm),
            Verdict::Reject => Outcome::Reject,
            Verdict::Close => Outcome::Close,
            Verdict::SilentDrop { rst_ttl } => Outcome::SilentDrop { rst_ttl: *rst_ttl },
        })
    }

    pub fn resolve(&self, references: &References) -> Result<(), String> {
        let (Verdict::Deny(reply) | Verdict::Tarpit(reply) | Verdict::Return(reply)) = self else {
            return Ok(());
        };
        reply.resolve(references)
    }
}

/// The header that carries credentials of a request: for whoever must not forward them.
pub const fn credentials_header(status: u16) -> HeaderId {
    if status == 407 { HeaderId::ProxyAuthorization } else { HeaderId::Authorization }
}
