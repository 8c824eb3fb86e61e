//! `thalweg top`: rates and states, second by second, from the CLI of a running process: this program's, or HAProxy's.

use std::collections::HashMap;
use std::io::{self, IsTerminal as _, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Call, Tool, unknown};
use crate::report::output;

pub const TOOL: Tool = Tool {
    name: "top",
    arguments: "[--once] [--interval <seconds>] [-s] <socket|address:port>",
    text: "show rates, times and states of a running process, second by second",
    help: "\
Asks the CLI of a process of this program, or of HAProxy, for 'show info' and 'show stat' (level user is enough), and shows
what changed since: what is down first, then what is busiest. Ctrl-C ends it.

    --once            print one table and leave; rates are those of the process itself
    --interval <n>    ask every n seconds (default 1)
",
    run,
};

/// How long the CLI may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most bytes of an answer that are read.
const ANSWER_MAX: u64 = 256 << 20;

/// Lines of a table on a terminal whose height is not known.
const LINES: usize = 40;

fn run(call: &Call<'_>) -> Result<ExitCode, String> {
    let (mut socket, mut once, mut interval) = (None, false, 1);
    let mut words = call.words();
    while let Some(word) = words.next() {
        match word {
            "--once" => once = true,
            "--interval" => {
                let text = words.value(word, "a number of seconds")?;
                let seconds = text.parse().ok().filter(|n| (1..=3600).contains(n));
                interval =
                    seconds.ok_or_else(|| format!("'{text}' is not a number of seconds from 1 to 3600"))?;
            }
            "-s" => socket = Some(words.value(word, "a socket")?),
            other if other.starts_with('-') => return unknown(other),
            other => socket = Some(other),
        }
    }
    let socket = socket.ok_or("no socket was given; it is the address of a 'stats socket' line")?;
    let lines = std::env::var("LINES").ok().and_then(|n| n.parse().ok()).unwrap_or(LINES);
    let mut before: Option<(Instant, Table)> = None;
    loop {
        let info = ask(socket, "show info")?;
        let table =
            Table::parse(&ask(socket, "show stat")?).ok_or("the answer is not that of 'show stat'")?;
        let now = Instant::now();
        let since = before.as_ref().map(|(at, table)| (now.duration_since(*at).as_secs_f64(), table));
        let text = screen(&info, &table, since, if once { usize::MAX } else { lines });
        if once {
            output(&text);
            return Ok(ExitCode::SUCCESS);
        }
        // Home and clear (ECMA-48), where somebody looks.
        let clear = if io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
        output(&format!("{clear}{text}"));
        before = Some((now, table));
        sleep(Duration::from_secs(interval));
    }
}

/// One command, and its whole answer.
pub fn ask(socket: &str, command: &str) -> Result<String, String> {
    ask_bytes(socket, command).map(|answer| String::from_utf8_lossy(&answer).into_owned())
}

/// The same, byte for byte.
pub fn ask_bytes(socket: &str, command: &str) -> Result<Vec<u8>, String> {
    let failed = |error: io::Error| format!("{socket}: {error}");
    let line = format!("{command}\n");
    let mut answer = Vec::new();
    if socket.contains('/') || !socket.contains(':') {
        let mut stream = UnixStream::connect(socket).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.write_all(line.as_bytes()).map_err(failed)?;
        stream.shutdown(Shutdown::Write).map_err(failed)?;
        stream.take(ANSWER_MAX).read_to_end(&mut answer).map_err(failed)?;
    } else {
        let mut stream = TcpStream::connect(socket).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.write_all(line.as_bytes()).map_err(failed)?;
        stream.shutdown(Shutdown::Write).map_err(failed)?;
        stream.take(ANSWER_MAX).read_to_end(&mut answer).map_err(failed)?;
    }
    Ok(answer)
}

/// The rows of `show stat`.
struct Table {
    columns: HashMap<String, usize>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn parse(text: &str) -> Option<Table> {
        let mut lines = text.lines().skip_while(|line| !line.starts_with("# "));
        let names = lines.next()?.trim_start_matches("# ");
        let columns = names.split(',').enumerate().map(|(at, name)| (name.to_owned(), at)).collect();
        let rows = lines.filter(|line| !line.is_empty()).map(cells).collect();
        Some(Table { columns, rows })
    }

    fn get<'t>(&self, row: &'t [String], column: &str) -> &'t str {
        self.columns.get(column).and_then(|at| row.get(*at)).map_or("", String::as_str)
    }

    fn number(&self, row: &[String], column: &str) -> u64 {
        self.get(row, column).parse().unwrap_or(0)
    }

    fn row(&self, proxy: &str, name: &str) -> Option<&Vec<String>> {
        self.rows.iter().find(|row| self.get(row, "pxname") == proxy && self.get(row, "svname") == name)
    }
}

