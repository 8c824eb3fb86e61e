//! `option`, with `no` and `default` before it.

use std::sync::Arc;

use thalweg_syntax::{Line, did_you_mean};

use crate::build::{Building, Cx, FormatSource, ForwardedDraft, LogStyle};
use crate::keyword::{Outcome, Status, at_most, fail, find, not_supported};
use crate::model::{ForwardFor, Net, ProxyOptions, RestrictHeaderNames};
use crate::table::OPTION;

/// What the line asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionHow {
    On,
    /// `no option ...`
    Off,
    /// `default option ...`
    Default,
}

/// Which sections an option concerns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Frontend,
    Backend,
    Both,
}

/// What an option is.
#[derive(Clone, Copy)]
pub(crate) enum OptionKind {
    /// On or off, kept in this place.
    Flag(Side, fn(&mut ProxyOptions) -> &mut bool),
    /// Has arguments, or several effects; cannot be negated unless it says so itself.
    Other(fn(&mut Cx<'_>, &mut Building, &Line, OptionHow) -> Outcome),
}

/// One `option` line, without its prefix.
pub(crate) fn option_line(cx: &mut Cx<'_>, b: &mut Building, line: &Line, how: OptionHow) -> Outcome {
    let name = line.text(1);
    if name.is_empty() {
        return Err(fail(line, 1, "'option' expects an option name."));
    }
    let Some(keyword) = find(OPTION, name) else {
        if how != OptionHow::On {
            return Err(fail(line, 1, format!("negation/default is not supported for option '{name}'.")));
        }
        let near = did_you_mean(name, OPTION.iter().map(|k| k.name));
        let hint = near.map_or(String::from("."), |n| format!("; did you mean '{n}' maybe ?"));
        return Err(fail(line, 1, format!("unknown option '{name}'{hint}")));
    };
    match keyword.status {
        Status::NotYet(why) => Err(not_supported(line, 1, &format!("option {name}"), why)),
        Status::Removed(sentence) => Err(fail(line, 1, sentence)),
        Status::Works(OptionKind::Flag(side, place)) => {
            at_most(line, 2, 0)?;
            let (ignored, capability) = match side {
                Side::Frontend => (!b.may_be_frontend(), "frontend"),
                Side::Backend => (!b.may_be_backend(), "backend"),
                Side::Both => (false, ""),
            };
            if ignored {
                // The reference warns and then refuses the option as unknown.
                cx.warn(
                    line,
                    1,
                    format!("'{name}' ignored because {} has no {capability} capability.", b.title()),
                );
                return Err(fail(line, 1, format!("unknown option '{name}'; did you mean '{name}' maybe ?")));
            }
            *place(&mut b.p.opts) = how == OptionHow::On;
            match name {
                "abortonclose" => b.decided.abortonclose = how != OptionHow::Default,
                "tcp-smart-accept" => b.decided.tcp_smart_accept = how != OptionHow::Default,
                _ => {}
            }
            Ok(())
        }
        Status::Works(OptionKind::Other(parse)) => parse(cx, b, line, how),
    }
}

fn no_negation(line: &Line, how: OptionHow) -> Outcome {
    if how == OptionHow::On {
        return Ok(());
    }
    Err(fail(line, 1, format!("negation/default is not supported for option '{}'.", line.text(1))))
}

/// `http-keep-alive`, `http-server-close`, `httpclose`: the last one given wins.
pub(crate) fn connection_mode(_: &mut Cx<'_>, b: &mut Building, line: &Line, how: OptionHow) -> Outcome {
    at_most(line, 2, 0)?;
    if how == OptionHow::Default {
        return no_negation(line, how);
    }
    let name = line.text(1);
    let opts = &mut b.p.opts;
    let current = match (opts.httpclose, opts.http_server_close) {
        (true, _) => "httpclose",
        (_, true) => "http-server-close",
        _ => "http-keep-alive",
    };
    if how == OptionHow::On || current == name {
        opts.httpclose = how == OptionHow::On && name == "httpclose";
        opts.http_server_close = how == OptionHow::On && name == "http-server-close";
    }
    Ok(())
}

pub(crate) fn tcpka(_: &mut Cx<'_>, b: &mut Building, line: &Line, how: OptionHow) -> Outcome {
    at_most(line, 2, 0)?;
    no_negation(line, how)?;
    if b.may_be_frontend() {
        b.p.opts.tcpka_cli = true;
    }
    if b.may_be_backend() {
        b.p.opts.tcpka_srv = true;
    }
    Ok(())
}

/// `httplog [clf|json]`, `httpslog`, `tcplog [clf]`.
pub(crate) fn log_format(cx: &mut Cx<'_>, b: &mut Building, line: &Line, how: OptionHow) -> Outcome {
    no_negation(line, how)?;
    let name = line.text(1);
    let style = match (name, line.text(2)) {
        (_, "") => LogStyle::Usual,
        ("httplog" | "tcplog", "clf") => {
            at_most(line, 3, 0)?;
            LogStyle::Clf
        }
        ("httplog", "json") => {
            at_most(line, 3, 0)?;
            LogStyle::Json
        }
        ("httplog", _) => {
            return Err(fail(line, 2, "keyword 'httplog' only supports options 'clf' and 'json'."));
        }
        ("tcplog", _) => {
            return Err(fail(line, 2, "keyword 'tcplog' only supports option 'clf'."));
        }
        _ => return at_most(line, 2, 0),
    };
    if !b.may_be_frontend() {
        cx.warn(line, 1, format!("{} : 'option {name}' directive is ignored in backends.", b.title()));
        return Ok(());
    }
    let format = match name {
        "httplog" => FormatSource::HttpLog { style, span: line.span_at(1) },
        "httpslog" => FormatSource::HttpLog { style: LogStyle::Tls, span: line.span_at(1) },
        _ => FormatSource::TcpLog { clf: style == LogStyle::Clf },
    };
    crate::proxy::choose_format(cx, b, line, format);
    Ok(())
}

/// `redispatch [n]`
pub(crate) fn redispatch(cx: &mut Cx<'_>, b: &mut Building, line: &Line, how: OptionHow) -> Outcome {
    if !b.may_be_backend() {
        cx.warn(line, 1, format!("'redispatch' ignored because {} has no backend capability.", b.title()));
        return Ok(());
    }
    if how != OptionHow::On {
        at_most(line, 2, 0)?;
        b.p.opts.redispatch = None;
        return Ok(());
    }
    let interval = match line.text(2) {
        "" => -1,
        text => crate::numbers::leading(text).0 as i32,
    };
    b.p.opts.redispatch = (interval != 0).then_some(interval);
    Ok(())
}

/// `forwardfor` and `originalto`.
pub(crate) fn forward(_: &mut Cx<'_>, b: &mut Building, line: &Line, how: OptionHow) -> Outcome {
    let name = line.text(1);
    no_negation(line, how)?;
    let usual: &[u8] = if name == "forwardfor" { b"X-Forwarded-For" } else { b"X-Original-To" };
    let mut forward = ForwardFor { header: usual.into(), except: None, if_none: false };
    let mut at = 2;
    while at < line.words.len() {
        match line.text(at) {
            "except" => {
                let usage = || {
                    fail(
                        line,
                        at + 1,
                        format!("'option {name} except' expects <address>[/mask] as argument."),
                    )
                };
                forward.except = Some(net(line.text(at + 1)).ok_or_else(usage)?);
                at += 2;
            }
            "header" => {
                let Some(word) = line.word(at + 1) else {
                    return Err(fail(
                        line,
                        at + 1,
                        format!("'option {name} header' expects <header_name> as argument."),
                    ));
                };
                forward.header = word.bytes().into();
                at += 2;
            }
            "if-none" if name == "forwardfor" => {
                forward.if_none = true;
                at += 1;
            }
            _ => {
                let values = if name == "forwardfor" {
                    "'except', 'header' and 'if-none'"
                } else {
                    "'except' and 'header'"
                };
                return Err(fail(
                    line,
                    at,
                    format!("'option {name}' only supports optional values: {values}."),
                ));
            }
        }
    }
    let forward = Some(Arc::new(forward));
    if name == "forwardfor" {
        b.p.forwardfor = forward;
    } else {
        b.p.originalto = forward;
    }
    Ok(())
}

/// `<address>[/<prefix length or IPv4 mask>]`
pub(crate) fn net(text: &str) -> Option<Net> {
    let (addr, mask) = text.split_once('/').map_or((text, None), |(a, m)| (a, Some(m)));
    let addr: std::net::IpAddr = addr.parse().ok()?;
    let full = if addr.is_ipv4() { 32 } else { 128 };
    let bits = match mask {
        None => full,
        Some(m) => match m.parse::<u8>() {
            Ok(bits) if bits <= full => bits,
            Ok(_) => return None,
            Err(_) => {
                let mask: std::net::Ipv4Addr = m.parse().ok()?;
                let ones = u32::from(mask).leading_ones();
                // A mask with holes is no prefix.
                if addr.is_ipv6() || u32::from(mask).count_ones() != ones {
                    return None;
                }
                ones as u8
            }
        },
    };
    Some(Net { addr, bits })
}

/// `forwarded`: kept as text until its expressions can be compiled.
pub(crate) fn forwarded(cx: &mut Cx<'_>, b: &mut Building, line: &Line, how: OptionHow) -> Outcome {
    if how == OptionHow::Default {
        return no_negation(line, how);
    }
    if how == OptionHow::Off {
        b.forwarded = None;
        return Ok(());
    }
    if !b.may_be_backend() {
        cx.warn(
            line,
            1,
            format!("'option forwarded' ignored because {} has no backend capability.", b.title()),
        );
        return Ok(());
    }
    let mut f = ForwardedDraft::default_at(line.span());
    if line.words.len() == 2 {
        f.proto = true;
        f.for_ = Some(None);
    }
    let mut at = 2;
    while at < line.words.len() {
        let name = line.text(at);
        let (slot, expression) = match name {
            "proto" => {
                f.proto = true;
                at += 1;
                continue;
            }
            "host" => (&mut f.host, false),
            "host-expr" => (&mut f.host, true),
            "by" => (&mut f.by, false),
            "by-expr" => (&mut f.by, true),
            "by_port" => (&mut f.by_port, false),
            "by_port-expr" => (&mut f.by_port, true),
            "for" => (&mut f.for_, false),
            "for-expr" => (&mut f.for_, true),
            "for_port" => (&mut f.for_port, false),
            "for_port-expr" => (&mut f.for_port, true),
            _ => {
                return Err(fail(
                    line,
                    at,
                    "'option forwarded' only supports optional values: 'proto', 'host', 'host-expr', 'by', 'by-expr', \
                     'by_port', 'by_port-expr', 'for', 'for-expr', 'for_port' and 'for_port-expr'.",
                ));
            }
        };
        *slot = Some(None);
        at += 1;
        if expression {
            if line.text(at).is_empty() {
                return Err(fail(line, at, format!("'{name}' expects <expr> as argument.")));
            }
            *slot = Some(Some(Arc::from(line.text(at))));
            at += 1;
        }
    }
    for (port, node, name) in
        [(f.by_port.is_some(), f.by.is_some(), "by"), (f.for_port.is_some(), f.for_.is_some(), "for")]
    {
        if port && !node {
            let message = format!(
                "'option forwarded' : '{name}_port-expr' will be ignored because both '{name}' and '{name}-expr' are unset"
            );
            cx.warn(line, 1, message);
        }
    }
    b.forwarded = Some(Arc::new(f));
    Ok(())
}

pub(crate) fn restrict_names(_: &mut Cx<'_>, b: &mut Building, line: &Line, how: OptionHow) -> Outcome {
    no_negation(line, how)?;
    b.p.opts.restrict_req_hdr_names = Some(match line.text(2) {
        "preserve" => RestrictHeaderNames::Preserve,
        "delete" => RestrictHeaderNames::Delete,
        "reject" => RestrictHeaderNames::Reject,
        other => {
            let message = format!(
                "invalid parameter '{other}'. option 'http-restrict-req-hdr-names' expects 'preserve', 'reject' or \
                 'delete' option."
            );
            return Err(fail(line, 2, message));
        }
    });
    at_most(line, 3, 0)
}

/// The older names of `accept-unsafe-violations-in-http-*`.
pub(crate) fn accept_invalid(cx: &mut Cx<'_>, b: &mut Building, line: &Line, how: OptionHow) -> Outcome {
    let name = line.text(1);
    let (new, place): (&str, &mut bool) = if name.ends_with("request") {
        ("accept-unsafe-violations-in-http-request", &mut b.p.opts.accept_unsafe_req)
    } else {
        ("accept-unsafe-violations-in-http-response", &mut b.p.opts.accept_unsafe_res)
    };
    at_most(line, 2, 0)?;
    *place = how == OptionHow::On;
    cx.warn(
        line,
        1,
        format!("option '{name}' is deprecated. please use 'option {new}' if absolutely needed."),
    );
    Ok(())
}
