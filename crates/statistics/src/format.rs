//! How figures are written: CSV, typed lines, JSON (management manual, sections 9.1 and 9.2).

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::net::SocketAddr;

/// A figure's value.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    U32(u32),
    S32(i32),
    U64(u64),
    Str(Cow<'static, str>),
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
        Value::Str(text) if text.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) => {
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
    // 2^64 has twenty digits.
    let (mut digits, mut at) = ([0; 20], 20);
    let mut rest = n;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    digits[at..].iter().for_each(|digit| out.push(char::from(*digit)));
}

/// An address with its port. Reports have one for each server, and those of IPv4 are written several times as quickly as others.
pub fn socket_address(out: &mut String, address: &SocketAddr) {
    let SocketAddr::V4(v4) = address else {
        // Writing to a text does not fail.
        _ = write!(out, "{address}");
        return;
    };
    for (at, octet) in v4.ip().octets().into_iter().enumerate() {
        if at > 0 {
            out.push('.');
        }
        whole_number(out, u64::from(octet));
    }
    out.push(':');
    whole_number(out, u64::from(v4.port()));
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
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.push_str(text);
        out.push('"');
        return;
    }
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
    fn numbers_and_addresses_are_written_as_they_are_shown() {
        for n in [0, 9, 10, 99, 100, 12_345, u64::MAX] {
            let mut text = String::new();
            whole_number(&mut text, n);
            assert_eq!(text, n.to_string());
        }
        for address in ["0.0.0.0:0", "127.0.0.10:8080", "255.255.255.255:65535", "[::1]:80", "[fe80::1%3]:1"]
        {
            let address: SocketAddr = address.parse().unwrap();
            let mut text = String::new();
            socket_address(&mut text, &address);
            assert_eq!(text, address.to_string());
        }
    }

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
