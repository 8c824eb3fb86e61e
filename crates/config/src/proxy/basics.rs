//! Identity, limits and the keywords that are a word and a value.

use thalweg_syntax::{Line, TimeUnit};

use crate::build::{Building, Cx};
use crate::global::rest_of;
use crate::keyword::{NoteBoxed, Outcome, at_most, fail, not_supported, pass_over};
use crate::model::{Mode, ProxyKind, Reuse, Zone};
use crate::numbers::{count as count31, lenient, time};

/// Refuses a keyword in `defaults`.
pub(crate) fn not_in_defaults(b: &Building, line: &Line) -> Outcome {
    if b.p.kind == ProxyKind::Defaults {
        return Err(fail(line, 0, format!("'{}' not allowed in 'defaults' section.", line.text(0))));
    }
    Ok(())
}

pub(crate) fn mode(_: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let text = line.text(1);
    let mode = match text {
        "tcp" => Mode::Tcp,
        "http" => Mode::Http,
        "log" if b.may_be_backend() => Mode::Log,
        "log" => {
            return Err(fail(line, 1, "mode syslog is only applicable on proxies with backend capability."));
        }
        "health" => {
            return Err(fail(
                line,
                1,
                "'mode health' doesn't exist anymore. Please use 'http-request return status 200' instead.",
            ));
        }
        "spop" | "haterm" => {
            return Err(not_supported(line, 1, &format!("mode {text}"), "only tcp, http and log are built"));
        }
        _ => return Err(fail(line, 1, format!("unknown proxy mode '{text}'."))),
    };
    at_most(line, 1, 1)?;
    b.p.mode = mode;
    b.mode_here = true;
    Ok(())
}

pub(crate) fn id(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    not_in_defaults(b, line)?;
    at_most(line, 1, 1)?;
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'id' expects an integer argument."));
    }
    let uid = count31(lenient(cx, line, 1)).unwrap_or(0);
    if uid == 0 {
        return Err(fail(line, 1, "custom id has to be > 0."));
    }
    // A second `id` in the same section is as wrong.
    let other = (b.p.uid != 0).then_some(&*b).or(cx.proxies.iter().find(|p| p.p.uid == uid));
    if let Some(other) = other {
        let message = format!(
            "{} {} reuses same custom id as {} {} (declared at {}:{}).",
            b.kind_shown(),
            b.p.name,
            other.kind_shown(),
            other.p.name,
            cx.sources.name(other.span.file),
            other.span.line
        );
        return Err(fail(line, 1, message));
    }
    b.p.uid = uid;
    Ok(())
}

pub(crate) fn description(_: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    not_in_defaults(b, line)?;
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'description' expects a string argument."));
    }
    b.p.description = Some(rest_of(line, 1).into());
    Ok(())
}

/// `disabled` and `enabled`.
pub(crate) fn disabled(_: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    at_most(line, 1, 0)?;
    b.p.disabled = line.text(0) == "disabled";
    Ok(())
}

/// Characters of the longest identifier.
pub(crate) const GUID_LEN_MAX: usize = 127;

/// Which character of an identifier is not allowed.
pub(crate) fn legal_guid(text: &str) -> Result<(), char> {
    let legal = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    text.chars().find(|c| !legal(c)).map_or(Ok(()), Err)
}

/// Reserves the identifier at `index`, refused when it is in use.
pub(crate) fn claim_guid(cx: &mut Cx<'_>, line: &Line, index: usize) -> Outcome {
    if line.text(index).len() > GUID_LEN_MAX {
        return Err(fail(line, index, "'guid': invalid length")
            .note_boxed(format!("an identifier has at most {GUID_LEN_MAX} characters")));
    }
    let guid = cx.name(line.text(index));
    if let Some(first) = cx.guids.insert(guid, line.span_at(index)) {
        let message =
            format!("'guid': duplicate entry with the one at {}:{}", cx.sources.name(first.file), first.line);
        return Err(fail(line, index, message));
    }
    Ok(())
}

pub(crate) fn guid(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    if b.p.kind == ProxyKind::Defaults {
        return Err(fail(line, 0, "'guid' not allowed in 'defaults' section."));
    }
    pass_over(cx, line, 1, 1);
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'guid' : expects an argument"));
    }
    legal_guid(line.text(1)).map_err(|c| fail(line, 1, format!("'guid': invalid character '{c}'")))?;
    claim_guid(cx, line, 1)?;
    b.p.guid = Some(cx.name(line.text(1)));
    Ok(())
}

