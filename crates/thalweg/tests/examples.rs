//! Every file in `examples/` is started as it is, but for its addresses, and does what its first lines say.

mod support;

use std::fs;
use std::path::Path;

use support::{Conn, Io, Proxy, Request, Server, Setup, Signal, each_driver, ok, program};

/// Starts an example with its listeners on `<@fe>` (and others) and its servers at the given addresses.
fn start(io: Io, name: &str, replacements: &[(&str, String)]) -> Proxy {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let mut text = fs::read_to_string(path).unwrap();
    for (from, to) in [("127.0.0.1:8080", "<@fe>".to_string())].iter().chain(replacements) {
        assert!(text.contains(from), "{name} does not mention {from}");
        text = text.replace(from, to);
    }
    Setup::file(&text).start(io)
}

/// Ctrl-C, and every connection is let go.
fn interrupt(mut proxy: Proxy) {
    proxy.signal(Signal::Interrupt);
    assert_eq!(proxy.end(), (None, Some(Signal::Interrupt.number())));
}

fn get(path: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: example.com\r\n{more}\r\n")
}

/// A server that says its name, the path it was asked for, and a field.
fn telling(name: &'static str, field: &'static str) -> Server {
    Server::http(move |request: &Request| {
        let target = request.head.line.split(' ').nth(1).unwrap();
        ok(&format!("{name} {target} {}", request.head.field(field)))
    })
}

#[test]
fn quickstart() {
    each_driver(|io| {
        let others = ["127.0.0.1:8081", "127.0.0.1:8082", "127.0.0.1:8083"];
        let replacements: Vec<_> =
            others.iter().zip(["<@one>", "<@two>", "<@three>"]).map(|(a, b)| (*a, b.into())).collect();
        // The servers are named in the backend first and bound later: the same names lead to the same addresses.
        let proxy = start(io, "quickstart.cfg", &replacements);
        let mut conn = proxy.connect();
        for name in ["one", "two", "three", "one"] {
            conn.send(get("/hello", ""));
            let response = conn.response();
            assert_eq!(response.text(), format!("Hello from server {name}: GET /hello\n"));
            assert_eq!(response.field("content-type"), "text/plain");
        }
        support::eventually("the access log is on the terminal", || {
            (proxy.output().matches(" 200 ").count() >= 4).then_some(())
        });
        interrupt(proxy);
    });
}

#[test]
fn site_with_two_servers() {
    each_driver(|io| {
        let (one, two) = (telling("one", "x-forwarded-for"), telling("two", "x-forwarded-for"));
        let proxy = start(
            io,
            "site-two-servers.cfg",
            &[("127.0.0.1:9001", one.addr.to_string()), ("127.0.0.1:9002", two.addr.to_string())],
        );
        let answers: Vec<_> = (0..4).map(|_| proxy.ask(&get("/", "")).text()).collect();
        assert_eq!(answers, ["one / 127.0.0.1", "two / 127.0.0.1", "one / 127.0.0.1", "two / 127.0.0.1"]);
        interrupt(proxy);
    });
}

#[test]
fn api_with_path_routing() {
    each_driver(|io| {
        let servers = [telling("users", "x-request-start"), telling("users", "x"), telling("orders", "x")];
        let replacements: Vec<_> = ["127.0.0.1:9001", "127.0.0.1:9002", "127.0.0.1:9003"]
            .into_iter()
            .zip(&servers)
            .map(|(from, server)| (from, server.addr.to_string()))
            .collect();
        let proxy = start(io, "api-path-routing.cfg", &replacements);
        let users = proxy.ask(&get("/users/7?x=1", ""));
        assert!(users.text().starts_with("users /7?x=1 "), "{}", users.text());
        let orders = proxy.ask(&get("/orders/9", ""));
        assert_eq!(orders.text(), "orders /9 ");
        assert_eq!(orders.field("cache-control"), "no-store");
        let nowhere = proxy.ask(&get("/elsewhere", ""));
        assert_eq!((nowhere.status, nowhere.text().as_str()), (404, "{\"error\":\"no such service\"}\n"));
        let post = |kind| {
            format!(
                "POST /orders/ HTTP/1.1\r\nHost: h\r\nContent-Type: {kind}\r\nContent-Length: 2\r\n\r\n{{}}"
            )
        };
        assert_eq!(proxy.ask(&post("text/plain")).status, 400);
        assert_eq!(proxy.ask(&post("Application/JSON; charset=utf-8")).status, 200);
        interrupt(proxy);
    });
}

