//! `filter trace`: tells what passes, on the standard error stream, and may let it pass in random pieces.

use std::fmt::Write;
use std::sync::Arc;

use thalweg_config::model::{Mode, Proxy, TraceFilter};
use thalweg_runtime::clock;
use thalweg_sys::fd::complain;

use super::Direction;

/// Bytes in a line of a dump.
const DUMP_WIDTH: usize = 16;

/// See the module's documentation.
pub struct Trace {
    name: Arc<str>,
    proxy: Arc<str>,
    quiet: bool,
    hexdump: bool,
    max_forward: u32,
    /// The state of the random numbers; 0: everything passes.
    random: u64,
    direction: Direction,
    is_http: bool,
    /// Payload that passed.
    offset: u64,
}

impl Trace {
    /// The filter on one direction of a stream through `proxy`. `random` seeds its pieces.
    pub fn new(filter: &TraceFilter, proxy: &Proxy, direction: Direction, random: u64) -> Trace {
        Trace {
            name: Arc::clone(&filter.name),
            proxy: Arc::clone(&proxy.name),
            quiet: filter.quiet,
            hexdump: filter.hexdump,
            max_forward: filter.max_forward,
            random: if filter.random_forwarding { random | 1 } else { 0 },
            direction,
            is_http: proxy.mode == Mode::Http,
            offset: 0,
        }
    }

    /// How many of `len` bytes pass at a time.
    pub fn room(&mut self, len: usize) -> usize {
        let mut room = len;
        if self.random != 0 {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            room = 1 + usize::try_from(self.random % len.max(1) as u64).unwrap_or(0);
        }
        match self.max_forward {
            0 => room,
            max => room.min(max as usize),
        }
    }

    /// So much passed, of `len` bytes that there were.
    pub fn passed(&mut self, data: &[u8], len: usize) {
        if !self.quiet {
            let event = if self.is_http { "trace_http_payload" } else { "trace_tcp_payload" };
            let (offset, forward) = (self.offset, data.len());
            let mut text = self.line(event, &format!(" - offset={offset} - len={len} - forward={forward}"));
            if self.hexdump {
                dump(&mut text, data);
            }
            complain(text.as_bytes());
        }
        self.offset += data.len() as u64;
    }

    /// The payload is over.
    pub fn end(&mut self) {
        if !self.quiet && self.is_http {
            complain(self.line("trace_http_end", "").as_bytes());
        }
    }

    fn line(&self, event: &str, more: &str) -> String {
        let now_us = clock::wall_us();
        let channel = match self.direction {
            Direction::Request => "REQUEST",
            Direction::Response => "RESPONSE",
        };
        let mode = if self.is_http { "HTTP" } else { "TCP" };
        let title = format!("{}/{}", self.name, self.proxy);
        format!(
            "{}.{:06} [{title:<20}] {event:<25}: channel={channel:<10} - mode={mode}{more}\n",
            now_us / 1_000_000,
            now_us % 1_000_000
        )
    }
}

/// Bytes as hexadecimal digits and as text.
fn dump(out: &mut String, data: &[u8]) {
    for (n, row) in data.chunks(DUMP_WIDTH).enumerate() {
        let digits: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown: String =
            row.iter().map(|byte| if (32..127).contains(byte) { char::from(*byte) } else { '.' }).collect();
        // Writing to a string does not fail.
        let _ = writeln!(out, "\t{:06x}: {:<47}  |{shown}|", n * DUMP_WIDTH, digits.join(" "));
    }
}
