//! The program as scripts see it: outputs and exit codes (management manual, chapter 3).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A directory of its own, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("thalweg-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        symlink(env!("CARGO_BIN_EXE_thalweg"), path.join("haproxy")).unwrap();
        Directory(path)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    /// Runs the program under the name `haproxy`, in this directory.
    fn haproxy(&self, arguments: &[&str]) -> Output {
        self.run("haproxy", arguments)
    }

    fn run(&self, name: &str, arguments: &[&str]) -> Output {
        let program =
            if name == "thalweg" { env!("CARGO_BIN_EXE_thalweg").into() } else { self.0.join(name) };
        Command::new(program)
            .args(arguments)
            .current_dir(&self.0)
            .env("SET", "yes")
            .env_remove("UNSET")
            .output()
            .unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The standard error without the process id.
fn err(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        lines.push(match (line.find('('), line.find(") : ")) {
            (Some(open), Some(close)) if open < close => {
                format!("{}(pid){}", &line[..open], &line[close + 1..])
            }
            _ => line.to_string(),
        });
    }
    lines.join("\n")
}

#[test]
fn versions() {
    let directory = Directory::new("versions");
    let check = |name: &str, option: &str, first: &str| {
        let output = directory.run(name, &[option]);
        assert_eq!(output.status.code(), Some(0));
        assert!(out(&output).starts_with(first), "{}", out(&output));
        assert_eq!(err(&output), "");
    };
    check("haproxy", "-v", "HAProxy version 3.5-dev5 ");
    check("haproxy", "-vv", "HAProxy version 3.5-dev5 ");
    check("haproxy", "-vq", "3.5-dev5\n");
    check("haproxy", "-vqs", "3.5\n");
    check("haproxy", "-vqb", "3.5\n");
    check("thalweg", "-v", "Thalweg version ");
    check("thalweg", "-vv", "Thalweg version ");
    // The way the conformance suite asks.
    let output = directory.haproxy(&["-dM", "-dI", "-dW", "-vv"]);
    assert!(out(&output).contains("\n  TARGET  = linux-glibc\n"));
}

#[test]
fn conditions_exit_with_their_value() {
    let directory = Directory::new("conditions");
    for (condition, code) in [
        ("", 1),
        ("0", 1),
        ("1", 0),
        ("version_atleast(3.5-dev4)", 0),
        ("version_atleast(v9)", 0),
        ("version_before(3.5-dev5)", 1),
        ("feature(THREAD)", 0),
        ("feature(OPENSSL)", 0),
        ("feature(QUIC)", 1),
        ("streq(\"$SET\",yes) && !defined(UNSET)", 0),
        ("nonsense", 2),
        ("streq(\"a", 2),
    ] {
        let output = directory.haproxy(&["-dM", "-cc", condition]);
        assert_eq!(output.status.code(), Some(code), "{condition}");
        assert_eq!(err(&output).is_empty(), code != 2, "{condition}");
    }
    let output = directory.haproxy(&["-cc", "nonsense"]);
    let last = err(&output).lines().last().unwrap().to_string();
    assert_eq!(
        last,
        "[ALERT]    (pid) : Failed to evaluate condition: unparsable conditional expression 'nonsense'"
    );
}

