//! What the owner sends.

use super::*;
use crate::frame::HEADER_LEN;
use crate::message;
use thalweg_http::Method;

/// Why no stream can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// As many as the peer allows are open: one that ends makes room.
    Full,
    /// The connection ends, or has no ids left: another one is needed.
    Closing,
}

impl Connection {
    /// Opens a stream with a request. `end`: it has no body.
    ///
    /// # Errors
    /// [`OpenError`]; nothing was sent then.
    pub fn open(&mut self, head: &Head, scheme: &[u8], end: bool) -> Result<u32, OpenError> {
        if self.is_closing() || self.next_local > i32::MAX as u32 {
            return Err(OpenError::Closing);
        }
        if self.openable() == 0 {
            return Err(OpenError::Full);
        }
        let id = self.next_local;
        self.next_local += 2;
        let bodiless = head.method() == Method::Head;
        let stream = self.new_stream(id, Direction::Head);
        stream.bodiless = bodiless;
        stream.outgoing = if end { Direction::Ended } else { Direction::Body };
        self.put_block(id, end, |encoder, block| message::encode_request(head, scheme, encoder, block));
        Ok(id)
    }

    /// Sends the head of a response, interim ones included. False when the stream is gone.
    pub fn respond(&mut self, id: u32, head: &Head, end: bool) -> bool {
        let Some(stream) = self.streams.get_mut(id).filter(|s| s.outgoing == Direction::Head) else {
            return false;
        };
        if !thalweg_http::semantics::is_interim(head.status()) {
            stream.outgoing = if end { Direction::Ended } else { Direction::Body };
        }
        self.put_block(id, end, |encoder, block| message::encode_response(head, encoder, block));
        self.retire(id);
        true
    }

    /// Sends a trailer section, which ends the stream's direction. False when the stream is gone.
    pub fn send_trailers(&mut self, id: u32, trailers: &Head) -> bool {
        let Some(stream) = self.streams.get_mut(id).filter(|s| s.outgoing == Direction::Body) else {
            return false;
        };
        stream.outgoing = Direction::Ended;
        self.put_block(id, true, |encoder, block| message::encode_trailers(trailers, encoder, block));
        self.retire(id);
        true
    }

    /// Sends a header block as `encode` writes it.
    fn put_block(&mut self, id: u32, end: bool, encode: impl FnOnce(&mut Encoder, &mut Vec<u8>)) {
        let mut spare = SPARE.take().unwrap_or_default();
        let block = &mut spare.block;
        block.clear();
        encode(&mut self.encoder, block);
        frame::put_header_block(&mut self.output, id, block, end, self.remote.max_frame_size as usize);
        if block.capacity() > SPARE_BLOCK_MAX {
            *block = Vec::new();
        }
        SPARE.set(Some(spare));
    }

    /// Octets of payload that may be sent now, in as many DATA frames as it takes. When there is none, [`Event::Room`] tells when
    /// there is.
    pub fn window(&mut self, id: u32) -> usize {
        let connection = self.send.room();
        let Some(stream) = self.streams.get_mut(id) else { return 0 };
        let window = connection.min(stream.send.room());
        stream.blocked = window == 0;
        window
    }

    /// Octets of payload that the peer takes in one DATA frame.
    pub fn frame_max(&self) -> usize {
        self.remote.max_frame_size as usize
    }

    /// [`Connection::window`], of one DATA frame.
    pub fn room(&mut self, id: u32) -> usize {
        self.window(id).min(self.frame_max())
    }

    /// Whether so much payload of a stream that may have some is worth being sent from where it lies, as far as the windows
    /// allow: see [`Config::apart_min`]. Its frames are accounted for by [`Connection::data_header`].
    #[inline]
    pub fn leaves_apart(&mut self, id: u32, len: usize) -> bool {
        len >= self.config.apart_min
            && self.streams.get(id).is_some_and(|s| s.outgoing == Direction::Body)
            && self.window(id) >= self.config.apart_min
    }

    /// Accounts for a DATA frame of `len` octets, no more than [`Connection::room`], and returns what must be sent in
    /// front of them, behind all of the output so far. `None` when the stream is gone.
    pub fn data_header(&mut self, id: u32, len: usize, end: bool) -> Option<[u8; HEADER_LEN]> {
        let stream = self.streams.get_mut(id).filter(|s| s.outgoing == Direction::Body)?;
        debug_assert!(len <= self.send.room().min(stream.send.room()));
        stream.send.take(len);
        self.send.take(len);
        let is_cut = !end && stream.send.room().min(self.send.room()) == 0;
        self.budget.sent(len, is_cut);
        if !is_cut {
            self.pace.sent();
        }
        if end {
            stream.outgoing = Direction::Ended;
            self.retire(id);
        }
        Some(frame::data_header(id, len, end))
    }

    /// [`Connection::data_header`] with the payload copied into the output.
    pub fn send_data(&mut self, id: u32, payload: &[u8], end: bool) -> bool {
        let Some(header) = self.data_header(id, payload.len(), end) else { return false };
        self.output.extend_from_slice(&header);
        self.output.extend_from_slice(payload);
        true
    }

    /// The application consumed octets of [`Event::Data`]: the windows are opened again.
    pub fn consumed(&mut self, id: u32, octets: usize) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        let octets = octets.min(stream.unconsumed);
        stream.unconsumed -= octets;
        if let Some(more) = stream.receive.consume(octets)
            && stream.incoming != Direction::Ended
        {
            frame::put_window_update(&mut self.output, id, more);
        }
        if let Some(more) = self.receive.consume(octets) {
            frame::put_window_update(&mut self.output, 0, more);
        }
        self.retire(id);
    }

    /// Ends a stream at once. What of it was not consumed is given back to the connection's window.
    pub fn reset(&mut self, id: u32, code: ErrorCode) {
        let Some(stream) = self.streams.remove(id) else { return };
        if !stream.is_over() {
            self.put_reset(id, code);
            self.note_reset(id);
        }
        if let Some(more) = self.receive.consume(stream.unconsumed) {
            frame::put_window_update(&mut self.output, 0, more);
        }
    }

    /// Asks whether the peer is there; [`Event::Pong`] is the answer.
    pub fn ping(&mut self) {
        frame::put_ping(&mut self.output, *b"thalweg\0", false);
    }

    /// Announces that the connection will end: new streams are still served, so that none that is on its way is lost.
    /// [`Connection::goaway`] follows a round trip later.
    pub fn announce_end(&mut self) {
        if self.goaway_sent.is_none() {
            self.goaway_sent = Some(i32::MAX as u32);
            self.put_goaway(i32::MAX as u32, ErrorCode::NoError);
        }
    }

    /// Takes no new streams; those that are open go on.
    pub fn goaway(&mut self, code: ErrorCode) {
        if self.goaway_sent.is_none_or(|last| last > self.last_remote) {
            self.goaway_sent = Some(self.last_remote);
            self.put_goaway(self.last_remote, code);
        }
    }

    /// The streams that are open, for ending them one by one.
    pub fn stream_ids(&self) -> Vec<u32> {
        self.streams.ids().collect()
    }
}
