//! What a command answers with.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thalweg_proxy::connection::transport::Transport;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::{Turn, set_nice, timer};
use thalweg_syntax::carry::restore;

use crate::json::Converter;
use crate::{Counts, Severity};

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
    /// What was turned into JSON, and is not sent yet: it goes before `text`.
    document: String,
    /// How long rows were made since others had their turn.
    turn: Turn,
    /// Turns what is collected into JSON before it is sent.
    pub json: Option<Converter>,
    /// The client must take what is sent within this time.
    pub timeout_ms: Option<u64>,
    /// Where the bytes are counted.
    counts: Arc<Counts>,
}

impl Output {
    /// Answers on `stream`.
    pub fn new(stream: Transport, timeout_ms: Option<u64>, counts: Arc<Counts>) -> Output {
        Output {
            stream,
            text: String::new(),
            document: String::new(),
            turn: Turn::default(),
            json: None,
            timeout_ms,
            counts,
        }
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
    ///
    /// # Errors
    /// As those of [`Output::end_row`].
    pub async fn end_json(&mut self) -> io::Result<()> {
        self.convert().await?;
        if let Some(json) = self.json.take() {
            json.finish(&self.text, &mut self.document);
            self.text.clear();
        }
        Ok(())
    }

    /// A row of an answer is made, or one was passed over that is not shown: what was collected is sent if it is much, and after some
    /// time others have their turn. So an answer may be as long as it likes.
    ///
    /// # Errors
    /// The client is gone, or did not take it in time.
    pub async fn end_row(&mut self) -> io::Result<()> {
        self.convert().await?;
        self.end_step().await
    }

    /// The same for a row that is where it is sent from.
    async fn end_step(&mut self) -> io::Result<()> {
        if self.document.len() + self.text.len() >= PIECE {
            self.send().await?;
        }
        if self.turn.is_over() {
            give_way().await;
        }
        Ok(())
    }

    /// Turns the complete lines into JSON, if that is wanted. To convert a row takes longer than to make it, and a command may have
    /// made many before it ends one: others have their turn meanwhile, too.
    async fn convert(&mut self) -> io::Result<()> {
        if self.json.is_none() || !self.text.contains('\n') {
            return Ok(());
        }
        let mut lines = std::mem::take(&mut self.text);
        let mut begin = 0;
        while let (Some(json), Some(len)) = (&mut self.json, lines[begin..].find('\n')) {
            json.line(&lines[begin..begin + len], &mut self.document);
            begin += len + 1;
            // Whoever made a row ends it.
            if begin < lines.len() {
                self.end_step().await?;
            }
        }
        lines.drain(..begin);
        self.text = lines;
        Ok(())
    }

    /// Sends what was collected.
    ///
    /// # Errors
    /// The client is gone, or did not take it in time.
    pub async fn flush(&mut self) -> io::Result<()> {
        self.convert().await?;
        self.send().await
    }

    /// Sends what is to be sent as it is. Of an answer that is turned into JSON that is not what waits for the end of its line.
    async fn send(&mut self) -> io::Result<()> {
        for collected in
            [Some(&mut self.document), self.json.is_none().then_some(&mut self.text)].into_iter().flatten()
        {
            for piece in restore(collected.as_bytes()).chunks(PIECE) {
                within(self.timeout_ms, self.stream.send_ready()).await??;
                self.stream.start_send(Buf::copy_of(piece));
                self.counts.bytes_out.fetch_add(piece.len() as u64, Ordering::Relaxed);
            }
            collected.clear();
            if collected.capacity() > 4 * PIECE {
                *collected = String::new();
            }
        }
        within(self.timeout_ms, self.stream.send_ready()).await?
    }
}

/// Lets others run, in the order in which they came, those among them whose input comes only now. A command comes before all traffic
/// when it begins ([`crate::NICE`]); were it to come back like that, all traffic of its thread would wait for its end. It is a task like
/// others from here to there, but one that has a single turn before the driver is asked what came: where nobody else had work, it would have
/// all of a round's.
pub async fn give_way() {
    set_nice(0);
    thalweg_runtime::give_way().await;
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
    use std::sync::atomic::AtomicU32;

    use thalweg_runtime::driver::sim::{self, SimConfig};
    use thalweg_runtime::net::{Listener, SockAddr, Stream};
    use thalweg_runtime::{
        Class, Config, Kind, SpawnOptions, block_on, handle, spawn, spawn_with, yield_now,
    };

    use super::*;
    use crate::json::Shape;

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

    /// Mail is taken when the driver is asked, once in each round.
    #[test]
    fn what_comes_is_noticed_after_each_turn() {
        block_on(Config::default(), async {
            let (turn, late) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
            for sent in 0..200 {
                turn.store(sent, Ordering::Relaxed);
                let (turn, late) = (Arc::clone(&turn), Arc::clone(&late));
                handle().unwrap().run_on(0, move || {
                    _ = late.fetch_max(turn.load(Ordering::Relaxed) - sent, Ordering::Relaxed)
                });
                give_way().await;
            }
            assert_eq!(late.load(Ordering::Relaxed), 0, "turns until it came");
        });
    }

    /// Rows become JSON as they come, not when a piece of them is full, and those that a command made at once become it turn by turn.
    #[test]
    fn others_have_their_turn_while_rows_become_json() {
        // Less than a piece: nothing waits for the network meanwhile.
        const ROWS: usize = 1000;
        let row = |n: usize| format!("0x1: key={n} gpc0={n}\n");
        for at_once in [false, true] {
            let report = sim::run(1, SimConfig::faultless(), |_| async move {
                let address: SockAddr = "10.0.0.1:80".parse::<std::net::SocketAddr>().unwrap().into();
                let mut listener = Listener::bind(&address, &Default::default()).unwrap();
                let mut client = Stream::connect(&address, &Default::default()).await.unwrap();
                let stream = Stream::from_accepted(listener.accept().await.unwrap().0).unwrap();
                let (turns, is_done) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
                let (counted, end) = (Rc::clone(&turns), Rc::clone(&is_done));
                spawn(&TASK, async move {
                    while !end.get() {
                        counted.set(counted.get() + 1);
                        yield_now().await;
                    }
                });
                spawn(&TASK, async move {
                    let mut output = Output::new(stream.into(), None, Arc::default());
                    output.json = Some(Converter::new(Shape::Records));
                    for n in 0..ROWS {
                        output.text.push_str(&row(n));
                        if !at_once {
                            output.end_row().await.unwrap();
                            assert!(
                                output.text.is_empty() && output.document.len() < PIECE,
                                "{n} is converted"
                            );
                        }
                    }
                    output.end_json().await.unwrap();
                    assert!(output.document.len() < PIECE);
                    let turns = turns.get();
                    assert!(turns >= ROWS / 40, "{turns} turns");
                    output.flush().await.unwrap();
                    is_done.set(true);
                });
                let mut document = Vec::new();
                loop {
                    let received = client.recv(1 << 16).await.unwrap();
                    if received.is_empty() {
                        break;
                    }
                    document.extend_from_slice(&received);
                }
                let wanted: Vec<String> =
                    (0..ROWS).map(|n| format!("{{\"id\":\"0x1\",\"key\":{n},\"gpc0\":{n}}}")).collect();
                assert!(document == format!("[{}]\n", wanted.join(",\n")).into_bytes());
            });
            report.check().expect("nothing is left");
        }
    }
}
