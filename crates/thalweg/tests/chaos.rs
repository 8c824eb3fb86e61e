//! Servers that are killed, stall, reset, lie, get slow, fail and flap, and a name server that does, too, under load.
//!
//! `make chaos` plays ten minutes of it with the optimised build (`CHAOS_SECONDS`); `make test` plays it in short. What must hold
//! meanwhile: no client sees an error that repeating its request would have hidden, nothing is sent twice that must not be, each
//! answer is that of its request, and afterwards counters add up and nothing is left.

#[allow(dead_code, reason = "it says no more than it has to here")]
#[path = "support/dns.rs"]
mod dns;
mod support;

use std::collections::HashMap;
use std::net::{SocketAddrV4, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use dns::{NameServer, Record, Reply, Said};
use support::{Conn, Io, Proxy, Server, Setup, each_driver, eventually, ok, own_ip};

/// Servers that change their mood, and those of them that are killed now and then.
const MOODY: usize = 6;
const MORTAL: usize = 2;

/// How long a mood lasts.
const MOOD: Duration = Duration::from_millis(150);

/// What a server does with a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mood {
    Well,
    Slow,
    Stalls,
    Resets,
    Ends,
    Fails,
    Lies,
}

const MOODS: [Mood; 7] =
    [Mood::Well, Mood::Slow, Mood::Stalls, Mood::Resets, Mood::Ends, Mood::Fails, Mood::Lies];

/// Answers that are none.
const LIES: [&str; 4] = [
    "HTTP/1.1 two hundred\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "220 smtp ready\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-Cut: he",
];

/// A generator of numbers that a seed decides.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// What all servers and clients know.
#[derive(Default)]
struct Ground {
    moods: [AtomicU8; MOODY],
    over: AtomicBool,
    numbers: AtomicU64,
    /// How often each request that must not be repeated came to a server.
    arrived: Mutex<HashMap<u64, usize>>,
    /// Requests that were answered well, and others.
    well: AtomicU64,
    failed: AtomicU64,
    /// Those that ended without an answer.
    unanswered: AtomicU64,
}

