//! What received frames do.

use super::*;
use crate::budget::SMALL_DATA;
use crate::frame::{HEADER_LEN, Header, Kind, PayloadError, flag};
use crate::hpack::Name;
use crate::message::{Expect, Reader};

/// A block this many times as long as a head, which compression never makes it.
const BLOCK_SHARE: usize = 2;
/// A list this many times as long as a head may be was made to be.
const LIST_SHARE: usize = 4;
/// CONTINUATION frames of a block; more are a flood, however small.
const CONTINUATIONS_MAX: u32 = 64;

impl From<PayloadError> for Failure {
    fn from(error: PayloadError) -> Failure {
        match error {
            PayloadError::Length => Failure::FrameSize,
            PayloadError::Padding => Failure::Padding,
            PayloadError::SelfDependency => Failure::UnexpectedFrame,
        }
    }
}

impl Connection {
    /// Takes received octets. Returns how many were used; the rest is the beginning of a frame (of at most 9 octets and
    /// the largest frame that our settings allow), and must be given again with what follows it.
    ///
    /// # Errors
    /// Why the connection ends. The GOAWAY frame that says so is in the output; every stream is gone.
    pub fn receive(
        &mut self,
        input: &[u8],
        now_ms: u64,
        handler: &mut impl Handler,
    ) -> Result<usize, Failure> {
        if let Some(failure) = self.failed {
            return Err(failure);
        }
        let mut used = 0;
        // What waits already is of our own making, and its owner knows when it is too much.
        let output_max = self.output.len() + OUTPUT_MAX;
        let limit = |most: u32| if most == 0 { u32::MAX } else { most };
        if self.rests_until(now_ms).is_some() {
            return Ok(0);
        }
        self.turn = (limit(self.config.frames_at_once), limit(self.config.resets_at_once));
        while !self.is_paused() {
            match self.step(&input[used..], now_ms, handler) {
                Ok(0) => break,
                Ok(n) => used += n,
                Err(failure) => {
                    self.fail(failure);
                    return Err(failure);
                }
            }
            if self.output.len() > output_max {
                self.fail(Failure::NotReading);
                return Err(Failure::NotReading);
            }
        }
        self.pace.received(now_ms);
        Ok(used)
    }

    fn fail(&mut self, failure: Failure) {
        self.failed = Some(failure);
        if failure.excess().is_none() {
            self.budget.note_breach();
        }
        self.tally.connection_errors += 1;
        if failure != Failure::Preface {
            self.put_goaway(self.last_remote, failure.code());
        }
    }

