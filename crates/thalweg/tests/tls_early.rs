//! Early data (0-RTT): requests that clients send before their handshake is done, and requests that are sent so to servers.

mod support;

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use support::tls::{Authority, client, server};
use support::{Conn, Io, Proxy, Server, Setup, each_driver, h2, ok};
use thalweg_h2::frame::Kind;
use thalweg_h2::frame::flag::{END_HEADERS, END_STREAM};
use thalweg_tls::engine::SentEarly;
use thalweg_tls::select::Selection;
use thalweg_tls::server::ServerContext;

const GET: &[u8] = b"GET /early HTTP/1.1\r\nHost: a\r\n\r\n";

/// A proxy that takes early data, whose backend has these lines.
fn front(io: Io, authority: &Authority, rules: &str, backend: &str) -> Proxy {
    let certificate = authority.issue("www.example.com");
    Setup::http(&format!(
        "frontend fe\nbind <@fe> ssl crt {certificate} allow-0rtt alpn h2,http/1.1\n{rules}\ndefault_backend be\n\
         backend be\n{backend}\n"
    ))
    .start(io)
}

/// A client that has a session with the proxy. Its connection was used once.
fn known(proxy: &Proxy) -> Arc<ServerContext> {
    let context = client(|profile| {
        profile.early_data = true;
        profile.alpn = vec![b"http/1.1".to_vec()];
    });
    let mut conn = proxy.connect().encrypt(&context, None);
    conn.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
    // The sessions come before the answer.
    assert!(conn.response().status > 0);
    context
}

/// A server without TLS that tells of the requests that it got, and answers with what it was told of early data.
fn plain() -> (Server, Receiver<String>) {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let back = Server::http(move |request| {
        let early = request.head.field("early-data");
        let target = request.head.line.split(' ').nth(1).unwrap();
        tell.lock().unwrap().send(format!("{target} {early}")).unwrap();
        ok(&format!("early-data: {early}"))
    });
    (back, told)
}

#[test]
fn a_client_is_served_before_its_handshake_is_done() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let (back, told) = plain();
        let rules = "http-response set-header x-early %[ssl_fc_has_early],%[ssl_fc_early_rcvd]";
        let proxy = front(io, &authority, rules, &format!("server s {}", back.addr));
        let context = known(&proxy);
        assert_eq!(told.recv().unwrap(), "/first ");
        let mut hesitant = proxy.connect().encrypt_early(&context, GET);
        assert_eq!(hesitant.sent, SentEarly::Accepted(GET.len()));
        // The server has it and answers, and the client hears that, while nobody knows whether it is the client.
        let answer = hesitant.conn.response();
        assert_eq!((answer.text().as_str(), answer.field("x-early").as_str()), ("early-data: 1", "1,1"));
        assert_eq!(told.recv().unwrap(), "/early 1");
        let mut conn = hesitant.finish();
        conn.send("GET /late HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let answer = conn.response();
        assert_eq!((answer.text().as_str(), answer.field("x-early").as_str()), ("early-data: ", "0,1"));
        assert_eq!(conn.rest(), b"");
        assert_eq!(told.recv().unwrap(), "/late ");
        drop(conn);
        proxy.finish(back);
    });
}

#[test]
fn an_answer_that_ends_its_connection_ends_it_when_the_handshake_is_done() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let (back, told) = plain();
        let proxy = front(io, &authority, "option httpclose", &format!("server s {}", back.addr));
        let context = known(&proxy);
        let mut hesitant = proxy.connect().encrypt_early(&context, GET);
        assert_eq!(hesitant.conn.response().text(), "early-data: 1");
        // The end is announced, which nothing may follow but what the client says.
        assert_eq!(hesitant.finish().rest(), b"");
        drop(told);
        proxy.finish(back);
    });
}

#[test]
fn requests_wait_for_the_handshake_where_rules_want_it() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let (back, told) = plain();
        let rules = "http-request wait-for-handshake if { path /early }";
        let proxy = front(io, &authority, rules, &format!("server s {}", back.addr));
        let context = known(&proxy);
        assert_eq!(told.recv().unwrap(), "/first ");
        let (first, second) = (&b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n"[..], GET);
        let mut hesitant = proxy.connect().encrypt_early(&context, &[first, second].concat());
        assert_eq!(hesitant.conn.response().text(), "early-data: 1");
        // The other one is not answered, nor asked of the server, before the end of the handshake is said.
        assert_eq!(told.recv().unwrap(), "/other 1");
        assert!(told.try_recv().is_err());
        // Half a record changes nothing, and others are served meanwhile: there is one thread.
        hesitant.begin_to_finish();
        drop(known(&proxy));
        assert_eq!(told.recv().unwrap(), "/first ");
        assert!(told.try_recv().is_err());
        let mut conn = hesitant.finish();
        assert_eq!(conn.response().text(), "early-data: ");
        assert_eq!(told.recv().unwrap(), "/early ");
        drop(conn);
        // A client that leaves instead is not served.
        let conn = proxy.connect().encrypt_early(&context, GET);
        let mut raw = conn.conn.raw_twin();
        raw.half_close();
        raw.ended();
        assert!(told.try_recv().is_err());
        drop((conn, raw));
        proxy.finish(back);
    });
}

