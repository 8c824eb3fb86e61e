//! Backends that are added while the process runs and take rules and pages from a preset (`add backend ... from`).

mod support;

use support::{Conn, Proxy, Response, Server, Setup, each_driver, reference};

/// What the program's CLI answers.
fn cli(proxy: &Proxy, line: &str) -> String {
    proxy.tell("cli", line).trim().to_owned()
}

/// Presets, who inherits them in the file, and a frontend whose requests name their backend.
const TEXT: &str = "global
  stats socket <@dir>/cli level admin
  nbthread 2
userlist people
  user somebody insecure-password secret
defaults ruled
  mode http
  timeout connect 5s
  timeout server 5s
  acl barred path_beg /barred
  tcp-request content set-var(txn.seen) int(7)
  tcp-response content set-var(txn.answered) int(8)
  http-request deny deny_status 429 if barred
  http-request auth realm r if { path_beg /private } !{ http_auth(people) }
  http-request set-header X-Rules \"%[be_name] %[nbsrv(usual)] %[path,map(<@dir>/words,none)] %[var(txn.seen)]\"
  http-response set-header X-Answered %[var(txn.answered)]
  http-after-response set-header X-After %[be_name]
defaults paged
  mode http
  timeout connect 5s
  timeout server 5s
  stats uri /page
  stats auth somebody:secret
  http-after-response set-header X-After paged
defaults early
  mode tcp
  tcp-request connection reject if { src 192.0.2.1 }
defaults fronts
  mode http
  timeout client 5s
  http-request set-header X-Front %[be_name]
frontend other from fronts
  bind <@other>
defaults plain
  mode http
  timeout client 5s
  timeout connect 5s
  timeout server 5s
frontend fe from plain
  bind <@fe>
  use_backend %[req.hdr(B)] if { req.hdr(B) -m found }
  default_backend usual
";

/// With more lines for `global`.
fn setup_with(global: &str, server: &Server) -> Setup {
    let text = format!("{TEXT}backend usual from plain\n  server a {}\n", server.addr);
    Setup::file(&text.replacen("global\n", &format!("global\n{global}"), 1))
        .file_beside("words", "/known word\n")
}

fn setup(server: &Server) -> Setup {
    setup_with("", server)
}

/// A server that answers with what rules said of the request.
fn server() -> Server {
    Server::http(|request| support::ok(&request.head.field("x-rules")))
}

const REGISTERED: &str = "New backend registered.";

/// A backend that serves.
fn add(proxy: &Proxy, name: &str, preset: &str, server: &Server) {
    assert_eq!(cli(proxy, &format!("add backend {name} from {preset}")), REGISTERED);
    assert_eq!(cli(proxy, &format!("add server {name}/s {}", server.addr)), "New server registered.");
    assert_eq!(cli(proxy, &format!("enable server {name}/s")), "");
    assert_eq!(cli(proxy, &format!("publish backend {name}")), "Backend published.");
}

fn remove(proxy: &Proxy, name: &str) {
    cli(proxy, &format!("unpublish backend {name}; disable server {name}/s"));
    assert_eq!(cli(proxy, &format!("wait 20s srv-removable {name}/s")), "Done.");
    cli(proxy, &format!("del server {name}/s"));
    assert_eq!(cli(proxy, &format!("wait 20s be-removable {name}")), "Done.");
    let said = cli(proxy, &format!("del backend {name}"));
    assert!(said.ends_with("Backend deleted."), "{said}");
}

fn ask(conn: &mut Conn, backend: &str, path: &str) -> Response {
    conn.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\nB: {backend}\r\n\r\n"));
    conn.response()
}

/// Plays the same to this program with each driver, and to the reference.
fn each_program(play: impl Fn(&Proxy, &Server)) {
    let server = server();
    each_driver(|io| play(&setup(&server).start(io), &server));
    if let Some(reference) = reference() {
        play(&setup(&server).program(&reference).start("epoll"), &server);
    }
}

#[test]
fn a_backend_follows_the_rules_of_its_preset() {
    each_program(|proxy, server| {
        let mut client = Conn::connect(proxy.addr("fe"));
        add(proxy, "first", "ruled", server);
        add(proxy, "second", "ruled", server);
        for name in ["first", "second"] {
            let response = ask(&mut client, name, "/known");
            assert_eq!(response.text(), format!("{name} 1 word 7"));
            assert_eq!((response.field("x-answered"), response.field("x-after")), ("8".into(), name.into()));
            assert_eq!(ask(&mut client, name, "/unknown").text(), format!("{name} 1 none 7"));
            assert_eq!(ask(&mut client, name, "/barred").status, 429);
            assert_eq!(ask(&mut client, name, "/private").status, 401);
        }
        // Rules of HTTP are none of a backend that speaks TCP, and the others are.
        assert_eq!(cli(proxy, "add backend plainer from ruled mode tcp"), REGISTERED);
        // What is changed at run time holds for it, too.
        cli(proxy, &format!("set map {} /known other", proxy.path("words").display()));
        assert_eq!(ask(&mut client, "second", "/known").text(), "second 1 other 7");
        remove(proxy, "first");
        assert_eq!(ask(&mut client, "second", "/known").text(), "second 1 other 7");
        remove(proxy, "second");
        assert_eq!(
            cli(proxy, "unpublish backend usual; del backend usual").lines().last(),
            Some(
                "This proxy cannot be removed at runtime due to other configuration elements pointing to it."
            )
        );
    });
}

