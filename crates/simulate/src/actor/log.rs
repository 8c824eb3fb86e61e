//! Whoever the log lines are sent to.

use std::rc::Rc;

use thalweg_runtime::net::Datagram;

use crate::record::{LogLine, Record};

/// What a line has but for the number of its configuration.
const WORDS: usize = 13;

/// What is said of a client whose handshake took too long, behind its address.
const NO_TLS: &str = ": Timeout during SSL handshake";

/// Reads lines for ever.
pub async fn read(mut socket: Datagram, record: Rc<Record>) {
    while let Ok(received) = socket.recv_from().await {
        let text = String::from_utf8_lossy(&received.bytes).trim().to_owned();
        record.network.note(|| format!("log   {text}"));
        if let Some(client) = text.strip_suffix(NO_TLS).and_then(|line| line.split(' ').next()) {
            record.without_tls.borrow_mut().push(client.to_owned());
        }
        // Lines about servers that go up and down say other things.
        if let Some(line) = parse(&text) {
            record.lines.borrow_mut().push(line);
        }
    }
}

/// A line in the format of the plans.
fn parse(text: &str) -> Option<LogLine> {
    let mut words: Vec<&str> = text.split(' ').collect();
    // Behind the others, where the configuration has one.
    let generation = words.get(WORDS).and_then(|word| word.parse().ok());
    words.truncate(WORDS);
    let [client, frontend, backend, server, status, b0, b1, b2, b3, state, retries, times, id] = words[..]
    else {
        return None;
    };
    let number = |text: &str| text.parse::<u64>().ok();
    Some(LogLine {
        client: client.to_owned(),
        frontend: frontend.to_owned(),
        backend: backend.to_owned(),
        server: server.to_owned(),
        status: status.parse().ok()?,
        bytes: [number(b0)?, number(b1)?, number(b2)?, number(b3)?],
        state: state.to_owned(),
        retries: retries.trim_start_matches('+').parse().ok()?,
        redispatched: retries.starts_with('+'),
        has_connected: has_connected(times),
        id: id.parse().ok(),
        generation,
        text: text.to_owned(),
    })
}

/// Whether a server was reached, by the times of a line: `Tw/Tc/Tt`, or `TR/Tw/Tc/Tr/Ta`.
fn has_connected(times: &str) -> bool {
    let times: Vec<&str> = times.split('/').collect();
    times.get(times.len() / 2).is_some_and(|connect| *connect != "-1")
}
