//! `add|del|show ssl crt-list`.

use super::{Answer, Concern, FileKind, Keywords, Live, Source};
use crate::crt_list::{Line, parse_line};

impl Live {
    /// `add ssl crt-list <list> <line>`: the line as it would stand in the file. Its certificate must be loaded.
    pub fn add_to_list(&mut self, list: &str, text: &str) -> Answer {
        let failed = |why: String| Err(format!("Can't edit the crt-list: {why}"));
        let list = if self.lists.contains_key(list) { list } else { list.trim_end_matches('/') };
        let Some(lines) = self.lists.get(list) else {
            return failed(format!("crt-list '{list}' does not exist!"));
        };
        let number = lines.last().map_or(0, |line| line.number) + 1;
        let line = match parse_line("CLI", 1, text) {
            Ok(Some(mut line)) => {
                line.path = self.below(&line.path);
                line.parts.certificate = line.path.clone();
                Line { number, ..line }
            }
            Ok(None) => return failed("the line is empty!".to_owned()),
            Err(error) => return failed(error.to_string()),
        };
        let words = &line.words;
        let unknown_ca = [("ca-file", &words.ca_file), ("ca-verify-file", &words.ca_verify_file)]
            .into_iter()
            .find_map(|(word, file)| {
                file.as_deref().filter(|name| self.trust.get(name).is_none()).map(|f| (word, f))
            });
        let unknown_list = words.crl_file.as_deref().filter(|name| self.crls.get(name).is_none());
        if let Some((word, file)) = unknown_ca.or(unknown_list.map(|file| ("crl-file", file))) {
            return failed(format!("'{word}' : unable to load {file}"));
        }
        let path = line.path.clone();
        match self.certificates.get(&path) {
            None => return failed(format!("certificate '{path}' does not exist!")),
            Some(slot) if slot.credential.is_none() => {
                return failed(format!("certificate '{path}' is empty!"));
            }
            Some(_) => {}
        }
        let keywords = Keywords::of(&line.parts, line.ocsp_update, line.jwt);
        let slot = self.certificates.get(&path);
        // One that the CLI brought is what its first line says of it.
        let is_new = slot.is_some_and(|slot| slot.is_undeclared()) && self.instances(&path) == 0;
        if !is_new {
            self.may_declare(&path, &keywords).map_err(|why| format!(
                "Can't edit the crt-list: '{path}' in crt-list '{list}' line {number}, is already defined with \
                 incompatible parameters:\n{why}"
            ))?;
        }
        let mut lines = lines.clone();
        lines.push(line);
        let before = self.lists.insert(list.to_owned(), lines).unwrap_or_default();
        if let Err(why) = self.rebuild_with_list(list) {
            self.lists.insert(list.to_owned(), before);
            return Err(format!("Inserting certificate '{path}' in crt-list '{list}'\n{why}.\nFailed!"));
        }
        if is_new {
            self.declare(&path, keywords, false);
        }
        self.changes.replaced(FileKind::CrtList, list);
        let dots = ".".repeat(self.binds_with(list));
        Ok(format!("Inserting certificate '{path}' in crt-list '{list}'{dots}\nSuccess!"))
    }

    /// `del ssl crt-list <list> <certificate[:line]>`
    pub fn delete_from_list(&mut self, list: &str, entry: &str) -> Answer {
        let failed = |why: String| Err(format!("Can't delete the entry: {why}"));
        let list = if self.lists.contains_key(list) { list } else { list.trim_end_matches('/') };
        let Some(lines) = self.lists.get(list) else {
            return failed(format!("crt-list '{list}' does not exist!"));
        };
        let numbered =
            entry.rsplit_once(':').and_then(|(path, number)| Some((path, number.parse::<usize>().ok()?)));
        let (path, number) = numbered.map_or((entry, None), |(path, number)| (path, Some(number)));
        let path = self.below(path);
        let path = path.as_str();
        let of_path: Vec<usize> =
            lines.iter().filter(|line| line.path == path).map(|line| line.number).collect();
        let all = || of_path.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let chosen = match (of_path.as_slice(), number) {
            ([], _) => {
                return failed(format!("certificate '{path}' can't be found in crt-list '{list}'!"));
            }
            (numbers, Some(number)) if !numbers.contains(&number) => {
                return failed(format!(
                    "found a certificate '{path}' but the line number is incorrect, please specify a correct line number \
                     preceded by colons ({})!",
                    all()
                ));
            }
            (_, Some(number)) => number,
            ([only], None) => *only,
            (_, None) => {
                return failed(format!(
                    "found the certificate '{path}' in several entries, please specify a line number preceded by colons \
                     ({})!",
                    all()
                ));
            }
        };
        let defaults: String = self
            .binds
            .iter()
            .filter(|bind| {
                bind.shows_to_all(list) && lines.first().is_some_and(|first| first.number == chosen)
            })
            .map(|bind| format!("\t- {}\n", bind.name.split_once('/').map_or("", |(_, place)| place)))
            .collect();
        if !defaults.is_empty() {
            return failed(format!(
                "certificate '{path}' cannot be deleted, it is used as default certificate by the following frontends:\n{defaults}"
            ));
        }
        let kept: Vec<Line> = lines.iter().filter(|line| line.number != chosen).cloned().collect();
        let before = self.lists.insert(list.to_owned(), kept).unwrap_or_default();
        if let Err(why) = self.rebuild_with_list(list) {
            self.lists.insert(list.to_owned(), before);
            return failed(why);
        }
        self.changes.replaced(FileKind::CrtList, list);
        Ok(format!("Entry '{path}' deleted in crtlist '{list}'!"))
    }

    pub(super) fn rebuild_with_list(&mut self, list: &str) -> Result<(), String> {
        self.updates.changed();
        let names = |source: &Source| matches!(source, Source::List(name) if name == list);
        self.rebuild(
            |_, sources, _| if sources.iter().any(names) { Concern::Certificates } else { Concern::None },
            |_| false,
        )
    }

    fn binds_with(&self, list: &str) -> usize {
        let names = |source: &Source| matches!(source, Source::List(name) if name == list);
        self.binds.iter().filter(|bind| bind.sources.iter().any(names)).count()
    }

    /// `show ssl crt-list [-n] [<list>]`
    pub fn show_lists(&self, list: Option<&str>, with_numbers: bool) -> Answer {
        let Some(name) = list else {
            return Ok(self.lists.keys().map(|name| format!("{name}\n")).collect());
        };
        let name = if self.lists.contains_key(name) { name } else { name.trim_end_matches('/') };
        let lines = self.lists.get(name).ok_or("didn't find the specified filename")?;
        let mut out = format!("# {name}\n");
        for line in lines {
            out.push_str(&line.path);
            if with_numbers {
                out.push_str(&format!(":{}", line.number));
            }
            if !line.options.is_empty() {
                out.push_str(&format!(" [{} ]", line.options.join(" ")));
            }
            line.filters.iter().for_each(|filter| out.push_str(&format!(" {filter}")));
            out.push('\n');
        }
        Ok(out)
    }
}
