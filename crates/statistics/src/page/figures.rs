//! What the page shows of a row: the same figures whether the server writes them or the page's script.

use std::borrow::Cow;

use thalweg_proxy::Instance;
use thalweg_proxy::latency::Phase;

use crate::columns::{COLUMNS, EXTRA, at};
use crate::format::Value;
use crate::latency;
use crate::report::Place;
use crate::stat::{Row, RowKind};

use super::options::RowId;
use crate::rows::EJECTED;

/// How a row stands, as its colour and its sign say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Serves.
    Up,
    /// On its way up or down.
    Changing,
    /// Does not serve.
    Down,
    /// Taken out of service.
    Maintenance,
    /// Finishes what it has.
    Drain,
    /// Serves, as far as anybody knows.
    Unchecked,
}

impl Class {
    /// As the style sheet calls it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Up => "up",
            Class::Changing => "changing",
            Class::Down => "down",
            Class::Maintenance => "maint",
            Class::Drain => "drain",
            Class::Unchecked => "unchecked",
        }
    }

    fn of(kind: RowKind, status: &str) -> Class {
        let is = |words: &[&str]| words.iter().any(|word| status.starts_with(word));
        if is(&["MAINT"]) {
            Class::Maintenance
        } else if is(&["DRAIN", "NOLB"]) {
            Class::Drain
        } else if kind == RowKind::Server && (status.contains('/') || status.ends_with(EJECTED_WORD))
            || is(&["FULL", "PAUSED"])
        {
            Class::Changing
        } else if is(&["DOWN", "STOP"]) {
            Class::Down
        } else if is(&["no check"]) {
            Class::Unchecked
        } else {
            Class::Up
        }
    }
}

/// What follows the status of a server that `option outlier-detection` ejected.
const EJECTED_WORD: &str = " (ejected)";

/// How long streams took, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// How many there were.
    pub streams: u64,
    /// The time of all of them.
    pub sum: u64,
    /// What half of them did not exceed.
    pub p50: u64,
    /// What 99 of a hundred did not exceed.
    pub p99: u64,
}

impl Time {
    /// Of the streams at this place, if there were any.
    fn of(instance: &Instance, place: Place) -> Option<Time> {
        let sum = latency::of(instance, place, Phase::Total);
        Some(Time { streams: sum.count, sum: sum.sum_us, p50: sum.per_mille(500)?, p99: sum.per_mille(990)? })
    }
}

/// One row, reduced to what is shown. What not every view shows is asked for.
#[derive(Clone, Debug)]
pub struct Figures {
    pub id: RowId,
    pub kind: RowKind,
    pub class: Class,
    pub status: Cow<'static, str>,
    /// Seconds since the status changed.
    pub since_s: Option<u64>,
    pub weight: Option<u64>,
    pub backup: bool,
    pub queue: Option<u64>,
    pub queue_max: u64,
    pub sessions: u64,
    pub sessions_max: u64,
    pub sessions_limit: Option<u64>,
    /// Of requests where they are counted, else of sessions.
    pub rate: Option<u64>,
    pub rate_max: u64,
    pub total: u64,
    /// How long streams took.
    pub time: Option<Time>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub denied: u64,
    pub errors: u64,
    pub retries: u64,
    /// What the last check and the last agent check said.
    pub check: String,
    /// What all of it is from.
    row: Row,
}

impl Figures {
    /// Of the row at this place.
    pub fn of(instance: &Instance, place: Place) -> Figures {
        let mut row = place.row(instance);
        let mut status = match row.values[const { at("status") }].take() {
            Some(Value::Str(status)) => status,
            _ => "".into(),
        };
        let number = |column: usize| number(&row, column);
        let sum = |columns: &[usize]| columns.iter().filter_map(|at| number(*at)).sum();
        let [rate, rate_max, total] = if place.counts_requests(instance) {
            const { [at("req_rate"), at("req_rate_max"), at("req_tot")] }
        } else {
            const { [at("rate"), at("rate_max"), at("stot")] }
        };
        let is_server = row.kind == RowKind::Server;
        if is_server && number(EJECTED) == Some(1) {
            status.to_mut().push_str(EJECTED_WORD);
        }
        Figures {
            id: place.id(instance),
            kind: row.kind,
            class: Class::of(row.kind, &status),
            since_s: number(const { at("lastchg") }),
            weight: number(const { at("weight") }),
            backup: is_server && number(const { at("bck") }) == Some(1),
            queue: number(const { at("qcur") }),
            queue_max: number(const { at("qmax") }).unwrap_or(0),
            sessions: number(const { at("scur") }).unwrap_or(0),
            sessions_max: number(const { at("smax") }).unwrap_or(0),
            sessions_limit: number(const { at("slim") }),
            rate: number(rate),
            rate_max: number(rate_max).unwrap_or(0),
            total: number(total).unwrap_or(0),
            time: Time::of(instance, place),
            bytes_in: number(const { at("bin") }).unwrap_or(0),
            bytes_out: number(const { at("bout") }).unwrap_or(0),
            denied: sum(const { &[at("dreq"), at("dresp"), at("dcon"), at("dses")] }),
            errors: sum(const { &[at("ereq"), at("econ"), at("eresp"), at("eint")] }),
            retries: sum(const { &[at("wretr"), at("wredis")] }),
            check: checks(&row),
            status,
            row,
        }
    }

    /// How the row is called.
    pub fn name(&self) -> &str {
        text(&self.row, const { at("svname") })
    }

    /// Address and cookie.
    pub fn legend(&self) -> String {
        let texts = const { [at("addr"), at("cookie"), at("algo")] }.map(|column| text(&self.row, column));
        // The reference has no name for the default algorithm.
        let shown = texts.into_iter().filter(|text| !text.is_empty() && *text != "unknown");
        shown.collect::<Vec<_>>().join(" \u{b7} ")
    }

    /// Counters of modules, one in a line: `h1_open_streams 3`.
    pub fn modules(&self) -> String {
        let values = self.row.values[COLUMNS.len()..].iter().zip(&EXTRA);
        values.filter_map(|(value, column)| Some(format!("{} {}\n", column.name, value.as_ref()?))).collect()
    }
}

fn text(row: &Row, column: usize) -> &str {
    match &row.values[column] {
        Some(Value::Str(text)) => text,
        _ => "",
    }
}

fn number(row: &Row, column: usize) -> Option<u64> {
    match row.values[column] {
        Some(Value::U32(n)) => Some(u64::from(n)),
        Some(Value::U64(n)) => Some(n),
        _ => None,
    }
}

/// `L7OK 200 in 3 ms, agent L7STS in 1 ms`
fn checks(row: &Row) -> String {
    let check = const { [at("check_status"), at("check_code"), at("check_duration")] };
    let agent = const { [at("agent_status"), at("agent_code"), at("agent_duration")] };
    let said = [("", check), ("agent ", agent)];
    said.into_iter().filter_map(|(who, columns)| result(row, who, columns)).collect::<Vec<_>>().join(", ")
}

/// What one of them said, if there is one: its result, its code and how long it took are in these columns.
fn result(row: &Row, who: &str, [status, code, duration]: [usize; 3]) -> Option<String> {
    let Some(Value::Str(status)) = &row.values[status] else { return None };
    let mut text = format!("{who}{status}");
    if let Some(code) = number(row, code) {
        text.push_str(&format!(" {code}"));
    }
    if let Some(ms) = number(row, duration) {
        text.push_str(&format!(" in {ms} ms"));
    }
    Some(text)
}
