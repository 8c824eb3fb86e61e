//! Servers found by DNS, with a name server that does as it is told.

#[path = "support/dns.rs"]
mod dns;
mod support;

use std::fs;
use std::net::SocketAddrV4;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dns::{NameServer, Record, Reply, Said};
use support::tls::Authority;
use support::{Conn, Directory, Proxy, Server, Setup, each_driver, eventually};

/// Short times, so that what is held is seen to end.
fn section(name_servers: &[(&str, &NameServer)]) -> String {
    let mut text = "resolvers dns\n".to_owned();
    for (name, server) in name_servers {
        text.push_str(&format!("nameserver {name} {}\n", server.addr));
    }
    text + "accepted_payload_size 8192\ntimeout resolve 100ms\ntimeout retry 100ms\nhold valid 100ms\nhold obsolete 300ms\n\
            hold nx 300ms\nhold refused 300ms\nhold timeout 300ms\nhold other 300ms\n"
}

fn start(io: support::Io, name_servers: &[(&str, &NameServer)], text: &str) -> Proxy {
    let text = format!("{}{text}", section(name_servers));
    Setup::http(&text)
        .global("stats socket <@dir>/cli level admin\ndns-accept-family ipv4")
        .threads(2)
        .start(io)
}

/// What the CLI says.
fn tell(proxy: &Proxy, command: &str) -> String {
    let mut cli = Conn::connect_unix(&proxy.path("cli"));
    cli.send(format!("{command}\n"));
    cli.rest_text()
}

/// A column of `show servers state` by server.
fn column(proxy: &Proxy, server: &str, name: &str) -> String {
    let state = tell(proxy, "show servers state");
    let names: Vec<&str> = state.lines().nth(1).unwrap().split(' ').skip(1).collect();
    let at = names.iter().position(|n| *n == name).unwrap();
    let line = state.lines().find(|line| line.split(' ').nth(3) == Some(server)).unwrap();
    line.split(' ').nth(at).unwrap().to_owned()
}

fn is(proxy: &Proxy, server: &str, name: &str, wanted: &str) {
    eventually(&format!("{name} of {server} is {wanted}"), || {
        (column(proxy, server, name) == wanted).then_some(())
    });
}

/// A count of `show resolvers`.
fn count(proxy: &Proxy, name_server: &str, name: &str) -> u64 {
    let text = tell(proxy, "show resolvers dns");
    let (_, rest) = text.split_once(&format!(" nameserver {name_server}:\n")).unwrap();
    let line = rest.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}:"))).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn traffic_goes_where_the_name_leads() {
    each_driver(|io| {
        let dns = NameServer::start();
        let (one, two) = (Server::named("one"), Server::named("two"));
        dns.set("web.test", &[&one.addr.ip().to_string()]);
        let proxy = start(
            io,
            &[("ns", &dns)],
            &format!(
                "listen l\nbind <@fe>\nserver s web.test:{} resolvers dns init-addr none\nserver t web.test:{} resolvers dns \
                 init-addr none resolve-opts allow-dup-ip weight 0",
                one.addr.port(),
                two.addr.port()
            ),
        );
        is(&proxy, "s", "srv_addr", &one.addr.ip().to_string());
        assert_eq!(column(&proxy, "s", "srv_fqdn"), "web.test");
        assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").text(), "one");
        // It fails for longer than the hold: no server. It comes back: there it is.
        dns.say_always("web.test", &Said::Reply(Reply::code(3)));
        is(&proxy, "s", "srv_admin_state", "32");
        assert_eq!(column(&proxy, "s", "srv_addr"), "-");
        assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 503);
        dns.set("web.test", &[&one.addr.ip().to_string()]);
        is(&proxy, "s", "srv_admin_state", "0");
        assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").text(), "one");
        let output = proxy.output();
        for line in [
            &format!("l/s: IP changed from '(none)' to '{}' by 'dns/ns'.", one.addr.ip()),
            "Server l/s ('web.test') is UP/READY (resolves again).",
            "Server l/s administratively READY thanks to valid DNS answer.",
            "Server l/s is going DOWN for maintenance (DNS NX status). ",
        ] {
            assert!(output.contains(line), "{line} is not in {output}");
        }
        drop(two);
        proxy.finish(one);
    });
}

