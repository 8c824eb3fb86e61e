//! By what connections to servers are told apart: the name that TLS asks for (`sni`), and one of its own (`pool-conn-name`).

use std::sync::Arc;

use thalweg_sample::Point;
use thalweg_syntax::{Diagnostic, Lead, Severity, Span};

use crate::build::{Building, Cx};
use crate::compiled::Expr;
use crate::model::Mode;
use crate::sample_env::expression_here;

/// What a server is asked for by TLS in HTTP, unless its line says otherwise.
const HOST: &str = "req.hdr(host),field(1,:)";

/// Compiles both for the servers of a proxy.
pub(crate) fn compile(cx: &mut Cx<'_>, b: &mut Building) {
    // Servers of one backend mostly have the same expression.
    let mut known = Known::default();
    for at in 0..b.p.servers.len() {
        let Some(tls) = &b.p.servers[at].tls else { continue };
        let automatic = tls.words.sni.is_none();
        if automatic && (b.p.mode != Mode::Http || tls.words.sni_auto == Some(false)) {
            continue;
        }
        let text: Arc<str> = tls.words.sni.as_deref().unwrap_or(HOST).into();
        let span = tls.sni_span.unwrap_or(b.span);
        let compiled = known.expression(cx, b, at, text, span);
        if let Some(tls) = &mut b.p.servers[at].tls {
            Arc::make_mut(tls).sni = compiled;
        }
    }
    for (at, text, span) in std::mem::take(&mut b.pool_names) {
        let compiled = known.expression(cx, b, at, text, span);
        let extra = b.p.servers[at].extra.get_or_insert_default();
        Arc::make_mut(extra).pool_conn_name = compiled;
    }
}

/// What was compiled already; `None` for what could not be.
#[derive(Default)]
struct Known(Vec<(Arc<str>, Option<Arc<Expr>>)>);

impl Known {
    /// The expression of the server at that position.
    fn expression(
        &mut self,
        cx: &mut Cx<'_>,
        b: &Building,
        at: usize,
        text: Arc<str>,
        span: Span,
    ) -> Option<Arc<Expr>> {
        if let Some((_, compiled)) = self.0.iter().find(|(other, _)| *other == text) {
            return compiled.clone();
        }
        let compiled = expression_here(cx, b, &text, span, Point::ServerSource.set(), "sni");
        let compiled = compiled.map(Arc::new).map_err(|error| {
            let message = format!(
                "'server {}/{}' : error detected while parsing sni or pool-conn-name expressions : {}.",
                b.p.name,
                b.p.servers[at].name,
                error.trim_end_matches('.')
            );
            cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Located, Some(span), message));
        });
        self.0.push((text, compiled.clone().ok()));
        compiled.ok()
    }
}
