//! `tune.*` and the choice of kernel interfaces.

use thalweg_syntax::{Diagnostic, Line};

use crate::build::Cx;
use crate::keyword::{Outcome, at_most, fail, pass_over};
use crate::model::{IoDriver, MultiQueue, Shards, TakeoverOtherGroup};
use crate::numbers::{lenient, size, strict};

/// The smallest buffer, in bytes: below it the messages that are sent when something fails find no room.
const BUFSIZE_MIN: usize = 1024;

/// Sizes in bytes.
pub(crate) fn tune_size(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let name = line.text(0);
    let value = size(line, 1, i32::MAX as u64, name)?;
    let of_a_socket = name.starts_with("tune.rcvbuf.") || name.starts_with("tune.sndbuf.");
    if of_a_socket && !cx.is_first(line) {
        return Ok(());
    }
    let tune = &mut cx.config.global.tune;
    let small = value as u32;
    match name {
        // The reference rounds a buffer up to a multiple of two pointers.
        "tune.bufsize" => {
            if value == 0 {
                return Err(fail(line, 1, "'tune.bufsize' expects a positive integer argument"));
            }
            tune.bufsize = (value as usize).next_multiple_of(16);
            if !(BUFSIZE_MIN..=i32::MAX as usize - 16).contains(&tune.bufsize) {
                let message =
                    format!("'tune.bufsize' expects a size in bytes from {BUFSIZE_MIN} to 2147483631.");
                return Err(fail(line, 1, message));
            }
        }
        "tune.pipesize" => tune.pipesize = small,
        "tune.rcvbuf.client" => tune.rcvbuf_client = small,
        "tune.rcvbuf.server" => tune.rcvbuf_server = small,
        "tune.sndbuf.client" => tune.sndbuf_client = small,
        "tune.sndbuf.server" => tune.sndbuf_server = small,
        "tune.notsent-lowat.client" => tune.notsent_lowat_client = small,
        "tune.notsent-lowat.server" => tune.notsent_lowat_server = small,
        _ => tune.cli_max_payload_size = value as usize,
    }
    Ok(())
}

/// Sizes of variables; these messages differ from the other sizes'.
pub(crate) fn tune_vars(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let (name, text) = (line.text(0), line.text(1));
    // The reference takes no unit here.
    let Ok(value) = (if text.is_empty() { "0" } else { text }).parse::<u32>() else {
        return Err(fail(line, 1, format!("{name}: '{text}' is an invalid size")));
    };
    let (value, tune) = (value as usize, &mut cx.config.global.tune);
    match name {
        "tune.vars.global-max-size" => tune.vars_global_max_size = value,
        "tune.vars.proc-max-size" => tune.vars_proc_max_size = value,
        "tune.vars.sess-max-size" => tune.vars_sess_max_size = value,
        "tune.vars.txn-max-size" => tune.vars_txn_max_size = value,
        "tune.vars.check-max-size" => tune.vars_check_max_size = value,
        _ => tune.vars_reqres_max_size = value,
    }
    Ok(())
}

/// `tune.defaults.purge <all|none|<element>[,...]>`
pub(crate) fn purge_defaults(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let (mut sections, mut servers) = (false, false);
    for element in line.text(1).split(',') {
        match element {
            "all" => (sections, servers) = (true, true),
            "none" => {}
            "proxies" => sections = true,
            "servers" => servers = true,
            other => {
                return Err(fail(line, 1, format!("'{}' unknown directive '{other}'.", line.text(0))));
            }
        }
    }
    let tune = &mut cx.config.global.tune;
    (tune.purge_defaults, tune.purge_server_presets) = (sections, servers);
    Ok(())
}

/// `tune.stick-counters`
pub(crate) fn stick_counters(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    pass_over(cx, line, 1, 1);
    let text = line.text(1);
    let value: i64 = match text {
        "" => 0,
        _ => text
            .parse()
            .map_err(|_| fail(line, 1, format!("tune.stick-counters: '{text}' is an invalid number")))?,
    };
    let Some(value) = usize::try_from(value).ok().filter(|n| *n <= 100) else {
        let range = "the number of stick-counters must be between 1 and 100";
        return Err(fail(line, 1, format!("tune.stick-counters: {range} (was {value})")));
    };
    cx.config.global.tune.stick_counters = value;
    Ok(())
}

