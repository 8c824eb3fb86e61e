//! The Prometheus exporter: a service behind rules and logs, with the reference's metrics.

mod support;

use std::collections::BTreeSet;

use support::{Conn, Proxy, Response, Server, Setup, each_driver, ok};

fn setup(server: &Server) -> Setup {
    let addr = server.addr;
    Setup::http(&format!(
        "frontend fe\nbind <@fe>\ndescription my \"fe\"\n\
         http-request use-service prometheus-exporter if {{ path /metrics }}\n\
         http-response set-header x-rule %[status]\nhttp-after-response set-header x-after 1\n\
         default_backend be\n\
         backend be\noption httpchk\nserver s1 {addr}\nserver s2 {addr} check inter 60s maxqueue 10 maxconn 12\n\
         server s3 {addr} backup disabled\n\
         listen other\nmode tcp\nbind <@other>\nserver a {addr} weight 5\n"
    ))
    .defaults("option socket-stats")
}

fn get(proxy: &Proxy, query: &str) -> Response {
    proxy.ask(&format!("GET /metrics{query} HTTP/1.1\r\nHost: h\r\n\r\n"))
}

/// The value of a sample.
fn value(text: &str, sample: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')).map(str::to_owned)
}

#[test]
fn what_was_counted_is_exported() {
    each_driver(|io| {
        let server = Server::http(|_| ok("hello"));
        let proxy = setup(&server).start(io);
        for _ in 0..3 {
            assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
            proxy.http_log();
        }
        let response = get(&proxy, "");
        assert_eq!(
            (response.status, response.field("content-type").as_str()),
            (200, "text/plain; version=0.0.4")
        );
        // The service is a server to the rules, and a name to the log.
        assert_eq!((response.field("x-rule").as_str(), response.field("x-after").as_str()), ("200", "1"));
        let log = proxy.http_log();
        assert!(log.starts_with("fe/<PROMEX> ") && log.contains(" LR-- "), "{log}");
        let text = response.text();
        for (sample, expected) in [
            ("haproxy_backend_http_responses_total{proxy=\"be\",code=\"2xx\"}", "3"),
            ("haproxy_server_status{proxy=\"be\",server=\"s3\",state=\"MAINT\"}", "1"),
            ("haproxy_server_weight{proxy=\"other\",server=\"a\"}", "5"),
            ("haproxy_server_queue_limit{proxy=\"be\",server=\"s1\"}", "NaN"),
            ("haproxy_server_queue_limit{proxy=\"be\",server=\"s2\"}", "10"),
            ("haproxy_frontend_status{proxy=\"fe\",state=\"UP\"}", "1"),
            ("haproxy_backend_agg_server_status{proxy=\"be\",state=\"MAINT\"}", "1"),
        ] {
            assert_eq!(value(&text, sample).as_deref(), Some(expected), "{sample}");
        }
        // Servers that are not checked have no number there, and it is a counter all the same.
        for name in ["check_failures", "check_up_down", "downtime_seconds"] {
            let kind = format!("# TYPE haproxy_server_{name}_total counter\n");
            assert!(text.contains(&kind), "{text}");
        }
        let described = get(&proxy, "?scope=frontend&desc-labels&extra-counters").text();
        let sample = "haproxy_frontend_h1_total_streams{proxy=\"fe\",desc=\"my fe\",mod=\"h1\"}";
        assert!(described.contains("desc=\"my"), "{described}");
        assert!(value(&described, sample).is_some() || described.contains("mod=\"h1\""), "{described}");
    });
}

