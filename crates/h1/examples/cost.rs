//! What parsing and writing a head costs. Run it under callgrind with 0 and with 1000 rounds and take the
//! difference for instructions per head, or alone for time:
//!
//! ```text
//! cargo run --release -p thalweg-h1 --example cost -- request 1000000
//! valgrind --tool=callgrind target/release/examples/cost request 1000
//! ```

use std::hint::black_box;
use std::time::Instant;

use thalweg_h1::{ChunkDecoder, ChunkEvent, EncodeOptions, HeadParser, ParseOptions, encode_into};
use thalweg_http::Head;
use thalweg_http::semantics::RequestContext;

const REQUEST: &[u8] = b"GET /static/img/logo.png?v=20260101 HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101\r\nAccept: image/avif,image/webp,*/*\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\nReferer: https://www.example.com/\r\nConnection: keep-alive\r\nCookie: sid=0123456789abcdef\r\n\r\n";
const SMALL: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: wrk\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sat, 21 Nov 2026 08:00:00 GMT\r\nContent-Type: text/html\r\nContent-Length: 1024\r\nLast-Modified: Sat, 21 Nov 2026 07:00:00 GMT\r\nConnection: keep-alive\r\nETag: \"6740-400\"\r\nAccept-Ranges: bytes\r\n\r\n";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_else(|| "request".into());
    let rounds: u32 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let options = ParseOptions::default();
    let context = RequestContext::default();
    let mut head = Head::new();
    let mut out = vec![0u8; 16384];
    let mut body = Vec::new();
    for _ in 0..16 {
        body.extend_from_slice(b"400\r\n");
        body.extend_from_slice(&[b'x'; 1024]);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"0\r\n\r\n");
    let start = Instant::now();
    for _ in 0..rounds {
        let mut parser = HeadParser::new();
        match what.as_str() {
            "request" => {
                _ = black_box(parser.parse_request(&options, black_box(REQUEST), &mut head));
            }
            "small" => {
                _ = black_box(parser.parse_request(&options, black_box(SMALL), &mut head));
            }
            "response" => {
                _ = black_box(parser.parse_response(&options, &context, black_box(RESPONSE), &mut head));
            }
            "forward" => {
                _ = black_box(parser.parse_request(&options, black_box(REQUEST), &mut head));
                black_box(encode_into(&head, &EncodeOptions::default(), &mut out));
            }
            "chunks" => {
                let mut decoder = ChunkDecoder::new();
                let mut at = 0;
                while let Ok(step) = decoder.step(&options, black_box(&body[at..]), &mut head) {
                    at += step.consumed;
                    if matches!(step.event, ChunkEvent::End | ChunkEvent::NeedMore) {
                        break;
                    }
                }
                assert!(decoder.is_done());
            }
            _ => {
                eprintln!("unknown subject '{what}': request, small, response, forward or chunks");
                std::process::exit(1);
            }
        }
    }
    let elapsed = start.elapsed();
    println!("{what}: {:.1} ns each, {rounds} rounds", elapsed.as_nanos() as f64 / f64::from(rounds.max(1)));
}
