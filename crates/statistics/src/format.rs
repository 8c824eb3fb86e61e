//! How figures are written: CSV, typed lines, JSON (management manual, sections 9.1 and 9.2).

use std::fmt::{self, Write as _};

/// A figure's value.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    U32(u32),
    S32(i32),
    U64(u64),
    Str(String),
    /// Where `float` asks for more precision.
    Float(f64),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::U32(n) => n.fmt(f),
            Value::S32(n) => n.fmt(f),
            Value::U64(n) => n.fmt(f),
            Value::Str(text) => f.write_str(text),
            Value::Float(n) => write!(f, "{n:.6}"),
        }
    }
}

impl Value {
    fn type_name(&self) -> &'static str {
        match self {
            Value::U32(_) => "u32",
            Value::S32(_) => "s32",
            Value::U64(_) => "u64",
            Value::Str(_) => "str",
            Value::Float(_) => "flt",
        }
    }
}

/// A value in CSV: quoted when it has to be.
pub fn csv(out: &mut String, value: &Value) {
    match value {
        Value::Str(text) if text.contains([',', '"', '\n', '\r']) => {
            out.push('"');
            out.push_str(&text.replace('"', "\"\""));
            out.push('"');
        }
        Value::Str(text) => out.push_str(text),
        Value::U32(n) => whole_number(out, u64::from(*n)),
        Value::U64(n) => whole_number(out, *n),
        other => out.push_str(&other.to_string()),
    }
}

/// A whole number. Reports have a million of them, most of which are zero.
pub fn whole_number(out: &mut String, n: u64) {
    match u8::try_from(n) {
        Ok(digit @ 0..10) => out.push(char::from(b'0' + digit)),
        // Writing to a text does not fail.
        _ => _ = write!(out, "{n}"),
    }
}

/// `type:value`.
pub fn typed(out: &mut String, value: &Value) {
    // Writing to a text does not fail.
    _ = write!(out, "{}:{value}", value.type_name());
}

/// `"processNum":1,"tags":{...},"value":{...}}`: the end of a JSON object about a figure.
pub fn json_tail(out: &mut String, tags: &str, value: &Value) {
    out.push_str("\"processNum\":1,");
    json_value(out, tags, value);
}

/// `"tags":{...},"value":{...}}`: the same without a number of the process.
pub fn json_value(out: &mut String, tags: &str, value: &Value) {
    let mut tag = tags.chars();
    let origin = match tag.next() {
        Some('M') => "Metric",
        Some('S') => "Status",
        Some('K') => "Key",
        Some('C') => "Config",
        _ => "Product",
    };
    let nature = match tag.next() {
        Some('A') => "Age",
        Some('a') => "Average",
        Some('C') => "Counter",
        Some('D') => "Duration",
        Some('G') => "Gauge",
        Some('L') => "Limit",
        Some('M') => "Max",
        Some('m') => "Min",
        Some('N') => "Name",
        Some('O') => "Output",
        Some('R') => "Rate",
        _ => "Time",
    };
    let scope = match tag.next() {
        Some('C') => "Cluster",
        Some('P') => "Process",
        Some('S') => "Service",
        _ => "System",
    };
    out.push_str(&format!(
        "\"tags\":{{\"origin\":\"{origin}\",\"nature\":\"{nature}\",\"scope\":\"{scope}\"}},\
         \"value\":{{\"type\":\"{}\",\"value\":",
        value.type_name()
    ));
    match value {
        Value::Str(text) => json_string(out, text),
        number => out.push_str(&number.to_string()),
    }
    out.push_str("}}");
}

/// Text in JSON.
pub fn json_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_every_form() {
        for (value, in_csv, in_typed, in_json) in [
            (Value::U32(7), "7", "u32:7", "{\"type\":\"u32\",\"value\":7}}"),
            (Value::S32(-1), "-1", "s32:-1", "{\"type\":\"s32\",\"value\":-1}}"),
            (
                Value::U64(1 << 40),
                "1099511627776",
                "u64:1099511627776",
                "{\"type\":\"u64\",\"value\":1099511627776}}",
            ),
            (
                Value::Str("a,\"b".into()),
                "\"a,\"\"b\"",
                "str:a,\"b",
                "{\"type\":\"str\",\"value\":\"a,\\\"b\"}}",
            ),
        ] {
            let mut text = String::new();
            csv(&mut text, &value);
            assert_eq!(text, in_csv);
            text.clear();
            typed(&mut text, &value);
            assert_eq!(text, in_typed);
            text.clear();
            json_tail(&mut text, "MCPP", &value);
            assert!(text.ends_with(in_json) && text.contains("\"nature\":\"Counter\""), "{text}");
        }
    }
}
