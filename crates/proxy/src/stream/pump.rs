//! One direction of an exchange: the body on one connection goes to another.
//!
//! A pump never waits for the other direction. It holds at most one buffer, takes new input only when the previous
//! send was accepted by the kernel, as much at once as bulk buffers hold while the receiver keeps up, and ends exactly where the body ends, so that what follows it on the connection
//! is left for whoever comes next (security rules R2 and R3). Where that is, and how far the body was read, is known
//! to the connection it comes from: a pump that is dropped half-way leaves nothing unaccounted for.

use std::io;
use std::task::Poll;

use thalweg_h1::encode::{EncodeOptions, LAST_CHUNK, last_chunk_into};
use thalweg_http::Head;
use thalweg_runtime::buffer::{BULK_SIZE, Buf};
use thalweg_runtime::memory;
use thalweg_runtime::net::transfer::TransferError;
use thalweg_runtime::net::{Transfer, TransferMode};

use super::filter::Filtered;
use crate::connection::body::{BodyError, Delimiter, Form};
use crate::connection::line::Line;
use crate::connection::port::{Cut, Data, Port, RECV_MAX};
use crate::plant::bug;

/// Where splicing is wanted, bodies with at least this much to come leave the buffers and are moved by [`Transfer`].
const TRANSFER_MIN: u64 = 64 * 1024;
/// The same where nobody asked for it. Passing 64 kB through a pipe takes 9 % less CPU than passing them through buffers, 16 kB
/// no less.
const AUTO_MIN: u64 = 48 * 1024;
/// Bytes moved by one pump before other tasks get their turn.
pub(super) const TURN_MAX: u64 = 1024 * 1024;

/// Why a pump stopped early.
#[derive(Debug)]
pub enum PumpError {
    /// No more of the message comes.
    Cut(Cut),
    /// The receiver takes no more.
    Send(io::Error),
}

impl From<Cut> for PumpError {
    fn from(cut: Cut) -> PumpError {
        PumpError::Cut(cut)
    }
}

impl From<BodyError> for PumpError {
    fn from(error: BodyError) -> PumpError {
        PumpError::Cut(error.into())
    }
}

/// What leaves together with a head in frames.
pub struct First {
    body: Option<Buf>,
    /// The message ends behind it.
    ends: bool,
    /// There is nothing else.
    pub ends_with_head: bool,
}

/// See the module's documentation.
pub struct Pump {
    form: Form,
    /// Ready to be sent.
    pending: Option<Buf>,
    /// Boxed, as few bodies need one, and pumps are moved.
    transfer: Option<Box<Transfer>>,
    transfer_mode: Option<TransferMode>,
    /// Payload bytes that went through a pipe of the kernel.
    pub spliced: u64,
    /// The receiver is what the last poll stopped at.
    pub blocked_on_send: bool,
    /// Most bytes taken by one receive: less than all that may be there while the receiver is the slower side.
    room: usize,
    /// The receiver gets nothing of the body.
    discarding: bool,
    /// The body stays where it is.
    abandoned: bool,
    /// What is moved is a message, whose end ends that of a receiver with frames; not what is said in a tunnel.
    is_message: bool,
    /// The end of what is moved came.
    over: bool,
    /// Trailer fields that came, until the end does.
    trailers: Option<Box<Head>>,
    /// What the payload passes on its way, if anything.
    filtered: Option<Box<Filtered>>,
}

impl Pump {
    /// A pump that sends a body in the given form. `transfer_mode` allows moving long stretches without looking at
    /// them.
    pub fn new(form: Form, transfer_mode: Option<TransferMode>) -> Pump {
        Pump {
            form,
            pending: None,
            transfer: None,
            transfer_mode,
            spliced: 0,
            blocked_on_send: false,
            room: BULK_SIZE,
            discarding: false,
            abandoned: false,
            is_message: true,
            over: false,
            trailers: None,
            filtered: None,
        }
    }

    /// A pump that sends what comes as it comes, until who has it says that it is over.
    pub fn plain(transfer_mode: Option<TransferMode>) -> Pump {
        let form = Form { delimiter: Delimiter::Plain, drop_trailers: false };
        Pump { is_message: false, ..Pump::new(form, transfer_mode) }
    }

