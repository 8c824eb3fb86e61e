//! What is in force, as a configuration: `show config`, `show config diff`.

mod support;

use std::fs;

use support::{Conn, Io, Proxy, Setup, each_driver, nobody, program};

/// What the program's CLI answers.
fn cli(proxy: &Proxy, line: &str) -> String {
    proxy.tell("cli", line).trim_end().to_owned()
}

/// Does something that must work.
fn done(proxy: &Proxy, line: &str) {
    let said = cli(proxy, line).to_lowercase();
    assert!(
        !["error", "unknown", "no such", "invalid", "require", "expects"]
            .iter()
            .any(|word| said.contains(word)),
        "{line}: {said}"
    );
}

const TEXT: &str = "\
# What the whole is about.
global
    maxconn 500   # many
    stats socket <@dir>/cli level admin

defaults plain
    mode http
    timeout client 20s
    timeout connect 20s
    timeout server 20s

frontend fe from plain
    bind <@fe>
    maxconn 100
    # Which one?
    use_backend app if { path -m beg -f <@dir>/paths }
    default_backend other

backend app from plain
    default-server inter 10m weight 7
    server s1  192.0.2.1:80   weight \"10\" # the first
    server s2 192.0.2.2:80 disabled
    server s3 192.0.2.3:80 check port 81
    server-template t 3 192.0.2.9:80

backend other from plain
    # nobody asks it
    balance hash path
    hash-type consistent
    server a 192.0.2.11:80
    server b 192.0.2.12:80
    server c 192.0.2.13:80

backend gone from plain
    be-unpublished
";

fn setup() -> Setup {
    Setup::file(TEXT).file_beside("paths", "/app\n")
}

/// All that can be changed at run time and written down.
fn change(proxy: &Proxy) {
    for line in [
        "set server app/s1 weight 50",
        "set server app/s1 addr 192.0.2.51 port 8080",
        "set maxconn server app/s1 30",
        "set server app/s2 state ready",
        "set server app/s3 check-port 82",
        "set server app/s3 check-addr 192.0.2.53",
        "set server app/t2 state maint",
        "add server app/new 192.0.2.20:80 weight 3 cookie weight",
        "add server app/waits 192.0.2.21:80 check inter 5m",
        "enable server app/new",
        "enable health app/waits",
        "disable server other/a",
        "del server other/a",
        "add server other/d 192.0.2.14:80",
        "enable server other/d",
        "add backend more from plain mode http guid one-more",
        "publish backend more",
        "add server more/m 192.0.2.30:80 maxconn 4",
        "del backend gone",
        "unpublish backend other",
        "set maxconn frontend fe 60",
        "set maxconn global 400",
        "set rate-limit sessions global 90",
    ] {
        done(proxy, line);
    }
}

const CHANGED: &str = "\
~ global maxconn 500 -> 400
~ global maxsessrate 0 -> 90
~ frontend fe maxconn 100 -> 60
~ server app/s1 addr 192.0.2.1:80 -> 192.0.2.51:8080
~ server app/s1 weight 10 -> 50
~ server app/s1 maxconn 0 -> 30
~ server app/s2 state maint -> ready
~ server app/s3 check-addr -> 192.0.2.53
~ server app/s3 check-port 81 -> 82
~ server app/t2 state ready -> maint
+ server app/new 192.0.2.20:80 from none weight 3 cookie weight
+ server app/waits 192.0.2.21:80 from none check inter 5m disabled
~ backend other published yes -> no
- server other/a
+ server other/d 192.0.2.14:80 id 1
+ backend more from plain
+ server more/m 192.0.2.30:80 maxconn 4 disabled
- backend gone";

#[test]
fn everything_that_was_changed_is_shown() {
    each_driver(|io| {
        let proxy = setup().start(io);
        assert_eq!(cli(&proxy, "show config diff"), "", "{io}: nothing was changed");
        change(&proxy);
        assert_eq!(cli(&proxy, "show config diff"), CHANGED, "{io}");
        // Its twin for programs.
        let json = cli(&proxy, "show config diff json");
        let first = "{\"change\":\"changed\",\"what\":\"global\",\"name\":\"\",\"field\":\"maxconn\",\"file\":500,\"now\":400,\"note\":\"\"}";
        assert!(json.starts_with(&format!("[{first},\n")), "{json}");
        assert_eq!(json.lines().count(), CHANGED.lines().count(), "{json}");
        assert!(json.contains("\"change\":\"added\",\"what\":\"server\",\"name\":\"app/new\",\"line\":\"192.0.2.20:80 from none"), "{json}");
        // Taking a change back is no difference.
        done(&proxy, "set server app/s1 weight 10");
        assert!(!cli(&proxy, "show config diff").contains("weight 10 ->"), "{io}");
        proxy.finish(());
    });
}

