//! Identity, rights and life of the process.

use std::path::PathBuf;
use std::sync::Arc;

use thalweg_syntax::{Diagnostic, Lead, Line, Severity, TimeUnit};
use thalweg_sys::capabilities::Capabilities;

use crate::build::{Cx, DefaultPath};
use crate::keyword::{NoteBoxed, Outcome, at_most, fail, pass_over};
use crate::model::Sandbox;
use crate::numbers::{leading, lenient, strict, time};

pub(crate) fn daemon(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 0)?;
    cx.config.global.daemon = true;
    Ok(())
}

pub(crate) fn quiet(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 0)?;
    cx.config.global.quiet = true;
    Ok(())
}

pub(crate) fn zero_warning(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 0)?;
    cx.config.global.zero_warning = true;
    Ok(())
}

pub(crate) fn chroot(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'chroot' expects a directory as an argument."));
    }
    if cx.config.global.chroot.is_some() {
        cx.warn(line, 0, "'chroot' is already specified. Continuing.");
        return Ok(());
    }
    cx.config.global.chroot = Some(PathBuf::from(line.text(1)));
    Ok(())
}

pub(crate) fn pidfile(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'pidfile' expects a file name as an argument."));
    }
    if cx.config.global.pidfile.is_some() {
        cx.warn(line, 0, "'pidfile' already specified. Continuing.");
        return Ok(());
    }
    cx.config.global.pidfile = Some(PathBuf::from(line.text(1)));
    Ok(())
}

/// `uid` and `gid`.
pub(crate) fn uid_gid(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let name = line.text(0).to_owned();
    let (other, current) = match name.as_str() {
        "uid" => ("user", cx.config.global.uid),
        _ => ("group", cx.config.global.gid),
    };
    if current.is_some() {
        cx.warn(line, 0, format!("{other}/{name} already specified. Continuing."));
        return Ok(());
    }
    if line.words.len() < 2 {
        return Err(fail(line, 1, format!("'{name}' expects an integer argument.")));
    }
    let text = line.text(1);
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let value = match strict(text).filter(|_| digits).and_then(crate::numbers::count) {
        Some(value) => value,
        None => {
            cx.warn(
                line,
                1,
                format!(
                    " {name}: string '{text}' is not a number.\n\
                     You might want to use the '{other}' parameter to use a system {other} name."
                ),
            );
            u32::try_from(leading(text).0).unwrap_or(0)
        }
    };
    match name.as_str() {
        "uid" => cx.config.global.uid = Some(value),
        _ => cx.config.global.gid = Some(value),
    }
    Ok(())
}

/// `user` and `group`: names from the system's lists.
pub(crate) fn user_group(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let (keyword, text) = (line.text(0), line.text(1));
    let is_user = keyword == "user";
    let taken = if is_user { cx.config.global.uid } else { cx.config.global.gid };
    if taken.is_some() {
        let what = if is_user { "user/uid" } else { "gid/group" };
        cx.warn(line, 0, format!("{what} already specified. Continuing."));
        return Ok(());
    }
    let found = if is_user { crate::accounts::user_id(text) } else { crate::accounts::group_id(text) };
    let Some(id) = found else {
        return Err(fail(line, 1, format!("cannot find {keyword} id for '{text}' (0:Success)"))
            .note_boxed(format!("this system has no {keyword} of that name")));
    };
    let name = cx.name(text);
    let global = &mut cx.config.global;
    if is_user {
        (global.uid, global.user) = (Some(id), Some(name));
    } else {
        (global.gid, global.group) = (Some(id), Some(name));
    }
    Ok(())
}

/// `setcap <name>[,<name>]*`, added to those of lines before.
pub(crate) fn setcap(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    pass_over(cx, line, 1, 1);
    let known: Vec<&str> = Capabilities::names().collect();
    let supported = match known.split_last() {
        Some((last, others)) => format!("Supported ones are: {} and {last}.", others.join(", ")),
        None => String::new(),
    };
    if line.text(1).is_empty() {
        return Err(fail(line, 1, format!("'setcap' : missing capability name(s).  {supported}")));
    }
    for name in line.text(1).split(',').filter(|name| !name.is_empty()) {
        let found = Capabilities::named(name);
        let unknown = || format!("'setcap' : unsupported capability '{name}'.  {supported}");
        let global = &mut cx.config.global;
        global.capabilities = global.capabilities.and(found.ok_or_else(|| fail(line, 1, unknown()))?);
    }
    Ok(())
}

