//! The states that servers had in a former process (configuration manual: `server-state-file`, `load-server-state-from-file`;
//! the format is that of `show servers state`, management manual, section 9.3).
//!
//! Rows belong to servers by the names of backend and server; numbers change when lines move. A row that does not fit is
//! told with its place, and the others are used all the same.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use thalweg_syntax::{Diagnostic, Lead, Line, Severity, source::os_message};

use crate::build::{Building, Cx, StateSource};
use crate::keyword::{Outcome, at_most, fail, pass_over};
use crate::model::{ProxyId, SavedOperation, SavedState, Server, ServerId};
use crate::numbers::strict;
use crate::{server, state_dir};

/// The only version of the format.
const VERSION: &str = "1";
/// Fields that each row has; former versions of the reference wrote no others.
const FIELDS_MIN: usize = 20;
/// Fields that say something here.
const FIELDS_MAX: usize = 25;

/// The place of `srv_time_since_last_change`, from 0.
const SINCE: usize = 9;

/// `srv_admin_state`: an operator's maintenance, that of the configuration, an operator's drain, no address, another name.
const FORCED_MAINTENANCE: i64 = 0x01;
const CONFIGURED_MAINTENANCE: i64 = 0x04;
const FORCED_DRAIN: i64 = 0x08;
const RENAMED: i64 = 0x40;
/// Everything that keeps a server out of service.
const ANY_MAINTENANCE: i64 = 0x27;
const ADMIN_MAX: i64 = 0x7f;

/// `srv_check_state` and `srv_agent_state`: there are checks, and they are enabled.
const CHECK_CONFIGURED: i64 = 0x02;
const CHECK_ENABLED: i64 = 0x04;
const CHECK_MAX: i64 = 0x1f;

const WEIGHT_MAX: i64 = 256;
/// The largest number of a status of checks.
const STATUS_MAX: i64 = 21;

/// `server-state-file <file>`
pub(crate) fn file(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'server-state-file' expect one argument: a file path."));
    }
    pass_over(cx, line, 1, 1);
    set_once(line, cx.name(line.text(1)), &mut cx.state_file)
}

/// `server-state-base <directory>`
pub(crate) fn base(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'server-state-base' expects one argument: a directory path."));
    }
    pass_over(cx, line, 1, 1);
    set_once(line, cx.name(line.text(1)), &mut cx.state_base)
}

fn set_once(line: &Line, value: Arc<str>, place: &mut Option<Arc<str>>) -> Outcome {
    if place.is_some() {
        return Err(fail(line, 0, format!("'{}' already specified. Continuing.", line.text(0))));
    }
    *place = Some(value);
    Ok(())
}

/// `load-server-state-from-file global|local|none`
pub(crate) fn source(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_backend(cx, line, "load-server-state-from-file", "");
    b.state_source = match line.text(1) {
        "global" => StateSource::Global,
        "local" => StateSource::Local,
        "none" => StateSource::None,
        other => {
            let message =
                format!("'load-server-state-from-file' expects 'global', 'local' or 'none'. Got '{other}'");
            return Err(fail(line, 1, message));
        }
    };
    Ok(())
}

/// `server-state-file-name [use-backend-name|<file>]`
pub(crate) fn file_name(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_backend(cx, line, "server-state-file-name", "");
    at_most(line, 1, 1)?;
    b.state_file = match line.text(1) {
        "" | "use-backend-name" => None,
        name => Some(cx.name(name)),
    };
    Ok(())
}

