//! `thalweg upgrade`: old files, in the style of public ones, become files that work today.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::{Directory, Server, Setup, each_driver, program, reference};

/// The old files. The first line of one that cannot be translated whole says how many lines are left: `# LEFT 6`.
fn old_files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../upgrade/tests/old");
    let mut files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 40);
    files
}

fn upgrade(file: &Path) -> Output {
    program().args(["upgrade", "-f"]).arg(file).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn forty_old_files_work_today() {
    let directory = Directory::new();
    let reference = reference();
    for file in old_files() {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let old = fs::read_to_string(&file).unwrap();
        let left = old.strip_prefix("# LEFT ").and_then(|rest| rest.lines().next()?.parse::<usize>().ok());
        let upgraded = upgrade(&file);
        let said = text(&upgraded.stderr);
        assert_eq!(upgraded.status.code(), Some(i32::from(left.is_some())), "{name}: {said}");
        let marks = text(&upgraded.stdout).matches("# upgrade: ").count();
        assert_eq!(marks, left.unwrap_or(0), "{name}");
        assert_eq!(said.matches(": left: ").count(), marks, "{name}: {said}");
        // Every comment is still there.
        for line in old.lines().filter_map(|line| line.trim().strip_prefix('#')) {
            assert!(text(&upgraded.stdout).contains(line.trim_end()), "{name}: #{line}");
        }
        // What was upgraded needs no upgrade.
        let new = directory.0.join(&name);
        fs::write(&new, &upgraded.stdout).unwrap();
        let again = upgrade(&new);
        assert_eq!(text(&again.stdout), text(&upgraded.stdout), "{name}");
        if left.is_some() {
            continue;
        }
        assert_eq!(text(&again.stderr), "", "{name}");
        let programs = std::iter::once(program()).chain(reference.iter().map(Command::new));
        for mut program in programs {
            // Not every one of them is refused as it was: some only lost their meaning.
            let checked = program.args(["-c", "-f"]).arg(&new).output().unwrap();
            assert!(checked.status.success(), "{name}: {program:?}\n{}", text(&checked.stderr));
        }
    }
}

#[test]
fn an_old_file_is_refused_with_advice() {
    let directory = Directory::new();
    let file = directory.0.join("old.cfg");
    let check = |lines: &str| {
        let body = format!("listen a\n  mode http\n  bind 127.0.0.1:1\n{lines}");
        fs::write(&file, body).unwrap();
        let output = program().args(["-c", "-f"]).arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{lines}");
        text(&output.stderr)
    };
    let said = check("  redispatch\n  clitimeout 5s\n");
    let advice = format!(
        "2 lines are in the language of an older HAProxy : 'thalweg upgrade -f {}' prints the file in today's.\n",
        file.display()
    );
    assert!(said.contains(&advice), "{said}");
    assert!(check("  reqpass ^a\n").contains("1 line is in"));
    assert!(!check("  nonsense\n").contains("upgrade"));
}

#[test]
fn the_command_line_is_checked() {
    for (arguments, expected) in [
        (vec!["upgrade"], "no file was given"),
        (vec!["upgrade", "-f"], "option '-f' expects a file"),
        (vec!["upgrade", "-x"], "unknown option '-x'"),
        (vec!["upgrade", "-f", "/nowhere/a.cfg"], "cannot read /nowhere/a.cfg: No such file or directory"),
    ] {
        let output = program().args(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
    let help = program().args(["upgrade", "--help"]).output().unwrap();
    assert!(help.status.success() && text(&help.stdout).starts_with("Usage: "));
    // HAProxy has no such command.
    let directory = Directory::new();
    let link = directory.0.join("haproxy");
    std::os::unix::fs::symlink(program().get_program(), &link).unwrap();
    let output = Command::new(link).args(["upgrade", "-f", "x"]).output().unwrap();
    assert!(text(&output.stderr).contains("unexpected argument 'upgrade'"));
}

/// What 1.5 documents for these lines is what the new ones do.
#[test]
fn upgraded_rules_do_what_the_old_ones_did() {
    let old = "\
global
  nbthread 1
defaults
  mode http
  contimeout 20s
  clitimeout 20s
  srvtimeout 20s
listen site <@fe>
  reqadd X-Last:\\ 100%\\ ours
  reqrep ^([^\\ :]*)\\ /old/(.*) \\1\\ /new/\\2
  reqirep ^Host:\\ (.*)\\.OLD\\.example\\.com Host:\\ \\1.example.com
  reqidel ^X-Fake
  reqirep ^X-Client:\\ (.*) X-Real:\\ \\1
  block if { path_beg /private }
  reqideny ^User-Agent:.*(evil|bad)bot
  reqdeny ^(TRACE|TRACK)\\\x20
  rspirep ^(Set-Cookie:.*) \\1;\\ Secure
  rspidel ^Server:
  rspadd X-Via:\\ lb
  server s <@s>
";
    let new = text(&thalweg_upgrade::upgrade(old.as_bytes()).text);
    each_driver(|io| {
        let proxy = Setup::file(&new).start(io);
        let _server = Server::listen(std::net::TcpListener::bind(proxy.addr("s")).unwrap(), |mut conn, _| {
            while let Some(request) = conn.next_request() {
                let head = format!("{:?}", request.head);
                let body = head.replace('"', "'");
                conn.send(format!(
                        "HTTP/1.1 200 OK\r\nServer: secret\r\nSet-Cookie: a=b\r\nContent-Length: {}\r\n\r\n{body}",
                        body.len()
                    ));
            }
        });
        let ask = |line: &str, fields: &str| {
            proxy.ask(&format!("{line} HTTP/1.1\r\nHost: www.old.example.com\r\n{fields}\r\n"))
        };
        let response = ask("GET /old/a?b=c", "X-FakeIt: 1\r\nX-Client: me\r\nX-Last: mine\r\n");
        let seen = response.text();
        for expected in ["/new/a?b=c", "www.example.com", "100% ours", "mine", "('x-real', 'me')"] {
            assert!(seen.to_lowercase().contains(expected), "{expected}: {seen}");
        }
        for gone in ["old.example", "x-fakeit", "x-client"] {
            assert!(!seen.to_lowercase().contains(gone), "{gone}: {seen}");
        }
        assert_eq!(response.field("set-cookie"), "a=b; Secure");
        assert_eq!(response.field("x-via"), "lb");
        assert!(!response.head.has("server"));
        for (line, fields) in
            [("GET /private/x", ""), ("GET /", "User-Agent: an EvilBot\r\n"), ("TRACE /", "")]
        {
            assert!(ask(line, fields).status == 403, "{line}");
        }
        assert!(ask("GET /", "").status == 200);
    });
}
