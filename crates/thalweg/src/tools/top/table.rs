//! The answers of the CLI, and the screen that they make.

use std::collections::HashMap;
use std::time::Instant;

use super::view::{Sort, View};
use super::{ask, shown};

/// Lines of a screen beside those of its rows.
const OTHER_LINES: usize = 7;

/// What a process answered at one moment.
pub struct Answers {
    at: Instant,
    info: String,
    pub table: Table,
    /// Times, if the process knows them.
    latency: Option<Table>,
}

impl Answers {
    /// Asks for all of it.
    pub fn of(socket: &str) -> Result<Answers, String> {
        let info = ask(socket, "show info")?;
        let table =
            Table::parse(&ask(socket, "show stat")?).ok_or("the answer is not that of 'show stat'")?;
        // HAProxy has no such command.
        let latency = Table::parse(&ask(socket, "show latency")?);
        Ok(Answers { at: Instant::now(), info, table, latency })
    }

    fn info(&self, name: &str) -> String {
        let value = self.info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        shown(value.unwrap_or("?"), 40)
    }

    /// Microseconds that a share of a row's streams did not exceed.
    fn time_us(&self, proxy: &str, name: &str, share: &str) -> Option<u64> {
        let times = self.latency.as_ref()?;
        let of = |row: &&Vec<String>| times.is_row(row, proxy, name) && times.get(row, "phase") == "total";
        times.get(times.rows.iter().find(of)?, share).parse().ok()
    }
}

/// Rows in CSV, below a line with their columns.
pub struct Table {
    columns: HashMap<String, usize>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn parse(text: &str) -> Option<Table> {
        let mut lines = text.lines().skip_while(|line| !line.starts_with("# "));
        let names = lines.next()?.trim_start_matches("# ");
        let columns = names.split(',').enumerate().map(|(at, name)| (name.to_owned(), at)).collect();
        let rows = lines.filter(|line| !line.is_empty()).map(cells).collect();
        Some(Table { columns, rows })
    }

    /// The names of the proxies, in their order.
    pub fn proxies(&self) -> Vec<String> {
        let mut names: Vec<String> = self.rows.iter().map(|row| self.get(row, "pxname").to_owned()).collect();
        names.dedup();
        names
    }

    fn get<'t>(&self, row: &'t [String], column: &str) -> &'t str {
        self.columns.get(column).and_then(|at| row.get(*at)).map_or("", String::as_str)
    }

    fn number(&self, row: &[String], column: &str) -> u64 {
        self.get(row, column).parse().unwrap_or(0)
    }

    fn is_row(&self, row: &[String], proxy: &str, name: &str) -> bool {
        self.get(row, "pxname") == proxy && self.get(row, "svname") == name
    }

    fn row(&self, proxy: &str, name: &str) -> Option<&Vec<String>> {
        self.rows.iter().find(|row| self.is_row(row, proxy, name))
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

/// Microseconds as milliseconds, for people.
fn milliseconds(us: u64) -> String {
    match us {
        0..10_000 => format!("{}.{}", us / 1000, us % 1000 / 100),
        _ => (us / 1000).to_string(),
    }
}

/// A row of the screen, with what it is sorted by.
struct Line<'t> {
    proxy: &'t str,
    name: &'t str,
    state: &'t str,
    is_down: bool,
    now: u64,
    queue: u64,
    rate: f64,
    /// Bytes per second; not known before there were two answers.
    bytes: Option<(f64, f64)>,
    times_us: Option<(u64, u64)>,
    average_ms: &'t str,
    errors: u64,
}