/// Columns of `show servers state` that a configuration decides on.
fn states(proxy: &Proxy) -> Vec<String> {
    let text = cli(proxy, "show servers state");
    let mut lines = text.lines().skip(1);
    let columns: Vec<&str> = lines.next().unwrap().trim_start_matches("# ").split(' ').collect();
    let wanted = [
        "be_name",
        "srv_id",
        "srv_name",
        "srv_addr",
        "srv_admin_state",
        "srv_uweight",
        "srv_port",
        "srv_check_port",
    ];
    let of = |line: &str| {
        let cells: Vec<&str> = line.split(' ').collect();
        let cell = |name: &&str| {
            let cell = cells[columns.iter().position(|column| column == name).unwrap()];
            // Besides, the state remembers what the file said at first.
            let is_out = |bits: &str| bits.parse::<u32>().unwrap() & 1 != 0;
            if *name == "srv_admin_state" { format!("out={}", is_out(cell)) } else { cell.to_owned() }
        };
        wanted.iter().map(cell).collect::<Vec<_>>().join(" ")
    };
    let mut all: Vec<String> = lines.filter(|line| !line.is_empty()).map(of).collect();
    all.sort_unstable();
    all
}

/// Starts the program with a text in place of its configuration, and gives it to `look`.
fn started_with(io: Io, text: &str, look: impl FnOnce(&Proxy)) {
    let proxy = Setup::file(text).start(io);
    look(&proxy);
    proxy.finish(());
}

#[test]
fn what_is_shown_means_the_same() {
    each_driver(|io| {
        let proxy = setup().start(io);
        change(&proxy);
        let shown = cli(&proxy, "show config");
        let states_then = states(&proxy);
        let check = proxy.path("shown");
        fs::write(&check, format!("{shown}\n")).unwrap();
        let accepted = program().arg("-c").arg("-f").arg(&check).output().unwrap();
        assert!(accepted.status.success(), "{shown}\n{}", String::from_utf8_lossy(&accepted.stderr));
        // The other one has the same files, and a CLI and a port of its own.
        let text = format!("{shown}\n").replace(proxy.path("cli").to_str().unwrap(), "<@dir>/cli");
        let text = text.replace(&format!("bind {}", proxy.addr("fe")), "bind <@fe>");
        started_with(io, &text, |other| {
            assert_eq!(cli(other, "show config diff"), "", "{io}\n{shown}");
            let ids = |states: &[String]| -> Vec<String> {
                // Where numbers decide which server is chosen they are kept.
                let keep = |line: &String| {
                    let cells: Vec<&str> = line.split(' ').collect();
                    if cells[0] == "other" {
                        line.clone()
                    } else {
                        [&cells[..1], &cells[2..]].concat().join(" ")
                    }
                };
                let mut all: Vec<String> = states.iter().map(keep).collect();
                all.sort_unstable();
                all
            };
            assert_eq!(ids(&states(other)), ids(&states_then), "{io}\n{shown}");
            let again = cli(other, "show config");
            let body = |text: &str| {
                text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
            };
            let here = body(&again)
                .join("\n")
                .replace(other.path("cli").to_str().unwrap(), proxy.path("cli").to_str().unwrap());
            let here = here.replace(&other.addr("fe").to_string(), &proxy.addr("fe").to_string());
            assert_eq!(here, body(&shown).join("\n"), "{io}");
        });
        proxy.finish(());
    });
}

#[test]
fn comments_are_stripped_and_variables_replaced() {
    let text = "global # none\n  stats socket \"$DIR/cli\" level admin\n.if defined(NOTHING)\n  maxconn 1\n.endif\n\
                frontend fe\n  mode http\n  timeout client 1s\n  bind <@fe>\n  acl a path \"/with blank\" '/#'\n";
    each_driver(|io| {
        let directory = support::Directory::new();
        let proxy = Setup::file(text).env("DIR", directory.0.to_str().unwrap()).start(io);
        let mut conn = Conn::connect_unix(&directory.0.join("cli"));
        conn.send("show config\n");
        let expected = format!(
            "# generation 0, revision 0, 0 changes at run time\nglobal\n    stats socket {}/cli level admin\nfrontend fe\n    mode http\n    \
             timeout client 1s\n    bind {}\n    acl a path '/with blank' '/#'\n\n",
            directory.0.display(),
            proxy.addr("fe")
        );
        assert_eq!(conn.rest_text(), expected, "{io}");
        proxy.finish(());
    });
}

