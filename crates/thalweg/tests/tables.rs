//! Stick tables (configuration manual, chapter 11): what is tracked, what rules and the CLI say of it, and persistence.

mod support;

use support::{Conn, Io, Proxy, Server, Setup, each_driver, eventually, ok, reference};

const ALL: &str = "store conn_cnt,conn_cur,conn_rate(1h),sess_cnt,http_req_cnt,http_req_rate(1h),http_err_cnt,\
                   http_fail_cnt,bytes_in_cnt,bytes_out_cnt,gpc0,gpt0,gpc0_rate(1h)";

fn cli(proxy: &Proxy, command: &str) -> String {
    proxy.tell("sock", command)
}

/// What `show table` says of the only entry, without its pointer and its expiry, and only the values asked for.
fn shown(proxy: &Proxy, table: &str, names: &[&str]) -> String {
    let answer = cli(proxy, &format!("show table {table}"));
    let Some(line) = answer.lines().nth(1).filter(|line| !line.is_empty()) else { return String::new() };
    let values: Vec<&str> = line
        .split(' ')
        .filter(|word| names.iter().any(|n| word.split(['=', '(']).next() == Some(*n)))
        .map(|word| word.split_once('=').expect("a value").1)
        .collect();
    values.join(" ")
}

fn start(io: Io, text: &str) -> Proxy {
    Setup::http(text).global("stats socket <@dir>/sock level admin").start(io)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
}

/// What the reference counts, at each place where tracking may begin: found by playing the same to it.
#[test]
fn what_is_counted_depends_on_where_tracking_begins() {
    each_driver(|io| {
        for (rule, kept, fresh) in [
            ("tcp-request connection", "1 1 2", "2 2 4"),
            ("tcp-request session", "1 1 2", "2 2 4"),
            ("tcp-request content", "2 0 2", "4 0 4"),
            ("http-request", "2 0 2", "4 0 4"),
            ("http-response", "2 0 2", "4 0 4"),
        ] {
            let server = Server::http(|_| ok("x"));
            let proxy = start(
                io,
                &format!(
                    "listen fe\nbind <@fe>\nstick-table type ip size 10 expire 1h {ALL}\n{rule} track-sc0 src\n\
                     server s {}\n",
                    server.addr
                ),
            );
            let names = ["conn_cnt", "sess_cnt", "http_req_cnt"];
            for expected in [kept, fresh] {
                let mut client = proxy.connect();
                for _ in 0..2 {
                    client.send(get("/"));
                    assert_eq!(client.response().text(), "x");
                }
                assert_eq!(shown(&proxy, "fe", &names), expected, "{rule}");
                drop(client);
                // Whoever tracks is counted for as long.
                eventually("the connection is let go", || {
                    (shown(&proxy, "fe", &["use", "conn_cur"]) == "0 0").then_some(())
                });
            }
            proxy.finish(server);
        }
    });
}

#[test]
fn errors_are_the_clients_and_failures_the_servers() {
    each_driver(|io| {
        let server = Server::http(|request| {
            let status = request.head.line.split(['/', ' ']).nth(2).unwrap_or("").to_owned();
            format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")
        });
        let proxy = start(
            io,
            &format!(
                "listen fe\nbind <@fe>\nstick-table type string len 32 size 100 {ALL}\nhttp-request track-sc0 path\n\
                 http-request deny if {{ path /deny }}\nhttp-request auth if {{ path /auth }}\n\
                 http-request return status 404 if {{ path /return }}\nretries 0\nserver s {}\n",
                server.addr
            ),
        );
        for (path, expected) in [
            ("/200", "0 0"),
            ("/404", "1 0"),
            ("/500", "0 1"),
            ("/501", "0 0"),
            ("/505", "0 0"),
            ("/deny", "1 0"),
            ("/auth", "1 0"),
            ("/return", "0 0"),
        ] {
            proxy.ask(&get(path));
            assert_eq!(shown(&proxy, "fe", &["http_err_cnt", "http_fail_cnt"]), expected, "{path}");
            assert_eq!(cli(&proxy, "clear table fe"), "\n");
        }
        proxy.finish(server);
    });
}

