//! Converters that look at live state, or have effects: `nbsrv`, `set-var`, `when`, `capture-req`, `debug`...

use super::ConverterDef;
use super::shape::{entry, text_of, to_bool, to_int};
use crate::acl::{Acl, Verdict};
use crate::args::{Arg, ArgKind, ArgSpec, Args};
use crate::context::Ctx;
use crate::env::CompileEnv;
use crate::facts::{Responder, ServerId, StreamFacts};
use crate::value::{Sample, Type, Value};
use crate::vars::{SetConditions, VarRef};
use std::sync::Arc;
use thalweg_tls::verify::Code;

const ANY_ANY: (Type, Type) = (Type::Any, Type::Any);
const STR_INT: (Type, Type) = (Type::Str, Type::Int);
const STR_BOOL: (Type, Type) = (Type::Str, Type::Bool);
const STR_STR: (Type, Type) = (Type::Str, Type::Str);
const SLOT: ArgSpec = ArgSpec::new(1, &[ArgKind::Int]);

/// The converters of this family.
pub static STATE: &[ConverterDef] = &[
    entry(
        "capture-req",
        STR_STR,
        SLOT,
        None,
        |a, s, c| capture(a, s, c, false),
        "Stores the value in a request capture slot.",
    ),
    entry(
        "capture-res",
        STR_STR,
        SLOT,
        None,
        |a, s, c| capture(a, s, c, true),
        "Stores the value in a response capture slot.",
    ),
    entry(
        "debug",
        (Type::Any, Type::Same),
        ArgSpec::new(0, &[ArgKind::Str, ArgKind::Str]),
        Some(check_debug),
        debug,
        "Reports the value to an event sink.",
    ),
    entry(
        "fe_exists",
        STR_BOOL,
        ArgSpec::NONE,
        None,
        fe_exists,
        "True when there is a frontend with this name.",
    ),
    entry("nbsrv", STR_INT, ArgSpec::NONE, None, nbsrv, "The number of usable servers of a backend."),
    entry(
        "set-var",
        ANY_ANY,
        ArgSpec::new(1, &[ArgKind::Str; 5]),
        Some(check_set_var),
        set_var,
        "Stores the value in a variable, under conditions.",
    ),
    entry("srv_is_up", STR_BOOL, ArgSpec::NONE, None, srv_is_up, "True when a server is usable."),
    entry(
        "srv_queue",
        STR_INT,
        ArgSpec::NONE,
        None,
        srv_queue,
        "The number of requests waiting for a server.",
    ),
    entry(
        "unset-var",
        ANY_ANY,
        ArgSpec::new(1, &[ArgKind::Str]),
        Some(check_unset_var),
        unset_var,
        "Removes a variable.",
    ),
    entry(
        "when",
        ANY_ANY,
        ArgSpec::new(1, &[ArgKind::Str; 3]),
        Some(check_when),
        when,
        "Passes the value only under a condition.",
    ),
    entry(
        "x509_v_err_str",
        (Type::Int, Type::Str),
        ArgSpec::NONE,
        None,
        x509_error,
        "The name of a certificate verification error.",
    ),
];

fn capture(args: &Args, sample: &mut Sample, cx: &mut Ctx, response: bool) -> bool {
    let Some(slot) = args.int(0).and_then(|i| usize::try_from(i).ok()) else { return false };
    let Some(len) = cx.world.capture_len(cx.session.frontend, response, slot) else { return false };
    let Some(text) = sample.value.text() else { return false };
    // Captures live in the stream: the text is moved to the scratch memory so that both can be borrowed.
    let Some(text) = cx.keep(text) else { return false };
    let Some(stream) = cx.stream.take() else { return false };
    let captures = if response { &mut stream.res_captures } else { &mut stream.req_captures };
    let done = captures.set(slot, cx.text(text), len);
    cx.stream = Some(&mut *stream);
    done
}

/// Where lines of `debug` go when nothing else is said.
const DEBUG_SINK: &[u8] = b"buf0";

fn check_debug(args: &mut Args, env: &mut CompileEnv) -> Result<(), String> {
    match args.str(1) {
        None | Some(b"stdout" | b"stderr") => Ok(()),
        Some(name) => match String::from_utf8_lossy(name) {
            name if env.names.ring(&name) => Ok(()),
            name => Err(format!("debug converter: sink '{name}' doesn't exist")),
        },
    }
}

fn debug(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let mark = cx.mark();
    let kind = sample.value.kind().name();
    let mut copy = *sample;
    if copy.cast(Type::Str, cx)
        && let Some(text) = copy.value.text()
    {
        let line = cx.map_bytes(text, |input, out| {
            out.extend(b"[debug] ");
            out.extend(text_of(args, 0));
            out.extend(b": type=");
            out.extend(kind.as_bytes());
            out.extend(b" <");
            let room = out.remaining().saturating_sub(2);
            let start = out.len();
            out.extend_cut(&input[..input.len().min(room)]);
            // Terminals and log readers must not be fooled by control characters.
            for b in &mut out.as_mut_slice()[start..] {
                if !(32..127).contains(b) {
                    *b = b'.';
                }
            }
            out.extend(b">");
            true
        });
        if let Some(line) = line {
            cx.world.debug_line(args.str(1).unwrap_or(DEBUG_SINK), cx.text(line));
        }
    }
    cx.release(mark);
    true
}

fn fe_exists(_: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    to_bool(sample, cx, |name| Some(cx.world.frontend_by_name(name).is_some()))
}

fn nbsrv(_: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    to_int(sample, cx, |name| {
        let backend = cx.world.backend_by_name(name)?;
        Some(cx.world.proxy_figures(backend).servers_up.into())
    })
}

