//! The statistics: `show stat`, `show schema json`. What the rows hold is in [`thalweg_statistics::stat`].

use std::io;

use thalweg_config::model::CliLevel::{self, User};
use thalweg_proxy::Instance;
use thalweg_statistics::columns::{COLUMNS, ONLY_BACKEND, ONLY_FRONTEND};
use thalweg_statistics::stat::{self, Row, RowKind, csv_row, header, json_row, typed_row};
use thalweg_statistics::{Value, rows};

use crate::command::{Call, Command, Run};
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("show stat", User, Run::Waiting(|call| Box::pin(show(call))))
        .help("[desc|json|no-maint|typed|up]*", "show the counters of proxies and servers"),
    Command::new("dump stats-file", User, Run::Now(|call| dump(call.instance())))
        .help("", "dump the counters that a stats file holds"),
    Command::new("show schema json", User, Run::Now(|_| Reply::Text(stat::SCHEMA.into())))
        .help("", "show the JSON schema of the statistics"),
];

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
async fn show(call: Call<'_>) -> io::Result<Reply> {
    let Call { session, output, args, .. } = call;
    let instance = &session.cli.instance;
    let mut filter = Filter { iid: -1, kinds: -1, sid: -1, up: false, no_maint: false };
    let (mut form, mut described) = (Form::Csv, false);
    let mut args = args;
    if args.first() == Some(&"domain") {
        match args.get(1) {
            Some(&"proxy") => {}
            Some(&"resolvers") => {
                let header = "# id,pid,sent,send_error,valid,update,cname,cname_error,any_err,nx,timeout,refused,other,invalid,\
                              too_big,truncated,outdated,\n";
                return Ok(Reply::Text(header.into()));
            }
            _ => return Ok(Reply::error("Invalid statistics domain.")),
        }
        args = &args[2..];
    }
    if let [proxy, kinds, sid, rest @ ..] = args {
        match proxy_number(instance, proxy) {
            Some(number) => filter.iid = number,
            None => return Ok(Reply::error("No such proxy.")),
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
    Ok(Reply::Done)
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

/// `dump stats-file`: the counters that outlive the process, of what has a `guid`, first those of frontends, then those
/// of backends and their servers.
fn dump(instance: &Instance) -> Reply {
    let proxies = || instance.config.proxies.iter().filter(|proxy| !proxy.disabled);
    let mut text = String::new();
    let frontends = proxies().filter(|proxy| proxy.is_fe());
    let rows = frontends.filter_map(|proxy| Some((proxy.guid.as_deref()?, rows::frontend(instance, proxy))));
    dump_side(&mut text, "fe", ONLY_BACKEND, rows);
    text.push('\n');
    let behind = proxies().filter(|proxy| proxy.is_be()).flat_map(|proxy| {
        let servers = proxy.servers.iter();
        let servers = servers.filter_map(move |server| {
            Some((server.rare().guid.as_deref()?, rows::server(instance, proxy, server)))
        });
        servers.chain(proxy.guid.as_deref().map(|guid| (guid, rows::backend(instance, proxy))))
    });
    dump_side(&mut text, "be", ONLY_FRONTEND, behind);
    Reply::Text(text)
}

/// One half of a stats file: its columns but for those of the other side, and its rows.
fn dump_side<'g>(text: &mut String, side: &str, others: &[&str], rows: impl Iterator<Item = (&'g str, Row)>) {
    let kept: Vec<usize> = (0..COLUMNS.len())
        .filter(|at| COLUMNS[*at].tags.ends_with('P') && !others.contains(&COLUMNS[*at].name))
        .collect();
    text.push_str(&format!("#{side} guid,"));
    kept.iter().for_each(|at| text.push_str(&format!("{},", COLUMNS[*at].name)));
    text.push('\n');
    for (guid, row) in rows {
        text.push_str(&format!("{guid},"));
        for at in &kept {
            match &row.values[*at] {
                // Never is no number of seconds.
                None | Some(Value::S32(..0)) => text.push_str("0,"),
                Some(value) => text.push_str(&format!("{value},")),
            }
        }
        text.push('\n');
    }
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
