//! The end of a stream: what is counted and what is logged.

use thalweg_config::model::{LogLevel, Proxy};
use thalweg_runtime::clock;
use thalweg_sample::facts::{ConnCounts, LogOrigin};

use super::http::Http;
use super::relay::RelayEnd;
use super::{Bodies, StreamState};
use crate::frontend::ClientSession;
use crate::worker::Worker;

/// Counts and logs an HTTP stream.
pub fn http(http: &mut Http<'_>, fe: &Proxy) {
    http.state.facts.timers.close_us = http.elapsed_us();
    stream_counters(http.worker, http.session, http.state);
    if !fe.opts.logasap || http.state.facts.server_status < 0 {
        log_stream(http.worker, http.session, http.state, fe);
    }
    release(http.worker, http.state);
}

/// Adds a stream's bytes and timers to the counters of everything it passed through.
pub fn stream_counters(worker: &Worker, session: &ClientSession, state: &StreamState) {
    let facts = &state.facts;
    let fe = worker.fe_counters(session.frontend);
    fe.bytes_in.add(facts.req_bytes_in);
    fe.bytes_out.add(facts.res_bytes_out);
    if !facts.backend_assigned {
        return;
    }
    let now_ms = clock::now_ms();
    let be = worker.be_counters(state.backend());
    let server = facts.server.map(|s| worker.srv_counters(state.backend(), thalweg_config::model::ServerId(s.index)));
    for counters in [Some(be), server].into_iter().flatten() {
        counters.bytes_in.add(facts.req_bytes_in);
        counters.bytes_out.add(facts.res_bytes_in);
        counters.last_session_ms.raise_to(now_ms);
        let t = &facts.timers;
        let positive = |ms: i64| u64::try_from(ms).unwrap_or(0);
        counters.queue_ms.add(positive(t.tw()));
        counters.connect_ms.add(positive(t.tc()));
        counters.response_ms.add(positive(t.tr()));
        counters.total_ms.add(positive(t.ta(clock::now_us())));
        counters.timed.add(1);
    }
}

/// The stream leaves its backend.
pub fn release(worker: &Worker, state: &mut StreamState) {
    if std::mem::take(&mut state.facts.backend_assigned) {
        worker.be_counters(state.backend()).current.sub(1);
    }
}

/// Writes the log line of a stream, unless options say that it is not wanted.
pub fn log_stream(worker: &Worker, session: &mut ClientSession, state: &mut StreamState, fe: &Proxy) {
    if !worker.logs(fe.id) {
        return;
    }
    let facts = &state.facts;
    if facts.log_level == Some(255) {
        return;
    }
    let failed = is_error(state);
    if fe.opts.dontlog_normal && !failed {
        return;
    }
    // A connection on which nothing came is not worth a line when `option dontlognull` says so.
    let nothing = facts.req_bytes_in == 0 && facts.res_bytes_out == 0 && !state.has_request;
    if fe.opts.dontlognull && nothing {
        return;
    }
    let level = match facts.log_level {
        Some(n) => level_of(n),
        None if failed && fe.opts.log_separate_errors => LogLevel::Err,
        None => LogLevel::Info,
    };
    emit(worker, session, state, fe, level);
}

/// Whether the stream counts as failed for `dontlog-normal` and `log-separate-errors`.
fn is_error(state: &StreamState) -> bool {
    let facts = &state.facts;
    let normal_cause = facts.termination.cause == b'-'
        || (facts.termination.cause == b'L' && facts.status < 500);
    let bad_status = facts.is_http && (facts.status >= 500 || facts.status < 0);
    !normal_cause || facts.retries > 0 || facts.redispatched || bad_status
}

fn level_of(n: u8) -> LogLevel {
    use LogLevel::{Alert, Crit, Debug, Emerg, Err, Info, Notice, Warning};
    *[Emerg, Alert, Crit, Err, Warning, Notice, Info, Debug].get(usize::from(n)).unwrap_or(&Info)
}

/// Renders and sends one line with the frontend's format.
fn emit(worker: &Worker, session: &mut ClientSession, state: &mut StreamState, fe: &Proxy, level: LogLevel) {
    let instance = &worker.instance;
    let be = state.backend();
    state.facts.counts = ConnCounts {
        process: instance.process_gate.current(),
        frontend: instance.frontend_connections(fe.id),
        backend: if state.facts.backend_assigned { instance.backend_streams(be) } else { 0 },
        server: state
            .facts
            .server
            .map_or(0, |s| instance.server_streams(be, thalweg_config::model::ServerId(s.index))),
    };
    let mut text = worker.text.take();
    let mut data = Vec::new();
    text.clear();
    let formats = &fe.formats;
    state.evaluate(worker, &mut session.facts, Bodies::default(), true, true, |cx, _| {
        match &formats.log {
            Some(format) => format.render(cx, &mut text),
            None => text.extend_from_slice(b"-"),
        }
        if let Some(format) = &formats.sd {
            format.render(cx, &mut data);
        }
    });
    worker.log(fe.id, level, &data, &text);
    worker.text.replace(text);
}

/// `option logasap`: the line is written when the response's head was sent.
pub fn log_early(http: &mut Http<'_>) {
    let fe = http.frontend();
    http.state.facts.log_early = true;
    log_stream(http.worker, http.session, http.state, fe);
}

/// `do-log`.
pub fn log_now(http: &mut Http<'_>, _profile: Option<&str>) {
    let fe = http.frontend();
    if !http.worker.logs(fe.id) {
        return;
    }
    http.state.facts.log_origin = LogOrigin::TxnRequest;
    emit(http.worker, http.session, http.state, fe, LogLevel::Info);
    http.state.facts.log_origin = LogOrigin::Unspecified;
}

/// Makes the stream's unique identifier, unless it has one.
pub fn ensure_unique_id(http: &mut Http<'_>) {
    if http.state.facts.unique_id.is_some() {
        return;
    }
    let fe = http.frontend();
    let Some(format) = &fe.unique_id_format else { return };
    let mut id = Vec::new();
    http.state.evaluate(http.worker, &mut http.session.facts, Bodies::default(), false, true, |cx, _| {
        format.render(cx, &mut id);
    });
    http.state.facts.unique_id = Some(id);
}

/// Termination state and counters of a relay that ended.
pub fn relay_end(http: &mut Http<'_>, end: RelayEnd) {
    let (cause, phase) = relay_state(end);
    if cause != b'-' {
        http.terminate(cause, phase);
    }
    let fe = http.worker.fe_counters(http.session.frontend);
    let be = http.worker.be_counters(http.state.backend());
    count_relay_end(fe, be, end);
}

/// What [`RelayEnd`] means in a log line.
pub fn relay_state(end: RelayEnd) -> (u8, u8) {
    match end {
        RelayEnd::Done => (b'-', b'-'),
        RelayEnd::ClientAborted => (b'C', b'D'),
        RelayEnd::ServerAborted => (b'S', b'D'),
        RelayEnd::ClientTimeout => (b'c', b'D'),
        RelayEnd::ServerTimeout => (b's', b'D'),
        RelayEnd::Resource => (b'K', b'D'),
    }
}

/// Counts aborts.
pub fn count_relay_end(fe: &crate::counters::Counters, be: &crate::counters::Counters, end: RelayEnd) {
    match end {
        RelayEnd::ClientAborted => {
            fe.client_aborts.add(1);
            be.client_aborts.add(1);
        }
        RelayEnd::ServerAborted => be.server_aborts.add(1),
        _ => {}
    }
}
