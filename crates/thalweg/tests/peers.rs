//! Processes that share stick tables (configuration manual, section 11.2): among themselves, with an installed HAProxy, across
//! a reload, and with whoever does not keep to the rules.

mod support;

use std::net::SocketAddrV4;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use support::tls::Authority;
use support::{Conn, Io, Proxy, Setup, each_driver, eventually, free_port, nobody, own_ip, reference};

fn cli(proxy: &Proxy, command: &str) -> String {
    proxy.tell("sock", command)
}

/// All kinds of keys and of data.
const TABLES: &str = "table v4 type ip size 1000 expire 1h store gpt0,gpc0,gpc0_rate(1h),conn_cnt,conn_rate(1h),sess_cnt,\
    sess_rate(1h),http_req_cnt,http_req_rate(1h),http_err_cnt,http_err_rate(1h),bytes_in_cnt,bytes_in_rate(1h),\
    bytes_out_cnt,bytes_out_rate(1h),gpc1,gpc1_rate(1h),http_fail_cnt,http_fail_rate(1h),glitch_cnt,glitch_rate(1h),\
    server_id,conn_cur\n\
    table v6 type ipv6 size 100 store gpt(3),gpc(4),gpc_rate(2,1h)\n\
    table i type integer size 100 store gpc0\n\
    table s type string len 40 size 2000 store gpc0,server_key\n";

const NAMES: [&str; 5] = ["p/v4", "p/v6", "p/i", "p/s", "own"];

fn section(peers: &[(&str, SocketAddrV4)]) -> String {
    let peers: String = peers.iter().map(|(name, addr)| format!("peer {name} {addr}\n")).collect();
    format!(
        "peers p\nlog stdout format raw local0\n{peers}{TABLES}backend own\nstick-table type string size 100 peers p store gpc0\nfrontend fe\nbind <@fe>\n"
    )
}

fn setup(local: &str, text: &str) -> Setup {
    let global = format!("localpeer {local}\nstats socket <@dir>/sock level admin");
    Setup::http(text).global(&global)
}

/// Starts a process, and waits until all of it listens: when the CLI answers, its peers can connect.
fn started(setup: &Setup, io: Io) -> Proxy {
    let proxy = setup.start(io);
    cli(&proxy, "show info");
    proxy
}

/// The entries of a table, each without its pointer, its deadline and the number of connections, which is not learnt.
fn entries(proxy: &Proxy, table: &str) -> Vec<String> {
    let own = |word: &&str| !["exp=", "conn_cur=", "0x"].iter().any(|start| word.starts_with(start));
    let dump = cli(proxy, &format!("show table {table}"));
    let lines = dump.lines().filter(|line| line.starts_with("0x"));
    let mut lines: Vec<String> =
        lines.map(|line| line.split(' ').filter(own).collect::<Vec<_>>().join(" ")).collect();
    lines.sort();
    lines
}

fn agree(what: &str, proxies: &[&Proxy], count: usize) {
    eventually(what, || {
        let all = |proxy: &&Proxy| NAMES.map(|table| entries(proxy, table));
        let first = all(&proxies[0]);
        let found: usize = first.iter().map(Vec::len).sum();
        (found == count && proxies.iter().all(|proxy| all(proxy) == first)).then_some(())
    });
}

/// Changes entries of all tables, others for each `n`.
fn change(proxy: &Proxy, n: u32) {
    let kinds = "gpt0 gpc0 conn_cnt sess_cnt http_req_cnt http_err_cnt bytes_in_cnt bytes_out_cnt gpc1 http_fail_cnt \
                 glitch_cnt gpc0_rate conn_rate sess_rate http_req_rate http_err_rate bytes_in_rate bytes_out_rate \
                 gpc1_rate http_fail_rate glitch_rate server_id conn_cur";
    let values: String = kinds
        .split_whitespace()
        .enumerate()
        .map(|(i, kind)| format!(" data.{kind} {}", n * 1000 + i as u32))
        .collect();
    let huge = 5_000_000_000u64 + u64::from(n);
    for command in [
        format!("set table p/v4 key 10.0.0.{n}{values} data.bytes_in_cnt {huge}"),
        format!("set table p/v6 key 2001:db8::{n} data.gpt[2] {n} data.gpc[3] {} data.gpc_rate[1] 7", n + 5),
        format!("set table p/i key {} data.gpc0 {n}", n * 70_000),
        format!("set table p/s key key{n} data.gpc0 {n}"),
        format!("set table own key own{n} data.gpc0 {n}"),
    ] {
        assert_eq!(cli(proxy, &command).trim(), "", "{command}");
    }
}