    /// One preface, one frame, or a part of a DATA frame. 0: more octets are needed.
    fn step(&mut self, input: &[u8], now_ms: u64, handler: &mut impl Handler) -> Result<usize, Failure> {
        if self.data.is_some() {
            return self.data_part(input, now_ms, handler);
        }
        if self.expected == Expected::Preface {
            return self.preface(input);
        }
        let Some((bytes, rest)) = input.split_first_chunk::<HEADER_LEN>() else { return Ok(0) };
        let header = Header::parse(bytes);
        self.in_head = header.kind == Kind::Headers || self.block.is_some();
        if header.len > self.config.settings.max_frame_size as usize {
            return Err(Failure::FrameSize);
        }
        if self.expected == Expected::Settings && (header.kind != Kind::Settings || header.has(flag::ACK)) {
            return Err(Failure::NoSettings);
        }
        let in_block = self.block.as_ref().is_some_and(|block| block.stream == header.stream);
        if self.block.is_some() != (header.kind == Kind::Continuation) || (self.block.is_some() && !in_block)
        {
            return Err(Failure::UnexpectedFrame);
        }
        if header.kind == Kind::Data {
            // With its padding, which says how long the payload is.
            if rest.is_empty() && header.has(flag::PADDED) && header.len > 0 {
                return Ok(0);
            }
            handler.frame(&header);
            self.tally.data += 1;
            return self.data_begins(&header, rest, now_ms, handler);
        }
        let Some(payload) = rest.get(..header.len) else { return Ok(0) };
        handler.frame(&header);
        self.turn.0 -= 1;
        self.count(header.kind);
        match header.kind {
            Kind::Headers => self.headers(&header, payload, now_ms, handler)?,
            Kind::Continuation => self.continuation(&header, payload, now_ms, handler)?,
            Kind::Priority => {
                self.on_stream(&header)?;
                match frame::priority(&header, payload) {
                    // RST_STREAM must not be sent on an idle stream.
                    Err(error) if self.is_unused(header.stream) => return Err(error.into()),
                    Ok(()) => self.budget.pay(Abuse::Noise, now_ms)?,
                    Err(error) => self.reset_for(header.stream, error.code(), now_ms, handler)?,
                }
            }
            Kind::RstStream => {
                self.turn.1 -= 1;
                self.rst_stream(&header, payload, now_ms, handler)?;
            }
            Kind::Settings => self.settings(&header, payload, now_ms, handler)?,
            // We never allow any.
            Kind::PushPromise => return Err(Failure::UnexpectedFrame),
            Kind::Ping => {
                self.on_connection(&header)?;
                let payload = frame::ping(payload)?;
                if header.has(flag::ACK) {
                    self.budget.pay(Abuse::Noise, now_ms)?;
                    handler.on(Event::Pong);
                } else {
                    self.budget.pay(Abuse::Ping, now_ms)?;
                    frame::put_ping(&mut self.output, payload, true);
                }
            }
            Kind::Goaway => {
                self.on_connection(&header)?;
                let (last, code) = frame::goaway(payload)?;
                self.budget.pay(Abuse::Noise, now_ms)?;
                let last = self.goaway_received.map_or(last, |before| before.min(last));
                self.goaway_received = Some(last);
                handler.on(Event::Goaway { last, code });
            }
            Kind::WindowUpdate => self.window_update(&header, payload, now_ms, handler)?,
            Kind::Unknown(_) => self.budget.pay(Abuse::Noise, now_ms)?,
            Kind::Data => {}
        }
        Ok(HEADER_LEN + header.len)
    }

    fn preface(&mut self, input: &[u8]) -> Result<usize, Failure> {
        let len = input.len().min(PREFACE.len());
        if input[..len] != PREFACE[..len] {
            return Err(Failure::Preface);
        }
        if len < PREFACE.len() {
            return Ok(0);
        }
        self.expected = Expected::Settings;
        Ok(len)
    }

    fn count(&mut self, kind: Kind) {
        match kind {
            Kind::Headers => self.tally.headers += 1,
            Kind::Settings => self.tally.settings += 1,
            Kind::RstStream => self.tally.resets += 1,
            Kind::Goaway => self.tally.goaways += 1,
            _ => {}
        }
    }

    fn on_connection(&self, header: &Header) -> Result<(), Failure> {
        if header.stream == 0 { Ok(()) } else { Err(Failure::StreamId) }
    }

    fn on_stream(&self, header: &Header) -> Result<(), Failure> {
        if header.stream != 0 { Ok(()) } else { Err(Failure::StreamId) }
    }

    /// Ends a stream for an error of the peer.
    pub(super) fn reset_for(
        &mut self,
        id: u32,
        code: ErrorCode,
        now_ms: u64,
        handler: &mut impl Handler,
    ) -> Result<(), Failure> {
        self.budget.pay(Abuse::ForcedReset, now_ms)?;
        self.tally.stream_errors += 1;
        if self.is_unused(id) {
            // RST_STREAM must not be sent on an idle stream.
            return Err(Failure::UnexpectedFrame);
        }
        self.put_reset(id, code);
        self.note_reset(id);
        if self.streams.remove(id).is_some() {
            handler.on(Event::Reset { stream: id, code, by_peer: false });
        }
        Ok(())
    }

    // ---- DATA ----