pub(crate) fn set_dumpable(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    cx.config.global.set_dumpable = match line.text(1) {
        "" | "on" | "libs" => true,
        "off" => false,
        other => {
            return Err(fail(
                line,
                1,
                format!("'set-dumpable' only supports 'on' and 'off' as an argument, found '{other}'."),
            ));
        }
    };
    Ok(())
}

/// `external-check [preserve-env]`
pub(crate) fn external_check(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    cx.config.global.external_check = true;
    match line.text(1) {
        "" => Ok(()),
        "preserve-env" => {
            cx.config.global.external_check_environment = true;
            match line.words.get(2) {
                None => Ok(()),
                Some(extra) => {
                    let message = format!("'external-check' cannot handle unexpected argument '{extra}'.");
                    Err(fail(line, 2, message))
                }
            }
        }
        other => {
            let message =
                format!("'external-check' only supports 'preserve-env' as an argument, found '{other}'.");
            Err(fail(line, 1, message))
        }
    }
}

pub(crate) fn insecure_fork_wanted(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 0)?;
    cx.config.global.insecure_fork_wanted = true;
    Ok(())
}

/// `sandbox on|files|off`
pub(crate) fn sandbox(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    cx.config.global.sandbox = match line.text(1) {
        "on" => Sandbox::On,
        "files" => Sandbox::Files,
        "off" => Sandbox::Off,
        _ => return Err(fail(line, 1, "'sandbox' expects 'on', 'files' or 'off'.")),
    };
    Ok(())
}

pub(crate) fn insecure_setuid_wanted(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 0)?;
    cx.config.global.insecure_setuid_wanted = true;
    Ok(())
}

pub(crate) fn prealloc_fd(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 0)?;
    cx.config.global.prealloc_fd = true;
    Ok(())
}

/// `stats-file <path>`
pub(crate) fn stats_file(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    if line.words.len() != 2 {
        return Err(fail(line, 1, "'stats-file' expect one argument: a file path."));
    }
    if cx.config.global.stats_file.is_some() {
        return Err(fail(line, 0, "'stats-file' already specified. Continuing."));
    }
    let name = line.text(1);
    let content = match cx.options.loader.read(name) {
        Ok(content) => String::from_utf8_lossy(&content).into(),
        Err(_) => {
            let message = format!("config: Can't load stats-file '{name}': cannot open file.");
            let warning = Diagnostic::new(Severity::Warning, Lead::Bare, Some(line.span_at(1)), message);
            cx.diagnostics.push(warning);
            Arc::from("")
        }
    };
    cx.config.global.stats_file = Some(content);
    Ok(())
}

/// `anonkey <key>`
pub(crate) fn anonkey(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "a key is expected after 'anonkey'."));
    }
    let Ok(key) = u32::try_from(lenient(cx, line, 1)) else {
        let message = format!("'anonkey' value must be within range 0-4294967295 (was '{}').", line.text(1));
        return Err(fail(line, 1, message));
    };
    cx.config.global.anonkey = key;
    Ok(())
}

pub(crate) fn node(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let text = line.text(1);
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if text.is_empty() || !text.bytes().all(legal) {
        return Err(fail(
            line,
            1,
            "'node' requires valid node name - non-empty string with digits(0-9), letters(A-Z, a-z), dot(.), \
             hyphen(-) or underscode(_).",
        ));
    }
    cx.config.global.node = Some(cx.name(text));
    Ok(())
}

/// Everything after the keyword, joined by single blanks.
pub(crate) fn rest_of(line: &Line, from: usize) -> String {
    line.words[from.min(line.words.len())..].iter().map(|w| w.text()).collect::<Vec<_>>().join(" ")
}

pub(crate) fn description(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'description' expects a string argument."));
    }
    cx.config.global.description = Some(rest_of(line, 1).into());
    Ok(())
}

pub(crate) fn localpeer(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'localpeer' expects a name as an argument."));
    }
    if cx.options.local_peer.is_some() {
        cx.warn(
            line,
            0,
            "'localpeer' ignored since it is already set by using the '-L' command line argument.",
        );
        return Ok(());
    }
    let name = cx.name(line.text(1));
    cx.reader.environment.set("HAPROXY_LOCALPEER", name.as_bytes());
    cx.config.global.localpeer = Some(name);
    Ok(())
}

pub(crate) fn log_send_hostname(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    if cx.config.global.log_send_hostname.is_some() {
        cx.warn(line, 0, "'log-send-hostname' already specified. Continuing.");
        return Ok(());
    }
    cx.config.global.log_send_hostname = Some(cx.name(line.text(1)));
    Ok(())
}