/// Changes so many entries of one table.
fn change_many(proxy: &Proxy, count: u32, round: u32) {
    for from in (0..count).step_by(100) {
        let set = |n: u32| format!("set table p/s key many{n} data.gpc0 {};", n + round);
        cli(proxy, &(from..from + 100).map(set).collect::<String>());
    }
}

fn is_connected(proxy: &Proxy) -> bool {
    cli(proxy, "show peers").contains("(remote,active)")
}

/// Ours and the reference, whoever connects to whom: what each one changes is what the other one has.
#[test]
fn ours_and_the_reference_agree() {
    let Some(reference) = reference() else { return };
    each_driver(|io| {
        for we_connect in [true, false] {
            let (a, b) = (free_port(own_ip()), free_port(own_ip()));
            let start = |local: &str, program: Option<&Path>| {
                // Who is not to connect knows a wrong address.
                let is_passive = (local == "A") != we_connect;
                let of = |name, addr| if local != name && is_passive { nobody() } else { addr };
                let setup = setup(local, &section(&[("A", of("A", a)), ("B", of("B", b))]));
                match program {
                    Some(program) => started(&setup.program(program), io),
                    None => started(&setup, io),
                }
            };
            let theirs = start("B", Some(&reference));
            change(&theirs, 1);
            let ours = start("A", None);
            change(&ours, 2);
            agree("what was there before is exchanged", &[&ours, &theirs], 10);
            for n in 3..30 {
                change(if n % 2 == 0 { &ours } else { &theirs }, n);
            }
            agree("changes are exchanged", &[&ours, &theirs], 29 * 5);
            // The same entry, there and back.
            change(&theirs, 2);
            change(&ours, 1);
            cli(&ours, "set table p/i key 70000 data.gpc0 111");
            cli(&theirs, "set table p/i key 140000 data.gpc0 222");
            agree("changes of the other one's entries are exchanged", &[&ours, &theirs], 29 * 5);
            let shown = cli(&theirs, "show table p/i key 70000");
            assert!(shown.contains("gpc0=111"), "{shown}");
            // One that starts anew is taught.
            drop(theirs);
            let theirs = start("B", Some(&reference));
            agree("the reference is taught", &[&ours, &theirs], 29 * 5);
            drop(ours);
            let ours = start("A", None);
            agree("ours is taught", &[&ours, &theirs], 29 * 5);
        }
    });
}

/// Three of ours, one over a unix socket, one over TLS.
#[test]
fn three_agree_over_all_kinds_of_connections() {
    each_driver(|io| {
        let authority = Authority::new("peers");
        let certificate = authority.issue("peers.example");
        let path = authority.path("b.sock");
        let (a, c) = (free_port(own_ip()), free_port(own_ip()));
        let start = |local: &str, lines: &str| {
            let text = section(&[]).replace("peers p\n", &format!("peers p\n{lines}"));
            started(&setup(local, &text), io)
        };
        let servers = |mine: &str, a_ssl: &str, c_ssl: &str| {
            let line = |name: &str, address: &str, more: &str| match name == mine {
                true => format!("server {name}{more}\n"),
                false => format!("server {name} {address}{more}\n"),
            };
            line("A", &a.to_string(), a_ssl) + &line("B", &path, "") + &line("C", &c.to_string(), c_ssl)
        };
        let plain = "";
        // Who asks for no name, or another one, is not served.
        let encrypted = " ssl verify none sni str(peers.example)";
        let one = start("A", &format!("bind {a}\n{}", servers("A", plain, encrypted)));
        let two = start("B", &format!("bind {path}\n{}", servers("B", plain, encrypted)));
        let three = start(
            "C",
            &format!("bind {c} ssl crt {certificate} strict-sni\n{}", servers("C", plain, encrypted)),
        );
        for n in 1..10 {
            change([&one, &two, &three][n as usize % 3], n);
        }
        agree("all know all", &[&one, &two, &three], 45);
        for proxy in [&one, &two, &three] {
            // Two that connected to each other at the same moment are at it again; the third one told them what they missed.
            eventually("all are connected", || {
                cli(proxy, "show info").contains("ConnectedPeers: 2\n").then_some(())
            });
        }
    });
}

