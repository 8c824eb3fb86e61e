//! The statistics page: where it is, who may see it, what it shows, and what it lets be changed. The same exchanges are
//! played with the reference where it is installed.

mod support;

use std::collections::BTreeSet;

use support::{Proxy, Response, Server, Setup, each_driver, ok, reference};

fn setup(server: &Server) -> Setup {
    let addr = server.addr;
    Setup::http(&format!(
        "frontend fe\nbind <@fe>\ndescription <b>&\\\"it\\'s\n\
         http-request deny if {{ hdr(x) deny }}\nhttp-request allow if {{ hdr(x) allow }}\n\
         http-response set-header x-rule 1\nhttp-after-response set-header x-after 1\n\
         redirect location /elsewhere if {{ path /old }}\nredirect location /late if {{ hdr(x) late }}\n\
         use_backend guarded if {{ path_beg /guarded }}\nuse_backend accounts if {{ path_beg /accounts }}\n\
         stats uri /own\nstats show-modules\nstats scope open\nstats scope fe\ndefault_backend open\n\
         backend guarded\nstats uri /guarded\nstats scope .\nstats admin if {{ hdr(z) admin }}\n\
         http-request return status 299 if {{ hdr(x) first }}\nredirect location /later if {{ hdr(x) late }}\n\
         stats http-request auth if !{{ hdr(y) -m found }}\nstats http-request deny if {{ hdr(y) no }}\n\
         stats http-request auth realm Guard if {{ hdr(y) realm }}\nserver g1 {addr}\n\
         backend accounts\nstats uri /accounts\nstats auth joe:secret\nstats auth ann:a:b\nstats auth nopass\n\
         stats realm \"My stats\"\nstats refresh 1500ms\nserver a1 {addr}\n\
         backend open\nstats uri /open\nstats admin if TRUE\nstats refresh 5s\nstats show-legends\n\
         option httpchk\nserver s1 {addr} cookie one\nserver s2 {addr} disabled\n\
         server checked {addr} backup check inter 60s\n"
    ))
    .defaults("option socket-stats")
}

/// What of an exchange must be as in the reference.
fn seen(proxy: &Proxy, response: &Response) -> String {
    let mut text = response.status.to_string();
    for name in ["location", "www-authenticate", "refresh", "x-rule", "x-after"] {
        let value = response.field(name);
        if !value.is_empty() {
            text.push_str(&format!(" {name}={value}"));
        }
    }
    let kind = response.field("content-type");
    text.push_str(&format!(" ({})", kind.split(';').next().unwrap_or("")));
    let log = proxy.http_log();
    let log = log.split(" \"").next().unwrap_or("");
    format!("{text} | {log}")
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n")
}

