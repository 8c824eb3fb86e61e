//! `http-request limit`: so many requests per period, or at once, for each key.

mod support;

use std::sync::Mutex;
use std::sync::mpsc;

use support::{Proxy, Response, Server, Setup, each_driver, ok, program};

fn cli(proxy: &Proxy, command: &str) -> String {
    proxy.tell("sock", command)
}

fn of_client(proxy: &Proxy, client: &str) -> Response {
    proxy.ask(&format!("GET / HTTP/1.1\r\nHost: h\r\nX-Client: {client}\r\n\r\n"))
}

/// Status, and what is left.
fn said(response: &Response) -> (u16, String) {
    (response.status, response.field("ratelimit-remaining"))
}

/// The period is long, so that nothing comes back while the test runs: 3 per hour are one in 20 minutes.
#[test]
fn requests_per_period_are_limited_by_key() {
    each_driver(|io| {
        let server =
            Server::http(|_| "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nRateLimit-Limit: 9\r\n\r\n".into());
        let text = format!(
            "listen fe\nbind <@fe>\nhttp-request limit rate 3/1h by req.hdr(x-client) unless {{ req.hdr(x-client) boss }}\n\
             server a {}\n",
            server.addr
        );
        let proxy = Setup::http(&text).global("stats socket <@dir>/sock level admin").start(io);
        for left in ["2", "1", "0"] {
            let response = of_client(&proxy, "a");
            assert_eq!(said(&response), (200, left.into()));
            assert_eq!(response.field("ratelimit-limit"), "3", "the server's own field is replaced");
        }
        let refused = of_client(&proxy, "a");
        assert_eq!(said(&refused), (429, "0".into()));
        let wait: u64 = refused.field("retry-after").parse().unwrap();
        assert!((1100..=1200).contains(&wait), "{wait}");
        assert_eq!(refused.field("ratelimit-reset").parse::<u64>().unwrap().div_ceil(100), 36);
        assert_eq!(said(&of_client(&proxy, "b")), (200, "2".into()), "another key has its own");
        let exempt = of_client(&proxy, "boss");
        assert_eq!((exempt.status, exempt.field("ratelimit-limit")), (200, "9".into()));
        let plain = proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!((plain.status, plain.field("ratelimit-limit")), (200, "9".into()), "no key, no limit");
        let top = cli(&proxy, "show table limit/fe/0 top 1 by http_req_rate");
        let line = top.lines().nth(1).unwrap();
        assert!(line.contains("key=a ") && line.ends_with("gpc0=1 http_req_rate(3600000)=4"), "{top}");
        cli(&proxy, "clear table limit/fe/0 key a");
        assert_eq!(said(&of_client(&proxy, "a")), (200, "2".into()), "a new entry is a full bucket");
        proxy.finish(server);
    });
}

/// The tables of limits have names by their place among the limits of their proxy, whatever other tables there are.
#[test]
fn tables_of_limits_are_numbered_by_proxy() {
    each_driver(|io| {
        let text = "backend before\nstick-table type ip size 10 store gpc0\n\
             frontend other\nbind <@other>\nhttp-request limit rate 5/1h by path\n\
             frontend fe\nbind <@fe>\nstick-table type ip size 10 store gpc0\n\
             http-request limit rate 3/1h by req.hdr(x-client)\nhttp-request limit rate 2/1h by path\n\
             http-request return status 200\n";
        let proxy = Setup::http(text).global("stats socket <@dir>/sock level admin").start(io);
        let listed = cli(&proxy, "show table");
        for name in ["limit/other/0", "limit/fe/0", "limit/fe/1"] {
            assert!(listed.contains(&format!("# table: {name}, ")), "{listed}");
        }
        of_client(&proxy, "a");
        assert!(cli(&proxy, "show table limit/fe/0").contains("key=a "));
        assert!(cli(&proxy, "show table limit/fe/1").contains("key=/ "));
        proxy.finish(());
    });
}