/// Who leaves without a request made one that failed, as far as the session's counters go.
#[test]
fn bytes_and_what_is_no_request() {
    each_driver(|io| {
        let server = Server::http(|_| ok("0123456789"));
        let proxy = start(
            io,
            &format!(
                "listen fe\nbind <@fe>\nstick-table type ip size 10 {ALL}\ntcp-request connection track-sc0 src\n\
                 server s {}\n",
                server.addr
            ),
        );
        let request = get("/");
        let mut client = proxy.connect();
        client.send(&request);
        assert_eq!(client.response().text(), "0123456789");
        let answer = ok("0123456789").len();
        let expected = format!("{} {answer}", request.len());
        eventually("the bytes are counted", || {
            (shown(&proxy, "fe", &["bytes_in_cnt", "bytes_out_cnt"]) == expected).then_some(())
        });
        drop(client);
        drop(Conn::connect(proxy.addr("fe")));
        eventually("the second one is counted", || {
            (shown(&proxy, "fe", &["http_req_cnt", "http_err_cnt"]) == "2 1").then_some(())
        });
        proxy.finish(server);
    });
}

/// Who is slow makes no error, as in the reference: browsers open connections that they may not need.
#[test]
fn slow_clients_make_no_errors() {
    each_driver(|io| {
        let proxy = start(
            io,
            &format!(
                "frontend fe\nbind <@fe>\ntimeout http-request 200ms\ntcp-request connection track-sc0 src table t\n\
                 http-request wait-for-body time 100ms if {{ path /wait }}\nhttp-request return status 200\n\
                 backend t\nstick-table type ip size 10 {ALL}\n"
            ),
        );
        for (sent, status, counted) in [
            ("", "408", "1 0"),
            ("GET / HT", "408", "1 0"),
            ("POST /wait HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc", "408", "1 0"),
            ("GET\r\n\r\n", "400", "1 1"),
        ] {
            let mut client = proxy.connect();
            client.send(sent);
            let answer = client.rest_text();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{io}: {sent}: {answer}");
            eventually("it is counted", || {
                (shown(&proxy, "t", &["use", "http_req_cnt", "http_err_cnt"]) == format!("0 {counted}"))
                    .then_some(())
            });
            cli(&proxy, "clear table t");
        }
        proxy.finish(());
    });
}