impl<'t> Line<'t> {
    fn of(now: &'t Answers, before: Option<&Answers>, row: &'t [String]) -> Line<'t> {
        let table = &now.table;
        let (proxy, name) = (table.get(row, "pxname"), table.get(row, "svname"));
        let state = table.get(row, "status");
        let total = if table.get(row, "req_tot").is_empty() { "stot" } else { "req_tot" };
        let per_second = |column: &str| {
            let before = before?;
            let seconds = now.at.duration_since(before.at).as_secs_f64().max(0.001);
            let old = before.table.row(proxy, name).map_or(0, |row| before.table.number(row, column));
            Some(table.number(row, column).saturating_sub(old) as f64 / seconds)
        };
        Line {
            proxy,
            name,
            state,
            is_down: !matches!(name, "FRONTEND" | "BACKEND") && state.starts_with("DOWN"),
            now: table.number(row, "scur"),
            queue: table.number(row, "qcur"),
            rate: per_second(total).unwrap_or_else(|| table.number(row, "rate") as f64),
            bytes: per_second("bin").zip(per_second("bout")),
            times_us: now.time_us(proxy, name, "p50").zip(now.time_us(proxy, name, "p99")),
            average_ms: table.get(row, "rtime"),
            errors: ["ereq", "econ", "eresp"].iter().map(|column| table.number(row, column)).sum(),
        }
    }

    /// What it is sorted by, the largest first; all rows are alike where names decide.
    fn weight(&self, sort: Sort) -> f64 {
        match sort {
            Sort::Rate => self.rate,
            Sort::Now => self.now as f64,
            Sort::Queue => self.queue as f64,
            Sort::Out => self.bytes.map_or(0.0, |(_, out)| out),
            Sort::Slowest => match self.times_us {
                Some((_, slowest_us)) => slowest_us as f64,
                None => self.average_ms.parse::<f64>().unwrap_or(0.0) * 1000.0,
            },
            Sort::Errors => self.errors as f64,
            Sort::Name => 0.0,
        }
    }

    fn write(&self, out: &mut String, layout: &Layout) {
        let dash = || "-".to_owned();
        let bytes = |of: fn((f64, f64)) -> f64| self.bytes.map_or_else(dash, |bytes| size(of(bytes)));
        let time =
            |of: fn((u64, u64)) -> u64| self.times_us.map_or_else(dash, |times| milliseconds(of(times)));
        layout.put(
            out,
            [
                &shown(self.proxy, layout.proxy),
                &shown(self.name, layout.name),
                &shown(self.state, 12),
                &self.now.to_string(),
                &self.queue.to_string(),
                &format!("{:.0}", self.rate),
                &bytes(|(received, _)| received),
                &bytes(|(_, sent)| sent),
                &time(|(half, _)| half),
                &time(|(_, most)| most),
                &shown(self.average_ms, 6),
                &self.errors.to_string(),
            ],
        );
    }
}

const HEADS: [&str; 12] =
    ["PROXY", "NAME", "STATE", "NOW", "QUEUE", "REQ/s", "IN/s", "OUT/s", "P50", "P99", "RTIME", "ERR"];

/// How wide columns are.
struct Layout {
    proxy: usize,
    name: usize,
    /// Without bytes and averages.
    is_narrow: bool,
}

impl Layout {
    /// Columns of all figures, and of those that a narrow screen has.
    const WIDE: usize = 121;
    const NARROW: usize = 96;

    fn of(columns: usize) -> Layout {
        let is_narrow = columns < Layout::WIDE;
        let missing = if is_narrow { Layout::NARROW.saturating_sub(columns) } else { 0 };
        // Names give way to figures, but not whole.
        let name = missing.div_ceil(2).min(8);
        Layout { proxy: 20 - (missing - name).min(12), name: 16 - name, is_narrow }
    }

    fn put(&self, out: &mut String, cells: [&str; 12]) {
        let [proxy, name, state, now, queue, rate, received, sent, half, most, average, errors] = cells;
        let (of_proxy, of_name) = (self.proxy, self.name);
        out.push_str(&format!(
            "{proxy:<of_proxy$} {name:<of_name$} {state:<12} {now:>7} {queue:>7} {rate:>8}"
        ));
        if self.is_narrow {
            out.push_str(&format!(" {half:>6} {most:>6} {errors:>6}\n"));
        } else {
            out.push_str(&format!(" {received:>8} {sent:>8} {half:>6} {most:>6} {average:>6} {errors:>6}\n"));
        }
    }
}

