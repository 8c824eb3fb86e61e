//! The master and its workers, as an operator sees them (management manual, sections 3, 4 and 9.4).
//!
//! Nothing waits for a fixed time: each step is observed, with a limit that only a failure reaches.

mod support;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use support::{Directory, PATIENCE, Signal, eventually, free_port, own_ip, program, send};

/// A directory with a configuration, and what is started there.
struct Place {
    dir: Directory,
    addr: SocketAddrV4,
}

impl Place {
    fn new() -> Place {
        let place = Place { dir: Directory::new(), addr: free_port(own_ip()) };
        place.configure("", "one");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.0.join(name)
    }

    /// A configuration that answers with a text.
    fn configure(&self, global: &str, answer: &str) {
        let (addr, socket) = (self.addr, self.path("stats.sock"));
        let text = format!(
            "global\n    nbthread 2\n    maxconn 200\n    stats socket {} level admin\n{global}\ndefaults\n    mode http\n    \
             timeout client 20s\n    timeout connect 5s\n    timeout server 20s\nfrontend f\n    bind {addr}\n    \
             http-request return status 200 content-type text/plain string {answer} hdr x-mode \
             \"${{HAPROXY_MWORKER}}\"\n",
            socket.display()
        );
        fs::write(self.path("a.cfg"), text).unwrap();
    }

    fn command(&self, mut command: Command, arguments: &[&str]) -> Command {
        let socket = format!("{},level,admin", self.path("master.sock").display());
        command.args(["-S", &socket, "-f"]).arg(self.path("a.cfg")).args(arguments).current_dir(&self.dir.0);
        // Whoever reads the output of the tests does not wait for a worker that outlives one.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.path("said")).unwrap());
        command
    }

    fn start(&self, arguments: &[&str]) -> Master<'_> {
        self.begin(self.command(program(), arguments))
    }

    fn begin(&self, mut command: Command) -> Master<'_> {
        self.wait_for(command.spawn().unwrap())
    }

    fn wait_for(&self, child: Child) -> Master<'_> {
        let master = Master { place: self, child };
        eventually("it serves", || master.worker());
        master
    }

    fn said(&self) -> String {
        fs::read_to_string(self.path("said")).unwrap()
    }

    /// The body of an answer on a connection of its own.
    fn ask(&self) -> std::io::Result<String> {
        let mut conn = TcpStream::connect(self.addr)?;
        conn.set_read_timeout(Some(PATIENCE))?;
        conn.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        conn.read_to_string(&mut text)?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or(ErrorKind::UnexpectedEof)?;
        assert!(head.starts_with("HTTP/1.1 200"), "{text}");
        assert!(head.contains("x-mode: 1"), "{text}");
        Ok(body.to_owned())
    }

    fn answers(&self, with: &str) {
        eventually("the answer", || (self.ask().ok()? == with).then_some(()));
    }

    /// What the master CLI answers to some lines.
    fn cli(&self, lines: &str) -> String {
        self.try_cli(lines).expect("the master CLI answers")
    }

    fn try_cli(&self, lines: &str) -> std::io::Result<String> {
        let mut conn = UnixStream::connect(self.path("master.sock"))?;
        conn.set_read_timeout(Some(PATIENCE))?;
        conn.write_all(lines.as_bytes())?;
        conn.shutdown(Shutdown::Write)?;
        let mut text = String::new();
        conn.read_to_string(&mut text)?;
        Ok(text)
    }

    /// The process ids of current and of former workers.
    fn workers(&self) -> (Vec<u32>, Vec<u32>) {
        let text = self.try_cli("show proc\n").unwrap_or_default();
        let (current, former) = text.split_once("# old workers").unwrap_or((&text, ""));
        let pids = |text: &str| -> Vec<u32> {
            let lines = text.lines().filter(|line| line.contains(" worker "));
            lines.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
        };
        (pids(current), pids(former))
    }

    fn only_worker(&self) -> u32 {
        eventually("there is one worker", || match self.workers() {
            (current, former) if former.is_empty() && current.len() == 1 => Some(current[0]),
            _ => None,
        })
    }
}

struct Master<'a> {
    place: &'a Place,
    child: Child,
}

impl Master<'_> {
    fn worker(&self) -> Option<u32> {
        self.place.workers().0.first().copied()
    }

    fn signal(&self, signal: Signal) {
        send(self.child.id(), signal).unwrap();
    }

    fn end(mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        let status = eventually("it ends", || self.child.try_wait().unwrap());
        status.code()
    }
}

