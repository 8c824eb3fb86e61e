//! `thalweg explain` and `thalweg test`: what they say is what the running program does.

mod support;

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use support::tls::Authority;
use support::{Conn, Directory, Proxy, Request, Server, Setup, each_driver, eventually, ok, program};

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A configuration in a directory of its own.
struct Site {
    _directory: Directory,
    path: String,
}

impl Site {
    fn new(body: &str) -> Site {
        let directory = Directory::new();
        let path = directory.0.join("site.cfg").to_str().unwrap().to_owned();
        let presets = "defaults\n  mode http\n  timeout client 5s\n  timeout server 6s\n  timeout connect 7s\n  timeout tarpit 20s\n";
        fs::write(&path, format!("{presets}{body}")).unwrap();
        Site { _directory: directory, path }
    }

    fn explain(&self, arguments: &[&str]) -> Value {
        let output = run(&[&["explain", "--format", "json", "-f", &self.path], arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output.stdout)))
    }
}

#[test]
fn examples_pass_their_tests() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut tested = 0;
    for entry in fs::read_dir(&examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            let cfg = path.with_extension("cfg");
            let output = run(&["test", "-f", cfg.to_str().unwrap(), path.to_str().unwrap()]);
            let said = text(&output.stdout) + &text(&output.stderr);
            assert!(output.status.success(), "{}: {said}", path.display());
            tested += 1;
        }
    }
    assert!(tested >= 3);
}

/// The file of docs/getting-started.md is valid, and passes the tests that stand below it.
#[test]
fn the_first_steps_work() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/getting-started.md");
    let page = fs::read_to_string(page).unwrap();
    let directory = Directory::new();
    let block = |name: &str| {
        let from = page.find(&format!("    # {name}\n")).unwrap();
        let lines = page[from..].lines().take_while(|line| line.is_empty() || line.starts_with("    "));
        let lines = lines.take_while(|line| !line.starts_with("    thalweg "));
        let text: String =
            lines.map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(""))).collect();
        let path = directory.0.join(name);
        fs::write(&path, text.trim_end().to_owned() + "\n").unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (cfg, tests) = (block("site.cfg"), block("site.toml"));
    for arguments in [
        vec!["test", "-f", &cfg, &tests],
        vec!["-c", "-f", &cfg],
        vec!["fmt", "--check", &cfg],
        vec!["lint", &cfg],
    ] {
        let output = run(&arguments);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    }
}

