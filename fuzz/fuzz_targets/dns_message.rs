//! Any bytes are read as an answer to a question of each kind, or refused; and a section that is told them goes on.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_dns::message::{Found, Kind, PAYLOAD_MAX, Question, read, unframed};
use thalweg_dns::{Families, Follow, Key, Name, Preference, Resolver, Settings};

fuzz_target!(|bytes: &[u8]| {
    let name = Name::new("www.test").expect("a name");
    for kind in [Kind::V4, Kind::V6, Kind::Service] {
        let question = Question { name: name.clone(), kind };
        if let Ok(answer) = read(bytes, &question, PAYLOAD_MAX) {
            let found = match answer.found {
                Found::Addresses(found) => found.len(),
                Found::Services(found) => found.len(),
            };
            assert!(found > 0 && found <= bytes.len());
        }
    }
    let _ = unframed(bytes);
    let mut settings = Settings { streams: vec![false], ..Settings::default() };
    settings.tries = 2;
    let mut resolver = Resolver::new(settings, Box::new(|| 7));
    let preference = Preference {
        families: Families::V4First,
        networks: Vec::new(),
        duplicates: false,
        ignore_weight: false,
    };
    resolver.follow(Key { group: 0, server: 0 }, Follow { name, preference, address: None }, 0);
    resolver.handle_deadline(0);
    let mut message = bytes.to_vec();
    if message.len() > 1 {
        message[..2].copy_from_slice(&7u16.to_be_bytes());
    }
    resolver.handle(0, false, &message, 1);
    for second in 1..20 {
        resolver.handle_deadline(second * 1000);
        while resolver.poll_transmit().is_some() {}
        while resolver.poll_event().is_some() {}
        assert!(resolver.deadline().is_some_and(|due| due > second * 1000));
    }
});