    /// A DATA frame that is there as a whole, without padding, of a stream that takes it: nearly all are like that. `None`, and nothing
    /// is changed, for any other.
    #[inline]
    fn usual_data(
        &mut self,
        header: &Header,
        rest: &[u8],
        now_ms: u64,
        handler: &mut impl Handler,
    ) -> Option<usize> {
        let payload = rest.get(..header.len)?;
        let end = header.has(flag::END_STREAM);
        let stream = self.streams.get_mut(header.stream)?;
        let takes_it = stream.incoming == Direction::Body && !stream.bodiless;
        let fits = self.receive.has_room(payload.len()) && stream.receive.has_room(payload.len());
        if payload.is_empty() || header.has(flag::PADDED) || !takes_it || !fits {
            return None;
        }
        stream.expected = stream.expected_behind(payload.len(), end).ok()?;
        // There is room.
        let _ = (self.receive.take(payload.len()), stream.receive.take(payload.len()));
        stream.unconsumed += payload.len();
        if end {
            stream.incoming = Direction::Ended;
        }
        self.grow_window();
        self.turn.0 -= 1;
        if payload.len() < SMALL_DATA && !end && !self.pace.small(now_ms) {
            self.turn.0 = 0;
        }
        handler.on(Event::Data { stream: header.stream, data: payload, end });
        Some(HEADER_LEN + header.len)
    }

    /// Makes the window of the connection what it is to be, once something came.
    #[inline]
    fn grow_window(&mut self) {
        if let Some(more) = self.receive.grow_to(self.config.window) {
            frame::put_window_update(&mut self.output, 0, more);
        }
    }

    fn data_begins(
        &mut self,
        header: &Header,
        rest: &[u8],
        now_ms: u64,
        handler: &mut impl Handler,
    ) -> Result<usize, Failure> {
        if let Some(used) = self.usual_data(header, rest, now_ms, handler) {
            return Ok(used);
        }
        self.on_stream(header)?;
        self.turn.0 -= 1;
        let id = header.stream;
        let (padding, used) = match (header.has(flag::PADDED), rest.first()) {
            (false, _) => (0, 0),
            (true, Some(padding)) => (*padding, 1),
            (true, None) if header.len > 0 => return Ok(0),
            (true, None) => return Err(Failure::FrameSize),
        };
        if header.len < used {
            return Err(Failure::FrameSize);
        }
        let left = (header.len - used).checked_sub(padding.into()).ok_or(Failure::Padding)?;
        if self.is_unused(id) {
            return Err(Failure::UnexpectedFrame);
        }
        self.receive.take(header.len).map_err(|_| Failure::FlowControl)?;
        self.grow_window();
        let end = header.has(flag::END_STREAM);
        if left == 0 && !end {
            self.budget.pay(Abuse::EmptyData, now_ms)?;
        }
        let accepted = match self.streams.get_mut(id).filter(|s| s.incoming == Direction::Body) {
            Some(stream) => {
                stream.receive.take(header.len).map_err(|_| Failure::FlowControl)?;
                true
            }
            None => {
                self.budget.pay(Abuse::Noise, now_ms)?;
                false
            }
        };
        // Padding and its length are consumed by being read.
        self.give_back(id, used + usize::from(padding), accepted);
        let fits = !accepted || self.is_as_announced(id, left, end);
        if !fits {
            self.reset_for(id, ErrorCode::ProtocolError, now_ms, handler)?;
        }
        let ignored = !accepted || !fits;
        if !ignored && (1..SMALL_DATA).contains(&left) && !end && !self.pace.small(now_ms) {
            self.turn.0 = 0;
        }
        let data = DataFrame { stream: id, left: left as u32, padding, end, ignored };
        if left == 0 {
            self.data_arrived(&data, &[], now_ms, handler)?;
        }
        self.data = (left > 0 || padding > 0).then_some(data);
        Ok(HEADER_LEN + used)
    }

    /// What a message announced and what it delivers must be the same (rule R2); known before the first octet is told.
    fn is_as_announced(&mut self, id: u32, octets: usize, end: bool) -> bool {
        let Some(stream) = self.streams.get_mut(id) else { return false };
        match stream.expected_behind(octets, end) {
            Ok(expected) => {
                stream.expected = expected;
                true
            }
            Err(NotAnnounced) => false,
        }
    }

