//! A small HTTPS server on 127.0.0.1, for tools that try listeners: it answers each request with one response and keeps the
//! connection.
//!
//!     cargo run -p thalweg-tls --example serve -- 4433
//!
//! Its certificates, ECDSA and RSA, are made at the start and signed by nobody. Blocking sockets and a thread per connection:
//! the engine is the same as in the proxy, everything around it is not.

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use support::*;
use thalweg_tls::bind::Profile;
use thalweg_tls::engine::{Accepting, Connected, Connection, Event, Step};
use thalweg_tls::select::Selection;
use thalweg_tls::x509::make::NewKey;
use thalweg_tls::{Failure, FixedClock};

fn main() {
    let port = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(4433);
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let clock = Arc::new(FixedClock::at(now.as_secs()));
    let authority = Authority::new("Root");
    let hosts = ["localhost", "localhost4"];
    let issue = |kind| credential("localhost", &authority.issue(&template("localhost").hosts(&hosts), kind));
    let (rsa, ecdsa) = (issue(NewKey::Rsa2048), issue(NewKey::P256));
    let profile = Profile { alpn: vec![b"http/1.1".to_vec()], ..Profile::default() };
    let selection = bind(&profile, shared(&clock), &[&rsa, &ecdsa]);
    println!("listening on {port}");
    for stream in listener.incoming().flatten() {
        let selection = selection.clone();
        std::thread::spawn(move || {
            if let Err(failure) = serve(stream, selection) {
                println!("{failure}");
            }
        });
    }
}

fn shake_hands(stream: &mut TcpStream, selection: Arc<Selection>) -> Result<Connected, Failure> {
    let mut accepting = Accepting::new(selection);
    let (mut out, mut bytes) = (Vec::new(), [0; 16384]);
    loop {
        let count = stream.read(&mut bytes).map_err(|_| Failure::Closed)?;
        if count == 0 {
            return Err(Failure::Closed);
        }
        let mut step = accepting.feed(&bytes[..count], &mut out).map(|()| Step::More);
        while matches!(step, Ok(Step::More)) && accepting.is_ready() {
            step = accepting.step(&mut out);
        }
        stream.write_all(&out).map_err(|_| Failure::Closed)?;
        out.clear();
        if step? == Step::Done {
            let connected = accepting.finish(&mut out);
            stream.write_all(&out).map_err(|_| Failure::Closed)?;
            return connected;
        }
    }
}

fn serve(mut stream: TcpStream, selection: Arc<Selection>) -> Result<(), Failure> {
    let connected = shake_hands(&mut stream, selection)?;
    let (mut connection, mut input) = (connected.connection, connected.rest);
    let served = exchange(&mut stream, &mut connection, &mut input);
    let mut out = [0; 256];
    let length = match &served {
        Ok(()) => connection.close(&mut out)?,
        Err(failure) => match failure.alert() {
            Some(description) => connection.alert(description, &mut out)?,
            None => 0,
        },
    };
    let _ = stream.write_all(&out[..length]);
    served
}

fn exchange(stream: &mut TcpStream, connection: &mut Connection, input: &mut Vec<u8>) -> Result<(), Failure> {
    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let mut request = Vec::new();
    loop {
        while let Some(opened) = connection.open(input)? {
            let mut out = [0; 512];
            let mut length = connection.reply(&mut out);
            if let Event::Data(range) = &opened.event {
                request.extend_from_slice(&input[range.clone()]);
            }
            input.drain(..opened.consumed);
            if request.ends_with(b"\r\n\r\n") {
                request.clear();
                length += connection.seal(&[RESPONSE], 16384, &mut out[length..])?.written;
            }
            stream.write_all(&out[..length]).map_err(|_| Failure::Closed)?;
            if opened.event == Event::Closed {
                return Ok(());
            }
        }
        let mut bytes = [0; 16384];
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => return Err(Failure::Closed),
            Ok(count) => input.extend_from_slice(&bytes[..count]),
        }
    }
}
