//! Expressions: a fetch followed by converters, compiled once.

use crate::args::{Arg, ArgKind, ArgSpec, Args};
use crate::cast;
use crate::context::{Ctx, Mark};
use crate::converter::{self, ConverterDef};
use crate::env::CompileEnv;
use crate::fetch::{self, FetchDef, Iter, unsupported};
use crate::value::{Sample, Type};
use smallvec::SmallVec;
use std::fmt;
use thalweg_syntax::carry::restore;
use thalweg_syntax::{ArgumentError, did_you_mean, split_arguments};

/// A converter with its arguments.
#[derive(Clone)]
pub struct Step {
    /// The converter.
    pub def: &'static ConverterDef,
    /// Its arguments.
    pub args: Args,
}

/// A fetch and its converters. Cheap to clone next to what compiling costs; immutable.
#[derive(Clone)]
pub struct Expr {
    /// The fetch.
    pub fetch: &'static FetchDef,
    /// The fetch's arguments.
    pub args: Args,
    /// The converters, in order.
    pub steps: SmallVec<[Step; 2]>,
    text: Box<str>,
    output: Type,
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expr({})", self.text)
    }
}

/// Bytes that may be part of a fetch's or converter's name.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'+')
}

/// The length of the name at the start of `text`.
fn name_len(text: &str) -> usize {
    text.bytes().position(|b| !is_name_byte(b)).unwrap_or(text.len())
}

impl Expr {
    /// Compiles an expression that is the whole of `text`, such as `src,ipmask(24)`.
    ///
    /// # Errors
    /// The text of the problem, worded as in the reference, such as `unknown fetch method 'foo'`.
    pub fn compile(text: &str, env: &mut CompileEnv) -> Result<Expr, String> {
        let (expr, used) = Expr::compile_prefix(text, env)?;
        if used < text.len() {
            return Err(format!("unexpected character '{}' after '{}'", &text[used..], &text[..used]));
        }
        Ok(expr)
    }

    /// Compiles the expression at the start of `text` and returns it with its length, for `%[...]`.
    ///
    /// # Errors
    /// As for [`Expr::compile`].
    pub fn compile_prefix(text: &str, env: &mut CompileEnv) -> Result<(Expr, usize), String> {
        let mut at = name_len(text);
        let name = &text[..at];
        if name.is_empty() {
            return Err("missing fetch method".into());
        }
        let def = lookup_fetch(name)?;
        let (args, used) = parse_args(&text[at..], def.args, &ArgPlace { fetch: name, converter: None }, env)
            .map_err(|e| format!("fetch method '{name}' : {e}"))?;
        let mut args = args;
        at += used;
        if let Some(check) = def.check {
            check(&mut args, env).map_err(|e| format!("invalid args in fetch method '{name}' : {e}"))?;
        }
        let mut expr = Expr { fetch: def, args, steps: SmallVec::new(), text: "".into(), output: def.output };
        at += expr.compile_steps(&text[at..], env)?;
        expr.text = text[..at].into();
        Ok((expr, at))
    }

    /// Compiles `,converter(args)...` at the start of `text`; returns how much was read.
    pub(crate) fn compile_steps(&mut self, text: &str, env: &mut CompileEnv) -> Result<usize, String> {
        let mut at = 0;
        while text[at..].starts_with(',') {
            at += text[at..].bytes().take_while(|b| *b == b',').count();
            if at == text.len() {
                // A comma that nothing follows changes nothing.
                break;
            }
            let len = name_len(&text[at..]);
            let name = &text[at..at + len];
            let Some(def) = converter::find(name) else {
                let known = converter::all().map(|def| def.name);
                return Err(with_hint(format!("unknown converter '{name}'"), name, known));
            };
            at += len;
            if !cast::possible(self.output, def.input) {
                return Err(format!("converter '{name}' cannot be applied"));
            }
            let place = ArgPlace { fetch: self.fetch.name, converter: Some(name) };
            let (mut args, used) = parse_args(&text[at..], def.args, &place, env)
                .map_err(|e| format!("invalid arg {} in converter '{name}' : {e}", e.position))?;
            at += used;
            if let Some(check) = def.check {
                check(&mut args, env).map_err(|e| format!("invalid args in converter '{name}' : {e}"))?;
            }
            self.output = match def.output {
                Type::Same => self.output,
                other => other,
            };
            self.steps.push(Step { def, args });
        }
        Ok(at)
    }

