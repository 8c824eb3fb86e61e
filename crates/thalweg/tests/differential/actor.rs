//! One side of one connection: follows a script and writes down what it receives and when.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thalweg_h2::frame;

use super::http2::{self, THIS};
use super::script::{LOOK, Script, Step};
use super::support::h2::data_frame;

/// The longest wait for anything: only what never comes takes so long.
pub const LIMIT: Duration = Duration::from_secs(4);

/// How a connection ended, from the point of view of who watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The other side closed in order.
    Closed,
    /// The other side reset it.
    Reset,
    /// It was still open when the script and the exchange were over.
    Open,
    /// The script closed it.
    Ours,
}

/// What was received on a connection.
#[derive(Clone, Debug)]
pub struct Heard {
    /// When the connection was established. All moments count from the start of the exchange.
    pub opened: Duration,
    pub bytes: Vec<u8>,
    /// How many bytes there were after each receive, and when.
    pub at: Vec<(usize, Duration)>,
    /// How it ended, and when.
    pub end: Option<(End, Duration)>,
    /// The step at which the script ended early, and why.
    pub stopped: Option<String>,
}

/// What the parts of one exchange share.
pub struct Board {
    state: Mutex<BoardState>,
    changed: Condvar,
    pub start: Instant,
}

#[derive(Default)]
struct BoardState {
    told: HashSet<&'static str>,
    /// Scripts that are neither done nor repeating themselves.
    busy: usize,
    over: bool,
}

impl Board {
    pub fn new() -> Arc<Board> {
        Arc::new(Board { state: Mutex::default(), changed: Condvar::new(), start: Instant::now() })
    }

    fn enter(&self) {
        self.state.lock().unwrap().busy += 1;
    }

    fn leave(&self) {
        self.state.lock().unwrap().busy -= 1;
        self.changed.notify_all();
    }

    /// Waits until every script is done or repeats itself.
    pub fn quiet(&self) {
        let state = self.state.lock().unwrap();
        let _ = self.changed.wait_timeout_while(state, LIMIT, |state| state.busy > 0).unwrap();
    }

    pub fn is_quiet(&self) -> bool {
        self.state.lock().unwrap().busy == 0
    }

    fn tell(&self, what: &'static str) {
        self.state.lock().unwrap().told.insert(what);
        self.changed.notify_all();
    }

    /// The exchange is over: nothing waits any more.
    pub fn finish(&self) {
        self.state.lock().unwrap().over = true;
        self.changed.notify_all();
    }

    pub fn is_over(&self) -> bool {
        self.state.lock().unwrap().over
    }

    /// Waits until something was told. False when the exchange is over or it takes too long.
    pub fn hear(&self, what: &'static str) -> bool {
        let limit = |state: &mut BoardState| !state.over && !state.told.contains(what);
        let state = self.state.lock().unwrap();
        let (state, _) = self.changed.wait_timeout_while(state, LIMIT, limit).unwrap();
        state.told.contains(what)
    }

    /// Waits for some time, or for the end of the exchange.
    pub fn pause(&self, time: Duration) {
        let state = self.state.lock().unwrap();
        let _ = self.changed.wait_timeout_while(state, time, |state| !state.over).unwrap();
    }
}

struct Ear {
    heard: Mutex<Heard>,
    changed: Condvar,
}

impl Ear {
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap()
    }
}

/// A connection that somebody plays.
pub struct Actor {
    stream: Option<Arc<TcpStream>>,
    ear: Arc<Ear>,
    reader: Option<JoinHandle<()>>,
    board: Arc<Board>,
    /// How much of what was received earlier steps have waited for.
    taken: usize,
    /// The stream of HTTP/2 at hand.
    at_hand: u32,
    /// Payload that was sent on all streams of HTTP/2.
    octets_sent: usize,
    busy: bool,
}

/// What happens when a script is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The connection is looked at a little longer, then closed.
    Close,
    /// The connection stays as it is until the exchange is over.
    Stay,
}

/// Why a script does not go on.
enum Stop {
    Ended,
    GaveUp,
    Over,
    /// It was one that goes on for as long as the connection.
    Done,
}

impl Actor {
    pub fn new(stream: TcpStream, board: &Arc<Board>) -> Actor {
        stream.set_nodelay(true).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        board.enter();
        let heard = Heard {
            opened: board.start.elapsed(),
            bytes: Vec::new(),
            at: Vec::new(),
            end: None,
            stopped: None,
        };
        Actor {
            stream: Some(Arc::new(stream)),
            ear: Arc::new(Ear { heard: Mutex::new(heard), changed: Condvar::new() }),
            reader: None,
            board: Arc::clone(board),
            taken: 0,
            at_hand: 0,
            octets_sent: 0,
            busy: true,
        }
    }

