//! One end of a connection of HTTP/2: what both ends have in common.

use std::cell::{Cell, RefCell};
use std::task::Poll;

use thalweg_h2::connection::{Config, Connection, Event, Role};
use thalweg_h2::settings::Settings;
use thalweg_runtime::{Reason, clock, current_task, timer};

use crate::actor::{Got, Line};

/// See the module's documentation.
pub struct Framed {
    pub line: Line,
    pub h2: RefCell<Connection>,
    input: RefCell<Vec<u8>>,
    /// Something happened since the writer looked.
    stirred: Cell<bool>,
    /// Nothing more comes.
    pub over: Cell<bool>,
}

impl Framed {
    /// An end that gives each stream such a window.
    pub fn new(line: Line, role: Role, window: u32) -> Framed {
        let settings = Settings { enable_push: false, initial_window: window, ..Settings::default() };
        let config = Config { settings, window: 1 << 20, ..Config::default() };
        Framed {
            line,
            h2: RefCell::new(Connection::new(role, config, clock::now_ms())),
            input: RefCell::default(),
            stirred: Cell::new(true),
            over: Cell::new(false),
        }
    }

    /// Receives once, at most so many bytes, and tells what came. False at the end; an error when the peer breaks the protocol.
    pub async fn receive(&self, most: usize, tell: &mut dyn FnMut(Event<'_>)) -> Result<bool, String> {
        // Who sends little at a time is heard now and then.
        let rests = self.h2.borrow().rests_until(clock::now_ms());
        let bytes = match rests {
            Some(until_ms) => {
                timer::sleep_until(until_ms).await;
                Vec::new()
            }
            None => match self.line.recv(most).await {
                Got::Bytes(bytes) => bytes,
                Got::Fin | Got::Reset | Got::Gone => {
                    self.over.set(true);
                    self.stir();
                    return Ok(false);
                }
            },
        };
        let mut input = self.input.borrow_mut();
        input.extend_from_slice(&bytes);
        let mut consumed = Vec::new();
        let mut handler = |event: Event<'_>| {
            if let Event::Data { stream, data, .. } = &event {
                consumed.push((*stream, data.len()));
            }
            tell(event);
        };
        let mut h2 = self.h2.borrow_mut();
        let used = h2.receive(&input, clock::now_ms(), &mut handler).map_err(|why| format!("{why:?}"))?;
        input.drain(..used);
        for (stream, octets) in consumed {
            h2.consumed(stream, octets);
        }
        drop(h2);
        self.stir();
        Ok(true)
    }

    /// The writer has something to look at.
    pub fn stir(&self) {
        self.stirred.set(true);
        // Both ends of a line are one task: the writer may have had its turn already.
        current_task().wake(Reason::YIELD);
    }

    /// Sends what there is. False when that failed.
    pub async fn flush(&self) -> bool {
        loop {
            let output = std::mem::take(self.h2.borrow_mut().output());
            if output.is_empty() {
                return true;
            }
            if !self.line.send(&output).await {
                return false;
            }
        }
    }

    /// Waits until something happened, or for a moment.
    pub async fn stirred(&self, until_ms: Option<u64>) {
        let stirred = std::future::poll_fn(|_| match self.stirred.replace(false) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        });
        let _ = timer::timeout_at(until_ms, stirred).await;
    }
}