fn post(path: &str, fields: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// joe:secret, ann:a:b, nopass:, joe:wrong
const CREDENTIALS: [&str; 4] = ["am9lOnNlY3JldA==", "YW5uOmE6Yg==", "bm9wYXNzOg==", "am9lOndyb25n"];

/// Requests and what comes of them.
fn exchanges() -> Vec<(String, &'static str)> {
    let mut all = vec![
        // Where it is: after the `http-request` rules, before `redirect`, of the frontend and then of the backend.
        (get("/own", ""), "200 x-after=1 (text/html) | fe/<STATS> n/n/n/n/n 200 LR-- 0"),
        (get("/own?x;csv", ""), "200 x-after=1 (text/plain) | fe/<STATS> n/n/n/n/n 200 LR-- 0"),
        (get("http://h/own;json", ""), "200 x-after=1 (application/json) | fe/<STATS> n/n/n/n/n 200 LR-- 0"),
        (get("/ownfoo;typed", ""), "200 x-after=1 (text/plain) | fe/<STATS> n/n/n/n/n 200 LR-- 0"),
        (get("/own;json-schema", ""), "200 x-after=1 (application/json) | fe/<STATS> n/n/n/n/n 200 LR-- 0"),
        (get("/own", "x: deny\r\n"), "403 x-after=1 (text/html) | fe/<NOSRV> n/-1/-1/-1/n 403 PR-- 0"),
        (get("/own", "x: late\r\n"), "200 x-after=1 (text/html) | fe/<STATS> n/n/n/n/n 200 LR-- 0"),
        (get("/guarded", "x: first\r\n"), "299 x-after=1 () | guarded/<NOSRV> n/-1/-1/-1/n 299 LR-- 0"),
        (get("/old", ""), "302 location=/elsewhere x-after=1 () | fe/<NOSRV> n/-1/-1/-1/n 302 LR-- 0"),
        // Rules that let pass do not keep redirections from being evaluated.
        (
            get("/old", "x: allow\r\n"),
            "302 location=/elsewhere x-after=1 () | fe/<NOSRV> n/-1/-1/-1/n 302 LR-- 0",
        ),
        (get("/Own", ""), "200 x-rule=1 x-after=1 () | open/s1 n/n/n/n/n 200 ---- 0"),
        (
            "PUT /own HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n".into(),
            "200 x-rule=1 x-after=1 () | open/s1 n/n/n/n/n 200 ---- 0",
        ),
        (
            "HEAD /own HTTP/1.1\r\nHost: h\r\n\r\n".into(),
            "200 x-after=1 (text/html) | fe/<STATS> n/n/n/n/n 200 LR-- 0",
        ),
        ("GET /own HTTP/1.0\r\n\r\n".into(), "200 x-after=1 (text/html) | fe/<STATS> n/n/n/n/n 200 LR-- 0"),
        // Who may see it.
        (
            get("/guarded", ""),
            "401 www-authenticate=Basic realm=\"HAProxy Statistics\" x-after=1 (text/html) | guarded/<STATS> n/n/n/-1/n 401 LR-- 0",
        ),
        (
            get("/guarded", "y: realm\r\n"),
            "401 www-authenticate=Basic realm=\"Guard\" x-after=1 (text/html) | guarded/<STATS> n/n/n/-1/n 401 LR-- 0",
        ),
        (get("/guarded", "y: no\r\n"), "403 x-after=1 (text/html) | guarded/<STATS> n/n/n/-1/n 403 PR-- 0"),
        (
            get("/guarded;csv", "y: yes\r\n"),
            "200 x-after=1 (text/plain) | guarded/<STATS> n/n/n/n/n 200 LR-- 0",
        ),
        (
            get("/accounts", ""),
            "401 www-authenticate=Basic realm=\"My stats\" x-after=1 (text/html) | accounts/<STATS> n/n/n/-1/n 401 LR-- 0",
        ),
        (
            get("/accounts;norefresh", "Authorization: Basic am9lOnNlY3JldA==\r\n"),
            "200 x-after=1 (text/html) | accounts/<STATS> n/n/n/n/n 200 LR-- 0",
        ),
        (
            get("http://h/guarded", ""),
            "401 www-authenticate=Basic realm=\"HAProxy Statistics\" x-after=1 (text/html) | guarded/<STATS> n/n/n/-1/n 401 LR-- 0",
        ),
        // A page of one proxy is none of another's.
        (
            get("/open", "x: first\r\n"),
            "200 refresh=5 x-after=1 (text/html) | open/<STATS> n/n/n/n/n 200 LR-- 0",
        ),
        (
            post("/own", "", "s=s1&action=drain&b=open"),
            "303 location=/own;st=DENY x-after=1 (text/plain) | fe/<STATS> n/n/n/n/n 303 LR-- 0",
        ),
    ];
    for (n, credentials) in CREDENTIALS.into_iter().enumerate() {
        let expected = if n < 3 {
            "200 refresh=2 x-after=1 (text/html) | accounts/<STATS> n/n/n/n/n 200 LR-- 0"
        } else {
            "401 www-authenticate=Basic realm=\"My stats\" x-after=1 (text/html) | accounts/<STATS> n/n/n/-1/n 401 LR-- 0"
        };
        all.push((get("/accounts", &format!("Authorization: Basic {credentials}\r\n")), expected));
    }
    all
}

#[test]
fn requests_for_the_page_are_told_from_others() {
    each_driver(|io| {
        let server = Server::http(|_| ok("hello"));
        let proxy = setup(&server).start(io);
        for (request, expected) in exchanges() {
            let response = proxy.ask(&request);
            assert_eq!(seen(&proxy, &response), expected, "{request}");
        }
    });
}

#[test]
fn requests_for_the_page_are_told_from_others_as_by_the_reference() {
    let Some(reference) = reference() else { return };
    let server = Server::http(|_| ok("hello"));
    let proxy = setup(&server).program(&reference).start("epoll");
    for (request, expected) in exchanges() {
        let response = proxy.ask(&request);
        let seen = seen(&proxy, &response);
        // The reference logs a 400 where it answers 401 or 403.
        let seen = match response.status {
            status @ (401 | 403) => seen.replace(" 400 ", &format!(" {status} ")),
            _ => seen,
        };
        assert_eq!(seen, expected, "{request}");
    }
}

/// Forms, and what comes of them: the code, and the states of s1, s2 and checked afterwards.
fn forms() -> Vec<(&'static str, &'static str, &'static str, [&'static str; 3])> {
    const START: [&str; 3] = ["no check", "MAINT", "UP"];
    let drained = ["DRAIN", "MAINT", "UP"];
    vec![
        ("/open", "", "s=s1&action=drain&b=open", drained),
        ("/open;up", ";up", "action=ready&b=%235&s=s1", START),
        ("/open", "", "s=s1&s=checked&action=maint&b=%235", ["MAINT", "MAINT", "MAINT"]),
        ("/open", "", "s=s1&s=checked&action=ready&b=%235", START),
        (
            "/open;norefresh;up;no-maint;csv",
            ";up;norefresh",
            "s=s2&action=ready&b=open",
            ["no check", "no check", "UP"],
        ),
        ("/open?x;scope=op", "?scope=op", "s=s2&action=disable&b=open", START),
        ("/open;scope=zzz", "?scope=zzz", "s=s2&action=enable&b=open", ["no check", "no check", "UP"]),
        ("/open", "", "s=s1&s=s2&action=stop&b=open", ["DRAIN", "DRAIN", "UP"]),
        ("/open", "", "s=s1&s=s2&action=start&b=open", ["no check", "no check", "UP"]),
        ("/open", "", "s=s2&action=maint&b=open", START),
        ("/open", "", "s=checked&action=hdown&b=open", ["no check", "MAINT", "DOWN"]),
        ("/open", "", "s=checked&action=hnolb&b=open", ["no check", "MAINT", "NOLB"]),
        ("/open", "", "s=checked&action=hrunn&b=open", START),
        ("/open", "", "s=checked&action=dhlth&b=open", ["no check", "MAINT", "no check"]),
        ("/open", "", "s=checked&action=ehlth&b=open", START),
        ("/open", "", "s=s1&action=shutdown&b=open", START),
        // The words of old are about maintenance or about the drain, and leave the other as it is.
        ("/open", "", "s=s2&action=stop&b=open", START),
        ("/open", "", "s=s2&action=enable&b=open", ["no check", "DRAIN", "UP"]),
        ("/open", "", "s=s2&action=disable&b=open", START),
        ("/open", "", "s=s2&action=start&b=open", START),
        ("/open", "", "%73=s1&%61ction=dr%61in&b=open", drained),
        ("/open", "", "s=s1&action=drain&action=ready&b=nobody&b=open&x=1", START),
    ]
}

