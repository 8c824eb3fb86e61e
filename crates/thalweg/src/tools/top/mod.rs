//! `thalweg top`: rates and states, second by second, from the CLI of a running process: this program's, or HAProxy's.

mod table;
mod view;

use std::io::{self, IsTerminal as _, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use thalweg_sys::terminal::{self, Keys};

use super::{Call, Tool, unknown};
use crate::report::output;

use table::{Answers, Table, screen};
use view::{After, View};

pub const TOOL: Tool = Tool {
    name: "top",
    arguments: "[--once] [--interval <seconds>] [-s] <socket|address:port>",
    text: "show rates, times and states of a running process, second by second",
    help: "\
Asks the CLI of a process of this program, or of HAProxy, for 'show info', 'show stat' and 'show latency' (level user is enough),
and shows what changed since: what is down first, then what is busiest. P50 and P99 are milliseconds that half of the streams, and 99 of 100,
did not exceed since the start; HAProxy does not know them, and shows averages only (RTIME).

Keys in a terminal: q quits, space pauses, s sorts by the next column, n and p choose the next proxy and the one before, a shows all.

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
    if once {
        let view = View::default();
        output(&screen(&Answers::of(socket)?, None, &view, (usize::MAX, usize::MAX)));
        return Ok(ExitCode::SUCCESS);
    }
    watch(socket, interval)
}

/// Shows what there is, until nobody looks any more.
fn watch(socket: &str, interval_s: u64) -> Result<ExitCode, String> {
    // Where no keys can be read, what is to be seen is printed all the same.
    let keys = Keys::begin().ok();
    let mut view = View::default();
    let (mut now, mut before): (Answers, Option<Answers>) = (Answers::of(socket)?, None);
    loop {
        show(&now, before.as_ref(), &view);
        let due = Instant::now() + Duration::from_secs(interval_s);
        while view.is_paused || Instant::now() < due {
            match pressed(keys.as_ref(), due, &mut view, &now.table) {
                After::Same => {}
                After::Changed => show(&now, before.as_ref(), &view),
                After::Quit => return Ok(ExitCode::SUCCESS),
            }
        }
        let next = Answers::of(socket)?;
        before = Some(std::mem::replace(&mut now, next));
    }
}

/// Waits for keys until the next answers are due, and does what they ask for.
fn pressed(keys: Option<&Keys>, due: Instant, view: &mut View, table: &Table) -> After {
    let left = due.saturating_duration_since(Instant::now());
    // Nothing is due while it is paused.
    let left = if view.is_paused { PATIENCE } else { left };
    let Some(keys) = keys else {
        sleep(left);
        return After::Same;
    };
    match keys.read(u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1)) {
        Ok(Some(keys)) => view.press(&keys, &table.proxies()),
        Ok(None) => After::Same,
        Err(_) => After::Quit,
    }
}

fn show(now: &Answers, before: Option<&Answers>, view: &View) {
    let size = terminal::size();
    let said = |name: &str| std::env::var(name).ok()?.parse().ok();
    let lines = size.map(|(lines, _)| lines).or_else(|| said("LINES")).unwrap_or(LINES);
    let columns = size.map(|(_, columns)| columns).filter(|columns| *columns > 0);
    let columns = columns.or_else(|| said("COLUMNS")).unwrap_or(usize::MAX);
    // Home and clear (ECMA-48), where somebody looks.
    let clear = if io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    output(&format!("{clear}{}", screen(now, before, view, (lines, columns))));
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

/// A name that a terminal shows as it is: whatever a configuration says, nothing moves the cursor.
fn shown(text: &str, width: usize) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).take(width).collect()
}
