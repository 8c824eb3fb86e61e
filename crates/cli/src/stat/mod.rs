//! `show stat`: the counters of proxies, listeners and servers (management manual, section 9.1).
//!
//! [`rows`] holds how each row is filled, [`columns`] the columns, [`format`] how values are written. Nothing here
//! depends on the CLI, so that other exports may show the same rows.

pub mod columns;
pub mod format;
pub mod rows;

use std::io;

use thalweg_config::model::{CliLevel, Proxy};
use thalweg_proxy::Instance;
use thalweg_proxy::counters::Counters;

use crate::commands;
use crate::output::{Output, Reply};
use crate::session::Session;
use crate::threads::on_all;
use columns::{COLUMNS, EXTRA};
use format::Value;

/// What a row is about; its number is the value of the column `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RowKind {
    Frontend = 0,
    Backend = 1,
    Server = 2,
    Listener = 3,
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is about.
    pub kind: RowKind,
    /// The number of the proxy.
    pub iid: u32,
    /// The number of the server or listener, 0 for others.
    pub sid: u32,
    /// By column, the fixed ones and then the modules' counters.
    pub values: Vec<Option<Value>>,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Csv,
    Typed,
    Json,
}

/// Which rows are shown.
#[derive(Clone, Copy, Debug)]
struct Filter {
    /// -1 for all.
    iid: i64,
    /// Bits: 1 frontends, 2 backends, 4 servers, 8 listeners.
    kinds: i64,
    /// -1 for all.
    sid: i64,
    up: bool,
    no_maint: bool,
}

impl Filter {
    fn wants(&self, kind: RowKind) -> bool {
        self.kinds & (1 << kind as u32) != 0
    }

    fn wants_number(&self, sid: u32) -> bool {
        self.sid < 0 || self.sid == i64::from(sid)
    }
}

/// `show stat`.
pub async fn show(session: &Session, output: &mut Output, args: &[&str]) -> io::Result<()> {
    let instance = &session.cli.instance;
    let mut filter = Filter { iid: -1, kinds: -1, sid: -1, up: false, no_maint: false };
    let (mut form, mut described) = (Form::Csv, false);
    let mut args = args;
    if args.first() == Some(&"domain") {
        match args.get(1) {
            Some(&"proxy") => {}
            Some(&"resolvers") => {
                output.text.push_str(
                    "# id,pid,sent,send_error,valid,update,cname,cname_error,any_err,nx,timeout,refused,other,invalid,\
                     too_big,truncated,outdated,\n",
                );
                return Ok(());
            }
            _ => {
                output.text.push_str(&Reply::error("Invalid statistics domain.").render(session.severity));
                return Ok(());
            }
        }
        args = &args[2..];
    }
    if let [proxy, kinds, sid, rest @ ..] = args {
        match proxy_number(instance, proxy) {
            Some(number) => filter.iid = number,
            None => {
                output.text.push_str(&Reply::error("No such proxy.").render(session.severity));
                return Ok(());
            }
        }
        // What is no number is 0, and selects nothing.
        filter.kinds = kinds.parse().unwrap_or(0);
        filter.sid = sid.parse().unwrap_or(0);
        args = rest;
    }
    for arg in args {
        match *arg {
            "typed" => form = Form::Typed,
            "json" => form = Form::Json,
            "desc" => described = true,
            "up" => filter.up = true,
            "no-maint" => filter.no_maint = true,
            _ => {}
        }
    }
    let discloses = session.level >= CliLevel::Operator;
    let mut writer = Writer { form, described, discloses, rows: 0 };
    writer.begin(&mut output.text);
    for proxy in &instance.config.proxies {
        // What is disabled in the configuration has no figures.
        if proxy.disabled || filter.iid != -1 && filter.iid != i64::from(proxy.uid) {
            continue;
        }
        if proxy.is_fe() && filter.wants(RowKind::Frontend) {
            writer.row(&mut output.text, rows::frontend(instance, proxy));
        }
        if proxy.is_fe() && proxy.opts.socket_stats && filter.wants(RowKind::Listener) {
            for bind in proxy.binds.iter().enumerate().filter(|(_, bind)| filter.wants_number(bind.uid)) {
                writer.row(&mut output.text, rows::listener(instance, proxy, bind.0));
                output.flush_much().await?;
            }
        }
        if proxy.is_be() && filter.wants(RowKind::Server) {
            let backend = &instance.backends[proxy.id.0 as usize];
            for server in proxy.servers.iter().filter(|server| filter.wants_number(server.uid)) {
                let hidden = (filter.up && !backend.is_up(server.id))
                    || (filter.no_maint && backend.standing(server.id).maintenance);
                if !hidden {
                    writer.row(&mut output.text, rows::server(instance, proxy, server));
                    output.flush_much().await?;
                }
            }
        }
        if proxy.is_be() && filter.wants(RowKind::Backend) {
            let mut row = rows::backend(instance, proxy);
            if filter.up || filter.no_maint {
                row.tell_servers(instance, proxy);
            }
            writer.row(&mut output.text, row);
        }
        output.flush_much().await?;
    }
    writer.end(&mut output.text);
    Ok(())
}

