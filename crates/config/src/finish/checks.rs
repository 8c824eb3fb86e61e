//! What is consistent in its parts and wrong as a whole: the reference's warnings and refusals.

use std::sync::Arc;

use thalweg_check::{Kind, Protocol};
use thalweg_syntax::{Diagnostic, Lead, Severity};

use crate::build::{Building, Cx};
use crate::model::{
    Algorithm, BalanceAlgo, HashMethod, Mode, ObserveLayer, Proxy, Server, ServerAddr, SlowSettings,
    SourceAddress, SourceMode,
};
use crate::proxy::balance::{is_for_logs, listed_for_logs};
use crate::rules::becomes_http;

/// A warning about a section.
fn warn(cx: &mut Cx<'_>, b: &Building, message: String) {
    cx.diagnostics.push(Diagnostic::new(Severity::Warning, Lead::Bare, Some(b.span), message));
}

/// `capture cookie` keeps no more than `tune.http.cookielen` allows.
fn captured_cookie(cx: &mut Cx<'_>, b: &mut Building) {
    let longest = u32::try_from(cx.config.global.tune.http_cookielen).unwrap_or(u32::MAX);
    let Some(capture) = b.p.cookie_capture.as_mut().filter(|capture| capture.len > longest) else { return };
    std::sync::Arc::make_mut(capture).len = longest;
    let title = b.title();
    warn(cx, b, format!("truncating capture length to {longest} bytes for {title}."));
}

/// What responses say can be observed where there are responses.
fn observed_layers(cx: &mut Cx<'_>, b: &Building) {
    if b.p.mode == Mode::Http {
        return;
    }
    for server in b.p.servers.iter().filter(|s| s.rare().observe == Some(ObserveLayer::Http)) {
        let message = format!(
            "[{}:{}] : 'server {}/{}' : 'layer7' can only be used in http proxies.",
            server.file, server.line, b.p.name, server.name
        );
        cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, Some(b.span), message));
    }
}

/// One proxy.
pub(crate) fn proxy(cx: &mut Cx<'_>, b: &mut Building) {
    if b.p.disabled {
        return;
    }
    let title = b.title();
    if b.p.is_fe() && b.p.binds.is_empty() {
        warn(
            cx,
            b,
            format!("{title} has no 'bind' directive. Please declare it as a backend if this was intended."),
        );
    }
    if b.p.is_fe() && b.p.is_be() && b.p.default_backend.is_some() && !b.p.servers.is_empty() {
        let message = format!(
            "In proxy '{}', the 'default_backend' rule always has precedence over the servers, which will never be \
             used.",
            b.p.name
        );
        warn(cx, b, message);
    }
    protocols(cx, b);
    if b.p.mode == Mode::Log {
        needs_http(cx, b);
        log_backend(cx, b);
    } else if let BalanceAlgo::Servers(Algorithm::Sticky) = b.p.balance.algo {
        // Only logs have such an algorithm; the reference then takes round robin without a word.
        b.p.balance.algo = BalanceAlgo::Servers(Algorithm::RoundRobin);
    }
    observed_layers(cx, b);
    missing_timeouts(cx, b);
    captured_cookie(cx, b);
    if b.p.is_fe() && b.p.log_targets.is_empty() && explicit_format(b) {
        warn(cx, b, format!("log format ignored for {title} since it has no log address."));
    }
    if b.p.mode == Mode::Tcp && !becomes_http(cx, b) {
        needs_http(cx, b);
    }
    if b.datagram_servers && b.p.mode != Mode::Log {
        let place =
            b.p.servers
                .iter()
                .find(|s| s.rare().datagram)
                .map_or(String::new(), |server| format!("[{}:{}] : ", server.file, server.line));
        let message =
            format!("{place}unsupported transport for server address in '{}' backend.", b.p.mode.name());
        cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, None, message));
    }
    for index in 0..b.p.servers.len() {
        server(cx, b, index);
    }
}

/// The protocols that listeners and servers may have in a mode.
pub(crate) fn usable_protocols(mode: Mode) -> &'static [&'static str] {
    if mode == Mode::Http { &["h1", "h2"] } else { &["none"] }
}

/// Whether the connections of a server's health checks would speak what its checks cannot.
pub(crate) fn is_checked_otherwise(proxy: &Proxy, server: &Server) -> bool {
    let Some(check) = &server.check else { return false };
    let program = check.program.as_ref().or(proxy.check.as_ref());
    let http = program.is_some_and(|program| program.kind == Kind::Http);
    check.protocol.is_some_and(|protocol| (protocol == Protocol::Raw) == http)
}