/// A connection of HTTP/2 that breaks the protocol made no request, unless it broke it with one; as in the reference.
#[test]
fn broken_connections_are_no_requests() {
    const BEGIN: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    const PING: &str = "\0\0\0\x06\0\0\0\0\0";
    each_driver(|io| {
        let proxy = start(
            io,
            "frontend fe\nbind <@fe> proto h2\ntcp-request connection track-sc0 src table t\n\
             http-request return status 200\nbackend t\n\
             stick-table type ip size 10 store http_req_cnt,http_err_cnt,glitch_cnt\n",
        );
        for (what, sent, counted) in [
            ("no first SETTINGS", format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{PING}"), "0 0 1"),
            ("SETTINGS of three octets", format!("{BEGIN}\0\0\x03\x04\0\0\0\0\0abc"), "0 0 1"),
            ("DATA of no stream", format!("{BEGIN}\0\0\x01\0\0\0\0\0\x01x"), "0 0 1"),
            ("CONTINUATION of nothing", format!("{BEGIN}\0\0\x01\x09\x04\0\0\0\x01x"), "0 0 1"),
            ("a head that cannot be decoded", format!("{BEGIN}\0\0\x01\x01\x05\0\0\0\x01\x40"), "1 1 1"),
            ("a head that does not go on", format!("{BEGIN}\0\0\x01\x01\x01\0\0\0\x01\x40{PING}"), "1 1 1"),
        ] {
            let mut client = proxy.connect();
            client.send(&sent);
            client.ended();
            eventually(what, || {
                (shown(&proxy, "t", &["use", "http_req_cnt", "http_err_cnt", "glitch_cnt"])
                    == format!("0 {counted}"))
                .then_some(())
            });
            cli(&proxy, "clear table t");
        }
        proxy.finish(());
    });
}

/// Rules, fetches and converters on one entry; what is not stored or not tracked gives nothing, what has no entry 0.
#[test]
fn rules_read_and_change_entries() {
    each_driver(|io| {
        let proxy = start(
            io,
            "backend other\nstick-table type ip size 10 expire 1h store gpc0,conn_cnt\n\
             backend arrays\nstick-table type ip size 10 store gpc(2),gpt(2),gpc_rate(2,1h)\n\
             frontend fe\nbind <@fe>\nstick-table type ip size 10 store gpc0,gpc0_rate(1h),gpt0,http_req_cnt\n\
             http-request track-sc0 src\nhttp-request track-sc1 src table arrays\nhttp-request track-sc0 path table other\n\
             http-request sc-inc-gpc0(0)\nhttp-request sc-set-gpt0(0) 7\n\
             http-request sc-inc-gpc(1,1)\nhttp-request sc-add-gpc(1,1) 10\nhttp-request sc-set-gpt(1,1) int(77)\n\
             http-request return status 200 content-type text/plain lf-string \"\
             %[sc0_get_gpc0] %[sc0_gpc0_rate] %[sc0_get_gpt0] %[sc0_http_req_cnt] %[sc0_trackers] [%[sc2_get_gpc0]] \
             [%[sc0_conn_cnt]] %[sc0_conn_cnt(other)] %[src_get_gpc0(other)] %[src,table_trackers(fe)] \
             %[src,in_table(other)] %[src_inc_gpc0(other)] %[src,table_inc_gpc0(other)] %[src,table_clr_gpc0(other)] \
             %[src,in_table(other)] %[table_cnt(other)] %[table_avl(other)] [%[src,table_expire(arrays)]] \
             %[sc_get_gpc(1,1)] [%[sc_get_gpc(2,1)]] %[sc1_get_gpc1] %[sc_gpc_rate(1,1)] %[sc_get_gpt(1,1)] %[sc1_tracked] \
             %[sc2_tracked]\"\n",
        );
        let expected = "1 1 7 1 1 [] [] 0 0 1 0 1 2 2 1 1 9 [0] 11 [] 11 11 77 1 0";
        assert_eq!(proxy.ask(&get("/")).text(), expected);
        proxy.finish(());
    });
}

#[test]
fn a_limit_per_client() {
    each_driver(|io| {
        let proxy = start(
            io,
            "frontend fe\nbind <@fe>\nstick-table type ip size 10 store http_req_rate(1h)\nhttp-request track-sc0 src\n\
             http-request deny deny_status 429 if { sc_http_req_rate(0) gt 3 }\nhttp-request return status 200\n",
        );
        let statuses: Vec<u16> = (0..5).map(|_| proxy.ask(&get("/")).status).collect();
        assert_eq!(statuses, [200, 200, 200, 429, 429]);
        proxy.finish(());
    });
}

/// Keys are learnt from requests and from responses, and followed while the server is there.
#[test]
fn keys_stay_with_their_server() {
    each_driver(|io| {
        let servers = [Server::named("a"), Server::named("b"), Server::named("c")];
        let proxy = start(
            io,
            &format!(
                "listen fe\nbind <@fe>\nbalance roundrobin\noption redispatch\nstick-table type string len 20 size 100 expire 1h\n\
                 stick on req.hdr(x-key)\nserver a {} id 11\nserver b {}\nserver c {} non-stick\n",
                servers[0].addr, servers[1].addr, servers[2].addr
            ),
        );
        let ask = |key: &str| proxy.ask(&format!("GET / HTTP/1.1\r\nHost: h\r\nX-Key: {key}\r\n\r\n")).text();
        assert_eq!([ask("one"), ask("two"), ask("three")], ["a", "b", "c"]);
        // What c got is not learnt; the others stay where they were.
        assert_eq!([ask("one"), ask("two"), ask("one"), ask("two"), ask("three")], ["a", "b", "a", "b", "a"]);
        let table = cli(&proxy, "show table fe");
        assert!(table.contains("key=two use=0 ") && table.contains(" server_id=2 server_key=b\n"), "{table}");
        // A server that is down is left, and another one learnt.
        cli(&proxy, "set server fe/a state maint");
        let other = ask("one");
        assert!(other == "b" || other == "c", "{other}");
        proxy.finish(servers);
    });
}

#[test]
fn keys_of_responses() {
    each_driver(|io| {
        let answer = |name: &'static str| {
            Server::http(move |_| ok(name).replacen("\r\n", &format!("\r\nX-Session: of-{name}\r\n"), 1))
        };
        let servers = [answer("a"), answer("b")];
        let proxy = start(
            io,
            &format!(
                "listen fe\nbind <@fe>\nbalance roundrobin\nstick-table type string len 20 size 100 expire 1h srvkey addr\n\
                 stick match req.hdr(x-key)\nstick store-response res.hdr(x-session)\nserver a {}\nserver b {}\n",
                servers[0].addr, servers[1].addr
            ),
        );
        let ask = |key: &str| proxy.ask(&format!("GET / HTTP/1.1\r\nHost: h\r\nX-Key: {key}\r\n\r\n")).text();
        assert_eq!([ask("-"), ask("-")], ["a", "b"]);
        assert_eq!([ask("of-b"), ask("of-b"), ask("of-a"), ask("of-b")], ["b", "b", "a", "b"]);
        let table = cli(&proxy, "show table fe");
        assert!(table.contains(&format!("server_key={}\n", servers[1].addr)), "{table}");
        proxy.finish(servers);
    });
}