/// `maxconn`, `backlog`, `fullconn`, `retries`.
pub(crate) fn count(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let name = line.text(0);
    match name {
        "maxconn" => b.needs_frontend(cx, line, name, " Maybe you want 'fullconn' instead ?"),
        "fullconn" => b.needs_backend(cx, line, name, " Maybe you want 'maxconn' instead ?"),
        "backlog" => b.needs_frontend(cx, line, name, ""),
        _ => b.needs_backend(cx, line, name, ""),
    }
    if line.words.len() < 2 {
        let what = if name == "retries" { " (dispatch counts for one)" } else { "" };
        return Err(fail(line, 1, format!("'{name}' expects an integer argument{what}.")));
    }
    let value = u32::try_from(lenient(cx, line, 1)).unwrap_or(0);
    at_most(line, 1, 1)?;
    match name {
        "maxconn" => b.p.maxconn = value,
        "fullconn" => b.p.fullconn = value,
        "backlog" => b.p.backlog = value,
        _ => b.p.retries = u16::try_from(value).unwrap_or(u16::MAX),
    }
    Ok(())
}

/// `retry-budget <percentage>` (ours).
pub(crate) fn retry_budget(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_backend(cx, line, "retry-budget", "");
    at_most(line, 1, 1)?;
    let text = line.text(1);
    let percent = text.strip_suffix('%').unwrap_or(text).parse().ok().filter(|percent| *percent <= 100);
    let usage = || fail(line, 1, "'retry-budget' expects a percentage of the requests, 0 to 100.");
    b.p.rare_mut().retry_budget = Some(percent.ok_or_else(usage)?);
    Ok(())
}

/// `zone <name> [spill-over <percentage>]` (ours).
pub(crate) fn zone(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_backend(cx, line, "zone", "");
    if line.text(1).is_empty() {
        return Err(fail(line, 1, "'zone' expects a name."));
    }
    let spill_over = match line.text(2) {
        "" => ZONE_SPILL_OVER,
        "spill-over" => {
            let text = line.text(3);
            let percent =
                text.strip_suffix('%').unwrap_or(text).parse().ok().filter(|percent| *percent <= 100);
            percent.ok_or_else(|| fail(line, 3, "'zone ... spill-over' expects a percentage, 0 to 100."))?
        }
        other => {
            return Err(fail(
                line,
                2,
                format!("'zone' expects 'spill-over' after the name, but got '{other}'."),
            ));
        }
    };
    at_most(line, 1, 3)?;
    b.p.rare_mut().zone = Some(Zone { name: cx.name(line.text(1)), spill_over });
    Ok(())
}

/// How much of a zone must be usable to keep all requests, in percent, unless its line says it.
const ZONE_SPILL_OVER: u32 = 70;

pub(crate) fn rate_limit(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let kind = line.text(1);
    if kind != "sessions" {
        return Err(fail(line, 1, format!("'rate-limit' only supports 'sessions' (got '{kind}')")));
    }
    if line.words.len() < 3 {
        return Err(fail(
            line,
            2,
            "'rate-limit sessions' expects expects an integer value (in sessions/second)",
        ));
    }
    let before = std::mem::replace(&mut b.p.fe_sps_limit, wrapping(cx, line, 2, "rate-limit sessions")?);
    if before != 0 && b.may_be_frontend() && b.p.kind != ProxyKind::Defaults {
        cx.warn(line, 0, "overwriting rate-limit sessions which was already specified");
    }
    if !b.may_be_frontend() {
        cx.warn(
            line,
            0,
            format!("rate-limit sessions will be ignored because {} has no frontend capability", b.title()),
        );
    }
    Ok(())
}

/// A number of which every character is a digit, after a sign. The reference wraps what does not fit in 32 bits, so that
/// -1 is the greatest value: it is taken as such, with a warning.
fn wrapping(
    cx: &mut Cx<'_>,
    line: &Line,
    index: usize,
    name: &str,
) -> Result<u32, Box<thalweg_syntax::Diagnostic>> {
    let text = line.text(index);
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if let Some(c) = digits.chars().find(|c| !c.is_ascii_digit()) {
        return Err(fail(
            line,
            index,
            format!("'{name}' : unexpected character '{c}' in integer value '{text}'"),
        ));
    }
    Ok(text.parse().unwrap_or_else(|_| {
        let message = format!("'{name}' : '{text}' does not fit in 32 bits and means no limit.");
        cx.warn(line, index, message);
        u32::MAX
    }))
}

pub(crate) fn max_session_srv_conns(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let name = "max-session-srv-conns";
    b.needs_frontend(cx, line, name, "");
    if line.words.len() < 2 {
        return Err(fail(line, 1, format!("'{name}' expects a number. Got no argument")));
    }
    pass_over(cx, line, 1, 1);
    // Less than none is none.
    let value = u32::try_from(lenient(cx, line, 1).max(0)).unwrap_or(u32::MAX);
    b.p.rare_mut().session_srv_conns = Some(value);
    Ok(())
}

