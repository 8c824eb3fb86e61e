//! What a command answers with.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thalweg_proxy::connection::transport::Transport;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::{Turn, set_nice, timer, yield_now};
use thalweg_syntax::carry::restore;

use crate::json::Converter;
use crate::{Cli, Severity};

/// A dump is sent in pieces of about this many bytes, so that its size does not decide how much memory it takes.
const PIECE: usize = 64 * 1024;

/// Severities, as syslog numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The command failed.
    Error = 3,
    /// It worked, but.
    Warning = 4,
    /// It changed something worth noting.
    Notice = 5,
    /// It worked.
    Info = 6,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Error => "err",
            Level::Warning => "warning",
            Level::Notice => "notice",
            Level::Info => "info",
        }
    }
}

/// What a command answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing: it worked.
    Done,
    /// A text whose lines all end.
    Text(String),
    /// A message with its severity.
    Message(Level, String),
}

impl Reply {
    /// A message about something that failed.
    pub fn error(text: impl Into<String>) -> Reply {
        Reply::Message(Level::Error, text.into())
    }

    /// A message about something that worked in part, or not for a reason that is no fault.
    pub fn warning(text: impl Into<String>) -> Reply {
        Reply::Message(Level::Warning, text.into())
    }

    /// A message about something worth noting.
    pub fn notice(text: impl Into<String>) -> Reply {
        Reply::Message(Level::Notice, text.into())
    }

    /// A message about something that worked.
    pub fn info(text: impl Into<String>) -> Reply {
        Reply::Message(Level::Info, text.into())
    }

    /// The bytes to send, before the empty line that ends every answer.
    pub fn render(&self, severity: Severity) -> String {
        match self {
            Reply::Done => String::new(),
            Reply::Text(text) => text.clone(),
            Reply::Message(level, text) => {
                let end = if text.ends_with('\n') { "" } else { "\n" };
                match severity {
                    Severity::None => format!("{text}{end}"),
                    Severity::Number => format!("[{}]: {text}{end}", *level as u8),
                    Severity::Word => format!("[{}]: {text}{end}", level.name()),
                }
            }
        }
    }
}

/// The connection's sending side.
pub struct Output {
    stream: Transport,
    /// Collected, not sent yet. Bytes that are not UTF-8 are carried in it, as in everything that commands take and answer
    /// ([`thalweg_syntax::carry`]).
    pub text: String,
    /// How long rows were made since others had their turn.
    turn: Turn,
    /// Turns what is collected into JSON before it is sent.
    pub json: Option<Converter>,
    /// The client must take what is sent within this time.
    pub timeout_ms: Option<u64>,
    /// Where the bytes are counted.
    cli: Arc<Cli>,
}

impl Output {
    /// Answers on `stream`.
    pub fn new(stream: Transport, timeout_ms: Option<u64>, cli: Arc<Cli>) -> Output {
        Output { stream, text: String::new(), turn: Turn::default(), json: None, timeout_ms, cli }
    }

    /// The connection, to read from it.
    pub fn stream(&mut self) -> &mut Transport {
        &mut self.stream
    }

    /// Gives the connection back.
    pub fn into_stream(self) -> Transport {
        self.stream
    }

    /// The answer that is turned into JSON is complete.
    pub fn end_json(&mut self) {
        if let Some(json) = self.json.take() {
            json.convert_rest(&mut self.text);
        }
    }

    /// A row of an answer is made, or one was passed over that is not shown: what was collected is sent if it is much, and after some
    /// time others have their turn. So an answer may be as long as it likes.
    ///
    /// # Errors
    /// The client is gone, or did not take it in time.
    pub async fn end_row(&mut self) -> io::Result<()> {
        if self.text.len() >= PIECE {
            self.flush().await?;
        }
        if self.turn.is_over() {
            give_way().await;
        }
        Ok(())
    }

    /// Sends what was collected.
    ///
    /// # Errors
    /// The client is gone, or did not take it in time.
    pub async fn flush(&mut self) -> io::Result<()> {
        let kept = match &mut self.json {
            Some(json) => json.convert_complete(&mut self.text),
            None => String::new(),
        };
        for piece in restore(self.text.as_bytes()).chunks(PIECE) {
            within(self.timeout_ms, self.stream.send_ready()).await??;
            self.stream.start_send(Buf::copy_of(piece));
            self.cli.counts.bytes_out.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        self.text.clear();
        self.text.push_str(&kept);
        if self.text.capacity() > 4 * PIECE {
            self.text = String::new();
        }
        within(self.timeout_ms, self.stream.send_ready()).await?
    }
}

/// Lets others run, in the order in which they came. A command comes before all traffic when it begins ([`crate::NICE`]); were it to come
/// back like that, all traffic of its thread would wait for its end. It is a task like others from here to there.
pub async fn give_way() {
    set_nice(0);
    yield_now().await;
}

/// Waits for a future for a limited time.
async fn within<F: Future>(timeout_ms: Option<u64>, future: F) -> io::Result<F::Output> {
    let deadline = timeout_ms.map(timer::deadline_in);
    timer::timeout_at(deadline, future).await.map_err(|_| io::ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use thalweg_runtime::driver::sim::{self, SimConfig};
    use thalweg_runtime::{Class, Kind, SpawnOptions, spawn, spawn_with};

    use super::*;

    static TASK: Kind = Kind::new("test");

    /// A command begins before a request that came earlier, which then waits for one turn of it, and not for its end.
    #[test]
    fn who_gives_way_is_a_task_like_others() {
        let report = sim::run(1, SimConfig::faultless(), |_| async {
            let (turns, seen) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
            let (told, looks) = (Rc::clone(&seen), Rc::clone(&turns));
            spawn(&TASK, async move { told.set(Some(looks.get())) });
            let options = SpawnOptions { class: Class::Normal, nice: crate::NICE };
            let command = Rc::clone(&turns);
            spawn_with(&TASK, options, async move {
                for turn in 1..100 {
                    command.set(turn);
                    give_way().await;
                }
            });
            timer::sleep(1).await;
            assert_eq!((seen.get(), turns.get()), (Some(1), 99));
        });
        report.check().expect("nothing is left");
    }
}
