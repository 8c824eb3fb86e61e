//! Early data (0-RTT): what a client sends with its ClientHello, what a server answers before the handshake is done, and what
//! becomes of it when the server does not want it.

mod support;

use std::sync::Arc;

use support::*;
use thalweg_tls::Failure;
use thalweg_tls::bind::Profile;
use thalweg_tls::engine::{Accepting, Connected, Connecting, SentEarly, Step};
use thalweg_tls::options::Versions;
use thalweg_tls::select::Selection;
use thalweg_tls::server::{ServerContext, ServerProfile};
use thalweg_tls::verify::{ClientPolicy, Verify};
use thalweg_tls::x509::make::NewKey;

const HOST: &str = "a.example.com";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

/// A server's line and a client's that trusts it and sends early data; the cache is of all lines of the server.
struct Pair {
    shared: thalweg_tls::bind::Shared,
    served: Arc<thalweg_tls::certificate::Credential>,
    client: Arc<ServerContext>,
    authority: Authority,
}

impl Pair {
    fn new() -> Pair {
        let (clock, authority) = (clock(), Authority::new("Root"));
        let served = authority.server(HOST, NewKey::P256);
        let client = server(&ServerProfile { early_data: true, ..trusting(&authority) }, &clock);
        Pair { shared: shared(&clock), served, client, authority }
    }

    fn line(&self, profile: &Profile) -> Arc<Selection> {
        bind(profile, self.shared.clone(), &[&self.served])
    }

    /// A line that takes this much early data.
    fn taking(&self, early_data: u32) -> Arc<Selection> {
        self.line(&Profile { early_data, ..Profile::default() })
    }

    fn connecting(&self, early: &[u8]) -> Connecting {
        Connecting::with_early_data(self.client.clone(), Some(HOST.as_bytes()), None, early.into()).unwrap()
    }

    /// Both sides of a line that they have met on, and what the client says first.
    fn begun(&self, selection: Arc<Selection>) -> (Connecting, Accepting, Vec<u8>) {
        self.meet(&selection);
        let (mut client, mut up) = (self.connecting(REQUEST), Vec::new());
        step(&mut client, &mut up);
        (client, Accepting::new(selection), up)
    }

    /// A whole handshake, after which the client has sessions.
    fn meet(&self, selection: &Arc<Selection>) {
        shake(selection, &self.client, Some(HOST), 99_999).unwrap();
    }
}

/// The client's side does what it can; whether it is done.
fn step(client: &mut Connecting, out: &mut Vec<u8>) -> bool {
    while client.is_ready() {
        if client.step(out).unwrap() == Step::Done {
            return true;
        }
    }
    false
}

/// The server's side, until early data is there or it wants more.
fn accept(server: &mut Accepting, flight: &[u8], out: &mut Vec<u8>) -> Result<Step, Failure> {
    server.feed(flight, out)?;
    while server.is_ready() && !server.is_early() {
        if server.step(out)? == Step::Done {
            return Ok(Step::Done);
        }
    }
    Ok(Step::More)
}

/// The client's end after its handshake, and what it got with the server's first flight.
fn finished(client: Connecting) -> (Connected, Vec<u8>) {
    let mut connected = client.finish().unwrap();
    let mut rest = std::mem::take(&mut connected.rest);
    let said = receive(&mut connected.connection, &mut rest).unwrap();
    (connected, said)
}