#[test]
fn a_service_fills_its_servers() {
    each_driver(|io| {
        let dns = NameServer::start();
        let (one, two) = (Server::named("one"), Server::named("two"));
        let (first, second) = (one.addr.port(), two.addr.port());
        dns.set("x1.test", &[&one.addr.ip().to_string()]);
        dns.set("x2.test", &[&two.addr.ip().to_string()]);
        dns.set_service("_http._tcp.test", &[((1, 512, first), "x1.test")]);
        let proxy = start(
            io,
            &[("ns", &dns)],
            "listen l\nbind <@fe>\nserver-template s 1-2 _http._tcp.test resolvers dns check inter 100ms init-addr none",
        );
        is(&proxy, "s1", "srv_op_state", "2");
        assert_eq!(column(&proxy, "s1", "srv_port"), first.to_string());
        assert_eq!(column(&proxy, "s1", "srvrecord"), "_http._tcp.test");
        assert_eq!(column(&proxy, "s1", "srv_fqdn"), "x1.test");
        is(&proxy, "s1", "srv_uweight", "2");
        assert_eq!(column(&proxy, "s2", "srv_admin_state"), "32");
        assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").text(), "one");
        // The other one takes its place; the first keeps its server until it is obsolete.
        dns.set_service("_http._tcp.test", &[((1, 65535, second), "x2.test")]);
        is(&proxy, "s2", "srv_op_state", "2");
        is(&proxy, "s2", "srv_uweight", "256");
        is(&proxy, "s1", "srv_admin_state", "96");
        assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").text(), "two");
        assert!(
            proxy
                .output()
                .contains("Server l/s1 is going DOWN for maintenance (entry removed from SRV record).")
        );
        assert!(tell(&proxy, "set server l/s1 fqdn a.test").contains("because SRV resolution is configured"));
        drop(one);
        proxy.finish(two);
    });
}

#[test]
fn answers_that_do_not_fit_come_over_tcp_and_lies_are_not_believed() {
    each_driver(|io| {
        let dns = NameServer::start();
        let many: Vec<String> = (0..500).map(|i| format!("127.200.{}.{}", i / 250, i % 250 + 1)).collect();
        let records = many.iter().map(|address| Record::address("big.test", address)).collect();
        dns.say("big.test", 1, Said::OverTcp(Reply::of(records)));
        let lie = Reply::of(vec![Record::address("lied.test", "127.66.66.66")]);
        let truth = Reply::of(vec![Record::address("lied.test", "127.1.2.3")]);
        dns.say("lied.test", 1, Said::Lies(vec![lie], truth));
        let proxy = start(
            io,
            &[("ns", &dns)],
            "listen l\nbind <@fe>\nserver lied lied.test:80 resolvers dns init-addr none\n\
             server-template b 500 big.test:80 resolvers dns init-addr none",
        );
        is(&proxy, "lied", "srv_addr", "127.1.2.3");
        eventually("500 servers", || {
            let state = tell(&proxy, "show servers state");
            (state.matches(" 127.200.").count() == 500).then_some(())
        });
        assert!(dns.asked("big.test").1 > 0, "nobody asked over TCP");
        assert!(!proxy.output().contains("127.66.66.66"), "a lie was believed");
        eventually("lies are counted", || {
            (count(&proxy, "ns", "invalid") > 1 && count(&proxy, "ns", "outdated") > 0).then_some(())
        });
        assert!(count(&proxy, "ns", "truncated") > 0);
        // Without a need for it, the stream goes.
        dns.set("big.test", &["127.200.0.1"]);
        proxy.finish(());
    });
}

#[test]
fn a_name_server_that_dies_does_no_harm_as_long_as_another_lives() {
    each_driver(|io| {
        let (dies, lives) = (NameServer::start(), NameServer::start());
        for dns in [&dies, &lives] {
            dns.set("web.test", &["127.1.2.3"]);
        }
        let proxy = start(
            io,
            &[("dies", &dies), ("lives", &lives)],
            "listen l\nbind <@fe>\nserver s web.test:80 resolvers dns init-addr none",
        );
        is(&proxy, "s", "srv_addr", "127.1.2.3");
        dies.die();
        let before = lives.asked("web.test").0;
        eventually("twenty more lookups", || (lives.asked("web.test").0 > before + 20).then_some(()));
        assert_eq!(column(&proxy, "s", "srv_addr"), "127.1.2.3");
        lives.die();
        is(&proxy, "s", "srv_addr", "-");
        assert!(proxy.output().contains("(DNS timeout status)"), "{}", proxy.output());
        proxy.finish(());
    });
}

