//! Formats and expressions of a proxy that are not rules.

use std::sync::Arc;

use thalweg_sample::logformat::{
    HTTP_CLF_LOG_FMT, HTTP_JSON_LOG_FMT, HTTP_LOG_FMT, HTTPS_LOG_FMT, TCP_CLF_LOG_FMT, TCP_LOG_FMT, Usage,
};
use thalweg_sample::{LogFormat, Point, Points};
use thalweg_syntax::{Diagnostic, Lead, Severity, Span};

use crate::build::{Building, Cx, FormatSource, LogStyle, ProxyFieldDraft};
use crate::model::{BalanceAlgo, ForwardedField, ForwardedHeader, Mode};
use crate::sample_env::{expression_at, format_at};

/// What one format of the cache was compiled from.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct FormatKey {
    text: Arc<str>,
    http: bool,
    backend: bool,
    points: u32,
}

/// Compiles all formats of a proxy.
pub(crate) fn compile(cx: &mut Cx<'_>, b: &mut Building) {
    let log_points = Point::Log.set();
    if b.p.is_fe() {
        if let Some(mut source) = b.log_format.clone() {
            if let (FormatSource::HttpLog { span, .. }, Mode::Tcp) = (&source, b.p.mode) {
                let message = format!(
                    "parsing [{}:{}] : 'option httplog' not usable with {} (needs 'mode http'). Falling back to 'option \
                     tcplog'.",
                    cx.sources.name(span.file),
                    span.line,
                    b.title()
                );
                cx.diagnostics.push(Diagnostic::new(Severity::Warning, Lead::Bare, Some(*span), message));
                source = FormatSource::TcpLog { clf: false };
            }
            b.p.formats.is_http = matches!(source, FormatSource::HttpLog { .. });
            b.p.formats.log = one(cx, b, &source, log_points, Usage::Log, "log-format");
        }
        if let Some(source) = b.error_log_format.clone() {
            b.p.formats.error = one(cx, b, &source, log_points, Usage::Log, "error-log-format");
        }
        if let Some(source) = b.log_format_sd.clone() {
            b.p.formats.sd = one(cx, b, &source, log_points, Usage::Log, "log-format-sd");
        }
    }
    if let Some(source) = b.unique_id.clone() {
        let points = if b.p.is_fe() { Point::FeHttpRequest.set() } else { Point::BeHttpRequest.set() };
        b.p.unique_id_format = one(cx, b, &source, points, Usage::Identifier, "unique-id");
    }
    balance(cx, b);
    forwarded(cx, b);
    proxy_fields(cx, b);
}

/// `set-proxy-v2-tlv-fmt` of servers.
pub(crate) fn proxy_fields(cx: &mut Cx<'_>, b: &mut Building) {
    // Those of a template follow each other, and share what they carry.
    let mut last: Option<(Arc<Vec<ProxyFieldDraft>>, ProxyFields)> = None;
    for (server, drafts) in std::mem::take(&mut b.proxy_fields) {
        let fields = match &last {
            Some((of, fields)) if Arc::ptr_eq(of, &drafts) => fields.clone(),
            _ => {
                let name = Arc::clone(&b.p.servers[server].name);
                let compiled = drafts.iter().map(|draft| (draft.kind, proxy_field(cx, b, draft, &name)));
                compiled.collect()
            }
        };
        let extra = b.p.servers[server].extra.get_or_insert_default();
        Arc::make_mut(extra).proxy_fields.clone_from(&fields);
        last = Some((drafts, fields));
    }
}

/// Type and value.
type ProxyFields = Vec<(u8, Option<Arc<LogFormat>>)>;

fn proxy_field(
    cx: &mut Cx<'_>,
    b: &Building,
    draft: &ProxyFieldDraft,
    server: &str,
) -> Option<Arc<LogFormat>> {
    let text = draft.text.as_deref()?;
    let points = Point::UseServer.set();
    match format_at(cx, b, text, draft.span, points, Usage::Raw, "server") {
        Ok(format) => Some(Arc::new(format)),
        Err(e) => {
            let message = format!("'server {}/{server}' : {e}", b.p.name);
            let e = Diagnostic::new(Severity::Alert, Lead::Located, Some(draft.span), message);
            cx.diagnostics.push(e);
            None
        }
    }
}