#[test]
fn a_page_of_a_preset_asks_for_its_accounts() {
    each_program(|proxy, server| {
        let mut client = Conn::connect(proxy.addr("fe"));
        add(proxy, "pages", "paged", server);
        let refused = ask(&mut client, "pages", "/page");
        assert_eq!((refused.status, refused.field("x-after")), (401, "paged".into()));
        client = Conn::connect(proxy.addr("fe"));
        client.send(
            "GET /page HTTP/1.1\r\nHost: h\r\nB: pages\r\nAuthorization: Basic c29tZWJvZHk6c2VjcmV0\r\n\r\n",
        );
        assert_eq!(client.response().status, 200);
    });
}

#[test]
fn rules_that_no_backend_may_inherit_are_refused() {
    each_program(|proxy, _| {
        for (preset, why) in [
            (
                "fronts",
                "frontends and backends cannot inherit from the same defaults section if it defines TCP/HTTP rules (defaults section at ",
            ),
            (
                "early",
                "a backend section cannot inherit from a defaults section defining 'tcp-request connection' or 'tcp-request session' rules (defaults section at ",
            ),
        ] {
            let said = cli(proxy, &format!("add backend b from {preset}"));
            assert!(said.starts_with(&format!("Error during backend creation : {why}")), "{said}");
        }
    });
}

/// A page that is taken from a section by its name. (The reference of November 2026 dies of this command.)
#[test]
fn pages_of_a_section_are_found() {
    let server = server();
    each_driver(|io| {
        let text = format!(
            "{TEXT}http-errors own\n  errorfile 503 <@dir>/page\ndefaults with\n  mode http\n  timeout connect 5s\n  timeout server 5s\n  \
             errorfiles own\nbackend usual from plain\n  server a {}\n",
            server.addr
        );
        let proxy = Setup::file(&text)
            .file_beside("words", "")
            .file_beside("page", "HTTP/1.1 503 Own\r\nContent-Length: 3\r\n\r\nown")
            .start(io);
        assert_eq!(
            cli(&proxy, "add backend b from with; publish backend b"),
            format!("{REGISTERED}\n\nBackend published.")
        );
        assert_eq!(ask(&mut Conn::connect(proxy.addr("fe")), "b", "/").text(), "own");
    });
}

/// Who is there follows the preset of the new file; one with rules may not go while a backend has it.
#[test]
fn a_reload_brings_the_rules_of_the_new_file() {
    each_driver(|io| {
        let server = server();
        let mut proxy = setup(&server).start(io);
        let mut client = Conn::connect(proxy.addr("fe"));
        add(&proxy, "b", "ruled", &server);
        let row = |proxy: &Proxy| cli(proxy, "show servers state b");
        let before = row(&proxy);
        // Another list comes before the one that rules ask for, and another number of a header.
        proxy.edit("userlist people", "userlist others\n  user nobody insecure-password n\nuserlist people");
        proxy.edit("deny_status 429", "deny_status 403");
        let said = cli(&proxy, "reload");
        assert!(said.contains("Success=1") && said.contains("kept: backend b, added at run time"), "{said}");
        assert_eq!(row(&proxy), before, "{io}");
        assert_eq!(ask(&mut client, "b", "/barred").status, 403);
        assert_eq!(ask(&mut client, "b", "/known").text(), "b 1 word 7");
        client.send(
            "GET /private HTTP/1.1\r\nHost: h\r\nB: b\r\nAuthorization: Basic c29tZWJvZHk6c2VjcmV0\r\n\r\n",
        );
        assert_eq!(client.response().status, 200, "{io}");
        proxy.edit("defaults ruled", "defaults renamed");
        let said = cli(&proxy, "reload");
        assert!(said.contains("Success=0"), "{said}");
        let why =
            "backend 'b', which was added at run time, cannot stay : Cannot find default proxy 'ruled'.";
        assert!(said.contains(why), "{said}");
        assert_eq!(ask(&mut client, "b", "/barred").status, 403);
        let said = cli(&proxy, "reload force");
        assert!(said.contains("Success=1") && said.contains("dropped: backend b"), "{said}");
        assert_eq!(ask(&mut client, "b", "/barred").status, 200, "{io}: the usual one serves");
    });
}

/// What it is goes into the file, and backends that come and go leave nothing behind.
#[test]
fn it_is_written_down_and_forgotten() {
    each_driver(|io| {
        let server = server();
        let proxy = setup_with("  sandbox off\n", &server).start(io);
        let mut client = Conn::connect(proxy.addr("fe"));
        let turns = |client: &mut Conn, count: usize| {
            for turn in 0..count {
                let name = format!("b{}", turn % 3);
                add(&proxy, &name, "ruled", &server);
                assert_eq!(ask(client, &name, "/barred").status, 429);
                remove(&proxy, &name);
            }
        };
        turns(&mut client, 30);
        let before = proxy.resident_kb();
        turns(&mut client, 100);
        let after = proxy.resident_kb();
        assert!(after < before + 1000, "{io}: {before} kB, then {after} kB");
        assert_eq!(cli(&proxy, "reload").lines().next(), Some("Success=1"));
        add(&proxy, "stays", "ruled", &server);
        let lines = format!("backend stays from ruled\n    server s {}", server.addr);
        let shown = cli(&proxy, "show config");
        assert!(shown.contains(&lines), "{shown}");
        let said = cli(&proxy, "commit config to cfg");
        assert!(said.starts_with("Success=1"), "{said}");
        // Now it is one of the file's, with the same rules.
        let said = cli(&proxy, "reload");
        assert!(said.starts_with("Success=1") && !said.contains("kept: backend"), "{said}");
        assert_eq!(ask(&mut client, "stays", "/barred").status, 429);
    });
}
