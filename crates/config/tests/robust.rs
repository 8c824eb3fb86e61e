//! Whatever is written, reading it ends with a configuration or with messages.

#[path = "common/cases.rs"]
mod cases;
mod common;

use cases::CASES;
use common::{load_text, rendered};

/// What is put after a word.
const CHANGES: [&str; 8] = ["\u{e9}", "5\u{1f600}", "(", "99999999999999999999", "-", "%[", ":", "a,b,,c"];

/// Loads each line with each of its words changed in one of the ways, another one for each word and line.
#[test]
fn changed_words_are_answered() {
    for cases in CASES {
        let mut head = String::new();
        for (number, line) in cases.lines().enumerate() {
            let line = line.replace("\\n", "\n");
            if let Some(text) = line.strip_prefix("@head ") {
                head = format!("{text}\n");
                continue;
            }
            let words: Vec<&str> = line.split(' ').collect();
            for index in 0..words.len() {
                let mut changed = words.clone();
                let joined = format!("{}{}", changed[index], CHANGES[(number + index) % CHANGES.len()]);
                changed[index] = &joined;
                let loaded = load_text(&format!("{head} {}\n", changed.join(" ")));
                assert!(loaded.config.is_some() || !rendered(&loaded).is_empty(), "{line}");
            }
        }
    }
}