/// What no line can say is told, with the reason.
#[test]
fn what_no_line_can_say_is_told() {
    each_driver(|io| {
        let proxy = setup().start(io);
        for line in [
            "set server app/s1 state drain",
            "disable health app/s3",
            "disable frontend fe",
            &format!("add acl {}/paths /more", proxy.directory.0.display()),
        ] {
            done(&proxy, line);
        }
        let differences = cli(&proxy, "show config diff");
        let shown = cli(&proxy, "show config");
        for line in [
            "~ server app/s1 state ready -> drain # no word says 'drain'; 'weight 0' comes near it"
                .to_owned(),
            "~ server app/s3 health on -> off # 'no-check' would take the checks away".to_owned(),
            "~ frontend fe state open -> paused # 'disabled' would close its ports for good".to_owned(),
            format!(
                "~ acl {}/paths entries -> 2 # entries are in a file of their own, which is not written",
                proxy.directory.0.display()
            ),
        ] {
            assert!(differences.lines().any(|other| other == line), "{io}: {line}\n{differences}");
            assert!(shown.lines().any(|other| other == format!("# {line}")), "{io}: {line}\n{shown}");
        }
        assert!(
            cli(&proxy, "show config diff json")
                .contains("\"note\":\"'no-check' would take the checks away\""),
            "{io}"
        );
        proxy.finish(());
    });
}

/// Nothing of a dump for strangers tells names, addresses or secrets.
#[test]
fn strangers_see_hashes() {
    let text = format!(
        "global\n  stats socket <@dir>/cli level admin\n  setenv SECRET xyzzy\n  anonkey 7012345\nuserlist people\n  user joe insecure-password xyzzy7\n\
         frontend public\n  mode http\n  timeout client 5s\n  bind <@fe>\n  http-request set-header authorization xyzzy\n  \
         use_backend inner if {{ path /xyzzy }}\nbackend inner\n  mode http\n  server xyzzy1 {} weight 5 cookie xyzzy\n",
        nobody()
    );
    each_driver(|io| {
        let proxy = Setup::file(&text).start(io);
        done(&proxy, "set server inner/xyzzy1 addr 192.0.2.77");
        done(&proxy, "add server inner/xyzzy2 192.0.2.78:80");
        let shown = cli(&proxy, "set anon on 5; show config; show config diff");
        for secret in [
            "xyzzy",
            "joe",
            "people",
            "public",
            "inner",
            "192.0.2",
            "7012345",
            "authorization",
            proxy.directory.0.to_str().unwrap(),
        ] {
            assert!(!shown.contains(secret), "{io}: {secret}\n{shown}");
        }
        for line in ["    timeout client 5s", "    mode http", "    http-request [...]"] {
            assert!(shown.lines().any(|other| other == line), "{io}: {line}\n{shown}");
        }
        proxy.finish(());
    });
}

#[test]
fn it_is_for_administrators_and_takes_nothing_else() {
    each_driver(|io| {
        let proxy = setup().start(io);
        for level in ["user", "operator"] {
            for command in ["show config", "show config diff", "show config json"] {
                assert_eq!(cli(&proxy, &format!("{level}; {command}")), "\nPermission denied", "{io}");
            }
        }
        for line in ["show config x", "show config diff x", "show config \\;", "show config json json"] {
            let said = cli(&proxy, line);
            assert!(said.starts_with("'show config' takes nothing"), "{io}: {line}: {said}");
        }
        // A client that leaves before its answer disturbs nobody.
        for _ in 0..20 {
            Conn::connect_unix(&proxy.path("cli")).send("show config\n");
        }
        assert!(cli(&proxy, "show config").contains("server s1"), "{io}");
        proxy.finish(());
    });
}

/// A process without a sandbox: it may write files.
fn open_setup() -> Setup {
    Setup::file(&TEXT.replace("global\n", "global\n    sandbox off\n")).file_beside("paths", "/app\n")
}

fn read(proxy: &Proxy, name: &str) -> String {
    fs::read_to_string(proxy.path(name)).unwrap()
}

