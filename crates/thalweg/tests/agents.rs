//! Agents (`agent-check`) from outside: what their words do, what the logs, the statistics and the CLI say of it. What is
//! expected was compared with HAProxy 3.5-dev5.

mod support;

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use support::{Conn, Io, Proxy, Server, Setup, each_driver, eventually, nobody};

/// An agent that answers each question with the next line of a list, and is silent when there is none.
struct Agent {
    server: Server,
    lines: Arc<Mutex<VecDeque<String>>>,
}

impl Agent {
    fn start() -> Agent {
        let lines: Arc<Mutex<VecDeque<String>>> = Arc::default();
        let queue = Arc::clone(&lines);
        let server = Server::start(move |mut conn, _| {
            // The question, then the answer; the end is left to the proxy.
            conn.exactly(2);
            let line = queue.lock().unwrap().pop_front();
            conn.send(line.unwrap_or_else(|| "#nothing\n".into()));
            conn.ended();
        });
        Agent { server, lines }
    }

    fn says(&self, line: &str) {
        self.lines.lock().unwrap().push_back(line.to_owned());
    }
}

fn start(io: Io, agent: &Agent, more: &str, server: &str) -> Proxy {
    let text = format!(
        "backend be\n{more}\nserver a {} weight 10 agent-check agent-addr {} agent-port {} agent-inter 20ms \
         agent-send hi {server}\nserver b {}\n",
        nobody(),
        agent.server.addr.ip(),
        agent.server.addr.port(),
        nobody()
    );
    Setup::tcp(&text).defaults("timeout check 20s").global("stats socket <@dir>/cli level admin").start(io)
}

fn ask(proxy: &Proxy, command: &str) -> String {
    let mut cli = Conn::connect_unix(&proxy.path("cli"));
    cli.send(format!("{command}\n"));
    cli.rest_text()
}

/// Columns of a server, by their names.
fn columns(proxy: &Proxy, names: &[&str]) -> String {
    let text = ask(proxy, "show stat");
    let mut lines = text.lines();
    let all: Vec<&str> = lines.next().unwrap().trim_start_matches("# ").split(',').collect();
    let row: Vec<&str> = lines.find(|line| line.starts_with("be,a,")).unwrap().split(',').collect();
    let value = |name: &&str| row[all.iter().position(|n| n == name).unwrap()].trim_start_matches("* ");
    names.iter().map(value).collect::<Vec<_>>().join(",")
}