    /// The text it was compiled from.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn set_text(&mut self, text: &str) {
        self.text = text.into();
    }

    /// The type of its values.
    pub fn output(&self) -> Type {
        self.output
    }

    /// Says why the expression cannot be used at one of the points of `env`, if it cannot.
    pub fn check_points(&self, env: &CompileEnv) -> Result<(), String> {
        if self.fetch.points.meets(env.points) {
            return Ok(());
        }
        Err(format!(
            "sample fetch <{}> may not be reliably used here because it needs '{}' which is not available here",
            self.text, self.fetch.needs
        ))
    }

    /// Evaluates it. The value's text stays valid until the scratch memory is released below it.
    #[inline]
    pub fn eval(&self, cx: &mut Ctx) -> Option<Sample> {
        self.eval_next(cx, &mut Iter::default())
    }

    /// Evaluates it from position `iter`, for fetches that give several values: while the sample says `not_last`, ask
    /// again with the same `iter`.
    #[inline]
    pub fn eval_next(&self, cx: &mut Ctx, iter: &mut Iter) -> Option<Sample> {
        let mark = cx.mark();
        let Some(sample) = (self.fetch.run)(&self.args, cx, iter) else {
            cx.may_change |= cx.request_may_come && self.fetch.needs == crate::fetch::REQUEST.1;
            return None;
        };
        self.convert_from(mark, sample, cx)
    }

    /// Applies the converters only, to a value that comes from elsewhere.
    pub fn convert(&self, sample: Sample, cx: &mut Ctx) -> Option<Sample> {
        let mark = cx.mark();
        self.convert_from(mark, sample, cx)
    }

    #[inline]
    fn convert_from(&self, mark: Mark, mut sample: Sample, cx: &mut Ctx) -> Option<Sample> {
        for step in &self.steps {
            cx.compact(mark, &mut sample);
            if !sample.cast(step.def.input, cx) || !(step.def.run)(&step.args, &mut sample, cx) {
                return None;
            }
        }
        Some(sample)
    }

    /// Evaluates it and casts the value. A value that more data may change counts as none unless no more will come.
    #[inline]
    pub fn eval_as(&self, to: Type, cx: &mut Ctx) -> Option<Sample> {
        let mut sample = self.eval(cx)?;
        if sample.flags.may_change && !cx.last {
            cx.may_change = true;
            return None;
        }
        sample.cast(to, cx).then_some(sample)
    }
}

fn with_hint<'c>(message: String, word: &str, candidates: impl IntoIterator<Item = &'c str>) -> String {
    match did_you_mean(word, candidates) {
        Some(hint) => format!("{message}; did you mean '{hint}' maybe ?"),
        None => message,
    }
}

/// The fetch named `name`.
///
/// # Errors
/// What to tell the user when there is none.
pub(crate) fn lookup_fetch(name: &str) -> Result<&'static FetchDef, String> {
    if let Some(def) = fetch::find(name) {
        return Ok(def);
    }
    if let Some(why) = unsupported::reason(name) {
        return Err(format!("fetch method '{name}' is known but not supported yet ({why})"));
    }
    Err(with_hint(format!("unknown fetch method '{name}'"), name, fetch::all().map(|def| def.name)))
}

/// What arguments belong to, for messages.
pub(crate) struct ArgPlace<'p> {
    pub fetch: &'p str,
    pub converter: Option<&'p str>,
}

impl ArgPlace<'_> {
    /// The end of a message about argument `i` (from 1).
    fn describe(&self, i: usize, env: &CompileEnv) -> String {
        let keyword = match self.converter {
            Some(converter) => {
                format!("conversion keyword '{converter}' for sample fetch keyword '{}'", self.fetch)
            }
            None => format!("sample fetch keyword '{}'", self.fetch),
        };
        let context = if env.context.is_empty() { String::new() } else { format!(" in {}", env.context) };
        let proxy =
            if env.proxy.name.is_empty() { String::new() } else { format!(" in proxy '{}'", env.proxy.name) };
        format!("in arg {i} of {keyword}{context}{proxy}")
    }
}

/// A problem with one argument (numbered from 1).
pub(crate) struct ArgProblem {
    position: usize,
    text: String,
}

