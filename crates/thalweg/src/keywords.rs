//! `-dK`: the keywords that work, class by class, one per line (management manual, chapter 3).

use thalweg_config::catalog;
use thalweg_sample::{converter, fetch};

/// The classes there are.
const CLASSES: [(&str, &str); 4] = [
    ("all", "list all keywords"),
    ("cfg", "configuration keywords"),
    ("cnv", "sample converter keywords"),
    ("smp", "sample fetch functions"),
];

/// The keywords of some classes. Classes HAProxy has and this program has nothing in are empty.
pub fn list(classes: &[String]) -> String {
    let wants = |class: &str| classes.iter().any(|wanted| wanted == class || wanted == "all");
    let mut text = String::new();
    if classes.iter().any(|class| class == "help") {
        text.push_str("# List of supported keyword classes:\n");
        for (name, meaning) in CLASSES {
            text.push_str(&format!("{name}: {meaning}\n"));
        }
    }
    if wants("cfg") {
        text.push_str("# List of registered configuration keywords:\n");
        let entries = catalog();
        for section in entries.iter().filter(|entry| entry.section.is_empty()) {
            text.push_str(&format!("{}\n", section.name));
            // The keywords of all kinds of proxies are listed once, under the kind that has all of them.
            for entry in entries.iter().filter(|entry| entry.section == section.name) {
                let space = if entry.prefix.is_empty() { "" } else { " " };
                text.push_str(&format!("\t{}{space}{}\n", entry.prefix, entry.name));
            }
        }
    }
    if wants("cnv") {
        text.push_str("# List of registered sample converter functions:\n");
        let line =
            |c: &converter::ConverterDef| format!("{}: {} => {}\n", c.name, c.input.name(), c.output.name());
        text.extend(sorted(converter::all().map(line)));
    }
    if wants("smp") {
        text.push_str("# List of registered sample fetch functions:\n");
        let line = |f: &fetch::FetchDef| format!("{}: {}\n", f.name, f.output.name());
        text.extend(sorted(fetch::all().map(line)));
    }
    text
}

fn sorted(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.collect();
    lines.sort_unstable();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(class: &str) -> String {
        list(&[class.to_string()])
    }

    #[test]
    fn classes_have_their_keywords() {
        assert!(listed("help").contains("\ncfg: configuration keywords\n"));
        let keywords = listed("cfg");
        assert!(keywords.contains("\nglobal\n\t") && keywords.contains("\n\tbind <addr> accept-proxy\n"));
        assert!(listed("cnv").contains("\nlower: str => str\n") && listed("smp").contains("\nsrc: "));
        assert_eq!(listed("svc"), "");
        let all = listed("all");
        assert!(["cfg", "cnv", "smp"].into_iter().all(|class| all.contains(listed(class).as_str())));
    }
}