/// A reload: the new process has what the old one knew, with the time that it has left, and the old one ends.
#[test]
fn tables_outlive_a_reload() {
    each_driver(|io| {
        let here = free_port(own_ip());
        let setup = setup("A", &section(&[("A", here), ("B", nobody())]));
        let mut old = started(&setup, io);
        for n in 1..50 {
            change(&old, n);
        }
        // Many more than fit into one batch.
        change_many(&old, 1000, 0);
        let before = NAMES.map(|table| entries(&old, table));
        assert_eq!(before.iter().map(Vec::len).sum::<usize>(), 49 * 5 + 1000);
        let new = setup.start_beside(io, &old, vec!["-sf".into(), old.id().to_string()]);
        eventually("the new process knows all", || {
            (NAMES.map(|table| entries(&new, table)) == before).then_some(())
        });
        assert_eq!(old.end().0, Some(0), "{}", old.output());
        let left = cli(&new, "show table p/v4 key 10.0.0.1");
        let left: u32 = left.split("exp=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(left < 3_600_000, "{left}");
        new.finish(());
    });
}

/// Behind a proxy that introduces its clients, peers say who they are after it did; nobody comes in without it.
#[test]
fn peers_come_through_proxies() {
    each_driver(|io| {
        let here = free_port(own_ip());
        let lines = format!("bind {here} accept-proxy\nserver A\nserver B {}\n", nobody());
        let text = section(&[]).replace("peers p\n", &format!("peers p\n{lines}"));
        let proxy = started(&setup("A", &text), io);
        assert!(!hello(here, "HAProxyS 2.1\nA\nB 1 0\n").starts_with("200"), "{io}");
        for header in ["PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", "PROXY UNKNOWN\r\n"] {
            let mut peer = Conn::connect(here);
            peer.send(format!("{header}HAProxyS 2.1\nA\nB 1 0\n"));
            assert_eq!(peer.exactly(4), b"200\n", "{io}: {header}");
            assert!(is_connected(&proxy), "{io}");
        }
        proxy.finish(());
    });
}

/// A stop without a successor waits for nobody.
#[test]
fn who_has_no_successor_ends() {
    each_driver(|io| {
        let proxy = started(&setup("A", &section(&[("A", free_port(own_ip())), ("B", nobody())])), io);
        change(&proxy, 1);
        proxy.finish(());
    });
}

/// A connection to the listener of `proxy` at `addr`, introduced as `B`.
fn introduced(addr: SocketAddrV4) -> Conn {
    let mut peer = Conn::connect(addr);
    peer.send("HAProxyS 2.1\nA\nB 1 0\n");
    assert_eq!(peer.exactly(4), b"200\n");
    peer
}

fn hello(addr: SocketAddrV4, text: &str) -> String {
    let mut peer = Conn::connect(addr);
    peer.send(text);
    String::from_utf8_lossy(&peer.rest()).into_owned()
}

/// Who says hello badly is told so; who breaks the rules later is told so and left; the process goes on.
#[test]
fn strangers_and_liars_are_left() {
    each_driver(|io: Io| {
        let here = free_port(own_ip());
        let proxy = started(&setup("A", &section(&[("A", here), ("B", nobody())])), io);
        for (text, answer) in [
            ("HAProxyX 2.1\nA\nB 1 0\n", "501\n"),
            ("HAProxyS 2.2\nA\nB 1 0\n", "502\n"),
            ("HAProxyS 2.1\nX\nB 1 0\n", "503\n"),
            ("HAProxyS 2.1\nA\nX 1 0\n", "504\n"),
            (&"x".repeat(5000), "501\n"),
        ] {
            assert_eq!(hello(here, text), answer, "{text}");
        }
        let definition = b"\x0a\x82\x09\x07\x02/i\x02\x04\x04\x00\x00";
        for (messages, complaint) in [
            // No table was defined.
            (&b"\x0a\x80\x09\0\0\0\x01\0\0\0\x01\x05"[..], b"\x01\0"),
            // An entry that ends too early.
            (&[&definition[..], b"\x0a\x80\x05\0\0\0\x01\0"].concat(), b"\x01\0"),
            // A length that no message has.
            (b"\x0a\x80\xff\xff\xff\x7f", b"\x01\x01"),
            (b"\x0a\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x01\0"),
        ] {
            let mut peer = introduced(here);
            peer.send(messages);
            let rest = peer.rest();
            assert!(rest.ends_with(complaint), "{messages:?}: {rest:?}");
        }
        // Tables that are not known, and kinds of data that are not, are passed over.
        let mut peer = introduced(here);
        peer.send(b"\x0a\x82\x09\x07\x02/x\x02\x04\x04\x00\x00");
        peer.send(b"\x0a\x80\x09\0\0\0\x01\0\0\0\x01\x05");
        peer.send(definition);
        peer.send(b"\x0a\x80\x09\0\0\0\x02\0\0\0\x08\x05\x0b\xff\x02ab");
        eventually("the entry is there", || {
            cli(&proxy, "show table p/i key 8").contains("gpc0=5").then_some(())
        });
        assert_eq!(entries(&proxy, "p/i").len(), 1);
        // A second connection of the same peer takes the place of the first.
        let other = introduced(here);
        peer.rest();
        drop(other);
        proxy.finish(());
    });
}

/// A peer that never reads does not make the process hold what it changes meanwhile.
#[test]
fn who_never_reads_costs_little() {
    each_driver(|io| {
        let here = free_port(own_ip());
        let proxy = started(&setup("A", &section(&[("A", here), ("B", nobody())])), io);
        let _silent = introduced(here);
        assert!(is_connected(&proxy));
        let before = proxy.resident_kb();
        for round in 0..40 {
            change_many(&proxy, 500, round);
        }
        let grown = proxy.resident_kb().saturating_sub(before);
        assert!(grown < 20_000, "{grown} kB");
        proxy.finish(());
    });
}

/// A peer that says more than the process takes, which never waits for it then, holds nobody up.
#[test]
fn who_never_stops_holds_nobody_up() {
    each_driver(|io| {
        let here = free_port(own_ip());
        let text = section(&[("A", here), ("B", nobody())]) + "http-request return status 200\n";
        let proxy = started(&setup("A", &text), io);
        let mut peer = introduced(here);
        // A table that is not known costs least, and so it is what there can be most of.
        peer.send(b"\x0a\x82\x09\x07\x02/x\x02\x04\x04\x00\x00");
        let flood = b"\x0a\x80\x09\0\0\0\x01\0\0\0\x01\x05".repeat(100_000);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    peer.send(&flood);
                }
            });
            let ask = || proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status;
            let answers = catch_unwind(AssertUnwindSafe(|| [(); 5].map(|()| ask())));
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(answers.unwrap(), [200; 5]);
        });
        proxy.finish(());
    });
}