/// A name server over TCP is reached as a server would be: from an address, behind a PROXY header, over TLS, under a name.
#[test]
fn name_servers_over_tcp_are_reached_as_their_lines_say() {
    let authority = Authority::new("dns");
    let (certificate, roots) = (authority.issue("dns.test"), authority.path("ca.pem"));
    let play = |io: support::Io, program: Option<&Path>, words: &str| {
        let dns = NameServer::start();
        dns.set("web.test", &["127.1.2.3"]);
        let strict = if words.contains(" sni ") { "strict-sni" } else { "" };
        let text = format!(
            "global\nstats socket <@dir>/cli level admin\ndns-accept-family ipv4\nresolvers dns\nnameserver ns tcp@<@dns> {words}\n\
             timeout resolve 100ms\ntimeout retry 100ms\nhold timeout 300ms\ndefaults\nmode http\ntimeout connect 2s\n\
             timeout client 5s\ntimeout server 5s\n\
             listen door\nmode tcp\nbind <@dns> accept-proxy ssl crt {certificate} {strict}\n\
             tcp-request connection reject if !{{ src 127.0.0.7 }}\nserver d {}\n\
             listen l\nbind <@fe>\nserver s web.test:80 resolvers dns init-addr none\n",
            dns.addr
        );
        let mut setup = Setup::file(&text);
        if let Some(program) = program {
            setup = setup.program(program);
        }
        let proxy = setup.start(io);
        let found = match words.contains("other.test") || words.is_empty() {
            false => {
                is(&proxy, "s", "srv_addr", "127.1.2.3");
                dns.asked("web.test").1 > 0
            }
            true => {
                eventually("five queries", || (count(&proxy, "ns", "sent") > 4).then_some(()));
                column(&proxy, "s", "srv_addr") != "-"
            }
        };
        // The stream to the name server would be left for some seconds more.
        drop(proxy);
        found
    };
    let words = format!("source 127.0.0.7 send-proxy-v2 ssl ca-file {roots} verify required");
    let named = format!("{words} sni str(dns.test)");
    let mismatch = format!("{words} verifyhost other.test");
    for (words, found) in [(&*named, true), (&mismatch, false), ("", false)] {
        each_driver(|io| assert_eq!(play(io, None, words), found, "{words} over {io}"));
        if let Some(reference) = support::reference() {
            assert_eq!(play("epoll", Some(&reference), words), found, "{words} with the reference");
        }
    }
}

