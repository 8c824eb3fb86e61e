//! Compares what was seen of one exchange through two programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::actor::{End, Heard};
use super::case::{Bytes, Case, Mode};
use super::http2;
use super::known;
use super::play::{HTTP_FIELDS, Seen, TCP_FIELDS};

/// One thing that was not the same.
#[derive(Clone, Debug)]
pub struct Difference {
    /// What it is about: `client 1 bytes`, `s1#2 end Closed/Reset`, `log 1 %tsc`, `stat b s1 econ`. Later for a moment that came later
    /// than in the reference, so that noise, which goes both ways, is told from a habit.
    pub aspect: String,
    pub theirs: String,
    pub ours: String,
}

/// Columns that depend on time, on the machine, or on the order in which a configuration was read.
const NOT_COMPARED: [&str; 24] = [
    "pid",
    "iid",
    "sid",
    "rate",
    "rate_max",
    "rate_lim",
    "req_rate",
    "req_rate_max",
    "conn_rate",
    "conn_rate_max",
    "lastchg",
    "downtime",
    "lastsess",
    "pxname",
    "svname",
    "addr",
    "qtime",
    "ctime",
    "rtime",
    "ttime",
    "check_duration",
    "last_chk",
    "last_agt",
    "slim",
];
/// Columns of what is not there.
const NOT_OURS: [&str; 6] = ["h2_", "h3_", "quic_", "qpack_", "pack_", "ssl_"];
/// Columns with times in milliseconds.
const TIME_COLUMNS: [&str; 4] = ["qtime_max", "ctime_max", "rtime_max", "ttime_max"];
/// Columns with numbers of bytes.
const BYTE_COLUMNS: [&str; 8] =
    ["bin", "bout", "reqbin", "reqbout", "resbin", "resbout", "h1_bytes_in", "h1_bytes_out"];
/// Log fields with times in milliseconds.
const TIMERS: [&str; 11] = ["Th", "Ti", "TR", "Tq", "Tw", "Tc", "Tr", "Td", "Ta", "Tt", "Tu"];

/// Where `ours` differs from `theirs`, with moments within `tolerance`.
pub fn compare(case: &Case, theirs: &Seen, ours: &Seen, tolerance: Duration) -> Vec<Difference> {
    let mut list = List(Vec::new());
    if theirs.failure.is_some() || ours.failure.is_some() {
        let text = |seen: &Seen| seen.failure.clone().unwrap_or_default();
        list.differ("failure", text(theirs), text(ours));
        return list.0;
    }
    for (i, (t, o)) in theirs.clients.iter().zip(&ours.clients).enumerate() {
        connection(&mut list, &format!("client {}", i + 1), case, t, o, tolerance);
    }
    for (i, (t, o)) in theirs.servers.iter().zip(&ours.servers).enumerate() {
        list.equal(&format!("s{} connections", i + 1), t.len(), o.len());
        for (j, (t, o)) in t.iter().zip(o).enumerate() {
            let name = format!("s{}#{}", i + 1, j + 1);
            list.moment(&format!("{name} connection"), t.opened, o.opened, tolerance);
            connection(&mut list, &name, case, t, o, tolerance);
        }
    }
    log(&mut list, case, &theirs.log, &ours.log, tolerance);
    if !case.loose {
        statistics(&mut list, case, theirs, ours, tolerance);
    }
    list.0
}

struct List(Vec<Difference>);

impl List {
    fn differ(&mut self, aspect: &str, theirs: String, ours: String) {
        self.0.push(Difference { aspect: aspect.into(), theirs, ours });
    }

    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, aspect: &str, theirs: T, ours: T) {
        if theirs != ours {
            self.differ(aspect, format!("{theirs:?}"), format!("{ours:?}"));
        }
    }

    fn moment(&mut self, aspect: &str, theirs: Duration, ours: Duration, tolerance: Duration) {
        if theirs.abs_diff(ours) > tolerance {
            let way = if ours > theirs { "later" } else { "earlier" };
            self.differ(&format!("{aspect} {way}"), ms(theirs), ms(ours));
        }
    }
}

fn ms(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}

