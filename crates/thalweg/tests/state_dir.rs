//! `state-dir`: what is known of servers and what was counted outlives a process that is killed.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use support::{Conn, Proxy, Server, Setup, each_driver, eventually, free_port, own_ip, program};

fn cli(proxy: &Proxy, line: &str) -> String {
    proxy.tell("cli", line)
}

/// A directory that outlives a process.
struct Kept(PathBuf);

impl Kept {
    fn new(name: &str) -> Kept {
        let path = std::env::temp_dir().join(format!("thalweg-state-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Kept(path)
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn setup(directory: &Path, server: &Server, more: &str) -> Setup {
    let text = format!(
        "frontend fe\n  guid fe\n  bind <@fe>\n  default_backend be\nbackend be\n  guid be\n  server a {0} weight 10 guid a\n\
         \x20 server b {0} weight 10\n{more}",
        server.addr
    );
    Setup::http(&text)
        .global("stats socket <@dir>/cli level admin")
        .global(&format!("state-dir {}", directory.display()))
}

fn ask(proxy: &Proxy) {
    let mut client = Conn::connect(proxy.addr("fe"));
    client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_eq!(client.response().status, 200);
    client.ended();
}

/// Where a server stands and what it weighs.
fn row(proxy: &Proxy, server: &str) -> Vec<String> {
    let text = cli(proxy, "show servers state be");
    let row = text.lines().find(|row| row.split(' ').nth(3) == Some(server)).expect("a row of the server");
    row.split(' ').skip(5).take(3).map(str::to_owned).collect()
}

/// A process is killed when the files say what was done, and the next one goes on from there.
#[test]
fn a_process_that_is_killed_is_remembered() {
    each_driver(|io| {
        let (kept, server) = (Kept::new(io), Server::named("one"));
        let proxy = setup(&kept.0, &server, "").start(io);
        cli(&proxy, "set weight be/a 7; disable server be/b");
        (0..3).for_each(|_| ask(&proxy));
        eventually("the next second is over", || {
            let counters = kept.file("counters");
            let is_counted = counters.lines().any(|line| line.starts_with("fe,") && line.contains(",3,"));
            let servers = kept.file("servers");
            (is_counted
                && servers.contains(" a ")
                && row(&proxy, "a")[2] == "7"
                && servers.contains(" 7 10 "))
            .then_some(())
        });
        let before = [row(&proxy, "a"), row(&proxy, "b")];
        // Dropping it kills it.
        drop(proxy);
        let proxy = setup(&kept.0, &server, "").start(io);
        assert_eq!([row(&proxy, "a"), row(&proxy, "b")], before, "{io}");
        assert_eq!((&*before[0][2], &*before[1][1]), ("7", "1"), "{io}");
        ask(&proxy);
        eventually("the counters went on", || {
            let dump = cli(&proxy, "dump stats-file");
            dump.lines().any(|line| line.starts_with("fe,") && line.contains(",4,")).then_some(())
        });
        drop(proxy);
        // A backend that says so begins anew.
        let proxy = setup(&kept.0, &server, "  load-server-state-from-file none\n").start(io);
        assert_eq!(row(&proxy, "a")[2], "10", "{io}");
        proxy.finish(server);
    });
}

/// A file that is torn or foreign is told, and nothing else is lost.
#[test]
fn files_that_are_not_whole_are_not_used() {
    each_driver(|io| {
        let (kept, server) = (Kept::new(&format!("torn-{io}")), Server::named("one"));
        let proxy = setup(&kept.0, &server, "").start(io);
        cli(&proxy, "set weight be/a 7");
        ask(&proxy);
        let whole = eventually("both files are there", || {
            let servers = kept.file("servers");
            (servers.contains(" 7 10 ") && kept.file("counters").contains("fe,")).then_some(servers)
        });
        drop(proxy);
        fs::write(kept.0.join("servers"), &whole[..whole.len() / 2]).unwrap();
        fs::write(kept.0.join("counters"), "#fe guid,stot,\nfe,1000,\n").unwrap();
        let proxy = setup(&kept.0, &server, "").start(io);
        let said = proxy.output();
        for file in ["servers", "counters"] {
            let wanted = format!("/{file}' is not whole, or was not written by this program");
            assert!(said.contains(&wanted), "{io}: {wanted} in\n{said}");
        }
        assert_eq!(row(&proxy, "a")[2], "10", "{io}");
        ask(&proxy);
        eventually("they are written anew", || {
            let counters = kept.file("counters");
            let is_whole = counters.contains("# state-dir 1 ") && !counters.contains(",1000,");
            (is_whole && kept.file("servers").contains(" 10 10 ")).then_some(())
        });
        drop(proxy);
        drop(server);
    });
}

/// Tables of all kinds of keys, and one that a limit makes.
const TABLES: &str = "backend ip\n  stick-table type ip size 100 expire 1h store gpc0,http_req_rate(1h),bytes_in_cnt\n\
    backend text\n  stick-table type string len 20 size 100 store gpc(3),gpt0\n\
    frontend limited\n  bind <@limited>\n  http-request limit rate 3/1h by path\n  http-request return status 200\n";

/// The entries of a table, without their pointers and deadlines.
fn entries(proxy: &Proxy, table: &str) -> Vec<String> {
    let shown = cli(proxy, &format!("show table {table}"));
    let own = |word: &&str| !word.starts_with("0x") && !word.starts_with("exp=");
    let lines = shown.lines().filter(|line| line.starts_with("0x"));
    let mut lines: Vec<String> =
        lines.map(|line| line.split(' ').filter(own).collect::<Vec<_>>().join(" ")).collect();
    lines.sort();
    lines
}

/// Waits until all that was done so far is in the file: the first mark may have come in the middle of a look at the tables, the
/// second one came behind that.
fn tables_are_written(proxy: &Proxy, kept: &Kept, mark: &str) {
    for n in 0..2 {
        let key = format!("{mark}-{n}");
        cli(proxy, &format!("set table text key {key} data.gpt0 1"));
        eventually("the tables are written", || {
            let file = fs::read(kept.0.join("tables")).unwrap_or_default();
            file.windows(key.len()).any(|bytes| bytes == key.as_bytes()).then_some(())
        });
    }
}

/// What tables held is there again after a kill, with its age; what was cleared is not, and what is not whole is told.
#[test]
fn tables_outlive_a_kill() {
    each_driver(|io| {
        let (kept, server) = (Kept::new(&format!("tables-{io}")), Server::named("one"));
        let start = |more: &str| setup(&kept.0, &server, more).start(io);
        let limited = |proxy: &Proxy| {
            let mut client = Conn::connect(proxy.addr("limited"));
            client.send("GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            client.response().status
        };
        let proxy = start(TABLES);
        for n in 1..30 {
            cli(&proxy, &format!("set table ip key 10.0.0.{n} data.gpc0 {n} data.http_req_rate {n}"));
        }
        cli(
            &proxy,
            "set table text key gone data.gpt0 7; set table ip key 10.0.0.1 data.bytes_in_cnt 5000000000",
        );
        assert_eq!([limited(&proxy), limited(&proxy)], [200, 200], "{io}");
        tables_are_written(&proxy, &kept, "first");
        cli(
            &proxy,
            "set table text key a data.gpc[2] 9; clear table text key gone; clear table ip key 10.0.0.2",
        );
        tables_are_written(&proxy, &kept, "second");
        let before = ["ip", "text"].map(|table| entries(&proxy, table));
        assert_eq!(before.each_ref().map(Vec::len), [28, 5], "{io}");
        drop(proxy);
        let proxy = start(TABLES);
        assert_eq!(["ip", "text"].map(|table| entries(&proxy, table)), before, "{io}: {}", proxy.output());
        let left = cli(&proxy, "show table ip key 10.0.0.1");
        let left = left.split("exp=").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        assert!(left.is_some_and(|ms: u32| (1..3_600_000).contains(&ms)), "{io}: {left:?}");
        assert_eq!([limited(&proxy), limited(&proxy)], [200, 429], "{io}: one token was left");
        tables_are_written(&proxy, &kept, "third");
        drop(proxy);
        // The end of the file is torn; and one of the tables has other keys.
        let file = fs::read(kept.0.join("tables")).unwrap();
        fs::write(kept.0.join("tables"), [&file[..], b"thalwtb1 and no more"].concat()).unwrap();
        let proxy = start(&TABLES.replace("string len 20", "string len 30"));
        let said = proxy.output();
        assert!(said.contains("'tables': table 'text' has other keys than before"), "{io}: {said}");
        assert!(said.contains("'tables': what follows is not whole"), "{io}: {said}");
        assert_eq!(entries(&proxy, "ip"), before[0], "{io}");
        assert_eq!(entries(&proxy, "text"), Vec::<String>::new(), "{io}");
        tables_are_written(&proxy, &kept, "fourth");
        drop(proxy);
        // What this program did not write is told, and written anew.
        fs::write(kept.0.join("tables"), "something else").unwrap();
        let proxy = start(TABLES);
        let said = proxy.output();
        assert!(said.contains("'tables': what follows is not whole"), "{io}: {said}");
        assert_eq!(entries(&proxy, "ip"), Vec::<String>::new(), "{io}");
        tables_are_written(&proxy, &kept, "fifth");
        proxy.finish(server);
    });
}

/// Nobody starts who could not keep anything.
#[test]
fn a_directory_that_is_not_there_is_told() {
    let kept = Kept::new("none");
    let file = kept.0.join("cfg");
    let text = format!(
        "global\n  state-dir {}/none\ndefaults\n  mode http\n  timeout client 1s\nfrontend fe\n  bind {}\n",
        kept.0.display(),
        free_port(own_ip())
    );
    fs::write(&file, text).unwrap();
    let ended = program().arg("-f").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("/none : No such file or directory"), "{said}");
}