/// What the file becomes: everything but the words that changed stays.
fn committed(proxy: &Proxy, before: &str) -> String {
    let dir = proxy.directory.0.to_str().unwrap();
    let (from, to) = before.split_once("\nbackend other").unwrap();
    let to = to
        .replace("    server a 192.0.2.11:80\n", "")
        .replace("192.0.2.12:80\n", "192.0.2.12:80 id 2\n")
        .replace(
            "    server c 192.0.2.13:80\n",
            "    server c 192.0.2.13:80\n    be-unpublished\n    server d 192.0.2.14:80 id 1\n",
        )
        .replace("backend gone from plain\n    be-unpublished\n", "");
    let from = from
        .replace("maxconn 500   # many", "maxconn 400   # many")
        .replace(&format!("stats socket {dir}/cli level admin\n"), &format!("stats socket {dir}/cli level admin\n    maxsessrate 90\n"))
        .replace("maxconn 100", "maxconn 60")
        .replace("192.0.2.1:80   weight \"10\" # the first", "192.0.2.51:8080   weight 50 maxconn 30 # the first")
        .replace("192.0.2.2:80 disabled", "192.0.2.2:80 enabled")
        .replace("check port 81", "check port 82 addr 192.0.2.53")
        .replace(
            "    server-template t 3 192.0.2.9:80\n",
            "    server t1 192.0.2.9:80\n    server t2 192.0.2.9:80 disabled\n    server t3 192.0.2.9:80\n    \
             server new 192.0.2.20:80 from none weight 3 cookie weight\n    server waits 192.0.2.21:80 from none check inter 5m disabled\n",
        );
    let more = "backend more from plain\n    mode http\n    guid one-more\n    server m 192.0.2.30:80 maxconn 4 disabled\n";
    format!("{from}\nbackend other{to}{more}")
}

#[test]
fn changes_are_written_and_comments_stay() {
    each_driver(|io| {
        let proxy = open_setup().start(io);
        let before = read(&proxy, "cfg");
        change(&proxy);
        let said = cli(&proxy, "commit config to cfg");
        assert!(said.starts_with("Success=1\n--\ncfg has what was changed at run time:\n"), "{io}: {said}");
        assert_eq!(said.lines().skip(3).collect::<Vec<_>>().join("\n"), CHANGED, "{io}");
        let expected = committed(&proxy, &before);
        assert_eq!(read(&proxy, "cfg"), expected, "{io}");
        // Once more, with one more change: it knows what it wrote.
        done(&proxy, "set server app/s1 weight 51");
        assert!(cli(&proxy, "commit config to cfg").starts_with("Success=1\n"), "{io}");
        assert_eq!(read(&proxy, "cfg"), expected.replace("weight 50", "weight 51"), "{io}");
        proxy.finish(());
    });
}

/// A reload finds all that was written in the file: nothing changes by it.
#[test]
fn after_a_commit_a_reload_changes_nothing() {
    each_driver(|io| {
        let proxy = open_setup().start(io);
        change(&proxy);
        assert!(cli(&proxy, "commit config to cfg").starts_with("Success=1\n"), "{io}");
        let states_then = states(&proxy);
        let said = cli(&proxy, "reload");
        assert!(said.starts_with("Success=1\n") && !said.contains("kept:"), "{io}: {said}");
        assert_eq!(cli(&proxy, "show config diff"), "", "{io}: {said}");
        assert_eq!(states(&proxy), states_then, "{io}: {said}");
        assert!(cli(&proxy, "show info").contains("\nSessRateLimit: 90\n"), "{io}");
        proxy.finish(());
    });
}

/// What a program in its sandbox may not write is written from outside, and is the same.
#[test]
fn from_outside_the_same_is_written() {
    each_driver(|io| {
        let proxy = setup().start(io);
        let before = read(&proxy, "cfg");
        change(&proxy);
        let said = cli(&proxy, "commit config to cfg");
        // Without Landlock in the kernel it may.
        let by_itself = said.starts_with("Success=1\n");
        if !by_itself {
            assert!(
                said.starts_with("Success=0\n--\nCannot write cfg: Permission denied. Nothing was changed."),
                "{io}: {said}"
            );
            assert!(said.contains("'thalweg commit -S <socket> cfg'"), "{io}: {said}");
            assert_eq!(read(&proxy, "cfg"), before, "{io}");
        }
        let (success, said) = commit(&proxy, &["cfg"]);
        assert!(success && said.contains("\n~ server app/s1 weight 10 -> 50\n"), "{io}: {said}");
        assert_eq!(read(&proxy, "cfg"), committed(&proxy, &before), "{io}");
        done(&proxy, "set server app/s1 weight 51");
        assert!(commit(&proxy, &["cfg"]).0, "{io}: what it wrote itself is known");
        assert!(commit(&proxy, &["other.cfg"]).0, "{io}");
        assert_eq!(read(&proxy, "other.cfg"), read(&proxy, "cfg"), "{io}");
        proxy.finish(());
    });
}

