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
        None,
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
            out.extend(b">\n");
            true
        });
        if let Some(line) = line {
            cx.world.debug_line(args.str(1), cx.text(line));
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
const X509_ERRORS: &[(i64, &str)] = &[
    (0, "X509_V_OK"),
    (1, "X509_V_ERR_UNSPECIFIED"),
    (2, "X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT"),
    (3, "X509_V_ERR_UNABLE_TO_GET_CRL"),
    (4, "X509_V_ERR_UNABLE_TO_DECRYPT_CERT_SIGNATURE"),
    (5, "X509_V_ERR_UNABLE_TO_DECRYPT_CRL_SIGNATURE"),
    (6, "X509_V_ERR_UNABLE_TO_DECODE_ISSUER_PUBLIC_KEY"),
    (7, "X509_V_ERR_CERT_SIGNATURE_FAILURE"),
    (8, "X509_V_ERR_CRL_SIGNATURE_FAILURE"),
    (9, "X509_V_ERR_CERT_NOT_YET_VALID"),
    (10, "X509_V_ERR_CERT_HAS_EXPIRED"),
    (11, "X509_V_ERR_CRL_NOT_YET_VALID"),
    (12, "X509_V_ERR_CRL_HAS_EXPIRED"),
    (13, "X509_V_ERR_ERROR_IN_CERT_NOT_BEFORE_FIELD"),
    (14, "X509_V_ERR_ERROR_IN_CERT_NOT_AFTER_FIELD"),
    (15, "X509_V_ERR_ERROR_IN_CRL_LAST_UPDATE_FIELD"),
    (16, "X509_V_ERR_ERROR_IN_CRL_NEXT_UPDATE_FIELD"),
    (17, "X509_V_ERR_OUT_OF_MEM"),
    (18, "X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT"),
    (19, "X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN"),
    (20, "X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY"),
    (21, "X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE"),
    (22, "X509_V_ERR_CERT_CHAIN_TOO_LONG"),
    (23, "X509_V_ERR_CERT_REVOKED"),
    (24, "X509_V_ERR_NO_ISSUER_PUBLIC_KEY"),
    (25, "X509_V_ERR_PATH_LENGTH_EXCEEDED"),
    (26, "X509_V_ERR_INVALID_PURPOSE"),
    (27, "X509_V_ERR_CERT_UNTRUSTED"),
    (28, "X509_V_ERR_CERT_REJECTED"),
    (29, "X509_V_ERR_SUBJECT_ISSUER_MISMATCH"),
    (30, "X509_V_ERR_AKID_SKID_MISMATCH"),
    (31, "X509_V_ERR_AKID_ISSUER_SERIAL_MISMATCH"),
    (32, "X509_V_ERR_KEYUSAGE_NO_CERTSIGN"),
    (33, "X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER"),
    (34, "X509_V_ERR_UNHANDLED_CRITICAL_EXTENSION"),
    (35, "X509_V_ERR_KEYUSAGE_NO_CRL_SIGN"),
    (36, "X509_V_ERR_UNHANDLED_CRITICAL_CRL_EXTENSION"),
    (37, "X509_V_ERR_INVALID_NON_CA"),
    (38, "X509_V_ERR_PROXY_PATH_LENGTH_EXCEEDED"),
    (39, "X509_V_ERR_KEYUSAGE_NO_DIGITAL_SIGNATURE"),
    (40, "X509_V_ERR_PROXY_CERTIFICATES_NOT_ALLOWED"),
    (41, "X509_V_ERR_INVALID_EXTENSION"),
    (42, "X509_V_ERR_INVALID_POLICY_EXTENSION"),
    (43, "X509_V_ERR_NO_EXPLICIT_POLICY"),
    (44, "X509_V_ERR_DIFFERENT_CRL_SCOPE"),
    (45, "X509_V_ERR_UNSUPPORTED_EXTENSION_FEATURE"),
    (46, "X509_V_ERR_UNNESTED_RESOURCE"),
    (47, "X509_V_ERR_PERMITTED_VIOLATION"),
    (48, "X509_V_ERR_EXCLUDED_VIOLATION"),
    (49, "X509_V_ERR_SUBTREE_MINMAX"),
    (50, "X509_V_ERR_APPLICATION_VERIFICATION"),
    (51, "X509_V_ERR_UNSUPPORTED_CONSTRAINT_TYPE"),
    (52, "X509_V_ERR_UNSUPPORTED_CONSTRAINT_SYNTAX"),
    (53, "X509_V_ERR_UNSUPPORTED_NAME_SYNTAX"),
    (54, "X509_V_ERR_CRL_PATH_VALIDATION_ERROR"),
    (55, "X509_V_ERR_PATH_LOOP"),
    (56, "X509_V_ERR_SUITE_B_INVALID_VERSION"),
    (57, "X509_V_ERR_SUITE_B_INVALID_ALGORITHM"),
    (58, "X509_V_ERR_SUITE_B_INVALID_CURVE"),
    (59, "X509_V_ERR_SUITE_B_INVALID_SIGNATURE_ALGORITHM"),
    (60, "X509_V_ERR_SUITE_B_LOS_NOT_ALLOWED"),
    (61, "X509_V_ERR_SUITE_B_CANNOT_SIGN_P_384_WITH_P_256"),
    (62, "X509_V_ERR_HOSTNAME_MISMATCH"),
    (63, "X509_V_ERR_EMAIL_MISMATCH"),
    (64, "X509_V_ERR_IP_ADDRESS_MISMATCH"),
    (65, "X509_V_ERR_DANE_NO_MATCH"),
    (66, "X509_V_ERR_EE_KEY_TOO_SMALL"),
    (67, "X509_V_ERR_CA_KEY_TOO_SMALL"),
    (68, "X509_V_ERR_CA_MD_TOO_WEAK"),
    (69, "X509_V_ERR_INVALID_CALL"),
    (70, "X509_V_ERR_STORE_LOOKUP"),
    (71, "X509_V_ERR_NO_VALID_SCTS"),
    (72, "X509_V_ERR_PROXY_SUBJECT_NAME_VIOLATION"),
    (73, "X509_V_ERR_OCSP_VERIFY_NEEDED"),
    (74, "X509_V_ERR_OCSP_VERIFY_FAILED"),
    (75, "X509_V_ERR_OCSP_CERT_UNKNOWN"),
    (76, "X509_V_ERR_UNSUPPORTED_SIGNATURE_ALGORITHM"),
    (77, "X509_V_ERR_SIGNATURE_ALGORITHM_MISMATCH"),
    (78, "X509_V_ERR_SIGNATURE_ALGORITHM_INCONSISTENCY"),
    (79, "X509_V_ERR_INVALID_CA"),
    (80, "X509_V_ERR_PATHLEN_INVALID_FOR_NON_CA"),
    (81, "X509_V_ERR_PATHLEN_WITHOUT_KU_KEY_CERT_SIGN"),
    (82, "X509_V_ERR_KU_KEY_CERT_SIGN_INVALID_FOR_NON_CA"),
    (83, "X509_V_ERR_ISSUER_NAME_EMPTY"),
    (84, "X509_V_ERR_SUBJECT_NAME_EMPTY"),
    (85, "X509_V_ERR_MISSING_AUTHORITY_KEY_IDENTIFIER"),
    (86, "X509_V_ERR_MISSING_SUBJECT_KEY_IDENTIFIER"),
    (87, "X509_V_ERR_EMPTY_SUBJECT_ALT_NAME"),
    (88, "X509_V_ERR_EMPTY_SUBJECT_SAN_NOT_CRITICAL"),
    (89, "X509_V_ERR_CA_BCONS_NOT_CRITICAL"),
    (90, "X509_V_ERR_AUTHORITY_KEY_IDENTIFIER_CRITICAL"),
    (91, "X509_V_ERR_SUBJECT_KEY_IDENTIFIER_CRITICAL"),
    (92, "X509_V_ERR_CA_CERT_MISSING_KEY_USAGE"),
    (93, "X509_V_ERR_EXTENSIONS_REQUIRE_VERSION_3"),
    (94, "X509_V_ERR_EC_KEY_EXPLICIT_PARAMS"),
];

fn x509_error(_: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Value::Int(code) = sample.value else { return false };
    let text = match X509_ERRORS.iter().find(|(known, _)| *known == code) {
        Some((_, name)) => Some(crate::value::Text::Static(name.as_bytes())),
        // The reference writes the number without a sign.
        None => {
            cx.write(|out| std::fmt::Write::write_fmt(out, format_args!("{}", code.cast_unsigned())).is_ok())
        }
    };
    let Some(text) = text else { return false };
    sample.value = Value::Str(text);
    true
}