/// The number of the proxy that a number, `-1` or a name selects.
fn proxy_number(instance: &Instance, text: &str) -> Option<i64> {
    // A number selects nothing when no proxy has it; 0 is a name, which nothing has.
    if let Ok(number) = text.parse::<i64>()
        && number != 0
    {
        return Some(number);
    }
    let proxy = instance.config.proxies.iter().find(|proxy| &*proxy.name == text)?;
    Some(i64::from(proxy.uid))
}

struct Writer {
    form: Form,
    described: bool,
    /// Addresses, cookies and algorithms are shown.
    discloses: bool,
    rows: usize,
}

impl Writer {
    fn begin(&self, out: &mut String) {
        match self.form {
            Form::Csv => header(out),
            Form::Typed => {}
            Form::Json => out.push('['),
        }
    }

    fn end(&self, out: &mut String) {
        if self.form == Form::Json {
            out.push_str("]\n");
        }
    }

    fn row(&mut self, out: &mut String, mut row: Row) {
        if !self.discloses {
            row.withhold();
        }
        let row = &row;
        match self.form {
            Form::Csv => csv_row(out, row),
            Form::Typed => typed_row(out, row, self.described),
            Form::Json => {
                if self.rows > 0 {
                    out.push(',');
                }
                json_row(out, row);
            }
        }
        self.rows += 1;
    }
}

/// The header of the CSV.
pub fn header(out: &mut String) {
    out.push_str("# ");
    for column in &COLUMNS {
        out.push_str(column.name);
        out.push(',');
    }
    out.push('-');
    for column in &EXTRA {
        out.push(',');
        out.push_str(column.name);
    }
    out.push_str(",\n");
}

/// A row in CSV.
pub fn csv_row(out: &mut String, row: &Row) {
    for (i, value) in row.values.iter().enumerate() {
        if i == COLUMNS.len() {
            out.push_str("-,");
        }
        if let Some(value) = value {
            format::csv(out, value);
        }
        out.push(',');
    }
    out.push('\n');
}

/// The name and tags of the column at a position.
fn column(position: usize, kind: RowKind) -> (&'static str, &'static str, &'static str) {
    let column = COLUMNS.get(position).or_else(|| EXTRA.get(position - COLUMNS.len()));
    column.map_or(("", "", ""), |column| (column.name, columns::tags(column, kind), column.text))
}

/// A row in typed output: one line per value.
pub fn typed_row(out: &mut String, row: &Row, described: bool) {
    let letter = match row.kind {
        RowKind::Frontend => 'F',
        RowKind::Backend => 'B',
        RowKind::Server => 'S',
        RowKind::Listener => 'L',
    };
    for (position, value) in row.values.iter().enumerate() {
        let Some(value) = value else { continue };
        let (name, tags, text) = column(position, row.kind);
        out.push_str(&format!("{letter}.{}.{}.{position}.{name}.1:{tags}:", row.iid, row.sid));
        format::typed(out, value);
        if described {
            out.push_str(&format!(":\"{text}\""));
        }
        out.push('\n');
    }
}

/// A row in JSON: a list of objects.
pub fn json_row(out: &mut String, row: &Row) {
    let kind = match row.kind {
        RowKind::Frontend => "Frontend",
        RowKind::Backend => "Backend",
        RowKind::Server => "Server",
        RowKind::Listener => "Listener",
    };
    out.push('[');
    let mut first = true;
    for (position, value) in row.values.iter().enumerate() {
        let Some(value) = value else { continue };
        let (name, tags, _) = column(position, row.kind);
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        out.push_str(&format!(
            "{{\"objType\":\"{kind}\",\"proxyId\":{},\"id\":{},\"field\":{{\"pos\":{position},\"name\":\"{name}\"}},",
            row.iid, row.sid
        ));
        format::json_tail(out, tags, value);
    }
    out.push(']');
}

/// `clear counters server`.
pub async fn clear_server(instance: &Instance, args: &[&str]) -> Reply {
    let (proxy, server) = match commands::find_server(instance, args) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    let backend = &instance.backends[proxy.id.0 as usize];
    backend.clear_downs(server.id);
    backend.clear_failures(server.id);
    let index = instance.server_index(proxy.id, server.id);
    on_all(move |worker| worker.counters().servers[index].reset()).await;
    Reply::notice("Server counters cleared.")
}

/// `clear counters`.
pub async fn clear_maxima(instance: &Instance) -> Reply {
    clear(instance, Counters::reset_max).await
}