#[test]
fn early_data_is_answered_before_the_handshake_is_done() {
    let pair = Pair::new();
    let selection = pair.taking(16_384);
    pair.meet(&selection);
    for round in 0..3 {
        let (mut client, mut server) = (pair.connecting(REQUEST), Accepting::new(selection.clone()));
        let (mut up, mut down) = (Vec::new(), Vec::new());
        assert!(!step(&mut client, &mut up));
        assert_eq!(client.sent_early(), SentEarly::Unanswered(REQUEST.len()), "{round}");
        assert_eq!(accept(&mut server, &up, &mut down).unwrap(), Step::More);
        assert!(server.is_early());
        let Connected { mut connection, facts, rest, early } = server.into_early().unwrap();
        assert_eq!((early.as_slice(), facts.early_bytes, rest.len()), (REQUEST, REQUEST.len(), 0));
        assert!(facts.resumed && !connection.is_complete());
        assert_eq!(facts.server_name.as_deref(), Some(HOST.as_bytes()));
        // The answer goes out behind the server's flight, in records of any size, and is there with it. Nothing else is said.
        let mut sealed = vec![0; connection.sealed_length(RESPONSE.len(), 10)];
        let done = connection.seal(&[&RESPONSE[..3], &RESPONSE[3..]], 10, &mut sealed).unwrap();
        assert_eq!((done.taken, done.written), (RESPONSE.len(), sealed.len()));
        assert_eq!(connection.close(&mut [0; 100]).unwrap(), 0, "the end waits for the handshake");
        down.extend(sealed);
        client.feed(&down).unwrap();
        up.clear();
        assert!(step(&mut client, &mut up));
        assert_eq!(client.sent_early(), SentEarly::Accepted(REQUEST.len()));
        let (mut client, said) = finished(client);
        assert_eq!(said, RESPONSE);
        // The end of the handshake brings new sessions, which go out with what is said next.
        assert_eq!(receive(&mut connection, &mut up).unwrap(), b"");
        assert!(connection.is_complete() && connection.has_reply());
        assert_eq!(send(&mut connection, &mut client.connection, &[b"more"], 16_384), b"more");
        assert_eq!(send(&mut client.connection, &mut connection, &[b"and more"], 16_384), b"and more");
        assert!(connection.close(&mut [0; 100]).unwrap() > 0);
    }
}

#[test]
fn early_data_in_pieces_comes_in_order() {
    let pair = Pair::new();
    let (_, mut server, up) = pair.begun(pair.taking(16_384));
    let mut down = Vec::new();
    // The record with the early data comes byte by byte.
    let (hello, early) = up.split_at(up.len() - REQUEST.len() - 22);
    accept(&mut server, hello, &mut down).unwrap();
    assert!(!server.is_early());
    for byte in early {
        assert!(!server.is_early());
        accept(&mut server, &[*byte], &mut down).unwrap();
    }
    assert_eq!(server.into_early().unwrap().early, REQUEST);
}

#[test]
fn no_more_is_sent_early_than_the_server_allows() {
    let pair = Pair::new();
    let (mut client, mut server, mut up) = pair.begun(pair.taking(10));
    let mut down = Vec::new();
    accept(&mut server, &up, &mut down).unwrap();
    assert_eq!(server.into_early().unwrap().early, &REQUEST[..10]);
    client.feed(&down).unwrap();
    assert!(step(&mut client, &mut up));
    assert_eq!(client.sent_early(), SentEarly::Accepted(10));
}

#[test]
fn nothing_is_sent_early_without_a_session_that_allows_it() {
    let pair = Pair::new();
    let selection = pair.taking(0);
    for _ in 0..2 {
        let mut flight = Vec::new();
        let mut client = pair.connecting(REQUEST);
        step(&mut client, &mut flight);
        assert_eq!(client.sent_early(), SentEarly::Not);
        pair.meet(&selection);
    }
}

/// A server that resumes the session and does not take the data, one that does not know the session, and one that wants
/// another key share first: the handshake goes on, and the data counts for nothing.
#[test]
fn early_data_that_is_refused_is_known_to_be() {
    for what in ["data", "session", "key share"] {
        let pair = Pair::new();
        pair.meet(&pair.taking(16_384));
        let groups = thalweg_tls::options::groups::parse("P-384").unwrap().used;
        let selection = match what {
            "data" => pair.taking(0),
            "key share" => pair.line(&Profile { early_data: 16_384, groups, ..Profile::default() }),
            _ => {
                let client = ClientPolicy {
                    verify: Verify::Optional,
                    trust: pair.authority.store(),
                    ..Profile::default().client
                };
                pair.line(&Profile { early_data: 16_384, client, ..Profile::default() })
            }
        };
        let (mut client, mut server) = (pair.connecting(REQUEST), Accepting::new(selection));
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let (mut client_done, mut server_done) = (false, false);
        for _ in 0..4 {
            client_done = client_done || step(&mut client, &mut up);
            server_done = accept(&mut server, &std::mem::take(&mut up), &mut down).unwrap() == Step::Done;
            client.feed(&std::mem::take(&mut down)).unwrap();
            if server_done {
                break;
            }
        }
        assert!(client_done && server_done, "{what}");
        assert_eq!(client.sent_early(), SentEarly::Refused, "{what}");
        let mut server = server.finish(&mut Vec::new()).unwrap();
        assert_eq!((server.early.as_slice(), server.facts.early_bytes), (&b""[..], 0), "{what}");
        let (mut client, _) = finished(client);
        assert_eq!(
            send(&mut client.connection, &mut server.connection, &[REQUEST], 16_384),
            REQUEST,
            "{what}"
        );
    }
}