    /// A part of the payload or padding of the DATA frame at hand.
    fn data_part(&mut self, input: &[u8], now_ms: u64, handler: &mut impl Handler) -> Result<usize, Failure> {
        let Some(mut data) = self.data else { return Ok(0) };
        let (part, rest) = input.split_at(input.len().min(data.left as usize));
        if !part.is_empty() {
            data.left -= part.len() as u32;
            self.data = Some(data);
            self.data_arrived(&data, part, now_ms, handler)?;
        }
        let padding = if data.left == 0 { rest.len().min(data.padding.into()) } else { 0 };
        data.padding -= padding as u8;
        self.data = (data.left > 0 || data.padding > 0).then_some(data);
        Ok(part.len() + padding)
    }

    /// Payload of a DATA frame, of which `data.left` is still to come.
    fn data_arrived(
        &mut self,
        data: &DataFrame,
        part: &[u8],
        now_ms: u64,
        handler: &mut impl Handler,
    ) -> Result<(), Failure> {
        let whole = data.left == 0;
        if data.ignored {
            return self.ignored_data(data.stream, part.len(), whole, now_ms, handler);
        }
        if !part.is_empty() && self.streams.get(data.stream).is_some_and(|stream| stream.bodiless) {
            // A response that has no body has none, whatever comes with it (RFC 9110 section 6.4.1).
            self.budget.pay(Abuse::Glitch, now_ms)?;
            self.give_back(data.stream, part.len(), true);
            if whole && data.end {
                self.deliver(data.stream, &[], true, handler);
            }
            return Ok(());
        }
        if part.is_empty() && !data.end {
            return Ok(());
        }
        self.deliver(data.stream, part, whole && data.end, handler);
        Ok(())
    }

    /// Data of a stream that is gone, or of one whose sender had ended it.
    fn ignored_data(
        &mut self,
        id: u32,
        octets: usize,
        over: bool,
        now_ms: u64,
        handler: &mut impl Handler,
    ) -> Result<(), Failure> {
        self.give_back(id, octets, false);
        if over && !self.was_reset(id) {
            let code = match self.streams.get(id) {
                Some(stream) if stream.incoming == Direction::Head => ErrorCode::ProtocolError,
                _ => ErrorCode::StreamClosed,
            };
            self.reset_for(id, code, now_ms, handler)?;
        }
        Ok(())
    }

    fn deliver(&mut self, id: u32, part: &[u8], ends: bool, handler: &mut impl Handler) {
        // A stream may have been reset between two parts of a frame.
        let Some(stream) = self.streams.get_mut(id) else {
            self.give_back(id, part.len(), false);
            return;
        };
        stream.unconsumed += part.len();
        if ends {
            stream.incoming = Direction::Ended;
        }
        handler.on(Event::Data { stream: id, data: part, end: ends });
        self.retire(id);
    }

    /// Octets were consumed without the application: the windows are opened again.
    fn give_back(&mut self, id: u32, octets: usize, to_stream: bool) {
        if octets == 0 {
            return;
        }
        if let Some(more) = self.receive.consume(octets) {
            frame::put_window_update(&mut self.output, 0, more);
        }
        if to_stream
            && let Some(stream) = self.streams.get_mut(id)
            && let Some(more) = stream.receive.consume(octets)
            && stream.incoming != Direction::Ended
        {
            frame::put_window_update(&mut self.output, id, more);
        }
    }

    /// Forgets a stream that both sides ended.
    pub(super) fn retire(&mut self, id: u32) {
        if self.streams.get(id).is_some_and(|s| s.is_over() && s.unconsumed == 0) {
            self.streams.remove(id);
            self.budget.served();
        }
    }

    // ---- HEADERS ----

    fn headers(
        &mut self,
        header: &Header,
        payload: &[u8],
        now_ms: u64,
        handler: &mut impl Handler,
    ) -> Result<(), Failure> {
        self.on_stream(header)?;
        let fragment = match frame::header_fragment(header, payload) {
            // The block must be decoded all the same, which its stream does not outlive.
            Err(PayloadError::SelfDependency) => {
                let unpadded = frame::unpadded(header, payload)?;
                let fragment = unpadded.get(5..).unwrap_or(b"");
                self.ignore_block(fragment, header)?;
                if self.is_unused(header.stream) {
                    self.last_remote = self.last_remote.max(header.stream);
                }
                return self.reset_for(header.stream, ErrorCode::ProtocolError, now_ms, handler);
            }
            fragment => fragment?,
        };
        let end = header.has(flag::END_STREAM);
        if header.has(flag::END_HEADERS) {
            return self.block_complete(header.stream, end, fragment, now_ms, handler);
        }
        let bytes = fragment.to_vec();
        self.block = Some(Box::new(Block { stream: header.stream, end, frames: 0, bytes }));
        Ok(())
    }

