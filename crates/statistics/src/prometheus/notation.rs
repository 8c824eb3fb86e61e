//! How metrics are written: as text for Prometheus, or as JSON for collectors of OpenTelemetry (OTLP; `Metric` of
//! `opentelemetry/proto/metrics/v1/metrics.proto`).

use std::fmt::Write as _;

use super::Sample;
use super::metrics::Nature;
use crate::format::{json_string, whole_number};

/// Room for what usually is in a line beside its name and the labels that all lines of its object have.
const LINE_REST: usize = 64;

/// What is written.
#[derive(Debug)]
pub enum Notation {
    /// The text format of Prometheus, version 0.0.4, with the lines that introduce the metric, until its first sample: metrics that
    /// nothing has are not named.
    Text(String),
    /// Elements of a list of metrics, in JSON.
    Otlp(Otlp),
}

/// The second one, with the metric that is being written.
#[derive(Debug)]
pub struct Otlp {
    /// Since when is counted, and when these metrics are read: nanoseconds since 1970.
    since_ns: u64,
    now_ns: u64,
    /// The metric that samples belong to: its name, what it is, and its kind.
    metric: (String, String, Kind),
    /// It was begun.
    is_open: bool,
    /// Another one was written before.
    follows: bool,
}

/// What samples of a metric are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Summary,
}

impl From<Nature> for Kind {
    fn from(nature: Nature) -> Kind {
        match nature {
            Nature::Counter => Kind::Counter,
            Nature::Gauge => Kind::Gauge,
        }
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Summary => "summary",
        }
    }
}

/// How long streams took, as it is told.
pub(super) struct Summary {
    /// Shares of all streams, and the seconds that these did not exceed.
    pub quantiles: Vec<(f64, f64)>,
    pub seconds: f64,
    pub count: u64,
}

impl Notation {
    /// For Prometheus.
    pub fn text() -> Notation {
        Notation::Text(String::new())
    }

    /// For a collector, with the moments since when is counted and at which these metrics are read, in nanoseconds since 1970.
    pub fn otlp(since_ns: u64, now_ns: u64) -> Notation {
        let metric = (String::new(), String::new(), Kind::Gauge);
        Notation::Otlp(Otlp { since_ns, now_ns, metric, is_open: false, follows: false })
    }

    /// Adds a label to those that are there.
    pub(super) fn label(&self, labels: &mut String, name: &str, value: &str) {
        match self {
            Notation::Text(_) => {
                if !labels.is_empty() {
                    labels.push(',');
                }
                text_label(labels, name, value);
            }
            Notation::Otlp(_) => json_label(labels, name, value),
        }
    }

    /// The samples that follow are of this metric.
    pub(super) fn introduce(&mut self, out: &mut String, name: &str, text: &str, kind: Kind) {
        match self {
            Notation::Text(headline) => {
                *headline = format!("# HELP {name} {text}\n# TYPE {name} {}\n", kind.name());
            }
            Notation::Otlp(otlp) => {
                otlp.close(out);
                otlp.metric = (name.to_owned(), text.to_owned(), kind);
            }
        }
    }

    /// One sample, with labels beside those that are written already.
    pub(super) fn put(
        &mut self,
        out: &mut String,
        name: &str,
        labels: &str,
        more: &[(&str, &str)],
        sample: Sample,
    ) {
        match (self, sample) {
            // What is not known is not told to collectors.
            (_, Sample::None | Sample::At(_)) | (Notation::Otlp(_), Sample::Nan) => {}
            (Notation::Text(headline), _) => {
                out.push_str(headline);
                headline.clear();
                out.reserve(name.len() + labels.len() + LINE_REST);
                out.push_str(name);
                let mut separator = '{';
                if !labels.is_empty() {
                    out.push(std::mem::replace(&mut separator, ','));
                    out.push_str(labels);
                }
                for (name, value) in more {
                    out.push(std::mem::replace(&mut separator, ','));
                    text_label(out, name, value);
                }
                out.push_str(if separator == ',' { "} " } else { " " });
                number(out, sample);
                out.push('\n');
            }
            (Notation::Otlp(otlp), _) => {
                let mut all = labels.to_owned();
                more.iter().for_each(|(name, value)| json_label(&mut all, name, value));
                otlp.begin_point(out, &all);
                let is_whole = !matches!(sample, Sample::Seconds(_));
                out.push_str(if is_whole { "\"asInt\":\"" } else { "\"asDouble\":" });
                number(out, sample);
                out.push_str(if is_whole { "\"}" } else { "}" });
            }
        }
    }