/// The next log line about a server or an agent, without times.
fn said(proxy: &Proxy) -> String {
    let line = proxy.log();
    let from =
        ["Agent check", "Health check", "Server ", "backend "].iter().filter_map(|s| line.find(s)).min();
    let line = &line[from.unwrap_or_else(|| panic!("{line}"))..];
    let Some((before, after)) = line.split_once("check duration: ") else { return line.to_string() };
    format!("{before}check duration: N{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

const UP: &str =
    "Server be/a is UP. 2 active and 0 backup servers online. 0 sessions requeued, 0 total in queue.";
const DOWN: &str = "Server be/a is DOWN. 1 active and 0 backup servers left. 0 sessions active, 0 requeued, 0 remaining in \
                    queue.";

fn verdict(passed: bool, told: &str) -> String {
    let (how, reason, health) = match passed {
        true => ("succeeded", "Layer7 check passed", "1/1 UP"),
        false => ("failed", "Layer7 wrong status", "0/1 DOWN"),
    };
    format!(
        "Agent check for server be/a {how}, reason: {reason}, code: 0, info: \"via agent : {told}\", check duration: Nms, \
         status: {health}."
    )
}

#[test]
fn an_agent_takes_a_server_down_and_brings_it_back() {
    each_driver(|io| {
        let agent = Agent::start();
        let proxy = start(io, &agent, "option log-health-checks", "");
        agent.says("up\n");
        assert_eq!(said(&proxy), verdict(true, "up"));
        agent.says("Stopped # for lunch\n");
        assert_eq!(said(&proxy), verdict(false, "Stopped (for lunch)"));
        assert_eq!(said(&proxy), DOWN);
        let names = ["status", "agent_status", "agent_code", "agent_desc", "agent_health", "chkdown"];
        // What says nothing of the state leaves it.
        eventually("the agent was asked again", || {
            columns(&proxy, &["agent_status"]).eq("CHECKED").then_some(())
        });
        assert_eq!(columns(&proxy, &names), "DOWN (agent),CHECKED,,No status change,0,");
        agent.says("up, 30% maxconn:7\n");
        assert_eq!(said(&proxy), verdict(true, "up"));
        assert_eq!(said(&proxy), UP);
        assert_eq!(columns(&proxy, &["status", "weight", "slim", "agent_health"]), "no check,3,7,1");
    });
}

#[test]
fn administrative_states_follow_an_agent() {
    each_driver(|io| {
        let agent = Agent::start();
        let proxy = start(io, &agent, "option log-health-checks", "");
        agent.says("drain\n");
        assert_eq!(
            said(&proxy),
            "Server be/a enters drain state. 1 active and 0 backup servers online. 0 sessions requeued, 0 total in queue."
        );
        assert_eq!(columns(&proxy, &["status"]), "DRAIN (agent)");
        agent.says("maint down\n");
        assert!(said(&proxy).starts_with("Server be/a is going DOWN for maintenance."));
        assert_eq!(said(&proxy), verdict(false, "down"));
        assert_eq!(columns(&proxy, &["status"]), "MAINT");
        agent.says("ready\n");
        assert_eq!(said(&proxy), "Server be/a is DOWN/READY (leaving forced maintenance).");
        agent.says("maint\n");
        assert_eq!(said(&proxy), "Server be/a was DOWN and now enters maintenance.");
        agent.says("ready up\n");
        assert_eq!(said(&proxy), "Server be/a is UP/READY (leaving forced maintenance).");
        assert_eq!(said(&proxy), verdict(true, "up"));
    });
}

#[test]
fn checks_and_an_agent_must_agree() {
    each_driver(|io| {
        let agent = Agent::start();
        let web = Server::start(|conn, _| drop(conn));
        let check = format!("check inter 20ms fall 1 rise 1 port {} addr {}", web.addr.port(), web.addr.ip());
        let proxy = start(io, &agent, "", &check);
        agent.says("fail\n");
        assert!(said(&proxy).starts_with(
            "Server be/a is DOWN, reason: Layer7 wrong status, code: 0, info: \"via agent : fail\", check duration: Nms. 1 active"
        ));
        eventually("its checks go on", || {
            columns(&proxy, &["check_status", "check_health"]).eq("L4OK,1").then_some(())
        });
        assert_eq!(columns(&proxy, &["status"]), "DOWN (agent)");
        // Once nobody asks the agent, the next check decides.
        assert_eq!(ask(&proxy, "disable agent be/a"), "\n");
        assert!(said(&proxy).starts_with("Server be/a is UP, reason: Layer4 check passed"));
        assert_eq!(columns(&proxy, &["status", "agent_status"]), "UP,");
        assert_eq!(
            ask(&proxy, "set server be/a agent up"),
            "agent checks are not enabled on this server.\n\n"
        );
        assert_eq!(ask(&proxy, "enable agent be/a"), "\n");
        assert_eq!(ask(&proxy, "set server be/a agent down"), "\n");
        assert!(said(&proxy).starts_with("Server be/a is DOWN, changed from CLI. 1 active"));
        assert_eq!(ask(&proxy, "set server be/a agent up"), "\n");
        assert!(said(&proxy).starts_with("Server be/a is UP, changed from CLI. 2 active"));
    });
}

#[test]
fn an_agent_that_cannot_be_asked_changes_nothing() {
    each_driver(|io| {
        let agent = Agent::start();
        let proxy = start(io, &agent, "option log-health-checks", "");
        let dead = nobody();
        let (ip, port) = (dead.ip(), dead.port());
        assert_eq!(ask(&proxy, &format!("set server be/a agent-addr {ip} port {port}")), "\n");
        assert_eq!(
            said(&proxy),
            "Agent check for server be/a failed, reason: Layer4 connection problem, info: \"ECONNREFUSED returned by OS \
             (Connection refused)\", check duration: Nms, status: 1/1 UP."
        );
        assert_eq!(columns(&proxy, &["status", "agent_status", "agent_health"]), "no check,L4CON,1");
        let state = ask(&proxy, "show servers state be");
        let state = state.lines().find(|line| line.contains(" a ")).unwrap();
        assert!(state.ends_with(&format!(" 0 - {ip} {port}")), "{state}");
        // Asked elsewhere, and something else.
        let other = Server::start(|mut conn, _| {
            assert_eq!(conn.exactly(5), b"hello");
            conn.send("down\n");
            conn.ended();
        });
        assert_eq!(ask(&proxy, "set server be/a agent-send hello"), "\n");
        let command = format!("set server be/a agent-addr {} port {}", other.addr.ip(), other.addr.port());
        assert_eq!(ask(&proxy, &command), "\n");
        assert_eq!(said(&proxy), verdict(false, "down"));
        assert_eq!(said(&proxy), DOWN);
    });
}

/// Who sees the end of an agent's connection finds that all of what it said was done, whatever else the machine does meanwhile.
#[test]
fn what_an_agent_said_is_done_when_its_connection_ends() {
    const SERVERS: usize = 12;
    each_driver(|io| {
        let (cli, wrong) = (Arc::new(OnceLock::<PathBuf>::new()), Arc::new(Mutex::new(Vec::new())));
        let asked = Arc::new(AtomicU32::new(0));
        let turns: [Mutex<()>; SERVERS] = Default::default();
        let (path, found, count) = (Arc::clone(&cli), Arc::clone(&wrong), Arc::clone(&asked));
        let agent = Server::start(move |mut conn, _| {
            let Some(name) = conn.try_until(b".") else { return };
            let name = String::from_utf8(name).unwrap().replace('.', "");
            // On a slow machine the next question comes before this answer was looked for.
            let number: usize = name[1..].parse().unwrap();
            let _turn = turns[number - 10].lock().unwrap();
            let round = count.fetch_add(1, Ordering::SeqCst);
            let (weight, state) = (1 + round % 90, if round % 2 == 0 { "maint" } else { "ready" });
            conn.send(format!("{weight}% {state}\n"));
            conn.ended();
            let Some(path) = path.get() else { return };
            // The program may be about to end.
            let weight_now = || {
                let mut cli = UnixStream::connect(path).ok()?;
                writeln!(cli, "get weight be/{name}").ok()?;
                let mut answer = String::new();
                cli.read_to_string(&mut answer).ok()?;
                Some(answer).filter(|answer| !answer.is_empty())
            };
            let Some(is) = weight_now() else { return };
            if !is.starts_with(&format!("{weight} ")) {
                found.lock().unwrap().push(format!("{is} for {weight}"));
            }
        });
        let servers: String = (10..10 + SERVERS)
            .map(|n| {
                let (ip, port) = (agent.addr.ip(), agent.addr.port());
                format!(
                    "server s{n} {} weight 100 agent-check agent-addr {ip} agent-port {port} agent-inter 500ms agent-send s{n}.\n",
                    nobody()
                )
            })
            .collect();
        let setup = Setup::tcp(&format!("backend be\nno log\n{servers}"));
        let proxy = setup
            .defaults("timeout check 20s")
            .global("stats socket <@dir>/cli level admin\nnbthread 2\nspread-checks 0")
            .start(io);
        cli.set(proxy.path("cli")).unwrap();
        let begun = asked.load(Ordering::SeqCst);
        eventually("all were asked some times", || {
            (asked.load(Ordering::SeqCst) > begun + 6 * SERVERS as u32).then_some(())
        });
        assert_eq!(*wrong.lock().unwrap(), Vec::<String>::new());
    });
}
