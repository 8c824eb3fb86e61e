//! `tune.h2.*`

use thalweg_syntax::Line;

use crate::build::Cx;
use crate::keyword::{Outcome, at_most, fail};
use crate::model::{H2Side, LogsErrors};
use crate::numbers::{lenient, size};

/// The settings of the side that a keyword names.
fn side<'a>(cx: &'a mut Cx<'_>, name: &str) -> Option<&'a mut H2Side> {
    let h2 = &mut cx.config.global.tune.h2;
    match name.strip_prefix("tune.h2.")?.split_once('.')?.0 {
        "fe" => Some(&mut h2.fe),
        "be" => Some(&mut h2.be),
        _ => None,
    }
}

/// Plain numbers, each with its range.
pub(crate) fn number(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    let name = line.text(0).to_owned();
    let last = name.rsplit('.').next().unwrap_or("");
    let with_load = name == "tune.h2.fe.max-concurrent-streams";
    at_most(line, 1, if with_load { 5 } else { 1 })?;
    let positive = "a positive numeric value.";
    let (least, greatest, expects) = match last {
        "header-table-size" => (4096, 65_536, "a numeric value between 4096 and 65536."),
        "max-frame-size" => (16_384, 16_777_215, "a numeric value between 16384 and 16777215."),
        "initial-window-size" => (0, i64::from(i32::MAX), positive),
        _ => (0, i64::from(u32::MAX), positive),
    };
    let value = lenient(cx, line, 1);
    let Some(value) = u32::try_from(value).ok().filter(|_| (least..=greatest).contains(&value)) else {
        return Err(fail(line, 1, format!("'{name}' expects {expects}")));
    };
    if with_load {
        load(cx, line, &name)?;
    }
    if let Some(side) = side(cx, &name) {
        match last {
            "initial-window-size" => side.initial_window = Some(value),
            "max-concurrent-streams" => side.max_concurrent_streams = Some(value),
            "glitches-threshold" => side.glitches_threshold = value,
            "max-frames-at-once" => side.frames_at_once = value,
            "max-rst-at-once" => cx.config.global.tune.h2.resets_at_once = value,
            _ => cx.config.global.tune.h2.total_streams = value,
        }
        return Ok(());
    }
    let h2 = &mut cx.config.global.tune.h2;
    match last {
        "header-table-size" => h2.header_table_size = value,
        "max-frame-size" => h2.max_frame_size = Some(value),
        "max-concurrent-streams" => h2.max_concurrent_streams = value,
        _ => h2.initial_window = value,
    }
    Ok(())
}

/// What may follow the number of streams: how the thread's load lowers it.
fn load(cx: &mut Cx<'_>, line: &Line, name: &str) -> Outcome {
    let h2 = &mut cx.config.global.tune.h2;
    let positive = |at: usize| line.text(at).parse().ok().filter(|n: &u32| *n > 0);
    for at in (2..line.words.len()).step_by(2) {
        let wrong = |what: &str| Err(fail(line, at + 1, format!("'{name}' expects {what}")));
        match line.text(at) {
            "rq-load" => match (line.text(at + 1), positive(at + 1)) {
                ("ignore", _) => h2.rq_load = None,
                ("auto", _) => h2.rq_load = Some(0),
                (_, Some(tasks)) => h2.rq_load = Some(tasks),
                _ => return wrong("a strictly positive run-queue length, or 'auto' or 'ignore'."),
            },
            "min" => match positive(at + 1) {
                Some(streams) => h2.streams_min = streams,
                None => return wrong("a strictly positive minimum number of streams'."),
            },
            other => {
                let only = "only supports 'rq-load' or 'min' after the numeric value, but found";
                return Err(fail(line, at, format!("'{name}' {only} '{other}'.")));
            }
        }
    }
    Ok(())
}

/// `h2-workaround-bogus-websocket-clients`
pub(crate) fn hide_websockets(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 0)?;
    cx.config.global.tune.h2.hides_websockets = true;
    Ok(())
}

/// `tune.glitches.kill.cpu-usage`
pub(crate) fn kill_cpu_usage(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let value = lenient(cx, line, 1);
    match u32::try_from(value).ok().filter(|n| *n <= 100 && !line.text(1).is_empty()) {
        Some(percent) => cx.config.global.tune.h2.kill_busy_percent = percent,
        None => {
            let what = "'tune.glitches.kill.cpu-usage' expects a numeric value between 0 and 100";
            return Err(fail(line, 1, what));
        }
    }
    Ok(())
}

/// `tune.h2.fe.rxbuf` and `tune.h2.be.rxbuf`
pub(crate) fn rxbuf(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let name = line.text(0).to_owned();
    let value = size(line, 1, i32::MAX as u64, &name)?;
    if let Some(side) = side(cx, &name) {
        side.rxbuf = Some(value as usize);
    }
    Ok(())
}

/// `tune.h2.log-errors`
pub(crate) fn log_errors(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    cx.config.global.tune.h2.logs = match line.text(1) {
        "none" => LogsErrors::None,
        "connection" => LogsErrors::Connection,
        "stream" => LogsErrors::Stream,
        _ => {
            let what = "'tune.h2.log-errors' expects 'none', 'connection', or 'stream'";
            return Err(fail(line, 1, what));
        }
    };
    Ok(())
}
