//! The tables that `-dKacl`, `-dKcnv` and `-dKsmp` print: what this program really has, in the reference's layout.

use crate::acl::KEYWORDS;
use crate::point::{POINTS, Point};
use crate::{converter, fetch};
use std::fmt::Write as _;

/// Every ACL keyword that stands for a fetch and a matching method.
pub fn acl_keywords() -> String {
    let mut lines: Vec<String> = KEYWORDS
        .iter()
        .filter(|k| fetch::find(k.fetch).is_some())
        .map(|k| format!("{} = {} -m {}", k.name, k.fetch, k.method.name()))
        .collect();
    lines.sort_unstable();
    format!("# List of registered ACL keywords:\n{}\n", lines.join("\n"))
}

/// Every converter with its arguments, output and input types.
pub fn converters() -> String {
    let mut defs: Vec<_> = converter::all().collect();
    defs.sort_unstable_by_key(|def| def.name);
    let mut out = String::from("# List of registered sample converter functions:\n");
    for def in defs {
        let _ = writeln!(
            out,
            "{}{}: {} => {}",
            def.name,
            def.args.signature(),
            def.output.name(),
            def.input.name()
        );
    }
    out
}

/// Every fetch with the places it works in, its arguments and its type, under a drawing that names the columns.
pub fn fetches() -> String {
    let mut out = String::from("# List of registered sample fetch functions:\n");
    let all = crate::Points::ALL;
    let names: Vec<&str> = (0..POINTS).filter_map(|i| all.nth(i)).map(Point::name).collect();
    for (i, name) in names.iter().enumerate() {
        // A ladder: each column's line starts one step further left and crosses those of the columns before it.
        let indent = names.len() - 1 - i;
        let crossed = "/ ".repeat(i);
        let dashes = "-".repeat(indent);
        let _ = writeln!(out, "#{}{crossed}_.{dashes}- {name}", " ".repeat(indent + 2));
    }
    let _ = writeln!(out, "# {} ", "/ ".repeat(names.len()));
    let _ = writeln!(out, "# {}", "| ".repeat(names.len()));
    let mut defs: Vec<_> = fetch::all().collect();
    defs.sort_unstable_by_key(|def| def.name);
    for def in defs {
        let _ = writeln!(
            out,
            "[ {}] {}{}: {}",
            def.points.columns(),
            def.name,
            def.args.signature(),
            def.output.name()
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_layout_of_the_reference() {
        let has = |table: &str, line: &str| assert!(table.lines().any(|l| l == line), "{line}");
        has(&acl_keywords(), "path_beg = path -m beg");
        has(&acl_keywords(), "req.ssl_ver = req.ssl_ver -m int");
        has(&converters(), "lower: str => str");
        has(&converters(), "ipmask(IPv4 mask[,IPv6 mask]): addr => addr");
        let table = fetches();
        has(&table, "[ . . Y Y Y Y Y Y Y Y Y . . . . . . . . . . . ] path: str");
        has(&table, "[ . . Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y . Y . . ] hdr([string,integer]): str");
        has(&table, "#                       _.---------------------- frontend tcp-request connection rule");
        has(&table, "#                      / _.--------------------- frontend tcp-request session rule");
        has(&table, "#  / / / / / / / / / / / / / / / / / / / / / _.- CLI parser");
        has(&table, "# / / / / / / / / / / / / / / / / / / / / / /  ");
        has(&table, "# | | | | | | | | | | | | | | | | | | | | | | ");
    }
}
