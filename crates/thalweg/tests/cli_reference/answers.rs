//! Every command in many shapes, one after the other: what both programs answer, byte for byte, and the figures of
//! `show info` and `show stat`, field by field.

use std::collections::{BTreeMap, BTreeSet};

use super::pair::{Answers, CONFIGURATION, Pair};
use super::support::eventually;
use super::support::own_commands::OWN_COMMANDS;

/// The lines, in order: later ones see what earlier ones changed. `\n` begins a payload.
const LINES: &str = include_str!("lines.txt");

/// Lines whose answers differ, by how they begin, and why. One that does not differ any more must leave this list.
const KNOWN: &[(&str, &str)] = &[
    // What is missing here, and refused by name.
    ("add server", "full stops, and help of our own"),
    ("set rate-limit http-compression", "compression is missing"),
    ("set rate-limit connections global x", "what is no number is refused"),
    ("set rate-limit", "compression is missing from the list of settings"),
    ("show cache", "the cache is missing"),
    ("show dev", "another program"),
    ("set anon x", "suggestions"),
    ("show resolvers", "other counters"),
    ("show stat domain resolvers", "resolvers are missing"),
    // What must differ.
    ("show libs", "another program"),
    ("show startup-logs", "other words; see the test below"),
    ("show version", "another version"),
    // Texts of our own: what they begin with is compared below.
    ("experimental-mode on;set var(proc.y)", "suggestions"),
    ("show schema json", "ours is shorter"),
    ("show servers", "suggestions"),
    ("show sess help", "our words"),
    ("shutdown sessions", "suggestions"),
    ("wait -h", "our words"),
    ("wait 1 x", "our words"),
    // Figures of the runtime, not of the service.
    ("show activity", "another runtime"),
    ("show profiling", "another runtime"),
    ("show sess", "the CLI's own sessions are not listed here"),
    ("show tasks", "another runtime"),
    ("show threads", "another runtime"),
    // Safer or plainer than the reference (docs/differences.md).
    ("add map #1 x y", "values are looked at when they are used"),
    ("experimental-mode on;set var proc.x src", "the reference names the wrong word"),
    ("set server be/s4 addr 127.0.0.1 port 6553", "a port that is none is refused"),
    ("set server be/s4 addr 127.0.0.1 port 9x", "a port that is none is refused"),
    ("set server be/s3 check-addr 127", "3.5-dev5 takes no address of a check"),
    ("get acl #4", "sets without a name are numbered differently"),
    ("get map #1 a", "values are looked at when they are used"),
    ("set map #1 a x", "values are looked at when they are used"),
    ("set maxconn frontend fe 0", "a limit of nothing is refused"),
    ("set maxconn frontend fe 5x", "what is no number is refused"),
    ("set maxconn frontend fe x", "what is no number is refused"),
    ("set maxconn global -1", "what is no number is refused"),
    ("set maxconn global 50x", "what is no number is refused"),
    ("set maxconn global x", "what is no number is refused"),
    ("set timeout cli 3000d", "a time that does not fit is refused"),
    ("show acl", "sets without a name are numbered differently"),
    ("show map", "values are looked at when they are used: there is one more"),
    ("wait 1", "3.5-dev5 says 'Interrupted. (null)' now and then"),
];