fn connection(list: &mut List, name: &str, case: &Case, t: &Heard, o: &Heard, tolerance: Duration) {
    let limit = match case.bytes {
        Bytes::All => usize::MAX,
        Bytes::Start(len) => len,
    };
    let start = |heard: &Heard| heard.bytes[..heard.bytes.len().min(limit)].to_vec();
    let (their_bytes, our_bytes) = (start(t), start(o));
    let (mut their_joined, our_joined) = (joined(&their_bytes, case.loose), joined(&our_bytes, case.loose));
    // Same length, so that offsets stay true.
    their_joined.bytes = known::reordered(&their_joined.bytes);
    let moments = if their_joined.bytes == our_joined.bytes {
        their_joined
            .ends
            .iter()
            .zip(&our_joined.ends)
            .filter_map(|(t_end, o_end)| Some((moment(t, *t_end)?, moment(o, *o_end)?)))
            .max_by_key(|(t, o)| t.abs_diff(*o))
    } else {
        let shown = |bytes, joined: &Joined| match http2::is_http2(bytes) {
            true => String::from_utf8_lossy(&joined.bytes).into_owned(),
            false => escaped(&joined.bytes),
        };
        let (theirs, ours) = (shown(&their_bytes, &their_joined), shown(&our_bytes, &our_joined));
        list.differ(&format!("{name} bytes"), theirs, ours);
        None
    };
    if let Some((theirs, ours)) = moments {
        list.moment(&format!("{name} byte"), theirs, ours, tolerance);
    }
    let kind = |heard: &Heard| heard.end.map_or("none".to_string(), |(end, _)| format!("{end:?}"));
    if kind(t) != kind(o) {
        // Which ends these were is part of what differs: one of them may be known.
        list.differ(&format!("{name} end {}/{}", kind(t), kind(o)), kind(t), kind(o));
    }
    list.equal(&format!("{name} script"), &t.stopped, &o.stopped);
    let watched = |end: &(End, Duration)| matches!(end.0, End::Closed | End::Reset);
    if let (Some(t), Some(o)) = (t.end.filter(watched), o.end.filter(watched)) {
        list.moment(&format!("{name} end"), t.1, o.1, tolerance);
    }
}

/// When the byte that ends at an offset had come.
fn moment(heard: &Heard, end: usize) -> Option<Duration> {
    let at = heard.at.partition_point(|(len, _)| *len < end);
    heard.at.get(at).map(|(_, at)| *at)
}

/// What was received, as far as a proxy has no choice in it: without the boundaries of chunks.
#[derive(Default)]
struct Joined {
    bytes: Vec<u8>,
    /// Where each of these bytes ended in what was received.
    ends: Vec<usize>,
}

impl Joined {
    fn push(&mut self, bytes: &[u8], from: usize) {
        self.bytes.extend_from_slice(bytes);
        self.ends.extend((1..=bytes.len()).map(|i| from + i));
    }
}

/// Joins the chunks of chunked bodies, and the frames of HTTP/2. What is not made of messages stays as it is.
fn joined(bytes: &[u8], any_order: bool) -> Joined {
    if http2::is_http2(bytes) {
        let http2::Told { bytes, ends } = http2::told(bytes);
        return Joined { bytes, ends };
    }
    let mut out = Joined::default();
    let mut at = 0;
    let find = |from: usize, what: &[u8]| {
        let rest = bytes.get(from..)?;
        rest.windows(what.len()).position(|window| window == what).map(|len| from + len + what.len())
    };
    while let Some(end) = find(at, b"\r\n\r\n") {
        let head = &bytes[at..end];
        match any_order {
            // All of it came by its end.
            true => {
                out.bytes.extend_from_slice(&with_sorted_fields(head));
                out.ends.resize(out.bytes.len(), end);
            }
            false => out.push(head, at),
        }
        at = end;
        if !String::from_utf8_lossy(head).to_lowercase().contains("\r\ntransfer-encoding: chunked") {
            continue;
        }
        while let Some(data) = find(at, b"\r\n") {
            let digits = String::from_utf8_lossy(&bytes[at..data - 2]);
            let Ok(size) = usize::from_str_radix(digits.split(';').next().unwrap_or(""), 16) else { break };
            let end = data.saturating_add(size).min(bytes.len());
            if size == 0 {
                out.push(&bytes[at..data], at);
                at = data;
                break;
            }
            out.push(&bytes[data..end], data);
            at = (end + 2).min(bytes.len());
        }
    }
    out.push(&bytes[at..], at);
    out
}