pub(crate) fn log_tag(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'log-tag' expects a tag for use in syslog."));
    }
    cx.config.global.log_tag = Some(cx.name(line.text(1)));
    Ok(())
}

/// `hard-stop-after`, `close-spread-time`, `grace`.
pub(crate) fn stop_delay(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    let name = line.text(0);
    pass_over(cx, line, 1, 1);
    if name == "close-spread-time" && line.text(1) == "infinite" {
        cx.config.global.close_spread_time_ms = Some(u64::MAX);
        return Ok(());
    }
    let ms = time(cx, line, 1, TimeUnit::Milliseconds, name)?;
    let global = &mut cx.config.global;
    match name {
        "hard-stop-after" => global.hard_stop_after_ms = Some(ms),
        "grace" => global.grace_ms = ms,
        _ => global.close_spread_time_ms = Some(ms),
    }
    Ok(())
}

/// `expose-experimental-directives` and `expose-deprecated-directives`.
pub(crate) fn expose(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 0)?;
    match line.text(0) {
        "expose-experimental-directives" => cx.config.global.expose_experimental = true,
        _ => cx.config.global.expose_deprecated = true,
    }
    Ok(())
}

pub(crate) fn default_path(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    let modes = "supported modes include 'current', 'config', 'parent', and 'origin'.";
    let mode = line.text(1);
    let policy = match mode {
        "current" => DefaultPath::Current,
        "config" => DefaultPath::Config,
        "parent" => DefaultPath::Parent,
        "origin" if line.words.len() > 2 => {
            let path = line.text(2);
            if !cx.options.loader.is_dir(path).unwrap_or(false) {
                let message =
                    format!("couldn't set 'default-path' to origin '{path}': this is no directory.");
                return Err(fail(line, 2, message));
            }
            DefaultPath::Origin(PathBuf::from(path))
        }
        "origin" => return Err(fail(line, 2, "'default-path origin' expects a directory as an argument.")),
        "" => return Err(fail(line, 1, format!("missing default-path mode '' for 'default-path', {modes}"))),
        other => {
            return Err(fail(
                line,
                1,
                format!("unsupported default-path mode '{other}' for 'default-path', {modes}"),
            ));
        }
    };
    pass_over(cx, line, 2, usize::from(mode == "origin"));
    cx.default_paths.push(((line.file.index(), line.number), policy));
    Ok(())
}

pub(crate) fn unix_bind(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    let mut i = 1;
    while i < line.words.len() {
        let (option, value) = (line.text(i), line.text(i + 1));
        match option {
            "prefix" if !value.is_empty() && cx.unix_bind.prefix.is_some() => {
                cx.warn(line, i, "unix-bind 'prefix' already specified. Continuing.");
                return Ok(());
            }
            "prefix" if !value.is_empty() => cx.unix_bind.prefix = Some(cx.name(value)),
            "mode" if !value.is_empty() => {
                cx.unix_bind.owner.mode = Some(u32::from_str_radix(value, 8).unwrap_or(0));
            }
            "uid" | "gid" if !value.is_empty() => {
                let id = u32::try_from(lenient(cx, line, i + 1)).ok();
                if option == "uid" {
                    cx.unix_bind.owner.uid = id;
                } else {
                    cx.unix_bind.owner.gid = id;
                }
            }
            "user" if !value.is_empty() => match crate::accounts::user_id(value) {
                Some(id) => cx.unix_bind.owner.uid = Some(id),
                None => return Err(fail(line, i + 1, format!("'unix-bind' : '{value}' unknown user."))),
            },
            "group" if !value.is_empty() => match crate::accounts::group_id(value) {
                Some(id) => cx.unix_bind.owner.gid = Some(id),
                None => return Err(fail(line, i + 1, format!("'unix-bind' : '{value}' unknown group."))),
            },
            _ => {
                return Err(fail(
                    line,
                    i,
                    "'unix-bind' only supports the 'prefix', 'mode', 'uid', 'gid', 'user' and 'group' options.",
                ));
            }
        }
        i += 2;
    }
    Ok(())
}

/// `httpclient.resolvers.disabled`: of what it concerns there is the implicit `resolvers` section.
pub(crate) fn no_default_resolvers(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    cx.config.global.default_resolvers = match line.text(1) {
        "on" => false,
        "off" => true,
        _ => return Err(fail(line, 1, format!("'{}' expects either 'on' or 'off'.", line.text(0)))),
    };
    Ok(())
}

