//! Fetches of constants and of the process's own state (manual section 7.3.2).

use super::{ANYWHERE, FetchDef, INTERNAL, Iter};
use crate::acl::{AclList, Verdict};
use crate::args::{Arg, ArgKind, Args};
use crate::context::{Ctx, ProxyFigures, ServerFigures, TaskFigures};
use crate::env::CompileEnv;
use crate::facts::ServerId;
use crate::pattern::parse::hex;
use crate::value::{Sample, Text, Type, Value};
use crate::vars::{Scope, VarRef, VarValue};

use ArgKind::{Backend, Frontend, Int, Ip4, Ip6, Server, Str};

/// The fetches of this file.
pub static TABLE: &[FetchDef] = &[
    FetchDef::new("acl", Type::Bool, ANYWHERE, "true when all the named ACLs are", acl)
        .takes(1, &[Str, Str, Str, Str, Str, Str, Str, Str, Str, Str, Str, Str])
        .checked(crate::acl::compile_list),
    FetchDef::new("act_conn", Type::Int, ANYWHERE, "connections on the process", |_, cx, _| {
        int(cx.world.active_connections())
    }),
    FetchDef::new("always_false", Type::Bool, ANYWHERE, "false", |_, _, _| Some(Sample::bool(false))),
    FetchDef::new("always_true", Type::Bool, ANYWHERE, "true", |_, _, _| Some(Sample::bool(true))),
    FetchDef::new("avg_queue", Type::Int, INTERNAL, "requests queued per usable server", |args, cx, _| {
        let f = proxy(args, cx)?;
        Some(Sample::int(match f.servers_up {
            0 => 2 * i64::from(f.total_queue),
            n => i64::from(f.total_queue.div_ceil(n)),
        }))
    })
    .takes(1, &[Backend]),
    FetchDef::new("be_conn", Type::Int, INTERNAL, "connections on a backend", |args, cx, _| {
        int(proxy(args, cx)?.conn)
    })
    .takes(1, &[Backend]),
    FetchDef::new(
        "be_conn_free",
        Type::Int,
        INTERNAL,
        "free connections on a backend's servers",
        |args, cx, _| Some(Sample::int(proxy(args, cx)?.conn_free)),
    )
    .takes(1, &[Backend]),
    FetchDef::new(
        "be_sess_rate",
        Type::Int,
        INTERNAL,
        "new sessions per second on a backend",
        |args, cx, _| int(proxy(args, cx)?.sess_rate),
    )
    .takes(1, &[Backend]),
    FetchDef::new("bin", Type::Bin, ANYWHERE, "a constant blob, in hexadecimal", constant)
        .takes(1, &[Str])
        .checked(check_bin),
    FetchDef::new("bool", Type::Bool, ANYWHERE, "a constant truth value", |args, _, _| {
        Some(Sample::bool(args.int(0)? != 0))
    })
    .takes(1, &[Str])
    .checked(check_bool),
    FetchDef::new(
        "connslots",
        Type::Int,
        INTERNAL,
        "free connections and queue slots of a backend",
        |args, cx, _| Some(Sample::int(proxy(args, cx)?.conn_slots)),
    )
    .takes(1, &[Backend]),
    FetchDef::new("cpu_calls", Type::Int, INTERNAL, "times the stream's task was called", |_, cx, _| {
        long(task_figures(cx)?.calls)
    }),
    FetchDef::new(
        "cpu_ns_avg",
        Type::Int,
        INTERNAL,
        "nanoseconds per call of the stream's task",
        |_, cx, _| {
            let figures = task_figures(cx)?;
            long(figures.ran_ns / figures.calls.max(1))
        },
    ),
    FetchDef::new("cpu_ns_tot", Type::Int, INTERNAL, "nanoseconds spent in the stream's task", |_, cx, _| {
        long(task_figures(cx)?.ran_ns)
    }),
    FetchDef::new(
        "cpu_usage_grp",
        Type::Int,
        INTERNAL,
        "busy share of the thread group, 0 to 100",
        |_, cx, _| int(cx.world.process_busy_percent()),
    ),
    FetchDef::new(
        "cpu_usage_proc",
        Type::Int,
        INTERNAL,
        "busy share of the process, 0 to 100",
        |_, cx, _| int(cx.world.process_busy_percent()),
    ),
    FetchDef::new("cpu_usage_thr", Type::Int, INTERNAL, "busy share of the thread, 0 to 100", |_, cx, _| {
        int(cx.world.thread_busy_percent())
    }),
    FetchDef::new("date", Type::Int, ANYWHERE, "the date, with an offset, in s, ms or us", date)
        .takes(0, &[Int, Str])
        .checked(|args, _| check_unit(args, 1)),
    FetchDef::new("date_us", Type::Int, ANYWHERE, "the microseconds of the date", |_, cx, _| {
        Some(Sample::int(cx.clock.wall_us.rem_euclid(1_000_000)))
    }),
    FetchDef::new("dump_all_vars", Type::Str, ANYWHERE, "all variables of some scopes", dump_all_vars)
        .takes(0, &[Str, Str, Str])
        .checked(check_dump),
    FetchDef::new("env", Type::Str, ANYWHERE, "an environment variable, as at start", |args, cx, _| {
        let text = args.str(0)?;
        Some(Sample::str(cx.store(text)?))
    })
    .takes(1, &[Str])
    .checked(check_env),
    FetchDef::new("fe_conn", Type::Int, INTERNAL, "connections on a frontend", |args, cx, _| {
        int(proxy(args, cx)?.conn)
    })
    .takes(1, &[Frontend]),
    FetchDef::new("fe_req_rate", Type::Int, INTERNAL, "requests per second on a frontend", |args, cx, _| {
        int(proxy(args, cx)?.req_rate)
    })
    .takes(1, &[Frontend]),
    FetchDef::new(
        "fe_sess_rate",
        Type::Int,
        INTERNAL,
        "new sessions per second on a frontend",
        |args, cx, _| int(proxy(args, cx)?.sess_rate),
    )
    .takes(1, &[Frontend]),
    FetchDef::new("hostname", Type::Str, ANYWHERE, "the name of this host", |_, cx, _| {
        let world = cx.world;
        Some(Sample::str(cx.store(world.hostname().as_bytes())?))
    }),
    FetchDef::new("int", Type::Int, ANYWHERE, "a constant integer", |args, _, _| {
        Some(Sample::int(args.int(0)?))
    })
    .takes(1, &[Int]),
    FetchDef::new(
        "internal.strm.is_htx",
        Type::Bool,
        INTERNAL,
        "whether the stream is treated as HTTP by now (HTX is the reference's form of messages)",
        |_, cx, _| Some(Sample::bool(cx.stream.as_ref()?.is_http)),
    ),
    FetchDef::new("ipv4", Type::Ip4, ANYWHERE, "a constant IPv4 address", |args, _, _| match args.at(0) {
        Arg::Ip4(ip) => Some(Sample::new(Value::Ip4(*ip))),
        _ => None,
    })
    .takes(1, &[Ip4]),
    FetchDef::new("ipv6", Type::Ip6, ANYWHERE, "a constant IPv6 address", |args, _, _| match args.at(0) {
        Arg::Ip6(ip) => Some(Sample::new(Value::Ip6(*ip))),
        _ => None,
    })
    .takes(1, &[Ip6]),
    FetchDef::new(
        "last_entity",
        Type::Str,
        INTERNAL,
        "what last ended or suspended an evaluation",
        |_, cx, _| Some(Sample::str(Text::Static(cx.stream.as_ref()?.last_entity?.as_bytes()))),
    ),
    FetchDef::new("last_rule_file", Type::Str, INTERNAL, "the file of the last final rule", |_, cx, _| {
        Some(Sample::str(Text::Static(cx.stream.as_ref()?.last_rule?.0.as_bytes())))
    }),
    FetchDef::new("last_rule_line", Type::Int, INTERNAL, "the line of the last final rule", |_, cx, _| {
        int(cx.stream.as_ref()?.last_rule?.1)
    }),
    FetchDef::new(
        "lat_ns_avg",
        Type::Int,
        INTERNAL,
        "nanoseconds the stream's task waited per call",
        |_, cx, _| {
            let figures = task_figures(cx)?;
            long(figures.waited_ns / figures.calls.max(1))
        },
    ),
    FetchDef::new("lat_ns_tot", Type::Int, INTERNAL, "nanoseconds the stream's task waited", |_, cx, _| {
        long(task_figures(cx)?.waited_ns)
    }),
    FetchDef::new("meth", Type::Method, ANYWHERE, "a constant method", |args, cx, _| {
        let text = cx.store(args.str(0)?)?;
        Some(Sample::new(Value::Method(text)))
    })
    .takes(1, &[Str]),
    FetchDef::new("nbproc", Type::Int, ANYWHERE, "1: processes", |_, _, _| Some(Sample::int(1))),
    FetchDef::new("nbsrv", Type::Int, INTERNAL, "usable servers of a backend", |args, cx, _| {
        int(proxy(args, cx)?.servers_up)
    })
    .takes(1, &[Backend]),
    FetchDef::new("pid", Type::Int, ANYWHERE, "the process's identifier", |_, cx, _| int(cx.world.pid())),
    FetchDef::new("prio_class", Type::Int, INTERNAL, "the stream's priority class", |_, cx, _| {
        Some(Sample::int(cx.stream.as_ref()?.prio_class.into()))
    }),
    FetchDef::new("prio_offset", Type::Int, INTERNAL, "the stream's priority offset", |_, cx, _| {
        Some(Sample::int(cx.stream.as_ref()?.prio_offset.into()))
    }),
    FetchDef::new("proc", Type::Int, ANYWHERE, "1: the process's number", |_, _, _| Some(Sample::int(1))),
    FetchDef::new(
        "queue",
        Type::Int,
        INTERNAL,
        "requests queued on a backend and its servers",
        |args, cx, _| int(proxy(args, cx)?.total_queue),
    )
    .takes(1, &[Backend]),
    FetchDef::new("quic_enabled", Type::Bool, ANYWHERE, "false: no QUIC listener", |_, _, _| {
        Some(Sample::bool(false))
    }),
    FetchDef::new("rand", Type::Int, ANYWHERE, "a random integer below a limit", rand).takes(0, &[Int]),
    FetchDef::new("srv_conn", Type::Int, INTERNAL, "connections on a server", |args, cx, _| {
        int(server(args, cx)?.conn)
    })
    .takes(1, &[Server]),
    FetchDef::new("srv_conn_free", Type::Int, INTERNAL, "free connections on a server", |args, cx, _| {
        let f = server(args, cx)?;
        Some(Sample::int(match f.maxconn {
            0 => -1,
            max => i64::from(max.saturating_sub(f.conn)),
        }))
    })
    .takes(1, &[Server]),
    FetchDef::new("srv_is_up", Type::Bool, INTERNAL, "true when a server can be used", |args, cx, _| {
        Some(Sample::bool(server(args, cx)?.up))
    })
    .takes(1, &[Server]),
    FetchDef::new("srv_iweight", Type::Int, INTERNAL, "a server's initial weight", |args, cx, _| {
        int(server(args, cx)?.initial_weight)
    })
    .takes(1, &[Server]),
    FetchDef::new("srv_queue", Type::Int, INTERNAL, "requests queued on a server", |args, cx, _| {
        int(server(args, cx)?.queue)
    })
    .takes(1, &[Server]),
    FetchDef::new(
        "srv_sess_rate",
        Type::Int,
        INTERNAL,
        "new sessions per second on a server",
        |args, cx, _| int(server(args, cx)?.sess_rate),
    )
    .takes(1, &[Server]),
    FetchDef::new("span_id", Type::Str, INTERNAL, "the request's own place in its trace", |_, cx, _| {
        let id = cx.stream.as_ref()?.trace()?.span_id();
        Some(Sample::str(cx.store(&id)?))
    }),
    FetchDef::new("srv_uweight", Type::Int, INTERNAL, "a server's weight as set", |args, cx, _| {
        int(server(args, cx)?.user_weight)
    })
    .takes(1, &[Server]),
    FetchDef::new("srv_weight", Type::Int, INTERNAL, "a server's weight in effect", |args, cx, _| {
        int(server(args, cx)?.weight)
    })
    .takes(1, &[Server]),
    FetchDef::new("stopping", Type::Bool, INTERNAL, "true when the process is stopping", |_, cx, _| {
        Some(Sample::bool(cx.world.stopping()))
    }),
    FetchDef::new("str", Type::Str, ANYWHERE, "a constant string", |args, cx, _| {
        Some(Sample::str(cx.store(args.str(0)?)?))
    })
    .takes(1, &[Str]),
    FetchDef::new(
        "term_events",
        Type::Str,
        INTERNAL,
        "termination events, for debugging: not recorded",
        |_, _, _| Some(Sample::str(Text::Static(b"-"))),
    ),
    FetchDef::new("tgroup", Type::Int, ANYWHERE, "the group of the thread, from 0", |_, cx, _| {
        int(cx.world.thread_group())
    }),
    FetchDef::new("thread", Type::Int, ANYWHERE, "the thread, from 0", |_, cx, _| int(cx.world.thread())),
    FetchDef::new("trace_id", Type::Str, INTERNAL, "the trace that the request belongs to", |_, cx, _| {
        let id = cx.stream.as_ref()?.trace()?.trace_id();
        Some(Sample::str(cx.store(&id)?))
    }),
    FetchDef::new("txn.id32", Type::Int, INTERNAL, "the stream's number", |_, cx, _| {
        int(cx.stream.as_ref()?.id)
    }),
    FetchDef::new("txn.sess_term_state", Type::Str, INTERNAL, "the termination state", |_, cx, _| {
        let t = cx.stream.as_ref()?.termination;
        let text = cx.store(&[t.cause, t.phase])?;
        Some(Sample::str(text).volatile())
    }),
    FetchDef::new("unique-id", Type::Str, ANYWHERE, "the unique identifier of the stream", |_, cx, _| {
        Some(Sample::str(crate::logformat::unique_id(cx)?))
    }),
    FetchDef::new("uptime", Type::Int, ANYWHERE, "seconds since the process started", |_, cx, _| {
        long(cx.world.uptime())
    }),
    FetchDef::new("uuid", Type::Str, ANYWHERE, "a new UUID, version 4 or 7", uuid)
        .takes(0, &[Int])
        .checked(check_uuid),
    FetchDef::new("var", Type::Any, ANYWHERE, "a variable, or a default", var)
        .takes(1, &[Str, Str])
        .checked(check_var),
    FetchDef::new("wait_end", Type::Bool, INTERNAL, "true once no more data is awaited", |_, cx, _| {
        if cx.last {
            return Some(Sample::bool(true));
        }
        cx.may_change = true;
        None
    }),
    FetchDef::new("waiting_entity", Type::Str, INTERNAL, "what is being waited for", |_, cx, _| {
        Some(Sample::str(Text::Static(cx.stream.as_ref()?.waiting_entity?.as_bytes())))
    }),
];

