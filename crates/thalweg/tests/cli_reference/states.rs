//! Random walks of commands that change where a server stands, through both programs. After each step every column of
//! `show servers state` and those of `show stat` that tell of states must be equal; at the end the lines that were said.

use std::collections::{BTreeMap, BTreeSet};

use super::pair::{Pair, Side};
use super::support::{Server, eventually};

const CONFIGURATION: &str = "\
global
  maxconn 100
  stats socket <@dir>/admin level admin
defaults
  mode http
  timeout client 5s
  timeout server 5s
  timeout connect 5s
  # Without such a line a server that was not checked yet has no health in 3.5-dev5 (docs/differences.md).
  default-server weight 1
frontend fe
  bind <@fe>
  default_backend rr
backend rr
  balance roundrobin
  server a 127.0.0.1:9 weight 10
  server b 127.0.0.1:9 weight 20 disabled
  server c <server> weight 30 check inter 1h
  server d 127.0.0.1:9 check inter 1h fall 2
  server e 127.0.0.1:9 backup
  server f <server> check inter 1h rise 3 fall 4 weight 0
backend st
  balance static-rr
  server a 127.0.0.1:9 weight 10
  server b <server> check inter 1h
backend src
  id 50
  balance source
  server a 127.0.0.1:9 weight 10 maxconn 5 id 3
  server b 127.0.0.1:9 disabled
  server c <server> check inter 1h port 8 addr 127.0.0.2
backend tr
  server t 127.0.0.1:9 track rr/c
  server u 127.0.0.1:9 track tr/t
  server v 127.0.0.1:9 track rr/d disabled
backend one
  server a <server> check inter 1h disabled
";

const SERVERS: &[&str] = &[
    "rr/a", "rr/b", "rr/c", "rr/d", "rr/e", "rr/f", "st/a", "st/b", "src/a", "src/b", "src/c", "one/a",
    "tr/t", "tr/u", "tr/v",
];

/// What a step may be; `@` is a server.
const STEPS: &[&str] = &[
    "disable server @",
    "enable server @",
    "set server @ state ready",
    "set server @ state drain",
    "set server @ state maint",
    "set server @ health up",
    "set server @ health stopping",
    "set server @ health down",
    "set server @ weight 0",
    "set server @ weight 1",
    "set server @ weight 256",
    "set server @ weight 257",
    "set server @ weight -1",
    "set server @ weight x",
    "set server @ weight 5x",
    "set server @ weight",
    "set server @ weight 0%",
    "set server @ weight 50%",
    "set server @ weight 100%",
    "set server @ weight 30000%",
    "set server @ weight -5%",
    "set weight @ 10",
    "set weight @",
    "get weight @",
    "set maxconn server @ 0",
    "set maxconn server @ 5",
    "set maxconn server @ x",
    "set maxconn server @ 5x",
    "set maxconn server @",
    "set server @ state",
    "set server @ state x",
    "set server @ health x",
    "set server @",
    "clear counters",
    "clear counters all",
    "clear counters server @",
];

/// The columns of `show stat` that tell of states.
const COLUMNS: &[&str] = &[
    "status",
    "weight",
    "uweight",
    "act",
    "bck",
    "chkfail",
    "chkdown",
    "check_status",
    "check_code",
    "last_chk",
    "check_desc",
    "check_rise",
    "check_fall",
    "check_health",
    "agent_status",
    "slim",
    "qlimit",
];

type Fields = BTreeMap<String, String>;

/// Every field of both dumps, by server and column. Times are left out: they differ from moment to moment.
fn look(side: &Side) -> Fields {
    let mut fields = Fields::new();
    let text = side.ask("admin", "show stat");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or("").trim_start_matches("# ").split(',').collect();
    for line in lines.filter(|line| !line.is_empty()) {
        let values: Vec<&str> = line.split(',').collect();
        for (name, value) in names.iter().zip(&values).filter(|(name, _)| COLUMNS.contains(name)) {
            fields.insert(format!("{}/{} {name}", values[0], values[1]), (*value).to_string());
        }
    }
    let text = side.ask("admin", "show servers state");
    let mut lines = text.lines().skip(1);
    let names: Vec<&str> = lines.next().unwrap_or("").trim_start_matches("# ").split(' ').collect();
    for line in lines.filter(|line| !line.is_empty()) {
        let values: Vec<&str> = line.split(' ').collect();
        for (name, value) in
            names.iter().zip(&values).filter(|(name, _)| **name != "srv_time_since_last_change")
        {
            fields.insert(format!("{}/{} {name}", values[1], values[3]), (*value).to_string());
        }
    }
    fields
}

/// What differs, as lines.
fn differences(pair: &Pair) -> BTreeSet<String> {
    let (ours, theirs) = (look(&pair.ours), look(&pair.theirs));
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    names
        .into_iter()
        .filter(|name| ours.get(*name) != theirs.get(*name))
        .map(|name| format!("{name}: ours {:?}, theirs {:?}", ours.get(name), theirs.get(name)))
        .collect()
}

