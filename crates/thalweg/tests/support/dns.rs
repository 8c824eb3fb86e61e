//! A name server, honest or as it is told, over UDP and TCP.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use thalweg_dns::message::{Kind, Question, framed, unframed};
pub use wire::{Record, Reply};

#[path = "../../../dns/tests/support/wire.rs"]
mod wire;

/// What it does with a question.
#[derive(Clone, Debug)]
pub enum Said {
    /// Answers.
    Reply(Reply),
    /// Says that the answer does not fit into a datagram, and gives it over TCP.
    OverTcp(Reply),
    /// Answers what was not asked, from where it should not, and late: with each of these, then with the last one.
    Lies(Vec<Reply>, Reply),
    /// Nothing.
    Silence,
}

type Zone = BTreeMap<(String, u16), Said>;

/// See the module's documentation.
pub struct NameServer {
    /// Where it is.
    pub addr: SocketAddrV4,
    zone: Arc<Mutex<Zone>>,
    asked: Arc<Mutex<Vec<(String, u16, bool)>>>,
    dead: Arc<AtomicBool>,
}

impl NameServer {
    /// One that knows no name yet.
    pub fn start() -> NameServer {
        let ip = crate::support::own_ip();
        let (udp, tcp) = loop {
            let tcp = TcpListener::bind((ip, 0)).unwrap();
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
                break (udp, tcp);
            }
        };
        let std::net::SocketAddr::V4(addr) = udp.local_addr().unwrap() else { panic!("not IPv4") };
        let server = NameServer { addr, zone: Arc::default(), asked: Arc::default(), dead: Arc::default() };
        udp.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (zone, asked, dead) = server.parts();
        thread::spawn(move || {
            let mut room = [0u8; 4096];
            while !dead.load(Ordering::SeqCst) {
                let Ok((n, from)) = udp.recv_from(&mut room) else { continue };
                for (stranger, bytes) in answer(&zone, &asked, &room[..n], false) {
                    if stranger {
                        let _ = UdpSocket::bind((ip, 0)).unwrap().send_to(&bytes, from);
                    } else {
                        let _ = udp.send_to(&bytes, from);
                    }
                }
            }
        });
        let (zone, asked, _) = server.parts();
        thread::spawn(move || {
            for stream in tcp.incoming().flatten() {
                let (zone, asked) = (Arc::clone(&zone), Arc::clone(&asked));
                thread::spawn(move || serve(stream, &zone, &asked));
            }
        });
        server
    }

    #[allow(clippy::type_complexity)]
    fn parts(&self) -> (Arc<Mutex<Zone>>, Arc<Mutex<Vec<(String, u16, bool)>>>, Arc<AtomicBool>) {
        (Arc::clone(&self.zone), Arc::clone(&self.asked), Arc::clone(&self.dead))
    }

    /// What it does with questions of a type about a name.
    pub fn say(&self, name: &str, kind: u16, said: Said) {
        self.zone.lock().unwrap().insert((name.into(), kind), said);
    }

    /// The IPv4 addresses of a name.
    pub fn set(&self, name: &str, addresses: &[&str]) {
        let records = addresses.iter().map(|address| Record::address(name, address)).collect();
        self.say(name, 1, Said::Reply(Reply::of(records)));
    }

    /// The hosts of a service: priority, weight, port, and name.
    pub fn set_service(&self, name: &str, hosts: &[((u16, u16, u16), &str)]) {
        let records = hosts.iter().map(|(numbers, host)| Record::service(name, *numbers, host)).collect();
        self.say(name, 33, Said::Reply(Reply::of(records)));
    }

    /// Says the same about a name, whatever is asked.
    pub fn say_always(&self, name: &str, said: &Said) {
        for kind in [1, 28, 33] {
            self.say(name, kind, said.clone());
        }
    }

    /// How often it was asked about a name, over UDP and over TCP.
    pub fn asked(&self, name: &str) -> (usize, usize) {
        let asked = self.asked.lock().unwrap();
        let of = |tcp: bool| asked.iter().filter(|(n, _, over)| n == name && *over == tcp).count();
        (of(false), of(true))
    }

    /// It hears nothing any more over UDP: its port is closed.
    pub fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.die();
    }
}

fn serve(mut stream: std::net::TcpStream, zone: &Mutex<Zone>, asked: &Mutex<Vec<(String, u16, bool)>>) {
    let (mut bytes, mut room) = (Vec::new(), [0u8; 4096]);
    while let Ok(n) = stream.read(&mut room) {
        if n == 0 {
            return;
        }
        bytes.extend_from_slice(&room[..n]);
        while let Some((query, taken)) = unframed(&bytes) {
            for (_, reply) in answer(zone, asked, query, true) {
                // In two parts, as a stream may bring them.
                let reply = framed(&reply);
                let _ = stream.write_all(&reply[..1]);
                let _ = stream.write_all(&reply[1..]);
            }
            bytes.drain(..taken);
        }
    }
}

/// The answers to a query: whether a stranger sends it, and what.
fn answer(
    zone: &Mutex<Zone>,
    log: &Mutex<Vec<(String, u16, bool)>>,
    query: &[u8],
    over_tcp: bool,
) -> Vec<(bool, Vec<u8>)> {
    let (id, question) = wire::asked(query);
    let kind = number(&question);
    let name = question.name.as_str().to_owned();
    log.lock().unwrap().push((name.clone(), kind, over_tcp));
    let zone = zone.lock().unwrap();
    let known = zone.get(&(name.clone(), kind)).cloned();
    let known = known.unwrap_or_else(|| {
        let exists = zone.keys().any(|(other, _)| *other == name);
        Said::Reply(if exists { Reply::default() } else { Reply::code(3) })
    });
    match known {
        Said::Silence => Vec::new(),
        Said::Reply(reply) => vec![(false, reply.write(id, &question))],
        Said::OverTcp(reply) if over_tcp => vec![(false, reply.write(id, &question))],
        Said::OverTcp(_) => {
            vec![(false, Reply { truncated: true, ..Reply::default() }.write(id, &question))]
        }
        Said::Lies(lies, truth) => {
            let mut sent = Vec::new();
            for lie in lies {
                let bytes = lie.write(id, &question);
                // From elsewhere, under another number, to another question, cut.
                sent.push((true, bytes.clone()));
                sent.push((false, lie.write(id.wrapping_add(1), &question)));
                sent.push((false, lie.write_for(id, "other.test", kind)));
                sent.push((false, bytes[..9].to_vec()));
            }
            sent.push((false, truth.write(id, &question)));
            sent
        }
    }
}

fn number(question: &Question) -> u16 {
    match question.kind {
        Kind::V4 => 1,
        Kind::V6 => 28,
        Kind::Service => 33,
    }
}
