//! Messages of name servers, honest and not, and a world in which a [`Resolver`] lives.

#![allow(dead_code)]

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use thalweg_dns::message::{Kind, Question};
use thalweg_dns::{Event, Families, Follow, Key, Name, Preference, Resolver, Settings};

/// A name.
pub fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// An address.
pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Writes a name without compression.
pub fn write_name(out: &mut Vec<u8>, text: &str) {
    for label in text.split('.').filter(|label| !label.is_empty()) {
        out.push(u8::try_from(label.len()).expect("a short label"));
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
}

/// A record of a message being written.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its owner.
    pub owner: String,
    /// Its type.
    pub kind: u16,
    /// Its data, as it goes over the wire.
    pub data: Vec<u8>,
}

impl Record {
    /// A or AAAA.
    pub fn address(owner: &str, address: &str) -> Record {
        let (kind, data) = match ip(address) {
            IpAddr::V4(ip) => (1, ip.octets().to_vec()),
            IpAddr::V6(ip) => (28, ip.octets().to_vec()),
        };
        Record { owner: owner.into(), kind, data }
    }

    /// CNAME.
    pub fn alias(owner: &str, target: &str) -> Record {
        let mut data = Vec::new();
        write_name(&mut data, target);
        Record { owner: owner.into(), kind: 5, data }
    }

    /// SRV.
    pub fn service(owner: &str, (priority, weight, port): (u16, u16, u16), target: &str) -> Record {
        let mut data = Vec::new();
        for number in [priority, weight, port] {
            data.extend_from_slice(&number.to_be_bytes());
        }
        write_name(&mut data, target);
        Record { owner: owner.into(), kind: 33, data }
    }

    /// SOA, whose minimum is the last of its numbers.
    pub fn authority(owner: &str, minimum: u32) -> Record {
        let mut data = Vec::new();
        write_name(&mut data, "ns.test");
        write_name(&mut data, "mail.test");
        for number in [1, 2, 3, 4, minimum] {
            data.extend_from_slice(&u32::to_be_bytes(number));
        }
        Record { owner: owner.into(), kind: 6, data }
    }
}

/// What a name server says.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// RCODE.
    pub code: u8,
    /// TC.
    pub truncated: bool,
    /// By section: answer, authority, additional.
    pub records: [Vec<Record>; 3],
}

impl Reply {
    /// A success with these answers.
    pub fn of(answers: Vec<Record>) -> Reply {
        Reply { records: [answers, Vec::new(), Vec::new()], ..Reply::default() }
    }

    /// A failure.
    pub fn code(code: u8) -> Reply {
        Reply { code, ..Reply::default() }
    }

    /// As it goes over the wire, in answer to a question.
    pub fn write(&self, id: u16, question: &Question) -> Vec<u8> {
        let number = match question.kind {
            Kind::V4 => 1,
            Kind::V6 => 28,
            Kind::Service => 33,
        };
        self.write_for(id, question.name.as_str(), number)
    }

    /// The same for any name and type.
    pub fn write_for(&self, id: u16, name: &str, kind: u16) -> Vec<u8> {
        let mut out = id.to_be_bytes().to_vec();
        let flags = 0x8180 | u16::from(self.code) | u16::from(self.truncated) << 9;
        out.extend_from_slice(&flags.to_be_bytes());
        let counts = self.records.iter().map(|section| u16::try_from(section.len()).expect("few records"));
        for count in std::iter::once(1).chain(counts) {
            out.extend_from_slice(&count.to_be_bytes());
        }
        write_name(&mut out, name);
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&1u16.to_be_bytes());
        for record in self.records.iter().flatten() {
            write_name(&mut out, &record.owner);
            out.extend_from_slice(&record.kind.to_be_bytes());
            out.extend_from_slice(&1u16.to_be_bytes());
            out.extend_from_slice(&60u32.to_be_bytes());
            let length = u16::try_from(record.data.len()).expect("short data");
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&record.data);
        }
        out
    }
}

/// The question of a query that was sent, and its number.
pub fn asked(query: &[u8]) -> (u16, Question) {
    let id = u16::from_be_bytes([query[0], query[1]]);
    let (mut at, mut text) = (12, String::new());
    while query[at] != 0 {
        let end = at + 1 + usize::from(query[at]);
        text.push_str(std::str::from_utf8(&query[at + 1..end]).expect("text"));
        text.push('.');
        at = end;
    }
    let kind = match u16::from_be_bytes([query[at + 1], query[at + 2]]) {
        1 => Kind::V4,
        28 => Kind::V6,
        _ => Kind::Service,
    };
    (id, Question { name: name(&text), kind })
}

