//! `option httpchk` with header fields hidden in its version.

use thalweg_syntax::layout::WrittenLine;

use crate::quote::{literal_format, quoted};
use crate::{Decision, Kind};

/// Translates a check whose version hides more than a version.
pub fn option_httpchk(line: &WrittenLine<'_>) -> Decision {
    // `option httpchk [method] [uri] [version]`
    let version = line.word(4);
    let Some((version, hidden)) = version.split_once("\r\n").or_else(|| version.split_once('\n')) else {
        return Decision::Keep;
    };
    // Where the version is not one word, the rest of the line is part of it, as it was then.
    let (head, body) = match hidden.split_once("\r\n\r\n") {
        Some((head, body)) => (head, body),
        None => (hidden, ""),
    };
    let mut check = format!("http-check send meth {} uri {}", line.word(2), quoted(&line.word(3)));
    if !version.is_empty() {
        check.push_str(&format!(" ver {version}"));
    }
    for field in head.split(['\r', '\n']).filter(|field| !field.is_empty()) {
        let Some((name, value)) = field.split_once(':') else {
            return Decision::leave(format!("'{field}' in the request of the check is not a header field"));
        };
        // It was not sent as a field of a kept connection: the check always closes.
        if name.trim().eq_ignore_ascii_case("connection") {
            continue;
        }
        let value = value.trim();
        if value.is_empty() {
            continue;
        }
        check.push_str(&format!(" hdr {} {}", name.trim(), quoted(&literal_format(value))));
    }
    if !body.is_empty() {
        check.push_str(&format!(" body {}", quoted(body)));
    }
    Decision::Become(
        vec!["option httpchk".into(), check],
        Kind::Same,
        "fields can no longer be hidden behind the version of 'option httpchk': 'http-check send' has them"
            .into(),
    )
}
