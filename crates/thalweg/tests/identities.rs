//! Servers that are renamed and that move while the process runs (`set server ... name|addr|check-addr|check-port`).

mod support;

use std::os::unix::net::UnixStream;

use support::{Conn, Proxy, Server, Setup, each_driver, eventually, nobody};

/// Says something to the program's CLI and returns the answer.
fn tell(proxy: &Proxy, command: &str) -> String {
    let path = proxy.path("cli");
    let mut cli = Conn::unix(eventually("the CLI listens", || UnixStream::connect(&path).ok()));
    cli.send(format!("{command}\n"));
    cli.rest_text()
}

/// Moves the server `be/a` to where another one listens.
fn move_to(proxy: &Proxy, server: &Server) {
    let (ip, port) = (server.addr.ip(), server.addr.port());
    let answer = tell(proxy, &format!("set server be/a addr {ip} port {port}"));
    assert!(answer.contains("port changed from"), "{answer}");
}

/// Says what it is called, and by which name the request calls it.
fn named(name: &'static str) -> Server {
    Server::http(move |request| support::ok(&format!("{name} as {}", request.head.field("x-name"))))
}

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// One request on a connection that stays.
fn ask(conn: &mut Conn) -> String {
    conn.send(GET);
    let response = conn.response();
    format!("{} {}", response.text(), response.field("x-srv"))
}

/// Nothing goes to where a server was before: not over connections that all clients share, not over those that a client
/// keeps for itself, and not over one that carried a request while the server moved.
#[test]
fn connections_to_a_former_address_are_not_used_again() {
    for reuse in ["always", "never"] {
        each_driver(|io| {
            let (old, new) = (named("old"), named("new"));
            let proxy = Setup::file(&format!(
                "global\nnbthread 2\nstats socket <@dir>/cli level admin\ndefaults\nmode http\nhttp-reuse {reuse}\ntimeout connect 20s\ntimeout client 20s\n\
                 timeout server 20s\nfrontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver a {} pool-low-conn 100\n",
                old.addr
            ))
            .start(io);
            let mut clients: Vec<Conn> = (0..4).map(|_| Conn::connect(proxy.addr("fe"))).collect();
            for client in &mut clients {
                assert_eq!(ask(client), "old as  ", "{reuse} {io}");
            }
            // Half of a request's head is no stream yet, half of its body is one.
            let mut busy = Conn::connect(proxy.addr("fe"));
            busy.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab");
            eventually("the request is on its way", || {
                tell(&proxy, "show sess").contains("srv=a").then_some(())
            });
            move_to(&proxy, &new);
            busy.send("cd");
            assert_eq!(busy.response().text(), "old as ", "{reuse} {io}");
            for client in clients.iter_mut().chain([&mut busy]) {
                for _ in 0..2 {
                    assert_eq!(ask(client), "new as  ", "{reuse} {io}");
                }
            }
            // And back: connections that were made before the first move are no better after the second.
            move_to(&proxy, &old);
            for client in &mut clients {
                assert_eq!(ask(client), "old as  ", "{reuse} {io}");
            }
            let state = tell(&proxy, "show servers state be");
            assert!(state.contains(&format!(" - {} - ", old.addr.port())), "{state}");
        });
    }
}

/// Whatever calls a server by its name uses the one it has now.
#[test]
fn a_new_name_is_used_everywhere() {
    each_driver(|io| {
        let server = named("x");
        let proxy = Setup::http(&format!(
            "frontend fe\nbind <@fe>\nhttp-response set-header x-srv %[srv_name]\n\
             default_backend be\nbackend be\nhttp-send-name-header x-name\nuse-server %[req.hdr(use)] if {{ req.hdr(use) -m found }}\n\
             server a {}\nserver b {} backup\n",
            server.addr,
            nobody()
        ))
        .global("stats socket <@dir>/cli level admin\n")
        .start(io);
        let mut client = Conn::connect(proxy.addr("fe"));
        assert_eq!(ask(&mut client), "x as a a", "{io}");
        assert!(proxy.http_log().contains("be/a "), "{io}");
        let refused = "Server must be in maintenance mode to be renamed (set server <b>/<s> state maint).";
        assert!(tell(&proxy, "set server be/a name new").starts_with(refused), "{io}");
        tell(&proxy, "disable server be/a;disable server be/b");
        assert_eq!(tell(&proxy, "set server be/a name new"), "Server name updated.\n\n", "{io}");
        let taken = tell(&proxy, "set server be/b name new");
        assert!(taken.starts_with("A server with the same name already exists"), "{taken}");
        // The name that came free is another one's now.
        assert_eq!(tell(&proxy, "set server be/b name a"), "Server name updated.\n\n", "{io}");
        assert_eq!(tell(&proxy, "enable server be/new"), "\n", "{io}");
        for use_it in ["", "use: new\r\n"] {
            client.send(format!("GET / HTTP/1.1\r\nHost: h\r\n{use_it}\r\n"));
            let response = client.response();
            assert_eq!(response.text(), "x as new", "{io}");
            assert_eq!(response.field("x-srv"), "new", "{io}");
            assert!(proxy.http_log().contains("be/new "), "{io}");
        }
        let stat = tell(&proxy, "show stat be 4 -1");
        assert!(stat.contains("\nbe,new,") && stat.contains("\nbe,a,"), "{stat}");
        assert!(proxy.output().contains("Server be/new is UP/READY"), "{}", proxy.output());
    });
}

