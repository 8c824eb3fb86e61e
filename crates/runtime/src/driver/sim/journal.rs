//! What happened in a run, in words and in order, for whoever repeats a seed to see why it failed.

use super::world::{EndpointId, Event, World};
use std::fmt::Write;

/// Bytes of a message that an entry shows.
const SHOWN: usize = 72;

/// Entries kept; a run that goes on for ever must not take all memory.
const ENTRIES_MAX: usize = 2_000_000;

/// The entries so far. Nothing is rendered while nobody wants it.
#[derive(Default)]
pub(crate) struct Journal {
    wanted: bool,
    /// The nanosecond and the text of each.
    pub entries: Vec<(u64, String)>,
}

impl Journal {
    pub fn start(&mut self) {
        self.wanted = true;
    }
}

impl World {
    /// Adds an entry.
    pub fn write_down(&mut self, text: impl FnOnce(&World) -> String) {
        if self.journal.wanted && self.journal.entries.len() < ENTRIES_MAX {
            let text = text(self);
            self.journal.entries.push((self.now_ns, text));
        }
    }

    /// An endpoint as entries name it: its number and its addresses.
    pub fn name_of(&self, id: EndpointId) -> String {
        match self.endpoints.get(&id) {
            Some(e) => format!("#{id} {} <- {}", e.local, e.remote),
            None => format!("#{id} (closed)"),
        }
    }

    /// Adds what is about to happen.
    pub fn write_event(&mut self, event: &Event) {
        self.write_down(|world| {
            let name = |id: &EndpointId| world.name_of(*id);
            match event {
                Event::Request(id) => format!("net   {} asks for a connection", name(id)),
                Event::Answer(id, 0) => format!("net   {} is connected", name(id)),
                Event::Answer(id, error) => {
                    let error = std::io::Error::from_raw_os_error(*error);
                    format!("net   {} is not connected: {error}", name(id))
                }
                Event::Bytes(id, bytes) => {
                    format!("net   {} gets {} bytes: {}", name(id), bytes.len(), preview(bytes))
                }
                Event::Room(id, n) => format!("net   {} has room for {n} bytes more", name(id)),
                Event::End(id) => format!("net   {} gets the end", name(id)),
                Event::Reset(id) => format!("net   {} is reset", name(id)),
                Event::Datagram(id, from, bytes) => {
                    format!("net   {} gets a datagram of {from}: {}", name(id), preview(bytes))
                }
            }
        });
    }
}

/// The beginning of a message on one line.
fn preview(bytes: &[u8]) -> String {
    let mut out = String::new();
    for b in &bytes[..bytes.len().min(SHOWN)] {
        match b {
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            b' '..=b'~' => out.push(char::from(*b)),
            other => _ = write!(out, "\\x{other:02x}"),
        }
    }
    if bytes.len() > SHOWN {
        out.push_str("...");
    }
    out
}