/// What a limit counted is there for rules and log lines behind it, under the name of its table.
#[test]
fn tables_of_limits_can_be_asked() {
    each_driver(|io| {
        let text = "frontend fe\nbind <@fe>\nhttp-request limit rate 3/1h by req.hdr(x-client)\n\
             http-request return status 200 hdr came %[req.hdr(x-client),table_http_req_rate(limit/fe/0)] \
             hdr in %[str(b),in_table(limit/fe/0)]\n\
             frontend other\nbind <@other>\nhttp-request track-sc1 req.hdr(x-client) table limit/fe/0\n\
             http-request return status 200 hdr refused %[sc1_get_gpc0]\n";
        let proxy = Setup::http(text).start(io);
        for _ in 0..2 {
            of_client(&proxy, "a");
        }
        let response = of_client(&proxy, "a");
        assert_eq!((response.field("came"), response.field("in")), ("3".into(), "0".into()), "{io}");
        of_client(&proxy, "a");
        let mut other = support::Conn::connect(proxy.addr("other"));
        other.send("GET / HTTP/1.1\r\nHost: h\r\nX-Client: a\r\n\r\n");
        assert_eq!(other.response().field("refused"), "1", "{io}");
        drop(other);
        proxy.finish(());
    });
}

/// A reload in place: a limit that keys, size and period make the same one goes on with what it knows, whatever lines come before it;
/// one that is another one now begins anew.
#[test]
fn limits_go_on_after_a_reload() {
    each_driver(|io| {
        let text = "frontend fe\nbind <@fe>\nhttp-request limit rate 3/1h by req.hdr(x-client)\n\
             http-request return status 200 hdr was %[req.hdr(x-client),table_http_req_rate(limit/fe/0)]\n";
        let mut proxy = Setup::http(text).global("stats socket <@dir>/sock level admin").start(io);
        assert_eq!(said(&of_client(&proxy, "a")), (200, "2".into()), "{io}");
        let declared = "backend be\nstick-table type ip size 10 store gpc0\nfrontend fe\n";
        let resized = declared.replace("10", "20");
        for ((before, after), left, was) in [
            (("3/1h", "4/1h"), "1", "2"),
            (("frontend fe\n", declared), "0", "3"),
            (("4/1h", "4/2h"), "3", "1"),
            (("type ip size 10", "type ip size 20"), "2", "2"),
            ((&resized, "frontend fe\n"), "1", "3"),
        ] {
            proxy.edit(before, after);
            let answer = cli(&proxy, "reload");
            assert!(answer.starts_with("Success=1\n"), "{io}: {answer}");
            let anew = was == "1" || after.contains("size 20");
            assert_eq!(answer.contains("begins empty"), anew, "{io}: {answer}");
            // One of each name, and that which is in use.
            assert_eq!(cli(&proxy, "show table").matches("# table: limit/").count(), 1, "{io}");
            let table = cli(&proxy, "show table be");
            assert_eq!(table.contains("size:20"), after.contains("size 20"), "{io}: {table}");
            let response = of_client(&proxy, "a");
            assert_eq!(said(&response), (200, left.into()), "{io}: {after}");
            assert_eq!(response.field("was"), was, "{io}: {after}");
        }
        proxy.finish(());
    });
}

#[test]
fn bursts_replies_and_limits_of_single_keys() {
    each_driver(|io| {
        let server = Server::http(|_| ok("x"));
        let text = format!(
            "listen fe\nbind <@fe>\n\
             http-request limit rate req.hdr(x-client),map_str_int(<@dir>/limits) per 1h by req.hdr(x-client) burst 2 \
             status 503 content-type text/plain string slow\n\
             server a {}\n",
            server.addr
        );
        let proxy = Setup::http(&text).file_beside("limits", "many 1000\nnone 0\n").start(io);
        for left in ["1", "0"] {
            assert_eq!(said(&of_client(&proxy, "many")), (200, left.into()));
        }
        let refused = of_client(&proxy, "many");
        assert_eq!((refused.status, refused.text()), (503, "slow".into()));
        assert!(refused.field("retry-after").parse::<u64>().unwrap() <= 4);
        assert_eq!(of_client(&proxy, "none").status, 503);
        for _ in 0..5 {
            assert_eq!(
                said(&of_client(&proxy, "unknown")),
                (200, String::new()),
                "not in the map, not limited"
            );
        }
        proxy.finish(server);
    });
}

