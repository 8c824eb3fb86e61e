//! Maps: the value that a file gives to a key (`map`, `map_beg`, `map_ip_int`...).

use super::ConverterDef;
use super::shape::{entry, text_of};
use crate::args::{Arg, ArgKind, ArgSpec, Args};
use crate::cast::{parse_ip4, parse_ip6};
use crate::context::{Ctx, Out};
use crate::env::CompileEnv;
use crate::expr::parse_int;
use crate::pattern::{Index, Method, Needle};
use crate::value::{Sample, Type, Value};
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use thalweg_sys::pcre::{Pcre, PcreMemory};

/// What a map gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gives {
    Str,
    Int,
    Ip,
    Key,
    /// A string with references to the groups of the regular expression.
    Groups,
}

struct MapUse {
    index: Arc<Index>,
    gives: Gives,
    default: Option<Default>,
}

enum Default {
    Text(Box<[u8]>),
    Value(Value),
}

const STR: ArgSpec = ArgSpec::new(1, &[ArgKind::Str, ArgKind::Str]);
const INT: ArgSpec = ArgSpec::new(1, &[ArgKind::Str, ArgKind::Int]);
const KEY: ArgSpec = ArgSpec::new(1, &[ArgKind::Str]);

macro_rules! maps {
    ($($name:literal $input:ident $method:ident $gives:ident;)*) => {
        &[$(entry(
            $name,
            (Type::$input, maps!(@type $gives)),
            maps!(@args $gives),
            Some(|args, env| open(args, env, Method::$method, Gives::$gives)),
            look_up,
            "The value that a map gives to a key.",
        )),*]
    };
    (@type Int) => { Type::Int };
    (@type Ip) => { Type::Addr };
    (@type $other:ident) => { Type::Str };
    (@args Int) => { INT };
    (@args Key) => { KEY };
    (@args $other:ident) => { STR };
}

/// The converters of this family.
pub static MAP: &[ConverterDef] = maps! {
    "map" Str Str Str;
    "map_str" Str Str Str; "map_str_int" Str Str Int; "map_str_ip" Str Str Ip; "map_str_key" Str Str Key;
    "map_beg" Str Beg Str; "map_beg_int" Str Beg Int; "map_beg_ip" Str Beg Ip; "map_beg_key" Str Beg Key;
    "map_sub" Str Sub Str; "map_sub_int" Str Sub Int; "map_sub_ip" Str Sub Ip; "map_sub_key" Str Sub Key;
    "map_dir" Str Dir Str; "map_dir_int" Str Dir Int; "map_dir_ip" Str Dir Ip; "map_dir_key" Str Dir Key;
    "map_dom" Str Dom Str; "map_dom_int" Str Dom Int; "map_dom_ip" Str Dom Ip; "map_dom_key" Str Dom Key;
    "map_end" Str End Str; "map_end_int" Str End Int; "map_end_ip" Str End Ip; "map_end_key" Str End Key;
    "map_reg" Str Reg Str; "map_reg_int" Str Reg Int; "map_reg_ip" Str Reg Ip; "map_reg_key" Str Reg Key;
    "map_regm" Str Reg Groups;
    "map_int" Int Int Str; "map_int_int" Int Int Int; "map_int_ip" Int Int Ip; "map_int_key" Int Int Key;
    "map_ip" Addr Ip Str; "map_ip_int" Addr Ip Int; "map_ip_ip" Addr Ip Ip; "map_ip_key" Addr Ip Key;
};

fn parse_ip(text: &[u8]) -> Option<IpAddr> {
    parse_ip4(text).map(IpAddr::from).or_else(|| parse_ip6(text).map(IpAddr::from))
}

fn open(args: &mut Args, env: &mut CompileEnv, method: Method, gives: Gives) -> Result<(), String> {
    let file = String::from_utf8_lossy(text_of(args, 0)).into_owned();
    let place = format!("by map at file '{}' line {}", env.file, env.line);
    let names = env.names;
    let set = env.registry.open(&file, true, &place, |path| names.read_file(path))?;
    let index = set.index(method, false)?;
    if matches!(gives, Gives::Int | Gives::Ip) {
        check_values(&set, gives)?;
    }
    let default = match args.at(1) {
        Arg::Int(value) => Some(Default::Value(Value::Int(*value))),
        Arg::Str(text) if gives == Gives::Ip => {
            let ip = parse_ip(text).ok_or_else(|| {
                format!("map: cannot parse default ip <{}>.", String::from_utf8_lossy(text))
            })?;
            Some(Default::Value(ip.into()))
        }
        Arg::Str(text) => Some(Default::Text(text.clone())),
        _ => None,
    };
    args.put(0, Arg::Compiled(Arc::new(MapUse { index, gives, default })));
    Ok(())
}

/// Entries of a map are checked this many at a time.
const PAGE: usize = 4096;