/// The forms and the refusals of the commands; the texts are the reference's.
#[test]
fn commands() {
    each_driver(|io| {
        let proxy = start(
            io,
            "backend t\nstick-table type ip size 3 expire 1h nopurge store gpc0,conn_rate(10s),bytes_in_cnt\n\
             backend a\nstick-table type ipv6 size 10 store gpc(3),gpt(2),gpc_rate(2,10s)\n\
             backend s\nstick-table type string len 5 size 10 store gpc0\n\
             backend b\nstick-table type binary len 4 size 10 store gpc0\n\
             frontend fe\nbind <@fe>\n",
        );
        let entries = |command: &str| -> Vec<String> {
            let lines = cli(&proxy, command);
            let words = |line: &str| {
                let skip = |w: &&str| !w.starts_with("0x") && !w.starts_with("exp=") && *w != "shard=0";
                line.split(' ').filter(skip).collect::<Vec<_>>().join(" ")
            };
            lines.lines().skip(1).filter(|line| !line.is_empty()).map(words).collect()
        };
        for (command, answer) in [
            ("show table nope", "No such table\n\n"),
            ("set table t key 1.1.1.1 data.gpc0 5 data.bytes_in_cnt 99999999999 data.conn_rate 7", "\n"),
            ("set table t key 1.1.1.2", "\n"),
            ("set table t key 1.1.1.3 data.gpc0 -1", "\n"),
            ("set table t key 1.1.1.4", "Unable to allocate a new entry\n\n"),
            ("set table t key abc data.gpc0 1", "Invalid key\n\n"),
            ("set table t key", "Key value expected\n\n"),
            ("set table t key 1.1.1.1 data.gpc0 x", "Require a valid integer value to store\n\n"),
            ("set table t key 1.1.1.1 data.foo 1", "Unknown data type\n\n"),
            ("set table t key 1.1.1.1 data.gpc1 1", "Data type not stored in this table\n\n"),
            ("set table t key 1.1.1.1 gpc0 1", "\"data.<type>\" followed by a value expected\n\n"),
            ("set table a key 1.2.3.4 data.gpc[1] 5 data.gpt[1] 6", "\n"),
            ("set table a key ::1 data.gpc[3] 5", "index out of range in this data array\n\n"),
            ("set table s key abcdefg data.gpc0 1", "\n"),
            (
                "show table t data.gpc0 xx 1",
                "Filter entry #1: Require and operator among \"eq\", \"ne\", \"le\", \"ge\", \"lt\", \"gt\"\n\n",
            ),
            (
                "show table t data.gpc0 gt",
                "Filter entry #1: Require a valid integer value to compare against\n\n",
            ),
            ("show table t ptr 0x1", "No entry can be found matching ptr.\n\n"),
            ("show table t ptr 1", "Pointer expected (0xffff notation)\n\n"),
            ("show table t key 9.9.9.9", "\n"),
            ("clear table nope", "No such table\n\n"),
        ] {
            assert_eq!(cli(&proxy, command), answer, "{command}");
        }
        assert_eq!(
            cli(&proxy, "show table"),
            "# table: b, type: binary, size:10, used:0\n# table: s, type: string, size:10, used:1\n\
             # table: a, type: ipv6, size:10, used:1\n# table: t, type: ip, size:3, used:3\n\n"
        );
        assert_eq!(
            entries("show table t data.gpc0 gt 0"),
            [
                "key=1.1.1.1 use=0 gpc0=5 conn_rate(10000)=7 bytes_in_cnt=99999999999",
                "key=1.1.1.3 use=0 gpc0=4294967295 conn_rate(10000)=0 bytes_in_cnt=0"
            ]
        );
        assert_eq!(
            entries("show table a"),
            [
                "key=::ffff:1.2.3.4 use=0 gpt0=0 gpt1=6 gpc0=0 gpc1=5 gpc2=0 gpc0_rate(10000)=0 gpc1_rate(10000)=0"
            ]
        );
        assert_eq!(entries("show table s key abcde"), ["key=abcde use=0 gpc0=1"]);
        // An entry's pointer selects it again.
        let line = cli(&proxy, "show table t key 1.1.1.2");
        let pointer = line.lines().nth(1).and_then(|l| l.split(':').next()).expect("a pointer").to_owned();
        assert_eq!(cli(&proxy, &format!("set table t ptr {pointer} data.gpc0 3")), "\n");
        assert_eq!(entries(&format!("show table t ptr {pointer}")).len(), 1);
        assert_eq!(cli(&proxy, &format!("clear table t ptr {pointer}")), "\n");
        assert_eq!(cli(&proxy, "clear table t data.gpc0 eq 5"), "\n");
        assert_eq!(entries("show table t").len(), 1);
        proxy.finish(());
    });
}