/// Some answers hold times and addresses of memory.
fn masked(line: &str, answer: &str) -> String {
    let command = line.rsplit(';').next().unwrap_or(line);
    if command.starts_with("show map") || command.starts_with("show acl") {
        let reference = |line: &str| match line.split_once(' ') {
            Some((reference, rest)) if reference.starts_with("0x") => format!("<reference> {rest}"),
            _ => line.to_owned(),
        };
        return answer.lines().map(reference).collect::<Vec<_>>().join("\n");
    }
    if command.starts_with("show errors") {
        // The time.
        return answer.rsplit_once("] : ").map_or(answer.into(), |(_, count)| format!("] : {count}"));
    }
    if command.starts_with("show servers state") {
        let without_time = |line: &str| {
            let mut fields: Vec<&str> = line.split(' ').collect();
            if fields.len() == 25 {
                fields[9] = "<time>";
            }
            fields.join(" ")
        };
        return answer.lines().map(without_time).collect::<Vec<_>>().join("\n");
    }
    if command.starts_with("show servers conn") {
        // There, a check counts as a use of the server's connections.
        let without_checks = |line: &str| {
            let mut fields: Vec<&str> = line.split(' ').collect();
            if fields.len() > 10 {
                fields[8] = "<used_max>";
                fields[9] = "<need_est>";
            }
            fields.join(" ")
        };
        return answer.lines().map(without_checks).collect::<Vec<_>>().join("\n");
    }
    if command.starts_with("dump stats-file") {
        // Seconds since the state changed.
        let without_time = |line: &str| {
            let mut fields: Vec<&str> = line.split(',').collect();
            if fields.len() > 12 {
                fields[12] = "<lastchg>";
            }
            fields.join(",")
        };
        return answer.lines().map(without_time).collect::<Vec<_>>().join("\n");
    }
    if command.starts_with("show stat") {
        return String::new();
    }
    answer.to_owned()
}

/// Both programs, in the same state.
fn start() -> Option<Pair> {
    let pair = Pair::start(CONFIGURATION)?;
    for side in [&pair.ours, &pair.theirs] {
        // The first check comes at once, the others within the hour.
        eventually("the first check ended", || {
            side.ask("admin", "show stat be 4 33").contains(",L4CON,").then_some(())
        });
        side.ask("admin", "clear counters all");
    }
    Some(pair)
}

#[test]
fn answers_are_those_of_the_reference() {
    let mut used = BTreeSet::new();
    let mut found = Vec::new();
    // Without and with severities; each in a program of its own.
    for socket in ["admin", "numbers"] {
        let Some(pair) = start() else { return };
        for line in LINES.lines() {
            let answers = pair.ask(socket, &line.replace("\\n", "\n"));
            let answers =
                Answers { ours: masked(line, &answers.ours), theirs: masked(line, &answers.theirs) };
            if answers.ours == answers.theirs {
                continue;
            }
            match KNOWN.iter().find(|(begins, _)| line.starts_with(begins)) {
                Some((begins, _)) => drop(used.insert(*begins)),
                None => found.push(format!("{socket}: {line}\n{}", first_difference(&answers))),
            }
        }
    }
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
    // What is only now and then different, or only where it was compiled in.
    let rare = ["show profiling", "show tasks", "show resolvers", "show stat domain resolvers", "wait 1"];
    let unused: Vec<&str> =
        KNOWN.iter().map(|(begins, _)| *begins).filter(|b| !used.contains(b) && !rare.contains(b)).collect();
    assert!(unused.is_empty(), "these are equal: {unused:#?}");
}

/// The first line that differs.
fn first_difference(answers: &Answers) -> String {
    let (ours, theirs): (Vec<&str>, Vec<&str>) =
        (answers.ours.lines().collect(), answers.theirs.lines().collect());
    let at = (0..).find(|at| ours.get(*at) != theirs.get(*at) || *at > ours.len()).unwrap_or(0);
    format!("  line {at}\n  ours:   {:?}\n  theirs: {:?}", ours.get(at), theirs.get(at))
}