#[test]
fn a_query_says_what_is_wanted() {
    let server = Server::http(|_| ok(""));
    let proxy = setup(&server).start("epoll");
    assert_eq!(get(&proxy, "?scope=nobody").status, 400);
    assert_eq!(get(&proxy, "?scope").status, 400);
    assert_eq!(get(&proxy, "?scope=").text(), "");
    let only = get(&proxy, "?metrics=haproxy_process_nbthread&scope=global").text();
    assert_eq!(only.lines().count(), 3, "{only}");
    let kept = get(&proxy, "?scope=server&no-maint").text();
    assert!(kept.contains("server=\"s1\"") && !kept.contains("server=\"s3\""));
    // A body is read and thrown away, and the connection goes on.
    let mut conn = proxy.connect();
    conn.send("POST /metrics?scope= HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(conn.response().status, 200);
    conn.send("HEAD /metrics HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(conn.response_to("HEAD").status, 200);
    conn.send("GET /metrics?scope=global HTTP/1.0\r\n\r\n");
    let last = conn.response();
    assert!(last.field("connection") == "close" && last.text().contains("haproxy_process_uptime_seconds"));
}

#[test]
fn a_client_that_does_not_read_holds_little() {
    each_driver(|io| {
        let addr = support::nobody();
        let servers: String = (0..3000).map(|n| format!("server s{n} {addr}\n")).collect();
        let text = format!(
            "listen l\nbind <@fe>\nhttp-request use-service prometheus-exporter\ntimeout client 300ms\n{servers}"
        );
        let proxy = Setup::http(&text).start(io);
        let mut deaf = proxy.connect();
        deaf.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        // Others are served meanwhile, and the one who does not read is let go.
        assert_eq!(proxy.ask("GET /?scope=global HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
        let lines = [proxy.http_log(), proxy.http_log()];
        assert!(lines.iter().any(|line| line.contains("?scope=global")), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains(" LR-- ") && line.contains("\"GET / ")), "{lines:?}");
    });
}

#[test]
fn each_row_is_exported_once_however_many_there_are() {
    let addr = support::nobody();
    // More of each than are read in one step, and in numbers that end steps at every kind of row.
    let proxies: String = (0..70)
        .map(|n| {
            let binds: String = (0..if n == 7 { 250 } else { n % 5 })
                .map(|at| format!("bind abns@thalweg-exporter-{}-{n}-{at}\n", std::process::id()))
                .collect();
            let servers: String = (0..n % 9).map(|at| format!("server s{at} {addr}\n")).collect();
            format!("listen l{n}\n{binds}{servers}")
        })
        .collect();
    let text = format!("frontend fe\nbind <@fe>\nhttp-request use-service prometheus-exporter\n{proxies}");
    let proxy = Setup::http(&text).defaults("option socket-stats").start("epoll");
    let text = get(&proxy, "").text();
    let samples: Vec<&str> = text.lines().filter_map(|line| line.rsplit_once(' ')).map(|(s, _)| s).collect();
    let different: BTreeSet<&str> = samples.iter().copied().collect();
    assert_eq!(samples.len(), different.len());
    let count = |name: &str| samples.iter().filter(|sample| sample.starts_with(name)).count();
    // A listen section is a frontend, too, with listeners or without.
    assert_eq!(count("haproxy_frontend_sessions_total{"), 71);
    assert_eq!(count("haproxy_listener_sessions_total{"), 389);
    assert_eq!(count("haproxy_backend_sessions_total{"), 70);
    assert_eq!(count("haproxy_server_sessions_total{"), 273);
}

/// The samples' names and labels, and the types of the metrics. Texts and the version are each program's own.
fn shape(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter(|line| {
            !line.starts_with("# HELP") && !line.contains("haproxy_resolver") && !line.contains("sticktable")
        })
        // The reference calls these gauges where their first sample is no number.
        .filter(|line| {
            let kind = line.strip_prefix("# TYPE haproxy_").unwrap_or_default();
            !["backend_downtime_", "server_downtime_", "server_check_failures_", "server_check_up_down_"]
                .iter()
                .any(|name| kind.starts_with(name))
        })
        .filter(|line| !line.contains("build_info{") && !line.contains("process_node{"))
        .map(|line| match line.strip_prefix("# TYPE") {
            Some(kind) => kind.to_owned(),
            None => line.rsplit_once(' ').map_or("", |(sample, _)| sample).to_owned(),
        })
        .collect()
}

#[test]
fn the_reference_exports_the_same() {
    let Some(reference) = support::reference() else {
        println!("skipped: the reference program is not installed");
        return;
    };
    let server = Server::http(|_| ok(""));
    let ours = setup(&server).start("epoll");
    let theirs = setup(&server).program(&reference).start("epoll");
    for query in ["", "?scope=server&scope=backend", "?desc-labels&scope=frontend", "?no-maint"] {
        let (own, other) = (shape(&get(&ours, query).text()), shape(&get(&theirs, query).text()));
        let missing: Vec<_> = other.difference(&own).take(10).collect();
        let more: Vec<_> = own.difference(&other).take(10).collect();
        assert!(missing.is_empty() && more.is_empty(), "{query}: missing {missing:#?}, more {more:#?}");
    }
}

#[test]
fn how_long_streams_take_is_exported_and_shown() {
    each_driver(|io| {
        let delay = std::time::Duration::from_millis(30);
        let server = Server::http(move |_| {
            std::thread::sleep(delay);
            ok("hello")
        });
        let proxy = setup(&server).global("stats socket <@dir>/socket level admin").start(io);
        for _ in 0..3 {
            assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
            proxy.http_log();
        }
        // Whoever scrapes as with the reference gets what it gives.
        assert!(!get(&proxy, "").text().contains("latency"));
        let text = get(&proxy, "?latency").text();
        let number = |sample: &str| -> f64 {
            let value = value(&text, sample).unwrap_or_else(|| panic!("no {sample} in {text}"));
            value.parse().expect("a number")
        };
        let backend = |rest: &str, phase: &str, quantile: &str| {
            format!("thalweg_backend_latency_seconds{rest}{{proxy=\"be\",phase=\"{phase}\"{quantile}}}")
        };
        assert_eq!(number(&backend("_count", "total", "")), 3.0);
        assert!(number(&backend("_sum", "response", "")) >= 0.09);
        // What is read from the buckets is an eighth off at most.
        assert!(number(&backend("", "response", ",quantile=\"0.5\"")) >= 0.026);
        assert!(
            number(&backend("", "total", ",quantile=\"0.999\""))
                >= number(&backend("", "total", ",quantile=\"0.5\""))
        );
        assert_eq!(number(&backend("", "queue", ",quantile=\"0.99\"")), 0.0);
        let servers = ["s1", "s2"].map(|server| {
            number(&format!(
                "thalweg_server_latency_seconds_count{{proxy=\"be\",server=\"{server}\",phase=\"total\"}}"
            ))
        });
        assert_eq!(servers.iter().sum::<f64>(), 3.0);
        assert!(number("thalweg_frontend_latency_seconds_count{proxy=\"fe\",phase=\"total\"}") >= 3.0);
        let ask = |command: &str| {
            let mut cli = Conn::connect_unix(&proxy.path("socket"));
            cli.send(format!("{command}\n"));
            cli.rest_text()
        };
        let shown = ask("show latency be");
        let line = shown
            .lines()
            .find(|line| line.starts_with("be,BACKEND,response,3,"))
            .unwrap_or_else(|| panic!("{shown}"));
        let times: Vec<u64> = line.split(',').skip(4).map(|us| us.parse().expect("microseconds")).collect();
        assert!(times.len() == 6 && times.iter().all(|us| *us >= 26_000), "{line}");
        assert!(
            shown.starts_with("# pxname,svname,phase,streams,average,p50,p90,p95,p99,p99.9\n"),
            "{shown}"
        );
        assert!(!shown.contains("fe,") && ask("show latency").contains("fe,FRONTEND,total,"));
        assert!(ask("show latency nobody").contains("No such proxy."));
        ask("clear counters all");
        assert!(!ask("show latency be").contains("be,BACKEND,"));
    });
}

#[test]
fn what_agents_said_is_exported() {
    let agent = Server::start(|mut conn, _| {
        conn.send("down\n");
        conn.ended();
    });
    let nobody = support::nobody();
    let asked = |server: std::net::SocketAddrV4| {
        format!("agent-check agent-inter 20ms agent-addr {} agent-port {}", server.ip(), server.port())
    };
    let text = format!(
        "frontend fe\nbind <@fe>\nhttp-request use-service prometheus-exporter\n\
         backend be\nserver a {nobody} {}\nserver b {nobody} check inter 20ms {}\nserver c {nobody}\n",
        asked(agent.addr),
        asked(nobody),
    );
    let proxy = Setup::http(&text).start("epoll");
    let text = support::eventually("both agents were asked", || {
        let text = get(&proxy, "?scope=server").text();
        let known =
            |state: &str| value(&text, &format!("haproxy_server_agent_status{{proxy=\"be\",{state}\"}}"));
        let asked =
            known("server=\"a\",state=\"L7STS")? == "1" && known("server=\"b\",state=\"L4CON")? == "1";
        let checked =
            value(&text, "haproxy_server_check_status{proxy=\"be\",server=\"b\",state=\"L4CON\"}")? == "1";
        (asked && checked).then_some(text)
    });
    for (metric, expected) in [("agent_code", "0"), ("check_code", "0")] {
        let sample = format!("haproxy_server_{metric}{{proxy=\"be\",server=\"b\"}}");
        assert_eq!(value(&text, &sample).as_deref(), Some(expected), "{sample}");
    }
    assert!(text.contains("haproxy_server_agent_duration_seconds{proxy=\"be\",server=\"a\"} 0."), "{text}");
    assert!(
        !text.contains("check_status{proxy=\"be\",server=\"a\"")
            && !text.contains("agent_code{proxy=\"be\",server=\"c\"")
    );
}
