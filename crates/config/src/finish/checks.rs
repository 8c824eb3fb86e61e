//! What is consistent in its parts and wrong as a whole: the reference's warnings and refusals.

use thalweg_syntax::{Diagnostic, Lead, Severity};

use crate::build::{Building, Cx};
use crate::model::{BalanceAlgo, Mode, ProxyHeader, ServerAddr};

fn warn(cx: &mut Cx<'_>, b: &Building, message: String) {
    cx.diagnostics.push(Diagnostic::new(Severity::Warning, Lead::Bare, Some(b.span), message));
}

/// One proxy.
pub(crate) fn proxy(cx: &mut Cx<'_>, b: &mut Building) {
    if b.p.disabled {
        return;
    }
    let title = b.title();
    if b.p.is_fe() && b.p.binds.is_empty() && b.p.kind == crate::model::ProxyKind::Frontend {
        warn(
            cx,
            b,
            format!("{title} has no 'bind' directive. Please declare it as a backend if this was intended."),
        );
    }
    if b.p.mode == Mode::Log {
        log_backend(cx, b);
    } else if let BalanceAlgo::Sticky = b.p.balance.algo {
        // Only logs have such an algorithm; the reference then takes round robin without a word.
        b.p.balance.algo = BalanceAlgo::RoundRobin;
    }
    missing_timeouts(cx, b);
    if b.p.is_fe() && b.p.log_targets.is_empty() && explicit_format(b) {
        warn(cx, b, format!("log format ignored for {title} since it has no log address."));
    }
    if b.p.mode == Mode::Tcp {
        needs_http(cx, b);
    }
    for index in 0..b.p.servers.len() {
        server(cx, b, index);
    }
}

/// The section itself, not one of its presets, chose a format.
fn explicit_format(b: &Building) -> bool {
    b.log_format_here
}

fn missing_timeouts(cx: &mut Cx<'_>, b: &Building) {
    let t = &b.p.timeouts;
    let frontend = b.p.is_fe()
        && t.client.is_none()
        && !b.p.binds.is_empty() | (b.p.kind == crate::model::ProxyKind::Frontend);
    let backend = b.p.is_be() && !b.p.servers.is_empty() && (t.connect.is_none() || t.server.is_none());
    if (frontend || backend) && b.p.mode != Mode::Log {
        warn(
            cx,
            b,
            format!(
                "missing timeouts for {}.\nWhile not properly invalid, you will certainly encounter various problems\n\
                 with such a configuration. To fix this, please ensure that all following\n\
                 timeouts are set to a non-zero value: 'client', 'connect', 'server'.",
                b.title()
            ),
        );
    }
}

fn log_backend(cx: &mut Cx<'_>, b: &mut Building) {
    let title = b.title();
    let message = format!("{title} : 'mode log' is not supported yet: {}.", crate::table::why::LOG_SECTIONS);
    cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, Some(b.span), message));
}

/// What a TCP proxy cannot do.
fn needs_http(cx: &mut Cx<'_>, b: &mut Building) {
    let title = b.title();
    if b.p.cookie.is_some() {
        warn(cx, b, format!("cookie will be ignored for {title} (needs 'mode http')."));
        b.p.cookie = None;
    }
    if b.p.monitor_uri.is_some() {
        warn(cx, b, format!("monitor-uri will be ignored for {title} (needs 'mode http')."));
        b.p.monitor_uri = None;
    }
    let http_algorithm = matches!(
        b.p.balance.algo,
        BalanceAlgo::Uri { .. } | BalanceAlgo::UrlParam { .. } | BalanceAlgo::Hdr { .. }
    );
    if b.p.is_be() && http_algorithm {
        warn(
            cx,
            b,
            format!(
                "Layer 7 hash not possible for {title} (needs 'mode http'). Falling back to round robin."
            ),
        );
        b.p.balance.algo = BalanceAlgo::RoundRobin;
    }
}

fn server(cx: &mut Cx<'_>, b: &mut Building, index: usize) {
    let backend = std::sync::Arc::clone(&b.p.name);
    let server = &mut b.p.servers[index];
    if server.minconn > server.maxconn {
        // A minimum alone is both limits at once.
        server.maxconn = server.minconn;
    } else if server.maxconn > 0 && server.minconn == 0 {
        server.minconn = server.maxconn;
    }
    let name = std::sync::Arc::clone(&server.name);
    let uses_client_port =
        server.port_mode != crate::model::PortMode::Fixed && matches!(server.addr, ServerAddr::Tcp(_));
    let _ = (uses_client_port, &server.send_proxy, ProxyHeader::None);
    let _ = (backend, name, cx);
}

/// The process as a whole.
pub(crate) fn process(cx: &mut Cx<'_>) {
    if cx.config.global.expose_experimental && !cx.experimental_used {
        let message = "Option 'expose-experimental-directives' is set in the global section but is no longer used. It is \
                       strongly recommended to remove it in order to avoid using an experimental directive by accident in \
                       the future.";
        cx.diagnostics.push(Diagnostic::new(Severity::Warning, Lead::Bare, None, message));
    }
}
