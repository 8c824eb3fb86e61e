//! Every command, in several shapes, at every level: who may not, is told so by both.

use std::collections::BTreeSet;

use super::pair::{CONFIGURATION, Pair};
use super::support::own_commands::OWN_COMMANDS;

/// What may follow the words of a command.
const ARGUMENTS: &[&str] = &[
    "",
    " x",
    " fe",
    " be",
    " be/s1",
    " be/s1 1",
    " #0",
    " #0 a",
    " #0 a b",
    " @1 #0 a b",
    " all",
    " -1",
    " cli 10s",
];

/// Lines with several commands, and commands that `help` does not list.
const LINES: &[&str] = &[
    "_getsocks",
    "clear counters all x",
    "clear counters server",
    "clear counters server be/s1",
    "clear counters server be/s1 force",
    "expert-mode",
    "expert-mode on",
    "expert-mode off",
    "expert-mode on;operator;expert-mode",
    "experimental-mode",
    "experimental-mode on",
    "experimental-mode on;set var proc.x int(1)",
    "experimental-mode on;operator;set var proc.x int(1)",
    "experimental-mode on;user;set var proc.x int(1)",
    "get var proc.five",
    "mcli-debug-mode",
    "mcli-debug-mode on",
    "operator;show cli level",
    "operator;user;operator;show cli level",
    "prompt help",
    "prompt i;operator;show env HOME",
    "prompt n",
    "prompt p",
    "prompt timed",
    "set anon global-key 5",
    "set anon off",
    "set anon on 5",
    "set maxconn frontend fe 5",
    "set maxconn global 50",
    "set maxconn server be/s1 5",
    "set profiling memory off",
    "set profiling tasks off",
    "set rate-limit connections global 0",
    "set server be/s1 state ready",
    "set severity-output none",
    "set severity-output number",
    "set severity-output number;show cli level",
    "set severity-output string;show env HOME",
    "set var proc.x int(1)",
    "user;operator",
    "user;operator;show cli level",
    "user;show cli level",
    "wait 1",
];

/// Commands of systems that are missing here whose level depends on arguments. They do nothing here, at any level.
const MISSING: &[&str] = &[
    "add ssl jwt",
    "clear table",
    "debug counters",
    "del ssl jwt",
    "set table",
    "show events",
    "show trace",
];

/// Commands that need more here than in the reference, and why (docs/differences.md).
const STRICTER: &[(&str, &str)] = &[("dump ssl cert", "private keys are for administrators")];

/// The words of the commands that `help` lists, in either program.
fn listed(pair: &Pair) -> BTreeSet<String> {
    let answers = pair.ask("admin", "experimental-mode on;help");
    let mut words = BTreeSet::new();
    for line in answers.ours.lines().chain(answers.theirs.lines()).filter(|line| line.starts_with("  ")) {
        let usage = line.split(" : ").next().unwrap_or("").split(": ").next().unwrap_or("");
        let command = usage.trim().split([' ']).filter(|word| !word.is_empty());
        let named = command.take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
        words.insert(named.collect::<Vec<_>>().join(" "));
    }
    words
}

/// What was refused, for each of the answers of a line.
fn refusals(answer: &str) -> Vec<&'static str> {
    let known = [
        ("Permission denied", "denied"),
        ("restricted to experimental mode only", "not in experimental mode"),
        ("restricted to expert mode only", "not in expert mode"),
        ("Unknown command", "unknown"),
    ];
    answer
        .lines()
        .filter_map(|line| known.iter().find(|(text, _)| line.contains(text)))
        .map(|(_, name)| *name)
        .collect()
}

#[test]
fn rights_are_those_of_the_reference() {
    let Some(pair) = Pair::start(CONFIGURATION) else { return };
    let mut lines: Vec<String> = LINES.iter().map(|line| (*line).to_string()).collect();
    for words in listed(&pair) {
        lines.extend(ARGUMENTS.iter().map(|arguments| format!("{words}{arguments}")));
    }
    assert!(lines.len() > 1000, "both programs list their commands");
    let mut differences = Vec::new();
    for line in &lines {
        // There `#0` is the CLI itself: the reference would stop listening to us.
        let stricter = STRICTER.iter().map(|(command, _)| command);
        let differs = stricter.chain(OWN_COMMANDS).chain(MISSING).any(|command| line.starts_with(command));
        if line.contains(" frontend #0") || differs {
            continue;
        }
        for socket in ["user", "oper", "admin"] {
            let answers = pair.ask(socket, line);
            let (ours, theirs) = (refusals(&answers.ours), refusals(&answers.theirs));
            if ours != theirs {
                differences.push(format!("{socket}: {line:?}: ours {ours:?}, theirs {theirs:?}"));
            }
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}