/// A head whose fields are sorted by name, but for the key of a WebSocket. Those of one name stay in their order.
fn with_sorted_fields(head: &[u8]) -> Vec<u8> {
    let text = head.strip_suffix(b"\r\n").unwrap_or(head);
    let mut lines: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
    let name = |line: &[u8]| line.split(|b| *b == b':').next().unwrap_or(b"").to_vec();
    // It is made of random bytes.
    lines.retain(|line| !line.starts_with(b"sec-websocket-key:"));
    if let Some(fields) = lines.get_mut(1..) {
        fields.sort_by_key(|line| name(line));
    }
    [&lines.concat()[..], b"\r\n"].concat()
}

fn log(list: &mut List, case: &Case, theirs: &[String], ours: &[String], tolerance: Duration) {
    if theirs.len() != ours.len() {
        return list.differ("log lines", theirs.join("\n"), ours.join("\n"));
    }
    let names: &[&str] = match case.mode {
        Mode::Http => &HTTP_FIELDS,
        Mode::Tcp => &TCP_FIELDS,
    };
    let split = |line: &str| line.splitn(names.len(), '~').map(str::to_string).collect::<Vec<_>>();
    let ours = match case.clients.len() {
        0 | 1 if !case.loose => ours.to_vec(),
        _ => matched(theirs, ours, |theirs, ours| {
            let same = |((name, t), o): &((&&str, String), String)| !TIMERS.contains(name) && t == o;
            names.iter().zip(split(theirs)).zip(split(ours)).filter(same).count()
        }),
    };
    for (i, (t, o)) in theirs.iter().zip(&ours).enumerate() {
        let (t_fields, o_fields) = (split(t), split(o));
        if case.own_log || t_fields.len() != names.len() || o_fields.len() != names.len() {
            own_line(list, i, t, o);
            continue;
        }
        for ((name, t), o) in names.iter().zip(&t_fields).zip(&o_fields) {
            let aspect = format!("log {} %{name}", i + 1);
            if ["B", "U"].contains(name) {
                amount(list, &aspect, case, t, o);
                continue;
            }
            if TIMERS.contains(name) {
                timer(list, &aspect, t, o, tolerance);
            } else {
                list.equal(&aspect, t, o);
            }
        }
    }
}

/// `ours` in the order of `theirs`: what several clients do at the same moment ends in either order.
fn matched(theirs: &[String], ours: &[String], alike: impl Fn(&str, &str) -> usize) -> Vec<String> {
    let mut left: Vec<&String> = ours.iter().collect();
    let pick = |line: &String| {
        let best = (0..left.len()).rev().max_by_key(|i| alike(line, left[*i])).expect("as many as there are");
        left.remove(best).clone()
    };
    theirs.iter().map(pick).collect()
}

/// A line in a format of the case's own: numbers between blanks, slashes and the like that look like times, ports and
/// dates do not count.
fn own_line(list: &mut List, number: usize, theirs: &str, ours: &str) {
    let (t, o) = (without_numbers(theirs), without_numbers(ours));
    if t != o {
        list.differ(&format!("log {}", number + 1), theirs.into(), ours.into());
    }
}

fn without_numbers(line: &str) -> String {
    let mut out = String::new();
    // A date holds the name of a month.
    let mut in_date = false;
    for c in line.chars() {
        match c {
            '[' => in_date = true,
            ']' => in_date = false,
            _ => {}
        }
        if in_date && c.is_ascii_alphanumeric() || c.is_ascii_digit() {
            if !out.ends_with('#') {
                out.push('#');
            }
        } else {
            out.push(c);
        }
    }
    out
}

fn timer(list: &mut List, aspect: &str, theirs: &str, ours: &str, tolerance: Duration) {
    let number = |text: &str| text.trim_start_matches('+').parse::<i64>().ok();
    match (number(theirs), number(ours)) {
        (Some(t), Some(o)) if t >= 0 && o >= 0 && theirs.starts_with('+') == ours.starts_with('+') => {
            let time = |n: i64| Duration::from_millis(n.unsigned_abs());
            list.moment(aspect, time(t), time(o), tolerance);
        }
        _ => list.equal(aspect, theirs, ours),
    }
}