fn int(value: impl Into<i64>) -> Option<Sample> {
    Some(Sample::int(value.into()))
}

fn long(value: u64) -> Option<Sample> {
    Some(Sample::int(i64::try_from(value).unwrap_or(i64::MAX)))
}

/// What the stream's task has cost; nothing where there is no stream.
fn task_figures(cx: &Ctx) -> Option<TaskFigures> {
    cx.stream.is_some().then(|| cx.world.task_figures())
}

fn proxy(args: &Args, cx: &Ctx) -> Option<ProxyFigures> {
    Some(cx.world.proxy_figures(args.proxy(0, cx)?))
}

fn server(args: &Args, cx: &Ctx) -> Option<ServerFigures> {
    let id: ServerId = args.server(0)?;
    Some(cx.world.server_figures(id))
}

fn acl(args: &Args, cx: &mut Ctx, _: &mut Iter) -> Option<Sample> {
    let list: &AclList = args.compiled(0)?;
    if !cx.enter() {
        return None;
    }
    let mut verdict = Verdict::Pass;
    for (not, acl) in &list.0 {
        let one = acl.eval(cx);
        verdict = match one {
            Verdict::Miss => Verdict::Miss,
            Verdict::Pass if !*not => verdict,
            Verdict::Fail if *not => verdict,
            _ => Verdict::Fail,
        };
        if verdict != Verdict::Pass {
            break;
        }
    }
    cx.leave();
    if verdict == Verdict::Miss {
        cx.may_change = true;
        return None;
    }
    Some(Sample::bool(verdict == Verdict::Pass))
}