/// Holds of 3 s, resolution each second, tries each 500 ms.
pub fn settings(servers: usize) -> Settings {
    Settings {
        streams: vec![false; servers],
        payload_max: 8192,
        tries: 3,
        resolve_ms: 1000,
        retry_ms: 500,
        hold_valid_ms: 2000,
        hold_obsolete_ms: 2000,
        hold_nx_ms: 3000,
        hold_refused_ms: 3000,
        hold_timeout_ms: 3000,
        hold_other_ms: 3000,
    }
}

/// What a server wants.
pub fn preference() -> Preference {
    Preference { families: Families::V4First, networks: Vec::new(), duplicates: false, ignore_weight: false }
}

/// A server that follows a name.
pub fn follow(text: &str) -> Follow {
    Follow { name: name(text), preference: preference(), address: None }
}

/// A server of the first backend.
pub fn key(server: u32) -> Key {
    Key { group: 0, server }
}

/// What a name server does with a question: answers at once, or nothing.
pub type Behaviour = Box<dyn FnMut(usize, bool, &Question) -> Option<Reply>>;

/// A resolver, name servers, and a clock.
pub struct World {
    /// The section.
    pub resolver: Resolver,
    /// Milliseconds.
    pub now_ms: u64,
    /// What name servers do.
    pub servers: Behaviour,
    /// What happened so far and was not looked at.
    pub events: VecDeque<(u64, Event)>,
    /// Addresses that servers have now, by the events.
    pub addresses: BTreeMap<Key, (IpAddr, Option<u16>)>,
    /// Queries so far: when, to whom, over a stream, what.
    pub queries: Vec<(u64, usize, bool, Question)>,
}

impl World {
    /// At second 1000.
    pub fn new(settings: Settings, servers: Behaviour) -> World {
        let mut next = 0u16;
        let random = Box::new(move || {
            next = next.wrapping_mul(25173).wrapping_add(13849);
            next
        });
        World {
            resolver: Resolver::new(settings, random),
            now_ms: 1_000_000,
            servers,
            events: VecDeque::new(),
            addresses: BTreeMap::new(),
            queries: Vec::new(),
        }
    }

    /// Does all that can be done now.
    pub fn settle(&mut self) {
        let mut fuel = 1_000_000;
        while let Some(sent) = self.resolver.poll_transmit() {
            fuel -= 1;
            assert!(fuel > 0, "queries without end");
            let (id, question) = asked(&sent.bytes);
            self.queries.push((self.now_ms, sent.server, sent.stream, question.clone()));
            if let Some(reply) = (self.servers)(sent.server, sent.stream, &question) {
                let bytes = reply.write(id, &question);
                self.resolver.handle(sent.server, sent.stream, &bytes, self.now_ms);
            }
        }
        while let Some(event) = self.resolver.poll_event() {
            match &event {
                Event::Address { key, address, port, .. } => {
                    self.addresses.insert(*key, (*address, *port));
                }
                Event::Lost { key, .. } => {
                    assert!(self.addresses.remove(key).is_some(), "{key:?} lost what it did not have");
                }
                _ => {}
            }
            self.events.push_back((self.now_ms, event));
        }
    }

    /// Lets time pass.
    pub fn run(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        self.settle();
        while let Some(due) = self.resolver.deadline().filter(|due| *due <= end) {
            self.now_ms = self.now_ms.max(due);
            self.resolver.handle_deadline(self.now_ms);
            assert!(self.resolver.deadline().is_none_or(|next| next > self.now_ms), "it spins");
            self.settle();
        }
        self.now_ms = end;
    }

    /// What happened since the last time, with milliseconds since the start.
    pub fn told(&mut self) -> Vec<String> {
        let told = self.events.drain(..).map(|(at, event)| {
            let what = match event {
                Event::Address { key, address, port, by } => {
                    let port = port.map_or(String::new(), |port| format!(" port {port}"));
                    format!("{} has {address}{port} by {by:?}", key.server)
                }
                Event::Lost { key, loss } => format!("{} lost: {loss:?}", key.server),
                Event::Host { key, host: Some(host) } => format!("{} is {host}", key.server),
                Event::Host { key, host: None } => format!("{} is nobody", key.server),
                Event::Weight { key, weight } => format!("{} weighs {weight}", key.server),
                Event::Resolved { ticket, result } => format!("ticket {}: {result:?}", ticket.0),
            };
            format!("{} {what}", at - 1_000_000)
        });
        told.collect()
    }

    /// The addresses of the servers, in their order.
    pub fn has(&self) -> Vec<String> {
        self.addresses.iter().map(|(key, (address, _))| format!("{}={address}", key.server)).collect()
    }
}
