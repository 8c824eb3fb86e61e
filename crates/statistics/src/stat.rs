//! `show stat`: the counters of proxies, listeners and servers (management manual, section 9.1).
//!
//! [`crate::rows`] holds how each row is filled, [`crate::columns`] the columns, [`crate::format`] how values are written.

use thalweg_config::model::Proxy;

use crate::columns::{self, COLUMNS, EXTRA, WIDTH};
use crate::format::{self, Value};

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
    pub values: Box<[Option<Value>; WIDTH]>,
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
    let (fixed, of_modules) = row.values.split_at(COLUMNS.len());
    csv_cells(out, fixed);
    out.push_str("-,");
    csv_cells(out, of_modules);
    out.push('\n');
}

/// Cells of a row, each with its comma. Most are empty or zero.
fn csv_cells(out: &mut String, cells: &[Option<Value>]) {
    for value in cells {
        match value {
            None => out.push(','),
            Some(Value::U32(0) | Value::U64(0)) => out.push_str("0,"),
            Some(value) => {
                format::csv(out, value);
                out.push(',');
            }
        }
    }
}

/// The name and tags of the column at a position.
fn column(position: usize, kind: RowKind) -> (&'static str, &'static str, &'static str) {
    let column = COLUMNS.get(position).or_else(|| EXTRA.get(position - COLUMNS.len()));
    column.map_or(("", "", ""), |column| (column.name, columns::tags(column, kind), column.text))
}

/// The values of a row that there are: name, value and what it is.
pub fn described(row: &Row) -> impl Iterator<Item = (&'static str, String, &'static str)> {
    row.values.iter().enumerate().filter_map(|(position, value)| {
        let (name, _, text) = column(position, row.kind);
        Some((name, value.as_ref()?.to_string(), text))
    })
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

/// Whether a proxy speaks HTTP, so that its counters of responses mean something.
pub(crate) fn is_http(proxy: &Proxy) -> bool {
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
        assert_eq!((names[119], names[120], names.last()), ("-", "h2_headers_rcvd", Some(&"")));
        assert_eq!((names[89], names[101], names[105]), ("src_ilim", "agg_server_check_status", "h1sess"));
    }

    #[test]
    fn rows_have_every_column() {
        let row = Row {
            kind: RowKind::Server,
            iid: 3,
            sid: 1,
            values: {
                let mut values = Box::new([const { None }; WIDTH]);
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