impl Ground {
    fn mood(&self, server: Option<usize>) -> Mood {
        server.map_or(Mood::Well, |at| MOODS[usize::from(self.moods[at].load(Ordering::Relaxed))])
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// One request of a server's connection; false when the connection ends with it.
    fn serve(&self, conn: &mut Conn, server: Option<usize>) -> bool {
        let Some(head) = conn.try_until(b"\r\n\r\n") else { return false };
        let head = String::from_utf8_lossy(&head).into_owned();
        let number = field(&head, "X-Number");
        if head.starts_with("POST ") {
            if conn.try_exactly(4).is_none() {
                return false;
            }
            *self.arrived.lock().unwrap().entry(number.unwrap_or(0)).or_default() += 1;
        }
        let answer = ok(&number.map_or_else(|| "check".into(), |number| number.to_string()));
        match self.mood(server) {
            Mood::Well => conn.try_send(answer).is_ok(),
            Mood::Slow => {
                thread::sleep(Duration::from_millis(30));
                conn.try_send(answer).is_ok()
            }
            Mood::Stalls => {
                while self.mood(server) == Mood::Stalls && !self.is_over() {
                    thread::sleep(Duration::from_millis(20));
                }
                false
            }
            Mood::Resets => {
                conn.reset_when_dropped();
                false
            }
            Mood::Ends => false,
            Mood::Fails => conn.try_send("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n").is_ok(),
            Mood::Lies => {
                let lie = LIES[number.unwrap_or(0) as usize % LIES.len()];
                let _ = conn.try_send(lie);
                false
            }
        }
    }
}

fn field(head: &str, name: &str) -> Option<u64> {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.into_iter().find(|(field, _)| field.eq_ignore_ascii_case(name))?;
    value.trim().parse().ok()
}

/// A server with this mood, or always well.
fn server(ground: &Arc<Ground>, listener: TcpListener, mood: Option<usize>) -> Server {
    let ground = Arc::clone(ground);
    Server::listen(listener, move |mut conn, _| while ground.serve(&mut conn, mood) {})
}

fn listener(addr: SocketAddrV4) -> TcpListener {
    eventually("the address is free", || TcpListener::bind(addr).ok())
}

fn fresh_listener() -> TcpListener {
    TcpListener::bind((own_ip(), 0)).unwrap()
}

/// Changes moods, kills and revives until it is over, and then mends everything.
fn stir(ground: &Arc<Ground>, mortal: &mut [Option<Server>], addresses: &[SocketAddrV4], seed: u64) {
    let mut dice = Dice(seed);
    while !ground.is_over() {
        thread::sleep(MOOD);
        let at = dice.roll(MOODY);
        ground.moods[at].store(dice.roll(MOODS.len()) as u8, Ordering::Relaxed);
        let at = dice.roll(mortal.len() * 4);
        if let Some(place) = mortal.get_mut(at) {
            *place = match place.take() {
                Some(_) => None,
                None => Some(server(ground, listener(addresses[at]), Some(at))),
            };
        }
    }
    ground.moods.iter().for_each(|mood| mood.store(0, Ordering::Relaxed));
    for (at, place) in mortal.iter_mut().enumerate() {
        place.get_or_insert_with(|| server(ground, listener(addresses[at]), Some(at)));
    }
}

/// Has the name server say something else now and then.
fn confuse(ground: &Ground, dns: &NameServer, addresses: &[String; 2], seed: u64) {
    let mut dice = Dice(seed);
    let truth = |at: usize| Reply::of(vec![Record::address("web.test", &addresses[at])]);
    while !ground.is_over() {
        let said = match dice.roll(7) {
            0 => Said::Silence,
            1 => Said::Reply(Reply::code(2)),
            2 => Said::Reply(Reply::code(3)),
            3 => Said::Reply(Reply::default()),
            4 => Said::Lies(vec![Reply::of(vec![Record::address("web.test", "127.0.0.9")])], truth(0)),
            5 => Said::OverTcp(truth(1)),
            at => Said::Reply(truth(at % 2)),
        };
        dns.say_always("web.test", &said);
        thread::sleep(MOOD);
    }
    dns.say_always("web.test", &Said::Reply(truth(0)));
}

/// Asks what may be repeated, and so must always be answered.
fn asks(ground: &Ground, proxy: &Proxy) {
    let mut conn = proxy.connect();
    while !ground.is_over() {
        let number = ground.numbers.fetch_add(1, Ordering::Relaxed);
        conn.send(format!("GET / HTTP/1.1\r\nHost: h\r\nX-Number: {number}\r\n\r\n"));
        let response = conn.response();
        assert_eq!((response.status, response.text()), (200, number.to_string()), "request {number}");
        ground.well.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends what must not be repeated, and so may fail.
fn posts(ground: &Ground, proxy: &Proxy) {
    while !ground.is_over() {
        let number = ground.numbers.fetch_add(1, Ordering::Relaxed);
        let mut conn = proxy.connect();
        conn.send(format!(
            "POST / HTTP/1.1\r\nHost: h\r\nX-Number: {number}\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"
        ));
        let Some(head) = conn.try_until(b"\r\n\r\n") else {
            ground.unanswered.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        if head.starts_with(b"HTTP/1.1 200 ") {
            assert_eq!(conn.rest_text(), number.to_string());
            assert_eq!(ground.arrived.lock().unwrap().get(&number), Some(&1), "it came once");
            ground.well.fetch_add(1, Ordering::Relaxed);
        } else {
            ground.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The proxy before servers that are well (two and a named one), and those that are not.
fn start(io: Io, dns: &NameServer, (well, moody): (&[SocketAddrV4], &[SocketAddrV4]), port: u16) -> Proxy {
    let lines = |name: &str, addresses: &[SocketAddrV4], words: &str| -> String {
        let line = |(n, addr)| format!("server {name}{n} {addr} {words}\n");
        addresses.iter().enumerate().map(line).collect()
    };
    let text = format!(
        "resolvers dns\nnameserver ns {}\ntimeout resolve 100ms\ntimeout retry 50ms\nhold valid 100ms\nhold obsolete 200ms\n\
         hold nx 200ms\nhold timeout 200ms\nhold refused 200ms\nhold other 200ms\n\
         frontend fe\nbind <@fe>\nno log\ntimeout client 60s\ndefault_backend be\n\
         backend be\ntimeout connect 400ms\ntimeout server 400ms\ntimeout queue 60s\ntimeout check 300ms\n\
         balance roundrobin\nretries 100\noption redispatch 1\nretry-on all-retryable-errors\n\
         http-request disable-l7-retry if METH_POST\noption outlier-detection errors 3 hold 200ms max-hold 1s\n\
         option httpchk GET /check\n{}{}\
         server named web.test:{port} resolvers dns init-addr none resolve-prefer ipv4\n",
        dns.addr,
        lines("well", well, ""),
        lines("moody", moody, "check inter 100ms fall 2 rise 1 maxconn 3"),
    );
    Setup::http(&text)
        .global("stats socket <@dir>/cli level admin\ndns-accept-family ipv4")
        .threads(2)
        .start(io)
}

/// Everything that was counted adds up, and nothing is left.
fn adds_up(ground: &Ground, proxy: &Proxy, io: Io) {
    let count = |row: &str, column: &str| -> u64 { proxy.stat(row, column).parse().unwrap_or(0) };
    let [well, failed, unanswered] =
        [&ground.well, &ground.failed, &ground.unanswered].map(|count| count.load(Ordering::Relaxed));
    let said = format!("over {io}: {well} well, {failed} failed, {unanswered} without an answer");
    println!("{said}");
    eventually("nothing is under way", || {
        let left = count("fe,FRONTEND", "scur") + count("be,BACKEND", "scur") + count("be,BACKEND", "qcur");
        let of_servers = (0..MOODY).map(|n| count(&format!("be,moody{n}"), "scur")).sum::<u64>();
        (left + of_servers == 0).then_some(())
    });
    assert_eq!(count("fe,FRONTEND", "req_tot"), well + failed + unanswered, "{said}");
    assert_eq!(count("fe,FRONTEND", "hrsp_2xx"), well, "{said}");
    assert_eq!(count("be,BACKEND", "hrsp_2xx"), well, "{said}");
    let names = (0..2).map(|n| format!("be,well{n}")).chain((0..MOODY).map(|n| format!("be,moody{n}")));
    let by_servers: u64 = names.chain(["be,named".into()]).map(|row| count(&row, "hrsp_2xx")).sum();
    assert_eq!(by_servers, well, "{said}");
    let twice = ground.arrived.lock().unwrap().values().filter(|times| **times > 1).count();
    assert_eq!(twice, 0, "{said}: sent twice");
    eventually("all servers are there again", || {
        (0..MOODY).all(|n| proxy.stat(&format!("be,moody{n}"), "status").starts_with("UP")).then_some(())
    });
    assert_ne!(count("be,BACKEND", "wretr") + count("be,BACKEND", "wredis"), 0, "{said}: nothing went wrong");
}

#[test]
fn clients_notice_nothing_that_can_be_hidden() {
    let seconds = std::env::var("CHAOS_SECONDS").ok().and_then(|text| text.parse().ok());
    let seed = std::env::var("CHAOS_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    each_driver(|io| {
        let ground = Arc::new(Ground::default());
        let well = [fresh_listener(), fresh_listener()].map(|l| server(&ground, l, None));
        let mut moody: Vec<Option<Server>> =
            (0..MOODY).map(|at| Some(server(&ground, fresh_listener(), Some(at)))).collect();
        let addresses: Vec<SocketAddrV4> = moody.iter().flatten().map(|server| server.addr).collect();
        let first = server(&ground, fresh_listener(), None);
        let second = server(&ground, listener(SocketAddrV4::new(own_ip(), first.addr.port())), None);
        let dns = NameServer::start();
        let well_at = [well[0].addr, well[1].addr];
        let proxy = start(io, &dns, (&well_at, &addresses), first.addr.port());
        let named = [first.addr.ip().to_string(), second.addr.ip().to_string()];
        let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(3));
        thread::scope(|scope| {
            scope.spawn(|| stir(&ground, &mut moody[..MORTAL], &addresses, seed));
            scope.spawn(|| confuse(&ground, &dns, &named, seed));
            let clients = || {
                let asking: Vec<_> = (0..6).map(|_| scope.spawn(|| asks(&ground, &proxy))).collect();
                let posting: Vec<_> = (0..3).map(|_| scope.spawn(|| posts(&ground, &proxy))).collect();
                asking.into_iter().chain(posting).collect::<Vec<_>>()
            };
            let clients = clients();
            while Instant::now() < end && !clients.iter().any(thread::ScopedJoinHandle::is_finished) {
                thread::sleep(Duration::from_millis(20));
            }
            ground.over.store(true, Ordering::Relaxed);
        });
        adds_up(&ground, &proxy, io);
    });
}
