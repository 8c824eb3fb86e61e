//! Rings: bounded memory of log lines, which the newest ones push the oldest out of, and the servers they feed.
//!
//! Writers never wait: a line goes in, whatever the servers do. A server that is slower than the lines come loses
//! the oldest ones it has not read, and they are counted.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::task::Poll;

use super::backend::socket_address;
use thalweg_config::model::{ProxyId, Server, ServerId, Shared};
use thalweg_runtime::net::SockAddr;
use thalweg_runtime::{Reason, TaskId, current_task};
use thalweg_shared::{AtomicU64, Mutex, MutexGuard, Ordering};

/// Lines in memory. Shared by all threads; the lock is held while one line is copied.
pub struct Ring {
    size: usize,
    maxlen: usize,
    lines: Mutex<Lines>,
    /// Lines pushed out before a server had read them.
    lost: AtomicU64,
}

#[derive(Default)]
struct Lines {
    bytes: VecDeque<u8>,
    lens: VecDeque<u32>,
    /// Number of the line that comes next; the oldest one kept is `next - lens.len()`.
    next: u64,
    waiting: Vec<TaskId>,
}

impl Lines {
    fn first(&self) -> u64 {
        self.next - self.lens.len() as u64
    }
}

/// How lines are told apart (for servers, RFC 6587 section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Each line ends with a line feed.
    LineFeed,
    /// Each line ends with the byte 0.
    Nul,
    /// The length in decimal and a blank come before each line.
    OctetCount,
}

