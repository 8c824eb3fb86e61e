//! The page as HTML: complete without its script, which keeps it up to date where it may run.

use super::figures::Figures;
use super::options::write_row_id;
use super::words::{bytes, count, counted, duration, escaped, time};
use super::{Context, SCRIPT, STYLE, act};
use crate::format::whole_number;
use crate::report::{Part, Place, Walk};
use crate::stat::RowKind;

/// Rows in one step.
const STEP: usize = 10;

/// Proxies with more servers than this are shown folded up.
const OPEN_MAX: usize = 400;

/// With more rows than this, those that are not in sight are not laid out.
const LARGE_MIN: usize = 500;

/// The columns: what they are called, and what that means.
const COLUMNS: [(&str, &str); 14] = [
    ("Name", "FRONTEND is where clients come in, BACKEND all servers together"),
    ("State", "And for how long"),
    ("Weight", "Share of the load"),
    ("Queue", "Requests that wait, and the most there were"),
    ("Sessions", "Now, the most there were, and the most there may be"),
    ("Rate", "New requests or sessions per second, and the most there were"),
    ("Time", "From request to end of response: half of them took this long at most, and 99 of a hundred"),
    ("Total", "Requests or sessions so far"),
    ("In", "Bytes from clients"),
    ("Out", "Bytes to clients"),
    ("Denied", "Refused by rules"),
    ("Errors", "Bad requests, failed connections and responses"),
    ("Retries", "Connections tried again, requests sent to another server"),
    ("Check", "What the last health check said, and the agent"),
];

enum Stage {
    Head,
    Rows,
    Done,
}

/// The page, while it is written.
pub struct Html {
    context: Context,
    walk: Walk,
    stage: Stage,
    /// Rows that are not in sight are not laid out. For that they are no rows of tables, and have to say that they are.
    large: bool,
    /// The proxy whose section is open, and which of its groups of rows.
    open: Option<(usize, RowKind)>,
}

impl Html {
    /// The page of this context.
    pub fn new(context: Context) -> Html {
        let walk = Walk::new(context.filter.clone());
        let rows: usize = context.instance.config.proxies.iter().map(|proxy| proxy.servers.len() + 2).sum();
        Html { context, walk, stage: Stage::Head, large: rows > LARGE_MIN, open: None }
    }

    /// Writes some of it. False when that was the end.
    pub fn step(&mut self, out: &mut String) -> bool {
        match self.stage {
            Stage::Head => {
                self.head(out);
                self.stage = Stage::Rows;
            }
            Stage::Rows => {
                for _ in 0..STEP {
                    let Some(place) = self.walk.next(&self.context.instance) else {
                        self.end_section(out);
                        self.foot(out);
                        self.stage = Stage::Done;
                        break;
                    };
                    self.row(out, place);
                }
            }
            Stage::Done => return false,
        }
        true
    }

    fn head(&self, out: &mut String) {
        let context = &self.context;
        begin(out, context, "");
        let class = if self.large { " class=\"large\"" } else { "" };
        out.push_str(&format!("<body{class} data-live=\""));
        escaped(out, &context.link(&format!(";live{}", context.suffix)));
        out.push_str("\" data-past=\"");
        escaped(out, &context.link(&format!(";live=past{}", context.suffix)));
        out.push_str(
            "\">\n<a class=\"skip\" href=\"#main\">Skip to the figures</a>\n<header>\n<h1>Statistics",
        );
        if let Some(node) = &context.node {
            out.push_str(" of <span>");
            escaped(out, node);
            out.push_str("</span>");
        }
        out.push_str("</h1>\n<p class=\"about\">");
        escaped(out, &context.product);
        if let Some(version) = &context.version {
            out.push(' ');
            escaped(out, version);
        }
        if let Some(description) = &context.description {
            out.push_str(" \u{b7} ");
            escaped(out, description);
        }
        out.push_str("</p>\n<dl class=\"tiles\">\n");
        for (id, label, text) in context.tiles() {
            out.push_str(&format!("<div><dt>{label}</dt><dd id=\"i-{id}\">"));
            escaped(out, &text);
            out.push_str("</dd></div>\n");
        }
        out.push_str("</dl>\n</header>\n");
        self.tools(out);
        out.push_str("<p id=\"news\" role=\"status\">");
        if let Some(code) = context.options.code {
            out.push_str(code.text());
        }
        out.push_str("</p>\n<main id=\"main\">\n");
    }