/// Reads the files and what `state-dir` keeps, gives servers the addresses that they had, and keeps the rest for the start.
pub(crate) fn load(cx: &mut Cx<'_>) {
    let mut global = cx.state_file.clone().map(|name| {
        let path = path_of(cx, &name);
        read(cx, &path, Whose::Everybody)
    });
    let mut kept = state_dir::load(cx).map(|kept| {
        let mut rows = rows_of(cx, &kept.text, &kept.path, Whose::Directory);
        rows.age(kept.age_s);
        rows
    });
    let mut proxies = std::mem::take(&mut cx.proxies);
    for (index, b) in proxies.iter_mut().enumerate() {
        let id = ProxyId(index as u32);
        let first = cx.config.saved_states.len();
        match b.state_source {
            StateSource::None => {}
            _ if !b.p.is_be() || b.p.disabled => {}
            StateSource::Kept => {
                if let Some(rows) = &mut kept {
                    keep_rows(cx, b, id, rows);
                }
            }
            StateSource::Global => match &mut global {
                Some(rows) => keep_rows(cx, b, id, rows),
                None => {
                    let message = format!(
                        "backend '{}' configured to load server state file from global section 'server-state-file' \
                         directive. Unfortunately, 'server-state-file' is not set!",
                        b.p.name
                    );
                    tell(cx, Severity::Warning, message);
                }
            },
            StateSource::Local => {
                let name = b.state_file.clone().unwrap_or_else(|| Arc::clone(&b.p.name));
                let mut rows = read(cx, &path_of(cx, &name), Whose::Backend(&b.p.name));
                keep_rows(cx, b, id, &mut rows);
                // Rows of other backends are there because the whole dump was written.
                tell_lost(cx, rows, |backend| (*backend == *b.p.name).then_some(true));
            }
        }
        let saved = &cx.config.saved_states[first..];
        let last: HashMap<ServerId, IpAddr> =
            saved.iter().filter_map(|state| Some((state.server, state.address?))).collect();
        server::resolve_names(cx, b, |server| last.get(&server).copied());
    }
    for (source, rows) in [(StateSource::Global, global), (StateSource::Kept, kept)] {
        let Some(rows) = rows else { continue };
        let backends = proxies.iter().filter(|b| b.p.is_be());
        let uses: HashMap<&str, bool> =
            backends.map(|b| (&*b.p.name, b.state_source == source && !b.p.disabled)).collect();
        tell_lost(cx, rows, |backend| match uses.get(backend) {
            None => Some(false),
            Some(uses) => uses.then_some(true),
        });
    }
    cx.proxies = proxies;
}

/// Whose rows a file has, for messages.
#[derive(Clone, Copy)]
enum Whose<'a> {
    Everybody,
    Backend(&'a str),
    /// That of `state-dir`.
    Directory,
}

impl Whose<'_> {
    fn before(self) -> String {
        match self {
            Whose::Everybody => "config".into(),
            Whose::Backend(name) => format!("Proxy '{name}'"),
            Whose::Directory => "state-dir".into(),
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Whose::Everybody => "global server state file",
            Whose::Backend(_) | Whose::Directory => "server state file",
        }
    }
}

/// The rows of a file, by backend and server.
struct Rows {
    path: String,
    by_name: HashMap<(String, String), Row>,
}

impl Rows {
    /// What they say was so long ago that so many seconds have passed since.
    fn age(&mut self, seconds: u64) {
        for row in self.by_name.values_mut() {
            if let Some(since) = row.fields.get_mut(SINCE)
                && let Ok(then) = since.parse::<u64>()
            {
                *since = then.saturating_add(seconds).to_string();
            }
        }
    }
}

/// A row and the number of its line.
struct Row {
    line: usize,
    fields: Vec<String>,
}

fn path_of(cx: &Cx<'_>, name: &str) -> String {
    match &cx.state_base {
        Some(base) if !name.starts_with('/') => format!("{}/{name}", base.trim_end_matches('/')),
        _ => name.to_owned(),
    }
}

fn tell(cx: &mut Cx<'_>, severity: Severity, message: String) {
    cx.diagnostics.push(Diagnostic::new(severity, Lead::Bare, None, message));
}

fn read(cx: &mut Cx<'_>, path: &str, whose: Whose<'_>) -> Rows {
    match cx.options.loader.read(path) {
        Ok(text) => rows_of(cx, &String::from_utf8_lossy(&text), path, whose),
        Err(error) => {
            let (before, kind) = (whose.before(), whose.kind());
            // Without a former process there is none: this is no defect. The two messages end as those of the reference do.
            let end = if matches!(whose, Whose::Everybody) { "" } else { "." };
            let message = format!("{before}: Can't open {kind} '{path}': {}{end}", os_message(&error));
            tell(cx, Severity::Notice, message);
            Rows { path: path.to_owned(), by_name: HashMap::new() }
        }
    }
}

