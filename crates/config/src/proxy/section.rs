//! The lines that open a section, and what a proxy inherits.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use thalweg_syntax::{Diagnostic, Lead, Line};

use crate::build::{Building, Cx, DefaultsSection, StateSource};
use crate::keyword::{fail, legal_name};
use crate::model::{
    Balance, HashKey, KeepAliveProbe, LogFormats, Mode, Places, PoolConfig, PortMode, Proxy, ProxyHeader,
    ProxyId, ProxyKind, ProxyOptions, RetryOn, Reuse, Rules, Server, ServerAddr, ServerId, Timeouts,
};
use crate::outline::Said;
use crate::presets::Presets;

/// Opens a section of a kind: `frontend <name> [from <defaults>]` and the others.
pub(crate) fn open(cx: &mut Cx<'_>, line: &Line, kind: ProxyKind) -> Result<Building, Box<Diagnostic>> {
    let keyword = kind.keyword();
    let defaults = kind == ProxyKind::Defaults;
    cx.non_global_seen = true;
    if !defaults && line.words.len() < 2 {
        return Err(fail(line, 1, format!("'{keyword}' expects an <id> argument")));
    }
    let mut index = 1;
    let mut name = "";
    if !defaults || (line.text(1) != "from" || line.text(2) == "from") {
        name = line.text(1);
        index = 2;
    }
    if index == 2
        && let Err(complaint) = legal_name(line)
    {
        cx.diagnostics.push(*complaint);
    }
    let name = cx.name(name);
    // The section it takes its presets from: the last one, or the named one.
    let mut from = None;
    let is_named = line.text(index) == "from";
    if is_named {
        from = Some(named_defaults(cx, line, index + 1, &format!("{keyword} '{name}'"))?);
        index += 2;
    } else if !defaults {
        from = cx.defaults.last().cloned();
    }
    if line.words.len() > index {
        if defaults {
            // The reference reads no further than the name here.
            let message = format!("'{}' has no meaning here and is ignored", line.text(index));
            cx.diagnostics.push(Diagnostic::diag_at(line.span_at(index), message));
        } else if kind == ProxyKind::Backend {
            let message = format!("'backend' cannot handle unexpected argument '{}'.", line.text(index));
            cx.diagnostics.push(*fail(line, index, message));
        } else {
            let message = "please use the 'bind' keyword for listening addresses.";
            cx.diagnostics.push(*fail(line, index, message));
        }
    }
    if let Some(from) = &from {
        check_inheritance(cx, line, kind, from)?;
        if !defaults {
            note_use(cx, line, from, is_named);
        }
    }
    if !defaults {
        check_name(cx, line, kind, &name)?;
    }
    let file = cx.file_of(line);
    let mut b = match &from {
        Some(from) => from.building.heir(),
        None => fresh(line.span()),
    };
    let p = &mut b.p;
    p.kind = kind;
    p.name = name;
    p.file = file;
    p.line = line.number;
    b.span = line.span();
    b.from = from.filter(|f| f.building.has_rules);
    Ok(b)
}

/// The `defaults` section that is named at `at`, for the section that is shown like this.
fn named_defaults(
    cx: &mut Cx<'_>,
    line: &Line,
    at: usize,
    shown: &str,
) -> Result<Arc<DefaultsSection>, Box<Diagnostic>> {
    let wanted = line.text(at);
    let found: Vec<_> = cx.defaults.iter().filter(|d| d.name.as_deref() == Some(wanted)).collect();
    match found[..] {
        [] => Err(fail(line, at, format!("defaults section '{wanted}' not found for {shown}."))),
        [one] => Ok(Arc::clone(one)),
        [.., before, last] => {
            let file = |span: thalweg_syntax::Span| format!("{}:{}", cx.sources.name(span.file), span.line);
            let message = format!(
                "ambiguous defaults section name '{wanted}' referenced by {shown} exists at least at {} and {}.",
                file(last.span),
                file(before.span)
            );
            let last = Arc::clone(last);
            cx.diagnostics.push(Diagnostic::alert_at(line.span_at(at), message));
            Ok(last)
        }
    }
}

/// Warns of a `defaults` section that some proxies name and others have because it is the last one: which of them a new section
/// further up would change is easily overlooked.
fn note_use(cx: &mut Cx<'_>, line: &Line, from: &DefaultsSection, is_named: bool) {
    let (this, other) = if is_named { (&from.named, &from.implied) } else { (&from.implied, &from.named) };
    this.get_or_init(|| ());
    if other.get().is_some() {
        let message = format!(
            "defaults section '{}' (declared at {}) is explicitly referenced by another proxy and implicitly used here. \
             To avoid any ambiguity don't mix both usage. Add a last defaults section not explicitly used or always use \
             explicit references.",
            from.name.as_deref().unwrap_or_default(),
            from.place()
        );
        cx.diagnostics.push(Diagnostic::warning_at(line.span(), message));
    }
}

