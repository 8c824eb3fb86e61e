//! Traces and metrics for collectors of OpenTelemetry: what servers and collectors are told, and what becomes of it when
//! a collector does not listen.

mod support;

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;
use support::tls::{self, Authority};
use support::{Conn, Proxy, Request, Server, Setup, each_driver, eventually, ok};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A collector that answers the n-th message with what `answer` says. Gives the messages.
fn collector(
    answer: impl Fn(usize) -> &'static str + Send + Sync + 'static,
) -> (Server, Receiver<(Request, Value)>) {
    let (sender, messages) = channel();
    let sender = Mutex::new((sender, 0));
    let server = Server::http(move |request| {
        let message = serde_json::from_slice(&request.body).expect("JSON");
        let (sender, count) = &mut *sender.lock().unwrap();
        *count += 1;
        // The test may be over.
        let _ = sender.send((request.clone(), message));
        let (status, body) = (answer(*count), "{\"partialSuccess\":{}}");
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    (server, messages)
}

fn takes_all() -> (Server, Receiver<(Request, Value)>) {
    collector(|_| "200 OK")
}

/// A frontend whose requests go to `server`, and a section with these lines.
fn setup(server: &Server, collector: &Server, lines: &str, rules: &str) -> Setup {
    let text = format!(
        "opentelemetry\nserver otlp {}\ninterval 20ms\n{lines}\nfrontend fe\nbind <@fe>\nlog-format \"trace=%[trace_id] span=%[span_id]\"\n{rules}\n\
         default_backend be\nbackend be\nserver s1 {}\n",
        collector.addr, server.addr
    );
    Setup::http(&text).global("stats socket <@dir>/cli level admin")
}

/// A server that answers with the fields that a trace consists of.
fn telling() -> Server {
    Server::http(|request| {
        ok(&format!("{}|{}", request.head.field("traceparent"), request.head.field("tracestate")))
    })
}

fn ask(proxy: &Proxy, fields: &str) -> String {
    proxy.ask(&format!("GET /a/b?secret=1 HTTP/1.1\r\nHost: h:8080\r\n{fields}\r\n")).text()
}

/// Where a request goes.
fn path(request: &Request) -> &str {
    request.head.line.split(' ').nth(1).unwrap_or_default()
}

/// The spans of a message.
fn spans(message: &Value) -> Vec<Value> {
    message["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone()
}

/// The next span.
fn next(messages: &Receiver<(Request, Value)>) -> Value {
    let (request, message) = messages.recv_timeout(support::PATIENCE).expect("a message");
    assert_eq!(
        (request.head.field("content-type").as_str(), path(&request)),
        ("application/json", "/v1/traces")
    );
    let mut spans = spans(&message);
    assert_eq!(spans.len(), 1, "{message}");
    spans.remove(0)
}

/// An attribute of a span, as text.
fn attribute(of: &Value, name: &str) -> String {
    let all = of["attributes"].as_array().expect("attributes");
    let found = all.iter().find(|attribute| attribute["key"] == name).map(|attribute| &attribute["value"]);
    let value = found.and_then(|value| value.get("stringValue").or(value.get("intValue")));
    value.and_then(Value::as_str).unwrap_or("-").to_owned()
}

fn nanoseconds(of: &Value, name: &str) -> u64 {
    of[name].as_str().and_then(|text| text.parse().ok()).expect("nanoseconds")
}

fn counted(proxy: &Proxy, name: &str) -> String {
    let answer = proxy.tell("cli", "show opentelemetry");
    let found = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    found.unwrap_or_else(|| panic!("no {name}: {answer}")).to_owned()
}

/// A request goes on with its client's trace, as its server and the collector are told.
#[test]
fn a_trace_goes_on() {
    each_driver(|io| {
        let ((collector, messages), server) = (takes_all(), telling());
        let proxy =
            setup(&server, &collector, "service-name edge\nattribute stage test\nheader x-key k\n", "")
                .start(io);
        let told = ask(&proxy, &format!("traceparent: {PARENT}\r\ntracestate: a=1\r\nUser-Agent: tests\r\n"));
        let span = next(&messages);
        let id = span["spanId"].as_str().expect("an id");
        assert_eq!(told, format!("00-0af7651916cd43dd8448eb211c80319c-{id}-01|a=1"), "over {io}");
        assert_eq!(span["traceId"], "0af7651916cd43dd8448eb211c80319c");
        assert_eq!((&span["parentSpanId"], &span["traceState"]), (&"b7ad6b7169203331".into(), &"a=1".into()));
        assert_eq!((&span["name"], &span["kind"], &span["flags"]), (&"GET".into(), &2.into(), &0x301.into()));
        for (name, value) in [
            ("http.request.method", "GET"),
            ("url.path", "/a/b"),
            ("url.scheme", "http"),
            ("network.protocol.version", "1.1"),
            ("server.address", "h"),
            ("server.port", "8080"),
            ("user_agent.original", "tests"),
            ("http.response.status_code", "200"),
            ("error.type", "-"),
            ("thalweg.frontend", "fe"),
            ("thalweg.backend", "be"),
            ("thalweg.server", "s1"),
            ("thalweg.termination_state", "----"),
        ] {
            assert_eq!(attribute(&span, name), value, "{name} over {io}");
        }
        assert!(attribute(&span, "client.address").starts_with("127."), "{span}");
        let events = span["events"].as_array().expect("events");
        assert_eq!(
            events.iter().map(|event| event["name"].as_str().unwrap()).collect::<Vec<_>>(),
            ["queue", "connect", "response"]
        );
        let mut times = vec![nanoseconds(&span, "startTimeUnixNano")];
        times.extend(events.iter().map(|event| nanoseconds(event, "timeUnixNano")));
        times.push(nanoseconds(&span, "endTimeUnixNano"));
        assert!(times.is_sorted(), "{times:?}");
        assert_eq!(proxy.log(), format!("trace=0af7651916cd43dd8448eb211c80319c span={id}"));
        assert_eq!(counted(&proxy, "spans_recorded"), "1");
        proxy.finish((collector, server));
    });
}

/// Who tells is told, too.
#[test]
fn a_message_says_who_tells() {
    each_driver(|io| {
        let ((collector, messages), server) = (takes_all(), telling());
        let lines = "service-name edge\nattribute stage test\nheader x-key k\npath /otlp/\n";
        let proxy = setup(&server, &collector, lines, "").start(io);
        ask(&proxy, "");
        let (request, message) = messages.recv_timeout(support::PATIENCE).expect("a message");
        assert_eq!((path(&request), request.head.field("x-key").as_str()), ("/otlp/v1/traces", "k"));
        let resource = &message["resourceSpans"][0]["resource"];
        assert_eq!(
            (attribute(resource, "service.name").as_str(), attribute(resource, "stage").as_str()),
            ("edge", "test")
        );
        assert_eq!(message["resourceSpans"][0]["scopeSpans"][0]["scope"]["name"], "thalweg");
        proxy.finish((collector, server));
    });
}

/// What is no `traceparent`, and what comes with it, goes no further; a trace begins.
#[test]
fn a_trace_begins() {
    each_driver(|io| {
        let ((collector, messages), server) = (takes_all(), telling());
        let proxy = setup(&server, &collector, "", "").start(io);
        let twice = format!("traceparent: {PARENT}\r\ntraceparent: {PARENT}\r\ntracestate: a=1\r\n");
        for fields in ["", "traceparent: 00-0-0-0\r\ntracestate: a=1\r\n", &twice] {
            let told = ask(&proxy, fields);
            let span = next(&messages);
            let (trace, id) = (span["traceId"].as_str().unwrap(), span["spanId"].as_str().unwrap());
            assert_eq!(told, format!("00-{trace}-{id}-03|"), "over {io}: {fields}");
            assert_ne!(trace, "0af7651916cd43dd8448eb211c80319c");
            assert!(span.get("parentSpanId").is_none() && span.get("traceState").is_none(), "{span}");
        }
        // A trace goes on without what is no `tracestate`.
        let told = ask(&proxy, &format!("traceparent: {PARENT}\r\ntracestate: A B\r\n"));
        assert!(told.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && told.ends_with("-01|"), "{told}");
        next(&messages);
        proxy.finish((collector, server));
    });
}

/// Rules decide what is recorded, and everybody behind is told.
#[test]
fn rules_say_what_is_recorded() {
    each_driver(|io| {
        let ((collector, messages), server) = (takes_all(), telling());
        let rules = "http-request set-trace-sampling 0% if { req.hdr(x-sample) none }\n\
                     http-request set-trace-sampling 100% if { req.hdr(x-sample) all }";
        let proxy = setup(&server, &collector, "sample 0%\n", rules).start(io);
        assert!(ask(&proxy, "").ends_with("-02|"), "over {io}");
        assert!(ask(&proxy, &format!("x-sample: none\r\ntraceparent: {PARENT}\r\n")).ends_with("-00|"));
        assert!(ask(&proxy, "x-sample: all\r\n").ends_with("-03|"));
        let unsampled = PARENT.replace("-01", "-00");
        assert!(ask(&proxy, &format!("traceparent: {unsampled}\r\n")).ends_with("-00|"));
        assert!(ask(&proxy, &format!("traceparent: {PARENT}\r\n")).ends_with("-01|"));
        let mut told = Vec::new();
        while told.len() < 2 {
            let (_, message) = messages.recv_timeout(support::PATIENCE).expect("a message");
            told.extend(spans(&message));
        }
        let parents: Vec<bool> = told.iter().map(|span| span.get("parentSpanId").is_some()).collect();
        assert_eq!(parents, [false, true], "over {io}: {told:?}");
        eventually("both are counted", || (counted(&proxy, "spans_sent") == "2").then_some(()));
        assert_eq!(counted(&proxy, "spans_recorded"), "2");
        proxy.finish((collector, server));
    });
}

/// A client may be believed nothing.
#[test]
fn traces_of_clients_can_be_ignored() {
    each_driver(|io| {
        let ((collector, messages), server) = (takes_all(), telling());
        let proxy = setup(&server, &collector, "client-context ignore\n", "").start(io);
        let told = ask(&proxy, &format!("traceparent: {PARENT}\r\ntracestate: a=1\r\n"));
        let span = next(&messages);
        assert!(
            !told.contains("0af7651916cd43dd8448eb211c80319c") && told.ends_with("-03|"),
            "over {io}: {told}"
        );
        assert!(span.get("parentSpanId").is_none(), "{span}");
        proxy.finish((collector, server));
    });
}

/// Requests that no server answers have spans as well.
#[test]
fn errors_are_told() {
    each_driver(|io| {
        let ((collector, messages), server) = (takes_all(), telling());
        let rules = "http-request deny deny_status 503 if { path /refused }\nhttp-request return status 418 if { path /pot }";
        let proxy = setup(&server, &collector, "", rules).start(io);
        proxy.ask("WHAT /refused HTTP/1.1\r\nHost: h\r\n\r\n");
        let span = next(&messages);
        assert_eq!((&span["name"], &span["status"]["code"]), (&"HTTP".into(), &2.into()), "over {io}");
        let of = |name: &str| attribute(&span, name);
        assert_eq!(
            (of("http.request.method"), of("http.request.method_original")),
            ("_OTHER".into(), "WHAT".into())
        );
        assert_eq!(
            (of("error.type"), of("thalweg.server"), of("thalweg.termination_state")),
            ("503".into(), "-".into(), "PR--".into())
        );
        assert_eq!(span["events"].as_array().map(Vec::len), Some(0));
        proxy.ask("POST /pot HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
        let span = next(&messages);
        assert_eq!(
            (&span["name"], attribute(&span, "http.response.status_code").as_str()),
            (&"POST".into(), "418")
        );
        assert!(span.get("status").is_none(), "what the client did wrong is no error of the server: {span}");
        proxy.finish((collector, server));
    });
}

/// A message is offered again as long as the collector asks for that, and no longer.
#[test]
fn a_collector_that_is_busy_is_asked_again() {
    each_driver(|io| {
        let (collector, messages) = collector(|count| match count {
            1 => "503 Later",
            2 => "200 OK",
            _ => "400 Never",
        });
        let server = telling();
        let proxy = setup(&server, &collector, "", "").start(io);
        ask(&proxy, "");
        assert_eq!(next(&messages), next(&messages), "over {io}");
        eventually("it is sent", || (counted(&proxy, "spans_sent") == "1").then_some(()));
        ask(&proxy, "");
        next(&messages);
        eventually("it is lost", || (counted(&proxy, "spans_failed") == "1").then_some(()));
        let said = "collector otlp was not told : it answered 400.";
        eventually(said, || proxy.output().contains(said).then_some(()));
        proxy.finish((collector, server));
    });
}

/// A collector may take a message and not all of its spans.
#[test]
fn spans_that_are_rejected_are_counted() {
    each_driver(|io| {
        let (collector, server) =
            (Server::http(|_| ok("{\"partialSuccess\":{\"rejectedSpans\":\"1\"}}")), telling());
        let proxy = setup(&server, &collector, "", "").start(io);
        ask(&proxy, "");
        eventually("it is lost", || (counted(&proxy, "spans_failed") == "1").then_some(()));
        assert_eq!(counted(&proxy, "spans_sent"), "0", "over {io}");
        proxy.finish((collector, server));
    });
}

/// Traffic goes on while nobody takes spans, and no more of them wait than there is room for.
#[test]
fn a_collector_that_hangs_holds_nobody_up() {
    each_driver(|io| {
        // It reads nothing and says nothing.
        let collector = Server::start(|mut conn, _| drop(conn.rest()));
        let server = telling();
        let mut proxy = setup(&server, &collector, "queue 4k\ntimeout 1h\n", "").threads(1).start(io);
        for _ in 0..50 {
            assert!(ask(&proxy, "").starts_with("00-"), "over {io}");
        }
        let (recorded, dropped): (u64, u64) = (
            counted(&proxy, "spans_recorded").parse().unwrap(),
            counted(&proxy, "spans_dropped").parse().unwrap(),
        );
        assert_eq!(recorded + dropped, 50);
        assert!(dropped >= 30, "{recorded} were kept in 4 kB, and what was taken before");
        // Nor the end of the process, for long.
        proxy.signal(support::Signal::User1);
        assert_eq!(proxy.end(), (Some(0), None), "over {io}");
        drop(collector);
    });
}

/// Metrics are those of the exporter for Prometheus.
#[test]
fn metrics_are_sent() {
    each_driver(|io| {
        let ((collector, messages), server) = (takes_all(), telling());
        let proxy = setup(&server, &collector, "sample 0%\nmetrics 20ms\n", "").start(io);
        ask(&proxy, "");
        let wanted = |metrics: &[Value]| {
            let of = |name: &str| metrics.iter().find(|metric| metric["name"] == name).cloned();
            let (total, latency) =
                (of("haproxy_server_http_responses_total")?, of("thalweg_server_latency_seconds")?);
            let points = total["sum"]["dataPoints"].as_array()?;
            let answered =
                points.iter().any(|point| attribute(point, "code") == "2xx" && point["asInt"] == "1");
            answered.then_some((total, latency))
        };
        let (total, latency) = eventually("they tell of the request", || {
            let (request, message) = messages.recv_timeout(support::PATIENCE).expect("a message");
            assert_eq!(path(&request), "/v1/metrics", "over {io}");
            wanted(message["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array()?)
        });
        assert_eq!(
            (&total["sum"]["aggregationTemporality"], &total["sum"]["isMonotonic"]),
            (&2.into(), &true.into())
        );
        let point = &total["sum"]["dataPoints"][0];
        assert_eq!(
            (attribute(point, "proxy").as_str(), attribute(point, "server").as_str()),
            ("be", "s1"),
            "{point}"
        );
        assert!(nanoseconds(point, "startTimeUnixNano") < nanoseconds(point, "timeUnixNano"));
        let times = latency["summary"]["dataPoints"].as_array().expect("points");
        let all = times.iter().find(|point| attribute(point, "phase") == "total").expect("the whole time");
        assert_eq!((&all["count"], all["quantileValues"].as_array().map(Vec::len)), (&"1".into(), Some(5)));
        eventually("they are counted", || (counted(&proxy, "metrics_sent") != "0").then_some(()));
        drop(proxy);
        drop((server, collector));
    });
}

/// A collector may be told in private, and has to show who it is.
#[test]
fn collectors_may_speak_tls() {
    each_driver(|io| {
        let (authority, server) = (Authority::new("Root"), telling());
        let selection = tls::server(&authority.issue("collector.example.com"), |_| {});
        let (sender, messages) = channel();
        let sender = Mutex::new(sender);
        let collector = Server::start(move |conn, _| {
            let Ok(mut conn) = conn.try_accept_tls(&selection) else { return };
            while let Some(request) = conn.next_request() {
                let message = serde_json::from_slice(&request.body).expect("JSON");
                // The test may be over.
                let _ = sender.lock().unwrap().send((request, message));
                if conn.try_send(ok("{}")).is_err() {
                    return;
                }
            }
        });
        let ca = authority.path("ca.pem");
        let lines = |host: &str| {
            format!(
                "opentelemetry\nserver otlp {} ssl verify required ca-file {ca} no-sni-auto verifyhost {host}\ninterval 20ms\n\
                 frontend fe\nbind <@fe>\nno log\ndefault_backend be\nbackend be\nserver s1 {}\n",
                collector.addr, server.addr
            )
        };
        let right = Setup::http(&lines("collector.example.com")).start(io);
        ask(&right, "");
        let span = next(&messages);
        assert_eq!(attribute(&span, "thalweg.server"), "s1", "over {io}");
        drop(right);
        let mut wrong = Setup::http(&lines("other.example.com")).start(io);
        ask(&wrong, "");
        wrong.signal(support::Signal::User1);
        assert_eq!(wrong.end(), (Some(0), None), "over {io}");
        assert!(
            wrong.output().contains("collector otlp was not told : TLS was not agreed on."),
            "{}",
            wrong.output()
        );
        assert!(messages.try_recv().is_err(), "over {io}: whoever it is was told");
    });
}

/// What was recorded is sent before the process ends, whatever the interval is.
#[test]
fn the_last_spans_are_sent() {
    each_driver(|io| {
        let ((collector, messages), server) = (takes_all(), telling());
        let text = setup(&server, &collector, "interval 1h\n", "");
        let mut proxy = text.start(io);
        ask(&proxy, "");
        assert!(messages.try_recv().is_err(), "over {io}: it waits for others");
        proxy.signal(support::Signal::User1);
        next(&messages);
        assert_eq!(proxy.end(), (Some(0), None), "over {io}");
    });
}

/// What comes to no rule has a span of its own, unless nothing came at all or a monitor asked.
#[test]
fn requests_that_are_refused_are_told() {
    each_driver(|io| {
        let ((collector, messages), server) = (takes_all(), telling());
        let text = setup(&server, &collector, "", "monitor-uri /alive\noption dontlognull\n");
        let proxy = text.start(io);
        drop(proxy.connect());
        proxy.ask("GET /alive HTTP/1.0\r\n\r\n");
        assert_eq!(proxy.ask("GET /a b HTTP/1.1\r\n\r\n").status, 400, "{io}");
        let span = next(&messages);
        assert_eq!((&span["name"], &span["status"]), (&"HTTP".into(), &Value::Null), "{io}: {span}");
        for (name, value) in [
            ("http.response.status_code", "400"),
            ("thalweg.frontend", "fe"),
            ("thalweg.termination_state", "PR--"),
            ("thalweg.backend", "-"),
            ("http.request.method", "-"),
        ] {
            assert_eq!(attribute(&span, name), value, "{io}: {name}");
        }
        let id = format!("span={}", span["spanId"].as_str().expect("an id"));
        while !proxy.log().contains(&id) {}
        assert_eq!(counted(&proxy, "spans_recorded"), "1", "{io}");
    });
}

/// A TCP stream has a span, with its phases and how it ended.
#[test]
fn tcp_streams_are_told() {
    each_driver(|io| {
        let (collector, messages) = takes_all();
        let server = Server::start(|mut conn, _| conn.send("hello"));
        let text = format!(
            "opentelemetry\nserver otlp {}\ninterval 20ms\nfrontend fe\nbind <@fe>\nmode tcp\nlog-format \"span=%[span_id]\"\n\
             default_backend be\nbackend be\nmode tcp\n\
             server s1 {}\nfrontend other\nbind <@other>\nmode tcp\ndefault_backend gone\nbackend gone\nmode tcp\n",
            collector.addr, server.addr
        );
        let proxy = Setup::tcp(&text).start(io);
        assert_eq!(proxy.connect().rest_text(), "hello", "{io}");
        let span = next(&messages);
        assert_eq!(
            (&span["name"], &span["kind"], &span["status"]),
            (&"TCP".into(), &2.into(), &Value::Null),
            "{io}"
        );
        for (name, value) in [
            ("network.transport", "tcp"),
            ("thalweg.frontend", "fe"),
            ("thalweg.backend", "be"),
            ("thalweg.server", "s1"),
            ("thalweg.termination_state", "----"),
            ("http.response.status_code", "-"),
        ] {
            assert_eq!(attribute(&span, name), value, "{io}: {name}");
        }
        let events: Vec<_> =
            span["events"].as_array().expect("events").iter().map(|e| e["name"].clone()).collect();
        assert_eq!(events, ["queue", "connect"], "{io}");
        let id = format!("span={}", span["spanId"].as_str().expect("an id"));
        while !proxy.log().contains(&id) {}
        let mut other = Conn::connect(proxy.addr("other"));
        other.ended();
        let span = next(&messages);
        assert_eq!(
            (attribute(&span, "error.type").as_str(), &span["status"]["code"]),
            ("SC", &2.into()),
            "{io}"
        );
    });
}
