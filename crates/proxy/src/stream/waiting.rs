//! What a stream waits for before it is with a server, or before its response may go on: more of the client or of the
//! server, a body, some time. Bounded by the room of a buffer and by the time that is allowed.

use std::task::Poll;

use thalweg_http::HeaderId;
use thalweg_runtime::net::Departure;
use thalweg_runtime::timer;

use super::ending::Cause;
use super::pump::{Pump, PumpError};
use super::relay::RelayEnd;
use super::{Stop, Stream, reply, shut_check, unless_shut};
use crate::connection::port::{Cut, Port};

/// What came of waiting for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// More came.
    Came,
    /// No more will come, or there is no room for it.
    Over,
    /// Nothing came in time.
    Late,
}

/// What the client says while its server is waited for goes to that server.
pub struct Upward<'s> {
    pump: &'s mut Pump,
    /// What comes of it may be sent.
    sends: bool,
    /// A side that broke its connection meanwhile.
    pub broken: Option<RelayEnd>,
}

impl<'s> Upward<'s> {
    /// Through this pump.
    pub fn through(pump: &'s mut Pump) -> Upward<'s> {
        Upward { pump, sends: true, broken: None }
    }

    /// Moves what is there.
    fn poll(&mut self, client: &mut Port, server: &mut Port) {
        // How else this direction ends is seen again by who goes on with it.
        if self.sends
            && let Poll::Ready(ended) = self.pump.poll(client, &mut server.line)
        {
            self.sends = false;
            match ended {
                // The server hears at once that the client has said everything: it may have nothing to say to that.
                Ok(()) => _ = server.line.shutdown_write(),
                Err(PumpError::Cut(Cut::Broken(_))) => self.broken = Some(RelayEnd::ClientAborted),
                Err(_) => {}
            }
        }
    }
}

/// Whether nobody waits for an answer any more: the client broke its connection, or ended its direction and that counts
/// (`option abortonclose`). Requests that it sent ahead do not hide it. Otherwise its next sign wakes the task.
pub fn has_left(client: &mut Port, ends_count: bool) -> bool {
    match client.line.departure() {
        Departure::No => false,
        Departure::Ended => ends_count,
        Departure::Reset => true,
    }
}

/// Lets some time pass. True when the client [left](has_left) meanwhile.
pub async fn pause(client: &mut Port, ms: u64, ends_count: bool) -> bool {
    let over = timer::Deadline(Some(timer::deadline_in(ms)));
    std::future::poll_fn(|_| match has_left(client, ends_count) {
        true => Poll::Ready(true),
        false => over.poll().map(|()| false),
    })
    .await
}

/// Waits for more of the client, at most until `deadline`.
pub async fn more_of_client(stream: &mut Stream<'_>, deadline: Option<u64>) -> More {
    let room = stream.worker.instance.config.global.tune.bufsize;
    let Stream { client, state, broken, .. } = stream;
    if client.eof || client.received().len() >= room {
        return More::Over;
    }
    let over = timer::Deadline(deadline);
    std::future::poll_fn(|_| match client.poll_recv() {
        Poll::Ready(Ok(buf)) if !buf.is_empty() => {
            client.keep(buf);
            Poll::Ready(More::Came)
        }
        Poll::Ready(end) => {
            client.eof = true;
            // What became of a request is found out by who forwards it.
            *broken |= end.is_err() && !state.facts.is_http;
            Poll::Ready(More::Over)
        }
        Poll::Pending => over.poll().map(|()| More::Late),
    })
    .await
}

/// Looks once whether the client is still there, after its body was buffered.
fn look_for_end(client: &mut Port) {
    if client.eof || client.has_whole_body() {
        return;
    }
    match client.poll_recv() {
        Poll::Ready(Ok(buf)) if !buf.is_empty() => client.keep(buf),
        Poll::Ready(_) => client.eof = true,
        Poll::Pending => {}
    }
}

/// A request whose body ended too early, as far as it was received, is noted to be cut.
pub fn note_cut(stream: &mut Stream<'_>) {
    look_for_end(stream.client);
    stream.cut |= stream.client.eof && !stream.client.has_whole_body();
}

/// Buffers the request's body until it is complete, `at_least` bytes of it are there, or the buffer is full.
pub async fn body_of_client<'a>(
    stream: &mut Stream<'a>,
    limit_ms: Option<u64>,
    at_least: u64,
) -> Result<(), Stop<'a>> {
    if stream.client.body.is_ended() {
        return Ok(());
    }
    let room = stream.worker.instance.config.global.tune.bufsize;
    let deadline = limit_ms.map(timer::deadline_in);
    if stream.state.request_framing.expect_continue && stream.client.input.is_none() {
        // The client holds the body back until it is told to go on, and nobody else will tell it. The server
        // must not be asked to tell it a second time.
        reply::send_continue(stream).await;
        stream.state.request.remove_id(HeaderId::Expect);
    }
    loop {
        let received = stream.client.received().len();
        let body = stream.client.look();
        if body.ended() || received >= room || (at_least > 0 && body.payload_len() as u64 >= at_least) {
            return Ok(());
        }
        if more_of_client(stream, deadline).await == More::Came {
            continue;
        }
        if stream.client.eof {
            // Who was to serve it is decided first, as that is where it counts.
            stream.cut = !stream.client.has_whole_body();
            return Ok(());
        }
        return Err(stream.stop(Cause::BodyTimeout));
    }
}