fn constant(args: &Args, cx: &mut Ctx, _: &mut Iter) -> Option<Sample> {
    Some(Sample::bin(cx.store(args.str(0)?)?))
}

fn check_bin(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let text = String::from_utf8_lossy(args.str(0).unwrap_or(b"")).into_owned();
    args.put(0, Arg::Str(hex(&text)?.into()));
    Ok(())
}

fn check_bool(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let value = match args.str(0).unwrap_or(b"") {
        b"true" | b"1" => 1,
        b"false" | b"0" => 0,
        _ => return Err("Expects 'true', 'false', '0' or '1'".into()),
    };
    args.put(0, Arg::Int(value));
    Ok(())
}

/// A unit of time in argument `at`, turned into the microseconds it has.
pub(super) fn check_unit(args: &mut Args, at: usize) -> Result<(), String> {
    let unit = match args.str(at) {
        None => 1_000_000,
        Some(b"s") => 1_000_000,
        Some(b"ms") => 1000,
        Some(b"us") => 1,
        Some(other) => {
            return Err(format!("expects 's', 'ms' or 'us', got '{}'", String::from_utf8_lossy(other)));
        }
    };
    args.put(at, Arg::Int(unit));
    Ok(())
}

fn date(args: &Args, cx: &mut Ctx, _: &mut Iter) -> Option<Sample> {
    let unit = args.int(1).unwrap_or(1_000_000);
    let offset = args.int(0).unwrap_or(0);
    Some(Sample::int(cx.clock.wall_us.div_euclid(unit).saturating_add(offset)))
}