    /// Whether the end of what is moved is that of the receiver's message, too: not while a tunnel may go on behind it.
    pub fn end_message(&mut self, ends: bool) {
        self.is_message = ends;
    }

    /// Lets the payload pass filters. None of it may have been taken yet.
    pub fn filter(&mut self, filtered: Option<Box<Filtered>>) {
        if filtered.is_some() {
            self.transfer_mode = None;
        }
        self.filtered = filtered;
    }

    /// The filters that the payload passes.
    pub fn filters(&mut self) -> Option<&mut Filtered> {
        self.filtered.as_deref_mut()
    }

    /// True when it is a filter that the last poll stopped at: neither side is waited for.
    #[inline]
    pub fn is_held_back(&self) -> bool {
        self.filtered.as_ref().is_some_and(|filtered| filtered.holds_back)
    }

    /// The message it moved ended, and what comes on its connection is to be sent as it comes.
    pub fn go_on_plain(&mut self) {
        self.form = Form { delimiter: Delimiter::Plain, drop_trailers: false };
        self.discarding = false;
        self.abandoned = false;
        self.is_message = false;
        self.over = false;
        if let Some(filtered) = &mut self.filtered {
            filtered.begin_again();
        }
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    pub(super) fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    pub(super) fn set_pending(&mut self, buf: Option<Buf>) {
        self.pending = buf;
    }

    /// Sends what is ready to be sent, now that there is room.
    pub(super) fn start_pending(&mut self, to: &mut Line) {
        if let Some(buf) = self.pending.take() {
            to.start_send(buf);
        }
    }

    /// Takes the body from its sender without giving it to the receiver.
    pub fn discard_all(&mut self) {
        self.discarding = true;
        self.transfer_mode = None;
        self.filtered = None;
    }

    /// Leaves the body where it is: its connection ends with this message.
    pub fn abandon(&mut self) {
        self.discard_all();
        self.abandoned = true;
    }

    /// Keeps a head, and the part of the body that goes with it, until the receiver can take them.
    pub fn hold(&mut self, mut head: Buf, body: Option<Buf>) {
        if let Some(body) = body
            && head.extend_from_slice(&body).is_err()
        {
            let mut both = Buf::large(head.len() + body.len());
            // It has room for both.
            let _ = both.extend_from_slice(&head);
            let _ = both.extend_from_slice(&body);
            head = both;
        }
        self.pending = Some(head);
    }

    /// True when the whole body was taken from its sender and handed to the kernel for its receiver.
    pub fn is_done(&self, from: &Port) -> bool {
        (from.body.is_ended() || self.abandoned) && self.holds_nothing() && self.pending.is_none()
    }

    fn holds_nothing(&self) -> bool {
        self.transfer.as_ref().is_none_or(|transfer| transfer.held() == 0)
            && self.filtered.as_ref().is_none_or(|filtered| filtered.is_done())
    }

    /// Takes what was received of the body and returns what is to be sent for it.
    pub fn take(&mut self, from: &mut Port) -> Result<Option<Buf>, PumpError> {
        if self.filtered.is_some() {
            // The head goes alone.
            return Ok(None);
        }
        if self.discarding {
            if !self.abandoned {
                from.discard_body()?;
                from.note_end();
            }
            return Ok(None);
        }
        let taken = from.body.take(&mut from.input, self.form)?;
        // Where chunks are written, the last one comes with the end.
        if self.form.delimiter == Delimiter::Plain {
            from.note_end();
        }
        Ok(taken)
    }

    /// Moves what can be moved now. Ready when the body is complete and handed to the kernel.
    pub fn poll(&mut self, from: &mut Port, to: &mut Line) -> Poll<Result<(), PumpError>> {
        let start = from.body.received();
        let waited = std::mem::take(&mut self.blocked_on_send);
        if self.filtered.is_some() {
            return self.poll_through_filters(from, to);
        }
        loop {
            if let Some(buf) = self.pending.take() {
                match to.poll_send_ready() {
                    Poll::Pending => {
                        self.pending = Some(buf);
                        self.blocked_on_send = true;
                        return Poll::Pending;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(PumpError::Send(error))),
                    Poll::Ready(Ok(())) => {
                        self.note_last(from, to);
                        to.start_send(buf);
                    }
                }
            }
            if (self.over || self.abandoned) && self.holds_nothing() {
                self.transfer = None;
                return Poll::Ready(Ok(()));
            }
            if from.body.received() - start > TURN_MAX {
                thalweg_runtime::current_task().wake(thalweg_runtime::Reason::YIELD);
                return Poll::Pending;
            }
            if self.holds_nothing()
                && let Some(data) = self.take_data(from)?
            {
                match data {
                    Data::Bytes(buf) => self.pending = Some(buf),
                    Data::Trailers(trailers) => self.keep_trailers(trailers),
                    Data::End => self.end(to, from.body.is_chunked())?,
                }
                continue;
            }
            match to.poll_send_ready() {
                Poll::Pending => {
                    self.blocked_on_send = true;
                    self.take_less(!to.is_framed());
                    return Poll::Pending;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(PumpError::Send(error))),
                Poll::Ready(Ok(())) => self.take_less(waited && to.take_stall()),
            }
            if !self.holds_nothing() || (from.input.is_none() && self.can_transfer(from, to)) {
                match self.poll_transfer(from, to) {
                    Poll::Ready(Ok(())) => continue,
                    other => return other,
                }
            }
            if !from.eof {
                // Of what may be spliced, no more than the header in front of it is taken.
                let splices = self.transfer_mode == Some(TransferMode::Splice);
                let room = if splices && from.body.stretch() == 0 { RECV_MAX } else { self.room };
                match from.poll_more(room) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(cut)) => return Poll::Ready(Err(PumpError::Cut(cut))),
                    Poll::Ready(Ok(0)) => {}
                    Poll::Ready(Ok(n)) => {
                        if n >= self.room {
                            self.room = (self.room * 2).min(BULK_SIZE);
                        }
                        continue;
                    }
                }
            }
            if let Err(cut) = from.end() {
                return Poll::Ready(if bug("missed-eof") { Ok(()) } else { Err(PumpError::Cut(cut)) });
            }
        }
    }

    /// The receiver is the slower side, if it is `slow`: less is received for it at a time.
    #[inline]
    fn take_less(&mut self, slow: bool) {
        if slow {
            self.room = (self.room / 2).max(RECV_MAX);
        }
    }

    /// What was received and not moved yet.
    #[inline]
    fn take_data(&self, from: &mut Port) -> Result<Option<Data>, PumpError> {
        if self.discarding {
            from.discard_body()?;
            from.note_end();
            return Ok(from.body.is_ended().then_some(Data::End));
        }
        Ok(from.take_data(self.form)?)
    }

    /// Keeps trailer fields for the end, if they are to be passed on.
    pub(super) fn keep_trailers(&mut self, trailers: Box<Head>) {
        self.trailers = Some(trailers).filter(|_| !self.discarding && !self.form.drop_trailers);
    }

    /// The message is over, which its receiver is told in its way. `last_chunk`: its own was among the bytes.
    #[inline]
    pub(super) fn end(&mut self, to: &mut Line, last_chunk: bool) -> Result<(), PumpError> {
        self.over = true;
        if to.is_framed() {
            if self.is_message {
                to.finish(self.trailers.take());
            }
        } else if self.form.delimiter == Delimiter::Chunked && !last_chunk && !self.discarding {
            self.pending = Some(chunk_behind(self.trailers.take())?);
        }
        Ok(())
    }

    /// A line with frames is told when what is about to be sent ends the message.
    #[inline]
    fn note_last(&mut self, from: &mut Port, to: &mut Line) {
        if to.is_framed() && self.is_message && from.body.is_ended() && self.holds_nothing() {
            if let Some(trailers) = from.take_trailers() {
                self.keep_trailers(trailers);
            }
            if self.trailers.is_none() {
                to.end_message_with_next_send();
            }
        }
    }

    /// What there is of the body, to be sent in frames with the head in front of it.
    pub fn take_first(&mut self, from: &mut Port) -> Result<First, PumpError> {
        let body = self.take(from)?;
        let ends = self.is_message && self.is_done(from);
        if ends && let Some(trailers) = from.take_trailers() {
            self.keep_trailers(trailers);
        }
        Ok(First { ends_with_head: ends && body.is_none() && self.trailers.is_none(), body, ends })
    }

    /// Sends that, once the head was.
    pub fn send_first(&mut self, first: First, to: &mut Line) {
        if let Some(body) = first.body {
            if first.ends && self.trailers.is_none() {
                to.end_message_with_next_send();
            }
            to.start_send(body);
        }
        if first.ends {
            self.over = true;
            to.finish(self.trailers.take());
        }
    }

    #[cold]
    fn poll_through_filters(&mut self, from: &mut Port, to: &mut Line) -> Poll<Result<(), PumpError>> {
        let Some(mut filtered) = self.filtered.take() else { return Poll::Ready(Ok(())) };
        let polled = self.poll_filtered(&mut filtered, from, to);
        self.filtered = Some(filtered);
        polled
    }

    /// Whether what comes next is better moved by the kernel: only from socket to socket.
    fn can_transfer(&self, from: &mut Port, to: &mut Line) -> bool {
        let stretch = from.body.stretch();
        let worth_it = if from.body.is_until_close() { from.body.received() } else { stretch };
        match &self.transfer {
            _ if stretch == 0 || from.eof => false,
            Some(transfer) => transfer.is_splicing(),
            None => {
                let wanted = match self.transfer_mode {
                    Some(TransferMode::Splice) => worth_it >= TRANSFER_MIN,
                    // What comes in chunks, or without a length, may well come in small pieces. Buffers are what is counted
                    // and limited, so they are used when memory is short.
                    Some(TransferMode::Auto) => {
                        let is_sized = !from.body.is_chunked() && !from.body.is_until_close();
                        is_sized && stretch >= AUTO_MIN && !memory::is_short()
                    }
                    Some(TransferMode::Copy) | None => false,
                };
                wanted && from.line.raw().is_some() && to.raw().is_some()
            }
        }
    }

    fn poll_transfer(&mut self, from: &mut Port, to: &mut Line) -> Poll<Result<(), PumpError>> {
        let (Some(rx), Some(tx)) = (from.line.raw(), to.raw()) else {
            // A transfer begins where there are two sockets, and ports do not change.
            self.transfer = None;
            return Poll::Ready(Ok(()));
        };
        let mode = self.transfer_mode.unwrap_or(TransferMode::Copy);
        // The header of a chunk was passed on when its payload begins; other payload needs one of its own.
        let in_chunks = self.form.delimiter == Delimiter::Chunked && !from.body.is_chunked();
        let make = if in_chunks { Transfer::in_chunks } else { Transfer::new };
        let transfer = self.transfer.get_or_insert_with(|| Box::new(make(mode)));
        // Its limit counts from what the receiver accepted; the body's count is of what left its connection.
        let left = from.body.stretch().saturating_add(transfer.held() as u64);
        let before = transfer.taken();
        let moved = transfer.poll(rx, tx, left.min(TURN_MAX));
        let taken = transfer.taken() - before;
        self.spliced = transfer.spliced();
        if taken > 0 {
            from.was_moved = true;
            from.body.took(taken);
        }
        match moved {
            Poll::Pending => {
                self.blocked_on_send = transfer.is_blocked_on_send();
                Poll::Pending
            }
            Poll::Ready(Err(TransferError::Receive(error))) => {
                Poll::Ready(Err(PumpError::Cut(Cut::Broken(error))))
            }
            Poll::Ready(Err(TransferError::Send(error))) => Poll::Ready(Err(PumpError::Send(error))),
            Poll::Ready(Ok(0)) => {
                from.eof = true;
                self.transfer = None;
                from.end()?;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Ok(_)) => Poll::Ready(Ok(())),
        }
    }
}

/// What follows the last payload of a body in chunks.
fn chunk_behind(trailers: Option<Box<Head>>) -> Result<Buf, PumpError> {
    let Some(trailers) = trailers else { return Ok(Buf::copy_of(LAST_CHUNK)) };
    let mut space = vec![0; trailers.encoded_len() + 64];
    let written = last_chunk_into(&trailers, &EncodeOptions::default(), &mut space);
    Ok(Buf::copy_of(&space[..written.ok_or(Cut::NoBuffer)?]))
}
