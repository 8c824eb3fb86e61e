//! A response on its way to the client, whoever made it: a server, a service, or this process itself.
//!
//! There is one way. The head gets the form that the client can read, passes `http-after-response`, and leaves in one
//! send with what is there of its body; the rest follows through a pump, and filters if there are any, while what is left
//! of the request goes the other way.

use std::pin::pin;
use std::task::Poll;

use thalweg_config::model::{LogStep, Proxy};
use thalweg_h1::encode::{EncodeOptions, encode_into};
use thalweg_http::semantics::{BodyLength, connection_option, may_have_body, take_connection_options};
use thalweg_http::{Head, HeaderId, Method, Version};
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::clock;
use thalweg_runtime::net::{Departure, TransferMode};

use super::deadline::{Expects, Waits};
use super::ending::Cause;
use super::filter::{Direction, Filtered};
use super::pump::{Pump, PumpError};
use super::{Stream, finish, limit, rules, shut_check};
use crate::connection::body::{Delimiter, Form};
use crate::connection::line::Line;
use crate::connection::port::{Cut, Port};
use crate::plant::bug;
use crate::traces::Way;

/// Who made a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// A server.
    Server,
    /// A service of this process, in a server's place.
    Service,
    /// This process, in place of both: an error, `return`, a redirection. What such a one says is between its rule or file
    /// and the client, so that the stream's status need not be the one on the line.
    Own {
        /// `http-after-response` rules may change it.
        rules: bool,
    },
}

/// What became of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// All of it was handed over for the client.
    Whole,
    /// The client has a part of it, or nothing, and nothing more can be said to it.
    Not(Cause),
    /// A rule's change did not fit into the head. Nothing was sent.
    RewriteFailed,
    /// The first bytes of the body are malformed. Nothing was sent.
    BadBody,
}

/// How the client reads the response.
#[derive(Clone, Copy)]
struct Shape {
    delimiter: Delimiter,
    /// It has no body, whatever comes.
    bodiless: bool,
    /// What comes of a body ends with the connection that it comes on.
    until_close: bool,
}

/// Sends the stream's response: its head, and the body that comes from `from`, while `up` goes on with the request's.
pub async fn deliver(
    stream: &mut Stream<'_>,
    from: &mut Port,
    up: &mut Pump,
    waits: &mut Waits,
    maker: Maker,
) -> Delivered {
    let shape = shape(stream);
    if maker != (Maker::Own { rules: false }) && !pass_rules(stream, maker).await {
        return Delivered::RewriteFailed;
    }
    let mut down = match begin(stream, from, up, shape, maker) {
        Ok(None) => return Delivered::Whole,
        Ok(Some(down)) => down,
        Err(delivered) => return delivered,
    };
    let end = pin!(exchange_bodies(stream, from, up, &mut down, waits)).await;
    count(stream, from, maker);
    count_spliced(stream, up, &down);
    match end {
        Ok(()) => Delivered::Whole,
        // Why there is an answer of our own is what ended the stream; no server lost its client.
        Err(Cause::ClientLeftInResponse | Cause::ClientStuck) if maker != Maker::Server => {
            Delivered::Not(Cause::ClientLeftUnanswered)
        }
        Err(cause) => Delivered::Not(cause),
    }
}