/// Plain numbers, each with its range.
pub(crate) fn tune_number(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let name = line.text(0).to_owned();
    // Keyword, smallest, greatest, what it says it expects. The limits are the reference's.
    const RANGES: [(&str, i64, i64, &str); 11] = [
        ("tune.maxrewrite", 0, i32::MAX as i64, "a positive integer argument"),
        ("tune.buffers.limit", 0, i32::MAX as i64, "a positive integer argument"),
        ("tune.buffers.reserve", 0, i32::MAX as i64, "a positive integer argument"),
        // Fewer have no room for the fields of the answers that are built in.
        ("tune.http.maxhdr", 4, 32767, "a numeric value between 4 and 32767"),
        ("tune.http.logurilen", 0, i32::MAX as i64, "a positive integer argument"),
        ("tune.http.cookielen", 0, i32::MAX as i64, "a positive integer argument"),
        ("tune.maxaccept", i32::MIN as i64, i32::MAX as i64, "a value greater than or equal to -1"),
        ("tune.maxpollevents", 0, 1_000_000, "an integer value lower than or equal to 1000000."),
        ("tune.runqueue-depth", 0, i32::MAX as i64, "an integer argument"),
        ("tune.max-checks-per-thread", 0, i32::MAX as i64, "a positive numeric value"),
        ("tune.peers.max-updates-at-once", i64::MIN, i64::MAX, "an integer argument"),
    ];
    let Some((_, least, greatest, expects)) = RANGES.iter().find(|r| r.0 == name) else {
        return Err(fail(line, 0, format!("unknown keyword '{name}' in 'global' section")));
    };
    // Some read an absent number as 0, the others say what they expect in one of two ways.
    const OPTIONAL: [&str; 1] = ["tune.max-checks-per-thread"];
    const PLAIN: [&str; 10] = [
        "tune.maxrewrite",
        "tune.buffers.limit",
        "tune.buffers.reserve",
        "tune.http.maxhdr",
        "tune.http.logurilen",
        "tune.http.cookielen",
        "tune.maxaccept",
        "tune.maxpollevents",
        "tune.runqueue-depth",
        "tune.peers.max-updates-at-once",
    ];
    if line.words.len() < 2 && !OPTIONAL.contains(&name.as_str()) && !name.starts_with("tune.buffers") {
        let message = match PLAIN.contains(&name.as_str()) {
            true => format!("'{name}' expects an integer argument."),
            false => format!("'{name}' expects {expects}"),
        };
        return Err(fail(line, 1, message));
    }
    let value = lenient(cx, line, 1);
    if value < *least || value > *greatest {
        return Err(fail(line, 1, format!("'{name}' expects {expects}")));
    }
    let once = ["tune.maxaccept", "tune.maxpollevents", "tune.runqueue-depth"];
    if once.contains(&name.as_str()) && !cx.is_first(line) {
        return Ok(());
    }
    let (unsigned, tune) = (u32::try_from(value).unwrap_or(0), &mut cx.config.global.tune);
    match name.as_str() {
        "tune.maxrewrite" if value > 0 => tune.maxrewrite = unsigned as usize,
        "tune.buffers.limit" => tune.buffers_limit = if unsigned > 0 { unsigned.max(3) as usize } else { 0 },
        "tune.buffers.reserve" => tune.buffers_reserve = unsigned as usize,
        "tune.http.maxhdr" => tune.http_maxhdr = unsigned as usize,
        // 0 leaves the default.
        "tune.maxrewrite" | "tune.http.logurilen" | "tune.http.cookielen" if value == 0 => {}
        "tune.http.logurilen" => tune.http_logurilen = unsigned as usize,
        "tune.http.cookielen" => tune.http_cookielen = unsigned as usize,
        "tune.maxaccept" => tune.maxaccept = value.max(-1) as i32,
        "tune.maxpollevents" => tune.maxpollevents = unsigned,
        "tune.runqueue-depth" => tune.runqueue_depth = unsigned,
        "tune.peers.max-updates-at-once" => tune.peers_updates = unsigned as usize,
        "tune.max-checks-per-thread" => tune.max_checks_per_thread = unsigned,
        _ => {}
    }
    Ok(())
}

/// `tune.pool-low-fd-ratio` and `tune.pool-high-fd-ratio`
pub(crate) fn fd_ratio(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let (name, value) = (line.text(0), lenient(cx, line, 1));
    let Some(percent) = u32::try_from(value).ok().filter(|n| *n <= 100 && !line.text(1).is_empty()) else {
        return Err(fail(line, 1, format!("'{name}' expects an integer argument between 0 and 100.")));
    };
    let tune = &mut cx.config.global.tune;
    match name {
        "tune.pool-low-fd-ratio" => tune.pool_low_fd_percent = percent,
        _ => tune.pool_high_fd_percent = percent,
    }
    Ok(())
}

/// What is `on` or `off`.
pub(crate) fn tune_on_off(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let (name, text) = (line.text(0), line.text(1));
    let on = match text {
        "on" => true,
        "off" => false,
        _ if name == "tune.sched.low-latency" => {
            return Err(fail(line, 1, format!("'{name}' expects either 'on' or 'off' but got '{text}'.")));
        }
        _ => return Err(fail(line, 1, format!("'{name}' expects 'on' or 'off'."))),
    };
    let tune = &mut cx.config.global.tune;
    match name {
        "tune.sched.low-latency" => tune.sched_low_latency = on,
        "tune.h1.zero-copy-fwd-recv" => tune.h1_zero_copy_recv = on,
        "tune.h1.zero-copy-fwd-send" => tune.h1_zero_copy_send = on,
        "tune.h2.zero-copy-fwd-send" => tune.h2.zero_copy_send = on,
        "tune.pt.zero-copy-forwarding" => tune.pt_zero_copy = on,
        _ => tune.applet_zero_copy = on,
    }
    Ok(())
}