/// `proto` of listeners and servers must suit the mode: a version of HTTP for HTTP, nothing for the others.
fn protocols(cx: &mut Cx<'_>, b: &Building) {
    let usable = usable_protocols(b.p.mode);
    let title = b.title();
    let binds = b.p.binds.iter().filter_map(|x| {
        let proto = x.proto.as_deref().filter(|proto| !usable.contains(proto))?;
        Some(format!(
            "{title} : MUX protocol '{proto}' is not usable for 'bind {}' at [{}:{}].",
            x.shown, x.file, x.line
        ))
    });
    let servers = b.p.servers.iter().filter_map(|s| {
        let proto = s.rare().proto.as_deref().filter(|proto| !usable.contains(proto))?;
        Some(format!(
            "{title} : MUX protocol '{proto}' is not usable for server '{}' at [{}:{}].",
            s.name, s.file, s.line
        ))
    });
    let checked = b.p.servers.iter().filter(|s| is_checked_otherwise(&b.p, s)).map(|s| {
        format!(
            "backend '{}': server '{}' uses an incompatible MUX protocol for the selected check type",
            b.p.name, s.name
        )
    });
    for message in binds.chain(servers).chain(checked) {
        cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, None, message));
    }
}

/// The section or its presets chose a format.
fn explicit_format(b: &Building) -> bool {
    b.log_format.is_some() || b.log_format_sd.is_some()
}

fn missing_timeouts(cx: &mut Cx<'_>, b: &Building) {
    let t = &b.p.timeouts;
    let frontend = b.p.is_fe() && t.client.is_none();
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
    let rules = &b.p.rules;
    for (rules, name) in [(&rules.tcp_content_req, "tcp-request"), (&rules.tcp_content_res, "tcp-response")] {
        if !rules.is_empty() {
            let message =
                format!("Cannot use {name} rules with 'mode log' in {title}. They will be ignored.");
            cx.diagnostics.push(Diagnostic::new(Severity::Warning, Lead::Bare, Some(b.span), message));
        }
    }
    let mut refuse = |message: String| {
        cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, Some(b.span), message));
    };
    if matches!(b.balance_expr, Some((_, _, true))) {
        if b.p.balance.hash.method == HashMethod::Consistent {
            refuse(format!("{title} : 'balance log-hash' only works with 'hash-type map-based'."));
        }
    } else if !is_for_logs(&b.p.balance.algo) {
        let names = listed_for_logs();
        refuse(format!("in {title}: \"balance\" only supports {names}."));
    }
    if let Some(other) = b.p.servers.iter().find(|s| s.rare().datagram != b.p.servers[0].rare().datagram) {
        refuse(format!(
            "log backend '{}': failed to initialize: cannot mix server types within a log backend, '{}' srv's network type \
             differs from previous server.",
            b.p.name, other.name
        ));
    }
    for server in &b.p.servers {
        if !matches!(server.addr, ServerAddr::Tcp(_) | ServerAddr::Unix(_)) {
            refuse(format!(
                "{title} : server '{}': logs are sent to IP and unix addresses only.",
                server.name
            ));
        }
        if server.rare().datagram && server.rare().namespace.is_some() {
            refuse(format!(
                "{title} : server '{}': datagrams are not sent from another network namespace.",
                server.name
            ));
        }
        if server.rare().log_bufsize.is_some_and(|bytes| bytes < LOG_BUFSIZE_MIN) {
            refuse(format!("unable to create a new sink buffer for server '{}/{}'.", b.p.name, server.name));
        }
    }
}

/// The least that `log-bufsize` may be.
const LOG_BUFSIZE_MIN: u32 = 256;

