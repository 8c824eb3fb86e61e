//! The `opentelemetry` section (ours): which requests are traced, and who is told.

use std::sync::Arc;

use thalweg_otel::Share;
use thalweg_rules::TraceBeginning;
use thalweg_syntax::{Diagnostic, Line, TimeUnit};

use crate::build::{Building, Cx};
use crate::keyword::{Outcome, at_most, fail};
use crate::meaning::Servers;
use crate::model::{OpenTelemetry, ProxyKind, ServerAddr};
use crate::numbers::{size, time};
use crate::ring;

/// Where collectors are asked over HTTP if no line says (OTLP specification, "OTLP/HTTP Default Port").
const PORT_USUAL: u16 = 4318;

/// How long spans wait for others if no line says, in milliseconds; as OpenTelemetry's own libraries have it.
const INTERVAL_USUAL_MS: u64 = 5_000;

/// How long a message may take if no line says, in milliseconds; as they have it, too.
const TIMEOUT_USUAL_MS: u64 = 10_000;

/// Bytes of spans that wait if no line says: some 4,000 of them.
const QUEUE_USUAL: usize = 4 << 20;

/// The most bytes of spans that may wait.
const QUEUE_MAX: u64 = 1 << 30;

/// The lines with one argument.
const KEYWORDS: [&str; 8] =
    ["service-name", "path", "sample", "client-context", "queue", "metrics", "interval", "timeout"];

/// The section while it is read. Its servers are those of a backend of the same name.
pub(crate) struct OpenTelemetryDraft {
    settings: OpenTelemetry,
    servers: Box<Building>,
}

pub(crate) fn open(cx: &mut Cx<'_>, line: &Line) -> Result<OpenTelemetryDraft, Box<Diagnostic>> {
    at_most(line, 1, 0)?;
    if !cx.options.opentelemetry {
        return Err(fail(
            line,
            0,
            "'opentelemetry' : this program was built without it (cargo feature 'opentelemetry').",
        ));
    }
    if let Some(other) = &cx.config.opentelemetry {
        let (file, number) = &other.place;
        return Err(fail(
            line,
            0,
            format!("there is an 'opentelemetry' section at {file}:{number} already."),
        ));
    }
    let mut servers = Box::new(crate::proxy::fresh(line.span()));
    servers.p.name = cx.name("opentelemetry");
    servers.p.kind = ProxyKind::Backend;
    servers.whose = Servers::Collectors;
    let settings = OpenTelemetry {
        servers: Vec::new(),
        service_name: cx.name("thalweg"),
        attributes: Vec::new(),
        headers: Vec::new(),
        path: cx.name(""),
        beginning: TraceBeginning { share: Share::ALL, continues: true },
        metrics_ms: None,
        interval_ms: INTERVAL_USUAL_MS,
        timeout_ms: TIMEOUT_USUAL_MS,
        queue_size: QUEUE_USUAL,
        place: (cx.name(cx.sources.name(line.file).to_owned().as_str()), line.number),
    };
    Ok(OpenTelemetryDraft { settings, servers })
}