    /// What chooses what is shown, by links and a form.
    fn tools(&self, out: &mut String) {
        let context = &self.context;
        let options = &context.options;
        out.push_str("<nav id=\"tools\" aria-label=\"What is shown\">\n<form method=\"get\" id=\"scope\">");
        // A form's fields take the place of the query, which may be what the page is known by.
        let (path, query) = context.uri.split_once('?').unwrap_or((&context.uri, ""));
        for field in query.split('&').filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            out.push_str("<input type=\"hidden\" name=\"");
            escaped(out, name);
            out.push_str("\" value=\"");
            escaped(out, value);
            out.push_str("\">");
        }
        out.push_str("<label>Proxies named <input name=\"scope\" size=\"12\" maxlength=\"20\" value=\"");
        escaped(out, &options.part);
        out.push_str("\"></label> <button formaction=\"");
        escaped(out, path);
        out.push_str("\">Show</button></form>\n<ul>");
        let mut link = |words: &str, text: &str| {
            out.push_str("<li><a href=\"");
            escaped(out, &context.link(words));
            out.push_str(&format!("\">{text}</a></li>"));
        };
        match options.up {
            true => link("", "Show all servers"),
            false => link(";up", "Hide servers that are down"),
        }
        match options.no_maint {
            true => link("", "Show maintenance"),
            false => link(";no-maint", "Hide maintenance"),
        }
        if context.refresh_s != 0 {
            link(";norefresh", "Stop refreshing");
        } else if options.norefresh {
            link("", "Refresh by itself");
        }
        link(";csv", "CSV");
        link(";json", "JSON");
        link(";json-schema", "Schema");
        out.push_str("</ul>\n</nav>\n");
    }

    fn row(&mut self, out: &mut String, place: Place) {
        if self.open.is_none_or(|(proxy, _)| proxy != place.proxy) {
            self.end_section(out);
            self.begin_section(out, place);
        }
        let group = match place.part {
            Part::Frontend | Part::Listener(_) => RowKind::Frontend,
            Part::Server(_) => RowKind::Server,
            Part::Backend => RowKind::Backend,
        };
        if self.open.is_none_or(|(_, open)| open != group) {
            let class = if group == RowKind::Server { " class=\"servers\"" } else { "" };
            out.push_str(&format!("<tbody{class}{}>\n", self.role("rowgroup")));
            self.open = Some((place.proxy, group));
        }
        let figures = Figures::of(&self.context.instance, place);
        self.cells(out, &figures);
    }

    fn begin_section(&mut self, out: &mut String, place: Place) {
        let context = &self.context;
        let proxy = &context.instance.config.proxies[place.proxy];
        // A group that no row is in yet.
        self.open = Some((place.proxy, RowKind::Listener));
        let open = if proxy.servers.len() <= OPEN_MAX { " open" } else { "" };
        let mode = proxy.mode.name();
        let uid = proxy.uid;
        out.push_str(&format!("<section id=\"p{uid}\"><details{open}><summary><h2>"));
        escaped(out, &proxy.name);
        out.push_str(&format!("</h2> <span class=\"mode\">{mode}</span>"));
        if proxy.is_be() && !proxy.servers.is_empty() {
            let backend = &context.instance.backends[proxy.id.0 as usize];
            let up = proxy.servers.iter().filter(|server| backend.is_up(server.id)).count();
            let all = counted(proxy.servers.len() as u64, "server");
            out.push_str(&format!(" <span class=\"up-count\">{up} of {all} up</span>"));
        }
        if let Some(description) = &proxy.description {
            out.push_str(" <span class=\"about\">");
            escaped(out, description);
            out.push_str("</span>");
        }
        out.push_str("</summary>\n");
        if self.acts_on(place.proxy) {
            out.push_str(&format!(
                "<form method=\"post\"><input type=\"hidden\" name=\"b\" value=\"#{uid}\">\n"
            ));
        }
        let [table, group, row, head] =
            ["table", "rowgroup", "row", "columnheader"].map(|role| self.role(role));
        out.push_str(&format!("<div class=\"table\"><table{table}><caption>"));
        escaped(out, &proxy.name);
        out.push_str(&format!("</caption><thead{group}><tr{row}>"));
        for (name, text) in COLUMNS {
            out.push_str(&format!("<th scope=\"col\"{head} title=\"{text}\">{name}</th>"));
        }
        if context.modules {
            out.push_str(&format!("<th scope=\"col\"{head} title=\"Counters of protocols\">Modules</th>"));
        }
        out.push_str("</tr></thead>\n");
    }

    fn end_section(&mut self, out: &mut String) {
        let Some((proxy, _)) = self.open.take() else { return };
        out.push_str("</tbody></table></div>\n");
        if self.acts_on(proxy) {
            out.push_str(
                "<p class=\"act\"><label>With the servers that are ticked: <select name=\"action\">\
                 <option value=\"\">choose</option>",
            );
            for (name, text) in act::OFFERED {
                out.push_str(&format!("<option value=\"{name}\">{text}</option>"));
            }
            out.push_str("</select></label> <button>Apply</button></p></form>\n");
        }
        out.push_str("</details></section>\n");
    }

    /// An attribute that says what an element is, where its layout no longer does.
    fn role(&self, role: &str) -> String {
        if self.large { format!(" role=\"{role}\"") } else { String::new() }
    }

    /// Whether there is a form to change servers of a proxy.
    fn acts_on(&self, proxy: usize) -> bool {
        let proxy = &self.context.instance.config.proxies[proxy];
        self.context.admin && proxy.is_be() && !proxy.servers.is_empty()
    }

    /// A row. The script writes the same into its cells (`show` in page.js).
    fn cells(&self, out: &mut String, figures: &Figures) {
        let name = figures.name();
        let large = self.large;
        out.push_str("<tr data-k=\"");
        write_row_id(out, figures.id);
        out.push_str("\" class=\"");
        out.push_str(figures.class.name());
        out.push_str(&format!("\"{}><th scope=\"row\"{}>", self.role("row"), self.role("rowheader")));
        if figures.kind == RowKind::Server && self.context.admin {
            out.push_str("<input type=\"checkbox\" name=\"s\" value=\"");
            escaped(out, name);
            out.push_str("\" aria-label=\"");
            escaped(out, name);
            out.push_str("\"> ");
        }
        out.push_str("<a href=\"");
        escaped(out, &self.context.uri);
        out.push_str(";row=");
        write_row_id(out, figures.id);
        out.push_str("\">");
        escaped(out, name);
        out.push_str("</a>");
        if self.context.legends {
            let legend = figures.legend();
            if !legend.is_empty() {
                small(out, |out| escaped(out, &legend));
            }
        }
        out.push_str("</th>");
        cell(out, large, |out| {
            out.push_str("<b>");
            escaped(out, &figures.status);
            out.push_str("</b>");
            if let Some(since_s) = figures.since_s {
                small(out, |out| duration(out, since_s));
            }
        });
        Html::numbers(out, large, figures);
        cell(out, large, |out| escaped(out, &figures.check));
        if self.context.modules {
            let modules = figures.modules();
            cell(out, large, |out| {
                if !modules.is_empty() {
                    out.push_str("<details><summary>Counters</summary><pre>");
                    escaped_lines(out, &modules);
                    out.push_str("</pre></details>");
                }
            });
        }
        out.push_str("</tr>\n");
    }

    /// The cells from the weight to the retries.
    fn numbers(out: &mut String, large: bool, figures: &Figures) {
        cell(out, large, |out| {
            put(out, figures.weight, whole_number);
            if figures.backup {
                small(out, |out| out.push_str("backup"));
            }
        });
        cell(out, large, |out| {
            put(out, figures.queue, count);
            most(out, figures.queue_max, None);
        });
        cell(out, large, |out| {
            count(out, figures.sessions);
            most(out, figures.sessions_max, figures.sessions_limit);
        });
        cell(out, large, |out| {
            put(out, figures.rate, |out, n| {
                count(out, n);
                out.push_str("/s");
            });
            most(out, figures.rate_max, None);
        });
        cell(out, large, |out| {
            let Some(took) = figures.time else { return };
            time(out, took.p50);
            small(out, |out| {
                out.push_str("p99 ");
                time(out, took.p99);
            });
        });
        cell(out, large, |out| count(out, figures.total));
        cell(out, large, |out| bytes(out, figures.bytes_in));
        cell(out, large, |out| bytes(out, figures.bytes_out));
        for n in [figures.denied, figures.errors, figures.retries] {
            cell(out, large, |out| count(out, n));
        }
    }

    fn foot(&self, out: &mut String) {
        out.push_str("</main>\n<script>");
        out.push_str(SCRIPT);
        out.push_str("</script>\n</body>\n</html>\n");
    }
}