impl Drop for Master<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line of `global` that no running process follows: another one is started.
fn another_process(number: usize) -> String {
    format!("    tune.maxpollevents {}", 100 + number)
}

/// Whether a process runs; one that only waits to be asked about by its parent does not.
fn runs(pid: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

#[test]
fn reloads_lose_no_connection() {
    let place = Place::new();
    let master = place.start(&["-W"]);
    let (over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        let answer = place.ask().expect("every connection is served");
                        assert!(["one", "two"].contains(&answer.as_str()));
                        asked.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let mut seen = vec![place.only_worker()];
        for round in 0..6 {
            place.configure(&another_process(round), if round % 2 == 0 { "two" } else { "one" });
            let before = asked.load(Ordering::Relaxed);
            match round % 3 {
                0 => master.signal(Signal::User2),
                1 => master.signal(Signal::Hangup),
                _ => assert!(place.cli("reload\n").starts_with("Success=1\n--\n")),
            }
            let worker = eventually("another worker serves alone", || {
                let (current, former) = place.workers();
                (former.is_empty() && !seen.contains(current.first()?)).then_some(current[0])
            });
            seen.push(worker);
            eventually("clients are served", || (asked.load(Ordering::Relaxed) > before + 4).then_some(()));
        }
        over.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    assert!(place.cli("show proc\n").contains(" 6 [failed: 0] "));
    assert!(place.said().contains("Former worker"));
    assert_eq!(master.end(Signal::Terminate), Some(0));
}

/// A worker of the same program follows the files by itself, and nobody who is connected notices; where it cannot, another one takes
/// its place.
#[test]
fn a_worker_follows_in_place() {
    let place = Place::new();
    let master = place.start(&["-W"]);
    let worker = place.only_worker();
    let mut conn = TcpStream::connect(place.addr).unwrap();
    conn.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answers = |with: &str| {
        eventually("the answer", || {
            conn.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"one") && !answer.ends_with(b"two") {
                let mut byte = [0];
                conn.read_exact(&mut byte).expect("the connection stays");
                answer.push(byte[0]);
            }
            answer.ends_with(with.as_bytes()).then_some(())
        });
    };
    answers("one");
    for (round, with) in ["two", "one", "two"].into_iter().enumerate() {
        place.configure("", with);
        match round {
            0 => master.signal(Signal::User2),
            1 => master.signal(Signal::Hangup),
            _ => {
                let answer = place.cli("reload\n");
                assert!(
                    answer.starts_with("Success=1\n--\n") && answer.contains("Loading success."),
                    "{answer}"
                );
            }
        }
        answers(with);
        assert_eq!(place.only_worker(), worker);
    }
    // As after any reload, the worker that serves is one that has seen none.
    let processes = place.cli("show proc\n");
    assert!(processes.contains(" 3 [failed: 0] "), "{processes}");
    assert!(processes.contains(&format!("{worker:<15} worker          0 ")), "{processes}");
    assert!(place.cli("show startup-logs\n").contains(&format!("Worker ({worker}) reloads in place")));
    place.configure(&another_process(1), "two");
    let answer = place.cli("reload\n");
    assert!(answer.starts_with("Success=1\n") && answer.contains("needs a restart"), "{answer}");
    let second = eventually("another worker", || Some(place.workers().0[0]).filter(|pid| *pid != worker));
    place.configure(&another_process(1), "one");
    assert!(place.cli("reload\n").starts_with("Success=1\n"));
    place.answers("one");
    assert_eq!(place.workers().0, [second]);
    assert!(place.cli("hard-reload\n").starts_with("Success=1\n"));
    assert_ne!(place.only_worker(), second);
    assert_eq!(master.end(Signal::Terminate), Some(0));
}

/// The files that a worker in a `chroot` sees under the names of the command line are others, if there are any.
#[test]
fn a_worker_that_does_not_see_the_files_is_replaced() {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !is_root {
        println!("skipped: only root may change the root directory");
        return;
    }
    let place = Place::new();
    let root = place.path("root");
    let inside = root.join(place.path("a.cfg").strip_prefix("/").unwrap());
    fs::create_dir_all(inside.parent().unwrap()).unwrap();
    place.configure("", "one");
    fs::copy(place.path("a.cfg"), &inside).unwrap();
    let global = format!("    chroot {}", root.display());
    place.configure(&global, "one");
    let master = place.start(&["-W"]);
    let worker = place.only_worker();
    place.configure(&global, "two");
    assert!(place.cli("reload\n").starts_with("Success=1\n"));
    place.answers("two");
    assert_ne!(place.only_worker(), worker);
    assert_eq!(master.end(Signal::Terminate), Some(0));
}

#[test]
fn a_configuration_that_is_wrong_changes_nothing() {
    let place = Place::new();
    let master = place.start(&["-W"]);
    let worker = place.only_worker();
    fs::write(place.path("a.cfg"), "global\n    nonsense\n").unwrap();
    let answer = place.cli("reload\n");
    assert!(answer.starts_with("Success=0\n--\n"), "{answer}");
    assert!(answer.contains("unknown keyword 'nonsense' in 'global' section"), "{answer}");
    assert!(answer.contains("Failed to load worker"), "{answer}");
    assert_eq!(place.only_worker(), worker);
    place.answers("one");
    assert!(place.cli("show startup-logs\n").contains("nonsense"));
    assert!(place.cli("_loadstatus\n").starts_with("Success=0\n"));
    assert!(place.cli("prompt\n\n").contains("master[ReloadFailed]> "));
    place.configure("", "two");
    assert!(place.cli("reload\n").starts_with("Success=1\n"));
    place.answers("two");
    assert!(place.cli("prompt\n\n").contains("master> "));
    assert_eq!(master.end(Signal::Interrupt), Some(130));
}

#[test]
fn a_first_configuration_that_is_wrong_ends_the_master() {
    let place = Place::new();
    fs::write(place.path("a.cfg"), "global\n    nonsense\n").unwrap();
    for mode in [&["-W"][..], &["-W", "-D"], &["-Ws"]] {
        let status = place.command(program(), mode).status().unwrap();
        assert_eq!(status.code(), Some(1), "{mode:?}");
        let said = place.said();
        assert!(
            said.contains("unknown keyword 'nonsense'") && said.contains("Failed to load worker"),
            "{said}"
        );
    }
}

#[test]
fn workers_finish_what_they_have() {
    let place = Place::new();
    let configure = |number| {
        place.configure(&format!("    mworker-max-reloads 1\n{}", another_process(number)), "one");
    };
    configure(0);
    let master = place.start(&["-W"]);
    let first = place.only_worker();
    // Half a request keeps its worker.
    let mut conn = TcpStream::connect(place.addr).unwrap();
    conn.set_read_timeout(Some(PATIENCE)).unwrap();
    conn.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    eventually("it is there", || {
        let pid = place.only_worker();
        place.cli(&format!("@!{pid} show info\n")).contains("CurrConns: 1\n").then_some(())
    });
    configure(1);
    assert!(place.cli("reload\n").starts_with("Success=1\n"));
    let (current, former) = place.workers();
    assert_eq!(former, [first]);
    eventually("it stops", || {
        place.cli(&format!("@!{first} show info\n")).contains("Stopping: 1\n").then_some(())
    });
    conn.write_all(b"Host: a\r\n\r\n").unwrap();
    let mut text = String::new();
    conn.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("one"), "{text}");
    assert_eq!(place.only_worker(), current[0]);
    // One that does not finish sees as many reloads as it may.
    let mut conn = TcpStream::connect(place.addr).unwrap();
    conn.set_read_timeout(Some(PATIENCE)).unwrap();
    conn.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    eventually("it is there", || place.cli("@1 show info\n").contains("CurrConns: 1\n").then_some(()));
    configure(2);
    place.cli("reload\n");
    assert_eq!(place.workers().1, [current[0]], "{}", place.said());
    configure(3);
    place.cli("reload\n");
    eventually("it was told to leave", || (!place.workers().1.contains(&current[0])).then_some(()));
    // A hard reload waits for nobody.
    let mut conn = TcpStream::connect(place.addr).unwrap();
    conn.set_read_timeout(Some(PATIENCE)).unwrap();
    conn.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    eventually("it is there", || place.cli("@1 show info\n").contains("CurrConns: 1\n").then_some(()));
    assert!(place.cli("hard-reload\n").starts_with("Success=1\n"));
    assert!(matches!(conn.read(&mut [0; 64]), Ok(0) | Err(_)));
    place.only_worker();
    assert_eq!(master.end(Signal::User1), Some(0));
}

