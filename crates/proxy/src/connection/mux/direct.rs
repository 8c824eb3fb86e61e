//! Payload that leaves from where it was received: one call sends what waits, and behind it frames whose headers lie elsewhere.
//!
//! What is copied together with other frames is read and written once more, and of a large body that is most of what there is
//! to do. The call takes what the kernel has room for. Frames of which it took nothing were never made: their payload
//! stays with the stream, and windows know nothing of it. The rest of one that it took a part of is copied, and waits for room.

use std::io;
use std::ops::Range;
use std::task::Poll;

use thalweg_h2::connection::Connection;
use thalweg_h2::frame::{self, HEADER_LEN};
use thalweg_runtime::buffer::{BULK_SIZE, Buf, default_size};
use thalweg_runtime::clock;

use super::slot::{Finish, Slot};
use super::{FRAME_MIN, OUTPUT_HIGH};
use crate::connection::line::Line;
use crate::connection::transport::Transport;
use crate::traces::Frames;

/// Most frames of one call: so many that a bulk buffer leaves with it.
const FRAMES_MAX: usize = BULK_SIZE.div_ceil(FRAME_MIN as usize);

/// DATA frames of a stream's payload, which are not made before the kernel took some of them.
struct Planned {
    id: u32,
    len: usize,
    frame_max: usize,
    /// The message ends with the last one.
    ends: bool,
}

impl Planned {
    fn count(&self) -> usize {
        self.len.div_ceil(self.frame_max).min(FRAMES_MAX)
    }

    /// The payload of one.
    fn range(&self, n: usize) -> Range<usize> {
        n * self.frame_max..self.len.min((n + 1) * self.frame_max)
    }

    fn is_last(&self, n: usize) -> bool {
        self.ends && n + 1 == self.count()
    }

    fn header(&self, n: usize) -> [u8; HEADER_LEN] {
        frame::data_header(self.id, self.range(n).len(), self.is_last(n))
    }
}

/// Sends the output, and behind it payload of a stream that [leaves apart](Slot::leaves_apart), as far as its windows allow.
/// No send is in flight. Whether another one may follow at once.
///
/// # Errors
/// Why the connection broke.
pub fn send(line: &mut Line, h2: &mut Connection, slot: &mut Slot, told: &mut Frames) -> io::Result<bool> {
    let Some(mut payload) = slot.outgoing.take() else { return Ok(true) };
    // What is encrypted is so in memory, which should stay in the cache.
    let most = if line.wire().is_some_and(Transport::is_encrypted) { OUTPUT_HIGH } else { BULK_SIZE };
    let len = payload.len().min(h2.window(slot.id)).min(most);
    let ends = len == payload.len() && slot.ends_behind_payload();
    let planned = Planned { id: slot.id, len, frame_max: h2.frame_max(), ends };
    let count = planned.count();
    let mut headers = [[0; HEADER_LEN]; FRAMES_MAX];
    for (n, header) in headers[..count].iter_mut().enumerate() {
        *header = planned.header(n);
    }
    let mut parts: [&[u8]; 1 + 2 * FRAMES_MAX] = [&[]; 1 + 2 * FRAMES_MAX];
    let output = h2.output();
    parts[0] = output;
    for (n, header) in headers[..count].iter().enumerate() {
        parts[1 + 2 * n] = header;
        parts[2 + 2 * n] = &payload[planned.range(n)];
    }
    let taken = line.send_at_once(&parts[..1 + 2 * count])?;
    told.note_sent(output);
    let waits = taken < output.len();
    let mut rest = waits.then(|| gathered(&output[taken..]));
    let mut left = taken.saturating_sub(output.len());
    output.clear();
    // Where nothing at all was taken, it is the first frame that waits for room.
    let mut due = left > 0 || taken == 0;
    let (mut done, mut made) = (0, 0);
    while !waits && due && made < count {
        let (header, range) = (&headers[made], planned.range(made));
        h2.data_header(slot.id, range.len(), planned.is_last(made));
        told.note_sent(header);
        done = range.end;
        made += 1;
        if left < HEADER_LEN + range.len() {
            rest = Some(behind(left, header, &payload[range]));
            break;
        }
        left -= HEADER_LEN + range.len();
        due = left > 0;
    }
    slot.sent_ms = clock::now_ms();
    if ends && done == len {
        slot.finish = Finish::Done;
    }
    payload.advance(done);
    slot.outgoing = Some(payload).filter(|payload| !payload.is_empty());
    let whole = rest.is_none() && done == len;
    if let Some(rest) = rest {
        line.start_send(rest);
    }
    // What was encrypted may be on its way still.
    match line.poll_send_ready() {
        Poll::Ready(ready) => ready.map(|()| whole),
        Poll::Pending => Ok(false),
    }
}

/// What a frame has behind its first octets, in a buffer of its own.
fn behind(taken: usize, header: &[u8], payload: &[u8]) -> Buf {
    let frame = [header, payload].concat();
    gathered(&frame[taken..])
}

/// The frames that wait, in a buffer of their own.
pub(super) fn gathered(output: &[u8]) -> Buf {
    let buf = if output.len() <= default_size() { Buf::from_reserve() } else { Buf::bulk() };
    let filled = buf.and_then(|mut buf| buf.extend_from_slice(output).is_ok().then_some(buf));
    filled.unwrap_or_else(|| Buf::copy_of(output))
}