#[test]
fn rules_resolve_names() {
    each_driver(|io| {
        let dns = NameServer::start();
        let one = Server::named("one");
        dns.set("one.test", &[&one.addr.ip().to_string()]);
        dns.say_always("failing.test", &Said::Reply(Reply::code(2)));
        dns.say_always("silent.test", &Said::Silence);
        let proxy = start(
            io,
            &[("ns", &dns)],
            &format!(
                "frontend f\nbind <@fe>\nhttp-request do-resolve(txn.ip,dns,ipv4) hdr(host),host_only\n\
                 http-request return status 404 unless {{ var(txn.ip) -m found }}\nhttp-request set-dst var(txn.ip)\n\
                 http-request set-dst-port int({})\ndefault_backend b\nbackend b\nserver s 0.0.0.0:0",
                one.addr.port()
            ),
        );
        for (host, status) in [
            ("one.test", 200),
            ("ONE.test.", 200),
            ("none.test", 404),
            ("failing.test", 404),
            ("silent.test", 404),
            ("127.0.0.1", 404),
            ("a..b", 404),
        ] {
            let response = proxy.ask(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert_eq!(response.status, status, "{host}");
        }
        // A crowd that wants one name asks for it once, and one that leaves leaves nothing behind.
        dns.set("slow.test", &[&one.addr.ip().to_string()]);
        let before = dns.asked("silent.test").0;
        let mut crowd: Vec<Conn> = (0..50).map(|_| proxy.connect()).collect();
        for (i, client) in crowd.iter_mut().enumerate() {
            client.send("GET / HTTP/1.1\r\nHost: silent.test\r\n\r\n");
            if i % 2 == 0 {
                client.reset_when_dropped();
            }
        }
        let stay: Vec<Conn> =
            crowd.into_iter().enumerate().filter(|(i, _)| i % 2 == 1).map(|(_, c)| c).collect();
        for mut client in stay {
            assert_eq!(client.response().status, 404);
        }
        assert!(dns.asked("silent.test").0 - before <= 12, "one question for each try of each wave");
        proxy.finish(one);
    });
}

#[test]
fn an_operator_gives_a_server_another_name() {
    each_driver(|io| {
        let dns = NameServer::start();
        dns.set("a.test", &["127.1.1.1"]);
        dns.set("b.test", &["127.1.1.2"]);
        let proxy = start(
            io,
            &[("ns", &dns)],
            "backend b\nserver s 127.1.1.9:80 resolvers dns\nserver t 127.1.1.9:80\nlisten l\nbind <@fe>",
        );
        assert_eq!(column(&proxy, "s", "srv_addr"), "127.1.1.9");
        let said = tell(&proxy, "set server b/s fqdn a.test");
        assert!(
            said.contains("b/s changed its FQDN from (null) to a.test by 'stats socket command'"),
            "{said}"
        );
        is(&proxy, "s", "srv_addr", "127.1.1.1");
        assert_eq!(column(&proxy, "s", "srv_admin_state"), "64");
        assert!(tell(&proxy, "set server b/s fqdn a.test").contains("no need to change the FDQN"));
        assert!(tell(&proxy, "set server b/s fqdn a..b").contains("could not update b/s FQDN"));
        assert!(tell(&proxy, "set server b/t fqdn a.test").contains("no resolution is configured"));
        tell(&proxy, "set server b/s fqdn b.test");
        is(&proxy, "s", "srv_addr", "127.1.1.2");
        proxy.finish(());
    });
}

/// Name servers that people run: how each is started with a zone on a port, as a command and a file of it.
type Daemon = (&'static str, fn(&Path, SocketAddrV4) -> Command);

const DAEMONS: [Daemon; 3] = [("dnsmasq", dnsmasq), ("unbound", unbound), ("knotd", knot)];

/// 300 addresses, which do not fit into the datagrams that are announced.
fn crowd() -> impl Iterator<Item = String> {
    (0..300).map(|i| format!("127.201.{}.{}", i / 250, i % 250 + 1))
}

fn dnsmasq(directory: &Path, addr: SocketAddrV4) -> Command {
    let mut file = format!(
        "port={}\nlisten-address={}\nbind-interfaces\nno-resolv\nno-hosts\nno-daemon\nuser=\nlocal=/test/\nedns-packet-max=1232\n\
         host-record=web.test,127.1.2.3\nhost-record=x1.test,127.1.2.4\ncname=alias.test,web.test\n\
         srv-host=_http._tcp.test,x1.test,8001,10,512\n",
        addr.port(),
        addr.ip()
    );
    crowd().for_each(|ip| file.push_str(&format!("host-record=big.test,{ip}\n")));
    fs::write(directory.join("dnsmasq.conf"), file).unwrap();
    let mut command = Command::new("dnsmasq");
    command.arg("--conf-file=dnsmasq.conf");
    command
}

fn unbound(directory: &Path, addr: SocketAddrV4) -> Command {
    let mut file = format!(
        "server:\n interface: {addr_ip}@{port}\n port: {port}\n do-daemonize: no\n chroot: \"\"\n username: \"\"\n directory: \"{dir}\"\n \
         pidfile: \"\"\n use-syslog: no\n logfile: \"\"\n do-not-query-localhost: no\n access-control: 127.0.0.0/8 allow\n \
         max-udp-size: 1232\n local-zone: \"test.\" static\n local-data: \"web.test. A 127.1.2.3\"\n \
         local-data: \"x1.test. A 127.1.2.4\"\n local-data: \"alias.test. CNAME web.test.\"\n \
         local-data: \"_http._tcp.test. SRV 10 512 8001 x1.test.\"\n",
        addr_ip = addr.ip(),
        port = addr.port(),
        dir = directory.display(),
    );
    crowd().for_each(|ip| file.push_str(&format!(" local-data: \"big.test. A {ip}\"\n")));
    file.push_str("remote-control:\n control-enable: no\n");
    fs::write(directory.join("unbound.conf"), file).unwrap();
    let mut command = Command::new("unbound");
    command.args(["-d", "-p", "-c", "unbound.conf"]);
    command
}

fn knot(directory: &Path, addr: SocketAddrV4) -> Command {
    let dir = directory.display();
    let file = format!(
        "server:\n    rundir: \"{dir}\"\n    listen: {}@{}\n    udp-max-payload: 1232\ndatabase:\n    storage: \"{dir}\"\nzone:\n  - \
         domain: test\n    storage: \"{dir}\"\n    file: test.zone\n",
        addr.ip(),
        addr.port()
    );
    fs::write(directory.join("knot.conf"), file).unwrap();
    let mut zone =
        "$ORIGIN test.\n@ 60 SOA ns mail 1 60 60 60 5\n@ 60 NS ns\nns 60 A 127.0.0.1\nweb 60 A 127.1.2.3\n\
                    x1 60 A 127.1.2.4\nalias 60 CNAME web\n_http._tcp 60 SRV 10 512 8001 x1\n"
            .to_owned();
    crowd().for_each(|ip| zone.push_str(&format!("big 60 A {ip}\n")));
    fs::write(directory.join("test.zone"), zone).unwrap();
    let mut command = Command::new("knotd");
    command.args(["-c", "knot.conf"]);
    command
}

/// Ends its process.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(daemon: &Daemon, directory: &Path, addr: SocketAddrV4) -> Option<Running> {
    let log = fs::File::create(directory.join("log")).unwrap();
    let mut command = daemon.1(directory, addr);
    command.current_dir(directory).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    // Where it is installed, it may not be in the path of a user.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    match command.spawn() {
        Ok(child) => Some(Running(child)),
        Err(error) => {
            eprintln!("skipped: {} does not start: {error}", daemon.0);
            None
        }
    }
}