/// A peer that stands still is left, and told what it missed when it goes on; one that was killed and comes back empty is
/// taught.
#[test]
fn who_stands_still_or_dies_comes_back() {
    each_driver(|io| {
        let (a, b) = (free_port(own_ip()), free_port(own_ip()));
        let start = |local: &str| started(&setup(local, &section(&[("A", a), ("B", b)])), io);
        let (one, two) = (start("A"), start("B"));
        change(&one, 1);
        change(&two, 2);
        agree("both know both", &[&one, &two], 10);
        two.stand_still();
        change(&one, 3);
        eventually("who stands still is left", || (!is_connected(&one)).then_some(()));
        change(&one, 4);
        two.go_on();
        agree("what was missed arrives", &[&one, &two], 20);
        drop(two);
        eventually("who died is left", || (!is_connected(&one)).then_some(()));
        change(&one, 5);
        let two = start("B");
        agree("who comes back empty is taught", &[&one, &two], 25);
    });
}

/// What three processes say that all of them counted.
fn fleet_says(what: &str, proxies: &[&Proxy], count: &str) {
    for (n, proxy) in proxies.iter().enumerate() {
        eventually(&format!("{what}: {count} at {n}"), || {
            (proxy.ask("GET /look HTTP/1.1\r\nHost: h\r\n\r\n").text() == count).then_some(())
        });
    }
}

