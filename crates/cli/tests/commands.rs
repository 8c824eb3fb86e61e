//! Every command of the reference works here or is refused by name, and docs/cli.md says which.

use std::collections::BTreeSet;
use std::path::Path;

use thalweg_cli::command::{self, Mode, Run};

/// The commands of the management manual, section 9.3 of the reference's 3.5, in its order.
const MANUAL: &[&str] = &[
    "abort ssl ca-file",
    "abort ssl cert",
    "abort ssl crl-file",
    "acme renew",
    "acme status",
    "add acl",
    "add backend",
    "add map",
    "add server",
    "add ssl ca-file",
    "add ssl crt-list",
    "add ssl ech",
    "add ssl jwt",
    "clear counters",
    "clear counters all",
    "clear counters server",
    "clear acl",
    "clear map",
    "clear table",
    "commit acl",
    "commit map",
    "commit ssl ca-file",
    "commit ssl cert",
    "commit ssl crl-file",
    "debug counters",
    "debug dev",
    "del acl",
    "del backend",
    "del map",
    "del ssl ca-file",
    "del ssl cert",
    "del ssl crl-file",
    "del ssl crt-list",
    "del ssl ech",
    "del ssl jwt",
    "del server",
    "disable agent",
    "disable dynamic-cookie backend",
    "disable frontend",
    "disable health",
    "disable server",
    "dump ssl cert",
    "dump stats-file",
    "echo",
    "enable agent",
    "enable dynamic-cookie backend",
    "enable frontend",
    "enable health",
    "enable server",
    "experimental-mode",
    "expert-mode",
    "get map",
    "get acl",
    "get var",
    "get weight",
    "help",
    "httpclient",
    "new ssl ca-file",
    "new ssl cert",
    "new ssl crl-file",
    "prepare acl",
    "prepare map",
    "prompt",
    "publish backend",
    "quit",
    "set anon on",
    "set anon off",
    "set anon global-key",
    "set dynamic-cookie-key backend",
    "set map",
    "set maxconn frontend",
    "set maxconn server",
    "set maxconn global",
    "set profiling memory",
    "set profiling tasks",
    "set rate-limit connections global",
    "set rate-limit http-compression global",
    "set rate-limit sessions global",
    "set rate-limit ssl-sessions global",
    "set server",
    "set severity-output",
    "set ssl ca-file",
    "set ssl cert",
    "set ssl crl-file",
    "set ssl ech",
    "set ssl ocsp-response",
    "set ssl tls-key",
    "set table",
    "set timeout cli",
    "set var",
    "set weight",
    "show acl",
    "show anon",
    "show backend",
    "show cli level",
    "operator",
    "unpublish backend",
    "user",
    "show activity",
    "show cli sockets",
    "show cache",
    "show default-server",
    "show defaults",
    "show dev",
    "show env",
    "show errors",
    "show events",
    "show fd",
    "show info",
    "show libs",
    "show map",
    "show peers",
    "show pools",
    "show profiling",
    "show resolvers",
    "show quic",
    "show servers conn",
    "show servers state",
    "show sess",
    "show stat",
    "show ssl ca-file",
    "show ssl cert",
    "show ssl crl-file",
    "show ssl crt-list",
    "show ssl ech",
    "show ssl jwt",
    "show ssl ocsp-response",
    "show ssl ocsp-updates",
    "show ssl providers",
    "show ssl sni",
    "show startup-logs",
    "show table",
    "show tasks",
    "show threads",
    "show tls-keys",
    "show schema json",
    "show trace",
    "show version",
    "shutdown frontend",
    "shutdown session",
    "shutdown sessions server",
    "trace",
    "update ssl ocsp-response",
    "wait",
];

#[test]
fn every_command_of_the_manual_works_or_is_refused_by_name() {
    let mut used = BTreeSet::new();
    for line in MANUAL {
        let words: Vec<&str> = line.split(' ').collect();
        let (found, _) = command::find(&words).unwrap_or_else(|| panic!("'{line}' is not known"));
        if let Run::Missing(what) = found.run {
            assert!(
                what.contains("missing") || what.contains("cannot") || what.contains("not "),
                "{line}: {what}"
            );
        }
        used.insert(found.words);
    }
    // What is not in the manual's list: internal words, what it names elsewhere, and ours.
    let others: Vec<&str> =
        command::all().iter().map(|c| c.words).filter(|words| !used.contains(words)).collect();
    assert_eq!(
        others,
        [
            "_getsocks",
            "abort config",
            "begin config",
            "check config",
            "commit config",
            "commit config to",
            "debug dev hash",
            "debug dev log",
            "explain",
            "reload",
            "show config",
            "show config diff",
            "show config text",
            "show latency",
            "show opentelemetry",
            "show reload",
            "show snapshots"
        ]
    );
}

const BEGIN: &str = "<!-- commands: begin -->\n";
const END: &str = "<!-- commands: end -->\n";

/// The table of docs/cli.md.
fn table() -> String {
    let mut text = String::from("| Command | Level | Works |\n|---|---|---|\n");
    for command in command::all().iter().filter(|command| !command.words.starts_with('_')) {
        let level = thalweg_cli::level_name(command.level);
        let mode = match command.mode {
            Mode::Any => "",
            Mode::Experimental => ", in experimental mode",
            Mode::Expert => ", in expert mode",
        };
        let works = match (command.run, command.lacks) {
            (Run::Missing(what), _) => format!("no: {what}"),
            (_, "") => "yes".into(),
            (_, lacks) => format!("without: {lacks}"),
        };
        text.push_str(&format!("| `{}` | {level}{mode} | {works} |\n", command.words));
    }
    text
}

/// `UPDATE_DOCS=1 cargo test -p thalweg-cli --test commands` writes the table.
#[test]
fn the_documentation_lists_them_all() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", table())).unwrap();
        return;
    }
    assert_eq!(written, table(), "docs/cli.md is not up to date: run this test with UPDATE_DOCS=1");
}

/// Every `show` has a form for programs: of its own, as in the reference, or made of its lines.
#[test]
fn every_show_has_a_json_twin() {
    const OF_THEIR_OWN: [&str; 3] = ["show info", "show schema json", "show stat"];
    let shows = command::all().iter().filter(|command| command.words.starts_with("show") && command.works());
    let without: Vec<&str> =
        shows.filter(|command| command.shape.is_none()).map(|command| command.words).collect();
    assert_eq!(without, OF_THEIR_OWN);
}
