//! What the texts of a check are computed from.

use thalweg_check::{Assignment, Evaluate, Heard, Source};
use thalweg_config::model::{Proxy, ProxyHeader, Server, ServerAddr};
use thalweg_sample::context::{Ctx, Payload};
use thalweg_sample::facts::{self, ListenerId, Session, StreamFacts};
use thalweg_sample::logformat::LogFormat;
use thalweg_sample::vars::{Scope, VarSet};
use thalweg_sample::{Expr, Sample, Type, Value};

use super::super::introduction::{self, HeaderField};
use crate::worker::Worker;

/// Computes the texts of one check.
pub(super) struct Evaluator<'a> {
    worker: &'a Worker,
    proxy: &'a Proxy,
    server: &'a Server,
    /// Made when something has to be computed, which few checks need.
    subject: Option<Box<Subject>>,
}

/// What expressions are evaluated against.
struct Subject {
    session: Session,
    facts: StreamFacts,
    vars: VarSet,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(worker: &'a Worker, proxy: &'a Proxy, server: &'a Server) -> Evaluator<'a> {
        Evaluator { worker, proxy, server, subject: None }
    }

    fn subject(proxy: &Proxy, server: &Server) -> Subject {
        let id = facts::ProxyId(proxy.id.0);
        let mut facts = StreamFacts::new(id, proxy.mode == thalweg_config::model::Mode::Http);
        facts.backend_assigned = true;
        facts.server = Some(facts::ServerId { proxy: id, index: server.id.0 });
        Subject { session: Session::new(id, ListenerId(0)), facts, vars: VarSet::new(Scope::Check) }
    }

    /// The fields of a PROXY header that the server's line asks for.
    pub(super) fn header_fields(&mut self) -> Vec<HeaderField> {
        let fields = &self.server.rare().proxy_fields;
        if fields.is_empty() || !matches!(self.server.send_proxy, ProxyHeader::V2(_)) {
            return Vec::new();
        }
        self.with(Heard { response: None, bytes: &[] }, |cx| introduction::fields(fields, cx))
    }

    fn with<R>(&mut self, heard: Heard<'_>, f: impl FnOnce(&mut Ctx<'_>) -> R) -> R {
        let (proxy, server) = (self.proxy, self.server);
        let subject = self.subject.get_or_insert_with(|| Box::new(Evaluator::subject(proxy, server)));
        let mut scratch = self.worker.scratch.borrow_mut();
        let mut cx = Ctx::new(self.worker.clock(), self.worker, &mut subject.session, &mut scratch);
        cx.stream = Some(&mut subject.facts);
        cx.response = heard.response;
        cx.res_body = Payload::new(heard.bytes, true, None);
        cx.response_side = true;
        cx.check_vars = Some(&mut subject.vars);
        cx.reset();
        f(&mut cx)
    }
}

impl Evaluate for Evaluator<'_> {
    fn format(&mut self, format: &LogFormat, heard: Heard<'_>, out: &mut Vec<u8>) {
        self.with(heard, |cx| format.render(cx, out));
    }

    fn integer(&mut self, expr: &Expr, heard: Heard<'_>) -> Option<i64> {
        self.with(heard, |cx| match expr.eval_as(Type::Int, cx)?.value {
            Value::Int(value) => Some(value),
            _ => None,
        })
    }

    fn assign(&mut self, assignment: &Assignment, heard: Heard<'_>) {
        self.with(heard, |cx| {
            let sample = match &assignment.source {
                Source::Nothing => {
                    cx.unset_var(assignment.variable);
                    return;
                }
                Source::Expr(expr) => expr.eval(cx),
                Source::Format(format) => {
                    let mut text = Vec::new();
                    format.render(cx, &mut text);
                    cx.store(&text).map(|text| Sample::new(Value::Str(text)))
                }
            };
            let Some(sample) = sample else { return };
            if let Some(conditions) = assignment.conditions {
                let bytes = cx.bytes(&sample.value);
                let variable = assignment.variable;
                let allowed = cx
                    .with_var(variable, |old| conditions.allow(variable, Some(old), &sample, bytes))
                    .unwrap_or_else(|| conditions.allow(variable, None, &sample, bytes));
                if !allowed {
                    return;
                }
            }
            // A limit on the memory of variables is not a fault of the server.
            cx.set_var(assignment.variable, sample.value);
        });
    }

    fn server_state(&mut self) -> Vec<u8> {
        let instance = &self.worker.instance;
        let backend = self.worker.backend(self.proxy.id);
        let standing = backend.standing(self.server.id);
        let health = standing.health;
        let state = match standing.is_draining() {
            true if health.is_up() => "NOLB".to_owned(),
            _ if health.is_changing() => {
                let shown = health.to_string();
                let (count, word) = shown.split_once(' ').unwrap_or((&shown, ""));
                format!("{word} {count}")
            }
            _ if !health.is_up() => "DOWN".to_owned(),
            _ => "UP".to_owned(),
        };
        let now = backend.identity(self.server);
        let (address, port) = match &now.addr {
            ServerAddr::Tcp(addr) => (addr.ip().to_string(), addr.port().to_string()),
            _ => ("unix".to_owned(), "unix".to_owned()),
        };
        let total: u32 = self
            .proxy
            .servers
            .iter()
            .filter(|s| !s.backup && backend.is_usable(s.id))
            .map(|s| backend.weight(s.id))
            .sum();
        format!(
            "{state}; address={address}; port={port}; name={}/{}; node={}; weight={}/{total}; scur={}/{}; qcur={}",
            self.proxy.name,
            now.name,
            instance.config.global.node.as_deref().unwrap_or(&instance.hostname),
            backend.weight(self.server.id),
            instance.server_streams(self.proxy.id, self.server.id),
            instance.backend_streams(self.proxy.id),
            backend.server_queue_len(self.server.id),
        )
        .into_bytes()
    }
}
