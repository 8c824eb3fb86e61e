//! What is in force, as a configuration: `show config`, `show config diff`, `show config text`, `commit config to`.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thalweg_config::model::CliLevel::Admin;
use thalweg_runtime::aside;
use thalweg_syntax::carry::{carry, restore};

use crate::command::{Call, Command, Run};
use crate::json::Shape;
use crate::output::Reply;
use crate::running::commit::Commit;
use crate::running::{Running, save};
use crate::{Cli, anonymous};

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("show config", Admin, Run::Waiting(|call| Box::pin(show(call))))
        .help("", "show the configuration in force, with what was changed at run time")
        .json(|_| Shape::Lines),
    Command::new("show config diff", Admin, Run::Waiting(|call| Box::pin(show_differences(call))))
        .help("", "show what was changed at run time and is not in the files")
        .json(|_| Shape::Differences),
    Command::new("show config text", Admin, Run::Waiting(|call| Box::pin(show_text(call))))
        .help("<file> [partly]", "show what a file is to hold for all that was changed at run time")
        .json(|_| Shape::Lines),
    Command::new("commit config to", Admin, Run::Waiting(|call| Box::pin(commit(call))))
        .help("<file> [partly]", "write what was changed at run time into a configuration file"),
];

/// What is in force, found by a thread that serves nobody.
async fn running(call: &Call<'_>) -> Result<Running, Reply> {
    let instance = Arc::clone(call.instance());
    let anon_key = call.cli().anon_key.load(Ordering::Relaxed);
    let found = aside("show-config", move || Running::now(&instance, anon_key)).await;
    found.map_err(|error| Reply::error(format!("Cannot look at the configuration: {error}.")))
}

/// The same for a command that takes nothing.
async fn running_alone(call: &Call<'_>) -> Result<Running, Reply> {
    if let Some(first) = call.args.first() {
        let message = format!("'show config' takes nothing, 'diff' or 'text', not '{first}'.");
        return Err(Reply::error(message));
    }
    running(call).await
}

/// `show config`.
async fn show(call: Call<'_>) -> io::Result<Reply> {
    let running = match running_alone(&call).await {
        Ok(running) => running,
        Err(reply) => return Ok(reply),
    };
    let key = call.session.anon_key;
    let Call { session, output, .. } = call;
    let changes = running.differences.len();
    let (generation, revision) = (session.instance.generation, session.cli.revision());
    output.text.push_str(&format!(
        "# generation {generation}, revision {revision}, {changes} changes at run time\n"
    ));
    for line in running.lines_now() {
        output.text.push_str(&anonymous::line(key, &line));
        output.text.push('\n');
        output.end_row().await?;
    }
    for (difference, detail) in running.unwritten() {
        output.text.push_str(&format!("# {}\n", difference.line(key, Some(detail))));
        output.end_row().await?;
    }
    Ok(Reply::Done)
}

/// `show config diff`.
async fn show_differences(call: Call<'_>) -> io::Result<Reply> {
    let running = match running_alone(&call).await {
        Ok(running) => running,
        Err(reply) => return Ok(reply),
    };
    let key = call.session.anon_key;
    for difference in &running.differences {
        for line in difference.lines(key) {
            call.output.text.push_str(&line);
            call.output.text.push('\n');
            call.output.end_row().await?;
        }
    }
    Ok(Reply::Done)
}

/// The file that an answer is about, and whether what no line can say is left out.
fn file<'a>(command: &str, args: &[&'a str]) -> Result<(&'a str, bool), Reply> {
    match args {
        [name] if !name.is_empty() => Ok((*name, false)),
        [name, "partly"] if !name.is_empty() => Ok((*name, true)),
        _ => Err(Reply::error(format!(
            "'{command}' takes the name of a file, and 'partly' if something may be left out."
        ))),
    }
}

/// What was found, or why nothing could be, in the form of `reload`.
fn outcome(success: bool, log: &str) -> Reply {
    Reply::Text(format!("Success={}\n--\n{log}", u8::from(success)))
}

/// The text of a file, and what may be there before it.
fn prepare(running: &Running, cli: &Cli, name: &str, partly: bool) -> Result<(Commit, Vec<u64>), String> {
    let commit = running.commit(name, partly)?;
    let known = cli.committed.note(&running.written, &commit);
    Ok((commit, known))
}

/// `show config text`: for `thalweg commit`, which writes it where this process may not. The first line has the length of the text, and
/// what tells the texts apart that may be in its place.
async fn show_text(call: Call<'_>) -> io::Result<Reply> {
    let (name, partly) = match file("show config text", call.args) {
        Ok(file) => file,
        Err(reply) => return Ok(reply),
    };
    let running = match running(&call).await {
        Ok(running) => running,
        Err(reply) => return Ok(reply),
    };
    let (cli, shown, name) = (Arc::clone(call.cli()), name.to_owned(), name.to_owned());
    let found = aside("show-config", move || prepare(&running, &cli, &name, partly)).await?;
    let (commit, known) = match found {
        Ok(found) => found,
        Err(why) => return Ok(outcome(false, &why)),
    };
    let known: Vec<String> = known.iter().map(|digest| format!("{digest:016x}")).collect();
    let said = commit.said(&shown);
    let Call { output, .. } = call;
    output.text.push_str(&format!(
        "Success=1 length={} before={} said={}\n--\n{said}",
        commit.text.len(),
        known.join(","),
        said.len()
    ));
    for line in commit.text.split_inclusive(|byte| *byte == b'\n') {
        output.text.push_str(&carry(line));
        output.end_row().await?;
    }
    Ok(Reply::Done)
}

/// `commit config to`.
async fn commit(call: Call<'_>) -> io::Result<Reply> {
    let (name, partly) = match file("commit config to", call.args) {
        Ok(file) => file,
        Err(reply) => return Ok(reply),
    };
    let running = match running(&call).await {
        Ok(running) => running,
        Err(reply) => return Ok(reply),
    };
    let (cli, name) = (Arc::clone(call.cli()), name.to_owned());
    let work = move || match write(&running, &cli, &name, partly) {
        Ok(log) => outcome(true, &log),
        Err(log) => outcome(false, &log),
    };
    aside("commit-config", work).await
}

/// Writes a file; what is to be said of it.
fn write(running: &Running, cli: &Cli, name: &str, partly: bool) -> Result<String, String> {
    let (commit, known) = prepare(running, cli, name, partly)?;
    let path = restore(name.as_bytes());
    let path = Path::new(OsStr::from_bytes(&path));
    let warning = save::replace(path, &commit.text, |old| known.contains(&save::digest(old))).map_err(|why| {
        format!(
            "{}\nThis process may be kept from writing there by its sandbox, its 'chroot' or its 'user': then 'thalweg commit -S <socket> \
             {name}' writes the same from outside.\n",
            why.0
        )
    })?;
    let warning = warning.map(|warning| warning + "\n").unwrap_or_default();
    Ok(format!("{warning}{}", commit.said(name)))
}