fn one(
    cx: &mut Cx<'_>,
    b: &Building,
    source: &FormatSource,
    points: Points,
    usage: Usage,
    name: &str,
) -> Option<Arc<LogFormat>> {
    let (text, span): (Arc<str>, Span) = match source {
        FormatSource::Text { text, span } => (Arc::clone(text), *span),
        FormatSource::TcpLog { clf } => (cx.name(if *clf { TCP_CLF_LOG_FMT } else { TCP_LOG_FMT }), b.span),
        FormatSource::HttpLog { style, span: _ } => {
            let text = match style {
                LogStyle::Usual => HTTP_LOG_FMT,
                LogStyle::Clf => HTTP_CLF_LOG_FMT,
                LogStyle::Json => HTTP_JSON_LOG_FMT,
                LogStyle::Tls => HTTPS_LOG_FMT,
            };
            (cx.name(text), b.span)
        }
    };
    let key = FormatKey {
        text: Arc::clone(&text),
        http: b.p.mode == Mode::Http,
        backend: b.p.is_be(),
        points: points.0,
    };
    // Ten thousand proxies with the same format share it, unless it says something about its own proxy.
    if let Some(known) = cx.formats.get(&key) {
        return Some(Arc::clone(known));
    }
    let before = cx.diagnostics.error_count() + cx.diagnostics.warning_count();
    match format_at(cx, b, &text, span, points, usage, name) {
        Ok(format) => {
            let format = Arc::new(format);
            if cx.diagnostics.error_count() + cx.diagnostics.warning_count() == before && !text.contains("%[")
            {
                cx.formats.insert(key, Arc::clone(&format));
            }
            Some(format)
        }
        Err(e) => {
            let place = format!("{}:{}", cx.sources.name(span.file), span.line);
            let message = format!("Parsing [{place}]: failed to parse {name} : {e}.");
            cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, Some(span), message));
            None
        }
    }
}

/// `balance hash <expression>`
fn balance(cx: &mut Cx<'_>, b: &mut Building) {
    let Some((text, span, log_hash)) = b.balance_expr.clone() else { return };
    if !b.p.is_be() {
        return;
    }
    if log_hash && b.p.mode == Mode::Log {
        // The converters are applied to the line, which no fetch gives: one stands there for it.
        let text = format!("str(line),{text}");
        match expression_at(cx, b, &text, span, Point::UseServer.set(), "balance log-hash") {
            Ok(expr) => b.p.balance.algo = BalanceAlgo::LogHash(Arc::new(expr)),
            Err(e) => {
                let message = format!(
                    "{} [{}:{}]: failed to parse converters of 'balance log-hash' : {e}.",
                    b.title(),
                    cx.sources.name(span.file),
                    span.line
                );
                cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, Some(span), message));
            }
        }
        return;
    }
    if log_hash {
        let message = format!(
            "Unusable balance algorithm for {} (needs 'mode log'). Falling back to round robin.",
            b.title()
        );
        cx.diagnostics.push(Diagnostic::new(Severity::Warning, Lead::Bare, Some(span), message));
        return;
    }
    let place = format!("{} [{}:{}]", b.title(), cx.sources.name(b.span.file), b.span.line);
    let message = match expression_at(
        cx,
        b,
        &text,
        span,
        Point::UseServer.set(),
        "use-server or balance expression",
    ) {
        Ok(expr) if expr.fetch.points.meets(Point::UseServer.set()) => {
            b.p.balance.algo = BalanceAlgo::Hash(Arc::new(expr));
            return;
        }
        Ok(expr) => format!(
            "{place}: error detected while parsing 'balance hash' expression '{text}' which requires information from {}, \
             which is not available here.",
            expr.fetch.needs
        ),
        Err(e) => format!("{place}: failed to parse 'balance hash' expression '{text}' in : {e}."),
    };
    cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, Some(span), message));
}

/// `option forwarded`
fn forwarded(cx: &mut Cx<'_>, b: &mut Building) {
    let Some(draft) = b.forwarded.clone() else { return };
    if !b.p.is_be() || b.p.mode != Mode::Http {
        return;
    }
    let mut field = |given: &Option<Option<Arc<str>>>| match given {
        None => None,
        Some(None) => Some(ForwardedField::Own),
        Some(Some(text)) => {
            match expression_at(cx, b, text, draft.span, Point::BeHttpRequest.set(), "option forwarded") {
                Ok(expr) => {
                    if !expr.fetch.points.meets(Point::BeHttpRequest.set()) {
                        let message = format!(
                            "{} [{}:{}]: in 'option forwarded' sample expression '{text}' : some args extract \
                             information from '{}', which is not available here and will be left out.",
                            b.title(),
                            cx.sources.name(draft.span.file),
                            draft.span.line,
                            expr.fetch.needs
                        );
                        cx.diagnostics.push(Diagnostic::new(
                            Severity::Warning,
                            Lead::Bare,
                            Some(draft.span),
                            message,
                        ));
                    }
                    Some(ForwardedField::Expr(Arc::new(expr)))
                }
                Err(e) => {
                    let message = format!(
                        "{} [{}:{}]: failed to parse 'option forwarded' expression '{text}' in : {e}.",
                        b.title(),
                        cx.sources.name(draft.span.file),
                        draft.span.line
                    );
                    cx.diagnostics.push(Diagnostic::new(
                        Severity::Alert,
                        Lead::Bare,
                        Some(draft.span),
                        message,
                    ));
                    None
                }
            }
        }
    };
    let header = ForwardedHeader {
        proto: draft.proto,
        host: field(&draft.host),
        by: field(&draft.by),
        by_port: field(&draft.by_port),
        for_: field(&draft.for_),
        for_port: field(&draft.for_port),
    };
    b.p.forwarded = Some(Arc::new(header));
}