/// Sends the head and what is there of the body. Returns the way of the rest, unless that was all, as it is for most: then
/// nothing is kept.
#[inline]
fn begin(
    stream: &mut Stream<'_>,
    from: &mut Port,
    up: &mut Pump,
    shape: Shape,
    maker: Maker,
) -> Result<Option<Pump>, Delivered> {
    let (be, fe) = (stream.backend(), stream.frontend());
    let mut down = pump_down(stream, be, fe, shape, maker);
    if let Some(filters) = up.filters() {
        filters.apply(&stream.state.effects.bandwidth, clock::now_ms());
    }
    from.fetch_first();
    let (sent, whole) = match stream.client.line.is_framed() {
        false => {
            let Some(head) = final_head(stream, fe, maker) else {
                return Err(Delivered::Not(Cause::NoBufferForAnswer));
            };
            let Ok(first) = down.take(from) else { return Err(Delivered::BadBody) };
            stream.state.facts.res_bytes_out += head.len() as u64;
            let whole = up.is_done(stream.client) && down.is_done(from);
            let sent = send_first(stream, &mut down, head, first, whole, maker).map_err(Delivered::Not)?;
            (sent, whole)
        }
        true => {
            send_frames(stream, &mut down, from, maker)?;
            (true, up.is_done(stream.client) && down.is_done(from))
        }
    };
    stream.trace_response(Way::Sent, stream.client.line.is_framed());
    if maker == Maker::Server {
        stream.log_step(LogStep::Response);
        if fe.opts.logasap {
            finish::log_early(stream);
        }
    }
    if !(sent && whole) {
        return Ok(Some(down));
    }
    count(stream, from, maker);
    if up.spliced > 0 {
        count_spliced(stream, up, &down);
    }
    Ok(None)
}

/// Makes what the response says of its body what the client can read, and says how it will be written.
#[inline]
fn shape(stream: &mut Stream<'_>) -> Shape {
    let length = stream.state.response.framing().body;
    let client_is_11 = stream.state.request.version().is_11_or_later();
    // A rule may have made the response one that has no body.
    let bodiless = !may_have_body(Method::Get, stream.state.response.status());
    if bodiless && length != BodyLength::None {
        stream.state.response.remove_id(HeaderId::ContentLength);
        stream.state.response.remove_id(HeaderId::TransferEncoding);
    }
    let until_close = length == BodyLength::UntilClose;
    let delimiter = match length {
        _ if bodiless || stream.client.line.is_framed() => Delimiter::Plain,
        BodyLength::Chunked if client_is_11 => Delimiter::Chunked,
        BodyLength::Chunked => {
            stream.state.response.remove_id(HeaderId::TransferEncoding);
            stream.keep_alive = false;
            Delimiter::Plain
        }
        // Giving the body an end of its own lets the client's connection live on.
        BodyLength::UntilClose
            if client_is_11 && stream.state.response.push(b"transfer-encoding", b"chunked").is_ok() =>
        {
            Delimiter::Chunked
        }
        BodyLength::UntilClose => {
            stream.keep_alive = false;
            Delimiter::Plain
        }
        // Frames said that there is none, which no field of the message says.
        BodyLength::None
            if stream.state.client_method != Method::Head
                && !stream.state.response.has(HeaderId::ContentLength)
                && stream.state.response.push(b"content-length", b"0").is_err() =>
        {
            stream.keep_alive = false;
            Delimiter::Plain
        }
        _ => Delimiter::Plain,
    };
    Shape { delimiter, bodiless, until_close }
}

/// Evaluates `http-after-response`, and notes the status that comes of it.
#[inline]
async fn pass_rules(stream: &mut Stream<'_>, maker: Maker) -> bool {
    if let Some(limit) = stream.state.facts.limit {
        // A response without room for them goes without.
        let _ = limit::describe(stream, limit);
    }
    let made = stream.state.response.status();
    let of = |proxy: &Proxy| proxy.rules.http_after_response.is_empty();
    let passed = (of(stream.backend()) && of(stream.frontend())) || rules::after_response(stream).await;
    let status = stream.state.response.status();
    if passed && (status != made || !matches!(maker, Maker::Own { .. })) {
        stream.state.facts.status = i32::from(status);
    }
    passed
}

/// The way of the body.
#[inline]
fn pump_down(stream: &Stream<'_>, be: &Proxy, fe: &Proxy, shape: Shape, maker: Maker) -> Pump {
    let form = Form {
        delimiter: shape.delimiter,
        drop_trailers: be.opts.http_drop_response_trailers || fe.opts.http_drop_response_trailers,
    };
    let splice = be.opts.splice_response || fe.opts.splice_response;
    let mut down = Pump::new(form, transfer_mode(stream, splice, be, fe));
    if !matches!(maker, Maker::Own { .. }) {
        down.filter(filters(stream, Direction::Response));
    }
    // The client may have asked for less than the server was asked for, when a rule changed the method.
    let head_only = stream.state.has_request && stream.state.client_method == Method::Head;
    if (shape.bodiless && shape.until_close) || ((head_only || shape.bodiless) && maker != Maker::Server) {
        down.abandon();
    } else if head_only || shape.bodiless {
        down.discard_all();
    }
    down
}