fn check_env(args: &mut Args, env: &mut CompileEnv) -> Result<(), String> {
    let name = String::from_utf8_lossy(args.str(0).unwrap_or(b"")).into_owned();
    args.put(0, env.names.environment(&name).map_or(Arg::Missing, |value| Arg::Str(value.into())));
    Ok(())
}

fn rand(args: &Args, cx: &mut Ctx, _: &mut Iter) -> Option<Sample> {
    let random = (cx.world.random() >> 32) as u32;
    Some(Sample::int(match args.int(0) {
        // A range is applied as a 32-bit number, by multiplication, which favours no value.
        Some(range) => (i64::from(random) * i64::from(range as u32)) >> 32,
        None => i64::from(random),
    }))
}

fn check_uuid(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    match args.int(0) {
        None | Some(4 | 7) => Ok(()),
        Some(other) => Err(format!("Unsupported UUID version: '{other}'")),
    }
}

fn uuid(args: &Args, cx: &mut Ctx, _: &mut Iter) -> Option<Sample> {
    let mut bytes = [0u8; 16];
    cx.world.random_bytes(&mut bytes);
    let version = args.int(0).unwrap_or(4) as u8;
    if version == 7 {
        let ms = (cx.clock.wall_us / 1000) as u64;
        bytes[..6].copy_from_slice(&ms.to_be_bytes()[2..]);
    }
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = cx.write(|out| {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        bytes.iter().enumerate().all(|(i, b)| {
            (!matches!(i, 4 | 6 | 8 | 10) || out.push(b'-'))
                && out.push(DIGITS[usize::from(b >> 4)])
                && out.push(DIGITS[usize::from(b & 15)])
        })
    })?;
    Some(Sample::str(text))
}