/// Forms that change nothing, and the code.
fn refused() -> Vec<(String, &'static str)> {
    let form = |text: &str| post("/open", "", text);
    let from = |fields: &str| post("/open", fields, "s=s1&action=drain&b=open");
    vec![
        (form(""), "NONE"),
        (form("foo"), "NONE"),
        (form("s=s1&b=open"), "NONE"),
        (form("s=s1&action=ready"), "NONE"),
        (form("action=ready&b=open"), "NONE"),
        (form("s=s1&action=dhlth&b=open"), "NONE"),
        (form("s=s1&action=arunn&b=open"), "NONE"),
        (form("s=s1&action=enable&b=open"), "NONE"),
        (form("s=s1&action=start&b=open"), "NONE"),
        (form("s=s2&action=disable&b=open"), "NONE"),
        (form("s=s2&action=start&b=open"), "NONE"),
        (form("s=nobody&action=drain&b=open"), "ERRP"),
        (form("s=&action=drain&b=open"), "ERRP"),
        (form("s=s1&action=jump&b=open"), "ERRP"),
        (form("s=s1&action=&b=open"), "ERRP"),
        (form("s=s1&action=drain&b=nobody"), "ERRP"),
        (form("s=s1&action=drain&b=5"), "ERRP"),
        (form("s=s1&action=drain&b=fe"), "ERRP"),
        (form("s=nobody&s=s1&action=ready&b=open"), "PART"),
        (form(&format!("s=s1&action=drain&b=open{}", "&s=s1".repeat(4000))), "EXCD"),
        (post("/guarded", "y: yes\r\n", "s=g1&action=drain&b=guarded"), "DENY"),
        (post("/guarded", "y: yes\r\nz: admin\r\n", "s=s1&action=drain&b=open"), "DENY"),
        (from("Origin: http://evil\r\n"), "DENY"),
        (from("Origin: null\r\n"), "DENY"),
        (from("Origin: http://h.evil\r\n"), "DENY"),
        (from("Referer: http://evil/h\r\n"), "DENY"),
    ]
}

