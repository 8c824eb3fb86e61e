//! A world in which a [`Resolver`] lives.

#![allow(dead_code)]

pub mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use thalweg_dns::message::Question;
use thalweg_dns::{Event, Families, Follow, Key, Preference, Resolver, Settings};

use wire::{Reply, asked, name};

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
        let mut parts = 0;
        while let Some(due) = self.resolver.deadline().filter(|due| *due <= end) {
            self.now_ms = self.now_ms.max(due);
            self.resolver.handle_deadline(self.now_ms);
            if self.resolver.deadline().is_some_and(|next| next <= self.now_ms) {
                parts += 1;
                assert!(parts < 1000, "it spins");
            } else {
                parts = 0;
            }
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
