//! A pump whose payload passes filters.

use std::task::Poll;

use thalweg_runtime::{Reason, clock, current_task, timer};

use super::super::pump::{Pump, PumpError, TURN_MAX};
use super::{Filtered, Pass};
use crate::connection::body::{Delimiter, Form, wrap_chunk};
use crate::connection::line::Line;
use crate::connection::port::{Data, Port, RECV_MAX};

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
                match from.poll_data(PAYLOAD, RECV_MAX)? {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Data::Bytes(buf)) => filtered.held = Some(buf).filter(|buf| !buf.is_empty()),
                    Poll::Ready(Data::Trailers(trailers)) => self.keep_trailers(trailers),
                    Poll::Ready(Data::End) => {
                        filtered.end();
                        self.end(to, false)?;
                    }
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
}