impl Ring {
    /// An empty ring of `size` bytes for lines of at most `maxlen` bytes.
    pub fn new(size: usize, maxlen: usize) -> Ring {
        Ring { size: size.max(1), maxlen: maxlen.max(1), lines: Mutex::default(), lost: AtomicU64::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line, cut at the ring's longest, in place of the oldest ones if need be. False when it does not fit
    /// into the whole ring. Must be called on a thread of the runtime, because servers that wait are woken.
    pub fn push(&self, line: &[u8]) -> bool {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = &line[..line.len().min(self.maxlen)];
        // What a line needs besides its bytes counts too, so that empty lines are bounded as well.
        let cost = |len: usize| len + size_of::<u32>();
        if cost(line.len()) > self.size {
            return false;
        }
        let waiting = {
            let mut lines = self.lock();
            while lines.bytes.len() + size_of::<u32>() * lines.lens.len() + cost(line.len()) > self.size {
                let Some(len) = lines.lens.pop_front() else { break };
                lines.bytes.drain(..len as usize);
            }
            lines.bytes.extend(line);
            lines.lens.push_back(u32::try_from(line.len()).unwrap_or(u32::MAX));
            lines.next += 1;
            std::mem::take(&mut lines.waiting)
        };
        waiting.into_iter().for_each(|task| task.wake(Reason::OTHER));
        true
    }

    /// So many lines were pushed out before a server had read them.
    pub fn count_lost(&self, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
    }

    /// Lines that were pushed out before a server had read them.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The numbers of the oldest line that is kept, and of the one that comes next.
    pub fn bounds(&self) -> (u64, u64) {
        let lines = self.lock();
        (lines.first(), lines.next)
    }

    /// Appends the lines from `cursor` on to `out`, framed, up to about `max` bytes, and moves the cursor. Those that were
    /// pushed out before are passed over; returns how many.
    pub fn read(&self, cursor: &mut u64, framing: Framing, max: usize, out: &mut Vec<u8>) -> u64 {
        let lines = self.lock();
        let first = lines.first();
        let missed = first.saturating_sub(*cursor);
        *cursor = first.max(*cursor);
        let skip = usize::try_from(*cursor - first).unwrap_or(usize::MAX);
        let mut start: usize = lines.lens.iter().take(skip).map(|len| *len as usize).sum();
        for len in lines.lens.iter().skip(skip).map(|len| *len as usize) {
            if out.len() >= max {
                break;
            }
            if framing == Framing::OctetCount {
                out.extend_from_slice(format!("{len} ").as_bytes());
            }
            out.extend(lines.bytes.range(start..start + len));
            match framing {
                Framing::LineFeed => out.push(b'\n'),
                Framing::Nul => out.push(0),
                Framing::OctetCount => {}
            }
            start += len;
            *cursor += 1;
        }
        missed
    }

    /// Whether there are lines from `cursor` on; if not, the calling task is woken by the next one.
    pub fn poll_lines(&self, cursor: u64) -> Poll<()> {
        let mut lines = self.lock();
        if cursor < lines.next {
            return Poll::Ready(());
        }
        let task = current_task();
        if !lines.waiting.contains(&task) {
            lines.waiting.push(task);
        }
        Poll::Pending
    }
}

/// A server that a ring feeds.
pub struct Feed {
    pub ring: Arc<Ring>,
    /// Where it is, unless it moved since the start.
    pub address: SockAddr,
    /// What its line says of connections to it.
    pub server: Shared<Server>,
    /// Whose address operators may change; servers of rings stay where they are.
    pub movable: Option<(ProxyId, ServerId)>,
    pub framing: Framing,
    pub connect_ms: Option<u64>,
    /// How long data may wait to be taken by the server.
    pub send_ms: Option<u64>,
}

impl Feed {
    /// What feeds a server of these lines; `None` for an address that the configuration refuses.
    pub(super) fn of(
        ring: &Arc<Ring>,
        server: &Shared<Server>,
        timeouts: (Option<u64>, Option<u64>),
    ) -> Option<Feed> {
        Some(Feed {
            ring: Arc::clone(ring),
            address: socket_address(&server.addr)?,
            server: server.clone(),
            movable: None,
            framing: if server.rare().octet_count { Framing::OctetCount } else { Framing::LineFeed },
            connect_ms: timeouts.0,
            send_ms: timeouts.1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that are read at once.
    const BATCH_MAX: usize = 16 * 1024;

    fn read(ring: &Ring, cursor: &mut u64, framing: Framing) -> String {
        let mut out = Vec::new();
        ring.read(cursor, framing, BATCH_MAX, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn both_framings() {
        let ring = Ring::new(1000, 100);
        assert!(ring.push(b"one\n") && ring.push(b"") && ring.push(b"three"));
        assert_eq!(read(&ring, &mut 0, Framing::LineFeed), "one\n\nthree\n");
        assert_eq!(read(&ring, &mut 0, Framing::OctetCount), "3 one0 5 three");
        assert_eq!(read(&ring, &mut 0, Framing::Nul), "one\0\0three\0");
    }

    #[test]
    fn each_line_is_read_once() {
        let ring = Ring::new(1000, 100);
        let mut cursor = 0;
        ring.push(b"a");
        assert_eq!(read(&ring, &mut cursor, Framing::LineFeed), "a\n");
        assert_eq!(read(&ring, &mut cursor, Framing::LineFeed), "");
        ring.push(b"b");
        assert_eq!(read(&ring, &mut cursor, Framing::LineFeed), "b\n");
    }

    #[test]
    fn the_newest_push_the_oldest_out_and_readers_learn_what_they_missed() {
        // Each line takes one byte and the four of its length: three fit.
        let ring = Ring::new(15, 100);
        let mut cursor = 0;
        for line in [b"a", b"b", b"c", b"d", b"e"] {
            assert!(ring.push(line));
        }
        let mut out = Vec::new();
        assert_eq!(ring.read(&mut cursor, Framing::LineFeed, BATCH_MAX, &mut out), 2);
        assert_eq!((&out[..], ring.bounds()), (&b"c\nd\ne\n"[..], (2, 5)));
        assert_eq!(ring.lost(), 0, "only what a server misses is lost");
    }

    #[test]
    fn long_lines_are_cut_and_what_never_fits_is_refused() {
        let ring = Ring::new(20, 5);
        assert!(ring.push(b"abcdefgh"));
        assert_eq!(read(&ring, &mut 0, Framing::LineFeed), "abcde\n");
        assert!(!Ring::new(6, 100).push(b"abc"));
    }
}