    /// The sample of a summary.
    pub(super) fn put_summary(&mut self, out: &mut String, name: &str, labels: &str, summary: &Summary) {
        match self {
            Notation::Text(_) => {
                for (share, seconds) in &summary.quantiles {
                    self.put(
                        out,
                        name,
                        labels,
                        &[("quantile", &share.to_string())],
                        Sample::Seconds(*seconds),
                    );
                }
                self.put(out, &format!("{name}_sum"), labels, &[], Sample::Seconds(summary.seconds));
                self.put(out, &format!("{name}_count"), labels, &[], Sample::Number(summary.count));
            }
            Notation::Otlp(otlp) => {
                otlp.begin_point(out, labels);
                let quantile = |(share, seconds): &(f64, f64)| {
                    format!("{{\"quantile\":{share},\"value\":{seconds:.6}}}")
                };
                let quantiles: Vec<String> = summary.quantiles.iter().map(quantile).collect();
                out.push_str(&format!(
                    "\"count\":\"{}\",\"sum\":{:.6},\"quantileValues\":[{}]}}",
                    summary.count,
                    summary.seconds,
                    quantiles.join(",")
                ));
            }
        }
    }

    /// What was written so far is a whole; what follows begins anew.
    pub(super) fn cut(&mut self, out: &mut String) {
        if let Notation::Otlp(otlp) = self {
            otlp.close(out);
            otlp.follows = false;
        }
    }
}

impl Otlp {
    fn begin_point(&mut self, out: &mut String, labels: &str) {
        if self.is_open {
            out.push(',');
        } else {
            self.open(out);
        }
        let (since, now) = (self.since_ns, self.now_ns);
        out.push_str(&format!(
            "{{\"attributes\":[{labels}],\"startTimeUnixNano\":\"{since}\",\"timeUnixNano\":\"{now}\","
        ));
    }

    fn open(&mut self, out: &mut String) {
        let (name, text, kind) = &self.metric;
        out.push_str(if self.follows { ",{\"name\":" } else { "{\"name\":" });
        json_string(out, name);
        out.push_str(",\"description\":");
        json_string(out, text);
        out.push_str(match kind {
            // Counted since the start, not since they were last told (`AGGREGATION_TEMPORALITY_CUMULATIVE`).
            Kind::Counter => ",\"sum\":{\"aggregationTemporality\":2,\"isMonotonic\":true,\"dataPoints\":[",
            Kind::Gauge => ",\"gauge\":{\"dataPoints\":[",
            Kind::Summary => ",\"summary\":{\"dataPoints\":[",
        });
        (self.is_open, self.follows) = (true, true);
    }

    fn close(&mut self, out: &mut String) {
        if std::mem::take(&mut self.is_open) {
            out.push_str("]}}");
        }
    }
}

