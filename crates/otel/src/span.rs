//! What is told of one request (`Span` of `opentelemetry/proto/trace/v1/trace.proto`).

use crate::context::Context;
use crate::json;

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Text, in whatever bytes it came.
    Text(&'a [u8]),
    /// A number.
    Int(i64),
}

/// `SPAN_KIND_SERVER`: somebody asked, and was answered.
const KIND_SERVER: u8 = 2;

/// `STATUS_CODE_ERROR`.
const ERROR: u8 = 2;

/// What flags a span that has a parent: it is known whether that one is in another process (`SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK`),
/// and it is (`SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK`).
const REMOTE_PARENT: u32 = 0x300;

/// A request and its response, from its first byte to its last one. Times are nanoseconds since 1970.
pub struct Span<'a, A, E> {
    /// Its place in a trace.
    pub context: &'a Context,
    /// What others keep in the trace: the `tracestate` that came with it.
    pub state: &'a [u8],
    /// What was asked for, in a word.
    pub name: &'a [u8],
    pub start_ns: u64,
    pub end_ns: u64,
    pub attributes: A,
    /// What happened when.
    pub events: E,
    /// It did not come to what it was for.
    pub failed: bool,
}

impl<'a, A, E> Span<'a, A, E>
where
    A: Iterator<Item = (&'a str, Value<'a>)>,
    E: Iterator<Item = (&'a str, u64)>,
{
    /// Writes it as an object.
    pub fn write(self, out: &mut Vec<u8>) {
        let (trace, span, parent) = self.context.ids();
        out.push(b'{');
        json::name(out, "traceId");
        json::hex(out, trace);
        json::name(out, "spanId");
        json::hex(out, span);
        if !self.state.is_empty() {
            json::name(out, "traceState");
            json::text(out, self.state);
        }
        if let Some(parent) = parent {
            json::name(out, "parentSpanId");
            json::hex(out, parent);
        }
        let flags = u32::from(self.context.flags()) | if parent.is_some() { REMOTE_PARENT } else { 0 };
        json::name(out, "flags");
        out.extend_from_slice(flags.to_string().as_bytes());
        json::name(out, "name");
        json::text(out, self.name);
        json::name(out, "kind");
        out.push(b'0' + KIND_SERVER);
        json::name(out, "startTimeUnixNano");
        json::long(out, self.start_ns);
        json::name(out, "endTimeUnixNano");
        json::long(out, self.end_ns.max(self.start_ns));
        attributes(out, self.attributes);
        json::name(out, "events");
        out.push(b'[');
        for (at, (name, ns)) in self.events.enumerate() {
            out.extend_from_slice(if at > 0 { b",{" } else { b"{" });
            json::name(out, "timeUnixNano");
            json::long(out, ns);
            json::name(out, "name");
            json::text(out, name.as_bytes());
            out.push(b'}');
        }
        out.push(b']');
        if self.failed {
            json::name(out, "status");
            out.extend_from_slice(&[b'{', b'"', b'c', b'o', b'd', b'e', b'"', b':', b'0' + ERROR, b'}']);
        }
        out.push(b'}');
    }
}

/// Writes the member `attributes` of an object.
pub(crate) fn attributes<'a>(out: &mut Vec<u8>, all: impl Iterator<Item = (&'a str, Value<'a>)>) {
    json::name(out, "attributes");
    out.push(b'[');
    for (at, (name, value)) in all.enumerate() {
        out.extend_from_slice(if at > 0 { b",{" } else { b"{" });
        json::name(out, "key");
        json::text(out, name.as_bytes());
        json::name(out, "value");
        out.push(b'{');
        match value {
            Value::Text(text) => {
                json::name(out, "stringValue");
                json::text(out, text);
            }
            Value::Int(number) => {
                json::name(out, "intValue");
                json::long(out, number);
            }
        }
        out.extend_from_slice(b"}}");
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Parent, Share};

    fn written(parent: Option<&[u8]>, state: &[u8], failed: bool) -> String {
        let parent = parent.and_then(Parent::parse);
        let context = Context::new(parent, Share::ALL, |out| out.fill(0xab));
        let attributes =
            [("http.request.method", Value::Text(b"GET")), ("http.response.status_code", Value::Int(200))];
        let span = Span {
            context: &context,
            state,
            name: b"GET",
            start_ns: 1_700_000_000_000_000_001,
            end_ns: 1_700_000_000_000_000_009,
            attributes: attributes.into_iter(),
            events: [("queue", 3), ("connect", 4)].into_iter(),
            failed,
        };
        let mut out = Vec::new();
        span.write(&mut out);
        String::from_utf8(out).expect("text")
    }

    const REST: &str = "\"name\":\"GET\",\"kind\":2,\"startTimeUnixNano\":\"1700000000000000001\",\
        \"endTimeUnixNano\":\"1700000000000000009\",\"attributes\":[{\"key\":\"http.request.method\",\
        \"value\":{\"stringValue\":\"GET\"}},{\"key\":\"http.response.status_code\",\"value\":{\"intValue\":\"200\"}}],\
        \"events\":[{\"timeUnixNano\":\"3\",\"name\":\"queue\"},{\"timeUnixNano\":\"4\",\"name\":\"connect\"}]";

    #[test]
    fn spans_are_written_as_the_protocol_has_them() {
        let ids = format!("\"traceId\":\"{}\",\"spanId\":\"{}\"", "ab".repeat(16), "ab".repeat(8));
        assert_eq!(written(None, b"", false), format!("{{{ids},\"flags\":3,{REST}}}"));
        let parent = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let ids =
            format!("\"traceId\":\"0af7651916cd43dd8448eb211c80319c\",\"spanId\":\"{}\"", "ab".repeat(8));
        let expected = format!(
            "{{{ids},\"traceState\":\"a=1\",\"parentSpanId\":\"b7ad6b7169203331\",\"flags\":769,{REST},\"status\":{{\"code\":2}}}}"
        );
        assert_eq!(written(Some(parent), b"a=1", true), expected);
    }
}