/// The fields of a typed dump, in order.
fn typed(text: &str) -> Vec<(String, String)> {
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Fields of `show info` whose values must differ, and why.
const OTHER_FIGURES: &[(&str, &str)] = &[
    ("Name", "another program"),
    ("Version", "another program"),
    ("Release_date", "another program"),
    ("Pid", "another process"),
    ("Uptime", "time"),
    ("Uptime_sec", "time"),
    ("PoolAlloc_MB", "memory"),
    ("PoolUsed_MB", "memory"),
    ("Ulimit-n", "another number of descriptors beside those of connections"),
    ("Maxsock", "the same"),
    ("CumConns", "checks are counted there, and how often the test looked"),
    ("CumReq", "the same"),
    ("ConnRate", "the same"),
    ("MaxConnRate", "the same"),
    ("SessRate", "the same"),
    ("MaxSessRate", "the same"),
    ("Tasks", "another runtime"),
    ("Run_queue", "another runtime"),
    ("Idle_pct", "another runtime"),
    ("Jobs", "another runtime"),
    ("CurrStreams", "another runtime"),
    ("CumStreams", "the same as CumConns"),
    ("TotalBytesOut", "the answers to the questions before"),
    ("BytesOutRate", "time"),
    ("Build info", "another program"),
    ("PoolAlloc_bytes", "memory"),
    ("PoolUsed_bytes", "memory"),
    ("Start_time_sec", "time"),
    ("TotalWarnings", "other words while starting"),
    ("BootTime_ms", "time"),
    ("Niced_tasks", "another runtime"),
    ("PatternsAdded", "the reference has ACLs of its own"),
];

#[test]
fn show_info_has_the_fields_of_the_reference() {
    let Some(pair) = start() else { return };
    let answers = pair.ask("user", "show info typed");
    let (ours, theirs) = (typed(&answers.ours), typed(&answers.theirs));
    let names = |fields: &[(String, String)]| fields.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&theirs));
    for ((name, ours), (_, theirs)) in ours.iter().zip(&theirs) {
        let short = name.split('.').nth(1).unwrap_or("");
        let shape = |value: &str| value.rsplit_once(':').map_or("", |(shape, _)| shape).to_owned();
        assert_eq!(shape(ours), shape(theirs), "{name}");
        if !OTHER_FIGURES.iter().any(|(figure, _)| *figure == short) {
            assert_eq!(ours, theirs, "{name}");
        }
    }
    // In every form the same names, in the same order.
    for form in ["", " desc", " float", " json", " typed desc", " typed float"] {
        let answers = pair.ask("user", &format!("show info{form}"));
        let names = |text: &str| -> Vec<String> {
            let lines = text.lines().flat_map(|line| line.split("},{\"field\"")).map(|part| match form {
                " json" => part.split("\"name\":\"").nth(1).and_then(|n| n.split('"').next()).unwrap_or(""),
                _ => part.split(':').next().unwrap_or(""),
            });
            lines.map(str::to_owned).collect()
        };
        assert_eq!(names(&answers.ours), names(&answers.theirs), "show info{form}");
    }
    let float = pair.ask("user", "show info float");
    for name in ["Uptime_sec: ", "Start_time_sec: "] {
        let fraction = |text: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or("");
            line.split_once('.').map_or(0, |(_, fraction)| fraction.len())
        };
        assert_eq!(fraction(&float.ours), 6, "{name}");
        assert!(fraction(&float.theirs) > 0, "{name}");
    }
}

/// Columns of `show stat` whose values must differ, and why.
const OTHER_COLUMNS: &[(&str, &str)] = &[
    ("lastchg", "time"),
    ("downtime", "time"),
    ("check_duration", "time"),
    ("lastsess", "time"),
    ("need_conn_est", "there, a check counts as a use of the server's connections"),
];

/// The columns of the table that is common to all builds; what modules add follows them.
const COMMON_COLUMNS: usize = 119;