/// Whether a response has chunks and a version that has none: its connection ends with it, and so does the client's
/// (RFC 9112 section 6.1).
fn is_of_no_version(response: &Head) -> bool {
    response.framing().insecure && !response.version().is_11_or_later()
}

/// The head as it goes out, once it is known whether the client's connection may be kept.
#[inline]
fn final_head(stream: &mut Stream<'_>, fe: &Proxy, maker: Maker) -> Option<Buf> {
    let closes = take_connection_options(&mut stream.state.response)
        || stream.worker.dismisses(stream.session.listener)
        || fe.opts.httpclose
        || is_of_no_version(&stream.state.response);
    if closes {
        stream.keep_alive = false;
    }
    let request = &stream.state.request;
    let peer = if stream.state.has_request { request.version() } else { Version::HTTP_11 };
    let options = EncodeOptions {
        connection: connection_option(Version::HTTP_11, peer, stream.keep_alive),
        proxy_connection: maker == Maker::Server
            && fe.opts.http_use_proxy_header
            && request.target().first() != Some(&b'/'),
        case: stream.worker.response_case(fe.id),
    };
    stream.state.response.set_version(Version::HTTP_11);
    encode(&stream.state.response, &options)
}

/// Sends the head with what is there of the body, or keeps them for when the client takes more: false then. `whole`: that is
/// all, both ways.
#[inline]
fn send_first(
    stream: &mut Stream<'_>,
    down: &mut Pump,
    head: Buf,
    mut first: Option<Buf>,
    whole: bool,
    maker: Maker,
) -> Result<bool, Cause> {
    if bug("answered-twice") && maker != Maker::Server && stream.state.response.status() == 502 {
        let body = first.as_deref().unwrap_or(&[]);
        first = Some(Buf::copy_of(&[body, &head, body].concat()));
    }
    let line = &mut stream.client.line;
    match line.poll_send_ready() {
        Poll::Ready(Ok(())) => {}
        Poll::Pending => {
            down.hold(head, first);
            return Ok(false);
        }
        Poll::Ready(Err(_)) if maker == Maker::Server => return Err(Cause::ClientLeftInResponse),
        Poll::Ready(Err(_)) => return Err(Cause::ClientLeftUnanswered),
    }
    if !stream.keep_alive && whole {
        line.end_with_next_send();
    }
    send_with(line, head, first);
    Ok(true)
}

/// Sends the head and what is there of the body on a line with frames.
fn send_frames(
    stream: &mut Stream<'_>,
    down: &mut Pump,
    from: &mut Port,
    maker: Maker,
) -> Result<(), Delivered> {
    let closes = take_connection_options(&mut stream.state.response);
    if closes && matches!(maker, Maker::Server | Maker::Service) {
        stream.client.line.announce_end();
    }
    let Ok(first) = down.take_first(from) else { return Err(Delivered::BadBody) };
    let response = &stream.state.response;
    let line = &mut stream.client.line;
    if !line.send_head(response, first.ends_with_head) {
        return Err(Delivered::Not(match maker {
            Maker::Server => Cause::ClientLeftInResponse,
            _ => Cause::ClientLeftUnanswered,
        }));
    }
    stream.state.facts.res_bytes_out += response.encoded_len() as u64;
    down.send_first(first, line);
    Ok(())
}

/// Counts what was moved beside the heads.
#[inline]
fn count(stream: &mut Stream<'_>, from: &Port, maker: Maker) {
    let received = from.body.received();
    stream.state.facts.res_bytes_out += received;
    if !matches!(maker, Maker::Own { .. }) {
        stream.state.facts.res_bytes_in += received;
        stream.count_sent_body();
    }
}