/// Each process counts its own requests, and knows the sum: also of those that it cannot reach any more, and those that come
/// back without memory count from nothing.
#[test]
fn a_fleet_knows_its_sums() {
    each_driver(|io| {
        let addresses = [(); 3].map(|()| free_port(own_ip()));
        let start = |local: &str| {
            let peers: String = ["A", "B", "C"]
                .iter()
                .zip(addresses)
                .map(|(name, addr)| format!("peer {name} {addr}\n"))
                .collect();
            let text = format!(
                "peers p\n{peers}table f type string len 20 size 100 expire 1h fleet store http_req_cnt,http_req_rate(1h),gpc(2),gpt0\n\
                 frontend fe\nbind <@fe>\nhttp-request track-sc0 str(other) table p/f if {{ path /other }}\n\
                 http-request track-sc0 str(k) table p/f unless {{ path /look }}\n\
                 http-request sc-add-gpc(1,0) 10 unless {{ path /look }}\n\
                 http-request return status 200 content-type text/plain lf-string \
                 \"%[str(k),table_http_req_cnt_all(p/f)] %[str(k),table_http_req_rate_all(p/f)] \
                 %[str(k),table_gpc_all(1,p/f)]\" if {{ path /look }}\n\
                 http-request return status 200 content-type text/plain lf-string \
                 \"%[sc_http_req_cnt(0)]\"\n"
            );
            started(&setup(local, &text), io)
        };
        let count = |proxy: &Proxy, times: usize| {
            let said = || proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").text();
            (1..times).for_each(|_| _ = said());
            said()
        };
        let (one, two, three) = (start("A"), start("B"), start("C"));
        for (proxy, times) in [(&one, 3), (&two, 4), (&three, 5)] {
            assert_eq!(count(proxy, times), times.to_string(), "a share is one's own");
        }
        fleet_says("all count together", &[&one, &two, &three], "12 12 120");
        // `show table` says both what this process counted and the sum, which filters and orders can be about.
        for filter in
            ["", " data.http_req_cnt_all gt 11", " data.gpc_all[1] eq 120", " top 1 by http_req_rate_all"]
        {
            let shown = cli(&two, &format!("show table p/f{filter}"));
            let wanted = " gpt0=0 http_req_cnt=4 http_req_cnt_all=12 http_req_rate(3600000)=4 http_req_rate_all(3600000)=12 \
                          gpc0=0 gpc0_all=0 gpc1=40 gpc1_all=120\n";
            assert!(shown.contains(wanted), "{filter}: {shown}");
        }
        assert!(!cli(&two, "show table p/f data.gpc_all[1] gt 120").contains("key="));
        // Keys that only others have are shown behind its own, by who looks at all and who looks for the largest.
        assert_eq!(three.ask("GET /other HTTP/1.1\r\nHost: h\r\n\r\n").text(), "1");
        for filter in ["", " data.http_req_cnt_all eq 1", " top 2 by http_req_cnt_all"] {
            let shown = eventually("it is heard of", || {
                let shown = cli(&two, &format!("show table p/f{filter}"));
                shown.contains("key=other").then_some(shown)
            });
            let other = shown.lines().find(|line| line.contains("key=other")).unwrap();
            assert!(other.starts_with("0x0: key=other use=0 exp="), "{other}");
            assert!(
                other.ends_with(
                    "http_req_cnt=0 http_req_cnt_all=1 http_req_rate(3600000)=0 http_req_rate_all(3600000)=1 \
                                     gpc0=0 gpc0_all=0 gpc1=0 gpc1_all=10"
                ),
                "{other}"
            );
            assert_eq!(shown.matches("key=").count(), if filter.contains("eq 1") { 1 } else { 2 }, "{shown}");
        }
        assert!(!cli(&two, "show table p/f data.http_req_cnt gt 0").contains("key=other"));
        assert_eq!(count(&one, 1), "4", "what others count is not in it");
        two.stand_still();
        count(&three, 1);
        fleet_says("what was known of who stands still stays", &[&one, &three], "14 14 140");
        two.go_on();
        fleet_says("who was away hears of it", &[&two], "14 14 140");
        drop(two);
        fleet_says("what was known of who died stays", &[&one, &three], "14 14 140");
        let two = start("B");
        fleet_says("who comes back knows what the others counted", &[&two], "10 10 100");
        assert_eq!(count(&two, 1), "1");
        fleet_says("and counts from nothing", &[&one, &two, &three], "11 11 110");
    });
}