#[test]
fn requests_at_once_are_limited() {
    each_driver(|io| {
        let (arrived, arrivals) = mpsc::channel::<()>();
        let (release, released) = mpsc::channel::<()>();
        let (arrived, released) = (Mutex::new(arrived), Mutex::new(released));
        let server = Server::http(move |_| {
            arrived.lock().unwrap().send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
            ok("x")
        });
        let text = format!(
            "listen fe\nbind <@fe>\nhttp-request limit concurrent 1 by src\nserver a {}\n",
            server.addr
        );
        let proxy = Setup::http(&text).global("stats socket <@dir>/sock level admin").start(io);
        let mut first = proxy.connect();
        first.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        arrivals.recv().unwrap();
        assert_eq!(of_client(&proxy, "a").status, 429);
        assert!(cli(&proxy, "show table limit/fe/0").contains("conn_cur=1"));
        release.send(()).unwrap();
        assert_eq!(first.response().status, 200);
        release.send(()).unwrap();
        assert_eq!(of_client(&proxy, "a").status, 200);
        support::eventually("nobody is there", || {
            cli(&proxy, "show table limit/fe/0").contains("gpc0=1 conn_cur=0").then_some(())
        });
        drop(first);
        proxy.finish(server);
    });
}

/// What is only tried out refuses nothing, says nothing to clients, and tells the operator.
#[test]
fn a_dry_run_is_told_of() {
    each_driver(|io| {
        let server = Server::http(|_| ok("x"));
        let text = format!(
            "listen fe\nbind <@fe>\nhttp-request limit rate 1/1h by src status 429 dry-run\n\
             http-request limit concurrent 5 by src dry-run\nserver a {}\n",
            server.addr
        );
        let proxy = Setup::http(&text).global("stats socket <@dir>/sock level admin").start(io);
        for _ in 0..3 {
            assert_eq!(said(&of_client(&proxy, "a")), (200, String::new()));
        }
        assert!(cli(&proxy, "show table limit/fe/0").contains("gpc0=2"));
        let told = "Dry run: 'limit/fe/0' would have refused a request of 127.";
        support::eventually("it is told", || proxy.output().contains(told).then_some(()));
        proxy.finish(server);
    });
}

#[test]
fn lines_that_cannot_be_meant_are_refused() {
    for (line, problem) in [
        ("limit", "expects 'rate <n>/<period>' or 'concurrent <n>'"),
        ("limit rate 10/10 by src", "the period needs a unit"),
        ("limit rate 0/1s by src", "1 to 1048576 per period"),
        ("limit rate 10/1s", "expects 'by <key>'"),
        ("limit rate 10/1s by src by src", "'by' is there twice"),
        ("limit rate src_port by src", "'per <period>'"),
        ("limit concurrent 0 by src", "use 'deny'"),
        ("limit concurrent 3 by src burst 5", "'burst' belongs to 'rate'"),
        ("limit rate 10/1s by src burst 0", "'burst 0': expects 1 to"),
        ("limit rate 10/1s by nothing", "unknown fetch method 'nothing'"),
    ] {
        let directory = support::Directory::new();
        let path = directory.0.join("site.cfg");
        let text = format!(
            "listen fe\n  mode http\n  bind 127.0.0.1:1\n  timeout client 1s\n  http-request {line}\n"
        );
        std::fs::write(&path, text).unwrap();
        let output = program().args(["-c", "-f", path.to_str().unwrap()]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(problem), "{line}: {said}");
    }
}
