//! What is in force, as a configuration: `show config`, `show config diff`.

mod support;

use std::fs;

use support::{Conn, Io, Proxy, Setup, each_driver, nobody, program};

/// What the program's CLI answers.
fn cli(proxy: &Proxy, line: &str) -> String {
    let mut conn = Conn::connect_unix(&proxy.path("cli"));
    conn.send(format!("{line}\n"));
    conn.rest_text().trim_end().to_owned()
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
            "# generation 0, 0 changes at run time\nglobal\n    stats socket {}/cli level admin\nfrontend fe\n    mode http\n    \
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
