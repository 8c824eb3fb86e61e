//! Memory that a connection needs while it has streams. Most have none most of the time: their owner keeps it for those that have.

use super::Connection;
use super::stream::Streams;

/// What a connection without streams [gave back](Connection::rest), [to be lent](Connection::lend) to one that will have some.
pub struct Room {
    output: Vec<u8>,
    streams: Streams,
}

/// Octets of frames that there is room for, at most.
const OUTPUT_MAX: usize = 4096;
/// Records of streams that there is room for, at most.
const STREAMS_MAX: usize = 128;

impl Connection {
    /// Whether it has no memory for streams, which the first one would make.
    #[inline]
    pub fn lacks_room(&self) -> bool {
        self.streams.capacity() == 0
    }

    /// It may have streams soon. Of use to one that [lacks room](Connection::lacks_room).
    #[inline]
    pub fn lend(&mut self, room: Room) {
        let Room { output, streams } = room;
        if self.lacks_room() {
            // It has nothing that would have to be dropped: this is done for each request of who sends one at a time.
            std::mem::forget(std::mem::replace(&mut self.streams, streams));
        }
        if self.output.capacity() == 0 {
            std::mem::forget(std::mem::replace(&mut self.output, output));
        }
    }

    /// It may wait for long: the memory that only streams need, unless there are some, or frames that were not sent, or it lacks
    /// room already. More than most need is given to the allocator.
    pub fn rest(&mut self) -> Option<Room> {
        if self.lacks_room() || self.streams.len() > 0 || !self.output.is_empty() {
            return None;
        }
        let mut room =
            Room { output: std::mem::take(&mut self.output), streams: std::mem::take(&mut self.streams) };
        if room.output.capacity() > OUTPUT_MAX {
            room.output = Vec::new();
        }
        if room.streams.capacity() > STREAMS_MAX {
            room.streams = Streams::default();
        }
        Some(room)
    }
}