/// What there is to see on so many lines and columns, with what changed since the answers before.
pub fn screen(
    now: &Answers,
    before: Option<&Answers>,
    view: &View,
    (lines, columns): (usize, usize),
) -> String {
    let of = |name: &str| now.info(name);
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
    let layout = Layout::of(columns);
    layout.put(&mut out, HEADS);
    let rows = now.table.rows.iter();
    let wanted =
        rows.filter(|row| view.proxy.as_deref().is_none_or(|own| now.table.get(row, "pxname") == own));
    let mut rows: Vec<Line<'_>> = wanted.map(|row| Line::of(now, before, row)).collect();
    let weight = |line: &Line<'_>| line.weight(view.sort);
    rows.sort_by(|a, b| b.is_down.cmp(&a.is_down).then(weight(b).total_cmp(&weight(a))));
    if view.sort == Sort::Name {
        rows.sort_by(|a, b| (a.proxy, a.name).cmp(&(b.proxy, b.name)));
    }
    let room = lines.saturating_sub(OTHER_LINES);
    rows.iter().take(room).for_each(|row| row.write(&mut out, &layout));
    if rows.len() > room {
        out.push_str(&format!("... and {} more\n", rows.len() - room));
    }
    if lines != usize::MAX {
        out.push_str(&view.help());
        out.push('\n');
    }
    // A line that went on in the next one would push the first ones off the screen.
    out.lines().flat_map(|line| line.chars().take(columns).chain(['\n'])).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn answers(at: Instant, total: u64, latency: &str) -> Answers {
        let text = format!(
            "# pxname,svname,qcur,scur,stot,bin,bout,rate,status,req_tot,rtime\n\
             \"a,\"\"b\",FRONTEND,,3,9,1000,2000,1,OPEN,{total},\nx,s\x1b1,0,0,5,0,0,0,DOWN,,7\nx,s2,4,0,5,0,0,0,UP,,9\n\n"
        );
        let info = "Name: HAProxy\nVersion: 3.5\nPid: 7\n".to_owned();
        Answers { at, info, table: Table::parse(&text).unwrap(), latency: Table::parse(latency) }
    }

    #[test]
    fn rows_are_read_and_rates_follow_from_two_answers() {
        let start = Instant::now();
        let (old, new) = (answers(start, 100, ""), answers(start + Duration::from_secs(2), 140, ""));
        let text = screen(&new, Some(&old), &View::default(), (40, usize::MAX));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("HAProxy 3.5  pid 7 "));
        assert!(lines[4].starts_with("x                    s?1              DOWN"), "{text}");
        let row: Vec<&str> = lines[5].split_whitespace().collect();
        assert_eq!(row[..6], ["a,\"b", "FRONTEND", "OPEN", "3", "0", "20"], "{text}");
        // Without answers before, the process's own rate is shown.
        assert!(screen(&new, None, &View::default(), (40, usize::MAX)).contains(" 1        -        - "));
        assert!(
            screen(&new, None, &View::default(), (9, usize::MAX)).contains("... and 1 more\nq quit"),
            "{text}"
        );
        assert!(Table::parse("Permission denied\n").is_none());
    }

    #[test]
    fn percentiles_are_those_of_whole_streams() {
        let latency = "# pxname,svname,phase,streams,average,p50,p90,p95,p99,p99.9\n\
            x,s2,queue,5,1,1,1,1,1,1\nx,s2,total,5,900,1500,1,1,250000,1\n";
        let text = screen(&answers(Instant::now(), 1, latency), None, &View::default(), (40, usize::MAX));
        let row = text.lines().find(|line| line.starts_with("x                    s2")).expect("the row");
        assert_eq!(row.split_whitespace().collect::<Vec<_>>()[8..], ["1.5", "250", "9", "0"], "{text}");
        assert!(
            text.lines().any(
                |line| line.starts_with("x                    s?1") && line.contains(" -      -      7 ")
            )
        );
    }

    #[test]
    fn no_line_is_longer_than_the_screen_is_wide() {
        let long = "a-proxy-with-a-long-name,a-server-with-a-long-name,1,2,3,4,5,6,DOWN (agent),7,8\n";
        let mut now = answers(Instant::now(), 1, "");
        let head = "# pxname,svname,qcur,scur,stot,bin,bout,rate,status,req_tot,rtime\n";
        now.table = Table::parse(&format!("{head}{long}\n")).unwrap();
        for columns in [20, 60, 79, 80, 95, 96, 100, 120, 121, 200] {
            let text = screen(&now, None, &View::default(), (24, columns));
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(columns), "{columns}: {text}");
            assert_eq!(text.lines().count(), 6, "{columns}: {text}");
            // What a terminal of 80 columns has no room for is left out whole.
            let heads = text.lines().nth(3).unwrap();
            assert_eq!(heads.ends_with("ERR"), columns >= 76, "{columns}: {text}");
            assert_eq!(heads.contains("OUT/s"), columns >= 121, "{columns}: {text}");
            assert_eq!(text.contains("a-proxy-with "), columns == 80, "{columns}: {text}");
        }
    }

    #[test]
    fn views_sort_and_choose() {
        let now = answers(Instant::now(), 1, "");
        let first = |view: &View| {
            let text = screen(&now, None, view, (40, usize::MAX));
            let names =
                text.lines().skip(4).map(|line| line.split_whitespace().nth(1).unwrap_or("").to_owned());
            names.collect::<Vec<_>>()
        };
        let of = |sort: Sort| View { sort, ..View::default() };
        assert_eq!(first(&of(Sort::Queue))[..3], ["s?1", "s2", "FRONTEND"]);
        assert_eq!(first(&of(Sort::Rate))[..3], ["s?1", "FRONTEND", "s2"]);
        assert_eq!(first(&of(Sort::Name))[..3], ["FRONTEND", "s?1", "s2"]);
        let own = View { proxy: Some("x".into()), ..View::default() };
        assert_eq!(first(&own)[..2], ["s?1", "s2"]);
        assert!(!screen(&now, None, &own, (40, usize::MAX)).contains("FRONTEND"));
    }
}