/// `clear counters all`.
pub async fn clear_all(instance: &Instance) -> Reply {
    for proxy in &instance.config.proxies {
        let backend = &instance.backends[proxy.id.0 as usize];
        backend.clear_own_downs();
        for server in &proxy.servers {
            backend.clear_downs(server.id);
            backend.clear_failures(server.id);
        }
    }
    clear(instance, Counters::reset).await
}

async fn clear(instance: &Instance, how: fn(&Counters)) -> Reply {
    on_all(move |worker| {
        let thread = worker.counters();
        let every = thread.listeners.iter().chain(&thread.backends).chain(&thread.servers);
        every.chain([&thread.process]).for_each(how);
    })
    .await;
    for gate in instance.frontend_gates.iter().chain(&instance.listener_gates).chain([&instance.process_gate])
    {
        gate.reset_peak();
    }
    instance.reset_peaks();
    instance.backends.iter().for_each(|backend| backend.reset_queue_max());
    Reply::Done
}

/// Whether a proxy speaks HTTP, so that its counters of responses mean something.
fn is_http(proxy: &Proxy) -> bool {
    proxy.mode == thalweg_config::model::Mode::Http
}

/// The schema of the JSON of `show info` and `show stat`.
pub const SCHEMA: &str = concat!(
    r##"{"$schema":"http://json-schema.org/draft-04/schema#","oneOf":[{"title":"Info","type":"array","items":{"##,
    r##""title":"InfoItem","type":"object","properties":{"field":{"$ref":"#/definitions/field"},"processNum":{"##,
    r##""$ref":"#/definitions/processNum"},"tags":{"$ref":"#/definitions/tags"},"value":{"$ref":"#/definitions/"##,
    r##"typedValue"}},"required":["field","processNum","tags","value"]}},{"title":"Stat","type":"array","items":{"##,
    r##""title":"InfoItem","type":"array","items":{"type":"object","properties":{"objType":{"enum":["Frontend","##,
    r##""Backend","Listener","Server","Unknown"]},"proxyId":{"type":"integer","minimum":0},"id":{"type":"integer","##,
    r##""minimum":0},"field":{"$ref":"#/definitions/field"},"processNum":{"$ref":"#/definitions/processNum"},"##,
    r##""tags":{"$ref":"#/definitions/tags"},"typedValue":{"$ref":"#/definitions/typedValue"}},"required":["##,
    r##""objType","proxyId","id","field","processNum","tags","value"]}}}],"definitions":{"field":{"type":"object","##,
    r##""pos":{"type":"integer","minimum":0},"name":{"type":"string"},"required":["pos","name"]},"processNum":{"##,
    r##""type":"integer","minimum":1},"tags":{"type":"object","origin":{"type":"string","enum":["Metric","Status","##,
    r##""Key","Config","Product","Unknown"]},"nature":{"type":"string","enum":["Gauge","Limit","Min","Max","Rate","##,
    r##""Counter","Duration","Age","Time","Name","Output","Avg","Unknown"]},"scope":{"type":"string","enum":["##,
    r##""Cluster","Process","Service","System","Unknown"]},"required":["origin","nature","scope"]},"typedValue":{"##,
    r##""type":"object","oneOf":[{"type":"object","properties":{"type":{"type":"string","enum":["s32","s64","u32","##,
    r##""u64","str"]},"value":{}}}],"required":["type","value"]}}}"##,
    "\n"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_the_contract() {
        let mut text = String::new();
        header(&mut text);
        let names: Vec<&str> = text.trim_start_matches("# ").trim_end().split(',').collect();
        assert_eq!(
            (names[0], names[1], names[17], names[73], names[118]),
            ("pxname", "svname", "status", "addr", "cache_hint_hits")
        );
        assert_eq!((names[119], names[120], names.last()), ("-", "h1_open_connections", Some(&"")));
        assert_eq!((names[89], names[101], names[105]), ("src_ilim", "agg_server_check_status", "h1sess"));
    }

    #[test]
    fn rows_have_every_column() {
        let row = Row {
            kind: RowKind::Server,
            iid: 3,
            sid: 1,
            values: {
                let mut values = vec![None; COLUMNS.len() + EXTRA.len()];
                values[0] = Some(Value::Str("be".into()));
                values[18] = Some(Value::U32(5));
                values
            },
        };
        let mut text = String::new();
        csv_row(&mut text, &row);
        assert!(text.starts_with("be,") && text.ends_with(",\n"));
        assert_eq!(text.matches(',').count(), COLUMNS.len() + 1 + EXTRA.len());
        text.clear();
        typed_row(&mut text, &row, false);
        assert_eq!(text, "S.3.1.0.pxname.1:KNSV:str:be\nS.3.1.18.weight.1:MaPV:u32:5\n");
        text.clear();
        json_row(&mut text, &row);
        assert!(
            text.starts_with("[{\"objType\":\"Server\",\"proxyId\":3,\"id\":1,\"field\":{\"pos\":0,")
                && text.ends_with("}}]")
        );
    }
}
