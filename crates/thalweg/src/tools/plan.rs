//! `thalweg plan`: what a reload in place of a running process would change.

use std::process::ExitCode;

use super::{Call, Tool, top, unknown, word};
use crate::report::output;

pub const TOOL: Tool = Tool {
    name: "plan",
    arguments: "-S <socket> [[-f] <file|directory>...]",
    text: "say what a reload of a running process would change",
    help: "\
Asks a running process to read its files again, or other ones in their place, and to compare them with what it serves
('show reload' on its CLI). Nothing is changed. Each line is a section, a listener or a server that comes (+), goes (-)
or changes (~), or what stands in the way (!).

    -S <socket>   the process: a unix socket or <ip>:<port> of its CLI, at the level 'admin'
    -f <file>     a file or directory to compare, as seen from the process; its own command line's when there is none

Leaves with 0 if a reload would work, with 1 if not.
",
    run,
};

fn run(call: &Call<'_>) -> Result<ExitCode, String> {
    let (mut socket, mut files) = (None, Vec::new());
    let mut words = call.words();
    while let Some(argument) = words.next() {
        match argument {
            "-S" => socket = Some(words.value("-S", "a socket")?),
            "-f" => files.push(words.value("-f", "a file")?),
            option if option.starts_with('-') => return unknown(option),
            file => files.push(file),
        }
    }
    let socket = socket.ok_or("option '-S' with the socket of the process is missing")?;
    let mut command = "show reload".to_owned();
    for file in files {
        // The process may run in another directory.
        let file = std::path::absolute(file).map_err(|error| format!("{file}: {error}"))?;
        command.push_str(&format!(" {}", word(&file.to_string_lossy())));
    }
    let answer = top::ask(socket, &command)?;
    let (head, said) = answer.split_once("\n--\n").ok_or_else(|| answer.trim_end().to_owned())?;
    output(&format!("{}\n", said.trim_end()));
    Ok(if head.ends_with("Success=1") { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