/// Waits for more of the server, at most until `deadline`, while what the client says goes to it.
pub async fn more_of_server<'a>(
    stream: &mut Stream<'a>,
    server: &mut Port,
    mut up: Option<&mut Upward<'_>>,
    deadline: Option<u64>,
) -> Result<More, Stop<'a>> {
    let room = stream.worker.instance.config.global.tune.bufsize;
    if server.eof || server.received().len() >= room || server.look().ended() {
        return Ok(More::Over);
    }
    let shut = shut_check(stream.worker, stream.state);
    let over = timer::Deadline(deadline);
    let client = &mut *stream.client;
    let more = std::future::poll_fn(|_| {
        if let Some(up) = up.as_deref_mut() {
            up.poll(client, server);
            if up.broken.is_some() {
                return Poll::Ready(More::Over);
            }
        }
        match server.poll_recv() {
            Poll::Ready(Ok(buf)) if !buf.is_empty() => {
                server.keep(buf);
                Poll::Ready(More::Came)
            }
            // How it ended is found out by who forwards it.
            Poll::Ready(end) => {
                if let (Some(up), true) = (up.as_deref_mut(), end.is_err()) {
                    up.broken = Some(RelayEnd::ServerAborted);
                }
                Poll::Ready(More::Over)
            }
            Poll::Pending => over.poll().map(|()| More::Late),
        }
    });
    match unless_shut(shut, more).await {
        Some(more) => Ok(more),
        None => Err(server_shut(stream)),
    }
}

/// Buffers the response's body until it is complete, `at_least` bytes of it are there, or the buffer is full.
pub async fn body_of_server<'a>(
    stream: &mut Stream<'a>,
    server: &mut Port,
    limit_ms: u64,
    at_least: u64,
) -> Result<(), Stop<'a>> {
    let deadline = timer::deadline_in(limit_ms);
    loop {
        let body = server.look();
        if at_least > 0 && body.payload_len() as u64 >= at_least {
            return Ok(());
        }
        match more_of_server(stream, server, None, Some(deadline)).await? {
            More::Came => {}
            // What there is of it goes to the client; who forwards it finds out how it ended.
            More::Over => return Ok(()),
            More::Late => return Err(stream.stop(Cause::ResponseBodyTimeout)),
        }
    }
}

/// Lets some time pass before a response goes on.
pub async fn pause_response<'a>(stream: &mut Stream<'a>, ms: u64) -> Result<(), Stop<'a>> {
    let shut = shut_check(stream.worker, stream.state);
    match unless_shut(shut, timer::sleep(ms)).await {
        Some(()) => Ok(()),
        None => Err(server_shut(stream)),
    }
}

/// The server went down, and the streams on it end with it: nobody failed but it. Or an operator ended this one.
pub fn server_shut<'a>(stream: &mut Stream<'a>) -> Stop<'a> {
    if stream.state.entry.is_killed() {
        return stream.killed();
    }
    stream.stop(Cause::ServerWentDown)
}