impl fmt::Display for ArgProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Parses the parenthesised arguments at the start of `text`, if any; returns them and how much was read.
pub(crate) fn parse_args(
    text: &str,
    spec: ArgSpec,
    place: &ArgPlace,
    env: &mut CompileEnv,
) -> Result<(Args, usize), ArgProblem> {
    let mut args = Args::default();
    let fail = |position: usize, text: String| ArgProblem { position, text };
    let (given, used) = match text.strip_prefix('(') {
        None => (Vec::new(), 0),
        Some(inner) => match split_arguments(inner.as_bytes()) {
            Ok(list) => (list.arguments, list.end + 1),
            Err(ArgumentError::MissingParenthesis { argument, .. }) => {
                return Err(fail(argument, "expected ')'".into()));
            }
            Err(ArgumentError::UnmatchedQuote { argument, at }) => {
                return Err(fail(
                    argument,
                    format!(
                        "unmatched quote at position {argument}: '{}'",
                        inner.get(at..).unwrap_or_default()
                    ),
                ));
            }
        },
    };
    let missing = |i: usize, kind: ArgKind| {
        let (got, required) = (given.len(), spec.required);
        fail(i + 1, format!("missing arguments (got {got}/{required}), type '{}' expected", kind.name()))
    };
    for (i, kind) in spec.kinds.iter().enumerate() {
        let Some(argument) = given.get(i).filter(|a| a.quoted || !a.text.is_empty()) else {
            // An empty name of a table is one, that of the current proxy.
            if i >= spec.required && (*kind != ArgKind::Table || i >= given.len()) {
                continue;
            }
            // A mandatory name that is absent means the current proxy; a mandatory text is empty.
            match kind {
                ArgKind::Str if i == 0 || i < given.len() => args.put(i, Arg::Str(Box::default())),
                // A table behind other arguments must be named.
                ArgKind::Table if i > 0 && i >= given.len() => return Err(missing(i, *kind)),
                ArgKind::Frontend
                | ArgKind::Backend
                | ArgKind::Table
                | ArgKind::Server
                | ArgKind::Userlist => {
                    args.put(i, resolve(*kind, None, i + 1, place, env));
                }
                _ if given.is_empty() => {
                    return Err(fail(
                        i + 1,
                        format!("expected type '{}' at position {}, but got nothing", kind.name(), i + 1),
                    ));
                }
                _ => return Err(missing(i, *kind)),
            }
            continue;
        };
        let arg = value_of(*kind, &argument.text, i + 1, place, env)?;
        args.put(i, arg);
    }
    if given.len() > spec.kinds.len() {
        let start = match spec.kinds.len() {
            0 => 1,
            n => 1 + given[n - 1].range.end,
        };
        return Err(fail(
            spec.kinds.len().max(1),
            format!("expected ')' before '{}'", text.get(start..).unwrap_or_default()),
        ));
    }
    Ok((args, used))
}

/// The argument at `position`, from 1, whose text is `bytes`.
fn value_of(
    kind: ArgKind,
    bytes: &[u8],
    position: usize,
    place: &ArgPlace,
    env: &mut CompileEnv,
) -> Result<Arg, ArgProblem> {
    let invalid = || {
        let text = format!(
            "failed to parse '{}' as type '{}' at position {position}",
            String::from_utf8_lossy(bytes),
            kind.name()
        );
        ArgProblem { position, text }
    };
    let word = std::str::from_utf8(bytes).map_err(|_| invalid());
    Ok(match kind {
        // Flags of the expression of `Regex` are the keyword's own business: its check compiles the text.
        ArgKind::Str | ArgKind::ProtobufField | ArgKind::Regex => Arg::Str(restore(bytes).into()),
        ArgKind::Int => Arg::Int(parse_int(bytes).ok_or_else(invalid)?),
        ArgKind::Time => Arg::Time(u64::from(thalweg_syntax::parse_time_ms(word?).map_err(|_| invalid())?)),
        ArgKind::Size => Arg::Size(thalweg_syntax::parse_size(word?, u64::MAX).map_err(|_| invalid())?),
        ArgKind::Ip4 => Arg::Ip4(cast::parse_ip4(bytes).ok_or_else(invalid)?),
        ArgKind::Ip6 => Arg::Ip6(cast::parse_ip6(bytes).ok_or_else(invalid)?),
        ArgKind::Mask4 => Arg::Ip4(parse_mask4(bytes).ok_or_else(invalid)?),
        ArgKind::Mask6 => Arg::Ip6(parse_mask6(bytes).ok_or_else(invalid)?),
        ArgKind::Frontend | ArgKind::Backend | ArgKind::Table | ArgKind::Server | ArgKind::Userlist => {
            resolve(kind, Some(word?), position, place, env)
        }
    })
}

