//! The life of the process: signals, daemon, pid file, replacing another process (management manual, chapter 4).
//!
//! Nothing waits for a fixed time: each step is observed, with a limit that only a failure reaches.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_sys::handover::{SocketToHand, hand_over};
use thalweg_sys::signal::{Signal, send};

/// Longer than anything here takes, shorter than a person waits.
const PATIENCE: Duration = Duration::from_secs(20);

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::yield_now();
    }
}

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("thalweg-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a configuration that listens on unix sockets of this directory.
    fn configure(&self, global: &str, sockets: &[&str]) {
        let mut text = format!(
            "global\n    nbthread 2\n    maxconn 50\n{global}\ndefaults\n    mode tcp\n    timeout connect 5s\n    timeout \
             client 5s\n    timeout server 5s\n    retries 0\nlisten test\n    server s 127.0.0.1:9\n"
        );
        for socket in sockets {
            text.push_str(&format!("    bind unix@{}\n", self.path(socket).display()));
        }
        fs::write(self.path("test.cfg"), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(["-f", "test.cfg"]).args(arguments).current_dir(&self.0);
        command
    }

    fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(arguments);
        Running(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    fn connects(&self, socket: &str) -> bool {
        UnixStream::connect(self.path(socket)).is_ok()
    }

    fn wait_for(&self, socket: &str) {
        eventually("the socket answers", || self.connects(socket).then_some(()));
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that does not outlive its test.
struct Running(Child);

impl Running {
    fn signal(&self, signal: Signal) {
        send(self.0.id(), signal).unwrap();
    }

    /// Exit code and signal.
    fn end(&mut self) -> (Option<i32>, Option<i32>) {
        let status = eventually("the process ends", || self.0.try_wait().unwrap());
        (status.code(), status.signal())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read_pid(path: &Path) -> u32 {
    eventually("the pid file is written", || {
        let text = fs::read_to_string(path).ok()?;
        text.strip_suffix('\n')?.parse().ok()
    })
}

/// It gives back what other threads leave, which may take longer than a request is to wait.
#[test]
fn the_first_thread_of_the_process_serves_nobody() {
    let directory = Directory::new("first-thread");
    directory.configure("", &["in"]);
    let child = Running(directory.command(&["-db"]).spawn().unwrap());
    let process = child.0.id().to_string();
    let tasks = PathBuf::from(format!("/proc/{process}/task"));
    // A thread may end while they are looked at.
    let name = |task: &str| fs::read_to_string(tasks.join(task).join("comm")).unwrap_or_default();
    let workers = eventually("two threads serve", || {
        let all = fs::read_dir(&tasks).ok()?.map(|task| task.unwrap().file_name().into_string().unwrap());
        let workers: Vec<String> = all.filter(|task| name(task).starts_with("worker/")).collect();
        (workers.len() == 2).then_some(workers)
    });
    assert!(!workers.contains(&process), "{workers:?}");
}

#[test]
fn a_soft_stop_ends_with_success_and_lets_go_of_the_socket() {
    let directory = Directory::new("soft");
    directory.configure("", &["s"]);
    let mut process = directory.start(&[]);
    directory.wait_for("s");
    process.signal(Signal::User1);
    assert_eq!(process.end(), (Some(0), None));
    assert!(!directory.connects("s"));
}

#[test]
fn a_hard_stop_shows_its_signal_to_the_parent() {
    for signal in [Signal::Terminate, Signal::Interrupt] {
        let directory = Directory::new("hard");
        directory.configure("", &["s"]);
        let mut process = directory.start(&["-db"]);
        directory.wait_for("s");
        process.signal(signal);
        assert_eq!(process.end(), (None, Some(signal.number())));
    }
}

#[test]
fn a_soft_stop_that_takes_too_long_says_whom_it_sends_away() {
    let directory = Directory::new("patience");
    let socket = directory.path("s");
    let text = format!(
        "global\n hard-stop-after 100ms\ndefaults\n mode http\n timeout client 1h\n timeout tarpit 1h\nfrontend held\n \
         bind unix@{}\n http-request return status 200 if {{ path /now }}\n http-request tarpit\n",
        socket.display()
    );
    fs::write(directory.path("test.cfg"), text).unwrap();
    let mut process = directory.start(&[]);
    let mut client = eventually("the socket answers", || UnixStream::connect(&socket).ok());
    // The first answer tells that the second request, which came with it, is being held.
    client.write_all(b"GET /now HTTP/1.1\r\nHost: h\r\n\r\nGET /never HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(client.read(&mut [0; 12]).unwrap(), 12);
    process.signal(Signal::User1);
    let errors = BufReader::new(process.0.stderr.take().unwrap());
    let said: Vec<String> = errors.lines().map(Result::unwrap).collect();
    assert_eq!(process.end(), (Some(0), None));
    let tell = |end: &str| assert!(said.iter().any(|line| line.ends_with(end)), "{end}: {said:?}");
    tell("soft-stop running for too long, performing a hard-stop.");
    tell("Proxy held hard-stopped (1 remaining conns will be closed).");
}

/// `grace`: those who ask are told of the stop, everybody is served, and the stop comes by itself.
#[test]
fn a_soft_stop_waits_for_grace() {
    for (grace, ends) in [("1h", false), ("1ms", true)] {
        let directory = Directory::new("grace");
        let [socket, cli] = ["s", "cli"].map(|name| directory.path(name));
        let text = format!(
            "global\n grace {grace}\n stats socket {}\ndefaults\n mode http\n timeout client 1h\nfrontend f\n bind unix@{}\n \
             monitor-uri /check\n monitor fail if {{ stopping }}\n http-request return status 200\n",
            cli.display(),
            socket.display()
        );
        fs::write(directory.path("test.cfg"), text).unwrap();
        let mut process = directory.start(&[]);
        directory.wait_for("s");
        eventually("the CLI answers", || UnixStream::connect(&cli).ok());
        assert!(ask(&cli, "show info").contains("\nStopping: 0\n"));
        process.signal(Signal::User1);
        if !ends {
            let get = |path: &str| {
                let mut client = UnixStream::connect(&socket).unwrap();
                client.write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).unwrap();
                let mut answer = [0; 12];
                client.read_exact(&mut answer).unwrap();
                String::from_utf8_lossy(&answer).into_owned()
            };
            eventually("who asks is told", || (get("/check") == "HTTP/1.1 503").then_some(()));
            assert!(ask(&cli, "show info").contains("\nStopping: 1\n"));
            // Others are served, and another signal hastens nothing.
            process.signal(Signal::User1);
            assert_eq!(get("/"), "HTTP/1.1 200");
            process.signal(Signal::Terminate);
            assert_eq!(process.end(), (None, Some(Signal::Terminate.number())));
            continue;
        }
        assert_eq!(process.end(), (Some(0), None));
        let errors = BufReader::new(process.0.stderr.take().unwrap());
        let said: Vec<String> = errors.lines().map(Result::unwrap).collect();
        let at =
            |end: &str| said.iter().position(|line| line.contains(end)).unwrap_or_else(|| panic!("{said:?}"));
        let scheduled = at("Scheduling a soft-stop in 1 ms.");
        assert!(scheduled < at("Grace period expired, proceeding with soft-stop now."));
        assert!(scheduled < at("Proxy f stopped"));
    }
}

#[test]
fn other_signals_do_not_end_the_process() {
    let directory = Directory::new("other");
    directory.configure("", &["s"]);
    let mut process = directory.start(&[]);
    directory.wait_for("s");
    for signal in [Signal::User2, Signal::TerminalOutput, Signal::TerminalInput, Signal::Quit, Signal::Hangup]
    {
        process.signal(signal);
    }
    // The state of servers is shown on the standard error.
    let errors = BufReader::new(process.0.stderr.take().unwrap());
    let shown = errors
        .lines()
        .map(Result::unwrap)
        .any(|line| line.contains("SIGHUP received, dumping servers states."));
    assert!(shown);
    directory.wait_for("s");
    process.signal(Signal::User1);
    assert_eq!(process.end(), (Some(0), None));
}

#[test]
fn a_daemon_writes_its_pid_and_is_replaced() {
    let directory = Directory::new("daemon");
    directory.configure("    daemon\n", &["s"]);
    let start = |arguments: &[&str]| {
        let output = directory.command(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    // The parent exits when all is done: a supervisor reads the file then.
    let read_pid = |path: &Path| fs::read_to_string(path).unwrap().trim_end().parse::<u32>().unwrap();
    start(&["-p", "pid"]);
    let first = read_pid(&directory.path("pid"));
    directory.wait_for("s");
    start(&["-p", "pid", "-sf", &first.to_string()]);
    let second = read_pid(&directory.path("pid"));
    assert_ne!(second, first);
    // A zombie still has a pid: what counts is that it lets go of everything.
    let gone = |pid: u32| {
        eventually("the process is gone", || {
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
            state
                .is_none_or(|text| text.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
                .then_some(())
        });
    };
    gone(first);
    directory.wait_for("s");
    send(second, Signal::Terminate).unwrap();
    gone(second);
}

#[test]
fn the_foreground_wins_over_daemon() {
    let directory = Directory::new("foreground");
    directory.configure("    daemon\n    pidfile pid\n", &["s"]);
    // The file of a process that serves, which somebody who tries the configuration must not touch.
    fs::write(directory.path("pid"), "1234\n").unwrap();
    let mut process = directory.start(&["-db"]);
    directory.wait_for("s");
    assert_eq!(fs::read_to_string(directory.path("pid")).unwrap(), "1234\n");
    process.signal(Signal::User1);
    assert_eq!(process.end(), (Some(0), None));
}

#[test]
fn a_daemon_that_fails_says_so_to_whoever_started_it() {
    let directory = Directory::new("daemon-fails");
    // Nobody has this number, which means "no change" to the system.
    directory.configure("    uid 4294967295\n", &["s"]);
    let output = directory.command(&["-D"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("Cannot set uid 4294967295"), "{text}");
    assert!(!directory.connects("s"));
}

/// Whoever reads what the daemon prints sees the end of it when the daemon serves, even from a root without devices.
#[test]
fn a_daemon_lets_go_of_its_terminal() {
    for (root, name) in [("", "terminal"), ("    chroot .\n", "terminal-chroot")] {
        let directory = Directory::new(name);
        directory.configure(root, &["s"]);
        let mut starter = directory
            .command(&["-D", "-p", "pid"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let status = starter.wait().unwrap();
        let (mut said, mut output) = (String::new(), starter.stderr.take().unwrap());
        if status.success() {
            let pid = read_pid(&directory.path("pid"));
            let killer = Daemon(pid);
            let (ended, end) = std::sync::mpsc::channel();
            let mut standard = starter.stdout.take().unwrap();
            thread::spawn(move || {
                let _ = output.read_to_string(&mut said);
                let _ = standard.read_to_string(&mut said);
                ended.send(())
            });
            end.recv_timeout(PATIENCE).expect("both streams end");
            drop(killer);
        } else {
            output.read_to_string(&mut said).unwrap();
            assert!(!root.is_empty() && said.contains("Cannot chroot"), "{said}");
            eprintln!("skipped: changing the root directory needs a privilege");
        }
    }
}

/// A daemon that does not outlive its test.
struct Daemon(u32);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = send(self.0, Signal::Terminate);
    }
}

/// Whoever reads the messages may stop to: neither signals nor checks wait for that.
#[test]
fn messages_that_nobody_reads_hold_nothing_up() {
    let directory = Directory::new("unread");
    directory.configure("    stats socket unix@cli level admin\n", &["s"]);
    let (reader, writer) = std::io::pipe().unwrap();
    let mut process =
        Running(directory.command(&["-db"]).stderr(writer.try_clone().unwrap()).spawn().unwrap());
    // Until it serves, it waits for whoever reads its messages.
    directory.wait_for("cli");
    assert!(ask(&directory.path("cli"), "show version").contains('.'));
    // Whole pages: what fits into the rest of one would still be taken.
    while thalweg_sys::fd::write_if_ready(writer.as_fd(), &[b'x'; 4096]).is_ok() {}
    for signal in [Signal::Hangup, Signal::TerminalOutput, Signal::TerminalInput, Signal::Terminate] {
        process.signal(signal);
    }
    assert_eq!(process.end(), (None, Some(15)));
    drop(reader);
}

/// Nor do they fail when the reader is gone.
#[test]
fn messages_that_nobody_can_read_end_nothing() {
    let directory = Directory::new("unreadable");
    directory.configure("    stats socket unix@cli level admin\n", &["s"]);
    // A server that is checked, and where nobody listens: messages tell that it is down.
    let mut text = fs::read_to_string(directory.path("test.cfg")).unwrap();
    text.push_str("    server checked unix@nobody check inter 10ms fall 1\n");
    fs::write(directory.path("test.cfg"), text).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut process = Running(directory.command(&["-db"]).stderr(writer).spawn().unwrap());
    directory.wait_for("cli");
    let down = |row: &str| row.starts_with("test,checked,") && row.contains(",DOWN,");
    eventually("the server is down", || {
        let state = ask(&directory.path("cli"), "show stat");
        state.lines().any(down).then_some(())
    });
    process.signal(Signal::Hangup);
    process.signal(Signal::User1);
    assert_eq!(process.end(), (Some(0), None));
}

#[test]
fn a_start_that_fails_leaves_the_old_process_alone() {
    let directory = Directory::new("failed");
    directory.configure("", &["s"]);
    let _old = directory.start(&[]);
    directory.wait_for("s");
    // The second socket cannot be opened, after the first took the place of the old process's.
    directory.configure("", &["s", "no/such/directory/t"]);
    let output = directory.command(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("protocol unix_stream: cannot bind UNIX socket (No such file or directory)"),
        "{errors}"
    );
    assert!(errors.contains(".main()] Some protocols failed to start their listeners! Exiting."), "{errors}");
    assert!(directory.connects("s"));
    let left: Vec<_> = fs::read_dir(&directory.0).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn listening_sockets_come_from_an_old_process() {
    let directory = Directory::new("handover");
    directory.configure("", &["s"]);
    // This test plays the old process: it listens on the socket, and answers on a CLI socket.
    let listener = UnixListener::bind(directory.path("s")).unwrap();
    let waiting = UnixStream::connect(directory.path("s")).unwrap();
    let cli = UnixListener::bind(directory.path("cli")).unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = cli.accept().unwrap();
        let mut command = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut command).unwrap();
        assert_eq!(command, "_getsocks\n");
        let socket = SocketToHand { fd: listener.as_fd(), namespace: "", interface: "" };
        hand_over(&mut stream, &[socket]).unwrap();
    });
    let mut process = directory.start(&["-x", "cli"]);
    server.join().unwrap();
    // The old process's copy is closed, and who waited in its backlog is accepted by the new one: the connection ends
    // or answers, but is not reset by the end of the old listener.
    directory.wait_for("s");
    drop(waiting);
    process.signal(Signal::User1);
    assert_eq!(process.end(), (Some(0), None));
}

#[test]
fn without_its_old_process_a_start_with_x_fails() {
    let directory = Directory::new("nosocket");
    directory.configure("", &["s"]);
    let output = directory.command(&["-x", "no-such-socket"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("Failed to get the sockets from the old process!"), "{errors}");
}

#[test]
fn a_directory_that_cannot_be_the_root_prevents_the_start() {
    let directory = Directory::new("root");
    directory.configure("    chroot /no/such/root\n", &["s"]);
    let output = directory.command(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("Cannot chroot(/no/such/root)"), "{errors}");
}

/// `chroot auto`: a root that is empty and has no name.
#[test]
fn a_root_without_a_name_is_empty() {
    let directory = Directory::new("empty-root");
    let cli = directory.path("cli");
    let global = format!("    chroot auto\n    stats socket {}\n", cli.display());
    directory.configure(&global, &["s"]);
    let mut process = directory.start(&[]);
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        // Nobody else may change the root.
        assert_eq!(process.end(), (Some(1), None));
        return;
    }
    directory.wait_for("s");
    let root = format!("/proc/{}/root", process.0.id());
    // It listens before it enters its root.
    let entered = || fs::read_link(&root).ok().filter(|name| name.to_string_lossy().ends_with(" (deleted)"));
    eventually("the root has no name", entered);
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    // What the kernel and the system say in files is known all the same.
    eventually("the CLI answers", || UnixStream::connect(&cli).ok());
    let own = env!("CARGO_BIN_EXE_thalweg");
    assert!(ask(&cli, "show libs").lines().any(|line| line.ends_with(own)));
    for (command, expected) in
        [("show dev", "OS name: Linux"), ("show dev", "cmdline: "), ("show dev", "fd limit (soft): ")]
    {
        let answer = ask(&cli, command);
        assert!(answer.contains(expected), "{command}: {answer}");
    }
    let shown = ask(&cli, "show fd l");
    let names: Vec<_> = shown.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(names.len(), 2, "{shown}");
    assert!(shown.contains(&format!(" : listener addr=unix@{}\n", cli.display())), "{shown}");
    process.signal(Signal::User1);
    assert_eq!(process.end(), (Some(0), None));
}

/// A time zone nine hours east of UTC, as a file of its own (RFC 8536).
fn zone_file() -> Vec<u8> {
    let counts = [0u32, 0, 0, 0, 1, 4].map(u32::to_be_bytes).concat();
    [b"TZif", &[0; 16][..], &counts, &(9 * 3600i32).to_be_bytes(), &[0, 0], b"JST\0"].concat()
}

/// In its `chroot` a process does not see the file of the time zone any more.
#[test]
fn the_time_zone_is_known_in_another_root() {
    let directory = Directory::new("zone");
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("skipped: only root can change its root");
        return;
    }
    let (socket, zone) = (directory.path("s"), directory.path("zone"));
    fs::write(&zone, zone_file()).unwrap();
    fs::create_dir(directory.path("jail")).unwrap();
    let text = format!(
        "global\n chroot {}\ndefaults\n mode http\n timeout client 1h\nfrontend f\n bind unix@{}\n http-request return status 200 \
         content-type text/plain lf-string '%[date,ltime(%z)] %T'\n",
        directory.path("jail").display(),
        socket.display()
    );
    fs::write(directory.path("test.cfg"), text).unwrap();
    let child = directory.command(&[]).env("TZ", format!(":{}", zone.display())).spawn().unwrap();
    let mut process = Running(child);
    directory.wait_for("s");
    let mut client = UnixStream::connect(&socket).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let (zone, utc) = answer.rsplit("\r\n").next().unwrap().split_once(' ').unwrap();
    assert!(zone == "+0900" && utc.ends_with("+0000"), "{answer}");
    process.signal(Signal::User1);
    assert_eq!(process.end(), (Some(0), None));
}

#[test]
fn quiet_means_quiet() {
    let directory = Directory::new("quiet");
    directory.configure("", &["s"]);
    let mut process = directory.start(&["-q"]);
    directory.wait_for("s");
    process.signal(Signal::Hangup);
    process.signal(Signal::User1);
    assert_eq!(process.end(), (Some(0), None));
    let errors: Vec<_> = BufReader::new(process.0.stderr.take().unwrap()).lines().collect();
    assert!(errors.is_empty(), "{errors:?}");
}

/// Sends one line to a CLI socket and reads the whole answer.
fn ask(socket: &Path, line: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_cli_answers_and_hands_the_listeners_over() {
    let directory = Directory::new("cli");
    let global = format!(
        "    setenv OF_THE_FILE 'is seen'\n    stats socket {} level admin expose-fd listeners\n    stats socket {} level user\n",
        directory.path("admin").display(),
        directory.path("user").display()
    );
    directory.configure(&global, &["s"]);
    let mut old = directory.start(&[]);
    directory.wait_for("s");
    eventually("the CLI answers", || UnixStream::connect(directory.path("admin")).ok());
    let admin = directory.path("admin");
    let pid = format!("\nPid: {}\n", old.0.id());
    let cli = format!("HAPROXY_CLI=unix@{};unix@{}\n\n", admin.display(), directory.path("user").display());
    for (command, expected) in [
        ("show info", pid.as_str()),
        ("show version;show cli level", "\n\nadmin\n\n"),
        ("operator;show cli level", "\noperator\n\n"),
        ("show env PATH", "PATH="),
        ("show env OF_THE_FILE", "OF_THE_FILE=is seen\n\n"),
        ("show env HAPROXY_CLI", cli.as_str()),
        ("show cli sockets", " admin all\n"),
        ("help", "\n  quit "),
        ("nonsense", "Unknown command: 'nonsense'"),
    ] {
        let answer = ask(&admin, command);
        assert!(answer.contains(expected), "{command}: {answer:?}");
        assert!(answer.ends_with("\n\n"), "{command}: {answer:?}");
    }
    assert_eq!(ask(&admin, "prompt\nshow cli level\nquit"), "\n> admin\n\n> ");
    // Nobody without the right level gets the listeners, nor the environment.
    assert_eq!(ask(&directory.path("user"), "_getsocks"), "");
    assert_eq!(ask(&directory.path("user"), "show env"), "Permission denied\n\n");
    let mut new = directory.start(&["-x", "admin", "-sf", &old.0.id().to_string()]);
    assert_eq!(old.end(), (Some(0), None));
    directory.wait_for("s");
    new.signal(Signal::User1);
    assert_eq!(new.end(), (Some(0), None));
}

#[test]
fn what_the_start_took_and_how_often_the_process_was_full_is_told() {
    let directory = Directory::new("full");
    let admin = directory.path("admin");
    directory.configure(&format!("    stats socket {} level admin\n", admin.display()), &["s"]);
    let running = directory.start(&[]);
    directory.wait_for("s");
    eventually("the CLI answers", || UnixStream::connect(&admin).ok());
    let field = |name: &str| -> u64 {
        let info = ask(&admin, "show info");
        let found = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.unwrap_or_else(|| panic!("{name} in {info}")).parse().unwrap()
    };
    assert!(field("BootTime_ms") > 0);
    eventually("nobody is there", || (field("CurrConns") == 0).then_some(()));
    assert_eq!(field("MaxconnReached"), 0);
    ask(&admin, "set maxconn global 1");
    for filled in 1..=3 {
        drop(UnixStream::connect(directory.path("s")).unwrap());
        eventually("the place is taken", || (field("MaxconnReached") == filled).then_some(()));
        eventually("it is free again", || (field("CurrConns") == 0).then_some(()));
    }
    drop(running);
}

/// A limit far below what the allocator reserves leaves room to serve, and is one.
#[test]
fn memory_can_be_limited() {
    let directory = Directory::new("memory");
    directory.configure("    stats socket unix@cli level admin\n", &["s"]);
    let process = directory.start(&["-db", "-m", "80"]);
    directory.wait_for("cli");
    assert!(ask(&directory.path("cli"), "show info").contains("Pid: "));
    let limits = fs::read_to_string(format!("/proc/{}/limits", process.0.id())).unwrap();
    let limit = limits.lines().find(|line| line.starts_with("Max data size")).unwrap();
    assert!(limit.split_whitespace().nth(3) == Some("83886080"), "{limit}");
}