#[test]
fn blue_green_by_header() {
    each_driver(|io| {
        let (blue, green) = (telling("blue", "x"), telling("green", "x"));
        let proxy = start(
            io,
            "blue-green.cfg",
            &[("127.0.0.1:9001", blue.addr.to_string()), ("127.0.0.1:9002", green.addr.to_string())],
        );
        for (field, expected) in [("", "blue"), ("X-Color: Green\r\n", "green"), ("X-Color: red\r\n", "blue")]
        {
            let response = proxy.ask(&get("/", field));
            assert_eq!(response.text(), format!("{expected} / "));
            assert_eq!(response.field("x-served-by"), expected);
        }
        interrupt(proxy);
    });
}

#[test]
fn maintenance_page() {
    each_driver(|io| {
        let site = telling("site", "x");
        let proxy = start(io, "maintenance.cfg", &[("127.0.0.1:9001", site.addr.to_string())]);
        let page = proxy.ask(&get("/", ""));
        assert_eq!(page.status, 503);
        assert_eq!(
            (page.field("retry-after"), page.field("content-type")),
            ("3600".into(), "text/html".into())
        );
        assert!(page.text().contains("<h1>Back soon</h1>"));
        assert_eq!(proxy.ask(&get("/", "X-Repair: let-me-in\r\n")).text(), "site / ");
        interrupt(proxy);
    });
}

#[test]
fn the_smallest_file() {
    each_driver(|io| {
        let only = telling("only", "x");
        let proxy = start(io, "minimal.cfg", &[("127.0.0.1:9001", only.addr.to_string())]);
        assert_eq!(proxy.ask(&get("/", "")).text(), "only / ");
        interrupt(proxy);
    });
}

#[test]
fn tcp_database() {
    each_driver(|io| {
        let echo = |name: &'static str| {
            Server::start(move |mut conn: Conn, _| {
                conn.send(name);
                let said = conn.rest();
                conn.send(said);
            })
        };
        let (primary, replica) = (echo("primary "), echo("replica "));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tcp-database.cfg");
        let text = fs::read_to_string(path).unwrap();
        let at = |primary: &str| {
            // Health checks have tests of their own; here they would disturb the servers' scripts.
            text.replace("default-server check inter 2s", "default-server inter 2s")
                .replace("127.0.0.1:8432", "<@fe>")
                .replace("127.0.0.1:9001", primary)
                .replace("127.0.0.1:9002", &replica.addr.to_string())
        };
        let proxy = Setup::file(&at(&primary.addr.to_string())).start(io);
        let mut conn = proxy.connect();
        conn.send("select 1");
        conn.half_close();
        assert_eq!(conn.rest_text(), "primary select 1");
        interrupt(proxy);
    });
}

#[test]
fn appliance() {
    each_driver(|io| {
        let servers: Vec<Server> =
            ["a", "b", "c"].into_iter().map(|name| telling(name, "x-application")).collect();
        let replacements: Vec<_> = ["127.0.0.1:9001", "127.0.0.1:9002", "127.0.0.1:9003"]
            .into_iter()
            .zip(&servers)
            .map(|(from, server)| (from, server.addr.to_string()))
            .collect();
        let proxy = start(io, "appliance.cfg", &replacements);
        for n in [1, 17, 40] {
            let request = format!("GET /x HTTP/1.1\r\nHost: APP{n:03}.example.org\r\n\r\n");
            let response = proxy.ask(&request);
            assert!(response.text().ends_with(&format!(" /x app{n:03}")), "{}", response.text());
            assert_eq!(response.field("x-pool"), format!("POOL_{n:03}"));
        }
        assert_eq!(proxy.ask(&get("/", "")).text(), "No application has this name.\n");
        assert_eq!(proxy.ask("TRACE / HTTP/1.1\r\nHost: h\r\n\r\n").status, 405);
        assert_eq!(proxy.ask("GET /lb-alive HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
        interrupt(proxy);
    });
}

/// Whatever is added there must at least be valid.
#[test]
fn every_example_is_accepted() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "cfg") {
            let output = program().arg("-c").arg("-f").arg(&path).output().unwrap();
            assert!(output.status.success(), "{path:?}: {}", String::from_utf8_lossy(&output.stderr));
            count += 1;
        }
    }
    assert!(count >= 8);
}