/// Counts what went through pipes of the kernel.
fn count_spliced(stream: &Stream<'_>, up: &Pump, down: &Pump) {
    let worker = stream.worker;
    let client_side = worker.fe_counters(stream.session.listener);
    client_side.spliced_in.add(up.spliced);
    client_side.spliced_out.add(down.spliced);
    let server_side = worker.be_counters(stream.state.backend());
    server_side.spliced_in.add(down.spliced);
    server_side.spliced_out.add(up.spliced);
}

/// Both bodies, at the same time.
async fn exchange_bodies(
    stream: &mut Stream<'_>,
    from: &mut Port,
    up: &mut Pump,
    down: &mut Pump,
    waits: &mut Waits,
) -> Result<(), Cause> {
    // An answer of this process does not end with a server; it may be made because of such an end.
    let is_ours = matches!(from.line, Line::Local(_));
    let shut = shut_check(stream.worker, stream.state);
    let entry = &stream.state.entry;
    // Whatever the request was to become, it is a message that was answered.
    up.end_message(true);
    let mut both = Both {
        // No server is kept busy by an answer of this process.
        abort: stream.backend().opts.abortonclose && !is_ours,
        like_tunnel: from.body.is_until_close() && !from.line.is_framed(),
        up_done: up.is_done(stream.client),
        down_done: down.is_done(from),
        client: stream.client,
        from,
        up,
        down,
        waits,
    };
    std::future::poll_fn(|_| match if is_ours { entry.is_killed() } else { shut() } {
        true => Poll::Ready(Err(Cause::ServerWentDownInBody)),
        false => both.poll(),
    })
    .await
}

/// Both directions of an exchange, once the response's head was sent.
struct Both<'b> {
    client: &'b mut Port,
    from: &'b mut Port,
    up: &'b mut Pump,
    down: &'b mut Pump,
    waits: &'b mut Waits,
    up_done: bool,
    down_done: bool,
    /// The end of the client's direction counts (`option abortonclose`), unless that of the server is the end of its
    /// response: such a response is like a tunnel, and the server is told of the client's end in its turn. Nor does the end
    /// of one count for whom a response waits: it may read late.
    abort: bool,
    like_tunnel: bool,
}

impl Both<'_> {
    fn poll(&mut self) -> Poll<Result<(), Cause>> {
        if let Some(cause) = self.move_down().or_else(|| self.move_up()) {
            return Poll::Ready(Err(cause));
        }
        if self.down_done && self.up_done {
            return Poll::Ready(Ok(()));
        }
        match self.departed().or_else(|| self.overdue()) {
            Some(cause) => Poll::Ready(Err(cause)),
            None => Poll::Pending,
        }
    }

    fn move_down(&mut self) -> Option<Cause> {
        if self.down_done {
            return None;
        }
        match self.down.poll(self.from, &mut self.client.line) {
            Poll::Pending => None,
            Poll::Ready(Ok(())) => {
                self.down_done = true;
                None
            }
            Poll::Ready(Err(PumpError::Send(_))) => Some(Cause::ClientLeftInResponse),
            Poll::Ready(Err(PumpError::Cut(cut))) => Some(match cut {
                Cut::Broken(_) | Cut::Closed => Cause::ServerLeftInBody,
                Cut::Malformed(_) => Cause::BadResponseBody,
                Cut::NoBuffer => Cause::NoBufferInBody,
            }),
        }
    }

    fn move_up(&mut self) -> Option<Cause> {
        if self.up_done {
            return None;
        }
        match self.up.poll(self.client, &mut self.from.line) {
            Poll::Pending => None,
            // The server has answered and wants no more of the body, if that is what it came to.
            Poll::Ready(Ok(()) | Err(PumpError::Send(_))) => {
                self.up_done = true;
                None
            }
            Poll::Ready(Err(PumpError::Cut(cut))) => Some(match cut {
                Cut::Malformed(_) => Cause::BadRequestBodyAnswered,
                Cut::NoBuffer => Cause::NoBufferInBody,
                Cut::Broken(_) | Cut::Closed => {
                    self.client.eof = true;
                    if self.down_done { Cause::ClientLeftAnswered } else { Cause::ClientLeftInResponse }
                }
            }),
        }
    }

    /// Whether the client is gone, when its direction does not tell.
    fn departed(&mut self) -> Option<Cause> {
        if !self.up_done && !self.up.blocked_on_send && !self.up.is_held_back() {
            return None;
        }
        match self.client.line.departure() {
            Departure::Reset => return Some(Cause::ClientLeftInResponse),
            Departure::Ended if self.abort && self.up_done && self.like_tunnel => {
                self.like_tunnel = false;
                // A server that is gone already is noticed by its own direction.
                let _ = self.from.line.shutdown_write();
            }
            Departure::Ended if !self.down_done && self.down.blocked_on_send => self.abort = false,
            Departure::Ended
                if self.abort
                    && self.up_done
                    && (self.from.line.is_framed() || !self.from.body.is_until_close()) =>
            {
                return Some(Cause::ClientLeftInResponse);
            }
            _ => {}
        }
        None
    }

    /// Whether somebody took too long.
    fn overdue(&mut self) -> Option<Cause> {
        let client_stuck = !self.down_done && self.down.blocked_on_send;
        let server_stuck = !self.up_done && self.up.blocked_on_send;
        let client_owes = match self.up_done || server_stuck || self.up.is_held_back() {
            true => Expects::Nothing,
            false => Expects::Bytes,
        };
        // A server that answers early owes the rest of its answer once it has all of the request.
        let server_owes = match self.up_done && !self.down_done && !client_stuck && !self.down.is_held_back()
        {
            true => Expects::Bytes,
            false => Expects::Nothing,
        };
        if self.waits.client.check(&self.client.line, client_owes, client_stuck).is_some() {
            return Some(if self.down_done { Cause::ClientSilentAnswered } else { Cause::ClientStuck });
        }
        let server = self.waits.server.check(&self.from.line, server_owes, server_stuck);
        server.map(|_| Cause::ServerSilentInBody)
    }
}

