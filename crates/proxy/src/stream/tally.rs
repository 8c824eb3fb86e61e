//! What a TCP stream counts of bytes that no relay moved.

use super::Stream;
use crate::connection::port::Port;

/// Counts what the client said although it went nowhere, up to what would have been looked at.
pub fn count_unsent(stream: &mut Stream<'_>) {
    let tune = &stream.worker.instance.config.global.tune;
    let mut said = stream.client.received().len();
    said += stream.client.line.discard_input((tune.bufsize - tune.maxrewrite).saturating_sub(said));
    stream.state.facts.req_bytes_in += said as u64;
}

/// Counts what went to the server before the relay.
pub fn count_sent(stream: &mut Stream<'_>) {
    let sent = stream.client.body.received();
    stream.state.facts.req_bytes_in += sent;
    stream.state.facts.req_bytes_out += sent;
}

/// Counts what went to the server, and what came of it although the client does not get that.
pub fn count_held_response(stream: &mut Stream<'_>, server: &Port) {
    count_sent(stream);
    stream.state.facts.res_bytes_in += server.received().len() as u64;
}
