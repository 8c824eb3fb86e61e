//! `explain` (ours): what would become of a request now.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use thalweg_config::model::CliLevel::Operator;
use thalweg_explain::{AskReader, Scene, explain};
use thalweg_runtime::aside;

use crate::command::{Call, Command, Run};
use crate::output::Reply;

pub const COMMANDS: &[Command] =
    &[Command::new("explain", Operator, Run::Waiting(|call| Box::pin(run(call)))).help(
        "[<options>] <method> <url>",
        "what would become of a request now, rule by rule (docs/explain.md)",
    )];

/// One plays at a time: each takes the memory of a second configuration in force, and a core meanwhile.
static PLAYING: AtomicBool = AtomicBool::new(false);

struct Playing;

impl Playing {
    fn begin() -> Option<Playing> {
        (!PLAYING.swap(true, Ordering::AcqRel)).then_some(Playing)
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        PLAYING.store(false, Ordering::Release);
    }
}

async fn run(call: Call<'_>) -> io::Result<Reply> {
    let reader = match read(call.args) {
        Ok(reader) => reader,
        Err(error) => return Ok(Reply::error(format!("explain: {error}."))),
    };
    let json = reader.json;
    let body = call.payload.unwrap_or_default().as_bytes().to_vec();
    let ask = match reader.ask(body) {
        Ok(ask) => ask,
        Err(error) => return Ok(Reply::error(format!("explain: {error}."))),
    };
    let Some(playing) = Playing::begin() else {
        return Ok(Reply::error("explain: another request is being explained, ask again when it is done."));
    };
    let instance = std::sync::Arc::clone(call.instance());
    let played = aside("explain", move || {
        // It goes on when the client is gone.
        let _playing = playing;
        explain(Scene::of(&instance), &ask)
    });
    Ok(match played.await {
        Ok(Ok(explanation)) if json => Reply::Text(explanation.json()),
        Ok(Ok(explanation)) => Reply::Text(explanation.text()),
        Ok(Err(error)) => Reply::error(format!("explain: {error}.")),
        Err(error) => Reply::error(format!("explain: {error}.")),
    })
}

/// Options in any place, and the request as one word or two.
fn read(words: &[&str]) -> Result<AskReader, String> {
    let mut reader = AskReader::default();
    let mut words = words.iter().copied();
    let mut method: Option<&str> = None;
    while let Some(word) = words.next() {
        let value = |what: &str| words.next().ok_or_else(|| format!("option '{word}' expects {what}"));
        if reader.option(word, value)? {
            continue;
        }
        let is_known = match (method.take(), word.contains(' ')) {
            _ if word.starts_with('-') => false,
            (None, true) => reader.request(word)?,
            (None, false) => {
                method = Some(word);
                true
            }
            (Some(method), _) => reader.request(&format!("{method} {word}"))?,
        };
        if !is_known {
            return Err(format!("'{word}' is not known here"));
        }
    }
    match method {
        Some(method) => Err(format!("a request is a method and a URL, not '{method}' alone")),
        None => Ok(reader),
    }
}