    /// Decodes a block for the sake of the tables only.
    fn ignore_block(&mut self, fragment: &[u8], header: &Header) -> Result<(), Failure> {
        if !header.has(flag::END_HEADERS) {
            // Whoever builds such a frame by hand does not need to be followed further.
            return Err(Failure::UnexpectedFrame);
        }
        struct Nobody;
        impl crate::hpack::Sink for Nobody {
            fn field(&mut self, _: Name, _: &[u8], _: &[u8], _: bool) {}
        }
        self.decoder.decode(fragment, &mut Strings::default(), &mut Nobody).map_err(Failure::Compression)
    }

    fn continuation(
        &mut self,
        header: &Header,
        payload: &[u8],
        now_ms: u64,
        handler: &mut impl Handler,
    ) -> Result<(), Failure> {
        self.budget.pay(Abuse::Continuation, now_ms)?;
        let Some(mut block) = self.block.take() else { return Err(Failure::UnexpectedFrame) };
        block.frames += 1;
        if block.frames > CONTINUATIONS_MAX
            || block.bytes.len() + payload.len() > self.config.head_max * BLOCK_SHARE
        {
            return Err(Failure::BlockTooLong);
        }
        block.bytes.extend_from_slice(payload);
        if !header.has(flag::END_HEADERS) {
            self.block = Some(block);
            return Ok(());
        }
        self.block_complete(block.stream, block.end, &block.bytes, now_ms, handler)
    }

    fn block_complete(
        &mut self,
        id: u32,
        end: bool,
        block: &[u8],
        now_ms: u64,
        handler: &mut impl Handler,
    ) -> Result<(), Failure> {
        let open = self.streams.get(id).map(|stream| stream.incoming);
        let expect = match (self.role, open) {
            (_, Some(Direction::Body)) => Expect::Trailers,
            (Role::Client, _) => Expect::Response,
            (Role::Server, _) => {
                Expect::Request { connect_protocol: self.config.settings.enable_connect_protocol }
            }
        };
        let mut spare = SPARE.take().unwrap_or_default();
        let Spare { head, scratch, strings, .. } = &mut *spare;
        head.set_limit(self.config.head_max);
        let list_max = self.config.settings.max_header_list_size.map_or(usize::MAX, |max| max as usize);
        let mut reader = Reader::new(head, scratch, expect, self.config.fields_max, list_max);
        let decoded = self.decoder.decode(block, strings, &mut reader);
        let is_bomb = reader.decoded() / LIST_SHARE > self.config.head_max;
        let read = reader.finish(end);
        let done = match decoded {
            Ok(()) if is_bomb => Err(Failure::BlockTooLong),
            Ok(()) => self.head_read(id, end, open, expect, read, head, now_ms, handler),
            Err(error) => Err(Failure::Compression(error)),
        };
        SPARE.set(Some(spare));
        done
    }

    #[allow(clippy::too_many_arguments)] // The one place where all of this meets.
    fn head_read(
        &mut self,
        id: u32,
        end: bool,
        open: Option<Direction>,
        expect: Expect,
        read: Result<Message, Malformed>,
        head: &mut Head,
        now_ms: u64,
        handler: &mut impl Handler,
    ) -> Result<(), Failure> {
        match open {
            None if self.is_unused(id) && self.is_remote(id) && self.role == Role::Server => {
                self.request(id, end, read, head, now_ms, handler)
            }
            None if self.is_unused(id) => Err(Failure::StreamId),
            // Its frames may have crossed our reset.
            None if self.was_reset(id) => Ok(self.budget.pay(Abuse::Glitch, now_ms)?),
            // A client that uses an id again, or a lower one than before.
            None if self.is_remote(id) => Err(Failure::StreamClosed),
            None => Ok(self.budget.pay(Abuse::Glitch, now_ms)?),
            // It was given up already.
            Some(Direction::Ended) if self.was_reset(id) => Ok(self.budget.pay(Abuse::Glitch, now_ms)?),
            Some(Direction::Ended) => self.reset_for(id, ErrorCode::StreamClosed, now_ms, handler),
            Some(Direction::Body) => self.trailers(id, end, read, head, now_ms, handler),
            Some(Direction::Head) if expect == Expect::Response => {
                self.response(id, end, read, head, now_ms, handler)
            }
            Some(Direction::Head) => Err(Failure::UnexpectedFrame),
        }
    }