#[test]
fn name_servers_that_people_run_are_understood() {
    for daemon in &DAEMONS {
        each_driver(|io| {
            let directory = Directory::new();
            let addr = support::free_port(support::own_ip());
            let Some(running) = run(daemon, &directory.0, addr) else { return };
            let text = format!(
                "resolvers dns\nnameserver ns {addr}\naccepted_payload_size 1232\ntimeout resolve 100ms\ntimeout retry 100ms\n\
                 hold obsolete 300ms\nhold nx 300ms\nhold refused 300ms\nhold timeout 300ms\nhold other 300ms\n\
                 listen l\nbind <@fe>\nserver web web.test:80 resolvers dns init-addr none\n\
                 server alias alias.test:80 resolvers dns init-addr none resolve-opts allow-dup-ip\n\
                 server none none.test:80 resolvers dns init-addr none\n\
                 server-template b 300 big.test:80 resolvers dns init-addr none\n\
                 server-template s 2 _http._tcp.test resolvers dns init-addr none\n"
            );
            let setup =
                Setup::http(&text).global("stats socket <@dir>/cli level admin\ndns-accept-family ipv4");
            let proxy = setup.threads(2).start(io);
            let all_there = || {
                is(&proxy, "web", "srv_addr", "127.1.2.3");
                match daemon.0 {
                    // Data of its own it does not follow: an alias is all it says.
                    "unbound" => eventually("a broken alias", || {
                        (count(&proxy, "ns", "cname_error") > 0).then_some(())
                    }),
                    _ => is(&proxy, "alias", "srv_addr", "127.1.2.3"),
                }
                is(&proxy, "s1", "srv_addr", "127.1.2.4");
                eventually("300 servers", || {
                    let state = tell(&proxy, "show servers state");
                    (state.matches(" 127.201.").count() == 300).then_some(())
                });
            };
            all_there();
            assert_eq!(column(&proxy, "s1", "srv_port"), "8001");
            assert_eq!(column(&proxy, "s1", "srv_uweight"), "2");
            assert_eq!(column(&proxy, "none", "srv_addr"), "-");
            assert!(count(&proxy, "ns", "nx") > 0, "{}", daemon.0);
            assert!(count(&proxy, "ns", "truncated") > 0, "{}", daemon.0);
            assert_eq!(count(&proxy, "ns", "invalid"), 0, "{}", daemon.0);
            // It goes for longer than the holds, and comes back.
            drop(running);
            is(&proxy, "web", "srv_addr", "-");
            is(&proxy, "s1", "srv_addr", "-");
            let running = run(daemon, &directory.0, addr);
            all_there();
            drop(running);
            proxy.finish(());
        });
    }
}

