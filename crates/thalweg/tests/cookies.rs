//! Persistence by a cookie (configuration manual: `cookie`, `force-persist`, `ignore-persist`, `option persist`): what
//! the server sees, what the client gets, and the last two letters of the termination state.

mod support;

use support::{Io, Proxy, Request, Server, Setup, each_driver, nobody, ok};

/// A server that answers with its name and with the cookies it was sent, and that sets the cookie the request asks for.
fn echo(name: &'static str) -> Server {
    Server::http(move |request: &Request| {
        let cookie = request.head.field("cookie");
        let set = match request.head.field("x-set").as_str() {
            "" => String::new(),
            value => format!("Set-Cookie: {value}\r\n"),
        };
        ok(&format!("{name}<{cookie}>")).replacen("\r\n", &format!("\r\n{set}"), 1)
    })
}

/// Servers `a` and `b`, which answer, and `d`, which is down.
struct Site {
    proxy: Proxy,
    servers: [Server; 2],
}

impl Site {
    fn new(io: Io, lines: &str) -> Site {
        let servers = [echo("a"), echo("b")];
        let proxy = Setup::http(&format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nbalance first\nretries 1\n{lines}\n\
             server a {} cookie aa\nserver b {} cookie bb\nserver d {} cookie dd disabled\n",
            servers[0].addr,
            servers[1].addr,
            nobody()
        ))
        .start(io);
        Site { proxy, servers }
    }

    /// `expected`: who answered and what it saw, the response's cookie, and the letters of the log.
    fn check(&self, path: &str, cookie: &str, set: &str, expected: (&str, &str, &str)) {
        let mut request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n");
        for (name, value) in [("Cookie", cookie), ("X-Set", set)] {
            if !value.is_empty() {
                request.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        request.push_str("\r\n");
        let response = self.proxy.ask(&request);
        let log = self.proxy.http_log();
        let state = log.split(' ').find(|f| f.len() == 4 && f.starts_with("--")).unwrap_or("");
        let got = (response.text(), response.field("set-cookie"), state);
        assert_eq!((got.0.as_str(), got.1.as_str(), got.2), expected, "{path} {cookie:?} {set:?}: {log}");
    }

    fn finish(self) {
        self.proxy.finish(self.servers);
    }
}

#[test]
fn insert() {
    each_driver(|io| {
        let site = Site::new(io, "cookie SRV insert");
        site.check("/", "", "", ("a<>", "SRV=aa; path=/", "--NI"));
        site.check("/", "SRV=bb", "", ("b<SRV=bb>", "", "--VN"));
        site.check("/", "SRV=zz", "", ("a<SRV=zz>", "SRV=aa; path=/", "--II"));
        site.check("/", "SRV=dd", "", ("a<SRV=dd>", "SRV=aa; path=/", "--DI"));
        site.check("/", "SRV=bb", "SRV=own", ("b<SRV=bb>", "", "--VD"));
        site.finish();
    });
}

#[test]
fn insert_indirect() {
    each_driver(|io| {
        let site = Site::new(io, "cookie SRV insert indirect httponly secure domain .a.b attr SameSite=Lax");
        let set = "SRV=aa; path=/; domain=.a.b; HttpOnly; Secure; SameSite=Lax";
        site.check("/", "", "", ("a<>", set, "--NI"));
        site.check("/", "SRV=bb", "", ("b<>", "", "--VN"));
        site.check("/", "x=1;SRV=bb ; y=2", "", ("b<x=1; y=2>", "", "--VN"));
        site.check("/", "x=1; SRV=zz", "SRV=own", ("a<x=1>", set, "--II"));
        site.finish();
    });
}

#[test]
fn rewrite_and_prefix() {
    each_driver(|io| {
        let site = Site::new(io, "cookie SRV rewrite");
        site.check("/", "SRV=bb", "SRV=own; path=/", ("b<SRV=bb>", "SRV=bb; path=/", "--VR"));
        site.check("/", "", "x=1", ("a<>", "x=1", "--NN"));
        site.finish();
        let site = Site::new(io, "cookie SRV prefix");
        site.check("/", "", "SRV=own; path=/", ("a<>", "SRV=aa~own; path=/", "--NR"));
        site.check("/", "x=1; SRV=bb~own", "", ("b<x=1; SRV=own>", "", "--VN"));
        site.check("/", "SRV=zz~own", "", ("a<SRV=own>", "", "--IN"));
        site.finish();
    });
}

#[test]
fn preserve_and_postonly() {
    each_driver(|io| {
        let site = Site::new(io, "cookie SRV insert indirect preserve");
        site.check("/", "SRV=bb", "SRV=; Max-Age=0", ("b<>", "SRV=; Max-Age=0", "--VP"));
        site.check("/", "", "", ("a<>", "SRV=aa; path=/", "--NI"));
        site.finish();
        let site = Site::new(io, "cookie SRV insert postonly");
        site.check("/", "", "", ("a<>", "", "--NN"));
        site.finish();
    });
}

#[test]
fn dates() {
    each_driver(|io| {
        let site = Site::new(io, "cookie SRV insert indirect maxidle 1h maxlife 2h");
        // A date of 1970 is outlived, by its last use or by its first.
        for (cookie, server, value, letters) in [
            ("SRV=bb|AAAAB", "a", "SRV=aa|", "--EI"),
            ("SRV=bb|AAAAB|AAAAB", "a", "SRV=aa|", "--OI"),
            ("SRV=bb", "b", "SRV=bb|", "--VU"),
        ] {
            let request = format!("GET / HTTP/1.1\r\nHost: h\r\nCookie: {cookie}\r\n\r\n");
            let response = site.proxy.ask(&request);
            assert_eq!(response.text(), format!("{server}<>"), "{cookie}");
            let set = response.field("set-cookie");
            assert!(set.starts_with(value), "{cookie}: {set}");
            // The same date twice: the client has only just got it.
            let dates: Vec<&str> = set[value.len()..].trim_end_matches("; path=/").split('|').collect();
            assert!(dates.len() == 2 && dates[0] == dates[1] && dates[0].len() == 5, "{cookie}: {set}");
            let log = site.proxy.http_log();
            assert!(log.contains(letters), "{cookie}: {log}");
        }
        site.finish();
    });
}

#[test]
fn rules_about_persistence() {
    each_driver(|io| {
        let site = Site::new(
            io,
            "cookie SRV insert indirect\nignore-persist if { path /i }\nuse-server b if { path /u }",
        );
        site.check("/i", "SRV=bb", "SRV=own", ("a<>", "SRV=own", "--UN"));
        site.check("/i", "", "", ("a<>", "", "--NN"));
        site.check("/u", "SRV=aa", "", ("b<>", "", "--UN"));
        site.check("/u", "", "", ("b<>", "", "--NN"));
        site.finish();
    });
}

/// A server that is down is tried where the configuration insists, and given up where it may be.
#[test]
fn servers_that_are_down() {
    each_driver(|io| {
        let site = Site::new(io, "cookie SRV insert indirect\noption persist\noption redispatch");
        site.check("/", "SRV=dd", "", ("a<>", "SRV=aa; path=/", "--DI"));
        site.finish();
        let site =
            Site::new(io, "cookie SRV insert indirect\noption redispatch\nforce-persist if { path /f }");
        site.check("/", "SRV=dd", "", ("a<>", "SRV=aa; path=/", "--DI"));
        assert_eq!(site.proxy.ask("GET /f HTTP/1.1\r\nHost: h\r\nCookie: SRV=dd\r\n\r\n").status, 503);
        assert!(site.proxy.http_log().contains(" 503 SCDN "));
        site.finish();
    });
}
