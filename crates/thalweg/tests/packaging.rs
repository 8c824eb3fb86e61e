//! Under the name `haproxy`, with the unit and the default file that Debian has for HAProxy: the command lines of the unit,
//! what they expect of the service manager's socket, and how they end.

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use support::{Conn, Directory, eventually, free_port, own_ip, program};

/// `$CONFIG`, `$PIDFILE` and `$EXTRAOPTS` of the unit, in a directory of the test.
struct Unit {
    directory: Directory,
    haproxy: PathBuf,
    notify: UnixDatagram,
}

impl Unit {
    fn new(config: &str) -> Unit {
        let directory = Directory::new();
        let haproxy = directory.0.join("haproxy");
        symlink(program().get_program(), &haproxy).unwrap();
        fs::write(directory.0.join("haproxy.cfg"), config).unwrap();
        let notify = UnixDatagram::bind(directory.0.join("notify")).unwrap();
        notify.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Unit { directory, haproxy, notify }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.0.join(name)
    }

    /// The words that follow the program on each line of the unit.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.haproxy);
        command.args(["-Ws", "-f"]).arg(self.path("haproxy.cfg")).args(words);
        command.arg("-S").arg(self.path("master.sock")).env("NOTIFY_SOCKET", self.path("notify"));
        command
    }

    /// Waits until the service manager is told this.
    fn told(&self, wanted: &str) {
        loop {
            let mut bytes = [0; 4096];
            let length = self.notify.recv(&mut bytes).unwrap_or_else(|e| panic!("{wanted}: {e}"));
            if String::from_utf8_lossy(&bytes[..length]).lines().any(|line| line.starts_with(wanted)) {
                return;
            }
        }
    }
}

fn kill(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn the_unit_of_a_distribution_works_unchanged() {
    let addr = free_port(own_ip());
    let config = |answer: &str| {
        format!(
            "global\n\tlog /dev/log\tlocal0\n\tlog /dev/log\tlocal1 notice\n\tdaemon\n\tstats timeout 30s\n\n\
             defaults\n\tlog\tglobal\n\tmode\thttp\n\toption\thttplog\n\toption\tdontlognull\n\
             \ttimeout connect 5000\n\ttimeout client  50000\n\ttimeout server  50000\n\n\
             frontend www\n\tbind {addr}\n\thttp-request return status 200 content-type text/plain string {answer}\n"
        )
    };
    let unit = Unit::new(&config("one"));
    // ExecStartPre, and the first ExecReload.
    assert!(unit.command(&["-c", "-q"]).status().unwrap().success());
    let checked = unit.command(&["-c"]).output().unwrap();
    assert!(checked.status.success());
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(said.contains("'daemon' is not compatible with -Ws"), "{said}");
    // ExecStart
    let pid_file = unit.path("haproxy.pid");
    let mut master = unit.command(&["-p", pid_file.to_str().unwrap()]).spawn().unwrap();
    unit.told("READY=1");
    let ask = || {
        let mut conn = Conn::connect(addr);
        conn.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        conn.rest_text().contains("one")
    };
    assert!(ask());
    // The second ExecReload.
    fs::write(unit.path("haproxy.cfg"), config("two")).unwrap();
    kill(&master, "-USR2");
    unit.told("RELOADING=1");
    unit.told("READY=1");
    eventually("the new worker answers", || (!ask()).then_some(()));
    // A file that is wrong changes nothing.
    fs::write(unit.path("haproxy.cfg"), "nonsense\n").unwrap();
    assert!(!unit.command(&["-c", "-q"]).status().unwrap().success());
    // Stop: SIGTERM, and SuccessExitStatus=143.
    kill(&master, "-TERM");
    let status = master.wait().unwrap();
    assert!(matches!(status.code(), Some(0 | 143)), "{status}");
}

/// What the package installs is what the program accepts.
#[test]
fn the_file_of_the_package_is_valid() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/thalweg.cfg"))
        .unwrap();
    // The user is made when the package is installed.
    let text: String = text
        .lines()
        .filter(|l| !l.contains("user thalweg") && !l.contains("group thalweg"))
        .map(|l| format!("{l}\n"))
        .collect();
    let directory = Directory::new();
    let file = directory.0.join("thalweg.cfg");
    fs::write(&file, text).unwrap();
    let output = program().args(["-c", "-f"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
