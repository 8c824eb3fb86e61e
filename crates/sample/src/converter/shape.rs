//! What the converters have in common: the entry of the table, and the ways to turn the bytes of a sample
//! into other bytes.

use super::{Check, ConverterDef, Run};
use crate::args::{Arg, ArgSpec, Args};
use crate::context::{Ctx, Out};
use crate::value::{Sample, Text, Type, Value};
use crate::vars::VarRef;

/// An entry of a table of converters.
pub(super) const fn entry(
    name: &'static str,
    types: (Type, Type),
    args: ArgSpec,
    check: Option<Check>,
    run: Run,
    doc: &'static str,
) -> ConverterDef {
    ConverterDef { name, input: types.0, output: types.1, args, doc, check, run }
}

/// Replaces the bytes of a textual sample by those `map` writes; the result is a string.
/// False when `map` fails or its output does not fit in one value.
pub(super) fn to_str(sample: &mut Sample, cx: &mut Ctx, map: impl FnOnce(&[u8], &mut Out) -> bool) -> bool {
    let Some(text) = sample.value.text() else { return false };
    let Some(text) = cx.map_bytes(text, map) else { return false };
    sample.value = Value::Str(text);
    true
}

/// Like [`to_str`]; the result is a blob.
pub(super) fn to_bin(sample: &mut Sample, cx: &mut Ctx, map: impl FnOnce(&[u8], &mut Out) -> bool) -> bool {
    let Some(text) = sample.value.text() else { return false };
    let Some(text) = cx.map_bytes(text, map) else { return false };
    sample.value = Value::Bin(text);
    true
}

/// Computes an integer from the bytes of a textual sample.
pub(super) fn to_int(sample: &mut Sample, cx: &Ctx, map: impl FnOnce(&[u8]) -> Option<i64>) -> bool {
    let Some(text) = sample.value.text() else { return false };
    let Some(value) = map(cx.text(text)) else { return false };
    sample.value = Value::Int(value);
    true
}

/// Computes a truth value from the bytes of a textual sample.
pub(super) fn to_bool(sample: &mut Sample, cx: &Ctx, map: impl FnOnce(&[u8]) -> Option<bool>) -> bool {
    let Some(text) = sample.value.text() else { return false };
    let Some(value) = map(cx.text(text)) else { return false };
    sample.value = Value::Bool(value);
    true
}

/// Keeps a part of the bytes of a textual sample, without a copy. The type stays.
pub(super) fn to_part(
    sample: &mut Sample,
    cx: &Ctx,
    map: impl FnOnce(&[u8]) -> Option<std::ops::Range<usize>>,
) -> bool {
    let Some(text) = sample.value.text() else { return false };
    let Some(range) = map(cx.text(text)) else { return false };
    let part = text.slice(range.start, range.end.saturating_sub(range.start));
    sample.value = match sample.value {
        Value::Bin(_) => Value::Bin(part),
        _ => Value::Str(part),
    };
    true
}

/// Writes a new string.
pub(super) fn put_str(sample: &mut Sample, cx: &mut Ctx, write: impl FnOnce(&mut Out) -> bool) -> bool {
    let Some(text) = cx.write(write) else { return false };
    sample.value = Value::Str(text);
    true
}

/// The value of a variable converted to `to`, or `None` when it is not set or cannot be converted.
pub(super) fn var_as(cx: &mut Ctx, var: VarRef, to: Type) -> Option<Sample> {
    let mut sample = cx.var(var)?;
    sample.cast(to, cx).then_some(sample)
}

/// The bytes of a variable converted to a string.
pub(super) fn var_text(cx: &mut Ctx, var: VarRef) -> Option<Text> {
    var_as(cx, var, Type::Str)?.value.text()
}

/// The text of argument `i`, empty when it was not given.
pub(super) fn text_of(args: &Args, i: usize) -> &[u8] {
    args.str(i).unwrap_or_default()
}

/// Turns the text of argument `i`, if it was given, into a variable.
///
/// # Errors
/// The problem with the name, as the reference words it.
pub(super) fn want_var(args: &mut Args, i: usize) -> Result<(), String> {
    let Some(name) = args.str(i) else { return Ok(()) };
    let name = String::from_utf8_lossy(name).into_owned();
    let var = VarRef::parse(&name).map_err(|_| format!("failed to register variable name '{name}'"))?;
    args.put(i, Arg::Var(var));
    Ok(())
}