#[test]
fn entries_expire() {
    each_driver(|io| {
        let proxy = start(
            io,
            "frontend fe\nbind <@fe>\nstick-table type ip size 10 expire 50ms store gpc0\n\
             http-request return status 200 content-type text/plain lf-string \"%[src_inc_gpc0]\"\n",
        );
        assert_eq!(proxy.ask(&get("/")).text(), "1");
        eventually("the entry expires", || cli(&proxy, "show table").contains("used:0").then_some(()));
        assert_eq!(proxy.ask(&get("/")).text(), "1");
        proxy.finish(());
    });
}

/// Plays the same to ours, with each driver, and to the reference where there is one.
fn each_program(text: &str, play: impl Fn(&Proxy)) {
    let setup = || Setup::http(text).global("stats socket <@dir>/sock level admin");
    let play = |proxy: Proxy| {
        play(&proxy);
        proxy.finish(());
    };
    each_driver(|io| play(setup().start(io)));
    if let Some(reference) = reference() {
        play(setup().program(&reference).start("epoll"));
    }
}

/// The keys of a table, as `show table` has them.
fn keys(proxy: &Proxy, table: &str) -> Vec<String> {
    let dump = cli(proxy, &format!("show table {table}"));
    let key = |line: &str| Some(line.split_once("key=")?.1.split_once(' ')?.0.to_owned());
    dump.lines().filter_map(key).collect()
}

/// Sentences of section 11.1 on `type`: texts and blocks are cut to `len`, 32 when nothing is said (texts in fact to 31), blocks are
/// filled with zeros, and only the rest is compared.
#[test]
fn keys_are_cut_and_filled() {
    let text = "backend s\nstick-table type string len 3 size 10 store gpc0\n\
                backend d\nstick-table type string size 10 store gpc0\n\
                backend b\nstick-table type binary len 4 size 10 store gpc0\n\
                backend e\nstick-table type binary size 10 store gpc0\n\
                frontend fe\nbind <@fe>\nhttp-request return status 200 hdr n \"%[req.hdr(k),table_inc_gpc0(s)] \
                %[req.hdr(k),table_inc_gpc0(d)] %[req.hdr(k),table_inc_gpc0(b)] %[req.hdr(k),table_inc_gpc0(e)]\"\n";
    each_program(text, |proxy| {
        let ask = |key: &str| proxy.ask(&format!("GET / HTTP/1.1\r\nHost: h\r\nK: {key}\r\n\r\n")).field("n");
        let long = "0123456789".repeat(4);
        assert_eq!(ask(&long), "1 1 1 1");
        assert_eq!(ask(&long[..33]), "2 2 2 2");
        assert_eq!(ask(&long[..32]), "3 3 3 3");
        assert_eq!(ask(&long[..31]), "4 4 4 1");
        assert_eq!(ask(&long[..30]), "5 1 5 1");
        assert_eq!(ask("ab"), "1 1 1 1");
        let sorted = |table| {
            let mut keys = keys(proxy, table);
            keys.sort();
            keys
        };
        assert_eq!(sorted("s"), ["012", "ab"]);
        assert_eq!(sorted("d"), [&long[..30], &long[..31], "ab"]);
        assert_eq!(sorted("b"), ["30313233", "61620000"]);
        assert_eq!(sorted("e")[3], format!("6162{:060}", 0));
    });
}

