//! Reload in place: `reload`, `show reload`, `show snapshots`.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use thalweg_config::model::CliLevel::{Admin, Operator};
use thalweg_runtime::{Reason, TaskId, current_task};

use crate::Reload;
use crate::command::{Call, Command, Run};
use crate::json::Shape;
use crate::output::Reply;
use crate::threads::on_all;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("reload", Admin, Run::Waiting(|call| Box::pin(reload(call))))
        .help("[force]", "read the files again and serve what they say, with all connections kept"),
    Command::new("show reload", Admin, Run::Waiting(|call| Box::pin(show_reload(call))))
        .help("[<file>]*", "show what a reload would change")
        .json(|_| Shape::Lines),
    Command::new("show snapshots", Operator, Run::Waiting(|call| Box::pin(show_snapshots(call))))
        .help("", "show the configurations that something is still served by")
        .json(|_| Shape::Lines),
];

/// `reload`.
async fn reload(call: Call<'_>) -> io::Result<Reply> {
    let force = match call.args {
        [] => false,
        ["force"] => true,
        _ => {
            return Ok(Reply::error(
                "'reload' takes nothing, or 'force' to drop what was changed at run time.",
            ));
        }
    };
    Ok(Reply::Text(ask(&call, Reload::Apply { force }).await))
}

/// `show reload`.
async fn show_reload(call: Call<'_>) -> io::Result<Reply> {
    let files = call.args.iter().map(|file| (*file).to_owned()).collect();
    Ok(Reply::Text(ask(&call, Reload::Compare { files }).await))
}

/// The answer on its way: whoever asked hears of it however the other thread ends.
struct Answer {
    text: Arc<Mutex<Option<String>>>,
    asking: TaskId,
    said: String,
}

impl Answer {
    fn say(mut self, text: String) {
        self.said = text;
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::mem::take(&mut self.said));
        self.asking.wake(Reason::MESSAGE);
    }
}

/// Asks the program, which answers from a thread that serves nobody.
async fn ask(call: &Call<'_>, what: Reload) -> String {
    let text: Arc<Mutex<Option<String>>> = Arc::default();
    let said = "Success=0\n--\nThe reload did not come to its end: nothing is known of it.\n".to_owned();
    let answer = Answer { text: Arc::clone(&text), asking: current_task(), said };
    call.cli().process.reload(what, Box::new(move |said| answer.say(said)));
    std::future::poll_fn(|_| match text.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(text) => Poll::Ready(text),
        None => Poll::Pending,
    })
    .await
}

/// `show snapshots`: a line for each, the newest first: what holds it on which thread.
async fn show_snapshots(call: Call<'_>) -> io::Result<Reply> {
    let now = call.instance().generation;
    let held = on_all(|worker| worker.own().pins()).await;
    let mut all: BTreeMap<u64, Vec<(usize, usize)>> = BTreeMap::new();
    for (thread, pins) in held.into_iter().enumerate() {
        for (generation, holders) in pins.into_iter().flatten() {
            all.entry(generation).or_default().push((thread, holders));
        }
    }
    let mut text = String::from("# generation state holders\n");
    for (generation, threads) in all.iter().rev() {
        let state = if *generation == now { "current" } else { "former" };
        text.push_str(&format!("{generation} {state}"));
        for (thread, holders) in threads {
            text.push_str(&format!(" thread{}={holders}", thread + 1));
        }
        text.push('\n');
    }
    Ok(Reply::Text(text))
}
