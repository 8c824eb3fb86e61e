//! The runtime CLI over its sockets, against the started program (management manual, section 9.3).

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use support::{Setup, Silent, each_driver, eventually};

/// The program with a configuration that has something for every command, in a directory of its own.
struct Program {
    directory: PathBuf,
    child: Child,
}

impl Program {
    fn start(name: &str, global: &str) -> Program {
        let directory = std::env::temp_dir().join(format!("thalweg-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("m.map"), "k1 v1\nk2 v2 x\n").unwrap();
        fs::write(directory.join("a.acl"), "/p\n/q\n").unwrap();
        let d = directory.display();
        let configuration = format!(
            "global\n  nbthread 2\n  maxconn 100\n  set-var proc.five int(5)\n  set-var-fmt proc.fmt \"a%[int(3)]\"\n\
             \x20 stats socket {d}/admin mode 600 level admin\n  stats socket {d}/user level user\n{global}\n\
             defaults\n  mode http\n  log global\n  option httplog\n  timeout client 5s\n  timeout server 5s\n  timeout connect 5s\n  retries 0\n\
             frontend fe\n  bind unix@{d}/fe name b1\n  bind unix@{d}/fe2\n  option socket-stats\n\
             \x20 http-request set-header x-map %[path,map({d}/m.map)]\n\
             \x20 http-request deny if {{ path -f {d}/a.acl }}\n  use_backend late if {{ path_beg /late }}\n  use_backend be\n  default_backend spare\n\
             backend be\n  balance roundrobin\n  server s1 unix@{d}/none maxconn 7\n  server s2 127.0.0.1:9 weight 10 disabled\n\
             backend still\n  balance static-rr\n  server t1 127.0.0.1:9 weight 10\n\
             backend late\n  server s unix@{d}/sv\n\
             backend spare\n  http-request return status 200\n\
             backend off\n  disabled\n  http-request return status 200\n"
        );
        fs::write(directory.join("test.cfg"), configuration).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_thalweg"))
            .args(["-f", "test.cfg"])
            .current_dir(&directory)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let program = Program { directory, child };
        for socket in ["admin", "user", "fe"] {
            eventually("it listens", || UnixStream::connect(program.path(socket)).ok());
        }
        program
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Sends lines to a socket, says that there are no more, and reads the whole answer.
    fn ask_on(&self, socket: &str, lines: &str) -> String {
        exchange(&self.path(socket), &format!("{lines}\n"))
    }

    fn ask(&self, lines: &str) -> String {
        self.ask_on("admin", lines)
    }

    /// The status of a request to the frontend.
    fn request(&self, path: &str) -> String {
        // Not closed before the answer: whoever hangs up on a backend gets none (`option abortonclose`).
        let mut stream = UnixStream::connect(self.path("fe")).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.get(9..12).unwrap_or("").to_string()
    }
}

fn exchange(path: &Path, bytes: &str) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn every_command_answers() {
    let program = Program::start("cli-all", "");
    let map = program.path("m.map").display().to_string();
    let pid = format!("\nPid: {}\n", program.child.id());
    let steps = [
        ("help", "The following commands are valid at this level:\n"),
        ("help show map", "  show map "),
        ("prompt help", "Usage: prompt"),
        ("show version", "\n\n"),
        ("show info", &pid),
        ("show info typed", "\n6.Pid.1:SGPV:u32:"),
        ("show info json", "[{\"field\":{\"pos\":0,\"name\":\"Name\"},\"processNum\":1,"),
        ("show info desc", "Nbthread: 2:\""),
        ("show stat", "# pxname,svname,qcur,"),
        ("show stat", "\nbe,s2,0,0,0,0,,0,0,0,,0,,0,0,0,0,MAINT,10,1,0,"),
        ("show stat", "\nfe,b1,,,0,"),
        ("show stat", "\nfe,sock-2,,,0,"),
        ("show stat typed", "\nB.3.0.76.algo.1:CGSV:str:roundrobin\n"),
        ("show stat typed", ".h1_spliced_bytes_in.1:MCPV:u64:0\n"),
        ("show stat typed desc", "F.2.0.0.pxname.1:KNSV:str:fe:\"Name of the proxy\"\n"),
        ("show stat json", "[[{\"objType\":\"Frontend\",\"proxyId\":2,\"id\":0,"),
        ("show stat be 4 -1", "\nbe,s1,"),
        ("show stat nope 1 -1", "No such proxy.\n\n"),
        ("show stat domain foo", "Invalid statistics domain.\n\n"),
        ("show schema json", "{\"$schema\":"),
        ("show env NOPE", "Variable not found\n\n"),
        ("show errors", " : 0\n\n"),
        ("show errors nope", "No such proxy.\n\n"),
        ("show backend", "# name\nbe\nstill\nlate\nspare\noff\n\n"),
        ("show cli level", "admin\n\n"),
        ("show cli sockets", "/admin admin all\n"),
        ("operator;show cli level", "\noperator\n\n"),
        ("user;show cli level", "\nuser\n\n"),
        ("echo a b", "a b\n\n"),
        ("show startup-logs", "\n"),
        ("set severity-output number;get weight be/x", "\n[3]: No such server.\n\n"),
        ("set severity-output string;show cli level", "\n[info]: admin\n\n"),
        ("set timeout cli 10s", "\n"),
        ("set timeout cli x", "Invalid timeout value.\n\n"),
        ("expert-mode on;expert-mode", "\nexpert-mode is ON\n\n"),
        ("experimental-mode", "experimental-mode is OFF\n\n"),
        ("show map", &format!(" ({map}) ")),
        ("get map #0 k2", "found=yes, idx=tree, key=\"k2\", value=\"v2 x\", type=\"str\"\n"),
        ("get map #0 zz", "found=no\n"),
        ("add map #0 k3 v3", "\n"),
        ("show map #0", " k3 v3\n\n"),
        ("set map #0 k3 w3", "\n"),
        ("show map #0", " k3 w3\n\n"),
        ("del map #0 k3", "\n"),
        ("del map #0 k3", "Key not found.\n\n"),
        ("set map #0 k3 x", "entry not found.\n\n"),
        ("add map #0 k3", "'add map' expects three parameters"),
        ("add map #0 <<\nk5 v5\nk6 v6 z\n", "\n"),
        ("show map #0", " k5 v5\n"),
        ("add map #0 <<END\nk7 v7\nEND", "\n"),
        ("show map #0", " k6 v6 z\n"),
        ("show map nope", "Unknown map identifier. Please use #<id> or <file>.\n\n"),
        ("prepare map #0", "New version created: 1\n\n"),
        ("add map @1 #0 only one", "\n"),
        ("show map @1 #0", " only one\n\n"),
        ("add map @9 #0 a b", "Version number in the future"),
        ("commit map @1 #0", "\n"),
        ("commit map #0", "Missing version number.\n\n"),
        ("show map #0", " only one\n\n"),
        ("clear map #0", "\n"),
        ("show acl", "/a.acl) "),
        ("get acl #1 /p", "match=yes, idx=tree, pattern=\"/p\"\n"),
        ("add acl #1 a\\ b\\;", "\n"),
        ("show acl #1", " a b;\n"),
        ("del acl #1 a\\ b\\;", "\n"),
        ("add acl #0 x", "This ACL is shared with a map"),
        ("prepare acl #1", "New version created: 1\n\n"),
        ("add acl @1 #1 /z", "\n"),
        ("commit acl @1 #1", "\n"),
        ("show acl #1", " /z\n\n"),
        ("clear acl #1", "\n"),
        ("get var proc.five", "proc.five: type=sint value=<5>\n\n"),
        ("get var proc.fmt", "proc.fmt: type=str value=<a3>\n\n"),
        ("get var proc.none", "Variable not found.\n\n"),
        ("set var proc.x int(3)", "restricted to experimental mode"),
        ("experimental-mode on;set var proc.x int(3);get var proc.x", "proc.x: type=sint value=<3>\n\n"),
        ("experimental-mode on;set var proc.x fmt b%[int(4)];get var proc.x", "value=<b4>\n\n"),
        ("experimental-mode on;set var txn.x int(3)", "only scope 'proc' is permitted here"),
        ("show servers state", "\n3 be 2 s2 127.0.0.1 0 5 10 10 "),
        ("show servers state nope", "Can't find backend.\n\n"),
        ("show servers conn be", "\nbe/s2 3/2 127.0.0.1 9 - 5000 "),
        ("get weight be/s2", "10 (initial 10)\n\n"),
        ("set weight be/s2 50%", "\n"),
        ("get weight be/s2", "5 (initial 10)\n\n"),
        ("set weight be/s2 300", "Absolute weight can only be between 0 and 256 inclusive.\n\n"),
        ("set server be/s2 weight 4", "\n"),
        ("get weight be/s2", "4 (initial 10)\n\n"),
        ("enable server be/s2", "\n"),
        ("show stat be 4 2", ",no check,4,"),
        ("set server be/s2 state drain", "\n"),
        ("show stat be 4 2", ",DRAIN,"),
        ("set server be/s2 state ready", "\n"),
        ("show stat be 4 2", ",no check,4,"),
        ("set server be/s2 health down", "\n"),
        ("show stat be 4 2", ",DOWN,"),
        ("set server be/s2 health up", "\n"),
        ("disable server be/s2", "\n"),
        ("show stat be 4 2", ",MAINT,"),
        ("set server be/s2 foo", "usage: set server "),
        ("set server be/s2 state foo", "expects 'ready', 'drain' and 'maint'"),
        ("wait 5s srv-removable be/s2", "Done.\n\n"),
        ("wait 1", "Done.\n\n"),
        ("wait", "Expects a duration in milliseconds.\n\n"),
        ("set maxconn server be/s1 3", "\n"),
        ("show stat be 4 1", "\nbe,s1,0,0,0,0,3,"),
        ("set maxconn frontend fe 9", "\n"),
        ("show stat fe 1 0", "\nfe,FRONTEND,,,0,"),
        ("set maxconn global 50", "\n"),
        ("show info", "\nMaxconn: 50\n"),
        ("set maxconn global", "Expects an integer value.\n\n"),
        ("clear counters", "\n"),
        ("clear counters all", "\n"),
        ("clear counters server be/s1", "Server counters cleared.\n\n"),
        ("clear counters server nope/s1", "No such backend.\n\n"),
        ("show sess", "\n"),
        ("show sess help", "Usage: show sess"),
        ("show sess 0x1", "Session not found.\n\n"),
        ("show activity", "thread_id: "),
        ("show tasks", "Running tasks: "),
        ("show profiling", "Per-task CPU profiling "),
        ("set profiling tasks on", "\n"),
        ("show profiling status", ": on "),
        ("set profiling tasks x", "Expects a combination of"),
        ("show threads", "Thread 1 "),
        ("show pools", "Dumping pools usage."),
        ("unpublish backend nope", "No such backend.\n\n"),
        ("unpublish backend off", "No effect on a disabled backend.\n\n"),
        (
            "show cache",
            "'show cache' is known, but not supported yet by this program: the cache is missing.\n\n",
        ),
        ("foo", "Unknown command: 'foo', but maybe one of the following ones is a better match:\n"),
        ("shwo stat", "  show stat "),
        ("", "\n"),
        ("show version;;show cli level", "\n\n\nadmin\n\n"),
    ];
    // The connection by which the start was waited for.
    let is_over = || program.ask("show stat").contains("\nfe,b1,,,0,").then_some(());
    eventually("the connection is over", is_over);
    let mut failures = Vec::new();
    for (lines, expected) in steps {
        let answer = program.ask(lines);
        let ends = answer == "\n" || answer.ends_with("\n\n");
        if !answer.contains(expected) || !ends {
            failures.push(format!("{lines:?}: expected {expected:?} in {answer:?}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn every_byte_that_a_client_sends_is_kept() {
    let program = Program::start("cli-bytes", "");
    for (sent, expected) in [
        // Latin-1, lone parts of UTF-8, NUL.
        (&b"echo a\xe9\xff\x80 b\0c\n"[..], &b"a\xe9\xff\x80 b\0c\n\n"[..]),
        (b"echo \\\xe9\\\0;echo b\n", b"\xe9\0\n\nb\n\n"),
        (b"add map #0 k\xe9\0 v\xff\nx", b"\n"),
        (b"get map #0 k\xe9\0\n", b"type=str, case=sensitive, found=yes, idx=tree, key=\"k\xe9\0\", value=\"v\xff\", type=\"str\"\n\n"),
        (b"get map #0 k\xea\0\n", b"type=str, case=sensitive, found=no\n\n"),
        (b"del map #0 k\xe9\0\n", b"\n"),
        (b"get map #0 k\xe9\0\n", b"type=str, case=sensitive, found=no\n\n"),
        // A client whose lines end in CR and LF gets one answer for each, and its payload has no CR.
        (b"\r\n", b"\n"),
        (b"echo a\r\n", b"a\n\n"),
        (b"echo a\\\r\n", b"a\n\n"),
        (b"prompt i\r\necho a;echo b \r\nshow cli level\r\nquit\r\n", b"\na\n\nb\n\nadmin\n\n"),
        (b"add map #0 <<\r\np1 v1\r\np2 v2 \r\n\r\n", b"\n"),
        (b"add map #0 <<E\xe9\r\np3 v3\r\nE\xe9\r\n", b"\n"),
        (b"get map #0 p1\r\n", b"type=str, case=sensitive, found=yes, idx=tree, key=\"p1\", value=\"v1\", type=\"str\"\n\n"),
        (b"get map #0 p3\r\n", b"type=str, case=sensitive, found=yes, idx=tree, key=\"p3\", value=\"v3\", type=\"str\"\n\n"),
        // One whose lines end in LF may have CR in its values.
        (b"add map #0 <<\np4\r v4\r\n\n", b"\n"),
        (b"get map #0 p4\\\r\n", b"type=str, case=sensitive, found=no\n\n"),
    ] {
        let mut stream = UnixStream::connect(program.path("admin")).unwrap();
        stream.write_all(sent).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{}", sent.escape_ascii());
    }
}

#[test]
fn a_ring_is_followed_until_the_client_speaks() {
    let program = Program::start(
        "cli-events",
        "  log ring@lines format raw local0\nring lines\n  format raw\n  size 32764",
    );
    // What waited for the program to listen was logged, too.
    assert_eq!(program.request("/p"), "403");
    let shown = eventually("the request is logged", || {
        Some(program.ask("show events lines")).filter(|text| text.contains(" /p HTTP/1.1"))
    });
    assert!(shown.ends_with("/p HTTP/1.1\"\n\n"), "{shown}");
    assert_eq!(program.ask("show events lines -n"), "\n");
    assert_eq!(program.ask("show events lines -0").replace('\0', "\n"), shown);
    // From here on only: what was there is not shown again, what comes is.
    let mut stream = UnixStream::connect(program.path("admin")).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    stream.write_all(b"prompt i;show cli level;show events lines -wn\n").unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut next = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line
    };
    assert_eq!((next(), next(), next()), ("\n".into(), "admin\n".into(), "\n".into()));
    for path in ["/p?1", "/p?2", "/p?3"] {
        assert_eq!(program.request(path), "403");
        let line = next();
        assert!(line.ends_with(&format!("{path} HTTP/1.1\"\n")), "{line}");
    }
    // Whatever the client says ends it, and is no command.
    stream.write_all(b"show version\n").unwrap();
    assert_eq!(next(), "\n");
    stream.write_all(b"show cli level;quit\n").unwrap();
    assert_eq!((next(), next(), next()), ("admin\n".into(), "\n".into(), String::new()));
    // A client that will say nothing more waits for nothing.
    assert_eq!(program.ask("show events lines -wn"), "\n");
}

#[test]
fn whoever_leaves_gives_the_place_back() {
    let program = Program::start("cli-places", "  stats maxconn 4\n  stats timeout 10m");
    let big = format!("add map #0 <<\n{}\n", "key value\n".repeat(5_000));
    (0..4).for_each(|_| assert_eq!(program.ask(&big), "\n"));
    // More than there are places for, each of them with something that takes long, or an answer that nobody reads.
    for sent in [
        "wait 1h\n",
        "show map #0;show map #0\n",
        "show map #0;wait 1h\n",
        "add map #0 <<\nx y\n",
        "show cli",
    ] {
        for _ in 0..6 {
            let mut stream = UnixStream::connect(program.path("admin")).unwrap();
            stream.write_all(sent.as_bytes()).unwrap();
        }
        assert_eq!(program.ask("show cli level"), "admin\n\n", "after {sent:?}");
    }
    // Who only says that it will say no more waits for its answer.
    assert_eq!(program.ask("wait 300;show cli level"), "Done.\n\nadmin\n\n");
}

#[test]
fn commands_act_on_traffic() {
    let program = Program::start("cli-traffic", "");
    assert_eq!(program.request("/p"), "403");
    program.ask("del acl #1 /p");
    assert_eq!(program.request("/p"), "503", "allowed, but the server is not there");
    program.ask("add acl #1 /p");
    assert_eq!(program.request("/p"), "403");
    assert_eq!(program.ask("unpublish backend be"), "Backend unpublished.\n\n");
    assert_eq!(program.request("/x"), "200", "the default backend answers");
    assert_eq!(program.ask("publish backend be"), "Backend published.\n\n");
    assert_eq!(program.request("/x"), "503");
    // The connection that waited for the program to listen counts, too, once its end was noticed.
    let counted = program.ask("show stat typed");
    assert!(
        [5, 6].iter().any(|n| counted.contains(&format!("F.2.0.48.req_tot.1:MCPP:u64:{n}\n"))),
        "{counted}"
    );
    program.ask("clear counters all");
    assert!(program.ask("show stat typed").contains("F.2.0.48.req_tot.1:MCPP:u64:0\n"));
    // A frontend that is held keeps its clients waiting.
    assert_eq!(program.ask("disable frontend fe"), "\n");
    assert!(program.ask("disable frontend fe").starts_with("All sockets are already disabled."));
    assert!(program.ask("show stat fe 1 0").contains(",PAUSED,"));
    let mut waiting = UnixStream::connect(program.path("fe")).unwrap();
    waiting.write_all(b"GET /p HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(program.ask("enable frontend fe"), "\n");
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert_eq!(program.ask("shutdown frontend fe"), "\n");
    assert!(program.ask("show stat fe 1 0").contains(",STOP,"));
    assert!(program.ask("enable frontend fe").contains("shut down"));
}

#[test]
fn servers_go_where_the_operator_puts_them() {
    let program = Program::start("cli-states", "");
    let state = |server: &str| {
        let text = program.ask("show stat be 4 -1;show servers state be");
        let stat = text.lines().find(|l| l.starts_with(&format!("be,{server},"))).unwrap_or("").to_string();
        let line = text.lines().find(|l| l.contains(&format!(" {server} "))).unwrap_or("").to_string();
        let fields: Vec<&str> = line.split(' ').collect();
        format!("{} {} {}", stat.split(',').nth(17).unwrap_or(""), fields[5], fields[6])
    };
    // The status, the operational state, the administrative one.
    for (command, expected) in [
        ("enable server be/s2", "no check 2 4"),
        ("set server be/s2 state drain", "DRAIN 2 12"),
        ("enable server be/s2", "no check 2 4"),
        ("set server be/s2 health stopping", "NOLB 3 4"),
        ("set server be/s2 health up", "no check 2 4"),
        ("set server be/s2 health down", "DOWN 0 4"),
        ("set server be/s2 state drain", "DOWN 0 12"),
        ("disable server be/s2", "MAINT 0 5"),
        ("set server be/s2 health up", "MAINT 0 5"),
        ("set server be/s2 state drain", "DRAIN 2 12"),
        ("set server be/s2 state ready", "no check 2 4"),
        ("set server be/s2 weight 0", "no check 2 4"),
    ] {
        assert_eq!(program.ask(command), "\n", "{command}");
        assert_eq!(state("s2"), expected, "{command}");
    }
    assert_eq!(program.ask("set weight be/s2 100000%"), "\n");
    assert_eq!(
        program.ask("get weight be/s2"),
        "256 (initial 10)\n\n",
        "a share of the weight has a ceiling"
    );
    assert!(program.ask("set weight still/t1 5").contains("static LB algorithm"));
    assert_eq!(program.ask("set weight still/t1 0%;set weight still/t1 100%"), "\n\n");
    // None of these servers had a limit.
    assert_eq!(program.ask("set maxconn server still/t1 4"), "\n");
    assert!(program.ask("show stat still 4 1").contains("\nstill,t1,0,0,0,0,4,"));
    // A backend counts how often it lost its last server: to a weight of 0, and now.
    assert_eq!(program.ask("disable server still/t1"), "\n");
    assert!(program.ask("show stat typed").contains(".chkdown.1:MCPP:u64:2\n"));
    assert_eq!(program.ask("clear counters all"), "\n");
    assert!(!program.ask("show stat typed").contains(".chkdown.1:MCPP:u64:2\n"));
}

#[test]
fn a_limit_given_later_is_kept() {
    let program = Program::start("cli-maxconn", "");
    let listener = std::os::unix::net::UnixListener::bind(program.path("sv")).unwrap();
    let get = |path: &str| {
        let mut stream = UnixStream::connect(program.path("fe")).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    // One request is there before anything is counted; it does not count, and leaves as it came.
    let early = get("/late/1");
    let (first, _) = listener.accept().unwrap();
    assert_eq!(program.ask("set maxconn server late/s 1"), "\n");
    let _one = get("/late/2");
    let (second, _) = listener.accept().unwrap();
    let _two = get("/late/3");
    eventually("the third waits", || {
        program.ask("show stat late 2 0").contains("\nlate,BACKEND,1,").then_some(())
    });
    drop((early, first));
    drop(second);
    let (_third, _) = listener.accept().unwrap();
    eventually("nobody waits", || {
        program.ask("show stat late 2 0").contains("\nlate,BACKEND,0,").then_some(())
    });
}

#[test]
fn rights_are_enforced() {
    let program = Program::start("cli-rights", "");
    for command in [
        "clear counters",
        "disable frontend fe",
        "set server be/s1 state maint",
        "add map #0 a b",
        "show map #0",
        "get acl #1 a",
        "get var proc.five",
        "show env",
        "show startup-logs",
        "wait 1",
        "operator",
    ] {
        assert_eq!(program.ask_on("user", command), "Permission denied\n\n", "{command}");
        assert_eq!(program.ask(&format!("user;{command}")), "\nPermission denied\n\n", "{command}");
    }
    for command in [
        "clear counters all",
        "clear counters server be/s1",
        "set maxconn frontend fe 5",
        "set maxconn global 5",
        "set maxconn server be/s1 5",
        "add map #0 a b",
        "clear acl #1",
        "show acl",
        "set profiling tasks on",
        "wait 1",
    ] {
        assert_eq!(program.ask(&format!("operator;{command}")), "\nPermission denied\n\n", "{command}");
    }
    assert_eq!(
        program.ask("user;set severity-output number;show env"),
        "\n\n[3]: Permission denied\n\n",
        "a refusal is as serious as any error"
    );
    assert_eq!(program.ask("operator;disable frontend fe"), "\nPermission denied\n\n");
    assert_eq!(
        program.ask("operator;user;operator;show cli level"),
        "\n\nPermission denied\n\nuser\n\n",
        "rights do not come back"
    );
}

#[test]
fn sessions_go_on_when_asked_to() {
    let program = Program::start("cli-modes", "  stats maxconn 2\n");
    assert_eq!(program.ask("show cli level\nshow cli level"), "admin\n\n", "one line, then the end");
    assert_eq!(program.ask("prompt\nshow cli level;echo x\nquit\n"), "\n> admin\n\nx\n\n> ");
    assert_eq!(program.ask("prompt i\nshow cli level\n\nquit\n"), "\nadmin\n\n\n");
    assert_eq!(program.ask("prompt p\nprompt n\necho x"), "\n> \n");
    assert!(program.ask("prompt timed\nquit\n").ends_with("]> "), "the time is shown in a prompt");
    // A TAB at the end of a line asks what may come next.
    for (typed, answer) in [
        ("show serv", "servers\n"),
        ("show servers ", "conn state\n"),
        ("echo x; set wei", "weight\n"),
        ("set server be/", "be/s1 be/s2\n"),
        ("show servers state ", "be late off spare still\n"),
        ("disable frontend ", "fe\n"),
        ("show nothing", ""),
        ("user\t\nshow ma", "map\n"),
    ] {
        let said = program.ask(&format!("prompt i\n{typed}\t\nquit\n"));
        assert!(said.contains(answer) && said.len() <= answer.len() + 9, "{typed}: {said}");
    }
    assert_eq!(program.ask("prompt\nuser\nset ma\t\nset se\t\nquit\n"), "\n> \n> > severity-output\n> ");
    assert_eq!(program.ask("echo x\t"), "x\n\n", "in a session of one line it is a blank");
    // A newline after a backslash is part of a word.
    assert_eq!(program.ask("echo a\\\nb"), "a\nb\n\n");
    // Half a payload is not what was meant.
    assert_eq!(exchange(&program.path("admin"), "add map #0 <<\nhalf 1\n"), "");
    assert!(!program.ask("show map #0").contains("half"));
    assert!(program.ask(&"echo ".repeat(80)).starts_with("Too many arguments."));
    // An incomplete line is no command.
    assert_eq!(exchange(&program.path("admin"), "show cli level"), "");
    // A payload is asked for line by line.
    assert_eq!(
        program.ask("prompt i\nadd map #0 <<\na 1\n\nshow map nope\n"),
        "\n\nUnknown map identifier. Please use #<id> or <file>.\n\n\n"
    );
    // Clients beyond the limit wait for those before them.
    let one = UnixStream::connect(program.path("admin")).unwrap();
    let mut two = UnixStream::connect(program.path("admin")).unwrap();
    two.write_all(b"prompt i\necho two\n").unwrap();
    let mut lines = BufReader::new(two.try_clone().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "");
    assert_eq!(lines.next().unwrap().unwrap(), "two");
    drop(one);
    assert_eq!(program.ask("echo three"), "three\n\n");
    // A line without end is refused, and does not grow for ever.
    assert!(program.ask(&"x".repeat(20_000)).starts_with("The command line is too big"));
}

/// `debug dev log`: the words of the message, to the targets of `global`, and only in expert mode.
#[test]
fn a_message_goes_to_the_global_log_targets() {
    let syslog = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    syslog.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let target = format!("  log {} local0", syslog.local_addr().unwrap());
    let program = Program::start("debug-log", &target);
    assert_eq!(program.ask("debug dev log lost"), "This command is restricted to expert mode only.\n\n");
    assert_eq!(program.ask("expert-mode on; debug dev log one  two\\ three"), "\n\n");
    let line = loop {
        let mut bytes = [0; 4096];
        let length = syslog.recv(&mut bytes).expect("a log line");
        let line = String::from_utf8_lossy(&bytes[..length]).into_owned();
        assert!(!line.contains("lost"), "{line}");
        if line.contains("one") {
            break line;
        }
    };
    assert!(line.starts_with("<134>") && line.ends_with("]: one two three\n"), "{line}");
}

/// Connections held in a test of memory.
const COUNT: usize = 40;

/// With `json` at its end, a `show` answers with one document, whatever its size, and says the same.
#[test]
fn shows_answer_with_json() {
    each_driver(|io| {
        let entries: String = (0..20_000).map(|at| format!("key-{at} value \"{at}\"\n")).collect();
        let file = "global\nstats socket <@dir>/cli level admin\ndefaults\nmode http\ntimeout client 20s\ntimeout connect 20s\n\
                    timeout server 20s\nfrontend fe\nbind <@fe>\nhttp-request set-header X %[path,map(<@dir>/entries)]\n\
                    default_backend be\nbackend be\nstick-table type string size 10 store gpc0\nserver one 127.0.0.1:9 weight 7\nserver two 127.0.0.1:9 disabled\n";
        let proxy = Setup::file(file).file_beside("entries", entries).start(io);
        let path = proxy.path("cli");
        eventually("the CLI listens", || UnixStream::connect(&path).ok());
        let json = |command: &str| -> serde_json::Value {
            let said = exchange(&path, &format!("{command} json\n"));
            serde_json::from_str(&said).unwrap_or_else(|error| panic!("{io}: {command}: {error}: {said}"))
        };
        let servers = json("show servers state be");
        assert_eq!(
            (&servers[0]["srv_name"], &servers[0]["srv_uweight"]),
            (&"one".into(), &7.into()),
            "{io}: {servers}"
        );
        assert_eq!(servers[1]["srv_admin_state"], 5, "{io}: {servers}");
        let map = json(&format!("show map {}", proxy.path("entries").display()));
        assert_eq!(map.as_array().map(Vec::len), Some(20_000), "{io}");
        assert_eq!(
            (&map[19_999]["key"], &map[19_999]["value"]),
            (&"key-19999".into(), &"value \"19999\"".into()),
            "{io}"
        );
        assert_eq!(json("show map")[0]["file"], proxy.path("entries").display().to_string(), "{io}");
        assert_eq!(json("show backend"), serde_json::json!([{"name": "be"}]), "{io}");
        exchange(&path, "set table be key a data.gpc0 3\n");
        let table = json("show table be data.gpc0 gt 1");
        assert_eq!(
            (&table[0]["table"], &table[1]["key"], &table[1]["gpc0"]),
            (&"be".into(), &"a".into(), &3.into()),
            "{io}: {table}"
        );
        assert_eq!(json("show table")[0]["used"], 1, "{io}");
        assert_eq!(json("show cli level"), "admin", "{io}");
        assert!(json("show activity")["ctxsw"]["threads"].is_array(), "{io}");
        assert!(json("show fd")["0"].is_string(), "{io}");
        let listeners = json("show fd l");
        let listeners = listeners.as_object().expect("an object");
        assert!(!listeners.is_empty(), "{io}");
        assert!(listeners.values().all(|of| of.as_str().unwrap().starts_with("listener addr=")), "{io}");
        // Who asks is at a frontend.
        let asks = exchange(&path, "show fd f\n");
        assert!(
            asks.contains(&format!(" : front addr=unix@{} peer=unix@\n", path.display())),
            "{io}: {asks}"
        );
        assert_eq!(exchange(&path, "show fd x\n").trim(), "Invalid FD type", "{io}");
        for command in [
            "show acl",
            "show anon",
            "show cli sockets",
            "show defaults",
            "show dev",
            "show env",
            "show errors",
            "show events",
            "show libs",
            "show latency",
            "show peers",
            "show pools",
            "show profiling",
            "show resolvers",
            "show servers conn",
            "show sess",
            "show sess all",
            "show ssl cert",
            "show startup-logs",
            "show tasks",
            "show threads",
            "show tls-keys",
            "show version",
            "show default-server",
        ] {
            json(command);
        }
        // What commands before it said stays apart, and errors are told as ever.
        let said = exchange(&path, "show version; show cli level json\n");
        assert!(said.contains("\n\n\"admin\"\n"), "{io}: {said}");
        assert_eq!(
            exchange(&path, "show map nowhere json\n").trim(),
            "Unknown map identifier. Please use #<id> or <file>."
        );
    });
}

/// What is told of the inside of the process, too, becomes objects whose numbers are numbers.
#[test]
fn objects_tell_of_the_inside() {
    each_driver(|io| {
        let text = "global\nstats socket <@dir>/cli level admin\nnbthread 2\nresolvers dns\nnameserver ns 127.0.0.1:53\n\
                    ring r\ndescription 'a \"ring\"'\nfrontend fe\nmode http\nbind <@fe>\ntimeout client 20s\n";
        let proxy = Setup::file(text).start(io);
        let path = proxy.path("cli");
        eventually("the CLI listens", || UnixStream::connect(&path).ok());
        let json = |command: &str| -> serde_json::Value {
            let said = exchange(&path, &format!("{command} json\n"));
            serde_json::from_str(&said).unwrap_or_else(|error| panic!("{io}: {command}: {error}: {said}"))
        };
        let find = |rows: &serde_json::Value, name: &str, value: &str| {
            let found = rows.as_array().and_then(|rows| rows.iter().find(|row| row[name] == value));
            found.unwrap_or_else(|| panic!("{io}: no {name} {value} in {rows}")).clone()
        };
        assert_eq!(json("show errors"), serde_json::json!([]), "{io}");
        let answer = proxy.ask("GET / HTTP/1.1\r\nBad name: é\r\n\r\n");
        assert_eq!(answer.status, 400, "{io}");
        let error = &json("show errors")[0];
        assert_eq!(
            (&error["side"], &error["frontend"], &error["server"], &error["bytes"], &error["position"]),
            (
                &"request".into(),
                &"fe".into(),
                &"-".into(),
                &"GET / HTTP/1.1\\r\\nBad name: \\xC3\\xA9\\r\\n\\r\\n".into(),
                &19.into()
            ),
            "{io}: {error}"
        );
        let ring = find(&json("show events"), "name", "r");
        assert_eq!((&ring["type"], &ring["description"]), (&"buffer".into(), &"a \"ring\"".into()), "{io}");
        assert_eq!(json("show events r"), serde_json::json!([]), "{io}");
        let server = find(&json("show resolvers"), "nameserver", "ns");
        assert_eq!((&server["resolvers"], server["sent"].is_u64()), (&"dns".into(), true), "{io}: {server}");
        let pool = find(&json("show pools"), "name", "task");
        assert!(pool["allocated_bytes"].as_u64() > pool["size"].as_u64(), "{io}: {pool}");
        exchange(&path, "set profiling tasks on\n");
        exchange(&path, "show version\n");
        let profile = json("show profiling");
        assert_eq!(find(&profile, "profiling", "Per-task CPU")["state"], "on", "{io}");
        assert!(find(&profile, "function", "cli")["calls"].is_u64(), "{io}: {profile}");
        assert!(json("show tasks").is_array(), "{io}");
        let threads = json("show threads");
        assert_eq!((&threads[1]["thread"], &threads[1]["state"]), (&2.into(), &"answers".into()), "{io}");
        assert!(threads[0]["cpu_ns_now"].is_u64() && threads[0]["tasks"].is_u64(), "{io}: {threads}");
    });
}

/// What connections take is listed, whether they wait for a request or an answer.
#[test]
fn pools_show_what_connections_take() {
    each_driver(|io| {
        let server = Silent::start();
        let text = format!(
            "frontend fe\nbind <@fe>\nhttp-request return status 200 if {{ path / }}\ndefault_backend be\n\
             backend be\nserver s {}\n",
            server.addr
        );
        let global = "stats socket <@dir>/cli level admin";
        let proxy = Setup::http(&text).global(global).threads(1).start(io);
        let path = proxy.path("cli");
        eventually("the CLI listens", || UnixStream::connect(&path).ok());
        let used = |pool: &str| {
            let said = exchange(&path, &format!("show pools match {pool}\n"));
            let of_pool = said.split(&format!("Pool {pool} (")).nth(1).unwrap_or_default();
            let used = of_pool.split(" bytes), ").nth(1).and_then(|rest| rest.split(' ').next());
            used.and_then(|used| used.parse::<usize>().ok()).unwrap_or(0)
        };
        // Figures of the start may be those of a moment with more sessions of the CLI.
        let pools = ["session", "socket", "task"];
        assert!(pools.map(used).iter().all(|used| *used < COUNT));
        let mut held: Vec<_> = (0..COUNT).map(|_| proxy.connect()).collect();
        for client in &mut held {
            client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
            client.until(b"\r\n\r\n");
        }
        // Each thread publishes them a few times a second.
        eventually("waiting connections are listed", || {
            pools.map(used).iter().all(|used| *used >= COUNT).then_some(())
        });
        held.iter_mut().for_each(|client| client.send("GET /wait HTTP/1.1\r\nhost: a\r\n\r\n"));
        eventually("streams are listed", || (used("stream") >= COUNT).then_some(()));
        drop(held);
        eventually("they go", || (used("session") < COUNT && used("stream") < COUNT).then_some(()));
        proxy.finish(server);
    });
}

/// Who answers at length does not hold its thread: others have their turn after some time, whether its rows are shown or not, and
/// however fast the client takes them.
#[test]
fn long_answers_are_made_in_many_turns() {
    const SERVERS: usize = 2000;
    /// Turns take a tenth of a millisecond, and as much more as a piece takes that is sent, which is a few where nothing is optimised.
    const TURN_MAX_NS: u64 = 20_000_000;
    let backend = format!("backend be\n  server-template s {SERVERS} 127.0.0.1:9 disabled\n");
    let setup = Setup::http(&format!("frontend fe\n  bind <@fe>\n{backend}")).threads(1);
    let proxy = setup.global("profiling.tasks on\nstats socket <@dir>/cli level admin").start("epoll");
    let ask = |line: &str| exchange(&proxy.path("cli"), &format!("{line}\n"));
    // How often tasks of the CLI ran, and for how long.
    let spent = || -> (u64, u64) {
        let rows: serde_json::Value = serde_json::from_str(&ask("show profiling tasks json")).unwrap();
        let of_sessions = rows.as_array().unwrap().iter().filter(|row| row["function"] == "cli");
        of_sessions.fold((0, 0), |(calls, ns), row| {
            (calls + row["calls"].as_u64().unwrap(), ns + row["cpu_tot_ns"].as_u64().unwrap())
        })
    };
    for (command, shown) in [
        ("show stat", true),
        ("show stat typed", true),
        ("show stat json", true),
        ("show stat up no-maint", false),
        ("show servers state", true),
        ("show servers conn", true),
    ] {
        let before = spent();
        let answer = ask(command);
        assert_eq!(answer.contains("s1999"), shown, "{command}");
        let after = spent();
        let (turns, ns) = (after.0 - before.0, after.1 - before.1);
        assert!(ns / turns < TURN_MAX_NS, "{command}: {turns} turns in {ns} ns");
    }
    proxy.finish(());
}