pub(crate) fn max_keep_alive_queue(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let name = "max-keep-alive-queue";
    if line.words.len() < 2 {
        return Err(fail(line, 1, format!("'{name}' expects expects an integer value (or -1 to disable)")));
    }
    b.p.max_keep_alive_queue = match line.text(1) {
        "-1" => -1,
        _ => i32::try_from(wrapping(cx, line, 1, name)?).unwrap_or(i32::MAX),
    };
    if !b.may_be_backend() {
        cx.warn(line, 0, format!("{name} will be ignored because {} has no backend capability", b.title()));
    }
    Ok(())
}

/// `clitcpka-*` and `srvtcpka-*`.
pub(crate) fn keep_alive_probe(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let name = line.text(0);
    pass_over(cx, line, 1, 1);
    if line.words.len() < 2 {
        return Err(fail(line, 1, format!("'{name}' expects an integer value.")));
    }
    let value = if name.ends_with("-cnt") {
        wrapping(cx, line, 1, name)?
    } else {
        (time(cx, line, 1, TimeUnit::Seconds, name)? / 1000) as u32
    };
    let (ours, side) = if name.starts_with("cli") {
        (b.may_be_frontend(), "frontend")
    } else {
        (b.may_be_backend(), "backend")
    };
    if !ours {
        cx.warn(line, 0, format!("{name} will be ignored because {} has no {side} capability", b.title()));
    }
    let probe = if name.starts_with("cli") { &mut b.p.cli_keepalive } else { &mut b.p.srv_keepalive };
    match name.rsplit('-').next() {
        Some("cnt") => probe.cnt = value,
        Some("idle") => probe.idle_s = value,
        _ => probe.intvl_s = value,
    }
    Ok(())
}

pub(crate) fn log_tag(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    pass_over(cx, line, 1, 1);
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'log-tag' expects a tag for use in syslog."));
    }
    b.p.log_tag = Some(cx.name(line.text(1)));
    Ok(())
}

pub(crate) fn http_reuse(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_backend(cx, line, "http-reuse", "");
    b.p.http_reuse = match line.text(1) {
        "never" => Reuse::Never,
        "safe" => Reuse::Safe,
        "aggressive" => Reuse::Aggressive,
        "always" => Reuse::Always,
        _ => {
            return Err(fail(line, 1, "'http-reuse' only supports 'never', 'safe', 'aggressive', 'always'."));
        }
    };
    at_most(line, 2, 0)
}

pub(crate) fn retry_on(_: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    if !b.may_be_backend() {
        return Err(fail(line, 0, "'retry-on' only available in backend or listen section"));
    }
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'retry-on' needs at least one keyword to specify when to retry"));
    }
    let mut on = crate::model::RetryOn::NONE;
    if line.text(1) == "none" && line.words.len() == 2 {
        b.p.retry_on = on;
        return Ok(());
    }
    for index in 1..line.words.len() {
        match line.text(index) {
            "conn-failure" => on.conn_failure = true,
            "empty-response" => on.empty_response = true,
            "junk-response" => on.junk_response = true,
            "response-timeout" => on.response_timeout = true,
            "0rtt-rejected" => on.early_data_rejected = true,
            "all-retryable-errors" => {
                on.conn_failure = true;
                on.empty_response = true;
                on.junk_response = true;
                on.response_timeout = true;
                on.early_data_rejected = true;
                for status in [500, 502, 503, 504] {
                    on.add_status(status);
                }
            }
            "none" => return Err(fail(line, index, "'retry-on' 'none' keyword only usable alone")),
            other => {
                if !other.parse().is_ok_and(|status| on.add_status(status)) {
                    return Err(fail(line, index, format!("'retry-on': unknown keyword '{other}'")));
                }
            }
        }
    }
    b.p.retry_on = on;
    Ok(())
}

pub(crate) fn http_send_name_header(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_backend(cx, line, "http-send-name-header", "");
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'http-send-name-header' requires a header string."));
    }
    let name = line.text(1);
    let reserved = ["host", "content-length", "transfer-encoding", "connection"];
    if reserved.iter().any(|r| name.eq_ignore_ascii_case(r)) {
        return Err(fail(
            line,
            1,
            format!("'{name}' cannot be used as header name for 'http-send-name-header' directive."),
        ));
    }
    b.p.http_send_name_header = Some(line.words[1].bytes().into());
    pass_over(cx, line, 1, 1);
    Ok(())
}

pub(crate) fn be_unpublished(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    not_in_defaults(b, line)?;
    pass_over(cx, line, 1, 0);
    if !b.may_be_backend() {
        return Err(fail(line, 0, "'be-unpublished' only available in backend or listen section."));
    }
    b.p.unpublished = true;
    Ok(())
}

pub(crate) fn source(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_backend(cx, line, "source", "");
    if line.words.len() < 2 {
        let usage =
            "'source' expects <addr>[:<port>], and optionally 'usesrc' <addr>, and 'interface' <name>.";
        return Err(fail(line, 1, usage));
    }
    let (source, _) = crate::server_options::parse_source(cx, line, 0, "source", false)?;
    b.p.source = Some(std::sync::Arc::new(source));
    Ok(())
}