/// `thalweg commit` in the directory of the configuration: whether it worked, and what it said.
fn commit(proxy: &Proxy, arguments: &[&str]) -> (bool, String) {
    let mut command = program();
    command.args(["commit", "-S", "cli"]).args(arguments).current_dir(&proxy.directory.0);
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// What cannot be written leaves everything as it is, and says what to do.
#[test]
fn what_cannot_be_written_changes_nothing() {
    each_driver(|io| {
        let proxy = open_setup().start(io);
        let before = read(&proxy, "cfg");
        done(&proxy, "set server app/s1 weight 50");
        fs::write(proxy.path("foreign"), "others wrote this\n").unwrap();
        for (name, reason) in [
            (".", "is a directory: name a file"),
            ("nowhere/cfg", "No such file or directory"),
            ("foreign", "is no file of this configuration, or was changed since it was read"),
            ("cfg/below", "Not a directory"),
        ] {
            let said = cli(&proxy, &format!("commit config to {name}"));
            assert!(said.starts_with("Success=0\n--\n") && said.contains(reason), "{io}: {name}: {said}");
            let (success, said) = commit(&proxy, &[name]);
            assert!(!success && said.contains(reason), "{io}: {name}: {said}");
        }
        // What no line can say.
        done(&proxy, "set server app/s1 state drain");
        let said = cli(&proxy, "commit config to cfg");
        assert!(said.starts_with("Success=0\n--\nNo line of a configuration can say this:\n~ server app/s1 state ready -> drain #"), "{said}");
        assert!(said.ends_with("Nothing was written."), "{io}: {said}");
        assert!(!commit(&proxy, &["cfg"]).0, "{io}");
        assert_eq!(read(&proxy, "cfg"), before, "{io}");
        assert!(
            commit(&proxy, &["--partly", "new"])
                .1
                .contains("Left out, for no line can say it:\n~ server app/s1 state"),
            "{io}"
        );
        // Somebody edits the file meanwhile.
        let edited = before.replace("# nobody asks it", "# somebody does");
        fs::write(proxy.path("cfg"), &edited).unwrap();
        let said = cli(&proxy, "commit config to cfg partly");
        assert!(said.contains("was changed since it was read. Reload what it says"), "{io}: {said}");
        assert_eq!(read(&proxy, "cfg"), edited, "{io}");
        // After a reload it is the file that is known.
        assert!(cli(&proxy, "reload").starts_with("Success=1\n"), "{io}");
        assert!(cli(&proxy, "commit config to cfg partly").starts_with("Success=1\n"), "{io}");
        assert_eq!(read(&proxy, "cfg"), edited.replace("weight \"10\"", "weight 50"), "{io}");
        let names: Vec<_> =
            fs::read_dir(&proxy.directory.0).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name.to_string_lossy().ends_with(".tmp")), "{io}: {names:?}");
        proxy.finish(());
    });
}

/// A disk without room, for real, where this user may mount one.
#[test]
fn a_full_disk_changes_nothing() {
    let proxy = setup().start("epoll");
    done(&proxy, "set server app/s1 weight 50");
    let script = format!(
        "mkdir small && mount -t tmpfs -o size=16k none small && cp cfg small/cfg && head -c 12k /dev/zero > small/rest; \
         {} commit -S cli small/cfg; echo rc $?; cmp cfg small/cfg && ls -A small",
        program().get_program().to_str().unwrap()
    );
    let mut shell = std::process::Command::new("unshare");
    let output = shell.args(["-rm", "sh", "-c", &script]).current_dir(&proxy.directory.0).output();
    let said =
        output.map(|output| String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned());
    match said {
        Ok(said) if said.contains("rc 1") => {
            assert!(said.contains("No space left on device. Nothing was changed."), "{said}");
            assert!(!said.contains(".tmp") && said.contains("rc 1\ncfg\nrest\n"), "{said}");
        }
        other => eprintln!("skipped: no small disk can be mounted here: {other:?}"),
    }
    proxy.finish(());
}

