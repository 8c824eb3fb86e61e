//! `thalweg upgrade`: a file in the language of HAProxy 1.4 to 2.9, in today's.

use std::process::ExitCode;

use thalweg_syntax::SourceMap;
use thalweg_upgrade::{Kind, MARK, upgrade};

use super::{Call, Tool, print, read_text, unknown};
use crate::report::error_output;

pub const TOOL: Tool = Tool {
    name: "upgrade",
    arguments: "-f <file>",
    text: "print a file written for HAProxy 1.4 to 2.9 in today's language",
    help: "\
Comments, blanks and every line that needs no change stay as they are. Each change is explained on the standard error,
with its line:

    changed   the new lines do what the old one did
    differs   nearly so; the text says where
    left      it cannot be translated: it stays, below a comment that says why

Leaves with 1 if a line was left, with 2 if the file cannot be read. '-f -' reads the standard input.
",
    run,
};

fn run(call: &Call<'_>) -> Result<ExitCode, String> {
    let mut file = None;
    let mut words = call.words();
    while let Some(word) = words.next() {
        match word {
            "-f" if file.is_none() => file = Some(words.value("-f", "a file")?),
            "-f" => return Err("one file at a time: what it prints is one file".into()),
            other => return unknown(other),
        }
    }
    let file = file.ok_or("no file was given")?;
    let upgraded = upgrade(&read_text(file)?);
    for change in &upgraded.changes {
        let what = match change.kind {
            Kind::Same => "changed",
            Kind::Near => "differs",
            Kind::Left => "left",
        };
        error_output(format!("{file}:{}: {what}: {}.\n", change.line, change.text).as_bytes());
    }
    print(&upgraded.text)?;
    let left = upgraded.changes.iter().filter(|change| change.kind == Kind::Left).count();
    if left > 0 {
        let mark = MARK.trim_end();
        error_output(
            format!("{left} lines are left to you; each has a comment '{mark}' above it.\n").as_bytes(),
        );
    }
    Ok(if upgraded.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What to say about files that were refused and that `thalweg upgrade` would change.
pub fn hint(sources: &SourceMap) -> Option<String> {
    let old = sources.files().find_map(|file| {
        let upgraded = upgrade(sources.text(file));
        let lines = upgraded.changes.len();
        (lines > 0).then(|| (sources.name(file).to_owned(), lines, upgraded.is_complete()))
    });
    let (name, lines, complete) = old?;
    let which = if lines == 1 { "1 line is".to_owned() } else { format!("{lines} lines are") };
    let all = if complete { "" } else { ", as far as it can" };
    Some(format!(
        "{which} in the language of an older HAProxy : 'thalweg upgrade -f {name}' prints the file in today's{all}."
    ))
}