/// An integer with an optional sign, the whole of `text`.
pub(crate) fn parse_int(text: &[u8]) -> Option<i64> {
    let (value, read) = crate::value::leading_int(text);
    (read == text.len() && text.last().is_some_and(u8::is_ascii_digit)).then_some(value)
}

/// A prefix length or a dotted mask.
pub(crate) fn parse_mask4(text: &[u8]) -> Option<std::net::Ipv4Addr> {
    if text.iter().all(u8::is_ascii_digit) {
        let bits = parse_int(text).filter(|n| (0..=32).contains(n))?;
        return Some(std::net::Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - bits as u32).unwrap_or(0)));
    }
    cast::parse_ip4(text)
}

/// A prefix length or a mask in address form.
pub(crate) fn parse_mask6(text: &[u8]) -> Option<std::net::Ipv6Addr> {
    if text.iter().all(u8::is_ascii_digit) {
        let bits = parse_int(text).filter(|n| (0..=128).contains(n))?;
        return Some(std::net::Ipv6Addr::from_bits(u128::MAX.checked_shl(128 - bits as u32).unwrap_or(0)));
    }
    cast::parse_ip6(text)
}

/// Finds what a name refers to. A name that does not exist is noted in `env.late`, as the reference only finds out once
/// the whole configuration was read, and leaves the argument missing.
fn resolve(
    kind: ArgKind,
    name: Option<&str>,
    position: usize,
    place: &ArgPlace,
    env: &mut CompileEnv,
) -> Arg {
    let own = env.proxy.name;
    let describe = |env: &CompileEnv| place.describe(position, env);
    let problem = match kind {
        ArgKind::Frontend | ArgKind::Backend => {
            let frontend = kind == ArgKind::Frontend;
            let what = if frontend { "frontend" } else { "backend" };
            match name {
                Some(name) => {
                    let found = if frontend { env.names.frontend(name) } else { env.names.backend(name) };
                    if let Some(id) = found {
                        return Arg::Proxy(id);
                    }
                    format!("unable to find {what} '{name}' referenced {}", describe(env))
                }
                None => {
                    let able = if frontend { env.proxy.frontend } else { env.proxy.backend };
                    match env.proxy.id {
                        Some(id) if able => return Arg::Proxy(id),
                        // Presets are compiled once for all that inherit them, and others before they have a number.
                        None if able && frontend => return Arg::OwnFrontend,
                        None if able => return Arg::OwnBackend,
                        _ => {
                            format!("proxy '{own}', referenced {}, has not {what} capability", describe(env))
                        }
                    }
                }
            }
        }
        ArgKind::Server => {
            let Some(name) = name else {
                env.late.push(format!("missing server name {}", describe(env)));
                return Arg::Missing;
            };
            match name.split_once('/') {
                Some((backend, server)) => match env.names.backend(backend) {
                    None => format!("unable to find proxy '{backend}' referenced {}", describe(env)),
                    Some(id) => match env.names.server(id, server) {
                        Some(server) => return Arg::Server(server),
                        None => {
                            format!(
                                "unable to find server '{server}' in proxy '{backend}', referenced {}",
                                describe(env)
                            )
                        }
                    },
                },
                None => match env.proxy.id.and_then(|id| env.names.server(id, name)) {
                    Some(server) => return Arg::Server(server),
                    None => format!(
                        "unable to find server '{name}' in proxy '{own}', referenced {}",
                        describe(env)
                    ),
                },
            }
        }
        ArgKind::Userlist => match name {
            None => format!("missing userlist name {}", describe(env)),
            Some(name) => match env.names.userlist(name) {
                Some(id) => return Arg::Userlist(id),
                None => format!("unable to find userlist '{name}' referenced {}", describe(env)),
            },
        },
        _ => match env.names.table(name.unwrap_or(own)) {
            Some((id, _)) => return Arg::Table(id),
            None => format!("unable to find table '{}' referenced {}", name.unwrap_or(own), describe(env)),
        },
    };
    env.late.push(problem);
    Arg::Missing
}