/// The beginning of a document.
pub(super) fn begin(out: &mut String, context: &Context, title: &str) {
    out.push_str(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>",
    );
    if !title.is_empty() {
        escaped(out, title);
        out.push_str(" \u{b7} ");
    }
    match &context.node {
        Some(node) => {
            out.push_str("Statistics of ");
            escaped(out, node);
        }
        None => {
            out.push_str("Statistics of pid ");
            out.push_str(&context.process("Pid"));
        }
    }
    out.push_str("</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>");
    out.push_str(STYLE);
    out.push_str("</style>\n</head>\n");
}

fn escaped_lines(out: &mut String, text: &str) {
    for line in text.lines() {
        escaped(out, line);
        out.push('\n');
    }
}

fn cell(out: &mut String, large: bool, write: impl FnOnce(&mut String)) {
    out.push_str(if large { "<td role=\"cell\">" } else { "<td>" });
    write(out);
    out.push_str("</td>");
}

fn small(out: &mut String, write: impl FnOnce(&mut String)) {
    out.push_str("<small>");
    write(out);
    out.push_str("</small>");
}

/// A number, if there is one.
fn put(out: &mut String, n: Option<u64>, write: impl FnOnce(&mut String, u64)) {
    if let Some(n) = n {
        write(out, n);
    }
}

/// The most there were, if there were any, and the most there may be.
fn most(out: &mut String, most: u64, limit: Option<u64>) {
    if most == 0 && limit.is_none() {
        return;
    }
    small(out, |out| {
        if most > 0 {
            out.push_str("max ");
            count(out, most);
        }
        if let Some(limit) = limit {
            out.push_str(" of ");
            count(out, limit);
        }
    });
}