fn rows_of(cx: &mut Cx<'_>, text: &str, path: &str, whose: Whose<'_>) -> Rows {
    let (before, kind) = (whose.before(), whose.kind());
    let mut rows = Rows { path: path.to_owned(), by_name: HashMap::new() };
    let mut lines = text.lines().enumerate();
    match lines.next() {
        None => tell(cx, Severity::Notice, format!("{before}: Empty {kind} '{path}'.")),
        Some((_, VERSION)) => {}
        Some(_) => {
            tell(cx, Severity::Warning, format!("{before}: Can't get version of the {kind} '{path}'."));
            return rows;
        }
    }
    for (index, line) in lines {
        let fields: Vec<String> =
            line.split([' ', '\t']).filter(|f| !f.is_empty()).map(str::to_owned).collect();
        let place = format!("{before}: {kind} '{path}' at line {}", index + 1);
        match &fields[..] {
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            [_, backend, _, server, ..] if fields.len() >= FIELDS_MIN => {
                let name = (backend.clone(), server.clone());
                if let Some(other) = rows.by_name.get(&name) {
                    let line = other.line;
                    let message = format!(
                        "{place}: '{backend}/{server}' has a row in line {line} already; this one is not used."
                    );
                    tell(cx, Severity::Warning, message);
                } else {
                    rows.by_name.insert(name, Row { line: index + 1, fields });
                }
            }
            fields => {
                let message = format!(
                    "{place}: a row has {FIELDS_MIN} fields or more, not {}; it is not used.",
                    fields.len()
                );
                tell(cx, Severity::Warning, message);
            }
        }
    }
    rows
}

/// Keeps what a file says of the servers of a backend. What is left are rows that nobody has asked for.
fn keep_rows(cx: &mut Cx<'_>, b: &Building, proxy: ProxyId, rows: &mut Rows) {
    for server in &b.p.servers {
        let Some(row) = rows.by_name.remove(&(b.p.name.to_string(), server.name.to_string())) else {
            continue;
        };
        let title = format!("'{}/{}'", b.p.name, server.name);
        match SavedState::of(proxy, server, &row) {
            Ok((state, unused)) => {
                if !unused.is_empty() {
                    let unused = unused.join(", ");
                    let message = format!("server-state partially applied for server {title}, {unused}");
                    tell(cx, Severity::Warning, message);
                }
                cx.config.saved_states.push(state);
            }
            Err(wrong) => {
                let wrong = wrong.join(", ");
                let message = format!("server-state application failed for server {title}, {wrong}");
                tell(cx, Severity::Warning, message);
            }
        }
    }
}

/// Tells of the rows that nobody has asked for. `is_there` says of a backend whether it is there; `None` for one whose rows are
/// not meant to be used.
fn tell_lost(cx: &mut Cx<'_>, rows: Rows, is_there: impl Fn(&str) -> Option<bool>) {
    let lost = rows.by_name.into_iter().filter_map(|((backend, server), row)| {
        let reason = match is_there(&backend)? {
            true => format!("backend '{backend}' has no server '{server}'"),
            false => format!("there is no backend '{backend}'"),
        };
        Some((row.line, reason))
    });
    let mut lost: Vec<_> = lost.collect();
    lost.sort_unstable();
    for (line, reason) in lost {
        let message =
            format!("server state file '{}' at line {line}: {reason}; the row is not used.", rows.path);
        tell(cx, Severity::Notice, message);
    }
}

impl Row {
    /// A field by its place, from 0; `-` where former versions wrote none.
    fn text(&self, at: usize) -> &str {
        self.fields.get(at).filter(|_| at < FIELDS_MAX).map_or("-", String::as_str)
    }

    fn given(&self, at: usize) -> Option<&str> {
        Some(self.text(at)).filter(|text| *text != "-")
    }
}

/// Reads the numbers of a row, and remembers which are none.
struct Numbers<'r> {
    row: &'r Row,
    wrong: Vec<String>,
}

impl Numbers<'_> {
    fn within(&mut self, at: usize, name: &str, range: std::ops::RangeInclusive<i64>) -> i64 {
        let text = self.row.text(at);
        strict(text).filter(|number| range.contains(number)).unwrap_or_else(|| {
            self.wrong.push(format!("invalid {name} value '{text}'"));
            0
        })
    }
}

