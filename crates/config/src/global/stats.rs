//! `stats socket`, `stats timeout`, `stats maxconn`: the runtime CLI's own listeners.

use thalweg_syntax::{Line, TimeError};

use crate::bind::{BindContext, parse_addresses, parse_options};
use crate::build::Cx;
use crate::keyword::{Outcome, fail, not_supported, pass_over};
use crate::model::CliLevel;
use crate::numbers::{count, duration_ms, lenient};

pub(crate) fn stats(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    match line.text(1) {
        "socket" => socket(cx, line),
        "timeout" => timeout(cx, line),
        "maxconn" => {
            pass_over(cx, line, 2, 1);
            match count(lenient(cx, line, 2)) {
                Some(count) if count > 0 => cx.config.global.stats_maxconn = count,
                _ => return Err(fail(line, 2, "'stats maxconn' expects a positive value")),
            }
            Ok(())
        }
        "bind-process" => Err(fail(line, 1, "'stats bind-process' is not supported anymore.")),
        "calculate-max-counters" => match line.text(2) {
            "on" => Ok(()),
            "off" => Err(not_supported(
                line,
                2,
                "stats calculate-max-counters off",
                "maxima cost nothing here and are always kept",
            )),
            other => Err(fail(
                line,
                2,
                format!("'stats calculate-max-counters' expects 'on' or 'off', got '{other}'"),
            )),
        },
        other => Err(fail(
            line,
            1,
            format!(
                "'stats' only supports 'socket', 'maxconn', 'bind-process', 'calculate-max-counters'  and 'timeout' \
                 (got '{other}')"
            ),
        )),
    }
}

fn timeout(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    pass_over(cx, line, 2, 1);
    let text = line.text(2);
    match duration_ms(cx, line, 2) {
        Ok(0) => Err(fail(line, 2, "'stats timeout' : a positive value is expected")),
        Ok(ms) => {
            cx.config.global.stats_timeout_ms = Some(ms);
            Ok(())
        }
        Err(TimeError::Overflow) => Err(fail(
            line,
            2,
            format!(
                "timer overflow in argument '{text}' to 'stats timeout' (maximum value is 2147483647 ms or ~24.8 days)"
            ),
        )),
        Err(TimeError::Underflow) => Err(fail(
            line,
            2,
            format!(
                "timer underflow in argument '{text}' to 'stats timeout' (minimum non-null value is 1 ms)"
            ),
        )),
        Err(TimeError::Empty) => Err(fail(line, 2, "'stats timeout' : expects a duration")),
        Err(TimeError::Unexpected(at) | TimeError::Trailing(at)) => {
            let c = text[at..].chars().next().unwrap_or('?');
            Err(fail(line, 2, format!("'stats timeout' : unexpected character '{c}'")))
        }
    }
}

fn socket(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    if line.words.len() < 3 {
        return Err(fail(
            line,
            2,
            "'stats socket' in global section expects an address or a path to a UNIX socket",
        ));
    }
    let context = BindContext::StatsSocket;
    let mut binds = parse_addresses(cx, line, 2, &context)?;
    // A socket without a level gives the rights of an operator, whatever its kind.
    for bind in &mut binds {
        bind.level = CliLevel::Operator;
    }
    parse_options(cx, line, 3, &context, &mut binds)?;
    cx.cli.get_or_insert(line.span());
    for mut bind in binds {
        let known = cx.reader.environment.get("HAPROXY_CLI").map(|known| [known, b";"].concat());
        let known = [known.unwrap_or_default(), bind.addr.to_string().into_bytes()].concat();
        cx.reader.environment.set("HAPROXY_CLI", known);
        bind.uid = cx.config.global.stats_sockets.len() as u32 + 1;
        cx.config.global.stats_sockets.push(bind);
    }
    Ok(())
}
