//! Health checks of servers as they are installed, where they are.

mod support;

use std::net::{SocketAddrV4, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use support::{Io, Proxy, Setup, each_driver, eventually, reference};

/// A server as it is installed, in a directory of its own, with all processes that it made.
struct Real {
    child: Child,
    dir: PathBuf,
}

/// How one is installed and begun: its program, what makes its directory ready, and its words.
struct Installed {
    name: &'static str,
    /// The line of the backend.
    check: &'static str,
    begin: fn(&Path, SocketAddrV4) -> Option<Command>,
}

impl Real {
    fn start(of: &Installed, at: SocketAddrV4) -> Option<Real> {
        let dir = std::env::temp_dir().join(format!("thalweg-{}-{}", of.name, at.port()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        let begun = (of.begin)(&dir, at).and_then(|mut command| {
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .process_group(0)
                .spawn()
                .ok()
        });
        let Some(child) = begun else {
            eprintln!("skipped: there is no {} here", of.name);
            let _ = std::fs::remove_dir_all(&dir);
            return None;
        };
        let mut real = Real { child, dir };
        let listens = eventually("it listens, or gives up", || match TcpStream::connect(at) {
            Ok(_) => Some(true),
            Err(_) => real.child.try_wait().unwrap().map(|_| false),
        });
        if !listens {
            eprintln!("skipped: {} does not start here", of.name);
            return None;
        }
        Some(real)
    }

    /// To all its processes.
    fn signal(&self, name: &str) {
        let group = format!("-{}", self.child.id());
        assert!(
            Command::new("kill").args([name, "--", &group]).status().is_ok_and(|status| status.success())
        );
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let group = format!("-{}", self.child.id());
        // Its other processes may be left when it gave up, or none.
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The numbers of a user, if the test may act for others and there is one.
fn user(name: &str) -> Option<(u32, u32)> {
    let number = |what: &str| -> Option<u32> {
        let said = Command::new("id").args([what, name]).output().ok()?;
        String::from_utf8(said.stdout).ok()?.trim().parse().ok()
    };
    let me = String::from_utf8(Command::new("id").arg("-u").output().ok()?.stdout).ok()?;
    (me.trim() == "0").then(|| Some((number("-u")?, number("-g")?))).flatten()
}

/// Has it run as this user.
fn act_for(command: &mut Command, as_user: Option<(u32, u32)>) {
    if let Some((user, group)) = as_user {
        command.uid(user).gid(group);
    }
}

/// Runs it to its end as this user.
fn has_run(command: &mut Command, as_user: Option<(u32, u32)>) -> bool {
    act_for(command, as_user);
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn own(dir: &Path, as_user: Option<(u32, u32)>) {
    if let Some((user, group)) = as_user {
        std::os::unix::fs::chown(dir, Some(user), Some(group)).unwrap();
    }
}

fn redis(_: &Path, at: SocketAddrV4) -> Option<Command> {
    let (ip, port) = (at.ip().to_string(), at.port().to_string());
    let words =
        ["--bind", &ip, "--port", &port, "--save", "", "--appendonly", "no", "--protected-mode", "no"];
    let mut command = Command::new("redis-server");
    command.args(words);
    Some(command)
}

fn mariadb(dir: &Path, at: SocketAddrV4) -> Option<Command> {
    let (as_user, data) = (user("mysql"), dir.display());
    own(dir, as_user);
    let mut install = Command::new("mariadb-install-db");
    install.args(["--no-defaults", &format!("--datadir={data}"), "--auth-root-authentication-method=normal"]);
    if !has_run(&mut install, as_user) {
        return None;
    }
    // A user without a password, whom the checks name.
    let script = dir.join("begin.sql");
    std::fs::write(&script, "create user haproxy@'%';\n").unwrap();
    let mut command = Command::new("mariadbd");
    command.args(["--no-defaults", "--skip-name-resolve", "--max-connect-errors=1000000"]);
    command.args([
        format!("--datadir={data}"),
        format!("--socket={data}/s"),
        format!("--pid-file={data}/pid"),
    ]);
    command.args([format!("--port={}", at.port()), format!("--bind-address={}", at.ip())]);
    command.arg(format!("--init-file={}", script.display()));
    act_for(&mut command, as_user);
    Some(command)
}

fn postgres(dir: &Path, at: SocketAddrV4) -> Option<Command> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.filter_map(|version| Some(version.ok()?.path().join("bin"))).max()?;
    let (as_user, data) = (user("postgres"), dir.join("data"));
    own(dir, as_user);
    let mut install = Command::new(programs.join("initdb"));
    install.args(["-A", "trust", "-U", "postgres", "-D"]).arg(&data).current_dir(dir);
    if !has_run(&mut install, as_user) {
        return None;
    }
    let mut command = Command::new(programs.join("postgres"));
    command
        .arg("-D")
        .arg(&data)
        .args(["-p", &at.port().to_string(), "-h", &at.ip().to_string(), "-k"])
        .arg(dir);
    command.current_dir(dir);
    act_for(&mut command, as_user);
    Some(command)
}

fn ldap(dir: &Path, at: SocketAddrV4) -> Option<Command> {
    let file = dir.join("slapd.conf");
    let text = format!("pidfile {}/pid\ndatabase config\nrootpw secret\n", dir.display());
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new("slapd");
    command.args(["-d", "0", "-f"]).arg(&file).args(["-h", &format!("ldap://{at}")]);
    Some(command)
}

/// OpenSMTPD, whose processes have users of their own: only for a test that may act for others.
fn smtp(dir: &Path, at: SocketAddrV4) -> Option<Command> {
    user("opensmtpd")?;
    let file = dir.join("smtpd.conf");
    let text = format!(
        "listen on {} port {}\naction \"a\" relay\nmatch from local for any action \"a\"\n",
        at.ip(),
        at.port()
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new("smtpd");
    command.args(["-d", "-f"]).arg(&file);
    Some(command)
}

/// A proxy that checks it: this build, or another program.
fn before(of: &Installed, at: SocketAddrV4, io: Io, program: Option<&Path>) -> Proxy {
    let text = format!(
        "global\nstats socket <@dir>/cli level admin\n\
         defaults\nmode tcp\ntimeout connect 2s\ntimeout client 2s\ntimeout server 2s\ntimeout check 500ms\n\
         frontend fe\nbind <@fe>\ndefault_backend be\n\
         backend be\n{}\nserver a {at} check inter 50ms\n",
        of.check
    );
    let setup = Setup::file(&text);
    match program {
        Some(program) => setup.program(program).start(io),
        None => setup.start(io),
    }
}

/// One that answers, stalls, answers again, wants a password, and is gone.
#[test]
fn a_redis_is_checked() {
    let play = |io: Io, program: Option<&Path>| {
        let at = support::free_port(support::own_ip());
        let of = Installed { name: "redis-server", check: "option redis-check", begin: redis };
        let Some(redis) = Real::start(&of, at) else { return };
        let proxy = before(&of, at, io, program);
        let is = |status: &str, info: &str| {
            eventually(status, || {
                let is = |column: &str| proxy.stat("be,a", column);
                (is("check_status").trim_start_matches("* ") == status && is("last_chk") == info)
                    .then_some(())
            });
        };
        is("L7OK", "Redis server is ok");
        redis.signal("-STOP");
        is("L7TOUT", "");
        redis.signal("-CONT");
        is("L7OK", "Redis server is ok");
        if program.is_none() {
            let set = [
                "-h",
                &at.ip().to_string(),
                "-p",
                &at.port().to_string(),
                "config",
                "set",
                "requirepass",
                "x",
            ];
            if Command::new("redis-cli")
                .args(set)
                .stdout(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
            {
                is("L7STS", "-NOAUTH Authentication required.");
            }
        }
        drop(redis);
        is("L4CON", "ECONNREFUSED returned by OS (Connection refused)");
    };
    each_driver(|io| play(io, None));
    if let Some(reference) = reference() {
        play("epoll", Some(&reference));
    }
}

/// One that answers, stalls, answers again, and is gone.
fn is_checked(of: &Installed) {
    let play = |io: Io, program: Option<&Path>| {
        let at = support::free_port(support::own_ip());
        let Some(real) = Real::start(of, at) else { return };
        let proxy = before(of, at, io, program);
        let is = |status: &str| {
            eventually(status, || {
                let now = proxy.stat("be,a", "check_status");
                (now.trim_start_matches("* ") == status).then_some(())
            });
        };
        is("L7OK");
        real.signal("-STOP");
        is("L7TOUT");
        real.signal("-CONT");
        is("L7OK");
        drop(real);
        is("L4CON");
    };
    each_driver(|io| play(io, None));
    if let Some(reference) = reference() {
        play("epoll", Some(&reference));
    }
}

#[test]
fn a_mariadb_is_checked() {
    for check in [
        "option mysql-check",
        "option mysql-check user haproxy post-41",
        "option mysql-check user haproxy pre-41",
    ] {
        is_checked(&Installed { name: "mariadb", check, begin: mariadb });
    }
}

#[test]
fn a_postgresql_is_checked() {
    is_checked(&Installed { name: "postgresql", check: "option pgsql-check user postgres", begin: postgres });
}

#[test]
fn an_openldap_is_checked() {
    is_checked(&Installed { name: "slapd", check: "option ldap-check", begin: ldap });
}

#[test]
fn an_smtp_server_is_checked() {
    is_checked(&Installed { name: "smtpd", check: "option smtpchk EHLO test.example", begin: smtp });
}