impl SavedState {
    /// What a row says of a server, and what of that is not used; or why it says nothing.
    fn of(proxy: ProxyId, server: &Server, row: &Row) -> Result<(SavedState, Vec<String>), Vec<String>> {
        let mut numbers = Numbers { row, wrong: Vec::new() };
        let operation = numbers.within(5, "srv_op_state", 0..=3);
        let admin = numbers.within(6, "srv_admin_state", 0..=ADMIN_MAX);
        let weight = numbers.within(7, "srv_uweight", 0..=WEIGHT_MAX);
        let initial_weight = numbers.within(8, "srv_iweight", 0..=WEIGHT_MAX);
        let since_s = numbers.within(SINCE, "srv_last_time_change", i64::MIN..=i64::MAX);
        let status = numbers.within(10, "srv_check_status", -1..=STATUS_MAX);
        numbers.within(11, "srv_check_result", 0..=4);
        numbers.within(12, "srv_check_health", i64::MIN..=i64::MAX);
        let check = numbers.within(13, "srv_check_state", 0..=CHECK_MAX);
        let agent = numbers.within(14, "srv_agent_state", 0..=CHECK_MAX);
        numbers.within(15, "bk_f_forced_id", 0..=1);
        numbers.within(16, "srv_f_forced_id", 0..=1);
        let port = row.given(18).and_then(strict);
        if port.is_some_and(|port| port > i64::from(u16::MAX)) {
            numbers.wrong.push(format!("invalid srv_port value '{}'", row.text(18)));
        }
        if !numbers.wrong.is_empty() {
            return Err(numbers.wrong);
        }
        let mut unused = Vec::new();
        let is_checked = server.check.is_some();
        let has_agent = server.rare().agent.is_some();
        let check_port = other_port(row, 21, (is_checked, "health"), &mut unused);
        let check_address = other_address(row, 22, (is_checked, "health"), &mut unused);
        let agent_address = other_address(row, 23, (has_agent, "agent"), &mut unused);
        let agent_port = other_port(row, 24, (has_agent, "agent"), &mut unused);
        let is_off = |state: i64| state & (CHECK_CONFIGURED | CHECK_ENABLED) == CHECK_CONFIGURED;
        // A server that the file has out of service for a reason that may not hold any more begins anew.
        let maintained = admin & ANY_MAINTENANCE != 0;
        let state = SavedState {
            proxy,
            server: server.id,
            address: row.given(4).and_then(|text| text.parse().ok()),
            operation: match operation {
                _ if maintained => None,
                0 => Some(SavedOperation::Stopped),
                3 => Some(SavedOperation::Stopping),
                _ => Some(SavedOperation::Running),
            },
            maintenance: admin & FORCED_MAINTENANCE != 0 && admin & CONFIGURED_MAINTENANCE == 0,
            enabled: admin & CONFIGURED_MAINTENANCE != 0 && admin & FORCED_MAINTENANCE == 0,
            drain: admin & FORCED_DRAIN != 0,
            weight: (initial_weight == i64::from(server.weight)).then_some(weight as u32),
            since_s: since_s.max(0) as u64,
            check_status: u8::try_from(status).unwrap_or(0),
            checks_disabled: is_off(check),
            agent_disabled: is_off(agent),
            fqdn: row.given(17).filter(|_| admin & RENAMED != 0).map(Arc::from),
            port: port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0),
            check_port,
            check_address,
            agent_port,
            agent_address,
        };
        Ok((state, unused))
    }
}

/// A port of checks other than that of traffic; what is wrong goes to `unused`.
fn other_port(row: &Row, at: usize, (there, kind): (bool, &str), unused: &mut Vec<String>) -> Option<u16> {
    let text = row.given(at).filter(|text| *text != "0")?;
    let port = strict(text);
    let wrong = match port.map(u16::try_from) {
        _ if !there => format!("{kind} checks are not enabled on this server"),
        None => "provided port is not an integer".to_owned(),
        Some(Err(_)) => "provided port is invalid".to_owned(),
        Some(Ok(port)) => return Some(port),
    };
    unused.push(wrong);
    None
}

/// An address of checks other than that of traffic; what is wrong goes to `unused`.
fn other_address(
    row: &Row,
    at: usize,
    (there, kind): (bool, &str),
    unused: &mut Vec<String>,
) -> Option<IpAddr> {
    let text = row.given(at)?;
    let wrong = match text.parse() {
        _ if !there => format!("{kind} checks are not enabled on this server"),
        Ok(ip) => return Some(ip),
        Err(_) => format!("invalid addr '{text}'"),
    };
    if !unused.contains(&wrong) {
        unused.push(wrong);
    }
    None
}