/// Checks that every value is of the type that will be asked for.
fn check_values(set: &crate::pattern::PatternSet, gives: Gives) -> Result<(), String> {
    let mut from = 0;
    loop {
        let page = set.entries(None, from, PAGE);
        let Some(last) = page.last() else { return Ok(()) };
        from = last.id + 1;
        let good = |value: &[u8]| match gives {
            Gives::Int => parse_int(value).is_some(),
            _ => parse_ip(value).is_some(),
        };
        if let Some(bad) = page.iter().find(|entry| !good(&entry.value)) {
            let what = if gives == Gives::Int { "integer" } else { "ip" };
            return Err(format!("unable to parse {what} '{}'", String::from_utf8_lossy(&bad.value)));
        }
    }
}

fn look_up(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(map) = args.compiled::<MapUse>(0) else { return false };
    if map.gives == Gives::Groups {
        return look_up_groups(map, sample, cx);
    }
    // The snapshots are taken out for the time of the search: the key is borrowed from the context.
    let mut cache = std::mem::take(&mut cx.scratch.snapshots);
    let found = match sample.value {
        Value::Int(i) => find(map, &mut cache, Needle::Int(i), cx),
        Value::Ip4(ip) => find(map, &mut cache, Needle::Ip(ip.into()), cx),
        Value::Ip6(ip) => find(map, &mut cache, Needle::Ip(ip.into()), cx),
        Value::Str(text) | Value::Bin(text) | Value::Method(text) => {
            let mut output = None;
            let gives = map.gives;
            let copied = cx.map_bytes(text, |input, out| {
                output = map.index.find(&mut cache, Needle::Bytes(input), false, |hit| match gives {
                    Gives::Str | Gives::Groups => out.extend(hit.value()).then_some(Found::Text),
                    Gives::Key => out.extend(hit.key()).then_some(Found::Text),
                    Gives::Int => parse_int(hit.value()).map(|value| Found::Value(Value::Int(value))),
                    Gives::Ip => parse_ip(hit.value()).map(|ip| Found::Value(ip.into())),
                });
                true
            });
            match (output, copied) {
                (Some(Some(Found::Text)), Some(text)) => Some(Some(Value::Str(text))),
                (Some(Some(Found::Value(value))), _) => Some(Some(value)),
                (Some(_), _) => Some(None),
                (None, _) => None,
            }
        }
        Value::Bool(_) => None,
    };
    cx.scratch.snapshots = cache;
    finish(map, found, sample, cx)
}

enum Found {
    /// Written to the output.
    Text,
    Value(Value),
}

/// The value of the entry, `Some(None)` when there is one without a usable value.
fn find(
    map: &MapUse,
    cache: &mut crate::pattern::SnapshotCache,
    needle: Needle,
    cx: &mut Ctx,
) -> Option<Option<Value>> {
    map.index.find(cache, needle, false, |hit| match map.gives {
        Gives::Str | Gives::Groups => cx.store(hit.value()).map(Value::Str),
        Gives::Key => cx.store(hit.key()).map(Value::Str),
        Gives::Int => parse_int(hit.value()).map(Value::Int),
        Gives::Ip => parse_ip(hit.value()).map(Value::from),
    })
}

fn finish(map: &MapUse, found: Option<Option<Value>>, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let value = match found {
        Some(value) => value,
        None => match &map.default {
            Some(Default::Value(value)) => Some(*value),
            Some(Default::Text(text)) => cx.store(text).map(Value::Str),
            None => None,
        },
    };
    let Some(value) = value else { return false };
    sample.value = value;
    true
}

/// Expressions of `map_regm` that a thread keeps compiled; all are dropped when there would be more.
const COMPILED_MAX: usize = 4096;
/// As for any expression: a match that takes more steps is none.
const STEPS_MAX: u32 = 1_000_000;

struct Compiled {
    memory: PcreMemory,
    expressions: HashMap<Box<[u8]>, Option<Pcre>>,
}

thread_local! {
    static COMPILED: RefCell<Compiled> =
        RefCell::new(Compiled { memory: PcreMemory::new(10, STEPS_MAX), expressions: HashMap::new() });
}

fn look_up_groups(map: &MapUse, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(text) = sample.value.text() else { return false };
    let mut cache = std::mem::take(&mut cx.scratch.snapshots);
    let mut hit = None;
    let written = cx.map_bytes(text, |input, out| {
        hit = map.index.find(&mut cache, Needle::Bytes(input), false, |hit| {
            expand(hit.key(), hit.value(), input, out);
        });
        true
    });
    cx.scratch.snapshots = cache;
    let found = hit.map(|()| written.map(Value::Str));
    finish(map, found, sample, cx)
}

/// Writes `value` with its `\1` replaced by the groups of `pattern` in `input`; what does not fit is left out.
fn expand(pattern: &[u8], value: &[u8], input: &[u8], out: &mut Out) {
    COMPILED.with_borrow_mut(|compiled| {
        if compiled.expressions.len() >= COMPILED_MAX && !compiled.expressions.contains_key(pattern) {
            compiled.expressions.clear();
        }
        if !compiled.expressions.contains_key(pattern) {
            compiled.expressions.insert(pattern.into(), Pcre::new(pattern, true).ok());
        }
        let Some(Some(regex)) = compiled.expressions.get(pattern) else { return };
        if regex.find(input, false, &mut compiled.memory) == Ok(true) {
            super::regsub::expand(value, input, out, &compiled.memory);
        }
    });
}
