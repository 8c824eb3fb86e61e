//! A pump whose payload passes filters.

use std::task::Poll;

use thalweg_runtime::buffer::Buf;
use thalweg_runtime::{Reason, clock, current_task, timer};

use super::super::pump::{Pump, PumpError, TURN_MAX};
use super::{Filtered, Pass};
use crate::connection::body::{Delimiter, Form, wrap_chunk};
use crate::connection::line::Line;
use crate::connection::port::{Port, RECV_MAX};

/// Payload without its framing.
const PAYLOAD: Form = Form { delimiter: Delimiter::Plain, drop_trailers: false };

impl Pump {
    /// Moves what the filters let pass. Ready when the body is complete and handed to the kernel.
    pub(in crate::stream) fn poll_filtered(
        &mut self,
        filtered: &mut Filtered,
        from: &mut Port,
        to: &mut Line,
    ) -> Poll<Result<(), PumpError>> {
        filtered.holds_back = false;
        let mut moved = 0;
        loop {
            match to.poll_send_ready() {
                Poll::Pending if self.has_pending() || filtered.held.is_some() || !filtered.ended => {
                    self.blocked_on_send = true;
                    return Poll::Pending;
                }
                Poll::Pending => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(PumpError::Send(error))),
                Poll::Ready(Ok(())) => self.start_pending(to),
            }
            if filtered.ended {
                return Poll::Ready(Ok(()));
            }
            if moved > TURN_MAX {
                current_task().wake(Reason::YIELD);
                return Poll::Pending;
            }
            if filtered.held.is_none() {
                if from.body.is_ended() {
                    filtered.end();
                    self.set_pending(self.end_of(from)?);
                    continue;
                }
                match fetch(from) {
                    Poll::Ready(taken) => filtered.held = taken?,
                    Poll::Pending => return Poll::Pending,
                }
                continue;
            }
            let Some(mut held) = filtered.held.take() else { continue };
            match filtered.pass(&held, from.body.is_ended(), clock::now_ms()) {
                Pass::NotBefore(at) => {
                    filtered.held = Some(held);
                    filtered.holds_back = true;
                    timer::want(at);
                    return Poll::Pending;
                }
                Pass::Bytes(n) => {
                    let passed = match n < held.len() {
                        true => {
                            let passed = held.split_to(n);
                            filtered.held = Some(held);
                            passed
                        }
                        false => held,
                    };
                    moved += passed.len() as u64;
                    self.set_pending(Some(match self.form().delimiter {
                        Delimiter::Chunked => wrap_chunk(passed)?,
                        Delimiter::Plain => passed,
                    }));
                }
            }
        }
    }

    /// What follows the last payload.
    fn end_of(&self, from: &Port) -> Result<Option<Buf>, PumpError> {
        match self.form().delimiter {
            Delimiter::Plain => Ok(None),
            Delimiter::Chunked => self.last_chunk(from).map(Some),
        }
    }
}

/// The next payload that there is; none when only framing came, or the end.
fn fetch(from: &mut Port) -> Poll<Result<Option<Buf>, PumpError>> {
    loop {
        if from.has_input() {
            let before = from.received().len();
            let taken = from.body.take(&mut from.input, PAYLOAD)?;
            if taken.is_some() || from.body.is_ended() || from.received().len() < before {
                return Poll::Ready(Ok(taken.filter(|buf| !buf.is_empty())));
            }
            // A part of a trailer section that must be seen again with more behind it.
        }
        if !from.eof {
            match from.poll_more(RECV_MAX) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(cut)) => return Poll::Ready(Err(PumpError::Cut(cut))),
                Poll::Ready(Ok(0)) => {}
                Poll::Ready(Ok(_)) => continue,
            }
        }
        return Poll::Ready(from.end().map(|()| None).map_err(PumpError::Cut));
    }
}
