//! `thalweg fmt`: the canonical layout of configuration files.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use thalweg_format::format;
use thalweg_syntax::source::os_message;

use super::{Call, Tool, print, read_text, unknown};
use crate::report::error_output;

pub const TOOL: Tool = Tool {
    name: "fmt",
    arguments: "[-i | --check] [-f] <file>...",
    text: "print files in the canonical layout, or bring them into it",
    help: "\
Blanks change and nothing else: words keep their quotes, comments stay with the lines they are about.

    -i         change the files in place
    --check    change nothing; name the files that are not in this layout, and leave with 1 if there are any

'-' reads the standard input. Leaves with 2 if a file cannot be read or written.
",
    run,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Print,
    InPlace,
    Check,
}

fn run(call: &Call<'_>) -> Result<ExitCode, String> {
    let mut files = Vec::new();
    let mut mode = Mode::Print;
    let mut words = call.words();
    while let Some(word) = words.next() {
        match word {
            "-i" => mode = Mode::InPlace,
            "--check" => mode = Mode::Check,
            "-f" => files.push(words.value("-f", "a file")?),
            "-" => files.push(word),
            other if other.starts_with('-') => return unknown(other),
            file => files.push(file),
        }
    }
    if files.is_empty() {
        return Err("no file was given".into());
    }
    let mut differs = false;
    for file in files {
        let old = read_text(file)?;
        let new = format(&old);
        match mode {
            Mode::Print => print(&new)?,
            Mode::Check if old != new => {
                differs = true;
                let line = first_difference(&old, &new);
                error_output(format!("{file}:{line}: is not in the layout of 'thalweg fmt'\n").as_bytes());
            }
            Mode::InPlace if file == "-" => return Err("the standard input cannot be changed".into()),
            Mode::InPlace if old != new => replace(file, &new)?,
            Mode::Check | Mode::InPlace => {}
        }
    }
    Ok(if differs { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn first_difference(old: &[u8], new: &[u8]) -> usize {
    let same = old.split(|b| *b == b'\n').zip(new.split(|b| *b == b'\n')).take_while(|(a, b)| a == b);
    same.count() + 1
}

/// The file has the old content or the new one, whatever happens meanwhile.
fn replace(file: &str, content: &[u8]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot write {file}: {}", os_message(&error));
    // What a link points to is the file.
    let target = fs::canonicalize(file).map_err(failed)?;
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".fmt-{}", std::process::id()));
    let beside = target.parent().unwrap_or(Path::new(".")).join(name);
    let written = fs::write(&beside, content)
        .and_then(|()| fs::set_permissions(&beside, fs::metadata(&target)?.permissions()))
        .and_then(|()| fs::rename(&beside, &target));
    written.map_err(|error| {
        // What is left of it is of no use.
        let _ = fs::remove_file(&beside);
        failed(error)
    })
}