fn column(proxy: &Proxy, path: &str, of: &str, number: usize) -> String {
    let text = proxy.ask(&get(path, "y: yes\r\n")).text();
    proxy.http_log();
    let line = text.lines().find(|line| line.starts_with(of)).unwrap_or_else(|| panic!("no {of} in {text}"));
    line.split(',').nth(number).unwrap_or("").to_owned()
}

fn states(proxy: &Proxy) -> [String; 3] {
    let state = |of: &str| column(proxy, "/open;csv", of, 17);
    // Between two states: `UP 1/3`.
    ["open,s1,", "open,s2,", "open,checked,"].map(|of| match state(of) {
        state if state.contains('/') => state.split(' ').next().unwrap_or("").to_owned(),
        state => state,
    })
}

fn play_forms(proxy: &Proxy) {
    for (path, more, form, expected) in forms() {
        let response = proxy.ask(&post(path, "", form));
        assert_eq!(response.field("location"), format!("/open;st=DONE{more}"), "{form}");
        assert_eq!((response.status, response.text().as_str()), (303, ""), "{form}");
        assert_eq!(response.field("content-length"), "0", "{form}");
        proxy.http_log();
        assert_eq!(states(proxy), expected, "{form}");
    }
    let before = states(proxy);
    for (request, code) in refused() {
        let response = proxy.ask(&request);
        let location = response.field("location");
        assert!(location.ends_with(&format!(";st={code}")), "{request}: {location}, not {code}");
        proxy.http_log();
        assert_eq!(states(proxy), before, "{request}");
    }
}

#[test]
fn servers_are_changed_by_forms() {
    each_driver(|io| {
        let server = Server::http(|_| ok("hello"));
        let proxy = setup(&server).start(io);
        play_forms(&proxy);
        // A browser that was made to post by another page says so, whatever else it says.
        for site in ["cross-site", "same-site"] {
            let fields = format!("Sec-Fetch-Site: {site}\r\nOrigin: http://h\r\n");
            let response = proxy.ask(&post("/open", &fields, "s=s1&action=drain&b=open"));
            assert_eq!(response.field("location"), "/open;st=DENY");
            proxy.http_log();
        }
        for site in ["same-origin", "none"] {
            let fields = format!("Sec-Fetch-Site: {site}\r\nOrigin: http://h\r\n");
            let response = proxy.ask(&post("/open", &fields, "s=s1&action=ready&b=open"));
            assert_eq!(response.field("location"), "/open;st=DONE");
            proxy.http_log();
        }
        // The page's script gets the answer instead of a redirection.
        let response = proxy.ask(&post("/open;live", "", "s=s1&action=drain&b=open"));
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, "{\"st\":\"DONE\",\"text\":\"Done.\"}\n")
        );
        proxy.http_log();
        // A form may come in chunks, and after it was asked for; the connection goes on.
        let mut conn = proxy.connect();
        conn.send(
            "POST /open HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
        );
        assert_eq!(conn.head().line, "HTTP/1.1 100 Continue");
        conn.send("7\r\ns=s1&ac\r\n11\r\ntion=ready&b=open\r\n0\r\n\r\n");
        assert_eq!(conn.response().field("location"), "/open;st=DONE");
        conn.send(get("/open;csv", ""));
        assert!(conn.response().text().contains("\nopen,s1,"));
    });
}