/// Words that only switch something: `noepoll`, `nosplice`, `busy-polling`, `tune.disable-*` and so on.
pub(crate) fn io_switch(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 0)?;
    let name = line.text(0);
    let (global, enabled) = (&mut cx.config.global, &mut cx.reader.facts.enabled);
    match name {
        "noepoll" => {
            global.noepoll = true;
            enabled.remove("EPOLL");
        }
        "nopoll" => {
            global.nopoll = true;
            enabled.remove("POLL");
        }
        "nosplice" => {
            global.nosplice = true;
            enabled.remove("SPLICE");
        }
        "noreuseport" => {
            global.noreuseport = true;
            enabled.remove("REUSEPORT");
        }
        "busy-polling" => global.busy_polling = true,
        "tune.disable-zero-copy-forwarding" => global.tune.disable_zero_copy = true,
        "tune.disable-fast-forward" => {
            global.tune.disable_fast_forward = true;
            enabled.remove("FAST-FORWARD");
        }
        // There is neither kqueue nor event ports here to be disabled.
        _ => {}
    }
    Ok(())
}

pub(crate) fn idle_pool_shared(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let text = line.text(1);
    cx.config.global.tune.idle_pool_shared = match text {
        "on" | "full" => true,
        "off" => false,
        _ => {
            return Err(fail(
                line,
                1,
                format!("'tune.idle-pool.shared' expects 'full', 'on' or 'off' but got '{text}'."),
            ));
        }
    };
    Ok(())
}

pub(crate) fn takeover_other_tg(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    cx.diagnostics.push(Diagnostic::warning_at(
        line.span_at(0),
        "'tune.takeover-other-tg-connections' is deprecated and will be removed in version 3.7. Please use \
         'tune.idle-pool.shared",
    ));
    let text = line.text(1);
    cx.config.global.tune.takeover_other_tg = match text {
        "none" => TakeoverOtherGroup::None,
        "restricted" => TakeoverOtherGroup::Restricted,
        "full" => TakeoverOtherGroup::Full,
        "" => {
            return Err(fail(
                line,
                1,
                "'tune.takeover-other-tg-connections' expects 'none', 'restricted', or 'full'",
            ));
        }
        _ => {
            return Err(fail(
                line,
                1,
                format!(
                    "'tune.takeover-other-tg-connections' expects 'none', 'restricted', or 'full', got '{text}'"
                ),
            ));
        }
    };
    Ok(())
}

pub(crate) fn multi_queue(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let text = line.text(1);
    cx.config.global.tune.listener_multi_queue = match text {
        "on" => MultiQueue::On,
        "fair" => MultiQueue::Fair,
        "off" => MultiQueue::Off,
        _ => {
            return Err(fail(
                line,
                1,
                format!(
                    "'tune.listener.multi-queue' expects either 'on', 'fair', or 'off' but got '{text}'."
                ),
            ));
        }
    };
    Ok(())
}

pub(crate) fn default_shards(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let text = line.text(1);
    cx.config.global.tune.listener_default_shards = match text {
        "by-process" => Shards::Count(1),
        "by-group" => Shards::ByGroup,
        "by-thread" => Shards::ByThread,
        _ => {
            return Err(fail(
                line,
                1,
                format!(
                    "'tune.listener.default-shards' expects either 'by-process', 'by-group', or 'by-thread' but got '{text}'."
                ),
            ));
        }
    };
    Ok(())
}

pub(crate) fn renice(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let (name, text) = (line.text(0), line.text(1));
    let value = if text.is_empty() { Some(0) } else { strict(text) };
    let Some(value @ -20..=19) = value else {
        return Err(fail(
            line,
            1,
            format!("'{name}' only supports values between -20 and 19 inclusive (was given {text})"),
        ));
    };
    match name {
        "tune.renice.runtime" => cx.config.global.tune.renice_runtime = Some(value as i32),
        _ => cx.config.global.tune.renice_startup = Some(value as i32),
    }
    Ok(())
}

/// `tune.io.driver`: ours.
pub(crate) fn io_driver(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let text = line.text(1);
    cx.config.global.io_driver = match text {
        "auto" => IoDriver::Auto,
        "io_uring" => IoDriver::Uring,
        "epoll" => IoDriver::Epoll,
        _ => {
            return Err(fail(
                line,
                1,
                format!("'tune.io.driver' expects 'auto', 'io_uring' or 'epoll' but got '{text}'."),
            ));
        }
    };
    Ok(())
}

/// `profiling.tasks`: words, without effect yet other than being checked.
pub(crate) fn profiling(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    let text = line.text(1);
    let known = |w: &str| matches!(w, "on" | "auto" | "off" | "lock" | "no-lock" | "memory" | "no-memory");
    if text.is_empty() || !line.arguments().iter().all(|w| known(w.text())) {
        let message = format!(
            "'profiling.tasks' expects a combination of either 'on', 'auto', 'off', 'lock', 'no-lock', 'memory', or \
             'no-memory', but got '{text}'."
        );
        return Err(fail(line, 1, message));
    }
    cx.config.global.profiling_tasks = match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    };
    Ok(())
}