fn statistics(list: &mut List, case: &Case, theirs: &Seen, ours: &Seen, tolerance: Duration) {
    let rows = |seen: &Seen| seen.stats.keys().cloned().collect::<Vec<_>>();
    list.equal("stat rows", rows(theirs), rows(ours));
    for (key, their_row) in &theirs.stats {
        let Some(our_row) = ours.stats.get(key) else { continue };
        for (column, t) in their_row {
            let absent = NOT_OURS.iter().any(|start| column.starts_with(start));
            if NOT_COMPARED.contains(&column.as_str()) || absent {
                continue;
            }
            let empty = String::new();
            let o = our_row.get(column).unwrap_or(&empty);
            let aspect = format!("stat {} {} {column}", key.0, key.1);
            if TIME_COLUMNS.contains(&column.as_str()) {
                timer(list, &aspect, t, o, tolerance);
            } else if BYTE_COLUMNS.contains(&column.as_str()) {
                amount(list, &aspect, case, t, o);
            } else {
                list.equal(&aspect, t, o);
            }
        }
    }
}

/// A number of bytes. In HTTP the reference counts its own form of a message's head, with eleven bytes more for the
/// simplest; ours counts what is on the wire.
fn amount(list: &mut List, aspect: &str, case: &Case, theirs: &str, ours: &str) {
    if case.bytes != Bytes::All {
        return;
    }
    let number = |text: &str| text.trim_start_matches('+').parse::<u64>().ok();
    let near = match (number(theirs), number(ours)) {
        (Some(t), Some(o)) => {
            // Nothing stays nothing.
            case.mode == Mode::Http && (t == 0) == (o == 0) && t.abs_diff(o) <= 60 + t.max(o) / 2
        }
        _ => false,
    };
    if !near {
        list.equal(aspect, theirs, ours);
    }
}

/// Bytes for people: long ones shortened in the middle.
pub fn escaped(bytes: &[u8]) -> String {
    const MOST: usize = 1500;
    let text = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut out, b| {
            match b {
                b'\r' => out.push_str("\\r"),
                b'\n' => out.push_str("\\n"),
                b' '..=b'~' => out.push(char::from(*b)),
                _ => {
                    let _ = write!(out, "\\x{b:02x}");
                }
            }
            out
        })
    };
    if bytes.len() <= MOST {
        return text(bytes);
    }
    let (start, end) = (&bytes[..MOST / 2], &bytes[bytes.len() - MOST / 4..]);
    format!("{} ... {} bytes ... {}", text(start), bytes.len() - start.len() - end.len(), text(end))
}

/// What was seen, for people.
pub fn transcript(case: &Case, seen: &Seen) -> String {
    let mut out = String::new();
    if let Some(failure) = &seen.failure {
        let _ = writeln!(out, "  {failure}");
    }
    for (i, heard) in seen.clients.iter().enumerate() {
        let _ = writeln!(out, "  client {}:{}", i + 1, lines(heard));
    }
    for (i, connections) in seen.servers.iter().enumerate() {
        for (j, heard) in connections.iter().enumerate() {
            let _ = writeln!(out, "  s{}#{} from {}:{}", i + 1, j + 1, ms(heard.opened), lines(heard));
        }
    }
    for line in &seen.log {
        let names: &[&str] = if case.mode == Mode::Http { &HTTP_FIELDS } else { &TCP_FIELDS };
        let fields: Vec<&str> = line.splitn(names.len(), '~').collect();
        let named: Vec<String> = if fields.len() == names.len() && !case.own_log {
            names.iter().zip(fields).filter(|(_, f)| *f != "-").map(|(n, f)| format!("{n}={f}")).collect()
        } else {
            vec![line.clone()]
        };
        let _ = writeln!(out, "  log: {}", named.join(" "));
    }
    out
}

fn lines(heard: &Heard) -> String {
    let mut out = String::new();
    let mut from = 0;
    let mut bursts: BTreeMap<u128, Vec<u8>> = BTreeMap::new();
    for (len, at) in &heard.at {
        bursts.entry(at.as_millis()).or_default().extend_from_slice(&heard.bytes[from..*len]);
        from = *len;
    }
    let is_http2 = http2::is_http2(&heard.bytes);
    for (at, bytes) in bursts.into_iter().filter(|_| !is_http2) {
        let _ = write!(out, "\n    {at:5} ms {}", escaped(&bytes));
    }
    if is_http2 {
        let text = http2::told(&heard.bytes).bytes;
        let _ = write!(out, "{}", String::from_utf8_lossy(&text).replace('\n', "\n    "));
    }
    if let Some((end, at)) = heard.end {
        let _ = write!(out, "\n    {:5} ms end: {end:?}", at.as_millis());
    }
    if let Some(stopped) = &heard.stopped {
        let _ = write!(out, "\n    the script {stopped}");
    }
    out
}