/// Who may inherit from a section that holds rules.
fn check_inheritance(
    cx: &Cx<'_>,
    line: &Line,
    kind: ProxyKind,
    from: &Arc<DefaultsSection>,
) -> Result<(), Box<Diagnostic>> {
    if !from.building.has_rules {
        return Ok(());
    }
    let at = from.place();
    let refuse = |what: &str| {
        let message = format!(
            "a {} section cannot inherit from a defaults section defining {what} rules (defaults section at {at}).",
            kind.keyword()
        );
        Err(fail(line, 0, message))
    };
    let other = match kind {
        ProxyKind::Frontend => ProxyKind::Backend,
        ProxyKind::Backend => ProxyKind::Frontend,
        ProxyKind::Listen => {
            let message = "a listen section cannot inherit from a defaults section defining TCP/HTTP rules.";
            return Err(fail(line, 0, message));
        }
        ProxyKind::Defaults => return refuse("TCP/HTTP"),
    };
    let is_heir = |b: &Building| b.from.as_ref().is_some_and(|f| Arc::ptr_eq(f, from));
    // Once it is compiled, its heirs are no longer among those that are being read.
    let by_frontends = from.compiled.get().is_some_and(|compiled| compiled.by_frontends);
    let is_mixed = cx.proxies.iter().any(|b| b.p.kind == other && is_heir(b))
        || by_frontends && other == ProxyKind::Frontend;
    if is_mixed {
        let message = format!(
            "frontends and backends cannot inherit from the same defaults section if it defines TCP/HTTP rules (defaults \
             section at {at})."
        );
        return Err(fail(line, 0, message));
    }
    match kind {
        ProxyKind::Frontend if from.has_rules_of("tcp-response", &["content"]) => {
            refuse("'tcp-response content'")
        }
        ProxyKind::Backend if from.has_rules_of("tcp-request", &["connection", "session"]) => {
            refuse("'tcp-request connection' or 'tcp-request session'")
        }
        _ => Ok(()),
    }
}

/// Refuses a name that another proxy has.
fn check_name(cx: &mut Cx<'_>, line: &Line, kind: ProxyKind, name: &Arc<str>) -> Result<(), Box<Diagnostic>> {
    let shown = |kind: ProxyKind| if kind == ProxyKind::Listen { "proxy" } else { kind.keyword() };
    let other = match cx.by_name.get(name) {
        Some(id) => {
            let other = &cx.proxies[id.0 as usize];
            let overlap =
                kind == ProxyKind::Listen || other.p.kind == ProxyKind::Listen || kind == other.p.kind;
            Some((shown(other.p.kind), other.span, overlap))
        }
        None => cx
            .defaults
            .iter()
            .find(|d| d.name.as_ref() == Some(name))
            .filter(|d| cx.defaults.last().is_some_and(|l| l.span == d.span) || line.text(2) == "from")
            .map(|d| ("defaults", d.span, false)),
    };
    let relay = || cx.log_forward_names.iter().find(|(other, _)| other == name);
    let other = other.or_else(|| relay().map(|(_, span)| ("log forward section", *span, true)));
    let Some((other, span, overlap)) = other else { return Ok(()) };
    let message = format!(
        "Parsing [{}:{}]: {} '{name}' has the same name as {other} '{name}' declared at {}:{}.{}",
        cx.sources.name(line.file),
        line.number,
        shown(kind),
        cx.sources.name(span.file),
        span.line,
        // Proxies on the same side never could share a name, the others could for a long time.
        if overlap { "" } else { " This is no longer supported as of 3.3. Please rename one or the other." },
    );
    let mut e = fail(line, 1, message);
    e.lead = Lead::Config;
    e.related.push((span, "the first one is here".to_owned()));
    Err(e)
}

/// A server of which nothing was said.
pub(crate) fn fresh_server() -> Server {
    let nothing: Arc<str> = Arc::from("");
    Server {
        id: ServerId(0),
        said: Said::default(),
        revision: 0,
        is_dynamic: false,
        uid: 0,
        uid_given: false,
        is_referenced: false,
        name: Arc::clone(&nothing),
        file: Arc::clone(&nothing),
        line: 0,
        addr: ServerAddr::Tcp(std::net::SocketAddr::from(([0, 0, 0, 0], 0))),
        port_mode: PortMode::Fixed,
        weight: 1,
        backup: false,
        disabled: false,
        rise: 2,
        fall: 3,
        maxconn: 0,
        minconn: 0,
        maxqueue: 0,
        cookie: None,
        cookie_is_dynamic: false,
        send_proxy: ProxyHeader::None,
        pool: PoolConfig::default(),
        hash_key: HashKey::Id,
        check: None,
        tls: None,
        extra: None,
    }
}

