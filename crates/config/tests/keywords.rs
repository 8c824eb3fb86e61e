//! Every keyword of the language has its answer: it works, it is refused as not supported yet, or as removed. None is
//! unknown, and each one that works is used by some example that loads.

mod common;

use common::{load_text, rendered};
use thalweg_config::{Support, all_keywords};

/// A file with one keyword in its place, without arguments.
fn alone(place: &str, name: &str) -> String {
    match place {
        "section" => format!("{name} x\n"),
        "global" => format!("global\n {name}\n"),
        "proxy" => format!("listen x\n {name}\n"),
        "option" => format!("listen x\n option {name}\n"),
        "bind" => format!("listen x\n bind 127.0.0.1:80 {name}\n"),
        // Servers have a name in another place.
        "server" if name == "name" => "listen x\n default-server name\n".into(),
        "server" => format!("listen x\n server s 127.0.0.1:80 {name}\n"),
        rules => format!("listen x\n mode http\n {rules} {name}\n"),
    }
}

#[test]
fn no_keyword_of_the_language_is_unknown() {
    for line in include_str!("data/keywords.txt").lines() {
        let (place, name) = line.split_once('\t').expect("place, tab, name");
        let said = rendered(&load_text(&alone(place, name)));
        for wrong in ["unknown keyword", "unknown option", "out of section", "but got", "(got '"] {
            // Some keywords complain about a missing argument in words that look like it.
            let complaint =
                said.lines().find(|l| l.contains(wrong) && l.contains(&format!("{wrong} '{name}")));
            assert_eq!(complaint, None, "{place} {name}");
        }
        let family = ["section", "global", "proxy", "option", "bind", "server"].contains(&place);
        assert!(
            !family || all_keywords().iter().any(|e| e.place == place && e.name == name),
            "{place} {name} is in no table"
        );
    }
}

#[test]
fn each_keyword_gets_the_answer_of_its_kind() {
    for entry in all_keywords() {
        let loaded = load_text(&alone(entry.place, entry.name));
        let said = rendered(&loaded);
        match entry.support {
            Support::Works => assert!(!said.contains("unknown keyword"), "{}: {said}", entry.name),
            Support::NotYet(why) => {
                assert!(loaded.config.is_none(), "{} is not refused", entry.name);
                assert!(said.contains(&format!("is not supported yet: {why}")), "{}: {said}", entry.name);
                assert!(said.contains(entry.name), "{}: {said}", entry.name);
            }
            Support::Removed(sentence) => {
                assert!(loaded.config.is_none(), "{} is not refused", entry.name);
                let first = sentence.lines().next().unwrap_or("");
                assert!(said.contains(first), "{}: {said}", entry.name);
            }
        }
        assert!(!entry.doc.is_empty(), "{} has no description", entry.name);
    }
}

#[test]
fn each_keyword_that_works_has_an_example_that_loads() {
    let examples: Vec<(&str, &str)> = include_str!("data/examples.txt")
        .lines()
        .filter(|l| !l.is_empty())
        .map(|l| l.split_once('\t').expect("tab"))
        .collect();
    for (place, text) in &examples {
        let text = text.replace("\\n", "\n");
        let file = match *place {
            "section" => format!("{text}\n"),
            "global" => format!("global\n {text}\n"),
            "proxy" => format!(
                "listen x\n mode http\n bind 127.0.0.1:80\n server s 127.0.0.1:81\n {text}\nbackend other\n mode http\n"
            ),
            "option" => format!("listen x\n mode http\n option {text}\n"),
            "bind" => format!("listen x\n bind 127.0.0.1:80 {text}\n"),
            _ => format!("listen x\n server s 127.0.0.1:80 {text}\n"),
        };
        let loaded = load_text(&file);
        assert!(loaded.config.is_some(), "{place} {text}: {}", rendered(&loaded));
    }
    for entry in all_keywords().iter().filter(|e| e.support == Support::Works) {
        let used = |place: &str, text: &str| {
            place == entry.place
                && text
                    .replace("\\n", " ")
                    .split_whitespace()
                    .any(|w| w == entry.name || w.split('(').next() == Some(entry.name))
        };
        let refused = ["ktls", "master-worker", "monitor-net", "name", "namespace", "process", "usesrc"]
            .contains(&entry.name);
        assert!(
            refused || examples.iter().any(|(p, t)| used(p, t)),
            "{} {} has no example",
            entry.place,
            entry.name
        );
    }
}

#[test]
fn near_misses_are_suggested_and_nothing_else() {
    let check = |file: &str, expected: &str| {
        let said = rendered(&load_text(file));
        assert!(said.contains(expected), "{said}");
    };
    check(
        "global\n maxcnn 5\n",
        "unknown keyword 'maxcnn' in 'global' section; did you mean 'maxconn' maybe ?",
    );
    check("frontend f\n default_backnd x\n", "did you mean 'default_backend' maybe ?");
    check("listen f\n option httplgo\n", "unknown option 'httplgo'; did you mean 'httplog' maybe ?");
    check(
        "listen f\n server s 127.0.0.1:80 wieght 5\n",
        "unknown keyword 'wieght'; did you mean 'weight' maybe ?",
    );
    let said = rendered(&load_text("global\n frobnicate\n"));
    assert!(!said.contains("did you mean"), "{said}");
}

/// What only looks at the layout of a file knows the same sections.
#[test]
fn the_layout_knows_every_section() {
    let sections: Vec<&str> = all_keywords()
        .iter()
        .filter(|keyword| keyword.place == "section")
        .map(|keyword| keyword.name)
        .collect();
    assert_eq!(sections, thalweg_syntax::layout::SECTIONS);
}