/// The request on stream 1 as a client of HTTP/2 begins with it, and its answer.
#[test]
fn requests_of_http2_are_early_too() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let (back, told) = plain();
        let rules = "http-request wait-for-handshake if { path /wait }";
        let proxy = front(io, &authority, rules, &format!("server s {}", back.addr));
        let context = client(|profile| {
            profile.early_data = true;
            profile.alpn = vec![b"h2".to_vec()];
        });
        drop(h2::Client::new(proxy.connect().encrypt(&context, None)).get("/first"));
        let head = |id, path: &str| {
            let fields = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", path)];
            h2::frame(Kind::Headers, END_STREAM | END_HEADERS, id, &h2::block(&fields))
        };
        let early = [h2::beginning(), head(1, "/early"), head(3, "/wait")].concat();
        let mut hesitant = proxy.connect().encrypt_early(&context, &early);
        assert_eq!(hesitant.sent, SentEarly::Accepted(early.len()));
        assert_eq!(body_of(&mut hesitant.conn, 1), "early-data: 1");
        assert_eq!([told.recv().unwrap(), told.recv().unwrap()], ["/first ", "/early 1"]);
        assert!(told.try_recv().is_err());
        assert_eq!(body_of(&mut hesitant.finish(), 3), "early-data: ");
        assert_eq!(told.recv().unwrap(), "/wait ");
        proxy.finish(back);
    });
}

/// The body of the answer on a stream.
fn body_of(conn: &mut Conn, stream: u32) -> String {
    let mut body = Vec::new();
    while let Some((header, payload)) = h2::next_frame(conn) {
        if header.stream == stream && header.kind == Kind::Data {
            body.extend(payload);
            if header.flags & END_STREAM != 0 {
                break;
            }
        }
    }
    String::from_utf8(body).unwrap()
}

#[test]
fn rules_may_find_that_it_is_too_early() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let (back, told) = plain();
        let rules = "http-request deny deny_status 425 if { ssl_fc_has_early } !{ method GET }";
        let proxy = front(io, &authority, rules, &format!("server s {}", back.addr));
        let context = known(&proxy);
        let post = b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
        let mut hesitant = proxy.connect().encrypt_early(&context, post);
        assert_eq!(hesitant.conn.response().status, 425);
        let mut conn = hesitant.finish();
        conn.send(post);
        assert_eq!(conn.response().status, 200);
        assert_eq!([told.recv().unwrap(), told.recv().unwrap()], ["/first ", "/early "]);
        drop(conn);
        proxy.finish(back);
    });
}

/// A server that takes this much early data.
fn taking(authority: &Authority, early_data: u32) -> Arc<Selection> {
    server(&authority.issue("back.example.com"), |profile| profile.early_data = early_data)
}

/// What a server of TLS saw of each request: on which connection, how much came early, the method.
type Seen = Arc<Mutex<Vec<(usize, usize, String)>>>;

/// A server that gives `answer` to each request, or leaves without one. It is told how much of the request came early.
fn secured(
    line: impl Fn(usize) -> Arc<Selection> + Send + Sync + 'static,
    answer: impl Fn(usize, &support::Request) -> Option<String> + Send + Sync + 'static,
) -> (Server, Seen) {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    let back = Server::start(move |conn, number| {
        let Ok(mut conn) = conn.try_accept_tls(&line(number)) else { return };
        let mut early = conn.tls().facts.early_bytes;
        while let Some(request) = conn.next_request() {
            let method = request.head.line.split(' ').next().unwrap().to_owned();
            let early = std::mem::take(&mut early);
            noted.lock().unwrap().push((number, early, method));
            let Some(answer) = answer(early, &request) else { return };
            let _ = conn.try_send(answer);
        }
    });
    (back, seen)
}

/// A proxy to that server, each request on a connection of its own.
fn behind(io: Io, back: &Server, retry_on: &str) -> Proxy {
    Setup::http(&format!(
        "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\n{retry_on}\nhttp-reuse never\n\
         server s {} ssl verify none allow-0rtt\n",
        back.addr
    ))
    .start(io)
}

fn ask(proxy: &Proxy, method: &str) -> u16 {
    let length = if method == "POST" { "Content-Length: 2\r\n\r\nhi" } else { "\r\n" };
    proxy.ask(&format!("{method} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{length}")).status
}

/// How many bytes of each request came early, as far as any did.
fn early(seen: &Seen) -> Vec<bool> {
    seen.lock().unwrap().iter().map(|(_, early, _)| *early > 0).collect()
}

