//! Who tells: the process, as collectors know it.

use crate::json;
use crate::span::{Value, attributes};

/// What opens and closes each message of a process (`ResourceSpans`, `ResourceMetrics`).
pub struct Resource {
    /// `"resource":{...}` and `"scope":{...}`.
    resource: Vec<u8>,
    scope: Vec<u8>,
}

impl Resource {
    /// A process that calls itself `service`, of this version, with attributes of its own.
    pub fn new<'a>(
        service: &'a str,
        (program, version): (&'a str, &'a str),
        host: &'a str,
        own: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Resource {
        let of_process = [
            ("service.name", service),
            ("service.version", version),
            ("host.name", host),
            ("telemetry.sdk.name", program),
            ("telemetry.sdk.language", "rust"),
            ("telemetry.sdk.version", version),
        ];
        let own: Vec<(&str, &str)> = own.collect();
        let kept = of_process.into_iter().filter(|(name, _)| own.iter().all(|(other, _)| other != name));
        let all = kept.chain(own.iter().copied()).map(|(name, value)| (name, Value::Text(value.as_bytes())));
        let mut resource = Vec::from(*b"{");
        attributes(&mut resource, all);
        resource.push(b'}');
        let mut scope = Vec::from(*b"{");
        json::name(&mut scope, "name");
        json::text(&mut scope, program.as_bytes());
        json::name(&mut scope, "version");
        json::text(&mut scope, version.as_bytes());
        scope.push(b'}');
        Resource { resource, scope }
    }

    /// A message with these spans (`ExportTraceServiceRequest`).
    pub fn with_spans(&self, spans: &[u8]) -> Vec<u8> {
        self.message(["resourceSpans", "scopeSpans", "spans"], spans)
    }

    /// A message with these metrics (`ExportMetricsServiceRequest`).
    pub fn with_metrics(&self, metrics: &[u8]) -> Vec<u8> {
        self.message(["resourceMetrics", "scopeMetrics", "metrics"], metrics)
    }

    fn message(&self, [outer, inner, what]: [&str; 3], list: &[u8]) -> Vec<u8> {
        let parts: [&[u8]; 11] = [
            b"{\"",
            outer.as_bytes(),
            b"\":[{\"resource\":",
            &self.resource,
            b",\"",
            inner.as_bytes(),
            b"\":[{\"scope\":",
            &self.scope,
            b",\"",
            what.as_bytes(),
            b"\":[",
        ];
        let mut out = parts.concat();
        out.extend_from_slice(list);
        out.extend_from_slice(b"]}]}]}");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_who_tells() {
        let own = [("deployment.environment.name", "test"), ("host.name", "else\"where")];
        let resource = Resource::new("edge", ("thalweg", "1.0"), "lb1", own.into_iter());
        let text = String::from_utf8(resource.with_spans(b"{}")).expect("text");
        let attribute = |key: &str, value: &str| {
            format!("{{\"key\":\"{key}\",\"value\":{{\"stringValue\":\"{value}\"}}}}")
        };
        let attributes = [
            attribute("service.name", "edge"),
            attribute("service.version", "1.0"),
            attribute("telemetry.sdk.name", "thalweg"),
            attribute("telemetry.sdk.language", "rust"),
            attribute("telemetry.sdk.version", "1.0"),
            attribute("deployment.environment.name", "test"),
            attribute("host.name", "else\\\"where"),
        ];
        let expected = format!(
            "{{\"resourceSpans\":[{{\"resource\":{{\"attributes\":[{}]}},\"scopeSpans\":[{{\"scope\":{{\"name\":\"thalweg\",\
             \"version\":\"1.0\"}},\"spans\":[{{}}]}}]}}]}}",
            attributes.join(",")
        );
        assert_eq!(text, expected);
    }
}
