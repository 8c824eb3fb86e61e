//! Integers and truth values: `add`, `and`, `not`, `htonl`, `iif`...

use super::ConverterDef;
use super::shape::{entry, put_str, text_of, var_as};
use crate::args::{Arg, ArgKind, ArgSpec, Args};
use crate::context::Ctx;
use crate::env::CompileEnv;
use crate::value::{Sample, Type, Value, leading_int};
use crate::vars::VarRef;

const INT_INT: (Type, Type) = (Type::Int, Type::Int);
const INT_BOOL: (Type, Type) = (Type::Int, Type::Bool);
const OPERAND: ArgSpec = ArgSpec::new(1, &[ArgKind::Str]);

/// The converters of this family.
pub static ARITHMETIC: &[ConverterDef] = &[
    entry(
        "add",
        INT_INT,
        OPERAND,
        Some(check_operand),
        |a, s, c| binary(a, s, c, i64::saturating_add),
        "Adds a number or a variable, without wrapping.",
    ),
    entry(
        "and",
        INT_INT,
        OPERAND,
        Some(check_operand),
        |a, s, c| binary(a, s, c, |x, y| x & y),
        "Bitwise AND with a number or a variable.",
    ),
    entry(
        "bool",
        INT_BOOL,
        ArgSpec::NONE,
        None,
        |_, s, _| test(s, |x| x != 0),
        "True when the number is not zero.",
    ),
    entry("cpl", INT_INT, ArgSpec::NONE, None, |_, s, _| unary(s, |x| !x), "Inverts every bit."),
    entry(
        "div",
        INT_INT,
        OPERAND,
        Some(check_operand),
        |a, s, c| binary(a, s, c, div),
        "Divides by a number or a variable; by zero gives the largest number.",
    ),
    entry("even", INT_BOOL, ArgSpec::NONE, None, |_, s, _| test(s, |x| x & 1 == 0), "True for even numbers."),
    entry(
        "htonl",
        (Type::Int, Type::Bin),
        ArgSpec::NONE,
        None,
        htonl,
        "The low 32 bits as four bytes in network order.",
    ),
    entry(
        "iif",
        (Type::Bool, Type::Str),
        ArgSpec::new(2, &[ArgKind::Str, ArgKind::Str]),
        None,
        iif,
        "One of two strings, depending on the truth value.",
    ),
    entry(
        "mod",
        INT_INT,
        OPERAND,
        Some(check_operand),
        |a, s, c| binary(a, s, c, modulo),
        "The remainder of a division; zero when dividing by zero.",
    ),
    entry(
        "mul",
        INT_INT,
        OPERAND,
        Some(check_operand),
        |a, s, c| binary(a, s, c, i64::saturating_mul),
        "Multiplies by a number or a variable, without wrapping.",
    ),
    entry(
        "neg",
        INT_INT,
        ArgSpec::NONE,
        None,
        |_, s, _| unary(s, i64::saturating_neg),
        "The opposite number.",
    ),
    entry(
        "not",
        INT_BOOL,
        ArgSpec::NONE,
        None,
        |_, s, _| test(s, |x| x == 0),
        "True when the number is zero.",
    ),
    entry("odd", INT_BOOL, ArgSpec::NONE, None, |_, s, _| test(s, |x| x & 1 == 1), "True for odd numbers."),
    entry(
        "or",
        INT_INT,
        OPERAND,
        Some(check_operand),
        |a, s, c| binary(a, s, c, |x, y| x | y),
        "Bitwise OR with a number or a variable.",
    ),
    entry(
        "sub",
        INT_INT,
        OPERAND,
        Some(check_operand),
        |a, s, c| binary(a, s, c, i64::saturating_sub),
        "Subtracts a number or a variable, without wrapping.",
    ),
    entry(
        "xor",
        INT_INT,
        OPERAND,
        Some(check_operand),
        |a, s, c| binary(a, s, c, |x, y| x ^ y),
        "Bitwise exclusive OR with a number or a variable.",
    ),
];