#[test]
fn harmless_requests_go_to_servers_early() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let selection = taking(&authority, 16_384);
        let (back, seen) = secured(move |_| Arc::clone(&selection), |_, _| Some(ok("yes")));
        let proxy = behind(io, &back, "retry-on conn-failure 0rtt-rejected");
        for method in ["GET", "GET", "POST", "OPTIONS", "DELETE", "HEAD"] {
            assert_eq!(ask(&proxy, method), 200, "{method}");
        }
        assert_eq!(early(&seen), [false, true, false, true, false, true]);
        proxy.finish(back);
        // Without the user's word that repeating does no harm, and no client that took it upon itself, none does.
        let selection = taking(&authority, 16_384);
        let (back, seen) = secured(move |_| Arc::clone(&selection), |_, _| Some(ok("yes")));
        let proxy = behind(io, &back, "retry-on conn-failure empty-response");
        assert_eq!((ask(&proxy, "GET"), ask(&proxy, "GET")), (200, 200));
        assert_eq!(early(&seen), [false, false]);
        proxy.finish(back);
    });
}

#[test]
fn what_clients_sent_early_goes_to_servers_early() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let selection = taking(&authority, 16_384);
        let (back, seen) = secured(
            move |_| Arc::clone(&selection),
            |_, request| Some(ok(&format!("early-data: {}", request.head.field("early-data")))),
        );
        let line = format!("http-reuse never\nserver s {} ssl verify none allow-0rtt", back.addr);
        let proxy = front(io, &authority, "", &line);
        let context = known(&proxy);
        let mut hesitant = proxy.connect().encrypt_early(&context, GET);
        assert_eq!(hesitant.conn.response().text(), "early-data: 1");
        assert_eq!(early(&seen), [false, true]);
        drop(hesitant);
        proxy.finish(back);
    });
}

/// Refused by the handshake, by a status, by a server that speaks TLS 1.2 now: it is sent once more, without the client's
/// hearing of it, and not early.
#[test]
fn what_a_server_finds_too_early_is_sent_again() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let (takes, other, old) = (taking(&authority, 16_384), taking(&authority, 16_384), {
            server(&authority.issue("old.example.com"), |profile| profile.versions.tls13 = false)
        });
        let line = move |number| match number {
            0 => Arc::clone(&takes),
            3 => Arc::clone(&old),
            // It knows nothing of the sessions of the first.
            _ => Arc::clone(&other),
        };
        let (back, seen) = secured(line, |early, _| {
            let too_early = "HTTP/1.1 425 Too Early\r\nContent-Length: 0\r\n\r\n";
            Some(if early > 0 { too_early.to_owned() } else { ok("yes") })
        });
        let proxy = behind(io, &back, "retry-on 0rtt-rejected");
        for _ in 0..4 {
            assert_eq!(ask(&proxy, "GET"), 200, "{:?}", seen.lock());
        }
        let seen: Vec<_> =
            seen.lock().unwrap().iter().map(|(number, early, _)| (*number, *early > 0)).collect();
        assert_eq!(seen, [(0, false), (1, false), (2, true), (2, false), (4, false)]);
        proxy.finish(back);
    });
}

/// A server that leaves when it has the request may have done what it asks for.
#[test]
fn what_a_server_may_have_processed_is_not_sent_again() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let selection = taking(&authority, 16_384);
        let (back, seen) =
            secured(move |_| Arc::clone(&selection), |early, _| (early == 0).then(|| ok("yes")));
        let proxy = behind(io, &back, "retry-on conn-failure 0rtt-rejected");
        assert_eq!((ask(&proxy, "GET"), ask(&proxy, "GET")), (200, 502));
        assert_eq!(early(&seen), [false, true]);
        assert!(proxy.http_log().contains(" 200 ") && proxy.http_log().contains(" 502 "));
        proxy.finish(back);
        // The same when the handshake breaks behind the request.
        let selection = taking(&authority, 16_384);
        let back = Server::start(move |conn, number| match number {
            0 => {
                let mut conn = conn.accept_tls(&selection);
                conn.request();
                conn.send(ok("yes"));
            }
            _ => leave_with_the_request(conn),
        });
        let proxy = behind(io, &back, "retry-on conn-failure 0rtt-rejected");
        assert_eq!((ask(&proxy, "GET"), ask(&proxy, "GET")), (200, 502));
        assert!(proxy.http_log().contains(" 200 ") && proxy.http_log().contains(" SH-- "));
        assert_eq!(back.accepted(), 2);
        proxy.finish(back);
    });
}

/// Reads what comes and closes.
fn leave_with_the_request(mut conn: Conn) {
    // The flight is there at once, or in two pieces; what matters is that it was sent.
    conn.exactly(300);
    conn.reset();
}