#[test]
fn servers_are_changed_by_forms_as_with_the_reference() {
    let Some(reference) = reference() else { return };
    let server = Server::http(|_| ok("hello"));
    play_forms(&setup(&server).program(&reference).start("epoll"));
}

/// Names of the rows that a request shows.
fn names(proxy: &Proxy, path: &str) -> BTreeSet<String> {
    let text = proxy.ask(&get(path, "y: yes\r\n")).text();
    let rows = text.lines().skip(1).filter_map(|line| {
        let mut fields = line.split(',');
        Some(format!("{}/{}", fields.next()?, fields.next()?))
    });
    rows.collect()
}

fn rows_of_scopes(proxy: &Proxy) {
    let rows = |path: &str| names(proxy, path).into_iter().collect::<Vec<_>>().join(" ");
    let open = "open/BACKEND open/checked open/s1 open/s2";
    assert_eq!(rows("/own;csv"), format!("fe/FRONTEND fe/sock-1 {open}"));
    assert_eq!(rows("/own;csv;scope=PE"), open);
    assert_eq!(rows("/own;csv;scope=guard"), "");
    assert_eq!(rows("/own;csv;up?scope=pe"), "open/BACKEND open/checked open/s1");
    assert_eq!(rows("/own;csv;no-maint&scope=pe"), "open/BACKEND open/checked open/s1");
    assert_eq!(rows("/guarded;csv"), "guarded/BACKEND guarded/g1");
    assert!(rows("/open;csv").contains("accounts/a1"));
    assert!(rows("/open;csv;scope=<b>").contains("accounts/a1"));
    // Addresses and cookies are for those whom legends are shown to.
    assert!(column(proxy, "/own;csv", "open,s1,", 73).is_empty());
    assert!(column(proxy, "/open;csv", "open,s1,", 73).contains(':'));
    assert_eq!(column(proxy, "/open;csv", "open,s1,", 74), "one");
}

#[test]
fn scopes_choose_what_is_shown() {
    let server = Server::http(|_| ok("hello"));
    rows_of_scopes(&setup(&server).start("epoll"));
    if let Some(reference) = reference() {
        rows_of_scopes(&setup(&server).program(&reference).start("epoll"));
    }
}

#[test]
fn the_page_is_safe_to_look_at() {
    each_driver(|io| {
        let server = Server::http(|_| ok("hello"));
        let proxy = setup(&server).start(io);
        let page = proxy.ask(&get("/own;scope=<script>\"'", ""));
        let text = page.text();
        // What the configuration says is shown as it is written there, and nothing else runs than the page's own script.
        assert!(text.contains("&lt;b&gt;&amp;&quot;it&#39;s") && !text.contains("<b>&"), "{text}");
        assert_eq!(text.matches("<script>").count(), 1);
        assert!(!text.contains(" style=") && !text.contains(" onclick") && !text.contains("=\"http"));
        let policy = page.field("content-security-policy");
        for part in ["default-src 'none'", "frame-ancestors 'self'", "form-action 'self'", "base-uri 'none'"]
        {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.field("x-content-type-options"), "nosniff");
        assert!(page.field("content-type").contains("charset=utf-8"));
        // The version of the program is nobody's business unless somebody says so.
        assert!(!text.contains(env!("CARGO_PKG_VERSION")));
        assert!(
            text.contains("<summary>Counters</summary><pre>h2_headers_rcvd 0\n")
                && text.contains("\nh1_open_connections 1\n"),
            "{text}"
        );
        assert!(!text.contains("method=\"post\""), "nothing may be changed here");
        assert!(proxy.ask(&get("/open", "")).text().contains("<form method=\"post\">"));
        // What became of a change is said in words of ours.
        assert!(proxy.ask(&get("/own;st=DONE", "")).text().contains("role=\"status\">Done.<"));
        assert!(proxy.ask(&get("/own;st=<b>", "")).text().contains("role=\"status\"></p>"));
        // A row by itself; what is hidden on the page is hidden there.
        let row = |path: &str| proxy.ask(&get(path, "y: yes\r\n"));
        assert!(row("/open;row=5.2.1").text().contains("<h1>open/s1</h1>"));
        assert!(row("/open;row=5.2.1").text().contains(&server.addr.to_string()));
        assert!(!row("/own;row=5.2.1").text().contains(&server.addr.to_string()));
        assert_eq!(
            (row("/own;row=3.2.1").status, row("/own;row=5.2.9").status, row("/own;row=5.9.1").status),
            (404, 404, 404)
        );
    });
}

