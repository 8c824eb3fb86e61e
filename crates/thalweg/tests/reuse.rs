//! Which connection to a server each request is sent on.

mod support;

use std::path::Path;

use support::{Conn, Io, Server, Setup, each_driver, reference};

/// The number of the server's connection that each request came on. `Connection: close` ends the client's, so that only
/// connections shared by all clients are used.
fn numbers(io: Io, program: Option<&Path>, lines: &str, requests: &[&str]) -> Vec<String> {
    let server = Server::start(|mut conn, n| {
        while conn.next_request().is_some() {
            conn.send(support::ok(&n.to_string()));
        }
    });
    let text = format!(
        "global\nnbthread 1\ndefaults\nmode http\nhttp-reuse always\ntimeout connect 20s\ntimeout client 20s\n\
         timeout server 20s\nfrontend fe\nbind <@fe>\n{lines}\ndefault_backend be\nbackend be\nserver a {} pool-low-conn 100\n",
        server.addr
    );
    let mut setup = Setup::file(&text);
    if let Some(program) = program {
        setup = setup.program(program);
    }
    let proxy = setup.start(io);
    let ask = |target: &&str| {
        let mut conn = Conn::connect(proxy.addr("fe"));
        conn.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        conn.response().text()
    };
    requests.iter().map(ask).collect()
}

/// What a rule sets on a connection stays on it: only a request that asks for the same may be sent on it.
#[test]
fn marked_connections_are_for_requests_with_the_same_mark() {
    let lines = "http-request set-bc-tos 32 if { path_beg /tos }\nhttp-request set-bc-tos 64 if { path_beg /other }\n\
                 http-request set-bc-mark 7 if { path_sub mark }";
    let requests = [
        "/",
        "/tos",
        "/",
        "/tos",
        "/other",
        "/tos-mark",
        "/mark",
        "/",
        "/mark",
        "/tos",
        "/other",
        "/tos-mark",
    ];
    let wanted = ["0", "1", "0", "1", "2", "3", "4", "0", "4", "1", "2", "3"];
    each_driver(|io| assert_eq!(numbers(io, None, lines, &requests), wanted, "over {io}"));
    if let Some(reference) = reference() {
        assert_eq!(numbers("epoll", Some(&reference), lines, &requests), wanted, "of the reference");
    }
}