/// Sentences of section 11 on deadlines: what changes an entry, tracks it or matches it for stickiness puts its deadline off, and
/// what only looks does not.
#[test]
fn deadlines_are_put_off_by_use_only() {
    let text = "backend t\nstick-table type string size 10 expire 1m store gpc0,gpt0,http_req_cnt\n\
                backend be\nstick match str(k) table t\nserver s 192.0.2.1:1 disabled\n\
                frontend fe\nbind <@fe>\nhttp-request track-sc0 str(k) table t if { path /track }\n\
                http-request set-var(txn.n) str(k),table_inc_gpc0(t) if { path /inc }\n\
                http-request set-var(txn.n) str(k),table_clr_gpc0(t) if { path /clr }\n\
                http-request set-var(txn.n) str(k),table_gpc0(t) if { path /value }\n\
                http-request set-var(txn.n) str(k),in_table(t) if { path /in }\n\
                http-request set-var(txn.n) str(k),table_expire(t) if { path /expire }\n\
                http-request set-var(txn.n) str(k),table_idle(t) if { path /idle }\n\
                use_backend be if { path /stick }\nhttp-request return status 200 if !{ path /stick }\n";
    each_program(text, |proxy| {
        let left = || -> u32 {
            let dump = cli(proxy, "show table t key k");
            let left = dump.split_once("exp=").expect("it is there").1.split_once(' ').expect("a number").0;
            left.parse().expect("a number")
        };
        cli(proxy, "set table t key k data.gpc0 1");
        for (path, puts_off) in [
            ("/track", true),
            ("/inc", true),
            ("/clr", true),
            ("/stick", true),
            ("/value", false),
            ("/in", false),
            ("/expire", false),
            ("/idle", false),
        ] {
            let first = left();
            let before = eventually("time passes", || Some(left()).filter(|now| *now + 20 < first));
            let status = proxy.ask(&get(path)).status;
            assert_eq!(status, if path == "/stick" { 503 } else { 200 });
            assert_eq!(left() > before, puts_off, "{path}");
        }
    });
}

/// Sentences of section 11.1 on `store`, `size` and `nopurge`: what is not stored does not match, arrays stand for the counters of
/// their first elements, a full table refuses or gives up another entry.
#[test]
fn what_is_stored_and_for_how_long() {
    let text = "backend t\nstick-table type string size 10 store gpt(1),gpc(2),gpc_rate(2,1h)\n\
                backend keeps\nstick-table type string size 2 expire 1h nopurge store gpc0\n\
                backend gives\nstick-table type string size 2 expire 1h store gpc0\n\
                frontend fe\nbind <@fe>\nhttp-request track-sc0 path table t\n\
                http-request track-sc1 path table keeps\nhttp-request track-sc2 path table gives\n\
                http-request sc-inc-gpc0(0)\nhttp-request sc-inc-gpc1(0)\nhttp-request sc-inc-gpc1(0)\n\
                http-request sc-set-gpt0(0) 5\n\
                http-request return status 200 hdr n \"%[sc0_get_gpc0] %[sc0_get_gpc1] %[sc0_get_gpt0] %[sc0_gpc0_rate] \
                %[sc0_gpc1_rate] [%[sc0_conn_cnt]] %[sc1_tracked] %[sc2_tracked]\" unless { sc0_conn_cnt ge 0 }\n";
    each_program(text, |proxy| {
        let ask = |path: &str| proxy.ask(&get(path)).field("n");
        assert_eq!([ask("/a"), ask("/b")], ["1 2 5 1 2 [] 1 1"; 2]);
        assert_eq!(ask("/c"), "1 2 5 1 2 [] 0 1");
        let sorted = |table| {
            let mut keys = keys(proxy, table);
            keys.sort();
            keys
        };
        assert_eq!(sorted("keeps"), ["/a", "/b"]);
        let given = sorted("gives");
        assert!(given.len() == 2 && given.contains(&"/c".to_owned()), "{given:?}");
    });
}

/// A generator of numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