/// What the log says about servers, without who has which of several addresses; in order, as far as one server is concerned.
fn told(proxy: &Proxy) -> Vec<String> {
    let about = |line: &&str| {
        ["IP changed", "UP/READY", "READY thanks", "going DOWN", "FQDN"]
            .iter()
            .any(|what| line.contains(what))
    };
    // A line on the standard error begins with its severity and the process.
    let output = proxy.output();
    let lines = output.lines().filter(about).filter_map(|line| line.split_once(" : ").map(|(_, line)| line));
    // How many servers are left depends on what else happened in that moment.
    let mut lines: Vec<String> =
        lines.map(|line| line.split(". ").next().unwrap_or(line).trim_end_matches('.').to_owned()).collect();
    lines.sort();
    lines
}

/// `show servers state` without what counts time and what checks did.
fn states(proxy: &Proxy) -> String {
    let state = tell(proxy, "show servers state");
    let mut out = String::new();
    for line in state.lines().skip(2).filter(|line| !line.is_empty()) {
        let of = |range: std::ops::Range<usize>| line.split(' ').collect::<Vec<_>>()[range].join(" ");
        out.push_str(&format!("{} {}\n", of(1..9), of(17..20)));
    }
    out
}

#[test]
fn the_reference_says_the_same() {
    let Some(reference) = support::reference() else {
        eprintln!("skipped: no HAProxy found to compare with (set HAPROXY_ORACLE)");
        return;
    };
    let play = |program: Option<&Path>| {
        let dns = NameServer::start();
        for (i, name) in ["nx", "refused", "failed", "empty", "moved"].iter().enumerate() {
            dns.set(&format!("{name}.test"), &[&format!("127.1.0.{}", i + 1)]);
        }
        dns.set("x1.test", &["127.1.1.1"]);
        dns.set_service("_s._tcp.test", &[((1, 600, 81), "x1.test")]);
        let text = format!(
            "{}backend b\nserver nx nx.test:80 resolvers dns init-addr none resolve-prefer ipv4\n\
             server refused refused.test:80 resolvers dns init-addr none resolve-prefer ipv4\n\
             server failed failed.test:80 resolvers dns init-addr none resolve-prefer ipv4\n\
             server empty empty.test:80 resolvers dns init-addr none resolve-prefer ipv4\n\
             server moved moved.test:80 resolvers dns init-addr none resolve-prefer ipv4\n\
             backend sv\nserver-template t 1 _s._tcp.test resolvers dns init-addr none resolve-prefer ipv4\n\
             listen l\nbind <@fe>",
            section(&[("ns", &dns)])
        );
        let mut setup = Setup::http(&text).global("stats socket <@dir>/cli level admin");
        if let Some(program) = program {
            setup = setup.program(program);
        }
        let proxy = setup.start("epoll");
        eventually("the CLI", || std::os::unix::net::UnixStream::connect(proxy.path("cli")).ok());
        let servers = ["nx", "refused", "failed", "empty", "moved", "t1"];
        servers.iter().for_each(|server| is(&proxy, server, "srv_op_state", "2"));
        let begun = states(&proxy);
        dns.say_always("nx.test", &Said::Reply(Reply::code(3)));
        dns.say_always("refused.test", &Said::Reply(Reply::code(5)));
        dns.say_always("failed.test", &Said::Reply(Reply::code(2)));
        dns.say_always("empty.test", &Said::Reply(Reply::default()));
        dns.set("moved.test", &["127.1.0.9"]);
        dns.say_always("_s._tcp.test", &Said::Reply(Reply::code(3)));
        for server in ["nx", "refused", "failed", "empty", "t1"] {
            is(&proxy, server, "srv_op_state", "0");
            is(&proxy, server, "srv_addr", "-");
        }
        is(&proxy, "moved", "srv_addr", "127.1.0.9");
        let gone = states(&proxy);
        for (i, name) in ["nx", "refused", "failed", "empty"].iter().enumerate() {
            dns.set(&format!("{name}.test"), &[&format!("127.1.0.{}", i + 1)]);
        }
        dns.set_service("_s._tcp.test", &[((1, 600, 81), "x1.test")]);
        servers.iter().for_each(|server| is(&proxy, server, "srv_op_state", "2"));
        let back = states(&proxy);
        let lines = told(&proxy);
        proxy.finish(());
        (begun, gone, back, lines)
    };
    let (ours, theirs) = (play(None), play(Some(&reference)));
    assert_eq!(ours.0, theirs.0, "at the beginning");
    assert_eq!(ours.1, theirs.1, "when names fail");
    assert_eq!(ours.2, theirs.2, "when they are back");
    assert!(theirs.3.len() > 20, "{:?}", theirs.3);
    assert_eq!(ours.3, theirs.3, "in the log");
}
