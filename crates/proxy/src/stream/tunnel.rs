//! What a request was upgraded to: after a `101`, or a `2xx` to CONNECT, bytes go in both directions until the end.

use thalweg_config::model::Proxy;
use thalweg_h1::encode::EncodeOptions;
use thalweg_http::Version;

use super::deadline::Limits;
use super::deliver::{encode, filters, transfer_mode};
use super::ending::Cause;
use super::filter::Direction;
use super::pump::Pump;
use super::relay::{RelayEnd, relay};
use super::{After, Stream, finish, reply, rules, shut_check};
use crate::backend::connect::ServerConn;
use crate::stopping::Stopping;

/// Sends the head that agrees to it, and relays. `up` begins with what is left of the request's body.
pub async fn tunnel(stream: &mut Stream<'_>, conn: &mut ServerConn, up: Pump) -> After {
    // From here on each side ends in order, when it has said everything.
    conn.port.line.set_reset_on_close(false);
    let (be, fe) = (stream.backend(), stream.frontend());
    if !rules::after_response(stream).await {
        return reply::internal_error(stream, Cause::AfterRewriteFailed).await;
    }
    if let Err(cause) = send_head(stream, fe).await {
        return stream.end(cause);
    }
    let limits = Limits::of_relay(fe, be, &stream.state.facts, true);
    let splice = be.opts.splice_response || fe.opts.splice_response;
    let mut down = Pump::plain(transfer_mode(stream, splice, be, fe));
    down.filter(filters(stream, Direction::Response));
    let worker = stream.worker;
    let shut = shut_check(worker, stream.state);
    let relayed = relay(stream.client, &mut conn.port, [up, down], limits, || {
        worker.instance.stopping() == Stopping::Hard || shut()
    })
    .await;
    let cause = if shut() { Some(Cause::ServerWentDownInBody) } else { relayed.end.cause() };
    finish::note_failed_server_tls(stream, &conn.port);
    let facts = &mut stream.state.facts;
    facts.req_bytes_in += relayed.up;
    facts.req_bytes_out += relayed.up;
    facts.res_bytes_in += relayed.down;
    facts.res_bytes_out += relayed.down;
    if relayed.end == RelayEnd::ClientAborted {
        // The server hears of it in the same way: not everything was said.
        conn.port.line.set_linger_rst();
    }
    stream.client.eof = true;
    cause.map_or(After::Close, |cause| stream.end(cause))
}

async fn send_head(stream: &mut Stream<'_>, fe: &Proxy) -> Result<(), Cause> {
    if stream.client.line.is_framed() {
        let response = &stream.state.response;
        stream.state.facts.res_bytes_out += response.encoded_len() as u64;
        let sent = stream.client.line.send_head(response, false);
        return if sent { Ok(()) } else { Err(Cause::ClientLeftInResponse) };
    }
    let case = stream.worker.response_case(fe.id);
    let options = EncodeOptions { connection: None, proxy_connection: false, case };
    stream.state.response.set_version(Version::HTTP_11);
    let head = encode(&stream.state.response, &options).ok_or(Cause::NoBufferForAnswer)?;
    if stream.client.line.send_ready().await.is_err() {
        return Err(Cause::ClientLeftInResponse);
    }
    stream.state.facts.res_bytes_out += head.len() as u64;
    stream.client.line.start_send(head);
    Ok(())
}