fn check_var(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let name = String::from_utf8_lossy(args.str(0).unwrap_or(b"")).into_owned();
    args.put(0, Arg::Var(VarRef::parse(&name)?));
    Ok(())
}

fn var(args: &Args, cx: &mut Ctx, _: &mut Iter) -> Option<Sample> {
    let var = args.var(0)?;
    if let Some(found) = cx.var(var) {
        return Some(found);
    }
    // The default is for a variable that is not set, not for a place where it cannot be.
    let there = match var.scope {
        Scope::Proc => true,
        scope => cx.vars(scope).is_some(),
    };
    if !there {
        return None;
    }
    let default = args.str(1)?;
    Some(Sample::str(cx.store(default)?))
}

fn check_dump(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    match args.str(0).unwrap_or(b"") {
        b"" | b"sess" | b"txn" | b"req" | b"res" | b"proc" => Ok(()),
        other => Err(format!(
            "invalid scope '{}', must be one of: sess, txn, req, res, proc",
            String::from_utf8_lossy(other)
        )),
    }
}

fn dump_all_vars(args: &Args, cx: &mut Ctx, _: &mut Iter) -> Option<Sample> {
    let (wanted, prefix, delimiter) =
        (args.str(0).unwrap_or(b""), args.str(1).unwrap_or(b""), args.str(2).unwrap_or(b", "));
    // The names are shared behind a lock and the values spread over scopes: this fetch is for debugging and builds its
    // text apart.
    let mut text = Vec::new();
    let limit = cx.value_max();
    for scope in [Scope::Sess, Scope::Txn, Scope::Req, Scope::Res, Scope::Proc] {
        if !wanted.is_empty() && wanted != scope.name().as_bytes() {
            continue;
        }
        let mut dump = |set: &crate::vars::VarSet| {
            for (var, value) in set.iter() {
                let name = var.short_name();
                if name.as_bytes().starts_with(prefix) && text.len() <= limit {
                    if !text.is_empty() {
                        text.extend_from_slice(delimiter);
                    }
                    text.extend_from_slice(format!("{}.{name}=", scope.name()).as_bytes());
                    dump_value(value, &mut text);
                }
            }
        };
        match scope {
            Scope::Proc => dump(&*cx.world.process_vars().read().ok()?),
            scope => {
                if let Some(set) = cx.vars(scope) {
                    dump(set);
                }
            }
        }
    }
    Some(Sample::str(cx.store(&text)?))
}

fn dump_value(value: &VarValue, out: &mut Vec<u8>) {
    match value {
        VarValue::Bool(b) => out.extend_from_slice(if *b { b"true" } else { b"false" }),
        VarValue::Int(i) => out.extend_from_slice(i.to_string().as_bytes()),
        VarValue::Ip4(ip) => out.extend_from_slice(ip.to_string().as_bytes()),
        VarValue::Ip6(ip) => out.extend_from_slice(ip.to_string().as_bytes()),
        VarValue::Bin(bytes) => {
            out.push(b'x');
            bytes.iter().for_each(|b| out.extend_from_slice(format!("{b:02x}").as_bytes()));
        }
        VarValue::Str(bytes) | VarValue::Method(bytes) => {
            out.push(b'"');
            for b in bytes {
                match b {
                    b'"' | b'\\' => out.extend_from_slice(&[b'\\', *b]),
                    b'\r' => out.extend_from_slice(b"\\r"),
                    b'\n' => out.extend_from_slice(b"\\n"),
                    8 => out.extend_from_slice(b"\\b"),
                    0 => out.extend_from_slice(b"\\0"),
                    b => out.push(*b),
                }
            }
            out.push(b'"');
        }
    }
}