/// Whoever is killed in the middle leaves the old text or the new one.
#[test]
fn a_kill_in_the_middle_leaves_a_whole_file() {
    let many: String =
        (0..2000).map(|n| format!("    server more{n} 192.0.2.90:80 disabled # {n}\n")).collect();
    let text = TEXT.replace("    server-template", &format!("{many}    server-template"));
    let proxy = Setup::file(&text).file_beside("paths", "/app\n").start("epoll");
    let before = read(&proxy, "cfg");
    done(&proxy, "set server app/s1 weight 50");
    let after = before.replace("weight \"10\"", "weight 50");
    let mut command = program();
    command.args(["commit", "-S", "cli", "cfg"]).current_dir(&proxy.directory.0);
    for round in 0..12 {
        let mut child =
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        // Where it is killed does not matter for what must be true.
        std::thread::sleep(std::time::Duration::from_millis(round * 20));
        let _ = child.kill();
        child.wait().unwrap();
        let text = read(&proxy, "cfg");
        assert!(text == before || text == after, "round {round}: {} bytes", text.len());
    }
    let (success, said) = commit(&proxy, &["cfg"]);
    assert!(success, "it can still be written: {said}");
    assert_eq!(read(&proxy, "cfg"), after);
    proxy.finish(());
}

/// Several files: one of them, or all in one.
#[test]
fn changes_of_several_files() {
    each_driver(|io| {
        let first = TEXT.replace("global\n", "global\n    sandbox off\n");
        let proxy = Setup::file(&first)
            .file_beside("paths", "/app\n")
            .file_beside("second.cfg", "# The second.\nbackend b2\n    mode http\n    timeout connect 1s\n    timeout server 1s\n    server s 192.0.2.61:80 # one\n")
            .argument("-f")
            .argument("second.cfg")
            .start(io);
        let (one, two) = (read(&proxy, "cfg"), read(&proxy, "second.cfg"));
        done(&proxy, "set server b2/s weight 5");
        let said = cli(&proxy, "commit config to cfg");
        assert!(said.starts_with("Success=0\n--\nThere are changes for second.cfg as well"), "{io}: {said}");
        assert!(cli(&proxy, "commit config to second.cfg").starts_with("Success=1\n"), "{io}");
        let two = two.replace("192.0.2.61:80 #", "192.0.2.61:80 weight 5 #");
        assert_eq!((read(&proxy, "cfg"), read(&proxy, "second.cfg")), (one.clone(), two.clone()), "{io}");
        done(&proxy, "set server app/s1 weight 50");
        assert!(cli(&proxy, "commit config to all.cfg").starts_with("Success=1\n"), "{io}");
        assert_eq!(
            read(&proxy, "all.cfg"),
            format!("{}\n{two}", one.replace("weight \"10\"", "weight 50")),
            "{io}"
        );
        proxy.finish(());
    });
}

/// Odd names, too many words, long lines, clients that leave: nothing is written, and the next one is answered.
#[test]
fn odd_commands_write_nothing() {
    each_driver(|io| {
        let proxy = open_setup().start(io);
        let names = |proxy: &Proxy| {
            let mut names: Vec<_> =
                fs::read_dir(&proxy.directory.0).unwrap().map(|e| e.unwrap().file_name()).collect();
            names.sort_unstable();
            names
        };
        done(&proxy, "set server app/s1 weight 50");
        let before = (read(&proxy, "cfg"), names(&proxy));
        for line in [
            "commit config to",
            "commit config to a b",
            "commit config to a partly b",
            "show config text",
            "show config text a b c",
        ] {
            let said = cli(&proxy, line);
            assert!(
                said.contains("takes the name of a file") || said.starts_with("Unknown command"),
                "{io}: {line}: {said}"
            );
        }
        let long = "x".repeat(5000);
        for name in [&*long, "\\\n/x", "nowhere/\u{1F600}"] {
            let said = cli(&proxy, &format!("commit config to {name}"));
            assert!(said.starts_with("Success=0\n--\nCannot "), "{io}: {said}");
        }
        assert!(
            cli(&proxy, &format!("commit config to {}", "y".repeat(100_000))).contains("too big"),
            "{io}"
        );
        for level in ["operator", "user"] {
            assert_eq!(cli(&proxy, &format!("{level};commit config to cfg")), "\nPermission denied", "{io}");
        }
        for part in ["commit conf", "commit config to cfg"] {
            Conn::connect_unix(&proxy.path("cli")).send(part);
        }
        assert!(cli(&proxy, "show config text cfg").starts_with("Success=1 length="), "{io}");
        assert_eq!((read(&proxy, "cfg"), names(&proxy)), before, "{io}");
        proxy.finish(());
    });
}