/// The lines about servers and backends that a program said, without its number.
fn said(side: &Side) -> Vec<String> {
    let output = side.output();
    let lines = output.lines().filter_map(|line| line.split_once(") : "));
    lines
        .filter(|(_, text)| text.contains("Server ") || text.starts_with("backend "))
        .map(|(lead, text)| format!("{} {text}", lead.split(' ').next().unwrap_or("")))
        .collect()
}

fn start() -> Option<(Pair, Server)> {
    let server = Server::start(|conn, _| drop(conn));
    let pair = Pair::start(&CONFIGURATION.replace("<server>", &server.addr.to_string()))?;
    for side in [&pair.ours, &pair.theirs] {
        // The first check comes at once, the others within the hour.
        eventually("the first check ended", || {
            side.ask("admin", "show stat rr 4 3").contains(",L4OK,").then_some(())
        });
    }
    Some((pair, server))
}

#[test]
fn walks_lead_to_the_same_states() {
    let Some((pair, _server)) = start() else { return };
    assert!(differences(&pair).is_empty(), "at the start: {:#?}", differences(&pair));
    // A reproducible walk: the numbers of a linear congruential generator.
    let mut seed = 0x5eed_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut walked = Vec::new();
    for _ in 0..1000 {
        // Half of the steps are among those that change the most.
        let steps = if random(2) == 0 { &STEPS[..8] } else { STEPS };
        let step = steps[random(steps.len())].replace('@', SERVERS[random(SERVERS.len())]);
        let answers = pair.ask("admin", &step);
        assert_eq!(answers.ours, answers.theirs, "{step}");
        walked.push(step);
        let found = differences(&pair);
        let last = &walked[walked.len().saturating_sub(8)..];
        assert!(found.is_empty(), "after {last:#?}:\n{found:#?}");
    }
    let (ours, theirs) = (said(&pair.ours), said(&pair.theirs));
    let first = ours.iter().zip(&theirs).position(|(a, b)| a != b).unwrap_or(ours.len().min(theirs.len()));
    let near = |lines: &[String]| lines[first.saturating_sub(3)..(first + 3).min(lines.len())].to_vec();
    assert!(ours == theirs, "the lines differ: ours {:#?}\ntheirs {:#?}", near(&ours), near(&theirs));
}

#[test]
fn checks_that_are_switched_off_leave_the_state_to_the_operator() {
    let Some((pair, _server)) = start() else { return };
    // Not in maintenance: there checks that are switched on again stay paused for ever in the reference.
    for step in [
        "disable health rr/c",
        "set server rr/c health down",
        "set server rr/c health up",
        "set server rr/c health stopping",
        "set server rr/c state drain",
        "set server rr/c state ready",
        "enable health rr/c",
        "set server rr/c health up",
        "enable health rr/a",
        "disable health rr/a",
        "disable health st/a",
        "disable health",
        "enable health x",
        "enable health x/y",
        "enable health rr/y",
    ] {
        let answers = pair.ask("admin", step);
        assert_eq!(answers.ours, answers.theirs, "{step}");
        assert!(differences(&pair).is_empty(), "{step}: {:#?}", differences(&pair));
    }
}

#[test]
fn numbers_are_given_around_those_that_the_file_gives() {
    let configuration = "\
global
  maxconn 100
  stats socket <@dir>/admin level admin
defaults
  timeout client 5s
  timeout server 5s
  timeout connect 5s
  option socket-stats
  default-server weight 1
frontend f1
  id 4
  bind <@fe>
  bind unix@<@dir>/2
  bind unix@<@dir>/3 id 7
  bind unix@<@dir>/4
  bind unix@<@dir>/5 id 2
  bind unix@<@dir>/6
frontend f2
  bind unix@<@dir>/7
backend b1
  server a 127.0.0.1:9 id 3
  server b 127.0.0.1:9
  server c 127.0.0.1:9
  server d 127.0.0.1:9
backend b2
  server a 127.0.0.1:9
  server b 127.0.0.1:9 id 1
  server c 127.0.0.1:9
backend b3
  id 5
backend b4
";
    let Some(pair) = Pair::start(configuration) else { return };
    let numbers = |text: &str| -> Vec<String> {
        let fields = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
        fields.filter(|f| f.len() > 28).map(|f| format!("{}/{} {}.{}", f[0], f[1], f[27], f[28])).collect()
    };
    let answers = pair.ask("admin", "show stat");
    assert_eq!(numbers(&answers.ours), numbers(&answers.theirs));
    let answers = pair.ask("admin", "show servers state");
    let masked = |text: &str| {
        let fields = |line: &str| -> Vec<String> {
            let mut fields: Vec<String> = line.split(' ').map(str::to_owned).collect();
            if fields.len() == 25 {
                fields[9].clear();
            }
            fields
        };
        text.lines().map(fields).collect::<Vec<_>>()
    };
    assert_eq!(masked(&answers.ours), masked(&answers.theirs));
}