#[test]
fn a_worker_that_dies_is_replaced() {
    let place = Place::new();
    let master = place.start(&["-W"]);
    let first = place.only_worker();
    send_number(first, "KILL");
    let second =
        eventually("another one serves", || place.workers().0.first().copied().filter(|pid| *pid != first));
    place.answers("one");
    assert!(place.said().contains(&format!("Current worker ({first}) exited with code 137 (Killed)")));
    // One that was told to finish needs no successor.
    send(second, Signal::User1).unwrap();
    let mut master = master;
    let status = eventually("it ends", || master.child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
}

#[test]
fn workers_that_die_again_and_again_end_the_master() {
    let place = Place::new();
    let mut master = place.start(&["-W"]);
    let mut last = 0;
    let status = eventually("it gives up", || {
        if let Some(pid) = master.worker().filter(|pid| *pid != last) {
            last = pid;
            send_number(pid, "KILL");
        }
        master.child.try_wait().unwrap()
    });
    assert_eq!(status.code(), Some(137));
    assert!(place.said().contains("Workers die too often"));
}

fn send_number(pid: u32, signal: &str) {
    let sent = Command::new("kill").arg(format!("-{signal}")).arg(pid.to_string()).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_worker_without_a_master_finishes() {
    let place = Place::new();
    let mut master = place.start(&["-W"]);
    let worker = place.only_worker();
    master.child.kill().unwrap();
    master.child.wait().unwrap();
    eventually("it ends", || (!runs(worker)).then_some(()));
    assert!(TcpStream::connect(place.addr).is_err());
}

#[test]
fn a_daemon_is_ready_when_its_launcher_ends() {
    let place = Place::new();
    let pid_file = place.path("pid");
    let arguments = ["-W", "-D", "-p", pid_file.to_str().unwrap()];
    let status = place.command(program(), &arguments).status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(place.ask().unwrap(), "one");
    let master: u32 = fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    assert!(place.cli("show proc\n").contains(&format!("{master:<15} master ")));
    for pid in [master, place.only_worker()] {
        let output = fs::read_link(format!("/proc/{pid}/fd/2")).unwrap();
        assert_eq!(output, Path::new("/dev/null"));
    }
    place.configure("", "two");
    assert!(place.cli("reload\n").starts_with("Success=1\n"));
    place.answers("two");
    send(master, Signal::Terminate).unwrap();
    eventually("it ends", || (!runs(master)).then_some(()));
    // The same by the word of the configuration.
    place.configure(&format!("    daemon\n    pidfile {}", pid_file.display()), "three");
    assert_eq!(place.command(program(), &["-W"]).status().unwrap().code(), Some(0));
    assert_eq!(place.ask().unwrap(), "three");
    let master: u32 = fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    send(master, Signal::Terminate).unwrap();
    eventually("it ends", || (!runs(master)).then_some(()));
}

#[test]
fn the_service_manager_is_told() {
    let place = Place::new();
    let socket = UnixDatagram::bind(place.path("notify")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let next = || {
        let mut message = [0; 512];
        let n = socket.recv(&mut message).unwrap();
        String::from_utf8(message[..n].to_vec()).unwrap()
    };
    let mut command = place.command(program(), &["-Ws"]);
    command.env("NOTIFY_SOCKET", place.path("notify")).env("WATCHDOG_USEC", "100000");
    let master = place.begin(command);
    let not_watchdog = || loop {
        match next() {
            text if text == "WATCHDOG=1" => {}
            text => return text,
        }
    };
    let ready = format!("READY=1\nMAINPID={}\nSTATUS=Ready.\n", master.child.id());
    assert_eq!(not_watchdog(), ready);
    master.signal(Signal::User2);
    assert!(not_watchdog().starts_with("RELOADING=1\nSTATUS=Reloading Configuration.\nMONOTONIC_USEC="));
    assert_eq!(not_watchdog(), ready);
    fs::write(place.path("a.cfg"), "nonsense\n").unwrap();
    master.signal(Signal::User2);
    assert!(not_watchdog().starts_with("RELOADING=1\n"));
    assert_eq!(not_watchdog(), "READY=1\nSTATUS=Reload failed!\n");
    assert_eq!(next(), "WATCHDOG=1");
    master.signal(Signal::Terminate);
    assert_eq!(not_watchdog(), "STOPPING=1");
}

#[test]
fn the_master_becomes_a_new_program_once_it_works() {
    let place = Place::new();
    let file = place.path("haproxy");
    let install = |content: &Path| {
        // As a package does: another file under the same name.
        fs::copy(content, place.path("new")).unwrap();
        fs::rename(place.path("new"), &file).unwrap();
    };
    let built = Path::new(env!("CARGO_BIN_EXE_thalweg"));
    install(built);
    let master = eventually("it can be executed", || {
        let mut command = Command::new("./haproxy");
        command.arg("-W");
        place.command(command, &[]).spawn().ok()
    });
    let master = place.wait_for(master);
    let program_of = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    let (id, old) = (master.child.id(), place.only_worker());
    fs::write(place.path("broken"), "#!/bin/false\n").unwrap();
    let mut rights = fs::metadata(place.path("broken")).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o755);
    fs::set_permissions(place.path("broken"), rights).unwrap();
    install(&place.path("broken"));
    assert!(place.cli("reload\n").starts_with("Success=0\n"));
    assert_eq!(place.only_worker(), old);
    assert!(program_of(id).to_string_lossy().ends_with("(deleted)"));
    install(built);
    // Children of other tests may have the file open for a moment, as it was written: then it cannot be executed.
    eventually("the master is the new program", || {
        let reloaded = place.cli("reload\n").starts_with("Success=1\n");
        (reloaded && program_of(id) == file).then_some(())
    });
    assert_ne!(place.only_worker(), old);
    let reloads = || {
        let text = place.cli("show proc\n");
        let row = text.lines().find_map(|line| line.strip_prefix(&format!("{id:<15} master "))).unwrap();
        row.split_whitespace().next().unwrap().parse::<u32>().unwrap()
    };
    let before = reloads();
    assert!(before > 0);
    place.answers("one");
    // It hears signals and its workers as before.
    master.signal(Signal::User2);
    eventually("it reloads", || (reloads() == before + 1).then_some(()));
    place.only_worker();
    assert_eq!(master.end(Signal::Terminate), Some(0));
}

#[test]
fn a_storm_of_signals_ends_in_one_worker() {
    let place = Place::new();
    let master = place.start(&["-W"]);
    for round in 0..200 {
        master.signal(match round % 4 {
            0 => Signal::Hangup,
            1 => Signal::TerminalInput,
            _ => Signal::User2,
        });
    }
    place.answers("one");
    place.configure("", "two");
    assert!(place.cli("reload\n").starts_with("Success=1\n"));
    place.only_worker();
    place.answers("two");
    assert_eq!(master.end(Signal::Terminate), Some(0));
}

#[test]
fn commands_reach_the_process_that_is_named() {
    let place = Place::new();
    let master = place.start(&["-W"]);
    let (id, worker) = (master.child.id(), place.only_worker());
    let pid_of = |text: &str| text.lines().find_map(|line| line.strip_prefix("Pid: ")?.parse::<u32>().ok());
    assert_eq!(pid_of(&place.cli("@1 show info\n")), Some(worker));
    assert_eq!(pid_of(&place.cli(&format!("@!{worker} show info\n"))), Some(worker));
    assert_eq!(pid_of(&place.cli("@1\nshow info\n")), Some(worker));
    assert_eq!(pid_of(&place.cli("@1; show info\n")), Some(worker));
    assert_eq!(pid_of(&place.cli("@@1 show cli level; show info\n")), Some(worker));
    let known = place.cli("@1; show version; @; show proc\n");
    assert!(known.contains(&format!("{id:<15} master ")), "{known}");
    assert_eq!(place.cli("@2 show info\n"), "Can't find the target PID matching the prefix '@2'\n\n");
    assert_eq!(
        place.cli("@!1 show info; echo still\n"),
        "Can't find the target PID matching the prefix '@!1'\n\nstill\n\n"
    );
    assert!(place.cli("shwo proc\n").contains("  show proc [debug] "));
    // Words too many change nothing, but to `show proc`.
    assert_eq!(place.cli("show proc x\n"), "'show proc' only supports 'debug' as argument\n\n");
    assert_eq!(place.cli("show version x\n"), place.cli("show version\n"));
    assert!(place.cli("show startup-logs x\n").contains("Loading success."));
    assert!(place.cli("reload x y\n").starts_with("Success=1\n"));
    assert!(place.cli("help\n").contains("  reload "));
    // The lines of a payload belong to its command.
    let text = "@1 set ssl cert x <<END\n%EOF%\nshow info\nEND\necho after\n";
    assert!(!place.cli(text).contains("Pid: "), "{}", place.cli(text));
    let text = "@1 set ssl cert x <<\nline\n\necho after\n";
    assert!(place.cli(text).ends_with("after\n\n"), "{}", place.cli(text));
    let sockets = place.cli("@1 show cli sockets; @ show cli sockets\n");
    assert!(sockets.contains("sockpair@") && sockets.contains("master.sock admin all"), "{sockets}");
    // A session of the worker's own, with a prompt if there is one.
    let direct = place.cli("prompt\n@@1\nshow version\nquit\n");
    assert!(direct.starts_with("master> ") && direct.contains("\n> "), "{direct}");
    assert!(place.cli("prompt\n@1\nexpert-mode on\n").ends_with(&format!("{worker}(e)> ")));
    assert_eq!(master.end(Signal::Terminate), Some(0));
}

#[test]
fn each_address_of_the_master_cli_is_listened_on() {
    let place = Place::new();
    let other = place.path("other.sock");
    let master = place.start(&["-W", "-S", other.to_str().unwrap()]);
    let first = format!("unix@{}", place.path("master.sock").display());
    let expected = format!("HAPROXY_MASTER_CLI=unix@{};{first}\n\n", other.display());
    for socket in [&other, &place.path("master.sock")] {
        let mut client = UnixStream::connect(socket).unwrap();
        client.write_all(b"show env HAPROXY_MASTER_CLI\n").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, expected);
    }
    // It is no business of a worker's.
    assert_eq!(place.cli("@1 show env HAPROXY_MASTER_CLI\n"), "Variable not found\n\n");
    assert!(place.cli("@1 show env HAPROXY_CLI\n").starts_with("HAPROXY_CLI=unix@/"));
    assert_eq!(master.end(Signal::Terminate), Some(0));
}

#[test]
fn rights_of_the_master_cli_are_those_in_the_worker() {
    let place = Place::new();
    for (level, shown, reloads) in
        [("user", "user", false), ("operator", "operator", true), ("admin", "admin", true)]
    {
        let socket = format!("{},mode,600,level,{level}", place.path("master.sock").display());
        let mut command = program();
        command.args(["-W", "-S", &socket, "-f"]).arg(place.path("a.cfg")).current_dir(&place.dir.0);
        command.stdout(Stdio::null()).stderr(fs::File::create(place.path("said")).unwrap());
        let master = Master { place: &place, child: command.spawn().unwrap() };
        // A user is not told of processes.
        let known = format!("{shown}\n\n");
        eventually("it serves", || (place.try_cli("@1 show cli level\n").ok()? == known).then_some(()));
        assert_eq!(place.cli("show cli level\n"), format!("{shown}\n\n"));
        assert_eq!(place.cli("@1 disable frontend f\n") == "Permission denied\n\n", level != "admin");
        let answer = place.cli("reload\n");
        assert_eq!(answer.starts_with("Success=1\n"), reloads, "{answer}");
        assert_eq!(place.cli("expert-mode on\n") == "Permission denied!\n\n", level != "admin");
        if level == "admin" {
            for command in
                ["reload", "hard-reload", "show proc", "show env", "show startup-logs", "_loadstatus"]
            {
                assert_eq!(place.cli(&format!("user\n{command}\n")), "Permission denied\n\n", "{command}");
            }
        }
        if reloads {
            place.only_worker();
        }
        assert_eq!(master.end(Signal::Terminate), Some(0));
    }
}

#[test]
fn clients_of_the_master_cli_that_do_nothing_hold_nobody_up() {
    let place = Place::new();
    let master = place.start(&["-W"]);
    let silent: Vec<_> = (0..20).map(|_| UnixStream::connect(place.path("master.sock")).unwrap()).collect();
    let mut endless = UnixStream::connect(place.path("master.sock")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let writer = thread::spawn(move || {
        // A line without an end is refused at some length.
        while endless.write_all(&[b'x'; 4096]).is_ok() && !stopped.load(Ordering::Relaxed) {}
    });
    assert!(place.cli("@1 show info\n").contains("Pid: "));
    writer.join().unwrap();
    stop.store(true, Ordering::Relaxed);
    drop(silent);
    assert!(place.cli("reload\n").starts_with("Success=1\n"));
    assert_eq!(master.end(Signal::Terminate), Some(0));
}

#[test]
fn a_socket_without_a_master_is_refused() {
    let place = Place::new();
    let status = place.command(program(), &[]).status().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(
        place.said().contains("a master CLI socket was defined, but master-worker mode (-W) is not enabled.")
    );
    for (socket, expected) in [("/no/such/directory/x", "No such file"), ("a,b", "master CLI socket 'a,b'")] {
        let mut command = program();
        command.args(["-W", "-S", socket, "-f"]).arg(place.path("a.cfg"));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(expected) && !said.contains("configuration file"), "{said}");
    }
}
