//! The keywords, as data: for `-dK`, for tools, for tests.

use crate::keyword::{Keyword, Status};
use crate::table::{BIND, GLOBAL, OPTION, PROXY, SECTIONS, SERVER};

/// A keyword that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The section it belongs to; empty for what begins a section.
    pub section: &'static str,
    /// What comes before it on its line: `bind <addr>`, `option`, `server <name> <addr>`, or nothing.
    pub prefix: &'static str,
    /// Its words.
    pub name: &'static str,
    /// What it does, in one line.
    pub doc: &'static str,
}

/// Every keyword that works, section by section, in the order of the tables.
pub fn catalog() -> Vec<Entry> {
    let mut entries = Vec::new();
    add(&mut entries, SECTIONS, "", "");
    add(&mut entries, GLOBAL, "global", "");
    add(&mut entries, PROXY, "listen", "");
    add(&mut entries, OPTION, "listen", "option");
    add(&mut entries, BIND, "listen", "bind <addr>");
    add(&mut entries, SERVER, "listen", "server <name> <addr>");
    entries
}

fn add<F>(
    entries: &mut Vec<Entry>,
    table: &'static [Keyword<F>],
    section: &'static str,
    prefix: &'static str,
) {
    let works = table.iter().filter(|keyword| matches!(keyword.status, Status::Works(_)));
    entries.extend(works.map(|k| Entry { section, prefix, name: k.name, doc: k.doc }));
}

/// Name and family of every filter that works.
pub fn filters() -> impl Iterator<Item = (&'static str, &'static str)> {
    crate::proxy::FILTERS.iter().filter(|(_, _, why)| why.is_none()).map(|(name, family, _)| (*name, *family))
}

/// Whether a keyword works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It does.
    Works,
    /// It is known and refused, for this reason.
    NotYet(&'static str),
    /// The reference removed it; the sentence that says so.
    Removed(&'static str),
}

/// One keyword of the language, whether it works or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Where it belongs: `section`, `global`, `proxy`, `option`, `bind` or `server`.
    pub place: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub doc: &'static str,
    /// Whether it works.
    pub support: Support,
}

/// All keywords of the language, table by table.
pub fn all_keywords() -> Vec<Known> {
    let mut all = Vec::new();
    know(&mut all, "section", SECTIONS);
    know(&mut all, "global", GLOBAL);
    know(&mut all, "proxy", PROXY);
    know(&mut all, "option", OPTION);
    know(&mut all, "bind", BIND);
    know(&mut all, "server", SERVER);
    all
}

fn know<F>(all: &mut Vec<Known>, place: &'static str, table: &[Keyword<F>]) {
    all.extend(table.iter().map(|k| Known {
        place,
        name: k.name,
        doc: k.doc,
        support: match k.status {
            Status::Works(_) => Support::Works,
            Status::NotYet(why) => Support::NotYet(why),
            Status::Removed(sentence) => Support::Removed(sentence),
        },
    }));
}

/// One way to write a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Where the keyword belongs, and its name, as [`Known`] has them.
    pub place: &'static str,
    pub name: &'static str,
    /// What follows it; empty for nothing.
    pub values: &'static str,
    /// What holds without it; empty where there is nothing to say.
    pub default: &'static str,
    /// Whether HAProxy has no such keyword.
    pub is_ours: bool,
}

/// How keywords that work are written, in the order of their tables; those that begin a section are not among them.
pub fn forms() -> impl Iterator<Item = Form> {
    rows(include_str!("table/values.txt")).map(|(form, _)| form)
}

/// A keyword inside of a section that is no proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Its place is the section; its name is one word, or two where the second one says which of several it is (`hold nx`).
    pub form: Form,
    /// What it does, in one line.
    pub doc: &'static str,
}

/// Keywords inside of sections that are no proxies, section by section.
pub fn inside_sections() -> impl Iterator<Item = Inside> {
    rows(include_str!("table/inside.txt")).map(|(form, doc)| Inside { form, doc })
}

