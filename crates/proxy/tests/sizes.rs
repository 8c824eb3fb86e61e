//! Files and functions stay small enough to be read at once: what grows is split, or says why it is long.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Most lines of a file.
const FILE_MAX: usize = 800;

/// Most lines of a function, unless the comment above it says why it is longer, in a sentence that begins with [`WHY`].
const FUNCTION_MAX: usize = 80;

/// How that sentence begins.
const WHY: &str = "In one piece";

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a readable directory").map(|e| e.expect("an entry").path()) {
        match entry.is_dir() {
            true => files(&entry, found),
            false if entry.extension().is_some_and(|e| e == "rs") => found.push(entry),
            false => {}
        }
    }
}

/// The name of the function that begins on a line, if one does.
fn function(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| {
        word.starts_with("pub") || matches!(*word, "async" | "const" | "unsafe" | "extern" | "\"C\"")
    });
    (words.next() == Some("fn")).then(|| words.next().unwrap_or_default())
}

/// Functions of more than `most` lines: where they begin, and how many lines they have. The code is formatted, so a function ends
/// with the first brace that is indented as it is.
fn long_functions(text: &str, most: usize) -> Vec<(usize, usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut long = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let end = format!("{}}}", " ".repeat(indent));
        let len = match line.ends_with('}') || line.ends_with(';') {
            true => 1,
            false => lines[at..]
                .iter()
                .position(|l| *l == end || *l == format!("{};", &end[..indent]))
                .map_or(0, |n| n + 1),
        };
        let says_why = lines[..at]
            .iter()
            .rev()
            .take_while(|l| l.trim_start().starts_with("//") || l.trim_start().starts_with("#["))
            .any(|l| l.contains(WHY));
        if len > most && !says_why {
            long.push((at + 1, len, name.to_string()));
        }
    }
    long
}

#[test]
fn files_and_functions_are_of_a_size_to_be_read() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = own.parent().expect("the folder of all crates");
    let mut sources = Vec::new();
    files(crates, &mut sources);
    assert!(sources.len() > 400, "the sources were found");
    let mut complaints = Vec::new();
    for path in sources {
        let text = fs::read_to_string(&path).expect("a readable file");
        let shown = path.display();
        let lines = text.lines().count();
        if lines > FILE_MAX {
            complaints.push(format!("{shown}: {lines} lines, and {FILE_MAX} are the most"));
        }
        // Tests are tables, and told from beginning to end.
        let is_test = |part: &OsStr| ["tests", "tests.rs", "examples"].iter().any(|name| part == *name);
        if path.iter().any(is_test) {
            continue;
        }
        for (line, len, name) in long_functions(&text, FUNCTION_MAX) {
            complaints
                .push(format!("{shown}:{line}: {name} has {len} lines, and {FUNCTION_MAX} are the most"));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn what_is_too_long_is_found() {
    let body = "    let x = 1;\n".repeat(FUNCTION_MAX);
    let long = format!("pub async fn f(\n    x: u8,\n) {{\n{body}}}\n");
    assert_eq!(long_functions(&long, FUNCTION_MAX).len(), 1);
    assert_eq!(
        long_functions(&format!("/// {WHY}, as it is a table.\n#[inline]\n{long}"), FUNCTION_MAX).len(),
        0
    );
    assert_eq!(long_functions("fn f() {\n    let x = 1;\n}\n", FUNCTION_MAX).len(), 0);
}
