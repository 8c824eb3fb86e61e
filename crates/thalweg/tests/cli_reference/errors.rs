//! `show errors` after messages that neither program understands: who said it to whom, where reading ended, and the bytes.

use super::pair::Pair;
use super::support::{Server, eventually};

const CONFIGURATION: &str = "\
global
  stats socket <@dir>/admin level admin
defaults
  mode http
  timeout client 20s
  timeout server 20s
  timeout connect 20s
  retries 0
frontend fe
  bind <@fe>
  default_backend be
backend be
  server s1 <server>
listen other
  id 50
  bind <@other>
  server s1 <server>
";

/// Requests, and what comes back where the server is asked; it answers with the target's text, unescaped.
const REQUESTS: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: h\r\nbad header: x\r\n\r\n",
    "GET\r\n\r\n",
    "\x16\x03\x01\x02\x01\x01\x03\x03",
    "GET /\x01abc HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET / HTTP/1.x\r\nHost: h\r\n\r\n",
    "GET / FTP/1.1\r\nHost: h\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\nabc",
    "GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: \r\nHost: x\r\n\r\n",
    "GET /\r\n",
    // Of a response: a bad name, two lengths, a byte that may not be.
    "GET /HTTP/1.1%20200%20OK%0d%0abad%20header:%20x%0d%0a%0d%0a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "GET /HTTP/1.1%20200%20OK%0d%0aContent-Length:%201%0d%0aContent-Length:%202%0d%0a%0d%0ax HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "GET /HTTP/1.1%20200%20OK%0d%0aX:%20%09%00%5c%1b%0d%0a%0d%0a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
];

/// The text without times, ports, figures of the reference's buffers, and why it was refused.
fn masked(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = match line.split_once("captured on [") {
            Some((before, after)) => format!("{before}captured{}", after.split_once(']').map_or("", |a| a.1)),
            None if line.starts_with('[') => line.split_once(']').map_or("", |a| a.1).to_owned(),
            None => line.to_owned(),
        };
        let line = match line.split_once(", src 127.") {
            Some((before, _)) => format!("{before}, src <address>"),
            None => line,
        };
        // Words of ours, flags of theirs, before the bytes.
        if line.starts_with("  H1 ") || line.starts_with("  buffer starts") || line.ends_with(" :") {
            continue;
        }
        match line.split_once(", wraps at ") {
            Some((before, after)) => {
                out.push_str(before);
                out.push_str(after.trim_start_matches(|c: char| c.is_ascii_digit()));
            }
            None => out.push_str(&line),
        }
        out.push('\n');
    }
    out
}

fn unescaped(target: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = target;
    while let Some((before, after)) = rest.split_once('%') {
        out.extend_from_slice(before.as_bytes());
        out.push(u8::from_str_radix(&after[..2], 16).unwrap());
        rest = &after[2..];
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

#[test]
fn the_last_messages_that_were_refused_are_shown() {
    let server = Server::start(|mut conn, _| {
        while let Some(request) = conn.next_request() {
            let line = request.head.line.clone();
            let target = line.split(' ').nth(1).unwrap_or("/");
            conn.send(unescaped(&target[1..]));
        }
    });
    let Some(pair) = Pair::start(&CONFIGURATION.replace("<server>", &server.addr.to_string())) else {
        return;
    };
    for (number, request) in REQUESTS.iter().enumerate() {
        for side in [&pair.ours, &pair.theirs] {
            side.say("fe", request);
            let wanted = format!("] : {}\n", number + 1);
            eventually("it is kept", || side.ask("admin", "show errors").contains(&wanted).then_some(()));
        }
        let answers = pair.ask("admin", "show errors");
        assert_eq!(masked(&answers.ours), masked(&answers.theirs), "after {request:?}");
    }
    for side in [&pair.ours, &pair.theirs] {
        side.say("other", REQUESTS[0]);
        side.say("other", REQUESTS[12]);
        let wanted = format!("] : {}\n", REQUESTS.len() + 2);
        eventually("both are kept", || side.ask("admin", "show errors").contains(&wanted).then_some(()));
    }
    for arguments in [
        "",
        "-1",
        "-7",
        "2",
        "#2",
        "3",
        "50",
        "fe",
        "be",
        "other",
        "fe request",
        "fe response",
        "be request",
        "be response",
        "50 request",
        "other response",
        "-1 request",
        "-1 response",
        "99",
        "nope",
        "0",
        "request",
        "fe x",
        "fe request x",
    ] {
        let answers = pair.ask("admin", &format!("show errors {arguments}"));
        assert_eq!(masked(&answers.ours), masked(&answers.theirs), "show errors {arguments}");
    }
}