pub(crate) fn dns_accept_family(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let text = line.text(1);
    let (mut v4, mut v6, mut auto) = (false, false, false);
    for family in text.strip_suffix(',').unwrap_or(text).split(',') {
        match family {
            "ipv4" => v4 = true,
            "ipv6" => (v6, auto) = (true, false),
            "auto" => (v4, v6, auto) = (true, true, true),
            _ => {
                return Err(fail(
                    line,
                    1,
                    format!(
                        "'dns-accept-family' expects a comma-delimited list of 'ipv4' and 'ipv6' but got '{text}'."
                    ),
                ));
            }
        }
    }
    cx.config.global.dns_accept_ipv4 = v4;
    cx.config.global.dns_accept_ipv6 = v6;
    cx.config.global.dns_accept_auto = auto;
    Ok(())
}

/// `pp2-never-send-local`, `h1-*`, `no-memory-trimming` and the other words that only switch
/// something on.
pub(crate) fn switch(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 0)?;
    let global = &mut cx.config.global;
    match line.text(0) {
        "pp2-never-send-local" => global.pp2_never_send_local = true,
        "h1-accept-payload-with-any-method" => global.h1_accept_payload_with_any_method = true,
        "h1-do-not-close-on-insecure-transfer-encoding" => global.h1_do_not_close_on_insecure_te = true,
        "no-memory-trimming" => global.no_memory_trimming = true,
        _ => {}
    }
    Ok(())
}

pub(crate) fn harden_tcp(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    pass_over(cx, line, 1, 1);
    cx.config.global.reject_privileged_ports_tcp = match line.text(1) {
        "on" => true,
        "off" => false,
        _ => return Err(fail(line, 1, "'harden.reject-privileged-ports.tcp' expects either 'on' or 'off'.")),
    };
    Ok(())
}

pub(crate) fn master_worker(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    match line.text(1) {
        "" => Err(fail(
            line,
            0,
            "support for 'master-worker' was removed in version 3.5. Use -W or -Ws in the startup script instead.",
        )),
        "no-exit-on-failure" => {
            cx.config.global.master_stays = true;
            at_most(line, 2, 0)
        }
        _ => Err(fail(line, 1, "'master-worker' only supports 'no-exit-on-failure' option")),
    }
}

pub(crate) fn max_reloads(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'mworker-max-reloads' expects an integer argument."));
    }
    at_most(line, 1, 1)?;
    // As C's atol and a conversion to int have it.
    let reloads = crate::numbers::leading(line.text(1)).0 as i32;
    let Ok(reloads) = u32::try_from(reloads) else {
        return Err(fail(line, 1, "'mworker-max-reloads' expects a positive value or zero."));
    };
    cx.config.global.max_reloads = reloads;
    Ok(())
}

pub(crate) fn h1_case_adjust(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 2)?;
    if line.words.len() < 3 {
        return Err(fail(line, line.words.len(), "'h1-case-adjust' expects <from> and <to> as argument."));
    }
    let (from, to) = (line.text(1), line.text(2));
    add_case_adjust(cx, from, to).map_err(|message| fail(line, 2, format!("{message}.")))
}

fn add_case_adjust(cx: &mut Cx<'_>, from: &str, to: &str) -> Result<(), String> {
    if !from.eq_ignore_ascii_case(to) {
        return Err("<from> and <to> must not differ except the case".to_owned());
    }
    let from = from.to_ascii_lowercase();
    if cx.config.global.h1_case_adjust.iter().any(|(known, _)| **known == *from) {
        return Err(format!("duplicate entry '{from}'"));
    }
    let pair = (cx.name(&from), cx.name(to));
    cx.config.global.h1_case_adjust.push(pair);
    Ok(())
}

pub(crate) fn h1_case_adjust_file(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let path = line.text(1);
    if path.is_empty() {
        return Err(fail(line, 1, "'h1-case-adjust-file' expects <file> as argument."));
    }
    let found = crate::sample_env::under(cx.base_directory(line.span()).as_deref(), path);
    let Ok(content) = cx.options.loader.read(&found) else {
        return Err(fail(line, 1, format!("h1-headers-case-adjust-file '{path}': failed to open file.")));
    };
    for (number, text) in String::from_utf8_lossy(&content).lines().enumerate() {
        let text = text.split('#').next().unwrap_or("");
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let result = match words[..] {
            [] => continue,
            [from, to] => add_case_adjust(cx, from, to),
            _ => Err(String::from("expects <from> and <to>")),
        };
        result.map_err(|message| {
            fail(
                line,
                1,
                format!("h1-headers-case-adjust-file '{path}': error at line {} : {message}.", number + 1),
            )
        })?;
    }
    Ok(())
}
