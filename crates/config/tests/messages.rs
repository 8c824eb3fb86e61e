//! What is accepted, what is refused, and in which words: each line of `data/*.cases` is loaded in its section and
//! the outcome is compared with `data/*.expected`. The first lines of the messages are those of the reference; run
//! with `UPDATE_EXPECTED=1` to write the files again after a wanted change.

mod common;

use common::{load_text, rendered};

fn outcomes(cases: &str) -> String {
    let mut out = String::new();
    let (mut head, mut tail) = (String::new(), String::new());
    for line in cases.lines() {
        let unescaped = line.replace("\\n", "\n");
        if let Some(text) = unescaped.strip_prefix("@head ") {
            (head, tail) = (format!("{text}\n"), String::new());
            continue;
        }
        if let Some(text) = unescaped.strip_prefix("@tail ") {
            tail = format!("{text}\n");
            continue;
        }
        if line.is_empty() || line.starts_with("##") {
            continue;
        }
        let loaded = load_text(&format!("{head} {unescaped}\n{tail}"));
        let verdict = if loaded.config.is_some() { "accepted" } else { "refused" };
        out.push_str(&format!("{line}\n  {verdict}\n"));
        for message in rendered(&loaded).lines().filter(|l| !l.contains("Error(s) found")) {
            out.push_str(&format!("  {}\n", message.replace("(1) : ", "")));
        }
    }
    out
}

fn check(name: &str, cases: &str, expected: &str) {
    let found = outcomes(cases);
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        let path = format!("{}/tests/data/{name}.expected", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(path, &found).expect("the file can be written");
        return;
    }
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected, "in {name}");
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "in {name}");
}

macro_rules! golden {
    ($($test:ident),*) => {$(
        #[test]
        fn $test() {
            check(
                stringify!($test),
                include_str!(concat!("data/", stringify!($test), ".cases")),
                include_str!(concat!("data/", stringify!($test), ".expected")),
            );
        }
    )*};
}

golden!(global, frontend, backend, tcp, sections, rules);