/// Checks follow their server, and the address that they were given.
#[test]
fn checks_go_to_the_new_address() {
    each_driver(|io| {
        let (healthy, other) = (named("healthy"), named("other"));
        let dead = nobody();
        let proxy = Setup::http(&format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\noption httpchk GET /\n\
             server a {dead} check inter 20ms rise 1 fall 1\n"
        ))
        .global("stats socket <@dir>/cli level admin\n")
        .start(io);
        let word = |word: &str| {
            let stat = tell(&proxy, "show stat be 4 -1");
            stat.lines().nth(1).unwrap_or("").contains(word).then_some(())
        };
        eventually("it is down", || word(",DOWN,"));
        move_to(&proxy, &healthy);
        eventually("it is up", || word(",UP,"));
        tell(&proxy, &format!("set server be/a check-port {}", dead.port()));
        eventually("the check is refused", || word(",DOWN,"));
        let (ip, port) = (other.addr.ip(), other.addr.port());
        assert_eq!(tell(&proxy, &format!("set server be/a check-addr {ip} port {port}")), "\n", "{io}");
        eventually("it is up again", || word(",UP,"));
        assert!(other.accepted() > 0, "{io}");
        let mut client = Conn::connect(proxy.addr("fe"));
        assert_eq!(ask(&mut client), "healthy as  ", "{io}");
    });
}

/// Cookies that follow from a secret and the server's address change with both; a server's own cookie does not.
#[test]
fn dynamic_cookies_follow_their_secret_and_their_server() {
    each_driver(|io| {
        let (one, two, own) = (named("one"), named("two"), named("own"));
        let proxy = Setup::http(&format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\ncookie C insert\ndynamic-cookie-key k\n\
             server a {}\nserver b {} weight 0 cookie own\n",
            one.addr, own.addr
        ))
        .global("stats socket <@dir>/cli level admin\n")
        .start(io);
        let ask = |cookie: &str| {
            let mut client = Conn::connect(proxy.addr("fe"));
            client.send(format!("GET / HTTP/1.1\r\nHost: h\r\nCookie: C={cookie}\r\n\r\n"));
            let response = client.response();
            let set = response.field("set-cookie");
            let value = set.trim_start_matches("C=").split(';').next().unwrap_or("").to_owned();
            (response.text().split(' ').next().unwrap_or("").to_owned(), value)
        };
        // Not yet: the client is told to forget what it has.
        assert_eq!(ask("x").1, "", "{io}");
        tell(&proxy, "enable dynamic-cookie backend be");
        let (answer, first) = ask("x");
        assert_eq!((&*answer, first.len()), ("one", 16), "{io}");
        assert_eq!(ask(&first), ("one".into(), String::new()), "{io}");
        tell(&proxy, "set dynamic-cookie-key backend be other");
        let second = ask(&first).1;
        assert!(!second.is_empty() && second != first, "{second} {io}");
        move_to(&proxy, &two);
        let (answer, third) = ask(&second);
        assert_eq!((&*answer, third.len()), ("two", 16), "{io}");
        assert_ne!(third, second, "{io}");
        let stat = tell(&proxy, "show stat be 4 -1");
        assert!(stat.contains(&format!(",{third},http,")) && stat.contains(",own,http,"), "{stat}");
        assert_eq!(ask("own"), ("own".into(), String::new()), "{io}");
        tell(&proxy, "disable dynamic-cookie backend be");
        assert_eq!(ask(&third).1, "", "{io}");
    });
}