/// A section that inherits nothing. In one piece, as each field is said and nothing else.
pub(crate) fn fresh(span: thalweg_syntax::Span) -> Building {
    let nothing: Arc<str> = Arc::from("");
    let p = Proxy {
        id: ProxyId(0),
        uid: 0,
        uid_given: false,
        name: Arc::clone(&nothing),
        kind: ProxyKind::Defaults,
        mode: Mode::Tcp,
        file: nothing,
        line: 0,
        disabled: false,
        description: None,
        guid: None,
        is_referenced: false,
        said: Said::default(),
        is_dynamic: false,
        binds: Vec::new(),
        maxconn: 0,
        fe_sps_limit: 0,
        backlog: 0,
        default_backend: None,
        use_backend: Vec::new(),
        monitor_uri: None,
        monitor_fail: Vec::new(),
        force_be_switch: Vec::new(),
        rules: Rules::default(),
        inspect_delay_req_ms: None,
        inspect_delay_res_ms: None,
        timeouts: Timeouts::default(),
        opts: ProxyOptions::default(),
        cli_keepalive: KeepAliveProbe::default(),
        srv_keepalive: KeepAliveProbe::default(),
        forwardfor: None,
        originalto: None,
        forwarded: None,
        servers: Vec::new(),
        server_places: Places::default(),
        balance: Balance::default(),
        use_server: Vec::new(),
        persist_rules: Vec::new(),
        stick_rules: Vec::new(),
        cookie: None,
        dynamic_cookie_key: None,
        persist_rdp_cookie: None,
        source: None,
        fullconn: 0,
        retries: 3,
        retry_on: RetryOn::default(),
        http_reuse: Reuse::Safe,
        max_keep_alive_queue: -1,
        http_send_name_header: None,
        unpublished: false,
        errors: None,
        log_targets: Arc::from([]),
        formats: LogFormats::default(),
        log_tag: None,
        log_steps: Arc::from([]),
        filters: None,
        request_captures: Arc::from([]),
        response_captures: Arc::from([]),
        cookie_capture: None,
        unique_id_format: None,
        unique_id_header: None,
        stats: None,
        check: None,
        extra: None,
    };
    Building {
        p,
        span,
        presets: Presets::none(),
        email: Default::default(),
        log_format: None,
        error_log_format: None,
        log_format_sd: None,
        unique_id: None,
        balance_expr: None,
        default_backend: None,
        error_rules: Vec::new(),
        drafts: None,
        order: crate::proxy::Order::default(),
        decided: Default::default(),
        from: None,
        has_rules: false,
        bind_seen: false,
        stats_here: false,
        timeouts_here: 0,
        mode_here: false,
        forwarded: None,
        check: Arc::default(),
        late: Vec::new(),
        filter_names: Vec::new(),
        whose: Default::default(),
        server_names: HashMap::new(),
        datagram_servers: false,
        tracks: Vec::new(),
        resolutions: Vec::new(),
        named: Vec::new(),
        state_source: StateSource::default(),
        state_file: None,
        healthchecks: Vec::new(),
        proxy_fields: Vec::new(),
        pool_names: Vec::new(),
        certificates: Vec::new(),
    }
}

/// Closes a section: it becomes a preset or a proxy.
pub(crate) fn close(cx: &mut Cx<'_>, mut b: Building) {
    if b.p.kind == ProxyKind::Defaults {
        let name = (!b.p.name.is_empty()).then(|| Arc::clone(&b.p.name));
        let span = b.span;
        let compiled = OnceLock::new();
        cx.defaults.push(Arc::new(DefaultsSection {
            name,
            building: b,
            span,
            compiled,
            named: OnceLock::new(),
            implied: OnceLock::new(),
        }));
        return;
    }
    let id = ProxyId(cx.proxies.len() as u32);
    b.p.id = id;
    b.server_names = HashMap::new();
    if b.presets.is_set || !b.presets.named.is_empty() {
        b.p.rare_mut().presets = Some(b.presets.clone());
    }
    b.p.servers.shrink_to_fit();
    b.p.binds.shrink_to_fit();
    cx.by_name.entry(Arc::clone(&b.p.name)).or_insert(id);
    cx.proxies.push(b);
}