/// Forms of a table, and what stands behind each.
fn rows(table: &'static str) -> impl Iterator<Item = (Form, &'static str)> {
    table.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut cells = line.split('\t');
        let mut next = || cells.next().unwrap_or_default();
        let (place, name, values, default) = (next(), next(), next(), next());
        (Form { place, name, values, default, is_ours: next() == "ours" }, next())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Who adds a keyword says how it is written, and nothing is said of what is not there.
    #[test]
    fn every_keyword_that_works_says_what_it_takes() {
        let keywords = all_keywords().into_iter();
        let works = keywords.filter(|known| known.support == Support::Works && known.place != "section");
        let works: Vec<_> = works.map(|known| (known.place, known.name)).collect();
        let said: Vec<_> = forms().map(|form| (form.place, form.name)).collect();
        for keyword in &works {
            assert!(said.contains(keyword), "{keyword:?} has no line in table/values.txt");
        }
        for keyword in &said {
            assert!(works.contains(keyword), "{keyword:?} of table/values.txt is no keyword that works");
        }
    }

    #[test]
    fn only_what_works_is_listed() {
        let entries = catalog();
        let has = |section: &str, prefix: &str, name: &str| {
            entries.iter().any(|e| e.section == section && e.prefix == prefix && e.name == name)
        };
        assert!(
            has("", "", "frontend")
                && has("global", "", "maxconn")
                && has("listen", "bind <addr>", "accept-proxy")
        );
        assert!(!has("listen", "bind <addr>", "ech"));
        assert!(entries.iter().all(|e| !e.doc.is_empty()));
    }

    /// The parsers of sections have these keywords, and no others.
    #[test]
    fn keywords_inside_of_sections_are_those_of_their_parsers() {
        let parsers = [
            ("resolvers", include_str!("resolvers.rs")),
            ("ring", include_str!("ring.rs")),
            ("peers", include_str!("peers.rs")),
            ("mailers", include_str!("mailers.rs")),
            ("namespace_list", include_str!("namespaces.rs")),
            ("userlist", include_str!("userlist.rs")),
            ("log-forward", include_str!("log_forward.rs")),
            ("log-profile", include_str!("log_profile.rs")),
            ("crt-store", include_str!("tls/store.rs")),
            ("healthcheck", include_str!("check/section.rs")),
            ("opentelemetry", include_str!("opentelemetry.rs")),
            ("traces", include_str!("traces.rs")),
        ];
        for (section, source) in parsers {
            let body = source
                .split("fn line(")
                .nth(1)
                .and_then(|rest| rest.split("\n}\n").next())
                .unwrap_or_default();
            let parsed: BTreeSet<&str> = body.lines().filter_map(arm).flatten().collect();
            let mut listed: BTreeSet<&str> = inside_sections()
                .filter(|inside| inside.form.place == section)
                .map(|inside| inside.form.name.split(' ').next().unwrap_or_default())
                .collect();
            // It says that it was removed.
            listed.extend(parsed.get("resolution_pool_size"));
            assert_eq!(parsed, listed, "{section}");
        }
        assert_eq!(inside_sections().filter(|inside| inside.form.place == "http-errors").count(), 1);
        let is_section = |name: &str| SECTIONS.iter().any(|section| section.name == name);
        assert!(inside_sections().all(|inside| is_section(inside.form.place) && inside.doc.ends_with('.')));
    }

    /// The words of an arm on the first word of a line, which is indented by two steps.
    fn arm(line: &'static str) -> Option<Vec<&'static str>> {
        let arm = line.strip_prefix("        ").filter(|rest| rest.starts_with('"'))?.split(" =>").next()?;
        let arm = arm.split(" if ").next()?;
        Some(arm.split(" | ").map(|word| word.trim_matches('"')).collect())
    }
}
