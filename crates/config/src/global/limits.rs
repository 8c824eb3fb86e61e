//! Limits of the process.

use thalweg_syntax::{Line, TimeUnit};

use crate::build::Cx;
use crate::keyword::{Outcome, at_most, fail, pass_over};
use crate::numbers::{leading, lenient, time};

pub(crate) fn maxconn(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'maxconn' expects an integer argument."));
    }
    let text = line.text(1);
    let (value, rest) = leading(text);
    if !rest.is_empty() {
        return Err(fail(line, 1, format!("cannot parse 'maxconn' value '{text}', an integer is expected.")));
    }
    if cx.config.global.maxconn != 0 {
        cx.warn(line, 0, "'maxconn' already specified. Continuing.");
        return Ok(());
    }
    cx.config.global.maxconn = usize::try_from(value.min(i64::from(i32::MAX))).unwrap_or(0);
    cx.config.global.maxconn_set = value > 0;
    Ok(())
}

/// The limits that are plain numbers.
pub(crate) fn number(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let name = line.text(0);
    if line.words.len() < 2 {
        return Err(fail(line, 1, format!("'{name}' expects an integer argument.")));
    }
    let given = lenient(cx, line, 1);
    if name == "maxsslconn" && !(0..=i64::from(i32::MAX)).contains(&given) {
        return Err(fail(line, 1, format!("'{name}' expects a positive numeric value.")));
    }
    let value = u32::try_from(given).unwrap_or(0);
    let global = &mut cx.config.global;
    // The first one counts.
    let given = match name {
        "maxconnrate" => global.maxconnrate > 0,
        "maxsessrate" => global.maxsessrate > 0,
        // Here a second one is an error, and of the next the last one counts.
        "maxsslrate" if global.maxsslrate > 0 => {
            return Err(fail(line, 0, format!("'{name}' already specified. Continuing.")));
        }
        "maxsslrate" | "maxsslconn" => false,
        "maxpipes" => global.maxpipes > 0,
        "ulimit-n" => global.ulimit_n > 0,
        _ => global.fd_hard_limit.is_some(),
    };
    if given {
        cx.warn(line, 0, format!("'{name}' already specified. Continuing."));
        return Ok(());
    }
    match name {
        "maxconnrate" => global.maxconnrate = value,
        "maxsessrate" => global.maxsessrate = value,
        "maxsslconn" => global.maxsslconn = value,
        "maxsslrate" => global.maxsslrate = value,
        "maxpipes" => global.maxpipes = value,
        "ulimit-n" => global.ulimit_n = u64::from(value),
        _ => global.fd_hard_limit = (value > 0).then_some(u64::from(value)),
    }
    Ok(())
}

pub(crate) fn strict_limits(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 0)?;
    cx.config.global.strict_limits = true;
    Ok(())
}

pub(crate) fn spread_checks(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'spread-checks' expects an integer argument (0..50)."));
    }
    if cx.config.global.spread_checks != 0 {
        cx.warn(line, 0, "spread-checks already specified. Continuing.");
        return Ok(());
    }
    match u32::try_from(lenient(cx, line, 1)) {
        Ok(value @ 0..=50) => cx.config.global.spread_checks = value,
        _ => return Err(fail(line, 1, "'spread-checks' needs a positive value in range 0..50.")),
    }
    Ok(())
}

pub(crate) fn max_spread_checks(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'max-spread-checks' expects an integer argument (0..50)."));
    }
    let ms = time(cx, line, 1, TimeUnit::Milliseconds, "max-spread-checks")?;
    cx.config.global.max_spread_checks_ms = Some(ms);
    Ok(())
}

pub(crate) fn warn_blocked(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    pass_over(cx, line, 1, 1);
    let expects = "'warn-blocked-traffic-after' expects <time> as argument between 1 and 1000 ms.";
    if line.words.len() < 2 {
        return Err(fail(line, 1, expects));
    }
    match time(cx, line, 1, TimeUnit::Milliseconds, "warn-blocked-traffic-after")? {
        ms @ 1..=1000 => cx.config.global.warn_blocked_ms = ms as u32,
        _ => return Err(fail(line, 1, expects)),
    }
    Ok(())
}