    /// From now on the exchange does not wait for this script.
    fn rest(&mut self) {
        if std::mem::take(&mut self.busy) {
            self.board.leave();
        }
    }

    /// A way to end the connection from outside, for when the exchange is over.
    pub fn handle(&self) -> Handle {
        Handle {
            stream: Arc::downgrade(self.stream.as_ref().expect("a new connection is open")),
            ear: Arc::clone(&self.ear),
            board: Arc::clone(&self.board),
        }
    }

    /// Follows a script.
    pub fn play(mut self, script: &Script, then: Then) -> Heard {
        if !matches!(script.steps.first(), Some(Step::Deaf)) {
            self.listen();
        }
        let stopped = self.steps(&script.steps);
        if let Err((step, stop)) = stopped {
            let why = match stop {
                Stop::GaveUp => Some("gave up"),
                // That the connection ended is written down as its end.
                Stop::Ended | Stop::Over => Some("ended"),
                Stop::Done => None,
            };
            self.ear.lock().stopped = why.map(|why| format!("{why} at {step}"));
        } else if then == Then::Close {
            self.watch(Duration::from_millis(LOOK));
        }
        self.rest();
        if then == Then::Stay && self.stream.is_some() {
            self.watch(LIMIT * 4);
        }
        self.leave(End::Open);
        self.ear.lock().clone()
    }

    fn listen(&mut self) {
        let stream = Arc::clone(self.stream.as_ref().expect("a new connection is open"));
        let (ear, start) = (Arc::clone(&self.ear), self.board.start);
        let read = move || {
            let mut chunk = vec![0; 65536];
            loop {
                let got = (&*stream).read(&mut chunk);
                let now = start.elapsed();
                let mut heard = ear.lock();
                match got {
                    Ok(len) if len > 0 => {
                        heard.bytes.extend_from_slice(&chunk[..len]);
                        let total = heard.bytes.len();
                        heard.at.push((total, now));
                    }
                    Ok(_) => {
                        heard.end.get_or_insert((End::Closed, now));
                    }
                    Err(_) => {
                        heard.end.get_or_insert((End::Reset, now));
                    }
                }
                ear.changed.notify_all();
                if heard.end.is_some() {
                    return;
                }
            }
        };
        self.reader = Some(thread::Builder::new().stack_size(128 << 10).spawn(read).unwrap());
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), (String, Stop)> {
        for (number, step) in steps.iter().enumerate() {
            if let Step::Forever(inner) = step {
                self.rest();
                loop {
                    match self.steps(inner) {
                        Ok(()) => {}
                        Err((name, Stop::Ended | Stop::Over)) => return Err((name, Stop::Done)),
                        Err(other) => return Err(other),
                    }
                }
            }
            self.step(step).map_err(|stop| {
                let name = format!("{step:?}");
                let name = name.split(['(', ' ']).next().unwrap_or("").to_string();
                (format!("step {} ({name})", number + 1), stop)
            })?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), Stop> {
        match step {
            Step::Send(bytes) => self.send(bytes),
            Step::Frames(mark) => {
                let current = self.at_hand;
                self.at_hand = self.look(|heard| http2::find(heard, *mark, current))?;
            }
            Step::Reply(frames) => self.send(&http2::on_stream(frames, self.at_hand)),
            Step::Data { stream, octets, end } => self.data(*stream, octets, *end)?,
            Step::Until(bytes) => self.wait(|rest| {
                rest.windows(bytes.len()).position(|window| window == bytes).map(|at| at + bytes.len())
            })?,
            Step::Exactly(len) => self.wait(|rest| (rest.len() >= *len).then_some(*len))?,
            Step::Message => self.wait(message)?,
            Step::Pause(ms) => self.board.pause(Duration::from_millis(*ms)),
            Step::Tell(what) => self.board.tell(what),
            Step::Await(what) => {
                if !self.board.hear(what) {
                    return Err(if self.board.is_over() { Stop::Over } else { Stop::GaveUp });
                }
            }
            Step::HalfClose => {
                if let Some(stream) = &self.stream {
                    let _ = stream.shutdown(Shutdown::Write);
                }
            }
            Step::Close => self.leave(End::Ours),
            Step::Reset => {
                if let Some(stream) = &self.stream {
                    let _ = thalweg_runtime::net::options::linger_reset(stream.as_fd());
                }
                self.leave(End::Ours);
            }
            Step::Deaf => {}
            Step::End => {
                self.watch(LIMIT);
                if self.ear.lock().end.is_none() {
                    return Err(Stop::GaveUp);
                }
            }
            Step::Look(ms) => self.watch(Duration::from_millis(*ms)),
            Step::Forever(_) => unreachable!("handled by who calls this"),
        }
        Ok(())
    }

    fn send(&self, bytes: &[u8]) {
        if let Some(stream) = &self.stream {
            // Whether the other side has gone is seen by receiving, at a moment that does not depend on luck.
            let _ = (&**stream).write_all(bytes);
        }
    }

    /// Sends payload on a stream of HTTP/2, as the windows allow.
    fn data(&mut self, stream: u32, octets: &[u8], end: bool) -> Result<(), Stop> {
        let stream = if stream == THIS { self.at_hand } else { stream };
        let mut sent = 0;
        while sent < octets.len() {
            let (before, of_all) = (sent, self.octets_sent);
            let room =
                self.look(|heard| Some(http2::room(heard, stream, before, of_all)).filter(|room| *room > 0))?;
            let part = room.min(octets.len() - sent).min(frame::PAYLOAD_MIN);
            let last = end && sent + part == octets.len();
            self.send(&data_frame(stream, &octets[sent..sent + part], last));
            sent += part;
            self.octets_sent += part;
        }
        Ok(())
    }

    /// Waits until `look` finds what it looks for in the bytes that nobody took yet, and takes it.
    fn wait(&mut self, look: impl Fn(&[u8]) -> Option<usize>) -> Result<(), Stop> {
        let taken = self.taken;
        self.taken += self.look(|heard| look(&heard[taken..]))?;
        Ok(())
    }

    /// Waits until `look` finds what it looks for in all that was received.
    fn look<T>(&self, look: impl Fn(&[u8]) -> Option<T>) -> Result<T, Stop> {
        let deadline = Instant::now() + LIMIT;
        let mut heard = self.ear.lock();
        loop {
            if let Some(found) = look(&heard.bytes) {
                return Ok(found);
            }
            if heard.end.is_some() || self.stream.is_none() {
                return Err(Stop::Ended);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Stop::GaveUp);
            }
            heard = self.ear.changed.wait_timeout(heard, left).unwrap().0;
        }
    }