fn text_label(out: &mut String, name: &str, value: &str) {
    out.push_str(name);
    out.push_str("=\"");
    if value.contains(['\\', '"', '\n']) {
        out.push_str(&value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"));
    } else {
        out.push_str(value);
    }
    out.push('"');
}

/// Adds a label to those that are there.
fn json_label(out: &mut String, name: &str, value: &str) {
    if !out.is_empty() {
        out.push(',');
    }
    out.push_str(&format!("{{\"key\":\"{name}\",\"value\":{{\"stringValue\":"));
    json_string(out, value);
    out.push_str("}}");
}

/// The number of a sample that has one. There may be a million of them: nothing is made but what is written.
fn number(out: &mut String, sample: Sample) {
    // Writing to a text does not fail.
    _ = match sample {
        Sample::None | Sample::At(_) => Ok(()),
        Sample::Nan => out.write_str("NaN"),
        Sample::Number(n) => {
            whole_number(out, n);
            Ok(())
        }
        Sample::Negative(n) => write!(out, "{n}"),
        Sample::Seconds(n) => write!(out, "{n:.6}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(mut notation: Notation) -> String {
        let mut out = String::new();
        let mut labels = String::new();
        notation.label(&mut labels, "proxy", "a\"b\\c\nd");
        notation.introduce(&mut out, "a_total", "How many.", Kind::Counter);
        notation.put(&mut out, "a_total", &labels, &[("code", "2xx")], Sample::Number(7));
        notation.put(&mut out, "a_total", "", &[], Sample::Nan);
        notation.put(&mut out, "a_total", "", &[], Sample::None);
        notation.introduce(&mut out, "nothing", "None.", Kind::Gauge);
        notation.introduce(&mut out, "b", "Now.", Kind::Gauge);
        notation.put(&mut out, "b", "", &[], Sample::Seconds(0.5));
        notation.cut(&mut out);
        out.push('|');
        notation.put(&mut out, "b", "", &[], Sample::Negative(-1));
        notation.introduce(&mut out, "c", "Times.", Kind::Summary);
        let summary = Summary { quantiles: vec![(0.5, 0.001)], seconds: 2.0, count: 3 };
        notation.put_summary(&mut out, "c", "", &summary);
        notation.cut(&mut out);
        out
    }

    #[test]
    fn text_is_for_prometheus() {
        let expected = "# HELP a_total How many.\n# TYPE a_total counter\na_total{proxy=\"a\\\"b\\\\c\\nd\",code=\"2xx\"} 7\n\
            a_total NaN\n# HELP b Now.\n# TYPE b gauge\nb 0.500000\n|b -1\n\
            # HELP c Times.\n# TYPE c summary\nc{quantile=\"0.5\"} 0.001000\nc_sum 2.000000\nc_count 3\n";
        assert_eq!(written(Notation::text()), expected);
    }

    #[test]
    fn json_is_for_collectors() {
        let point = |labels: &str| {
            format!("{{\"attributes\":[{labels}],\"startTimeUnixNano\":\"1\",\"timeUnixNano\":\"2\",")
        };
        let label = |key: &str, value: &str| {
            format!("{{\"key\":\"{key}\",\"value\":{{\"stringValue\":\"{value}\"}}}}")
        };
        let labels = [label("proxy", "a\\\"b\\\\c\\u000ad"), label("code", "2xx")].join(",");
        let expected = format!(
            "{{\"name\":\"a_total\",\"description\":\"How many.\",\"sum\":{{\"aggregationTemporality\":2,\"isMonotonic\":true,\
             \"dataPoints\":[{}\"asInt\":\"7\"}}]}}}},{{\"name\":\"b\",\"description\":\"Now.\",\"gauge\":{{\"dataPoints\":[\
             {bare}\"asDouble\":0.500000}}]}}}}|{{\"name\":\"b\",\"description\":\"Now.\",\"gauge\":{{\"dataPoints\":[\
             {bare}\"asInt\":\"-1\"}}]}}}},{{\"name\":\"c\",\"description\":\"Times.\",\"summary\":{{\"dataPoints\":[\
             {bare}\"count\":\"3\",\"sum\":2.000000,\"quantileValues\":[{{\"quantile\":0.5,\"value\":0.001000}}]}}]}}}}",
            point(&labels),
            bare = point("")
        );
        assert_eq!(written(Notation::otlp(1, 2)), expected);
    }
}
