//! Names that old versions let several proxies or servers have, and that are one's own today.

use std::collections::{HashMap, HashSet};

use thalweg_syntax::layout::WrittenLine;

use crate::section::Section;

/// New names.
pub struct Names {
    /// By the number of the section: its new name, and why.
    sections: HashMap<usize, (String, String)>,
    /// Frontends whose name a backend has, too: the name that both had, and the new one.
    frontends: HashMap<String, String>,
    /// Frontends among these that have a stick table.
    tables: HashSet<String>,
    /// Servers by line: the new name, and the line that has the old one.
    servers: HashMap<u32, (String, u32)>,
}

const PROXIES: [&str; 3] = ["frontend", "backend", "listen"];

impl Names {
    /// Looks for names that occur twice.
    pub fn new(lines: &[WrittenLine<'_>], sections: &[Section]) -> Names {
        let mut names = Names {
            sections: HashMap::new(),
            frontends: HashMap::new(),
            tables: HashSet::new(),
            servers: HashMap::new(),
        };
        let proxies: Vec<&Section> =
            sections.iter().filter(|s| PROXIES.contains(&s.kind.as_str()) && !s.name.is_empty()).collect();
        let mut taken = Taken::new(proxies.iter().map(|s| s.name.clone()));
        let mut seen: HashMap<&str, &Section> = HashMap::new();
        for section in &proxies {
            let Some(first) = seen.get(section.name.as_str()).copied() else {
                seen.insert(&section.name, section);
                continue;
            };
            // Rules refer to backends much more than to frontends.
            let (moving, staying) = match (first.kind.as_str(), section.kind.as_str()) {
                ("frontend", "backend") => (first, *section),
                _ => (*section, first),
            };
            let between = moving.kind != staying.kind && moving.kind == "frontend";
            let suffix = if between { "-front" } else { "-2" };
            let new = taken.free(&section.name, suffix);
            let cause = format!(
                "'{}' is also the name of the {} at line {}",
                section.name, staying.kind, lines[staying.first].number
            );
            if between {
                names.frontends.insert(section.name.clone(), new.clone());
                if lines[moving.first..moving.last].iter().any(|line| line.word(0) == "stick-table") {
                    names.tables.insert(section.name.clone());
                }
            }
            names.sections.insert(moving.number, (new, cause));
            seen.insert(&section.name, staying);
        }
        for section in sections.iter().filter(|s| matches!(s.kind.as_str(), "backend" | "listen")) {
            names.servers_of(&lines[section.first..section.last]);
        }
        names
    }

    fn servers_of(&mut self, lines: &[WrittenLine<'_>]) {
        let servers = || lines.iter().filter(|line| line.word(0) == "server" && line.words.len() > 1);
        let mut taken = Taken::new(servers().map(|line| line.word(1).into_owned()));
        let mut seen: HashMap<String, u32> = HashMap::new();
        for line in servers() {
            let name = line.word(1).into_owned();
            match seen.get(&name) {
                None => {
                    seen.insert(name, line.number);
                }
                Some(first) => {
                    let new = taken.free(&name, "-2");
                    self.servers.insert(line.number, (new, *first));
                }
            }
        }
    }

    /// The new name of a section, and why it has one.
    pub fn renamed(&self, section: usize) -> Option<(&str, &str)> {
        self.sections.get(&section).map(|(name, why)| (name.as_str(), why.as_str()))
    }

    /// The new name of the server on a line, and the line that has the old one.
    pub fn server(&self, line: u32) -> Option<(&str, u32)> {
        self.servers.get(&line).map(|(name, first)| (name.as_str(), *first))
    }

    /// A word that refers to a frontend by its old name, with the new one.
    pub fn in_word(&self, word: &str) -> Option<String> {
        let open = word.find('(')?;
        let fetch = &word[..open].trim_start_matches(['!', '{']);
        let of_frontends = fetch.starts_with("fe_");
        let of_tables = ["src_", "sc_", "sc0_", "sc1_", "sc2_", "table_", "in_table"];
        let close = open + word[open..].find([')', ','])?;
        let name = &word[open + 1..close];
        let new = self.frontends.get(name)?;
        let wanted = of_frontends
            || (self.tables.contains(name) && of_tables.iter().any(|prefix| fetch.starts_with(prefix)));
        wanted.then(|| format!("{}({new}{}", &word[..open], &word[close..]))
    }

    /// The new name of a frontend's stick table.
    pub fn table(&self, name: &str) -> Option<&str> {
        self.frontends.get(name).filter(|_| self.tables.contains(name)).map(String::as_str)
    }

    /// The new name of a frontend.
    pub fn frontend(&self, name: &str) -> Option<&str> {
        self.frontends.get(name).map(String::as_str)
    }
}

/// Names that are in use.
struct Taken {
    names: HashSet<String>,
    /// By name, the number behind it that was tried last.
    tried: HashMap<String, u32>,
}

impl Taken {
    fn new(names: impl Iterator<Item = String>) -> Taken {
        Taken { names: names.collect(), tried: HashMap::new() }
    }

    /// A name like this one that nobody has so far.
    fn free(&mut self, name: &str, suffix: &str) -> String {
        let mut new = format!("{name}{suffix}");
        if self.names.contains(&new) {
            let tried = self.tried.entry(name.to_owned()).or_insert(2);
            while self.names.contains(&new) {
                *tried += 1;
                new = format!("{name}-{tried}");
            }
        }
        self.names.insert(new.clone());
        new
    }
}