#[test]
fn each_rule_is_told_with_its_values_and_changes() {
    let site = Site::new(
        "frontend www
  bind 127.0.0.1:8080
  acl api path_beg /api /v1
  acl known src 10.0.0.0/8
  http-request set-var(txn.who) src
  http-request set-header X-Who %[var(txn.who)] if api !known
  http-request del-header X-Fake
  use_backend nowhere if known
  use_backend api if api { method GET HEAD }
backend nowhere
backend api
  balance leastconn
  cookie SRV insert
  http-response set-header X-Via lb
  server a 192.0.2.1:80 cookie a
  server b 192.0.2.2:80 cookie b
",
    );
    let ask = [
        "GET http://www.example.com:8080/api/x?y=1",
        "--from",
        "198.51.100.7",
        "-H",
        "X-Fake: 1",
        "-H",
        "Cookie: SRV=b",
    ];
    let told = site.explain(&ask);
    assert_eq!(told["bind"]["address"], "127.0.0.1:8080");
    assert_eq!(told["frontend"], "www");
    let events = told["events"].as_array().unwrap();
    let seen: Vec<String> = events
        .iter()
        .map(|e| {
            format!(
                "{} {} {} {}",
                e["line"],
                e["ruleset"].as_str().unwrap(),
                e["action"].as_str().unwrap(),
                e["applies"]
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            "11 http-request set-var(txn.who) null",
            "12 http-request set-header true",
            "13 http-request del-header null",
            "14 use_backend nowhere false",
            "15 use_backend api true",
            "20 http-response set-header null",
        ]
    );
    assert_eq!(events[0]["changes"][0], "variable txn.who: 198.51.100.7");
    let terms = &events[1]["terms"];
    assert_eq!((&terms[0]["name"], &terms[0]["holds"]), (&Value::from("api"), &Value::from(true)));
    assert_eq!(terms[0]["values"][0]["value"], "/api/x");
    assert_eq!((&terms[1]["negated"], &terms[1]["holds"]), (&Value::from(true), &Value::from(false)));
    assert_eq!(events[1]["changes"][0], "request field x-who: 198.51.100.7");
    assert_eq!(events[2]["changes"][0], "request field x-fake is gone");
    assert_eq!(events[4]["terms"][1]["name"], Value::Null);
    assert_eq!(events[5]["changes"][0], "response field x-via: lb");
    assert_eq!(told["backends"], Value::from(vec!["api"]));
    assert_eq!(told["servers"][0]["name"], "api/b");
    assert_eq!(told["servers"][0]["reason"], "the request has its cookie 'b'");
    assert_eq!(told["sent"]["line"], "GET /api/x?y=1 HTTP/1.1");
    assert_eq!(told["received"]["line"], "HTTP/1.1 200 Answer");
    let timeouts = told["timeouts"].as_array().unwrap();
    assert!(timeouts.iter().any(|t| t["timeout"] == "connect" && t["proxy"] == "api" && t["ms"] == 7000));
    // People read the same.
    let output = run(&[&["explain", "-f", &site.path], &ask[..]].concat());
    let said = text(&output.stdout);
    for line in [
        "  use_backend api  applies\n        api: true path_beg = \"/api/x\" matches\n        { ... }: true method = \"GET\" matches\n",
        "backend   api\nserver    api/b  (the request has its cookie 'b')\n",
        "sent      GET /api/x?y=1 HTTP/1.1\n",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
}

/// Hashes, and what stick tables say, are told before the server.
#[test]
fn what_leads_to_a_server_is_told() {
    let site = Site::new(
        "frontend fe\n  bind 127.0.0.1:8080\n  default_backend be\n\
         backend be\n  balance hdr(x-key)\n  stick-table type ip size 10\n  stick on src\n\
         \x20 server s1 127.0.0.1:8081\n  server s2 127.0.0.1:8082\n",
    );
    let told = |arguments: &[&str]| {
        let all =
            site.explain(&[&["--from", "192.0.2.7"], arguments, &["GET http://127.0.0.1:8080/"]].concat());
        let of = |ruleset: &str| {
            let events = all["events"].as_array().unwrap().iter();
            let found = events.filter(|event| event["ruleset"] == ruleset);
            found.map(|event| event["action"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        (of("stick"), of("balance"), all["servers"][0]["reason"].as_str().unwrap_or("").to_owned())
    };
    let (stick, balance, reason) = told(&["-H", "x-key: a"]);
    assert_eq!(stick, ["192.0.2.7 in table be names no server"]);
    assert!(balance.len() == 1 && balance[0].starts_with("hdr: hash "), "{balance:?}");
    assert_eq!(reason, "hdr chose it among 2");
    assert_eq!(told(&["-H", "x-key: a"]).1, balance, "a hash is always the same");
    assert_ne!(told(&["-H", "x-key: b"]).1, balance);
    assert_eq!(told(&[]).1, ["hdr: nothing to hash"]);
}

#[test]
fn time_is_simulated_and_ends_are_told() {
    let site = Site::new(
        "frontend www
  bind :8080
  http-request tarpit deny_status 429 if { path /slow }
  http-request reject if { path /gone }
  http-request wait-for-body time 3s if { method POST }
  http-request deny if { req.body -m sub bad }
  http-request redirect scheme https code 308 if { path /up }
  default_backend b
frontend inner
  mode http
  bind 127.0.0.1:9000
  http-request set-header X-Inner yes
  default_backend c
backend b
  server s 127.0.0.1:9000
backend c
  server unknown name.invalid:80 proto h2
",
    );
    let slow = site.explain(&["GET http://x/slow"]);
    assert_eq!(slow["received"]["line"], "HTTP/1.1 429 Too Many Requests");
    assert_eq!(slow["took_ms"].as_u64().unwrap() / 1000, 20);
    assert_eq!(slow["events"][0]["outcome"], "held back, then refused");
    assert_eq!(site.explain(&["GET http://x/gone"])["received"], Value::Null);
    let up = site.explain(&["GET http://www.example.com/up?x"]);
    assert_eq!(up["received"]["line"], "HTTP/1.1 308 Permanent Redirect");
    let body = site._directory.0.join("body");
    fs::write(&body, "a bad word").unwrap();
    let bad = site.explain(&["POST http://x/", "--body", body.to_str().unwrap()]);
    assert_eq!(bad["received"]["line"], "HTTP/1.1 403 Forbidden");
    // A server that is a frontend of the same file, and one that nobody can resolve.
    let chain = site.explain(&["GET http://x/", "--status", "404", "--answer-header", "X-A: b"]);
    assert_eq!(chain["backends"], Value::from(vec!["b", "c"]));
    // The last one speaks HTTP/2, where answers have no words.
    assert_eq!(chain["received"]["line"], "HTTP/1.1 404 Not Found");
    assert!(chain["sent"]["fields"].to_string().contains("[\"x-inner\",\"yes\"]"), "{chain}");
    // The bind can be named.
    assert_eq!(site.explain(&["GET http://x/", "--to", "inner"])["frontend"], "inner");
    let unknown = run(&["explain", "-f", &site.path, "--to", "nobody", "GET http://x/"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("no frontend, bind or address is called 'nobody'"));
}

#[test]
fn tls_is_spoken() {
    let authority = Authority::new("Root");
    let certificate = authority.issue("www.example.com");
    let site = Site::new(&format!(
        "frontend www
  bind :80
  bind :443 ssl crt {certificate}
  http-request redirect scheme https unless {{ ssl_fc }}
  http-request set-header X-Name %[ssl_fc_sni]
  default_backend b
backend b
  server s 192.0.2.1:443 ssl verify required ca-file {} alpn h2,http/1.1 send-proxy-v2
  http-response set-header X-Seen %[ssl_bc],%[ssl_bc_protocol],%[ssl_bc_alpn]
",
        authority.path("ca.pem")
    ));
    let plain = site.explain(&["GET http://www.example.com/a"]);
    assert_eq!(plain["received"]["line"], "HTTP/1.1 302 Found");
    let secure = site.explain(&["GET https://www.example.com/a"]);
    assert_eq!(secure["bind"]["address"], "127.0.0.1:443 (TLS)");
    assert!(secure["sent"]["fields"].to_string().contains("[\"x-name\",\"www.example.com\"]"), "{secure}");
    assert_eq!(secure["received"]["line"], "HTTP/1.1 200 OK");
    assert!(secure["received"]["fields"].to_string().contains("[\"x-seen\",\"1,TLSv1.3,h2\"]"), "{secure}");
}

/// HTTP/2 is spoken with who speaks it: by a client that is told to, to a bind that speaks nothing else, and to servers.
#[test]
fn http_2_is_spoken() {
    let authority = Authority::new("Root");
    let certificate = authority.issue("www.example.com");
    let site = Site::new(&format!(
        "frontend www
  bind :80
  bind :81 proto h2
  bind :443 ssl crt {certificate} alpn h2,http/1.1
  bind :444 ssl crt {certificate} alpn http/1.1
  http-request set-header X-Version %[req.ver]/%[fc_http_major]/%[ssl_fc_alpn]
  http-request return status 200 if {{ path /big }}
  use_backend old if {{ path_beg /old }}
  default_backend new
backend new
  http-response set-header X-Server %[bc_http_major]
  server s 192.0.2.1:80 proto h2
backend old
  http-response set-header X-Server %[bc_http_major]
  server s 192.0.2.1:81
"
    ));
    let has = |message: &Value, field: &str| message["fields"].to_string().contains(field);
    for (request, arguments, version, server) in [
        ("http://www.example.com/a", &["--http", "2"][..], "2.0/2/", "2"),
        ("http://www.example.com/a", &[], "1.1/1/", "2"),
        ("http://www.example.com/old", &["--http", "2"], "2.0/2/", "1"),
        ("http://www.example.com:81/a", &[], "2.0/2/", "2"),
        ("https://www.example.com/old", &["--http", "2"], "2.0/2/h2", "1"),
        ("https://www.example.com/old", &["--http", "1"], "1.1/1/", "1"),
    ] {
        let request = format!("GET {request}");
        let told = site.explain(&[arguments, &[&request]].concat());
        assert!(has(&told["sent"], &format!("[\"x-version\",\"{version}\"]")), "{request}: {told}");
        assert!(has(&told["received"], &format!("[\"x-server\",\"{server}\"]")), "{request}: {told}");
        let client = format!("HTTP/{}", &version[..3]);
        assert!(told["received"]["line"].as_str().is_some_and(|line| line.starts_with(&client)), "{told}");
        let protocol = if server == "2" { "GET /a HTTP/2.0" } else { "GET /old HTTP/1.1" };
        assert_eq!(told["sent"]["line"], protocol, "{request}");
    }
    // Bodies larger than a window.
    let body = format!("{}.body", site.path);
    fs::write(&body, vec![b'x'; 300_000]).unwrap();
    let told = site.explain(&["--http", "2", "--body", &body, "POST http://www.example.com/a"]);
    assert_eq!(told["sent"]["body"].as_str().map(str::len), Some(300_000));
    let refused = run(&["explain", "-f", &site.path, "--http", "2", "GET https://h:444/"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("the bind does not speak HTTP/2"), "{}", text(&refused.stderr));
    // The same of a file of tests.
    let tests = format!("{}.toml", site.path);
    fs::write(
        &tests,
        "[[test]]\nrequest = \"GET http://h/a\"\nhttp = 2\nexpect_sent_headers = [\"x-version: 2.0/2/\"]\nexpect_status = 200\n",
    )
    .unwrap();
    let output = run(&["test", "-f", &site.path, &tests]);
    assert!(output.status.success(), "{}", text(&output.stdout) + &text(&output.stderr));
}

/// The running program sends the same request, and answers with the same status.
#[test]
fn what_is_explained_is_what_happens() {
    let rules = "
  http-request set-var(txn.n) path,length
  http-request set-header X-Len %[var(txn.n)]
  http-request replace-path /old/(.*) /new/\\1
  http-request deny deny_status 410 if { path_end .bak }
  http-request set-query a=%[url_param(b)]&c=d if { url_param(b) -m found }
  http-request add-header X-List %[req.hdr(x-in),upper,bytes(0,3)]
  http-request return status 418 if { hdr_cnt(x-in) gt 2 }
  http-response set-status 202 if { var(txn.n) -m int gt 9 }
  server s <@s>
";
    let requests: [(&str, &[&str]); 6] = [
        ("/old/a", &["X-In: one"]),
        ("/a.bak", &[]),
        ("/q?b=1&x=2", &["X-In: a, b"]),
        ("/many", &["X-In: a", "X-In: b", "X-In: c"]),
        ("/a-long-path/with/parts?x", &["Host: Other.example.com"]),
        ("/", &["Accept: */*", "Cookie: a=b; c=d"]),
    ];
    let site =
        Site::new(&format!("listen www\n  bind 127.0.0.1:8080\n{}", rules.replace("<@s>", "192.0.2.1:80")));
    each_driver(|io| {
        let proxy = Setup::http(&format!("listen www\n  bind <@fe>\n{rules}")).start(io);
        let got: Arc<Mutex<Option<Request>>> = Arc::default();
        let keep = Arc::clone(&got);
        let _server =
            Server::listen(std::net::TcpListener::bind(proxy.addr("s")).unwrap(), move |mut conn, _| {
                while let Some(request) = conn.next_request() {
                    *keep.lock().unwrap() = Some(request);
                    conn.send(ok(""));
                }
            });
        for (path, fields) in requests {
            *got.lock().unwrap() = None;
            let has_host = fields.iter().any(|f| f.starts_with("Host:"));
            let host = if has_host { "" } else { "Host: www.example.com\r\n" };
            let lines: String = fields.iter().map(|f| format!("{f}\r\n")).collect();
            let response = proxy.ask(&format!("GET {path} HTTP/1.1\r\n{host}{lines}\r\n"));
            let url = format!("GET http://www.example.com{path}");
            let mut arguments = vec![url.as_str()];
            fields.iter().for_each(|field| arguments.extend(["-H", field]));
            let told = site.explain(&arguments);
            let status = format!("HTTP/1.1 {} ", response.status);
            assert!(told["received"]["line"].as_str().unwrap().starts_with(&status), "{path}: {told}");
            let sent = got.lock().unwrap().take();
            assert_eq!(sent.is_some(), !told["sent"].is_null(), "{path}");
            if let Some(sent) = sent {
                assert_eq!(told["sent"]["line"], sent.head.line.trim_end(), "{path}");
                let fields: Vec<Value> =
                    sent.head.fields.iter().map(|(n, v)| Value::from(vec![n.as_str(), v.as_str()])).collect();
                assert_eq!(told["sent"]["fields"], Value::from(fields), "{path}");
            }
        }
    });
}

#[test]
fn tests_that_fail_say_why() {
    let site = Site::new(
        "frontend www\n  bind :80\n  http-request set-header X-A b\n  use_backend one if { path /one }\n  default_backend two\n\
         backend one\n  server s 192.0.2.1:80\nbackend two\n  server t 192.0.2.2:80\n",
    );
    let file = site._directory.0.join("tests.toml");
    let path = file.to_str().unwrap();
    let check = |tests: &str, code: i32, expected: &[&str]| {
        fs::write(&file, tests).unwrap();
        let output = run(&["test", "-f", &site.path, path]);
        let said = text(&output.stderr) + &text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{said}");
        for line in expected {
            assert!(said.contains(line), "{line}: {said}");
        }
    };
    check("[[test]] \n# a comment\n[[test]]\n", 2, &["line 1: the test has no 'request'"]);
    check(
        "[[test]]\nname = \"first\"\nrequest = 'GET http://a/one'   # why\nexpect_backend = \"two\"\nexpect_status = 404\n\
         expect_sent_headers = [\"x-a: c\", \"!x-a\", \"x-b: 1\"]\nexpect_server = \"two/t\"\nexpect_headers = [\"!Content-Length\"]\n\
         [[test]]\nrequest = \"GET http://a/else\"\nexpect_server = \"t\"\n",
        1,
        &[
            "tests.toml:1: first: the backend is 'one', not 'two'",
            "first: the status is '200', not '404'",
            "first: the request to the server has 'x-a: b', not 'x-a: c'",
            "first: the request to the server has 'x-a: b'\n",
            "first: the request to the server has no 'x-b'",
            "first: the server is 'one/s', not 'two/t'",
            "first: the answer has 'Content-Length: 0'",
            "1 passed, 1 failed\n",
        ],
    );
    for (tests, expected) in [
        ("x = 1\n", "line 1: '[[test]]' must come first"),
        ("[[test]]\nrequest = \"GET http://a/\n", "line 2: a string has no closing quote"),
        ("[[test]]\nwrong = 1\n", "line 2: 'wrong' is not known"),
        ("[[test]]\nrequest = \"GET http://a/\"\n", "line 1: the test expects nothing"),
        (
            "[[test]]\nrequest = \"GET ftp://a/\"\nexpect_status = 200\n",
            "begins with neither http:// nor https://",
        ),
        ("[[test]]\nheaders = [\"a\"]\n", "line 2: 'a' is not 'name: value'"),
        ("[[test]]\nheaders = [\"a: b\"\n", "line 2: an array on one line ends with ']'"),
    ] {
        check(tests, 2, &[expected]);
    }
}

fn tell(proxy: &Proxy, command: &str) -> String {
    let path = proxy.path("cli");
    let mut cli = Conn::unix(eventually("the CLI listens", || UnixStream::connect(&path).ok()));
    cli.send(format!("{command}\n"));
    cli.rest_text()
}

/// `explain` of a running process knows what became of servers and lists since the start, and changes nothing of them.
#[test]
fn a_running_process_explains_what_it_would_do_now() {
    let file = "global\nstats socket <@dir>/cli level admin\ndefaults\nmode http\ntimeout client 20s\ntimeout connect 20s\n\
                timeout server 20s\nfrontend fe\nbind <@fe>\nacl hidden path_beg -f <@dir>/hidden\nhttp-request deny if hidden\n\
                http-request set-header X-From %[src]\nuse_backend other if { path /other }\ndefault_backend be\n\
                backend be\nbalance first\nserver a 127.0.0.1:9\nserver b 127.0.0.1:9\nserver c 127.0.0.1:9\n\
                backend other\nserver a unresolvable.invalid:9 init-addr none\n";
    each_driver(|io| {
        let proxy = Setup::file(file).file_beside("hidden", "/secret\n").start(io);
        let server = |url: &str| {
            let said = tell(&proxy, &format!("explain --from 192.0.2.7 GET {url}"));
            let line = said
                .lines()
                .find(|line| line.starts_with("server "))
                .unwrap_or_else(|| panic!("{io}: {said}"));
            line.split_whitespace().nth(1).unwrap_or_default().to_owned()
        };
        assert_eq!(server("http://h/"), "be/a", "{io}");
        assert_eq!(server("http://h/secret"), "none", "{io}");
        assert_eq!(server("http://h/hid"), "be/a", "{io}");
        assert_eq!(server("http://h/other"), "none", "a server without an address: {io}");
        let list = proxy.path("hidden");
        tell(&proxy, &format!("add acl {} /hid; disable server be/a", list.display()));
        assert_eq!(server("http://h/hid"), "none", "{io}");
        assert_eq!(server("http://h/"), "be/b", "{io}");
        tell(&proxy, "set weight be/b 0");
        assert_eq!(server("http://h/"), "be/c", "{io}");
        // Numbers of servers and backends that were removed belong to nobody.
        tell(
            &proxy,
            "add server be/d 127.0.0.1:10; enable server be/d; disable server be/b; wait 2s srv-removable be/b",
        );
        tell(&proxy, "del server be/b; disable server be/c");
        assert_eq!(server("http://h/"), "be/d", "{io} {}", tell(&proxy, "show servers state be"));
        let said = tell(&proxy, "explain --format json -H X-From:\\ me --from 192.0.2.7 GET\\ http://h/");
        let json: Value = serde_json::from_str(said.trim()).unwrap_or_else(|e| panic!("{e}: {said}"));
        assert_eq!(json["servers"][0]["name"], "be/d", "{io}");
        assert!(said.contains("request field x-from: me -> 192.0.2.7"), "{io}: {said}");
        let framed = tell(&proxy, "explain --http 2 GET http://h/");
        assert!(framed.contains("answer    HTTP/2.0 200"), "{io}: {framed}");
        // Nothing of it counts, and nothing was sent.
        let counted = tell(&proxy, "show stat");
        let totals = counted.lines().filter(|row| row.starts_with("fe,") || row.starts_with("be,"));
        assert!(
            totals.clone().count() > 3 && totals.clone().all(|row| row.split(',').nth(7) == Some("0")),
            "{io}: {counted}"
        );
        for (command, complaint) in [
            ("explain", "no request was given"),
            ("explain GET", "a request is a method and a URL, not 'GET' alone"),
            ("explain GET /", "'/' begins with neither http:// nor https://"),
            ("explain --from x GET http://h/", "'x' is not an IP address"),
            ("explain --from", "option '--from' expects an address"),
            ("explain --elsewhere", "'--elsewhere' is not known here"),
            ("explain GET http://h/ GET http://i/", "'http://i/' is not known here"),
            ("explain --to nobody GET http://h/", "no frontend, bind or address is called 'nobody'"),
        ] {
            let said = tell(&proxy, command);
            assert!(said.contains(complaint), "{io}: {command} says {said}");
        }
    });
}

/// What stick tables, variables of the process and gauges of a running process say decides as it does there, and stays as it was.
#[test]
fn a_running_process_explains_with_its_tables_and_figures() {
    each_driver(|io| {
        // It never answers.
        let server = Server::start(|mut conn, _| {
            conn.request();
            conn.rest();
        });
        let proxy = Setup::file(&FIGURES.replace("<@srv>", &server.addr.to_string()));
        let mut proxy = proxy.file_beside("map", "").file_beside("list", "").start(io);
        let explain = |from: &str| tell(&proxy, &format!("explain --from {from} GET http://h/"));
        tell(
            &proxy,
            "set table seen key 192.0.2.7 data.http_req_cnt 6; set table seen key 192.0.2.8 data.http_req_cnt 4",
        );
        let before = tell(&proxy, "show table seen");
        let said = explain("192.0.2.7");
        assert!(
            said.contains("sc_http_req_cnt(0) = \"7\" matches") && said.contains("HTTP/1.1 429"),
            "{io}: {said}"
        );
        assert!(explain("192.0.2.8").contains("sc_http_req_cnt(0) = \"5\" matches not"), "{io}");
        assert!(explain("192.0.2.9").contains("sc_http_req_cnt(0) = \"1\" matches not"), "{io}");
        assert_eq!(without_times(&tell(&proxy, "show table seen")), without_times(&before), "{io}");
        assert!(
            said.contains("-> ") && said.contains("/map: '192.0.2.7' would be set to 'seen'"),
            "{io}: {said}"
        );
        assert!(said.contains("/list: '192.0.2.7' would be added"), "{io}: {said}");
        let kept = |of: &str| {
            tell(
                &proxy,
                &format!("show {of} {}", proxy.path(if of == "acl" { "list" } else { "map" }).display()),
            )
        };
        assert_eq!(kept("map").trim().to_owned() + kept("acl").trim(), "", "{io}");
        // A request that waits for its answer is seen: by fetches, and by who chooses a server.
        let mut client = proxy.connect();
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        eventually("the server has it", || (server.accepted() == 1).then_some(()));
        tell(&proxy, "experimental-mode on; set var proc.mode str(busy)");
        let said = explain("192.0.2.9");
        assert!(said.contains("request field x-now: 2,1,1,busy"), "{io}: {said}");
        assert!(said.contains("server    be/b"), "{io}: {said}");
        // A table that its line changed begins empty, and the one of before says nothing any more.
        proxy.edit("type ip size 1k", "type ip size 2k");
        assert!(tell(&proxy, "reload").starts_with("Success=1"), "{io}");
        let said = tell(&proxy, "explain --from 192.0.2.7 GET http://h/");
        assert!(said.contains("sc_http_req_cnt(0) = \"1\" matches not"), "{io}: {said}");
    });
}

const FIGURES: &str = "global
  stats socket <@dir>/cli level admin
defaults
  mode http
  timeout client 20s
  timeout connect 20s
  timeout server 20s
frontend fe
  bind <@fe>
  http-request set-map(<@dir>/map) %[src] seen
  http-request add-acl(<@dir>/list) %[src]
  http-request set-header X-Seen yes if { src,map(<@dir>/map) -m found } { src -f <@dir>/list }
  http-request track-sc0 src table seen
  http-request deny deny_status 429 if { sc_http_req_cnt(0) gt 5 }
  http-request set-header X-Now %[fe_conn],%[srv_conn(be/a)],%[be_sess_rate(be)],%[var(proc.mode)]
  default_backend be
backend be
  balance leastconn
  server a <@srv>
  server b 127.0.0.1:9
backend seen
  stick-table type ip size 1k expire 1h store http_req_cnt,gpc0_rate(10s)
";

/// Rows of `show table` without what changes by itself.
fn without_times(rows: &str) -> Vec<String> {
    let words =
        |row: &str| row.split_whitespace().filter(|w| !w.starts_with("exp=")).collect::<Vec<_>>().join(" ");
    rows.lines().map(words).collect()
}
