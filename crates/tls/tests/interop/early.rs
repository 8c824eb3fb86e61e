//! Early data: that of `openssl s_client`, and ours to `openssl s_server`.

use thalweg_tls::engine::SentEarly;
use thalweg_tls::verify::ServerPolicy;

use super::*;

#[test]
fn early_data_of_openssl_is_taken_once() {
    if !has("openssl") {
        return;
    }
    let (clock, authority) = (real_clock(), Authority::with(template("Root").ca(None), None));
    let directory = Directory::new("early");
    let served = credential("a", &authority.issue(&template("a"), NewKey::P256));
    let selection = bind(&Profile { early_data: 16384, ..Profile::default() }, shared(&clock), &[&served]);
    let session = directory.0.join("session").to_str().unwrap().to_owned();
    let early = directory.write("early", "early words\n");
    let first = clients(&selection, vec![s_client(&format!("-tls1_3 -sess_out {session}"))]);
    assert!(!first[0].1.as_ref().unwrap().resumed);
    let with_early = || vec![s_client(&format!("-tls1_3 -sess_in {session} -early_data {early}"))];
    let second = clients(&selection, with_early());
    let facts = second[0].1.as_ref().unwrap();
    assert!(facts.resumed);
    assert_eq!(facts.early_bytes, 12, "{}", text(&second[0].0));
    assert!(text(&second[0].0).contains("Early data was accepted"), "{}", text(&second[0].0));
    // The session is used up: the same flight again is a handshake without early data.
    let third = clients(&selection, with_early());
    let facts = third[0].1.as_ref().unwrap();
    assert!(!facts.resumed && facts.early_bytes == 0);
    assert!(text(&third[0].0).contains("Early data was rejected"));
}

/// Sends `early` with a handshake, and says what became of it.
fn connect_early(port: u16, context: &Arc<ServerContext>, early: &[u8]) -> (End, SentEarly) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut connecting = Connecting::with_early_data(context.clone(), None, None, early.into()).unwrap();
    let mut out = Vec::new();
    loop {
        let mut step = Step::More;
        while step == Step::More && connecting.is_ready() {
            step = connecting.step(&mut out).unwrap();
        }
        stream.write_all(&std::mem::take(&mut out)).unwrap();
        if step == Step::Done {
            let sent = connecting.sent_early();
            return (End::new(stream, connecting.finish().unwrap()).0, sent);
        }
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "the server left");
        connecting.feed(&bytes[..count]).unwrap();
    }
}

#[test]
fn openssl_takes_our_early_data() {
    if !has("openssl") {
        return;
    }
    let (clock, authority) = (real_clock(), Authority::with(template("Root").ca(None), None));
    let directory = Directory::new("early_server");
    directory.write("ec.pem", &authority.issue(&template("ec"), NewKey::P256));
    let context = support::server(
        &ServerProfile {
            early_data: true,
            policy: ServerPolicy { required: false, ..trusting(&authority).policy },
            ..trusting(&authority)
        },
        &clock,
    );
    let mut server = Server::start_as(&directory.0, "-cert ec.pem -tls1_3 -early_data -naccept 3");
    let mut said = Vec::new();
    let mut until = |server: &mut Server, end: &str| {
        while !String::from_utf8_lossy(&said).contains(end) {
            let mut bytes = [0; 4096];
            let count = server.child.stdout.as_mut().unwrap().read(&mut bytes).unwrap();
            assert!(count > 0, "s_server ended: {}", String::from_utf8_lossy(&said));
            said.extend_from_slice(&bytes[..count]);
        }
        String::from_utf8_lossy(&std::mem::take(&mut said)).into_owned()
    };
    for (round, sent) in [SentEarly::Not, SentEarly::Accepted(11)].into_iter().enumerate() {
        let (mut end, became) = connect_early(server.port, &context, b"early words");
        assert_eq!(became, sent, "{round}");
        if round == 1 {
            assert!(until(&mut server, "End of early data").contains("early words"));
        }
        // What it types comes behind the tickets.
        end.write(&[b"late words\n"]);
        until(&mut server, "late words");
        server.child.stdin.as_mut().unwrap().write_all(b"typed\n").unwrap();
        assert_eq!(end.read_until(b"\n"), b"typed\n");
        end.close();
    }
}