const KINDS: [&str; 23] = [
    "server_id",
    "gpt0",
    "gpc0",
    "gpc1",
    "gpc0_rate",
    "gpc1_rate",
    "conn_cnt",
    "conn_cur",
    "conn_rate",
    "sess_cnt",
    "sess_rate",
    "http_req_cnt",
    "http_req_rate",
    "http_err_cnt",
    "http_err_rate",
    "http_fail_cnt",
    "http_fail_rate",
    "bytes_in_cnt",
    "bytes_in_rate",
    "bytes_out_cnt",
    "bytes_out_rate",
    "glitch_cnt",
    "glitch_rate",
];

/// Some commands that set, clear and show entries of the tables `v4`, `v6`, `i`, `s` and `a`.
fn random_commands(random: &mut Random) -> String {
    let mut commands = Vec::new();
    for _ in 0..1 + random.below(12) {
        let (table, key) = match random.below(5) {
            0 => ("v4", format!("10.0.0.{}", random.below(6))),
            1 => ("v6", ["::1", "fe80::1", "1.2.3.4", "2001:db8::42"][random.below(4) as usize].to_owned()),
            2 => (
                "i",
                ["0", "7", "-1", "4294967296", "12x", "99999999999"][random.below(6) as usize].to_owned(),
            ),
            3 => (
                "s",
                ["a", "abcdefghij", "abcdefghijk", "x=y", "#", "."][random.below(6) as usize].to_owned(),
            ),
            _ => ("a", format!("10.0.0.{}", random.below(6))),
        };
        // A `set` that is wrong somewhere changes nothing here, and some of it in the reference.
        let kind = |random: &mut Random, elements: u64| match table {
            "a" => {
                let array = ["gpc", "gpt", "gpc_rate"][random.below(3) as usize];
                format!("{array}[{}]", random.below(elements))
            }
            _ => KINDS[random.below(KINDS.len() as u64) as usize].to_owned(),
        };
        let value = |random: &mut Random| {
            ["0", "1", "2", "-1", "1000", "4294967295", "4294967296", "99999999999", "x", ""]
                [random.below(10) as usize]
        };
        commands.push(match random.below(8) {
            0 => format!("clear table {table} key {key}"),
            1 => {
                let operator = ["eq", "ne", "le", "ge", "lt", "gt", "zz"][random.below(7) as usize];
                format!("show table {table} data.{} {operator} {}", kind(random, 4), value(random))
            }
            2 => format!("show table {table} key {key}"),
            3 => format!("clear table {table} data.{} gt 1", kind(random, 4)),
            _ => {
                let data: Vec<String> = (0..random.below(4))
                    .map(|_| format!("data.{} {}", kind(random, 3), random.below(5000)))
                    .collect();
                format!("set table {table} key {key} {}", data.join(" "))
            }
        });
    }
    for table in ["v4", "v6", "i", "s", "a"] {
        commands.push(format!("show table {table}"));
        commands.push(format!("clear table {table}"));
    }
    commands.join(";")
}

/// An answer without pointers and times, the entries of each table in order.
fn comparable(answer: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut entries = 0;
    for line in answer.lines() {
        let words: Vec<&str> =
            line.split(' ').filter(|w| !w.starts_with("0x") && !w.starts_with("exp=")).collect();
        lines.push(words.join(" "));
        entries = if line.starts_with("0x") { entries + 1 } else { 0 };
        let from = lines.len() - entries;
        lines[from..].sort();
    }
    lines
}

/// Random commands have the answers of the reference. `TABLE_SEQUENCES` says how many lines of commands are tried.
#[test]
fn commands_are_answered_as_by_the_reference() {
    let Some(reference) = reference() else { return };
    let rates = "gpc0_rate(1h),gpc1_rate(1h),conn_rate(1h),sess_rate(1h),http_req_rate(1h),http_err_rate(1h),\
                 http_fail_rate(1h),bytes_in_rate(1h),bytes_out_rate(1h),glitch_rate(1h)";
    let others = "server_id,gpt0,gpc0,gpc1,conn_cnt,conn_cur,sess_cnt,http_req_cnt,http_err_cnt,http_fail_cnt,\
                  bytes_in_cnt,bytes_out_cnt,glitch_cnt";
    let table = |name: &str, kind: &str, data: &str| {
        format!("backend {name}\nstick-table type {kind} size 100 expire 1h store {data}\n")
    };
    let all = format!("{rates},{others}");
    let text = table("v4", "ip", &all)
        + &table("v6", "ipv6", &all)
        + &table("i", "integer", &all)
        + &table("s", "string len 10", &all)
        + &table("a", "ip", "gpc(3),gpt(4),gpc_rate(3,1h)")
        + "frontend fe\nbind <@fe>\n";
    let setup = || Setup::http(&text).global("stats socket <@dir>/sock level admin");
    let theirs = setup().program(&reference).start("epoll");
    let ours = setup().start("epoll");
    let sequences = std::env::var("TABLE_SEQUENCES").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    for seed in 0..sequences {
        let commands = random_commands(&mut Random(seed));
        let (own, other) = (cli(&ours, &commands), cli(&theirs, &commands));
        assert_eq!(comparable(&own), comparable(&other), "{seed}: {}", commands.replace(';', "\n"));
    }
    ours.finish(());
    theirs.finish(());
}