/// The cells of a line of CSV (RFC 4180).
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => {
                rest.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    cells.push(cell);
    cells
}

/// Bytes per second, for people.
fn size(bytes: f64) -> String {
    match bytes {
        b if b >= 1e9 => format!("{:.1}G", b / 1e9),
        b if b >= 1e6 => format!("{:.1}M", b / 1e6),
        b if b >= 1e3 => format!("{:.1}k", b / 1e3),
        b => format!("{b:.0}"),
    }
}

/// A name that a terminal shows as it is: whatever a configuration says, nothing moves the cursor.
fn shown(text: &str, width: usize) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).take(width).collect()
}

/// What there is to see, with the time since the table before, and that.
fn screen(info: &str, table: &Table, since: Option<(f64, &Table)>, lines: usize) -> String {
    let of = |name: &str| {
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        shown(value.unwrap_or("?"), 40)
    };
    let mut out = format!(
        "{} {}  pid {}  up {}  {} threads, {}% idle\nconnections {} of {}  {}/s  sessions {}/s  tasks {}  run queue {}\n\n",
        of("Name"),
        of("Version"),
        of("Pid"),
        of("Uptime"),
        of("Nbthread"),
        of("Idle_pct"),
        of("CurrConns"),
        of("Maxconn"),
        of("ConnRate"),
        of("SessRate"),
        of("Tasks"),
        of("Run_queue"),
    );
    out.push_str(&format!(
        "{:<20} {:<16} {:<12} {:>7} {:>7} {:>8} {:>8} {:>8} {:>6} {:>6}\n",
        "PROXY", "NAME", "STATE", "NOW", "QUEUE", "REQ/s", "IN/s", "OUT/s", "RTIME", "ERR"
    ));
    let mut rows: Vec<(bool, f64, String)> = table
        .rows
        .iter()
        .map(|row| {
            let (proxy, name) = (table.get(row, "pxname"), table.get(row, "svname"));
            let state = table.get(row, "status");
            let is_server = !matches!(name, "FRONTEND" | "BACKEND");
            let total = if table.get(row, "req_tot").is_empty() { "stot" } else { "req_tot" };
            let per_second = |column: &str| {
                let (seconds, old) = since?;
                let old = old.row(proxy, name).map_or(0, |row| old.number(row, column));
                Some(table.number(row, column).saturating_sub(old) as f64 / seconds.max(0.001))
            };
            let rate = per_second(total).unwrap_or_else(|| table.number(row, "rate") as f64);
            let errors: u64 = ["ereq", "econ", "eresp"].iter().map(|column| table.number(row, column)).sum();
            let bytes = |column: &str| per_second(column).map_or_else(|| "-".to_owned(), size);
            let line = format!(
                "{:<20} {:<16} {:<12} {:>7} {:>7} {:>8.0} {:>8} {:>8} {:>6} {:>6}\n",
                shown(proxy, 20),
                shown(name, 16),
                shown(state, 12),
                table.number(row, "scur"),
                table.number(row, "qcur"),
                rate,
                bytes("bin"),
                bytes("bout"),
                shown(table.get(row, "rtime"), 6),
                errors,
            );
            let is_down = is_server && state.starts_with("DOWN");
            (is_down, rate, line)
        })
        .collect();
    // What is down first, then what is busiest; rows that are alike keep their order.
    rows.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
    let room = lines.saturating_sub(5);
    out.extend(rows.iter().take(room).map(|(_, _, line)| line.as_str()));
    if rows.len() > room {
        out.push_str(&format!("... and {} more\n", rows.len() - room));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_rates_follow_from_two_tables() {
        let table = |total: u64| {
            let text = format!(
                "# pxname,svname,qcur,scur,stot,bin,bout,rate,status,req_tot\n\"a,\"\"b\",FRONTEND,,3,9,1000,2000,1,OPEN,{total}\n\
                 x,s\x1b1,0,0,5,0,0,0,DOWN,\n\n"
            );
            Table::parse(&text).unwrap()
        };
        let (old, new) = (table(100), table(140));
        let info = "Name: HAProxy\nVersion: 3.5\nPid: 7\n";
        let text = screen(info, &new, Some((2.0, &old)), 40);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("HAProxy 3.5  pid 7 "));
        assert!(lines[4].starts_with("x                    s?1              DOWN"), "{text}");
        let row: Vec<&str> = lines[5].split_whitespace().collect();
        assert_eq!(row[..6], ["a,\"b", "FRONTEND", "OPEN", "3", "0", "20"], "{text}");
        // Without a table before, the process's own rate is shown.
        assert!(screen(info, &new, None, 40).contains(" 1        -        - "));
        assert!(screen(info, &new, None, 6).ends_with("... and 1 more\n"));
        assert!(Table::parse("Permission denied\n").is_none());
    }
}