/// Turns the text of argument `i` into a number or a variable. An argument that was not given counts as 0.
///
/// # Errors
/// The text is neither.
pub(super) fn want_int_or_var(args: &mut Args, i: usize) -> Result<(), String> {
    let text = text_of(args, i);
    let (number, read) = leading_int(text);
    let arg = if read == text.len() && text != b"-" && text != b"+" {
        Arg::Int(number)
    } else {
        let var = std::str::from_utf8(text).ok().and_then(|name| VarRef::parse(name).ok());
        Arg::Var(var.ok_or("expects an integer or a variable name")?)
    };
    args.put(i, arg);
    Ok(())
}

/// The number given as argument `i`, read from a variable if it names one.
pub(super) fn int_or_var(args: &Args, i: usize, cx: &mut Ctx) -> Option<i64> {
    match *args.at(i) {
        Arg::Int(value) => Some(value),
        Arg::Var(var) => {
            let mark = cx.mark();
            let sample = cx.var(var);
            let value = match sample.map(|sample| sample.value) {
                // An empty text is no number; a text that does not start with one counts as 0.
                Some(Value::Str(text)) if text.is_empty() => None,
                Some(_) => match var_as(cx, var, Type::Int)?.value {
                    Value::Int(value) => Some(value),
                    Value::Bool(value) => Some(i64::from(value)),
                    _ => None,
                },
                None => None,
            };
            cx.release(mark);
            value
        }
        _ => None,
    }
}

fn check_operand(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    want_int_or_var(args, 0)
}

fn int_of(sample: &Sample) -> Option<i64> {
    match sample.value {
        Value::Int(value) => Some(value),
        Value::Bool(value) => Some(i64::from(value)),
        _ => None,
    }
}

fn binary(args: &Args, sample: &mut Sample, cx: &mut Ctx, op: fn(i64, i64) -> i64) -> bool {
    let (Some(left), Some(right)) = (int_of(sample), int_or_var(args, 0, cx)) else { return false };
    sample.value = Value::Int(op(left, right));
    true
}

fn unary(sample: &mut Sample, op: fn(i64) -> i64) -> bool {
    let Some(value) = int_of(sample) else { return false };
    sample.value = Value::Int(op(value));
    true
}

fn test(sample: &mut Sample, op: fn(i64) -> bool) -> bool {
    let Some(value) = int_of(sample) else { return false };
    sample.value = Value::Bool(op(value));
    true
}

/// Dividing by zero gives the largest number, so that a limit made of a quotient never becomes zero by accident.
fn div(left: i64, right: i64) -> i64 {
    if right == 0 { i64::MAX } else { left.checked_div(right).unwrap_or(i64::MAX) }
}

fn modulo(left: i64, right: i64) -> i64 {
    left.checked_rem(right).unwrap_or(0)
}

fn htonl(_: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(value) = int_of(sample) else { return false };
    // Only the low 32 bits are wanted.
    let Some(text) = cx.store(&(value as u32).to_be_bytes()) else { return false };
    sample.value = Value::Bin(text);
    true
}

fn iif(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(value) = int_of(sample) else { return false };
    put_str(sample, cx, |out| out.extend(text_of(args, usize::from(value == 0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_do_not_wrap() {
        assert_eq!(div(5, 0), i64::MAX);
        assert_eq!(div(i64::MIN, -1), i64::MAX);
        assert_eq!(div(-7, 2), -3);
        assert_eq!(modulo(5, 0), 0);
        assert_eq!(modulo(i64::MIN, -1), 0);
        assert_eq!(modulo(-7, 2), -1);
        assert_eq!(i64::MIN.saturating_neg(), i64::MAX);
    }

    #[test]
    fn operands_are_numbers_or_variables() {
        let check = |text: &str, expected: Result<i64, ()>| {
            let mut args = Args::default();
            if !text.is_empty() {
                args.put(0, Arg::Str(text.as_bytes().into()));
            }
            let got = want_int_or_var(&mut args, 0);
            match expected {
                Ok(value) => assert_eq!(args.int(0), Some(value), "{text:?}"),
                Err(()) => assert!(got.is_err(), "{text:?}"),
            }
        };
        check("", Ok(0));
        check("+5", Ok(5));
        check("-5", Ok(-5));
        check("99999999999999999999", Ok(i64::MAX));
        check("010", Ok(10));
        check("0x10", Err(()));
        check("5x", Err(()));
        check("x", Err(()));
        check("-", Err(()));
        check("txn.", Err(()));
    }
}
