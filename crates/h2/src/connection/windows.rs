//! Windows that the peer gives (RFC 9113 section 6.9).

use super::*;
use crate::frame::Header;

/// Window updates below this are hardly worth their frame.
const TINY_INCREMENT: u32 = 64;
/// Octets of a window, below which a peer that has used it up lets payload out by the drop (CVE-2019-9511).
const DRIBBLE: usize = 256;
/// How much more that costs than a small increment of a window that is not used up.
const DRIBBLE_TIMES: u32 = 4;

impl Connection {
    /// Whether an increment opens a window only so far that next to nothing can be sent.
    fn lets_dribble(&self, id: u32, increment: u32) -> bool {
        let room = match id {
            0 if self.streams.len() == 0 => return false,
            0 => self.send.room(),
            _ => match self.streams.get(id) {
                Some(stream) if stream.outgoing != Direction::Ended => stream.send.room(),
                _ => return false,
            },
        };
        room + (increment as usize) < DRIBBLE
    }

    pub(super) fn window_update(
        &mut self,
        header: &Header,
        payload: &[u8],
        now_ms: u64,
        handler: &mut impl Handler,
    ) -> Result<(), Failure> {
        let increment = frame::window_update(payload)?;
        match increment {
            // A breach, which has its own price.
            0 => {}
            _ if self.lets_dribble(header.stream, increment) => {
                self.budget.pay_times(DRIBBLE_TIMES, Abuse::TinyWindow, now_ms)?;
            }
            1..TINY_INCREMENT => self.budget.pay(Abuse::TinyWindow, now_ms)?,
            _ => self.budget.pay(Abuse::Window, now_ms)?,
        }
        if header.stream == 0 {
            if increment == 0 {
                // PROTOCOL_ERROR (RFC 9113 section 6.9).
                return Err(Failure::UnexpectedFrame);
            }
            self.send.give(i64::from(increment)).map_err(|_| Failure::FlowControl)?;
            self.tell_room(handler);
            return Ok(());
        }
        let id = header.stream;
        if self.is_unused(id) {
            return Err(Failure::UnexpectedFrame);
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(self.budget.pay(Abuse::Noise, now_ms)?);
        };
        if increment == 0 {
            return self.reset_for(id, ErrorCode::ProtocolError, now_ms, handler);
        }
        if stream.send.give(i64::from(increment)).is_err() {
            return self.reset_for(id, ErrorCode::FlowControlError, now_ms, handler);
        }
        if stream.blocked && self.send.room() > 0 && stream.send.room() > 0 {
            stream.blocked = false;
            handler.on(Event::Room { stream: id });
        }
        Ok(())
    }

    /// Tells every stream that waited for a window and has one now.
    pub(super) fn tell_room(&mut self, handler: &mut impl Handler) {
        if self.send.room() == 0 {
            return;
        }
        for stream in self.streams.iter_mut().filter(|s| s.blocked && s.send.room() > 0) {
            stream.blocked = false;
            handler.on(Event::Room { stream: stream.id });
        }
    }
}