/// The filters that a direction's payload passes, with what rules set by now.
#[inline]
pub fn filters(stream: &Stream<'_>, direction: Direction) -> Option<Box<Filtered>> {
    let mut filtered = Filtered::of(direction, stream.worker, stream.frontend(), stream.backend())?;
    filtered.apply(&stream.state.effects.bandwidth, clock::now_ms());
    Some(filtered)
}

/// How long stretches of a body may be moved; `splice`: an option asks for that direction to be spliced. Without one they
/// still are where that is the cheapest, unless splicing is forbidden.
pub fn transfer_mode(stream: &Stream<'_>, splice: bool, be: &Proxy, fe: &Proxy) -> Option<TransferMode> {
    let global = &stream.worker.instance.config.global;
    if global.tune.disable_fast_forward {
        return None;
    }
    let zero_copy =
        !global.tune.disable_zero_copy && global.tune.h1_zero_copy_recv && global.tune.h1_zero_copy_send;
    let splice = splice || be.opts.splice_auto || fe.opts.splice_auto;
    Some(match (!global.nosplice && zero_copy, splice) {
        (false, _) => TransferMode::Copy,
        (true, false) => TransferMode::Auto,
        (true, true) => TransferMode::Splice,
    })
}

/// A buffer with the encoded head in it; larger than usual if need be, and one of the reserve if there is no other: what goes on gives
/// others back.
pub fn encode(head: &Head, options: &EncodeOptions<'_>) -> Option<Buf> {
    let mut out = Buf::with_capacity_default().or_else(Buf::from_reserve)?;
    let mut written = encode_into(head, options, out.unused_mut());
    if written.is_none() {
        out = Buf::large(thalweg_h1::encode::encoded_len(head, options));
        written = encode_into(head, options, out.unused_mut());
    }
    out.commit(written?);
    Some(out)
}

/// Hands a head and what follows it to the kernel in one call.
pub fn send_with(line: &mut Line, mut head: Buf, body: Option<Buf>) {
    match body {
        None => line.start_send(head),
        // Copying a little costs less than a second piece in the call.
        Some(body) if body.len() <= 4096 && head.extend_from_slice(&body).is_ok() => line.start_send(head),
        Some(body) => line.start_send2(head, body),
    }
}