#[test]
fn show_stat_has_the_fields_of_the_reference() {
    let Some(pair) = start() else { return };
    let compare = |socket: &str, command: &str| {
        let answers = pair.ask(socket, command);
        let fields = |text: &str| -> BTreeMap<String, String> {
            let common = typed(text).into_iter().filter(|(name, _)| {
                let parts: Vec<&str> = name.split('.').collect();
                let position = parts.get(3).and_then(|p| p.parse::<usize>().ok());
                position.is_some_and(|p| p < COMMON_COLUMNS)
                    && !OTHER_COLUMNS.iter().any(|(column, _)| Some(column) == parts.get(4))
            });
            common.collect()
        };
        let (ours, theirs) = (fields(&answers.ours), fields(&answers.theirs));
        assert!(!theirs.is_empty(), "{command}");
        let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        for name in names {
            assert_eq!(ours.get(name), theirs.get(name), "{command}: {name}");
        }
    };
    for command in [
        "show stat typed",
        "show stat domain proxy typed",
        "show stat up typed",
        "show stat no-maint typed",
        "show stat be 4 -1 typed",
        "show stat be 4 2 typed",
        "show stat be 15 33 typed",
        "show stat 3 2 0 typed",
        "show stat -1 1 -1 typed",
        "show stat -1 8 -1 typed",
        "show stat -1 -1 33 typed",
        "show stat -1 6 1 typed",
    ] {
        // A user does not see addresses, cookies and algorithms.
        compare("user", command);
        compare("oper", command);
    }
    // The table: the names of the common columns, and of each row.
    for command in [
        "show stat",
        "show stat up",
        "show stat fe 1 -1",
        "show stat x",
        "show stat 3 x y",
        "show stat -7 6 1",
        "show stat 999 7 -1",
        "show stat out 1 0",
    ] {
        let answers = pair.ask("user", command);
        let table = |text: &str| -> Vec<String> {
            let mut lines = text.lines();
            let head: Vec<&str> = lines.next().unwrap_or("").split(',').take(COMMON_COLUMNS).collect();
            let rows = lines.map(|line| line.split(',').take(2).collect::<Vec<_>>().join(","));
            std::iter::once(head.join(",")).chain(rows).collect()
        };
        assert_eq!(table(&answers.ours), table(&answers.theirs), "{command}");
    }
    for command in
        ["show stat 0 7 -1", "show stat nope 7 -1", "show stat up no-maint typed", "show stat domain x"]
    {
        let answers = pair.ask("user", command);
        assert_eq!(answers.ours, answers.theirs, "{command}");
    }
    // Both forms of JSON begin alike.
    let answers = pair.ask("user", "show stat json");
    assert_eq!(answers.ours.get(..500), answers.theirs.get(..500));
}

#[test]
fn help_lists_what_the_reference_lists_in_its_order() {
    let Some(pair) = start() else { return };
    for (socket, line) in [
        ("user", "help"),
        ("oper", "help"),
        ("admin", "help"),
        ("admin", "experimental-mode on;help"),
        ("admin", "help set"),
    ] {
        let answers = pair.ask(socket, line);
        let words = |text: &str| -> Vec<String> {
            let usages = text.lines().filter(|line| line.starts_with("  "));
            let words = usages.map(|line| {
                let words =
                    line.split_whitespace().take_while(|w| w.starts_with(|c: char| c.is_ascii_lowercase()));
                words.collect::<Vec<_>>().join(" ")
            });
            words.collect()
        };
        let title = |text: &str| text.lines().find(|line| !line.is_empty()).unwrap_or("").to_owned();
        assert_eq!(title(&answers.ours), title(&answers.theirs));
        let (ours, theirs) = (words(&answers.ours), words(&answers.theirs));
        // Ours lists what works here: every one is in the other list, in the same order.
        let mut rest = theirs.iter();
        // And what is ours alone.
        let is_own = |command: &&String| OWN_COMMANDS.contains(&command.as_str());
        for command in ours.iter().filter(|command| !is_own(command)) {
            assert!(
                rest.any(|other| other == command),
                "{line} for {socket}: '{command}' is not there, or not in order"
            );
        }
    }
}

#[test]
fn startup_logs_tell_what_was_said() {
    let Some(pair) = start() else { return };
    for side in [&pair.ours, &pair.theirs] {
        let logs = side.ask("admin", "show startup-logs");
        let said = side.output();
        let lines: Vec<&str> = logs.lines().filter(|line| line.starts_with('[')).collect();
        assert!(lines.len() > 2, "{logs}");
        for line in lines {
            assert!(said.contains(line), "'{line}' was not said:\n{said}");
        }
    }
}