/// RFC 8446 appendix D.3: what can be read by nobody who speaks an older version was processed by nobody.
#[test]
fn a_server_that_forgot_tls13_has_refused_early_data() {
    let pair = Pair::new();
    pair.meet(&pair.taking(16_384));
    let versions = Versions { tls12: true, tls13: false };
    let (mut client, mut server) =
        (pair.connecting(REQUEST), Accepting::new(pair.line(&Profile { versions, ..Profile::default() })));
    let (mut up, mut down) = (Vec::new(), Vec::new());
    step(&mut client, &mut up);
    // It may stumble over the data behind the hello; its flight is written before that.
    let _ = accept(&mut server, &up, &mut down);
    client.feed(&down).unwrap();
    let failed = std::iter::repeat_with(|| client.step(&mut up)).take(10).find_map(Result::err);
    assert!(failed.is_some(), "TLS 1.2 is no answer to early data");
    assert_eq!(client.sent_early(), SentEarly::Refused);
}

#[test]
fn a_flight_that_comes_again_is_not_processed_again() {
    let pair = Pair::new();
    let selection = pair.taking(16_384);
    pair.meet(&selection);
    let mut flight = Vec::new();
    step(&mut pair.connecting(REQUEST), &mut flight);
    for round in 0..3 {
        let mut server = Accepting::new(selection.clone());
        accept(&mut server, &flight, &mut Vec::new()).unwrap();
        assert_eq!(server.is_early(), round == 0);
    }
}

/// Who shows certificates is known at the end of the handshake only.
#[test]
fn clients_that_are_verified_are_not_early() {
    let pair = Pair::new();
    let client =
        ClientPolicy { verify: Verify::Optional, trust: pair.authority.store(), ..Profile::default().client };
    let selection = pair.line(&Profile { early_data: 16_384, client, ..Profile::default() });
    let (mut client, mut server, mut up) = pair.begun(selection);
    let mut down = Vec::new();
    accept(&mut server, &up, &mut down).unwrap();
    assert!(!server.is_early());
    client.feed(&down).unwrap();
    up.clear();
    assert!(step(&mut client, &mut up));
    assert_eq!(accept(&mut server, &up, &mut down).unwrap(), Step::Done);
    assert_eq!(server.finish(&mut down).unwrap().early, REQUEST, "it came all the same");
}

#[test]
fn a_handshake_that_fails_behind_early_data_is_the_end() {
    let pair = Pair::new();
    let (mut client, mut server, mut up) = pair.begun(pair.taking(16_384));
    let mut down = Vec::new();
    accept(&mut server, &up, &mut down).unwrap();
    let mut connection = server.into_early().unwrap().connection;
    client.feed(&down).unwrap();
    up.clear();
    assert!(step(&mut client, &mut up));
    // The last record is the client's Finished.
    *up.last_mut().unwrap() ^= 1;
    assert!(receive(&mut connection, &mut up).is_err());
    assert!(!connection.is_complete());
    let mut alert = vec![0; connection.reply_length()];
    assert_eq!(connection.reply(&mut alert), alert.len());
    let (mut client, _) = finished(client);
    assert!(matches!(receive(&mut client.connection, &mut alert), Err(Failure::Alert(_))));
    assert!(connection.open(&mut up).is_err(), "nothing more is read");
    assert!(connection.seal(&[b"x"], 100, &mut [0; 200]).is_err(), "nothing more is said");
}