/// Presets with fetches of "the" frontend and "the" backend are about those of whoever inherits them.
#[test]
fn presets_count_on_their_heirs() {
    each_driver(|io| {
        let proxy = Setup::http(
            "defaults front\nmode http\ntimeout client 20s\nhttp-request set-var(txn.n) fe_conn\n\
             defaults back\nmode http\ntimeout server 20s\ntimeout connect 20s\nhttp-request set-var(txn.b) be_conn\n\
             http-request return status 200 hdr n \"%[var(txn.n)] %[var(txn.b)]\"\n\
             frontend one from front\nbind <@one>\ndefault_backend be\n\
             frontend two from front\nbind <@two>\ndefault_backend be\nbackend be from back\n",
        )
        .start(io);
        let mut first = Conn::connect(proxy.addr("one"));
        let ask = |conn: &mut Conn| {
            conn.send(get("/"));
            conn.response().field("n")
        };
        assert_eq!(ask(&mut first), "1 1");
        assert_eq!(ask(&mut Conn::connect(proxy.addr("one"))), "2 1");
        assert_eq!(ask(&mut Conn::connect(proxy.addr("two"))), "1 1");
        drop(first);
        proxy.finish(());
    });
}

/// `top <n> by data.<type>`: the largest values first, among those that a filter lets through.
#[test]
fn the_largest_entries() {
    each_driver(|io| {
        let proxy = start(
            io,
            "backend t\nstick-table type integer size 100k store gpc0,gpt0\n\
             backend u\nstick-table type integer size 100 store gpc0\nfrontend fe\nbind <@fe>\n",
        );
        let set = |n: u32| format!("set table t key {n} data.gpc0 {} data.gpt0 {};", n * 7919 % 2003, n % 2);
        for from in (0..2000).step_by(100) {
            cli(&proxy, &(from..from + 100).map(set).collect::<String>());
        }
        let shown = |command: &str| -> Vec<String> {
            let dump = cli(&proxy, command);
            dump.lines()
                .filter_map(|l| l.split("gpc0=").nth(1))
                .map(|v| v.split(' ').next().unwrap().to_owned())
                .collect()
        };
        let mut all: Vec<u32> = (0..2000).map(|n| n * 7919 % 2003).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        let wanted: Vec<String> = all[..5].iter().map(u32::to_string).collect();
        assert_eq!(shown("show table t top 5 by data.gpc0"), wanted);
        assert_eq!(shown("show table t top 5 by gpc0"), wanted);
        let mut odd: Vec<u32> = (0..2000).filter(|n| n % 2 == 1).map(|n| n * 7919 % 2003).collect();
        odd.sort_unstable_by(|a, b| b.cmp(a));
        let wanted: Vec<String> = odd[..3].iter().map(u32::to_string).collect();
        assert_eq!(shown("show table t data.gpt0 eq 1 top 3 by data.gpc0"), wanted);
        assert_eq!(shown("show table u top 3 by data.gpc0"), Vec::<String>::new());
        for wrong in ["top", "top 0 by data.gpc0", "top 5", "top 5 by", "top 5000 by data.gpc0"] {
            let answer = cli(&proxy, &format!("show table t {wrong}"));
            assert!(answer.starts_with("'top' expects"), "{wrong}: {answer}");
        }
        assert!(cli(&proxy, "show table t top 5 by data.conn_cnt").starts_with("Data type not stored"));
        proxy.finish(());
    });
}