    /// Waits for the end of the connection, so long at most.
    fn watch(&self, time: Duration) {
        if self.reader.is_none() {
            self.board.pause(time);
            return;
        }
        let heard = self.ear.lock();
        let _ = self.ear.changed.wait_timeout_while(heard, time, |heard| heard.end.is_none()).unwrap();
    }

    /// Closes the connection.
    fn leave(&mut self, end: End) {
        let Some(stream) = self.stream.take() else { return };
        self.ear.lock().end.get_or_insert((end, self.board.start.elapsed()));
        // Wakes the reader and sends nothing.
        let _ = stream.shutdown(Shutdown::Read);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Ends a connection whose exchange is over.
pub struct Handle {
    /// Weak, as closing must not wait for it.
    stream: Weak<TcpStream>,
    ear: Arc<Ear>,
    board: Arc<Board>,
}

impl Handle {
    pub fn finish(self) {
        let mut heard = self.ear.lock();
        heard.end.get_or_insert((End::Open, self.board.start.elapsed()));
        drop(heard);
        self.ear.changed.notify_all();
        if let Some(stream) = self.stream.upgrade() {
            let _ = stream.shutdown(Shutdown::Read);
        }
    }
}

/// The length of the message at the start of `bytes`, once it is complete.
fn message(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name).map(str::trim));
    if field("transfer-encoding:").is_some_and(|value| value.ends_with("chunked")) {
        return chunks(&bytes[head..]).map(|len| head + len);
    }
    let len: usize = field("content-length:").and_then(|value| value.parse().ok()).unwrap_or(0);
    (bytes.len() >= head + len).then_some(head + len)
}

/// The length of a chunked body with its trailers.
fn chunks(bytes: &[u8]) -> Option<usize> {
    let line = |from: usize| bytes[from..].windows(2).position(|w| w == b"\r\n").map(|len| from + len + 2);
    let mut at = 0;
    loop {
        let end = line(at)?;
        let digits = String::from_utf8_lossy(&bytes[at..end]);
        let size = usize::from_str_radix(digits.trim().split(';').next()?.trim(), 16).ok()?;
        at = end;
        if size == 0 {
            loop {
                let end = line(at)?;
                if end == at + 2 {
                    return Some(end);
                }
                at = end;
            }
        }
        at = at.checked_add(size + 2)?;
        if at > bytes.len() {
            return None;
        }
    }
}
