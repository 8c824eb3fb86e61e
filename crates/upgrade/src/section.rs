//! Sections: where they begin, and their first lines.

use thalweg_syntax::layout::{self, WrittenLine};

use crate::quote::rest;
use crate::{Decision, Kind, Work};

/// One section of a file.
pub struct Section {
    /// Its place among the sections.
    pub number: usize,
    /// The word that begins it; empty before the first section.
    pub kind: String,
    /// Its name, if it has one.
    pub name: String,
    /// Its first line, as an index; and the first that is not its own.
    pub first: usize,
    pub last: usize,
    /// The first line begins a section.
    pub has_header: bool,
    /// Blanks before the lines in it.
    pub indent: String,
    /// `mode tcp`, or none where the section it takes its presets from says so.
    pub is_tcp: bool,
}

/// Cuts a file into its sections.
pub fn sections(lines: &[WrittenLine<'_>]) -> Vec<Section> {
    let begins = |line: &WrittenLine<'_>| layout::begins_section(line) || line.word(0) == "ruleset";
    let mut starts: Vec<usize> = (0..lines.len()).filter(|index| begins(&lines[*index])).collect();
    if starts.first() != Some(&0) && !lines.is_empty() {
        starts.insert(0, 0);
    }
    // What `defaults` say holds for the proxies that follow. Without any, the mode is TCP.
    let mut default_is_tcp = true;
    let mut all = Vec::new();
    for (number, first) in starts.iter().copied().enumerate() {
        let last = starts.get(number + 1).copied().unwrap_or(lines.len());
        let has_header = begins(&lines[first]);
        let body = &lines[(first + usize::from(has_header)).min(last)..last];
        let kind = if has_header { lines[first].word(0).into_owned() } else { String::new() };
        let mode = body.iter().rfind(|line| line.word(0) == "mode").map(|line| line.word(1) == "tcp");
        let is_tcp = mode.unwrap_or(if kind == "defaults" { true } else { default_is_tcp });
        if kind == "defaults" {
            default_is_tcp = is_tcp;
        }
        let indent = body.iter().find(|line| !line.words.is_empty()).map_or("", WrittenLine::indent);
        all.push(Section {
            number,
            name: if has_header { lines[first].word(1).into_owned() } else { String::new() },
            kind,
            first,
            last,
            has_header,
            indent: if indent.is_empty() { "    ".to_owned() } else { indent.to_owned() },
            is_tcp,
        });
    }
    all
}

/// The first line of a section.
pub fn header(work: &mut Work, lines: &[WrittenLine<'_>], section: &Section) -> Decision {
    let line = &lines[section.first];
    match section.kind.as_str() {
        "program" => Decision::leave(
            "'program' sections were removed in 3.3: start the program from the service manager instead",
        ),
        "ruleset" => Decision::leave("'ruleset' sections were never supported; rules belong to proxies"),
        "frontend" | "backend" | "listen" => {
            let renamed = work.names.renamed(section.number);
            // From 2.4 on, `from` names the defaults; before, what followed was an address.
            let addressed = line.words.len() > 2 && line.word(2) != "from";
            let name = renamed.map_or_else(|| line.words.get(1).map_or("", |w| w.raw), |(name, _)| name);
            let mut new = vec![format!("{} {name}", section.kind)];
            let mut why = Vec::new();
            if let Some((name, cause)) = renamed {
                why.push(format!("{cause}; this one is called '{name}' now, in statistics and logs, too"));
            }
            if !addressed {
                if why.is_empty() {
                    return Decision::Keep;
                }
                new[0] = format!("{} {name} {}", section.kind, rest(line, 2)).trim_end().to_owned();
            } else if section.kind == "backend" {
                return Decision::leave("a backend has no address; use 'server' for where it sends to");
            } else {
                new.push(format!("bind {}", rest(line, 2)));
                why.push("addresses to listen on have lines of their own, 'bind'".into());
            }
            Decision::Become(new, Kind::Same, why.join(", and "))
        }
        _ => Decision::Keep,
    }
}