    fn request(
        &mut self,
        id: u32,
        end: bool,
        read: Result<Message, Malformed>,
        head: &mut Head,
        now_ms: u64,
        handler: &mut impl Handler,
    ) -> Result<(), Failure> {
        self.last_remote = id;
        if self.goaway_sent.is_some_and(|last| id > last) {
            // It crossed our GOAWAY and is not processed.
            return Ok(());
        }
        let max = self.config.settings.max_concurrent_streams.map_or(usize::MAX, |max| max as usize);
        if self.streams.len() >= max {
            self.budget.pay(Abuse::ForcedReset, now_ms)?;
            self.put_reset(id, ErrorCode::RefusedStream);
            self.note_reset(id);
            return Ok(());
        }
        // A body was announced, and there is none.
        let read = match read {
            Ok(Message { length: Some(1..), .. }) if end => Err(Malformed::ContentLength),
            read => read,
        };
        let message = match read {
            Ok(message) => message,
            Err(why) => {
                // One answer may still be given; nothing more is heard.
                self.tally.stream_errors += 1;
                if why != Malformed::Request {
                    self.budget.pay(Abuse::Glitch, now_ms)?;
                }
                self.new_stream(id, Direction::Ended);
                if !end {
                    self.note_reset(id);
                }
                handler.on(Event::Refused { stream: id, why });
                return Ok(());
            }
        };
        let share = self.receive_share(end, message.length);
        let stream = self.new_stream(id, if end { Direction::Ended } else { Direction::Body });
        stream.expected = message.length;
        if let Some(more) = stream.receive.grow_to(share) {
            frame::put_window_update(&mut self.output, id, more);
        }
        handler.on(Event::Head { stream: id, head, message, end });
        if self.config.streams_total_max > 0 && self.streams_total >= self.config.streams_total_max {
            self.goaway(ErrorCode::NoError);
        }
        Ok(())
    }

    /// The window of a message that has a body, perhaps of a known length: most of what no other stream has of the octets
    /// that all of them share.
    fn receive_share(&mut self, end: bool, length: Option<u64>) -> u32 {
        if end {
            return 0;
        }
        let taken: u64 = self.streams.iter_mut().map(|stream| stream.receive.held_max()).sum();
        let left = u64::from(self.config.receive_shared).saturating_sub(taken) / 8 * 7;
        u32::try_from(left.min(length.unwrap_or(u64::MAX))).unwrap_or(0)
    }

    fn response(
        &mut self,
        id: u32,
        end: bool,
        read: Result<Message, Malformed>,
        head: &mut Head,
        now_ms: u64,
        handler: &mut impl Handler,
    ) -> Result<(), Failure> {
        let Some(stream) = self.streams.get_mut(id) else { return Ok(()) };
        let message = match read {
            Ok(message) => message,
            Err(why) => {
                handler.on(Event::Refused { stream: id, why });
                return self.reset_for(id, ErrorCode::ProtocolError, now_ms, handler);
            }
        };
        if thalweg_http::semantics::is_interim(head.status()) {
            if end {
                // CVE-2023-0056: an interim response ends nothing.
                return self.reset_for(id, ErrorCode::ProtocolError, now_ms, handler);
            }
            self.budget.pay(Abuse::Interim, now_ms)?;
            handler.on(Event::Head { stream: id, head, message, end });
            return Ok(());
        }
        let bodiless = stream.bodiless || matches!(head.status(), 204 | 304);
        let length = message.length.filter(|_| !bodiless);
        if end && length.is_some_and(|length| length > 0) {
            return self.reset_for(id, ErrorCode::ProtocolError, now_ms, handler);
        }
        stream.bodiless = bodiless;
        stream.expected = length;
        stream.incoming = if end { Direction::Ended } else { Direction::Body };
        let share = self.receive_share(end || bodiless, length);
        if let Some(stream) = self.streams.get_mut(id)
            && let Some(more) = stream.receive.grow_to(share)
        {
            frame::put_window_update(&mut self.output, id, more);
        }
        handler.on(Event::Head { stream: id, head, message, end });
        self.retire(id);
        Ok(())
    }