/// What a TCP proxy cannot do.
fn needs_http(cx: &mut Cx<'_>, b: &mut Building) {
    let title = b.title();
    let ignored = |what: &str| format!("{what} ignored for {title} as it requires HTTP mode.");
    let mut said = Vec::new();
    if b.p.cookie.take().is_some() && b.p.is_be() {
        said.push(format!("cookie will be ignored for {title} (needs 'mode http')."));
    }
    if b.p.monitor_uri.take().is_some() && b.p.is_fe() {
        said.push(ignored("'monitor-uri' statement"));
    }
    if b.p.cookie_capture.take().is_some() {
        said.push(ignored("'capture' statement"));
    }
    // Without HTTP they do nothing, so they are taken away, and the ones in force are named.
    let (fe, be) = (b.p.is_fe(), b.p.is_be());
    let opts = &mut b.p.opts;
    let named = [
        (&mut opts.accept_unsafe_req, fe, "accept-unsafe-violations-in-http-request"),
        (&mut opts.accept_unsafe_res, be, "accept-unsafe-violations-in-http-response"),
        (&mut opts.checkcache, be, "checkcache"),
        (&mut opts.disable_h2_upgrade, fe, "disable-h2-upgrade"),
        (&mut opts.http_buffer_request, true, "http-buffer-request"),
        (&mut opts.http_drop_request_trailers, be, "http-drop-request-trailers"),
        (&mut opts.http_drop_response_trailers, fe, "http-drop-response-trailers"),
        (&mut opts.http_ignore_probes, fe, "http-ignore-probes"),
        (&mut opts.http_no_delay, true, "http-no-delay"),
        (&mut opts.http_strict, true, "http-strict"),
        (&mut opts.http_pretend_keepalive, be, "http-pretend-keepalive"),
        (&mut opts.http_use_proxy_header, fe, "http-use-proxy-header"),
        (&mut opts.idle_close_on_response, fe, "idle-close-on-response"),
        (&mut opts.prefer_last_server, be, "prefer-last-server"),
    ];
    for (place, here, name) in named {
        if std::mem::take(place) && here {
            said.push(ignored(&format!("'option {name}'")));
        }
    }
    for (on, name) in [
        (b.p.forwardfor.take().is_some(), "forwardfor"),
        (b.p.originalto.take().is_some(), "originalto"),
        (b.forwarded.take().is_some() && be, "forwarded"),
    ] {
        if on {
            said.push(ignored(&format!("'option {name}'")));
        }
    }
    if let BalanceAlgo::Key(key) = &b.p.balance.algo
        && key.needs_request()
        && b.p.is_be()
    {
        said.push(format!(
            "Layer 7 hash not possible for {title} (needs 'mode http'). Falling back to round robin."
        ));
        b.p.balance.algo = BalanceAlgo::Servers(Algorithm::RoundRobin);
    }
    if let Some(name) = b.p.source.as_mut().and_then(|source| no_header(Arc::make_mut(source))) {
        said.push(format!("{title} : ignoring use of header {name} as source IP in non-HTTP mode."));
    }
    for server in &mut b.p.servers {
        let name = Arc::clone(&server.name);
        if server.cookie.is_some() {
            said.push(format!("{title}: ignoring cookie for server '{name}' as HTTP mode is disabled."));
        }
        let from_header = |extra: &Arc<SlowSettings>| {
            matches!(extra.source, Some(SourceAddress { mode: SourceMode::Header(_), .. }))
        };
        if let Some(extra) = server.extra.as_mut().filter(|extra| from_header(extra))
            && let Some(header) = Arc::make_mut(extra).source.as_mut().and_then(no_header)
        {
            said.push(format!(
                "{title} : server {name} cannot use header {header} as source IP in non-HTTP mode."
            ));
        }
    }
    for message in said {
        warn(cx, b, message);
    }
}

/// A source without a request to take it from is the address that stands before `usesrc`. Gives the name of the field.
fn no_header(source: &mut SourceAddress) -> Option<Arc<str>> {
    match std::mem::replace(&mut source.mode, SourceMode::Own) {
        SourceMode::Header(header) => Some(header.name),
        mode => {
            source.mode = mode;
            None
        }
    }
}

pub(crate) fn server(cx: &mut Cx<'_>, b: &mut Building, index: usize) {
    let backend = std::sync::Arc::clone(&b.p.name);
    let server = &mut b.p.servers[index];
    if server.rare().adaptive_maxconn {
        server.maxconn = server.maxconn.max(server.minconn);
        server.minconn = server.minconn.max(1);
        if server.maxconn == 0 {
            let message = format!(
                "[{}:{}] : 'server {backend}/{}' : 'adaptive-maxconn' needs a 'maxconn', above which the limit does not grow.",
                server.file, server.line, server.name
            );
            cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, None, message));
        }
    } else if server.minconn >= server.maxconn {
        // A minimum alone is both limits at once: nothing follows the load.
        (server.maxconn, server.minconn) = (server.minconn.max(server.maxconn), 0);
    }
    let place = format!("[{}:{}]", server.file, server.line);
    if server.rare().adaptive_maxconn {
        b.p.rare_mut().adapts_limits = true;
    }
    if b.p.servers[index].rare().tfo {
        let on = &b.p.retry_on;
        if !(on.conn_failure && on.empty_response && on.response_timeout) {
            let message = format!(
                "{place} : 'server {backend}/{}' : server has tfo activated, the backend should be configured with at least \
                 'conn-failure', 'empty-response' and 'response-timeout' or we wouldn't be able to retry the connection on \
                 failure.",
                b.p.servers[index].name
            );
            cx.diagnostics.push(Diagnostic::new(Severity::Warning, Lead::Bare, None, message));
        }
    }
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
