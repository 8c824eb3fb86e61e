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