pub(crate) fn line(cx: &mut Cx<'_>, draft: &mut OpenTelemetryDraft, line: &Line) -> Outcome {
    let settings = &mut draft.settings;
    let value = line.text(1);
    match line.text(0) {
        "server" => return ring::server(cx, &mut draft.servers, line, "collectors"),
        "attribute" => settings.attributes.push(pair(cx, line, "<key> and <value>")?),
        "header" => {
            let (name, value) = pair(cx, line, "<name> and <value>")?;
            if !is_field(&name, &value) {
                return Err(fail(
                    line,
                    1,
                    format!("'header' : '{name}' is no name of a field, or its value none of one."),
                ));
            }
            settings.headers.push((name, value));
        }
        keyword if value.is_empty() && KEYWORDS.contains(&keyword) => {
            return Err(fail(line, 1, format!("'{keyword}' expects an argument.")));
        }
        "service-name" => {
            settings.service_name = cx.name(value);
            at_most(line, 1, 1)?;
        }
        "path" => {
            let path = value.trim_end_matches('/');
            if !(path.is_empty() || path.starts_with('/'))
                || !path.bytes().all(|byte| byte.is_ascii_graphic())
            {
                return Err(fail(line, 1, "'path' expects a path that begins with '/'."));
            }
            settings.path = cx.name(path);
            at_most(line, 1, 1)?;
        }
        "sample" => {
            let share = Share::parse(value);
            settings.beginning.share = share.ok_or_else(|| {
                fail(line, 1, format!("'sample' expects a share from '0%' to '100%', not '{value}'."))
            })?;
            at_most(line, 1, 1)?;
        }
        "client-context" => {
            settings.beginning.continues = match value {
                "continue" => true,
                "ignore" => false,
                other => {
                    return Err(fail(
                        line,
                        1,
                        format!("'client-context' expects 'continue' or 'ignore', not '{other}'."),
                    ));
                }
            };
            at_most(line, 1, 1)?;
        }
        "queue" => {
            settings.queue_size = usize::try_from(size(line, 1, QUEUE_MAX, "queue")?).unwrap_or(QUEUE_USUAL)
        }
        "metrics" => settings.metrics_ms = Some(period(cx, line, "metrics")?),
        "interval" => settings.interval_ms = period(cx, line, "interval")?,
        "timeout" => settings.timeout_ms = period(cx, line, "timeout")?,
        other => return Err(fail(line, 0, format!("unknown keyword '{other}' in 'opentelemetry' section"))),
    }
    Ok(())
}

/// Two words behind the keyword.
fn pair(cx: &mut Cx<'_>, line: &Line, what: &str) -> Result<(Arc<str>, Arc<str>), Box<Diagnostic>> {
    let keyword = line.text(0);
    if line.text(1).is_empty() || line.words.len() < 3 {
        return Err(fail(line, line.words.len().min(2), format!("'{keyword}' expects {what} as arguments.")));
    }
    at_most(line, 1, 2)?;
    Ok((cx.name(line.text(1)), cx.name(line.text(2))))
}

/// Whether this can be sent as a field of a request and is none that its sender decides on.
fn is_field(name: &str, value: &str) -> bool {
    let own = ["host", "content-length", "content-type", "connection", "transfer-encoding"];
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !own.iter().any(|own| name.eq_ignore_ascii_case(own))
        && name.bytes().all(token)
        && value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

/// A time that is not zero, in milliseconds.
fn period(cx: &mut Cx<'_>, line: &Line, keyword: &str) -> Result<u64, Box<Diagnostic>> {
    let ms = time(cx, line, 1, TimeUnit::Milliseconds, keyword)?;
    at_most(line, 1, 1)?;
    match ms {
        0 => Err(fail(line, 1, format!("'{keyword}' expects a time that is not zero."))),
        ms => Ok(ms),
    }
}

pub(crate) fn close(cx: &mut Cx<'_>, draft: OpenTelemetryDraft) {
    if draft.servers.p.servers.is_empty() {
        // What could not be read may have been one.
        if cx.diagnostics.has_errors() {
            return;
        }
        let message = "'opentelemetry' : without a 'server' nobody is told.";
        cx.diagnostics.push(Diagnostic::alert_at(draft.servers.span, message));
        return;
    }
    cx.collectors = Some(draft.servers);
    cx.config.opentelemetry = Some(Arc::new(draft.settings));
}

/// Gives the section its servers, whose certificates and authorities are loaded by now.
pub(crate) fn settle(cx: &mut Cx<'_>, mut servers: Building) {
    for server in &mut servers.p.servers {
        if let ServerAddr::Tcp(address) = &mut server.addr
            && address.port() == 0
        {
            address.set_port(PORT_USUAL);
        }
    }
    if let Some(settings) = cx.config.opentelemetry.as_mut().and_then(Arc::get_mut) {
        settings.servers = servers.p.servers;
    }
}