/// The server named by `backend/server`, or by its name alone in the backend in charge.
fn server(name: &[u8], cx: &Ctx) -> Option<ServerId> {
    match memchr::memchr(b'/', name) {
        Some(slash) => {
            let backend = cx.world.backend_by_name(&name[..slash])?;
            cx.world.server_by_name(backend, &name[slash + 1..])
        }
        None => {
            let backend = cx.stream.as_ref().map_or(cx.session.frontend, |stream| stream.backend);
            cx.world.server_by_name(backend, name)
        }
    }
}

fn srv_is_up(_: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    to_bool(sample, cx, |name| Some(cx.world.server_figures(server(name, cx)?).up))
}

fn srv_queue(_: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    to_int(sample, cx, |name| Some(cx.world.server_figures(server(name, cx)?).queue.into()))
}

/// Turns the text of the first argument into a variable.
fn want_named_var(args: &mut Args) -> Result<(), String> {
    let name = String::from_utf8_lossy(text_of(args, 0)).into_owned();
    if name.is_empty() {
        return Err("Empty variable name cannot be accepted".into());
    }
    args.put(0, Arg::Var(VarRef::parse(&name)?));
    Ok(())
}

fn check_set_var(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    want_named_var(args)?;
    let mut conditions = SetConditions::default();
    for i in 1..args.len() {
        let name = String::from_utf8_lossy(text_of(args, i)).into_owned();
        conditions.add(&name).map_err(|_| format!("unknown condition \"{name}\""))?;
    }
    args.put(1, Arg::Compiled(Arc::new(conditions)));
    Ok(())
}

fn set_var(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(var) = args.var(0) else { return false };
    if let Some(conditions) = args.compiled::<SetConditions>(1).filter(|c| **c != SetConditions::default()) {
        let bytes = cx.bytes(&sample.value);
        let allowed = match cx.with_var(var, |old| conditions.allow(var, Some(old), sample, bytes)) {
            Some(allowed) => allowed,
            None => conditions.allow(var, None, sample, bytes),
        };
        if !allowed {
            return false;
        }
    }
    cx.set_var(var, sample.value)
}

fn check_unset_var(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    want_named_var(args)
}

fn unset_var(args: &Args, _: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(var) = args.var(0) else { return false };
    cx.unset_var(var);
    true
}

/// What `when` waits for.
enum Condition {
    Stopping,
    Error,
    Forwarded,
    ToApplet,
    Processed,
    Acl(Arc<Acl>),
}

struct When {
    condition: Condition,
    expected: bool,
}

fn check_when(args: &mut Args, env: &mut CompileEnv) -> Result<(), String> {
    let text = String::from_utf8_lossy(text_of(args, 0)).into_owned();
    let (expected, name) = match text.strip_prefix('!') {
        Some(name) => (false, name),
        None => (true, text.as_str()),
    };
    let mut when = When { condition: Condition::Error, expected };
    match name {
        "stopping" => when.condition = Condition::Stopping,
        "error" => {}
        "normal" => when.expected = !expected,
        "forwarded" => when.condition = Condition::Forwarded,
        "toapplet" => when.condition = Condition::ToApplet,
        "processed" => when.condition = Condition::Processed,
        "acl" => {
            let Some(name) = args.str(1) else {
                return Err("'acl' selector requires an extra argument with the ACL name".into());
            };
            let name = String::from_utf8_lossy(name).into_owned();
            when.condition =
                Condition::Acl(crate::acl::named(&name, env).map_err(|_| format!("ACL '{name}' not found"))?);
        }
        _ => {
            return Err(format!(
                "expects a supported keyword among {{stopping,normal,error,forwarded,toapplet,processed,acl}} but got '{text}'"
            ));
        }
    }
    args.put(0, Arg::Compiled(Arc::new(when)));
    Ok(())
}

fn when(args: &Args, _: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(when) = args.compiled::<When>(0) else { return false };
    let about_stream =
        |cx: &Ctx, test: fn(&StreamFacts) -> bool| cx.stream.as_ref().is_some_and(|stream| test(stream));
    let holds = match &when.condition {
        Condition::Stopping => cx.world.stopping(),
        Condition::Error => about_stream(cx, had_error),
        Condition::Forwarded => about_stream(cx, was_forwarded),
        Condition::ToApplet => about_stream(cx, |stream| stream.responder != Responder::Server),
        Condition::Processed => {
            about_stream(cx, |stream| was_forwarded(stream) || stream.responder != Responder::Server)
        }
        Condition::Acl(acl) => {
            // An ACL may use this very expression: nesting is bounded.
            if !cx.enter() {
                return false;
            }
            let verdict = acl.eval(cx);
            cx.leave();
            verdict == Verdict::Pass
        }
    };
    holds == when.expected
}

/// The rule of `option dontlog-normal`: errors, timeouts, retries, redispatches and 5xx. What was answered here is none.
fn had_error(stream: &StreamFacts) -> bool {
    !matches!(stream.termination.cause, b'-' | b'L')
        || stream.retries > 0
        || stream.redispatched
        || stream.status >= 500
}

fn was_forwarded(stream: &StreamFacts) -> bool {
    stream.server.is_some() && stream.responder == Responder::Server && stream.timers.connect_us >= 0
}

/// OpenSSL's names of its verification errors; numbers without a name have none there, either.
fn x509_error(_: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Value::Int(code) = sample.value else { return false };
    let name = u16::try_from(code).ok().and_then(|number| Code(number).name());
    let text = match name {
        Some(name) => Some(crate::value::Text::Static(name.as_bytes())),
        // The reference writes the number without a sign.
        None => {
            cx.write(|out| std::fmt::Write::write_fmt(out, format_args!("{}", code.cast_unsigned())).is_ok())
        }
    };
    let Some(text) = text else { return false };
    sample.value = Value::Str(text);
    true
}