#[test]
fn a_wrong_command_line_is_refused() {
    let directory = Directory::new("refused");
    for arguments in [&[][..], &["-Z"], &["a.cfg"], &["-f"], &["-c"], &["-x"]] {
        let output = directory.haproxy(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(err(&output).contains("Usage : haproxy [-f <cfgfile|cfgdir>]*"), "{arguments:?}");
    }
    for arguments in
        [&["-S", "x", "-f", "a"][..], &["-f", "a", "-n", "x"], &["-f", "a", "-sf", "x"], &["-dMx"]]
    {
        let output = directory.haproxy(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(err(&output).contains("[ALERT]    (pid) : "), "{arguments:?}");
        assert!(!err(&output).contains("Usage"), "{arguments:?}");
    }
}

#[test]
fn a_configuration_is_checked() {
    let directory = Directory::new("check");
    directory.write("good.cfg", "global\n  maxconn 100\n");
    directory.write("bad.cfg", "global\n  maxconn \"100\n");
    directory.write("warning.cfg", "global\n.warning \"look here\"\n");
    let check = |arguments: &[&str], code: i32, stdout: &str, last: &str| {
        let output = directory.haproxy(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?} {}", err(&output));
        assert_eq!(out(&output), stdout, "{arguments:?}");
        assert_eq!(err(&output).lines().last().unwrap_or(""), last, "{arguments:?}");
    };
    check(&["-c", "-f", "good.cfg"], 0, "", "");
    check(&["-c", "-V", "-f", "good.cfg"], 0, "Configuration file is valid\n", "");
    check(&["-c", "-V", "-q", "--", "good.cfg"], 0, "Configuration file is valid\n", "");
    let fatal = "[ALERT]    (pid) : config : Fatal errors found in configuration.";
    check(&["-c", "-f", "bad.cfg"], 1, "", fatal);
    check(&["-c", "-V", "-f", "good.cfg", "-f", "bad.cfg"], 1, "", fatal);
    check(&["-c", "-q", "-f", "bad.cfg"], 1, "", "");
    let warning = "[WARNING]  (pid) : config : parsing [warning.cfg:2] : 'look here'.";
    check(&["-c", "-f", "warning.cfg"], 0, "Warnings were found.\n", warning);
    check(
        &["-c", "-V", "-f", "warning.cfg"],
        0,
        "Warnings were found.\nConfiguration file is valid\n",
        warning,
    );
    let zero = "[ALERT]    (pid) : Some warnings were found and 'zero-warning' is set. Aborting.";
    check(&["-c", "-dW", "-f", "warning.cfg"], 1, "", zero);
    let missing = "[ALERT]    (pid) : config : Cannot open configuration file/directory no.cfg : No such file or directory";
    check(&["-c", "-f", "no.cfg"], 1, "", missing);
    let directory_missing =
        "[ALERT]    (pid) : Could not change to directory /no/such : No such file or directory";
    check(&["-c", "-C", "/no/such", "-f", "good.cfg"], 1, "", directory_missing);
    let here = directory.0.to_str().unwrap();
    check(&["-c", "-V", "-C", here, "-f", "good.cfg"], 0, "Configuration file is valid\n", "");
}

#[test]
fn help_is_ours() {
    let directory = Directory::new("help");
    for option in ["-h", "--help"] {
        let output = directory.run("thalweg", &[option]);
        assert_eq!((output.status.code(), err(&output)), (Some(0), String::new()), "{option}");
        assert!(out(&output).starts_with("Usage: thalweg -f <file|directory>..."), "{option}");
        for title in ["Configuration:", "Check:", "Run:", "Replace a running process:", "Limits:", "Look:"] {
            assert!(out(&output).contains(&format!("\n{title}\n")), "{title}");
        }
        // HAProxy has no such option.
        let output = directory.haproxy(&[option]);
        assert_eq!((output.status.code(), out(&output)), (Some(1), String::new()), "{option}");
        assert!(err(&output).contains(&format!("unknown option '{option}'")), "{}", err(&output));
    }
}

#[test]
fn colours_are_for_terminals() {
    let directory = Directory::new("colours");
    directory.write("bad.cfg", "global\n  maxcnn 100\n");
    assert!(!err(&directory.haproxy(&["-c", "-f", "bad.cfg"])).contains('\x1b'));
    // `script` runs a command on a terminal of its own.
    let on_terminal = |environment: &str| {
        let command = format!("env {environment} ./haproxy -c -f bad.cfg");
        let run = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .current_dir(&directory.0)
            .stdin(std::process::Stdio::null())
            .output();
        run.ok().filter(|output| out(output).contains("maxcnn")).map(|output| out(&output))
    };
    let Some(coloured) = on_terminal("-u NO_COLOR TERM=xterm") else {
        eprintln!("skipped: no 'script' to give a terminal");
        return;
    };
    assert!(coloured.contains("\x1b[1;31m[ALERT]\x1b[0m"), "{coloured}");
    for plain in ["NO_COLOR=1 TERM=xterm", "-u NO_COLOR TERM=dumb", "-u NO_COLOR -u TERM"] {
        let text = on_terminal(plain).expect("it ran before");
        assert!(!text.contains('\x1b'), "{plain}: {text}");
    }
}

#[test]
fn relative_names_start_where_default_path_says() {
    let directory = Directory::new("default-path");
    for name in ["conf", "origin"] {
        fs::create_dir(directory.0.join(name)).unwrap();
    }
    for (name, text) in
        [("here", "a b\n"), ("conf/config", "a b\n"), ("parent", "a b\n"), ("origin/origin", "a b\n")]
    {
        directory.write(name, text);
    }
    // Each file is in one place only, so that only its own policy finds it.
    for (policy, finds) in [
        ("", "here"),
        ("default-path current", "here"),
        ("default-path config", "config"),
        ("default-path parent", "parent"),
        ("default-path origin origin", "origin"),
        ("default-path config\n default-path origin conf", "config"),
    ] {
        for file in ["config", "origin", "nowhere", finds] {
            for rule in
                [format!("acl a path -f {file}"), format!("http-request deny if {{ path,map({file}) a }}")]
            {
                let text = format!(
                    "global\n {policy}\ndefaults\n mode http\n timeout client 1s\nfrontend f\n bind unix@s\n {rule}\n"
                );
                directory.write("conf/a.cfg", &text);
                let output = directory.haproxy(&["-c", "-f", "conf/a.cfg"]);
                let expected = i32::from(file != finds);
                assert_eq!(output.status.code(), Some(expected), "{policy} {rule}: {}", err(&output));
            }
        }
    }
    directory.write("conf/a.cfg", "global\n default-path origin nowhere\n");
    assert_eq!(directory.haproxy(&["-c", "-f", "conf/a.cfg"]).status.code(), Some(1));
}

#[test]
fn a_directory_without_files_is_refused() {
    let directory = Directory::new("nothing");
    for name in ["empty", "others"] {
        fs::create_dir(directory.0.join(name)).unwrap();
    }
    directory.write("others/a.txt", "global\n");
    directory.write("others/.b.cfg", "global\n");
    directory.write("a.cfg", "global\n");
    for path in ["empty", "others"] {
        let output = directory.haproxy(&["-c", "-f", path]);
        assert_eq!(output.status.code(), Some(1), "{path}");
        assert!(err(&output).contains(&format!("No configuration file in {path} : ")), "{}", err(&output));
        assert_eq!(directory.haproxy(&["-c", "-f", path, "-f", "a.cfg"]).status.code(), Some(0), "{path}");
    }
}

#[test]
fn a_directory_is_read_in_order() {
    let directory = Directory::new("directory");
    fs::create_dir(directory.0.join("conf")).unwrap();
    for (name, text) in [
        ("b.cfg", ".notice b\n"),
        ("a.cfg", ".notice a\n"),
        (".c.cfg", ".notice c\n"),
        ("d.txt", ".notice d\n"),
    ] {
        directory.write(&format!("conf/{name}"), text);
    }
    let output = directory.haproxy(&["-c", "-f", "conf"]);
    let expected = "[NOTICE]   (pid) : config : parsing [conf/a.cfg:1] : 'a'.\n[NOTICE]   (pid) : config : parsing [conf/b.cfg:1] : 'b'.";
    assert_eq!(err(&output), expected);
}

#[test]
fn without_listeners_there_is_nothing_to_run() {
    let directory = Directory::new("listeners");
    directory.write("a.cfg", "global\n  maxconn 100\n");
    let output = directory.haproxy(&["-f", "a.cfg"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        err(&output).contains(".main()] No enabled listener found (check for 'bind' directives) ! Exiting.")
    );
}

/// Whoever closed the standard error does not make a mistake worse.
#[test]
fn a_mistake_that_nobody_can_read_of_is_a_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = Command::new(env!("CARGO_BIN_EXE_thalweg")).arg("-zzz").stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(1));
}