    fn trailers(
        &mut self,
        id: u32,
        end: bool,
        read: Result<Message, Malformed>,
        head: &mut Head,
        now_ms: u64,
        handler: &mut impl Handler,
    ) -> Result<(), Failure> {
        let whole = self.streams.get(id).is_some_and(|s| s.expected.is_none_or(|left| left == 0));
        // Trailers end the stream, and the data before them must be all that was announced.
        if !end || !whole || read.is_err() {
            return self.reset_for(id, ErrorCode::ProtocolError, now_ms, handler);
        }
        if let Some(stream) = self.streams.get_mut(id) {
            stream.incoming = Direction::Ended;
        }
        handler.on(Event::Trailers { stream: id, trailers: head });
        self.retire(id);
        Ok(())
    }

    // ---- the others ----

    fn rst_stream(
        &mut self,
        header: &Header,
        payload: &[u8],
        now_ms: u64,
        handler: &mut impl Handler,
    ) -> Result<(), Failure> {
        self.on_stream(header)?;
        let code = frame::reset(payload)?;
        if self.is_unused(header.stream) {
            return Err(Failure::UnexpectedFrame);
        }
        match self.streams.remove(header.stream) {
            Some(stream) => {
                let octets = stream.unconsumed;
                self.give_back(header.stream, octets, false);
                handler.on(Event::Reset { stream: header.stream, code, by_peer: true });
                if self.role == Role::Server {
                    self.budget.pay(Abuse::RapidReset, now_ms)?;
                }
            }
            None => self.budget.pay(Abuse::Noise, now_ms)?,
        }
        Ok(())
    }

    fn settings(
        &mut self,
        header: &Header,
        payload: &[u8],
        now_ms: u64,
        handler: &mut impl Handler,
    ) -> Result<(), Failure> {
        self.on_connection(header)?;
        if header.has(flag::ACK) {
            if !payload.is_empty() {
                return Err(Failure::FrameSize);
            }
            if self.acknowledged {
                self.budget.pay(Abuse::Noise, now_ms)?;
            } else {
                self.acknowledged = true;
                let less = 65_535u32.saturating_sub(self.config.settings.initial_window);
                for stream in self.streams.iter_mut() {
                    stream.receive.shrink(less);
                    // What was consumed is worth a frame of the smaller window; nothing may come before it is given back.
                    if let Some(more) = stream.receive.consume(0)
                        && stream.incoming != Direction::Ended
                    {
                        frame::put_window_update(&mut self.output, stream.id, more);
                    }
                }
                self.decoder.set_allowed(self.config.settings.header_table_size as usize);
            }
            return Ok(());
        }
        let window_before = self.remote.initial_window;
        for change in frame::settings(payload)? {
            self.remote
                .apply(change, self.role == Role::Client && !self.config.reversed)
                .map_err(Failure::BadSetting)?;
            if let Change::HeaderTableSize(size) = change {
                self.encoder.set_allowed(size as usize);
            }
        }
        let difference = i64::from(self.remote.initial_window) - i64::from(window_before);
        if difference != 0 {
            for stream in self.streams.iter_mut() {
                stream.send.give(difference).map_err(|_| Failure::FlowControl)?;
            }
        }
        frame::put_settings_ack(&mut self.output);
        if self.expected == Expected::Settings {
            self.expected = Expected::Frames;
            handler.on(Event::Ready);
        } else {
            self.budget.pay(Abuse::Settings, now_ms)?;
        }
        if difference > 0 {
            self.tell_room(handler);
        }
        Ok(())
    }
}