#[test]
fn who_looks_again_is_not_logged_again() {
    let server = Server::http(|_| ok("hello"));
    let proxy = setup(&server).start("epoll");
    let mut conn = proxy.connect();
    for path in ["/own;live", "/own;live", "/own", "/own;live;up", "/guarded;live", "/own;csv;live"] {
        conn.send(get(path, ""));
        let expected = if path.starts_with("/own") { 200 } else { 401 };
        assert_eq!(conn.response().status, expected);
    }
    let logged: Vec<String> = (0..4).map(|_| proxy.http_log()).collect();
    let paths: Vec<&str> = logged.iter().map(|line| line.split(' ').nth(6).unwrap_or("")).collect();
    assert_eq!(paths, ["/own;live", "/own", "/guarded;live", "/own;csv;live"], "{logged:#?}");
}

#[test]
fn what_became_of_a_server_is_remembered() {
    let server = Server::http(|_| ok("hello"));
    let proxy = setup(&server).start("epoll");
    assert!(!proxy.ask(&get("/open;row=5.2.1", "")).text().contains("What became of it"));
    for n in 0..20 {
        let action = if n % 2 == 0 { "drain" } else { "ready" };
        proxy.ask(&post("/open", "", &format!("s=s1&action={action}&b=open")));
    }
    proxy.ask(&post("/open", "", "s=s1&action=maint&b=open"));
    let text = proxy.ask(&get("/open;row=5.2.1", "")).text();
    let (_, became) = text.split_once("It became").expect("it is there");
    let (became, _) = became.split_once("</table>").expect("it ends");
    assert_eq!(became.matches("<tr>").count(), 16, "{became}");
    let states: Vec<&str> = became.split("<td>").skip(1).map(|s| s.split('<').next().unwrap_or("")).collect();
    assert_eq!(states[..3], ["MAINT", "no check", "DRAIN"]);
}

#[test]
fn white_space_that_rules_write_is_no_part_of_a_value() {
    each_driver(|io| {
        let server = Server::http(|_| ok("hello"));
        let text = format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s {}\n\
             http-after-response set-header a \" x: \"\n\
             http-after-response set-header b <%[res.fhdr(a)]|%[res.hdr(a)]>\n",
            server.addr
        );
        let proxy = Setup::http(&text).start(io);
        assert_eq!(proxy.ask(&get("/", "")).field("b"), "<x:|x:>");
    });
}

#[test]
fn figures_for_the_script_are_json() {
    let server = Server::http(|_| ok("hello"));
    let proxy = setup(&server).start("epoll");
    proxy.ask(&get("/", ""));
    let response = proxy.ask(&get("/open;live", ""));
    assert_eq!(response.field("content-type"), "application/json");
    // Nobody loads this again but the script.
    assert_eq!(response.field("refresh"), "");
    let json: serde_json::Value = serde_json::from_str(&response.text()).expect("it is JSON");
    let rows = json["rows"].as_array().expect("it has rows");
    assert!(rows.iter().all(|row| row.as_array().is_some_and(|row| row.len() == 23)));
    let row = |id: &str| rows.iter().find(|row| row[0] == id).unwrap_or_else(|| panic!("no {id}"));
    assert_eq!((&row("5.2.2")[1], &row("5.2.2")[2]), (&"maint".into(), &"MAINT".into()));
    // The one before and this one.
    assert_eq!(row("5.1.0")[12], 2);
    // Only the one before has taken its time.
    assert_eq!(row("5.1.0")[13], 1);
    assert!(row("5.1.0")[15].as_u64() <= row("5.1.0")[16].as_u64());
    assert!(json["tiles"]["conns"].as_str().is_some_and(|text| text.contains(" of ")));
}
