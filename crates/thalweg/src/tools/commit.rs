//! `thalweg commit`: what was changed at run time is written into a configuration file, from outside of the process.

use std::path::Path;
use std::process::ExitCode;

use thalweg_cli::running::save;

use super::{Call, Tool, top, unknown, word};
use crate::report::{error_output, output};

pub const TOOL: Tool = Tool {
    name: "commit",
    arguments: "-S <socket> [--partly] <file>",
    text: "write what was changed in a running process into its configuration file",
    help: "\
Asks a running process what a file is to hold for all that was changed at run time ('show config text' on its CLI), and
puts that in the place of the file: comments and layout stay, and so do mode and owner. At no moment is there half a file.
A file that somebody else changed since the process read it is left alone.

    -S <socket>   the process: a unix socket or <ip>:<port> of its CLI, at the level 'admin'
    --partly      leave out what no line of a configuration can say, in place of writing nothing
    <file>        a file of the configuration, or one that is not there yet

A process that serves can usually not do this by itself ('commit config to'): its sandbox keeps it from writing files.
Leaves with 0 if the file was written, with 1 if not.
",
    run,
};

fn run(call: &Call<'_>) -> Result<ExitCode, String> {
    let (mut socket, mut file, mut partly) = (None, None, false);
    let mut words = call.words();
    while let Some(argument) = words.next() {
        match argument {
            "-S" => socket = Some(words.value("-S", "a socket")?),
            "--partly" => partly = true,
            option if option.starts_with('-') => return unknown(option),
            name if file.is_none() => file = Some(name),
            another => return Err(format!("one file at a time, not '{another}' as well")),
        }
    }
    let socket = socket.ok_or("option '-S' with the socket of the process is missing")?;
    let file = file.ok_or("the name of the file is missing")?;
    // The process may run in another directory.
    let path = std::path::absolute(file).map_err(|error| format!("{file}: {error}"))?;
    let partly = if partly { " partly" } else { "" };
    let answer =
        top::ask_bytes(socket, &format!("show config text {}{partly}", word(&path.to_string_lossy())))?;
    let Some(offer) = Offer::parse(&answer)? else {
        return Err(
            "the process ended, or the connection, before all of the text was here: nothing was changed"
                .into(),
        );
    };
    match save::replace(Path::new(file), offer.text, |old| offer.before.contains(&save::digest(old))) {
        Ok(warning) => {
            let warning = warning.map(|warning| warning + "\n").unwrap_or_default();
            output(&format!("{warning}{}", offer.said));
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => {
            error_output(format!("{}\n", why.0).as_bytes());
            Ok(ExitCode::FAILURE)
        }
    }
}

/// What a process wants to have written.
#[derive(Debug, PartialEq, Eq)]
struct Offer<'a> {
    text: &'a [u8],
    /// What tells the texts apart that may be in its place.
    before: Vec<u64>,
    /// What there is to say about it.
    said: String,
}

impl<'a> Offer<'a> {
    /// Reads the answer; nothing when it is not whole.
    ///
    /// # Errors
    /// What the process says instead.
    fn parse(answer: &'a [u8]) -> Result<Option<Offer<'a>>, String> {
        const END: &[u8] = b"\n--\n";
        let refusal =
            || String::from_utf8_lossy(answer).trim_start_matches("Success=0\n--\n").trim_end().to_owned();
        let end = answer.windows(END.len()).position(|bytes| bytes == END);
        let head = String::from_utf8_lossy(&answer[..end.unwrap_or(answer.len())]);
        let Some(fields) = head.strip_prefix("Success=1 ") else {
            return if answer.is_empty() { Ok(None) } else { Err(refusal()) };
        };
        let field =
            |name: &str| fields.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        let number = |name: &str| field(name).and_then(|number| number.parse::<usize>().ok());
        let (Some(end), Some(length), Some(said), Some(before)) =
            (end, number("length"), number("said"), field("before"))
        else {
            return Ok(None);
        };
        let rest = &answer[end + END.len()..];
        let Some((said, rest)) = rest.split_at_checked(said) else { return Ok(None) };
        // The answer ends with an empty line.
        let Some((text, b"\n")) = rest.split_at_checked(length) else { return Ok(None) };
        let before = before.split(',').filter_map(|digest| u64::from_str_radix(digest, 16).ok()).collect();
        Ok(Some(Offer { text, before, said: String::from_utf8_lossy(said).into_owned() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_is_one() {
        let answer = b"Success=1 length=7 before=0a,0b said=4\n--\nyes\na\n\n--\nb\n";
        let offer = Offer { text: b"a\n\n--\nb", before: vec![10, 11], said: "yes\n".into() };
        assert_eq!(Offer::parse(answer), Ok(Some(offer)));
        for end in 0..answer.len() {
            assert!(!matches!(Offer::parse(&answer[..end]), Ok(Some(_))), "{end}");
        }
        assert_eq!(Offer::parse(b"Success=0\n--\nNo.\n\n"), Err("No.".into()));
        assert_eq!(Offer::parse(b"Permission denied\n\n"), Err("Permission denied".into()));
        assert_eq!(Offer::parse(b"Success=1 length=99999999999999999999 said=0 before=\n--\n\n"), Ok(None));
    }
}
